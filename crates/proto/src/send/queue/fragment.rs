//! A chunk's part of a message.

use crate::message::MessagePayload;

/// User data of one DATA or I-DATA chunk, cut from a message (RFC 9260 §6.9, RFC 8260 §2.1).
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) stream: u16,
    /// The number of the message: the stream sequence number of an ordered one, 0 for an unordered one; with interleaving, the message
    /// identifier of either.
    pub(crate) number: u32,
    /// Fragment sequence number; 0 without interleaving.
    pub(crate) fsn: u32,
    pub(crate) ppid: u32,
    /// The user's number for the message.
    pub(crate) context: u32,
    pub(crate) unordered: bool,
    pub(crate) immediate: bool,
    pub(crate) begin: bool,
    pub(crate) end: bool,
    /// Of a message that is long for the send buffer.
    pub(crate) is_long: bool,
    pub(crate) payload: MessagePayload,
}
