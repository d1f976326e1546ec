//! The state of the parts that choose among several paths: distribution and coupling, and the path policy.

use whimbrel_control::multipath::coupling::Couple;
use whimbrel_control::multipath::distribution::Distribute;
use whimbrel_control::multipath::policy::{ManagePaths, PolicyEvent};
use whimbrel_control::multipath::{BufferSplit, PathView};

use crate::PathId;

/// State of the concurrent use of several paths.
#[derive(Debug)]
pub(crate) struct Spread {
    /// `None`: the standard's distribution.
    pub(crate) distribution: Option<Box<dyn Distribute>>,
    /// `None`: the windows of the paths are not coupled.
    pub(crate) coupling: Option<Box<dyn Couple>>,
    pub(crate) buffer_split: BufferSplit,
    /// Every chunk is sent on every path.
    pub(crate) is_redundant: bool,
    /// The next message of the user has paths without a round-trip time measured.
    pub(crate) measures: bool,
    /// Data leaves a path whose acknowledgements stay away (`spread/silence.rs`).
    pub(crate) leaves_silent_paths: bool,
    /// Buffer for the views of the paths; filled again for each call.
    pub(crate) views: Vec<PathView>,
}

impl Spread {
    pub(crate) fn new(
        distribution: Option<Box<dyn Distribute>>,
        coupling: Option<Box<dyn Couple>>,
        buffer_split: BufferSplit,
        paths: usize,
    ) -> Self {
        Spread {
            is_redundant: distribution.as_deref().is_some_and(|part| part.sends_copies()),
            distribution,
            coupling,
            buffer_split,
            measures: false,
            leaves_silent_paths: false,
            views: Vec::with_capacity(paths),
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.views.capacity() * size_of::<PathView>()
    }

    /// A new path has reused this number.
    pub(crate) fn forget_path(&mut self, index: PathId) {
        if let Some(distribution) = &mut self.distribution {
            distribution.on_replaced(index.index());
        }
        if let Some(coupling) = &mut self.coupling {
            coupling.on_replaced(index.index());
        }
    }
}

/// A policy and its inputs.
#[derive(Debug)]
pub(crate) struct PathPolicy {
    pub(crate) policy: Box<dyn ManagePaths>,
    /// Buffer for the views of the paths; filled again for each call.
    pub(crate) views: Vec<PathView>,
    /// Congestion windows of the probes.
    pub(crate) probes: Vec<Option<u64>>,
    /// The information of a SACK by path.
    pub(crate) events: Vec<(PathId, PolicyEvent)>,
}

impl PathPolicy {
    pub(crate) fn new(policy: Box<dyn ManagePaths>, paths: usize) -> Self {
        PathPolicy {
            policy,
            views: Vec::with_capacity(paths),
            probes: Vec::with_capacity(paths),
            events: Vec::with_capacity(paths + 1),
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.views.capacity() * size_of::<PathView>()
            + self.probes.capacity() * size_of::<Option<u64>>()
            + self.events.capacity() * size_of::<(PathId, PolicyEvent)>()
    }

    /// A new path has reused this number.
    pub(crate) fn forget_path(&mut self, index: PathId) {
        self.policy.on_replaced(index.index());
    }
}
