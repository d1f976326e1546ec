//! Requests and responses of both directions, by their numbers.

use std::collections::VecDeque;

use whimbrel_control::Time;
use whimbrel_wire::{NumberList, Parameter, Tsn, reconfig_result};

use crate::PathId;
use crate::config::NEVER;
use crate::streams::{StreamChange, StreamList};

/// Changes of the user that wait at most.
const MAX_WAITING: usize = 32;
/// Changes that the peer has asked for and that wait at most. They leave the user its own.
const MAX_FOR_PEER: usize = 8;
/// Responses that are kept. More than those that may still change: a change that the peer has asked for is answered once it is done.
const MAX_ANSWERED: usize = 4 * MAX_FOR_PEER;

/// A change that this end requests.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) change: StreamChange,
    /// The peer's request that asked for it.
    pub(super) answers: Option<u32>,
    /// The number that it has if it has been requested before.
    number: Option<u32>,
    /// The inbound streams of the request that the peer has not reset yet; `None`: all of them.
    left: Option<StreamList>,
}

impl Wish {
    /// Returns whether the peer has been asked to reset one of these streams, and has not done so.
    fn waits_for(&self, streams: &StreamList) -> bool {
        matches!(&self.change, StreamChange::ResetInbound(wanted) if self.left.as_ref().unwrap_or(wanted).overlaps(streams))
    }

    /// Takes in that inbound streams have been reset. Returns whether these were the last that the peer has been asked to reset: it may reset
    /// some earlier than others.
    fn on_reset(&mut self, streams: &StreamList) -> bool {
        if !self.waits_for(streams) {
            return false;
        }
        let StreamChange::ResetInbound(wanted) = &self.change else {
            return false;
        };
        let left = self.left.as_ref().unwrap_or(wanted);
        if streams.includes(left) {
            return true;
        }
        self.left = Some(left.without(streams));
        false
    }
}

/// A change of the peer that the peer has agreed to request.
#[derive(Debug)]
struct Accepted {
    wish: Wish,
    /// When the peer is asked again, if nothing has come of it. Never, while its request waits for the reader of this end.
    again: Time,
}

/// The outstanding request; there is at most one (RFC 6525 §5.1.1).
#[derive(Debug)]
struct Pending {
    number: u32,
    wish: Wish,
    /// The last TSN that was assigned when it was sent first.
    last_tsn: Tsn,
    /// The path on which it was last sent.
    path: PathId,
    /// The peer's request that it answers, or the peer's latest one (RFC 6525 §5.1.2 A4).
    response: u32,
    /// How often the peer has answered that it is in progress.
    in_progress: u32,
    /// The peer has answered since it was last sent.
    is_answered: bool,
}

/// A response that has been sent, in case the request is repeated.
#[derive(Clone, Copy, Debug)]
struct Answered {
    number: u32,
    result: u32,
}

/// What a number says about a request of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// It is the next one.
    Next,
    /// It has been answered with this result.
    Repeated(u32),
    /// It comes after the next one, or long before it.
    Wrong,
}

/// What a response means.
#[derive(Debug)]
pub(super) enum Settled {
    /// It answers no outstanding request.
    Nothing,
    /// The peer will perform the request.
    Later,
    /// The peer will request what it was asked for.
    Accepted { path: PathId },
    /// The request is done.
    Done { wish: Wish, last_tsn: Tsn, path: PathId },
}

/// State of both directions of stream changes.
#[derive(Debug)]
pub(crate) struct Reconfig {
    /// Number of the next own request.
    next: u32,
    waiting: VecDeque<Wish>,
    pending: Option<Pending>,
    accepted: Vec<Accepted>,
    /// When the outstanding request is sent again.
    timer: Time,
    /// Number of the peer's next request.
    peer_next: u32,
    /// The responses to the peer's last requests, by their numbers.
    answered: VecDeque<Answered>,
    /// The peer's request to reset streams that waits.
    deferred: Option<u32>,
}

impl Reconfig {
    /// Numbers start with the initial TSNs (RFC 6525 §4.1).
    pub(super) fn new(local_tsn: u32, peer_tsn: u32) -> Self {
        Reconfig {
            next: local_tsn,
            waiting: VecDeque::new(),
            pending: None,
            accepted: Vec::new(),
            timer: NEVER,
            peer_next: peer_tsn,
            answered: VecDeque::new(),
            deferred: None,
        }
    }

    /// Returns when a request is sent again.
    pub(in super::super) fn next_timeout(&self) -> Time {
        let accepted = self.accepted.iter().map(|accepted| accepted.again).min();
        self.timer.min(accepted.unwrap_or(NEVER))
    }

    /// Returns whether the outstanding request has not been sent.
    pub(super) fn waits_to_be_sent(&self) -> bool {
        self.pending.is_some() && self.timer == NEVER
    }

    /// Returns whether no further change of the user may wait.
    pub(super) fn is_full(&self) -> bool {
        let own = self.waiting.iter().filter(|wish| wish.answers.is_none());
        own.count() + self.accepted.len() >= MAX_WAITING
    }

    /// Returns whether no further change may wait for which the peer has asked.
    pub(super) fn is_full_for_peer(&self) -> bool {
        let of_peer = self.waiting.iter().filter(|wish| wish.answers.is_some());
        of_peer.count() >= MAX_FOR_PEER
    }

    /// Adds a change that is requested once no other one is outstanding.
    // [6525:5.1.1-6]
    pub(super) fn add(&mut self, change: StreamChange, answers: Option<u32>) {
        self.waiting.push_back(Wish {
            change,
            answers,
            number: None,
            left: None,
        });
    }

    /// The peer is asked again for what it has agreed to and has not requested by now.
    pub(in super::super) fn ask_again(&mut self, now: Time) {
        while let Some(place) = self.accepted.iter().position(|accepted| accepted.again <= now) {
            self.waiting.push_front(self.accepted.remove(place).wish);
        }
    }

    /// Takes in a change that the peer has made: it is not asked again for what is done. Returns the path on which it was being asked again.
    fn on_done(&mut self, mut is_done: impl FnMut(&mut Wish) -> bool) -> Option<PathId> {
        self.accepted.retain_mut(|accepted| !is_done(&mut accepted.wish));
        self.waiting.retain_mut(|wish| wish.number.is_none() || !is_done(wish));
        let asked_again = self.pending.as_mut().filter(|pending| pending.wish.number.is_some());
        if !asked_again.is_some_and(|pending| is_done(&mut pending.wish)) {
            return None;
        }
        self.timer = NEVER;
        self.pending.take().map(|pending| pending.path)
    }

    /// The peer has added so many streams, for which it may have been asked. Returns the path on which it was being asked again.
    pub(super) fn on_added(&mut self, count: u16) -> Option<PathId> {
        let mut is_found = false;
        self.on_done(|wish| {
            let is_done = !is_found && wish.change == StreamChange::AddInbound(count);
            is_found |= is_done;
            is_done
        })
    }

    /// Returns the change that is requested next, unless a request is outstanding.
    // [6525:5.1.1-5]
    #[inline]
    pub(super) fn next_wish(&self) -> Option<&StreamChange> {
        match &self.pending {
            Some(_) => None,
            None => self.waiting.front().map(|wish| &wish.change),
        }
    }

    fn wishes(&self) -> impl Iterator<Item = &Wish> {
        let pending = self.pending.iter().map(|pending| &pending.wish);
        let accepted = self.accepted.iter().map(|accepted| &accepted.wish);
        pending.chain(&self.waiting).chain(accepted)
    }

    /// Returns the changes that are waiting, outstanding or accepted by the peer.
    pub(super) fn changes(&self) -> impl Iterator<Item = &StreamChange> {
        self.wishes().map(|wish| &wish.change)
    }

    /// Returns whether the peer is asked to reset one of these streams.
    pub(super) fn asks_to_reset(&self, streams: &StreamList) -> bool {
        let asks =
            |change: &StreamChange| matches!(change, StreamChange::ResetInbound(others) if others.overlaps(streams));
        self.changes().any(asks)
    }

    /// Returns how many streams have been requested in addition.
    pub(super) fn requested_streams(&self, is_outbound: bool) -> u32 {
        let added = self.changes().map(|change| match *change {
            StreamChange::AddOutbound(count) if is_outbound => count.into(),
            StreamChange::AddInbound(count) if !is_outbound => count.into(),
            _ => 0,
        });
        added.sum()
    }

    /// Makes the next change the outstanding request.
    // [6525:5.1.2-2, 5.1.2-4, 5.1.2-7, 5.1.3-1, 5.1.3-3]
    pub(super) fn begin(&mut self, last_tsn: Tsn, path: PathId) {
        if self.pending.is_none()
            && let Some(wish) = self.waiting.pop_front()
        {
            let number = wish.number.unwrap_or(self.next);
            if wish.number.is_none() {
                self.next = number.wrapping_add(1);
            }
            let response = wish.answers.unwrap_or(self.peer_next.wrapping_sub(1));
            self.pending = Some(Pending {
                number,
                wish,
                last_tsn,
                path,
                response,
                in_progress: 0,
                is_answered: false,
            });
        }
    }

    /// Returns the path of the outstanding request, and how often the peer has answered that it is in progress.
    pub(super) fn outstanding(&self) -> Option<(PathId, u32)> {
        self.pending.as_ref().map(|pending| (pending.path, pending.in_progress))
    }

    /// The outstanding request is sent on this path. It is sent again at `again`.
    // [6525:5.1.1-7, 5.1.1-8]
    pub(super) fn on_sent(&mut self, path: PathId, again: Time) {
        if let Some(pending) = &mut self.pending {
            pending.path = path;
            pending.is_answered = false;
            self.timer = again;
        }
    }

    /// The timer has expired. Returns the path of the outstanding request, and whether the peer has answered since it was last sent; `None`
    /// if the timer of another request has expired.
    pub(in super::super) fn on_timer(&mut self, now: Time) -> Option<(PathId, bool)> {
        if self.timer > now {
            return None;
        }
        self.timer = NEVER;
        let pending = self.pending.as_ref()?;
        Some((pending.path, pending.is_answered))
    }

    /// Returns whether the outstanding request answers this one of the peer.
    pub(super) fn answers(&self, number: u32) -> bool {
        self.pending
            .as_ref()
            .is_some_and(|pending| pending.wish.answers == Some(number))
    }

    /// Returns whether the outstanding request resets outbound streams.
    pub(super) fn is_reset(&self) -> bool {
        let change = self.pending.as_ref().map(|pending| &pending.wish.change);
        matches!(change, Some(StreamChange::ResetOutbound(_)))
    }

    /// Appends the outstanding request to a list of parameters.
    // [6525:5.1.2-3, 5.1.2-8, 5.1.2-9, 5.1.3-2, 5.1.3-4, 5.1.3-5]
    pub(in super::super) fn write_request(&self, list: &mut Vec<u8>) {
        let Some(pending) = &self.pending else { return };
        let request = pending.number;
        let numbers = |streams: &StreamList| -> Vec<u8> {
            let listed = streams.listed().unwrap_or_default().iter();
            listed.flat_map(|stream| stream.to_be_bytes()).collect()
        };
        match &pending.wish.change {
            StreamChange::ResetOutbound(streams) => Parameter::OutgoingReset {
                request,
                response: pending.response,
                last_tsn: pending.last_tsn,
                streams: NumberList::from_wire_bytes(&numbers(streams)),
            }
            .emit(list),
            StreamChange::ResetInbound(streams) => Parameter::IncomingReset {
                request,
                streams: NumberList::from_wire_bytes(&numbers(streams)),
            }
            .emit(list),
            &StreamChange::AddOutbound(count) => Parameter::AddOutgoingStreams { request, count }.emit(list),
            &StreamChange::AddInbound(count) => Parameter::AddIncomingStreams { request, count }.emit(list),
        }
    }

    /// Returns the length of the outstanding request in bytes.
    pub(in super::super) fn request_len(&self) -> usize {
        match self.pending.as_ref().map(|pending| &pending.wish.change) {
            None => 0,
            Some(StreamChange::ResetOutbound(streams)) => 16 + 2 * streams.len(),
            Some(StreamChange::ResetInbound(streams)) => 8 + 2 * streams.len(),
            Some(StreamChange::AddOutbound(_) | StreamChange::AddInbound(_)) => 12,
        }
    }

    /// A response has arrived (RFC 6525 §5.2.7). The peer is asked at `again` for what it has agreed to, if nothing comes of it.
    // [6525:5.2.7-1, 5.2.7-2]
    pub(super) fn on_response(&mut self, number: u32, result: u32, again: Time) -> Settled {
        let Some(pending) = self.pending.take_if(|pending| pending.number == number) else {
            return Settled::Nothing;
        };
        let asks_peer = matches!(
            pending.wish.change,
            StreamChange::ResetInbound(_) | StreamChange::AddInbound(_)
        );
        // A peer that was asked again says that it is done: no request follows.
        let is_accepted = match result {
            reconfig_result::IN_PROGRESS => true,
            reconfig_result::PERFORMED => pending.wish.number.is_none(),
            _ => false,
        };
        if asks_peer && is_accepted {
            // The peer's own request follows, or has come before. It may wait for the response to another one of the peer, which waits here: were
            // this one outstanding meanwhile, the two ends would wait for each other.
            let path = pending.path;
            self.accept(pending, again);
            return Settled::Accepted { path };
        }
        if result == reconfig_result::IN_PROGRESS {
            self.pending = Some(Pending {
                in_progress: pending.in_progress.saturating_add(1),
                is_answered: true,
                ..pending
            });
            return Settled::Later;
        }
        self.timer = NEVER;
        let Pending {
            wish, last_tsn, path, ..
        } = pending;
        // In case the peer repeats the request that asked for it.
        if let Some(number) = wish.answers {
            self.correct(number, result);
        }
        Settled::Done { wish, last_tsn, path }
    }

    fn accept(&mut self, pending: Pending, again: Time) {
        self.timer = NEVER;
        let number = Some(pending.number);
        let wish = Wish { number, ..pending.wish };
        self.accepted.push(Accepted { wish, again });
    }

    /// The peer has answered a request for a change of its own outbound streams by requesting such a change (RFC 6525 §5.2.2 E1, §5.2.6).
    /// Returns the path on which the request was sent, if it was outstanding.
    pub(super) fn on_granted(
        &mut self,
        is_granted: impl Fn(&StreamChange, u32) -> bool,
        again: Time,
    ) -> Option<PathId> {
        let pending = self
            .pending
            .take_if(|pending| is_granted(&pending.wish.change, pending.number))?;
        let path = pending.path;
        self.accept(pending, again);
        Some(path)
    }

    /// Returns whether a request of the peer is the next one. If it is, the one after it is next.
    // [6525:5.2.1-4]
    pub(super) fn take_turn(&mut self, number: u32) -> Turn {
        if number == self.peer_next {
            self.peer_next = number.wrapping_add(1);
            return Turn::Next;
        }
        let known = self.answered.iter().find(|known| known.number == number);
        match known {
            Some(known) => Turn::Repeated(known.result),
            None => Turn::Wrong,
        }
    }

    /// Keeps the result of the peer's request that has just been the next one.
    pub(super) fn record(&mut self, number: u32, result: u32) {
        if self.answered.len() == MAX_ANSWERED {
            self.answered.pop_front();
        }
        self.answered.push_back(Answered { number, result });
    }

    /// A request of the peer that waited has this result now.
    pub(super) fn correct(&mut self, number: u32, result: u32) {
        if let Some(known) = self.answered.iter_mut().find(|known| known.number == number) {
            known.result = result;
        }
    }

    /// The peer's request to reset these inbound streams waits. The peer is not asked for them again before it is performed, and at `again` for
    /// those of an earlier request that this one replaces.
    pub(super) fn defer(&mut self, number: u32, streams: &StreamList, again: Time) {
        self.deferred = Some(number);
        while let Some(place) = self
            .waiting
            .iter()
            .position(|wish| wish.number.is_some() && wish.waits_for(streams))
        {
            let wish = self.waiting.remove(place);
            self.accepted.extend(wish.map(|wish| Accepted { wish, again }));
        }
        for accepted in &mut self.accepted {
            if accepted.wish.waits_for(streams) {
                accepted.again = NEVER;
            } else if accepted.again == NEVER {
                accepted.again = again;
            }
        }
    }

    /// Returns the peer's request to reset streams that waits.
    #[inline]
    pub(super) fn deferred(&self) -> Option<u32> {
        self.deferred
    }

    /// The peer's request to reset these streams has been performed. Returns its number, and the path on which the peer was being asked for it
    /// again. It is asked at `again` for what it has not reset.
    pub(super) fn on_performed(&mut self, streams: &StreamList, again: Time) -> (Option<u32>, Option<PathId>) {
        let path = self.on_done(|wish| wish.on_reset(streams));
        for accepted in &mut self.accepted {
            accepted.again = accepted.again.min(again);
        }
        let number = self.deferred.take();
        if let Some(number) = number {
            self.correct(number, reconfig_result::PERFORMED);
        }
        (number, path)
    }

    pub(in super::super) fn heap_bytes(&self) -> usize {
        let lists = self.wishes().map(|wish| {
            let listed = match &wish.change {
                StreamChange::ResetOutbound(streams) | StreamChange::ResetInbound(streams) => streams.heap_bytes(),
                StreamChange::AddOutbound(_) | StreamChange::AddInbound(_) => 0,
            };
            listed + wish.left.as_ref().map_or(0, StreamList::heap_bytes)
        });
        size_of::<Self>()
            + self.waiting.capacity() * size_of::<Wish>()
            + self.accepted.capacity() * size_of::<Accepted>()
            + self.answered.capacity() * size_of::<Answered>()
            + lists.sum::<usize>()
    }
}
