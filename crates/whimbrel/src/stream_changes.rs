//! What an association's user has requested of its streams, and what has become of it (RFC 6525).

use std::collections::VecDeque;

use whimbrel_proto::{Event, StreamChange, StreamList};

/// Changes by the peer that are kept for a user who does not ask. Further ones are not reported.
const MAX_KEPT: usize = 256;

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    /// With the result code of the peer.
    Refused(u32),
    /// The peer has restarted.
    Lost,
}

/// A request of the user.
#[derive(Debug)]
struct Requested {
    id: u64,
    change: StreamChange,
    /// Of streams that the peer is to reset, those that it has not reset yet. It may reset some earlier than others.
    left: Option<StreamList>,
    /// Whether the user still waits for the answer.
    is_awaited: bool,
}

impl Requested {
    fn on_reset(&mut self, streams: &StreamList) {
        if let Some(left) = &mut self.left {
            *left = left.without(streams);
        }
    }
}

/// Changes that the user has requested, and changes that have happened.
#[derive(Debug, Default)]
pub(crate) struct StreamChanges {
    next: u64,
    requested: Vec<Requested>,
    /// Answers that the user has not taken, by the number of the request.
    answered: Vec<(u64, Answer)>,
    /// Changes that the user has not requested.
    by_peer: VecDeque<StreamChange>,
}

impl StreamChanges {
    /// The user has requested a change. Returns the number of the request.
    pub(crate) fn request(&mut self, change: StreamChange) -> u64 {
        let id = self.next;
        self.next += 1;
        let left = match &change {
            StreamChange::ResetInbound(streams) => Some(streams.clone()),
            _ => None,
        };
        self.requested.push(Requested {
            id,
            change,
            left,
            is_awaited: true,
        });
        id
    }

    /// The user does not wait for the answer to a request any more.
    pub(crate) fn forget(&mut self, id: u64) {
        self.answered.retain(|(answered, _)| *answered != id);
        for requested in &mut self.requested {
            requested.is_awaited &= requested.id != id;
        }
    }

    /// Takes in an event of the endpoint. Returns whether it concerns streams.
    pub(crate) fn on_event(&mut self, event: &Event) -> bool {
        match event {
            Event::StreamsChanged(change) => self.on_changed(change),
            Event::StreamChangeRefused { change, result } => self.on_refused(change, *result),
            _ => return false,
        }
        true
    }

    fn on_changed(&mut self, change: &StreamChange) {
        if let StreamChange::ResetInbound(streams) = change {
            for requested in &mut self.requested {
                requested.on_reset(streams);
            }
        }
        let is_done = |requested: &Requested| match &requested.left {
            Some(left) => left.is_empty(),
            None => requested.change == *change,
        };
        let place = self.requested.iter().position(is_done);
        let is_all = place.is_some_and(|place| self.requested[place].change == *change);
        if let Some(place) = place {
            self.answer(place, Answer::Done);
        }
        if !is_all && self.by_peer.len() < MAX_KEPT {
            self.by_peer.push_back(change.clone());
        }
    }

    fn on_refused(&mut self, change: &StreamChange, result: u32) {
        let place = self.requested.iter().position(|requested| requested.change == *change);
        // The peer has nothing to reset.
        let is_done = result == 0 && matches!(change, StreamChange::ResetInbound(_));
        if let Some(place) = place {
            self.answer(place, if is_done { Answer::Done } else { Answer::Refused(result) });
        }
    }

    fn answer(&mut self, place: usize, answer: Answer) {
        let requested = self.requested.remove(place);
        if requested.is_awaited {
            self.answered.push((requested.id, answer));
        }
    }

    /// Forgets what was requested: the peer has restarted.
    pub(crate) fn on_restart(&mut self) {
        self.requested.clear();
        self.by_peer.clear();
    }

    /// Returns the answer to a request, once there is one.
    pub(crate) fn take_answer(&mut self, id: u64) -> Option<Answer> {
        let place = self.answered.iter().position(|(answered, _)| *answered == id);
        match place {
            Some(place) => Some(self.answered.swap_remove(place).1),
            None if self.requested.iter().any(|requested| requested.id == id) => None,
            None => Some(Answer::Lost),
        }
    }

    /// Returns the next change that the user has not requested.
    pub(crate) fn take_by_peer(&mut self) -> Option<StreamChange> {
        self.by_peer.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbound(streams: &[u16]) -> StreamChange {
        StreamChange::ResetInbound(StreamList::of(streams.iter().copied()))
    }

    #[test]
    fn a_request_is_done_when_all_of_its_streams_have_been_reset() {
        let mut changes = StreamChanges::default();
        let (first, second) = (changes.request(inbound(&[1, 2])), changes.request(inbound(&[3])));
        let mut reset = |streams: &[u16]| {
            changes.on_changed(&inbound(streams));
            [first, second].map(|id| matches!(changes.take_answer(id), Some(Answer::Done)))
        };
        assert_eq!(reset(&[2, 4]), [false, false]);
        assert_eq!(reset(&[2]), [false, false]);
        assert_eq!(reset(&[1]), [true, false]);
        assert_eq!(reset(&[3]), [false, true]);
        // What equals the request is its answer, everything else is news.
        let news: Vec<_> = std::iter::from_fn(|| changes.take_by_peer()).collect();
        assert_eq!(news, [inbound(&[2, 4]), inbound(&[2]), inbound(&[1])]);
    }

    #[test]
    fn streams_that_the_peer_adds_of_its_own_accord_answer_no_request() {
        let mut changes = StreamChanges::default();
        let id = changes.request(StreamChange::AddInbound(3));
        changes.on_changed(&StreamChange::AddInbound(1));
        assert!(changes.take_answer(id).is_none());
        assert_eq!(changes.take_by_peer(), Some(StreamChange::AddInbound(1)));
        changes.on_changed(&StreamChange::AddInbound(3));
        assert!(matches!(changes.take_answer(id), Some(Answer::Done)));
        assert_eq!(changes.take_by_peer(), None);
    }
}
