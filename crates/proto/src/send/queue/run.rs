//! Messages that wait one after the other and are alike.

use bytes::Bytes;

use super::limit::Limit;
use crate::message::{Message, MessagePayload, Reliability};

/// Waiting messages that follow each other and differ only in content and in a PPID that grows evenly. The send buffer of an endless
/// flow of the simulator, which numbers its messages by PPID, holds hundreds of such messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) kind: Kind,
    pub(super) context: u32,
    /// Of the first message.
    pub(super) ppid: u32,
    /// From each message to the next, modulo 2^32; 0 as long as there is one.
    pub(super) ppid_step: u32,
    /// Number of zero bytes of each message, if they have no content.
    pub(super) zeros: u32,
    /// Number of messages, at least 1.
    pub(super) count: u32,
}

/// What is the same for all messages of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) stream: u16,
    pub(super) has_content: bool,
    pub(super) unordered: bool,
    pub(super) immediate: bool,
    /// Longer than a share of the send buffer.
    pub(super) is_long: bool,
    pub(super) limit: Limit,
}

impl Run {
    /// Returns the first message.
    pub(super) fn message(&self, content: Option<Bytes>) -> Message {
        Message {
            stream: self.kind.stream,
            ppid: self.ppid,
            unordered: self.kind.unordered,
            immediate: self.kind.immediate,
            context: self.context,
            reliability: Reliability::Full,
            payload: content.map_or(MessagePayload::Zeros(self.zeros), MessagePayload::Bytes),
        }
    }

    /// Appends a message, unless it differs.
    #[inline]
    pub(super) fn join(&mut self, next: &Run) -> bool {
        let alike = self.kind == next.kind && self.context == next.context && self.zeros == next.zeros;
        let step = if self.count == 1 {
            next.ppid.wrapping_sub(self.ppid)
        } else {
            self.ppid_step
        };
        let follows = next.ppid == self.ppid.wrapping_add(step.wrapping_mul(self.count));
        if alike && follows {
            self.ppid_step = step;
            self.count += 1;
        }
        alike && follows
    }

    /// Returns the number of its messages that have content.
    pub(super) fn contents(&self) -> usize {
        if self.kind.has_content { self.count as usize } else { 0 }
    }

    /// Removes the first message. Unless it is the only one, the next one becomes the first.
    pub(super) fn drop_first(&mut self) {
        self.count -= 1;
        self.ppid = self.ppid.wrapping_add(self.ppid_step);
    }
}
