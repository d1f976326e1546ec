//! Compares CMT's accounting with a slow model of its rules for TSNs (Iyengar, Amer and Stewart 2006): split fast retransmit, cwnd
//! update by the earliest chunks sent once and retransmitted, delayed acknowledgements. Chunks move between paths, and receivers
//! renege.

use std::collections::{BTreeMap, BTreeSet};

use whimbrel_control::multipath::Accounting;
use whimbrel_control::{Rng, Seq, Span, Time};
use whimbrel_wire::Tsn;

use super::super::lost::LostChunk;
use super::super::outstanding::Outstanding;
use super::super::report::{MissingRules, SackOutcome};
use super::super::slot::Fate;
use super::model::{Holder, Report, Seen, for_each_seed, fragment};
use crate::PathId;

#[derive(Clone, Debug)]
struct Chunk {
    len: u64,
    path: usize,
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

/// The transmissions on a path.
#[derive(Clone, Debug, Default)]
struct Sent {
    /// Chunks sent here first, in order.
    first: Vec<Seq>,
    /// The number of them before the pseudo-cumack, which never moves back.
    passed: usize,
    /// Chunks retransmitted here, from the earliest unacknowledged one on.
    again: BTreeSet<Seq>,
}

/// The report of a SACK about a path.
#[derive(Clone, Debug, Default, PartialEq)]
struct PathReport {
    acked: u64,
    packets: u32,
    flight_before: u64,
    earliest_acked: bool,
    newest: Option<(Seq, Option<Time>)>,
    /// The number of lost chunks, the first and the last one.
    lost: Option<(u32, Seq, Seq)>,
    advanced: bool,
}

#[derive(Debug)]
struct Model {
    chunks: BTreeMap<Seq, Chunk>,
    base: Seq,
    paths: Vec<Sent>,
    reported: Vec<Seq>,
    /// The number of blocks of the last SACK.
    blocks: usize,
    multiple: bool,
}

impl Model {
    fn next(&self) -> Seq {
        self.base + self.chunks.len() as Seq
    }

    fn flight(&self, path: usize) -> u64 {
        let chunks = self.chunks.values().filter(|chunk| chunk.is_in_flight_on(path));
        chunks.map(Chunk::bytes).sum()
    }

    fn earliest(&self, path: usize) -> Option<Seq> {
        let mut chunks = self.chunks.iter();
        let first = chunks.find(|(_, chunk)| chunk.is_in_flight_on(path));
        first.map(|(seq, _)| *seq)
    }

    /// Whether a chunk is acknowledged, by a Gap Ack Block or cumulatively.
    fn is_acked(&self, seq: Seq) -> bool {
        self.chunks.get(&seq).is_none_or(|chunk| chunk.fate == Fate::Acked)
    }

    fn was_sent_again(&self, seq: Seq) -> bool {
        self.chunks.get(&seq).is_some_and(|chunk| chunk.retransmitted)
    }

    /// CUCv2: returns the earliest chunk sent once, and the earliest retransmitted chunk, that are outstanding on the
    /// path.
    fn pseudo_cumacks(&mut self, path: usize) -> (Option<Seq>, Option<Seq>) {
        while let Some(&seq) = self.paths[path].first.get(self.paths[path].passed)
            && (self.is_acked(seq) || self.was_sent_again(seq))
        {
            self.paths[path].passed += 1;
        }
        while let Some(&seq) = self.paths[path].again.first()
            && self.is_acked(seq)
        {
            self.paths[path].again.remove(&seq);
        }
        let sent = &self.paths[path];
        (sent.first.get(sent.passed).copied(), sent.again.first().copied())
    }

    /// Returns the number of chunks of the path from either pseudo-cumack on.
    fn span(&self, path: usize) -> usize {
        let sent = &self.paths[path];
        let once = sent.first[sent.passed..].iter();
        once.filter(|seq| !self.was_sent_again(**seq)).count() + sent.again.len()
    }

    fn acked_to(&mut self, path: usize) -> Seq {
        let (once, again) = self.pseudo_cumacks(path);
        once.into_iter().chain(again).min().unwrap_or(self.next())
    }

    fn on_sack(
        &mut self,
        report: &Report,
        (limit, early, arrivals): (u32, bool, u32),
        seen: &Seen,
    ) -> (Vec<PathReport>, bool) {
        let count = self.paths.len();
        let mut reported: Vec<_> = (0..count)
            .map(|path| PathReport {
                flight_before: self.flight(path),
                ..PathReport::default()
            })
            .collect();
        let mut earliest: Vec<_> = (0..count).map(|path| self.earliest(path)).collect();
        let before: Vec<_> = (0..count).map(|path| self.pseudo_cumacks(path)).collect();
        let spans: Vec<_> = (0..count).map(|path| self.span(path) as u32).collect();
        let mut newly: Vec<Vec<Seq>> = vec![Vec::new(); count];
        let mut latest: Vec<Option<(Time, Seq)>> = vec![None; count];
        for (&seq, chunk) in &mut self.chunks {
            if !report.holds(seq) || chunk.fate == Fate::Acked {
                continue;
            }
            let reported = &mut reported[chunk.path];
            reported.earliest_acked |= chunk.fate == Fate::InFlight && earliest[chunk.path] == Some(seq);
            chunk.fate = Fate::Acked;
            newly[chunk.path].push(seq);
            if !chunk.credited {
                chunk.credited = true;
                reported.acked += chunk.bytes();
                reported.packets += 1;
                latest[chunk.path] = latest[chunk.path].max(Some((chunk.sent_at, seq)));
                reported.newest = Some((seq, (!chunk.retransmitted).then_some(chunk.sent_at)));
            }
        }
        while self.base < report.cumulative {
            self.chunks.remove(&self.base);
            self.base += 1;
        }
        // The former pseudo-cumacks, if they are acknowledged now.
        let is_acked = |model: &Self, seq: Option<Seq>| seq.is_some_and(|seq| model.is_acked(seq));
        let reneged = self.take_back(report, &mut earliest);
        for path in 0..count {
            let (once, again) = before[path];
            reported[path].advanced = is_acked(self, once) || is_acked(self, again);
            let lowest = once.into_iter().chain(again).min();
            let makes_progress = is_acked(self, lowest);
            self.pseudo_cumacks(path);
            let (Some(&highest), Some(&lowest)) = (newly[path].iter().max(), newly[path].iter().min()) else {
                continue;
            };
            let limit = if early && spans[path] <= limit {
                spans[path].saturating_sub(1).max(1)
            } else {
                limit
            };
            let alone = newly.iter().filter(|newly| !newly.is_empty()).count() == 1;
            // SFR: only data that arrived on the path reports chunks missing there.
            let mut arrived = self.chunks.iter().rev();
            let top = arrived.find(|(_, chunk)| chunk.path == path && chunk.fate == Fate::Acked);
            let below = if makes_progress && seen.recovering.contains(&path) {
                top.map_or(0, |(seq, _)| *seq)
            } else {
                highest
            };
            for (&seq, chunk) in self.chunks.range_mut(..below) {
                if !chunk.is_in_flight_on(path) || chunk.fast_retransmitted {
                    continue;
                }
                if !chunk.retransmitted || Some((chunk.sent_at, seq)) < latest[path] {
                    // DAC
                    chunk.missing += if alone && seq < lowest { arrivals.max(1) } else { 1 };
                }
                if chunk.missing >= limit {
                    chunk.fate = Fate::Lost;
                    chunk.fast_retransmitted = true;
                    let (lost, first, _) = reported[path].lost.unwrap_or((0, seq, seq));
                    reported[path].lost = Some((lost + 1, first, seq));
                }
            }
        }
        for seq in &reneged {
            let chunk = self.chunks.get_mut(seq).expect("it is not acknowledged");
            chunk.missing = chunk.missing.max(1);
        }
        (reported, !reneged.is_empty())
    }

    /// Puts chunks that are no longer reported in flight again, and returns them.
    fn take_back(&mut self, report: &Report, earliest: &mut [Option<Seq>]) -> Vec<Seq> {
        let horizon = report.horizon(&self.reported, self.blocks);
        let mut reneged = Vec::new();
        for &seq in &self.reported {
            if let Some(chunk) = self.chunks.get_mut(&seq)
                && !report.holds(seq)
                && seq < horizon
            {
                chunk.fate = Fate::InFlight;
                chunk.missing = 0;
                reneged.push(seq);
                let earliest = &mut earliest[chunk.path];
                *earliest = Some(earliest.map_or(seq, |earliest| earliest.min(seq)));
                if chunk.retransmitted {
                    self.paths[chunk.path].again.insert(seq);
                }
            }
        }
        self.blocks = report.ranges.len();
        let known = core::mem::take(&mut self.reported);
        let is_known = |seq: &Seq| report.holds(*seq) || *seq >= horizon && known.contains(seq);
        self.reported = self.chunks.keys().copied().filter(is_known).collect();
        reneged
    }
}

struct Pair {
    real: Outstanding,
    model: Model,
    limit: u32,
    now: Time,
    holder: Holder,
}

const INITIAL: u32 = u32::MAX - 20;

impl Pair {
    fn new(rng: &mut Rng) -> Self {
        let paths = 1 + rng.below(4) as usize;
        let mut real = Outstanding::new(Tsn(INITIAL), Accounting::Cmt);
        real.set_paths(paths);
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
                blocks: 0,
                multiple,
            },
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
        let chunk = Chunk {
            len,
            path,
            fate: Fate::InFlight,
            missing: 0,
            sent_at: self.now,
            retransmitted: false,
            fast_retransmitted: false,
            timed_out: false,
            credited: false,
        };
        self.model.chunks.insert(seq, chunk);
        self.model.paths[path].first.push(seq);
    }

    fn lowest_lost(&self, path: usize, timed_out: bool) -> Option<Seq> {
        let is_lost = |(_, chunk): &(&Seq, &Chunk)| {
            chunk.fate == Fate::Lost && chunk.path == path && chunk.timed_out == timed_out
        };
        self.model.chunks.iter().find(is_lost).map(|(seq, _)| *seq)
    }

    fn retransmit(&mut self, rng: &mut Rng) {
        let (from, timed_out) = (self.path(rng), rng.chance(0.5));
        let queue = 2 * from + usize::from(timed_out);
        let offered = self.real.first_lost_in(queue);
        assert_eq!(offered.map(|lost| lost.seq), self.lowest_lost(from, timed_out));
        let Some(LostChunk { seq, .. }) = offered else { return };
        let to = if rng.chance(0.5) { from } else { self.path(rng) };
        let data = self.real.retransmit(seq, PathId(to as u8), self.now);
        let (now, multiple) = (self.now, self.model.multiple);
        let chunk = self.model.chunks.get_mut(&seq).expect("the model has it");
        assert_eq!(data, chunk.len);
        chunk.fate = Fate::InFlight;
        chunk.path = to;
        chunk.sent_at = now;
        chunk.retransmitted = true;
        chunk.timed_out = false;
        chunk.missing = 0;
        // Transmissions are ordered by TSN: a retransmission is not declared lost again, unless that is allowed.
        chunk.fast_retransmitted &= !multiple;
        if from != to && self.model.paths[from].again.remove(&seq) {
            // The next ones may be acknowledged.
            self.model.pseudo_cumacks(from);
        }
        self.model.paths[to].again.insert(seq);
    }

    fn time_out(&mut self, rng: &mut Rng) {
        let path = self.path(rng);
        let id = PathId(path as u8);
        let mut lost = Vec::new();
        self.real.lose_path(id, |position, _| lost.push(position));
        let mut expected = Vec::new();
        for (&seq, chunk) in &mut self.model.chunks {
            if chunk.is_in_flight_on(path) {
                (chunk.fate, chunk.fast_retransmitted, chunk.timed_out) = (Fate::Lost, false, true);
                expected.push(seq);
            }
        }
        assert_eq!(lost, expected);
        if rng.chance(0.2) {
            self.real.take_timeout_back(id);
            let is_meant = |chunk: &&mut Chunk| chunk.fate == Fate::Lost && chunk.timed_out && chunk.path == path;
            for chunk in self.model.chunks.values_mut().filter(is_meant) {
                (chunk.fate, chunk.timed_out) = (Fate::InFlight, false);
            }
        }
    }

    /// The last chunk, or the lowest one, is declared lost for a probe.
    fn give_one_up(&mut self, rng: &mut Rng) {
        let path = self.path(rng);
        let id = PathId(path as u8);
        if rng.chance(0.5) {
            let lost = self.real.lose_last(id).map(|(seq, ..)| seq);
            let mut chunks = self.model.chunks.iter_mut().rev();
            let last = chunks.find(|(_, chunk)| chunk.is_in_flight_on(path));
            assert_eq!(lost, last.as_ref().map(|(seq, _)| **seq));
            if let Some((_, last)) = last {
                last.fate = Fate::Lost;
            }
            return;
        }
        let lost = self.real.lose_lowest(id).map(|(tsn, ..)| tsn.0.wrapping_sub(INITIAL));
        let lowest = self.model.acked_to(path);
        let chunk = self.model.chunks.get_mut(&lowest);
        let chunk = chunk.filter(|chunk| chunk.is_in_flight_on(path) && !chunk.retransmitted);
        assert_eq!(lost, chunk.as_ref().map(|_| lowest as u32));
        if let Some(chunk) = chunk {
            (chunk.fate, chunk.fast_retransmitted) = (Fate::Lost, true);
        }
    }

    fn sack(&mut self, report: &Report, rng: &mut Rng) {
        let mut seen = Seen {
            recovering: (0..self.model.paths.len()).filter(|_| rng.chance(0.3)).collect(),
            ..Seen::default()
        };
        let (early, arrivals) = (rng.chance(0.2), rng.below(4) as u8);
        let rules = MissingRules {
            limit: self.limit as u8,
            in_recovery: false,
            early,
            arrivals,
            extent: report.extent,
        };
        let base_before = self.model.base;
        let outcome = report.deliver(&mut self.real, INITIAL, rules, &mut seen);
        let (reported, reneged) = self.model.on_sack(report, (self.limit, early, arrivals.into()), &seen);
        let SackOutcome::Processed {
            advanced,
            reneged: real_reneged,
            ..
        } = outcome
        else {
            panic!("{outcome:?} for {report:?}");
        };
        assert_eq!((advanced, real_reneged), (report.cumulative > base_before, reneged));
        for (path, (ack, reported)) in self.real.acks().iter().zip(&reported).enumerate() {
            let real = PathReport {
                acked: ack.acked,
                packets: ack.packets,
                flight_before: ack.flight_before,
                earliest_acked: ack.earliest_acked,
                newest: (ack.packets > 0).then_some((ack.newest, ack.newest_sent_at)),
                lost: (ack.lost > 0).then_some((ack.lost, ack.first_lost, ack.last_lost)),
                advanced: ack.advanced,
            };
            assert_eq!(&real, reported, "path {path}");
        }
    }

    fn check(&mut self) {
        for path in 0..self.model.paths.len() {
            let id = PathId(path as u8);
            let acked_to = self.model.acked_to(path);
            assert_eq!(self.real.acked_to(id), acked_to, "path {path}");
            let model = &self.model;
            assert_eq!(
                self.real.span(id),
                model.span(path) as u64,
                "outstanding on path {path}"
            );
            assert_eq!(self.real.flight(id), model.flight(path), "flight of path {path}");
            let held = model.chunks.values().filter(|chunk| chunk.path == path);
            assert_eq!(self.real.data_held_of(id), held.map(|chunk| chunk.len).sum::<u64>());
            let earliest = model.earliest(path);
            assert_eq!(self.real.earliest(id).is_some(), earliest.is_some());
            assert!(self.real.earliest(id) <= earliest, "no position in flight is lower");
            for timed_out in [false, true] {
                let queue = 2 * path + usize::from(timed_out);
                let real = self.real.first_lost_in(queue).map(|lost| lost.seq);
                assert_eq!(real, self.lowest_lost(path, timed_out), "lost on {path}: {timed_out}");
            }
        }
        for (&seq, chunk) in &self.model.chunks {
            let slot = self.real.slot(seq).expect("the ring has it");
            assert_eq!((slot.fate, usize::from(slot.path)), (chunk.fate, chunk.path), "{seq}");
            if chunk.fate == Fate::InFlight {
                assert_eq!(u32::from(slot.missing), chunk.missing, "missing reports of {seq}");
            }
        }
    }
}

#[test]
fn cmt_agrees_with_its_rules_for_any_interleaving() {
    for_each_seed("cmt", |mut rng, describe| {
        let mut pair = Pair::new(&mut rng);
        let most = [8, 40][rng.below(2) as usize];
        for step in 0..150 {
            pair.now += Span::from_micros(1);
            let what = rng.below(14);
            describe(step, what);
            match what {
                0..=3 => (0..rng.below(most)).for_each(|_| pair.push(&mut rng)),
                4..=6 => (0..rng.below(6)).for_each(|_| pair.retransmit(&mut rng)),
                7 if rng.chance(0.3) => pair.time_out(&mut rng),
                8 if rng.chance(0.5) => pair.give_one_up(&mut rng),
                _ => {
                    let report = pair.holder.report(pair.model.next(), &mut rng, true);
                    pair.sack(&report, &mut rng);
                }
            }
            pair.check();
        }
    });
}
