//! HyStart++: slow start ends when round-trip times rise. Before its end, a conservative phase may show that the rise
//! was temporary (RFC 9406 §4).

use crate::estimator::Rounds;
use crate::sample::AckSample;
use crate::{Span, Time};

const MIN_RTT_THRESH: Span = Span::from_millis(4);
const MAX_RTT_THRESH: Span = Span::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;
/// The conservative round with whose delivery rate that of the last one is compared. With one acknowledgement for two packets the
/// window, and the rate where no queue limits it, grows by 1.42 in between.
const COMPARED_ROUND: u32 = 2;
const RATE_GROWTH: f64 = 1.2;

/// The phase of slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum SlowStart {
    /// Standard slow start.
    #[default]
    Full,
    /// Conservative slow start: growth at a quarter of the speed.
    Conservative,
    /// Slow start has ended.
    Over,
}

/// State of RFC 9406 §4.2.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    phase: SlowStart,
    rounds: Rounds,
    last_round_min: Span,
    this_round_min: Span,
    samples: u32,
    css_baseline: Span,
    css_rounds: u32,
    /// Remainder of the growth in conservative slow start, before the division.
    owed: u64,
    /// Whether slow start goes on while the delivery rate grows.
    follows_rate: bool,
    round_began: Time,
    acked_in_round: u64,
    /// Bytes per second in the compared round.
    compared_rate: f64,
}

impl Default for HyStart {
    fn default() -> Self {
        HyStart {
            phase: SlowStart::Full,
            rounds: Rounds::default(),
            last_round_min: Span::MAX,
            this_round_min: Span::MAX,
            samples: 0,
            css_baseline: Span::MAX,
            css_rounds: 0,
            owed: 0,
            follows_rate: false,
            round_began: Time::ZERO,
            acked_in_round: 0,
            compared_rate: 0.0,
        }
    }
}

impl HyStart {
    /// A rule of ours is added to those of RFC 9406: if the delivery rate still grows at the end of the conservative phase, no queue limits
    /// it, the rise was jitter, and slow start goes on. A window that grows by one packet per round-trip time afterwards would need
    /// long to recover from an early end.
    pub(super) fn following_the_rate() -> Self {
        HyStart {
            follows_rate: true,
            ..HyStart::default()
        }
    }

    pub(super) fn on_ack(&mut self, ack: &AckSample) -> SlowStart {
        if self.phase == SlowStart::Over {
            return self.phase;
        }
        if self.rounds.on_ack(ack) {
            self.last_round_min = self.this_round_min;
            self.this_round_min = Span::MAX;
            self.samples = 0;
            let rate = self.acked_in_round as f64 / ack.now.since(self.round_began).as_secs_f64();
            self.round_began = ack.now;
            self.acked_in_round = 0;
            if self.phase == SlowStart::Conservative && self.ends_after_round(rate) {
                self.phase = SlowStart::Over;
                return self.phase;
            }
        }
        self.acked_in_round = self.acked_in_round.saturating_add(ack.acked);
        if let Some(rtt) = ack.rtt {
            self.this_round_min = self.this_round_min.min(rtt);
            self.samples += 1;
        }
        if self.samples < N_RTT_SAMPLE || self.this_round_min == Span::MAX {
            return self.phase;
        }
        match self.phase {
            SlowStart::Full if self.last_round_min != Span::MAX => {
                let threshold = (self.last_round_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if self.this_round_min >= self.last_round_min + threshold {
                    self.css_baseline = self.this_round_min;
                    self.css_rounds = 0;
                    self.phase = SlowStart::Conservative;
                }
            }
            // The rise was temporary.
            SlowStart::Conservative if self.this_round_min < self.css_baseline => {
                self.resume();
            }
            _ => {}
        }
        self.phase
    }

    /// Counts a conservative round with this delivery rate in bytes per second. Returns whether slow start ends.
    fn ends_after_round(&mut self, rate: f64) -> bool {
        self.css_rounds += 1;
        if self.css_rounds == COMPARED_ROUND {
            self.compared_rate = rate;
        }
        if self.css_rounds < CSS_ROUNDS {
            return false;
        }
        let is_growing = self.follows_rate && rate >= RATE_GROWTH * self.compared_rate;
        if is_growing {
            self.resume();
        }
        !is_growing
    }

    fn resume(&mut self) {
        self.css_baseline = Span::MAX;
        self.phase = SlowStart::Full;
    }

    /// Returns the growth in conservative slow start.
    pub(super) fn slowed(&mut self, growth: u64) -> u64 {
        let due = growth.saturating_add(self.owed);
        self.owed = due % CSS_GROWTH_DIVISOR;
        due / CSS_GROWTH_DIVISOR
    }

    /// Congestion has ended slow start.
    pub(super) fn finish(&mut self) {
        self.phase = SlowStart::Over;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a round of ten measurements of `micros` microseconds each.
    fn round(hystart: &mut HyStart, seq: &mut u64, micros: u64) -> SlowStart {
        let mut phase = SlowStart::Full;
        let next = *seq + 10;
        for _ in 0..10 {
            phase = hystart.on_ack(&AckSample {
                newest: *seq,
                next,
                rtt: Some(Span::from_micros(micros)),
                ..AckSample::of(Time::ZERO, 1468, 1468)
            });
            *seq += 1;
        }
        phase
    }

    #[test]
    fn the_threshold_is_an_eighth_between_4_and_16_ms() {
        // RFC 9406 §4.2 and §4.3
        for (base, rise) in [(10_000, 4_000), (80_000, 10_000), (400_000, 16_000)] {
            let (mut hystart, mut seq) = (HyStart::default(), 0);
            assert_eq!(round(&mut hystart, &mut seq, base), SlowStart::Full);
            assert_eq!(
                round(&mut hystart, &mut seq, base + rise - 1),
                SlowStart::Full,
                "{base}"
            );
            let (mut hystart, mut seq) = (HyStart::default(), 0);
            round(&mut hystart, &mut seq, base);
            assert_eq!(
                round(&mut hystart, &mut seq, base + rise),
                SlowStart::Conservative,
                "{base}"
            );
        }
    }

    #[test]
    fn five_conservative_rounds_end_slow_start() {
        let (mut hystart, mut seq) = (HyStart::default(), 0);
        round(&mut hystart, &mut seq, 80_000);
        round(&mut hystart, &mut seq, 100_000);
        for rounds in 1..5 {
            assert_eq!(
                round(&mut hystart, &mut seq, 100_000),
                SlowStart::Conservative,
                "{rounds}"
            );
        }
        assert_eq!(round(&mut hystart, &mut seq, 100_000), SlowStart::Over);
    }

    #[test]
    fn slow_start_goes_on_while_the_delivery_rate_grows() {
        // Rates in packets per second of the rounds that end in conservative slow start, from the second one.
        let after = |mut hystart: HyStart, rates: [u64; 5]| {
            let (mut seq, mut now) = (0, Time::ZERO);
            let mut phase = SlowStart::Full;
            for (rtt, rate) in [80, 100, 100, 100, 100, 100, 100]
                .into_iter()
                .zip([[100; 2].as_slice(), &rates].concat())
            {
                let next = seq + 10;
                for _ in 0..10 {
                    phase = hystart.on_ack(&AckSample {
                        newest: seq,
                        next,
                        rtt: Some(Span::from_millis(rtt)),
                        ..AckSample::of(now, 1468, 1468)
                    });
                    seq += 1;
                    now += Span::from_nanos(1_000_000_000 / rate);
                }
            }
            phase
        };
        let growing = [100, 100, 110, 120, 130];
        assert_eq!(after(HyStart::following_the_rate(), growing), SlowStart::Full);
        assert_eq!(after(HyStart::following_the_rate(), [100; 5]), SlowStart::Over);
        assert_eq!(
            after(HyStart::following_the_rate(), [100, 70, 70, 110, 130]),
            SlowStart::Over
        );
        assert_eq!(
            after(HyStart::default(), growing),
            SlowStart::Over,
            "RFC 9406 has no such rule"
        );
    }

    #[test]
    fn a_rise_that_vanishes_resumes_slow_start() {
        let (mut hystart, mut seq) = (HyStart::default(), 0);
        round(&mut hystart, &mut seq, 80_000);
        assert_eq!(round(&mut hystart, &mut seq, 100_000), SlowStart::Conservative);
        assert_eq!(round(&mut hystart, &mut seq, 90_000), SlowStart::Full);
    }

    #[test]
    fn fewer_than_eight_measurements_decide_nothing() {
        let (mut hystart, mut seq) = (HyStart::default(), 0);
        round(&mut hystart, &mut seq, 80_000);
        let next = seq + 10;
        for _ in 0..7 {
            let ack = AckSample {
                newest: seq,
                next,
                rtt: Some(Span::from_secs(1)),
                ..AckSample::of(Time::ZERO, 1468, 1468)
            };
            assert_eq!(hystart.on_ack(&ack), SlowStart::Full);
            seq += 1;
        }
    }

    #[test]
    fn conservative_growth_is_a_quarter() {
        let mut hystart = HyStart::default();
        let grown: u64 = (0..8).map(|_| hystart.slowed(1469)).sum();
        assert_eq!(grown, 8 * 1469 / 4);
    }
}
