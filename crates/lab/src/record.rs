//! What a run leaves besides its results: series, events, packets, written while it runs.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use whimbrel_control::{Span, Time};
use whimbrel_proto::{TraceKinds, TraceRecord};
use whimbrel_scenario::Record;
use whimbrel_sim::RunControl;
use whimbrel_sim::config::SimConfig;
use whimbrel_sim::topology::RADIO_BASE;
use whimbrel_sim::{FrameEvent, Interest, Observer, PacketEvent, RouteEvent, Sample};

use crate::write::capture::PacketWriter;
use crate::write::events;
use crate::write::file::{Digested, Output, WriteError};
use crate::write::table::{Cell, Kind, Table};

/// Columns of the series.
const SERIES: [(&str, Kind); 8] = [
    ("run", Kind::Integer),
    ("t_ns", Kind::Integer),
    ("node", Kind::Text),
    ("flow", Kind::Text),
    ("path", Kind::Integer),
    ("link", Kind::Text),
    ("name", Kind::Text),
    ("value", Kind::Float),
];

/// Names of what a run records, taken from its scenario.
#[derive(Debug)]
struct Names {
    /// Flow, sender, receiver.
    flows: Vec<(String, String, String)>,
    /// Link and the node it begins at, by direction.
    directions: Vec<(String, String)>,
    /// Radio and its node.
    radios: Vec<(String, String)>,
}

impl Names {
    fn of(config: &SimConfig) -> Self {
        let flows = config
            .flow
            .iter()
            .map(|flow| (flow.name.clone(), flow.from.clone(), flow.to.clone()))
            .collect();
        let directions = config.link.iter().flat_map(|link| {
            let name = link.display_name();
            [(name.clone(), link.between[0].clone()), (name, link.between[1].clone())]
        });
        let radios = config
            .radio
            .iter()
            .map(|radio| (radio.display_name(), radio.node.clone()));
        Names {
            flows,
            directions: directions.collect(),
            radios: radios.collect(),
        }
    }

    fn flow(&self, flow: u32, forward: bool) -> (&str, &str) {
        self.flows
            .get(flow as usize)
            .map_or(("", ""), |(name, from, to)| (name, if forward { from } else { to }))
    }

    fn link(&self, direction: Option<u32>) -> Option<(&str, &str)> {
        let direction = direction?;
        let found = match direction.checked_sub(RADIO_BASE) {
            Some(radio) => self.radios.get(radio as usize),
            None => self.directions.get(direction as usize),
        };
        found.map(|(link, node)| (link.as_str(), node.as_str()))
    }
}

/// Lines up to a size.
#[derive(Debug)]
struct Lines {
    out: Output,
    written: u64,
    limit: u64,
}

impl Lines {
    fn line(&mut self, line: &str) -> io::Result<()> {
        if self.written < self.limit {
            self.written += line.len() as u64 + 1;
            self.out.write_all(line.as_bytes())?;
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// Watches a run and writes what it was asked to.
#[derive(Debug)]
pub(crate) struct Recorder {
    run: i64,
    names: Names,
    control: Arc<RunControl>,
    series: Option<Table<Output>>,
    events: Option<Lines>,
    packets: Option<PacketWriter<Output>>,
    /// The first error; nothing is written after it.
    failed: Option<WriteError>,
    folder: std::path::PathBuf,
}

/// Files of a run, and which of them end at their limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) files: Vec<Digested>,
    pub(crate) cut: Vec<String>,
}

/// Which files a run leaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) series: bool,
    pub(crate) events: bool,
    pub(crate) packets: bool,
    pub(crate) limit: u64,
}

impl Selection {
    /// What the run with this number among the seeds of its point leaves.
    pub(crate) fn of(record: &Record, number: u32) -> Self {
        Selection {
            series: record.series.includes(number),
            events: record.events.includes(number),
            packets: record.packets.includes(number),
            limit: record.limit_bytes,
        }
    }

    pub(crate) fn any(self) -> bool {
        self.series || self.events || self.packets
    }
}

impl Recorder {
    /// Creates the files of a run, in `folder/prefix`.
    pub(crate) fn new(
        folder: &Path,
        prefix: &str,
        run: usize,
        config: &SimConfig,
        selection: Selection,
        control: Arc<RunControl>,
    ) -> Result<Self, WriteError> {
        let create = |wanted: bool, name: &str| {
            wanted
                .then(|| Output::create(folder, &format!("{prefix}{name}")))
                .transpose()
        };
        let mut recorder = Recorder {
            run: run as i64,
            names: Names::of(config),
            control,
            series: None,
            events: None,
            packets: None,
            failed: None,
            folder: folder.to_owned(),
        };
        if let Some(out) = create(selection.series, "series.parquet")? {
            let path = out.path().to_owned();
            recorder.series = Some(Table::new(out, &SERIES).map_err(WriteError::at(&path))?);
        }
        if let Some(out) = create(selection.events, "events.jsonl")? {
            recorder.events = Some(Lines {
                out,
                written: 0,
                limit: selection.limit,
            });
        }
        if let Some(out) = create(selection.packets, "packets.pcapng")? {
            let path = out.path().to_owned();
            let writer = PacketWriter::new(out, config, selection.limit).map_err(WriteError::at(&path))?;
            recorder.packets = Some(writer);
        }
        Ok(recorder)
    }

    /// Completes the files.
    pub(crate) fn finish(self) -> Result<Recorded, WriteError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let mut recorded = Recorded::default();
        let folder = &self.folder;
        if let Some(table) = self.series {
            recorded
                .files
                .push(table.finish().map_err(WriteError::at(folder))?.finish()?);
        }
        if let Some(lines) = self.events {
            let cut = lines.written >= lines.limit;
            let file = lines.out.finish()?;
            recorded.cut.extend(cut.then(|| file.path.clone()));
            recorded.files.push(file);
        }
        if let Some(writer) = self.packets {
            let (out, cut) = writer.finish().map_err(WriteError::at(folder))?;
            let file = out.finish()?;
            recorded.cut.extend(cut.then(|| file.path.clone()));
            recorded.files.push(file);
        }
        Ok(recorded)
    }

    /// Keeps the first error and stops the run: what it would measure could not be kept.
    fn check(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.control.cancel();
            self.failed.get_or_insert(WriteError {
                path: self.folder.clone(),
                error,
            });
        }
    }

    fn values(
        &mut self,
        at: Time,
        flow: Option<(u32, bool)>,
        path: Option<u8>,
        link: Option<u32>,
        values: &[(&str, f64)],
    ) {
        if self.failed.is_some() {
            return;
        }
        let Some(series) = &mut self.series else { return };
        let (flow, mut node) = match flow.map(|(flow, forward)| self.names.flow(flow, forward)) {
            Some((flow, node)) => (Cell::Text(flow), Cell::Text(node)),
            None => (Cell::Gap, Cell::Gap),
        };
        let link = match self.names.link(link) {
            Some((link, from)) => {
                node = Cell::Text(from);
                Cell::Text(link)
            }
            None => Cell::Gap,
        };
        let path = path.map_or(Cell::Gap, |path| Cell::Integer(path.into()));
        let (run, at) = (Cell::Integer(self.run), Cell::Integer(at.as_nanos() as i64));
        let result = values.iter().try_for_each(|(name, value)| {
            series.row(&[run, at, node, flow, path, link, Cell::Text(name), Cell::Float(*value)])
        });
        self.check(result);
    }
}

fn millis(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e6
}

impl Observer for Recorder {
    fn wants(&self, interest: Interest) -> bool {
        match interest {
            Interest::HostPackets => self.packets.is_some(),
            Interest::LinkPackets => false,
            Interest::Drops => self.packets.is_some() || self.events.is_some(),
            Interest::Series => self.series.is_some(),
            Interest::Frames | Interest::Routes => self.events.is_some(),
        }
    }

    fn trace_kinds(&self) -> TraceKinds {
        if self.events.is_some() {
            TraceKinds::ALL
        } else {
            TraceKinds::NONE
        }
    }

    fn packet(&mut self, event: &PacketEvent<'_>) {
        if self.failed.is_some() {
            return;
        }
        let link = self.names.link(event.direction);
        let mut result = Ok(());
        if let Some(lines) = &mut self.events
            && let Some((name, data)) = events::drop(event, link.map(|(link, _)| link))
        {
            let (flow, sender) = self.names.flow(event.flow, event.forward);
            let node = link.map_or(sender, |(_, node)| node);
            result = lines.line(&events::line(event.at, name, flow, node, data));
        }
        if let Some(packets) = &mut self.packets {
            result = result.and_then(|()| packets.event(event, link.map(|(link, _)| link)));
        }
        self.check(result);
    }

    fn frame(&mut self, event: &FrameEvent) {
        if self.failed.is_some() {
            return;
        }
        let Some(lines) = &mut self.events else { return };
        let radio = |radio: u32| self.names.link(Some(RADIO_BASE + radio)).unwrap_or(("", ""));
        let (from, sender) = radio(event.from);
        let to = event.to.map(radio);
        let node = match (event.lost, to) {
            (Some(_), Some((_, receiver))) => receiver,
            _ => sender,
        };
        let flow = event.flow.map_or("", |flow| self.names.flow(flow, true).0);
        let (name, data) = events::frame(event, from, to.map(|(radio, _)| radio));
        let result = lines.line(&events::line(event.at, name, flow, node, data));
        self.check(result);
    }

    fn route(&mut self, event: &RouteEvent) {
        if self.failed.is_some() {
            return;
        }
        let Some(lines) = &mut self.events else { return };
        let radio = |radio: u32| self.names.link(Some(RADIO_BASE + radio)).unwrap_or(("", ""));
        let (from, node) = radio(event.radio);
        let next_hop = event.next_hop.map(|next| radio(next).0);
        let data = events::route(from, radio(event.destination).0, event.rank, next_hop);
        let result = lines.line(&events::line(event.at, "routing:next_hop_changed", "", node, data));
        self.check(result);
    }

    fn sample(&mut self, sample: &Sample) {
        match *sample {
            Sample::Path {
                at,
                flow,
                forward,
                path,
                cwnd,
                ssthresh,
                flight,
                srtt,
                rto,
                quality,
            } => {
                let judged = quality.map(|quality| quality.judged);
                let values = [
                    ("cwnd_bytes", Some(cwnd as f64)),
                    // Unlimited before the first loss.
                    ("ssthresh_bytes", (ssthresh != u64::MAX).then_some(ssthresh as f64)),
                    ("flight_bytes", Some(flight as f64)),
                    ("rto_ms", Some(millis(rto))),
                    ("srtt_ms", srtt.map(millis)),
                    ("jitter_ms", quality.map(|quality| millis(quality.jitter))),
                    ("loss_share", quality.map(|quality| quality.loss)),
                    (
                        "delivery_mbps",
                        quality
                            .and_then(|quality| quality.delivery_rate)
                            .map(|rate| rate.as_bps() as f64 / 1e6),
                    ),
                    ("judged_congestion", judged.map(|judged| judged.congestion as f64)),
                    ("judged_transmission", judged.map(|judged| judged.transmission as f64)),
                    ("judged_unsure", judged.map(|judged| judged.unsure as f64)),
                ];
                let known: Vec<_> = values
                    .iter()
                    .filter_map(|&(name, value)| Some((name, value?)))
                    .collect();
                self.values(at, Some((flow, forward)), Some(path.0), None, &known);
            }
            Sample::Goodput { at, flow, bytes, over } => {
                let rate = bytes as f64 * 8.0 / over.as_secs_f64() / 1e6;
                self.values(at, Some((flow, false)), None, None, &[("goodput_mbps", rate)]);
            }
            Sample::Radio {
                at,
                radio,
                x,
                y,
                packets,
            } => {
                let values = [("x_m", x), ("y_m", y), ("queue_packets", f64::from(packets))];
                self.values(at, None, None, Some(RADIO_BASE + radio), &values);
            }
            Sample::Queue {
                at,
                direction,
                packets,
                bytes,
                average,
            } => {
                let values = [
                    ("queue_packets", f64::from(packets)),
                    ("queue_bytes", bytes as f64),
                    ("queue_average", average.unwrap_or_default()),
                ];
                let known = if average.is_some() { &values[..] } else { &values[..2] };
                self.values(at, None, None, Some(direction), known);
            }
        }
    }

    fn trace(&mut self, flow: u32, forward: bool, record: &TraceRecord) {
        if self.failed.is_some() {
            return;
        }
        let Some(lines) = &mut self.events else { return };
        if lines.written >= lines.limit {
            return;
        }
        let (name, data) = events::trace(record);
        let (flow, node) = self.names.flow(flow, forward);
        let result = lines.line(&events::line(record.at, name, flow, node, data));
        self.check(result);
    }
}
