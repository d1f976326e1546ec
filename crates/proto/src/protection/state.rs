//! The DTLS chunks of one association.

use whimbrel_control::Time;
use whimbrel_wire::{Chunk, Dtls, PacketView};

use super::opening::{Arrival, OpenKeys, Opened};
use super::sealing::{SealKeys, Sealing};
use super::{KeyExchange, KeySource, ProtectionConfig, ProtectionStats};
use crate::PathId;
use crate::config::NEVER;
use crate::error::Discard;

/// The keys of an association whose ends have agreed on DTLS chunks. Without keys, nothing is sent and nothing is received.
#[derive(Debug)]
pub(crate) struct Protection {
    source: std::sync::Arc<dyn KeySource>,
    exchange: KeyExchange,
    sealing: Option<SealKeys>,
    opening: Option<OpenKeys>,
    /// A packet of the peer has been opened: it has the keys, and has received the COOKIE ACK.
    is_confirmed: bool,
    /// When to ask the peer again for a packet that opens; `NEVER` if the user does not wait for one.
    proof_due: Time,
    stats: ProtectionStats,
    /// When the association ended, and whether both ends wanted that.
    ended: Option<(Time, bool)>,
}

impl Protection {
    /// Makes the keys of an association; `None` if the configuration has no source of keys.
    // [dtls:3.1-1, 5.1-8]
    pub(crate) fn new(config: &ProtectionConfig, exchange: KeyExchange) -> Option<Self> {
        let source = config.keys.clone()?;
        Some(Protection {
            sealing: SealKeys::new(&*source, &exchange),
            opening: OpenKeys::new(&*source, &exchange),
            source,
            exchange,
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

    /// Returns whether one of the keys must not be used any more (RFC 9147 §4.5.3), or whether there are none.
    pub(crate) fn is_used_up(&self) -> bool {
        self.sealing.as_ref().is_none_or(SealKeys::is_used_up) || self.opening.as_ref().is_none_or(OpenKeys::is_used_up)
    }

    /// Returns the bytes that a packet has more than its chunks.
    pub(crate) fn packet_overhead(&self) -> usize {
        self.sealing.as_ref().map_or(0, SealKeys::len)
    }

    /// Returns the keys for one packet; `None` if nothing may be sent any more.
    pub(crate) fn seal(&mut self) -> Option<Sealing> {
        let keys = self.sealing.as_mut()?;
        let epoch = keys.epoch();
        let sealing = keys.take(&*self.source, &self.exchange)?;
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
        let source = (&*self.source, &self.exchange);
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
        size_of::<Self>() + self.opening.as_ref().map_or(0, OpenKeys::heap_bytes)
    }

    /// Releases the memory of earlier transfers.
    pub(crate) fn release(&mut self) {
        if let Some(keys) = &mut self.opening {
            keys.release();
        }
    }
}
