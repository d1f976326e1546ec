//! Messages created and not yet delivered.

use std::collections::VecDeque;

use whimbrel_control::Time;

/// Messages after one that was given up for which its creation time is kept. It may still be delivered: an acknowledgement that did not arrive
/// in time is enough for a sender to give a message up.
const KEPT: usize = 4096;

/// What is known of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Fate {
    #[default]
    Unknown,
    Delivered,
    /// The sender has given it up.
    GivenUp,
}

/// Creation times of messages that are not yet delivered, by their number.
///
/// An endless flow fills the send buffer with about a thousand messages of one creation time, so equal times are stored once, and most
/// messages are delivered in order, so only those up to the last one with a known fate are marked.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Number of the first message that may still be delivered.
    base: u64,
    /// Number of the next message.
    next: u64,
    /// Number of messages of which neither is known: that they were delivered, or that the sender gave them up.
    open: u64,
    /// The fate of each message from `base` up to the last one whose fate is known. The first one was never delivered.
    fates: VecDeque<Fate>,
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
        self.open += 1;
    }

    /// Returns whether every message was delivered or given up.
    pub(super) fn is_settled(&self) -> bool {
        self.open == 0
    }

    /// Removes the message with this number, modulo 2^32, and returns its whole number and its creation time. None if it was delivered
    /// before, was given up long ago, or never created.
    #[inline]
    pub(super) fn take(&mut self, number: u32) -> Option<(u64, Time)> {
        let ahead = number.wrapping_sub(self.base as u32);
        let number = self.base + u64::from(ahead);
        if number >= self.next || self.fate(ahead) == Fate::Delivered {
            return None;
        }
        // Most messages are delivered in order, so that the first time is the right one.
        let place = match self.created.get(1) {
            Some((next, _)) if *next <= number => self.created.partition_point(|(first, _)| *first <= number) - 1,
            _ => 0,
        };
        let created = self.created[place].1;
        self.open -= u64::from(self.fate(ahead) == Fate::Unknown);
        if ahead == 0 {
            self.base += 1;
            self.fates.pop_front();
            self.forget();
        } else {
            self.mark(ahead as usize, Fate::Delivered);
        }
        Some((number, created))
    }

    /// Notes that the sender has given up the message with this number, modulo 2^32.
    pub(super) fn give_up(&mut self, number: u32) {
        let ahead = number.wrapping_sub(self.base as u32);
        let is_pending = self.base + u64::from(ahead) < self.next;
        if is_pending && self.fate(ahead) == Fate::Unknown {
            self.open -= 1;
            self.mark(ahead as usize, Fate::GivenUp);
        }
    }

    /// Returns the fate of the message that is this far behind the first one.
    #[inline]
    fn fate(&self, ahead: u32) -> Fate {
        self.fates.get(ahead as usize).copied().unwrap_or_default()
    }

    /// Forgets the first messages, as far as they are not delivered any more.
    #[inline]
    fn forget(&mut self) {
        while let Some(first) = self.fates.front() {
            if *first == Fate::Unknown || *first == Fate::GivenUp && self.fates.len() <= KEPT {
                break;
            }
            self.fates.pop_front();
            self.base += 1;
        }
        while self.created.get(1).is_some_and(|(first, _)| *first <= self.base) {
            self.created.pop_front();
        }
    }

    /// Sets the fate of a message behind the first one.
    #[cold]
    fn mark(&mut self, ahead: usize, fate: Fate) {
        if ahead >= self.fates.len() {
            self.fates.resize(ahead + 1, Fate::Unknown);
        }
        self.fates[ahead] = fate;
        self.forget();
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
            assert_eq!((pending.fates.len(), pending.base), (0, number(times.len())));
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
        assert!(pending.fates.capacity() == 0 && pending.created.capacity() <= 4);
        assert!((0..1000).all(|number| pending.take(number) == Some((u64::from(number), at(3)))));
        assert!(pending.fates.capacity() == 0);
    }

    #[test]
    fn messages_that_were_given_up_are_forgotten_late() {
        let mut pending = Pending::default();
        (0..20_000).for_each(|number| pending.push(at(number)));
        pending.give_up(3);
        pending.give_up(19_999);
        pending.give_up(20_000);
        assert_eq!(pending.take(3), Some((3, at(3))), "delivered all the same");
        for number in (0..19_990).filter(|number| *number != 3) {
            match number % 2 {
                0 => pending.give_up(number),
                _ => assert_eq!(pending.take(number), Some((u64::from(number), at(u64::from(number))))),
            }
        }
        assert!(pending.fates.len() <= KEPT && pending.created.len() <= KEPT + 1);
        assert_eq!(pending.take(2), None, "given up long ago");
        assert_eq!(pending.take(19_988), Some((19_988, at(19_988))));
        assert_eq!(pending.take(19_988), None);
        assert_eq!(pending.take(19_998), Some((19_998, at(19_998))));
        // The fate of the other eight is not known. One that was given up and delivered counts once.
        assert_eq!((pending.open, pending.is_settled()), (8, false));
        for number in (19_990..19_998).rev() {
            pending.give_up(number);
            pending.take(number);
        }
        assert!(pending.is_settled());
    }
}
