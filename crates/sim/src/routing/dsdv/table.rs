//! Routes of DSDV: those in use and those advertised.

use whimbrel_control::{Span, Time};

use crate::config::DsdvConfig;
use crate::routing::{Address, DsdvEntry};

/// A route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) destination: Address,
    pub(super) next_hop: Address,
    pub(super) metric: u8,
    pub(super) seq: u32,
    /// When the first route of this number arrived.
    pub(super) first_at: Time,
    /// When the best route of this number so far arrived.
    pub(super) best_at: Time,
    /// Average time between the two.
    pub(super) settling: Span,
    /// When the route may be advertised.
    pub(super) settled_at: Time,
    /// Whether the change triggers a dump.
    pub(super) triggers: bool,
    /// The best route of the previous number, if there was one.
    pub(super) before: Option<DsdvEntry>,
    /// The last advertised entry.
    pub(super) advertised: Option<DsdvEntry>,
    /// The metric in the last full dump.
    pub(super) dumped: Option<u8>,
}

impl Route {
    /// Creates the route to a new destination.
    pub(super) fn new(destination: Address, settling: Span, now: Time) -> Self {
        Route {
            destination,
            next_hop: destination,
            metric: DsdvEntry::INFINITY,
            seq: 0,
            first_at: now,
            best_at: now,
            settling,
            settled_at: now,
            triggers: false,
            before: None,
            advertised: None,
            dumped: None,
        }
    }

    #[inline]
    pub(super) fn is_finite(&self) -> bool {
        self.metric < DsdvEntry::INFINITY
    }

    /// Returns the route as an advertised entry.
    pub(super) fn entry(&self) -> DsdvEntry {
        DsdvEntry {
            destination: self.destination,
            metric: self.metric,
            seq: self.seq,
        }
    }

    /// Returns whether an incremental dump includes the route now. It includes all changes since the last full dump, not only those
    /// since the last incremental one, because broadcasts may be lost.
    pub(super) fn is_due(&self, now: Time, config: &DsdvConfig) -> bool {
        let is_news =
            config.advertise_new_numbers && self.advertised.is_none_or(|advertised| advertised.seq != self.seq);
        (self.triggers || is_news || self.dumped != Some(self.metric)) && self.settled_at <= now
    }

    /// Returns the entry to advertise now: the route if it has settled, otherwise the best one of the previous number, if there was
    /// one. (Otherwise, a settling time longer than the time between two numbers would prevent all advertisements.)
    pub(super) fn advertise(&mut self, now: Time, full: bool, config: &DsdvConfig) -> Option<DsdvEntry> {
        if self.settled_at <= now {
            self.triggers = false;
            self.advertised = Some(self.entry());
        } else if !config.advertise_previous {
            return None;
        } else if self.before.is_some() {
            self.advertised = self.before;
        }
        if full {
            self.dumped = self.advertised.map(|advertised| advertised.metric);
        }
        self.advertised
    }
}

/// Routes ordered by destination.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Vec<Route>);

impl Table {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Route> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Route> {
        self.0.iter_mut()
    }

    #[inline]
    pub(super) fn get(&self, destination: Address) -> Option<&Route> {
        let place = self
            .0
            .binary_search_by_key(&destination, |route| route.destination)
            .ok()?;
        Some(&self.0[place])
    }

    /// Returns the route to a destination, created if there is none.
    pub(super) fn entry(&mut self, destination: Address, make: impl FnOnce() -> Route) -> &mut Route {
        let place = match self.0.binary_search_by_key(&destination, |route| route.destination) {
            Ok(place) => place,
            Err(place) => {
                self.0.insert(place, make());
                place
            }
        };
        &mut self.0[place]
    }
}
