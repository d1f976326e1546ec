//! Jitter ratio: a growing queue increases the inter-arrival times (Chen et al. 2011, 3.1; Wu and Chen 2004).

use std::collections::VecDeque;

use super::Discriminate;
use crate::estimator::Rounds;
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Seq, Verdict};
use crate::view::WindowView;

/// Parameters of the jitter ratio. The defaults are those of JSCTP.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct JitterParameters {
    /// Weight of a sample in the smoothed ratio (Chen, equation 8), above 0 to 1; 1 judges by the latest sample alone.
    pub alpha: f64,
    /// Samples of zero are ignored: they mean that the length of the queue did not change, not that the queue is short (Chen, 3.1.4).
    pub ignore_zero: bool,
    /// k in bytes, 1 to 1,000,000: a loss is congestion if the ratio reaches k over the window. Absent: one unit of the window (Chen,
    /// 4.1: one MSS).
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub k: Option<u64>,
    /// k follows the window: half of the window's growth in the last round-trip time, from a quarter of a unit to one unit. Chen (section
    /// 5) leaves a dynamic k to future work; k stands for what the sender itself adds to a full queue.
    pub dynamic_k: bool,
    /// m: number of windows of packets over which the ratio is computed (Chen, equation 7), 1 to 16.
    pub windows: u32,
    /// One sample in each round-trip time, as JTCP takes it, instead of one with each acknowledgement.
    pub per_rtt: bool,
}

impl Default for JitterParameters {
    fn default() -> Self {
        JitterParameters {
            alpha: 0.05,
            ignore_zero: true,
            k: None,
            dynamic_k: false,
            windows: 1,
            per_rtt: false,
        }
    }
}

impl JitterParameters {
    /// Returns JTCP's parameters: the unfiltered ratio of one window, once per round-trip time, against one packet over
    /// the window.
    pub fn jtcp() -> Self {
        JitterParameters {
            alpha: 1.0,
            ignore_zero: false,
            per_rtt: true,
            ..JitterParameters::default()
        }
    }
}

impl Part<dyn Discriminate> for JitterParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        if self.alpha <= 0.0 {
            return Err(ParameterError::new(
                "alpha",
                self.alpha,
                "allowed is what is above 0, to 1",
            ));
        }
        in_range("alpha", self.alpha, 0.0, 1.0, "")?;
        in_range("windows", f64::from(self.windows), 1.0, 16.0, "")?;
        match self.k {
            Some(_) if self.dynamic_k => Err(ParameterError::new(
                "dynamic_k",
                true,
                "leave k out: it follows the window",
            )),
            Some(k) => in_range("k", k as f64, 1.0, 1e6, "bytes"),
            None => Ok(()),
        }
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Jitter::new(*self))
    }
}

/// More packets than can be outstanding.
const LIMIT: usize = 1 << 16;

/// Ratios below this count as zero: the two clocks resolve no more than 1/10000 of a round-trip time.
const ZERO: f64 = 1e-4;

#[derive(Clone, Copy, Debug)]
struct Arrival {
    seq: Seq,
    /// Nanoseconds.
    sent: u64,
    /// Nanoseconds of the receiver's clock.
    received: u64,
}

/// Compares the arrival interval with the sending interval of the last window of packets. Without the receiver's
/// timestamps, the arrivals of acknowledgements are used, as in JTCP.
#[derive(Clone, Debug)]
struct Jitter {
    parameters: JitterParameters,
    arrivals: VecDeque<Arrival>,
    smooth: f64,
    rounds: Rounds,
    /// The window at the start of the current round, and its growth in the previous round.
    round_cwnd: u64,
    growth: u64,
}

impl Jitter {
    fn new(parameters: JitterParameters) -> Self {
        Jitter {
            parameters,
            arrivals: VecDeque::new(),
            smooth: 0.0,
            rounds: Rounds::default(),
            round_cwnd: 0,
            growth: 0,
        }
    }

    /// Equation 7: D divided by the time in which the window of packets arrived.
    fn ratio(&mut self, window: WindowView, newest: Arrival) -> Option<f64> {
        let packets = u64::from(self.parameters.windows) * (window.cwnd / window.unit.max(1)).max(1);
        let first = newest.seq.saturating_sub(packets);
        let at = self.arrivals.partition_point(|arrival| arrival.seq <= first);
        let ratio = at.checked_sub(1).and_then(|at| self.arrivals.get(at)).and_then(|old| {
            let apart_received = newest.received.checked_sub(old.received)? as f64;
            let apart_sent = newest.sent.checked_sub(old.sent)? as f64;
            (apart_received > 0.0).then(|| (apart_received - apart_sent) / apart_received)
        });
        // One more window of arrivals is kept, in case the window grows.
        let keep = newest.seq.saturating_sub(2 * packets);
        while self.arrivals.len() > LIMIT || self.arrivals.get(1).is_some_and(|next| next.seq <= keep) {
            self.arrivals.pop_front();
        }
        ratio
    }

    fn k(&self, unit: u64) -> u64 {
        match self.parameters.k {
            Some(k) => k,
            None if self.parameters.dynamic_k => (self.growth / 2).clamp(unit / 4, unit),
            None => unit,
        }
    }

    /// Returns k divided by the window.
    fn threshold(&self, window: WindowView) -> f64 {
        self.k(window.unit) as f64 / window.cwnd.max(1) as f64
    }
}

impl Discriminate for Jitter {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) {
        let round_over = self.rounds.on_ack(ack);
        if round_over {
            self.growth = window.cwnd.saturating_sub(self.round_cwnd);
            self.round_cwnd = window.cwnd;
        }
        let now = ack.now.as_nanos();
        let (sent, received) = match (ack.stamps, ack.rtt) {
            (Some(stamps), _) => (stamps.sent.as_nanos(), stamps.received.as_nanos()),
            (None, Some(rtt)) => (now.saturating_sub(rtt.as_nanos()), now),
            (None, None) => return,
        };
        if self.arrivals.back().is_some_and(|last| last.seq >= ack.newest) {
            return;
        }
        let newest = Arrival {
            seq: ack.newest,
            sent,
            received,
        };
        self.arrivals.push_back(newest);
        let Some(ratio) = self.ratio(window, newest) else {
            return;
        };
        let is_zero = ratio.abs() < ZERO;
        if (is_zero && self.parameters.ignore_zero) || (self.parameters.per_rtt && !round_over) {
            return;
        }
        // Equation 8
        self.smooth += self.parameters.alpha * (ratio - self.smooth);
    }

    fn judge(&mut self, window: WindowView, _loss: &LossEvent) -> Verdict {
        if self.smooth >= self.threshold(window) {
            Verdict::Congestion
        } else {
            Verdict::Transmission
        }
    }

    fn strength(&self, window: WindowView) -> Option<f64> {
        Some(self.smooth / self.threshold(window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discriminator::testing::{UNIT, VIEW, ack_to, gap, timeout};
    use crate::sample::Stamps;
    use crate::{Span, Time};

    const MS: u64 = 1_000_000;

    /// Returns the acknowledgement of packet `seq`, sent and received at these milliseconds. The receiver's clock is
    /// one hour ahead.
    fn stamped(seq: Seq, sent: u64, received: u64) -> AckSample {
        AckSample {
            newest: seq,
            next: seq + 10,
            stamps: Some(Stamps {
                sent: Time::from_nanos(sent * MS),
                received: Time::from_nanos(3_600_000 * MS + received * MS),
            }),
            ..ack_to(seq + 1)
        }
    }

    fn raw() -> Jitter {
        Jitter::new(JitterParameters {
            alpha: 1.0,
            ignore_zero: false,
            ..JitterParameters::default()
        })
    }

    #[test]
    fn equation_7_by_hand() {
        // A window of 10 packets sent in 100 ms arrives in 125 ms: D = 25 ms, ratio 0.2. Chen, equation 7.
        let mut jitter = raw();
        jitter.on_ack(VIEW, &stamped(0, 0, 50));
        jitter.on_ack(VIEW, &stamped(10, 100, 175));
        assert!((jitter.smooth - 0.2).abs() < 1e-12, "{}", jitter.smooth);
        // k/w = 1 MSS / 10 MSS; 0.2 is twice that
        assert!((jitter.strength(VIEW).expect("a ratio") - 2.0).abs() < 1e-9);
        assert_eq!(jitter.judge(VIEW, &gap(11)), Verdict::Congestion);
        assert_eq!(jitter.judge(VIEW, &timeout(11)), Verdict::Congestion);
        let narrow = WindowView { cwnd: 4 * UNIT, ..VIEW };
        assert_eq!(jitter.judge(narrow, &gap(11)), Verdict::Transmission, "k/w = 0.25");
    }

    #[test]
    fn the_ratio_reaches_back_one_window_of_packets() {
        let mut jitter = raw();
        for seq in 0..=30 {
            jitter.on_ack(VIEW, &stamped(seq, seq * 10, 50 + seq * 10));
        }
        assert!(jitter.smooth.abs() < 1e-12, "{}", jitter.smooth);
        // The queueing delay grows by 1 ms with each packet: after ten packets D = 10 ms in 110 ms.
        for step in 1..=10 {
            jitter.on_ack(VIEW, &stamped(30 + step, (30 + step) * 10, 350 + step * 11));
        }
        assert!((jitter.smooth - 10.0 / 110.0).abs() < 1e-12, "{}", jitter.smooth);
        assert!(jitter.arrivals.len() <= 22, "{}", jitter.arrivals.len());
    }

    #[test]
    fn zero_samples_are_ignored_by_the_filter_and_mislead_without_it() {
        // Chen, 3.1.4 and Figure 3: the queue has the same length at the start and at the end of the window.
        let feed = |jitter: &mut Jitter| {
            for seq in 0..=10 {
                jitter.on_ack(VIEW, &stamped(seq, seq * 10, 50 + seq * 10));
            }
            for step in 1..=60 {
                jitter.on_ack(VIEW, &stamped(10 + step, (10 + step) * 10, 150 + step * 13));
            }
            // The last window but the first packet arrives with the rate of sending.
            let end = 150 + 60 * 13;
            for step in 1..=10 {
                jitter.on_ack(VIEW, &stamped(70 + step, (70 + step) * 10, end + step * 10));
            }
        };
        let mut plain = raw();
        feed(&mut plain);
        assert!(plain.smooth.abs() < 1e-12, "{}", plain.smooth);
        assert_eq!(plain.judge(VIEW, &gap(81)), Verdict::Transmission);
        let mut filtered = Jitter::new(JitterParameters::default());
        feed(&mut filtered);
        assert_eq!(filtered.judge(VIEW, &gap(81)), Verdict::Congestion);
        let before = filtered.smooth;
        filtered.on_ack(VIEW, &stamped(81, 810, 150 + 60 * 13 + 110));
        assert!(
            (filtered.smooth - before).abs() < f64::EPSILON,
            "a zero sample changes nothing"
        );
    }

    #[test]
    fn without_stamps_round_trip_times_stand_in() {
        // JTCP: the acknowledgement's arrival and the time at which its packet was sent.
        let plain = |seq: Seq, sent: u64, received: u64| AckSample {
            now: Time::from_nanos(received * MS),
            rtt: Some(Span::from_millis(received - sent)),
            newest: seq,
            ..ack_to(seq + 1)
        };
        let mut jitter = raw();
        jitter.on_ack(VIEW, &plain(0, 0, 50));
        jitter.on_ack(VIEW, &plain(10, 100, 175));
        assert!((jitter.smooth - 0.2).abs() < 1e-12, "{}", jitter.smooth);
    }

    #[test]
    fn packets_sent_again_and_unknown_times_are_passed_over() {
        let mut jitter = raw();
        jitter.on_ack(VIEW, &stamped(20, 200, 250));
        jitter.on_ack(VIEW, &stamped(5, 500, 900));
        jitter.on_ack(VIEW, &ack_to(22));
        assert_eq!(jitter.arrivals.len(), 1);
    }

    #[test]
    fn a_dynamic_k_is_half_of_the_windows_growth() {
        let mut jitter = Jitter::new(JitterParameters {
            dynamic_k: true,
            ..JitterParameters::default()
        });
        let at = |cwnd| WindowView { cwnd, ..VIEW };
        let round = |seq| AckSample {
            newest: seq,
            next: seq + 1,
            ..ack_to(seq + 1)
        };
        jitter.on_ack(at(10 * UNIT), &round(0));
        jitter.on_ack(at(11 * UNIT), &round(1));
        assert_eq!(jitter.k(UNIT), UNIT / 2);
        jitter.on_ack(at(22 * UNIT), &round(2));
        assert_eq!(jitter.k(UNIT), UNIT, "no more than one unit");
        jitter.on_ack(at(22 * UNIT), &round(3));
        assert_eq!(jitter.k(UNIT), UNIT / 4, "no less than a quarter");
    }

    #[test]
    fn parameters_have_ranges() {
        let bad = |change: fn(&mut JitterParameters)| {
            let mut parameters = JitterParameters::default();
            change(&mut parameters);
            parameters.validate().unwrap_err().field
        };
        assert_eq!(JitterParameters::default().validate(), Ok(()));
        assert_eq!(bad(|p| p.alpha = 0.0), "alpha");
        assert_eq!(bad(|p| p.windows = 0), "windows");
        assert_eq!(bad(|p| p.k = Some(0)), "k");
        assert_eq!(
            bad(|p| {
                p.k = Some(1456);
                p.dynamic_k = true;
            }),
            "dynamic_k"
        );
    }
}
