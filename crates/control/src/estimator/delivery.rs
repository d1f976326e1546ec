//! Delivery rate of a path, measured from the sending of a packet to its acknowledgement.
//!
//! Cheng et al., draft-cheng-iccrg-delivery-rate-estimation-00. The interval of the rate is the longer one of the time
//! in which the data was sent and the time in which it was acknowledged. Therefore neither bursts nor compressed
//! acknowledgements increase the rate.

use crate::sample::RateSample;
use crate::{Span, Time};

/// State recorded when a packet is sent, stored with the packet until it is acknowledged (draft-cheng §2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendStamp {
    /// When the packet was sent.
    pub sent_at: Time,
    /// When the packet that starts the sending interval was sent.
    pub first_sent_at: Time,
    /// When data was last delivered before the packet was sent.
    pub delivered_at: Time,
    /// Bytes delivered on the path before the packet was sent.
    pub delivered: u64,
    /// Bytes sent on the path up to the start of the sending interval.
    pub sent_before: u64,
    /// Bytes sent on the path, including the packet.
    pub sent: u64,
    /// Bytes declared lost on the path before the packet was sent.
    pub lost: u64,
    /// Bytes in flight, including the packet.
    pub flight: u64,
    /// Whether the application had no more data to send.
    pub app_limited: bool,
}

/// The delivery rate of one path.
///
/// Call [`on_sent`](Self::on_sent) for each packet. For each acknowledgement call [`on_delivered`](Self::on_delivered),
/// and then [`sample`](Self::sample) with the stamp of the newest packet that it newly acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryEstimator {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Bytes sent so far, and up to the packet sent at `first_sent_at`.
    sent: u64,
    first_sent: u64,
    lost: u64,
    /// Until this many bytes are delivered, rates are limited by the application.
    app_limited_until: u64,
}

impl DeliveryEstimator {
    /// A packet of `bytes` bytes is sent or retransmitted, while `flight` bytes are in flight without it.
    #[inline]
    pub fn on_sent(&mut self, now: Time, bytes: u64, flight: u64) -> SendStamp {
        if flight == 0 {
            // draft-cheng §3.2: a new sending interval begins.
            self.first_sent_at = now;
            self.first_sent = self.sent;
            self.delivered_at = now;
        }
        self.sent = self.sent.saturating_add(bytes);
        SendStamp {
            sent_at: now,
            first_sent_at: self.first_sent_at,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            sent_before: self.first_sent,
            sent: self.sent,
            lost: self.lost,
            flight: flight.saturating_add(bytes),
            app_limited: self.app_limited_until > 0,
        }
    }

    /// `bytes` bytes are newly acknowledged.
    #[inline]
    pub fn on_delivered(&mut self, now: Time, bytes: u64) {
        self.delivered = self.delivered.saturating_add(bytes);
        self.delivered_at = now;
        if self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
    }

    /// `bytes` bytes are declared lost.
    #[inline]
    pub fn on_lost(&mut self, bytes: u64) {
        self.lost = self.lost.saturating_add(bytes);
    }

    /// The application has no more data to send although the window has room; `flight` bytes are in flight (draft-cheng
    /// §3.4).
    #[inline]
    pub fn on_app_limited(&mut self, flight: u64) {
        self.app_limited_until = self.delivered.saturating_add(flight).max(1);
    }

    /// Returns the bytes delivered so far.
    #[inline]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the rate since the newest packet just acknowledged was sent. Returns `None` if the interval is shorter
    /// than any round-trip time, which happens for retransmitted packets whose original arrived (draft-cheng §3.3).
    #[inline]
    pub fn sample(&mut self, stamp: &SendStamp, min_rtt: Option<Span>) -> Option<RateSample> {
        if stamp.sent_at >= self.first_sent_at {
            self.first_sent_at = stamp.sent_at;
            self.first_sent = stamp.sent;
        }
        let sending = stamp.sent_at.since(stamp.first_sent_at);
        let acknowledging = self.delivered_at.since(stamp.delivered_at);
        let interval = sending.max(acknowledging);
        let too_short = interval.is_zero() || min_rtt.is_some_and(|min_rtt| interval < min_rtt);
        (!too_short).then(|| RateSample {
            // An acknowledgement that fills a gap may report data that was delivered long before: no more than the data
            // sent in the interval counts.
            delivered: self
                .delivered
                .saturating_sub(stamp.delivered)
                .min(stamp.sent.saturating_sub(stamp.sent_before)),
            interval,
            prior_delivered: stamp.delivered,
            lost: self.lost.saturating_sub(stamp.lost),
            lost_so_far: self.lost,
            flight_at_send: stamp.flight,
            app_limited: stamp.app_limited,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;

    fn ms(n: u64) -> Time {
        Time::from_nanos(n * 1_000_000)
    }

    #[test]
    fn a_steady_stream_is_measured_exactly() {
        // A packet of 1500 bytes every 10 ms, acknowledged 100 ms later: 1.2 Mbit/s.
        let mut estimator = DeliveryEstimator::default();
        let mut stamps = Vec::new();
        let mut rates = Vec::new();
        for step in 0..50 {
            if step >= 10 {
                estimator.on_delivered(ms(step * 10), 1500);
                let stamp: SendStamp = stamps[(step - 10) as usize];
                let sample = estimator.sample(&stamp, Some(Span::from_millis(100))).unwrap();
                rates.push(Rate::of(sample.delivered, sample.interval).as_bps());
                assert_eq!(sample.prior_delivered, stamp.delivered);
            }
            let flight = 1500 * step.min(9);
            stamps.push(estimator.on_sent(ms(step * 10), 1500, flight));
        }
        assert_eq!(rates[0], 120_000, "one packet in the first 100 ms");
        assert!(rates[20..].iter().all(|&rate| rate == 1_200_000), "{rates:?}");
    }

    #[test]
    fn compressed_acknowledgements_do_not_raise_the_rate() {
        // Ten packets sent over 90 ms are all acknowledged at 200 ms: at most 15000 bytes in 90 ms count, and the
        // acknowledgement interval is longer still.
        let mut estimator = DeliveryEstimator::default();
        let stamps: Vec<_> = (0..10)
            .map(|step| estimator.on_sent(ms(step * 10), 1500, step * 1500))
            .collect();
        estimator.on_delivered(ms(200), 15_000);
        let sample = estimator.sample(&stamps[9], Some(Span::from_millis(100))).unwrap();
        assert_eq!((sample.delivered, sample.interval), (15_000, Span::from_millis(200)));
    }

    #[test]
    fn old_deliveries_reported_late_do_not_raise_the_rate() {
        // A window of 40 packets is outstanding, and the first one is lost. After a timeout nothing is in flight. The
        // first packet is retransmitted and fills the gap 100 ms later: its acknowledgement reports all 40, of which
        // one was sent in the interval.
        let mut estimator = DeliveryEstimator::default();
        for step in 0..40 {
            estimator.on_sent(ms(10 * step), 1500, 1500 * step);
        }
        let again = estimator.on_sent(ms(1400), 1500, 0);
        estimator.on_delivered(ms(1500), 40 * 1500);
        let sample = estimator.sample(&again, Some(Span::from_millis(100))).unwrap();
        assert_eq!((sample.delivered, sample.interval), (1500, Span::from_millis(100)));
    }

    #[test]
    fn bursts_of_sending_are_measured_by_their_acknowledgements() {
        let mut estimator = DeliveryEstimator::default();
        let stamps: Vec<_> = (0..4).map(|n| estimator.on_sent(ms(0), 1500, n * 1500)).collect();
        for (n, stamp) in stamps.iter().enumerate() {
            estimator.on_delivered(ms(100 + 10 * n as u64), 1500);
            let sample = estimator.sample(stamp, None).unwrap();
            assert_eq!(sample.interval, Span::from_millis(100 + 10 * n as u64));
        }
    }

    #[test]
    fn what_the_user_limits_is_said_until_it_is_delivered() {
        let mut estimator = DeliveryEstimator::default();
        let first = estimator.on_sent(ms(0), 1500, 0);
        estimator.on_app_limited(1500);
        let second = estimator.on_sent(ms(10), 1500, 1500);
        assert!(!first.app_limited && second.app_limited);
        estimator.on_delivered(ms(100), 1500);
        assert!(
            estimator.on_sent(ms(105), 1500, 1500).app_limited,
            "not more than was in flight is delivered"
        );
        estimator.on_delivered(ms(110), 1500);
        assert!(!estimator.on_sent(ms(111), 1500, 1500).app_limited);
        assert_eq!(
            estimator.sample(&second, Some(Span::from_millis(500))),
            None,
            "sooner than any packet can be"
        );
    }

    #[test]
    fn a_sample_has_the_losses_since_its_packet_was_sent() {
        let mut estimator = DeliveryEstimator::default();
        estimator.on_lost(3000);
        let stamp = estimator.on_sent(ms(0), 1500, 0);
        estimator.on_lost(1500);
        estimator.on_delivered(ms(100), 1500);
        assert_eq!(estimator.sample(&stamp, None).unwrap().lost, 1500);
    }
}
