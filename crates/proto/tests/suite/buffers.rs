//! Buffers that grow with the delivery rate, the limit of the memory that they use together, and messages longer than the send buffer.

use crate::support::{Fate, Host, Net};
use whimbrel_control::{Rng, Span, Time};
use whimbrel_proto::{
    AssocId, AssociationConfig, Endpoint, EndpointConfig, Event, Message, PacketMeta, Reliability, Scheduler,
    TransportAddr,
};
use whimbrel_wire::{ByteSink, ChecksumField};

const MB: u32 = 1 << 20;

fn tuned() -> AssociationConfig {
    AssociationConfig {
        max_burst: 0,
        recv_buffer: MB / 4,
        recv_buffer_max: Some(8 * MB),
        send_buffer: MB / 4,
        send_buffer_max: Some(8 * MB),
        ..AssociationConfig::default()
    }
}

/// Keeps the send buffer of A full for this time. Returns the most bytes that it held.
fn fill_for(net: &mut Net, a: AssocId, span: Span) -> usize {
    let (end, mut most) = (net.now + span, 0);
    while net.now < end {
        while net.a.send(net.now, a, Message::zeros(0, 10_000)).is_ok() {}
        most = most.max(net.a.association(a).expect("established").buffered_send());
        net.run_for(Span::from_millis(5));
    }
    most
}

/// Returns the a_rwnd of the last SACK of B.
fn window(net: &Net) -> u32 {
    let sacks = net.wire.iter().rev().filter(|sent| sent.from == Host::B);
    sacks
        .filter_map(|sent| sent.sack())
        .map(|(_, a_rwnd, ..)| a_rwnd)
        .next()
        .expect("a SACK")
}

#[test]
fn buffers_grow_with_the_delivery_rate_up_to_their_maximum() {
    let (mut net, a, _) = Net::established(1, &tuned());
    let buffered = fill_for(&mut net, a, Span::from_secs(1));
    assert!(buffered > 4 << 20, "{buffered} bytes in the send buffer");
    assert!((4 * MB..=8 * MB).contains(&window(&net)), "{}", window(&net));
    assert!(net.a.buffer_memory_in_use() <= 8 << 20 && net.b.buffer_memory_in_use() <= 8 << 20);

    let fixed = AssociationConfig {
        recv_buffer_max: None,
        send_buffer_max: None,
        ..tuned()
    };
    let (mut net, a, _) = Net::established(1, &fixed);
    let buffered = fill_for(&mut net, a, Span::from_secs(1));
    assert!(window(&net) <= MB / 4 && buffered <= (MB / 4) as usize);
}

#[test]
fn a_slow_reader_gets_no_larger_buffer() {
    let (mut net, a, b) = Net::established(1, &tuned());
    net.auto_read = false;
    for _ in 0..200 {
        while net.a.send(net.now, a, Message::zeros(0, 10_000)).is_ok() {}
        net.run_for(Span::from_millis(20));
        let now = net.now;
        net.b.recv(now, b, &mut |_| {});
    }
    assert_eq!(net.b.buffer_memory_in_use(), 0);
}

#[test]
fn memory_is_released_when_an_association_is_idle_or_has_ended() {
    let (mut net, a, b) = Net::established(1, &tuned());
    fill_for(&mut net, a, Span::from_secs(1));
    assert!(net.a.buffer_memory_in_use() > 1 << 20 && net.b.buffer_memory_in_use() > 1 << 20);
    net.run_for(Span::from_secs(120));
    assert_eq!(
        (net.a.buffer_memory_in_use(), net.b.buffer_memory_in_use()),
        (0, 0),
        "idle"
    );
    let held = net.b.association(b).unwrap().memory();
    assert!(held < 3000, "{held} bytes");

    fill_for(&mut net, a, Span::from_secs(1));
    assert!(
        net.a.buffer_memory_in_use() > 1 << 20 && net.b.buffer_memory_in_use() > 1 << 20,
        "it grows again"
    );
    let now = net.now;
    net.a.abort(now, a, "");
    net.run_for(Span::from_secs(1));
    assert_eq!(
        (net.a.buffer_memory_in_use(), net.b.buffer_memory_in_use()),
        (0, 0),
        "ended"
    );
}

#[test]
fn an_advertised_window_is_kept_after_the_buffer_has_shrunk() {
    let (mut net, a, b) = Net::established(1, &tuned());
    fill_for(&mut net, a, Span::from_secs(1));
    net.run_for(Span::from_secs(120));
    let promised = window(&net) as usize;
    assert!(promised > 4 << 20 && net.b.buffer_memory_in_use() == 0);
    // The application does not read, and the sender uses the whole window that it knows.
    net.auto_read = false;
    for _ in 0..40 {
        while net.a.send(net.now, a, Message::zeros(0, 10_000)).is_ok() {}
        net.run_for(Span::from_millis(100));
    }
    let stats = net.b.association(b).unwrap().receiver_stats();
    assert_eq!(stats.no_buffer, 0, "nothing that was within the window is dropped");
    assert!(window(&net) <= MB / 4, "a smaller one is advertised: {}", window(&net));
}

/// After an idle period, the buffer is smaller than it was, but not smaller than announced at the start.
// [9260:3.3.2-10, 3.3.3-10]
#[test]
fn section_3_3_2_the_buffer_announced_at_the_start_is_not_reduced() {
    let config = AssociationConfig {
        recv_buffer_max: Some(MB),
        ..tuned()
    };
    for receiving in [Host::A, Host::B] {
        let (mut net, a, b) = Net::established(1, &config);
        let (from, id) = if receiving == Host::A {
            (Host::B, b)
        } else {
            (Host::A, a)
        };
        for _ in 0..200 {
            let now = net.now;
            while net.host(from).send(now, id, Message::zeros(0, 10_000)).is_ok() {}
            net.run_for(Span::from_millis(5));
        }
        net.run_for(Span::from_secs(120));
        net.wire.clear();
        // Slow data uses up the window that was promised before.
        for _ in 0..150 {
            net.send(from, id, Message::zeros(0, 10_000));
            net.run_for(Span::from_millis(100));
        }
        let sacks = net.wire.iter().filter(|sent| sent.from == receiving);
        let smallest = sacks.filter_map(|sent| Some(sent.sack()?.1)).min().expect("SACKs");
        // Of a message, some chunks may wait for the others.
        assert!(
            (MB / 4 - 10_000..=MB / 4).contains(&smallest),
            "{receiving:?}: {smallest} bytes"
        );
    }
}

/// A server, and clients with one address each. Every packet takes one tick of 5 ms.
struct Clients {
    now: Time,
    server: Endpoint,
    clients: Vec<(TransportAddr, Endpoint, AssocId)>,
    in_flight: Vec<(PacketMeta, Vec<u8>)>,
}

/// The window is large from the start.
fn open() -> AssociationConfig {
    AssociationConfig {
        initial_cwnd: Some(4 << 20),
        ..tuned()
    }
}

fn endpoint(addr: &str, listen: bool, memory: u64) -> Endpoint {
    let config = EndpointConfig {
        local_port: 4002,
        local_addrs: vec![crate::support::addr(addr)],
        listen,
        association: open().into(),
        buffer_memory: memory,
        ..EndpointConfig::default()
    };
    Endpoint::new(config, Box::new(Rng::stream(1, addr))).expect("valid")
}

impl Clients {
    fn new(count: usize, memory: u64) -> Self {
        let now = Time::from_nanos(1_000_000);
        let client = |index| {
            let addr = format!("10.0.0.{}:0", 10 + index);
            let mut client = endpoint(&addr, false, memory);
            let id = client
                .connect(now, open(), 4002, &[crate::support::addr("10.0.0.1:0")])
                .expect("opened");
            (crate::support::addr(&addr), client, id)
        };
        Clients {
            now,
            server: endpoint("10.0.0.1:0", true, memory),
            clients: (0..count).map(client).collect(),
            in_flight: Vec::new(),
        }
    }

    /// All clients send until their buffers are full, and the server reads everything.
    fn tick(&mut self) {
        self.now += Span::from_millis(5);
        let (
            now,
            Clients {
                server,
                clients,
                in_flight,
                ..
            },
        ) = (self.now, self);
        let arriving = std::mem::take(in_flight);
        for (meta, bytes) in arriving {
            let to = clients.iter_mut().find(|(addr, ..)| *addr == meta.local);
            let to = to.map_or(&mut *server, |(_, client, _)| client);
            let _ = to.handle_datagram(now, meta, &bytes);
        }
        let ids: Vec<_> = server.associations().collect();
        for id in ids {
            while server.recv(now, id, &mut |_| {}).is_some() {}
        }
        for (_, client, id) in clients.iter_mut() {
            while client.send(now, *id, Message::zeros(0, 10_000)).is_ok() {}
        }
        for endpoint in clients.iter_mut().map(|(_, client, _)| client).chain([server]) {
            if endpoint.next_timeout().is_some_and(|at| at <= now) {
                endpoint.handle_timeout(now);
            }
            loop {
                let mut bytes = Vec::new();
                let Some(sent) = endpoint.poll_transmit(now, &mut ByteSink::new(&mut bytes, ChecksumField::Compute))
                else {
                    break;
                };
                let meta = PacketMeta {
                    local: sent.remote,
                    remote: sent.local,
                    ecn: sent.ecn,
                    congestion_indicated: false,
                };
                in_flight.push((meta, bytes));
            }
            while endpoint.poll_event().is_some() {}
        }
    }
}

#[test]
fn many_associations_share_the_memory_for_buffers() {
    const LIMIT: u64 = 6 << 20;
    let mut all = Clients::new(8, LIMIT);
    let mut largest = 0;
    for _ in 0..100 {
        all.tick();
        let granted = all.server.buffer_memory_in_use();
        assert!(granted <= LIMIT, "{granted}");
        largest = largest.max(granted);
    }
    assert_eq!(all.server.associations().count(), 8);
    // Each association alone would use more.
    assert!(largest > LIMIT / 2, "{largest} of {LIMIT} bytes granted");
    let mut alone = Clients::new(1, 1 << 30);
    (0..100).for_each(|_| alone.tick());
    assert!(alone.server.buffer_memory_in_use() > LIMIT);
}

/// A message of 60 MB on a stream of low priority beside short ones, which are sent again once the association reports room. The bytes of the
/// long one in flight take most of the send buffer.
#[test]
fn a_long_message_in_flight_leaves_room_in_the_send_buffer() {
    for interleaving in [true, false] {
        for recv_buffer in [50_000, 70_000, 80_000, 99_000, 120_000] {
            let config = AssociationConfig {
                interleaving,
                send_buffer: 100_000,
                recv_buffer,
                max_message: Some(64 << 20),
                scheduler: Scheduler::Priority,
                ..AssociationConfig::default()
            };
            let (mut net, a, _) = Net::established(1, &config);
            net.a.set_stream_value(a, 1, 5);
            net.send(Host::A, a, Message::zeros(1, 60 << 20));
            net.run_for(Span::from_millis(300));
            let (mut accepted, mut waits) = (0, false);
            for _ in 0..1000 {
                net.run_for(Span::from_millis(1));
                let events = net.events.remove(&Host::A).unwrap_or_default();
                waits &= !events.contains(&(a, Event::SendSpace));
                while !waits && accepted < 5000 {
                    waits = net.a.send(net.now, a, Message::zeros(2, 1000)).is_err();
                    accepted += u32::from(!waits);
                    net.drain(Host::A);
                }
            }
            let case = format!("{interleaving} {recv_buffer}");
            assert!(net.a.association(a).expect("open").buffered_send() > 10 << 20, "{case}");
            // Three quarters of the buffer at least, and with interleaving those again that have been sent.
            let least = if interleaving { 1000 } else { 70 };
            assert!(accepted >= least, "{case}: {accepted}");
        }
    }
}

/// Sends messages that may not be given up, then a long one that may, and then another. Nothing is acknowledged. Returns whether the last
/// one was accepted, and how many were given up.
fn send_beside_a_long_one(before: &[u32], long: u32, is_first: bool, last: u32) -> (bool, usize) {
    let config = AssociationConfig {
        send_buffer: 100_000,
        max_message: Some(1 << 20),
        partial_reliability: true,
        ..AssociationConfig::default()
    };
    let (mut net, a, _) = Net::established(1, &config);
    net.filter = Box::new(|_| Fate::Drop);
    let give_way = Message {
        reliability: Reliability::Priority(9),
        ..Message::zeros(1, long)
    };
    if is_first {
        net.send(Host::A, a, give_way.clone());
    }
    for &len in before {
        net.send(Host::A, a, Message::zeros(2, len));
    }
    if !is_first {
        net.send(Host::A, a, give_way);
    }
    let is_accepted = net.a.send(net.now, a, Message::zeros(3, last)).is_ok();
    net.drain(Host::A);
    let failed = |event: &Event| matches!(event, Event::SendFailed(_));
    (is_accepted, net.events_of(Host::A).into_iter().filter(failed).count())
}

#[test]
fn a_long_message_is_given_up_only_if_that_makes_room() {
    for is_first in [true, false] {
        // Without the long one there would be room for 30 kB, with it for 5 kB.
        assert_eq!(
            send_beside_a_long_one(&[10_000; 7], 1_000_000, is_first, 5_000),
            (true, 0)
        );
        assert_eq!(
            send_beside_a_long_one(&[10_000; 7], 1_000_000, is_first, 20_000),
            (true, 1)
        );
        assert_eq!(
            send_beside_a_long_one(&[10_000; 7], 1_000_000, is_first, 25_001),
            (true, 1)
        );
    }
    // There is none without it either.
    assert_eq!(
        send_beside_a_long_one(&[20_000; 4], 1_000_000, false, 24_000),
        (false, 0)
    );
    assert_eq!(
        send_beside_a_long_one(&[14_000; 7], 1_000_000, false, 20_000),
        (false, 0)
    );
    assert_eq!(
        send_beside_a_long_one(&[14_000; 7], 1_000_000, false, 10_000),
        (false, 0)
    );
    assert_eq!(send_beside_a_long_one(&[11_000; 9], 200_000, false, 2_000), (false, 0));
    // A long one needs the room of all bytes.
    assert_eq!(send_beside_a_long_one(&[14_000; 7], 90_000, false, 200_000), (true, 1));
}
