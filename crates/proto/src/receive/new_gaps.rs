//! SACKs that report only new changes above a gap (Ye 2004, 6.6).
//!
//! SACKs get lost and are not acknowledged. Therefore three SACKs report each arrival, and every SACK reports a dropped TSN until the
//! TSN arrives again. A full SACK reports all TSNs held above a gap. Every sixteenth SACK is full. A SACK is also full after duplicate
//! data, which shows that the sender has not seen the acknowledgement, and after a drop.

use whimbrel_wire::Tsn;

use super::gap_cache::MAX_OFFSET;

/// Number of SACKs that report an arrival.
const REPEATS: usize = 3;
/// One in this number of SACKs is full.
const FULL_INTERVAL: u16 = 16;
/// The largest number of ranges kept for one SACK. If there are more, the next SACK is full.
const MAX_ARRIVALS: usize = 512;
/// The largest number of dropped ranges kept. Full SACKs report the older ones.
const MAX_DROPPED: usize = 32;

/// The header fields of a SACK that reports only new changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NewGapsHeader {
    /// The serial number of the SACK.
    pub(crate) serial: u16,
    /// The SACK is full: it reports all TSNs held above a gap.
    pub(crate) everything: bool,
}

/// First and last TSN.
type Range = (Tsn, Tsn);

#[derive(Debug, Default)]
pub(super) struct NewGapsState {
    /// Ranges that arrived above a gap since the last SACK, before that one, and so on.
    arrived: [Vec<Range>; REPEATS],
    /// Ranges dropped after they had arrived.
    dropped: Vec<Range>,
    /// The dropped ranges in the last SACK written, in wire format.
    dropped_bytes: Vec<u8>,
    sorted: Vec<Range>,
    serial: u16,
    full_due: bool,
}

impl NewGapsState {
    pub(super) fn require_full(&mut self) {
        self.full_due = true;
    }

    /// Notes that a TSN arrived above a gap.
    pub(super) fn on_arrival(&mut self, tsn: Tsn) {
        let arrived = &mut self.arrived[0];
        if let Some((_, last)) = arrived.last_mut().filter(|(_, last)| last.next() == tsn) {
            *last = tsn;
        } else if arrived.len() < MAX_ARRIVALS {
            arrived.push((tsn, tsn));
        } else {
            self.full_due = true;
        }
        if !remove(&mut self.dropped, tsn, MAX_DROPPED) {
            self.full_due = true;
        }
    }

    /// Notes that a received TSN was dropped. Drops start at the highest TSN.
    pub(super) fn on_drop(&mut self, tsn: Tsn) {
        self.full_due = true;
        for arrived in &mut self.arrived {
            remove(arrived, tsn, MAX_ARRIVALS);
        }
        match self.dropped.last_mut() {
            Some((first, _)) if *first == tsn.next() => *first = tsn,
            _ => {
                if self.dropped.len() >= MAX_DROPPED {
                    self.dropped.remove(0);
                }
                self.dropped.push((tsn, tsn));
            }
        }
    }

    /// Begins a SACK. Returns its header fields, and how many of the `blocks` available report dropped ranges.
    pub(super) fn begin(&mut self, cumulative: Tsn, blocks: usize) -> (NewGapsHeader, usize) {
        let header = NewGapsHeader {
            serial: self.serial,
            everything: core::mem::take(&mut self.full_due) || self.serial.is_multiple_of(FULL_INTERVAL),
        };
        self.serial = self.serial.wrapping_add(1);
        self.dropped.retain(|(_, last)| last.is_after(cumulative));
        self.dropped_bytes.clear();
        if !header.everything {
            for (first, _) in &mut self.dropped {
                if !first.is_after(cumulative) {
                    *first = cumulative.next();
                }
            }
            self.dropped
                .sort_unstable_by_key(|(first, _)| first.distance(cumulative));
            let reachable = |(first, _): &&Range| first.distance(cumulative) <= MAX_OFFSET;
            for range in self.dropped.iter().filter(reachable).take(blocks) {
                self.dropped_bytes.extend_from_slice(&block(range, cumulative));
            }
        }
        (header, self.dropped_bytes.len() / 4)
    }

    /// Writes the ranges that arrived above a gap, in at most `blocks` blocks.
    pub(super) fn write(&mut self, cumulative: Tsn, blocks: usize, bytes: &mut Vec<u8>) {
        self.sorted.clear();
        // A range that begins at or below the cumulative TSN is entirely below it. A range too far above the cumulative TSN is
        // reported after the gap is filled.
        let above = self
            .arrived
            .iter()
            .flatten()
            .filter(|(first, _)| first.is_after(cumulative) && first.distance(cumulative) <= MAX_OFFSET);
        self.sorted.extend(above);
        self.sorted
            .sort_unstable_by_key(|(first, _)| first.distance(cumulative));
        let mut written = 0;
        let mut ranges = self.sorted.iter().copied().peekable();
        while written < blocks
            && let Some((first, mut last)) = ranges.next()
        {
            while let Some((from, to)) = ranges.next_if(|(from, _)| !from.is_after(last.next())) {
                debug_assert!(!first.is_after(from));
                if to.is_after(last) {
                    last = to;
                }
            }
            bytes.extend_from_slice(&block(&(first, last), cumulative));
            written += 1;
        }
    }

    /// Ends a SACK: the ranges it reported become older by one SACK.
    pub(super) fn end(&mut self) {
        self.arrived.rotate_right(1);
        self.arrived[0].clear();
    }

    pub(super) fn dropped(&self) -> &[u8] {
        &self.dropped_bytes
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let ranges = self.arrived.iter().chain([&self.dropped, &self.sorted]);
        ranges
            .map(|ranges| ranges.capacity() * size_of::<Range>())
            .sum::<usize>()
            + self.dropped_bytes.capacity()
    }
}

/// Removes a TSN from the range that contains it, if there is one. A hole splits a range. If there are more than `limit` ranges, all
/// are removed and the result is false: a full SACK reports them.
fn remove(ranges: &mut Vec<Range>, tsn: Tsn, limit: usize) -> bool {
    let is_in = |&(first, last): &Range| tsn.distance(first) <= last.distance(first);
    if let Some(place) = ranges.iter().position(is_in) {
        let (first, last) = ranges.remove(place);
        if last != tsn {
            ranges.insert(place, (tsn.next(), last));
        }
        if first != tsn {
            ranges.insert(place, (first, tsn.previous()));
        }
        if ranges.len() > limit {
            ranges.clear();
            return false;
        }
    }
    true
}

/// Returns a range as a block of a SACK with this cumulative TSN. The range begins at most 65535 above the cumulative
/// TSN.
fn block((first, last): &Range, cumulative: Tsn) -> [u8; 4] {
    let end = last.distance(cumulative).min(MAX_OFFSET);
    (first.distance(cumulative) << 16 | end).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The sender chooses which dropped TSNs it retransmits: every other TSN splits one range into as many ranges as there were TSNs.
    #[test]
    fn gaps_create_a_bounded_number_of_ranges() {
        let mut state = NewGapsState::default();
        (1..=2000).rev().for_each(|tsn| state.on_drop(Tsn(tsn)));
        state.begin(Tsn(0), 0);
        for tsn in (2..2000).step_by(2) {
            state.on_arrival(Tsn(tsn));
            assert!(state.dropped.len() <= MAX_DROPPED, "{tsn}");
        }
        assert!(state.full_due, "a full SACK reports the forgotten ranges");
        let mut state = NewGapsState::default();
        (1..=2000).for_each(|tsn| state.on_arrival(Tsn(tsn)));
        for tsn in (2..2000).step_by(2).rev() {
            state.on_drop(Tsn(tsn));
            assert!(
                state.arrived.iter().all(|arrived| arrived.len() <= MAX_ARRIVALS),
                "{tsn}"
            );
        }
    }
}
