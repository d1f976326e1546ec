//! Links that a flow names or could use but that are on none of its paths.

use super::{DirectionId, RouteId, Topology, interface_name, shortest};
use crate::config::{FlowConfig, FlowEnd, FlowKind, SimConfig};

/// A link or radio at one end of a flow that is on none of its paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedLink {
    /// Index of the flow in the scenario.
    pub flow: usize,
    /// The end of the flow at the link.
    pub end: FlowEnd,
    /// The link's name.
    pub link: String,
    /// The links at the other end that the flow uses.
    pub others: Vec<String>,
    /// Whether `path_per_local_address` would make it a path.
    pub by_local_address: bool,
}

impl Topology {
    /// Returns the initial links of each SCTP flow that are on none of its paths: the links that the flow names, or, if it names
    /// none, those from which the other end is reachable.
    pub fn unused_links(&self, config: &SimConfig) -> Vec<UnusedLink> {
        let mut found = Vec::new();
        let flows = config.flow.iter().zip(&self.flows).enumerate();
        for (place, (flow, routes)) in flows.filter(|(_, (flow, _))| flow.kind == FlowKind::Sctp) {
            let at_start = |interfaces: &[DirectionId], end: FlowEnd| -> Vec<DirectionId> {
                let name = |interface: &DirectionId| interface_name(config, *interface);
                let mut all = interfaces.to_vec();
                all.retain(|interface| !flow.comes_later(end, &name(interface)));
                all
            };
            let sender = at_start(&routes.sender, FlowEnd::Sender);
            let receiver = at_start(&routes.receiver, FlowEnd::Receiver);
            let extra = flow.sender_association().path_per_local_address;
            let route = |(s, r): (usize, usize)| routes.forward[s * routes.receiver.len() + r];
            let used: Vec<RouteId> = pairs(sender.len(), receiver.len(), extra).map(route).collect();
            let passes = |interface: DirectionId, first: bool| {
                used.iter().any(|&route| {
                    let hops = self.hops_of(route);
                    let at_end = match first {
                        true => hops.first().map(|hop| self.leaves_by(*hop)),
                        false => hops.last().map(|hop| self.arrives_at(*hop)),
                    };
                    at_end == Some(interface.passed())
                })
            };
            for (end, ours, theirs) in [
                (FlowEnd::Sender, &sender, &receiver),
                (FlowEnd::Receiver, &receiver, &sender),
            ] {
                let first = end == FlowEnd::Sender;
                let names = |interfaces: &[DirectionId]| -> Vec<String> {
                    let mut names: Vec<_> = interfaces.iter().map(|i| interface_name(config, *i)).collect();
                    names.dedup();
                    names
                };
                for &interface in ours.iter().filter(|interface| !passes(**interface, first)) {
                    let reaches = |other: &DirectionId| {
                        let (from, to) = if first {
                            (interface, *other)
                        } else {
                            (*other, interface)
                        };
                        shortest::exact(self, from, to, &|_| 0).is_some()
                    };
                    let reachable = theirs.iter().any(reaches);
                    if reachable || is_named(flow, end, &interface_name(config, interface)) {
                        found.push(UnusedLink {
                            flow: place,
                            end,
                            link: interface_name(config, interface),
                            others: names(theirs),
                            by_local_address: first && reachable && !extra,
                        });
                    }
                }
            }
        }
        found
    }
}

/// Returns the pairs of interfaces that make paths, as an association pairs its addresses.
fn pairs(sender: usize, receiver: usize, extra: bool) -> impl Iterator<Item = (usize, usize)> {
    let standard = (0..receiver).map(move |r| (r % sender.max(1), r));
    let more = (receiver..sender).filter(move |_| extra && receiver > 0);
    standard.chain(more.map(move |s| (s, (s - receiver) % receiver.max(1))))
}

fn is_named(flow: &FlowConfig, end: FlowEnd, link: &str) -> bool {
    let names = match end {
        FlowEnd::Sender => &flow.from_links,
        FlowEnd::Receiver => &flow.to_links,
    };
    names.iter().any(|name| name == link)
}

#[cfg(test)]
mod tests {
    use whimbrel_control::{Rate, Span};

    use super::*;
    use crate::config::{LinkConfig, NodeConfig};

    /// Returns a phone with two links to the internet, and a server with one.
    fn phone_and_server() -> SimConfig {
        let mut config = SimConfig::empty(Span::from_secs(10));
        config.node = ["phone", "internet", "server"].map(NodeConfig::new).into();
        let link = |name: &str, a: &str, b: &str| LinkConfig {
            name: Some(name.to_owned()),
            ..LinkConfig::new(a, b, Rate::from_mbps(10), Span::from_millis(10))
        };
        config.link = vec![
            link("wifi", "phone", "internet"),
            link("lte", "phone", "internet"),
            link("core", "internet", "server"),
        ];
        config.flow = vec![FlowConfig::new("upload", FlowKind::Sctp, "phone", "server")];
        config
    }

    fn unused(config: &SimConfig) -> Vec<(usize, FlowEnd, String, bool)> {
        let topology = Topology::build(config).expect("a network");
        let found = topology.unused_links(config).into_iter();
        found
            .map(|unused| (unused.flow, unused.end, unused.link, unused.by_local_address))
            .collect()
    }

    #[test]
    fn reports_the_second_link_to_a_server_with_one_address() {
        let mut config = phone_and_server();
        let lte = (0, FlowEnd::Sender, "lte".to_owned(), true);
        assert_eq!(unused(&config), std::slice::from_ref(&lte));
        config.flow[0].from_links = vec!["wifi".into(), "lte".into()];
        assert_eq!(unused(&config), [lte]);
        config.flow[0].sctp.get_or_insert_default().path_per_local_address = true;
        assert_eq!(unused(&config), []);
        config.flow[0].from_links = vec!["wifi".into()];
        assert_eq!(unused(&config), []);
    }

    #[test]
    fn reports_a_link_that_cannot_reach_the_other_end_only_if_it_is_named() {
        let mut config = phone_and_server();
        config.node.push(NodeConfig::new("printer"));
        config.link[1].between = ["phone".into(), "printer".into()];
        assert_eq!(unused(&config), []);
        config.flow[0].from_links = vec!["wifi".into(), "lte".into()];
        assert_eq!(unused(&config), [(0, FlowEnd::Sender, "lte".to_owned(), false)]);
    }
}
