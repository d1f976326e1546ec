//! The choice of the next segment (RFC 5681 §3, RFC 6675 §4 NextSeg).

use super::*;
use whimbrel_control::Span;
use whimbrel_control::recovery::TransmissionRetransmit;

impl TcpSender {
    fn header(&self, now: Time) -> TcpSegment {
        TcpSegment {
            source_port: sender_port(self.agent),
            destination_port: RECEIVER_PORT,
            ack: self.peer_next,
            // No data is received here: the buffer is always empty.
            window: (self.config.recv_buffer >> self.our_scale()).min(u32::from(u16::MAX)) as u16,
            timestamps: self.agreed.timestamps.then(|| (timestamp(now), self.recent)),
            ..TcpSegment::default()
        }
    }

    /// Returns the window scale of this end.
    fn our_scale(&self) -> u8 {
        if self.agreed.scaling {
            window_scale(self.config.recv_buffer)
        } else {
            0
        }
    }

    fn emit(&mut self, context: &mut Context<'_>, segment: TcpSegment, content: &[u8], ecn: Ecn) {
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += u64::from(segment.len());
        send(context, self.agent, segment, content, ecn);
    }

    pub(super) fn send_syn(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        // RFC 3168 §6.1.1
        let flags = TcpFlags::SYN
            .with_if(TcpFlags::ECE, self.ecn != TcpEcn::Off)
            .with_if(TcpFlags::CWR, self.ecn != TcpEcn::Off);
        let segment = TcpSegment {
            seq: self.isn,
            ack: 0,
            flags,
            // A window on a SYN is never scaled (RFC 7323 §2.2).
            window: self.config.recv_buffer.min(u32::from(u16::MAX)) as u16,
            mss: Some(self.config.mss),
            window_scale: self
                .config
                .window_scaling
                .then(|| window_scale(self.config.recv_buffer)),
            sack_permitted: self.config.flavour.uses_sack(),
            timestamps: self.timestamps.then(|| (timestamp(now), 0)),
            ..self.header(now)
        };
        self.emit(context, segment, &[], Ecn::NotEct);
        self.rto_at = Some(now + self.rtt.rto());
    }

    pub(super) fn send_ack(&mut self, context: &mut Context<'_>) {
        let segment = TcpSegment {
            seq: self.wire(self.board.next()),
            flags: TcpFlags::ACK,
            ..self.header(context.now)
        };
        self.emit(context, segment, &[], Ecn::NotEct);
    }

    /// Returns the bytes in the network. Without SACK, each duplicate acknowledgement means that a segment has left it (equivalent
    /// to the window inflation of RFC 5681 §3.2).
    pub(super) fn pipe(&self) -> u64 {
        self.board
            .in_flight()
            .saturating_sub(u64::from(self.left) * u64::from(self.segment_bytes))
    }

    /// Returns the bytes that count against the window.
    fn occupied(&self) -> u64 {
        // Without limited transmit, duplicate acknowledgements before recovery send no new data (RFC 5681 §3.2 step 1).
        let held = if self.recovering == Recovering::No && !self.config.limited_transmit {
            self.board.sacked()
        } else {
            0
        };
        self.pipe() + held
    }

    fn fits(&self, len: u32) -> bool {
        self.occupied() + u64::from(len) <= self.control.cwnd()
    }

    /// Returns the length of the next new segment and whether it ends the stream; none without data, or without room at the peer.
    fn next_new(&self) -> Option<(u32, bool)> {
        let next = self.board.next();
        if self.fin_sent {
            return None;
        }
        let waiting = self.written - next;
        let len = waiting.min(u64::from(self.segment_bytes)) as u32;
        let fin = self.shut && u64::from(len) == waiting;
        if len == 0 && !fin || next + u64::from(len) > self.right_edge {
            return None;
        }
        // RFC 9293 §3.7.4: a short segment waits, unless it is the last one.
        let short = len < self.segment_bytes && !fin;
        if short && self.config.nagle && !self.board.is_empty() {
            return None;
        }
        Some((len, fin))
    }

    /// Returns whether there is new data that fits the peer's window.
    pub(super) fn has_new(&self) -> bool {
        self.next_new().is_some()
    }

    /// Returns the pacing rate, if packets are paced.
    fn pace(&self) -> Option<Rate> {
        let srtt = self.rtt.srtt();
        let by_window = self.control.pacing_rate(srtt);
        by_window.or_else(|| {
            self.pacing
                .then(|| srtt.map(|srtt| self.control.even_rate(srtt)))
                .flatten()
        })
    }

    /// Returns when the pacer permits the next packet, if one is waiting.
    pub(super) fn pacing_deadline(&self, now: Time) -> Option<Time> {
        let waits = self.phase == Phase::Up && self.paced;
        Some(self.pacer.next()).filter(|at| waits && *at > now)
    }

    /// Sends everything that may be sent.
    #[inline]
    pub(super) fn transmit(&mut self, context: &mut Context<'_>) {
        let mut burst = self.config.max_burst;
        self.limited = false;
        self.paced = false;
        let pace = self.pace();
        loop {
            if pace.is_some() && !self.pacer.may_send(context.now) && !self.urgent {
                self.paced = self.board.lost() > 0 || self.has_new();
                self.limited = self.paced;
                break;
            }
            let before = self.stats.data_bytes_sent;
            if !self.transmit_one(context, &mut burst) {
                break;
            }
            if let Some(rate) = pace {
                let header = crate::packet::IP_HEADER + 20 + u32::from(self.config.mss) - self.segment_bytes;
                let sent = self.stats.data_bytes_sent - before + u64::from(header);
                self.pacer.on_sent(context.now, sent, rate, Span::ZERO, 0);
            }
        }
        if let Some(delivery) = &mut self.delivery
            && !self.limited
            && self.board.lost() == 0
        {
            // Room in the window and no data: the following samples are application-limited.
            delivery.on_app_limited(self.board.in_flight());
        }
        self.set_timers(context.now);
    }

    /// Sends one segment, if allowed. Returns whether it did.
    fn transmit_one(&mut self, context: &mut Context<'_>, burst: &mut u32) -> bool {
        if let Some(seq) = self.board.next_lost() {
            let len = self.board.get(seq).map_or(0, |slot| slot.len);
            if !self.urgent && !self.fits(len) {
                self.limited = true;
                return false;
            }
            if self.waits_for_a_round_trip(context.now) {
                return self.transmit_new(context, burst);
            }
            self.urgent = false;
            self.retransmit(context, seq);
            return true;
        }
        self.urgent = false;
        if self.transmit_new(context, burst) {
            return true;
        }
        self.rescue(context)
    }

    /// Returns whether retransmissions of transmission losses are held back: one per round-trip time (Ye 2004, 5.3).
    fn waits_for_a_round_trip(&self, now: Time) -> bool {
        self.rules.transmission_retransmit == TransmissionRetransmit::OnePerRtt
            && self.by_transmission
            && matches!(self.recovering, Recovering::Fast(_))
            && now < self.next_retransmission
    }

    fn transmit_new(&mut self, context: &mut Context<'_>, burst: &mut u32) -> bool {
        let Some((len, fin)) = self.next_new() else {
            return false;
        };
        self.restart_if_idle(context);
        if !self.fits(len) {
            self.limited = true;
            return false;
        }
        if self.config.max_burst > 0 {
            if *burst == 0 {
                self.limited = true;
                return false;
            }
            *burst -= 1;
        }
        self.send_new(context, len, fin);
        true
    }

    /// Sends the next new segment regardless of the congestion window. Returns whether there was one.
    pub(super) fn send_next_new(&mut self, context: &mut Context<'_>) -> bool {
        let Some((len, fin)) = self.next_new() else {
            return false;
        };
        self.send_new(context, len, fin);
        true
    }

    fn send_new(&mut self, context: &mut Context<'_>, len: u32, fin: bool) {
        let seq = self.board.push(context.now, len + u32::from(fin), fin);
        self.fin_sent |= fin;
        self.send_segment(context, seq, false);
    }

    /// Sends a rescue retransmission (RFC 6675 §4, NextSeg rule 3): when nothing else may be sent, the first hole that is not yet
    /// known to be lost.
    fn rescue(&mut self, context: &mut Context<'_>) -> bool {
        if !matches!(self.recovering, Recovering::Fast(_)) || !self.agreed.sack || self.limited {
            return false;
        }
        let Some(seq) = self.board.next_hole() else {
            return false;
        };
        let len = self.board.get(seq).map_or(0, |slot| slot.len);
        if self.pipe() + u64::from(len) > self.control.cwnd() {
            return false;
        }
        self.retransmit(context, seq);
        true
    }

    pub(super) fn retransmit(&mut self, context: &mut Context<'_>, seq: Seq) {
        self.board.resend(context.now, seq);
        self.stats.retransmissions += 1;
        self.next_retransmission = context.now + self.rtt.srtt().unwrap_or_default();
        if seq == self.board.first() {
            // RFC 6298 §5.1: the timer covers the oldest outstanding segment.
            self.rto_at = Some(context.now + self.timeout());
        }
        self.send_segment(context, seq, true);
    }

    fn send_segment(&mut self, context: &mut Context<'_>, seq: Seq, again: bool) {
        let Some(slot) = self.board.get(seq).copied() else {
            return;
        };
        let payload = slot.payload();
        let last = slot.end() == self.written + u64::from(slot.fin);
        let mut flags = TcpFlags::ACK
            .with_if(TcpFlags::FIN, slot.fin)
            .with_if(TcpFlags::PSH, last && payload > 0);
        let mut ecn = Ecn::NotEct;
        // RFC 3168 §6.1.5: retransmissions are not ECN-capable.
        if self.agreed.ecn && !again {
            ecn = self.codepoint;
            if self.send_cwr {
                self.send_cwr = false;
                self.stats.cwr_sent += 1;
                flags = flags.with(TcpFlags::CWR);
            }
        }
        if let Some(delivery) = &mut self.delivery {
            let bytes = u64::from(slot.len);
            let flight = self.board.in_flight().saturating_sub(bytes);
            let stamp = delivery.on_sent(context.now, bytes, flight);
            self.board.set_stamp(seq, stamp);
        }
        self.last_sent = context.now;
        // Data that was sent before with a larger MSS takes several segments.
        let most = self.segment_bytes;
        let mut at = 0;
        loop {
            let len = (payload - at).min(most);
            let is_last = at + len == payload;
            let mut absent = TcpFlags::NONE.with_if(TcpFlags::CWR, at > 0);
            if !is_last {
                absent = absent.with(TcpFlags::FIN.with(TcpFlags::PSH));
            }
            let segment = TcpSegment {
                seq: self.wire(slot.start + u64::from(at)),
                flags: flags.without(absent),
                payload: len,
                ..self.header(context.now)
            };
            self.send_data(context, segment, slot.start + u64::from(at), again, ecn);
            at += len;
            if is_last {
                return;
            }
        }
    }

    fn send_data(&mut self, context: &mut Context<'_>, segment: TcpSegment, start: u64, again: bool, ecn: Ecn) {
        let len = segment.payload;
        self.stats.data_chunks_sent += 1;
        self.stats.data_bytes_sent += u64::from(len);
        self.trace(context, TraceKinds::TSNS, || TraceEvent::TsnSent {
            path: PathId(0),
            tsn: Tsn(segment.seq),
            len,
            retransmission: again,
        });
        let content = match &self.file {
            Some(file) => file.slice(start, start + u64::from(len)),
            None => bytes::Bytes::new(),
        };
        self.emit(context, segment, &content, ecn);
    }

    /// Restarts the window after an idle time (RFC 5681 §4.1).
    fn restart_if_idle(&mut self, context: &mut Context<'_>) {
        if !self.board.is_empty() {
            return;
        }
        let rto = self.rtt.rto().as_nanos().max(1);
        let timeouts = context.now.since(self.last_sent).as_nanos() / rto;
        if timeouts > 0 && self.last_sent > Time::ZERO {
            self.control.on_idle(timeouts);
            self.last_sent = context.now;
            self.trace_window(context);
        }
    }
}
