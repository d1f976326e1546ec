//! Checks beyond types: ranges, names, routes, files. The simulator's checks find the errors; the tree has their places.

use std::path::{Path, PathBuf};

use whimbrel_sim::config::{ChannelConfig, ConfigError, FlowConfig, LinkConfig, SimConfig};

use crate::de::in_order;
use crate::problem::{LineIndex, Problem};
use crate::scenario::reason;
use crate::tree::{Node, Step, Value};

/// Problems with their places in the file.
type Found = Vec<(usize, Problem)>;

/// Checks a point and completes its file paths.
pub(crate) fn check(config: &mut SimConfig, tree: &Node, lines: &LineIndex) -> Result<(), Vec<Problem>> {
    let mut found = Found::new();
    let mut report = |error: ConfigError| push(&mut found, located(error, tree, lines));
    let (errors, good) = values(config);
    errors.into_iter().for_each(&mut report);
    // Checks of the whole: names, routes. Flows with reported errors are omitted to find further errors.
    let mut numbers = good;
    let mut rest = (numbers.len() < config.flow.len()).then(|| with_flows(config, &numbers));
    while let Err(mut error) = rest.as_ref().unwrap_or(&*config).validate() {
        let Some([Step::Key(key), Step::Index(index)]) = steps(&error.path).first_chunk::<2>().cloned() else {
            report(error);
            break;
        };
        if key != "flow" || index >= numbers.len() {
            report(error);
            break;
        }
        let number = numbers[index];
        // Members of a group share their table: one error is reported, and the others are skipped.
        let table = |number: usize| tree.nearest_place(&["flow".into(), number.into()]).offset();
        let faulty = table(number);
        numbers.retain(|&number| table(number) != faulty);
        rest = Some(with_flows(config, &numbers));
        error.path = error
            .path
            .replacen(&format!("flow[{index}]"), &format!("flow[{number}]"), 1);
        report(error);
    }
    for error in complete_paths(config, lines.path().parent().unwrap_or(Path::new(""))) {
        report(error);
    }
    if found.is_empty() { Ok(()) } else { Err(in_order(found)) }
}

/// Returns the point with only the flows of these numbers.
fn with_flows(config: &SimConfig, numbers: &[usize]) -> SimConfig {
    SimConfig {
        flow: numbers.iter().map(|&number| config.flow[number].clone()).collect(),
        ..without_flows(config)
    }
}

/// Returns a copy of a point without its flows.
pub(crate) fn without_flows(config: &SimConfig) -> SimConfig {
    SimConfig {
        node: config.node.clone(),
        link: config.link.clone(),
        channel: config.channel.clone(),
        radio: config.radio.clone(),
        flow: Vec::new(),
        duration: config.duration,
        measure: config.measure.clone(),
        carriage: config.carriage,
    }
}

/// Checks the single values of a point from which faulty entries have been removed. Values that seem to be missing may be among
/// those.
pub(crate) fn check_values(config: &SimConfig, tree: &Node, lines: &LineIndex) -> Found {
    let mut found = Found::new();
    let given = values(config).0.into_iter().filter(|error| error.value != "nothing");
    given.for_each(|error| push(&mut found, located(error, tree, lines)));
    found
}

/// Returns the errors of single values, link by link and flow by flow, and the indices of the flows without errors.
fn values(config: &SimConfig) -> (Vec<ConfigError>, Vec<usize>) {
    let (mut errors, mut good) = (Vec::new(), Vec::new());
    let mut report = |found: Vec<ConfigError>, place: String| {
        errors.extend(found.into_iter().map(|error| error.within(&place)));
    };
    for (i, channel) in config.channel.iter().enumerate() {
        report(all_wrong(channel, ChannelConfig::validate), format!("channel[{i}]"));
    }
    for (i, link) in config.link.iter().enumerate() {
        report(all_wrong(link, LinkConfig::validate), format!("link[{i}]"));
    }
    for (i, flow) in config.flow.iter().enumerate() {
        let found = all_wrong(flow, |flow| association(flow).map_or_else(|| flow.validate(), Err));
        if found.is_empty() {
            good.push(i);
        }
        report(found, format!("flow[{i}]"));
    }
    (errors, good)
}

/// Maximum number of values in a table that are checked after the first error.
const MOST_WRONG: usize = 40;

/// Returns all errors of a table. Its check stops at the first error: that value is reset to its default, and the rest is checked
/// again.
fn all_wrong<T>(table: &T, validate: impl Fn(&T) -> Result<(), ConfigError>) -> Vec<ConfigError>
where
    T: Clone + serde::Serialize + serde::de::DeserializeOwned,
{
    let mut found: Vec<ConfigError> = Vec::new();
    let mut rest = table.clone();
    while let Err(error) = validate(&rest) {
        // Missing or repeated values may follow from the reset.
        let again = found.iter().any(|known| known.path == error.path);
        if !found.is_empty() && (again || error.value == "nothing") || found.len() >= MOST_WRONG {
            break;
        }
        let trail = steps(&error.path);
        let is_fine = |table: &T| validate(table).err().is_none_or(|other| other.path != error.path);
        let value = serde_json::to_value(&rest).unwrap_or_default();
        let next = FINE
            .iter()
            .filter_map(|fine| serde_json::from_value(set_back(value.clone(), &trail, fine)?).ok())
            .find(is_fine);
        found.push(error);
        match next {
            Some(table) => rest = table,
            None => break,
        }
    }
    found
}

/// Replacements for a faulty value, in JSON: its default, or the first of these that is valid.
const FINE: [&str; 7] = ["", "0.01", "1", "100", "1500", "\"1 s\"", "\"1 Mbit/s\""];

/// Returns a table with the value at these steps replaced, or without it if there is no replacement; none if there is no such
/// value.
fn set_back(mut table: serde_json::Value, steps: &[Step], fine: &str) -> Option<serde_json::Value> {
    let (last, way) = steps.split_last()?;
    let mut place = &mut table;
    for step in way {
        place = match step {
            Step::Key(key) => place.get_mut(key.as_str())?,
            Step::Index(index) if place.is_array() => place.get_mut(index)?,
            // A single item is a list of one.
            Step::Index(_) => place,
        };
    }
    let value = serde_json::from_str(fine).ok();
    match (last, place) {
        (Step::Key(key), serde_json::Value::Object(table)) => {
            table.get(key.as_str())?;
            match value {
                Some(value) => table.insert(key.clone(), value),
                None => table.remove(key.as_str()),
            };
        }
        (Step::Index(index), place) => *place.get_mut(index)? = value?,
        _ => return None,
    }
    Some(table)
}

fn push(found: &mut Found, (offset, problem): (usize, Problem)) {
    // Members of a group share their table's line, even if the value differs by member, such as a staggered start.
    let same = |known: &Problem| (&known.origin, known.allowed()) == (&problem.origin, problem.allowed());
    if !found.iter().any(|(_, known)| same(known)) {
        found.push((offset, problem));
    }
}

/// Returns the simulator's error as a problem with its place in the file.
pub(crate) fn located(error: ConfigError, tree: &Node, lines: &LineIndex) -> (usize, Problem) {
    let mut trail = steps(&error.path);
    // A field of a table in its short form has the place of the short form.
    let written = (0..trail.len()).find(|&depth| tree.at(&trail[..depth]).is_some_and(Node::is_plain));
    trail.truncate(written.unwrap_or(trail.len()));
    let place = tree.nearest_place(&trail);
    let value = match tree.at(&trail) {
        Some(node) if written.is_some() || node.text().is_some() => node.to_string(),
        // Avoids numbers of three hundred digits.
        Some(Node {
            value: Value::Float(x), ..
        }) if x.is_finite() && x.abs() >= 1e9 => format!("{x:e}"),
        _ => error.value,
    };
    let problem = Problem {
        origin: place.origin(lines),
        field: tree.dotted(&trail),
        message: format!("{value} given, allowed is {}", error.allowed),
        hint: error.hint,
    };
    (place.offset(), problem)
}

/// Returns the error in the parameters of a flow's ends. The protocol names the field, which is under `receiver` if it is
/// overridden there.
fn association(flow: &FlowConfig) -> Option<ConfigError> {
    let sender = flow.sender_association().validate().err();
    let (table, error) = match sender {
        Some(error) => ("sctp", error),
        None => ("receiver", flow.receiver_association().ok()?.validate().err()?),
    };
    let allowed = error
        .hint
        .trim_start_matches("allowed are ")
        .trim_start_matches("allowed is ");
    Some(ConfigError::new(
        format!("{table}.{}", error.field),
        error.value,
        allowed,
    ))
}

/// Makes relative paths start at the scenario's folder. Returns the errors of the files.
fn complete_paths(config: &mut SimConfig, folder: &Path) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    let mut complete = |field: String, file: &mut PathBuf, what: &str| {
        let given = file.display().to_string();
        *file = folder.join(&*file);
        let metadata = std::fs::metadata(&*file);
        let problem = match &metadata {
            Ok(metadata) if metadata.is_dir() => Some("it is a folder".to_owned()),
            // Devices and pipes may be endless or block.
            Ok(metadata) if !metadata.is_file() => Some("it is not a regular file".to_owned()),
            Ok(_) => std::fs::File::open(&*file).err().map(|error| reason(&error)),
            Err(error) => Some(reason(error)),
        };
        if let Some(problem) = problem {
            errors.push(
                ConfigError::new(field, format!("{given:?}"), what).hint(format!("{}: {problem}", file.display())),
            );
        }
    };
    for (i, link) in config.link.iter_mut().enumerate() {
        let forward = link.forward.as_mut().and_then(|direction| direction.trace.as_mut());
        let reverse = link.reverse.as_mut().and_then(|direction| direction.trace.as_mut());
        for (place, trace) in [("", link.trace.as_mut()), ("forward.", forward), ("reverse.", reverse)] {
            if let Some(trace) = trace {
                let field = format!("link[{i}].{place}trace.file");
                complete(field, &mut trace.file, "a trace file that can be read");
            }
        }
    }
    for (i, node) in config.node.iter_mut().enumerate() {
        if let Some(file) = node.mobility.as_mut().and_then(|mobility| mobility.file_mut()) {
            complete(
                format!("node[{i}].mobility.file"),
                file,
                "a file of movements that can be read",
            );
        }
    }
    for (i, flow) in config.flow.iter_mut().enumerate() {
        if let Some(file) = &mut flow.traffic.file {
            complete(format!("flow[{i}].traffic.file"), file, "a file that can be read");
        }
    }
    errors
}

/// Returns the steps of a path such as `link[2].loss[0].rate`.
pub(crate) fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (key, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
        if !key.is_empty() {
            steps.push(Step::from(key));
        }
        let numbers = indices.split(['[', ']']).filter_map(|text| text.parse::<usize>().ok());
        steps.extend(numbers.map(Step::from));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_into_keys_and_indices() {
        assert_eq!(
            steps("link[2].loss[0].rate"),
            [
                Step::from("link"),
                Step::from(2),
                Step::from("loss"),
                Step::from(0),
                Step::from("rate")
            ]
        );
        assert_eq!(steps(""), []);
    }
}
