//! The classes of claims.

use serde::Serialize;

/// Whether a claim came out. Of several points or series the share decides for which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Verdict {
    /// Nothing happened that could fail it, or it holds by definition.
    #[serde(rename = "vacuous")]
    Vacuous,
    /// It does not come out.
    #[serde(rename = "not")]
    Not,
    /// The interval includes both that it does and that it does not, and no point clearly fails.
    #[serde(rename = "inconclusive")]
    Inconclusive,
    /// The sign is right, the size is not.
    #[serde(rename = "direction only")]
    Direction,
    /// It comes out for half of the points or more.
    #[serde(rename = "mostly")]
    Mostly,
    /// It comes out for nine points of ten or more.
    #[serde(rename = "reproduced")]
    Reproduced,
}

/// Least share of points for a claim to be reproduced, and for it to be mostly reproduced.
const SHARES: [f64; 2] = [0.9, 0.5];

impl Verdict {
    /// All of them, the best one first.
    pub const ALL: [Verdict; 6] = [
        Verdict::Reproduced,
        Verdict::Mostly,
        Verdict::Direction,
        Verdict::Not,
        Verdict::Inconclusive,
        Verdict::Vacuous,
    ];

    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Mostly => "mostly",
            Verdict::Direction => "direction only",
            Verdict::Not => "not",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Vacuous => "vacuous",
        }
    }

    /// The class of a claim by its points: it comes out for `holds` of them, in direction only for `direction`, clearly does not for `fails`, and is
    /// undecided for `open`. Where a point clearly fails, a claim is decided.
    pub(crate) fn of_points(holds: usize, direction: usize, fails: usize, open: usize) -> Verdict {
        let all = holds + direction + fails + open;
        let share = |count: usize| count as f64 / all as f64;
        if all == 0 {
            Verdict::Vacuous
        } else if share(holds) >= SHARES[0] {
            Verdict::Reproduced
        } else if share(holds) >= SHARES[1] {
            Verdict::Mostly
        } else if share(holds + direction) >= SHARES[1] {
            Verdict::Direction
        } else if fails == 0 {
            Verdict::Inconclusive
        } else {
            Verdict::Not
        }
    }
}
