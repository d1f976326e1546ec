//! What the driver task and the handles of users share.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Instant;

use tokio::sync::Notify;
use whimbrel_control::Time;
use whimbrel_proto::{
    AssocId, Association, CloseReason, Discard, Endpoint, Event, PathInfo, Received, SendFailure, SendFailureCause,
    State as AssociationState,
};

use crate::environment::Clock;
use crate::opened::Opened;
use crate::paths::PathWatch;
use crate::stream_changes::StreamChanges;
use crate::transport::{Socket, Trouble};

/// Send failures that are kept for a user who does not ask; more are only counted.
const MAX_SEND_FAILURES: usize = 1 << 16;

/// Why an association without a user is aborted.
const ABANDONED: &str = "the association was dropped";
/// Why an association that came too late is aborted.
const NOT_LISTENING: &str = "no program accepts associations any more";

/// A stack's state and clock.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) clock: Clock,
    /// An association waits to be accepted, or none will come any more.
    pub(crate) incoming: Notify,
    /// An association has ended.
    pub(crate) idle: Notify,
}

pub(crate) struct State {
    pub(crate) endpoint: Endpoint,
    pub(crate) slots: BTreeMap<AssocId, Slot>,
    /// Established by peers and not yet accepted.
    pub(crate) incoming: VecDeque<AssocId>,
    /// Whether there is a listener that will accept them.
    listens: bool,
    /// Bytes of memory for received data, of all associations, and what [`Slot::held`] returns of it.
    memory_limit: u64,
    pub(crate) held_memory: u64,
    /// Handles that users hold; the driver ends without them.
    pub(crate) handles: usize,
    /// Set once the driver is gone.
    pub(crate) stopped: Option<String>,
    /// Datagrams and chunks not processed, by reason.
    pub(crate) discards: BTreeMap<Discard, u64>,
    driver: Option<Waker>,
    /// The addresses that the stack has, and sockets that the driver is to take in or to close.
    pub(crate) local: Vec<SocketAddr>,
    pub(crate) changes: VecDeque<SocketChange>,
    /// What the system has granted for the buffers of the sockets bound at first.
    pub(crate) socket_buffers: Vec<(SocketAddr, usize, usize)>,
    /// Paths whose addresses a trace has not taken yet; none without a trace.
    pub(crate) traced_paths: Option<Vec<(AssocId, PathInfo)>>,
    /// Addresses that were given up, and whose sockets still listen for what peers send there.
    pub(crate) leaving: Vec<SocketAddr>,
}

/// A socket that comes or goes.
#[derive(Debug)]
pub(crate) enum SocketChange {
    Add(Arc<dyn Socket>),
    Remove(SocketAddr),
}

/// What is kept of an association beside the endpoint's own state.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) signals: Arc<Signals>,
    pub(crate) progress: Progress,
    /// The message that the endpoint hands over in parts.
    pub(crate) partial: Partial,
    /// Only if streams are read as bytes.
    pub(crate) opened: Option<Box<Opened>>,
    /// When its user got a message last, or when it began.
    pub(crate) last_message: Time,
    /// It was up, whatever has become of it since.
    pub(crate) was_established: bool,
    /// Our user wants the association shut down.
    pub(crate) shutdown_wanted: bool,
    /// The peer has begun the shutdown.
    pub(crate) peer_shutdown: bool,
    /// Messages that were given up and not yet reported to the user: the first of them, and the number of those that should have arrived.
    pub(crate) send_failures: Vec<SendFailure>,
    pub(crate) failed: u64,
    /// The address of ours that is to be the primary one, and cannot yet.
    pub(crate) wanted: Option<SocketAddr>,
    /// Only if the user reads path events.
    pub(crate) watch: Option<Box<PathWatch>>,
    pub(crate) streams: StreamChanges,
    /// No user holds a handle any more.
    orphan: bool,
    /// While connecting: the peer's addresses and what the network said about each.
    pub(crate) troubles: Vec<(SocketAddr, Option<Trouble>)>,
}

impl Slot {
    /// Bytes of received data that are held here and no longer by the endpoint.
    pub(crate) fn held(&self) -> u64 {
        self.partial.memory() + self.opened.as_ref().map_or(0, |opened| opened.bytes() as u64)
    }
}

/// Messages that the core hands over in parts, as far as they have been. Without interleaving there is at most one.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    /// By stream, and whether it is unordered.
    begun: BTreeMap<(u16, bool), Vec<u8>>,
    memory: u64,
}

impl Partial {
    /// Takes in what has just been handed over. True if `data` is a whole message now; others may come whole between the parts of one, and
    /// with interleaving in parts.
    pub(crate) fn take(&mut self, received: &Received, data: &mut Vec<u8>, interleaves: impl FnOnce() -> bool) -> bool {
        let of = (received.stream, received.unordered);
        if received.given_up {
            self.remove(of);
            return false;
        }
        // An earlier one is never ended if the peer has restarted.
        if received.begin && !received.end && !interleaves() {
            *self = Partial::default();
        } else if received.begin {
            self.remove(of);
        }
        if received.begin && received.end {
            return true;
        }
        let content = self.begun.entry(of).or_default();
        self.memory -= content.capacity() as u64;
        content.append(data);
        self.memory += content.capacity() as u64;
        if received.end {
            *data = self.remove(of);
        }
        received.end
    }

    fn remove(&mut self, of: (u16, bool)) -> Vec<u8> {
        let content = self.begun.remove(&of).unwrap_or_default();
        self.memory -= content.capacity() as u64;
        content
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }
}

/// How far an association has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    Connecting,
    Established,
    Closed(CloseReason),
}

/// What tasks wait for.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pub(crate) readable: Notify,
    pub(crate) writable: Notify,
    /// Everything sent is acknowledged.
    pub(crate) flushed: Notify,
    /// Established or closed.
    pub(crate) progress: Notify,
}

impl Signals {
    fn notify_all(&self) {
        self.readable.notify_waiters();
        self.writable.notify_waiters();
        self.flushed.notify_waiters();
        self.progress.notify_waiters();
    }
}

impl Shared {
    pub(crate) fn new(endpoint: Endpoint, clock: Clock, listens: bool, memory_limit: u64) -> Self {
        let state = State {
            endpoint,
            slots: BTreeMap::new(),
            traced_paths: None,
            incoming: VecDeque::new(),
            listens,
            memory_limit,
            held_memory: 0,
            handles: 0,
            stopped: None,
            discards: BTreeMap::new(),
            driver: None,
            local: Vec::new(),
            changes: VecDeque::new(),
            socket_buffers: Vec::new(),
            leaving: Vec::new(),
        };
        Shared {
            state: Mutex::new(state),
            clock,
            incoming: Notify::new(),
            idle: Notify::new(),
        }
    }

    /// The stack's time.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the state usable enough to end in good order; panicking again in a drop would not.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Marks the stack as stopped and wakes everyone who waits for it.
    pub(crate) fn stop(&self, why: &str) {
        // After a panic elsewhere the state is of no use, but a waiting task must not wait without end.
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if state.stopped.is_none() {
            state.stopped = Some(why.to_owned());
        }
        for slot in state.slots.values() {
            slot.signals.notify_all();
        }
        self.incoming.notify_waiters();
        self.idle.notify_waiters();
    }
}

impl State {
    /// Remembers how to wake the driver when a user has changed something.
    pub(crate) fn park_driver(&mut self, waker: &Waker) {
        match &mut self.driver {
            Some(parked) => parked.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Wakes the driver, if it sleeps.
    pub(crate) fn wake_driver(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    /// Wakes the driver if reading has given it something to do: a window update to send, or the end to report.
    pub(crate) fn wake_driver_for_work(&mut self) {
        if self.endpoint.has_work() {
            self.wake_driver();
        }
    }

    /// Whether neither users nor peers need the driver any more.
    pub(crate) fn is_done(&self) -> bool {
        self.handles == 0 && self.slots.is_empty()
    }

    /// Whether every association has ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots
            .values()
            .all(|slot| matches!(slot.progress, Progress::Closed(_)))
    }

    /// Keeps a record of an association until its last handle is dropped.
    pub(crate) fn insert(&mut self, now: Time, id: AssocId, progress: Progress, peer: &[SocketAddr]) -> Arc<Signals> {
        let signals = Arc::new(Signals::default());
        let slot = Slot {
            signals: signals.clone(),
            was_established: progress == Progress::Established,
            progress,
            partial: Partial::default(),
            opened: None,
            last_message: now,
            shutdown_wanted: false,
            peer_shutdown: false,
            send_failures: Vec::new(),
            failed: 0,
            wanted: None,
            watch: None,
            streams: StreamChanges::default(),
            orphan: false,
            troubles: peer.iter().map(|addr| (*addr, None)).collect(),
        };
        self.slots.insert(id, slot);
        signals
    }

    /// Takes in one event of the endpoint.
    pub(crate) fn on_event(&mut self, shared: &Shared, now: Time, id: AssocId, event: Event) {
        if let Some(traced) = &mut self.traced_paths
            && changes_paths(&event)
            && let Some(association) = self.endpoint.association(id)
        {
            traced.extend(association.paths().map(|path| (id, path)));
            traced.truncate(MOST_TRACED_PATHS);
        }
        if let Event::Connected { accepted: true, .. } = event
            && !self.slots.contains_key(&id)
        {
            self.on_incoming(shared, now, id);
            return;
        }
        let Some(slot) = self.slots.get_mut(&id) else {
            if matches!(event, Event::Closed(_)) {
                // It was never accepted: what it delivered is dropped.
                discard_received(&mut self.endpoint, now, id);
            }
            return;
        };
        if let Some(watch) = &mut slot.watch {
            watch_paths(watch, shared.clock.instant(now), &event, self.endpoint.association(id));
        }
        if slot.streams.on_event(&event) {
            slot.signals.progress.notify_waiters();
        }
        match event {
            Event::Connected { .. } => {
                slot.progress = Progress::Established;
                slot.was_established = true;
                slot.signals.progress.notify_waiters();
                self.catch_up(now, id);
            }
            Event::DataReady if slot.orphan => discard_received(&mut self.endpoint, now, id),
            Event::DataReady => slot.signals.readable.notify_waiters(),
            Event::SendSpace => slot.signals.writable.notify_waiters(),
            Event::SendIdle => slot.signals.flushed.notify_waiters(),
            Event::SendFailed(failure) => {
                // What the user permitted is no error.
                slot.failed += u64::from(failure.cause != SendFailureCause::GivenUp);
                if slot.send_failures.len() < MAX_SEND_FAILURES && !slot.orphan {
                    slot.send_failures.push(failure);
                }
            }
            Event::PeerShutdown => {
                slot.peer_shutdown = true;
                slot.signals.writable.notify_waiters();
                slot.signals.progress.notify_waiters();
            }
            Event::Closed(reason) => {
                slot.progress = Progress::Closed(reason);
                slot.watch = None;
                slot.signals.notify_all();
                shared.idle.notify_waiters();
                let orphan = slot.orphan || self.is_dead_in_backlog(id);
                self.close_unused();
                if orphan {
                    self.forget(now, id);
                }
            }
            Event::Restarted => self.on_restart(now, id),
            Event::LocalAddressAdded { .. } => {
                self.prefer_wanted(now, id);
                // What could not go before, because nothing else was left, can go now.
                self.catch_up(now, id);
            }
            Event::LocalAddressRemoved { .. } => {
                // It may have come back meanwhile.
                self.catch_up(now, id);
                self.close_unused();
            }
            Event::AddressRefused { addr, .. } => {
                let association = self.endpoint.association(id);
                if !association.is_some_and(|association| association.is_known_by(addr)) {
                    slot.wanted = slot.wanted.filter(|wanted| *wanted != addr);
                }
                self.close_unused();
            }
            _ => {}
        }
    }

    /// The peer has forgotten what it was asked for, and what it asked for.
    fn on_restart(&mut self, now: Time, id: AssocId) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        slot.peer_shutdown = false;
        slot.streams.on_restart();
        slot.signals.progress.notify_waiters();
        slot.signals.readable.notify_waiters();
        slot.signals.writable.notify_waiters();
        if slot.shutdown_wanted {
            self.endpoint.shutdown(now, id);
        } else if slot.orphan {
            self.endpoint.abort(now, id, ABANDONED);
        } else {
            self.catch_up(now, id);
        }
    }

    /// Sends over the path from the address that is to be the primary one, if the peer knows that address.
    pub(crate) fn prefer_wanted(&mut self, now: Time, id: AssocId) {
        let Some(wanted) = self.slots.get(&id).and_then(|slot| slot.wanted) else {
            return;
        };
        let paths = self.endpoint.association(id).into_iter().flat_map(|a| a.paths());
        let found = paths.filter(|path| path.local == wanted).map(|path| path.id).next();
        if found.is_some_and(|path| self.endpoint.set_primary(now, id, path))
            && let Some(slot) = self.slots.get_mut(&id)
        {
            slot.wanted = None;
        }
    }

    /// Closes the sockets of addresses that no association uses any more, or is known by.
    pub(crate) fn close_unused(&mut self) {
        if self.leaving.is_empty() {
            // Every association that ends asks, and there may be very many of them.
            return;
        }
        let ids: Vec<_> = self.endpoint.associations().collect();
        let endpoint = &self.endpoint;
        let in_use = |addr: &SocketAddr| {
            let all = ids.iter().filter_map(|id| endpoint.association(*id));
            // One that is over may still be read from, but sends and receives nothing.
            let mut live = all.filter(|association| association.state() != AssociationState::Closed);
            live.any(|association| association.is_known_by(*addr))
        };
        let (kept, gone): (Vec<_>, Vec<_>) = self.leaving.iter().partition(|addr| in_use(addr));
        self.leaving = kept;
        self.changes.extend(gone.into_iter().map(SocketChange::Remove));
        self.wake_driver();
    }

    /// Brings an association's addresses to those of the stack, which may have changed while nothing could be asked for. Without
    /// dynamic addresses it keeps what it has.
    fn catch_up(&mut self, now: Time, id: AssocId) {
        let Some(association) = self.endpoint.association(id) else {
            return;
        };
        if !association.has_dynamic_addresses() {
            return;
        }
        let known = association.local_addrs().to_vec();
        for addr in self.local.iter().filter(|addr| !known.contains(addr)) {
            let _ = self.endpoint.add_local_address(now, id, *addr);
        }
        for addr in known.iter().filter(|addr| !self.local.contains(addr)) {
            let _ = self.endpoint.remove_local_address(now, id, *addr);
        }
    }

    fn on_incoming(&mut self, shared: &Shared, now: Time, id: AssocId) {
        if !self.listens {
            self.endpoint.abort(now, id, NOT_LISTENING);
            return;
        }
        self.insert(now, id, Progress::Established, &[]);
        self.catch_up(now, id);
        self.incoming.push_back(id);
        shared.incoming.notify_waiters();
    }

    /// Takes the association that has waited for longest to be accepted.
    pub(crate) fn next_incoming(&mut self) -> Option<AssocId> {
        let id = self.incoming.pop_front()?;
        self.endpoint.on_taken();
        Some(id)
    }

    /// Takes an association that is over out of the backlog if there is nothing to read from it. True if it was there.
    fn is_dead_in_backlog(&mut self, id: AssocId) -> bool {
        let has_message = self.endpoint.association(id).is_some_and(Association::has_message);
        let place = self.incoming.iter().position(|waiting| *waiting == id);
        if let (false, Some(place)) = (has_message, place) {
            self.incoming.remove(place);
            self.endpoint.on_taken();
            return true;
        }
        false
    }

    /// Keeps the memory of received data within its limit: ends the associations that hold most for longest without a message to their users
    /// until an eighth of the limit is free.
    pub(crate) fn bound_memory(&mut self, now: Time) {
        let limit = self.memory_limit;
        if self.memory() <= limit {
            return;
        }
        self.endpoint.release_memory();
        let enough = limit - limit / 8;
        while self.memory() > enough {
            let endpoint = &self.endpoint;
            let cost = |(id, slot): (&AssocId, &Slot)| {
                let received = endpoint.association(*id).map_or(0, Association::receive_memory);
                let held = slot.held() + received as u64;
                let age = now.since(slot.last_message).as_nanos() + 1;
                (u128::from(held) * u128::from(age), *id)
            };
            let Some((1.., id)) = self.slots.iter().map(cost).max() else {
                break;
            };
            self.endpoint.abort_for_resources(now, id);
            if let Some(slot) = self.slots.get_mut(&id) {
                self.held_memory -= slot.held();
                slot.partial = Partial::default();
                slot.opened = None;
            }
        }
        self.wake_driver();
    }

    /// Bytes of memory that received data takes.
    pub(crate) fn memory(&self) -> u64 {
        self.endpoint.receive_memory() as u64 + self.held_memory
    }

    /// The last handle is gone: ends the association unless it is ending already.
    // [9260:9-1]
    pub(crate) fn abandon(&mut self, now: Time, id: AssocId) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        slot.orphan = true;
        if matches!(slot.progress, Progress::Closed(_)) {
            self.forget(now, id);
            return;
        }
        if slot.shutdown_wanted || slot.peer_shutdown {
            discard_received(&mut self.endpoint, now, id);
        } else {
            self.endpoint.abort(now, id, ABANDONED);
        }
    }

    /// Drops what is left of a closed association.
    fn forget(&mut self, now: Time, id: AssocId) {
        discard_received(&mut self.endpoint, now, id);
        if let Some(slot) = self.slots.remove(&id) {
            self.held_memory -= slot.held();
        }
    }

    /// Accepts associations from now on. False if there is a listener already.
    pub(crate) fn start_accepting(&mut self) -> bool {
        let starts = !self.listens;
        self.listens = true;
        self.endpoint.start_listening();
        starts
    }

    /// Aborts all associations that were not accepted, and accepts no more.
    pub(crate) fn stop_accepting(&mut self, now: Time) {
        self.listens = false;
        self.endpoint.stop_listening();
        while let Some(id) = self.next_incoming() {
            self.abandon(now, id);
        }
        self.wake_driver();
    }
}

/// Paths that may wait for a trace to take them; of further ones it has only the numbers.
const MOST_TRACED_PATHS: usize = 1 << 16;

/// Whether an association has other paths after an event than before.
fn changes_paths(event: &Event) -> bool {
    matches!(
        event,
        Event::PrimaryChanged { .. }
            | Event::PrimaryRequested { .. }
            | Event::PeerAddressAdded { .. }
            | Event::PeerAddressRemoved { .. }
            | Event::LocalAddressAdded { .. }
            | Event::LocalAddressRemoved { .. }
            | Event::AddressRefused { .. }
            | Event::Restarted
            | Event::Connected { .. }
    )
}

/// Passes on what an event says about paths.
fn watch_paths(watch: &mut PathWatch, time: Option<Instant>, event: &Event, association: Option<&Association>) {
    let Some(time) = time else { return };
    match *event {
        Event::PathState { path, state } => watch.on_state(time, path, state),
        Event::PingAnswered { path, number, rtt } => watch.on_ping_answer(time, path, number, rtt),
        _ if changes_paths(event) => {
            watch.on_paths(
                time,
                association.into_iter().flat_map(|association| association.paths()),
            );
        }
        _ => {}
    }
}

/// Reads and drops what the peer has sent.
fn discard_received(endpoint: &mut Endpoint, now: Time, id: AssocId) {
    while endpoint.recv(now, id, &mut |_| {}).is_some() {}
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("associations", &self.slots.len())
            .field("handles", &self.handles)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha12Rng;
    use rand_core::SeedableRng;
    use whimbrel_proto::{AssociationConfig, EndpointConfig};

    use super::*;

    /// Takes in parts of messages: (stream, text, begins, ends). Returns the whole ones, and the memory that the others take.
    fn assembled(interleaves: bool, parts: &[(u16, &str, bool, bool)]) -> (Vec<String>, u64) {
        let mut partial = Partial::default();
        let mut take = |stream: u16, text: &str, begin, end| {
            let mut data = text.as_bytes().to_vec();
            let received = Received {
                stream,
                ssn: whimbrel_wire::Ssn(0),
                ppid: 0,
                unordered: false,
                len: data.len(),
                begin,
                end,
                given_up: false,
                before_restart: false,
                more: false,
            };
            let is_whole = partial.take(&received, &mut data, || interleaves);
            (is_whole.then(|| String::from_utf8(data).unwrap()), partial.memory())
        };
        let (mut whole, mut held) = (Vec::new(), 0);
        for &(stream, text, begin, end) in parts {
            let message;
            (message, held) = take(stream, text, begin, end);
            whole.extend(message);
        }
        (whole, held)
    }

    #[test]
    fn a_message_that_is_given_up_takes_no_memory() {
        let mut partial = Partial::default();
        let part = |stream, (begin, given_up)| Received {
            stream,
            ssn: whimbrel_wire::Ssn(0),
            ppid: 0,
            unordered: false,
            len: 0,
            begin,
            end: false,
            given_up,
            before_restart: false,
            more: false,
        };
        for stream in [1, 2] {
            assert!(!partial.take(&part(stream, (true, false)), &mut vec![0; 1000], || true));
        }
        assert_eq!(partial.memory(), 2000);
        assert!(!partial.take(&part(1, (false, true)), &mut Vec::new(), || true));
        assert_eq!(partial.memory(), 1000);
    }

    #[test]
    fn other_messages_between_the_parts_of_one_leave_it_whole() {
        let parts = [
            (0, "in ", true, false),
            (1, "another", true, true),
            (0, "three ", false, false),
            (0, "parts", false, true),
            (0, "never ended", true, false),
            (0, "two ", true, false),
            (0, "parts", false, true),
            (0, "given up", true, false),
            (0, "the next", true, true),
        ];
        for interleaves in [false, true] {
            let (whole, held) = assembled(interleaves, &parts);
            assert_eq!(whole, ["another", "in three parts", "two parts", "the next"]);
            assert_eq!(held, 0, "what was given up takes no memory");
        }
        let given_up = [
            (0, "given up", true, false),
            (1, "on ", true, false),
            (1, "another", false, true),
        ];
        assert_eq!(assembled(false, &given_up), (vec!["on another".to_owned()], 0));
    }

    #[test]
    fn interleaved_messages_are_assembled_apart() {
        let parts = [
            (0, "zero ", true, false),
            (1, "one ", true, false),
            (0, "goes ", false, false),
            (1, "ends", false, true),
            (0, "on", false, true),
        ];
        assert_eq!(
            assembled(true, &parts),
            (vec!["one ends".to_owned(), "zero goes on".to_owned()], 0)
        );
    }

    #[test]
    fn an_address_that_was_refused_is_not_preferred_later() {
        let [ours, other, peer]: [SocketAddr; 3] =
            ["192.0.2.1:7", "192.0.2.2:7", "192.0.2.9:7"].map(|addr| addr.parse().unwrap());
        let config = EndpointConfig {
            local_addrs: vec![ours],
            ..EndpointConfig::default()
        };
        let mut endpoint = Endpoint::new(config, Box::new(ChaCha12Rng::seed_from_u64(1))).unwrap();
        let id = endpoint.connect(Time::ZERO, AssociationConfig::default(), 5000, &[peer]);
        let id = id.unwrap();
        let shared = Shared::new(endpoint, Clock::System(Instant::now()), false, u64::MAX);
        let mut state = shared.lock();
        state.insert(Time::ZERO, id, Progress::Established, &[peer]);
        // What is refused after an address was taken is that the peer sends there first.
        for (wanted, refused, left) in [
            (ours, ours, Some(ours)),
            (other, ours, Some(other)),
            (other, other, None),
        ] {
            state.slots.get_mut(&id).unwrap().wanted = Some(wanted);
            let event = Event::AddressRefused {
                addr: refused,
                cause: 0,
            };
            state.on_event(&shared, Time::ZERO, id, event);
            assert_eq!(state.slots[&id].wanted, left, "{wanted} wanted, {refused} refused");
        }
    }
}
