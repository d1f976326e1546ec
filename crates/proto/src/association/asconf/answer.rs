//! ASCONF from the peer and the ASCONF-ACK that answers it (RFC 5061 §5.2).

use whimbrel_wire::{
    ASCONF_HEADER_LEN, Asconf, Cause, Causes, Chunk, PacketView, Parameter, Parameters, RawParameter, UnknownAction,
    cause_code,
};

use super::super::Association;
use crate::PacketMeta;
use crate::context::Context;
use crate::endpoint::{Reply, ReplyChunk};
use crate::error::Discard;
use crate::send::{Outgoing, Trust};

/// Maximum bytes of responses in an ASCONF-ACK; less if a packet holds less. Requests beyond it are refused.
const MAX_ANSWERS: usize = 512;

/// Maximum bytes of one response: its header, the header of the cause, and the quoted part of the request.
const MAX_ANSWER: usize = 12 + MAX_SHOWN;

/// Maximum bytes of a request that its refusal quotes.
const MAX_SHOWN: usize = 64;

/// Returns the part of a request that a response quotes.
fn shown(raw: RawParameter<'_>) -> &[u8] {
    &raw.bytes()[..raw.bytes().len().min(MAX_SHOWN)]
}

/// Returns the correlation ID of a request that cannot be decoded.
fn correlation_of(raw: RawParameter<'_>) -> u32 {
    raw.value().first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn refuse(correlation: u32, causes: &[u8], answers: &mut Vec<u8>) {
    Parameter::ErrorCauseIndication {
        correlation,
        causes: Causes::from_wire_bytes(causes),
    }
    .emit(answers);
}

/// Returns the serial number of the ASCONF with which a packet begins.
fn first_serial(packet: &PacketView<'_>) -> Option<u32> {
    match packet.chunks().next() {
        Some(Ok(Chunk::Asconf(asconf))) => Some(asconf.serial),
        _ => None,
    }
}

impl Association {
    /// Returns whether the packet contains an ASCONF for this association. Its source is not the remote address of a
    /// path: the address parameter identifies the association (RFC 5061 §4.1.1). The requests take effect only if they
    /// are authenticated.
    pub(crate) fn is_named_in_asconf(&self, packet: &PacketView<'_>) -> bool {
        if self.agreed.asconf.is_none() {
            return false;
        }
        let mut chunks = packet.chunks().map_while(Result::ok);
        if !matches!(chunks.next(), Some(Chunk::Auth(_))) {
            return false;
        }
        let Some(Chunk::Asconf(asconf)) = chunks.next() else {
            return false;
        };
        match asconf.parameters.iter().next() {
            Some(Ok(Parameter::Ipv4(ip))) => ip.is_unspecified() || self.sending.has_remote(ip.into()),
            Some(Ok(Parameter::Ipv6(ip))) => ip.is_unspecified() || self.sending.has_remote(ip.into()),
            _ => false,
        }
    }

    /// Returns whether an opened packet begins with an ASCONF that has not been answered yet. It may come from anywhere.
    pub(crate) fn has_news_in_asconf(&self, packet: &PacketView<'_>) -> bool {
        let state = self.agreed.asconf.as_ref().filter(|_| self.may_change_addresses());
        let next = state.map(|state| state.peer_serial.wrapping_add(1));
        next.is_some() && first_serial(packet) == next
    }

    /// Sends the answer of the latest ASCONF again, if an opened packet from an address that is neither verified nor named repeats it: the answer was
    /// lost, or went to the source of a faster copy. The packet does not count, so that each copy of it gets an answer.
    pub(crate) fn answer_repeated_asconf(&mut self, ctx: &mut Context<'_>, meta: PacketMeta, packet: &PacketView<'_>) {
        let Some(state) = self.agreed.asconf.as_ref() else {
            return;
        };
        let serial = state.peer_serial;
        if let Some(answer) = state.answer.clone().filter(|_| first_serial(packet) == Some(serial)) {
            self.answer_asconf(ctx, meta, serial, answer);
        }
    }

    /// Handles an ASCONF (RFC 5061 §5.2). The caller has verified that it is authenticated.
    pub(in super::super) fn on_asconf(
        &mut self,
        ctx: &mut Context<'_>,
        meta: PacketMeta,
        asconf: &Asconf<'_>,
    ) -> Result<(), Discard> {
        let may_change = self.may_change_addresses();
        let Some(state) = self.agreed.asconf.as_ref().filter(|_| may_change) else {
            return Err(Discard::Unexpected);
        };
        if asconf.serial == state.peer_serial
            && let Some(answer) = &state.answer
        {
            // The ASCONF-ACK was lost.
            let answer = answer.clone();
            self.answer_asconf(ctx, meta, asconf.serial, answer);
            return Ok(());
        }
        if asconf.serial != state.peer_serial.wrapping_add(1) {
            return Err(Discard::Unexpected);
        }
        let mut requests = asconf.parameters.raw();
        let names_address = |raw: RawParameter<'_>| {
            let parameter = raw.decode();
            matches!(parameter, Ok(Parameter::Ipv4(_) | Parameter::Ipv6(_)))
        };
        if !matches!(requests.next(), Some(Ok(raw)) if names_address(raw)) {
            return Err(Discard::InvalidChunk);
        }
        if asconf.parameters.raw().any(|raw| raw.is_err()) {
            return Err(Discard::InvalidChunk);
        }
        let (mut answers, mut failed) = (Vec::new(), false);
        let room = self
            .sending
            .largest_chunk()
            .saturating_sub(self.signed_len() + ASCONF_HEADER_LEN);
        let last = MAX_ANSWERS.min(room).saturating_sub(2 * MAX_ANSWER);
        while let Some(Ok(raw)) = requests.next() {
            match self.carry_out(ctx, meta, raw) {
                Ok(Some(correlation)) => Parameter::Success { correlation }.emit(&mut answers),
                Ok(None) => {}
                Err((correlation, causes)) => {
                    failed = true;
                    refuse(correlation, &causes, &mut answers);
                }
            }
            // RFC 9260 §3.2.1: the type of an unrecognized parameter may require to stop processing.
            if answers.len() > last || raw.action().stops() {
                break;
            }
        }
        if let Some(Ok(raw)) = requests.next() {
            // RFC 5061 §4.1.2: a request without a response has succeeded, unless an earlier one was refused. Therefore
            // the first request that is not processed is refused explicitly.
            failed = true;
            let mut causes = Vec::new();
            Cause::ResourceShortage(shown(raw)).emit(&mut causes);
            refuse(correlation_of(raw), &causes, &mut answers);
        }
        if !failed {
            // RFC 5061 §4.1.2: no response means success.
            answers.clear();
        }
        let answer: Box<[u8]> = answers.into();
        if let Some(state) = &mut self.agreed.asconf {
            state.peer_serial = asconf.serial;
            state.answer = Some(answer.clone());
        }
        self.answer_asconf(ctx, meta, asconf.serial, answer);
        Ok(())
    }

    /// Sends the ASCONF-ACK to the source of the ASCONF, whether or not it is an address of the association (RFC 5061
    /// §5.2).
    fn answer_asconf(&mut self, ctx: &mut Context<'_>, meta: PacketMeta, serial: u32, answer: Box<[u8]>) {
        if let Some(to) = self.sending.path_for(&meta) {
            self.answer(to, Outgoing::AsconfAck { serial, answer });
            return;
        }
        // With encryption, another port may be that of a faster copy, and the original counts as a replay: the peer gets an answer too.
        if let Some(to) = self.sending.path_of_host(&meta).filter(|_| self.is_protected()) {
            let answer = answer.clone();
            self.answer(to, Outgoing::AsconfAck { serial, answer });
        }
        if let Some(guard) = self.guard(true) {
            ctx.replies.push(Reply {
                local: meta.local,
                remote: meta.remote,
                source_port: self.ends.local_port,
                destination_port: self.ends.peer_port,
                verification_tag: self.ends.peer_tag,
                chunk: ReplyChunk::AsconfAck { serial, answer },
                guard,
            });
        }
    }

    /// Returns the correlation ID of a request that is refused because its address is the wildcard address, which stands for the source of the
    /// packet: encryption does not cover that, and a host that forwards the packet can choose it (RFC 5061 §6). Behind a NAT there is no other way to
    /// add an address, so that is allowed unless the configuration forbids it: the address gets data only after it has answered.
    fn refused_wildcard(&self, parameter: &Parameter<'_>) -> Option<u32> {
        let may_have_nat = self.config.address_translation != Some(false);
        let (correlation, address, is_allowed) = match *parameter {
            Parameter::AddIp { correlation, address } => (correlation, address, may_have_nat),
            Parameter::DeleteIp { correlation, address } | Parameter::SetPrimary { correlation, address } => {
                (correlation, address, false)
            }
            _ => return None,
        };
        let is_wildcard = address.to_canonical().is_unspecified();
        (self.is_protected() && is_wildcard && !is_allowed).then_some(correlation)
    }

    /// Executes one request and returns its correlation ID, or `None` for a parameter that is not a request and may be
    /// skipped.
    ///
    /// # Errors
    /// Returns the correlation ID and the error causes for the response.
    fn carry_out(
        &mut self,
        ctx: &mut Context<'_>,
        meta: PacketMeta,
        raw: RawParameter<'_>,
    ) -> Result<Option<u32>, (u32, Vec<u8>)> {
        let refuse = |correlation: u32, cause: Cause<'_>| {
            let mut causes = Vec::new();
            cause.emit(&mut causes);
            Err((correlation, causes))
        };
        let shown = shown(raw);
        let Ok(parameter) = raw.decode() else {
            return refuse(correlation_of(raw), Cause::UnresolvableAddress(shown));
        };
        if let Some(correlation) = self.refused_wildcard(&parameter) {
            return refuse(correlation, Cause::NoAuthorization(shown));
        }
        match parameter {
            Parameter::AddIp { correlation, address } => {
                let address = address.to_canonical();
                let (address, trust) = match address.is_unspecified() {
                    true if self.is_protected() => (meta.remote.ip(), Trust::ToVerifyThere),
                    true => (meta.remote.ip(), Trust::ToVerify),
                    false => (address, Trust::ToVerify),
                };
                match self.take_peer_address(ctx, meta, address, trust) {
                    Ok(()) => Ok(Some(correlation)),
                    Err(cause_code::RESOURCE_SHORTAGE) => refuse(correlation, Cause::ResourceShortage(shown)),
                    Err(_) => refuse(correlation, Cause::UnresolvableAddress(shown)),
                }
            }
            Parameter::DeleteIp { correlation, address } => {
                let address = address.to_canonical();
                let source = meta.remote.ip();
                if address == source {
                    return refuse(correlation, Cause::DeleteSourceAddress(shown));
                }
                if address.is_unspecified() {
                    // All addresses except the source (RFC 5061 §4.2.2), which must belong to the association.
                    if !self.sending.has_remote(source) {
                        return refuse(correlation, Cause::DeleteLastAddress(shown));
                    }
                    self.drop_peer_addresses(ctx, |ip| ip != source);
                } else if self.sending.has_remote(address) {
                    if self.sending.live_remotes().all(|ip| ip == address) {
                        return refuse(correlation, Cause::DeleteLastAddress(shown));
                    }
                    self.drop_peer_addresses(ctx, |ip| ip == address);
                }
                Ok(Some(correlation))
            }
            Parameter::SetPrimary { correlation, address } => {
                let address = address.to_canonical();
                let address = if address.is_unspecified() {
                    meta.remote.ip()
                } else {
                    address
                };
                let path = self.sending.paths().ids().find(|&index| {
                    let path = &self.sending.paths()[index];
                    path.remote().ip() == address && path.in_use()
                });
                let Some(index) = path else {
                    return refuse(correlation, Cause::UnresolvableAddress(shown));
                };
                self.make_primary(ctx, index);
                Ok(Some(correlation))
            }
            other => match UnknownAction::of_parameter_type(other.parameter_type()) {
                UnknownAction::Skip | UnknownAction::Stop => Ok(None),
                UnknownAction::SkipAndReport | UnknownAction::StopAndReport => {
                    refuse(0, Cause::UnrecognizedParameters(Parameters::from_wire_bytes(shown)))
                }
            },
        }
    }
}
