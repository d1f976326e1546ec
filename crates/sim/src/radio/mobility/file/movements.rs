//! The movements that a file describes, and why it describes none.

use core::fmt;
use std::collections::BTreeMap;

use whimbrel_control::{Span, Time};

use crate::radio::mobility::{Leg, Point};

/// The movements of all nodes in a file.
#[derive(Debug, Default)]
pub struct Movements {
    /// The legs of each node, ordered by time.
    pub(in crate::radio::mobility) nodes: BTreeMap<u32, Vec<Leg>>,
    /// The highest speed, m/s.
    pub(in crate::radio::mobility) top_speed: f64,
}

/// Why a file has no valid movements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovementError {
    /// The line, from 1.
    pub line: usize,
    /// The reason.
    pub what: String,
}

impl fmt::Display for MovementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for MovementError {}

impl Movements {
    /// Returns the number of nodes in the file.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether the file has no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns whether the file has movements of this node.
    pub fn has(&self, node: u32) -> bool {
        self.nodes.contains_key(&node)
    }

    pub(super) fn complete(mut self) -> Self {
        for leg in self.nodes.values().flatten() {
            let speed = libm::sqrt(leg.velocity.distance_squared(Point::default()));
            self.top_speed = self.top_speed.max(speed);
        }
        self
    }
}

/// Why heights are refused.
pub(super) const HEIGHTS: &str =
    "the nodes have different heights, and movements are in a plane: the third coordinate must be the same everywhere";

pub(super) fn fail(line: usize, what: &str) -> MovementError {
    let what = what.to_owned();
    MovementError { line, what }
}

pub(super) fn number(word: &str, line: usize) -> Result<f64, MovementError> {
    match word.parse::<f64>() {
        Ok(number) if number.is_finite() && number.abs() <= 1e9 => Ok(number),
        _ => Err(fail(line, "a number from -1e9 to 1e9 expected")),
    }
}

pub(super) fn time(word: &str, line: usize) -> Result<Time, MovementError> {
    let seconds = number(word, line)?;
    if seconds < 0.0 {
        return Err(fail(line, "a time before 0 s"));
    }
    Ok(Time::ZERO + Span::from_secs_f64(seconds))
}
