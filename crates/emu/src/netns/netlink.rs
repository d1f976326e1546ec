//! Addresses, routes and rules of a namespace by netlink.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// The loopback interface is the first one of every namespace.
pub(super) const LOOPBACK: u32 = 1;
/// The table of routes that all packets use.
pub(super) const MAIN_TABLE: u32 = 254;

/// A socket in the namespace in which it was opened.
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl std::fmt::Debug for Netlink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Netlink").finish_non_exhaustive()
    }
}

/// A route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    /// The destination; all destinations of the family of `source` if none.
    pub(super) to: Option<IpAddr>,
    pub(super) device: u32,
    pub(super) source: IpAddr,
    pub(super) table: u32,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Sets a device up.
    pub(super) fn set_up(&mut self, device: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = device;
        (link.header.flags, link.header.change_mask) = (LinkFlags::Up, LinkFlags::Up);
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Adds an address without a route.
    pub(super) fn add_address(&mut self, device: u32, address: IpAddr) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = bits(address);
        message.header.index = device;
        message.header.scope = AddressScope::Universe;
        message.attributes = vec![
            AddressAttribute::Address(address),
            AddressAttribute::Local(address),
            AddressAttribute::Flags(AddressFlags::Nodad | AddressFlags::Noprefixroute),
        ];
        self.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Makes packets with this source address use a table.
    pub(super) fn add_rule(&mut self, source: IpAddr, table: u32) -> io::Result<()> {
        let mut message = RuleMessage::default();
        message.header.family = family(source);
        message.header.src_len = bits(source);
        message.header.action = RuleAction::ToTable;
        message.attributes = vec![
            RuleAttribute::Source(source),
            RuleAttribute::Table(table),
            RuleAttribute::Priority(1000),
        ];
        self.request(RouteNetlinkMessage::NewRule(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    pub(super) fn add_route(&mut self, route: &Route) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(route.source);
        message.header.destination_prefix_length = route.to.map_or(0, bits);
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = match route.source {
            IpAddr::V4(_) => RouteScope::Link,
            IpAddr::V6(_) => RouteScope::Universe,
        };
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            RouteAttribute::Oif(route.device),
            RouteAttribute::Table(route.table),
            RouteAttribute::PrefSource(route.source.into()),
        ];
        message
            .attributes
            .extend(route.to.map(|to| RouteAttribute::Destination(to.into())));
        self.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Returns the number of packets that the system dropped because the device's queue was full.
    pub(super) fn dropped(&mut self, device: u32) -> io::Result<u64> {
        let mut link = LinkMessage::default();
        link.header.index = device;
        self.send(RouteNetlinkMessage::GetLink(link), NLM_F_REQUEST)?;
        match self.receive()?.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                let dropped = link.attributes.iter().find_map(|attribute| match attribute {
                    LinkAttribute::Stats64(stats) => Some(stats.tx_dropped),
                    _ => None,
                });
                dropped.ok_or_else(|| io::Error::other("the system reports no statistics of a device"))
            }
            NetlinkPayload::Error(error) => Err(error.to_io()),
            _ => Err(io::Error::other("an unexpected answer of the system")),
        }
    }

    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.send(message, NLM_F_REQUEST | NLM_F_ACK | flags)?;
        match self.receive()?.payload {
            NetlinkPayload::Error(error) if error.code.is_none() => Ok(()),
            NetlinkPayload::Error(error) => Err(error.to_io()),
            _ => Err(io::Error::other("an unexpected answer of the system")),
        }
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        (header.flags, header.sequence_number) = (flags, self.sequence);
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    fn receive(&mut self) -> io::Result<NetlinkMessage<RouteNetlinkMessage>> {
        let (bytes, _) = self.socket.recv_from_full()?;
        NetlinkMessage::deserialize(&bytes).map_err(io::Error::other)
    }
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}
