//! INIT and COOKIE ECHO: peers that open or restart an association (RFC 9260 §5.1, §5.2).

use std::sync::Arc;

use whimbrel_control::{Span, Time};
use whimbrel_wire::{Cause, Chunk, ChunkType, INIT_HEADER_LEN, PacketView, Parameter, Parameters, Tsn};

use super::{Cookie, Endpoint, MIN_RWND, PeerInit, Refusal, ReplyChunk, context, fingerprint};
use crate::address::{PacketMeta, TransportAddr};
use crate::association::{
    Association, AuthAgreement, Identity, RANDOM_LEN, State, address_parameters, answer_signer, check_cookie_echo,
    emit_parameters, fresh_random,
};
use crate::config::Resolved;
use crate::context::Context;
use crate::error::Discard;
use crate::event::CloseReason;
use crate::extensions::Extensions;
use crate::protection::{ProtectionAgreement, ProtectionConfig, negotiate, own_offer};
use crate::send::path::pmdcs;

/// The local values of an INIT ACK.
struct Answer {
    tag: u32,
    initial_tsn: Tsn,
    outbound_streams: u16,
    inbound_streams: u16,
    a_rwnd: u32,
    /// The local endpoint supports ECN.
    ecn: bool,
    /// Extensions that the local endpoint supports.
    extensions: Extensions,
    tie_tags: (u32, u32),
    /// The random bytes of RFC 4895, if the local endpoint supports authentication.
    random: Option<[u8; RANDOM_LEN]>,
    /// The tie breaker of the draft, if the local endpoint offers DTLS chunks.
    tie_breaker: Option<u32>,
    config: Arc<Resolved>,
    local_addrs: Arc<[TransportAddr]>,
}

impl Endpoint {
    // [9260:5.1-3, 5.1-11, 5.1.2-6, 5.1.2-7, 3.3.2-4, 3.3.3-8, 3.3.3-17]
    pub(super) fn on_init(&mut self, now: Time, meta: PacketMeta, packet: &PacketView<'_>) -> Result<(), Discard> {
        let Some(Ok(Chunk::Init(init))) = packet.chunks().next() else {
            return Err(Discard::InvalidChunk);
        };
        if self.replies.is_full() {
            return Err(Discard::Limit);
        }
        let mut unrecognized = Vec::new();
        let report = |raw: &[u8], list: &mut Vec<u8>| Parameter::Unrecognized(raw).emit(list);
        let peer = match PeerInit::read(&init, meta.remote, &self.local_addrs, &mut unrecognized, report) {
            Ok(peer) if self.accepted_config.single_homed => peer.with_one_address(meta.remote),
            Ok(peer) => peer,
            Err(Refusal::Silent) => return Err(Discard::InvalidChunk),
            Err(Refusal::Abort(causes) | Refusal::AbortOnly(causes)) => {
                self.abort_init(meta, packet, init.initiate_tag, causes);
                return Err(Discard::InvalidChunk);
            }
        };
        // RFC 9260 §5.1.2 D: any of the peer's addresses may identify an existing association.
        let port = packet.header().source_port;
        let existing = peer
            .addrs
            .as_slice()
            .iter()
            .find_map(|&addr| self.table.by_peer(addr, port));
        let answer = match existing {
            Some(index) => self.answer_to_known_peer(meta, packet, index, &peer)?,
            None if !self.config.listen => {
                if self.config.answer_out_of_the_blue {
                    self.abort_init(meta, packet, peer.tag, Vec::new());
                }
                return Err(Discard::NotListening);
            }
            None if !self.has_room(meta.remote.ip()) => {
                self.abort_init(meta, packet, peer.tag, out_of_resource());
                return Err(Discard::Limit);
            }
            None => Answer {
                tag: self.new_tag(),
                initial_tsn: Tsn(self.random.next_u32()),
                outbound_streams: self.accepted_config.outbound_streams,
                inbound_streams: self.accepted_config.max_inbound_streams,
                a_rwnd: self.accepted_config.recv_buffer.max(MIN_RWND),
                ecn: self.accepted_config.parts.ecn,
                extensions: Extensions::wanted(&self.accepted_config),
                // RFC 9260 §5.2.2: there is no existing association.
                tie_tags: (0, 0),
                random: {
                    let auth = self.accepted_config.offers_auth;
                    auth.then(|| fresh_random(&mut *self.random))
                },
                tie_breaker: self.new_tie_breaker(&self.accepted_config.clone(), &peer),
                config: self.accepted_config.clone(),
                local_addrs: self.local_addrs.clone(),
            },
        };
        let peer = match peer.with_protection(&answer.config, answer.tie_breaker) {
            Ok(peer) => peer,
            Err(Refusal::Silent) => return Err(Discard::InvalidChunk),
            Err(Refusal::Abort(causes) | Refusal::AbortOnly(causes)) => {
                self.abort_init(meta, packet, init.initiate_tag, causes);
                return Err(Discard::Unprotected);
            }
        };
        let peer = match peer.with_auth(&init, &answer.config) {
            Ok(peer) => peer,
            Err(Refusal::Silent) => return Err(Discard::InvalidChunk),
            Err(Refusal::Abort(causes) | Refusal::AbortOnly(causes)) => {
                self.abort_init(meta, packet, init.initiate_tag, causes);
                return Err(if answer.config.auth.is_required() {
                    Discard::Unauthenticated
                } else {
                    Discard::InvalidChunk
                });
            }
        };
        self.send_init_ack(now, meta, packet, &peer, &answer, &unrecognized);
        Ok(())
    }

    /// RFC 9260 §5.2.1, §5.2.2, §9.2: the reply depends on the association's state. The association itself does not
    /// change.
    // [9260:5.2.1-1, 5.2.1-2, 5.2.1-3, 5.2.1-4, 5.2.1-5, 5.2.1-6, 5.2.1-7, 5.2.1-8, 5.2.1-11, 5.2.1-12, 5.2.2-1]
    // [9260:5.2.2-2, 5.2.2-3, 5.2.2-5, 5.2.2-8, 5.2.2-9, 5.1.3-6]
    fn answer_to_known_peer(
        &mut self,
        meta: PacketMeta,
        packet: &PacketView<'_>,
        index: u32,
        peer: &PeerInit,
    ) -> Result<Answer, Discard> {
        let Some(association) = self.table.at_mut(index) else {
            return Err(Discard::Unexpected);
        };
        if association.state() == State::ShutdownAckSent {
            association.resend_shutdown_ack();
            self.mark_ready(index);
            return Err(Discard::Unexpected);
        }
        if association.state() == State::CookieWait && !association.sending().has_remote(meta.remote.ip()) {
            // RFC 9260 §5.2.1 rules 1 to 3: replies go only to addresses that the local user specified, and to the
            // source if possible.
            return Err(Discard::Unexpected);
        }
        let in_handshake = matches!(association.state(), State::CookieWait | State::CookieEchoed);
        if association.state() != State::CookieWait && !association.is_unproven() {
            let added = association.new_addresses(peer.addrs.as_slice());
            if !added.is_empty() {
                let mut causes = Vec::new();
                Cause::RestartWithNewAddresses(Parameters::from_wire_bytes(&added)).emit(&mut causes);
                self.abort_init(meta, packet, peer.tag, causes);
                return Err(Discard::InvalidChunk);
            }
        }
        let (own_tag, own_tsn, outbound_streams, inbound_streams) = association.own_init();
        let tie_tags = if association.state() == State::CookieWait {
            (0, 0)
        } else {
            association.tie_tags()
        };
        let (a_rwnd, ecn) = (association.recv_buffer(), association.is_ecn_capable());
        let extensions = association.extensions();
        let (own_random, config) = (association.auth_random(), association.config().clone());
        let own_tie_breaker = association.tie_breaker();
        // The association's addresses may differ from the endpoint's current ones.
        let local_addrs = association.local_addrs().into();
        let (tag, initial_tsn, random, tie_breaker) = if in_handshake {
            (own_tag, own_tsn, own_random, own_tie_breaker)
        } else {
            let random = own_random.map(|_| fresh_random(&mut *self.random));
            let tie_breaker = self.new_tie_breaker(&config, peer);
            (self.new_tag(), Tsn(self.random.next_u32()), random, tie_breaker)
        };
        Ok(Answer {
            tag,
            initial_tsn,
            outbound_streams,
            inbound_streams,
            a_rwnd,
            ecn,
            extensions,
            tie_tags,
            random,
            tie_breaker,
            config,
            local_addrs,
        })
    }

    /// Returns a tie breaker for an INIT ACK, if DTLS chunks are offered: another one than the peer's.
    // [dtls:5.4-2]
    fn new_tie_breaker(&mut self, config: &Resolved, peer: &PeerInit) -> Option<u32> {
        config.protection.keys.as_ref()?;
        let tie_breaker = self.random.next_u32();
        let is_taken = peer.offer.is_some_and(|offer| offer.tie_breaker() == tie_breaker);
        Some(if is_taken { !tie_breaker } else { tie_breaker })
    }

    // [9260:5.1-4, 5.1-5, 5.1-6, 5.1-9, 5.1-10, 5.2.1-10, 5.2.2-6, 5.2.2-7, 5.2.2-10, 3.2.2-1, 3.3.3-1, 3.3.3-8]
    // [9260:3.3.3-11, 3.3.3-14, 3.3.3-17, 3.3.3.1-1, 3.3.3.1.1-1, 3.3.3.1.2-1, 12.4-5]
    // [dtls:5.1-2, 4.1-7]
    fn send_init_ack(
        &mut self,
        now: Time,
        meta: PacketMeta,
        packet: &PacketView<'_>,
        peer: &PeerInit,
        answer: &Answer,
        unrecognized: &[u8],
    ) {
        self.replace_key_if_old(now);
        let both_capable_of_ecn = answer.ecn && peer.ecn;
        let extensions = answer.extensions.in_common(peer.extensions);
        let auth = answer
            .random
            .zip(peer.auth)
            .filter(|_| extensions.has(Extensions::AUTH));
        let auth = auth.map(|(random, peer)| AuthAgreement { random, peer });
        let protection = answer.tie_breaker.zip(peer.offer);
        let protection = protection.map(|(tie_breaker, peer)| ProtectionAgreement { tie_breaker, peer });
        // RFC 9260 §3.3.2.1.3: the peer may ask for a longer life; the extension is limited.
        let wish = Span::from_millis(peer.preserve_ms.into()).min(self.config.valid_cookie_life);
        let cookie = Cookie {
            created: now,
            life: self.config.valid_cookie_life + wish,
            local_addrs: fingerprint(&answer.local_addrs),
            local_tag: answer.tag,
            peer_tag: peer.tag,
            local_initial_tsn: answer.initial_tsn,
            peer_initial_tsn: peer.initial_tsn,
            peer_rwnd: peer.rwnd,
            // RFC 9260 §5.1.1
            outbound_streams: answer.outbound_streams.min(peer.inbound_streams),
            inbound_streams: answer.inbound_streams.min(peer.outbound_streams),
            local_port: packet.header().destination_port,
            peer_port: packet.header().source_port,
            local_tie_tag: answer.tie_tags.0,
            peer_tie_tag: answer.tie_tags.1,
            ecn: both_capable_of_ecn,
            supports: extensions.0,
            auth,
            protection,
            local: meta.local,
            peer_addrs: peer.addrs,
        };
        if self.table.has_tag(cookie.local_tag) {
            // An INIT collision: the cookie is for this association only, and of no use after its end.
            let keyed = protection.is_some() || auth.is_some() && answer.config.auth.is_configured();
            let limit = self.config.max_consumed_cookies;
            if self.consumed.has(cookie.local_tag) || self.consumed.has_room(now, limit, keyed) {
                self.consumed.insert(&cookie);
            } else if keyed {
                return;
            }
        }
        let sealed = &mut self.scratch.gaps;
        sealed.clear();
        self.key.seal(&cookie, sealed);
        let mut parameters = Vec::with_capacity(sealed.len() + unrecognized.len() + 64);
        if !answer.config.single_homed {
            address_parameters(&answer.local_addrs, &mut parameters);
        }
        Parameter::StateCookie(sealed).emit(&mut parameters);
        if both_capable_of_ecn {
            // RFC 4960 appendix A
            Parameter::EcnCapable.emit(&mut parameters);
        }
        extensions.emit(&mut parameters);
        if let Some(auth) = &auth {
            emit_parameters(&answer.config, &auth.random, &mut parameters);
        }
        let offer = protection.and_then(|both| own_offer(&answer.config.protection, both.tie_breaker));
        if let Some(offer) = offer {
            whimbrel_wire::tlv::append_tlv(&mut parameters, offer.as_bytes());
        }
        // As many as fit into a packet. RFC 9260 §12.4 allows omitting the rest.
        let room = pmdcs(answer.config.mtu, meta.remote) - INIT_HEADER_LEN;
        for report in Parameters::from_wire_bytes(unrecognized).raw().flatten() {
            if parameters.len().next_multiple_of(4) + report.bytes().len().next_multiple_of(4) <= room {
                whimbrel_wire::tlv::append_tlv(&mut parameters, report.bytes());
            }
        }
        let chunk = ReplyChunk::InitAck {
            initiate_tag: answer.tag,
            a_rwnd: answer.a_rwnd,
            // RFC 9260 §3.3.3: not more than the INIT allows.
            outbound_streams: answer.outbound_streams.min(peer.inbound_streams),
            inbound_streams: answer.inbound_streams,
            initial_tsn: answer.initial_tsn,
            parameters: parameters.into(),
        };
        self.reply(meta, packet, peer.tag, chunk);
    }

    /// Replaces the key at regular intervals (RFC 9260 §5.1.3).
    // [9260:5.1.3-5]
    fn replace_key_if_old(&mut self, now: Time) {
        if now.since(self.key_replaced) >= self.config.cookie_key_life {
            self.key_replaced = now;
            let mut secret = [0; 32];
            self.random.fill_bytes(&mut secret);
            self.key.rotate(secret);
        }
    }

    /// Replies to an INIT with ABORT, which carries the INIT's Initiate Tag (RFC 9260 §5.1, §8.4 rule 3).
    // [9260:3.3.2-3, 3.3.2-9, 3.3.2-12, 3.3.2-14, 5.1-15, 5.1-16, 5.1-17, 5.1.2-2, 5.1.2-3, 8.4-4, 12.2.4.1-1]
    pub(super) fn abort_init(&mut self, meta: PacketMeta, packet: &PacketView<'_>, tag: u32, causes: Vec<u8>) {
        self.reply(
            meta,
            packet,
            tag,
            ReplyChunk::Abort {
                reflected: false,
                causes: causes.into(),
            },
        );
    }

    /// Returns the content of the cookie in a packet with COOKIE ECHO, if it was made for this packet.
    // [9260:5.1.5-2, 5.1.5-3]
    fn open_cookie(&self, meta: PacketMeta, packet: &PacketView<'_>) -> Result<Cookie, Discard> {
        let echo = packet.chunks().take(2).find_map(|chunk| match chunk {
            Ok(Chunk::CookieEcho { cookie }) => Some(cookie),
            _ => None,
        });
        let header = packet.header();
        let cookie = self.key.open(echo.ok_or(Discard::InvalidChunk)?);
        let cookie = cookie.map_err(|_| Discard::Cookie)?;
        let is_for_this_packet = cookie.local_port == header.destination_port
            && cookie.peer_port == header.source_port
            && cookie.local_tag == header.verification_tag
            && cookie
                .peer_addrs
                .as_slice()
                .iter()
                .any(|addr| addr.ip() == meta.remote.ip());
        is_for_this_packet.then_some(cookie).ok_or(Discard::Cookie)
    }

    /// Handles a COOKIE ECHO (RFC 9260 §5.1.5 and §5.2.4).
    // [9260:5.1.5-2, 5.1.5-3, 5.1.5-4, 5.1.5-8, 4-1, 4-2, 5.2.4-1, 5.2.4-2, 3.3.10.3-1]
    pub(super) fn on_cookie_echo(
        &mut self,
        now: Time,
        meta: PacketMeta,
        packet: &PacketView<'_>,
    ) -> Result<(), Discard> {
        let cookie = self.open_cookie(meta, packet)?;
        let by_tag = self.table.by_tag(cookie.local_tag);
        if by_tag.is_none() && self.consumed.has(cookie.local_tag) {
            // A repetition of a COOKIE ECHO whose association has ended or has been restarted since.
            return Err(Discard::Cookie);
        }
        let port = packet.header().source_port;
        let existing = by_tag.or_else(|| {
            cookie
                .peer_addrs
                .as_slice()
                .iter()
                .find_map(|&addr| self.table.by_peer(addr, port))
        });
        let association = existing.and_then(|index| self.table.at(index));
        if association.is_some_and(|association| !association.may_take_cookie(&cookie, meta.remote.ip())) {
            return Err(Discard::Unprotected);
        }
        let config = association.map_or(&self.accepted_config, Association::config);
        let agreement = cookie.auth.as_ref();
        let agreement = agreement.filter(|_| Extensions(cookie.supports).has(Extensions::AUTH));
        check_cookie_echo(config, agreement, packet)?;
        // The configuration may be another one than when the INIT was answered: that of an association that has ended since.
        if !fits(&config.protection, cookie.protection.as_ref()) {
            return Err(Discard::Unprotected);
        }
        let tags = association.map(Association::tags);
        let local_addrs = association.map_or(&*self.local_addrs, Association::local_addrs);
        // The INIT ACK listed local addresses that have changed since. The stale-cookie error makes the peer send a new
        // INIT, and the new INIT ACK lists the current addresses.
        let is_outdated = cookie.local_addrs != fingerprint(local_addrs);
        if let Some(staleness) = cookie.stale_by(now).or(is_outdated.then_some(Span::ZERO))
            && tags != Some((cookie.local_tag, cookie.peer_tag))
        {
            let mut causes = Vec::new();
            let staleness_us = u32::try_from(staleness.as_nanos().div_ceil(1000)).unwrap_or(u32::MAX);
            Cause::StaleCookie { staleness_us }.emit(&mut causes);
            let signer = answer_signer(config, agreement, ChunkType::ERROR);
            let chunk = ReplyChunk::Error { causes: causes.into() };
            self.signed_reply(meta, packet, cookie.peer_tag, chunk, signer);
            return Err(Discard::StaleCookie);
        }
        let keyed = cookie.protection.is_some() || agreement.is_some() && config.auth.is_configured();
        let limit = self.config.max_consumed_cookies;
        let may_remember = self.consumed.has(cookie.local_tag) || self.consumed.has_room(now, limit, keyed);
        if !may_remember && keyed {
            // The peer repeats the COOKIE ECHO (T1-cookie), and there is room as soon as other cookies are stale.
            return Err(Discard::Limit);
        }
        let index = match existing {
            Some(index)
                if self
                    .table
                    .at(index)
                    .is_some_and(|known| known.gives_way_to(&cookie, meta.remote.ip())) =>
            {
                self.replace_unproven(now, meta, packet, index, &cookie)?
            }
            Some(index) => self.on_cookie_for_known_peer(now, meta, packet, index, &cookie)?,
            None => {
                let (config, local_addrs) = (self.accepted_config.clone(), self.local_addrs.clone());
                self.accept(now, meta, packet, &cookie, config, local_addrs)?
            }
        };
        if may_remember {
            self.consumed.insert(&cookie);
        }
        // The packet may also contain DATA chunks.
        let mut result = Ok(());
        if packet.chunks().nth(1).is_some()
            && let Some(association) = self.table.at_mut(index)
            && !association.is_protected()
            && let Some(from) = association.sending().path_of_packet(&meta)
        {
            result = association.on_packet(context!(self, now), meta, from, packet, false);
        }
        self.after_change(index);
        result
    }

    fn accept(
        &mut self,
        now: Time,
        meta: PacketMeta,
        packet: &PacketView<'_>,
        cookie: &Cookie,
        config: Arc<Resolved>,
        local_addrs: Arc<[TransportAddr]>,
    ) -> Result<u32, Discard> {
        // The address to which the INIT ACK was sent: the only one that is verified.
        let ip = cookie
            .peer_addrs
            .as_slice()
            .first()
            .map_or(meta.remote.ip(), |addr| addr.ip());
        if !self.config.listen {
            // It has stopped since the INIT.
            self.abort_cookie_echo(meta, packet, cookie, &config, Vec::new());
            return Err(Discard::NotListening);
        }
        if !self.has_place_in_backlog() {
            // The user takes associations more slowly than they come: the peer, which is not connected yet, sends its COOKIE ECHO again.
            return Err(Discard::Limit);
        }
        if !self.make_room(now, ip) {
            self.abort_cookie_echo(meta, packet, cookie, &config, out_of_resource());
            return Err(Discard::Limit);
        }
        let id = self.table.next_id();
        let identity = Identity {
            id,
            config,
            local_addrs,
            local_port: cookie.local_port,
            peer_port: cookie.peer_port,
            truth: self.config.truth.clone(),
        };
        let mut association = Association::accept(context!(self, now), identity, cookie, meta);
        if let Some(timeout) = self.config.first_message_timeout {
            association.expect_message(now + timeout);
        }
        self.table.insert(association);
        self.count_accepted(now, id, ip);
        self.stats.accepted += 1;
        Ok(id.index)
    }

    /// Replies to a COOKIE ECHO with ABORT.
    fn abort_cookie_echo(
        &mut self,
        meta: PacketMeta,
        packet: &PacketView<'_>,
        cookie: &Cookie,
        config: &Resolved,
        causes: Vec<u8>,
    ) {
        let agreement = cookie.auth.as_ref();
        let agreement = agreement.filter(|_| Extensions(cookie.supports).has(Extensions::AUTH));
        let signer = answer_signer(config, agreement, ChunkType::ABORT);
        let chunk = ReplyChunk::Abort {
            reflected: false,
            causes: causes.into(),
        };
        self.signed_reply(meta, packet, cookie.peer_tag, chunk, signer);
    }

    /// Handles a cookie of a peer with an existing association (RFC 9260 §5.2.4, Table 12).
    // [9260:5.2.4-3, 5.2.4-8, 5.2.4-9]
    fn on_cookie_for_known_peer(
        &mut self,
        now: Time,
        meta: PacketMeta,
        packet: &PacketView<'_>,
        index: u32,
        cookie: &Cookie,
    ) -> Result<u32, Discard> {
        let random = self.random.next_u64();
        let Some(association) = self.table.at_mut(index) else {
            return Err(Discard::Unexpected);
        };
        let (local_tag, peer_tag) = association.tags();
        let (local_matches, peer_matches) = (cookie.local_tag == local_tag, cookie.peer_tag == peer_tag);
        let cookie_ties = (cookie.local_tie_tag, cookie.peer_tie_tag);
        if local_matches {
            // Cases B and D
            association.on_own_cookie(context!(self, now), cookie, meta);
            return Ok(index);
        }
        if !peer_matches && cookie_ties == association.tie_tags() {
            // Case A
            if association.state() == State::ShutdownAckSent {
                association.refuse_restart_while_shutting_down();
                self.mark_ready(index);
                return Err(Discard::Unexpected);
            }
            if !self.config.continue_after_restart {
                return self.replace(now, meta, packet, index, cookie);
            }
            association.restart(context!(self, now), cookie, meta, random);
            return Ok(index);
        }
        // Case C, and every case that Table 12 does not list
        Err(Discard::Cookie)
    }

    /// Ends an association that a host without the keys may have opened, and accepts that of another handshake in its place.
    fn replace_unproven(
        &mut self,
        now: Time,
        meta: PacketMeta,
        packet: &PacketView<'_>,
        index: u32,
        cookie: &Cookie,
    ) -> Result<u32, Discard> {
        if let Some(association) = self.table.at_mut(index) {
            association.close(context!(self, now), CloseReason::PeerRestarted);
        }
        self.after_change(index);
        let (config, local_addrs) = (self.accepted_config.clone(), self.local_addrs.clone());
        self.accept(now, meta, packet, cookie, config, local_addrs)
    }

    /// Ends the association of a peer that has restarted, and accepts its new one.
    fn replace(
        &mut self,
        now: Time,
        meta: PacketMeta,
        packet: &PacketView<'_>,
        index: u32,
        cookie: &Cookie,
    ) -> Result<u32, Discard> {
        if self.config.listen && !self.has_place_in_backlog() {
            return Err(Discard::Limit);
        }
        let Some(association) = self.table.at_mut(index) else {
            return Err(Discard::Unexpected);
        };
        // Those of the INIT ACK.
        let (config, local_addrs) = (association.config().clone(), association.local_addrs().into());
        association.end_by_restart(context!(self, now));
        self.after_change(index);
        self.accept(now, meta, packet, cookie, config, local_addrs)
    }
}

/// Returns whether an association with this configuration may be opened by a cookie with this agreement on DTLS chunks.
fn fits(config: &ProtectionConfig, agreement: Option<&ProtectionAgreement>) -> bool {
    let Some(both) = agreement else {
        return !config.required;
    };
    own_offer(config, both.tie_breaker).is_some_and(|own| negotiate(&own, &both.peer).is_ok())
}

/// RFC 9260 §3.3.10.4
// [9260:5.1-16]
fn out_of_resource() -> Vec<u8> {
    let mut causes = Vec::new();
    Cause::OutOfResource.emit(&mut causes);
    causes
}
