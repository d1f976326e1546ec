//! Hand-offs of stations: the network's routes change, and packets on the way take the new ones.

use whimbrel_control::Time;

use super::Network;
use crate::ids::{DirectionId, RadioId};
use crate::ledger::DropCause;
use crate::observer::Observer;
use crate::packet::PacketId;

impl Network {
    /// Handles the start of a station's hand-off.
    pub(crate) fn leave_access_point(&mut self, now: Time, handoff: u32) {
        let station = self.topology.handoffs[handoff as usize].station;
        if let Some(radios) = &mut self.radios {
            radios.leave(now, station);
        }
    }

    /// Handles the end of a station's hand-off: associates it with its new access point and updates routes.
    pub(crate) fn join_access_point(&mut self, now: Time, handoff: u32, observer: &mut dyn Observer) {
        let handoff = &mut self.topology.handoffs[handoff as usize];
        let (station, point) = (handoff.station, handoff.access_point);
        let changes = core::mem::take(&mut handoff.changes);
        self.route_changes += u64::from(!changes.is_empty());
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
        let node = self.topology.node_of(DirectionId::of_radio(station));
        for id in waiting {
            // The packet is in the queue for the first hop of the rest of its route.
            self.redirect(id, node, 1);
        }
        self.settle_radio(now, observer);
    }

    /// Gives a packet the new route from a node on; it has already entered `entered` hops of it. Returns whether there is a route.
    fn redirect(&mut self, id: PacketId, node: u32, entered: u32) -> bool {
        let packet = self.slab.get_mut(id);
        let Some(hop) = self.topology.leaves_node(packet.route, node) else {
            return false;
        };
        packet.hop = hop + entered;
        packet.last_hop = self.topology.routes[packet.route as usize].end;
        true
    }

    /// Handles a packet at an access point for a station that has left.
    pub(crate) fn left_behind(&mut self, now: Time, id: PacketId, at: RadioId, observer: &mut dyn Observer) {
        let node = self.topology.node_of(DirectionId::of_radio(at));
        if self.redirect(id, node, 0) {
            return self.forward(now, id, observer);
        }
        self.drop(
            now,
            id,
            DropCause::NotAssociated,
            Some(DirectionId::of_radio(at)),
            observer,
        );
    }
}
