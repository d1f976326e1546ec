//! `runs.jsonl`: a line for each finished run with all its values. Tables are printed from it, an interrupted sweep is resumed from
//! it, and the parts of a sweep are merged from it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use whimbrel_scenario::Scenario;
use whimbrel_sim::{FileCheck, FlowOutcome};

use crate::metric::Values;
use crate::output::Manifest;
use crate::record::Recorded;
use crate::run::{FlowRun, LinkRun, Run};
use crate::runner::Part;
use crate::text::json_problem;
use crate::write::file::{Digested, plain};
use crate::write::folder::{MANIFEST, prepare};
use crate::write::lock::FolderLock;

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

impl Run {
    /// Returns the run as a line of `runs.jsonl`, without values that depend on the machine.
    pub fn to_line(&self) -> String {
        line(self)
    }

    /// Reads a line of `runs.jsonl`; `None` if it is not complete, or no run.
    pub fn from_line(line: &str) -> Option<Run> {
        parse(line.as_bytes()).ok().flatten()
    }
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

/// Reads a line; `None` if it is not complete JSON, because the process was killed while it wrote the line.
fn parse(line: &[u8]) -> Result<Option<Run>, NoRun> {
    let stored: StoredRun = match serde_json::from_slice(line) {
        Ok(stored) => stored,
        Err(error) if error.is_data() => return Err(NoRun(json_problem(&error))),
        Err(_) => return Ok(None),
    };
    let Ok(fingerprint) = u64::from_str_radix(&stored.fingerprint, 16) else {
        return Err(NoRun("the fingerprint is not hexadecimal".to_owned()));
    };
    Ok(Some(Run {
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
        fingerprint,
        lines: None,
        recorded: Recorded {
            files: stored.files,
            cut: stored.cut,
        },
    }))
}

/// Why a complete line is not a run.
struct NoRun(String);

impl NoRun {
    fn at(self, path: &Path, line: usize) -> String {
        format!(
            "{}: record {line} is not a run of this version: {}\n  hint: `whimbrel rerun` of the manifest runs it again",
            path.display(),
            self.0
        )
    }
}

/// Loads the finished runs of a folder of results, in their order. An incomplete line, written when the process was killed, is
/// ignored.
///
/// # Errors
/// Returns an error message if the file cannot be read, or has a complete line that is not a run.
pub fn load_runs(folder: &Path) -> Result<Vec<Run>, String> {
    let path = folder.join(RUNS);
    let cannot = |error: &std::io::Error| format!("cannot read {}: {}", path.display(), plain(error));
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(cannot(&error)),
    };
    let mut runs = BTreeMap::new();
    for (number, line) in (1..).zip(BufReader::new(file).split(b'\n')) {
        let line = line.map_err(|error| cannot(&error))?;
        if let Some(run) = parse(&line).map_err(|reason| reason.at(&path, number))? {
            runs.insert(run.number, run);
        }
    }
    Ok(runs.into_values().collect())
}

/// The finished runs of a folder, read one at a time in their order.
#[derive(Debug)]
pub struct StoredRuns {
    file: std::fs::File,
    path: PathBuf,
    /// Place and length of the line of each run, by its number.
    places: BTreeMap<usize, (u64, usize)>,
}

/// The number of a run in its line.
#[derive(Deserialize)]
struct Numbered {
    run: usize,
}

impl StoredRuns {
    /// Opens the runs of a folder. An incomplete line is ignored; of several lines of a run the last one counts.
    ///
    /// # Errors
    /// Returns an error message if the file cannot be read, or has a complete line without the number of a run.
    pub fn open(folder: &Path) -> Result<Self, String> {
        let path = folder.join(RUNS);
        let cannot = |error: &std::io::Error| format!("cannot read {}: {}", path.display(), plain(error));
        let file = std::fs::File::open(&path).map_err(|error| cannot(&error))?;
        let (mut places, mut at) = (BTreeMap::new(), 0);
        for (number, line) in (1..).zip(BufReader::new(&file).split(b'\n')) {
            let line = line.map_err(|error| cannot(&error))?;
            match serde_json::from_slice(&line) {
                Ok(Numbered { run }) => {
                    places.insert(run, (at, line.len()));
                }
                Err(error) if error.is_data() => return Err(NoRun(json_problem(&error)).at(&path, number)),
                Err(_) => {}
            }
            at += line.len() as u64 + 1;
        }
        Ok(StoredRuns { file, path, places })
    }

    /// Returns the numbers of the runs.
    pub fn numbers(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.places.keys().copied()
    }

    /// Reads the run with this number; `None` if it is not there.
    ///
    /// # Errors
    /// Returns an error message if the file cannot be read, or the line is not a run.
    pub fn read(&mut self, number: usize) -> Result<Option<Run>, String> {
        let Some(&(at, length)) = self.places.get(&number) else {
            return Ok(None);
        };
        let mut line = vec![0; length];
        let read = self
            .file
            .seek(SeekFrom::Start(at))
            .and_then(|_| self.file.read_exact(&mut line));
        read.map_err(|error| format!("cannot read {}: {}", self.path.display(), plain(&error)))?;
        parse(&line).map_err(|reason| format!("{}: run {number}: {}", self.path.display(), reason.0))
    }
}

/// Opens a folder for the runs of a part of a scenario: prepares it, or checks with `resume` that the runs in it belong to these.
/// Returns the folder's lock, which must be held until the results are complete, and whether there are results of an earlier call to
/// continue.
///
/// # Errors
/// Returns an error message with a hint if the folder has other contents, cannot be written, or another process writes to it.
pub fn open_folder(
    folder: &Path,
    scenario: &Scenario,
    part: Part,
    replace: bool,
    resume: bool,
) -> Result<(FolderLock, bool), String> {
    let path = folder.join(MANIFEST);
    if !resume || !path.exists() {
        let lock = prepare(folder, replace).map_err(|error| error.to_string())?;
        return Ok((lock, false));
    }
    let lock = FolderLock::acquire(folder).map_err(|error| error.to_string())?;
    let manifest = Manifest::load(&path)?;
    let differs = if manifest.whimbrel != env!("CARGO_PKG_VERSION") {
        Some("it was written by another version of this program")
    } else if manifest.scenario.hash != whimbrel_scenario::hash(scenario) {
        Some("it holds results of another scenario, or of this one with other changes")
    } else if manifest.part != part {
        Some("it holds another part of the runs")
    } else {
        None
    };
    match differs {
        None => Ok((lock, true)),
        Some(reason) => Err(format!(
            "{} cannot be continued: {reason}\n  hint: choose another folder, or replace it with --replace",
            folder.display()
        )),
    }
}

/// Maximum time between a line and its transfer to the disk while lines arrive.
const SYNC: Duration = Duration::from_secs(1);

/// Appends finished runs, each with a single write, so that a killed process loses none of them. A machine that loses power loses those
/// of about the last second.
#[derive(Debug)]
pub struct Journal {
    file: std::fs::File,
    path: std::path::PathBuf,
    /// When the file was last transferred to the disk.
    synced: Instant,
}

impl Journal {
    /// Opens the journal of a folder.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn open(folder: &Path) -> Result<Self, crate::WriteError> {
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
        Ok(Journal {
            file,
            path,
            synced: Instant::now(),
        })
    }

    /// Adds a run. Its line is in the file when this function returns.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn add(&mut self, run: &Run) -> Result<(), crate::WriteError> {
        self.add_lines(&line(run))
    }

    /// Adds lines of [`Run::to_line`].
    ///
    /// # Errors
    /// Returns an error if they cannot be written.
    pub fn add_lines(&mut self, lines: &str) -> Result<(), crate::WriteError> {
        let mut written = self.file.write_all(lines.as_bytes());
        if written.is_ok() && self.synced.elapsed() >= SYNC {
            written = self.file.sync_data();
            self.synced = Instant::now();
        }
        written.map_err(crate::WriteError::at(&self.path))
    }
}
