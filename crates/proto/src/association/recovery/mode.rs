//! The modes of Wireless-aware SCTP (Ye 2004, 5.3, Figures 28 and 31), for any discriminator.
//!
//! A path is in *normal* mode until something happens. A mark that reduces the window, or a loss that is judged congestion, begins
//! *congestion recovery*: the standard's procedures apply. A loss judged a transmission error begins *loss recovery*, in which the
//! window stays as it is and what is sent again, when, and with which timer follows the options of
//! [`Recovery`](whimbrel_control::recovery::Recovery). Either mode lasts for its window of data: until everything that was
//! outstanding when it began is acknowledged. Figure 31 has four branches: missing reports with and without a mark in the current
//! window of data, and a timeout with and without one; whether there was a mark is the discriminator's business.

use whimbrel_control::recovery::BackOff;
use whimbrel_control::{RecoveryEpoch, Seq, Span, Time, Verdict};

use super::super::{Association, Context};
use crate::PathId;
use crate::config::NEVER;
use crate::path::Path;
use crate::trace::{TraceEvent, TraceKinds};

/// What a path recovers from (Ye 2004, Figure 28).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RecoveryMode {
    /// Nothing.
    #[default]
    Normal,
    /// Congestion.
    Congestion,
    /// Transmission errors.
    Loss,
}

/// State of a path's recovery beyond the standard; kept only if the scheme has any.
#[derive(Clone, Debug)]
pub(crate) struct PathRecovery {
    mode: RecoveryMode,
    /// The window of data that the mode lasts for.
    epoch: RecoveryEpoch,
    /// The retransmission timeout in loss recovery; zero: as always.
    timeout: Span,
    /// A HEARTBEAT asks whether the path is good again; data waits for the answer.
    pub(super) probing: bool,
    /// The last timeout, while it may still turn out to be spurious.
    pub(super) undo: Option<Undo>,
    /// One packet in each round-trip time: when the next one may be sent again.
    pub(super) next_retransmission: Time,
    /// When a tail-loss probe is due.
    pub(super) tail_probe: Time,
    /// A tail-loss probe has been sent since the last acknowledgement.
    pub(super) tail_probed: bool,
    /// What a tail-loss probe has sent again, until it is known whether that was needed.
    pub(super) tail: Option<Tail>,
}

/// What a timeout changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// When it went off.
    pub(super) at: Time,
    /// The window control has reacted.
    pub(super) reacted: bool,
    /// Something has been sent again since.
    pub(super) resent: bool,
}

/// A chunk that a tail-loss probe has sent again.
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
    /// The retransmission timeout in use.
    #[inline]
    pub(in super::super) fn timeout(&self) -> Span {
        match &self.recovery {
            Some(recovery) if !recovery.timeout.is_zero() => recovery.timeout,
            _ => self.rtt.rto(),
        }
    }

    /// When something is due on it.
    #[inline]
    pub(in super::super) fn next_timeout(&self) -> Time {
        let next = self.t3.min(self.heartbeat.timer).min(self.release);
        match &self.recovery {
            None => next,
            Some(recovery) => next.min(recovery.tail_probe),
        }
    }

    /// What was sent on it needs no timer of its own at present.
    pub(in super::super) fn hold_data_timers(&mut self) {
        self.t3 = NEVER;
        if let Some(recovery) = &mut self.recovery {
            recovery.tail_probe = NEVER;
        }
    }

    /// When a tail-loss probe is due.
    #[inline]
    pub(in super::super) fn tail_probe(&self) -> Time {
        self.recovery.as_ref().map_or(NEVER, |recovery| recovery.tail_probe)
    }

    /// Whether it recovers from transmission errors.
    pub(super) fn in_loss_recovery(&self) -> bool {
        self.recovery
            .as_ref()
            .is_some_and(|recovery| recovery.mode == RecoveryMode::Loss)
    }

    /// Whether data has to wait for the answer to a probe.
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

    /// Everything up to and including `acked` is acknowledged on the path.
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

    /// The retransmission timeout of loss recovery before any back-off: the latest one computed, not below a minimum of its own
    /// (Ye 2004, 5.3.2 and 5.4.2). Zero if loss recovery has none.
    fn loss_timeout(&self, index: usize) -> Span {
        let options = &self.switches.recovery;
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

    /// A round-trip time was measured: the timeout of loss recovery follows it.
    pub(in super::super) fn renew_loss_timeout(&mut self, index: usize) {
        if self.paths[index].in_loss_recovery() {
            let base = self.loss_timeout(index);
            if let Some(recovery) = &mut self.paths[index].recovery {
                recovery.timeout = base;
            }
        }
    }

    /// The retransmission timer, or that of a probe, has gone off.
    pub(in super::super) fn back_off(&mut self, ctx: &mut Context<'_>, index: usize) {
        let limited = self.switches.recovery.back_off == BackOff::Limited;
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
            // Ye 2004, 5.3.2: evenly between RTO and 1.5 RTO, however often it has gone off before.
            recovery.timeout = drawn(base, ctx.random.next_u64()).min(rto_max);
        } else if !recovery.timeout.is_zero() {
            recovery.timeout = (recovery.timeout * 2).min(rto_max);
        }
    }

    /// After a timeout without congestion, nothing is sent before a HEARTBEAT is answered (Ye 2004, 5.3.4).
    pub(in super::super) fn probe_path(&mut self, ctx: &mut Context<'_>, index: usize) {
        if let Some(recovery) = &mut self.paths[index].recovery {
            recovery.probing = true;
            self.begin_heartbeat(ctx, index);
        }
    }

    /// The path has answered: what was lost is sent again, as much as the window allows. The window is as it was before.
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

/// Evenly between once and one and a half times the span; `random` is uniform.
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
