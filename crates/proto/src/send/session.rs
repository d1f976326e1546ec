//! Sending during the handshake, at its end, and when the peer restarts (RFC 9260 §5).

use whimbrel_control::Time;

use super::Sending;
use super::progress::Progress;
use crate::context::Context;
use crate::trace::{LossRule, TraceEvent, TraceKinds};
use crate::{PathId, PathState};

impl Sending {
    /// Starts the use of the paths when the association is established (RFC 9260 §5.1).
    pub(crate) fn establish(&mut self, ctx: &mut Context<'_>) -> Progress {
        self.errors = 0;
        if self.outstanding.is_empty() {
            self.start_rates();
        }
        self.start_spread();
        self.start_heartbeats(ctx);
        self.start_policy(ctx);
        self.allow_burst();
        // For DATA chunks bundled with COOKIE ECHO.
        self.start_missing_t3(ctx.now);
        self.take_progress()
    }

    /// The peer's answer ends the handshake: new data is sent on the primary path.
    pub(crate) fn use_primary(&mut self) {
        for path in self.paths.iter_mut() {
            path.clear_errors();
        }
        self.choice.set_sending(self.choice.primary());
    }

    /// Data is sent with the COOKIE ECHO (RFC 9260 §5.1 C).
    pub(crate) fn begin_early(&mut self) {
        self.start_rates();
        self.allow_burst();
    }

    /// T1-cookie protects the data that was sent with the COOKIE ECHO (RFC 9260 §5.1.4).
    pub(crate) fn hold_data_timers(&mut self, path: PathId) {
        self.paths[path].hold_data_timers();
    }

    /// New data is sent on the primary path.
    pub(crate) fn return_to_primary(&mut self) {
        self.choice.set_sending(self.choice.primary());
    }

    /// Sends new data on this path, if it may carry some: data of the peer has arrived on it. The messages that are exchanged for keys come one
    /// after the other, and do not wait for a timeout each if another path has failed.
    pub(crate) fn follow(&mut self, path: PathId) {
        if self.paths[path].is_open() {
            self.choice.set_sending(path);
        }
    }

    /// Returns whether new data is sent on the primary path.
    pub(crate) fn uses_primary(&self) -> bool {
        self.choice.sending() == self.choice.primary()
    }

    /// The packets are encrypted, and the peer has shown that it has the keys. New data is sent on the primary path again, unless it has failed.
    /// Addresses that have answered in plaintext have to answer once more: it may have been anyone who has.
    pub(crate) fn end_following(&mut self, now: Time) {
        let primary = self.choice.primary();
        if self.paths[primary].is_active() {
            self.follow(primary);
        }
        let sending = self.choice.sending();
        for (index, path) in self.paths.numbered_mut() {
            if path.take_answered_in_plaintext() && index != sending && path.is_open() {
                path.verify_again(now);
            }
        }
    }

    /// Selects the path for new data again.
    pub(crate) fn choose_path(&mut self, ctx: &mut Context<'_>) -> Progress {
        self.choose_sending_path(ctx);
        self.take_progress()
    }

    /// The peer has lost its state: the paths and the error counters are as in a new association.
    pub(crate) fn reinitialize(&mut self) -> Progress {
        self.notify_user_of_progress();
        self.timeouts_without_ack = 0;
        self.timers = None;
        self.outgoing.clear();
        self.spread = None;
        let truth = self.truth().cloned();
        for path in self.paths.iter_mut() {
            path.reinitialize(&self.config, truth.as_ref());
        }
        let progress = self.take_progress();
        // The user's wishes end with the association that it knew.
        (self.wants_space, self.wants_room_for_short, self.wants_idle) = (false, false, false);
        progress
    }

    /// Continues after a restart of the peer. The address of this path is verified (RFC 9260 §5.4 rule 2).
    pub(crate) fn restart(&mut self, ctx: &mut Context<'_>, verified: Option<PathId>) -> Progress {
        if let Some(index) = verified {
            self.path_answered(ctx, index);
        }
        self.choose_sending_path(ctx);
        self.establish(ctx)
    }

    /// Tries the next path for INIT or COOKIE ECHO (RFC 9260 §5.1).
    pub(crate) fn try_next_path(&mut self) {
        self.paths[self.choice.sending()].rtt.back_off();
        self.choice.set_sending(self.next_handshake_path());
        self.outgoing.clear();
    }

    /// Returns the next confirmed path in turn.
    // [9260:5.1-13, 5.1-14]
    pub(in crate::send) fn next_handshake_path(&self) -> PathId {
        let count = self.paths.len();
        (1..=count)
            .map(|step| self.paths.after(self.choice.sending(), step))
            .find(|&index| !self.paths[index].is_removed() && self.paths[index].state() != PathState::Unconfirmed)
            .unwrap_or(self.choice.sending())
    }

    /// Marks data bundled with COOKIE ECHO for retransmission, because T1-cookie expired or the cookie is stale. It is
    /// retransmitted once the association is established. The loss causes no congestion reaction.
    pub(crate) fn lose_early_data(&mut self, ctx: &mut Context<'_>) {
        let (trace, now, association) = (&mut *ctx.trace, ctx.now, self.id);
        for index in self.paths.ids() {
            let flight = self.outstanding.flight(index);
            if flight == 0 {
                continue;
            }
            self.outstanding.lose_path(index, |_, tsn| {
                trace.emit(TraceKinds::TSNS, now, Some(association), || TraceEvent::TsnLost {
                    path: index,
                    tsn,
                    rule: LossRule::Timeout,
                });
            });
            if let Some(rates) = &mut self.rates {
                rates.on_lost(index, flight);
            }
            self.paths[index].stop_timing();
        }
    }
}
