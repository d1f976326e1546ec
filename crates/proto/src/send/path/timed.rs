//! The measurement of a round-trip time (RFC 9260 §6.3.1).

use core::num::NonZeroU64;

use whimbrel_control::{Seq, Time};

/// A chunk whose round-trip time is being measured. The position is stored plus one, so that an `Option` of it needs no
/// extra space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timed {
    end: NonZeroU64,
    sent_at: Time,
}

impl Timed {
    pub(crate) fn new(seq: Seq, sent_at: Time) -> Self {
        Timed {
            end: NonZeroU64::MIN.saturating_add(seq),
            sent_at,
        }
    }

    /// Returns the chunk's position.
    pub(crate) fn seq(self) -> Seq {
        self.end.get() - 1
    }
}
