//! Accounting for each path: implicit path sequence numbers (PSN; Ye 2004, 6.4), and the state that CMT keeps for TSNs
//! instead.
//!
//! Every transmission gets the next PSN of its path. A chunk retransmitted on the same path keeps its PSN. A chunk retransmitted on
//! another path gets a new PSN there, and the old one counts as acknowledged (Figure 40). A SACK reports TSNs and is processed as one
//! SACK of PSNs for each path (Figure 39); only newly reported TSNs are translated here.
//!
//! A copy of a chunk (see [`copies`](super::copies)) also has a PSN, until it is known to have arrived or been lost.
//!
//! With CMT (Iyengar, Amer and Stewart 2006) chunks are ordered by TSN. The PSNs then only serve to find the earliest chunk that was
//! sent once, the pseudo-cumack. Retransmitted chunks are kept in a separate list, since CUCv2 follows the earliest of them as well.
//!
//! The *position* of a chunk is its number for congestion control: its PSN, or the position of its TSN with CMT.

use std::collections::VecDeque;

use whimbrel_control::Seq;

use crate::PathId;

/// The chunk with a PSN is acknowledged.
const ACKED: u64 = 1 << 63;
/// Its TSN is acknowledged cumulatively, or the chunk was retransmitted on another path: the entry no longer changes.
const GONE: u64 = 1 << 62;
/// The PSN is that of a copy: a transmission that is not the chunk's own.
const COPY: u64 = 1 << 61;
/// The chunk is acknowledged, but an earlier transmission has arrived, and not the one with this PSN.
const EARLIER: u64 = 1 << 60;
/// The value for chunks without a PSN.
const NONE: Seq = Seq::MAX;

/// Whether the chunk of this entry was sent on another path before it arrived.
fn went_elsewhere(entry: u64) -> bool {
    entry & (ACKED | GONE) == GONE
}

/// Transmissions on one path.
#[derive(Debug, Default)]
pub(super) struct PathSequence {
    /// PSN of the first entry.
    base: Seq,
    /// The position in the association of the chunk that has each PSN, with flags.
    entries: VecDeque<u64>,
    /// Everything below this PSN is acknowledged or no longer outstanding. It is one past the cumulative PSN ack point, which never moves back.
    acked_to: Seq,
    /// The value of `acked_to` when it was last checked.
    acked_before: Seq,
    /// Entries from `acked_to` on whose chunks were sent on another path before they arrived. They are not outstanding
    /// here.
    elsewhere: u64,
    /// The last PSN used whose chunk was not sent on another path since.
    newest: Seq,
    /// One past the highest position acknowledged.
    reported_to: Seq,
    /// PSNs below this one have been checked for suspects.
    scanned: Seq,
    /// Positions in flight below the highest acknowledged one that missing reports can still declare lost, in ascending
    /// order.
    suspects: VecDeque<Seq>,
    /// With CMT: positions of chunks retransmitted on this path, in ascending order; some of them are stale.
    again: VecDeque<Seq>,
    /// The first of them when the current SACK arrived.
    again_before: Option<Seq>,
    /// With CMT: the lowest position not acknowledged when the current SACK arrived.
    lowest_before: Option<Seq>,
    /// The highest and the lowest position that the current SACK has acknowledged.
    pub(super) newly: Option<(Seq, Seq)>,
    /// Positions not acknowledged when the current SACK arrived.
    pub(super) span_before: u64,
}

/// The state of a chunk in the ring.
pub(super) struct ChunkState {
    pub(super) path: u8,
    pub(super) acked: bool,
    pub(super) retransmitted: bool,
}

/// The ack points of a path that a SACK has moved.
pub(super) struct Progress {
    /// The window may grow: the cumulative PSN ack point has moved (Ye 2004, 6.4.2.1), or one of the pseudo-cumacks (CUCv2).
    pub(super) window: bool,
    /// The lowest position that was not acknowledged has been acknowledged.
    pub(super) lowest: bool,
}

/// The sequences of all paths.
#[derive(Debug)]
pub(super) struct PathSequences {
    by_tsn: bool,
    /// PSN of each chunk in the ring.
    psns: VecDeque<Seq>,
    pub(super) paths: Vec<PathSequence>,
}

impl PathSequence {
    /// Returns the next PSN.
    pub(super) fn next(&self) -> Seq {
        self.base + self.entries.len() as Seq
    }

    fn entry(&self, psn: Seq) -> Option<u64> {
        self.entries.get(psn.checked_sub(self.base)? as usize).copied()
    }

    /// Returns the chunk that has a PSN, unless the PSN is acknowledged, no longer outstanding, or that of a copy.
    fn unacked(&self, psn: Seq) -> Option<Seq> {
        self.entry(psn).filter(|entry| entry & (ACKED | GONE | COPY) == 0)
    }

    /// Notes that a transmission with this position has arrived.
    fn arrive(&mut self, psn: Seq, position: Seq, marks: u64) {
        self.mark(psn, marks);
        self.reported_to = self.reported_to.max(position + 1);
        let (highest, lowest) = self.newly.unwrap_or((position, position));
        self.newly = Some((highest.max(position), lowest.min(position)));
    }

    fn mark(&mut self, psn: Seq, marks: u64) {
        let Some(place) = psn.checked_sub(self.base) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(place as usize) else {
            return;
        };
        let was_elsewhere = went_elsewhere(*entry);
        *entry |= marks;
        if was_elsewhere || !went_elsewhere(*entry) {
            return;
        }
        self.elsewhere += u64::from(psn >= self.acked_to);
        while self.entry(self.newest).is_some_and(went_elsewhere) && self.newest > self.base {
            self.newest -= 1;
        }
    }

    /// Takes the next PSN.
    fn append(&mut self, entry: u64) -> Seq {
        self.newest = self.next();
        self.entries.push_back(entry);
        self.newest
    }

    /// Moves the cumulative PSN ack point over entries that are acknowledged (Figure 39) or were sent on another path (Figure 40).
    fn advance(&mut self) {
        while let Some(entry) = self.entry(self.acked_to).filter(|entry| entry & (ACKED | GONE) != 0) {
            self.elsewhere -= u64::from(went_elsewhere(entry));
            self.acked_to += 1;
        }
        while self.entries.front().is_some_and(|entry| entry & GONE != 0) {
            self.entries.pop_front();
            self.base += 1;
        }
    }

    /// Returns the number of positions not acknowledged cumulatively.
    fn span(&self) -> u64 {
        self.next() - self.acked_to - self.elsewhere + self.again.len() as u64
    }

    fn lowest_unacked(&self) -> Option<Seq> {
        let first = self.unacked(self.acked_to);
        let again = self.again.front().copied();
        first.into_iter().chain(again).min()
    }

    fn insert_suspect(&mut self, position: Seq) {
        match self.suspects.back() {
            Some(&last) if last >= position => {
                if let Err(place) = self.suspects.binary_search(&position) {
                    self.suspects.insert(place, position);
                }
            }
            _ => self.suspects.push_back(position),
        }
    }
}

impl PathSequences {
    pub(super) fn new(by_tsn: bool) -> Self {
        PathSequences {
            by_tsn,
            psns: VecDeque::new(),
            paths: Vec::new(),
        }
    }

    /// Whether positions are those of TSNs.
    pub(super) fn by_tsn(&self) -> bool {
        self.by_tsn
    }

    pub(super) fn set_paths(&mut self, paths: usize) {
        self.paths.resize_with(paths, PathSequence::default);
    }

    /// Returns the position of the chunk at `place` in the ring.
    #[inline]
    pub(super) fn position(&self, place: usize, seq: Seq) -> Seq {
        if self.by_tsn {
            seq
        } else {
            self.psns.get(place).copied().unwrap_or(NONE)
        }
    }

    /// Returns the chunk at a position of a path, if it is not acknowledged and still outstanding.
    pub(super) fn chunk_at(&self, path: usize, position: Seq) -> Option<Seq> {
        if self.by_tsn {
            Some(position)
        } else {
            self.paths[path].unacked(position)
        }
    }

    /// Notes the first transmission of a chunk.
    pub(super) fn push(&mut self, seq: Seq, path: u8) {
        let path = &mut self.paths[usize::from(path)];
        self.psns.push_back(path.append(seq));
    }

    /// Notes the retransmission of a chunk.
    pub(super) fn retransmit(
        &mut self,
        place: usize,
        seq: Seq,
        (from, to): (u8, u8),
        chunk: impl Fn(Seq) -> Option<ChunkState>,
    ) {
        let psn = self.psns.get(place).copied().unwrap_or(NONE);
        let moves = from != to;
        if self.by_tsn || moves {
            let path = &mut self.paths[usize::from(from)];
            path.mark(psn, GONE);
            if self.by_tsn {
                path.advance();
            }
            if self.by_tsn
                && moves
                && let Ok(at) = path.again.binary_search(&seq)
            {
                path.again.remove(at);
                self.drop_stale(from.into(), &chunk);
            }
        }
        let path = &mut self.paths[usize::from(to)];
        if self.by_tsn {
            self.psns[place] = NONE;
            if let Err(at) = path.again.binary_search(&seq) {
                path.again.insert(at, seq);
            }
        } else if moves {
            self.psns[place] = path.append(seq);
        }
    }

    /// Lets missing reports count for a chunk in flight from now on.
    pub(super) fn suspect(&mut self, place: usize, seq: Seq, path: u8) {
        let psn = self.psns.get(place).copied().unwrap_or(NONE);
        let position = self.position(place, seq);
        let path = &mut self.paths[usize::from(path)];
        // Positions not checked yet will be. Only chunks retransmitted with CMT have no PSN.
        if psn < path.scanned || psn == NONE {
            path.insert_suspect(position);
        }
    }

    /// Begins to process a SACK.
    pub(super) fn start_sack(&mut self, chunk: impl Fn(Seq) -> Option<ChunkState>) {
        for index in 0..self.paths.len() {
            self.drop_stale(index, &chunk);
            let by_tsn = self.by_tsn;
            let path = &mut self.paths[index];
            path.advance();
            path.newly = None;
            path.span_before = path.span();
            if by_tsn {
                // CUC uses acknowledged positions only.
                path.acked_before = path.acked_to;
                path.again_before = path.again.front().copied();
                path.lowest_before = path.lowest_unacked();
            }
        }
    }

    fn drop_stale(&mut self, index: usize, chunk: &impl Fn(Seq) -> Option<ChunkState>) {
        let again = &mut self.paths[index].again;
        let is_here = |state: ChunkState| usize::from(state.path) == index && !state.acked && state.retransmitted;
        while again.front().is_some_and(|&seq| !chunk(seq).is_some_and(is_here)) {
            again.pop_front();
        }
    }

    /// Notes that a chunk is acknowledged. `is_reported`: its last transmission has arrived. If not, it reports nothing missing that was
    /// sent before that transmission.
    pub(super) fn on_acked(&mut self, place: usize, seq: Seq, path: u8, is_reported: bool) {
        let position = self.position(place, seq);
        let psn = self.psns.get(place).copied().unwrap_or(NONE);
        let path = &mut self.paths[usize::from(path)];
        if is_reported || self.by_tsn {
            path.arrive(psn, position, ACKED);
        } else {
            path.mark(psn, ACKED | EARLIER);
        }
    }

    /// Notes that a chunk is given up: it is not outstanding, and reports nothing missing.
    pub(super) fn on_given_up(&mut self, place: usize, path: u8) {
        let psn = self.psns.get(place).copied().unwrap_or(NONE);
        self.paths[usize::from(path)].mark(psn, ACKED | EARLIER);
    }

    /// Notes that the first chunk leaves the ring.
    pub(super) fn on_passed(&mut self, path: u8) {
        if let Some(psn) = self.psns.pop_front() {
            self.paths[usize::from(path)].mark(psn, ACKED | GONE);
        }
    }

    /// Notes that the receiver reneged on a chunk. The cumulative ack point stays. `highest_acked`: the highest chunk above the
    /// cumulative TSN ack that is acknowledged on the path.
    pub(super) fn on_reneged(&mut self, place: usize, seq: Seq, path: u8, highest_acked: impl FnOnce() -> Option<Seq>) {
        let position = self.position(place, seq);
        let psn = self.psns.get(place).copied().unwrap_or(NONE);
        let by_tsn = self.by_tsn;
        let path = &mut self.paths[usize::from(path)];
        if let Some(entry) = psn
            .checked_sub(path.base)
            .and_then(|at| path.entries.get_mut(at as usize))
        {
            *entry &= !(ACKED | EARLIER);
        } else if let Err(at) = path.again.binary_search(&seq) {
            path.again.insert(at, seq);
        }
        if path.reported_to == position + 1 {
            path.reported_to = if by_tsn {
                highest_acked().map_or(0, |highest| highest + 1)
            } else {
                let highest = path
                    .entries
                    .iter()
                    .rposition(|entry| entry & (ACKED | EARLIER) == ACKED);
                path.base + highest.map_or(0, |at| at as Seq + 1)
            };
        }
        path.insert_suspect(position);
    }

    /// Moves the ack points after all of the SACK has been read, and returns which of them have moved.
    pub(super) fn finish_sack(&mut self, index: usize, chunk: impl Fn(Seq) -> Option<ChunkState>) -> Progress {
        self.drop_stale(index, &chunk);
        let path = &mut self.paths[index];
        path.advance();
        let moved = path.acked_to > path.acked_before;
        path.acked_before = path.acked_to;
        if !self.by_tsn {
            return Progress {
                window: moved,
                lowest: moved,
            };
        }
        // The position may be below a chunk on which the receiver reneged, which moves nothing.
        let is_acked = |seq: Seq| chunk(seq).is_none_or(|state| state.acked);
        Progress {
            window: moved || path.again_before.is_some_and(is_acked),
            lowest: path.lowest_before.is_some_and(is_acked),
        }
    }

    /// Returns the position of a path below which everything is acknowledged.
    pub(super) fn acked_to(&self, index: usize, next_seq: Seq) -> Seq {
        if self.by_tsn {
            self.lowest_unacked(index).unwrap_or(next_seq)
        } else {
            self.paths[index].acked_to
        }
    }

    /// Returns the chunk at the lowest position of a path that is not acknowledged.
    pub(super) fn lowest_unacked(&self, index: usize) -> Option<Seq> {
        self.paths[index].lowest_unacked()
    }

    /// Returns the number of positions of a path not acknowledged cumulatively.
    pub(super) fn span(&self, index: usize) -> u64 {
        self.paths[index].span()
    }

    /// Whether a Gap Ack Block has reported the arrival of the last transmission on the path, among those of chunks sent there first or
    /// moved there, and not sent on another path since.
    pub(super) fn newest_is_reported(&self, index: usize) -> bool {
        let path = &self.paths[index];
        path.entry(path.newest)
            .is_some_and(|entry| entry & (ACKED | EARLIER) == ACKED)
    }

    /// Returns the first position at or after `from` that is not acknowledged, with its chunk, and whether the position is that of a
    /// copy.
    pub(super) fn next_unacked(&self, index: usize, from: Seq) -> Option<(Seq, Seq, bool)> {
        let path = &self.paths[index];
        (from.max(path.base)..path.next()).find_map(|psn| {
            let entry = path.entry(psn).filter(|entry| entry & (ACKED | GONE) == 0)?;
            Some((psn, entry & !COPY, entry & COPY != 0))
        })
    }

    /// Notes the transmission of a copy of a chunk. Returns its PSN.
    pub(super) fn push_copy(&mut self, seq: Seq, path: u8) -> Seq {
        self.paths[usize::from(path)].append(seq | COPY)
    }

    /// Makes a copy the chunk's own transmission, as it is the one that arrived. Returns the PSN of the former own transmission, which
    /// becomes a copy if it is still in flight (`in_flight`), and is removed otherwise.
    pub(super) fn swap(&mut self, place: usize, (from, in_flight): (u8, bool), (to, copy): (u8, Seq)) -> Seq {
        let psn = self.psns.get(place).copied().unwrap_or(NONE);
        let path = &mut self.paths[usize::from(from)];
        if in_flight {
            path.mark(psn, COPY);
            if psn < path.scanned {
                path.insert_suspect(psn);
            }
        } else {
            path.mark(psn, GONE);
        }
        let path = &mut self.paths[usize::from(to)];
        if let Some(entry) = copy
            .checked_sub(path.base)
            .and_then(|at| path.entries.get_mut(at as usize))
        {
            *entry &= !COPY;
        }
        if let Some(own) = self.psns.get_mut(place) {
            *own = copy;
        }
        psn
    }

    /// Makes the own transmission of an acknowledged chunk a copy, whose arrival is reported separately, or removes it if it was lost. The
    /// chunk has no own transmission then.
    pub(super) fn detach(&mut self, place: usize, path: u8, in_flight: bool) {
        let Some(own) = self.psns.get_mut(place) else { return };
        let psn = core::mem::replace(own, NONE);
        let path = &mut self.paths[usize::from(path)];
        path.mark(psn, if in_flight { COPY } else { GONE });
        if in_flight && psn < path.scanned {
            path.insert_suspect(psn);
        }
    }

    /// Notes a retransmission that gets a new PSN, also on the same path. Returns the old PSN if it stays outstanding: on the same path
    /// until [`PathSequences::drop_copy`], as the retransmission belongs to the same recovery.
    pub(super) fn renew(&mut self, place: usize, seq: Seq, (from, to): (u8, u8)) -> Option<Seq> {
        let psn = self.psns.get(place).copied().unwrap_or(NONE);
        let stays = from == to && psn != NONE;
        self.paths[usize::from(from)].mark(psn, if stays { COPY } else { GONE });
        self.psns[place] = self.paths[usize::from(to)].append(seq);
        stays.then_some(psn)
    }

    /// Returns the lowest PSN of a path whose fate may be unknown.
    pub(super) fn lowest(&self, path: PathId) -> Seq {
        self.paths[path.index()].base
    }

    /// Notes that a copy has arrived.
    pub(super) fn on_copy_arrived(&mut self, psn: Seq, path: u8) {
        self.paths[usize::from(path)].arrive(psn, psn, ACKED | GONE);
    }

    /// Notes that a copy is declared lost.
    pub(super) fn drop_copy(&mut self, psn: Seq, path: u8) {
        self.paths[usize::from(path)].mark(psn, GONE);
    }

    /// Returns the chunk at the highest position of a path that is not acknowledged and fulfils the condition, if chunks are ordered
    /// by PSN.
    pub(super) fn last_unacked(&self, index: usize, is_meant: impl Fn(Seq) -> bool) -> Option<Seq> {
        let path = &self.paths[index];
        let unacked = path.entries.iter().rev();
        let unacked = unacked.filter(|entry| **entry & (ACKED | GONE | COPY) == 0);
        unacked.copied().find(|seq| is_meant(*seq))
    }

    /// Looks for suspects among the positions below the highest acknowledged one that have not been checked yet.
    pub(super) fn find_suspects(&mut self, index: usize, is_in_flight: impl Fn(Seq) -> bool) {
        let by_tsn = self.by_tsn;
        let path = &mut self.paths[index];
        path.scanned = path.scanned.max(path.base);
        while path.scanned < path.next() {
            let psn = path.scanned;
            if !by_tsn && psn >= path.reported_to {
                break;
            }
            if path
                .entry(psn)
                .is_some_and(|entry| entry & (ACKED | GONE | COPY) == COPY)
            {
                path.insert_suspect(psn);
            } else if let Some(seq) = path.unacked(psn) {
                if by_tsn && seq >= path.reported_to {
                    break;
                }
                if is_in_flight(seq) {
                    path.insert_suspect(if by_tsn { seq } else { psn });
                }
            }
            path.scanned += 1;
        }
    }

    /// Returns one past the highest acknowledged position of the path.
    pub(super) fn reported_to(&self, index: usize) -> Seq {
        self.paths[index].reported_to
    }

    /// Takes the suspects of a path out temporarily.
    pub(super) fn take_suspects(&mut self, index: usize) -> VecDeque<Seq> {
        core::mem::take(&mut self.paths[index].suspects)
    }

    pub(super) fn put_suspects(&mut self, index: usize, suspects: VecDeque<Seq>) {
        self.paths[index].suspects = suspects;
    }

    /// Frees memory that is not in use.
    pub(super) fn release_memory(&mut self) {
        self.psns.shrink_to_fit();
        for path in &mut self.paths {
            path.entries.shrink_to_fit();
            path.suspects.shrink_to_fit();
            path.again.shrink_to_fit();
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let of_path = |path: &PathSequence| {
            size_of::<PathSequence>()
                + (path.entries.capacity() + path.suspects.capacity() + path.again.capacity()) * size_of::<Seq>()
        };
        size_of::<Self>() + self.psns.capacity() * size_of::<Seq>() + self.paths.iter().map(of_path).sum::<usize>()
    }
}
