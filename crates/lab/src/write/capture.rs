//! A run's packets as a capture: each once, as its host sends it, with a comment if the network dropped it.
//!
//! Packets wait here, in the order of sending, until their fate is known.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};

use whimbrel_control::Time;
use whimbrel_proto::Ecn;
use whimbrel_sim::config::SimConfig;
use whimbrel_sim::topology::DirectionId;
use whimbrel_sim::{PacketEvent, PacketFate};
use whimbrel_wire::{ByteSink, ChecksumField, PacketSink};

use super::ip::{Header, Protocol, emit};
use super::pcapng::{Capture, Direction, Interface};
use super::tcp;

/// Maximum number of packets that wait for their fate. Only networks with huge queues have more; the oldest is then written without
/// it.
const MOST_WAITING: usize = 1 << 16;

/// A packet whose fate is not yet known.
#[derive(Debug)]
struct Waiting {
    key: Key,
    at: Time,
    direction: Option<DirectionId>,
    bytes: Vec<u8>,
    /// None while it is not known.
    fate: Option<Option<String>>,
}

/// Flow, whether sent by the flow's sender, number.
type Key = (u32, bool, u32);

/// Converts a run's packet events to a capture.
#[derive(Debug)]
pub(crate) struct PacketWriter<W> {
    capture: Capture<W>,
    waiting: VecDeque<Waiting>,
    /// Index in `waiting`, counted from the first packet.
    places: BTreeMap<Key, u64>,
    first: u64,
    /// Memory of written packets, to be reused.
    spare: Vec<Vec<u8>>,
    limit: u64,
    /// Whether the limit was reached: further packets are ignored.
    full: bool,
    /// Number of links, whose interfaces precede those of radios.
    links: u32,
}

impl<W: Write> PacketWriter<W> {
    /// Starts a capture with an interface per link.
    pub(crate) fn new(out: W, config: &SimConfig, limit: u64) -> io::Result<Self> {
        let interfaces: Vec<_> = config
            .link
            .iter()
            .map(|link| Interface {
                name: link.display_name(),
                description: format!(
                    "simulated link from {} to {}; outbound is in this direction",
                    link.between[0], link.between[1]
                ),
                speed: link.rate.map(|rate| rate.as_bps()),
            })
            .collect();
        let radios = config.radio.iter().map(|radio| Interface {
            name: radio.display_name(),
            description: format!("simulated radio of {}", radio.node),
            speed: None,
        });
        let interfaces: Vec<_> = interfaces.into_iter().chain(radios).collect();
        let application = format!("whimbrel {}", env!("CARGO_PKG_VERSION"));
        Ok(PacketWriter {
            capture: Capture::new(out, &application, &interfaces)?,
            waiting: VecDeque::new(),
            places: BTreeMap::new(),
            first: 0,
            spare: Vec::new(),
            limit,
            full: false,
            links: config.link.len() as u32,
        })
    }

    /// Handles an event. `link` is the name of its link.
    pub(crate) fn event(&mut self, event: &PacketEvent<'_>, link: Option<&str>) -> io::Result<()> {
        let key = (event.flow, event.forward, event.number);
        match event.fate {
            PacketFate::Sent => self.sent(key, event),
            PacketFate::Delivered => self.decided(key, None),
            PacketFate::Dropped(cause) => {
                let place = link.map_or_else(String::new, |link| format!(" on {link}"));
                self.decided(key, Some(format!("dropped{place} at {}: {}", event.at, cause.name())))
            }
            PacketFate::Enqueued { .. } | PacketFate::Crossed => Ok(()),
        }
    }

    fn sent(&mut self, key: Key, event: &PacketEvent<'_>) -> io::Result<()> {
        if self.full {
            return Ok(());
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        packet_bytes(event, &mut bytes);
        self.places.insert(key, self.first + self.waiting.len() as u64);
        self.waiting.push_back(Waiting {
            key,
            at: event.at,
            direction: event.direction,
            bytes,
            fate: None,
        });
        if self.waiting.len() > MOST_WAITING {
            self.write_first()?;
        }
        Ok(())
    }

    fn decided(&mut self, key: Key, comment: Option<String>) -> io::Result<()> {
        let Some(place) = self.places.remove(&key) else {
            return Ok(());
        };
        if let Some(packet) = self.waiting.get_mut((place - self.first) as usize) {
            packet.fate = Some(comment);
        }
        while self.waiting.front().is_some_and(|packet| packet.fate.is_some()) {
            self.write_first()?;
        }
        Ok(())
    }

    fn write_first(&mut self) -> io::Result<()> {
        let Some(packet) = self.waiting.pop_front() else {
            return Ok(());
        };
        self.first += 1;
        self.places.remove(&packet.key);
        if !self.full {
            let direction = packet.direction.unwrap_or(DirectionId::of_link(0, 0));
            // A radio's packets are recorded at the sending radio.
            let (interface, outbound) = match direction.radio() {
                Some(radio) => (self.links + radio, true),
                None => (direction.link(), direction.is_forward()),
            };
            let way = if outbound {
                Direction::Outbound
            } else {
                Direction::Inbound
            };
            let comment = packet.fate.flatten();
            self.capture
                .packet(interface, packet.at.as_nanos(), way, &packet.bytes, comment.as_deref())?;
            self.full = self.capture.written() >= self.limit;
        }
        self.spare.push(packet.bytes);
        Ok(())
    }

    /// Writes the packets in transit. Returns the file, and whether the capture was cut at the limit.
    pub(crate) fn finish(mut self) -> io::Result<(W, bool)> {
        while !self.waiting.is_empty() {
            self.write_first()?;
        }
        Ok((self.capture.finish()?, self.full))
    }
}

/// Writes the packet as on the wire: IPv4, then SCTP or TCP with its checksum, or UDP with zeros. A program's packet is written as
/// the program sent it.
fn packet_bytes(event: &PacketEvent<'_>, out: &mut Vec<u8>) {
    if let Some(packet) = event.ip {
        return out.extend_from_slice(packet);
    }
    let ecn = match event.ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    };
    let protocol = if event.sctp.is_some() {
        Protocol::Sctp
    } else if event.tcp.is_some() {
        Protocol::Tcp
    } else {
        Protocol::Udp
    };
    let header = Header {
        from: event.source,
        to: event.destination,
        ecn,
        identification: event.number as u16,
        dont_fragment: !event.fragment,
        protocol,
    };
    if let Some((segment, payload)) = event.tcp {
        emit(header, segment.len() as usize, out);
        tcp::emit(&header, segment, payload, out);
        return;
    }
    match &event.sctp {
        Some(view) => {
            let length = (event.size as usize).saturating_sub(20);
            emit(header, length, out);
            let mut sink = ByteSink::new(out, ChecksumField::Compute);
            sink.begin(view.header());
            view.chunks().flatten().for_each(|chunk| sink.push(&chunk));
            sink.finish();
        }
        None => {
            let length = (event.size as usize).saturating_sub(28);
            emit(header, length, out);
            out.resize(out.len() + length, 0);
        }
    }
}
