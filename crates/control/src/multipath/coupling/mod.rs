//! Coupling: how do the windows of the paths depend on each other? Without coupling, an association with several paths
//! through a shared bottleneck takes several shares of it.

mod couple;
mod rates;

pub use couple::Couple;
pub use olia::Ranking;

use crate::part::registry;

registry! {
    /// A coupling by its name and parameters.
    CouplingSpec for dyn Couple, default Uncoupled;
    Uncoupled(uncoupled::UncoupledParameters) = "none", "Each path grows independently: the standard.", "RFC 9260 §7.2";
    Lia(lia::LiaParameters) = "lia", "Linked increases: all paths together grow like one flow on the best path.", "RFC 6356";
    Olia(olia::OliaParameters) = "olia", "Opportunistic linked increases: growth moves to better paths.", "Khalili et al. 2013";
    Balia(balia::BaliaParameters) = "balia", "Balanced linked adaptation of growth and reduction.", "Peng et al. 2016";
    Rpv1(rpv1::Rpv1Parameters) = "rpv1", "Resource pooling by slow-start thresholds.", "Dreibholz et al. 2010";
    Rpv2(rpv2::Rpv2Parameters) = "rpv2", "Resource pooling by bandwidths.", "Dreibholz et al. 2011";
}
