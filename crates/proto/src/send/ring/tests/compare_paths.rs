//! Compares the accounting for each path with its slow model.

use std::collections::BTreeMap;

use whimbrel_control::multipath::Accounting;
use whimbrel_control::{Rng, Seq, Span, Time};
use whimbrel_wire::Tsn;

use super::super::lost::LostChunk;
use super::super::outstanding::Outstanding;
use super::super::report::{MissingRules, SackOutcome};
use super::super::slot::Fate;
use super::model::{Holder, Report, Seen, for_each_seed, fragment};
use super::model_paths::{Chunk, ChunkCopy, Model, PathReport, Sent};
use crate::PathId;

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
                blocks: 0,
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
            moved: false,
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
        chunk.moved |= to != from;
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
            too_recent: rng.chance(0.2),
            lead: Span::from_micros(rng.below(8).saturating_sub(4)),
            ..Seen::default()
        };
        let early = rng.chance(0.2);
        let rules = MissingRules {
            limit: self.limit as u8,
            in_recovery: false,
            early,
            arrivals: 1,
            extent: report.extent,
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
                let is_reported = model.is_acked(path, newest) && !model.paths[path].earlier.contains(&newest);
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
