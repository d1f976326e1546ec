//! The DTLS chunks of one association.

use whimbrel_control::Time;
use whimbrel_wire::{Chunk, Dtls, PacketView};

use super::handshake::PeerIdentity;
use super::manager::{Manager, TAG_LEN};
use super::opening::{Arrival, OpenKeys, Opened};
use super::sealing::{SealKeys, Sealing, packet_overhead};
use super::{KeyExchange, KeySource, ProtectionConfig, ProtectionStats};
use crate::PathId;
use crate::config::NEVER;
use crate::error::Discard;

/// The keys of an association whose ends have agreed on DTLS chunks. Without keys, nothing is sent and nothing is received.
#[derive(Debug)]
pub(crate) struct Protection {
    pub(super) source: std::sync::Arc<dyn KeySource>,
    pub(super) exchange: KeyExchange,
    pub(super) sealing: Option<SealKeys>,
    pub(super) opening: Option<OpenKeys>,
    /// Present only with a method that exchanges messages. Otherwise keys are derived.
    pub(super) manager: Option<Box<Manager>>,
    /// A packet of the peer has been opened: it has the keys, and has received the COOKIE ACK.
    pub(super) is_confirmed: bool,
    /// When to ask the peer again for a packet that opens; `NEVER` if the user does not wait for one.
    proof_due: Time,
    pub(super) stats: ProtectionStats,
    /// When the association ended, and whether both ends wanted that.
    ended: Option<(Time, bool)>,
}

impl Protection {
    /// Makes the keys of an association; `None` if the configuration has no source of keys. With a method that exchanges messages, there are
    /// no keys yet.
    // [dtls:3.1-1, 5.1-8]
    pub(crate) fn new(config: &ProtectionConfig, exchange: KeyExchange) -> Option<Self> {
        let source = config.keys.clone()?;
        let manager = source
            .has_messages(exchange.method)
            .then(|| Box::new(Manager::new(config)));
        let (sealing, opening) = match &manager {
            None => (SealKeys::new(&*source, &exchange), OpenKeys::new(&*source, &exchange)),
            Some(_) => (None, None),
        };
        Some(Protection {
            sealing,
            opening,
            source,
            exchange,
            manager,
            is_confirmed: false,
            proof_due: NEVER,
            stats: ProtectionStats::default(),
            ended: None,
        })
    }

    pub(crate) fn exchange(&self) -> &KeyExchange {
        &self.exchange
    }

    pub(crate) fn stats(&self) -> ProtectionStats {
        self.stats
    }

    /// Returns whether the peer has shown that it has the keys.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// Returns whether the keys come from a method that exchanges messages.
    pub(crate) fn is_managed(&self) -> bool {
        self.manager.is_some()
    }

    /// Returns whether packets must be encrypted, which they are from the handshake on unless messages have to be exchanged for the keys
    /// (draft, "Require Protected SCTP Packets").
    pub(crate) fn is_in_force(&self) -> bool {
        self.manager.as_ref().is_none_or(|manager| manager.is_in_force())
    }

    /// Returns who the peer is, once a method has authenticated it.
    pub(crate) fn peer(&self) -> Option<&PeerIdentity> {
        self.manager.as_ref()?.peer()
    }

    /// A packet of this length was sent or received, encrypted.
    pub(crate) fn count(&mut self, bytes: usize) {
        if let Some(manager) = &mut self.manager {
            manager.count(bytes);
        }
    }

    /// Returns whether one of the keys must not be used any more (RFC 9147 §4.5.3), or whether there are none.
    pub(crate) fn is_used_up(&self) -> bool {
        if !self.is_in_force() {
            return false;
        }
        self.sealing.as_ref().is_none_or(SealKeys::is_used_up) || self.opening.as_ref().is_none_or(OpenKeys::is_used_up)
    }

    /// Returns the bytes that a packet has more than its chunks.
    pub(crate) fn packet_overhead(&self) -> usize {
        match (&self.sealing, &self.manager) {
            (Some(keys), _) => keys.len(),
            // Chunks that are sent before have to fit into a packet later, too.
            (None, Some(_)) => packet_overhead(TAG_LEN),
            (None, None) => 0,
        }
    }

    /// Returns the keys for one packet; `None` if nothing may be sent any more.
    pub(crate) fn seal(&mut self) -> Option<Sealing> {
        let source = self.manager.is_none().then_some((&*self.source, &self.exchange));
        let keys = self.sealing.as_mut()?;
        let epoch = keys.epoch();
        let sealing = keys.take(source)?;
        self.stats.epochs_sent += keys.epoch() - epoch;
        self.stats.sealed += 1;
        Some(sealing)
    }

    /// Opens a DTLS chunk that arrived on this path, if it is known. `plain` has the chunks then. It counts as received only when it is
    /// [accepted](Self::accept).
    ///
    /// # Errors
    /// Returns an error if the chunk is not authentic, or was received before.
    // [dtls:5.4-11]
    pub(crate) fn open(
        &mut self,
        now: Time,
        from: Option<PathId>,
        dtls: &Dtls<'_>,
        plain: &mut Vec<u8>,
    ) -> Result<Opened, Discard> {
        // The draft, "SCTP Restart Considerations": without support for protected restarts, silently discarded.
        let Some(keys) = self.opening.as_mut().filter(|_| !dtls.restart) else {
            return Err(Discard::Unprotected);
        };
        let source = self.manager.is_none().then_some((&*self.source, &self.exchange));
        keys.open(Arrival { now, from, dtls }, plain, source, &mut self.stats)
    }

    /// An opened chunk has come from a known place: it is marked as received.
    pub(crate) fn accept(&mut self, now: Time, from: Option<PathId>, opened: Opened) {
        if let Some(keys) = &mut self.opening {
            keys.accept(now, from, opened, &mut self.stats);
            self.is_confirmed = true;
        }
    }

    /// Opens a packet that consists of a DTLS chunk.
    ///
    /// # Errors
    /// Returns an error if the packet must be silently discarded.
    // [dtls:5.2-5]
    pub(crate) fn open_packet(
        &mut self,
        now: Time,
        from: Option<PathId>,
        packet: &PacketView<'_>,
        plain: &mut Vec<u8>,
    ) -> Result<Opened, Discard> {
        let mut chunks = packet.chunks();
        match (chunks.next(), chunks.next()) {
            (Some(Ok(Chunk::Dtls(dtls))), None) => self.open(now, from, &dtls, plain),
            // The draft, "DTLS Chunk Handling": bundled with any other chunk, the entire packet is discarded.
            (Some(Ok(Chunk::Dtls(_))), Some(_)) => Err(Discard::Bundled),
            _ => Err(Discard::InvalidChunk),
        }
    }

    /// The association is established, and its user waits until the peer shows that it has the keys. `due`: when to ask again.
    pub(crate) fn await_proof(&mut self, due: Time) {
        self.proof_due = due;
    }

    pub(crate) fn proof_due(&self) -> Time {
        self.proof_due
    }

    /// Returns whether the user has waited for the packet that was opened, once.
    pub(crate) fn take_proof(&mut self) -> bool {
        core::mem::replace(&mut self.proof_due, NEVER) != NEVER
    }

    /// The association has ended.
    pub(crate) fn end(&mut self, now: Time, is_graceful: bool) {
        self.proof_due = NEVER;
        if let Some(manager) = &mut self.manager {
            manager.end();
        }
        self.ended = Some((now, is_graceful));
    }

    /// Returns when the association ended, and whether both ends wanted that.
    pub(crate) fn ended(&self) -> Option<(Time, bool)> {
        self.ended
    }

    /// Takes the keys of an association that has ended, once. The counters stay.
    pub(crate) fn take_ended(&mut self) -> Option<Self> {
        let ended = Some(self.ended?);
        let mut keys = Protection {
            source: self.source.clone(),
            exchange: self.exchange,
            sealing: Some(self.sealing.take()?),
            opening: Some(self.opening.take()?),
            manager: self.manager.take(),
            is_confirmed: self.is_confirmed,
            proof_due: NEVER,
            stats: self.stats,
            ended,
        };
        keys.release();
        Some(keys)
    }

    /// A packet without a DTLS chunk was discarded.
    pub(crate) fn note_unprotected(&mut self) {
        self.stats.unprotected += 1;
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let manager = self.manager.as_ref().map_or(0, |manager| manager.heap_bytes());
        size_of::<Self>() + self.opening.as_ref().map_or(0, OpenKeys::heap_bytes) + manager
    }

    /// Releases the memory of earlier transfers.
    pub(crate) fn release(&mut self) {
        if let Some(keys) = &mut self.opening {
            keys.release(self.manager.is_none());
        }
    }
}
