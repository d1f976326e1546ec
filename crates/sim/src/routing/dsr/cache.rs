//! The route cache (RFC 4728 §4.1): whole routes that begin at this node.

use whimbrel_control::{Span, Time};

use crate::routing::{Address, SourceRoute};

/// Routes from this node, with the time they were last heard of or used.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    routes: Vec<(SourceRoute, Time)>,
    capacity: usize,
    timeout: Span,
}

impl Cache {
    pub(super) fn new(capacity: u32, timeout: Span) -> Self {
        Cache {
            routes: Vec::new(),
            capacity: capacity as usize,
            timeout,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    /// Adds a route. One that begins as another does is part of it.
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

    /// Place and hops of the shortest route to a destination; among equals the one heard of last.
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

    /// The shortest route to a destination.
    pub(super) fn find(&self, now: Time, destination: Address) -> Option<SourceRoute> {
        let (place, hops) = self.best(now, destination)?;
        SourceRoute::new(&self.routes[place].0.nodes()[..=hops])
    }

    /// The shortest route to a destination, which is used now.
    pub(super) fn take(&mut self, now: Time, destination: Address) -> Option<SourceRoute> {
        let (place, hops) = self.best(now, destination)?;
        self.routes[place].1 = now;
        SourceRoute::new(&self.routes[place].0.nodes()[..=hops])
    }

    /// Cuts off what lies behind a link, in either direction: the link layer needs both.
    pub(super) fn remove_link(&mut self, a: Address, b: Address) {
        for (route, _) in &mut self.routes {
            let broken = route
                .nodes()
                .windows(2)
                .position(|pair| pair == [a, b] || pair == [b, a]);
            if let Some(place) = broken {
                // A route of one node leads nowhere.
                *route = SourceRoute::new(&route.nodes()[..=place]).unwrap_or_default();
            }
        }
        self.routes.retain(|(route, _)| route.hops() > 0);
    }

    /// Forgets what has not been heard of for too long.
    pub(super) fn expire(&mut self, now: Time) {
        let timeout = self.timeout;
        self.routes.retain(|(_, heard)| *heard + timeout > now);
    }

    /// Routes to a destination that share no node on the way, shortest first.
    pub(super) fn disjoint(&self, destination: Address) -> Vec<SourceRoute> {
        let cut = |(route, heard): &(SourceRoute, Time)| {
            let hops = route.position(destination).filter(|hops| *hops > 0)?;
            Some((SourceRoute::new(&route.nodes()[..=hops])?, *heard))
        };
        let mut all: Vec<_> = self.routes.iter().filter_map(cut).collect();
        all.sort_by_key(|(route, heard)| (route.hops(), std::cmp::Reverse(*heard)));
        let mut chosen: Vec<SourceRoute> = Vec::new();
        for (route, _) in all {
            let between = &route.nodes()[1..route.hops()];
            let apart = |other: &SourceRoute| {
                let other = &other.nodes()[1..other.hops()];
                // Two routes of one hop are the same.
                !(between.is_empty() && other.is_empty()) && between.iter().all(|node| !other.contains(node))
            };
            if chosen.iter().all(apart) {
                chosen.push(route);
            }
        }
        chosen
    }
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
    fn the_shortest_route_is_found_within_longer_ones() {
        let cache = cache(&[&[0, 1, 2, 3], &[0, 4, 3, 5]]);
        assert_eq!(found(&cache, 3), [0, 4, 3]);
        assert_eq!(found(&cache, 2), [0, 1, 2]);
        assert!(found(&cache, 9).is_empty() && found(&cache, 0).is_empty());
    }

    #[test]
    fn beginnings_are_not_kept_twice() {
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
    fn the_route_unused_for_longest_makes_room() {
        let mut cache = Cache::new(2, Span::from_nanos(300));
        cache.add(Time::from_nanos(0), route(&[0, 1]));
        cache.add(Time::from_nanos(1), route(&[0, 2]));
        cache.take(Time::from_nanos(2), 1);
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
    fn disjoint_routes_share_no_node() {
        let cache = cache(&[&[0, 1, 2, 9], &[0, 3, 9], &[0, 3, 4, 9], &[0, 5, 6, 9], &[0, 2, 7, 9]]);
        let routes: Vec<_> = cache.disjoint(9).iter().map(|route| route.nodes().to_vec()).collect();
        // Among those of three hops the one heard of last comes first.
        assert_eq!(routes, [vec![0, 3, 9], vec![0, 2, 7, 9], vec![0, 5, 6, 9]]);
    }
}
