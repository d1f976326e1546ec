//! Lines over time of a part of a run, for figures that are snapshots.

use serde::Deserialize;
use whimbrel_control::{Span, Time};
use whimbrel_sim::topology::DirectionId;

/// The part of a run that is sampled, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Start of the part.
    pub from: Span,
    /// Its end.
    pub to: Span,
    /// Time between two samples.
    pub every: Span,
}

impl Timeline {
    /// Returns the number of samples: one at the start of each interval.
    pub(crate) fn samples(&self) -> usize {
        let length = self.to.as_nanos().saturating_sub(self.from.as_nanos());
        length.div_ceil(self.every.as_nanos().max(1)) as usize
    }

    /// Returns the time of a sample in seconds.
    pub(crate) fn at(&self, sample: usize) -> f64 {
        self.from.as_secs_f64() + sample as f64 * self.every.as_secs_f64()
    }

    /// Returns the first sample that is not before this time, at most the number of samples.
    fn first_from(&self, at: Time) -> usize {
        let since = at.since(Time::ZERO + self.from).as_nanos();
        (since.div_ceil(self.every.as_nanos().max(1)) as usize).min(self.samples())
    }

    /// Returns the interval that this time lies in, if it is in the part.
    fn interval(&self, at: Time) -> Option<usize> {
        let (from, to) = (Time::ZERO + self.from, Time::ZERO + self.to);
        (from <= at && at < to).then(|| (at.since(from).as_nanos() / self.every.as_nanos().max(1)) as usize)
    }
}

/// What a line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LineKind {
    /// Congestion window of a flow's sender in units of 1500 bytes.
    Cwnd,
    /// User data of a flow that arrives at the receiver in the interval, 1000 bytes a second.
    Throughput,
    /// Packets in the queue of a link's first direction.
    Queue,
    /// The average that its active queue management computes.
    AverageQueue,
    /// Gap ack blocks per SACK that arrived in the interval, all flows.
    Gaps,
    /// Duplicate TSNs per SACK that arrived in the interval, all flows.
    Duplicates,
}

impl LineKind {
    /// What it shows, with its unit.
    pub(crate) fn title(self) -> &'static str {
        match self {
            LineKind::Cwnd => "cwnd, units of 1500 bytes",
            LineKind::Throughput => "throughput, kB/s",
            LineKind::Queue | LineKind::AverageQueue => "queue, packets",
            LineKind::Gaps => "gap ack blocks per SACK",
            LineKind::Duplicates => "duplicates per SACK",
        }
    }
}

/// A value that holds until it changes.
#[derive(Clone, Debug)]
struct Held {
    values: Vec<f64>,
    current: f64,
}

impl Default for Held {
    fn default() -> Self {
        Held {
            values: Vec::new(),
            current: f64::NAN,
        }
    }
}

impl Held {
    fn set(&mut self, line: &Timeline, at: Time, value: f64) {
        self.hold(line.first_from(at));
        self.current = value;
    }

    fn hold(&mut self, until: usize) {
        if self.values.len() < until {
            self.values.resize(until, self.current);
        }
    }
}

/// SACKs of an interval.
#[derive(Clone, Copy, Debug, Default)]
struct Sacks {
    count: u32,
    gaps: u32,
    duplicates: u32,
}

/// The lines of a run.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    line: Timeline,
    cwnd: Vec<Held>,
    /// By flow: bytes of user data that arrived in each interval.
    arrived: Vec<Vec<u64>>,
    /// By direction: the queue and its average.
    queues: Vec<(Held, Held)>,
    sacks: Vec<Sacks>,
}

impl Lines {
    pub(crate) fn new(line: Timeline, flows: usize, directions: usize) -> Self {
        Lines {
            line,
            cwnd: vec![Held::default(); flows],
            arrived: vec![vec![0; line.samples()]; flows],
            queues: vec![Default::default(); directions],
            sacks: vec![Sacks::default(); line.samples()],
        }
    }

    pub(crate) fn cwnd(&mut self, at: Time, flow: usize, bytes: u64) {
        if let Some(held) = self.cwnd.get_mut(flow) {
            held.set(&self.line, at, bytes as f64 / 1500.0);
        }
    }

    pub(crate) fn arrived(&mut self, at: Time, flow: usize, bytes: u64) {
        let place = self.line.interval(at);
        if let (Some(place), Some(arrived)) = (place, self.arrived.get_mut(flow)) {
            arrived[place] += bytes;
        }
    }

    pub(crate) fn queue(&mut self, at: Time, direction: DirectionId, packets: u32, average: Option<f64>) {
        if let Some((queue, averages)) = self.queues.get_mut(direction.index()) {
            queue.set(&self.line, at, f64::from(packets));
            averages.set(&self.line, at, average.unwrap_or(f64::NAN));
        }
    }

    pub(crate) fn sack(&mut self, at: Time, gaps: u32, duplicates: u32) {
        let place = self.line.interval(at);
        if let Some(sacks) = place.and_then(|place| self.sacks.get_mut(place)) {
            sacks.count += 1;
            sacks.gaps += gaps;
            sacks.duplicates += duplicates;
        }
    }

    /// Completes the lines at the end of the run.
    pub(crate) fn finish(&mut self) {
        let samples = self.line.samples();
        self.cwnd.iter_mut().for_each(|held| held.hold(samples));
        for (queue, average) in &mut self.queues {
            queue.hold(samples);
            average.hold(samples);
        }
    }

    /// Returns the samples of a line: of a flow, of a direction, or of the run.
    pub(crate) fn values(&self, kind: LineKind, index: usize) -> Vec<f64> {
        let per_sack = |of: fn(&Sacks) -> u32| {
            let bins = self.sacks.iter();
            bins.map(|sacks| f64::from(of(sacks)) / f64::from(sacks.count))
                .collect()
        };
        let held = match kind {
            LineKind::Cwnd => self.cwnd.get(index),
            LineKind::Throughput => {
                let bins = self.arrived.get(index).into_iter().flatten();
                let seconds = self.line.every.as_secs_f64();
                return bins.map(|bytes| *bytes as f64 / 1000.0 / seconds).collect();
            }
            LineKind::Queue => self.queues.get(index).map(|(queue, _)| queue),
            LineKind::AverageQueue => self.queues.get(index).map(|(_, average)| average),
            LineKind::Gaps => return per_sack(|sacks| sacks.gaps),
            LineKind::Duplicates => return per_sack(|sacks| sacks.duplicates),
        };
        held.map(|held| held.values.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn a_window_holds_until_it_changes_and_arrivals_are_counted_by_interval() {
        let line = Timeline {
            from: Span::from_secs(2),
            to: Span::from_secs(4),
            every: Span::from_millis(500),
        };
        let mut lines = Lines::new(line, 1, 1);
        lines.cwnd(at(1_000), 0, 1_500);
        lines.cwnd(at(2_500), 0, 3_000);
        lines.cwnd(at(2_600), 0, 4_500);
        lines.cwnd(at(9_000), 0, 6_000);
        lines.queue(at(3_100), DirectionId::of_link(0, 0), 7, Some(2.5));
        for (ms, gaps) in [(1_999, 9), (2_000, 1), (2_499, 2), (3_500, 4), (4_000, 9)] {
            lines.sack(at(ms), gaps, 2 * gaps);
            lines.arrived(at(ms), 0, 1000 * u64::from(gaps));
        }
        lines.finish();
        // Samples at 2, 2.5, 3 and 3.5 s.
        assert_eq!(lines.values(LineKind::Cwnd, 0), [1.0, 2.0, 3.0, 3.0]);
        let queue = lines.values(LineKind::Queue, 0);
        assert!(
            queue[..3].iter().all(|value| value.is_nan()) && queue[3] == 7.0,
            "{queue:?}"
        );
        assert_eq!(lines.values(LineKind::AverageQueue, 0)[3], 2.5);
        let gaps = lines.values(LineKind::Gaps, 0);
        assert_eq!((gaps[0], gaps[3]), (1.5, 4.0));
        assert!(gaps[1].is_nan());
        assert_eq!(lines.values(LineKind::Duplicates, 0)[0], 3.0);
        // 1000 and 2000 bytes in the first half second, 4000 in the last one.
        assert_eq!(lines.values(LineKind::Throughput, 0), [6.0, 0.0, 0.0, 8.0]);
        assert_eq!(line.at(3), 3.5);
    }
}
