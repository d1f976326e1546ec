//! A figure at a point.

use serde_json::Value;

use crate::stats::{Summary, TAIL, t_quantile};
use crate::text::text;

/// The values of axes at a point.
pub(crate) type At = Vec<(String, Value)>;

/// A figure at a point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    /// The values of the free axes.
    pub(crate) at: At,
    /// A sample for each seed; those of a ratio are the jackknife's.
    pub(crate) samples: Vec<f64>,
    /// Whether no randomness enters: every seed gave the same run.
    pub(crate) deterministic: bool,
    /// What theory predicts, if the selection asks for it.
    pub(crate) theory: Option<f64>,
    /// A hash of the events of all runs behind the figure; none if it is not known. Points with equal ones are the same runs.
    pub(crate) runs: Option<u64>,
    /// Whether the other side of a ratio or difference is the same figure of the same runs.
    pub(crate) equal: bool,
    /// The summary of figures of which the samples were not kept.
    pub(crate) kept: Option<Summary>,
}

/// A difference of two figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) by: f64,
    /// The half-width of its 95 % interval; zero without one.
    pub(crate) noise: f64,
    /// The number of seeds.
    pub(crate) n: usize,
}

impl Change {
    /// The noise where the largest of this number of differences is looked for (Bonferroni).
    pub(crate) fn noise_among(self, comparisons: usize) -> f64 {
        if self.n < 2 || comparisons < 2 {
            return self.noise;
        }
        let quantile = |tail| t_quantile(self.n - 1, tail);
        self.noise * quantile(TAIL / comparisons as f64) / quantile(TAIL)
    }
}

impl Case {
    /// The figure with its interval, or with the word that there is none.
    pub(crate) fn text(&self) -> String {
        crate::report::with_interval(&self.summary(), self.deterministic)
    }

    pub(crate) fn summary(&self) -> Summary {
        self.kept.unwrap_or_else(|| Summary::of(self.samples.iter().copied()))
    }

    /// By how much `other` is more than this, pair by pair of seeds. Without the samples the interval is that of independent figures, which is
    /// wider.
    pub(crate) fn change_to(&self, other: &Case) -> Change {
        let (a, b) = (self.summary(), other.summary());
        let means = b.mean.unwrap_or(f64::NAN) - a.mean.unwrap_or(f64::NAN);
        if self.kept.is_some() || other.kept.is_some() {
            return Change {
                by: means,
                noise: a.ci95.unwrap_or(0.0).hypot(b.ci95.unwrap_or(0.0)),
                n: a.n.min(b.n),
            };
        }
        let pairs = Summary::of(self.samples.iter().zip(&other.samples).map(|(a, b)| b - a));
        Change {
            by: pairs.mean.unwrap_or(means),
            noise: pairs.ci95.unwrap_or(0.0),
            n: pairs.n,
        }
    }

    /// A number that two points share only if they are the same runs and their figures are equal; none if that is not known.
    pub(crate) fn identity(&self) -> Option<u64> {
        let summary = self.summary();
        let bits = [summary.mean, summary.ci95].map(|figure| figure.map_or(0, f64::to_bits));
        self.runs.map(|runs| combined([runs, bits[0], bits[1]]))
    }

    /// Whether the other one is known to be the same runs, with the same figure in each.
    pub(crate) fn is_equal_to(&self, other: &Case) -> bool {
        let bits = |samples: &[f64]| samples.iter().map(|sample| sample.to_bits()).collect::<Vec<_>>();
        self.runs.is_some() && self.runs == other.runs && bits(&self.samples) == bits(&other.samples)
    }

    /// Makes this the figure of these runs and of those of the others.
    pub(crate) fn beside<const N: usize>(&mut self, others: [&Case; N]) {
        self.deterministic &= others.iter().all(|other| other.deterministic);
        let runs = std::iter::once(self.runs).chain(others.map(|other| other.runs));
        self.runs = runs.collect::<Option<Vec<_>>>().map(combined);
    }

    /// The free axes but this one, and its value on this one.
    pub(crate) fn split(&self, axis: &str) -> (At, Option<&Value>) {
        let rest = self.at.iter().filter(|(name, _)| name != axis).cloned().collect();
        let value = self.at.iter().find(|(name, _)| name == axis).map(|(_, value)| value);
        (rest, value)
    }
}

/// A hash of numbers that depends on their order (FNV-1a).
pub(crate) fn combined(numbers: impl IntoIterator<Item = u64>) -> u64 {
    let bytes = numbers.into_iter().flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The point in words: `loss.rate 0.01, scheme jsctp`.
pub(crate) fn label(at: &[(String, Value)]) -> String {
    let parts: Vec<_> = at
        .iter()
        .map(|(name, value)| format!("{name} {}", text(value)))
        .collect();
    parts.join(", ")
}

/// Something in a study that does not fit what is run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StudyProblem {
    /// The field below the check, as in `of.at.rate`.
    pub(crate) field: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl StudyProblem {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>, hint: Option<String>) -> Self {
        StudyProblem {
            field: field.into(),
            message: message.into(),
            hint,
        }
    }

    pub(crate) fn within(mut self, field: &str) -> Self {
        self.field = if self.field.is_empty() {
            field.to_owned()
        } else {
            format!("{field}.{}", self.field)
        };
        self
    }
}

/// Equal as numbers, or equal.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}
