//! qlog in JSON text sequences (RFC 7464): version 0.3 of the main schema, which qvis reads, and the fields of its later drafts.
//!
//! qvis draws packets with unique numbers. A chunk keeps its TSN when it is sent again, so each transmission on a path has a number of
//! its own here: a `packet_sent` per transmission of a chunk, a `packet_received` with the numbers that its SACK newly acknowledges,
//! and a `packet_lost`. Events that QUIC does not have are named `sctp:...`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::event::Event;

/// Where the events beginning with `sctp:` are defined.
const SCHEMA: &str = "urn:whimbrel:qlog:sctp-00";

/// The traces of all flows, nodes and paths.
#[derive(Default)]
pub(super) struct Traces {
    ends: BTreeMap<(String, String), End>,
}

/// One end of a flow.
#[derive(Default)]
struct End {
    is_client: bool,
    paths: BTreeMap<u64, Trace>,
    /// The path and the number of the last transmission of each TSN that is in flight.
    in_flight: BTreeMap<u64, (u64, u64)>,
}

/// One path of one end.
#[derive(Default)]
pub(super) struct Trace {
    flow: String,
    node: String,
    path: u64,
    is_client: bool,
    sent: u64,
    received: u64,
    records: Vec<Value>,
    /// The packet received last, whose acknowledgements are not complete: its event, and the numbers.
    open: Option<(Value, Vec<u64>)>,
}

impl Traces {
    /// Adds an event.
    pub(super) fn add(&mut self, event: &Event) {
        if event.flow.is_empty() || event.name.starts_with("network:") || event.name.starts_with("radio:") {
            return;
        }
        let end = self.ends.entry((event.flow.clone(), event.node.clone())).or_default();
        end.is_client |= event.text("new") == Some("cookie_wait");
        end.add(event);
    }

    /// Returns the traces of paths that sent data.
    pub(super) fn finish(self) -> Vec<Trace> {
        let mut all = Vec::new();
        for ((flow, node), end) in self.ends {
            for (path, mut trace) in end.paths {
                if trace.sent == 0 {
                    continue;
                }
                trace.close();
                (trace.flow, trace.node, trace.path) = (flow.clone(), node.clone(), path);
                trace.is_client = end.is_client;
                all.push(trace);
            }
        }
        all
    }
}

impl End {
    fn add(&mut self, event: &Event) {
        let Some(path) = event.number("path") else { return };
        let tsn = event.number("tsn");
        match event.name.as_str() {
            // A packet is recorded by its chunks; control chunks are in the capture.
            "transport:packet_sent" => {}
            "transport:packet_received" => self.trace(path).receive(event),
            "transport:tsn_sent" => {
                if let Some(tsn) = tsn {
                    let number = self.trace(path).send(event);
                    self.in_flight.insert(tsn, (path, number));
                }
            }
            "transport:tsn_acked" => {
                // The SACK may have arrived on another path than the data was sent on.
                if let Some((path, number)) = tsn.and_then(|tsn| self.in_flight.remove(&tsn)) {
                    self.trace(path).acknowledge(event.time, number);
                }
            }
            "recovery:tsn_lost" => {
                if let Some((path, number)) = tsn.and_then(|tsn| self.in_flight.remove(&tsn)) {
                    let mut data = event.data.clone();
                    data.insert("header".to_owned(), header(number));
                    self.trace(path).record(event.time, "recovery:packet_lost", data);
                }
            }
            "recovery:metrics_updated" => {
                let mut data = event.data.clone();
                // No threshold yet.
                data.retain(|_, value| value.as_i64() != Some(i64::MAX));
                self.trace(path).record(event.time, "recovery:metrics_updated", data);
            }
            other => {
                let name = other.split_once(':').map_or(other, |(_, name)| name);
                self.trace(path)
                    .record(event.time, &format!("sctp:{name}"), event.data.clone());
            }
        }
    }

    fn trace(&mut self, path: u64) -> &mut Trace {
        self.paths.entry(path).or_default()
    }
}

fn header(number: u64) -> Value {
    json!({ "packet_type": "1RTT", "packet_number": number })
}

impl Trace {
    fn record(&mut self, time: f64, name: &str, data: Map<String, Value>) {
        self.close();
        self.records.push(json!({ "time": time, "name": name, "data": data }));
    }

    fn send(&mut self, event: &Event) -> u64 {
        let number = self.sent;
        self.sent += 1;
        let mut data = event.data.clone();
        data.insert("header".to_owned(), header(number));
        data.insert("raw".to_owned(), json!({ "length": event.number("length") }));
        data.remove("length");
        self.record(event.time, "transport:packet_sent", data);
        number
    }

    fn receive(&mut self, event: &Event) {
        self.close();
        let data = json!({ "header": header(self.received), "raw": { "length": event.number("length") } });
        self.received += 1;
        let record = json!({ "time": event.time, "name": "transport:packet_received", "data": data });
        self.open = Some((record, Vec::new()));
    }

    /// Adds a number to those that the packet received at this time acknowledges.
    fn acknowledge(&mut self, time: f64, number: u64) {
        if self.open.as_ref().is_none_or(|(record, _)| record["time"] != time) {
            self.close();
            let data = json!({ "header": header(self.received) });
            self.received += 1;
            let record = json!({ "time": time, "name": "transport:packet_received", "data": data });
            self.open = Some((record, Vec::new()));
        }
        if let Some((_, numbers)) = &mut self.open {
            numbers.push(number);
        }
    }

    /// Records the packet received last.
    fn close(&mut self) {
        let Some((mut record, mut numbers)) = self.open.take() else {
            return;
        };
        numbers.sort_unstable();
        let mut ranges: Vec<[u64; 2]> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some(range) if range[1] + 1 == number => range[1] = number,
                _ => ranges.push([number, number]),
            }
        }
        if !ranges.is_empty() {
            record["data"]["frames"] = json!([{ "frame_type": "ack", "acked_ranges": ranges }]);
        }
        self.records.push(record);
    }

    /// Returns the beginning of the name of the file: letters, digits and hyphens.
    pub(super) fn file_stem(&self) -> String {
        let plain = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-");
        format!("{}-{}-path-{}", plain(&self.flow), plain(&self.node), self.path)
    }

    /// Writes the file.
    pub(super) fn write(&self, file: &mut dyn Write) -> io::Result<()> {
        let title = format!("{}, {}, path {}", self.flow, self.node, self.path);
        let side = if self.is_client { "client" } else { "server" };
        let trace = json!({
            "title": title,
            "vantage_point": { "name": self.node, "type": side },
            "common_fields": {
                "time_format": "relative", "reference_time": 0, "protocol_type": ["SCTP"], "group_id": self.flow,
            },
            "event_schemas": [SCHEMA],
        });
        let header = json!({
            "qlog_version": "0.3", "qlog_format": "JSON-SEQ",
            "file_schema": "urn:ietf:params:qlog:file:sequential", "serialization_format": "application/qlog+json-seq",
            "title": title, "trace": trace,
        });
        for record in std::iter::once(&header).chain(&self.records) {
            writeln!(file, "\u{1e}{record}")?;
        }
        Ok(())
    }
}
