//! Drives the routing agents of all radios: their wake-ups, control messages and actions.

use whimbrel_control::{Rng, Span, Time};

use super::arp::is_arp;
use super::mac::{BROADCAST, CONTROL, Failure};
use super::{RadioId, RadioReport};
use crate::config::ChannelRouting;
use crate::engine::{Event, EventQueue};
use crate::ids::DirectionId;
use crate::ledger::DropCause;
use crate::network::Network;
use crate::observer::{Observer, PacketFate};
use crate::packet::PacketId;
use crate::routing::{Action, Address, Agent, Cause, Context, Datagram, Message};

/// A control message in progress, with its sender and receiver.
#[derive(Debug)]
pub(super) struct Posted {
    message: Message,
    from: RadioId,
    to: RadioId,
}

/// The agents of all radios.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    /// Indexed by radio; none where routes are static.
    agents: Vec<Option<Agent>>,
    random: Vec<Rng>,
    /// Pending wake-up of each agent.
    alarms: Vec<Option<(Time, u64)>>,
    /// Routing state of each packet.
    pub(super) datagrams: Vec<Datagram>,
    /// Why the last attempt to send each packet failed.
    failures: Vec<Failure>,
    /// Messages in progress; free entries are reused.
    posted: Vec<Option<Posted>>,
    free: Vec<u32>,
    actions: Vec<Action>,
    /// Cause of the link failure that is being reported to an agent.
    failure: Option<Failure>,
}

impl Agents {
    /// Adds the next radio.
    pub(super) fn add(&mut self, routing: &ChannelRouting, radio: RadioId, random: Rng) {
        self.agents.push(Agent::new(routing, radio as Address));
        self.random.push(random);
        self.alarms.push(None);
    }

    /// Returns whether a radio uses a routing protocol.
    #[inline]
    pub(crate) fn has(&self, radio: RadioId) -> bool {
        self.agents.get(radio as usize).is_some_and(Option::is_some)
    }

    /// Returns the last node before the destination of a route, if the radio's protocol knows it.
    pub(super) fn last_hop(&self, now: Time, from: RadioId, to: RadioId, rank: u8) -> Option<RadioId> {
        let agent = self.agents.get(from as usize).and_then(Option::as_ref)?;
        agent.last_hop(now, to as Address, rank).map(RadioId::from)
    }

    /// Returns whether a radio overhears frames to other radios.
    #[inline]
    pub(super) fn listens(&self, radio: RadioId) -> bool {
        let agent = self.agents.get(radio as usize).and_then(Option::as_ref);
        agent.is_some_and(Agent::is_promiscuous)
    }

    /// Registers a packet that its host sends from one radio to another, with the rank of its route.
    fn enter(&mut self, packet: PacketId, (from, to): (RadioId, RadioId), number: u32, rank: u8) {
        let place = packet as usize;
        let datagram = Datagram {
            rank,
            ..Datagram::new(from as Address, to as Address, number)
        };
        if place >= self.datagrams.len() {
            self.datagrams.resize(place + 1, datagram);
            self.failures.resize(place + 1, Failure::OutOfRange);
        }
        self.datagrams[place] = datagram;
        self.failures[place] = Failure::OutOfRange;
    }

    /// Calls an agent. Its actions are in `actions` afterwards.
    #[inline]
    fn call(&mut self, now: Time, radio: RadioId, f: impl FnOnce(&mut Agent, &mut Context<'_>)) {
        let Some(agent) = self.agents.get_mut(radio as usize).and_then(Option::as_mut) else {
            return;
        };
        let mut cx = Context {
            now,
            rng: &mut self.random[radio as usize],
            datagrams: &mut self.datagrams,
            actions: &mut self.actions,
        };
        f(agent, &mut cx);
    }

    /// Schedules an agent's wake-up.
    #[inline]
    fn arm(&mut self, queue: &mut EventQueue, radio: RadioId) {
        let agent = self.agents.get(radio as usize).and_then(Option::as_ref);
        let Some(at) = agent.and_then(Agent::next_timeout) else {
            return;
        };
        let alarm = &mut self.alarms[radio as usize];
        // A later wake-up is scheduled when the earlier one is due.
        if alarm.is_none_or(|(pending, _)| at < pending) {
            *alarm = Some((at, queue.push(at, Event::Routing { radio })));
        }
    }

    fn post(&mut self, posted: Posted) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.posted[place as usize] = Some(posted);
                place
            }
            None => {
                self.posted.push(Some(posted));
                self.posted.len() as u32 - 1
            }
        }
    }

    fn release(&mut self, packet: PacketId) {
        let place = packet & !CONTROL;
        if self.posted[place as usize].take().is_some() {
            self.free.push(place);
        }
    }
}

impl Network {
    /// Starts all agents.
    pub(crate) fn start_routing(&mut self, now: Time, observer: &mut dyn Observer) {
        let radios = self.radios.as_ref().map_or(0, |radios| radios.agents.agents.len());
        for radio in 0..radios as RadioId {
            self.route(now, radio, observer, |agent, cx| agent.start(cx));
        }
        self.settle_radio(now, observer);
    }

    /// Handles an agent's wake-up.
    pub(crate) fn wake_routing(&mut self, now: Time, radio: RadioId, seq: u64, observer: &mut dyn Observer) {
        let Some(radios) = &mut self.radios else { return };
        let alarm = &mut radios.agents.alarms[radio as usize];
        if alarm.is_none_or(|(_, pending)| pending != seq) {
            return;
        }
        *alarm = None;
        self.route(now, radio, observer, |agent, cx| agent.handle_timeout(cx));
        self.settle_radio(now, observer);
    }

    /// Handles a packet that its host sends over a radio with a routing agent.
    pub(crate) fn originate(&mut self, now: Time, id: PacketId, ends: (RadioId, RadioId), observer: &mut dyn Observer) {
        let (from, _) = ends;
        let packet = self.slab.get(id);
        let (number, size) = (packet.number, packet.size);
        let rank = self.topology.routes[packet.route as usize].rank;
        let Some(radios) = &mut self.radios else { return };
        if size > radios.mtu(from) {
            return self.too_long_for_radio(now, id, from, observer);
        }
        radios.agents.enter(id, ends, number, rank);
        self.route(now, from, observer, |agent, cx| agent.originate(cx, id));
    }

    /// Handles a data packet that arrived at a radio with a routing agent.
    pub(crate) fn receive_data(&mut self, now: Time, id: PacketId, at: RadioId, observer: &mut dyn Observer) {
        let Some(from) = self.slab.get(id).direction.radio() else {
            return;
        };
        self.route(now, at, observer, |agent, cx| {
            agent.receive_data(cx, from as Address, id)
        });
    }

    /// Handles a data packet that could not be sent.
    pub(crate) fn data_failed(
        &mut self,
        now: Time,
        id: PacketId,
        ends: (RadioId, RadioId),
        (failure, unsent): (Failure, bool),
        observer: &mut dyn Observer,
    ) {
        let (at, to) = ends;
        if let Some(radios) = &mut self.radios {
            radios.agents.failures[id as usize] = failure;
            radios.agents.failure = Some(failure);
        }
        self.route(now, at, observer, |agent, cx| {
            if unsent {
                agent.data_returned(cx, to as Address, id);
            } else {
                agent.data_failed(cx, to as Address, id);
            }
        });
    }

    /// Handles the outcome of a control message.
    pub(crate) fn control(&mut self, now: Time, outcome: RadioReport, observer: &mut dyn Observer) {
        let (RadioReport::Arrived { packet, .. }
        | RadioReport::Refused { packet, .. }
        | RadioReport::Failed { packet, .. }) = outcome
        else {
            return;
        };
        if is_arp(packet) {
            // No retransmission: the next packet triggers another request.
            return;
        }
        let Some(radios) = &mut self.radios else { return };
        let place = (packet & !CONTROL) as usize;
        // The message is put back when the agent has handled it.
        let Some(posted) = radios.agents.posted[place].take() else {
            return;
        };
        match outcome {
            RadioReport::Arrived { at, .. } => {
                let from = posted.from as Address;
                self.route(now, at, observer, |agent, cx| {
                    agent.receive_control(cx, from, &posted.message)
                });
            }
            RadioReport::Failed { at, to, failure, .. } => {
                radios.agents.failure = Some(failure);
                self.route(now, at, observer, |agent, cx| {
                    agent.control_failed(cx, to as Address, &posted.message)
                });
            }
            _ => {}
        }
        let Some(radios) = &mut self.radios else { return };
        radios.agents.posted[place] = Some(posted);
        if !matches!(outcome, RadioReport::Arrived { .. }) {
            radios.agents.release(packet);
        }
    }

    /// Handles a control message that has been sent.
    pub(crate) fn control_done(&mut self, packet: PacketId) {
        if is_arp(packet) {
            return;
        }
        if let Some(radios) = &mut self.radios {
            radios.agents.release(packet);
        }
    }

    /// Handles a link-layer failure of a packet that has arrived.
    pub(crate) fn link_failed(
        &mut self,
        now: Time,
        at: RadioId,
        to: RadioId,
        failure: Failure,
        observer: &mut dyn Observer,
    ) {
        if let Some(radios) = &mut self.radios {
            radios.agents.failure = Some(failure);
        }
        self.route(now, at, observer, |agent, cx| agent.link_failed(cx, to as Address));
    }

    /// Handles an overheard frame.
    pub(crate) fn overhear(&mut self, now: Time, at: RadioId, transmission: u32, observer: &mut dyn Observer) {
        let Some(radios) = &mut self.radios else { return };
        let (frame, datagram) = radios.on_the_air(transmission);
        let (from, to) = (frame.from as Address, frame.to as Address);
        match frame.packet {
            Some(packet) if is_arp(packet) => {}
            Some(packet) if packet & CONTROL != 0 => {
                let place = (packet & !CONTROL) as usize;
                let Some(posted) = radios.agents.posted[place].take() else {
                    return;
                };
                self.route(now, at, observer, |agent, cx| {
                    agent.overhear_control(cx, from, to, &posted.message)
                });
                if let Some(radios) = &mut self.radios {
                    radios.agents.posted[place] = Some(posted);
                }
            }
            Some(_) => self.route(now, at, observer, |agent, cx| {
                agent.overhear_data(cx, from, to, &datagram)
            }),
            None => {}
        }
    }

    /// Calls an agent and executes its actions.
    fn route(
        &mut self,
        now: Time,
        radio: RadioId,
        observer: &mut dyn Observer,
        f: impl FnOnce(&mut Agent, &mut Context<'_>),
    ) {
        let Some(radios) = &mut self.radios else { return };
        radios.agents.call(now, radio, f);
        radios.agents.arm(&mut self.queue, radio);
        if radios.agents.actions.is_empty() {
            return;
        }
        let mut actions = core::mem::take(&mut radios.agents.actions);
        for action in actions.drain(..) {
            self.act(now, radio, action, observer);
        }
        if let Some(radios) = &mut self.radios {
            radios.agents.actions = actions;
            radios.agents.failure = None;
        }
    }

    fn act(&mut self, now: Time, radio: RadioId, action: Action, observer: &mut dyn Observer) {
        match action {
            Action::Send { packet, next_hop } => self.send_to(now, packet, radio, RadioId::from(next_hop), observer),
            Action::Deliver { packet } => self.leave_radio(now, packet, observer),
            Action::Drop { packet, cause } => {
                if matches!(cause, Cause::NoRoute | Cause::LinkBroken) {
                    let to = self.routed_to(packet);
                    self.note_route(now, radio, to, None, observer);
                }
                let failure = self
                    .radios
                    .as_ref()
                    .map_or(Failure::OutOfRange, |radios| radios.agents.failures[packet as usize]);
                let cause = match cause {
                    Cause::NoRoute => DropCause::NoRoute,
                    Cause::BufferFull => DropCause::RouteBufferFull,
                    Cause::BufferTimeout => DropCause::RouteTimeout,
                    Cause::TtlExpired => DropCause::TtlExpired,
                    Cause::LinkBroken => failure.cause(),
                };
                self.drop(now, packet, cause, Some(DirectionId::of_radio(radio)), observer);
            }
            Action::Broadcast { message, delay } => self.post(now, message, (radio, BROADCAST), delay),
            Action::Unicast {
                message,
                next_hop,
                delay,
            } => self.post(now, message, (radio, RadioId::from(next_hop)), delay),
            Action::Reclaim { next_hop } => {
                if let Some(radios) = &mut self.radios {
                    let failure = radios.agents.failure.unwrap_or(Failure::OutOfRange);
                    radios.reclaim(radio, RadioId::from(next_hop), failure);
                }
            }
        }
    }

    /// Returns the destination radio of a packet and the rank of its route.
    fn routed_to(&self, packet: PacketId) -> (RadioId, u8) {
        let radios = self.radios.as_ref();
        radios.map_or((BROADCAST, 0), |radios| {
            let datagram = &radios.agents.datagrams[packet as usize];
            (RadioId::from(datagram.destination), datagram.rank)
        })
    }

    /// Puts a data packet into a radio's queue for a neighbour.
    fn send_to(&mut self, now: Time, id: PacketId, radio: RadioId, to: RadioId, observer: &mut dyn Observer) {
        if self.wanted.routes {
            let destination = self.routed_to(id);
            self.note_route(now, radio, destination, Some(to), observer);
        }
        let Some(radios) = &mut self.radios else { return };
        let packet = self.slab.get_mut(id);
        packet.direction = DirectionId::of_radio(radio);
        let size = packet.size + radios.agents.datagrams[id as usize].header_bytes();
        let flow = packet.flow;
        radios.offer(now, &mut self.queue, radio, to, (id, size, flow));
        if self.wanted.link_packets {
            let waiting = radios.waiting(radio);
            self.report(
                now,
                id,
                PacketFate::Enqueued { waiting },
                Some(DirectionId::of_radio(radio)),
                observer,
            );
        }
    }

    /// Puts a control message into a radio's queue, now or after a delay.
    fn post(&mut self, now: Time, message: Message, ends: (RadioId, RadioId), delay: Span) {
        let (from, to) = ends;
        let Some(radios) = &mut self.radios else { return };
        let place = radios.agents.post(Posted { message, from, to });
        if delay.is_zero() {
            self.send_posted(now, place);
        } else {
            self.queue.push(now + delay, Event::Control { message: place });
        }
    }

    /// Handles the end of a control message's delay.
    pub(crate) fn send_control(&mut self, now: Time, place: u32, observer: &mut dyn Observer) {
        self.send_posted(now, place);
        self.settle_radio(now, observer);
    }

    fn send_posted(&mut self, now: Time, place: u32) {
        let Some(radios) = &mut self.radios else { return };
        let Some(posted) = radios.agents.posted[place as usize].as_ref() else {
            return;
        };
        let (from, to, bytes) = (posted.from, posted.to, posted.message.bytes());
        radios.count_control(now, from, bytes);
        radios.offer(now, &mut self.queue, from, to, (place | CONTROL, bytes, u32::MAX));
    }
}
