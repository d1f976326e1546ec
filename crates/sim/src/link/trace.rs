//! Recorded rate of a real link, in mahimahi's format.

use core::fmt;
use std::sync::Arc;

use whimbrel_control::{Span, Time};

use crate::text_file::without_comment;

/// Bytes that one opportunity delivers.
pub const OPPORTUNITY_BYTES: u32 = 1500;

const MILLI: u64 = 1_000_000;

/// A recorded rate: times at which [`OPPORTUNITY_BYTES`] may be delivered, repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityTrace {
    /// Milliseconds from the start, in increasing order.
    times: Vec<u32>,
}

/// Why a text is not a valid trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The line, from 1; 0 if the error concerns the whole file.
    pub line: usize,
    /// The problem.
    pub problem: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.problem),
            line => write!(f, "line {line}: {}", self.problem),
        }
    }
}

impl std::error::Error for TraceError {}

impl CapacityTrace {
    /// Parses one time in milliseconds per line. Empty lines and comments (from `#`) are skipped. Times may repeat but not decrease, and
    /// the last one, at which the record starts over, must be above zero.
    ///
    /// # Errors
    /// Returns an error for the first invalid line. It does not repeat the line, which may be that of any file.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut times: Vec<u32> = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line_text = without_comment(line);
            if line_text.is_empty() {
                continue;
            }
            let fail = |problem: &str| {
                let problem = problem.to_owned();
                Err(TraceError { line: i + 1, problem })
            };
            let Ok(time) = line_text.parse::<u32>() else {
                return fail("not a whole number of milliseconds");
            };
            if times.last().is_some_and(|before| *before > time) {
                return fail("the time is before that of the line above");
            }
            times.push(time);
        }
        match times.last() {
            None => Err(TraceError {
                line: 0,
                problem: "the file has no delivery opportunity".to_owned(),
            }),
            Some(0) => Err(TraceError {
                line: 0,
                problem: "the last opportunity must be later than 0 ms".to_owned(),
            }),
            Some(_) => Ok(CapacityTrace { times }),
        }
    }

    /// Returns the number of delivery opportunities.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Returns whether there are none; [`CapacityTrace::parse`] prevents this.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Returns the time after which the record starts over.
    pub fn period(&self) -> Span {
        Span::from_millis(self.times.last().copied().map_or(0, u64::from))
    }

    /// Returns the mean rate in bits per second.
    pub fn mean_bps(&self) -> f64 {
        self.len() as f64 * f64::from(OPPORTUNITY_BYTES) * 8.0 / self.period().as_secs_f64()
    }

    /// Returns the bytes that can be delivered after `from` and up to `to`, in a run that starts at `offset` in the record.
    pub fn bytes_between(&self, offset: Span, from: Time, to: Time) -> u64 {
        let count = |at: Time| self.first_after(at.as_nanos() + offset.as_nanos());
        count(to).saturating_sub(count(from)) * u64::from(OPPORTUNITY_BYTES)
    }

    /// Returns the time of opportunity `n` since the start of the record, over all repetitions.
    fn time(&self, n: u64) -> u64 {
        let rounds = n / self.times.len() as u64;
        let place = (n % self.times.len() as u64) as usize;
        (rounds * self.period().as_millis() + u64::from(self.times[place])) * MILLI
    }

    /// Returns the first opportunity later than `nanos` since the start of the record.
    fn first_after(&self, nanos: u64) -> u64 {
        let period = self.period().as_nanos();
        let (round, within) = (nanos / period, nanos % period);
        let place = self.times.partition_point(|time| u64::from(*time) * MILLI <= within);
        round * self.times.len() as u64 + place as u64
    }
}

/// A transmitter with a recorded rate.
///
/// Bytes are accounted as in mahimahi: an opportunity serves queued packets, several small ones or part of a large one; unused
/// opportunities are lost.
#[derive(Clone, Debug)]
pub(crate) struct TraceClock {
    trace: Arc<CapacityTrace>,
    /// Time in the record at which the run starts, ns.
    offset: u64,
    /// The first opportunity with unused bytes.
    next: u64,
    /// Its used bytes, fewer than an opportunity has.
    taken: u32,
}

impl TraceClock {
    pub(crate) fn new(trace: Arc<CapacityTrace>, offset: Span) -> Self {
        TraceClock {
            trace,
            offset: offset.as_nanos(),
            next: 0,
            taken: 0,
        }
    }

    fn at(&self, opportunity: u64) -> u64 {
        self.trace.time(opportunity)
    }

    /// Reserves opportunities for a packet that enters now after all others. Returns when its transmission starts and ends.
    pub(crate) fn schedule(&mut self, now: Time, size: u32) -> (Time, Time) {
        let now = now.as_nanos() + self.offset;
        if self.at(self.next) <= now {
            self.next = self.trace.first_after(now);
            self.taken = 0;
        }
        let start = self.at(self.next);
        let end = self.taken + size;
        let last = self.next + u64::from((end.max(1) - 1) / OPPORTUNITY_BYTES);
        self.next = last + u64::from(end > 0 && end.is_multiple_of(OPPORTUNITY_BYTES));
        self.taken = end % OPPORTUNITY_BYTES;
        (
            Time::from_nanos(start - self.offset),
            Time::from_nanos(self.at(last) - self.offset),
        )
    }

    /// Releases everything that was reserved: the queued packets are lost.
    pub(crate) fn reset(&mut self) {
        self.next = 0;
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    fn clock(text: &str, offset: u64) -> TraceClock {
        TraceClock::new(
            Arc::new(CapacityTrace::parse(text).expect("a trace")),
            Span::from_millis(offset),
        )
    }

    #[test]
    fn reports_the_line_of_an_invalid_trace() {
        let line = |text| CapacityTrace::parse(text).map_err(|e| e.line);
        assert_eq!(line("1\n2\nx\n"), Err(3));
        assert_eq!(line("5\n4\n"), Err(2));
        assert_eq!(line("-1\n"), Err(1));
        assert_eq!(line(""), Err(0));
        assert_eq!(line("0\n0\n"), Err(0));
        assert_eq!(
            line("0\n\n0\n3\n").map(|t| (t.len(), t.period())),
            Ok((3, Span::from_millis(3)))
        );
    }

    #[test]
    fn queued_packets_use_each_opportunity_in_turn() {
        let mut clock = clock("2\n2\n5\n", 0);
        // The record starts over after 5 ms: opportunities at 2 2 5 7 7 10 ...
        let ends: Vec<_> = (0..6).map(|_| clock.schedule(Time::ZERO, 1500).1).collect();
        assert_eq!(ends, [ms(2), ms(2), ms(5), ms(7), ms(7), ms(10)]);
    }

    #[test]
    fn bytes_of_an_opportunity_are_shared() {
        let mut clock = clock("1\n3\n10\n", 0);
        // Two small packets and the first part of a third fit into the first opportunity.
        assert_eq!(clock.schedule(Time::ZERO, 500), (ms(1), ms(1)));
        assert_eq!(clock.schedule(Time::ZERO, 500), (ms(1), ms(1)));
        assert_eq!(clock.schedule(Time::ZERO, 1500), (ms(1), ms(3)));
        // 500 bytes of the second opportunity are left for a packet that is there in time ...
        assert_eq!(clock.schedule(ms(2), 400), (ms(3), ms(3)));
        // ... but not for a later one.
        assert_eq!(clock.schedule(ms(3), 50), (ms(10), ms(10)));
        // A packet larger than an opportunity takes several.
        assert_eq!(clock.schedule(ms(20), 4000), (ms(21), ms(30)));
    }

    #[test]
    fn idle_opportunities_are_lost() {
        let mut clock = clock("1\n2\n3\n4\n", 0);
        assert_eq!(clock.schedule(ms(2), 1500).1, ms(3));
        assert_eq!(clock.schedule(ms(1000), 1500).1, ms(1001));
        assert_eq!(clock.schedule(ms(1000), 1500).1, ms(1002));
    }

    #[test]
    fn capacity_is_counted_between_two_times() {
        let trace = CapacityTrace::parse("2\n2\n5\n").expect("a trace");
        let packets = |offset, from, to| trace.bytes_between(Span::from_millis(offset), ms(from), ms(to)) / 1500;
        // Opportunities at 2 2 5 7 7 10 12 12 15 ...
        assert_eq!(
            [packets(0, 0, 2), packets(0, 2, 5), packets(0, 0, 15), packets(0, 1, 1)],
            [2, 1, 9, 0]
        );
        assert_eq!(packets(4, 0, 3), 3);
    }

    #[test]
    fn a_run_may_start_inside_the_record() {
        let mut clock = clock("1\n2\n30\n", 10);
        assert_eq!(clock.schedule(Time::ZERO, 1500).1, ms(20));
        assert_eq!(clock.schedule(Time::ZERO, 1500).1, ms(21));
    }
}
