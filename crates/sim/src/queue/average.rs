//! The average length of a queue.

use whimbrel_control::{Rate, Span};

use super::{Occupancy, QueueUnit};

/// Exponentially weighted moving average of a queue's length, updated at each arrival (Floyd and Jacobson 1993, section IV).
///
/// The packet in transmission does not count. Arrivals while nothing is queued see a length of zero. While the transmitter is idle,
/// the average decreases as if a typical packet had arrived each time one could have been sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Average {
    value: f64,
    weight: f64,
    unit: QueueUnit,
    typical_packet: u32,
    /// Transmission time of a typical packet, ns.
    typical_time: f64,
}

impl Average {
    pub(super) fn new(unit: QueueUnit, weight: f64, typical_packet: u32, rate: Rate) -> Self {
        let mut average = Average {
            value: 0.0,
            weight,
            unit,
            typical_packet,
            typical_time: 1.0,
        };
        average.set_rate(rate);
        average
    }

    /// Sets the transmitter's rate.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        self.typical_time = rate.time_for(u64::from(self.typical_packet)).as_nanos().max(1) as f64;
    }

    /// Returns a length in the unit of the average.
    pub(super) fn length(&self, waiting: Occupancy) -> f64 {
        match self.unit {
            QueueUnit::Packets => f64::from(waiting.packets),
            QueueUnit::Bytes => waiting.bytes as f64,
        }
    }

    /// Updates the average at an arrival. `waiting` is the queue length before it, `idle` how long the transmitter has been idle.
    pub(super) fn update(&mut self, waiting: Occupancy, idle: Option<Span>) {
        match idle {
            // An average of zero stays zero: the common case.
            Some(_) if self.value == 0.0 => {}
            Some(idle) => self.value *= libm::pow(1.0 - self.weight, idle.as_nanos() as f64 / self.typical_time),
            None => self.value += self.weight * (self.length(waiting) - self.value),
        }
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an average at 12 Mbit/s: a typical packet takes a millisecond.
    fn average(unit: QueueUnit, weight: f64) -> Average {
        Average::new(unit, weight, 1500, Rate::from_mbps(12))
    }

    fn waiting(packets: u32) -> Occupancy {
        Occupancy {
            packets,
            bytes: u64::from(packets) * 1000,
        }
    }

    #[track_caller]
    fn assert_near(average: &Average, expected: f64) {
        assert!(
            (average.value() - expected).abs() < 1e-9,
            "{} and {expected}",
            average.value()
        );
    }

    #[test]
    fn every_arrival_updates_the_average() {
        // Computed by hand with w = 1/4: 0, 4 -> 1, 8 -> 2.75, 0 -> 2.0625
        let mut of_packets = average(QueueUnit::Packets, 0.25);
        let mut of_bytes = average(QueueUnit::Bytes, 0.25);
        for (packets, expected) in [(0, 0.0), (4, 1.0), (8, 2.75), (0, 2.0625)] {
            of_packets.update(waiting(packets), None);
            of_bytes.update(waiting(packets), None);
            assert_near(&of_packets, expected);
            assert_near(&of_bytes, expected * 1000.0);
        }
    }

    #[test]
    fn a_growing_queue_follows_equation_2_of_the_paper() {
        // Floyd and Jacobson 1993, equation 2: from an empty queue growing by one packet per arrival, after L arrivals
        // avg = L + 1 + ((1 - w)^(L + 1) - 1) / w.
        let w = 0.002;
        let mut average = average(QueueUnit::Packets, w);
        for packets in 1..=50 {
            average.update(waiting(packets), None);
        }
        assert_near(&average, 51.0 + (f64::powi(1.0 - w, 51) - 1.0) / w);
    }

    #[test]
    fn idle_time_counts_as_arrivals_at_an_empty_queue() {
        // Two milliseconds are two typical packets: (3/4)^2 of the previous value
        let mut idle = average(QueueUnit::Packets, 0.25);
        idle.update(waiting(16), None);
        let mut busy = idle;
        idle.update(waiting(0), Some(Span::from_millis(2)));
        assert_near(&idle, 4.0 * 0.5625);
        busy.update(waiting(0), None);
        busy.update(waiting(0), None);
        assert_near(&busy, idle.value());
        idle.update(waiting(0), Some(Span::ZERO));
        assert_near(&idle, busy.value());
    }
}
