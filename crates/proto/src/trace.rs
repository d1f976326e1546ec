//! Typed records of internal events, created only for the kinds that were requested.

use whimbrel_control::{LossSignal, Span, Time, Verdict};
use whimbrel_wire::Tsn;

use crate::{AssocId, Discard, PathId, PathState, RecoveryMode, State};

/// A set of kinds of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TraceKinds(u16);

impl TraceKinds {
    /// No records: costs one bit test per event.
    pub const NONE: TraceKinds = TraceKinds(0);
    /// Packets sent, received and discarded.
    pub const PACKETS: TraceKinds = TraceKinds(1);
    /// TSNs sent, acknowledged and given up as lost.
    pub const TSNS: TraceKinds = TraceKinds(2);
    /// Changes of cwnd, ssthresh and flight.
    pub const WINDOWS: TraceKinds = TraceKinds(4);
    /// Round-trip times and timeouts.
    pub const RTT: TraceKinds = TraceKinds(8);
    /// Path states, association states, timers that expired.
    pub const STATES: TraceKinds = TraceKinds(16);
    /// CE marks and their echoes.
    pub const ECN: TraceKinds = TraceKinds(32);
    /// The judgements of losses.
    pub const VERDICTS: TraceKinds = TraceKinds(64);
    /// Everything.
    pub const ALL: TraceKinds = TraceKinds(127);

    /// Returns the union of this set and the other one.
    #[must_use]
    pub const fn with(self, other: TraceKinds) -> TraceKinds {
        TraceKinds(self.0 | other.0)
    }

    /// Whether any kind of `other` is in this set.
    pub const fn wants(self, other: TraceKinds) -> bool {
        self.0 & other.0 != 0
    }
}

/// One record.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TraceRecord {
    /// When it happened.
    pub at: Time,
    /// The association; none for packets that do not belong to one.
    pub association: Option<AssocId>,
    /// What happened.
    pub event: TraceEvent,
}

/// The rule that declared a TSN lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LossRule {
    /// Enough missing reports (RFC 9260 §7.2.4).
    MissingReports,
    /// T3-rtx expired (RFC 9260 §6.3.3).
    Timeout,
    /// The highest outstanding TSN has arrived, and there are too few for enough missing reports (Ye 2004, 3.4).
    SmallWindow,
    /// Not known to be lost: it is retransmitted as a tail-loss probe (RFC 8985 §7).
    TailProbe,
}

/// A timer of an association (RFC 9260) or of one of its paths.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TimerKind {
    /// T1-init: waiting for INIT ACK.
    T1Init,
    /// T1-cookie: waiting for COOKIE ACK.
    T1Cookie,
    /// T2-shutdown: waiting for SHUTDOWN ACK or SHUTDOWN COMPLETE.
    T2Shutdown,
    /// T4-rto: waiting for an ASCONF-ACK (RFC 5061).
    T4Asconf,
    /// Re-configuration timer: waiting for the response to a RE-CONFIG (RFC 6525 §5.1.1).
    Reconfig,
    /// T5-shutdown-guard: bounds the whole shutdown.
    T5ShutdownGuard,
    /// T3-rtx of a path: waiting for acknowledgement of data.
    T3Rtx,
    /// Heartbeat of a path: time to send one, or to give one up.
    Heartbeat,
    /// Tail-loss probe of a path (RFC 8985 §7).
    TailLossProbe,
    /// Silence of a path: the acknowledgements of its data stay away.
    Silence,
    /// Probe of a closed receive window.
    ZeroWindowProbe,
    /// No packet was sent or received for the configured time.
    Autoclose,
    /// The first message of the peer did not arrive in time.
    FirstMessage,
    /// The peer has not shown yet that it has the keys of an encrypted association.
    Proof,
    /// Key management with messages: the time for a handshake is over, or keys have to be renewed.
    KeyManagement,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TraceEvent {
    /// A packet was handed to the driver.
    PacketSent {
        /// The path it is sent on.
        path: PathId,
        /// Length of the SCTP packet in bytes.
        wire_len: u32,
    },
    /// A packet was received and belongs to the association.
    PacketReceived {
        /// The path it arrived on, if its source is an address of the peer.
        path: Option<PathId>,
        /// Length of the SCTP packet in bytes.
        wire_len: u32,
    },
    /// A packet, or the rest of it, was discarded.
    Discarded {
        /// The reason.
        reason: Discard,
    },
    /// A DATA chunk was sent.
    TsnSent {
        /// The path it was sent on.
        path: PathId,
        /// Its TSN.
        tsn: Tsn,
        /// Bytes of user data.
        len: u32,
        /// Whether it is a retransmission.
        retransmission: bool,
    },
    /// A TSN was acknowledged for the first time.
    TsnAcked {
        /// The path it was last sent on.
        path: PathId,
        /// The TSN.
        tsn: Tsn,
    },
    /// A TSN was declared lost and will be retransmitted.
    TsnLost {
        /// The path it was last sent on.
        path: PathId,
        /// The TSN.
        tsn: Tsn,
        /// The rule that declared it lost.
        rule: LossRule,
    },
    /// The loss of a TSN was judged.
    Verdict {
        /// The path it was last sent on.
        path: PathId,
        /// The TSN.
        tsn: Tsn,
        /// How the loss was detected.
        signal: LossSignal,
        /// The judgement.
        verdict: Verdict,
        /// Congestion window before the reaction, bytes.
        cwnd_before: u64,
        /// Congestion window after it, bytes.
        cwnd: u64,
        /// The strength of the congestion signal when the episode was judged, as a multiple of the threshold for that verdict, if the
        /// discriminator has such a measure.
        strength: Option<f64>,
        /// The loss episode, counted from 1: the losses in one window of data, or one timeout.
        episode: u32,
    },
    /// The recovery mode of a path changed. Recorded only if the scheme has a recovery beyond RFC 9260.
    RecoveryMode {
        /// The path.
        path: PathId,
        /// Its new mode.
        mode: RecoveryMode,
    },
    /// The congestion control of a path changed.
    Window {
        /// The path.
        path: PathId,
        /// Congestion window, bytes.
        cwnd: u64,
        /// Slow-start threshold, bytes.
        ssthresh: u64,
        /// Bytes in flight.
        flight: u64,
        /// The peer's receive window as known to the sender, bytes; if a SACK changed the congestion control, before its a_rwnd.
        peer_rwnd: u32,
    },
    /// A round-trip time was measured.
    Rtt {
        /// The path.
        path: PathId,
        /// The sample.
        sample: Span,
        /// Smoothed round-trip time.
        srtt: Span,
        /// Round-trip time variation.
        rttvar: Span,
        /// The resulting retransmission timeout.
        rto: Span,
    },
    /// A data packet arrived with a CE mark.
    CeReceived {
        /// The path it arrived on.
        path: PathId,
        /// The lowest TSN in it.
        tsn: Tsn,
    },
    /// An ECNE chunk was sent.
    EcneSent {
        /// The path it was sent on.
        path: PathId,
        /// The lowest TSN of the marked packet.
        tsn: Tsn,
    },
    /// An ECNE chunk was received and accepted.
    EcneReceived {
        /// The path on which the marked packet was sent.
        path: PathId,
        /// The lowest TSN of the marked packet.
        tsn: Tsn,
        /// Whether it reduces the congestion window. If not, the window was already reduced for this window of data.
        reduces: bool,
    },
    /// The state of a path changed.
    PathState {
        /// The path.
        path: PathId,
        /// Its new state.
        state: PathState,
    },
    /// New data is sent on another path from now on.
    SendingPath {
        /// The path.
        path: PathId,
    },
    /// A timer expired.
    Timer {
        /// The timer.
        timer: TimerKind,
        /// Its path, if it belongs to one.
        path: Option<PathId>,
    },
    /// The state of the association changed.
    State {
        /// Its new state.
        state: State,
    },
}

/// Collects records until the driver drains them. The driver bounds their number, as it drains them after every call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    kinds: TraceKinds,
    records: Vec<TraceRecord>,
    /// Number of records beyond which further ones are counted only; 0: no limit.
    limit: usize,
    lost: u64,
}

impl Trace {
    pub(crate) fn set_kinds(&mut self, kinds: TraceKinds) {
        self.kinds = kinds;
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the number of records that the limit has discarded.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether any of these kinds was requested.
    #[inline]
    pub(crate) fn wants(&self, kinds: TraceKinds) -> bool {
        self.kinds.wants(kinds)
    }

    /// Adds a record of these kinds if they were requested; `event` runs only in that case.
    #[inline]
    pub(crate) fn emit(
        &mut self,
        kinds: TraceKinds,
        at: Time,
        association: Option<AssocId>,
        event: impl FnOnce() -> TraceEvent,
    ) {
        if self.kinds.wants(kinds) {
            if self.limit > 0 && self.records.len() >= self.limit {
                self.lost += 1;
                return;
            }
            self.records.push(TraceRecord {
                at,
                association,
                event: event(),
            });
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(crate) fn drain(&mut self, f: &mut dyn FnMut(&TraceRecord)) {
        for record in &self.records {
            f(record);
        }
        self.records.clear();
    }
}
