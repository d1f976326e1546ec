//! Pacing: packets are spread over time instead of being sent at the arrival of each acknowledgement.

use crate::{Rate, Span, Time};

/// Spaces packets at a rate that may change with each packet. After a pause, a small burst may be sent at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// When the next packet is due at the rate.
    due: Time,
    /// When the next packet may be sent: later than `due`, if bursts are collected.
    next: Time,
}

/// Maximum credit after a pause: the typical delay of a host's timer.
const CREDIT: Span = Span::from_millis(1);
/// Multiple of its granularity by which a timer may be late without reducing the rate.
const LATE: u64 = 8;
/// The same limit in packets, for rates at which that is longer: the size of an initial window, which is sent at once
/// (RFC 9002 §7.7).
const LATE_PACKETS: u64 = 10;

impl Pacer {
    /// Returns when the next packet may be sent; in the past if it may be sent now.
    #[inline]
    pub fn next(&self) -> Time {
        self.next
    }

    /// Returns whether a packet may be sent.
    #[inline]
    pub fn may_send(&self, now: Time) -> bool {
        self.next <= now
    }

    /// Records that a packet of `bytes` bytes was sent and is spaced at `rate`. A host whose timer has a `granularity`
    /// sends bursts of that duration: after the packets of the elapsed time have been sent, the next ones wait until a
    /// burst is due. 0 s spaces single packets, except for
    /// bursts of up to `burst` packets and one after a delay. A coarse timer permits bursts of at least ten.
    #[inline]
    pub fn on_sent(&mut self, now: Time, bytes: u64, rate: Rate, granularity: Span, burst: u32) {
        let duration = rate.time_for(bytes);
        let credit = if granularity.is_zero() {
            CREDIT.max(duration * u64::from(burst))
        } else {
            CREDIT.max(granularity * LATE).max(duration * LATE_PACKETS)
        };
        let earliest = now.as_nanos().saturating_sub(credit.as_nanos());
        self.due = self.due.max(Time::from_nanos(earliest)) + duration;
        self.next = if self.due > now {
            self.due + granularity
        } else {
            self.due
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_spaced_at_the_rate_and_a_pause_earns_little() {
        // 1500 bytes at 12 Mbit/s take 1 ms.
        let rate = Rate::from_mbps(12);
        let start = Time::from_nanos(1_000_000_000);
        let mut pacer = Pacer::default();
        let mut sent = Vec::new();
        let mut now = start;
        while sent.len() < 6 {
            if pacer.may_send(now) {
                pacer.on_sent(now, 1500, rate, Span::ZERO, 0);
                sent.push(now.since(start).as_nanos() / 1000);
            } else {
                now = pacer.next();
            }
        }
        assert_eq!(sent, [0, 0, 1000, 2000, 3000, 4000]);
    }

    #[test]
    fn a_coarse_timer_makes_bursts_and_costs_no_rate() {
        // 1500 bytes at 1 Gbit/s take 12 us; the timer expires up to 300 us late.
        let (rate, granularity) = (Rate::from_mbps(1000), Span::from_micros(250));
        let start = Time::from_nanos(1_000_000_000);
        let (mut pacer, mut now, mut packets, mut bursts, mut largest) = (Pacer::default(), start, 0, 0, 0);
        while now.since(start) < Span::from_millis(100) {
            let mut burst = 0;
            while pacer.may_send(now) {
                pacer.on_sent(now, 1500, rate, granularity, 0);
                burst += 1;
            }
            (packets, bursts, largest) = (packets + burst, bursts + 1, largest.max(burst));
            now = pacer.next() + Span::from_micros(37 * (bursts % 9));
        }
        let ideal = 100_000 / 12;
        assert!((ideal..ideal + 200).contains(&packets), "{packets} of {ideal}");
        assert!(
            bursts > 200 && largest <= 170,
            "{bursts} bursts, the largest of {largest}"
        );
    }

    #[test]
    fn late_timer_costs_a_low_rate_nothing() {
        // 1500 bytes at 10 Mbit/s take 1.2 ms; on a busy machine the timer expires up to 9 ms late.
        let (rate, granularity) = (Rate::from_mbps(10), Span::from_micros(250));
        let start = Time::from_nanos(1_000_000_000);
        let (mut pacer, mut now, mut packets, mut wakes) = (Pacer::default(), start, 0, 0);
        while now.since(start) < Span::from_secs(2) {
            let mut burst = 0;
            while pacer.may_send(now) {
                pacer.on_sent(now, 1500, rate, granularity, 0);
                burst += 1;
            }
            assert!(burst <= 11, "{burst}");
            packets += burst;
            wakes += 1;
            now = pacer.next() + Span::from_micros(if wakes % 5 == 0 { 9000 } else { 50 });
        }
        let ideal = 2_000_000 / 1200;
        assert!(
            (ideal * 99 / 100..ideal + 12).contains(&packets),
            "{packets} of {ideal}"
        );
    }

    #[test]
    fn a_pause_may_earn_a_burst() {
        // 1500 bytes at 1.2 Mbit/s take 10 ms.
        let rate = Rate::from_bps(1_200_000);
        let mut now = Time::from_nanos(1_000_000_000);
        for (burst, after_pause, later) in [(0, 1, 1), (10, 11, 3)] {
            let mut pacer = Pacer::default();
            let mut send = |now: Time| {
                let mut sent = 0;
                while pacer.may_send(now) {
                    pacer.on_sent(now, 1500, rate, Span::ZERO, burst);
                    sent += 1;
                }
                sent
            };
            send(now);
            now += Span::from_secs(1);
            assert_eq!(send(now), after_pause, "{burst}");
            assert_eq!(send(now + Span::from_millis(35)), later, "{burst}");
        }
    }
}
