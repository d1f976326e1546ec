//! Changes of streams (RFC 6525): requests of the local user and of the peer, and the responses.
//!
//! A request to reset outbound streams is sent once all earlier messages of these streams have TSNs; later ones wait for the response, and
//! start at 0 again. The receiver performs it once everything up to the last of these TSNs has arrived and the reader has taken it, so that
//! both users know which messages are from before. Until then its response is "In progress".

mod peer;
mod state;

use whimbrel_control::Time;
use whimbrel_wire::{Cause, Chunk, Parameter, Parameters, reconfig_result};

pub(crate) use self::state::Reconfig;
use self::state::Settled;
use super::Association;
use crate::PathId;
use crate::context::Context;
use crate::error::Discard;
use crate::event::Event;
use crate::extensions::Extensions;
use crate::packet::Packet;
use crate::send::Outgoing;
use crate::send::path::Path;
use crate::streams::{StreamChange, StreamChangeError, StreamList};
use crate::trace::TimerKind;

/// Length in bytes of a RE-CONFIG chunk with the longest request, without its streams.
const LONGEST_REQUEST: usize = 20;

impl Association {
    /// Called when the handshake has determined whether streams may change.
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
    pub(crate) fn change_streams(
        &mut self,
        ctx: &mut Context<'_>,
        change: StreamChange,
    ) -> Result<(), StreamChangeError> {
        if !self.state.may_send_data() {
            return Err(StreamChangeError::NotEstablished);
        }
        let Some(reconfig) = &self.agreed.reconfig else {
            return Err(StreamChangeError::NotSupported);
        };
        if reconfig.is_full() {
            return Err(StreamChangeError::TooManyWaiting);
        }
        self.check_change(&change)?;
        if let StreamChange::ResetOutbound(streams) = &change {
            self.sending.keep_back(streams.clone());
        }
        if let Some(reconfig) = &mut self.agreed.reconfig {
            reconfig.add(change, None);
        }
        self.advance_reconfig(ctx);
        Ok(())
    }

    fn check_change(&self, change: &StreamChange) -> Result<(), StreamChangeError> {
        let exist = |streams: &StreamList, available: u16| {
            let longest = self.sending.largest_chunk().saturating_sub(LONGEST_REQUEST) / 2;
            if streams.listed().len() > longest {
                return Err(StreamChangeError::TooManyListed(streams.listed().len()));
            }
            match streams.listed().last() {
                Some(&stream) if stream >= available => Err(StreamChangeError::NoSuchStream { stream, available }),
                _ => Ok(()),
            }
        };
        let waits = |is_same: &dyn Fn(&StreamChange) -> bool| {
            self.agreed
                .reconfig
                .as_ref()
                .is_some_and(|reconfig| reconfig.changes().any(is_same))
        };
        let adds = |count: u16, present: u16, added: u32| {
            let is_valid = count > 0 && u32::from(present) + added + u32::from(count) <= u32::from(u16::MAX);
            if is_valid {
                Ok(())
            } else {
                Err(StreamChangeError::Number(present))
            }
        };
        match change {
            StreamChange::ResetOutbound(streams) => {
                exist(streams, self.ends.outbound_streams)?;
                if self.sending.is_kept_back(streams) {
                    return Err(StreamChangeError::InProgress);
                }
                Ok(())
            }
            StreamChange::ResetInbound(streams) => {
                exist(streams, self.ends.inbound_streams)?;
                let overlaps = |other: &StreamChange| matches!(other, StreamChange::ResetInbound(others) if others.overlaps(streams));
                if waits(&overlaps) {
                    return Err(StreamChangeError::InProgress);
                }
                Ok(())
            }
            &StreamChange::AddOutbound(count) => adds(count, self.ends.outbound_streams, self.waiting_streams(true)),
            &StreamChange::AddInbound(count) => adds(count, self.ends.inbound_streams, self.waiting_streams(false)),
        }
    }

    /// Returns how many streams have been requested in addition.
    fn waiting_streams(&self, is_outbound: bool) -> u32 {
        let changes = self.agreed.reconfig.iter().flat_map(|reconfig| reconfig.changes());
        changes
            .map(|change| match *change {
                StreamChange::AddOutbound(count) if is_outbound => count.into(),
                StreamChange::AddInbound(count) if !is_outbound => count.into(),
                _ => 0,
            })
            .sum()
    }

    /// Performs what has waited: a reset for data, the next request for the data before it.
    #[inline]
    pub(super) fn advance_reconfig(&mut self, ctx: &mut Context<'_>) {
        if self.agreed.reconfig.is_some() {
            self.perform_reset();
            if self.begin_request() {
                self.send_request(ctx.now, false);
            }
        }
    }

    /// Makes the next request the outstanding one, if it may be sent now.
    fn begin_request(&mut self) -> bool {
        let may_send = self.state.may_send_data();
        let Some(reconfig) = self.agreed.reconfig.as_mut().filter(|_| may_send) else {
            return false;
        };
        let last_tsn = match reconfig.next_wish() {
            None => return false,
            Some(StreamChange::ResetOutbound(streams)) if !self.sending.are_drained(streams) => return false,
            Some(StreamChange::ResetOutbound(streams)) => self.sending.begin_reset(streams),
            Some(_) => self.sending.last_tsn(),
        };
        reconfig.begin(last_tsn, self.sending.sending_path());
        true
    }

    /// Sends the outstanding request, on another path if it has timed out and there is one.
    fn send_request(&mut self, now: Time, timed_out: bool) {
        let path = self.request_path(now, timed_out);
        let answer = Box::default();
        self.sending.control().drop_request();
        self.sending.control().push(
            path,
            Outgoing::Reconfig {
                answer,
                has_request: true,
            },
        );
    }

    /// Returns the path for the outstanding request, and restarts its timer. RFC 6525 §5.1.1: with the RTO.
    fn request_path(&mut self, now: Time, timed_out: bool) -> PathId {
        let sending = self.sending.sending_path();
        let Some(reconfig) = &mut self.agreed.reconfig else {
            return sending;
        };
        let (last, in_progress) = reconfig.outstanding().unwrap_or((sending, 0));
        let from = if timed_out { last } else { sending };
        let path = self.sending.control_path(from, timed_out, Path::is_open);
        let path = path.unwrap_or(sending);
        // A peer that waits for its reader is asked less and less often.
        let timeout = self.sending.paths()[path].timeout() * (1 << in_progress.min(16));
        reconfig.on_sent(path, now + timeout.min(self.config.rto_max));
        path
    }

    /// The timer of the outstanding request has expired.
    pub(super) fn on_reconfig_timer(&mut self, ctx: &mut Context<'_>) {
        let Some(reconfig) = &mut self.agreed.reconfig else {
            return;
        };
        reconfig.stop();
        let Some((path, in_progress)) = reconfig.outstanding() else {
            return;
        };
        self.trace_timer(ctx, TimerKind::Reconfig, Some(path));
        // RFC 6525 §5.2.7 H2: the peer has answered, and waits itself.
        if self.state.may_send_data() && in_progress == 0 {
            let progress = self.sending.on_control_timeout(ctx, path);
            self.apply(ctx, progress);
        }
        if self.state.may_send_data() {
            self.send_request(ctx.now, true);
        }
    }

    /// Writes responses, and the outstanding request.
    pub(super) fn push_reconfig(&self, packet: &mut Packet<'_>, answer: &[u8], has_request: bool) {
        let mut list = answer.to_vec();
        if has_request && let Some(reconfig) = &self.agreed.reconfig {
            reconfig.write_request(&mut list);
        }
        if !list.is_empty() {
            packet.push(&Chunk::ReConfig {
                parameters: Parameters::from_wire_bytes(&list),
            });
        }
    }

    /// Returns the length of the outstanding request in bytes.
    pub(super) fn request_len(&self) -> usize {
        self.agreed
            .reconfig
            .as_ref()
            .map_or(0, |reconfig| reconfig.request_len())
    }

    /// Processes a RE-CONFIG chunk (RFC 6525 §5.2).
    pub(super) fn on_reconfig(
        &mut self,
        ctx: &mut Context<'_>,
        from: PathId,
        parameters: Parameters<'_>,
    ) -> Result<(), Discard> {
        if !self.state.takes_data() {
            return Err(Discard::Unexpected);
        }
        let mut listed = Vec::new();
        for parameter in parameters.iter() {
            listed.push(parameter.map_err(|_| Discard::InvalidChunk)?);
        }
        if !is_allowed(&listed) {
            // RFC 6525 §3.1
            let mut causes = Vec::new();
            Cause::ProtocolViolation(b"RE-CONFIG with parameters that do not belong together").emit(&mut causes);
            self.report(from, causes);
            return Err(Discard::InvalidChunk);
        }
        let mut answers = peer::Answers::default();
        for parameter in listed {
            if let Parameter::ReconfigResponse { response, result, .. } = parameter {
                self.on_response(response, result);
            } else {
                self.on_request(&parameter, &mut answers);
            }
        }
        self.send_answers(ctx, from, answers);
        // Data may have waited for the response, and the shutdown for the data.
        self.advance_shutdown(ctx);
        Ok(())
    }

    fn on_response(&mut self, number: u32, result: u32) {
        let Some(reconfig) = &mut self.agreed.reconfig else {
            return;
        };
        let (wish, last_tsn, path) = match reconfig.on_response(number, result) {
            Settled::Nothing | Settled::Later => return,
            Settled::Done { wish, last_tsn, path } => (wish, last_tsn, path),
        };
        self.sending.control().drop_request();
        self.sending.on_control_answered(path);
        let is_done = matches!(result, reconfig_result::NOTHING_TO_DO | reconfig_result::PERFORMED);
        match &wish.change {
            // RFC 6525 §5.2.7 H4
            StreamChange::ResetOutbound(streams) => {
                self.sending.end_reset(streams, is_done.then_some(last_tsn));
            }
            StreamChange::AddOutbound(count) if is_done => {
                self.ends.outbound_streams = self.ends.outbound_streams.saturating_add(*count);
            }
            // The peer's own request adds them.
            StreamChange::AddInbound(_) if is_done => return,
            _ => {}
        }
        self.user.events.push_back(if is_done {
            Event::StreamsChanged(wish.change)
        } else {
            Event::StreamChangeRefused {
                change: wish.change,
                result,
            }
        });
    }
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
            | [AddOutgoingStreams { .. }, AddIncomingStreams { .. }]
            | [ReconfigResponse { .. }, OutgoingReset { .. } | ReconfigResponse { .. }]
    )
}
