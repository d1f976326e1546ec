//! Observation: typed records of what happens inside, built only if somebody asked for their kind.

use whimbrel_control::{LossSignal, Span, Time, Verdict};
use whimbrel_wire::Tsn;

use crate::{AssocId, Discard, PathId, PathState, RecoveryMode, State};

/// A set of kinds of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TraceKinds(u16);

impl TraceKinds {
    /// Nothing: costs one test of a bit per occasion.
    pub const NONE: TraceKinds = TraceKinds(0);
    /// Packets sent, received and discarded.
    pub const PACKETS: TraceKinds = TraceKinds(1);
    /// TSNs sent, acknowledged and given up as lost.
    pub const TSNS: TraceKinds = TraceKinds(2);
    /// Changes of cwnd, ssthresh and flight.
    pub const WINDOWS: TraceKinds = TraceKinds(4);
    /// Round-trip times and timeouts.
    pub const RTT: TraceKinds = TraceKinds(8);
    /// Path states, association states, timers that went off.
    pub const STATES: TraceKinds = TraceKinds(16);
    /// Marks and their echoes.
    pub const ECN: TraceKinds = TraceKinds(32);
    /// How losses were judged.
    pub const VERDICTS: TraceKinds = TraceKinds(64);
    /// Everything.
    pub const ALL: TraceKinds = TraceKinds(127);

    /// This set and the other one together.
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
    /// The association; none for packets that belong to none.
    pub association: Option<AssocId>,
    /// What happened.
    pub event: TraceEvent,
}

/// Which rule declared a TSN lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LossRule {
    /// Enough missing reports (RFC 9260 §7.2.4).
    MissingReports,
    /// T3-rtx went off (RFC 9260 §6.3.3).
    Timeout,
    /// The highest one outstanding has arrived, and too few are for enough missing reports (Ye 2004, 3.4).
    SmallWindow,
    /// Not lost for all one knows: it is sent again as a tail-loss probe (RFC 8985 §7).
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
    /// T5-shutdown-guard: bounds the whole shutdown.
    T5ShutdownGuard,
    /// T3-rtx of a path: waiting for acknowledgement of data.
    T3Rtx,
    /// Heartbeat of a path: time to send one, or time to give one up.
    Heartbeat,
    /// Tail-loss probe of a path (RFC 8985 §7).
    TailLossProbe,
    /// Probe of a closed receive window.
    ZeroWindowProbe,
    /// Nothing was sent or received for the configured time.
    Autoclose,
    /// The peer's first message did not come in time.
    FirstMessage,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TraceEvent {
    /// A packet was handed to the driver.
    PacketSent {
        /// Where it goes.
        path: PathId,
        /// Bytes of SCTP packet.
        wire_len: u32,
    },
    /// A packet was received and belongs to the association.
    PacketReceived {
        /// Where it came from, if the address is one of the peer's.
        path: Option<PathId>,
        /// Bytes of SCTP packet.
        wire_len: u32,
    },
    /// A packet, or the rest of it, was discarded.
    Discarded {
        /// Why.
        reason: Discard,
    },
    /// A DATA chunk was sent.
    TsnSent {
        /// On this path.
        path: PathId,
        /// Its TSN.
        tsn: Tsn,
        /// Bytes of user data.
        len: u32,
        /// Whether it had been sent before.
        retransmission: bool,
    },
    /// A TSN was acknowledged for the first time.
    TsnAcked {
        /// The path it was last sent on.
        path: PathId,
        /// The TSN.
        tsn: Tsn,
    },
    /// A TSN was declared lost and will be sent again.
    TsnLost {
        /// The path it was last sent on.
        path: PathId,
        /// The TSN.
        tsn: Tsn,
        /// The rule that said so.
        rule: LossRule,
    },
    /// The loss of a TSN was judged.
    Verdict {
        /// The path it was last sent on.
        path: PathId,
        /// The TSN.
        tsn: Tsn,
        /// How the loss was noticed.
        signal: LossSignal,
        /// What it meant.
        verdict: Verdict,
        /// Congestion window before the reaction, bytes.
        cwnd_before: u64,
        /// Congestion window after it, bytes.
        cwnd: u64,
        /// How strongly congestion showed when the episode was judged, as a multiple of what it takes for that verdict, if the
        /// discriminator has such a measure.
        strength: Option<f64>,
        /// The loss episode, counted from 1: the losses of one window of data, or one timeout.
        episode: u32,
    },
    /// What a path recovers from changed. Told only where the scheme has a recovery beyond the standard.
    RecoveryMode {
        /// The path.
        path: PathId,
        /// Its mode now.
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
        /// The peer's receive window as we know it, bytes.
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
        /// Its variation.
        rttvar: Span,
        /// Retransmission timeout that follows.
        rto: Span,
    },
    /// A packet of data arrived marked: CE.
    CeReceived {
        /// The path it came on.
        path: PathId,
        /// The lowest TSN in it.
        tsn: Tsn,
    },
    /// An ECNE chunk was sent.
    EcneSent {
        /// On this path.
        path: PathId,
        /// The lowest TSN of the packet that was marked.
        tsn: Tsn,
    },
    /// An ECNE chunk was received and taken.
    EcneReceived {
        /// The path that the marked packet was sent on.
        path: PathId,
        /// The lowest TSN of the packet that was marked.
        tsn: Tsn,
        /// Whether it reduces the congestion window; if not, that has been done for this window of data.
        reduces: bool,
    },
    /// A path changed state.
    PathState {
        /// The path.
        path: PathId,
        /// Its state now.
        state: PathState,
    },
    /// New data goes to another path from now on.
    SendingPath {
        /// The path.
        path: PathId,
    },
    /// A timer went off.
    Timer {
        /// Which.
        timer: TimerKind,
        /// Of which path, if it belongs to one.
        path: Option<PathId>,
    },
    /// The association changed state.
    State {
        /// Its state now.
        state: State,
    },
}

/// Collects records until the driver drains them. Bounded by the driver, which drains after every call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    kinds: TraceKinds,
    records: Vec<TraceRecord>,
}

impl Trace {
    pub(crate) fn set_kinds(&mut self, kinds: TraceKinds) {
        self.kinds = kinds;
    }

    /// Whether somebody asked for any of these kinds.
    #[inline]
    pub(crate) fn wants(&self, kinds: TraceKinds) -> bool {
        self.kinds.wants(kinds)
    }

    /// Adds a record of these kinds if somebody asked for them; `event` runs only then.
    #[inline]
    pub(crate) fn emit(
        &mut self,
        kinds: TraceKinds,
        at: Time,
        association: Option<AssocId>,
        event: impl FnOnce() -> TraceEvent,
    ) {
        if self.kinds.wants(kinds) {
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
