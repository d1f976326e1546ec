//! Measures of a path's quality, for the user and for path policies. They are updated once per round-trip time or per
//! loss, not per packet.

use whimbrel_control::{Rate, Span, Time, Verdict};

use crate::config::NEVER;

/// Measures of a path's quality, as the sender sees it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PathQuality {
    /// Recent share of DATA chunks declared lost, 0 to 1: a moving average over about 1000 chunks. Chunks declared lost
    /// spuriously count as well.
    pub loss: f64,
    /// Smoothed difference between consecutive round-trip times (the filter of RFC 3550 §6.4.1).
    pub jitter: Span,
    /// Recent rate of acknowledged bytes, including chunk headers, while the path had data in flight. `None` before the
    /// first measurement, which takes two round trips without an idle period. Zero from a retransmission timeout to the next measurement.
    pub delivery_rate: Option<Rate>,
    /// Losses by verdict.
    pub judged: JudgedLosses,
}

/// DATA chunks declared lost, by the verdict of the discriminator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JudgedLosses {
    /// Losses judged as congestion.
    pub congestion: u64,
    /// Losses judged as transmission errors.
    pub transmission: u64,
    /// Losses without a verdict.
    pub unsure: u64,
}

impl JudgedLosses {
    pub(crate) fn count(&mut self, verdict: Verdict, chunks: u32) {
        let counter = match verdict {
            Verdict::Congestion => &mut self.congestion,
            Verdict::Transmission => &mut self.transmission,
            Verdict::Unsure => &mut self.unsure,
        };
        *counter += u64::from(chunks);
    }
}

/// Counts of chunks delivered and lost. Both are halved each time the total reaches [`MEMORY`], so recent chunks have
/// more weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LossShare {
    lost: u32,
    all: u32,
}

/// Total at which both counts are halved.
const MEMORY: u32 = 1 << 10;

impl LossShare {
    #[inline]
    pub(crate) fn on_delivered(&mut self, chunks: u32) {
        self.all = self.all.saturating_add(chunks);
        if self.all >= MEMORY {
            self.lost /= 2;
            self.all /= 2;
        }
    }

    /// Chunks were declared lost. Chunks declared lost spuriously count as well.
    pub(crate) fn on_lost(&mut self, chunks: u32) {
        self.lost = self.lost.saturating_add(chunks);
        self.on_delivered(chunks);
    }

    /// Returns the share of lost chunks, 0 to 1; 0 for a path that has carried no data.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.lost) / f64::from(self.all.max(1))
    }
}

/// The state from which [`PathQuality`] is computed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Quality {
    pub(crate) losses: LossShare,
    /// [`Span::MAX`] before the first measurement.
    last_rtt: Span,
    jitter: Span,
    rate: Option<Rate>,
    /// When the measurement of the rate started, [`NEVER`] while none goes on, and the bytes delivered by then.
    mark: (Time, u64),
    pub(crate) judged: JudgedLosses,
}

impl Default for Quality {
    fn default() -> Self {
        Quality {
            losses: LossShare::default(),
            last_rtt: Span::MAX,
            jitter: Span::ZERO,
            rate: None,
            mark: (NEVER, 0),
            judged: JudgedLosses::default(),
        }
    }
}

impl Quality {
    /// A round-trip time was measured; `delivered` is the total of bytes delivered. `busy`: data is in flight.
    pub(crate) fn on_rtt(&mut self, now: Time, rtt: Span, delivered: u64, busy: bool) {
        let last = core::mem::replace(&mut self.last_rtt, rtt);
        if last != Span::MAX {
            // RFC 3550 §6.4.1: J += (|D| - J) / 16
            let (jitter, change) = (self.jitter.as_nanos(), rtt.as_nanos().abs_diff(last.as_nanos()));
            self.jitter = Span::from_nanos(jitter - jitter / 16 + change / 16);
        }
        let (since, before) = self.mark;
        if since != NEVER {
            let passed = now.since(since);
            if busy && passed < rtt {
                // An interval shorter than a round trip gives no reliable rate.
                return;
            }
            if delivered > before && !passed.is_zero() {
                let sample = Rate::of(delivered - before, passed);
                self.rate = Some(match self.rate.map_or(0, Rate::as_bps) {
                    0 => sample,
                    rate => Rate::from_bps(rate - rate / 4 + sample.as_bps() / 4),
                });
            }
        }
        // Idle periods do not reduce the rate.
        self.mark = if busy { (now, delivered) } else { (NEVER, 0) };
    }

    /// All data in flight has timed out: nothing arrives.
    pub(crate) fn on_timeout(&mut self) {
        self.rate = self.rate.map(|_| Rate::default());
        self.mark = (NEVER, 0);
    }

    pub(crate) fn measures(&self) -> PathQuality {
        PathQuality {
            loss: self.losses.share(),
            jitter: self.jitter,
            delivery_rate: self.rate,
            judged: self.judged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn rfc_3550_6_4_1_jitter_is_the_smoothed_difference_of_round_trip_times() {
        let mut quality = Quality::default();
        quality.on_rtt(at(0), Span::from_millis(100), 0, true);
        assert_eq!(quality.jitter, Span::ZERO, "one measurement gives no jitter");
        quality.on_rtt(at(100), Span::from_millis(116), 0, true);
        assert_eq!(quality.jitter, Span::from_millis(1));
        quality.on_rtt(at(200), Span::from_millis(100), 0, true);
        // 1 + (16 - 1) / 16
        assert_eq!(quality.jitter, Span::from_nanos(1_937_500));
        for n in 0..200 {
            quality.on_rtt(at(300 + n), Span::from_millis(100), 0, true);
        }
        assert!(quality.jitter < Span::from_micros(1), "{quality:?}");
    }

    #[test]
    fn the_delivery_rate_excludes_idle_periods() {
        let mut quality = Quality::default();
        let rtt = Span::from_millis(100);
        quality.on_rtt(at(0), rtt, 0, true);
        assert_eq!(quality.measures().delivery_rate, None);
        quality.on_rtt(at(100), rtt, 12_500, true);
        assert_eq!(quality.measures().delivery_rate, Some(Rate::from_mbps(1)));
        quality.on_rtt(at(150), rtt, 99_999, true);
        assert_eq!(
            quality.measures().delivery_rate,
            Some(Rate::from_mbps(1)),
            "half of a round trip"
        );
        // 5 Mbit/s, of which a quarter counts.
        quality.on_rtt(at(200), rtt, 75_000, false);
        assert_eq!(quality.measures().delivery_rate, Some(Rate::from_mbps(2)));
        // A heartbeat, and data again after a minute.
        quality.on_rtt(at(30_000), rtt, 75_000, false);
        quality.on_rtt(at(60_000), rtt, 76_000, true);
        assert_eq!(
            quality.measures().delivery_rate,
            Some(Rate::from_mbps(2)),
            "the pause does not count"
        );
    }

    #[test]
    fn the_delivery_rate_is_zero_from_a_timeout_to_the_next_measurement() {
        let mut quality = Quality::default();
        let rtt = Span::from_millis(100);
        quality.on_timeout();
        assert_eq!(quality.measures().delivery_rate, None, "never measured");
        quality.on_rtt(at(0), rtt, 0, true);
        quality.on_rtt(at(100), rtt, 12_500, true);
        quality.on_timeout();
        assert_eq!(quality.measures().delivery_rate, Some(Rate::default()));
        // The outage does not count, nor does the rate before it.
        quality.on_rtt(at(9000), rtt, 12_500, true);
        assert_eq!(quality.measures().delivery_rate, Some(Rate::default()));
        quality.on_rtt(at(9100), rtt, 37_500, true);
        assert_eq!(quality.measures().delivery_rate, Some(Rate::from_mbps(2)));
    }

    #[test]
    fn losses_are_counted_by_verdict() {
        let mut judged = JudgedLosses::default();
        judged.count(Verdict::Congestion, 2);
        judged.count(Verdict::Transmission, 3);
        judged.count(Verdict::Unsure, 1);
        assert_eq!((judged.congestion, judged.transmission, judged.unsure), (2, 3, 1));
    }

    #[test]
    fn the_loss_rate_follows_recent_losses() {
        let mut losses = LossShare::default();
        assert_eq!(losses.share(), 0.0);
        losses.on_delivered(99);
        losses.on_lost(1);
        assert_eq!(losses.share(), 0.01);
        // For a long time, one chunk in eleven is lost.
        for _ in 0..2000 {
            losses.on_delivered(10);
            losses.on_lost(1);
        }
        assert!((losses.share() - 1.0 / 11.0).abs() < 0.01, "{losses:?}");
        (0..2000).for_each(|_| losses.on_delivered(10));
        assert!(losses.share() < 0.001, "{losses:?}");
    }
}
