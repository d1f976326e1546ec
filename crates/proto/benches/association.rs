//! The protocol core in memory: both ends in one thread, real checksums.
//!
//! `cargo bench -p whimbrel-proto`; other stacks beside it are in `bench/peers`.

use bytes::Bytes;
use divan::counter::{BytesCount, ItemsCount};
use whimbrel_control::{Rng, Scheme, Span, Time};
use whimbrel_proto::{
    AssocId, AssociationConfig, Endpoint, EndpointConfig, ErrorDetection, Event, Message, PacketMeta, SendError,
    TransportAddr,
};
use whimbrel_wire::{ByteSink, ChecksumField};

fn main() {
    divan::main();
}

const WINDOW: u32 = 262_144;

struct Pair {
    a: Endpoint,
    b: Endpoint,
    to: AssocId,
    from: AssocId,
    now: Time,
    /// Time from one end to the other.
    one_way: Span,
    datagram: Vec<u8>,
    content: Vec<u8>,
}

fn endpoint(addr: &str, listen: bool, association: AssociationConfig) -> Endpoint {
    let local_addrs = vec![addr.parse().expect("an address")];
    let config = EndpointConfig {
        local_addrs,
        listen,
        association: association.into(),
        ..EndpointConfig::default()
    };
    Endpoint::new(config, Box::new(Rng::stream(1, addr))).expect("a valid configuration")
}

fn config() -> AssociationConfig {
    AssociationConfig {
        recv_buffer: WINDOW,
        send_buffer: WINDOW,
        ..AssociationConfig::default()
    }
}

impl Pair {
    fn connected() -> Pair {
        Pair::with(&config())
    }

    fn with(config: &AssociationConfig) -> Pair {
        let mut a = endpoint("10.0.0.1:9899", false, config.clone());
        let b = endpoint("10.0.0.2:9899", true, config.clone());
        let peer: TransportAddr = "10.0.0.2:9899".parse().expect("an address");
        let from = a
            .connect(Time::ZERO, config.clone(), 5000, &[peer])
            .expect("can be begun");
        let mut pair = Pair {
            a,
            b,
            from,
            to: from,
            now: Time::ZERO,
            one_way: Span::ZERO,
            datagram: Vec::new(),
            content: Vec::new(),
        };
        while pair.carry(true) + pair.carry(false) > 0 {}
        while let Some((id, event)) = pair.b.poll_event() {
            if matches!(event, Event::Connected { .. }) {
                pair.to = id;
            }
        }
        pair
    }

    /// Carries what one end has to send to the other; returns the packets.
    fn carry(&mut self, from_a: bool) -> usize {
        let (from, to) = if from_a {
            (&mut self.a, &mut self.b)
        } else {
            (&mut self.b, &mut self.a)
        };
        let mut packets = 0;
        loop {
            self.datagram.clear();
            let mut sink = ByteSink::new(&mut self.datagram, ChecksumField::Compute);
            let Some(sent) = from.poll_transmit(self.now, &mut sink) else {
                return packets;
            };
            let meta = PacketMeta {
                local: sent.remote,
                remote: sent.local,
                ecn: sent.ecn,
                congestion_indicated: false,
            };
            to.handle_datagram(self.now, meta, &self.datagram)
                .expect("the other end understands");
            packets += 1;
        }
    }

    /// Sends a message and lets it arrive.
    fn transfer(&mut self, message: &Bytes) {
        match self.a.send(self.now, self.from, Message::new(0, message.clone())) {
            Ok(()) | Err(SendError::Full(_)) => {}
            Err(error) => panic!("{error}"),
        }
        loop {
            let there = self.carry(true);
            self.now += self.one_way;
            let back = self.carry(false);
            self.now += self.one_way;
            if there + back == 0 {
                break;
            }
        }
        let content = &mut self.content;
        while self
            .b
            .recv(self.now, self.to, &mut |part| part.append_to(content))
            .is_some()
        {
            content.clear();
        }
        while self.a.poll_event().is_some() {}
        while self.b.poll_event().is_some() {}
        self.now += Span::from_millis(250);
        self.b.handle_timeout(self.now);
        self.a.handle_timeout(self.now);
    }
}

/// Messages one after the other: the cost of a round, its SACK and timers included.
#[divan::bench(args = [100, 1200, 65_536])]
fn message(bencher: divan::Bencher<'_, '_>, len: usize) {
    let mut pair = Pair::connected();
    let message = Bytes::from(vec![0x55; len]);
    (0..100).for_each(|_| pair.transfer(&message));
    bencher
        .counter(BytesCount::new(len))
        .bench_local(|| pair.transfer(&message));
}

/// Messages of 64 KiB with and without the CRC32c (RFC 9653).
#[divan::bench(args = [None, Some(ErrorDetection::Dtls)])]
fn zero_checksum(bencher: divan::Bencher<'_, '_>, zero_checksum: Option<ErrorDetection>) {
    let mut pair = Pair::with(&AssociationConfig {
        zero_checksum,
        ..config()
    });
    let message = Bytes::from(vec![0x55; 65_536]);
    (0..100).for_each(|_| pair.transfer(&message));
    bencher
        .counter(BytesCount::new(message.len()))
        .bench_local(|| pair.transfer(&message));
}

/// INIT to COOKIE ACK at both ends, the signed cookie included.
#[divan::bench]
fn handshake(bencher: divan::Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(1_usize)).bench_local(Pair::connected);
}

/// Messages of 64 KiB with a round-trip time of 2 ms, by scheme: what its parts cost. Unpaced, since a pacer would wait.
#[divan::bench(args = [
    "standard", "wireless-aware", "eci", "jsctp", "jersey", "wise", "veno", "veno-tabe", "westwood", "vegas", "cubic", "bbr", "bbr1", "dctcp",
    "ipcc-retransmit",
])]
fn scheme(bencher: divan::Bencher<'_, '_>, name: &str) {
    let scheme = Scheme::by_name(name).expect("a scheme");
    let mut pair = Pair::with(&AssociationConfig {
        scheme,
        pacing: Some(false),
        ..config()
    });
    pair.one_way = Span::from_millis(1);
    let message = Bytes::from(vec![0x55; 65_536]);
    (0..100).for_each(|_| pair.transfer(&message));
    bencher
        .counter(BytesCount::new(message.len()))
        .bench_local(|| pair.transfer(&message));
}
