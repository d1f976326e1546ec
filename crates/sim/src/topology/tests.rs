use whimbrel_control::{Rate, Span};

use super::*;
use crate::config::{FlowKind, NodeConfig};

/// Returns a network of these links (each a string of two node letters) with one flow from `a` to `z`.
fn network(links: &[&str]) -> SimConfig {
    let mut config = SimConfig::empty(Span::from_secs(10));
    let mut names: Vec<char> = links.iter().flat_map(|l| l.chars()).collect();
    names.sort_unstable();
    names.dedup();
    config.node = names.iter().map(|n| NodeConfig::new(&n.to_string())).collect();
    config.link = links
        .iter()
        .enumerate()
        .map(|(i, l)| {
            let mut link = LinkConfig::new(&l[..1], &l[1..], Rate::from_mbps(1), Span::from_millis(1));
            link.name = Some(format!("l{i}"));
            link
        })
        .collect();
    config.flow = vec![FlowConfig::new("f", FlowKind::Sctp, "a", "z")];
    config
}

/// Returns the direction that leaves an end of a link.
fn direction(link: u32, end: u32) -> DirectionId {
    DirectionId::of_link(link, end)
}

fn letters(config: &SimConfig, topology: &Topology, route: RouteId) -> String {
    let hops = topology.hops_of(route);
    let name = |node: NodeId| config.node[node as usize].name.as_str();
    let first = hops.first().map(|d| name(topology.origin[d.index()]));
    first
        .into_iter()
        .chain(hops.iter().map(|d| name(topology.target(*d))))
        .collect()
}

fn diagonal(links: &[&str]) -> Vec<String> {
    let config = network(links);
    config.validate().expect("a valid network");
    let topology = Topology::build(&config).expect("routes");
    let routes = &topology.flows[0];
    let count = routes.sender.len().min(routes.receiver.len());
    for i in 0..count {
        let there = topology.hops_of(routes.forward[i * routes.receiver.len() + i]);
        let back = topology.hops_of(routes.reverse[i * routes.sender.len() + i]);
        assert!(
            there.iter().rev().map(|d| d.reverse()).eq(back.iter().copied()),
            "the return path is the reversed route"
        );
    }
    (0..count)
        .map(|i| letters(&config, &topology, routes.forward[i * routes.receiver.len() + i]))
        .collect()
}

#[test]
fn addresses_name_interfaces() {
    let links = [(0, 0), (0, 1), (255, 1), (256, 0), (35_000, 0), (65_535, 1)];
    let radios = [(0, 0), (MAX_RADIOS as u32 - 1, 0), (0, 1), (300, 1), (0, 2)];
    let ids = links.map(|(link, end)| DirectionId::of_link(link, end)).into_iter();
    for id in ids.chain(radios.map(|(radio, rank)| DirectionId::of_radio_address(radio, rank))) {
        assert_eq!(interface(address(id)), Some(id));
    }
    assert_eq!(address(DirectionId::of_link(0, 0)).to_string(), "10.0.0.1");
    assert_eq!(address(DirectionId::of_link(2, 1)).to_string(), "10.2.0.2");
    assert_eq!(address(DirectionId::of_radio(250)).to_string(), "172.16.1.1");
    assert_eq!(address(DirectionId::of_radio_address(3, 1)).to_string(), "172.17.0.4");
    // No such radio, no fifth address.
    assert_eq!(interface("172.16.255.1".parse().unwrap()), None);
    assert_eq!(interface("172.20.0.1".parse().unwrap()), None);
    assert_eq!(interface("10.0.0.3".parse().unwrap()), None);
    assert_eq!(interface("11.0.0.1".parse().unwrap()), None);
    assert_eq!(interface("::1".parse().unwrap()), None);
}

#[test]
fn uses_the_shortest_route() {
    assert_eq!(diagonal(&["ab", "bc", "cy", "by", "yz"]), ["abyz"]);
    // The primary address of z is that of its first link.
    assert_eq!(diagonal(&["ab", "bc", "cz", "bz"]), ["abcz"]);
}

#[test]
fn path_i_uses_interface_i_at_both_ends() {
    // Two parallel links.
    assert_eq!(diagonal(&["az", "az"]), ["az", "az"]);
    // The second path is longer, and uses its own links.
    assert_eq!(diagonal(&["ab", "ac", "bz", "cd", "dz"]), ["abz", "acdz"]);
}

#[test]
fn paths_are_link_disjoint_even_if_the_shortest_routes_are_not() {
    // Both shortest routes use m-n; the second path has an alternative.
    assert_eq!(diagonal(&["am", "am", "mn", "mo", "on", "nz", "nz"]), ["amnz", "amonz"]);
    // The shortest route of the first path (through c-d) blocks all disjoint second ones.
    let paths = diagonal(&["ab", "ac", "bc", "cd", "be", "ed", "ef", "fz", "dz", "cg", "gz"]);
    assert_eq!(paths.len(), 2);
    let trap = diagonal(&["ap", "aq", "pr", "rs", "sz", "qr", "st", "tz", "pu", "us"]);
    assert_eq!(trap.len(), 2);
    assert!(!(trap[0].contains("rs") && trap[1].contains("rs")), "{trap:?}");
}

#[test]
fn crossed_pairs_are_routed_by_destination() {
    let config = network(&["az", "az"]);
    let topology = Topology::build(&config).expect("routes");
    let routes = &topology.flows[0];
    // From the first interface to the second address: the packet uses the link of the address.
    assert_eq!(topology.hops_of(routes.forward[1]), [direction(1, 0)]);
    assert_eq!(topology.hops_of(routes.forward[2]), [direction(0, 0)]);
    assert_eq!(topology.hops_of(routes.reverse[1]), [direction(1, 1)]);
}

#[test]
fn chosen_links_determine_the_order_of_interfaces() {
    let mut config = network(&["az", "az", "az"]);
    config.flow[0].from_links = vec!["l2".into(), "l0".into()];
    config.validate().expect("valid");
    let topology = Topology::build(&config).expect("routes");
    assert_eq!(topology.flows[0].sender, [direction(2, 0), direction(0, 0)]);
    assert_eq!(topology.flows[0].receiver, [0, 1, 2].map(|link| direction(link, 1)));
}

#[test]
fn reports_unconnected_ends_and_unknown_names() {
    let config = network(&["ab", "yz"]);
    assert_eq!(config.validate().expect_err("no route").path, "flow[0].to");
    let mut config = network(&["az"]);
    config.flow[0].to = "x".into();
    let error = config.validate().expect_err("no such node");
    assert_eq!((error.path.as_str(), error.value.as_str()), ("flow[0].to", "x"));
    let mut config = network(&["az"]);
    config.link.push(config.link[0].clone());
    assert_eq!(
        config.validate().expect_err("two links of one name").path,
        "link[1].name"
    );
}
