//! Reports of results: what `run --out`, `study run --out` and `demo` wrote, and recordings of live transfers, as one HTML file without
//! anything to load, and as static figures.
//!
//! [`Report::read`] reads a folder, [`Report::html`] makes the page. The page is the bundle of `web/` with the data as JSON and
//! columns of numbers in Base64 (`columns.rs`).

mod columns;
mod error;
mod events;
mod line;
mod live;
mod matching;
mod network;
mod page;
mod plot;
mod recorded;
mod recording;
mod results;
mod series;
mod study;
mod table;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use whimbrel_lab::metrics;

use self::columns::Blobs;
pub use self::error::ReportError;
pub use self::plot::{Format, Plot, PlotOptions};
use self::recording::Recording;
use self::results::Results;
use self::study::Claims;

/// A file by which a folder of results is known.
const MANIFEST: &str = "manifest.json";

/// A folder of results, read.
#[derive(Debug)]
pub struct Report {
    folder: PathBuf,
    study: Option<Claims>,
    /// Each with its folder.
    results: Vec<(PathBuf, Results)>,
    /// Of live transfers.
    recordings: Vec<Recording>,
}

impl Report {
    /// Reads a folder that `run --out` or `demo` wrote, the folder of a study that `study run --out` wrote or that the project keeps, a folder
    /// that `--record` wrote during a live transfer, or a folder with several of these.
    ///
    /// # Errors
    /// It holds no results, or a file in it cannot be read.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let study = Claims::read(folder)?;
        let (mut results, mut recordings) = (Vec::new(), Vec::new());
        if folder.join(MANIFEST).is_file() {
            results.push((folder.to_owned(), Results::read(folder, String::new())?));
        } else if let Some(recording) = Recording::of(folder) {
            recordings.push(recording);
        } else {
            for inner in folders(folder) {
                if inner.join(MANIFEST).is_file() {
                    let name = inner.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    results.push((inner.clone(), Results::read(&inner, name)?));
                } else {
                    recordings.extend(Recording::of(&inner));
                }
            }
        }
        // Beside results they could not be chosen in the page.
        if study.is_some() || !results.is_empty() {
            recordings.clear();
        }
        if study.is_none() && results.is_empty() && recordings.is_empty() {
            return Err(ReportError::NoResults(folder.to_owned()));
        }
        Ok(Report {
            folder: folder.to_owned(),
            study,
            results,
            recordings,
        })
    }

    /// What it is called.
    pub fn title(&self) -> String {
        match (&self.study, self.results.first(), self.recordings.first()) {
            (Some(study), ..) => study.title.clone(),
            (None, Some((_, results)), _) => results.title(),
            (None, None, Some(recording)) if self.recordings.len() == 1 => format!("Live transfer {}", recording.name),
            (None, None, Some(_)) => "Live transfers".to_owned(),
            (None, None, None) => self.folder.display().to_string(),
        }
    }

    /// The page. It opens from disk, in a browser of 2023 or later.
    ///
    /// # Errors
    /// A file that a run recorded cannot be read.
    pub fn html(&self) -> Result<String, ReportError> {
        let mut blobs = Blobs::default();
        let data = self.data(&mut blobs)?;
        Ok(page::page(&self.title(), &data, &blobs))
    }

    /// The static figures: usual metrics over the sweep, series and TSNs of recorded runs, figures of claims.
    ///
    /// # Errors
    /// A metric or a swept field that there is not, or a file that a run recorded cannot be read.
    pub fn plots(&self, options: &PlotOptions) -> Result<Vec<Plot>, ReportError> {
        plot::plots(self.study.as_ref(), &self.results, &self.recordings, options)
    }

    fn data(&self, blobs: &mut Blobs) -> Result<Value, ReportError> {
        let mut scenarios = Vec::new();
        for (folder, results) in &self.results {
            let mut scenario = results.json(blobs);
            let (recorded, left_out) = recorded::recorded(folder, results, blobs)?;
            scenario["recorded"] = json!(recorded);
            scenario["left_out"] = json!(left_out);
            scenarios.push(scenario);
        }
        let (mut recordings, mut left_out) = (Vec::new(), Vec::new());
        for recording in &self.recordings {
            if blobs.bytes() > recorded::MOST_BYTES {
                left_out.push(&recording.name);
            } else {
                recordings.push(recording.json(blobs)?);
            }
        }
        let metrics: Vec<_> = metrics()
            .map(|metric| json!({ "name": metric.name, "label": metric.label, "doc": metric.doc, "quiet": metric.quiet }))
            .collect();
        Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "title": self.title(),
            "metrics": metrics,
            "study": self.study,
            "scenarios": scenarios,
            "recordings": recordings,
            "left_out": left_out,
        }))
    }
}

/// The folders below another, in the order of their names.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}
