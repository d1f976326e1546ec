//! Recorded events in the formats of other viewers: qlog for qvis, and trace events for Perfetto.

mod event;
mod perfetto;
mod qlog;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use event::Event;

use crate::recorded::find;
use crate::text::json_problem;
use crate::write::file::plain;

/// A format of recorded events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportFormat {
    /// Trace events in JSON, for Perfetto and Chrome: one file.
    Perfetto,
    /// qlog in JSON text sequences, for qvis: one file per flow, node and path that sends data.
    Qlog,
}

/// Why events were not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There are no events, they cannot be read, or there is no folder for the files. Nothing was written.
    #[error("{0}")]
    Source(String),
    /// A file could not be written.
    #[error("{0}")]
    Write(String),
}

impl From<String> for ExportError {
    fn from(message: String) -> Self {
        ExportError::Source(message)
    }
}

/// Writes the events of a recorded run in another format and returns the files. `folder` is the folder of the run, or one with a
/// single recorded run below it; `out` is the folder of the files, by default that of the run.
///
/// # Errors
/// Returns an error if there are no events, a line is not an event, or a file cannot be written.
pub fn export(folder: &Path, format: ExportFormat, out: Option<&Path>) -> Result<Vec<PathBuf>, ExportError> {
    let source = find(folder, "events.jsonl", "record.events = \"first\"")?;
    let out = out.map_or_else(|| source.with_file_name(""), Path::to_path_buf);
    std::fs::create_dir_all(&out).map_err(|error| cannot("create", &out, &error))?;
    match format {
        ExportFormat::Perfetto => {
            let path = out.join("trace.perfetto.json");
            let mut trace = perfetto::Trace::new();
            each(&source, |event| {
                trace.add(&event);
                Ok(())
            })?;
            write(&path, |file| trace.write(file))?;
            Ok(vec![path])
        }
        ExportFormat::Qlog => {
            let mut traces = qlog::Traces::default();
            each(&source, |event| {
                traces.add(&event);
                Ok(())
            })?;
            let (mut paths, mut names) = (Vec::new(), BTreeSet::new());
            for trace in traces.finish() {
                let path = out.join(new_name(&trace.file_stem(), &mut names));
                write(&path, |file| trace.write(file))?;
                paths.push(path);
            }
            if paths.is_empty() {
                return Err(format!(
                    "{}: no path of an SCTP flow sent data; --perfetto shows other events",
                    source.display()
                )
                .into());
            }
            Ok(paths)
        }
    }
}

/// Returns the name of a file: names that differ in other characters than those of file names have numbers.
fn new_name(stem: &str, names: &mut BTreeSet<String>) -> String {
    let mut name = format!("{stem}.sqlog");
    let mut number = 1;
    // Some file systems do not distinguish cases.
    while !names.insert(name.to_ascii_lowercase()) {
        number += 1;
        name = format!("{stem}-{number}.sqlog");
    }
    name
}

/// Calls `on_event` with each event of a file.
fn each(source: &Path, mut on_event: impl FnMut(Event) -> Result<(), String>) -> Result<(), String> {
    let file = File::open(source).map_err(|error| cannot("read", source, &error))?;
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| cannot("read", source, &error))?;
        let event = serde_json::from_str(&line).map_err(|error| {
            format!(
                "{}:{}: not an event: {}",
                source.display(),
                number + 1,
                json_problem(&error)
            )
        })?;
        on_event(event)?;
    }
    Ok(())
}

fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<(), ExportError> {
    let result = File::create(path).and_then(|file| {
        let mut file = BufWriter::new(file);
        content(&mut file)?;
        file.flush()
    });
    result.map_err(|error| ExportError::Write(cannot("write", path, &error)))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {what} {}: {}", path.display(), plain(error))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const LINES: &str = r#"{"data":{"new":"cookie_wait"},"flow":"up load","name":"connectivity:connection_state_updated","node":"phone","time":0.0}
{"data":{"path":0,"tsn":7,"length":1452,"retransmission":false},"flow":"up load","name":"transport:tsn_sent","node":"phone","time":1.0}
{"data":{"path":1,"tsn":8,"length":1452,"retransmission":false},"flow":"up load","name":"transport:tsn_sent","node":"phone","time":1.5}
{"data":{"trigger":"loss-bernoulli","link":"wifi","forward":true,"length":1500,"tsn":7},"flow":"up load","name":"network:packet_dropped","node":"phone","time":2.0}
{"data":{"length":60,"path":1},"flow":"up load","name":"transport:packet_received","node":"phone","time":3.0}
{"data":{"path":1,"tsn":8},"flow":"up load","name":"transport:tsn_acked","node":"phone","time":3.0}
{"data":{"path":0,"tsn":7,"trigger":"missing_reports"},"flow":"up load","name":"recovery:tsn_lost","node":"phone","time":4.0}
{"data":{"path":0,"tsn":7,"verdict":"transmission","trigger":"gap","congestion_window":4380},"flow":"up load","name":"recovery:loss_judged","node":"phone","time":4.0}
{"data":{"new":"loss","path":0},"flow":"up load","name":"recovery:mode_updated","node":"phone","time":4.0}
{"data":{"path":1,"tsn":7,"length":1452,"retransmission":true},"flow":"up load","name":"transport:tsn_sent","node":"phone","time":4.5}
{"data":{"length":60,"path":1},"flow":"up load","name":"transport:packet_received","node":"phone","time":6.0}
{"data":{"path":1,"tsn":7},"flow":"up load","name":"transport:tsn_acked","node":"phone","time":6.0}
{"data":{"path":1,"tsn":9,"length":1452,"retransmission":false},"flow":"up load","name":"transport:tsn_sent","node":"phone","time":6.0}
{"data":{"congestion_window":4380,"ssthresh":9223372036854775807,"bytes_in_flight":0,"path":0},"flow":"up load","name":"recovery:metrics_updated","node":"phone","time":6.0}
"#;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("events.jsonl"), LINES).expect("written");
        folder
    }

    #[test]
    fn perfetto_has_a_track_per_path_and_link_and_every_chunk_ends_once() {
        let folder = folder();
        let paths = export(folder.path(), ExportFormat::Perfetto, None).expect("exported");
        let text = std::fs::read_to_string(&paths[0]).expect("read");
        let trace: Value = serde_json::from_str(&text).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
        let names: Vec<_> = of("M")
            .iter()
            .filter_map(|event| event["args"]["name"].as_str())
            .collect();
        for name in ["phone", "up load, path 0", "up load, path 1", "link wifi"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        let (begins, ends) = (of("b"), of("e"));
        assert_eq!((begins.len(), ends.len()), (4, 4), "three chunks and a retransmission");
        for begin in begins {
            let same: Vec<_> = ends.iter().filter(|end| end["id"] == begin["id"]).collect();
            assert_eq!(same.len(), 1);
            assert!(same[0]["ts"].as_f64() >= begin["ts"].as_f64());
        }
        assert!(of("i").iter().any(|event| event["name"] == "dropped: loss-bernoulli"));
        assert!(of("i").iter().any(|event| event["name"] == "judged transmission"));
        let states = of("X");
        let recovery = states.iter().find(|state| state["name"] == "loss").expect("recovery");
        assert_eq!((&recovery["ts"], &recovery["dur"]), (&4000.0.into(), &2000.0.into()));
        assert!(of("C").iter().any(|event| event["args"]["bytes"] == 4380));
    }

    #[test]
    fn states_without_a_duration_are_no_slices() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = |new: &str, time: f64| {
            format!(
                "{{\"data\":{{\"new\":\"{new}\"}},\"flow\":\"f\",\"name\":\"connectivity:connection_state_updated\",\"node\":\"n\",\"time\":{time:.1}}}\n"
            )
        };
        let text = state("shutdown_received", 7.0) + &state("shutdown_ack_sent", 7.0) + &state("closed", 9.0);
        std::fs::write(folder.path().join("events.jsonl"), text).expect("written");
        let paths = export(folder.path(), ExportFormat::Perfetto, None).expect("exported");
        let text = std::fs::read_to_string(&paths[0]).expect("read");
        let trace: Value = serde_json::from_str(&text).expect("JSON");
        let slices = trace["traceEvents"].as_array().expect("events").iter();
        let slices: Vec<_> = slices
            .filter(|event| event["ph"] == "X")
            .map(|event| &event["name"])
            .collect();
        assert_eq!(slices, ["shutdown_ack_sent"]);
    }

    #[test]
    fn qlog_numbers_transmissions_and_reports_what_is_acknowledged() {
        let folder = folder();
        let paths = export(folder.path(), ExportFormat::Qlog, None).expect("exported");
        let names: Vec<_> = paths.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["up-load-phone-path-0.sqlog", "up-load-phone-path-1.sqlog"]);
        let text = std::fs::read_to_string(&paths[1]).expect("read");
        let records: Vec<Value> = text
            .split('\u{1e}')
            .skip(1)
            .map(|record| serde_json::from_str(record).expect("JSON"))
            .collect();
        let header = &records[0];
        assert_eq!(header["qlog_format"], "JSON-SEQ");
        assert_eq!(header["trace"]["vantage_point"]["type"], "client");
        let named = |name: &str| {
            records
                .iter()
                .filter(|record| record["name"] == name)
                .collect::<Vec<_>>()
        };
        let sent = named("transport:packet_sent");
        let numbers: Vec<_> = sent
            .iter()
            .map(|event| &event["data"]["header"]["packet_number"])
            .collect();
        assert_eq!(numbers, [0, 1, 2], "a retransmission has a number of its own");
        assert_eq!(sent[1]["data"]["tsn"], 7);
        let received = named("transport:packet_received");
        assert_eq!(received[0]["data"]["frames"][0]["acked_ranges"][0][0], 0);
        assert_eq!(received[1]["data"]["frames"][0]["acked_ranges"][0][0], 1);
        let first = std::fs::read_to_string(&paths[0]).expect("read");
        assert!(first.contains("recovery:packet_lost") && first.contains("sctp:loss_judged"));
        assert!(first.contains("\"bytes_in_flight\":0") && !first.contains("9223372036854775807"));
    }

    #[test]
    fn flows_of_similar_names_have_files_of_their_own() {
        let folder = folder();
        let events = folder.path().join("events.jsonl");
        let all = [
            LINES,
            &LINES.replace("up load", "up-load"),
            &LINES.replace("up load", "Up load"),
        ]
        .concat();
        std::fs::write(&events, all).expect("written");
        let paths = export(folder.path(), ExportFormat::Qlog, None).expect("exported");
        let titles = paths.iter().map(|path| {
            let text = std::fs::read_to_string(path).expect("read");
            let header: Value = serde_json::from_str(text.split('\u{1e}').nth(1).expect("a header")).expect("JSON");
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("").to_owned();
            (name, header["title"].as_str().unwrap_or("").to_owned())
        });
        let expected = [
            ("Up-load-phone-path-0.sqlog", "Up load, phone, path 0"),
            ("Up-load-phone-path-1.sqlog", "Up load, phone, path 1"),
            ("up-load-phone-path-0-2.sqlog", "up load, phone, path 0"),
            ("up-load-phone-path-1-2.sqlog", "up load, phone, path 1"),
            ("up-load-phone-path-0-3.sqlog", "up-load, phone, path 0"),
            ("up-load-phone-path-1-3.sqlog", "up-load, phone, path 1"),
        ];
        let found: Vec<_> = titles.collect();
        let found: Vec<_> = found
            .iter()
            .map(|(name, title)| (name.as_str(), title.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        let folder = folder();
        let events = folder.path().join("events.jsonl");
        std::fs::write(&events, format!("{LINES}nonsense\n")).expect("written");
        let error = export(folder.path(), ExportFormat::Qlog, None).expect_err("nonsense");
        let error = error.to_string();
        assert!(error.contains("events.jsonl:15: not an event"), "{error}");
        std::fs::remove_file(&events).expect("removed");
        let error = export(folder.path(), ExportFormat::Perfetto, None).expect_err("nothing");
        let error = error.to_string();
        assert!(error.contains("holds no events.jsonl"), "{error}");
    }
}
