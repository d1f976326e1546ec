//! The ranges that SACKs of other formats report, and what is known from the last one. `reports.rs` processes them.

use whimbrel_control::Seq;
use whimbrel_wire::{GapBlock, GapBlocks};

/// The negotiated formats, and the state of the reports.
#[derive(Debug, Default)]
pub(super) struct Reports {
    pub(super) nr_sack: bool,
    pub(super) new_gaps: bool,
    /// Positions that the last NR-SACK reported as non-renegable: half-open ranges, ascending and disjoint.
    pub(super) kept: Vec<(Seq, Seq)>,
    /// Serial number of the last NEW GAPS.
    pub(super) serial: Option<u16>,
    /// Ranges that the last NEW GAPS reneged on. Every NEW GAPS repeats them until the chunks have been received again.
    pub(super) reneged: Vec<(Seq, Seq)>,
}

impl Reports {
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + (self.kept.capacity() + self.reneged.capacity()) * size_of::<(Seq, Seq)>()
    }
}

/// Half-open ranges of positions, ascending and disjoint.
pub(super) type RangeList = Vec<(Seq, Seq)>;

/// Lists that are filled and emptied while a SACK is processed.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// The reported ranges, and the non-renegable or reneged ranges.
    pub(super) lists: [RangeList; 2],
    pub(super) known: RangeList,
    pub(super) all: RangeList,
    pub(super) rest: RangeList,
}

/// Appends a half-open range to ranges in ascending order of their starts.
fn add_range(ranges: &mut RangeList, start: Seq, end: Seq) {
    match ranges.last_mut() {
        Some((_, last)) if start <= *last => *last = end.max(*last),
        _ => ranges.push((start, end)),
    }
}

/// Converts the blocks of a SACK to ranges; `base` is the position of offset 1. Invalid blocks are skipped. Returns
/// false if a block reports a TSN that was never sent.
pub(super) fn read_blocks(blocks: GapBlocks<'_>, base: Seq, end_of_sent: Seq, ranges: &mut RangeList) -> bool {
    ranges.clear();
    let mut were_sent = true;
    for block in blocks {
        let start = base + Seq::from(block.start).saturating_sub(1);
        let end = base + Seq::from(block.end);
        were_sent &= start >= end || end <= end_of_sent;
        if block.start > 0 && start < end && ranges.last().is_none_or(|&(_, last)| start >= last) {
            add_range(ranges, start, end);
        }
    }
    were_sent
}

/// Computes the union of two lists of ranges.
pub(super) fn union(a: &[(Seq, Seq)], b: &[(Seq, Seq)], all: &mut RangeList) {
    all.clear();
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let take_a = match (a.peek(), b.peek()) {
            (Some((start_a, _)), Some((start_b, _))) => start_a <= start_b,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return,
        };
        if let Some(&(start, end)) = if take_a { a.next() } else { b.next() } {
            add_range(all, start, end);
        }
    }
}

/// Computes the difference of two lists of ranges.
pub(super) fn difference(ranges: &[(Seq, Seq)], others: &[(Seq, Seq)], rest: &mut RangeList) {
    rest.clear();
    let mut next = 0;
    for &(mut start, end) in ranges {
        while start < end {
            while others.get(next).is_some_and(|&(_, to)| to <= start) {
                next += 1;
            }
            let (from, to) = others.get(next).copied().unwrap_or((Seq::MAX, Seq::MAX));
            if start < from {
                rest.push((start, from.min(end)));
            }
            start = to;
        }
    }
}

/// Writes ranges above `base` as gap ack blocks.
pub(super) fn write_blocks(ranges: &[(Seq, Seq)], base: Seq, bytes: &mut Vec<u8>) {
    bytes.clear();
    for &(start, end) in ranges {
        // Both fit: the number of outstanding chunks is limited to the range of an offset.
        GapBlock {
            start: (start.saturating_sub(base) + 1).min(u16::MAX.into()) as u16,
            end: end.saturating_sub(base).min(u16::MAX.into()) as u16,
        }
        .emit(bytes);
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::Rng;

    use super::*;

    fn set(ranges: &[(Seq, Seq)]) -> Vec<Seq> {
        ranges.iter().flat_map(|&(start, end)| start..end).collect()
    }

    fn random(rng: &mut Rng) -> Vec<(Seq, Seq)> {
        let (mut at, mut ranges) = (10, Vec::new());
        for _ in 0..rng.below(6) {
            let start = at + rng.below(4);
            let end = start + 1 + rng.below(4);
            add_range(&mut ranges, start, end);
            at = end;
        }
        ranges
    }

    #[test]
    fn ranges_are_sets() {
        let mut rng = Rng::stream(1, "ranges");
        for _ in 0..3000 {
            let (a, b) = (random(&mut rng), random(&mut rng));
            let (in_a, in_b) = (set(&a), set(&b));
            let (mut both, mut rest) = (Vec::new(), Vec::new());
            union(&a, &b, &mut both);
            assert!((0..80).all(|n| set(&both).contains(&n) == (in_a.contains(&n) || in_b.contains(&n))));
            assert!(
                both.is_sorted() && both.windows(2).all(|pair| pair[0].1 < pair[1].0),
                "{both:?}"
            );
            difference(&a, &b, &mut rest);
            assert!((0..80).all(|n| set(&rest).contains(&n) == (in_a.contains(&n) && !in_b.contains(&n))));
        }
    }

    #[test]
    fn invalid_gap_ack_blocks_are_skipped() {
        let mut bytes = Vec::new();
        // Offset zero, end before start, valid, overlapping the previous block.
        for (start, end) in [(0, 3), (5, 4), (2, 4), (4, 6), (7, 9), (8, 9)] {
            GapBlock { start, end }.emit(&mut bytes);
        }
        let mut ranges = vec![(1, 2)];
        assert!(read_blocks(GapBlocks::from_wire_bytes(&bytes), 100, 109, &mut ranges));
        assert_eq!(ranges, [(101, 104), (106, 109)]);
        // The TSNs of the last block were never sent.
        assert!(!read_blocks(GapBlocks::from_wire_bytes(&bytes), 100, 108, &mut ranges));
        let mut again = Vec::new();
        write_blocks(&ranges, 100, &mut again);
        assert_eq!(again, [0, 2, 0, 4, 0, 7, 0, 9]);
    }
}
