//! DCTCP: the reduction of the window is proportional to the share of marked packets (RFC 8257); with a reference
//! round-trip time, as in TCP Prague.

use super::{StandardWindow, WindowControl, WindowUpdate, WindowView};
use crate::Span;
use crate::epoch::RecoveryEpoch;
use crate::estimator::Rounds;
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, MarkEvent, Verdict};

/// Parameters of DCTCP.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct DctcpParameters {
    /// Weight of a window of data in the fraction of marked packets, 0.001 to 1 (RFC 8257 §4.2: 1/16).
    pub g: f64,
    /// Initial value of the fraction of marked packets, 0 to 1 (RFC 8257 §3.3: 1).
    pub initial_alpha: f64,
    /// Windows of paths with a shorter round-trip time grow as if they had this one, so that flows with longer ones are not starved (TCP
    /// Prague: 25 ms); up to 1 s. 0 s: off.
    pub reference_rtt: Span,
    /// The first slow start ends when round-trip times rise (HyStart++, RFC 9406), instead of with the first loss.
    pub hystart: bool,
}

impl Default for DctcpParameters {
    fn default() -> Self {
        DctcpParameters {
            g: 1.0 / 16.0,
            initial_alpha: 1.0,
            reference_rtt: Span::ZERO,
            hystart: false,
        }
    }
}

impl DctcpParameters {
    /// Returns the parameters of TCP Prague (draft-briscoe-iccrg-prague-congestion-control §2.4): equal growth below 25
    /// ms.
    pub fn prague() -> Self {
        DctcpParameters {
            reference_rtt: Span::from_millis(25),
            ..DctcpParameters::default()
        }
    }
}

impl Part<dyn WindowControl> for DctcpParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("g", self.g, 0.001, 1.0, "")?;
        in_range("initial_alpha", self.initial_alpha, 0.0, 1.0, "")?;
        in_range("reference_rtt", self.reference_rtt.as_secs_f64(), 0.0, 1.0, "s")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(Dctcp::new(*self))
    }
}

/// Requires a report of every marked packet: ECNE without CWR.
#[derive(Clone, Debug)]
struct Dctcp {
    parameters: DctcpParameters,
    alpha: f64,
    rounds: Rounds,
    acked: u64,
    marked: u64,
    reduced: RecoveryEpoch,
    srtt: Option<Span>,
    /// Growth in bytes that the reference round-trip time has deferred so far.
    credit: f64,
    standard: StandardWindow,
}

impl Dctcp {
    fn new(parameters: DctcpParameters) -> Self {
        Dctcp {
            parameters,
            alpha: parameters.initial_alpha,
            rounds: Rounds::default(),
            acked: 0,
            marked: 0,
            reduced: RecoveryEpoch::default(),
            srtt: None,
            credit: 0.0,
            standard: StandardWindow::new(parameters.hystart),
        }
    }

    /// Returns the growth of a path with a shorter round-trip time than the reference: scaled by the square of their
    /// ratio, because the rate is the window divided by the round-trip time.
    fn even(&mut self, growth: u64) -> u64 {
        let reference = self.parameters.reference_rtt;
        match self.srtt {
            Some(srtt) if srtt < reference => {
                let ratio = srtt.as_secs_f64() / reference.as_secs_f64();
                self.credit += growth as f64 * ratio * ratio;
                let whole = self.credit as u64;
                self.credit -= whole as f64;
                whole
            }
            _ => growth,
        }
    }
}

impl WindowControl for Dctcp {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        self.srtt = ack.srtt.or(self.srtt);
        if let Some(acked) = ack.acked_to.checked_sub(1) {
            self.reduced.on_cumulative_ack(acked);
        }
        self.acked = self.acked.saturating_add(u64::from(ack.packets));
        if self.rounds.on_ack(ack) && self.acked > 0 {
            // RFC 8257 §3.3, steps 4 to 8
            let share = (self.marked as f64 / self.acked as f64).min(1.0);
            self.alpha += self.parameters.g * (share - self.alpha);
            self.acked = 0;
            self.marked = 0;
        }
        if window.in_slow_start() {
            return self.standard.on_ack(window, ack);
        }
        let growth = self.standard.growth(window, ack);
        let growth = self.even(growth);
        WindowUpdate {
            cwnd: window.cwnd.saturating_add(growth),
            ssthresh: window.ssthresh,
        }
    }

    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        // RFC 8257 §3.4: the reaction to loss is that of the standard.
        self.reduced.enter(loss.next.saturating_sub(1));
        self.standard.on_congestion(window, loss)
    }

    fn on_mark(&mut self, window: WindowView, mark: &MarkEvent) -> WindowUpdate {
        self.marked = self.marked.saturating_add(u64::from(mark.packets));
        if self.reduced.is_active() || !mark.reduces {
            return window.unchanged();
        }
        // RFC 8257 §3.3, step 9: once per window of data
        self.reduced.enter(mark.next.saturating_sub(1));
        self.standard.restart();
        let reduced = window
            .scaled(1.0 - self.alpha / 2.0)
            .max(2 * window.unit)
            .min(window.cwnd);
        WindowUpdate {
            cwnd: reduced,
            // The next acknowledgement must grow the window as in congestion avoidance.
            ssthresh: reduced.saturating_sub(1),
        }
    }

    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, verdict: Verdict) -> WindowUpdate {
        self.reduced.enter(loss.next.saturating_sub(1));
        self.standard.on_timeout(window, loss, verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::window::testing::{UNIT, gap, view};

    fn mark(seq: u64, next: u64) -> MarkEvent {
        MarkEvent {
            next,
            ..MarkEvent::of(Time::ZERO, seq)
        }
    }

    /// Runs a round of ten packets starting with `from`, of which `marked` are marked; returns the window after it.
    fn round(part: &mut Dctcp, mut window: WindowView, from: u64, marked: u64) -> WindowView {
        for seq in from..from + 10 {
            if seq < from + marked {
                let update = part.on_mark(window, &mark(seq, from + 10));
                (window.cwnd, window.ssthresh) = (update.cwnd, update.ssthresh);
            }
            let ack = AckSample {
                newest: seq,
                acked_to: seq + 1,
                next: from + 10,
                ..AckSample::of(Time::ZERO, UNIT, UNIT)
            };
            let update = part.on_ack(window, &ack);
            (window.cwnd, window.ssthresh) = (update.cwnd, update.ssthresh);
        }
        window
    }

    #[test]
    fn alpha_and_the_reduction_by_hand() {
        // RFC 8257 §3.3: alpha starts at 1 and moves by 1/16 of the difference to the share of marked packets.
        let mut part = Dctcp::new(DctcpParameters::default());
        let at = view(20 * UNIT, 10 * UNIT);
        // The very first acknowledgement ends a round of its own: one packet, unmarked.
        round(&mut part, at, 0, 0);
        let alpha = part.alpha;
        assert!((alpha - 15.0 / 16.0).abs() < 1e-12, "{alpha}");
        let reduced = round(&mut part, at, 10, 2);
        let expected = (20.0 * UNIT as f64 * (1.0 - alpha * 15.0 / 16.0 / 2.0)) as u64;
        // The mark on packet 10 arrives before its acknowledgement ends the old round: alpha is that of the previous
        // round.
        let early = (20.0 * UNIT as f64 * (1.0 - alpha / 2.0)) as u64;
        assert!(
            reduced.cwnd == expected || reduced.cwnd == early,
            "{} {expected} {early}",
            reduced.cwnd
        );
        assert!(!reduced.in_slow_start());
    }

    #[test]
    fn one_reduction_in_a_window_of_data() {
        let mut part = Dctcp::new(DctcpParameters {
            initial_alpha: 0.5,
            ..DctcpParameters::default()
        });
        let at = view(20 * UNIT, 10 * UNIT);
        assert_eq!(part.on_mark(at, &mark(3, 20)).cwnd, 15 * UNIT);
        assert_eq!(part.on_mark(at, &mark(4, 21)).cwnd, 20 * UNIT);
        assert_eq!(part.marked, 2, "but all are counted");
        assert_eq!(part.on_congestion(at, &gap()).cwnd, 10 * UNIT, "loss halves");
    }

    #[test]
    fn without_marks_alpha_decays() {
        let mut part = Dctcp::new(DctcpParameters::default());
        for n in 0..100 {
            round(&mut part, view(20 * UNIT, 10 * UNIT), 10 * n, 0);
        }
        assert!(part.alpha < 0.002, "{}", part.alpha);
        for n in 100..200 {
            round(&mut part, view(20 * UNIT, 10 * UNIT), 10 * n, 10);
        }
        assert!(part.alpha > 0.99, "{}", part.alpha);
    }

    #[test]
    fn short_paths_grow_as_at_the_reference() {
        // At 5 ms instead of 25 ms: 1/25 of the growth in each round-trip time.
        let mut part = Dctcp::new(DctcpParameters::prague());
        part.srtt = Some(Span::from_millis(5));
        let grown: u64 = (0..50).map(|_| part.even(UNIT)).sum();
        assert!(grown.abs_diff(2 * UNIT) <= 1, "{grown}");
        part.srtt = Some(Span::from_millis(30));
        assert_eq!(part.even(UNIT), UNIT);
    }
}
