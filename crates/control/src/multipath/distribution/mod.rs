//! Distribution: which path takes the next packet of new data?

mod primary;

use core::fmt;

pub use primary::PrimaryParameters;

use super::PathView;
use crate::Time;
use crate::part::{BuildContext, registry};

/// What is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// The time now.
    pub now: Time,
    /// Bytes of messages that wait.
    pub queued: u64,
    /// Bytes in flight on all paths.
    pub in_flight: u64,
    /// Bytes that the peer's receive window still has room for.
    pub window: u64,
    /// The path that carries new data by the path policy: the primary one while it is fit.
    pub sending: usize,
}

/// The question a distribution answers.
pub trait Distribute: fmt::Debug + Send + Sync {
    /// The path that takes the next packet of new data, among those that are [open](PathView::open); none: it is better to wait.
    /// Asked again for each packet; what was answered need not be remembered.
    fn choose(&mut self, demand: &Demand, paths: &[PathView]) -> Option<usize>;
}

registry! {
    /// A distribution by its name and parameters.
    DistributionSpec for dyn Distribute, default Primary;
    Primary(primary::PrimaryParameters) = "primary", "The primary path takes all new data: the standard.", "RFC 9260 §6.4";
}

impl DistributionSpec {
    /// The distribution of one association; none for the standard one, which needs neither views nor a call.
    pub fn build(&self, context: &BuildContext) -> Option<Box<dyn Distribute>> {
        (!matches!(self, DistributionSpec::Primary(_))).then(|| self.build_boxed(context))
    }
}
