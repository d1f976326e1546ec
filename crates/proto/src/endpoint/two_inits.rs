//! Associations that start from two INIT chunks, which the ends have exchanged by other means, without a handshake
//! (draft-hancke-tsvwg-snap).

use std::sync::Arc;

use rand_core::Rng;
use whimbrel_control::Time;
use whimbrel_wire::{
    ByteSink, COMMON_HEADER_LEN, Checksum, ChecksumField, Chunk, CommonHeader, Init, PacketSink, PacketView, Parameter,
    Parameters, Tsn,
};

use super::{Endpoint, MIN_RWND, PeerInit, Refusal, context};
use crate::association::{Agreement, Association, Identity, random_tag};
use crate::config::{AssociationConfig, Resolved};
use crate::context::Context;
use crate::error::{ConnectError, End, InitError};
use crate::extensions::Extensions;
use crate::send::candidates;
use crate::{AssocId, TransportAddr};

/// Returns an INIT chunk for an association with these settings. The user brings it to the peer by other means, for example in the session
/// description of WebRTC, gets that of the peer, and passes both to [`Endpoint::connect_with_inits`]. `random` generates the tag and the initial TSN;
/// on real networks it must be cryptographically secure. Each chunk starts one association.
///
/// # Errors
/// Returns an error if the settings are invalid, or if an association with them does not start from two INIT chunks.
pub fn init_chunk(config: &AssociationConfig, random: &mut dyn Rng) -> Result<Vec<u8>, ConnectError> {
    config.validate()?;
    check_settings(config)?;
    let mut list = Vec::new();
    if config.parts().ecn {
        // RFC 4960 appendix A
        Parameter::EcnCapable.emit(&mut list);
    }
    Extensions::wanted(&Resolved::new(config.clone())).emit(&mut list);
    let init = Init {
        initiate_tag: random_tag(random),
        a_rwnd: config.recv_buffer.max(MIN_RWND),
        outbound_streams: config.outbound_streams,
        inbound_streams: config.max_inbound_streams,
        initial_tsn: Tsn(random.next_u32()),
        parameters: Parameters::from_wire_bytes(&list),
    };
    let mut bytes = Vec::new();
    let mut sink = ByteSink::new(&mut bytes, ChecksumField::Zero);
    sink.begin(NO_HEADER);
    sink.push(&Chunk::Init(init));
    sink.finish();
    bytes.drain(..COMMON_HEADER_LEN);
    Ok(bytes)
}

/// The common header of a chunk that was not in a packet.
const NO_HEADER: CommonHeader = CommonHeader {
    source_port: 0,
    destination_port: 0,
    verification_tag: 0,
};

/// Addresses, random numbers and offers of keys are part of a handshake.
fn check_settings(config: &AssociationConfig) -> Result<(), InitError> {
    let needs_handshake = !config.single_homed || config.wants_auth() || config.protection.keys.is_some();
    if needs_handshake {
        return Err(InitError::Settings);
    }
    Ok(())
}

/// Reads the bytes of an INIT chunk. A packet with it would have come from this address.
fn read(bytes: &[u8], end: End, source: TransportAddr) -> Result<PeerInit, InitError> {
    let packet = PacketView::parse(&[0; COMMON_HEADER_LEN], Checksum::Ignore).map_err(|_| InitError::NotAnInit(end))?;
    let packet = packet.with_chunks(bytes);
    let mut chunks = packet.chunks();
    let (Some(Ok(Chunk::Init(init))), None) = (chunks.next(), chunks.next()) else {
        return Err(InitError::NotAnInit(end));
    };
    // There is no INIT ACK to report parameters that are not recognized.
    let read = PeerInit::read(&init, source, &[], &mut Vec::new(), |_, _| ());
    let flaw = match read {
        Ok(peer) => return Ok(peer.with_one_address(source)),
        Err(Refusal::Silent) => "its tag is 0",
        Err(Refusal::AbortOnly(_)) => "its receive window is smaller than 1500 bytes",
        Err(Refusal::Abort(_)) => "it has no streams, or a parameter that is not allowed",
    };
    Err(InitError::Refused { end, flaw })
}

impl Endpoint {
    /// Starts an association with the peer at this address and SCTP port, from the INIT chunk of this end, which [`init_chunk`] has returned, and
    /// that of the peer. It is established at once, and [`Event::Connected`](crate::Event::Connected) follows. The peer does the same with the
    /// chunks exchanged. Nothing shows yet that it has: the first packets may be lost or get ahead of it, and are sent again.
    ///
    /// # Errors
    /// Returns an error as [`Endpoint::connect`] does, or if the chunks do not start an association with these settings.
    pub fn connect_with_inits(
        &mut self,
        now: Time,
        config: AssociationConfig,
        peer_port: u16,
        peer: TransportAddr,
        own_init: &[u8],
        peer_init: &[u8],
    ) -> Result<AssocId, ConnectError> {
        check_settings(&config)?;
        self.check_peer(&config, peer_port, &[peer])?;
        let local = candidates(&self.local_addrs, peer).next();
        let local = local.ok_or(ConnectError::NoLocalAddress(peer))?;
        let own = read(own_init, End::Local, peer)?;
        let of_peer = read(peer_init, End::Peer, peer)?;
        if (own.tag, own.initial_tsn) == (of_peer.tag, of_peer.initial_tsn) {
            return Err(InitError::Same.into());
        }
        if self.has_used(own.tag) {
            return Err(InitError::TagInUse.into());
        }
        let config = self.resolve(config);
        let agreement = agree(&config, &own, &of_peer);
        let identity = Identity {
            id: self.table.next_id(),
            config,
            local_addrs: self.local_addrs.clone(),
            local_port: self.config.local_port,
            peer_port,
            truth: self.config.truth.clone(),
        };
        let id = identity.id;
        let association = Association::begin(context!(self, now), identity, &agreement, local, peer);
        self.table.insert(association);
        self.after_change(id.index);
        Ok(id)
    }
}

/// Returns what both ends support, as the INIT and INIT ACK of a handshake would determine it.
fn agree(config: &Arc<Resolved>, own: &PeerInit, of_peer: &PeerInit) -> Agreement {
    // What the INIT of this end does not name, the peer does not expect. A checksum of zero is accepted if that INIT allows it: `read` has taken
    // the parameter for one of the peer.
    let mut offered = own.extensions;
    offered.add(
        own.extensions.has(Extensions::SENDS_ZERO_CHECKSUM),
        Extensions::ACCEPTS_ZERO_CHECKSUM,
    );
    offered.add(true, Extensions::SENDS_ZERO_CHECKSUM);
    let offered = Extensions(Extensions::wanted(config).0 & offered.0);
    Agreement {
        local_tag: own.tag,
        peer_tag: of_peer.tag,
        local_initial_tsn: own.initial_tsn,
        peer_initial_tsn: of_peer.initial_tsn,
        peer_rwnd: of_peer.rwnd,
        // RFC 9260 §5.1.1
        outbound_streams: own.outbound_streams.min(of_peer.inbound_streams),
        inbound_streams: own.inbound_streams.min(of_peer.outbound_streams),
        ecn: own.ecn && of_peer.ecn,
        extensions: offered.in_common(of_peer.extensions),
        auth: None,
        protection: None,
    }
}
