//! Windows of data for which a mark or a loss has reduced cwnd.

use whimbrel_control::{RecoveryEpoch, Seq};

/// Records the windows of data for which a path's cwnd has been reduced. Used only while ECN is in use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reductions {
    /// Reductions by an ECNE chunk.
    pub(crate) by_mark: RecoveryEpoch,
    /// Reductions by any cause.
    pub(crate) by_any: RecoveryEpoch,
    /// Positions of the association below this one were outstanding at the last reduction; 0 before the first.
    pub(crate) below: Seq,
}

impl Reductions {
    /// `on_path`: the highest outstanding position in the path's numbering; `of_all`: in the association's numbering.
    pub(crate) fn enter(&mut self, on_path: Seq, of_all: Seq) {
        self.by_any.enter(on_path);
        self.below = of_all.saturating_add(1);
    }

    /// All data up to and including `acked` is acknowledged.
    pub(crate) fn on_cumulative_ack(&mut self, acked: Seq) {
        self.by_mark.on_cumulative_ack(acked);
        self.by_any.on_cumulative_ack(acked);
    }

    /// Returns whether a mark has reduced the window for data that is still outstanding.
    pub(crate) fn marked(&self) -> bool {
        self.by_mark.is_active()
    }
}
