//! Controlled delay: drops or marks packets by their queueing delay (Nichols et al., RFC 8289).

use std::collections::VecDeque;

use whimbrel_control::{Span, Time};
use whimbrel_proto::Ecn;

use crate::packet::PacketId;

/// A queued packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) packet: PacketId,
    pub(crate) size: u32,
    pub(crate) entered: Time,
    pub(crate) seq: u64,
    /// Its ECN bits.
    pub(crate) ecn: Ecn,
}

/// A FIFO queue with its length in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    packets: VecDeque<Waiting>,
    bytes: u64,
}

impl Line {
    pub(crate) fn push(&mut self, waiting: Waiting) {
        self.bytes += u64::from(waiting.size);
        self.packets.push_back(waiting);
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        let first = self.packets.pop_front()?;
        self.bytes -= u64::from(first.size);
        Some(first)
    }

    /// Returns the packet at the head.
    pub(crate) fn front(&self) -> Option<&Waiting> {
        self.packets.front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.packets.iter()
    }
}

/// Constants of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodelRules {
    /// The accepted standing delay.
    pub(crate) target: Span,
    /// Time for which it may be exceeded: about the largest round-trip time.
    pub(crate) interval: Span,
    /// Nothing is dropped while at most this number of bytes is queued, so that the link does not run dry.
    pub(crate) largest_packet: u64,
    /// Whether ECN-capable packets are marked.
    pub(crate) ecn: bool,
}

/// The state of the rule for one queue, with the names of RFC 8289 §5.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Codel {
    /// When the delay will have been above the target for an interval.
    first_above_time: Option<Time>,
    dropping: bool,
    drop_next: Time,
    count: u32,
    last_count: u32,
}

/// A packet that leaves the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    pub(crate) waiting: Waiting,
    /// Whether the rule marks it.
    pub(crate) mark: bool,
}

impl Codel {
    /// Removes the next packet from `line`. Packets that the rule drops are added to `dropped`.
    pub(crate) fn dequeue(
        &mut self,
        now: Time,
        line: &mut Line,
        rules: &CodelRules,
        dropped: &mut Vec<Waiting>,
    ) -> Option<Leaving> {
        let (mut next, mut ok_to_drop) = self.take(now, line, rules);
        let strikes_by_mark = |waiting: &Waiting| rules.ecn && waiting.ecn != Ecn::NotEct;
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                let Some(waiting) = next else { break };
                self.count = self.count.saturating_add(1);
                if strikes_by_mark(&waiting) {
                    self.drop_next = self.control_law(self.drop_next, rules);
                    return Some(Leaving { waiting, mark: true });
                }
                dropped.push(waiting);
                (next, ok_to_drop) = self.take(now, line, rules);
                if ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next, rules);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop && let Some(waiting) = next {
            let mark = strikes_by_mark(&waiting);
            if !mark {
                dropped.push(waiting);
                (next, _) = self.take(now, line, rules);
            }
            self.dropping = true;
            // If dropping ended only recently, it resumes with nearly the old count (§5.4).
            let delta = self.count.saturating_sub(self.last_count);
            let recent = now.since(self.drop_next) < rules.interval * 16;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = self.control_law(now, rules);
            self.last_count = self.count;
            return next.map(|waiting| Leaving { waiting, mark });
        }
        next.map(|waiting| Leaving { waiting, mark: false })
    }

    /// Removes the packet at the head. Returns it, and whether the delay has been above the target for an interval.
    fn take(&mut self, now: Time, line: &mut Line, rules: &CodelRules) -> (Option<Waiting>, bool) {
        let Some(waiting) = line.pop() else {
            self.first_above_time = None;
            return (None, false);
        };
        if now.since(waiting.entered) < rules.target || line.bytes() <= rules.largest_packet {
            self.first_above_time = None;
            return (Some(waiting), false);
        }
        match self.first_above_time {
            None => {
                self.first_above_time = Some(now + rules.interval);
                (Some(waiting), false)
            }
            Some(since) => (Some(waiting), now >= since),
        }
    }

    /// Returns the time of the next drop: the interval decreases with the square root of the count.
    fn control_law(&self, from: Time, rules: &CodelRules) -> Time {
        let interval = rules.interval.as_nanos() as f64 / libm::sqrt(f64::from(self.count.max(1)));
        from + Span::from_nanos(interval as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: CodelRules = CodelRules {
        target: Span::from_millis(5),
        interval: Span::from_millis(100),
        largest_packet: 1500,
        ecn: true,
    };

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    fn line(packets: u64, entered: Time, ecn: Ecn) -> Line {
        let mut line = Line::default();
        for seq in 0..packets {
            line.push(Waiting {
                packet: seq as u32,
                size: 1500,
                entered,
                seq,
                ecn,
            });
        }
        line
    }

    #[test]
    fn drops_nothing_below_target_or_with_an_almost_empty_queue() {
        let mut codel = Codel::default();
        let mut dropped = Vec::new();
        let mut short = line(100, ms(0), Ecn::NotEct);
        for _ in 0..90 {
            assert!(codel.dequeue(ms(4), &mut short, &RULES, &mut dropped).is_some());
        }
        let mut last = line(2, ms(0), Ecn::NotEct);
        assert!(codel.dequeue(ms(1000), &mut last, &RULES, &mut dropped).is_some());
        assert!(codel.dequeue(ms(2000), &mut last, &RULES, &mut dropped).is_some());
        assert_eq!(codel.dequeue(ms(3000), &mut last, &RULES, &mut dropped), None);
        assert!(dropped.is_empty());
    }

    #[test]
    fn drops_from_a_standing_queue_at_decreasing_intervals() {
        // RFC 8289 §5.3: first after the delay has exceeded the target for an interval, then each time after interval /
        // sqrt(count).
        let mut codel = Codel::default();
        let mut standing = line(10_000, ms(0), Ecn::NotEct);
        let mut dropped = Vec::new();
        let mut times = Vec::new();
        for at in 10..500 {
            let before = dropped.len();
            codel.dequeue(ms(at), &mut standing, &RULES, &mut dropped);
            if dropped.len() > before {
                times.push(at);
            }
        }
        // 110; 210; 210 + 100/sqrt(2) = 280.7; + 100/sqrt(3) = 338.4; + 50 = 388.4; + 44.7 = 433.2; + 40.8 = 474.0
        assert_eq!(times, [110, 210, 281, 339, 389, 434, 474]);
    }

    #[test]
    fn capable_packets_are_marked_instead() {
        let mut codel = Codel::default();
        let mut standing = line(10_000, ms(0), Ecn::Ect0);
        let mut dropped = Vec::new();
        let marked = (10..500).filter(|at| {
            let leaving = codel.dequeue(ms(*at), &mut standing, &RULES, &mut dropped);
            leaving.is_some_and(|leaving| leaving.mark)
        });
        assert_eq!(marked.collect::<Vec<_>>(), [110, 210, 281, 339, 389, 434, 474]);
        assert!(dropped.is_empty());
    }
}
