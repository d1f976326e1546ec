//! The claims of a study: what `study run --out` left in `study.json`, or what the study's folder keeps in `results.json`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use whimbrel_lab::json_problem;

use crate::error::ReportError;

/// Files that hold claims with their outcomes.
const FILES: [&str; 2] = ["study.json", "results.json"];

/// A study and what came out.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Claims {
    pub(crate) study: String,
    pub(crate) title: String,
    pub(crate) source: String,
    pub(crate) description: String,
    pub(crate) whimbrel: String,
    pub(crate) command: String,
    pub(crate) claims: Vec<Claim>,
    pub(crate) figures: Vec<Drawn>,
}

/// A figure of the paper that was measured here.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Drawn {
    pub(crate) id: String,
    pub(crate) points: Vec<Point>,
}

/// A claim and what came out.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Claim {
    pub(crate) id: String,
    pub(crate) claim: String,
    pub(crate) paper: Value,
    pub(crate) text: String,
    pub(crate) verdict: String,
    pub(crate) note: String,
    pub(crate) metric: Option<String>,
    pub(crate) of: Option<String>,
    pub(crate) over: Option<String>,
    pub(crate) points: Vec<Point>,
}

/// A figure at a point, and the paper's if it is known.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Point {
    pub(crate) at: Vec<(String, Value)>,
    pub(crate) mean: f64,
    #[serde(default)]
    pub(crate) ci95: Option<f64>,
    #[serde(default)]
    pub(crate) paper: Option<f64>,
}

impl Claims {
    /// Reads the claims in a folder; none if it holds no claims.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, ReportError> {
        let Some(path) = FILES.iter().map(|name| folder.join(name)).find(|path| path.is_file()) else {
            return Ok(None);
        };
        let error = ReportError::at(&path);
        let text = std::fs::read_to_string(&path).map_err(|e| error(&e))?;
        let mut claims: Claims = serde_json::from_str(&text).map_err(|e| error(&json_problem(&e)))?;
        if claims.title.is_empty() {
            claims.title.clone_from(&claims.study);
        }
        Ok(Some(claims))
    }
}
