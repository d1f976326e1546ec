//! Estimates of the bandwidth that a path provides to a sender, computed from acknowledgements.

use crate::sample::AckSample;
use crate::{Span, Time};

/// The estimate of TCP Jersey, New Jersey and JSCTP (Chen et al. 2011, equation 9): R = (RTT R' + L) / (t - t' + RTT).
///
/// `t` is the arrival time of the data by the receiver's timestamps (New Jersey's TABE), or the arrival time of its
/// acknowledgement (Jersey's ABE).
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrivalRate {
    /// Bytes per second.
    rate: f64,
    last: Option<Time>,
}

impl ArrivalRate {
    /// Records that `bytes` arrived at `time`. The round-trip time is the averaging window.
    pub fn take(&mut self, time: Time, bytes: u64, rtt: Span) {
        let rtt = rtt.as_secs_f64();
        if rtt <= 0.0 {
            return;
        }
        // An overtaken packet counts as arriving together with those that overtook it.
        let apart = self.last.map_or(0.0, |last| time.since(last).as_secs_f64());
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
        self.rate = (rtt * self.rate + bytes as f64) / (apart + rtt);
    }

    /// Returns the estimate in bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.rate
    }

    /// Returns the bytes in flight that fill a path with this round-trip time (equation 10).
    pub fn pipe(&self, rtt: Span) -> u64 {
        (self.rate * rtt.as_secs_f64()) as u64
    }
}

/// The estimate of Westwood+ (Mascolo et al. 2004; the constants are those of Linux): one sample per round-trip time,
/// but over at least 50 ms, passed through two filters of weight 1/8 in series.
#[derive(Clone, Copy, Debug, Default)]
pub struct WestwoodFilter {
    since: Option<Time>,
    bytes: u64,
    /// Bytes per second, filtered once and twice.
    first: f64,
    second: f64,
}

/// The minimum duration of a sample.
const SHORTEST: Span = Span::from_millis(50);

impl WestwoodFilter {
    /// Handles an acknowledgement.
    pub fn on_ack(&mut self, ack: &AckSample) {
        let Some(since) = self.since else {
            // The data of the first acknowledgement was sent before the measurement started.
            self.since = Some(ack.now);
            return;
        };
        self.bytes = self.bytes.saturating_add(ack.acked);
        let elapsed = ack.now.since(since);
        if elapsed < SHORTEST.max(ack.srtt.or(ack.rtt).unwrap_or(SHORTEST)) {
            return;
        }
        let sample = self.bytes as f64 / elapsed.as_secs_f64();
        if self.first <= 0.0 {
            self.first = sample;
            self.second = sample;
        } else {
            self.first += (sample - self.first) / 8.0;
            self.second += (self.first - self.second) / 8.0;
        }
        self.bytes = 0;
        self.since = Some(ack.now);
    }

    /// Returns the estimate in bytes per second, or `None` before the first sample.
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.second > 0.0).then_some(self.second)
    }

    /// Returns the bytes in flight that fill a path with this round-trip time.
    pub fn pipe(&self, rtt: Span) -> Option<u64> {
        Some((self.bytes_per_second()? * rtt.as_secs_f64()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabe_by_hand() {
        // Chen, equation 9, with RTT = 100 ms and 1456 bytes each 10 ms:
        // R1 = 1456 / 0.1 = 14560; R2 = (0.1 R1 + 1456) / 0.11 = 26472.7; the limit is 145600 bytes/s.
        let rtt = Span::from_millis(100);
        let mut rate = ArrivalRate::default();
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        rate.take(at(0), 1456, rtt);
        assert!((rate.bytes_per_second() - 14560.0).abs() < 1e-6);
        rate.take(at(10), 1456, rtt);
        assert!((rate.bytes_per_second() - 2912.0 / 0.11).abs() < 1e-6);
        for step in 2..400 {
            rate.take(at(10 * step), 1456, rtt);
        }
        assert!((rate.bytes_per_second() - 145_600.0).abs() < 1.0, "{rate:?}");
        // Equation 10: 0.1 s of it
        assert!((14_559..=14_560).contains(&rate.pipe(rtt)), "{}", rate.pipe(rtt));
    }

    #[test]
    fn a_pause_lowers_the_rate_and_order_does_not_matter() {
        let rtt = Span::from_millis(100);
        let mut rate = ArrivalRate::default();
        rate.take(Time::from_nanos(1_000_000_000), 100_000, rtt);
        let before = rate.bytes_per_second();
        rate.take(Time::from_nanos(900_000_000), 1456, rtt);
        assert!(
            (rate.bytes_per_second() - (before + 14_560.0)).abs() < 1e-6,
            "overtaken: no time passed"
        );
        rate.take(Time::from_nanos(2_000_000_000), 1456, rtt);
        assert!(rate.bytes_per_second() < before / 5.0);
    }

    #[test]
    fn westwood_samples_once_in_a_round_trip_time() {
        let mut filter = WestwoodFilter::default();
        let ack = |ms: u64, acked| AckSample {
            srtt: Some(Span::from_millis(100)),
            ..AckSample::of(Time::from_nanos(ms * 1_000_000), acked, acked)
        };
        filter.on_ack(&ack(0, 1500));
        filter.on_ack(&ack(50, 5000));
        assert_eq!(filter.bytes_per_second(), None);
        filter.on_ack(&ack(100, 5000));
        let first = filter.bytes_per_second().unwrap();
        assert!((first - 100_000.0).abs() < 1e-6, "{first}");
        // 200 kB/s from now on: after one sample the two filters have moved by 1/64 of the step.
        filter.on_ack(&ack(200, 20_000));
        let second = filter.bytes_per_second().unwrap();
        assert!((second - (100_000.0 + 100_000.0 / 64.0)).abs() < 1e-6, "{second}");
        assert_eq!(filter.pipe(Span::from_millis(100)), Some((second * 0.1) as u64));
    }
}
