//! Changes of streams (RFC 6525): requests of the local user and of the peer, and the responses.
//!
//! A request to reset outbound streams is sent once all earlier messages of these streams have TSNs; later ones wait for the response, and
//! start at 0 again. The receiver performs it once everything up to the last of these TSNs has arrived and the reader has taken it, so that
//! both users know which messages are from before. Until then its response is "In progress".

mod peer;
mod request;
mod state;

use whimbrel_control::Time;
use whimbrel_wire::{Parameter, Parameters, reconfig_result};

use self::request::LONGEST_REQUEST;
pub(crate) use self::state::Reconfig;
use self::state::Settled;
use super::{Association, State};
use crate::context::Context;
use crate::event::Event;
use crate::extensions::Extensions;
use crate::send::Outgoing;
use crate::streams::{StreamChange, StreamChangeError, StreamList};

/// Why a RE-CONFIG chunk is not processed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unreadable {
    /// A parameter is malformed.
    Malformed,
    /// The parameters do not belong together.
    Combination,
}

impl Association {
    /// Called when the handshake has determined whether streams may change.
    // [6525:5.1.1-2, 5.1.1-3]
    pub(super) fn agree_on_stream_changes(&mut self, extensions: Extensions, local_tsn: u32, peer_tsn: u32) {
        let agreed = extensions.has(Extensions::STREAM_CHANGES);
        self.agreed.reconfig = agreed.then(|| Box::new(Reconfig::new(local_tsn, peer_tsn)));
    }

    /// Returns whether both ends support changes of streams (RFC 6525).
    pub fn can_change_streams(&self) -> bool {
        self.agreed.reconfig.is_some()
    }

    /// Returns the number of inbound streams: the peer may send on `0..inbound_streams`.
    pub fn inbound_streams(&self) -> u16 {
        self.ends.inbound_streams
    }

    /// Requests a change of streams.
    // [6525:5.1.1-4, 5.1.2-1, 5.2.7-9]
    pub(crate) fn change_streams(
        &mut self,
        ctx: &mut Context<'_>,
        change: StreamChange,
    ) -> Result<(), StreamChangeError> {
        if self.state != State::Established || self.agreed.is_keying(self.state) {
            return Err(StreamChangeError::NotEstablished);
        }
        let Some(reconfig) = &self.agreed.reconfig else {
            return Err(StreamChangeError::NotSupported);
        };
        if reconfig.is_full() {
            return Err(StreamChangeError::TooManyWaiting);
        }
        self.check_change(reconfig, &change)?;
        if let StreamChange::ResetOutbound(streams) = &change {
            self.sending.keep_back(streams.clone());
        }
        if let Some(reconfig) = &mut self.agreed.reconfig {
            reconfig.add(change, None);
        }
        self.advance_reconfig(ctx);
        Ok(())
    }

    fn check_change(&self, reconfig: &Reconfig, change: &StreamChange) -> Result<(), StreamChangeError> {
        match change {
            StreamChange::ResetOutbound(streams) => {
                self.check_list(streams, self.ends.outbound_streams)?;
                if self.sending.is_kept_back(streams) {
                    return Err(StreamChangeError::InProgress);
                }
            }
            StreamChange::ResetInbound(streams) => {
                self.check_list(streams, self.ends.inbound_streams)?;
                if reconfig.asks_to_reset(streams) {
                    return Err(StreamChangeError::InProgress);
                }
            }
            &StreamChange::AddOutbound(count) => {
                count_with(count, self.ends.outbound_streams, reconfig.requested_streams(true))?;
            }
            &StreamChange::AddInbound(count) => {
                let streams = count_with(count, self.ends.inbound_streams, reconfig.requested_streams(false))?;
                if streams > self.config.max_inbound_streams {
                    return Err(StreamChangeError::OverLimit(self.config.max_inbound_streams));
                }
            }
        }
        Ok(())
    }

    /// Checks that the streams exist, and that a request with them fits into a packet.
    fn check_list(&self, streams: &StreamList, available: u16) -> Result<(), StreamChangeError> {
        if streams.is_empty() {
            return Err(StreamChangeError::NoStream);
        }
        if LONGEST_REQUEST + 2 * streams.len() > self.sending.largest_chunk() {
            return Err(StreamChangeError::TooManyListed(streams.len()));
        }
        match streams.last() {
            Some(stream) if stream >= available => Err(StreamChangeError::NoSuchStream { stream, available }),
            _ => Ok(()),
        }
    }

    /// Performs what has waited: a reset for data, the next request for the data before it.
    #[inline]
    pub(super) fn advance_reconfig(&mut self, ctx: &mut Context<'_>) {
        if self.agreed.reconfig.is_some() {
            self.perform_reset(ctx.now);
            if self.begin_request() {
                self.send_request(ctx.now, false);
            }
        }
    }

    /// Processes a RE-CONFIG chunk (RFC 6525 §5.2). Returns the chunk that answers it.
    ///
    /// # Errors
    /// Returns an error if the parameters cannot be read, or do not belong together.
    // [6525:5.2.1-1, 5.2.2-11, 5.2.3-2]
    pub(super) fn on_reconfig(
        &mut self,
        now: Time,
        parameters: Parameters<'_>,
    ) -> Result<Option<Outgoing>, Unreadable> {
        let mut listed = Vec::new();
        for parameter in parameters.iter() {
            listed.push(parameter.map_err(|_| Unreadable::Malformed)?);
        }
        if !is_allowed(&listed) {
            return Err(Unreadable::Combination);
        }
        let mut answers = peer::Answers::default();
        for parameter in listed {
            if let Parameter::ReconfigResponse { response, result, .. } = parameter {
                self.on_response(now, response, result);
            } else {
                self.on_request(now, &parameter, &mut answers);
            }
        }
        Ok(self.answer_requests(now, answers))
    }

    // [6525:5.1.5-1, 5.2.7-5, 5.2.7-8]
    fn on_response(&mut self, now: Time, number: u32, result: u32) {
        let again = now + self.config.rto_max;
        let Some(reconfig) = &mut self.agreed.reconfig else {
            return;
        };
        let (wish, last_tsn, path) = match reconfig.on_response(number, result, again) {
            Settled::Nothing | Settled::Later => return,
            Settled::Accepted { path } => return self.end_request(Some(path)),
            Settled::Done { wish, last_tsn, path } => (wish, last_tsn, path),
        };
        self.end_request(Some(path));
        let is_done = matches!(result, reconfig_result::NOTHING_TO_DO | reconfig_result::PERFORMED);
        match &wish.change {
            // RFC 6525 §5.2.7 H4
            StreamChange::ResetOutbound(streams) => {
                self.sending.end_reset(streams, is_done.then_some(last_tsn));
            }
            StreamChange::AddOutbound(count) if is_done => {
                self.ends.outbound_streams = self.ends.outbound_streams.saturating_add(*count);
            }
            _ => {}
        }
        // What the peer does is reported once it is done: it has not answered by its own request.
        let asks_peer = matches!(wish.change, StreamChange::ResetInbound(_) | StreamChange::AddInbound(_));
        self.user.events.push_back(if is_done && !asks_peer {
            Event::StreamsChanged(wish.change)
        } else {
            Event::StreamChangeRefused {
                change: wish.change,
                result,
            }
        });
    }
}

/// Returns how many streams there are with these more.
fn count_with(more: u16, present: u16, requested: u32) -> Result<u16, StreamChangeError> {
    let before = u32::from(present) + requested;
    let with_more = u16::try_from(before + u32::from(more)).ok().filter(|_| more > 0);
    with_more.ok_or(StreamChangeError::Number(before))
}

/// Returns whether these parameters may be in one chunk (RFC 6525 §3.1).
fn is_allowed(parameters: &[Parameter<'_>]) -> bool {
    use Parameter::{AddIncomingStreams, AddOutgoingStreams, IncomingReset, OutgoingReset, ReconfigResponse, TsnReset};
    matches!(
        parameters,
        [OutgoingReset { .. }
            | IncomingReset { .. }
            | TsnReset { .. }
            | AddOutgoingStreams { .. }
            | AddIncomingStreams { .. }
            | ReconfigResponse { .. }]
            | [OutgoingReset { .. }, IncomingReset { .. }]
            | [IncomingReset { .. }, OutgoingReset { .. }]
            | [AddOutgoingStreams { .. }, AddIncomingStreams { .. }]
            | [AddIncomingStreams { .. }, AddOutgoingStreams { .. }]
            | [ReconfigResponse { .. }, OutgoingReset { .. } | ReconfigResponse { .. }]
    )
}
