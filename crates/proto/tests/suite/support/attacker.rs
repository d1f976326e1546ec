//! Associations whose addresses change, and an attacker who knows their keys.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use whimbrel_control::Span;
use whimbrel_proto::{AddressError, AssocId, AssociationConfig, Discard, TransportAddr};
use whimbrel_wire::{
    Asconf, Auth, ByteSink, ChecksumField, Chunk, ChunkType, CommonHeader, PacketSink, Parameter, Parameters, hmac_id,
};

use super::{Fate, Host, Net, addr, addrs, port};

pub fn dynamic() -> AssociationConfig {
    AssociationConfig {
        dynamic_addresses: true,
        hb_interval: Span::ZERO,
        ..AssociationConfig::default()
    }
}

pub fn established(paths: usize) -> (Net, AssocId, AssocId) {
    Net::established(paths, &dynamic())
}

/// The mobile's second address.
pub fn lte() -> TransportAddr {
    addr("10.0.1.1:0")
}

pub fn wifi() -> TransportAddr {
    addrs(Host::A, 1)[0]
}

pub fn remotes(net: &mut Net, host: Host, id: AssocId) -> Vec<TransportAddr> {
    let association = net.host(host).association(id).expect("established");
    association.paths().map(|path| path.remote).collect()
}

pub fn locals(net: &Net, id: AssocId) -> Vec<TransportAddr> {
    net.a.association(id).expect("established").local_addrs().to_vec()
}

pub fn add(net: &mut Net, id: AssocId, addr: TransportAddr) -> Result<(), AddressError> {
    let now = net.now;
    net.a.add_local_address(now, id, addr)
}

pub fn remove(net: &mut Net, id: AssocId, addr: TransportAddr) -> Result<(), AddressError> {
    let now = net.now;
    net.a.remove_local_address(now, id, addr)
}

pub fn unauthenticated(net: &mut Net, host: Host) -> u64 {
    net.host(host).stats().discarded[Discard::Unauthenticated as usize]
}

/// An attacker who has seen the handshake. Without a shared secret it knows the key, and computes it from the parameters as RFC 4895 §6.1
/// specifies.
pub struct Attacker {
    pub key: Vec<u8>,
    pub key_id: u16,
    pub sha1: bool,
    /// The host that the attacker impersonates.
    pub impersonates: Host,
    pub tag: u32,
    /// Serial number of the next ASCONF of that host.
    pub serial: u32,
}

impl Attacker {
    /// Impersonates A.
    pub fn new(net: &Net) -> Self {
        Attacker::impersonating(Host::A, net)
    }

    pub fn impersonating(host: Host, net: &Net) -> Self {
        let init = net.wire.iter().find(|sent| sent.has(ChunkType::INIT)).expect("an INIT");
        let init_ack = net
            .wire
            .iter()
            .find(|sent| sent.has(ChunkType::INIT_ACK))
            .expect("an INIT ACK");
        let vector = |parameters: Parameters<'_>| {
            let mut bytes = Vec::new();
            for wanted in [0x8002, 0x8003, 0x8004] {
                let mut all = parameters.raw().map_while(Result::ok);
                let found = all.find(|raw| raw.parameter_type() == wanted);
                bytes.extend_from_slice(found.expect("all three are there").bytes());
            }
            bytes
        };
        let (a, b) = (vector(init.init().parameters), vector(init_ack.init().parameters));
        // Both have the same length: they are compared byte by byte.
        assert_eq!(a.len(), b.len());
        let (own, other) = match host {
            Host::A => (init, init_ack),
            Host::B => (init_ack, init),
        };
        Attacker {
            key: if a < b { [a, b] } else { [b, a] }.concat(),
            key_id: 0,
            sha1: false,
            impersonates: host,
            tag: other.init().initiate_tag,
            serial: own.init().initial_tsn.0,
        }
    }

    /// Returns a packet with these chunks after an AUTH chunk.
    pub fn packet(&self, chunks: &[Chunk<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut sink = ByteSink::new(&mut bytes, ChecksumField::Compute);
        sink.begin(CommonHeader {
            source_port: port(self.impersonates),
            destination_port: port(self.impersonates.other()),
            verification_tag: self.tag,
        });
        let (hmac_id, len) = if self.sha1 {
            (hmac_id::SHA1, 20)
        } else {
            (hmac_id::SHA256, 32)
        };
        sink.push(&Chunk::Auth(Auth {
            key_id: self.key_id,
            hmac_id,
            hmac: &[0; 32][..len],
        }));
        chunks.iter().for_each(|chunk| sink.push(chunk));
        if self.sha1 {
            let mut mac = Hmac::<Sha1>::new_from_slice(&self.key).expect("any length");
            assert!(sink.authenticated(&mut |part| mac.update(part)));
            sink.set_hmac(&mac.finalize().into_bytes());
        } else {
            let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("any length");
            assert!(sink.authenticated(&mut |part| mac.update(part)));
            sink.set_hmac(&mac.finalize().into_bytes());
        }
        sink.finish();
        bytes
    }

    /// Returns an ASCONF of that host with these requests.
    pub fn asconf(&mut self, requests: &[Parameter<'_>]) -> Vec<u8> {
        let mut list = Vec::new();
        Parameter::address(addrs(self.impersonates, 1)[0].ip()).emit(&mut list);
        requests.iter().for_each(|request| request.emit(&mut list));
        let serial = self.serial;
        self.serial = serial.wrapping_add(1);
        self.packet(&[Chunk::Asconf(Asconf {
            serial,
            parameters: Parameters::from_wire_bytes(&list),
        })])
    }
}

/// Drops the ASCONF-ACKs to A, which has sent no ASCONF.
pub fn drop_packets_of(net: &mut Net, host: Host) {
    net.filter = Box::new(move |packet| if packet.from == host { Fate::Drop } else { Fate::Deliver });
}

/// Returns the responses in the last ASCONF-ACK of B: the correlation ID of each request and its error code, 0 without an error.
pub fn answers(net: &Net) -> Vec<(u32, u16)> {
    let last = net.wire.iter().rev().find(|sent| sent.has(ChunkType::ASCONF_ACK));
    let chunks = last.expect("an ASCONF-ACK").chunks();
    assert!(matches!(chunks[0], Chunk::Auth(_)), "authenticated");
    let Chunk::AsconfAck(ack) = chunks[1] else {
        panic!("ASCONF-ACK behind AUTH")
    };
    let answer = |parameter| match parameter {
        Ok(Parameter::Success { correlation }) => (correlation, 0),
        Ok(Parameter::ErrorCauseIndication { correlation, causes }) => {
            let cause = causes.iter().next().expect("a cause").expect("well-formed");
            (correlation, cause.code())
        }
        other => panic!("{other:?}"),
    };
    ack.parameters.iter().map(answer).collect()
}
