//! Other TOML files of the project with the same errors as scenarios: typed values whose problems have a line.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::check::steps;
use crate::de::read;
use crate::problem::{LineIndex, Problem, ScenarioError};
use crate::tree::{Node, parse};

/// A TOML file in which every value has its line.
#[derive(Clone, Debug)]
pub struct Document {
    root: Node,
    lines: LineIndex,
}

impl Document {
    /// Parses `text`. `path` is its name.
    ///
    /// # Errors
    /// Returns an error if `text` is not TOML.
    pub fn from_text(path: &Path, text: &str) -> Result<Self, ScenarioError> {
        let lines = LineIndex::new(path, text);
        let root = parse(&lines).map_err(ScenarioError::Invalid)?;
        Ok(Document { root, lines })
    }

    /// Returns the whole file as a `T`.
    ///
    /// # Errors
    /// Returns an error for every value that does not match `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ScenarioError> {
        read(&mut self.root.clone(), &self.lines, &[])
            .whole()
            .map_err(ScenarioError::Invalid)
    }

    /// Returns a problem at the value at `path`, such as `claim[2].check.over`; if there is no value, at the table that would
    /// contain it.
    pub fn problem(&self, path: &str, message: impl Into<String>, hint: Option<String>) -> Problem {
        let trail = steps(path);
        Problem {
            origin: self.root.nearest_place(&trail).origin(&self.lines),
            field: self.root.dotted(&trail),
            message: message.into(),
            hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only its shape is of interest")]
    struct Small {
        size: u32,
    }

    #[test]
    fn problems_name_line_and_field() {
        let document = Document::from_text(Path::new("a.toml"), "# a comment\nsiez = 3\n").expect("TOML");
        let error = document.read::<Small>().expect_err("misspelt").to_string();
        assert_eq!(error, "a.toml:2:1: unknown key `siez`\n  hint: did you mean `size`?");
        let document =
            Document::from_text(Path::new("a.toml"), "size = 3\n[[part]]\nname = \"x\"\nn = 1\n").expect("TOML");
        let problem = document.problem("part[0].n", "2 expected", None);
        assert_eq!(problem.to_string(), "a.toml:4:5: part.x.n: 2 expected");
    }
}
