//! Associations whose addresses change, and somebody who knows their keys.

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
    let association = net.host(host).association(id).expect("up");
    association.paths().map(|path| path.remote).collect()
}

pub fn locals(net: &Net, id: AssocId) -> Vec<TransportAddr> {
    net.a.association(id).expect("up").local_addrs().to_vec()
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

/// Whoever has seen the handshake, and so knows the key if no secret goes into it: makes it from the parameters as RFC 4895 §6.1 says.
pub struct Insider {
    pub key: Vec<u8>,
    pub key_id: u16,
    pub sha1: bool,
    /// Whom it poses as.
    pub poses_as: Host,
    pub tag: u32,
    /// Of the next ASCONF of that end.
    pub serial: u32,
}

impl Insider {
    /// Poses as A.
    pub fn new(net: &Net) -> Self {
        Insider::posing_as(Host::A, net)
    }

    pub fn posing_as(host: Host, net: &Net) -> Self {
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
        // Of the same length: compared byte by byte.
        assert_eq!(a.len(), b.len());
        let (own, other) = match host {
            Host::A => (init, init_ack),
            Host::B => (init_ack, init),
        };
        Insider {
            key: if a < b { [a, b] } else { [b, a] }.concat(),
            key_id: 0,
            sha1: false,
            poses_as: host,
            tag: other.init().initiate_tag,
            serial: own.init().initial_tsn.0,
        }
    }

    /// A packet with these chunks behind an AUTH chunk.
    pub fn packet(&self, chunks: &[Chunk<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut sink = ByteSink::new(&mut bytes, ChecksumField::Compute);
        sink.begin(CommonHeader {
            source_port: port(self.poses_as),
            destination_port: port(self.poses_as.other()),
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

    /// An ASCONF of that end with these requests.
    pub fn asconf(&mut self, requests: &[Parameter<'_>]) -> Vec<u8> {
        let mut list = Vec::new();
        Parameter::address(addrs(self.poses_as, 1)[0].ip()).emit(&mut list);
        requests.iter().for_each(|request| request.emit(&mut list));
        let serial = self.serial;
        self.serial = serial.wrapping_add(1);
        self.packet(&[Chunk::Asconf(Asconf {
            serial,
            parameters: Parameters::from_wire_bytes(&list),
        })])
    }
}

/// A, which has not asked for anything, is not told of the answers.
pub fn mute(net: &mut Net, host: Host) {
    net.knob = Box::new(move |packet| if packet.from == host { Fate::Drop } else { Fate::Deliver });
}

/// The answers in the last ASCONF-ACK of B: the number of each request and the code of its error, 0 if there is none.
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
