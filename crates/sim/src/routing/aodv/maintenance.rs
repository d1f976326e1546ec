//! Hello messages, broken links, route errors and local repair (RFC 3561 §6.9 to §6.12).

use whimbrel_control::{Span, Time};

use super::Aodv;
use super::table::State;
use crate::routing::{Action, Address, Cause, Context, DEFAULT_TTL, Handle, Message, Rerr, Unreachable};

/// Destinations that became unreachable, and the precursors that need a route error.
#[derive(Default)]
struct Loss {
    unreachable: Vec<Unreachable>,
    precursors: Vec<Address>,
}

impl Loss {
    fn add(&mut self, destination: Address, seq: Option<u32>, precursors: &[Address]) {
        // §6.11: a route without precursors needs no route error.
        if precursors.is_empty() {
            return;
        }
        let seq = seq.unwrap_or(0);
        self.unreachable.push(Unreachable { destination, seq });
        for neighbour in precursors {
            if let Err(place) = self.precursors.binary_search(neighbour) {
                self.precursors.insert(place, *neighbour);
            }
        }
    }
}

impl Aodv {
    /// Handles a broken link (§6.11). `transit` is the source and destination of the packet that detected it, if another node sent
    /// that packet: its route is repaired locally if the destination is near (§6.12).
    pub(super) fn link_broken(
        &mut self,
        cx: &mut Context<'_>,
        neighbour: Address,
        transit: Option<(Address, Address)>,
    ) {
        let now = cx.now;
        let repairs = self.config.local_repair && !self.config.persistent_repair && transit.is_some();
        let (reach, delete_period) = (self.config.max_repair_ttl, self.config.delete_period());
        let mut loss = Loss::default();
        let mut broken = false;
        for route in self.table.iter_mut() {
            if !route.is_valid(now) || route.next_hop != neighbour {
                continue;
            }
            broken = true;
            route.invalidate(now, delete_period, None);
            if repairs && route.hops <= reach {
                // Routes without a waiting packet are repaired if a packet arrives soon.
                route.repairable_until = now + self.config.active_route_timeout;
            } else {
                loss.add(route.destination, route.seq, &route.precursors);
                route.precursors.clear();
            }
        }
        self.neighbours.retain(|(address, _)| *address != neighbour);
        if !broken {
            return;
        }
        self.counters.link_failures += 1;
        cx.actions.push(Action::Reclaim { next_hop: neighbour });
        self.send_error(cx, loss, false);
        if let Some((source, destination)) = transit.filter(|_| repairs) {
            let near = self
                .table
                .get(destination)
                .is_some_and(|route| route.repairable_until > now);
            if near {
                self.repair(cx, source, destination);
            }
        }
    }

    /// Starts a local repair (§6.12). Packets wait meanwhile, and no route error is sent.
    pub(super) fn repair(&mut self, cx: &mut Context<'_>, source: Address, destination: Address) {
        let half = self.table.get(source).map_or(0, |route| route.hops.div_ceil(2));
        let Some(route) = self.table.current(cx.now, destination) else {
            return;
        };
        route.state = State::Repairing;
        route.repairable_until = Time::ZERO;
        let ttl = route.hops.max(half).saturating_add(self.config.local_add_ttl);
        self.counters.repairs += 1;
        self.discoveries
            .retain(|discovery| discovery.destination != destination);
        self.begin(cx, destination, ttl, true);
    }

    /// Starts a persistent repair as in ns-2 for a packet whose link broke: invalidates only its route, and repairs it if the
    /// destination is closer than the source. Returns whether the packet waits for the repair.
    pub(super) fn begin_persistent_repair(&mut self, cx: &mut Context<'_>, packet: Handle) -> bool {
        let datagram = cx.datagrams[packet as usize];
        let travelled = DEFAULT_TTL.saturating_sub(datagram.ttl);
        let delete_period = self.config.delete_period();
        let is_transit = datagram.source != self.address;
        let Some(route) = self
            .table
            .current(cx.now, datagram.destination)
            .filter(|route| self.config.local_repair && is_transit && travelled > route.hops)
        else {
            return false;
        };
        match route.state {
            State::Repairing => {}
            // Also if another route has been found since.
            State::Valid => {
                route.invalidate(cx.now, delete_period, None);
                route.state = State::Repairing;
                self.counters.repairs += 1;
            }
            State::Invalid => return false,
        }
        self.keep(cx, packet);
        self.discover(cx, datagram.destination);
        true
    }

    /// Ends a local repair that found no route.
    pub(super) fn repair_failed(&mut self, cx: &mut Context<'_>, destination: Address) {
        let (now, delete_period) = (cx.now, self.config.delete_period());
        let mut loss = Loss::default();
        if let Some(route) = self
            .table
            .current(now, destination)
            .filter(|route| route.state == State::Repairing)
        {
            route.state = State::Invalid;
            route.expires = now + delete_period;
            loss.add(destination, route.seq, &route.precursors);
            route.precursors.clear();
        }
        self.send_error(cx, loss, false);
        let address = self.address;
        self.buffer.give_up_transit(cx, destination, address, Cause::LinkBroken);
        if self.buffer.waits_for(destination) {
            self.discover(cx, destination);
        }
    }

    /// Sends a route error with flag N for a repaired route that is longer than before, so that its users may search for a better
    /// one (§6.12).
    pub(super) fn report_longer(&mut self, cx: &mut Context<'_>, destination: Address) {
        let mut loss = Loss::default();
        if let Some(route) = self.table.get(destination) {
            loss.add(destination, route.seq, &route.precursors);
        }
        self.send_error(cx, loss, true);
    }

    /// Handles a packet without a route (§6.11, case ii).
    pub(super) fn no_route(&mut self, cx: &mut Context<'_>, from: Address, packet: Handle) {
        let (now, delete_period) = (cx.now, self.config.delete_period());
        let destination = cx.datagrams[packet as usize].destination;
        let mut seq = None;
        if let Some(route) = self.table.current(now, destination) {
            // The sequence number was incremented when the route became invalid. The entry is kept while packets for it arrive.
            route.expires = now + delete_period;
            seq = route.seq;
        }
        let mut loss = Loss::default();
        loss.add(destination, seq, &[from]);
        self.send_error(cx, loss, false);
        cx.drop(packet, Cause::NoRoute);
    }

    /// Handles a neighbour's route error (§6.11, case iii).
    pub(super) fn receive_error(&mut self, cx: &mut Context<'_>, from: Address, rerr: &Rerr) {
        let (now, delete_period) = (cx.now, self.config.delete_period());
        let mut loss = Loss::default();
        for reported in &rerr.unreachable {
            let Some(route) = self
                .table
                .valid(now, reported.destination)
                .filter(|route| route.next_hop == from)
            else {
                continue;
            };
            if rerr.no_delete {
                loss.add(reported.destination, Some(reported.seq), &route.precursors);
                continue;
            }
            route.invalidate(now, delete_period, Some(reported.seq));
            loss.add(reported.destination, route.seq, &route.precursors);
            route.precursors.clear();
        }
        self.send_error(cx, loss, rerr.no_delete);
    }

    /// Sends a route error to the precursors: as unicast to a single one, otherwise as broadcast (§6.11).
    fn send_error(&mut self, cx: &mut Context<'_>, loss: Loss, no_delete: bool) {
        if loss.unreachable.is_empty() || self.errors.allowed_at(cx.now) > cx.now {
            return;
        }
        self.errors.count(cx.now);
        let message = Message::Rerr(Rerr {
            no_delete,
            unreachable: loss.unreachable,
        });
        match loss.precursors.as_slice() {
            [one] => self.unicast(cx, *one, message),
            _ => {
                let jitter = self.config.broadcast_jitter;
                self.broadcast(cx, message, jitter);
            }
        }
    }

    /// Handles a hello message (§6.9).
    pub(super) fn receive_hello(&mut self, cx: &mut Context<'_>, from: Address, seq: u32, lifetime: Span) {
        let until = cx.now + lifetime;
        self.table.neighbour(cx.now, from, self.address, until, Some(seq));
        self.release(cx, from);
        if !self.config.hello {
            return;
        }
        let silent = cx.now + self.config.hello_lifetime();
        match self.neighbours.binary_search_by_key(&from, |(address, _)| *address) {
            Ok(place) => self.neighbours[place].1 = silent,
            Err(place) => self.neighbours.insert(place, (from, silent)),
        }
        self.wake_at(silent);
    }

    /// Sends a hello message if it is due, data packets use a route over this node, and nothing was broadcast recently. Treats
    /// links as broken on which nothing was received for too long (§6.9, §6.10). Unused routes do not count, because hello messages
    /// create them.
    pub(super) fn handle_hello(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        if self.hello_at.is_some_and(|at| at <= now) {
            let active = self
                .table
                .iter()
                .any(|route| route.is_valid(now) && route.used_until > now);
            let quiet = now.since(self.last_broadcast) >= self.config.hello_interval;
            let mut next = self.config.hello_interval;
            if active && quiet {
                let hello = Message::Hello {
                    seq: self.seq,
                    lifetime: self.config.hello_lifetime(),
                };
                self.broadcast(cx, hello, self.config.broadcast_jitter);
            } else if active {
                next = self.config.hello_interval - now.since(self.last_broadcast);
            }
            self.hello_at = Some(now + next.max(Span::from_millis(1)));
        }
        while let Some((silent, _)) = self.neighbours.iter().find(|(_, until)| *until <= now).copied() {
            self.link_broken(cx, silent, None);
        }
    }
}
