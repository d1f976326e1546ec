//! The replay window: which of the last records of an epoch have been received (RFC 9147 §4.5.1).
//!
//! Packets of one path arrive about in order, but those of different paths do not: a path may be two seconds slower than another, and its
//! packets must not be taken for replays (draft, "DTLS Considerations"). How many records that are depends on the rate. The window begins with
//! 1024 records, and doubles whenever half of it has passed in less than two seconds. The records of the last two seconds are thus always in
//! it, up to two million records: 11 Gbit/s in packets of 1400 bytes, for 256 KiB of memory. Beyond that, the oldest count as replays.

use whimbrel_control::{Span, Time};

/// How much later a packet may arrive than packets that were sent after it.
const REORDERING: Span = Span::from_secs(2);

/// Records in a word.
const BITS: u64 = u64::BITS as u64;
const FIRST_WORDS: usize = 16;
const MAX_WORDS: usize = 1 << 15;

/// The records received in one epoch. A ring of words; the word of a sequence number is its quotient by 64.
#[derive(Debug)]
pub(super) struct ReplayWindow {
    words: Vec<u64>,
    /// Quotient of the highest sequence number received; `None` before the first record.
    top: Option<u64>,
    /// The highest sequence number received.
    highest: u64,
    /// Lower quotients are not known any more, and count as received.
    floor: u64,
    /// Where and when the window was last found to be large enough.
    mark: (u64, Time),
}

impl ReplayWindow {
    pub(super) fn new() -> Self {
        ReplayWindow {
            words: Vec::new(),
            top: None,
            highest: 0,
            floor: 0,
            mark: (0, Time::ZERO),
        }
    }

    /// Returns the sequence number after the highest one received.
    pub(super) fn next(&self) -> u64 {
        self.top.map_or(0, |_| self.highest + 1)
    }

    /// Returns the lowest sequence number that may still be new.
    pub(super) fn oldest(&self) -> u64 {
        self.floor * BITS
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    fn place(&self, word: u64) -> usize {
        // The ring has a power of two of words, at most MAX_WORDS.
        word as usize & (self.words.len() - 1)
    }

    /// Returns whether a record with this sequence number has not been received yet.
    // [dtls:10-1]
    pub(super) fn is_new(&self, sequence: u64) -> bool {
        let word = sequence / BITS;
        match self.top {
            None => true,
            Some(top) if word > top => true,
            Some(_) if word < self.floor => false,
            Some(_) => self.words[self.place(word)] >> (sequence % BITS) & 1 == 0,
        }
    }

    /// Marks a record as received. It has been authenticated: only the peer can move the window.
    pub(super) fn insert(&mut self, now: Time, sequence: u64) {
        let word = sequence / BITS;
        if self.words.is_empty() {
            self.words = vec![0; FIRST_WORDS];
            self.mark = (word, now);
        }
        let top = self.top.unwrap_or(word);
        if self.top.is_none() || word > top {
            self.advance(now, top, word);
        }
        if word >= self.floor {
            let place = self.place(word);
            self.words[place] |= 1 << (sequence % BITS);
        }
        self.highest = self.highest.max(sequence);
    }

    fn advance(&mut self, now: Time, from: u64, to: u64) {
        let half = self.words.len() as u64 / 2;
        if to - self.mark.0 >= half {
            if now.since(self.mark.1) < REORDERING && self.words.len() < MAX_WORDS {
                self.resize(from, 2 * self.words.len());
            }
            self.mark = (to, now);
        }
        let len = self.words.len() as u64;
        for word in (from + 1..=to).rev().take(self.words.len()) {
            let place = self.place(word);
            self.words[place] = 0;
        }
        self.top = Some(to);
        self.floor = self.floor.max((to + 1).saturating_sub(len));
    }

    /// Moves the latest words to a ring of another length.
    fn resize(&mut self, top: u64, len: usize) {
        let mut words = vec![0; len];
        let kept = self.words.len().min(len) as u64;
        let floor = self.floor.max((top + 1).saturating_sub(kept));
        for word in floor..=top {
            words[word as usize & (len - 1)] = self.words[self.place(word)];
        }
        self.words = words;
        self.floor = floor;
    }

    /// Releases the memory of a time with more packets. Only the latest 1024 records are kept apart then.
    pub(super) fn shrink(&mut self) {
        if let Some(top) = self.top.filter(|_| self.words.len() > FIRST_WORDS) {
            self.resize(top, FIRST_WORDS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn each_number_is_new_once() {
        let mut window = ReplayWindow::new();
        assert!(window.is_new(0) && window.is_new(u64::MAX));
        for sequence in [5, 0, 63, 64, 1000, 999, 65] {
            assert!(window.is_new(sequence), "{sequence}");
            window.insert(at(0), sequence);
            assert!(!window.is_new(sequence), "{sequence}");
        }
        assert!(window.is_new(1) && window.is_new(998) && window.is_new(1001));
        assert_eq!(window.next(), 1001);
    }

    #[test]
    fn numbers_below_the_window_count_as_received() {
        let mut window = ReplayWindow::new();
        window.insert(at(0), 10);
        // Half a window in more than two seconds: it does not grow.
        window.insert(at(3_000_000), 100_000);
        assert!(!window.is_new(11) && !window.is_new(10));
        let lowest = 100_000 / 64 * 64 - 15 * 64;
        assert!(window.is_new(lowest) && !window.is_new(lowest - 1));
        assert_eq!(window.oldest(), lowest);
        assert_eq!(window.heap_bytes(), 128);
    }

    // Issue 46: reordering over 2 s between paths. At every rate up to a million packets a second, a packet that is less than two seconds late
    // is in the window, also when the rate rises suddenly.
    #[test]
    fn two_seconds_of_packets_are_in_the_window_at_any_rate() {
        for gap in [1, 10, 1_000, 100_000] {
            let mut window = ReplayWindow::new();
            let (mut micros, mut sequence) = (0, 0);
            // Slowly for a long time before.
            for _ in 0..2_000 {
                window.insert(at(micros), sequence);
                (micros, sequence) = (micros + 200_000, sequence + 1);
            }
            let begin = sequence;
            for _ in 0..(3_000_000 / gap).min(3_000_000) {
                window.insert(at(micros), sequence);
                (micros, sequence) = (micros + gap, sequence + 1);
                let in_two_seconds = 1_999_000 / gap;
                let needed = sequence.saturating_sub(in_two_seconds).max(begin - 9);
                assert!(window.oldest() <= needed, "{gap} us, {sequence}");
            }
            assert!(window.heap_bytes() <= 256 << 10);
        }
    }

    #[test]
    fn memory_is_bounded_and_released() {
        let mut window = ReplayWindow::new();
        for sequence in (0..100_000_000).step_by(500) {
            window.insert(at(sequence / 1000), sequence);
        }
        assert_eq!(window.heap_bytes(), 256 << 10);
        let next = window.next();
        window.shrink();
        assert_eq!((window.heap_bytes(), window.next()), (128, next));
        assert!(!window.is_new(next - 1) && window.is_new(next - 2) && !window.is_new(next - 2000));
    }

    proptest! {
        // Compared with a set of all numbers: nothing is new twice, and nothing above the floor is refused.
        #[test]
        fn agrees_with_a_set(steps in proptest::collection::vec((0_u64..40_000, 0_u64..400_000, any::<bool>()), 1..400)) {
            let (mut window, mut all) = (ReplayWindow::new(), BTreeSet::new());
            let mut micros = 0;
            for (back, pause, forward) in steps {
                micros += pause;
                let next = window.next();
                let sequence = if forward { next + back / 8 } else { next.saturating_sub(back) };
                let is_new = window.is_new(sequence);
                prop_assert_eq!(is_new, !all.contains(&sequence) && sequence >= window.oldest());
                if is_new {
                    window.insert(at(micros), sequence);
                    all.insert(sequence);
                }
                prop_assert_eq!(window.next(), all.last().map_or(0, |last| last + 1));
            }
        }
    }
}
