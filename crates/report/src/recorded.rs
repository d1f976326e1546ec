//! What a run recorded, as the page contains it.

use std::path::Path;

use serde_json::{Value, json};
use whimbrel_lab::Run;

use crate::columns::{Blobs, Precision};
use crate::error::ReportError;
use crate::events::{Change, Dropped, Events, Frame, Noted, Sent};
use crate::line::End;
use crate::matching::{Journey, journeys};
use crate::network;
use crate::results::Results;
use crate::series::Series;

/// Characters of blobs beyond which runs are left out, so that browsers open the page.
pub(crate) const MOST_BYTES: usize = 96 << 20;

/// What the page contains about runs that recorded series or events, and the names of those that are left out.
pub(crate) fn recorded(
    folder: &Path,
    results: &Results,
    blobs: &mut Blobs,
) -> Result<(Vec<Value>, Vec<String>), ReportError> {
    let (mut recorded, mut left_out) = (Vec::new(), Vec::new());
    for run in &results.runs {
        let files = Files::of(folder, run);
        if files.series.is_none() && files.events.is_none() {
            continue;
        }
        if blobs.bytes() > MOST_BYTES {
            left_out.push(files.name);
            continue;
        }
        recorded.push(one(results, run, &files, blobs)?);
    }
    Ok((recorded, left_out))
}

/// The files of a run.
pub(crate) struct Files {
    /// What the run is called: its folder.
    pub(crate) name: String,
    pub(crate) series: Option<std::path::PathBuf>,
    pub(crate) events: Option<std::path::PathBuf>,
}

impl Files {
    pub(crate) fn of(folder: &Path, run: &Run) -> Self {
        let find = |end: &str| run.recorded_files().find(|path| path.rsplit('/').next() == Some(end));
        let path = |end: &str| find(end).map(|path| folder.join(path)).filter(|path| path.is_file());
        let any = find("series.parquet")
            .or_else(|| find("events.jsonl"))
            .unwrap_or_default();
        let name = any.rsplit_once('/').map_or("the run", |(folder, _)| folder);
        Files {
            name: name.strip_prefix("runs/").unwrap_or(name).to_owned(),
            series: path("series.parquet"),
            events: path("events.jsonl"),
        }
    }
}

fn one(results: &Results, run: &Run, files: &Files, blobs: &mut Blobs) -> Result<Value, ReportError> {
    let point = results
        .scenario
        .as_ref()
        .and_then(|scenario| scenario.points.get(run.point));
    let series = files.series.as_deref().map(Series::read).transpose()?;
    let events = files.events.as_deref().map(Events::read).transpose()?;
    let mut json = page(&files.name, series.as_ref(), events.as_ref(), blobs);
    json["run"] = json!(run.number);
    json["point"] = json!(run.point);
    json["seed"] = json!(run.seed.to_string());
    json["network"] = json!(point.map(|point| network::network(&point.config)));
    json["radios"] = json!(point.map(|point| network::radio_nodes(&point.config)));
    Ok(json)
}

/// What the page contains about series and events.
pub(crate) fn page(name: &str, series: Option<&Series>, events: Option<&Events>, blobs: &mut Blobs) -> Value {
    json!({
        "name": name,
        "series": series.map(|series| series.json(blobs)),
        "samples": series.map_or(0, Series::len),
        "events": events.map(|events| events_json(events, blobs)),
        "cut": events.is_some_and(|events| events.cut),
    })
}

/// The columns of a list.
struct Columns<'b, T> {
    rows: &'b [T],
    blobs: &'b mut Blobs,
    json: Value,
}

impl<'b, T> Columns<'b, T> {
    fn of(rows: &'b [T], blobs: &'b mut Blobs) -> Self {
        Columns {
            rows,
            blobs,
            json: json!({}),
        }
    }

    fn time(mut self, name: &str, time: impl Fn(&T) -> i64) -> Self {
        let times: Vec<i64> = self.rows.iter().map(time).collect();
        self.json[name] = self.blobs.steps(&times, 1e-9);
        self
    }

    fn steps(mut self, name: &str, value: impl Fn(&T) -> i64) -> Self {
        let values: Vec<i64> = self.rows.iter().map(value).collect();
        self.json[name] = self.blobs.steps(&values, 1.0);
        self
    }

    fn number(mut self, name: &str, value: impl Fn(&T) -> f64) -> Self {
        let values: Vec<f64> = self.rows.iter().map(value).collect();
        self.json[name] = self.blobs.numbers(&values, Precision::Drawn);
        self
    }

    fn end(self, end: impl Fn(&T) -> End) -> Self {
        self.number("flow", |row| end(row).0 as f64)
            .number("node", |row| end(row).1 as f64)
    }
}

fn events_json(events: &Events, blobs: &mut Blobs) -> Value {
    // The order of the columns is that of their blobs in the page.
    json!({
        "words": events.words.list(),
        "sent": sent_json(&events.sent, blobs),
        "acked": acked_json(&events.acked, blobs),
        "lost": lost_json(&events.lost, blobs),
        "judged": judged_json(events, blobs),
        "drops": drops_json(&events.drops, blobs),
        "packets": packets_json(&journeys(events), blobs),
        "changes": changes_json(&events.changes, blobs),
        "frames": frames_json(&events.frames, blobs),
    })
}

/// Chunks and segments as they were sent.
fn sent_json(sent: &[Sent], blobs: &mut Blobs) -> Value {
    Columns::of(sent, blobs)
        .time("t", |row| row.at)
        .end(|row| row.end)
        .number("path", |row| f64::from(row.path))
        .steps("tsn", |row| i64::from(row.tsn))
        .number("length", |row| f64::from(row.length))
        .number("again", |row| f64::from(u8::from(row.again)))
        .number("fate", |row| f64::from(row.fate))
        .json
}

/// Acknowledgements of TSNs.
fn acked_json(acked: &[Noted], blobs: &mut Blobs) -> Value {
    Columns::of(acked, blobs)
        .time("t", |row| row.at)
        .end(|row| row.end)
        .steps("tsn", |row| i64::from(row.tsn))
        .json
}

/// TSNs that were declared lost.
fn lost_json(lost: &[Noted], blobs: &mut Blobs) -> Value {
    Columns::of(lost, blobs)
        .time("t", |row| row.at)
        .end(|row| row.end)
        .number("path", |row| f64::from(row.path))
        .steps("tsn", |row| i64::from(row.tsn))
        .number("rule", |row| row.rule as f64)
        .json
}

/// Judgements of the senders, with the truth.
fn judged_json(events: &Events, blobs: &mut Blobs) -> Value {
    Columns::of(&events.judged, blobs)
        .time("t", |row| row.at)
        .end(|row| row.end)
        .number("path", |row| f64::from(row.path))
        .steps("tsn", |row| i64::from(row.tsn))
        .number("verdict", |row| row.verdict as f64)
        .number("signal", |row| row.signal as f64)
        .number("before", |row| row.before)
        .number("after", |row| row.after)
        .number("episode", |row| f64::from(row.episode))
        .number("truth", |row| f64::from(row.truth as u8))
        .number("drop", |row| f64::from(row.drop))
        .number("wrong", |row| f64::from(u8::from(events.is_wrong(row))))
        .json
}

/// Packets that the network dropped.
fn drops_json(drops: &[Dropped], blobs: &mut Blobs) -> Value {
    Columns::of(drops, blobs)
        .time("t", |row| row.at)
        .time("sent", |row| row.sent)
        .number("flow", |row| row.flow as f64)
        .number("node", |row| row.node as f64)
        .number("link", |row| row.link as f64)
        .number("cause", |row| row.cause as f64)
        .number("forward", |row| f64::from(u8::from(row.forward)))
        .number("congestion", |row| f64::from(u8::from(row.congestion)))
        .number("length", |row| f64::from(row.length))
        .number("number", |row| f64::from(row.number))
        .json
}

/// Packets from their departure to their arrival or loss.
fn packets_json(journeys: &[Journey], blobs: &mut Blobs) -> Value {
    Columns::of(journeys, blobs)
        .time("t", |row| row.departure.at)
        .end(|row| row.departure.end)
        .number("path", |row| f64::from(row.departure.path))
        .number("length", |row| f64::from(row.departure.length))
        .number("took", |row| {
            row.end.map_or(f64::NAN, |end| (end - row.departure.at) as f64 / 1e9)
        })
        .number("drop", |row| f64::from(row.drop))
        .json
}

/// Changes of paths, associations, timers and routes.
fn changes_json(changes: &[Change], blobs: &mut Blobs) -> Value {
    Columns::of(changes, blobs)
        .time("t", |row| row.at)
        .end(|row| row.end)
        .number("path", |row| row.path.map_or(f64::NAN, f64::from))
        .number("what", |row| row.what as f64)
        .number("value", |row| row.value as f64)
        .json
}

/// Frames of radios.
fn frames_json(frames: &[Frame], blobs: &mut Blobs) -> Value {
    Columns::of(frames, blobs)
        .time("t", |row| row.at)
        .number("from", |row| row.from as f64)
        .number("to", |row| row.to as f64)
        .number("kind", |row| row.kind as f64)
        .number("airtime", |row| row.airtime)
        .number("retry", |row| f64::from(u8::from(row.retry)))
        .number("lost", |row| row.lost as f64)
        .json
}
