//! Reports of results: what `run --out`, `study run --out` and `demo` wrote, as one HTML file without anything to load, and as static
//! figures.
//!
//! [`Report::read`] reads a folder, [`Report::html`] makes the page. The page is the bundle of `web/` with the data as JSON and
//! columns of numbers in Base64 (`columns.rs`).

mod columns;
mod error;
mod events;
mod matching;
mod network;
mod page;
mod plot;
mod recorded;
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
}

impl Report {
    /// Reads a folder that `run --out` or `demo` wrote, or the folder of a study that `study run --out` wrote or that the project keeps.
    ///
    /// # Errors
    /// It holds no results, or a file in it cannot be read.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let study = Claims::read(folder)?;
        let mut results = Vec::new();
        if folder.join(MANIFEST).is_file() {
            results.push((folder.to_owned(), Results::read(folder, String::new())?));
        } else {
            for inner in folders(folder) {
                let name = inner.file_name().unwrap_or_default().to_string_lossy().into_owned();
                results.push((inner.clone(), Results::read(&inner, name)?));
            }
        }
        if study.is_none() && results.is_empty() {
            return Err(ReportError::NoResults(folder.to_owned()));
        }
        Ok(Report {
            folder: folder.to_owned(),
            study,
            results,
        })
    }

    /// What it is called.
    pub fn title(&self) -> String {
        match (&self.study, self.results.first()) {
            (Some(study), _) => study.title.clone(),
            (None, Some((_, results))) => results.title(),
            (None, None) => self.folder.display().to_string(),
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
        plot::plots(self.study.as_ref(), &self.results, options)
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
        let metrics: Vec<_> = metrics()
            .map(|metric| json!({ "name": metric.name, "label": metric.label, "doc": metric.doc, "quiet": metric.quiet }))
            .collect();
        Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "title": self.title(),
            "metrics": metrics,
            "study": self.study,
            "scenarios": scenarios,
        }))
    }
}

/// The folders of scenarios below that of a study, in the order of their names.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join(MANIFEST).is_file())
        .collect();
    found.sort();
    found
}
