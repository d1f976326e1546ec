//! Reassembles fragments into messages, and delivers messages to the reader (RFC 9260 §6.6, §6.9).
//!
//! Fragments of one message with consecutive TSNs form a *run*. A run is linked from head to tail, and each end stores
//! the other end. A new fragment joins the runs on both sides in constant time, whatever their length. A run that has a
//! beginning and an end is a complete message. Of I-DATA chunks, those with consecutive fragment numbers form a run ([`assembly`](super::assembly)).

use whimbrel_wire::{Data, MessageNumber, Payload, Ssn, Tsn};

use super::assembly::Key;
use super::components::{Neighbour, Partial, ReadyList, Tail};
use super::store::{NONE, Stage};
use super::streams::ahead;
use super::tsn_map::Slot;
use super::{DataOutcome, Receiver};
use crate::Received;

impl Receiver {
    /// Keeps a chunk that has been checked and admitted.
    ///
    /// RFC 9260 §6.9 [9260:6.9-1, 6.9-14, 6-11]
    pub(super) fn accept(&mut self, data: &Data<'_>, before: Neighbour, after: Neighbour) -> DataOutcome {
        let number = self.number_of(data);
        let fragment = self.store.insert(data, number);
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
                self.store.get_mut(fragment).set_begin();
                self.partials.set_head(data.stream, data.unordered, fragment);
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
        self.mark_received(data.tsn, Slot::of(data, fragment));
        let is_complete = self.store.get(head).begin() && self.store.get(tail).end();
        if let Some(assemblies) = &mut self.assemblies
            && let Some(key) = Key::of(data).filter(|_| !(data.begin && data.end))
        {
            if is_complete {
                assemblies.remove(key);
            } else {
                assemblies.join(key, data.tsn.0, data.fsn, head);
            }
        }
        if is_complete {
            self.complete(head)
        } else {
            DataOutcome::New
        }
    }

    /// Whether the message of `data` is longer than allowed, as far as it has arrived. The neighbouring runs give its smallest
    /// possible length.
    pub(super) fn is_too_long(&self, data: &Data<'_>, before: Neighbour, after: Neighbour) -> bool {
        let longest = match self.config.aside {
            Some((ppid, longest)) if data.ppid == ppid => longest,
            _ => self.config.max_message,
        };
        if longest == u32::MAX {
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
        if let Some(partial) = self.partials.get(data.stream, data.unordered)
            && !partial.ended
            && (matches!(before, Neighbour::Delivered) || head_before != NONE && head_before == partial.head)
        {
            len += u64::from(partial.delivered);
        }
        len > u64::from(longest)
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

    /// Returns the number of a message in its stream, with the upper bits that an SSN lacks.
    fn number_of(&self, data: &Data<'_>) -> u32 {
        match data.number {
            MessageNumber::Mid(mid) => mid.0,
            MessageNumber::Ssn(_) if data.unordered => 0,
            MessageNumber::Ssn(_) => {
                let expected = self.streams.expected(data.stream);
                expected.wrapping_add(ahead(data.number, expected))
            }
        }
    }

    /// Drops a run whose message may have been delivered in part.
    pub(super) fn drop_begun(&mut self, head: u32) {
        self.end_partials(|partial| !partial.ended && partial.head == head);
        self.drop_run(head);
    }

    /// Returns whether this fragment belongs to a message that the sender has given up: some of it was skipped, or its end was never sent, as the
    /// next message begins. Linux drops the unsent rest of a message, without TSNs for it.
    pub(super) fn is_given_up(&self, data: &Data<'_>, before: Neighbour, after: Neighbour) -> bool {
        let is_valid = data.stream < self.config.inbound_streams;
        let has_lost_its_rest =
            !data.end && (after == Neighbour::Boundary || is_valid && after == Neighbour::Discarded);
        let has_lost_its_beginning = match before {
            Neighbour::Skipped => true,
            Neighbour::Discarded => is_valid,
            _ => false,
        };
        has_lost_its_rest || has_lost_its_beginning && !data.begin
    }

    /// Drops a message whose end was never sent, as this one begins. Returns what is before this one then.
    pub(super) fn end_given_up(&mut self, data: &Data<'_>, before: Neighbour) -> Neighbour {
        if !data.begin {
            return before;
        }
        let is_in_order = data.tsn == self.cumulative.next();
        match before {
            Neighbour::Held(previous) => {
                let last = self.store.get(previous);
                let (head, stream, number, unordered) = (last.other, last.stream, last.number, last.unordered());
                self.drop_begun(head);
                if is_in_order && !unordered {
                    self.skip_dead(stream, number);
                }
            }
            Neighbour::Delivered => {
                let begun = self.partials.only().filter(|partial| !partial.unordered);
                let begun = begun.map(|partial| (partial.stream, partial.number));
                self.end_partials(|partial| !partial.ended);
                if let Some((stream, number)) = begun {
                    self.skip_dead(stream, number);
                }
            }
            Neighbour::Discarded => {}
            Neighbour::Missing | Neighbour::Boundary | Neighbour::Skipped => return before,
        }
        if is_in_order {
            self.tail = Tail::Boundary;
        }
        Neighbour::Boundary
    }

    /// A message of this stream, before which everything has arrived, will never be complete. FORWARD TSN does not name it if all that was sent of it
    /// has arrived.
    pub(super) fn skip_dead(&mut self, stream: u16, number: u32) {
        if self.streams.expected(stream) == number {
            self.streams.get_mut(stream).expected = number.wrapping_add(1);
            self.make_parked_ready(stream);
        }
    }

    /// Acknowledges a fragment of a message that the sender has given up, and does not keep it.
    pub(super) fn discard_rest(&mut self, data: &Data<'_>) -> DataOutcome {
        self.sack.packet.new = true;
        // What follows may have arrived before, with the end of the message.
        if let Neighbour::Held(rest) = self.after(data.tsn) {
            self.drop_run(rest);
        }
        match self.before(data.tsn) {
            Neighbour::Held(previous) if !data.begin => {
                let head = self.store.get(previous).other;
                self.drop_begun(head);
                if data.tsn == self.cumulative.next() {
                    self.tail = Tail::Skipped;
                }
            }
            Neighbour::Delivered if !data.begin => self.end_partials(|partial| !partial.ended),
            _ => {}
        }
        if data.tsn == self.cumulative.next() && !data.unordered {
            self.skip_dead(data.stream, self.number_of(data));
        }
        self.mark_received(data.tsn, Slot::of(data, NONE));
        match self.tail {
            Tail::Discarded => self.tail = Tail::Skipped,
            Tail::Held(tail) => {
                let head = self.store.get(tail).other;
                if !self.store.get(head).begin() {
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
        let message = self.store.get(head);
        let partial = self.partials.get_mut(message.stream, message.unordered());
        if let Some(partial) = partial.filter(|partial| partial.head == head) {
            partial.ended = true;
            return DataOutcome::New;
        }
        if message.unordered() {
            self.make_ready(head);
            return DataOutcome::New;
        }
        let (stream, number, tsn) = (message.stream, message.number, Tsn(message.tsn));
        let known = self.streams.get_mut(stream);
        if known.expected == number {
            let partial = self.partials.get(stream, false);
            if partial.is_some_and(|partial| partial.number == number) {
                return DataOutcome::ProtocolViolation("message number used twice");
            }
            known.expected = number.wrapping_add(1);
            let has_parked = known.has_parked();
            self.make_ready(head);
            if has_parked {
                self.make_parked_ready(stream);
            }
        } else if self
            .streams
            .park(stream, number, head, self.missing_before(tsn, stream))
        {
            self.store.get_mut(head).stage = Stage::Parked;
        } else {
            return DataOutcome::ProtocolViolation("message number used twice");
        }
        DataOutcome::New
    }

    /// Returns the largest number of messages of a stream before a chunk that can be incomplete: each of them lacks at least one
    /// chunk, or the reader lacks the rest of it.
    fn missing_before(&self, tsn: Tsn, stream: u16) -> u32 {
        // RFC 8260 §2.2.3: the receiver assumes nothing about TSNs.
        if self.config.interleaves {
            return i32::MAX as u32;
        }
        let chunks = if tsn.is_after(self.cumulative) {
            tsn.distance(self.cumulative) - 1
        } else {
            0
        };
        let missing = chunks + u32::from(self.partials.get(stream, false).is_some());
        // Messages that were given up may have no TSN, and their FORWARD TSN may not have arrived.
        if self.config.gives_up {
            missing.max(1 << 15)
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
        let (stream, unordered, ppid) = (message.stream, message.unordered(), message.ppid);
        let is_aside = self.config.aside.is_some_and(|(aside, _)| aside == ppid);
        // Ordered messages come before the end of an earlier one only if the sender has given up what was missing between.
        let partial = self
            .partials
            .get_mut(stream, unordered)
            .filter(|_| self.assemblies.is_some());
        let list = match partial {
            _ if is_aside => &mut self.aside,
            Some(partial) => &mut partial.waiting,
            None => &mut self.ready,
        };
        let last = core::mem::replace(&mut list.tail, head);
        if last == NONE {
            list.head = head;
        } else {
            self.store.get_mut(last).other = head;
        }
    }

    /// Removes a message that has been delivered in part: the reader gets no more of it.
    pub(super) fn end_partial(&mut self, key: (u16, bool)) {
        let Some(partial) = self.partials.remove(key) else {
            return;
        };
        if partial.waiting.head == NONE {
            return;
        }
        match self.ready.tail {
            NONE => self.ready.head = partial.waiting.head,
            last => self.store.get_mut(last).other = partial.waiting.head,
        }
        self.ready.tail = partial.waiting.tail;
        self.waiting_reset.on_appended(key.0, self.ready.tail);
    }

    /// Whether [`Receiver::recv`] would return something.
    pub(crate) fn has_message(&self) -> bool {
        self.partials.any_given_up()
            || self.next_ready().is_some()
            || self.partials.with_more().is_some()
            || self.next_partial().is_some()
    }

    /// Delivers the next message to the reader: calls `part` for each piece of it, in order.
    ///
    /// RFC 9260 §6.9 [9260:6.9-15]: a message that fills the buffer before it is complete is delivered in parts (`end`
    /// is false until the last part). Other messages may come between its parts. If the message is unordered, no
    /// unordered message of the same stream does. If its rest will not arrive, the reader learns it (RFC 3758 §3.6) before it gets anything
    /// else.
    // [3758:3.6-13]
    pub(crate) fn recv(&mut self, part: &mut dyn FnMut(Payload<'_>)) -> Option<Received> {
        if let Some(partial) = self.partials.take_given_up() {
            return Some(Received {
                stream: partial.stream,
                ssn: ssn(partial.unordered, partial.number),
                ppid: partial.ppid,
                unordered: partial.unordered,
                len: 0,
                begin: false,
                end: false,
                given_up: true,
                before_restart: false,
                more: false,
            });
        }
        let more = self.partials.with_more();
        // I-DATA: a long message does not keep back the others.
        if let Some(key) = more.filter(|_| self.assemblies.is_none()) {
            return self.recv_partial(key, part);
        }
        if let Some(head) = self.next_ready() {
            self.waiting_reset.on_taken(head);
            self.ready.head = self.store.get(head).other;
            if self.ready.head == NONE {
                self.ready.tail = NONE;
            }
            return Some(self.hand_over(head, part));
        }
        if let Some(key) = more {
            return self.recv_partial(key, part);
        }
        if let Some(head) = self.next_partial() {
            return self.begin_partial(head, part);
        }
        None
    }

    /// Returns the next complete message that is not for the user.
    pub(crate) fn take_aside(&mut self) -> Option<(Received, Vec<u8>)> {
        let head = Some(self.aside.head).filter(|head| *head != NONE)?;
        self.aside.head = self.store.get(head).other;
        if self.aside.head == NONE {
            self.aside.tail = NONE;
        }
        let mut content = Vec::new();
        let received = self.hand_over(head, &mut |part| part.append_to(&mut content));
        Some((received, content))
    }

    /// Returns whether a message, of which this is the beginning, is for the user.
    fn is_for_user(&self, head: u32) -> bool {
        self.config
            .aside
            .is_none_or(|(ppid, _)| self.store.get(head).ppid != ppid)
    }

    /// Gives up incomplete messages, as the peer has restarted. The user learns that from the restart, not from each message.
    pub(crate) fn give_up_incomplete(&mut self) {
        self.end_partials(|partial| !partial.ended);
        self.partials.forget_given_up();
        let runs = self.assemblies.as_mut().map_or_else(Vec::new, |known| known.clear());
        runs.into_iter().for_each(|head| self.drop_run(head));
        self.tail = Tail::Boundary;
    }

    /// Ends the messages delivered in part for which `ends` holds.
    pub(super) fn end_partials(&mut self, ends: impl Fn(&Partial) -> bool) {
        for key in self.partials.keys(ends) {
            self.end_partial(key);
        }
    }

    fn next_ready(&self) -> Option<u32> {
        if self.ready.head == NONE {
            return None;
        }
        if let Some(partial) = self.partials.only()
            && partial.unordered
            && self.assemblies.is_none()
        {
            // The reader could not distinguish this message from the rest of the other one.
            let message = self.store.get(self.ready.head);
            if message.unordered() && message.stream == partial.stream {
                return None;
            }
        }
        Some(self.ready.head)
    }

    /// If the buffer has little space left: returns the beginning of a message that is the next one of its stream, and that lacks its
    /// end.
    fn next_partial(&self) -> Option<u32> {
        let Some(assemblies) = &self.assemblies else {
            let Tail::Held(tail) = self.tail else { return None };
            let message = self.store.get(tail);
            let is_next = message.unordered() || self.streams.expected(message.stream) == message.number;
            let may_begin = is_next && self.partials.is_empty() && self.is_nearly_full();
            return Some(message.other).filter(|head| may_begin && self.is_for_user(*head));
        };
        if !self.is_nearly_full() || self.partials.is_full(self.config.memory_limit) {
            return None;
        }
        // Not above a gap: an earlier unordered message of the stream may arrive, and would have to wait for the end of this one.
        let may_begin = |key: Key| {
            let is_next = key.unordered || self.streams.expected(key.stream) == key.mid;
            is_next && self.partials.get(key.stream, key.unordered).is_none()
        };
        let head = assemblies.first_begun(self.cumulative, may_begin)?;
        self.is_for_user(head).then_some(head)
    }

    /// Whether a message is to be read in parts. Of I-DATA chunks, messages of streams that the sender neglects stay incomplete for long: they
    /// do not take more than half of the buffer from the others.
    fn is_nearly_full(&self) -> bool {
        let mtu = usize::from(self.config.mtu);
        // A two-level buffer shows little space as soon as there is a gap.
        let is_shared = self.config.second_level == 0;
        let least = if self.config.interleaves && is_shared {
            mtu.max(self.config.recv_buffer as usize / 2)
        } else {
            mtu
        };
        self.space_left() < least
    }

    fn begin_partial(&mut self, head: u32, part: &mut dyn FnMut(Payload<'_>)) -> Option<Received> {
        let message = self.store.get(head);
        let (stream, unordered) = (message.stream, message.unordered());
        self.partials.push(Partial {
            stream,
            number: message.number,
            ppid: message.ppid,
            unordered,
            head,
            delivered: 0,
            ended: false,
            waiting: ReadyList::default(),
        });
        let first = self.recv_partial((stream, unordered), part)?;
        Some(Received { begin: true, ..first })
    }

    fn recv_partial(&mut self, key: (u16, bool), part: &mut dyn FnMut(Payload<'_>)) -> Option<Received> {
        let Partial {
            head,
            ended,
            stream,
            number,
            unordered,
            ppid,
            ..
        } = self.partials.take_more(key)?;
        if ended {
            self.end_partial(key);
            // Unless the sender has given up the messages up to a later one.
            if !unordered && self.streams.expected(stream) == number {
                self.streams.get_mut(stream).expected = number.wrapping_add(1);
            }
        } else if let Some(assemblies) = &mut self.assemblies {
            assemblies.deliver(Key {
                stream,
                unordered,
                mid: number,
            });
        } else {
            self.tail = Tail::Delivered;
        }
        let received = Received {
            begin: false,
            ppid,
            ..self.hand_over(head, part)
        };
        if let Some(partial) = self.partials.get_mut(stream, unordered).filter(|_| !ended) {
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
            ssn: ssn(first.unordered(), first.number),
            ppid: first.ppid,
            unordered: first.unordered(),
            len: 0,
            begin: true,
            end: false,
            given_up: false,
            before_restart: false,
            more: false,
        };
        let mut index = head;
        while index != NONE {
            let fragment = self.store.get(index);
            part(fragment.payload());
            received.len += fragment.len();
            received.end = fragment.end();
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

/// Returns the number of a message for its reader.
fn ssn(unordered: bool, number: u32) -> Ssn {
    Ssn(if unordered { 0 } else { number as u16 })
}
