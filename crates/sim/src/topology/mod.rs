//! Nodes, interfaces, addresses and static routes, resolved to dense numbers before the run.
//!
//! A direction of a link has the number of the interface it leaves ([`DirectionId`]). A hop of a route is a direction of a link, or
//! leads from one radio to another on its channel, over any number of radios in between.

mod access;
mod disjoint;
mod shortest;
mod unused;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use whimbrel_proto::MAX_ADDRESSES as MOST_OF_SCTP;

use self::access::Access;
pub(crate) use self::access::{Handoff, access_points};
pub use self::unused::UnusedLink;
use crate::config::{
    AddressStep, ConfigError, FlowConfig, FlowEnd, FlowKind, LinkConfig, MAX_ADDRESSES, MAX_RADIOS, RadioConfig,
    SimConfig,
};
pub use crate::ids::{DirectionId, NodeId, RouteId};

/// Returns the name of an interface's link or radio, as used by flows.
pub fn interface_name(config: &SimConfig, interface: DirectionId) -> String {
    match interface.radio_address() {
        Some((radio, _)) => config.radio[radio as usize].display_name(),
        None => config.link[interface.link() as usize].display_name(),
    }
}

/// The route from one address to another, as directions of links and radio hops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Source address.
    pub source: SocketAddr,
    /// Destination address.
    pub destination: SocketAddr,
    /// Index of the first hop in [`Topology::hops`].
    pub start: u32,
    /// Index after the last hop. Without hops there is no route.
    pub end: u32,
    /// Rank among the disjoint routes over radio, from 0, where routing supports them.
    pub rank: u8,
}

/// Routes between the addresses of a flow's two ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRoutes {
    /// Interfaces of the sender, primary first.
    pub sender: Vec<DirectionId>,
    /// Interfaces of the receiver, primary first.
    pub receiver: Vec<DirectionId>,
    /// Route from sender interface `s` to receiver interface `r` at `s * receiver.len() + r`.
    pub forward: Vec<RouteId>,
    /// Route from receiver interface `r` to sender interface `s` at `r * sender.len() + s`.
    pub reverse: Vec<RouteId>,
}

/// The network's graph and all routes that flows may use.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Outgoing directions of each node.
    pub(crate) outgoing: Vec<Vec<DirectionId>>,
    /// The node at the start of each direction.
    pub(crate) origin: Vec<NodeId>,
    /// Cost of each link.
    pub(crate) cost: Vec<u64>,
    /// Node and channel of each radio.
    radios: Vec<(NodeId, u32)>,
    /// Number of addresses of each radio.
    addresses: Vec<u8>,
    /// Radios of each node.
    radios_of: Vec<Vec<u32>>,
    /// Radios of each channel.
    members: Vec<Vec<u32>>,
    /// Associations during the search for routes.
    access: Access,
    /// Hand-offs in the order of their ends, each with its route changes.
    pub(crate) handoffs: Vec<Handoff>,
    /// Whether the routes over a direction change during the run.
    unsteady: Vec<bool>,
    /// Routes by number.
    pub routes: Vec<Route>,
    /// Hops of all routes, one route after the other.
    pub hops: Vec<DirectionId>,
    /// Routes of each flow.
    pub flows: Vec<FlowRoutes>,
    /// Whether packets enter a direction ahead of time: all packets that enter it come from a single other direction, and neither
    /// has random losses, random delays or failures.
    pub direct: Vec<bool>,
}

/// Returns the address of an interface: 10.(link mod 256).(link div 256).(1 or 2); for a radio 172.(16 + rank of the
/// address).(radio div 250).(radio mod 250 + 1).
pub fn address(interface: DirectionId) -> IpAddr {
    if let Some((radio, rank)) = interface.radio_address() {
        return IpAddr::V4(Ipv4Addr::new(
            172,
            16 + rank,
            (radio / 250) as u8,
            (radio % 250) as u8 + 1,
        ));
    }
    let link = interface.link();
    IpAddr::V4(Ipv4Addr::new(
        10,
        (link & 255) as u8,
        (link >> 8) as u8,
        1 + u8::from(!interface.is_forward()),
    ))
}

/// Returns the interface with this address, if there is one.
pub fn interface(address: IpAddr) -> Option<DirectionId> {
    match address {
        IpAddr::V4(v4) => match v4.octets() {
            [10, low, high, side @ 1..=2] => {
                let link = u32::from(high) << 8 | u32::from(low);
                Some(DirectionId::of_link(link, u32::from(side - 1)))
            }
            [172, second @ 16..=255, high, low @ 1..=250] if second - 16 < MAX_ADDRESSES => {
                let radio = u32::from(high) * 250 + u32::from(low - 1);
                (radio < MAX_RADIOS as u32).then(|| DirectionId::of_radio_address(radio, second - 16))
            }
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}

impl Topology {
    /// Assigns all numbers and finds the routes of all flows. Names must have been checked.
    ///
    /// # Errors
    /// Returns an error for a flow between nodes without a route, or for a node without an interface.
    pub fn build(config: &SimConfig) -> Result<Topology, ConfigError> {
        let nodes: BTreeMap<&str, NodeId> = config.node.iter().map(|n| n.name.as_str()).zip(0..).collect();
        let channels: BTreeMap<&str, u32> = config.channel.iter().map(|c| c.name.as_str()).zip(0..).collect();
        // The links and radios that flows can name.
        let links = config
            .link
            .iter()
            .map(LinkConfig::display_name)
            .zip((0..).map(End::Link));
        let radios = config
            .radio
            .iter()
            .map(RadioConfig::display_name)
            .zip((0..).map(End::Radio));
        let ends: Ends = links.chain(radios).collect();
        let find = |name: &str, path: &str| {
            nodes
                .get(name)
                .copied()
                .ok_or_else(|| ConfigError::new(path, name, "the name of a node"))
        };
        let mut topology = Topology {
            outgoing: vec![Vec::new(); config.node.len()],
            origin: Vec::with_capacity(config.link.len() * 2),
            cost: Vec::with_capacity(config.link.len()),
            radios: Vec::with_capacity(config.radio.len()),
            addresses: config.radio.iter().map(|radio| radio.addresses).collect(),
            radios_of: vec![Vec::new(); config.node.len()],
            members: vec![Vec::new(); config.channel.len()],
            access: Access::new(config),
            handoffs: Vec::new(),
            unsteady: vec![false; config.link.len() * 2],
            routes: Vec::new(),
            hops: Vec::new(),
            flows: Vec::with_capacity(config.flow.len()),
            direct: vec![false; config.link.len() * 2],
        };
        for (l, link) in config.link.iter().enumerate() {
            for (end, name) in link.between.iter().enumerate() {
                let node = find(name, &format!("link[{l}].between[{end}]"))?;
                topology.outgoing[node as usize].push(DirectionId::of_link(l as u32, end as u32));
                topology.origin.push(node);
            }
            topology.cost.push(u64::from(link.cost));
        }
        for (r, radio) in config.radio.iter().enumerate() {
            let node = find(&radio.node, &format!("radio[{r}].node"))?;
            let channel = channels.get(radio.channel.as_str()).copied().ok_or_else(|| {
                ConfigError::new(format!("radio[{r}].channel"), &radio.channel, "the name of a channel")
            })?;
            topology.radios.push((node, channel));
            topology.radios_of[node as usize].push(r as u32);
            topology.members[channel as usize].push(r as u32);
        }
        let mut known = Known::default();
        for (f, flow) in config.flow.iter().enumerate() {
            let from = find(&flow.from, &format!("flow[{f}].from"))?;
            let to = find(&flow.to, &format!("flow[{f}].to"))?;
            let sender = topology.flow_interfaces(config, flow, FlowEnd::Sender, from, &ends);
            let receiver = topology.flow_interfaces(config, flow, FlowEnd::Receiver, to, &ends);
            let routes = topology.flow_routes(&mut known, sender, receiver);
            topology
                .check(config, flow, &routes)
                .map_err(|e| e.within(&format!("flow[{f}]")))?;
            topology.flows.push(routes);
        }
        topology.find_handoffs(config);
        Ok(topology)
    }

    /// Returns the node at the end of a hop.
    pub fn target(&self, hop: DirectionId) -> NodeId {
        self.node_of(self.arrives_at(hop))
    }

    /// Returns the node that an interface belongs to.
    pub(crate) fn node_of(&self, interface: DirectionId) -> NodeId {
        if let Some((radio, _)) = interface.radio_address() {
            return self.radios[radio as usize].0;
        }
        self.origin[interface.index()]
    }

    /// Returns the interface at the start of a hop.
    pub(crate) fn leaves_by(&self, hop: DirectionId) -> DirectionId {
        if hop.is_radio_hop() {
            return DirectionId::of_radio(hop.radio_ends().0);
        }
        hop
    }

    /// Returns the interface at the end of a hop.
    fn arrives_at(&self, hop: DirectionId) -> DirectionId {
        if hop.is_radio_hop() {
            return DirectionId::of_radio(hop.radio_ends().1);
        }
        hop.reverse()
    }

    /// Returns the hops that leave a node: its links, then all radios on its channels.
    fn hops_from(&self, node: NodeId) -> impl Iterator<Item = DirectionId> {
        let links = self.outgoing[node as usize].iter().copied();
        let over_radio = self.radios_of[node as usize].iter().flat_map(move |&from| {
            let members = match self.access.partners(from) {
                Some(partners) => partners,
                None => &self.members[self.radios[from as usize].1 as usize],
            };
            members
                .iter()
                .filter(move |to| self.may_talk(from, **to))
                .map(move |&to| DirectionId::radio_hop(from, to))
        });
        links.chain(over_radio)
    }

    /// Returns the hop between two interfaces, if both are radios on the same channel.
    fn radio_hop(&self, from: DirectionId, to: DirectionId) -> Option<DirectionId> {
        let ((from, _), (to, _)) = (from.radio_address()?, to.radio_address()?);
        self.may_talk(from, to).then(|| DirectionId::radio_hop(from, to))
    }

    /// Returns whether one radio can send packets to the other, directly or over others: associated stations and access points, or
    /// radios on the same channel.
    fn may_talk(&self, from: u32, to: u32) -> bool {
        match (self.access.partners(from), self.access.partners(to)) {
            (Some(partners), _) => partners.contains(&to),
            (None, Some(_)) => false,
            (None, None) => from != to && self.radios[from as usize].1 == self.radios[to as usize].1,
        }
    }

    /// Returns the hops of a route.
    pub fn hops_of(&self, route: RouteId) -> &[DirectionId] {
        let route = &self.routes[route as usize];
        &self.hops[route.start as usize..route.end as usize]
    }

    /// Finds the directions that packets may enter ahead of time, and returns the directions in front of them.
    ///
    /// The times at which packets leave a first-in-first-out direction are known when they enter it. If all packets that enter a
    /// second direction come from that one, in that order, its times can be computed at once. `simple` returns whether a direction
    /// has no random losses, random delays or failures.
    pub(crate) fn find_direct(&mut self, simple: impl Fn(DirectionId) -> bool) -> Vec<DirectionId> {
        #[derive(Clone, Copy, PartialEq)]
        enum Feeder {
            None,
            Only(DirectionId),
            Several,
        }
        let mut feeders = vec![Feeder::None; self.origin.len()];
        for route in &self.routes {
            let hops = &self.hops[route.start as usize..route.end as usize];
            // Arrivals over radio are not known in advance.
            for first in hops.first().into_iter().filter(|hop| !hop.is_radio_hop()) {
                feeders[first.index()] = Feeder::Several;
            }
            for pair in hops.windows(2).filter(|pair| !pair[1].is_radio_hop()) {
                if pair[0].is_radio_hop() {
                    feeders[pair[1].index()] = Feeder::Several;
                    continue;
                }
                let feeder = &mut feeders[pair[1].index()];
                let seen = [Feeder::None, Feeder::Only(pair[0])].contains(feeder);
                *feeder = if seen { Feeder::Only(pair[0]) } else { Feeder::Several };
            }
        }
        let mut sources = Vec::new();
        for (direction, feeder) in DirectionId::all(feeders.len() / 2).zip(feeders) {
            let Feeder::Only(source) = feeder else { continue };
            let steady = |direction: DirectionId| !self.unsteady[direction.index()];
            if simple(source) && simple(direction) && steady(source) && steady(direction) {
                self.direct[direction.index()] = true;
                sources.push(source);
            }
        }
        sources
    }

    /// Returns the interfaces of an end: those at the start, and those added later.
    fn flow_interfaces(
        &self,
        config: &SimConfig,
        flow: &FlowConfig,
        end: FlowEnd,
        node: NodeId,
        ends: &Ends,
    ) -> Vec<DirectionId> {
        let wanted = match end {
            FlowEnd::Sender => &flow.from_links,
            FlowEnd::Receiver => &flow.to_links,
        };
        let mut interfaces = self.interfaces(node, wanted, ends);
        let steps = flow.address.iter().filter(|step| step.end == end);
        for (_, name) in steps.flat_map(AddressStep::links) {
            for interface in self.interfaces(node, &[name.to_owned()], ends) {
                if !interfaces.contains(&interface) {
                    interfaces.push(interface);
                }
            }
        }
        // The initial ones first, because the first is the primary one.
        let later = |interface: &DirectionId| flow.comes_later(end, &interface_name(config, *interface));
        if !flow.address.is_empty() {
            interfaces.sort_by_key(later);
        }
        interfaces
    }

    fn interfaces(&self, node: NodeId, wanted: &[String], ends: &Ends) -> Vec<DirectionId> {
        let links = self.outgoing[node as usize].iter().copied();
        let all: Vec<_> = links
            .chain(self.radios_of[node as usize].iter().flat_map(|&radio| {
                (0..self.addresses[radio as usize]).map(move |rank| DirectionId::of_radio_address(radio, rank))
            }))
            .collect();
        if wanted.is_empty() {
            return all;
        }
        wanted
            .iter()
            .filter_map(|name| ends.get(name))
            .flat_map(|end| {
                let is_it = |interface: &DirectionId| match *end {
                    End::Link(link) => interface.link() == link,
                    End::Radio(radio) => interface.radio_address().is_some_and(|(other, _)| other == radio),
                };
                all.iter().copied().filter(is_it)
            })
            .collect()
    }

    fn check(&self, config: &SimConfig, flow: &FlowConfig, routes: &FlowRoutes) -> Result<(), ConfigError> {
        for (path, end, node, interfaces) in [
            ("from", FlowEnd::Sender, &flow.from, &routes.sender),
            ("to", FlowEnd::Receiver, &flow.to, &routes.receiver),
        ] {
            let is_there = |interface: &&DirectionId| !flow.comes_later(end, &interface_name(config, **interface));
            let addresses = interfaces.iter().filter(is_there).count();
            if flow.kind == FlowKind::Sctp && addresses > MOST_OF_SCTP {
                let error = ConfigError::new(
                    format!("{path}_links"),
                    format!("{addresses} addresses"),
                    format!("at most {MOST_OF_SCTP} addresses of an SCTP end"),
                );
                return Err(error.hint("name the links to use"));
            }
            if interfaces.is_empty() {
                return Err(ConfigError::new(
                    path,
                    node,
                    "a node at which a link ends, or that has a radio",
                ));
            }
        }
        if self.hops_of(routes.forward[0]).is_empty() {
            return Err(ConfigError::new(
                "to",
                &flow.to,
                format!("a node that links or radios join to \"{}\"", flow.from),
            ));
        }
        Ok(())
    }

    fn flow_routes(&mut self, known: &mut Known, sender: Vec<DirectionId>, receiver: Vec<DirectionId>) -> FlowRoutes {
        let key = (sender, receiver);
        if let Some(routes) = known.flows.get(&key) {
            return routes.clone();
        }
        let (sender, receiver) = &key;
        let straight = disjoint::paths(self, sender, receiver);
        let mut forward = Vec::with_capacity(sender.len() * receiver.len());
        for (s, &from) in sender.iter().enumerate() {
            for (r, &to) in receiver.iter().enumerate() {
                let hops = straight.get(s).filter(|_| s == r).cloned();
                forward.push(self.add_route(known, from, to, hops));
            }
        }
        let mut reverse = Vec::with_capacity(sender.len() * receiver.len());
        for (r, &from) in receiver.iter().enumerate() {
            for (s, &to) in sender.iter().enumerate() {
                let back = straight
                    .get(s)
                    .filter(|_| s == r)
                    .map(|hops| hops.iter().rev().map(|hop| hop.reverse()).collect());
                reverse.push(self.add_route(known, from, to, back));
            }
        }
        let routes = FlowRoutes {
            sender: sender.clone(),
            receiver: receiver.clone(),
            forward,
            reverse,
        };
        known.flows.insert(key, routes.clone());
        routes
    }

    /// Adds a route with these hops or, without them, the shortest one.
    fn add_route(
        &mut self,
        known: &mut Known,
        from: DirectionId,
        to: DirectionId,
        hops: Option<Vec<DirectionId>>,
    ) -> RouteId {
        let shared = hops.is_none();
        if let Some(&route) = known.shortest.get(&(from, to)).filter(|_| shared) {
            return route;
        }
        let hops = hops.unwrap_or_else(|| shortest::between_interfaces(self, from, to, &|_| 0));
        let start = self.hops.len() as u32;
        self.hops.extend(hops);
        let id = self.routes.len() as RouteId;
        self.routes.push(Route {
            source: SocketAddr::new(address(from), 0),
            destination: SocketAddr::new(address(to), 0),
            start,
            end: self.hops.len() as u32,
            rank: [from, to]
                .iter()
                .filter_map(|end| end.radio_address())
                .map(|(_, rank)| rank)
                .max()
                .unwrap_or(0),
        });
        if shared {
            known.shortest.insert((from, to), id);
        }
        id
    }
}

impl SimConfig {
    /// Checks everything that needs no other file: each value, each name, each flow's route.
    ///
    /// # Errors
    /// Returns an error for the first value that is not allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_values()?;
        Topology::build(self).map(drop)
    }
}

/// What a flow can name as the end of a path.
#[derive(Clone, Copy)]
enum End {
    Link(u32),
    Radio(u32),
}

/// Links and radios by their names.
type Ends = BTreeMap<String, End>;

/// Routes found so far, so that many flows between the same nodes need a single search.
#[derive(Default)]
struct Known {
    flows: BTreeMap<(Vec<DirectionId>, Vec<DirectionId>), FlowRoutes>,
    shortest: BTreeMap<(DirectionId, DirectionId), RouteId>,
}

#[cfg(test)]
mod tests;
