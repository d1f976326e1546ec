//! Demultiplexing: finds the association of a packet and handles packets without one (RFC 9260 §8.4, §8.5).

use std::sync::Arc;

use whimbrel_control::Time;
use whimbrel_wire::{Cause, Checksum, Chunk, ChunkError, ChunkType, PacketView};

use super::{Endpoint, Guard, Reply, ReplyChunk, context};
use crate::address::{PacketMeta, is_unicast};
use crate::association::Signer;
use crate::context::Context;
use crate::error::Discard;

/// Returns whether an AUTH chunk is followed by COOKIE ECHO: it precedes the chunks that it authenticates (RFC 4895 §6.2).
fn authenticates_cookie_echo(packet: &PacketView<'_>) -> bool {
    matches!(packet.chunks().nth(1), Some(Ok(Chunk::CookieEcho { .. })))
}

impl Endpoint {
    /// Returns whether a packet with a checksum of zero needs no correct CRC32c: its association has offered to accept that (RFC 9653
    /// §5.3). INIT and COOKIE ECHO are not processed by an association, and so always have a correct one (§5.2). The association is found
    /// at less cost than the CRC32c is computed.
    // [9653:5.3-1, 5.3-2]
    #[inline(never)]
    pub(super) fn accepts_zero_checksum(&self, datagram: &[u8]) -> bool {
        let Ok(packet) = PacketView::parse(datagram, Checksum::Ignore) else {
            return false;
        };
        let header = packet.header();
        let tag = header.verification_tag;
        let needs_one = match packet.first_chunk_type() {
            Some(ChunkType::INIT | ChunkType::COOKIE_ECHO) => true,
            Some(ChunkType::AUTH) => authenticates_cookie_echo(&packet),
            _ => false,
        };
        let index = self.table.by_tag(tag);
        index.and_then(|index| self.table.at(index)).is_some_and(|association| {
            let is_for_it = association.ports() == (header.destination_port, header.source_port);
            is_for_it && association.accepts_zero_checksum() && !needs_one
        })
    }

    // [9260:1.3-3, 3-1, 6.10-8, 3.1-1, 3.1-2, 8.4-1, 8.4-3, 8.4-5, 8.5-2, 8.5.1-2, 8.5.1-3, 12.3-2, 5.1.2-6]
    pub(super) fn dispatch(&mut self, now: Time, meta: PacketMeta, packet: &PacketView<'_>) -> Result<(), Discard> {
        let header = packet.header();
        let Some(mut first) = packet.first_chunk_type() else {
            return Err(Discard::Malformed);
        };
        if header.source_port == 0 || header.destination_port == 0 {
            return Err(Discard::Malformed);
        }
        if header.destination_port != self.config.local_port {
            return self.on_other_port(now, meta, packet, first);
        }
        // RFC 9260 §8.4 rule 1: an association has only unicast addresses.
        if !is_unicast(meta.remote.ip()) || !is_unicast(meta.local.ip()) {
            return Err(Discard::OutOfTheBlue);
        }
        // RFC 9260 §6.10: INIT, INIT ACK and SHUTDOWN COMPLETE must not be bundled.
        if first.must_be_alone() && packet.chunks().nth(1).is_some() {
            return Err(Discard::Bundled);
        }
        if first == ChunkType::AUTH && authenticates_cookie_echo(packet) {
            first = ChunkType::COOKIE_ECHO;
        }
        match first {
            ChunkType::INIT | ChunkType::COOKIE_ECHO if !self.unassociated.admit(now, meta.remote.ip()) => {
                return Err(Discard::Flood);
            }
            ChunkType::INIT if header.verification_tag == 0 => return self.on_init(now, meta, packet),
            // RFC 9260 §12.3: silently discarded. This MUST takes precedence over §8.4 rule 8, a SHOULD, which requires
            // an ABORT.
            ChunkType::INIT => return Err(Discard::VerificationTag),
            ChunkType::COOKIE_ECHO => return self.on_cookie_echo(now, meta, packet),
            _ if header.verification_tag == 0 => return Err(Discard::VerificationTag),
            _ => {}
        }
        let Some(index) = self.table.by_tag(header.verification_tag) else {
            if first == ChunkType::DTLS && self.farewells.find(now, packet).is_some() {
                return self.answer_farewell(now, meta, packet);
            }
            return self.on_unknown_tag(now, meta, packet);
        };
        let Some(association) = self.table.at_mut(index) else {
            return Err(Discard::OutOfTheBlue);
        };
        if association.ports().1 != header.source_port {
            return self.out_of_the_blue(now, meta, packet);
        }
        if association.is_protected() {
            if first == ChunkType::DTLS {
                return self.on_protected(now, meta, packet, index);
            }
            if !association.admits_unprotected(packet) {
                return Err(Discard::Unprotected);
            }
        }
        let from = match association.sending().path_of_packet(&meta) {
            Some(from) => from,
            // RFC 9260 §5.1.2 D
            None if association.is_named_in_init_ack(packet) || association.is_named_in_asconf(packet) => {
                association.sending_path()
            }
            // The packet was sent before the address was removed, and the removal request overtook it. An ABORT would
            // end an association that exists on other addresses.
            None if association.sending().was_removed(meta.remote) => return Err(Discard::OutOfTheBlue),
            // The tag identifies the association, so the packet is not out of the blue (§8.4). A NAT has given it an
            // unknown source. An ABORT would end an association that exists on other addresses.
            None if association.state().is_established() => return Err(Discard::OutOfTheBlue),
            None => return self.out_of_the_blue(now, meta, packet),
        };
        let result = association.on_packet(context!(self, now), meta, from, packet, false);
        self.after_change(index);
        result
    }

    /// Answers a packet of a protected association that has ended. To open it costs more than an answer out of the blue, and has the same limit.
    fn answer_farewell(&mut self, now: Time, meta: PacketMeta, packet: &PacketView<'_>) -> Result<(), Discard> {
        let is_admitted = self.unassociated.admit(now, meta.remote.ip());
        if !is_admitted {
            return Err(Discard::Flood);
        }
        let farewell = self.farewells.find(now, packet).ok_or(Discard::OutOfTheBlue)?;
        let (tag, chunk, guard) = farewell.answer(now, meta.remote, packet, &mut self.scratch.plain)?;
        self.guarded_reply(meta, packet, tag, chunk, guard);
        Err(Discard::OutOfTheBlue)
    }

    /// Handles a packet with a DTLS chunk of a protected association.
    fn on_protected(
        &mut self,
        now: Time,
        meta: PacketMeta,
        packet: &PacketView<'_>,
        index: u32,
    ) -> Result<(), Discard> {
        let mut plain = core::mem::take(&mut self.scratch.plain);
        let result = self.open_and_process(now, meta, packet, index, &mut plain);
        self.scratch.plain = plain;
        result
    }

    /// Nothing of the packet counts before it is opened and known to come from the peer, neither its source nor its chunks.
    // [dtls:1.1-1, 3.2-2, 5.2-7]
    fn open_and_process(
        &mut self,
        now: Time,
        meta: PacketMeta,
        packet: &PacketView<'_>,
        index: u32,
        plain: &mut Vec<u8>,
    ) -> Result<(), Discard> {
        let Some(association) = self.table.at_mut(index) else {
            return Err(Discard::OutOfTheBlue);
        };
        let known = association.known_path(&meta);
        let opened = association.open_packet(now, known, packet, plain)?;
        let inner = packet.with_chunks(plain);
        let from = match known {
            Some(from) => from,
            // The draft, "SCTP Considerations": the lookup address of an ASCONF is not used. The tag has found the association.
            None if association.has_news_in_asconf(&inner) => association.sending_path(),
            None => match association.path_to_verify(&meta, &inner) {
                Some(from) => from,
                None => {
                    if self.unassociated.admit(now, meta.remote.ip()) {
                        association.answer_repeated_asconf(context!(self, now), meta, &inner);
                        self.mark_ready(index);
                    }
                    return Err(Discard::OutOfTheBlue);
                }
            },
        };
        if association.accept_packet(now, known, opened) {
            association.report_connected(now);
        }
        let Some(first) = inner.first_chunk_type() else {
            return Err(Discard::Malformed);
        };
        if first.must_be_alone() && inner.chunks().nth(1).is_some() {
            return Err(Discard::Bundled);
        }
        if !association.expects(first) {
            return Err(Discard::Unexpected);
        }
        let waiting = self.replies.len();
        let result = association.on_packet(context!(self, now), meta, from, &inner, true);
        self.after_change(index);
        if self.replies.len() > waiting {
            self.limit_replies(&inner, waiting);
        }
        result
    }

    /// Handles a packet to an SCTP port that is not in use (RFC 9260 §8.4). An INIT is answered with an ABORT that
    /// carries its Initiate Tag. A COOKIE ECHO is discarded, because no cookie was created for that port.
    // [9260:8.4-3, 8.4-4, 8.4-5]
    fn on_other_port(
        &mut self,
        now: Time,
        meta: PacketMeta,
        packet: &PacketView<'_>,
        first: ChunkType,
    ) -> Result<(), Discard> {
        let is_unicast_only = is_unicast(meta.remote.ip()) && is_unicast(meta.local.ip());
        if !self.config.answer_all_ports || !self.config.answer_out_of_the_blue || !is_unicast_only {
            return Err(Discard::NotForUs);
        }
        match first {
            ChunkType::COOKIE_ECHO => {}
            ChunkType::INIT if packet.header().verification_tag == 0 => {
                if let (Some(Ok(Chunk::Init(init))), None) = (packet.chunks().next(), packet.chunks().nth(1))
                    && init.initiate_tag != 0
                    && self.unassociated.admit(now, meta.remote.ip())
                {
                    self.abort_init(meta, packet, init.initiate_tag, Vec::new());
                }
            }
            ChunkType::INIT => {}
            _ if packet.header().verification_tag == 0 => {}
            _ => {
                let _ = self.out_of_the_blue(now, meta, packet);
            }
        }
        Err(Discard::NotForUs)
    }

    /// Handles an unknown verification tag. ABORT and SHUTDOWN COMPLETE may reflect the peer's own tag (RFC 9260 §8.5.1
    /// B and C).
    // [9260:8.5-3, 8.5.1-6, 8.5.1-7, 8.5.1-10, 9.1-5]
    fn on_unknown_tag(&mut self, now: Time, meta: PacketMeta, packet: &PacketView<'_>) -> Result<(), Discard> {
        let header = packet.header();
        let Some(index) = self.table.by_peer(meta.remote, header.source_port) else {
            return self.out_of_the_blue(now, meta, packet);
        };
        let Some(association) = self.table.at_mut(index) else {
            return Err(Discard::OutOfTheBlue);
        };
        if association.tags().1 != header.verification_tag {
            return if packet.first_chunk_type() == Some(ChunkType::SHUTDOWN_ACK) {
                // It belongs to an earlier association with this peer (RFC 9260 §8.4 rule 5).
                self.out_of_the_blue(now, meta, packet)
            } else {
                Err(Discard::VerificationTag)
            };
        }
        if association.requires_protection() {
            // The peer's own tag shows no key.
            return Err(Discard::Unprotected);
        }
        if association.stopped_using(meta.local) {
            return Err(Discard::OutOfTheBlue);
        }
        let needs_auth = association.requires_auth(ChunkType::ABORT);
        let ctx = context!(self, now);
        // Control chunks may precede an ABORT (RFC 9260 §3.3.7). For them the tag is wrong, for the ABORT it is valid.
        let is_abort = |chunk: &Result<Chunk<'_>, _>| matches!(chunk, Ok(Chunk::Abort { .. }));
        let result = match packet.chunks().find(is_abort).or_else(|| packet.chunks().next()) {
            // RFC 4895 §6.3: without the association's tag, the ABORT cannot be authenticated.
            Some(Ok(Chunk::Abort {
                tag_reflected: true, ..
            })) if needs_auth => Err(Discard::Unauthenticated),
            Some(Ok(Chunk::Abort {
                tag_reflected: true,
                causes,
            })) => {
                association.on_abort(ctx, true, causes);
                Ok(())
            }
            Some(Ok(Chunk::ShutdownComplete { tag_reflected: true })) => association.on_shutdown_complete(ctx),
            _ => Err(Discard::VerificationTag),
        };
        self.after_change(index);
        result
    }

    /// Handles out-of-the-blue packets (RFC 9260 §8.4, rules 2 to 8), except INIT and COOKIE ECHO.
    // [9260:8.4-2, 8.4-6, 8.4-7, 8.4-8, 8.4-9, 8.4-10, 8.4-11, 8.4-12, 8.5.1-5, 8.5.1-9, 6-3, 6-6, 3.1-5, 3.3.7-3]
    pub(super) fn out_of_the_blue(
        &mut self,
        now: Time,
        meta: PacketMeta,
        packet: &PacketView<'_>,
    ) -> Result<(), Discard> {
        if !self.config.answer_out_of_the_blue {
            return Err(Discard::OutOfTheBlue);
        }
        if !self.unassociated.admit(now, meta.remote.ip()) {
            return Err(Discard::Flood);
        }
        let mut has_shutdown_ack = false;
        for chunk in packet.chunks() {
            match chunk {
                // Rules 2, 6 and 7: no reply.
                Ok(Chunk::Abort { .. } | Chunk::ShutdownComplete { .. } | Chunk::CookieAck) => {
                    return Err(Discard::OutOfTheBlue);
                }
                Ok(Chunk::Error { causes })
                    if causes
                        .iter()
                        .any(|cause| matches!(cause, Ok(Cause::StaleCookie { .. }))) =>
                {
                    return Err(Discard::OutOfTheBlue);
                }
                Ok(Chunk::ShutdownAck) => has_shutdown_ack = true,
                Ok(_) => {}
                // RFC 9260 §3.3.7: an ABORT with an impossible length is discarded like any other.
                Err(ChunkError::BadLength { chunk_type, .. }) if chunk_type == ChunkType::ABORT => {
                    return Err(Discard::Malformed);
                }
                Err(_) => break,
            }
        }
        let chunk = if has_shutdown_ack {
            ReplyChunk::ShutdownComplete { reflected: true }
        } else {
            ReplyChunk::Abort {
                reflected: true,
                causes: Box::default(),
            }
        };
        self.reply(meta, packet, packet.header().verification_tag, chunk);
        Err(Discard::OutOfTheBlue)
    }

    /// Queues a reply to the packet's source.
    pub(super) fn reply(
        &mut self,
        meta: PacketMeta,
        packet: &PacketView<'_>,
        verification_tag: u32,
        chunk: ReplyChunk,
    ) {
        self.signed_reply(meta, packet, verification_tag, chunk, None);
    }

    /// Like [`reply`](Self::reply), authenticated if there is a signer.
    pub(super) fn signed_reply(
        &mut self,
        meta: PacketMeta,
        packet: &PacketView<'_>,
        verification_tag: u32,
        chunk: ReplyChunk,
        signer: Option<Arc<Signer>>,
    ) {
        self.guarded_reply(meta, packet, verification_tag, chunk, signer.into());
    }

    fn guarded_reply(
        &mut self,
        meta: PacketMeta,
        packet: &PacketView<'_>,
        verification_tag: u32,
        chunk: ReplyChunk,
        guard: Guard,
    ) {
        let header = packet.header();
        self.replies.push(Reply {
            local: meta.local,
            remote: meta.remote,
            source_port: header.destination_port,
            destination_port: header.source_port,
            verification_tag,
            guard,
            chunk,
        });
    }
}
