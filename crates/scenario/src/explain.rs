//! The resolved scenario: with all defaults and all changes.

use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};
use whimbrel_sim::config::{FlowConfig, FlowKind, SimConfig};

use crate::check::without_flows;
use crate::scenario::{Record, Scenario};
use crate::visible::visible_toml;

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
        let escaped = visible_toml(&text);
        if toml::from_str(&escaped).is_ok_and(|read: toml::Value| read == value) {
            text = escaped;
        }
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
                text.push_str(&visible_toml(&format!("# {number}: {}\n", params.join(", "))));
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
    config.flow.iter_mut().for_each(fill_in_flow);
}

fn fill_in_flow(flow: &mut FlowConfig) {
    match flow.kind {
        FlowKind::Sctp if flow.with.is_some() => {}
        FlowKind::Sctp => flow.sctp = Some(flow.sender_association()),
        FlowKind::Tcp => flow.tcp = Some(flow.tcp_parameters()),
        FlowKind::Udp => {}
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
        hasher.update(format!(
            "\n{}\n",
            serde_json::Value::from_iter(point.params.iter().cloned())
        ));
        write_config(&point.config, folder, &mut |text| hasher.update(text));
    }
    hex(&hasher.finalize())
}

/// Writes a point as JSON with all defaults, with sorted keys. Flows are written one at a time: the values of 65,536 are large.
fn write_config(config: &SimConfig, folder: &Path, write: &mut dyn FnMut(&str)) {
    const PLAIN: &str = "a scenario is plain data with text keys";
    let mut rest = without_flows(config);
    relative(&mut rest, folder);
    fill_in(&mut rest);
    let rest = serde_json::to_value(&rest).expect(PLAIN);
    // Keys of a JSON value are sorted.
    for (place, (key, value)) in rest.as_object().into_iter().flatten().enumerate() {
        write(if place == 0 { "{" } else { "," });
        write(&format!("{}:", serde_json::Value::from(key.as_str())));
        if key != "flow" {
            write(&value.to_string());
            continue;
        }
        write("[");
        for (place, flow) in config.flow.iter().enumerate() {
            let mut flow = flow.clone();
            flow.traffic.file.iter_mut().for_each(|file| strip(file, folder));
            fill_in_flow(&mut flow);
            let comma = if place == 0 { "" } else { "," };
            write(&format!("{comma}{}", serde_json::to_value(&flow).expect(PLAIN)));
        }
        write("]");
    }
    write("}");
}

/// Removes the scenario's folder from a path.
fn strip(file: &mut PathBuf, folder: &Path) {
    if let Ok(rest) = file.strip_prefix(folder) {
        *file = rest.to_owned();
    }
}

/// Removes the scenario's folder from the paths.
fn relative(config: &mut SimConfig, folder: &Path) {
    let strip = |file: &mut PathBuf| strip(file, folder);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_written_as_its_json_value() {
        let text = include_str!("../../../examples/tcp-beside-sctp.toml");
        let scenario = Scenario::from_text(Path::new("t.toml"), text, &[]).expect("an example");
        let config = &scenario.points[0].config;
        let mut whole = config.clone();
        fill_in(&mut whole);
        let mut written = String::new();
        write_config(config, Path::new(""), &mut |text| written.push_str(text));
        assert!(
            written.matches("\"kind\":\"tcp\"").count() >= 1 && config.flow.len() > 1,
            "{written}"
        );
        assert_eq!(written, serde_json::to_value(&whole).expect("plain data").to_string());
    }
}
