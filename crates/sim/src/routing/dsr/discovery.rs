//! Route requests and route replies (RFC 4728 §3.1, §3.3, §8.2).

use whimbrel_control::{Span, Time};

use super::Dsr;
use crate::routing::{Address, Cause, Context, Datagram, DsrReply, DsrRequest, Message, SourceRoute};

/// How long a request is remembered after its last reception.
const REMEMBER: Span = Span::from_secs(60);

/// A route discovery in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discovery {
    pub(super) target: Address,
    /// Requests to the whole network so far.
    floods: u32,
    /// Time to the next request.
    period: Span,
    pub(super) deadline: Time,
}

/// A reply from the cache that is delayed, in case a node with a shorter route replies first (§3.3.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldReply {
    pub(super) at: Time,
    reply: DsrReply,
}

impl Dsr {
    /// Starts a route discovery unless one is in progress: first among the neighbours, then in the whole network (§3.3.3).
    pub(super) fn discover(&mut self, cx: &mut Context<'_>, target: Address) {
        if self.discoveries.iter().any(|discovery| discovery.target == target) {
            return;
        }
        self.counters.discoveries += 1;
        let mut discovery = Discovery {
            target,
            floods: 0,
            period: self.config.request_period,
            deadline: cx.now + self.config.nonprop_request_timeout,
        };
        if self.config.nonpropagating_request {
            self.ask(cx, target, 1, Span::ZERO);
        } else {
            self.flood(cx, &mut discovery, Span::ZERO);
        }
        self.wake_at(discovery.deadline);
        self.discoveries.push(discovery);
    }

    /// Sends a request to the whole network after a delay, and doubles the waiting time (§4.3).
    fn flood(&mut self, cx: &mut Context<'_>, discovery: &mut Discovery, delay: Span) {
        self.ask(cx, discovery.target, self.config.discovery_hop_limit, delay);
        discovery.floods += 1;
        discovery.deadline = cx.now + discovery.period;
        discovery.period = (discovery.period * 2).min(self.config.max_request_period);
    }

    fn ask(&mut self, cx: &mut Context<'_>, target: Address, ttl: u8, delay: Span) {
        self.request = self.request.wrapping_add(1);
        let mut route = SourceRoute::default();
        if !route.push(self.address) {
            return;
        }
        let request = DsrRequest {
            ttl,
            id: self.request,
            target,
            route,
            // §3.4.4: so that no reply contains the broken link.
            error: self.spread.take(),
        };
        cx.broadcast(&mut self.counters, Message::DsrRequest(request), delay);
    }

    pub(super) fn handle_discoveries(&mut self, cx: &mut Context<'_>) {
        let mut place = 0;
        while let Some(mut discovery) = self.discoveries.get(place).copied() {
            if discovery.deadline > cx.now {
                place += 1;
            } else if !self.buffer.waits_for(discovery.target) {
                self.discoveries.swap_remove(place);
            } else if discovery.floods >= self.config.max_request_rexmt {
                self.discoveries.swap_remove(place);
                self.counters.discoveries_failed += 1;
                self.buffer.give_up(cx, discovery.target, Cause::NoRoute);
            } else {
                // Without jitter, two hidden nodes that started at the same time would collide with every request (RFC 5148 §5.2).
                let delay = cx.jitter(self.config.broadcast_jitter);
                self.flood(cx, &mut discovery, delay);
                self.discoveries[place] = discovery;
                place += 1;
            }
        }
    }

    /// Handles a route request (§8.2.2).
    pub(super) fn receive_request(&mut self, cx: &mut Context<'_>, from: Address, request: &DsrRequest) {
        let now = cx.now;
        if let Some(broken) = request.error {
            self.cache.remove_link(broken.from, broken.to);
        }
        let Some(initiator) = request.route.nodes().first().copied() else {
            return;
        };
        if request.route.position(self.address).is_some() || request.route.last() != Some(from) {
            return;
        }
        let mut record = request.route;
        if !record.push(self.address) {
            return;
        }
        self.learn(now, record.nodes(), from);
        self.release(cx);
        if request.target == self.address {
            // Every route on which a copy of the request arrived is returned.
            let reply = DsrReply {
                source_route: record.reversed(),
                found: record,
            };
            return self.send_reply(cx, reply);
        }
        if self.seen.check(now, initiator, request.id, REMEMBER) {
            return;
        }
        if self.config.reply_from_cache
            && let Some(found) = self.cached(now, &record, request.target)
        {
            return self.hold(
                cx,
                DsrReply {
                    source_route: record.reversed(),
                    found,
                },
            );
        }
        if request.ttl > 1 {
            let passed = DsrRequest {
                ttl: request.ttl - 1,
                route: record,
                ..*request
            };
            let delay = cx.jitter(self.config.broadcast_jitter);
            cx.broadcast(&mut self.counters, Message::DsrRequest(passed), delay);
        }
    }

    /// Returns the route of a request, continued by a route from the cache, if no node occurs twice (§3.3.1, §8.2.3).
    fn cached(&self, now: Time, record: &SourceRoute, target: Address) -> Option<SourceRoute> {
        let rest = self.cache.find(now, target)?;
        let mut found = *record;
        for node in &rest.nodes()[1..] {
            if !found.push(*node) {
                return None;
            }
        }
        found.is_simple().then_some(found)
    }

    /// Delays a reply for a time that grows with the length of its route: H * (h - 1 + r) (§3.3.2).
    fn hold(&mut self, cx: &mut Context<'_>, reply: DsrReply) {
        let unit = self.config.reply_holdoff;
        let hops = reply.found.hops().saturating_sub(1) as u64;
        let at = cx.now + unit * hops + cx.jitter(unit);
        self.held.push(HeldReply { at, reply });
        self.wake_at(at);
    }

    /// Cancels a delayed reply when the initiator of the request uses a route of the same length or shorter (§3.3.2).
    pub(super) fn cancel_held(&mut self, datagram: &Datagram) {
        self.held.retain(|held| {
            let found = &held.reply.found;
            let same = found.nodes().first() == Some(&datagram.source) && found.last() == Some(datagram.destination);
            !(same && datagram.route.hops() <= found.hops())
        });
    }

    /// Sends the delayed replies that are due.
    pub(super) fn send_held(&mut self, cx: &mut Context<'_>) {
        while let Some(place) = self.held.iter().position(|held| held.at <= cx.now) {
            let held = self.held.remove(place);
            self.send_reply(cx, held.reply);
        }
    }

    /// Sends a reply to the next node of its source route.
    pub(super) fn send_reply(&mut self, cx: &mut Context<'_>, reply: DsrReply) {
        if let Some(next_hop) = reply.source_route.next() {
            cx.unicast(&mut self.counters, next_hop, Message::DsrReply(reply), Span::ZERO);
        }
    }

    /// Handles a route reply (§8.2.5).
    pub(super) fn receive_reply(&mut self, cx: &mut Context<'_>, from: Address, reply: &DsrReply) {
        let Some(source_route) = self.advance(&reply.source_route) else {
            return;
        };
        self.learn(cx.now, reply.found.nodes(), from);
        self.release(cx);
        self.send_reply(cx, DsrReply { source_route, ..*reply });
    }
}
