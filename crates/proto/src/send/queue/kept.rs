//! Messages of streams that are about to be reset (RFC 6525 §5.1.2 A1).

use std::collections::VecDeque;

use whimbrel_control::{Seq, Time};

use super::buffered::Buffered;
use super::limit::Limit;
use crate::config::NEVER;
use crate::message::Message;
use crate::streams::StreamList;

/// Streams that are about to be reset together.
#[derive(Debug)]
struct Kept {
    streams: StreamList,
    /// Messages in the lanes that were there before. They are sent with the old numbers.
    before: usize,
    /// The position of the first TSN behind the last one that the request names, once it is sent.
    first_after: Option<Seq>,
    /// Messages that came later, with what they count. They are sent after the reset.
    later: VecDeque<(Message, Limit, Buffered)>,
}

/// The place of a message that is kept back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct KeptPlace {
    list: usize,
    place: usize,
}

/// The streams that are about to be reset. No stream is in two lists.
#[derive(Debug)]
pub(super) struct KeptBack {
    lists: Vec<Kept>,
    /// All messages that came later.
    held: Buffered,
    /// When the first of them has to be given up, or earlier.
    first_expiry: Time,
}

impl Default for KeptBack {
    fn default() -> Self {
        KeptBack {
            lists: Vec::new(),
            held: Buffered::default(),
            first_expiry: NEVER,
        }
    }
}

impl KeptBack {
    /// Keeps back the messages of these streams from now on. `before`: messages of them in the lanes.
    pub(super) fn add(&mut self, streams: StreamList, before: usize) {
        self.lists.push(Kept {
            streams,
            before,
            first_after: None,
            later: VecDeque::new(),
        });
    }

    /// The request to reset these streams is sent. `first_after`: the position of the next TSN.
    pub(super) fn on_requested(&mut self, streams: &StreamList, first_after: Seq) {
        if let Some(kept) = self.lists.iter_mut().find(|kept| kept.streams == *streams) {
            kept.first_after = Some(first_after);
        }
    }

    /// Returns the position behind the last TSN that the outstanding request names.
    pub(super) fn first_after(&self) -> Option<Seq> {
        self.lists.iter().find_map(|kept| kept.first_after)
    }

    /// Returns what the messages count that came later.
    pub(super) fn held(&self) -> Buffered {
        self.held
    }

    /// Returns whether no stream is about to be reset.
    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Returns whether one of these streams is about to be reset.
    pub(super) fn overlaps(&self, streams: &StreamList) -> bool {
        self.lists.iter().any(|kept| kept.streams.overlaps(streams))
    }

    /// Returns whether all messages of these streams that came before have left the lanes.
    pub(super) fn are_drained(&self, streams: &StreamList) -> bool {
        self.lists
            .iter()
            .any(|kept| kept.streams == *streams && kept.before == 0)
    }

    /// Keeps a message if its stream is about to be reset, and returns it otherwise.
    pub(super) fn keep(&mut self, message: Message, limit: Limit, held: Buffered) -> Option<Message> {
        let stream = message.stream;
        let Some(kept) = self.lists.iter_mut().find(|kept| kept.streams.contains(stream)) else {
            return Some(message);
        };
        if let Limit::At(end) = limit {
            self.first_expiry = self.first_expiry.min(end);
        }
        kept.later.push_back((message, limit, held));
        self.held += held;
        None
    }

    /// Removes the messages whose lifetime is over. Calls `each` with each of them.
    pub(super) fn drop_expired(&mut self, now: Time, mut each: impl FnMut(&Message)) {
        if now < self.first_expiry {
            return;
        }
        self.first_expiry = NEVER;
        let (held, first_expiry) = (&mut self.held, &mut self.first_expiry);
        for kept in &mut self.lists {
            kept.later.retain(|(message, limit, counts)| {
                let expired = limit.is_reached(now, false);
                if expired {
                    *held -= *counts;
                    each(message);
                } else if let Limit::At(end) = limit {
                    *first_expiry = (*first_expiry).min(*end);
                }
                !expired
            });
        }
    }

    /// Returns what gives way to a message with this limit.
    pub(super) fn yields(&self, limit: Limit) -> Buffered {
        let later = self.lists.iter().flat_map(|kept| &kept.later);
        let yields = later.filter(|(_, own, _)| own.gives_way_to(limit));
        yields.map(|(_, _, held)| *held).sum()
    }

    /// Returns the number and the place of the last message that gives way to one with this limit, of those with the largest number, if that
    /// is at least `least`.
    pub(super) fn last_for(&self, limit: Limit, least: u16) -> Option<(u16, KeptPlace)> {
        let number = |own: Limit| match own {
            Limit::Priority(number) if number >= least && own.gives_way_to(limit) => Some(number),
            _ => None,
        };
        let places = self.lists.iter().enumerate().flat_map(|(list, kept)| {
            let later = kept.later.iter().enumerate();
            later.filter_map(move |(place, (_, own, _))| Some((number(*own)?, KeptPlace { list, place })))
        });
        places.max()
    }

    /// Removes the message at this place.
    pub(super) fn drop_at(&mut self, KeptPlace { list, place }: KeptPlace) -> Option<Message> {
        let (message, _, held) = self.lists.get_mut(list)?.later.remove(place)?;
        self.held -= held;
        Some(message)
    }

    /// Returns when the first message has to be given up, or earlier.
    pub(super) fn first_expiry(&self) -> Time {
        self.first_expiry
    }

    /// A message has left the lanes.
    pub(super) fn on_gone(&mut self, stream: u16) {
        if let Some(kept) = self.lists.iter_mut().find(|kept| kept.streams.contains(stream)) {
            kept.before = kept.before.saturating_sub(1);
        }
    }

    /// Ends the reset of these streams. Returns the messages that came later.
    pub(super) fn take(&mut self, streams: &StreamList) -> VecDeque<(Message, Limit, Buffered)> {
        let Some(place) = self.lists.iter().position(|kept| kept.streams == *streams) else {
            return VecDeque::new();
        };
        let kept = self.lists.remove(place);
        for (_, _, held) in &kept.later {
            self.held -= *held;
        }
        kept.later
    }

    /// Ends all resets. Returns the messages that came later.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Message> + '_ {
        self.held = Buffered::default();
        let lists = self.lists.drain(..);
        lists.flat_map(|kept| kept.later).map(|(message, _, _)| message)
    }

    /// Returns the allocated bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let lists = self
            .lists
            .iter()
            .map(|kept| kept.streams.heap_bytes() + kept.later.capacity() * size_of::<(Message, Limit, Buffered)>());
        size_of::<Self>() + self.lists.capacity() * size_of::<Kept>() + lists.sum::<usize>()
    }
}
