//! Processing of a packet that belongs to the association, chunk by chunk (RFC 9260 §3.2, §6.10).

use core::ops::ControlFlow;

use whimbrel_wire::{
    ByteSink, COMMON_HEADER_LEN, Cause, Causes, ChecksumField, Chunk, ChunkError, ChunkType, Data, ForwardTsn,
    PacketSink, PacketView, Parameter, Parameters, UnknownAction,
};

use super::components::Answers;
use super::reconfig::Unreadable;
use super::{Association, State};
use crate::PathId;
use crate::context::Context;
use crate::endpoint::{Guard, Reply, ReplyChunk};
use crate::error::Discard;
use crate::event::{CloseReason, Event};
use crate::receive::DataOutcome;
use crate::send::Outgoing;
use crate::send::path::HEARTBEAT_INFO_LEN;
use crate::trace::{TraceEvent, TraceKinds};
use crate::{Ecn, PacketMeta, TransportAddr};

/// Maximum bytes of an unknown chunk that are reported.
const MAX_REPORT: usize = 512;
/// Length of a chunk header and the header of a parameter or cause.
const TWO_HEADERS: usize = 8;

/// Bytes reserved in the reply packet for chunks that are not counted as replies: COOKIE ACK with HEARTBEAT, ECNE, CWR,
/// SHUTDOWN.
const RESERVED: usize = 64;

/// What the packet being processed has contained so far.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    has_data: bool,
    /// An AUTH chunk with a valid HMAC precedes.
    authenticated: bool,
    /// A RE-CONFIG with requests.
    has_request: bool,
    /// It is not encrypted, and messages are being exchanged for the keys.
    is_plain: bool,
}

/// Returns whether a RE-CONFIG has a request, and not only responses.
fn requests(parameters: Parameters<'_>) -> bool {
    let is_response = |parameter| matches!(parameter, Ok(Parameter::ReconfigResponse { .. }));
    !parameters.iter().all(is_response)
}

impl Association {
    /// Queues a reply to a chunk of the current packet, unless it would require a second packet (RFC 9260 §12.4).
    // [9260:6.4-2, 12.4-2]
    pub(super) fn answer(&mut self, to: PathId, chunk: Outgoing) {
        let len = self.control_len(&chunk);
        let room = match self.receiving.answers.packet {
            Some((path, room)) if path == to && len <= usize::from(room) => room.into(),
            Some(_) => return,
            None => {
                let room = self.sending.max_packet(to) - COMMON_HEADER_LEN;
                room.saturating_sub(RESERVED + self.signed_len() + self.sealed_len())
            }
        };
        // A packet has at most 64 KiB.
        self.receiving.answers.packet = Some((to, room.saturating_sub(len) as u16));
        self.sending.control().push(to, chunk);
    }

    /// Returns the path with this remote address.
    pub(super) fn path_of(&self, remote: TransportAddr) -> Option<PathId> {
        self.sending
            .paths()
            .position(|path| path.remote() == remote && !path.is_removed())
    }

    /// Processes a packet whose verification tag is valid. `from` is the path on which it arrived; `is_protected`: it was encrypted.
    ///
    /// # Errors
    /// Returns the reason why the first invalid chunk was discarded. The other chunks are processed as RFC 9260
    /// requires.
    // [9260:6.10-6, 6.10-7]
    pub(crate) fn on_packet(
        &mut self,
        ctx: &mut Context<'_>,
        meta: PacketMeta,
        from: PathId,
        packet: &PacketView<'_>,
        is_protected: bool,
    ) -> Result<(), Discard> {
        self.user.stats.packets_received += 1;
        self.user.stats.bytes_received += packet.wire_len() as u64;
        ctx.trace.emit(TraceKinds::PACKETS, ctx.now, Some(self.id()), || {
            TraceEvent::PacketReceived {
                path: Some(from),
                wire_len: packet.wire_len() as u32,
            }
        });
        self.receiving.answers = Answers::default();
        let replies = ctx.replies.len();
        let mut result = Ok(());
        let mut seen = Seen::default();
        if is_protected && self.agreed.is_keying(self.state) && !self.end_plaintext(ctx) {
            return Err(Discard::Unprotected);
        }
        for (position, chunk) in packet.chunks().enumerate() {
            // A chunk before may have ended the handshake.
            seen.is_plain = !is_protected && self.agreed.is_keying(self.state);
            match self.on_chunk(ctx, meta, from, packet, (position, chunk), &mut seen) {
                ControlFlow::Continue(taken) => result = result.and(taken),
                ControlFlow::Break(reason) => {
                    result = result.and(Err(reason));
                    break;
                }
            }
            if self.state == State::Closed {
                return result;
            }
        }
        if self.receiving.answers.packet.is_some() {
            ctx.replies.truncate(replies);
        }
        // A packet that anyone may have sent changes nothing.
        let is_open = !self.is_protected() && !self.requires_auth(ChunkType::HEARTBEAT_ACK);
        let is_authentic = is_protected || seen.authenticated || is_open;
        if is_authentic {
            self.watch_port(ctx.now, meta);
        }
        if seen.has_data {
            if seen.is_plain {
                self.sending.follow(from);
            }
            if self.agreed.eci.in_use {
                self.agreed.eci.on_data(meta, self.sending.uses_ecn());
            }
            if meta.ecn == Ecn::Ce {
                self.on_ce(ctx, packet, from);
            }
            self.after_data(ctx, from);
        }
        self.release_if_acknowledged(ctx);
        if let Some(stamping) = &mut self.agreed.stamping {
            stamping.on_packet_end(ctx.now, from, seen.has_data);
        }
        if self.state == State::ShutdownSent && is_authentic {
            self.on_packet_in_shutdown_sent(ctx.now);
        }
        result
    }

    /// Processes a chunk, given with its place in the packet. Breaks if the rest of the packet is discarded.
    #[inline]
    // [3758:3.3.1-1, 3.3.2-3]
    // [8260:2.3.1-10]
    // [4820:3-5]
    fn on_chunk(
        &mut self,
        ctx: &mut Context<'_>,
        meta: PacketMeta,
        from: PathId,
        packet: &PacketView<'_>,
        (position, chunk): (usize, Result<Chunk<'_>, ChunkError>),
        seen: &mut Seen,
    ) -> ControlFlow<Discard, Result<(), Discard>> {
        ControlFlow::Continue(match chunk {
            Ok(chunk) if seen.is_plain && !self.is_for_keying(&chunk) => Err(Discard::Unprotected),
            // RFC 4895 §6.3: a chunk that requires authentication and has none is discarded.
            Ok(chunk) if !seen.authenticated && self.must_be_authenticated(&chunk) => Err(Discard::Unauthenticated),
            Ok(Chunk::Auth(auth)) if self.agreed.auth.is_some() => {
                if let Err(reason) = self.on_auth(from, &auth, packet) {
                    return ControlFlow::Break(reason);
                }
                seen.authenticated = true;
                Ok(())
            }
            // Without negotiation, AUTH is an unknown chunk (RFC 9260 §3.2).
            Ok(Chunk::Auth(_)) => {
                return ControlFlow::Break(Discard::InvalidChunk);
            }
            Ok(Chunk::NrSack(_)) if !self.uses_nr_sack() => {
                return ControlFlow::Break(Discard::InvalidChunk);
            }
            Ok(Chunk::AsconfAck(_)) if self.agreed.asconf.is_none() => Ok(()),
            Ok(chunk @ Chunk::Asconf(_)) if self.agreed.asconf.is_none() => {
                self.report_unnegotiated_chunk(from, &chunk);
                Ok(())
            }
            // RFC 8260 §2.3.1: FORWARD TSN belongs to DATA, I-FORWARD-TSN to I-DATA.
            Ok(Chunk::ForwardTsn(forward)) if forward.skipped.is_interleaved() != self.agreed.interleaves => {
                self.abort_for_violation(ctx, "FORWARD TSN and I-FORWARD-TSN are mixed up");
                Err(Discard::InvalidChunk)
            }
            Ok(chunk @ Chunk::ForwardTsn(_)) if !self.agreed.gives_up => {
                self.report_unnegotiated_chunk(from, &chunk);
                Ok(())
            }
            Ok(Chunk::ForwardTsn(forward)) => {
                seen.has_data = true;
                self.on_forward_tsn(&forward)
            }
            // Its type asks to skip it if it is not supported.
            Ok(Chunk::ReConfig { .. }) if self.agreed.reconfig.is_none() => Ok(()),
            // A peer has one chunk with requests outstanding (RFC 6525 §5.1.1). A packet full of others would be work for nothing.
            Ok(Chunk::ReConfig { parameters })
                if requests(parameters) && core::mem::replace(&mut seen.has_request, true) =>
            {
                Err(Discard::Limit)
            }
            Ok(Chunk::Data(data)) => {
                seen.has_data = true;
                if let Err(reason) = self.check_data(ctx, &data, seen.is_plain) {
                    return ControlFlow::Break(reason);
                }
                self.on_data(ctx, &data, from)
            }
            // Without negotiation, it is an unknown chunk (RFC 9260 §3.2). It contains no other DTLS chunk.
            Ok(chunk @ Chunk::Dtls(_)) => {
                if !self.is_protected() {
                    self.report_unnegotiated_chunk(from, &chunk);
                }
                return ControlFlow::Break(Discard::InvalidChunk);
            }
            Err(ChunkError::Malformed { chunk_type, .. }) if chunk_type == ChunkType::DTLS => {
                return ControlFlow::Break(Discard::InvalidChunk);
            }
            // RFC 4820 §3
            Ok(Chunk::Pad { .. }) => Ok(()),
            Ok(Chunk::Unknown(raw)) => match raw.action() {
                UnknownAction::Skip => Ok(()),
                UnknownAction::Stop => {
                    return ControlFlow::Break(Discard::InvalidChunk);
                }
                UnknownAction::SkipAndReport => {
                    self.report_unknown_chunk(from, raw.bytes());
                    Ok(())
                }
                UnknownAction::StopAndReport => {
                    self.report_unknown_chunk(from, raw.bytes());
                    return ControlFlow::Break(Discard::InvalidChunk);
                }
            },
            // RFC 9260 §12.3: chunks that follow an INIT are discarded too.
            Ok(Chunk::Init(_)) if position > 0 => {
                return ControlFlow::Break(Discard::Bundled);
            }
            // RFC 9260 §6.10
            Ok(chunk) if position > 0 && chunk.chunk_type().must_be_alone() => Err(Discard::Bundled),
            Ok(chunk) => self.on_control(ctx, meta, from, &chunk, packet.header().verification_tag),
            Err(ChunkError::Malformed { .. }) => Err(Discard::InvalidChunk),
            Err(_) => Err(Discard::Malformed),
        })
    }

    // [9260:8.5.1-13, 9.2-23, 9.2-24]
    fn on_control(
        &mut self,
        ctx: &mut Context<'_>,
        meta: PacketMeta,
        from: PathId,
        chunk: &Chunk<'_>,
        tag: u32,
    ) -> Result<(), Discard> {
        match chunk {
            Chunk::Sack(sack) => self.on_sack(ctx, sack, from),
            Chunk::NrSack(nr_sack) => self.on_nr_sack(ctx, nr_sack, from),
            Chunk::NewGaps(new_gaps) => self.on_new_gaps(ctx, new_gaps, from),
            Chunk::Heartbeat(info) => self.on_heartbeat(ctx, meta, from, info.0),
            Chunk::HeartbeatAck(info) => self.on_heartbeat_ack(ctx, meta, info.0),
            Chunk::InitAck(init_ack) => self.on_init_ack(ctx, meta, init_ack),
            Chunk::CookieAck => self.on_cookie_ack(ctx),
            // RFC 9260 §8.5.1 B: the T bit is not valid with the local tag.
            Chunk::Abort {
                tag_reflected: true, ..
            }
            | Chunk::ShutdownComplete { tag_reflected: true } => Err(Discard::VerificationTag),
            Chunk::Abort { .. } if self.stopped_using(meta.local) && !self.is_requested(meta.local) => {
                Err(Discard::OutOfTheBlue)
            }
            Chunk::Abort { causes, .. } => {
                self.on_abort(ctx, false, *causes);
                Ok(())
            }
            Chunk::Error { causes } => self.on_error(ctx, *causes),
            Chunk::Shutdown { cumulative_tsn_ack } => self.on_shutdown(ctx, from, *cumulative_tsn_ack),
            Chunk::ShutdownAck if matches!(self.state, State::CookieWait | State::CookieEchoed) => {
                // RFC 9260 §8.5.1 E, §9.2: out of the blue. The handshake continues.
                ctx.replies.push(Reply {
                    local: meta.local,
                    remote: meta.remote,
                    source_port: self.ends.local_port,
                    destination_port: self.ends.peer_port,
                    verification_tag: tag,
                    guard: Guard::Nothing,
                    chunk: ReplyChunk::ShutdownComplete { reflected: true },
                });
                Err(Discard::OutOfTheBlue)
            }
            Chunk::ReConfig { parameters } => self.on_stream_change(ctx, from, *parameters),
            Chunk::Asconf(asconf) => self.on_asconf(ctx, meta, asconf),
            Chunk::AsconfAck(ack) => self.on_asconf_ack(ctx, from, ack),
            Chunk::ShutdownAck => self.on_shutdown_ack(ctx, from),
            Chunk::ShutdownComplete { .. } => self.on_shutdown_complete(ctx),
            Chunk::Ecne { lowest_tsn, .. } => self.sending.on_ecne(ctx, *lowest_tsn, from),
            Chunk::Cwr { lowest_tsn } => self.on_cwr(*lowest_tsn),
            Chunk::Timestamp(timestamp) => {
                self.on_timestamp(*timestamp);
                Ok(())
            }
            // The endpoint processes it before it passes on the packet.
            Chunk::CookieEcho { .. } => Ok(()),
            _ => Err(Discard::Unexpected),
        }
    }

    /// Processes a DATA chunk (RFC 9260 §6, §6.2).
    // [9260:6-2, 6-4, 6.5-2, 6.2-31]
    fn on_data(&mut self, ctx: &mut Context<'_>, data: &Data<'_>, from: PathId) -> Result<(), Discard> {
        let takes_data = self.state.takes_data();
        let Some(receiver) = self.receiving.receiver.as_mut().filter(|_| takes_data) else {
            return Err(Discard::Unexpected);
        };
        match receiver.on_data(data) {
            DataOutcome::New => {
                self.user.stats.data_chunks_received += 1;
                Ok(())
            }
            DataOutcome::Duplicate => {
                self.user.stats.duplicates_received += 1;
                Ok(())
            }
            DataOutcome::NoBuffer | DataOutcome::OutOfWindow => Err(Discard::Limit),
            DataOutcome::InvalidStream => {
                let mut causes = Vec::new();
                Cause::InvalidStreamIdentifier { stream: data.stream }.emit(&mut causes);
                self.report(from, causes);
                Err(Discard::InvalidChunk)
            }
            DataOutcome::TooLong => {
                self.refuse_long_message(ctx);
                Err(Discard::Limit)
            }
            DataOutcome::NoUserData(tsn) => {
                let mut causes = Vec::new();
                Cause::NoUserData { tsn }.emit(&mut causes);
                self.abort_with(
                    ctx,
                    &causes,
                    CloseReason::ProtocolViolation("a DATA chunk without user data"),
                );
                Err(Discard::InvalidChunk)
            }
            DataOutcome::ProtocolViolation(what) => {
                self.abort_for_violation(ctx, what);
                Err(Discard::InvalidChunk)
            }
        }
    }

    /// Processes a FORWARD TSN chunk (RFC 3758 §3.6).
    fn on_forward_tsn(&mut self, forward: &ForwardTsn<'_>) -> Result<(), Discard> {
        let Some(receiver) = self.receiving.receiver.as_mut().filter(|_| self.state.takes_data()) else {
            return Err(Discard::Unexpected);
        };
        receiver.on_forward_tsn(forward);
        Ok(())
    }

    /// Processes a RE-CONFIG chunk (RFC 6525 §5.2).
    // [6525:3.1-1]
    fn on_stream_change(
        &mut self,
        ctx: &mut Context<'_>,
        from: PathId,
        parameters: Parameters<'_>,
    ) -> Result<(), Discard> {
        // In SHUTDOWN-RECEIVED, the response to a request of this end may be what the shutdown waits for.
        if !self.state.takes_data() && !self.state.may_send_data() {
            return Err(Discard::Unexpected);
        }
        match self.on_reconfig(ctx.now, parameters) {
            Ok(answer) => {
                if let Some(answer) = answer {
                    let to = self.sending.confirmed_or_sending(from);
                    self.answer(to, answer);
                }
                // Data may have waited for the response, and the shutdown for the data.
                self.advance_shutdown(ctx);
                Ok(())
            }
            Err(Unreadable::Malformed) => Err(Discard::InvalidChunk),
            Err(Unreadable::Combination) => {
                // RFC 6525 §3.1
                let mut causes = Vec::new();
                Cause::ProtocolViolation(b"RE-CONFIG with parameters that do not belong together").emit(&mut causes);
                self.report(from, causes);
                Err(Discard::InvalidChunk)
            }
        }
    }

    // [9260:5.1-18, 5.1-19, 5.1.5-6]
    fn after_data(&mut self, ctx: &mut Context<'_>, from: PathId) {
        let Some(receiver) = &mut self.receiving.receiver else {
            return;
        };
        // RFC 9260 §5.1: the first DATA chunk of an association is acknowledged at once.
        if !receiver.has_acknowledged() {
            receiver.request_sack();
        }
        receiver.on_packet_end(ctx.now, from.0);
        if self.agreed.has_key_messages() {
            self.take_key_messages(ctx);
        }
        let has_message = self
            .receiving
            .receiver
            .as_ref()
            .is_some_and(|receiver| receiver.has_message());
        if self.agreed.is_keying(self.state) || self.state == State::Closed {
            return;
        }
        if has_message {
            self.note_use();
        }
        if has_message && !self.user.notices.data_ready {
            self.user.notices.data_ready = true;
            self.user.events.push_back(Event::DataReady);
        }
        self.timers.touch_autoclose(ctx.now);
        if self.tuning.is_some() {
            self.tune_receive(ctx, from);
        }
        if self.state == State::ShutdownSent {
            self.on_data_in_shutdown_sent(ctx.now, from);
        }
    }

    /// Returns the Heartbeat Info unchanged to the source (RFC 9260 §8.3).
    // [9260:8.3-2, 8.3-8, 3.3.6-1, 3.3.6-2]
    fn on_heartbeat(
        &mut self,
        ctx: &mut Context<'_>,
        meta: PacketMeta,
        from: PathId,
        info: &[u8],
    ) -> Result<(), Discard> {
        if self.state == State::CookieWait {
            return Err(Discard::Unexpected);
        }
        // A HEARTBEAT that exceeds the path MTU cannot be returned.
        if TWO_HEADERS + info.len() > self.sending.largest_chunk() {
            return Err(Discard::InvalidChunk);
        }
        let known = self.sending.paths()[from].remote();
        if meta.remote.ip() == known.ip() && meta.remote.port() != known.port() {
            // The peer verifies a path whose UDP port is not known yet.
            self.reply_to_source(ctx, meta, ReplyChunk::HeartbeatAck(info.into()));
        }
        // With encryption, the port may be that of a faster copy, and the original counts as a replay: the peer gets an answer too.
        if meta.remote.ip() != known.ip() || meta.remote.port() == known.port() || self.is_protected() {
            self.answer(from, Outgoing::HeartbeatAck(info.into()));
        }
        Ok(())
    }

    /// Handles a HEARTBEAT ACK: the answer to the verification of a port, to a ping, or to a HEARTBEAT of a path (RFC 9260 §8.3).
    fn on_heartbeat_ack(&mut self, ctx: &mut Context<'_>, meta: PacketMeta, info: &[u8]) -> Result<(), Discard> {
        if let Ok(nonce) = info.try_into() {
            return self.on_port_answer(ctx, meta, u64::from_be_bytes(nonce));
        }
        if info.len() > HEARTBEAT_INFO_LEN && self.on_ping_answer(ctx.now, info) {
            return Ok(());
        }
        let progress = self.sending.on_heartbeat_ack(ctx, meta.remote, info)?;
        self.apply(ctx, progress);
        // A shutdown may have waited for a confirmed path.
        self.advance_shutdown(ctx);
        Ok(())
    }

    #[inline]
    fn must_be_authenticated(&self, chunk: &Chunk<'_>) -> bool {
        self.agreed.auth.is_some() && self.requires_auth(chunk.chunk_type())
    }

    /// Returns whether chunks of this type are accepted only if authenticated.
    pub(crate) fn requires_auth(&self, chunk_type: ChunkType) -> bool {
        self.agreed.auth.as_ref().is_some_and(|auth| auth.requires(chunk_type))
    }

    /// Reports a chunk of a known type that was not negotiated.
    fn report_unnegotiated_chunk(&mut self, from: PathId, chunk: &Chunk<'_>) {
        let mut bytes = Vec::new();
        let mut sink = ByteSink::new(&mut bytes, ChecksumField::Zero);
        sink.push(chunk);
        let len = chunk.length().min(bytes.len());
        self.report_unknown_chunk(from, &bytes[..len]);
    }

    /// Reports an unknown chunk, as the two highest bits of its type require (RFC 9260 §3.2).
    fn report_unknown_chunk(&mut self, from: PathId, chunk: &[u8]) {
        let mut causes = Vec::new();
        let shown = chunk
            .len()
            .min(MAX_REPORT)
            .min(self.sending.largest_chunk() - TWO_HEADERS);
        Cause::UnrecognizedChunkType(&chunk[..shown]).emit(&mut causes);
        self.report(from, causes);
    }

    /// Sends an ERROR chunk to the source of the packet if that address is confirmed (RFC 9260 §5.4), and otherwise on
    /// the sending path.
    // [9260:3.1-3]
    pub(super) fn report(&mut self, from: PathId, causes: Vec<u8>) {
        let to = self.sending.confirmed_or_sending(from);
        // The tag for the report arrives with the INIT ACK.
        if self.state != State::CookieWait {
            self.answer(to, Outgoing::Error(causes.into()));
        }
    }

    fn on_error(&mut self, ctx: &mut Context<'_>, causes: Causes<'_>) -> Result<(), Discard> {
        if causes
            .iter()
            .any(|cause| matches!(cause, Ok(Cause::StaleCookie { .. })))
        {
            return self.on_stale_cookie(ctx);
        }
        // A packet full of errors causes one event, not thousands.
        if let Some(cause) = causes.iter().next() {
            let cause = cause.map_err(|_| Discard::InvalidChunk)?.code();
            self.user.events.push_back(Event::RemoteError { cause });
        }
        Ok(())
    }
}
