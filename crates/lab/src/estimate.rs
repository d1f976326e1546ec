//! Estimates of what a scenario needs: simulated time, and bytes of recorded files.

use whimbrel_scenario::{Point, Scenario};
use whimbrel_sim::config::{FlowConfig, FlowKind, SimConfig};

use crate::record::Selection;
use crate::runner::Part;

/// Maximum number of simulated seconds that are run without a warning.
const MANY_SECONDS: f64 = 1e6;

/// Assumed bits per second of a node without a configured rate: a radio, a recorded rate.
const UNKNOWN_RATE: f64 = 20e6;
/// Bytes of a capture in addition to the packets.
const BLOCK: f64 = 44.0;
/// Bytes of `events.jsonl` per data packet and its acknowledgement.
const EVENTS_PER_PACKET: f64 = 1_600.0;
/// Bytes of a row of `series.parquet`.
const ROW: f64 = 10.0;
/// Series of a path at one end of a flow.
const PATH_SERIES: f64 = 11.0;

/// An upper bound of what running a scenario needs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Runs.
    pub runs: usize,
    /// Simulated seconds of all runs; a run may end earlier if all its flows are complete.
    pub simulated_s: f64,
    /// Runs that record something.
    pub recording: usize,
    /// Bytes of series.
    pub series: u64,
    /// Bytes of events.
    pub events: u64,
    /// Bytes of captures.
    pub packets: u64,
}

impl Estimate {
    /// Returns the estimate for a part of a scenario; with `records`, including recorded files.
    pub fn of(scenario: &Scenario, part: Part, records: bool) -> Self {
        let mut estimate = Estimate::default();
        for (place, point) in scenario.points.iter().enumerate() {
            for number in 0..scenario.seeds {
                let run = place * scenario.seeds as usize + number as usize;
                if !part.includes(run) {
                    continue;
                }
                estimate.runs += 1;
                estimate.simulated_s += point.config.duration.as_secs_f64();
                let selection = Selection::of(&scenario.record, place, number);
                if records && selection.any() {
                    estimate.record(point, selection);
                }
            }
        }
        estimate
    }

    fn record(&mut self, point: &Point, selection: Selection) {
        let config = &point.config;
        let seconds = config.duration.as_secs_f64();
        let (mut packets, mut bytes) = (0.0, 0.0);
        for flow in &config.flow {
            let (data, size) = data(config, flow, point, seconds);
            packets += data / size;
            bytes += data;
        }
        let capacity = config.link.iter().flat_map(|link| link.directions());
        let capacity: f64 = capacity
            .map(|direction| direction.rate.map_or(UNKNOWN_RATE, |rate| rate.as_bps() as f64))
            .sum();
        if config.radio.is_empty() && bytes > 0.0 {
            let share = (capacity * seconds / 8.0 / bytes).min(1.0);
            (packets, bytes) = (packets * share, bytes * share);
        }
        self.recording += 1;
        let limit = selection.limit as f64;
        if selection.packets {
            // Every second packet is acknowledged by a packet of about 100 bytes.
            let capture = bytes + packets * (1.5 * BLOCK + 50.0);
            self.packets += capture.min(limit) as u64;
        }
        if selection.events {
            self.events += (packets * EVENTS_PER_PACKET).min(limit) as u64;
        }
        if selection.series {
            let samples = seconds / config.measure.interval.as_secs_f64();
            let ends: usize = config.flow.iter().map(|flow| paths(config, flow)).sum();
            let columns = 2.0 * PATH_SERIES * ends as f64 + 6.0 * config.link.len() as f64 + config.flow.len() as f64;
            self.series += (samples * columns * ROW) as u64;
        }
    }

    /// Returns the number of all recorded bytes.
    pub fn recorded(&self) -> u64 {
        self.series + self.events + self.packets
    }

    /// Returns whether the simulated time is probably a mistake.
    pub fn is_long(&self) -> bool {
        self.simulated_s >= MANY_SECONDS
    }
}

/// Returns the maximum number of bytes of IP packets that a flow's sender sends, and the bytes per packet.
fn data(config: &SimConfig, flow: &FlowConfig, point: &Point, seconds: f64) -> (f64, f64) {
    let traffic = &flow.traffic;
    let size = f64::from(traffic.message_bytes).min(1452.0) + 48.0;
    let of_node = |node: &str| -> f64 {
        let links = config
            .link
            .iter()
            .filter(|link| link.between.iter().any(|name| name == node));
        let rates = links.map(|link| link.rate.map_or(UNKNOWN_RATE, |rate| rate.as_bps() as f64));
        let radios = config.radio.iter().filter(|radio| radio.node == node).count();
        rates.sum::<f64>() + radios as f64 * UNKNOWN_RATE
    };
    let end = flow.stop.map_or(seconds, |stop| stop.as_secs_f64().min(seconds));
    let active = (end - flow.start.as_secs_f64()).max(0.0);
    let mut most = of_node(&flow.from).min(of_node(&flow.to)) / 8.0 * active;
    if let Some(rate) = traffic.rate {
        most = most.min(rate.as_bps() as f64 / 8.0 * active * 1.1);
    }
    let file = traffic.file.as_ref().and_then(|file| point.resources.files.get(file));
    let bytes = file
        .map(|content| content.len() as f64)
        .or(traffic.file_bytes.map(|bytes| bytes as f64));
    let messages = traffic
        .count
        .map(|count| count as f64 * f64::from(traffic.message_bytes));
    if let Some(bytes) = bytes.or(messages) {
        // With headers and retransmissions.
        most = most.min(bytes * 1.2);
    }
    (most, size)
}

fn paths(config: &SimConfig, flow: &FlowConfig) -> usize {
    if flow.kind != FlowKind::Sctp {
        return usize::from(flow.kind == FlowKind::Tcp);
    }
    let links = |named: &[String], node: &str| match named {
        [] => config
            .link
            .iter()
            .filter(|link| link.between.iter().any(|name| name == node))
            .count(),
        named => named.len(),
    };
    links(&flow.from_links, &flow.from)
        .max(links(&flow.to_links, &flow.to))
        .max(1)
}
