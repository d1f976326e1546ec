//! The history of a packet, from the capture and the events of a folder of results.

use std::fmt;
use std::io::BufRead;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use whimbrel_scenario::visible;
use whimbrel_wire::{Checksum, Chunk, PacketView};

use crate::recorded::find;
use crate::write::file::plain;
use crate::write::pcapng::{Captured, read_packets};

/// The requested packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The packet with this number in the capture, from 1, as in Wireshark.
    Number(u64),
    /// The first packet with this TSN.
    Tsn(u32),
}

impl std::str::FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a packet is its number in the capture, or tsn=N".to_owned();
        match text.split_once('=') {
            Some(("tsn", tsn)) => tsn.parse().map(Asked::Tsn).map_err(|_| wrong()),
            Some(_) => Err(wrong()),
            None => match text.parse() {
                Ok(number) if number > 0 => Ok(Asked::Number(number)),
                _ => Err(wrong()),
            },
        }
    }
}

/// The history of a packet: when and where it was sent, whether and where the network dropped it, and what the transport did. Its
/// `Display` is text for people; serialized, it has the same facts as fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct History {
    capture: String,
    packet: u64,
    sent_s: f64,
    interface: String,
    from: String,
    to: String,
    bytes: usize,
    protocol: Option<&'static str>,
    chunks: Vec<ChunkFacts>,
    dropped: Option<Dropped>,
    /// Other packets with the same data.
    same_data_in: Vec<u64>,
    has_events: bool,
    events: Vec<PastEvent>,
}

/// A chunk of the packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct ChunkFacts {
    #[serde(rename = "type")]
    kind: String,
    /// Of DATA.
    #[serde(skip_serializing_if = "Option::is_none")]
    tsn: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<u16>,
    /// Of SACK.
    #[serde(skip_serializing_if = "Option::is_none")]
    cumulative_tsn: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap_ack_blocks: Option<usize>,
}

/// The drop of the packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Dropped {
    /// The comment in the capture.
    comment: String,
    /// None without the event of the drop, as the other fields but the cause.
    at_s: Option<f64>,
    cause: Option<String>,
    congestion: Option<bool>,
    link: Option<String>,
}

/// An event of the packet's data.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct PastEvent {
    at_s: f64,
    name: String,
    flow: String,
    node: String,
    /// As in the file of events.
    data: Value,
    text: String,
}

/// Returns the history of a packet.
///
/// # Errors
/// Returns an error message if the folder has no capture, or the capture has no such packet.
pub fn why(folder: &Path, asked: Asked) -> Result<History, String> {
    let capture = find(folder, "packets.pcapng", "record.packets = \"first\"")?;
    let bytes =
        std::fs::read(&capture).map_err(|error| format!("cannot read {}: {}", capture.display(), plain(&error)))?;
    let packets =
        read_packets(&bytes).ok_or_else(|| format!("{} is not a capture of this program", capture.display()))?;
    let found = match asked {
        Asked::Number(number) => packets.get(number as usize - 1),
        Asked::Tsn(tsn) => packets.iter().find(|packet| tsns(packet).contains(&tsn)),
    };
    let Some(packet) = found else {
        return Err(match asked {
            Asked::Number(_) => format!("{} has {} packets", capture.display(), packets.len()),
            Asked::Tsn(tsn) => format!("no packet of {} carries TSN {tsn}", capture.display()),
        });
    };
    let same_data_in = packets
        .iter()
        .filter(|other| other.number != packet.number)
        .filter(|other| tsns(other).iter().any(|tsn| tsns(packet).contains(tsn)))
        .map(|other| other.number)
        .collect();
    let path = capture.with_file_name("events.jsonl");
    let (events, drop) = recorded_events(packet, &path)?;
    let dropped = packet.comment.as_ref().map(|comment| Dropped {
        comment: comment.clone(),
        // The cause is the end of the comment; only the event has the other facts.
        cause: comment.rsplit_once(": ").map(|(_, cause)| cause.to_owned()),
        ..drop.unwrap_or_default()
    });
    let (chunks, protocol) = contents(packet);
    Ok(History {
        capture: capture.display().to_string(),
        packet: packet.number,
        sent_s: packet.nanos as f64 / 1e9,
        interface: packet.interface.clone(),
        from: address(packet, 12),
        to: address(packet, 16),
        bytes: packet.bytes.len(),
        protocol,
        chunks,
        dropped,
        same_data_in,
        has_events: path.exists(),
        events,
    })
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "packet {} of {}", self.packet, visible(&self.capture))?;
        let (from, to, bytes) = (&self.from, &self.to, self.bytes);
        let sent = seconds(self.sent_s);
        write!(
            f,
            "  {sent}  sent over {}: {from} to {to}, {bytes} bytes",
            visible(&self.interface)
        )?;
        let chunks: Vec<_> = self.chunks.iter().map(ChunkFacts::to_string).collect();
        match self.protocol {
            Some(_) if !chunks.is_empty() => writeln!(f, ": {}", chunks.join(", "))?,
            Some(protocol) if protocol != SCTP => writeln!(f, ": {protocol}")?,
            _ => writeln!(f)?,
        }
        let mut lines: Vec<_> = self
            .events
            .iter()
            .map(|event| (event.at_s, event.text.as_str()))
            .collect();
        match &self.dropped {
            None => lines.push((self.sent_s, "the network did not drop it")),
            Some(dropped) if !lines.iter().any(|(_, line)| line.starts_with("dropped")) => {
                lines.push((self.sent_s, &dropped.comment));
            }
            Some(_) => {}
        }
        lines.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, line) in lines {
            writeln!(f, "  {}  {}", seconds(at), visible(line))?;
        }
        if !self.same_data_in.is_empty() {
            let numbers: Vec<_> = self.same_data_in.iter().map(u64::to_string).collect();
            writeln!(f, "  the same data is in packet {}", numbers.join(", "))?;
        }
        if !self.has_events {
            f.write_str(
                "  there is no events.jsonl with the transport's events; record.events = \"first\" records it\n",
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for ChunkFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if let (Some(tsn), Some(stream)) = (self.tsn, self.stream) {
            write!(f, " TSN {tsn} of stream {stream}")?;
        }
        if let (Some(tsn), Some(gaps)) = (self.cumulative_tsn, self.gap_ack_blocks) {
            write!(f, " up to TSN {tsn} with {gaps} gap ack blocks")?;
        }
        Ok(())
    }
}

/// Returns the events of a packet's data in the order of the file, and the packet's drop, if it has an event.
fn recorded_events(packet: &Captured, events: &Path) -> Result<(Vec<PastEvent>, Option<Dropped>), String> {
    if !events.exists() {
        return Ok((Vec::new(), None));
    }
    let tsns = tsns(packet);
    let cannot = |error: &std::io::Error| format!("cannot read {}: {}", events.display(), plain(error));
    let file = std::fs::File::open(events).map_err(|error| cannot(&error))?;
    let (mut found, mut dropped) = (Vec::new(), None);
    // The end that sent this TSN at this time is the sender of the packet.
    let mut sender: Option<String> = None;
    for line in std::io::BufReader::new(file).lines() {
        let line = line.map_err(|error| cannot(&error))?;
        let is_drop = packet.comment.is_some() && line.contains(DROPPED);
        if !is_drop && (tsns.is_empty() || !line.contains("\"tsn\":")) {
            continue;
        }
        let Ok(event) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        let data = &event["data"];
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let at_s = event["time"].as_f64().unwrap_or_default() / 1e3;
        if is_drop && is_drop_of(packet, &event) {
            dropped = Some(Dropped {
                at_s: Some(at_s),
                congestion: data["congestion"].as_bool(),
                link: data["link"].as_str().map(str::to_owned),
                ..Dropped::default()
            });
        }
        let tsn = data["tsn"].as_u64();
        if !tsn.is_some_and(|tsn| tsns.contains(&(tsn as u32))) {
            continue;
        }
        let (name, flow) = (word(&event["name"]), word(&event["flow"]));
        if name == "transport:tsn_sent" && is_at(&event["time"], packet) && sender.is_none() {
            sender = Some(flow.clone());
        }
        if let Some(text) = describe(&event) {
            found.push(PastEvent {
                at_s,
                name,
                flow,
                node: word(&event["node"]),
                data: data.clone(),
                text,
            });
        }
    }
    found.retain(|event| sender.as_ref().is_none_or(|flow| *flow == event.flow));
    Ok((found, dropped))
}

/// The name of the event of a drop.
const DROPPED: &str = "network:packet_dropped";

/// Returns whether an event is the drop of this packet: the comment has its cause, and the packet was sent then. Another packet of the
/// same length may have been sent at the same time; then its drop has another TSN, or is on another link.
fn is_drop_of(packet: &Captured, event: &Value) -> bool {
    let data = &event["data"];
    let is_same = |part: &str, value: &Value| {
        let text = value.as_str();
        text.is_none_or(|text| {
            packet
                .comment
                .as_ref()
                .is_some_and(|comment| comment.contains(&format!("{part}{text}")))
        })
    };
    event["name"] == DROPPED
        && is_at(&data["sent"], packet)
        && data["length"].as_u64() == Some(packet.bytes.len() as u64)
        && (sctp(packet).is_none() || data["tsn"].as_u64() == tsns(packet).first().map(|tsn| u64::from(*tsn)))
        && is_same(" on ", &data["link"])
        && is_same(": ", &data["trigger"])
}

/// Returns whether a time in milliseconds is that at which the packet was sent.
fn is_at(millis: &Value, packet: &Captured) -> bool {
    millis.as_f64().is_some_and(|at| (at - packet.at_ms()).abs() < 1e-6)
}

fn describe(event: &Value) -> Option<String> {
    let data = &event["data"];
    let node = event["node"].as_str().unwrap_or_default();
    let tsn = data["tsn"].as_u64()?;
    let word = |key: &str| data[key].as_str().unwrap_or_default().replace('_', " ");
    Some(match event["name"].as_str()? {
        "transport:tsn_sent" if data["retransmission"] == true => {
            format!("{node}: TSN {tsn} retransmitted on path {}", data["path"])
        }
        "transport:tsn_sent" => format!("{node}: TSN {tsn} sent on path {}", data["path"]),
        "transport:tsn_acked" => format!("{node}: TSN {tsn} acknowledged on path {}", data["path"]),
        "recovery:tsn_lost" => format!("{node}: TSN {tsn} declared lost ({})", word("trigger")),
        "recovery:loss_judged" => format!(
            "{node}: the loss of TSN {tsn} judged {}; cwnd {} to {} bytes",
            word("verdict"),
            data["congestion_window_before"],
            data["congestion_window"]
        ),
        "transport:ce_received" => format!("{node}: TSN {tsn} arrived marked (CE)"),
        "network:packet_dropped" => {
            let kind = if data["congestion"] == true {
                "congestion"
            } else {
                "no congestion"
            };
            let place = data["link"]
                .as_str()
                .map_or_else(String::new, |link| format!(" on {link}"));
            format!(
                "dropped{place}: {}, {kind}",
                data["trigger"].as_str().unwrap_or_default()
            )
        }
        _ => return None,
    })
}

fn seconds(s: f64) -> String {
    format!("{s:>12.6} s")
}

/// Returns the TSNs of the DATA chunks in a packet.
fn tsns(packet: &Captured) -> Vec<u32> {
    let Some(view) = sctp(packet) else { return Vec::new() };
    let chunks = view.chunks().flatten();
    let data = chunks.filter_map(|chunk| match chunk {
        Chunk::Data(data) => Some(data.tsn.0),
        _ => None,
    });
    data.collect()
}

fn sctp(packet: &Captured) -> Option<PacketView<'_>> {
    let ip = &packet.bytes;
    let header = usize::from(ip.first()? & 15) * 4;
    (*ip.get(9)? == 132)
        .then(|| PacketView::parse(ip.get(header..)?, Checksum::Ignore).ok())
        .flatten()
}

/// Returns the IPv4 address at this place of a packet.
fn address(packet: &Captured, at: usize) -> String {
    let bytes = packet.bytes.get(at..at + 4).unwrap_or(&[0; 4]);
    bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(".")
}

const SCTP: &str = "SCTP";

/// Returns the chunks of a packet and its protocol.
fn contents(packet: &Captured) -> (Vec<ChunkFacts>, Option<&'static str>) {
    let Some(view) = sctp(packet) else {
        let protocol = match packet.bytes.get(9) {
            Some(6) => Some("TCP"),
            Some(17) => Some("UDP"),
            _ => None,
        };
        return (Vec::new(), protocol);
    };
    let chunks = view.chunks().flatten().map(|chunk| {
        let mut facts = ChunkFacts {
            kind: chunk.chunk_type().to_string(),
            ..ChunkFacts::default()
        };
        match chunk {
            Chunk::Data(data) => (facts.tsn, facts.stream) = (Some(data.tsn.0), Some(data.stream)),
            Chunk::Sack(sack) => {
                facts.cumulative_tsn = Some(sack.cumulative_tsn_ack.0);
                facts.gap_ack_blocks = Some(sack.gaps.len());
            }
            _ => {}
        }
        facts
    });
    (chunks.collect(), Some(SCTP))
}
