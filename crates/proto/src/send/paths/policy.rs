//! Path policies other than the standard's: their inputs and the execution of their decisions.
//!
//! The standard's policy, which counts errors (RFC 9260 §8.2, RFC 7829), needs no state here.

use whimbrel_control::multipath::PathView;
use whimbrel_control::multipath::policy::{Fitness, ManagePaths, Order, Paths, PolicyEvent};
use whimbrel_control::{BuildContext, Time};
use whimbrel_wire::Sack;

use crate::PathId;
use crate::PathState;
use crate::config::NEVER;
use crate::context::Context;
use crate::send::Sending;
use crate::send::multipath::PathPolicy;
use crate::send::ring::SackReport;

impl Sending {
    /// Creates the scheme's policy, if it has one. The state of an earlier policy is discarded.
    pub(in crate::send) fn start_policy(&mut self, ctx: &mut Context<'_>) {
        let context = BuildContext {
            truth: self.truth().cloned(),
        };
        let policy = self.config.parts.path_policy.build_unless_default(&context);
        self.policy = policy.map(|policy| Box::new(PathPolicy::new(policy, self.paths.len())));
        self.probing = None;
        if let Some(timers) = &mut self.timers {
            (timers.policy, timers.probing) = (NEVER, NEVER);
        }
        self.consult(ctx, |_, _| {});
    }

    /// Passes information to the policy and executes its decisions.
    pub(in crate::send) fn inform_policy(&mut self, ctx: &mut Context<'_>, index: PathId, event: PolicyEvent) {
        if self.paths[index].is_removed() {
            return;
        }
        self.consult(ctx, |policy, paths| policy.on_event(paths, index.index(), &event));
    }

    /// Passes the information of a SACK on each path to the policy.
    pub(in crate::send) fn inform_policy_of_sack(
        &mut self,
        ctx: &mut Context<'_>,
        sack: &Sack<'_>,
        report: &SackReport,
    ) {
        let Some(policy) = &mut self.policy else {
            return;
        };
        // Taken out temporarily, so that one consultation covers the whole SACK.
        let mut events = core::mem::take(&mut policy.events);
        let mut reported = None;
        for index in self.paths.ids() {
            let ack = report.of(index);
            let may_show_response = self.paths[index].is_active() || self.shows_response(index, ack);
            if ack.acked == 0 || self.paths[index].is_removed() || !may_show_response {
                continue;
            }
            reported = reported.max(Some((ack.packets, index)));
            let event = PolicyEvent::Delivered {
                packets: ack.packets,
                bytes: ack.acked,
                filled: ack.filled,
            };
            events.push((index, event));
        }
        let about = reported.map_or(self.choice.sending(), |(_, index)| index);
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let event = PolicyEvent::Report {
            gaps: count(sack.gaps.len()),
            duplicates: count(sack.duplicates.len()),
        };
        events.push((about, event));
        self.consult(ctx, |policy, paths| {
            for (index, event) in events.drain(..) {
                policy.on_event(paths, index.index(), &event);
            }
        });
        if let Some(policy) = &mut self.policy {
            policy.events = events;
        }
    }

    pub(in crate::send) fn on_policy_timer(&mut self, ctx: &mut Context<'_>) {
        self.timers().policy = NEVER;
        self.consult(ctx, |policy, paths| policy.on_timer(paths));
    }

    /// Passes the paths to the policy and executes its decisions.
    fn consult(&mut self, ctx: &mut Context<'_>, inform: impl FnOnce(&mut dyn ManagePaths, &Paths<'_>)) {
        // Taken out temporarily, because the call needs all of `Sending`.
        let Some(mut policy) = self.policy.take() else {
            return;
        };
        self.show(ctx.now, &mut policy);
        let shown = self.shown(ctx.now, &policy.views, &policy.probes);
        inform(&mut *policy.policy, &shown);
        for index in self.paths.ids() {
            let counted = self.counted_fitness(index);
            let fitness = policy.policy.fitness(
                index.index(),
                counted,
                &self.shown(ctx.now, &policy.views, &policy.probes),
            );
            self.apply_fitness(ctx, index, counted, fitness);
        }
        while let Some((index, order)) = policy.policy.next_order() {
            self.obey(ctx.now, PathId::at(index), order);
        }
        self.timers().policy = policy.policy.next_timer();
        self.policy = Some(policy);
        self.choose_sending_path(ctx);
    }

    fn show(&self, now: Time, policy: &mut PathPolicy) {
        policy.views.clear();
        policy.probes.clear();
        for index in self.paths.ids() {
            policy.views.push(self.view(now, index));
            policy.probes.push(self.probe_cwnd(index));
        }
    }

    fn shown<'a>(&self, now: Time, views: &'a [PathView], probes: &'a [Option<u64>]) -> Paths<'a> {
        Paths {
            now,
            primary: self.choice.primary().index(),
            current: self.choice.sending().index(),
            views,
            probes,
        }
    }

    /// Returns the fitness by the error counter alone (RFC 9260 §8.2, RFC 7829 §3.2).
    fn counted_fitness(&self, index: PathId) -> Fitness {
        let errors = self.paths[index].errors();
        let limit = self.config.potentially_failed_max_retrans;
        if errors > self.config.path_max_retrans {
            Fitness::Inactive
        } else if limit.is_some_and(|limit| errors > limit) {
            Fitness::PotentiallyFailed
        } else {
            Fitness::Active
        }
    }

    fn apply_fitness(&mut self, ctx: &mut Context<'_>, index: PathId, counted: Fitness, fitness: Fitness) {
        let path = &mut self.paths[index];
        if !path.in_use() {
            return;
        }
        if path.state() == PathState::Unconfirmed && counted != Fitness::Inactive {
            return;
        }
        // The error counter overrides the policy for a path that does not respond.
        let state = match fitness.max(counted) {
            Fitness::Active => PathState::Active,
            Fitness::PotentiallyFailed => PathState::PotentiallyFailed,
            Fitness::Inactive => PathState::Inactive,
        };
        path.note_policy(state != PathState::Active, fitness > counted);
        if path.state() == state {
            return;
        }
        self.set_path_state(ctx, index, state);
        // A path disabled by the policy only is probed even if heartbeats are turned off.
        if state == PathState::PotentiallyFailed
            || state == PathState::Inactive && counted != Fitness::Inactive && self.config.hb_interval.is_zero()
        {
            self.probe_soon(ctx.now, index);
        }
    }

    fn obey(&mut self, now: Time, index: PathId, order: Order) {
        let Some(path) = self.paths.get_mut(index) else { return };
        match order {
            Order::Heartbeat if path.state() != PathState::Unconfirmed => self.probe_soon(now, index),
            Order::Heartbeat => {}
            Order::Train { packets } => self.send_train(index, packets),
            Order::Follow { unfilled } => self.follow_with_probes(index, unfilled),
            Order::Rest => self.rest_from_probes(index),
            Order::Restart { units } => path.control.restart(units),
        }
    }

    /// Requests a heartbeat at once, unless one is outstanding.
    pub(in crate::send) fn probe_soon(&mut self, now: Time, index: PathId) {
        let heartbeat = &mut self.paths[index].heartbeat;
        if heartbeat.pending.is_none() {
            heartbeat.timer = now;
            heartbeat.requested = true;
        }
    }

    /// Returns the policy's path for new data, and updates the primary path at its request. `standard` is the
    /// standard's choice.
    pub(in crate::send) fn ask_policy_for_path(&mut self, now: Time, standard: PathId) -> PathId {
        let Some(mut policy) = self.policy.take() else {
            return standard;
        };
        // Whether a path replaces failed ones depends on the choice that the standard has just made.
        let before = self.choice.set_sending(standard);
        self.show(now, &mut policy);
        self.choice.set_sending(before);
        let paths = self.shown(now, &policy.views, &policy.probes);
        let wanted = policy.policy.sending(standard.index(), &paths);
        let chosen = paths.usable(wanted).map_or(standard, PathId::at);
        let paths = Paths {
            current: chosen.index(),
            ..paths
        };
        let primary = PathId::at(policy.policy.primary(&paths));
        if self.paths.get(primary).is_some_and(|path| path.is_confirmed()) {
            self.replace_primary(primary);
        }
        self.policy = Some(policy);
        chosen
    }

    /// If a policy has disabled a path: returns the failed path to try, which is the one with the lowest error count,
    /// preferring the primary path (RFC 7829 §4). A path disabled by the policy only precedes those that do not respond.
    pub(in crate::send) fn least_failed(&self) -> Option<PathId> {
        let acts = self.paths.iter().any(|path| path.is_disabled_by_policy());
        self.policy.as_ref().filter(|_| acts)?;
        self.paths
            .ids()
            .filter(|&index| self.paths[index].is_confirmed())
            .min_by_key(|&index| (self.paths[index].errors(), index != self.choice.primary()))
    }
}
