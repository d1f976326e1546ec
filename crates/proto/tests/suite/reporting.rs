//! Optional times and forms of reports: k-arrival SACKs, delayed acknowledgements for concurrent paths, two-level buffer, NR-SACK, NEW
//! GAPS.

use crate::support::{Fate, Host, InFlight, Net, addrs};
use whimbrel_control::multipath::{ReportingChanges, SackPath};
use whimbrel_control::{Scheme, Span, Time};
use whimbrel_proto::{AssocId, AssociationConfig, Message, PathId, State};
use whimbrel_wire::{Chunk, ChunkType, DuplicateTsns, GapBlock, GapBlocks, NewGaps, NrSack, Sack, SackLists, Tsn};

fn reporting(changes: ReportingChanges) -> AssociationConfig {
    AssociationConfig {
        hb_interval: Span::ZERO,
        initial_cwnd: Some(400_000),
        max_burst: 0,
        reporting: changes,
        ..AssociationConfig::default()
    }
}

/// An association that has carried one message, so that the rule for the first DATA chunk no longer applies.
fn established(config: &AssociationConfig) -> (Net, AssocId) {
    let (mut net, a, _) = Net::established(1, config);
    net.send(Host::A, a, Message::zeros(0, 1));
    net.run_for(Span::from_millis(500));
    net.messages.clear();
    (net, a)
}

/// Drops the n-th packets of data of the host, counted from 1.
fn lose(net: &mut Net, numbers: &'static [usize]) {
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        count += usize::from(packet.has(ChunkType::DATA));
        if packet.has(ChunkType::DATA) && numbers.contains(&count) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
}

fn send(net: &mut Net, id: AssocId, messages: u32) {
    for number in 0..messages {
        let mut content = vec![number as u8; 1400];
        content[..4].copy_from_slice(&number.to_be_bytes());
        net.send(Host::A, id, Message::new(0, content));
    }
}

/// Checks that all messages of [`send`] have arrived in order.
fn all_arrived(net: &Net, messages: u32) {
    let numbers: Vec<u32> = net
        .contents(Host::B)
        .iter()
        .map(|content| u32::from_be_bytes([content[0], content[1], content[2], content[3]]))
        .collect();
    assert!(numbers.iter().copied().eq(0..messages), "{numbers:?}");
}

fn sacks(net: &Net, start: Time) -> usize {
    net.times(Host::B, ChunkType::SACK, start).len()
}

// Ye 2004, 6.6
#[test]
fn k_arrivals_cause_a_sack_also_beyond_a_gap() {
    let count = |arrivals| {
        let (mut net, a) = established(&reporting(ReportingChanges {
            arrivals_per_sack: Some(arrivals),
            ..ReportingChanges::default()
        }));
        lose(&mut net, &[3]);
        let start = net.now;
        send(&mut net, a, 100);
        net.run_for(Span::from_secs(5));
        all_arrived(&net, 100);
        assert_eq!(
            net.count(Host::A, ChunkType::DATA),
            102,
            "only the lost packet was retransmitted"
        );
        sacks(&net, start)
    };
    // Of 99 packets and one retransmission, those after the third leave a gap: the standard acknowledges nearly each of them.
    assert_eq!(count(0), 99);
    assert_eq!(count(10), 10);
    assert_eq!(count(5), 20);
}

// Iyengar, Amer and Stewart 2006: DAC
#[test]
fn dac_delays_sacks_beyond_a_gap_and_reports_the_number_of_packets() {
    let (mut net, a) = established(&reporting(ReportingChanges {
        dac: Some(true),
        ..ReportingChanges::default()
    }));
    lose(&mut net, &[3]);
    let start = net.now;
    send(&mut net, a, 20);
    net.run_for(Span::from_secs(5));
    all_arrived(&net, 20);
    let counts: Vec<u8> = net
        .sent(Host::B, ChunkType::SACK)
        .iter()
        .filter(|sent| sent.at >= start)
        .flat_map(|sent| sent.chunks())
        .filter_map(|chunk| match chunk {
            Chunk::Sack(sack) => Some(sack.packets),
            _ => None,
        })
        .collect();
    assert_eq!(
        counts.iter().map(|count| u32::from(*count)).sum::<u32>(),
        20,
        "{counts:?}"
    );
    assert!(counts.iter().filter(|count| **count == 2).count() >= 9, "{counts:?}");
}

fn options(change: impl FnOnce(&mut ReportingChanges)) -> AssociationConfig {
    let mut changes = ReportingChanges::default();
    change(&mut changes);
    reporting(changes)
}

// Ye 2004, 6.6
#[test]
fn a_two_level_buffer_lets_the_sender_continue_beyond_a_gap() {
    let delivered = |two_level| {
        let config = AssociationConfig {
            recv_buffer: 20_000,
            send_buffer: 1 << 20,
            ..options(|changes| changes.two_level_buffer = Some(two_level))
        };
        let (mut net, a) = established(&config);
        // Every transmission of the third packet is lost for one second.
        let (mut lost, until) = (None, net.now + Span::from_secs(1));
        let mut count = 0;
        net.filter = Box::new(move |packet| {
            let tsns = packet.tsns();
            count += usize::from(!tsns.is_empty());
            if count == 3 && lost.is_none() {
                lost = tsns.first().copied();
            }
            if packet.now < until && lost.is_some_and(|lost| tsns.contains(&lost)) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        send(&mut net, a, 300);
        net.run_for(Span::from_millis(900));
        let b = net.only(Host::B);
        let held = net.b.association(b).expect("established").buffered_receive();
        assert_eq!(net.contents(Host::B).len(), 2, "the others wait for the third");
        net.run_for(Span::from_secs(20));
        all_arrived(&net, 300);
        let stats = net.b.association(b).expect("established").receiver_stats();
        assert_eq!((stats.reneged, stats.no_buffer), (0, 0));
        held
    };
    assert!(delivered(false) <= 20_000);
    let held = delivered(true);
    assert!(held > 200_000, "{held} bytes beyond the gap");
}

#[test]
fn nr_sack_frees_the_send_buffer_early() {
    let sent = |nr_sack| {
        let config = AssociationConfig {
            send_buffer: 30_000,
            ..options(|changes| changes.nr_sack = Some(nr_sack))
        };
        let (mut net, a) = established(&config);
        lose(&mut net, &[1]);
        for round in 0..3 {
            // As much as the buffer holds.
            for _ in 0..30 {
                let now = net.now;
                if net.a.send(now, a, Message::zeros(0, 1400)).is_err() {
                    break;
                }
            }
            net.drain(Host::A);
            // The fast retransmit needs one round trip more than the acknowledgements of the other packets.
            net.run_for(Span::from_millis(if round == 0 { 15 } else { 3 }));
        }
        net.run_for(Span::from_micros(5500));
        let association = net.a.association(a).expect("established");
        let (buffered, freed) = (association.buffered_send(), association.stats().data_bytes_freed_early);
        assert_eq!(association.uses_nr_sack(), nr_sack);
        net.run_for(Span::from_secs(5));
        let association = net.a.association(a).expect("established");
        assert_eq!(association.buffered_send(), 0);
        let stats = association.stats();
        assert_eq!(
            stats.data_bytes_acked,
            1 + 1400 * (net.contents(Host::B).len() as u64),
            "each once"
        );
        (buffered, freed)
    };
    assert_eq!(sent(false).1, 0);
    let (_, freed) = sent(true);
    assert!(freed >= 20 * 1400, "{freed}");
}

fn blocks(list: &[(u16, u16)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(start, end) in list {
        GapBlock { start, end }.emit(&mut bytes);
    }
    bytes
}

/// Returns a SACK that leaves the last `back` of the ten messages of [`ten_outstanding`] unacknowledged, with these gap ack blocks.
fn sack_before<'a>(net: &Net, back: u32, gaps: &'a [u8]) -> Sack<'a> {
    // The message of `established` had the initial TSN.
    let newest = net.last(Host::A, ChunkType::INIT).init().initial_tsn.0.wrapping_add(10);
    Sack {
        cumulative_tsn_ack: Tsn(newest.wrapping_sub(back)),
        a_rwnd: 262_144,
        gaps: GapBlocks::from_wire_bytes(gaps),
        duplicates: DuplicateTsns::default(),
        congestion_indicated: false,
        packets: 0,
    }
}

/// Ten messages of A are in flight; only packets that the test forges arrive from B.
fn ten_outstanding(config: &AssociationConfig) -> (Net, AssocId) {
    let (mut net, a) = established(config);
    net.filter = Box::new(|_| Fate::Drop);
    send(&mut net, a, 10);
    (net, a)
}

#[test]
fn other_sack_formats_require_both_ends() {
    let formats = [
        reporting(ReportingChanges::default()),
        options(|changes| changes.nr_sack = Some(true)),
        options(|changes| changes.new_gaps_only = Some(true)),
        options(|changes| (changes.nr_sack, changes.new_gaps_only) = (Some(true), Some(true))),
    ];
    for (ours, mine) in formats.iter().enumerate() {
        for (theirs, other) in formats.iter().enumerate() {
            let mut net = Net::with_config(1, other, 1);
            let a = net.connect(mine, 1);
            net.run_for(Span::from_millis(500));
            lose(&mut net, &[3]);
            send(&mut net, a, 20);
            net.run_for(Span::from_secs(5));
            all_arrived(&net, 20);
            let form = match (ours, theirs) {
                (1, 1) | (1, 3) | (3, 1) | (3, 3) => ChunkType::NR_SACK,
                (2, 2) | (2, 3) | (3, 2) => ChunkType::NEW_GAPS,
                _ => ChunkType::SACK,
            };
            for chunk_type in [ChunkType::SACK, ChunkType::NR_SACK, ChunkType::NEW_GAPS] {
                assert_eq!(
                    net.count(Host::B, chunk_type) > 0,
                    chunk_type == form,
                    "{ours} {theirs} {chunk_type}"
                );
            }
            let association = net.a.association(a).expect("established");
            assert_eq!(association.uses_nr_sack(), form == ChunkType::NR_SACK);
            assert_eq!(association.uses_new_gaps(), form == ChunkType::NEW_GAPS);
        }
    }
}

#[test]
fn sack_formats_without_negotiation_are_discarded() {
    let (mut net, a) = ten_outstanding(&reporting(ReportingChanges::default()));
    let sack = sack_before(&net, 5, &[]);
    let (cumulative_tsn_ack, a_rwnd) = (sack.cumulative_tsn_ack, sack.a_rwnd);
    let nr_sack = NrSack {
        cumulative_tsn_ack,
        a_rwnd,
        lists: SackLists::default(),
        congestion_indicated: false,
        packets: 0,
    };
    let new_gaps = NewGaps {
        cumulative_tsn_ack,
        a_rwnd,
        lists: SackLists::default(),
        congestion_indicated: false,
        packets: 0,
        serial: 0,
        everything: true,
    };
    assert!(net.as_peer(Host::A, &[Chunk::NrSack(nr_sack)]).is_err());
    assert!(net.as_peer(Host::A, &[Chunk::NewGaps(new_gaps)]).is_err());
    assert_eq!(net.a.association(a).expect("established").buffered_send(), 14_000);
    net.as_peer(Host::A, &[Chunk::Sack(sack)]).expect("accepted");
    assert_eq!(net.a.association(a).expect("established").buffered_send(), 7000);
}

#[test]
fn nr_sack_reneging_on_non_renegable_chunks_is_ignored() {
    let (mut net, a) = ten_outstanding(&options(|changes| changes.nr_sack = Some(true)));
    let buffered = |net: &Net| net.a.association(a).expect("established").buffered_send();
    // TSNs 1 to 10: 3 and 4 are renegable, 5 to 7 and 9 are non-renegable.
    let lists = blocks(&[(3, 4), (5, 7), (9, 9)]).leak();
    let nr_sack = |net: &Net, back, bytes: &'static [u8], first, second| {
        let sack = sack_before(net, back, &[]);
        Chunk::NrSack(NrSack {
            cumulative_tsn_ack: sack.cumulative_tsn_ack,
            a_rwnd: sack.a_rwnd,
            lists: SackLists::from_wire_bytes(bytes, first, second),
            congestion_indicated: false,
            packets: 0,
        })
    };
    let first = nr_sack(&net, 10, lists, 1, 2);
    net.as_peer(Host::A, &[first]).expect("accepted");
    assert_eq!(buffered(&net), 6 * 1400);
    net.as_peer(Host::A, &[first]).expect("accepted");
    assert_eq!(buffered(&net), 6 * 1400, "freed once");
    let flight = |net: &Net| {
        net.a
            .association(a)
            .expect("established")
            .paths()
            .map(|path| path.flight)
            .sum::<u64>()
    };
    let chunk = 1400 + 16;
    assert_eq!(flight(&net), 4 * chunk);
    // The receiver reneges on everything: 3 and 4 are in flight again.
    let nothing = nr_sack(&net, 10, &[], 0, 0);
    net.as_peer(Host::A, &[nothing]).expect("accepted");
    assert_eq!((flight(&net), buffered(&net)), (6 * chunk, 6 * 1400));
    // One block ends before its start, and one is at the cumulative TSN ack.
    let wild = blocks(&[(0, 3), (4, 3), (8, 8)]);
    let wild = wild.repeat(2).leak();
    let wild = nr_sack(&net, 10, wild, 3, 3);
    net.as_peer(Host::A, &[wild]).expect("accepted");
    assert_eq!(buffered(&net), 5 * 1400);
    // TSN 7 is finally acknowledged like any other, and the data that is still missing can be retransmitted.
    let up_to_7 = nr_sack(&net, 3, &[], 0, 0);
    net.as_peer(Host::A, &[up_to_7]).expect("accepted");
    assert_eq!((buffered(&net), flight(&net)), (1400, chunk), "TSN 10");
    net.filter = Box::new(|_| Fate::Deliver);
    let all = nr_sack(&net, 0, &[], 0, 0);
    net.as_peer(Host::A, &[all]).expect("accepted");
    assert_eq!((buffered(&net), flight(&net)), (0, 0));
    assert_eq!(
        net.a.association(a).expect("established").stats().data_bytes_acked,
        1 + 14_000
    );
}

/// A renegable range touches a non-renegable one, and an NR-SACK without room leaves it out. That the block ends there shows nothing.
#[test]
fn nr_sack_without_room_for_a_list_has_not_reneged_on_it() {
    let (mut net, a) = ten_outstanding(&options(|changes| changes.nr_sack = Some(true)));
    let nr_sack = |net: &Net, bytes: &'static [u8], first| {
        let sack = sack_before(net, 10, &[]);
        Chunk::NrSack(NrSack {
            cumulative_tsn_ack: sack.cumulative_tsn_ack,
            a_rwnd: sack.a_rwnd,
            lists: SackLists::from_wire_bytes(bytes, first, bytes.len() / 4 - first),
            congestion_indicated: false,
            packets: 0,
        })
    };
    let flight = |net: &Net| {
        let paths = net.a.association(a).expect("established").paths();
        paths.map(|path| path.flight).sum::<u64>()
    };
    let both = nr_sack(&net, blocks(&[(6, 8), (3, 5)]).leak(), 1);
    net.as_peer(Host::A, &[both]).expect("accepted");
    let before = flight(&net);
    assert_eq!(before, 4 * 1416);
    // Blocks out of order are ignored; they fill the packet.
    let full = nr_sack(&net, blocks(&[(3, 5)]).repeat(400).leak(), 0);
    net.as_peer(Host::A, &[full]).expect("accepted");
    assert_eq!(flight(&net), before);
    let roomy = nr_sack(&net, blocks(&[(3, 5)]).leak(), 0);
    net.as_peer(Host::A, &[roomy]).expect("accepted");
    assert_eq!(flight(&net), before + 3 * 1416);
}

#[test]
fn new_gaps_accumulate_and_are_reneged_on() {
    let (mut net, a) = ten_outstanding(&options(|changes| changes.new_gaps_only = Some(true)));
    let in_flight = |net: &Net| {
        let flight: u64 = net
            .a
            .association(a)
            .expect("established")
            .paths()
            .map(|path| path.flight)
            .sum();
        flight / (1400 + 16)
    };
    // B has sent one NEW GAPS before. Its serial number is not known here, so the test starts well above it.
    let report = |net: &mut Net, serial: u16, back, new_gaps: &[(u16, u16)], reneged: &[(u16, u16)], everything| {
        let lists = [blocks(new_gaps), blocks(reneged)].concat();
        let sack = sack_before(net, back, &[]);
        let new_gaps = Chunk::NewGaps(NewGaps {
            cumulative_tsn_ack: sack.cumulative_tsn_ack,
            a_rwnd: sack.a_rwnd,
            lists: SackLists::from_wire_bytes(&lists, new_gaps.len(), reneged.len()),
            congestion_indicated: false,
            packets: 0,
            serial,
            everything,
        });
        net.as_peer(Host::A, &[new_gaps]).is_ok()
    };
    assert!(report(&mut net, 100, 10, &[(3, 3)], &[], false));
    assert_eq!(in_flight(&net), 9);
    assert!(report(&mut net, 101, 10, &[(5, 6)], &[], false));
    assert_eq!(in_flight(&net), 7, "TSN 3 is still held");
    assert!(report(&mut net, 102, 9, &[(3, 3)], &[(5, 5)], false));
    assert_eq!(in_flight(&net), 6, "TSNs 1 and 4 arrived, 6 was dropped");
    // An overtaken NEW GAPS adds the arrivals that it reports, except those that the receiver has reneged on since.
    assert!(report(&mut net, 101, 10, &[(5, 6), (10, 10)], &[], false));
    assert_eq!(in_flight(&net), 5, "TSN 10 arrived, 6 is still dropped");
    assert!(report(&mut net, 103, 9, &[(7, 7)], &[], true));
    assert_eq!(in_flight(&net), 8, "TSN 8 alone is held");
    // A block directly after the cumulative TSN ack that does not advance it is not valid.
    assert!(report(&mut net, 104, 3, &[(2, 2)], &[], false));
    assert_eq!(in_flight(&net), 2, "TSNs 8 and 10");
    assert!(report(&mut net, 105, 1, &[(0, 1)], &[(0, 65_535)], false));
    assert_eq!(in_flight(&net), 1, "TSN 10");
    // RFC 9260 §12.4: a TSN that was never sent is not acknowledged.
    assert!(!report(&mut net, 106, 1, &[(60_000, 60_001)], &[], false));
    assert_eq!(net.state(Host::A, a), State::Closed);
}

// Ye 2004, 6.6, on a path that loses packets in both directions.
#[test]
fn new_gaps_deliver_everything_over_a_lossy_path() {
    let gaps = |new_gaps_only| {
        let mut bytes = 0;
        for seed in 0..20 {
            let config = options(|changes| changes.new_gaps_only = Some(new_gaps_only));
            let mut net = Net::with_config(1, &config, seed);
            let a = net.connect(&config, 1);
            net.run_for(Span::from_millis(500));
            let mut rng = whimbrel_control::Rng::stream(seed, "lossy");
            net.filter = Box::new(move |_| match rng.below(100) {
                0..10 => Fate::Drop,
                10..20 => Fate::Delay(Span::from_micros(rng.below(20_000))),
                20..22 => Fate::Duplicate,
                _ => Fate::Deliver,
            });
            for _ in 0..3 {
                send(&mut net, a, 50);
                net.run_for(Span::from_secs(100));
            }
            assert_eq!(net.contents(Host::B).len(), 150, "seed {seed}");
            let sacks = net.sent(Host::B, ChunkType::NEW_GAPS);
            let sacks = sacks.into_iter().chain(net.sent(Host::B, ChunkType::SACK));
            for chunk in sacks.flat_map(|sent| sent.chunks()) {
                bytes += match chunk {
                    Chunk::Sack(sack) => sack.gaps.len(),
                    Chunk::NewGaps(new_gaps) => new_gaps.lists.first().len() + new_gaps.lists.second().len(),
                    _ => 0,
                };
            }
        }
        bytes
    };
    let (all, new_gaps) = (gaps(false), gaps(true));
    assert!(new_gaps * 3 < all * 2, "{new_gaps} blocks instead of {all}");
}

/// Returns the number of B's SACKs on each path for messages that arrived alternately on paths 0 and 1, where path 1 is slower.
fn sack_paths(wanted: SackPath, failed: Option<usize>) -> [usize; 3] {
    let config = AssociationConfig {
        hb_interval: Span::from_secs(1),
        ..options(|changes| changes.sack_path = Some(wanted))
    };
    let mut net = Net::with_config(3, &config, 1);
    let a = net.connect(&config, 3);
    let from_b = |packet: &InFlight<'_>| {
        addrs(Host::B, 3)
            .iter()
            .chain(&addrs(Host::A, 3))
            .position(|addr| *addr == packet.local)
            .expect("an address of a host")
            % 3
    };
    net.filter = Box::new(move |packet| match from_b(packet) {
        path if Some(path) == failed => Fate::Drop,
        1 => Fate::Delay(Span::from_millis(20)),
        0 => Fate::Delay(Span::from_millis(10)),
        _ => Fate::Deliver,
    });
    // Heartbeats measure and confirm every path, or find that it does not respond.
    net.run_for(Span::from_secs(200));
    let start = net.now;
    for number in 0..40 {
        let now = net.now;
        net.a.set_primary(now, a, PathId(number % 2));
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_millis(500));
    }
    assert_eq!(net.contents(Host::B).len(), 40);
    let local = addrs(Host::B, 3);
    let mut counts = [0; 3];
    for sent in net.sent(Host::B, ChunkType::SACK) {
        if sent.at >= start {
            counts[local.iter().position(|addr| *addr == sent.local).expect("ours")] += 1;
        }
    }
    counts
}

#[test]
fn sacks_are_sent_on_the_configured_path() {
    assert_eq!(sack_paths(SackPath::LastArrival, None), [20, 20, 0]);
    assert_eq!(
        sack_paths(SackPath::Primary, None),
        [40, 0, 0],
        "B's primary path is its first"
    );
    assert_eq!(sack_paths(SackPath::LowestRtt, None), [0, 0, 40]);
    assert_eq!(sack_paths(SackPath::All, None), [40, 40, 40]);
}

#[test]
fn sacks_are_not_sent_on_a_failed_path() {
    assert_eq!(sack_paths(SackPath::LowestRtt, Some(2)), [40, 0, 0]);
    assert_eq!(sack_paths(SackPath::All, Some(2)), [40, 40, 0]);
}

// RFC 9260 §3.2: the type was not negotiated, and its high bits are 00. The rest of the packet is not read.
#[test]
fn an_nr_sack_without_negotiation_ends_the_processing_of_the_packet() {
    let (mut net, _) = established(&AssociationConfig::default());
    let nr_sack = Chunk::NrSack(NrSack {
        cumulative_tsn_ack: Tsn(0),
        a_rwnd: 5000,
        lists: SackLists::from_wire_bytes(&[], 0, 0),
        congestion_indicated: false,
        packets: 0,
    });
    let heartbeat = Chunk::Heartbeat(whimbrel_wire::HeartbeatInfo(&[7; 20]));
    assert_eq!(net.as_peer(Host::B, &[heartbeat]), Ok(()));
    assert_eq!(net.count(Host::B, ChunkType::HEARTBEAT_ACK), 1);
    let accepted = net.as_peer(Host::B, &[nr_sack, heartbeat]);
    assert_eq!(accepted, Err(whimbrel_proto::Discard::InvalidChunk));
    assert_eq!(net.count(Host::B, ChunkType::HEARTBEAT_ACK), 1);
}

// A peer reneges on chunks that it reported as non-renegable: they are not in flight again and not declared lost.
#[test]
fn freed_chunks_are_not_reneged_on() {
    let config = reporting(ReportingChanges {
        nr_sack: Some(true),
        ..ReportingChanges::default()
    });
    let (mut net, a) = established(&config);
    net.filter = Box::new(|packet| {
        if packet.from == Host::B {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    for _ in 0..4 {
        let now = net.now;
        net.a.send(now, a, Message::zeros(0, 1000)).expect("room");
    }
    net.drain(Host::A);
    let first = net.last(Host::A, ChunkType::DATA).tsns()[0] - 3;
    let report_kept = |kept: &[u8]| {
        let bytes = kept.to_vec();
        move |net: &mut Net| {
            let nr_sack = Chunk::NrSack(NrSack {
                cumulative_tsn_ack: Tsn(first - 1),
                a_rwnd: 100_000,
                lists: SackLists::from_wire_bytes(&bytes, 0, bytes.len() / 4),
                congestion_indicated: false,
                packets: 0,
            });
            net.as_peer(Host::A, &[nr_sack])
        }
    };
    let path = |net: &Net| net.a.association(a).expect("established").paths().next().expect("one");
    let all = path(&net).flight;
    assert_eq!(report_kept(&[0, 2, 0, 3])(&mut net), Ok(()));
    assert_eq!(path(&net).flight, all / 2);
    // Then no chunk is reported as non-renegable, four times, which would suffice for a loss.
    for _ in 0..4 {
        assert_eq!(report_kept(&[])(&mut net), Ok(()));
    }
    let stats = net.a.association(a).expect("established").stats();
    assert_eq!((path(&net).flight, stats.fast_retransmits), (all / 2, 0));
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(10));
    assert_eq!(net.a.association(a).expect("established").buffered_send(), 0);
}

#[test]
fn as_many_arrivals_per_sack_as_max_burst_are_refused() {
    // A SACK permits max_burst packets. If a SACK answers as many, at most one SACK is in flight, and the window never opens.
    let check = |arrivals, max_burst| {
        let config = AssociationConfig {
            reporting: ReportingChanges {
                arrivals_per_sack: Some(arrivals),
                ..ReportingChanges::default()
            },
            max_burst,
            ..AssociationConfig::default()
        };
        config.validate().map_err(|error| error.field)
    };
    for (arrivals, max_burst) in [(3, 4), (15, 16), (0, 1), (200, 0)] {
        assert_eq!(check(arrivals, max_burst), Ok(()), "{arrivals} of {max_burst}");
    }
    for (arrivals, max_burst) in [(4, 4), (5, 4), (16, 16), (1, 1)] {
        let field = check(arrivals, max_burst).expect_err("no SACK would open the window");
        assert_eq!(field, "reporting.arrivals_per_sack", "{arrivals} of {max_burst}");
    }
}

// Ye 2004, 6.4.2.3
#[test]
fn ipcc_requires_four_missing_reports() {
    for (scheme, changed, reports) in [
        ("standard", None, 3),
        ("ipcc", None, 4),
        ("ipcc-retransmit", None, 4),
        ("ipcc", Some(3), 3),
    ] {
        let config = AssociationConfig {
            scheme: Scheme::by_name(scheme).expect("it is registered"),
            missing_reports: changed,
            ..reporting(ReportingChanges::default())
        };
        let (mut net, a) = established(&config);
        lose(&mut net, &[1]);
        // Each message is a packet, and each packet after the gap causes a missing report.
        let sent = |net: &Net| net.count(Host::A, ChunkType::DATA) as u32;
        let before = sent(&net);
        send(&mut net, a, reports);
        net.run_for(Span::from_millis(500));
        assert_eq!(sent(&net), before + reports, "{scheme}: one is missing");
        send(&mut net, a, 1);
        net.run_for(Span::from_millis(200));
        assert_eq!(sent(&net), before + reports + 2, "{scheme}: sent again");
    }
}
