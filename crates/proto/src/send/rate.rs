//! Delivery rates, for parts that use them (draft-cheng-iccrg-delivery-rate-estimation §3): a send stamp for each
//! outstanding chunk. This file notes when data lacks; `delivery_rates.rs` measures.

use whimbrel_control::Time;

use crate::PathId;
use crate::send::Sending;

impl Sending {
    /// No data is available for sending.
    #[inline]
    pub(crate) fn note_app_limited(&mut self, now: Time) {
        // A user that waits for room in the send buffer has more data. Data acknowledged by gap ack blocks still
        // occupies the buffer.
        if self.rates.is_none() || self.wants_space {
            return;
        }
        if !self.is_spread() {
            if self.queue.is_empty() {
                self.note_path_app_limited(self.choice.sending());
            }
            return;
        }
        // With several paths in use, a path also lacks data if the distribution does not use it, or if the shared
        // buffers are full.
        for index in self.paths.ids() {
            let path = &self.paths[index];
            if self.queue.is_empty() || path.may_burst() && path.pacer_is_open(now) {
                self.note_path_app_limited(index);
            }
        }
    }

    fn note_path_app_limited(&mut self, index: PathId) {
        if !self.window_open(index) {
            return;
        }
        let flight = self.outstanding.flight(index);
        if let Some(rates) = &mut self.rates {
            rates.on_app_limited(index, flight);
        }
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::multipath::Accounting;
    use whimbrel_wire::{DuplicateTsns, GapBlocks, Sack, Tsn};

    use super::*;
    use crate::send::delivery_rates::DeliveryRates;
    use crate::send::{Echo, Extent, testing};

    #[test]
    fn a_send_buffer_full_of_gap_acked_data_is_not_application_limited() {
        let now = Time::from_nanos(1_000_000);
        for waits_for_space in [false, true] {
            let mut sending = testing::sending(1);
            sending.buffer = 4000;
            testing::send(&mut sending, Accounting::default(), &[(0, 1000); 4]);
            sending.rates = Some(Box::new(DeliveryRates::new(4, 1)));
            sending.wants_space = waits_for_space;
            // All chunks but the first have been received. They stay in the buffer, and no data is left to be sent.
            let sack = Sack {
                cumulative_tsn_ack: Tsn(0),
                a_rwnd: 100_000,
                gaps: GapBlocks::from_wire_bytes(&[0, 2, 0, 4]),
                duplicates: DuplicateTsns::from_wire_bytes(&[]),
                congestion_indicated: false,
                packets: 0,
            };
            let result = testing::with_context(now, |ctx| {
                sending.on_acknowledgement(ctx, &sack, Extent::Roomy, Some((sack.a_rwnd, PathId(0))), &Echo::NONE)
            });
            assert!(result.is_ok() && sending.outstanding.data_held() == 4000);
            sending.note_app_limited(now);
            sending.stamp_chunk(now, 4, PathId(0), 1000);
            let rates = sending.rates.as_ref().expect("it was put there");
            assert_eq!(rates.stamps[0].app_limited, !waits_for_space);
        }
    }
}
