//! The handshake: INIT, INIT ACK, COOKIE ECHO, COOKIE ACK (RFC 9260 §5).

use rand_core::Rng;
use whimbrel_control::{Span, Time};
use whimbrel_wire::{CHUNK_HEADER_LEN, Chunk, Init, NumberList, PacketView, Parameter, Parameters, Tsn};

use super::components::EcnState;
use super::{Agreement, Association, AuthAgreement, Identity, State};
use crate::address::is_one_ip;
use crate::config::NEVER;
use crate::context::{Context, Scratch};
use crate::endpoint::{Cookie, Guard, MIN_RWND, PeerInit, Refusal, Reply, ReplyChunk, missing_cookie};
use crate::error::Discard;
use crate::event::{CloseReason, Event, SendFailureCause};
use crate::extensions::Extensions;
use crate::packet::Packet;
use crate::protection::{ProtectionAgreement, own_offer};
use crate::send::pair_address;
use crate::send::path::Path;
use crate::send::{DataFeatures, Outgoing, extra_pairs};
use crate::{PacketMeta, TransportAddr};

/// Adds the local addresses to the parameters of an INIT ACK.
// [9260:3.3.2.1.2-1]
// [6951:3.2-1]
pub(crate) fn address_parameters(local_addrs: &[TransportAddr], list: &mut Vec<u8>) {
    // RFC 9260 §5.1.2 A: a single address is not listed, because it is the packet's source.
    if !is_one_ip(local_addrs) {
        list_addresses(local_addrs, list);
    }
}

fn list_addresses(addrs: &[TransportAddr], list: &mut Vec<u8>) {
    for (index, addr) in addrs.iter().enumerate() {
        // With and without UDP (RFC 6951), it is one address.
        if addrs[..index].iter().any(|before| before.ip() == addr.ip()) {
            continue;
        }
        match addr.ip().to_canonical() {
            std::net::IpAddr::V4(ip) => Parameter::Ipv4(ip).emit(list),
            std::net::IpAddr::V6(ip) => Parameter::Ipv6(ip).emit(list),
        }
    }
}

impl Agreement {
    /// Returns the agreement stored in a valid cookie.
    fn of(cookie: &Cookie) -> Self {
        Agreement {
            local_tag: cookie.local_tag,
            peer_tag: cookie.peer_tag,
            local_initial_tsn: cookie.local_initial_tsn,
            peer_initial_tsn: cookie.peer_initial_tsn,
            peer_rwnd: cookie.peer_rwnd,
            outbound_streams: cookie.outbound_streams,
            inbound_streams: cookie.inbound_streams,
            ecn: cookie.ecn,
            extensions: Extensions(cookie.supports),
            auth: cookie.auth,
            protection: cookie.protection,
        }
    }
}

impl Association {
    /// Opens an association: ASSOCIATE primitive (RFC 9260 §5.1 A). The addresses are confirmed, because the user
    /// specified them (§5.4 rule 1).
    // [9260:5.1-1, 5.1-2, 3.3.2-15, 5-1]
    pub(crate) fn open(
        ctx: &mut Context<'_>,
        identity: Identity,
        local_tag: u32,
        peers: impl Iterator<Item = (TransportAddr, TransportAddr)>,
    ) -> Association {
        let paths = peers
            .map(|(local, remote)| Path::new(&identity.config, identity.truth.as_ref(), local, remote, true))
            .collect();
        let initial_tsn = Tsn(ctx.random.next_u32());
        let mut association = Association::new(identity, local_tag, initial_tsn, paths, ctx.random);
        association.set_state(ctx, State::CookieWait);
        association.send_init(ctx.now, None);
        association
    }

    fn send_init(&mut self, now: Time, preserve_ms: Option<u32>) {
        self.sending.push_on_sending_path(Outgoing::Init { preserve_ms });
        self.timers.t1 = now + self.sending.handshake_timeout();
    }

    // [9260:5.1-1, 5.1.1-1, 3.3.2-1, 3.3.2-2, 3.3.2-8, 3.3.2-11, 3.3.2-13, 3.3.2.1.4-1, 8.5.1-1, 12.3-1]
    // [dtls:5.1-1, 4.1-7]
    pub(super) fn push_init(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>, preserve_ms: Option<u32>) {
        let list = &mut ctx.scratch.parameters;
        list.clear();
        if !self.config.single_homed {
            list_addresses(&self.listed_addresses(), list);
        }
        if let Some(increment_ms) = preserve_ms {
            Parameter::CookiePreservative { increment_ms }.emit(list);
        }
        if self.config.parts.ecn {
            // RFC 4960 appendix A
            Parameter::EcnCapable.emit(list);
        }
        Extensions::wanted(&self.config).emit(list);
        if let Some(random) = self.agreed.auth_random() {
            super::emit_parameters(&self.config, &random, list);
        }
        if let Some(offer) = self
            .agreed
            .tie_breaker()
            .and_then(|tie| own_offer(&self.config.protection, tie))
        {
            whimbrel_wire::tlv::append_tlv(list, offer.as_bytes());
        }
        // RFC 8261 §6.1: neither addresses nor their types.
        if !self.config.single_homed {
            Parameter::SupportedAddressTypes(supported_types(&self.ends.local_addrs)).emit(list);
        }
        packet.push(&Chunk::Init(Init {
            initiate_tag: self.ends.local_tag,
            a_rwnd: self.config.recv_buffer.max(MIN_RWND),
            outbound_streams: self.config.outbound_streams,
            inbound_streams: self.config.max_inbound_streams,
            initial_tsn: self.ends.local_initial_tsn,
            parameters: Parameters::from_wire_bytes(list),
        }));
    }

    /// Starts an association whose ends have exchanged their INIT chunks by other means.
    pub(crate) fn begin(
        ctx: &mut Context<'_>,
        identity: Identity,
        agreement: &Agreement,
        local: TransportAddr,
        remote: TransportAddr,
    ) -> Association {
        let path = Path::new(&identity.config, identity.truth.as_ref(), local, remote, true);
        let (tag, initial_tsn) = (agreement.local_tag, agreement.local_initial_tsn);
        let mut association = Association::new(identity, tag, initial_tsn, vec![path], ctx.random);
        association.agree(ctx.scratch, agreement);
        association.sending.use_primary();
        association.establish(ctx);
        let progress = association.sending.choose_path(ctx);
        association.apply(ctx, progress);
        association
    }

    /// Accepts an association from a valid cookie (RFC 9260 §5.1.5 step 5).
    // [9260:5.1-20]
    pub(crate) fn accept(ctx: &mut Context<'_>, identity: Identity, cookie: &Cookie, meta: PacketMeta) -> Association {
        let locals = identity.local_addrs.clone();
        let mut paths: Vec<Path> = Vec::with_capacity(cookie.peer_addrs.as_slice().len());
        for (index, &remote) in cookie.peer_addrs.as_slice().iter().enumerate() {
            // RFC 9260 §5.4 rule 2: only the destination address of the INIT ACK is confirmed.
            let local = if index == 0 {
                Some(cookie.local)
            } else {
                pair_address(&locals, &paths, remote)
            };
            if let Some(local) = local {
                paths.push(Path::new(
                    &identity.config,
                    identity.truth.as_ref(),
                    local,
                    remote,
                    index == 0,
                ));
            }
        }
        if identity.config.path_per_local_address {
            let pairs: Vec<_> = paths.iter().map(|path| (path.local(), path.remote())).collect();
            let truth = identity.truth.as_ref();
            let extra = extra_pairs(&locals, &pairs);
            paths.extend(
                extra
                    .into_iter()
                    .map(|(local, remote)| Path::new(&identity.config, truth, local, remote, false)),
            );
        }
        let agreement = Agreement::of(cookie);
        let mut association = Association::new(identity, cookie.local_tag, cookie.local_initial_tsn, paths, ctx.random);
        association.ends.accepted = true;
        association.agree(ctx.scratch, &agreement);
        association.establish(ctx);
        association.send_cookie_ack(ctx, meta);
        association
    }

    // [3758:3.3.2-4, 3.3.2-5, 3.3.3-2, 3.3.3-3, 3.3.3-4]
    // [8260:2-1, 2.2.1-1, 2.2.1-2, 2.2.1-3, 2.2.1-4]
    fn agree(&mut self, scratch: &mut Scratch, agreement: &Agreement) {
        self.ends.local_tag = agreement.local_tag;
        self.ends.peer_tag = agreement.peer_tag;
        self.ends.outbound_streams = agreement.outbound_streams;
        self.ends.inbound_streams = agreement.inbound_streams;
        self.give_up_streams();
        self.agreed.ecn = EcnState::default();
        self.agree_on_timestamps(agreement.extensions);
        self.agree_on_eci(agreement.extensions);
        self.agree_on_reports(agreement.extensions);
        self.agreed.gives_up = agreement.extensions.gives_up();
        self.agreed.interleaves = agreement.extensions.has(Extensions::INTERLEAVING);
        self.agree_on_checksum(agreement.extensions);
        self.agree_on_protection(agreement);
        self.agree_on_auth(agreement.auth.as_ref(), agreement.extensions);
        let (local_tsn, peer_tsn) = (agreement.local_initial_tsn.0, agreement.peer_initial_tsn.0);
        self.agree_on_asconf(agreement.extensions, local_tsn, peer_tsn);
        self.agree_on_stream_changes(agreement.extensions, local_tsn, peer_tsn);
        self.sending
            .agree(self.data_features(agreement.ecn), agreement.peer_rwnd);
        self.receiving.receiver = Some(self.new_receiver(scratch, agreement.peer_initial_tsn));
    }

    /// Returns what was agreed on that concerns packets with data, once all of it is known.
    fn data_features(&self, ecn: bool) -> DataFeatures {
        let stamping = self.agreed.stamping.as_deref();
        DataFeatures {
            ecn: ecn && self.config.parts.ecn,
            eci: self.agreed.eci.in_use,
            timestamps: stamping.is_some(),
            identities: stamping.is_some_and(|stamping| stamping.repeats()),
            gives_up: self.agreed.gives_up,
            interleaves: self.agreed.interleaves,
            new_gaps: self.uses_new_gaps(),
            // A chunk is at most as long as its digest and its header.
            auth_len: self.auth_len() as u16,
        }
    }

    fn establish(&mut self, ctx: &mut Context<'_>) {
        self.timers.t1 = NEVER;
        self.handshake.cookie = None;
        self.set_state(ctx, State::Established);
        if !self.agreed.is_keying(self.state) {
            self.announce(ctx.now);
        }
        let progress = self.sending.establish(ctx);
        self.apply(ctx, progress);
        if self.agreed.is_keying(self.state) {
            self.begin_keying(ctx);
        } else {
            self.begin_use(ctx);
        }
    }

    /// Reports the association to the user, once the peer has shown that it has the keys.
    pub(super) fn announce(&mut self, now: Time) {
        if self.needs_proof() {
            self.await_proof(now);
        } else {
            self.report_connected(now);
        }
    }

    /// The association can be used: the handshake is done, and all packets are encrypted if they have to be.
    pub(super) fn begin_use(&mut self, ctx: &mut Context<'_>) {
        self.start_autoclose(ctx.now);
        self.announce_hidden(ctx);
        self.shutdown_if_wanted(ctx);
    }

    /// Reports to the user that the association is established, and with which streams.
    pub(crate) fn report_connected(&mut self, now: Time) {
        if self.agreed.has_key_messages() {
            self.sending.end_following(now);
        }
        self.user.events.push_back(Event::Connected {
            accepted: self.ends.accepted,
            outbound_streams: self.ends.outbound_streams,
            inbound_streams: self.ends.inbound_streams,
        });
    }

    /// Sends COOKIE ACK to the source of the COOKIE ECHO. If that address is not confirmed yet (RFC 9260 §5.4), or the peer has not shown its
    /// keys, a HEARTBEAT is bundled.
    // [9260:5.1-8, 5.1.5-5, 5.1.5-7, 5.4-3, 3.3.12-1]
    pub(crate) fn send_cookie_ack(&mut self, ctx: &mut Context<'_>, meta: PacketMeta) {
        let Some(index) = self.path_of(meta.remote) else {
            if self.sending.path_of_host(&meta).is_some() {
                self.reply_to_source(ctx, meta, ReplyChunk::CookieAck);
                // COOKIE ECHO is not encrypted: anyone may have sent it from there.
                if !self.is_protected() {
                    self.watch_port(ctx.now, meta);
                }
            }
            return;
        };
        if !self.sending.paths()[index].is_confirmed() || self.awaits_proof() {
            self.sending.bundle_heartbeat(ctx, index);
        }
        // RFC 9260 §5.1 D: the first chunk of its packet.
        self.sending.control().push_first(index, Outgoing::CookieAck);
    }

    /// Returns whether the packet is an expected INIT ACK that lists one of the addresses that the user specified. The
    /// peer may respond from another address (RFC 9260 §5.1.2 D).
    // [9260:5.1.2-6]
    pub(crate) fn is_named_in_init_ack(&self, packet: &PacketView<'_>) -> bool {
        if self.state != State::CookieWait {
            return false;
        }
        let Some(Ok(Chunk::InitAck(init_ack))) = packet.chunks().next() else {
            return false;
        };
        init_ack.parameters.iter().any(|parameter| match parameter {
            Ok(Parameter::Ipv4(ip)) => self.sending.has_remote(ip.into()),
            Ok(Parameter::Ipv6(ip)) => self.sending.has_remote(ip.into()),
            _ => false,
        })
    }

    /// Handles an INIT ACK (RFC 9260 §5.1 C, §5.2.3).
    // [9260:5.1.4-1, 5.1.4-2, 5.2.3-1, 3.3.3-7, 3.3.3-13, 3.3.3-16, 3.3.3-18, 3.3.3-19, 3.2.2-2, 3.2.2-3, 3.3.11-2]
    // [9260:5.1.1-2, 5.1.1-3, 5.1.1-4]
    pub(super) fn on_init_ack(
        &mut self,
        ctx: &mut Context<'_>,
        meta: PacketMeta,
        init_ack: &Init<'_>,
    ) -> Result<(), Discard> {
        if self.state != State::CookieWait {
            return Err(Discard::Unexpected);
        }
        let mut unrecognized = Vec::new();
        let report = |raw: &[u8], list: &mut Vec<u8>| whimbrel_wire::tlv::append_tlv(list, raw);
        let (read, flaw) =
            match PeerInit::read(init_ack, meta.remote, &self.ends.local_addrs, &mut unrecognized, report) {
                Ok(peer) => match peer.with_protection(&self.config, self.agreed.tie_breaker()) {
                    Ok(peer) => (
                        peer.with_auth(init_ack, &self.config),
                        "an INIT ACK without the required authentication (RFC 4895)",
                    ),
                    Err(refusal) => (Err(refusal), "an INIT ACK without the required encryption"),
                },
                Err(refusal) => (Err(refusal), "an INIT ACK that cannot be accepted"),
            };
        let peer = match read {
            Ok(peer) if self.config.single_homed => peer.with_one_address(meta.remote),
            Ok(peer) => peer,
            Err(refusal) => {
                self.refuse_init_ack(ctx, meta, init_ack.initiate_tag, &refusal, flaw);
                return Err(Discard::InvalidChunk);
            }
        };
        if !self.config.auth.is_configured() && peer.auth.is_some_and(|peer| peer.requires_shared_key()) {
            // Authentication is offered for changes of addresses only. The peer would discard the COOKIE ECHO silently (RFC
            // 4895 §6.3).
            self.close(ctx, CloseReason::KeyRequired);
            return Err(Discard::Unauthenticated);
        }
        // The COOKIE ECHO must fit into a packet.
        let room = self.sending.largest_chunk() - CHUNK_HEADER_LEN;
        let Some(cookie) = init_ack.parameters.state_cookie().filter(|cookie| cookie.len() <= room) else {
            self.ends.peer_tag = peer.tag;
            self.abort_with(
                ctx,
                &missing_cookie(),
                CloseReason::ProtocolViolation("an INIT ACK without a usable cookie"),
            );
            return Err(Discard::InvalidChunk);
        };
        let hidden = self.hide_translated(meta.local);
        self.handshake.cookie = Some(Box::new(super::PeerCookie {
            bytes: cookie.into(),
            is_echoed: false,
        }));
        self.agree(
            ctx.scratch,
            &Agreement {
                local_tag: self.ends.local_tag,
                peer_tag: peer.tag,
                local_initial_tsn: self.ends.local_initial_tsn,
                peer_initial_tsn: peer.initial_tsn,
                peer_rwnd: peer.rwnd,
                // RFC 9260 §5.1.1
                outbound_streams: self.config.outbound_streams.min(peer.inbound_streams),
                inbound_streams: self.config.max_inbound_streams.min(peer.outbound_streams),
                ecn: peer.ecn,
                extensions: Extensions::wanted(&self.config).in_common(peer.extensions),
                auth: self
                    .agreed
                    .auth_random()
                    .zip(peer.auth)
                    .map(|(random, peer)| AuthAgreement { random, peer }),
                protection: (self.agreed.tie_breaker().zip(peer.offer))
                    .map(|(tie_breaker, peer)| ProtectionAgreement { tie_breaker, peer }),
            },
        );
        self.announce_later(hidden);
        let waited = self.waited_for_t1(ctx.now);
        let init_path = self.sending.paths()[self.sending.sending_path()].remote();
        self.take_addresses(ctx, meta, peer.addrs.as_slice(), None);
        if self.handshake.init_retransmits == 0
            && let Some(index) = self.path_of(init_path)
        {
            // The INIT was sent only once, so the INIT ACK measures the round-trip time (RFC 9260 §6.3.1 C5).
            self.sending.on_rtt_sample(ctx, index, waited);
        }
        self.set_state(ctx, State::CookieEchoed);
        self.handshake.init_retransmits = 0;
        self.sending.control().clear();
        self.sending.push_on_sending_path(Outgoing::CookieEcho);
        self.report_unrecognized(&unrecognized, room);
        self.timers.t1 = ctx.now + self.sending.handshake_timeout();
        Ok(())
    }

    /// Reports unrecognized parameters of an INIT ACK with the COOKIE ECHO, as far as they fit into its packet (RFC 9260
    /// §3.2.2). No other packet may be sent before COOKIE ACK arrives.
    fn report_unrecognized(&mut self, unrecognized: &[u8], room: usize) {
        let room = room.saturating_sub(self.cookie().len().next_multiple_of(4) + 2 * CHUNK_HEADER_LEN);
        let mut shown = Vec::new();
        for raw in Parameters::from_wire_bytes(unrecognized).raw().flatten() {
            if shown.len().next_multiple_of(4) + raw.bytes().len().next_multiple_of(4) <= room {
                whimbrel_wire::tlv::append_tlv(&mut shown, raw.bytes());
            }
        }
        if !shown.is_empty() {
            let mut causes = Vec::new();
            whimbrel_wire::Cause::UnrecognizedParameters(Parameters::from_wire_bytes(&shown)).emit(&mut causes);
            self.sending.push_on_sending_path(Outgoing::Error(causes.into()));
        }
    }

    /// Returns the time since INIT or COOKIE ECHO was last sent.
    fn waited_for_t1(&self, now: Time) -> Span {
        let rto = self.sending.handshake_timeout();
        let sent_at = Time::from_nanos(self.timers.t1.as_nanos().saturating_sub(rto.as_nanos()));
        now.since(sent_at)
    }

    /// Replies to an INIT ACK with ABORT (RFC 9260 §3.3.3, §5.1). It carries the INIT ACK's Initiate Tag, or reflects
    /// the packet's tag if that is zero.
    // [9260:3.3.3-2, 3.3.3-6, 3.3.3-9, 3.3.3-12, 3.3.3-15, 5.1-15, 5.1-16, 5.1-17]
    fn refuse_init_ack(
        &mut self,
        ctx: &mut Context<'_>,
        meta: PacketMeta,
        peer_tag: u32,
        refusal: &Refusal,
        flaw: &'static str,
    ) {
        let (reflected, causes) = match refusal {
            Refusal::Abort(causes) | Refusal::AbortOnly(causes) => (false, causes.as_slice()),
            Refusal::Silent => (true, &[][..]),
        };
        ctx.replies.push(Reply {
            local: meta.local,
            remote: meta.remote,
            source_port: self.ends.local_port,
            destination_port: self.ends.peer_port,
            verification_tag: if reflected { self.ends.local_tag } else { peer_tag },
            guard: Guard::Nothing,
            chunk: ReplyChunk::Abort {
                reflected,
                causes: causes.into(),
            },
        });
        if !matches!(refusal, Refusal::AbortOnly(_)) {
            self.close(ctx, CloseReason::ProtocolViolation(flaw));
        }
    }

    fn take_addresses(
        &mut self,
        ctx: &mut Context<'_>,
        meta: PacketMeta,
        addrs: &[TransportAddr],
        init_ack_to: Option<TransportAddr>,
    ) {
        let progress = self
            .sending
            .take_addresses(ctx, meta, &self.ends.local_addrs, addrs, init_ack_to);
        self.apply(ctx, progress);
    }

    // [9260:5.2.5-1]
    pub(super) fn on_cookie_ack(&mut self, ctx: &mut Context<'_>) -> Result<(), Discard> {
        // RFC 9260 §5.2.5
        if self.state != State::CookieEchoed {
            return Err(Discard::Unexpected);
        }
        self.sending.use_primary();
        self.establish(ctx);
        let progress = self.sending.choose_path(ctx);
        self.apply(ctx, progress);
        Ok(())
    }

    /// Handles a stale cookie error (RFC 9260 §5.2.6).
    // [9260:5.2.6-1, 5.2.6-2, 5.2.6-3, 5.3.1-2]
    pub(super) fn on_stale_cookie(&mut self, ctx: &mut Context<'_>) -> Result<(), Discard> {
        if self.state != State::CookieEchoed {
            return Err(Discard::Unexpected);
        }
        self.handshake.stale_cookies += 1;
        if self.handshake.stale_cookies > self.config.max_init_retransmits {
            self.close(ctx, CloseReason::HandshakeTimeout);
            return Ok(());
        }
        // Alternatives 1 and 3: send a new INIT, and ask for an extension of the life by the measured round-trip time
        // plus one second.
        let round_trip_ms = u32::try_from(self.waited_for_t1(ctx.now).as_millis()).unwrap_or(u32::MAX);
        let preserve_ms = self
            .config
            .extend_stale_cookie
            .then(|| round_trip_ms.saturating_add(1000));
        self.sending.lose_early_data(ctx);
        self.set_state(ctx, State::CookieWait);
        self.sending.control().clear();
        self.handshake.cookie = None;
        self.agreed.set_protection(None);
        self.receiving.receiver = None;
        self.send_init(ctx.now, preserve_ms);
        Ok(())
    }

    /// Handles a cookie of this association (RFC 9260 §5.2.4, cases B and D).
    // [9260:5.2.4-7, 5.2.4-10, 5.2.4-11]
    pub(crate) fn on_own_cookie(&mut self, ctx: &mut Context<'_>, cookie: &Cookie, meta: PacketMeta) {
        if matches!(self.state, State::CookieWait | State::CookieEchoed) {
            self.sending.control().clear();
            let hidden = self.hide_translated(cookie.local);
            self.agree(
                ctx.scratch,
                &Agreement {
                    local_tag: self.ends.local_tag,
                    local_initial_tsn: self.ends.local_initial_tsn,
                    ..Agreement::of(cookie)
                },
            );
            self.announce_later(hidden);
            let arrival = PacketMeta {
                local: cookie.local,
                ..meta
            };
            let addrs = cookie.peer_addrs.as_slice();
            self.take_addresses(ctx, arrival, addrs, addrs.first().copied());
            self.sending.return_to_primary();
            self.establish(ctx);
        } else if self.ends.peer_tag != cookie.peer_tag {
            // Case B. In case D this cookie, or another of the same INIT, has been agreed on before.
            self.ends.peer_tag = cookie.peer_tag;
            // A checksum that the peer does not accept would stop everything.
            self.agree_on_checksum(Extensions(cookie.supports));
        }
        self.send_cookie_ack(ctx, meta);
    }

    /// Restarts the association: the peer has lost its state (RFC 9260 §5.2.4, case A).
    // [9260:5.2.4-4, 5.2.4-5]
    pub(crate) fn restart(&mut self, ctx: &mut Context<'_>, cookie: &Cookie, meta: PacketMeta, random: u64) {
        let restart = Agreement::of(cookie);
        self.forget_candidates(ctx);
        self.give_up_messages(SendFailureCause::Restarted, restart.local_initial_tsn);
        self.ends.local_initial_tsn = restart.local_initial_tsn;
        // A restart does not count as the first message.
        let first_message = if self.is_silent() { self.timers.t1 } else { NEVER };
        self.timers = super::Timers::default();
        self.timers.t1 = first_message;
        self.forget_port_changes(None);
        // Users that wait for buffer space or for the delivery of sent data must be woken.
        let progress = self.sending.reinitialize();
        self.apply(ctx, progress);
        self.keep_unread();
        self.receiving.restarts = self.receiving.restarts.wrapping_add(1);
        self.user.notices = super::Notices {
            renamed: true,
            data_ready: self.receiving.before_restart.is_some(),
            ..super::Notices::default()
        };
        self.ends.tie_tags = ((random >> 32) as u32 | 1, random as u32 | 1);
        self.agree(ctx.scratch, &restart);
        self.set_state(ctx, State::Established);
        self.user.events.push_back(Event::Restarted);
        // RFC 9260 §5.4 rule 2
        let init_ack_to = cookie.peer_addrs.as_slice().first().map(|addr| addr.ip());
        let is_verified = |path: &Path| path.in_use() && Some(path.remote().ip()) == init_ack_to;
        let verified = self.sending.paths().position(is_verified);
        let progress = self.sending.restart(ctx, verified);
        self.apply(ctx, progress);
        self.start_autoclose(ctx.now);
        self.send_cookie_ack(ctx, meta);
    }

    /// Ends the association instead: the peer has lost its state, and its new association is not this one.
    pub(crate) fn end_by_restart(&mut self, ctx: &mut Context<'_>) {
        self.give_up_messages(SendFailureCause::Restarted, self.ends.local_initial_tsn);
        self.close(ctx, CloseReason::PeerRestarted);
    }

    /// Refuses a restart while waiting for SHUTDOWN COMPLETE (RFC 9260 §5.2.4 A).
    // [9260:5.2.4-6]
    pub(crate) fn refuse_restart_while_shutting_down(&mut self) {
        let mut causes = Vec::new();
        whimbrel_wire::Cause::CookieReceivedWhileShuttingDown.emit(&mut causes);
        self.sending.push_on_sending_path(Outgoing::ShutdownAck);
        self.sending.push_on_sending_path(Outgoing::Error(causes.into()));
    }

    /// Answers an INIT in SHUTDOWN-ACK-SENT with SHUTDOWN ACK (RFC 9260 §9.2).
    // [9260:9.2-22]
    pub(crate) fn resend_shutdown_ack(&mut self) {
        self.sending.push_on_sending_path(Outgoing::ShutdownAck);
    }

    /// Returns the values of the INIT that was sent, for the INIT ACK in an INIT collision (RFC 9260 §5.2.1).
    // [9260:5.2.1-1, 5.2.1-6]
    pub(crate) fn own_init(&self) -> (u32, Tsn, u16, u16) {
        (
            self.ends.local_tag,
            self.ends.local_initial_tsn,
            self.config.outbound_streams,
            self.config.max_inbound_streams,
        )
    }

    /// Returns whether ECN is used if the peer supports it.
    pub(crate) fn is_ecn_capable(&self) -> bool {
        self.config.parts.ecn
    }

    /// Returns the extensions that are used if the peer supports them.
    pub(crate) fn extensions(&self) -> Extensions {
        Extensions::wanted(&self.config)
    }

    /// Returns the random number of the INIT, for the INIT ACK in an INIT collision (RFC 9260 §5.2.1).
    pub(crate) fn auth_random(&self) -> Option<[u8; super::RANDOM_LEN]> {
        self.agreed.auth_random()
    }

    pub(crate) fn config(&self) -> &std::sync::Arc<crate::config::Resolved> {
        &self.config
    }

    pub(crate) fn recv_buffer(&self) -> u32 {
        self.config.recv_buffer
    }
}

// [9260:3.3.2.1.5-1]
fn supported_types(locals: &[TransportAddr]) -> NumberList<'static> {
    match (locals.iter().any(|a| a.is_ipv4()), locals.iter().any(|a| a.is_ipv6())) {
        (true, true) => NumberList::IPV4_AND_IPV6,
        (false, _) => NumberList::IPV6,
        _ => NumberList::IPV4,
    }
}

/// Returns a random tag other than zero (RFC 9260 §5.3.1).
// [9260:5.1-2, 5.3.1-1, 3.3.3-5]
pub(crate) fn random_tag(random: &mut dyn Rng) -> u32 {
    loop {
        let tag = random.next_u32();
        if tag != 0 {
            return tag;
        }
    }
}
