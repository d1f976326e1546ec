//! Packets and datagrams over an association: dropped, as a router does, if too much is waiting, and given up when they are late.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use whimbrel::{Association, Message, PathInfo, PathState, Reliability, Span};

use super::order::LONGEST_WAIT;
use super::protocol::in_order_message;

/// Bytes that may wait in the send buffer at least.
const LEAST_WAITING: u64 = 128 * 1024;
/// Time between two looks at the paths.
const LOOK: Duration = Duration::from_millis(20);

/// What a packet waits beside round-trip times: the peer's timers, and its scheduler.
const SLACK: Duration = Duration::from_millis(30);
/// How long a packet waits as long as no path has been measured.
const FIRST_WAIT: Duration = Duration::from_millis(300);
/// How long a datagram is retransmitted at least, beside round-trip times: one that is lost alone may be missed after a minimum RTO only.
const DATAGRAM_LIFE: Duration = Duration::from_secs(1);

/// An association that takes as many packets as its paths carry. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Distinguishes it from others.
    pub(crate) number: u64,
    pub(crate) association: Association,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    looked: Option<Instant>,
    /// Bytes that may be in the send buffer.
    most: u64,
    /// How long packets wait for earlier ones of their flow.
    wait: Duration,
    /// The number of the next packet of each flow that was used.
    flows: BTreeMap<u16, u32>,
}

impl State {
    fn look(&mut self, association: &Association, now: Instant) {
        if self.looked.is_some_and(|at| now.duration_since(at) < LOOK) {
            return;
        }
        self.looked = Some(now);
        let all = association.paths();
        let works = |path: &&PathInfo| path.state == PathState::Active;
        // The last times of a path that has failed say nothing.
        let active: Vec<_> = all.iter().filter(works).collect();
        let paths = if active.is_empty() {
            all.iter().collect()
        } else {
            active
        };
        let measured = || {
            paths
                .iter()
                .filter_map(|path| Some((path.cwnd, Duration::from_nanos(path.srtt?.as_nanos()))))
        };
        let slowest = measured().map(|(_, round)| round).max();
        self.most = most_waiting(measured(), slowest.unwrap_or_default());
        self.wait = slowest.map_or(FIRST_WAIT, wait);
    }
}

/// Returns how many bytes may be in the send buffer, by the windows and round-trip times of the paths: what all paths carry in the longest
/// round-trip time, twice. With less, connections would slow down before the scheduler uses a slow path: it lets packets wait for the fast one as
/// long as they arrive earlier on it. More would only delay packets.
fn most_waiting(paths: impl Iterator<Item = (u64, Duration)>, slowest: Duration) -> u64 {
    let slowest = slowest.min(LONGEST_WAIT);
    let carried = paths.map(|(window, round)| window as f64 * slowest.as_secs_f64() / round.as_secs_f64().max(1e-6));
    let carried: f64 = carried.sum();
    ((2.0 * carried) as u64).max(LEAST_WAITING)
}

/// Returns how long a packet waits for earlier ones of its flow, by the round-trip time of the slowest path. A packet lost there is missed after
/// about one round-trip time, and its retransmission has arrived within the second.
fn wait(slowest: Duration) -> Duration {
    (slowest * 2 + SLACK).min(LONGEST_WAIT)
}

impl Link {
    pub(crate) fn new(association: Association) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Link {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            association,
            state: Arc::default(),
        }
    }

    /// Returns the state, of which what depends on the paths is not old.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.look(&self.association, Instant::now());
        state
    }

    /// Sends a message if there is room. Returns whether it has been sent. The task that serves the association reports its end.
    pub(crate) fn offer(&self, message: impl FnOnce() -> Message) -> bool {
        let room = self.state().most;
        self.has_room(room) && self.association.try_send(message()).is_ok()
    }

    /// As [`offer`](Self::offer), for a message that is given up when it is late.
    pub(crate) fn offer_in_time(&self, message: impl FnOnce() -> Message) -> bool {
        let (room, wait) = {
            let state = self.state();
            (state.most, state.wait)
        };
        self.has_room(room) && self.send_for(wait * 2 + DATAGRAM_LIFE, message())
    }

    /// Sends a packet of a flow whose packets must not overtake each other, likewise.
    pub(crate) fn offer_in_order(&self, flow: u16, packet: &[u8]) -> bool {
        let mut state = self.state();
        let wait = state.wait;
        if !self.has_room(state.most) {
            return false;
        }
        // The lock is kept, so that the numbers are in the order of the messages.
        let next = state.flows.entry(flow).or_default();
        let message = in_order_message(flow, *next, wait.as_millis() as u16, packet);
        // It may wait in the send buffer for as long, and then be lost. Later, the others do not wait for it.
        let is_sent = self.send_for(wait * 2, message);
        // The peer waits for no packet that was not sent.
        *next = next.wrapping_add(u32::from(is_sent));
        is_sent
    }

    fn has_room(&self, most: u64) -> bool {
        (self.association.buffered() as u64) < most
    }

    /// Sends a message that is given up after this time.
    fn send_for(&self, life: Duration, mut message: Message) -> bool {
        message.reliability = Reliability::Lifetime(Span::from_nanos(life.as_nanos() as u64));
        self.association.try_send(message).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_wait_for_as_long_as_the_slowest_path_needs_and_not_for_ever() {
        assert_eq!(wait(Duration::from_millis(50)), Duration::from_millis(130));
        assert_eq!(wait(Duration::from_secs(60)), LONGEST_WAIT);
    }

    #[test]
    fn as_much_may_wait_as_the_paths_carry_in_two_of_the_longest_round_trip_times() {
        let ms = Duration::from_millis;
        let most = |paths: &[(u64, Duration)], slowest| most_waiting(paths.iter().copied(), slowest);
        assert_eq!(most(&[(1_000_000, ms(20))], ms(20)), 2_000_000);
        assert_eq!(most(&[(1_000_000, ms(20)), (500_000, ms(80))], ms(80)), 9_000_000);
        assert_eq!(
            most(&[(1_000_000, ms(20))], ms(60_000)),
            100_000_000,
            "one second is enough"
        );
        assert_eq!(most(&[], ms(0)), LEAST_WAITING);
        assert_eq!(most(&[(3000, ms(20))], ms(20)), LEAST_WAITING);
        assert!(most(&[(u64::MAX, ms(0))], ms(1000)) > 1 << 60);
    }
}
