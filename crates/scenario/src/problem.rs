//! Problems of a scenario: place, field, given value, allowed values, and a hint.

use std::fmt;
use std::path::{Path, PathBuf};

use whimbrel_sim::config::nearest;

use crate::visible::visible;

/// A problem in a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its place.
    pub origin: Origin,
    /// The field, as a dotted path (`link.wifi.loss.rate`); empty for the file as a whole.
    pub field: String,
    /// The problem, with the given value and the allowed ones.
    pub message: String,
    /// A remedy, if known: the nearest known word, or all known words.
    pub hint: Option<String>,
}

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A place in the scenario file; line and column count from 1.
    File {
        /// The file as the user named it.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// An argument of the command line, as it was given.
    Argument(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line, column } => {
                write!(f, "{}:{line}:{column}", visible(&path.display().to_string()))
            }
            Origin::Argument(argument) => f.write_str(&visible(argument)),
        }
    }
}

impl Problem {
    /// Returns the message without the given value.
    pub(crate) fn allowed(&self) -> &str {
        self.message
            .split_once(" given, ")
            .map_or(self.message.as_str(), |(_, allowed)| allowed)
    }
}

impl fmt::Display for Problem {
    /// `file:line:column: field: message`, and a second line with the hint, indented by two spaces; each as [`visible`] text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", visible(&self.field))?;
        }
        f.write_str(&visible(&self.message))?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {}", visible(hint)),
            None => Ok(()),
        }
    }
}

/// All problems of a scenario, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// The file could not be read.
    #[error("cannot read scenario {}: {reason}", visible(&path.display().to_string()))]
    Unreadable {
        /// The file as the user named it.
        path: PathBuf,
        /// The operating system's error.
        reason: String,
    },
    /// The file was read, but is not a valid scenario.
    #[error("{}", list(.0))]
    Invalid(Vec<Problem>),
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// Converts byte offsets to lines and columns.
#[derive(Clone, Debug)]
pub(crate) struct LineIndex {
    path: PathBuf,
    text: String,
}

impl LineIndex {
    pub(crate) fn new(path: &Path, text: &str) -> Self {
        LineIndex {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the place of the byte at `offset`.
    pub(crate) fn origin(&self, offset: usize) -> Origin {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        Origin::File {
            path: self.path.clone(),
            line: before.iter().filter(|&&b| b == b'\n').count() + 1,
            column: String::from_utf8_lossy(&before[line_start..]).chars().count() + 1,
        }
    }
}

/// Words of other tools and of everyday language, with ours. The first one that is known counts.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("aqm", &["queue"]),
    ("bandwidth", &["rate"]),
    ("bitrate", &["rate"]),
    ("buffer", &["queue", "send_buffer"]),
    ("bw", &["rate"]),
    ("capacity", &["rate"]),
    ("cc", &["scheme", "window"]),
    ("congestion", &["scheme"]),
    ("congestion_control", &["scheme", "window"]),
    ("delay_variation", &["jitter"]),
    ("destination", &["to"]),
    ("drop", &["loss"]),
    ("dst", &["to"]),
    ("fifo", &["drop-tail"]),
    ("fq", &["fq-codel"]),
    ("ge", &["gilbert-elliott"]),
    ("gemodel", &["gilbert-elliott"]),
    ("gilbert", &["gilbert-elliott"]),
    ("iid", &["bernoulli"]),
    ("latency", &["delay"]),
    ("length", &["duration"]),
    ("limit", &["packets"]),
    ("loss_rate", &["loss", "rate"]),
    ("newreno", &["standard"]),
    ("owd", &["delay"]),
    ("packet_loss", &["loss"]),
    ("pdv", &["jitter"]),
    ("per", &["loss", "rate"]),
    ("pfifo", &["drop-tail"]),
    ("plr", &["loss", "rate"]),
    ("probability", &["rate"]),
    ("qdisc", &["queue"]),
    ("qlen", &["packets"]),
    ("queue_length", &["packets", "queue"]),
    ("queue_size", &["packets", "queue"]),
    ("random", &["bernoulli"]),
    ("reno", &["standard"]),
    ("source", &["from"]),
    ("src", &["from"]),
    ("tail-drop", &["drop-tail"]),
    ("tail_drop", &["drop-tail"]),
    ("taildrop", &["drop-tail"]),
    ("throughput", &["rate"]),
    ("time", &["duration"]),
];

/// Returns the hint for an unknown word: the known one with its meaning, or the nearest one, or all of them if none is similar and they are few.
pub fn word_hint<S: AsRef<str>>(given: &str, known: &[S], what: &str) -> Option<String> {
    let is_known = |word: &str| known.iter().any(|one| one.as_ref() == word);
    let lower = given.to_lowercase();
    let meant = SYNONYMS
        .iter()
        .filter(|(other, _)| *other == lower)
        .flat_map(|(_, words)| *words);
    let synonym = meant.copied().find(|word| is_known(word));
    if let Some(word) = synonym.or_else(|| nearest(given, known.iter().map(AsRef::as_ref))) {
        return Some(format!("did you mean `{word}`?"));
    }
    (!known.is_empty() && known.len() <= 40).then(|| {
        let words: Vec<_> = known.iter().map(|word| format!("`{}`", word.as_ref())).collect();
        format!("known {what}: {}", words.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_tools_are_understood() {
        let hint = |given: &str, known: &[&str]| word_hint(given, known, "keys");
        assert_eq!(
            hint("Reno", &["standard", "veno"]).as_deref(),
            Some("did you mean `standard`?")
        );
        assert_eq!(
            hint("cc", &["scheme", "rto_min"]).as_deref(),
            Some("did you mean `scheme`?")
        );
        assert_eq!(
            hint("buffer", &["send_buffer", "mtu"]).as_deref(),
            Some("did you mean `send_buffer`?")
        );
        // Only words that are known here.
        assert_eq!(hint("latency", &["packets"]).as_deref(), Some("known keys: `packets`"));
        assert!(SYNONYMS.is_sorted_by_key(|(other, _)| *other));
    }

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let index = LineIndex::new(Path::new("a.toml"), "ä = 1\nbé = 2\n");
        assert_eq!(index.origin(0).to_string(), "a.toml:1:1");
        assert_eq!(index.origin(7).to_string(), "a.toml:2:1");
        assert_eq!(index.origin(13).to_string(), "a.toml:2:6");
        assert_eq!(index.origin(999).to_string(), "a.toml:3:1");
    }
}
