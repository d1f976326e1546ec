//! Broken links: route errors and local repair (RFC 3561 §6.11, §6.12).

use super::*;

#[test]
fn a_break_far_from_the_destination_sends_route_errors_to_precursors() {
    // 0 - 1 - 2 - 3 - 4 without local repair: 2 loses 3 and sends an error to 1, which sends one to 0.
    let config = AodvConfig {
        local_repair: false,
        ..config()
    };
    let mut net = line(&config, 5);
    net.send(0, 4);
    net.run_for(Span::from_secs(2));
    assert_eq!(net.delivered(), 1);
    let seq = aodv(&net, 2).route(net.now, 4).expect("there is a route").0;
    net.air.clear();
    net.set_link(2, 3, false);
    let packet = net.send(0, 4);
    net.run_for(Span::from_millis(30));
    assert_eq!(net.places[packet as usize], PacketState::Dropped(Cause::LinkBroken, 2));
    let lost = |destination, seq| Unreachable { destination, seq };
    let rerr = |unreachable| Rerr {
        no_delete: false,
        unreachable,
    };
    // One precursor: unicast (§6.11). Node 1 is a precursor of node 3 too, the next hop of the route (§6.7).
    let [far, near] = [lost(4, seq + 1), lost(3, 0)];
    assert_eq!(
        errors(&net),
        [(2, Some(1), rerr(vec![near, far])), (1, Some(0), rerr(vec![far]))]
    );
    for node in 0..3 {
        assert_eq!(net.agents[node].next_hop(net.now, 4), None, "node {node}");
    }
    // §6.3: the next request asks for a newer route and starts with a TTL of the last hop count plus two.
    net.air.clear();
    net.send(0, 4);
    net.run_for(Span::from_millis(1));
    let (_, rreq) = requests(&net, 0)[0];
    assert_eq!((rreq.destination_seq, rreq.ttl), (Some(seq + 1), 6));
}

#[test]
fn route_errors_to_several_precursors_are_broadcast() {
    // 0 and 1 use 2 - 3 - 4.
    let config = AodvConfig {
        local_repair: false,
        ..config()
    };
    let mut net = net(&config, 5, &[(0, 2), (1, 2), (2, 3), (3, 4)]);
    net.send(0, 4);
    net.run_for(Span::from_secs(1));
    net.send(1, 4);
    net.run_for(Span::from_secs(1));
    net.air.clear();
    net.set_link(2, 3, false);
    net.send(0, 4);
    net.run_for(Span::from_millis(30));
    let reported = errors(&net);
    assert_eq!((reported.len(), reported[0].0, reported[0].1), (1, 2, None));
    assert_eq!(
        (net.agents[0].next_hop(net.now, 4), net.agents[1].next_hop(net.now, 4)),
        (None, None)
    );
}

#[test]
fn a_break_near_the_destination_is_repaired_locally() {
    // 0 - 1 - 2 - 3 - 4 and 2 - 5 - 6 - 4: 2 loses 3 and finds the longer route (§6.12).
    let config = config();
    let mut net = net(&config, 7, &[(0, 1), (1, 2), (2, 3), (3, 4), (2, 5), (5, 6), (6, 4)]);
    net.send(0, 4);
    net.run_for(Span::from_secs(2));
    let (seq, hops) = aodv(&net, 2).route(net.now, 4).expect("there is a route");
    assert_eq!(hops, 2);
    net.air.clear();
    net.set_link(2, 3, false);
    let first = net.send(0, 4);
    net.run_for(Span::from_millis(12));
    let waiting = net.send(0, 4);
    net.run_for(Span::from_secs(1));
    // max(last hop count 2, half of 2 hops to the source) + LOCAL_ADD_TTL
    let (_, rreq) = requests(&net, 2)[0];
    assert_eq!(
        (rreq.ttl, rreq.destination, rreq.destination_seq),
        (4, 4, Some(seq + 1))
    );
    assert!(matches!(net.places[first as usize], PacketState::Delivered(_)));
    assert!(matches!(net.places[waiting as usize], PacketState::Delivered(_)));
    assert_eq!(aodv(&net, 2).route(net.now, 4), Some((seq + 1, 3)));
    // The new route is longer: N is set, and the route is kept.
    let reported = errors(&net);
    assert_eq!((reported[0].0, reported[0].2.no_delete), (2, true));
    assert!(reported.iter().all(|(_, _, rerr)| rerr.no_delete));
    assert_eq!(net.agents[0].next_hop(net.now, 4), Some(1));
    assert_eq!(net.agents[2].counters().repairs, 1);
}

#[test]
fn a_failed_repair_sends_an_error_and_drops_its_packets() {
    let mut net = line(&config(), 5);
    net.send(0, 4);
    net.run_for(Span::from_secs(2));
    net.air.clear();
    net.set_link(2, 3, false);
    let packet = net.send(0, 4);
    // RING_TRAVERSAL_TIME = 80 ms * (4 + 2) after 10 ms
    net.run_for(Span::from_millis(480));
    assert!(errors(&net).is_empty(), "no error during the repair");
    assert_eq!(net.places[packet as usize], PacketState::Agent(2));
    net.run_for(Span::from_millis(100));
    assert_eq!(net.places[packet as usize], PacketState::Dropped(Cause::LinkBroken, 2));
    assert_eq!(
        errors(&net)
            .iter()
            .map(|(from, to, _)| (*from, *to))
            .collect::<Vec<_>>(),
        [(2, Some(1)), (1, Some(0))]
    );
    net.check_conservation();
}

/// Returns a configuration with one flood of NET_TRAVERSAL_TIME = 2.8 s and a hold-off of 10 s.
fn persistent() -> AodvConfig {
    AodvConfig {
        persistent_repair: true,
        discovery_holdoff: Span::from_secs(10),
        rreq_retries: 0,
        ttl_threshold: 1,
        gratuitous_reply: false,
        ..config()
    }
}

#[test]
fn a_persistent_repair_restarts_with_the_next_packet() {
    // The source keeps its route longer than that.
    let config = AodvConfig {
        active_route_timeout: Span::from_secs(20),
        ..persistent()
    };
    let mut net = line(&config, 5);
    net.send(0, 4);
    net.run_for(Span::from_secs(1));
    net.air.clear();
    net.set_link(3, 4, false);
    net.send(0, 4);
    // The repair found nothing, and no packet waits when the hold-off ends.
    net.run_for(Span::from_millis(13_500));
    assert_eq!(requests(&net, 3).len(), 1);
    net.set_link(3, 4, true);
    let packet = net.send(0, 4);
    net.run_for(Span::from_secs(1));
    let asked = requests(&net, 3);
    assert!(asked.len() == 2 && asked.iter().all(|(_, rreq)| rreq.originator == 3));
    assert!(matches!(net.places[packet as usize], PacketState::Delivered(_)));
}

#[test]
fn a_persistent_repair_repeats_requests_and_sends_no_error() {
    let mut net = net(&persistent(), 6, &[(0, 1), (1, 2), (2, 3), (3, 4), (3, 5)]);
    net.send(0, 4);
    net.run_for(Span::from_secs(1));
    let (seq, _) = aodv(&net, 3).route(net.now, 4).expect("there is a route");
    net.air.clear();
    let start = net.now;
    net.set_link(3, 4, false);
    let first = net.send(0, 4);
    net.run_for(Span::from_secs(3));
    assert_eq!(net.places[first as usize], PacketState::Dropped(Cause::NoRoute, 3));
    let late = net.send(0, 4);
    net.run_for(Span::from_secs(5));
    // Other nodes receive the old route in replies.
    let other = net.send(5, 4);
    net.run_for(Span::from_secs(1));
    let (from, to, rrep) = *replies(&net).last().expect("a node replies");
    assert_eq!((from, to, rrep.destination_seq), (3, 5, seq));
    net.set_link(3, 4, true);
    for packet in [late, other] {
        assert_eq!(net.places[packet as usize], PacketState::Agent(3));
    }
    net.run_for(Span::from_secs(5));
    for packet in [late, other] {
        assert!(matches!(net.places[packet as usize], PacketState::Delivered(_)));
    }
    let asked = requests(&net, 3);
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!(asked[0].1.destination_seq, Some(seq + 1));
    let between = asked[1].0.since(asked[0].0);
    assert_eq!(between, Span::from_millis(12_800));
    assert!(asked[0].0.since(start) < Span::from_millis(20));
    assert!(errors(&net).is_empty(), "no error is sent");
    // The source is as close as before: an error is sent, and no repair starts.
    net.send(0, 4);
    net.run_for(Span::from_secs(1));
    net.set_link(2, 3, false);
    let packet = net.send(0, 4);
    net.run_for(Span::from_millis(100));
    assert_eq!(net.places[packet as usize], PacketState::Dropped(Cause::LinkBroken, 2));
    assert!(!errors(&net).is_empty());
}
