//! The receiving end: reassembly and acknowledgements.

#[cfg(test)]
mod tests;

use whimbrel_control::{Rng, Span, Time};
use whimbrel_proto::{AssociationStats, Ecn, PathId, TraceEvent, TraceKinds, TraceRecord};
use whimbrel_wire::Tsn;

use super::{RECEIVER_PORT, distance, send, sender_port, timestamp, window_scale};
use crate::config::{TcpConfig, TcpEcn};
use crate::host::sink::Delivery;
use crate::host::{Alarm, Context, FileContent};
use crate::ids::AgentId;
use crate::packet::{Congestion, PacketId};
use crate::segment::{TcpFlags, TcpSegment};

/// Parameters of a receiver.
#[derive(Debug)]
pub(crate) struct ReceiverSetup<'a> {
    /// Twice the flow's index, plus one.
    pub(crate) agent: AgentId,
    pub(crate) config: &'a TcpConfig,
    /// Message length in bytes, at which the stream is split into messages.
    pub(crate) message_bytes: u32,
    /// The file that is sent, if there is one.
    pub(crate) file: Option<FileContent>,
    pub(crate) random: Rng,
}

/// State of the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Listening,
    /// SYN received, SYN-ACK sent.
    Opening,
    Up,
    /// FIN received and sent.
    LastAck,
    Closed,
}

/// The receiving end of a TCP flow.
#[derive(Debug)]
pub(crate) struct TcpReceiver {
    agent: AgentId,
    config: TcpConfig,
    ecn: TcpEcn,
    eci: bool,
    phase: Phase,
    alarm: Alarm,
    /// Initial sequence number of this end.
    isn: u32,
    /// The peer's.
    peer_isn: u32,
    uses_sack: bool,
    uses_timestamps: bool,
    uses_ecn: bool,
    /// Window scale, if both ends use it.
    scale: Option<u8>,
    /// Offset in the stream up to which everything has arrived; the FIN counts as one byte.
    expected: u64,
    /// Blocks received out of order, newest first (RFC 2018 §4).
    blocks: Vec<(u64, u64)>,
    /// End of the stream, once the FIN has arrived.
    fin_at: Option<u64>,
    /// The timestamp to echo, and the acknowledged offset when it arrived (RFC 7323 §4.3).
    recent: u32,
    last_acked: u64,
    /// In-order segments since the last acknowledgement.
    unacked: u32,
    /// When a delayed acknowledgement is sent.
    ack_at: Option<Time>,
    /// When the SYN or the FIN is retransmitted, the current timeout, and the number of retransmissions.
    again: Option<(Time, Span, u32)>,
    /// Classic: ECN-Echo until CWR. Accurate: whether the last packet was marked (DCTCP.CE).
    echo: bool,
    /// Whether the last data packet had a congestion indication.
    indicated: bool,
    /// Bytes of a file, in a ring as long as the receive buffer.
    ring: Vec<u8>,
    content: Vec<u8>,
    message_bytes: u64,
    /// End of the last message, if it is shorter.
    file_bytes: Option<u64>,
    stats: AssociationStats,
    opened_stats: Option<AssociationStats>,
    window_stats: Option<AssociationStats>,
}

impl TcpReceiver {
    /// Creates a receiver in the state LISTEN.
    pub(crate) fn new(setup: ReceiverSetup<'_>) -> Self {
        let ReceiverSetup {
            agent,
            config,
            message_bytes,
            file,
            mut random,
        } = setup;
        let ring = if file.is_some() {
            vec![0; config.recv_buffer as usize]
        } else {
            Vec::new()
        };
        TcpReceiver {
            agent,
            ecn: config.resolved_ecn(),
            eci: config.parts().eci,
            phase: Phase::Listening,
            alarm: Alarm::default(),
            isn: random.next_u64() as u32,
            peer_isn: 0,
            uses_sack: false,
            uses_timestamps: false,
            uses_ecn: false,
            scale: None,
            expected: 0,
            blocks: Vec::new(),
            fin_at: None,
            recent: 0,
            last_acked: 0,
            unacked: 0,
            ack_at: None,
            again: None,
            echo: false,
            indicated: false,
            ring,
            content: Vec::new(),
            message_bytes: u64::from(message_bytes),
            file_bytes: file.map(|file| file.len()),
            stats: AssociationStats::default(),
            opened_stats: None,
            window_stats: None,
            config: config.clone(),
        }
    }

    /// Handles a wake-up; a stale one does nothing.
    pub(crate) fn wake(&mut self, context: &mut Context<'_>, seq: u64) {
        if !self.alarm.ring(seq) {
            return;
        }
        if self.ack_at.is_some_and(|at| at <= context.now) {
            self.acknowledge(context);
        }
        if let Some((_, wait, tries)) = self.again.filter(|(at, _, _)| *at <= context.now) {
            if tries >= self.config.max_retransmissions {
                self.phase = Phase::Closed;
                self.again = None;
            } else {
                let wait = (wait * 2).min(self.config.rto_max);
                self.again = Some((context.now + wait, wait, tries + 1));
                match self.phase {
                    Phase::Opening => self.answer_syn(context),
                    _ => self.acknowledge(context),
                }
            }
        }
        self.set_alarm(context);
    }

    fn set_alarm(&mut self, context: &mut Context<'_>) {
        let again = self.again.map(|(at, _, _)| at);
        let deadline = match (self.ack_at, again) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        };
        self.alarm.arm(&mut context.network.queue, self.agent, deadline);
    }

    /// Handles a received segment.
    pub(crate) fn receive(&mut self, context: &mut Context<'_>, id: PacketId) {
        let packet = *context.network.slab.get(id);
        let segment = context.network.slab.body(id).tcp;
        self.stats.packets_received += 1;
        self.stats.bytes_received += u64::from(segment.len());
        if segment.flags.has(TcpFlags::SYN) {
            self.on_syn(context, &segment);
        } else if self.phase != Phase::Listening {
            if matches!(self.phase, Phase::Opening) {
                self.phase = Phase::Up;
                self.again = None;
            }
            if segment.sequence_len() > 0 {
                self.on_data(context, &segment, id, packet.ecn, packet.congestion);
            } else if self.phase == Phase::LastAck && distance(self.isn.wrapping_add(2), segment.ack) >= 0 {
                self.phase = Phase::Closed;
                self.again = None;
            }
        } else {
            context.flow.discarded += 1;
        }
        context.network.slab.release(id);
        self.set_alarm(context);
    }

    fn on_syn(&mut self, context: &mut Context<'_>, segment: &TcpSegment) {
        if self.phase == Phase::Listening {
            self.phase = Phase::Opening;
            self.peer_isn = segment.seq;
            self.uses_sack = segment.sack_permitted;
            self.uses_timestamps = segment.timestamps.is_some() && self.config.parts().timestamps;
            // RFC 3168 §6.1.1
            let asks = segment.flags.has(TcpFlags::ECE.with(TcpFlags::CWR));
            self.uses_ecn = asks && self.ecn != TcpEcn::Off;
            if segment.window_scale.is_some() && self.config.window_scaling {
                self.scale = Some(window_scale(self.config.recv_buffer));
            }
            self.recent = segment.timestamps.map_or(0, |(value, _)| value);
            self.again = Some((context.now + self.config.rto_initial, self.config.rto_initial, 0));
        }
        if self.phase == Phase::Opening {
            self.answer_syn(context);
        } else {
            // The SYN-ACK was received, and its acknowledgement is on the way.
            self.acknowledge(context);
        }
    }

    fn answer_syn(&mut self, context: &mut Context<'_>) {
        let segment = TcpSegment {
            seq: self.isn,
            ack: self.peer_isn.wrapping_add(1),
            flags: TcpFlags::SYN.with(TcpFlags::ACK).with_if(TcpFlags::ECE, self.uses_ecn),
            // A window on a SYN is never scaled (RFC 7323 §2.2).
            window: self.config.recv_buffer.min(u32::from(u16::MAX)) as u16,
            mss: Some(self.config.mss),
            window_scale: self.scale,
            sack_permitted: self.uses_sack,
            ..self.header(context.now)
        };
        self.emit(context, segment);
    }

    fn header(&self, now: Time) -> TcpSegment {
        TcpSegment {
            source_port: RECEIVER_PORT,
            destination_port: sender_port(self.agent),
            timestamps: self.uses_timestamps.then(|| (timestamp(now), self.recent)),
            ..TcpSegment::default()
        }
    }

    fn emit(&mut self, context: &mut Context<'_>, segment: TcpSegment) {
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += u64::from(segment.len());
        send(context, self.agent, segment, &[], Ecn::NotEct);
    }

    fn on_data(
        &mut self,
        context: &mut Context<'_>,
        segment: &TcpSegment,
        id: PacketId,
        ecn: Ecn,
        congestion: Congestion,
    ) {
        let fin = segment.flags.has(TcpFlags::FIN);
        // Converts the sequence number to an offset in the stream by its distance from the current position.
        let here = self.wire(self.expected);
        let ahead = distance(here, segment.seq);
        let Some(from) = self.expected.checked_add_signed(ahead) else {
            context.flow.discarded += 1;
            return;
        };
        let to = from + u64::from(segment.sequence_len());
        self.note_marks(context, segment, ecn, congestion);
        if let Some((value, _)) = segment.timestamps.filter(|_| self.uses_timestamps)
            && from <= self.last_acked
            && distance(self.recent, value) >= 0
        {
            self.recent = value;
        }
        let beyond = to.saturating_sub(self.expected) > u64::from(self.config.recv_buffer) + 1;
        let known = self.is_known(from, to);
        if beyond || known {
            // Beyond the window, or a duplicate: acknowledged at once (RFC 9293 §3.10.7.4).
            self.stats.duplicates_received += u64::from(!beyond);
            self.acknowledge(context);
            return;
        }
        self.stats.data_chunks_received += 1;
        if fin {
            self.fin_at = Some(to - 1);
        }
        self.keep(context, id, from);
        let fills = !self.blocks.is_empty();
        if from > self.expected {
            self.add_block(from, to);
            // RFC 5681 §4.2: out of order
            self.acknowledge(context);
            return;
        }
        self.advance(context, to.max(self.expected));
        self.unacked += 1;
        if fills || self.unacked >= self.config.ack_frequency || self.is_complete() || self.config.ack_delay.is_zero() {
            self.acknowledge(context);
        } else if self.ack_at.is_none() {
            self.ack_at = Some(context.now + self.config.ack_delay);
        }
    }

    fn wire(&self, offset: u64) -> u32 {
        self.peer_isn.wrapping_add(1).wrapping_add(offset as u32)
    }

    fn is_known(&self, from: u64, to: u64) -> bool {
        to <= self.expected || self.blocks.iter().any(|(start, end)| *start <= from && to <= *end)
    }

    fn is_complete(&self) -> bool {
        self.fin_at.is_some_and(|end| end < self.expected)
    }

    fn note_marks(&mut self, context: &mut Context<'_>, segment: &TcpSegment, ecn: Ecn, congestion: Congestion) {
        let marked = ecn == Ecn::Ce;
        // A marked packet indicates congestion as well (Shishir 2000, Table II: ECI and ECN).
        self.indicated = marked || congestion != Congestion::NONE;
        if marked {
            self.stats.ce_received += 1;
            let path = PathId(0);
            let tsn = Tsn(segment.seq);
            self.trace(context, TraceKinds::ECN, TraceEvent::CeReceived { path, tsn });
        }
        if !self.uses_ecn {
            return;
        }
        if segment.flags.has(TcpFlags::CWR) {
            self.stats.cwr_received += 1;
        }
        match self.ecn {
            TcpEcn::Off => {}
            TcpEcn::Classic => {
                // RFC 3168 §6.1.3: CWR ends the echo, unless its packet is marked itself.
                self.echo = marked || self.echo && !segment.flags.has(TcpFlags::CWR);
            }
            TcpEcn::Accurate => {
                // RFC 8257 §3.2: segments before the change are acknowledged with the old state.
                if marked != self.echo && self.unacked > 0 {
                    self.acknowledge(context);
                }
                self.echo = marked;
            }
        }
    }

    /// Stores the bytes of a file until they are in order.
    fn keep(&mut self, context: &Context<'_>, id: PacketId, from: u64) {
        let bytes = &context.network.slab.body(id).bytes;
        if self.ring.is_empty() || bytes.is_empty() {
            return;
        }
        let skip = self.expected.saturating_sub(from) as usize;
        let bytes = bytes.get(skip..).unwrap_or_default();
        let at = ((from + skip as u64) % self.ring.len() as u64) as usize;
        let first = bytes.len().min(self.ring.len() - at);
        self.ring[at..at + first].copy_from_slice(&bytes[..first]);
        self.ring[..bytes.len() - first].copy_from_slice(&bytes[first..]);
    }

    /// Adds out-of-order data, merged with adjacent blocks, as the newest block.
    fn add_block(&mut self, from: u64, to: u64) {
        let mut merged = (from, to);
        self.blocks.retain(|(start, end)| {
            let touches = *start <= to && from <= *end;
            if touches {
                merged = (merged.0.min(*start), merged.1.max(*end));
            }
            !touches
        });
        self.blocks.insert(0, merged);
    }

    /// Marks everything up to `to`, and the block after it, as in order.
    fn advance(&mut self, context: &mut Context<'_>, to: u64) {
        let mut end = to;
        self.blocks.retain(|(start, block_end)| {
            let joins = *start <= to;
            if joins {
                end = end.max(*block_end);
            }
            !joins
        });
        let from = core::mem::replace(&mut self.expected, end);
        self.deliver(context, from, self.fin_at.map_or(end, |fin| end.min(fin)));
    }

    /// Delivers the bytes from `from` to `to` to the application, split into messages as they were sent.
    fn deliver(&mut self, context: &mut Context<'_>, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let number = at / self.message_bytes;
            let full = (number + 1) * self.message_bytes;
            let message_end = self.file_bytes.map_or(full, |bytes| full.min(bytes));
            let end = message_end.min(to);
            let delivery = Delivery {
                stream: 0,
                unordered: false,
                number: number as u32,
                len: end - at,
                end: end == message_end,
            };
            self.stats.messages_delivered += u64::from(delivery.end);
            self.stats.bytes_delivered += delivery.len;
            let sink = &mut context.flow.sink;
            if !self.ring.is_empty() && sink.compares() {
                self.content.clear();
                let length = self.ring.len() as u64;
                self.content
                    .extend((at..end).map(|offset| self.ring[(offset % length) as usize]));
                sink.compare(&delivery, &self.content);
            }
            sink.deliver(context.now, context.network.window, delivery);
            at = end;
        }
    }

    /// Acknowledges all received data.
    fn acknowledge(&mut self, context: &mut Context<'_>) {
        let complete = self.is_complete();
        if complete && matches!(self.phase, Phase::Up | Phase::Opening) {
            self.phase = Phase::LastAck;
            self.again = Some((context.now + self.config.rto_initial, self.config.rto_initial, 0));
        }
        let fin = complete && self.phase == Phase::LastAck;
        let window = self.config.recv_buffer >> self.scale.unwrap_or(0);
        let mut segment = TcpSegment {
            seq: self.isn.wrapping_add(1),
            ack: self.wire(self.expected),
            flags: TcpFlags::ACK
                .with_if(TcpFlags::ECE, self.uses_ecn && self.echo)
                .with_if(TcpFlags::ECI, self.eci && self.indicated)
                .with_if(TcpFlags::FIN, fin),
            window: window.min(u32::from(u16::MAX)) as u16,
            ..self.header(context.now)
        };
        if self.uses_sack {
            for (from, to) in &self.blocks {
                if !segment.push_sack_block((self.wire(*from), self.wire(*to))) {
                    break;
                }
            }
        }
        self.last_acked = self.expected;
        self.unacked = 0;
        self.ack_at = None;
        self.stats.sacks_sent += 1;
        if segment.flags.has(TcpFlags::ECE) {
            self.stats.ecne_sent += 1;
            let (path, tsn) = (PathId(0), Tsn(segment.ack));
            self.trace(context, TraceKinds::ECN, TraceEvent::EcneSent { path, tsn });
        }
        self.emit(context, segment);
    }

    fn trace(&self, context: &mut Context<'_>, kinds: TraceKinds, event: TraceEvent) {
        if context.network.wanted.trace.wants(kinds) {
            let record = TraceRecord {
                at: context.now,
                association: None,
                event,
            };
            context.observer.trace(self.agent.flow(), false, &record);
        }
    }

    /// Handles the start of the measurement window.
    pub(crate) fn open_window(&mut self) {
        self.opened_stats = Some(self.stats);
    }

    /// Handles the end of the measurement window.
    pub(crate) fn close_window(&mut self) {
        self.window_stats = Some(self.window_stats());
    }

    /// Returns the counters of the measurement window, up to now if it is still open; zero if it never opened.
    pub(crate) fn window_stats(&self) -> AssociationStats {
        let since = |opened: &AssociationStats| crate::measure::stats_since(&self.stats, opened);
        self.window_stats
            .or(self.opened_stats.as_ref().map(since))
            .unwrap_or_default()
    }

    /// Returns whether the connection has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Returns whether a connection was ever requested.
    pub(crate) fn was_up(&self) -> bool {
        self.phase != Phase::Listening
    }
}
