//! ZBS: selects ZigZag, mBiaz or Spike, depending on the path (Cen, Cosman and Voelker 2003).

use super::Discriminate;
use super::biaz;
use super::history::{History, InterArrival, Passage};
use super::mbiaz::MBiazParameters;
use super::spike::{SpikeParameters, SpikeState};
use super::zigzag::{ZigZagNote, ZigZagParameters, ZigZagState};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Verdict};
use crate::view::WindowView;

/// Parameters of ZBS.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct ZbsParameters {
    /// Spike judges while the one-way delay exceeds its minimum by less than this fraction of the shortest inter-arrival time, 0 to 1.
    /// Otherwise the ratio of the mean inter-arrival time to the shortest one decides.
    pub near: f64,
    /// ZigZag judges while the ratio is below this, 0 to 10.
    pub wide: f64,
    /// mBiaz judges while the ratio is at least `wide` and below this, `wide` to 10.
    pub narrow: f64,
    /// ZigZag judges while the ratio is at least `narrow` and below this, `narrow` to 10; Spike judges above it.
    pub shared: f64,
}

impl Default for ZbsParameters {
    fn default() -> Self {
        ZbsParameters {
            near: 0.05,
            wide: 0.875,
            narrow: 1.5,
            shared: 2.0,
        }
    }
}

impl Part<dyn Discriminate> for ZbsParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("near", self.near, 0.0, 1.0, "")?;
        in_range("wide", self.wide, 0.0, 10.0, "")?;
        in_range("narrow", self.narrow, self.wide, 10.0, "")?;
        in_range("shared", self.shared, self.narrow, 10.0, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Zbs::new(*self))
    }
}

#[derive(Clone, Copy, Debug)]
struct Note {
    received: u64,
    one_way: f64,
    high: bool,
    zigzag: ZigZagNote,
}

/// The discriminator that judges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judge {
    Spike,
    ZigZag,
    MBiaz,
}

#[derive(Clone, Debug)]
struct Zbs {
    parameters: ZbsParameters,
    spike: SpikeState,
    zigzag: ZigZagState,
    spacing: InterArrival,
    /// Mean inter-arrival time in nanoseconds.
    average: Option<f64>,
    history: History<Note>,
}

impl Zbs {
    fn new(parameters: ZbsParameters) -> Self {
        Zbs {
            parameters,
            spike: SpikeState::new(SpikeParameters::default()),
            zigzag: ZigZagState::new(ZigZagParameters::default()),
            spacing: InterArrival::default(),
            average: None,
            history: History::default(),
        }
    }

    fn choose(&self, one_way: f64) -> Judge {
        let (Some(min), Some(average)) = (self.spacing.min, self.average) else {
            return Judge::Spike;
        };
        let narrowness = average / min as f64;
        if one_way < self.spike.least() + self.parameters.near * min as f64 * 1e-9 {
            Judge::Spike
        } else if narrowness < self.parameters.wide {
            Judge::ZigZag
        } else if narrowness < self.parameters.narrow {
            Judge::MBiaz
        } else if narrowness < self.parameters.shared {
            Judge::ZigZag
        } else {
            Judge::Spike
        }
    }
}

impl Discriminate for Zbs {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        let Some(passage) = Passage::of(ack) else {
            return;
        };
        let high = self.spike.take(passage.one_way);
        let zigzag = self.zigzag.take(passage.one_way);
        if let Some(spacing) = self.spacing.take(ack.newest, passage.received) {
            let spacing = spacing as f64;
            let average = self.average.get_or_insert(spacing);
            *average += (spacing - *average) / 8.0;
        }
        let note = Note {
            received: passage.received,
            one_way: passage.one_way,
            high,
            zigzag,
        };
        self.history.note(ack.newest, ack.acked_to, note);
    }

    fn judge(&mut self, _window: WindowView, loss: &LossEvent) -> Verdict {
        let (before, Some((seq, after))) = self.history.around(loss.first_lost) else {
            return Verdict::Unsure;
        };
        let is_transmission = match (self.choose(after.one_way), before, self.spacing.min) {
            (Judge::MBiaz, Some((first, before)), Some(min)) => {
                let (before, after) = ((first, before.received), (seq, after.received));
                biaz::fits(before, loss.first_lost, after, min, MBiazParameters::default().upper)
            }
            (Judge::ZigZag, ..) => after.zigzag.says_transmission(seq - loss.first_lost),
            _ => !after.high,
        };
        if is_transmission {
            Verdict::Transmission
        } else {
            Verdict::Congestion
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discriminator::testing::{VIEW, arrival, gap, timeout};

    #[test]
    fn the_choice_by_narrowness() {
        // Cen et al. 2003: thresholds 0.875, 1.5 and 2 of the mean over the least inter-arrival time
        let mut zbs = Zbs::new(ZbsParameters::default());
        zbs.spike.take(0.050);
        zbs.spacing.min = Some(6_000_000);
        for (average, judge) in [
            (0.8, Judge::ZigZag),
            (1.2, Judge::MBiaz),
            (1.7, Judge::ZigZag),
            (2.5, Judge::Spike),
        ] {
            zbs.average = Some(average * 6_000_000.0);
            assert_eq!(zbs.choose(0.060), judge, "{average}");
        }
        zbs.average = Some(1.2 * 6_000_000.0);
        assert_eq!(zbs.choose(0.050_2), Judge::Spike, "within 5 % of 6 ms above the least");
    }

    #[test]
    fn a_single_slow_hop_is_judged_by_mbiaz() {
        let mut zbs = Zbs::new(ZbsParameters::default());
        for seq in 0..50 {
            zbs.on_ack(
                VIEW,
                &arrival(seq, seq + 1, 100_000 + 6_000 * seq, 50_000 + 10 * (seq % 50)),
            );
        }
        assert_eq!(zbs.judge(VIEW, &timeout(50)), Verdict::Unsure);
        let last = 100_000 + 6_000 * 49;
        zbs.on_ack(VIEW, &arrival(51, 50, last + 12_000, 51_000));
        assert_eq!(zbs.judge(VIEW, &gap(50)), Verdict::Transmission);
        let mut late = Zbs::new(ZbsParameters::default());
        for seq in 0..50 {
            late.on_ack(
                VIEW,
                &arrival(seq, seq + 1, 100_000 + 6_000 * seq, 50_000 + 10 * (seq % 50)),
            );
        }
        late.on_ack(VIEW, &arrival(51, 50, last + 14_000, 53_000));
        assert_eq!(late.judge(VIEW, &gap(50)), Verdict::Congestion);
    }
}
