//! The state machine of one station.
//!
//! It is told what the receiver hears and what time it is, and answers with [`Action`]s; it wants to be woken at
//! [`Dcf::deadline`]. Slots are not counted one by one: the station remembers from when on slots pass ([`Dcf::slots_from`]), and works
//! out how many have passed when the medium becomes busy.

use whimbrel_control::{Rng, Span, Time};

use super::{Action, BROADCAST, Failure, Frame, FrameKind, Heard, InterfaceQueue, Outgoing, RadioId};
use crate::packet::PacketId;
use crate::radio::phy::Phy;

/// What a station does beyond its physical layer's times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Longer frames are sent after RTS and CTS, bytes.
    pub(crate) rts_threshold: u32,
    pub(crate) short_retry: u8,
    /// Attempts at an RTS: by the standard as many as at any short frame.
    pub(crate) rts_retry: u8,
    pub(crate) long_retry: u8,
}

/// The frame exchange that a station has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// None: it contends for the medium if it has something to send.
    Contend,
    /// RTS sent. The answer has to begin by then; [`Time::MAX`] once something has begun.
    AwaitCts(Time),
    /// Data sent, likewise.
    AwaitAck(Time),
    /// None: it is between two access points.
    Away,
}

/// The packet whose turn it is.
#[derive(Clone, Copy, Debug)]
struct Current {
    outgoing: Outgoing,
    sequence: u16,
    airtime: Span,
    /// Whether it goes after RTS and CTS.
    protected: bool,
    /// Failed attempts at its RTS, or at itself if it needs none.
    short: u8,
    /// Failed attempts at itself after RTS and CTS.
    long: u8,
    /// Whether it was sent before.
    retry: bool,
    /// Whether the receiver has it.
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
    /// What is sent a SIFS after the frame it answers: CTS, ACK, or data after CTS.
    response: Option<(Time, Frame)>,
    transmitting: Option<Frame>,
    /// Whether the receiver senses a signal.
    sensed: bool,
    /// Since when the medium is idle, as far as signals tell.
    idle_since: Time,
    /// What has to pass from then on before slots begin: DIFS, or EIFS after something that could not be understood.
    space: Span,
    /// Until when others have spoken for the medium.
    nav: Time,
    /// From when on slots pass, if the medium stays idle.
    slots_from: Time,
    /// Slots left. None if the next frame needs no back-off.
    backoff: Option<u32>,
    /// When a transmission begins that nothing can stop any more.
    committed: Option<Time>,
    cw: u32,
    next_sequence: u16,
    /// Sequence number of the last data frame from each station, in the order of their numbers.
    seen: Vec<(RadioId, u16)>,
    /// What became of the last frame as others heard it.
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
            failure: Failure::OutOfRange,
            retries: 0,
        }
    }

    /// Whether it is sending a frame.
    pub(crate) fn is_transmitting(&self) -> bool {
        self.transmitting.is_some()
    }

    /// When it wants to be woken; [`Time::MAX`] if only something on the air can make it act.
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

    /// When it may send if the medium stays idle.
    #[inline]
    fn access_time(&self) -> Time {
        self.slots_from + self.phy.slot * u64::from(self.backoff.unwrap_or(0))
    }

    #[inline]
    fn is_idle(&self) -> bool {
        !self.sensed && self.transmitting.is_none()
    }

    /// From when on slots pass, the medium being idle since [`Dcf::idle_since`] and spoken for until [`Dcf::nav`].
    #[inline]
    fn first_slot(&self) -> Time {
        (self.idle_since + self.space).max(self.nav + self.phy.difs())
    }

    fn draw(&mut self) -> u32 {
        self.random.below(u64::from(self.cw) + 1) as u32
    }

    /// Takes a packet to send, or gives it back if there is no room.
    pub(crate) fn offer(&mut self, now: Time, outgoing: Outgoing) -> Result<(), Outgoing> {
        self.queue.push(outgoing)?;
        if self.current.is_none() {
            self.take_next(now);
        }
        Ok(())
    }

    /// The next packet's turn has come.
    fn take_next(&mut self, now: Time) {
        let Some(outgoing) = self.queue.pop() else { return };
        // A back-off after the last frame goes on without anybody watching.
        if self.backoff.is_some() && self.is_idle() && self.access_time() <= now {
            self.backoff = None;
        }
        let is_free = self.is_idle() && self.nav <= now && self.response.is_none();
        if self.backoff.is_none() && !is_free {
            // 9.3.4.2: who finds the medium busy backs off.
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

    /// The receiver of the frame under way has taken its packet.
    pub(crate) fn packet_taken(&mut self, sequence: u16) {
        if let Some(current) = self.current.as_mut().filter(|current| current.sequence == sequence) {
            current.taken = true;
        }
    }

    /// The receiver begins to sense a signal.
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
            // Who is about to send has turned from receiving to sending already, and notices nothing.
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

    /// The medium, idle up to now, becomes busy: counts the slots that have passed. The one just begun does not count.
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

    /// A signal has ended; `sensed` says whether there are others.
    pub(crate) fn signal_ends(&mut self, now: Time, sensed: bool, heard: Heard, actions: &mut Vec<Action>) {
        self.sensed = sensed;
        // 9.3.2.3.7: EIFS after what was not understood, until something is.
        self.space = match heard {
            Heard::Frame(_) => self.phy.difs(),
            Heard::Garbage | Heard::Noise => self.phy.eifs,
        };
        let is_idle = self.is_idle();
        if is_idle {
            self.idle_since = now;
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
            // 9.3.2.6, 9.3.2.8: any other frame means that there was no answer.
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

    /// 9.3.2.10: a retry with the sequence number of the last frame from that station.
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
        // 9.3.4.4: the count of short frames begins anew.
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

    /// The own transmission has ended; `sensed` says whether others are on the air.
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

    /// The deadline has come. `receiving_since` says when the frame began that is being received, if one is.
    pub(crate) fn wake(&mut self, now: Time, receiving_since: Option<Time>, actions: &mut Vec<Action>) {
        if let Some((due, frame)) = self.response {
            if due <= now {
                self.response = None;
                self.transmit(now, frame, actions);
            }
            return;
        }
        if self.transmitting.is_some() || self.deadline() > now {
            return;
        }
        match self.state {
            State::AwaitCts(_) | State::AwaitAck(_) => {
                // A frame whose beginning was recognised in time may be the answer: its end tells.
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

    /// It leaves its access point: whatever it was about to do comes to nothing, but for a frame that it has begun to send.
    pub(crate) fn leave(&mut self) {
        self.state = State::Away;
        self.response = None;
        self.committed = None;
    }

    /// It joins an access point, perhaps on another channel. What waits goes there; `each` is told of it.
    pub(crate) fn join(&mut self, now: Time, phy: Phy, limits: Limits, to: RadioId, each: &mut dyn FnMut(PacketId)) {
        (self.phy, self.limits) = (phy, limits);
        self.state = State::Contend;
        self.sensed = false;
        self.idle_since = now;
        self.space = self.phy.difs();
        self.nav = now;
        self.cw = self.phy.cw_min;
        self.seen.clear();
        // What the old access point has received is on its way.
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

    /// The packet is done with. 9.3.4.3: a back-off follows in any case.
    fn finish(&mut self, now: Time) {
        self.current = None;
        self.cw = self.phy.cw_min;
        self.back_off(now);
        self.take_next(now);
    }

    fn back_off(&mut self, now: Time) {
        self.backoff = Some(self.draw());
        // Time that the medium has been idle counts as the space before the first slot.
        self.slots_from = self.first_slot().max(now);
    }
}
