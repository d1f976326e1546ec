//! Explicit congestion notification: Ye 2004, section 4.4 (without CWR), and RFC 4960 appendix A (with CWR).

use crate::support::{Fate, Host, Net, Sent};
use whimbrel_control::Span;
use whimbrel_proto::{AssocId, AssociationConfig, AssociationStats, Ecn, Message, PathInfo};
use whimbrel_wire::{Chunk, ChunkType, Parameter};

const UNIT: u64 = 1468;

fn config() -> AssociationConfig {
    AssociationConfig {
        ecn: Some(true),
        initial_cwnd: Some(32 * UNIT as u32),
        max_burst: 0,
        ..AssociationConfig::default()
    }
}

fn with_cwr() -> AssociationConfig {
    AssociationConfig {
        ecn_cwr: Some(true),
        ..config()
    }
}

/// Starts to send `packets` full packets.
fn send(net: &mut Net, a: AssocId, packets: usize) {
    for _ in 0..packets {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
}

fn stats(net: &mut Net, host: Host, id: AssocId) -> AssociationStats {
    net.host(host).association(id).expect("established").stats()
}

fn path(net: &mut Net, a: AssocId) -> PathInfo {
    let association = net.a.association(a).expect("established");
    association.paths().next().expect("it has a path")
}

/// Applies the given fate to the n-th data packets of A, counted from 1.
fn treat(net: &mut Net, fates: &'static [(usize, Fate)]) {
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        if packet.from == Host::A && packet.has(ChunkType::DATA) {
            count += 1;
        }
        let is_data = packet.from == Host::A && packet.has(ChunkType::DATA);
        let found = fates.iter().find(|(n, _)| is_data && *n == count);
        found.map_or(Fate::Deliver, |(_, fate)| *fate)
    });
}

/// Returns the TSNs of the ECNE chunks in a packet.
fn echoed(sent: &Sent) -> Vec<u32> {
    let tsn = |chunk: Chunk<'_>| match chunk {
        Chunk::Ecne { lowest_tsn, .. } => Some(lowest_tsn.0),
        _ => None,
    };
    sent.chunks().into_iter().filter_map(tsn).collect()
}

fn offers_ecn(sent: &Sent) -> bool {
    sent.init()
        .parameters
        .iter()
        .any(|parameter| parameter == Ok(Parameter::EcnCapable))
}

#[test]
fn ecn_requires_both_ends() {
    // RFC 4960 appendix A: the parameter in INIT and INIT ACK
    let capable = AssociationConfig {
        ecn: Some(true),
        ..AssociationConfig::default()
    };
    for (ours, theirs) in [(false, false), (false, true), (true, false), (true, true)] {
        let config = |ecn| AssociationConfig {
            ecn: Some(ecn),
            ..capable.clone()
        };
        let mut net = Net::with_config(1, &config(theirs), 1);
        let a = net.connect(&config(ours), 1);
        net.run_for(Span::from_millis(100));
        let b = net.only(Host::B);
        let first = |chunk_type| net.wire.iter().find(|sent| sent.has(chunk_type)).unwrap();
        assert_eq!(offers_ecn(first(ChunkType::INIT)), ours);
        assert_eq!(offers_ecn(first(ChunkType::INIT_ACK)), ours && theirs);
        assert_eq!(net.a.association(a).unwrap().uses_ecn(), ours && theirs);
        assert_eq!(net.b.association(b).unwrap().uses_ecn(), ours && theirs);
    }
}

#[test]
fn only_packets_of_new_data_can_be_marked() {
    // RFC 3168 §6.1.4 and §6.1.5: neither control chunks alone nor retransmissions
    let (mut net, a, _) = Net::established(1, &config());
    treat(&mut net, &[(5, Fate::Drop)]);
    send(&mut net, a, 100);
    net.run_for(Span::from_secs(5));
    let mut seen = std::collections::BTreeSet::new();
    let mut repeated = 0;
    for sent in &net.wire {
        let is_new = sent.tsns().iter().all(|tsn| seen.insert(*tsn)) && !sent.tsns().is_empty();
        repeated += usize::from(!is_new && sent.has(ChunkType::DATA));
        assert_eq!(
            sent.ecn,
            if is_new { Ecn::Ect0 } else { Ecn::NotEct },
            "{:?}",
            sent.types()
        );
    }
    assert_eq!((seen.len(), repeated), (100, 1));

    let (mut net, a, _) = Net::established(1, &AssociationConfig::default());
    send(&mut net, a, 10);
    net.run_for(Span::from_secs(5));
    assert!(net.wire.iter().all(|sent| sent.ecn == Ecn::NotEct));
}

// [6951:5.8-1]
#[test]
fn each_marked_packet_is_echoed_at_once_and_no_other() {
    // Ye 2004, Figure 17
    let (mut net, a, b) = Net::established(1, &config());
    treat(&mut net, &[(3, Fate::Mark), (4, Fate::Mark), (9, Fate::Mark)]);
    let begin = net.wire.len();
    send(&mut net, a, 20);
    net.run_for(Span::from_secs(2));
    let data: Vec<_> = net.wire[begin..]
        .iter()
        .filter(|sent| sent.has(ChunkType::DATA))
        .collect();
    let echoes: Vec<_> = net.wire[begin..]
        .iter()
        .flat_map(|sent| echoed(sent).into_iter().map(|tsn| (sent.at, tsn)))
        .collect();
    let expected: Vec<_> = [2, 3, 8]
        .map(|n: usize| (data[n].at + Span::from_millis(10), data[n].tsns()[0]))
        .to_vec();
    assert_eq!(echoes, expected);
    let (sender, receiver) = (stats(&mut net, Host::A, a), stats(&mut net, Host::B, b));
    assert_eq!(
        (receiver.ce_received, receiver.ecne_sent, sender.ecne_received),
        (3, 3, 3)
    );
    assert_eq!((sender.cwr_sent, receiver.cwr_received), (0, 0), "CWR is not in use");
}

#[test]
fn ecne_carries_the_lowest_tsn_of_a_packet() {
    let (mut net, a, _) = Net::established(1, &config());
    treat(&mut net, &[(1, Fate::Mark)]);
    let begin = net.wire.len();
    let now = net.now;
    for _ in 0..5 {
        net.a.send(now, a, Message::zeros(0, 100)).unwrap();
    }
    net.run_for(Span::from_secs(2));
    let first = net.wire[begin..].iter().find(|sent| sent.has(ChunkType::DATA)).unwrap();
    assert_eq!(first.tsns().len(), 5);
    let echoes: Vec<_> = net.wire[begin..].iter().flat_map(echoed).collect();
    assert_eq!(echoes, [first.tsns()[0]]);
}

#[test]
fn marks_reduce_cwnd_once_per_window_of_data() {
    // Ye 2004, Figure 16. The window of 32 packets is sent at once: its marks are one indication.
    let (mut net, a, _) = Net::established(1, &config());
    treat(&mut net, &[(1, Fate::Mark), (3, Fate::Mark), (31, Fate::Mark)]);
    send(&mut net, a, 32);
    net.run_for(Span::from_millis(25));
    assert_eq!(path(&mut net, a).ssthresh, 16 * UNIT);
    net.run_for(Span::from_millis(300));
    let after = stats(&mut net, Host::A, a);
    assert_eq!((after.ecne_received, after.ecn_reductions), (3, 1));
    assert_eq!((after.recoveries, after.timeouts, after.retransmissions), (0, 0, 0));

    let before = path(&mut net, a).cwnd;
    treat(&mut net, &[(1, Fate::Mark)]);
    send(&mut net, a, 16);
    net.run_for(Span::from_millis(25));
    assert_eq!(path(&mut net, a).ssthresh, before / 2);
    assert_eq!(stats(&mut net, Host::A, a).ecn_reductions, 2);
}

#[test]
fn the_floor_of_the_window_holds() {
    // Ye 2004: max(x, 2 MTU), with the constants of RFC 2960
    let config = AssociationConfig {
        initial_cwnd: Some(3000),
        preset: whimbrel_proto::Preset::Rfc2960,
        ..config()
    };
    let (mut net, a, _) = Net::established(1, &config);
    treat(&mut net, &[(1, Fate::Mark)]);
    send(&mut net, a, 2);
    net.run_for(Span::from_millis(25));
    assert_eq!(
        (path(&mut net, a).ssthresh, stats(&mut net, Host::A, a).ecn_reductions),
        (3000, 1)
    );
}

#[test]
fn loss_in_a_marked_window_does_not_reduce_cwnd_again() {
    // Ye 2004, 4.3: fast retransmit in a window of data that an ECNE has already reduced.
    let (mut net, a, _) = Net::established(1, &config());
    treat(&mut net, &[(1, Fate::Mark), (10, Fate::Drop)]);
    send(&mut net, a, 32);
    net.run_for(Span::from_secs(2));
    let after = stats(&mut net, Host::A, a);
    assert_eq!(
        (after.ecn_reductions, after.fast_retransmits, after.timeouts),
        (1, 1, 0)
    );
    assert_eq!(path(&mut net, a).ssthresh, 16 * UNIT);
}

#[test]
fn marks_in_a_window_reduced_by_loss_do_not_reduce_cwnd_again() {
    let (mut net, a, _) = Net::established(1, &config());
    treat(&mut net, &[(2, Fate::Drop), (30, Fate::Mark)]);
    send(&mut net, a, 32);
    net.run_for(Span::from_secs(2));
    let after = stats(&mut net, Host::A, a);
    assert_eq!((after.recoveries, after.ecne_received, after.ecn_reductions), (1, 1, 0));
    // The first packet was acknowledged before: slow start had added one packet.
    assert_eq!(path(&mut net, a).ssthresh, 33 * UNIT / 2);
}

#[test]
fn a_timeout_in_a_marked_window_keeps_ssthresh() {
    // Ye 2004, Figure 16, last rule: the mark arrives; the end of the window, and all packets that would reveal its loss, do not.
    let (mut net, a, _) = Net::established(1, &config());
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        count += usize::from(packet.from == Host::A && packet.has(ChunkType::DATA));
        match (packet.from, count) {
            (Host::A, 1) => Fate::Mark,
            (Host::A, _) => Fate::Drop,
            (Host::B, _) => Fate::Deliver,
        }
    });
    send(&mut net, a, 32);
    net.run_until(Span::from_secs(5), "a timeout", |net| {
        stats(net, Host::A, a).timeouts == 1
    });
    let after = path(&mut net, a);
    assert_eq!((after.cwnd, after.ssthresh), (UNIT, 16 * UNIT));

    // Without the mark, the timeout halves ssthresh from the full window.
    let (mut net, a, _) = Net::established(1, &config());
    net.filter = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    send(&mut net, a, 32);
    net.run_until(Span::from_secs(5), "a timeout", |net| {
        stats(net, Host::A, a).timeouts == 1
    });
    assert_eq!(path(&mut net, a).ssthresh, 16 * UNIT);
}

#[test]
fn late_and_invalid_echoes_are_ignored() {
    let (mut net, a, _) = Net::established(1, &config());
    treat(&mut net, &[(2, Fate::Mark)]);
    let begin = net.wire.len();
    send(&mut net, a, 32);
    net.run_for(Span::from_secs(2));
    assert_eq!(stats(&mut net, Host::A, a).ecn_reductions, 1);
    let echo = net.wire[begin..]
        .iter()
        .find(|sent| sent.has(ChunkType::ECNE))
        .unwrap()
        .clone();
    let window = path(&mut net, a).cwnd;
    // The ECNE arrives again, long after its window of data.
    net.inject(Host::A, echo.remote, echo.local, echo.bytes.clone());
    // An ECNE for a packet that was never sent.
    let forged = Chunk::Ecne {
        lowest_tsn: whimbrel_wire::Tsn(echoed(&echo)[0].wrapping_add(1000)),
        marked: None,
    };
    let forged = crate::support::packet(4002, 4001, echo.tag(), &[forged]);
    net.inject(Host::A, echo.remote, echo.local, forged);
    net.run_for(Span::from_millis(1));
    let after = stats(&mut net, Host::A, a);
    assert_eq!((after.ecne_received, after.ecn_reductions), (2, 1));
    assert_eq!(path(&mut net, a).cwnd, window);
}

#[test]
fn marks_are_ignored_without_negotiation() {
    let (mut net, a, b) = Net::established(
        1,
        &AssociationConfig {
            ecn: Some(false),
            ..config()
        },
    );
    treat(&mut net, &[(2, Fate::Mark)]);
    send(&mut net, a, 20);
    net.run_for(Span::from_secs(2));
    assert_eq!(net.count(Host::B, ChunkType::ECNE), 0);
    assert_eq!(stats(&mut net, Host::B, b).ce_received, 1);
    let echo = Chunk::Ecne {
        lowest_tsn: whimbrel_wire::Tsn(net.wire.iter().flat_map(Sent::tsns).next().unwrap()),
        marked: None,
    };
    let sack = net.wire.iter().rfind(|sent| sent.from == Host::B).unwrap().clone();
    let bytes = crate::support::packet(4002, 4001, sack.tag(), &[echo]);
    net.inject(Host::A, sack.remote, sack.local, bytes);
    net.run_for(Span::from_millis(1));
    assert_eq!(stats(&mut net, Host::A, a).ecne_received, 0);
}

#[test]
fn appendix_a_echoes_continue_until_cwr() {
    let (mut net, a, b) = Net::established(1, &with_cwr());
    treat(&mut net, &[(1, Fate::Mark)]);
    let begin = net.wire.len();
    send(&mut net, a, 100);
    net.run_for(Span::from_secs(2));
    let (sender, receiver) = (stats(&mut net, Host::A, a), stats(&mut net, Host::B, b));
    assert_eq!(
        (sender.ecn_reductions, sender.cwr_sent, receiver.cwr_received),
        (1, 1, 1)
    );
    let wire = &net.wire[begin..];
    let answered = wire.iter().position(|sent| sent.has(ChunkType::CWR)).unwrap();
    let arrived = wire[answered].at + Span::from_millis(10);
    let marked = wire.iter().find(|sent| sent.has(ChunkType::DATA)).unwrap();
    let sacks = || {
        wire.iter()
            .filter(|sent| sent.from == Host::B && sent.has(ChunkType::SACK))
    };
    let during = |sent: &&Sent| sent.at > marked.at && sent.at < arrived;
    // Each SACK of the round trip in between echoes the same TSN: 32 packets cause 16 SACKs.
    assert!(sacks().filter(during).count() >= 16);
    let tsn = marked.tsns()[0];
    assert!(sacks().filter(during).all(|sent| echoed(sent) == [tsn]));
    assert!(
        sacks()
            .filter(|sent| sent.at > arrived)
            .all(|sent| echoed(sent).is_empty())
    );
    assert!(receiver.ecne_sent >= 16);
}

#[test]
fn appendix_a_a_lost_cwr_causes_another_reduction() {
    // Ye 2004, 4.4.1: the echo continues, and after the window of data it counts as new congestion.
    let (mut net, a, b) = Net::established(1, &with_cwr());
    let (mut data, mut answers) = (0, 0);
    net.filter = Box::new(move |packet| {
        data += usize::from(packet.has(ChunkType::DATA));
        answers += usize::from(packet.has(ChunkType::CWR));
        if packet.has(ChunkType::CWR) && answers == 1 {
            assert!(!packet.has(ChunkType::DATA), "only the CWR is lost");
            return Fate::Drop;
        }
        if packet.from == Host::A && data == 2 {
            Fate::Mark
        } else {
            Fate::Deliver
        }
    });
    send(&mut net, a, 150);
    net.run_for(Span::from_secs(2));
    let (sender, receiver) = (stats(&mut net, Host::A, a), stats(&mut net, Host::B, b));
    assert_eq!(
        (sender.ecn_reductions, sender.cwr_sent, receiver.cwr_received),
        (2, 2, 1)
    );
    assert_eq!(receiver.ce_received, 1);
}

// draft-stewart-tsvwg-sctpecn-05, as usrsctp has it
#[test]
fn an_echo_counts_the_marked_packets_since_the_last_cwr() {
    for ecn_count in [false, true] {
        let config = AssociationConfig {
            ecn_count,
            ..with_cwr()
        };
        let (mut net, a, b) = Net::established(1, &config);
        treat(&mut net, &[(2, Fate::Mark), (3, Fate::Mark), (60, Fate::Mark)]);
        send(&mut net, a, 40);
        net.run_for(Span::from_secs(2));
        send(&mut net, a, 40);
        net.run_for(Span::from_secs(2));
        let echo = |chunk: Chunk<'_>| match chunk {
            Chunk::Ecne { marked, .. } => Some(marked),
            _ => None,
        };
        let mut counts: Vec<_> = net
            .wire
            .iter()
            .flat_map(|sent| sent.chunks().into_iter().filter_map(echo).collect::<Vec<_>>())
            .collect();
        counts.dedup();
        let expected: &[Option<u32>] = if ecn_count { &[Some(2), Some(1)] } else { &[None] };
        assert_eq!(counts, expected);
        assert_eq!(stats(&mut net, Host::B, b).ce_received, 3);
        assert_eq!(stats(&mut net, Host::A, a).ecn_reductions, 2);
    }
}

#[test]
fn cwr_needs_ecn() {
    let config = AssociationConfig {
        ecn: Some(false),
        ecn_cwr: Some(true),
        ..AssociationConfig::default()
    };
    assert!(config.validate().unwrap_err().to_string().contains("ecn_cwr"));
}

#[test]
fn l4s_sends_new_data_as_ect_1() {
    // RFC 9331 §4.1
    for (l4s, codepoint) in [(None, Ecn::Ect0), (Some(true), Ecn::Ect1)] {
        let config = AssociationConfig { l4s, ..config() };
        let (mut net, a, _) = Net::established(1, &config);
        send(&mut net, a, 10);
        net.run_for(Span::from_secs(1));
        let data: Vec<_> = net.wire.iter().filter(|sent| sent.has(ChunkType::DATA)).collect();
        assert_eq!(data.len(), 10);
        assert!(data.iter().all(|sent| sent.ecn == codepoint), "{l4s:?}");
    }
    let without_ecn = AssociationConfig {
        l4s: Some(true),
        ..AssociationConfig::default()
    };
    assert!(without_ecn.validate().is_err());
    let prague = AssociationConfig {
        scheme: whimbrel_control::Scheme::by_name("prague").expect("it is registered"),
        ecn: Some(false),
        ..AssociationConfig::default()
    };
    assert!(prague.validate().is_ok(), "without ECN the codepoint has no effect");
}
