//! What an association's user has requested of its streams, and what has become of it (RFC 6525).

use std::collections::VecDeque;

use whimbrel_proto::{Event, StreamChange};

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
    /// Whether the user still waits for the answer.
    is_awaited: bool,
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
        self.requested.push(Requested {
            id,
            change,
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
        let is_done = |requested: &Requested| match (change, &requested.change) {
            // The peer may reset more, and add fewer, than it was asked to.
            (StreamChange::ResetInbound(streams), StreamChange::ResetInbound(wanted)) => streams.includes(wanted),
            (StreamChange::AddInbound(_), StreamChange::AddInbound(_)) => true,
            (_, wanted) => change == wanted,
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
