//! Source routes (RFC 4728).

use core::fmt;

use super::Address;

/// Maximum number of nodes in a source route, both ends included. ns-2 stops at 16.
pub const MAX_ROUTE: usize = 29;

/// Bytes of the fixed part of DSR's header (RFC 4728 §6.1).
pub(crate) const DSR_FIXED: u32 = 4;
/// Bytes of an address on the air.
pub(crate) const DSR_ADDRESS: u32 = 4;

/// Nodes in the order in which a packet passes them, both ends included, with the current index.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SourceRoute {
    nodes: [Address; MAX_ROUTE],
    len: u8,
    at: u8,
    salvaged: u8,
}

impl Default for SourceRoute {
    /// Returns an empty route.
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
    /// Creates a route over these nodes, at its first one. Returns `None` if there are more than [`MAX_ROUTE`].
    pub fn new(nodes: &[Address]) -> Option<Self> {
        let mut route = SourceRoute::default();
        route.nodes.get_mut(..nodes.len())?.copy_from_slice(nodes);
        route.len = nodes.len() as u8;
        Some(route)
    }

    /// Returns the nodes, both ends included.
    #[inline]
    pub fn nodes(&self) -> &[Address] {
        &self.nodes[..usize::from(self.len)]
    }

    /// Returns whether there is no route.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of hops from end to end.
    #[inline]
    pub fn hops(&self) -> usize {
        usize::from(self.len).saturating_sub(1)
    }

    /// Returns the index, from 0, of the node that has the packet.
    #[inline]
    pub fn at(&self) -> usize {
        usize::from(self.at)
    }

    /// Returns the node after the one that has the packet.
    #[inline]
    pub fn next(&self) -> Option<Address> {
        self.nodes().get(self.at() + 1).copied()
    }

    /// Returns the last node.
    pub fn last(&self) -> Option<Address> {
        self.nodes().last().copied()
    }

    /// Returns the index of a node.
    pub fn position(&self, node: Address) -> Option<usize> {
        self.nodes().iter().position(|other| *other == node)
    }

    /// Returns the same route with the packet at another index.
    #[must_use]
    pub fn at_place(mut self, at: usize) -> Self {
        self.at = at.min(usize::from(self.len.saturating_sub(1))) as u8;
        self
    }

    /// Returns how often the packet was salvaged (RFC 4728 §3.4.1).
    #[inline]
    pub fn salvaged(&self) -> u8 {
        self.salvaged
    }

    /// Returns the same route with another number of salvages.
    #[must_use]
    pub fn with_salvaged(mut self, salvaged: u8) -> Self {
        self.salvaged = salvaged;
        self
    }

    /// Returns the reversed route, at its first node.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let mut route = *self;
        route.nodes[..usize::from(self.len)].reverse();
        route.at = 0;
        route.salvaged = 0;
        route
    }

    /// Appends a node. Returns whether there was room.
    #[must_use]
    pub fn push(&mut self, node: Address) -> bool {
        let Some(place) = self.nodes.get_mut(usize::from(self.len)) else {
            return false;
        };
        *place = node;
        self.len += 1;
        true
    }

    /// Returns whether no node occurs twice.
    pub fn is_simple(&self) -> bool {
        let nodes = self.nodes();
        (1..nodes.len()).all(|i| !nodes[..i].contains(&nodes[i]))
    }

    /// Returns the bytes that the route adds to a packet: DSR's fixed header and a source route option with the intermediate nodes
    /// (RFC 4728 §6.1, §6.7). A packet to a neighbour needs neither.
    #[inline]
    pub fn header_bytes(&self) -> u32 {
        match self.len {
            0..=2 => 0,
            len => DSR_FIXED + self.option_bytes(u32::from(len) - 2),
        }
    }

    /// Returns the bytes of its source route option with this number of addresses.
    #[inline]
    fn option_bytes(&self, addresses: u32) -> u32 {
        4 + DSR_ADDRESS * addresses
    }

    /// Returns the bytes of the source route option alone, 0 if a packet along it needs none.
    pub(crate) fn option(&self) -> u32 {
        self.header_bytes().saturating_sub(DSR_FIXED)
    }
}

impl fmt::Debug for SourceRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{}", self.nodes(), self.at)
    }
}
