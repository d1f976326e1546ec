//! The resolved scenario: with all defaults and all changes.

use std::path::Path;

use serde::Serialize;
use sha2::{Digest, Sha256};
use whimbrel_sim::config::{FlowKind, SimConfig};

use crate::scenario::{Record, Scenario};

/// A scenario with all defaults, as TOML that can be run again.
#[derive(Clone, Debug, Serialize)]
pub struct Resolved<'s> {
    title: &'s str,
    description: &'s str,
    seed: u64,
    seeds: u32,
    #[serde(flatten)]
    config: SimConfig,
    record: Record,
}

impl<'s> Resolved<'s> {
    /// Returns the scenario at its first point.
    pub fn of(scenario: &'s Scenario) -> Option<Self> {
        let mut config = scenario.points.first()?.config.clone();
        fill_in(&mut config);
        relative(&mut config, scenario.source.path.parent().unwrap_or(Path::new("")));
        Some(Resolved {
            title: &scenario.title,
            description: &scenario.description,
            seed: scenario.seed,
            seeds: scenario.seeds,
            config,
            record: scenario.record,
        })
    }

    /// Returns the text, with the points of a sweep as comments.
    pub fn to_toml(&self, scenario: &Scenario) -> String {
        // Converted to a JSON value first, so that plain values precede tables as TOML requires.
        let value = toml::Value::try_from(self).expect("a scenario is plain data with text keys");
        let mut text = toml::to_string(&value).expect("a TOML value can be written as TOML");
        if !scenario.axes.is_empty() {
            text.push_str(&format!(
                "\n# The values above are those of the first of {} points:\n",
                scenario.points.len()
            ));
            for (number, point) in scenario.points.iter().enumerate() {
                let params: Vec<_> = point
                    .params
                    .iter()
                    .map(|(path, value)| format!("{path} = {value}"))
                    .collect();
                text.push_str(&format!("# {number}: {}\n", params.join(", ")));
            }
        }
        text
    }
}

/// Sets absent fields to their defaults.
fn fill_in(config: &mut SimConfig) {
    for link in &mut config.link {
        link.name = Some(link.display_name());
    }
    for radio in &mut config.radio {
        radio.name = Some(radio.display_name());
    }
    for flow in config.flow.iter_mut().filter(|flow| flow.kind == FlowKind::Sctp) {
        flow.sctp = Some(flow.sender_association());
    }
    for flow in config.flow.iter_mut().filter(|flow| flow.kind == FlowKind::Tcp) {
        flow.tcp = Some(flow.tcp_parameters());
    }
}

/// Returns the SHA-256, in hexadecimal, of everything that determines the results: every point's network, the seeds and what is
/// recorded. Comments, order of keys, notation of units, the title and the scenario's folder have no influence.
pub fn hash(scenario: &Scenario) -> String {
    let folder = scenario.source.path.parent().unwrap_or(Path::new(""));
    let mut hasher = Sha256::new();
    hasher.update(b"whimbrel scenario 1\n");
    hasher.update(format!("{} {}\n", scenario.seed, scenario.seeds));
    hasher.update(serde_json::to_string(&scenario.record).expect("plain data"));
    for point in &scenario.points {
        let mut config = point.config.clone();
        relative(&mut config, folder);
        fill_in(&mut config);
        let value = serde_json::to_value(&config).expect("a scenario is plain data with text keys");
        // Keys of a JSON value are sorted.
        hasher.update(format!(
            "\n{}\n{value}",
            serde_json::Value::from_iter(point.params.iter().cloned())
        ));
    }
    hex(&hasher.finalize())
}

/// Removes the scenario's folder from the paths.
fn relative(config: &mut SimConfig, folder: &Path) {
    let strip = |file: &mut std::path::PathBuf| {
        if let Ok(rest) = file.strip_prefix(folder) {
            *file = rest.to_owned();
        }
    };
    for link in &mut config.link {
        let forward = link.forward.as_mut().and_then(|direction| direction.trace.as_mut());
        let reverse = link.reverse.as_mut().and_then(|direction| direction.trace.as_mut());
        [link.trace.as_mut(), forward, reverse]
            .into_iter()
            .flatten()
            .for_each(|trace| strip(&mut trace.file));
    }
    config
        .node
        .iter_mut()
        .filter_map(|node| node.mobility.as_mut()?.file_mut())
        .for_each(strip);
    config
        .flow
        .iter_mut()
        .filter_map(|flow| flow.traffic.file.as_mut())
        .for_each(strip);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
