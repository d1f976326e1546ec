//! Smoothed round-trip time and the retransmission timeout computed from it.
//!
//! RFC 9260 §6.3.1, the same rules as RFC 6298 for TCP.

use std::sync::Arc;

use crate::Span;

/// Constants of the estimator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RttConfig {
    /// RTO.Initial: the timeout before the first measurement.
    pub initial: Span,
    /// RTO.Min: the shortest timeout.
    pub min: Span,
    /// RTO.Max: the longest timeout.
    pub max: Span,
    /// RTO.Alpha: weight of a new sample in SRTT.
    pub alpha: f64,
    /// RTO.Beta: weight of a new deviation in RTTVAR.
    pub beta: f64,
}

impl Default for RttConfig {
    /// The values of RFC 9260 §16.
    fn default() -> Self {
        RttConfig {
            initial: Span::from_secs(1),
            min: Span::from_secs(1),
            max: Span::from_secs(60),
            alpha: 0.125,
            beta: 0.25,
        }
    }
}

/// The clock granularity G of rule G1: one nanosecond, that of [`crate::Time`].
const GRANULARITY: Span = Span::from_nanos(1);

/// SRTT, RTTVAR and RTO of one path.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    /// Shared by the paths of many associations.
    config: Arc<RttConfig>,
    /// Zero until the first measurement.
    srtt: Span,
    rttvar: Span,
    rto: Span,
    min_rtt: Span,
    /// Only short packets have been measured.
    is_short: bool,
}

impl RttEstimator {
    /// Creates an estimator without measurements (rule C1).
    pub fn new(config: Arc<RttConfig>) -> Self {
        RttEstimator {
            srtt: Span::ZERO,
            rttvar: Span::ZERO,
            rto: config.initial,
            config,
            min_rtt: Span::MAX,
            is_short: false,
        }
    }

    /// Records a measurement. Ends any back-off: the RTO is computed from the estimates again.
    pub fn on_sample(&mut self, rtt: Span) {
        let rtt = rtt.max(GRANULARITY);
        if core::mem::take(&mut self.is_short) {
            self.min_rtt = rtt;
        }
        self.min_rtt = self.min_rtt.min(rtt);
        self.update(rtt);
    }

    /// Records a measurement with a short packet, such as a HEARTBEAT. It takes less time on a slow link than a packet with data, and would
    /// be mistaken for the time without a queue: it counts as the shortest round-trip time only until a packet with data is measured.
    pub fn on_short_sample(&mut self, rtt: Span) {
        let rtt = rtt.max(GRANULARITY);
        if self.is_short || self.min_rtt == Span::MAX {
            self.is_short = true;
            self.min_rtt = self.min_rtt.min(rtt);
        }
        self.update(rtt);
    }

    fn update(&mut self, rtt: Span) {
        if self.srtt.is_zero() {
            // Rule C2
            self.srtt = rtt;
            self.rttvar = rtt / 2;
        } else {
            // Rule C3: RTTVAR is updated with the previous SRTT.
            let deviation = (self.srtt - rtt).max(rtt - self.srtt);
            self.rttvar = blend(self.rttvar, deviation, self.config.beta);
            self.srtt = blend(self.srtt, rtt, self.config.alpha);
        }
        // Rule G1, then C6 and C7
        self.rttvar = self.rttvar.max(GRANULARITY);
        self.rto = (self.srtt + self.rttvar * 4).clamp(self.config.min, self.config.max);
    }

    /// Doubles the RTO after its expiration, up to RTO.Max (RFC 9260 §6.3.3 rule E2).
    pub fn back_off(&mut self) {
        self.rto = (self.rto * 2).min(self.config.max);
    }

    /// Ends the back-off without a measurement: the timeouts are known to say nothing about what is sent from now on.
    pub fn end_back_off(&mut self) {
        let rto = self.computed().unwrap_or(self.config.initial);
        self.rto = rto.clamp(self.config.min, self.config.max);
    }

    /// Returns the RTO of the latest measurement, before its bounds and any back-off, or `None` before the first
    /// measurement.
    pub fn computed(&self) -> Option<Span> {
        self.srtt().map(|srtt| srtt + self.rttvar * 4)
    }

    /// Returns the current RTO.
    pub fn rto(&self) -> Span {
        self.rto
    }

    /// Returns the smoothed round-trip time, or `None` before the first measurement.
    pub fn srtt(&self) -> Option<Span> {
        (!self.srtt.is_zero()).then_some(self.srtt)
    }

    /// Returns the round-trip time variation.
    pub fn rttvar(&self) -> Span {
        self.rttvar
    }

    /// Returns the shortest round-trip time seen, or `None` before the first measurement.
    pub fn min_rtt(&self) -> Option<Span> {
        (self.min_rtt != Span::MAX).then_some(self.min_rtt)
    }
}

/// `(1 - weight) * old + weight * new`
fn blend(old: Span, new: Span, weight: f64) -> Span {
    Span::from_nanos(((1.0 - weight) * old.as_nanos() as f64 + weight * new.as_nanos() as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Span {
        Span::from_millis(n)
    }

    fn estimator() -> RttEstimator {
        RttEstimator::new(Arc::new(RttConfig {
            min: ms(10),
            ..RttConfig::default()
        }))
    }

    #[test]
    fn a_short_packet_gives_the_shortest_time_until_data_is_measured() {
        let mut rtt = estimator();
        rtt.on_short_sample(ms(46));
        rtt.on_short_sample(ms(47));
        assert_eq!((rtt.min_rtt(), rtt.srtt().is_some()), (Some(ms(46)), true));
        rtt.on_sample(ms(53));
        assert_eq!(rtt.min_rtt(), Some(ms(53)));
        rtt.on_short_sample(ms(46));
        rtt.on_sample(ms(55));
        assert_eq!(rtt.min_rtt(), Some(ms(53)));
    }

    #[test]
    fn first_and_second_sample_by_hand() {
        // RFC 9260 §6.3.1 rules C1, C2, C3
        let mut rtt = estimator();
        assert_eq!((rtt.rto(), rtt.srtt()), (Span::from_secs(1), None));
        rtt.on_sample(ms(100));
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(100)), ms(50), ms(300)));
        rtt.on_sample(ms(180));
        // RTTVAR = 3/4 * 50 + 1/4 * 80, SRTT = 7/8 * 100 + 1/8 * 180
        assert_eq!(
            (rtt.srtt(), rtt.rttvar(), rtt.rto()),
            (Some(ms(110)), Span::from_micros(57_500), ms(340))
        );
        assert_eq!(rtt.min_rtt(), Some(ms(100)));
    }

    #[test]
    fn the_timeout_stays_between_its_bounds() {
        // Rules C6 and C7
        let mut rtt = RttEstimator::new(Arc::default());
        rtt.on_sample(ms(20));
        assert_eq!(rtt.rto(), Span::from_secs(1));
        rtt.on_sample(Span::from_secs(500));
        assert_eq!(rtt.rto(), Span::from_secs(60));
    }

    #[test]
    fn back_off_doubles_and_a_sample_ends_it() {
        // RFC 9260 §6.3.3 rule E2 and the paragraph on collapsing the timeout
        let mut rtt = estimator();
        rtt.on_sample(ms(100));
        for expected in [600, 1200, 2400] {
            rtt.back_off();
            assert_eq!(rtt.rto(), ms(expected));
        }
        for _ in 0..10 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), Span::from_secs(60));
        assert_eq!(rtt.computed(), Some(ms(300)), "knows of no back-off");
        rtt.on_sample(ms(100));
        assert_eq!(rtt.rto(), Span::from_micros(250_000));
        rtt.back_off();
        rtt.end_back_off();
        assert_eq!(rtt.rto(), Span::from_micros(250_000));
        let mut new = estimator();
        let initial = new.rto();
        new.back_off();
        new.end_back_off();
        assert_eq!(new.rto(), initial, "nothing measured");
    }

    #[test]
    fn constant_samples_leave_a_variation_of_one_tick() {
        // Rule G1
        let mut rtt = estimator();
        for _ in 0..1000 {
            rtt.on_sample(ms(100));
        }
        assert!(!rtt.rttvar().is_zero());
        assert!(rtt.rttvar() < Span::from_micros(1));
    }
}
