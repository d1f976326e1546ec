//! When and how a receiver reports what has arrived, by option: k-arrival SACKs, delayed acknowledgements for concurrent paths.

mod support;

use support::{Fate, Host, Net};
use whimbrel_control::multipath::ReportingChanges;
use whimbrel_control::{Span, Time};
use whimbrel_proto::{AssocId, AssociationConfig, Message};
use whimbrel_wire::{Chunk, ChunkType};

fn reporting(changes: ReportingChanges) -> AssociationConfig {
    AssociationConfig {
        hb_interval: Span::ZERO,
        initial_cwnd: Some(400_000),
        max_burst: 0,
        reporting: changes,
        ..AssociationConfig::default()
    }
}

/// An association over which one message has gone, so that the rule for the first DATA is out of the way.
fn established(config: &AssociationConfig) -> (Net, AssocId) {
    let (mut net, a, _) = Net::established(1, config);
    net.send(Host::A, a, Message::zeros(0, 1));
    net.run_for(Span::from_millis(500));
    net.messages.clear();
    (net, a)
}

/// The n-th packets of data of the host, from 1, are lost.
fn lose(net: &mut Net, numbers: &'static [usize]) {
    let mut count = 0;
    net.knob = Box::new(move |packet| {
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

/// All messages of [`send`] have come, in order.
fn all_came(net: &Net, messages: u32) {
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
fn k_arrivals_make_a_sack_also_beyond_a_gap() {
    let count = |arrivals| {
        let (mut net, a) = established(&reporting(ReportingChanges {
            arrivals_per_sack: Some(arrivals),
            ..ReportingChanges::default()
        }));
        lose(&mut net, &[3]);
        let start = net.now;
        send(&mut net, a, 100);
        net.run_for(Span::from_secs(5));
        all_came(&net, 100);
        assert_eq!(
            net.count(Host::A, ChunkType::DATA),
            102,
            "nothing was sent again but the one lost"
        );
        sacks(&net, start)
    };
    // Of 99 packets and the one sent again, those after the third leave a gap: the standard acknowledges nearly each of them.
    assert_eq!(count(0), 99);
    assert_eq!(count(10), 10);
    assert_eq!(count(5), 20);
}

// Iyengar, Amer and Stewart 2006: DAC
#[test]
fn dac_delays_beyond_a_gap_and_tells_how_many_packets_came() {
    let (mut net, a) = established(&reporting(ReportingChanges {
        dac: Some(true),
        ..ReportingChanges::default()
    }));
    lose(&mut net, &[3]);
    let start = net.now;
    send(&mut net, a, 20);
    net.run_for(Span::from_secs(5));
    all_came(&net, 20);
    let told: Vec<u8> = net
        .sent(Host::B, ChunkType::SACK)
        .iter()
        .filter(|sent| sent.at >= start)
        .flat_map(|sent| sent.chunks())
        .filter_map(|chunk| match chunk {
            Chunk::Sack(sack) => Some(sack.packets),
            _ => None,
        })
        .collect();
    assert_eq!(told.iter().map(|count| u32::from(*count)).sum::<u32>(), 20, "{told:?}");
    assert!(told.iter().filter(|count| **count == 2).count() >= 9, "{told:?}");
}
