//! What an emulation needs of the system: nodes with their interfaces, addresses and routes.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use whimbrel_sim::config::{ConfigError, SimConfig};
use whimbrel_sim::topology::{self, DirectionId};
use whimbrel_sim::{Mesh, MeshPlace as Place};

/// Smallest MTU of IPv6 (RFC 8200 §5).
const V6_MTU: u32 = 1280;
/// Longest name of an interface.
const MOST_NAME: usize = 15;

/// The nodes of a scenario, and the network between them: a flow for each pair of nodes carries the packets of their programs.
#[derive(Clone, Debug)]
pub struct NetnsPlan {
    /// The scenario with the simulated flows, followed by those of the pairs.
    pub config: SimConfig,
    /// The nodes, in the order of the scenario.
    pub nodes: Vec<NodePlan>,
    mesh: Mesh,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodePlan {
    /// Its name in the scenario.
    pub name: String,
    /// Its network devices.
    pub devices: Vec<DevicePlan>,
    /// The device of each interface, in the order of the flows' routes.
    pub(super) device_of: Vec<u16>,
    /// Destination, device and source address of each route.
    pub(super) routes: Vec<(Ipv4Addr, u16, Ipv4Addr)>,
}

/// A network device of a node: an end of a link, or a radio.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DevicePlan {
    /// Its name in the namespace.
    pub name: String,
    /// The link or the radio.
    pub link: String,
    /// Its MTU.
    pub mtu: u16,
    /// Its IPv4 addresses: several only for a radio with several addresses. [`v6`] returns the corresponding IPv6 address.
    pub addresses: Vec<Ipv4Addr>,
    /// Whether it has IPv6 addresses, too.
    pub has_v6: bool,
    /// Index of its first interface among those of the node.
    pub(super) first: u16,
}

/// Returns the IPv6 address that belongs to an IPv4 address: `fd00::` and the four bytes.
pub fn v6(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets();
    let words = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, words[0], words[1])
}

/// Returns the IPv4 address of an emulated interface, given one of its addresses.
#[inline]
fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(v6) => match v6.octets() {
            [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => Some(Ipv4Addr::new(a, b, c, d)),
            _ => None,
        },
    }
}

fn as_v4(interface: DirectionId) -> Ipv4Addr {
    v4(topology::address(interface)).unwrap_or(Ipv4Addr::UNSPECIFIED)
}

impl NetnsPlan {
    /// Plans the namespaces of a scenario. The flows at the indices in `simulated` remain simulated, the others are left to
    /// programs.
    ///
    /// # Errors
    /// Returns an error if the scenario has too many nodes, or is invalid.
    pub fn new(config: &SimConfig, simulated: &[usize]) -> Result<Self, ConfigError> {
        let mesh = Mesh::new(config, simulated)?;
        let plan = |node: &whimbrel_sim::MeshNode| {
            let (devices, device_of) = devices(config, &node.interfaces);
            let route = |(to, own): &(IpAddr, u16)| {
                let own = usize::from(*own);
                let source = as_v4(node.interfaces[own]);
                v4(*to).map(|to| (to, device_of[own], source))
            };
            NodePlan {
                name: node.name.clone(),
                routes: node.routes.iter().filter_map(route).collect(),
                devices,
                device_of,
            }
        };
        Ok(NetnsPlan {
            config: mesh.config.clone(),
            nodes: mesh.nodes.iter().map(plan).collect(),
            mesh,
        })
    }

    /// Returns the flows whose ends are programs.
    pub fn outside(&self) -> Vec<usize> {
        self.mesh.outside()
    }

    /// Returns the node with this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.mesh.node(name)
    }

    /// Returns the place of an address.
    #[inline]
    pub(super) fn place(&self, address: IpAddr) -> Option<Place> {
        self.mesh.place(IpAddr::V4(v4(address)?))
    }

    /// Returns the flow from a node to another, and whether that is its forward direction.
    #[inline]
    pub(super) fn flow(&self, from: u16, to: u16) -> Option<(u32, bool)> {
        self.mesh.flow(from, to)
    }

    /// Returns the node at the end of a flow.
    #[inline]
    pub(super) fn target(&self, flow: usize, forward: bool) -> Option<u16> {
        self.mesh.target(flow, forward)
    }
}

/// Returns the devices of a node, and the device of each of its interfaces.
fn devices(config: &SimConfig, interfaces: &[DirectionId]) -> (Vec<DevicePlan>, Vec<u16>) {
    let mut devices: Vec<DevicePlan> = Vec::new();
    let mut names = BTreeSet::new();
    let mut device_of = Vec::with_capacity(interfaces.len());
    for (i, &interface) in interfaces.iter().enumerate() {
        let link = topology::interface_name(config, interface);
        // The further addresses of a radio.
        if interface.radio().is_some()
            && let Some(known) = devices.iter().position(|device| device.link == link)
        {
            devices[known].addresses.push(as_v4(interface));
            device_of.push(known as u16);
            continue;
        }
        let mtu = mtu(config, interface, &link);
        let name = device_name(&link, devices.len(), &mut names);
        device_of.push(devices.len() as u16);
        devices.push(DevicePlan {
            name,
            link,
            mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
            addresses: vec![as_v4(interface)],
            has_v6: mtu >= V6_MTU,
            first: i as u16,
        });
    }
    (devices, device_of)
}

fn mtu(config: &SimConfig, interface: DirectionId, name: &str) -> u32 {
    if interface.radio().is_some() {
        let radio = config.radio.iter().find(|radio| radio.display_name() == name);
        let channel = radio.and_then(|radio| config.channel.iter().find(|channel| channel.name == radio.channel));
        return channel.map_or(1500, |channel| channel.mtu);
    }
    config.link[interface.link() as usize].directions()[usize::from(!interface.is_forward())].mtu
}

/// Returns the name of a device: that of its link if the system allows it.
fn device_name(link: &str, number: usize, taken: &mut BTreeSet<String>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let allowed = (1..=MOST_NAME).contains(&link.len())
        && link.chars().all(is_plain)
        && !["lo", ".", "..", "all", "default"].contains(&link);
    let name = if allowed && !taken.contains(link) {
        link.to_owned()
    } else {
        (number..)
            .map(|n| format!("link{n}"))
            .find(|name| !taken.contains(name))
            .unwrap_or_default()
    };
    taken.insert(name.clone());
    name
}

#[cfg(test)]
mod tests {
    use whimbrel_control::{Rate, Span};
    use whimbrel_sim::config::{FlowConfig, FlowKind, LinkConfig, NodeConfig};

    use super::*;

    fn ip(text: &str) -> Ipv4Addr {
        text.parse().expect("an address")
    }

    /// A host with two radios, an access router behind each, and a server behind both with two addresses.
    fn scenario() -> SimConfig {
        let mut config = SimConfig::empty(Span::from_secs(10));
        config.node = ["phone", "ap", "tower", "server"].map(NodeConfig::new).to_vec();
        let link = |name: &str, from: &str, to: &str| {
            let mut link = LinkConfig::new(from, to, Rate::from_mbps(10), Span::from_millis(5));
            link.name = Some(name.to_owned());
            link
        };
        config.link = vec![
            link("wifi", "phone", "ap"),
            link("lte", "phone", "tower"),
            link("a name with spaces", "ap", "server"),
            link("fibre", "tower", "server"),
        ];
        config.link[1].mtu = 1200;
        config.flow = vec![FlowConfig::new("up", FlowKind::Sctp, "server", "phone")];
        config
    }

    #[test]
    fn each_link_end_is_a_device_with_its_addresses() {
        let plan = NetnsPlan::new(&scenario(), &[]).expect("a plan");
        let phone = &plan.nodes[0];
        let names: Vec<_> = phone.devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["wifi", "lte"]);
        assert_eq!(phone.devices[0].addresses, [ip("10.0.0.1")]);
        assert_eq!((phone.devices[1].mtu, phone.devices[1].has_v6), (1200, false));
        assert_eq!(plan.nodes[3].devices[0].name, "link0", "spaces are not allowed");
        assert_eq!(v6(ip("10.1.0.2")).to_string(), "fd00::a01:2");
        for address in [IpAddr::from(ip("10.1.0.1")), IpAddr::from(v6(ip("10.1.0.1")))] {
            assert_eq!(plan.place(address), Some(Place { node: 0, interface: 1 }));
        }
        assert_eq!(plan.place("10.9.0.1".parse().expect("an address")), None);
        assert_eq!(plan.place("fd00:1::a01:1".parse().expect("an address")), None);
    }

    #[test]
    fn routes_use_the_link_to_the_peer_and_then_the_same_number() {
        let plan = NetnsPlan::new(&scenario(), &[]).expect("a plan");
        let route = |to: &str| {
            let found = plan.nodes[0].routes.iter().find(|(address, ..)| *address == ip(to));
            found.map(|(_, device, source)| (*device, *source))
        };
        assert_eq!(route("10.1.0.2"), Some((1, ip("10.1.0.1"))), "the tower's end of lte");
        assert_eq!(
            route("10.2.0.2"),
            Some((0, ip("10.0.0.1"))),
            "the server's first address"
        );
        assert_eq!(
            route("10.3.0.2"),
            Some((1, ip("10.1.0.1"))),
            "the server's second address"
        );
    }

    #[test]
    fn pairs_of_nodes_are_flows_in_the_direction_of_the_scenario() {
        let plan = NetnsPlan::new(&scenario(), &[]).expect("a plan");
        assert_eq!(plan.outside().len(), 6);
        let (flow, forward) = plan.flow(0, 3).expect("a route");
        assert_eq!((plan.config.flow[flow as usize].name.as_str(), forward), ("up", false));
        assert_eq!(plan.config.flow[0].name, "phone-ap");
        assert_eq!(plan.target(flow as usize, true), Some(0));
        assert_eq!(plan.target(flow as usize, false), Some(3));
        let with = NetnsPlan::new(&scenario(), &[0]).expect("a plan");
        assert_eq!(with.outside(), [1, 2, 3, 4, 5, 6], "the scenario's flow is simulated");
        let (flow, _) = with.flow(0, 3).expect("a route");
        assert_eq!(with.config.flow[flow as usize].name, "server-phone");
    }

    #[test]
    fn nodes_without_a_route_have_no_flow() {
        let mut config = scenario();
        config.node.push(NodeConfig::new("island"));
        let plan = NetnsPlan::new(&config, &[]).expect("a plan");
        assert_eq!((plan.outside().len(), plan.flow(4, 0)), (6, None));
        assert!(plan.nodes[4].devices.is_empty());
    }
}
