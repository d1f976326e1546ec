//! `runs.jsonl`: a line for each finished run with all its values. Tables are printed from it, an interrupted sweep is resumed from
//! it, and the parts of a sweep are merged from it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use whimbrel_sim::{FileCheck, FlowOutcome};

use crate::metric::Values;
use crate::record::Recorded;
use crate::runner::{FlowRun, LinkRun, Run};
use crate::write::file::{Digested, plain};

/// The file's name.
pub(crate) const RUNS: &str = "runs.jsonl";

#[derive(Serialize, Deserialize)]
struct StoredRun {
    run: usize,
    point: usize,
    seed: u64,
    values: BTreeMap<String, f64>,
    flows: Vec<StoredFlow>,
    links: Vec<LinkRun>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    radios: Vec<Vec<String>>,
    packet_hops: u64,
    events: u64,
    fingerprint: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<Digested>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cut: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredFlow {
    name: String,
    outcome: FlowOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<FileCheck>,
    values: BTreeMap<String, f64>,
}

/// Returns the run as a line, without values that depend on the machine.
pub(crate) fn line(run: &Run) -> String {
    let stored = StoredRun {
        run: run.number,
        point: run.point,
        seed: run.seed,
        values: run.values.named(),
        flows: run
            .flows
            .iter()
            .map(|flow| StoredFlow {
                name: flow.name.clone(),
                outcome: flow.outcome.clone(),
                file: flow.file,
                values: flow.values.named(),
            })
            .collect(),
        links: run.links.clone(),
        radios: run.radios.clone(),
        packet_hops: run.packet_hops,
        events: run.events,
        fingerprint: format!("{:016x}", run.fingerprint),
        files: run.recorded.files.clone(),
        cut: run.recorded.cut.clone(),
    };
    let mut line = serde_json::to_string(&stored).expect("plain data with text keys and finite numbers");
    line.push('\n');
    line
}

fn parse(line: &str) -> Option<Run> {
    let stored: StoredRun = serde_json::from_str(line).ok()?;
    Some(Run {
        number: stored.run,
        point: stored.point,
        seed: stored.seed,
        values: Values::from_named(&stored.values),
        flows: stored
            .flows
            .into_iter()
            .map(|flow| FlowRun {
                values: Values::from_named(&flow.values),
                name: flow.name,
                outcome: flow.outcome,
                file: flow.file,
            })
            .collect(),
        links: stored.links,
        radios: stored.radios,
        wall_s: None,
        packet_hops: stored.packet_hops,
        events: stored.events,
        fingerprint: u64::from_str_radix(&stored.fingerprint, 16).ok()?,
        lines: None,
        recorded: Recorded {
            files: stored.files,
            cut: stored.cut,
        },
    })
}

/// Loads the finished runs of a folder of results, in their order. An incomplete line, written when the process was killed, is
/// ignored.
///
/// # Errors
/// Returns an error message if the file cannot be read.
pub fn load_runs(folder: &Path) -> Result<Vec<Run>, String> {
    let path = folder.join(RUNS);
    let cannot = |error: &std::io::Error| format!("cannot read {}: {}", path.display(), plain(error));
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(cannot(&error)),
    };
    let mut runs = BTreeMap::new();
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(|error| cannot(&error))?;
        if let Some(run) = std::str::from_utf8(&line).ok().and_then(parse) {
            runs.insert(run.number, run);
        }
    }
    Ok(runs.into_values().collect())
}

/// Appends finished runs, each with a single write, so that a killed process loses none of them.
#[derive(Debug)]
pub(crate) struct Journal {
    file: std::fs::File,
    path: std::path::PathBuf,
}

impl Journal {
    pub(crate) fn open(folder: &Path) -> Result<Self, crate::WriteError> {
        let path = folder.join(RUNS);
        let open = |path: &Path| {
            let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
            // After an incomplete line.
            if file.metadata()?.len() > 0 {
                file.write_all(b"\n")?;
            }
            Ok(file)
        };
        let file = open(&path).map_err(crate::WriteError::at(&path))?;
        Ok(Journal { file, path })
    }

    pub(crate) fn add(&mut self, run: &Run) -> Result<(), crate::WriteError> {
        let written = self.file.write_all(line(run).as_bytes());
        written.map_err(crate::WriteError::at(&self.path))
    }
}
