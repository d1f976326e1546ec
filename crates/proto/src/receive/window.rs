//! The receive window: how much data the receiver promises to hold, and which data it drops when the buffer is full
//! (RFC 9260 §6.2).

use std::sync::Arc;

use whimbrel_wire::Tsn;

use super::Receiver;
use super::assembly::MESSAGE_OVERHEAD;
use super::components::Tail;
use super::store::{NONE, Stage, charge};

impl Receiver {
    /// Returns the bytes that could still be held: space in the buffer, or in memory if tiny chunks have used that up
    /// first.
    ///
    /// In a two-level buffer only data in order uses the first level (Ye 2004, 6.6). While there is a gap, new data uses the second
    /// level. No more than the space of the second level is promised, so that data sent within the window is never dropped.
    pub(super) fn space_left(&self) -> usize {
        let in_order = self.store.payload_bytes() - self.window.beyond as usize;
        let mut buffer = (self.config.recv_buffer as usize).saturating_sub(in_order);
        if self.has_two_levels() && self.has_gap() {
            buffer = buffer.min(self.config.second_level.saturating_sub(self.window.beyond) as usize);
        }
        let limit = if self.has_gap() {
            self.memory_beyond()
        } else {
            self.config.memory_limit as usize
        };
        buffer.min(limit.saturating_sub(self.charged_bytes()))
    }

    /// Returns the memory limit for chunks that leave a gap below them. If chunks are not dropped, such chunks leave half of the
    /// memory to the chunks that fill the gap. These arrive in whole packets; without that memory only one would be accepted for each
    /// timeout.
    fn memory_beyond(&self) -> usize {
        let limit = self.config.memory_limit as usize;
        if self.config.takes_back { limit } else { limit / 2 }
    }

    /// Returns the bytes of memory charged for chunks and incomplete messages.
    fn charged_bytes(&self) -> usize {
        self.store.charged_bytes() + self.assemblies.as_ref().map_or(0, |assemblies| assemblies.charge())
    }

    /// Returns the most memory that a chunk is charged for, with the message that it may begin.
    fn cost(&self, len: usize) -> usize {
        charge(len) + if self.config.interleaves { MESSAGE_OVERHEAD } else { 0 }
    }

    fn has_two_levels(&self) -> bool {
        self.config.second_level > 0
    }

    /// Accounts for a chunk that is kept. All earlier chunks are accounted for already.
    pub(super) fn count_accepted(&mut self, tsn: Tsn, len: usize) {
        if self.has_two_levels() && tsn != self.cumulative.next() {
            self.window.beyond += len as u32;
        } else {
            self.window.accepted += len as u64;
        }
    }

    /// Moves the TSNs of `from..end`, which were above a gap and are in order now, to the first level. Each chunk is
    /// visited once.
    pub(super) fn move_to_first_level(&mut self, from: Tsn, end: Tsn) {
        if !self.has_two_levels() {
            return;
        }
        let mut tsn = from;
        while tsn != end {
            let fragment = self.map.slot(tsn).fragment();
            if fragment != NONE {
                let len = self.store.get(fragment).len();
                self.window.beyond -= len as u32;
                self.window.accepted += len as u64;
            }
            tsn = tsn.next();
        }
    }

    /// Returns the payload bytes held: unread, incomplete or waiting for an earlier message.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.store.payload_bytes()
    }

    /// Returns the window to advertise now, in bytes.
    ///
    /// RFC 9260 §6.2 [9260:6.2-6, 6.2-24], RFC 1122 §4.2.3.3: the right edge stays until it can move by the lesser of
    /// an MTU and half the buffer. The window is smaller than the part of the last one that is left only if tiny chunks
    /// have used up the memory, the buffer was made smaller, or data above a gap uses the second level of a two-level
    /// buffer.
    pub(crate) fn advertised_window(&self) -> u32 {
        let (left, promised) = (self.space_left(), self.window.promised());
        let step = usize::from(self.config.mtu).min(self.config.recv_buffer as usize / 2);
        let window = if left >= promised + step {
            left
        } else {
            left.min(promised)
        };
        window as u32
    }

    /// Returns the window for a SACK, which promises it.
    pub(super) fn promise_window(&mut self) -> u32 {
        let window = self.advertised_window();
        self.window.right_edge = self.window.right_edge.max(self.window.accepted + u64::from(window));
        if self.window.outdated && self.window.promised() <= self.config.recv_buffer as usize {
            self.window.outdated = false;
            self.set_limits();
        }
        window
    }

    /// Changes the size of the buffer. A smaller size is advertised from now on, but data within the window promised before is
    /// accepted: the right edge stays, and its memory is kept until the old window is used up.
    pub(crate) fn resize(&mut self, recv_buffer: u32) {
        if self.config.recv_buffer != recv_buffer {
            Arc::make_mut(&mut self.config).recv_buffer = recv_buffer;
        }
        self.window.outdated = self.window.promised() > recv_buffer as usize;
        if !self.window.outdated {
            self.set_limits();
        }
    }

    fn set_limits(&mut self) {
        let known = &self.config;
        let limits = super::limits(known.recv_buffer, known.second_level, known.mtu);
        if limits != (known.memory_limit, known.max_tsn_window) {
            let own = Arc::make_mut(&mut self.config);
            (own.memory_limit, own.max_tsn_window) = limits;
        }
        self.store.set_limit(limits.0 as usize);
    }

    /// Whether the reader has freed enough space for a SACK that announces it without waiting for data.
    ///
    /// RFC 9260 §6.2 [9260:6.2-11, 6.2-12, 6.2-22]: only if the window grows by a quarter of the buffer, and only if
    /// less than half of the buffer was promised. Otherwise the peer has space to send, and the SACK for its data
    /// announces the window.
    pub(crate) fn window_update_due(&self) -> bool {
        let buffer = self.config.recv_buffer as usize;
        let promised = self.window.promised();
        if promised >= buffer / 2 || !self.config.window_updates {
            return false;
        }
        let step = usize::from(self.config.mtu).min(buffer / 2).max(buffer / 4);
        self.space_left() >= promised + step
    }

    /// RFC 9260 §6.2 [9260:6.2-2, 6.2-3, 6.2-29]: whether a chunk whose TSN is missing may be kept, if necessary in
    /// place of chunks with higher TSNs.
    ///
    /// A chunk may be larger than the window: the last chunk may exceed it, as a sender may always have one chunk in
    /// flight.
    pub(super) fn admit(&mut self, tsn: Tsn, len: usize) -> bool {
        let has_room = if self.has_two_levels() {
            // The window counts data in order. When a gap closes, data above it is added to that count. This data may use the space
            // promised before, which both levels together have.
            self.fits(len)
        } else {
            // Data above a gap that may not be dropped must leave memory for the chunks that fill the gap.
            let may_exceed = self.config.takes_back || tsn == self.cumulative.next();
            let is_promised = self.advertised_window() > 0 || self.window.outdated && self.window.promised() >= len;
            is_promised && (may_exceed || self.fits_memory(len))
        };
        let leaves_gap = tsn.is_after(self.highest) && tsn != self.cumulative.next();
        if leaves_gap && !self.config.takes_back && self.charged_bytes() + self.cost(len) > self.memory_beyond() {
            return false;
        }
        if has_room {
            return true;
        }
        if tsn == self.cumulative.next() && self.tail == Tail::Delivered {
            // The reader waits for the rest of this message, and may receive no other message before.
            return true;
        }
        if tsn.is_after(self.highest) {
            return false;
        }
        if !self.config.takes_back {
            return self.admit_besides_all(tsn, len);
        }
        while !self.fits(len) {
            if !self.drop_highest_above(tsn) {
                return false;
            }
        }
        true
    }

    /// Decides on a chunk while no held chunk may be dropped. A chunk that fills a gap may use the memory kept for tiny chunks. The
    /// chunk after the cumulative TSN is accepted in any case if the reader has nothing to read: the reader then receives it, or the
    /// beginning of its message.
    fn admit_besides_all(&self, tsn: Tsn, len: usize) -> bool {
        // Without the incomplete messages: the number of those that are read in parts has a limit of its own, and the others have chunks here.
        let has_memory = self.store.charged_bytes() <= self.config.memory_limit as usize;
        self.fits_memory(len) || has_memory && tsn == self.cumulative.next() && !self.has_message()
    }

    fn fits(&self, len: usize) -> bool {
        self.store.payload_bytes() + len <= self.config.recv_buffer as usize + self.config.second_level as usize
            && self.fits_memory(len)
    }

    fn fits_memory(&self, len: usize) -> bool {
        self.charged_bytes() + self.cost(len) <= self.config.memory_limit as usize
    }

    /// Drops the chunk with the highest TSN above `bound` that is held above a gap and not yet ready for the reader.
    /// Returns false if there is none.
    fn drop_highest_above(&mut self, bound: Tsn) -> bool {
        while self.has_gap() && self.window.highest_held.is_after(bound) {
            let Some(tsn) = self.map.last(bound.next(), self.window.highest_held) else {
                return false;
            };
            let fragment = self.map.slot(tsn).fragment();
            if fragment == NONE {
                self.window.highest_held = tsn.previous();
                continue;
            }
            // The fragment is the tail of its run: the next TSN is not held, or a message boundary is between the two.
            let head = match self.store.get(fragment) {
                single if single.stage == Stage::Ready => fragment,
                tail => tail.other,
            };
            if self.store.get(head).stage == Stage::Ready {
                self.window.highest_held = Tsn(self.store.get(head).tsn).previous();
                continue;
            }
            self.drop_tail(tsn, fragment, head);
            return true;
        }
        false
    }

    /// Drops the last fragment of a run above a gap. RFC 9260 §6.2 [9260:6.2-27, 6.2-28]
    fn drop_tail(&mut self, tsn: Tsn, fragment: u32, head: u32) {
        let message = self.store.get_mut(head);
        if message.stage == Stage::Parked {
            message.stage = Stage::Assembling;
            self.streams.unpark(message.stream, message.number);
        }
        if head != fragment {
            let previous = self.map.slot(tsn.previous()).fragment();
            self.store.get_mut(head).other = previous;
            let previous = self.store.get_mut(previous);
            previous.next = NONE;
            previous.other = head;
        }
        let len = self.store.get(fragment).len();
        if head != fragment {
            self.store.get_mut(head).run -= len as u32;
        }
        if self.has_two_levels() {
            self.window.beyond -= len as u32;
        } else {
            self.window.accepted -= len as u64;
        }
        self.store.remove(fragment);
        self.map.remove(tsn);
        self.stats.reneged += 1;
        if let Some(new_gaps) = &mut self.new_gaps {
            new_gaps.on_drop(tsn);
        }
        if let Some(lists) = &mut self.sack.lists {
            lists.gaps.note(tsn);
        }
        self.window.highest_held = tsn.previous();
        if tsn == self.highest {
            let (low, last) = (self.cumulative.next(), tsn.previous());
            let remaining = if last == self.cumulative {
                None
            } else {
                self.map.last(low, last)
            };
            self.highest = remaining.unwrap_or(self.cumulative);
        }
    }
}
