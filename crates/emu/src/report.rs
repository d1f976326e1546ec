//! The result of an emulation, and its lateness.

use std::time::Duration;

use whimbrel_control::Span;
use whimbrel_sim::{DelaySummary, RunResult};

use crate::GateCounts;

/// The result of an emulation.
#[derive(Clone, Debug)]
pub struct Report {
    /// Real time from the start to the end.
    pub elapsed: Duration,
    /// The emulated network's time since the first packet.
    pub emulated: Span,
    /// Difference between the computed and the actual departure of packets.
    pub lateness: DelaySummary,
    /// Packets from and to programs.
    pub gate: GateCounts,
    /// Results of links and flows, and causes of drops.
    pub run: RunResult,
}

impl Report {
    /// Returns why the emulation does not represent the scenario, if the machine was too slow: lateness at the 99th percentile
    /// above `limit`, or packets that the system dropped before the emulator.
    pub fn too_slow(&self, limit: Span) -> Option<String> {
        if let Some(overrun) = self.gate.overrun.filter(|overrun| *overrun > 0) {
            return Some(format!("{overrun} packets were lost before they were read"));
        }
        (self.lateness.p99 > limit).then(|| {
            let late = Span::from_micros(self.lateness.p99.as_nanos() / 1000);
            format!("1 % of packets were {late} late or more; the limit is {limit}")
        })
    }
}
