//! Changes of addresses that the peer asks for, and our answer (RFC 5061 §5.2).

use whimbrel_wire::{
    ASCONF_HEADER_LEN, Asconf, Cause, Causes, Chunk, PacketView, Parameter, Parameters, RawParameter, UnknownAction,
    cause_code,
};

use super::super::{Association, Context, Outgoing};
use crate::PacketMeta;
use crate::endpoint::{Reply, ReplyChunk};
use crate::error::Discard;

/// Bytes of answers in an ASCONF-ACK, at most; less if a packet holds less. What is asked for beyond is refused.
const MAX_ANSWERS: usize = 512;

/// Bytes of one answer at most: its header, that of the cause, and what is shown of the request.
const MAX_ANSWER: usize = 12 + MAX_SHOWN;

/// Bytes of a request that its refusal shows.
const MAX_SHOWN: usize = 64;

/// What an answer shows of a request.
fn shown(raw: RawParameter<'_>) -> &[u8] {
    &raw.bytes()[..raw.bytes().len().min(MAX_SHOWN)]
}

/// The number of a request that is not understood otherwise.
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

impl Association {
    /// Whether the packet asks for changes of this association from an address that is none of its paths: the association is
    /// named by an address in it (RFC 5061 §4.1.1). What it asks for counts only if it is authenticated.
    pub(crate) fn is_named_in_asconf(&self, packet: &PacketView<'_>) -> bool {
        if self.asconf.is_none() {
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
            Some(Ok(Parameter::Ipv4(ip))) => ip.is_unspecified() || self.has_remote(ip.into()),
            Some(Ok(Parameter::Ipv6(ip))) => ip.is_unspecified() || self.has_remote(ip.into()),
            _ => false,
        }
    }

    /// The peer asks for changes (RFC 5061 §5.2). The caller has seen that they are authenticated.
    pub(in super::super) fn on_asconf(
        &mut self,
        ctx: &mut Context<'_>,
        meta: PacketMeta,
        asconf: &Asconf<'_>,
    ) -> Result<(), Discard> {
        let may_change = self.may_change_addresses();
        let Some(state) = self.asconf.as_ref().filter(|_| may_change) else {
            return Err(Discard::Unexpected);
        };
        if asconf.serial == state.peer_serial
            && let Some(answer) = &state.answer
        {
            // Our answer was lost.
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
            // RFC 5061 §3.2.1 of the parameter's type: some forbid to read on.
            if answers.len() > last || raw.action().stops() {
                break;
            }
        }
        if let Some(Ok(raw)) = requests.next() {
            // RFC 5061 §4.1.2: silence is consent, unless something before it was refused. So the first that is passed over is.
            failed = true;
            let mut causes = Vec::new();
            Cause::ResourceShortage(shown(raw)).emit(&mut causes);
            refuse(correlation_of(raw), &causes, &mut answers);
        }
        if !failed {
            // RFC 5061 §4.1.2: silence is consent.
            answers.clear();
        }
        let answer: Box<[u8]> = answers.into();
        if let Some(state) = &mut self.asconf {
            state.peer_serial = asconf.serial;
            state.answer = Some(answer.clone());
        }
        self.answer_asconf(ctx, meta, asconf.serial, answer);
        Ok(())
    }

    /// RFC 5061 §5.2: the answer goes where the question came from, be it an address of the association or not.
    fn answer_asconf(&mut self, ctx: &mut Context<'_>, meta: PacketMeta, serial: u32, answer: Box<[u8]>) {
        if let Some(to) = self.path_for(&meta) {
            self.answer(to as u8, Outgoing::AsconfAck { serial, answer });
        } else {
            ctx.replies.push(Reply {
                local: meta.local,
                remote: meta.remote,
                source_port: self.local_port,
                destination_port: self.peer_port,
                verification_tag: self.peer_tag,
                chunk: ReplyChunk::AsconfAck { serial, answer },
                signer: self.auth.as_ref().map(|auth| auth.signer.clone()),
            });
        }
    }

    /// Carries out one request; an error has the causes for the answer. What is no request and may be passed over has no number.
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
        match parameter {
            Parameter::AddIp { correlation, address } => {
                let address = address.to_canonical();
                let address = if address.is_unspecified() {
                    meta.remote.ip()
                } else {
                    address
                };
                match self.take_peer_address(ctx, meta, address) {
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
                    // All but the source (RFC 5061 §4.2.2), which the association must then have.
                    if !self.has_remote(source) {
                        return refuse(correlation, Cause::DeleteLastAddress(shown));
                    }
                    self.drop_peer_addresses(ctx, |ip| ip != source);
                } else if self.has_remote(address) {
                    if self.live_remotes().all(|ip| ip == address) {
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
                let path = (0..self.paths.len()).find(|&index| {
                    let path = &self.paths[index];
                    path.remote.ip() == address && path.in_use()
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
