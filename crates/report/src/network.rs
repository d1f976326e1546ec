//! The network of a run: nodes, links, radios and the routes that packets of each flow take.

use serde_json::{Value, json};
use whimbrel_sim::config::{LinkConfig, RadioConfig, SimConfig};
use whimbrel_sim::topology::{DirectionId, Topology, interface_name};

/// What the page contains about the network of a point.
pub(crate) fn network(config: &SimConfig) -> Value {
    let nodes: Vec<_> = config
        .node
        .iter()
        .map(|node| json!({ "name": node.name, "position": node.position }))
        .collect();
    let links: Vec<_> = config.link.iter().map(link).collect();
    let radios: Vec<_> = config
        .radio
        .iter()
        .map(|radio| json!({ "name": radio.display_name(), "node": radio.node, "channel": radio.channel }))
        .collect();
    let flows: Vec<_> = config
        .flow
        .iter()
        .map(|flow| json!({ "name": flow.name, "from": flow.from, "to": flow.to }))
        .collect();
    json!({ "nodes": nodes, "links": links, "radios": radios, "flows": flows, "routes": routes(config) })
}

fn link(link: &LinkConfig) -> Value {
    let rate = link.rate.map(|rate| rate.to_string());
    let schedule: Vec<_> = link
        .schedule
        .iter()
        .map(|step| json!({ "at": step.at.as_secs_f64(), "up": step.up }))
        .collect();
    json!({
        "name": link.display_name(),
        "between": link.between,
        "rate": rate,
        "delay": link.delay.to_string(),
        "schedule": schedule,
    })
}

/// The nodes that packets of a flow pass from one interface to another. Routes over radios are left out: they change.
fn routes(config: &SimConfig) -> Vec<Value> {
    let Ok(topology) = Topology::build(config) else {
        return Vec::new();
    };
    let mut routes = Vec::new();
    for (flow, ends) in config.flow.iter().zip(&topology.flows) {
        let pairs = ends
            .sender
            .iter()
            .flat_map(|from| ends.receiver.iter().map(move |to| (from, to)));
        for ((from, to), route) in pairs.zip(&ends.forward) {
            let route = &topology.routes[*route as usize];
            let hops = &topology.hops[route.start as usize..route.end as usize];
            let Some(nodes) = nodes(config, hops) else { continue };
            let links: Vec<u32> = hops.iter().map(|hop| hop.link()).collect();
            routes.push(json!({
                "flow": flow.name,
                "from": interface_name(config, *from),
                "to": interface_name(config, *to),
                "nodes": nodes,
                "links": links,
            }));
        }
    }
    routes
}

/// The nodes along directions of links; none if a hop is no link.
fn nodes(config: &SimConfig, hops: &[DirectionId]) -> Option<Vec<usize>> {
    let place = |name: &String| config.node.iter().position(|node| node.name == *name);
    let mut nodes = Vec::with_capacity(hops.len() + 1);
    for &hop in hops.iter().filter(|hop| hop.radio().is_none()) {
        let ends = &config.link.get(hop.link() as usize)?.between;
        let (from, to) = if hop.is_forward() {
            (&ends[0], &ends[1])
        } else {
            (&ends[1], &ends[0])
        };
        if nodes.is_empty() {
            nodes.push(place(from)?);
        }
        nodes.push(place(to)?);
    }
    (nodes.len() == hops.len() + 1).then_some(nodes)
}

/// The names of radios with the places of their nodes, for frames.
pub(crate) fn radio_nodes(config: &SimConfig) -> Vec<(String, usize)> {
    let place = |radio: &RadioConfig| config.node.iter().position(|node| node.name == radio.node);
    config
        .radio
        .iter()
        .filter_map(|radio| Some((radio.display_name(), place(radio)?)))
        .collect()
}
