//! The numbers of messages: stream sequence numbers, or message identifiers with interleaving.

use whimbrel_wire::Ssn;

use crate::streams::StreamList;

/// The next number of each stream used so far.
#[derive(Debug)]
pub(super) enum Numbers {
    /// Of ordered messages. Unordered ones have no number.
    Ssns(Vec<Ssn>),
    /// Of ordered and of unordered messages, and of their fragments (RFC 8260 §2.1). In a box, as few associations have it.
    Mids(Box<Mids>),
}

/// The next numbers of each stream used so far, with interleaving.
#[derive(Debug, Default)]
pub(super) struct Mids(Vec<StreamMids>);

/// The next numbers of a stream. Of each stream, one message is begun at a time.
#[derive(Clone, Debug, Default)]
struct StreamMids {
    ordered: u32,
    unordered: u32,
    /// Of the message that has been begun.
    fsn: u32,
}

// Not inlined, so that the code for DATA chunks stays short.
impl Mids {
    #[inline(never)]
    fn take(&mut self, index: usize, unordered: bool) -> u32 {
        if index >= self.0.len() {
            self.0.resize(index + 1, StreamMids::default());
        }
        let of_stream = &mut self.0[index];
        of_stream.fsn = 0;
        let next = if unordered {
            &mut of_stream.unordered
        } else {
            &mut of_stream.ordered
        };
        let mid = *next;
        *next = mid.wrapping_add(1);
        mid
    }

    #[inline(never)]
    fn take_fsn(&mut self, index: usize) -> u32 {
        let Some(of_stream) = self.0.get_mut(index) else {
            return 0;
        };
        let fsn = of_stream.fsn;
        of_stream.fsn = fsn.wrapping_add(1);
        fsn
    }
}

impl Numbers {
    /// Returns the numbers of streams that have not been used.
    pub(super) fn new(is_interleaved: bool) -> Self {
        if is_interleaved {
            Numbers::Mids(Box::default())
        } else {
            Numbers::Ssns(Vec::new())
        }
    }

    /// Returns whether the messages are interleaved.
    pub(super) fn are_interleaved(&self) -> bool {
        matches!(self, Numbers::Mids(_))
    }

    /// Returns the number of the next message. Both kinds of numbers start at 0 (RFC 9260 §6.5, RFC 8260 §2.1).
    #[inline]
    // [9260:6.5-3, 6.5-4, 6.5-5, 6.5-6]
    // [6525:5.1.5-2, 5.1.6-1]
    pub(super) fn take(&mut self, stream: u16, unordered: bool) -> u32 {
        let index = usize::from(stream);
        match self {
            Numbers::Ssns(next_ssn) => {
                if unordered {
                    return 0;
                }
                if index >= next_ssn.len() {
                    next_ssn.resize(index + 1, Ssn(0));
                }
                let ssn = next_ssn[index];
                next_ssn[index] = Ssn(ssn.0.wrapping_add(1));
                u32::from(ssn.0)
            }
            Numbers::Mids(mids) => mids.take(index, unordered),
        }
    }

    /// Returns the fragment sequence number of the next fragment of the message that took its number last on this stream. DATA chunks have
    /// none.
    #[inline]
    pub(super) fn take_fsn(&mut self, stream: u16) -> u32 {
        match self {
            Numbers::Ssns(_) => 0,
            Numbers::Mids(mids) => mids.take_fsn(usize::from(stream)),
        }
    }

    /// These streams start at 0 again: ordered and unordered messages (RFC 8260 §2.3.2).
    // [8260:2-2, 2.3.2-1]
    pub(super) fn reset(&mut self, streams: &StreamList) {
        match (self, streams.listed()) {
            (numbers, None) => numbers.clear(),
            (Numbers::Ssns(next_ssn), Some(streams)) => {
                for &stream in streams {
                    if let Some(next) = next_ssn.get_mut(usize::from(stream)) {
                        *next = Ssn(0);
                    }
                }
            }
            (Numbers::Mids(mids), Some(streams)) => {
                for &stream in streams {
                    if let Some(next) = mids.0.get_mut(usize::from(stream)) {
                        *next = StreamMids::default();
                    }
                }
            }
        }
    }

    /// Returns whether the next messages of these streams have the number 0.
    pub(super) fn are_fresh(&self, streams: &StreamList) -> bool {
        let is_fresh = |stream: usize| match self {
            Numbers::Ssns(next_ssn) => next_ssn.get(stream).is_none_or(|next| next.0 == 0),
            Numbers::Mids(mids) => mids.0.get(stream).is_none_or(|next| next.ordered | next.unordered == 0),
        };
        match streams.listed() {
            None => {
                let used = match self {
                    Numbers::Ssns(next_ssn) => next_ssn.len(),
                    Numbers::Mids(mids) => mids.0.len(),
                };
                (0..used).all(is_fresh)
            }
            Some(streams) => streams.iter().all(|&stream| is_fresh(usize::from(stream))),
        }
    }

    /// All streams start at 0 again.
    pub(super) fn clear(&mut self) {
        match self {
            Numbers::Ssns(next_ssn) => next_ssn.clear(),
            Numbers::Mids(mids) => mids.0.clear(),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Numbers::Ssns(next_ssn) => next_ssn.capacity() * size_of::<Ssn>(),
            Numbers::Mids(mids) => size_of::<Mids>() + mids.0.capacity() * size_of::<StreamMids>(),
        }
    }

    /// Sets the next message identifiers of stream 0.
    #[cfg(test)]
    pub(super) fn set_mids(&mut self, ordered: u32, unordered: u32) {
        *self = Numbers::Mids(Box::new(Mids(vec![StreamMids {
            ordered,
            unordered,
            fsn: 0,
        }])));
    }
}
