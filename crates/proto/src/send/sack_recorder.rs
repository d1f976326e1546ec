//! What the processing of a SACK asks about single chunks and reports about them.

use whimbrel_control::{Seq, Span, Time};
use whimbrel_wire::Tsn;

use crate::context::Lost;
use crate::send::delivery_rates::DeliveryRates;
use crate::send::path::Paths;
use crate::send::ring::{Implausibility, SackObserver};
use crate::trace::{LossRule, Trace, TraceEvent, TraceKinds};
use crate::{AssocId, PathId};

/// Records the report of a SACK about single chunks.
pub(crate) struct SackRecorder<'a> {
    pub(crate) paths: &'a mut Paths,
    pub(crate) trace: &'a mut Trace,
    pub(crate) now: Time,
    pub(crate) association: AssocId,
    pub(crate) lost: &'a mut Vec<Lost>,
    pub(crate) rates: Option<&'a mut DeliveryRates>,
    /// The path on which the SACK arrived.
    pub(crate) arrived_on: Option<PathId>,
    /// The path on which the SACK arrived, if SACKs are sent to the source of the last data, and whether the SACK answers a packet with
    /// duplicate data.
    pub(crate) arrival: Option<(PathId, bool)>,
    /// The returned timestamps, if they identify packets that have arrived.
    pub(crate) echoes: &'a [u64],
    /// The timestamps show that a SACK sent later has arrived before.
    pub(crate) overtaken: bool,
}

impl SackObserver for SackRecorder<'_> {
    #[inline]
    fn acked(&mut self, seq: Seq, tsn: Tsn, path: u8, sent_at: Time, retransmitted: bool) {
        self.measure(seq, path, sent_at, retransmitted);
        if let Some(rates) = &mut self.rates {
            rates.on_acked(seq, path, sent_at);
        }
        let (now, association) = (self.now, self.association);
        self.trace
            .emit(TraceKinds::TSNS, now, Some(association), || TraceEvent::TsnAcked {
                path: PathId(path),
                tsn,
            });
    }

    fn copy_arrived(&mut self, seq: Seq, path: u8, sent_at: Time, doubtful: bool) {
        self.measure(seq, path, sent_at, doubtful);
    }

    fn echo(&self, index: usize) -> Option<u64> {
        self.echoes.get(index).copied()
    }

    fn is_overtaken(&self) -> bool {
        self.overtaken
    }

    fn arrived_here(&self, path: u8) -> bool {
        self.arrived_on == Some(PathId(path))
    }

    fn acked_by_some(&mut self, tsn: Tsn, path: u8) {
        let (now, association) = (self.now, self.association);
        self.trace
            .emit(TraceKinds::TSNS, now, Some(association), || TraceEvent::TsnAcked {
                path: PathId(path),
                tsn,
            });
    }

    fn echoed(&mut self, seq: Seq, path: u8, sent_at: Time) {
        self.measure(seq, path, sent_at, !self.arrived_here(path));
        if let Some(rates) = &mut self.rates {
            rates.on_acked(seq, path, sent_at);
        }
    }

    fn given_up(&mut self, seq: Seq, path: u8, sent_at: Time) {
        // Its measurement would never end, and the path would start no other one.
        self.paths[PathId(path)].end_timing(seq, sent_at);
    }

    fn implausibility(&self, path: u8, sent_at: Time, again: bool) -> Option<Implausibility> {
        let rtt = &self.paths[PathId(path)].rtt;
        if self.is_too_recent(path, sent_at) {
            return None;
        }
        let taken = self.now.since(sent_at);
        // SACKs are sent to the source of the last packet with data (RFC 9260 §6.4). A packet with duplicate data is answered at once
        // (§6.2). Such a SACK reports a copy on the path it arrived on, and new data from another path.
        let expected = rtt.srtt().unwrap_or(rtt.rto());
        let off = if taken > expected {
            taken - expected
        } else {
            expected - taken
        };
        let is_likely = |(arrived_on, duplicate): (PathId, bool)| (arrived_on == PathId(path)) == (again || !duplicate);
        Some(Implausibility {
            elsewhere: !self.arrival.is_some_and(is_likely),
            off,
            unmeasured: rtt.min_rtt().is_none(),
        })
    }

    fn may_answer(&self, path: u8, sent_at: Time) -> bool {
        let least = self.paths[PathId(path)].rtt.min_rtt();
        least.is_some_and(|least| self.now.since(sent_at) >= least)
    }

    fn is_too_recent(&self, path: u8, sent_at: Time) -> bool {
        let taken = self.now.since(sent_at);
        // A shorter packet or SACK than those that were measured takes a little less.
        self.least(path).is_some_and(|least| taken < least - least / 16)
    }

    fn lead(&self, path: u8) -> Span {
        // SACKs that are sent to the source of the last data report a duplicate on the path of the copy. The return paths differ by at
        // most the round-trip times; where this is half of them, the other half is the difference of the forward paths.
        let min_rtt = |path: PathId| self.paths[path].rtt.min_rtt();
        let lead = self
            .arrival
            .and_then(|(from, _)| Some((min_rtt(PathId(path))?, min_rtt(from)?)));
        lead.map_or(Span::ZERO, |(own, from)| own.max(from) - from)
    }

    fn in_recovery(&self, path: usize) -> bool {
        self.paths[PathId::at(path)].epochs.recovery.is_active()
    }

    fn lost(&mut self, tsn: Tsn, path: u8) {
        if self.trace.wants(TraceKinds::VERDICTS) {
            self.lost.push((path, tsn));
        }
        let (now, association) = (self.now, self.association);
        self.trace
            .emit(TraceKinds::TSNS, now, Some(association), || TraceEvent::TsnLost {
                path: PathId(path),
                tsn,
                rule: LossRule::MissingReports,
            });
    }
}

impl SackRecorder<'_> {
    /// Returns the time after which this SACK can acknowledge a transmission on the path. If it arrived on another path
    /// and no earlier one did, it is estimated: half of each round-trip time.
    fn least(&self, path: u8) -> Option<Span> {
        let of = &self.paths[PathId(path)];
        let own = of.rtt.min_rtt()?;
        let Some(arrived_on) = self.arrived_on else {
            return Some(own);
        };
        if let Some(measured) = of.least_from(arrived_on) {
            return Some(measured);
        }
        let other = (arrived_on != PathId(path)).then(|| self.paths[arrived_on].rtt.min_rtt());
        Some(other.flatten().map_or(own, |back| own.min((own + back) / 2)))
    }

    #[inline]
    fn measure(&mut self, seq: Seq, path: u8, sent_at: Time, doubtful: bool) {
        let path = &mut self.paths[PathId(path)];
        if path.end_timing(seq, sent_at) {
            // RFC 9260 §6.3.1 rule C5: retransmitted data gives no RTT sample.
            path.note_sample((!doubtful).then(|| self.now.since(sent_at)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::testing;

    #[test]
    fn the_shortest_time_of_the_same_return_path_decides_what_can_have_arrived() {
        let tenths = |tenths_of_ms: u64| Span::from_micros(tenths_of_ms * 100);
        let mut sending = testing::sending(2);
        let (own, fast) = (PathId(0), PathId(1));
        let path = &mut sending.paths[own];
        path.rtt.on_sample(tenths(176));
        path.comparable(fast, tenths(176));
        path.comparable(own, tenths(274));
        let sent_at = Time::ZERO + Span::from_secs(1);
        let mut recorder = SackRecorder {
            paths: &mut sending.paths,
            trace: &mut Trace::default(),
            now: sent_at + tenths(230),
            association: AssocId::ANY,
            lost: &mut Vec::new(),
            rates: None,
            arrived_on: Some(own),
            arrival: None,
            echoes: &[],
            overtaken: false,
        };
        // The copy was sent 23 ms ago: nothing that was acknowledged on its own path was in less than 27.4 ms.
        assert!(recorder.is_too_recent(0, sent_at));
        recorder.arrived_on = Some(fast);
        assert!(!recorder.is_too_recent(0, sent_at));
        recorder.arrived_on = Some(own);
        recorder.now = sent_at + tenths(280);
        assert!(!recorder.is_too_recent(0, sent_at));
        // A shorter SACK returns a little earlier.
        recorder.now = sent_at + tenths(272);
        assert!(!recorder.is_too_recent(0, sent_at));
    }
}
