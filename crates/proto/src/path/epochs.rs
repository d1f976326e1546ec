//! Windows of data for which a reaction to losses has taken place.

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
    /// Whether `reduced` was active when the SACK being processed arrived.
    pub(crate) was_reduced: bool,
    /// The verdict that caused the reduction. Later losses of the episode inherit it, because the discriminator would
    /// see the reduced window.
    pub(crate) verdict: Option<Verdict>,
    /// Number of loss episodes so far. The losses of one window of data are one episode; a timeout is an episode of its
    /// own.
    pub(crate) episode: u32,
}

impl Epochs {
    /// Sets `was_reduced`.
    pub(crate) fn remember_reduced(&mut self) {
        self.was_reduced = self.reduced.is_active();
    }

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
