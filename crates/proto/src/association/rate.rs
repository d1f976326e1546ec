//! Delivery rates, for parts that use them (draft-cheng-iccrg-delivery-rate-estimation §3): a send stamp for each
//! outstanding chunk, in a ring parallel to that of the chunks.

use std::collections::VecDeque;

use whimbrel_control::estimator::{DeliveryEstimator, SendStamp};
use whimbrel_control::{RateSample, Seq, Span, Time};

use super::Association;
use crate::PathId;

/// Measurement of the delivery rates of an association's paths.
#[derive(Clone, Debug, Default)]
pub(super) struct DeliveryRates {
    /// Position of the first stamp.
    base: Seq,
    stamps: VecDeque<SendStamp>,
    paths: Vec<PathRate>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PathRate {
    estimator: DeliveryEstimator,
    /// Stamp of the most recently sent chunk among those newly acknowledged by the SACK being processed.
    newest: Option<SendStamp>,
}

impl DeliveryRates {
    /// Creates the measurement for `paths` paths. The next chunk has position `base`.
    pub(super) fn new(base: Seq, paths: usize) -> Self {
        DeliveryRates {
            base,
            paths: vec![PathRate::default(); paths],
            ..DeliveryRates::default()
        }
    }

    /// A chunk of `bytes` bytes is sent or retransmitted; `flight` bytes are in flight on the path without it.
    fn on_sent(&mut self, now: Time, seq: Seq, path: PathId, bytes: u64, flight: u64) {
        let Some(rate) = self.paths.get_mut(path.index()) else {
            return;
        };
        let stamp = rate.estimator.on_sent(now, bytes, flight);
        let place = seq.checked_sub(self.base).map_or(usize::MAX, |place| place as usize);
        if place == self.stamps.len() {
            self.stamps.push_back(stamp);
        } else if let Some(known) = self.stamps.get_mut(place) {
            *known = stamp;
        }
    }

    /// A chunk is acknowledged for the first time.
    pub(super) fn on_acked(&mut self, seq: Seq, path: u8, sent_at: Time) {
        let place = seq.checked_sub(self.base).map_or(usize::MAX, |place| place as usize);
        if let (Some(stamp), Some(rate)) = (self.stamps.get(place), self.paths.get_mut(usize::from(path)))
            // The stamps of copies are not kept.
            && stamp.sent_at == sent_at
            && rate.newest.is_none_or(|newest| newest.sent_at <= stamp.sent_at)
        {
            rate.newest = Some(*stamp);
        }
    }

    /// `bytes` bytes were delivered on the path. Returns the rate sample of the newest chunk.
    pub(super) fn on_delivered(
        &mut self,
        now: Time,
        path: PathId,
        bytes: u64,
        min_rtt: Option<Span>,
    ) -> Option<RateSample> {
        let rate = self.paths.get_mut(path.index())?;
        rate.estimator.on_delivered(now, bytes);
        rate.estimator.sample(&rate.newest.take()?, min_rtt)
    }

    /// All chunks below the position are acknowledged.
    pub(super) fn release(&mut self, base: Seq) {
        while self.base < base && self.stamps.pop_front().is_some() {
            self.base += 1;
        }
        if self.stamps.is_empty() {
            self.base = self.base.max(base);
        }
    }

    pub(super) fn on_lost(&mut self, path: PathId, bytes: u64) {
        if let Some(rate) = self.paths.get_mut(path.index()) {
            rate.estimator.on_lost(bytes);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.stamps.capacity() * size_of::<SendStamp>()
            + self.paths.capacity() * size_of::<PathRate>()
    }

    /// Updates the number of paths after paths were added.
    pub(super) fn set_paths(&mut self, paths: usize) {
        self.paths.resize(paths, PathRate::default());
    }

    /// A new path has reused this number.
    pub(super) fn forget_path(&mut self, index: PathId) {
        if let Some(path) = self.paths.get_mut(index.index()) {
            *path = PathRate::default();
        }
    }

    pub(super) fn release_memory(&mut self) {
        self.stamps.shrink_to_fit();
    }
}

impl Association {
    /// Starts the measurement of rates, if any part uses them.
    pub(super) fn start_rates(&mut self) {
        let wanted = self.paths.iter().any(|path| path.control.needs().rate);
        let base = self.sender.outstanding.next_seq();
        self.sender.rates = wanted.then(|| Box::new(DeliveryRates::new(base, self.paths.len())));
    }

    /// A chunk has been put in flight.
    #[inline]
    pub(super) fn stamp_chunk(&mut self, now: Time, seq: Seq, path: PathId, chunk_len: u64) {
        if let Some(rates) = &mut self.sender.rates {
            let flight = self.sender.outstanding.flight(path).saturating_sub(chunk_len);
            rates.on_sent(now, seq, path, chunk_len, flight);
        }
    }

    /// No data is available for sending.
    #[inline]
    pub(super) fn note_app_limited(&mut self, now: Time) {
        // A user that waits for room in the send buffer has more data. Data acknowledged by gap ack blocks still
        // occupies the buffer.
        if self.sender.rates.is_none() || self.user.notices.wants_space {
            return;
        }
        if !self.is_spread() {
            if self.sender.queue.is_empty() {
                self.note_path_app_limited(self.choice.sending);
            }
            return;
        }
        // With several paths in use, a path also lacks data if the distribution does not use it, or if the shared
        // buffers are full.
        for index in self.paths.ids() {
            let path = &self.paths[index];
            if self.sender.queue.is_empty() || path.burst_left > 0 && path.pacer_is_open(now) {
                self.note_path_app_limited(index);
            }
        }
    }

    fn note_path_app_limited(&mut self, index: PathId) {
        if !self.window_open(index) {
            return;
        }
        let flight = self.sender.outstanding.flight(index);
        if let Some(rate) = self
            .sender
            .rates
            .as_mut()
            .and_then(|rates| rates.paths.get_mut(index.index()))
        {
            rate.estimator.on_app_limited(flight);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use whimbrel_control::multipath::Accounting;
    use whimbrel_wire::{DuplicateTsns, GapBlocks, Sack, Tsn};

    use super::super::{State, testing};
    use super::*;
    use crate::config::{AssociationConfig, Resolved};

    #[test]
    fn a_send_buffer_full_of_gap_acked_data_is_not_application_limited() {
        let now = Time::from_nanos(1_000_000);
        for waits_for_space in [false, true] {
            let mut association = testing::association(1);
            association.state = State::Established;
            association.config = Arc::new(Resolved::new(AssociationConfig {
                send_buffer: 4000,
                ..AssociationConfig::default()
            }));
            testing::send(&mut association, Accounting::default(), &[(0, 1000); 4]);
            association.sender.rates = Some(Box::new(DeliveryRates::new(4, 1)));
            association.user.notices.wants_space = waits_for_space;
            // All chunks but the first have been received. They stay in the buffer, and no data is left to be sent.
            let sack = Sack {
                cumulative_tsn_ack: Tsn(0),
                a_rwnd: 100_000,
                gaps: GapBlocks::from_wire_bytes(&[0, 2, 0, 4]),
                duplicates: DuplicateTsns::from_wire_bytes(&[]),
                congestion_indicated: false,
                packets: 0,
            };
            let result = testing::with_context(now, |ctx| association.on_sack(ctx, &sack, PathId(0)));
            assert!(result.is_ok() && association.sender.outstanding.data_held() == 4000);
            association.note_app_limited(now);
            association.stamp_chunk(now, 4, PathId(0), 1000);
            let rates = association.sender.rates.as_ref().expect("it was put there");
            assert_eq!(rates.stamps[0].app_limited, !waits_for_space);
        }
    }

    #[test]
    fn a_path_in_a_reused_entry_has_no_rate_samples() {
        let mut rates = DeliveryRates::new(0, 2);
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        for replaced in [false, true] {
            let seq = Seq::from(replaced);
            rates.on_sent(at(1), seq, PathId(1), 1000, 0);
            rates.on_acked(seq, 1, at(1));
            if replaced {
                rates.forget_path(PathId(1));
            }
            assert_eq!(rates.on_delivered(at(50), PathId(1), 1000, None).is_none(), replaced);
        }
    }
}
