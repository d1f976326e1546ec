//! Requests of the peer (RFC 6525 §5.2).

use whimbrel_control::Time;
use whimbrel_wire::{CHUNK_HEADER_LEN, NumberList, Parameter, Tsn, reconfig_result};

use super::request::LONGEST_REQUEST;
use super::state::Turn;
use crate::association::Association;
use crate::event::Event;
use crate::send::Outgoing;
use crate::streams::{StreamChange, StreamList};

/// The responses to the requests of a chunk.
#[derive(Debug, Default)]
pub(super) struct Answers {
    list: Vec<u8>,
    count: usize,
    /// The chunk had a request.
    has_request: bool,
    /// A repeated request is answered by the outstanding request.
    repeats_request: bool,
}

impl Answers {
    // [6525:5.1.7-1, 5.1.7-2, 5.1.7-4, 5.1.7-7]
    fn add(&mut self, response: u32, result: u32) {
        self.count += 1;
        Parameter::ReconfigResponse {
            response,
            result,
            next_tsns: None,
        }
        .emit(&mut self.list);
    }
}

/// How a request is answered.
enum Answer {
    /// With a response.
    Now(u32),
    /// With a response now, which is no result yet.
    Waits,
    /// By a request of this end.
    ByRequest,
}

impl Association {
    /// Processes a request, and adds the response.
    // [6525:5.2.1-5, 5.2.5-1]
    pub(super) fn on_request(&mut self, now: Time, parameter: &Parameter<'_>, answers: &mut Answers) {
        let (Parameter::OutgoingReset { request: number, .. }
        | Parameter::IncomingReset { request: number, .. }
        | Parameter::TsnReset { request: number }
        | Parameter::AddOutgoingStreams { request: number, .. }
        | Parameter::AddIncomingStreams { request: number, .. }) = *parameter
        else {
            return;
        };
        answers.has_request = true;
        let Some(reconfig) = &mut self.agreed.reconfig else {
            return;
        };
        match reconfig.take_turn(number) {
            Turn::Wrong => answers.add(number, reconfig_result::BAD_SEQUENCE_NUMBER),
            Turn::Repeated(_) if reconfig.answers(number) => answers.repeats_request = true,
            Turn::Repeated(result) => {
                let is_waiting = reconfig.deferred() == Some(number);
                // What has been performed is not performed again: the stream may be in use once more.
                let result = if is_waiting && self.perform_waiting(now).is_some() {
                    reconfig_result::PERFORMED
                } else {
                    result
                };
                answers.add(number, result);
            }
            Turn::Next => {
                // It may be performed below: its result is kept first.
                reconfig.record(number, reconfig_result::IN_PROGRESS);
                let answer = self.perform(now, number, parameter);
                let result = match answer {
                    Answer::Now(result) => result,
                    Answer::Waits | Answer::ByRequest => reconfig_result::IN_PROGRESS,
                };
                if let Some(reconfig) = &mut self.agreed.reconfig {
                    reconfig.correct(number, result);
                }
                if !matches!(answer, Answer::ByRequest) {
                    answers.add(number, result);
                }
            }
        }
    }

    fn perform(&mut self, now: Time, number: u32, parameter: &Parameter<'_>) -> Answer {
        match *parameter {
            Parameter::OutgoingReset {
                response,
                last_tsn,
                streams,
                ..
            } => self.reset_inbound(now, number, response, last_tsn, streams),
            Parameter::IncomingReset { streams, .. } => self.reset_outbound(number, streams),
            Parameter::AddOutgoingStreams { count, .. } => Answer::Now(self.add_inbound(now, count)),
            Parameter::AddIncomingStreams { count, .. } => self.add_outbound(number, count),
            // New TSNs would gain nothing: those of an association never end.
            _ => Answer::Now(reconfig_result::DENIED),
        }
    }

    /// The peer resets its outbound streams (RFC 6525 §5.2.2).
    // [6525:5.2.2-1, 5.2.2-2, 5.2.2-5, 5.2.2-6]
    fn reset_inbound(
        &mut self,
        now: Time,
        number: u32,
        response: u32,
        last_tsn: Tsn,
        streams: NumberList<'_>,
    ) -> Answer {
        let again = now + self.config.rto_max;
        let mut streams = StreamList::requested(streams);
        let (Some(reconfig), Some(receiver)) = (&mut self.agreed.reconfig, &mut self.receiving.receiver) else {
            return Answer::Now(reconfig_result::DENIED);
        };
        if streams.last().is_some_and(|last| last >= self.ends.inbound_streams) {
            return Answer::Now(reconfig_result::WRONG_SSN);
        }
        if streams.len() == usize::from(self.ends.inbound_streams) {
            streams = StreamList::ALL;
        }
        // §5.2.2 E1: it is the answer to the request of this end. The response to any other request has a result.
        let is_granted = |change: &StreamChange, own| {
            own == response && matches!(change, StreamChange::ResetInbound(wanted) if wanted.overlaps(&streams))
        };
        let path = reconfig.on_granted(is_granted, again);
        reconfig.defer(number, &streams, again);
        receiver.want_reset(last_tsn, streams);
        self.end_request(path);
        match self.perform_waiting(now) {
            Some(_) => Answer::Now(reconfig_result::PERFORMED),
            None => Answer::Waits,
        }
    }

    /// Performs the reset that waits, if it can be done now. Returns the number of the request.
    fn perform_waiting(&mut self, now: Time) -> Option<u32> {
        let again = now + self.config.rto_max;
        let (Some(reconfig), Some(receiver)) = (&mut self.agreed.reconfig, &mut self.receiving.receiver) else {
            return None;
        };
        reconfig.deferred()?;
        let streams = receiver.try_reset()?;
        let (number, path) = reconfig.on_performed(&streams, again);
        self.end_request(path);
        let change = StreamChange::ResetInbound(streams);
        self.user.events.push_back(Event::StreamsChanged(change));
        number
    }

    /// Performs the reset that waits, if it can be done now, and responds (RFC 6525 §5.2.2 E5).
    // [6525:5.2.2-10]
    pub(super) fn perform_reset(&mut self, now: Time) {
        let Some(number) = self.perform_waiting(now) else {
            return;
        };
        let mut answers = Answers::default();
        answers.add(number, reconfig_result::PERFORMED);
        let answer = answers.list.into();
        let path = self.sending.sending_path();
        let has_request = false;
        self.sending
            .control()
            .push(path, Outgoing::Reconfig { answer, has_request });
    }

    /// Returns whether a reset waits for the reader.
    pub(crate) fn reset_is_due(&self) -> bool {
        let reconfig = self.agreed.reconfig.as_ref();
        reconfig.is_some_and(|reconfig| reconfig.deferred().is_some())
    }

    /// The peer asks this end to reset its outbound streams (RFC 6525 §5.2.3).
    // [6525:5.1.2-6, 5.2.3-1, 5.2.3-3, 5.2.3-5]
    fn reset_outbound(&mut self, number: u32, streams: NumberList<'_>) -> Answer {
        let streams = StreamList::requested(streams);
        let Some(reconfig) = &mut self.agreed.reconfig else {
            return Answer::Now(reconfig_result::DENIED);
        };
        if streams.last().is_some_and(|last| last >= self.ends.outbound_streams) {
            return Answer::Now(reconfig_result::WRONG_SSN);
        }
        let is_done_anyway =
            |change: &StreamChange| matches!(change, StreamChange::ResetOutbound(others) if others.includes(&streams));
        if reconfig.changes().any(is_done_anyway) {
            return Answer::Now(reconfig_result::NOTHING_TO_DO);
        }
        if self.sending.is_kept_back(&streams) || reconfig.is_full_for_peer() {
            return Answer::Now(reconfig_result::ALREADY_IN_PROGRESS);
        }
        if LONGEST_REQUEST + 2 * streams.len() > self.sending.largest_chunk() {
            // The request of this end would not fit into a packet.
            return Answer::Now(reconfig_result::DENIED);
        }
        if self.sending.are_fresh(&streams) {
            return Answer::Now(reconfig_result::NOTHING_TO_DO);
        }
        self.sending.keep_back(streams.clone());
        reconfig.add(StreamChange::ResetOutbound(streams), Some(number));
        self.answer_by_request(number)
    }

    /// The peer adds outbound streams (RFC 6525 §5.2.5). Returns the result.
    // [6525:5.2.5-2, 5.2.5-3]
    fn add_inbound(&mut self, now: Time, count: u16) -> u32 {
        let again = now + self.config.rto_max;
        let streams = self.ends.inbound_streams.saturating_add(count);
        let is_valid = count > 0 && u32::from(self.ends.inbound_streams) + u32::from(count) == u32::from(streams);
        let (Some(reconfig), Some(receiver)) = (&mut self.agreed.reconfig, &mut self.receiving.receiver) else {
            return reconfig_result::DENIED;
        };
        if !is_valid || streams > self.config.max_inbound_streams {
            return reconfig_result::DENIED;
        }
        receiver.set_inbound_streams(streams);
        self.ends.inbound_streams = streams;
        // §5.2.6: it is the answer to the request of this end.
        let asked = reconfig.on_granted(|change, _| *change == StreamChange::AddInbound(count), again);
        let asked_again = reconfig.on_added(count);
        self.end_request(asked.or(asked_again));
        let change = StreamChange::AddInbound(count);
        self.user.events.push_back(Event::StreamsChanged(change));
        reconfig_result::PERFORMED
    }

    /// The peer asks this end to add outbound streams (RFC 6525 §5.2.6).
    // [6525:5.2.6-1, 5.2.6-2]
    fn add_outbound(&mut self, number: u32, count: u16) -> Answer {
        let Some(reconfig) = &mut self.agreed.reconfig else {
            return Answer::Now(reconfig_result::DENIED);
        };
        let requested = reconfig.requested_streams(true);
        let most = self.config.max_outbound_streams.unwrap_or(self.config.outbound_streams);
        let streams = u32::from(self.ends.outbound_streams) + requested + u32::from(count);
        if count == 0 || streams > u32::from(most) || reconfig.is_full_for_peer() {
            return Answer::Now(reconfig_result::DENIED);
        }
        reconfig.add(StreamChange::AddOutbound(count), Some(number));
        self.answer_by_request(number)
    }

    /// A request that answers this one of the peer waits.
    fn answer_by_request(&mut self, number: u32) -> Answer {
        self.begin_request();
        let reconfig = self.agreed.reconfig.as_ref();
        if reconfig.is_some_and(|reconfig| reconfig.answers(number)) {
            Answer::ByRequest
        } else {
            Answer::Waits
        }
    }

    /// Returns the responses to the requests of a chunk, together with the request that has become outstanding if they may be in one chunk (RFC
    /// 6525 §3.1, §5.2.1). Otherwise the request is sent by itself.
    // [6525:5.2.1-2, 5.2.1-3]
    pub(super) fn answer_requests(&mut self, now: Time, answers: Answers) -> Option<Outgoing> {
        let reconfig = self.agreed.reconfig.as_ref()?;
        let waits_to_be_sent = reconfig.waits_to_be_sent();
        let has_request = answers.repeats_request || waits_to_be_sent || self.begin_request();
        if answers.has_request
            && let Some(receiver) = &mut self.receiving.receiver
        {
            // RFC 6525 §5.2.1: it shows what is missing before a reset.
            receiver.request_sack();
        }
        let reconfig = self.agreed.reconfig.as_ref();
        let is_together = has_request
            && answers.count == 1
            && reconfig.is_some_and(|reconfig| {
                let len = CHUNK_HEADER_LEN + answers.list.len() + reconfig.request_len();
                reconfig.is_reset() && len <= self.sending.largest_chunk()
            });
        if is_together {
            self.request_path(now, false);
        } else if has_request {
            self.send_request(now, false);
        }
        (answers.count > 0).then(|| Outgoing::Reconfig {
            answer: answers.list.into(),
            has_request: is_together,
        })
    }
}
