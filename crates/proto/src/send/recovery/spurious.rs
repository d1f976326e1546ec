//! Spurious timeouts: data outstanding at the timeout is acknowledged before any of it was retransmitted. The
//! retransmission is cancelled, and the effects of the timeout are reversed (Ye 2004, 5.4.2).
//!
//! If data was retransmitted, an acknowledgement may be that of the retransmission. With timestamps, the echoed
//! timestamp decides (Ludwig and Katz 2000, the Eifel algorithm, RFC 3522): if it is earlier than the timeout, the
//! original transmission has been received.

use whimbrel_control::Stamps;

use crate::PathId;
use crate::context::Context;
use crate::send::Sending;
use crate::send::path::{RecoveryMode, Undo};

impl Sending {
    /// Records a timeout that may be found to be spurious.
    pub(in crate::send) fn watch_timeout(&mut self, ctx: &Context<'_>, index: PathId, reacted: bool) {
        let wanted = self.config.parts.recovery.cancel_spurious;
        if let Some(recovery) = self.paths[index].recovery.as_mut().filter(|_| wanted) {
            recovery.undo = Some(Undo {
                at: ctx.now,
                reacted,
                resent: false,
            });
        }
    }

    /// Data declared lost by a timeout is retransmitted.
    pub(in crate::send) fn note_resent(&mut self, from: PathId) {
        if let Some(recovery) = &mut self.paths[from].recovery
            && let Some(undo) = &mut recovery.undo
        {
            undo.resent = true;
        }
    }

    /// A SACK has acknowledged data of the path: reverses the timeout if it was spurious, and otherwise keeps it.
    pub(in crate::send) fn check_timeout(&mut self, ctx: &mut Context<'_>, index: PathId, stamps: Option<Stamps>) {
        let path = &mut self.paths[index];
        let Some(recovery) = &mut path.recovery else { return };
        let Some(undo) = recovery.undo.take() else { return };
        let is_of_before = stamps.is_some_and(|stamps| stamps.sent < undo.at);
        if undo.resent && !is_of_before {
            return;
        }
        recovery.probing = false;
        if undo.reacted {
            path.control.on_spurious_timeout();
        }
        path.limit_to_one_packet(false);
        path.clear_urgent();
        self.stats.spurious_timeouts += 1;
        self.outstanding.take_timeout_back(index);
        self.start_missing_t3(ctx.now);
        self.set_mode(ctx, index, RecoveryMode::Normal);
        self.trace_window(ctx, index);
    }
}
