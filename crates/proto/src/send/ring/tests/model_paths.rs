//! A slow model of the accounting for each path that converts each SACK into a SACK of path sequence numbers for every path, as in
//! Figures 39 and 40 of Ye 2004.

use std::collections::{BTreeMap, BTreeSet};

use whimbrel_control::{Seq, Span, Time};

use super::super::slot::Fate;
use super::model::{Report, Seen};

#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) len: u64,
    pub(super) path: usize,
    pub(super) psn: usize,
    pub(super) fate: Fate,
    pub(super) missing: u32,
    pub(super) sent_at: Time,
    pub(super) retransmitted: bool,
    pub(super) moved: bool,
    pub(super) fast_retransmitted: bool,
    pub(super) timed_out: bool,
    pub(super) credited: bool,
}

impl Chunk {
    pub(super) fn bytes(&self) -> u64 {
        (16 + self.len).next_multiple_of(4)
    }

    pub(super) fn is_in_flight_on(&self, path: usize) -> bool {
        self.fate == Fate::InFlight && self.path == path
    }
}

/// A transmission in flight that is not the chunk's own.
#[derive(Clone, Debug)]
pub(super) struct ChunkCopy {
    pub(super) seq: Seq,
    pub(super) bytes: u64,
    pub(super) sent_at: Time,
    pub(super) missing: u32,
    pub(super) retransmitted: bool,
    pub(super) doubtful: bool,
}

/// The transmissions on a path.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    /// By PSN.
    pub(super) chunks: Vec<Seq>,
    /// PSNs that have arrived.
    pub(super) arrived: BTreeSet<usize>,
    /// Those of them whose chunk is acknowledged by an earlier transmission.
    pub(super) earlier: BTreeSet<usize>,
    /// Copies, by PSN.
    pub(super) copies: BTreeMap<usize, ChunkCopy>,
    /// Chunks below this one are not copied here.
    pub(super) next_copy: Seq,
    /// One past the cumulative PSN ack point.
    pub(super) acked_to: usize,
}

/// The report of a SACK about a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PathReport {
    pub(super) acked: u64,
    pub(super) packets: u32,
    pub(super) flight_before: u64,
    pub(super) earliest_acked: bool,
    pub(super) newest: Option<(Seq, Option<Time>)>,
    pub(super) lost: Vec<Seq>,
    pub(super) advanced: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) chunks: BTreeMap<Seq, Chunk>,
    /// Chunks acknowledged cumulatively; they are kept so that PSNs refer to them.
    pub(super) base: Seq,
    pub(super) paths: Vec<Sent>,
    pub(super) reported: Vec<Seq>,
    /// The number of blocks of the last SACK that was not overtaken.
    pub(super) blocks: usize,
    pub(super) multiple: bool,
}

impl Model {
    pub(super) fn next(&self) -> Seq {
        self.base + self.chunks.len() as Seq
    }

    pub(super) fn new_psn(&mut self, seq: Seq, path: usize) -> usize {
        self.paths[path].chunks.push(seq);
        self.paths[path].chunks.len() - 1
    }

    pub(super) fn flight(&self, path: usize) -> u64 {
        let chunks = self.chunks.values().filter(|chunk| chunk.is_in_flight_on(path));
        let copies = self.paths[path].copies.values().map(|copy| copy.bytes);
        chunks.map(Chunk::bytes).chain(copies).sum()
    }

    pub(super) fn earliest(&self, path: usize) -> Option<usize> {
        let chunks = self.chunks.values().filter(|chunk| chunk.is_in_flight_on(path));
        let copies = self.paths[path].copies.keys().copied();
        chunks.map(|chunk| chunk.psn).chain(copies).min()
    }

    /// Whether a PSN belongs neither to a chunk in the ring nor to a copy in flight.
    pub(super) fn is_obsolete(&self, path: usize, psn: usize) -> bool {
        let seq = self.paths[path].chunks[psn];
        let chunk = self.chunks.get(&seq);
        chunk.is_none_or(|chunk| (chunk.path, chunk.psn) != (path, psn)) && !self.paths[path].copies.contains_key(&psn)
    }

    /// Figure 39: whether the transmission with the PSN is acknowledged.
    pub(super) fn is_acked(&self, path: usize, psn: usize) -> bool {
        self.paths[path].arrived.contains(&psn)
    }

    /// Decides on which path a chunk arrived that was sent on several paths.
    pub(super) fn settle(&mut self, seq: Seq, order: &[u8]) {
        let chunk = &self.chunks[&seq];
        let place = |path: usize| order.iter().position(|&here| usize::from(here) == path);
        let mut ways: Vec<(usize, usize, Option<usize>)> = Vec::new();
        ways.extend(place(chunk.path).map(|place| (place, chunk.path, None)));
        let mut has_copies = false;
        for (path, sent) in self.paths.iter().enumerate() {
            for (&psn, _) in sent.copies.iter().filter(|(_, copy)| copy.seq == seq) {
                has_copies = true;
                ways.extend(place(path).map(|place| (place, path, Some(psn))));
            }
        }
        if !has_copies {
            return;
        }
        // A stable sort: the first of equal elements is used.
        ways.sort_by_key(|way| way.0);
        let doubtful = ways.len() > 1 && (ways[0].0 > 0) == (ways[1].0 > 0);
        for copy in self.paths.iter_mut().flat_map(|sent| sent.copies.values_mut()) {
            if copy.seq == seq {
                copy.doubtful = doubtful;
            }
        }
        let chunk = self.chunks.get_mut(&seq).expect("the model has it");
        let retransmitted = chunk.retransmitted;
        chunk.retransmitted |= doubtful;
        let Some(&(_, path, Some(psn))) = ways.first() else {
            return;
        };
        let copy = self.paths[path].copies.remove(&psn).expect("the model has it");
        if chunk.fate == Fate::InFlight {
            let other = ChunkCopy {
                sent_at: chunk.sent_at,
                missing: chunk.missing,
                retransmitted,
                ..copy.clone()
            };
            self.paths[chunk.path].copies.insert(chunk.psn, other);
        }
        chunk.fate = Fate::InFlight;
        (chunk.path, chunk.psn, chunk.sent_at) = (path, psn, copy.sent_at);
        chunk.moved = false;
    }

    /// Handles chunks that are no longer outstanding and arrived again.
    pub(super) fn on_duplicates(
        &mut self,
        report: &Report,
        again: &[u8],
        mut arrived: impl FnMut(usize, usize, &ChunkCopy, bool),
    ) {
        for &seq in &report.duplicates {
            if self.chunks.get(&seq).is_some_and(|chunk| chunk.fate != Fate::Acked) || seq >= self.next() {
                continue;
            }
            let place = |path: usize| again.iter().position(|&here| usize::from(here) == path);
            let mut ways: Vec<(bool, usize, usize, usize)> = Vec::new();
            for (path, sent) in self.paths.iter().enumerate() {
                for (&psn, _) in sent.copies.iter().filter(|(_, copy)| copy.seq == seq) {
                    let place = place(path);
                    ways.push((place.is_none(), place.unwrap_or(0), path, psn));
                }
            }
            let possible = ways.iter().filter(|way| !way.0).count();
            ways.sort_by_key(|&(impossible, place, ..)| (impossible, place));
            let Some(&(_, _, path, psn)) = ways.first() else {
                continue;
            };
            let copy = self.paths[path].copies.remove(&psn).expect("the model has it");
            self.paths[path].arrived.insert(psn);
            arrived(path, psn, &copy, copy.doubtful || possible != 1);
        }
    }

    /// Returns the PSNs of the path that are neither acknowledged cumulatively nor moved to another path before they arrived (Figure
    /// 40).
    pub(super) fn outstanding(&self, path: usize) -> Vec<usize> {
        let beyond = self.paths[path].acked_to..self.paths[path].chunks.len();
        let is_meant = |psn: &usize| self.is_acked(path, *psn) || !self.is_obsolete(path, *psn);
        beyond.filter(is_meant).collect()
    }

    /// Moves the cumulative PSN ack point as in Figures 39 and 40.
    pub(super) fn advance(&mut self, path: usize) -> bool {
        let before = self.paths[path].acked_to;
        let mut to = before;
        while to < self.paths[path].chunks.len() && (self.is_acked(path, to) || self.is_obsolete(path, to)) {
            to += 1;
        }
        self.paths[path].acked_to = to;
        to > before
    }

    #[allow(clippy::too_many_lines, reason = "the model is the rules in their order")]
    pub(super) fn on_sack(&mut self, report: &Report, limit: u32, early: bool, seen: &Seen) -> (Vec<PathReport>, bool) {
        let is_old = report.cumulative < self.base;
        let recovering = &seen.recovering;
        let count = self.paths.len();
        let mut reported: Vec<_> = (0..count)
            .map(|path| PathReport {
                flight_before: self.flight(path),
                ..PathReport::default()
            })
            .collect();
        let mut earliest: Vec<_> = (0..count).map(|path| self.earliest(path)).collect();
        let before: Vec<_> = self.paths.iter().map(|path| path.acked_to).collect();
        // Chunks sent on another path since the last SACK are no longer outstanding here.
        for path in 0..count {
            self.advance(path);
        }
        let spans: Vec<_> = (0..count).map(|path| self.outstanding(path).len()).collect();
        let mut newly: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut latest: Vec<Option<(Time, usize)>> = vec![None; count];
        let held: Vec<Seq> = self
            .chunks
            .keys()
            .copied()
            .filter(|seq| report.holds(*seq) && !is_old)
            .collect();
        for seq in held {
            if self.chunks[&seq].fate == Fate::Acked {
                continue;
            }
            self.settle(seq, &seen.order);
            let chunk = self.chunks.get_mut(&seq).expect("the model has it");
            let (path, psn) = (chunk.path, chunk.psn);
            reported[path].earliest_acked |= chunk.fate == Fate::InFlight && earliest[path] == Some(psn);
            chunk.fate = Fate::Acked;
            self.paths[path].arrived.insert(psn);
            if chunk.moved && seen.too_recent {
                self.paths[path].earlier.insert(psn);
            } else {
                newly[path].push(psn);
            }
            if !chunk.credited {
                chunk.credited = true;
                reported[path].acked += chunk.bytes();
                reported[path].packets += 1;
                latest[path] = latest[path].max(Some((chunk.sent_at, psn)));
                let this = (psn as Seq, (!chunk.retransmitted).then_some(chunk.sent_at));
                let newest = &mut reported[path].newest;
                if newest.is_none_or(|newest| newest.0 < this.0) {
                    *newest = Some(this);
                }
            }
        }
        while self.base < report.cumulative {
            self.chunks.remove(&self.base);
            self.base += 1;
        }
        let horizon = report.horizon(&self.reported, self.blocks);
        let mut reneged = Vec::new();
        for &seq in self.reported.iter().filter(|_| !is_old) {
            if let Some(chunk) = self.chunks.get_mut(&seq)
                && !report.holds(seq)
                && seq < horizon
            {
                chunk.fate = Fate::InFlight;
                chunk.missing = 0;
                reneged.push(seq);
                self.paths[chunk.path].arrived.remove(&chunk.psn);
                self.paths[chunk.path].earlier.remove(&chunk.psn);
                let earliest = &mut earliest[chunk.path];
                *earliest = Some(earliest.map_or(chunk.psn, |earliest| earliest.min(chunk.psn)));
            }
        }
        if !is_old {
            self.blocks = report.ranges.len();
            let known = core::mem::take(&mut self.reported);
            let is_known = |seq: &Seq| report.holds(*seq) || *seq >= horizon && known.contains(seq);
            self.reported = self.chunks.keys().copied().filter(is_known).collect();
        }
        self.on_duplicates(report, &seen.again_order, |path, psn, copy, doubtful| {
            newly[path].push(psn);
            let reported = &mut reported[path];
            reported.earliest_acked |= earliest[path] == Some(psn);
            reported.acked += copy.bytes;
            reported.packets += 1;
            if !doubtful {
                latest[path] = latest[path].max(Some((copy.sent_at, psn)));
            }
            if reported.newest.is_none_or(|newest| newest.0 < psn as Seq) {
                reported.newest = Some((psn as Seq, (!doubtful).then_some(copy.sent_at)));
            }
        });
        for path in 0..count {
            self.advance(path);
            let advanced = self.paths[path].acked_to > before[path];
            reported[path].advanced = advanced;
            let Some(&highest) = newly[path].iter().max() else {
                continue;
            };
            let all = 0..self.paths[path].chunks.len();
            let below = if advanced && recovering.contains(&path) {
                let mut arrived = all.rev().filter(|psn| self.is_acked(path, *psn));
                let highest = arrived.find(|psn| !self.paths[path].earlier.contains(psn));
                highest.map_or(0, |psn| psn + 1)
            } else {
                highest
            };
            let limit = if early && spans[path] as u32 <= limit {
                (spans[path] as u32).saturating_sub(1).max(1)
            } else {
                limit
            };
            for psn in 0..below {
                let seq = self.paths[path].chunks[psn];
                if let Some(copy) = self.paths[path].copies.get_mut(&psn) {
                    let is_acked = self.chunks.get(&seq).is_none_or(|chunk| chunk.fate == Fate::Acked);
                    let counts = if seen.lead > Span::ZERO && is_acked {
                        latest[path].is_some_and(|(sent_at, _)| sent_at >= copy.sent_at + seen.lead)
                    } else {
                        !copy.retransmitted || Some((copy.sent_at, psn)) < latest[path]
                    };
                    copy.missing += u32::from(counts);
                    if copy.missing >= limit {
                        self.lose_copy(path, psn);
                        reported[path].lost.push(psn as Seq);
                    }
                    continue;
                }
                let Some(chunk) = self.chunks.get_mut(&seq) else {
                    continue;
                };
                let is_here = chunk.is_in_flight_on(path) && chunk.psn == psn;
                if !is_here || chunk.fast_retransmitted {
                    continue;
                }
                if !chunk.retransmitted || Some((chunk.sent_at, psn)) < latest[path] {
                    chunk.missing += 1;
                }
                if chunk.missing >= limit {
                    chunk.fate = Fate::Lost;
                    chunk.fast_retransmitted = true;
                    reported[path].lost.push(psn as Seq);
                }
            }
        }
        for seq in &reneged {
            let chunk = self.chunks.get_mut(seq).expect("it is not acknowledged");
            chunk.missing = chunk.missing.max(1);
        }
        (reported, !reneged.is_empty())
    }

    pub(super) fn lose_copy(&mut self, path: usize, psn: usize) {
        let copy = self.paths[path].copies.remove(&psn).expect("the model has it");
        if self
            .chunks
            .get(&copy.seq)
            .is_some_and(|chunk| chunk.fate != Fate::Acked)
        {
            let next = &mut self.paths[path].next_copy;
            *next = (*next).min(copy.seq);
        }
    }
}
