//! Data in flight on several paths at once: redundant distribution, opportunistic retransmission and penalising.

use std::cell::Cell;
use std::rc::Rc;

use crate::support::paths::{confirmed, is_on};
use crate::support::{Fate, Host, Net, addrs, view};
use whimbrel_control::multipath::distribution::DistributionSpec;
use whimbrel_control::multipath::{Accounting, BufferSplit, RetransmitPath};
use whimbrel_control::{Span, Time};
use whimbrel_proto::{AssocId, AssociationConfig, AssociationStats, Message, PathInfo};
use whimbrel_wire::{Chunk, ChunkType};

/// User data of a full packet, without and with a timestamp.
const FULL: u32 = 1452;
const FULL_STAMPED: u32 = 1440;

fn config(distribution: &str) -> AssociationConfig {
    AssociationConfig {
        hb_interval: Span::ZERO,
        accounting: Some(Accounting::Path),
        distribution: DistributionSpec::by_name(distribution),
        ..AssociationConfig::default()
    }
}

fn infos(net: &Net, id: AssocId) -> Vec<PathInfo> {
    net.a.association(id).expect("established").paths().collect()
}

fn stats(net: &Net, id: AssocId) -> AssociationStats {
    net.a.association(id).expect("established").stats()
}

/// Sends `messages` packets of data and waits until all have arrived, for a minute at most. Returns the time that it took.
fn transfer(net: &mut Net, a: AssocId, messages: usize) -> Span {
    let stamped = net.a.association(a).expect("established").uses_timestamps();
    let full = if stamped { FULL_STAMPED } else { FULL };
    let start = net.now;
    let mut sent = 0;
    while net.contents(Host::B).len() < messages && net.now < start + Span::from_secs(60) {
        while sent < messages {
            let message = Message::zeros(0, full);
            if net.a.send(net.now, a, message).is_err() {
                break;
            }
            sent += 1;
        }
        net.run_for(Span::from_millis(10));
    }
    assert_eq!(net.contents(Host::B).len(), messages, "each once");
    net.now.since(start)
}

fn data_packets(net: &Net, path: usize, since: Time) -> usize {
    let sent = net.sent(Host::A, ChunkType::DATA);
    let to = addrs(Host::B, path + 1)[path];
    sent.iter().filter(|sent| sent.at >= since && sent.remote == to).count()
}

#[test]
fn redundant_sends_every_chunk_on_every_path_without_spurious_losses() {
    for paths in [2, 3] {
        for (slower, timestamps) in [(0, true), (5, true), (300, true), (0, false), (5, false), (300, false)] {
            let config = AssociationConfig {
                timestamps: Some(timestamps),
                ..config("redundant")
            };
            let (mut net, a, _) = confirmed(paths, &config);
            net.filter = Box::new(move |packet| {
                if is_on(packet, 0) {
                    Fate::Delay(Span::from_millis(slower))
                } else {
                    Fate::Deliver
                }
            });
            let start = net.now;
            transfer(&mut net, a, 150);
            net.run_for(Span::from_millis(900));
            let stats = stats(&net, a);
            let sent: Vec<_> = (0..paths).map(|path| data_packets(&net, path, start)).collect();
            println!("{paths} paths, {slower} ms: {sent:?}, {} copies", stats.copies);
            // A path carries the data that is not acknowledged when the path has room.
            assert!(sent.contains(&150) && sent.iter().all(|&sent| sent >= 3), "{sent:?}");
            assert_eq!(sent.iter().sum::<usize>() as u64, stats.data_chunks_sent);
            assert_eq!(stats.copies + 150, stats.data_chunks_sent);
            assert_eq!(stats.duplicates_reported, stats.copies);
            assert_eq!((stats.retransmissions, stats.timeouts, stats.penalties), (0, 0, 0));
            // With three paths and without timestamps, a SACK does not always show on which of the others a duplicate arrived, so a
            // received copy may be declared lost. This reduces the window of its path but retransmits nothing.
            let allowed = u64::from(paths > 2 && !timestamps);
            assert!(stats.window_reductions <= allowed, "{stats:?}");
            for path in infos(&net, a) {
                // Each chunk is acknowledged on the path where it was sent: data that another path delivered has opened no window.
                assert_eq!(path.flight, 0, "{path:?}");
                assert!(path.srtt.is_some());
            }
            let slow = infos(&net, a)[0].srtt.expect("measured");
            assert!(
                slow >= Span::from_millis(slower / 4),
                "{slow:?} measured by its own acknowledgements"
            );
        }
    }
}

#[test]
fn redundant_knows_what_has_arrived_although_reports_are_lost() {
    // Every second SACK with duplicates is lost.
    let (mut net, a, _) = confirmed(2, &config("redundant"));
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        let mut chunks = view(packet.bytes).chunks();
        let reports = chunks.any(|chunk| matches!(chunk, Ok(Chunk::Sack(sack)) if !sack.duplicates.is_empty()));
        count += usize::from(reports);
        if reports && count % 2 > 0 {
            Fate::Drop
        } else if is_on(packet, 0) {
            Fate::Delay(Span::from_millis(5))
        } else {
            Fate::Deliver
        }
    });
    transfer(&mut net, a, 300);
    let stats = stats(&net, a);
    assert_eq!((stats.retransmissions, stats.timeouts), (0, 0), "{stats:?}");
    assert!(stats.copies > 50, "{stats:?}");
    assert_eq!(stats.window_reductions, 0, "{stats:?}");
}

#[test]
fn redundant_needs_no_timeout_while_one_path_delivers() {
    let (mut net, a, _) = confirmed(2, &config("redundant"));
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::DATA) && is_on(packet, 0) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let took = transfer(&mut net, a, 1000);
    assert!(took < Span::from_millis(900), "{took:?}, less than RTO.Min");
    // The path that delivers nothing has timeouts nevertheless.
    net.run_for(Span::from_secs(2));
    assert!(stats(&net, a).timeouts > 0 && infos(&net, a)[0].errors > 0);
    assert_eq!(infos(&net, a)[1].errors, 0);
}

#[test]
fn a_lost_copy_reduces_the_window_of_its_path_and_is_not_retransmitted() {
    let (mut net, a, _) = confirmed(2, &config("redundant"));
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        count += usize::from(packet.has(ChunkType::DATA) && is_on(packet, 0));
        let drops = packet.has(ChunkType::DATA) && is_on(packet, 0) && count == 20;
        if drops {
            Fate::Drop
        } else if is_on(packet, 0) {
            Fate::Delay(Span::from_millis(5))
        } else {
            Fate::Deliver
        }
    });
    transfer(&mut net, a, 150);
    let stats = stats(&net, a);
    assert_eq!(
        (stats.retransmissions, stats.fast_retransmits, stats.timeouts),
        (0, 0, 0)
    );
    let paths = infos(&net, a);
    assert!(
        paths[0].ssthresh < u64::MAX && paths[1].ssthresh == u64::MAX,
        "{paths:?}"
    );
}

#[test]
fn redundant_retransmits_on_the_path_of_the_loss() {
    // The other path carries the chunk too; here it takes 400 ms longer, and its window is full.
    for retransmit_path in [
        RetransmitPath::Same,
        RetransmitPath::Alternate,
        RetransmitPath::LargestCwnd,
    ] {
        let config = AssociationConfig {
            retransmit_path: Some(retransmit_path),
            ..config("redundant")
        };
        let (mut net, a, _) = confirmed(2, &config);
        let lost = Rc::new(Cell::new(None));
        let (noted, mut count) = (Rc::clone(&lost), 0);
        net.filter = Box::new(move |packet| {
            let is_data = packet.has(ChunkType::DATA);
            if is_on(packet, 1) {
                return Fate::Delay(Span::from_millis(400));
            }
            count += usize::from(is_data);
            if is_data && count == 60 {
                noted.set(packet.tsns().first().copied());
                return Fate::Drop;
            }
            Fate::Deliver
        });
        let start = net.now;
        transfer(&mut net, a, 300);
        let lost = lost.get().expect("the first path carries a packet with that number");
        let fast = addrs(Host::B, 1)[0];
        let sent = net.sent(Host::A, ChunkType::DATA);
        let times: Vec<u64> = sent
            .iter()
            .filter(|sent| sent.remote == fast && sent.tsns().contains(&lost.0))
            .map(|sent| sent.at.since(start).as_millis())
            .collect();
        let again = times[1] - times[0];
        assert!(again < 60, "{retransmit_path:?}: {again} ms, two round trips are 40");
    }
}

#[test]
fn rtt_measurement_continues_after_the_loss_of_the_timed_chunk() {
    // For 30 ms, all data on the path is lost, including the timed chunk; the other path delivers it.
    let config = AssociationConfig {
        recv_buffer: 1 << 16,
        timestamps: Some(false),
        ..config("redundant")
    };
    let (mut net, a, _) = confirmed(2, &config);
    let millis = Span::from_millis;
    let lossy = net.now + millis(200)..net.now + millis(230);
    net.filter = Box::new(move |packet| {
        let slower = if packet.now < lossy.end { 5 } else { 20 };
        if !is_on(packet, 0) {
            Fate::Deliver
        } else if packet.has(ChunkType::DATA) && lossy.contains(&packet.now) {
            Fate::Drop
        } else {
            Fate::Delay(millis(slower))
        }
    });
    transfer(&mut net, a, 3000);
    let stats = stats(&net, a);
    assert_eq!(stats.timeouts, 0, "a timeout would end the measurement");
    let paths = infos(&net, a);
    assert!(paths[0].ssthresh < u64::MAX, "losses were detected: {paths:?}");
    assert!(paths[0].srtt > Some(millis(45)), "{paths:?}");
}

/// Sends over two paths with a small receive buffer; the first path takes 300 ms longer.
fn through_a_small_buffer(opportunistic: bool, penalise: bool) -> (Span, AssociationStats) {
    let config = AssociationConfig {
        recv_buffer: 40_000,
        opportunistic_retransmission: Some(opportunistic),
        penalise: Some(penalise),
        ..config("fill-in-order")
    };
    let (mut net, a, _) = confirmed(2, &config);
    net.filter = Box::new(move |packet| {
        if is_on(packet, 0) {
            Fate::Delay(Span::from_millis(300))
        } else {
            Fate::Deliver
        }
    });
    let took = transfer(&mut net, a, 1000);
    let stats = stats(&net, a);
    println!(
        "{opportunistic} {penalise}: {took:?}, {} copies, {} penalties",
        stats.copies, stats.penalties
    );
    assert_eq!((stats.fast_retransmits, stats.timeouts), (0, 0));
    (took, stats)
}

#[test]
fn data_that_the_receive_buffer_waits_for_is_copied_to_the_path_with_room() {
    // Raiciu et al. 2012, 4.2
    let (without, stats) = through_a_small_buffer(false, true);
    assert_eq!(
        (stats.copies, stats.penalties),
        (0, 0),
        "only copies show which path causes the delay"
    );
    let (with, stats) = through_a_small_buffer(true, false);
    assert!(stats.copies > 0 && stats.penalties == 0);
    assert!(with < without / 2, "{with:?} {without:?}");
    let (both, penalised) = through_a_small_buffer(true, true);
    assert!(penalised.penalties > 0 && penalised.copies < stats.copies);
    assert!(both <= with, "{both:?} {with:?}");
}

/// Sends over two paths: the first loses every hundredth packet of data, and the other stops responding.
fn beside_a_silent_path(retransmit_path: RetransmitPath) -> Span {
    let config = AssociationConfig {
        retransmit_path: Some(retransmit_path),
        recv_buffer: 40_000,
        ..config("fill-in-order")
    };
    let (mut net, a, _) = confirmed(2, &config);
    let mut sent = [0, 0];
    net.filter = Box::new(move |packet| {
        let path = usize::from(is_on(packet, 1));
        sent[path] += usize::from(packet.has(ChunkType::DATA));
        if path == 1 && sent[1] > 30 || path == 0 && packet.has(ChunkType::DATA) && sent[0] % 100 == 0 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    transfer(&mut net, a, 1000)
}

#[test]
fn lost_data_does_not_wait_for_a_silent_path() {
    for rule in [
        RetransmitPath::Alternate,
        RetransmitPath::Same,
        RetransmitPath::LargestSsthresh,
    ] {
        let took = beside_a_silent_path(rule);
        println!("{rule:?}: {took:?}");
        assert!(took < Span::from_millis(2050), "{rule:?}: {took:?}");
    }
}

#[test]
fn copies_require_accounting_per_path() {
    let refused = |config: &AssociationConfig| config.validate().expect_err("must be refused").field;
    let other = AssociationConfig {
        accounting: Some(Accounting::Cmt),
        ..config("redundant")
    };
    assert_eq!(refused(&other), "distribution");
    let other = AssociationConfig {
        opportunistic_retransmission: Some(true),
        ..AssociationConfig::default()
    };
    assert_eq!(refused(&other), "opportunistic_retransmission");
    let parts = AssociationConfig::default().parts();
    assert!(
        !parts.opportunistic_retransmission && !parts.penalise,
        "standard SCTP is unchanged"
    );
}

/// Returns the most bytes in flight on the first of two paths; the other path takes 30 ms longer.
fn most_in_flight(split: BufferSplit, send_buffer: u32, recv_buffer: u32) -> u64 {
    let config = AssociationConfig {
        buffer_split: Some(split),
        send_buffer,
        recv_buffer,
        opportunistic_retransmission: Some(false),
        ..config("fill-in-order")
    };
    let (mut net, a, _) = confirmed(2, &config);
    net.filter = Box::new(move |packet| {
        if is_on(packet, 1) {
            Fate::Delay(Span::from_millis(30))
        } else {
            Fate::Deliver
        }
    });
    let mut most = 0;
    let mut sent = 0;
    for _ in 0..500 {
        while sent < 1000 && net.a.send(net.now, a, Message::zeros(0, 1452)).is_ok() {
            sent += 1;
        }
        net.run_for(Span::from_millis(10));
        most = most.max(infos(&net, a)[0].flight);
    }
    assert!(net.contents(Host::B).len() > 200);
    most
}

#[test]
fn a_split_buffer_limits_each_path_to_its_half() {
    // Dreibholz, Becke, Rathgeb and Tuexen 2010: at most half of the buffer for each of two paths, in whole packets.
    let (small, large) = (60_000, 1 << 20);
    let half = u64::from(small) / 2;
    for (split, send_buffer, recv_buffer, holds) in [
        (BufferSplit::None, small, large, false),
        (BufferSplit::None, large, small, false),
        (BufferSplit::Sender, small, large, true),
        (BufferSplit::Sender, large, small, false),
        (BufferSplit::Receiver, large, small, true),
        (BufferSplit::Receiver, small, large, false),
        (BufferSplit::Both, small, large, true),
        (BufferSplit::Both, large, small, true),
    ] {
        let most = most_in_flight(split, send_buffer, recv_buffer);
        println!("{split:?}, {send_buffer} and {recv_buffer}: {most}");
        assert_eq!(
            most <= half,
            holds,
            "{split:?}, {send_buffer} and {recv_buffer}: {most}"
        );
        // Data that waits in the send buffer behind a gap counts towards the half (see `a_split_send_buffer_counts_gap_acked_data`).
        let waits = if holds && send_buffer == small { half / 5 } else { 0 };
        assert!(most > half - 3 * 1468 - waits, "it may use its own half");
    }
}
