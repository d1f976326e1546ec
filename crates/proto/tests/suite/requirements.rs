//! Requirements of RFC 9260 that the other files do not test: timers, windows, Tie-Tags, states.

use crate::support::paths::{confirmed, cut, data_sent, mend, path, quiet, state_event, when};
use crate::support::{Fate, Host, Net, addrs, data, init, packet, port, view};
use whimbrel_control::Span;
use whimbrel_proto::{AssocId, AssociationConfig, Discard, Message, PathState, State};
use whimbrel_wire::{Causes, Chunk, ChunkType, DuplicateTsns, GapBlocks, HeartbeatInfo, Sack, Tsn};

/// A window of ten packets, and a SACK for each packet.
fn wide() -> AssociationConfig {
    AssociationConfig {
        initial_cwnd: Some(14_680),
        max_burst: 0,
        sack_frequency: 1,
        ..quiet()
    }
}

fn first_tsn(net: &Net, host: Host) -> u32 {
    let chunk_type = if host == Host::A {
        ChunkType::INIT
    } else {
        ChunkType::INIT_ACK
    };
    net.last(host, chunk_type).init().initial_tsn.0
}

pub(crate) fn sack(cumulative: u32, a_rwnd: u32) -> Chunk<'static> {
    Chunk::Sack(Sack {
        cumulative_tsn_ack: Tsn(cumulative),
        a_rwnd,
        gaps: GapBlocks::from_wire_bytes(&[]),
        duplicates: DuplicateTsns::from_wire_bytes(&[]),
        congestion_indicated: false,
        packets: 0,
    })
}

/// Returns when A sent this TSN, in milliseconds since `start`.
fn times_of(net: &Net, tsn: u32, start: whimbrel_control::Time) -> Vec<u64> {
    let sent = net.sent(Host::A, ChunkType::DATA);
    let of_it = sent.iter().filter(|sent| sent.tsns().contains(&tsn));
    of_it.map(|sent| sent.at.since(start).as_millis()).collect()
}

// [9260:6.1-18, 6.1-19, 6.1-20, 6.1-21]
#[test]
fn section_6_3_2_t3_runs_from_the_last_transmission_of_the_earliest_chunk() {
    let (mut net, a, _) = Net::established(1, &wide());
    let (start, first) = (net.now, first_tsn(&net, Host::A));
    // The first chunk is lost twice; three later ones report it missing after 20 ms.
    net.filter = Box::new(move |packet| {
        let is_lost = packet.from == Host::A && packet.tsns().contains(&Tsn(first));
        if is_lost { Fate::Drop } else { Fate::Deliver }
    });
    for _ in 0..5 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    net.run_for(Span::from_millis(500));
    // New data does not restart the timer.
    net.send(Host::A, a, Message::zeros(0, 1452));
    net.run_for(Span::from_millis(1400));
    assert_eq!(times_of(&net, first, start), [0, 20, 1020]);
}

// [9260:6.3.1-5]
#[test]
fn section_6_3_1_data_sent_before_a_retransmission_gives_no_sample() {
    let (mut net, a, _) = Net::established(1, &wide());
    let first = first_tsn(&net, Host::A);
    // The second chunk is lost once and retransmitted; before the retransmission arrives, the fourth chunk does, which is timed and late.
    let mut sent = 0;
    net.filter = Box::new(move |packet| {
        let has = |number| packet.from == Host::A && packet.tsns().contains(&Tsn(first.wrapping_add(number)));
        sent += u32::from(has(1));
        match sent {
            1 if has(1) => Fate::Drop,
            _ if has(1) => Fate::Delay(Span::from_millis(200)),
            _ if has(3) => Fate::Delay(Span::from_millis(100)),
            _ => Fate::Deliver,
        }
    });
    for _ in 0..3 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    net.run_for(Span::from_millis(20));
    for _ in 0..3 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    net.run_for(Span::from_millis(300));
    assert_eq!(net.contents(Host::B).len(), 6);
    assert_eq!(net.a.association(a).expect("established").stats().fast_retransmits, 1);
    assert_eq!(path(&net, a, 0).srtt, Some(Span::from_millis(20)));
}

/// B's receive window is full. The test acknowledges every probe without opening the window.
fn probed() -> (Net, AssocId) {
    let config = AssociationConfig {
        recv_buffer: 5000,
        ..wide()
    };
    let (mut net, a, _) = Net::established(1, &config);
    net.filter = Box::new(|_| Fate::Drop);
    for _ in 0..20 {
        net.send(Host::A, a, Message::zeros(0, 1000));
    }
    let first = first_tsn(&net, Host::A);
    net.as_peer(Host::A, &[sack(first.wrapping_add(4), 0)])
        .expect("accepted");
    (net, a)
}

// [9260:6.1-2, 6.1-5, 6.1-7, 6.1-17]
#[test]
fn section_6_1_acknowledged_probes_back_off_too() {
    let (mut net, a) = probed();
    let (start, first) = (net.now, first_tsn(&net, Host::A));
    let mut times = Vec::new();
    for number in 5..10 {
        let before = net.count(Host::A, ChunkType::DATA);
        net.run_until(Span::from_secs(100), "a probe", |net| {
            net.count(Host::A, ChunkType::DATA) > before
        });
        times.push(net.now.since(start).as_millis());
        let probe = net.last(Host::A, ChunkType::DATA);
        assert_eq!(probe.tsns(), [first.wrapping_add(number)], "one chunk");
        net.as_peer(Host::A, &[sack(first.wrapping_add(number), 0)])
            .expect("accepted");
    }
    assert_eq!(times, [1000, 3000, 7000, 15_000, 31_000]);
    // The window opens: the remaining data is sent, and the next closed window is probed after one RTO again.
    net.as_peer(Host::A, &[sack(first.wrapping_add(9), 2000)])
        .expect("accepted");
    assert_eq!(net.last(Host::A, ChunkType::DATA).tsns(), [first.wrapping_add(11)]);
    net.as_peer(Host::A, &[sack(first.wrapping_add(11), 0)])
        .expect("accepted");
    let closed = net.now;
    net.run_for(Span::from_millis(1500));
    assert_eq!(net.times(Host::A, ChunkType::DATA, closed).last(), Some(&1000));
    assert_eq!(net.state(Host::A, a), State::Established);
}

// [9260:6.2.1-1]
#[test]
fn section_6_2_1_rwnd_is_a_rwnd_minus_the_outstanding_data() {
    let (mut net, a, _) = Net::established(1, &wide());
    net.filter = Box::new(|_| Fate::Drop);
    let (first, rwnd) = (first_tsn(&net, Host::A), AssociationConfig::default().recv_buffer);
    let window = |net: &Net| net.a.association(a).expect("established").peer_rwnd();
    // A: the value from INIT ACK.
    assert_eq!(window(&net), rwnd);
    // B: minus the data sent.
    for _ in 0..4 {
        net.send(Host::A, a, Message::zeros(0, 1000));
    }
    assert_eq!(window(&net), rwnd - 4000);
    // D ii: the a_rwnd of a SACK minus the outstanding data.
    net.as_peer(Host::A, &[sack(first, 50_000)]).expect("accepted");
    assert_eq!(window(&net), 47_000);
    // D i: an overtaken SACK changes nothing.
    assert!(net.as_peer(Host::A, &[sack(first.wrapping_sub(1), 9000)]).is_err());
    assert_eq!(window(&net), 47_000);
    // C: plus the data lost by the timeout, except the immediate retransmission.
    net.run_for(Span::from_millis(1001));
    assert_eq!(window(&net), 49_000);
    // Never below zero.
    net.as_peer(Host::A, &[sack(first, 500)]).expect("accepted");
    assert_eq!(window(&net), 0);
}

// [9260:8.2-4]
#[test]
fn section_8_2_an_alternate_is_used_while_it_is_active() {
    let config = AssociationConfig {
        path_max_retrans: 0,
        association_max_retrans: 100,
        hb_interval: Span::from_secs(1),
        ..wide()
    };
    let (mut net, a, _) = confirmed(4, &config);
    // The primary and the first alternate fail.
    cut(&mut net, &[0, 1]);
    let start = net.now;
    for _ in 0..5 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    for index in [0, 1] {
        when(
            &mut net,
            start,
            Span::from_secs(60),
            &state_event(index, PathState::Inactive),
        );
    }
    // The first alternate recovers; the primary does not.
    cut(&mut net, &[0]);
    let back = net.now;
    net.events.clear();
    when(&mut net, back, Span::from_secs(60), &state_event(1, PathState::Active));
    let start = net.now;
    for _ in 0..20 {
        net.send(Host::A, a, Message::zeros(0, 1452));
        net.run_for(Span::from_millis(100));
    }
    let used = data_sent(&net, start);
    assert!(used.iter().all(|(_, path)| *path == 2), "{used:?}");
    mend(&mut net);
}

/// Returns A in this state, with its tag and first TSN; from here on, nothing of A reaches B. A has a message outstanding if the state
/// permits it.
fn in_state(state: State) -> (Net, AssocId, u32, u32) {
    Net::in_state(&quiet(), state)
}

// [9260:8.3-2, 3.3.6-1, 3.3.6-2]
#[test]
fn section_8_3_heartbeats_are_answered_from_cookie_echoed_until_the_shutdown() {
    for (state, is_answered) in [
        (State::CookieWait, false),
        (State::CookieEchoed, true),
        (State::Established, true),
        (State::ShutdownPending, true),
        (State::ShutdownReceived, true),
    ] {
        let (mut net, _, tag, _) = in_state(state);
        let info = HeartbeatInfo(b"are you there?");
        let result = net.forge(Host::A, tag, &[Chunk::Heartbeat(info)]);
        assert_eq!(result.is_ok(), is_answered, "{state:?}");
        assert_eq!(
            net.count(Host::A, ChunkType::HEARTBEAT_ACK) == 1,
            is_answered,
            "{state:?}"
        );
        if is_answered {
            let answer = net.last(Host::A, ChunkType::HEARTBEAT_ACK);
            assert_eq!(answer.chunks()[0], Chunk::HeartbeatAck(info), "{state:?}");
        }
    }
}

// [9260:9.2-6, 9.2-3]
#[test]
fn section_9_2_in_shutdown_sent_any_packet_restarts_t2() {
    let (mut net, _, tag, _) = in_state(State::ShutdownSent);
    let start = net.now;
    net.run_for(Span::from_millis(600));
    net.forge(Host::A, tag, &[Chunk::Heartbeat(HeartbeatInfo(b"alive"))])
        .expect("accepted");
    net.run_for(Span::from_millis(4000));
    assert_eq!(net.times(Host::A, ChunkType::SHUTDOWN, start), [0, 1600, 3600]);
}

// [9260:9.2-6]
#[test]
fn section_9_2_in_shutdown_sent_any_packet_clears_the_count() {
    let config = AssociationConfig {
        association_max_retrans: 2,
        rto_max: Span::from_secs(1),
        shutdown_guard: Some(Span::from_secs(3600)),
        ..quiet()
    };
    let (mut net, a, _) = Net::established(1, &config);
    net.filter = Box::new(|_| Fate::Drop);
    let now = net.now;
    net.a.shutdown(now, a);
    // T2 expires once between two packets, in total more often than Association.Max.Retrans.
    for _ in 0..6 {
        net.run_for(Span::from_millis(1500));
        net.as_peer(Host::A, &[Chunk::Heartbeat(HeartbeatInfo(b"alive"))])
            .expect("accepted");
        assert_eq!(net.state(Host::A, a), State::ShutdownSent);
    }
    net.run_for(Span::from_secs(10));
    assert_eq!(net.state(Host::A, a), State::Closed);
}

// [9260:9.2-25]
#[test]
fn section_9_2_shutdown_in_shutdown_sent_is_answered_and_restarts_t2() {
    let (mut net, a, tag, tsn) = in_state(State::ShutdownSent);
    let start = net.now;
    net.run_for(Span::from_millis(600));
    let cumulative_tsn_ack = Tsn(tsn.wrapping_sub(1));
    net.forge(Host::A, tag, &[Chunk::Shutdown { cumulative_tsn_ack }])
        .expect("accepted");
    assert_eq!(net.state(Host::A, a), State::ShutdownAckSent);
    net.run_for(Span::from_millis(1200));
    assert_eq!(net.times(Host::A, ChunkType::SHUTDOWN, start), [0]);
    assert_eq!(net.times(Host::A, ChunkType::SHUTDOWN_ACK, start), [600, 1600]);
}

// [9260:9.2-7, 9.2-13, 4-11, 3.3.9-1]
#[test]
fn section_9_2_in_shutdown_received_only_shutdowns_of_the_peer_are_processed() {
    let (mut net, a, tag, tsn) = in_state(State::ShutdownReceived);
    let now = net.now;
    net.a.shutdown(now, a);
    net.drain(Host::A);
    assert_eq!(net.state(Host::A, a), State::ShutdownReceived, "data is outstanding");
    assert_eq!(net.count(Host::A, ChunkType::SHUTDOWN), 0);
    // One SHUTDOWN that acknowledges nothing new, then one that acknowledges everything.
    for (ack, state) in [
        (tsn.wrapping_sub(1), State::ShutdownReceived),
        (tsn, State::ShutdownAckSent),
    ] {
        let cumulative_tsn_ack = Tsn(ack);
        net.forge(Host::A, tag, &[Chunk::Shutdown { cumulative_tsn_ack }])
            .expect("accepted");
        assert_eq!(net.state(Host::A, a), state);
    }
    assert_eq!(net.count(Host::A, ChunkType::SHUTDOWN_ACK), 1);
}

/// Returns the Tie-Tags in the cookie of the host's last INIT ACK.
fn tie_tags(net: &Net, host: Host) -> (u32, u32) {
    let answer = net.last(host, ChunkType::INIT_ACK);
    let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
    // After version, key, flags, extensions; times 12, addresses 4, tags 8, TSNs 8, a_rwnd 4, streams 4, ports 4.
    let word = |at: usize| u32::from_be_bytes(cookie[at..at + 4].try_into().expect("four bytes"));
    (word(49), word(53))
}

// [9260:5.2.1-12, 5.2.2-5, 5.2.2-10, 5.1.3-6]
#[test]
fn section_5_2_2_tie_tags_are_those_of_the_association_and_zero_without_one() {
    // No association.
    let mut net = Net::new(1);
    net.forge(Host::B, 0, &[Chunk::Init(init(5, &[]))]).expect("answered");
    assert_eq!(tie_tags(&net, Host::B), (0, 0));
    for state in [State::CookieWait, State::CookieEchoed, State::Established] {
        let (mut net, _, own, _) = in_state(state);
        let mut seen = Vec::new();
        for tag in [5, 6] {
            net.forge(Host::A, 0, &[Chunk::Init(init(tag, &[]))]).expect("answered");
            let tags = tie_tags(&net, Host::A);
            // The cookie is not encrypted, so they do not reveal the verification tags.
            assert!(tags.0 != own && tags.1 != 9, "{state:?}");
            seen.push(tags);
        }
        if state == State::CookieWait {
            assert_eq!(seen, [(0, 0); 2]);
        } else {
            assert_eq!(seen[0], seen[1], "{state:?}");
            assert!(seen[0].0 != 0 && seen[0].1 != 0, "{state:?}");
        }
    }
}

// [9260:5.2.4-7]
#[test]
fn section_5_2_4_b_the_peers_tag_is_taken_from_the_last_cookie() {
    let (mut net, a, own, _) = in_state(State::CookieWait);
    let mut cookies = Vec::new();
    for tag in [77, 78] {
        net.forge(Host::A, 0, &[Chunk::Init(init(tag, &[]))]).expect("answered");
        let answer = net.last(Host::A, ChunkType::INIT_ACK);
        cookies.push(answer.init().parameters.state_cookie().expect("a cookie").to_vec());
    }
    for (cookie, tag) in cookies.iter().zip([77, 78]) {
        net.forge(Host::A, own, &[Chunk::CookieEcho { cookie }])
            .expect("accepted");
        assert_eq!(net.state(Host::A, a), State::Established);
        assert_eq!(net.last(Host::A, ChunkType::COOKIE_ACK).tag(), tag);
    }
    net.send(Host::A, a, Message::zeros(0, 10));
    assert_eq!(net.last(Host::A, ChunkType::DATA).tag(), 78);
    // T1 is stopped.
    net.run_for(Span::from_secs(20));
    assert_eq!(net.count(Host::A, ChunkType::INIT), 1);
    assert_eq!(net.count(Host::A, ChunkType::COOKIE_ECHO), 0);
}

// [9260:8.1-5, 8.1-6, 8.3-11]
#[test]
fn section_8_1_acknowledged_data_and_heartbeats_clear_the_count_of_the_association() {
    // Four retransmissions are the limit: two before the reply and three after it do not exceed it.
    let config = AssociationConfig {
        association_max_retrans: 4,
        path_max_retrans: 100,
        ..wide()
    };
    for answer in ["sack", "heartbeat", "none"] {
        let (mut net, a, _) = Net::established(1, &config);
        let first = first_tsn(&net, Host::A);
        net.filter = Box::new(|_| Fate::Drop);
        net.send(Host::A, a, Message::zeros(0, 1452));
        net.send(Host::A, a, Message::zeros(0, 1452));
        // Timeouts after 1 and 3 s.
        net.run_for(Span::from_millis(3500));
        match answer {
            "sack" => net.as_peer(Host::A, &[sack(first, 60_000)]).expect("accepted"),
            "heartbeat" => {
                let now = net.now;
                net.a.request_heartbeat(now, a, whimbrel_proto::PathId(0));
                net.run_for(Span::ZERO);
                let sent = net.last(Host::A, ChunkType::HEARTBEAT);
                let Chunk::Heartbeat(info) = sent.chunks()[0] else {
                    panic!("HEARTBEAT")
                };
                net.as_peer(Host::A, &[Chunk::HeartbeatAck(info)]).expect("accepted");
            }
            _ => {}
        }
        let timeouts = |net: &Net| {
            net.a
                .association(a)
                .map_or(0, |association| association.stats().timeouts)
        };
        net.run_until(Span::from_secs(400), "five timeouts", |net| {
            timeouts(net) >= 5 || net.state(Host::A, a) == State::Closed
        });
        let state = net.state(Host::A, a);
        assert_eq!(state == State::Established, answer != "none", "{answer}");
    }
}

// [9260:12.4-4, 6.7-4]
#[test]
fn section_12_4_a_cumulative_ack_of_a_tsn_never_sent_aborts() {
    let (mut net, a, tag, tsn) = in_state(State::Established);
    let result = net.forge(Host::A, tag, &[sack(tsn, 60_000)]);
    assert_eq!(
        (result, net.state(Host::A, a)),
        (Err(Discard::Unexpected), State::Closed)
    );
    assert_eq!(net.last(Host::A, ChunkType::ABORT).causes(), [13]);
}

// [9260:4-10, 4-12, 9.2-21]
#[test]
fn section_4_messages_are_refused_after_the_shutdown_has_started() {
    for (state, takes) in [
        (State::CookieWait, true),
        (State::CookieEchoed, true),
        (State::Established, true),
        (State::ShutdownPending, false),
        (State::ShutdownSent, false),
        (State::ShutdownReceived, false),
        (State::ShutdownAckSent, false),
    ] {
        let (mut net, a, ..) = in_state(state);
        let now = net.now;
        assert_eq!(net.a.send(now, a, Message::zeros(0, 10)).is_ok(), takes, "{state:?}");
    }
}

// [9260:4-9, 6.2-18]
#[test]
fn section_4_data_in_shutdown_sent_is_acknowledged_without_delay() {
    let (mut net, _, tag, _) = in_state(State::ShutdownSent);
    let before = net.wire.len();
    net.forge(Host::A, tag, &[Chunk::Data(data(1000, 0, b"late"))])
        .expect("accepted");
    let Chunk::Shutdown { cumulative_tsn_ack } = net.wire[before].chunks()[0] else {
        panic!("no SHUTDOWN")
    };
    assert_eq!(cumulative_tsn_ack, Tsn(1000));
}

// [9260:4-3, 4-4, 4-5, 4-6, 4-7, 4-8]
#[test]
fn section_4_t1_retransmits_init_and_cookie_echo_up_to_the_limit() {
    let config = AssociationConfig {
        max_init_retransmits: 3,
        ..quiet()
    };
    for (lost, chunk_type) in [
        (ChunkType::INIT, ChunkType::INIT),
        (ChunkType::COOKIE_ECHO, ChunkType::COOKIE_ECHO),
    ] {
        let mut net = Net::new(1);
        net.filter = Box::new(move |packet| if packet.has(lost) { Fate::Drop } else { Fate::Deliver });
        net.connect(&config, 1);
        net.run_for(Span::from_secs(100));
        assert_eq!(net.count(Host::A, chunk_type), 4, "{lost:?}");
        let times = net.times(Host::A, chunk_type, net.sent(Host::A, chunk_type)[0].at);
        assert_eq!(times, [0, 1000, 3000, 7000], "{lost:?}");
        let reason = net.close_reason(Host::A);
        assert_eq!(reason, Some(whimbrel_proto::CloseReason::HandshakeTimeout), "{lost:?}");
    }
}

// [9260:1.3-1]
#[test]
fn section_1_3_two_endpoints_have_at_most_one_association() {
    let (mut net, ..) = Net::established(2, &quiet());
    for index in 0..2 {
        let now = net.now;
        let again = net.a.connect(now, quiet(), 4002, &addrs(Host::B, 2)[index..=index]);
        assert!(
            matches!(again, Err(whimbrel_proto::ConnectError::Exists(_))),
            "{again:?}"
        );
    }
    assert_eq!(net.a.associations().count(), 1);
}

// [9260:1.3-2]
#[test]
fn section_1_3_all_addresses_of_an_endpoint_use_one_port() {
    let (mut net, a, _) = confirmed(3, &quiet());
    // Data on each path, and the replies to it.
    for cut_paths in [&[][..], &[0], &[0, 1]] {
        cut(&mut net, cut_paths);
        net.send(Host::A, a, Message::zeros(0, 1000));
        net.run_for(Span::from_secs(100));
    }
    for host in [Host::A, Host::B] {
        for local in addrs(host, 3) {
            let sent: Vec<_> = net.wire.iter().filter(|sent| sent.local == local).collect();
            let with_data = sent.iter().filter(|sent| sent.has(ChunkType::DATA)).count();
            assert!(!sent.is_empty() && (host == Host::B || with_data > 0), "{local}");
            for sent in sent {
                let header = view(&sent.bytes).header();
                assert_eq!(
                    (header.source_port, header.destination_port),
                    (port(host), port(host.other()))
                );
            }
        }
    }
}

// [9260:1.3-3]
#[test]
fn section_1_3_a_packet_to_another_port_does_not_reach_the_association() {
    let (mut net, _, b) = Net::established(1, &quiet());
    let (tag, first) = (net.tag_of(Host::B), first_tsn(&net, Host::A));
    let before = net.wire.len();
    let message = Chunk::Data(data(first, 0, b"for the endpoint of port 4003"));
    // Address, tag and peer are correct.
    let to_other = packet(port(Host::A), 4003, tag, core::slice::from_ref(&message));
    assert_eq!(net.deliver(Host::B, &to_other), Err(Discard::NotForUs));
    let abort = packet(
        port(Host::A),
        4003,
        tag,
        &[Chunk::Abort {
            tag_reflected: false,
            causes: Causes::from_wire_bytes(&[]),
        }],
    );
    assert_eq!(net.deliver(Host::B, &abort), Err(Discard::NotForUs));
    assert_eq!((net.wire.len(), net.contents(Host::B).len()), (before, 0));
    assert_eq!(net.state(Host::B, b), State::Established);
    net.as_peer(Host::B, &[message]).expect("accepted");
    assert_eq!(net.contents(Host::B).len(), 1);
}
