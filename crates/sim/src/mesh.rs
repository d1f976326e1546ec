//! A network between programs outside the simulation: every pair of nodes can exchange packets.

use std::net::IpAddr;

use whimbrel_control::{Rate, Span};

use crate::config::{ConfigError, FlowConfig, FlowKind, SimConfig, TrafficKind};
use crate::topology::{self, DirectionId, FlowRoutes, Topology};

/// Each pair of nodes needs routes between all of their addresses.
const MOST_NODES: usize = 64;

/// The nodes of a scenario, and a flow for each pair of nodes, which carries the packets of their programs through an
/// [`OpenWorld`](crate::OpenWorld).
#[derive(Clone, Debug)]
pub struct Mesh {
    /// The scenario with the simulated flows, followed by those of the pairs.
    pub config: SimConfig,
    /// The nodes, in the order of the scenario.
    pub nodes: Vec<MeshNode>,
    /// No packet of a program takes less time to another node, whatever the schedules of links; zero over radio.
    pub least_delay: Span,
    /// Number of simulated flows.
    simulated: usize,
    /// The nodes of each pair, in the order of their flows.
    pairs: Vec<[u16; 2]>,
    /// The flow from one node to another, at `from * nodes + to`; whether it is that flow's forward direction.
    flows: Vec<Option<(u32, bool)>>,
    /// Interfaces in ascending order.
    places: Vec<(DirectionId, MeshPlace)>,
}

/// A node of a [`Mesh`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeshNode {
    /// Its name in the scenario.
    pub name: String,
    /// Its interfaces, in the order of the flows' routes.
    pub interfaces: Vec<DirectionId>,
    /// Its routes to the addresses of the other nodes: the destination and the index of the interface that leads there.
    pub routes: Vec<(IpAddr, u16)>,
}

/// The place of an address in a [`Mesh`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeshPlace {
    /// Index of the node.
    pub node: u16,
    /// Index among the interfaces of the node.
    pub interface: u16,
}

impl Mesh {
    /// Finds the routes between all nodes of a scenario. The flows at the indices in `simulated` remain simulated, the others are left
    /// to programs.
    ///
    /// # Errors
    /// Returns an error if the scenario has too many nodes, or is invalid.
    pub fn new(config: &SimConfig, simulated: &[usize]) -> Result<Self, ConfigError> {
        let count = config.node.len();
        if count > MOST_NODES {
            let allowed = format!("at most {MOST_NODES} nodes if programs run on them");
            return Err(ConfigError::new("node", count, allowed));
        }
        let mut network = config.clone();
        let (kept, replaced): (Vec<_>, Vec<_>) = config
            .flow
            .iter()
            .enumerate()
            .partition(|(place, _)| simulated.contains(place));
        network.flow = kept.into_iter().map(|(_, flow)| flow.clone()).collect();
        let replaced = replaced.into_iter().map(|(_, flow)| flow);
        let simulated = network.flow.len();
        let mut pairs = Vec::new();
        for a in 0..count {
            for b in a + 1..count {
                let pair = ordered(config, a, b);
                let flow = pair_flow(config, pair, &network.flow, replaced.clone());
                let alone = SimConfig {
                    flow: vec![flow.clone()],
                    ..network.clone()
                };
                // Nodes that no route joins.
                if Topology::build(&alone).is_ok() {
                    network.flow.push(flow);
                    pairs.push(pair.map(|node| node as u16));
                }
            }
        }
        let topology = Topology::build(&network)?;
        let mut flows = vec![None; count * count];
        let mut interfaces: Vec<&[DirectionId]> = vec![&[]; count];
        for (i, &[from, to]) in pairs.iter().enumerate() {
            let (from, to) = (usize::from(from), usize::from(to));
            let flow = (simulated + i) as u32;
            flows[from * count + to] = Some((flow, true));
            flows[to * count + from] = Some((flow, false));
            let routes = &topology.flows[flow as usize];
            (interfaces[from], interfaces[to]) = (&routes.sender, &routes.receiver);
        }
        let mut places = Vec::new();
        let mut nodes = Vec::with_capacity(count);
        for (n, own) in interfaces.iter().enumerate() {
            places.extend(own.iter().enumerate().map(|(i, interface)| {
                let place = MeshPlace {
                    node: n as u16,
                    interface: i as u16,
                };
                (*interface, place)
            }));
            nodes.push(MeshNode {
                name: config.node[n].name.clone(),
                interfaces: own.to_vec(),
                routes: routes(&topology, n, simulated, &pairs),
            });
        }
        places.sort_unstable_by_key(|(interface, _)| *interface);
        Ok(Mesh {
            least_delay: least_delay(&network, &topology, simulated),
            config: network,
            nodes,
            simulated,
            pairs,
            flows,
            places,
        })
    }

    /// Returns the flows whose ends are programs.
    pub fn outside(&self) -> Vec<usize> {
        (self.simulated..self.config.flow.len()).collect()
    }

    /// Returns the node with this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// Returns the place of an address.
    #[inline]
    pub fn place(&self, address: IpAddr) -> Option<MeshPlace> {
        let interface = topology::interface(address)?;
        let at = self.places.binary_search_by_key(&interface, |(i, _)| *i).ok()?;
        Some(self.places[at].1)
    }

    /// Returns the flow from a node to another, and whether that is its forward direction.
    #[inline]
    pub fn flow(&self, from: u16, to: u16) -> Option<(u32, bool)> {
        *self.flows.get(usize::from(from) * self.nodes.len() + usize::from(to))?
    }

    /// Returns the node at the end of a flow.
    #[inline]
    pub fn target(&self, flow: usize, forward: bool) -> Option<u16> {
        let pair = self.pairs.get(flow.checked_sub(self.simulated)?)?;
        Some(pair[usize::from(forward)])
    }
}

/// Returns the least sum of delays over the routes of the pairs.
fn least_delay(config: &SimConfig, topology: &Topology, simulated: usize) -> Span {
    let flows = topology.flows[simulated..].iter();
    let routes = flows.flat_map(|flow| flow.forward.iter().chain(&flow.reverse));
    let sums = routes.filter_map(|route| {
        let hops = topology.hops_of(*route);
        let sum = |sum, hop: &DirectionId| sum + hop_delay(config, *hop);
        (!hops.is_empty()).then(|| hops.iter().fold(Span::ZERO, sum))
    });
    sums.min().unwrap_or_default()
}

/// Returns the least delay of a direction of a link; zero for a radio.
fn hop_delay(config: &SimConfig, hop: DirectionId) -> Span {
    if hop.radio().is_some() {
        return Span::ZERO;
    }
    let link = &config.link[hop.link() as usize];
    let steps = link.schedule.iter().flat_map(|step| {
        let own = if hop.is_forward() { &step.forward } else { &step.reverse };
        [step.delay, own.as_ref().and_then(|own| own.delay)]
    });
    let initial = link.directions()[usize::from(!hop.is_forward())].delay;
    steps.flatten().fold(initial, Span::min)
}

/// Orders two nodes like the scenario's flow between them.
fn ordered(config: &SimConfig, a: usize, b: usize) -> [usize; 2] {
    let (first, second) = (&config.node[a].name, &config.node[b].name);
    let mut ends = config.flow.iter().map(|flow| (&flow.from, &flow.to));
    match ends.find(|ends| *ends == (first, second) || *ends == (second, first)) {
        Some((from, _)) if from == second => [b, a],
        _ => [a, b],
    }
}

/// Creates the flow of a pair of nodes: it has no traffic of its own, and the name of the first flow that it replaces.
fn pair_flow<'c>(
    config: &SimConfig,
    [from, to]: [usize; 2],
    others: &[FlowConfig],
    mut replaced: impl Iterator<Item = &'c FlowConfig>,
) -> FlowConfig {
    let (from, to) = (&config.node[from].name, &config.node[to].name);
    let mut name = match replaced.find(|flow| (&flow.from, &flow.to) == (from, to)) {
        Some(flow) => flow.name.clone(),
        None => format!("{from}-{to}"),
    };
    while others.iter().any(|flow| flow.name == name) {
        name.push('\'');
    }
    let mut flow = FlowConfig::new(&name, FlowKind::Udp, from, to);
    flow.traffic.kind = TrafficKind::Cbr;
    flow.traffic.rate = Some(Rate::from_bps(1));
    flow.start = Span::ZERO;
    flow
}

/// Returns a node's routes to the addresses of all others: by the link that joins both, by the interface with the same number, or
/// by the first one from which there is a route.
fn routes(topology: &Topology, node: usize, simulated: usize, pairs: &[[u16; 2]]) -> Vec<(IpAddr, u16)> {
    let mut found = Vec::new();
    for (pair, flow) in pairs.iter().zip(&topology.flows[simulated..]) {
        let forward = usize::from(pair[0]) == node;
        if !forward && usize::from(pair[1]) != node {
            continue;
        }
        let (own, others) = if forward {
            (&flow.sender, &flow.receiver)
        } else {
            (&flow.receiver, &flow.sender)
        };
        for (o, &other) in others.iter().enumerate() {
            let direct = own.iter().position(|i| i.radio().is_none() && i.reverse() == other);
            let candidates = direct.into_iter().chain([o]).chain(0..own.len());
            let usable = |i: &usize| *i < own.len() && is_route(topology, flow, forward, *i, o);
            if let Some(i) = candidates.into_iter().find(usable) {
                found.push((topology::address(other), i as u16));
            }
        }
    }
    found
}

fn is_route(topology: &Topology, flow: &FlowRoutes, forward: bool, own: usize, other: usize) -> bool {
    let route = if forward {
        flow.forward[own * flow.receiver.len() + other]
    } else {
        flow.reverse[own * flow.sender.len() + other]
    };
    !topology.hops_of(route).is_empty()
}
