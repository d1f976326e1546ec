//! Biaz: a loss is a transmission loss if the gap in arrivals lasts as long as the lost packets (Biaz and Vaidya 1999).

use super::Discriminate;
use super::history::{History, InterArrival, Passage};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Seq, Verdict};
use crate::view::WindowView;

/// Parameters of Biaz.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct BiazParameters {
    /// u: n lost packets are transmission losses if the gap lasts from n + 1 to n + u of the shortest inter-arrival times, 1 to 10.
    pub upper: f64,
}

impl Default for BiazParameters {
    fn default() -> Self {
        BiazParameters { upper: 2.0 }
    }
}

impl Part<dyn Discriminate> for BiazParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("upper", self.upper, 1.0, 10.0, "inter-arrival times")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Biaz::new(self.upper))
    }
}

/// Returns whether the gap between these arrivals fits the lost packets at the shortest inter-arrival time. Packets
/// that arrived in between without a sample (`reported`) take their time too.
pub(super) fn fits(before: (Seq, u64), lost: Seq, after: (Seq, u64), min: u64, upper: f64) -> bool {
    let (min, n) = (min as f64, (after.0 - lost) as f64);
    let reported = lost.saturating_sub(before.0 + 1) as f64;
    let gap = after.1.saturating_sub(before.1) as f64 - reported * min;
    (n + 1.0) * min <= gap && gap < (n + upper) * min
}

/// Assumes that the wireless hop is the last and the slowest one. After a timeout there is no arrival after the gap, so
/// the verdict is unsure.
#[derive(Clone, Debug)]
pub(super) struct Biaz {
    upper: f64,
    spacing: InterArrival,
    history: History<u64>,
}

impl Biaz {
    pub(super) fn new(upper: f64) -> Self {
        Biaz {
            upper,
            spacing: InterArrival::default(),
            history: History::default(),
        }
    }
}

impl Discriminate for Biaz {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        if let Some(passage) = Passage::of(ack) {
            self.spacing.take(ack.newest, passage.received);
            self.history.note(ack.newest, ack.acked_to, passage.received);
        }
    }

    fn judge(&mut self, _window: WindowView, loss: &LossEvent) -> Verdict {
        match (self.history.around(loss.first_lost), self.spacing.min) {
            ((Some(before), Some(after)), Some(min)) => {
                if fits(before, loss.first_lost, after, min, self.upper) {
                    Verdict::Transmission
                } else {
                    Verdict::Congestion
                }
            }
            _ => Verdict::Unsure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discriminator::testing::{VIEW, arrival, gap, timeout};

    /// A packet arrives every 6 ms; then `lost` packets are lost, and the next one arrives after `ms` milliseconds.
    fn judge(upper: f64, lost: u64, ms: u64) -> Verdict {
        let mut biaz = Biaz::new(upper);
        for seq in 0..10 {
            biaz.on_ack(VIEW, &arrival(seq, seq + 1, 100_000 + 6_000 * seq, 50_000));
        }
        biaz.on_ack(VIEW, &arrival(10 + lost, 10, 100_000 + 6_000 * 9 + 1_000 * ms, 50_000));
        biaz.judge(VIEW, &gap(10))
    }

    #[test]
    fn a_gap_of_the_right_length_is_the_channels() {
        // Cen et al. 2003: one packet lost at T_min = 6 ms: from 12 ms to below 18 ms (Biaz) or 13.5 ms (mBiaz).
        for (ms, biaz, mbiaz) in [
            (12, true, true),
            (13, true, true),
            (14, true, false),
            (18, false, false),
        ] {
            let verdict = |fits| {
                if fits {
                    Verdict::Transmission
                } else {
                    Verdict::Congestion
                }
            };
            assert_eq!(judge(2.0, 1, ms), verdict(biaz), "{ms}");
            assert_eq!(judge(1.25, 1, ms), verdict(mbiaz), "{ms}");
        }
        assert_eq!(judge(1.25, 3, 25), Verdict::Transmission, "24 to 25.5 ms for three");
        assert_eq!(judge(1.25, 3, 26), Verdict::Congestion);
    }

    #[test]
    fn packets_without_a_sample_take_their_time() {
        // Only every second packet is acknowledged: 8 is the last one with a sample, 9 arrived, 10 is lost.
        assert!(fits((8, 48_000), 10, (11, 66_000), 6_000, 1.25));
        assert!(!fits((8, 48_000), 10, (11, 70_000), 6_000, 1.25));
    }

    #[test]
    fn a_timeout_is_unsure() {
        let mut biaz = Biaz::new(2.0);
        biaz.on_ack(VIEW, &arrival(0, 1, 100_000, 50_000));
        biaz.on_ack(VIEW, &arrival(1, 2, 106_000, 50_000));
        assert_eq!(biaz.judge(VIEW, &timeout(2)), Verdict::Unsure);
    }
}
