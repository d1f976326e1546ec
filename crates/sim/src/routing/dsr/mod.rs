//! Dynamic source routing (RFC 4728).
//!
//! Every packet carries its route. Routes are found by requests that record their route, and are kept in a cache. A node that
//! cannot forward a packet sends a route error to the source and tries a route of its own. Links are assumed to be bidirectional,
//! as 802.11 requires. A packet to a neighbour carries no route; flow state (an extension in the RFC) is not used.
//!
//! | file | procedure | RFC 4728 |
//! |---|---|---|
//! | `cache.rs` | routes | 4.1 |
//! | `discovery.rs` | requests and replies | 3.1, 3.3, 8.2 |
//! | `maintenance.rs` | broken links, salvaging, shortening, passive acknowledgements | 3.2, 3.4, 8.3 |

mod cache;
mod discovery;
mod maintenance;
#[cfg(test)]
mod tests;

use whimbrel_control::{Span, Time};

use self::cache::Cache;
use self::discovery::{Discovery, HeldReply};
use self::maintenance::{Awaited, GratuitousReply};
use super::buffer::{Buffer, earliest};
use super::seen::Seen;
use super::{Action, Address, BrokenLink, Cause, Context, Counters, Datagram, Handle, Message, Protocol, SourceRoute};
use crate::config::DsrConfig;

/// Interval of the checks for expired routes.
const PURGE: Span = Span::from_secs(10);

/// A DSR node.
#[derive(Clone, Debug)]
pub struct Dsr {
    config: DsrConfig,
    address: Address,
    cache: Cache,
    buffer: Buffer,
    /// Number of the last request.
    request: u32,
    seen: Seen,
    discoveries: Vec<Discovery>,
    /// Delayed replies from the cache.
    held: Vec<HeldReply>,
    /// Gratuitous replies sent recently.
    gratuitous: Vec<GratuitousReply>,
    /// Packets that wait for a passive acknowledgement.
    awaited: Vec<Awaited>,
    /// Neighbours with missing passive acknowledgements, and their number in a row.
    unheard: Vec<(Address, u8)>,
    /// The last broken link that was reported to this node as a source; its next request includes it.
    spread: Option<BrokenLink>,
    purge_at: Option<Time>,
    wake: Option<Time>,
    counters: Counters,
}

impl Dsr {
    /// Creates a node with an empty cache.
    pub fn new(config: &DsrConfig, address: Address) -> Self {
        Dsr {
            address,
            cache: Cache::new(config.cache_routes, config.route_cache_timeout),
            buffer: Buffer::new(config.buffer_packets, config.buffer_timeout),
            request: 0,
            seen: Seen::default(),
            discoveries: Vec::new(),
            held: Vec::new(),
            gratuitous: Vec::new(),
            awaited: Vec::new(),
            unheard: Vec::new(),
            spread: None,
            purge_at: None,
            wake: None,
            counters: Counters::default(),
            config: config.clone(),
        }
    }

    /// Returns the route that a packet to this destination would use now.
    pub fn route(&self, now: Time, destination: Address) -> Option<SourceRoute> {
        self.cache.find(now, destination)
    }

    fn wake_at(&mut self, at: Time) {
        self.wake = earliest([self.wake, Some(at)]);
    }

    /// Sends a packet of its own, or one that it salvages, along a route from the cache.
    fn send(&mut self, cx: &mut Context<'_>, packet: Handle, salvaged: u8) -> bool {
        let Datagram { destination, rank, .. } = cx.datagrams[packet as usize];
        // A node that salvages a packet does not know the disjoint routes of the packet's source.
        let rank = if salvaged == 0 { rank } else { 0 };
        let Some(route) = self.cache.take(cx.now, destination, rank) else {
            return false;
        };
        cx.datagrams[packet as usize].route = route.with_salvaged(salvaged);
        self.send_on(cx, packet);
        true
    }

    /// Sends a packet to the next node of its route.
    fn send_on(&mut self, cx: &mut Context<'_>, packet: Handle) {
        let datagram = &cx.datagrams[packet as usize];
        let Some(next_hop) = datagram.route.next() else {
            return cx.drop(packet, Cause::NoRoute);
        };
        self.await_passive_ack(cx.now, datagram);
        self.counters.data_sent += 1;
        cx.actions.push(Action::Send { packet, next_hop });
    }

    /// Keeps a packet of its own until there is a route, and starts a discovery.
    fn keep(&mut self, cx: &mut Context<'_>, packet: Handle) {
        let destination = cx.datagrams[packet as usize].destination;
        cx.datagrams[packet as usize].route = SourceRoute::default();
        self.buffer.push(cx, packet);
        self.wake = earliest([self.wake, self.buffer.next_timeout()]);
        self.discover(cx, destination);
    }

    /// Sends the waiting packets that now have routes (§4.2).
    fn release(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        loop {
            let cache = &self.cache;
            let Some((packet, destination)) = self.buffer.pop_if(|to| cache.find(now, to).is_some()) else {
                return;
            };
            self.discoveries.retain(|discovery| discovery.target != destination);
            if !self.send(cx, packet, 0) {
                cx.drop(packet, Cause::NoRoute);
            }
        }
    }

    /// Learns from a received route, in both directions. If this node is on it, the parts before and behind this node are routes;
    /// otherwise the parts before and behind the neighbour that sent it.
    fn learn(&mut self, now: Time, nodes: &[Address], heard: Address) {
        let (place, own) = match nodes.iter().position(|node| *node == self.address) {
            Some(place) => (place, 0),
            None => match nodes.iter().position(|node| *node == heard) {
                Some(place) => (place, 1),
                None => return,
            },
        };
        let me = self.address;
        let start = || {
            let mut route = SourceRoute::default();
            let room = own == 0 || route.push(me);
            (route, room)
        };
        let (mut onward, mut room) = start();
        for node in &nodes[place..] {
            room &= onward.push(*node);
        }
        if room {
            self.cache.add(now, onward);
        }
        let (mut back, mut room) = start();
        for node in nodes[..=place].iter().rev() {
            room &= back.push(*node);
        }
        if room {
            self.cache.add(now, back);
        }
    }

    /// Advances a packet's route to this node, if this node is next.
    fn advance(&self, route: &SourceRoute) -> Option<SourceRoute> {
        let next = route.at_place(route.at() + 1);
        (route.next() == Some(self.address)).then_some(next)
    }

    fn set_wake(&mut self) {
        let discovery = self.discoveries.iter().map(|discovery| discovery.deadline).min();
        let held = self.held.iter().map(|held| held.at).min();
        let awaited = self.awaited.iter().map(|awaited| awaited.until).min();
        self.wake = earliest([discovery, held, awaited, self.buffer.next_timeout(), self.purge_at]);
    }
}

impl Protocol for Dsr {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.purge_at = Some(cx.now + PURGE);
        self.wake = self.purge_at;
    }

    fn originate(&mut self, cx: &mut Context<'_>, packet: Handle) {
        if cx.datagrams[packet as usize].destination == self.address {
            return cx.actions.push(Action::Deliver { packet });
        }
        if !self.send(cx, packet, 0) {
            self.keep(cx, packet);
        }
    }

    fn receive_data(&mut self, cx: &mut Context<'_>, from: Address, packet: Handle) {
        let route = cx.datagrams[packet as usize].route;
        self.learn(cx.now, route.nodes(), from);
        self.release(cx);
        if !cx.arrived(self.address, packet) {
            return;
        }
        match self.advance(&route) {
            Some(route) => {
                cx.datagrams[packet as usize].route = route;
                self.send_on(cx, packet);
            }
            None => cx.drop(packet, Cause::NoRoute),
        }
    }

    fn receive_control(&mut self, cx: &mut Context<'_>, from: Address, message: &Message) {
        match message {
            Message::DsrRequest(request) => self.receive_request(cx, from, request),
            Message::DsrReply(reply) => self.receive_reply(cx, from, reply),
            Message::DsrError(error) => self.receive_error(cx, from, error),
            Message::Rreq(_) | Message::Rrep(_) | Message::Rerr(_) | Message::RrepAck => {}
            Message::Hello { .. } | Message::Update { .. } => {}
        }
    }

    fn data_failed(&mut self, cx: &mut Context<'_>, next_hop: Address, packet: Handle) {
        if self.config.keep_failed {
            return self.data_returned(cx, next_hop, packet);
        }
        self.link_broken(cx, next_hop);
        self.send_error(cx, &cx.datagrams[packet as usize].route.clone(), next_hop);
        cx.drop(packet, Cause::LinkBroken);
    }

    fn data_returned(&mut self, cx: &mut Context<'_>, next_hop: Address, packet: Handle) {
        self.link_broken(cx, next_hop);
        self.undeliverable(cx, next_hop, packet);
    }

    fn link_failed(&mut self, cx: &mut Context<'_>, next_hop: Address) {
        self.link_broken(cx, next_hop);
    }

    fn control_failed(&mut self, cx: &mut Context<'_>, next_hop: Address, message: &Message) {
        self.link_broken(cx, next_hop);
        if let Message::DsrReply(reply) = message {
            self.send_error(cx, &reply.source_route, next_hop);
        }
    }

    fn is_promiscuous(&self) -> bool {
        self.config.promiscuous
    }

    fn overhear_data(&mut self, cx: &mut Context<'_>, from: Address, to: Address, datagram: &Datagram) {
        let route = datagram.route;
        self.on_forwarded(from, datagram);
        self.cancel_held(datagram);
        self.learn(cx.now, route.nodes(), from);
        self.release(cx);
        self.shorten(cx, from, to, &route);
    }

    fn overhear_control(&mut self, cx: &mut Context<'_>, from: Address, _to: Address, message: &Message) {
        match message {
            Message::DsrReply(reply) => {
                self.learn(cx.now, reply.found.nodes(), from);
                self.release(cx);
            }
            Message::DsrError(error) => self.cache.remove_link(error.broken.from, error.broken.to),
            _ => {}
        }
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
        self.send_held(cx);
        self.handle_unheard(cx);
        if self.purge_at.is_some_and(|at| at <= now) {
            self.cache.expire(now);
            self.seen.purge(now);
            self.gratuitous.retain(|gratuitous| gratuitous.until > now);
            self.purge_at = Some(now + PURGE);
        }
        self.set_wake();
    }

    fn next_hop(&self, now: Time, destination: Address) -> Option<Address> {
        self.cache.find(now, destination)?.next()
    }

    fn last_hop(&self, now: Time, destination: Address, rank: u8) -> Option<Address> {
        let route = self.cache.way(now, destination, rank)?;
        route.nodes().iter().rev().nth(1).copied()
    }

    fn buffered(&self) -> usize {
        self.buffer.len()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
