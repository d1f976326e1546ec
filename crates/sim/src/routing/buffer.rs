//! Packets that wait for a route, and rate limits.

use std::collections::VecDeque;

use whimbrel_control::{Span, Time};

use super::{Address, Cause, Context, Handle};

/// Packets that wait for routes, oldest first. All memory is allocated at construction.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    waiting: VecDeque<Waiting>,
    capacity: usize,
    timeout: Span,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    packet: Handle,
    destination: Address,
    until: Time,
}

impl Buffer {
    pub(super) fn new(capacity: u32, timeout: Span) -> Self {
        Buffer {
            waiting: VecDeque::new(),
            capacity: capacity as usize,
            timeout,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a packet. If the buffer is full, drops the oldest packet, as in ns-2.
    pub(super) fn push(&mut self, cx: &mut Context<'_>, packet: Handle) {
        if self.waiting.len() >= self.capacity {
            match self.waiting.pop_front() {
                Some(oldest) => cx.drop(oldest.packet, Cause::BufferFull),
                None => return cx.drop(packet, Cause::BufferFull),
            }
        }
        self.waiting.push_back(Waiting {
            packet,
            destination: cx.datagrams[packet as usize].destination,
            until: cx.now + self.timeout,
        });
    }

    /// Returns whether a packet waits for a route to this destination.
    pub(super) fn waits_for(&self, destination: Address) -> bool {
        self.waiting.iter().any(|waiting| waiting.destination == destination)
    }

    /// Returns the number of packets that wait for a route to this destination.
    pub(super) fn count(&self, destination: Address) -> usize {
        self.waiting
            .iter()
            .filter(|waiting| waiting.destination == destination)
            .count()
    }

    /// Removes and returns the oldest packet for a destination.
    pub(super) fn pop(&mut self, destination: Address) -> Option<Handle> {
        let place = self
            .waiting
            .iter()
            .position(|waiting| waiting.destination == destination)?;
        self.waiting.remove(place).map(|waiting| waiting.packet)
    }

    /// Removes and returns the oldest packet whose destination has a route.
    pub(super) fn pop_if(&mut self, mut has_route: impl FnMut(Address) -> bool) -> Option<(Handle, Address)> {
        let place = self.waiting.iter().position(|waiting| has_route(waiting.destination))?;
        self.waiting
            .remove(place)
            .map(|waiting| (waiting.packet, waiting.destination))
    }

    /// Drops the packets for a destination.
    pub(super) fn give_up(&mut self, cx: &mut Context<'_>, destination: Address, cause: Cause) {
        self.waiting.retain(|waiting| {
            let stays = waiting.destination != destination;
            if !stays {
                cx.drop(waiting.packet, cause);
            }
            stays
        });
    }

    /// Drops the packets for a destination that other nodes sent.
    pub(super) fn give_up_transit(&mut self, cx: &mut Context<'_>, destination: Address, me: Address, cause: Cause) {
        self.waiting.retain(|waiting| {
            let source = cx.datagrams[waiting.packet as usize].source;
            let stays = waiting.destination != destination || source == me;
            if !stays {
                cx.drop(waiting.packet, cause);
            }
            stays
        });
    }

    /// Drops the packets that have waited too long.
    pub(super) fn expire(&mut self, cx: &mut Context<'_>) {
        while let Some(oldest) = self.waiting.front().filter(|oldest| oldest.until <= cx.now) {
            cx.drop(oldest.packet, Cause::BufferTimeout);
            self.waiting.pop_front();
        }
    }

    /// Returns when the next packet expires.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.waiting.front().map(|oldest| oldest.until)
    }
}

/// A limit of events per second, over any second.
#[derive(Clone, Debug)]
pub(super) struct RateLimit {
    limit: usize,
    last: VecDeque<Time>,
}

impl RateLimit {
    pub(super) fn new(limit: u32) -> Self {
        RateLimit {
            limit: limit as usize,
            last: VecDeque::new(),
        }
    }

    /// Returns when the next event is allowed: now or later.
    pub(super) fn allowed_at(&self, now: Time) -> Time {
        match self.last.front() {
            Some(first) if self.last.len() >= self.limit => now.max(*first + Span::from_secs(1)),
            _ => now,
        }
    }

    /// Counts an event at this time.
    pub(super) fn count(&mut self, now: Time) {
        if self.last.len() >= self.limit {
            self.last.pop_front();
        }
        self.last.push_back(now);
    }
}

/// Returns the earliest of several optional times.
pub(super) fn earliest(times: impl IntoIterator<Item = Option<Time>>) -> Option<Time> {
    times.into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{Action, Datagram};
    use whimbrel_control::Rng;

    #[test]
    fn drops_the_oldest_packet_when_full_or_expired() {
        let (mut rng, mut actions) = (Rng::stream(1, "buffer"), Vec::new());
        let mut datagrams = [Datagram::new(0, 7, 0), Datagram::new(0, 8, 1), Datagram::new(0, 7, 2)];
        let mut cx = Context {
            now: Time::ZERO,
            rng: &mut rng,
            datagrams: &mut datagrams,
            actions: &mut actions,
        };
        let mut buffer = Buffer::new(2, Span::from_secs(30));
        for packet in 0..3 {
            buffer.push(&mut cx, packet);
        }
        assert_eq!(buffer.pop(7), Some(2));
        cx.now = Time::from_nanos(29_999_999_999);
        buffer.expire(&mut cx);
        assert!(buffer.waits_for(8) && !buffer.waits_for(7));
        cx.now = Time::from_nanos(30_000_000_000);
        buffer.expire(&mut cx);
        assert_eq!(buffer.next_timeout(), None);
        let drop = |packet, cause| Action::Drop { packet, cause };
        assert_eq!(actions, [drop(0, Cause::BufferFull), drop(1, Cause::BufferTimeout)]);
    }

    #[test]
    fn no_second_exceeds_the_limit() {
        let mut limit = RateLimit::new(3);
        let mut now = Time::ZERO;
        let mut done = Vec::new();
        for step in 0..50_u64 {
            now = limit.allowed_at(now + Span::from_millis(step % 7 * 40));
            limit.count(now);
            done.push(now);
        }
        assert!(done.windows(4).all(|four| four[3].since(four[0]) >= Span::from_secs(1)));
        assert!(done.windows(4).any(|four| four[3].since(four[0]) == Span::from_secs(1)));
    }
}
