//! What parts written in Python see: the samples of `whimbrel_control` as plain objects. Times are whole nanoseconds, so that nothing is
//! rounded.

use pyo3::prelude::*;
use whimbrel_control::multipath::PathView;
use whimbrel_control::multipath::policy::{Paths, PolicyEvent};
use whimbrel_control::window::WindowView;
use whimbrel_control::{AckSample, LossEvent, LossSignal, MarkEvent, Span, Time, Verdict};

fn nanos(span: Option<Span>) -> Option<u64> {
    span.map(Span::as_nanos)
}

fn since_start(at: Time) -> u64 {
    at.since(Time::ZERO).as_nanos()
}

/// The window of a path, in bytes.
#[pyclass(frozen, get_all, module = "whimbrel._core")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    cwnd: u64,
    /// 2**64 - 1 before the first loss.
    ssthresh: u64,
    unit: u64,
    initial_cwnd: u64,
    floor: u64,
    in_slow_start: bool,
    /// Growth by an acknowledgement as a multiple of the window's own growth, set by a coupling.
    coupled_growth: f64,
}

impl From<WindowView> for Window {
    fn from(view: WindowView) -> Self {
        Window {
            cwnd: view.cwnd,
            ssthresh: view.ssthresh,
            unit: view.unit,
            initial_cwnd: view.initial_cwnd,
            floor: view.floor,
            in_slow_start: view.in_slow_start(),
            coupled_growth: view.limits.growth,
        }
    }
}

/// An acknowledgement.
#[pyclass(frozen, get_all, module = "whimbrel._core")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    now_ns: u64,
    acked: u64,
    packets: u32,
    flight_before: u64,
    flight: u64,
    cumulative_advanced: bool,
    all_acked: bool,
    in_recovery: bool,
    acked_to: u64,
    newest: u64,
    next: u64,
    rtt_ns: Option<u64>,
    srtt_ns: Option<u64>,
    min_rtt_ns: Option<u64>,
    delivered: u64,
    /// Times by the clocks of sender and receiver, if both use timestamps.
    stamps_ns: Option<(u64, u64)>,
    eci: Option<bool>,
}

impl From<&AckSample> for Ack {
    fn from(ack: &AckSample) -> Self {
        let stamps = ack.stamps;
        Ack {
            now_ns: since_start(ack.now),
            acked: ack.acked,
            packets: ack.packets,
            flight_before: ack.flight_before,
            flight: ack.flight,
            cumulative_advanced: ack.cumulative_advanced,
            all_acked: ack.all_acked,
            in_recovery: ack.in_recovery,
            acked_to: ack.acked_to,
            newest: ack.newest,
            next: ack.next,
            rtt_ns: nanos(ack.rtt),
            srtt_ns: nanos(ack.srtt),
            min_rtt_ns: nanos(ack.min_rtt),
            delivered: ack.delivered,
            stamps_ns: stamps.map(|stamps| (since_start(stamps.sent), since_start(stamps.received))),
            eci: ack.eci,
        }
    }
}

/// Packets declared lost at the same time.
#[pyclass(frozen, get_all, module = "whimbrel._core")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    now_ns: u64,
    /// "gap" or "timeout".
    signal: &'static str,
    first_lost: u64,
    last_lost: u64,
    packets: u32,
    copies: u32,
    bytes: u64,
    next: u64,
    flight_before: u64,
    srtt_ns: Option<u64>,
    min_rtt_ns: Option<u64>,
}

impl From<&LossEvent> for Loss {
    fn from(loss: &LossEvent) -> Self {
        Loss {
            now_ns: since_start(loss.now),
            signal: match loss.signal {
                LossSignal::Gap => "gap",
                LossSignal::Timeout => "timeout",
            },
            first_lost: loss.first_lost,
            last_lost: loss.last_lost,
            packets: loss.packets,
            copies: loss.copies,
            bytes: loss.bytes,
            next: loss.next,
            flight_before: loss.flight_before,
            srtt_ns: nanos(loss.srtt),
            min_rtt_ns: nanos(loss.min_rtt),
        }
    }
}

/// Packets that a queue marked.
#[pyclass(frozen, get_all, module = "whimbrel._core")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    now_ns: u64,
    seq: u64,
    packets: u32,
    next: u64,
    flight: u64,
    srtt_ns: Option<u64>,
    min_rtt_ns: Option<u64>,
    reduces: bool,
}

impl From<&MarkEvent> for Mark {
    fn from(mark: &MarkEvent) -> Self {
        Mark {
            now_ns: since_start(mark.now),
            seq: mark.seq,
            packets: mark.packets,
            next: mark.next,
            flight: mark.flight,
            srtt_ns: nanos(mark.srtt),
            min_rtt_ns: nanos(mark.min_rtt),
            reduces: mark.reduces,
        }
    }
}

/// A path of an association.
#[pyclass(frozen, get_all, module = "whimbrel._core", name = "Path")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathState {
    usable: bool,
    open: bool,
    cwnd: u64,
    ssthresh: u64,
    flight: u64,
    unit: u64,
    srtt_ns: Option<u64>,
    rttvar_ns: u64,
    min_rtt_ns: Option<u64>,
    rto_ns: u64,
    loss: f64,
    errors: u32,
}

impl From<&PathView> for PathState {
    fn from(view: &PathView) -> Self {
        PathState {
            usable: view.usable,
            open: view.open,
            cwnd: view.cwnd,
            ssthresh: view.ssthresh,
            flight: view.flight,
            unit: view.unit,
            srtt_ns: nanos(view.srtt),
            rttvar_ns: view.rttvar.as_nanos(),
            min_rtt_ns: nanos(view.min_rtt),
            rto_ns: view.rto.as_nanos(),
            loss: view.loss,
            errors: view.errors,
        }
    }
}

/// The paths of an association.
#[pyclass(frozen, get_all, module = "whimbrel._core", name = "Paths")]
#[derive(Clone, Debug)]
pub(crate) struct PathsState {
    now_ns: u64,
    primary: usize,
    current: usize,
    paths: Vec<PathState>,
}

impl From<&Paths<'_>> for PathsState {
    fn from(paths: &Paths<'_>) -> Self {
        PathsState {
            now_ns: since_start(paths.now),
            primary: paths.primary,
            current: paths.current,
            paths: paths.views.iter().map(PathState::from).collect(),
        }
    }
}

/// An event that gives information about a path.
#[pyclass(frozen, get_all, module = "whimbrel._core", name = "PolicyEvent")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    /// "delivered", "timeout", "report", "answered", "train" or "chosen"; the other fields belong to one of them.
    kind: &'static str,
    packets: u32,
    bytes: u64,
    filled: bool,
    consecutive: u32,
    gaps: u32,
    duplicates: u32,
    rtt_ns: Option<u64>,
}

impl From<&PolicyEvent> for Event {
    fn from(event: &PolicyEvent) -> Self {
        let of = |kind| Event {
            kind,
            ..Event::default()
        };
        match *event {
            PolicyEvent::Delivered { packets, bytes, filled } => Event {
                packets,
                bytes,
                filled,
                ..of("delivered")
            },
            PolicyEvent::Timeout { consecutive } => Event {
                consecutive,
                ..of("timeout")
            },
            PolicyEvent::Report { gaps, duplicates } => Event {
                gaps,
                duplicates,
                ..of("report")
            },
            PolicyEvent::Answered { rtt } => Event {
                rtt_ns: Some(rtt.as_nanos()),
                ..of("answered")
            },
            PolicyEvent::Train { sent, bytes, .. } => Event {
                packets: sent,
                bytes,
                ..of("train")
            },
            PolicyEvent::Chosen => of("chosen"),
        }
    }
}

/// Returns a verdict as a word.
pub(crate) fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Congestion => "congestion",
        Verdict::Transmission => "transmission",
        Verdict::Unsure => "unsure",
    }
}

/// Returns the verdict of a word.
pub(crate) fn verdict_of(word: &str) -> Option<Verdict> {
    [Verdict::Congestion, Verdict::Transmission, Verdict::Unsure]
        .into_iter()
        .find(|verdict| verdict_word(*verdict) == word)
}
