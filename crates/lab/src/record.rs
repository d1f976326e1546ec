//! Recorded files of a run besides its results: series, events, packets, written during the run.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use whimbrel_control::{Span, Time};
use whimbrel_proto::{PathQuality, TraceKinds, TraceRecord};
use whimbrel_scenario::Record;
use whimbrel_sim::RunControl;
use whimbrel_sim::config::SimConfig;
use whimbrel_sim::topology::{DirectionId, interface, interface_name};
use whimbrel_sim::{FrameEvent, Interest, Observer, PacketEvent, RouteEvent, Sample};

use crate::text::text;
use crate::write::capture::PacketWriter;
use crate::write::events;
use crate::write::file::{Digested, Output, WriteError};
use crate::write::table::{Cell, Kind, Table};

/// Columns of the series, followed by those of the swept values.
const SERIES: [(&str, Kind); 10] = [
    ("run", Kind::Integer),
    ("t_ns", Kind::Integer),
    ("node", Kind::Text),
    ("flow", Kind::Text),
    ("side", Kind::Text),
    ("path", Kind::Integer),
    ("path_name", Kind::Text),
    ("link", Kind::Text),
    ("name", Kind::Text),
    ("value", Kind::Float),
];

/// Labels that distinguish a run from others of its scenario.
#[derive(Debug)]
pub(crate) struct Labels<'l> {
    pub(crate) run: usize,
    pub(crate) params: &'l [(String, serde_json::Value)],
}

/// The object of a row of the series.
#[derive(Clone, Copy, Debug, Default)]
struct About {
    /// The flow, and whether it is the sender's end.
    flow: Option<(u32, bool)>,
    /// The path with its addresses.
    path: Option<(u8, SocketAddr, SocketAddr)>,
    /// The direction of a link, or a radio.
    link: Option<DirectionId>,
}

impl About {
    fn of_link(link: DirectionId) -> Self {
        About {
            link: Some(link),
            ..About::default()
        }
    }
}

/// Names from the scenario for a run's records.
#[derive(Debug)]
struct Names {
    /// Flow, sender, receiver.
    flows: Vec<(String, String, String)>,
    /// Link and the node at its start, by direction.
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

    fn link(&self, direction: Option<DirectionId>) -> Option<(&str, &str)> {
        let direction = direction?;
        let found = match direction.radio() {
            Some(radio) => self.radios.get(radio as usize),
            None => self.directions.get(direction.index()),
        };
        found.map(|(link, node)| (link.as_str(), node.as_str()))
    }
}

/// Names of paths by their addresses.
type Paths = BTreeMap<(SocketAddr, SocketAddr), String>;

/// Lines up to a maximum size.
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

/// Observes a run and writes the requested files.
#[derive(Debug)]
pub(crate) struct Recorder {
    run: i64,
    /// Swept values, as in every row of the series.
    params: Vec<OwnCell>,
    config: SimConfig,
    names: Names,
    /// Names of paths by their addresses.
    paths: Paths,
    control: Arc<RunControl>,
    series: Option<Table<Output>>,
    events: Option<Lines>,
    packets: Option<PacketWriter<Output>>,
    /// The first error; nothing is written after it.
    failed: Option<WriteError>,
    folder: std::path::PathBuf,
}

/// A swept value.
#[derive(Clone, Debug)]
enum OwnCell {
    Number(f64),
    Text(String),
}

/// Recorded files of a run, and those that reached their limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) files: Vec<Digested>,
    pub(crate) cut: Vec<String>,
}

/// Selection of recorded files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) series: bool,
    pub(crate) events: bool,
    pub(crate) packets: bool,
    pub(crate) limit: u64,
}

impl Selection {
    /// Returns the files of the run of this point with this number among its seeds.
    pub(crate) fn of(record: &Record, point: usize, number: u32) -> Self {
        Selection {
            series: record.series.includes(point, number),
            events: record.events.includes(point, number),
            packets: record.packets.includes(point, number),
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
        labels: &Labels<'_>,
        config: &SimConfig,
        selection: Selection,
        control: Arc<RunControl>,
    ) -> Result<Self, WriteError> {
        let create = |wanted: bool, name: &str| {
            wanted
                .then(|| Output::create(folder, &format!("{prefix}{name}")))
                .transpose()
        };
        let params: Vec<_> = labels
            .params
            .iter()
            .map(|(axis, value)| {
                let cell = value
                    .as_f64()
                    .map_or_else(|| OwnCell::Text(text(value)), OwnCell::Number);
                (axis.clone(), cell)
            })
            .collect();
        let mut recorder = Recorder {
            run: labels.run as i64,
            params: params.iter().map(|(_, cell)| cell.clone()).collect(),
            config: config.clone(),
            names: Names::of(config),
            paths: Paths::new(),
            control,
            series: None,
            events: None,
            packets: None,
            failed: None,
            folder: folder.to_owned(),
        };
        if let Some(out) = create(selection.series, "series.parquet")? {
            let path = out.path().to_owned();
            let mut columns = SERIES.to_vec();
            columns.extend(params.iter().map(|(axis, cell)| match cell {
                OwnCell::Number(_) => (axis.as_str(), Kind::Float),
                OwnCell::Text(_) => (axis.as_str(), Kind::Text),
            }));
            recorder.series = Some(Table::new(out, &columns).map_err(WriteError::at(&path))?);
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

    /// Keeps the first error and cancels the run, because further measurements could not be stored.
    fn check(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.control.cancel();
            self.failed.get_or_insert(WriteError {
                path: self.folder.clone(),
                error,
            });
        }
    }

    fn values(&mut self, at: Time, about: About, values: &[(&str, f64)]) {
        if self.failed.is_some() {
            return;
        }
        let Some(series) = &mut self.series else { return };
        let (flow, mut node, side) = match about.flow {
            Some((flow, forward)) => {
                let (flow, node) = self.names.flow(flow, forward);
                let side = if forward { "sender" } else { "receiver" };
                (Cell::Text(flow), Cell::Text(node), Cell::Text(side))
            }
            None => (Cell::Gap, Cell::Gap, Cell::Gap),
        };
        let link = match self.names.link(about.link) {
            Some((link, from)) => {
                node = Cell::Text(from);
                Cell::Text(link)
            }
            None => Cell::Gap,
        };
        let mut paths = std::mem::take(&mut self.paths);
        let (path, path_name) = match about.path {
            Some((path, local, remote)) => {
                let name = path_name(&mut paths, &self.config, (local, remote));
                (Cell::Integer(path.into()), Cell::Text(name))
            }
            None => (Cell::Gap, Cell::Gap),
        };
        let (run, at) = (Cell::Integer(self.run), Cell::Integer(at.as_nanos() as i64));
        let mut row = vec![run, at, node, flow, side, path, path_name, link, Cell::Gap, Cell::Gap];
        row.extend(self.params.iter().map(|cell| match cell {
            OwnCell::Number(number) => Cell::Float(*number),
            OwnCell::Text(text) => Cell::Text(text),
        }));
        let result = values.iter().try_for_each(|(name, value)| {
            (row[8], row[9]) = (Cell::Text(name), Cell::Float(*value));
            series.row(&row)
        });
        drop(row);
        self.paths = paths;
        self.check(result);
    }
}

/// Returns the links at both ends of a path, or a single one if they are the same: `wifi`, `lte to core`.
fn path_name<'n>(paths: &'n mut Paths, config: &SimConfig, ends: (SocketAddr, SocketAddr)) -> &'n str {
    paths.entry(ends).or_insert_with(|| {
        let name = |addr: SocketAddr| {
            interface(addr.ip()).map_or_else(|| addr.ip().to_string(), |place| interface_name(config, place))
        };
        let (local, remote) = (name(ends.0), name(ends.1));
        if local == remote {
            local
        } else {
            format!("{local} to {remote}")
        }
    })
}

/// Returns the series of what a sender measured of a path.
fn quality_values(quality: PathQuality) -> [(&'static str, Option<f64>); 6] {
    let delivery = quality.delivery_rate.map(|rate| rate.as_bps() as f64 / 1e6);
    let judged = quality.judged;
    [
        ("jitter_ms", Some(millis(quality.jitter))),
        ("loss_share", Some(quality.loss)),
        ("delivery_mbps", delivery),
        ("judged_congestion", Some(judged.congestion as f64)),
        ("judged_transmission", Some(judged.transmission as f64)),
        ("judged_unsure", Some(judged.unsure as f64)),
    ]
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
        let radio = |radio: u32| self.names.link(Some(DirectionId::of_radio(radio))).unwrap_or(("", ""));
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
        let radio = |radio: u32| self.names.link(Some(DirectionId::of_radio(radio))).unwrap_or(("", ""));
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
                local,
                remote,
                cwnd,
                ssthresh,
                flight,
                srtt,
                rto,
                quality,
            } => {
                let window = [
                    ("cwnd_bytes", Some(cwnd as f64)),
                    // Unlimited before the first loss.
                    ("ssthresh_bytes", (ssthresh != u64::MAX).then_some(ssthresh as f64)),
                    ("flight_bytes", Some(flight as f64)),
                    ("rto_ms", Some(millis(rto))),
                    ("srtt_ms", srtt.map(millis)),
                ];
                let quality = quality.map(quality_values);
                let known: Vec<_> = window
                    .into_iter()
                    .chain(quality.into_iter().flatten())
                    .filter_map(|(name, value)| Some((name, value?)))
                    .collect();
                let about = About {
                    flow: Some((flow, forward)),
                    path: Some((path.0, local, remote)),
                    link: None,
                };
                self.values(at, about, &known);
            }
            Sample::Goodput { at, flow, bytes, over } => {
                let rate = bytes as f64 * 8.0 / over.as_secs_f64() / 1e6;
                let about = About {
                    flow: Some((flow, false)),
                    ..About::default()
                };
                self.values(at, about, &[("goodput_mbps", rate)]);
            }
            Sample::Radio {
                at,
                radio,
                x,
                y,
                packets,
            } => {
                let values = [("x_m", x), ("y_m", y), ("queue_packets", f64::from(packets))];
                self.values(at, About::of_link(DirectionId::of_radio(radio)), &values);
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
                self.values(at, About::of_link(direction), known);
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
