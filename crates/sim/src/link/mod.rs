//! Links: queue, transmitter and loss models of each direction.
//!
//! A direction is first in, first out, so the times at which a packet leaves and arrives are known when it enters. They are
//! computed then, and the packet waits in a ring until it arrives: one event per hop. Only the head of the ring has an event.
//! Packets that may overtake others because of jitter have their own events.
//!
//! Where all packets that enter one direction come from another one, a packet enters the second direction as soon as its arrival
//! there is known, ahead of time and without an event (see [`crate::topology::Topology::direct`]). Time inside a direction only
//! increases, but it may be ahead of the run's time.

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
    /// When its transmission starts: until then it is queued.
    pub(crate) start: Time,
    /// When its last bit is sent.
    pub(crate) departure: Time,
    /// When it arrives.
    pub(crate) arrival: Time,
    /// Its position among events of the same time.
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
    /// Returns the part of the interval from `start` to `end` inside the window.
    #[inline]
    pub(crate) fn overlap(self, start: Time, end: Time) -> u64 {
        end.min(self.to).since(start.max(self.from)).as_nanos()
    }

    /// Returns whether an instant is inside the window.
    #[inline]
    pub(crate) fn contains(self, at: Time) -> bool {
        self.from <= at && at < self.to
    }
}

/// Counters of a direction in the measurement window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkStats {
    /// Packets that entered the queue.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Time the transmitter was busy, ns.
    pub(crate) busy: u64,
    /// Sum over packets of the queueing time, ns.
    pub(crate) waited: u64,
    /// Sum over packets of bytes times queueing time, byte ns.
    pub(crate) waited_bytes: f64,
    /// Bytes sent by a transmitter with a recorded rate.
    pub(crate) carried: u64,
    /// Largest number of queued packets.
    pub(crate) max_waiting: u32,
    /// Largest number of queued bytes.
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

    /// Records a packet that is only partly inside the window.
    #[cold]
    fn record_part(&mut self, transit: &Transit, window: Window) {
        if window.contains(transit.entered) {
            self.packets += 1;
            self.bytes += u64::from(transit.size);
        }
        self.busy += window.overlap(transit.start, transit.departure);
        self.add_wait(window.overlap(transit.entered, transit.start), transit.size);
    }

    /// Corrects the record of a packet whose times have changed.
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

    /// Removes the part of a packet's record after `end`.
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

/// Features that most directions do not use.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    pub(crate) losses: Vec<LossModel>,
    pub(crate) jitter: Option<Jitter>,
    pub(crate) duplicate: Option<(f64, whimbrel_control::Rng)>,
    pub(crate) trace: Option<TraceClock>,
    /// The rule of an active queue.
    pub(crate) queue: Option<Active>,
    /// The queue, if it decides at departures.
    pub(crate) scheduler: Option<Box<Scheduler>>,
    /// Packets that it marked in the measurement window.
    pub(crate) marked: u64,
}

impl Extras {
    /// Applies the loss models to a packet, and stores the result in its record.
    fn judge(&mut self, transit: &Transit, packet: &mut Packet) {
        for model in &mut self.losses {
            // Each model is applied to every packet, so that models do not affect each other's sequences.
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
    /// Ring index of the first packet whose transmission has not started, as far as known.
    first_waiting: usize,
    waiting_bytes: u64,
    /// When the transmitter has sent all accepted packets.
    busy_until: Time,
    /// Latest arrival of any packet.
    last_arrival: Time,
    rate: Rate,
    /// Transmission time of the last size: sizes repeat, and a division is expensive.
    last_time: (u32, Span),
    delay: Span,
    queue: DropTail,
    mtu: u32,
    up: bool,
    /// Whether packets need more than a rate and a delay.
    special: bool,
    /// Whether its rate, delay or losses have changed during the run.
    changes: bool,
    /// Whether packets in the ring have no event or their own events, because they may overtake others, or because they enter the
    /// next direction ahead of time.
    loose: bool,
    /// Whether packets enter the next direction ahead of time. Such a direction cannot go down.
    ahead: bool,
    extras: Option<Box<Extras>>,
    pub(crate) stats: LinkStats,
}

/// The result for an accepted packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Admission {
    /// No event is needed: others arrive first.
    Behind,
    /// The packet is the next to arrive on this direction, which needs an event for it.
    First(Time),
    /// The packet waits in a queue that decides at departures.
    Queued {
        /// When the transmitter is free, if no departure is scheduled yet.
        departs_at: Option<Time>,
        /// A packet dropped for lack of room: this one, or another.
        refused: Option<PacketId>,
    },
    /// The packet arrives at this time independent of others: it needs its own event, unless it enters the next direction at once.
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

    /// Marks that packets enter the next direction ahead of time.
    pub(crate) fn set_ahead(&mut self) {
        self.loose = true;
        self.ahead = true;
    }

    /// Returns whether the direction has only a rate, a delay and a queue.
    pub(crate) fn is_plain(&self) -> bool {
        self.extras.is_none()
    }

    /// Returns whether a loss model depends on the packet's content.
    pub(crate) fn needs_kinds(&self) -> bool {
        self.extras
            .as_ref()
            .is_some_and(|extras| crate::loss::any_needs_kinds(&extras.losses))
    }

    /// Returns the queue length at a time that is not ahead of the run's.
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

    /// Returns the queue length when the next packet enters.
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

    /// Accepts or refuses a packet. It enters at `now`, which may be ahead of the run's time `clock`. `seq` is its position among
    /// events of the same time. The result of the loss models is stored in its record.
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

    /// Sends a packet that does not wait, on a direction that cannot go down. Returns when it arrives.
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

    /// Returns whether there is room for a packet that has to wait.
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

    /// Returns the current propagation delay.
    pub(crate) fn delay(&self) -> Span {
        self.delay
    }

    /// Returns the longest IP packet that it carries, in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.mtu
    }

    #[inline]
    fn transmission_time(&mut self, size: u32) -> Span {
        if self.last_time.0 != size {
            self.last_time = (size, self.rate.time_for(u64::from(size)));
        }
        self.last_time.1
    }

    /// Handles the uncommon cases: a link that is down, features beyond rate and delay, or a packet above the MTU.
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
            // Without room, the cause is the full queue, whatever the rule decides.
            Some(Advice::Drop(_)) if waits && !self.has_room(now, size) => return Err(DropCause::QueueFull),
            Some(Advice::Drop(cause)) => return Err(cause),
            _ if waits && !self.admit(now, size, window) => return Err(DropCause::QueueFull),
            Some(Advice::Pass(ecn, congestion)) => self.mark(now, packet, ecn, congestion, window),
            None => {}
        }
        Ok(self.start(now, now, seq, id, packet, window))
    }

    /// Starts the transmission of a packet as soon as the transmitter is free, and applies the loss models.
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

    /// Adds a packet to a queue that decides at departures.
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
            u64::from(packet.flow) << 1 | u64::from(packet.is_forward()),
            Waiting {
                packet: id,
                size: packet.size,
                entered: now,
                seq,
                ecn: packet.ecn,
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

    /// Selects the next packet when the transmitter is free. [`Direction::dropped`] returns the packets that the queue drops in the
    /// process. Without a packet, the next one to enter has to schedule its departure.
    pub(crate) fn depart(&mut self, now: Time) -> Option<(Waiting, bool)> {
        if self.busy_until > now {
            // The link has failed or changed since this departure was scheduled: there is another one.
            return None;
        }
        let scheduler = self.scheduler()?;
        let leaving = scheduler.dequeue(now);
        scheduler.armed = leaving.is_some();
        leaving.map(|leaving| (leaving.waiting, leaving.mark))
    }

    /// Returns the packets that the last departure dropped, and why.
    pub(crate) fn dropped(&self) -> (&[Waiting], DropCause) {
        let scheduler = self.extras.as_ref().and_then(|extras| extras.scheduler.as_deref());
        scheduler.map_or((&[], DropCause::QueueFull), |scheduler| {
            (scheduler.dropped(), scheduler.drop_cause())
        })
    }

    /// Sends a packet that its queue has selected. Returns what is needed for its arrival, and when the transmitter is free again.
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

    /// Removes all packets from a queue that decides at departures, because the link has failed.
    pub(crate) fn flush(&mut self) -> Vec<Waiting> {
        self.scheduler().map_or_else(Vec::new, Scheduler::flush)
    }

    /// Applies the rule of an active queue to an arriving packet.
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

    /// Returns the average queue length of an active queue.
    pub(crate) fn average_queue(&self) -> Option<f64> {
        Some(self.extras.as_ref()?.queue.as_ref()?.average())
    }

    /// Returns the number of packets marked in the measurement window.
    pub(crate) fn marked(&self) -> u64 {
        self.extras.as_ref().map_or(0, |extras| extras.marked)
    }

    /// Removes the packet that arrives now. Returns `None` if the link failed after the event was scheduled.
    #[inline]
    pub(crate) fn arrive(&mut self, seq: u64) -> Option<Transit> {
        if self.ring.front()?.seq != seq {
            return None;
        }
        let transit = self.ring.pop_front()?;
        self.forget(&transit);
        Some(transit)
    }

    /// Updates the counters after the removal of the packet at the head of the ring.
    #[inline]
    fn forget(&mut self, transit: &Transit) {
        if self.first_waiting > 0 {
            self.first_waiting -= 1;
        } else {
            self.waiting_bytes -= u64::from(transit.size);
        }
    }

    /// Returns the next packet to arrive.
    #[inline]
    pub(crate) fn head(&self) -> Option<&Transit> {
        self.ring.front()
    }

    /// Removes packets with their own events that have left: the ring then only counts queued packets.
    fn trim(&mut self, now: Time) {
        while let Some(transit) = self.ring.front().copied().filter(|t| t.departure <= now) {
            self.ring.pop_front();
            self.forget(&transit);
        }
    }

    /// Sets the link up or down. When it goes down, returns the packets that have not left, which are lost.
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

    /// Handles the end of the run: removes records of times after it.
    pub(crate) fn settle(&mut self, end: Time, window: Window) {
        for transit in self.ring.iter().filter(|transit| transit.departure > end) {
            self.stats.cut(transit, end, window);
        }
    }

    /// Returns whether packets here have their own events.
    pub(crate) fn is_loose(&self) -> bool {
        self.loose
    }
}

#[cfg(test)]
mod tests;
