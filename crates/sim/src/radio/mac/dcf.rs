//! The state machine of one station.
//!
//! The caller reports what the receiver detects and the time; the station returns [`Action`]s and has to be woken at
//! [`Dcf::deadline`]. Slots are not counted one by one: the station stores when slots start ([`Dcf::slots_from`]), and computes how
//! many have passed when the medium becomes busy.

use whimbrel_control::{Rng, Span, Time};

use super::{Action, BROADCAST, Failure, Frame, FrameKind, Heard, InterfaceQueue, Outgoing, RadioId};
use crate::packet::PacketId;
use crate::radio::phy::Phy;

/// Limits of a station beyond its physical layer's times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Longer frames are sent after RTS and CTS, bytes.
    pub(crate) rts_threshold: u32,
    pub(crate) short_retry: u8,
    /// Attempts to send an RTS; in the standard the same as for other short frames.
    pub(crate) rts_retry: u8,
    pub(crate) long_retry: u8,
    /// Whether CTS, and data after CTS, are sent only while no signal is sensed.
    pub(crate) answer_if_idle: bool,
}

/// The frame exchange of a station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// None: the station contends for the medium if it has a packet.
    Contend,
    /// RTS sent. The CTS has to start before this time; [`Time::MAX`] once a frame has started.
    AwaitCts(Time),
    /// Data sent; the ACK likewise.
    AwaitAck(Time),
    /// None: the station is between two access points.
    Away,
}

/// The packet being sent.
#[derive(Clone, Copy, Debug)]
struct Current {
    outgoing: Outgoing,
    sequence: u16,
    airtime: Span,
    /// Whether RTS and CTS precede it.
    protected: bool,
    /// Failed attempts of its RTS, or of the frame itself without RTS.
    short: u8,
    /// Failed attempts of the frame after RTS and CTS.
    long: u8,
    /// Whether it has been sent before.
    retry: bool,
    /// Whether the receiver has received it.
    taken: bool,
}

/// A station.
#[derive(Debug)]
pub(crate) struct Dcf {
    id: RadioId,
    phy: Phy,
    limits: Limits,
    random: Rng,
    pub(crate) queue: InterfaceQueue,
    current: Option<Current>,
    state: State,
    /// The response due a SIFS after a received frame: CTS, ACK, or data after CTS.
    response: Option<(Time, Frame)>,
    transmitting: Option<Frame>,
    /// Whether the receiver senses a signal.
    sensed: bool,
    /// Since when the medium is idle by carrier sensing.
    idle_since: Time,
    /// Idle time before slots start: DIFS, or EIFS after a frame that could not be decoded.
    space: Span,
    /// Network allocation vector: until when other stations have reserved the medium.
    nav: Time,
    /// When slots start if the medium stays idle.
    slots_from: Time,
    /// Remaining back-off slots. None if the next frame needs no back-off.
    backoff: Option<u32>,
    /// Start of a transmission that can no longer be stopped.
    committed: Option<Time>,
    cw: u32,
    next_sequence: u16,
    /// Sequence number of the last data frame from each station, ordered by station.
    seen: Vec<(RadioId, u16)>,
    /// When the last signal that was not decoded ended.
    noise_until: Option<Time>,
    /// Failure of the last frame, as its receivers saw it.
    pub(crate) failure: Failure,
    /// Failed attempts, over the whole run.
    pub(crate) retries: u64,
}

impl Dcf {
    pub(crate) fn new(id: RadioId, phy: Phy, limits: Limits, queue: u32, random: Rng) -> Self {
        Dcf {
            id,
            phy,
            limits,
            random,
            queue: InterfaceQueue::new(queue),
            current: None,
            state: State::Contend,
            response: None,
            transmitting: None,
            sensed: false,
            idle_since: Time::ZERO,
            space: phy.difs(),
            nav: Time::ZERO,
            slots_from: Time::ZERO + phy.difs(),
            backoff: None,
            committed: None,
            cw: phy.cw_min,
            next_sequence: 0,
            seen: Vec::new(),
            noise_until: None,
            failure: Failure::OutOfRange,
            retries: 0,
        }
    }

    /// Returns whether the station is transmitting.
    pub(crate) fn is_transmitting(&self) -> bool {
        self.transmitting.is_some()
    }

    /// Returns when the station has to be woken; [`Time::MAX`] if it only waits for frames.
    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        if let Some((due, _)) = self.response {
            return due;
        }
        if self.transmitting.is_some() {
            return Time::MAX;
        }
        match self.state {
            State::AwaitCts(until) | State::AwaitAck(until) => until,
            State::Away => Time::MAX,
            State::Contend if self.current.is_none() => Time::MAX,
            State::Contend => match self.committed {
                Some(at) => at,
                None if self.sensed => Time::MAX,
                None => self.access_time(),
            },
        }
    }

    /// Returns when the station may transmit if the medium stays idle.
    #[inline]
    fn access_time(&self) -> Time {
        self.slots_from + self.phy.slot * u64::from(self.backoff.unwrap_or(0))
    }

    #[inline]
    fn is_idle(&self) -> bool {
        !self.sensed && self.transmitting.is_none()
    }

    /// Returns when slots start, given that the medium is idle since [`Dcf::idle_since`] and reserved until [`Dcf::nav`].
    #[inline]
    fn first_slot(&self) -> Time {
        (self.idle_since + self.space).max(self.nav + self.phy.difs())
    }

    fn draw(&mut self) -> u32 {
        self.random.below(u64::from(self.cw) + 1) as u32
    }

    /// Accepts a packet, or returns it if the queue is full.
    pub(crate) fn offer(&mut self, now: Time, outgoing: Outgoing) -> Result<(), Outgoing> {
        self.queue.push(outgoing)?;
        if self.current.is_none() {
            self.take_next(now);
        }
        Ok(())
    }

    /// Starts with the next packet.
    fn take_next(&mut self, now: Time) {
        let Some(outgoing) = self.queue.pop() else { return };
        // A back-off after the last frame may have ended meanwhile.
        if self.backoff.is_some() && self.is_idle() && self.access_time() <= now {
            self.backoff = None;
        }
        let is_free = self.is_idle() && self.nav <= now && self.response.is_none();
        if self.backoff.is_none() && !is_free {
            // 9.3.4.2: back-off, because the medium is busy.
            self.backoff = Some(self.draw());
        }
        let sequence = self.next_sequence;
        self.next_sequence = (sequence + 1) & 0xfff;
        self.make_current(outgoing, sequence);
    }

    fn make_current(&mut self, outgoing: Outgoing, sequence: u16) {
        let broadcast = outgoing.to == BROADCAST;
        self.current = Some(Current {
            outgoing,
            sequence,
            airtime: self.phy.data_time(outgoing.bytes, broadcast),
            protected: !broadcast && outgoing.bytes > self.limits.rts_threshold,
            short: 0,
            long: 0,
            retry: false,
            taken: false,
        });
    }

    /// Records that the receiver has received the packet of the current frame.
    pub(crate) fn packet_taken(&mut self, sequence: u16) {
        if let Some(current) = self.current.as_mut().filter(|current| current.sequence == sequence) {
            current.taken = true;
        }
    }

    /// Handles the start of a signal at the receiver.
    #[inline]
    pub(crate) fn signal_begins(&mut self, now: Time) {
        if self.sensed {
            return;
        }
        if self.transmitting.is_some() {
            self.sensed = true;
            return;
        }
        let contends = self.state == State::Contend && self.response.is_none() && self.current.is_some();
        if contends && self.committed.is_none() {
            // The station has already turned from receiving to transmitting, and does not detect the signal.
            let access = self.access_time();
            if access <= now + self.phy.turnaround {
                self.committed = Some(access.max(now));
            } else {
                self.freeze(now);
                if self.backoff.is_none() {
                    self.backoff = Some(self.draw());
                }
            }
        } else if self.committed.is_none() {
            self.freeze(now);
        }
        self.sensed = true;
    }

    /// Handles the end of an idle period: counts the complete slots that have passed.
    #[inline]
    fn freeze(&mut self, now: Time) {
        let Some(left) = self.backoff else { return };
        if now <= self.slots_from {
            return;
        }
        let passed = now.since(self.slots_from).as_nanos() / self.phy.slot.as_nanos();
        self.backoff = if passed < u64::from(left) {
            Some(left - passed as u32)
        } else if self.current.is_some() {
            Some(0)
        } else {
            None
        };
    }

    /// Handles the end of a signal; `sensed` indicates whether others remain.
    pub(crate) fn signal_ends(&mut self, now: Time, sensed: bool, heard: Heard, actions: &mut Vec<Action>) {
        self.sensed = sensed;
        // 9.3.2.3.7: EIFS after a frame that was not decoded, until one is.
        self.space = match heard {
            Heard::Frame(_) => self.phy.difs(),
            Heard::Garbage | Heard::Noise => self.phy.eifs,
        };
        let is_idle = self.is_idle();
        if is_idle {
            self.idle_since = now;
        }
        if !matches!(heard, Heard::Frame(_)) {
            self.noise_until = Some(now);
        }
        match heard {
            Heard::Frame(frame) => self.receive(now, frame, actions),
            Heard::Garbage => {
                if let State::AwaitCts(Time::MAX) | State::AwaitAck(Time::MAX) = self.state {
                    self.attempt_failed(now, actions);
                }
            }
            Heard::Noise => {}
        }
        if is_idle {
            self.slots_from = self.first_slot();
        }
    }

    fn receive(&mut self, now: Time, frame: Frame, actions: &mut Vec<Action>) {
        let ours = frame.to == self.id;
        let answers = ours && self.current.is_some_and(|current| current.outgoing.to == frame.from);
        match (self.state, frame.kind) {
            (State::AwaitCts(_), FrameKind::Cts) if answers => return self.cts_received(now),
            (State::AwaitAck(_), FrameKind::Ack) if answers => return self.succeeded(now, actions),
            // 9.3.2.6, 9.3.2.8: any other frame means that there was no response.
            (State::AwaitCts(_) | State::AwaitAck(_), _) => self.attempt_failed(now, actions),
            (State::Contend | State::Away, _) => {}
        }
        match frame.kind {
            _ if !ours && !frame.is_broadcast() => self.nav = self.nav.max(now + frame.nav),
            FrameKind::Rts if self.nav <= now => {
                let nav = frame.nav - (self.phy.sifs + self.phy.cts_time);
                self.respond(now, FrameKind::Cts, &frame, nav);
            }
            FrameKind::Data => {
                if frame.is_broadcast() {
                    return actions.push(Action::Deliver(frame));
                }
                self.respond(now, FrameKind::Ack, &frame, Span::ZERO);
                if !self.is_duplicate(&frame) {
                    actions.push(Action::Deliver(frame));
                }
            }
            FrameKind::Rts | FrameKind::Cts | FrameKind::Ack => {}
        }
    }

    fn respond(&mut self, now: Time, kind: FrameKind, answered: &Frame, nav: Span) {
        let frame = Frame {
            kind,
            from: self.id,
            to: answered.from,
            nav,
            airtime: self.phy.cts_time,
            sequence: 0,
            retry: false,
            packet: None,
            flow: answered.flow,
        };
        self.committed = None;
        self.response = Some((now + self.phy.sifs, frame));
    }

    /// Returns whether a frame is a duplicate (9.3.2.10): a retry with the sequence number of the last frame from that station.
    fn is_duplicate(&mut self, frame: &Frame) -> bool {
        match self.seen.binary_search_by_key(&frame.from, |(from, _)| *from) {
            Ok(place) => {
                let last = core::mem::replace(&mut self.seen[place].1, frame.sequence);
                frame.retry && last == frame.sequence
            }
            Err(place) => {
                self.seen.insert(place, (frame.from, frame.sequence));
                false
            }
        }
    }

    fn cts_received(&mut self, now: Time) {
        self.state = State::Contend;
        let Some(current) = &mut self.current else { return };
        // 9.3.4.4: the short retry count is reset.
        current.short = 0;
        let frame = self.data_frame();
        self.response = frame.map(|frame| (now + self.phy.sifs, frame));
    }

    fn data_frame(&mut self) -> Option<Frame> {
        let current = self.current.as_mut()?;
        let broadcast = current.outgoing.to == BROADCAST;
        let retry = core::mem::replace(&mut current.retry, true);
        Some(Frame {
            kind: FrameKind::Data,
            from: self.id,
            to: current.outgoing.to,
            nav: if broadcast {
                Span::ZERO
            } else {
                self.phy.sifs + self.phy.cts_time
            },
            airtime: current.airtime,
            sequence: current.sequence,
            retry,
            packet: (!current.taken).then_some(current.outgoing.packet),
            flow: current.outgoing.flow,
        })
    }

    /// Handles the end of the own transmission; `sensed` indicates whether others are on the air.
    pub(crate) fn transmission_ends(&mut self, now: Time, sensed: bool, actions: &mut Vec<Action>) {
        let Some(frame) = self.transmitting.take() else { return };
        self.sensed = sensed;
        if !sensed {
            self.idle_since = now;
            self.space = self.phy.difs();
            self.slots_from = self.first_slot();
        }
        if self.state == State::Away {
            return;
        }
        let timeout = now + self.phy.response_timeout();
        match frame.kind {
            FrameKind::Rts => self.state = State::AwaitCts(timeout),
            FrameKind::Data if frame.is_broadcast() => self.succeeded(now, actions),
            FrameKind::Data => self.state = State::AwaitAck(timeout),
            FrameKind::Cts | FrameKind::Ack => {}
        }
    }

    /// Handles the deadline. `receiving_since` is the start of the frame being received, if there is one.
    pub(crate) fn wake(&mut self, now: Time, receiving_since: Option<Time>, actions: &mut Vec<Action>) {
        if let Some((due, frame)) = self.response {
            if due <= now {
                self.response = None;
                if self.limits.answer_if_idle && frame.kind != FrameKind::Ack && !self.has_been_idle(now) {
                    return self.answer_dropped(now, frame, actions);
                }
                self.transmit(now, frame, actions);
            }
            return;
        }
        if self.transmitting.is_some() || self.deadline() > now {
            return;
        }
        match self.state {
            State::AwaitCts(_) | State::AwaitAck(_) => {
                // A frame whose start was detected in time may be the response: its end decides.
                let begun = receiving_since.is_some_and(|since| since + self.phy.rx_start <= now);
                match (begun, &mut self.state) {
                    (true, State::AwaitCts(until) | State::AwaitAck(until)) => *until = Time::MAX,
                    _ => self.attempt_failed(now, actions),
                }
            }
            State::Contend => self.begin_exchange(now, actions),
            State::Away => {}
        }
    }

    /// Returns whether no signal is on the air, and none that was not decoded has been for EIFS.
    fn has_been_idle(&self, now: Time) -> bool {
        !self.sensed && self.noise_until.is_none_or(|end| now.since(end) >= self.phy.eifs)
    }

    /// Drops a CTS, or fails the attempt whose data would follow a CTS.
    fn answer_dropped(&mut self, now: Time, frame: Frame, actions: &mut Vec<Action>) {
        if frame.kind == FrameKind::Data {
            self.attempt_failed(now, actions);
        }
    }

    /// Leaves the access point: cancels everything except a transmission in progress.
    pub(crate) fn leave(&mut self) {
        self.state = State::Away;
        self.response = None;
        self.committed = None;
    }

    /// Joins an access point, perhaps on another channel. Redirects queued packets to it and calls `each` for each of them.
    pub(crate) fn join(&mut self, now: Time, phy: Phy, limits: Limits, to: RadioId, each: &mut dyn FnMut(PacketId)) {
        (self.phy, self.limits) = (phy, limits);
        self.state = State::Contend;
        self.sensed = false;
        self.idle_since = now;
        self.space = self.phy.difs();
        self.nav = now;
        self.cw = self.phy.cw_min;
        self.seen.clear();
        // A packet that the old access point has received is already on its way.
        self.current.take_if(|current| current.taken);
        if let Some(mut current) = self.current.take() {
            current.outgoing.to = to;
            each(current.outgoing.packet);
            self.make_current(current.outgoing, current.sequence);
        }
        self.queue.redirect(to, each);
        self.back_off(now);
        if self.current.is_none() {
            self.take_next(now);
        }
    }

    fn begin_exchange(&mut self, now: Time, actions: &mut Vec<Action>) {
        self.committed = None;
        self.backoff = None;
        let Some(current) = self.current else { return };
        if current.protected {
            let (sifs, cts) = (self.phy.sifs, self.phy.cts_time);
            let frame = Frame {
                kind: FrameKind::Rts,
                from: self.id,
                to: current.outgoing.to,
                nav: sifs * 3 + cts * 2 + current.airtime,
                airtime: self.phy.rts_time,
                sequence: 0,
                retry: current.retry,
                packet: None,
                flow: current.outgoing.flow,
            };
            self.transmit(now, frame, actions);
        } else if let Some(frame) = self.data_frame() {
            self.transmit(now, frame, actions);
        }
    }

    fn transmit(&mut self, now: Time, frame: Frame, actions: &mut Vec<Action>) {
        if self.is_idle() {
            self.freeze(now);
        }
        if matches!(frame.kind, FrameKind::Rts | FrameKind::Data) {
            self.failure = Failure::OutOfRange;
        }
        self.committed = None;
        self.transmitting = Some(frame);
        actions.push(Action::Transmit(frame));
    }

    fn attempt_failed(&mut self, now: Time, actions: &mut Vec<Action>) {
        let was_rts = matches!(self.state, State::AwaitCts(_));
        self.state = State::Contend;
        self.retries += 1;
        let Some(current) = &mut self.current else { return };
        // 9.3.4.4: after CTS, a lost frame counts as a long one.
        let given_up = if was_rts || !current.protected {
            current.short += 1;
            current.short
                >= if was_rts {
                    self.limits.rts_retry
                } else {
                    self.limits.short_retry
                }
        } else {
            current.long += 1;
            current.long >= self.limits.long_retry
        };
        if given_up {
            actions.push(Action::Failed {
                outgoing: current.outgoing,
                taken: current.taken,
                failure: self.failure,
            });
            return self.finish(now);
        }
        self.cw = (self.cw * 2 + 1).min(self.phy.cw_max);
        self.back_off(now);
    }

    fn succeeded(&mut self, now: Time, actions: &mut Vec<Action>) {
        self.state = State::Contend;
        if let Some(current) = self.current {
            actions.push(Action::Sent {
                outgoing: current.outgoing,
                taken: current.taken,
            });
        }
        self.finish(now);
    }

    /// Completes a packet. 9.3.4.3: a back-off always follows.
    fn finish(&mut self, now: Time) {
        self.current = None;
        self.cw = self.phy.cw_min;
        self.back_off(now);
        self.take_next(now);
    }

    fn back_off(&mut self, now: Time) {
        self.backoff = Some(self.draw());
        // The time that the medium has been idle counts towards the space before the first slot.
        self.slots_from = self.first_slot().max(now);
    }
}
