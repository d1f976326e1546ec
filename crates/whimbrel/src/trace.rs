//! Records of what the protocol does: packets, TSNs, windows, round-trip times, verdicts, states.

use std::sync::Arc;

use whimbrel_control::Time;
use whimbrel_proto::PathInfo;
pub use whimbrel_proto::{AssocId, LossRule, State, TimerKind, TraceEvent, TraceKinds, TraceRecord};

use crate::shared::Shared;

/// Records of all associations of a stack ([`Stack::trace`](crate::Stack::trace)). It does not keep the stack alive. Recording ends when it
/// is dropped.
pub struct Trace {
    shared: Arc<Shared>,
    taken: Vec<TraceRecord>,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").finish_non_exhaustive()
    }
}

impl Trace {
    pub(crate) fn new(shared: Arc<Shared>, kinds: TraceKinds, limit: usize) -> Self {
        let mut state = shared.lock();
        state.endpoint.set_trace(kinds);
        state.endpoint.limit_trace(limit);
        state.traced_paths = Some(Vec::new());
        drop(state);
        Trace {
            shared,
            taken: Vec::new(),
        }
    }

    /// Calls `f` with each record since the last call, in the order of time. The stack goes on meanwhile.
    pub fn drain(&mut self, mut f: impl FnMut(&TraceRecord)) {
        let mut state = self.shared.lock();
        state.endpoint.drain_trace(&mut |record| self.taken.push(*record));
        drop(state);
        self.taken.iter().for_each(&mut f);
        self.taken.clear();
    }

    /// Returns the paths that associations have got since the last call, with their addresses. A path may come again; its number is used
    /// again for other addresses after it was removed.
    pub fn take_paths(&mut self) -> Vec<(AssocId, PathInfo)> {
        let mut state = self.shared.lock();
        state.traced_paths.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the number of records that were lost, because more than the limit waited.
    pub fn lost(&self) -> u64 {
        self.shared.lock().endpoint.trace_lost()
    }

    /// Returns whether the stack has ended, so that no further records are made.
    pub fn is_over(&self) -> bool {
        self.shared.lock().is_done()
    }

    /// Returns the present time of the records.
    pub fn now(&self) -> Time {
        self.shared.now()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.endpoint.set_trace(TraceKinds::NONE);
        state.traced_paths = None;
        state.endpoint.drain_trace(&mut |_| {});
    }
}
