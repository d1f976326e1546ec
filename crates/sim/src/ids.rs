//! Numbers of things in a world. Agents and directions have types of their own, so that their arithmetic is in one place.

use crate::config::{MAX_LINKS, MAX_RADIOS};

/// Index of a node in the scenario.
pub type NodeId = u32;
/// Index of a route in [`Topology::routes`](crate::topology::Topology::routes).
pub type RouteId = u32;

/// Index of a radio in the scenario.
pub(crate) type RadioId = u32;

/// One of the two ends of a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct AgentId(u32);

impl AgentId {
    /// Returns the sending end of a flow.
    pub(crate) const fn sender(flow: u32) -> Self {
        AgentId(flow << 1)
    }

    /// Returns the receiving end of a flow.
    pub(crate) const fn receiver(flow: u32) -> Self {
        AgentId(flow << 1 | 1)
    }

    /// Returns the agents of the first `flows` flows: the sender and the receiver of each one.
    pub(crate) fn all(flows: u32) -> impl Iterator<Item = AgentId> {
        (0..flows << 1).map(AgentId)
    }

    /// Returns the index of its flow.
    #[inline]
    pub(crate) const fn flow(self) -> u32 {
        self.0 >> 1
    }

    /// Returns whether it is the sending end.
    #[inline]
    pub(crate) const fn is_sender(self) -> bool {
        self.0 & 1 == 0
    }

    /// Returns the other end of its flow.
    #[inline]
    pub(crate) const fn peer(self) -> Self {
        AgentId(self.0 ^ 1)
    }

    /// Returns its place in a list of all agents.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of the first radio's interface; links have lower ones.
const RADIO_BASE: u32 = 2 * MAX_LINKS as u32;
/// Set in a radio hop; the lower bits contain both radios, 15 bits each.
const RADIO_HOP: u32 = 1 << 31;

/// A direction of a link, or the interface it leaves; also an interface of a radio, or a hop between two radios.
///
/// Link `l` has the directions `2 l`, which leaves its first node, and `2 l + 1`. The interfaces of radios follow those of links: the
/// first address of each radio, then the second one of each, and so on. A radio hop contains both radios.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DirectionId(u32);

impl DirectionId {
    /// A packet that is on no link yet.
    pub(crate) const NONE: DirectionId = DirectionId(u32::MAX);

    /// Returns the direction that leaves the first (0) or second (1) node of a link.
    #[inline]
    pub const fn of_link(link: u32, end: u32) -> Self {
        DirectionId(link << 1 | end)
    }

    /// Returns the interface of a radio's first address.
    #[inline]
    pub const fn of_radio(radio: u32) -> Self {
        DirectionId(RADIO_BASE + radio)
    }

    /// Returns the interface of address `rank` of a radio.
    pub(crate) fn of_radio_address(radio: u32, rank: u8) -> Self {
        DirectionId(RADIO_BASE + u32::from(rank) * MAX_RADIOS as u32 + radio)
    }

    /// Returns the hop from one radio to another.
    pub(crate) const fn radio_hop(from: u32, to: u32) -> Self {
        DirectionId(RADIO_HOP | from << 15 | to)
    }

    /// Returns the directions of the first `links` links.
    pub(crate) fn all(links: usize) -> impl Iterator<Item = DirectionId> {
        (0..(links as u32) << 1).map(DirectionId)
    }

    /// Returns its link, if it is a direction of one.
    #[inline]
    pub const fn link(self) -> u32 {
        self.0 >> 1
    }

    /// Returns whether it leaves the first node of its link.
    #[inline]
    pub const fn is_forward(self) -> bool {
        self.0 & 1 == 0
    }

    /// Returns the other direction of a link, or the hop back between two radios.
    pub const fn reverse(self) -> Self {
        if self.is_radio_hop() {
            let (from, to) = self.radio_ends();
            return DirectionId::radio_hop(to, from);
        }
        DirectionId(self.0 ^ 1)
    }

    /// Returns its place in a list of all directions of links.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns its number.
    #[inline]
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Returns the radio whose first address has this interface, or another number above those of all radios. None for a link.
    #[inline]
    pub const fn radio(self) -> Option<u32> {
        self.0.checked_sub(RADIO_BASE)
    }

    /// Returns the radio of an interface, and the rank of its address, from 0.
    pub(crate) fn radio_address(self) -> Option<(u32, u8)> {
        let place = self.radio()?;
        Some((place % MAX_RADIOS as u32, (place / MAX_RADIOS as u32) as u8))
    }

    /// Returns the interface that packets to and from an address pass: for a radio the first one.
    pub(crate) fn passed(self) -> DirectionId {
        self.radio_address()
            .map_or(self, |(radio, _)| DirectionId::of_radio(radio))
    }

    /// Returns whether it is a hop between two radios.
    #[inline]
    pub(crate) const fn is_radio_hop(self) -> bool {
        self.0 & RADIO_HOP != 0
    }

    /// Returns the radios at the ends of a radio hop.
    #[inline]
    pub(crate) const fn radio_ends(self) -> (u32, u32) {
        (self.0 >> 15 & 0x7fff, self.0 & 0x7fff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_of_a_flow_knows_its_flow_and_its_peer() {
        let agents: Vec<_> = AgentId::all(2).collect();
        assert_eq!(agents[2..], [AgentId::sender(1), AgentId::receiver(1)]);
        assert_eq!(AgentId::sender(1).peer(), AgentId::receiver(1));
        assert_eq!(AgentId::receiver(1).peer(), AgentId::sender(1));
        assert!(AgentId::sender(1).is_sender() && !AgentId::receiver(1).is_sender());
        assert_eq!((agents[3].flow(), agents[3].index()), (1, 3));
    }

    #[test]
    fn directions_of_links_and_radios_do_not_overlap() {
        let last = DirectionId::all(MAX_LINKS).last().expect("there are links");
        assert_eq!(
            (last.link(), last.is_forward(), last.radio()),
            (MAX_LINKS as u32 - 1, false, None)
        );
        assert_eq!(last.reverse(), DirectionId::of_link(MAX_LINKS as u32 - 1, 0));
        let second = DirectionId::of_radio_address(7, 1);
        assert_eq!(
            (second.radio_address(), second.passed()),
            (Some((7, 1)), DirectionId::of_radio(7))
        );
        let hop = DirectionId::radio_hop(3, 4);
        assert!(hop.is_radio_hop() && !second.is_radio_hop());
        assert_eq!(hop.reverse().radio_ends(), (4, 3));
    }
}
