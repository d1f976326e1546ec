//! Where SACKs go, and SACKs in other forms, if both ends agreed: NR-SACK (draft-tuexen-tsvwg-sctp-multipath) and NEW GAPS (Ye 2004, 6.6).
//!
//! Either is turned into the SACK that says the same, which is processed like any other. What an NR-SACK will never take back is
//! freed after that: its place in the ring stays, its payload goes. A peer that takes it back all the same is not believed.
//!
//! NEW GAPS chunks count themselves. One that was overtaken adds the arrivals that it reports: on several paths more SACKs overtake each
//! other than repeat an arrival. What those that overtook it took back stays so, and what it took back may have come since.

use whimbrel_control::Seq;
use whimbrel_control::multipath::SackPath;
use whimbrel_wire::{GapBlock, GapBlocks, NewGaps, NrSack, Sack};

use super::{Association, Context, State};
use crate::error::Discard;
use crate::extensions::Extensions;

/// What is agreed on, and what has been told.
#[derive(Debug, Default)]
pub(super) struct Reports {
    nr_sack: bool,
    new_gaps: bool,
    /// Positions that the last NR-SACK promised to keep: half open, ascending and apart.
    kept: Vec<(Seq, Seq)>,
    /// Serial number of the last NEW GAPS.
    serial: Option<u16>,
    /// What that one took back: every one does so until it comes again.
    taken_back: Vec<(Seq, Seq)>,
}

impl Reports {
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + (self.kept.capacity() + self.taken_back.capacity()) * size_of::<(Seq, Seq)>()
    }
}

/// Half-open ranges of positions, ascending and apart.
type RangeList = Vec<(Seq, Seq)>;

/// Lists that are filled and emptied while a SACK is read.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// What the SACK reports, and promises to keep or takes back.
    told: [RangeList; 2],
    known: RangeList,
    all: RangeList,
    rest: RangeList,
}

/// Adds a half-open range to ranges in ascending order of their beginnings.
fn add_range(ranges: &mut RangeList, start: Seq, end: Seq) {
    match ranges.last_mut() {
        Some((_, last)) if start <= *last => *last = end.max(*last),
        _ => ranges.push((start, end)),
    }
}

/// Makes `ranges` those of `blocks` in a SACK whose first offset means `base`; those that cannot be are passed over. False if one of them
/// reports a TSN that was never sent.
fn read_blocks(blocks: GapBlocks<'_>, base: Seq, end_of_sent: Seq, ranges: &mut RangeList) -> bool {
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

/// Makes `all` what is in one of two lists of ranges or in both.
fn union(a: &[(Seq, Seq)], b: &[(Seq, Seq)], all: &mut RangeList) {
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

/// Makes `rest` what is in `ranges` but not in `others`.
fn difference(ranges: &[(Seq, Seq)], others: &[(Seq, Seq)], rest: &mut RangeList) {
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

/// Writes ranges above `base` as blocks.
fn write_blocks(ranges: &[(Seq, Seq)], base: Seq, bytes: &mut Vec<u8>) {
    bytes.clear();
    for &(start, end) in ranges {
        // Both fit: no more chunks are outstanding than an offset can tell.
        GapBlock {
            start: (start.saturating_sub(base) + 1).min(u16::MAX.into()) as u16,
            end: end.saturating_sub(base).min(u16::MAX.into()) as u16,
        }
        .emit(bytes);
    }
}

impl Association {
    pub(super) fn agree_on_reports(&mut self, both: Extensions) {
        let nr_sack = both.has(Extensions::NR_SACK);
        let new_gaps = both.has(Extensions::NEW_GAPS) && !nr_sack;
        self.reports = (nr_sack || new_gaps).then(|| {
            Box::new(Reports {
                nr_sack,
                new_gaps,
                ..Reports::default()
            })
        });
    }

    /// Whether both ends use NR-SACK.
    pub fn uses_nr_sack(&self) -> bool {
        self.reports.as_ref().is_some_and(|reports| reports.nr_sack)
    }

    /// Whether both ends use NEW GAPS.
    pub fn uses_new_gaps(&self) -> bool {
        self.reports.as_ref().is_some_and(|reports| reports.new_gaps)
    }

    /// The position behind the cumulative TSN ack of a SACK; none if that is old or impossible.
    fn base_of(&self, sack: &Sack<'_>) -> Option<Seq> {
        let ahead = sack
            .cumulative_tsn_ack
            .0
            .wrapping_sub(self.outstanding.cumulative_tsn_ack().0);
        (ahead as usize <= self.outstanding.len()).then(|| self.outstanding.base() + Seq::from(ahead))
    }

    /// Processes a SACK whose gaps are these ranges above `base`.
    fn take_with_ranges(
        &mut self,
        ctx: &mut Context<'_>,
        sack: &Sack<'_>,
        base: Seq,
        all: &[(Seq, Seq)],
        from: usize,
        complete: bool,
    ) -> Result<(), Discard> {
        let mut bytes = core::mem::take(&mut ctx.scratch.gaps);
        write_blocks(all, base, &mut bytes);
        let full = Sack {
            gaps: GapBlocks::from_wire_bytes(&bytes),
            ..*sack
        };
        let taken = self.take_sack(ctx, &full, from, complete);
        ctx.scratch.gaps = bytes;
        taken
    }

    /// Where a SACK goes that no data takes along.
    // [9260:6.4-3, 6.7-2]
    pub(super) fn sack_path(&self) -> usize {
        let last = self.receiver.as_ref().map_or(0, |receiver| receiver.sack_path());
        let last = usize::from(last).min(self.paths.len() - 1);
        let wanted = match self.switches.reporting.sack_path {
            SackPath::LastArrival | SackPath::All => None,
            SackPath::Primary => Some(usize::from(self.primary)),
            SackPath::LowestRtt => (0..self.paths.len())
                .filter(|&index| self.paths[index].is_active())
                .filter_map(|index| Some((self.paths[index].rtt.srtt()?, index)))
                .min()
                .map(|(_, index)| index),
        };
        match wanted.filter(|&index| self.paths[index].is_active()) {
            Some(index) => index,
            None => self.confirmed_or_sending(last),
        }
    }

    /// The next path on which a copy of the last SACK goes.
    pub(super) fn next_sack_copy(&self) -> Option<usize> {
        if self.sack_copies == 0 || !self.may_send_sack() {
            return None;
        }
        let is_wanted = |&index: &usize| self.sack_copies >> index & 1 != 0 && self.paths[index].is_active();
        (0..self.paths.len()).find(is_wanted)
    }

    /// A SACK was sent. If it is no copy itself, copies go on the other paths if that is wanted.
    pub(super) fn note_sack(&mut self, path: usize, is_due: bool) {
        if is_due && self.switches.reporting.sack_path == SackPath::All {
            self.sack_copies = u32::MAX;
        }
        self.sack_copies &= !(1 << path);
    }

    pub(super) fn on_nr_sack(
        &mut self,
        ctx: &mut Context<'_>,
        nr_sack: &NrSack<'_>,
        from: usize,
    ) -> Result<(), Discard> {
        if !self.uses_nr_sack() {
            return Err(Discard::Unexpected);
        }
        let sack = &nr_sack.sack();
        let Some(base) = self.base_of(sack) else {
            return self.take_sack(ctx, sack, from, false);
        };
        let end_of_sent = self.outstanding.next_seq();
        let mut lists = core::mem::take(&mut ctx.scratch.ranges);
        let Ranges {
            told: [gaps, kept],
            all,
            rest,
            ..
        } = &mut lists;
        let were_sent = read_blocks(sack.gaps, base, end_of_sent, gaps)
            & read_blocks(nr_sack.lists.second(), base, end_of_sent, kept);
        union(kept, gaps, all);
        let complete = self.had_room_for_more(nr_sack.lists.len() + 1);
        let taken = if were_sent {
            self.take_with_ranges(ctx, sack, base, all, from, complete)
        } else {
            self.on_impossible_sack(ctx)
        };
        if taken.is_ok() {
            self.free_kept(kept, rest);
        }
        ctx.scratch.ranges = lists;
        taken
    }

    /// Frees what the peer will never take back, as far as it is not free yet. `rest` is for use in between.
    fn free_kept(&mut self, kept: &mut RangeList, rest: &mut RangeList) {
        let Some(reports) = &mut self.reports else { return };
        if self.state == State::Closed {
            return;
        }
        let mut freed = 0;
        difference(kept, &reports.kept, rest);
        for &(start, end) in rest.iter() {
            for seq in start..end {
                freed += self.outstanding.free(seq);
            }
        }
        core::mem::swap(&mut reports.kept, kept);
        if freed > 0 {
            self.stats.data_bytes_acked += freed;
            self.stats.data_bytes_freed_early += freed;
            self.tell_user_about_progress();
        }
    }

    pub(super) fn on_new_gaps(
        &mut self,
        ctx: &mut Context<'_>,
        new_gaps: &NewGaps<'_>,
        from: usize,
    ) -> Result<(), Discard> {
        let Some(reports) = self.reports.as_mut().filter(|reports| reports.new_gaps) else {
            return Err(Discard::Unexpected);
        };
        let is_overtaken = |last: u16| new_gaps.serial.wrapping_sub(last).wrapping_sub(1) >= 1 << 15;
        let is_overtaken = reports.serial.is_some_and(is_overtaken);
        let sack = &new_gaps.sack();
        if is_overtaken {
            return self.on_overtaken_gaps(ctx, sack, from);
        }
        reports.serial = Some(new_gaps.serial);
        if new_gaps.everything {
            reports.taken_back.clear();
            let complete = self.had_room_for_more(new_gaps.lists.len() + 1);
            return self.take_sack(ctx, sack, from, complete);
        }
        let Some(base) = self.base_of(sack) else {
            return self.take_sack(ctx, sack, from, false);
        };
        let end_of_sent = self.outstanding.next_seq();
        let mut lists = core::mem::take(&mut ctx.scratch.ranges);
        let Ranges {
            told: [gaps, taken_back],
            known,
            all,
            rest,
        } = &mut lists;
        // One that begins right behind the cumulative ack cannot still be held: it would have moved that. It is taken back.
        let above = self
            .outstanding
            .reported()
            .iter()
            .map(|&(start, end)| (start.max(base), end));
        known.clear();
        known.extend(above.filter(|&(start, end)| base < start && start < end));
        let were_sent = read_blocks(sack.gaps, base, end_of_sent, gaps);
        // What is taken back acknowledges nothing.
        read_blocks(new_gaps.lists.second(), base, end_of_sent, taken_back);
        union(known, gaps, all);
        difference(all, taken_back, rest);
        if let Some(reports) = &mut self.reports {
            reports.taken_back.clone_from(taken_back);
        }
        let taken = if were_sent {
            self.take_with_ranges(ctx, sack, base, rest, from, true)
        } else {
            self.on_impossible_sack(ctx)
        };
        ctx.scratch.ranges = lists;
        taken
    }

    /// A NEW GAPS that was overtaken: the arrivals that it reports are added to those known. Its window is old.
    fn on_overtaken_gaps(&mut self, ctx: &mut Context<'_>, sack: &Sack<'_>, from: usize) -> Result<(), Discard> {
        let end_of_sent = self.outstanding.next_seq();
        let base = self.outstanding.base();
        let behind = self
            .outstanding
            .cumulative_tsn_ack()
            .0
            .wrapping_sub(sack.cumulative_tsn_ack.0);
        let Some(first) = base.checked_sub(behind.into()) else {
            return Err(Discard::Unexpected);
        };
        let mut lists = core::mem::take(&mut ctx.scratch.ranges);
        let Ranges {
            told: [gaps, above],
            known,
            all,
            rest,
        } = &mut lists;
        read_blocks(sack.gaps, first, end_of_sent, gaps);
        // What begins at the cumulative ack point would have moved it.
        above.clear();
        above.extend(gaps.iter().map(|&(start, end)| (start.max(base), end)));
        above.retain(|&(start, end)| base < start && start < end);
        known.clear();
        known.extend_from_slice(self.outstanding.reported());
        union(known, above, all);
        let taken_back = self.reports.as_ref().map_or(&[][..], |reports| &reports.taken_back);
        difference(all, taken_back, rest);
        let now = Sack {
            cumulative_tsn_ack: self.outstanding.cumulative_tsn_ack(),
            ..*sack
        };
        let mut bytes = core::mem::take(&mut ctx.scratch.gaps);
        write_blocks(rest, base, &mut bytes);
        let full = Sack {
            gaps: GapBlocks::from_wire_bytes(&bytes),
            ..now
        };
        let taken = self.take_overtaken(ctx, &full, from);
        ctx.scratch.gaps = bytes;
        ctx.scratch.ranges = lists;
        taken
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
    fn blocks_that_cannot_be_are_passed_over() {
        let mut bytes = Vec::new();
        // Offset zero, backwards, fine, overlapping what came.
        for (start, end) in [(0, 3), (5, 4), (2, 4), (4, 6), (7, 9), (8, 9)] {
            GapBlock { start, end }.emit(&mut bytes);
        }
        let mut ranges = vec![(1, 2)];
        assert!(read_blocks(GapBlocks::from_wire_bytes(&bytes), 100, 109, &mut ranges));
        assert_eq!(ranges, [(101, 104), (106, 109)]);
        // The last one was never sent.
        assert!(!read_blocks(GapBlocks::from_wire_bytes(&bytes), 100, 108, &mut ranges));
        let mut again = Vec::new();
        write_blocks(&ranges, 100, &mut again);
        assert_eq!(again, [0, 2, 0, 4, 0, 7, 0, 9]);
    }
}
