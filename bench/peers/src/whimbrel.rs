//! Whimbrel's protocol core.

use std::any::Any;
use std::net::SocketAddr;

use bytes::Bytes;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use whimbrel_control::{Span, Time};
use whimbrel_proto::{
    AssocId, AssociationConfig, Ecn, Endpoint, EndpointConfig, Event, Message, PacketMeta, SendError,
};
use whimbrel_wire::{ByteSink, ChecksumField};

use crate::count;
use crate::measure::{PACKET, Pair, Stack, WINDOW};

/// With DATA or, interleaving, with I-DATA chunks.
pub(crate) struct Whimbrel {
    pub(crate) interleaving: bool,
}

/// IPv4 and UDP headers: the configured MTU is that of IP.
const HEADERS: usize = 28;

struct End {
    endpoint: Endpoint,
    id: Option<AssocId>,
    connected: bool,
    /// A packet on its way out, written again and again.
    packet: Vec<u8>,
}

struct Ends {
    a: End,
    b: End,
    now: Time,
    packets: u64,
}

impl Stack for Whimbrel {
    fn name(&self) -> &'static str {
        if self.interleaving { "whimbrel (I)" } else { "whimbrel" }
    }

    fn connect(&self) -> Box<dyn Pair> {
        let mut ends = ends(self.interleaving);
        let peer: SocketAddr = "127.0.0.2:9899".parse().expect("an address");
        let port = EndpointConfig::default().local_port;
        ends.a
            .endpoint
            .connect(ends.now, config(self.interleaving), port, &[peer])
            .expect("a valid configuration");
        ends.exchange();
        assert!(ends.a.connected && ends.b.connected);
        Box::new(ends)
    }

    fn endpoints(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(ends(self.interleaving)))
    }
}

fn config(interleaving: bool) -> AssociationConfig {
    AssociationConfig {
        interleaving,
        recv_buffer: WINDOW as u32,
        send_buffer: WINDOW as u32,
        mtu: (PACKET + HEADERS) as u16,
        ..AssociationConfig::default()
    }
}

fn end(addr: SocketAddr, listen: bool, seed: u64, interleaving: bool) -> End {
    let config = EndpointConfig {
        local_addrs: vec![addr],
        listen,
        association: config(interleaving).into(),
        ..EndpointConfig::default()
    };
    let random = Box::new(ChaCha8Rng::seed_from_u64(seed));
    let endpoint = Endpoint::new(config, random).expect("a valid configuration");
    End {
        endpoint,
        id: None,
        connected: false,
        packet: Vec::with_capacity(PACKET),
    }
}

/// Two endpoints, nothing between them yet.
fn ends(interleaving: bool) -> Ends {
    Ends {
        a: end(SocketAddr::from(([127, 0, 0, 1], 9899)), false, 1, interleaving),
        b: end(SocketAddr::from(([127, 0, 0, 2], 9899)), true, 2, interleaving),
        now: Time::ZERO,
        packets: 0,
    }
}

/// Memory of an idle association at both ends where each end is one endpoint with many associations, as servers are: an
/// endpoint with `count` associations is dropped, and what that frees is shared out; once for either end.
pub(crate) fn idle_bytes_shared(count: u16) -> f64 {
    freed_by_hub(count, true) + freed_by_hub(count, false)
}

fn freed_by_hub(count: u16, hub_listens: bool) -> f64 {
    let (hub_addr, port) = (
        SocketAddr::from(([127, 0, 0, 1], 9899)),
        EndpointConfig::default().local_port,
    );
    let mut hub = end(hub_addr, hub_listens, 1, false);
    let mut spokes = Vec::new();
    for number in 1..=count {
        let [high, low] = number.to_be_bytes();
        let addr = SocketAddr::from(([127, 1, high, low], 9899));
        let mut spoke = end(addr, !hub_listens, 1 + u64::from(number), false);
        let (opener, peer) = if hub_listens {
            (&mut spoke, hub_addr)
        } else {
            (&mut hub, addr)
        };
        let opened = opener.endpoint.connect(Time::ZERO, config(false), port, &[peer]);
        opened.expect("a valid configuration");
        while carry(&mut hub, &mut spoke, Time::ZERO) + carry(&mut spoke, &mut hub, Time::ZERO) > 0 {}
        assert!(spoke.connected);
        spokes.push(spoke);
    }
    let before = count::live_bytes();
    drop(hub);
    (before - count::live_bytes()) as f64 / f64::from(count)
}

impl End {
    fn events(&mut self) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            match event {
                Event::Connected { .. } => {
                    self.connected = true;
                    self.id = Some(id);
                }
                Event::Closed(reason) => panic!("{reason}"),
                _ => {}
            }
        }
    }
}

fn carry(from: &mut End, to: &mut End, now: Time) -> u64 {
    let mut sent = 0;
    loop {
        from.packet.clear();
        let mut sink = ByteSink::new(&mut from.packet, ChecksumField::Compute);
        let Some(transmit) = from.endpoint.poll_transmit(now, &mut sink) else {
            break;
        };
        let meta = PacketMeta {
            local: transmit.remote,
            remote: transmit.local,
            ecn: Ecn::NotEct,
            congestion_indicated: false,
        };
        to.endpoint
            .handle_datagram(now, meta, &from.packet)
            .expect("the other end understands");
        sent += 1;
    }
    from.events();
    to.events();
    sent
}

impl Ends {
    fn exchange(&mut self) {
        loop {
            let sent = carry(&mut self.a, &mut self.b, self.now) + carry(&mut self.b, &mut self.a, self.now);
            self.packets += sent;
            if sent == 0 {
                return;
            }
        }
    }
}

impl Pair for Ends {
    fn transfer(&mut self, len: usize, count: usize) -> u64 {
        let before = self.packets;
        let payload = Bytes::from(vec![0x55; len]);
        let mut message = Vec::with_capacity(len);
        let (mut sent, mut received) = (0, 0);
        let (from, to) = (self.a.id.expect("connected"), self.b.id.expect("connected"));
        while received < count {
            while sent < count {
                match self.a.endpoint.send(self.now, from, Message::new(0, payload.clone())) {
                    Ok(()) => sent += 1,
                    Err(SendError::Full(_)) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            self.exchange();
            let mut progress = false;
            loop {
                let mut take = |part: whimbrel_wire::Payload<'_>| match part {
                    whimbrel_wire::Payload::Bytes(bytes) => message.extend_from_slice(bytes),
                    whimbrel_wire::Payload::Zeros(_) => panic!("real bytes were sent"),
                };
                let Some(part) = self.b.endpoint.recv(self.now, to, &mut take) else {
                    break;
                };
                progress = true;
                if part.end {
                    assert_eq!(message.len(), len);
                    message.clear();
                    received += 1;
                }
            }
            self.exchange();
            if !progress {
                self.now += Span::from_millis(10);
                for end in [&mut self.a, &mut self.b] {
                    end.endpoint.handle_timeout(self.now);
                }
            }
        }
        self.exchange();
        self.packets - before
    }
}
