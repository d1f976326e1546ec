//! Probes that a path policy orders: heartbeats as large as data packets, with any peer (Pan et al. 2010, 4.1.2; RFC 9260 §8.3).

use crate::support::{Fate, Host, Net, Sent, addrs};
use whimbrel_control::multipath::policy::{BandwidthParameters, IceParameters, IceSparseParameters, PathPolicySpec};
use whimbrel_control::{Span, Time};
use whimbrel_proto::{AssocId, AssociationConfig, AssociationStats, Message, PathId, PathInfo, PathState};
use whimbrel_wire::{ByteSink, ChecksumField, Chunk, ChunkType, CommonHeader, HeartbeatInfo, PacketSink};

/// Measures for 10 s after 5 s.
fn ice() -> PathPolicySpec {
    PathPolicySpec::Ice(IceParameters {
        first: Span::from_secs(5),
        period: Span::from_secs(100),
        length: Span::from_secs(10),
        ..IceParameters::default()
    })
}

fn config(policy: PathPolicySpec) -> AssociationConfig {
    AssociationConfig {
        hb_interval: Span::ZERO,
        path_policy: Some(policy),
        ..AssociationConfig::default()
    }
}

fn infos(net: &Net, id: AssocId) -> Vec<PathInfo> {
    net.a.association(id).expect("established").paths().collect()
}

fn stats(net: &Net, id: AssocId) -> AssociationStats {
    net.a.association(id).expect("established").stats()
}

/// Sends ten packets of data in each 100 ms.
fn flow(net: &mut Net, id: AssocId, span: Span) {
    let end = net.now + span;
    while net.now < end {
        let association = net.a.association(id).expect("established");
        if association.queued() < 20_000 && association.buffered_send() < 200_000 {
            for _ in 0..10 {
                net.send(Host::A, id, Message::zeros(0, 1452));
            }
        }
        net.run_for(Span::from_millis(100));
    }
}

fn on_path(host: Host, sent: &Sent, path: usize) -> bool {
    sent.remote == addrs(host.other(), path + 1)[path]
}

/// Returns the heartbeats that are longer than usual ones.
fn probes(net: &Net, host: Host, kind: ChunkType) -> Vec<&Sent> {
    net.sent(host, kind)
        .into_iter()
        .filter(|sent| sent.bytes.len() > 200)
        .collect()
}

#[test]
fn figure_5_an_idle_path_carries_one_probe_for_each_packet_of_data() {
    let (mut net, a, _) = Net::established(2, &config(ice()));
    let start = net.now;
    flow(&mut net, a, Span::from_secs(30));
    let sent = probes(&net, Host::A, ChunkType::HEARTBEAT);
    assert!(sent.iter().all(|sent| on_path(Host::A, sent, 1)));
    let (first, last) = (sent[0].at, sent[sent.len() - 1].at);
    assert!((4_800..5_300).contains(&first.since(start).as_millis()));
    assert!((9_800..10_200).contains(&last.since(first).as_millis()));
    let data = net.sent(Host::A, ChunkType::DATA);
    let meanwhile = data.iter().filter(|sent| sent.at >= first && sent.at <= last).count();
    assert!(
        sent.len().abs_diff(meanwhile) <= 20 && meanwhile > 500,
        "{} for {meanwhile}",
        sent.len()
    );
    // They are as large as data packets, and so are the HEARTBEAT ACKs.
    assert!(sent.iter().all(|sent| sent.bytes.len() == data[0].bytes.len()));
    let answers = probes(&net, Host::B, ChunkType::HEARTBEAT_ACK);
    assert_eq!(answers.len(), sent.len());
    assert!(
        answers
            .iter()
            .all(|sent| sent.bytes.len() == data[0].bytes.len() && on_path(Host::B, sent, 1))
    );
    let stats = stats(&net, a);
    assert_eq!(stats.path_probes_sent as usize, sent.len());
    assert_eq!(stats.path_probes_answered as usize, sent.len());
    assert_eq!(stats.path_probe_bytes as usize, 2 * sent.len() * data[0].bytes.len());
    assert_eq!(infos(&net, a)[1].flight, 0, "probes are not data");
    assert_eq!(net.contents(Host::B).len() as u64, stats.messages_sent);
}

#[test]
fn figure_6_data_leaves_a_lossy_path_for_one_with_a_growing_window() {
    for (policy, seconds) in [
        (ice(), 15),
        (
            PathPolicySpec::IceSparse(IceSparseParameters {
                first: Span::from_secs(5),
                ..IceSparseParameters::default()
            }),
            // Five batches of a second.
            10,
        ),
    ] {
        let (mut net, a, _) = Net::established(2, &config(policy));
        let start = net.now;
        let mut count = 0;
        net.filter = Box::new(move |packet| {
            let is_data = packet.has(ChunkType::DATA) && packet.remote == addrs(Host::B, 1)[0];
            count += u32::from(is_data);
            if is_data && count % 20 == 0 {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        flow(&mut net, a, Span::from_secs(seconds - 1));
        assert!(infos(&net, a)[0].primary);
        flow(&mut net, a, Span::from_millis(2000).max(Span::from_secs(1)));
        assert!(infos(&net, a)[1].primary, "{:?}", infos(&net, a));
        assert_eq!(net.a.association(a).expect("established").sending_path(), PathId(1));
        let after = start + Span::from_secs(seconds + 2);
        flow(&mut net, a, Span::from_secs(3));
        let late = |sent: &&&Sent| sent.at > after;
        assert_eq!(
            probes(&net, Host::A, ChunkType::HEARTBEAT).iter().filter(late).count(),
            0
        );
    }
}

#[test]
fn a_lossy_idle_path_is_not_selected() {
    let (mut net, a, _) = Net::established(2, &config(ice()));
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        let is_probe = packet.from == Host::A && packet.bytes.len() > 200 && packet.remote == addrs(Host::B, 2)[1];
        count += u32::from(is_probe);
        if is_probe && count % 20 == 0 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    flow(&mut net, a, Span::from_secs(30));
    assert_eq!(net.a.association(a).expect("established").sending_path(), PathId(0));
    let stats = stats(&net, a);
    let lost = stats.path_probes_sent - stats.path_probes_answered;
    assert!(
        lost > 10 && lost * 15 < stats.path_probes_sent,
        "{lost} of {}",
        stats.path_probes_sent
    );
    assert!(
        infos(&net, a)
            .iter()
            .all(|path| path.state == PathState::Active && path.errors <= 1)
    );
}

#[test]
fn section_8_3_a_usual_heartbeat_is_sent_if_no_probe_is_acknowledged() {
    let (mut net, a, _) = Net::established(2, &config(ice()));
    flow(&mut net, a, Span::from_secs(2));
    net.filter = Box::new(|packet| {
        let on_second = packet.remote == addrs(packet.from.other(), 2)[1];
        if on_second { Fate::Drop } else { Fate::Deliver }
    });
    flow(&mut net, a, Span::from_secs(13));
    // The measurement starts after 5 s; the first heartbeat is sent one second later and fails after 1 s, the next after 2 s, then after 4
    // s.
    assert_eq!(infos(&net, a)[1].errors, 3);
    assert_eq!(net.a.association(a).expect("established").sending_path(), PathId(0));
    assert!(net.close_reason(Host::A).is_none());
}

#[test]
fn a_heartbeat_ack_without_a_sent_probe_is_ignored() {
    let (mut net, a, b) = Net::established(2, &config(ice()));
    // No HEARTBEAT ACK arrives: a forged one needs the nonce that only the probe contains.
    net.filter = Box::new(|packet| {
        let is_answer = packet.has(ChunkType::HEARTBEAT_ACK) && packet.bytes.len() > 200;
        if is_answer { Fate::Drop } else { Fate::Deliver }
    });
    flow(&mut net, a, Span::from_millis(5_300));
    let probe = probes(&net, Host::A, ChunkType::HEARTBEAT)[0].clone();
    let info: Vec<u8> = probe.bytes[12 + 8..].to_vec();
    let _ = b;
    let tag = net.sent(Host::B, ChunkType::SACK)[0].bytes[4..8].to_vec();
    let answer = |info: &[u8]| {
        let mut bytes = Vec::new();
        let mut sink = ByteSink::new(&mut bytes, ChecksumField::Compute);
        sink.begin(CommonHeader {
            source_port: 4002,
            destination_port: 4001,
            verification_tag: u32::from_be_bytes([tag[0], tag[1], tag[2], tag[3]]),
        });
        sink.push(&Chunk::HeartbeatAck(HeartbeatInfo(info)));
        sink.finish();
        bytes
    };
    let (local, remote) = (addrs(Host::A, 2)[1], addrs(Host::B, 2)[1]);
    let mut forged = info.clone();
    forged[3] ^= 1;
    let mut other = info.clone();
    other[24] ^= 0x40;
    for bytes in [&forged[..], &other, &info[..20], &[0; 18], &[0; 1400]] {
        net.inject(Host::A, local, remote, answer(bytes));
    }
    net.run_for(Span::from_millis(1));
    assert_eq!(stats(&net, a).path_probes_answered, 0);
    net.inject(Host::A, local, remote, answer(&info));
    net.inject(Host::A, local, remote, answer(&info));
    net.run_for(Span::from_millis(1));
    assert_eq!(stats(&net, a).path_probes_answered, 1, "once");
}

#[test]
fn aisle_pairs_of_large_heartbeats_are_sent_back_to_back_on_every_path() {
    let policy = PathPolicySpec::Bandwidth(BandwidthParameters::default());
    let (mut net, a, _) = Net::established(2, &config(policy));
    // The second path spaces packets by 1 ms, the first one by 5 ms: 11 or 2 Mbit/s.
    let mut free = [Time::ZERO; 4];
    net.filter = Box::new(move |packet| {
        let path = addrs(packet.from.other(), 2)
            .iter()
            .position(|remote| *remote == packet.remote)
            .expect("a path");
        let free = &mut free[path + 2 * usize::from(packet.from == Host::B)];
        let takes = Span::from_micros(packet.bytes.len() as u64 * [4, 1][path]);
        let at = (*free).max(packet.now) + takes;
        *free = at;
        Fate::Delay(at.since(packet.now))
    });
    let start = net.now;
    flow(&mut net, a, Span::from_secs(10));
    assert_eq!(net.a.association(a).expect("established").sending_path(), PathId(1));
    for path in 0..2 {
        let times: Vec<_> = probes(&net, Host::A, ChunkType::HEARTBEAT)
            .iter()
            .filter(|sent| on_path(Host::A, sent, path))
            .map(|sent| sent.at.since(start).as_millis())
            .collect();
        assert!((18..=24).contains(&times.len()), "{times:?}");
        assert!(times.chunks_exact(2).all(|pair| pair[0] == pair[1]), "{times:?}");
    }
}
