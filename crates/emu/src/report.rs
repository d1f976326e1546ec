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
    /// Longest time that packets may have waited before they were read, if the gate does not know when the kernel received them: the
    /// time since the previous look. It does not contain the time that the system needs to wake the emulator.
    pub unread: DelaySummary,
    /// Packets from and to programs.
    pub gate: GateCounts,
    /// Results of links and flows, and causes of drops.
    pub run: RunResult,
}

impl Report {
    /// Returns why the emulation does not represent the scenario, if the machine was too slow: lateness at the 99th percentile
    /// above `limit` on either side, or packets that the system dropped before the emulator.
    pub fn too_slow(&self, limit: Span) -> Option<String> {
        if let Some(overrun) = self.gate.overrun.filter(|overrun| *overrun > 0) {
            let packets = if overrun == 1 { "packet was" } else { "packets were" };
            return Some(format!("{overrun} {packets} lost before being read"));
        }
        let micros = |span: Span| Span::from_micros(span.as_nanos() / 1000);
        if self.lateness.p99 > limit {
            let late = micros(self.lateness.p99);
            return Some(format!("1 % of packets were {late} late or more; the limit is {limit}"));
        }
        (self.unread.p99 > limit).then(|| {
            let late = micros(self.unread.p99);
            format!("1 % of packets may have waited {late} or more before they were read; the limit is {limit}")
        })
    }
}
