//! The state of address changes in both directions.

use super::request::Request;
use crate::{PathId, TransportAddr};

/// The outstanding ASCONF; there is at most one (RFC 5061 §5.1).
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) serial: u32,
    pub(super) requests: Vec<Request>,
    pub(super) parameters: Box<[u8]>,
    /// The path on which it was last sent.
    pub(super) path: PathId,
    /// How often it has been sent. Until the first time, further requests are added to it.
    pub(super) attempts: u32,
    /// It was sent from another local address than its requests require.
    pub(super) misplaced: bool,
}

impl Pending {
    /// Returns the local address from which the ASCONF must be sent, if there is one.
    pub(super) fn source(&self) -> Option<TransportAddr> {
        let first = self.requests.first()?;
        first.is_by_source().then(|| first.addr())
    }
}

/// State of both directions of address changes.
#[derive(Debug)]
pub(crate) struct AsconfState {
    /// Serial number of the next ASCONF.
    pub(super) next_serial: u32,
    pub(super) pending: Option<Pending>,
    pub(super) waiting: Vec<Request>,
    /// Serial number of the peer's latest ASCONF, and the ASCONF-ACK that answered it, for retransmissions.
    pub(super) peer_serial: u32,
    pub(super) answer: Option<Box<[u8]>>,
    /// Local addresses that the peer knows.
    pub(super) announced: Vec<TransportAddr>,
    /// Local addresses that the INIT did not list, until the association is established.
    pub(in super::super) hidden: Vec<TransportAddr>,
}

impl AsconfState {
    pub(in super::super) fn heap_bytes(&self) -> usize {
        let pending = self.pending.as_ref().map_or(0, |pending| {
            pending.requests.capacity() * size_of::<Request>() + pending.parameters.len()
        });
        size_of::<Self>()
            + pending
            + self.waiting.capacity() * size_of::<Request>()
            + self.answer.as_ref().map_or(0, |answer| answer.len())
            + (self.announced.capacity() + self.hidden.capacity()) * size_of::<TransportAddr>()
    }

    /// Withdraws an ASCONF that has not been sent yet; its requests wait again.
    pub(super) fn recall(&mut self) {
        if let Some(pending) = self.pending.take_if(|pending| pending.attempts == 0) {
            self.next_serial = pending.serial;
            self.waiting.splice(0..0, pending.requests);
        }
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = Request> + '_ {
        let pending = self.pending.iter().flat_map(|pending| &pending.requests);
        pending.chain(&self.waiting).copied()
    }
}
