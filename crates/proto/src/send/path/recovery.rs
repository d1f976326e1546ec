//! State of a path's recovery beyond the standard.

use whimbrel_control::{RecoveryEpoch, Seq, Span, Time};

use super::Path;
use crate::config::NEVER;

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
    pub(crate) mode: RecoveryMode,
    /// The window of data for which the mode lasts.
    pub(crate) epoch: RecoveryEpoch,
    /// The retransmission timeout in loss recovery; zero: the standard's RTO.
    pub(crate) timeout: Span,
    /// A HEARTBEAT probes the path; data waits for the HEARTBEAT ACK.
    pub(crate) probing: bool,
    /// The last timeout, while it may still be found to be spurious.
    pub(crate) undo: Option<Undo>,
    /// With one retransmitted packet per round-trip time: when the next one may be sent.
    pub(crate) next_retransmission: Time,
    /// When a tail-loss probe is due.
    pub(crate) tail_probe: Time,
    /// A tail-loss probe has been sent since the last acknowledgement.
    pub(crate) tail_probed: bool,
    /// The chunk that a tail-loss probe retransmitted, until it is known whether that was necessary.
    pub(crate) tail: Option<Tail>,
}

/// The effects of a timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undo {
    /// When it occurred.
    pub(crate) at: Time,
    /// The window control has reacted.
    pub(crate) reacted: bool,
    /// Data has been retransmitted since.
    pub(crate) resent: bool,
}

/// A chunk that a tail-loss probe has retransmitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(crate) seq: Seq,
    /// Its position on the path.
    pub(crate) position: Seq,
    /// It has been acknowledged.
    pub(crate) acked: bool,
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
    /// Stops the timers of data in flight on the path.
    pub(crate) fn hold_data_timers(&mut self) {
        self.t3 = NEVER;
        if let Some(recovery) = &mut self.recovery {
            recovery.tail_probe = NEVER;
        }
    }

    /// Returns when a tail-loss probe is due.
    #[inline]
    pub(crate) fn tail_probe(&self) -> Time {
        self.recovery.as_ref().map_or(NEVER, |recovery| recovery.tail_probe)
    }

    /// Returns whether the path is in loss recovery.
    pub(crate) fn in_loss_recovery(&self) -> bool {
        self.recovery
            .as_ref()
            .is_some_and(|recovery| recovery.mode == RecoveryMode::Loss)
    }

    /// Returns whether data must wait for the response to a probe.
    #[inline]
    pub(crate) fn is_probed(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.probing)
    }
}
