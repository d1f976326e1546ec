//! The route cache (RFC 4728 §4.1): whole routes that start at this node, and the node-disjoint routes that packets use.

use whimbrel_control::{Span, Time};

use crate::routing::{Address, SourceRoute};

/// Routes from this node, with the time of their last reception or use.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    routes: Vec<(SourceRoute, Time)>,
    /// Node-disjoint routes per destination, by the rank of the packets that use them; an empty route where there is none.
    ways: Vec<(Address, Vec<SourceRoute>)>,
    capacity: usize,
    timeout: Span,
}

impl Cache {
    pub(super) fn new(capacity: u32, timeout: Span) -> Self {
        Cache {
            routes: Vec::new(),
            ways: Vec::new(),
            capacity: capacity as usize,
            timeout,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    /// Adds a route. A route that is the beginning of another one is part of it.
    pub(super) fn add(&mut self, now: Time, route: SourceRoute) {
        if route.hops() == 0 || !route.is_simple() {
            return;
        }
        let nodes = route.nodes();
        for (known, heard) in &mut self.routes {
            if known.nodes().starts_with(nodes) {
                *heard = now;
                return;
            }
            if nodes.starts_with(known.nodes()) {
                (*known, *heard) = (route, now);
                return;
            }
        }
        if self.routes.len() >= self.capacity {
            let oldest = (0..self.routes.len()).min_by_key(|place| self.routes[*place].1);
            if let Some(oldest) = oldest {
                self.routes.remove(oldest);
            }
        }
        self.routes.push((route, now));
    }

    /// Returns index and hops of the shortest route to a destination; among equal ones the most recently received.
    fn best(&self, now: Time, destination: Address) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize)> = None;
        for (place, (route, heard)) in self.routes.iter().enumerate() {
            if *heard + self.timeout <= now {
                continue;
            }
            let Some(hops) = route.position(destination) else {
                continue;
            };
            let better =
                best.is_none_or(|(other, least)| hops < least || (hops == least && self.routes[other].1 < *heard));
            if better && hops > 0 {
                best = Some((place, hops));
            }
        }
        best
    }

    /// Returns the shortest route to a destination.
    pub(super) fn find(&self, now: Time, destination: Address) -> Option<SourceRoute> {
        let (place, hops) = self.best(now, destination)?;
        SourceRoute::new(&self.routes[place].0.nodes()[..=hops])
    }

    /// Returns the route for packets of this rank to a destination, and marks it as used. Without node-disjoint routes that is the
    /// shortest one.
    pub(super) fn take(&mut self, now: Time, destination: Address, rank: u8) -> Option<SourceRoute> {
        let rank = usize::from(rank);
        let known = self.ways.iter().position(|(to, _)| *to == destination);
        if known.is_none() && rank == 0 {
            let (place, hops) = self.best(now, destination)?;
            self.routes[place].1 = now;
            return SourceRoute::new(&self.routes[place].0.nodes()[..=hops]);
        }
        let known = match known {
            Some(known) => known,
            None => {
                // Until now all packets used the shortest route.
                self.ways
                    .push((destination, Vec::from_iter(self.find(now, destination))));
                self.ways.len() - 1
            }
        };
        let way = self.apart(now, destination, &self.ways[known].1, rank);
        let ways = &mut self.ways[known].1;
        ways.resize(ways.len().max(rank + 1), SourceRoute::default());
        ways[rank] = way.unwrap_or_default();
        let route = way.or_else(|| self.find(now, destination))?;
        if let Some((_, used)) = self.holds(now, &route).and_then(|place| self.routes.get_mut(place)) {
            *used = now;
        }
        Some(route)
    }

    /// Returns the route that packets of this rank to a destination take now.
    pub(super) fn way(&self, now: Time, destination: Address, rank: u8) -> Option<SourceRoute> {
        let ways = self.ways.iter().find(|(to, _)| *to == destination);
        let way = ways.and_then(|(_, ways)| self.apart(now, destination, ways, usize::from(rank)));
        way.or_else(|| self.find(now, destination))
    }

    /// Returns the index of a route that begins with this one.
    fn holds(&self, now: Time, way: &SourceRoute) -> Option<usize> {
        let known = |(route, heard): &(SourceRoute, Time)| {
            *heard + self.timeout > now && !way.is_empty() && route.nodes().starts_with(way.nodes())
        };
        self.routes.iter().position(known)
    }

    /// Returns the route of this rank: the shortest route that shares no node with those of the other ranks. It is kept until a
    /// shorter one is known, so that packets do not alternate between routes of the same length.
    fn apart(&self, now: Time, destination: Address, ways: &[SourceRoute], rank: usize) -> Option<SourceRoute> {
        let is_free = |route: &SourceRoute| {
            let mut others = (0..).zip(ways).filter(|(other, _)| *other != rank);
            others.all(|(_, way)| are_apart(route, way) || self.holds(now, way).is_none())
        };
        let kept = ways
            .get(rank)
            .filter(|way| self.holds(now, way).is_some() && is_free(way));
        let mut best = kept.copied();
        let mut best_heard = Time::MAX;
        for (route, heard) in self.routes.iter().filter(|(_, heard)| *heard + self.timeout > now) {
            let Some(hops) = route.position(destination).filter(|hops| *hops > 0) else {
                continue;
            };
            let better = best.is_none_or(|best| (hops, best_heard) < (best.hops(), *heard));
            let cut = SourceRoute::new(&route.nodes()[..=hops]);
            if let Some(cut) = cut.filter(|cut| better && is_free(cut)) {
                (best, best_heard) = (Some(cut), *heard);
            }
        }
        best
    }

    /// Removes what lies behind a link, in either direction: the link layer needs both.
    pub(super) fn remove_link(&mut self, a: Address, b: Address) {
        for (route, _) in &mut self.routes {
            let broken = route
                .nodes()
                .windows(2)
                .position(|pair| pair == [a, b] || pair == [b, a]);
            if let Some(place) = broken {
                // A route of one node has no destination.
                *route = SourceRoute::new(&route.nodes()[..=place]).unwrap_or_default();
            }
        }
        self.routes.retain(|(route, _)| route.hops() > 0);
    }

    /// Removes routes that have not been received or used for too long.
    pub(super) fn expire(&mut self, now: Time) {
        let timeout = self.timeout;
        self.routes.retain(|(_, heard)| *heard + timeout > now);
        let mut ways = core::mem::take(&mut self.ways);
        ways.retain(|(to, _)| self.find(now, *to).is_some());
        self.ways = ways;
    }
}

/// Returns whether two routes to the same destination share no intermediate node.
fn are_apart(one: &SourceRoute, other: &SourceRoute) -> bool {
    fn between(route: &SourceRoute) -> &[Address] {
        route.nodes().get(1..route.hops()).unwrap_or_default()
    }
    let (one, other) = (between(one), between(other));
    // Two routes of one hop are the same.
    !(one.is_empty() && other.is_empty()) && one.iter().all(|node| !other.contains(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(nodes: &[Address]) -> SourceRoute {
        SourceRoute::new(nodes).expect("it is short")
    }

    fn cache(routes: &[&[Address]]) -> Cache {
        let mut cache = Cache::new(64, Span::from_secs(300));
        for (at, nodes) in (0..).zip(routes) {
            cache.add(Time::from_nanos(at), route(nodes));
        }
        cache
    }

    fn found(cache: &Cache, destination: Address) -> Vec<Address> {
        cache
            .find(Time::from_nanos(100), destination)
            .map_or(Vec::new(), |route| route.nodes().to_vec())
    }

    #[test]
    fn finds_the_shortest_route_within_longer_ones() {
        let cache = cache(&[&[0, 1, 2, 3], &[0, 4, 3, 5]]);
        assert_eq!(found(&cache, 3), [0, 4, 3]);
        assert_eq!(found(&cache, 2), [0, 1, 2]);
        assert!(found(&cache, 9).is_empty() && found(&cache, 0).is_empty());
    }

    #[test]
    fn prefixes_of_routes_are_not_stored_twice() {
        let mut cache = cache(&[&[0, 1], &[0, 1, 2], &[0, 1], &[0, 3, 3]]);
        assert_eq!(cache.len(), 1);
        cache.add(Time::ZERO, route(&[0, 3]));
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn a_broken_link_cuts_routes_in_both_directions() {
        let mut cache = cache(&[&[0, 1, 2, 3], &[0, 4, 2, 1, 5], &[0, 6]]);
        cache.remove_link(1, 2);
        assert_eq!(
            (found(&cache, 3), found(&cache, 2), found(&cache, 1)),
            (vec![], vec![0, 4, 2], vec![0, 1])
        );
        cache.remove_link(0, 6);
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn the_least_recently_used_route_is_replaced() {
        let mut cache = Cache::new(2, Span::from_nanos(300));
        cache.add(Time::from_nanos(0), route(&[0, 1]));
        cache.add(Time::from_nanos(1), route(&[0, 2]));
        cache.take(Time::from_nanos(2), 1, 0);
        cache.add(Time::from_nanos(3), route(&[0, 3]));
        assert_eq!(
            (found(&cache, 1), found(&cache, 2), found(&cache, 3)),
            (vec![0, 1], vec![], vec![0, 3])
        );
        cache.expire(Time::from_nanos(302));
        assert_eq!(cache.len(), 1);
        assert!(cache.find(Time::from_nanos(303), 3).is_none());
    }

    #[test]
    fn packets_of_other_ranks_use_node_disjoint_routes() {
        let mut cache = cache(&[&[0, 1, 2, 9], &[0, 3, 9], &[0, 3, 4, 9], &[0, 5, 6, 9], &[0, 2, 7, 9]]);
        let take = |cache: &mut Cache, at, rank| -> Vec<Address> {
            let at = Time::from_nanos(at);
            let way = cache.way(at, 9, rank);
            let taken = cache.take(at, 9, rank);
            // At first there were no disjoint routes.
            assert!(way == taken || at == Time::from_nanos(11));
            taken.map_or(Vec::new(), |route| route.nodes().to_vec())
        };
        assert_eq!(take(&mut cache, 10, 0), [0, 3, 9]);
        // Among those of three hops the most recently received comes first.
        assert_eq!(take(&mut cache, 11, 1), [0, 2, 7, 9]);
        assert_eq!(take(&mut cache, 12, 2), [0, 5, 6, 9]);
        // No disjoint route is left: the shortest.
        assert_eq!(take(&mut cache, 13, 3), [0, 3, 9]);
        // The routes do not change when others are received.
        cache.add(Time::from_nanos(20), route(&[0, 1, 2, 9]));
        assert_eq!(take(&mut cache, 21, 0), [0, 3, 9]);
        assert_eq!(take(&mut cache, 22, 1), [0, 2, 7, 9]);
        // Unless a shorter route is received, or one of them breaks.
        cache.add(Time::from_nanos(30), route(&[0, 8, 9]));
        assert_eq!(take(&mut cache, 31, 1), [0, 8, 9]);
        assert_eq!(take(&mut cache, 32, 0), [0, 3, 9]);
        cache.remove_link(0, 3);
        assert_eq!(take(&mut cache, 33, 0), [0, 2, 7, 9]);
        assert_eq!(take(&mut cache, 34, 1), [0, 8, 9]);
        // With a single route left both ranks use it.
        cache.remove_link(9, 8);
        cache.remove_link(0, 1);
        cache.remove_link(0, 2);
        assert_eq!(
            (take(&mut cache, 35, 0), take(&mut cache, 36, 1)),
            (vec![0, 5, 6, 9], vec![0, 5, 6, 9])
        );
        cache.expire(Time::from_nanos(400_000_000_000));
        assert!(cache.ways.is_empty() && take(&mut cache, 401, 1).is_empty());
    }

    #[test]
    fn a_broken_route_does_not_block_others() {
        let mut cache = cache(&[&[0, 2, 9], &[0, 1, 9]]);
        let take = |cache: &mut Cache, at, rank| cache.take(Time::from_nanos(at), 9, rank);
        assert_eq!(take(&mut cache, 10, 0), Some(route(&[0, 1, 9])));
        assert_eq!(take(&mut cache, 11, 1), Some(route(&[0, 2, 9])));
        cache.remove_link(1, 9);
        cache.remove_link(0, 2);
        cache.add(Time::from_nanos(20), route(&[0, 1, 3, 9]));
        cache.add(Time::from_nanos(20), route(&[0, 4, 5, 6, 9]));
        assert_eq!(take(&mut cache, 21, 1), Some(route(&[0, 1, 3, 9])));
    }

    #[test]
    fn a_route_of_one_hop_is_disjoint_from_every_other() {
        assert!(
            are_apart(&route(&[0, 9]), &route(&[0, 1, 9])) && are_apart(&route(&[0, 1, 9]), &SourceRoute::default())
        );
        assert!(!are_apart(&route(&[0, 9]), &route(&[0, 9])) && !are_apart(&route(&[0, 1, 9]), &route(&[0, 2, 1, 9])));
    }
}
