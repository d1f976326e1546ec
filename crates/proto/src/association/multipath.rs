//! The state of the parts that choose among several paths: distribution and coupling, and the path policy.

use whimbrel_control::multipath::coupling::Couple;
use whimbrel_control::multipath::distribution::Distribute;
use whimbrel_control::multipath::policy::{ManagePaths, PolicyEvent};
use whimbrel_control::multipath::{BufferSplit, PathView};

use crate::PathId;

/// State of the concurrent use of several paths.
#[derive(Debug)]
pub(super) struct Spread {
    /// `None`: the standard's distribution.
    pub(super) distribution: Option<Box<dyn Distribute>>,
    /// `None`: the windows of the paths are not coupled.
    pub(super) coupling: Option<Box<dyn Couple>>,
    pub(super) buffer_split: BufferSplit,
    /// Every chunk is sent on every path.
    pub(super) is_redundant: bool,
    /// Buffer for the views of the paths; filled again for each call.
    pub(super) views: Vec<PathView>,
}

impl Spread {
    pub(super) fn new(
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
            views: Vec::with_capacity(paths),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.views.capacity() * size_of::<PathView>()
    }

    /// A new path has reused this number.
    pub(super) fn forget_path(&mut self, index: PathId) {
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
pub(super) struct PathPolicy {
    pub(super) policy: Box<dyn ManagePaths>,
    /// Buffer for the views of the paths; filled again for each call.
    pub(super) views: Vec<PathView>,
    /// Congestion windows of the probes.
    pub(super) probes: Vec<Option<u64>>,
    /// The information of a SACK by path.
    pub(super) events: Vec<(PathId, PolicyEvent)>,
}

impl PathPolicy {
    pub(super) fn new(policy: Box<dyn ManagePaths>, paths: usize) -> Self {
        PathPolicy {
            policy,
            views: Vec::with_capacity(paths),
            probes: Vec::with_capacity(paths),
            events: Vec::with_capacity(paths + 1),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.views.capacity() * size_of::<PathView>()
            + self.probes.capacity() * size_of::<Option<u64>>()
            + self.events.capacity() * size_of::<(PathId, PolicyEvent)>()
    }

    /// A new path has reused this number.
    pub(super) fn forget_path(&mut self, index: PathId) {
        self.policy.on_replaced(index.index());
    }
}
