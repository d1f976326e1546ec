//! The routing table (RFC 3561 §2 and §6.2).

use whimbrel_control::{Span, Time};

use crate::routing::Address;
use crate::routing::seen::{newer, newest};

/// What a route is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It may be used.
    Valid,
    /// It may not be used. Its sequence number and hops are remembered until it is deleted.
    Invalid,
    /// Its link broke and a new way is looked for from here (§6.12).
    Repairing,
}

/// An entry of the table.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) destination: Address,
    pub(super) next_hop: Address,
    /// Hops to the destination; if it is not valid, the last number known.
    pub(super) hops: u8,
    pub(super) state: State,
    /// The destination's sequence number, if one was ever heard.
    pub(super) seq: Option<u32>,
    /// When it ceases to be valid, or is deleted if it is not.
    pub(super) expires: Time,
    /// For how long data packets have put it to use.
    pub(super) used_until: Time,
    /// Until when a packet for it starts a repair (§6.12).
    pub(super) repairable_until: Time,
    /// Neighbours that use it, in order.
    pub(super) precursors: Vec<Address>,
    /// The last node before the destination, if known.
    pub(super) last_hop: Option<Address>,
}

impl Route {
    #[inline]
    pub(super) fn is_valid(&self, now: Time) -> bool {
        self.state == State::Valid && self.expires > now
    }

    /// It may not be used from now on. The sequence number goes up by one (§6.11; for expiry §6.1), or to `told` if that is newer.
    ///
    /// The RFC has the number in a route error copied. Were it older than what a neighbour uses that sends its packets here, then
    /// this node could take that neighbour's route for a newer one, which would be a loop; so the number only goes up.
    pub(super) fn invalidate(&mut self, now: Time, delete_period: Span, told: Option<u32>) {
        self.state = State::Invalid;
        self.expires = now + delete_period;
        self.seq = match (self.seq, told) {
            (Some(seq), Some(told)) => Some(newest(seq.wrapping_add(1), told)),
            (Some(seq), None) => Some(seq.wrapping_add(1)),
            (None, told) => told,
        };
    }

    pub(super) fn add_precursor(&mut self, neighbour: Address) {
        if let Err(place) = self.precursors.binary_search(&neighbour) {
            self.precursors.insert(place, neighbour);
        }
    }

    /// A data packet uses it: it is good until `until` at least (§6.2).
    #[inline]
    pub(super) fn put_to_use(&mut self, until: Time) {
        self.used_until = until;
        self.extend(until);
    }

    /// It is good until `until` at least.
    #[inline]
    pub(super) fn extend(&mut self, until: Time) {
        self.expires = self.expires.max(until);
    }
}

/// News of a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    pub(super) destination: Address,
    pub(super) next_hop: Address,
    pub(super) hops: u8,
    pub(super) seq: u32,
    pub(super) until: Time,
    pub(super) last_hop: Option<Address>,
}

/// Routes in the order of their destinations.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// The destination of each route: searched for each message, so kept close together.
    destinations: Vec<Address>,
    routes: Vec<Route>,
    delete_period: Span,
}

impl Table {
    pub(super) fn new(delete_period: Span) -> Self {
        Table {
            destinations: Vec::new(),
            routes: Vec::new(),
            delete_period,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Route> {
        self.routes.iter_mut()
    }

    #[inline]
    fn place(&self, destination: Address) -> Result<usize, usize> {
        self.destinations.binary_search(&destination)
    }

    fn insert(&mut self, place: usize, route: Route) {
        self.destinations.insert(place, route.destination);
        self.routes.insert(place, route);
    }

    /// The route at a place, made invalid if its time is over.
    #[inline]
    fn refresh(&mut self, now: Time, place: usize) -> &mut Route {
        let route = &mut self.routes[place];
        if route.state == State::Valid && route.expires <= now {
            let at = route.expires;
            route.invalidate(at, self.delete_period, None);
            route.precursors.clear();
        }
        route
    }

    /// The route as it was left; it may have expired.
    #[inline]
    pub(super) fn get(&self, destination: Address) -> Option<&Route> {
        self.place(destination).ok().map(|place| &self.routes[place])
    }

    /// The route if it may be used.
    #[inline]
    pub(super) fn valid(&mut self, now: Time, destination: Address) -> Option<&mut Route> {
        self.current(now, destination)
            .filter(|route| route.state == State::Valid)
    }

    /// The route, made invalid if its time is over.
    #[inline]
    pub(super) fn current(&mut self, now: Time, destination: Address) -> Option<&mut Route> {
        let place = self.place(destination).ok()?;
        Some(self.refresh(now, place))
    }

    /// Says of all routes what is over, and deletes those that have been invalid for long enough.
    pub(super) fn purge(&mut self, now: Time) {
        for place in 0..self.routes.len() {
            self.refresh(now, place);
        }
        self.routes
            .retain(|route| route.state != State::Invalid || route.expires > now);
        self.destinations.clear();
        self.destinations
            .extend(self.routes.iter().map(|route| route.destination));
    }

    /// Enters news if they are better than what is known (§6.2): a newer sequence number; the same one and fewer hops; the same one
    /// where the route is not valid; or any where none is known. Says whether they were.
    pub(super) fn learn(&mut self, now: Time, news: News) -> bool {
        let place = match self.place(news.destination) {
            Ok(place) => place,
            Err(place) => {
                self.insert(place, news.route());
                return true;
            }
        };
        let route = self.refresh(now, place);
        let is_better = match route.seq {
            None => true,
            Some(seq) if newer(news.seq, seq) => true,
            Some(seq) => seq == news.seq && (route.state != State::Valid || news.hops < route.hops),
        };
        if is_better {
            let (precursors, until, used_until) =
                (core::mem::take(&mut route.precursors), route.expires, route.used_until);
            let stays = route.state == State::Valid && route.next_hop == news.next_hop;
            *route = news.route();
            route.precursors = precursors;
            route.used_until = used_until;
            if stays {
                route.extend(until);
            }
        } else if route.state == State::Valid && route.next_hop == news.next_hop && route.seq == Some(news.seq) {
            route.extend(news.until);
        }
        is_better
    }

    /// A neighbour was heard: there is a route of one hop to it (§6.2, §6.5). What was known of its sequence number is kept; a route
    /// that ends at its destination with the next hop makes no loop.
    pub(super) fn neighbour(&mut self, now: Time, neighbour: Address, me: Address, until: Time, seq: Option<u32>) {
        let place = match self.place(neighbour) {
            Ok(place) => place,
            Err(place) => {
                let route = Route {
                    destination: neighbour,
                    next_hop: neighbour,
                    hops: 1,
                    state: State::Invalid,
                    seq: None,
                    expires: until,
                    used_until: Time::ZERO,
                    repairable_until: Time::ZERO,
                    precursors: Vec::new(),
                    last_hop: Some(me),
                };
                self.insert(place, route);
                place
            }
        };
        let route = self.refresh(now, place);
        if route.state == State::Valid && route.hops == 1 {
            route.extend(until);
        } else {
            route.state = State::Valid;
            route.next_hop = neighbour;
            route.hops = 1;
            route.expires = until;
            route.repairable_until = Time::ZERO;
            route.last_hop = Some(me);
        }
        route.seq = match (route.seq, seq) {
            (Some(old), Some(new)) => Some(newest(old, new)),
            (old, new) => old.or(new),
        };
    }
}

impl News {
    fn route(&self) -> Route {
        Route {
            destination: self.destination,
            next_hop: self.next_hop,
            hops: self.hops,
            state: State::Valid,
            seq: Some(self.seq),
            expires: self.until,
            used_until: Time::ZERO,
            repairable_until: Time::ZERO,
            precursors: Vec::new(),
            last_hop: self.last_hop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(hops: u8, seq: u32, next_hop: Address) -> News {
        News {
            destination: 9,
            next_hop,
            hops,
            seq,
            until: Time::from_nanos(1000),
            last_hop: None,
        }
    }

    #[test]
    fn news_are_taken_by_the_rules_of_section_6_2() {
        let mut table = Table::new(Span::from_nanos(500));
        let now = Time::ZERO;
        assert!(table.learn(now, news(4, 10, 1)), "nothing was known");
        assert!(!table.learn(now, news(4, 10, 2)), "as many hops");
        assert!(table.learn(now, news(3, 10, 2)), "fewer hops");
        assert!(!table.learn(now, news(1, 9, 3)), "older");
        assert!(table.learn(now, news(7, 11, 3)), "newer, though longer");
        let route = table.valid(now, 9).expect("it is valid");
        route.invalidate(now, Span::from_nanos(500), None);
        assert!(!table.learn(now, news(1, 11, 4)), "what was valid before it broke");
        assert!(table.learn(now, news(9, 12, 4)), "as new as the break");
    }

    #[test]
    fn a_route_expires_is_remembered_and_is_deleted() {
        let mut table = Table::new(Span::from_nanos(500));
        table.learn(Time::ZERO, news(2, 6, 1));
        assert!(table.valid(Time::from_nanos(999), 9).is_some());
        // §6.1: the sequence number may change when the path expires.
        let route = table.current(Time::from_nanos(1000), 9).expect("it is remembered");
        assert_eq!((route.state, route.seq, route.hops), (State::Invalid, Some(7), 2));
        table.purge(Time::from_nanos(1499));
        assert!(table.get(9).is_some());
        table.purge(Time::from_nanos(1500));
        assert!(table.get(9).is_none());
    }

    #[test]
    fn the_number_told_in_an_error_never_takes_one_back() {
        let mut table = Table::new(Span::from_nanos(500));
        table.learn(Time::ZERO, news(2, 6, 1));
        let route = table.valid(Time::ZERO, 9).expect("it is valid");
        route.invalidate(Time::ZERO, Span::from_nanos(500), Some(3));
        assert_eq!(route.seq, Some(7));
        route.invalidate(Time::ZERO, Span::from_nanos(500), Some(30));
        assert_eq!(route.seq, Some(30));
    }
}
