//! ZigZag: the limit of the one-way time depends on the number of lost packets (Cen, Cosman and Voelker 2003).

use super::Discriminate;
use super::history::{History, Passage};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Verdict};
use crate::view::WindowView;

/// Parameters of ZigZag.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct ZigZagParameters {
    /// Weight of a one-way delay in its mean, 0 to 0.5; the deviation uses twice this weight.
    pub alpha: f64,
}

impl Default for ZigZagParameters {
    fn default() -> Self {
        ZigZagParameters { alpha: 1.0 / 32.0 }
    }
}

impl Part<dyn Discriminate> for ZigZagParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("alpha", self.alpha, 0.0, 0.5, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(ZigZag {
            state: ZigZagState::new(*self),
            history: History::default(),
        })
    }
}

/// Mean and deviation of the one-way time.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZigZagState {
    alpha: f64,
    mean: Option<f64>,
    deviation: f64,
}

/// A one-way time, with the mean and the deviation at that time.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZigZagNote {
    one_way: f64,
    mean: f64,
    deviation: f64,
}

impl ZigZagState {
    pub(super) fn new(parameters: ZigZagParameters) -> Self {
        ZigZagState {
            alpha: parameters.alpha,
            mean: None,
            deviation: 0.0,
        }
    }

    pub(super) fn take(&mut self, one_way: f64) -> ZigZagNote {
        let old = self.mean.unwrap_or(one_way);
        let mean = old + self.alpha * (one_way - old);
        let off = (one_way - mean).abs();
        self.deviation += 2.0 * self.alpha * (off - self.deviation);
        self.mean = Some(mean);
        ZigZagNote {
            one_way,
            mean,
            deviation: self.deviation,
        }
    }
}

impl ZigZagNote {
    /// Returns whether `lost` packets missing before this one are transmission losses.
    pub(super) fn says_transmission(&self, lost: u64) -> bool {
        let limit = match lost {
            0 | 1 => self.mean - self.deviation,
            2 => self.mean - self.deviation / 2.0,
            3 => self.mean,
            _ => self.mean + self.deviation / 2.0,
        };
        self.one_way < limit
    }
}

/// Judges by the first packet that arrived after the gap. After a timeout there is none, so the verdict is unsure.
#[derive(Clone, Debug)]
struct ZigZag {
    state: ZigZagState,
    history: History<ZigZagNote>,
}

impl Discriminate for ZigZag {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        if let Some(passage) = Passage::of(ack) {
            let note = self.state.take(passage.one_way);
            self.history.note(ack.newest, ack.acked_to, note);
        }
    }

    fn judge(&mut self, _window: WindowView, loss: &LossEvent) -> Verdict {
        match self.history.around(loss.first_lost) {
            (_, Some((seq, note))) if note.says_transmission(seq - loss.first_lost) => Verdict::Transmission,
            (_, Some(_)) => Verdict::Congestion,
            (_, None) => Verdict::Unsure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discriminator::testing::{VIEW, arrival, gap, timeout};

    #[test]
    fn mean_and_deviation_by_hand() {
        // alpha = 1/32: after 10 and 42, mean = 11; deviation = 2/32 of 31.
        let mut state = ZigZagState::new(ZigZagParameters::default());
        state.take(10.0);
        let note = state.take(42.0);
        assert!((note.mean - 11.0).abs() < 1e-12);
        assert!((note.deviation - 31.0 / 16.0).abs() < 1e-12);
    }

    #[test]
    fn the_four_limits() {
        // Cen et al. 2003, with mean 20 and deviation 4: 16, 18, 20, 22.
        let says = |one_way, lost| {
            ZigZagNote {
                one_way,
                mean: 20.0,
                deviation: 4.0,
            }
            .says_transmission(lost)
        };
        for (lost, limit) in [(1, 16.0), (2, 18.0), (3, 20.0), (4, 22.0), (9, 22.0)] {
            assert!(says(limit - 0.1, lost), "{lost}");
            assert!(!says(limit, lost), "{lost}");
        }
    }

    #[test]
    fn the_length_of_the_gap_counts() {
        let mut zigzag = ZigZag {
            state: ZigZagState::new(ZigZagParameters::default()),
            history: History::default(),
        };
        for seq in 0..100 {
            zigzag.on_ack(
                VIEW,
                &arrival(seq, seq + 1, 20_000 * (seq + 1), 12_000 + 4_000 * (seq % 3)),
            );
        }
        // Mean about 16 ms, deviation about 2.7 ms: 15 ms is a transmission loss if two packets are lost, but not if
        // one is.
        zigzag.on_ack(VIEW, &arrival(103, 100, 3_000_000, 15_500));
        assert_eq!(zigzag.judge(VIEW, &gap(100)), Verdict::Transmission, "three lost");
        assert_eq!(zigzag.judge(VIEW, &gap(102)), Verdict::Congestion, "one lost");
        assert_eq!(zigzag.judge(VIEW, &timeout(104)), Verdict::Unsure);
    }
}
