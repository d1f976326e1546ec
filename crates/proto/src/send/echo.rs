//! What accompanies an acknowledgement.

use whimbrel_control::Stamps;

use crate::PathId;

/// Information that a SACK carries besides acknowledgements, and the path that it concerns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Echo<'a> {
    /// `None` if it does not concern a path.
    pub(crate) path: Option<PathId>,
    pub(crate) stamps: Option<Stamps>,
    /// Whether a router indicated congestion; `None` if ECI is not in use.
    pub(crate) eci: Option<bool>,
    /// Whether a SACK sent later has arrived before.
    pub(crate) overtaken: bool,
    /// The departure times that the SACK returns, if it can be more than one.
    pub(crate) departures: &'a [u64],
}

impl Echo<'_> {
    /// No information.
    pub(crate) const NONE: Echo<'static> = Echo {
        path: None,
        stamps: None,
        eci: None,
        overtaken: false,
        departures: &[],
    };
}
