//! Full-queue round-trip time: an isolated loss while the round-trip time is clearly below that of a full queue is a transmission loss
//! (quicly, pull request 687).

use super::Discriminate;
use crate::Span;
use crate::epoch::RecoveryEpoch;
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, LossSignal, Verdict};
use crate::view::WindowView;

/// Parameters of the rule with the full-queue round-trip time.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct FqRttParameters {
    /// A loss is congestion if the round-trip time exceeds its minimum by at least this, 0 s to 10 s (quicly, pull request 687: 5 ms).
    /// Active queues such as CoDel drop packets while the queue is short.
    pub guard: Span,
}

impl Default for FqRttParameters {
    fn default() -> Self {
        FqRttParameters {
            guard: Span::from_millis(5),
        }
    }
}

impl Part<dyn Discriminate> for FqRttParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("guard", self.guard.as_secs_f64(), 0.0, 10.0, "s")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(FqRtt::new(*self))
    }
}

/// The first variance: the source does not state its own. This is that of the author's estimator in an earlier draft-kazuho-ccwg-abba. With
/// half of the first sample, as in RFC 6298, every loss would be congestion until the second one.
const FIRST_VARIANCE: Span = Span::from_millis(5);

/// The round-trip time of a full queue, with the weights of RFC 6298, as in that draft.
#[derive(Clone, Copy, PartialEq, Debug)]
struct FullQueue {
    smoothed: Span,
    variance: Span,
}

impl FullQueue {
    /// Returns the first estimate.
    fn first(rtt: Span) -> Self {
        FullQueue {
            smoothed: rtt,
            variance: FIRST_VARIANCE,
        }
    }

    /// Returns the next estimate (RFC 6298 §2.3).
    fn next(self, rtt: Span) -> Self {
        let deviation = (self.smoothed - rtt).max(rtt - self.smoothed);
        FullQueue {
            smoothed: (self.smoothed * 7 + rtt) / 8,
            variance: (self.variance * 3 + deviation) / 4,
        }
    }
}

/// Losses that belong together: of one round trip, or of one recovery.
#[derive(Clone, Copy, Debug, Default)]
struct Episode {
    /// The data that was outstanding at its first loss, or at the verdict of congestion.
    data: RecoveryEpoch,
    /// Packets lost.
    lost: u32,
    /// The least of the round-trip times at its losses.
    rtt: Option<Span>,
    is_congestion: bool,
}

impl Episode {
    fn of(loss: &LossEvent) -> Self {
        let mut episode = Episode::default();
        episode.data.enter(loss.next.saturating_sub(1));
        episode
    }

    fn add(&mut self, loss: &LossEvent, latest: Option<Span>) {
        self.lost = self.lost.saturating_add(loss.lost());
        self.rtt = least(self.rtt, latest);
    }
}

/// Returns the smaller one of two times that may be unknown.
fn least(one: Option<Span>, other: Option<Span>) -> Option<Span> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[derive(Clone, Debug)]
struct FqRtt {
    parameters: FqRttParameters,
    latest: Option<Span>,
    min_rtt: Option<Span>,
    full: Option<FullQueue>,
    episode: Episode,
}

impl FqRtt {
    fn new(parameters: FqRttParameters) -> Self {
        FqRtt {
            parameters,
            latest: None,
            min_rtt: None,
            full: None,
            episode: Episode::default(),
        }
    }

    /// Ends the episode. It is a sample of the full queue if it is the first one, or if it had several losses: those of a full queue come
    /// together. Such episodes are recoveries.
    fn finish(&mut self) {
        let episode = core::mem::take(&mut self.episode);
        let Some(rtt) = episode.rtt else { return };
        match self.full {
            None => self.full = Some(FullQueue::first(rtt)),
            Some(full) if episode.lost > 1 => self.full = Some(full.next(rtt)),
            Some(_) => {}
        }
    }

    /// Returns whether the round-trip time at a loss is that of a full queue.
    fn is_full(&self, full: FullQueue) -> bool {
        let (Some(latest), Some(min_rtt)) = (self.latest, self.min_rtt) else {
            return true;
        };
        latest >= (full.smoothed - full.variance).min(min_rtt + self.parameters.guard)
    }
}

impl Discriminate for FqRtt {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        if ack.rtt.is_some() {
            self.latest = ack.rtt;
            self.min_rtt = least(self.min_rtt, ack.rtt);
        }
        let Some(acked) = ack.acked_to.checked_sub(1) else {
            return;
        };
        if self.episode.data.on_cumulative_ack(acked) {
            self.finish();
        }
    }

    fn judge(&mut self, _window: WindowView, loss: &LossEvent) -> Verdict {
        if loss.signal == LossSignal::Timeout {
            // The latest round-trip time is older than the losses.
            self.episode = Episode::default();
            return Verdict::Unsure;
        }
        if !self.episode.data.covers(loss.first_lost) {
            self.finish();
            self.episode = Episode::of(loss);
        }
        self.episode.add(loss, self.latest);
        let is_isolated = self.episode.lost < 2;
        if is_isolated && self.full.is_some_and(|full| !self.is_full(full)) {
            return Verdict::Transmission;
        }
        if !self.episode.is_congestion {
            // A recovery begins: what is outstanding now belongs to it.
            self.episode.is_congestion = true;
            self.episode.data.enter(loss.next.saturating_sub(1));
        }
        Verdict::Congestion
    }

    fn on_inherited(&mut self, loss: &LossEvent) {
        if self.episode.data.is_active() {
            self.episode.add(loss, self.latest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discriminator::testing::{VIEW, ack_to, timeout};
    use crate::sample::Seq;

    fn ms(n: u64) -> Span {
        Span::from_millis(n)
    }

    fn arrives(part: &mut FqRtt, acked_to: Seq, rtt: Span) {
        part.on_ack(
            VIEW,
            &AckSample {
                rtt: Some(rtt),
                ..ack_to(acked_to)
            },
        );
    }

    /// The loss of this packet while ten packets are outstanding.
    fn gap(first_lost: Seq) -> LossEvent {
        LossEvent {
            next: first_lost + 10,
            ..crate::discriminator::testing::gap(first_lost)
        }
    }

    /// Loses the packet behind those acknowledged, with this round-trip time at the loss.
    fn lose(part: &mut FqRtt, packet: Seq, rtt: Span) -> Verdict {
        arrives(part, packet, rtt);
        part.judge(VIEW, &gap(packet))
    }

    /// A path of 40 ms whose full queue takes another 40 ms: two recoveries with 80 ms have ended, the second one of two losses. The next
    /// packet is 200.
    fn trained(guard: Span) -> FqRtt {
        let mut part = FqRtt::new(FqRttParameters { guard });
        arrives(&mut part, 1, ms(40));
        assert_eq!(lose(&mut part, 10, ms(80)), Verdict::Congestion, "nothing known");
        assert_eq!(part.full, None, "the recovery goes on");
        arrives(&mut part, 20, ms(60));
        assert_eq!(
            part.full,
            Some(FullQueue {
                smoothed: ms(80),
                variance: ms(5)
            })
        );
        assert_eq!(lose(&mut part, 100, ms(80)), Verdict::Congestion);
        part.on_inherited(&gap(105));
        arrives(&mut part, 110, ms(60));
        assert_eq!(
            part.full,
            Some(FullQueue {
                smoothed: ms(80),
                variance: Span::from_micros(3750)
            })
        );
        part
    }

    #[test]
    fn the_round_trip_time_of_a_full_queue_is_congestion() {
        // quicly 687: min(80 - 3.75, 40 + 5) = 45 ms
        let mut part = trained(ms(5));
        assert_eq!(lose(&mut part, 200, Span::from_micros(44_999)), Verdict::Transmission);
        assert_eq!(lose(&mut part, 300, ms(45)), Verdict::Congestion);
        // min(80 - 3.75, 40 + 100) = 76.25 ms
        let mut part = trained(ms(100));
        assert_eq!(lose(&mut part, 200, Span::from_micros(76_249)), Verdict::Transmission);
        assert_eq!(lose(&mut part, 300, Span::from_micros(76_250)), Verdict::Congestion);
    }

    #[test]
    fn a_second_loss_within_a_round_trip_is_congestion() {
        let mut part = trained(ms(5));
        assert_eq!(lose(&mut part, 200, ms(41)), Verdict::Transmission);
        // 209 was outstanding at the first loss, 210 was not.
        let mut other = part.clone();
        assert_eq!(other.judge(VIEW, &gap(210)), Verdict::Transmission);
        assert_eq!(part.judge(VIEW, &gap(209)), Verdict::Congestion);
        let mut part = trained(ms(5));
        let two = LossEvent { packets: 2, ..gap(200) };
        assert_eq!(
            part.judge(VIEW, &LossEvent { copies: 1, ..two }),
            Verdict::Congestion,
            "60 ms"
        );
        arrives(&mut part, 210, ms(41));
        let copy = LossEvent {
            first_lost: 220,
            next: 230,
            copies: 1,
            ..two
        };
        assert_eq!(part.judge(VIEW, &copy), Verdict::Transmission, "one may have arrived");
        let two = LossEvent {
            first_lost: 300,
            next: 310,
            ..two
        };
        assert_eq!(part.judge(VIEW, &two), Verdict::Congestion);
    }

    #[test]
    fn the_sample_of_a_recovery_is_its_least_round_trip_time() {
        // The isolated loss before belongs to it: 7/8 80 + 1/8 44 = 75.5 ms, 3/4 3.75 + 1/4 36 = 11.8125 ms.
        let mut part = trained(ms(5));
        assert_eq!(lose(&mut part, 200, ms(44)), Verdict::Transmission);
        arrives(&mut part, 200, ms(42));
        arrives(&mut part, 200, ms(70));
        assert_eq!(part.judge(VIEW, &gap(205)), Verdict::Congestion);
        let before = part.full;
        arrives(&mut part, 214, ms(60));
        assert_eq!(part.full, before, "215 is outstanding since the verdict");
        arrives(&mut part, 215, ms(60));
        let expected = FullQueue {
            smoothed: Span::from_micros(75_500),
            variance: Span::from_nanos(11_812_500),
        };
        assert_eq!(part.full, Some(expected));
    }

    #[test]
    fn a_recovery_of_one_loss_is_no_sample_once_one_is_known() {
        let mut part = trained(ms(5));
        let before = part.full;
        assert_eq!(lose(&mut part, 200, ms(60)), Verdict::Congestion);
        arrives(&mut part, 210, ms(60));
        assert_eq!(part.full, before);
        // Nor are two transmission losses.
        assert_eq!(lose(&mut part, 300, ms(41)), Verdict::Transmission);
        arrives(&mut part, 310, ms(41));
        assert_eq!(part.full, before);
    }

    #[test]
    fn a_timeout_is_unsure_and_ends_the_episode() {
        let mut part = trained(ms(5));
        assert_eq!(lose(&mut part, 200, ms(41)), Verdict::Transmission);
        assert_eq!(part.judge(VIEW, &timeout(201)), Verdict::Unsure);
        assert_eq!(
            part.judge(VIEW, &gap(202)),
            Verdict::Transmission,
            "the first loss again"
        );
    }

    #[test]
    fn a_loss_of_later_data_ends_a_recovery() {
        let mut part = trained(ms(5));
        let two = LossEvent { packets: 2, ..gap(200) };
        arrives(&mut part, 200, ms(72));
        assert_eq!(part.judge(VIEW, &two), Verdict::Congestion);
        arrives(&mut part, 205, ms(41));
        assert_eq!(part.judge(VIEW, &gap(210)), Verdict::Transmission);
        // 7/8 80 + 1/8 72 = 79 ms
        assert_eq!(part.full.map(|full| full.smoothed), Some(ms(79)));
    }
}
