//! Link-disjoint paths of a multi-homed flow: path `i` leaves the sender's interface `i` and arrives at the receiver's interface
//! `i`.

use super::{DirectionId, Topology, shortest};

/// Cost that makes a link of another path a last resort.
const SHARED: u64 = 1 << 40;

/// Returns a route for each pair of interfaces with the same index; the routes are link-disjoint if the network has such routes. A
/// pair without an exact route gets the best one that [`shortest::between_interfaces`] finds.
pub(super) fn paths(topology: &Topology, sender: &[DirectionId], receiver: &[DirectionId]) -> Vec<Vec<DirectionId>> {
    let pairs: Vec<_> = sender.iter().copied().zip(receiver.iter().copied()).collect();
    let one_by_one = greedy(topology, &pairs);
    // Radios on a shared medium cannot be separated by a choice of hops.
    let at_radio = |interface: &DirectionId| interface.radio_address().is_some();
    let over_radio = one_by_one.iter().flatten().any(|hop| hop.is_radio_hop())
        || pairs.iter().any(|(from, to)| at_radio(from) || at_radio(to));
    if pairs.len() < 2 || over_radio || shared_links(&one_by_one) == 0 {
        return one_by_one;
    }
    // A short first path can block all others; a minimum-cost flow finds disjoint paths if there are any.
    flow_of_least_cost(topology, &pairs).unwrap_or(one_by_one)
}

fn greedy(topology: &Topology, pairs: &[(DirectionId, DirectionId)]) -> Vec<Vec<DirectionId>> {
    let mut used = vec![0_u64; topology.cost.len()];
    let mut found = Vec::with_capacity(pairs.len());
    for &(from, to) in pairs {
        let hops = shortest::between_interfaces(topology, from, to, &|link| used[link as usize]);
        for direction in hops.iter().filter(|hop| !hop.is_radio_hop()) {
            used[direction.link() as usize] = SHARED;
        }
        found.push(hops);
    }
    found
}

fn shared_links(paths: &[Vec<DirectionId>]) -> usize {
    let mut links: Vec<_> = paths.iter().flatten().map(|direction| direction.link()).collect();
    let total = links.len();
    links.sort_unstable();
    links.dedup();
    total - links.len()
}

/// Computes successive shortest paths with unit capacities, then one path for each pair over the used links. Returns `None` if
/// there are fewer routes, or if they connect other pairs.
fn flow_of_least_cost(topology: &Topology, pairs: &[(DirectionId, DirectionId)]) -> Option<Vec<Vec<DirectionId>>> {
    let source = topology.origin[pairs[0].0.index()];
    let target = topology.origin[pairs[0].1.index()];
    // The direction in which each link carries flow.
    let mut carries: Vec<Option<DirectionId>> = vec![None; topology.cost.len()];
    for _ in pairs {
        for direction in augmenting_path(topology, pairs, source, target, &carries)? {
            let link = &mut carries[direction.link() as usize];
            *link = if *link == Some(direction.reverse()) {
                None
            } else {
                Some(direction)
            };
        }
    }
    let mut found = Vec::with_capacity(pairs.len());
    for &(from, to) in pairs {
        // Only links with flow in this direction, each once.
        let used = |link: u32| if carries[link as usize].is_some() { 0 } else { SHARED };
        let hops = shortest::exact(topology, from, to, &used)?;
        for direction in &hops {
            if carries[direction.link() as usize].take() != Some(*direction) {
                return None;
            }
        }
        found.push(hops);
    }
    Some(found)
}

/// Finds a path with Bellman-Ford on the residual network, in which a link with flow is traversed in reverse at negative cost.
fn augmenting_path(
    topology: &Topology,
    pairs: &[(DirectionId, DirectionId)],
    source: u32,
    target: u32,
    carries: &[Option<DirectionId>],
) -> Option<Vec<DirectionId>> {
    let mut best = vec![i64::MAX; topology.outgoing.len()];
    let mut came_by: Vec<Option<DirectionId>> = vec![None; topology.outgoing.len()];
    best[source as usize] = 0;
    for _ in 0..topology.outgoing.len() {
        let mut changed = false;
        for direction in DirectionId::all(topology.cost.len()) {
            let (node, next) = (topology.origin[direction.index()], topology.target(direction));
            let barred = carries[direction.link() as usize] == Some(direction)
                || best[node as usize] == i64::MAX
                || next == source
                || node == target
                || (node == source && !pairs.iter().any(|(from, _)| *from == direction))
                || (next == target && !pairs.iter().any(|(_, to)| *to == direction.reverse()));
            if barred {
                continue;
            }
            let cost = topology.cost[direction.link() as usize] as i64;
            let back = carries[direction.link() as usize].is_some();
            let total = best[node as usize] + if back { -cost } else { cost };
            if total < best[next as usize] {
                best[next as usize] = total;
                came_by[next as usize] = Some(direction);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let mut hops = Vec::new();
    let mut node = target;
    while node != source {
        let direction = came_by[node as usize]?;
        hops.push(direction);
        node = topology.origin[direction.index()];
        if hops.len() > topology.origin.len() {
            return None;
        }
    }
    Some(hops)
}
