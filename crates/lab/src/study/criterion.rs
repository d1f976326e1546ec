//! What the check of a claim asks for, in words.

use serde_json::Value;

use super::file::{Check, ClaimEntry, Direction};

impl ClaimEntry {
    /// Returns what its check asks for: `at least 1.3 (direction: 1)`.
    pub(crate) fn criterion(&self) -> String {
        let criterion = self.check.criterion();
        match &self.for_some {
            Some(axis) => format!("at one {axis}, with all values of the other axes: {criterion}"),
            None => criterion,
        }
    }
}

impl Check {
    fn criterion(&self) -> String {
        match self {
            Check::Bounds {
                at_least,
                at_most,
                at_least_partly,
                at_most_partly,
                noise,
                surely,
                ..
            } => {
                let is_part = at_least_partly.is_some() || at_most_partly.is_some();
                let part = direction_only(is_part.then(|| between(*at_least_partly, *at_most_partly)));
                let how = match (noise, surely) {
                    (true, _) => ", or the interval reaches it",
                    (_, true) => ", with the whole interval",
                    _ => "",
                };
                format!("{}{how}{part}", between(*at_least, *at_most))
            }
            Check::Near {
                of,
                value,
                within,
                within_partly,
                ..
            } => {
                let of = match (value, &of.theory) {
                    (Some(value), _) => number(*value),
                    (None, Some(_)) => "theory".to_owned(),
                    (None, None) => "the paper's values".to_owned(),
                };
                let part = direction_only(within_partly.map(|part| format!("± {}", percent(part))));
                format!("{of} ± {}{part}", percent(*within))
            }
            Check::Trend {
                over,
                direction,
                slack,
                ties,
                every_step,
                ..
            } => {
                let mut text = format!("{} with {over}", verb(*direction));
                if *every_step {
                    text += ", at every step";
                }
                if *ties {
                    text += ", or its ends are equal";
                }
                if *slack > 0.0 {
                    text += &format!("; {} back is allowed", percent(*slack));
                }
                text
            }
            Check::Flat { over, within, .. } => format!("changes by at most {} with {over}", percent(*within)),
            Check::Best { over, is, slack, .. } => {
                let tie = if *slack > 0.0 {
                    format!(", or at most {} below", percent(*slack))
                } else {
                    String::new()
                };
                format!("highest at {over} {}{tie}", any_of(is))
            }
            Check::Linear {
                over,
                direction,
                r2,
                r2_partly,
                ..
            } => {
                let part = direction_only(r2_partly.map(number));
                format!(
                    "{} in a line with {over}, R² at least {}{part}",
                    verb(*direction),
                    number(*r2)
                )
            }
        }
    }
}

/// What the verdict "direction only" asks for, in brackets; nothing if a check has no such criterion.
fn direction_only(criterion: Option<String>) -> String {
    criterion.map_or(String::new(), |criterion| format!(" (direction: {criterion})"))
}

/// A value of an axis, or a list of them: `standard or cubic`.
fn any_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let texts = values
                .iter()
                .map(|value| value.as_str().map_or(value.to_string(), str::to_owned));
            texts.collect::<Vec<_>>().join(" or ")
        }
        other => other.to_string(),
    }
}

fn between(least: Option<f64>, most: Option<f64>) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!("{} to {}", number(least), number(most)),
        (Some(least), None) => format!("at least {}", number(least)),
        (None, Some(most)) => format!("at most {}", number(most)),
        (None, None) => String::new(),
    }
}

fn number(value: f64) -> String {
    format!("{value}")
}

fn percent(share: f64) -> String {
    // Twelve digits, so that 0.07 is not 7.000000000000001 %.
    let percent = (share * 1e14).round() / 1e12;
    format!("{percent} %")
}

fn verb(direction: Direction) -> &'static str {
    match direction {
        Direction::Rising => "rises",
        Direction::Falling => "falls",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_says_what_it_asks_for() {
        let of = |text: &str| {
            let check: Check =
                serde_json::from_str(&text.replace("OF", "\"of\": { \"metric\": \"m\" }")).expect("a check");
            check.criterion()
        };
        for (check, words) in [
            (
                r#"{ "kind": "bounds", OF, "at_least": 1.3, "at_least_partly": 1, "surely": true }"#,
                "at least 1.3, with the whole interval (direction: at least 1)",
            ),
            (r#"{ "kind": "bounds", OF, "at_least": 0.5, "at_most": 2 }"#, "0.5 to 2"),
            (
                r#"{ "kind": "bounds", OF, "at_most": 0.9, "noise": true }"#,
                "at most 0.9, or the interval reaches it",
            ),
            (
                r#"{ "kind": "near", OF, "value": 1.5, "within": 0.07, "within_partly": 0.3 }"#,
                "1.5 ± 7 % (direction: ± 30 %)",
            ),
            (r#"{ "kind": "near", OF, "within": 0.1 }"#, "the paper's values ± 10 %"),
            (
                r#"{ "kind": "trend", OF, "over": "n", "direction": "rising", "slack": 0.05, "every_step": true }"#,
                "rises with n, at every step; 5 % back is allowed",
            ),
            (
                r#"{ "kind": "trend", OF, "over": "n", "direction": "falling", "ties": true }"#,
                "falls with n, or its ends are equal",
            ),
            (
                r#"{ "kind": "flat", OF, "over": "n", "within": 0.1 }"#,
                "changes by at most 10 % with n",
            ),
            (
                r#"{ "kind": "best", OF, "over": "scheme", "is": ["a", "b"], "slack": 0.02 }"#,
                "highest at scheme a or b, or at most 2 % below",
            ),
            (
                r#"{ "kind": "linear", OF, "over": "n", "direction": "rising", "r2": 0.9 }"#,
                "rises in a line with n, R² at least 0.9",
            ),
        ] {
            assert_eq!(of(check), words);
        }
    }
}
