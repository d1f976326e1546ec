//! sctp-proto, in the shape of quinn-proto.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event, Payload,
    PayloadProtocolIdentifier, ServerConfig, TransportConfig,
};

use crate::measure::{PACKET, Pair, Stack, WINDOW};

pub(crate) struct SctpProto;

struct End {
    endpoint: Endpoint,
    association: Option<Box<(AssociationHandle, Association)>>,
    addr: SocketAddr,
    connected: bool,
}

struct Ends {
    a: End,
    b: End,
    now: Instant,
    packets: u64,
}

impl Stack for SctpProto {
    fn name(&self) -> &'static str {
        "sctp-proto"
    }

    fn connect(&self) -> Box<dyn Pair> {
        let mut ends = ends();
        let mut client = ClientConfig::new();
        client.transport = transport();
        let addr_b = ends.b.addr;
        ends.a.association = Some(Box::new(
            ends.a.endpoint.connect(client, addr_b).expect("a valid configuration"),
        ));
        ends.exchange();
        assert!(ends.a.connected && ends.b.connected);
        Box::new(ends)
    }

    fn endpoints(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(ends()))
    }
}

fn transport() -> Arc<TransportConfig> {
    Arc::new(TransportConfig::default().with_max_receive_buffer_size(WINDOW as u32))
}

/// Two endpoints, nothing between them yet.
fn ends() -> Ends {
    let mut config = EndpointConfig::new();
    // Common header and DATA header are not part of it.
    config.max_payload_size(PACKET as u32 - 28);
    let config = Arc::new(config);
    let mut server = ServerConfig::new();
    server.transport = transport();
    let (addr_a, addr_b) = (
        "127.0.0.1:1".parse().expect("an address"),
        "127.0.0.1:2".parse().expect("an address"),
    );
    Ends {
        a: End {
            endpoint: Endpoint::new(config.clone(), None),
            association: None,
            addr: addr_a,
            connected: false,
        },
        b: End {
            endpoint: Endpoint::new(config, Some(Arc::new(server))),
            association: None,
            addr: addr_b,
            connected: false,
        },
        now: Instant::now(),
        packets: 0,
    }
}

impl End {
    fn events(&mut self) {
        let Some((handle, association)) = self.association.as_deref_mut() else {
            return;
        };
        while let Some(event) = association.poll() {
            match event {
                Event::Connected => self.connected = true,
                Event::AssociationLost { reason, .. } => panic!("{reason}"),
                _ => {}
            }
        }
        while let Some(event) = association.poll_endpoint_event() {
            self.endpoint.handle_event(*handle, event);
        }
    }
}

/// Carries what `from` has to send to `to`.
fn carry(from: &mut End, to: &mut End, now: Instant) -> u64 {
    let mut sent = 0;
    loop {
        let transmit = match from.endpoint.poll_transmit() {
            Some(transmit) => Some(transmit),
            None => from
                .association
                .as_deref_mut()
                .and_then(|(_, association)| association.poll_transmit(now)),
        };
        let Some(transmit) = transmit else { break };
        let Payload::RawEncode(packets) = transmit.payload else {
            continue;
        };
        for packet in packets {
            sent += 1;
            match to.endpoint.handle(now, from.addr, None, None, packet) {
                Some((handle, DatagramEvent::NewAssociation(association))) => {
                    to.association = Some(Box::new((handle, association)));
                }
                Some((_, DatagramEvent::AssociationEvent(event))) => {
                    let (_, association) = to.association.as_deref_mut().expect("it was announced");
                    association.handle_event(event);
                }
                None => {}
            }
        }
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
        let (mut sent, mut received) = (0, 0);
        while received < count {
            let (_, association) = self.a.association.as_deref_mut().expect("connected");
            let mut stream = match association.stream(0) {
                Ok(stream) => stream,
                Err(_) => association
                    .open_stream(0, PayloadProtocolIdentifier::Binary)
                    .expect("stream 0"),
            };
            while sent < count && stream.buffered_amount().expect("open") + len <= WINDOW {
                stream
                    .write_sctp(&payload, PayloadProtocolIdentifier::Binary)
                    .expect("there is room");
                sent += 1;
            }
            self.exchange();
            let (_, association) = self.b.association.as_deref_mut().expect("connected");
            let mut progress = false;
            if let Ok(mut stream) = association.stream(0) {
                while let Ok(Some(message)) = stream.read_sctp() {
                    assert_eq!(message.len(), len);
                    received += 1;
                    progress = true;
                }
            }
            self.exchange();
            if !progress {
                self.now += Duration::from_millis(10);
                for end in [&mut self.a, &mut self.b] {
                    end.association
                        .as_deref_mut()
                        .expect("connected")
                        .1
                        .handle_timeout(self.now);
                }
            }
        }
        self.exchange();
        self.packets - before
    }
}
