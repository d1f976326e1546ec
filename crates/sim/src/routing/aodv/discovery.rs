//! Route requests and route replies (RFC 3561 §6.3 to §6.8).

use whimbrel_control::{Span, Time};

use super::Aodv;
use super::table::{RouteInfo, State};
use crate::routing::seen::{newer, newest};
use crate::routing::{Address, Cause, Context, Message, Rrep, Rreq};

/// A route discovery in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discovery {
    pub(super) destination: Address,
    /// TTL of the last request, or of the next one if none was sent.
    ttl: u8,
    /// Requests to the whole network so far.
    floods: u8,
    /// When the last request was sent.
    asked_at: Time,
    /// When the next request is due, or the discovery fails.
    pub(super) deadline: Time,
    /// Whether a request with this TTL was sent. Otherwise the rate limit or the hold-off after a failed discovery delays it.
    asked: bool,
    /// Whether this is a local repair, which sends a single request.
    repair: bool,
}

/// Time per hop in the last successful discoveries of a destination, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    destination: Address,
    /// The newest first; NaN where there is no sample.
    samples: [f64; 3],
}

impl Latency {
    fn mean(&self) -> f64 {
        let samples = self.samples.iter().filter(|sample| !sample.is_nan());
        samples.clone().sum::<f64>() / samples.count() as f64
    }
}

impl Aodv {
    /// Starts a route discovery for a destination unless one is in progress (§6.3, §6.4).
    pub(super) fn discover(&mut self, cx: &mut Context<'_>, destination: Address) {
        if self
            .discoveries
            .iter()
            .any(|discovery| discovery.destination == destination)
        {
            return;
        }
        let now = cx.now;
        let known = self.table.current(now, destination).map(|route| route.hops);
        let ttl = match known {
            Some(hops) => hops.saturating_add(self.config.ttl_increment),
            None => self.config.ttl_start,
        };
        self.counters.discoveries += 1;
        self.begin(cx, destination, self.ring(ttl), false);
    }

    /// Starts a discovery with a request of this TTL.
    pub(super) fn begin(&mut self, cx: &mut Context<'_>, destination: Address, ttl: u8, repair: bool) {
        let mut discovery = Discovery {
            destination,
            ttl,
            floods: 0,
            asked_at: cx.now,
            deadline: cx.now,
            asked: false,
            repair,
        };
        self.ask(cx, &mut discovery, Span::ZERO);
        self.wake_at(discovery.deadline);
        self.discoveries.push(discovery);
    }

    /// Returns the TTL to use for this one: rings above the threshold cover the whole network.
    fn ring(&self, ttl: u8) -> u8 {
        if ttl > self.config.ttl_threshold {
            self.config.net_diameter
        } else {
            ttl.min(self.config.net_diameter)
        }
    }

    /// Sends the next request of a discovery after a random delay below `jitter`, or postpones it if the rate limit is reached.
    fn ask(&mut self, cx: &mut Context<'_>, discovery: &mut Discovery, jitter: Span) {
        let allowed = self.requests.allowed_at(cx.now);
        if allowed > cx.now {
            discovery.deadline = allowed;
            return;
        }
        self.requests.count(cx.now);
        // §6.1: so that existing routes back to this node do not block new ones.
        self.seq = self.seq.wrapping_add(1);
        self.request = self.request.wrapping_add(1);
        let rreq = Rreq {
            ttl: discovery.ttl,
            hops: 0,
            id: self.request,
            destination: discovery.destination,
            destination_seq: self.table.get(discovery.destination).and_then(|route| route.seq),
            originator: self.address,
            originator_seq: self.seq,
            gratuitous: self.config.gratuitous_reply,
            destination_only: self.config.destination_only,
        };
        self.broadcast(cx, Message::Rreq(rreq), jitter);
        discovery.asked = true;
        discovery.asked_at = cx.now;
        let wait = if discovery.ttl < self.config.net_diameter || discovery.repair {
            self.config.ring_traversal_time(discovery.ttl)
        } else {
            // §6.3: binary exponential back-off.
            let longer = if self.config.binary_backoff {
                1_u64 << discovery.floods.min(32)
            } else {
                u64::from(discovery.floods) + 1
            };
            discovery.floods = discovery.floods.saturating_add(1);
            self.config.net_traversal_time() * longer
        };
        discovery.deadline = cx.now + self.measured_wait(discovery.destination, wait);
    }

    /// Returns the waiting time computed from the destination's measured traversal time, if that is configured.
    fn measured_wait(&self, destination: Address, wait: Span) -> Span {
        if !self.config.measured_traversal_time {
            return wait;
        }
        let measured = self.latencies.iter().find(|latency| latency.destination == destination);
        let wait = measured.map_or(wait, |latency| {
            let ratio = latency.mean() / self.config.node_traversal_time.as_secs_f64();
            Span::from_secs_f64(wait.as_secs_f64() * ratio)
        });
        match self.config.discovery_holdoff {
            Span::ZERO => wait,
            most => wait.min(most),
        }
    }

    /// Records that a discovery has found a route of `hops` hops.
    fn measure(&mut self, now: Time, destination: Address, hops: u8) {
        let discovery = self
            .discoveries
            .iter()
            .find(|discovery| discovery.destination == destination && discovery.asked);
        let Some(discovery) = discovery.filter(|_| self.config.measured_traversal_time) else {
            return;
        };
        let sample = now.since(discovery.asked_at).as_secs_f64() / f64::from(hops);
        match self
            .latencies
            .iter_mut()
            .find(|latency| latency.destination == destination)
        {
            Some(latency) => latency.samples = [sample, latency.samples[0], latency.samples[1]],
            None => self.latencies.push(Latency {
                destination,
                samples: [sample, f64::NAN, f64::NAN],
            }),
        }
    }

    /// Continues the discoveries whose deadline has passed.
    pub(super) fn handle_discoveries(&mut self, cx: &mut Context<'_>) {
        let mut place = 0;
        while let Some(discovery) = self.discoveries.get(place).copied() {
            if discovery.deadline > cx.now {
                place += 1;
                continue;
            }
            let mut next = discovery;
            if !discovery.repair && !self.buffer.waits_for(discovery.destination) {
                // No packet waits for this route any more.
                self.discoveries.swap_remove(place);
                continue;
            }
            if discovery.asked {
                if discovery.repair {
                    self.discoveries.swap_remove(place);
                    self.repair_failed(cx, discovery.destination);
                    continue;
                }
                if discovery.ttl < self.config.net_diameter {
                    next.ttl = self.ring(discovery.ttl.saturating_add(self.config.ttl_increment));
                } else if discovery.floods > self.config.rreq_retries {
                    self.counters.discoveries_failed += 1;
                    self.buffer.give_up(cx, discovery.destination, Cause::NoRoute);
                    self.hold_off(cx.now, place);
                    continue;
                }
                next.asked = false;
            }
            // Without jitter, two hidden nodes that started at the same time would collide with every request (RFC 5148 §5.2).
            self.ask(cx, &mut next, self.config.broadcast_jitter);
            self.discoveries[place] = next;
            place += 1;
        }
    }

    /// Ends a discovery that found nothing. Packets for its destination wait for the hold-off time before the next discovery.
    fn hold_off(&mut self, now: Time, place: usize) {
        let holdoff = self.config.discovery_holdoff;
        if holdoff.is_zero() {
            self.discoveries.swap_remove(place);
            return;
        }
        let discovery = &mut self.discoveries[place];
        discovery.asked = false;
        discovery.floods = 0;
        discovery.deadline = now + holdoff;
    }

    /// Handles a route request (§6.5).
    pub(super) fn receive_request(&mut self, cx: &mut Context<'_>, from: Address, rreq: &Rreq) {
        let now = cx.now;
        if self
            .blacklist
            .iter()
            .any(|(neighbour, until)| *neighbour == from && *until > now)
        {
            return;
        }
        self.meet(cx, from);
        let keep = self.config.path_discovery_time();
        if rreq.originator == self.address || self.seen.check(now, rreq.originator, rreq.id, keep) {
            return;
        }
        let hops = rreq.hops.saturating_add(1);
        let travelled = self.config.node_traversal_time * 2 * u64::from(hops);
        let until = now + (self.config.net_traversal_time() * 2 - travelled);
        let back = RouteInfo {
            destination: rreq.originator,
            next_hop: from,
            hops,
            seq: rreq.originator_seq,
            until,
            last_hop: self.last_hop_of(hops, from, None),
        };
        if self.table.learn(now, back) {
            self.release(cx, rreq.originator);
        }
        let Some(back) = self.table.valid(now, rreq.originator) else {
            return;
        };
        back.extend(until);
        if rreq.destination == self.address {
            // §6.1, §6.6.1
            self.seq = rreq.destination_seq.map_or(self.seq, |asked| newest(self.seq, asked));
            let rrep = Rrep {
                hops: 0,
                destination: self.address,
                destination_seq: self.seq,
                originator: rreq.originator,
                lifetime: self.config.my_route_timeout(),
                acknowledge: self.config.reply_ack,
                last_hop: None,
            };
            return self.send_reply(cx, rrep);
        }
        if !self.answer(cx, from, rreq) {
            self.pass_on(cx, rreq, hops);
        }
    }

    /// Replies for the destination if this node has a route that is new enough (§6.6.2, §6.6.3).
    fn answer(&mut self, cx: &mut Context<'_>, from: Address, rreq: &Rreq) -> bool {
        let now = cx.now;
        if rreq.destination_only {
            return false;
        }
        let (Some(route), Some(back)) = (self.table.get(rreq.destination), self.table.get(rreq.originator)) else {
            return false;
        };
        // In a persistent repair the node continues to offer the old route with its old number.
        let (seq, lifetime) = match route.seq {
            Some(seq) if route.is_valid(now) => (seq, route.expires.since(now)),
            Some(seq) if self.config.persistent_repair && route.state == State::Repairing => {
                (seq.wrapping_sub(1), self.config.active_route_timeout)
            }
            _ => return false,
        };
        // A route through the requesting node is the one that this node has lost.
        if rreq.destination_seq.is_some_and(|asked| newer(asked, seq)) || route.next_hop == from {
            return false;
        }
        let rrep = Rrep {
            hops: route.hops,
            destination: rreq.destination,
            destination_seq: seq,
            originator: rreq.originator,
            lifetime,
            acknowledge: self.config.reply_ack,
            last_hop: route.last_hop.filter(|_| self.config.last_hop_extension),
        };
        let gratuitous = Rrep {
            hops: back.hops,
            destination: rreq.originator,
            destination_seq: back.seq.unwrap_or(rreq.originator_seq),
            originator: rreq.destination,
            lifetime: back.expires.since(now),
            acknowledge: self.config.reply_ack,
            last_hop: back.last_hop.filter(|_| self.config.last_hop_extension),
        };
        let (forward_hop, back_hop) = (route.next_hop, back.next_hop);
        self.add_precursor(rreq.destination, back_hop);
        self.add_precursor(rreq.originator, forward_hop);
        self.send_reply(cx, rrep);
        if rreq.gratuitous {
            self.send_reply(cx, gratuitous);
        }
        true
    }

    /// Forwards a request to its next ring (§6.5).
    fn pass_on(&mut self, cx: &mut Context<'_>, rreq: &Rreq, hops: u8) {
        if rreq.ttl <= 1 {
            return;
        }
        let known = self.table.get(rreq.destination).and_then(|route| route.seq);
        let destination_seq = match (rreq.destination_seq, known) {
            (Some(asked), Some(known)) => Some(newest(asked, known)),
            (asked, known) => asked.or(known),
        };
        let passed = Rreq {
            ttl: rreq.ttl - 1,
            hops,
            destination_seq,
            ..*rreq
        };
        let jitter = self.config.broadcast_jitter;
        self.broadcast(cx, Message::Rreq(passed), jitter);
    }

    /// Handles a route reply (§6.7).
    pub(super) fn receive_reply(&mut self, cx: &mut Context<'_>, from: Address, rrep: &Rrep) {
        let now = cx.now;
        self.meet(cx, from);
        if rrep.acknowledge {
            self.unicast(cx, from, Message::RrepAck);
        }
        // Only this node knows its own routes.
        if rrep.destination == self.address {
            return;
        }
        let hops = rrep.hops.saturating_add(1);
        let info = RouteInfo {
            destination: rrep.destination,
            next_hop: from,
            hops,
            seq: rrep.destination_seq,
            until: now + rrep.lifetime,
            last_hop: self.last_hop_of(hops, from, rrep.last_hop),
        };
        let repaired = self
            .table
            .current(now, rrep.destination)
            .filter(|route| route.state == State::Repairing)
            .map(|route| route.hops);
        let is_known = !self.table.learn(now, info);
        // §6.7: the reply is forwarded if it created the route. Its sender may be the destination: then hearing it has just created
        // the same route. An earlier requester may also have received the same reply.
        let is_same = self
            .table
            .valid(now, rrep.destination)
            .is_some_and(|route| (route.next_hop, route.hops, route.seq) == (from, hops, Some(rrep.destination_seq)));
        if is_known && !is_same {
            return;
        }
        if rrep.originator == self.address {
            self.measure(now, rrep.destination, hops);
        }
        self.release(cx, rrep.destination);
        if repaired.is_some_and(|before| hops > before) {
            self.report_longer(cx, rrep.destination);
        }
        if rrep.originator == self.address {
            return;
        }
        let used = now + self.config.active_route_timeout;
        let Some(back) = self.table.valid(now, rrep.originator) else {
            return;
        };
        back.extend(used);
        let back_hop = back.next_hop;
        self.add_precursor(rrep.destination, back_hop);
        self.add_precursor(from, back_hop);
        let passed = Rrep {
            hops,
            acknowledge: self.config.reply_ack,
            last_hop: info.last_hop.filter(|_| self.config.last_hop_extension),
            ..*rrep
        };
        self.send_reply(cx, passed);
    }

    /// Sends a reply towards its originator.
    fn send_reply(&mut self, cx: &mut Context<'_>, rrep: Rrep) {
        let Some(back) = self.table.valid(cx.now, rrep.originator) else {
            return;
        };
        let next_hop = back.next_hop;
        if rrep.acknowledge {
            let until = cx.now + self.config.next_hop_wait();
            self.unacknowledged.retain(|(neighbour, _)| *neighbour != next_hop);
            self.unacknowledged.push((next_hop, until));
            self.wake_at(until);
        }
        self.unicast(cx, next_hop, Message::Rrep(rrep));
    }

    /// Ignores the requests of a neighbour that does not receive this node's messages, for some time (§6.8).
    pub(super) fn blacklist(&mut self, now: Time, neighbour: Address) {
        self.blacklist.retain(|(other, _)| *other != neighbour);
        self.blacklist.push((neighbour, now + self.config.blacklist_timeout()));
    }

    /// Creates or refreshes the route to a neighbour that has sent a message.
    fn meet(&mut self, cx: &mut Context<'_>, from: Address) {
        let until = cx.now + self.config.active_route_timeout;
        self.table.neighbour(cx.now, from, self.address, until, None);
        self.release(cx, from);
    }

    fn add_precursor(&mut self, destination: Address, neighbour: Address) {
        if let Some(route) = self.table.iter_mut().find(|route| route.destination == destination) {
            route.add_precursor(neighbour);
        }
    }

    /// Returns the last node before the destination of a route of `hops` hops that starts with `next_hop`.
    fn last_hop_of(&self, hops: u8, next_hop: Address, reported: Option<Address>) -> Option<Address> {
        match hops {
            1 => Some(self.address),
            2 => Some(next_hop),
            _ => reported,
        }
    }
}
