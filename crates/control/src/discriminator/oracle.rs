//! Oracles: they read the true cause of a loss from the simulator's ledger. No real sender can do so; they are the
//! reference for other discriminators.

use std::sync::Arc;

use super::Discriminate;
use crate::part::{BuildContext, Cause, GroundTruth, ParameterError, Part, in_range};
use crate::sample::{LossEvent, Verdict};
use crate::window::WindowView;

/// Parameters of the oracle: none.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct OracleParameters {}

/// Parameters of an oracle that errs: it separates a better verdict from a better reaction.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct NoisyParameters {
    /// A_c: the fraction of losses by congestion that it recognises, 0 to 1.
    pub a_c: f64,
    /// A_w: the fraction of losses by the channel that it recognises, 0 to 1.
    pub a_w: f64,
}

impl Default for NoisyParameters {
    fn default() -> Self {
        NoisyParameters { a_c: 0.9, a_w: 0.9 }
    }
}

impl Part<dyn Discriminate> for OracleParameters {
    fn build(&self, context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Oracle {
            truth: context.truth.clone(),
            errs: None,
        })
    }
}

impl Part<dyn Discriminate> for NoisyParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("a_c", self.a_c, 0.0, 1.0, "")?;
        in_range("a_w", self.a_w, 0.0, 1.0, "")
    }

    fn build(&self, context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Oracle {
            truth: context.truth.clone(),
            errs: Some(*self),
        })
    }
}

#[derive(Clone, Debug)]
struct Oracle {
    truth: Option<Arc<dyn GroundTruth>>,
    errs: Option<NoisyParameters>,
}

impl Discriminate for Oracle {
    fn judge(&mut self, _window: WindowView, loss: &LossEvent) -> Verdict {
        let Some(truth) = &self.truth else {
            return Verdict::Unsure;
        };
        // A packet that is only delayed was not dropped by a queue.
        let cause = truth.cause(loss.label).unwrap_or(Cause::Transmission);
        let recognised = self.errs.is_none_or(|errs| {
            truth.chance(match cause {
                Cause::Congestion => errs.a_c,
                Cause::Transmission => errs.a_w,
            })
        });
        if (cause == Cause::Congestion) == recognised {
            Verdict::Congestion
        } else {
            Verdict::Transmission
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discriminator::DiscriminatorSpec;
    use crate::discriminator::testing::{VIEW, gap};

    /// Even labels are congestion losses, odd ones transmission losses, and labels from 100 on are not lost;
    /// probabilities are rounded.
    #[derive(Debug)]
    struct Truth;

    impl GroundTruth for Truth {
        fn cause(&self, label: u32) -> Option<Cause> {
            match label {
                100.. => None,
                _ if label.is_multiple_of(2) => Some(Cause::Congestion),
                _ => Some(Cause::Transmission),
            }
        }

        fn chance(&self, p: f64) -> bool {
            p >= 0.5
        }
    }

    fn verdicts(spec: &DiscriminatorSpec, truth: Option<Arc<dyn GroundTruth>>) -> [Verdict; 3] {
        assert!(spec.asks_for_truth());
        let context = BuildContext {
            unit: 1468,
            floor: 4 * 1468,
            truth,
        };
        let mut part = spec.build_boxed(&context);
        [2, 3, 100].map(|seq| part.judge(VIEW, &gap(seq)))
    }

    #[test]
    fn the_oracle_knows_and_a_noisy_one_errs_at_its_rates() {
        use Verdict::{Congestion, Transmission, Unsure};
        let oracle = DiscriminatorSpec::by_name("oracle").unwrap();
        assert_eq!(
            verdicts(&oracle, Some(Arc::new(Truth))),
            [Congestion, Transmission, Transmission]
        );
        assert_eq!(verdicts(&oracle, None), [Unsure; 3]);
        let noisy = |a_c, a_w| DiscriminatorSpec::Noisy(NoisyParameters { a_c, a_w });
        let judge = |a_c, a_w| verdicts(&noisy(a_c, a_w), Some(Arc::new(Truth)));
        assert_eq!(judge(1.0, 1.0), [Congestion, Transmission, Transmission]);
        assert_eq!(judge(0.0, 1.0), [Transmission, Transmission, Transmission]);
        assert_eq!(judge(1.0, 0.0), [Congestion, Congestion, Congestion]);
        assert_eq!(
            NoisyParameters { a_c: 1.1, a_w: 0.5 }.validate().unwrap_err().field,
            "a_c"
        );
    }
}
