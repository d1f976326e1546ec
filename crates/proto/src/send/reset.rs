//! Resets of outbound streams (RFC 6525 §5.1.2). The association exchanges the requests and responses.

use whimbrel_control::Seq;
use whimbrel_wire::Tsn;

use super::Sending;
use crate::streams::StreamList;

impl Sending {
    /// These streams are about to be reset: messages that the user sends from now on wait for [`Sending::end_reset`].
    pub(crate) fn keep_back(&mut self, streams: StreamList) {
        self.queue.keep_back(streams);
    }

    /// Returns whether one of these streams is about to be reset.
    pub(crate) fn is_kept_back(&self, streams: &StreamList) -> bool {
        self.queue.is_kept_back(streams)
    }

    /// Returns whether nothing but a reset keeps messages from being sent.
    pub(crate) fn waits_for_reset(&self) -> bool {
        self.queue.keeps_back() && self.queue.is_empty() && self.outstanding.is_empty()
    }

    /// Returns whether all earlier messages of streams that are about to be reset have a TSN.
    pub(crate) fn are_drained(&self, streams: &StreamList) -> bool {
        self.queue.are_drained(streams)
    }

    /// Returns whether the next numbered messages of these streams have the number 0 without a reset.
    pub(crate) fn are_fresh(&self, streams: &StreamList) -> bool {
        self.queue.are_fresh(streams)
    }

    /// The request to reset these streams is sent for the first time. Returns the last TSN that has been assigned.
    pub(crate) fn begin_reset(&mut self, streams: &StreamList) -> Tsn {
        let next = self.outstanding.next_seq();
        self.queue.on_reset_requested(streams, next);
        self.last_tsn()
    }

    /// Returns the last TSN that has been assigned.
    // [6525:5.1.2-5]
    pub(crate) fn last_tsn(&self) -> Tsn {
        let next = self.outstanding.next_seq();
        self.outstanding.tsn(next.wrapping_sub(1))
    }

    /// Returns the position up to which a FORWARD TSN may go. None goes across a reset: it could arrive after the reset has been performed, and
    /// the old numbers that it names would skip new messages.
    pub(in crate::send) fn forward_to(&mut self) -> Seq {
        let to = self.outstanding.forward_to();
        match self.queue.first_after_reset() {
            Some(first_after) if self.outstanding.base() < first_after => to.min(first_after),
            _ => to,
        }
    }

    /// The peer has answered the request to reset these streams. `reset_at`: it has reset them, and everything up to this TSN has arrived or
    /// is given up.
    pub(crate) fn end_reset(&mut self, streams: &StreamList, reset_at: Option<Tsn>) {
        self.queue.end_reset(streams, reset_at.is_some());
        // A FORWARD TSN that names an old number would skip new messages with it.
        if let Some(seq) = reset_at.and_then(|tsn| self.outstanding.seq_of(tsn)) {
            self.outstanding.settle_up_to(seq);
        }
    }
}
