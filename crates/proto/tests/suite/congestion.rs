//! Congestion control and received SACKs, observed on the wire (RFC 9260 §6.1, §6.2.1, §6.3.3, §7.2).

use crate::support::paths::path;
use crate::support::{Fate, Host, Net};
use whimbrel_control::{Span, Time};
use whimbrel_proto::{AssocId, AssociationConfig, Discard, LossRule, Message, PathId, Preset, TraceEvent, TraceKinds};
use whimbrel_wire::{Chunk, ChunkType, DuplicateTsns, GapBlock, GapBlocks, Sack, Tsn};

/// User data of a full packet: a chunk of 1468 bytes is one PMDCS.
const FULL: u32 = 1452;
pub(super) const PMDCS: u64 = 1468;

/// No heartbeats, a SACK for each packet, a large window.
pub(super) fn config() -> AssociationConfig {
    AssociationConfig {
        hb_interval: Span::ZERO,
        sack_frequency: 1,
        recv_buffer: 1 << 20,
        send_buffer: 1 << 20,
        ..AssociationConfig::default()
    }
}

/// Returns the data packets of A since `start`: time in milliseconds, and TSNs relative to the first one of the association.
pub(super) fn data_sent(net: &Net, start: Time) -> Vec<(u64, Vec<u32>)> {
    let first = first_tsn(net);
    net.sent(Host::A, ChunkType::DATA)
        .iter()
        .filter(|sent| sent.at >= start)
        .map(|sent| {
            (
                sent.at.since(start).as_millis(),
                sent.tsns().iter().map(|tsn| tsn.wrapping_sub(first)).collect(),
            )
        })
        .collect()
}

fn first_tsn(net: &Net) -> u32 {
    net.sent(Host::A, ChunkType::INIT)[0].init().initial_tsn.0
}

/// Delivers the peer's SACK: everything below `cumulative`, and these ranges, relative to the first TSN.
pub(super) fn sack(net: &mut Net, cumulative: u32, gaps: &[(u32, u32)]) -> Result<(), Discard> {
    sack_with_window(net, cumulative, gaps, 1 << 20)
}

fn sack_with_window(net: &mut Net, cumulative: u32, gaps: &[(u32, u32)], a_rwnd: u32) -> Result<(), Discard> {
    let mut list = Vec::new();
    for &(first, last) in gaps {
        let offset = |number: u32| (number + 1 - cumulative) as u16;
        GapBlock {
            start: offset(first),
            end: offset(last),
        }
        .emit(&mut list);
    }
    let chunk = Sack {
        congestion_indicated: false,
        packets: 0,
        cumulative_tsn_ack: Tsn(first_tsn(net).wrapping_add(cumulative).wrapping_sub(1)),
        a_rwnd,
        gaps: GapBlocks::from_wire_bytes(&list),
        duplicates: DuplicateTsns::from_wire_bytes(&[]),
    };
    net.as_peer(Host::A, &[Chunk::Sack(chunk)])
}

/// Returns an association whose peer no longer sends; the test sends SACKs in its place.
pub(super) fn alone(paths: usize, config: &AssociationConfig) -> (Net, AssocId) {
    let (mut net, a, _) = Net::established(paths, config);
    net.run_for(Span::from_secs(5));
    net.filter = Box::new(|_| Fate::Drop);
    (net, a)
}

pub(super) fn wide() -> AssociationConfig {
    AssociationConfig {
        initial_cwnd: Some(100 * 1468),
        max_burst: 0,
        ..config()
    }
}

pub(super) fn send_full(net: &mut Net, id: AssocId, count: usize) {
    for _ in 0..count {
        net.send(Host::A, id, Message::zeros(0, FULL));
    }
}

// [9260:6.1-10, 6.1-11, 6.1-12, 7.2.1-1, 7.2.1-3, 7.2.1-4]
#[test]
fn section_6_1_b_the_flight_may_exceed_cwnd_by_less_than_one_packet() {
    let (mut net, a) = alone(
        1,
        &AssociationConfig {
            max_burst: 0,
            ..config()
        },
    );
    send_full(&mut net, a, 10);
    // 4404 bytes are three packets of 1468.
    assert_eq!(path(&net, a, 0).flight, 3 * PMDCS);
    assert_eq!((path(&net, a, 0).cwnd, path(&net, a, 0).ssthresh), (4404, u64::MAX));
    let (mut net, a) = alone(
        1,
        &AssociationConfig {
            max_burst: 0,
            ..config()
        },
    );
    for _ in 0..10 {
        net.send(Host::A, a, Message::zeros(0, 1400));
    }
    // Three chunks of 1416 bytes leave 156 bytes of cwnd, which permits the fourth.
    assert_eq!(path(&net, a, 0).flight, 4 * 1416);
}

// [9260:7.2-4]
#[test]
fn section_7_2_the_flight_counts_chunk_headers_and_padding() {
    let (mut net, a) = alone(1, &wide());
    net.send(Host::A, a, Message::zeros(0, 101));
    // 16 bytes of header, 101 of user data, 3 of padding.
    assert_eq!(path(&net, a, 0).flight, 120);
    sack(&mut net, 1, &[]).expect("accepted");
    assert_eq!((path(&net, a, 0).flight, path(&net, a, 0).delivered), (0, 120));
}

#[test]
fn section_7_2_1_initial_windows_and_timeouts_of_the_older_editions() {
    for (preset, packets, rto) in [
        (Preset::Rfc9260, 3, 1),
        (Preset::Rfc4960, 3, 3),
        (Preset::Rfc2960, 3, 3),
        (Preset::Ns2, 3, 3),
    ] {
        let config = AssociationConfig {
            preset,
            max_burst: 0,
            ..config()
        };
        let mut net = Net::with_config(1, &config, 1);
        let start = net.now;
        let id = net.connect(&config, 1);
        net.filter = Box::new(|_| Fate::Drop);
        net.run_for(Span::from_secs(4));
        assert_eq!(net.times(Host::A, ChunkType::INIT, start)[1], rto * 1000, "{preset:?}");
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(10));
        net.filter = Box::new(|_| Fate::Drop);
        send_full(&mut net, id, 10);
        assert_eq!(path(&net, id, 0).flight, packets * PMDCS, "{preset:?}");
    }
}

/// Returns cwnd of path 0 after each change.
fn windows(net: &mut Net) -> Vec<u64> {
    let mut all = Vec::new();
    net.a.drain_trace(&mut |record| {
        if let TraceEvent::Window {
            path: PathId(0), cwnd, ..
        } = record.event
        {
            all.push(cwnd);
        }
    });
    all
}

// [9260:7.2.1-5, 7.2.1-7, 7.2.1-8, 7.2-4]
// [9260:7.2-1, 7.2-2]
#[test]
fn section_7_2_1_slow_start_adds_one_packet_for_each_acknowledgement() {
    let (mut net, a, _) = Net::established(
        1,
        &AssociationConfig {
            max_burst: 0,
            ..config()
        },
    );
    net.a.set_trace(TraceKinds::WINDOWS);
    send_full(&mut net, a, 60);
    net.run_for(Span::from_millis(75));
    // Three round trips with 3, 6 and 12 acknowledgements.
    let grown = windows(&mut net);
    let expected: Vec<_> = (1..=grown.len() as u64).map(|acks| 4404 + acks * PMDCS).collect();
    assert_eq!(grown, expected);
    assert_eq!(grown.len(), 3 + 6 + 12);
}

// [9260:7.2.1-6]
#[test]
fn section_7_2_1_an_underutilized_window_does_not_grow() {
    let (mut net, a, _) = Net::established(1, &config());
    for _ in 0..50 {
        send_full(&mut net, a, 2);
        net.run_for(Span::from_millis(100));
    }
    assert_eq!(path(&net, a, 0).cwnd, 4404);
    assert_eq!(net.contents(Host::B).len(), 100);
}

// [9260:6.1-14, 6.1-15]
#[test]
fn section_6_1_d_max_burst_limits_the_packets_sent_at_once() {
    for (max_burst, sent) in [(4, 4), (1, 1), (7, 7), (0, 40)] {
        let (mut net, a) = alone(1, &AssociationConfig { max_burst, ..wide() });
        let start = net.now;
        let now = net.now;
        for _ in 0..40 {
            net.a.send(now, a, Message::zeros(0, FULL)).expect("accepted");
        }
        net.drain(Host::A);
        assert_eq!(data_sent(&net, start).len(), sent);
        assert_eq!(path(&net, a, 0).cwnd, 100 * PMDCS, "cwnd is left as it was");
        if max_burst == 4 {
            sack(&mut net, 2, &[]).expect("accepted");
            assert_eq!(
                data_sent(&net, start).len(),
                sent + 4,
                "another burst for an acknowledgement"
            );
        }
    }
}

// [9260:7.2.3-1, 7.2.4-2, 7.2.4-4, 7.2.4-5]
#[test]
fn section_7_2_4_three_missing_reports_cause_a_fast_retransmit() {
    for (preset, reports) in [
        (Preset::Rfc9260, 3),
        (Preset::Rfc4960, 3),
        (Preset::Rfc2960, 4),
        (Preset::Ns2, 3),
    ] {
        let (mut net, a) = alone(1, &AssociationConfig { preset, ..wide() });
        send_full(&mut net, a, 20);
        let start = net.now;
        for report in 1..=reports {
            assert!(data_sent(&net, start).len() == 20, "{preset:?}: {report}");
            // Packet 5 is missing; each SACK reports one more packet after it.
            sack(&mut net, 5, &[(6, 5 + report)]).expect("accepted");
        }
        assert_eq!(data_sent(&net, start)[20..], [(0, vec![5])], "{preset:?}");
        let by_chunks = matches!(preset, Preset::Rfc9260 | Preset::Ns2);
        let unit = if by_chunks { PMDCS } else { 1500 };
        let halved = (100 * PMDCS / 2).max(4 * unit);
        assert_eq!(
            (path(&net, a, 0).cwnd, path(&net, a, 0).ssthresh),
            (halved, halved),
            "{preset:?}"
        );
        // No further reduction until all data outstanding at that time is acknowledged, whatever else is missing.
        for last in 11..=15 {
            sack(&mut net, 5, &[(6, 9), (11, last)]).expect("accepted");
        }
        assert_eq!(data_sent(&net, start).last(), Some(&(0, vec![10])));
        assert_eq!(path(&net, a, 0).cwnd, halved);
        assert_eq!(net.a.association(a).expect("established").stats().recoveries, 1);
        // After the exit point, losses cause a reduction again.
        send_full(&mut net, a, 20);
        sack(&mut net, 20, &[]).expect("accepted");
        let before = path(&net, a, 0).cwnd;
        for last in 22..=21 + reports {
            sack(&mut net, 20, &[(22, last)]).expect("accepted");
        }
        assert_eq!(net.a.association(a).expect("established").stats().recoveries, 2);
        assert_eq!(path(&net, a, 0).cwnd, (before / 2).max(4 * unit), "{preset:?}");
    }
}

// [9260:6.7-4, 6.7-5, 7.2.4-3]
#[test]
fn section_7_2_4_only_tsns_below_the_highest_newly_acknowledged_get_a_report() {
    let (mut net, a) = alone(1, &wide());
    send_full(&mut net, a, 20);
    let start = net.now;
    // 2 and 8 are missing. The following SACKs report 3 to 6 one after the other: no newly acknowledged TSN is above 8.
    sack(&mut net, 2, &[(9, 9)]).expect("accepted");
    for last in 3..=6 {
        sack(&mut net, 2, &[(3, last), (9, 9)]).expect("accepted");
        let expected = if last < 4 { 20 } else { 21 };
        assert_eq!(data_sent(&net, start).len(), expected, "up to {last}");
    }
    assert_eq!(data_sent(&net, start)[20], (0, vec![2]), "8 has one report only");
    // The repeated SACK newly acknowledges nothing.
    for _ in 0..5 {
        sack(&mut net, 2, &[(3, 6), (9, 9)]).expect("accepted");
    }
    assert_eq!(data_sent(&net, start).len(), 21);
    // In fast recovery, an advance of the cumulative TSN ack reports everything missing.
    sack(&mut net, 3, &[(4, 6), (9, 9)]).expect("accepted");
    sack(&mut net, 7, &[(9, 9)]).expect("accepted");
    assert_eq!(data_sent(&net, start)[21..], [(0, vec![7,]), (0, vec![8])]);
}

// [9260:6.1-19, 7.2.4-2]
#[test]
fn section_7_2_4_no_second_fast_retransmit_of_the_same_chunk() {
    let (mut net, a) = alone(1, &wide());
    send_full(&mut net, a, 20);
    let start = net.now;
    for last in 2..=19 {
        sack(&mut net, 1, &[(2, last)]).expect("accepted");
    }
    assert_eq!(data_sent(&net, start)[20..], [(0, vec![1])]);
    net.run_for(Span::from_millis(1000));
    assert_eq!(
        data_sent(&net, start)[21..],
        [(1000, vec![1])],
        "T3-rtx, restarted when it was sent again"
    );
}

// [9260:6.1-13, 7.2.4-4, 6.3.3-2]
// [9260:6.1-1]
#[test]
fn section_6_1_c_lost_data_is_sent_before_new_data_as_cwnd_allows() {
    let (mut net, a) = alone(
        1,
        &AssociationConfig {
            initial_cwnd: Some(12 * 1468),
            ..wide()
        },
    );
    send_full(&mut net, a, 30);
    let start = net.now;
    assert_eq!(path(&net, a, 0).flight, 12 * PMDCS);
    // 0 to 4 are missing; 5 to 7 arrive one after the other.
    for last in 5..=7 {
        sack(&mut net, 0, &[(5, last)]).expect("accepted");
    }
    // A new packet was sent for each of the first two SACKs. cwnd is now 6 packets, and more are in flight: only the one packet that
    // ignores cwnd is sent.
    let sent = data_sent(&net, start);
    assert_eq!(sent.last(), Some(&(0, vec![0])));
    assert_eq!(path(&net, a, 0).cwnd, 6 * PMDCS);
    let new_before = sent.len();
    // When the flight falls below cwnd, the other lost packets are sent first, in order.
    sack(&mut net, 1, &[(5, 13)]).expect("accepted");
    let tsns: Vec<_> = data_sent(&net, start)
        .into_iter()
        .skip(new_before)
        .flat_map(|(_, tsns)| tsns)
        .collect();
    assert_eq!(tsns[..4], [1, 2, 3, 4], "{tsns:?}");
    assert!(tsns[4..].iter().all(|tsn| *tsn >= 14), "{tsns:?}");
}

// [9260:7.2.2-1, 7.2.2-2, 7.2.2-3]
// [9260:7.2-1, 7.2-2]
#[test]
fn section_7_2_2_congestion_avoidance_adds_one_packet_per_window() {
    let (mut net, a) = alone(
        1,
        &AssociationConfig {
            initial_cwnd: Some(16 * 1468),
            ..wide()
        },
    );
    send_full(&mut net, a, 400);
    for last in 1..=3 {
        sack(&mut net, 0, &[(1, last)]).expect("accepted");
    }
    assert_eq!(path(&net, a, 0).cwnd, 8 * PMDCS);
    net.a.set_trace(TraceKinds::WINDOWS);
    let mut acked = 16;
    sack(&mut net, acked, &[]).expect("accepted");
    let _ = windows(&mut net);
    // Eight packets in flight, acknowledged one by one: after each eight (then nine, ten, ...) acknowledgements cwnd grows by one packet.
    let mut growth = Vec::new();
    let mut last = path(&net, a, 0).cwnd;
    let mut since = 0;
    for _ in 0..60 {
        acked += 1;
        since += 1;
        sack(&mut net, acked, &[]).expect("accepted");
        let cwnd = path(&net, a, 0).cwnd;
        if cwnd != last {
            growth.push((since, cwnd / PMDCS));
            (last, since) = (cwnd, 0);
        }
    }
    // Two more acknowledgements end fast recovery, one belongs to slow start (cwnd equals ssthresh); then one packet per window.
    assert_eq!(growth, [(3, 9), (9, 10), (10, 11), (11, 12), (12, 13), (13, 14)]);
}

// [9260:7.2.1-10, 7.2.1-11, 7.1-1]
#[test]
fn section_7_2_1_an_idle_window_decays_once_per_timeout() {
    for (idle_seconds, expected) in [(0, 32), (1, 16), (2, 8), (3, 4), (100, 4)] {
        let (mut net, a, _) = Net::established(
            1,
            &AssociationConfig {
                initial_cwnd: Some(32 * 1468),
                ..config()
            },
        );
        send_full(&mut net, a, 1);
        net.run_for(Span::from_millis(500));
        net.run_for(Span::from_secs(idle_seconds));
        send_full(&mut net, a, 1);
        let path = path(&net, a, 0);
        assert_eq!(path.cwnd / PMDCS, expected, "{idle_seconds} s");
        let ssthresh = if idle_seconds == 0 { u64::MAX } else { 32 * PMDCS };
        assert_eq!(path.ssthresh, ssthresh, "{idle_seconds} s");
    }
}

#[test]
fn section_7_2_1_idle_time_after_a_timeout_does_not_reset_ssthresh() {
    let (mut net, a) = alone(
        1,
        &AssociationConfig {
            initial_cwnd: Some(32 * 1468),
            ..wide()
        },
    );
    send_full(&mut net, a, 1);
    net.run_for(Span::from_millis(1000));
    assert_eq!((path(&net, a, 0).cwnd, path(&net, a, 0).ssthresh), (PMDCS, 16 * PMDCS));
    sack(&mut net, 1, &[]).expect("accepted");
    net.run_for(Span::from_secs(10));
    send_full(&mut net, a, 1);
    let after = path(&net, a, 0);
    assert_eq!(after.ssthresh, 16 * PMDCS, "a window below the floor is not adjusted");
    assert!(after.cwnd >= PMDCS && after.cwnd <= 2 * PMDCS, "{after:?}");
}

// [9260:7.2.3-2, 7.2.1-2, 6.3.3-2, 6.4-4, 6.10-4]
#[test]
fn section_6_3_3_after_a_timeout_one_packet_is_in_flight_until_something_is_acknowledged() {
    let (mut net, a) = alone(1, &wide());
    for _ in 0..20 {
        net.send(Host::A, a, Message::zeros(0, 700));
    }
    let start = net.now;
    net.run_for(Span::from_millis(1000));
    // Two chunks of 716 bytes fit into the packet (rule E3).
    assert_eq!(data_sent(&net, start)[20..], [(1000, vec![0, 1])]);
    assert_eq!((path(&net, a, 0).cwnd, path(&net, a, 0).ssthresh), (PMDCS, 50 * PMDCS));
    assert_eq!(path(&net, a, 0).rto, Span::from_secs(2));
    net.run_for(Span::from_millis(2000));
    assert_eq!(data_sent(&net, start)[21..], [(3000, vec![0, 1])]);
    sack(&mut net, 2, &[]).expect("accepted");
    // One chunk was acknowledged while cwnd was fully utilized: cwnd grows by the acknowledged bytes, and two packets are sent.
    let sent: Vec<_> = data_sent(&net, start)[22..]
        .iter()
        .flat_map(|(_, tsns)| tsns.clone())
        .collect();
    assert_eq!(sent, [2, 3, 4, 5]);
}

#[test]
fn section_6_2_1_d_reneged_data_gets_one_missing_report_and_is_retransmitted() {
    let (mut net, a) = alone(1, &wide());
    send_full(&mut net, a, 10);
    let start = net.now;
    sack(&mut net, 1, &[(2, 4)]).expect("accepted");
    // 4 was reneged on: one report. Two more make three, also for 1.
    sack(&mut net, 1, &[(2, 3)]).expect("accepted");
    sack(&mut net, 1, &[(2, 3), (5, 5)]).expect("accepted");
    assert_eq!(data_sent(&net, start).len(), 10);
    sack(&mut net, 1, &[(2, 3), (5, 6)]).expect("accepted");
    let again: Vec<_> = data_sent(&net, start)[10..]
        .iter()
        .flat_map(|(_, tsns)| tsns.clone())
        .collect();
    assert_eq!(again, [1, 4]);
    sack(&mut net, 10, &[]).expect("accepted");
    assert_eq!(path(&net, a, 0).flight, 0);
}

/// One missing report for each SACK, also if the SACK that no longer reports the chunk acknowledges a higher one.
// [9260:6.2.1-1]
#[test]
fn section_6_2_1_d_reneging_and_a_higher_tsn_count_once() {
    let (mut net, a) = alone(1, &wide());
    send_full(&mut net, a, 10);
    let start = net.now;
    sack(&mut net, 1, &[(2, 4)]).expect("accepted");
    sack(&mut net, 1, &[(2, 3), (5, 5)]).expect("accepted");
    sack(&mut net, 1, &[(2, 3), (5, 6)]).expect("accepted");
    let again = |net: &Net| -> Vec<u32> {
        let all = data_sent(net, start);
        all[10..].iter().flat_map(|(_, tsns)| tsns.clone()).collect()
    };
    assert_eq!(again(&net), [1]);
    sack(&mut net, 1, &[(2, 3), (5, 7)]).expect("accepted");
    assert_eq!(again(&net), [1, 4]);
}

/// dcSCTP reports at most 20 blocks, however large a packet may be. A block below the last one pushes that one out of the SACK.
#[test]
fn a_peer_that_limits_its_blocks_has_not_reneged_on_those_left_out() {
    let (mut net, a) = alone(1, &wide());
    send_full(&mut net, a, 60);
    let start = net.now;
    let blocks =
        |first: u32, count: u32| -> Vec<(u32, u32)> { (0..count).map(|n| (first + 2 * n, first + 2 * n)).collect() };
    // 1, then 5, 7, 9, ...
    let pushed_out = [vec![(1, 1)], blocks(5, 19)].concat();
    sack(&mut net, 0, &pushed_out).expect("accepted");
    let flight = path(&net, a, 0).flight;
    let lost = data_sent(&net, start).len();
    // 3 arrives: 41 is left out, but has not left the receiver.
    let with_three = [blocks(1, 2), blocks(5, 18)].concat();
    for _ in 0..4 {
        sack(&mut net, 0, &with_three).expect("accepted");
    }
    assert_eq!(path(&net, a, 0).flight, flight - PMDCS, "3 is no longer in flight");
    assert_eq!(data_sent(&net, start).len(), lost);
    // 0 arrives, and there is room for 41 again. It has nothing to add.
    sack(&mut net, 1, &blocks(3, 20)).expect("accepted");
    // With fewer blocks nothing is left out: the receiver has reneged on 41.
    let before = path(&net, a, 0).flight;
    sack(&mut net, 1, &blocks(3, 19)).expect("accepted");
    assert_eq!(path(&net, a, 0).flight, before + PMDCS);
}

#[test]
fn section_6_2_1_d_an_overtaken_sack_is_dropped() {
    let (mut net, a) = alone(1, &wide());
    send_full(&mut net, a, 10);
    sack_with_window(&mut net, 5, &[], 50_000).expect("accepted");
    let window = net.a.association(a).expect("established").peer_rwnd();
    assert_eq!(window, 50_000 - 5 * FULL);
    assert_eq!(sack_with_window(&mut net, 4, &[(6, 9)], 10), Err(Discard::OldSack));
    assert_eq!(net.a.association(a).expect("established").peer_rwnd(), window);
    assert_eq!(path(&net, a, 0).flight, 5 * PMDCS);
}

#[test]
fn section_6_2_1_rwnd_follows_sent_lost_and_retransmitted_data() {
    let (mut net, a) = alone(1, &wide());
    let rwnd = |net: &Net| net.a.association(a).expect("established").peer_rwnd();
    sack_with_window(&mut net, 0, &[], 100_000).expect("accepted");
    send_full(&mut net, a, 10);
    assert_eq!(rwnd(&net), 100_000 - 10 * FULL, "rule B");
    sack_with_window(&mut net, 2, &[(4, 5)], 90_000).expect("accepted");
    assert_eq!(rwnd(&net), 90_000 - 6 * FULL, "rule D ii");
    net.run_for(Span::from_millis(1000));
    // Rule C: six are lost; one packet of them has been retransmitted.
    assert_eq!(rwnd(&net), 90_000 - FULL);
}

#[test]
fn losses_are_traced_with_their_signal() {
    let (mut net, a) = alone(1, &wide());
    net.a.set_trace(TraceKinds::TSNS);
    send_full(&mut net, a, 10);
    for last in 1..=3 {
        sack(&mut net, 0, &[(1, last)]).expect("accepted");
    }
    net.run_for(Span::from_secs(2));
    let mut rules = Vec::new();
    net.a.drain_trace(&mut |record| {
        if let TraceEvent::TsnLost { rule, .. } = record.event {
            rules.push(rule);
        }
    });
    assert_eq!(rules[0], LossRule::MissingReports);
    assert!(rules[1..].iter().all(|rule| *rule == LossRule::Timeout) && rules.len() > 1);
}

#[test]
fn older_presets_do_not_grow_cwnd_without_an_advancing_cumulative_tsn() {
    // RFC 4960 §7.2.2, RFC 2960 §7.2.2
    let grown = |preset| {
        let (mut net, a) = alone(1, &AssociationConfig { preset, ..wide() });
        send_full(&mut net, a, 400);
        // The first loss halves cwnd; half of the next window ends slow start.
        for last in 1..=4 {
            sack(&mut net, 0, &[(1, last)]).expect("accepted");
        }
        let sent = data_sent(&net, Time::ZERO).len() as u32 - 1;
        sack(&mut net, sent, &[]).expect("accepted");
        sack(&mut net, sent + 25, &[]).expect("accepted");
        let before = path(&net, a, 0);
        assert!(before.cwnd > before.ssthresh, "{preset:?}");
        // A gap: two SACKs report a window of data after it, one too few for a fast retransmit.
        sack(&mut net, sent + 25, &[(sent + 26, sent + 49)]).expect("accepted");
        sack(&mut net, sent + 25, &[(sent + 26, sent + 90)]).expect("accepted");
        path(&net, a, 0).cwnd - before.cwnd
    };
    assert_eq!(grown(Preset::Rfc4960), 0);
    assert_eq!(grown(Preset::Rfc2960), 0);
    assert_eq!(grown(Preset::Rfc9260), PMDCS, "RFC 9260 §7.2.2 counts every SACK");
}
