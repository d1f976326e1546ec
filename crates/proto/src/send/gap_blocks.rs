//! Compares the Gap Ack Blocks of a received SACK with those of the previous SACK.
//!
//! A SACK repeats nearly all blocks of the previous one: it reports one more packet at the end, or one filled gap. Equal blocks at the
//! beginning and at the end are found by comparing them in wire format, or as ranges of positions if the cumulative ack point has
//! moved. Only the blocks between are processed.

use whimbrel_control::Seq;
use whimbrel_wire::{GapBlock, GapBlocks};

use super::outstanding::Outstanding;
use super::process_sack::SackObserver;
use super::slot::{Fate, Slot};

/// A Gap Ack Block in bytes.
const BLOCK: usize = size_of::<GapBlock>();
/// Bytes compared at once.
const STRIDE: usize = 64;

/// The ranges that the peer has reported above the cumulative ack point. An idle sender keeps none.
#[derive(Debug, Default)]
pub(super) struct Reported(Option<Box<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Ranges above the base, half open, in ascending order and not adjacent.
    ranges: Vec<(Seq, Seq)>,
    /// The ranges as the blocks of the last SACK, one for each range. Empty if that SACK had invalid blocks.
    blocks: Vec<u8>,
    /// The base of the offsets in these blocks.
    blocks_base: Seq,
    /// Spare vector for ranges that have changed.
    changed: Vec<(Seq, Seq)>,
}

impl Reported {
    /// Returns the ranges, half open, in ascending order and not adjacent.
    pub(super) fn ranges(&self) -> &[(Seq, Seq)] {
        self.0.as_ref().map_or(&[], |known| &known.ranges)
    }

    /// Returns the position after the highest TSN reported.
    pub(super) fn end(&self) -> Option<Seq> {
        self.ranges().last().map(|&(_, end)| end)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |known| {
            size_of::<Known>()
                + (known.ranges.capacity() + known.changed.capacity()) * size_of::<(Seq, Seq)>()
                + known.blocks.capacity()
        })
    }

    pub(super) fn release_memory(&mut self) {
        if self.ranges().is_empty() {
            self.0 = None;
        } else if let Some(known) = &mut self.0 {
            known.ranges.shrink_to_fit();
            (known.blocks, known.changed) = (Vec::new(), Vec::new());
        }
    }
}

impl Known {
    /// Returns how many blocks at the beginning and at the end are equal to those of the previous SACK. Ranges below `base` have been
    /// removed.
    fn unchanged(&self, gaps: GapBlocks<'_>, base: Seq) -> (usize, usize) {
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
fn read_blocks(
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

impl Outstanding {
    /// Compares the Gap Ack Blocks with the known ranges. Returns whether the receiver reneged on any chunk, or `None` if a block
    /// reports a TSN that was never sent. If the SACK is not complete, it says nothing about TSNs above its last block.
    // [9260:6.7-4, 12.4-4]
    pub(super) fn on_gap_blocks(
        &mut self,
        gaps: GapBlocks<'_>,
        complete: bool,
        highest_newly_acked: &mut Option<Seq>,
        observer: &mut impl SackObserver,
    ) -> Option<bool> {
        if gaps.is_empty() && self.reported.ranges().is_empty() {
            return Some(false);
        }
        let (base, end_of_sent) = (self.base(), self.next_seq());
        let mut known = self.reported.0.take().unwrap_or_default();
        let passed = known.ranges.partition_point(|&(_, end)| end <= base);
        known.ranges.drain(..passed);
        let (first, mut last) = known.unchanged(gaps, base);
        let floor = first.checked_sub(1).map(|before| known.ranges[before].1);
        let between =
            |last: usize| GapBlocks::from_wire_bytes(&gaps.wire_bytes()[BLOCK * first..BLOCK * (gaps.len() - last)]);
        let mut changed = core::mem::take(&mut known.changed);
        let mut were_sent = read_blocks(between(last), base, floor, end_of_sent, &mut changed);
        let behind = changed.last().map(|&(_, end)| end).or(floor);
        if last > 0 && behind >= Some(known.ranges[known.ranges.len() - last].0) {
            // The blocks before overlap the equal blocks at the end, which are not used in that case.
            last = 0;
            were_sent = read_blocks(between(last), base, floor, end_of_sent, &mut changed);
        }
        if !were_sent {
            return None;
        }
        let replaced = first..known.ranges.len() - last;
        self.on_reported(&known.ranges[replaced.clone()], &changed, highest_newly_acked, observer);
        let horizon = match (complete, last) {
            (true, _) => Seq::MAX,
            (false, 0) => changed.last().map(|&(_, end)| end).or(floor).unwrap_or(base),
            (false, _) => known.ranges.last().map_or(base, |&(_, end)| end),
        };
        let reneged = self.on_reneged(&known.ranges[replaced.clone()], &changed, horizon);
        known.blocks.clear();
        if first + changed.len() + last == gaps.len() {
            known.blocks.extend_from_slice(gaps.wire_bytes());
        }
        known.blocks_base = base;
        known.ranges.splice(replaced, changed.iter().copied());
        known.changed = changed;
        self.reported.0 = Some(known);
        Some(reneged)
    }

    /// Acknowledges the chunks in the reported ranges that are not in the known ranges.
    fn on_reported(
        &mut self,
        known: &[(Seq, Seq)],
        reported: &[(Seq, Seq)],
        highest_newly_acked: &mut Option<Seq>,
        observer: &mut impl SackObserver,
    ) {
        let mut next_known = 0;
        for &(start, end) in reported {
            let mut seq = start;
            while seq < end {
                while next_known < known.len() && known[next_known].1 <= seq {
                    next_known += 1;
                }
                match known.get(next_known) {
                    Some(&(from, to)) if from <= seq => seq = to,
                    other => {
                        let stop = other.map_or(end, |&(from, _)| from.min(end));
                        for newly in seq..stop {
                            self.on_gap_acked(newly, highest_newly_acked, observer);
                        }
                        seq = stop;
                    }
                }
            }
        }
    }

    /// Handles chunks that were reported before and are no longer reported: the receiver dropped them (RFC 9260 §6.2.1
    /// D iii).
    // [9260:6.2.1-1]
    fn on_reneged(&mut self, known: &[(Seq, Seq)], reported: &[(Seq, Seq)], horizon: Seq) -> bool {
        let base = self.base();
        let mut reneged = false;
        let mut next = 0;
        for &(from, to) in known {
            let mut seq = from.max(base);
            while seq < to.min(horizon) {
                while next < reported.len() && reported[next].1 <= seq {
                    next += 1;
                }
                match reported.get(next) {
                    Some(&(start, end)) if start <= seq => seq = end,
                    other => {
                        let stop = other.map_or(to, |&(start, _)| start).min(to).min(horizon);
                        for reneged_seq in seq..stop {
                            if !self.put_back_in_flight(reneged_seq) {
                                continue;
                            }
                            reneged = true;
                            // One missing report for each (§6.2.1 D iii).
                            let mut path = 0;
                            if let Some(slot) = self.slot_mut(reneged_seq) {
                                slot.missing = 1;
                                path = slot.path;
                            }
                            if let Some(sequences) = &mut self.sequences {
                                let slots = &self.slots;
                                let is_acked = |slot: &Slot| slot.fate == Fate::Acked && slot.path == path;
                                let highest = || Some(base + slots.iter().rposition(is_acked)? as Seq);
                                sequences.on_reneged((reneged_seq - base) as usize, reneged_seq, path, highest);
                            } else if let Err(place) = self.suspects.binary_search(&reneged_seq) {
                                self.suspects.insert(place, reneged_seq);
                            }
                        }
                        seq = stop;
                    }
                }
            }
        }
        reneged
    }
}
