//! Concurrent use of several paths: the view of each path for the parts, the choice of the path for new data, and the
//! coupling of the congestion windows.
//!
//! The standard's distribution needs no state: new data is sent on the sending path (RFC 9260 §6.4).

use whimbrel_control::multipath::coupling::Couple;
use whimbrel_control::multipath::distribution::Demand;
use whimbrel_control::multipath::{BufferSplit, PathView};
use whimbrel_control::{BuildContext, Time};
use whimbrel_wire::COMMON_HEADER_LEN;

use crate::PathId;
use crate::send::Sending;
use crate::send::multipath::Spread;

impl Sending {
    /// Whether every chunk is sent on every path.
    pub(in crate::send) fn is_redundant(&self) -> bool {
        self.spread.as_ref().is_some_and(|spread| spread.is_redundant)
    }

    /// Starts the concurrent use of several paths, if the scheme requires it and there is more than one path.
    pub(in crate::send) fn start_spread(&mut self) {
        if self.spread.is_some() || self.paths.len() < 2 {
            return;
        }
        let context = BuildContext {
            truth: self.truth().cloned(),
        };
        let config = self.config.clone();
        let parts = &config.parts;
        let distribution = parts.distribution.build_unless_default(&context);
        let coupling = parts.coupling.build_unless_default(&context);
        if distribution.is_none() && coupling.is_none() {
            return;
        }
        let mut spread = Spread::new(distribution, coupling, parts.buffer_split, self.paths.len());
        // Without heartbeats nothing would show that a path works again.
        spread.leaves_silent_paths = parts.leave_silent_paths
            && parts.opportunistic_retransmission
            && spread.distribution.is_some()
            && !spread.is_redundant
            && !self.config.path_hb_interval.is_zero();
        if spread.is_redundant || self.config.parts.opportunistic_retransmission {
            self.outstanding.allow_copies();
        }
        if spread.is_redundant && self.agreed.identities {
            self.outstanding.identify_by_echoes();
        }
        self.spread = Some(Box::new(spread));
    }

    /// Returns whether new data may be sent on several paths concurrently.
    #[inline]
    pub(crate) fn is_spread(&self) -> bool {
        self.spread.as_ref().is_some_and(|spread| spread.distribution.is_some())
    }

    /// Returns whether new data may be sent on a path: it is confirmed and active, or the sending path while no path is
    /// active.
    pub(in crate::send) fn is_usable(&self, index: PathId) -> bool {
        let is_active = |index: PathId| {
            let path = &self.paths[index];
            path.is_confirmed() && path.is_active()
        };
        let stands_in = || index == self.choice.sending() && !self.paths.ids().any(is_active);
        !self.paths[index].is_probed() && (is_active(index) || stands_in())
    }

    /// Returns whether new data may be sent on a path, and what was sent there is acknowledged in time.
    pub(in crate::send) fn answers(&self, index: PathId) -> bool {
        self.is_usable(index) && !self.paths[index].is_silent()
    }

    /// Returns the room for chunks in a packet of data on a path.
    pub(in crate::send) fn room_on(&self, index: PathId) -> usize {
        self.paths[index].max_packet() - COMMON_HEADER_LEN - self.stamp_len() - usize::from(self.agreed.auth_len)
    }

    /// Returns whether a path is within its share of the buffers that all paths share.
    fn split_allows(&self, split: BufferSplit, index: PathId) -> bool {
        let (sender, receiver) = match split {
            BufferSplit::None => return true,
            BufferSplit::Sender => (true, false),
            BufferSplit::Receiver => (false, true),
            BufferSplit::Both => (true, true),
        };
        let count = self.paths.ids().filter(|&path| self.is_usable(path)).count().max(1) as u64;
        // Every path may use one packet, however small the buffers are.
        let (held, flight) = (self.outstanding.data_held_of(index), self.outstanding.flight(index));
        let sent = held + u64::from(self.max_data);
        let flight_after = flight + self.paths[index].control.unit();
        let theirs = u64::from(self.window.advertised());
        !(sender && held > 0 && sent > self.send_limit() as u64 / count
            || receiver && flight > 0 && flight_after > theirs / count)
    }

    /// Returns the view of a path for the parts.
    pub(in crate::send) fn view(&self, now: Time, index: PathId) -> PathView {
        let (path, id) = (&self.paths[index], index);
        let usable = self.is_usable(index);
        PathView {
            usable,
            open: usable
                && path.may_burst()
                && self.window_open(index)
                && self.buffers_hold_more(index)
                && path.pacer_is_open(now)
                && self.next_new_len(self.room_on(index)).is_some(),
            cwnd: path.control.cwnd(),
            ssthresh: path.control.ssthresh(),
            flight: self.outstanding.flight(id),
            unit: path.control.unit(),
            srtt: path.rtt.srtt(),
            rttvar: path.rtt.rttvar(),
            min_rtt: path.rtt.min_rtt(),
            rto: path.rtt.rto(),
            loss: path.quality.losses.share(),
            errors: path.errors(),
            last_hop: path.last_hop(),
        }
    }

    /// Returns the path for the next packet of new data. `blocked`: a path whose retransmissions wait for cwnd and have
    /// priority.
    // [9260:6.1-13]
    pub(in crate::send) fn distribute(&mut self, now: Time, blocked: Option<PathId>) -> Option<PathId> {
        for index in self.paths.ids() {
            if self.outstanding.chunks_in_flight(index) == 0 && !self.paths[index].is_probed() {
                self.paths[index].decay_if_idle(now);
            }
        }
        // Taken out temporarily, because the call needs all of `Sending`.
        let mut spread = self.spread.take()?;
        let chosen = self.ask(now, blocked, &mut spread);
        self.spread = Some(spread);
        chosen
    }

    fn ask(&mut self, now: Time, blocked: Option<PathId>, spread: &mut Spread) -> Option<PathId> {
        spread.views.clear();
        let mut any_open = None;
        let may_leave = spread.leaves_silent_paths && self.paths.ids().any(|path| self.answers(path));
        for index in self.paths.ids() {
            let mut view = self.view(now, index);
            // While its window is open, a copy of what a silent path takes follows on another one. Once its HEARTBEAT is late too, no data
            // waits for its window.
            if may_leave && !view.open && self.paths[index].is_silent() {
                let at = self.paths[index].left_at();
                view.usable &= now < at;
                if view.usable {
                    self.paths[index].release_at(at);
                }
            }
            let (_, rest_until) = self.paths[index].penalty();
            if view.open && rest_until > now {
                view.open = false;
                let path = &mut self.paths[index];
                path.release_at(rest_until);
            }
            view.open &= blocked != Some(index) && self.split_allows(spread.buffer_split, index);
            if view.open {
                any_open = any_open.or(Some(index));
            } else if view.usable && blocked != Some(index) && self.window_open(index) {
                // If the path waits only for the pacer, this records when the wait ends.
                self.paths[index].is_its_time(now);
            }
            spread.views.push(view);
        }
        // The distribution is not asked if no path can send.
        let any_open = any_open?;
        let sending = self.choice.sending();
        if self.window.may_probe() {
            // A closed receive window is probed on the sending path, as in the standard.
            return Some(if spread.views[sending.index()].open {
                sending
            } else {
                any_open
            });
        }
        let distribution = spread.distribution.as_mut()?;
        let chosen = distribution.choose(&self.demand(now), &spread.views).map(PathId::at);
        let is_open = |&index: &PathId| spread.views.get(index.index()).is_some_and(|view| view.open);
        // A distribution may wait for an acknowledgement or a timer, but only if data is in flight.
        chosen
            .filter(is_open)
            .or_else(|| self.outstanding.nothing_in_flight().then_some(any_open))
    }

    /// Returns the factor for the growth of a path's window by an acknowledgement of `acked` bytes. 1 is uncoupled
    /// growth.
    #[inline]
    pub(in crate::send) fn coupled_growth(&mut self, now: Time, index: PathId, acked: u64) -> f64 {
        let in_slow_start = self.paths[index].control.in_slow_start();
        self.ask_coupling(now, |coupling, paths| {
            coupling.on_delivered(index.index(), acked);
            if in_slow_start {
                coupling.slow_start_growth(index.index(), paths)
            } else {
                coupling.growth(index.index(), paths)
            }
        })
        .unwrap_or(1.0)
    }

    /// Returns the window of a path after congestion, if a coupling determines it. `reacted`: the reaction to this
    /// window of data has already taken place. The coupling is informed only of the first loss of a window.
    pub(in crate::send) fn coupled_window(&mut self, now: Time, index: PathId, reacted: bool) -> Option<u64> {
        if reacted {
            return None;
        }
        let epochs = self.epochs(index);
        let goes_on = epochs.recovery.is_active() || epochs.reduced.is_active();
        let is_first = !goes_on && !self.paths[index].is_marked();
        self.ask_coupling(now, |coupling, paths| {
            if is_first {
                coupling.on_loss(index.index());
            }
            coupling.reduced(index.index(), paths)
        })?
    }

    fn ask_coupling<R>(&mut self, now: Time, ask: impl FnOnce(&mut dyn Couple, &[PathView]) -> R) -> Option<R> {
        // Taken out temporarily, because the call needs all of `Sending`.
        let mut spread = self.spread.take()?;
        let answer = spread.coupling.as_mut().map(|coupling| {
            spread.views.clear();
            spread.views.extend(self.paths.ids().map(|index| self.view(now, index)));
            ask(coupling.as_mut(), &spread.views)
        });
        self.spread = Some(spread);
        answer
    }

    fn demand(&self, now: Time) -> Demand {
        Demand {
            now,
            queued: self.queue.bytes() as u64,
            in_flight: self.outstanding.data_in_flight(),
            window: self.peer_rwnd().into(),
            unacknowledged: self.outstanding.data_held(),
            send_buffer: self.send_limit() as u64,
            sending: self.choice.sending().index(),
        }
    }

    /// Informs the distribution if nothing can be sent because the shared buffers are full.
    pub(crate) fn note_stall(&mut self, now: Time) {
        if !self.is_stalled() || !self.any_window_open() {
            return;
        }
        let Some(mut spread) = self.spread.take() else {
            return;
        };
        spread.views.clear();
        spread.views.extend(self.paths.ids().map(|index| self.view(now, index)));
        if let Some(distribution) = &mut spread.distribution {
            distribution.on_stall(&self.demand(now), &spread.views);
        }
        self.spread = Some(spread);
    }

    /// Returns whether the buffers that all paths share are full.
    pub(in crate::send) fn is_stalled(&self) -> bool {
        let sender_full = self.queue.is_empty() && self.wants_space;
        let receiver_full = !self.queue.is_empty() && !self.may_send_new();
        sender_full || receiver_full
    }

    /// Returns whether the peer's rwnd allows new data on some path.
    pub(in crate::send) fn may_send_new(&self) -> bool {
        if !self.is_spread() {
            return self.next_new_len(self.room_on(self.choice.sending())).is_some();
        }
        self.paths
            .ids()
            .any(|index| self.is_usable(index) && self.next_new_len(self.room_on(index)).is_some())
    }

    /// Returns whether cwnd allows data on a path that takes new data.
    pub(in crate::send) fn any_window_open(&self) -> bool {
        if !self.is_spread() {
            return self.window_open(self.choice.sending());
        }
        self.paths
            .ids()
            .any(|index| self.is_usable(index) && self.window_open(index))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::send::testing;

    /// Counts the losses and the requests for a window.
    #[derive(Clone, Debug, Default)]
    struct Counts(Arc<Mutex<(u32, u32)>>);

    impl Couple for Counts {
        fn growth(&mut self, _path: usize, _paths: &[PathView]) -> f64 {
            1.0
        }

        fn on_loss(&mut self, _path: usize) {
            self.0.lock().unwrap().0 += 1;
        }

        fn reduced(&mut self, _path: usize, _paths: &[PathView]) -> Option<u64> {
            self.0.lock().unwrap().1 += 1;
            Some(1468)
        }
    }

    #[test]
    fn a_coupling_receives_only_the_first_loss_of_a_window() {
        let mut sending = testing::sending(2);
        let counts = Counts::default();
        sending.spread = Some(testing::spread(None, Some(Box::new(counts.clone()))));
        let now = Time::from_nanos(1);
        let ask = |sending: &mut Sending, reacted| {
            let window = sending.coupled_window(now, PathId(1), reacted);
            (window, core::mem::take(&mut *counts.0.lock().unwrap()))
        };
        assert_eq!(ask(&mut sending, false), (Some(1468), (1, 1)));
        // In fast recovery a loss is not the first one, but a window may still be requested, as after a transmission
        // loss.
        sending.epochs_mut(PathId(1)).recovery.enter(5);
        assert_eq!(ask(&mut sending, false), (Some(1468), (0, 1)));
        sending.epochs_mut(PathId(1)).recovery.leave();
        sending.epochs_mut(PathId(1)).reduced.enter(5);
        assert_eq!(ask(&mut sending, false), (Some(1468), (0, 1)));
        assert_eq!(ask(&mut sending, true), (None, (0, 0)));
        sending.epochs_mut(PathId(1)).leave();
        assert_eq!(ask(&mut sending, false), (Some(1468), (1, 1)));
    }
}
