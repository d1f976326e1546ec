//! Events as JSON lines, with qlog names where qlog has one.

use serde_json::{Map, Value, json};
use whimbrel_control::{Span, Time};
use whimbrel_proto::{TraceEvent, TraceRecord};
use whimbrel_sim::{FrameEvent, FrameKind, PacketEvent, PacketFate};
use whimbrel_wire::Chunk;

/// Value for an unlimited slow-start threshold: the largest integer that fits into 64-bit tables.
const UNLIMITED: u64 = i64::MAX as u64;

/// Returns the line of an event: time in milliseconds since the start of the run, qlog name, flow, node, and data. Unknown fields
/// are omitted, because readers that infer types from the first lines fail on null.
pub(crate) fn line(at: Time, name: &str, flow: &str, node: &str, mut data: Map<String, Value>) -> String {
    data.retain(|_, value| !value.is_null());
    json!({ "time": millis(at.since(Time::ZERO)), "name": name, "flow": flow, "node": node, "data": data }).to_string()
}

/// Returns the line of a record of a transport, as in `events.jsonl`.
pub fn event_line(record: &TraceRecord, flow: &str, node: &str) -> String {
    let (name, data) = trace(record);
    line(record.at, name, flow, node, data)
}

/// Returns the name and the data of a trace record.
pub(crate) fn trace(record: &TraceRecord) -> (&'static str, Map<String, Value>) {
    (trace_name(&record.event), object(trace_data(&record.event)))
}

fn trace_name(event: &TraceEvent) -> &'static str {
    match event {
        TraceEvent::PacketSent { .. } => "transport:packet_sent",
        TraceEvent::PacketReceived { .. } => "transport:packet_received",
        TraceEvent::Discarded { .. } => "transport:packet_dropped",
        TraceEvent::TsnSent { .. } => "transport:tsn_sent",
        TraceEvent::TsnAcked { .. } => "transport:tsn_acked",
        TraceEvent::TsnLost { .. } => "recovery:tsn_lost",
        TraceEvent::Verdict { .. } => "recovery:loss_judged",
        TraceEvent::RecoveryMode { .. } => "recovery:mode_updated",
        TraceEvent::Window { .. } | TraceEvent::Rtt { .. } => "recovery:metrics_updated",
        TraceEvent::CeReceived { .. } => "transport:ce_received",
        TraceEvent::EcneSent { .. } => "transport:ecne_sent",
        TraceEvent::EcneReceived { .. } => "transport:ecne_received",
        TraceEvent::PathState { .. } => "connectivity:path_state_updated",
        TraceEvent::SendingPath { .. } => "connectivity:sending_path_updated",
        TraceEvent::Timer { .. } => "recovery:timer_expired",
        TraceEvent::State { .. } => "connectivity:connection_state_updated",
    }
}

fn trace_data(event: &TraceEvent) -> Value {
    match *event {
        TraceEvent::PacketSent { path, wire_len } => json!({ "path": path.0, "length": wire_len }),
        TraceEvent::PacketReceived { path, wire_len } => {
            json!({ "path": path.map(|path| path.0), "length": wire_len })
        }
        TraceEvent::Discarded { reason } => json!({ "trigger": word(&format!("{reason:?}")) }),
        TraceEvent::TsnSent {
            path,
            tsn,
            len,
            retransmission,
        } => json!({ "path": path.0, "tsn": tsn.0, "length": len, "retransmission": retransmission }),
        TraceEvent::TsnAcked { path, tsn }
        | TraceEvent::CeReceived { path, tsn }
        | TraceEvent::EcneSent { path, tsn } => json!({ "path": path.0, "tsn": tsn.0 }),
        TraceEvent::TsnLost { path, tsn, rule } => {
            json!({ "path": path.0, "tsn": tsn.0, "trigger": word(&format!("{rule:?}")) })
        }
        TraceEvent::Verdict {
            path,
            tsn,
            signal,
            verdict,
            cwnd_before,
            cwnd,
            strength: _,
            episode,
        } => json!({
            "path": path.0, "tsn": tsn.0, "trigger": word(&format!("{signal:?}")), "verdict": word(&format!("{verdict:?}")),
            "congestion_window_before": cwnd_before, "congestion_window": cwnd,
            "episode": episode,
        }),
        TraceEvent::RecoveryMode { path, mode } => json!({ "path": path.0, "new": word(&format!("{mode:?}")) }),
        TraceEvent::Window {
            path,
            cwnd,
            ssthresh,
            flight,
            peer_rwnd,
        } => json!({
            "path": path.0, "congestion_window": cwnd, "ssthresh": ssthresh.min(UNLIMITED), "bytes_in_flight": flight,
            "peer_receive_window": peer_rwnd,
        }),
        TraceEvent::Rtt {
            path,
            sample,
            srtt,
            rttvar,
            rto,
        } => json!({
            "path": path.0, "latest_rtt": millis(sample), "smoothed_rtt": millis(srtt), "rtt_variance": millis(rttvar),
            "retransmission_timeout": millis(rto),
        }),
        TraceEvent::EcneReceived { path, tsn, reduces } => {
            json!({ "path": path.0, "tsn": tsn.0, "reduces": reduces })
        }
        TraceEvent::PathState { path, state } => json!({ "path": path.0, "new": word(&format!("{state:?}")) }),
        TraceEvent::SendingPath { path } => json!({ "path": path.0 }),
        TraceEvent::Timer { timer, path } => {
            json!({ "timer": word(&format!("{timer:?}")), "path": path.map(|path| path.0) })
        }
        TraceEvent::State { state } => json!({ "new": word(&format!("{state:?}")) }),
    }
}

/// Returns the event of a dropped packet.
pub(crate) fn drop(event: &PacketEvent<'_>, link: Option<&str>) -> Option<(&'static str, Map<String, Value>)> {
    let PacketFate::Dropped(cause) = event.fate else {
        return None;
    };
    let mut data = object(json!({
        "trigger": cause.name(), "congestion": cause.is_congestion(), "link": link, "length": event.size,
        "number": event.number, "forward": event.forward, "sent": millis(event.sent.since(Time::ZERO)),
    }));
    let chunks = event.sctp.iter().flat_map(|packet| packet.chunks().flatten());
    let mut tsns = chunks.filter_map(|chunk| match chunk {
        Chunk::Data(chunk) => Some(chunk.tsn.0),
        _ => None,
    });
    if let Some(first) = tsns.next() {
        data.insert("tsn".to_owned(), first.into());
        data.insert("data_chunks".to_owned(), (1 + tsns.count()).into());
    } else if let Some((segment, _)) = event.tcp {
        data.insert("tsn".to_owned(), segment.seq.into());
    }
    Some(("network:packet_dropped", data))
}

/// Returns the event of a frame that was sent, or lost at its receiver.
pub(crate) fn frame(event: &FrameEvent, from: &str, to: Option<&str>) -> (&'static str, Map<String, Value>) {
    let kind = match event.kind {
        FrameKind::Rts => "rts",
        FrameKind::Cts => "cts",
        FrameKind::Data => "data",
        FrameKind::Ack => "ack",
    };
    let data = match event.lost {
        None => json!({
            "type": kind, "from": from, "to": to, "duration": millis(event.airtime), "retry": event.retry,
        }),
        Some(cause) => json!({ "type": kind, "from": from, "to": to, "trigger": cause.name() }),
    };
    let name = if event.lost.is_none() {
        "radio:frame_sent"
    } else {
        "radio:frame_lost"
    };
    (name, object(data))
}

/// Returns the event of a new next hop from one radio to another, with the rank of the disjoint route; without a next hop packets
/// are dropped.
pub(crate) fn route(from: &str, destination: &str, rank: u8, next_hop: Option<&str>) -> Map<String, Value> {
    let mut data = object(json!({ "from": from, "destination": destination, "next_hop": next_hop }));
    if rank > 0 {
        data.insert("way".to_owned(), rank.into());
    }
    data
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Returns milliseconds, exact to the nanosecond for runs of up to a hundred days.
fn millis(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e6
}

/// Returns a variant's name in the style of qlog: `MissingReports` is `missing_reports`.
fn word(variant: &str) -> String {
    let name = variant.split([' ', '(', '{']).next().unwrap_or_default();
    let mut word = String::with_capacity(name.len() + 4);
    for (i, c) in name.char_indices() {
        if c.is_ascii_uppercase() && i > 0 {
            word.push('_');
        }
        word.push(c.to_ascii_lowercase());
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use whimbrel_proto::PathId;

    #[test]
    fn words_are_in_snake_case() {
        assert_eq!(word("MissingReports"), "missing_reports");
        assert_eq!(word("Malformed(Chunk)"), "malformed");
        assert_eq!(word("BadTag { got: 1 }"), "bad_tag");
    }

    #[test]
    fn every_number_fits_into_64_bits_with_a_sign_and_no_field_is_null() {
        let window = |ssthresh| TraceEvent::Window {
            path: PathId(0),
            cwnd: u64::MAX >> 1,
            ssthresh,
            flight: 0,
            peer_rwnd: 0,
        };
        let timer = TraceEvent::PacketReceived {
            path: None,
            wire_len: 1,
        };
        for event in [window(u64::MAX), window(u64::MAX - 1), window(4380), timer] {
            let (name, data) = trace(&TraceRecord {
                at: Time::ZERO,
                association: None,
                event,
            });
            let line: Value = serde_json::from_str(&line(Time::ZERO, name, "f", "n", data)).expect("JSON");
            let fields = line["data"].as_object().expect("an object");
            assert!(fields.values().all(|value| value.as_i64().is_some()), "{line}");
        }
    }

    #[test]
    fn a_window_is_a_line_that_qlog_tools_know() {
        let event = TraceEvent::Window {
            path: PathId(1),
            cwnd: 4380,
            ssthresh: 8000,
            flight: 1468,
            peer_rwnd: 65536,
        };
        let at = Time::from_nanos(1_500_000_001);
        let (name, data) = trace(&TraceRecord {
            at,
            association: None,
            event,
        });
        assert_eq!(
            line(at, name, "upload", "phone", data),
            "{\"data\":{\"bytes_in_flight\":1468,\"congestion_window\":4380,\"path\":1,\"peer_receive_window\":65536,\
             \"ssthresh\":8000},\"flow\":\"upload\",\"name\":\"recovery:metrics_updated\",\"node\":\"phone\",\
             \"time\":1500.000001}"
        );
    }
}
