//! The buffers: their sizes, and news of room for the user; and their automatic tuning, with which they grow with the data delivered in a
//! round-trip time, within the endpoint's memory for buffers.
//!
//! The receive buffer follows the rate at which the application reads (dynamic right-sizing, Fisk and Feng 2001). Data
//! of one round-trip time is in flight, a loss holds back data of another one, and in slow start the sender doubles
//! both before the next measurement is complete. An association that only receives data measures its round-trip time
//! with heartbeats. The send buffer follows the congestion windows. Buffers only grow while data flows. An idle
//! association returns the memory that it was granted, but does not shrink the advertised window
//! ([`Receiver::resize`](crate::receive::Receiver::resize)).

use whimbrel_control::Span;

use super::tuning::{Tuning, grow};
use super::{Association, Context, State};
use crate::PathId;
use crate::event::Event;

/// Size of the receive buffer in round-trip times of delivered data.
const ROUNDS_RECEIVED: u64 = 4;
/// Size of the send buffer in congestion windows: one in flight, one blocked by a loss, one waiting.
const WINDOWS_SENT: u64 = 3;
/// Received bytes before the first measurement of the round-trip time.
const FIRST_MEASUREMENT: u64 = 32 * 1024;
/// Minimum interval between heartbeats that measure the round-trip time.
const BETWEEN_MEASUREMENTS: Span = Span::from_secs(1);
/// Overhead in bytes of a message or chunk in the grown part of the send buffer.
const SEND_OVERHEAD: usize = 128;

impl Association {
    /// Returns the bytes granted by the endpoint's pool.
    pub(crate) fn buffer_grant(&self) -> u64 {
        self.tuning.as_ref().map_or(0, |tuning| {
            u64::from(tuning.recv_buffer.saturating_sub(self.config.recv_buffer))
                + u64::from(tuning.send_buffer.saturating_sub(self.config.send_buffer))
        })
    }

    /// Returns the size of the send buffer: bytes of messages waiting or not acknowledged.
    pub(super) fn send_limit(&self) -> usize {
        self.tuning
            .as_ref()
            .map_or(self.config.send_buffer, |tuning| tuning.send_buffer) as usize
    }

    /// Returns the size of the receive buffer if it has grown.
    pub(super) fn tuned_recv_buffer(&self) -> Option<u32> {
        let size = self.tuning.as_ref()?.recv_buffer;
        (size > self.config.recv_buffer).then_some(size)
    }

    /// Returns the length in bytes of the longest message that can be sent.
    pub fn longest_message(&self) -> usize {
        self.config.max_message.unwrap_or(self.config.send_buffer) as usize
    }

    /// Returns whether the send buffer has room for a message of `len` bytes. In the grown part of the buffer, messages
    /// and chunks are also charged for their overhead.
    pub(super) fn has_send_room(&self, len: usize) -> bool {
        let held = self.buffered_send();
        if held + len <= self.config.send_buffer as usize {
            return true;
        }
        // A long message would wait without end while others fill the buffer with short ones, or if it is longer than the buffer. Its bytes are
        // not copied.
        let is_long = len > self.config.send_buffer as usize / 4;
        if self.config.max_message.is_some() && is_long && held <= self.send_limit() {
            return true;
        }
        self.tuning.as_ref().is_some_and(|tuning| {
            let overhead = (self.sender.queue.len() + self.sender.outstanding.len()) * SEND_OVERHEAD;
            held + overhead + len <= tuning.send_buffer as usize
        })
    }

    /// Tells a user that waits for it that the send buffer has room, or that all data is acknowledged.
    pub(super) fn notify_user_of_progress(&mut self) {
        let limit = self.send_limit();
        // Several paths need the whole buffer: data that one path delays keeps the buffer filled with data that others have delivered.
        let enough = if self.is_spread() {
            limit
                .saturating_sub(4 * usize::from(self.sender.max_data))
                .max(limit / 4 * 3)
        } else {
            limit / 4 * 3
        };
        if self.user.notices.wants_space && self.buffered_send() <= enough {
            self.user.notices.wants_space = false;
            self.user.events.push_back(Event::SendSpace);
        }
        if self.user.notices.wants_idle && self.sender.queue.is_empty() && self.sender.outstanding.is_empty() {
            self.user.notices.wants_idle = false;
            self.user.events.push_back(Event::SendIdle);
        }
    }

    /// Adjusts the receive buffer, after data has arrived, to the bytes that the application reads in a round-trip
    /// time.
    pub(super) fn tune_receive(&mut self, ctx: &mut Context<'_>, from: PathId) {
        let Some(tuning) = &mut self.tuning else { return };
        if self.config.recv_buffer_max.is_none_or(|max| max <= tuning.recv_buffer) {
            return;
        }
        let paths = self.paths.iter().filter(|path| path.is_open());
        let round = paths.filter_map(|path| path.rtt.srtt()).max().max(tuning.latest);
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
            && self.sender.outstanding.is_empty()
            && match tuning.requested {
                None => delivered >= FIRST_MEASUREMENT,
                Some((at, before)) => {
                    ctx.now.since(at) >= BETWEEN_MEASUREMENTS
                        && delivered - before >= u64::from(self.config.recv_buffer / 4)
                }
            };
        if asks {
            tuning.requested = Some((ctx.now, delivered));
            self.request_heartbeat(ctx, from);
        }
    }

    /// Adjusts the send buffer, after an acknowledgement, to the windows of the paths in use, if the application has
    /// more to send.
    pub(super) fn tune_send(&mut self, ctx: &mut Context<'_>) {
        let Some(tuning) = &self.tuning else { return };
        if !self.user.notices.wants_space {
            return;
        }
        let busy = |index: &PathId| *index == self.choice.sending || self.sender.outstanding.flight(*index) > 0;
        let round = |index: PathId| self.paths[index].rtt.srtt();
        let slowest = self.paths.ids().filter(busy).filter_map(round).max();
        let Some(slowest) = slowest else { return };
        // The buffer must hold what all paths send in the round-trip time of the slowest one.
        let windows: f64 = self
            .paths
            .ids()
            .filter(busy)
            .map(|index| {
                let own = round(index).unwrap_or(slowest).as_nanos().max(1) as f64;
                self.paths[index].control.cwnd() as f64 * (slowest.as_nanos() as f64 / own)
            })
            .sum();
        let wanted = WINDOWS_SENT.saturating_mul(windows as u64);
        let grown = grow(ctx.pool, tuning.send_buffer, wanted, self.config.send_buffer_max);
        if let (Some(size), Some(tuning)) = (grown, &mut self.tuning) {
            tuning.send_buffer = size;
        }
    }

    /// Restores the configured sizes of both buffers after an idle period. The receive buffer does not become smaller than the INIT or
    /// INIT ACK has announced.
    // [9260:3.3.2-10, 3.3.3-10]
    pub(super) fn reset_buffers(&mut self, ctx: &mut Context<'_>) {
        ctx.pool.give_back(self.buffer_grant());
        self.tuning = Tuning::new(&self.config);
        if let Some(receiver) = self.receiving.receiver.as_mut().filter(|_| self.tuning.is_some()) {
            receiver.resize(self.config.recv_buffer);
        }
        if let Some(tuning) = &mut self.tuning {
            (tuning.since, tuning.delivered) = (ctx.now, self.user.stats.bytes_delivered);
        }
    }
}
