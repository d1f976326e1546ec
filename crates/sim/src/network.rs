//! The network between the hosts: takes packets from them, carries them hop by hop, and hands them over.

use std::sync::Arc;

use whimbrel_control::Time;

use crate::engine::{Event, EventQueue};
use crate::ledger::{DropCause, DropCounts, DropEntry, Ledger};
use crate::link::{Admission, Direction, LinkChange, Window};
use crate::observer::{Observer, PacketEvent, PacketFate, Wanted};
use crate::packet::{Packet, PacketId, Slab};
use crate::topology::{DirectionId, Topology};
use crate::truth::Truth;

/// Everything that a packet meets on its way.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) queue: EventQueue,
    pub(crate) slab: Slab,
    pub(crate) topology: Topology,
    pub(crate) directions: Vec<Direction>,
    /// The hops of all routes, in the order of the topology.
    pub(crate) way: Vec<Hop>,
    pub(crate) ledger: Ledger,
    /// Of each flow, why packets of its sender died.
    pub(crate) truths: Vec<Arc<Truth>>,
    pub(crate) window: Window,
    /// When the run ends at the latest.
    pub(crate) end: Time,
    pub(crate) wanted: Wanted,
    pub(crate) hops_done: u64,
    /// Hash of what happened to each flow's packets.
    pub(crate) fingerprints: Vec<u64>,
    /// Packets of each flow that died in the window.
    pub(crate) flow_drops: Vec<DropCounts>,
    /// Packets that died on each direction in the window.
    pub(crate) link_drops: Vec<DropCounts>,
    /// Whether some loss model asks what packets carry.
    pub(crate) needs_kinds: bool,
}

/// A hop of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    pub(crate) direction: DirectionId,
    /// Whether it is entered ahead of time.
    pub(crate) direct: bool,
}

/// Occasions that enter a fingerprint.
#[derive(Clone, Copy)]
enum Mark {
    Sent = 0,
    Arrived = 1,
    Dropped = 2,
}

/// Fate of what is left of a packet that has another event instead.
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
        let what = u64::from(packet.direction) << 36 ^ u64::from(packet.number) << 3 ^ u64::from(packet.agent & 1) << 2;
        *hash = mix(*hash ^ at.as_nanos(), what | mark as u64);
    }

    /// Sends a packet whose record is complete on its way.
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
            let first = self.topology.hops[packet.hop as usize];
            self.report(now, id, PacketFate::Sent, Some(first), observer);
        }
        self.forward(now, id, observer);
    }

    /// Puts a packet into the queue of its next hop, and of those behind it that it enters ahead of time.
    #[inline]
    fn forward(&mut self, now: Time, id: PacketId, observer: &mut dyn Observer) {
        let mut at = now;
        loop {
            if self.wanted.link_packets {
                self.report_entry(at, id, observer);
            }
            let packet = self.slab.get_mut(id);
            let next = self.way[packet.hop as usize].direction;
            packet.hop += 1;
            packet.direction = next;
            let seq = self.queue.take_seq();
            match self.directions[next as usize].enter(at, now, seq, id, packet, self.window) {
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
                    self.cross(arrival, id, observer);
                    at = arrival;
                }
                Err(cause) if at == now => return self.drop(now, id, cause, Some(next), observer),
                Err(cause) => {
                    // It dies when it gets there.
                    packet.fate = cause.fate();
                    return self.queue.push_with(at, seq, Event::Loose { packet: id });
                }
            }
        }
    }

    /// A transmitter is free: its queue, which decides as packets leave, sends the next one.
    pub(crate) fn depart(&mut self, now: Time, direction: DirectionId, observer: &mut dyn Observer) {
        let next = self.directions[direction as usize].depart(now);
        for index in 0..self.directions[direction as usize].dropped().len() {
            let dropped = self.directions[direction as usize].dropped()[index].packet;
            self.drop(now, dropped, DropCause::Codel, Some(direction), observer);
        }
        let Some((waiting, mark)) = next else { return };
        let packet = self.slab.get_mut(waiting.packet);
        let link = &mut self.directions[direction as usize];
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
        let waiting = self.directions[next as usize].waiting(at).packets;
        self.report(at, id, PacketFate::Enqueued { waiting }, Some(next), observer);
    }

    /// A packet gets to the end of the direction it is on.
    #[inline]
    fn cross(&mut self, at: Time, id: PacketId, observer: &mut dyn Observer) {
        self.hops_done += u64::from(at < self.end);
        let packet = self.slab.get(id);
        Self::mark(&mut self.fingerprints, packet, Mark::Arrived, at);
        if self.wanted.link_packets {
            let direction = packet.direction;
            self.report(at, id, PacketFate::Crossed, Some(direction), observer);
        }
    }

    /// A packet arrives at the end of a direction. Gives it back if its way ends here, and sends it on otherwise.
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
            if self.wanted.host_packets {
                self.report(now, id, PacketFate::Delivered, Some(direction), observer);
            }
            return Some(id);
        }
        self.forward(now, id, observer);
        None
    }

    /// Makes the copy of a packet that arrives twice, if it does.
    #[inline]
    pub(crate) fn split(&mut self, id: PacketId) -> Option<PacketId> {
        if !self.slab.get(id).twice {
            return None;
        }
        self.slab.get_mut(id).twice = false;
        Some(self.slab.duplicate(id))
    }

    /// The head of a direction arrives, and the next in line takes its place among the events.
    #[inline]
    pub(crate) fn take_arrival(&mut self, direction: DirectionId, seq: u64) -> Option<PacketId> {
        let link = &mut self.directions[direction as usize];
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

    /// Takes both directions of a link up or down.
    pub(crate) fn set_link(&mut self, now: Time, link: u32, up: bool, observer: &mut dyn Observer) {
        for direction in [link * 2, link * 2 + 1] {
            for waiting in self.directions[direction as usize].flush() {
                self.drop(now, waiting.packet, DropCause::LinkDown, Some(direction), observer);
            }
            let loose = self.directions[direction as usize].is_loose();
            for transit in self.directions[direction as usize].set_up(now, up, self.window) {
                if loose {
                    // Its event finds out.
                    let packet = self.slab.get_mut(transit.packet);
                    packet.fate = DropCause::LinkDown.fate();
                    packet.twice = false;
                } else {
                    self.drop(now, transit.packet, DropCause::LinkDown, Some(direction), observer);
                }
            }
        }
    }

    /// Changes a direction's rate, delay or channel.
    pub(crate) fn change(&mut self, now: Time, direction: DirectionId, change: &LinkChange) {
        let link = &mut self.directions[direction as usize];
        let moved = link.change(now, change, &mut self.slab, self.window);
        if let Some(free) = moved.departure {
            self.queue.push(free, Event::Departure { direction });
        }
        if moved.head
            && !link.is_loose()
            && let Some(head) = link.transit_mut(0)
        {
            // The event with its old place finds nobody.
            head.seq = self.queue.take_seq();
            self.queue
                .push_with(head.arrival, head.seq, Event::Arrival { direction });
        }
        for place in moved.loose {
            let Some(transit) = link.transit_mut(place) else {
                continue;
            };
            // Its event finds an empty shell and clears it away.
            let packet = self.slab.duplicate(transit.packet);
            let shell = self.slab.get_mut(core::mem::replace(&mut transit.packet, packet));
            (shell.fate, shell.twice) = (MOVED, false);
            self.queue.push(transit.arrival, Event::Loose { packet });
        }
    }

    /// Enters a packet's death and frees its place.
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
        Self::mark(&mut self.fingerprints, &packet, Mark::Dropped, now);
        self.ledger.counts.add(cause);
        if packet.is_forward() {
            let truth = &self.truths[packet.flow as usize];
            self.slab.body(id).labels(&mut |label| truth.died(label, cause));
        }
        if self.window.contains(now) {
            self.flow_drops[packet.flow as usize].add(cause);
            if let Some(direction) = direction {
                self.link_drops[direction as usize].add(cause);
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
    fn report(
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
        });
    }
}
