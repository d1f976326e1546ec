//! Flow queueing with controlled delay (Hoeiland-Joergensen et al., RFC 8290): a queue for each flow, served in turn by bytes, each
//! with its own rule; new flows are served first.

use std::collections::VecDeque;

use whimbrel_control::Time;

use super::codel::{Codel, CodelRules, Leaving, Line, Waiting};

#[derive(Clone, Debug, Default)]
struct FlowQueue {
    line: Line,
    codel: Codel,
    /// Bytes that it may send before the next turn.
    credit: i64,
    listed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct FqCodel {
    queues: Vec<FlowQueue>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    quantum: i64,
    packets: usize,
}

impl FqCodel {
    pub(crate) fn new(queues: u32, quantum: u32) -> Self {
        FqCodel {
            queues: vec![FlowQueue::default(); queues as usize],
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum: quantum.into(),
            packets: 0,
        }
    }

    /// Adds a packet of the flow with this hash.
    pub(crate) fn enqueue(&mut self, hash: u64, waiting: Waiting) {
        let place = (hash % self.queues.len() as u64) as usize;
        let queue = &mut self.queues[place];
        queue.line.push(waiting);
        self.packets += 1;
        if !queue.listed {
            queue.listed = true;
            queue.credit = self.quantum;
            self.new.push_back(place);
        }
    }

    /// Removes the oldest packet of the longest queue, to make room.
    pub(crate) fn evict(&mut self) -> Option<Waiting> {
        let listed = self.new.iter().chain(&self.old);
        let place = *listed.max_by_key(|place| (self.queues[**place].line.bytes(), usize::MAX - **place))?;
        let evicted = self.queues[place].line.pop();
        self.packets -= usize::from(evicted.is_some());
        evicted
    }

    /// Removes the next packet.
    pub(crate) fn dequeue(&mut self, now: Time, rules: &CodelRules, dropped: &mut Vec<Waiting>) -> Option<Leaving> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let place = *list.front()?;
            let queue = &mut self.queues[place];
            if queue.credit <= 0 {
                queue.credit += self.quantum;
                list.pop_front();
                self.old.push_back(place);
                continue;
            }
            let before = dropped.len();
            let leaving = queue.codel.dequeue(now, &mut queue.line, rules, dropped);
            self.packets -= dropped.len() - before + usize::from(leaving.is_some());
            match leaving {
                Some(leaving) => {
                    queue.credit -= i64::from(leaving.waiting.size);
                    return Some(leaving);
                }
                None => {
                    list.pop_front();
                    if from_new {
                        // It stays in the list for one more round, so that a flow of single packets is not always served first
                        // (§4.2).
                        self.old.push_back(place);
                    } else {
                        queue.listed = false;
                    }
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.packets
    }

    /// Removes all packets.
    pub(crate) fn clear(&mut self) {
        *self = FqCodel::new(self.queues.len() as u32, self.quantum as u32);
    }

    /// Returns all queued packets, queue by queue.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        let listed = self.new.iter().chain(&self.old);
        listed.flat_map(|place| self.queues[*place].line.iter())
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::Span;
    use whimbrel_proto::Ecn;

    use super::*;

    const RULES: CodelRules = CodelRules {
        target: Span::from_millis(5),
        interval: Span::from_millis(100),
        largest_packet: 1500,
        ecn: true,
    };

    fn waiting(packet: u32, size: u32) -> Waiting {
        Waiting {
            packet,
            size,
            entered: Time::ZERO,
            seq: packet.into(),
            ecn: Ecn::NotEct,
        }
    }

    fn drain(queue: &mut FqCodel) -> Vec<u32> {
        let mut dropped = Vec::new();
        let order = core::iter::from_fn(|| queue.dequeue(Time::ZERO, &RULES, &mut dropped));
        order.map(|leaving| leaving.waiting.packet).collect()
    }

    #[test]
    fn flows_share_by_bytes_and_new_ones_are_served_first() {
        let mut queue = FqCodel::new(16, 1500);
        // Flow 1 sends large packets, flow 2 small ones: per round, one of the first and five of the second.
        (0..3).for_each(|n| queue.enqueue(1, waiting(100 + n, 1500)));
        (0..10).for_each(|n| queue.enqueue(2, waiting(200 + n, 300)));
        assert_eq!(queue.len(), 13);
        let mut dropped = Vec::new();
        let first = queue.dequeue(Time::ZERO, &RULES, &mut dropped);
        assert_eq!(first.map(|leaving| leaving.waiting.packet), Some(100));
        queue.enqueue(3, waiting(300, 100));
        assert_eq!(
            drain(&mut queue),
            [200, 201, 202, 203, 204, 300, 101, 205, 206, 207, 208, 209, 102]
        );
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn the_longest_queue_loses_a_packet() {
        let mut queue = FqCodel::new(16, 1500);
        queue.enqueue(1, waiting(100, 1500));
        (0..3).for_each(|n| queue.enqueue(2, waiting(200 + n, 1000)));
        assert_eq!(queue.evict().map(|w| w.packet), Some(200));
        assert_eq!(queue.iter().count(), 3);
        assert_eq!(queue.len(), 3);
    }
}
