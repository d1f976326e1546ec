//! Compares the ring of outstanding chunks with a slow model that checks every chunk for each SACK (RFC 9260 §6.2.1,
//! §6.3.2, §6.3.3, §7.2.4).

use std::collections::BTreeMap;

use whimbrel_control::multipath::Accounting;
use whimbrel_control::{Rng, Seq, Span, Time};
use whimbrel_wire::{DuplicateTsns, GapBlock, GapBlocks, Sack, Tsn};

use super::super::lost::LostChunk;
use super::super::outstanding::Outstanding;
use super::super::report::{Extent, Implausibility, MissingRules, SackObserver, SackOutcome};
use super::super::slot::Fate;
use crate::PathId;
use crate::message::MessagePayload;
use crate::send::queue::Fragment;

#[derive(Clone, Debug)]
struct Chunk {
    len: u64,
    path: u8,
    fate: Fate,
    missing: u32,
    sent_at: Time,
    retransmitted: bool,
    fast_retransmitted: bool,
    credited: bool,
    /// The chunk has left the network, and SACKs had no room to report it.
    unreported: bool,
}

impl Chunk {
    fn bytes(&self) -> u64 {
        (16 + self.len).next_multiple_of(4)
    }
}

/// The report of a SACK about a path.
#[derive(Clone, Debug, Default, PartialEq)]
struct PathReport {
    acked: u64,
    flight_before: u64,
    earliest_acked: bool,
    newest_sent_at: Option<Time>,
    lost: u32,
    first_lost: Option<Seq>,
}

#[derive(Debug, Default)]
struct Model {
    chunks: BTreeMap<Seq, Chunk>,
    base: Seq,
    /// What SACKs have reported: the last one, or an earlier one if the later ones were cut.
    reported: Vec<Seq>,
    /// The end of the last SACK's blocks, and their number.
    top: Seq,
    blocks: usize,
    acked: Vec<Seq>,
    lost: Vec<Seq>,
    /// The send time and position of the latest transmission that the last SACK has newly acknowledged.
    latest: Option<(Time, Seq)>,
    /// By path: chunks below this one were above the reported range when they were checked, unless they were put in
    /// flight since.
    looked_at: [Seq; 3],
}

/// A SACK in positions: everything below `cumulative`, and these ranges, half open.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) cumulative: Seq,
    pub(super) ranges: Vec<(Seq, Seq)>,
    pub(super) extent: Extent,
    /// TSNs that arrived again.
    pub(super) duplicates: Vec<Seq>,
}

impl Report {
    /// Returns the end of what the SACK reports: if it is cut, or as long as the one before with eight blocks or more, that of its last block,
    /// or of the known range that goes on there. `before`: the number of blocks of the SACK before.
    pub(super) fn horizon(&self, known: &[Seq], before: usize) -> Seq {
        let may_be_limited = self.ranges.len() >= before.max(8);
        if self.extent == Extent::Whole || self.extent == Extent::Roomy && !may_be_limited {
            return Seq::MAX;
        }
        let end = self.ranges.last().map_or(self.cumulative, |&(_, end)| end);
        (end..).find(|seq| !known.contains(seq)).unwrap_or(end)
    }

    pub(super) fn holds(&self, seq: Seq) -> bool {
        seq < self.cumulative || self.ranges.iter().any(|&(start, end)| (start..end).contains(&seq))
    }

    /// Passes the SACK to the ring.
    pub(super) fn deliver(
        &self,
        ring: &mut Outstanding,
        initial: u32,
        rules: MissingRules,
        seen: &mut Seen,
    ) -> SackOutcome {
        let mut gaps = Vec::new();
        for &(start, end) in &self.ranges {
            let offset = |seq: Seq| (seq + 1 - self.cumulative) as u16;
            GapBlock {
                start: offset(start),
                end: offset(end) - 1,
            }
            .emit(&mut gaps);
        }
        let tsn = |seq: &Seq| initial.wrapping_add(*seq as u32).to_be_bytes();
        let duplicates: Vec<u8> = self.duplicates.iter().flat_map(tsn).collect();
        let sack = Sack {
            congestion_indicated: false,
            packets: 0,
            cumulative_tsn_ack: Tsn(initial.wrapping_add(self.cumulative as u32).wrapping_sub(1)),
            a_rwnd: 0,
            gaps: GapBlocks::from_wire_bytes(&gaps),
            duplicates: DuplicateTsns::from_wire_bytes(&duplicates),
        };
        ring.on_sack(&sack, rules, seen)
    }
}

/// The TSNs that a receiver holds.
#[derive(Debug, Default)]
pub(super) struct Holder {
    /// TSNs above the cumulative ack.
    held: std::collections::BTreeSet<Seq>,
    cumulative: Seq,
}

impl Holder {
    /// Chunks below `next` arrive; then the receiver reports. A careless receiver sometimes drops chunks, and may have no room for all
    /// blocks, or limit their number.
    pub(super) fn report(&mut self, next: Seq, rng: &mut Rng, careless: bool) -> Report {
        for seq in self.cumulative..next {
            if rng.chance(0.3) {
                self.held.insert(seq);
            }
        }
        if careless && rng.chance(0.05) {
            let keep: Vec<_> = (0..next).filter(|_| rng.chance(0.5)).collect();
            self.held.retain(|seq| keep.contains(seq));
        }
        while self.held.remove(&self.cumulative) {
            self.cumulative += 1;
        }
        let mut ranges: Vec<(Seq, Seq)> = Vec::new();
        for &seq in &self.held {
            match ranges.last_mut() {
                Some((_, end)) if *end == seq => *end += 1,
                _ => ranges.push((seq, seq + 1)),
            }
        }
        let extent = match rng.below(5) {
            _ if !careless => Extent::Whole,
            0 => Extent::Cut,
            1 | 2 => Extent::Roomy,
            _ => Extent::Whole,
        };
        match extent {
            Extent::Whole => {}
            Extent::Roomy => ranges.truncate(10),
            Extent::Cut => ranges.truncate(rng.below(1 + ranges.len() as u64) as usize),
        }
        Report {
            cumulative: self.cumulative,
            ranges,
            extent,
            duplicates: Vec::new(),
        }
    }
}

/// Returns a chunk with `len` bytes of user data.
pub(crate) fn fragment(len: u64) -> Fragment {
    Fragment {
        stream: 0,
        number: 0,
        fsn: 0,
        ppid: 0,
        context: 0,
        unordered: false,
        immediate: false,
        begin: true,
        end: true,
        is_long: false,
        payload: MessagePayload::Zeros(len as u32),
    }
}

impl Model {
    fn next(&self) -> Seq {
        self.base + self.chunks.len() as Seq
    }

    fn flight(&self, path: u8) -> u64 {
        let on_path = |chunk: &&Chunk| chunk.fate == Fate::InFlight && chunk.path == path && !chunk.unreported;
        self.chunks.values().filter(on_path).map(Chunk::bytes).sum()
    }

    fn earliest(&self, path: u8) -> Option<Seq> {
        let on_path = |(_, chunk): &(&Seq, &Chunk)| chunk.fate == Fate::InFlight && chunk.path == path;
        self.chunks.iter().find(on_path).map(|(seq, _)| *seq)
    }

    fn acknowledge(&mut self, seq: Seq, reported: &mut [PathReport], earliest: &[Option<Seq>]) -> bool {
        let Some(chunk) = self.chunks.get_mut(&seq) else {
            return false;
        };
        if chunk.fate == Fate::Acked {
            return false;
        }
        let reported = &mut reported[usize::from(chunk.path)];
        if chunk.fate == Fate::InFlight && earliest[usize::from(chunk.path)] == Some(seq) {
            reported.earliest_acked = true;
        }
        chunk.fate = Fate::Acked;
        if !chunk.credited {
            chunk.credited = true;
            reported.acked += chunk.bytes();
            reported.newest_sent_at = (!chunk.retransmitted).then_some(chunk.sent_at);
            self.latest = self.latest.max(Some((chunk.sent_at, seq)));
            self.acked.push(seq);
        }
        true
    }

    fn on_sack(
        &mut self,
        report: &Report,
        paths: u8,
        limit: u32,
        in_recovery: bool,
    ) -> Option<(Vec<PathReport>, bool)> {
        if report.cumulative < self.base {
            return None;
        }
        let mut reported: Vec<_> = (0..paths)
            .map(|path| PathReport {
                flight_before: self.flight(path),
                ..PathReport::default()
            })
            .collect();
        let mut highest_new = None;
        self.latest = None;
        let advanced = report.cumulative > self.base;
        let in_ranges = |seq: Seq| report.ranges.iter().any(|&(start, end)| (start..end).contains(&seq));
        for seq in self.base..self.next() {
            // The earliest chunk in flight at this point, after those before this one have been acknowledged.
            let earliest: Vec<_> = (0..paths).map(|path| self.earliest(path)).collect();
            if (seq < report.cumulative || in_ranges(seq)) && self.acknowledge(seq, &mut reported, &earliest) {
                highest_new = Some(seq);
            }
        }
        while self.base < report.cumulative {
            self.chunks.remove(&self.base);
            self.base += 1;
        }
        let horizon = report.horizon(&self.reported, self.blocks);
        let mut reneged = Vec::new();
        for &seq in &self.reported {
            if let Some(chunk) = self.chunks.get_mut(&seq)
                && !in_ranges(seq)
                && seq < horizon
            {
                chunk.fate = Fate::InFlight;
                chunk.missing = 0;
                chunk.unreported = false;
                let looked_at = &mut self.looked_at[usize::from(chunk.path)];
                *looked_at = (*looked_at).min(seq);
                reneged.push(seq);
            }
        }
        let known = core::mem::take(&mut self.reported);
        let is_known = |seq: &Seq| in_ranges(*seq) || *seq >= horizon && known.contains(seq);
        self.reported = self.chunks.keys().copied().filter(is_known).collect();
        let highest = report.ranges.last().map_or(0, |&(_, end)| end);
        (self.top, self.blocks) = (highest, report.ranges.len());
        if let Some(htna) = highest_new {
            let below = if in_recovery && advanced {
                highest
            } else {
                htna.min(highest)
            };
            for (&seq, chunk) in &mut self.chunks {
                if seq >= below || chunk.fate != Fate::InFlight || chunk.fast_retransmitted {
                    continue;
                }
                let counts = !chunk.retransmitted || Some((chunk.sent_at, seq)) < self.latest;
                chunk.missing += u32::from(counts);
                if chunk.missing >= limit || counts && chunk.unreported {
                    chunk.fate = Fate::Lost;
                    chunk.fast_retransmitted = true;
                    self.lost.push(seq);
                    let reported = &mut reported[usize::from(chunk.path)];
                    reported.lost += 1;
                    reported.first_lost = reported.first_lost.or(Some(seq));
                }
            }
        }
        for seq in &reneged {
            let chunk = self.chunks.get_mut(seq).expect("it is not acknowledged");
            chunk.missing = chunk.missing.max(1);
        }
        Some((reported, !reneged.is_empty()))
    }
}

#[derive(Default)]
pub(super) struct Seen {
    pub(super) acked: Vec<Seq>,
    pub(super) lost: Vec<Tsn>,
    /// Paths in fast recovery.
    pub(super) recovering: Vec<usize>,
    /// Paths on which a transmission can have arrived, the most likely one first.
    pub(super) order: Vec<u8>,
    /// Paths on which a duplicate can have arrived, the most likely one first.
    pub(super) again_order: Vec<u8>,
    /// Every retransmission is too recent to be acknowledged.
    pub(super) too_recent: bool,
    /// How much earlier the SACK has arrived than one on another path.
    pub(super) lead: Span,
    /// Copies that have arrived.
    pub(super) copies: Vec<(Seq, u8, bool)>,
    /// Timestamps that the SACK returns.
    pub(super) echoes: Vec<u64>,
    /// A SACK sent later has arrived before.
    pub(super) overtaken: bool,
    /// Transmissions whose arrival timestamps have reported.
    pub(super) echoed: Vec<(Seq, u8)>,
    /// Lost transmissions that are not retransmitted.
    pub(super) given_up: Vec<(Seq, u8)>,
}

impl SackObserver for Seen {
    fn acked(&mut self, seq: Seq, _tsn: Tsn, _path: u8, _sent_at: Time, _retransmitted: bool) {
        self.acked.push(seq);
    }

    fn lost(&mut self, tsn: Tsn, _path: u8) {
        self.lost.push(tsn);
    }

    fn may_answer(&self, _path: u8, _sent_at: Time) -> bool {
        true
    }

    fn is_too_recent(&self, _path: u8, _sent_at: Time) -> bool {
        self.too_recent
    }

    fn lead(&self, _path: u8) -> Span {
        self.lead
    }

    fn in_recovery(&self, path: usize) -> bool {
        self.recovering.contains(&path)
    }

    fn implausibility(&self, path: u8, _sent_at: Time, again: bool) -> Option<Implausibility> {
        let order = if again { &self.again_order } else { &self.order };
        let place = order.iter().position(|&here| here == path)?;
        Some(Implausibility {
            elsewhere: place > 0,
            unmeasured: false,
            off: Span::from_millis(place as u64),
        })
    }

    fn copy_arrived(&mut self, seq: Seq, path: u8, _sent_at: Time, doubtful: bool) {
        self.copies.push((seq, path, doubtful));
    }

    fn given_up(&mut self, seq: Seq, path: u8, _sent_at: Time) {
        self.given_up.push((seq, path));
    }

    fn echo(&self, index: usize) -> Option<u64> {
        self.echoes.get(index).copied()
    }

    fn is_overtaken(&self) -> bool {
        self.overtaken
    }

    fn echoed(&mut self, seq: Seq, path: u8, _sent_at: Time) {
        self.echoed.push((seq, path));
    }
}

struct Pair {
    real: Outstanding,
    model: Model,
    initial: u32,
    paths: u8,
    limit: u32,
    now: Time,
    holder: Holder,
}

impl Pair {
    fn new(rng: &mut Rng) -> Self {
        let paths = 1 + rng.below(3) as u8;
        let initial = [0, 1, u32::MAX - 20, 0x7fff_fff0][rng.below(4) as usize];
        let mut real = Outstanding::new(Tsn(initial), Accounting::Association);
        real.set_paths(paths.into());
        Pair {
            real,
            model: Model::default(),
            initial,
            paths,
            limit: 2 + rng.below(3) as u32,
            now: Time::from_nanos(1),
            holder: Holder::default(),
        }
    }

    fn push(&mut self, rng: &mut Rng) {
        let path = rng.below(self.paths.into()) as u8;
        let len = 1 + rng.below(1452);
        let seq = self.real.push(fragment(len), PathId(path), self.now);
        assert_eq!(seq, self.model.next());
        let chunk = Chunk {
            len,
            path,
            fate: Fate::InFlight,
            missing: 0,
            sent_at: self.now,
            retransmitted: false,
            fast_retransmitted: false,
            credited: false,
            unreported: false,
        };
        self.model.chunks.insert(seq, chunk);
    }

    /// Transmissions on a path before this time, above the reported range, leave the flight, as far as they were sent in order.
    fn take_out_unreported(&mut self, rng: &mut Rng) {
        let path = rng.below(self.paths.into()) as u8;
        let before = Time::from_nanos(1 + rng.below(self.now.as_nanos()));
        self.real.take_out_unreported(PathId(path), before);
        let model = &mut self.model;
        let horizon = model.base.max(model.top).max(model.looked_at[usize::from(path)]);
        let next = model.next();
        let candidates =
            |(_, chunk): &(&Seq, &mut Chunk)| chunk.path == path && chunk.fate == Fate::InFlight && !chunk.unreported;
        let mut above = model.chunks.range_mut(horizon..).filter(candidates);
        let first_kept = above.find_map(|(&seq, chunk)| {
            chunk.unreported = chunk.sent_at < before;
            (!chunk.unreported).then_some(seq)
        });
        model.looked_at[usize::from(path)] = first_kept.unwrap_or(next.max(horizon));
    }

    fn lowest_lost(&self) -> Option<Seq> {
        let is_lost = |(_, chunk): &(&Seq, &Chunk)| chunk.fate == Fate::Lost;
        self.model.chunks.iter().find(is_lost).map(|(seq, _)| *seq)
    }

    fn retransmit(&mut self, rng: &mut Rng) {
        let lowest = self.lowest_lost();
        let offered = self.real.next_lost();
        assert_eq!(offered.map(|lost| lost.seq), lowest);
        let Some(LostChunk { seq, from, .. }) = offered else {
            return;
        };
        let path = rng.below(self.paths.into()) as u8;
        let data = self.real.retransmit(seq, PathId(path), self.now);
        let now = self.now;
        let chunk = self.model.chunks.get_mut(&seq).expect("the model has it");
        assert_eq!((data, from.0), (chunk.len, chunk.path));
        chunk.fate = Fate::InFlight;
        chunk.path = path;
        chunk.sent_at = now;
        chunk.retransmitted = true;
        chunk.missing = 0;
        chunk.unreported = false;
        let looked_at = &mut self.model.looked_at[usize::from(path)];
        *looked_at = (*looked_at).min(seq);
    }

    fn time_out(&mut self, rng: &mut Rng) {
        let path = rng.below(self.paths.into()) as u8;
        let mut lost = Vec::new();
        let first = self.real.lose_path(PathId(path), |_, tsn| lost.push(tsn));
        let mut expected = Vec::new();
        for (&seq, chunk) in &mut self.model.chunks {
            if chunk.fate == Fate::InFlight && chunk.path == path {
                chunk.fate = Fate::Lost;
                chunk.fast_retransmitted = false;
                expected.push(seq);
            }
        }
        assert_eq!(first.map(|(position, _)| position), expected.first().copied());
        let expected: Vec<_> = expected.into_iter().map(|seq| self.tsn(seq)).collect();
        assert_eq!(lost, expected);
    }

    fn tsn(&self, seq: Seq) -> Tsn {
        Tsn(self.initial.wrapping_add(seq as u32))
    }

    fn report(&mut self, rng: &mut Rng) -> Report {
        self.holder.report(self.model.next(), rng, true)
    }

    fn sack(&mut self, report: &Report, in_recovery: bool) {
        let rules = MissingRules {
            limit: self.limit as u8,
            in_recovery,
            early: false,
            arrivals: 1,
            extent: report.extent,
        };
        let mut seen = Seen::default();
        let outcome = report.deliver(&mut self.real, self.initial, rules, &mut seen);
        let base_before = self.model.base;
        self.model.acked.clear();
        self.model.lost.clear();
        let expected = self.model.on_sack(report, self.paths, self.limit, in_recovery);
        let Some((reported, reneged)) = expected else {
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
        seen.acked.sort_unstable();
        assert_eq!(seen.acked, self.model.acked, "newly acknowledged");
        let lost: Vec<_> = self.model.lost.iter().map(|&seq| self.tsn(seq)).collect();
        assert_eq!(seen.lost, lost, "lost by missing reports");
        let real: Vec<_> = self
            .real
            .acks()
            .iter()
            .map(|ack| PathReport {
                acked: ack.acked,
                flight_before: ack.flight_before,
                earliest_acked: ack.earliest_acked,
                newest_sent_at: ack.newest_sent_at,
                lost: ack.lost,
                first_lost: (ack.lost > 0).then_some(ack.first_lost),
            })
            .collect();
        assert_eq!(real, reported);
    }

    fn check(&mut self) {
        let model = &self.model;
        assert_eq!(self.real.len(), model.chunks.len());
        assert_eq!(self.real.next_seq(), model.next());
        for path in 0..self.paths {
            assert_eq!(
                self.real.flight(PathId(path)),
                model.flight(path),
                "flight of path {path}"
            );
            assert_eq!(
                self.real.earliest(PathId(path)),
                model.earliest(path),
                "earliest of path {path}"
            );
        }
        let in_flight = |chunk: &&Chunk| chunk.fate == Fate::InFlight && !chunk.unreported;
        let data: u64 = model.chunks.values().filter(in_flight).map(|chunk| chunk.len).sum();
        assert_eq!(self.real.data_in_flight(), data);
        assert_eq!(
            self.real.data_held(),
            model.chunks.values().map(|chunk| chunk.len).sum::<u64>()
        );
        for (&seq, chunk) in &model.chunks {
            let slot = self.real.slot(seq).expect("the ring has it");
            assert_eq!((slot.fate, slot.path), (chunk.fate, chunk.path), "{seq}");
            if chunk.fate == Fate::InFlight {
                assert_eq!(u32::from(slot.missing), chunk.missing, "missing reports of {seq}");
            }
        }
        let lowest = self.lowest_lost();
        assert_eq!(self.real.next_lost().map(|lost| lost.seq), lowest);
    }
}

#[test]
fn the_ring_agrees_with_a_model_that_scans_all_chunks() {
    for_each_seed("ring", |mut rng, describe| {
        let mut pair = Pair::new(&mut rng);
        let mut old: Vec<Report> = Vec::new();
        // With many chunks in flight, a SACK has many blocks.
        let most = [6, 40][rng.below(2) as usize];
        for step in 0..150 {
            pair.now += Span::from_micros(1);
            let what = rng.below(12);
            describe(step, what);
            match what {
                0..=3 => (0..rng.below(most)).for_each(|_| pair.push(&mut rng)),
                4..=5 => (0..rng.below(4)).for_each(|_| pair.retransmit(&mut rng)),
                6 if rng.chance(0.3) => pair.time_out(&mut rng),
                7 if !old.is_empty() => {
                    // A SACK that another one overtook.
                    let report = old[rng.below(old.len() as u64) as usize].clone();
                    if report.cumulative < pair.model.base {
                        pair.sack(&report, rng.chance(0.3));
                    }
                }
                _ => {
                    let report = pair.report(&mut rng);
                    let in_recovery = rng.chance(0.3);
                    pair.sack(&report, in_recovery);
                    if report.extent == Extent::Cut {
                        pair.take_out_unreported(&mut rng);
                    }
                    old.push(report);
                }
            }
            pair.check();
        }
    });
}

/// Runs a check with 1500 seeds, or only with `WHIMBREL_SEED`, and then prints its steps.
pub(super) fn for_each_seed(stream: &str, mut check: impl FnMut(Rng, &dyn Fn(u64, u64))) {
    let only: Option<u64> = std::env::var("WHIMBREL_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in only.map_or(0..1500, |seed| seed..seed + 1) {
        let _announce = Announce(seed);
        check(Rng::stream(seed, stream), &|step, what| {
            if only.is_some() {
                eprintln!("step {step}: {what}");
            }
        });
    }
}

/// Prints the seed when a check fails.
pub(super) struct Announce(pub(super) u64);

impl Drop for Announce {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("WHIMBREL_SEED={}", self.0);
        }
    }
}
