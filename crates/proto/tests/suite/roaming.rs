//! Dynamic addresses (RFC 5061): data that must wait, requests that are refused, and addresses that must not be used again.

use crate::support::attacker::*;
use crate::support::{Fate, Host, Net, addr, addrs, packet};
use whimbrel_control::{Scheme, Span};
use whimbrel_proto::{
    AddressError, AssocId, AssociationConfig, CloseReason, Event, Message, PathState, Preset, State, TransportAddr,
};
use whimbrel_wire::{Asconf, Cause, Causes, Chunk, ChunkType, HeartbeatInfo, Parameter, Parameters};

fn request(correlation: u32, text: &str) -> (u32, std::net::IpAddr) {
    (correlation, addr(&format!("{text}:0")).ip())
}

fn add_ip(correlation: u32, text: &str) -> Parameter<'static> {
    let (correlation, address) = request(correlation, text);
    Parameter::AddIp { correlation, address }
}

fn delete_ip(correlation: u32, text: &str) -> Parameter<'static> {
    let (correlation, address) = request(correlation, text);
    Parameter::DeleteIp { correlation, address }
}

/// Drops all packets from or to an address.
fn cut(net: &mut Net, address: TransportAddr) {
    net.filter = Box::new(move |packet| {
        let is_cut = packet.local == address || packet.remote == address;
        if is_cut { Fate::Drop } else { Fate::Deliver }
    });
}

fn asconfs(net: &Net) -> Vec<crate::support::Sent> {
    let all = net.sent(Host::A, ChunkType::ASCONF);
    all.into_iter().cloned().collect()
}

// Nothing is sent from a removed address, whatever arrives later.
#[test]
fn late_acknowledgements_do_not_reactivate_a_removed_path() {
    let config = AssociationConfig {
        potentially_failed_max_retrans: Some(0),
        ..dynamic()
    };
    let (mut net, a, _) = Net::established(3, &config);
    for i in 0..200_u32 {
        net.send(Host::A, a, Message::new(0, i.to_be_bytes().repeat(300)));
    }
    // A full window is in flight when the address is removed.
    net.run_for(Span::from_millis(105));
    remove(&mut net, a, wifi()).expect("one of two");
    let sent_before = net.wire.len();
    // One SACK acknowledges many packets, including some that have not been retransmitted yet.
    let mut sacks = 0;
    net.filter = Box::new(move |packet| {
        sacks += u32::from(packet.has(ChunkType::SACK));
        if packet.has(ChunkType::SACK) && sacks < 20 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    net.run_for(Span::from_millis(15));
    let late_sack = |sent: &crate::support::Sent| sent.remote == wifi() && sent.has(ChunkType::SACK);
    assert!(
        net.wire[sent_before..].iter().any(late_sack),
        "data in flight is acknowledged afterwards"
    );
    // The path that took over fails, and another one is selected.
    cut(&mut net, addrs(Host::B, 2)[1]);
    net.run_for(Span::from_secs(30));
    let from_old = net.wire[sent_before..].iter().filter(|sent| sent.local == wifi());
    assert_eq!(from_old.count(), 0);
    assert_eq!(net.contents(Host::B).len(), 200);
}

// RFC 9260 §5.4: AUTH authenticates the sender, but not the source address of the packet.
#[test]
fn a_source_address_is_not_confirmed_by_the_packet_alone() {
    let (mut net, _, b) = established(1);
    let mut attacker = Attacker::new(&net);
    drop_packets_of(&mut net, Host::B);
    let victim = addr("10.6.6.6:0");
    let bytes = attacker.asconf(&[add_ip(1, "10.6.6.6"), delete_ip(2, "10.0.0.1")]);
    net.inject(Host::B, addrs(Host::B, 1)[0], victim, bytes);
    net.run_for(Span::from_millis(5));
    assert_eq!(answers(&net), []);
    assert_eq!(remotes(&mut net, Host::B, b), [victim]);
    for i in 0..50_u32 {
        net.send(Host::B, b, Message::new(0, i.to_be_bytes().repeat(300)));
    }
    let sent_before = net.wire.len();
    net.run_for(Span::from_secs(600));
    for sent in &net.wire[sent_before..] {
        let types = sent.types();
        let is_fit = [
            ChunkType::HEARTBEAT,
            ChunkType::AUTH,
            ChunkType::ASCONF_ACK,
            ChunkType::ABORT,
        ];
        assert!(types.iter().all(|chunk| is_fit.contains(chunk)), "{types:?}");
    }
    assert!(net.count(Host::B, ChunkType::HEARTBEAT) >= 5, "probed repeatedly");
    assert!(net.count(Host::B, ChunkType::HEARTBEAT) < 20, "but not without end");
    assert_eq!(net.close_reason(Host::B), Some(CloseReason::PeerUnreachable));
}

// The same with a peer that responds: data continues one round trip later.
#[test]
fn data_waits_for_the_verification_of_the_path() {
    let (mut net, a, b) = established(1);
    for i in 0..100_u32 {
        net.send(Host::B, b, Message::new(0, i.to_be_bytes().repeat(300)));
    }
    net.run_for(Span::from_millis(50));
    cut(&mut net, wifi());
    add(&mut net, a, lte()).expect("the request is valid");
    remove(&mut net, a, wifi()).expect("the request is valid");
    let start = net.now;
    net.run_for(Span::from_secs(10));
    let first_to = |net: &Net, chunk: ChunkType| {
        let all = net.sent(Host::B, chunk);
        all.iter()
            .find(|sent| sent.remote == lte())
            .map(|sent| sent.at.since(start))
    };
    let [asconf_ack, heartbeat, data] =
        [ChunkType::ASCONF_ACK, ChunkType::HEARTBEAT, ChunkType::DATA].map(|chunk| first_to(&net, chunk));
    let ms = Span::from_millis;
    assert_eq!((asconf_ack, heartbeat), (Some(ms(10)), Some(ms(10))));
    assert_eq!(data, Some(ms(30)), "when HEARTBEAT ACK arrives");
    assert_eq!(net.contents(Host::A).len(), 100);
    assert_eq!(asconfs(&net).len(), 1, "both changes in one ASCONF");
    assert_eq!(locals(&net, a), [lte()]);
}

/// A's ASCONFs are lost; the test builds the ASCONF-ACKs.
fn silent_peer(net: &mut Net) {
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::ASCONF) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
}

/// Answers the outstanding ASCONF: each request, by its correlation ID, with an error cause or with success.
fn answer(net: &mut Net, to: TransportAddr, outcomes: &[(u32, Option<Cause<'_>>)]) {
    let attacker = Attacker::impersonating(Host::B, net);
    let asconf = asconfs(net).pop().expect("an ASCONF");
    let Chunk::Asconf(Asconf { serial, .. }) = asconf.chunks()[1] else {
        panic!("ASCONF behind AUTH")
    };
    let mut list = Vec::new();
    for (correlation, cause) in outcomes {
        let mut causes = Vec::new();
        match cause {
            None => Parameter::Success {
                correlation: *correlation,
            }
            .emit(&mut list),
            Some(cause) => {
                cause.emit(&mut causes);
                Parameter::ErrorCauseIndication {
                    correlation: *correlation,
                    causes: Causes::from_wire_bytes(&causes),
                }
                .emit(&mut list);
            }
        }
    }
    let bytes = attacker.packet(&[Chunk::AsconfAck(Asconf {
        serial,
        parameters: Parameters::from_wire_bytes(&list),
    })]);
    net.inject(Host::A, to, addrs(Host::B, 1)[0], bytes);
    net.run_for(Span::from_millis(1));
}

fn refused(net: &Net) -> Vec<(TransportAddr, u16)> {
    let events = net.events_of(Host::A);
    let refused = events.iter().filter_map(|event| match event {
        Event::AddressRefused { addr, cause } => Some((*addr, *cause)),
        _ => None,
    });
    refused.collect()
}

fn still_works(net: &mut Net, a: AssocId) {
    net.filter = Box::new(|_| Fate::Deliver);
    net.send(Host::A, a, Message::new(0, &b"still there"[..]));
    net.run_for(Span::from_secs(2));
    assert_eq!(
        net.contents(Host::B).last().map(Vec::as_slice),
        Some(&b"still there"[..])
    );
}

/// One ASCONF asks a silent peer to replace the only address by a new one.
fn replacing() -> (Net, AssocId) {
    let (mut net, a, _) = established(1);
    silent_peer(&mut net);
    add(&mut net, a, lte()).expect("the request is valid");
    remove(&mut net, a, wifi()).expect("the request is valid");
    net.run_for(Span::from_millis(1));
    (net, a)
}

// RFC 5061 §4.3.2, §5.2: neither change takes effect, so the state is as before.
#[test]
fn a_refused_replacement_of_the_only_address_keeps_the_old_one() {
    let (mut net, a) = replacing();
    let causes = [Cause::ResourceShortage(&[]), Cause::DeleteLastAddress(&[])];
    let outcomes = [(1, Some(causes[0])), (2, Some(causes[1]))];
    answer(&mut net, lte(), &outcomes);
    assert_eq!(refused(&net), [(lte(), 0xa1), (wifi(), 0xa0)]);
    assert_eq!(locals(&net, a), [wifi()]);
    still_works(&mut net, a);
}

// The removal waits for the response to the addition, which is refused.
#[test]
fn an_address_without_a_replacement_is_not_removed() {
    let (mut net, a, _) = established(1);
    silent_peer(&mut net);
    add(&mut net, a, lte()).expect("the request is valid");
    net.run_for(Span::from_millis(1));
    remove(&mut net, a, wifi()).expect("the request is valid");
    net.run_for(Span::from_millis(1));
    answer(&mut net, wifi(), &[(1, Some(Cause::ResourceShortage(&[])))]);
    assert_eq!(refused(&net), [(lte(), 0xa1), (wifi(), 0xa0)]);
    assert_eq!(locals(&net, a), [wifi()]);
    still_works(&mut net, a);
    assert_eq!(asconfs(&net).len(), 1);
}

#[test]
fn a_refused_removal_reopens_the_paths() {
    let (mut net, a, _) = established(2);
    silent_peer(&mut net);
    remove(&mut net, a, wifi()).expect("one of two");
    net.run_for(Span::from_millis(1));
    assert!(
        net.a
            .association(a)
            .expect("established")
            .paths()
            .all(|path| path.local == lte())
    );
    answer(&mut net, lte(), &[(1, Some(Cause::ResourceShortage(&[])))]);
    net.run_for(Span::from_secs(1));
    assert_eq!(locals(&net, a), [lte(), wifi()]);
    let mut paths = net.a.association(a).expect("established").paths();
    let again = paths.find(|path| path.local == wifi()).expect("a path from there");
    assert_eq!(again.state, PathState::Active, "verified");
    drop(paths);
    still_works(&mut net, a);
}

#[test]
fn without_any_address_the_association_ends() {
    let (mut net, _) = replacing();
    // Responses that no peer should send.
    answer(&mut net, lte(), &[(1, Some(Cause::ResourceShortage(&[]))), (2, None)]);
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::NoAddress));
}

// RFC 5061 §5.3: to the peer, a packet from an address that it does not know is out of the blue.
#[test]
fn a_pending_address_sends_only_asconf() {
    let config = AssociationConfig {
        autoclose: Some(Span::from_secs(4)),
        ..dynamic()
    };
    for by_user in [true, false] {
        let mut net = Net::with_config(1, &dynamic(), 1);
        let a = net.connect(&config, 1);
        net.run_for(Span::from_millis(100));
        let tag = net.tag_of(Host::A);
        silent_peer(&mut net);
        add(&mut net, a, lte()).expect("the request is valid");
        remove(&mut net, a, wifi()).expect("the request is valid");
        let sent_before = net.wire.len();
        if by_user {
            let now = net.now;
            net.a.shutdown(now, a);
        }
        // The peer has added the address, and its ASCONF-ACK was lost.
        let chunks = [
            Chunk::Heartbeat(HeartbeatInfo(&[7; 20])),
            Chunk::Unknown(whimbrel_wire::RawChunk::from_bytes(&[0xc9, 0, 0, 4]).expect("a chunk")),
        ];
        let bytes = packet(4002, 4001, tag, &chunks);
        net.inject(Host::A, lte(), addrs(Host::B, 1)[0], bytes);
        net.run_for(Span::from_secs(6));
        for sent in net.wire[sent_before..].iter().filter(|sent| sent.from == Host::A) {
            assert_eq!(sent.types(), [ChunkType::AUTH, ChunkType::ASCONF], "{by_user}");
        }
        assert_eq!(net.state(Host::A, a), State::ShutdownPending);
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(10));
        assert_eq!(net.close_reason(Host::A), Some(CloseReason::Graceful));
        assert!(net.count(Host::A, ChunkType::HEARTBEAT_ACK) > 0 && net.count(Host::A, ChunkType::ERROR) > 0);
    }
}

// RFC 5061 §5.2: "ASCONF-ACK to the source address of the ASCONF".
#[test]
fn an_asconf_ack_is_sent_to_the_source_of_the_asconf() {
    let (mut net, _, b) = established(2);
    let mut attacker = Attacker::new(&net);
    drop_packets_of(&mut net, Host::B);
    let elsewhere = addr("10.8.8.8:0");
    let bytes = attacker.asconf(&[delete_ip(1, "10.0.1.1")]);
    for _ in 0..2 {
        // The second time, the same ASCONF-ACK is repeated.
        net.inject(Host::B, addrs(Host::B, 1)[0], elsewhere, bytes.clone());
        net.run_for(Span::from_millis(5));
        let ack = net.last(Host::B, ChunkType::ASCONF_ACK);
        assert_eq!((ack.local, ack.remote), (addrs(Host::B, 1)[0], elsewhere));
    }
    assert_eq!(net.count(Host::B, ChunkType::ASCONF_ACK), 2);
    assert_eq!(remotes(&mut net, Host::B, b), [wifi()]);
}

#[test]
fn an_address_removed_before_it_was_announced_is_forgotten() {
    let (mut net, a, b) = established(1);
    let x = addr("10.0.2.1:0");
    // No ASCONF is outstanding: both requests are withdrawn together.
    add(&mut net, a, x).expect("the request is valid");
    remove(&mut net, a, x).expect("the request is valid");
    net.run_for(Span::from_secs(1));
    assert_eq!(asconfs(&net).len(), 0);
    // One ASCONF is outstanding.
    add(&mut net, a, lte()).expect("the request is valid");
    net.drain(Host::A);
    add(&mut net, a, x).expect("the request is valid");
    let now = net.now;
    net.a.set_peer_primary(now, a, x).expect("the request is valid");
    remove(&mut net, a, x).expect("the request is valid");
    net.run_for(Span::from_secs(5));
    assert_eq!(asconfs(&net).len(), 1);
    assert_eq!(locals(&net, a), [wifi(), lte()]);
    assert_eq!(remotes(&mut net, Host::B, b), [wifi(), lte()]);
    // The outstanding ASCONF adds the address.
    add(&mut net, a, x).expect("the request is valid");
    net.drain(Host::A);
    remove(&mut net, a, x).expect("the request is valid");
    net.run_for(Span::from_secs(5));
    assert_eq!(locals(&net, a), [wifi(), lte()]);
    assert_eq!(remotes(&mut net, Host::B, b), [wifi(), lte()]);
    let removed = |event: &&Event| matches!(event, Event::LocalAddressRemoved { addr } if *addr == x);
    assert_eq!(net.events_of(Host::A).iter().filter(removed).count(), 3);
    assert!(
        net.a
            .association(a)
            .expect("established")
            .paths()
            .all(|path| path.local != x)
    );
    assert_eq!(remove(&mut net, a, x), Err(AddressError::Unknown(x)));
}

#[test]
fn a_path_starts_at_a_local_address() {
    let (mut net, _, b) = established(1);
    let mut attacker = Attacker::new(&net);
    drop_packets_of(&mut net, Host::B);
    let bytes = attacker.asconf(&[add_ip(1, "10.6.6.6")]);
    // The destination is behind a NAT, or as the driver reports it.
    net.inject(Host::B, addr("10.77.0.1:0"), addr("10.6.6.6:0"), bytes);
    net.run_for(Span::from_millis(5));
    let paths = net.b.association(b).expect("established").paths();
    let own: Vec<_> = paths.map(|path| path.local).collect();
    assert_eq!(own, [addrs(Host::B, 1)[0]; 2]);
}

// RFC 5061 §5.1.1 C: on another path, if there is one.
#[test]
fn an_unanswered_asconf_is_retransmitted_on_another_path() {
    let (mut net, a, b) = established(2);
    cut(&mut net, wifi());
    add(&mut net, a, addr("10.0.2.1:0")).expect("the request is valid");
    net.run_for(Span::from_secs(3));
    let ways: Vec<_> = asconfs(&net).iter().map(|sent| (sent.local, sent.remote)).collect();
    let (own, theirs) = (addrs(Host::A, 2), addrs(Host::B, 2));
    assert_eq!(ways, [(own[0], theirs[0]), (own[1], theirs[1])]);
    assert_eq!(remotes(&mut net, Host::B, b).len(), 3);
}

// A path that has just failed is not used as the alternative.
#[test]
fn an_asconf_avoids_paths_that_do_not_respond() {
    let config = AssociationConfig {
        path_max_retrans: 0,
        hb_interval: Span::from_secs(1),
        address_translation: Some(false),
        ..dynamic()
    };
    let (mut net, a, b) = Net::established(3, &config);
    let theirs = addrs(Host::B, 3);
    // The second path fails while it is idle, then the first one.
    let (first, second) = (theirs[0], theirs[1]);
    net.filter = Box::new(move |packet| {
        let is_cut = packet.local == second || packet.remote == second;
        if is_cut { Fate::Drop } else { Fate::Deliver }
    });
    net.run_for(Span::from_secs(10));
    net.filter = Box::new(move |packet| {
        let is_cut = [first, second]
            .iter()
            .any(|cut| packet.local == *cut || packet.remote == *cut);
        if is_cut { Fate::Drop } else { Fate::Deliver }
    });
    add(&mut net, a, addr("10.0.5.1:0")).expect("the request is valid");
    net.run_for(Span::from_millis(1100));
    let ways: Vec<_> = asconfs(&net).iter().map(|sent| sent.remote).collect();
    assert_eq!(ways, [theirs[0], theirs[2]]);
    assert_eq!(remotes(&mut net, Host::B, b).len(), 4);
}

// RFC 5061 §4.1.2: a request without a response has succeeded, unless an earlier one was refused.
#[test]
fn requests_that_are_not_processed_are_refused() {
    let (mut net, _, b) = established(1);
    let mut attacker = Attacker::new(&net);
    drop_packets_of(&mut net, Host::B);
    // Refusals fill the ASCONF-ACK; the last request would have been granted.
    let mut requests: Vec<_> = (1..60).map(|i| add_ip(i, "224.0.0.1")).collect();
    requests.push(add_ip(60, "10.0.5.1"));
    let bytes = attacker.asconf(&requests);
    net.inject(Host::B, addrs(Host::B, 1)[0], wifi(), bytes);
    net.run_for(Span::from_millis(5));
    assert_eq!(remotes(&mut net, Host::B, b), [wifi()]);
    let answered = answers(&net);
    let (last, others) = answered.split_last().expect("answers");
    assert!(others.iter().all(|(_, cause)| *cause == 5) && others.len() < 40);
    assert_eq!(
        *last,
        (others.len() as u32 + 1, 0xa1),
        "the first one that is not processed"
    );
    // Without an earlier refusal: as many successes as fill an ASCONF-ACK.
    let mut requests: Vec<_> = (1..100).map(|i| delete_ip(i, "10.9.9.9")).collect();
    requests.push(add_ip(100, "10.0.5.1"));
    let bytes = attacker.asconf(&requests);
    net.inject(Host::B, addrs(Host::B, 1)[0], wifi(), bytes);
    net.run_for(Span::from_millis(5));
    assert_eq!(remotes(&mut net, Host::B, b), [wifi()]);
    let answered = answers(&net);
    let (last, others) = answered.split_last().expect("answers");
    assert!(others.iter().all(|(_, cause)| *cause == 0));
    assert_eq!(*last, (others.len() as u32 + 1, 0xa1));
}

// RFC 9260 §6.10: even the longest ASCONF-ACK fits into a packet.
#[test]
fn asconf_acks_fit_into_the_smallest_packet() {
    let config = AssociationConfig { mtu: 576, ..dynamic() };
    let (mut net, _, _) = Net::established(1, &config);
    let mut attacker = Attacker::new(&net);
    drop_packets_of(&mut net, Host::B);
    let requests: Vec<_> = (1..60)
        .map(|correlation| Parameter::AddIp {
            correlation,
            address: "ff02::1".parse().expect("an address"),
        })
        .collect();
    let bytes = attacker.asconf(&requests);
    for from in [wifi(), addr("10.8.8.8:0")] {
        net.inject(Host::B, addrs(Host::B, 1)[0], from, bytes.clone());
        net.run_for(Span::from_millis(5));
        let ack = net.last(Host::B, ChunkType::ASCONF_ACK);
        assert_eq!(ack.remote, from);
        assert!(ack.bytes.len() + 20 <= 576, "{}", ack.bytes.len());
    }
}

// The last address at which the peer can be reached: an address of the other IP version does not replace it.
#[test]
fn an_address_of_another_ip_version_is_no_alternative() {
    let (mut net, a, _) = established(1);
    silent_peer(&mut net);
    let v6 = addr("[2001:db8::1]:0");
    add(&mut net, a, v6).expect("the request is valid");
    net.run_for(Span::from_millis(1));
    answer(&mut net, wifi(), &[]);
    assert_eq!(locals(&net, a), [wifi(), v6]);
    assert_eq!(remove(&mut net, a, wifi()), Err(AddressError::Last));
    still_works(&mut net, a);
}

// Packets sent before the change arrive after it, because the new path is shorter. They are not out of the blue.
#[test]
fn packets_overtaken_by_an_address_change_do_not_end_the_association() {
    let (mut net, a, b) = established(1);
    for i in 0..200_u32 {
        net.send(Host::A, a, Message::new(0, i.to_be_bytes().repeat(300)));
    }
    net.run_for(Span::from_millis(95));
    net.filter = Box::new(|packet| {
        if packet.local == wifi() {
            Fate::Delay(Span::from_millis(50))
        } else {
            Fate::Deliver
        }
    });
    net.run_for(Span::from_millis(10));
    add(&mut net, a, lte()).expect("the request is valid");
    let now = net.now;
    net.a.set_peer_primary(now, a, lte()).expect("the request is valid");
    remove(&mut net, a, wifi()).expect("the request is valid");
    net.run_for(Span::from_secs(3));
    assert_eq!(asconfs(&net).len(), 1);
    assert_eq!(net.count(Host::B, ChunkType::ABORT), 0);
    assert_eq!(net.contents(Host::B).len(), 200);
    assert_eq!(net.state(Host::B, b), State::Established);
    assert_eq!(net.a.association(a).expect("established").stats().timeouts, 0);
}

/// Returns the ABORT of a host without such an association.
fn reflected_abort(tag: u32) -> Vec<u8> {
    let causes = Causes::default();
    let abort = Chunk::Abort {
        tag_reflected: true,
        causes,
    };
    packet(4002, 4001, tag, &[abort])
}

// RFC 5061 §5.3: to a peer that has removed an address, packets sent from there are out of the blue.
#[test]
fn an_abort_to_a_removed_address_is_ignored() {
    let (mut net, a, _) = established(1);
    add(&mut net, a, lte()).expect("the request is valid");
    net.run_for(Span::from_secs(1));
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::ASCONF_ACK) {
            Fate::Delay(Span::from_millis(300))
        } else {
            Fate::Deliver
        }
    });
    remove(&mut net, a, wifi()).expect("the request is valid");
    net.drain(Host::A);
    let peer_tag = Attacker::new(&net).tag;
    // Before and after the peer's ASCONF-ACK.
    for answered in [false, true] {
        let removed = Event::LocalAddressRemoved { addr: wifi() };
        assert_eq!(net.events_of(Host::A).contains(&removed), answered);
        net.inject(Host::A, wifi(), addrs(Host::B, 1)[0], reflected_abort(peer_tag));
        net.run_for(Span::from_millis(500));
        assert_eq!(net.close_reason(Host::A), None);
    }
    // At an address in use, the ABORT is valid.
    net.inject(Host::A, lte(), addrs(Host::B, 1)[0], reflected_abort(peer_tag));
    net.run_for(Span::from_millis(1));
    assert!(matches!(
        net.close_reason(Host::A),
        Some(CloseReason::AbortedByPeer { .. })
    ));
}

/// With the heartbeat timer of ns-2, which all paths share: it expires while the only address is being replaced.
#[test]
fn heartbeats_go_on_after_the_only_address_was_replaced() {
    let config = AssociationConfig {
        preset: Preset::Ns2,
        hb_interval: Span::from_secs(1),
        path_max_retrans: 20,
        association_max_retrans: 20,
        ..dynamic()
    };
    let (mut net, a, _) = Net::established(1, &config);
    net.run_for(Span::from_secs(1));
    let now = net.now;
    net.a.add_local_address(now, a, lte()).expect("possible");
    net.a.remove_local_address(now, a, wifi()).expect("one of two");
    // The peer does not answer for a while.
    drop_packets_of(&mut net, Host::A);
    net.run_for(Span::from_secs(20));
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(60));
    assert_eq!(net.state(Host::A, a), State::Established);
    let start = net.wire.len();
    net.run_for(Span::from_secs(20));
    let sent = net.wire[start..].iter().filter(|sent| sent.from == Host::A);
    assert!(sent.filter(|sent| sent.has(ChunkType::HEARTBEAT)).count() >= 3);
}

#[test]
fn a_path_that_was_alone_is_measured_with_the_first_data_when_there_is_another() {
    let measured = |scheme: &str| {
        let config = AssociationConfig {
            scheme: Scheme::by_name(scheme).expect("it is registered"),
            hb_interval: Span::from_secs(30),
            ..dynamic()
        };
        let (mut net, a, b) = Net::established(1, &config);
        net.run_for(Span::from_secs(1));
        let now = net.now;
        net.a.add_local_address(now, a, lte()).expect("possible");
        net.run_for(Span::from_secs(5));
        let of_b = |net: &Net| {
            let paths = net.b.association(b).expect("established").paths();
            paths.map(|path| path.srtt.is_some()).collect::<Vec<_>>()
        };
        assert_eq!(of_b(&net), [false, true], "the new one was verified");
        net.send(Host::B, b, Message::zeros(0, 100));
        net.run_for(Span::from_secs(5));
        (of_b(&net), net.sent(Host::B, ChunkType::HEARTBEAT).len())
    };
    assert_eq!(measured("multipath"), (vec![true; 2], 2));
    // Data goes to the primary path only, and measures it.
    assert_eq!(measured("standard"), (vec![true; 2], 1));
}
