//! Trace events in JSON, which Perfetto and Chrome open.
//!
//! A node is a process. Each of its flows has a track per path: transmissions of chunks as asynchronous slices from sending to
//! acknowledgement or loss, recovery and the state of the path as slices, verdicts and timers as instants, and counters. The links are
//! a process of their own, with drops as instants.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::event::Event;

/// The process of the links.
const NETWORK: u64 = 1;

/// The events read so far.
pub(super) struct Trace {
    written: Vec<Value>,
    /// Numbers of the nodes' processes.
    nodes: BTreeMap<String, u64>,
    /// Numbers of the tracks, by process and name.
    tracks: BTreeMap<(u64, String), u64>,
    /// Transmissions that have not ended: by node, flow and TSN, their number and path.
    in_flight: BTreeMap<(String, String, u64), (u64, u64)>,
    transmissions: u64,
    /// States that have not ended, by track: since when, in microseconds, and their name.
    states: BTreeMap<(u64, u64), (f64, String)>,
    /// The last time, in microseconds.
    last: f64,
}

impl Trace {
    pub(super) fn new() -> Self {
        let mut trace = Trace {
            written: Vec::new(),
            nodes: BTreeMap::new(),
            tracks: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            transmissions: 0,
            states: BTreeMap::new(),
            last: 0.0,
        };
        trace.name_process(NETWORK, "links");
        trace
    }

    fn name_process(&mut self, process: u64, name: &str) {
        self.written
            .push(json!({ "ph": "M", "name": "process_name", "pid": process, "args": { "name": name } }));
    }

    /// Returns the process of a node.
    fn process(&mut self, node: &str) -> u64 {
        if let Some(process) = self.nodes.get(node) {
            return *process;
        }
        let process = NETWORK + 1 + self.nodes.len() as u64;
        self.nodes.insert(node.to_owned(), process);
        self.name_process(process, node);
        process
    }

    /// Returns the track with this name in a process.
    fn track(&mut self, process: u64, name: &str) -> u64 {
        if let Some(track) = self.tracks.get(&(process, name.to_owned())) {
            return *track;
        }
        // Numbers of threads are unique among all processes.
        let track = 100 + self.tracks.len() as u64;
        self.tracks.insert((process, name.to_owned()), track);
        self.written
            .push(json!({ "ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": { "name": name } }));
        track
    }

    /// Adds an event.
    pub(super) fn add(&mut self, event: &Event) {
        let at = event.time * 1000.0;
        self.last = self.last.max(at);
        if event.name == "network:packet_dropped" {
            return self.add_drop(event, at);
        }
        let process = self.process(&event.node);
        let path = event.number("path");
        let name = match path {
            Some(path) => format!("{}, path {path}", event.flow),
            None => event.flow.clone(),
        };
        let track = self.track(process, &name);
        match event.name.as_str() {
            "transport:tsn_sent" => self.begin(event, process, at),
            "transport:tsn_acked" => self.end(event, process, at, "acknowledged"),
            "recovery:tsn_lost" => self.end(event, process, at, "lost"),
            "recovery:metrics_updated" => self.count(event, process, &name, at),
            "recovery:mode_updated" => self.change_state((process, track), at, event.text("new")),
            "connectivity:path_state_updated" | "connectivity:connection_state_updated" => {
                let states = self.track(process, &format!("{name}: state"));
                self.change_state((process, states), at, event.text("new"));
            }
            // Every packet is in the capture; here they would only hide the rest.
            "transport:packet_sent" | "transport:packet_received" => {}
            "recovery:loss_judged" => {
                let verdict = format!("judged {}", event.text("verdict").unwrap_or("unknown"));
                self.instant(event, &verdict, (process, track), at);
            }
            "recovery:timer_expired" => {
                let timer = format!("timer {}", event.text("timer").unwrap_or("unknown"));
                self.instant(event, &timer, (process, track), at);
            }
            other => {
                let short = other.split_once(':').map_or(other, |(_, name)| name);
                self.instant(event, short, (process, track), at);
            }
        }
    }

    fn add_drop(&mut self, event: &Event, at: f64) {
        let name = format!("link {}", event.text("link").unwrap_or("unknown"));
        let track = self.track(NETWORK, &name);
        let cause = format!("dropped: {}", event.text("trigger").unwrap_or("unknown"));
        self.instant(event, &cause, (NETWORK, track), at);
    }

    fn instant(&mut self, event: &Event, name: &str, (process, track): (u64, u64), at: f64) {
        self.written.push(json!({
            "ph": "i", "s": "t", "name": name, "pid": process, "tid": track, "ts": at, "args": event.data,
        }));
    }

    fn begin(&mut self, event: &Event, process: u64, at: f64) {
        let (Some(tsn), Some(path)) = (event.number("tsn"), event.number("path")) else {
            return;
        };
        // A copy on another path is a transmission of its own; the first one stays in flight, but its end is not reported.
        self.end(event, process, at, "sent again");
        let id = self.transmissions;
        self.transmissions += 1;
        self.in_flight
            .insert((event.node.clone(), event.flow.clone(), tsn), (id, path));
        self.slice("b", (id, path), process, at, event);
    }

    fn end(&mut self, event: &Event, process: u64, at: f64, outcome: &str) {
        let Some(tsn) = event.number("tsn") else { return };
        let key = (event.node.clone(), event.flow.clone(), tsn);
        if let Some(transmission) = self.in_flight.remove(&key) {
            self.slice("e", transmission, process, at, event);
            if let Some(written) = self.written.last_mut() {
                written["args"] = json!({ "outcome": outcome });
            }
        }
    }

    fn slice(&mut self, phase: &str, (id, path): (u64, u64), process: u64, at: f64, event: &Event) {
        let tsn = event.number("tsn").unwrap_or_default();
        self.written.push(json!({
            "ph": phase, "cat": category(&event.flow, path), "name": format!("TSN {tsn}"), "id": id,
            "pid": process, "ts": at, "args": event.data,
        }));
    }

    fn count(&mut self, event: &Event, process: u64, track: &str, at: f64) {
        for (field, name, unit) in [
            ("congestion_window", "cwnd", "bytes"),
            ("bytes_in_flight", "in flight", "bytes"),
            ("ssthresh", "ssthresh", "bytes"),
            ("smoothed_rtt", "SRTT", "ms"),
            ("retransmission_timeout", "RTO", "ms"),
        ] {
            let value = event.data.get(field);
            // The largest integer means that there is no threshold.
            if let Some(value) = value.filter(|value| value.as_i64() != Some(i64::MAX)) {
                let name = format!("{track}: {name}");
                self.written
                    .push(json!({ "ph": "C", "name": name, "pid": process, "ts": at, "args": { unit: value } }));
            }
        }
    }

    /// Ends the state of a track and begins another one. Without recovery, there is no slice. States without a duration are left out: viewers
    /// take two slices that begin at the same time for nested ones.
    fn change_state(&mut self, track: (u64, u64), at: f64, new: Option<&str>) {
        if let Some((since, name)) = self.states.remove(&track)
            && at > since
        {
            self.written.push(json!({
                "ph": "X", "name": name, "pid": track.0, "tid": track.1, "ts": since, "dur": at - since,
            }));
        }
        if let Some(new) = new.filter(|new| *new != "normal") {
            self.states.insert(track, (at, new.to_owned()));
        }
    }

    /// Writes the file.
    pub(super) fn write(mut self, file: &mut dyn Write) -> io::Result<()> {
        for track in self.states.keys().copied().collect::<Vec<_>>() {
            self.change_state(track, self.last, None);
        }
        for ((node, flow, _), (id, path)) in std::mem::take(&mut self.in_flight) {
            let process = self.process(&node);
            self.written.push(json!({
                "ph": "e", "cat": category(&flow, path), "id": id, "pid": process, "ts": self.last,
                "args": { "outcome": "in flight at the end" },
            }));
        }
        writeln!(file, "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        let last = self.written.len().saturating_sub(1);
        for (place, event) in self.written.iter().enumerate() {
            writeln!(file, "{event}{}", if place < last { "," } else { "" })?;
        }
        writeln!(file, "]}}")
    }
}

/// Returns the name of the track of a path's transmissions.
fn category(flow: &str, path: u64) -> String {
    format!("{flow}, data on path {path}")
}
