//! Concurrent use of several paths: new data on all of them, accounting per path (Ye 2004, 6.3 to 6.5), and the path of retransmissions
//! (RFC 9260 §6.4; Iyengar, Amer and Stewart 2006).

use crate::support::paths::{confirmed, data_sent, drop_next_data, is_on, path, quiet};
use crate::support::{Fate, Host, InFlight, Net, addrs};
use whimbrel_control::Span;
use whimbrel_control::multipath::distribution::DistributionSpec;
use whimbrel_control::multipath::{Accounting, BufferSplit, RetransmitPath};
use whimbrel_proto::{AssociationConfig, Message, PathId};
use whimbrel_wire::{Chunk, ChunkType, DuplicateTsns, GapBlock, GapBlocks, Sack, Tsn};

/// Loses the 12th DATA packet, with enough packets after it for a fast retransmit. Returns the paths on which its TSN was sent.
fn paths_of_a_fast_retransmit(rule: RetransmitPath) -> Vec<usize> {
    let (mut net, a, _) = confirmed(
        2,
        &AssociationConfig {
            retransmit_path: Some(rule),
            ..quiet()
        },
    );
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        count += usize::from(packet.has(ChunkType::DATA));
        if packet.has(ChunkType::DATA) && count == 12 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let start = net.now;
    for _ in 0..60 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    net.run_for(Span::from_secs(10));
    let lost = net.sent(Host::A, ChunkType::DATA)[11].tsns()[0];
    assert_eq!(net.a.association(a).expect("established").stats().timeouts, 0);
    assert_eq!(net.contents(Host::B).len(), 60);
    net.sent(Host::A, ChunkType::DATA)
        .iter()
        .filter(|sent| sent.at >= start && sent.tsns().contains(&lost))
        .map(|sent| {
            addrs(Host::B, 2)
                .iter()
                .position(|remote| *remote == sent.remote)
                .expect("an address of B")
        })
        .collect()
}

/// Returns the paths on which the TSN of a chunk that times out was sent.
fn paths_of_a_timeout(rule: RetransmitPath) -> Vec<usize> {
    let (mut net, a, _) = confirmed(
        2,
        &AssociationConfig {
            retransmit_path: Some(rule),
            ..quiet()
        },
    );
    drop_next_data(&mut net);
    let start = net.now;
    net.send(Host::A, a, Message::zeros(0, 100));
    net.run_for(Span::from_secs(10));
    assert_eq!(net.contents(Host::B).len(), 1);
    data_sent(&net, start).into_iter().map(|(_, path)| path).collect()
}

// [9260:6.4-4, 6.4-5]
#[test]
fn section_6_4_lost_data_is_retransmitted_on_another_path_after_a_timeout() {
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::Standard), [0, 0]);
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::Same), [0, 0]);
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::Alternate), [0, 1]);
    assert_eq!(paths_of_a_timeout(RetransmitPath::Standard), [0, 1]);
    assert_eq!(paths_of_a_timeout(RetransmitPath::Same), [0, 0]);
    assert_eq!(paths_of_a_timeout(RetransmitPath::Alternate), [0, 1]);
}

// [9260:6.4.1-2]
#[test]
fn section_6_4_1_a_retransmission_after_a_timeout_changes_both_addresses() {
    // The user specifies both addresses of the peer, or one; INIT ACK lists the other one.
    for known in [2, 1] {
        let mut net = Net::with_config(2, &quiet(), 1);
        let a = net.connect(&quiet(), known);
        net.run_for(Span::from_secs(5));
        drop_next_data(&mut net);
        let start = net.now;
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_secs(10));
        let pairs: Vec<_> = net
            .sent(Host::A, ChunkType::DATA)
            .iter()
            .filter(|sent| sent.at >= start)
            .map(|sent| (sent.local, sent.remote))
            .collect();
        let (locals, remotes) = (addrs(Host::A, 2), addrs(Host::B, 2));
        assert_eq!(
            pairs,
            [(locals[0], remotes[0]), (locals[1], remotes[1])],
            "{known} known"
        );
    }
}

#[test]
fn lost_data_is_retransmitted_on_the_path_of_the_policy() {
    // Iyengar, Amer and Stewart 2006, the policies for retransmission. After the loss, cwnd of path 0 is still larger than the initial cwnd
    // of path 1, its ssthresh is finite, it has lost a packet, and its cwnd is fully utilized.
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::LargestCwnd), [0, 0]);
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::LargestSsthresh), [0, 1]);
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::LowestLoss), [0, 1]);
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::Soonest), [0, 1]);
    // After the timeout path 0 may send one packet at once.
    assert_eq!(paths_of_a_timeout(RetransmitPath::LargestCwnd), [0, 1]);
    assert_eq!(paths_of_a_timeout(RetransmitPath::LowestLoss), [0, 1]);
}

#[test]
fn lost_data_is_retransmitted_on_the_path_with_the_lowest_rtt() {
    for slow in [0, 1] {
        let (mut net, a, _) = confirmed(
            2,
            &AssociationConfig {
                retransmit_path: Some(RetransmitPath::LowestRtt),
                hb_interval: Span::from_secs(1),
                ..AssociationConfig::default()
            },
        );
        let late = move |packet: &InFlight<'_>| {
            if is_on(packet, slow) {
                Fate::Delay(Span::from_millis(100))
            } else {
                Fate::Deliver
            }
        };
        net.filter = Box::new(late);
        net.run_for(Span::from_secs(60));
        assert!(path(&net, a, slow).srtt > path(&net, a, 1 - slow).srtt);
        let mut first = true;
        net.filter = Box::new(move |packet| {
            if packet.has(ChunkType::DATA) && core::mem::take(&mut first) {
                Fate::Drop
            } else {
                late(packet)
            }
        });
        let start = net.now;
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_secs(10));
        let paths: Vec<_> = data_sent(&net, start).into_iter().map(|(_, path)| path).collect();
        assert_eq!(paths, [0, 1 - slow]);
    }
}

/// Sends over two paths, of which the first has a much longer delay. Returns the fast retransmits and cwnd of the first path.
fn over_unequal_paths(accounting: Accounting) -> (u64, u64) {
    let config = AssociationConfig {
        accounting: Some(accounting),
        distribution: DistributionSpec::by_name("fill-in-order"),
        recv_buffer: 1 << 20,
        send_buffer: 1 << 20,
        ..quiet()
    };
    let (mut net, a, _) = confirmed(2, &config);
    net.filter = Box::new(move |packet| {
        if is_on(packet, 0) {
            Fate::Delay(Span::from_millis(80))
        } else {
            Fate::Deliver
        }
    });
    for _ in 0..400 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    net.run_for(Span::from_secs(30));
    assert_eq!(net.contents(Host::B).len(), 400);
    let stats = net.a.association(a).expect("established").stats();
    assert_eq!(stats.timeouts, 0, "{accounting:?}");
    (stats.fast_retransmits, path(&net, a, 0).ssthresh)
}

#[test]
fn reordering_between_paths_is_no_loss_with_accounting_per_path() {
    // Ye 2004, 6.3: TSNs that overtake others on a faster path report them missing; nothing is lost here.
    let (spurious, ssthresh) = over_unequal_paths(Accounting::Association);
    assert!(spurious > 0 && ssthresh < u64::MAX, "{spurious} {ssthresh}");
    assert_eq!(over_unequal_paths(Accounting::Path), (0, u64::MAX));
    assert_eq!(over_unequal_paths(Accounting::Cmt), (0, u64::MAX));
}

#[test]
fn a_retransmission_lost_on_another_path_does_not_extend_recovery() {
    // Ye 2004, 6.5.1: with PSNs, the recovery of path 0 ends although its retransmission is lost on path 1. With TSNs, whose accounting is
    // that of the association, it cannot end, and cwnd does not grow.
    let window = |accounting| {
        let config = AssociationConfig {
            accounting: Some(accounting),
            retransmit_path: Some(RetransmitPath::Alternate),
            recv_buffer: 1 << 20,
            send_buffer: 1 << 20,
            ..quiet()
        };
        let (mut net, a, _) = confirmed(2, &config);
        let mut count = 0;
        net.filter = Box::new(move |packet| {
            let is_data = packet.has(ChunkType::DATA);
            count += usize::from(is_data && is_on(packet, 0));
            // The 30th packet of path 0, and all data on path 1.
            let drops = is_data && (is_on(packet, 1) || count == 30 && is_on(packet, 0));
            if drops { Fate::Drop } else { Fate::Deliver }
        });
        for _ in 0..300 {
            net.send(Host::A, a, Message::zeros(0, 1452));
        }
        // Shorter than RTO.Min: the retransmission has not timed out.
        net.run_for(Span::from_millis(900));
        let stats = net.a.association(a).expect("established").stats();
        assert_eq!((stats.fast_retransmits, stats.timeouts), (1, 0));
        let path = path(&net, a, 0);
        (path.cwnd, path.ssthresh)
    };
    let (cwnd, ssthresh) = window(Accounting::Association);
    assert_eq!(cwnd, ssthresh, "no growth in fast recovery");
    let (cwnd, ssthresh) = window(Accounting::Path);
    assert!(cwnd > ssthresh + 3 * 1468, "{cwnd} {ssthresh}");
}

/// Two paths with windows of 20 packets; the first one is filled first.
fn two_windows() -> AssociationConfig {
    AssociationConfig {
        accounting: Some(Accounting::Path),
        distribution: DistributionSpec::by_name("fill-in-order"),
        initial_cwnd: Some(20 * 1468),
        max_burst: 0,
        ..quiet()
    }
}

/// Delivers a SACK to A, which has sent its first data: these blocks have arrived; the first TSN is 1.
fn report(net: &mut Net, blocks: &[(u16, u16)]) {
    let first = net.sent(Host::A, ChunkType::DATA)[0].tsns()[0];
    let mut gaps = Vec::new();
    for &(start, end) in blocks {
        GapBlock { start, end }.emit(&mut gaps);
    }
    let sack = Sack {
        cumulative_tsn_ack: Tsn(first.wrapping_sub(1)),
        a_rwnd: 1 << 20,
        gaps: GapBlocks::from_wire_bytes(&gaps),
        duplicates: DuplicateTsns::from_wire_bytes(&[]),
        congestion_indicated: false,
        packets: 0,
    };
    net.as_peer(Host::A, &[Chunk::Sack(sack)]).expect("accepted");
    net.drain(Host::A);
}

#[test]
fn fast_retransmits_of_each_path_are_sent_at_once_on_any_path() {
    // RFC 9260 §7.2.4 item 3: on each path, the packet of a fast retransmit does not wait for cwnd. In the first case one SACK reports
    // losses on both paths, and while it is processed, the path with the largest window changes.
    for (rule, lost, expected) in [
        (RetransmitPath::LargestCwnd, &[0, 20][..], &[(0, 0), (20, 0)][..]),
        (RetransmitPath::Alternate, &[0], &[(0, 1)]),
        (RetransmitPath::Alternate, &[0, 20], &[(0, 1), (20, 0)]),
    ] {
        let config = AssociationConfig {
            retransmit_path: Some(rule),
            ..two_windows()
        };
        let (mut net, a, _) = confirmed(2, &config);
        net.filter = Box::new(|_| Fate::Drop);
        let start = net.now;
        for _ in 0..40 {
            net.a.send(start, a, Message::zeros(0, 1452)).expect("room");
        }
        net.drain(Host::A);
        let on: Vec<_> = data_sent(&net, start).into_iter().map(|(_, path)| path).collect();
        assert_eq!(on, [[0; 20], [1; 20]].concat());
        for last in 2..=4 {
            // All packets except the first one of the path have arrived.
            let blocks: Vec<_> = lost.iter().map(|before| (before + 2, before + last)).collect();
            report(&mut net, &blocks);
        }
        let sent = net.sent(Host::A, ChunkType::DATA);
        let first = sent[0].tsns()[0];
        let tsns = sent[40..].iter().map(|sent| sent.tsns()[0].wrapping_sub(first));
        let paths = data_sent(&net, start).into_iter().map(|(_, path)| path);
        let again: Vec<_> = tsns.zip(paths.skip(40)).collect();
        assert_eq!(again, expected, "{rule:?}");
        for &(_, to) in expected {
            assert!(path(&net, a, to).flight > path(&net, a, to).cwnd, "{rule:?}");
        }
    }
}

#[test]
fn a_fast_retransmit_of_one_path_does_not_replace_that_of_the_other() {
    // Two chunks fit into a packet, and 42 into cwnd. Each path lost four chunks: the packet of its fast retransmit has two of them.
    let config = AssociationConfig {
        retransmit_path: Some(RetransmitPath::LargestCwnd),
        ..two_windows()
    };
    let (mut net, a, _) = confirmed(2, &config);
    net.filter = Box::new(|_| Fate::Drop);
    for _ in 0..84 {
        net.a.send(net.now, a, Message::zeros(0, 700)).expect("room");
    }
    net.drain(Host::A);
    let count = net.sent(Host::A, ChunkType::DATA).len();
    assert_eq!(count, 42);
    let first = net.sent(Host::A, ChunkType::DATA)[0].tsns()[0];
    for last in 5..=7 {
        report(&mut net, &[(5, last), (47, 42 + last)]);
    }
    let again: Vec<Vec<u32>> = net.sent(Host::A, ChunkType::DATA)[count..]
        .iter()
        .map(|sent| sent.tsns().iter().map(|tsn| tsn.wrapping_sub(first)).collect())
        .collect();
    assert_eq!(again, [[0, 1], [42, 43]]);
}

#[test]
fn a_distribution_is_called_once_per_packet() {
    // A distribution counts its calls. A packet that a control chunk uses first is not one of them.
    let config = AssociationConfig {
        accounting: Some(Accounting::Path),
        distribution: DistributionSpec::by_name("round-robin"),
        ..quiet()
    };
    let (mut net, a, _) = confirmed(2, &config);
    let start = net.now;
    for _ in 0..8 {
        let now = net.now;
        assert!(net.a.request_heartbeat(now, a, PathId(1)));
        net.drain(Host::A);
        net.a.send(now, a, Message::zeros(0, 1452)).expect("room");
        net.a.handle_timeout(now);
        net.drain(Host::A);
        net.run_for(Span::from_millis(300));
    }
    let on: Vec<_> = data_sent(&net, start).into_iter().map(|(_, path)| path).collect();
    assert_eq!(on, [0, 1, 0, 1, 0, 1, 0, 1]);
}

#[test]
fn a_split_send_buffer_counts_gap_acked_data() {
    // Dreibholz, Becke, Rathgeb and Tuexen 2010: data acknowledged by gap ack blocks is not in flight, but still occupies the buffer.
    for (split, expected) in [(BufferSplit::None, 19), (BufferSplit::Sender, 10)] {
        let config = AssociationConfig {
            buffer_split: Some(split),
            send_buffer: 60 * 1452,
            ..two_windows()
        };
        let (mut net, a, _) = confirmed(2, &config);
        net.filter = Box::new(|_| Fate::Drop);
        let start = net.now;
        for _ in 0..60 {
            net.a.send(start, a, Message::zeros(0, 1452)).expect("room");
        }
        net.drain(Host::A);
        // Of the first window, all packets except the first have arrived.
        report(&mut net, &[(2, 20)]);
        let on: Vec<_> = data_sent(&net, start).into_iter().map(|(_, path)| path).collect();
        let expected = [vec![0; 20], vec![1; 20], vec![0; expected]].concat();
        assert_eq!(on, expected, "{split:?}");
    }
}
