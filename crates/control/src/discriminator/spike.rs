//! Spike: losses while the one-way time is high are congestion (Tobe et al. 2000; as described by Cen, Cosman and
//! Voelker 2003).

use super::Discriminate;
use super::history::{Extremes, History, Passage};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Verdict};
use crate::view::WindowView;

/// Parameters of Spike.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct SpikeParameters {
    /// A spike begins when the one-way delay exceeds its minimum by more than this fraction of the range from its minimum to its maximum,
    /// 0 to 1.
    pub start: f64,
    /// A spike ends when the one-way delay is below this fraction of the same range, 0 to `start`.
    pub end: f64,
}

impl Default for SpikeParameters {
    fn default() -> Self {
        SpikeParameters {
            start: 0.5,
            end: 1.0 / 3.0,
        }
    }
}

impl Part<dyn Discriminate> for SpikeParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("start", self.start, 0.0, 1.0, "")?;
        in_range("end", self.end, 0.0, self.start, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Spike {
            state: SpikeState::new(*self),
            history: History::default(),
        })
    }
}

/// Detects spikes of the one-way time.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpikeState {
    parameters: SpikeParameters,
    extremes: Extremes,
    high: bool,
}

impl SpikeState {
    pub(super) fn new(parameters: SpikeParameters) -> Self {
        SpikeState {
            parameters,
            extremes: Extremes::default(),
            high: false,
        }
    }

    /// Records a one-way time. Returns whether it belongs to a spike.
    pub(super) fn take(&mut self, one_way: f64) -> bool {
        self.extremes.take(one_way);
        if self.high {
            self.high = one_way >= self.extremes.between(self.parameters.end);
        } else {
            self.high = one_way > self.extremes.between(self.parameters.start);
        }
        // With a constant one-way time there is no spike.
        self.high &= self.extremes.max > self.extremes.min;
        self.high
    }

    /// Returns the smallest one-way time seen.
    pub(super) fn least(&self) -> f64 {
        self.extremes.min
    }
}

/// Judges by the first packet that arrived after the gap; at a timeout by the last packet that arrived.
#[derive(Clone, Debug)]
struct Spike {
    state: SpikeState,
    history: History<bool>,
}

impl Discriminate for Spike {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        if let Some(passage) = Passage::of(ack) {
            let high = self.state.take(passage.one_way);
            self.history.note(ack.newest, ack.acked_to, high);
        }
    }

    fn judge(&mut self, _window: WindowView, loss: &LossEvent) -> Verdict {
        let (_, after) = self.history.around(loss.first_lost);
        if after.map_or(self.state.high, |(_, high)| high) {
            Verdict::Congestion
        } else {
            Verdict::Transmission
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discriminator::testing::{VIEW, arrival, gap, timeout};

    #[test]
    fn a_spike_has_hysteresis() {
        // Cen et al. 2003: times from 10 to 70 ms; a spike begins above 40 ms and ends below 30 ms.
        let mut state = SpikeState::new(SpikeParameters::default());
        let times = [10.0, 70.0, 35.0, 29.0, 35.0, 41.0, 31.0, 10.0];
        let high: Vec<bool> = times.iter().map(|&time| state.take(time)).collect();
        assert_eq!(high, [false, true, true, false, false, true, true, false]);
    }

    #[test]
    fn the_packet_after_the_gap_decides() {
        let mut spike = Spike {
            state: SpikeState::new(SpikeParameters::default()),
            history: History::default(),
        };
        spike.on_ack(VIEW, &arrival(0, 1, 10_000, 10_000));
        spike.on_ack(VIEW, &arrival(1, 2, 80_000, 70_000));
        spike.on_ack(VIEW, &arrival(2, 3, 90_000, 12_000));
        // Packet 3 is lost, 4 arrives in a spike, 5 after it.
        spike.on_ack(VIEW, &arrival(4, 3, 190_000, 65_000));
        spike.on_ack(VIEW, &arrival(5, 3, 200_000, 12_000));
        assert_eq!(spike.judge(VIEW, &gap(3)), Verdict::Congestion);
        assert_eq!(spike.judge(VIEW, &gap(4)), Verdict::Transmission);
        assert_eq!(
            spike.judge(VIEW, &timeout(6)),
            Verdict::Transmission,
            "the last one was quick"
        );
    }
}
