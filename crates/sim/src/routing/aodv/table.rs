//! The routing table (RFC 3561 §2 and §6.2).

use whimbrel_control::{Span, Time};

use crate::routing::Address;
use crate::routing::seen::{newer, newest};

/// State of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The route may be used.
    Valid,
    /// The route may not be used. Its sequence number and hops are kept until it is deleted.
    Invalid,
    /// Its link broke and a local repair is in progress (§6.12).
    Repairing,
}

/// An entry of the table.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) destination: Address,
    pub(super) next_hop: Address,
    /// Hops to the destination; for an invalid route the last known number.
    pub(super) hops: u8,
    pub(super) state: State,
    /// The destination's sequence number, if known.
    pub(super) seq: Option<u32>,
    /// When the route becomes invalid, or is deleted if it is invalid.
    pub(super) expires: Time,
    /// Time until which the route counts as active because of data packets.
    pub(super) used_until: Time,
    /// Time until which a packet for the destination starts a local repair (§6.12).
    pub(super) repairable_until: Time,
    /// Neighbours that use the route, in order.
    pub(super) precursors: Vec<Address>,
    /// The last node before the destination, if known.
    pub(super) last_hop: Option<Address>,
}

impl Route {
    #[inline]
    pub(super) fn is_valid(&self, now: Time) -> bool {
        self.state == State::Valid && self.expires > now
    }

    /// Invalidates the route. Increments its sequence number (§6.11; for expiry §6.1), or sets it to `reported` if that is newer.
    ///
    /// The RFC copies the number from the route error. If that number were older than the one of a neighbour that sends its packets
    /// here, this node could accept that neighbour's route as newer, which would create a loop. Therefore the number never
    /// decreases.
    pub(super) fn invalidate(&mut self, now: Time, delete_period: Span, reported: Option<u32>) {
        self.state = State::Invalid;
        self.expires = now + delete_period;
        self.seq = match (self.seq, reported) {
            (Some(seq), Some(reported)) => Some(newest(seq.wrapping_add(1), reported)),
            (Some(seq), None) => Some(seq.wrapping_add(1)),
            (None, reported) => reported,
        };
    }

    pub(super) fn add_precursor(&mut self, neighbour: Address) {
        if let Err(place) = self.precursors.binary_search(&neighbour) {
            self.precursors.insert(place, neighbour);
        }
    }

    /// Marks the route as used by a data packet: extends its lifetime to at least `until` (§6.2).
    #[inline]
    pub(super) fn put_to_use(&mut self, until: Time) {
        self.used_until = until;
        self.extend(until);
    }

    /// Extends the lifetime to at least `until`.
    #[inline]
    pub(super) fn extend(&mut self, until: Time) {
        self.expires = self.expires.max(until);
    }
}

/// A received description of a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouteInfo {
    pub(super) destination: Address,
    pub(super) next_hop: Address,
    pub(super) hops: u8,
    pub(super) seq: u32,
    pub(super) until: Time,
    pub(super) last_hop: Option<Address>,
}

/// Routes ordered by destination.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// The destination of each route: kept contiguous, because it is searched for each message.
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

    /// Returns the route at an index, invalidated if it has expired.
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

    /// Returns the stored route, which may have expired.
    #[inline]
    pub(super) fn get(&self, destination: Address) -> Option<&Route> {
        self.place(destination).ok().map(|place| &self.routes[place])
    }

    /// Returns the route if it is valid.
    #[inline]
    pub(super) fn valid(&mut self, now: Time, destination: Address) -> Option<&mut Route> {
        self.current(now, destination)
            .filter(|route| route.state == State::Valid)
    }

    /// Returns the route, invalidated if it has expired.
    #[inline]
    pub(super) fn current(&mut self, now: Time, destination: Address) -> Option<&mut Route> {
        let place = self.place(destination).ok()?;
        Some(self.refresh(now, place))
    }

    /// Invalidates expired routes, and deletes routes that have been invalid for long enough.
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

    /// Updates the table if the received route is better than the known one (§6.2): a newer sequence number; the same number and
    /// fewer hops; the same number while the known route is invalid; or any number if none is known. Returns whether the table
    /// changed.
    pub(super) fn learn(&mut self, now: Time, info: RouteInfo) -> bool {
        let place = match self.place(info.destination) {
            Ok(place) => place,
            Err(place) => {
                self.insert(place, info.route());
                return true;
            }
        };
        let route = self.refresh(now, place);
        let is_better = match route.seq {
            None => true,
            Some(seq) if newer(info.seq, seq) => true,
            Some(seq) => seq == info.seq && (route.state != State::Valid || info.hops < route.hops),
        };
        if is_better {
            let (precursors, until, used_until) =
                (core::mem::take(&mut route.precursors), route.expires, route.used_until);
            let stays = route.state == State::Valid && route.next_hop == info.next_hop;
            *route = info.route();
            route.precursors = precursors;
            route.used_until = used_until;
            if stays {
                route.extend(until);
            }
        } else if route.state == State::Valid && route.next_hop == info.next_hop && route.seq == Some(info.seq) {
            route.extend(info.until);
        }
        is_better
    }

    /// Records a route of one hop to a neighbour that was heard (§6.2, §6.5). Keeps a known sequence number: a route whose next hop
    /// is its destination cannot loop.
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

impl RouteInfo {
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

    fn info(hops: u8, seq: u32, next_hop: Address) -> RouteInfo {
        RouteInfo {
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
        assert!(table.learn(now, info(4, 10, 1)), "nothing was known");
        assert!(!table.learn(now, info(4, 10, 2)), "as many hops");
        assert!(table.learn(now, info(3, 10, 2)), "fewer hops");
        assert!(!table.learn(now, info(1, 9, 3)), "older");
        assert!(table.learn(now, info(7, 11, 3)), "newer, though longer");
        let route = table.valid(now, 9).expect("it is valid");
        route.invalidate(now, Span::from_nanos(500), None);
        assert!(!table.learn(now, info(1, 11, 4)), "valid before the link broke");
        assert!(table.learn(now, info(9, 12, 4)), "as new as the route error");
    }

    #[test]
    fn an_expired_route_is_kept_invalid_and_deleted_later() {
        let mut table = Table::new(Span::from_nanos(500));
        table.learn(Time::ZERO, info(2, 6, 1));
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
    fn a_route_error_never_decreases_the_sequence_number() {
        let mut table = Table::new(Span::from_nanos(500));
        table.learn(Time::ZERO, info(2, 6, 1));
        let route = table.valid(Time::ZERO, 9).expect("it is valid");
        route.invalidate(Time::ZERO, Span::from_nanos(500), Some(3));
        assert_eq!(route.seq, Some(7));
        route.invalidate(Time::ZERO, Span::from_nanos(500), Some(30));
        assert_eq!(route.seq, Some(30));
    }
}
