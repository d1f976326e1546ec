//! Path states, the path for new data, and heartbeats (RFC 9260 §5.4, §6.4, §8.1 to §8.3, RFC 7829).

use whimbrel_control::multipath::policy::PolicyEvent;
use whimbrel_control::{Span, Time};

use crate::config::NEVER;
use crate::context::Context;
use crate::error::Discard;
use crate::event::Event;
use crate::send::Sending;
use crate::send::multipath::Spread;
use crate::send::outgoing::Outgoing;
use crate::send::path::{HEARTBEAT_INFO_LEN, HeartbeatContent, Path, next_heartbeat};
use crate::send::progress::{End, Progress};
use crate::send::ring::PathAck;
use crate::trace::{TimerKind, TraceEvent, TraceKinds};
use crate::{PathId, PathState, TransportAddr};

impl Sending {
    /// Counts a retransmission timeout or an unanswered heartbeat (RFC 9260 §8.1, §8.2).
    // [9260:8.1-1, 8.1-2, 8.1-3, 8.1-4, 8.2-1, 8.2-2, 8.3-3, 8.3-4, 8.3-5]
    pub(in crate::send) fn count_path_error(
        &mut self,
        ctx: &mut Context<'_>,
        index: PathId,
        counts_for_association: bool,
    ) {
        let path = &mut self.paths[index];
        path.count_error(ctx.now, self.config.path_max_retrans);
        let (errors, state) = (path.errors(), path.state());
        let potentially_failed = self
            .config
            .potentially_failed_max_retrans
            .is_some_and(|limit| errors > limit);
        if self.policy.is_some() {
            // The policy sets the path's state below.
        } else if errors > self.config.path_max_retrans {
            self.set_path_state(ctx, index, PathState::Inactive);
        } else if potentially_failed && state == PathState::Active {
            self.set_path_state(ctx, index, PathState::PotentiallyFailed);
            // RFC 7829 §3: probed once per RTO.
            self.probe_soon(ctx.now, index);
        }
        if counts_for_association {
            self.errors += 1;
            if self.errors > self.config.association_max_retrans {
                self.end(End::Unreachable);
                return;
            }
        }
        self.progress.suspect = Some(index);
        if self.policy.is_some() {
            self.inform_policy(ctx, index, PolicyEvent::Timeout { consecutive: errors });
        } else {
            self.choose_sending_path(ctx);
        }
    }

    /// Returns whether an acknowledgement shows that the path works: the acknowledged data was sent on this path only, and if the path has
    /// failed, after that. Data that was sent on another path as well may have arrived there (RFC 9260 §8.2 permits ignoring it), and data
    /// sent before the failure may be acknowledged late: because an earlier acknowledgement was lost, or this one took another path. If it
    /// counted as a response, new data would be sent on a failed path again. Neither RFC 9260 nor RFC 7829 specifies the latter.
    pub(in crate::send) fn shows_response(&self, index: PathId, ack: &PathAck) -> bool {
        let path = &self.paths[index];
        let has_failed = matches!(path.state(), PathState::PotentiallyFailed | PathState::Inactive);
        ack.sent_here_at.is_some_and(|at| !has_failed || at > path.failed_at())
    }

    /// Handles an acknowledgement of data or a heartbeat sent on the path (RFC 9260 §8.2).
    // [9260:8.2-3, 8.3-7, 8.3-9, 8.3-10]
    pub(in crate::send) fn path_answered(&mut self, ctx: &mut Context<'_>, index: PathId) {
        let path = &mut self.paths[index];
        if path.in_use() {
            path.clear_errors();
        }
        self.path_responds(ctx, index);
    }

    /// A packet sent on the path has arrived: its address is verified, and it can be used. Its error counter remains.
    fn path_responds(&mut self, ctx: &mut Context<'_>, index: PathId) {
        let path = &mut self.paths[index];
        if !path.in_use() {
            // A late acknowledgement of data sent before the path was disabled does not reactivate it.
            return;
        }
        path.confirm(self.queue.holds_back());
        // With a policy, the policy decides on the state once it has been informed.
        if path.state() == PathState::Unconfirmed || self.policy.is_none() && path.state() != PathState::Active {
            self.set_path_state(ctx, index, PathState::Active);
            self.choose_sending_path(ctx);
        }
    }

    pub(in crate::send) fn set_path_state(&mut self, ctx: &mut Context<'_>, index: PathId, state: PathState) {
        if self.paths[index].state() == state {
            return;
        }
        if self.paths[index].state() == PathState::Active {
            for (_, other) in self.paths.numbered_mut().filter(|&(other, _)| other != index) {
                other.control.lift_penalties();
            }
        }
        self.paths[index].set_state(state);
        if state != PathState::Active {
            self.paths[index].end_silence();
        }
        self.search_mtu(ctx.now, index);
        self.limit_data();
        ctx.trace
            .emit(TraceKinds::STATES, ctx.now, Some(self.id), || TraceEvent::PathState {
                path: index,
                state,
            });
        self.progress.report(Event::PathState { path: index, state });
    }

    /// Selects the path for new data: the primary path; if it is not active, another active path (RFC 9260 §6.4.1); if
    /// none is active, the potentially failed path with the lowest error count (RFC 7829 §3.2), or else the primary
    /// path. An unconfirmed address is never used (RFC 9260 §5.4).
    // [9260:6.4-1, 6.4.1-1, 8.2-4]
    pub(in crate::send) fn choose_sending_path(&mut self, ctx: &mut Context<'_>) {
        let is = |index: PathId, state| {
            let path = &self.paths[index];
            path.in_use() && path.state() == state
        };
        let all = self.paths.ids();
        let chosen = if is(self.choice.primary(), PathState::Active) {
            self.choice.primary()
        } else if is(self.choice.sending(), PathState::Active) {
            self.choice.sending()
        } else {
            all.clone()
                .find(|&index| is(index, PathState::Active))
                .or_else(|| self.least_failed())
                .or_else(|| {
                    all.filter(|&index| is(index, PathState::PotentiallyFailed))
                        .min_by_key(|&index| self.paths[index].errors())
                })
                .unwrap_or(self.confirmed_or_sending(self.choice.primary()))
        };
        let chosen = if self.policy.is_some() {
            self.ask_policy_for_path(ctx.now, chosen)
        } else {
            chosen
        };
        if chosen != self.choice.sending() {
            self.choice.switch(ctx.now, chosen);
            self.stats.path_switches += 1;
            ctx.trace
                .emit(TraceKinds::STATES, ctx.now, Some(self.id), || TraceEvent::SendingPath {
                    path: chosen,
                });
        }
    }

    /// Returns the path, or the sending path if this one is not confirmed.
    // [9260:5.4-2]
    pub(crate) fn confirmed_or_sending(&self, index: PathId) -> PathId {
        if self.paths[index].is_confirmed() {
            index
        } else {
            self.choice.sending()
        }
    }

    /// Returns the path for a control chunk that a timer of the association protects (SHUTDOWN, SHUTDOWN ACK, ASCONF).
    /// Active paths come before failed ones, then paths with fewer errors, then the next one from `from` on. After a
    /// timeout, another path of the same rank is used if there is one (RFC 9260 §6.4). `fit` selects the candidates.
    // [9260:6.4-4]
    pub(crate) fn control_path(&self, from: PathId, timed_out: bool, fit: impl Fn(&Path) -> bool) -> Option<PathId> {
        let count = self.paths.len();
        let skip = usize::from(timed_out);
        let key = |index: PathId| {
            let path = &self.paths[index];
            let rank = match path.state() {
                // The peer has not been asked yet to add the local address, so the path has not failed.
                _ if path.is_pending() => 0,
                PathState::Active => 0,
                PathState::PotentiallyFailed => 1,
                PathState::Unconfirmed | PathState::Inactive => 2,
            };
            (rank, path.errors())
        };
        (skip..skip + count)
            .map(|step| self.paths.after(from, step))
            .filter(|&index| fit(&self.paths[index]))
            .min_by_key(|&index| key(index))
    }

    /// Sets the node before the last one on the route to a path's address, or `None` if unknown. Returns false if there
    /// is no such path.
    pub(crate) fn set_last_hop(&mut self, path: PathId, node: Option<u32>) -> bool {
        let path = self.paths.get_mut(path).filter(|path| path.in_use());
        path.map(|path| path.set_last_hop(node)).is_some()
    }

    /// Sets the primary path and reports a change.
    pub(in crate::send) fn replace_primary(&mut self, primary: PathId) {
        if self.choice.set_primary(primary) {
            self.progress.report(Event::PrimaryChanged { path: primary });
        }
    }

    /// Sets the primary path (RFC 9260 §11.1.6). Returns `None` if there is no such path.
    pub(crate) fn set_primary(&mut self, ctx: &mut Context<'_>, path: PathId) -> Option<Progress> {
        self.paths.get(path).filter(|path| path.in_use())?;
        self.replace_primary(path);
        if self.policy.is_some() {
            self.inform_policy(ctx, path, PolicyEvent::Chosen);
        } else {
            self.choose_sending_path(ctx);
        }
        Some(self.take_progress())
    }

    /// The timer of a control chunk that was sent on the path has expired (RFC 9260 §8.1, §8.2; RFC 5061 §5.1.1).
    pub(crate) fn on_control_timeout(&mut self, ctx: &mut Context<'_>, index: PathId) -> Progress {
        self.paths[index].rtt.back_off();
        self.count_path_error(ctx, index, true);
        self.take_progress()
    }

    /// A control chunk that was sent on the path has been answered.
    pub(crate) fn on_control_answered(&mut self, index: PathId) {
        self.clear_errors();
        self.paths[index].clear_errors();
    }

    /// The path has responded to a packet that another part has sent.
    pub(crate) fn on_answer(&mut self, ctx: &mut Context<'_>, index: PathId) -> Progress {
        self.path_answered(ctx, index);
        self.take_progress()
    }

    /// A HEARTBEAT is put into a packet. Returns whether nothing may follow it there.
    pub(crate) fn on_heartbeat_sent(&mut self, now: Time, index: PathId) -> bool {
        self.paths[index].heartbeat.on_sent(now);
        // With data, the packet might be too long to arrive.
        self.paths[index].black_hole.is_some()
    }

    /// Starts the verification of unconfirmed paths and the heartbeats on idle paths (RFC 9260 §5.4, §8.3). A path that the user has listed is
    /// confirmed without a HEARTBEAT. Where data may be sent on several paths, a HEARTBEAT measures it at once: a path without a
    /// round-trip time cannot be compared with others, and would stay unused until HB.interval is over.
    // [9260:8.3-1]
    pub(in crate::send) fn start_heartbeats(&mut self, ctx: &mut Context<'_>) {
        for index in self.paths.ids() {
            if !self.paths[index].in_use() {
                continue;
            }
            let verify = self.paths[index].state() == PathState::Unconfirmed;
            let random = ctx.random.next_u64();
            let next = self.next_heartbeat(index, ctx.now, random);
            // Never without heartbeats, and with a timer that all paths share.
            let measure = self.is_spread() && next != NEVER && self.paths[index].rtt.srtt().is_none();
            let heartbeat = &mut self.paths[index].heartbeat;
            heartbeat.last_probe = ctx.now;
            heartbeat.pending = None;
            heartbeat.requested |= measure && index != self.choice.sending();
            heartbeat.timer = if verify || heartbeat.requested { ctx.now } else { next };
        }
        if self.shares_heartbeat_timer() {
            self.start_shared_heartbeat_timer(ctx, self.choice.primary());
        }
        self.search_mtus(ctx.now);
        self.measure_with_data();
        if !self.is_idle() {
            self.measure_paths(ctx.now);
        }
    }

    /// With the next message, paths without a round-trip time are measured: that of the handshake at the end that has answered, and a path that
    /// was alone. Otherwise data would take the measured ones only.
    pub(in crate::send) fn measure_with_data(&mut self) {
        if let Some(spread) = &mut self.spread {
            spread.measures = true;
        }
    }

    /// The user has sent a message.
    pub(in crate::send) fn measure_paths(&mut self, now: Time) {
        let is_due = |spread: &mut Box<Spread>| core::mem::take(&mut spread.measures);
        if !self.spread.as_mut().is_some_and(is_due) || !self.is_spread() || self.config.path_hb_interval.is_zero() {
            return;
        }
        if self.paths.iter().filter(|path| path.in_use()).count() < 2 {
            return;
        }
        for index in self.paths.ids() {
            let path = &self.paths[index];
            if path.in_use() && path.is_confirmed() && path.rtt.srtt().is_none() {
                self.probe_soon(now, index);
            }
        }
    }

    /// Requests a heartbeat now (RFC 9260 §11.1.10). Returns false if there is no such path.
    pub(crate) fn request_heartbeat(&mut self, ctx: &mut Context<'_>, path: PathId) -> bool {
        let Some(path) = self.paths.get_mut(path).filter(|path| path.in_use()) else {
            return false;
        };
        path.heartbeat.requested = true;
        if path.heartbeat.pending.is_none() {
            path.heartbeat.timer = ctx.now;
        }
        true
    }

    /// The heartbeat timer of a path expired. Returns whether the path has been idle for the shortest period of heartbeats.
    // [9260:8.3-13, 8.3-14]
    pub(crate) fn on_heartbeat_timer(&mut self, ctx: &mut Context<'_>, index: PathId) -> (bool, Progress) {
        let unanswered = self.paths[index].heartbeat.pending.take().is_some();
        if unanswered {
            self.on_heartbeat_unanswered(ctx, index);
            if self.progress.end.is_some() {
                return (false, self.take_progress());
            }
        }
        let random = ctx.random.next_u64();
        let interval = self.config.path_hb_interval;
        let again = unanswered && self.shares_heartbeat_timer();
        let all_waits_for_it = self.is_held() && index == self.choice.sending();
        let path = &mut self.paths[index];
        let rto = path.rtt.rto();
        let must_probe = path.heartbeat.requested
            || path.is_silent()
            || again
            || all_waits_for_it
            || path.is_probed() && path.state() != PathState::Inactive
            || path.state() == PathState::PotentiallyFailed
            // Disabled by the policy only: without heartbeats the path would never become active again.
            || path.state() == PathState::Inactive && self.config.hb_interval.is_zero() && path.errors() <= self.config.path_max_retrans
            || (path.state() == PathState::Unconfirmed && path.errors() <= self.config.path_max_retrans);
        // The shortest period. A path with traffic within it is not idle.
        let is_idle = !interval.is_zero() && ctx.now >= path.heartbeat.last_probe + interval + rto / 2;
        if must_probe || is_idle {
            self.send_heartbeat(ctx, index);
        } else {
            let idle_since = self.paths[index].heartbeat.last_probe;
            self.paths[index].heartbeat.timer = self.next_heartbeat(index, idle_since, random);
        }
        (is_idle, self.take_progress())
    }

    /// Returns when the next heartbeat of a path is due that is idle since `from`; never if heartbeats are off.
    fn next_heartbeat(&self, index: PathId, from: Time, random: u64) -> Time {
        let interval = self.config.path_hb_interval;
        if interval.is_zero() {
            return NEVER;
        }
        let rto = self.paths[index].rtt.rto();
        next_heartbeat(from, interval, rto, random, self.config.hb_alignment)
    }

    // [9260:5.4-1]
    fn send_heartbeat(&mut self, ctx: &mut Context<'_>, index: PathId) {
        // RFC 9260 §5.4: HB.Max.Burst limits the probes of unconfirmed addresses in one RTO.
        if !self.paths[index].is_confirmed() {
            let unanswered = |path: &&Path| !path.is_confirmed() && path.heartbeat.pending.is_some();
            if self.paths.iter().filter(unanswered).count() >= self.config.hb_max_burst as usize {
                let soonest = self
                    .paths
                    .iter()
                    .filter(unanswered)
                    .map(|path| path.heartbeat.timer)
                    .min();
                let rto = self.paths[index].rtt.rto();
                self.paths[index].heartbeat.timer =
                    soonest.map_or(ctx.now + rto, |at| at.max(ctx.now + Span::from_nanos(1)));
                return;
            }
            // Addresses with fewer probes come first, so that an unreachable address does not delay the verification of
            // the others.
            let errors = self.paths[index].errors();
            let waits_longer = |path: &Path| {
                path.in_use()
                    && path.state() == PathState::Unconfirmed
                    && path.heartbeat.pending.is_none()
                    && path.errors() < errors
            };
            if self.paths.iter().any(waits_longer) {
                for path in self.paths.iter_mut().filter(|path| waits_longer(path)) {
                    path.heartbeat.timer = ctx.now;
                }
                self.paths[index].heartbeat.timer = ctx.now + self.paths[index].rtt.rto();
                return;
            }
        }
        self.begin_heartbeat(ctx, index);
    }

    /// Bundles a HEARTBEAT with a COOKIE ACK (RFC 9260 §5.4). If one is outstanding, it is sent again.
    // [9260:5.4-3]
    pub(crate) fn bundle_heartbeat(&mut self, ctx: &mut Context<'_>, index: PathId) {
        if self.paths[index].heartbeat.pending.is_none() {
            self.begin_heartbeat(ctx, index);
        }
        if let Some(nonce) = self.paths[index].heartbeat.pending {
            self.outgoing.push_first(index, Outgoing::Heartbeat { nonce });
        }
    }

    // [9260:3.3.5-1, 3.3.5-2, 3.3.5-3, 8.3-6]
    pub(in crate::send) fn begin_heartbeat(&mut self, ctx: &mut Context<'_>, index: PathId) {
        if !self.paths[index].in_use() {
            self.paths[index].heartbeat.timer = NEVER;
            return;
        }
        let rto = self.paths[index].timeout();
        self.stats.probes += u64::from(self.paths[index].is_probed());
        let nonce = ctx.random.next_u64();
        let path = &mut self.paths[index];
        path.heartbeat.begin(nonce);
        path.heartbeat.last_probe = ctx.now;
        path.heartbeat.timer = ctx.now + rto;
        self.outgoing.push(index, Outgoing::Heartbeat { nonce });
        self.stats.heartbeats_sent += 1;
    }

    /// Handles the timeout of a heartbeat (RFC 9260 §8.3).
    fn on_heartbeat_unanswered(&mut self, ctx: &mut Context<'_>, index: PathId) {
        self.trace_timer(ctx, TimerKind::Heartbeat, Some(index));
        if core::mem::take(&mut self.paths[index].heartbeat.asks_about_mtu) {
            // The timeout of the data that it followed has counted already.
            return;
        }
        // Two timers of one failure must not double the RTO twice, nor count it twice.
        let asked_in_silence = self.paths[index].take_question();
        if asked_in_silence && self.paths[index].has_failed_since_heartbeat() {
            return;
        }
        self.back_off(ctx, index);
        let path = &self.paths[index];
        // RFC 9260 §5.4 and §8.1: probes of paths that are unconfirmed or not in use do not count for the association.
        // They do count while all data waits for the verification, because nothing else would end the association.
        // That of a silent path takes the place of the timeout of its data.
        let counts = index == self.choice.sending() && (path.state() != PathState::Unconfirmed || self.is_held());
        self.count_path_error(ctx, index, counts || asked_in_silence);
        if asked_in_silence {
            self.paths[index].note_counted();
        }
    }

    /// Data has arrived on a path that was silent: that its HEARTBEAT was lost means nothing more.
    pub(in crate::send) fn withdraw_question(&mut self, ctx: &mut Context<'_>, path: PathId) {
        if !self.paths[path].take_question() || self.paths[path].state() != PathState::Active {
            return;
        }
        let next = self.next_heartbeat(path, ctx.now, ctx.random.next_u64());
        let heartbeat = &mut self.paths[path].heartbeat;
        heartbeat.requested = false;
        heartbeat.pending = None;
        heartbeat.timer = next;
    }

    /// Returns whether this Heartbeat Info answers the HEARTBEAT that is under way on the path.
    pub(crate) fn awaits_answer(&self, path: PathId, info: &[u8]) -> bool {
        let content = HeartbeatContent::from_bytes(info).filter(|content| content.path == path);
        content.is_some_and(|content| self.paths[path].heartbeat.pending == Some(content.nonce))
    }

    /// Handles a HEARTBEAT ACK (RFC 9260 §8.3) from this address.
    // [9260:8.1-6, 8.3-11, 8.3-12]
    pub(crate) fn on_heartbeat_ack(
        &mut self,
        ctx: &mut Context<'_>,
        remote: TransportAddr,
        info: &[u8],
    ) -> Result<Progress, Discard> {
        if info.len() > HEARTBEAT_INFO_LEN {
            return self.on_probe_answer(ctx, info);
        }
        let content = HeartbeatContent::from_bytes(info).ok_or(Discard::InvalidChunk)?;
        let index = content.path;
        if self.on_mtu_probe_answer(ctx.now, &content) {
            return Ok(self.take_progress());
        }
        let path = self.paths.get_mut(index).ok_or(Discard::InvalidChunk)?;
        if path.heartbeat.pending != Some(content.nonce) || !path.takes_answer_from(&remote) {
            return Err(Discard::Unexpected);
        }
        path.heartbeat.pending = None;
        path.heartbeat.asks_about_mtu = false;
        path.on_life(ctx.now);
        self.end_silence(ctx.now, index);
        let path = &mut self.paths[index];
        if let Some(suspicion) = &mut path.black_hole {
            suspicion.on_heartbeat_acked();
        }
        let random = ctx.random.next_u64();
        let rtt = path.heartbeat.round_trip(ctx.now);
        self.errors = 0;
        // RFC 9260 §8.2 clears the path's error counter, and §6.3.1 the back-off of its timer. Where short packets arrive and data does not,
        // the same data would then be sent once in an RTO.Min, and the path would never fail (decision 0029).
        let data_waits = !self.outstanding.is_empty() && !self.window.is_probed();
        path.unanswered.on_heartbeat_acked(data_waits);
        let counts_for_data = !path.unanswered.is_doubted();
        if let Some(rtt) = rtt.filter(|_| counts_for_data) {
            self.on_heartbeat_rtt(ctx, index, rtt);
        }
        self.paths[index].heartbeat.timer = self.next_heartbeat(index, ctx.now, random);
        if counts_for_data {
            self.path_answered(ctx, index);
        } else {
            // The path may be used, and fails again with the next timeout.
            let limit = self.config.potentially_failed_max_retrans.unwrap_or(u32::MAX);
            let path = &mut self.paths[index];
            path.limit_errors(self.config.path_max_retrans.min(limit));
            self.path_responds(ctx, index);
        }
        self.end_probe(index);
        let rtt = rtt.or(self.paths[index].rtt.srtt()).unwrap_or_default();
        self.inform_policy(ctx, index, PolicyEvent::Answered { rtt });
        // The next unconfirmed address can be verified without waiting for a timeout.
        for path in self.paths.iter_mut() {
            if path.state() == PathState::Unconfirmed && path.heartbeat.pending.is_none() {
                path.heartbeat.timer = path.heartbeat.timer.min(ctx.now);
            }
        }
        self.allow_burst();
        Ok(self.take_progress())
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::Time;

    use super::*;
    use crate::send::testing;

    #[test]
    fn the_failure_of_a_path_ends_the_penalties_of_the_others() {
        let mut sending = testing::sending(2);
        let (fast, slow) = (PathId(0), PathId(1));
        testing::with_context(Time::ZERO, |ctx| {
            for path in [fast, slow] {
                sending.set_path_state(ctx, path, PathState::Active);
                sending.paths[path].control.penalise();
            }
            let [of_fast, of_slow] = [fast, slow].map(|path| sending.paths[path].control.ssthresh());
            assert!(of_slow < u64::MAX);
            sending.set_path_state(ctx, fast, PathState::PotentiallyFailed);
            assert_eq!(sending.paths[slow].control.ssthresh(), u64::MAX);
            assert_eq!(
                sending.paths[fast].control.ssthresh(),
                of_fast,
                "the others wait for it still"
            );
        });
    }
}
