//! The end of an SCTP flow: a driver of a protocol endpoint.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use whimbrel_control::multipath::policy::PathPolicySpec;
use whimbrel_control::{Rng, Span, Time};
use whimbrel_proto::{
    AssocId, AssociationConfig, AssociationStats, CloseReason, Endpoint, EndpointConfig, Event, PacketMeta, SendError,
    SharedConfig, State, TraceEvent, TraceKinds,
};
use whimbrel_wire::{ByteSink, ChecksumField, Payload};

use super::sink::Delivery;
use super::{Alarm, Applications, Context, FlowState, PPID_MASK, Source};
use crate::config::{Carriage, ConfigError};
use crate::ids::{AgentId, DirectionId};
use crate::measure::{Episodes, FlowOutcome, Occasions};
use crate::packet::{Congestion, Form, Oversize, PacketId};
use crate::topology::{RouteId, interface};
use crate::truth::Truth;

/// SCTP port of every receiver. Senders use the ports above it.
pub(crate) const RECEIVER_PORT: u16 = 5000;
/// Number of ports for senders before they are reused.
const SENDER_PORTS: u32 = 60_000;

/// Parameters of an end.
pub(crate) struct SctpSetup {
    /// Twice the flow's index, plus one for the receiver.
    pub(crate) agent: AgentId,
    /// Local addresses, primary first.
    pub(crate) local: Vec<SocketAddr>,
    /// The peer's addresses, primary first.
    pub(crate) peer: Vec<SocketAddr>,
    pub(crate) association: SharedConfig,
    /// The applications at the sender; none at the receiver.
    pub(crate) applications: Applications,
    pub(crate) start: Time,
    pub(crate) carriage: Carriage,
    pub(crate) random: Rng,
    pub(crate) truth: Arc<Truth>,
    /// Address changes in the order of time.
    pub(crate) steps: Vec<AddressChange>,
    pub(crate) timer_granularity: Span,
}

/// A change of addresses at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressChange {
    pub(crate) at: Time,
    pub(crate) add: Option<SocketAddr>,
    pub(crate) primary: Option<SocketAddr>,
    pub(crate) remove: Option<SocketAddr>,
}

/// State of an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Waiting,
    Connecting,
    Up,
    Closed,
}

/// Counters of the measurement window.
#[derive(Debug)]
enum Window {
    Before,
    /// The counters when it opened, unless there was no association yet.
    Open(Option<Box<AssociationStats>>),
    /// What was counted in it.
    Closed(Box<AssociationStats>),
}

/// One end of an SCTP flow.
#[derive(Debug)]
pub(crate) struct SctpEnd {
    agent: AgentId,
    endpoint: Endpoint,
    alarm: Alarm,
    phase: Phase,
    id: Option<AssocId>,
    /// The applications at the sender; none at the receiver.
    applications: Applications,
    start: Time,
    peer: Vec<SocketAddr>,
    peer_port: u16,
    carriage: Carriage,
    /// Whether the application has requested shutdown.
    shut: bool,
    closed: Option<CloseReason>,
    /// Counters of the association after its end.
    last_stats: Option<Box<AssociationStats>>,
    /// When new data first moved to another path, kept after the end of the association.
    last_switch: Option<Time>,
    window: Window,
    trace: bool,
    truth: Arc<Truth>,
    /// Verdicts of one call to the endpoint, grouped by occasion.
    occasions: Occasions,
    /// The latest loss episodes.
    episodes: Episodes,
    /// Address changes in the future.
    steps: VecDeque<AddressChange>,
    /// A local address that should become the primary one when the peer has accepted it.
    wanted: Option<SocketAddr>,
    /// Whether a path policy needs the last hops of the routes to the peer.
    asks_last_hops: bool,
}

impl SctpEnd {
    /// Creates an end that waits for its start time, or for a peer.
    ///
    /// # Errors
    /// Returns an error if the parameters are not valid SCTP parameters.
    pub(crate) fn new(setup: SctpSetup) -> Result<Self, ConfigError> {
        let is_sender = !setup.applications.is_empty();
        let sender_port = RECEIVER_PORT + 1 + (setup.agent.flow() % SENDER_PORTS) as u16;
        let local = setup.local.len();
        let is_standard = setup.association.parts().path_policy == PathPolicySpec::default();
        let several = setup.peer.len() > 1 || setup.association.path_per_local_address && local > 1;
        let asks_last_hops = !is_standard && several;
        let config = EndpointConfig {
            local_port: if is_sender { sender_port } else { RECEIVER_PORT },
            local_addrs: setup.local,
            listen: !is_sender,
            association: setup.association,
            truth: Some(setup.truth.clone()),
            timer_granularity: setup.timer_granularity,
            ..EndpointConfig::default()
        };
        let mut endpoint = Endpoint::new(config, Box::new(setup.random))
            .map_err(|error| ConfigError::new("sctp", error.to_string(), "valid SCTP parameters"))?;
        if is_sender {
            endpoint.set_trace(TraceKinds::VERDICTS);
        }
        Ok(SctpEnd {
            agent: setup.agent,
            endpoint,
            alarm: Alarm::default(),
            phase: Phase::Waiting,
            id: None,
            applications: setup.applications,
            start: setup.start,
            peer: setup.peer,
            peer_port: RECEIVER_PORT,
            carriage: setup.carriage,
            shut: false,
            closed: None,
            last_stats: None,
            last_switch: None,
            window: Window::Before,
            trace: false,
            truth: setup.truth,
            occasions: Occasions::default(),
            episodes: Episodes::default(),
            steps: setup.steps.into(),
            wanted: None,
            asks_last_hops,
        })
    }

    /// Sets the first alarm.
    pub(crate) fn begin(&mut self, context: &mut Context<'_>) {
        if !self.applications.is_empty() {
            self.alarm.arm(&mut context.network.queue, self.agent, Some(self.start));
        }
    }

    /// Requests trace records of these kinds.
    pub(crate) fn set_trace(&mut self, kinds: TraceKinds) {
        self.trace = kinds != TraceKinds::NONE;
        // The sender's verdicts are always counted.
        let always = if self.agent.is_sender() {
            TraceKinds::VERDICTS
        } else {
            TraceKinds::NONE
        };
        self.endpoint.set_trace(kinds.with(always));
    }

    /// Handles a wake-up; a stale one does nothing.
    pub(crate) fn wake(&mut self, context: &mut Context<'_>, seq: u64) {
        if !self.alarm.ring(seq) {
            return;
        }
        if self.phase == Phase::Waiting && !self.applications.is_empty() {
            self.connect(context.now);
        }
        if self.asks_last_hops {
            self.report_last_hops(context);
        }
        self.endpoint.handle_timeout(context.now);
        self.drive(context);
    }

    fn connect(&mut self, now: Time) {
        self.phase = Phase::Connecting;
        let association = AssociationConfig::clone(&self.endpoint.config().association);
        match self.endpoint.connect(now, association, self.peer_port, &self.peer) {
            Ok(id) => self.id = Some(id),
            Err(error) => {
                self.phase = Phase::Closed;
                self.closed = Some(CloseReason::AbortedLocally(error.to_string()));
            }
        }
    }

    /// Handles a received packet.
    #[inline]
    pub(crate) fn receive(&mut self, context: &mut Context<'_>, id: PacketId) {
        if self.asks_last_hops {
            self.report_last_hops(context);
        }
        let packet = context.network.slab.get(id);
        let route = &context.network.topology.routes[packet.route as usize];
        let meta = PacketMeta {
            local: route.destination,
            remote: route.source,
            ecn: packet.ecn,
            congestion_indicated: packet.congestion != Congestion::NONE,
        };
        let body = context.network.slab.body(id);
        let taken = match body.form {
            Form::Structures => self.endpoint.handle_packet(context.now, meta, &body.structures.view()),
            Form::Bytes => self.endpoint.handle_datagram(context.now, meta, &body.bytes),
            Form::Datagram | Form::Tcp | Form::Ip => Ok(()),
        };
        context.network.slab.release(id);
        context.flow.discarded += u64::from(taken.is_err());
        self.drive(context);
    }

    /// Handles a report about a packet that was too long for a link on a route.
    pub(crate) fn limit_mtu(&mut self, context: &mut Context<'_>, route: RouteId, mtu: u32) {
        let remote = context.network.topology.routes[route as usize].destination;
        if let Some(id) = self.id {
            let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
            self.endpoint.limit_mtu(context.now, id, remote, mtu);
        }
        self.drive(context);
    }

    /// Reports the last hops of the routes to the association.
    #[cold]
    fn report_last_hops(&mut self, context: &mut Context<'_>) {
        let Some(id) = self.id else { return };
        for place in 0.. {
            let path = self.endpoint.association(id).and_then(|all| all.paths().nth(place));
            let Some(path) = path else { return };
            let route = self.route(context.flow, path.local, path.remote);
            let node = route.and_then(|route| context.network.last_hop(context.now, route));
            self.endpoint.set_last_hop(id, path.id, node);
        }
    }

    /// Drains the endpoint (events, data, packets), then sets the alarm.
    #[inline]
    fn drive(&mut self, context: &mut Context<'_>) {
        self.take_events(context);
        self.offer(context);
        if self.steps.front().is_some_and(|step| step.at <= context.now) {
            self.change_addresses(context.now);
        }
        while self.transmit(context) && self.take_events(context) {
            self.offer(context);
        }
        if self.endpoint.has_trace() {
            self.drain_trace(context);
        }
        let mut deadline = earlier(self.endpoint.next_timeout(), self.user_deadline(context.now));
        if let Some(step) = self.steps.front().filter(|step| step.at > context.now) {
            deadline = earlier(deadline, Some(step.at));
        }
        self.alarm.arm(&mut context.network.queue, self.agent, deadline);
    }

    /// Takes the trace records: joins verdicts with true causes, and passes records to the observer.
    #[cold]
    fn drain_trace(&mut self, context: &mut Context<'_>) {
        let (flow, forward) = (self.agent.flow(), self.agent.is_sender());
        let (truth, observed) = (&self.truth, self.trace);
        let (occasions, episodes) = (&mut self.occasions, &mut self.episodes);
        let (observer, window) = (&mut *context.observer, context.network.window);
        let verdicts = &mut context.flow.verdicts;
        self.endpoint.drain_trace(&mut |record| {
            if let TraceEvent::Verdict {
                path,
                tsn,
                signal,
                verdict,
                cwnd_before,
                cwnd,
                strength,
                episode,
            } = record.event
                && forward
            {
                let cause = truth.noticed(tsn.0);
                if window.contains(record.at) {
                    verdicts.add(cause, signal, verdict);
                    verdicts.add_strength(cause, strength);
                    episodes.add(verdicts, (path.0, episode), cause, verdict);
                    occasions.add((path.0, signal), cause, verdict, cwnd < cwnd_before);
                }
            }
            if observed {
                observer.trace(flow, forward, record);
            }
        });
        occasions.close(verdicts);
    }

    /// Returns when the application will act next.
    #[inline]
    fn user_deadline(&self, now: Time) -> Option<Time> {
        if self.phase != Phase::Up || self.shut {
            return None;
        }
        self.applications.next_action(now)
    }

    /// Takes the endpoint's events. Returns whether there were any.
    #[inline]
    fn take_events(&mut self, context: &mut Context<'_>) -> bool {
        if !self.endpoint.has_events() {
            return false;
        }
        if let Some(association) = self.id.and_then(|id| self.endpoint.association(id))
            && association.state() == State::Closed
        {
            // Its counters are removed with it.
            self.last_stats = Some(Box::new(association.stats()));
            self.last_switch = association.first_switch();
        }
        while let Some((id, event)) = self.endpoint.poll_event() {
            match event {
                Event::DataReady => self.read(context, id, false),
                Event::SendSpace => self.applications.on_space(),
                Event::SendFailed(failure) => {
                    let number = failure.ppid ^ PPID_MASK;
                    let sink = context.flow.sink_of(failure.stream);
                    sink.give_up(context.now, context.network.window, number);
                }
                Event::Connected { outbound_streams, .. } => {
                    self.id = Some(id);
                    self.phase = Phase::Up;
                    self.applications.limit_streams(outbound_streams);
                    for (stream, value) in self.applications.stream_values() {
                        self.endpoint.set_stream_value(id, stream, value);
                    }
                }
                Event::LocalAddressAdded { .. } => self.prefer_wanted(context.now),
                Event::Closed(reason) => {
                    self.read(context, id, true);
                    self.phase = Phase::Closed;
                    self.closed = Some(reason);
                }
                _ => {}
            }
        }
        true
    }

    /// Applies the address changes that are due, if the association is established. If the peer does not support changes, addresses
    /// stay the same.
    #[cold]
    fn change_addresses(&mut self, now: Time) {
        let Some(id) = self.id.filter(|_| self.phase == Phase::Up) else {
            return;
        };
        while let Some(step) = self.steps.pop_front_if(|step| step.at <= now) {
            if let Some(addr) = step.add {
                let _ = self.endpoint.add_local_address(now, id, addr);
            }
            if let Some(addr) = step.primary {
                let _ = self.endpoint.set_peer_primary(now, id, addr);
                self.wanted = Some(addr);
                self.prefer_wanted(now);
            }
            if let Some(addr) = step.remove {
                let _ = self.endpoint.remove_local_address(now, id, addr);
            }
        }
    }

    /// Makes the path from the desired primary address the primary path, if the peer knows that address.
    fn prefer_wanted(&mut self, now: Time) {
        let (Some(addr), Some(id)) = (self.wanted, self.id) else {
            return;
        };
        let paths = self.endpoint.association(id).into_iter().flat_map(|a| a.paths());
        let found = paths.filter(|path| path.local == addr).map(|path| path.id).next();
        if found.is_some_and(|path| self.endpoint.set_primary(now, id, path)) {
            self.wanted = None;
        }
    }

    /// Reads all received data. A file is compared with the original. At the end of the association, the call that finds no more data is
    /// made as well, because it removes the association.
    fn read(&mut self, context: &mut Context<'_>, id: AssocId, is_over: bool) {
        let compares = context.flow.sink.compares();
        let mut content: Vec<u8> = Vec::new();
        loop {
            let received = self.endpoint.recv(context.now, id, &mut |piece| {
                if compares {
                    append(&mut content, piece);
                }
            });
            let Some(received) = received else { return };
            let delivery = Delivery {
                stream: received.stream,
                unordered: received.unordered,
                number: received.ppid ^ PPID_MASK,
                len: received.len as u64,
                end: received.end,
            };
            let sink = context.flow.sink_of(received.stream);
            if received.given_up {
                sink.forget_part(received.stream, received.unordered);
                if !received.more && !is_over {
                    return;
                }
                continue;
            }
            if compares {
                sink.compare(&delivery, &content);
                content.clear();
            }
            sink.deliver(context.now, context.network.window, delivery);
            if !received.more && !is_over {
                return;
            }
        }
    }

    /// Passes due messages to the endpoint while it has room.
    #[inline]
    fn offer(&mut self, context: &mut Context<'_>) {
        if self.phase != Phase::Up || self.shut {
            return;
        }
        let Some(id) = self.id.filter(|_| !self.applications.is_empty()) else {
            return;
        };
        let window = context.network.window;
        while let Some((number, message)) = self.applications.next_message(context.now) {
            let stream = message.stream;
            match self.endpoint.send(context.now, id, message) {
                Ok(()) => {
                    let created = self.applications.taken(context.now, number);
                    context.flow.sink_of(stream).sent(created, window);
                }
                Err(SendError::Full(_)) => self.applications.on_full(number),
                Err(error) => {
                    self.shut = true;
                    self.endpoint.abort(context.now, id, &error.to_string());
                    return;
                }
            }
        }
        if self.applications.is_done(context.now) {
            self.shut = true;
            self.endpoint.shutdown(context.now, id);
        }
    }

    /// Sends all packets of the endpoint. Returns whether there were any.
    #[inline]
    fn transmit(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        loop {
            let id = context.network.slab.reserve();
            let body = context.network.slab.body_mut(id);
            let sent = match self.carriage {
                Carriage::Structures => {
                    body.form = Form::Structures;
                    self.endpoint.poll_transmit(context.now, &mut body.structures)
                }
                Carriage::Bytes => {
                    body.form = Form::Bytes;
                    body.bytes.clear();
                    let mut sink = ByteSink::new(&mut body.bytes, ChecksumField::Compute);
                    self.endpoint.poll_transmit(context.now, &mut sink)
                }
            };
            let Some(sent) = sent else {
                context.network.slab.release(id);
                return any;
            };
            any = true;
            let len = sent.wire_len as u32;
            let route = self.route(context.flow, sent.local, sent.remote);
            let way = route.unwrap_or(context.flow.routes.forward[0]);
            context
                .flow
                .address_packet(context.network, context.now, id, self.agent, way, len);
            let packet = context.network.slab.get_mut(id);
            packet.ecn = sent.ecn;
            if sent.fragment {
                packet.oversize = Oversize::Fragment;
            }
            if route.is_none() {
                // An address outside the scenario: a packet without a hop is dropped with the cause "no route".
                packet.hop = packet.last_hop;
            }
            context.network.send(context.now, id, context.observer);
        }
    }

    /// Returns the route between a local and a remote address.
    #[inline]
    fn route(&self, flow: &FlowState, local: SocketAddr, remote: SocketAddr) -> Option<RouteId> {
        let routes = &flow.routes;
        let (ours, theirs, table) = if self.agent.is_sender() {
            (&routes.sender, &routes.receiver, &routes.forward)
        } else {
            (&routes.receiver, &routes.sender, &routes.reverse)
        };
        if let [only] = table[..] {
            // Each end has a single address.
            return Some(only);
        }
        let place = |all: &[DirectionId], address: SocketAddr| {
            let wanted = interface(address.ip())?;
            all.iter().position(|i| *i == wanted)
        };
        let from = place(ours, local)?;
        let to = place(theirs, remote)?;
        table.get(from * theirs.len() + to).copied()
    }

    /// Returns the counters of the association up to now.
    pub(crate) fn stats(&self) -> AssociationStats {
        self.counted().unwrap_or_default()
    }

    /// Returns the counters, if there is or was an association.
    fn counted(&self) -> Option<AssociationStats> {
        let association = self.id.and_then(|id| self.endpoint.association(id));
        association
            .map(|association| association.stats())
            .or(self.last_stats.as_deref().copied())
    }

    /// Returns when new data first moved to another path.
    pub(crate) fn first_switch(&self) -> Option<Time> {
        let association = self.id.and_then(|id| self.endpoint.association(id));
        association.map_or(self.last_switch, |association| association.first_switch())
    }

    /// Handles the start of the measurement window.
    pub(crate) fn open_window(&mut self) {
        self.window = Window::Open(self.counted().map(Box::new));
    }

    /// Handles the end of the measurement window.
    pub(crate) fn close_window(&mut self) {
        self.window = Window::Closed(Box::new(self.window_stats()));
    }

    /// Returns the counters of the measurement window, up to now if it is still open; zero if it never opened.
    pub(crate) fn window_stats(&self) -> AssociationStats {
        match &self.window {
            Window::Before => AssociationStats::default(),
            Window::Open(None) => self.stats(),
            Window::Open(Some(opened)) => crate::measure::stats_since(&self.stats(), opened),
            Window::Closed(counted) => **counted,
        }
    }

    /// Returns whether the association has ended, or never existed.
    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Returns whether the association ended gracefully.
    pub(crate) fn ended_well(&self) -> bool {
        self.closed == Some(CloseReason::Graceful)
    }

    /// Returns whether an association was ever established here.
    pub(crate) fn was_up(&self) -> bool {
        self.id.is_some()
    }

    /// Returns the source of a class of messages at the sender: 0 is the flow itself.
    pub(crate) fn source(&self, class: usize) -> Option<&Source> {
        self.applications.source(class)
    }

    /// Returns the association, if there is one.
    pub(crate) fn association(&self) -> Option<&whimbrel_proto::Association> {
        self.endpoint.association(self.id?)
    }

    /// Returns the outcome of this end so far.
    pub(crate) fn outcome(&self) -> FlowOutcome {
        match (self.phase, &self.closed) {
            (Phase::Waiting, _) => FlowOutcome::NotStarted,
            (Phase::Connecting, _) => FlowOutcome::Connecting,
            (Phase::Up, _) => FlowOutcome::Running,
            (Phase::Closed, Some(CloseReason::Graceful)) => FlowOutcome::Completed,
            (Phase::Closed, Some(reason)) => FlowOutcome::Failed(reason.to_string()),
            (Phase::Closed, None) => FlowOutcome::Failed("closed".to_owned()),
        }
    }
}

fn append(content: &mut Vec<u8>, piece: Payload<'_>) {
    match piece {
        Payload::Bytes(bytes) => content.extend_from_slice(bytes),
        Payload::Zeros(len) => content.resize(content.len() + len as usize, 0),
    }
}

#[inline]
fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}
