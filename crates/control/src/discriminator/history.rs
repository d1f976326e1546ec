//! Records of arrived packets, kept until no packet near them can still be judged lost.

use std::collections::VecDeque;

use crate::sample::{AckSample, Seq};

/// More packets than can be outstanding: a limit for callers that never report cumulative acknowledgements.
const LIMIT: usize = 1 << 16;

/// A record and the position of its packet, if there is one.
pub(crate) type Near<T> = Option<(Seq, T)>;

/// Records of arrived packets by position. One record below the cumulative acknowledgement is kept: the last one before
/// a gap.
#[derive(Clone, Debug)]
pub(crate) struct History<T> {
    notes: VecDeque<(Seq, T)>,
}

impl<T> Default for History<T> {
    fn default() -> Self {
        History { notes: VecDeque::new() }
    }
}

impl<T: Copy> History<T> {
    /// Records the arrival of a packet; all packets below `acked_to` have arrived.
    pub(crate) fn note(&mut self, seq: Seq, acked_to: Seq, note: T) {
        match self.notes.back() {
            Some(&(last, _)) if last >= seq => {
                let at = self.notes.partition_point(|&(other, _)| other < seq);
                if self.notes.get(at).is_none_or(|&(other, _)| other != seq) {
                    self.notes.insert(at, (seq, note));
                }
            }
            _ => self.notes.push_back((seq, note)),
        }
        while self.notes.len() > LIMIT || self.notes.get(1).is_some_and(|&(next, _)| next < acked_to) {
            self.notes.pop_front();
        }
    }

    /// Returns the records of the nearest arrivals before and after a lost packet.
    pub(crate) fn around(&self, lost: Seq) -> (Near<T>, Near<T>) {
        let after = self.notes.partition_point(|&(seq, _)| seq <= lost);
        let before = self.notes.partition_point(|&(seq, _)| seq < lost);
        let before = before.checked_sub(1).and_then(|at| self.notes.get(at));
        (before.copied(), self.notes.get(after).copied())
    }
}

/// The arrival time and the one-way time of a packet, from the receiver's timestamps if available. Otherwise the
/// acknowledgement's arrival and the round-trip time are used, which include the return path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Passage {
    /// Arrival in nanoseconds.
    pub(crate) received: u64,
    /// One-way time in seconds, up to a constant: the two clocks need not agree.
    pub(crate) one_way: f64,
}

impl Passage {
    /// Returns the passage of the packet that an acknowledgement acknowledges.
    pub(crate) fn of(ack: &AckSample) -> Option<Passage> {
        match (ack.stamps, ack.rtt) {
            (Some(stamps), _) => Some(Passage {
                received: stamps.received.as_nanos(),
                one_way: (i128::from(stamps.received.as_nanos()) - i128::from(stamps.sent.as_nanos())) as f64 * 1e-9,
            }),
            (None, Some(rtt)) => Some(Passage {
                received: ack.now.as_nanos(),
                one_way: rtt.as_secs_f64(),
            }),
            (None, None) => None,
        }
    }
}

/// The smallest and the largest one-way time seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extremes {
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Default for Extremes {
    fn default() -> Self {
        Extremes {
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }
}

impl Extremes {
    pub(crate) fn take(&mut self, one_way: f64) {
        self.min = self.min.min(one_way);
        self.max = self.max.max(one_way);
    }

    /// Returns the value at this share of the interval from the smallest to the largest.
    pub(crate) fn between(&self, share: f64) -> f64 {
        self.min + share * (self.max - self.min)
    }
}

/// Inter-arrival time per packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InterArrival {
    last: Option<(Seq, u64)>,
    /// The shortest inter-arrival time, in nanoseconds.
    pub(crate) min: Option<u64>,
}

impl InterArrival {
    /// Records an arrival. Returns the time since the last arrival in nanoseconds, divided by the difference of the
    /// packets' positions.
    pub(crate) fn take(&mut self, seq: Seq, received: u64) -> Option<u64> {
        let (last_seq, last_received) = match self.last {
            // A retransmitted or overtaken packet gives no inter-arrival time.
            Some((last_seq, _)) if seq <= last_seq => return None,
            Some(last) => last,
            None => {
                self.last = Some((seq, received));
                return None;
            }
        };
        self.last = Some((seq, received));
        let spacing = received.checked_sub(last_received)? / (seq - last_seq);
        if spacing > 0 {
            self.min = Some(self.min.map_or(spacing, |min| min.min(spacing)));
        }
        Some(spacing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_note_before_a_gap_outlives_its_acknowledgement() {
        let mut history = History::default();
        for seq in 0..10 {
            history.note(seq, seq + 1, seq * 100);
        }
        // 10 and 11 are lost, 12 and 13 arrive.
        history.note(12, 10, 1200);
        history.note(13, 10, 1300);
        assert_eq!(history.around(10), (Some((9, 900)), Some((12, 1200))));
        assert_eq!(history.around(11), (Some((9, 900)), Some((12, 1200))));
        history.note(10, 11, 1000);
        assert_eq!(history.around(11), (Some((10, 1000)), Some((12, 1200))));
        history.note(20, 21, 2000);
        assert_eq!(history.around(21), (Some((20, 2000)), None));
        assert!(history.notes.len() <= 2, "{history:?}");
    }

    #[test]
    fn spacing_is_per_packet_and_only_forwards() {
        let mut spacing = InterArrival::default();
        assert_eq!(spacing.take(0, 1000), None);
        assert_eq!(spacing.take(2, 1600), Some(300));
        assert_eq!(spacing.take(1, 1700), None, "sent again");
        assert_eq!(spacing.take(3, 1800), Some(200));
        assert_eq!(spacing.min, Some(200));
    }
}
