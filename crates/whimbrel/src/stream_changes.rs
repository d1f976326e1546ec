//! What an association's user has requested of its streams, and what has become of it (RFC 6525).

use std::collections::VecDeque;

use whimbrel_proto::{Event, StreamChange};

/// Changes by the peer that are kept for a user who does not ask. Further ones are not reported.
const MAX_KEPT: usize = 1024;

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    /// With the result code of the peer.
    Refused(u32),
    /// The peer has restarted.
    Lost,
}

/// Changes that the user has requested, and changes that have happened.
#[derive(Debug, Default)]
pub(crate) struct StreamChanges {
    requested: Vec<StreamChange>,
    /// Those of them that have an answer.
    answered: Vec<(StreamChange, Answer)>,
    /// Changes that the user has not requested.
    by_peer: VecDeque<StreamChange>,
}

impl StreamChanges {
    /// The user has requested a change.
    pub(crate) fn request(&mut self, change: StreamChange) {
        // A user who has given up waiting has not taken the answer.
        self.answered.retain(|(answered, _)| *answered != change);
        if !self.requested.contains(&change) {
            self.requested.push(change);
        }
    }

    /// Takes in an event of the endpoint. Returns whether it concerns streams.
    pub(crate) fn on_event(&mut self, event: &Event) -> bool {
        match event {
            Event::StreamsChanged(change) => self.on_changed(change.clone()),
            Event::StreamChangeRefused { change, result } => self.on_refused(change.clone(), *result),
            _ => return false,
        }
        true
    }

    /// Streams have been changed.
    fn on_changed(&mut self, change: StreamChange) {
        let is_done = |wanted: &&StreamChange| match (&change, wanted) {
            // The peer may reset more than it was asked to.
            (StreamChange::ResetInbound(streams), StreamChange::ResetInbound(wanted)) => streams.includes(wanted),
            _ => change == **wanted,
        };
        let done = self.requested.iter().find(is_done).cloned();
        let is_all = done.as_ref() == Some(&change);
        if let Some(wanted) = done {
            self.answer(wanted, Answer::Done);
        }
        if !is_all && self.by_peer.len() < MAX_KEPT {
            self.by_peer.push_back(change);
        }
    }

    /// The peer has refused a change.
    fn on_refused(&mut self, change: StreamChange, result: u32) {
        if self.requested.contains(&change) {
            self.answer(change, Answer::Refused(result));
        }
    }

    fn answer(&mut self, change: StreamChange, answer: Answer) {
        self.requested.retain(|requested| *requested != change);
        self.answered.push((change, answer));
    }

    /// Forgets what was requested: the peer has restarted.
    pub(crate) fn on_restart(&mut self) {
        *self = StreamChanges::default();
    }

    /// Returns the answer to a request, once there is one.
    pub(crate) fn take_answer(&mut self, change: &StreamChange) -> Option<Answer> {
        let place = self.answered.iter().position(|(answered, _)| answered == change);
        match place {
            Some(place) => Some(self.answered.swap_remove(place).1),
            None if self.requested.contains(change) => None,
            None => Some(Answer::Lost),
        }
    }

    /// Returns the next change that the user has not requested.
    pub(crate) fn take_by_peer(&mut self) -> Option<StreamChange> {
        self.by_peer.pop_front()
    }
}
