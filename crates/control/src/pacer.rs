//! Pacing: packets are spread over time instead of following each acknowledgement.

use crate::{Rate, Span, Time};

/// Spaces packets at a rate that may change with each. A sender that has been quiet may send a small burst at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// When the next packet may go out.
    next: Time,
}

/// A pause earns at most so much credit: what a timer of a real host is late.
const CREDIT: Span = Span::from_millis(1);

impl Pacer {
    /// When the next packet may go out; in the past if it may go out now.
    #[inline]
    pub fn next(&self) -> Time {
        self.next
    }

    /// Whether a packet may go out.
    #[inline]
    pub fn may_send(&self, now: Time) -> bool {
        self.next <= now
    }

    /// A packet of so many bytes has gone out, to be spaced at `rate`.
    #[inline]
    pub fn on_sent(&mut self, now: Time, bytes: u64, rate: Rate) {
        let earliest = if now.as_nanos() > CREDIT.as_nanos() {
            Time::from_nanos(now.as_nanos() - CREDIT.as_nanos())
        } else {
            Time::ZERO
        };
        self.next = self.next.max(earliest) + rate.time_for(bytes);
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
                pacer.on_sent(now, 1500, rate);
                sent.push(now.since(start).as_nanos() / 1000);
            } else {
                now = pacer.next();
            }
        }
        assert_eq!(sent, [0, 0, 1000, 2000, 3000, 4000]);
    }
}
