//! What a series or a single figure of a claim came to.

use super::certainty::{Distance, Seeds};
use crate::stats::{Summary, TAIL};
use crate::study::verdict::Verdict;

/// What a series or a single figure came to.
pub(super) struct PartFinding {
    pub(super) label: String,
    pub(super) verdict: Verdict,
    /// The verdict if its figures were exact: what an undecided part comes to with more seeds, if they stay.
    pub(super) exact: Verdict,
    pub(super) text: String,
    pub(super) figure: Option<Summary>,
    /// How far from the claim, for finding the worst: smaller is worse.
    pub(super) margin: f64,
    /// How far it is from what decides, if that has an interval.
    pub(super) away: Option<Distance>,
    /// What an interval that decides it leaves on each side.
    pub(super) tail: f64,
    /// What two parts share only if they are the same runs and figures.
    pub(super) identity: Option<u64>,
}

impl PartFinding {
    pub(super) fn seeds(&self) -> Option<Seeds> {
        self.away.and_then(|away| away.seeds(self.tail))
    }

    /// The probability that it fails if it lies exactly at its bound. Series allow for their number of comparisons in their verdict.
    pub(super) fn tail_of_failure(&self) -> f64 {
        let sides = self.away.filter(|_| self.figure.is_some());
        TAIL * sides.map_or(1, |away| away.comparisons) as f64
    }

    /// Nothing measured is farthest from any claim.
    pub(super) fn known_margin(&self) -> f64 {
        if self.margin.is_nan() {
            f64::NEG_INFINITY
        } else {
            self.margin
        }
    }
}

/// A part of which there is no figure.
pub(super) fn nothing(label: String) -> PartFinding {
    PartFinding {
        label,
        verdict: Verdict::Not,
        exact: Verdict::Not,
        text: "nothing was measured".to_owned(),
        figure: None,
        margin: f64::NAN,
        away: None,
        tail: TAIL,
        identity: None,
    }
}
