//! Path policy: is a path fit, and which one should carry data?

mod error_count;

use core::fmt;

pub use error_count::ErrorCountParameters;

use super::PathView;
use crate::part::{BuildContext, registry};
use crate::{Span, Time};

/// Whether a path can be used, as far as the sender can tell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fitness {
    /// In use or ready for use.
    Active,
    /// Data goes elsewhere while another path is active (RFC 7829).
    PotentiallyFailed,
    /// Out of use until something that was sent there is answered.
    Inactive,
}

/// Something that tells about a path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PathSign {
    /// Packets of data were acknowledged for the first time.
    Delivered {
        /// How many.
        packets: u32,
        /// Their bytes.
        bytes: u64,
    },
    /// The retransmission timer went off, or a heartbeat was not answered, for the `consecutive`th time in a row.
    Timeout {
        /// Times in a row, from 1.
        consecutive: u32,
    },
    /// A SACK arrived whose newest acknowledged packet was sent on the path.
    Report {
        /// Gap ack blocks in it.
        gaps: u32,
        /// Duplicate TSNs in it.
        duplicates: u32,
    },
    /// A heartbeat was answered.
    Answered {
        /// Its round-trip time.
        rtt: Span,
    },
}

/// The questions a path policy answers. It has one state for all paths of an association.
pub trait ManagePaths: fmt::Debug + Send + Sync {
    /// Learns from a sign.
    fn on_sign(&mut self, now: Time, path: usize, sign: &PathSign, paths: &[PathView]) {
        let _ = (now, path, sign, paths);
    }

    /// Whether a path is fit; `counted` is the answer of the standard's error counter (RFC 9260 §8.2, RFC 7829).
    fn fitness(&self, path: usize, counted: Fitness) -> Fitness {
        let _ = path;
        counted
    }

    /// The path that should carry new data; `standard` is the standard's answer: the primary one while it is active.
    fn sending(&mut self, now: Time, standard: usize, paths: &[PathView]) -> usize {
        let _ = (now, paths);
        standard
    }

    /// When it wants to be asked again without a sign.
    fn next_timer(&self) -> Time {
        Time::MAX
    }
}

registry! {
    /// A path policy by its name and parameters.
    PathPolicySpec for dyn ManagePaths, default ErrorCount;
    ErrorCount(error_count::ErrorCountParameters) = "error-count", "A path fails after so many timeouts in a row: the standard.", "RFC 9260 §8.2";
}

impl PathPolicySpec {
    /// The path policy of one association; none for the standard, which the transport keeps itself.
    pub fn build(&self, context: &BuildContext) -> Option<Box<dyn ManagePaths>> {
        (!matches!(self, PathPolicySpec::ErrorCount(_))).then(|| self.build_boxed(context))
    }
}
