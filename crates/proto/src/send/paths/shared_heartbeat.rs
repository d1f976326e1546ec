//! A heartbeat timer shared by all paths, as in ns-2.35 ([`HeartbeatTimer::Association`]).

use crate::PathId;
use crate::PathState;
use crate::config::HeartbeatTimer;
use crate::context::Context;
use crate::send::Sending;
use crate::send::path::period;
use crate::send::timers::SharedTimer;

impl Sending {
    /// Returns whether one timer serves all paths.
    pub(in crate::send) fn shares_heartbeat_timer(&self) -> bool {
        self.config.rules.heartbeat_timer == HeartbeatTimer::Association
    }

    /// Starts the timer with the RTO of this path.
    pub(in crate::send) fn start_shared_heartbeat_timer(&mut self, ctx: &mut Context<'_>, index: PathId) {
        let interval = self.config.hb_interval;
        if !interval.is_zero() {
            let rto = self.paths[index].rtt.rto();
            self.timers().heartbeat = Some(Box::new(SharedTimer {
                due: ctx.now + period(interval, rto, ctx.random.next_u64()),
                started: ctx.now,
            }));
        }
    }

    /// Sends a heartbeat on the path that has been idle longest, unless it was used since the timer started.
    pub(in crate::send) fn on_shared_heartbeat_timer(&mut self, ctx: &mut Context<'_>, may_send: bool) {
        let idlest = self
            .paths
            .ids()
            .filter(|&index| self.paths[index].in_use())
            .min_by_key(|&index| self.paths[index].heartbeat.last_probe);
        let Some(timer) = self.timers().heartbeat.take().filter(|_| may_send) else {
            return;
        };
        let Some(index) = idlest else {
            // All addresses are being replaced. The paths that follow need the timer.
            self.start_shared_heartbeat_timer(ctx, self.choice.primary());
            return;
        };
        let heartbeat = &self.paths[index].heartbeat;
        if heartbeat.last_probe <= timer.started && heartbeat.pending.is_none() {
            self.begin_heartbeat(ctx, index);
        }
        self.start_shared_heartbeat_timer(ctx, index);
    }

    /// Sends a heartbeat on a path that has just become inactive, if all paths share a timer.
    pub(in crate::send) fn heartbeat_after_failure(&mut self, ctx: &mut Context<'_>, index: PathId) {
        let path = &self.paths[index];
        if self.shares_heartbeat_timer()
            && path.state() == PathState::Inactive
            && path.heartbeat.pending.is_none()
            && !self.config.hb_interval.is_zero()
        {
            self.begin_heartbeat(ctx, index);
        }
    }
}
