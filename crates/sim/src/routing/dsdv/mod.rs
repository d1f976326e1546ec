//! Destination-sequenced distance vector routing (Perkins and Bhagwat 1994).
//!
//! Every node periodically advertises its whole table to its neighbours (full dump), and its changes in between (incremental dump).
//! A destination numbers its routes with even sequence numbers; a broken link is advertised with an infinite metric and the next
//! odd number. A route with a newer number always replaces an older one, and a route with the same number if it is shorter, which
//! prevents loops.
//!
//! Advertisements with the same number arrive over several routes, not always the best one first. Therefore there are two tables
//! (section "Damping fluctuations"): the newest route is used at once, but advertised only after twice the average settling time of
//! the destination. Until then the best route of the previous number is advertised.
//!
//! Constants and details that the paper does not specify are those of ns-2 unless stated otherwise.

mod table;
#[cfg(test)]
mod tests;

use whimbrel_control::{Span, Time};

use self::table::{Route, Table};
use super::buffer::{Buffer, earliest};
use super::seen::newer;
use super::{Action, Address, Cause, Context, Counters, DsdvEntry, Handle, Message, Protocol};
use crate::config::DsdvConfig;

/// A DSDV node.
#[derive(Clone, Debug)]
pub struct Dsdv {
    config: DsdvConfig,
    address: Address,
    /// The node's own sequence number, even.
    seq: u32,
    table: Table,
    buffer: Buffer,
    /// Known neighbours, in order, each with the time at which it counts as lost.
    neighbours: Vec<(Address, Time)>,
    /// When the next full dump is due.
    full_at: Option<Time>,
    /// When an incremental dump is due, if there are changes.
    incremental_at: Option<Time>,
    last_dump: Option<Time>,
    wake: Option<Time>,
    counters: Counters,
}

impl Dsdv {
    /// Creates a node without neighbours.
    pub fn new(config: &DsdvConfig, address: Address) -> Self {
        Dsdv {
            address,
            seq: 0,
            table: Table::default(),
            buffer: Buffer::new(u32::MAX, config.buffer_timeout),
            neighbours: Vec::new(),
            full_at: None,
            incremental_at: None,
            last_dump: None,
            wake: None,
            counters: Counters::default(),
            config: config.clone(),
        }
    }

    /// Returns the sequence number and the hops of the route to a reachable destination.
    pub fn route(&self, destination: Address) -> Option<(u32, u8)> {
        let route = self.table.get(destination).filter(|route| route.is_finite())?;
        Some((route.seq, route.metric))
    }

    fn wake_at(&mut self, at: Time) {
        self.wake = earliest([self.wake, Some(at)]);
    }

    fn set_wake(&mut self) {
        let silent = self.neighbours.iter().map(|(_, until)| *until).min();
        self.wake = earliest([silent, self.full_at, self.incremental_at, self.buffer.next_timeout()]);
    }

    fn send(&mut self, cx: &mut Context<'_>, packet: Handle) {
        let destination = cx.datagrams[packet as usize].destination;
        if let Some(route) = self.table.get(destination).filter(|route| route.is_finite()) {
            let next_hop = route.next_hop;
            self.counters.data_sent += 1;
            return cx.actions.push(Action::Send { packet, next_hop });
        }
        // ns-2 keeps the newest few packets for each destination.
        let room = self.config.buffer_packets as usize;
        if room == 0 {
            return cx.drop(packet, Cause::NoRoute);
        }
        if self.buffer.count(destination) >= room
            && let Some(oldest) = self.buffer.pop(destination)
        {
            cx.drop(oldest, Cause::BufferFull);
        }
        self.buffer.push(cx, packet);
        self.wake = earliest([self.wake, self.buffer.next_timeout()]);
    }

    /// Sends the waiting packets that now have routes.
    fn release(&mut self, cx: &mut Context<'_>) {
        let table = &self.table;
        while let Some((packet, destination)) = self.buffer.pop_if(|to| table.get(to).is_some_and(Route::is_finite)) {
            let Some(route) = table.get(destination) else { continue };
            let next_hop = route.next_hop;
            self.counters.data_sent += 1;
            cx.actions.push(Action::Send { packet, next_hop });
        }
    }

    /// Schedules an incremental dump at this time, or as soon after it as allowed.
    fn trigger(&mut self, at: Time) {
        let allowed = self
            .last_dump
            .map_or(at, |last| at.max(last + self.config.min_triggered_interval));
        self.incremental_at = earliest([self.incremental_at, Some(allowed)]);
        self.wake_at(allowed);
    }

    /// Handles a route of a neighbour's table.
    fn learn(&mut self, cx: &mut Context<'_>, from: Address, entry: &DsdvEntry) {
        let now = cx.now;
        if entry.destination == self.address {
            // Each node is the authority on its own sequence number.
            if newer(entry.seq, self.seq) {
                self.seq = entry.seq.wrapping_add(entry.seq & 1);
                self.full_at = Some(now);
                self.wake_at(now);
            }
            return;
        }
        let metric = match entry.metric {
            DsdvEntry::INFINITY.. => DsdvEntry::INFINITY,
            metric => metric + 1,
        };
        let initial = self.config.initial_settling;
        let is_new = self.table.get(entry.destination).is_none();
        if is_new && metric == DsdvEntry::INFINITY {
            return;
        }
        let route = self
            .table
            .entry(entry.destination, || Route::new(entry.destination, initial, now));
        let was_finite = !is_new && route.is_finite();
        let fresh = is_new || newer(entry.seq, route.seq);
        if !fresh && (entry.seq != route.seq || metric >= route.metric) {
            // An older advertisement that a destination is unreachable is corrected.
            if metric == DsdvEntry::INFINITY && route.is_finite() && newer(route.seq, entry.seq) {
                route.settled_at = now;
                route.triggers = true;
                self.trigger(now);
            }
            return;
        }
        if fresh && !is_new {
            // The routes of the previous number have settled.
            route.before = route.is_finite().then(|| route.entry());
            let took = route.best_at.since(route.first_at).as_secs_f64();
            let weight = self.config.settling_weight;
            let average = route.settling.as_secs_f64() * weight + took * (1.0 - weight);
            route.settling = Span::from_secs_f64(average);
        }
        if fresh {
            route.first_at = now;
        }
        route.best_at = now;
        route.seq = entry.seq;
        route.metric = metric;
        route.next_hop = from;
        let finite = route.is_finite();
        let at_once = !finite || (!was_finite && (!is_new || self.config.advertise_new_at_once));
        route.settled_at = if at_once {
            now
        } else {
            now + route.settling * u64::from(self.config.settling_factor)
        };
        // Only a change of the metric triggers a dump.
        let is_changed = route.advertised.is_none_or(|advertised| advertised.metric != metric);
        route.triggers = is_changed && (is_new || !fresh || self.config.trigger_on_new_number);
        let at = route.settled_at;
        if route.triggers {
            self.trigger(at);
        }
    }

    /// Handles a broken link: all routes over it become unreachable.
    fn link_broken(&mut self, cx: &mut Context<'_>, neighbour: Address) {
        let now = cx.now;
        let mut broken = false;
        for route in self
            .table
            .iter_mut()
            .filter(|route| route.next_hop == neighbour && route.is_finite())
        {
            broken = true;
            route.metric = DsdvEntry::INFINITY;
            // The next odd number. Settling times do not change, because this is not the best route of a number.
            route.seq = route.seq.wrapping_add(1);
            route.settled_at = now;
            route.before = None;
            route.triggers = true;
        }
        self.neighbours.retain(|(address, _)| *address != neighbour);
        if broken {
            self.counters.link_failures += 1;
            self.trigger(now);
            cx.actions.push(Action::Reclaim { next_hop: neighbour });
        }
    }

    /// Advertises the whole table with a new own sequence number.
    fn dump_full(&mut self, cx: &mut Context<'_>) {
        self.seq = self.seq.wrapping_add(2);
        let mut entries = Vec::with_capacity(self.table.len() + 1);
        entries.push(self.own_entry());
        for route in self.table.iter_mut() {
            entries.extend(route.advertise(cx.now, true, &self.config));
        }
        self.dump(cx, true, entries);
        let period = self.config.period.as_secs_f64() * (0.75 + 0.25 * cx.rng.unit());
        self.full_at = Some(cx.now + Span::from_secs_f64(period));
    }

    /// Advertises the changes, or the whole table if many routes have changed (a third, as in ns-2).
    fn dump_incremental(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        let config = &self.config;
        let changed = self.table.iter().filter(|route| route.is_due(now, config)).count();
        if changed > 3 && changed * 3 > self.table.len() + 1 {
            return self.dump_full(cx);
        }
        if changed == 0 {
            return self.trigger_rest();
        }
        let mut entries = Vec::with_capacity(changed + 1);
        entries.push(self.own_entry());
        for route in self.table.iter_mut().filter(|route| route.is_due(now, &self.config)) {
            entries.extend(route.advertise(now, false, &self.config));
        }
        self.dump(cx, false, entries);
    }

    fn own_entry(&self) -> DsdvEntry {
        DsdvEntry {
            destination: self.address,
            metric: 0,
            seq: self.seq,
        }
    }

    fn dump(&mut self, cx: &mut Context<'_>, full: bool, entries: Vec<DsdvEntry>) {
        let delay = cx.jitter(self.config.broadcast_jitter);
        for part in entries.chunks(self.config.packet_routes as usize) {
            let message = Message::Update {
                full,
                entries: part.to_vec(),
            };
            cx.broadcast(&mut self.counters, message, delay);
        }
        self.last_dump = Some(cx.now);
        self.trigger_rest();
    }

    /// Schedules the advertisement of routes that have not settled yet.
    fn trigger_rest(&mut self) {
        self.incremental_at = None;
        let next = self
            .table
            .iter()
            .filter(|route| route.triggers)
            .map(|route| route.settled_at)
            .min();
        if let Some(at) = next {
            self.trigger(at);
        }
    }
}

impl Protocol for Dsdv {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.full_at = Some(cx.now + cx.jitter(self.config.startup_jitter));
        self.set_wake();
    }

    fn originate(&mut self, cx: &mut Context<'_>, packet: Handle) {
        if cx.datagrams[packet as usize].destination == self.address {
            return cx.actions.push(Action::Deliver { packet });
        }
        self.send(cx, packet);
    }

    fn receive_data(&mut self, cx: &mut Context<'_>, _from: Address, packet: Handle) {
        if cx.arrived(self.address, packet) {
            self.send(cx, packet);
        }
    }

    fn receive_control(&mut self, cx: &mut Context<'_>, from: Address, message: &Message) {
        let Message::Update { entries, .. } = message else {
            return;
        };
        for entry in entries {
            self.learn(cx, from, entry);
        }
        let silent = cx.now + self.config.period * u64::from(self.config.allowed_silence);
        match self.neighbours.binary_search_by_key(&from, |(address, _)| *address) {
            Ok(place) => self.neighbours[place].1 = silent,
            Err(place) => self.neighbours.insert(place, (from, silent)),
        }
        self.wake_at(silent);
        self.release(cx);
    }

    fn data_failed(&mut self, cx: &mut Context<'_>, next_hop: Address, packet: Handle) {
        if !self.config.link_layer_feedback {
            return cx.drop(packet, Cause::LinkBroken);
        }
        self.link_broken(cx, next_hop);
        self.send(cx, packet);
    }

    fn link_failed(&mut self, cx: &mut Context<'_>, next_hop: Address) {
        if self.config.link_layer_feedback {
            self.link_broken(cx, next_hop);
        }
    }

    fn control_failed(&mut self, _cx: &mut Context<'_>, _next_hop: Address, _message: &Message) {}

    fn next_timeout(&self) -> Option<Time> {
        self.wake
    }

    fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        if self.wake.is_none_or(|wake| wake > now) {
            return;
        }
        self.buffer.expire(cx);
        while let Some((silent, _)) = self.neighbours.iter().find(|(_, until)| *until <= now).copied() {
            self.link_broken(cx, silent);
        }
        if self.full_at.is_some_and(|at| at <= now) {
            self.dump_full(cx);
        } else if self.incremental_at.is_some_and(|at| at <= now) {
            self.dump_incremental(cx);
        }
        self.set_wake();
    }

    fn next_hop(&self, _now: Time, destination: Address) -> Option<Address> {
        self.table
            .get(destination)
            .filter(|route| route.is_finite())
            .map(|route| route.next_hop)
    }

    fn last_hop(&self, now: Time, destination: Address, _rank: u8) -> Option<Address> {
        let next_hop = self.next_hop(now, destination)?;
        match self.table.get(destination)?.metric {
            1 => Some(self.address),
            2 => Some(next_hop),
            _ => None,
        }
    }

    fn buffered(&self) -> usize {
        self.buffer.len()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
