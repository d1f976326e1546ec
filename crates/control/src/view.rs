//! The window of a path as the parts see it, and their answer.

use crate::sample::AckSample;

/// How acknowledgements make the standard window grow: the editions of the standard differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum GrowthRule {
    /// RFC 9260 §7.2.2: each acknowledgement counts towards partial_bytes_acked, which is capped at cwnd while the window is not
    /// full.
    #[default]
    EveryAck,
    /// RFC 4960 and RFC 2960 §7.2.2: only an acknowledgement that advances the cumulative TSN counts, and nothing caps
    /// partial_bytes_acked.
    CumulativeAdvance,
    /// ns-2.35: as with `cumulative-advance`, and only an acknowledgement that finds the window full counts.
    FullWindow,
}

/// Limits that a coupling with other paths sets to a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CouplingLimits {
    /// Growth by an acknowledgement, as a multiple of the window's own growth. The window shrinks if it is negative.
    pub growth: f64,
    /// The window after congestion in bytes; `None`: the window's own rule.
    pub reduced: Option<u64>,
}

impl CouplingLimits {
    /// A window that is not coupled.
    pub const NONE: CouplingLimits = CouplingLimits {
        growth: 1.0,
        reduced: None,
    };

    /// Scales the growth by an acknowledgement.
    pub const fn growth(factor: f64) -> Self {
        CouplingLimits {
            growth: factor,
            ..CouplingLimits::NONE
        }
    }

    /// Sets the window after congestion.
    pub const fn reduced(window: Option<u64>) -> Self {
        CouplingLimits {
            reduced: window,
            ..CouplingLimits::NONE
        }
    }
}

/// The view of the window for a part. All values are in bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WindowView {
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold.
    pub ssthresh: u64,
    /// The unit in which the window grows: PMDCS for SCTP (RFC 9260 §7.2), MSS for TCP.
    pub unit: u64,
    /// Initial congestion window.
    pub initial_cwnd: u64,
    /// Smallest ssthresh after a loss: 4 units by RFC 9260, 2 by RFC 2960.
    pub floor: u64,
    /// How an acknowledgement counts towards growth.
    pub growth: GrowthRule,
    /// Limits set by a coupling with other paths. A discriminator sees none.
    pub limits: CouplingLimits,
}

impl WindowView {
    /// Returns the unchanged window.
    pub fn unchanged(&self) -> WindowUpdate {
        WindowUpdate {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
        }
    }

    /// Returns whether the window is in slow start.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd <= self.ssthresh
    }

    /// Returns half of the window, but at least the floor.
    pub fn halved(&self) -> u64 {
        (self.cwnd / 2).max(self.floor)
    }

    /// Returns the window after congestion, as the standard sets it: half of the window, with the limits of [`WindowView::reduced_to`].
    pub fn reduced(&self) -> u64 {
        self.reduced_to(self.cwnd / 2)
    }

    /// Returns the window after congestion, for a part whose own rule gives `own` bytes: at least the floor. If a coupling with other
    /// paths determines the window, the result is that window instead: at least one unit, and not more than cwnd.
    pub fn reduced_to(&self, own: u64) -> u64 {
        self.limits
            .reduced
            .map_or(own.max(self.floor), |coupled| coupled.min(self.cwnd).max(self.unit))
    }

    /// Returns a share of the window, 0 to 1.
    pub fn scaled(&self, share: f64) -> u64 {
        (self.cwnd as f64 * share) as u64
    }

    /// Returns whether the window was fully used, except for less than a unit, when an acknowledgement arrived. Only
    /// then may it grow (RFC 9438 §5.8).
    pub fn is_used(&self, ack: &AckSample) -> bool {
        ack.flight_before.saturating_add(self.unit) > self.cwnd
    }
}

/// A new window, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowUpdate {
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold.
    pub ssthresh: u64,
}

impl WindowUpdate {
    /// Returns an update with both values set to `window`, the usual reaction to congestion.
    pub fn both(window: u64) -> Self {
        WindowUpdate {
            cwnd: window,
            ssthresh: window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 1468;

    #[test]
    fn a_reduction_respects_the_floor_and_the_limit_of_a_coupling() {
        // A floor of four units (RFC 9260 §7.2.3), by hand.
        let at = WindowView {
            cwnd: 20 * UNIT,
            ssthresh: 40 * UNIT,
            unit: UNIT,
            initial_cwnd: 3 * UNIT,
            floor: 4 * UNIT,
            growth: GrowthRule::EveryAck,
            limits: CouplingLimits::NONE,
        };
        assert_eq!((at.reduced(), at.reduced_to(14 * UNIT)), (10 * UNIT, 14 * UNIT));
        assert_eq!(at.reduced_to(3 * UNIT), 4 * UNIT, "the floor");
        let coupled = |bytes| WindowView {
            limits: CouplingLimits::reduced(Some(bytes)),
            ..at
        };
        assert_eq!(
            coupled(3 * UNIT).reduced_to(14 * UNIT),
            3 * UNIT,
            "the coupling decides"
        );
        assert_eq!(coupled(0).reduced(), UNIT, "at least one unit");
        assert_eq!(coupled(30 * UNIT).reduced(), 20 * UNIT, "never enlarges");
    }
}
