//! The receive window: what we promise to hold, and what is dropped when it is full (RFC 9260 §6.2).

use whimbrel_wire::Tsn;

use super::Receiver;
use super::store::{NONE, Stage, charge};

/// Two of the numbers count the payload bytes accepted since the association began, less those dropped again.
#[derive(Debug)]
pub(super) struct Window {
    /// Bytes accepted; with a two-level buffer, those in order.
    accepted: u64,
    /// Bytes we have said we would accept: the right edge, which never moves back.
    right_edge: u64,
    /// No fragment that could be dropped has a higher TSN. Of use only if there is a gap.
    pub(super) highest_held: Tsn,
    /// With a two-level buffer: bytes held beyond a gap, at most those of both levels. Otherwise zero.
    pub(super) beyond: u32,
    /// More has been promised than the buffer has now: it was made smaller.
    outdated: bool,
}

impl Window {
    pub(super) fn new(recv_buffer: u32, cumulative: Tsn) -> Self {
        Window {
            accepted: 0,
            beyond: 0,
            outdated: false,
            right_edge: recv_buffer.into(),
            highest_held: cumulative,
        }
    }

    /// What is left of the window that was advertised.
    fn promised(&self) -> usize {
        self.right_edge.saturating_sub(self.accepted) as usize
    }
}

impl Receiver {
    /// Bytes that could still be held: of buffer, or of memory if tiny chunks have used that up first.
    ///
    /// In a two-level buffer only what is in order takes room of the first level (Ye 2004, 6.6). While there is a gap, new data goes
    /// to the second: no more is promised than has room there, so that data sent within the window is never dropped.
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
        buffer.min(limit.saturating_sub(self.store.charged_bytes()))
    }

    /// Memory that chunks may take which leave a gap behind them. What is not dropped again leaves half of it to those that fill the gap:
    /// they come in whole packets, and would else be taken one for each timeout.
    fn memory_beyond(&self) -> usize {
        let limit = self.config.memory_limit as usize;
        if self.config.takes_back { limit } else { limit / 2 }
    }

    fn has_two_levels(&self) -> bool {
        self.config.second_level > 0
    }

    /// Accounts for a chunk that is kept; what came before it is accounted for.
    pub(super) fn count_accepted(&mut self, tsn: Tsn, len: usize) {
        if self.has_two_levels() && tsn != self.cumulative.next() {
            self.window.beyond += len as u32;
        } else {
            self.window.accepted += len as u64;
        }
    }

    /// What was beyond a gap is in order now: the TSNs of `from..end`. Each chunk is looked at once in its life.
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

    /// Payload bytes held: unread, incomplete or waiting for their turn.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.store.payload_bytes()
    }

    /// The window to advertise now, in bytes.
    ///
    /// RFC 9260 §6.2 [9260:6.2-6, 6.2-24], RFC 1122 §4.2.3.3: the right edge stays where it is until it can move by the
    /// lesser of an MTU and half the buffer. Below what was promised before it falls only when tiny chunks have used up
    /// the memory.
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

    /// The window that goes into a SACK: from now on it is promised.
    pub(super) fn promise_window(&mut self) -> u32 {
        let window = self.advertised_window();
        self.window.right_edge = self.window.right_edge.max(self.window.accepted + u64::from(window));
        if self.window.outdated && self.window.promised() <= self.config.recv_buffer as usize {
            self.window.outdated = false;
            self.set_limits();
        }
        window
    }

    /// Changes the size of the buffer. A smaller one is advertised from now on, but what was promised before is taken: the right edge
    /// stays where it is, and the memory for it until it is used up.
    pub(crate) fn resize(&mut self, recv_buffer: u32) {
        self.config.recv_buffer = recv_buffer;
        self.window.outdated = self.window.promised() > recv_buffer as usize;
        if !self.window.outdated {
            self.set_limits();
        }
    }

    fn set_limits(&mut self) {
        let config = &mut self.config;
        (config.memory_limit, config.max_tsn_window) =
            super::limits(config.recv_buffer, config.second_level, config.mtu);
        self.store.set_limit(config.memory_limit as usize);
    }

    /// Whether the reader has made so much room that the peer should be told without waiting for its data.
    ///
    /// RFC 9260 §6.2 [9260:6.2-11, 6.2-12, 6.2-22]: only if the window grows by a quarter of the buffer. And only if
    /// less than half of the buffer was promised: otherwise the peer has room to send, and will be told in the SACK for
    /// what it sends.
    pub(crate) fn window_update_due(&self) -> bool {
        let buffer = self.config.recv_buffer as usize;
        let promised = self.window.promised();
        if promised >= buffer / 2 || !self.config.window_updates {
            return false;
        }
        let step = usize::from(self.config.mtu).min(buffer / 2).max(buffer / 4);
        self.space_left() >= promised + step
    }

    /// RFC 9260 §6.2 [9260:6.2-2, 6.2-3, 6.2-29]: whether a chunk whose TSN is missing may be kept, if need be in place
    /// of chunks with higher TSNs.
    ///
    /// A chunk may be larger than the window: the last one may overshoot it, as a sender may always have one in flight.
    pub(super) fn admit(&mut self, tsn: Tsn, len: usize) -> bool {
        let has_room = if self.has_two_levels() {
            // The window counts what is in order. What a gap that closes adds to that may take the place of what was promised before,
            // for which there is room in both levels together.
            self.fits(len)
        } else {
            // What is beyond a gap and may not be dropped has to leave the memory for what fills it.
            let may_exceed = self.config.takes_back || tsn == self.cumulative.next();
            let is_promised = self.advertised_window() > 0 || self.window.outdated && self.window.promised() >= len;
            is_promised && (may_exceed || self.fits_memory(len))
        };
        let leaves_gap = tsn.is_after(self.highest) && tsn != self.cumulative.next();
        if leaves_gap && !self.config.takes_back && self.store.charged_bytes() + charge(len) > self.memory_beyond() {
            return false;
        }
        if has_room {
            return true;
        }
        if tsn == self.cumulative.next() && self.tail == super::Tail::Delivered {
            // The reader waits for the rest of this message, and may get nothing else until it comes.
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

    /// Nothing that is held may be dropped: a chunk that fills a gap may use the memory that tiny chunks have. The one that all wait
    /// for is taken in any case if the reader has nothing to read, who gets it or the beginning of its message then.
    fn admit_besides_all(&self, tsn: Tsn, len: usize) -> bool {
        let has_memory = self.store.charged_bytes() <= self.config.memory_limit as usize;
        self.fits_memory(len) || has_memory && tsn == self.cumulative.next() && !self.has_message()
    }

    fn fits(&self, len: usize) -> bool {
        self.store.payload_bytes() + len <= self.config.recv_buffer as usize + self.config.second_level as usize
            && self.fits_memory(len)
    }

    fn fits_memory(&self, len: usize) -> bool {
        self.store.charged_bytes() + charge(len) <= self.config.memory_limit as usize
    }

    /// Drops the chunk with the highest TSN above `bound` that is held beyond a gap and not yet ready for the reader.
    /// False if there is none.
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
            // It is the tail of its run: nothing above it is held, or a message boundary lies between.
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

    /// Drops the last fragment of a run beyond a gap. RFC 9260 §6.2 [9260:6.2-27, 6.2-28]
    fn drop_tail(&mut self, tsn: Tsn, fragment: u32, head: u32) {
        let message = self.store.get_mut(head);
        if message.stage == Stage::Parked {
            message.stage = Stage::Assembling;
            self.streams.unpark(message.stream, message.ssn);
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
        if let Some(news) = &mut self.news {
            news.on_drop(tsn);
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
