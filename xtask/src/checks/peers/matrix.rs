//! The matrix of peers as `docs/peers.toml` lists it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::names;
use crate::chore::{Outcome, root};
use crate::files::read;

/// The list of peers, features and tests.
pub(super) const LIST: &str = "docs/peers.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Matrix {
    program: Vec<Program>,
    pub(super) transport: Vec<Named>,
    pub(super) feature: Vec<Named>,
    pub(super) peer: Vec<Peer>,
}

/// A test program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    name: String,
    /// The package that has it.
    package: String,
}

/// A transport or a feature.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    pub(super) id: String,
    pub(super) title: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Peer {
    pub(super) id: String,
    pub(super) name: String,
    /// What it is, and how the tests run it.
    pub(super) about: String,
    /// Cells by transport and feature.
    pub(super) cell: BTreeMap<String, BTreeMap<String, Cell>>,
    #[serde(default)]
    pub(super) defect: Vec<Defect>,
}

/// What a peer gets wrong.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Defect {
    pub(super) what: String,
    /// How it was seen.
    pub(super) evidence: String,
    /// Tests that show it or avoid it.
    #[serde(default)]
    pub(super) tests: Vec<String>,
}

/// A peer's answer to a feature over a transport.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Cell {
    /// These tests show that it works.
    Works(Vec<String>),
    Otherwise(Otherwise),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Otherwise {
    /// The peer does not have the feature, with the reason.
    Absent(String),
    /// No test, with the reason.
    Untested(String),
    /// The peer gets it wrong: what. The defects have the evidence.
    Fails(String),
}

impl Cell {
    pub(super) fn tests(&self) -> &[String] {
        match self {
            Cell::Works(tests) => tests,
            Cell::Otherwise(_) => &[],
        }
    }
}

impl Matrix {
    /// Reads the list, and checks that each cell exists and each named test is in the sources.
    pub(super) fn read() -> Outcome<Self> {
        let matrix: Matrix = toml::from_str(&read(&root().join(LIST))?).map_err(|e| format!("{LIST}: {e}"))?;
        let mut known = BTreeSet::new();
        for program in &matrix.program {
            known.extend(names::of(&program.package, &program.name)?);
        }
        matrix.check(&known)?;
        Ok(matrix)
    }

    /// Checks that each peer has a cell for each feature over each of its transports, and that each named test is known.
    fn check(&self, known: &BTreeSet<String>) -> Outcome {
        for peer in &self.peer {
            for (transport, cells) in &peer.cell {
                let at = format!("{LIST}: {} over {transport}", peer.id);
                if !self.transport.iter().any(|listed| listed.id == *transport) {
                    return Err(format!("{at}: unknown transport"));
                }
                if let Some(missing) = self.feature.iter().find(|feature| !cells.contains_key(&feature.id)) {
                    return Err(format!("{at}: no cell {}", missing.id));
                }
                let is_listed = |id: &String| self.feature.iter().any(|feature| feature.id == *id);
                if let Some(unknown) = cells.keys().find(|id| !is_listed(id)) {
                    return Err(format!("{at}: unknown feature {unknown}"));
                }
                if let Some(empty) = cells
                    .iter()
                    .find(|(_, cell)| matches!(cell, Cell::Works(tests) if tests.is_empty()))
                {
                    return Err(format!("{at}: {} has no test", empty.0));
                }
            }
            if let Some(unknown) = peer.tests().find(|test| !known.contains(*test)) {
                return Err(format!("{LIST}: {}: no test {unknown} in the sources", peer.id));
            }
        }
        Ok(())
    }

    /// Returns the package of a test program.
    pub(super) fn package(&self, program: &str) -> &str {
        let listed = self.program.iter().find(|listed| listed.name == program);
        &listed.expect("every named test is one of a listed program").package
    }
}

impl Peer {
    /// Returns all tests of the peer: those of cells and of defects.
    pub(super) fn tests(&self) -> impl Iterator<Item = &String> {
        let of_cells = self
            .cell
            .values()
            .flat_map(|cells| cells.values())
            .flat_map(Cell::tests);
        of_cells.chain(self.defect.iter().flat_map(|defect| &defect.tests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(cells: &str) -> Matrix {
        let list = format!(
            "program = [{{ name = \"p\", package = \"whimbrel\" }}]\n\
             transport = [{{ id = \"udp\", title = \"UDP\" }}]\n\
             feature = [{{ id = \"a\", title = \"A\" }}, {{ id = \"b\", title = \"B\" }}]\n\
             [[peer]]\nid = \"x\"\nname = \"X\"\nabout = \"A peer.\"\n[peer.cell.udp]\n{cells}"
        );
        toml::from_str(&list).unwrap()
    }

    #[test]
    fn a_cell_is_tests_or_a_reason() {
        let matrix = matrix("a = [\"p::one\"]\nb = { absent = \"it is older\" }");
        assert_eq!(matrix.peer[0].tests().collect::<Vec<_>>(), ["p::one"]);
        assert_eq!(matrix.check(&BTreeSet::from(["p::one".to_owned()])), Ok(()));
    }

    #[test]
    fn a_missing_cell_and_an_unknown_test_are_errors() {
        let known = BTreeSet::from(["p::one".to_owned()]);
        let error = |cells: &str| matrix(cells).check(&known).unwrap_err();
        assert!(error("a = [\"p::one\"]").contains("no cell b"));
        assert!(error("a = [\"p::one\"]\nb = [\"p::two\"]").contains("no test p::two"));
        assert!(error("a = [\"p::one\"]\nb = []").contains("b has no test"));
        assert!(error("a = [\"p::one\"]\nb = [\"p::one\"]\nc = [\"p::one\"]").contains("unknown feature c"));
    }
}
