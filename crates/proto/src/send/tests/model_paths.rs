//! Compares the accounting for each path with a slow model that converts each SACK into a SACK of path sequence numbers for every
//! path, as in Figures 39 and 40 of Ye 2004.

use std::collections::{BTreeMap, BTreeSet};

use whimbrel_control::multipath::Accounting;
use whimbrel_control::{Rng, Seq, Span, Time};
use whimbrel_wire::Tsn;

use super::super::lost::LostChunk;
use super::super::outstanding::Outstanding;
use super::super::sack::{MissingRules, SackOutcome};
use super::super::slot::Fate;
use super::model::{Holder, Report, Seen, for_each_seed, fragment};
use crate::PathId;

#[derive(Clone, Debug)]
struct Chunk {
    len: u64,
    path: usize,
    psn: usize,
    fate: Fate,
    missing: u32,
    sent_at: Time,
    retransmitted: bool,
    fast_retransmitted: bool,
    timed_out: bool,
    credited: bool,
}

impl Chunk {
    fn bytes(&self) -> u64 {
        (16 + self.len).next_multiple_of(4)
    }

    fn is_in_flight_on(&self, path: usize) -> bool {
        self.fate == Fate::InFlight && self.path == path
    }
}

/// A transmission in flight that is not the chunk's own.
#[derive(Clone, Debug)]
struct ChunkCopy {
    seq: Seq,
    bytes: u64,
    sent_at: Time,
    missing: u32,
    retransmitted: bool,
    doubtful: bool,
}

/// The transmissions on a path.
#[derive(Clone, Debug, Default)]
struct Sent {
    /// By PSN.
    chunks: Vec<Seq>,
    /// PSNs that have arrived.
    arrived: BTreeSet<usize>,
    /// Copies, by PSN.
    copies: BTreeMap<usize, ChunkCopy>,
    /// Chunks below this one are not copied here.
    next_copy: Seq,
    /// One past the cumulative PSN ack point.
    acked_to: usize,
}

/// The report of a SACK about a path.
#[derive(Clone, Debug, Default, PartialEq)]
struct PathReport {
    acked: u64,
    packets: u32,
    flight_before: u64,
    earliest_acked: bool,
    newest: Option<(Seq, Option<Time>)>,
    lost: Vec<Seq>,
    advanced: bool,
}

#[derive(Clone, Debug)]
struct Model {
    chunks: BTreeMap<Seq, Chunk>,
    /// Chunks acknowledged cumulatively; they are kept so that PSNs refer to them.
    base: Seq,
    paths: Vec<Sent>,
    reported: Vec<Seq>,
    multiple: bool,
}

impl Model {
    fn next(&self) -> Seq {
        self.base + self.chunks.len() as Seq
    }

    fn new_psn(&mut self, seq: Seq, path: usize) -> usize {
        self.paths[path].chunks.push(seq);
        self.paths[path].chunks.len() - 1
    }

    fn flight(&self, path: usize) -> u64 {
        let chunks = self.chunks.values().filter(|chunk| chunk.is_in_flight_on(path));
        let copies = self.paths[path].copies.values().map(|copy| copy.bytes);
        chunks.map(Chunk::bytes).chain(copies).sum()
    }

    fn earliest(&self, path: usize) -> Option<usize> {
        let chunks = self.chunks.values().filter(|chunk| chunk.is_in_flight_on(path));
        let copies = self.paths[path].copies.keys().copied();
        chunks.map(|chunk| chunk.psn).chain(copies).min()
    }

    /// Whether a PSN belongs neither to a chunk in the ring nor to a copy in flight.
    fn is_obsolete(&self, path: usize, psn: usize) -> bool {
        let seq = self.paths[path].chunks[psn];
        let chunk = self.chunks.get(&seq);
        chunk.is_none_or(|chunk| (chunk.path, chunk.psn) != (path, psn)) && !self.paths[path].copies.contains_key(&psn)
    }

    /// Figure 39: whether the transmission with the PSN is acknowledged.
    fn is_acked(&self, path: usize, psn: usize) -> bool {
        self.paths[path].arrived.contains(&psn)
    }

    /// Decides on which path a chunk arrived that was sent on several paths.
    fn settle(&mut self, seq: Seq, order: &[u8]) {
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
    }

    /// Handles chunks that are no longer outstanding and arrived again.
    fn on_duplicates(
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
    fn outstanding(&self, path: usize) -> Vec<usize> {
        let beyond = self.paths[path].acked_to..self.paths[path].chunks.len();
        let is_meant = |psn: &usize| self.is_acked(path, *psn) || !self.is_obsolete(path, *psn);
        beyond.filter(is_meant).collect()
    }

    /// Moves the cumulative PSN ack point as in Figures 39 and 40.
    fn advance(&mut self, path: usize) -> bool {
        let before = self.paths[path].acked_to;
        let mut to = before;
        while to < self.paths[path].chunks.len() && (self.is_acked(path, to) || self.is_obsolete(path, to)) {
            to += 1;
        }
        self.paths[path].acked_to = to;
        to > before
    }

    fn on_sack(&mut self, report: &Report, limit: u32, early: bool, seen: &Seen) -> (Vec<PathReport>, bool) {
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
            newly[path].push(psn);
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
        let horizon = if report.complete {
            Seq::MAX
        } else {
            report.ranges.last().map_or(0, |&(_, end)| end)
        };
        let mut reneged = false;
        for seq in core::mem::take(&mut self.reported) {
            if is_old {
                self.reported.push(seq);
            } else if let Some(chunk) = self.chunks.get_mut(&seq)
                && !report.holds(seq)
                && seq < horizon
            {
                chunk.fate = Fate::InFlight;
                chunk.missing = 1;
                reneged = true;
                self.paths[chunk.path].arrived.remove(&chunk.psn);
                let earliest = &mut earliest[chunk.path];
                *earliest = Some(earliest.map_or(chunk.psn, |earliest| earliest.min(chunk.psn)));
            }
        }
        if !is_old {
            self.reported = self.chunks.keys().copied().filter(|seq| report.holds(*seq)).collect();
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
                all.rev().find(|psn| self.is_acked(path, *psn)).map_or(0, |psn| psn + 1)
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
                    copy.missing += u32::from(!copy.retransmitted || Some((copy.sent_at, psn)) < latest[path]);
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
        (reported, reneged)
    }

    fn lose_copy(&mut self, path: usize, psn: usize) {
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

struct Pair {
    real: Outstanding,
    model: Model,
    initial: u32,
    limit: u32,
    now: Time,
    holder: Holder,
}

impl Pair {
    fn new(rng: &mut Rng) -> Self {
        let paths = 1 + rng.below(4) as usize;
        let initial = [0, 1, u32::MAX - 20, 0x7fff_fff0][rng.below(4) as usize];
        let mut real = Outstanding::new(Tsn(initial), Accounting::Path);
        real.set_paths(paths);
        real.allow_copies();
        let multiple = rng.chance(0.5);
        if multiple {
            real.allow_multiple_fast_retransmit();
        }
        Pair {
            real,
            model: Model {
                chunks: BTreeMap::new(),
                base: 0,
                paths: vec![Sent::default(); paths],
                reported: Vec::new(),
                multiple,
            },
            initial,
            limit: 2 + rng.below(3) as u32,
            now: Time::from_nanos(1),
            holder: Holder::default(),
        }
    }

    fn path(&self, rng: &mut Rng) -> usize {
        rng.below(self.model.paths.len() as u64) as usize
    }

    fn push(&mut self, rng: &mut Rng) {
        let path = self.path(rng);
        let len = 1 + rng.below(1452);
        let seq = self.real.push(fragment(len), PathId(path as u8), self.now);
        assert_eq!(seq, self.model.next());
        let psn = self.model.new_psn(seq, path);
        let chunk = Chunk {
            len,
            path,
            psn,
            fate: Fate::InFlight,
            missing: 0,
            sent_at: self.now,
            retransmitted: false,
            fast_retransmitted: false,
            timed_out: false,
            credited: false,
        };
        self.model.chunks.insert(seq, chunk);
    }

    /// The oldest chunk that is in flight only on other paths is sent on this one as well.
    fn copy(&mut self, rng: &mut Rng) {
        let path = self.path(rng);
        let model = &mut self.model;
        let next = model.chunks.range(model.paths[path].next_copy..).find(|&(seq, chunk)| {
            let is_here = chunk.path == path || model.paths[path].copies.values().any(|copy| copy.seq == *seq);
            chunk.fate != Fate::Acked && !is_here
        });
        let (offered, id) = (self.real.next_copy(PathId(path as u8), |_, _| true), PathId(path as u8));
        assert_eq!(offered, next.map(|(seq, _)| *seq));
        model.paths[path].next_copy = next
            .map_or(model.next(), |(seq, _)| *seq)
            .max(model.paths[path].next_copy);
        let Some((&seq, chunk)) = next else { return };
        let (len, bytes) = (chunk.len, chunk.bytes());
        let (copied, is_earliest) = self.real.copy(seq, id, self.now);
        assert_eq!((copied, is_earliest), (len, model.earliest(path).is_none()));
        let psn = model.new_psn(seq, path);
        let copy = ChunkCopy {
            seq,
            bytes,
            sent_at: self.now,
            missing: 0,
            retransmitted: false,
            doubtful: false,
        };
        model.paths[path].copies.insert(psn, copy);
        model.paths[path].next_copy = seq + 1;
    }

    /// Returns the lowest chunk lost on a path, by a timeout or by missing reports.
    fn lowest_lost(&self, path: usize, timed_out: bool) -> Option<Seq> {
        let is_lost = |(_, chunk): &(&Seq, &Chunk)| {
            chunk.fate == Fate::Lost && chunk.path == path && chunk.timed_out == timed_out
        };
        self.model.chunks.iter().find(is_lost).map(|(seq, _)| *seq)
    }

    /// The queues of each path are processed separately.
    fn retransmit(&mut self, rng: &mut Rng) {
        let (from, timed_out) = (self.path(rng), rng.chance(0.5));
        let queue = 2 * from + usize::from(timed_out);
        let lowest = self.lowest_lost(from, timed_out);
        let offered = self.real.first_lost_in(queue);
        assert_eq!(offered.map(|lost| lost.seq), lowest);
        let Some(LostChunk { seq, .. }) = offered else { return };
        let to = if rng.chance(0.5) { from } else { self.path(rng) };
        let data = self.real.retransmit(seq, PathId(to as u8), self.now);
        let psn = if to == from {
            None
        } else {
            Some(self.model.new_psn(seq, to))
        };
        let (now, multiple) = (self.now, self.model.multiple);
        let chunk = self.model.chunks.get_mut(&seq).expect("the model has it");
        assert_eq!(data, chunk.len);
        chunk.fate = Fate::InFlight;
        chunk.path = to;
        chunk.sent_at = now;
        chunk.retransmitted = true;
        chunk.timed_out = false;
        chunk.missing = 0;
        chunk.fast_retransmitted &= !multiple && psn.is_none();
        chunk.psn = psn.unwrap_or(chunk.psn);
    }

    fn time_out(&mut self, rng: &mut Rng) {
        let path = self.path(rng);
        let mut lost = Vec::new();
        let first = self
            .real
            .lose_path(PathId(path as u8), |position, _| lost.push(position));
        let mut expected: Vec<_> = self.model.paths[path].copies.keys().map(|psn| *psn as Seq).collect();
        for &psn in &expected {
            self.model.lose_copy(path, psn as usize);
        }
        for chunk in self
            .model
            .chunks
            .values_mut()
            .filter(|chunk| chunk.is_in_flight_on(path))
        {
            chunk.fate = Fate::Lost;
            chunk.fast_retransmitted = false;
            chunk.timed_out = true;
            expected.push(chunk.psn as Seq);
        }
        expected.sort_unstable();
        lost.sort_unstable();
        assert_eq!(first.map(|(position, _)| position), expected.first().copied());
        assert_eq!(lost, expected);
        if rng.chance(0.2) {
            // The timeout was spurious.
            self.real.take_timeout_back(PathId(path as u8));
            let is_meant = |chunk: &&mut Chunk| chunk.fate == Fate::Lost && chunk.timed_out && chunk.path == path;
            for chunk in self.model.chunks.values_mut().filter(is_meant) {
                chunk.fate = Fate::InFlight;
                chunk.timed_out = false;
            }
        }
    }

    /// The last chunk, or the lowest one, is declared lost for a probe.
    fn give_one_up(&mut self, rng: &mut Rng) {
        let path = self.path(rng);
        let id = PathId(path as u8);
        let on_path = |chunk: &&mut Chunk| chunk.is_in_flight_on(path);
        if rng.chance(0.5) {
            let lost = self.real.lose_last(id).map(|(seq, ..)| seq);
            let last = self
                .model
                .chunks
                .values_mut()
                .filter(on_path)
                .max_by_key(|chunk| chunk.psn);
            if lost.is_some() || last.is_some() {
                let last = last.expect("the model has one in flight");
                last.fate = Fate::Lost;
                assert_eq!(lost, Some(self.model.paths[path].chunks[last.psn]));
            }
            return;
        }
        let lost = self.real.lose_lowest(id).map(|(tsn, ..)| tsn);
        let acked_to = self.model.paths[path].acked_to;
        let lowest = self.model.paths[path].chunks.get(acked_to).copied();
        let chunk = lowest.and_then(|seq| self.model.chunks.get_mut(&seq));
        let chunk = chunk.filter(|chunk| chunk.is_in_flight_on(path) && chunk.psn == acked_to && !chunk.retransmitted);
        assert_eq!(lost.is_some(), chunk.is_some());
        if let Some(chunk) = chunk {
            chunk.fate = Fate::Lost;
            chunk.fast_retransmitted = true;
        }
    }

    fn sack(&mut self, report: &Report, rng: &mut Rng) {
        let count = self.model.paths.len() as u64;
        let mut order = || {
            let mut order: Vec<u8> = (0..count as u8).filter(|_| rng.chance(0.8)).collect();
            let len = order.len();
            (0..len).for_each(|at| order.swap(at, rng.below(len as u64) as usize));
            order
        };
        let mut seen = Seen {
            order: order(),
            again_order: order(),
            recovering: (0..self.model.paths.len()).filter(|_| rng.chance(0.3)).collect(),
            ..Seen::default()
        };
        let early = rng.chance(0.2);
        let rules = MissingRules {
            limit: self.limit as u8,
            in_recovery: false,
            early,
            arrivals: 1,
            complete: report.complete,
        };
        let base_before = self.model.base;
        let outcome = report.deliver(&mut self.real, self.initial, rules, &mut seen);
        let before = self.model.clone();
        let (reported, reneged) = self.model.on_sack(report, self.limit, early, &seen);
        match outcome {
            SackOutcome::Processed {
                advanced,
                reneged: real_reneged,
                ..
            } => assert_eq!((advanced, real_reneged), (report.cumulative > base_before, reneged)),
            SackOutcome::OldWithCopies => assert!(report.cumulative < base_before && !seen.copies.is_empty()),
            SackOutcome::Old => {
                assert!(report.cumulative < base_before && reported.iter().all(|reported| reported.packets == 0));
                self.model = before;
                return;
            }
            SackOutcome::Impossible => panic!("{report:?}"),
        }
        for (path, (ack, reported)) in self.real.acks().iter().zip(&reported).enumerate() {
            let real = PathReport {
                acked: ack.acked,
                packets: ack.packets,
                flight_before: ack.flight_before,
                earliest_acked: ack.earliest_acked,
                newest: (ack.packets > 0).then_some((ack.newest, ack.newest_sent_at)),
                lost: reported.lost.clone(),
                advanced: ack.advanced,
            };
            assert_eq!(&real, reported, "path {path}");
            let ends = |lost: &[Seq]| lost.first().copied().zip(lost.last().copied());
            let lost = (ack.lost > 0).then_some((ack.first_lost, ack.last_lost));
            assert_eq!((ack.lost as usize, lost), (reported.lost.len(), ends(&reported.lost)));
        }
    }

    /// Returns some of the chunks in flight twice, and sometimes a random chunk.
    fn duplicates(&self, rng: &mut Rng) -> Vec<Seq> {
        let copies = self.model.paths.iter().flat_map(|sent| sent.copies.values());
        let mut seqs: Vec<Seq> = copies.map(|copy| copy.seq).filter(|_| rng.chance(0.3)).collect();
        if rng.chance(0.1) {
            seqs.push(rng.below(self.model.next() + 3));
        }
        seqs
    }

    fn check(&mut self) {
        let model = &self.model;
        assert_eq!(self.real.next_seq(), model.next());
        for path in 0..model.paths.len() {
            let id = PathId(path as u8);
            assert_eq!(self.real.flight(id), model.flight(path), "flight of path {path}");
            let held = model.chunks.values().filter(|chunk| chunk.path == path);
            assert_eq!(self.real.data_held_of(id), held.map(|chunk| chunk.len).sum::<u64>());
            let next = model.paths[path].chunks.len() as Seq;
            assert_eq!(self.real.next_position(id), next, "PSNs of path {path}");
            assert_eq!(self.real.acked_to(id), model.paths[path].acked_to as Seq, "path {path}");
            let outstanding = model.outstanding(path);
            assert_eq!(
                self.real.span(id),
                outstanding.len() as u64,
                "outstanding on path {path}"
            );
            if let Some(&newest) = outstanding.last() {
                let is_reported = model.is_acked(path, newest);
                assert_eq!(self.real.newest_is_reported(id), is_reported, "newest on {path}");
            }
            let earliest = model.earliest(path).map(|psn| psn as Seq);
            assert_eq!(self.real.earliest(id).is_some(), earliest.is_some());
            assert!(self.real.earliest(id) <= earliest, "no position in flight is lower");
        }
        for (&seq, chunk) in &model.chunks {
            let slot = self.real.slot(seq).expect("the ring has it");
            assert_eq!((slot.fate, usize::from(slot.path)), (chunk.fate, chunk.path), "{seq}");
            assert_eq!(self.real.position(seq), Some(chunk.psn as Seq), "PSN of {seq}");
            if chunk.fate == Fate::InFlight {
                assert_eq!(u32::from(slot.missing), chunk.missing, "missing reports of {seq}");
            }
        }
        for path in 0..self.model.paths.len() {
            for timed_out in [false, true] {
                let queue = 2 * path + usize::from(timed_out);
                let real = self.real.first_lost_in(queue).map(|lost| lost.seq);
                let lowest = self.lowest_lost(path, timed_out);
                assert_eq!(real, lowest, "lost on {path}, by a timeout: {timed_out}");
            }
        }
    }
}

#[test]
fn each_path_agrees_with_figures_39_and_40_for_any_interleaving() {
    for_each_seed("paths", |mut rng, describe| {
        let mut pair = Pair::new(&mut rng);
        let mut old: Vec<Report> = Vec::new();
        for step in 0..150 {
            pair.now += Span::from_micros(1);
            let what = rng.below(17);
            describe(step, what);
            match what {
                0..=3 => (0..rng.below(8)).for_each(|_| pair.push(&mut rng)),
                14..=16 => (0..rng.below(6)).for_each(|_| pair.copy(&mut rng)),
                4..=6 => (0..rng.below(6)).for_each(|_| pair.retransmit(&mut rng)),
                7 if rng.chance(0.3) => pair.time_out(&mut rng),
                8 if rng.chance(0.5) => pair.give_one_up(&mut rng),
                9 if !old.is_empty() => {
                    // A SACK that another one overtook.
                    let report = old[rng.below(old.len() as u64) as usize].clone();
                    if report.cumulative < pair.model.base {
                        let duplicates = pair.duplicates(&mut rng);
                        let report = Report { duplicates, ..report };
                        pair.sack(&report, &mut rng);
                    }
                }
                _ => {
                    let mut report = pair.holder.report(pair.model.next(), &mut rng, true);
                    report.duplicates = pair.duplicates(&mut rng);
                    pair.sack(&report, &mut rng);
                    old.push(report);
                }
            }
            pair.check();
        }
    });
}
