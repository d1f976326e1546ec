//! Windows of data for which a reaction to losses has taken place: one set for the association (RFC 9260 §7.2.4), or
//! one set for each path with accounting per path (Ye 2004, 6.4).

use whimbrel_control::window::GrowthRule;
use whimbrel_control::{RecoveryEpoch, Seq, Verdict};

use super::super::{Association, Context};
use crate::PathId;

/// Reactions that have taken place for the outstanding window of data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Epochs {
    /// Fast recovery, regardless of the verdict.
    pub(in super::super) recovery: RecoveryEpoch,
    /// The reduction of a window because of congestion indicated by a gap.
    pub(in super::super) reduced: RecoveryEpoch,
    /// Whether `reduced` was active when the SACK being processed arrived.
    pub(in super::super) was_reduced: bool,
    /// The verdict that caused the reduction. Later losses of the episode inherit it, because the discriminator would
    /// see the reduced window.
    verdict: Option<Verdict>,
    /// Number of loss episodes so far. The losses of one window of data are one episode; a timeout is an episode of its
    /// own.
    pub(in super::super) episode: u32,
}

impl Epochs {
    fn note(&mut self) {
        self.was_reduced = self.reduced.is_active();
    }

    /// A timeout occurred. It is an episode of its own, and later losses are judged independently.
    pub(in super::super) fn leave(&mut self) {
        self.recovery.leave();
        self.reduced.leave();
    }

    /// A loss with this verdict has reduced the window, for all data up to `highest`.
    pub(in super::super) fn enter_reduced(&mut self, highest: Seq, verdict: Verdict) {
        self.reduced.enter(highest);
        self.verdict = Some(verdict);
    }

    /// Returns the verdict that a further loss inherits, if a loss has reduced the window for the outstanding window of
    /// data.
    pub(in super::super) fn inherited(&self) -> Option<Verdict> {
        self.verdict.filter(|_| self.reduced.is_active())
    }
}

impl Association {
    /// The first path holds the epochs of the association.
    #[inline]
    fn epochs_index(&self, index: usize) -> usize {
        if self.outstanding.is_per_path() { index } else { 0 }
    }

    /// Returns the windows of data to which losses on the path belong.
    #[inline]
    pub(in super::super) fn epochs(&self, index: usize) -> &Epochs {
        let index = self.epochs_index(index);
        &self.paths[index].epochs
    }

    #[inline]
    pub(in super::super) fn epochs_mut(&mut self, index: usize) -> &mut Epochs {
        let index = self.epochs_index(index);
        &mut self.paths[index].epochs
    }

    /// A SACK has arrived.
    pub(in super::super) fn note_epochs(&mut self) {
        self.paths.iter_mut().for_each(|path| path.epochs.note());
    }

    /// Returns whether a SACK that arrived in fast recovery may let cwnd grow. In ns-2, the SACK that ends the recovery
    /// may.
    pub(in super::super) fn grows_in_recovery(&self, index: usize) -> bool {
        let rules = &self.config.rules;
        if rules.growth_in_recovery || rules.growth != GrowthRule::FullWindow {
            return rules.growth_in_recovery;
        }
        let acked = self.outstanding.acked_to(PathId(index as u8)).checked_sub(1);
        let mut reduced = self.epochs(index).reduced;
        acked.is_some_and(|acked| reduced.on_cumulative_ack(acked))
    }

    /// Ends the windows of data that are completely acknowledged at the new cumulative TSN ack points.
    pub(in super::super) fn end_epochs(&mut self, ctx: &mut Context<'_>) {
        for index in 0..self.paths.len() {
            // The association's epochs end only once.
            if index > 0 && !self.outstanding.is_per_path() && !self.ecn.in_use && !self.config.recovers {
                break;
            }
            let Some(acked) = self.outstanding.acked_to(PathId(index as u8)).checked_sub(1) else {
                continue;
            };
            let epochs = self.epochs_mut(index);
            epochs.recovery.on_cumulative_ack(acked);
            epochs.reduced.on_cumulative_ack(acked);
            if self.ecn.in_use {
                self.paths[index].reductions.on_cumulative_ack(acked);
            }
            if self.config.recovers {
                self.leave_mode(ctx, index, acked);
            }
        }
    }
}
