//! Next hops that never change.

use std::collections::VecDeque;

use whimbrel_control::Time;

use super::{Action, Address, Cause, Context, Counters, Handle, Message, Protocol};

/// Static routing: a table of next hops.
#[derive(Clone, Debug)]
pub struct Static {
    address: Address,
    /// By destination; none where no route leads.
    next_hops: Vec<Option<Address>>,
    /// The last node before each destination.
    last_hops: Vec<Option<Address>>,
    counters: Counters,
}

impl Static {
    /// A node with these next hops and last hops, by destination.
    pub fn new(address: Address, next_hops: Vec<Option<Address>>, last_hops: Vec<Option<Address>>) -> Self {
        Static {
            address,
            next_hops,
            last_hops,
            counters: Counters::default(),
        }
    }

    fn route(&mut self, cx: &mut Context<'_>, packet: Handle) {
        let destination = cx.datagrams[packet as usize].destination;
        let next_hop = self.next_hops.get(usize::from(destination)).copied().flatten();
        match next_hop {
            Some(next_hop) => {
                self.counters.data_sent += 1;
                cx.actions.push(Action::Send { packet, next_hop });
            }
            None => cx.drop(packet, Cause::NoRoute),
        }
    }
}

impl Protocol for Static {
    fn start(&mut self, _cx: &mut Context<'_>) {}

    fn originate(&mut self, cx: &mut Context<'_>, packet: Handle) {
        self.route(cx, packet);
    }

    fn receive_data(&mut self, cx: &mut Context<'_>, _from: Address, packet: Handle) {
        if cx.arrived(self.address, packet) {
            self.route(cx, packet);
        }
    }

    fn receive_control(&mut self, _cx: &mut Context<'_>, _from: Address, _message: &Message) {}

    fn data_failed(&mut self, cx: &mut Context<'_>, _next_hop: Address, packet: Handle) {
        self.counters.link_failures += 1;
        cx.drop(packet, Cause::LinkBroken);
    }

    fn control_failed(&mut self, _cx: &mut Context<'_>, _next_hop: Address, _message: &Message) {}

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn handle_timeout(&mut self, _cx: &mut Context<'_>) {}

    fn next_hop(&self, _now: Time, destination: Address) -> Option<Address> {
        self.next_hops.get(usize::from(destination)).copied().flatten()
    }

    fn last_hop(&self, _now: Time, destination: Address) -> Option<Address> {
        self.last_hops.get(usize::from(destination)).copied().flatten()
    }

    fn buffered(&self) -> usize {
        0
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// The tables of all nodes of a network for the fewest hops: `neighbours[n]` are those that node `n` can send to. Among equals the
/// neighbour with the smaller number wins, so that all nodes agree.
pub fn shortest(neighbours: &[Vec<Address>]) -> Vec<Static> {
    let nodes = neighbours.len();
    let mut into: Vec<Vec<Address>> = vec![Vec::new(); nodes];
    for (from, list) in (0..).zip(neighbours) {
        for to in list {
            into[usize::from(*to)].push(from);
        }
    }
    let mut next_hops = vec![vec![None; nodes]; nodes];
    let mut last_hops = vec![vec![None; nodes]; nodes];
    let mut open = VecDeque::new();
    let mut hops = vec![u32::MAX; nodes];
    let mut order = Vec::with_capacity(nodes);
    for destination in 0..nodes {
        // Outwards from the destination, so that each node knows how far it is before those behind it are seen.
        hops.fill(u32::MAX);
        hops[destination] = 0;
        order.clear();
        open.push_back(destination);
        while let Some(node) = open.pop_front() {
            order.push(node);
            for from in &into[node] {
                let from = usize::from(*from);
                if hops[from] == u32::MAX {
                    hops[from] = hops[node] + 1;
                    open.push_back(from);
                }
            }
        }
        for node in order.iter().skip(1) {
            let next = neighbours[*node]
                .iter()
                .copied()
                .filter(|next| hops[usize::from(*next)] < hops[*node])
                .min();
            next_hops[*node][destination] = next;
            last_hops[*node][destination] = match next {
                Some(next) if usize::from(next) == destination => Some(*node as Address),
                Some(next) => last_hops[usize::from(next)][destination],
                None => None,
            };
        }
    }
    (0..)
        .zip(next_hops.into_iter().zip(last_hops))
        .map(|(address, (next, last))| Static::new(address, next, last))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_hops_are_on_shortest_ways_and_last_hops_at_their_ends() {
        // 0 - 1 - 2 - 4 and 0 - 3 - 4: over 3. Nobody reaches 5.
        let neighbours = [vec![1, 3], vec![0, 2], vec![1, 4], vec![0, 4], vec![2, 3], vec![]];
        let nodes = shortest(&neighbours);
        let next = |from: usize, to| nodes[from].next_hop(Time::ZERO, to);
        assert_eq!(
            [next(0, 4), next(1, 4), next(1, 3), next(0, 5), next(5, 0)],
            [Some(3), Some(2), Some(0), None, None]
        );
        let last = |from: usize, to| nodes[from].last_hop(Time::ZERO, to);
        assert_eq!(
            [last(0, 4), last(3, 4), last(0, 2), last(4, 1)],
            [Some(3), Some(3), Some(1), Some(2)]
        );
    }

    #[test]
    fn links_may_work_in_one_direction() {
        // 0 -> 1 -> 2 -> 0
        let nodes = shortest(&[vec![1], vec![2], vec![0]]);
        assert_eq!(nodes[1].next_hop(Time::ZERO, 0), Some(2));
        assert_eq!(nodes[1].last_hop(Time::ZERO, 0), Some(2));
    }
}
