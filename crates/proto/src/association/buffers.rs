//! Automatic tuning of the buffers: they grow with what is delivered in a round-trip time, within the endpoint's memory for buffers.
//!
//! The receive buffer follows the bytes that the application takes (dynamic right-sizing, Fisk and Feng 2001): data of one round-trip
//! time is in flight, a loss holds back another one, and in slow start the sender doubles both before the next measurement is over.
//! An association that only receives data measures its round-trip time with heartbeats. The send buffer follows the congestion windows.
//! Buffers only grow while data flows; an association that is idle gives back what it was granted, but a window that was advertised
//! stays promised ([`Receiver::resize`](crate::receive::Receiver::resize)).

use whimbrel_control::{Span, Time};

use super::{Association, Context, State};
use crate::PathId;
use crate::config::AssociationConfig;

/// Round trips of delivered data that the receive buffer has room for.
const ROUNDS_RECEIVED: u64 = 4;
/// Congestion windows that the send buffer has room for: one in flight, one held up behind a loss, one waiting.
const WINDOWS_SENT: u64 = 3;
/// Received bytes after which the round-trip time is measured for the first time.
const FIRST_MEASUREMENT: u64 = 32 * 1024;
/// The shortest time between two heartbeats that measure the round-trip time.
const BETWEEN_MEASUREMENTS: Span = Span::from_secs(1);
/// What a message or chunk in the grown part of the send buffer costs besides its payload.
const SEND_OVERHEAD: usize = 128;

/// Memory by which the buffers of all associations of an endpoint may grow.
#[derive(Debug)]
pub(crate) struct BufferPool {
    limit: u64,
    granted: u64,
}

impl BufferPool {
    pub(crate) fn new(limit: u64) -> Self {
        BufferPool { limit, granted: 0 }
    }

    /// Bytes granted and not given back.
    pub(crate) fn granted(&self) -> u64 {
        self.granted
    }

    /// Grants up to `wanted` bytes. No request gets more than half of what is left, so that others find some.
    fn take(&mut self, wanted: u64) -> u64 {
        let granted = wanted.min(self.limit.saturating_sub(self.granted) / 2);
        self.granted += granted;
        granted
    }

    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.granted = self.granted.saturating_sub(bytes);
    }
}

/// The sizes of the buffers, and the measurement of what is delivered.
#[derive(Debug)]
pub(super) struct Tuning {
    recv_buffer: u32,
    send_buffer: u32,
    /// When the current measurement began, and the bytes delivered before.
    since: Time,
    delivered: u64,
    /// The latest round-trip time measured on any path.
    latest: Option<Span>,
    /// When a heartbeat was last asked for, and the bytes delivered before.
    asked: Option<(Time, u64)>,
}

impl Tuning {
    pub(super) fn new(config: &AssociationConfig) -> Option<Box<Self>> {
        let grows = config.recv_buffer_max.is_some_and(|max| max > config.recv_buffer)
            || config.send_buffer_max.is_some_and(|max| max > config.send_buffer);
        grows.then(|| {
            Box::new(Tuning {
                recv_buffer: config.recv_buffer,
                send_buffer: config.send_buffer,
                since: Time::ZERO,
                delivered: 0,
                latest: None,
                asked: None,
            })
        })
    }

    pub(super) fn on_rtt(&mut self, sample: Span) {
        self.latest = Some(sample);
    }
}

/// The new size of a buffer that should have `wanted` bytes.
fn grow(pool: &mut BufferPool, now: u32, wanted: u64, max: Option<u32>) -> Option<u32> {
    let wanted = wanted.min(max.unwrap_or(0).into());
    let more = wanted.saturating_sub(now.into());
    // Small steps are not worth the trouble.
    if more < u64::from(now / 8) {
        return None;
    }
    let granted = pool.take(more) as u32;
    (granted > 0).then_some(now + granted)
}

impl Association {
    /// Bytes granted by the endpoint's pool.
    pub(crate) fn buffer_grant(&self) -> u64 {
        self.tuning.as_ref().map_or(0, |tuning| {
            u64::from(tuning.recv_buffer.saturating_sub(self.config.recv_buffer))
                + u64::from(tuning.send_buffer.saturating_sub(self.config.send_buffer))
        })
    }

    /// Bytes of messages that may be held for sending or until acknowledged.
    pub(super) fn send_limit(&self) -> usize {
        self.tuning
            .as_ref()
            .map_or(self.config.send_buffer, |tuning| tuning.send_buffer) as usize
    }

    /// The size that the receive buffer has grown to, if it has.
    pub(super) fn tuned_recv_buffer(&self) -> Option<u32> {
        let size = self.tuning.as_ref()?.recv_buffer;
        (size > self.config.recv_buffer).then_some(size)
    }

    /// Whether a message of `len` bytes finds room for sending. In the grown part of the buffer, messages and chunks are charged with
    /// what they cost besides their payload.
    pub(super) fn has_send_room(&self, len: usize) -> bool {
        let held = self.buffered_send();
        if held + len <= self.config.send_buffer as usize {
            return true;
        }
        self.tuning.as_ref().is_some_and(|tuning| {
            let overhead = (self.queue.len() + self.outstanding.len()) * SEND_OVERHEAD;
            held + overhead + len <= tuning.send_buffer as usize
        })
    }

    /// Data has arrived: lets the receive buffer follow what the application takes in a round-trip time.
    pub(super) fn tune_receive(&mut self, ctx: &mut Context<'_>, from: usize) {
        let Some(tuning) = &mut self.tuning else { return };
        if self.config.recv_buffer_max.is_none_or(|max| max <= tuning.recv_buffer) {
            return;
        }
        let paths = self.paths.iter().filter(|path| path.is_open());
        let round = paths.filter_map(|path| path.rtt.srtt()).max().max(tuning.latest);
        let delivered = self.stats.bytes_delivered;
        if let Some(round) = round {
            let elapsed = ctx.now.since(tuning.since);
            if elapsed >= round {
                let moved = delivered - tuning.delivered;
                let share = round.as_nanos() as f64 / elapsed.as_nanos().max(1) as f64;
                (tuning.since, tuning.delivered) = (ctx.now, delivered);
                let wanted = ROUNDS_RECEIVED * (moved as f64 * share) as u64;
                let grown = grow(ctx.pool, tuning.recv_buffer, wanted, self.config.recv_buffer_max);
                if let (Some(size), Some(receiver)) = (grown, &mut self.receiver) {
                    tuning.recv_buffer = size;
                    receiver.resize(size);
                }
            }
        }
        // What we send measures the time as well.
        let asks = self.state == State::Established
            && self.outstanding.is_empty()
            && match tuning.asked {
                None => delivered >= FIRST_MEASUREMENT,
                Some((at, before)) => {
                    ctx.now.since(at) >= BETWEEN_MEASUREMENTS
                        && delivered - before >= u64::from(self.config.recv_buffer / 4)
                }
            };
        if asks {
            tuning.asked = Some((ctx.now, delivered));
            self.request_heartbeat(ctx, PathId(from as u8));
        }
    }

    /// Data was acknowledged: lets the send buffer follow the windows of the paths in use, if the application would send more.
    pub(super) fn tune_send(&mut self, ctx: &mut Context<'_>) {
        let Some(tuning) = &self.tuning else { return };
        if !self.notices.wants_space {
            return;
        }
        let busy =
            |index: &usize| *index == usize::from(self.sending) || self.outstanding.flight(PathId(*index as u8)) > 0;
        let round = |index: usize| self.paths[index].rtt.srtt();
        let slowest = (0..self.paths.len()).filter(busy).filter_map(round).max();
        let Some(slowest) = slowest else { return };
        // What the others deliver while the slowest path carries a packet is held until that has arrived.
        let windows: f64 = (0..self.paths.len())
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

    /// No data has moved for a while: both buffers have their configured sizes again.
    pub(super) fn reset_buffers(&mut self, ctx: &mut Context<'_>) {
        ctx.pool.give_back(self.buffer_grant());
        self.tuning = Tuning::new(&self.config);
        if let Some(receiver) = self.receiver.as_mut().filter(|_| self.tuning.is_some()) {
            receiver.resize(self.config.recv_buffer);
        }
        if let Some(tuning) = &mut self.tuning {
            (tuning.since, tuning.delivered) = (ctx.now, self.stats.bytes_delivered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_grants_no_more_than_its_limit_and_leaves_some_to_others() {
        let mut pool = BufferPool::new(1000);
        assert_eq!(pool.take(300), 300);
        assert_eq!(pool.take(700), 350, "half of what is left");
        (0..100).for_each(|_| {
            pool.take(1000);
        });
        assert!(pool.granted() <= 1000);
        pool.give_back(650);
        assert!(pool.take(100) == 100 && pool.granted() <= 1000);
    }

    #[test]
    fn a_buffer_grows_to_its_maximum_in_steps_of_an_eighth() {
        let mut pool = BufferPool::new(1 << 40);
        assert_eq!(grow(&mut pool, 800, 899, Some(10_000)), None);
        assert_eq!(grow(&mut pool, 800, 900, Some(10_000)), Some(900));
        assert_eq!(grow(&mut pool, 800, 20_000, Some(10_000)), Some(10_000));
        assert_eq!(grow(&mut pool, 800, 20_000, None), None);
        assert_eq!(pool.granted(), 100 + 9200);
    }
}
