//! Stations and access points: associations, and the route changes of hand-offs.

use whimbrel_control::Span;

use super::{DirectionId, Known, RouteId, Topology};
use crate::config::{RadioConfig, SimConfig};

/// Associations of stations and access points.
#[derive(Clone, Debug)]
pub(super) struct Access {
    /// The access point of a station, the stations of an access point; none for radios in ad hoc mode.
    partners: Vec<Option<Vec<u32>>>,
}

/// A hand-off of a station to another access point.
#[derive(Clone, Debug)]
pub(crate) struct Handoff {
    /// The station's radio, and that of its new access point.
    pub(crate) station: u32,
    pub(crate) access_point: u32,
    /// When it leaves, and when it joins.
    pub(crate) leaves: Span,
    pub(crate) joins: Span,
    /// Routes that change, with their new hops.
    pub(crate) changes: Vec<RouteChange>,
}

/// The new hops of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RouteChange {
    pub(crate) route: RouteId,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Returns the index of the radio with this name. Names must have been checked.
fn place(config: &SimConfig, name: &str) -> Option<u32> {
    let is_it = |radio: &RadioConfig| radio.display_name() == name;
    config.radio.iter().position(is_it).map(|place| place as u32)
}

impl Access {
    pub(super) fn new(config: &SimConfig) -> Self {
        let mut partners: Vec<Option<Vec<u32>>> = vec![None; config.radio.len()];
        for (station, radio) in config.radio.iter().enumerate() {
            for (i, (_, name)) in radio.access_points().enumerate() {
                let Some(point) = place(config, name) else { continue };
                let stations = partners[point as usize].get_or_insert_default();
                if i == 0 {
                    stations.push(station as u32);
                    partners[station] = Some(vec![point]);
                }
            }
        }
        Access { partners }
    }

    /// Returns the radios that a radio may communicate with; `None` if it is neither a station nor an access point.
    #[inline]
    pub(super) fn partners(&self, radio: u32) -> Option<&Vec<u32>> {
        self.partners[radio as usize].as_ref()
    }

    fn join(&mut self, station: u32, point: u32) {
        for partners in self.partners.iter_mut().flatten() {
            partners.retain(|other| *other != station);
        }
        self.partners[station as usize] = Some(vec![point]);
        if let Some(stations) = &mut self.partners[point as usize] {
            stations.push(station);
            stations.sort_unstable();
        }
    }
}

/// Returns the access point of each station at the start of the run.
pub(crate) fn access_points(config: &SimConfig) -> Vec<Option<u32>> {
    let of_radio = |radio: &RadioConfig| place(config, radio.access_point.as_ref()?);
    config.radio.iter().map(of_radio).collect()
}

impl Topology {
    /// Computes the route changes of each hand-off.
    pub(super) fn find_handoffs(&mut self, config: &SimConfig) {
        for (station, radio) in (0..).zip(&config.radio) {
            for step in &radio.handoff {
                let Some(access_point) = place(config, &step.to) else {
                    continue;
                };
                self.handoffs.push(Handoff {
                    station,
                    access_point,
                    leaves: step.at,
                    joins: Span::from_nanos(step.at.as_nanos().saturating_add(step.takes.as_nanos())),
                    changes: Vec::new(),
                });
            }
        }
        self.handoffs.sort_by_key(|handoff| handoff.joins);
        // The routes before this hand-off.
        let mut hops: Vec<_> = self.routes.iter().map(|route| (route.start, route.end)).collect();
        for h in 0..self.handoffs.len() {
            let (station, point) = (self.handoffs[h].station, self.handoffs[h].access_point);
            self.access.join(station, point);
            let mut known = Known::default();
            let mut changes = Vec::new();
            for f in 0..self.flows.len() {
                let before = self.flows[f].clone();
                let after = self.flow_routes(&mut known, before.sender.clone(), before.receiver.clone());
                let pairs = before.forward.iter().zip(&after.forward);
                for (&route, &new) in pairs.chain(before.reverse.iter().zip(&after.reverse)) {
                    let (start, end) = hops[route as usize];
                    if self.hops[start as usize..end as usize] == *self.hops_of(new) {
                        continue;
                    }
                    let (now_start, now_end) = (self.routes[new as usize].start, self.routes[new as usize].end);
                    for hop in (start..end).chain(now_start..now_end) {
                        self.mark_unsteady(self.hops[hop as usize]);
                    }
                    hops[route as usize] = (now_start, now_end);
                    changes.push(RouteChange {
                        route,
                        start: now_start,
                        end: now_end,
                    });
                }
            }
            self.handoffs[h].changes = changes;
        }
    }

    fn mark_unsteady(&mut self, hop: DirectionId) {
        if !hop.is_radio_hop() {
            self.unsteady[hop.index()] = true;
        }
    }

    /// Replaces the hops of a route.
    pub(crate) fn change_route(&mut self, change: RouteChange) {
        let route = &mut self.routes[change.route as usize];
        (route.start, route.end) = (change.start, change.end);
    }

    /// Returns the index in [`Topology::hops`] of the hop with which a route leaves a node, if it passes the node.
    pub(crate) fn leaves_node(&self, route: RouteId, node: u32) -> Option<u32> {
        let route = &self.routes[route as usize];
        (route.start..route.end).find(|hop| self.node_of(self.leaves_by(self.hops[*hop as usize])) == node)
    }
}
