//! Caches the Gap Ack Blocks of the last SACK. The next SACK repeats nearly all of them, so only TSNs above the lowest change are
//! looked up.

use whimbrel_wire::Tsn;

/// The largest offset of a Gap Ack Block.
pub(super) const MAX_OFFSET: u32 = 65_535;

/// A Gap Ack Block in bytes.
const BLOCK: usize = 4;

/// Gap Ack Blocks in wire format, and the lowest TSN changed since they were written. The blocks may be older than the last SACK:
/// changes are noted in any case.
#[derive(Debug, Default)]
pub(super) struct GapCache {
    blocks: Vec<u8>,
    /// The TSN that the offsets count from.
    cumulative: Tsn,
    /// The lowest TSN above the cumulative TSN that arrived or was dropped since.
    changed: Option<Tsn>,
}

/// The offset of the last TSN of a block.
fn last_offset(block: &[u8; BLOCK]) -> u32 {
    u32::from(u16::from_be_bytes([block[2], block[3]]))
}

impl GapCache {
    /// Notes that a TSN above the cumulative TSN arrived or was dropped.
    #[inline]
    pub(super) fn note(&mut self, tsn: Tsn) {
        if self.changed.is_none_or(|changed| changed.is_after(tsn)) {
            self.changed = Some(tsn);
        }
    }

    /// Removes all blocks, as there is no gap.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.changed = None;
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.blocks.capacity()
    }

    /// Keeps the blocks that have not changed, at most `limit`. Returns their number, and the TSN from which the caller looks up the
    /// other blocks.
    pub(super) fn keep_unchanged(&mut self, cumulative: Tsn, limit: usize) -> (usize, Tsn) {
        if cumulative != self.cumulative {
            self.count_from(cumulative);
        }
        // A block next to the changed TSN may have grown.
        let change = self.changed.take().map_or(u32::MAX, |tsn| tsn.distance(cumulative));
        let (blocks, _) = self.blocks.as_chunks::<BLOCK>();
        let kept = blocks
            .partition_point(|block| last_offset(block) + 1 < change)
            .min(limit);
        let last = kept.checked_sub(1).map_or(0, |last| last_offset(&blocks[last]));
        self.blocks.truncate(BLOCK * kept);
        (kept, cumulative + (last + 1))
    }

    /// Adds a block above all other blocks.
    // [9260:3.3.4-3]
    #[inline]
    pub(super) fn push(&mut self, first: Tsn, last: Tsn) {
        let block = first.distance(self.cumulative) << 16 | last.distance(self.cumulative);
        self.blocks.extend_from_slice(&block.to_be_bytes());
    }

    pub(super) fn blocks(&self) -> &[u8] {
        &self.blocks
    }

    /// Moves the base of the offsets to a higher cumulative TSN, and removes the blocks at or below it.
    fn count_from(&mut self, cumulative: Tsn) {
        let passed = cumulative.distance(self.cumulative);
        self.cumulative = cumulative;
        if self.changed.is_some_and(|changed| !changed.is_after(cumulative)) {
            // TSNs above the cumulative TSN may have changed since.
            self.changed = Some(cumulative.next());
        }
        let (blocks, _) = self.blocks.as_chunks::<BLOCK>();
        let gone = blocks.partition_point(|block| last_offset(block) <= passed);
        self.blocks.drain(..BLOCK * gone);
        let (blocks, _) = self.blocks.as_chunks_mut::<BLOCK>();
        let mut is_cut = false;
        for block in blocks {
            let [start, end] = [[block[0], block[1]], [block[2], block[3]]].map(|n| u32::from(u16::from_be_bytes(n)));
            // A block that ended at the largest offset may extend further with the new base.
            is_cut |= end == MAX_OFFSET;
            *block = (start.saturating_sub(passed) << 16 | end.saturating_sub(passed)).to_be_bytes();
        }
        if is_cut {
            self.blocks.truncate(self.blocks.len() - BLOCK);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use whimbrel_control::Rng;

    use super::*;

    /// Returns the runs of a set above `cumulative`, as blocks.
    fn runs(set: &BTreeSet<u32>, cumulative: u32, limit: usize) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for offset in set.iter().map(|tsn| tsn - cumulative).filter(|&o| o <= MAX_OFFSET) {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == offset => *last = offset,
                _ => runs.push((offset, offset)),
            }
        }
        runs.truncate(limit);
        runs
    }

    #[test]
    fn gap_cache_equals_a_scan_of_all_received_tsns() {
        // RFC 9260 §1.6: the TSNs wrap around during the test.
        let initial = u32::MAX - 1000;
        for seed in 0..30 {
            let rng = &mut Rng::stream(seed, "gap cache");
            let mut cache = GapCache::default();
            let (mut set, mut cumulative) = (BTreeSet::new(), 0_u32);
            let mut kept = 0;
            let reach = [20, 300, 70_000][rng.below(3) as usize];
            for _ in 0..100 {
                let tsn = |number: u32| Tsn(initial.wrapping_add(number));
                match rng.below(8) {
                    0 => cumulative += 1,
                    // The highest TSN received is dropped.
                    1 => {
                        if let Some(last) = set.pop_last() {
                            cache.note(tsn(last));
                        }
                    }
                    2..5 => {
                        let first = cumulative + 2 + rng.below(reach) as u32;
                        for number in first..first + 1 + rng.below(reach / 4) as u32 {
                            if set.insert(number) {
                                cache.note(tsn(number));
                            }
                        }
                    }
                    _ => {
                        let limit = if rng.chance(0.2) { rng.below(5) as usize } else { 1000 };
                        let expected = runs(&set, cumulative, limit);
                        let (same, from) = cache.keep_unchanged(tsn(cumulative), limit);
                        kept += same;
                        let from = from.distance(tsn(cumulative));
                        let above = set.iter().map(|n| n - cumulative).filter(|&offset| offset >= from);
                        let above = above.map(|offset| offset + cumulative).collect();
                        for (first, last) in runs(&above, cumulative, limit - same) {
                            cache.push(tsn(cumulative + first), tsn(cumulative + last));
                        }
                        let blocks: Vec<_> = expected.iter().map(|(first, last)| first << 16 | last).collect();
                        let written = cache.blocks().as_chunks::<BLOCK>().0.iter();
                        assert_eq!(
                            written.map(|block| u32::from_be_bytes(*block)).collect::<Vec<_>>(),
                            blocks,
                            "seed {seed}"
                        );
                    }
                }
                while set.remove(&(cumulative + 1)) {
                    cumulative += 1;
                }
            }
            assert!(kept > 0, "seed {seed}: every block was looked up again");
        }
    }
}
