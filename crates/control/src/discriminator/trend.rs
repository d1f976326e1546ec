//! Trend: rising one-way times indicate a growing queue (Hsiao et al. 2005).

use super::Discriminate;
use super::history::{History, Passage};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Verdict};
use crate::view::WindowView;

/// Parameters of Trend.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct TrendParameters {
    /// Weight of an arrival in the fraction of arrivals whose one-way delay exceeds the previous one, 0 to 1.
    pub gamma: f64,
    /// A loss is congestion if that fraction exceeds this, 0 to 1.
    pub threshold: f64,
}

impl Default for TrendParameters {
    fn default() -> Self {
        TrendParameters {
            gamma: 1.0 / 30.0,
            threshold: 0.4,
        }
    }
}

impl Part<dyn Discriminate> for TrendParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("gamma", self.gamma, 0.0, 1.0, "")?;
        in_range("threshold", self.threshold, 0.0, 1.0, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Trend {
            parameters: *self,
            rising: 0.0,
            last: None,
            history: History::default(),
        })
    }
}

/// Judges by the trend at the first arrival after the gap; at a timeout by the current trend.
#[derive(Clone, Debug)]
struct Trend {
    parameters: TrendParameters,
    rising: f64,
    last: Option<f64>,
    history: History<f64>,
}

impl Discriminate for Trend {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        let Some(passage) = Passage::of(ack) else {
            return;
        };
        if let Some(last) = self.last.replace(passage.one_way) {
            let rose = if passage.one_way > last { 1.0 } else { 0.0 };
            self.rising += self.parameters.gamma * (rose - self.rising);
        }
        self.history.note(ack.newest, ack.acked_to, self.rising);
    }

    fn judge(&mut self, _window: WindowView, loss: &LossEvent) -> Verdict {
        let (_, after) = self.history.around(loss.first_lost);
        if after.map_or(self.rising, |(_, rising)| rising) > self.parameters.threshold {
            Verdict::Congestion
        } else {
            Verdict::Transmission
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discriminator::testing::{VIEW, arrival, gap};

    #[test]
    fn sixteen_rises_in_a_row_are_congestion() {
        // 1 - (29/30)^n exceeds 0.4 from n = 16 on.
        let judge = |rises: u64| {
            let mut trend = Trend {
                parameters: TrendParameters::default(),
                rising: 0.0,
                last: None,
                history: History::default(),
            };
            for seq in 0..=rises {
                trend.on_ack(
                    VIEW,
                    &arrival(seq, seq + 1, 100_000 + 7_000 * seq, 50_000 + 1_000 * seq),
                );
            }
            trend.judge(VIEW, &gap(rises + 1))
        };
        assert_eq!(judge(15), Verdict::Transmission);
        assert_eq!(judge(16), Verdict::Congestion);
    }
}
