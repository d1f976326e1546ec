//! Windows of data in which something has been done about losses: one of each for the association (RFC 9260 §7.2.4), or one of each
//! for every path where congestion control is accounted for by path (Ye 2004, 6.4).

use whimbrel_control::RecoveryEpoch;

use super::super::Association;
use crate::PathId;

/// What has been done for the window of data that is outstanding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Epochs {
    /// Fast recovery, whatever the losses meant.
    pub(in super::super) recovery: RecoveryEpoch,
    /// Congestion seen by a gap has reduced a window.
    pub(in super::super) reduced: RecoveryEpoch,
}

impl Epochs {
    pub(in super::super) fn leave(&mut self) {
        self.recovery.leave();
        self.reduced.leave();
    }
}

impl Association {
    /// The windows of data that losses on the path belong to.
    #[inline]
    pub(in super::super) fn epochs(&self, index: usize) -> &Epochs {
        if self.outstanding.is_per_path() {
            &self.paths[index].epochs
        } else {
            &self.epochs
        }
    }

    #[inline]
    pub(in super::super) fn epochs_mut(&mut self, index: usize) -> &mut Epochs {
        if self.outstanding.is_per_path() {
            &mut self.paths[index].epochs
        } else {
            &mut self.epochs
        }
    }

    /// The cumulative ack points are where they are now: what ends with them?
    pub(in super::super) fn end_epochs(&mut self, ctx: &mut super::super::Context<'_>) {
        for index in 0..self.paths.len() {
            // The association's own ends once.
            if index > 0 && !self.outstanding.is_per_path() && !self.ecn.in_use && !self.switches.recovers {
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
            if self.switches.recovers {
                self.leave_mode(ctx, index, acked);
            }
        }
    }
}
