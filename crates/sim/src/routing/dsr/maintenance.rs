//! Broken links, salvaging, shortening, passive acknowledgements (RFC 4728 §3.2, §3.4, §8.3).

use whimbrel_control::{Span, Time};

use super::Dsr;
use crate::routing::{
    Action, Address, BrokenLink, Cause, Context, Datagram, DsrError, DsrReply, Handle, Message, SourceRoute,
};

/// Maximum number of packets that wait for a passive acknowledgement (RexmtBufferSize, §9).
const AWAITED: usize = 50;

/// A gratuitous route reply that was sent recently (§3.4.3, §4.4).
#[derive(Clone, Copy, Debug)]
pub(super) struct GratuitousReply {
    source: Address,
    /// The node whose packet was overheard.
    from: Address,
    pub(super) until: Time,
}

/// A packet that waits for a passive acknowledgement (§3.2.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaited {
    source: Address,
    id: u32,
    route: SourceRoute,
    pub(super) until: Time,
}

impl Dsr {
    /// Handles a packet that could not be sent to a neighbour.
    pub(super) fn link_broken(&mut self, cx: &mut Context<'_>, neighbour: Address) {
        self.counters.link_failures += 1;
        self.cache.remove_link(self.address, neighbour);
        self.unheard.retain(|(other, _)| *other != neighbour);
        self.awaited.retain(|awaited| awaited.route.next() != Some(neighbour));
        cx.actions.push(Action::Reclaim { next_hop: neighbour });
    }

    /// Sends a route error to the source of a route that is broken behind this node (§8.3.4), unless this node is the source.
    pub(super) fn send_error(&mut self, cx: &mut Context<'_>, route: &SourceRoute, next_hop: Address) {
        let broken = BrokenLink {
            from: self.address,
            to: next_hop,
        };
        let place = route.at();
        if place == 0 || route.nodes().get(place) != Some(&self.address) {
            self.spread = Some(broken);
            return;
        }
        let Some(behind) = SourceRoute::new(&route.nodes()[..=place]) else {
            return;
        };
        let error = DsrError {
            source_route: behind.reversed(),
            broken,
            salvage: route.salvaged(),
        };
        self.pass_error(cx, error);
    }

    fn pass_error(&mut self, cx: &mut Context<'_>, error: DsrError) {
        if let Some(next_hop) = error.source_route.next() {
            cx.unicast(&mut self.counters, next_hop, Message::DsrError(error), Span::ZERO);
        }
    }

    /// Handles a packet that could not be sent. Its source gets a route error. If this node is the source, the packet waits for
    /// another route; otherwise this node tries to salvage it (§3.4.1).
    pub(super) fn undeliverable(&mut self, cx: &mut Context<'_>, next_hop: Address, packet: Handle) {
        let datagram = cx.datagrams[packet as usize];
        self.send_error(cx, &datagram.route, next_hop);
        if datagram.source == self.address && datagram.route.salvaged() == 0 {
            if !self.send(cx, packet, 0) {
                self.keep(cx, packet);
            }
            return;
        }
        let salvaged = datagram.route.salvaged() + 1;
        if self.config.salvage && salvaged <= self.config.max_salvage_count && self.send(cx, packet, salvaged) {
            self.counters.repairs += 1;
        } else {
            cx.drop(packet, Cause::LinkBroken);
        }
    }

    /// Handles a route error: removes the link from the cache (§8.3.5).
    pub(super) fn receive_error(&mut self, cx: &mut Context<'_>, _from: Address, error: &DsrError) {
        self.cache.remove_link(error.broken.from, error.broken.to);
        let Some(source_route) = self.advance(&error.source_route) else {
            return;
        };
        if source_route.next().is_none() {
            self.spread = Some(error.broken);
        } else {
            self.pass_error(cx, DsrError { source_route, ..*error });
        }
    }

    /// Sends a gratuitous reply to the source of an overheard packet that would reach this node only later (§3.4.3), rate limited.
    pub(super) fn shorten(&mut self, cx: &mut Context<'_>, from: Address, to: Address, route: &SourceRoute) {
        let (Some(sender), Some(next), Some(me)) =
            (route.position(from), route.position(to), route.position(self.address))
        else {
            return;
        };
        // The route of a salvaged packet does not start at its source.
        if next != sender + 1 || me <= next || route.salvaged() > 0 {
            return;
        }
        let Some(source) = route.nodes().first().copied() else {
            return;
        };
        let now = cx.now;
        self.gratuitous.retain(|gratuitous| gratuitous.until > now);
        if self
            .gratuitous
            .iter()
            .any(|gratuitous| gratuitous.source == source && gratuitous.from == from)
        {
            return;
        }
        let until = now + self.config.grat_reply_holdoff;
        self.gratuitous.push(GratuitousReply { source, from, until });
        let nodes = route.nodes();
        let mut found = SourceRoute::default();
        for node in nodes[..=sender].iter().chain(&nodes[me..]) {
            // The new route is shorter than the one it comes from.
            let _ = found.push(*node);
        }
        let Some(source_route) = SourceRoute::new(&found.nodes()[..=sender + 1]) else {
            return;
        };
        self.send_reply(
            cx,
            DsrReply {
                source_route: source_route.reversed(),
                found,
            },
        );
    }

    /// Waits for the passive acknowledgement of a packet that the next node forwards.
    pub(super) fn await_passive_ack(&mut self, now: Time, datagram: &Datagram) {
        let ends_there = datagram.route.next() == datagram.route.last();
        if !self.config.passive_ack || ends_there || self.awaited.len() >= AWAITED {
            return;
        }
        let until = now + self.config.passive_ack_timeout;
        self.awaited.push(Awaited {
            source: datagram.source,
            id: datagram.id,
            route: datagram.route,
            until,
        });
        self.wake_at(until);
    }

    /// Handles a packet that a neighbour was overheard forwarding.
    pub(super) fn on_forwarded(&mut self, from: Address, datagram: &Datagram) {
        let before = self.awaited.len();
        self.awaited.retain(|awaited| {
            let same = awaited.source == datagram.source && awaited.id == datagram.id;
            !(same && awaited.route.next() == Some(from))
        });
        if self.awaited.len() < before {
            self.unheard.retain(|(neighbour, _)| *neighbour != from);
        }
    }

    /// Handles missing passive acknowledgements: after several consecutive ones the link counts as broken.
    pub(super) fn handle_unheard(&mut self, cx: &mut Context<'_>) {
        while let Some(place) = self.awaited.iter().position(|awaited| awaited.until <= cx.now) {
            let awaited = self.awaited.remove(place);
            let Some(neighbour) = awaited.route.next() else {
                continue;
            };
            let count = match self.unheard.iter_mut().find(|(other, _)| *other == neighbour) {
                Some((_, count)) => {
                    *count = count.saturating_add(1);
                    *count
                }
                None => {
                    self.unheard.push((neighbour, 1));
                    1
                }
            };
            if count >= self.config.passive_ack_failures {
                self.link_broken(cx, neighbour);
                self.send_error(cx, &awaited.route, neighbour);
            }
        }
    }
}
