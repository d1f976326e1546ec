//! The content of the next packet: control chunks, a SACK, retransmissions, new data, in this order (RFC 9260 §6.1,
//! §6.10).

use whimbrel_control::Time;
use whimbrel_control::multipath::SackPath;
use whimbrel_wire::{
    Asconf, COMMON_HEADER_LEN, Causes, Chunk, CommonHeader, DuplicateTsns, FORWARD_TSN_HEADER_LEN, ForwardTsn,
    GapBlocks, HeartbeatInfo, NEW_GAPS_HEADER_LEN, NR_SACK_HEADER_LEN, NewGaps, NrSack, PacketSink, Parameters,
    SACK_HEADER_LEN, Sack, SackLists, SkippedStreams,
};

use super::{Association, State};
use crate::context::Context;
use crate::packet::Packet;
use crate::protection::Protection;
use crate::receive::NewGapsHeader;
use crate::send::NextData;
use crate::send::Outgoing;
use crate::send::path::HeartbeatContent;
use crate::trace::{TraceEvent, TraceKinds};
use crate::{Ecn, PathId};

/// A packet that has been written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) path: PathId,
    pub(crate) ecn: Ecn,
    pub(crate) wire_len: usize,
    /// It is a probe of the path MTU.
    pub(crate) probes_mtu: bool,
}

impl Association {
    /// Writes the next packet into `sink`, if there is one to send.
    // [9260:3.1-3, 3.1-4, 3.3.2-6, 3.3.3-4, 8.5-1, 8.5.1-12, 3.3.12-1, 5.1.5-7]
    pub(crate) fn poll_transmit(&mut self, ctx: &mut Context<'_>, sink: &mut dyn PacketSink) -> Option<Sent> {
        if self.state == State::Closed || self.has_spent_keys() {
            return None;
        }
        self.renew_keys_if_due(ctx);
        if self.sending.may_give_up() && self.state.may_send_data() {
            let progress = self.sending.give_up_due(ctx);
            self.apply(ctx, progress);
            // What waited may have been the last data. Nothing is outstanding then, so no SACK would go on with a shutdown.
            self.advance_shutdown(ctx);
        }
        self.advance_reconfig(ctx);
        let control = self.sending.next_control();
        let is_init = matches!(control, Some((_, Outgoing::Init { .. })));
        let control_path = control.map(|&(path, _)| path);
        // A distribution counts the packets for which it is called. After a control chunk, there might be no room for
        // data.
        let may_send = self.state.may_send_data() && !(control_path.is_some() && self.sending.is_spread());
        let next_data = if may_send {
            self.sending.next_data(ctx.now)
        } else {
            None
        };
        let path = match (control_path, next_data) {
            (Some(path), _) => Some(path),
            (None, Some(next)) => Some(next.to()),
            (None, None) => self.next_sack(ctx.now),
        };
        let Some(path) = path else {
            return self.send_probe_or_wait(ctx, sink);
        };
        let mut packet = self.begin_packet(sink, path, self.sending.max_packet(path), is_init);
        if self.state == State::CookieEchoed {
            self.push_cookie_echo(ctx, &mut packet);
        } else if !self.push_control(ctx, &mut packet) {
            self.push_sack(ctx, &mut packet, next_data.is_some_and(|next| next.to() == path));
            if let Some(next) = next_data.filter(|next| next.to() == path) {
                self.push_data(ctx, &mut packet, next);
                self.sending.finish_data(ctx.now, &mut packet);
            }
        }
        debug_assert!(packet.has_chunk, "a packet without a chunk was started");
        let ecn = packet.ecn;
        let wire_len = self.end_packet(ctx, packet);
        Some(Sent {
            path,
            ecn,
            wire_len,
            probes_mtu: false,
        })
    }

    /// Starts a packet of at most `len` bytes on a path. It is encrypted, or begins with an AUTH chunk, if the association does that.
    fn begin_packet<'s>(&self, sink: &'s mut dyn PacketSink, path: PathId, len: usize, is_init: bool) -> Packet<'s> {
        sink.begin(CommonHeader {
            // [9260:1.3-2]
            source_port: self.ends.local_port,
            destination_port: self.ends.peer_port,
            // RFC 9260 §8.5.1 A
            verification_tag: if is_init { 0 } else { self.ends.peer_tag },
        });
        let mut packet = Packet::new(sink, path, len - COMMON_HEADER_LEN);
        if self.seals() {
            packet.begin_sealed(self.sealed_len());
        } else if let Some(auth) = self.agreed.auth.as_ref().filter(|auth| auth.every_packet && !is_init) {
            packet.sign(&auth.signer);
        }
        packet
    }

    /// Ends a packet and returns its length in bytes.
    fn end_packet(&mut self, ctx: &mut Context<'_>, packet: Packet<'_>) -> usize {
        let path = packet.path;
        if packet.sealed {
            match self.agreed.protection_mut().and_then(Protection::seal) {
                Some(keys) => keys.seal(packet.sink),
                // Nothing leaves without encryption. `poll_transmit` has asked for keys before.
                None => packet.sink.seal(0, &mut |record| record.fill(0)),
            }
        } else if let Some(auth) = self.agreed.auth.as_ref().filter(|_| packet.signed) {
            auth.signer.seal(packet.sink);
        }
        let is_sealed = packet.sealed;
        let wire_len = packet.finish(self.agreed.sends_zero_checksum);
        if let Some(protection) = self.agreed.protection_mut().filter(|_| is_sealed) {
            protection.count(wire_len);
        }
        self.count_packet(ctx, path, wire_len);
        wire_len
    }

    fn count_packet(&mut self, ctx: &mut Context<'_>, path: PathId, wire_len: usize) {
        self.user.stats.packets_sent += 1;
        self.user.stats.bytes_sent += wire_len as u64;
        ctx.trace.emit(TraceKinds::PACKETS, ctx.now, Some(self.id()), || {
            TraceEvent::PacketSent {
                path,
                wire_len: wire_len as u32,
            }
        });
    }

    fn push_data(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>, next: NextData) {
        packet.reserve(self.stamp(ctx.now));
        let identity = self.agreed.stamping.as_ref().and_then(|stamping| stamping.identity());
        let is_shutting_down = self.state == State::ShutdownPending;
        self.sending.push_data(ctx, packet, next, identity, is_shutting_down);
    }

    /// Sends a probe of a path or of its MTU if one is due. Otherwise there is nothing to send.
    fn send_probe_or_wait(&mut self, ctx: &mut Context<'_>, sink: &mut dyn PacketSink) -> Option<Sent> {
        let may_send = self.state.may_send_data();
        if let Some((path, len)) = self.sending.next_mtu_probe(ctx.now).filter(|_| may_send) {
            return Some(self.send_mtu_probe(ctx, sink, path, len));
        }
        if let Some(path) = self.sending.next_probe().filter(|_| may_send) {
            let mut packet = self.begin_packet(sink, path, self.sending.max_packet(path), false);
            self.sending.write_probe(ctx, &mut packet);
            let wire_len = self.end_packet(ctx, packet);
            self.sending.note_probe_sent(wire_len);
            return Some(Sent {
                path,
                ecn: Ecn::NotEct,
                wire_len,
                probes_mtu: false,
            });
        }
        self.sending.watch_zero_window(ctx, may_send);
        self.sending.note_app_limited(ctx.now);
        if self.sending.is_spread() {
            self.sending.note_stall(ctx.now);
        }
        None
    }

    /// Sends a packet of this length, to find out whether it arrives (RFC 8899 §6.2.1.2).
    // [8899:3-3]
    fn send_mtu_probe(&mut self, ctx: &mut Context<'_>, sink: &mut dyn PacketSink, path: PathId, len: usize) -> Sent {
        let mut packet = self.begin_packet(sink, path, len, false);
        self.sending.write_mtu_probe(ctx, &mut packet);
        let wire_len = self.end_packet(ctx, packet);
        Sent {
            path,
            ecn: Ecn::NotEct,
            wire_len,
            probes_mtu: true,
        }
    }

    /// Adds the control chunks for this path. Returns true if no further chunk may be added to the packet.
    // [9260:6-10, 6.10-3, 5.1-9, 5.1-10]
    // [3758:3.5-17]
    fn push_control(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>) -> bool {
        while let Some((to, waiting)) = self.sending.next_control() {
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
            let Some(chunk) = self.sending.take_control() else {
                break;
            };
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
                    packet.push(&Chunk::Heartbeat(HeartbeatInfo(&content.to_bytes())));
                    if self.sending.on_heartbeat_sent(ctx.now, packet.path) {
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
                Outgoing::Reconfig { answer, has_request } => self.push_reconfig(packet, answer.into(), has_request),
                Outgoing::ShutdownAck => packet.push(&Chunk::ShutdownAck),
                Outgoing::ForwardTsn => self.push_forward_tsn(ctx, packet),
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

    /// Adds responses to changes of streams, and the outstanding request (RFC 6525 §3.1).
    // [6525:4.1-2, 4.2-2, 4.4-3, 4.5-3, 4.6-3, 5.1.2-10, 5.1.2-11, 5.1.3-6, 5.1.3-7]
    fn push_reconfig(&self, packet: &mut Packet<'_>, answer: Vec<u8>, has_request: bool) {
        let mut list = answer;
        if has_request && let Some(reconfig) = &self.agreed.reconfig {
            reconfig.write_request(&mut list);
        }
        if !list.is_empty() {
            packet.push(&Chunk::ReConfig {
                parameters: Parameters::from_wire_bytes(&list),
            });
        }
    }

    /// Adds a FORWARD TSN (RFC 3758 §3.5 C3, C4).
    // [8260:2-2, 2.3.1-1, 2.3.1-6, 2.3.1-7, 2.3.1-8, 2.3.1-9]
    fn push_forward_tsn(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>) {
        let list = &mut ctx.scratch.parameters;
        list.clear();
        let tsn = self.sending.write_forward(ctx.now, packet.path, packet.room, list);
        if let Some(new_cumulative_tsn) = tsn {
            packet.push(&Chunk::ForwardTsn(ForwardTsn {
                new_cumulative_tsn,
                skipped: if self.agreed.interleaves {
                    SkippedStreams::interleaved(list)
                } else {
                    SkippedStreams::from_wire_bytes(list)
                },
            }));
        }
    }

    pub(super) fn control_len(&self, chunk: &Outgoing) -> usize {
        let padded = |len: usize| len.next_multiple_of(4);
        match chunk {
            Outgoing::Init { .. } => 0,
            Outgoing::CookieEcho => padded(4 + self.cookie().len()),
            Outgoing::CookieAck | Outgoing::ShutdownAck => 4,
            Outgoing::Heartbeat { .. } => padded(8 + crate::send::path::HEARTBEAT_INFO_LEN),
            Outgoing::Ping { len, .. } => padded(8 + usize::from(*len)),
            Outgoing::HeartbeatAck(info) => padded(8 + info.len()),
            Outgoing::Error(causes) => padded(4 + causes.len()),
            Outgoing::Asconf => padded(self.asconf_len()) + self.signed_len(),
            Outgoing::AsconfAck { answer, .. } => padded(8 + answer.len()) + self.signed_len(),
            // With one stream. It has as many as there is room for.
            Outgoing::ForwardTsn => FORWARD_TSN_HEADER_LEN + SkippedStreams::entry_len(self.agreed.interleaves),
            Outgoing::Reconfig { answer, has_request } => {
                let reconfig = self.agreed.reconfig.as_ref().filter(|_| *has_request);
                let request = reconfig.map_or(0, |reconfig| reconfig.request_len());
                padded(4 + answer.len() + request)
            }
            Outgoing::Shutdown | Outgoing::Cwr { .. } => 8,
            Outgoing::Ecne { .. } => 8 + 4 * usize::from(self.config.ecn_count),
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
        let on_its_own = || Some(self.sack_path()).filter(|&path| self.sending.paths()[path].is_open());
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
        let may_go = self.may_send_sack() && self.may_carry_sack(packet.path);
        if !may_go || packet.room < header_len + self.sending.stamp_len() {
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
        if let Some(lowest_tsn) = self.agreed.ecn.echo().filter(|_| self.config.parts.ecn_cwr) {
            self.push_ecne(ctx, packet, lowest_tsn);
        }
    }

    /// Writes a packet before COOKIE ACK has arrived. The first COOKIE ECHO is bundled with waiting user data (RFC 9260
    /// §5.1 C). A repeated one is not, because it is sent in the state COOKIE-ECHOED (RFC 9260 §6). The data of the first
    /// one counts as lost then, and is retransmitted once the association is established.
    // [9260:5.1-7, 3.3.11-1, 6-1]
    fn push_cookie_echo(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>) {
        let is_echo = |(_, chunk): &(PathId, Outgoing)| *chunk == Outgoing::CookieEcho;
        let has_echo = self.sending.next_control().is_some_and(is_echo);
        let is_first = has_echo
            && self
                .handshake
                .cookie
                .as_mut()
                .is_some_and(|cookie| !core::mem::replace(&mut cookie.is_echoed, true));
        // Data lost with the COOKIE ECHO of an earlier, stale cookie is sent before new data. With interleaving, data waits for the COOKIE ACK:
        // a collision of INITs may bring another agreement, and the chunks of data of the one are a violation of the other (RFC 8260 §2.2.3).
        // COOKIE ECHO is not encrypted, and data is.
        let may_bundle = !self.config.interleaving && !self.is_protected();
        let takes_data = is_first && self.sending.nothing_outstanding() && may_bundle;
        let nothing_more = self.push_control(ctx, packet);
        if nothing_more || !takes_data || self.sending.is_held() || self.sending.next_new_len(packet.room).is_none() {
            return;
        }
        let to = packet.path;
        self.sending.begin_early();
        self.push_data(ctx, packet, NextData::New { to });
        // ECN is not used in the handshake.
        packet.ecn = Ecn::NotEct;
        // T1-cookie protects the data (RFC 9260 §5.1.4).
        self.sending.hold_data_timers(to);
    }
}
