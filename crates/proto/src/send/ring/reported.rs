//! The Gap Ack Blocks of the previous SACK, and their comparison with those of a received one.
//!
//! A SACK repeats nearly all blocks of the previous one: it reports one more packet at the end, or one filled gap. Equal blocks at the
//! beginning and at the end are found by comparing them in wire format, or as ranges of positions if the cumulative ack point has
//! moved. Only the blocks between are processed.

use whimbrel_control::Seq;
use whimbrel_wire::{GapBlock, GapBlocks};

/// A Gap Ack Block in bytes.
pub(super) const BLOCK: usize = size_of::<GapBlock>();
/// Bytes compared at once.
const STRIDE: usize = 64;

/// The ranges that the peer has reported above the cumulative ack point. An idle sender keeps none.
#[derive(Debug, Default)]
pub(super) struct Reported(pub(super) Option<Box<Known>>);

#[derive(Debug, Default)]
pub(super) struct Known {
    /// Ranges above the base, half open, in ascending order and not adjacent.
    pub(super) ranges: Vec<(Seq, Seq)>,
    /// Ranges above these that earlier SACKs reported, and about which the later ones said nothing: they had no room, or the peer limits the
    /// number of blocks.
    pub(super) beyond: Vec<(Seq, Seq)>,
    /// The ranges as the blocks of the last SACK, one for each range. Empty if that SACK had invalid blocks.
    pub(super) blocks: Vec<u8>,
    /// The base of the offsets in these blocks.
    pub(super) blocks_base: Seq,
    /// Spare vector for ranges that have changed.
    pub(super) changed: Vec<(Seq, Seq)>,
}

impl Reported {
    /// Returns the ranges, half open, in ascending order and not adjacent.
    pub(super) fn ranges(&self) -> &[(Seq, Seq)] {
        self.0.as_ref().map_or(&[], |known| &known.ranges)
    }

    /// Returns the ranges that the peer has reported, in the last SACK or before one that was cut: half open, in ascending order.
    pub(super) fn all(&self) -> impl Iterator<Item = (Seq, Seq)> {
        let known = self.0.iter();
        known.flat_map(|known| known.ranges.iter().chain(&known.beyond).copied())
    }

    /// Whether the peer has reported this position.
    pub(super) fn holds(&self, seq: Seq) -> bool {
        let holds = |ranges: &[(Seq, Seq)]| {
            let next = ranges.partition_point(|&(_, end)| end <= seq);
            ranges.get(next).is_some_and(|&(start, _)| start <= seq)
        };
        self.0
            .as_ref()
            .is_some_and(|known| holds(&known.ranges) || holds(&known.beyond))
    }

    /// Whether no SACK has reported a range that still counts.
    pub(super) fn is_empty(&self) -> bool {
        self.0
            .as_ref()
            .is_none_or(|known| known.ranges.is_empty() && known.beyond.is_empty())
    }

    /// Returns the position after the highest TSN that the last SACK reported.
    pub(super) fn end(&self) -> Option<Seq> {
        self.ranges().last().map(|&(_, end)| end)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |known| {
            size_of::<Known>()
                + (known.ranges.capacity() + known.beyond.capacity() + known.changed.capacity())
                    * size_of::<(Seq, Seq)>()
                + known.blocks.capacity()
        })
    }

    pub(super) fn release_memory(&mut self) {
        if self.is_empty() {
            self.0 = None;
        } else if let Some(known) = &mut self.0 {
            known.ranges.shrink_to_fit();
            known.beyond.shrink_to_fit();
            (known.blocks, known.changed) = (Vec::new(), Vec::new());
        }
    }
}

impl Known {
    /// Returns the end of the known range that goes on at `end`, the end of what a SACK reports: its last block, or the cumulative TSN ack,
    /// would be higher if that range were still held.
    pub(super) fn end_of_range(&self, end: Seq) -> Seq {
        for ranges in [&self.ranges, &self.beyond] {
            let after = ranges.partition_point(|&(from, _)| from <= end);
            if let Some(&(_, to)) = after.checked_sub(1).and_then(|last| ranges.get(last))
                && end < to
            {
                return to;
            }
        }
        end
    }

    /// Keeps what is above a position, of these ranges and of those beyond them, as ranges about which nothing new is known. The position is
    /// [`end_of_range`](Self::end_of_range), which is within no range.
    pub(super) fn keep_beyond(&mut self, replaced: core::ops::Range<usize>, horizon: Seq) {
        let passed = self.beyond.partition_point(|&(_, to)| to <= horizon);
        self.beyond.drain(..passed);
        let replaced = &self.ranges[replaced];
        let left_out = &replaced[replaced.partition_point(|&(_, to)| to <= horizon)..];
        self.beyond.splice(0..0, left_out.iter().copied());
    }

    /// Returns how many blocks at the beginning and at the end are equal to those of the previous SACK. Ranges below `base` have been
    /// removed.
    pub(super) fn unchanged(&self, gaps: GapBlocks<'_>, base: Seq) -> (usize, usize) {
        let most = gaps.len().min(self.ranges.len());
        if self.blocks_base == base && self.blocks.len() == BLOCK * self.ranges.len() {
            let first = common_prefix(&self.blocks, gaps.wire_bytes());
            (first, common_suffix(&self.blocks, gaps.wire_bytes()).min(most - first))
        } else {
            let is_same =
                |(block, range): &(GapBlock, &(Seq, Seq))| block.start >= 2 && range_of(block, base) == **range;
            let first = gaps.iter().zip(&self.ranges).take_while(is_same).count();
            let backward = gaps.iter().rev().zip(self.ranges.iter().rev());
            (first, backward.take(most - first).take_while(is_same).count())
        }
    }
}

/// Returns the positions that a block reports. Offsets count from the cumulative TSN ack, which is base - 1 (RFC 9260
/// §3.3.4).
fn range_of(block: &GapBlock, base: Seq) -> (Seq, Seq) {
    (
        base + Seq::from(block.start).saturating_sub(1),
        base + Seq::from(block.end),
    )
}

/// Returns the number of equal blocks at the beginning of both lists.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let strides = a.chunks_exact(STRIDE).zip(b.chunks_exact(STRIDE));
    let same = STRIDE * strides.take_while(|(a, b)| a == b).count();
    let blocks = a[same..].chunks_exact(BLOCK).zip(b[same..].chunks_exact(BLOCK));
    same / BLOCK + blocks.take_while(|(a, b)| a == b).count()
}

/// Returns the number of equal blocks at the end of both lists.
fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let strides = a.rchunks_exact(STRIDE).zip(b.rchunks_exact(STRIDE));
    let same = STRIDE * strides.take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[..a.len() - same], &b[..b.len() - same]);
    let blocks = a.rchunks_exact(BLOCK).zip(b.rchunks_exact(BLOCK));
    same / BLOCK + blocks.take_while(|(a, b)| a == b).count()
}

/// Sets `ranges` to the ranges of the blocks that begin above `floor`. Invalid blocks are ignored: those that are empty, next to the
/// cumulative ack, or out of order. Returns false if a block reports a TSN that was never sent.
pub(super) fn read_blocks(
    gaps: GapBlocks<'_>,
    base: Seq,
    floor: Option<Seq>,
    end_of_sent: Seq,
    ranges: &mut Vec<(Seq, Seq)>,
) -> bool {
    ranges.clear();
    let (mut last, mut were_sent) = (floor, true);
    for block in gaps.iter() {
        let (start, end) = range_of(&block, base);
        were_sent &= start >= end || end <= end_of_sent;
        if block.start >= 2 && start < end && last.is_none_or(|last| start > last) {
            ranges.push((start, end));
            last = Some(end);
        }
    }
    were_sent
}
