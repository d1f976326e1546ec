//! Oracles: they read the true cause of a loss from the simulator's ledger. No real sender can do so; they are the
//! reference for other discriminators.

use std::sync::Arc;

use super::Discriminate;
use crate::part::{BuildContext, Cause, GroundTruth, Part};
use crate::sample::{LossEvent, Verdict};
use crate::view::WindowView;

/// Parameters of the oracle: none.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct OracleParameters {}

impl Part<dyn Discriminate> for OracleParameters {
    fn build(&self, context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Oracle {
            truth: context.truth.clone(),
            recognised: None,
        })
    }
}

#[derive(Clone, Debug)]
pub(super) struct Oracle {
    pub(super) truth: Option<Arc<dyn GroundTruth>>,
    /// The fractions of losses by congestion and by the channel that are recognised; none: all of them.
    pub(super) recognised: Option<(f64, f64)>,
}

impl Discriminate for Oracle {
    fn judge(&mut self, _window: WindowView, loss: &LossEvent) -> Verdict {
        let Some(truth) = &self.truth else {
            return Verdict::Unsure;
        };
        // A packet that is only delayed was not dropped by a queue.
        let cause = truth.cause(loss.label).unwrap_or(Cause::Transmission);
        let recognised = self.recognised.is_none_or(|(a_c, a_w)| {
            truth.chance(match cause {
                Cause::Congestion => a_c,
                Cause::Transmission => a_w,
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
    use crate::discriminator::testing::{VIEW, gap};
    use crate::discriminator::{DiscriminatorSpec, NoisyParameters};

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
        let context = BuildContext { truth };
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
