//! Links: queue, transmitter and channel of each direction.
//!
//! The order in a direction is first in, first out, so that the time at which a packet will leave and arrive is known when it
//! comes in. It is worked out then, and the packet waits in a ring until it arrives: one event for each hop. Only the head of the
//! ring is among the events. Packets that jitter lets overtake others have events of their own.

mod jitter;
mod trace;

use std::collections::VecDeque;

use whimbrel_control::{Rate, Span, Time};

pub(crate) use self::jitter::Jitter;
pub(crate) use self::trace::TraceClock;
pub use self::trace::{CapacityTrace, OPPORTUNITY_BYTES, TraceError};
use crate::ledger::{DropCause, DropCounts};
use crate::loss::LossModel;
use crate::packet::{ChunkKinds, PacketId};
use crate::queue::{DropTail, Occupancy};

/// A packet between its entry into the queue and its arrival at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transit {
    /// When it begins to leave: until then it waits.
    pub(crate) start: Time,
    /// When its last bit has left.
    pub(crate) departure: Time,
    /// When it arrives.
    pub(crate) arrival: Time,
    /// Its place among events of the same time.
    pub(crate) seq: u64,
    pub(crate) packet: PacketId,
    pub(crate) size: u32,
}

/// The measurement window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) from: Time,
    pub(crate) to: Time,
}

impl Window {
    /// The part of the time from `start` to `end` that lies within.
    #[inline]
    fn overlap(self, start: Time, end: Time) -> u64 {
        end.min(self.to).since(start.max(self.from)).as_nanos()
    }

    /// Whether an instant lies within.
    #[inline]
    pub(crate) fn contains(self, at: Time) -> bool {
        self.from <= at && at < self.to
    }
}

/// What a direction has carried within the measurement window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkStats {
    /// Packets that entered the queue.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Time the transmitter was busy, ns.
    pub(crate) busy: u64,
    /// Sum over packets of the time spent waiting, ns.
    pub(crate) waited: u128,
    /// Sum over packets of bytes times time spent waiting, byte ns.
    pub(crate) waited_bytes: u128,
    /// Most packets that waited.
    pub(crate) max_waiting: u32,
    /// Most bytes that waited.
    pub(crate) max_waiting_bytes: u64,
    pub(crate) drops: DropCounts,
}

/// What most directions do without.
#[derive(Debug)]
pub(crate) struct Extras {
    pub(crate) losses: Vec<LossModel>,
    pub(crate) jitter: Option<Jitter>,
    pub(crate) duplicate: Option<(f64, whimbrel_control::Rng)>,
    pub(crate) trace: Option<TraceClock>,
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Direction {
    ring: VecDeque<Transit>,
    /// Place in the ring of the first packet that has not begun to leave, as far as that is known.
    first_waiting: usize,
    waiting_bytes: u64,
    /// When the transmitter has sent everything it has taken on.
    busy_until: Time,
    /// Latest arrival of any packet.
    last_arrival: Time,
    rate: Rate,
    /// Transmission time of the size asked for last: sizes repeat, and a division is dear.
    last_time: (u32, Span),
    delay: Span,
    queue: DropTail,
    mtu: u32,
    up: bool,
    /// Whether packets in the ring have events of their own, because they may overtake others.
    strays: bool,
    extras: Option<Box<Extras>>,
    pub(crate) stats: LinkStats,
}

/// What became of a packet that was to enter a direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Entry {
    /// It is on its way, and arrives then.
    Taken {
        arrival: Time,
        /// Whether the direction had nothing in its ring, so that an event must be made.
        first: bool,
        /// Whether it needs an event of its own because it may overtake others.
        stray: bool,
        /// Why it will not be received, if the channel spoils it.
        fate: Option<DropCause>,
        /// Whether a copy of it arrives too.
        duplicate: bool,
    },
    Refused(DropCause),
}

impl Direction {
    pub(crate) fn new(rate: Rate, delay: Span, mtu: u32, queue: DropTail, extras: Option<Box<Extras>>) -> Self {
        let strays = extras
            .as_ref()
            .is_some_and(|e| e.jitter.as_ref().is_some_and(Jitter::reorders));
        Direction {
            ring: VecDeque::new(),
            first_waiting: 0,
            waiting_bytes: 0,
            busy_until: Time::ZERO,
            last_arrival: Time::ZERO,
            rate,
            last_time: (0, Span::ZERO),
            delay,
            queue,
            mtu,
            up: true,
            strays,
            extras,
            stats: LinkStats::default(),
        }
    }

    /// Whether a loss model here asks what packets carry.
    pub(crate) fn needs_kinds(&self) -> bool {
        self.extras
            .as_ref()
            .is_some_and(|extras| crate::loss::any_needs_kinds(&extras.losses))
    }

    /// What waits for the transmitter now.
    #[inline]
    pub(crate) fn waiting(&mut self, now: Time) -> Occupancy {
        while let Some(transit) = self.ring.get(self.first_waiting) {
            if transit.start > now {
                break;
            }
            self.waiting_bytes -= u64::from(transit.size);
            self.first_waiting += 1;
        }
        Occupancy {
            packets: (self.ring.len() - self.first_waiting) as u32,
            bytes: self.waiting_bytes,
        }
    }

    /// Takes a packet into the queue, or refuses it. `seq` is its place among events of the same time.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        now: Time,
        seq: u64,
        packet: PacketId,
        size: u32,
        kinds: ChunkKinds,
        window: Window,
    ) -> Entry {
        if !self.up {
            return Entry::Refused(DropCause::LinkDown);
        }
        if size > self.mtu {
            return Entry::Refused(DropCause::TooBig);
        }
        if self.strays {
            self.trim(now);
        }
        let waiting = self.waiting(now);
        let must_wait = self.busy_until > now;
        if (must_wait || self.extras.as_ref().is_some_and(|e| e.trace.is_some())) && !self.queue.admits(waiting, size) {
            return Entry::Refused(DropCause::QueueFull);
        }
        let mut transit = Transit {
            start: now,
            departure: now,
            arrival: now,
            seq,
            packet,
            size,
        };
        let (fate, duplicate) = match &mut self.extras {
            None => {
                transit.start = if must_wait { self.busy_until } else { now };
                transit.departure = transit.start + self.transmission_time(size);
                transit.arrival = transit.departure + self.delay;
                (None, false)
            }
            Some(_) => self.enter_with_extras(now, &mut transit, kinds),
        };
        self.busy_until = transit.departure;
        self.last_arrival = transit.arrival;
        let first = self.ring.is_empty();
        self.ring.push_back(transit);
        self.waiting_bytes += u64::from(size);
        self.record(now, &transit, waiting, window);
        Entry::Taken {
            arrival: transit.arrival,
            first,
            stray: self.strays,
            fate,
            duplicate,
        }
    }

    #[inline]
    fn transmission_time(&mut self, size: u32) -> Span {
        if self.last_time.0 != size {
            self.last_time = (size, self.rate.time_for(u64::from(size)));
        }
        self.last_time.1
    }

    fn enter_with_extras(&mut self, now: Time, transit: &mut Transit, kinds: ChunkKinds) -> (Option<DropCause>, bool) {
        let time = self.transmission_time(transit.size);
        let Some(extras) = &mut self.extras else {
            return (None, false);
        };
        (transit.start, transit.departure) = match &mut extras.trace {
            Some(clock) => clock.schedule(now, transit.size),
            None => {
                let start = self.busy_until.max(now);
                (start, start + time)
            }
        };
        transit.arrival = transit.departure + self.delay;
        if let Some(jitter) = &mut extras.jitter {
            transit.arrival += jitter.draw();
            if !self.strays {
                transit.arrival = transit.arrival.max(self.last_arrival);
            }
        }
        let mut fate = None;
        for model in &mut extras.losses {
            // Each model is asked about every packet, so that one does not disturb the other's sequence.
            let verdict = model.strikes(transit.start, transit.departure, transit.size, kinds);
            fate = fate.or(verdict.map(DropCause::ChannelLoss));
        }
        let duplicate = extras.duplicate.as_mut().is_some_and(|(p, rng)| rng.chance(*p));
        (fate, duplicate && fate.is_none())
    }

    #[inline]
    fn record(&mut self, now: Time, transit: &Transit, before: Occupancy, window: Window) {
        let stats = &mut self.stats;
        if now < window.to && transit.departure > window.from {
            let wait = window.overlap(now, transit.start);
            stats.busy += window.overlap(transit.start, transit.departure);
            stats.waited += u128::from(wait);
            stats.waited_bytes += u128::from(wait) * u128::from(transit.size);
        }
        if window.contains(now) {
            stats.packets += 1;
            stats.bytes += u64::from(transit.size);
            if transit.start > now {
                stats.max_waiting = stats.max_waiting.max(before.packets + 1);
                stats.max_waiting_bytes = stats.max_waiting_bytes.max(before.bytes + u64::from(transit.size));
            }
        }
    }

    /// Removes the packet that arrives now. `None` if the event was overtaken by a failure of the link.
    #[inline]
    pub(crate) fn arrive(&mut self, seq: u64) -> Option<Transit> {
        if self.ring.front()?.seq != seq {
            return None;
        }
        let transit = self.ring.pop_front()?;
        self.forget(&transit);
        Some(transit)
    }

    /// Takes account of a packet's removal from the head of the ring.
    #[inline]
    fn forget(&mut self, transit: &Transit) {
        if self.first_waiting > 0 {
            self.first_waiting -= 1;
        } else {
            self.waiting_bytes -= u64::from(transit.size);
        }
    }

    /// The packet that arrives next.
    #[inline]
    pub(crate) fn head(&self) -> Option<&Transit> {
        self.ring.front()
    }

    /// Forgets packets with events of their own that have left: the ring then only tells how long the queue is.
    fn trim(&mut self, now: Time) {
        while let Some(transit) = self.ring.front().copied().filter(|t| t.departure <= now) {
            self.ring.pop_front();
            self.forget(&transit);
        }
    }

    /// Takes the link up or down. Going down gives back the packets that have not left, which are lost with it.
    pub(crate) fn set_up(&mut self, now: Time, up: bool, window: Window) -> Vec<Transit> {
        self.up = up;
        let mut lost = Vec::new();
        if up {
            return lost;
        }
        while let Some(transit) = self.ring.back().copied().filter(|t| t.departure > now) {
            self.ring.pop_back();
            if self.first_waiting > self.ring.len() {
                self.first_waiting -= 1;
            } else {
                self.waiting_bytes -= u64::from(transit.size);
            }
            let wait = u128::from(window.overlap(now, transit.start));
            self.stats.busy -= window.overlap(transit.start.max(now), transit.departure);
            self.stats.waited -= wait;
            self.stats.waited_bytes -= wait * u128::from(transit.size);
            lost.push(transit);
        }
        lost.reverse();
        self.busy_until = now;
        self.last_arrival = self.ring.back().map_or(now, |t| t.arrival);
        if let Some(clock) = self.extras.as_mut().and_then(|extras| extras.trace.as_mut()) {
            clock.reset();
        }
        lost
    }

    /// Whether packets here have events of their own.
    #[inline]
    pub(crate) fn has_strays(&self) -> bool {
        self.strays
    }
}

#[cfg(test)]
mod tests;
