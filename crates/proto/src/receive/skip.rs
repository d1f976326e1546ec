//! Data that the sender gives up (RFC 3758 §3.6, RFC 8260 §2.3.1).
//!
//! FORWARD TSN names a TSN up to which nothing is sent again. Messages that lack one of these TSNs are dropped, whatever of them has arrived.
//! Messages that waited for them in their streams are delivered. I-FORWARD-TSN also names the messages that are dropped.

use whimbrel_wire::{ForwardTsn, MessageNumber, SkippedStream, Tsn};

use super::Receiver;
use super::assembly::Key;
use super::components::{Neighbour, Partial, Tail};
use super::store::{NONE, Stage};
use super::streams::{ahead, is_before};
use super::tsn_map::Slot;

impl Receiver {
    /// Processes a FORWARD TSN chunk. The caller calls [`Receiver::on_packet_end`] after the last chunk of the packet, as after DATA (RFC
    /// 3758 §3.6). The TSN may be above the window in which DATA is accepted: if a packet is lost, a sender may give up a long flight of short
    /// messages, and would repeat a chunk that is refused until the association ends.
    // [3758:3.6-5, 3.6-6, 3.6-7, 3.6-8]
    pub(crate) fn on_forward_tsn(&mut self, forward: &ForwardTsn<'_>) {
        let last = forward.new_cumulative_tsn;
        if !last.is_after(self.cumulative) {
            // It may have been repeated because a SACK was lost.
            self.sack.packet.duplicate = true;
            return;
        }
        self.sack.packet.new = true;
        if self.config.interleaves {
            self.move_to(last);
            self.skip_all(forward);
            return;
        }
        self.drop_incomplete(last);
        // What follows, unless it begins a message, belongs to one whose beginning is given up.
        if self.has_gap()
            && !self.is_beyond_gap(last)
            && let Neighbour::Held(rest) = self.after(last)
        {
            self.drop_run(rest);
        }
        self.move_to(last);
        self.skip_all(forward);
    }

    fn skip_all(&mut self, forward: &ForwardTsn<'_>) {
        for entry in forward.skipped.iter() {
            if entry.stream < self.config.inbound_streams {
                self.drop_i_data(entry);
                if !entry.unordered {
                    self.skip_messages(entry);
                }
            }
        }
    }

    /// Drops what has arrived of the messages of I-DATA chunks that an entry names.
    fn drop_i_data(&mut self, entry: SkippedStream) {
        let MessageNumber::Mid(mid) = entry.number else { return };
        let last = Key {
            stream: entry.stream,
            unordered: entry.unordered,
            mid: mid.0,
        };
        let mut dropped = Vec::new();
        let expected = self.streams.expected(entry.stream);
        if let Some(assemblies) = &mut self.assemblies {
            let first = if entry.unordered {
                assemblies.first_unordered(entry.stream, mid.0)
            } else {
                expected
            };
            if is_before(entry.number, mid.0.wrapping_sub(first)) {
                // An earlier chunk has skipped them.
                return;
            }
            assemblies.skip(first, last, |head| dropped.push(head));
        }
        dropped.into_iter().for_each(|head| self.drop_run(head));
        let partial = self.partials.get(entry.stream, entry.unordered);
        let is_up_to = |partial: &Partial| !is_before(entry.number, mid.0.wrapping_sub(partial.number));
        if partial.is_some_and(|partial| !partial.ended && is_up_to(partial)) {
            self.end_partial((entry.stream, entry.unordered));
        }
    }

    /// Drops the runs that belong to messages without one of the TSNs up to `last`.
    // [3758:3.6-11, 3.6-12]
    fn drop_incomplete(&mut self, last: Tsn) {
        if let Tail::Held(tail) = self.tail {
            let head = self.store.get(tail).other;
            self.drop_run(head);
        }
        self.end_partials(|partial| !partial.ended);
        let end = last.next();
        let mut tsn = self.cumulative.next();
        while self.has_gap() && tsn != end && !tsn.is_after(self.highest) {
            let slot = if self.map.contains(tsn) {
                self.map.slot(tsn).fragment()
            } else {
                NONE
            };
            if slot == NONE {
                tsn = tsn.next();
                continue;
            }
            // Runs are visited from their heads on.
            let (mut index, mut run_end) = (slot, tsn.next());
            while self.store.get(index).next != NONE {
                index = self.store.get(index).next;
                run_end = run_end.next();
            }
            let head = self.store.get(slot);
            // The rest of a message that begins here and has arrived up to `last` may follow.
            let may_end = head.begin() && !end.is_after(run_end);
            if head.stage == Stage::Assembling && !may_end {
                self.drop_run(slot);
            }
            if run_end.is_after(end) {
                return;
            }
            tsn = run_end;
        }
    }

    /// Moves the cumulative TSN to `last`, and on over what has been received after it.
    // [3758:3.2-2, 3.6-2, 3.6-3, 3.6-4]
    fn move_to(&mut self, last: Tsn) {
        let from = self.cumulative.next();
        let end = if last.is_after(self.highest) {
            self.highest
        } else {
            last
        }
        .next();
        let mut slot = None;
        if self.has_gap() {
            let mut tsn = from;
            loop {
                tsn = self.map.next(tsn, end, true);
                if tsn == end {
                    break;
                }
                let run_end = self.map.next(tsn, end, false);
                self.move_to_first_level(tsn, run_end);
                tsn = run_end;
                if tsn == end {
                    break;
                }
            }
            if end == last.next() && self.map.contains(last) {
                slot = Some(self.map.slot(last));
            }
            self.map.remove_range(from, end);
        }
        self.cumulative = last;
        if last.is_after(self.highest) {
            self.highest = last;
        }
        if self.has_gap() {
            let (next, end) = (last.next(), self.highest.next());
            let missing = self.map.next(next, end, false);
            if missing != next {
                slot = Some(self.map.slot(missing.previous()));
                self.move_to_first_level(next, missing);
                self.map.remove_range(next, missing);
                self.cumulative = missing.previous();
            }
        }
        self.settle_tail(slot);
        if let Some(new_gaps) = &mut self.new_gaps {
            new_gaps.require_full();
        }
        if let Some(lists) = &mut self.sack.lists {
            lists.gaps.clear();
        }
    }

    /// Sets what follows the cumulative TSN, whose slot is this one if it was received. The rest of a message without a beginning is dropped.
    fn settle_tail(&mut self, slot: Option<Slot>) {
        if self.config.interleaves {
            // I-DATA chunks have no neighbours by TSN: the tail is always a boundary.
            return;
        }
        self.tail = match slot {
            Some(slot) if slot.end() => Tail::Boundary,
            Some(slot) if slot.fragment() != NONE => Tail::Held(slot.fragment()),
            _ => Tail::Skipped,
        };
        if let Tail::Held(tail) = self.tail {
            let head = self.store.get(tail).other;
            if !self.store.get(head).begin() {
                self.drop_run(head);
                self.tail = Tail::Skipped;
            }
        }
    }

    /// The sender gives up the ordered messages of a stream up to this one. Those that have arrived are delivered.
    // [3758:3.6-9, 3.6-10]
    fn skip_messages(&mut self, entry: SkippedStream) {
        let stream = entry.stream;
        let expected = self.streams.expected(stream);
        let ahead = ahead(entry.number, expected);
        if is_before(entry.number, ahead) {
            // An earlier FORWARD TSN has skipped them.
            return;
        }
        let last = expected.wrapping_add(ahead);
        while let Some(head) = self.streams.take_up_to(stream, last) {
            self.make_ready(head);
        }
        self.streams.get_mut(stream).expected = last.wrapping_add(1);
        self.make_parked_ready(stream);
    }
}
