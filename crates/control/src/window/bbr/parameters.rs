//! Parameters of BBR version 3.

use crate::Span;

/// Parameters of BBR version 3.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct BbrParameters {
    /// Pacing gain in Startup, 1.5 to 4 (BBRStartupPacingGain: 4 ln 2 = 2.77).
    pub startup_gain: f64,
    /// Gain of the window outside ProbeRTT, 1 to 8 (BBRDefaultCwndGain: 2); a quarter more in ProbeBW_UP.
    pub cwnd_gain: f64,
    /// Pacing gain in ProbeBW_UP, 1 to 2 (1.25).
    pub probe_gain: f64,
    /// Share of what is in flight that may be lost before the path counts as full, 0 to 0.5 (BBRLossThresh: 0.02).
    pub loss_threshold: f64,
    /// Fraction of the bounds that remains after a loss, 0.1 to 1 (BBRBeta: 0.7).
    pub beta: f64,
    /// Fraction of the long-term bound that is left for other flows, 0 to 0.9 (BBRHeadroom: 0.15).
    pub headroom: f64,
    /// Minimum time between two probes for bandwidth, 0.1 s to 60 s (2 s); a random time of up to 1 s is added.
    pub probe_wait: Span,
    /// Length of the window of the minimum filter of the round-trip time, 1 s to 1 h (MinRTTFilterLen: 10 s).
    pub min_rtt_window: Span,
    /// Time without a lower round-trip time after which ProbeRTT begins, 1 s to 1 h (ProbeRTTInterval: 5 s).
    pub probe_rtt_interval: Span,
    /// The duration of ProbeRTT, 10 ms to 10 s (ProbeRTTDuration: 200 ms).
    pub probe_rtt_time: Span,
}

impl Default for BbrParameters {
    fn default() -> Self {
        BbrParameters {
            startup_gain: 2.77,
            cwnd_gain: 2.0,
            probe_gain: 1.25,
            loss_threshold: 0.02,
            beta: 0.7,
            headroom: 0.15,
            probe_wait: Span::from_secs(2),
            min_rtt_window: Span::from_secs(10),
            probe_rtt_interval: Span::from_secs(5),
            probe_rtt_time: Span::from_millis(200),
        }
    }
}
