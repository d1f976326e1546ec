//! Messages created and not yet delivered.

use std::collections::VecDeque;

use whimbrel_control::Time;

/// Creation times of messages that are not yet delivered, by their number.
///
/// An endless flow fills the send buffer with about a thousand messages of one creation time, so equal times are stored once, and most
/// messages are delivered in order, so only those up to the last delivered one are marked.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Number of the first message that is not delivered.
    base: u64,
    /// Number of the next message.
    next: u64,
    /// Whether each message from `base` up to the last delivered one is delivered. The first one never is.
    delivered: VecDeque<bool>,
    /// The first message of each creation time: its number, and the time.
    created: VecDeque<(u64, Time)>,
}

impl Pending {
    /// Adds the next message.
    #[inline]
    pub(super) fn push(&mut self, at: Time) {
        if self.created.back().is_none_or(|(_, last)| *last != at) {
            self.created.push_back((self.next, at));
        }
        self.next += 1;
    }

    /// Removes the message with this number, modulo 2^32, and returns its whole number and its creation time. None if it was delivered
    /// before or never created.
    #[inline]
    pub(super) fn take(&mut self, number: u32) -> Option<(u64, Time)> {
        let ahead = number.wrapping_sub(self.base as u32);
        let number = self.base + u64::from(ahead);
        if number >= self.next || self.delivered.get(ahead as usize) == Some(&true) {
            return None;
        }
        // Most messages are delivered in order, so that the first time is the right one.
        let place = match self.created.get(1) {
            Some((next, _)) if *next <= number => self.created.partition_point(|(first, _)| *first <= number) - 1,
            _ => 0,
        };
        let created = self.created[place].1;
        if ahead == 0 {
            self.base += 1;
            self.delivered.pop_front();
            while self.delivered.front() == Some(&true) {
                self.delivered.pop_front();
                self.base += 1;
            }
            while self.created.get(1).is_some_and(|(first, _)| *first <= self.base) {
                self.created.pop_front();
            }
        } else {
            self.mark(ahead as usize);
        }
        Some((number, created))
    }

    /// Marks a message that was delivered before the first one.
    #[cold]
    fn mark(&mut self, ahead: usize) {
        if ahead >= self.delivered.len() {
            self.delivered.resize(ahead + 1, false);
        }
        self.delivered[ahead] = true;
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::Span;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn each_message_has_its_creation_time_in_any_order_of_delivery() {
        let times = [5, 5, 5, 7, 7, 9, 11, 11, 5, 5];
        let number = |place: usize| u64::from(u32::MAX) - 3 + place as u64;
        for step in [1, 3, 7, 9] {
            let mut pending = Pending {
                base: number(0),
                next: number(0),
                ..Pending::default()
            };
            times.iter().for_each(|ms| pending.push(at(*ms)));
            assert_eq!(pending.created.len(), 5);
            for place in (0..times.len()).map(|place| place * step % times.len()) {
                let taken = pending.take(number(place) as u32);
                assert_eq!(taken, Some((number(place), at(times[place]))), "step {step}");
                assert_eq!(pending.take(number(place) as u32), None, "delivered before");
            }
            assert_eq!((pending.delivered.len(), pending.base), (0, number(times.len())));
            assert_eq!(pending.take(number(times.len()) as u32), None, "never created");
            pending.push(at(11));
            pending.push(at(12));
            assert_eq!(pending.take(number(times.len() + 1) as u32).expect("new").1, at(12));
            assert_eq!(pending.take(number(times.len()) as u32).expect("new").1, at(11));
        }
    }

    #[test]
    fn messages_of_one_time_take_little_memory() {
        let mut pending = Pending::default();
        (0..1000).for_each(|_| pending.push(at(3)));
        assert!(pending.delivered.capacity() == 0 && pending.created.capacity() <= 4);
        assert!((0..1000).all(|number| pending.take(number) == Some((u64::from(number), at(3)))));
        assert!(pending.delivered.capacity() == 0);
    }
}
