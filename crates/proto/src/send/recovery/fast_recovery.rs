//! Fast recovery (RFC 9260 §7.2.4): losses found by missing reports, the verdict on them, the reaction, and the windows of data for which it
//! has taken place.
//!
//! The discriminator judges each loss until the window has been reduced. Further losses of the episode inherit that verdict. There is one set
//! of windows of data for the association (RFC 9260 §7.2.4), or one set for each path with accounting per path (Ye 2004, 6.4).

use whimbrel_control::window::GrowthRule;
use whimbrel_control::{CouplingLimits, LossEvent, LossSignal, RecoveryEpoch, Seq, Time, Verdict};
use whimbrel_wire::Tsn;

use crate::PathId;
use crate::context::Context;
use crate::send::Sending;
use crate::send::path::Epochs;
use crate::send::ring::{PathAck, SackReport};
use crate::trace::{TraceEvent, TraceKinds};

/// Chunks of one path that were declared lost together.
pub(crate) struct LostTogether {
    pub(crate) signal: LossSignal,
    pub(crate) first: Seq,
    pub(crate) last: Seq,
    pub(crate) packets: u32,
    /// Packets that are copies of data sent on other paths.
    pub(crate) copies: u32,
    pub(crate) bytes: u64,
    /// TSN of the first chunk.
    pub(crate) tsn: Tsn,
    /// Bytes in flight before the chunks were declared lost.
    pub(crate) flight_before: u64,
}

impl Sending {
    /// RFC 9260 §7.2.4, items 2, 3 and 6: reduces cwnd, lets one packet go out regardless of cwnd (`urgent`), and enters the recovery.
    /// Items 1 and 5 are in `Outstanding::add_missing_reports`, item 4 in `note_sent` and `apply_path_acknowledgement`; `end_epochs` ends the
    /// recovery.
    // [9260:7.2.3-1, 7.2.4-2]
    pub(in crate::send) fn apply_losses(&mut self, ctx: &mut Context<'_>, report: &SackReport) {
        let before = *self.epochs(PathId(0));
        for index in self.paths.ids() {
            let PathAck {
                lost,
                lost_copies,
                lost_given_up,
                first_lost,
                last_lost,
                lost_tsn,
                lost_bytes,
                flight_before,
                ..
            } = *report.of(index);
            if lost == 0 {
                continue;
            }
            let is_retransmitted = lost > lost_copies + lost_given_up;
            let Epochs { recovery, reduced, .. } = if self.outstanding.is_per_path() {
                self.paths[index].epochs
            } else {
                before
            };
            // RFC 9260 §7.2.4 item 6: any loss before the end of the recovery belongs to it. With `new_data_begins_recovery` (ns-2), only
            // losses of data sent before it began do.
            let goes_on = |epoch: RecoveryEpoch| {
                epoch.is_active() && (!self.config.rules.new_data_begins_recovery || epoch.covers(last_lost))
            };
            let (in_recovery, in_reduced) = (goes_on(recovery), goes_on(reduced));
            let highest = self.outstanding.next_position(index).saturating_sub(1);
            self.stats.fast_retransmits += u64::from(is_retransmitted);
            if let Some(rates) = &mut self.rates {
                rates.on_lost(index, lost_bytes);
            }
            let coupled = match self.spread {
                Some(_) => self.coupled_window(ctx.now, index, in_reduced),
                None => None,
            };
            self.paths[index].quality.losses.on_lost(lost);
            let loss = LostTogether {
                signal: LossSignal::Gap,
                first: first_lost,
                last: last_lost,
                packets: lost,
                copies: lost_copies,
                bytes: lost_bytes,
                tsn: lost_tsn,
                flight_before,
            };
            let loss = self.loss_event(ctx.now, index, &loss);
            let epochs = self.epochs_mut(index);
            // Paths that share the window of data share its loss episode.
            epochs.episode += u32::from(!epochs.recovery.is_active() && !epochs.reduced.is_active());
            let verdict = self.apply_loss(ctx, index, &loss, in_reduced, CouplingLimits::reduced(coupled));
            if verdict != Verdict::Transmission && !in_reduced {
                // Paths that share the window of data are reduced together, which counts as one recovery.
                let epochs = self.epochs_mut(index);
                let is_first = !epochs.reduced.is_active();
                epochs.enter_reduced(highest, verdict);
                self.stats.recoveries += u64::from(is_first);
            }
            if !in_recovery {
                self.epochs_mut(index).recovery.enter(highest);
            }
            // Item 3: the next packet, at `poll_transmit`, is a retransmission regardless of cwnd.
            if (!in_recovery || self.config.rules.fast_retransmit_in_recovery) && is_retransmitted {
                self.paths[index].set_urgent();
            }
            self.trace_window(ctx, index);
        }
    }

    /// Judges a loss found by missing reports on a path, and adapts the window. `in_reduced`: the window has been reduced for this
    /// window of data.
    pub(in crate::send) fn apply_loss(
        &mut self,
        ctx: &mut Context<'_>,
        index: PathId,
        loss: &LossEvent,
        in_reduced: bool,
        limits: CouplingLimits,
    ) -> Verdict {
        let counts_as_reduced = in_reduced && !self.config.parts.recovery.reduce_at_each_loss;
        // A window reduced after a CE mark is not reduced again for the same window of data.
        let has_reacted = counts_as_reduced || self.paths[index].is_marked();
        let cwnd_before = self.paths[index].control.cwnd();
        let inherited = self.epochs(index).inherited().filter(|_| in_reduced);
        let verdict = self.judge(index, loss, inherited);
        self.react(index, loss, verdict, has_reacted, limits);
        self.trace_verdicts(ctx, index, LossSignal::Gap, verdict, cwnd_before);
        if verdict != Verdict::Transmission && !has_reacted {
            self.note_reduction_by_loss(index);
        }
        if self.config.recovers {
            self.enter_mode(ctx, index, verdict);
        }
        verdict
    }

    /// Returns the event of a loss on a path, for the parts.
    pub(in crate::send) fn loss_event(&self, now: Time, index: PathId, lost: &LostTogether) -> LossEvent {
        let path = &self.paths[index];
        LossEvent {
            now,
            signal: lost.signal,
            first_lost: lost.first,
            last_lost: lost.last,
            packets: lost.packets,
            copies: lost.copies,
            bytes: lost.bytes,
            label: lost.tsn.0,
            next: self.outstanding.next_position(index),
            flight_before: lost.flight_before,
            srtt: path.rtt.srtt(),
            min_rtt: path.unqueued_rtt(),
        }
    }

    /// Returns the verdict on a loss: the inherited one, or the discriminator's.
    pub(in crate::send) fn judge(&mut self, index: PathId, loss: &LossEvent, inherited: Option<Verdict>) -> Verdict {
        let path = &mut self.paths[index];
        let verdict = if let Some(verdict) = inherited {
            path.control.on_inherited(loss);
            verdict
        } else {
            let strength = path.control.strength();
            path.set_strength(strength);
            path.control.judge(loss)
        };
        path.quality.judged.count(verdict, loss.packets);
        let counter = match verdict {
            Verdict::Congestion => &mut self.stats.losses_judged_congestion,
            Verdict::Transmission => &mut self.stats.losses_judged_transmission,
            Verdict::Unsure => &mut self.stats.losses_unsure,
        };
        *counter += u64::from(loss.packets);
        verdict
    }

    /// Lets the window control react to a loss. `has_reacted`: it has already reacted for this window of data.
    pub(in crate::send) fn react(
        &mut self,
        index: PathId,
        loss: &LossEvent,
        verdict: Verdict,
        has_reacted: bool,
        limits: CouplingLimits,
    ) {
        let control = &mut self.paths[index].control;
        let before = control.cwnd();
        control.react(loss, verdict, has_reacted, limits);
        self.stats.window_reductions += u64::from(control.cwnd() < before);
    }

    /// Traces the verdict and the change of cwnd for each chunk of the path in `ctx.scratch.lost`.
    pub(in crate::send) fn trace_verdicts(
        &self,
        ctx: &mut Context<'_>,
        index: PathId,
        signal: LossSignal,
        verdict: Verdict,
        cwnd_before: u64,
    ) {
        if !ctx.trace.wants(TraceKinds::VERDICTS) {
            return;
        }
        let cwnd = self.paths[index].control.cwnd();
        let strength = self.paths[index].strength();
        let episode = self.epochs(index).episode;
        for &(path, tsn) in &ctx.scratch.lost {
            if PathId(path) == index {
                ctx.trace
                    .emit(TraceKinds::VERDICTS, ctx.now, Some(self.id), || TraceEvent::Verdict {
                        path: PathId(path),
                        tsn,
                        signal,
                        verdict,
                        cwnd_before,
                        cwnd,
                        strength,
                        episode,
                    });
            }
        }
    }

    /// The first path holds the epochs of the association.
    #[inline]
    fn epochs_index(&self, index: PathId) -> PathId {
        if self.outstanding.is_per_path() {
            index
        } else {
            PathId(0)
        }
    }

    /// Returns the windows of data to which losses on the path belong.
    #[inline]
    pub(in crate::send) fn epochs(&self, index: PathId) -> &Epochs {
        let index = self.epochs_index(index);
        &self.paths[index].epochs
    }

    #[inline]
    pub(in crate::send) fn epochs_mut(&mut self, index: PathId) -> &mut Epochs {
        let index = self.epochs_index(index);
        &mut self.paths[index].epochs
    }

    /// Returns whether a SACK that arrived in fast recovery may let cwnd grow. In ns-2, the SACK that ends the recovery
    /// may.
    pub(in crate::send) fn grows_in_recovery(&self, index: PathId) -> bool {
        let rules = &self.config.rules;
        if rules.growth_in_recovery || rules.growth != GrowthRule::FullWindow {
            return rules.growth_in_recovery;
        }
        let acked = self.outstanding.acked_to(index).checked_sub(1);
        let mut reduced = self.epochs(index).reduced;
        acked.is_some_and(|acked| reduced.on_cumulative_ack(acked))
    }

    /// Ends the windows of data that are completely acknowledged at the new cumulative TSN ack points.
    pub(in crate::send) fn end_epochs(&mut self, ctx: &mut Context<'_>) {
        for index in self.paths.ids() {
            // The association's epochs end only once.
            if index > PathId(0) && !self.outstanding.is_per_path() && !self.agreed.ecn && !self.config.recovers {
                break;
            }
            let Some(acked) = self.outstanding.acked_to(index).checked_sub(1) else {
                continue;
            };
            let epochs = self.epochs_mut(index);
            epochs.recovery.on_cumulative_ack(acked);
            epochs.reduced.on_cumulative_ack(acked);
            if let Some(reductions) = &mut self.paths[index].reductions {
                reductions.on_cumulative_ack(acked);
            }
            if self.config.recovers {
                self.leave_mode(ctx, index, acked);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::Span;

    use super::*;
    use crate::send::testing;

    #[test]
    fn a_loss_reports_the_round_trip_time_of_the_return_paths_in_use() {
        let ms = Span::from_millis;
        let mut sending = testing::sending(2);
        let path = &mut sending.paths[PathId(0)];
        path.rtt.on_sample(ms(20));
        let lost = LostTogether {
            signal: LossSignal::Gap,
            first: 1,
            last: 1,
            packets: 1,
            copies: 0,
            bytes: 1500,
            tsn: Tsn(1),
            flight_before: 3000,
        };
        assert_eq!(sending.loss_event(Time::ZERO, PathId(0), &lost).min_rtt, Some(ms(20)));
        let path = &mut sending.paths[PathId(0)];
        path.comparable(PathId(1), ms(20));
        for _ in 0..100 {
            path.comparable(PathId(0), ms(28));
        }
        let after = sending.loss_event(Time::ZERO, PathId(0), &lost).min_rtt;
        assert!(after > Some(ms(27)), "{after:?}");
    }
}
