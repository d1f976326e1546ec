//! Links: queue, transmitter and channel of each direction.
//!
//! The order in a direction is first in, first out, so that the time at which a packet will leave and arrive is known when it
//! comes in. It is worked out then, and the packet waits in a ring until it arrives: one event for each hop. Only the head of the
//! ring is among the events. Packets that jitter lets overtake others have events of their own.
//!
//! Where everything that enters one direction comes out of another, a packet enters the second as soon as its arrival there is
//! known, ahead of time and without an event (see [`crate::topology::Topology::direct`]). Time within a direction only moves
//! forward, but it may be ahead of the run's.

mod change;
mod jitter;
mod trace;

use std::collections::VecDeque;

use whimbrel_control::{Rate, Span, Time};
use whimbrel_proto::Ecn;

pub(crate) use self::change::LinkChange;
pub(crate) use self::jitter::Jitter;
pub(crate) use self::trace::TraceClock;
pub use self::trace::{CapacityTrace, OPPORTUNITY_BYTES, TraceError};
use crate::ledger::DropCause;
use crate::loss::LossModel;
use crate::packet::{Congestion, Packet, PacketId};
use crate::queue::{Active, Advice, DropTail, Occupancy, Scheduler, Waiting};

/// A packet between its entry into the queue and its arrival at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transit {
    /// When it entered.
    pub(crate) entered: Time,
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
    pub(crate) fn overlap(self, start: Time, end: Time) -> u64 {
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
    pub(crate) waited: u64,
    /// Sum over packets of bytes times time spent waiting, byte ns.
    pub(crate) waited_bytes: f64,
    /// Bytes that left a transmitter which follows a recorded capacity.
    pub(crate) carried: u64,
    /// Most packets that waited.
    pub(crate) max_waiting: u32,
    /// Most bytes that waited.
    pub(crate) max_waiting_bytes: u64,
}

impl LinkStats {
    #[inline]
    fn record(&mut self, transit: &Transit, window: Window) {
        if transit.entered < window.from || transit.departure > window.to {
            return self.record_part(transit, window);
        }
        self.packets += 1;
        self.bytes += u64::from(transit.size);
        self.busy += transit.departure.since(transit.start).as_nanos();
        if transit.start > transit.entered {
            self.add_wait(transit.start.since(transit.entered).as_nanos(), transit.size);
        }
    }

    #[inline]
    fn add_wait(&mut self, wait: u64, size: u32) {
        self.waited += wait;
        self.waited_bytes += wait as f64 * f64::from(size);
    }

    /// A packet whose stay is not wholly within the window.
    #[cold]
    fn record_part(&mut self, transit: &Transit, window: Window) {
        if window.contains(transit.entered) {
            self.packets += 1;
            self.bytes += u64::from(transit.size);
        }
        self.busy += window.overlap(transit.start, transit.departure);
        self.add_wait(window.overlap(transit.entered, transit.start), transit.size);
    }

    /// A packet's times are others than those it was recorded with.
    fn correct(&mut self, before: &Transit, after: &Transit, window: Window) {
        self.busy -= window.overlap(before.start, before.departure);
        self.busy += window.overlap(after.start, after.departure);
        let (waited, waits) = (
            window.overlap(before.entered, before.start),
            window.overlap(after.entered, after.start),
        );
        self.waited = self.waited - waited + waits;
        self.waited_bytes += (waits as f64 - waited as f64) * f64::from(after.size);
    }

    /// Takes back what was recorded of a packet for the time after `end`.
    fn cut(&mut self, transit: &Transit, end: Time, window: Window) {
        if window.contains(transit.entered) && transit.entered > end {
            self.packets -= 1;
            self.bytes -= u64::from(transit.size);
        }
        self.busy -= window.overlap(transit.start.max(end), transit.departure);
        if self.carried > 0 && window.contains(transit.departure) && transit.departure > end {
            self.carried -= u64::from(transit.size);
        }
        let wait = window.overlap(transit.entered.max(end), transit.start);
        self.waited -= wait;
        self.waited_bytes -= wait as f64 * f64::from(transit.size);
    }
}

/// What most directions do without.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    pub(crate) losses: Vec<LossModel>,
    pub(crate) jitter: Option<Jitter>,
    pub(crate) duplicate: Option<(f64, whimbrel_control::Rng)>,
    pub(crate) trace: Option<TraceClock>,
    /// The rule of a queue that has more than a limit.
    pub(crate) queue: Option<Active>,
    /// The queue itself, if it decides as packets leave.
    pub(crate) scheduler: Option<Box<Scheduler>>,
    /// Packets that it marked within the measurement window.
    pub(crate) marked: u64,
}

impl Extras {
    /// Decides what the channel does to a packet, and notes it in its record.
    fn judge(&mut self, transit: &Transit, packet: &mut Packet) {
        for model in &mut self.losses {
            // Each model is asked about every packet, so that one does not disturb the other's sequence.
            let verdict = model.strikes(transit.start, transit.departure, transit.size, packet.kinds);
            if let (Some(kind), 0) = (verdict, packet.fate) {
                packet.fate = DropCause::ChannelLoss(kind).fate();
            }
        }
        if let Some((probability, rng)) = &mut self.duplicate {
            packet.twice = rng.chance(*probability) && packet.fate == 0;
        }
    }
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
    /// Whether packets need more than a rate and a delay.
    special: bool,
    /// Whether its rate, delay or channel has changed since the run began.
    changes: bool,
    /// Whether packets in the ring have events of their own or none: because they may overtake others, or because they enter the
    /// next direction ahead of time.
    loose: bool,
    /// Whether packets enter the next direction ahead of time. Such a direction cannot fail.
    ahead: bool,
    extras: Option<Box<Extras>>,
    pub(crate) stats: LinkStats,
}

/// A packet was taken: what must be done for it to arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Admission {
    /// Nothing: others arrive before it.
    Behind,
    /// It is the next to arrive on this direction, which needs an event for that.
    First(Time),
    /// It waits in a queue that decides as packets leave.
    Queued {
        /// When the transmitter is free, if nobody has asked for that yet.
        departs_at: Option<Time>,
        /// A packet that there is no room for: this one, or another.
        refused: Option<PacketId>,
    },
    /// It arrives then, whatever others do: it needs an event of its own, unless it enters the next direction at once.
    Loose(Time),
}

impl Direction {
    pub(crate) fn new(rate: Rate, delay: Span, mtu: u32, queue: DropTail, extras: Option<Box<Extras>>) -> Self {
        let loose = extras
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
            special: extras.is_some(),
            changes: false,
            loose,
            ahead: false,
            extras,
            stats: LinkStats::default(),
        }
    }

    /// Packets go on from here ahead of time.
    pub(crate) fn set_ahead(&mut self) {
        self.loose = true;
        self.ahead = true;
    }

    /// Whether this is a rate, a delay and a queue and nothing else.
    pub(crate) fn is_plain(&self) -> bool {
        self.extras.is_none()
    }

    /// Whether a loss model here asks what packets carry.
    pub(crate) fn needs_kinds(&self) -> bool {
        self.extras
            .as_ref()
            .is_some_and(|extras| crate::loss::any_needs_kinds(&extras.losses))
    }

    /// What waits for the transmitter at a time that is not ahead of the run's.
    pub(crate) fn waiting_at(&self, at: Time) -> Occupancy {
        if let Some(scheduler) = self.extras.as_ref().and_then(|extras| extras.scheduler.as_deref()) {
            return scheduler.waiting();
        }
        let mut waiting = Occupancy::default();
        for transit in self
            .ring
            .iter()
            .filter(|transit| transit.entered <= at && at < transit.start)
        {
            waiting.packets += 1;
            waiting.bytes += u64::from(transit.size);
        }
        waiting
    }

    /// What waits for the transmitter when the next packet enters.
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

    /// Takes a packet into the queue, or refuses it. It enters `now`, which may be ahead of the run's time, `clock`. `seq` is its
    /// place among events of the same time. What the channel will do to it is noted in its record.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        now: Time,
        clock: Time,
        seq: u64,
        id: PacketId,
        packet: &mut Packet,
        window: Window,
    ) -> Result<Admission, DropCause> {
        let size = packet.size;
        if self.ahead && self.busy_until <= now && size <= self.mtu {
            return Ok(Admission::Loose(self.pass(now, size, window)));
        }
        if self.loose && !self.ring.is_empty() {
            self.trim(clock);
        }
        if self.special || size > self.mtu {
            return self.enter_specially(now, seq, id, packet, window);
        }
        let mut start = now;
        if self.busy_until > now {
            start = self.busy_until;
            if !self.admit(now, size, window) {
                return Err(DropCause::QueueFull);
            }
        }
        let departure = start + self.transmission_time(size);
        let arrival = departure + self.delay;
        Ok(self.take(
            Transit {
                entered: now,
                start,
                departure,
                arrival,
                seq,
                packet: id,
                size,
            },
            window,
        ))
    }

    /// Sends a packet that does not wait, on a direction that cannot fail: nobody asks for it again. Returns when it arrives.
    #[inline]
    fn pass(&mut self, now: Time, size: u32, window: Window) -> Time {
        let departure = now + self.transmission_time(size);
        self.busy_until = departure;
        if now >= window.from && departure <= window.to {
            self.stats.packets += 1;
            self.stats.bytes += u64::from(size);
            self.stats.busy += departure.since(now).as_nanos();
        } else {
            let (entered, start, arrival) = (now, now, departure);
            self.stats.record_part(
                &Transit {
                    entered,
                    start,
                    departure,
                    arrival,
                    seq: 0,
                    packet: 0,
                    size,
                },
                window,
            );
        }
        departure + self.delay
    }

    /// Whether a packet that has to wait finds room.
    #[inline]
    fn admit(&mut self, now: Time, size: u32, window: Window) -> bool {
        let waiting = self.waiting(now);
        let admitted = self.queue.admits(waiting, size);
        if admitted && window.contains(now) {
            self.stats.max_waiting = self.stats.max_waiting.max(waiting.packets + 1);
            self.stats.max_waiting_bytes = self.stats.max_waiting_bytes.max(waiting.bytes + u64::from(size));
        }
        admitted
    }

    #[inline(always)]
    fn take(&mut self, transit: Transit, window: Window) -> Admission {
        self.busy_until = transit.departure;
        self.stats.record(&transit, window);
        let first = self.ring.is_empty();
        self.ring.push_back(transit);
        self.waiting_bytes += u64::from(transit.size);
        if self.loose {
            Admission::Loose(transit.arrival)
        } else if first {
            Admission::First(transit.arrival)
        } else {
            Admission::Behind
        }
    }

    #[inline]
    fn transmission_time(&mut self, size: u32) -> Span {
        if self.last_time.0 != size {
            self.last_time = (size, self.rate.time_for(u64::from(size)));
        }
        self.last_time.1
    }

    /// A link that is down, or has more than a rate and a delay; a packet that is too big.
    #[cold]
    fn enter_specially(
        &mut self,
        now: Time,
        seq: u64,
        id: PacketId,
        packet: &mut Packet,
        window: Window,
    ) -> Result<Admission, DropCause> {
        if !self.up {
            return Err(DropCause::LinkDown);
        }
        let size = packet.size;
        if size > self.mtu {
            return Err(DropCause::TooBig);
        }
        if self.scheduler().is_some() {
            return self.enter_scheduler(now, seq, id, packet, window);
        }
        let advice = self.consult(now, packet);
        let follows_trace = self.extras.as_ref().is_some_and(|extras| extras.trace.is_some());
        let waits = self.busy_until > now || follows_trace;
        match advice {
            // What there is no room for dies of that, whatever the rule says.
            Some(Advice::Drop(_)) if waits && !self.has_room(now, size) => return Err(DropCause::QueueFull),
            Some(Advice::Drop(cause)) => return Err(cause),
            _ if waits && !self.admit(now, size, window) => return Err(DropCause::QueueFull),
            Some(Advice::Pass(ecn, congestion)) => self.mark(now, packet, ecn, congestion, window),
            None => {}
        }
        Ok(self.start(now, now, seq, id, packet, window))
    }

    /// Sends a packet that entered then as soon as the transmitter is free, with everything that the channel does to it.
    fn start(
        &mut self,
        now: Time,
        entered: Time,
        seq: u64,
        id: PacketId,
        packet: &mut Packet,
        window: Window,
    ) -> Admission {
        let size = packet.size;
        let start = self.busy_until.max(now);
        let mut transit = Transit {
            entered,
            start,
            departure: start + self.transmission_time(size),
            arrival: now,
            seq,
            packet: id,
            size,
        };
        transit.arrival = transit.departure + self.delay;
        if let Some(extras) = &mut self.extras {
            if let Some(clock) = &mut extras.trace {
                (transit.start, transit.departure) = clock.schedule(now, size);
                if window.contains(transit.departure) {
                    self.stats.carried += u64::from(size);
                }
            }
            transit.arrival = transit.departure + self.delay;
            if let Some(jitter) = &mut extras.jitter {
                transit.arrival += jitter.draw();
            }
            extras.judge(&transit, packet);
        }
        if !self.loose {
            transit.arrival = transit.arrival.max(self.last_arrival);
            self.last_arrival = transit.arrival;
        }
        self.take(transit, window)
    }

    fn scheduler(&mut self) -> Option<&mut Scheduler> {
        self.extras.as_mut()?.scheduler.as_deref_mut()
    }

    /// A packet comes into a queue that decides as packets leave.
    fn enter_scheduler(
        &mut self,
        now: Time,
        seq: u64,
        id: PacketId,
        packet: &Packet,
        window: Window,
    ) -> Result<Admission, DropCause> {
        let free_at = self.busy_until.max(now);
        let Some(scheduler) = self.scheduler() else {
            return Err(DropCause::QueueFull);
        };
        let refused = scheduler.enqueue(
            u64::from(packet.flow) << 1 | u64::from(packet.agent & 1),
            Waiting {
                packet: id,
                size: packet.size,
                entered: now,
                seq,
                capable: packet.ecn != Ecn::NotEct,
            },
        );
        let waiting = scheduler.waiting();
        let departs = !core::mem::replace(&mut scheduler.armed, true);
        if window.contains(now) {
            self.stats.max_waiting = self.stats.max_waiting.max(waiting.packets);
            self.stats.max_waiting_bytes = self.stats.max_waiting_bytes.max(waiting.bytes);
        }
        Ok(Admission::Queued {
            departs_at: departs.then_some(free_at),
            refused: refused.map(|refused| refused.packet),
        })
    }

    /// The transmitter is free, and the queue decides what comes next. Packets that it drops on the way are told by
    /// [`Direction::dropped`]. Without a packet, the next one to enter has to ask for its departure.
    pub(crate) fn depart(&mut self, now: Time) -> Option<(Waiting, bool)> {
        if self.busy_until > now {
            // The link failed or changed since this departure was asked for: another one has been.
            return None;
        }
        let scheduler = self.scheduler()?;
        let leaving = scheduler.dequeue(now);
        scheduler.armed = leaving.is_some();
        leaving.map(|leaving| (leaving.waiting, leaving.mark))
    }

    /// Packets that the last departure dropped.
    pub(crate) fn dropped(&self) -> &[Waiting] {
        let scheduler = self.extras.as_ref().and_then(|extras| extras.scheduler.as_deref());
        scheduler.map_or(&[], Scheduler::dropped)
    }

    /// Sends a packet that its queue has let go. Returns what must be done for it to arrive, and when the transmitter is free again.
    pub(crate) fn send_departing(
        &mut self,
        now: Time,
        waiting: Waiting,
        mark: bool,
        packet: &mut Packet,
        window: Window,
    ) -> (Admission, Time) {
        if mark {
            self.mark(now, packet, Ecn::Ce, packet.congestion, window);
        }
        let admission = self.start(now, waiting.entered, waiting.seq, waiting.packet, packet, window);
        (admission, self.busy_until)
    }

    /// Takes everything out of a queue that decides as packets leave: the link has failed.
    pub(crate) fn flush(&mut self) -> Vec<Waiting> {
        self.scheduler().map_or_else(Vec::new, Scheduler::flush)
    }

    /// Asks the rule of an active queue about an arriving packet.
    fn consult(&mut self, now: Time, packet: &Packet) -> Option<Advice> {
        self.extras.as_ref()?.queue.as_ref()?;
        let waiting = self.waiting(now);
        let is_idle = waiting.packets == 0 && self.busy_until <= now;
        let idle = is_idle.then(|| now.since(self.busy_until));
        let rule = self.extras.as_mut()?.queue.as_mut()?;
        Some(rule.advise(waiting, idle, self.busy_until.since(now), packet))
    }

    fn has_room(&mut self, now: Time, size: u32) -> bool {
        let waiting = self.waiting(now);
        self.queue.admits(waiting, size)
    }

    fn mark(&mut self, now: Time, packet: &mut Packet, ecn: Ecn, congestion: Congestion, window: Window) {
        if (packet.ecn, packet.congestion) == (ecn, congestion) {
            return;
        }
        (packet.ecn, packet.congestion) = (ecn, congestion);
        if let Some(extras) = self.extras.as_mut().filter(|_| window.contains(now)) {
            extras.marked += 1;
        }
    }

    /// The average that an active queue goes by.
    pub(crate) fn average_queue(&self) -> Option<f64> {
        Some(self.extras.as_ref()?.queue.as_ref()?.average())
    }

    /// Packets marked within the measurement window.
    pub(crate) fn marked(&self) -> u64 {
        self.extras.as_ref().map_or(0, |extras| extras.marked)
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
        self.special = !up || self.changes || self.extras.is_some();
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
            self.stats.cut(&transit, now, window);
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

    /// The run ends: what was recorded ahead of time is taken back.
    pub(crate) fn settle(&mut self, end: Time, window: Window) {
        for transit in self.ring.iter().filter(|transit| transit.departure > end) {
            self.stats.cut(transit, end, window);
        }
    }

    /// Whether packets here have events of their own.
    pub(crate) fn is_loose(&self) -> bool {
        self.loose
    }
}

#[cfg(test)]
mod tests;
