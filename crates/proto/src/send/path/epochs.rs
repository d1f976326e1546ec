//! Windows of data for which a reaction to losses or marks has taken place.

use whimbrel_control::{RecoveryEpoch, Seq, Verdict};

/// Reactions that have taken place for the outstanding window of data.
///
/// If every loss is judged congestion, as in the scheme `standard`, `recovery` and `reduced` begin and end together. They differ after a
/// loss judged a transmission loss, and after a tail loss probe.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Epochs {
    /// Fast recovery, regardless of the verdict.
    pub(crate) recovery: RecoveryEpoch,
    /// The reduction of a window because of congestion indicated by a gap.
    pub(crate) reduced: RecoveryEpoch,
    /// The verdict that caused the reduction. Later losses of the episode inherit it, because the discriminator would
    /// see the reduced window.
    pub(crate) verdict: Option<Verdict>,
    /// Number of loss episodes so far. The losses of one window of data are one episode; a timeout is an episode of its
    /// own.
    pub(crate) episode: u32,
}

impl Epochs {
    /// A timeout occurred. It is an episode of its own, and later losses are judged independently.
    pub(crate) fn leave(&mut self) {
        self.recovery.leave();
        self.reduced.leave();
    }

    /// A loss with this verdict has reduced the window, for all data up to `highest`.
    pub(crate) fn enter_reduced(&mut self, highest: Seq, verdict: Verdict) {
        self.reduced.enter(highest);
        self.verdict = Some(verdict);
    }

    /// Returns the verdict that a further loss inherits, if a loss has reduced the window for the outstanding window of
    /// data.
    pub(crate) fn inherited(&self) -> Option<Verdict> {
        self.verdict.filter(|_| self.reduced.is_active())
    }
}

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
