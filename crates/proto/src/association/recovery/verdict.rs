//! Verdicts on losses. The discriminator judges each loss until the window has been reduced. Further losses of the
//! episode inherit that verdict. Every lost chunk is traced.

use whimbrel_control::{CouplingLimits, LossEvent, LossSignal, Seq, Time, Verdict};
use whimbrel_wire::Tsn;

use super::super::{Association, Context};
use crate::PathId;
use crate::trace::{TraceEvent, TraceKinds};

/// Chunks of one path that were declared lost together.
pub(in super::super) struct LostTogether {
    pub(in super::super) signal: LossSignal,
    pub(in super::super) first: Seq,
    pub(in super::super) last: Seq,
    pub(in super::super) packets: u32,
    /// Packets that are copies of data sent on other paths.
    pub(in super::super) copies: u32,
    pub(in super::super) bytes: u64,
    /// TSN of the first chunk.
    pub(in super::super) tsn: Tsn,
    /// Bytes in flight before the chunks were declared lost.
    pub(in super::super) flight_before: u64,
}

impl Association {
    /// Returns the event of a loss on a path, for the parts.
    pub(in super::super) fn loss_event(&self, now: Time, index: PathId, lost: &LostTogether) -> LossEvent {
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
            next: self.sender.outstanding.next_position(index),
            flight_before: lost.flight_before,
            srtt: path.rtt.srtt(),
            min_rtt: path.unqueued_rtt(),
        }
    }

    /// Returns the verdict on a loss: the inherited one, or the discriminator's.
    pub(in super::super) fn judge(&mut self, index: PathId, loss: &LossEvent, inherited: Option<Verdict>) -> Verdict {
        let path = &mut self.paths[index];
        let verdict = if let Some(verdict) = inherited {
            path.control.on_inherited(loss);
            verdict
        } else {
            path.strength = path.control.strength();
            path.control.judge(loss)
        };
        path.quality.judged.count(verdict, loss.packets);
        let counter = match verdict {
            Verdict::Congestion => &mut self.user.stats.losses_judged_congestion,
            Verdict::Transmission => &mut self.user.stats.losses_judged_transmission,
            Verdict::Unsure => &mut self.user.stats.losses_unsure,
        };
        *counter += u64::from(loss.packets);
        verdict
    }

    /// Lets the window control react to a loss. `has_reacted`: it has already reacted for this window of data.
    pub(in super::super) fn react(
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
        self.user.stats.window_reductions += u64::from(control.cwnd() < before);
    }

    /// Traces the verdict and the change of cwnd for each chunk of the path in `ctx.scratch.lost`.
    pub(in super::super) fn trace_verdicts(
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
        let strength = self.paths[index].strength;
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
}

#[cfg(test)]
mod tests {
    use whimbrel_control::Span;

    use super::super::super::testing;
    use super::*;

    #[test]
    fn a_loss_reports_the_round_trip_time_of_the_return_paths_in_use() {
        let ms = Span::from_millis;
        let mut association = testing::association(2);
        let path = &mut association.paths[PathId(0)];
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
        assert_eq!(
            association.loss_event(Time::ZERO, PathId(0), &lost).min_rtt,
            Some(ms(20))
        );
        let path = &mut association.paths[PathId(0)];
        path.comparable(PathId(1), ms(20));
        for _ in 0..100 {
            path.comparable(PathId(0), ms(28));
        }
        let after = association.loss_event(Time::ZERO, PathId(0), &lost).min_rtt;
        assert!(after > Some(ms(27)), "{after:?}");
    }
}
