//! The sending end.

mod ack;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;

use std::sync::Arc;

use whimbrel_control::estimator::{DeliveryEstimator, RttConfig, RttEstimator};
use whimbrel_control::recovery::Recovery;
use whimbrel_control::window::GrowthRule;
use whimbrel_control::{
    BuildContext, Controller, Pacer, Rate, RecoveryEpoch, Rng, SchemeParts, Seq, Span, Time, Verdict, WindowRules,
};
use whimbrel_proto::{AssociationStats, Ecn, PathId, TraceEvent, TraceKinds, TraceRecord};
use whimbrel_wire::Tsn;

use super::scoreboard::{LossRule, Lost, Scoreboard};
use super::{RECEIVER_PORT, distance, send, sender_port, timestamp, window_scale};
use crate::config::{TcpConfig, TcpEcn, TcpFlavour};
use crate::host::{Alarm, Context, FileContent, Source};
use crate::ids::AgentId;
use crate::measure::{Episodes, FlowOutcome, Occasions};
use crate::observer::Sample;
use crate::packet::{IP_HEADER, PacketId};
use crate::segment::{TcpFlags, TcpSegment};
use crate::topology::Route;
use crate::truth::Truth;

/// Bytes of the header without options.
const TCP_HEADER: u32 = 20;

/// Parameters of a sender.
#[derive(Debug)]
pub(crate) struct SenderSetup<'a> {
    /// Twice the flow's index.
    pub(crate) agent: AgentId,
    pub(crate) config: &'a TcpConfig,
    pub(crate) source: Source,
    /// The file to send, if there is one.
    pub(crate) file: Option<FileContent>,
    pub(crate) start: Time,
    /// True causes of losses: compared with verdicts, and available to oracle discriminators.
    pub(crate) truth: Arc<Truth>,
    pub(crate) random: Rng,
}

/// State of the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Waiting,
    SynSent,
    Up,
    /// Everything is acknowledged in both directions.
    Closed,
    Failed(&'static str),
}

/// State of loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Recovering {
    No,
    /// Fast recovery, until everything up to this position is acknowledged.
    Fast(Seq),
    /// Slow start after a timeout, likewise.
    Timeout(Seq),
}

/// Options that the peer has accepted.
#[derive(Clone, Copy, Debug, Default)]
struct Agreed {
    sack: bool,
    timestamps: bool,
    ecn: bool,
    /// Window scaling.
    scaling: bool,
    /// The peer's window scale.
    scale: u8,
}

/// The sending end of a TCP flow.
#[derive(Debug)]
pub(crate) struct TcpSender {
    agent: AgentId,
    config: TcpConfig,
    rules: Recovery,
    ecn: TcpEcn,
    /// The codepoint of ECN-capable segments.
    codepoint: Ecn,
    eci: bool,
    pacing: bool,
    count_acks: bool,
    timestamps: bool,
    source: Source,
    file: Option<FileContent>,
    start: Time,
    alarm: Alarm,
    phase: Phase,
    rng: Rng,
    /// Initial sequence number of this end.
    isn: u32,
    /// The next sequence number of the peer.
    peer_next: u32,
    /// The peer's last timestamp, to be echoed.
    recent: u32,
    agreed: Agreed,
    /// Bytes of user data in a full segment.
    segment_bytes: u32,
    control: Controller,
    rtt: RttEstimator,
    pacer: Pacer,
    board: Scoreboard,
    /// Bytes that the application has written.
    written: u64,
    /// Whether the application has closed its side.
    shut: bool,
    fin_sent: bool,
    /// Offset behind the last byte in the peer's receive window.
    right_edge: u64,
    /// When the retransmission timer expires.
    rto_at: Option<Time>,
    /// When a tail-loss probe is sent.
    probe_at: Option<Time>,
    /// Whether a probe was sent since the last acknowledgement of new data.
    probed: bool,
    /// Timeouts since the last acknowledgement of new data, or retransmissions of the SYN.
    timeouts: u32,
    /// Duplicate acknowledgements since the last new one.
    dup_acks: u32,
    /// Segments that duplicate acknowledgements show to have left the network (without SACK).
    left: u32,
    recovering: Recovering,
    /// Duplicate acknowledgements up to this position date from before a timeout (RFC 6582 §3.2, `recover`).
    guard: Option<Seq>,
    /// The window of data for which the congestion window has been reduced.
    reduced: RecoveryEpoch,
    /// Losses of segments sent after the start of recovery: those of the next window of data.
    later: Option<(Lost, Verdict)>,
    /// Whether the loss being recovered was judged a transmission loss.
    by_transmission: bool,
    /// When the next retransmission may be sent, if they are limited to one per round-trip time.
    next_retransmission: Time,
    /// Whether a retransmission is due that ignores the window.
    urgent: bool,
    /// The timestamp of the first retransmission after a timeout, while the timeout may still turn out spurious (RFC 3522).
    undo: Option<u32>,
    /// Whether the next new segment carries CWR (RFC 3168 §6.1.2).
    send_cwr: bool,
    /// Whether only the window or the pacer held back a segment at the last attempt.
    limited: bool,
    /// Whether a segment waits for the pacer.
    paced: bool,
    last_sent: Time,
    /// Bytes delivered so far.
    delivered: u64,
    /// The delivery rate estimator, if a part needs it.
    delivery: Option<DeliveryEstimator>,
    /// Bytes of these that duplicate acknowledgements have reported before a cumulative one (without SACK).
    estimated: u64,
    truth: Arc<Truth>,
    occasions: Occasions,
    episodes: Episodes,
    /// Loss episodes so far: the losses of one window of data are one episode, and so is a timeout.
    episode: u32,
    /// The verdict that reduced the window for this window of data: later losses of the episode inherit it.
    verdict: Option<Verdict>,
    stats: AssociationStats,
    opened_stats: Option<AssociationStats>,
    window_stats: Option<AssociationStats>,
}

/// Returns the codepoint of ECN-capable segments. ECT(1) requires feedback of the extent of marks (RFC 9331 §4.2).
fn codepoint(config: &TcpConfig, parts: &SchemeParts) -> Ecn {
    if parts.l4s && config.resolved_ecn() == TcpEcn::Accurate {
        Ecn::Ect1
    } else {
        Ecn::Ect0
    }
}

/// Returns the congestion control of a connection.
fn controller(config: &TcpConfig, parts: &SchemeParts, segment_bytes: u32, truth: &Arc<Truth>) -> Controller {
    let unit = u64::from(segment_bytes);
    let rules = WindowRules {
        initial_cwnd: unit * u64::from(config.initial_window),
        unit,
        // RFC 5681 §3.1, equation 4
        floor: 2 * unit,
        growth: GrowthRule::EveryAck,
    };
    let context = BuildContext {
        truth: Some(truth.clone()),
    };
    Controller::new(rules, parts.discriminator.build(&context), parts.window.build(&context))
}

impl TcpSender {
    /// Creates a sender that waits for its start time.
    pub(crate) fn new(setup: SenderSetup<'_>) -> Self {
        let SenderSetup {
            agent,
            config,
            source,
            file,
            start,
            truth,
            mut random,
        } = setup;
        let parts = config.parts();
        let segment_bytes = u32::from(config.mss) - if parts.timestamps { 12 } else { 0 };
        let control = controller(config, &parts, segment_bytes, &truth);
        let measures_rate = control.needs().rate;
        TcpSender {
            agent,
            rules: parts.recovery,
            ecn: config.resolved_ecn(),
            codepoint: codepoint(config, &parts),
            eci: parts.eci,
            pacing: parts.pacing,
            count_acks: config.count_acks,
            timestamps: parts.timestamps,
            source,
            file,
            start,
            alarm: Alarm::default(),
            phase: Phase::Waiting,
            isn: random.next_u64() as u32,
            rng: random,
            peer_next: 0,
            recent: 0,
            agreed: Agreed::default(),
            segment_bytes,
            control,
            rtt: RttEstimator::new(Arc::new(RttConfig {
                initial: config.rto_initial,
                min: config.rto_min,
                max: config.rto_max,
                ..RttConfig::default()
            })),
            pacer: Pacer::default(),
            board: Scoreboard::default(),
            written: 0,
            shut: false,
            fin_sent: false,
            right_edge: 0,
            rto_at: None,
            probe_at: None,
            probed: false,
            timeouts: 0,
            dup_acks: 0,
            left: 0,
            recovering: Recovering::No,
            guard: None,
            reduced: RecoveryEpoch::default(),
            later: None,
            by_transmission: false,
            next_retransmission: Time::ZERO,
            urgent: false,
            undo: None,
            send_cwr: false,
            limited: false,
            paced: false,
            last_sent: Time::ZERO,
            delivered: 0,
            delivery: measures_rate.then(DeliveryEstimator::default),
            estimated: 0,
            truth,
            occasions: Occasions::default(),
            episodes: Episodes::default(),
            episode: 0,
            verdict: None,
            stats: AssociationStats::default(),
            opened_stats: None,
            window_stats: None,
            config: config.clone(),
        }
    }

    /// Sets the first alarm.
    pub(crate) fn begin(&mut self, context: &mut Context<'_>) {
        self.alarm.arm(&mut context.network.queue, self.agent, Some(self.start));
    }

    /// Handles a wake-up; a stale one does nothing.
    pub(crate) fn wake(&mut self, context: &mut Context<'_>, seq: u64) {
        if !self.alarm.ring(seq) {
            return;
        }
        if self.phase == Phase::Waiting {
            self.phase = Phase::SynSent;
            self.send_syn(context);
        }
        self.check_timers(context);
        self.drive(context);
    }

    /// Handles a received segment.
    #[inline]
    pub(crate) fn receive(&mut self, context: &mut Context<'_>, id: PacketId) {
        let segment = context.network.slab.body(id).tcp;
        context.network.slab.release(id);
        self.stats.packets_received += 1;
        self.stats.bytes_received += u64::from(segment.len());
        self.recent = segment.timestamps.map_or(0, |(value, _)| value);
        match self.phase {
            Phase::SynSent if segment.flags.has(TcpFlags::SYN.with(TcpFlags::ACK)) => {
                self.on_syn_ack(context, &segment)
            }
            Phase::Up if segment.flags.has(TcpFlags::SYN) => self.send_ack(context),
            Phase::Up => {
                self.on_ack(context, &segment);
                self.check_end(context, &segment);
            }
            // The last acknowledgement was lost (RFC 9293 §3.10.7.8, TIME-WAIT).
            Phase::Closed if segment.flags.has(TcpFlags::FIN) => self.send_ack(context),
            _ => context.flow.discarded += 1,
        }
        self.drive(context);
    }

    fn on_syn_ack(&mut self, context: &mut Context<'_>, segment: &TcpSegment) {
        if segment.ack != self.isn.wrapping_add(1) {
            context.flow.discarded += 1;
            return;
        }
        self.phase = Phase::Up;
        self.peer_next = segment.seq.wrapping_add(1);
        self.agreed = Agreed {
            sack: segment.sack_permitted,
            timestamps: segment.timestamps.is_some(),
            ecn: segment.flags.has(TcpFlags::ECE) && self.ecn != TcpEcn::Off,
            scaling: segment.window_scale.is_some(),
            scale: segment.window_scale.unwrap_or(0),
        };
        self.right_edge = u64::from(segment.window);
        // RFC 9293 §3.7.1
        if let Some(mss) = segment.mss {
            self.limit_mss(mss);
        }
        // Karn: a retransmitted SYN gives no sample.
        if self.timeouts == 0 {
            self.take_rtt(context, context.now.since(self.start));
        }
        self.timeouts = 0;
        self.rto_at = None;
        self.send_ack(context);
    }

    /// Handles a report about a segment that was too long for a link on the route: everything in flight that is too long is retransmitted. The
    /// congestion window stays, as RFC 1191 §6.5 wants it.
    pub(crate) fn limit_mtu(&mut self, context: &mut Context<'_>, mtu: u32) {
        let mss = mtu.saturating_sub(IP_HEADER + TCP_HEADER);
        if self.limit_mss(u16::try_from(mss).unwrap_or(u16::MAX)) {
            self.board.give_up_longer(self.segment_bytes);
            self.drive(context);
        }
    }

    /// Lowers the maximum segment size. Returns whether it was larger.
    fn limit_mss(&mut self, mss: u16) -> bool {
        let is_lower = mss < self.config.mss;
        if is_lower {
            let options = u32::from(self.config.mss) - self.segment_bytes;
            self.config.mss = mss;
            self.segment_bytes = u32::from(mss).saturating_sub(options).max(1);
        }
        is_lower
    }

    /// Closes the connection if the peer has acknowledged everything and closed its side.
    fn check_end(&mut self, context: &mut Context<'_>, segment: &TcpSegment) {
        if segment.flags.has(TcpFlags::FIN) && segment.seq == self.peer_next && self.is_done() {
            self.peer_next = self.peer_next.wrapping_add(1);
            self.phase = Phase::Closed;
            self.rto_at = None;
            self.probe_at = None;
            self.send_ack(context);
        }
    }

    fn is_done(&self) -> bool {
        self.fin_sent && self.board.is_empty()
    }

    /// Takes data from the application, sends what may be sent, and sets the alarm.
    #[inline]
    fn drive(&mut self, context: &mut Context<'_>) {
        if self.phase == Phase::Up {
            self.offer(context);
            self.transmit(context);
        }
        let mut deadline = self.rto_at;
        for at in [
            self.probe_at,
            self.pacing_deadline(context.now),
            self.user_deadline(context.now),
        ] {
            deadline = match (deadline, at) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (one, other) => one.or(other),
            };
        }
        self.alarm.arm(&mut context.network.queue, self.agent, deadline);
    }

    /// Returns whether the send buffer has room.
    fn has_room(&self) -> bool {
        let buffered = self.written - self.board.una();
        buffered == 0 || buffered + u64::from(self.source.message_len()) <= u64::from(self.config.send_buffer)
    }

    /// Takes due messages while there is room for them.
    fn offer(&mut self, context: &mut Context<'_>) {
        if self.shut {
            return;
        }
        while self.has_room()
            && self.source.next_due().is_some_and(|due| due <= context.now)
            && self.source.stop() > context.now
        {
            self.written += u64::from(self.source.message_len());
            let created = self.source.advance(context.now);
            context.flow.sink.sent(created, context.network.window);
            self.stats.messages_sent += 1;
        }
        self.shut = self.source.is_exhausted(context.now);
    }

    /// Returns when the application will act next.
    fn user_deadline(&self, now: Time) -> Option<Time> {
        if self.phase != Phase::Up || self.shut {
            return None;
        }
        let due = if self.has_room() { self.source.next_due() } else { None };
        let stop = Some(self.source.stop()).filter(|stop| *stop < Time::MAX);
        match (due, stop) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        }
        .filter(|at| *at > now)
    }

    /// Returns the sequence number of an offset in the stream.
    fn wire(&self, offset: u64) -> u32 {
        self.isn.wrapping_add(1).wrapping_add(offset as u32)
    }

    /// Returns the label of a segment in the ledger and in traces: its first sequence number.
    fn label(&self, seq: Seq) -> u32 {
        self.wire(self.board.get(seq).map_or(self.board.next(), |slot| slot.start))
    }

    fn trace(&self, context: &mut Context<'_>, kinds: TraceKinds, event: impl FnOnce() -> TraceEvent) {
        if context.network.wanted.trace.wants(kinds) {
            let record = TraceRecord {
                at: context.now,
                association: None,
                event: event(),
            };
            context.observer.trace(self.agent.flow(), true, &record);
        }
    }

    fn trace_window(&self, context: &mut Context<'_>) {
        self.trace(context, TraceKinds::WINDOWS, || TraceEvent::Window {
            path: PathId(0),
            cwnd: self.control.cwnd(),
            ssthresh: self.control.ssthresh(),
            flight: self.pipe(),
            peer_rwnd: u32::try_from(self.right_edge.saturating_sub(self.board.next())).unwrap_or(u32::MAX),
        });
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

    /// Returns whether the connection has ended, or never existed.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closed | Phase::Failed(_))
    }

    /// Returns whether the connection ended gracefully.
    pub(crate) fn ended_well(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Returns the application at this end.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the state of the connection's only path.
    pub(crate) fn sample(&self, at: Time, route: &Route) -> Sample {
        Sample::Path {
            at,
            flow: self.agent.flow(),
            forward: true,
            path: PathId(0),
            local: route.source,
            remote: route.destination,
            cwnd: self.control.cwnd(),
            ssthresh: self.control.ssthresh(),
            flight: self.pipe(),
            srtt: self.rtt.srtt(),
            rto: self.rtt.rto(),
            quality: None,
        }
    }

    /// Returns whether the connection is established.
    pub(crate) fn is_up(&self) -> bool {
        self.phase == Phase::Up
    }

    /// Returns the outcome of this end so far.
    pub(crate) fn outcome(&self) -> FlowOutcome {
        match self.phase {
            Phase::Waiting => FlowOutcome::NotStarted,
            Phase::SynSent => FlowOutcome::Connecting,
            Phase::Up => FlowOutcome::Running,
            Phase::Closed => FlowOutcome::Completed,
            Phase::Failed(reason) => FlowOutcome::Failed(reason.to_owned()),
        }
    }
}
