//! Requests seen before, and the order of sequence numbers.

use whimbrel_control::{Span, Time};

use super::Address;

/// Whether sequence number `a` is newer than `b`, which is told by their signed difference (RFC 3561 §6.1).
#[inline]
pub(super) fn newer(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// The newer of two sequence numbers.
#[inline]
pub(super) fn newest(a: u32, b: u32) -> u32 {
    if newer(b, a) { b } else { a }
}

/// Requests seen lately, by originator: the highest number and which of the 64 below were seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The address of each originator: searched for each request, so kept close together.
    addresses: Vec<Address>,
    originators: Vec<Originator>,
}

#[derive(Clone, Copy, Debug)]
struct Originator {
    highest: u32,
    /// Bit `i` is request `highest - i`.
    below: u64,
    until: Time,
}

impl Seen {
    /// Whether a request was seen before; it is from now on, for the given time at least.
    pub(super) fn check(&mut self, now: Time, address: Address, id: u32, keep: Span) -> bool {
        let until = now + keep;
        let fresh = Originator {
            highest: id,
            below: 1,
            until,
        };
        let place = match self.addresses.binary_search(&address) {
            Ok(place) => place,
            Err(place) => {
                self.addresses.insert(place, address);
                self.originators.insert(place, fresh);
                return false;
            }
        };
        let known = &mut self.originators[place];
        if known.until <= now {
            *known = fresh;
            return false;
        }
        if newer(id, known.highest) {
            let ahead = id.wrapping_sub(known.highest);
            known.below = known.below.checked_shl(ahead).unwrap_or(0) | 1;
            known.highest = id;
            known.until = until;
            return false;
        }
        let behind = known.highest.wrapping_sub(id);
        let Some(bit) = 1_u64.checked_shl(behind) else {
            return true;
        };
        let seen = known.below & bit != 0;
        known.below |= bit;
        known.until = until;
        seen
    }

    /// Forgets originators of whom nothing was heard for long enough.
    pub(super) fn purge(&mut self, now: Time) {
        let mut known = self.originators.iter();
        self.addresses
            .retain(|_| known.next().is_some_and(|known| known.until > now));
        self.originators.retain(|known| known.until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_turn_over() {
        assert!(newer(0, u32::MAX) && newer(5, u32::MAX - 5) && !newer(u32::MAX, 0) && !newer(7, 7));
        assert_eq!(newest(u32::MAX, 1), 1);
    }

    #[test]
    fn requests_are_seen_once_whatever_their_order() {
        let mut seen = Seen::default();
        let keep = Span::from_secs(5);
        let order = [3, 1, 2, 3, 1, 70, 69, 2, 70, u32::MAX];
        let first = order.map(|id| !seen.check(Time::ZERO, 1, id, keep));
        // Request 2 is more than 64 behind when it comes again.
        assert_eq!(first, [true, true, true, false, false, true, true, false, false, false]);
        assert!(!seen.check(Time::ZERO, 2, 3, keep), "another originator");
        assert!(!seen.check(Time::ZERO + keep, 1, 3, keep), "it is forgotten");
    }
}
