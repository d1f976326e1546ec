//! Key management with messages, and an attacker who inserts data before the packets are encrypted, so that the TSNs and message numbers of both ends
//! do not fit together any more. Nothing of the handshake depends on them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::identities::{Oddity, odd};
use crate::key_messages::{connected, friends, key_data, opened, with};
use crate::requirements::sack;
use crate::support::{Fate, Host, Net, Sent, data, resealed};
use whimbrel_control::Span;
use whimbrel_proto::{AssociationConfig, CloseReason, Discard, Message, State};
use whimbrel_wire::{Chunk, ChunkType, Data, MessageNumber, Mid, Tsn};

/// A control message that has no meaning.
const FILLER: &[u8] = &[0x83, 0x7f];

/// Returns the initial TSN that a host has sent in this chunk, INIT or INIT ACK.
fn initial_tsn(net: &Net, of: ChunkType) -> u32 {
    let sent = net.wire.iter().find(|sent| sent.has(of)).expect("it was sent");
    sent.init().initial_tsn.0
}

// The state changes within the packet.
#[test]
fn what_follows_a_cookie_ack_in_plaintext_is_not_taken() {
    let waiting = || {
        let (mut net, a) = opened(1, 1, &friends());
        net.filter = Box::new(
            |packet| match packet.has(ChunkType::COOKIE_ACK) || packet.has(ChunkType::DATA) {
                true => Fate::Drop,
                false => Fate::Deliver,
            },
        );
        net.run_for(Span::from_millis(100));
        assert_eq!(net.state(Host::A, a), State::CookieEchoed);
        (net, a)
    };
    for ahead in [0, 1, 5] {
        let (mut net, _) = waiting();
        let evil = Data {
            stream: 3,
            ..data(initial_tsn(&net, ChunkType::INIT_ACK) + ahead, 0, b"evil")
        };
        let _ = net.as_peer(Host::A, &[Chunk::CookieAck, Chunk::Data(evil)]);
        let reason = CloseReason::ProtocolViolation("user data before encryption");
        assert_eq!(net.close_reason(Host::A), Some(reason));
    }
    let (mut net, a) = waiting();
    let shutdown = Chunk::Shutdown {
        cumulative_tsn_ack: Tsn(initial_tsn(&net, ChunkType::INIT).wrapping_sub(1)),
    };
    assert_eq!(
        net.as_peer(Host::A, &[Chunk::CookieAck, shutdown]),
        Err(Discard::Unprotected)
    );
    assert_eq!(net.state(Host::A, a), State::Established);
}

/// Adds to a field of four bytes.
fn add(bytes: &mut [u8], at: usize, by: u32) {
    let field: &mut [u8; 4] = (&mut bytes[at..at + 4]).try_into().expect("four bytes");
    *field = u32::from_be_bytes(*field).wrapping_add(by).to_be_bytes();
}

/// Adds 1 to the TSNs of A's DATA or I-DATA chunks in a packet, and to their message numbers this. Takes 1 from what B's SACKs acknowledge.
fn shift(bytes: &mut [u8], from: Host, number: u32) {
    let mut at = 12;
    while at + 4 <= bytes.len() {
        let len = usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
        match (from, bytes[at]) {
            (Host::A, 0) => {
                add(bytes, at + 4, 1);
                // The stream, which is 0, comes before the number.
                add(bytes, at + 8, number);
            }
            (Host::A, 64) => {
                add(bytes, at + 4, 1);
                add(bytes, at + 12, number);
            }
            (Host::B, 3) => add(bytes, at + 4, u32::MAX),
            _ => {}
        }
        at += len.next_multiple_of(4).max(4);
    }
}

/// Lets A and B exchange keys while the network inserts a chunk before A's first one, and shifts what follows in plaintext. A's data in plaintext is
/// acknowledged to it at once. B's first encrypted packets are lost, so that A does not see what they acknowledge; the retransmission arrives. A has
/// messages to send.
fn shifted(
    seed: u64,
    ends: &(AssociationConfig, AssociationConfig),
    inserted: impl Fn(u32) -> Data<'static>,
    number: u32,
) -> Net {
    let mut ends = ends.clone();
    (ends.1.rto_initial, ends.1.rto_min) = (Some(Span::from_millis(200)), Span::from_millis(200));
    let (mut net, a) = opened(1, seed, &ends);
    for text in [&b"one"[..], b"two", b"three", b"four"] {
        net.send(Host::A, a, Message::new(0, text));
    }
    let held: Rc<RefCell<VecDeque<Sent>>> = Rc::default();
    let (queue, mut first_sealed) = (held.clone(), None);
    net.filter = Box::new(move |packet| {
        if packet.has(ChunkType::DTLS) {
            let first = *first_sealed.get_or_insert(packet.now);
            let is_lost = packet.from == Host::B && packet.now.since(first) < Span::from_millis(150);
            return if is_lost { Fate::Drop } else { Fate::Deliver };
        }
        let is_shifted = match packet.from {
            Host::A => packet.has(ChunkType::DATA) || packet.has(ChunkType::I_DATA),
            Host::B => packet.has(ChunkType::SACK),
        };
        if !is_shifted {
            return Fate::Deliver;
        }
        queue.borrow_mut().push_back(Sent::from(packet));
        Fate::Drop
    });
    net.drain(Host::A);
    let end = net.now + Span::from_secs(30);
    let mut is_inserted = false;
    while net.step(end) {
        while let Some(sent) = { held.borrow_mut().pop_front() } {
            if sent.from == Host::A && !std::mem::replace(&mut is_inserted, true) {
                let chunk = inserted(initial_tsn(&net, ChunkType::INIT));
                let _ = net.as_peer(Host::B, &[Chunk::Data(chunk)]);
            }
            let mut bytes = sent.bytes.clone();
            shift(&mut bytes, sent.from, number);
            bytes[8..12].fill(0);
            net.inject(sent.from.other(), sent.remote, sent.local, resealed(bytes));
            if let Some(&last) = sent.tsns().last().filter(|_| sent.from == Host::A) {
                let _ = net.as_peer(Host::A, &[sack(last, 1 << 20)]);
            }
        }
    }
    net
}

// As the prefix truncation of SSH ("Terrapin"): without a remedy, B takes A's first message for the duplicate of what was inserted, and acknowledges it.
#[test]
fn an_inserted_message_does_not_remove_the_first_encrypted_one() {
    let mut ended = 0;
    for seed in 1..9 {
        let net = shifted(seed, &friends(), |tsn| key_data(tsn, 0, FILLER), 1);
        let contents = net.contents(Host::B);
        let all = [&b"one"[..], b"two", b"three", b"four"];
        assert!(contents.is_empty() || contents == all, "seed {seed}: {contents:?}");
        ended += usize::from(net.close_reason(Host::A).is_some());
    }
    assert!(ended > 0);
}

// A message that has this number would be joined with what was inserted.
#[test]
fn an_inserted_fragment_ends_the_association() {
    let interleaving = || {
        let (mut a, mut b) = friends();
        (a.interleaving, b.interleaving) = (true, true);
        (a, b)
    };
    let mut violations = 0;
    for seed in 1..9 {
        let fragment = |tsn| Data {
            begin: false,
            end: true,
            number: MessageNumber::Mid(Mid(9)),
            fsn: 1,
            ..key_data(tsn, 0, b"evil")
        };
        let net = shifted(seed, &interleaving(), fragment, 0);
        assert_eq!(connected(&net, Host::A) + connected(&net, Host::B), 0, "seed {seed}");
        assert!(net.contents(Host::B).is_empty());
        let reason = CloseReason::ProtocolViolation("user data before encryption");
        violations += usize::from(net.close_reason(Host::B) == Some(reason));
    }
    assert!(violations > 0);
}

/// Returns a message of one chunk, with the TSN of this chunk and a number that is greater by `more`.
fn numbered<'p>(chunk: &Data<'_>, more: u32, payload: &'p [u8]) -> Data<'p> {
    let MessageNumber::Mid(Mid(mid)) = chunk.number else {
        panic!("{chunk:?}");
    };
    Data {
        number: MessageNumber::Mid(Mid(mid + more)),
        ..key_data(chunk.tsn.0, 0, payload)
    }
}

/// Lets A and B exchange keys while the network inserts a message before A's first one, which has two fragments, and joins these: TSNs fit together,
/// message numbers do not.
fn joined(seed: u64, ends: &(AssociationConfig, AssociationConfig)) -> Net {
    let (mut net, a) = opened(1, seed, ends);
    net.send(Host::A, a, Message::new(0, &b"one"[..]));
    let held: Rc<RefCell<VecDeque<Sent>>> = Rc::default();
    let queue = held.clone();
    net.filter = Box::new(move |packet| {
        if packet.from == Host::B || !packet.has(ChunkType::I_DATA) {
            return Fate::Deliver;
        }
        queue.borrow_mut().push_back(Sent::from(packet));
        Fate::Drop
    });
    net.drain(Host::A);
    let end = net.now + Span::from_secs(30);
    let (mut first, mut more) = (Vec::new(), 0);
    while net.step(end) {
        while let Some(sent) = { held.borrow_mut().pop_front() } {
            for chunk in sent.data() {
                let mut content = std::mem::take(&mut first);
                chunk.payload.append_to(&mut content);
                if chunk.begin && !chunk.end {
                    first = content;
                    let _ = net.as_peer(Host::B, &[Chunk::Data(numbered(&chunk, 0, FILLER))]);
                    more = 1;
                } else {
                    let _ = net.as_peer(Host::B, &[Chunk::Data(numbered(&chunk, more, &content))]);
                }
            }
        }
    }
    net
}

#[test]
fn an_encrypted_message_whose_number_was_used_in_plaintext_ends_the_association() {
    let long = |own, peer| {
        let more = Oddity {
            more: 1_300,
            ..Oddity::default()
        };
        AssociationConfig {
            interleaving: true,
            partial_reliability: true,
            ..with(odd(own, &[peer], more))
        }
    };
    let mut violations = 0;
    for seed in 1..9 {
        let net = joined(seed, &(long(1, 2), long(2, 1)));
        let contents = net.contents(Host::B);
        assert!(contents.is_empty() || contents == [b"one"], "seed {seed}: {contents:?}");
        let reason = CloseReason::ProtocolViolation("messages were inserted before encryption");
        violations += usize::from(net.close_reason(Host::B) == Some(reason));
    }
    assert!(violations > 0);
}
