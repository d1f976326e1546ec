//! Accounting for each path against a slow model that makes a SACK of path sequence numbers for every path out of each SACK, as
//! Figures 39 and 40 of Ye 2004 say.

use std::collections::BTreeMap;

use whimbrel_control::multipath::Accounting;
use whimbrel_control::{Rng, Seq, Span, Time};
use whimbrel_wire::Tsn;

use super::lost::LostChunk;
use super::model::{Announce, Holder, Report, Seen, fragment};
use super::outstanding::{Fate, Outstanding};
use super::sack::{MissingRules, SackOutcome};
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
    /// With multiple fast retransmit: only PSNs from there on report it missing.
    reported_from: usize,
}

impl Chunk {
    fn bytes(&self) -> u64 {
        (16 + self.len).next_multiple_of(4)
    }

    fn is_in_flight_on(&self, path: usize) -> bool {
        self.fate == Fate::InFlight && self.path == path
    }
}

/// What was sent on a path.
#[derive(Clone, Debug, Default)]
struct Sent {
    /// By PSN.
    chunks: Vec<Seq>,
    /// One past the cumulative PSN ack point.
    acked_to: usize,
}

/// What a SACK told about a path.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    acked: u64,
    packets: u32,
    flight_before: u64,
    earliest_acked: bool,
    newest: Option<(Seq, Option<Time>)>,
    lost: Vec<Seq>,
    advanced: bool,
}

#[derive(Debug)]
struct Model {
    chunks: BTreeMap<Seq, Chunk>,
    /// Chunks cumulatively acknowledged, so that PSNs still find them.
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
        chunks.map(Chunk::bytes).sum()
    }

    fn earliest(&self, path: usize) -> Option<usize> {
        let chunks = self.chunks.values().filter(|chunk| chunk.is_in_flight_on(path));
        chunks.map(|chunk| chunk.psn).min()
    }

    /// A PSN that was given to a chunk which has another one by now.
    fn is_obsolete(&self, path: usize, psn: usize) -> bool {
        let seq = self.paths[path].chunks[psn];
        self.chunks
            .get(&seq)
            .is_some_and(|chunk| (chunk.path, chunk.psn) != (path, psn))
    }

    /// Figure 39: the chunk with the PSN is acknowledged.
    fn is_acked(&self, path: usize, psn: usize) -> bool {
        let seq = self.paths[path].chunks[psn];
        self.chunks
            .get(&seq)
            .is_none_or(|chunk| (chunk.path, chunk.psn) == (path, psn) && chunk.fate == Fate::Acked)
    }

    /// Figures 39 and 40.
    fn advance(&mut self, path: usize) -> bool {
        let before = self.paths[path].acked_to;
        let mut to = before;
        while to < self.paths[path].chunks.len() && (self.is_acked(path, to) || self.is_obsolete(path, to)) {
            to += 1;
        }
        self.paths[path].acked_to = to;
        to > before
    }

    fn on_sack(&mut self, report: &Report, limit: u32, early: bool, recovering: &[usize]) -> Option<(Vec<Told>, bool)> {
        if report.cumulative < self.base {
            return None;
        }
        let count = self.paths.len();
        let mut told: Vec<_> = (0..count)
            .map(|path| Told {
                flight_before: self.flight(path),
                ..Told::default()
            })
            .collect();
        let earliest: Vec<_> = (0..count).map(|path| self.earliest(path)).collect();
        let before: Vec<_> = self.paths.iter().map(|path| path.acked_to).collect();
        // What went elsewhere since the last SACK is no longer outstanding here.
        for path in 0..count {
            self.advance(path);
        }
        let spans: Vec<_> = self
            .paths
            .iter()
            .map(|path| path.chunks.len() - path.acked_to)
            .collect();
        let mut newly: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (&seq, chunk) in &mut self.chunks {
            if !report.holds(seq) || chunk.fate == Fate::Acked {
                continue;
            }
            let (path, psn) = (chunk.path, chunk.psn);
            told[path].earliest_acked |= chunk.fate == Fate::InFlight && earliest[path] == Some(psn);
            chunk.fate = Fate::Acked;
            newly[path].push(psn);
            if !chunk.credited {
                chunk.credited = true;
                told[path].acked += chunk.bytes();
                told[path].packets += 1;
                let this = (psn as Seq, (!chunk.retransmitted).then_some(chunk.sent_at));
                let newest = &mut told[path].newest;
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
            if let Some(chunk) = self.chunks.get_mut(&seq)
                && !report.holds(seq)
                && seq < horizon
            {
                chunk.fate = Fate::InFlight;
                chunk.missing = 1;
                reneged = true;
            }
        }
        self.reported = self.chunks.keys().copied().filter(|seq| report.holds(*seq)).collect();
        for path in 0..count {
            self.advance(path);
            let advanced = self.paths[path].acked_to > before[path];
            told[path].advanced = advanced;
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
                let Some(chunk) = self.chunks.get_mut(&seq) else {
                    continue;
                };
                let is_here = chunk.is_in_flight_on(path) && chunk.psn == psn;
                if !is_here || chunk.fast_retransmitted {
                    continue;
                }
                if !chunk.retransmitted || highest >= chunk.reported_from {
                    chunk.missing += 1;
                }
                if chunk.missing >= limit {
                    chunk.fate = Fate::Lost;
                    chunk.fast_retransmitted = true;
                    told[path].lost.push(psn as Seq);
                }
            }
        }
        Some((told, reneged))
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
            reported_from: 0,
        };
        self.model.chunks.insert(seq, chunk);
    }

    /// The lowest chunk lost on a path, by a timeout or not.
    fn lowest_lost(&self, path: usize, timed_out: bool) -> Option<Seq> {
        let is_lost = |(_, chunk): &(&Seq, &Chunk)| {
            chunk.fate == Fate::Lost && chunk.path == path && chunk.timed_out == timed_out
        };
        self.model.chunks.iter().find(is_lost).map(|(seq, _)| *seq)
    }

    /// Every path's queues are served for themselves.
    fn retransmit(&mut self, rng: &mut Rng) {
        let (from, timed_out) = (self.path(rng), rng.chance(0.5));
        let queue = 2 * from + usize::from(timed_out);
        let lowest = self.lowest_lost(from, timed_out);
        let offered = self.real.first_lost_in(queue);
        assert_eq!(offered.map(|lost| lost.seq), lowest);
        let Some(LostChunk { seq, .. }) = offered else { return };
        let to = if rng.chance(0.5) { from } else { self.path(rng) };
        let data = self.real.retransmit(seq, PathId(to as u8), self.now);
        let next = self.model.paths[to].chunks.len();
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
        chunk.reported_from = if multiple && psn.is_none() { next } else { 0 };
        chunk.psn = psn.unwrap_or(chunk.psn);
    }

    fn time_out(&mut self, rng: &mut Rng) {
        let path = self.path(rng);
        let mut lost = Vec::new();
        let first = self
            .real
            .lose_path(PathId(path as u8), |position, _| lost.push(position));
        let mut expected = Vec::new();
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
        assert_eq!(first.map(|(position, _)| position), expected.first().copied());
        assert_eq!(lost, expected);
        if rng.chance(0.2) {
            // It was spurious.
            self.real.take_timeout_back(PathId(path as u8));
            let is_meant = |chunk: &&mut Chunk| chunk.fate == Fate::Lost && chunk.timed_out && chunk.path == path;
            for chunk in self.model.chunks.values_mut().filter(is_meant) {
                chunk.fate = Fate::InFlight;
                chunk.timed_out = false;
            }
        }
    }

    /// The last chunk, or the lowest one, is given up for a probe.
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
        let mut seen = Seen {
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
        let outcome = report.tell(&mut self.real, self.initial, rules, &mut seen);
        let Some((told, reneged)) = self.model.on_sack(report, self.limit, early, &seen.recovering) else {
            assert_eq!(outcome, SackOutcome::Old);
            return;
        };
        let SackOutcome::Processed {
            advanced,
            reneged: real_reneged,
            ..
        } = outcome
        else {
            panic!("{outcome:?} for {report:?}");
        };
        assert_eq!((advanced, real_reneged), (report.cumulative > base_before, reneged));
        for (path, (ack, told)) in self.real.acks().iter().zip(&told).enumerate() {
            let real = Told {
                acked: ack.acked,
                packets: ack.packets,
                flight_before: ack.flight_before,
                earliest_acked: ack.earliest_acked,
                newest: (ack.packets > 0).then_some((ack.newest, ack.newest_sent_at)),
                lost: told.lost.clone(),
                advanced: ack.advanced,
            };
            assert_eq!(&real, told, "path {path}");
            let ends = |lost: &[Seq]| lost.first().copied().zip(lost.last().copied());
            let lost = (ack.lost > 0).then_some((ack.first_lost, ack.last_lost));
            assert_eq!((ack.lost as usize, lost), (told.lost.len(), ends(&told.lost)));
        }
    }

    fn check(&mut self) {
        let model = &self.model;
        assert_eq!(self.real.next_seq(), model.next());
        for path in 0..model.paths.len() {
            let id = PathId(path as u8);
            assert_eq!(self.real.flight(id), model.flight(path), "flight of path {path}");
            let next = model.paths[path].chunks.len() as Seq;
            assert_eq!(self.real.next_position(id), next, "PSNs of path {path}");
            assert_eq!(self.real.acked_to(id), model.paths[path].acked_to as Seq, "path {path}");
            let earliest = model.earliest(path).map(|psn| psn as Seq);
            assert_eq!(self.real.earliest(id).is_some(), earliest.is_some());
            assert!(self.real.earliest(id) <= earliest, "none in flight comes before it");
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
    let only: Option<u64> = std::env::var("WHIMBREL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = only.map_or(0..1500, |seed| seed..seed + 1);
    for seed in seeds {
        let _announce = Announce(seed);
        let mut rng = Rng::stream(seed, "paths");
        let mut pair = Pair::new(&mut rng);
        let mut old: Vec<Report> = Vec::new();
        for step in 0..150 {
            pair.now += Span::from_micros(1);
            let what = rng.below(14);
            if only.is_some() {
                eprintln!("step {step}: {what}");
            }
            match what {
                0..=3 => (0..rng.below(8)).for_each(|_| pair.push(&mut rng)),
                4..=6 => (0..rng.below(6)).for_each(|_| pair.retransmit(&mut rng)),
                7 if rng.chance(0.3) => pair.time_out(&mut rng),
                8 if rng.chance(0.5) => pair.give_one_up(&mut rng),
                9 if !old.is_empty() => {
                    // One that was overtaken.
                    let report = old[rng.below(old.len() as u64) as usize].clone();
                    if report.cumulative < pair.model.base {
                        pair.sack(&report, &mut rng);
                    }
                }
                _ => {
                    let report = pair.holder.report(pair.model.next(), &mut rng, true);
                    pair.sack(&report, &mut rng);
                    old.push(report);
                }
            }
            pair.check();
        }
    }
}
