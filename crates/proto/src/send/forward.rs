//! The FORWARD TSN that was sent last.

use whimbrel_control::{Seq, Time};

/// The FORWARD TSN that was sent last.
#[derive(Debug)]
pub(crate) struct Forward {
    /// The highest position of a FORWARD TSN that was sent.
    pub(crate) to: Seq,
    /// The first position that the peer had not acknowledged then.
    pub(crate) base: Seq,
    /// When it was sent.
    pub(crate) sent_at: Time,
}
