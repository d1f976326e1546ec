//! The way of a packet as its source wrote it (RFC 4728).

use core::fmt;

use super::Address;

/// Nodes a source route may have, both ends included. ns-2 stops at 16.
pub const MAX_ROUTE: usize = 29;

/// Bytes of the fixed part of DSR's header (RFC 4728 §6.1).
pub(crate) const DSR_FIXED: u32 = 4;
/// Bytes of an address on the air.
pub(crate) const DSR_ADDRESS: u32 = 4;

/// Nodes in the order in which a packet passes them, both ends included, with the place it has come to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SourceRoute {
    nodes: [Address; MAX_ROUTE],
    len: u8,
    at: u8,
    salvaged: u8,
}

impl Default for SourceRoute {
    /// No route.
    fn default() -> Self {
        SourceRoute {
            nodes: [0; MAX_ROUTE],
            len: 0,
            at: 0,
            salvaged: 0,
        }
    }
}

impl SourceRoute {
    /// A route over these nodes, at its first one. `None` if they are more than [`MAX_ROUTE`].
    pub fn new(nodes: &[Address]) -> Option<Self> {
        let mut route = SourceRoute::default();
        route.nodes.get_mut(..nodes.len())?.copy_from_slice(nodes);
        route.len = nodes.len() as u8;
        Some(route)
    }

    /// The nodes, both ends included.
    #[inline]
    pub fn nodes(&self) -> &[Address] {
        &self.nodes[..usize::from(self.len)]
    }

    /// Whether there is no route.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Hops from end to end.
    #[inline]
    pub fn hops(&self) -> usize {
        usize::from(self.len).saturating_sub(1)
    }

    /// The place, from 0, of the node that has the packet.
    #[inline]
    pub fn at(&self) -> usize {
        usize::from(self.at)
    }

    /// The node after the one that has the packet.
    #[inline]
    pub fn next(&self) -> Option<Address> {
        self.nodes().get(self.at() + 1).copied()
    }

    /// The last node.
    pub fn last(&self) -> Option<Address> {
        self.nodes().last().copied()
    }

    /// The place of a node.
    pub fn position(&self, node: Address) -> Option<usize> {
        self.nodes().iter().position(|other| *other == node)
    }

    /// The same route with the packet at another place.
    #[must_use]
    pub fn at_place(mut self, at: usize) -> Self {
        self.at = at.min(usize::from(self.len.saturating_sub(1))) as u8;
        self
    }

    /// How often the packet was salvaged (RFC 4728 §3.4.1).
    #[inline]
    pub fn salvaged(&self) -> u8 {
        self.salvaged
    }

    /// The same route with another number of salvages.
    #[must_use]
    pub fn with_salvaged(mut self, salvaged: u8) -> Self {
        self.salvaged = salvaged;
        self
    }

    /// The same nodes backwards, at the first one.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let mut route = *self;
        route.nodes[..usize::from(self.len)].reverse();
        route.at = 0;
        route.salvaged = 0;
        route
    }

    /// Adds a node at the end, and says whether there was room.
    #[must_use]
    pub fn push(&mut self, node: Address) -> bool {
        let Some(place) = self.nodes.get_mut(usize::from(self.len)) else {
            return false;
        };
        *place = node;
        self.len += 1;
        true
    }

    /// Whether no node occurs twice.
    pub fn is_simple(&self) -> bool {
        let nodes = self.nodes();
        (1..nodes.len()).all(|i| !nodes[..i].contains(&nodes[i]))
    }

    /// Bytes it adds to a packet: DSR's fixed header and a source route option with the nodes between the ends (RFC 4728 §6.1,
    /// §6.7). A packet for a neighbour needs neither.
    #[inline]
    pub fn header_bytes(&self) -> u32 {
        match self.len {
            0..=2 => 0,
            len => DSR_FIXED + self.option_bytes(u32::from(len) - 2),
        }
    }

    /// Bytes of its source route option with so many addresses.
    #[inline]
    fn option_bytes(&self, addresses: u32) -> u32 {
        4 + DSR_ADDRESS * addresses
    }

    /// Bytes of the source route option alone, nothing if a packet along it needs none.
    pub(crate) fn option(&self) -> u32 {
        self.header_bytes().saturating_sub(DSR_FIXED)
    }
}

impl fmt::Debug for SourceRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{}", self.nodes(), self.at)
    }
}
