//! The task that drives a stack: datagrams in, endpoint, datagrams out, sleep until the next timeout.

use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::JoinHandle;
use whimbrel_control::Time;
use whimbrel_proto::{Discard, PacketMeta};
use whimbrel_wire::{ByteSink, ChecksumField};

use crate::flood::Floods;
use crate::interface;
use crate::outgoing::Outgoing;
use crate::shared::{Shared, SocketChange, State};
use crate::timer::Timer;
use crate::transport::{Arrival, BATCH, Datagrams, Report, Socket, Trouble, Unwanted};
use crate::trouble::Witness;

/// Buffers filled by one receive. Each holds a run of datagrams that the system has joined (GRO).
const BUFFERS: usize = BATCH;
const BUFFER_BYTES: usize = 65_536;
/// Rounds after which other tasks of the runtime have their turn.
const ROUNDS: usize = 32;

pub(crate) struct Driver {
    shared: Arc<Shared>,
    sockets: Vec<Arc<dyn Socket>>,
    watchers: Vec<JoinHandle<()>>,
    buffer: Vec<u8>,
    outgoing: Outgoing,
    floods: Floods,
    timer: Timer,
}

impl Driver {
    /// A driver for these sockets; must be made within a tokio runtime.
    pub(crate) fn new(shared: Arc<Shared>, sockets: Vec<Arc<dyn Socket>>) -> Self {
        let timer = shared.clock.timer();
        let watchers = sockets
            .iter()
            .map(|socket| tokio::spawn(watch_errors(shared.clone(), socket.clone())))
            .collect();
        Driver {
            shared,
            sockets,
            watchers,
            buffer: vec![0; BUFFERS * BUFFER_BYTES],
            outgoing: Outgoing::default(),
            floods: Floods::default(),
            timer,
        }
    }

    /// Drives the stack until its last handle and its last association are gone.
    pub(crate) async fn run(mut self) {
        std::future::poll_fn(|cx| self.poll(cx)).await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..ROUNDS {
            self.change_sockets();
            let received = match self.receive(cx) {
                Ok(received) => received,
                Err(message) => {
                    self.shared.stop(&message);
                    return Poll::Ready(());
                }
            };
            self.gather(cx);
            let sent = send(cx, &self.shared, &self.sockets, &mut self.outgoing);
            let (notified, deadline) = self.notify();
            if !self.outgoing.is_empty() {
                // A socket is full and wakes this task when it is not; until then nothing more is gathered.
                self.poll_timer(cx, deadline);
                return Poll::Pending;
            }
            if !sent && self.shared.lock().is_done() {
                return Poll::Ready(());
            }
            let due = self.poll_timer(cx, deadline);
            if !(received || sent || notified || due) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes in sockets of addresses that have come, and closes those of addresses that have gone.
    fn change_sockets(&mut self) {
        let changes = core::mem::take(&mut self.shared.lock().changes);
        for change in changes {
            match change {
                SocketChange::Add(socket) => {
                    self.watchers
                        .push(tokio::spawn(watch_errors(self.shared.clone(), socket.clone())));
                    self.sockets.push(socket);
                }
                SocketChange::Remove(addr) => {
                    let Some(place) = self.sockets.iter().position(|socket| socket.local_addr() == addr) else {
                        continue;
                    };
                    self.sockets.remove(place);
                    // Watchers stand in the order of the sockets.
                    self.watchers.remove(place).abort();
                }
            }
        }
    }

    /// Takes one batch from each socket; returns whether there was anything.
    fn receive(&mut self, cx: &mut Context<'_>) -> Result<bool, String> {
        let mut any = false;
        for socket in &self.sockets {
            let mut arrivals = [Arrival::NONE; BUFFERS];
            let mut rest = self.buffer.chunks_exact_mut(BUFFER_BYTES);
            let mut buffers: [IoSliceMut<'_>; BUFFERS] =
                std::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()));
            match socket.poll_recv(cx, &mut buffers, &mut arrivals) {
                Poll::Pending => {}
                Poll::Ready(Ok(count)) => {
                    any = true;
                    let mut intake = Intake {
                        shared: &self.shared,
                        sockets: &self.sockets,
                        outgoing: &mut self.outgoing,
                        floods: &mut self.floods,
                    };
                    let local = socket.local_addr();
                    for (buffer, arrival) in buffers.iter().zip(&arrivals).take(count) {
                        let bytes = buffer.get(..arrival.len).unwrap_or_default();
                        intake.take(cx, local, bytes, arrival);
                    }
                    self.shared.lock().bound_memory(self.shared.now());
                }
                // Reports about datagrams that did not arrive; `watch_errors` reads the details.
                Poll::Ready(Err(e)) if Trouble::of(&e).is_some() => any = true,
                Poll::Ready(Err(e)) if e.kind() == std::io::ErrorKind::ConnectionReset => any = true,
                Poll::Ready(Err(e)) => return Err(format!("cannot receive on {}: {e}", socket.local_addr())),
            }
        }
        Ok(any)
    }

    /// Lets the endpoint act and takes the packets it wants sent, unless earlier ones still wait.
    fn gather(&mut self, cx: &Context<'_>) {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        // From here on a change by the user wakes this task again.
        state.park_driver(cx.waker());
        let is_peer = |remote| state.endpoint.has_association_with(remote);
        let is_released = self.floods.release(now, is_peer);
        if self.floods.set_tags(state.endpoint.tags()) || is_released {
            set_filters(&self.sockets, &self.floods);
        }
        if state.endpoint.next_timeout().is_some_and(|due| due <= now) {
            state.endpoint.handle_timeout(now);
        }
        if self.outgoing.is_empty() {
            gather(&mut state, now, &self.sockets, &mut self.outgoing);
        }
    }

    /// Passes events to users, after the packets about them are sent: a program may
    /// exit as soon as it sees that an association has ended. Returns whether there were events, and the endpoint's next deadline.
    fn notify(&mut self) -> (bool, Option<Time>) {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        let mut any = false;
        while let Some((id, event)) = state.endpoint.poll_event() {
            state.on_event(&self.shared, now, id, event);
            any = true;
        }
        let deadlines = [state.endpoint.next_timeout(), self.floods.next_release()];
        (any, deadlines.into_iter().flatten().min())
    }

    /// Sets the timer to `deadline`; returns whether it is due.
    fn poll_timer(&mut self, cx: &mut Context<'_>, deadline: Option<Time>) -> bool {
        self.timer.poll(cx, &self.shared.clock, deadline)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        for watcher in &self.watchers {
            watcher.abort();
        }
        self.shared.stop("its task has ended");
    }
}

/// What takes received datagrams to the endpoint.
struct Intake<'a> {
    shared: &'a Shared,
    sockets: &'a [Arc<dyn Socket>],
    outgoing: &'a mut Outgoing,
    floods: &'a mut Floods,
}

impl Intake<'_> {
    /// Hands a run of datagrams of equal length to the endpoint. After each, the packets that answer it are gathered: a batch of data is
    /// acknowledged like single packets (RFC 9260 §6.2), and each SACK of a batch has its own Max.Burst (RFC 9260 §6.1 D).
    fn take(&mut self, cx: &mut Context<'_>, local: SocketAddr, bytes: &[u8], arrival: &Arrival) {
        let meta_of_packet = PacketMeta {
            local,
            remote: interface::canonical(arrival.remote),
            ecn: arrival.ecn,
            congestion_indicated: false,
        };
        let mut now = self.shared.now();
        let mut state = self.shared.lock();
        for datagram in bytes.chunks(arrival.stride.max(1)) {
            if let Err(reason) = state.endpoint.handle_datagram(now, meta_of_packet, datagram) {
                *state.discards.entry(reason).or_default() += 1;
                if reason == Discard::Flood {
                    self.on_flood(&state, now, meta_of_packet, datagram);
                }
            }
            if !state.endpoint.has_work() || self.outgoing.is_full() {
                continue;
            }
            gather(&mut state, now, self.sockets, self.outgoing);
            if self.outgoing.is_full() {
                // Without the lock, as it takes a while.
                drop(state);
                send(cx, self.shared, self.sockets, self.outgoing);
                now = self.shared.now();
                state = self.shared.lock();
            }
        }
    }

    /// Blocks the source of a flood, unless an association has that address, or the kind of packet if there are many from all sources.
    #[cold]
    fn on_flood(&mut self, state: &State, now: Time, meta: PacketMeta, datagram: &[u8]) {
        let PacketMeta { local, remote, .. } = meta;
        let is_source = self.floods.note(now, local, remote) && !state.endpoint.has_association_with(remote);
        let is_blocked = is_source && self.floods.block(now, local, remote);
        let is_kind = self.floods.note_stranger(now, datagram);
        if is_kind {
            self.floods.set_tags(state.endpoint.tags());
        }
        if is_blocked || is_kind {
            set_filters(self.sockets, self.floods);
        }
    }
}

/// Brings the filters of the sockets to what is blocked.
fn set_filters(sockets: &[Arc<dyn Socket>], floods: &Floods) {
    for socket in sockets {
        let sources: Vec<_> = floods.blocked(socket.local_addr()).collect();
        socket.discard(&Unwanted {
            sources: &sources,
            strangers: floods.strangers(),
        });
    }
}

/// Sends what was gathered, as much as the sockets take; returns whether anything was sent.
fn send(cx: &mut Context<'_>, shared: &Shared, sockets: &[Arc<dyn Socket>], outgoing: &mut Outgoing) -> bool {
    let mut any = false;
    while let Some((group, bytes)) = outgoing.front() {
        let Some(socket) = sockets.iter().find(|socket| socket.local_addr() == group.local) else {
            outgoing.pop();
            continue;
        };
        let datagrams = Datagrams {
            remote: group.remote,
            ecn: group.ecn,
            bytes,
            segment: group.segment,
            fragment: group.fragment,
            probes_mtu: group.probes_mtu,
        };
        match socket.poll_send(cx, &datagrams) {
            Poll::Pending => return any,
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(e)) => {
                // A datagram that cannot be sent is a lost datagram: the protocol's timers see to it.
                if let Some(trouble) = Trouble::of(&e) {
                    let now = shared.now();
                    let mut state = shared.lock();
                    match (group.path.filter(|_| group.probes_mtu), trouble) {
                        (Some(path), Trouble::TooLong(mtu)) => state.on_probe_refused(now, path, mtu),
                        _ => state.on_trouble(shared, now, group.remote, trouble, Witness::Host),
                    }
                }
            }
        }
        any = true;
        outgoing.pop();
    }
    any
}

/// Lets the endpoint write packets until it has none or a batch is full.
fn gather(state: &mut State, now: Time, sockets: &[Arc<dyn Socket>], outgoing: &mut Outgoing) {
    while !outgoing.is_full() {
        let mut sink = ByteSink::new(&mut outgoing.buffer, ChecksumField::Compute);
        let Some(transmit) = state.endpoint.poll_transmit(now, &mut sink) else {
            break;
        };
        let segments = sockets
            .iter()
            .find(|socket| socket.local_addr() == transmit.local)
            .map_or(1, |socket| socket.max_segments());
        outgoing.push(&transmit, segments);
    }
}

/// Waits for reports about datagrams that did not arrive.
async fn watch_errors(shared: Arc<Shared>, socket: Arc<dyn Socket>) {
    while let Ok(Report { remote, trouble, tag }) = socket.report().await {
        let now = shared.now();
        let witness = Witness::Network(tag);
        shared.lock().on_trouble(&shared, now, remote, trouble, witness);
    }
}
