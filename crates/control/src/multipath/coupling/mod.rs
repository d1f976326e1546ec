//! Coupling: what does one path's window have to do with the others'? Where paths share a bottleneck, an association with several of
//! them would otherwise take as many shares.

mod balia;
mod lia;
mod olia;
mod rates;
mod rpv1;
mod rpv2;
mod uncoupled;

use core::fmt;

pub use balia::BaliaParameters;
pub use lia::LiaParameters;
pub use olia::{OliaParameters, Ranking};
pub use rpv1::Rpv1Parameters;
pub use rpv2::Rpv2Parameters;
pub use uncoupled::UncoupledParameters;

use super::PathView;
use crate::part::registry;

/// The questions a coupling answers. The windows that grow as the standard does obey it in their growth (`standard`, `max-x`,
/// `three-quarters`, `tabe`, `westwood`, `veno`, and others while they do), and those that answer congestion as the standard does obey
/// it in that. Windows with rules of their own (BBR, CUBIC in avoidance, ...) do not.
pub trait Couple: fmt::Debug + Send + Sync {
    /// By how much path `path` may grow in congestion avoidance, as a multiple of what it would grow alone. The window shrinks if it is
    /// negative.
    fn growth(&mut self, path: usize, paths: &[PathView]) -> f64;

    /// The same in slow start; by default a path is not held back there.
    fn slow_start_growth(&mut self, path: usize, paths: &[PathView]) -> f64 {
        let _ = (path, paths);
        1.0
    }

    /// So many bytes were delivered on the path.
    fn on_delivered(&mut self, path: usize, bytes: u64) {
        let _ = (path, bytes);
    }

    /// Losses on the path have been noticed, or a mark: the first of a window of data.
    fn on_loss(&mut self, path: usize) {
        let _ = path;
    }

    /// Another path has taken the place of `path`, whose number it has now: what was known of the earlier one is forgotten.
    fn on_replaced(&mut self, path: usize) {
        let _ = path;
    }

    /// The window of path `path` after congestion, in bytes; none: what it would be alone.
    fn reduced(&mut self, path: usize, paths: &[PathView]) -> Option<u64> {
        let _ = (path, paths);
        None
    }
}

registry! {
    /// A coupling by its name and parameters.
    CouplingSpec for dyn Couple, default Uncoupled;
    Uncoupled(uncoupled::UncoupledParameters) = "none", "Each path grows independently: the standard.", "RFC 9260 §7.2";
    Lia(lia::LiaParameters) = "lia", "Linked increases: all paths together grow like one flow on the best.", "RFC 6356";
    Olia(olia::OliaParameters) = "olia", "Opportunistic linked increases: growth moves to better paths.", "Khalili et al. 2013";
    Balia(balia::BaliaParameters) = "balia", "Balanced linked adaptation of growth and reduction.", "Peng et al. 2016";
    Rpv1(rpv1::Rpv1Parameters) = "rpv1", "Resource pooling by slow-start thresholds.", "Dreibholz et al. 2010";
    Rpv2(rpv2::Rpv2Parameters) = "rpv2", "Resource pooling by bandwidths.", "Dreibholz et al. 2011";
}
