//! Recordings of live transfers: what `--record` of `send`, `recv`, `perf`, `ping`, `echo` and `tunnel` wrote.
//!
//! Such a folder has events and nothing else. The values over time are made from them, and nobody knows why the network lost a packet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::columns::Blobs;
use crate::error::ReportError;
use crate::events::{End, Events, Live, Window};
use crate::recorded::page;
use crate::series::{About, Line, Series};

/// The only file of a recording.
const EVENTS: &str = "events.jsonl";
/// Intervals over which acknowledged data is counted, in nanoseconds: the first one with at most [`MOST_INTERVALS`] in a recording.
const INTERVALS: [i64; 6] = [
    10_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
    60_000_000_000,
    600_000_000_000,
];
const MOST_INTERVALS: i64 = 1_000;

/// A folder with a recording.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) name: String,
    folder: PathBuf,
}

impl Recording {
    /// The recording in a folder, if it is one.
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        let name = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        folder.join(EVENTS).is_file().then(|| Recording {
            name,
            folder: folder.to_owned(),
        })
    }

    /// Reads the events, and makes values over time of them.
    ///
    /// # Errors
    /// The file cannot be read, or is not that of a live transfer.
    pub(crate) fn read(&self) -> Result<(Events, Series), ReportError> {
        let path = self.folder.join(EVENTS);
        let events = Events::read(&path)?;
        match &events.live {
            Some(live) => {
                let series = series(&events, live);
                Ok((events, series))
            }
            None => Err(ReportError::at(&path)(
                &"these are not the events of a live transfer: the first line of such a file is recording:started",
            )),
        }
    }

    /// What the page contains about it.
    pub(crate) fn json(&self, blobs: &mut Blobs) -> Result<Value, ReportError> {
        let (events, series) = self.read()?;
        let began = events.live.as_ref().map_or(0.0, |live| live.began);
        let mut json = page(&self.name, Some(&series), Some(&events), blobs);
        let (associations, flows) = flows(&events);
        let seconds = events.last() as f64 / 1e9;
        json["live"] = json!({ "began": began, "seconds": seconds, "associations": associations, "flows": flows });
        Ok(json)
    }
}

/// The number of associations, and the first ones with the nodes that recorded them, in the order of their first events.
fn flows(events: &Events) -> (usize, Vec<Value>) {
    let mut first: BTreeMap<End, i64> = BTreeMap::new();
    let changes = events.changes.iter().map(|change| (change.at, change.end));
    for (at, end) in changes.chain(events.sent.iter().map(|chunk| (chunk.at, chunk.end))) {
        let known = first.entry(end).or_insert(at);
        *known = at.min(*known);
    }
    let mut ends: Vec<(i64, End)> = first.into_iter().map(|(end, at)| (at, end)).collect();
    ends.sort_unstable();
    let associations = ends.len();
    ends.truncate(MOST_FLOWS);
    let words = events.words.list();
    let named = ends
        .into_iter()
        .map(|(_, (flow, node))| json!({ "name": words[flow], "from": words[node] }));
    (associations, named.collect())
}

/// Associations that can be chosen in the page, at most.
const MOST_FLOWS: usize = 200;

/// Values over time in a page, at most: those of 500 paths.
const MOST_SERIES: usize = 3_500;

/// The values over time of all paths.
fn series(events: &Events, live: &Live) -> Series {
    let mut lines: BTreeMap<(End, u32, &str), Line> = BTreeMap::new();
    let mut add = |end: End, path: u32, name: &'static str, at: i64, value: f64| {
        if lines.len() >= MOST_SERIES && !lines.contains_key(&(end, path, name)) {
            return;
        }
        let line = lines.entry((end, path, name)).or_default();
        line.times.push(at);
        line.values.push(value);
    };
    for window in &live.windows {
        let &Window { at, end, path, .. } = window;
        add(end, path, "cwnd_bytes", at, window.cwnd);
        if let Some(ssthresh) = window.ssthresh {
            add(end, path, "ssthresh_bytes", at, ssthresh);
        }
        add(end, path, "flight_bytes", at, window.flight);
    }
    for trip in &live.round_trips {
        add(trip.end, trip.path, "rtt_ms", trip.at, trip.sample);
        add(trip.end, trip.path, "srtt_ms", trip.at, trip.smoothed);
        add(trip.end, trip.path, "rto_ms", trip.at, trip.timeout);
    }
    let (interval, counts) = acknowledged(events);
    for ((end, path), bytes) in counts {
        for (number, bytes) in (1..).zip(bytes) {
            let mbps = bytes * 8e3 / interval as f64;
            add(end, path, "acked_mbps", number * interval, mbps);
        }
    }
    let named = lines
        .into_iter()
        .map(|((end, path, name), line)| (about(events, live, end, path, name), line));
    Series { lines: named.collect() }
}

fn about(events: &Events, live: &Live, end: End, path: u32, name: &str) -> About {
    let words = events.words.list();
    [
        words[end.1].clone(),
        words[end.0].clone(),
        "sender".to_owned(),
        path.to_string(),
        live.path_name(end, path),
        String::new(),
        name.to_owned(),
    ]
}

/// An interval in nanoseconds, and for each path that acknowledged data was sent on the bytes that were acknowledged in each interval.
fn acknowledged(events: &Events) -> (i64, BTreeMap<(End, u32), Vec<f64>>) {
    let lengths: BTreeMap<(End, u32), u32> = events
        .sent
        .iter()
        .map(|chunk| ((chunk.end, chunk.tsn), chunk.length))
        .collect();
    let end = events.acked.last().map_or(0, |acked| acked.at.max(0));
    let fits = |interval: &&i64| end / **interval < MOST_INTERVALS;
    let interval = INTERVALS.iter().find(fits).copied().unwrap_or(end / MOST_INTERVALS + 1);
    let intervals = usize::try_from(end / interval + 1).unwrap_or(1);
    let mut counts: BTreeMap<(End, u32), Vec<f64>> = BTreeMap::new();
    for acked in &events.acked {
        let length = lengths.get(&(acked.end, acked.tsn)).copied().unwrap_or(0);
        if counts.len() >= MOST_SERIES && !counts.contains_key(&(acked.end, acked.path)) {
            continue;
        }
        let bytes = counts
            .entry((acked.end, acked.path))
            .or_insert_with(|| vec![0.0; intervals]);
        let place = usize::try_from(acked.at.max(0) / interval).unwrap_or(0);
        if let Some(count) = bytes.get_mut(place) {
            *count += f64::from(length);
        }
    }
    (interval, counts)
}
