//! What an emulation has done, and how late it was.

use std::time::Duration;

use whimbrel_control::Span;
use whimbrel_sim::{DelaySummary, RunResult};

use crate::GateCounts;

/// What an emulation has done.
#[derive(Clone, Debug)]
pub struct Report {
    /// Real time from the start to the end.
    pub elapsed: Duration,
    /// The emulated network's time: since the first packet came.
    pub emulated: Span,
    /// How much later than the simulator computed packets left the emulated network.
    pub lateness: DelaySummary,
    /// Packets that came from programs and went to them.
    pub gate: GateCounts,
    /// What links and flows carried, and why packets died.
    pub run: RunResult,
}

impl Report {
    /// Why the emulation does not show what the scenario describes, if the machine was too slow for it: lateness at the 99th
    /// percentile above `limit`, or packets that the system dropped before the emulator.
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
