//! Recordings of live transfers: what `--record` of `send`, `recv`, `perf`, `ping`, `echo` and `tunnel` wrote.
//!
//! Such a folder has events and nothing else. The values over time are made from them. Why the network lost a packet is not known.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::columns::Blobs;
use crate::error::ReportError;
use crate::events::Events;
use crate::line::End;
use crate::live::{Live, Window};
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
        let (began, last) = events.live.as_ref().map_or((0.0, 0), |live| (live.began, live.last));
        let mut json = page(&self.name, Some(&series), Some(&events), blobs);
        let (associations, flows) = flows(&events);
        let seconds = last as f64 / 1e9;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender with two chunks of 1000 bytes that are acknowledged after 5 and 15 ms, one of them after a tail-loss probe.
    const TEXT: &str = r#"{"time":1,"name":"recording:started","flow":"","node":"client","data":{"unix_ms":1000001}}
{"time":3,"name":"transport:tsn_sent","flow":"0","node":"client","data":{"path":0,"tsn":8,"length":1000,"retransmission":false}}
{"time":2,"name":"transport:tsn_sent","flow":"0","node":"client","data":{"path":0,"tsn":7,"length":1000,"retransmission":false}}
{"time":4,"name":"recovery:metrics_updated","flow":"0","node":"client","data":{"path":0,"congestion_window":4000,"ssthresh":9223372036854775807,"bytes_in_flight":2000}}
{"time":5,"name":"transport:tsn_acked","flow":"0","node":"client","data":{"path":0,"tsn":7}}
{"time":5,"name":"recovery:metrics_updated","flow":"0","node":"client","data":{"path":0,"latest_rtt":3,"smoothed_rtt":3.5,"retransmission_timeout":1000}}
{"time":8,"name":"recovery:tsn_lost","flow":"0","node":"client","data":{"path":0,"tsn":8,"trigger":"tail_probe"}}
{"time":9,"name":"recovery:tsn_lost","flow":"0","node":"client","data":{"path":0,"tsn":8,"trigger":"timeout"}}
{"time":9,"name":"recovery:loss_judged","flow":"0","node":"client","data":{"path":0,"tsn":8,"trigger":"timeout","verdict":"transmission","congestion_window_before":4000,"congestion_window":2000,"episode":1}}
{"time":9,"name":"recovery:metrics_updated","flow":"0","node":"client","data":{"path":0,"congestion_window":2000,"ssthresh":2000,"bytes_in_flight":0}}
{"time":15,"name":"transport:tsn_acked","flow":"0","node":"client","data":{"path":0,"tsn":8}}
"#;

    fn read() -> (Events, Series) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join(EVENTS), TEXT).expect("writable");
        let recording = Recording::of(folder.path()).expect("a recording");
        recording.read().expect("events")
    }

    fn line<'s>(series: &'s Series, name: &str) -> &'s Line {
        let found = series.lines.iter().find(|(about, _)| about[6] == name);
        &found.expect("a value over time").1
    }

    #[test]
    fn values_over_time_are_made_from_the_events() {
        let (events, series) = read();
        assert_eq!(line(&series, "cwnd_bytes").values, [4000.0, 2000.0]);
        let ssthresh = line(&series, "ssthresh_bytes");
        assert_eq!(
            (&ssthresh.times[..], &ssthresh.values[..]),
            (&[9_000_000][..], &[2000.0][..])
        );
        assert_eq!(line(&series, "rtt_ms").values, [3.0]);
        // 1000 bytes in each interval of 10 ms.
        let acknowledged = line(&series, "acked_mbps");
        assert_eq!(acknowledged.times, [10_000_000, 20_000_000]);
        assert_eq!(acknowledged.values, [0.8, 0.8]);
        assert_eq!(events.live.map(|live| (live.began, live.last)), Some((1e6, 15_000_000)));
    }

    #[test]
    fn what_the_sender_judged_is_neither_right_nor_wrong_and_a_probe_is_no_loss() {
        let (events, _) = read();
        let sent: Vec<u32> = events.sent.iter().map(|chunk| chunk.tsn).collect();
        assert_eq!(sent, [7, 8], "in the order of time");
        assert_eq!(events.lost.len(), 1);
        assert_eq!(events.judged.len(), 1);
        assert!(!events.is_wrong(&events.judged[0]));
    }
}
