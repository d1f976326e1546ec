//! Window control: how much data may be in flight, given acknowledgements and verdicts?
//!
//! A part returns numbers; the [`Controller`](crate::Controller) owns the window and applies them.

mod control;
mod hystart;
mod partial;
mod saved;

#[cfg(test)]
mod testing;

pub use control::WindowControl;
pub use max_x::Reduction;
pub use standard::StandardWindow;
pub use tabe::{ArrivalClock, PipeRtt};

pub use crate::view::{CouplingLimits, GrowthRule, WindowUpdate, WindowView};

use crate::part::{BuildContext, registry};
use crate::sample::{AckSample, Needs};
use crate::{Rate, Span};

registry! {
    /// A window control by its name and parameters.
    WindowSpec for dyn WindowControl, default Standard;
    Standard(standard::StandardParameters) = "standard", "Slow start, congestion avoidance, halving: the standard.", "RFC 9260 §7.2";
    MaxX(max_x::MaxXParameters) = "max-x", "An ECN mark reduces the window to max(x, 2 MTU).", "Ye 2004, 4.5, 4.6.5";
    ThreeQuarters(three_quarters::ThreeQuartersParameters) = "three-quarters", "ModReno: a transmission loss reduces the window by a quarter.", "Shishir 2000, III.D";
    Tabe(tabe::TabeParameters) = "tabe", "Congestion sets the window to the estimated bandwidth times the round-trip time.", "Chen et al. 2011, 3.2; Xu, Tian and Ansari 2004, 2005";
    Westwood(westwood::WestwoodParameters) = "westwood", "Westwood+: congestion sets the window to the delivery rate times the shortest round-trip time.", "Grieco and Mascolo 2004";
    Vegas(vegas::VegasParameters) = "vegas", "Keeps two to four packets queued at the bottleneck.", "Brakmo and Peterson 1995";
    Veno(veno::VenoParameters) = "veno", "Grows slowly while packets are queued; a transmission loss reduces the window by a fifth.", "Fu and Liew 2003";
    Cubic(cubic::CubicParameters) = "cubic", "The window is a cubic function of the time since the last congestion; with HyStart++.", "RFC 9438, RFC 9406";
    Abba(abba::AbbaParameters) = "abba", "CUBIC with faster growth while the round-trip time is below a line through those at the last congestion and at the least since.", "draft-kazuho-ccwg-abba";
    Drain(drain::DrainParameters) = "drain", "CUBIC that lets the queue drain to learn which flow fills it: its own stays short, beside another one it competes.", "Whimbrel";
    Bbr(bbr::BbrParameters) = "bbr", "BBR version 3: a model of the path with bounds set by loss, paced.", "draft-ietf-ccwg-bbr";
    Bbr1(bbr1::Bbr1Parameters) = "bbr1", "BBR version 1: a model of bandwidth and round-trip time that losses do not change, paced.", "draft-cardwell-iccrg-bbr-congestion-control-00";
    Copa(copa::CopaParameters) = "copa", "Approaches a target rate of 1 / (delta x queueing delay), paced; competes with flows that fill queues.", "Arun and Balakrishnan 2018";
    Dctcp(dctcp::DctcpParameters) = "dctcp", "Shrinks in proportion to the fraction of marked packets.", "RFC 8257; draft-briscoe-iccrg-prague-congestion-control";
}

impl WindowSpec {
    /// Turns HyStart++ (RFC 9406) on or off, for window controls that have it. BBR, Copa and Vegas end slow start by rules of their own.
    pub fn set_hystart(&mut self, on: bool) {
        match self {
            WindowSpec::Standard(parameters) => parameters.hystart = on,
            WindowSpec::ThreeQuarters(parameters) => parameters.hystart = on,
            WindowSpec::Tabe(parameters) => parameters.hystart = on,
            WindowSpec::Westwood(parameters) => parameters.hystart = on,
            WindowSpec::Veno(parameters) => parameters.hystart = on,
            WindowSpec::Cubic(parameters) => parameters.hystart = on,
            WindowSpec::Abba(parameters) => parameters.hystart = on,
            WindowSpec::Drain(parameters) => parameters.hystart = on,
            WindowSpec::Dctcp(parameters) => parameters.hystart = on,
            _ => {}
        }
    }

    /// Builds the window control of one path.
    pub fn build(&self, context: &BuildContext) -> Window {
        match self {
            WindowSpec::Standard(parameters) => Window::Standard(StandardWindow::new(parameters.hystart)),
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

    #[inline]
    pub(crate) fn even_burst(&self) -> u32 {
        match self {
            Window::Standard(_) => 0,
            Window::Other(part) => part.even_burst(),
        }
    }

    pub(crate) fn needs(&self) -> Needs {
        match self {
            Window::Standard(_) => Needs::default(),
            Window::Other(part) => part.needs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{UNIT, round, view};
    use super::*;
    use crate::Time;

    /// Returns ssthresh after ten rounds of a first slow start. The round-trip time is 80 ms, and more if a queue follows that passes
    /// `rate` packets in 5 ms.
    fn ssthresh_after_slow_start(spec: &WindowSpec, rate: u64) -> u64 {
        let mut part = spec.build(&BuildContext::default());
        let mut window = view(10 * UNIT, u64::MAX);
        let (mut seq, mut now) = (0, Time::ZERO);
        for _ in 0..10 {
            let rtt = Span::from_millis((window.cwnd / UNIT * 5 / rate).max(80));
            round(part.as_part(), &mut window, &mut seq, now, rtt);
            now += rtt;
        }
        window.ssthresh
    }

    #[test]
    fn hystart_can_be_turned_on_for_every_window_with_the_slow_start_of_the_standard() {
        for kind in [
            "standard",
            "three-quarters",
            "tabe",
            "westwood",
            "veno",
            "cubic",
            "abba",
            "drain",
            "dctcp",
        ] {
            let mut spec = WindowSpec::by_name(kind).expect(kind);
            spec.set_hystart(false);
            assert_eq!(ssthresh_after_slow_start(&spec, 1), u64::MAX, "{kind}");
            spec.set_hystart(true);
            let ssthresh = ssthresh_after_slow_start(&spec, 1);
            assert!(ssthresh < 200 * UNIT, "{kind}: {ssthresh}");
            assert_eq!(ssthresh_after_slow_start(&spec, 10_000), u64::MAX, "{kind}: no queue");
        }
    }
}
