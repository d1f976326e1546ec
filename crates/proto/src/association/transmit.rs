//! The content of the next packet: control chunks, a SACK, retransmissions, new data, in this order (RFC 9260 §6.1,
//! §6.10).

use whimbrel_control::multipath::SackPath;
use whimbrel_control::{Seq, Time};
use whimbrel_wire::{
    Asconf, COMMON_HEADER_LEN, Causes, Chunk, CommonHeader, DATA_HEADER_LEN, DuplicateTsns, GapBlocks, HeartbeatInfo,
    NEW_GAPS_HEADER_LEN, NR_SACK_HEADER_LEN, NewGaps, NrSack, PacketSink, Parameters, SACK_HEADER_LEN, Sack, SackLists,
};

use super::packet::Packet;
use super::retransmission::LostData;
use super::{Association, Context, Outgoing, State};
use crate::config::NEVER;
use crate::path::{HeartbeatContent, Timed};
use crate::receive::NewGapsHeader;
use crate::trace::{TraceEvent, TraceKinds};
use crate::{Ecn, PathId};

/// Chunks beyond the cumulative TSN ack that a Gap Ack Block can report (RFC 9260 §3.3.4).
const MAX_REPORTED: usize = 65_535;
/// Maximum number of outstanding ordered messages of a stream: one less than the number of stream sequence numbers.
const MAX_ORDERED: u32 = 65_535;

/// The data that may be sent next, and its path.
#[derive(Clone, Copy)]
enum NextData {
    /// A retransmission; `from` is the path of the loss that permits it.
    Retransmission {
        from: PathId,
        to: PathId,
    },
    New {
        to: PathId,
    },
    /// A copy of data in flight on another path.
    Copy {
        to: PathId,
    },
}

impl NextData {
    fn to(self) -> PathId {
        match self {
            NextData::Retransmission { to, .. } | NextData::New { to } | NextData::Copy { to } => to,
        }
    }
}

impl Association {
    /// Writes the next packet into `sink`, if there is one to send. Returns its path, its ECN codepoint and its length.
    // [9260:3.1-3, 3.1-4, 3.3.2-6, 3.3.3-4, 8.5-1, 8.5.1-12, 3.3.12-1, 5.1.5-7]
    pub(crate) fn poll_transmit(
        &mut self,
        ctx: &mut Context<'_>,
        sink: &mut dyn PacketSink,
    ) -> Option<(PathId, Ecn, usize)> {
        if self.state == State::Closed {
            return None;
        }
        let control = self.next_control().and_then(|place| self.outgoing.get(place));
        let is_init = matches!(control, Some((_, Outgoing::Init { .. })));
        let control_path = control.map(|&(path, _)| path);
        // A distribution counts the packets for which it is called. After a control chunk, there might be no room for
        // data.
        let next_data = if control_path.is_some() && self.is_spread() {
            None
        } else {
            self.next_data(ctx.now)
        };
        let path = match (control_path, next_data) {
            (Some(path), _) => Some(path),
            (None, Some(next)) => Some(next.to()),
            (None, None) => self.next_sack(ctx.now),
        };
        let Some(path) = path else {
            return self.send_probe_or_wait(ctx, sink);
        };
        sink.begin(CommonHeader {
            // [9260:1.3-2]
            source_port: self.ends.local_port,
            destination_port: self.ends.peer_port,
            // RFC 9260 §8.5.1 A
            verification_tag: if is_init { 0 } else { self.ends.peer_tag },
        });
        let room = self.paths[path].max_packet() - COMMON_HEADER_LEN;
        let mut packet = Packet {
            sink,
            path,
            room,
            has_chunk: false,
            ecn: Ecn::NotEct,
            stamp: None,
            signed: false,
        };
        if let Some(auth) = self.agreed.auth.as_ref().filter(|auth| auth.every_packet && !is_init) {
            packet.sign(&auth.signer);
        }
        if self.state == State::CookieEchoed {
            self.push_cookie_echo(ctx, &mut packet);
        } else if !self.push_control(ctx, &mut packet) {
            self.push_sack(ctx, &mut packet, next_data.is_some_and(|next| next.to() == path));
            if let Some(next) = next_data.filter(|next| next.to() == path) {
                self.push_data(ctx, &mut packet, next);
            }
        }
        debug_assert!(packet.has_chunk, "a packet without a chunk was started");
        let ecn = packet.ecn;
        if let Some(auth) = self.agreed.auth.as_ref().filter(|_| packet.signed) {
            auth.signer.seal(packet.sink);
        }
        let wire_len = packet.sink.finish();
        self.user.stats.packets_sent += 1;
        self.user.stats.bytes_sent += wire_len as u64;
        ctx.trace
            .emit(TraceKinds::PACKETS, ctx.now, Some(self.id), || TraceEvent::PacketSent {
                path,
                wire_len: wire_len as u32,
            });
        Some((path, ecn, wire_len))
    }

    /// Sends a path probe if one is due. Otherwise there is nothing to send.
    fn send_probe_or_wait(&mut self, ctx: &mut Context<'_>, sink: &mut dyn PacketSink) -> Option<(PathId, Ecn, usize)> {
        if let Some(path) = self.next_probe() {
            return Some(self.send_probe(ctx, sink, path));
        }
        self.watch_zero_window(ctx);
        self.note_app_limited(ctx.now);
        if self.is_spread() {
            self.note_stall(ctx.now);
        }
        None
    }

    /// Returns the position of the next control chunk to be sent.
    #[inline]
    fn next_control(&self) -> Option<usize> {
        self.outgoing.next(|to, chunk| self.may_go(to, chunk))
    }

    /// Adds the control chunks for this path. Returns true if no further chunk may be added to the packet.
    // [9260:6-10, 6.10-3, 5.1-9, 5.1-10]
    fn push_control(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>) -> bool {
        while let Some(place) = self.next_control()
            && let Some((to, waiting)) = self.outgoing.get(place)
        {
            if *to != packet.path {
                break;
            }
            let is_init = matches!(waiting, Outgoing::Init { .. });
            if is_init && packet.has_chunk {
                // RFC 9260 §6.10: INIT must not be bundled.
                return true;
            }
            if packet.has_chunk && self.control_len(waiting) > packet.room {
                return true;
            }
            let Some(chunk) = self.outgoing.take(place) else { break };
            match chunk {
                Outgoing::Init { preserve_ms } => {
                    self.push_init(ctx, packet, preserve_ms);
                    return true;
                }
                Outgoing::CookieEcho => packet.push(&Chunk::CookieEcho { cookie: self.cookie() }),
                Outgoing::CookieAck => packet.push(&Chunk::CookieAck),
                Outgoing::Heartbeat { nonce } => {
                    let content = HeartbeatContent {
                        nonce,
                        sent_at: ctx.now,
                        path: packet.path,
                    };
                    self.paths[packet.path].heartbeat.on_sent(ctx.now);
                    packet.push(&Chunk::Heartbeat(HeartbeatInfo(&content.to_bytes())));
                    if self.paths[packet.path].black_hole.is_some() {
                        // With data, the packet might be too long to arrive.
                        return true;
                    }
                }
                Outgoing::Ping { nonce, len } => {
                    let info = self.ping_info(ctx.now, packet.path, nonce, len);
                    packet.push(&Chunk::Heartbeat(HeartbeatInfo(&info)));
                }
                Outgoing::HeartbeatAck(info) => packet.push(&Chunk::HeartbeatAck(HeartbeatInfo(&info))),
                Outgoing::Error(causes) => packet.push(&Chunk::Error {
                    causes: Causes::from_wire_bytes(&causes),
                }),
                Outgoing::Asconf | Outgoing::AsconfAck { .. } => {
                    if let Some(auth) = &self.agreed.auth {
                        packet.sign(&auth.signer);
                    }
                    match chunk {
                        Outgoing::AsconfAck { serial, answer } => packet.push(&Chunk::AsconfAck(Asconf {
                            serial,
                            parameters: Parameters::from_wire_bytes(&answer),
                        })),
                        _ => self.push_asconf(packet),
                    }
                }
                Outgoing::Shutdown => {
                    let received = self
                        .receiving
                        .receiver
                        .as_ref()
                        .map(|receiver| receiver.cumulative_tsn());
                    if let Some(cumulative_tsn_ack) = received {
                        packet.push(&Chunk::Shutdown { cumulative_tsn_ack });
                    }
                }
                Outgoing::ShutdownAck => packet.push(&Chunk::ShutdownAck),
                Outgoing::Ecne { lowest_tsn } => self.push_ecne(ctx, packet, lowest_tsn),
                Outgoing::Cwr { lowest_tsn } => {
                    packet.push(&Chunk::Cwr { lowest_tsn });
                    self.user.stats.cwr_sent += 1;
                }
            }
        }
        // RFC 9260 §6.10: DATA must not follow SHUTDOWN ACK.
        packet.has_chunk && self.state == State::ShutdownAckSent
    }

    pub(super) fn control_len(&self, chunk: &Outgoing) -> usize {
        let padded = |len: usize| len.next_multiple_of(4);
        match chunk {
            Outgoing::Init { .. } => 0,
            Outgoing::CookieEcho => padded(4 + self.cookie().len()),
            Outgoing::CookieAck | Outgoing::ShutdownAck => 4,
            Outgoing::Heartbeat { .. } => padded(8 + crate::path::HEARTBEAT_INFO_LEN),
            Outgoing::Ping { len, .. } => padded(8 + usize::from(*len)),
            Outgoing::HeartbeatAck(info) => padded(8 + info.len()),
            Outgoing::Error(causes) => padded(4 + causes.len()),
            Outgoing::Asconf => padded(self.asconf_len()) + self.signed_len(),
            Outgoing::AsconfAck { answer, .. } => padded(8 + answer.len()) + self.signed_len(),
            Outgoing::Shutdown | Outgoing::Ecne { .. } | Outgoing::Cwr { .. } => 8,
        }
    }

    /// Returns the length of an AUTH chunk in bytes.
    pub(super) fn signed_len(&self) -> usize {
        self.agreed.auth.as_ref().map_or(0, |auth| auth.signer.chunk_len())
    }

    /// Returns the path for a SACK, or a copy of one, that is not bundled with data.
    fn next_sack(&self, now: Time) -> Option<PathId> {
        let is_due = self
            .receiving
            .receiver
            .as_ref()
            .is_some_and(|receiver| receiver.sack_due(now));
        let on_its_own = || Some(self.sack_path()).filter(|&path| self.paths[path].is_open());
        (is_due && self.may_send_sack())
            .then(on_its_own)
            .flatten()
            .or_else(|| self.next_sack_copy())
    }

    // [9260:9.2-10]
    pub(super) fn may_send_sack(&self) -> bool {
        self.state.may_send_data() || self.state == State::ShutdownSent
    }

    /// Adds a SACK if one is due, or if data is sent and a SACK is delayed (RFC 9260 §6.1).
    // [9260:6.1-16, 6.2-15, 6.2-17]
    fn push_sack(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>, with_data: bool) {
        let Some(receiver) = &self.receiving.receiver else {
            return;
        };
        let is_due = receiver.sack_due(ctx.now) || with_data && receiver.sack_pending();
        if !is_due && self.receiving.sack_copies >> packet.path().0 & 1 == 0 {
            return;
        }
        let header_len = match &self.agreed.reports {
            None => SACK_HEADER_LEN,
            Some(_) => NR_SACK_HEADER_LEN.max(NEW_GAPS_HEADER_LEN),
        };
        let may_go = self.may_send_sack() && self.paths[packet.path].is_open() && !self.should_avoid(packet.path);
        if !may_go || packet.room < header_len + self.stamp_len() {
            return;
        }
        let Some(receiver) = &mut self.receiving.receiver else {
            return;
        };
        // The sender relates the echoed information to the path on which the SACK arrives.
        let is_on_path = self.config.parts.reporting.sack_path == SackPath::LastArrival
            || packet.path() == PathId(receiver.sack_path());
        // Before the SACK, so that the timestamp is known when the SACK is processed.
        match self.agreed.stamping.as_deref_mut() {
            Some(stamping) if stamping.repeats() => {
                let about = PathId(receiver.sack_path());
                for stamp in stamping.all_to_return(about, (packet.room - header_len) / 2) {
                    packet.push(&Chunk::Timestamp(stamp));
                }
            }
            Some(stamping) if is_on_path => {
                if let Some(stamp) = stamping.take_to_return() {
                    packet.push(&Chunk::Timestamp(stamp));
                }
            }
            _ => {}
        }
        let scratch = &mut *ctx.scratch;
        let room = packet.room - (header_len - SACK_HEADER_LEN);
        let content = receiver.write_sack(&mut scratch.gaps, &mut scratch.duplicates, room);
        let (cumulative_tsn_ack, a_rwnd) = (content.cumulative_tsn_ack, content.a_rwnd);
        let (congestion_indicated, packets) = (is_on_path && self.agreed.eci.take_i_bit(), content.packets);
        if self.agreed.reports.is_some() {
            let gaps = scratch.gaps.len() / 4;
            let dropped = receiver.dropped();
            scratch.gaps.extend_from_slice(dropped);
            scratch.gaps.extend_from_slice(&scratch.duplicates);
            packet.push(&match content.new_gaps {
                Some(NewGapsHeader { serial, everything }) => Chunk::NewGaps(NewGaps {
                    cumulative_tsn_ack,
                    a_rwnd,
                    lists: SackLists::from_wire_bytes(&scratch.gaps, gaps, dropped.len() / 4),
                    congestion_indicated,
                    packets,
                    everything,
                    serial,
                }),
                // All reported chunks are non-renegable.
                None => Chunk::NrSack(NrSack {
                    cumulative_tsn_ack,
                    a_rwnd,
                    lists: SackLists::from_wire_bytes(&scratch.gaps, 0, gaps),
                    congestion_indicated,
                    packets,
                }),
            });
        } else {
            packet.push(&Chunk::Sack(Sack {
                cumulative_tsn_ack,
                a_rwnd,
                gaps: GapBlocks::from_wire_bytes(&scratch.gaps),
                duplicates: DuplicateTsns::from_wire_bytes(&scratch.duplicates),
                congestion_indicated,
                packets,
            }));
        }
        self.user.stats.sacks_sent += 1;
        self.note_sack(packet.path(), is_due);
        if let Some(lowest_tsn) = self.agreed.ecn.echo {
            self.push_ecne(ctx, packet, lowest_tsn);
        }
    }

    /// Returns the data that may be sent now (RFC 9260 §6.1 rules A to E).
    // [9260:6-1, 6.1-1, 6.1-8, 6.1-13]
    fn next_data(&mut self, now: Time) -> Option<NextData> {
        if !self.state.may_send_data() || self.is_held() {
            return None;
        }
        let mut blocked = None;
        match self.next_retransmission(now) {
            LostData::Ready { from, to } => return Some(NextData::Retransmission { from, to }),
            LostData::Waits(to) => blocked = Some(to),
            LostData::None => {}
        }
        if self.is_spread() {
            return self.next_spread(now, blocked);
        }
        if self.sender.queue.is_empty() || !self.may_add_chunk() {
            return None;
        }
        let to = self.choice.sending;
        if blocked == Some(to) {
            return None;
        }
        if self.sender.outstanding.chunks_in_flight(self.choice.sending) == 0 && !self.paths[to].is_probed() {
            self.paths[to].decay_if_idle(now);
        }
        let may_send = self.paths[to].burst_left > 0
            && !self.paths[to].is_probed()
            && self.window_open(to)
            && self.next_new_len(self.room_on(to)).is_some();
        (may_send && self.paths[to].is_its_time(now)).then_some(NextData::New { to })
    }

    /// Returns the data that may be sent now if several paths are used concurrently.
    fn next_spread(&mut self, now: Time, blocked: Option<PathId>) -> Option<NextData> {
        if let Some(to) = self.next_redundant(now) {
            return Some(NextData::Copy { to });
        }
        let chosen = if self.sender.queue.is_empty() || !self.may_add_chunk() {
            None
        } else {
            self.distribute(now, blocked)
        };
        match chosen {
            Some(to) => Some(NextData::New { to }),
            None => self.next_opportunity(now).map(|to| NextData::Copy { to }),
        }
    }

    /// Returns whether one more chunk may be outstanding. A stream has less than 2^16 outstanding ordered messages (RFC
    /// 9260 §6.1). While the peer reports a gap, no chunk is sent that a Gap Ack Block could not report, because its
    /// offsets have 16 bits.
    // [9260:1.6-3, 6.1-23]
    fn may_add_chunk(&mut self) -> bool {
        if self.sender.outstanding.len() < MAX_REPORTED {
            return true;
        }
        let stream = self.sender.queue.next_ordered();
        let is_full = stream.is_some_and(|stream| self.sender.outstanding.ordered_messages(stream) >= MAX_ORDERED);
        self.sender.outstanding.reported().next().is_none() && !is_full
    }

    /// Rule B: the flight is below cwnd. The next packet may exceed cwnd.
    // [9260:6.1-10, 6.1-11, 6.1-12, 7.2.1-2, 7.2.1-4]
    pub(super) fn window_open(&self, id: PathId) -> bool {
        let (path, flight) = (&self.paths[id], self.sender.outstanding.flight(id));
        flight < path.control.cwnd() && !(path.one_packet_only && flight > 0)
    }

    /// Returns the length of user data in the next new chunk, if it may be sent in a packet with `room` bytes left (RFC
    /// 9260 §6.1 A, §6.9).
    // [9260:6.1-2, 6.1-9, 6.1-17, 6-8, 6.9-2, 6.9-5, 6.9-7, 6.9-8, 6.9-10, 6.10-5]
    pub(super) fn next_new_len(&self, room: usize) -> Option<usize> {
        let left = self.sender.queue.next_len()?;
        // RFC 9260 §7.3: fragmented so that the chunk can be retransmitted on any path.
        let largest = usize::from(self.sender.max_data);
        let in_room = (room.saturating_sub(DATA_HEADER_LEN)) / 4 * 4;
        let mut len = left.min(largest);
        if len > in_room {
            // Only messages that are fragmented anyway are cut to fill a packet, and not into small fragments.
            if left <= largest || in_room < largest / 2 {
                return None;
            }
            len = in_room;
        }
        let rwnd = self.sender.peer_rwnd as usize;
        if len <= rwnd || self.sender.probe.permitted {
            return Some(len);
        }
        // Silly window avoidance (RFC 1122 §4.2.3.4): a smaller chunk is sent only if no data is in flight and the
        // window is at least half of the largest one advertised.
        let worth_it = rwnd >= self.sender.largest_peer_rwnd as usize / 2 && rwnd > 0;
        (worth_it && self.sender.outstanding.nothing_in_flight()).then_some(rwnd)
    }

    /// Writes a packet before COOKIE ACK has arrived. The first COOKIE ECHO is bundled with waiting user data (RFC 9260
    /// §5.1 C). A repeated one is not, because it is sent in the state COOKIE-ECHOED (RFC 9260 §6). The data of the first
    /// one counts as lost then, and is retransmitted once the association is established.
    // [9260:5.1-7, 3.3.11-1, 6-1]
    fn push_cookie_echo(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>) {
        let is_echo = |(_, chunk): &(PathId, Outgoing)| *chunk == Outgoing::CookieEcho;
        let has_echo = self
            .next_control()
            .and_then(|place| self.outgoing.get(place))
            .is_some_and(is_echo);
        let is_first = has_echo
            && self
                .handshake
                .cookie
                .as_mut()
                .is_some_and(|cookie| !core::mem::replace(&mut cookie.is_echoed, true));
        // Data lost with the COOKIE ECHO of an earlier, stale cookie is sent before new data.
        let takes_data = is_first && self.sender.outstanding.is_empty();
        let nothing_more = self.push_control(ctx, packet);
        if nothing_more || !takes_data || self.is_held() || self.next_new_len(packet.room).is_none() {
            return;
        }
        let to = packet.path;
        self.start_rates();
        self.allow_burst();
        self.push_data(ctx, packet, NextData::New { to });
        // ECN is not used in the handshake.
        packet.ecn = Ecn::NotEct;
        // T1-cookie protects the data (RFC 9260 §5.1.4).
        self.paths[to].hold_data_timers();
    }

    fn push_data(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>, next: NextData) {
        let path = packet.path;
        let mut pushed = false;
        let paced_from = self.paths[path]
            .is_paced(self.config.parts.pacing)
            .then(|| self.sender.outstanding.flight(path));
        packet.reserve(self.stamp(ctx.now));
        if let NextData::Retransmission { from, .. } = next {
            pushed = self.push_retransmissions(ctx, packet, from);
            if pushed {
                self.note_retransmission(ctx.now, path);
            }
        }
        if matches!(next, NextData::Copy { .. }) {
            pushed = self.push_copies(ctx, packet);
        }
        // New data is bundled with a retransmission only on the path for new data.
        let may_add_new = match next {
            NextData::New { .. } => self.paths[path].burst_left > 0,
            NextData::Copy { .. } => false,
            NextData::Retransmission { .. } => {
                !self.is_spread()
                    && path == self.choice.sending
                    && self.paths[path].burst_left > 0
                    && !self.sender.outstanding.any_lost_on(path)
                    && self.window_open(path)
            }
        };
        if may_add_new && self.push_new(ctx, packet) {
            if self.agreed.ecn.in_use && !pushed && !self.sender.probe.in_flight {
                packet.ecn = self.capable_codepoint(path);
                if packet.ecn != Ecn::NotEct {
                    self.paths[path].unanswered.on_ect_sent();
                }
            }
            pushed = true;
            self.paths[path].burst_left -= 1;
            self.paths[path].heartbeat.last_probe = ctx.now;
        }
        if pushed {
            if let Some(flight) = paced_from {
                let bytes = self.sender.outstanding.flight(path).saturating_sub(flight);
                self.paths[path].pace(
                    ctx.now,
                    bytes,
                    flight + bytes,
                    self.config.parts.pacing,
                    ctx.granularity,
                );
            }
            if self.agreed.stamping.is_some() {
                // A packet with a timestamp measures the round-trip time, whatever data it carries (RFC 9260 §8.3).
                self.paths[path].heartbeat.last_probe = ctx.now;
            }
            self.paths[path].last_data = ctx.now;
            self.timers.zero_window_probe = NEVER;
            self.allow_probes(path);
        }
    }

    // [9260:3.3.1-13, 6.10-4]
    fn push_new(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>) -> bool {
        let path = packet.path;
        let mut pushed = false;
        while self.may_add_chunk()
            && let Some(len) = self.next_new_len(packet.room)
            && let Some(fragment) = self.sender.queue.take(len)
        {
            let is_probe = core::mem::take(&mut self.sender.probe.permitted) && len > self.sender.peer_rwnd as usize;
            if is_probe {
                self.sender.probe.in_flight = true;
                self.sender.probe.answered = false;
                self.sender.probe.sent += 1;
                self.user.stats.zero_window_probes += 1;
            }
            // RFC 9260 §6.1: the last chunk before a shutdown, and a probe, request an immediate SACK (I bit).
            let immediate = is_probe || self.state == State::ShutdownPending && self.sender.queue.is_empty();
            let seq = self.sender.outstanding.push(fragment, path, ctx.now);
            if let Some(data) = self.sender.outstanding.data(seq, immediate) {
                packet.push_data(data);
            }
            pushed = true;
            self.note_sent(ctx, seq, path, len as u64, false);
        }
        pushed
    }

    /// Updates the state after a DATA chunk was put into a packet.
    // [9260:6.1-18, 6.1-19, 6.1-20, 6.1-21, 6.3.1-4, 6.3.1-5]
    pub(super) fn note_sent(&mut self, ctx: &mut Context<'_>, seq: Seq, path: PathId, len: u64, retransmission: bool) {
        self.user.stats.data_chunks_sent += 1;
        self.stamp_chunk(ctx.now, seq, path, chunk_len(len));
        self.note_identity(path);
        self.user.stats.data_bytes_sent += len;
        // RFC 9260 §6.2.1 B
        self.sender.peer_rwnd = self
            .sender
            .peer_rwnd
            .saturating_sub(u32::try_from(len).unwrap_or(u32::MAX));
        let is_earliest = self.sender.outstanding.is_first_in_flight(path, seq);
        if retransmission {
            self.user.stats.retransmissions += 1;
            // RFC 9260 §6.3.1 rule C5: a measurement with a retransmitted chunk is ambiguous.
            self.stop_timing(seq, path);
        } else if self.paths[path].timed.is_none() {
            self.paths[path].timed = Some(Timed::new(seq, ctx.now));
        }
        let path_state = &mut self.paths[path];
        // RFC 9260 §6.3.2 rule R1: the timer starts if it does not run. A retransmission of the earliest chunk in flight restarts it (§6.1,
        // §7.2.4 item 4); a new chunk is the earliest one only if no other chunk is in flight.
        if path_state.t3 == NEVER || is_earliest {
            path_state.t3 = ctx.now + path_state.timeout();
        }
        if self.config.parts.recovery.tail_loss_probe && !retransmission {
            self.renew_tail_probe(ctx.now, path, false);
        }
        let tsn = self.sender.outstanding.tsn(seq);
        ctx.trace
            .emit(TraceKinds::TSNS, ctx.now, Some(self.id), || TraceEvent::TsnSent {
                path,
                tsn,
                len: len as u32,
                retransmission,
            });
    }

    /// Starts the timer of zero window probes if data waits, no data is in flight, and rwnd is too small (RFC 9260 §6.1
    /// A). Any cwnd allows a probe then.
    // [9260:6.1-3, 6.1-4, 6.1-5, 6.1-7]
    fn watch_zero_window(&mut self, ctx: &mut Context<'_>) {
        let waits = self.state.may_send_data() && !self.sender.queue.is_empty() && self.sender.outstanding.is_empty();
        let armed = self.timers.zero_window_probe != NEVER;
        let is_shut = || self.next_new_len(self.room_on(self.choice.sending)).is_none();
        if waits && !armed && !self.sender.probe.permitted && is_shut() {
            let path = &self.paths[self.choice.sending];
            let wait = (path.rtt.rto() * (1 << self.sender.probe.sent.min(16))).min(self.config.rto_max);
            self.timers.zero_window_probe = ctx.now + wait;
        } else if !waits {
            self.timers.zero_window_probe = NEVER;
        }
    }
}

/// Returns the length of a chunk with this much user data, as congestion control counts it.
fn chunk_len(data: u64) -> u64 {
    (DATA_HEADER_LEN as u64 + data).next_multiple_of(4)
}
