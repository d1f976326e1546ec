//! The streams of a session as data channels use them: each is a pair, an outbound and an inbound stream with the same number, whose messages
//! are read by stream, and which ends by resets of both directions (RFC 8831 §6.7).

use std::collections::{BTreeMap, VecDeque};

use whimbrel_proto::Received;

/// A message that has arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incoming {
    /// The payload protocol identifier.
    pub ppid: u32,
    /// Its content.
    pub content: Vec<u8>,
}

/// Bytes that a message in a queue counts for besides its content.
const OVERHEAD: usize = 64;

/// What waits to be read on a stream.
#[derive(Debug)]
enum Entry {
    Message(Incoming),
    /// The peer has reset the stream: what follows belongs to its next use.
    End,
}

/// How far the reset of the own direction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum OwnReset {
    #[default]
    No,
    /// It is to be requested.
    Wanted,
    /// The peer has been asked.
    Requested,
    /// The peer has performed it.
    Done,
    /// The peer has refused it.
    Refused,
}

/// A pair of streams.
#[derive(Debug, Default)]
pub(crate) struct Pair {
    waiting: VecDeque<Entry>,
    /// The user has opened it, or the peer has sent on it, and the peer has not reset it since, as far as has been read.
    pub(crate) is_open: bool,
    /// The user sends nothing more on it.
    pub(crate) is_finished: bool,
    /// The user reads nothing more from it.
    pub(crate) is_stopped: bool,
    pub(crate) own_reset: OwnReset,
    /// The end of what the peer has sent has been read, and its reset reported.
    has_ended: bool,
    /// Parts of messages that are read in parts: ordered and unordered.
    parts: [Vec<u8>; 2],
}

/// What has happened to a pair of streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamNews {
    /// The peer has sent on a stream that was not in use.
    Opened(u16),
    /// There is a message to read.
    Readable(u16),
    /// Everything that the peer has sent before it reset the stream has been read.
    Finished(u16),
    /// Both directions have been reset: the number can be used again.
    ResetDone(u16),
    /// The peer has refused to reset the stream. The number cannot be used again.
    ResetRefused(u16),
}

/// All pairs of streams in use.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pairs: BTreeMap<u16, Pair>,
    pub(crate) news: VecDeque<StreamNews>,
    /// Bytes of messages that wait to be read.
    held: usize,
}

impl Streams {
    pub(crate) fn get(&self, stream: u16) -> Option<&Pair> {
        self.pairs.get(&stream)
    }

    pub(crate) fn get_mut(&mut self, stream: u16) -> Option<&mut Pair> {
        self.pairs.get_mut(&stream)
    }

    /// Returns the bytes that wait to be read, with those of messages that are incomplete.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Returns the streams in use.
    pub(crate) fn open(&self) -> impl Iterator<Item = u16> + '_ {
        self.pairs
            .iter()
            .filter(|(_, pair)| pair.is_open)
            .map(|(&stream, _)| stream)
    }

    /// Returns whether a message waits on a stream that the user can read.
    pub(crate) fn has_message(&self) -> bool {
        let is_readable = |pair: &Pair| pair.is_open && matches!(pair.waiting.front(), Some(Entry::Message(_)));
        self.pairs.values().any(is_readable)
    }

    /// Returns the length of a message with the part that has just been read.
    pub(crate) fn len_with(&self, read: &Received) -> usize {
        let pair = self.pairs.get(&read.stream).filter(|_| !read.begin);
        read.len + pair.map_or(0, |pair| pair.parts[usize::from(read.unordered)].len())
    }

    /// The user opens a stream that is not in use.
    pub(crate) fn open_locally(&mut self, stream: u16) {
        self.pairs.entry(stream).or_default().is_open = true;
    }

    /// A message, or a part of one, has arrived.
    pub(crate) fn on_part(&mut self, stream: u16, ppid: u32, unordered: bool, ends: (bool, bool), content: &[u8]) {
        let (begins, ends) = ends;
        let is_new = !self.pairs.contains_key(&stream);
        let pair = self.pairs.entry(stream).or_default();
        let parts = &mut pair.parts[usize::from(unordered)];
        if begins {
            // The rest of an earlier one will never arrive.
            self.held = self.held.saturating_sub(std::mem::take(parts).len());
        }
        parts.extend_from_slice(content);
        self.held += content.len();
        if is_new {
            pair.is_open = true;
            self.news.push_back(StreamNews::Opened(stream));
        }
        if !ends {
            return;
        }
        let content = std::mem::take(parts);
        let ended_before = pair.has_ended || pair.waiting.iter().any(|entry| matches!(entry, Entry::End));
        if pair.is_stopped && !ended_before {
            self.held = self.held.saturating_sub(content.len());
            return;
        }
        self.held += OVERHEAD;
        pair.waiting.push_back(Entry::Message(Incoming { ppid, content }));
        if !ended_before {
            self.news.push_back(StreamNews::Readable(stream));
        }
    }

    /// Returns the payload protocol identifier of the next message of a stream.
    pub(crate) fn next_ppid(&self, stream: u16) -> Option<u32> {
        let pair = self
            .pairs
            .get(&stream)
            .filter(|pair| pair.is_open && !pair.is_stopped)?;
        match pair.waiting.front() {
            Some(Entry::Message(message)) => Some(message.ppid),
            _ => None,
        }
    }

    /// Forgets a stream that has not been used.
    pub(crate) fn forget(&mut self, stream: u16) {
        let is_unused = |pair: &Pair| {
            pair.waiting.is_empty() && pair.parts.iter().all(Vec::is_empty) && pair.own_reset == OwnReset::No
        };
        if self.pairs.get(&stream).is_some_and(is_unused) {
            self.pairs.remove(&stream);
        }
    }

    /// Takes the next message of a stream.
    pub(crate) fn take(&mut self, stream: u16) -> Option<Incoming> {
        let pair = self
            .pairs
            .get_mut(&stream)
            .filter(|pair| pair.is_open && !pair.is_stopped)?;
        let Some(Entry::Message(_)) = pair.waiting.front() else {
            return None;
        };
        let Some(Entry::Message(message)) = pair.waiting.pop_front() else {
            return None;
        };
        self.held = self.held.saturating_sub(message.content.len() + OVERHEAD);
        self.settle(stream);
        Some(message)
    }

    /// The user reads nothing more from a stream.
    pub(crate) fn stop(&mut self, stream: u16) {
        let Some(pair) = self.pairs.get_mut(&stream) else {
            return;
        };
        pair.is_stopped = true;
        while let Some(Entry::Message(_)) = pair.waiting.front() {
            if let Some(Entry::Message(message)) = pair.waiting.pop_front() {
                self.held = self.held.saturating_sub(message.content.len() + OVERHEAD);
            }
        }
        self.settle(stream);
    }

    /// The peer has reset a stream. The other direction is reset too.
    pub(crate) fn on_peer_reset(&mut self, stream: u16) {
        let Some(pair) = self.pairs.get_mut(&stream) else {
            return;
        };
        if pair.own_reset == OwnReset::No {
            pair.own_reset = OwnReset::Wanted;
        }
        pair.waiting.push_back(Entry::End);
        self.settle(stream);
    }

    /// The peer has, or has not, performed the reset of the own direction of a stream.
    pub(crate) fn on_own_reset(&mut self, stream: u16, is_done: bool) {
        let Some(pair) = self.pairs.get_mut(&stream) else {
            return;
        };
        pair.own_reset = if is_done { OwnReset::Done } else { OwnReset::Refused };
        if !is_done {
            self.news.push_back(StreamNews::ResetRefused(stream));
        }
        self.settle(stream);
    }

    /// Takes the streams whose own direction is to be reset, `most` at most.
    pub(crate) fn take_wanted_resets(&mut self, most: usize) -> Vec<u16> {
        let wanted = self
            .pairs
            .iter_mut()
            .filter(|(_, pair)| pair.own_reset == OwnReset::Wanted);
        wanted
            .take(most)
            .map(|(&stream, pair)| {
                pair.own_reset = OwnReset::Requested;
                stream
            })
            .collect()
    }

    /// Ends what can be ended: the use by the peer once it has been read, and that of the number once both directions have been reset.
    fn settle(&mut self, stream: u16) {
        let Some(pair) = self.pairs.get_mut(&stream) else {
            return;
        };
        if let Some(Entry::End) = pair.waiting.front()
            && !pair.has_ended
        {
            pair.waiting.pop_front();
            pair.has_ended = true;
            pair.is_open = false;
            self.news.push_back(StreamNews::Finished(stream));
        }
        if !pair.has_ended || pair.own_reset != OwnReset::Done {
            return;
        }
        self.news.push_back(StreamNews::ResetDone(stream));
        let (waiting, parts) = (std::mem::take(&mut pair.waiting), std::mem::take(&mut pair.parts));
        *pair = Pair::default();
        if waiting.is_empty() && parts.iter().all(Vec::is_empty) {
            self.pairs.remove(&stream);
            return;
        }
        // The peer uses the number again.
        pair.is_open = true;
        let has_message = matches!(waiting.front(), Some(Entry::Message(_)));
        let ends_at_once = matches!(waiting.front(), Some(Entry::End));
        (pair.waiting, pair.parts) = (waiting, parts);
        self.news.push_back(StreamNews::Opened(stream));
        if has_message {
            self.news.push_back(StreamNews::Readable(stream));
        }
        if ends_at_once {
            pair.own_reset = OwnReset::Wanted;
            self.settle(stream);
        }
    }

    /// The association has ended, or the peer has restarted: no stream is in use any more.
    pub(crate) fn clear(&mut self, is_restart: bool) {
        for (stream, pair) in std::mem::take(&mut self.pairs) {
            if is_restart && pair.is_open {
                self.news.push_back(StreamNews::Finished(stream));
            }
            if is_restart {
                self.news.push_back(StreamNews::ResetDone(stream));
            }
        }
        self.held = 0;
    }
}
