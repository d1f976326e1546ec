//! Encrypted associations that have ended, for a while: a peer that has not learnt of the end.
//!
//! SHUTDOWN COMPLETE and ABORT are sent once. If one is lost, the peer sends again, and RFC 9260 §8.4 answers it out of the blue. A peer that
//! requires protected packets discards such an answer, and would repeat its SHUTDOWN ACK for minutes. The keys of the association are kept
//! therefore, and the answer is encrypted.

use std::collections::VecDeque;

use whimbrel_control::{Span, Time};
use whimbrel_wire::{ChunkType, CommonHeader, PacketView};

use super::reply::{Guard, ReplyChunk};
use crate::error::Discard;
use crate::protection::Protection;

/// How long the keys are kept: a peer repeats SHUTDOWN ACK after an RTO, which is at most 60 s by default.
const KEEP: Span = Span::from_secs(120);

/// How many are kept, the latest ones. One takes about 600 bytes.
const MAX: usize = 1024;

/// An association that has ended.
#[derive(Debug)]
pub(crate) struct Farewell {
    pub(crate) local_tag: u32,
    pub(crate) peer_tag: u32,
    /// The local port and the peer's.
    pub(crate) ports: (u16, u16),
    /// Its keys, and how it ended.
    pub(crate) protection: Protection,
}

/// The associations that have ended, the latest last.
#[derive(Debug, Default)]
pub(super) struct Farewells {
    queue: VecDeque<Farewell>,
}

impl Farewells {
    pub(super) fn push(&mut self, farewell: Farewell) {
        self.forget(farewell.ended().0);
        if self.queue.len() >= MAX {
            self.queue.pop_front();
        }
        self.queue.push_back(farewell);
    }

    fn forget(&mut self, now: Time) {
        while self
            .queue
            .pop_front_if(|farewell| farewell.ended().0 + KEEP < now)
            .is_some()
        {}
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
    }

    /// Returns the tag and the answer to a packet with a DTLS chunk; `None` if the packet belongs to none of these associations.
    ///
    /// # Errors
    /// Returns an error if the packet must be silently discarded.
    pub(super) fn answer(
        &mut self,
        now: Time,
        packet: &PacketView<'_>,
        plain: &mut Vec<u8>,
    ) -> Option<Result<(u32, ReplyChunk, Guard), Discard>> {
        self.forget(now);
        let CommonHeader {
            source_port,
            destination_port,
            verification_tag,
        } = packet.header();
        let is_of = |farewell: &&mut Farewell| {
            farewell.local_tag == verification_tag && farewell.ports == (destination_port, source_port)
        };
        let farewell = self.queue.iter_mut().rev().find(is_of)?;
        Some(farewell.answer(now, packet, plain))
    }
}

impl Farewell {
    /// Returns when it ended, and whether the peer has to learn of that by SHUTDOWN COMPLETE, not by ABORT.
    fn ended(&self) -> (Time, bool) {
        self.protection.ended().unwrap_or_default()
    }

    // RFC 9260 §8.4, rules 2, 5 and 8
    fn answer(
        &mut self,
        now: Time,
        packet: &PacketView<'_>,
        plain: &mut Vec<u8>,
    ) -> Result<(u32, ReplyChunk, Guard), Discard> {
        let opened = self.protection.open_packet(now, None, packet, plain)?;
        self.protection.accept(now, None, opened);
        let inner = packet.with_chunks(plain);
        let mut types = inner.chunks().map_while(Result::ok).map(|chunk| chunk.chunk_type());
        if types.any(|kind| matches!(kind, ChunkType::ABORT | ChunkType::SHUTDOWN_COMPLETE)) {
            return Err(Discard::OutOfTheBlue);
        }
        let chunk = if !self.ended().1 {
            ReplyChunk::Abort {
                reflected: false,
                causes: Box::default(),
            }
        } else if inner.first_chunk_type() == Some(ChunkType::SHUTDOWN_ACK) {
            ReplyChunk::ShutdownComplete { reflected: false }
        } else {
            return Err(Discard::OutOfTheBlue);
        };
        let keys = self.protection.seal().ok_or(Discard::Limit)?;
        Ok((self.peer_tag, chunk, Guard::Sealed(keys)))
    }
}
