//! Encrypted associations that have ended, for a while: a peer that has not learnt of the end.
//!
//! SHUTDOWN COMPLETE and ABORT are sent once. If one is lost, the peer sends again, and RFC 9260 §8.4 answers it out of the blue. A peer that
//! requires protected packets discards such an answer, and would repeat its SHUTDOWN ACK for minutes. The keys of the association are kept
//! therefore, and the answer is encrypted.
//!
//! Only associations whose peer has shown that it has the keys are kept: others are opened by anyone, and would take the room.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use whimbrel_control::{Span, Time};
use whimbrel_wire::{ChunkType, CommonHeader, PacketView};

use super::reply::{Guard, ReplyChunk};
use super::table::TagHasher;
use crate::TransportAddr;
use crate::error::Discard;
use crate::protection::Protection;

/// How long the keys are kept: a peer repeats SHUTDOWN ACK after an RTO, which is at most 60 s by default.
const KEEP: Span = Span::from_secs(120);

/// How many are kept, the latest ones. One takes about 700 bytes.
const MAX: usize = 1024;

/// An association that has ended.
#[derive(Debug)]
pub(crate) struct Farewell {
    pub(crate) local_tag: u32,
    pub(crate) peer_tag: u32,
    /// The local port and the peer's.
    pub(crate) ports: (u16, u16),
    /// The addresses of the peer. A copy of a packet from elsewhere must not take the answer from it.
    pub(crate) remotes: Box<[TransportAddr]>,
    /// Its keys, and how it ended.
    pub(crate) protection: Protection,
}

/// The associations that have ended.
#[derive(Debug, Default)]
pub(super) struct Farewells {
    by_tag: HashMap<u32, Farewell, BuildHasherDefault<TagHasher>>,
    /// When each ended and its local tag, the latest last.
    queue: VecDeque<(Time, u32)>,
}

impl Farewells {
    pub(super) fn push(&mut self, farewell: Farewell) {
        let (ended, tag) = (farewell.ended().0, farewell.local_tag);
        self.forget(ended);
        if self.queue.len() >= MAX {
            self.drop_first();
        }
        self.queue.push_back((ended, tag));
        self.by_tag.insert(tag, farewell);
    }

    fn forget(&mut self, now: Time) {
        while self.queue.front().is_some_and(|(ended, _)| *ended + KEEP < now) {
            self.drop_first();
        }
        if self.queue.is_empty() {
            *self = Farewells::default();
        }
    }

    fn drop_first(&mut self) {
        let first = self.queue.pop_front();
        // The tag may have been used again.
        if let Some((ended, tag)) = first
            && self.by_tag.get(&tag).is_some_and(|one| one.ended().0 == ended)
        {
            self.by_tag.remove(&tag);
        }
    }

    /// Returns whether one of these associations has this local tag.
    pub(super) fn has(&self, tag: u32) -> bool {
        self.by_tag.contains_key(&tag)
    }

    /// Returns the association that a packet belongs to.
    pub(super) fn find(&mut self, now: Time, packet: &PacketView<'_>) -> Option<&mut Farewell> {
        self.forget(now);
        let CommonHeader {
            source_port,
            destination_port,
            verification_tag,
        } = packet.header();
        let farewell = self.by_tag.get_mut(&verification_tag)?;
        (farewell.ports == (destination_port, source_port)).then_some(farewell)
    }
}

impl Farewell {
    /// Returns when it ended, and whether the peer has to learn of that by SHUTDOWN COMPLETE, not by ABORT.
    fn ended(&self) -> (Time, bool) {
        self.protection.ended().unwrap_or_default()
    }

    /// Returns the tag and the answer to a packet with a DTLS chunk.
    ///
    /// # Errors
    /// Returns an error if the packet must be silently discarded.
    // RFC 9260 §8.4, rules 2, 5 and 8
    pub(super) fn answer(
        &mut self,
        now: Time,
        remote: TransportAddr,
        packet: &PacketView<'_>,
        plain: &mut Vec<u8>,
    ) -> Result<(u32, ReplyChunk, Guard), Discard> {
        if !self.remotes.contains(&remote) {
            return Err(Discard::OutOfTheBlue);
        }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use whimbrel_wire::{Chunk, OwnedPacket, PacketSink};

    use super::*;
    use crate::protection::{InsecureNullKeys, ProtectionConfig, own_offer};
    use crate::protection::{KeyExchange, Party};

    fn farewell(local_tag: u32, ended: Time) -> Farewell {
        let config = ProtectionConfig::required(Arc::new(InsecureNullKeys));
        let party = |tag| Party {
            offer: own_offer(&config, tag).expect("it has keys"),
            tag,
            initial_tsn: tag,
        };
        let exchange = KeyExchange::of(party(local_tag), party(u32::MAX)).expect("it fits");
        let mut protection = Protection::new(&config, exchange).expect("it has keys");
        protection.end(ended, true);
        Farewell {
            local_tag,
            peer_tag: u32::MAX,
            ports: (1, 2),
            remotes: Box::default(),
            protection,
        }
    }

    fn finds(farewells: &mut Farewells, now: Time, verification_tag: u32, source_port: u16) -> bool {
        let mut packet = OwnedPacket::new();
        packet.begin(CommonHeader {
            source_port,
            destination_port: 1,
            verification_tag,
        });
        packet.push(&Chunk::ShutdownAck);
        packet.finish();
        farewells.find(now, &packet.view()).is_some()
    }

    #[test]
    fn the_latest_are_found_by_tag_and_ports_for_two_minutes() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let mut farewells = Farewells::default();
        for tag in 0..2000_u32 {
            farewells.push(farewell(tag, at(u64::from(tag))));
        }
        for (tag, found) in [(0, false), (975, false), (976, true), (1999, true), (2000, false)] {
            assert_eq!(finds(&mut farewells, at(2000), tag, 2), found, "{tag}");
            assert!(!finds(&mut farewells, at(2000), tag, 3));
        }
        assert_eq!((farewells.by_tag.len(), farewells.queue.len()), (MAX, MAX));
        assert!(!finds(&mut farewells, at(121_500), 1499, 2) && finds(&mut farewells, at(121_500), 1500, 2));
        // A tag that was used again.
        farewells.push(farewell(1600, at(121_500)));
        assert!(finds(&mut farewells, at(122_500), 1600, 2));
        assert!(!finds(&mut farewells, at(250_000), 1600, 2));
        assert_eq!(farewells.by_tag.capacity() + farewells.queue.capacity(), 0);
    }
}
