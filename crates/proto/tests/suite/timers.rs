//! Round-trip times and the timer T3-rtx (RFC 9260 §6.3.1, §6.3.2).

use super::congestion::{PMDCS, alone, config, data_sent, sack, send_full, wide};
use crate::support::paths::path;
use crate::support::{Host, Net, addrs};
use whimbrel_control::Span;
use whimbrel_control::multipath::RetransmitPath;
use whimbrel_proto::{AssocId, AssociationConfig, PathId, TraceEvent, TraceKinds};
use whimbrel_wire::ChunkType;

// [9260:6.3.1-1, 6.3.1-2]
#[test]
fn section_6_3_1_round_trips_are_measured_once_each() {
    let fast = AssociationConfig {
        rto_min: Span::from_millis(1),
        sack_frequency: 1,
        ..config()
    };
    let (mut net, a, _) = Net::established(1, &fast);
    // The INIT was the first sample: 20 ms. RTO = 20 + 4 * 10.
    assert_eq!(
        (path(&net, a, 0).srtt, path(&net, a, 0).rto),
        (Some(Span::from_millis(20)), Span::from_millis(60))
    );
    net.a.set_trace(TraceKinds::RTT);
    send_full(&mut net, a, 60);
    net.run_for(Span::from_millis(115));
    let mut samples = Vec::new();
    net.a.drain_trace(&mut |record| {
        if let TraceEvent::Rtt { sample, .. } = record.event {
            samples.push(sample.as_millis());
        }
    });
    assert!((3..=5).contains(&samples.len()), "{samples:?}");
    assert!(samples.iter().all(|sample| *sample == 20), "{samples:?}");
}

// [9260:6.3.1-4, 6.3.1-5, 16-2]
#[test]
fn section_6_3_1_karn_retransmitted_chunks_give_no_samples() {
    let (mut net, a) = alone(1, &wide());
    net.a.set_trace(TraceKinds::RTT);
    let count = |net: &mut Net| {
        let mut samples = 0;
        net.a
            .drain_trace(&mut |record| samples += usize::from(matches!(record.event, TraceEvent::Rtt { .. })));
        samples
    };
    send_full(&mut net, a, 1);
    net.run_for(Span::from_millis(1500));
    sack(&mut net, 1, &[]).expect("accepted");
    assert_eq!(count(&mut net), 0, "sent twice");
    assert_eq!(path(&net, a, 0).rto, Span::from_secs(2), "the back-off stays");
    send_full(&mut net, a, 1);
    net.run_for(Span::from_millis(40));
    sack(&mut net, 2, &[]).expect("accepted");
    assert_eq!(count(&mut net), 1);
    assert_eq!(
        path(&net, a, 0).rto,
        Span::from_secs(1),
        "a sample ends the back-off, down to RTO.Min"
    );
    // A chunk after a retransmitted one gives no sample either: 0 is lost, and 5 was timed after 1 to 4.
    let (mut net, a) = alone(1, &wide());
    net.a.set_trace(TraceKinds::RTT);
    send_full(&mut net, a, 5);
    sack(&mut net, 0, &[(1, 2)]).expect("accepted");
    send_full(&mut net, a, 1);
    net.run_for(Span::from_millis(10));
    sack(&mut net, 0, &[(1, 3)]).expect("accepted");
    sack(&mut net, 0, &[(1, 4)]).expect("accepted");
    let _ = count(&mut net);
    net.run_for(Span::from_millis(30));
    sack(&mut net, 6, &[]).expect("accepted");
    assert_eq!(count(&mut net), 0);
}

// [9260:6.1-18, 6.1-20, 6.1-21]
#[test]
fn section_6_3_2_when_t3_rtx_runs() {
    // R1: it runs from the first DATA chunk on; later DATA chunks do not restart it.
    let (mut net, a) = alone(1, &wide());
    let start = net.now;
    send_full(&mut net, a, 1);
    net.run_for(Span::from_millis(400));
    send_full(&mut net, a, 1);
    net.run_for(Span::from_millis(800));
    assert_eq!(data_sent(&net, start)[2], (1000, vec![0]));
    // R2: nothing is outstanding, so no timer runs.
    let (mut net, a) = alone(1, &wide());
    send_full(&mut net, a, 2);
    assert!(net.a.next_timeout().is_some());
    sack(&mut net, 2, &[]).expect("accepted");
    net.run_for(Span::from_secs(100));
    assert_eq!(net.a.next_timeout(), None);
    // R3: it is restarted when the earliest chunk is acknowledged, not when a later one is.
    for (first, expected) in [(true, 1600), (false, 1000)] {
        let (mut net, a) = alone(1, &wide());
        let start = net.now;
        send_full(&mut net, a, 2);
        net.run_for(Span::from_millis(600));
        if first {
            sack(&mut net, 1, &[]).expect("accepted");
        } else {
            sack(&mut net, 0, &[(1, 1)]).expect("accepted");
        }
        net.run_for(Span::from_millis(1200));
        assert_eq!(data_sent(&net, start)[2].0, expected);
    }
}

/// One chunk is in flight on path 1. The next one, sent on path 0, has been acknowledged by a Gap Ack Block.
fn second_chunk_acknowledged() -> (Net, AssocId) {
    let two = AssociationConfig {
        retransmit_path: Some(RetransmitPath::Same),
        ..wide()
    };
    let (mut net, a) = alone(2, &two);
    let now = net.now;
    net.a.set_primary(now, a, PathId(1));
    send_full(&mut net, a, 1);
    net.a.set_primary(now, a, PathId(0));
    send_full(&mut net, a, 1);
    net.run_for(Span::from_millis(300));
    sack(&mut net, 0, &[(1, 1)]).expect("accepted");
    (net, a)
}

// [9260:6.2.1-1]
#[test]
fn section_6_3_2_r4_a_receiver_that_reneges_starts_the_timer_again() {
    let (mut net, a) = second_chunk_acknowledged();
    assert_eq!(path(&net, a, 0).flight, 0);
    net.run_for(Span::from_millis(300));
    let taken_back = net.now;
    sack(&mut net, 0, &[]).expect("accepted");
    assert_eq!(path(&net, a, 0).flight, PMDCS, "in flight again");
    net.run_for(Span::from_millis(1100));
    let on_first_path: Vec<_> = net
        .sent(Host::A, ChunkType::DATA)
        .iter()
        .filter(|sent| sent.remote == addrs(Host::B, 1)[0] && sent.at > taken_back)
        .map(|sent| sent.at.since(taken_back).as_millis())
        .collect();
    assert_eq!(on_first_path, [1000]);
}

/// Data on which the receiver reneged is acknowledged again: it was the earliest chunk in flight on its path.
#[test]
fn section_6_3_2_r3_data_acknowledged_again_after_reneging_restarts_the_timer() {
    let (mut net, a) = second_chunk_acknowledged();
    send_full(&mut net, a, 1);
    sack(&mut net, 0, &[]).expect("accepted");
    assert_eq!(path(&net, a, 0).flight, 2 * PMDCS, "in flight again");
    net.run_for(Span::from_millis(900));
    sack(&mut net, 0, &[(1, 1)]).expect("accepted");
    net.run_for(Span::from_millis(900));
    assert_eq!((path(&net, a, 0).flight, path(&net, a, 0).errors), (PMDCS, 0));
    net.run_for(Span::from_millis(200));
    assert_eq!(path(&net, a, 0).errors, 1);
}

/// A SACK that another one overtook looks like reneging. What the next SACK acknowledges again arrived before the timeout.
#[test]
fn section_8_2_data_acknowledged_again_does_not_clear_the_errors_of_its_path() {
    let (mut net, a) = alone(1, &wide());
    send_full(&mut net, a, 3);
    net.run_for(Span::from_millis(300));
    sack(&mut net, 0, &[(1, 1)]).expect("accepted");
    net.run_for(Span::from_millis(1100));
    assert_eq!(path(&net, a, 0).errors, 1);
    sack(&mut net, 0, &[]).expect("accepted");
    sack(&mut net, 0, &[(1, 1)]).expect("accepted");
    assert_eq!(path(&net, a, 0).errors, 1);
}

/// Data that was lost on a path and is retransmitted on another one leaves no timer running.
#[test]
fn section_6_3_2_r2_a_path_whose_data_moved_to_another_has_no_timer() {
    let moving = AssociationConfig {
        retransmit_path: Some(RetransmitPath::Alternate),
        ..wide()
    };
    let (mut net, a) = alone(2, &moving);
    send_full(&mut net, a, 5);
    let start = net.now;
    net.run_for(Span::from_millis(500));
    // 0 is lost on path 0 and is retransmitted on path 1; all other data is acknowledged.
    for last in 1..=4 {
        sack(&mut net, 0, &[(1, last)]).expect("accepted");
    }
    assert_eq!((path(&net, a, 0).flight, path(&net, a, 1).flight), (0, PMDCS));
    net.run_for(Span::from_millis(400));
    // A new chunk on path 0 gets a full RTO.
    send_full(&mut net, a, 1);
    net.run_for(Span::from_millis(300));
    let timeouts = net.a.association(a).expect("established").stats().timeouts;
    assert_eq!((timeouts, data_sent(&net, start).len()), (0, 7));
    sack(&mut net, 6, &[]).expect("accepted");
    net.run_for(Span::from_secs(60));
    assert_eq!(net.a.association(a).expect("established").stats().timeouts, 0);
}
