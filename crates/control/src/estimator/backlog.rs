//! The backlog of Vegas: the part of the window that is queued.

use super::Rounds;
use crate::Span;
use crate::sample::AckSample;

/// N = cwnd (1 - BaseRTT / RTT): Brakmo and Peterson 1995; Fu and Liew 2003. RTT is the minimum of the last complete
/// round, so that a single late acknowledgement has no effect. BaseRTT is the minimum of all measurements.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backlog {
    rounds: Rounds,
    base: Option<Span>,
    current: Option<Span>,
    last: Option<Span>,
    samples: u32,
    last_samples: u32,
}

impl Backlog {
    /// Handles an acknowledgement. Returns whether it ended a round.
    pub fn on_ack(&mut self, ack: &AckSample) -> bool {
        let over = self.rounds.on_ack(ack);
        if let Some(rtt) = ack.rtt.filter(|rtt| !rtt.is_zero()) {
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
            self.current = Some(self.current.map_or(rtt, |current| current.min(rtt)));
            self.samples += 1;
        }
        if over {
            // After a round without a measurement, the previous values remain valid.
            self.last = self.current.take().or(self.last);
            self.last_samples = core::mem::take(&mut self.samples);
        }
        over
    }

    /// Returns the shortest round-trip time seen.
    pub fn base_rtt(&self) -> Option<Span> {
        self.base
    }

    /// Returns the minimum round-trip time of the last round or, before the first round has ended, of the current one.
    pub fn rtt(&self) -> Option<Span> {
        self.last.or(self.current)
    }

    /// Returns the number of round-trip times measured in the last round.
    pub fn samples_in_round(&self) -> u32 {
        self.last_samples
    }

    /// Returns the number of packets of this window that are queued, or `None` before the first measurement.
    pub fn packets(&self, cwnd: u64, unit: u64) -> Option<f64> {
        let (base, rtt) = (self.base?, self.rtt()?);
        let share = 1.0 - base.as_nanos() as f64 / rtt.as_nanos().max(1) as f64;
        Some(cwnd as f64 / unit.max(1) as f64 * share)
    }

    /// Discards the measurements, because the route may have changed.
    pub fn restart(&mut self) {
        *self = Backlog {
            base: self.base,
            rounds: self.rounds,
            ..Backlog::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;

    #[test]
    fn the_backlog_by_hand() {
        // 20 packets, 80 ms without queue, 100 ms now: 20 (1 - 80/100) = 4 are queued. Fu and Liew 2003, equation 1.
        let ack = |seq: u64, rtt| AckSample {
            newest: seq,
            next: seq + 1,
            rtt: Some(Span::from_millis(rtt)),
            ..AckSample::of(Time::ZERO, 1468, 1468)
        };
        let mut backlog = Backlog::default();
        assert_eq!(backlog.packets(20 * 1468, 1468), None);
        assert!(backlog.on_ack(&ack(0, 80)));
        assert!(backlog.on_ack(&ack(1, 100)));
        let packets = backlog.packets(20 * 1468, 1468).unwrap();
        assert!((packets - 4.0).abs() < 1e-9, "{packets}");
        assert_eq!(backlog.base_rtt(), Some(Span::from_millis(80)));
    }

    #[test]
    fn the_least_of_a_round_counts() {
        let ack = |seq, next, rtt| AckSample {
            newest: seq,
            next,
            rtt: Some(Span::from_millis(rtt)),
            ..AckSample::of(Time::ZERO, 1468, 1468)
        };
        let mut backlog = Backlog::default();
        backlog.on_ack(&ack(0, 3, 80));
        backlog.on_ack(&ack(1, 4, 200));
        backlog.on_ack(&ack(2, 5, 90));
        assert_eq!(backlog.rtt(), Some(Span::from_millis(80)));
        assert!(backlog.on_ack(&ack(3, 6, 150)));
        assert_eq!(backlog.rtt(), Some(Span::from_millis(90)));
        assert_eq!(backlog.samples_in_round(), 3);
    }
}
