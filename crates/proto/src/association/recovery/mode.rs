//! The modes of Wireless-aware SCTP (Ye 2004, 5.3, Figures 28 and 31), for any discriminator.
//!
//! A path is initially in *normal* mode. A mark that reduces the window, or a loss judged as congestion, starts
//! *congestion recovery*, in which the standard's procedures apply. A loss judged as a transmission loss starts *loss
//! recovery*: the window does not change, and the options of [`Recovery`](whimbrel_control::recovery::Recovery)
//! determine what is retransmitted, when, and with which timer. Both modes last for one window of data: until all data
//! that was outstanding at the start is acknowledged. Figure 31 has four branches: missing reports with and without a
//! mark in the current window of data, and a timeout with and without one. The discriminator takes marks into account.

use whimbrel_control::recovery::BackOff;
use whimbrel_control::{RecoveryEpoch, Seq, Span, Time, Verdict};

use super::super::{Association, Context};
use crate::PathId;
use crate::config::NEVER;
use crate::path::Path;
use crate::trace::{TraceEvent, TraceKinds};

/// The cause from which a path recovers (Ye 2004, Figure 28).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RecoveryMode {
    /// No recovery.
    #[default]
    Normal,
    /// Recovery from congestion.
    Congestion,
    /// Recovery from transmission losses.
    Loss,
}

/// State of a path's recovery beyond the standard. Present only if the scheme uses it.
#[derive(Clone, Debug)]
pub(crate) struct PathRecovery {
    mode: RecoveryMode,
    /// The window of data for which the mode lasts.
    epoch: RecoveryEpoch,
    /// The retransmission timeout in loss recovery; zero: the standard's RTO.
    timeout: Span,
    /// A HEARTBEAT probes the path; data waits for the HEARTBEAT ACK.
    pub(super) probing: bool,
    /// The last timeout, while it may still be found to be spurious.
    pub(super) undo: Option<Undo>,
    /// With one retransmitted packet per round-trip time: when the next one may be sent.
    pub(super) next_retransmission: Time,
    /// When a tail-loss probe is due.
    pub(super) tail_probe: Time,
    /// A tail-loss probe has been sent since the last acknowledgement.
    pub(super) tail_probed: bool,
    /// The chunk that a tail-loss probe retransmitted, until it is known whether that was necessary.
    pub(super) tail: Option<Tail>,
}

/// The effects of a timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// When it occurred.
    pub(super) at: Time,
    /// The window control has reacted.
    pub(super) reacted: bool,
    /// Data has been retransmitted since.
    pub(super) resent: bool,
}

/// A chunk that a tail-loss probe has retransmitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    pub(super) seq: Seq,
    /// Its position on the path.
    pub(super) position: Seq,
    /// It has been acknowledged.
    pub(super) acked: bool,
}

impl Default for PathRecovery {
    fn default() -> Self {
        PathRecovery {
            mode: RecoveryMode::Normal,
            epoch: RecoveryEpoch::default(),
            timeout: Span::ZERO,
            probing: false,
            undo: None,
            next_retransmission: Time::ZERO,
            tail_probe: NEVER,
            tail_probed: false,
            tail: None,
        }
    }
}

impl Path {
    /// Returns the retransmission timeout in use.
    #[inline]
    pub(in super::super) fn timeout(&self) -> Span {
        match &self.recovery {
            Some(recovery) if !recovery.timeout.is_zero() => recovery.timeout,
            _ => self.rtt.rto(),
        }
    }

    /// Returns when the path's next timer expires.
    #[inline]
    pub(in super::super) fn next_timeout(&self) -> Time {
        let next = self.t3.min(self.heartbeat.timer).min(self.release);
        match &self.recovery {
            None => next,
            Some(recovery) => next.min(recovery.tail_probe),
        }
    }

    /// Stops the timers of data in flight on the path.
    pub(in super::super) fn hold_data_timers(&mut self) {
        self.t3 = NEVER;
        if let Some(recovery) = &mut self.recovery {
            recovery.tail_probe = NEVER;
        }
    }

    /// Returns when a tail-loss probe is due.
    #[inline]
    pub(in super::super) fn tail_probe(&self) -> Time {
        self.recovery.as_ref().map_or(NEVER, |recovery| recovery.tail_probe)
    }

    /// Returns whether the path is in loss recovery.
    pub(super) fn in_loss_recovery(&self) -> bool {
        self.recovery
            .as_ref()
            .is_some_and(|recovery| recovery.mode == RecoveryMode::Loss)
    }

    /// Returns whether data must wait for the response to a probe.
    #[inline]
    pub(in super::super) fn is_probed(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.probing)
    }
}

impl Association {
    /// A loss was judged, or a mark has reduced the window.
    pub(in super::super) fn enter_mode(&mut self, ctx: &mut Context<'_>, index: usize, verdict: Verdict) {
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
            .enter(self.outstanding.next_position(PathId(index as u8)).saturating_sub(1));
        recovery.timeout = base;
        self.set_mode(ctx, index, mode);
    }

    /// All data up to and including `acked` is acknowledged on the path.
    pub(super) fn leave_mode(&mut self, ctx: &mut Context<'_>, index: usize, acked: Seq) {
        if let Some(recovery) = &mut self.paths[index].recovery
            && recovery.epoch.on_cumulative_ack(acked)
        {
            self.set_mode(ctx, index, RecoveryMode::Normal);
        }
    }

    pub(super) fn set_mode(&mut self, ctx: &mut Context<'_>, index: usize, mode: RecoveryMode) {
        let Some(recovery) = &mut self.paths[index].recovery else {
            return;
        };
        if mode != RecoveryMode::Loss {
            // The standard's timer applies.
            recovery.timeout = Span::ZERO;
        }
        if core::mem::replace(&mut recovery.mode, mode) != mode {
            ctx.trace.emit(TraceKinds::VERDICTS, ctx.now, Some(self.id), || {
                TraceEvent::RecoveryMode {
                    path: PathId(index as u8),
                    mode,
                }
            });
        }
    }

    /// Returns the retransmission timeout of loss recovery before any back-off: the latest computed RTO, but at least
    /// the minimum of loss recovery (Ye 2004, 5.3.2 and 5.4.2). Zero if loss recovery has no timeout of its own.
    fn loss_timeout(&self, index: usize) -> Span {
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
    pub(in super::super) fn renew_loss_timeout(&mut self, index: usize) {
        if self.paths[index].in_loss_recovery() {
            let base = self.loss_timeout(index);
            if let Some(recovery) = &mut self.paths[index].recovery {
                recovery.timeout = base;
            }
        }
    }

    /// Backs off after the retransmission timer or the timer of a probe has expired.
    pub(in super::super) fn back_off(&mut self, ctx: &mut Context<'_>, index: usize) {
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
    pub(in super::super) fn probe_path(&mut self, ctx: &mut Context<'_>, index: usize) {
        if let Some(recovery) = &mut self.paths[index].recovery {
            recovery.probing = true;
            self.begin_heartbeat(ctx, index);
        }
    }

    /// The path has responded: lost data is retransmitted as the unchanged window allows.
    pub(in super::super) fn end_probe(&mut self, index: usize) {
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
