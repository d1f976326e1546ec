//! Key management with messages: keys are renewed by further handshakes while the association carries data (draft-porfiri-tsvwg-sctp-dtls-handshake,
//! "Rekeying"). `whimbrel-secure` runs these tests with TLS.

use crate::key_messages::{connect, exchange, friends, opened};
use crate::support::paths::is_on;
use crate::support::{Fate, Host, Net};
use whimbrel_control::Span;
use whimbrel_proto::{AssocId, AssociationConfig, Message, SendError};
use whimbrel_wire::{Chunk, ChunkType};

/// Returns ends that renew keys at this age, and after this number of bytes.
fn renewing(seconds: u64, bytes: u64) -> (AssociationConfig, AssociationConfig) {
    let (mut at_a, mut at_b) = friends();
    for config in [&mut at_a, &mut at_b] {
        config.protection.rekey_interval = Span::from_secs(seconds);
        config.protection.rekey_bytes = bytes;
    }
    (at_a, at_b)
}

fn numbered(number: u32) -> Message {
    let mut content = number.to_be_bytes().to_vec();
    content.resize(1200, number as u8);
    Message::new((number % 3) as u16, content)
}

/// Sends numbered messages from both ends for this time, and checks that each arrives once.
fn traffic(net: &mut Net, (a, b): (AssocId, AssocId), millis: u64) {
    net.forget_contents();
    let mut number = 0;
    for _ in 0..millis / 5 {
        for (host, id) in [(Host::A, a), (Host::B, b)] {
            net.run_until(Span::from_secs(60), "room for a message", |net| {
                let now = net.now;
                match net.host(host).send(now, id, numbered(number)) {
                    Ok(()) => true,
                    Err(SendError::Full(_)) => false,
                    Err(error) => panic!(
                        "{error}: {:?}, {:?}",
                        net.close_reason(Host::A),
                        net.close_reason(Host::B)
                    ),
                }
            });
            net.drain(host);
        }
        number += 1;
        net.run_for(Span::from_millis(5));
    }
    net.run_for(Span::from_secs(30));
    for host in [Host::A, Host::B] {
        let mut all: Vec<u32> = net
            .contents(host)
            .iter()
            .map(|content| u32::from_be_bytes(*content.first_chunk().expect("four bytes")))
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..number).collect::<Vec<_>>(), "{host:?}");
    }
}

fn epochs(net: &mut Net, (a, b): (AssocId, AssocId)) -> [u64; 4] {
    let at_a = net.a.association(a).expect("A").protection_stats();
    let at_b = net.b.association(b).expect("B").protection_stats();
    [
        at_a.epochs_sent,
        at_a.epochs_received,
        at_b.epochs_sent,
        at_b.epochs_received,
    ]
}

#[test]
fn keys_are_renewed_by_age_without_a_gap() {
    for seed in [1, 2, 3] {
        let (mut net, _) = opened(1, seed, &renewing(2, u64::MAX));
        let ends = connect(&mut net, Span::from_secs(1));
        traffic(&mut net, ends, 10_000);
        let renewed = epochs(&mut net, ends);
        assert!(renewed.iter().all(|epochs| (4..24).contains(epochs)), "{renewed:?}");
        let first = net
            .wire
            .iter()
            .position(|sent| sent.has(ChunkType::DTLS))
            .expect("some");
        let mut seen = [false; 4];
        for sent in net.wire[first..].iter().filter(|sent| sent.has(ChunkType::DTLS)) {
            if let Chunk::Dtls(dtls) = sent.chunks()[0] {
                seen[usize::from(dtls.epoch)] = true;
            }
        }
        assert_eq!(seen, [true; 4]);
        // Renewal is in encrypted packets, too.
        let last_plain = net
            .wire
            .iter()
            .rposition(|sent| sent.has(ChunkType::DATA))
            .expect("the handshake");
        assert!(last_plain < first + 12, "{last_plain} {first}");
    }
}

// Both ends count the same bytes, and begin at about the same time.
#[test]
fn both_ends_begin_to_renew_keys_at_once() {
    for seed in 1..8 {
        let (mut net, _) = opened(1, seed, &renewing(3600, 1_000_000));
        let ends = connect(&mut net, Span::from_secs(1));
        traffic(&mut net, ends, 9_000);
        let renewed = epochs(&mut net, ends);
        assert!(renewed.iter().all(|epochs| *epochs >= 3), "{renewed:?}");
        exchange(&mut net, ends);
    }
}

#[test]
fn keys_are_renewed_while_packets_are_lost_and_a_path_fails() {
    for seed in 1..6 {
        let (mut net, _) = opened(2, seed, &renewing(2, 1_000_000));
        let ends = connect(&mut net, Span::from_secs(1));
        net.run_for(Span::from_secs(2));
        let start = net.now;
        let mut state = seed * 77_777 + 1;
        net.filter = Box::new(move |packet| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let second = packet.now.since(start).as_millis() / 1000;
            // Each path fails for three seconds, one after the other, with two seconds between.
            let cut = match second % 10 {
                0..3 => Some(0),
                5..8 => Some(1),
                _ => None,
            };
            match cut {
                Some(path) if is_on(packet, path) => Fate::Drop,
                _ if state % 50 == 0 => Fate::Drop,
                _ if state % 7 == 0 => Fate::Delay(Span::from_millis(state % 60)),
                _ => Fate::Deliver,
            }
        });
        traffic(&mut net, ends, 20_000);
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(30));
        exchange(&mut net, ends);
        let renewed = epochs(&mut net, ends);
        assert!(renewed.iter().all(|epochs| *epochs >= 3), "{renewed:?}");
    }
}

// RFC 9147 §4.5.1, and the draft, "Drain Timer Considerations": packets under way with the keys before are still opened, once.
#[test]
fn packets_of_the_epoch_before_are_opened_and_not_replayed() {
    let (mut net, _) = opened(1, 1, &renewing(2, u64::MAX));
    let (a, b) = connect(&mut net, Span::from_secs(1));
    // One packet takes long.
    let mut is_held = false;
    net.filter = Box::new(
        move |packet| match packet.from == Host::A && !is_held && packet.bytes.len() > 1000 {
            true => {
                is_held = true;
                Fate::Delay(Span::from_secs(5))
            }
            false => Fate::Deliver,
        },
    );
    net.send(Host::A, a, numbered(0));
    net.run_for(Span::from_secs(12));
    assert!(epochs(&mut net, (a, b)).iter().all(|epochs| *epochs >= 2));
    let stats = net.b.association(b).expect("B").protection_stats();
    assert_eq!((stats.failed, stats.replayed), (0, 0), "{stats:?}");
    let recorded: Vec<_> = net.sent(Host::A, ChunkType::DTLS).into_iter().cloned().collect();
    for sent in &recorded {
        assert!(net.deliver_from(Host::B, sent.meta(), &sent.bytes).is_err());
    }
    assert_eq!(net.b.association(b).expect("B").protection_stats().opened, stats.opened);
    exchange(&mut net, (a, b));
}
