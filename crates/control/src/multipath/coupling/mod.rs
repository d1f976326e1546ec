//! Coupling: what does one path's window have to do with the others'? Where paths share a bottleneck, an association with several of
//! them would otherwise take as many shares.

mod uncoupled;

use core::fmt;

pub use uncoupled::UncoupledParameters;

use super::PathView;
use crate::part::{BuildContext, registry};

/// The questions a coupling answers. Windows that grow and shrink by rules of their own (BBR, CUBIC, ...) are not asked to obey.
pub trait Couple: fmt::Debug + Send + Sync {
    /// By how much path `path` may grow in congestion avoidance, as a multiple of what it would grow alone: 0 or more.
    fn growth(&mut self, path: usize, paths: &[PathView]) -> f64;

    /// The window of path `path` after congestion, in bytes; none: what it would be alone.
    fn reduced(&mut self, path: usize, paths: &[PathView]) -> Option<u64> {
        let _ = (path, paths);
        None
    }
}

registry! {
    /// A coupling by its name and parameters.
    CouplingSpec for dyn Couple, default Uncoupled;
    Uncoupled(uncoupled::UncoupledParameters) = "none", "Each path by itself: the standard.", "RFC 9260 §7.2";
}

impl CouplingSpec {
    /// The coupling of one association; none for the standard.
    pub fn build(&self, context: &BuildContext) -> Option<Box<dyn Couple>> {
        (!matches!(self, CouplingSpec::Uncoupled(_))).then(|| self.build_boxed(context))
    }
}
