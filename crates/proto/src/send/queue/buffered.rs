//! User data that the send buffer holds.

use std::ops::{Add, AddAssign, SubAssign};

/// User data in the send buffer. Long messages count otherwise than others: see [`Buffered::counted`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Buffered {
    /// Bytes of all messages.
    pub(crate) bytes: usize,
    /// Of these, bytes of long messages.
    pub(crate) long: usize,
    /// Number of messages, or of chunks.
    pub(crate) count: usize,
}

impl Buffered {
    /// This many bytes of a message, which do not change the number.
    #[inline]
    pub(crate) fn of(bytes: usize, is_long: bool) -> Self {
        Buffered {
            bytes,
            long: if is_long { bytes } else { 0 },
            count: 0,
        }
    }

    /// This many bytes of a message or chunk.
    #[inline]
    pub(crate) fn one(bytes: usize, is_long: bool) -> Self {
        Buffered {
            count: 1,
            ..Buffered::of(bytes, is_long)
        }
    }

    /// Returns the bytes that leave no room for short messages: the long ones together count for a share of the buffer at most, whether
    /// they wait or are in flight. Otherwise one of them would keep others out for as long as it is sent.
    pub(crate) fn counted(self, share: usize) -> usize {
        self.bytes - self.long + self.long.min(share)
    }

    /// Returns what is left without a part of it.
    pub(crate) fn without(mut self, part: Buffered) -> Self {
        self -= part;
        self
    }
}

impl AddAssign for Buffered {
    #[inline]
    fn add_assign(&mut self, more: Buffered) {
        self.bytes += more.bytes;
        self.long += more.long;
        self.count += more.count;
    }
}

impl Add for Buffered {
    type Output = Buffered;

    fn add(mut self, more: Buffered) -> Buffered {
        self += more;
        self
    }
}

impl SubAssign for Buffered {
    #[inline]
    fn sub_assign(&mut self, less: Buffered) {
        self.bytes -= less.bytes;
        self.long -= less.long;
        self.count -= less.count;
    }
}

impl std::iter::Sum for Buffered {
    fn sum<I: Iterator<Item = Buffered>>(all: I) -> Buffered {
        all.fold(Buffered::default(), Buffered::add)
    }
}
