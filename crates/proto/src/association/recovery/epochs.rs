//! Windows of data for which a reaction to losses has taken place: one set for the association (RFC 9260 §7.2.4), or
//! one set for each path with accounting per path (Ye 2004, 6.4).

use whimbrel_control::window::GrowthRule;

use super::super::{Association, Context};
use crate::PathId;
use crate::path::Epochs;

impl Association {
    /// The first path holds the epochs of the association.
    #[inline]
    fn epochs_index(&self, index: PathId) -> PathId {
        if self.sender.outstanding.is_per_path() {
            index
        } else {
            PathId(0)
        }
    }

    /// Returns the windows of data to which losses on the path belong.
    #[inline]
    pub(in super::super) fn epochs(&self, index: PathId) -> &Epochs {
        let index = self.epochs_index(index);
        &self.paths[index].epochs
    }

    #[inline]
    pub(in super::super) fn epochs_mut(&mut self, index: PathId) -> &mut Epochs {
        let index = self.epochs_index(index);
        &mut self.paths[index].epochs
    }

    /// Records for each path whether the window has been reduced, before a SACK is processed: `check_tail_probe` may change that before
    /// the window grows.
    pub(in super::super) fn remember_reduced(&mut self) {
        self.paths.iter_mut().for_each(|path| path.epochs.remember_reduced());
    }

    /// Returns whether a SACK that arrived in fast recovery may let cwnd grow. In ns-2, the SACK that ends the recovery
    /// may.
    pub(in super::super) fn grows_in_recovery(&self, index: PathId) -> bool {
        let rules = &self.config.rules;
        if rules.growth_in_recovery || rules.growth != GrowthRule::FullWindow {
            return rules.growth_in_recovery;
        }
        let acked = self.sender.outstanding.acked_to(index).checked_sub(1);
        let mut reduced = self.epochs(index).reduced;
        acked.is_some_and(|acked| reduced.on_cumulative_ack(acked))
    }

    /// Ends the windows of data that are completely acknowledged at the new cumulative TSN ack points.
    pub(in super::super) fn end_epochs(&mut self, ctx: &mut Context<'_>) {
        for index in self.paths.ids() {
            // The association's epochs end only once.
            if index > PathId(0)
                && !self.sender.outstanding.is_per_path()
                && !self.agreed.ecn.in_use
                && !self.config.recovers
            {
                break;
            }
            let Some(acked) = self.sender.outstanding.acked_to(index).checked_sub(1) else {
                continue;
            };
            let epochs = self.epochs_mut(index);
            epochs.recovery.on_cumulative_ack(acked);
            epochs.reduced.on_cumulative_ack(acked);
            if self.agreed.ecn.in_use {
                self.paths[index].reductions.on_cumulative_ack(acked);
            }
            if self.config.recovers {
                self.leave_mode(ctx, index, acked);
            }
        }
    }
}
