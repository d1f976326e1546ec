//! Shortest routes between two interfaces.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{DirectionId, NodeId, Topology};

/// Returns the shortest route that leaves interface `from` and arrives at interface `to`. If there is none, for example between two
/// links that meet only at the ends, returns one that only arrives at `to` (routing by destination), otherwise one that only leaves
/// `from`, otherwise any. Empty if the nodes are not connected. `penalty` is added to the cost of each link.
pub(super) fn between_interfaces(
    topology: &Topology,
    from: DirectionId,
    to: DirectionId,
    penalty: &dyn Fn(u32) -> u64,
) -> Vec<DirectionId> {
    // Two radios on a channel need no search.
    if let Some(hop) = topology.radio_hop(from, to) {
        return vec![hop];
    }
    [
        (Some(from), Some(to)),
        (None, Some(to)),
        (Some(from), None),
        (None, None),
    ]
    .into_iter()
    .find_map(|(first, last)| {
        search(
            topology,
            topology.node_of(from),
            topology.node_of(to),
            first,
            last,
            penalty,
        )
    })
    .unwrap_or_default()
}

/// Returns the shortest route that leaves `from` and arrives at `to`, if there is one.
pub(super) fn exact(
    topology: &Topology,
    from: DirectionId,
    to: DirectionId,
    penalty: &dyn Fn(u32) -> u64,
) -> Option<Vec<DirectionId>> {
    search(
        topology,
        topology.node_of(from),
        topology.node_of(to),
        Some(from),
        Some(to),
        penalty,
    )
}

/// Dijkstra's algorithm. Neither end is an intermediate node; among equal routes the earlier link in the scenario is chosen.
fn search(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
    first: Option<DirectionId>,
    last: Option<DirectionId>,
    penalty: &dyn Fn(u32) -> u64,
) -> Option<Vec<DirectionId>> {
    let (first, last) = (first.map(DirectionId::passed), last.map(DirectionId::passed));
    let mut best = vec![u64::MAX; topology.outgoing.len()];
    let mut came_by: Vec<Option<DirectionId>> = vec![None; topology.outgoing.len()];
    let mut open = BinaryHeap::new();
    best[source as usize] = 0;
    open.push((Reverse(0_u64), Reverse(source)));
    while let Some((Reverse(cost), Reverse(node))) = open.pop() {
        if node == target {
            break;
        }
        if cost > best[node as usize] {
            continue;
        }
        for direction in topology.hops_from(node) {
            let next = topology.target(direction);
            let barred = (node == source && first.is_some_and(|first| first != topology.leaves_by(direction)))
                || (next == target && last.is_some_and(|last| last != topology.arrives_at(direction)))
                || next == source;
            if barred {
                continue;
            }
            let hop_cost = if direction.is_radio_hop() {
                1
            } else {
                let link = direction.link();
                topology.cost[link as usize].saturating_add(penalty(link))
            };
            let total = cost.saturating_add(hop_cost);
            if total < best[next as usize] {
                best[next as usize] = total;
                came_by[next as usize] = Some(direction);
                open.push((Reverse(total), Reverse(next)));
            }
        }
    }
    let mut hops = Vec::new();
    let mut node = target;
    while node != source {
        let direction = came_by[node as usize]?;
        hops.push(direction);
        node = topology.node_of(topology.leaves_by(direction));
    }
    hops.reverse();
    Some(hops)
}
