//! Queues that decide at departures, or that reorder packets: each departure is an event.

use whimbrel_control::Time;

use super::codel::{Codel, CodelRules, Leaving, Line, Waiting};
use super::config::CodelConfig;
use super::dual_pi2::DualPi2;
use super::fq_codel::FqCodel;
use super::{DropTail, Occupancy, QueueConfig};
use crate::ledger::DropCause;

/// A queue whose packets wait here until the transmitter is free.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    rules: CodelRules,
    limit: DropTail,
    discipline: Discipline,
    waiting: Occupancy,
    /// Whether the event of the next departure is scheduled.
    pub(crate) armed: bool,
    /// Packets dropped by the last departure.
    dropped: Vec<Waiting>,
}

#[derive(Clone, Debug)]
enum Discipline {
    Codel(Line, Codel),
    FqCodel(FqCodel),
    DualPi2(Box<DualPi2>),
}

impl Scheduler {
    /// Creates the scheduler of a queue, if it needs one.
    pub(crate) fn new(config: &QueueConfig) -> Option<Scheduler> {
        let (rules, discipline) = match config {
            QueueConfig::Codel(codel) => (codel.rules(), Discipline::Codel(Line::default(), Codel::default())),
            QueueConfig::FqCodel(fq) => (
                fq.codel().rules(),
                Discipline::FqCodel(FqCodel::new(fq.queues, fq.quantum)),
            ),
            QueueConfig::DualPi2(dual) => (
                CodelConfig::default().rules(),
                Discipline::DualPi2(Box::new(DualPi2::new(dual.clone()))),
            ),
            QueueConfig::DropTail { .. }
            | QueueConfig::Red(_)
            | QueueConfig::CongestionWarning(_)
            | QueueConfig::Step(_) => return None,
        };
        Some(Scheduler {
            rules,
            limit: DropTail::new(config),
            discipline,
            waiting: Occupancy::default(),
            armed: false,
            dropped: Vec::new(),
        })
    }

    /// Adds a packet of the flow with this hash. Returns the packet dropped for lack of room, which may be another one.
    pub(crate) fn enqueue(&mut self, hash: u64, waiting: Waiting) -> Option<Waiting> {
        let has_room = self.limit.admits(self.waiting, waiting.size);
        let refused = match &mut self.discipline {
            Discipline::Codel(..) | Discipline::DualPi2(_) if !has_room => return Some(waiting),
            Discipline::Codel(line, _) => {
                line.push(waiting);
                None
            }
            Discipline::DualPi2(queues) => {
                queues.enqueue(waiting);
                None
            }
            Discipline::FqCodel(queue) => {
                queue.enqueue(hash, waiting);
                if has_room { None } else { queue.evict() }
            }
        };
        self.count(&waiting);
        if let Some(refused) = &refused {
            self.discount(refused);
        }
        refused
    }

    fn count(&mut self, waiting: &Waiting) {
        self.waiting.packets += 1;
        self.waiting.bytes += u64::from(waiting.size);
    }

    fn discount(&mut self, waiting: &Waiting) {
        self.waiting.packets -= 1;
        self.waiting.bytes -= u64::from(waiting.size);
    }

    /// Removes the next packet to send. [`Scheduler::dropped`] returns the packets that the rule drops in the process.
    pub(crate) fn dequeue(&mut self, now: Time) -> Option<Leaving> {
        self.dropped.clear();
        let leaving = match &mut self.discipline {
            Discipline::Codel(line, codel) => codel.dequeue(now, line, &self.rules, &mut self.dropped),
            Discipline::FqCodel(queue) => queue.dequeue(now, &self.rules, &mut self.dropped),
            Discipline::DualPi2(queues) => queues.dequeue(now, &mut self.dropped),
        };
        for index in 0..self.dropped.len() {
            let waiting = self.dropped[index];
            self.discount(&waiting);
        }
        if let Some(leaving) = &leaving {
            self.discount(&leaving.waiting);
        }
        leaving
    }

    /// Returns the cause of the drops of its rule.
    pub(crate) fn drop_cause(&self) -> DropCause {
        match self.discipline {
            Discipline::Codel(..) | Discipline::FqCodel(_) => DropCause::Codel,
            Discipline::DualPi2(_) => DropCause::DualPi2,
        }
    }

    /// Returns the packets that the last departure dropped.
    pub(crate) fn dropped(&self) -> &[Waiting] {
        &self.dropped
    }

    /// Returns the queue length.
    pub(crate) fn waiting(&self) -> Occupancy {
        self.waiting
    }

    /// Removes and returns all queued packets, because the link has failed.
    pub(crate) fn flush(&mut self) -> Vec<Waiting> {
        let mut all: Vec<_> = match &mut self.discipline {
            Discipline::Codel(line, codel) => {
                *codel = Codel::default();
                core::mem::take(line).iter().copied().collect()
            }
            Discipline::FqCodel(queue) => {
                debug_assert_eq!(queue.len(), self.waiting.packets as usize, "counted in two places");
                let all = queue.iter().copied().collect();
                queue.clear();
                all
            }
            Discipline::DualPi2(queues) => {
                let all = queues.iter().copied().collect();
                queues.clear();
                all
            }
        };
        all.sort_unstable_by_key(|waiting| waiting.seq);
        self.waiting = Occupancy::default();
        all
    }
}

impl CodelConfig {
    fn rules(&self) -> CodelRules {
        CodelRules {
            target: self.target,
            interval: self.interval,
            largest_packet: self.largest_packet.into(),
            ecn: self.ecn,
        }
    }
}
