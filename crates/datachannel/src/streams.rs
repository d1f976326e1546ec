//! The streams of a session as data channels use them: each is a pair, an outbound and an inbound stream with the same number, whose messages
//! are read by stream, and which ends by resets of both directions (RFC 8831 §6.7).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
    /// Resets by the peer that wait.
    ends: usize,
    /// It is another one for each use of the stream.
    number: u64,
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
    /// Those of them that belong to incomplete messages.
    incomplete: usize,
    /// Streams whose own direction is to be reset, and that have not been looked at.
    wanted: BTreeSet<u16>,
    /// Of those, the ones on which messages are on their way.
    sending: BTreeSet<u16>,
    /// Of those, the ones whose reset can be requested.
    due: BTreeSet<u16>,
    /// The number of the last use of a stream.
    last_number: u64,
}

impl Streams {
    pub(crate) fn get(&self, stream: u16) -> Option<&Pair> {
        self.pairs.get(&stream)
    }

    pub(crate) fn get_mut(&mut self, stream: u16) -> Option<&mut Pair> {
        self.pairs.get_mut(&stream)
    }

    /// Returns a number for the present use of a stream, if it is in use. The next use has another one.
    pub(crate) fn number(&self, stream: u16) -> Option<u64> {
        self.pairs.get(&stream).map(|pair| pair.number)
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

    /// Returns the bytes of incomplete messages.
    pub(crate) fn incomplete(&self) -> usize {
        self.incomplete
    }

    /// Returns the length of a message with the part that has just been read.
    pub(crate) fn len_with(&self, read: &Received) -> usize {
        let pair = self.pairs.get(&read.stream).filter(|_| !read.begin);
        read.len + pair.map_or(0, |pair| pair.parts[usize::from(read.unordered)].len())
    }

    /// The user opens a stream that is not in use.
    pub(crate) fn open_locally(&mut self, stream: u16) {
        self.entry(stream).is_open = true;
    }

    /// Returns a pair of streams, which is in use from now on.
    fn entry(&mut self, stream: u16) -> &mut Pair {
        self.pairs.entry(stream).or_insert_with(|| {
            self.last_number += 1;
            let number = self.last_number;
            Pair {
                number,
                ..Pair::default()
            }
        })
    }

    /// A message, or a part of one, has arrived.
    pub(crate) fn on_part(&mut self, stream: u16, ppid: u32, unordered: bool, ends: (bool, bool), content: &[u8]) {
        let (begins, ends) = ends;
        let is_new = !self.pairs.contains_key(&stream);
        let pair = self.entry(stream);
        let ended_before = pair.has_ended || pair.ends > 0;
        if pair.is_stopped && !ended_before {
            return;
        }
        pair.is_open |= is_new;
        let parts = &mut pair.parts[usize::from(unordered)];
        // The rest of an earlier message never arrives.
        let given_up = if begins { std::mem::take(parts).len() } else { 0 };
        parts.extend_from_slice(content);
        let complete = ends.then(|| std::mem::take(parts));
        self.held = self.held - given_up + content.len();
        self.incomplete = self.incomplete - given_up + content.len();
        if is_new {
            self.news.push_back(StreamNews::Opened(stream));
        }
        let Some(content) = complete else {
            return;
        };
        self.incomplete -= content.len();
        self.held += OVERHEAD;
        self.entry(stream)
            .waiting
            .push_back(Entry::Message(Incoming { ppid, content }));
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
        if pair.has_ended {
            // What waits belongs to the next use.
            return;
        }
        if pair.ends == 0 {
            self.drop_parts(stream);
        }
        let Some(pair) = self.pairs.get_mut(&stream) else {
            return;
        };
        while let Some(Entry::Message(_)) = pair.waiting.front() {
            if let Some(Entry::Message(message)) = pair.waiting.pop_front() {
                self.held = self.held.saturating_sub(message.content.len() + OVERHEAD);
            }
        }
        self.settle(stream);
    }

    /// The peer has reset a stream. The other direction is reset too.
    pub(crate) fn on_peer_reset(&mut self, stream: u16) {
        self.drop_parts(stream);
        let is_known = self.pairs.contains_key(&stream);
        let pair = self.entry(stream);
        // RFC 8831 §6.7: the peer waits for a reset of the other direction, even if it has sent nothing.
        pair.has_ended |= !is_known;
        // Nothing has been sent since the last reset. One that is under way is the answer to both.
        let is_unused = match pair.waiting.back() {
            Some(last) => matches!(last, Entry::End),
            None => pair.has_ended,
        };
        if is_unused {
            if pair.own_reset == OwnReset::Done {
                pair.own_reset = OwnReset::No;
            }
            self.want_reset(stream);
            return;
        }
        pair.waiting.push_back(Entry::End);
        pair.ends += 1;
        self.want_reset(stream);
        self.settle(stream);
    }

    /// The own direction of a stream is to be reset, unless it is or has been.
    pub(crate) fn want_reset(&mut self, stream: u16) {
        if let Some(pair) = self.pairs.get_mut(&stream)
            && pair.own_reset == OwnReset::No
        {
            pair.own_reset = OwnReset::Wanted;
            self.wanted.insert(stream);
        }
    }

    /// The incomplete messages of a stream will not become complete, or the user has stopped reading.
    fn drop_parts(&mut self, stream: u16) {
        if let Some(pair) = self.pairs.get_mut(&stream) {
            let len: usize = std::mem::take(&mut pair.parts).iter().map(Vec::len).sum();
            self.held -= len;
            self.incomplete -= len;
        }
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

    /// Takes a stream whose own direction is to be reset.
    pub(crate) fn take_wanted(&mut self) -> Option<u16> {
        self.wanted.pop_first()
    }

    /// The reset of a stream that was [taken](Self::take_wanted) can be requested now, or once what was sent on it has arrived.
    pub(crate) fn set_wanted(&mut self, stream: u16, is_due: bool) {
        let list = if is_due { &mut self.due } else { &mut self.sending };
        list.insert(stream);
    }

    /// What was sent on a stream has arrived.
    pub(crate) fn on_sent(&mut self, stream: u16) {
        if self.sending.remove(&stream) {
            self.due.insert(stream);
        }
    }

    /// Takes the streams whose resets can be requested, `most` at most.
    pub(crate) fn take_due(&mut self, most: usize) -> Vec<u16> {
        let due: Vec<u16> = std::iter::from_fn(|| self.due.pop_first()).take(most).collect();
        for stream in &due {
            if let Some(pair) = self.pairs.get_mut(stream) {
                pair.own_reset = OwnReset::Requested;
            }
        }
        due
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
            pair.ends -= 1;
            pair.has_ended = true;
            pair.is_open = false;
            self.news.push_back(StreamNews::Finished(stream));
        }
        if !pair.has_ended || pair.own_reset != OwnReset::Done {
            return;
        }
        self.news.push_back(StreamNews::ResetDone(stream));
        let waiting = std::mem::take(&mut pair.waiting);
        let (parts, ends) = (std::mem::take(&mut pair.parts), pair.ends);
        self.pairs.remove(&stream);
        if waiting.is_empty() && parts.iter().all(Vec::is_empty) {
            return;
        }
        // The peer uses the number again.
        let has_message = !waiting.is_empty();
        let pair = self.entry(stream);
        pair.is_open = true;
        (pair.waiting, pair.parts, pair.ends) = (waiting, parts, ends);
        self.news.push_back(StreamNews::Opened(stream));
        if has_message {
            self.news.push_back(StreamNews::Readable(stream));
        }
        if ends > 0 {
            self.want_reset(stream);
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
        for list in [&mut self.wanted, &mut self.sending, &mut self.due] {
            list.clear();
        }
        (self.held, self.incomplete) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // What a peer sends without a limit takes no memory without a limit.
    #[test]
    fn many_resets_of_a_stream_are_one() {
        let mut streams = Streams::default();
        streams.on_part(2, 51, false, (true, true), b"unread");
        for _ in 0..1000 {
            streams.on_peer_reset(2);
            assert_eq!(streams.take_wanted(), Some(2));
            streams.on_own_reset(2, true);
        }
        assert_eq!(streams.pairs[&2].waiting.len(), 2);
        streams.take(2);
        assert!(streams.pairs.is_empty());
    }

    #[test]
    fn a_reset_gives_up_the_message_that_is_incomplete() {
        let mut streams = Streams::default();
        streams.on_part(2, 53, false, (true, false), &[0; 1000]);
        assert_eq!((streams.held(), streams.incomplete()), (1000, 1000));
        streams.on_peer_reset(2);
        streams.on_own_reset(2, true);
        assert_eq!((streams.held(), streams.incomplete()), (0, 0));
        assert!(streams.pairs.is_empty());
    }

    // The response to the own reset is lost, so that only the peer knows that the number is free.
    #[test]
    fn a_stop_leaves_the_messages_of_the_next_use() {
        let mut streams = Streams::default();
        streams.on_part(2, 50, false, (true, true), b"old");
        streams.take(2);
        streams.on_peer_reset(2);
        streams.on_part(2, 50, false, (true, true), b"new");
        streams.stop(2);
        streams.on_own_reset(2, true);
        assert_eq!(streams.take(2).map(|message| message.content), Some(b"new".to_vec()));
    }

    #[test]
    fn a_stopped_stream_holds_nothing() {
        let mut streams = Streams::default();
        streams.on_part(2, 53, false, (true, false), &[0; 1000]);
        streams.stop(2);
        streams.on_part(2, 53, false, (false, false), &[0; 1000]);
        assert_eq!((streams.held(), streams.incomplete()), (0, 0));
    }
}
