//! Windows of data in which something has been done about losses: one of each for the association (RFC 9260 §7.2.4), or one of each
//! for every path where congestion control is accounted for by path (Ye 2004, 6.4).

use whimbrel_control::window::GrowthRule;
use whimbrel_control::{RecoveryEpoch, Seq, Verdict};

use super::super::{Association, Context};
use crate::PathId;

/// What has been done for the window of data that is outstanding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Epochs {
    /// Fast recovery, whatever the losses meant.
    pub(in super::super) recovery: RecoveryEpoch,
    /// Congestion seen by a gap has reduced a window.
    pub(in super::super) reduced: RecoveryEpoch,
    /// Whether that was so when the SACK being processed arrived.
    pub(in super::super) was_reduced: bool,
    /// The verdict that reduced it: later losses of the episode inherit it. The discriminator would see the reduced window.
    verdict: Option<Verdict>,
    /// Loss episodes so far: the losses of one window of data are one episode, and so is a timeout.
    pub(in super::super) episode: u32,
}

impl Epochs {
    fn note(&mut self) {
        self.was_reduced = self.reduced.is_active();
    }

    /// A timeout: an episode of its own, after which losses are judged afresh.
    pub(in super::super) fn leave(&mut self) {
        self.recovery.leave();
        self.reduced.leave();
    }

    /// A loss judged so has reduced the window, for everything up to `highest`.
    pub(in super::super) fn enter_reduced(&mut self, highest: Seq, verdict: Verdict) {
        self.reduced.enter(highest);
        self.verdict = Some(verdict);
    }

    /// The verdict that a further loss inherits, if a loss has reduced the window for this window of data.
    pub(in super::super) fn inherited(&self) -> Option<Verdict> {
        self.verdict.filter(|_| self.reduced.is_active())
    }
}

impl Association {
    /// The first path keeps those of the association.
    #[inline]
    fn epochs_index(&self, index: usize) -> usize {
        if self.outstanding.is_per_path() { index } else { 0 }
    }

    /// The windows of data that losses on the path belong to.
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

    /// Whether the SACK being processed, which arrived in fast recovery, may let cwnd grow. In ns-2 the one that ends the recovery may.
    pub(in super::super) fn grows_in_recovery(&self, index: usize) -> bool {
        let rules = &self.switches.rules;
        if rules.growth_in_recovery || rules.growth != GrowthRule::FullWindow {
            return rules.growth_in_recovery;
        }
        let acked = self.outstanding.acked_to(PathId(index as u8)).checked_sub(1);
        let mut reduced = self.epochs(index).reduced;
        acked.is_some_and(|acked| reduced.on_cumulative_ack(acked))
    }

    /// The cumulative ack points are where they are now: what ends with them?
    pub(in super::super) fn end_epochs(&mut self, ctx: &mut Context<'_>) {
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
