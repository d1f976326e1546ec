//! Infrastructure mode: stations, their access points, and hand-offs that the scenario orders.
//!
//! A station talks to its access point alone, which passes packets on: to wires, or to another station. Association itself takes no
//! frames: beacons, probes and requests are left out, and a hand-off takes the time it is said to take, in which the station is deaf
//! and mute. Then the network knows the new way at once: packets that have not come to where the ways part take the new one. What
//! waits at the station goes to the new access point. What waits at the old one for the station is dropped, as the standard has no
//! rule by which one access point would hand it to another; unless the new way leads through the same node.

use std::collections::BTreeMap;

use whimbrel_control::{Rng, Time};

use super::mac::{CONTROL, Outgoing};
use super::{Outcome, RadioId, Radios};
use crate::config::SimConfig;
use crate::engine::EventQueue;
use crate::ledger::DropCause;
use crate::loss::LossModel;
use crate::network::Network;
use crate::observer::Observer;
use crate::packet::PacketId;
use crate::topology::{RADIO_BASE, access_points};

/// What a radio is in infrastructure mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Role {
    /// It is in ad hoc mode.
    #[default]
    AdHoc,
    AccessPoint,
    Station {
        access_point: RadioId,
        /// Whether it has hand-offs before or behind it.
        wanders: bool,
        /// Whether it is between two access points.
        away: bool,
    },
}

impl Role {
    /// Whether a radio may miss the beginning of a frame because it is tuned elsewhere.
    #[inline]
    pub(super) fn wanders(self) -> bool {
        matches!(self, Role::Station { wanders: true, .. })
    }

    /// Whether a radio on `channel` does not hear what is sent on `other`, where it once was.
    #[inline]
    pub(super) fn is_deaf(self, channel: u32, other: u32) -> bool {
        matches!(self, Role::Station { wanders: true, away, .. } if away || channel != other)
    }
}

impl Radios {
    /// Fills in the roles. Returns who may come to each channel.
    pub(super) fn set_roles(&mut self, config: &SimConfig, channels: &BTreeMap<&str, u32>) -> Vec<Vec<RadioId>> {
        let mut visitors = vec![Vec::new(); config.channel.len()];
        let names: BTreeMap<_, RadioId> = config.radio.iter().map(|radio| radio.display_name()).zip(0..).collect();
        for (station, access_point) in (0..).zip(access_points(config)) {
            let radio = &config.radio[station as usize];
            for (_, name) in radio.access_points() {
                let Some(point) = names.get(name) else { continue };
                self.radios[*point as usize].role = Role::AccessPoint;
                if let Some(channel) = channels.get(config.radio[*point as usize].channel.as_str()) {
                    visitors[*channel as usize].push(station);
                }
            }
            if let Some(access_point) = access_point {
                self.radios[station as usize].role = Role::Station {
                    access_point,
                    wanders: !radio.handoff.is_empty(),
                    away: false,
                };
            }
        }
        visitors
    }

    /// Whether one of two radios is a station of the other.
    pub(super) fn is_associated(&self, a: RadioId, b: RadioId) -> bool {
        let is_at = |station: RadioId, point: RadioId| {
            let role = self.radios[station as usize].role;
            matches!(role, Role::Station { access_point, .. } if access_point == point)
        };
        is_at(a, b) || is_at(b, a)
    }

    /// Why a packet at a radio cannot go on.
    pub(crate) fn why_no_way(&self, radio: RadioId) -> DropCause {
        match self.radios[radio as usize].role {
            Role::AdHoc => DropCause::NoRoute,
            Role::AccessPoint | Role::Station { .. } => DropCause::NotAssociated,
        }
    }

    /// A station leaves its access point.
    fn leave(&mut self, now: Time, station: RadioId) {
        let radio = &mut self.radios[station as usize];
        if let Role::Station { away, .. } = &mut radio.role {
            *away = true;
        }
        if let Some(lock) = radio.receiver.clear() {
            radio.stats.receiving += self.window.overlap(lock.began, now);
        }
        radio.mac.leave();
    }

    /// A station joins an access point. What waits at the old one for it is among the outcomes afterwards; returns what waits at the
    /// station.
    fn join(&mut self, now: Time, queue: &mut EventQueue, station: RadioId, point: RadioId) -> Vec<PacketId> {
        let radio = &mut self.radios[station as usize];
        let Role::Station { access_point, away, .. } = &mut radio.role else {
            return Vec::new();
        };
        let old = core::mem::replace(access_point, point);
        *away = false;
        let (from, to) = (radio.channel, self.radios[point as usize].channel);
        let radio = &mut self.radios[station as usize];
        if from != to {
            radio.channel = to;
            self.channels[from as usize].air.remove(station);
            self.channels[to as usize].air.add(station);
            radio.bursts = self.channels[to as usize].bursts.as_ref().map(|bursts| {
                let mut entropy = [0; 32];
                for word in entropy.chunks_exact_mut(8) {
                    word.copy_from_slice(&radio.loss.next_u64().to_le_bytes());
                }
                LossModel::new(bursts, Rng::from_entropy(entropy))
            });
        }
        let medium = &self.channels[to as usize];
        let mut waiting = Vec::new();
        let mut each = |packet: PacketId| {
            if packet & CONTROL == 0 {
                waiting.push(packet);
            }
        };
        radio.mac.join(now, medium.phy, medium.limits, point, &mut each);
        if let Some(mut held) = radio.arp.take_held(old) {
            each(held.packet);
            held.to = point;
            if let Some(times) = medium.arp {
                self.resolve(now, queue, station, held, times);
            } else {
                self.enqueue(now, queue, station, held);
            }
        }
        self.settle(now, queue, station);
        if old != point {
            let outcomes = &mut self.outcomes;
            let mut each = |outgoing: Outgoing| {
                let packet = outgoing.packet;
                outcomes.push_back(Outcome::Left { packet, at: old });
            };
            let access_point = &mut self.radios[old as usize];
            access_point.mac.queue.reclaim(station, &mut each);
            access_point.arp.take_held(station).into_iter().for_each(each);
        }
        waiting
    }
}

impl Network {
    /// A station's hand-off begins.
    pub(crate) fn leave_access_point(&mut self, now: Time, handoff: u32) {
        let station = self.topology.handoffs[handoff as usize].station;
        if let Some(radios) = &mut self.radios {
            radios.leave(now, station);
        }
    }

    /// A station's hand-off ends: it joins its new access point, and routes lead there.
    pub(crate) fn join_access_point(&mut self, now: Time, handoff: u32, observer: &mut dyn Observer) {
        let handoff = &mut self.topology.handoffs[handoff as usize];
        let (station, point) = (handoff.station, handoff.access_point);
        let changes = core::mem::take(&mut handoff.changes);
        for change in &changes {
            self.topology.change_route(*change);
        }
        let mut is_changed = vec![false; self.topology.routes.len()];
        changes
            .iter()
            .for_each(|change| is_changed[change.route as usize] = true);
        for id in self.slab.in_use() {
            let packet = self.slab.get(id);
            if is_changed[packet.route as usize] && packet.hop < packet.last_hop {
                let hop = self.way[packet.hop as usize].direction;
                self.redirect(id, self.topology.node_of(self.topology.leaves_by(hop)), 0);
            }
        }
        let Some(radios) = &mut self.radios else { return };
        let waiting = radios.join(now, &mut self.queue, station, point);
        let node = self.topology.node_of(RADIO_BASE + station);
        for id in waiting {
            // It is in the queue for the first hop of what is left.
            self.redirect(id, node, 1);
        }
        self.settle_radio(now, observer);
    }

    /// Gives a packet the new way from a node on, `entered` of whose hops it has entered already. Whether there is one.
    fn redirect(&mut self, id: PacketId, node: u32, entered: u32) -> bool {
        let packet = self.slab.get_mut(id);
        let Some(hop) = self.topology.leaves_node(packet.route, node) else {
            return false;
        };
        packet.hop = hop + entered;
        packet.last_hop = self.topology.routes[packet.route as usize].end;
        true
    }

    /// A packet waited at an access point for a station that has joined another.
    pub(crate) fn left_behind(&mut self, now: Time, id: PacketId, at: RadioId, observer: &mut dyn Observer) {
        let node = self.topology.node_of(RADIO_BASE + at);
        if self.redirect(id, node, 0) {
            return self.forward(now, id, observer);
        }
        self.drop(now, id, DropCause::NotAssociated, Some(RADIO_BASE + at), observer);
    }
}
