//! Duplicate detection of requests, and the order of sequence numbers.

use whimbrel_control::{Span, Time};

use super::Address;

/// Returns whether sequence number `a` is newer than `b`, by their signed difference (RFC 3561 §6.1).
#[inline]
pub(super) fn newer(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Returns the newer of two sequence numbers.
#[inline]
pub(super) fn newest(a: u32, b: u32) -> u32 {
    if newer(b, a) { b } else { a }
}

/// Recent requests by originator: the highest number, and which of the 64 numbers below it were seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The address of each originator: kept contiguous, because it is searched for each request.
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
    /// Returns whether a request was seen before, and remembers it for at least the given time.
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

    /// Removes originators without recent requests.
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
    fn sequence_numbers_wrap_around() {
        assert!(newer(0, u32::MAX) && newer(5, u32::MAX - 5) && !newer(u32::MAX, 0) && !newer(7, 7));
        assert_eq!(newest(u32::MAX, 1), 1);
    }

    #[test]
    fn duplicates_are_detected_in_any_order() {
        let mut seen = Seen::default();
        let keep = Span::from_secs(5);
        let order = [3, 1, 2, 3, 1, 70, 69, 2, 70, u32::MAX];
        let first = order.map(|id| !seen.check(Time::ZERO, 1, id, keep));
        // Request 2 is more than 64 behind when it arrives again.
        assert_eq!(first, [true, true, true, false, false, true, true, false, false, false]);
        assert!(!seen.check(Time::ZERO, 2, 3, keep), "another originator");
        assert!(!seen.check(Time::ZERO + keep, 1, 3, keep), "it is forgotten");
    }
}
