//! Errors in a configuration.

use core::fmt;

/// A value that is not allowed, with its field and the values that are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The field, as in `link[2].loss[0].rate`.
    pub path: String,
    /// The value found, as text.
    pub value: String,
    /// The allowed values, with their unit.
    pub allowed: String,
    /// A likely remedy, if there is one.
    pub hint: Option<String>,
}

impl ConfigError {
    /// Creates an error at `path`.
    pub fn new(path: impl Into<String>, value: impl fmt::Display, allowed: impl Into<String>) -> Self {
        ConfigError {
            path: path.into(),
            value: value.to_string(),
            allowed: allowed.into(),
            hint: None,
        }
    }

    /// Returns the same error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the same error as seen from the parent: `prefix.path`.
    #[must_use]
    pub fn within(mut self, prefix: &str) -> Self {
        self.path = match self.path.as_str() {
            "" => prefix.to_owned(),
            path if path.starts_with('[') => format!("{prefix}{path}"),
            path => format!("{prefix}.{path}"),
        };
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: allowed is {}", self.path, self.value, self.allowed)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Returns an error unless `value` is a probability.
pub(crate) fn probability(path: &str, value: f64) -> Result<(), ConfigError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    let error = ConfigError::new(path, value, "a probability from 0 to 1");
    Err(if value > 1.0 && value <= 100.0 {
        error.hint(format!("{value} % is written {}", value / 100.0))
    } else {
        error
    })
}

/// Returns the name in `known` that is closest to `given`, if one is similar enough.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (distance(&given.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the number of edits (insert, delete, replace) that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replace = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_nearest_name_or_none() {
        assert_eq!(nearest("wfi", ["wifi", "cell"]), Some("wifi"));
        assert_eq!(nearest("Cell", ["wifi", "cell"]), Some("cell"));
        assert_eq!(nearest("satellite", ["wifi", "cell"]), None);
    }

    #[test]
    fn hints_at_the_fraction_for_a_percentage() {
        let error = probability("loss.rate", 5.0).expect_err("5 is no probability");
        assert_eq!(
            error.to_string(),
            "loss.rate = 5: allowed is a probability from 0 to 1 (5 % is written 0.05)"
        );
        assert!(probability("x", f64::NAN).is_err());
        assert!(probability("x", 1.0).is_ok());
    }
}
