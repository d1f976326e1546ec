//! The true causes of a flow's losses, compared with the sender's verdicts.
//!
//! A real sender never knows them. The network records each dropped packet of the flow's sender here; the sender's verdicts are
//! compared with the causes, and an oracle discriminator may query them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use whimbrel_control::{Cause, GroundTruth, Rng};

use crate::ledger::DropCause;

/// Maximum number of stored drops; the oldest are removed first. Verdicts remove their drops, so only undetected ones remain.
const REMEMBERED: usize = 1 << 17;

/// Causes of a flow's dropped packets by label: the TSN of each DATA chunk, or the sequence number of a segment.
#[derive(Debug)]
pub(crate) struct Truth(Mutex<Drops>);

#[derive(Debug)]
struct Drops {
    causes: BTreeMap<u32, Cause>,
    order: VecDeque<u32>,
    random: Rng,
}

impl Truth {
    /// Creates an empty record. `random` is used by discriminators with a configured error rate.
    pub(crate) fn new(random: Rng) -> Arc<Self> {
        Arc::new(Truth(Mutex::new(Drops {
            causes: BTreeMap::new(),
            order: VecDeque::new(),
            random,
        })))
    }

    fn drops(&self) -> MutexGuard<'_, Drops> {
        // A world is owned by one thread: there is no contention.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a dropped packet with this label.
    pub(crate) fn dropped(&self, label: u32, cause: DropCause) {
        let cause = if cause.is_congestion() {
            Cause::Congestion
        } else {
            Cause::Transmission
        };
        let drops = &mut *self.drops();
        if drops.causes.insert(label, cause).is_none() {
            drops.order.push_back(label);
        }
        if drops.order.len() > REMEMBERED
            && let Some(oldest) = drops.order.pop_front()
        {
            drops.causes.remove(&oldest);
        }
    }

    /// Returns and removes the cause of the last drop of this label.
    pub(crate) fn noticed(&self, label: u32) -> Option<Cause> {
        self.drops().causes.remove(&label)
    }
}

impl GroundTruth for Truth {
    fn cause(&self, label: u32) -> Option<Cause> {
        self.drops().causes.get(&label).copied()
    }

    fn chance(&self, p: f64) -> bool {
        self.drops().random.chance(p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_last_drop_once_and_bounds_the_memory() {
        let truth = Truth::new(Rng::stream(1, "test"));
        truth.dropped(7, DropCause::QueueFull);
        truth.dropped(7, DropCause::LinkDown);
        assert_eq!(truth.cause(7), Some(Cause::Transmission));
        assert_eq!(truth.noticed(7), Some(Cause::Transmission));
        assert_eq!(truth.noticed(7), None);
        for label in 0..2 * REMEMBERED as u32 {
            truth.dropped(label, DropCause::RedEarly);
        }
        assert!(truth.drops().causes.len() <= REMEMBERED);
        assert_eq!(truth.cause(2 * REMEMBERED as u32 - 1), Some(Cause::Congestion));
    }
}
