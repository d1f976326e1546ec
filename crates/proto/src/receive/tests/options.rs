//! Tests of the optional kinds of reporting that RFC 9260 does not have.

use super::super::write_sack::SackContent;
use super::*;

fn packets_reported(receiver: &mut Receiver) -> u8 {
    receiver.write_sack(&mut Vec::new(), &mut Vec::new(), ROOM).packets
}

/// Ye 2004, 6.6: one SACK for k = 4 packets.
fn k_arrivals() -> ReceiverConfig {
    ReceiverConfig {
        sack_frequency: 4,
        sack_any_order: true,
        ..config()
    }
}

#[test]
fn ye_6_6_a_sack_after_k_arrivals_no_matter_their_order() {
    let mut receiver = receiver(&k_arrivals());
    for tsn in [3, 1, 7] {
        packet(&mut receiver, NOW, &[whole(tsn)]);
        assert!(!receiver.sack_due(NOW), "TSN {tsn}");
    }
    packet(&mut receiver, NOW, &[whole(6)]);
    assert!(receiver.sack_due(NOW));
    assert_eq!(sack(&mut receiver), (1, vec![(2, 2), (5, 6)], vec![]));
    // Neither an open gap nor a closed one makes the SACK due earlier.
    for tsn in [2, 4, 5] {
        packet(&mut receiver, NOW, &[whole(tsn)]);
        assert!(!receiver.sack_due(NOW), "TSN {tsn}");
    }
    packet(&mut receiver, NOW, &[whole(8), whole(9)]);
    assert!(receiver.sack_due(NOW), "packets count, not chunks");
}

#[test]
fn ye_6_6_the_timer_guarantees_a_sack() {
    let mut receiver = receiver(&k_arrivals());
    packet(&mut receiver, NOW, &[whole(2)]);
    packet(&mut receiver, NOW + Span::from_millis(150), &[whole(4)]);
    let deadline = NOW + Span::from_millis(200);
    assert_eq!(receiver.sack_deadline(), Some(deadline), "from the first arrival");
    assert!(receiver.sack_due(deadline));
    sack(&mut receiver);
    packet(&mut receiver, deadline, &[whole(6)]);
    assert!(!receiver.sack_due(deadline), "the count restarts");
}

#[test]
fn urgent_sacks_do_not_wait_for_k_arrivals() {
    let mut receiver = receiver(&ReceiverConfig {
        recv_buffer: 2000,
        ..k_arrivals()
    });
    packet(
        &mut receiver,
        NOW,
        &[Data {
            immediate: true,
            ..whole(1)
        }],
    );
    assert!(receiver.sack_due(NOW), "RFC 7053");
    sack(&mut receiver);
    packet(&mut receiver, NOW, &[whole(1), whole(2)]);
    assert!(!receiver.sack_due(NOW), "new data arrived with the duplicate");
    packet(&mut receiver, NOW, &[whole(2)]);
    assert!(receiver.sack_due(NOW), "RFC 9260 §6.2: only duplicates");
    sack(&mut receiver);
    packet(&mut receiver, NOW, &[whole(3)]);
    assert!(receiver.sack_due(NOW), "RFC 9260 §6.2: dropped");
}

#[test]
fn the_sack_for_a_packet_that_closes_a_gap_may_be_delayed() {
    for sack_on_closed_gap in [true, false] {
        let mut receiver = receiver(&ReceiverConfig {
            sack_on_closed_gap,
            ..config()
        });
        for tsn in [1, 3] {
            packet(&mut receiver, NOW, &[whole(tsn)]);
        }
        assert!(receiver.sack_due(NOW), "a gap is reported at once");
        sack(&mut receiver);
        packet(&mut receiver, NOW, &[whole(2)]);
        // RFC 5681 §4.2: a SACK is due at once; ns-2: with the next packet or after SACK.Delay.
        assert_eq!(receiver.sack_due(NOW), sack_on_closed_gap);
        assert!(receiver.sack_due(NOW + Span::from_millis(200)));
        packet(&mut receiver, NOW, &[whole(4)]);
        assert!(receiver.sack_due(NOW), "the second packet");
    }
}

#[test]
fn dac_each_sack_reports_the_number_of_packets() {
    // Iyengar, Amer and Stewart 2006: one SACK for at most two packets, delayed also when they are out of order.
    let mut receiver = receiver(&ReceiverConfig {
        sack_any_order: true,
        reports_packets: true,
        ..config()
    });
    packet(&mut receiver, NOW, &[whole(3)]);
    assert!(!receiver.sack_due(NOW));
    packet(&mut receiver, NOW, &[whole(5), whole(6)]);
    assert!(receiver.sack_due(NOW));
    assert_eq!(packets_reported(&mut receiver), 2);
    packet(&mut receiver, NOW, &[whole(8)]);
    assert_eq!(packets_reported(&mut receiver), 1, "a SACK bundled with data");
    assert_eq!(packets_reported(&mut receiver), 0, "a window update");
    for tsn in 9..15 {
        packet(&mut receiver, NOW, &[whole(tsn)]);
    }
    assert_eq!(
        packets_reported(&mut receiver),
        3,
        "two bits: 3 stands for three or more"
    );
}

#[test]
fn the_number_of_packets_is_reported_only_by_option() {
    let mut receiver = receiver(&config());
    packet(&mut receiver, NOW, &[whole(1)]);
    packet(&mut receiver, NOW, &[whole(2)]);
    assert_eq!(packets_reported(&mut receiver), 0);
}

/// Ye 2004, 6.6: 20 000 bytes in order, 30 000 above a gap.
fn two_levels() -> ReceiverConfig {
    ReceiverConfig::with_second_level(20_000, 30_000, 10, 1500)
}

#[test]
fn ye_6_6_data_beyond_a_gap_does_not_reduce_the_window() {
    let mut receiver = receiver(&two_levels());
    for tsn in 2..=11 {
        receiver.on_data(&whole(tsn));
        assert_eq!(a_rwnd(&mut receiver), 20_000);
    }
    // The second level has 20 000 bytes left. Once it has less than the window, it determines the window.
    for tsn in 12..=21 {
        receiver.on_data(&whole(tsn));
    }
    assert_eq!(a_rwnd(&mut receiver), 10_000);
    for tsn in 22..=31 {
        assert_eq!(receiver.on_data(&whole(tsn)), DataOutcome::New);
    }
    assert_eq!(a_rwnd(&mut receiver), 0);
    // The gap closes: all data is in order, and more than the size of the first level.
    assert_eq!(receiver.on_data(&whole(1)), DataOutcome::New);
    assert_eq!(sack(&mut receiver), (31, vec![], vec![]));
    assert_eq!(a_rwnd(&mut receiver), 0);
    assert_eq!(receiver.stats().reneged + receiver.stats().no_buffer, 0);
    for _ in 0..12 {
        recv(&mut receiver);
    }
    assert_eq!(a_rwnd(&mut receiver), 0, "31 000 bytes less 12 000 are about 20 000");
    recv(&mut receiver);
    assert_eq!(a_rwnd(&mut receiver), 2000);
    drain(&mut receiver);
    assert_eq!(a_rwnd(&mut receiver), 20_000);
}

#[test]
fn ye_6_6_with_the_first_level_full_the_window_is_closed() {
    let mut receiver = receiver(&two_levels());
    for tsn in 1..=20 {
        receiver.on_data(&whole(tsn));
    }
    assert_eq!(a_rwnd(&mut receiver), 0, "although the second level is empty");
    drain(&mut receiver);
    assert!(receiver.sack_due(NOW), "the update");
    assert_eq!(a_rwnd(&mut receiver), 20_000);
}

#[test]
fn unordered_messages_read_beyond_a_gap_leave_the_second_level() {
    let mut receiver = receiver(&two_levels());
    for tsn in 2..=31 {
        receiver.on_data(&Data {
            unordered: true,
            ..whole(tsn)
        });
    }
    assert_eq!(a_rwnd(&mut receiver), 0);
    assert_eq!(drain(&mut receiver).len(), 30);
    assert_eq!(a_rwnd(&mut receiver), 20_000);
    receiver.on_data(&whole(1));
    assert_eq!(a_rwnd(&mut receiver), 19_000, "only what is held");
    drain(&mut receiver);
    assert_eq!(receiver.window.beyond, 0);
}

#[test]
fn data_above_both_levels_is_dropped_from_the_highest_tsn() {
    let mut receiver = receiver(&two_levels());
    for tsn in 3..=52 {
        assert_eq!(receiver.on_data(&whole(tsn)), DataOutcome::New, "{tsn}");
    }
    assert_eq!(
        receiver.on_data(&whole(53)),
        DataOutcome::NoBuffer,
        "50 000 bytes are held"
    );
    assert_eq!(receiver.on_data(&whole(1)), DataOutcome::New);
    assert_eq!(sack(&mut receiver).1, [(2, 50)], "TSN 52 made room for TSN 1");
    assert_eq!(receiver.stats().reneged, 1);
}

/// A sender that keeps within the advertised windows, whatever the network does to its packets: nothing is dropped, and the two levels
/// are counted correctly.
#[test]
fn data_sent_within_the_window_is_never_dropped() {
    for seed in 0..60 {
        let mut rng = Rng::stream(seed, "two levels");
        let config = ReceiverConfig::with_second_level(
            3000 + rng.below(30_000) as u32,
            1500 + rng.below(60_000) as u32,
            10,
            1500,
        );
        let mut receiver = receiver(&config);
        let mut room = config.recv_buffer as usize;
        // In flight: TSN and length. Lost chunks stay in flight, as rule C of RFC 9260 §6.1 retransmits them first.
        let mut flight: Vec<(u32, usize)> = Vec::new();
        let mut next = 1;
        for _ in 0..3000 {
            let len = 1000 + rng.below(452) as usize;
            let in_flight: usize = flight.iter().map(|(_, len)| len).sum();
            if in_flight + len <= room {
                flight.push((next, len));
                next += 1;
            }
            if !flight.is_empty() && rng.chance(0.6) {
                let reach = if rng.chance(0.1) { 1 } else { 40 };
                let place = rng.below(flight.len().min(reach) as u64) as usize;
                let (tsn, len) = flight.remove(place);
                let data = Data {
                    payload: Payload::Zeros(len as u32),
                    unordered: tsn % 7 == 0,
                    ..whole(tsn)
                };
                let data = Data {
                    number: MessageNumber::Ssn(Ssn((tsn - 1 - (tsn - 1) / 7) as u16)),
                    ..data
                };
                assert_eq!(receiver.on_data(&data), DataOutcome::New, "seed {seed}");
                room = a_rwnd(&mut receiver) as usize;
            }
            if rng.chance(0.4) {
                recv(&mut receiver);
                room = a_rwnd(&mut receiver) as usize;
            }
            let total = (config.recv_buffer + config.second_level) as usize;
            assert!(receiver.buffered_bytes() <= total, "seed {seed}");
        }
        assert_eq!(receiver.stats().reneged + receiver.stats().no_buffer, 0, "seed {seed}");
        assert!(receiver.cumulative_tsn().0 > 100, "seed {seed}: it moves on");
    }
}

#[test]
fn nr_sack_nothing_is_dropped_to_make_room() {
    let mut receiver = receiver(&ReceiverConfig {
        takes_back: false,
        ..config()
    });
    for tsn in 3..=21 {
        receiver.on_data(&whole(tsn));
    }
    receiver.on_data(&whole(23));
    assert_eq!(a_rwnd(&mut receiver), 0);
    // A chunk that fills a gap uses the memory kept for tiny chunks; a chunk above the highest TSN waits.
    assert_eq!(receiver.on_data(&whole(24)), DataOutcome::NoBuffer);
    assert_eq!(receiver.on_data(&whole(22)), DataOutcome::New);
    assert_eq!(receiver.on_data(&whole(2)), DataOutcome::New);
    assert_eq!(sack(&mut receiver), (0, vec![(2, 23)], vec![]));
    assert_eq!(receiver.on_data(&whole(1)), DataOutcome::New);
    assert_eq!(drain(&mut receiver).len(), 23);
    assert_eq!(receiver.stats().reneged, 0);
}

#[test]
fn nr_sack_the_first_missing_chunk_is_accepted_whatever_is_held() {
    let config = ReceiverConfig {
        takes_back: false,
        memory_limit: 5000,
        ..config()
    };
    let tiny = |tsn| Data {
        payload: Payload::Zeros(1),
        ..whole(tsn)
    };
    let mut receiver = receiver(&config);
    // The TSNs from 100 upwards use up half of the memory, and the TSNs below 100 use up the rest.
    let mut above = 100;
    while receiver.on_data(&tiny(above)) == DataOutcome::New {
        above += 1;
    }
    let mut below = 99;
    while receiver.on_data(&tiny(below)) == DataOutcome::New {
        below -= 1;
    }
    assert!(below > 2 && above > 101);
    assert_eq!(
        receiver.on_data(&whole(2)),
        DataOutcome::NoBuffer,
        "the memory is used up"
    );
    assert_eq!(receiver.on_data(&whole(1)), DataOutcome::New);
    assert_eq!(
        receiver.on_data(&whole(2)),
        DataOutcome::NoBuffer,
        "the reader has something to read"
    );
    drain(&mut receiver);
    assert_eq!(receiver.on_data(&whole(2)), DataOutcome::New);
    assert_eq!(drain(&mut receiver).len(), 1);
}

/// Data received above a gap may not be dropped, and must not take the space of the packet that fills the gap.
#[test]
fn nr_sack_tiny_chunks_leave_half_of_the_memory_to_those_that_fill_a_gap() {
    let config = ReceiverConfig {
        takes_back: false,
        ..ReceiverConfig::new(4850, 10, 1102)
    };
    let tiny = |tsn| Data {
        payload: Payload::Zeros(1),
        ..whole(tsn)
    };
    let mut receiver = receiver(&config);
    // A packet of 40 chunks is lost, and the sender sends as long as it can.
    let mut tsn = 41;
    while receiver.on_data(&tiny(tsn)) == DataOutcome::New {
        tsn += 1;
    }
    assert!(tsn > 80);
    for missing in (1..=40).rev() {
        assert_eq!(receiver.on_data(&tiny(missing)), DataOutcome::New, "TSN {missing}");
    }
    assert_eq!(drain(&mut receiver).len(), tsn as usize - 1);
}

/// The TSNs above the cumulative TSN that a sender knows to be held, from the SACKs that reach it.
#[derive(Default)]
struct KnownTsns {
    cumulative: u32,
    held: std::collections::BTreeSet<u32>,
}

impl KnownTsns {
    fn take(&mut self, (content, gaps, dropped): &(SackContent, Vec<u8>, Vec<u8>)) {
        let offsets = |bytes: &[u8]| -> Vec<u32> {
            let half = |bytes: &[u8]| u32::from(u16::from_be_bytes([bytes[0], bytes[1]]));
            bytes
                .chunks_exact(4)
                .flat_map(|block| half(block)..=half(&block[2..]))
                .collect()
        };
        self.cumulative = content.cumulative_tsn_ack.0;
        let new_gaps = content.new_gaps.expect("a NEW GAPS header");
        if new_gaps.everything {
            self.held.clear();
        }
        self.held
            .extend(offsets(gaps).iter().map(|offset| self.cumulative + offset));
        for offset in offsets(dropped) {
            self.held.remove(&(self.cumulative + offset));
        }
        self.held = self.held.split_off(&(self.cumulative + 1));
    }
}

fn new_gaps_of(receiver: &mut Receiver) -> (SackContent, Vec<u8>, Vec<u8>) {
    let (mut gaps, mut duplicates) = (Vec::new(), Vec::new());
    let content = receiver.write_sack(&mut gaps, &mut duplicates, ROOM);
    (content, gaps, receiver.dropped().to_vec())
}

fn only_news() -> ReceiverConfig {
    ReceiverConfig {
        new_gaps_only: true,
        ..config()
    }
}

#[test]
fn ye_6_6_gap_ack_blocks_report_only_new_arrivals() {
    let mut receiver = receiver(&only_news());
    let mut blocks = Vec::new();
    for tsn in [3, 4, 7, 5, 12, 9, 1] {
        receiver.on_data(&whole(tsn));
        let (content, gaps, dropped) = new_gaps_of(&mut receiver);
        assert!(dropped.is_empty());
        assert_eq!(
            content.new_gaps.expect("a NEW GAPS header").serial as usize,
            blocks.len()
        );
        blocks.push(gaps);
    }
    let expected: [&[u8]; 7] = [
        &[0, 3, 0, 3],
        &[0, 3, 0, 4],
        &[0, 3, 0, 4, 0, 7, 0, 7],
        &[0, 4, 0, 5, 0, 7, 0, 7],
        // Three SACKs have reported TSN 4.
        &[0, 5, 0, 5, 0, 7, 0, 7, 0, 12, 0, 12],
        &[0, 5, 0, 5, 0, 9, 0, 9, 0, 12, 0, 12],
        // Offsets are relative to TSN 1 now.
        &[0, 8, 0, 8, 0, 11, 0, 11],
    ];
    assert_eq!(blocks, expected);
}

#[test]
fn ye_6_6_a_dropped_tsn_is_reported_until_it_arrives_again() {
    let mut receiver = receiver(&only_news());
    for tsn in 3..=22 {
        receiver.on_data(&whole(tsn));
    }
    new_gaps_of(&mut receiver);
    receiver.on_data(&whole(2));
    let (content, gaps, dropped) = new_gaps_of(&mut receiver);
    assert!(content.new_gaps.expect("a NEW GAPS header").everything, "at once");
    assert_eq!((gaps, dropped), (vec![0, 2, 0, 21], vec![]));
    for _ in 0..3 {
        let (content, _, dropped) = new_gaps_of(&mut receiver);
        assert!(!content.new_gaps.expect("a NEW GAPS header").everything);
        assert_eq!(dropped, [0, 22, 0, 22], "the SACK that reported it may be lost");
    }
    receiver.on_data(&whole(1));
    drain(&mut receiver);
    receiver.on_data(&whole(23));
    assert!(
        new_gaps_of(&mut receiver)
            .0
            .new_gaps
            .expect("a NEW GAPS header")
            .everything,
        "TSN 21 was dropped as well"
    );
    assert_eq!(new_gaps_of(&mut receiver).2, [0, 1, 0, 2], "relative to TSN 20");
    receiver.on_data(&whole(22));
    assert_eq!(new_gaps_of(&mut receiver).2, [0, 1, 0, 1]);
    receiver.on_data(&whole(21));
    assert_eq!(
        (new_gaps_of(&mut receiver).2, receiver.cumulative_tsn()),
        (vec![], Tsn(23))
    );
}

#[test]
fn ye_6_6_duplicate_data_causes_a_full_sack() {
    let mut receiver = receiver(&only_news());
    for tsn in [3, 5, 7] {
        receiver.on_data(&whole(tsn));
    }
    (0..4).for_each(|_| drop(new_gaps_of(&mut receiver)));
    assert!(new_gaps_of(&mut receiver).1.is_empty());
    receiver.on_data(&whole(5));
    let (content, gaps, _) = new_gaps_of(&mut receiver);
    assert!(content.new_gaps.expect("a NEW GAPS header").everything);
    assert_eq!(gaps, [0, 3, 0, 3, 0, 5, 0, 5, 0, 7, 0, 7]);
}

/// If at most two SACKs in a row are lost, the sender always knows which TSNs the receiver holds, whatever the receiver
/// drops.
#[test]
fn ye_6_6_the_sender_tracks_the_held_tsns_despite_lost_sacks() {
    let mut dropped = 0;
    for seed in 0..50 {
        let mut rng = Rng::stream(seed, "news");
        let mut receiver = receiver(&ReceiverConfig {
            recv_buffer: 5000 + rng.below(20_000) as u32,
            ..only_news()
        });
        let (mut known, mut lost) = (KnownTsns::default(), 0);
        for step in 0..2000 {
            let tsn = receiver.cumulative_tsn().0 + 1 + rng.below(30) as u32;
            receiver.on_data(&whole(tsn));
            if rng.chance(0.5) {
                recv(&mut receiver);
            }
            if rng.chance(0.4) {
                continue;
            }
            let sack = new_gaps_of(&mut receiver);
            if lost < 2 && rng.chance(0.3) {
                lost += 1;
                continue;
            }
            lost = 0;
            known.take(&sack);
            assert_eq!(known.cumulative, receiver.cumulative_tsn().0);
            let held: Vec<u32> = (known.cumulative + 1..known.cumulative + 60)
                .filter(|tsn| receiver.is_beyond_gap(Tsn(*tsn)))
                .collect();
            assert!(
                known.held.iter().copied().eq(held.iter().copied()),
                "seed {seed}, step {step}: {:?}, {held:?}",
                known.held
            );
        }
        dropped += receiver.stats().reneged;
    }
    assert!(dropped > 100, "{dropped}");
}
