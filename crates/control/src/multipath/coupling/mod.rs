//! Coupling: how do the windows of the paths depend on each other? Without coupling, an association with several paths
//! through a shared bottleneck takes several shares of it.

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

/// The interface of a coupling. It applies to the growth of windows that grow like the standard (`standard`, `max-x`,
/// `three-quarters`, `tabe`, `westwood`, `veno`, and others while they do), and to the reduction of windows that react
/// to congestion like the standard. It does not apply to windows with their own rules (BBR, CUBIC in congestion
/// avoidance, ...).
pub trait Couple: fmt::Debug + Send + Sync {
    /// Returns the growth of path `path` in congestion avoidance, as a multiple of the uncoupled growth. If it is
    /// negative, the window shrinks.
    fn growth(&mut self, path: usize, paths: &[PathView]) -> f64;

    /// Returns the same factor for slow start; by default growth is not limited there.
    fn slow_start_growth(&mut self, path: usize, paths: &[PathView]) -> f64 {
        let _ = (path, paths);
        1.0
    }

    /// `bytes` bytes were delivered on the path.
    fn on_delivered(&mut self, path: usize, bytes: u64) {
        let _ = (path, bytes);
    }

    /// A loss or a mark was detected on the path, the first one in a window of data.
    fn on_loss(&mut self, path: usize) {
        let _ = path;
    }

    /// A new path has reused the number `path`: discards the state of the earlier path.
    fn on_replaced(&mut self, path: usize) {
        let _ = path;
    }

    /// Returns the window of path `path` after congestion in bytes, or `None` for the uncoupled reaction.
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
