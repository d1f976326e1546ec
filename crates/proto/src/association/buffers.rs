//! The receive buffer, which grows with the data delivered in a round-trip time, within the endpoint's memory for buffers; and the return of
//! the memory of both buffers. `send/buffer.rs` is the send buffer.
//!
//! The receive buffer follows the rate at which the application reads (dynamic right-sizing, Fisk and Feng 2001). Data
//! of one round-trip time is in flight, a loss holds back data of another one, and in slow start the sender doubles
//! both before the next measurement is complete. An association that only receives data measures its round-trip time
//! with heartbeats. The send buffer follows the congestion windows. Buffers only grow while data flows. An idle
//! association returns the memory that it was granted, but does not shrink the advertised window
//! ([`Receiver::resize`](crate::receive::Receiver::resize)).

use whimbrel_control::Span;

use super::tuning::{Tuning, grow};
use super::{Association, State};
use crate::PathId;
use crate::context::Context;

/// Size of the receive buffer in round-trip times of delivered data.
const ROUNDS_RECEIVED: u64 = 4;
/// Received bytes before the first measurement of the round-trip time.
const FIRST_MEASUREMENT: u64 = 32 * 1024;
/// Minimum interval between heartbeats that measure the round-trip time.
const BETWEEN_MEASUREMENTS: Span = Span::from_secs(1);

impl Association {
    /// Returns the bytes granted by the endpoint's pool.
    pub(crate) fn buffer_grant(&self) -> u64 {
        let received = self.tuning.as_ref().map_or(0, |tuning| tuning.recv_buffer);
        u64::from(received.saturating_sub(self.config.recv_buffer)) + self.sending.buffer_grant()
    }

    /// Returns the size of the receive buffer if it has grown.
    pub(super) fn tuned_recv_buffer(&self) -> Option<u32> {
        let size = self.tuning.as_ref()?.recv_buffer;
        (size > self.config.recv_buffer).then_some(size)
    }

    /// Adjusts the receive buffer, after data has arrived, to the bytes that the application reads in a round-trip
    /// time.
    pub(super) fn tune_receive(&mut self, ctx: &mut Context<'_>, from: PathId) {
        let Some(tuning) = &mut self.tuning else { return };
        if self.config.recv_buffer_max.is_none_or(|max| max <= tuning.recv_buffer) {
            return;
        }
        let round = self.sending.longest_round();
        let delivered = self.user.stats.bytes_delivered;
        if let Some(round) = round {
            let elapsed = ctx.now.since(tuning.since);
            if elapsed >= round {
                let moved = delivered - tuning.delivered;
                let share = round.as_nanos() as f64 / elapsed.as_nanos().max(1) as f64;
                (tuning.since, tuning.delivered) = (ctx.now, delivered);
                let wanted = ROUNDS_RECEIVED * (moved as f64 * share) as u64;
                let grown = grow(ctx.pool, tuning.recv_buffer, wanted, self.config.recv_buffer_max);
                if let (Some(size), Some(receiver)) = (grown, &mut self.receiving.receiver) {
                    tuning.recv_buffer = size;
                    receiver.resize(size);
                }
            }
        }
        // While this endpoint sends data, the data measures the round-trip time.
        let asks = self.state == State::Established
            && self.sending.nothing_outstanding()
            && match tuning.requested {
                None => delivered >= FIRST_MEASUREMENT,
                Some((at, before)) => {
                    ctx.now.since(at) >= BETWEEN_MEASUREMENTS
                        && delivered - before >= u64::from(self.config.recv_buffer / 4)
                }
            };
        if asks {
            tuning.requested = Some((ctx.now, delivered));
            self.sending.request_heartbeat(ctx, from);
        }
    }

    /// Restores the configured sizes of both buffers after an idle period. The receive buffer does not become smaller than the INIT or
    /// INIT ACK has announced.
    // [9260:3.3.2-10, 3.3.3-10]
    pub(super) fn reset_buffers(&mut self, ctx: &mut Context<'_>) {
        ctx.pool.give_back(self.buffer_grant());
        self.tuning = Tuning::new(&self.config);
        self.sending.reset_buffer();
        if let Some(receiver) = self.receiving.receiver.as_mut().filter(|_| self.tuning.is_some()) {
            receiver.resize(self.config.recv_buffer);
        }
        if let Some(tuning) = &mut self.tuning {
            (tuning.since, tuning.delivered) = (ctx.now, self.user.stats.bytes_delivered);
        }
    }
}
