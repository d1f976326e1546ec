//! Contents of the files that a scenario names, read before the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::config::{ConfigError, MobilityConfig, SimConfig};
use crate::link::CapacityTrace;
use crate::radio::Movements;
use crate::text_file;

/// Recorded rates, movements and files to send, by their paths in the scenario. Shared by all runs.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// Recorded rates.
    pub traces: BTreeMap<PathBuf, Arc<CapacityTrace>>,
    /// Movements of nodes.
    pub movements: BTreeMap<PathBuf, Arc<Movements>>,
    /// Files to send.
    pub files: BTreeMap<PathBuf, Bytes>,
}

impl Resources {
    /// Reads all files that the scenario names. Relative paths start at `folder`.
    ///
    /// # Errors
    /// Returns an error for the first file that cannot be read or is not valid.
    pub fn load(config: &SimConfig, folder: &Path) -> Result<Self, ConfigError> {
        let mut resources = Resources::default();
        for (l, link) in config.link.iter().enumerate() {
            for (direction, name) in link.directions().into_iter().zip(["forward", "reverse"]) {
                let Some(trace) = direction.trace else { continue };
                if resources.traces.contains_key(&trace.file) {
                    continue;
                }
                let own = match name {
                    "forward" => link.forward.as_ref(),
                    _ => link.reverse.as_ref(),
                };
                let place = if own.is_some_and(|d| d.trace.is_some()) {
                    format!("{name}.")
                } else {
                    String::new()
                };
                let path = format!("link[{l}].{place}trace.file");
                let allowed = "a file with a time in milliseconds on each line";
                let parse = |text: &str| CapacityTrace::parse(text).map_err(|error| error.to_string());
                let parsed = parsed(path, &trace.file, folder, allowed, parse)?;
                resources.traces.insert(trace.file, parsed);
            }
        }
        for (n, node) in config.node.iter().enumerate() {
            let Some(file) = node.mobility.as_ref().and_then(MobilityConfig::file) else {
                continue;
            };
            if resources.movements.contains_key(file) {
                continue;
            }
            let path = format!("node[{n}].mobility.file");
            let allowed = "a movement script for ns-2, or waypoints of BonnMotion";
            let parse = |text: &str| Movements::parse(text).map_err(|error| error.to_string());
            let parsed = parsed(path, file, folder, allowed, parse)?;
            resources.movements.insert(file.clone(), parsed);
        }
        for (f, flow) in config.flow.iter().enumerate() {
            let Some(file) = &flow.traffic.file else { continue };
            if !resources.files.contains_key(file) {
                let path = format!("flow[{f}].traffic.file");
                let place = folder.join(file);
                let content = std::fs::read(&place).map_err(|error| {
                    ConfigError::new(path, file.display(), "a file that can be read")
                        .hint(format!("{}: {error}", place.display()))
                })?;
                resources.files.insert(file.clone(), Bytes::from(content));
            }
        }
        resources.check(config)?;
        Ok(resources)
    }

    /// Checks that every file that a scenario names was read and has what the scenario uses of it.
    ///
    /// # Errors
    /// Returns an error for the first one that is not there, or lacks something.
    pub fn check(&self, config: &SimConfig) -> Result<(), ConfigError> {
        const READ: &str = "a file that was read";
        for (l, link) in config.link.iter().enumerate() {
            let traces = link.directions().into_iter().filter_map(|direction| direction.trace);
            for trace in traces {
                if !self.traces.contains_key(&trace.file) {
                    let path = format!("link[{l}].trace.file");
                    return Err(ConfigError::new(path, trace.file.display(), READ));
                }
            }
        }
        for (n, node) in config.node.iter().enumerate() {
            let Some(MobilityConfig::File { file, node }) = &node.mobility else {
                continue;
            };
            let place = |field: &str| format!("node[{n}].mobility.{field}");
            let Some(movements) = self.movements.get(file) else {
                return Err(ConfigError::new(place("file"), file.display(), READ));
            };
            if !movements.has(*node) {
                let allowed = format!("one of the {} nodes of {}", movements.len(), file.display());
                return Err(ConfigError::new(place("node"), node, allowed));
            }
        }
        for (f, flow) in config.flow.iter().enumerate() {
            let Some(file) = &flow.traffic.file else { continue };
            if self.files.get(file).is_none_or(Bytes::is_empty) {
                let path = format!("flow[{f}].traffic.file");
                return Err(ConfigError::new(path, file.display(), "a file of 1 byte or more"));
            }
        }
        Ok(())
    }
}

/// Returns the parsed text of the file at the field `path`.
fn parsed<T>(
    path: String,
    file: &Path,
    folder: &Path,
    allowed: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Arc<T>, ConfigError> {
    let place = folder.join(file);
    let parsed = text_file::read(&place).and_then(|text| parse(&text));
    parsed.map(Arc::new).map_err(|reason| {
        ConfigError::new(path, file.display(), allowed).hint(format!("{}: {reason}", place.display()))
    })
}
