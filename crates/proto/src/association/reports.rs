//! The path of SACKs, and other SACK formats, if negotiated: NR-SACK (draft-tuexen-tsvwg-sctp-multipath) and NEW GAPS
//! (Ye 2004, 6.6).
//!
//! Both are converted to the equivalent SACK, which is then processed as usual. Afterwards, the payload of
//! non-renegable chunks is freed; their entries in the ring remain. If a peer reneges on them nevertheless, that is
//! ignored.
//!
//! NEW GAPS chunks have serial numbers. An overtaken one only adds the arrivals that it reports, because with several
//! paths SACKs overtake each other more often than they repeat an arrival. Chunks that a later NEW GAPS reneged on
//! remain reneged. Chunks that the overtaken one reneged on may have arrived since, so that part is ignored.

use whimbrel_control::Seq;
use whimbrel_control::multipath::SackPath;
use whimbrel_wire::{GapBlocks, NewGaps, NrSack, Sack};

use super::ranges::{RangeList, Ranges, Reports, difference, read_blocks, union, write_blocks};
use super::{Association, State};
use crate::PathId;
use crate::context::Context;
use crate::error::Discard;
use crate::extensions::Extensions;
use crate::send::Extent;
use crate::send::path::Path;

impl Association {
    pub(super) fn agree_on_reports(&mut self, both: Extensions) {
        let nr_sack = both.has(Extensions::NR_SACK);
        let new_gaps = both.has(Extensions::NEW_GAPS) && !nr_sack;
        self.agreed.reports = (nr_sack || new_gaps).then(|| {
            Box::new(Reports {
                nr_sack,
                new_gaps,
                ..Reports::default()
            })
        });
    }

    /// Returns whether NR-SACK was negotiated.
    pub fn uses_nr_sack(&self) -> bool {
        self.agreed.reports.as_ref().is_some_and(|reports| reports.nr_sack)
    }

    /// Returns whether NEW GAPS was negotiated.
    pub fn uses_new_gaps(&self) -> bool {
        self.agreed.reports.as_ref().is_some_and(|reports| reports.new_gaps)
    }

    /// Returns the position after the cumulative TSN ack of a SACK, or `None` if it is old or invalid.
    fn base_of(&self, sack: &Sack<'_>) -> Option<Seq> {
        let ahead = sack
            .cumulative_tsn_ack
            .0
            .wrapping_sub(self.sending.outstanding().cumulative_tsn_ack().0);
        (ahead as usize <= self.sending.outstanding().len())
            .then(|| self.sending.outstanding().base() + Seq::from(ahead))
    }

    /// Sets `known` to the ranges above `base` that the peer has reported, without one that begins there: the cumulative TSN ack would
    /// include it.
    fn known_above(&self, base: Seq, known: &mut Vec<(Seq, Seq)>) {
        let above = self
            .sending
            .outstanding()
            .reported()
            .map(|(start, end)| (start.max(base), end));
        known.clear();
        known.extend(above.filter(|&(start, end)| base < start && start < end));
    }

    /// Processes a SACK whose gap ack blocks are these ranges above `base`.
    fn apply_with_ranges(
        &mut self,
        ctx: &mut Context<'_>,
        sack: &Sack<'_>,
        base: Seq,
        all: &[(Seq, Seq)],
        from: PathId,
        extent: Extent,
    ) -> Result<(), Discard> {
        let mut bytes = core::mem::take(&mut ctx.scratch.gaps);
        write_blocks(all, base, &mut bytes);
        let full = Sack {
            gaps: GapBlocks::from_wire_bytes(&bytes),
            ..*sack
        };
        let taken = self.apply_sack(ctx, &full, from, extent);
        ctx.scratch.gaps = bytes;
        taken
    }

    /// Returns the path for a SACK that is not bundled with data.
    // [9260:6.4-3, 6.7-2]
    pub(super) fn sack_path(&self) -> PathId {
        let last = self
            .receiving
            .receiver
            .as_ref()
            .map_or(0, |receiver| receiver.sack_path());
        let last = PathId(last).min(PathId::at(self.sending.paths().len() - 1));
        let wanted = match self.config.parts.reporting.sack_path {
            SackPath::LastArrival | SackPath::All => None,
            SackPath::Primary => Some(self.sending.primary()),
            SackPath::LowestRtt => self
                .sending
                .paths()
                .ids()
                .filter(|&index| self.sending.paths()[index].is_active())
                .filter_map(|index| Some((self.sending.paths()[index].rtt().srtt()?, index)))
                .min()
                .map(|(_, index)| index),
        };
        match wanted.filter(|&index| self.sending.paths()[index].is_active()) {
            Some(index) => index,
            None if self.sending.should_avoid(last) => self.sending.paths().position(Path::answers).unwrap_or(last),
            None => self.sending.confirmed_or_sending(last),
        }
    }

    /// Returns the next path that needs a copy of the last SACK.
    pub(super) fn next_sack_copy(&self) -> Option<PathId> {
        if self.receiving.sack_copies == 0 || !self.may_send_sack() {
            return None;
        }
        let is_wanted = |index: PathId| self.receiving.sack_copies >> index.0 & 1 != 0;
        let may_go = |index: PathId| self.sending.paths()[index].is_active() && self.may_carry_sack(index);
        let mut paths = self.sending.paths().ids();
        paths.find(|&index| is_wanted(index) && may_go(index))
    }

    /// Returns whether a SACK may be sent on a path.
    pub(super) fn may_carry_sack(&self, index: PathId) -> bool {
        self.sending.paths()[index].is_open() && !self.sending.should_avoid(index)
    }

    /// Records that a SACK was sent. If it is not a copy, copies are sent on the other paths if configured.
    pub(super) fn note_sack(&mut self, path: PathId, is_due: bool) {
        if is_due && self.config.parts.reporting.sack_path == SackPath::All {
            self.receiving.sack_copies = u32::MAX;
        }
        self.receiving.sack_copies &= !(1 << path.0);
    }

    pub(super) fn on_nr_sack(
        &mut self,
        ctx: &mut Context<'_>,
        nr_sack: &NrSack<'_>,
        from: PathId,
    ) -> Result<(), Discard> {
        let sack = &nr_sack.sack();
        let Some(base) = self.base_of(sack) else {
            return self.apply_sack(ctx, sack, from, Extent::Cut);
        };
        let end_of_sent = self.sending.outstanding().next_seq();
        let mut lists = core::mem::take(&mut ctx.scratch.ranges);
        let Ranges {
            lists: [gaps, kept],
            known,
            all,
            rest,
        } = &mut lists;
        let were_sent = read_blocks(sack.gaps, base, end_of_sent, gaps)
            & read_blocks(nr_sack.lists.second(), base, end_of_sent, kept);
        union(kept, gaps, all);
        let extent = self.extent_of(nr_sack.lists.len() + 1);
        if extent == Extent::Cut {
            // The lists may end at different TSNs, and above the lower end nothing is known: what was known is not reneged on.
            self.known_above(base, known);
            union(known, all, rest);
            core::mem::swap(all, rest);
        }
        let taken = if were_sent {
            self.apply_with_ranges(ctx, sack, base, all, from, extent)
        } else {
            self.on_impossible_sack(ctx)
        };
        if taken.is_ok() {
            self.free_kept(ctx, kept, rest);
        }
        ctx.scratch.ranges = lists;
        taken
    }

    /// Frees chunks that are newly non-renegable. `rest` is temporary storage.
    fn free_kept(&mut self, ctx: &mut Context<'_>, kept: &mut RangeList, rest: &mut RangeList) {
        let Some(reports) = &mut self.agreed.reports else {
            return;
        };
        if self.state == State::Closed {
            return;
        }
        difference(kept, &reports.kept, rest);
        core::mem::swap(&mut reports.kept, kept);
        let progress = self.sending.free_early(rest);
        self.apply(ctx, progress);
    }

    pub(super) fn on_new_gaps(
        &mut self,
        ctx: &mut Context<'_>,
        new_gaps: &NewGaps<'_>,
        from: PathId,
    ) -> Result<(), Discard> {
        let Some(reports) = self.agreed.reports.as_mut().filter(|reports| reports.new_gaps) else {
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
            reports.reneged.clear();
            let extent = self.extent_of(new_gaps.lists.len() + 1);
            return self.apply_sack(ctx, sack, from, extent);
        }
        let Some(base) = self.base_of(sack) else {
            return self.apply_sack(ctx, sack, from, Extent::Cut);
        };
        let end_of_sent = self.sending.outstanding().next_seq();
        let mut lists = core::mem::take(&mut ctx.scratch.ranges);
        let Ranges {
            lists: [gaps, reneged],
            known,
            all,
            rest,
        } = &mut lists;
        // A range directly after the cumulative TSN ack cannot still be received: the cumulative TSN ack would have
        // advanced. It was reneged on.
        self.known_above(base, known);
        let were_sent = read_blocks(sack.gaps, base, end_of_sent, gaps);
        // Reneged ranges acknowledge nothing.
        read_blocks(new_gaps.lists.second(), base, end_of_sent, reneged);
        union(known, gaps, all);
        difference(all, reneged, rest);
        if let Some(reports) = &mut self.agreed.reports {
            reports.reneged.clone_from(reneged);
        }
        let taken = if were_sent {
            self.apply_with_ranges(ctx, sack, base, rest, from, Extent::Whole)
        } else {
            self.on_impossible_sack(ctx)
        };
        ctx.scratch.ranges = lists;
        taken
    }

    /// Processes an overtaken NEW GAPS: its arrivals are added to the known ones. Its a_rwnd is outdated.
    fn on_overtaken_gaps(&mut self, ctx: &mut Context<'_>, sack: &Sack<'_>, from: PathId) -> Result<(), Discard> {
        let end_of_sent = self.sending.outstanding().next_seq();
        let base = self.sending.outstanding().base();
        let behind = self
            .sending
            .outstanding()
            .cumulative_tsn_ack()
            .0
            .wrapping_sub(sack.cumulative_tsn_ack.0);
        let Some(first) = base.checked_sub(behind.into()) else {
            return Err(Discard::Unexpected);
        };
        let mut lists = core::mem::take(&mut ctx.scratch.ranges);
        let Ranges {
            lists: [gaps, above],
            known,
            all,
            rest,
        } = &mut lists;
        read_blocks(sack.gaps, first, end_of_sent, gaps);
        // A range at the cumulative TSN ack point is not valid: it would have advanced the point.
        above.clear();
        above.extend(gaps.iter().map(|&(start, end)| (start.max(base), end)));
        above.retain(|&(start, end)| base < start && start < end);
        known.clear();
        known.extend(self.sending.outstanding().reported());
        union(known, above, all);
        let reneged = self.agreed.reports.as_ref().map_or(&[][..], |reports| &reports.reneged);
        difference(all, reneged, rest);
        let now = Sack {
            cumulative_tsn_ack: self.sending.outstanding().cumulative_tsn_ack(),
            ..*sack
        };
        let mut bytes = core::mem::take(&mut ctx.scratch.gaps);
        write_blocks(rest, base, &mut bytes);
        let full = Sack {
            gaps: GapBlocks::from_wire_bytes(&bytes),
            ..now
        };
        let taken = self.apply_overtaken(ctx, &full, from);
        ctx.scratch.gaps = bytes;
        ctx.scratch.ranges = lists;
        taken
    }
}
