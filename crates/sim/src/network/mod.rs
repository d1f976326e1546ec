//! The network between the hosts: accepts packets, transports them hop by hop, and delivers them.

mod handoff;
mod oversize;

use std::collections::VecDeque;
use std::sync::Arc;

use whimbrel_control::Time;

pub(crate) use self::oversize::Fragmented;
use crate::engine::{Event, EventQueue};
use crate::ids::{DirectionId, NodeId, RouteId};
use crate::ledger::{DropCause, DropCounts, DropEntry, Ledger};
use crate::link::{Admission, Direction, LinkChange, Window};
use crate::observer::{Observer, PacketEvent, PacketFate, RouteEvent, Wanted};
use crate::packet::{Form, Oversize, Packet, PacketId, Slab};
use crate::radio::{CONTROL, RadioId, RadioReport, Radios};
use crate::topology::Topology;
use crate::truth::Truth;

/// Everything between the hosts.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) queue: EventQueue,
    pub(crate) slab: Slab,
    pub(crate) topology: Topology,
    pub(crate) directions: Vec<Direction>,
    /// The hops of all routes, in the order of the topology.
    pub(crate) way: Vec<Hop>,
    pub(crate) ledger: Ledger,
    /// True causes of the losses of each flow's sender.
    pub(crate) truths: Vec<Arc<Truth>>,
    pub(crate) window: Window,
    /// Latest end of the run.
    pub(crate) end: Time,
    pub(crate) wanted: Wanted,
    pub(crate) hops_done: u64,
    /// How often hand-offs have changed routes.
    pub(crate) route_changes: u64,
    /// Hash of the events of each flow's packets.
    pub(crate) fingerprints: Vec<u64>,
    /// Packets of each flow dropped in the window.
    pub(crate) flow_drops: Vec<DropCounts>,
    /// Packets dropped on each direction in the window.
    pub(crate) link_drops: Vec<DropCounts>,
    /// Packets dropped at each radio in the window.
    pub(crate) radio_drops: Vec<DropCounts>,
    /// The radios, if there are any.
    pub(crate) radios: Option<Box<Radios>>,
    /// Packets that have reached the end of their route over radio, to be delivered by the world.
    pub(crate) landed: Vec<PacketId>,
    /// Packets that have arrived at an end outside the simulation, with their times, and reports about packets that were too long.
    pub(crate) delivered: VecDeque<(Time, Left)>,
    /// Whether a loss model depends on the packet's content.
    pub(crate) needs_kinds: bool,
    /// The nodes that do not report packets that are too long.
    pub(crate) silent: Vec<bool>,
    pub(crate) fragmented: Fragmented,
}

/// What leaves the simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    /// A packet.
    Arrived(PacketId),
    /// A packet that was too long for a link, with the link's MTU as its size, back at its source.
    TooLong(PacketId),
}

/// A hop of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    pub(crate) direction: DirectionId,
    /// Whether packets enter it ahead of time.
    pub(crate) direct: bool,
}

/// Events that are part of a fingerprint.
#[derive(Clone, Copy)]
enum Mark {
    Sent = 0,
    Arrived = 1,
    Dropped = 2,
}

/// Fate of the remainder of a packet that has got another event.
const MOVED: u8 = u8::MAX;

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a word into a hash.
#[inline]
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    hash.wrapping_mul(MIX).rotate_left(29) ^ word
}

impl Network {
    #[inline]
    fn mark(fingerprints: &mut [u64], packet: &Packet, mark: Mark, at: Time) {
        let hash = &mut fingerprints[packet.flow as usize];
        let what = u64::from(packet.direction.number()) << 36
            ^ u64::from(packet.number) << 3
            ^ u64::from(packet.is_forward()) << 2;
        *hash = mix(*hash ^ at.as_nanos(), what | mark as u64);
    }

    /// Returns the last node before the destination of a route, as known at its start: the node at the start of the last link; over
    /// radio, the one that the sender's routing reports.
    pub(crate) fn last_hop(&mut self, now: Time, route: RouteId) -> Option<NodeId> {
        let hops = self.topology.hops_of(route);
        let (&last, others) = hops.split_last()?;
        if !last.is_radio_hop() {
            return Some(self.topology.node_of(last));
        }
        let (from, to) = last.radio_ends();
        // Beyond a link, the sender only knows static routes.
        let radios = self.radios.as_mut()?;
        if !others.is_empty() && radios.agents.has(from) {
            return None;
        }
        let rank = self.topology.routes[route as usize].rank;
        let before = radios.last_hop(now, from, to, rank)?;
        Some(self.topology.node_of(DirectionId::of_radio(before)))
    }

    /// Sends a packet whose record is complete.
    pub(crate) fn send(&mut self, now: Time, id: PacketId, observer: &mut dyn Observer) {
        let packet = self.slab.get(id);
        Self::mark(&mut self.fingerprints, packet, Mark::Sent, now);
        if packet.hop == packet.last_hop {
            if self.wanted.host_packets {
                self.report(now, id, PacketFate::Sent, None, observer);
            }
            return self.drop(now, id, DropCause::NoRoute, None, observer);
        }
        if self.wanted.host_packets {
            let hop = self.topology.hops[packet.hop as usize];
            let first = self.topology.leaves_by(hop);
            self.report(now, id, PacketFate::Sent, Some(first), observer);
        }
        self.forward(now, id, observer);
    }

    /// Puts a packet into the queue of its next hop, and of the following ones that it enters ahead of time.
    #[inline]
    pub(crate) fn forward(&mut self, now: Time, id: PacketId, observer: &mut dyn Observer) {
        self.forward_from(now, now, id, observer);
    }

    /// Forwards a packet that enters its next hop at a time that may be ahead of the run's.
    #[inline]
    fn forward_from(&mut self, now: Time, mut at: Time, id: PacketId, observer: &mut dyn Observer) {
        loop {
            if self.wanted.link_packets {
                self.report_entry(at, id, observer);
            }
            let packet = self.slab.get_mut(id);
            let next = self.way[packet.hop as usize].direction;
            if next.is_radio_hop() {
                return self.enter_radio(at, id, next, observer);
            }
            packet.hop += 1;
            packet.direction = next;
            let seq = self.queue.take_seq();
            match self.directions[next.index()].enter(at, now, seq, id, packet, self.window) {
                Ok(Admission::Behind) => return,
                Ok(Admission::First(arrival)) => {
                    return self.queue.push_with(arrival, seq, Event::Arrival { direction: next });
                }
                Ok(Admission::Queued { departs_at, refused }) => {
                    if let Some(free) = departs_at {
                        self.queue.push(free, Event::Departure { direction: next });
                    }
                    if let Some(refused) = refused {
                        self.drop(now, refused, DropCause::QueueFull, Some(next), observer);
                    }
                    return;
                }
                Ok(Admission::Loose(arrival)) => {
                    let at_once = packet.hop < packet.last_hop && self.way[packet.hop as usize].direct;
                    if !at_once {
                        return self.queue.push_with(arrival, seq, Event::Loose { packet: id });
                    }
                    Self::mark(&mut self.fingerprints, packet, Mark::Arrived, arrival);
                    self.count_hop(arrival, id, observer);
                    at = arrival;
                }
                Err(DropCause::TooBig) if packet.oversize == Oversize::Fragment => {
                    packet.hop -= 1;
                    let mtu = self.directions[next.index()].mtu();
                    return self.cut(now, at, id, mtu, observer);
                }
                Err(cause) if at == now => return self.drop(now, id, cause, Some(next), observer),
                Err(cause) => {
                    // It is dropped when it gets there.
                    packet.fate = cause.fate();
                    return self.queue.push_with(at, seq, Event::Loose { packet: id });
                }
            }
        }
    }

    /// Handles a free transmitter: its queue, which decides at departures, sends the next packet.
    pub(crate) fn depart(&mut self, now: Time, direction: DirectionId, observer: &mut dyn Observer) {
        let next = self.directions[direction.index()].depart(now);
        for index in 0..self.directions[direction.index()].dropped().0.len() {
            let (dropped, cause) = self.directions[direction.index()].dropped();
            let packet = dropped[index].packet;
            self.drop(now, packet, cause, Some(direction), observer);
        }
        let Some((waiting, mark)) = next else { return };
        let packet = self.slab.get_mut(waiting.packet);
        let link = &mut self.directions[direction.index()];
        let (admission, free) = link.send_departing(now, waiting, mark, packet, self.window);
        match admission {
            Admission::First(arrival) => self.queue.push_with(arrival, waiting.seq, Event::Arrival { direction }),
            Admission::Loose(arrival) => {
                let packet = waiting.packet;
                self.queue.push_with(arrival, waiting.seq, Event::Loose { packet });
            }
            Admission::Behind | Admission::Queued { .. } => {}
        }
        self.queue.push(free, Event::Departure { direction });
    }

    #[cold]
    fn report_entry(&mut self, at: Time, id: PacketId, observer: &mut dyn Observer) {
        let next = self.way[self.slab.get(id).hop as usize].direction;
        if next.is_radio_hop() {
            // The radio reports the outcome.
            return;
        }
        let waiting = self.directions[next.index()].waiting(at).packets;
        self.report(at, id, PacketFate::Enqueued { waiting }, Some(next), observer);
    }

    /// Handles a packet at the end of its current direction.
    #[inline]
    fn cross(&mut self, at: Time, id: PacketId, observer: &mut dyn Observer) {
        Self::mark(&mut self.fingerprints, self.slab.get(id), Mark::Arrived, at);
        self.count_hop(at, id, observer);
    }

    #[inline]
    fn count_hop(&mut self, at: Time, id: PacketId, observer: &mut dyn Observer) {
        self.hops_done += u64::from(at < self.end);
        if self.wanted.link_packets {
            let direction = self.slab.get(id).direction;
            self.report(at, id, PacketFate::Crossed, Some(direction), observer);
        }
    }

    /// Handles a packet's arrival at the end of a direction. Returns it if its route ends here, and forwards it otherwise.
    #[inline]
    pub(crate) fn arrived(&mut self, now: Time, id: PacketId, observer: &mut dyn Observer) -> Option<PacketId> {
        let packet = self.slab.get(id);
        if packet.fate != 0 {
            if packet.fate == MOVED {
                self.slab.release(id);
                return None;
            }
            let cause = DropCause::ALL[usize::from(packet.fate - 1)];
            let direction = packet.direction;
            self.drop(now, id, cause, Some(direction), observer);
            return None;
        }
        let (direction, ends) = (packet.direction, packet.hop == packet.last_hop);
        self.cross(now, id, observer);
        if ends {
            let id = self.whole(id)?;
            if self.wanted.host_packets {
                self.report(now, id, PacketFate::Delivered, Some(direction), observer);
            }
            return Some(id);
        }
        self.forward(now, id, observer);
        None
    }

    /// Passes a packet to the radio at the start of a radio hop.
    #[inline]
    fn enter_radio(&mut self, now: Time, id: PacketId, hop: DirectionId, observer: &mut dyn Observer) {
        self.slab.get_mut(id).hop += 1;
        let (from, to) = hop.radio_ends();
        if self.radios.as_ref().is_some_and(|radios| radios.agents.has(from)) {
            self.slab.get_mut(id).direction = DirectionId::of_radio(from);
            self.originate(now, id, (from, to), observer);
        } else {
            self.send_over_radio(now, id, from, to, observer);
        }
        self.settle_radio(now, observer);
    }

    /// Puts a packet into a radio's queue for the next hop towards another radio.
    fn send_over_radio(&mut self, now: Time, id: PacketId, at: RadioId, target: RadioId, observer: &mut dyn Observer) {
        let packet = self.slab.get_mut(id);
        packet.direction = DirectionId::of_radio(at);
        let what = (id, packet.size, packet.flow);
        let Some(radios) = &mut self.radios else { return };
        if packet.size > radios.mtu(at) {
            return self.too_long_for_radio(now, id, at, observer);
        }
        let Some(next) = radios.next_hop(at, target) else {
            let cause = radios.why_no_way(at);
            self.note_route(now, at, (target, 0), None, observer);
            return self.drop(now, id, cause, Some(DirectionId::of_radio(at)), observer);
        };
        radios.offer(now, &mut self.queue, at, next, what);
        self.note_route(now, at, (target, 0), Some(next), observer);
        if self.wanted.link_packets {
            let waiting = self.radios.as_ref().map_or(0, |radios| radios.waiting(at));
            self.report(
                now,
                id,
                PacketFate::Enqueued { waiting },
                Some(DirectionId::of_radio(at)),
                observer,
            );
        }
    }

    /// Handles the reports of radios. Packets at the end of their route wait in `landed`.
    pub(crate) fn settle_radio(&mut self, now: Time, observer: &mut dyn Observer) {
        while let Some(report) = self.radios.as_mut().and_then(|radios| radios.reports.pop_front()) {
            match report {
                RadioReport::Arrived { packet, .. }
                | RadioReport::Refused { packet, .. }
                | RadioReport::Failed { packet, .. }
                    if packet & CONTROL != 0 =>
                {
                    self.control(now, report, observer);
                }
                RadioReport::Arrived { packet, at } => self.arrived_by_radio(now, packet, at, observer),
                RadioReport::Refused { packet, at, cause } => {
                    self.drop(now, packet, cause, Some(DirectionId::of_radio(at)), observer);
                }
                RadioReport::Arp { frame, at } => {
                    if let Some(radios) = &mut self.radios {
                        radios.receive_arp(now, &mut self.queue, at, &frame);
                    }
                }
                RadioReport::Failed {
                    packet,
                    at,
                    to,
                    failure,
                    unsent,
                } => {
                    if self.radios.as_ref().is_some_and(|radios| radios.agents.has(at)) {
                        self.data_failed(now, packet, (at, to), (failure, unsent), observer);
                    } else {
                        self.drop(now, packet, failure.cause(), Some(DirectionId::of_radio(at)), observer);
                    }
                }
                RadioReport::Left { packet, at } => self.left_behind(now, packet, at, observer),
                RadioReport::LinkFailed { at, to, failure } => self.link_failed(now, at, to, failure, observer),
                RadioReport::Done { packet } => self.control_done(packet),
                RadioReport::Overheard { at, transmission } => self.overhear(now, at, transmission, observer),
            }
        }
        self.report_frames(observer);
    }

    fn arrived_by_radio(&mut self, now: Time, id: PacketId, at: RadioId, observer: &mut dyn Observer) {
        self.cross(now, id, observer);
        if self.radios.as_ref().is_some_and(|radios| radios.agents.has(at)) {
            return self.receive_data(now, id, at, observer);
        }
        let packet = self.slab.get(id);
        let hop = self.way[packet.hop as usize - 1].direction;
        let (_, target) = hop.radio_ends();
        if at != target {
            return self.send_over_radio(now, id, at, target, observer);
        }
        self.leave_radio(now, id, observer);
    }

    /// Handles a packet that has reached the radio at the end of its hop.
    pub(crate) fn leave_radio(&mut self, now: Time, id: PacketId, observer: &mut dyn Observer) {
        let packet = self.slab.get(id);
        if packet.hop == packet.last_hop {
            let Some(id) = self.whole(id) else { return };
            let packet = self.slab.get(id);
            if self.wanted.host_packets {
                let direction = packet.direction;
                self.report(now, id, PacketFate::Delivered, Some(direction), observer);
            }
            return self.landed.push(id);
        }
        self.forward(now, id, observer);
    }

    /// Returns the packet at the end of its route; none if it is a fragment and others are missing.
    #[inline]
    fn whole(&mut self, id: PacketId) -> Option<PacketId> {
        if !self.slab.get(id).is_fragment {
            return Some(id);
        }
        self.reassemble(id)
    }

    /// Moves the edge of a frame from receiver to receiver, from `now` until another event is due. Returns the time reached: landed
    /// packets arrived at that time.
    pub(crate) fn move_edge(&mut self, now: Time, transmission: u32, ends: bool, observer: &mut dyn Observer) -> Time {
        let mut at = now;
        loop {
            let Some(radios) = &mut self.radios else { return at };
            let next;
            (at, next) = if ends {
                radios.signal_ends(at, self.end, &mut self.queue, transmission)
            } else {
                radios.signal_begins(at, self.end, &mut self.queue, transmission)
            };
            debug_assert!(
                at <= self.queue.first_at() && (at == now || at < self.end),
                "the edge of a frame passed another event"
            );
            if !radios.reports.is_empty() {
                self.settle_radio(at, observer);
            }
            self.report_frames(observer);
            let Some(next) = next else { return at };
            if next >= self.queue.first_at() || next >= self.end || !self.landed.is_empty() {
                let event = if ends {
                    Event::SignalEnds { transmission }
                } else {
                    Event::SignalBegins { transmission }
                };
                self.queue.push(next, event);
                return at;
            }
            at = next;
        }
    }

    /// Handles a radio's event.
    pub(crate) fn wake_radio(&mut self, now: Time, radio: RadioId, seq: u64, observer: &mut dyn Observer) {
        if let Some(radios) = &mut self.radios {
            radios.wake(now, &mut self.queue, radio, seq);
            if !radios.reports.is_empty() {
                self.settle_radio(now, observer);
            }
        }
        self.report_frames(observer);
    }

    /// Reports to the observer a next hop that differs from the last one.
    #[inline]
    pub(crate) fn note_route(
        &mut self,
        now: Time,
        radio: RadioId,
        (destination, rank): (RadioId, u8),
        next_hop: Option<RadioId>,
        observer: &mut dyn Observer,
    ) {
        if !self.wanted.routes {
            return;
        }
        let Some(radios) = &mut self.radios else { return };
        let ends = (radio, destination, rank);
        let before = match next_hop {
            Some(next) => radios.routes_taken.insert(ends, next),
            None => radios.routes_taken.remove(&ends),
        };
        if before != next_hop {
            observer.route(&RouteEvent {
                at: now,
                radio,
                destination,
                rank,
                next_hop,
            });
        }
    }

    /// Reports frame events to the observer.
    #[inline]
    fn report_frames(&mut self, observer: &mut dyn Observer) {
        if !self.wanted.frames {
            return;
        }
        if let Some(events) = self.radios.as_mut().and_then(|radios| radios.events.as_mut()) {
            events.drain(..).for_each(|event| observer.frame(&event));
        }
    }

    /// Creates the copy of a packet that arrives twice, if it does.
    #[inline]
    pub(crate) fn split(&mut self, id: PacketId) -> Option<PacketId> {
        if !self.slab.get(id).twice {
            return None;
        }
        self.slab.get_mut(id).twice = false;
        let copy = self.slab.duplicate(id);
        self.slab.get_mut(copy).is_copy = true;
        if self.slab.get(copy).is_fragment {
            self.fragmented.on_duplicated(self.slab.get(copy));
        }
        Some(copy)
    }

    /// Handles the arrival of the head of a direction, and schedules the next one.
    #[inline]
    pub(crate) fn take_arrival(&mut self, direction: DirectionId, seq: u64) -> Option<PacketId> {
        let link = &mut self.directions[direction.index()];
        let Some(transit) = link.arrive(seq) else {
            self.queue.pop();
            return None;
        };
        match link.head() {
            Some(next) => self
                .queue
                .replace_first(next.arrival, next.seq, Event::Arrival { direction }),
            None => self.queue.pop(),
        }
        Some(transit.packet)
    }

    /// Sets both directions of a link up or down.
    pub(crate) fn set_link(&mut self, now: Time, link: u32, up: bool, observer: &mut dyn Observer) {
        for direction in [0, 1].map(|end| DirectionId::of_link(link, end)) {
            for waiting in self.directions[direction.index()].flush() {
                self.drop(now, waiting.packet, DropCause::LinkDown, Some(direction), observer);
            }
            let loose = self.directions[direction.index()].is_loose();
            for transit in self.directions[direction.index()].set_up(now, up, self.window) {
                if loose {
                    // Its event handles the rest.
                    let packet = self.slab.get_mut(transit.packet);
                    packet.fate = DropCause::LinkDown.fate();
                    packet.twice = false;
                } else {
                    self.drop(now, transit.packet, DropCause::LinkDown, Some(direction), observer);
                }
            }
        }
    }

    /// Changes a direction's rate, delay or losses.
    pub(crate) fn change(&mut self, now: Time, direction: DirectionId, change: &LinkChange) {
        let link = &mut self.directions[direction.index()];
        let moved = link.change(now, change, &mut self.slab, self.window);
        if let Some(free) = moved.departure {
            self.queue.push(free, Event::Departure { direction });
        }
        if moved.head
            && !link.is_loose()
            && let Some(head) = link.transit_mut(0)
        {
            // The event with its old sequence number is stale.
            head.seq = self.queue.take_seq();
            self.queue
                .push_with(head.arrival, head.seq, Event::Arrival { direction });
        }
        for place in moved.loose {
            let Some(transit) = link.transit_mut(place) else {
                continue;
            };
            // Its event finds an empty record and removes it.
            let packet = self.slab.duplicate(transit.packet);
            let shell = self.slab.get_mut(core::mem::replace(&mut transit.packet, packet));
            (shell.fate, shell.twice) = (MOVED, false);
            self.queue.push(transit.arrival, Event::Loose { packet });
        }
    }

    /// Records a dropped packet and frees its slot.
    #[cold]
    pub(crate) fn drop(
        &mut self,
        now: Time,
        id: PacketId,
        cause: DropCause,
        direction: Option<DirectionId>,
        observer: &mut dyn Observer,
    ) {
        let packet = *self.slab.get(id);
        if let (DropCause::TooBig, Some(hop)) = (cause, direction) {
            self.report_mtu(now, id, hop);
        }
        if packet.is_fragment {
            self.fragmented.on_left(&packet);
        }
        Self::mark(&mut self.fingerprints, &packet, Mark::Dropped, now);
        self.ledger.counts.add(cause);
        if packet.is_forward() {
            let truth = &self.truths[packet.flow as usize];
            self.slab.body(id).labels(&mut |label| truth.dropped(label, cause));
        }
        if self.window.contains(now) {
            self.flow_drops[packet.flow as usize].add(cause);
            if let Some(direction) = direction {
                match direction.radio() {
                    Some(radio) => self.radio_drops[radio as usize].add(cause),
                    None => self.link_drops[direction.index()].add(cause),
                }
            }
        }
        if self.wanted.drops {
            self.report(now, id, PacketFate::Dropped(cause), direction, observer);
        }
        if let Some(entries) = &mut self.ledger.entries {
            let body = self.slab.body(id);
            entries.push(DropEntry {
                at: now,
                flow: packet.flow,
                forward: packet.is_forward(),
                number: packet.number,
                direction,
                cause,
                size: packet.size,
                kinds: body.kinds(),
                tsn: body.first_tsn(),
            });
        }
        self.slab.release(id);
    }

    #[cold]
    pub(crate) fn report(
        &mut self,
        at: Time,
        id: PacketId,
        fate: PacketFate,
        direction: Option<DirectionId>,
        observer: &mut dyn Observer,
    ) {
        let packet = self.slab.get(id);
        let route = &self.topology.routes[packet.route as usize];
        let body = self.slab.body(id);
        observer.packet(&PacketEvent {
            at,
            fate,
            flow: packet.flow,
            forward: packet.is_forward(),
            number: packet.number,
            direction,
            sent: packet.sent,
            source: route.source,
            destination: route.destination,
            ecn: packet.ecn,
            congestion: packet.congestion,
            size: packet.size,
            sctp: body.view(),
            tcp: body.segment().map(|segment| (segment, body.bytes.as_slice())),
            ip: body.ip(),
            fragment: packet.oversize == Oversize::Fragment && body.form != Form::Datagram,
        });
    }
}
