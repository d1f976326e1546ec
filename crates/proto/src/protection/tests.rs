//! Records of one end, opened at the other: sequence numbers, replays, paths, epochs and limits.

use std::collections::VecDeque;
use std::sync::Arc;

use whimbrel_control::{Span, Time};
use whimbrel_wire::{Chunk, CommonHeader, OwnedPacket, PacketSink};

use super::opening::BURST;
use super::*;
use crate::PathId;
use crate::error::Discard;

/// Keys with low limits. Epochs exist up to `last_epoch`.
#[derive(Debug)]
struct FewUses {
    limits: KeyLimits,
    last_epoch: u64,
}

#[derive(Debug)]
struct Limited(Arc<dyn Protect>, KeyLimits);

impl KeySource for FewUses {
    fn methods(&self) -> &[u8] {
        &[0]
    }

    fn derive(&self, exchange: &KeyExchange, sender: Role, epoch: u64) -> Result<Arc<dyn Protect>, ProtectionError> {
        if epoch > self.last_epoch {
            return Err(ProtectionError);
        }
        Ok(Arc::new(Limited(
            InsecureNullKeys.derive(exchange, sender, epoch)?,
            self.limits,
        )))
    }
}

impl Protect for Limited {
    fn overhead(&self) -> usize {
        self.0.overhead()
    }

    fn seal(&self, sequence: u64, header: &[u8; 3], record: &mut [u8]) -> Result<(), ProtectionError> {
        self.0.seal(sequence, header, record)
    }

    fn open(&self, sequence: u64, header: &[u8; 3], record: &mut [u8]) -> Result<(), ProtectionError> {
        self.0.open(sequence, header, record)
    }

    fn mask(&self, sample: &[u8; 16]) -> [u8; 2] {
        [sample[0] ^ 0x5a, sample[1]]
    }

    fn limits(&self) -> KeyLimits {
        self.1
    }
}

/// Returns both ends of an association: client and server.
fn pair(source: impl KeySource + 'static) -> (Protection, Protection) {
    let config = ProtectionConfig::required(Arc::new(source));
    let party = |tie_breaker| Party {
        offer: own_offer(&config, tie_breaker).expect("it has keys"),
        tag: tie_breaker,
        initial_tsn: tie_breaker,
    };
    let end = |own, peer| {
        let exchange = KeyExchange::of(party(own), party(peer)).expect("it fits");
        Protection::new(&config, exchange).expect("it has keys")
    };
    (end(1, 2), end(2, 1))
}

fn few(sealed: u64, failed: u64) -> FewUses {
    FewUses {
        limits: KeyLimits { sealed, failed },
        last_epoch: u64::MAX,
    }
}

fn seal(end: &mut Protection) -> Option<OwnedPacket> {
    let keys = end.seal()?;
    let mut packet = OwnedPacket::new();
    packet.begin(CommonHeader::default());
    packet.begin_sealed();
    packet.push(&Chunk::CookieAck);
    keys.seal(&mut packet);
    assert_eq!(packet.finish(), 12 + 4 + end.packet_overhead());
    Some(packet)
}

fn open(end: &mut Protection, now: Time, path: u8, packet: &OwnedPacket) -> Result<(), Discard> {
    let Some(Ok(Chunk::Dtls(dtls))) = packet.view().chunks().next() else {
        panic!("a DTLS chunk")
    };
    let mut plain = Vec::new();
    let opened = end.open(now, Some(PathId(path)), &dtls, &mut plain)?;
    end.accept(now, Some(PathId(path)), opened);
    assert_eq!(plain, [11, 0, 0, 4]);
    Ok(())
}

fn at(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

// RFC 9147 §4.2.2: 16 bits are sent.
#[test]
fn sequence_numbers_go_on_beyond_16_bits() {
    let (mut client, mut server) = pair(InsecureNullKeys);
    let mut kept = Vec::new();
    for number in 0..200_000 {
        let packet = seal(&mut client).expect("keys");
        assert_eq!(open(&mut server, at(number), 0, &packet), Ok(()), "{number}");
        if number % 1000 == 999 {
            kept.push(packet);
        }
    }
    assert_eq!((server.stats().opened, server.stats().failed), (200_000, 0));
    for packet in &kept {
        assert_eq!(open(&mut server, at(200_000), 0, packet), Err(Discard::Replayed));
    }
}

// Issue 46: at 100,000 packets a second, a path that is 2 s slower is 200,000 numbers behind, more than three times 2^16.
#[test]
fn a_path_that_is_two_seconds_slower_is_opened_at_high_rates() {
    let (mut client, mut server) = pair(InsecureNullKeys);
    let mut slow: VecDeque<(u64, OwnedPacket)> = VecDeque::new();
    let (mut late, mut last) = (0, None);
    for number in 0..500_000_u64 {
        let now = 10 * number;
        let packet = seal(&mut client).expect("keys");
        if number % 7 == 0 {
            slow.push_back((now + 1_990_000, packet));
        } else {
            assert_eq!(open(&mut server, at(now), 0, &packet), Ok(()), "{number}");
        }
        while let Some((_, packet)) = slow.pop_front_if(|(due, _)| *due <= now) {
            assert_eq!(open(&mut server, at(now), 1, &packet), Ok(()), "late, at {number}");
            late += 1;
            last = Some(packet);
        }
    }
    assert!(late > 40_000);
    // Where the slow path is has been found out once, not for each packet.
    assert!(server.stats().failed <= 256, "{:?}", server.stats());
    assert!(server.heap_bytes() < 300 << 10);
    let last = last.expect("a late one");
    assert_eq!(open(&mut server, at(6_000_000), 1, &last), Err(Discard::Replayed));
}

#[test]
fn the_loss_of_many_packets_in_a_row_is_survived() {
    for lost in [30_000, 40_000, 100_000, 250_000] {
        let (mut client, mut server) = pair(InsecureNullKeys);
        let first = seal(&mut client).expect("keys");
        assert_eq!(open(&mut server, at(0), 0, &first), Ok(()));
        for _ in 0..lost {
            seal(&mut client);
        }
        let next = seal(&mut client).expect("keys");
        assert_eq!(open(&mut server, at(1_000_000), 0, &next), Ok(()), "{lost}");
    }
}

// RFC 9147 §4.5.3
#[test]
fn an_epoch_follows_when_half_of_the_uses_are_spent() {
    let (mut client, mut server) = pair(few(100, 1000));
    let mut kept = Vec::new();
    for number in 0..1000 {
        let packet = seal(&mut client).expect("the next epoch");
        assert_eq!(open(&mut server, at(number), 0, &packet), Ok(()), "{number}");
        kept.push(packet);
    }
    assert_eq!((client.stats().epochs_sent, server.stats().epochs_received), (19, 19));
    for packet in &kept {
        // Of all epochs: replayed, or without keys.
        assert!(open(&mut server, at(1000), 0, packet).is_err());
    }
    assert_eq!(server.stats().opened, 1000);
}

// The keys of an epoch are kept for packets that are still on their way.
#[test]
fn late_packets_of_the_epoch_before_are_opened_for_two_minutes() {
    let (mut client, mut server) = pair(few(20, 1000));
    let packets: Vec<_> = (0..12).map(|_| seal(&mut client).expect("keys")).collect();
    assert_eq!(open(&mut server, at(0), 0, &packets[0]), Ok(()));
    assert_eq!(open(&mut server, at(1), 0, &packets[11]), Ok(()), "epoch 4");
    assert_eq!(
        open(&mut server, at(2_000_000), 1, &packets[3]),
        Ok(()),
        "epoch 3, late"
    );
    assert_eq!(open(&mut server, at(2_000_000), 1, &packets[3]), Err(Discard::Replayed));
    assert_eq!(
        open(&mut server, at(121_000_000), 1, &packets[4]),
        Err(Discard::Unprotected)
    );
    assert_eq!(open(&mut server, at(121_000_000), 0, &packets[10]), Ok(()), "epoch 4");
}

#[test]
fn without_a_next_epoch_the_keys_end_before_they_are_unsafe() {
    let source = FewUses {
        limits: KeyLimits { sealed: 10, failed: 5 },
        last_epoch: FIRST_EPOCH,
    };
    let (mut client, mut server) = pair(source);
    let sealed = (0..100).filter(|_| client.seal().is_some()).count();
    assert_eq!(sealed, 10);
    assert!(client.is_used_up() && !server.is_used_up());
    // Records that fail count, also those of trials with other sequence numbers.
    let packet = seal(&mut server).expect("keys");
    for _ in 0..5 {
        assert!(open(&mut server, at(0), 0, &packet).is_err(), "reflected");
    }
    assert!(server.is_used_up());
}

#[test]
fn forged_records_of_the_next_epoch_change_nothing() {
    let (mut client, mut server) = pair(few(20, 1000));
    let (mut other, _) = pair(InsecureNullKeys);
    let mut epoch_4 = (0..11)
        .map(|_| seal(&mut client).expect("keys"))
        .last()
        .expect("eleven");
    // Seals with the wrong tag.
    let wrong = seal(&mut other).expect("keys");
    for _ in 0..10 {
        let Some(Ok(Chunk::Dtls(mut dtls))) = wrong.view().chunks().next() else {
            panic!("a DTLS chunk")
        };
        dtls.epoch = 0;
        let result = server.open(at(0), None, &dtls, &mut Vec::new());
        assert_eq!(result, Err(Discard::Unprotected));
    }
    assert!(!server.is_confirmed());
    assert_eq!(server.stats().epochs_received, 0);
    assert_eq!(open(&mut server, at(0), 0, &epoch_4), Ok(()));
    assert_eq!((server.stats().epochs_received, server.is_confirmed()), (1, true));
    epoch_4.clear();
}

/// A record that does not open, with this number.
fn forge(end: &mut Protection, now: Time, from: Option<u8>, number: u16) {
    let dtls = whimbrel_wire::Dtls {
        restart: false,
        epoch: 3,
        number,
        record: &[0xee; 40],
    };
    let _ = end.open(now, from.map(PathId), &dtls, &mut Vec::new());
}

/// All numbers: further attempts are for those that are missing in the window, which are more than there are attempts for.
fn use_up_attempts(end: &mut Protection, now: Time, from: Option<u8>) {
    (0..=u16::MAX).for_each(|number| forge(end, now, from, number));
}

#[test]
fn a_record_counts_when_it_is_accepted() {
    let (mut client, mut server) = pair(few(20, 1000));
    for number in 0..25 {
        let packet = seal(&mut client).expect("keys");
        let Some(Ok(Chunk::Dtls(dtls))) = packet.view().chunks().next() else {
            panic!("a DTLS chunk")
        };
        let before = server.stats();
        for _ in 0..3 {
            assert!(server.open(at(number), None, &dtls, &mut Vec::new()).is_ok());
        }
        assert_eq!(server.stats(), before);
        assert_eq!(server.is_confirmed(), number > 0);
        assert_eq!(open(&mut server, at(number), 0, &packet), Ok(()));
        assert_eq!(open(&mut server, at(number), 0, &packet), Err(Discard::Replayed));
    }
    let stats = server.stats();
    assert_eq!((stats.opened, stats.replayed, stats.epochs_received), (25, 25, 2));
}

#[test]
fn replays_cost_no_further_attempts() {
    let (mut client, mut server) = pair(InsecureNullKeys);
    let mut packets = Vec::new();
    for number in 0..40_000 {
        let packet = seal(&mut client).expect("keys");
        assert_eq!(open(&mut server, at(100 * number), 0, &packet), Ok(()));
        packets.push(packet);
    }
    let now = at(10_000_000);
    // In the window, and before it.
    for packet in packets[8000..].iter().step_by(13) {
        assert_eq!(open(&mut server, now, 0, packet), Err(Discard::Replayed));
    }
    assert_eq!(server.stats().failed, 0);
}

#[test]
fn a_forged_record_is_no_replay() {
    let (mut client, mut server) = pair(InsecureNullKeys);
    let mut last = 0;
    for number in 0..100 {
        let packet = seal(&mut client).expect("keys");
        assert_eq!(open(&mut server, at(number), 0, &packet), Ok(()));
        let Some(Ok(Chunk::Dtls(dtls))) = packet.view().chunks().next() else {
            panic!("a DTLS chunk")
        };
        last = dtls.number;
    }
    // The number of the latest packet, and the next one.
    for number in [last, last.wrapping_add(1)] {
        forge(&mut server, at(100), Some(0), number);
        forge(&mut server, at(100), None, number);
    }
    assert_eq!(server.stats().replayed, 0);
    assert!(server.stats().failed >= 4);
}

// More than 2^15 packets are not lost in an instant.
#[test]
fn numbers_far_ahead_are_tried_after_a_standstill_only() {
    let (mut client, mut server) = pair(InsecureNullKeys);
    let packet = seal(&mut client).expect("keys");
    assert_eq!(open(&mut server, at(0), 0, &packet), Ok(()));
    (1..=100).for_each(|number| forge(&mut server, at(5_000), Some(0), number));
    assert_eq!(server.stats().failed, 100);
    (1..=100).for_each(|number| forge(&mut server, at(20_000), Some(0), number));
    assert_eq!(server.stats().failed, 200 + BURST);
}

/// 100,000 packets a second, of which every 500th takes a path that is two seconds slower: three times 2^16. `visit` is called with each one of
/// the slow path before it is opened, and returns for how many packets more it is held back.
fn slow_path(mut visit: impl FnMut(&mut Protection, Time, u64) -> u64) {
    const LATE: u64 = 200_000;
    let (mut client, mut server) = pair(InsecureNullKeys);
    let mut slow: VecDeque<(u64, OwnedPacket)> = VecDeque::new();
    let mut held: VecDeque<(u64, OwnedPacket)> = VecDeque::new();
    let mut opened = 0;
    for number in 0..500_000_u64 {
        let now = at(10 * number);
        let packet = seal(&mut client).expect("keys");
        if number % 500 == 499 {
            slow.push_back((number + LATE, packet));
        } else {
            assert_eq!(open(&mut server, now, 0, &packet), Ok(()), "{number}");
        }
        while let Some((_, packet)) = slow.pop_front_if(|(due, _)| *due <= number) {
            match visit(&mut server, now, opened) {
                0 => assert_eq!(open(&mut server, now, 1, &packet), Ok(()), "late, at {number}"),
                more => held.push_back((number + more, packet)),
            }
            opened += 1;
        }
        while let Some((_, packet)) = held.pop_front_if(|(due, _)| *due <= number) {
            assert_eq!(open(&mut server, now, 1, &packet), Ok(()), "held back, at {number}");
        }
    }
    assert!(opened > 500);
}

// The attempts of a path do not depend on how many packets are forged.
#[test]
fn a_slow_path_is_opened_while_packets_are_forged() {
    slow_path(|server, now, opened| {
        if opened % 50 == 11 {
            use_up_attempts(server, now, Some(1));
        }
        0
    });
}

#[test]
fn a_packet_that_is_held_back_does_not_end_a_path() {
    slow_path(|server, now, opened| {
        // One is held back behind 120 others, and opens. There are no further attempts for the one that follows.
        if opened == 131 {
            use_up_attempts(server, now, Some(1));
        }
        if opened == 10 { 60_000 } else { 0 }
    });
}

#[test]
fn packets_of_unknown_sources_use_no_attempts_of_paths() {
    slow_path(|server, now, opened| {
        if opened == 0 {
            use_up_attempts(server, now, None);
        }
        0
    });
}

// A fast path, one packet of which was held back for long.
#[test]
fn what_is_near_the_highest_number_opens_on_every_path() {
    let (mut client, mut server) = pair(InsecureNullKeys);
    let mut held = Vec::new();
    for number in 0..200_000_u64 {
        let packet = seal(&mut client).expect("keys");
        let now = at(10 * number);
        if number == 60_000 || number == 120_000 {
            held.push(packet);
            continue;
        }
        if number == 180_000 {
            for packet in held.drain(..) {
                assert_eq!(open(&mut server, now, 0, &packet), Ok(()));
            }
            use_up_attempts(&mut server, now, Some(0));
        }
        assert_eq!(open(&mut server, now, 0, &packet), Ok(()), "{number}");
    }
}

#[test]
fn where_a_path_is_does_not_change_with_the_epoch() {
    let (mut client, mut server) = pair(few(400_000, 1 << 20));
    let mut slow: VecDeque<(u64, OwnedPacket)> = VecDeque::new();
    let mut failed = 0;
    for number in 0..600_000_u64 {
        let packet = seal(&mut client).expect("keys");
        let now = at(10 * number);
        match number % 500 {
            499 => slow.push_back((number + 150_000, packet)),
            _ => assert_eq!(open(&mut server, now, 0, &packet), Ok(()), "{number}"),
        }
        while let Some((_, packet)) = slow.pop_front_if(|(due, _)| *due <= number) {
            assert_eq!(open(&mut server, now, 1, &packet), Ok(()), "late, at {number}");
        }
        if number == 199_999 {
            failed = server.stats().failed;
        }
    }
    assert_eq!((server.stats().epochs_received, server.stats().failed), (2, failed));
}

// RFC 9147 §4: 2^14 + 256 bytes.
#[test]
fn records_that_are_too_long_are_refused_before_they_are_copied() {
    let (_, mut server) = pair(InsecureNullKeys);
    for (len, is_tried) in [(16_640, true), (16_641, false), (65_000, false)] {
        let record = vec![1; len];
        let dtls = whimbrel_wire::Dtls {
            restart: false,
            epoch: 3,
            number: 0,
            record: &record,
        };
        let (mut plain, failed) = (Vec::new(), server.stats().failed);
        let result = server.open(at(0), Some(PathId(0)), &dtls, &mut plain);
        let reason = if is_tried {
            Discard::Unprotected
        } else {
            Discard::InvalidChunk
        };
        assert_eq!(result, Err(reason), "{len}");
        assert_eq!(
            (plain.capacity() > 0, server.stats().failed > failed),
            (is_tried, is_tried)
        );
    }
}

#[test]
fn no_record_causes_a_panic() {
    let (_, mut server) = pair(InsecureNullKeys);
    for len in 0..80 {
        for byte in [0, 23, 0xff] {
            let record = vec![byte; len];
            for epoch in 0..4 {
                let dtls = whimbrel_wire::Dtls {
                    restart: false,
                    epoch,
                    number: u16::from(byte) << 8,
                    record: &record,
                };
                assert!(server.open(at(0), Some(PathId(255)), &dtls, &mut Vec::new()).is_err());
            }
        }
    }
}
