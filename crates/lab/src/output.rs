//! The folder of results: results.csv, results.parquet, links.csv, radios.csv, what runs recorded, and the manifest.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whimbrel_scenario::{Scenario, hash};

use crate::rows::{Field, Rows};
use crate::run::Run;
use crate::runner::{Part, RunEnd};
use crate::stored;
use crate::text::json_problem;
use crate::write::file::{Digested, Output, WriteError, digest_of, plain};
use crate::write::folder::MANIFEST;
use crate::write::table::Table;

/// Content of `manifest.json`: what is needed to repeat the runs and to compare them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of whimbrel that wrote the results.
    pub whimbrel: String,
    /// The command that repeats these results.
    pub command: Vec<String>,
    /// The scenario.
    pub scenario: ManifestScenario,
    /// The first seed.
    pub seed: u64,
    /// Runs of each point.
    pub seeds: u32,
    /// Points.
    pub points: usize,
    /// Which part of all runs this is.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    pub part: Part,
    /// Whether the runs are complete.
    pub status: Status,
    /// Number of runs with results.
    pub runs: usize,
    /// Files that the scenario names.
    pub inputs: Vec<Input>,
    /// Written files, sorted by name.
    pub files: Vec<Digested>,
    /// Files that ended at `record.limit_bytes` before their run did.
    pub cut: Vec<String>,
}

fn all() -> Part {
    Part::ALL
}

fn is_all(part: &Part) -> bool {
    *part == Part::ALL
}

/// The scenario in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestScenario {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// SHA-256 of everything that determines the results.
    pub hash: String,
    /// Changes by `--set`, as given.
    pub changes: Vec<String>,
    /// The text of the file.
    pub text: String,
}

/// A file that the scenario names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Its path.
    pub path: PathBuf,
    /// SHA-256 of its content.
    pub sha256: String,
}

/// Status of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The runs are in progress, or the process was killed.
    Running,
    /// All results are complete.
    Complete,
    /// The runs were interrupted; results of complete runs are there.
    Interrupted,
    /// A stopping rule ended the runs of some points early; no more are wanted.
    Stopped,
    /// The runs ended with an error.
    Failed,
}

impl From<&RunEnd> for Status {
    fn from(end: &RunEnd) -> Self {
        match end {
            RunEnd { error: Some(_), .. } => Status::Failed,
            RunEnd { interrupted: true, .. } => Status::Interrupted,
            _ => Status::Complete,
        }
    }
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// Returns an error message if the file cannot be read or is not a manifest.
    pub fn load(path: &Path) -> Result<Manifest, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {}", path.display(), plain(&error)))?;
        serde_json::from_str(&text)
            .map_err(|error| format!("{} is not a manifest: {}", path.display(), json_problem(&error)))
    }
}

/// Writes results during the runs.
#[derive(Debug)]
pub struct Results {
    folder: PathBuf,
    manifest: Manifest,
    rows: Rows,
    results: csv::Writer<Output>,
    links: csv::Writer<Output>,
    /// Present if the scenario has radios.
    radios: Option<csv::Writer<Output>>,
    table: Table<Output>,
    /// Temporary file that replaces `runs.jsonl` at the end: it contains the runs in the order in which they ended.
    runs: Output,
}

/// Temporary name of `runs.jsonl`.
pub(crate) const RUNS_IN_ORDER: &str = ".runs.jsonl.new";

/// Columns of links.csv.
const LINK_COLUMNS: [&str; 13] = [
    "run",
    "seed",
    "link",
    "from",
    "to",
    "packets",
    "bytes",
    "utilisation",
    "queue_utilisation",
    "mean_queue_packets",
    "max_queue_packets",
    "marked",
    "drops",
];

/// Columns of radios.csv.
const RADIO_COLUMNS: [&str; 21] = [
    "run",
    "seed",
    "radio",
    "node",
    "channel",
    "rts",
    "cts",
    "data",
    "ack",
    "received",
    "retries",
    "control",
    "control_bytes",
    "collisions",
    "hidden",
    "spoilt",
    "transmitting_s",
    "receiving_s",
    "energy_j",
    "max_queue_packets",
    "drops",
];

impl Results {
    /// Creates the files in a folder prepared by [`prepare`](crate::prepare), whose lock the caller holds. `command` repeats the results.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn create(folder: &Path, scenario: &Scenario, command: Vec<String>, part: Part) -> Result<Self, WriteError> {
        let manifest = Manifest {
            whimbrel: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            scenario: ManifestScenario {
                path: scenario.source.path.clone(),
                hash: hash(scenario),
                changes: scenario.source.changes.clone(),
                text: scenario.source.text.clone(),
            },
            seed: scenario.seed,
            seeds: scenario.seeds,
            points: scenario.points.len(),
            part,
            status: Status::Running,
            runs: 0,
            inputs: inputs(scenario)?,
            files: Vec::new(),
            cut: Vec::new(),
        };
        let rows = Rows::of(scenario);
        let names: Vec<_> = rows
            .columns()
            .iter()
            .map(|(name, kind)| (name.as_str(), *kind))
            .collect();
        let parquet = Output::create(folder, "results.parquet")?;
        let path = parquet.path().to_owned();
        let mut results = Results {
            folder: folder.to_owned(),
            manifest,
            results: csv::Writer::from_writer(Output::create(folder, "results.csv")?),
            links: csv::Writer::from_writer(Output::create(folder, "links.csv")?),
            radios: None,
            table: Table::new(parquet, &names).map_err(WriteError::at(&path))?,
            runs: Output::create(folder, RUNS_IN_ORDER)?,
            rows,
        };
        let heads = results
            .results
            .write_record(results.rows.columns().iter().map(|(name, _)| name))
            .and_then(|()| results.links.write_record(LINK_COLUMNS));
        results.check_csv(heads)?;
        if scenario.points.iter().any(|point| !point.config.radio.is_empty()) {
            let mut radios = csv::Writer::from_writer(Output::create(folder, "radios.csv")?);
            results.check_csv(radios.write_record(RADIO_COLUMNS))?;
            results.radios = Some(radios);
        }
        results.write_manifest()?;
        Ok(results)
    }

    /// Adds a run. Its rows are in the text files when this function returns.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn add(&mut self, run: &Run) -> Result<(), WriteError> {
        let folder = self.folder.clone();
        let result = self
            .add_rows(run)
            .and_then(|()| self.add_links(run))
            .and_then(|()| self.add_radios(run))
            .and_then(|()| self.runs.write_all(stored::line(run).as_bytes()));
        result.map_err(WriteError::at(&folder))?;
        self.manifest.runs += 1;
        self.manifest.files.extend(run.recorded.files.iter().cloned());
        self.manifest.cut.extend(run.recorded.cut.iter().cloned());
        Ok(())
    }

    fn add_rows(&mut self, run: &Run) -> io::Result<()> {
        for cells in self.rows.of_run(run) {
            self.results
                .write_record(cells.iter().map(Field::to_text))
                .map_err(csv_error)?;
            self.table.row(&cells.iter().map(Field::to_cell).collect::<Vec<_>>())?;
        }
        self.results.flush()
    }

    fn add_links(&mut self, run: &Run) -> io::Result<()> {
        for link in &run.links {
            let drops: Vec<_> = link
                .drops
                .iter()
                .map(|(cause, count)| format!("{cause}={count}"))
                .collect();
            let record = [
                run.number.to_string(),
                run.seed.to_string(),
                link.name.clone(),
                link.from.clone(),
                link.to.clone(),
                link.packets.to_string(),
                link.bytes.to_string(),
                link.utilisation.to_string(),
                link.queue_utilisation.to_string(),
                link.mean_queue_packets.to_string(),
                link.max_queue_packets.to_string(),
                link.marked.to_string(),
                drops.join(" "),
            ];
            self.links.write_record(record).map_err(csv_error)?;
        }
        self.links.flush()
    }

    fn add_radios(&mut self, run: &Run) -> io::Result<()> {
        let Some(radios) = &mut self.radios else { return Ok(()) };
        for radio in &run.radios {
            let mut record = vec![run.number.to_string(), run.seed.to_string()];
            record.extend(radio.iter().cloned());
            radios.write_record(record).map_err(csv_error)?;
        }
        radios.flush()
    }

    fn check_csv(&self, result: csv::Result<()>) -> Result<(), WriteError> {
        result.map_err(csv_error).map_err(WriteError::at(&self.folder))
    }

    /// Completes the files, writes the manifest and returns it.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn finish(self, status: Status) -> Result<Manifest, WriteError> {
        let Results {
            folder,
            mut manifest,
            results,
            links,
            radios,
            table,
            runs,
            ..
        } = self;
        manifest.status = status;
        let table = table.finish().map_err(WriteError::at(&folder))?;
        manifest.files.push(table.finish()?);
        for writer in [results, links].into_iter().chain(radios) {
            let output = writer.into_inner().map_err(|error| WriteError {
                path: folder.clone(),
                error: io::Error::new(error.error().kind(), error.error().to_string()),
            })?;
            manifest.files.push(output.finish()?);
        }
        // The journal is replaced only by a file that is on the disk.
        let mut runs = runs.finish_on_disk()?;
        let path = folder.join(stored::RUNS);
        std::fs::rename(folder.join(RUNS_IN_ORDER), &path).map_err(WriteError::at(&path))?;
        stored::RUNS.clone_into(&mut runs.path);
        manifest.files.push(runs);
        manifest.files.sort();
        manifest.cut.sort();
        write_manifest(&folder, &manifest)?;
        Ok(manifest)
    }

    fn write_manifest(&self) -> Result<(), WriteError> {
        write_manifest(&self.folder, &self.manifest)
    }
}

/// Writes the manifest to a temporary file first, so that there is always a complete one.
fn write_manifest(folder: &Path, manifest: &Manifest) -> Result<(), WriteError> {
    let path = folder.join(MANIFEST);
    let beside = folder.join(".manifest.json.new");
    let mut text = serde_json::to_string_pretty(manifest).expect("a manifest is plain data with text keys");
    text.push('\n');
    std::fs::File::create(&beside)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&beside, &path))
        .map_err(WriteError::at(&path))
}

/// Returns the files that the scenario names, with digests.
///
/// # Errors
/// Returns an error if a file cannot be read.
pub fn inputs(scenario: &Scenario) -> Result<Vec<Input>, WriteError> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for point in &scenario.points {
        for link in &point.config.link {
            paths.extend(
                link.directions()
                    .into_iter()
                    .filter_map(|direction| direction.trace.map(|trace| trace.file)),
            );
        }
        let mobility = point.config.node.iter().filter_map(|node| node.mobility.as_ref());
        paths.extend(mobility.filter_map(|mobility| mobility.file().cloned()));
        paths.extend(point.config.flow.iter().filter_map(|flow| flow.traffic.file.clone()));
    }
    paths.sort();
    paths.dedup();
    let input = |path: PathBuf| {
        let sha256 = digest_of(&path).map_err(WriteError::at(&path))?;
        Ok(Input { path, sha256 })
    };
    paths.into_iter().map(input).collect()
}

fn csv_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
