//! Processes a received SACK with accounting for each path: the cumulative ack point of each path, and missing reports by data sent on this
//! path only (Ye 2004, 6.4; CMT).

use whimbrel_control::Seq;

use super::outstanding::Outstanding;
use super::path_sequence::PathSequences;
use super::report::{Extent, MissingRules, SackObserver};
use super::slot::Fate;

/// The number of missing reports that one SACK counts for (CMT's DAC).
struct DelayedAck {
    arrivals: u8,
    /// The lowest position that the SACK has newly acknowledged.
    lowest: Seq,
}

impl Outstanding {
    /// Processes the SACK for each path: its cumulative ack point, and missing reports by data sent on this path only.
    pub(super) fn finish_paths(&mut self, rules: &MissingRules, observer: &mut impl SackObserver) {
        let Some(mut sequences) = self.sequences.take() else {
            return;
        };
        let paths_acked = sequences.paths.iter().filter(|path| path.newly.is_some()).count();
        for index in 0..self.acks.len() {
            let (base, slots) = (self.base, &self.slots);
            let progress = sequences.finish_sack(index, |seq| Self::chunk_state(base, slots, seq));
            self.acks[index].advanced = progress.window;
            let path = &sequences.paths[index];
            let limit = if rules.early && path.span_before <= rules.limit.into() {
                (path.span_before as u8).saturating_sub(1).max(1)
            } else {
                rules.limit
            };
            let Some((highest, lowest)) = path.newly else {
                self.count_by_echoes(&mut sequences, index, limit, rules.extent == Extent::Cut, observer);
                continue;
            };
            // DAC: the packets that the receiver counted are packets of this path only if the SACK acknowledges data of
            // no other path.
            let dac = DelayedAck {
                arrivals: if paths_acked == 1 && sequences.by_tsn() {
                    rules.arrivals.max(1)
                } else {
                    1
                },
                lowest,
            };
            sequences.find_suspects(index, |seq| {
                let slot = slots.get((seq - base) as usize);
                slot.is_some_and(|slot| slot.fate == Fate::InFlight && usize::from(slot.path) == index)
            });
            // As above: progress in fast recovery reports every missing chunk.
            let below = if progress.lowest && observer.in_recovery(index) {
                sequences.reported_to(index)
            } else {
                highest
            };
            if self.is_by_echo() {
                self.count_by_echoes(&mut sequences, index, limit, rules.extent == Extent::Cut, observer);
            } else {
                self.count_on_path(&mut sequences, index, below, limit, &dac, observer);
            }
        }
        self.sequences = Some(sequences);
    }

    /// Counts missing reports for the suspects of a path below a position.
    fn count_on_path(
        &mut self,
        sequences: &mut PathSequences,
        index: usize,
        below: Seq,
        limit: u8,
        dac: &DelayedAck,
        observer: &mut impl SackObserver,
    ) {
        let latest = self.acks[index].latest;
        let mut suspects = sequences.take_suspects(index);
        let (mut kept, mut seen) = (0, 0);
        while let Some(&position) = suspects.get(seen)
            && position < below
        {
            seen += 1;
            let Some(seq) = sequences.chunk_at(index, position) else {
                if self.misses_copy(sequences, index, position, limit, observer) {
                    suspects[kept] = position;
                    kept += 1;
                }
                continue;
            };
            let Some(slot) = self.slot(seq) else { continue };
            if slot.fate != Fate::InFlight || slot.fast_retransmitted || usize::from(slot.path) != index {
                continue;
            }
            let reports = match slot.is_missed_by(latest, position) {
                true if position < dac.lowest => dac.arrivals,
                counts => counts.into(),
            };
            if self.add_missing_reports(seq, position, reports, limit, observer) {
                suspects[kept] = position;
                kept += 1;
            }
        }
        suspects.drain(kept..seen);
        sequences.put_suspects(index, suspects);
    }
}
