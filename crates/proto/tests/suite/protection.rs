//! Encrypted associations (draft-ietf-tsvwg-sctp-dtls-chunk), and attackers who see, change and invent packets but do not have the secret.
//! `whimbrel-secure` runs these tests with its ciphers.

use crate::keys;
use crate::support::{Fate, Host, Net, Sent, addrs, data, init, meta, packet, parameters, port, resealed};
use whimbrel_control::Span;
use whimbrel_proto::{AssocId, AssociationConfig, CloseReason, Discard, Message, ProtectionConfig, State};
use whimbrel_wire::{
    Asconf, Causes, Checksum, Chunk, ChunkType, CommonHeader, Dtls, PacketView, Parameter, Parameters, Tsn,
};

pub(crate) const TEXT: &[u8] = b"the quick brown fox jumps over the lazy dog";

pub(crate) fn keyed(secret: &[u8]) -> AssociationConfig {
    AssociationConfig {
        protection: ProtectionConfig::required(keys::sources(secret).swap_remove(0)),
        dynamic_addresses: true,
        ..AssociationConfig::default()
    }
}

pub(crate) fn config() -> AssociationConfig {
    keyed(&[7; 32])
}

pub(crate) fn established(paths: usize) -> (Net, AssocId, AssocId) {
    let (mut net, a, b) = Net::established(paths, &config());
    // Both ends have received something.
    net.send(Host::A, a, Message::new(0, TEXT));
    net.run_for(Span::from_millis(500));
    assert_eq!(net.contents(Host::B), [TEXT]);
    net.forget_contents();
    (net, a, b)
}

pub(crate) fn discards(net: &mut Net, host: Host, reason: Discard) -> u64 {
    net.host(host).stats().discarded[reason as usize]
}

/// Returns the packets that a host sent in DTLS chunks.
pub(crate) fn sealed(net: &Net, host: Host) -> Vec<Sent> {
    net.sent(host, ChunkType::DTLS).into_iter().cloned().collect()
}

/// Returns the packet with the header of another association or direction.
pub(crate) fn with_header(bytes: &[u8], header: CommonHeader) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[..2].copy_from_slice(&header.source_port.to_be_bytes());
    bytes[2..4].copy_from_slice(&header.destination_port.to_be_bytes());
    bytes[4..8].copy_from_slice(&header.verification_tag.to_be_bytes());
    resealed_from_zero(bytes)
}

pub(crate) fn resealed_from_zero(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[8..12].fill(0);
    resealed(bytes)
}

/// Checks that the association still carries messages in both directions.
pub(crate) fn still_works(net: &mut Net, a: AssocId, b: AssocId) {
    net.forget_contents();
    net.send(Host::A, a, Message::new(0, &b"ping"[..]));
    net.send(Host::B, b, Message::new(0, &b"pong"[..]));
    net.run_for(Span::from_secs(1));
    assert_eq!(net.contents(Host::B), [b"ping"]);
    assert_eq!(net.contents(Host::A), [b"pong"]);
    assert_eq!(net.state(Host::A, a), State::Established);
    assert_eq!(net.state(Host::B, b), State::Established);
}

// The draft, introduction: "No information is sent in plain text" except the handshake and the headers.
// [dtls:3.1-1, 3.1-5, 5.1-1, 5.1-2, 5.1-8, 5.2-1, 5.2-2, 5.2-3, 5.2-4, 6-3]
#[test]
fn everything_after_the_handshake_is_encrypted() {
    for source in keys::sources(&[7; 32]) {
        let config = AssociationConfig {
            protection: ProtectionConfig::required(source),
            ..AssociationConfig::default()
        };
        let mut net = Net::with_config(2, &config, 1);
        let a = net.connect(&config, 2);
        // Data that waits is not sent with the COOKIE ECHO.
        net.send(Host::A, a, Message::new(0, TEXT));
        net.run_for(Span::from_secs(40));
        let b = net.only(Host::B);
        assert!(net.a.association(a).expect("A").is_protected() && net.b.association(b).expect("B").is_protected());
        net.send(Host::B, b, Message::new(1, vec![b'x'; 100_000]));
        net.run_for(Span::from_secs(5));
        assert_eq!(
            (net.contents(Host::B), net.contents(Host::A)),
            (vec![TEXT.to_vec()], vec![vec![b'x'; 100_000]])
        );
        let now = net.now;
        net.a.shutdown(now, a);
        net.run_for(Span::from_secs(5));
        for host in [Host::A, Host::B] {
            assert_eq!(net.close_reason(host), Some(CloseReason::Graceful));
        }
        let plain = [ChunkType::INIT, ChunkType::INIT_ACK, ChunkType::COOKIE_ECHO];
        let mut longest = 0;
        for sent in &net.wire {
            let types = sent.types();
            assert!(
                types.len() == 1 && (plain.contains(&types[0]) || types[0] == ChunkType::DTLS),
                "{types:?}"
            );
            assert!(
                !sent
                    .bytes
                    .windows(8)
                    .any(|part| TEXT.windows(8).any(|text| part == text) || part == [b'x'; 8])
            );
            longest = longest.max(sent.bytes.len());
            if let Chunk::Dtls(dtls) = sent.chunks()[0] {
                assert_eq!(dtls.epoch, 3);
            }
        }
        // The path MTU of 1500 bytes is used completely, and not exceeded.
        assert_eq!(longest, 1480);
    }
}

// RFC 9147 §4.5.1
// [dtls:10-1]
#[test]
fn replayed_packets_are_discarded() {
    let (mut net, a, b) = established(2);
    net.send(Host::A, a, Message::new(0, vec![1; 20_000]));
    net.run_for(Span::from_secs(1));
    net.forget_contents();
    let before = net.b.association(b).expect("B").stats();
    for host in [Host::A, Host::B] {
        let recorded = sealed(&net, host);
        assert!(recorded.len() > 10);
        for sent in &recorded {
            let result = net.deliver_from(host.other(), sent.meta(), &sent.bytes);
            assert_eq!(result, Err(Discard::Replayed));
            // From another port, as if a NAT had moved the peer.
            let mut other = sent.meta();
            other.remote.set_port(7777);
            assert_eq!(
                net.deliver_from(host.other(), other, &sent.bytes),
                Err(Discard::Replayed)
            );
        }
    }
    net.run_for(Span::from_secs(1));
    let after = net.b.association(b).expect("B").stats();
    assert_eq!(
        before.packets_received, after.packets_received,
        "nothing of them was processed"
    );
    assert!(
        net.wire.iter().all(|sent| sent.remote.port() != 7777),
        "no other port is asked"
    );
    assert!(net.b.association(b).expect("B").protection_stats().replayed > 20);
    still_works(&mut net, a, b);
}

#[test]
fn packets_of_an_earlier_association_do_not_open() {
    let (mut net, a, _) = established(1);
    let now = net.now;
    net.a.shutdown(now, a);
    net.run_for(Span::from_secs(5));
    assert_eq!(net.close_reason(Host::B), Some(CloseReason::Graceful));
    let recorded = [sealed(&net, Host::A), sealed(&net, Host::B)].concat();
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
    // The cookie was used (decision 0027).
    assert_eq!(net.deliver(Host::B, &echo.bytes), Err(Discard::Cookie));
    // Nor do they cause an answer while the keys are kept, and later they are out of the blue.
    let count = net.wire.len();
    for sent in &recorded {
        assert_eq!(
            net.deliver_from(sent.from.other(), sent.meta(), &sent.bytes),
            Err(Discard::Replayed)
        );
    }
    assert_eq!(net.wire.len(), count);
    net.run_for(Span::from_secs(130));
    let sent = &recorded[0];
    assert_eq!(
        net.deliver_from(sent.from.other(), sent.meta(), &sent.bytes),
        Err(Discard::OutOfTheBlue)
    );
    assert_eq!(net.wire.len(), count + 1, "an ABORT, which is not encrypted");
    net.wire.clear();
    let a = net.connect(&config(), 1);
    net.run_for(Span::from_millis(200));
    let b = net.only(Host::B);
    for to in [Host::A, Host::B] {
        let header = CommonHeader {
            source_port: port(to.other()),
            destination_port: port(to),
            verification_tag: net.tag_of(to),
        };
        for sent in &recorded {
            let bytes = with_header(&sent.bytes, header);
            let result = net.deliver(to, &bytes);
            assert!(
                matches!(result, Err(Discard::Unprotected | Discard::Replayed)),
                "{result:?}"
            );
        }
    }
    assert!(net.b.association(b).expect("B").protection_stats().failed > 0);
    still_works(&mut net, a, b);
}

#[test]
fn reflected_packets_do_not_open() {
    let (mut net, a, b) = established(1);
    for host in [Host::A, Host::B] {
        let header = CommonHeader {
            source_port: port(host.other()),
            destination_port: port(host),
            verification_tag: net.tag_of(host),
        };
        for sent in sealed(&net, host) {
            let bytes = with_header(&sent.bytes, header);
            let result = net.deliver(host, &bytes);
            assert!(
                matches!(result, Err(Discard::Unprotected | Discard::Replayed)),
                "{result:?}"
            );
        }
        let id = if host == Host::A { a } else { b };
        assert!(net.host(host).association(id).expect("there").protection_stats().failed > 0);
    }
    still_works(&mut net, a, b);
}

// [dtls:5.2-5, 5.2-7, 5.4-11]
#[test]
fn changed_packets_do_not_open() {
    let (mut net, a, b) = established(1);
    net.filter = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    net.send(Host::A, a, Message::new(0, TEXT));
    let good = net.last(Host::A, ChunkType::DTLS);
    // Everything behind the common header but padding and reserved bits: flags are not authenticated, but R makes it another key.
    let view = PacketView::parse(&good.bytes, Checksum::Ignore).expect("a packet");
    let Some(Ok(Chunk::Dtls(dtls))) = view.chunks().next() else {
        panic!("a DTLS chunk")
    };
    let end = 20 + dtls.record.len();
    for at in (17..end).chain([12, 14, 15]) {
        for bit in 0..8 {
            let mut bytes = good.bytes.clone();
            bytes[at] ^= 1 << bit;
            let result = net.deliver(Host::B, &resealed_from_zero(bytes));
            assert!(result.is_err(), "byte {at}, bit {bit}");
        }
    }
    assert_eq!(net.contents(Host::B).len(), 0);
    // The R bit: keys of a restart, which are not supported.
    let restart = Chunk::Dtls(Dtls { restart: true, ..dtls });
    assert_eq!(net.as_peer(Host::B, &[restart]), Err(Discard::Unprotected));
    // "In which a DTLS chunk is bundled with any other chunk, the entire packet MUST be silently discarded."
    for chunks in [
        [Chunk::Dtls(dtls), Chunk::ShutdownAck],
        [Chunk::Dtls(dtls), Chunk::Dtls(dtls)],
    ] {
        assert_eq!(net.as_peer(Host::B, &chunks), Err(Discard::Bundled));
    }
    assert_eq!(
        net.as_peer(Host::B, &[Chunk::CookieAck, Chunk::Dtls(dtls)]),
        Err(Discard::Unprotected)
    );
    assert_eq!(net.contents(Host::B).len(), 0);
    assert_eq!(net.deliver(Host::B, &good.bytes), Ok(()), "the packet itself");
    net.read(Host::B, b);
    assert_eq!(net.contents(Host::B), [TEXT]);
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(5));
    still_works(&mut net, a, b);
}

// The draft, "DTLS Chunk Handling" and "Require Protected SCTP Packets".
// [dtls:5.2-6]
#[test]
fn chunks_without_encryption_are_silently_discarded() {
    let (mut net, a, b) = established(1);
    let list = parameters(&[
        Parameter::Ipv4([10, 0, 0, 1].into()),
        Parameter::AddIp {
            correlation: 1,
            address: [10, 0, 9, 9].into(),
        },
    ]);
    let serial = net.sent(Host::A, ChunkType::INIT)[0].init().initial_tsn.0;
    let none = Causes::from_wire_bytes(&[]);
    let forged = [
        Chunk::Abort {
            tag_reflected: false,
            causes: none,
        },
        Chunk::ShutdownComplete { tag_reflected: false },
        Chunk::ShutdownAck,
        Chunk::Shutdown {
            cumulative_tsn_ack: Tsn(serial),
        },
        Chunk::Error { causes: none },
        Chunk::CookieAck,
        Chunk::Asconf(Asconf {
            serial,
            parameters: Parameters::from_wire_bytes(&list),
        }),
        Chunk::Data(data(serial.wrapping_add(1), 1, b"forged")),
        Chunk::Data(data(serial, 0, b"forged")),
    ];
    let sent = net.wire.len();
    for to in [Host::A, Host::B] {
        for chunk in forged {
            assert_eq!(net.as_peer(to, &[chunk]), Err(Discard::Unprotected), "{chunk:?}");
        }
        // With the receiver's own tag, as for an association that does not exist (RFC 9260 §8.5.1 B and C).
        let own = net.tag_of(to.other());
        for chunk in [
            Chunk::Abort {
                tag_reflected: true,
                causes: none,
            },
            Chunk::ShutdownComplete { tag_reflected: true },
        ] {
            assert_eq!(net.forge(to, own, &[chunk]), Err(Discard::Unprotected), "{chunk:?}");
        }
        // An INIT ACK is not discarded for this reason, and has no effect.
        let ack = Chunk::InitAck(init(9, &[]));
        assert!(net.as_peer(to, &[ack]).is_err());
    }
    assert_eq!(net.wire.len(), sent, "silently");
    assert_eq!(net.b.association(b).expect("B").protection_stats().unprotected, 10);
    still_works(&mut net, a, b);
}

// A new port is followed only after a chunk has opened and passed the replay check.
#[test]
fn a_new_port_is_followed_after_an_authentic_packet_only() {
    let (mut net, a, b) = established(1);
    let (to, from) = (addrs(Host::B, 1)[0], addrs(Host::A, 1)[0]);
    let mut elsewhere = from;
    elsewhere.set_port(6666);
    let tag = net.tag_of(Host::B);
    let header = CommonHeader {
        source_port: port(Host::A),
        destination_port: port(Host::B),
        verification_tag: tag,
    };
    let garbage = Chunk::Dtls(Dtls {
        restart: false,
        epoch: 3,
        number: 5,
        record: &[1; 40],
    });
    for bytes in [
        packet(header.source_port, header.destination_port, tag, &[garbage]),
        packet(header.source_port, header.destination_port, tag, &[Chunk::ShutdownAck]),
        sealed(&net, Host::A)[0].bytes.clone(),
        with_header(&sealed(&net, Host::B)[0].bytes, header),
    ] {
        assert!(net.deliver_from(Host::B, meta(to, elsewhere), &bytes).is_err());
    }
    net.run_for(Span::from_secs(5));
    assert!(
        net.wire.iter().all(|sent| sent.remote != elsewhere),
        "nothing is sent there"
    );
    // An authentic packet that an attacker holds back and sends from elsewhere: both ports are asked.
    net.filter = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    net.send(Host::A, a, Message::new(0, TEXT));
    let held = net.last(Host::A, ChunkType::DTLS);
    net.filter = Box::new(|_| Fate::Deliver);
    assert_eq!(net.deliver_from(Host::B, meta(to, elsewhere), &held.bytes), Ok(()));
    net.run_for(Span::from_secs(5));
    assert!(
        net.wire
            .iter()
            .any(|sent| sent.remote == elsewhere && sent.types() == [ChunkType::DTLS])
    );
    let path = net.b.association(b).expect("B").paths().next().expect("a path");
    assert_eq!(path.remote, from, "the old port answers");
    still_works(&mut net, a, b);
}
