//! The modes of Wireless-aware SCTP (Ye 2004, 5.3, Figures 28 and 31), for any discriminator.
//!
//! A path is initially in *normal* mode. A mark that reduces the window, or a loss judged as congestion, starts
//! *congestion recovery*, in which the standard's procedures apply. A loss judged as a transmission loss starts *loss
//! recovery*: the window does not change, and the options of [`Recovery`](whimbrel_control::recovery::Recovery)
//! determine what is retransmitted, when, and with which timer. Both modes last for one window of data: until all data
//! that was outstanding at the start is acknowledged. Figure 31 has four branches: missing reports with and without a
//! mark in the current window of data, and a timeout with and without one. The discriminator takes marks into account.

use whimbrel_control::recovery::BackOff;
use whimbrel_control::{Seq, Span, Verdict};

use crate::PathId;
use crate::context::Context;
use crate::send::Sending;
use crate::send::path::RecoveryMode;
use crate::trace::{TraceEvent, TraceKinds};

impl Sending {
    /// A loss was judged, or a mark has reduced the window.
    pub(in crate::send) fn enter_mode(&mut self, ctx: &mut Context<'_>, index: PathId, verdict: Verdict) {
        let base = self.loss_timeout(index);
        let Some(recovery) = &mut self.paths[index].recovery else {
            return;
        };
        let mode = if verdict == Verdict::Transmission {
            RecoveryMode::Loss
        } else {
            RecoveryMode::Congestion
        };
        recovery
            .epoch
            .enter(self.outstanding.next_position(index).saturating_sub(1));
        recovery.timeout = base;
        self.set_mode(ctx, index, mode);
    }

    /// All data up to and including `acked` is acknowledged on the path.
    pub(in crate::send) fn leave_mode(&mut self, ctx: &mut Context<'_>, index: PathId, acked: Seq) {
        if let Some(recovery) = &mut self.paths[index].recovery
            && recovery.epoch.on_cumulative_ack(acked)
        {
            self.set_mode(ctx, index, RecoveryMode::Normal);
        }
    }

    pub(in crate::send) fn set_mode(&mut self, ctx: &mut Context<'_>, index: PathId, mode: RecoveryMode) {
        let Some(recovery) = &mut self.paths[index].recovery else {
            return;
        };
        if mode != RecoveryMode::Loss {
            // The standard's timer applies.
            recovery.timeout = Span::ZERO;
        }
        if core::mem::replace(&mut recovery.mode, mode) != mode {
            ctx.trace.emit(TraceKinds::VERDICTS, ctx.now, Some(self.id), || {
                TraceEvent::RecoveryMode { path: index, mode }
            });
        }
    }

    /// Returns the retransmission timeout of loss recovery before any back-off: the latest computed RTO, but at least
    /// the minimum of loss recovery (Ye 2004, 5.3.2 and 5.4.2). Zero if loss recovery has no timeout of its own.
    fn loss_timeout(&self, index: PathId) -> Span {
        let options = &self.config.parts.recovery;
        let has_own_min = !options.loss_rto_min.is_zero();
        if !has_own_min && options.back_off == BackOff::Exponential {
            return Span::ZERO;
        }
        let min = if has_own_min {
            options.loss_rto_min
        } else {
            self.config.rto_min
        };
        let computed = self.paths[index]
            .rtt
            .computed()
            .unwrap_or(self.config.resolved_rto_initial());
        computed.clamp(min, self.config.rto_max)
    }

    /// Updates the timeout of loss recovery after a measurement of the round-trip time.
    pub(in crate::send) fn renew_loss_timeout(&mut self, index: PathId) {
        if self.paths[index].in_loss_recovery() {
            let base = self.loss_timeout(index);
            if let Some(recovery) = &mut self.paths[index].recovery {
                recovery.timeout = base;
            }
        }
    }

    /// Backs off after the retransmission timer or the timer of a probe has expired.
    pub(in crate::send) fn back_off(&mut self, ctx: &mut Context<'_>, index: PathId) {
        let limited = self.config.parts.recovery.back_off == BackOff::Limited;
        let in_loss_recovery = self.paths[index].in_loss_recovery();
        let base = self.loss_timeout(index);
        let rto_max = self.config.rto_max;
        let path = &mut self.paths[index];
        if !(limited && in_loss_recovery) {
            path.rtt.back_off();
        }
        let Some(recovery) = path.recovery.as_mut().filter(|_| in_loss_recovery) else {
            return;
        };
        if limited {
            // Ye 2004, 5.3.2: uniformly distributed between RTO and 1.5 RTO, however often the timer has expired.
            recovery.timeout = drawn(base, ctx.random.next_u64()).min(rto_max);
        } else if !recovery.timeout.is_zero() {
            recovery.timeout = (recovery.timeout * 2).min(rto_max);
        }
    }

    /// After a timeout without congestion, no data is sent until a HEARTBEAT ACK arrives (Ye 2004, 5.3.4).
    pub(in crate::send) fn probe_path(&mut self, ctx: &mut Context<'_>, index: PathId) {
        if let Some(recovery) = &mut self.paths[index].recovery {
            recovery.probing = true;
            self.begin_heartbeat(ctx, index);
        }
    }

    /// The path has responded: lost data is retransmitted as the unchanged window allows.
    pub(in crate::send) fn end_probe(&mut self, index: PathId) {
        if let Some(recovery) = &mut self.paths[index].recovery
            && recovery.probing
        {
            recovery.probing = false;
            recovery.undo = None;
            self.allow_burst();
        }
    }
}

/// Returns a value uniformly distributed from `span` to 1.5 `span`; `random` is uniformly distributed.
fn drawn(span: Span, random: u64) -> Span {
    let extra = (u128::from(random) * u128::from(span.as_nanos() / 2)) >> 64;
    span + Span::from_nanos(extra as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_back_off_is_drawn_from_rto_to_one_and_a_half_rto() {
        // Ye 2004, 5.3.2
        let rto = Span::from_millis(400);
        assert_eq!(drawn(rto, 0), rto);
        assert_eq!(drawn(rto, 1 << 63), Span::from_millis(500));
        assert!(drawn(rto, u64::MAX) < Span::from_millis(600));
        assert!(drawn(rto, u64::MAX) > Span::from_micros(599_999));
    }
}
