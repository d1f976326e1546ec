//! Reassembles fragments into messages, and delivers messages to the reader (RFC 9260 §6.6, §6.9).
//!
//! Fragments of one message with consecutive TSNs form a *run*. A run is linked from head to tail, and each end stores
//! the other end. A new fragment joins the runs on both sides in constant time, whatever their length. A run that has a
//! beginning and an end is a complete message.

use whimbrel_wire::{Data, Payload, Ssn, Tsn};

use super::components::{Neighbour, Partial, Tail};
use super::skip::HALF;
use super::store::{NONE, Stage};
use super::tsn_map::Slot;
use super::{DataOutcome, Receiver};
use crate::Received;

impl Receiver {
    /// Keeps a chunk that has been checked and admitted.
    ///
    /// RFC 9260 §6.9 [9260:6.9-1, 6.9-14, 6-11]
    pub(super) fn accept(&mut self, data: &Data<'_>, before: Neighbour, after: Neighbour) -> DataOutcome {
        let fragment = self.store.insert(data);
        self.count_accepted(data.tsn, data.payload.len());
        let (mut head, mut tail, mut run) = (fragment, fragment, data.payload.len() as u32);
        match before {
            Neighbour::Held(previous) => {
                head = self.store.get(previous).other;
                run += self.store.get(head).run;
                self.store.get_mut(previous).next = fragment;
            }
            Neighbour::Delivered => {
                // The rest of a partly delivered message begins with this fragment.
                self.store.get_mut(fragment).begin = true;
                if let Some(partial) = &mut self.partial {
                    partial.head = fragment;
                }
            }
            _ => {}
        }
        if let Neighbour::Held(following) = after {
            tail = self.store.get(following).other;
            run += self.store.get(following).run;
            self.store.get_mut(fragment).next = following;
        }
        if head != tail {
            self.store.get_mut(head).other = tail;
            self.store.get_mut(tail).other = head;
        }
        self.store.get_mut(head).run = run;
        self.mark_received(data.tsn, Slot::new(fragment, data.begin, data.end));
        if self.store.get(head).begin && self.store.get(tail).end {
            return self.complete(head);
        }
        DataOutcome::New
    }

    /// Whether the message of `data` is longer than allowed, as far as it has arrived. The neighbouring runs give its smallest
    /// possible length.
    pub(super) fn is_too_long(&self, data: &Data<'_>, before: Neighbour, after: Neighbour) -> bool {
        if self.config.max_message == u32::MAX {
            return false;
        }
        let head_before = match before {
            Neighbour::Held(previous) => self.store.get(previous).other,
            _ => NONE,
        };
        let mut len = data.payload.len() as u64;
        if head_before != NONE {
            len += u64::from(self.store.get(head_before).run);
        }
        if let Neighbour::Held(following) = after {
            len += u64::from(self.store.get(following).run);
        }
        if let Some(partial) = &self.partial
            && !partial.ended
            && (matches!(before, Neighbour::Delivered) || head_before != NONE && head_before == partial.head)
        {
            len += u64::from(partial.delivered);
        }
        len > u64::from(self.config.max_message)
    }

    /// Notes that `tsn`, which is after the cumulative TSN and was missing, has arrived.
    pub(super) fn mark_received(&mut self, tsn: Tsn, slot: Slot) {
        if tsn != self.cumulative.next() {
            if !self.has_gap() {
                self.stats.gaps += 1;
                self.window.highest_held = tsn;
            } else if tsn.is_after(self.window.highest_held) {
                self.window.highest_held = tsn;
            }
            self.map.insert(tsn, slot, self.cumulative.next(), self.highest);
            if let Some(new_gaps) = &mut self.new_gaps {
                new_gaps.on_arrival(tsn);
            }
            if let Some(lists) = &mut self.sack.lists {
                lists.gaps.note(tsn);
            }
            if tsn.is_after(self.highest) {
                self.highest = tsn;
            }
            return;
        }
        let mut last = slot;
        if self.has_gap() {
            let (next, end) = (tsn.next(), self.highest.next());
            let missing = self.map.next(next, end, false);
            if missing != next {
                last = self.map.slot(missing.previous());
                self.move_to_first_level(next, missing);
                self.map.remove_range(next, missing);
            }
            self.cumulative = missing.previous();
        } else {
            self.cumulative = tsn;
            self.highest = tsn;
        }
        self.tail = match last.fragment() {
            _ if last.end() => Tail::Boundary,
            NONE => Tail::Discarded,
            fragment => Tail::Held(fragment),
        };
    }

    /// Drops a run that has not been delivered and does not wait for delivery.
    pub(super) fn drop_run(&mut self, head: u32) {
        let mut index = head;
        while index != NONE {
            let fragment = self.store.get(index);
            let (tsn, len, next) = (Tsn(fragment.tsn), fragment.len() as u32, fragment.next);
            if tsn.is_after(self.cumulative) {
                self.map.forget_fragment(tsn);
                self.window.beyond = self.window.beyond.saturating_sub(len);
            }
            self.store.remove(index);
            index = next;
        }
    }

    /// Acknowledges a fragment of a message that the sender has given up, and does not keep it.
    pub(super) fn discard_rest(&mut self, data: &Data<'_>) -> DataOutcome {
        self.sack.packet.new = true;
        // What follows may have arrived before, with the end of the message.
        if let Neighbour::Held(rest) = self.after(data.tsn) {
            self.drop_run(rest);
        }
        self.mark_received(data.tsn, Slot::new(NONE, data.begin, data.end));
        match self.tail {
            Tail::Discarded => self.tail = Tail::Skipped,
            Tail::Held(tail) => {
                let head = self.store.get(tail).other;
                if !self.store.get(head).begin {
                    self.drop_run(head);
                    self.tail = Tail::Skipped;
                }
            }
            _ => {}
        }
        DataOutcome::New
    }

    /// Handles a message that has all its fragments: delivers it to the reader, or lets it wait for an earlier message
    /// of its stream.
    ///
    /// RFC 9260 §6.6 [9260:6.6-1, 6.6-2, 6.6-3, 3.3.1-2, 3.3.1-3]
    fn complete(&mut self, head: u32) -> DataOutcome {
        if let Some(partial) = &mut self.partial
            && partial.head == head
        {
            partial.ended = true;
            return DataOutcome::New;
        }
        let message = self.store.get(head);
        if message.unordered {
            self.make_ready(head);
            return DataOutcome::New;
        }
        let (number, ssn, tsn) = (message.stream, message.ssn, Tsn(message.tsn));
        let stream = self.streams.get_mut(number);
        if stream.expected == ssn {
            if self
                .partial
                .is_some_and(|partial| !partial.unordered && partial.stream == number && partial.ssn == ssn)
            {
                return DataOutcome::ProtocolViolation("stream sequence number used twice");
            }
            stream.expected = ssn.next();
            let has_parked = stream.has_parked();
            self.make_ready(head);
            if has_parked {
                self.make_parked_ready(number);
            }
        } else if self.streams.park(number, ssn, head, self.missing_before(tsn, number)) {
            self.store.get_mut(head).stage = Stage::Parked;
        } else {
            return DataOutcome::ProtocolViolation("stream sequence number used twice");
        }
        DataOutcome::New
    }

    /// Returns the largest number of messages of a stream before a chunk that can be incomplete: each of them lacks at least one
    /// chunk, or the reader lacks the rest of it.
    fn missing_before(&self, tsn: Tsn, stream: u16) -> u32 {
        let is_partial = |partial: &Partial| !partial.unordered && partial.stream == stream;
        let chunks = if tsn.is_after(self.cumulative) {
            tsn.distance(self.cumulative) - 1
        } else {
            0
        };
        let missing = chunks + u32::from(self.partial.as_ref().is_some_and(is_partial));
        // Messages that were given up may have no TSN, and their FORWARD TSN may not have arrived.
        if self.config.gives_up {
            missing.max(HALF.into())
        } else {
            missing
        }
    }

    pub(super) fn make_parked_ready(&mut self, stream: u16) {
        while let Some(head) = self.streams.take_next(stream) {
            self.make_ready(head);
        }
    }

    pub(super) fn make_ready(&mut self, head: u32) {
        let message = self.store.get_mut(head);
        message.stage = Stage::Ready;
        message.other = NONE;
        match self.ready.tail {
            NONE => self.ready.head = head,
            last => self.store.get_mut(last).other = head,
        }
        self.ready.tail = head;
    }

    /// Whether [`Receiver::recv`] would return something.
    pub(crate) fn has_message(&self) -> bool {
        self.next_ready().is_some() || self.partial_has_more() || self.may_begin_partial()
    }

    /// Delivers the next message to the reader: calls `part` for each piece of it, in order.
    ///
    /// RFC 9260 §6.9 [9260:6.9-15]: a message that fills the buffer before it is complete is delivered in parts (`end`
    /// is false until the last part). Other messages may come between its parts. If the message is unordered, no
    /// unordered message of the same stream does.
    pub(crate) fn recv(&mut self, part: &mut dyn FnMut(Payload<'_>)) -> Option<Received> {
        if self.partial_has_more() {
            return self.recv_partial(part);
        }
        if let Some(head) = self.next_ready() {
            self.ready.head = self.store.get(head).other;
            if self.ready.head == NONE {
                self.ready.tail = NONE;
            }
            return Some(self.hand_over(head, part));
        }
        if self.may_begin_partial() {
            return self.begin_partial(part);
        }
        None
    }

    /// Gives up incomplete messages, as no more data arrives.
    pub(crate) fn give_up_incomplete(&mut self) {
        self.partial = self.partial.filter(|partial| partial.ended);
        self.tail = Tail::Boundary;
    }

    fn next_ready(&self) -> Option<u32> {
        if self.ready.head == NONE {
            return None;
        }
        if let Some(partial) = &self.partial
            && partial.unordered
        {
            // The reader could not distinguish this message from the rest of the other one.
            let message = self.store.get(self.ready.head);
            if message.unordered && message.stream == partial.stream {
                return None;
            }
        }
        Some(self.ready.head)
    }

    fn partial_has_more(&self) -> bool {
        self.partial.is_some_and(|partial| partial.head != NONE)
    }

    /// Whether the buffer has less than one MTU left, and holds the beginning of the next message of a stream without
    /// its end.
    fn may_begin_partial(&self) -> bool {
        let Tail::Held(tail) = self.tail else { return false };
        if self.partial.is_some() || self.space_left() >= usize::from(self.config.mtu) {
            return false;
        }
        let message = self.store.get(tail);
        message.unordered || self.streams.expected(message.stream) == message.ssn
    }

    fn begin_partial(&mut self, part: &mut dyn FnMut(Payload<'_>)) -> Option<Received> {
        let Tail::Held(tail) = self.tail else { return None };
        let head = self.store.get(tail).other;
        let message = self.store.get(head);
        self.partial = Some(Partial {
            stream: message.stream,
            ssn: message.ssn,
            ppid: message.ppid,
            unordered: message.unordered,
            head,
            delivered: 0,
            ended: false,
        });
        let first = self.recv_partial(part)?;
        Some(Received { begin: true, ..first })
    }

    fn recv_partial(&mut self, part: &mut dyn FnMut(Payload<'_>)) -> Option<Received> {
        let partial = self.partial.as_mut()?;
        let head = core::mem::replace(&mut partial.head, NONE);
        let Partial {
            ended,
            stream,
            ssn,
            unordered,
            ..
        } = *partial;
        if !ended {
            self.tail = Tail::Delivered;
        } else {
            self.partial = None;
            // Unless the sender has given up the messages up to a later one.
            if !unordered && self.streams.expected(stream) == ssn {
                self.streams.get_mut(stream).expected = ssn.next();
            }
        }
        let received = Received {
            begin: false,
            ..self.hand_over(head, part)
        };
        if let Some(partial) = &mut self.partial {
            partial.delivered = partial.delivered.saturating_add(received.len as u32);
        }
        if ended && !unordered {
            self.make_parked_ready(stream);
        }
        Some(received)
    }

    /// Delivers the fragments from `head` on to the reader and frees their memory. RFC 9260 §6.2 [9260:6.2-23]
    fn hand_over(&mut self, head: u32, part: &mut dyn FnMut(Payload<'_>)) -> Received {
        let first = self.store.get(head);
        let mut received = Received {
            stream: first.stream,
            ssn: if first.unordered { Ssn(0) } else { first.ssn },
            ppid: first.ppid,
            unordered: first.unordered,
            len: 0,
            begin: true,
            end: false,
            before_restart: false,
            more: false,
        };
        let mut index = head;
        while index != NONE {
            let fragment = self.store.get(index);
            part(fragment.payload());
            received.len += fragment.len();
            received.end = fragment.end;
            let (tsn, next) = (Tsn(fragment.tsn), fragment.next);
            if tsn.is_after(self.cumulative) {
                self.map.forget_fragment(tsn);
                self.window.beyond = self.window.beyond.saturating_sub(self.store.get(index).len() as u32);
            }
            self.store.remove(index);
            index = next;
        }
        received
    }
}
