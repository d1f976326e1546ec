//! A network whose flows have ends outside the simulation: the caller passes packets in and takes them out at given times.

use std::net::IpAddr;

use whimbrel_control::{Span, Time};
use whimbrel_proto::Ecn;

use super::{RunOptions, World};
use crate::config::{ConfigError, FlowKind, MeasureConfig, SimConfig};
use crate::engine::Event;
use crate::ids::{AgentId, DirectionId, RouteId};
use crate::measure::{EndReason, RunResult};
use crate::network::Left;
use crate::observer::{NoObserver, Observer};
use crate::packet::{Form, IP_HEADER, Oversize};
use crate::resources::Resources;
use crate::topology::interface_name;

/// An open network does not end by itself; its measurement window ends here.
const HORIZON: Span = Span::from_secs(366 * 86_400);

/// A simulated network that carries packets of programs outside the simulation.
///
/// The links, queues, losses, traces and schedules are those of [`World`], with the same random streams for the same seed. The
/// flows named in [`OpenWorld::new`] have no simulated ends: their packets enter by [`OpenWorld::send`] and leave by
/// [`OpenWorld::deliver`]. All other flows of the scenario are simulated and compete with them. It reads no clock: the caller
/// passes the times, which must not decrease.
///
/// ```
/// use whimbrel_control::{Rate, Span, Time};
/// use whimbrel_sim::config::{FlowConfig, FlowKind, LinkConfig, NodeConfig, SimConfig};
/// use whimbrel_sim::{Entry, OpenWorld, Resources};
///
/// let mut config = SimConfig::empty(Span::from_secs(10));
/// config.node = vec![NodeConfig::new("a"), NodeConfig::new("b")];
/// config.link = vec![LinkConfig::new("a", "b", Rate::from_mbps(8), Span::from_millis(10))];
/// config.flow = vec![FlowConfig::new("data", FlowKind::Sctp, "a", "b")];
/// let mut world = OpenWorld::new(&config, 1, &Resources::default(), &[0])?;
/// // 972 bytes, a UDP and an IP header: 1000 bytes take 1 ms at 8 Mbit/s.
/// world.send(Time::ZERO, &Entry { headers: Some(8), ..Entry::default() }, &[7; 972]);
/// let due = Time::ZERO + Span::from_millis(11);
/// world.advance(due);
/// let mut arrived = Vec::new();
/// world.deliver(&mut |delivery| arrived.push((delivery.at, delivery.payload.len())));
/// assert_eq!(arrived, [(due, 972)]);
/// # Ok::<(), whimbrel_sim::config::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct OpenWorld {
    world: World,
    /// The form of the packets of each flow; `None` for a simulated flow.
    forms: Vec<Option<Form>>,
    /// Names of the links at the sender and at the receiver of each flow.
    links: Vec<[Vec<String>; 2]>,
}

/// Entry point and header fields of a packet that enters an [`OpenWorld`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Index of the flow in the scenario.
    pub flow: usize,
    /// Whether the packet goes from the flow's sender to its receiver.
    pub forward: bool,
    /// Index of the source interface in [`OpenWorld::links`] of the sending end.
    pub from: usize,
    /// Index of the destination interface in [`OpenWorld::links`] of the other end.
    pub to: usize,
    /// The ECN bits of its IP header.
    pub ecn: Ecn,
    /// Bytes between the IP header and the payload, for example [`UDP_HEADER`](crate::UDP_HEADER). They and an IPv4 header of
    /// [`IP_HEADER`] bytes count in the packet's size. `None` if the payload is a complete IP packet.
    pub headers: Option<u32>,
    /// Returned with the packet; the network does not use it.
    pub tag: u32,
    /// What happens if it is longer than the MTU of a link. A complete IP packet is never cut into fragments: its sender has to do so.
    pub oversize: Oversize,
}

impl Default for Entry {
    /// Creates an entry from the sender's first interface to the receiver's first interface of the first flow, with only an IP
    /// header.
    fn default() -> Self {
        Entry {
            flow: 0,
            forward: true,
            from: 0,
            to: 0,
            ecn: Ecn::NotEct,
            headers: Some(0),
            tag: 0,
            oversize: Oversize::Drop,
        }
    }
}

/// A packet that leaves an [`OpenWorld`], or a report to its source that it was too long.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// When it reached the end of its route.
    pub at: Time,
    /// Index of the flow in the scenario.
    pub flow: usize,
    /// Whether it goes from the flow's sender to its receiver.
    pub forward: bool,
    /// Source interface, as in [`Entry::from`].
    pub from: usize,
    /// Destination interface, as in [`Entry::to`].
    pub to: usize,
    /// The ECN bits of its IP header; queues may have set CE.
    pub ecn: Ecn,
    /// The tag of its entry.
    pub tag: u32,
    /// None if the packet has arrived. Otherwise a node reports to the packet's source that it was dropped in front of a link with this MTU in
    /// bytes; the other fields are those of the packet. Only packets with [`Oversize::Report`] are reported.
    pub too_long: Option<u32>,
    /// Its payload, unchanged.
    pub payload: &'a [u8],
}

/// A link on a packet's way that carries only shorter packets than all links before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathMtu {
    /// Its MTU in bytes.
    pub mtu: u32,
    /// The address of the node in front of it.
    pub router: IpAddr,
    /// Whether this node reports packets that are longer.
    pub is_reported: bool,
}

impl OpenWorld {
    /// Builds the network of a scenario without the ends of the flows in `outside` (indices in the scenario). The scenario's
    /// duration and measurement window do not apply.
    ///
    /// # Errors
    /// Returns the errors of [`World::new`], and an error if `outside` names a flow that the scenario lacks.
    pub fn new(config: &SimConfig, seed: u64, resources: &Resources, outside: &[usize]) -> Result<Self, ConfigError> {
        OpenWorld::observed(config, seed, resources, outside, &mut NoObserver)
    }

    /// Builds the network as [`OpenWorld::new`] does. `observer` receives the events that it wants here and in
    /// [`OpenWorld::advance_with`].
    ///
    /// # Errors
    /// Returns the errors of [`OpenWorld::new`].
    pub fn observed(
        config: &SimConfig,
        seed: u64,
        resources: &Resources,
        outside: &[usize],
        observer: &mut dyn Observer,
    ) -> Result<Self, ConfigError> {
        if let Some(missing) = outside.iter().find(|flow| **flow >= config.flow.len()) {
            let allowed = format!("one of the {} flows of the scenario", config.flow.len());
            return Err(ConfigError::new("flow", missing, allowed));
        }
        let config = &SimConfig {
            duration: HORIZON,
            measure: MeasureConfig {
                interval: config.measure.interval,
                ..MeasureConfig::default()
            },
            ..config.clone()
        };
        let mut world = World::build(config, seed, resources, RunOptions::default(), outside)?;
        let forms = config.flow.iter().enumerate().map(|(f, flow)| {
            outside.contains(&f).then_some(match flow.kind {
                FlowKind::Sctp => Form::Bytes,
                FlowKind::Tcp | FlowKind::Udp => Form::Datagram,
            })
        });
        let forms = forms.collect();
        let names = |interfaces: &[DirectionId]| interfaces.iter().map(|i| interface_name(config, *i)).collect();
        let flows = world.flows.iter();
        let links = flows.map(|flow| [names(&flow.routes.sender), names(&flow.routes.receiver)]);
        let links = links.collect();
        world.observe(observer);
        world.begin(observer);
        Ok(OpenWorld { world, forms, links })
    }

    /// Returns the names of the links at the interfaces of a flow's sender and of its receiver, the primary ones first.
    pub fn links(&self, flow: usize) -> [&[String]; 2] {
        self.links
            .get(flow)
            .map_or([&[], &[]], |[sender, receiver]| [sender, receiver])
    }

    /// Returns the time up to which all events have been processed.
    pub fn now(&self) -> Time {
        self.world.now
    }

    /// Returns the time of the next event.
    pub fn next_event(&self) -> Option<Time> {
        self.world.network.queue.peek().map(|next| next.at)
    }

    /// Passes a packet to the network at a time, or [now](OpenWorld::now) if that is later. Returns whether the flow and the route
    /// exist.
    pub fn send(&mut self, at: Time, entry: &Entry, payload: &[u8]) -> bool {
        let (Some(Some(form)), Some(route)) = (self.forms.get(entry.flow), self.route(entry)) else {
            return false;
        };
        let world = &mut self.world;
        let state = &mut world.flows[entry.flow];
        let at = at.max(world.now);
        let id = world.network.slab.reserve();
        let body = world.network.slab.body_mut(id);
        (body.form, body.tag) = (if entry.headers.is_none() { Form::Ip } else { *form }, entry.tag);
        body.bytes.clear();
        body.bytes.extend_from_slice(payload);
        let sender = AgentId::sender(entry.flow as u32);
        let agent = if entry.forward { sender } else { sender.peer() };
        let len = match entry.headers {
            Some(headers) => payload.len() as u32 + headers,
            None => (payload.len() as u32).saturating_sub(IP_HEADER),
        };
        state.address_packet(&mut world.network, at, id, agent, route, len);
        let packet = world.network.slab.get_mut(id);
        packet.ecn = entry.ecn;
        packet.oversize = match entry.oversize {
            Oversize::Fragment if entry.headers.is_none() => Oversize::Drop,
            oversize => oversize,
        };
        world.network.queue.push(at, Event::Enter { packet: id });
        true
    }

    fn route(&self, entry: &Entry) -> Option<RouteId> {
        let routes = &self.world.flows.get(entry.flow)?.routes;
        let (width, depth, table) = if entry.forward {
            (routes.receiver.len(), routes.sender.len(), &routes.forward)
        } else {
            (routes.sender.len(), routes.receiver.len(), &routes.reverse)
        };
        if entry.from >= depth || entry.to >= width {
            return None;
        }
        table.get(entry.from * width + entry.to).copied()
    }

    /// Returns how often routes have changed: by hand-offs of radios.
    pub fn route_changes(&self) -> u64 {
        self.world.network.route_changes
    }

    /// Returns the MTUs on a packet's way: that of the first link, and each that is smaller than all before. None without a route. They change
    /// only with the routes.
    pub fn path_mtus(&self, entry: &Entry) -> Vec<PathMtu> {
        let network = &self.world.network;
        let hops = self
            .route(entry)
            .map_or(&[][..], |route| network.topology.hops_of(route));
        let mut least = u32::MAX;
        let limits = hops.iter().filter_map(|hop| {
            let from = network.topology.leaves_by(*hop);
            let mtu = network.mtu(from);
            let is_less = mtu < least;
            least = least.min(mtu);
            is_less.then(|| PathMtu {
                mtu,
                router: crate::topology::address(from),
                is_reported: !network.silent[network.topology.node_of(from) as usize],
            })
        });
        limits.collect()
    }

    /// Processes all events up to a time.
    pub fn advance(&mut self, to: Time) {
        self.advance_with(to, &mut NoObserver);
    }

    /// Processes all events up to a time. The observer is that of [`OpenWorld::observed`].
    pub fn advance_with(&mut self, to: Time, observer: &mut dyn Observer) {
        while let Some(next) = self.world.network.queue.peek().filter(|next| next.at <= to) {
            self.world.step(next, observer);
        }
        self.world.now = self.world.now.max(to);
    }

    /// Passes the arrived packets to `each`, in the order of their arrival.
    pub fn deliver(&mut self, each: &mut dyn FnMut(Delivery<'_>)) {
        while let Some((at, left)) = self.world.network.delivered.pop_front() {
            each(self.delivery(at, left));
            let (Left::Arrived(id) | Left::TooLong(id)) = left;
            self.world.network.slab.release(id);
        }
    }

    fn delivery(&self, at: Time, left: Left) -> Delivery<'_> {
        let network = &self.world.network;
        let (Left::Arrived(id) | Left::TooLong(id)) = left;
        let (packet, body) = (network.slab.get(id), network.slab.body(id));
        // A report travels to the source of its packet.
        let (forward, too_long) = match left {
            Left::Arrived(_) => (packet.is_forward(), None),
            Left::TooLong(_) => (!packet.is_forward(), Some(packet.size)),
        };
        let flow = packet.flow as usize;
        let routes = &self.world.flows[flow].routes;
        let route = &network.topology.routes[packet.route as usize];
        let place = |interfaces: &[DirectionId], address: std::net::SocketAddr| {
            let wanted = crate::topology::interface(address.ip());
            interfaces.iter().position(|i| Some(*i) == wanted).unwrap_or(0)
        };
        let (from, to) = if forward {
            (&routes.sender, &routes.receiver)
        } else {
            (&routes.receiver, &routes.sender)
        };
        Delivery {
            at,
            flow,
            forward,
            from: place(from, route.source),
            to: place(to, route.destination),
            ecn: packet.ecn,
            tag: body.tag,
            too_long,
            payload: &body.bytes,
        }
    }

    /// Ends the run and returns its result so far.
    pub fn finish(self) -> RunResult {
        self.world.finish(EndReason::Cancelled)
    }
}
