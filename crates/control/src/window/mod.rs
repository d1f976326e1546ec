//! Window control: how much data may be in flight, given acknowledgements and verdicts?
//!
//! A part returns numbers; the [`Controller`](crate::Controller) owns the window and applies them.

mod bbr;
mod bbr1;
mod cubic;
mod dctcp;
mod hystart;
mod max_x;
mod standard;
mod tabe;
mod three_quarters;
mod vegas;
mod veno;
mod westwood;

#[cfg(test)]
mod testing;

use core::fmt;

pub use bbr::BbrParameters;
pub use bbr1::Bbr1Parameters;
pub use cubic::CubicParameters;
pub use dctcp::DctcpParameters;
pub use max_x::{MaxXParameters, Reduction};
pub use standard::{StandardParameters, StandardWindow};
pub use tabe::{ArrivalClock, PipeRtt, TabeParameters};
pub use three_quarters::ThreeQuartersParameters;
pub use vegas::VegasParameters;
pub use veno::VenoParameters;
pub use westwood::WestwoodParameters;

use crate::part::{BuildContext, registry};
use crate::sample::{AckSample, LossEvent, MarkEvent, Needs, Verdict};
use crate::{Rate, Span};

/// How acknowledgements make the standard window grow: the editions of the standard differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum GrowthRule {
    /// RFC 9260 §7.2.2: each acknowledgement counts towards partial_bytes_acked, which is capped at cwnd while the window is not
    /// full.
    #[default]
    EveryAck,
    /// RFC 4960 and RFC 2960 §7.2.2: only an acknowledgement that advances the cumulative TSN counts, and nothing caps
    /// partial_bytes_acked.
    CumulativeAdvance,
    /// ns-2.35: as with `cumulative-advance`, and only an acknowledgement that finds the window full counts.
    FullWindow,
}

/// The view of the window for a part. All values are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowView {
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold.
    pub ssthresh: u64,
    /// The unit in which the window grows: PMDCS for SCTP (RFC 9260 §7.2), MSS for TCP.
    pub unit: u64,
    /// Initial congestion window.
    pub initial_cwnd: u64,
    /// Smallest ssthresh after a loss: 4 units by RFC 9260, 2 by RFC 2960.
    pub floor: u64,
    /// How an acknowledgement counts towards growth.
    pub growth: GrowthRule,
}

impl WindowView {
    /// Returns the unchanged window.
    pub fn unchanged(&self) -> WindowUpdate {
        WindowUpdate {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
        }
    }

    /// Returns whether the window is in slow start.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd <= self.ssthresh
    }

    /// Returns half of the window, but at least the floor.
    pub fn halved(&self) -> u64 {
        (self.cwnd / 2).max(self.floor)
    }

    /// Returns a share of the window, 0 to 1.
    pub fn scaled(&self, share: f64) -> u64 {
        (self.cwnd as f64 * share) as u64
    }

    /// Returns whether the window was fully used, except for less than a unit, when an acknowledgement arrived. Only
    /// then may it grow (RFC 9438 §5.8).
    pub fn is_used(&self, ack: &AckSample) -> bool {
        ack.flight_before.saturating_add(self.unit) > self.cwnd
    }
}

/// A new window, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowUpdate {
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold.
    pub ssthresh: u64,
}

impl WindowUpdate {
    /// Returns an update with both values set to `window`, the usual reaction to congestion.
    pub fn both(window: u64) -> Self {
        WindowUpdate {
            cwnd: window,
            ssthresh: window,
        }
    }
}

/// The interface of a window control.
pub trait WindowControl: fmt::Debug + Send + Sync {
    /// Returns the window after an acknowledgement.
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate;

    /// Returns the window after a loss that counts as congestion and was detected by a gap; called once per window of
    /// data.
    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate;

    /// Returns the window after a loss that was detected by a gap and judged as a transmission loss; by default
    /// unchanged.
    fn on_transmission_loss(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        let _ = loss;
        window.unchanged()
    }

    /// Returns the window after a mark; called for each mark. By default the first mark of a window of data counts as a
    /// congestion loss.
    fn on_mark(&mut self, window: WindowView, mark: &MarkEvent) -> WindowUpdate {
        if !mark.reduces {
            return window.unchanged();
        }
        let loss = LossEvent {
            packets: 0,
            next: mark.next,
            flight_before: mark.flight,
            srtt: mark.srtt,
            min_rtt: mark.min_rtt,
            coupled: mark.coupled,
            ..LossEvent::of(mark.now, crate::LossSignal::Gap, mark.seq)
        };
        self.on_congestion(window, &loss)
    }

    /// Returns the window after a retransmission timeout with this verdict. By default the verdict has no effect: cwnd
    /// is one unit, and ssthresh is that after any loss.
    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, verdict: Verdict) -> WindowUpdate {
        let _ = verdict;
        WindowUpdate {
            cwnd: window.unit,
            ssthresh: self.on_congestion(window, loss).ssthresh,
        }
    }

    /// Returns the window after an idle period of one RTO: by default half, but at least the floor (RFC 9260 §7.2.1).
    fn on_idle(&mut self, window: WindowView) -> WindowUpdate {
        WindowUpdate {
            cwnd: window.halved().min(window.cwnd),
            ssthresh: window.ssthresh,
        }
    }

    /// The timeout was spurious: reverts its effects in the part, as the controller does for its window.
    fn on_spurious_timeout(&mut self) {}

    /// Returns the pacing rate, if the part sets one.
    fn pacing_rate(&self, window: WindowView, srtt: Option<Span>) -> Option<Rate> {
        let _ = (window, srtt);
        None
    }

    /// Returns the optional samples that the part needs.
    fn needs(&self) -> Needs {
        Needs::default()
    }
}

registry! {
    /// A window control by its name and parameters.
    WindowSpec for dyn WindowControl, default Standard;
    Standard(standard::StandardParameters) = "standard", "Slow start, congestion avoidance, halving: the standard.", "RFC 9260 §7.2";
    MaxX(max_x::MaxXParameters) = "max-x", "Marks reduce to max(x, 2 MTU).", "Ye 2004, 4.5, 4.6.5";
    ThreeQuarters(three_quarters::ThreeQuartersParameters) = "three-quarters", "ModReno: a transmission loss reduces the window by a quarter.", "Shishir 2000, III.D";
    Tabe(tabe::TabeParameters) = "tabe", "Congestion sets the window to the estimated bandwidth times the round-trip time.", "Chen et al. 2011, 3.2; Xu, Tian and Ansari 2004, 2005";
    Westwood(westwood::WestwoodParameters) = "westwood", "Westwood+: congestion sets the window to the delivery rate times the shortest round-trip time.", "Grieco and Mascolo 2004";
    Vegas(vegas::VegasParameters) = "vegas", "Keeps two to four packets queued at the bottleneck.", "Brakmo and Peterson 1995";
    Veno(veno::VenoParameters) = "veno", "Grows slowly while packets are queued; a transmission loss reduces the window by a fifth.", "Fu and Liew 2003";
    Cubic(cubic::CubicParameters) = "cubic", "A cubic function of the time since congestion, with HyStart++.", "RFC 9438, RFC 9406";
    Bbr(bbr::BbrParameters) = "bbr", "BBR version 3: a model of the path with bounds set by loss, paced.", "draft-ietf-ccwg-bbr";
    Bbr1(bbr1::Bbr1Parameters) = "bbr1", "BBR version 1: a model of bandwidth and round-trip time, paced, blind to loss.", "draft-cardwell-iccrg-bbr-congestion-control-00";
    Dctcp(dctcp::DctcpParameters) = "dctcp", "Shrinks in proportion to the fraction of marked packets.", "RFC 8257; draft-briscoe-iccrg-prague-congestion-control";
}

impl WindowSpec {
    /// Turns HyStart++ (RFC 9406) on or off, for window controls that have it.
    pub fn set_hystart(&mut self, on: bool) {
        match self {
            WindowSpec::Standard(parameters) => parameters.hystart = on,
            WindowSpec::Cubic(parameters) => parameters.hystart = on,
            _ => {}
        }
    }

    /// Builds the window control of one path.
    pub fn build(&self, context: &BuildContext) -> Window {
        match self {
            WindowSpec::Standard(parameters) => Window::Standard(StandardWindow::new(*parameters)),
            other => Window::Other(other.build_boxed(context)),
        }
    }
}

/// The window control of a path. The standard one needs no dynamic dispatch.
#[derive(Debug)]
pub enum Window {
    /// The rules of the standard.
    Standard(StandardWindow),
    /// Any other window control, also from outside this crate.
    Other(Box<dyn WindowControl>),
}

impl Window {
    #[inline]
    pub(crate) fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        match self {
            Window::Standard(part) => part.on_ack(window, ack),
            Window::Other(part) => part.on_ack(window, ack),
        }
    }

    pub(crate) fn as_part(&mut self) -> &mut dyn WindowControl {
        match self {
            Window::Standard(part) => part,
            Window::Other(part) => part.as_mut(),
        }
    }

    #[inline]
    pub(crate) fn pacing_rate(&self, window: WindowView, srtt: Option<Span>) -> Option<Rate> {
        match self {
            Window::Standard(_) => None,
            Window::Other(part) => part.pacing_rate(window, srtt),
        }
    }

    pub(crate) fn needs(&self) -> Needs {
        match self {
            Window::Standard(_) => Needs::default(),
            Window::Other(part) => part.needs(),
        }
    }
}
