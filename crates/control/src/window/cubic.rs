//! CUBIC: the window is a cubic function of the time since the last congestion (RFC 9438), with HyStart++ in slow start
//! (RFC 9406).

use super::hystart::{HyStart, SlowStart};
use super::{StandardWindow, WindowControl, WindowUpdate, WindowView};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Verdict};
use crate::{Span, Time};

/// Parameters of CUBIC.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct CubicParameters {
    /// C in packets per second cubed, 0.001 to 10 (RFC 9438 §5.1: 0.4).
    pub c: f64,
    /// Fraction of the window that remains after congestion, 0.1 to 0.95 (RFC 9438 §4.6: 0.7).
    pub beta: f64,
    /// Losing flows make room for newcomers (RFC 9438 §4.7).
    pub fast_convergence: bool,
    /// Slow start ends when round-trip times rise (HyStart++, RFC 9406).
    pub hystart: bool,
}

impl Default for CubicParameters {
    fn default() -> Self {
        CubicParameters {
            c: 0.4,
            beta: 0.7,
            fast_convergence: true,
            hystart: true,
        }
    }
}

impl Part<dyn WindowControl> for CubicParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("c", self.c, 0.001, 10.0, "packets per second cubed")?;
        in_range("beta", self.beta, 0.1, 0.95, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(Cubic::new(*self))
    }
}

/// State since a congestion event. Windows in units, times in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    /// When congestion avoidance began; `None` before its first acknowledgement.
    start: Option<Time>,
    /// The window before the last reduction, lowered by fast convergence.
    w_max: f64,
    /// The window before the last reduction.
    cwnd_prior: f64,
    /// Time from `start` until the function reaches W_max again.
    k: f64,
    /// The window that Reno would have.
    w_est: f64,
    /// The window with fractions of a byte.
    cwnd: f64,
    /// Time of the last acknowledgement. Time in which the application had no data to send does not count (RFC 9438
    /// §5.8).
    last_ack: Time,
}

/// The state of one path; ABBA grows at least as fast.
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    parameters: CubicParameters,
    epoch: Epoch,
    before_timeout: Epoch,
    hystart: HyStart,
    standard: StandardWindow,
}

impl Cubic {
    pub(super) fn new(parameters: CubicParameters) -> Self {
        Cubic {
            parameters,
            epoch: Epoch::default(),
            before_timeout: Epoch::default(),
            hystart: HyStart::default(),
            standard: StandardWindow::default(),
        }
    }

    /// RFC 9438 §4.2, equation 1.
    fn w_cubic(&self, t: f64) -> f64 {
        let past = t - self.epoch.k;
        self.parameters.c * past * past * past + self.epoch.w_max
    }

    fn begin(&mut self, now: Time, cwnd: f64) {
        let epoch = &mut self.epoch;
        epoch.start = Some(now);
        epoch.last_ack = now;
        epoch.cwnd = cwnd;
        epoch.w_est = cwnd;
        if epoch.w_max <= cwnd {
            // RFC 9438 §4.8 and §4.10: after slow start without loss the function starts at its plateau.
            epoch.w_max = cwnd;
            epoch.k = 0.0;
        } else {
            // RFC 9438 §4.2, equation 2
            epoch.k = libm::cbrt((epoch.w_max - cwnd) / self.parameters.c);
        }
    }

    /// Congestion avoidance (RFC 9438 §4.2 to §4.5).
    fn avoid(&mut self, window: WindowView, ack: &AckSample) -> u64 {
        let unit = window.unit.max(1) as f64;
        let cwnd = window.cwnd as f64 / unit;
        if !window.is_used(ack) || ack.in_recovery {
            // RFC 9438 §5.8: neither the window nor the elapsed time grows.
            let idle = ack.now.since(self.epoch.last_ack);
            self.epoch.start = self.epoch.start.map(|start| start + idle);
            self.epoch.last_ack = ack.now;
            return window.cwnd;
        }
        if self.epoch.start.is_none() {
            self.begin(ack.now, cwnd);
        }
        // The window may have been changed elsewhere.
        if (self.epoch.cwnd - cwnd).abs() > 1.0 {
            self.epoch.cwnd = cwnd;
        }
        self.epoch.last_ack = ack.now;
        let start = self.epoch.start.unwrap_or(ack.now);
        let t = ack.now.since(start).as_secs_f64();
        let rtt = ack.srtt.unwrap_or(Span::ZERO).as_secs_f64();
        let acked = ack.acked as f64 / unit;
        // RFC 9438 §4.2: the value of the function one round-trip time from now, at least cwnd and at most 1.5 cwnd.
        let cwnd = self.epoch.cwnd;
        let target = self.w_cubic(t + rtt).clamp(cwnd, 1.5 * cwnd);
        // RFC 9438 §4.3, equation 4: Reno's window with CUBIC's reduction. Above the old window it grows as fast as
        // Reno's.
        let beta = self.parameters.beta;
        let alpha = if self.epoch.w_est >= self.epoch.cwnd_prior {
            1.0
        } else {
            3.0 * (1.0 - beta) / (1.0 + beta)
        };
        self.epoch.w_est += alpha * acked / cwnd;
        let grown = if self.w_cubic(t) < self.epoch.w_est {
            self.epoch.w_est.max(cwnd)
        } else {
            // RFC 9438 §4.4 and §4.5: (target - cwnd) / cwnd for each acknowledged packet
            cwnd + (target - cwnd) / cwnd * acked
        };
        self.epoch.cwnd = grown.min(1.5 * cwnd.max(1.0));
        (self.epoch.cwnd * unit) as u64
    }

    /// Continues an epoch after a pause: its time does not count.
    pub(super) fn resume(&mut self, now: Time) {
        let pause = now.since(self.epoch.last_ack);
        self.epoch.start = self.epoch.start.map(|start| start + pause);
        self.epoch.last_ack = now;
    }

    /// Starts an epoch at its plateau: the window is the right one for now.
    pub(super) fn plateau(&mut self, window: WindowView) {
        let cwnd = window.cwnd as f64 / window.unit.max(1) as f64;
        self.epoch = Epoch {
            w_max: cwnd,
            cwnd_prior: cwnd,
            ..Epoch::default()
        };
    }

    fn reduce(&mut self, window: WindowView) -> u64 {
        let cwnd = window.cwnd as f64 / window.unit.max(1) as f64;
        let beta = self.parameters.beta;
        // RFC 9438 §4.7
        let makes_room = self.parameters.fast_convergence && cwnd < self.epoch.w_max;
        self.epoch = Epoch {
            w_max: if makes_room { cwnd * (1.0 + beta) / 2.0 } else { cwnd },
            cwnd_prior: cwnd,
            ..Epoch::default()
        };
        self.standard.restart();
        self.hystart.finish();
        // RFC 9438 §4.6: at least 2 packets
        window.scaled(beta).max(2 * window.unit)
    }
}

impl WindowControl for Cubic {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        if !window.in_slow_start() {
            return WindowUpdate {
                cwnd: self.avoid(window, ack).max(window.cwnd),
                ssthresh: window.ssthresh,
            };
        }
        self.epoch.start = None;
        let growth = self.standard.growth(window, ack);
        // RFC 9406 §4.2: HyStart++ applies to the first slow start.
        if !self.parameters.hystart || window.ssthresh != u64::MAX {
            return WindowUpdate {
                cwnd: window.cwnd.saturating_add(growth),
                ssthresh: window.ssthresh,
            };
        }
        match self.hystart.on_ack(ack) {
            SlowStart::Full => WindowUpdate {
                cwnd: window.cwnd.saturating_add(growth),
                ssthresh: window.ssthresh,
            },
            SlowStart::Conservative => WindowUpdate {
                cwnd: window.cwnd.saturating_add(self.hystart.slowed(growth)),
                ssthresh: window.ssthresh,
            },
            // In congestion avoidance cwnd exceeds ssthresh.
            SlowStart::Over => WindowUpdate {
                cwnd: window.cwnd,
                ssthresh: window.cwnd.saturating_sub(1),
            },
        }
    }

    fn on_congestion(&mut self, window: WindowView, _loss: &LossEvent) -> WindowUpdate {
        let reduced = self.reduce(window);
        WindowUpdate {
            cwnd: reduced,
            // Congestion avoidance continues at once: with cwnd = ssthresh the standard's test would select slow start.
            ssthresh: reduced.saturating_sub(1),
        }
    }

    fn on_timeout(&mut self, window: WindowView, _loss: &LossEvent, _verdict: Verdict) -> WindowUpdate {
        // RFC 9438 §4.8
        self.before_timeout = self.epoch;
        WindowUpdate {
            ssthresh: self.reduce(window),
            cwnd: window.unit,
        }
    }

    fn on_spurious_timeout(&mut self) {
        // RFC 9438 §4.9.1
        self.epoch = self.before_timeout;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::testing::{UNIT, gap, round, timeout, view};

    fn plain() -> Cubic {
        Cubic::new(CubicParameters {
            hystart: false,
            ..CubicParameters::default()
        })
    }

    fn units(window: &WindowView) -> f64 {
        window.cwnd as f64 / UNIT as f64
    }

    /// Reduces from `from` units and runs rounds of `rtt` for this duration; returns the window at the end.
    fn after(from: u64, rtt: Span, seconds: f64) -> (Cubic, WindowView) {
        let mut cubic = plain();
        let mut window = view(from * UNIT, from * UNIT / 2);
        let update = cubic.on_congestion(window, &gap());
        window.cwnd = update.cwnd;
        window.ssthresh = update.ssthresh;
        let (mut now, mut seq) = (Time::ZERO, 0);
        while now.as_secs_f64() < seconds {
            round(&mut cubic, &mut window, &mut seq, now, rtt);
            now += rtt;
        }
        (cubic, window)
    }

    #[test]
    fn k_by_hand() {
        // RFC 9438 §4.2: from 100 to 70 units: K = cbrt(30 / 0.4) = 4.217 s
        let (cubic, _) = after(100, Span::from_millis(100), 0.1);
        assert!((cubic.epoch.k - 4.217_163).abs() < 1e-3, "{}", cubic.epoch.k);
        assert!((cubic.epoch.w_max - 100.0).abs() < 1e-9);
    }

    #[test]
    fn the_window_is_at_w_max_again_after_k_and_far_above_it_later() {
        // RFC 9438 §4.2: W(K) = W_max; W(K + 4 s) = W_max + 0.4 4^3
        let at = |seconds| units(&after(1000, Span::from_millis(100), seconds).1);
        let k = libm::cbrt(300.0 / 0.4);
        assert!((at(k) - 1000.0).abs() < 2.0, "{}", at(k));
        let above = at(k + 4.0);
        assert!((above - 1025.6).abs() < 6.0, "{above}");
        // Concave before: after half of K only an eighth of the difference remains.
        let half = at(k / 2.0);
        assert!((half - (1000.0 - 300.0 / 8.0)).abs() < 5.0, "{half}");
    }

    #[test]
    fn small_windows_grow_like_reno() {
        // RFC 9438 §4.3: at 20 ms and 10 units W_est is above the cubic function: alpha = 0.529 in each round-trip time
        let (cubic, window) = after(10, Span::from_millis(20), 0.1);
        assert!(
            (cubic.epoch.w_est - (7.0 + 5.0 * 0.529)).abs() < 0.3,
            "{}",
            cubic.epoch.w_est
        );
        assert!((units(&window) - cubic.epoch.w_est).abs() < 0.1);
    }

    #[test]
    fn losing_before_w_max_makes_room() {
        // RFC 9438 §4.7: W_max = 80 (1 + 0.7) / 2
        let mut cubic = plain();
        cubic.on_congestion(view(100 * UNIT, UNIT), &gap());
        cubic.on_congestion(view(80 * UNIT, UNIT), &gap());
        assert!((cubic.epoch.w_max - 68.0).abs() < 1e-9);
        assert!((cubic.epoch.cwnd_prior - 80.0).abs() < 1e-9);
    }

    #[test]
    fn congestion_leaves_seven_tenths_and_a_timeout_one_unit() {
        // RFC 9438 §4.6, §4.8, §4.9
        let mut cubic = plain();
        let update = cubic.on_congestion(view(100 * UNIT, UNIT), &gap());
        assert_eq!(update.cwnd, 70 * UNIT);
        assert!(update.ssthresh < update.cwnd, "avoidance goes on");
        assert_eq!(cubic.on_congestion(view(2 * UNIT, UNIT), &gap()).cwnd, 2 * UNIT);
        let mut cubic = plain();
        cubic.on_congestion(view(100 * UNIT, UNIT), &gap());
        let update = cubic.on_timeout(view(90 * UNIT, UNIT), &timeout(), Verdict::Congestion);
        assert_eq!((update.cwnd, update.ssthresh), (UNIT, 63 * UNIT));
        cubic.on_spurious_timeout();
        assert!((cubic.epoch.w_max - 100.0).abs() < 1e-9);
    }

    #[test]
    fn an_unused_window_does_not_grow_nor_its_clock_run() {
        // RFC 9438 §5.8
        let (mut cubic, window) = after(100, Span::from_millis(100), 1.0);
        let start = cubic.epoch.start.unwrap();
        let last = cubic.epoch.last_ack;
        let pause = Span::from_secs(60);
        let ack = AckSample::of(last + pause, UNIT, UNIT);
        assert_eq!(cubic.on_ack(window, &ack).cwnd, window.cwnd);
        assert_eq!(cubic.epoch.start, Some(start + pause));
    }
}
