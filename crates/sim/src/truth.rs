//! The truth about a flow's losses: why its packets died, joined with what its sender made of it.
//!
//! A real sender never knows. Here the network enters each death of a packet on its way from the flow's sender to its receiver; the
//! sender's verdicts are compared with it, and an oracle may ask.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use whimbrel_control::{Cause, GroundTruth, Rng};

use crate::ledger::DropCause;

/// Deaths remembered at most; of more, the oldest are forgotten. Verdicts take them out, so only deaths that nobody noticed stay.
const REMEMBERED: usize = 1 << 17;

/// Why packets of a flow died, by their label: the TSN of each DATA chunk, or the sequence number of a segment.
#[derive(Debug)]
pub(crate) struct Truth(Mutex<Deaths>);

#[derive(Debug)]
struct Deaths {
    causes: BTreeMap<u32, Cause>,
    order: VecDeque<u32>,
    random: Rng,
}

impl Truth {
    /// Nobody has died yet. `random` serves discriminators that err at a set rate.
    pub(crate) fn new(random: Rng) -> Arc<Self> {
        Arc::new(Truth(Mutex::new(Deaths {
            causes: BTreeMap::new(),
            order: VecDeque::new(),
            random,
        })))
    }

    fn deaths(&self) -> MutexGuard<'_, Deaths> {
        // A world lives in one thread: the lock is never waited for.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A packet with this label died.
    pub(crate) fn died(&self, label: u32, cause: DropCause) {
        let cause = if cause.is_congestion() {
            Cause::Congestion
        } else {
            Cause::Transmission
        };
        let deaths = &mut *self.deaths();
        if deaths.causes.insert(label, cause).is_none() {
            deaths.order.push_back(label);
        }
        if deaths.order.len() > REMEMBERED
            && let Some(oldest) = deaths.order.pop_front()
        {
            deaths.causes.remove(&oldest);
        }
    }

    /// The cause of the last death of this label, which has been noticed now and is forgotten.
    pub(crate) fn noticed(&self, label: u32) -> Option<Cause> {
        self.deaths().causes.remove(&label)
    }
}

impl GroundTruth for Truth {
    fn cause(&self, label: u32) -> Option<Cause> {
        self.deaths().causes.get(&label).copied()
    }

    fn chance(&self, p: f64) -> bool {
        self.deaths().random.chance(p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_death_counts_until_it_is_noticed_and_memory_is_bounded() {
        let truth = Truth::new(Rng::stream(1, "test"));
        truth.died(7, DropCause::QueueFull);
        truth.died(7, DropCause::LinkDown);
        assert_eq!(truth.cause(7), Some(Cause::Transmission));
        assert_eq!(truth.noticed(7), Some(Cause::Transmission));
        assert_eq!(truth.noticed(7), None);
        for label in 0..2 * REMEMBERED as u32 {
            truth.died(label, DropCause::RedEarly);
        }
        assert!(truth.deaths().causes.len() <= REMEMBERED);
        assert_eq!(truth.cause(2 * REMEMBERED as u32 - 1), Some(Cause::Congestion));
    }
}
