//! SACKs that report beyond gaps only what is new (Ye 2004, 6.6).
//!
//! SACKs get lost, and nobody acknowledges them. So each arrival is told by three SACKs, and what was taken back by all until it
//! comes again. Everything is told by each sixteenth SACK, after data that came again, which shows that the sender has not seen it
//! acknowledged, and after something was dropped.

use whimbrel_wire::Tsn;

use super::sack::MAX_OFFSET;

/// SACKs that tell of an arrival.
const REPEATS: usize = 3;
/// One SACK of so many tells everything.
const EVERYTHING_EACH: u16 = 16;
/// Ranges remembered for one SACK at most; if there are more, the next one tells everything.
const MAX_ARRIVALS: usize = 512;
/// Ranges taken back that are remembered at most; older ones are told by SACKs that tell everything.
const MAX_TAKEN_BACK: usize = 32;

/// What a SACK that tells only news says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct News {
    /// Its serial number.
    pub(crate) serial: u16,
    /// It tells everything.
    pub(crate) everything: bool,
}

/// First and last TSN.
type Range = (Tsn, Tsn);

#[derive(Debug, Default)]
pub(super) struct NewsState {
    /// What came beyond a gap since the last SACK, before that one, and so on.
    arrived: [Vec<Range>; REPEATS],
    /// What was dropped after it had come.
    taken_back: Vec<Range>,
    /// The same in the SACK written last, as it is on the wire.
    taken_back_bytes: Vec<u8>,
    sorted: Vec<Range>,
    serial: u16,
    everything_due: bool,
}

impl NewsState {
    pub(super) fn tell_everything(&mut self) {
        self.everything_due = true;
    }

    /// A TSN has come beyond a gap.
    pub(super) fn on_arrival(&mut self, tsn: Tsn) {
        let arrived = &mut self.arrived[0];
        if let Some((_, last)) = arrived.last_mut().filter(|(_, last)| last.next() == tsn) {
            *last = tsn;
        } else if arrived.len() < MAX_ARRIVALS {
            arrived.push((tsn, tsn));
        } else {
            self.everything_due = true;
        }
        if !remove(&mut self.taken_back, tsn, MAX_TAKEN_BACK) {
            self.everything_due = true;
        }
    }

    /// A TSN that had come was dropped. They go from the top.
    pub(super) fn on_drop(&mut self, tsn: Tsn) {
        self.everything_due = true;
        for arrived in &mut self.arrived {
            remove(arrived, tsn, MAX_ARRIVALS);
        }
        match self.taken_back.last_mut() {
            Some((first, _)) if *first == tsn.next() => *first = tsn,
            _ => {
                if self.taken_back.len() >= MAX_TAKEN_BACK {
                    self.taken_back.remove(0);
                }
                self.taken_back.push((tsn, tsn));
            }
        }
    }

    /// Begins a SACK; returns what it is, and how many blocks, of so many at most, tell of what was taken back.
    pub(super) fn begin(&mut self, cumulative: Tsn, blocks: usize) -> (News, usize) {
        let news = News {
            serial: self.serial,
            everything: core::mem::take(&mut self.everything_due) || self.serial.is_multiple_of(EVERYTHING_EACH),
        };
        self.serial = self.serial.wrapping_add(1);
        self.taken_back.retain(|(_, last)| last.is_after(cumulative));
        self.taken_back_bytes.clear();
        if !news.everything {
            for (first, _) in &mut self.taken_back {
                if !first.is_after(cumulative) {
                    *first = cumulative.next();
                }
            }
            self.taken_back
                .sort_unstable_by_key(|(first, _)| first.distance(cumulative));
            let reachable = |(first, _): &&Range| first.distance(cumulative) <= MAX_OFFSET;
            for range in self.taken_back.iter().filter(reachable).take(blocks) {
                self.taken_back_bytes.extend_from_slice(&block(range, cumulative));
            }
        }
        (news, self.taken_back_bytes.len() / 4)
    }

    /// Writes what has come beyond gaps, in at most so many blocks.
    pub(super) fn write(&mut self, cumulative: Tsn, blocks: usize, bytes: &mut Vec<u8>) {
        self.sorted.clear();
        // What begins at or below the cumulative TSN lies below it as a whole; what lies too far above it is told when the gap is filled.
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

    /// The SACK is written: what it told is older by one.
    pub(super) fn end(&mut self) {
        self.arrived.rotate_right(1);
        self.arrived[0].clear();
    }

    pub(super) fn taken_back(&self) -> &[u8] {
        &self.taken_back_bytes
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let ranges = self.arrived.iter().chain([&self.taken_back, &self.sorted]);
        ranges
            .map(|ranges| ranges.capacity() * size_of::<Range>())
            .sum::<usize>()
            + self.taken_back_bytes.capacity()
    }
}

/// Takes a TSN out of the range that it is in, if it is in any. Holes make ranges; beyond so many they are forgotten, and that is
/// false: a SACK that tells everything tells of them too.
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

/// A range as a block of a SACK with this cumulative TSN; it begins at most 65535 above it.
fn block((first, last): &Range, cumulative: Tsn) -> [u8; 4] {
    let end = last.distance(cumulative).min(MAX_OFFSET);
    (first.distance(cumulative) << 16 | end).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The sender chooses which of what was dropped it sends again: every other TSN makes as many ranges as there were TSNs.
    #[test]
    fn holes_do_not_make_ranges_without_bound() {
        let mut news = NewsState::default();
        (1..=2000).rev().for_each(|tsn| news.on_drop(Tsn(tsn)));
        news.begin(Tsn(0), 0);
        for tsn in (2..2000).step_by(2) {
            news.on_arrival(Tsn(tsn));
            assert!(news.taken_back.len() <= MAX_TAKEN_BACK, "{tsn}");
        }
        assert!(
            news.everything_due,
            "what is forgotten is told by a SACK that tells everything"
        );
        let mut news = NewsState::default();
        (1..=2000).for_each(|tsn| news.on_arrival(Tsn(tsn)));
        for tsn in (2..2000).step_by(2).rev() {
            news.on_drop(Tsn(tsn));
            assert!(
                news.arrived.iter().all(|arrived| arrived.len() <= MAX_ARRIVALS),
                "{tsn}"
            );
        }
    }
}
