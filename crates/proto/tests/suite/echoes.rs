//! Information in SACKs besides acknowledgements: timestamps (Chen et al. 2011, 3.1.1) and the congestion that routers indicate (Shishir
//! 2000, III).

use std::sync::{Arc, Mutex};

use crate::support::{Fate, Host, Net, Sent, meta, packet, port};
use whimbrel_control::discriminator::{Discriminate, Discriminator};
use whimbrel_control::window::WindowView;
use whimbrel_control::{AckSample, LossEvent, Span, Stamps, Time, Verdict};
use whimbrel_proto::{AssocId, AssociationConfig, Ecn, Message, PathId};
use whimbrel_wire::{Chunk, ChunkType, Parameter, Timestamp};

fn stamped() -> AssociationConfig {
    AssociationConfig {
        timestamps: Some(true),
        ..AssociationConfig::default()
    }
}

fn indicated() -> AssociationConfig {
    AssociationConfig {
        ecn: Some(true),
        eci: Some(true),
        sack_frequency: 1,
        ..AssociationConfig::default()
    }
}

fn timestamps(sent: &Sent) -> Vec<Timestamp> {
    let timestamp = |chunk: Chunk<'_>| match chunk {
        Chunk::Timestamp(timestamp) => Some(timestamp),
        _ => None,
    };
    sent.chunks().into_iter().filter_map(timestamp).collect()
}

fn micros(at: Time) -> u32 {
    (at.as_nanos() / 1000) as u32
}

/// Records every acknowledgement that it receives.
#[derive(Debug)]
struct Listener(Arc<Mutex<Vec<AckSample>>>);

impl Discriminate for Listener {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        self.0.lock().expect("no other thread").push(*ack);
    }

    fn judge(&mut self, _window: WindowView, _loss: &LossEvent) -> Verdict {
        Verdict::Congestion
    }
}

fn listen(net: &mut Net, a: AssocId) -> Arc<Mutex<Vec<AckSample>>> {
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let listener = Discriminator::Other(Box::new(Listener(recorded.clone())));
    net.a
        .with_control(a, PathId(0), |control| control.set_discriminator(listener))
        .expect("established");
    recorded
}

#[test]
fn both_ends_have_to_agree() {
    for (ours, theirs) in [(false, false), (false, true), (true, false), (true, true)] {
        let config = |on| AssociationConfig {
            timestamps: Some(on),
            eci: Some(on),
            ..AssociationConfig::default()
        };
        let mut net = Net::with_config(1, &config(theirs), 1);
        let a = net.connect(&config(ours), 1);
        net.run_for(Span::from_millis(100));
        let b = net.only(Host::B);
        let offers = |sent: &Sent, wanted| sent.init().parameters.iter().any(|p| p == Ok(wanted));
        for (chunk_type, expected) in [(ChunkType::INIT, ours), (ChunkType::INIT_ACK, ours && theirs)] {
            let first = net.wire.iter().find(|sent| sent.has(chunk_type)).unwrap();
            assert_eq!(offers(first, Parameter::Timestamps), expected);
            assert_eq!(offers(first, Parameter::EciCapable), expected);
        }
        for association in [net.a.association(a).unwrap(), net.b.association(b).unwrap()] {
            assert_eq!(association.uses_timestamps(), ours && theirs);
            assert_eq!(association.uses_eci(), ours && theirs);
        }
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_secs(1));
        assert_eq!(net.count(Host::A, ChunkType::TIMESTAMP) > 0, ours && theirs);
    }
}

#[test]
fn data_packets_carry_a_timestamp_and_sacks_echo_it() {
    // Chen et al. 2011, 3.1.1: the timestamp takes 12 bytes of each data packet, so the DATA chunk of a full packet has 1456 bytes.
    let (mut net, a, _) = Net::established(1, &stamped());
    let begin = net.wire.len();
    net.send(Host::A, a, Message::zeros(0, 100_000));
    net.run_for(Span::from_secs(2));
    let mut stamped = Vec::new();
    let mut full = 0;
    for sent in &net.wire[begin..] {
        let stamps = timestamps(sent);
        if sent.has(ChunkType::DATA) {
            let expected = Timestamp {
                sent: micros(sent.at),
                received: None,
            };
            assert_eq!(stamps, [expected], "{:?}", sent.types());
            assert_eq!(sent.types()[0], ChunkType::TIMESTAMP, "control chunks precede DATA");
            full += usize::from(sent.data()[0].payload.len() == 1440 && sent.bytes.len() == 1480);
            stamped.push(micros(sent.at));
        } else if sent.has(ChunkType::SACK) {
            let [stamp] = stamps[..] else {
                panic!("{:?}", sent.types())
            };
            assert_eq!(stamp.received, Some(stamp.sent + 10_000), "a one-way delay of 10 ms");
            assert!(stamped.contains(&stamp.sent));
            assert_eq!(sent.types(), [ChunkType::TIMESTAMP, ChunkType::SACK]);
        } else {
            assert!(stamps.is_empty(), "{:?}", sent.types());
        }
    }
    assert!(full > 60, "{full}");
    assert_eq!(net.contents(Host::B)[0].len(), 100_000);
}

#[test]
fn parts_receive_the_times_of_sending_and_arrival() {
    let (mut net, a, _) = Net::established(1, &stamped());
    let recorded = listen(&mut net, a);
    let begin = net.wire.len();
    net.send(Host::A, a, Message::zeros(0, 20_000));
    net.run_for(Span::from_secs(2));
    let data: Vec<Time> = net.wire[begin..]
        .iter()
        .filter(|s| s.has(ChunkType::DATA))
        .map(|s| s.at)
        .collect();
    let samples = recorded.lock().unwrap();
    assert!(samples.len() >= 5);
    let mut last: Option<Stamps> = None;
    for sample in samples.iter() {
        let stamps = sample.stamps.expect("negotiated");
        assert!(data.iter().any(|at| micros(*at) == micros(stamps.sent)), "{stamps:?}");
        if let Some(last) = last {
            // The delay is constant, and both ends use the same clock.
            assert_eq!(stamps.received.since(last.received), stamps.sent.since(last.sent));
        }
        last = Some(stamps);
    }
}

#[test]
fn a_timestamp_measures_the_round_trip_of_retransmissions() {
    let (mut net, a, _) = Net::established(1, &stamped());
    let recorded = listen(&mut net, a);
    let mut dropped = false;
    net.filter = Box::new(move |packet| {
        if packet.has(ChunkType::DATA) && !dropped {
            dropped = true;
            return Fate::Drop;
        }
        Fate::Deliver
    });
    net.send(Host::A, a, Message::zeros(0, 100));
    net.run_for(Span::from_secs(5));
    let samples = recorded.lock().unwrap();
    assert_eq!(samples.len(), 1);
    // The round trip; the first packet is acknowledged at once.
    assert_eq!(samples[0].rtt, Some(Span::from_millis(20)));
    assert_eq!(net.a.association(a).unwrap().stats().retransmissions, 1);
}

#[test]
fn timestamps_without_negotiation_are_skipped() {
    let (mut net, a, b) = Net::established(1, &AssociationConfig::default());
    net.send(Host::A, a, Message::zeros(0, 100));
    net.run_for(Span::from_secs(1));
    let sent = net.wire.iter().find(|sent| sent.has(ChunkType::DATA)).unwrap();
    let chunks = [
        Chunk::Timestamp(Timestamp {
            sent: 5,
            received: None,
        }),
        Chunk::Timestamp(Timestamp {
            sent: 5,
            received: Some(6),
        }),
    ];
    let bytes = packet(port(Host::A), port(Host::B), sent.tag(), &chunks);
    let (local, remote, now) = (sent.remote, sent.local, net.now);
    let before = net.wire.len();
    assert_eq!(net.b.handle_datagram(now, meta(local, remote), &bytes), Ok(()));
    net.run_for(Span::from_secs(1));
    assert_eq!(net.wire.len(), before, "no reply");
    assert!(!net.b.association(b).unwrap().uses_timestamps());
}

/// Returns the I bits of B's SACKs while A sends `packets` full packets; the n-th ones are treated as given.
fn echoes(
    config: &AssociationConfig,
    packets: usize,
    fates: &'static [(usize, Fate)],
) -> (Net, Vec<bool>, Vec<AckSample>) {
    let (mut net, a, _) = Net::established(1, config);
    let recorded = listen(&mut net, a);
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        let is_data = packet.from == Host::A && packet.has(ChunkType::DATA);
        count += usize::from(is_data);
        let found = fates.iter().find(|(n, _)| is_data && *n == count);
        found.map_or(Fate::Deliver, |(_, fate)| *fate)
    });
    let begin = net.wire.len();
    for _ in 0..packets {
        net.send(Host::A, a, Message::zeros(0, 1400));
    }
    net.run_for(Span::from_secs(3));
    let bits = net.wire[begin..]
        .iter()
        .flat_map(|sent| {
            let bit = |chunk: &Chunk<'_>| match chunk {
                Chunk::Sack(sack) => Some(sack.congestion_indicated),
                _ => None,
            };
            sent.chunks().iter().filter_map(bit).collect::<Vec<_>>()
        })
        .collect();
    let samples = recorded.lock().expect("no other thread").clone();
    (net, bits, samples)
}

#[test]
fn sacks_echo_the_indications_of_routers() {
    // Shishir 2000, III.A: the receiver copies the bits of each packet into its acknowledgement.
    let fates = &[
        (2, Fate::Indicate),
        (3, Fate::Indicate),
        (5, Fate::Mark),
        (7, Fate::Warn),
    ];
    let (net, bits, samples) = echoes(&indicated(), 8, fates);
    let expected = [false, true, true, false, true, false, true, false];
    assert_eq!(bits, expected);
    let recorded: Vec<_> = samples.iter().map(|sample| sample.eci).collect();
    assert_eq!(recorded, expected.map(Some));
    let data = net.wire.iter().filter(|sent| sent.has(ChunkType::DATA));
    assert!(
        data.into_iter().all(|sent| sent.ecn == Ecn::Ect1),
        "Table II: 01 is valid and says nothing"
    );
}

#[test]
fn an_end_without_negotiation_echoes_nothing() {
    let config = AssociationConfig {
        eci: Some(false),
        ..indicated()
    };
    let (net, bits, samples) = echoes(&config, 4, &[(2, Fate::Warn), (3, Fate::Mark)]);
    assert!(bits.iter().all(|bit| !bit));
    assert!(samples.iter().all(|sample| sample.eci.is_none()));
    let mut data = net.wire.iter().filter(|sent| sent.has(ChunkType::DATA));
    assert!(data.all(|sent| sent.ecn == Ecn::Ect0));
}

#[test]
fn a_congestion_warning_requires_no_ecn() {
    // The congestion warning of TCP Jersey is a separate bit.
    let config = AssociationConfig {
        ecn: Some(false),
        ..indicated()
    };
    let (net, bits, _) = echoes(&config, 4, &[(2, Fate::Warn)]);
    assert_eq!(bits, [false, true, false, false]);
    assert!(net.wire.iter().all(|sent| sent.ecn == Ecn::NotEct));
}
