//! Number of ordered messages in the ring, by stream. A stream has less than 2^16 of them (RFC 9260 §6.1).

use crate::send::queue::Fragment;

/// Number of ordered messages that have been sent at least in part and are not cumulatively acknowledged, by stream.
#[derive(Debug, Default)]
pub(super) struct OrderedMessages(Vec<u32>);

impl OrderedMessages {
    /// Counts the messages of these fragments, which follow each other. The first fragment of the first message may be missing.
    pub(super) fn of<'f>(fragments: impl Iterator<Item = &'f Fragment>) -> Self {
        let mut counts = OrderedMessages::default();
        for (place, fragment) in fragments.enumerate() {
            if fragment.begin || place == 0 {
                counts.add(fragment, 1);
            }
        }
        counts
    }

    /// Returns the number of messages of a stream.
    pub(super) fn on_stream(&self, stream: u16) -> u32 {
        self.0.get(usize::from(stream)).copied().unwrap_or(0)
    }

    /// Counts the message whose first fragment is sent.
    pub(super) fn on_sent(&mut self, fragment: &Fragment) {
        if fragment.begin {
            self.add(fragment, 1);
        }
    }

    /// Counts the message whose last fragment is cumulatively acknowledged.
    pub(super) fn on_acked(&mut self, fragment: &Fragment) {
        if fragment.end {
            self.add(fragment, -1);
        }
    }

    fn add(&mut self, fragment: &Fragment, change: i32) {
        if fragment.unordered {
            return;
        }
        let stream = usize::from(fragment.stream);
        if stream >= self.0.len() {
            self.0.resize(stream + 1, 0);
        }
        self.0[stream] = self.0[stream].saturating_add_signed(change);
    }
}
