//! Reading any file ends with a scenario or with problems that have a place.

use std::path::Path;

use proptest::prelude::*;
use whimbrel_scenario::{Origin, Scenario, ScenarioError, hash};

const SCENARIO: &str = include_str!("../../../../examples/two-radios.toml");

/// Fragments with a meaning in TOML or in scenarios.
const PIECES: [&str; 24] = [
    "\"",
    "[",
    "]",
    "{",
    "}",
    "=",
    "\n",
    "[[node]]",
    "[[link]]",
    "[[flow]]",
    "name",
    "\"wifi\"",
    "0",
    "-1",
    "1e400",
    "nan",
    "\"10 ms\"",
    "true",
    "[sweep]\n",
    "\"link.wifi.rate\" = []",
    "seeds = 99999999999",
    "\u{0}",
    "ä",
    "loss",
];

fn must_end_well(text: &str, changes: &[String]) {
    match Scenario::from_text(Path::new("hostile.toml"), text, changes) {
        Ok(scenario) => {
            assert!(!scenario.points.is_empty());
            assert_eq!(hash(&scenario).len(), 64);
        }
        Err(ScenarioError::Invalid(problems)) => {
            assert!(!problems.is_empty());
            let lines = text.split('\n').count();
            for problem in &problems {
                assert!(!problem.message.is_empty());
                if let Origin::File { line, column, .. } = problem.origin {
                    assert!((1..=lines).contains(&line) && column >= 1, "{problem}");
                }
            }
        }
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn changed_scenarios(edits in prop::collection::vec((any::<prop::sample::Index>(), 0..40_usize, 0..PIECES.len()), 1..5)) {
        let mut text: Vec<char> = SCENARIO.chars().collect();
        for (at, gone, piece) in edits {
            let from = at.index(text.len());
            let to = (from + gone).min(text.len());
            text.splice(from..to, PIECES[piece].chars());
        }
        must_end_well(&text.into_iter().collect::<String>(), &[]);
    }

    #[test]
    fn any_change_by_argument(path in "[a-z0-9_.\"]{0,20}", value in "\\PC{0,12}", known in 0..4_usize) {
        let prefix = ["", "link.wifi.", "flow.upload.sctp.", "link.lte.loss."][known];
        must_end_well(SCENARIO, &[format!("{prefix}{path}={value}")]);
    }

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        must_end_well(&text, &[]);
    }
}
