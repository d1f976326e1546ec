//! The history of a packet, from the capture and the events of a folder of results.

use std::fmt::Write as _;
use std::io::BufRead;
use std::path::Path;

use serde_json::Value;
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

/// Returns the history of a packet: when and by which end it was sent, whether and where the network dropped it, and what the
/// transport did.
///
/// # Errors
/// Returns an error message if the folder has no capture, or the capture has no such packet.
pub fn why(folder: &Path, asked: Asked) -> Result<String, String> {
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
    let mut text = format!("packet {} of {}\n", packet.number, capture.display());
    let _ = writeln!(
        text,
        "  {}  sent over {}: {}",
        seconds(packet.at_ms()),
        packet.interface,
        contents(packet)
    );
    let again: Vec<u64> = packets
        .iter()
        .filter(|other| other.number != packet.number)
        .filter(|other| tsns(other).iter().any(|tsn| tsns(packet).contains(tsn)))
        .map(|other| other.number)
        .collect();
    let events = capture.with_file_name("events.jsonl");
    let mut lines = history(packet, &events)?;
    let dropped = packet.comment.as_deref();
    if let Some(comment) = dropped.filter(|_| !lines.iter().any(|(_, line)| line.starts_with("dropped"))) {
        lines.push((packet.at_ms(), comment.to_owned()));
    }
    if dropped.is_none() {
        lines.push((packet.at_ms(), "the network did not drop it".to_owned()));
    }
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (at, line) in lines {
        let _ = writeln!(text, "  {}  {line}", seconds(at));
    }
    if !again.is_empty() {
        let numbers: Vec<_> = again.iter().map(u64::to_string).collect();
        let _ = writeln!(text, "  the same data is in packet {}", numbers.join(", "));
    }
    if !events.exists() {
        text.push_str("  there is no events.jsonl with the transport's events; record.events = \"first\" records it\n");
    }
    Ok(text)
}

/// Returns the events of a packet's data, by time in milliseconds.
fn history(packet: &Captured, events: &Path) -> Result<Vec<(f64, String)>, String> {
    let tsns = tsns(packet);
    if tsns.is_empty() || !events.exists() {
        return Ok(Vec::new());
    }
    let cannot = |error: &std::io::Error| format!("cannot read {}: {}", events.display(), plain(error));
    let file = std::fs::File::open(events).map_err(|error| cannot(&error))?;
    let mut found = Vec::new();
    // The end that sent this TSN at this time is the sender of the packet.
    let mut sender: Option<(String, String)> = None;
    for line in std::io::BufReader::new(file).lines() {
        let line = line.map_err(|error| cannot(&error))?;
        if !line.contains("\"tsn\":") {
            continue;
        }
        let Ok(event) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        let tsn = event["data"]["tsn"].as_u64();
        if !tsn.is_some_and(|tsn| tsns.contains(&(tsn as u32))) {
            continue;
        }
        let at = event["time"].as_f64().unwrap_or_default();
        let word = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        if word("name") == "transport:tsn_sent" && (at - packet.at_ms()).abs() < 1e-6 && sender.is_none() {
            sender = Some((word("flow"), word("node")));
        }
        if let Some(line) = describe(&event) {
            found.push((at, word("flow"), line));
        }
    }
    let flow = sender.map(|(flow, _)| flow);
    let ours = found
        .into_iter()
        .filter(|(_, of, _)| flow.as_ref().is_none_or(|flow| flow == of));
    Ok(ours.map(|(at, _, line)| (at, line)).collect())
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

fn seconds(ms: f64) -> String {
    format!("{:>12.6} s", ms / 1e3)
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

/// Returns addresses, length and chunks of a packet.
fn contents(packet: &Captured) -> String {
    let ip = &packet.bytes;
    let address = |at: usize| {
        let bytes = ip.get(at..at + 4).unwrap_or(&[0; 4]);
        bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(".")
    };
    let mut text = format!("{} to {}, {} bytes", address(12), address(16), ip.len());
    let what = match (sctp(packet), ip.get(9)) {
        (Some(view), _) => {
            let names = view.chunks().flatten().map(|chunk| match chunk {
                Chunk::Data(data) => format!("DATA TSN {} of stream {}", data.tsn.0, data.stream),
                Chunk::Sack(sack) => format!(
                    "SACK up to TSN {} with {} gap ack blocks",
                    sack.cumulative_tsn_ack.0,
                    sack.gaps.len()
                ),
                other => other.chunk_type().to_string(),
            });
            names.collect::<Vec<_>>().join(", ")
        }
        (None, Some(6)) => "TCP".to_owned(),
        (None, Some(17)) => "UDP".to_owned(),
        _ => String::new(),
    };
    if !what.is_empty() {
        let _ = write!(text, ": {what}");
    }
    text
}
