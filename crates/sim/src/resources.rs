//! Contents of the files that a scenario names, read before the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::config::{ConfigError, MobilityConfig, SimConfig};
use crate::link::CapacityTrace;
use crate::radio::Movements;

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
                let text = read(&path, &trace.file, folder)?;
                let parsed = CapacityTrace::parse(&String::from_utf8_lossy(&text)).map_err(|error| {
                    ConfigError::new(
                        path,
                        trace.file.display(),
                        "a file with a time in milliseconds on each line",
                    )
                    .hint(error.to_string())
                })?;
                resources.traces.insert(trace.file, Arc::new(parsed));
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
            let text = read(&path, file, folder)?;
            let parsed = Movements::parse(&String::from_utf8_lossy(&text)).map_err(|error| {
                ConfigError::new(
                    path,
                    file.display(),
                    "a movement script for ns-2, or waypoints of BonnMotion",
                )
                .hint(error.to_string())
            })?;
            resources.movements.insert(file.clone(), Arc::new(parsed));
        }
        for (f, flow) in config.flow.iter().enumerate() {
            let Some(file) = &flow.traffic.file else { continue };
            if !resources.files.contains_key(file) {
                let path = format!("flow[{f}].traffic.file");
                let content = read(&path, file, folder)?;
                if content.is_empty() {
                    return Err(ConfigError::new(path, file.display(), "a file of 1 byte or more"));
                }
                resources.files.insert(file.clone(), Bytes::from(content));
            }
        }
        Ok(resources)
    }
}

fn read(path: &str, file: &Path, folder: &Path) -> Result<Vec<u8>, ConfigError> {
    let place = folder.join(file);
    std::fs::read(&place).map_err(|error| {
        ConfigError::new(path, file.display(), "a file that can be read").hint(format!("{}: {error}", place.display()))
    })
}
