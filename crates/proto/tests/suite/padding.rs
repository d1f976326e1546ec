//! Padding of packets and of INIT (RFC 4820).

use crate::support::{Host, Net, Sent, data, init, parameters};
use whimbrel_proto::AssociationConfig;
use whimbrel_wire::{Chunk, ChunkType, Parameter};

// [4820:3-5]
#[test]
fn rfc_4820_3_the_chunks_behind_a_pad_chunk_are_processed() {
    let (mut net, a, _) = Net::established(1, &AssociationConfig::default());
    net.send(Host::A, a, whimbrel_proto::Message::zeros(0, 10));
    net.run_for(whimbrel_control::Span::from_secs(1));
    let last = net.wire.iter().filter(|sent| sent.from == Host::A);
    let last = last.flat_map(Sent::tsns).last().expect("A has sent data");
    let before = net.contents(Host::B).len();
    net.as_peer(
        Host::B,
        &[
            Chunk::Pad { len: 100 },
            Chunk::Data(data(last.wrapping_add(1), 1, b"data")),
            Chunk::Pad { len: 0 },
        ],
    )
    .expect("processed");
    net.drain(Host::B);
    assert_eq!(net.contents(Host::B).len(), before + 1);
    assert_eq!(net.count(Host::B, ChunkType::ERROR), 0);
}

/// Returns the length of the state cookie for an INIT with these parameters, none of which is reported.
fn cookie_len(list: &[u8]) -> usize {
    let mut net = Net::with_config(1, &AssociationConfig::default(), 1);
    net.forge(Host::B, 0, &[Chunk::Init(init(77, list))]).expect("answered");
    let answer = net.last(Host::B, ChunkType::INIT_ACK);
    let unrecognized = |parameter| matches!(parameter, Ok(Parameter::Unrecognized(_)));
    assert!(!answer.init().parameters.iter().any(unrecognized));
    answer.init().parameters.state_cookie().expect("a cookie").len()
}

// [4820:4-3, 4-4, 4-5]
#[test]
fn rfc_4820_4_a_pad_parameter_is_neither_reported_nor_in_the_cookie() {
    let mut padded = vec![0x80, 0x05, 0, 204];
    padded.resize(204, 0xff);
    padded.extend(parameters(&[Parameter::ForwardTsnSupported]));
    assert_eq!(
        cookie_len(&padded),
        cookie_len(&parameters(&[Parameter::ForwardTsnSupported]))
    );
}
