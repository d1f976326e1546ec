//! Two queues with coupled marking, for L4S beside other traffic (De Schepper, Briscoe and White, RFC 9332, appendix A).
//!
//! Packets with ECT(1) or CE enter the low-latency queue, all others the classic queue. A proportional integral controller computes a
//! base probability p' from the queueing delay. Classic packets are marked or dropped with p'^2, because the window of their flows is
//! inversely proportional to the square root of the probability. L4S packets are marked with k p', or by their own delay if that gives
//! more. With k = 2, both kinds of flows have about the same rate.
//!
//! As in the RFC, decisions are not random: a counter adds up the probabilities. Different from its appendix, and as in Linux: the
//! controller sees the longer one of both delays, and a weighted round robin serves the queues.

use whimbrel_control::{Span, Time};
use whimbrel_proto::Ecn;

use super::codel::{Leaving, Line, Waiting};
use super::config::DualPi2Config;

/// Decides on each packet with the probability that it is given, in a regular sequence (function `recur` of appendix A.1).
#[derive(Clone, Copy, Debug, Default)]
struct Recur(f64);

impl Recur {
    fn strikes(&mut self, probability: f64) -> bool {
        self.0 += probability.min(1.0);
        let strikes = self.0 > 1.0;
        if strikes {
            self.0 -= 1.0;
        }
        strikes
    }
}

/// One of both queues.
#[derive(Clone, Debug, Default)]
struct Half {
    line: Line,
    marks: Recur,
    drops: Recur,
}

impl Half {
    /// Returns for how long the packet at the head has been queued.
    fn delay(&self, at: Time) -> Span {
        self.line.front().map_or(Span::ZERO, |first| at.since(first.entered))
    }
}

/// Both queues and the controller, with the names of appendix A.
#[derive(Clone, Debug)]
pub(crate) struct DualPi2 {
    rules: DualPi2Config,
    low_latency: Half,
    classic: Half,
    /// p', the base probability.
    base: f64,
    /// The delay at the last update, in seconds.
    prev_q: f64,
    next_update: Time,
    /// Bytes by which the classic queue is behind its share. While both queues are filled, it is served if this is positive.
    credit: f64,
}

/// The credit begins as if one packet of this size had been served from each queue.
const LARGEST_PACKET: f64 = 1500.0;

impl DualPi2 {
    pub(crate) fn new(rules: DualPi2Config) -> Self {
        DualPi2 {
            low_latency: Half::default(),
            classic: Half::default(),
            base: 0.0,
            prev_q: 0.0,
            next_update: Time::ZERO + rules.update,
            credit: Self::first_credit(&rules),
            rules,
        }
    }

    /// Returns the credit when both queues become filled: the low-latency queue is served first.
    fn first_credit(rules: &DualPi2Config) -> f64 {
        LARGEST_PACKET * (2.0 * rules.classic_share - 1.0)
    }

    /// Adds a packet to the queue of its class.
    pub(crate) fn enqueue(&mut self, waiting: Waiting) {
        self.update(waiting.entered);
        match waiting.ecn {
            Ecn::Ect1 | Ecn::Ce => self.low_latency.line.push(waiting),
            Ecn::Ect0 | Ecn::NotEct => self.classic.line.push(waiting),
        }
    }

    /// Removes the next packet.
    pub(crate) fn dequeue(&mut self, now: Time, dropped: &mut Vec<Waiting>) -> Option<Leaving> {
        self.update(now);
        let (coupled, squared) = (self.rules.coupling * self.base, self.base * self.base);
        // Appendix A.2: marks no longer suffice, and packets of both queues are dropped with the same probability.
        let is_overloaded = coupled >= 1.0;
        loop {
            let is_low_latency = self.next_is_low_latency()?;
            let waiting = self.half(is_low_latency).line.pop()?;
            self.account(is_low_latency, waiting.size);
            let (native, half) = (self.native(now, &waiting), self.half(is_low_latency));
            let drops = is_overloaded || waiting.ecn == Ecn::NotEct;
            if !is_low_latency || is_overloaded {
                let decisions = if drops { &mut half.drops } else { &mut half.marks };
                if decisions.strikes(squared) {
                    if drops {
                        dropped.push(waiting);
                        continue;
                    }
                    return Some(Leaving { waiting, mark: true });
                }
            }
            let mark = is_low_latency && half.marks.strikes(native.max(coupled));
            return Some(Leaving { waiting, mark });
        }
    }

    fn half(&mut self, is_low_latency: bool) -> &mut Half {
        if is_low_latency {
            &mut self.low_latency
        } else {
            &mut self.classic
        }
    }

    /// Returns the probability of a mark by the delay of an L4S packet that leaves now.
    fn native(&self, now: Time, waiting: &Waiting) -> f64 {
        let is_last = self.low_latency.line.is_empty();
        native_probability(&self.rules, now.since(waiting.entered), is_last)
    }

    /// Returns whether the next packet comes from the low-latency queue, or `None` if both are empty.
    fn next_is_low_latency(&self) -> Option<bool> {
        match (self.low_latency.line.is_empty(), self.classic.line.is_empty()) {
            (true, true) => None,
            (true, false) => Some(false),
            (false, true) => Some(true),
            (false, false) => Some(self.credit <= 0.0),
        }
    }

    /// Counts a packet that was served: a weighted round robin by bytes.
    fn account(&mut self, is_low_latency: bool, size: u32) {
        if self.low_latency.line.is_empty() || self.classic.line.is_empty() {
            self.credit = Self::first_credit(&self.rules);
            return;
        }
        let (size, share) = (f64::from(size), self.rules.classic_share);
        self.credit += if is_low_latency {
            share * size
        } else {
            (share - 1.0) * size
        };
    }

    /// Updates p' for every update time until `now`. Both queues have not changed since the last one, so their delays are known.
    fn update(&mut self, now: Time) {
        while self.next_update <= now {
            let delay = self.low_latency.delay(self.next_update);
            let delay = delay.max(self.classic.delay(self.next_update)).as_secs_f64();
            let target = self.rules.target.as_secs_f64();
            let change = self.rules.alpha * (delay - target) + self.rules.beta * (delay - self.prev_q);
            self.base = (self.base + change).clamp(0.0, 1.0);
            self.prev_q = delay;
            self.next_update += self.rules.update;
            if self.base == 0.0 && delay == 0.0 && self.next_update < now {
                // Nothing changes while both queues are empty.
                let rest = now.since(self.next_update).as_nanos() % self.rules.update.as_nanos().max(1);
                self.next_update = Time::from_nanos(now.as_nanos() - rest);
            }
        }
    }

    /// Returns all queued packets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.low_latency.line.iter().chain(self.classic.line.iter())
    }

    /// Removes all packets, and restarts the controller.
    pub(crate) fn clear(&mut self) {
        let next_update = self.next_update;
        *self = DualPi2 {
            next_update,
            ..DualPi2::new(self.rules.clone())
        };
    }
}

/// Returns the probability of a mark by the packet's own delay: a ramp that begins at the threshold, or a step. A packet that leaves
/// nothing behind is not marked: on a slow link its delay is the transmission time of one packet.
fn native_probability(rules: &DualPi2Config, delay: Span, is_last: bool) -> f64 {
    if is_last || delay <= rules.threshold {
        return 0.0;
    }
    let above = delay.as_secs_f64() - rules.threshold.as_secs_f64();
    let range = rules.range.as_secs_f64();
    if above >= range { 1.0 } else { above / range }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    fn packet(number: u32, ecn: Ecn, entered: Time) -> Waiting {
        Waiting {
            packet: number,
            size: 1500,
            entered,
            seq: number.into(),
            ecn,
        }
    }

    /// Returns a queue with this number of packets of a class, which have just entered, and this base probability, which does not change.
    fn filled(base: f64, ecn: Ecn, packets: u32, change: impl FnOnce(&mut DualPi2Config)) -> DualPi2 {
        let mut rules = DualPi2Config {
            alpha: 0.0,
            beta: 0.0,
            ..DualPi2Config::default()
        };
        change(&mut rules);
        let mut queue = DualPi2::new(rules);
        queue.base = base;
        (0..packets).for_each(|n| queue.enqueue(packet(n, ecn, Time::ZERO)));
        queue
    }

    /// Returns the numbers of packets that are marked and dropped while the queue is emptied at once.
    fn emptied(mut queue: DualPi2) -> (usize, usize) {
        let mut dropped = Vec::new();
        let leaving = core::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut dropped));
        let marked = leaving.filter(|leaving| leaving.mark).count();
        (marked, dropped.len())
    }

    #[test]
    fn the_base_probability_by_hand() {
        // A.1: p' += alpha (curq - target) + beta (curq - prevq), every 16 ms; alpha 0.16, beta 3.2, target 15 ms.
        let mut queue = DualPi2::new(DualPi2Config::default());
        queue.enqueue(packet(0, Ecn::NotEct, ms(0)));
        queue.update(ms(15));
        assert_eq!(queue.base, 0.0);
        // 16 ms: 0.16 * 0.001 + 3.2 * 0.016 = 0.05136
        queue.update(ms(16));
        assert!((queue.base - 0.05136).abs() < 1e-12, "{}", queue.base);
        // 32 ms: + 0.16 * 0.017 + 3.2 * 0.016 = 0.05392
        queue.update(ms(40));
        assert!((queue.base - 0.10528).abs() < 1e-12, "{}", queue.base);
        // Empty: 0.16 * -0.015 + 3.2 * -0.032 = -0.1048, then -0.0024 down to zero.
        queue.dequeue(ms(40), &mut Vec::new());
        queue.update(ms(48));
        assert!((queue.base - 0.00048).abs() < 1e-12, "{}", queue.base);
        queue.update(ms(64));
        assert_eq!(queue.base, 0.0);
        // Updates stay at multiples of 16 ms after an idle time.
        queue.update(ms(1_000_001));
        assert_eq!(queue.next_update, ms(1_000_016));
    }

    #[test]
    fn decisions_are_a_regular_sequence() {
        // 3/8: 0.375, 0.75, 1.125 - 1, 0.5, 0.875, 1.25 - 1, 0.625, 1.0, 1.375 - 1
        let mut recur = Recur::default();
        let strikes: Vec<_> = (1..=9).filter(|_| recur.strikes(0.375)).collect();
        assert_eq!(strikes, [3, 6, 9]);
    }

    #[test]
    fn classic_packets_have_the_square_and_l4s_packets_twice_the_base_probability() {
        // p' = 0.1: p_C = 0.01 and p_CL = 0.2; the counter passes 1 at the 101st and the 6th packet.
        assert_eq!(emptied(filled(0.1, Ecn::NotEct, 1010, |_| ())), (0, 10));
        assert_eq!(emptied(filled(0.1, Ecn::Ect0, 1010, |_| ())), (10, 0));
        assert_eq!(emptied(filled(0.1, Ecn::Ect1, 1005, |_| ())), (200, 0));
        assert_eq!(emptied(filled(0.1, Ecn::Ce, 1005, |_| ())), (200, 0));
        assert_eq!(
            emptied(filled(0.1, Ecn::Ect1, 1005, |rules| rules.coupling = 1.0)),
            (100, 0)
        );
    }

    #[test]
    fn overload_drops_packets_of_both_queues() {
        // A.2: from p' = 1/k on, p_C = p'^2 >= 1/4 drops any packet; all L4S packets that are left are marked, but for the counter's first.
        assert_eq!(emptied(filled(0.499, Ecn::Ect1, 101, |_| ())).1, 0);
        assert_eq!(emptied(filled(0.499, Ecn::Ect0, 101, |_| ())).1, 0);
        assert_eq!(emptied(filled(0.5, Ecn::Ect1, 101, |_| ())), (75, 25));
        assert_eq!(emptied(filled(0.5, Ecn::Ect0, 101, |_| ())), (0, 25));
    }

    #[test]
    fn a_step_or_a_ramp_marks_by_the_own_delay() {
        let ramp = DualPi2Config {
            threshold: Span::from_micros(800),
            range: Span::from_micros(400),
            ..DualPi2Config::default()
        };
        let step = DualPi2Config::default();
        // Table: delay in us, step at 1 ms, ramp from 0.8 ms to 1.2 ms (A.1, function laqm)
        for (delay, of_step, of_ramp) in [
            (800, 0.0, 0.0),
            (900, 0.0, 0.25),
            (1000, 0.0, 0.5),
            (1100, 1.0, 0.75),
            (1200, 1.0, 1.0),
        ] {
            let delay = Span::from_micros(delay);
            assert_eq!(native_probability(&step, delay, false), of_step, "{delay}");
            assert!(
                (native_probability(&ramp, delay, false) - of_ramp).abs() < 1e-9,
                "{delay}"
            );
            assert_eq!(native_probability(&step, delay, true), 0.0, "the last packet");
        }
        // Three packets after 2 ms: the counter passes 1 at the second, and the last one is alone.
        let mut queue = filled(0.0, Ecn::Ect1, 4, |_| ());
        let marks = core::iter::from_fn(|| queue.dequeue(ms(2), &mut Vec::new())).map(|leaving| leaving.mark);
        assert_eq!(marks.collect::<Vec<_>>(), [false, true, true, false]);
    }

    #[test]
    fn the_classic_queue_has_a_tenth_while_both_are_filled() {
        let mut queue = filled(0.0, Ecn::Ect1, 100, |rules| rules.threshold = Span::from_secs(1));
        (100..200).for_each(|n| queue.enqueue(packet(n, Ecn::NotEct, Time::ZERO)));
        let mut classic = Vec::new();
        for turn in 0..100 {
            let leaving = queue.dequeue(Time::ZERO, &mut Vec::new()).unwrap();
            if leaving.waiting.packet >= 100 {
                classic.push(turn);
            }
        }
        // The credit starts at -0.8 packets and grows by 0.1 for each L4S packet; a classic packet costs 0.9.
        assert_eq!(classic, [9, 19, 29, 39, 49, 59, 69, 79, 89, 99]);
        // Alone, each has everything.
        assert_eq!(emptied(filled(0.0, Ecn::NotEct, 7, |_| ())), (0, 0));
    }
}
