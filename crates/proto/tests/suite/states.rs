//! The states in which data is accepted and sent (RFC 9260 §6), and congestion control per path (§7.2).

use crate::support::paths::path;
use crate::support::{Fate, Host, Net, addrs, data};
use whimbrel_control::Span;
use whimbrel_proto::{AssocId, AssociationConfig, Discard, Message, PathId, State};
use whimbrel_wire::{Chunk, ChunkType, DuplicateTsns, GapBlocks, Sack, Tsn};

fn quiet() -> AssociationConfig {
    AssociationConfig {
        hb_interval: Span::ZERO,
        sack_frequency: 1,
        ..AssociationConfig::default()
    }
}

const ALL: [State; 7] = [
    State::CookieWait,
    State::CookieEchoed,
    State::Established,
    State::ShutdownPending,
    State::ShutdownSent,
    State::ShutdownReceived,
    State::ShutdownAckSent,
];

/// Returns A in this state, with its tag, its first TSN, and the TSN that it expects from its peer; from here on, nothing of A reaches B.
fn in_state(state: State) -> (Net, AssocId, u32, u32, u32) {
    let (mut net, id, tag, tsn) = Net::in_state(&quiet(), state);
    if state == State::Established {
        net.send(Host::A, id, Message::zeros(0, 10));
    }
    // `init` of the test harness starts with this TSN.
    (net, id, tag, tsn, 1000)
}

// [9260:6-2, 6-4]
#[test]
fn section_6_states_that_accept_data() {
    for state in ALL {
        let takes = matches!(state, State::Established | State::ShutdownPending | State::ShutdownSent);
        let (mut net, _, tag, _, peer_tsn) = in_state(state);
        let result = net.forge(Host::A, tag, &[Chunk::Data(data(peer_tsn, 0, b"data"))]);
        assert_eq!(
            result,
            if takes { Ok(()) } else { Err(Discard::Unexpected) },
            "{state:?}"
        );
        assert_eq!(net.contents(Host::A).len(), usize::from(takes), "{state:?}");
    }
}

// [9260:6-5, 6-7, 5.1-20, 6.7-3]
#[test]
fn section_6_states_that_accept_sacks() {
    for state in ALL {
        let takes = matches!(
            state,
            State::Established | State::ShutdownPending | State::ShutdownReceived
        );
        let (mut net, id, tag, tsn, _) = in_state(state);
        let sack = |cumulative| {
            Chunk::Sack(Sack {
                congestion_indicated: false,
                packets: 0,
                cumulative_tsn_ack: Tsn(cumulative),
                a_rwnd: 65_536,
                gaps: GapBlocks::from_wire_bytes(&[]),
                duplicates: DuplicateTsns::from_wire_bytes(&[]),
            })
        };
        let expected = if takes { Ok(()) } else { Err(Discard::Unexpected) };
        // Nothing is acknowledged at first: the cumulative TSN ack is one less than the initial TSN.
        assert_eq!(
            net.forge(Host::A, tag, &[sack(tsn.wrapping_sub(1))]),
            expected,
            "{state:?}"
        );
        assert_eq!(
            net.a.association(id).expect("there").buffered_send(),
            if takes { 10 } else { 0 }
        );
        if takes {
            net.forge(Host::A, tag, &[sack(tsn)]).expect("accepted");
            assert_eq!(net.a.association(id).expect("there").buffered_send(), 0, "{state:?}");
        }
    }
}

// [9260:6-1]
#[test]
fn section_6_states_that_send_data() {
    for state in ALL {
        let sends = matches!(
            state,
            State::Established | State::ShutdownPending | State::ShutdownReceived
        );
        let (mut net, id, ..) = in_state(state);
        assert_eq!(net.count(Host::A, ChunkType::DATA), usize::from(sends), "{state:?}");
        let now = net.now;
        let accepted = net.a.send(now, id, Message::zeros(0, 10)).is_ok();
        net.drain(Host::A);
        // Before the association is established, messages wait; during the shutdown they are refused.
        let waits = matches!(state, State::CookieWait | State::CookieEchoed);
        assert_eq!(accepted, waits || state == State::Established, "{state:?}");
        let expected = if state == State::Established {
            2
        } else {
            usize::from(sends)
        };
        assert_eq!(net.count(Host::A, ChunkType::DATA), expected, "{state:?}");
    }
}

// [9260:7.2-3, 7.2.1-9, 7.2.3-1, 6.4-3]
#[test]
fn section_7_2_each_path_has_its_own_window() {
    let (mut net, a, _) = Net::established(2, &quiet());
    net.run_for(Span::from_secs(5));
    for _ in 0..30 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    net.run_for(Span::from_secs(5));
    assert!(path(&net, a, 0).cwnd > 4404);
    assert_eq!(
        path(&net, a, 1).cwnd,
        4404,
        "the window of the path that carried the data grew"
    );
    let grown = path(&net, a, 0).cwnd;
    // A loss on the second path affects only the second path.
    let now = net.now;
    net.a.set_primary(now, a, PathId(1));
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        count += usize::from(packet.has(ChunkType::DATA));
        if packet.has(ChunkType::DATA) && count == 2 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    for _ in 0..30 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    net.run_for(Span::from_secs(5));
    assert!(path(&net, a, 1).ssthresh < u64::MAX);
    assert_eq!((path(&net, a, 0).cwnd, path(&net, a, 0).ssthresh), (grown, u64::MAX));
    // All SACKs were sent to the source of the data.
    let last: Vec<_> = net
        .sent(Host::B, ChunkType::SACK)
        .iter()
        .rev()
        .take(10)
        .map(|sent| sent.remote)
        .collect();
    assert!(last.iter().all(|remote| *remote == addrs(Host::A, 2)[1]), "{last:?}");
}

// [9260:7.2.4-6]
#[test]
fn section_7_2_4_a_sack_increases_cwnd_before_it_causes_a_reduction() {
    let config = AssociationConfig {
        initial_cwnd: Some(20 * 1468),
        max_burst: 0,
        ..quiet()
    };
    let (mut net, a, _) = Net::established(1, &config);
    net.run_for(Span::from_secs(5));
    net.filter = Box::new(|_| Fate::Drop);
    for _ in 0..40 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    let first = net.last(Host::A, ChunkType::INIT).init().initial_tsn.0;
    let mut report = |cumulative: u32, last: u32| {
        let mut gaps = Vec::new();
        let offset = |number: u32| (number + 1 - cumulative) as u16;
        whimbrel_wire::GapBlock {
            start: offset(6),
            end: offset(last),
        }
        .emit(&mut gaps);
        let sack = Sack {
            congestion_indicated: false,
            packets: 0,
            cumulative_tsn_ack: Tsn(first.wrapping_add(cumulative).wrapping_sub(1)),
            a_rwnd: 1 << 20,
            gaps: GapBlocks::from_wire_bytes(&gaps),
            duplicates: DuplicateTsns::from_wire_bytes(&[]),
        };
        net.as_peer(Host::A, &[Chunk::Sack(sack)]).expect("accepted");
        path(&net, a, 0).cwnd
    };
    // 5 is missing. The third missing report also advances the cumulative TSN ack while cwnd is fully utilized: cwnd grows by one PMDCS and
    // is then halved.
    assert_eq!(report(3, 6), 21 * 1468);
    assert_eq!(report(3, 7), 21 * 1468, "no growth without progress");
    assert_eq!(report(5, 8), (22 * 1468) / 2);
}
