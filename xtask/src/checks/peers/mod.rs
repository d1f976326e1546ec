//! `cargo xtask peers`: the tests with other stacks, as a matrix of peer, transport and feature.
//!
//! `docs/peers.toml` names the tests of each cell, or says why there is none. This module makes the page `docs/peers.md` of it, and runs the
//! tests.

mod matrix;
mod names;
mod page;
mod run;

use crate::chore::Outcome;
use crate::generated::Generated;
use matrix::Matrix;
pub(crate) use run::{Args, run};

/// Generates the page.
pub(crate) fn pages(generated: &mut Generated) -> Outcome {
    generated.update("docs/peers.md", page::render(&Matrix::read()?))
}
