//! A send stamp for each outstanding chunk, in a ring parallel to that of the chunks, and the delivery rates of the paths
//! (draft-cheng-iccrg-delivery-rate-estimation §3).

use std::collections::VecDeque;

use whimbrel_control::estimator::{DeliveryEstimator, SendStamp};
use whimbrel_control::{RateSample, Seq, Span, Time};

use crate::PathId;

/// Measurement of the delivery rates of an association's paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryRates {
    /// Position of the first stamp.
    base: Seq,
    pub(crate) stamps: VecDeque<SendStamp>,
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
    pub(crate) fn new(base: Seq, paths: usize) -> Self {
        DeliveryRates {
            base,
            paths: vec![PathRate::default(); paths],
            ..DeliveryRates::default()
        }
    }

    /// A chunk of `bytes` bytes is sent or retransmitted; `flight` bytes are in flight on the path without it.
    pub(crate) fn on_sent(&mut self, now: Time, seq: Seq, path: PathId, bytes: u64, flight: u64) {
        let Some(rate) = self.paths.get_mut(path.index()) else {
            return;
        };
        let stamp = rate.estimator.on_sent(now, bytes, flight);
        let place = seq.checked_sub(self.base).map_or(usize::MAX, |place| place as usize);
        if place != usize::MAX && place >= self.stamps.len() {
            // Positions between them are of chunks that are never sent: they end messages that were given up.
            self.stamps.resize(place + 1, stamp);
        } else if let Some(known) = self.stamps.get_mut(place) {
            *known = stamp;
        }
    }

    /// A chunk is acknowledged for the first time.
    pub(crate) fn on_acked(&mut self, seq: Seq, path: u8, sent_at: Time) {
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
    pub(crate) fn on_delivered(
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
    pub(crate) fn release(&mut self, base: Seq) {
        while self.base < base && self.stamps.pop_front().is_some() {
            self.base += 1;
        }
        if self.stamps.is_empty() {
            self.base = self.base.max(base);
        }
    }

    pub(crate) fn on_lost(&mut self, path: PathId, bytes: u64) {
        if let Some(rate) = self.paths.get_mut(path.index()) {
            rate.estimator.on_lost(bytes);
        }
    }

    /// The path lacks data to send; `flight` bytes are in flight on it.
    pub(crate) fn on_app_limited(&mut self, path: PathId, flight: u64) {
        if let Some(rate) = self.paths.get_mut(path.index()) {
            rate.estimator.on_app_limited(flight);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.stamps.capacity() * size_of::<SendStamp>()
            + self.paths.capacity() * size_of::<PathRate>()
    }

    /// Updates the number of paths after paths were added.
    pub(crate) fn set_paths(&mut self, paths: usize) {
        self.paths.resize(paths, PathRate::default());
    }

    /// A new path has reused this number.
    pub(crate) fn forget_path(&mut self, index: PathId) {
        if let Some(path) = self.paths.get_mut(index.index()) {
            *path = PathRate::default();
        }
    }

    pub(crate) fn release_memory(&mut self) {
        self.stamps.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
