//! Data leaves a path whose acknowledgements stay away, before its timeout.

use crate::support::paths::{confirmed, cut, data_sent, is_on, path, state_event};
use crate::support::{Fate, Host, InFlight, Net};
use whimbrel_control::{Scheme, Span, Time};
use whimbrel_proto::{AssocId, AssociationConfig, AssociationStats, Event, Message, PathState};
use whimbrel_wire::{Chunk, ChunkType};

fn config(leave_silent_paths: bool) -> AssociationConfig {
    AssociationConfig {
        scheme: Scheme::by_name("multipath").expect("it is registered"),
        leave_silent_paths: Some(leave_silent_paths),
        ..AssociationConfig::default()
    }
}

fn stats(net: &Net, id: AssocId) -> AssociationStats {
    net.a.association(id).expect("established").stats()
}

/// Sends a message of this length each `period`, for `span`. Returns the longest time in which none arrived.
fn messages(net: &mut Net, a: AssocId, (period, len): (u64, u32), span: Span) -> Span {
    let (end, mut longest, mut last) = (net.now + span, Span::ZERO, net.now);
    let mut next = net.now;
    while net.now < end {
        if net.now >= next {
            // The buffers may be full.
            let _ = net.a.send(net.now, a, Message::zeros(0, len));
            next += Span::from_millis(period);
        }
        net.run_for(Span::from_millis(1));
        if !net.contents(Host::B).is_empty() {
            net.forget_contents();
            last = net.now;
        }
        longest = longest.max(net.now.since(last));
    }
    longest
}

/// The path of new data while little is sent.
fn best(net: &Net, since: Time) -> usize {
    data_sent(net, since).last().expect("data was sent").1
}

const SPARSE: (u64, u32) = (10, 100);
/// 9.6 Mbit/s.
const MUCH: (u64, u32) = (1, 1200);

/// Paths other than the first have 30 ms more in each direction. One of `lossy` packets with data is lost on them.
fn slower_beside(net: &mut Net, is_cut: bool, lossy: usize) {
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        if is_on(packet, 0) {
            return if is_cut { Fate::Drop } else { Fate::Deliver };
        }
        count += usize::from(packet.has(ChunkType::DATA));
        if packet.has(ChunkType::DATA) && count % lossy == lossy - 1 {
            Fate::Drop
        } else {
            Fate::Delay(Span::from_millis(30))
        }
    });
}

/// Cuts the first path, the best one, for 3 s while messages are sent. Returns the longest silence of the receiver.
fn through_a_cut(config: &AssociationConfig, paths: usize, traffic: (u64, u32), lossy: usize) -> (Net, AssocId, Span) {
    let (mut net, a, _) = confirmed(paths, config);
    slower_beside(&mut net, false, usize::MAX);
    messages(&mut net, a, traffic, Span::from_secs(2));
    slower_beside(&mut net, true, lossy);
    let silence = messages(&mut net, a, traffic, Span::from_secs(3));
    (net, a, silence)
}

#[test]
fn messages_leave_a_path_that_is_cut_in_time() {
    for paths in [2, 3] {
        let silence = |leaves| through_a_cut(&config(leaves), paths, SPARSE, usize::MAX).2;
        let (with, without) = (silence(true), silence(false));
        println!("{paths} paths: nothing for {with}, without {without}");
        // A round-trip time and 10 ms, the other path's 40 ms, and the time between messages.
        assert!(with < Span::from_millis(85), "{with}");
        assert!(without > Span::from_millis(200), "{without}");
    }
}

#[test]
fn much_data_leaves_a_path_that_is_cut_although_copies_are_lost() {
    for (lossy, limit) in [(usize::MAX, 150), (20, 400)] {
        let silence = |leaves| through_a_cut(&config(leaves), 2, MUCH, lossy).2;
        let (with, without) = (silence(true), silence(false));
        println!("nothing for {with}, without {without}");
        assert!(with < Span::from_millis(limit), "{with}");
        assert!(without > Span::from_millis(800), "{without}");
    }
}

#[test]
fn a_path_that_was_cut_is_used_again_when_it_answers() {
    let (mut net, a, _) = through_a_cut(&config(true), 2, SPARSE, usize::MAX);
    assert_ne!(path(&net, a, 0).state, PathState::Active, "the HEARTBEAT was lost");
    slower_beside(&mut net, false, usize::MAX);
    let start = net.now;
    messages(&mut net, a, SPARSE, Span::from_secs(10));
    assert_eq!(path(&net, a, 0).state, PathState::Active);
    assert_eq!(best(&net, start), 0);
}

#[test]
fn a_path_that_was_only_late_has_no_loss_and_stays_in_use() {
    let (mut net, a, _) = confirmed(2, &config(true));
    slower_beside(&mut net, false, usize::MAX);
    messages(&mut net, a, SPARSE, Span::from_secs(2));
    let before = stats(&net, a);
    // Its packets of 300 ms arrive together.
    let until = net.now + Span::from_millis(300);
    while net.now < until {
        let left = until.since(net.now);
        net.filter = Box::new(move |packet| Fate::Delay(if is_on(packet, 0) { left } else { Span::from_millis(30) }));
        messages(&mut net, a, SPARSE, Span::from_millis(10));
    }
    slower_beside(&mut net, false, usize::MAX);
    messages(&mut net, a, SPARSE, Span::from_secs(5));
    let after = stats(&net, a);
    let copies = after.copies - before.copies;
    assert!((1..60).contains(&copies), "{copies} copies");
    assert_eq!((after.timeouts, after.window_reductions), (0, 0), "{after:?}");
    assert_eq!(path(&net, a, 0).state, PathState::Active);
    assert_eq!(best(&net, until), 0, "it is the best path again");
}

#[test]
fn a_path_whose_round_trip_time_varies_is_not_silent() {
    let (mut net, a, _) = confirmed(2, &config(true));
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        if !is_on(packet, 0) {
            return Fate::Delay(Span::from_millis(100));
        }
        count += 1;
        Fate::Delay(Span::from_millis(if count % 20 < 10 { 0 } else { 25 }))
    });
    messages(&mut net, a, SPARSE, Span::from_secs(2));
    let before = stats(&net, a).copies;
    messages(&mut net, a, SPARSE, Span::from_secs(10));
    let copies = stats(&net, a).copies - before;
    assert!(copies < 20, "{copies} copies");
}

#[test]
fn a_failure_that_two_timers_see_is_counted_once() {
    for traffic in [SPARSE, MUCH] {
        let after = |leaves, millis| {
            let (mut net, a, _) = confirmed(2, &config(leaves));
            slower_beside(&mut net, false, usize::MAX);
            messages(&mut net, a, traffic, Span::from_secs(2));
            slower_beside(&mut net, true, usize::MAX);
            messages(&mut net, a, traffic, Span::from_millis(millis));
            let path = path(&net, a, 0);
            (path.errors, path.rto, path.state)
        };
        let failed = (1, Span::from_secs(2), PathState::PotentiallyFailed);
        assert_eq!(after(true, 1800), failed, "{traffic:?}");
        assert_eq!(after(false, 1800), failed, "{traffic:?}: the test would show nothing");
    }
}

#[test]
fn a_heartbeat_lost_in_a_short_cut_means_nothing_once_data_has_arrived() {
    for traffic in [SPARSE, MUCH] {
        let (mut net, a, _) = confirmed(2, &config(true));
        slower_beside(&mut net, false, usize::MAX);
        messages(&mut net, a, traffic, Span::from_secs(2));
        let (before, heartbeats) = (stats(&net, a), net.count(Host::A, ChunkType::HEARTBEAT));
        slower_beside(&mut net, true, usize::MAX);
        messages(&mut net, a, traffic, Span::from_millis(70));
        slower_beside(&mut net, false, usize::MAX);
        messages(&mut net, a, traffic, Span::from_secs(4));
        assert!(
            net.count(Host::A, ChunkType::HEARTBEAT) > heartbeats,
            "the path was silent"
        );
        assert!(stats(&net, a).copies > before.copies);
        let states = net.events_of(Host::A).into_iter();
        let failures: Vec<Event> = states
            .filter(|event| *event == state_event(0, PathState::PotentiallyFailed))
            .collect();
        assert!(failures.is_empty(), "{traffic:?}: {failures:?}");
    }
}

#[test]
fn an_association_whose_paths_are_all_cut_ends_as_soon_as_without() {
    let end = |leaves| {
        let (mut net, a, _) = confirmed(2, &config(leaves));
        slower_beside(&mut net, false, usize::MAX);
        messages(&mut net, a, MUCH, Span::from_secs(2));
        slower_beside(&mut net, true, usize::MAX);
        messages(&mut net, a, MUCH, Span::from_millis(200));
        cut(&mut net, &[0, 1]);
        let at = net.now;
        let limit = Span::from_secs(600);
        net.run_until(limit, "the end", |net| net.close_reason(Host::A).is_some());
        net.now.since(at)
    };
    let (with, without) = (end(true), end(false));
    println!("ended after {with}, without {without}");
    assert!(with <= without + Span::from_secs(2), "{with}, {without}");
}

#[test]
fn a_failure_that_the_heartbeat_shows_first_counts_for_the_association() {
    for leaves in [true, false] {
        let config = AssociationConfig {
            association_max_retrans: 0,
            ..config(leaves)
        };
        let (mut net, a, _) = confirmed(2, &config);
        // The primary path is the slow one: HEARTBEATs of the other do not count for the association by themselves (§8.1).
        let second = |is_cut| {
            move |packet: &InFlight<'_>| match (is_on(packet, 1), is_cut) {
                (true, true) => Fate::Drop,
                (true, false) => Fate::Deliver,
                (false, _) => Fate::Delay(Span::from_millis(30)),
            }
        };
        net.filter = Box::new(second(false));
        messages(&mut net, a, MUCH, Span::from_secs(2));
        net.filter = Box::new(second(true));
        messages(&mut net, a, MUCH, Span::from_millis(1800));
        assert!(net.close_reason(Host::A).is_some(), "{leaves}");
    }
}

#[test]
fn it_is_refused_without_what_it_needs() {
    let config = AssociationConfig {
        opportunistic_retransmission: Some(false),
        ..config(true)
    };
    let error = config.validate().expect_err("copies are off");
    assert_eq!(error.field, "leave_silent_paths");
    let absent = AssociationConfig {
        leave_silent_paths: None,
        ..config
    };
    absent.validate().expect("nothing was asked for");
}

#[test]
fn nothing_is_left_without_heartbeats_or_with_one_path() {
    let of = |leaves, hb_interval, paths| {
        let config = AssociationConfig {
            hb_interval,
            ..config(leaves)
        };
        let (net, a, _) = through_a_cut(&config, paths, SPARSE, usize::MAX);
        stats(&net, a)
    };
    assert_eq!(of(true, Span::ZERO, 2), of(false, Span::ZERO, 2));
    let usual = AssociationConfig::default().hb_interval;
    assert_eq!(of(true, usual, 1), of(false, usual, 1));
    assert_ne!(of(true, usual, 2), of(false, usual, 2), "the test would show nothing");
}

/// The number of chunks with the I bit, and of all.
fn requests(net: &Net) -> (usize, usize) {
    let sent = net.sent(Host::A, ChunkType::DATA);
    let chunks = sent.iter().flat_map(|sent| {
        let chunks = crate::support::view(&sent.bytes).chunks();
        chunks.filter_map(|chunk| match chunk {
            Ok(Chunk::Data(data)) => Some(data.immediate),
            _ => None,
        })
    });
    let asks: Vec<bool> = chunks.collect();
    (asks.iter().filter(|asks| **asks).count(), asks.len())
}

#[test]
fn a_sack_is_asked_for_where_little_is_sent() {
    let (mut net, a, _) = confirmed(2, &config(true));
    messages(&mut net, a, (50, 100), Span::from_secs(1));
    assert_eq!(requests(&net), (20, 20));
    let (mut net, a, _) = confirmed(2, &config(true));
    for _ in 0..400 {
        net.send(Host::A, a, Message::zeros(0, 1200));
    }
    net.run_for(Span::from_secs(5));
    let (asks, all) = requests(&net);
    assert!(asks <= 8 && all >= 400, "{asks} of {all}");
    let (mut net, a, _) = confirmed(1, &config(true));
    messages(&mut net, a, (50, 100), Span::from_secs(1));
    assert_eq!(requests(&net).0, 0, "with one path nothing can be left");
}
