//! Sequence numbers that wrap around: RFC 9260 §1.6, serial number arithmetic of RFC 1982.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

macro_rules! serial_number {
    ($(#[$doc:meta])* $name:ident, $int:ty, $bits:literal) => {
        $(#[$doc])*
        ///
        /// There is deliberately no `Ord`: "after" is not transitive on a circle. Two numbers exactly half the
        /// space apart are neither before nor after each other (RFC 1982 §3.2 leaves that case undefined).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $int);

        impl $name {
            // [9260:1.6-1, 1.6-4]
            #[doc = concat!("The number that follows; wraps to 0 after 2^", $bits, " - 1.")]
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.wrapping_add(1))
            }

            #[doc = concat!("The number before; wraps to 2^", $bits, " - 1 before 0.")]
            #[must_use]
            pub const fn previous(self) -> Self {
                Self(self.0.wrapping_sub(1))
            }

            /// Returns the number `steps` further on, modulo the size of the space. The same as `self + steps`.
            #[must_use]
            pub const fn add(self, steps: $int) -> Self {
                Self(self.0.wrapping_add(steps))
            }

            /// Returns the steps upwards from `from` to `self`, modulo the size of the space.
            #[must_use]
            pub const fn distance(self, from: Self) -> $int {
                self.0.wrapping_sub(from.0)
            }

            /// Returns whether `self` is greater than `other` in serial number arithmetic.
            // [9260:1.6-2, 1.6-5]
            #[must_use]
            pub const fn is_after(self, other: Self) -> bool {
                let distance = self.distance(other);
                distance != 0 && distance < 1 << ($bits - 1)
            }

            /// Returns whether `self` is less than `other` in serial number arithmetic.
            #[must_use]
            pub const fn is_before(self, other: Self) -> bool {
                other.is_after(self)
            }

            /// Returns whether `self` equals `other` or [is after](Self::is_after) it.
            #[must_use]
            pub const fn is_at_or_after(self, other: Self) -> bool {
                self.distance(other) < 1 << ($bits - 1)
            }

            /// Returns whether `self` equals `other` or [is before](Self::is_before) it.
            #[must_use]
            pub const fn is_at_or_before(self, other: Self) -> bool {
                other.is_at_or_after(self)
            }
        }

        impl Add<$int> for $name {
            type Output = Self;

            fn add(self, steps: $int) -> Self {
                Self(self.0.wrapping_add(steps))
            }
        }

        impl AddAssign<$int> for $name {
            fn add_assign(&mut self, steps: $int) {
                self.0 = self.0.wrapping_add(steps);
            }
        }

        impl Sub<$int> for $name {
            type Output = Self;

            fn sub(self, steps: $int) -> Self {
                Self(self.0.wrapping_sub(steps))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

serial_number!(
    /// Transmission Sequence Number of a DATA chunk, modulo 2^32.
    Tsn,
    u32,
    32
);

serial_number!(
    /// Stream Sequence Number of an ordered user message, modulo 2^16.
    Ssn,
    u16,
    16
);

serial_number!(
    /// Message Identifier of I-DATA chunks, modulo 2^32 (RFC 8260 §2.1).
    Mid,
    u32,
    32
);

/// The number of a user message in its stream, as its chunks carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageNumber {
    /// In DATA and FORWARD TSN chunks; undefined for an unordered message.
    Ssn(Ssn),
    /// In I-DATA and I-FORWARD-TSN chunks. Ordered and unordered messages of a stream are numbered apart.
    Mid(Mid),
}

impl MessageNumber {
    /// Returns whether it is a Message Identifier: the chunk is an I-DATA or I-FORWARD-TSN chunk.
    #[must_use]
    #[inline]
    pub const fn is_mid(self) -> bool {
        matches!(self, Self::Mid(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 9260 §1.6: the number after 2^32 - 1 is 0.
    // [9260:1.6-1, 1.6-4]
    #[test]
    fn wraps() {
        assert_eq!(Tsn(u32::MAX).next(), Tsn(0));
        assert_eq!(Tsn(0).previous(), Tsn(u32::MAX));
        assert_eq!(Tsn(u32::MAX - 1) + 5, Tsn(3));
        assert_eq!(Tsn(3) - 5, Tsn(u32::MAX - 1));
        assert_eq!(Ssn(u16::MAX).next(), Ssn(0));
        assert_eq!(Tsn(2).distance(Tsn(u32::MAX)), 3);
        assert_eq!(Tsn(u32::MAX).distance(Tsn(2)), u32::MAX - 2);
    }

    // [9260:1.6-2, 1.6-5]
    #[test]
    fn compares_across_the_wrap() {
        assert!(Tsn(0).is_after(Tsn(u32::MAX)));
        assert!(Tsn(u32::MAX).is_before(Tsn(0)));
        assert!(Tsn(5).is_at_or_after(Tsn(5)) && Tsn(5).is_at_or_before(Tsn(5)));
        assert!(!Tsn(5).is_after(Tsn(5)) && !Tsn(5).is_before(Tsn(5)));
        assert!(Ssn(0).is_after(Ssn(0x8001)));
        assert!(Ssn(0x7fff).is_after(Ssn(0)));
    }

    // RFC 1982 §3.2: numbers half the space apart are not ordered.
    #[test]
    fn half_the_space_apart_is_unordered() {
        let (a, b) = (Tsn(7), Tsn(7 + (1 << 31)));
        assert!(!a.is_after(b) && !b.is_after(a) && !a.is_before(b) && !b.is_before(a));
        assert!(b.previous().is_after(a));
        assert!(!Ssn(0x8000).is_after(Ssn(0)) && !Ssn(0).is_after(Ssn(0x8000)));
    }
}
