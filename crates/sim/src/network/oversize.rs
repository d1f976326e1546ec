//! Packets that are longer than the MTU of a link: routers report them to their source by ICMP (RFC 792), or cut them into fragments
//! (RFC 791), which the destination reassembles.

use std::collections::BTreeMap;

use whimbrel_control::{Span, Time};
use whimbrel_proto::Ecn;

use super::Network;
use crate::engine::Event;
use crate::ids::{AgentId, DirectionId, RadioId};
use crate::ledger::DropCause;
use crate::observer::Observer;
use crate::packet::{Congestion, IP_HEADER, Oversize, Packet, PacketId};

/// Offsets of fragments count units of 8 bytes.
const UNIT: u32 = 8;

/// The packets of which fragments are in the network, by their destination and number.
#[derive(Debug, Default)]
pub(crate) struct Fragmented(BTreeMap<(AgentId, u32), Whole>);

/// A packet of which fragments are in the network.
#[derive(Debug)]
struct Whole {
    /// Bytes after the IP header.
    len: u32,
    /// Fragments in the network, with the duplicates that links made.
    in_network: u32,
    /// What has arrived: ranges of bytes in ascending order, not adjacent.
    arrived: Vec<(u32, u32)>,
    is_complete: bool,
    ecn: Ecn,
    congestion: Congestion,
}

impl Whole {
    /// Takes in the bytes of a fragment. Returns whether they complete the packet.
    fn add(&mut self, from: u32, to: u32) -> bool {
        let mut merged = (from, to);
        self.arrived.retain(|&(start, end)| {
            let touches = start <= merged.1 && merged.0 <= end;
            if touches {
                merged = (merged.0.min(start), merged.1.max(end));
            }
            !touches
        });
        let place = self.arrived.partition_point(|&(start, _)| start < merged.0);
        self.arrived.insert(place, merged);
        let was_complete = self.is_complete;
        self.is_complete = self.arrived == [(0, self.len)];
        self.is_complete && !was_complete
    }
}

impl Fragmented {
    fn key(packet: &Packet) -> (AgentId, u32) {
        (packet.agent, packet.number)
    }

    /// `parts` fragments replace a packet, or another fragment of it.
    fn on_cut(&mut self, packet: &Packet, parts: u32) {
        let whole = self.0.entry(Self::key(packet)).or_insert(Whole {
            len: packet.size - IP_HEADER,
            in_network: 1,
            arrived: Vec::new(),
            is_complete: false,
            ecn: packet.ecn,
            congestion: packet.congestion,
        });
        whole.in_network += parts - 1;
    }

    /// A link duplicates a fragment.
    pub(super) fn on_duplicated(&mut self, packet: &Packet) {
        if let Some(whole) = self.0.get_mut(&Self::key(packet)) {
            whole.in_network += 1;
        }
    }

    /// A fragment leaves the network. The last one ends the reassembly.
    pub(super) fn on_left(&mut self, packet: &Packet) {
        if let Some(whole) = self.0.get_mut(&Self::key(packet)) {
            whole.in_network -= 1;
            if whole.in_network == 0 {
                self.0.remove(&Self::key(packet));
            }
        }
    }

    /// Returns the length, ECN bits and indications of the packet that a fragment completes; `offset` is that of the fragment.
    fn complete(&mut self, packet: &Packet, offset: u32) -> Option<(u32, Ecn, Congestion)> {
        let whole = self.0.get_mut(&Self::key(packet))?;
        // RFC 3168 §5.3: a packet is marked if one of its fragments is.
        if packet.ecn == Ecn::Ce {
            whole.ecn = Ecn::Ce;
        }
        whole.congestion = whole.congestion.with(packet.congestion);
        let is_complete = whole.add(offset, offset + packet.size - IP_HEADER);
        is_complete.then_some((whole.len, whole.ecn, whole.congestion))
    }
}

impl Network {
    /// Returns the MTU of the link or radio that an interface belongs to.
    pub(crate) fn mtu(&self, interface: DirectionId) -> u32 {
        match interface.radio() {
            Some(radio) => self.radios.as_ref().map_or(u32::MAX, |radios| radios.mtu(radio)),
            None => self.directions[interface.index()].mtu(),
        }
    }

    /// Cuts a packet that is longer than the MTU of its next hop into fragments, which enter the hop at a time that may be ahead of the
    /// run's.
    pub(crate) fn cut(&mut self, now: Time, at: Time, id: PacketId, mtu: u32, observer: &mut dyn Observer) {
        let room = (mtu - IP_HEADER) / UNIT * UNIT;
        let packet = *self.slab.get(id);
        let len = packet.size - IP_HEADER;
        let parts = len.div_ceil(room);
        self.fragmented.on_cut(&packet, parts);
        let first = self.slab.body(id).offset * u32::from(packet.is_fragment);
        // The last fragment takes the place of the packet.
        let mut ids: Vec<_> = (1..parts).map(|_| self.slab.duplicate(id)).collect();
        ids.push(id);
        for (&part, number) in ids.iter().zip(0..) {
            let offset = number * room;
            self.slab.body_mut(part).offset = first + offset;
            let record = self.slab.get_mut(part);
            record.size = IP_HEADER + room.min(len - offset);
            record.is_fragment = true;
        }
        for part in ids {
            self.forward_from(now, at, part, observer);
        }
    }

    /// Handles a packet that is longer than the MTU of the radio that it has entered.
    #[cold]
    pub(crate) fn too_long_for_radio(&mut self, now: Time, id: PacketId, at: RadioId, observer: &mut dyn Observer) {
        let mtu = self.mtu(DirectionId::of_radio(at));
        let packet = self.slab.get_mut(id);
        if packet.oversize == Oversize::Fragment {
            packet.hop -= 1;
            return self.cut(now, now, id, mtu, observer);
        }
        self.drop(now, id, DropCause::TooBig, Some(DirectionId::of_radio(at)), observer);
    }

    /// Handles a fragment at its destination. Returns the packet if it completes it.
    #[cold]
    pub(super) fn reassemble(&mut self, id: PacketId) -> Option<PacketId> {
        let packet = *self.slab.get(id);
        let whole = self.fragmented.complete(&packet, self.slab.body(id).offset);
        self.fragmented.on_left(&packet);
        let Some((len, ecn, congestion)) = whole else {
            self.slab.release(id);
            return None;
        };
        let record = self.slab.get_mut(id);
        (record.size, record.ecn, record.congestion) = (IP_HEADER + len, ecn, congestion);
        (record.is_fragment, record.is_copy) = (false, false);
        Some(id)
    }

    /// Reports the MTU of a hop to the source of a packet that is dropped in front of it. The report takes the propagation delay of the
    /// links back, and no capacity.
    #[cold]
    pub(super) fn report_mtu(&mut self, now: Time, id: PacketId, hop: DirectionId) {
        let packet = *self.slab.get(id);
        if packet.oversize != Oversize::Report {
            return;
        }
        let route = &self.topology.routes[packet.route as usize];
        let (router, source) = (
            self.topology.node_of(hop),
            crate::topology::interface(route.source.ip()),
        );
        let is_source = source.is_some_and(|source| self.topology.node_of(source) == router);
        // A host knows the MTU of its own links.
        if !is_source && self.silent[router as usize] {
            return;
        }
        let passed = self.topology.hops.get(route.start as usize..packet.hop as usize - 1);
        let links = passed.unwrap_or_default().iter().filter(|hop| !hop.is_radio_hop());
        let delay = links
            .map(|hop| self.directions[hop.reverse().index()].delay())
            .fold(Span::ZERO, |sum, delay| sum + delay);
        let mtu = self.mtu(hop);
        let report = self.slab.duplicate(id);
        let record = self.slab.get_mut(report);
        record.agent = packet.agent.peer();
        record.size = mtu;
        record.hop = record.last_hop;
        (record.fate, record.twice) = (0, false);
        self.queue.push(now + delay, Event::Report { packet: report });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_complete_once_when_all_its_bytes_have_arrived_in_any_order() {
        let mut whole = Whole {
            len: 30,
            in_network: 5,
            arrived: Vec::new(),
            is_complete: false,
            ecn: Ecn::NotEct,
            congestion: Congestion::NONE,
        };
        assert!(!whole.add(24, 30));
        assert!(!whole.add(0, 8));
        assert!(!whole.add(0, 8), "a duplicate");
        assert_eq!(whole.arrived, [(0, 8), (24, 30)]);
        assert!(whole.add(8, 24));
        assert!(!whole.add(8, 24), "it is complete already");
    }
}
