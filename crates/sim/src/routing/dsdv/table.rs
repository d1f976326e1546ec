//! Routes of DSDV: what is used, and what was told.

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
    /// When the first route of this number was heard.
    pub(super) first_at: Time,
    /// When the best route of this number was heard, so far.
    pub(super) best_at: Time,
    /// Average time between the two.
    pub(super) settling: Span,
    /// When the route may be told.
    pub(super) settled_at: Time,
    /// Whether it is worth a dump of its own.
    pub(super) triggers: bool,
    /// The best route of the number before, if there was one.
    pub(super) before: Option<DsdvEntry>,
    /// What was told last.
    pub(super) told: Option<DsdvEntry>,
    /// The metric that the last full dump told.
    pub(super) dumped: Option<u8>,
}

impl Route {
    /// A destination never heard of before.
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
            told: None,
            dumped: None,
        }
    }

    #[inline]
    pub(super) fn is_finite(&self) -> bool {
        self.metric < DsdvEntry::INFINITY
    }

    /// The route as it is told.
    pub(super) fn entry(&self) -> DsdvEntry {
        DsdvEntry {
            destination: self.destination,
            metric: self.metric,
            seq: self.seq,
        }
    }

    /// Whether an incremental dump tells it now: what has changed since the last full dump, not only since the last incremental one,
    /// as broadcasts may be lost.
    pub(super) fn is_due(&self, now: Time, config: &DsdvConfig) -> bool {
        let is_news = config.tell_new_numbers && self.told.is_none_or(|told| told.seq != self.seq);
        (self.triggers || is_news || self.dumped != Some(self.metric)) && self.settled_at <= now
    }

    /// What to tell of it now: the route if it has settled, else the best one of the number before, if there was any. (If settling
    /// took longer than the time between two numbers, nothing new would ever be told otherwise.)
    pub(super) fn tell(&mut self, now: Time, full: bool, config: &DsdvConfig) -> Option<DsdvEntry> {
        if self.settled_at <= now {
            self.triggers = false;
            self.told = Some(self.entry());
        } else if !config.advertise_previous {
            return None;
        } else if self.before.is_some() {
            self.told = self.before;
        }
        if full {
            self.dumped = self.told.map(|told| told.metric);
        }
        self.told
    }
}

/// Routes in the order of their destinations.
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

    /// The route to a destination, made if there is none.
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
