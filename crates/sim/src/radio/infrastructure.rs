//! Infrastructure mode: stations, their access points, and scheduled hand-offs.
//!
//! A station communicates only with its access point, which forwards packets to links or to another station. Association uses no
//! frames: beacons, probes and requests are omitted. A hand-off takes its configured time, in which the station neither receives
//! nor sends. Then the network uses the new route at once: packets upstream of the point where the routes differ take the new one.
//! Packets queued at the station go to the new access point. Packets queued at the old access point for the station are dropped,
//! because the standard defines no transfer between access points, unless the new route passes the same node.

use std::collections::BTreeMap;

use whimbrel_control::{Rng, Time};

use super::mac::{CONTROL, Outgoing};
use super::{RadioId, RadioReport, Radios};
use crate::config::SimConfig;
use crate::engine::EventQueue;
use crate::ledger::DropCause;
use crate::loss::LossModel;
use crate::packet::PacketId;
use crate::topology::access_points;

/// The role of a radio in infrastructure mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Role {
    /// Ad hoc mode.
    #[default]
    AdHoc,
    AccessPoint,
    Station {
        access_point: RadioId,
        /// Whether the station has hand-offs in the run.
        wanders: bool,
        /// Whether the station is between two access points.
        away: bool,
    },
}

impl Role {
    /// Returns whether a radio may miss the start of a frame because it is on another channel.
    #[inline]
    pub(super) fn wanders(self) -> bool {
        matches!(self, Role::Station { wanders: true, .. })
    }

    /// Returns whether a radio on `channel` does not receive from `other`, its former channel.
    #[inline]
    pub(super) fn is_deaf(self, channel: u32, other: u32) -> bool {
        matches!(self, Role::Station { wanders: true, away, .. } if away || channel != other)
    }
}

impl Radios {
    /// Sets the roles. Returns the radios that may be on each channel at some time.
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

    /// Returns whether one of two radios is a station of the other.
    pub(super) fn is_associated(&self, a: RadioId, b: RadioId) -> bool {
        let is_at = |station: RadioId, point: RadioId| {
            let role = self.radios[station as usize].role;
            matches!(role, Role::Station { access_point, .. } if access_point == point)
        };
        is_at(a, b) || is_at(b, a)
    }

    /// Returns why a packet at a radio has no route.
    pub(crate) fn why_no_way(&self, radio: RadioId) -> DropCause {
        match self.radios[radio as usize].role {
            Role::AdHoc => DropCause::NoRoute,
            Role::AccessPoint | Role::Station { .. } => DropCause::NotAssociated,
        }
    }

    /// Starts a station's hand-off.
    pub(crate) fn leave(&mut self, now: Time, station: RadioId) {
        let radio = &mut self.radios[station as usize];
        if let Role::Station { away, .. } = &mut radio.role {
            *away = true;
        }
        if let Some(lock) = radio.receiver.clear() {
            radio.stats.receiving += self.window.overlap(lock.began, now);
        }
        radio.mac.leave();
    }

    /// Associates a station with an access point. Packets queued for it at the old one are among the reports afterwards; returns
    /// the packets queued at the station.
    pub(crate) fn join(
        &mut self,
        now: Time,
        queue: &mut EventQueue,
        station: RadioId,
        point: RadioId,
    ) -> Vec<PacketId> {
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
            let reports = &mut self.reports;
            let mut each = |outgoing: Outgoing| {
                let packet = outgoing.packet;
                reports.push_back(RadioReport::Left { packet, at: old });
            };
            let access_point = &mut self.radios[old as usize];
            access_point.mac.queue.reclaim(station, &mut each);
            access_point.arp.take_held(station).into_iter().for_each(each);
        }
        waiting
    }
}
