//! Ad hoc on-demand distance vector routing (RFC 3561).
//!
//! Routes are discovered on demand, by requests that flood the network in growing rings. The destination replies, or a node with a
//! route at least as new as the lost one. Sequence numbers of the destinations order routes by age, which prevents loops: from node
//! to node along a route, either the sequence number grows, or it is the same and the number of hops decreases. Where the RFC
//! permits violations of this order, this code keeps it; each place has a comment.
//!
//! | file | procedure | RFC 3561 |
//! |---|---|---|
//! | `table.rs` | routes, sequence numbers | 6.1, 6.2 |
//! | `discovery.rs` | requests and replies | 6.3 to 6.8 |
//! | `maintenance.rs` | hellos, broken links, errors, local repair | 6.9 to 6.12 |

mod discovery;
mod maintenance;
mod table;
#[cfg(test)]
mod tests;

use whimbrel_control::{Span, Time};

use self::discovery::{Discovery, Latency};
use self::table::{State, Table};
use super::buffer::{Buffer, RateLimit, earliest};
use super::seen::Seen;
use super::{Action, Address, Cause, Context, Counters, Handle, Message, Protocol};
use crate::config::AodvConfig;

/// An AODV node.
#[derive(Clone, Debug)]
pub struct Aodv {
    config: AodvConfig,
    address: Address,
    /// The node's own sequence number.
    seq: u32,
    /// Number of the last request.
    request: u32,
    table: Table,
    discoveries: Vec<Discovery>,
    latencies: Vec<Latency>,
    buffer: Buffer,
    seen: Seen,
    /// Neighbours that send hello messages, each with the time at which it counts as lost.
    neighbours: Vec<(Address, Time)>,
    /// Neighbours that do not receive this node's messages, each with the time until which their requests are ignored.
    blacklist: Vec<(Address, Time)>,
    /// Neighbours that should acknowledge a reply, each with its deadline.
    unacknowledged: Vec<(Address, Time)>,
    requests: RateLimit,
    errors: RateLimit,
    last_broadcast: Time,
    hello_at: Option<Time>,
    purge_at: Option<Time>,
    /// A time at or before the next deadline.
    wake: Option<Time>,
    counters: Counters,
}

impl Aodv {
    /// Creates a node without routes.
    pub fn new(config: &AodvConfig, address: Address) -> Self {
        Aodv {
            address,
            seq: 0,
            request: 0,
            table: Table::new(config.delete_period()),
            discoveries: Vec::new(),
            latencies: Vec::new(),
            buffer: Buffer::new(config.buffer_packets, config.buffer_timeout),
            seen: Seen::default(),
            neighbours: Vec::new(),
            blacklist: Vec::new(),
            unacknowledged: Vec::new(),
            requests: RateLimit::new(config.rreq_ratelimit),
            errors: RateLimit::new(config.rerr_ratelimit),
            last_broadcast: Time::ZERO,
            hello_at: None,
            purge_at: None,
            wake: None,
            counters: Counters::default(),
            config: config.clone(),
        }
    }

    /// Returns the known sequence number of a destination and the hops of the route in use.
    pub fn route(&self, now: Time, destination: Address) -> Option<(u32, u8)> {
        let route = self.table.get(destination).filter(|route| route.is_valid(now))?;
        Some((route.seq?, route.hops))
    }

    /// Schedules a wake-up at this time or earlier.
    fn wake_at(&mut self, at: Time) {
        self.wake = earliest([self.wake, Some(at)]);
    }

    /// Sends a packet along a route if there is one, and marks the route as active (§6.2). This extends the lifetime of the routes
    /// to the destination and the next hop, and to the previous hop and the source if packets to the source go through the previous
    /// hop. (The RFC always extends the route to the source, as it assumes symmetric routes. With asymmetric ones the nodes on that
    /// route would not know.)
    fn send(&mut self, cx: &mut Context<'_>, from: Option<Address>, packet: Handle) -> bool {
        let until = cx.now + self.config.active_route_timeout;
        let destination = cx.datagrams[packet as usize].destination;
        let Some(route) = self.table.valid(cx.now, destination) else {
            return false;
        };
        route.put_to_use(until);
        let next_hop = route.next_hop;
        if next_hop != destination
            && let Some(route) = self.table.valid(cx.now, next_hop)
        {
            route.put_to_use(until);
        }
        if let Some(from) = from {
            self.extend_back(cx, from, packet);
        }
        self.counters.data_sent += 1;
        cx.actions.push(Action::Send { packet, next_hop });
        true
    }

    /// Extends the route back to the source of a packet from a neighbour.
    fn extend_back(&mut self, cx: &Context<'_>, from: Address, packet: Handle) {
        let until = cx.now + self.config.active_route_timeout;
        let source = cx.datagrams[packet as usize].source;
        if let Some(route) = self.table.valid(cx.now, source).filter(|route| route.next_hop == from) {
            route.put_to_use(until);
        }
        if source != from
            && let Some(route) = self.table.valid(cx.now, from).filter(|route| route.next_hop == from)
        {
            route.put_to_use(until);
        }
    }

    /// Keeps a packet until there is a route.
    fn keep(&mut self, cx: &mut Context<'_>, packet: Handle) {
        self.buffer.push(cx, packet);
        let timeout = self.buffer.next_timeout();
        self.wake = earliest([self.wake, timeout]);
    }

    /// Sends the packets that waited for a route to this destination.
    fn release(&mut self, cx: &mut Context<'_>, destination: Address) {
        self.discoveries
            .retain(|discovery| discovery.destination != destination);
        // Each packet is sent or dropped, so the loop ends.
        while let Some(packet) = self.buffer.pop(destination) {
            if !self.send(cx, None, packet) {
                cx.drop(packet, Cause::NoRoute);
            }
        }
    }

    fn broadcast(&mut self, cx: &mut Context<'_>, message: Message, jitter: Span) {
        let delay = cx.jitter(jitter);
        self.last_broadcast = cx.now;
        cx.broadcast(&mut self.counters, message, delay);
    }

    fn unicast(&mut self, cx: &mut Context<'_>, next_hop: Address, message: Message) {
        cx.unicast(&mut self.counters, next_hop, message, Span::ZERO);
    }

    /// Records that a neighbour has sent something.
    fn note_neighbour(&mut self, now: Time, from: Address) {
        if self.config.hello
            && let Ok(place) = self.neighbours.binary_search_by_key(&from, |(address, _)| *address)
        {
            self.neighbours[place].1 = now + self.config.hello_lifetime();
        }
    }

    fn purge(&mut self, now: Time) {
        self.table.purge(now);
        self.seen.purge(now);
        self.blacklist.retain(|(_, until)| *until > now);
        self.purge_at = Some(now + self.config.delete_period());
    }
}

impl Protocol for Aodv {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.purge_at = Some(cx.now + self.config.delete_period());
        self.hello_at = self
            .config
            .hello
            .then(|| cx.now + cx.jitter(self.config.hello_interval));
        self.wake = earliest([self.purge_at, self.hello_at]);
    }

    fn originate(&mut self, cx: &mut Context<'_>, packet: Handle) {
        let destination = cx.datagrams[packet as usize].destination;
        if destination == self.address {
            cx.actions.push(Action::Deliver { packet });
        } else if !self.send(cx, None, packet) {
            self.keep(cx, packet);
            self.discover(cx, destination);
        }
    }

    fn receive_data(&mut self, cx: &mut Context<'_>, from: Address, packet: Handle) {
        self.note_neighbour(cx.now, from);
        if !cx.arrived(self.address, packet) {
            return self.extend_back(cx, from, packet);
        }
        if self.send(cx, Some(from), packet) {
            return;
        }
        let now = cx.now;
        let datagram = cx.datagrams[packet as usize];
        match self.table.current(now, datagram.destination) {
            Some(route) if route.state == State::Repairing => {
                self.keep(cx, packet);
                if self.config.persistent_repair {
                    self.discover(cx, datagram.destination);
                }
            }
            Some(route) if route.repairable_until > now => {
                self.repair(cx, datagram.source, datagram.destination);
                self.keep(cx, packet);
            }
            _ => self.no_route(cx, from, packet),
        }
    }

    fn receive_control(&mut self, cx: &mut Context<'_>, from: Address, message: &Message) {
        self.note_neighbour(cx.now, from);
        match message {
            Message::Rreq(rreq) => self.receive_request(cx, from, rreq),
            Message::Rrep(rrep) => self.receive_reply(cx, from, rrep),
            Message::Rerr(rerr) => self.receive_error(cx, from, rerr),
            Message::RrepAck => self.unacknowledged.retain(|(neighbour, _)| *neighbour != from),
            Message::Hello { seq, lifetime } => self.receive_hello(cx, from, *seq, *lifetime),
            Message::Update { .. } | Message::DsrRequest(_) | Message::DsrReply(_) | Message::DsrError(_) => {}
        }
    }

    fn data_failed(&mut self, cx: &mut Context<'_>, next_hop: Address, packet: Handle) {
        let datagram = cx.datagrams[packet as usize];
        if !self.config.link_layer_feedback {
            return cx.drop(packet, Cause::LinkBroken);
        }
        if self.config.persistent_repair && self.begin_persistent_repair(cx, packet) {
            return;
        }
        let transit = (datagram.source != self.address).then_some((datagram.source, datagram.destination));
        self.link_broken(cx, next_hop, transit);
        let now = cx.now;
        let state = self.table.current(now, datagram.destination).map(|route| route.state);
        match state {
            _ if !self.config.keep_failed => cx.drop(packet, Cause::LinkBroken),
            // Another route has been found meanwhile.
            Some(State::Valid) if self.send(cx, None, packet) => {}
            Some(State::Repairing) => self.keep(cx, packet),
            _ if transit.is_none() => {
                self.keep(cx, packet);
                self.discover(cx, datagram.destination);
            }
            _ => cx.drop(packet, Cause::LinkBroken),
        }
    }

    fn link_failed(&mut self, cx: &mut Context<'_>, next_hop: Address) {
        if self.config.link_layer_feedback {
            self.link_broken(cx, next_hop, None);
        }
    }

    fn control_failed(&mut self, cx: &mut Context<'_>, next_hop: Address, message: &Message) {
        if !self.config.link_layer_feedback {
            return;
        }
        if let Message::Rrep(_) = message {
            self.blacklist(cx.now, next_hop);
        }
        self.link_broken(cx, next_hop, None);
    }

    fn next_timeout(&self) -> Option<Time> {
        self.wake
    }

    fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        if self.wake.is_none_or(|wake| wake > now) {
            return;
        }
        self.buffer.expire(cx);
        self.handle_discoveries(cx);
        self.handle_hello(cx);
        while let Some(place) = self.unacknowledged.iter().position(|(_, until)| *until <= now) {
            let (neighbour, _) = self.unacknowledged.swap_remove(place);
            self.blacklist(now, neighbour);
        }
        if self.purge_at.is_some_and(|at| at <= now) {
            self.purge(now);
        }
        let discovery = self.discoveries.iter().map(|discovery| discovery.deadline).min();
        let neighbour = self.neighbours.iter().map(|(_, until)| *until).min();
        let reply = self.unacknowledged.iter().map(|(_, until)| *until).min();
        let buffer = self.buffer.next_timeout();
        self.wake = earliest([discovery, neighbour, reply, buffer, self.hello_at, self.purge_at]);
    }

    fn next_hop(&self, now: Time, destination: Address) -> Option<Address> {
        let route = self.table.get(destination).filter(|route| route.is_valid(now))?;
        Some(route.next_hop)
    }

    fn last_hop(&self, now: Time, destination: Address, _rank: u8) -> Option<Address> {
        self.table
            .get(destination)
            .filter(|route| route.is_valid(now))?
            .last_hop
    }

    fn buffered(&self) -> usize {
        self.buffer.len()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
