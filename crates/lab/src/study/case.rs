//! A figure at a point.

use serde_json::Value;

use crate::stats::Summary;
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
}

impl Case {
    /// The figure with its interval, or with the word that there is none.
    pub(crate) fn text(&self) -> String {
        crate::report::with_interval(&self.summary(), self.deterministic)
    }

    pub(crate) fn summary(&self) -> Summary {
        Summary::of(self.samples.iter().copied())
    }

    /// The free axes but this one, and its value on this one.
    pub(crate) fn split(&self, axis: &str) -> (At, Option<&Value>) {
        let rest = self.at.iter().filter(|(name, _)| name != axis).cloned().collect();
        let value = self.at.iter().find(|(name, _)| name == axis).map(|(_, value)| value);
        (rest, value)
    }
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
pub(crate) struct Trouble {
    /// The field below the check, as in `of.at.rate`.
    pub(crate) field: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Trouble {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>, hint: Option<String>) -> Self {
        Trouble {
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
