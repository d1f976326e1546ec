//! Frames on the air: a transmission starts at its sender, then at each receiver in range, and ends there in the same order.

use whimbrel_control::{Span, Time};

use super::air::{Damage, Hearer, Signal, Transmission};
use super::mac::{CONTROL, Failure, Frame, FrameKind, Heard};
use super::mobility::Motion;
use super::{RadioId, RadioReport, Radios};
use crate::engine::{Event, EventQueue};
use crate::kinds::ChunkKinds;
use crate::ledger::DropCause;
use crate::observer::FrameEvent;
use crate::routing::Datagram;

impl Radios {
    /// Starts a radio's transmission of a frame.
    pub(super) fn transmit(&mut self, now: Time, queue: &mut EventQueue, radio: RadioId, frame: Frame) {
        self.report(now, &frame, None);
        let station = &mut self.radios[radio as usize];
        if self.window.contains(now) {
            station.stats.frames[frame.kind as usize] += 1;
        }
        let airtime = self.window.overlap(now, now + frame.airtime);
        station.stats.transmitting += airtime;
        if let Some(flow) = self.air_time.get_mut(frame.flow as usize) {
            *flow += airtime;
        }
        if let Some(lock) = station.receiver.deafen() {
            // A reception in progress is lost.
            station.stats.receiving += self.window.overlap(lock.began, now);
            let lost = self.transmissions[lock.transmission as usize].frame;
            self.lose(now, radio, lost, Failure::Collision);
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.transmissions.push(Transmission {
                    frame,
                    began: now,
                    hearers: Vec::new(),
                    next_begin: 0,
                    next_end: 0,
                    channel: 0,
                    datagram: Datagram::new(0, 0, 0),
                });
                self.transmissions.len() as u32 - 1
            }
        };
        let channel = self.radios[radio as usize].channel as usize;
        let transmission = &mut self.transmissions[id as usize];
        transmission.channel = channel as u32;
        transmission.frame = frame;
        transmission.began = now;
        transmission.next_begin = 0;
        transmission.next_end = 0;
        if let Some(packet) = frame.packet.filter(|packet| packet & CONTROL == 0)
            && self.agents.listens(radio)
        {
            // The packet may have moved on when distant radios receive the frame.
            transmission.datagram = self.agents.datagrams[packet as usize];
        }
        self.channels[channel].air.hearers(
            now,
            radio,
            &self.nodes,
            &mut self.motions,
            &mut self.fading,
            &mut transmission.hearers,
        );
        if let Some(first) = transmission.hearers.first() {
            let at = now + Span::from_nanos(u64::from(first.delay));
            queue.push(at, Event::SignalBegins { transmission: id });
        }
        queue.push(now + frame.airtime, Event::SignalEnds { transmission: id });
    }

    /// Starts a transmission at its next receivers, until one of them reacts or another event is due first. Returns the time of the
    /// last start, and the time of the next one.
    pub(crate) fn signal_begins(
        &mut self,
        from: Time,
        end: Time,
        queue: &mut EventQueue,
        id: u32,
    ) -> (Time, Option<Time>) {
        let mut now = from;
        loop {
            let transmission = &mut self.transmissions[id as usize];
            let hearer = transmission.hearers[transmission.next_begin];
            transmission.next_begin += 1;
            let next = transmission.hearers.get(transmission.next_begin);
            let next = next.map(|next| transmission.began + Span::from_nanos(u64::from(next.delay)));
            self.begin_at(now, id, hearer);
            self.settle(now, queue, hearer.radio);
            match next {
                Some(next) if self.may_go_on(next, end, queue) => now = next,
                next => return (now, next),
            }
        }
    }

    /// Returns whether the edge of a frame may proceed to receiver `next` without another event in between.
    #[inline]
    fn may_go_on(&self, next: Time, end: Time, queue: &EventQueue) -> bool {
        next < queue.first_at() && next < end && self.reports.is_empty()
    }

    #[inline]
    fn begin_at(&mut self, now: Time, id: u32, hearer: Hearer) {
        let Transmission { frame, channel, .. } = &self.transmissions[id as usize];
        let station = &mut self.radios[hearer.radio as usize];
        if station.role.is_deaf(station.channel, *channel) {
            return;
        }
        let channel = &self.channels[station.channel as usize];
        let thresholds = &channel.air.thresholds;
        let signal = Signal {
            transmission: id,
            from: frame.from,
            power: hearer.power,
        };
        let transmitting = station.mac.is_transmitting();
        let needs = &channel.needs[usize::from(frame.is_fast())];
        let in_the_way = station.receiver.begin(now, signal, transmitting, thresholds, needs);
        if station.receiver.is_busy(thresholds) {
            station.mac.signal_begins(now);
        }
        if let Some(other) = in_the_way.filter(|_| frame.to == hearer.radio) {
            self.overlook(now, hearer.radio, *frame, other);
        }
    }

    /// Handles a frame that its receiver does not try to decode, because of another signal or its own transmission.
    fn overlook(&mut self, now: Time, radio: RadioId, frame: Frame, other: Option<RadioId>) {
        let failure = match other {
            Some(other) => Damage::Overlap(other).failure(|other| self.senses(now, frame.from, other)),
            None => Failure::Collision,
        };
        self.lose(now, radio, frame, failure);
    }

    /// Returns whether one radio senses the carrier of another.
    fn senses(&mut self, now: Time, a: RadioId, b: RadioId) -> bool {
        let place = |motions: &mut [Motion], radio: RadioId| motions[self.nodes[radio as usize] as usize].at(now);
        let (at, there) = (place(&mut self.motions, a), place(&mut self.motions, b));
        let channel = self.radios[a as usize].channel;
        self.channels[channel as usize].air.senses(at, there)
    }

    /// Records the loss of a frame for this radio.
    fn lose(&mut self, now: Time, radio: RadioId, frame: Frame, failure: Failure) {
        if frame.to != radio {
            return;
        }
        let stats = &mut self.radios[radio as usize].stats;
        if self.window.contains(now) {
            match failure {
                Failure::Collision => stats.collisions += 1,
                Failure::HiddenNode => stats.hidden += 1,
                Failure::Channel => stats.spoilt += 1,
                Failure::OutOfRange | Failure::NoAnswer | Failure::NoAddress => {}
            }
        }
        if failure != Failure::NoAnswer {
            self.report(now, &frame, Some(failure.cause()));
        }
        // For the ledger, the failure belongs to the station that started the exchange.
        let owner = match frame.kind {
            FrameKind::Rts | FrameKind::Data => frame.from,
            FrameKind::Cts | FrameKind::Ack => frame.to,
        };
        self.radios[owner as usize].mac.failure = failure;
    }

    /// Records a frame event for the observer.
    #[inline]
    fn report(&mut self, at: Time, frame: &Frame, lost: Option<DropCause>) {
        let flows = self.air_time.len() as u32;
        if let Some(events) = &mut self.events {
            events.push(FrameEvent {
                at,
                lost,
                kind: frame.kind,
                from: frame.from,
                to: (!frame.is_broadcast()).then_some(frame.to),
                flow: Some(frame.flow).filter(|flow| *flow < flows),
                airtime: frame.airtime,
                retry: frame.retry,
            });
        }
    }

    /// Ends a transmission at its sender and then at its receivers, until one of them reacts or another event is due first. Returns
    /// the time of the last end, and the time of the next one.
    pub(crate) fn signal_ends(
        &mut self,
        from: Time,
        end: Time,
        queue: &mut EventQueue,
        id: u32,
    ) -> (Time, Option<Time>) {
        let mut now = from;
        loop {
            let transmission = &mut self.transmissions[id as usize];
            let place = transmission.next_end;
            transmission.next_end += 1;
            let ended = transmission.began + transmission.frame.airtime;
            let next = transmission.hearers.get(place);
            let next = next.map(|next| ended + Span::from_nanos(u64::from(next.delay)));
            let radio = if place == 0 {
                let sender = transmission.frame.from;
                self.end_at_sender(now, sender);
                sender
            } else {
                let hearer = transmission.hearers[place - 1].radio;
                self.end_at(now, id, hearer);
                hearer
            };
            self.settle(now, queue, radio);
            match next {
                Some(next) if self.may_go_on(next, end, queue) => now = next,
                Some(_) => return (now, next),
                None => {
                    self.clear_away(id);
                    return (now, None);
                }
            }
        }
    }

    /// Removes a transmission that has ended everywhere.
    fn clear_away(&mut self, id: u32) {
        self.free.push(id);
        let frame = &self.transmissions[id as usize].frame;
        if let Some(packet) = frame
            .packet
            .filter(|packet| frame.is_broadcast() && packet & CONTROL != 0)
        {
            self.reports.push_back(RadioReport::Done { packet });
        }
    }

    fn end_at_sender(&mut self, now: Time, sender: RadioId) {
        let station = &mut self.radios[sender as usize];
        let thresholds = &self.channels[station.channel as usize].air.thresholds;
        let busy = station.receiver.is_busy(thresholds);
        station.mac.transmission_ends(now, busy, &mut self.actions);
    }

    #[inline]
    fn end_at(&mut self, now: Time, id: u32, radio: RadioId) {
        let frame = &self.transmissions[id as usize].frame;
        let station = &mut self.radios[radio as usize];
        let channel = &self.channels[station.channel as usize];
        // The radio was on another channel when this transmission started.
        if station.role.wanders() && !station.receiver.has(id) {
            return;
        }
        let was_busy = station.receiver.is_busy(&channel.air.thresholds);
        let lock = station.receiver.end(now, id, &channel.air.thresholds);
        let busy = station.receiver.is_busy(&channel.air.thresholds);
        let mut heard = Heard::Noise;
        let mut damage = None;
        if let Some(lock) = lock {
            station.stats.receiving += self.window.overlap(lock.began, now);
            let unlucky = channel.frame_loss > 0.0 && station.loss.chance(channel.frame_loss);
            // Each received frame advances the channel state.
            let burst = station.bursts.as_mut();
            let hit = burst.is_some_and(|bursts| bursts.strikes(lock.began, now, 0, ChunkKinds::default()).is_some());
            let unlucky = unlucky || hit;
            let in_error = lock.survival < 0.0 && station.loss.chance(-libm::expm1(lock.survival));
            let by_bits = in_error.then(|| lock.beside.map_or(Damage::Channel, Damage::Overlap));
            damage = lock.damage.or(by_bits).or(unlucky.then_some(Damage::Channel));
            heard = if damage.is_none() {
                Heard::Frame(*frame)
            } else {
                Heard::Garbage
            };
        }
        if frame.to == radio {
            if lock.is_some() {
                self.tell_owner(now, id, radio, damage);
            }
        } else if frame.kind == FrameKind::Data
            && !frame.is_broadcast()
            && frame.packet.is_some()
            && matches!(heard, Heard::Frame(_))
            && self.agents.listens(radio)
        {
            self.reports.push_back(RadioReport::Overheard {
                at: radio,
                transmission: id,
            });
        }
        let station = &mut self.radios[radio as usize];
        // The end of a signal below the sensing threshold is not noticed.
        if was_busy {
            let before = station.mac.retries;
            station.mac.signal_ends(now, busy, heard, &mut self.actions);
            station.count_retries(self.window.contains(now), before);
        }
    }

    /// Reports to the sender's ledger whether the frame arrived at its receiver, or what corrupted it.
    fn tell_owner(&mut self, now: Time, id: u32, radio: RadioId, damage: Option<Damage>) {
        let frame = self.transmissions[id as usize].frame;
        if let Some(damage) = damage {
            let failure = damage.failure(|other| self.senses(now, frame.from, other));
            self.lose(now, radio, frame, failure);
        } else if matches!(frame.kind, FrameKind::Rts | FrameKind::Data) {
            self.radios[frame.from as usize].mac.failure = Failure::NoAnswer;
        }
    }
}
