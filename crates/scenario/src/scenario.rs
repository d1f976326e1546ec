//! Reads a scenario file and checks its points.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whimbrel_sim::Resources;
use whimbrel_sim::config::SimConfig;

use crate::change::{Axis, Change, axes};
use crate::check::{check, check_values, located};
use crate::de::{Reading, in_order, read};
use crate::group;
use crate::problem::{LineIndex, Problem, ScenarioError};
use crate::tree::{Entry, Node, Place, Value, parse};

/// Maximum number of points; more are probably a mistake.
const MOST_POINTS: usize = 100_000;

/// Maximum size of a scenario file; a device may be endless.
const MOST_BYTES: u64 = 16 << 20;

/// Keys of a scenario that the simulator does not have.
pub(crate) const OWN_KEYS: [&str; 6] = ["title", "description", "seed", "seeds", "record", "sweep"];

/// A checked scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file and the changes to it.
    pub source: Source,
    /// The scenario's title.
    pub title: String,
    /// The scenario's description.
    pub description: String,
    /// The first seed. Run k of a point has seed `seed + k`, so all points use the same random numbers.
    pub seed: u64,
    /// Number of runs per point.
    pub seeds: u32,
    /// Which runs write series, events and packets.
    pub record: Record,
    /// Fields that the sweep changes, in the order of the file.
    pub axes: Vec<String>,
    /// For each axis whose values replace a table: the axis, and the fields of the table that are lost.
    pub(crate) replaced: Vec<(String, Vec<String>)>,
    /// For each axis of schemes: the axis, and the parts that are set for all of them.
    pub(crate) overruled: Vec<(String, Vec<String>)>,
    /// The scenario with fixed sweep values: one point without a sweep, otherwise the product of the axes, last axis fastest.
    pub points: Vec<Point>,
}

/// The source of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file, as named by the user.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// Changes by `--set`, as given.
    pub changes: Vec<String>,
}

/// A scenario with fixed sweep values.
#[derive(Clone, Debug)]
pub struct Point {
    /// The value of each axis.
    pub params: Vec<(String, serde_json::Value)>,
    /// The simulation; paths of files are complete.
    pub config: SimConfig,
    /// The contents of its files, shared by points with the same files.
    pub resources: Arc<Resources>,
}

/// Which runs write additional files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Record {
    /// Time series: cwnd, ssthresh, flight, RTT, goodput, queue length.
    pub series: Recorded,
    /// Events as JSON lines.
    pub events: Recorded,
    /// Packets as a capture.
    pub packets: Recorded,
    /// Maximum size in bytes of an event file or a capture of a run, 4096 or more. Further events and packets are not written.
    #[schemars(range(min = 4096))]
    pub limit_bytes: u64,
}

/// Runs that write a kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Recorded {
    /// No run.
    None,
    /// One run: the first seed of the first point.
    #[default]
    First,
    /// The first seed of each point.
    FirstSeed,
    /// Every run.
    All,
}

impl Default for Record {
    /// Series of the first seed of each point; events and packets of one run, files of at most 256 MiB.
    fn default() -> Self {
        Record {
            series: Recorded::FirstSeed,
            events: Recorded::First,
            packets: Recorded::First,
            limit_bytes: 256 << 20,
        }
    }
}

impl Recorded {
    /// Returns whether this selection includes the run of this point with this number among its seeds.
    pub fn includes(self, point: usize, number: u32) -> bool {
        match self {
            Recorded::None => false,
            Recorded::First => point == 0 && number == 0,
            Recorded::FirstSeed => number == 0,
            Recorded::All => true,
        }
    }
}

/// The head of a scenario file: all keys except the network, its flows, its measurement and the sweep.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Head {
    /// Title of the scenario. Default: the name of the file.
    pub(crate) title: Option<String>,
    /// Description of the scenario.
    pub(crate) description: String,
    /// The first seed. Run k of each point has seed `seed + k`. Default: 1.
    #[schemars(range(max = 9_223_372_036_854_775_807_u64))]
    pub(crate) seed: Option<u64>,
    /// Runs of each point, 1 to 1 000 000. Default: 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) seeds: Option<u32>,
    /// Which runs write additional files.
    pub(crate) record: Record,
}

impl Scenario {
    /// Reads and checks the scenario at `path`, with `key=value` changes by dotted path.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or all problems in it.
    pub fn load(path: &Path, changes: &[String]) -> Result<Scenario, ScenarioError> {
        let unreadable = |reason: String| ScenarioError::Unreadable {
            path: path.to_owned(),
            reason,
        };
        let mut bytes = Vec::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| unreadable(reason(&error)))?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(unreadable(format!("it is larger than {} MiB", MOST_BYTES >> 20)));
        }
        let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))?;
        Scenario::from_text(path, &text, changes)
    }

    /// Checks the scenario in `text`. `path` is its name; relative paths in it start at the folder of `path`.
    ///
    /// # Errors
    /// Returns all problems in it.
    pub fn from_text(path: &Path, text: &str, changes: &[String]) -> Result<Scenario, ScenarioError> {
        let lines = LineIndex::new(path, text);
        build(&lines, changes).map_err(ScenarioError::Invalid)
    }

    /// Returns warnings about values that are allowed but probably unintended: links that a flow does not use, fields that a sweep
    /// replaces, and parts that are the same for all schemes of a sweep.
    pub fn warnings(&self) -> Vec<String> {
        crate::warning::warnings(self)
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.points.len() * self.seeds as usize
    }
}

/// Returns the operating system's error without its number.
pub(crate) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        _ => error.to_string().to_lowercase(),
    }
}

fn build(lines: &LineIndex, changes: &[String]) -> Result<Scenario, Vec<Problem>> {
    let mut root = parse(lines)?;
    let mut problems = Vec::new();
    let mut fixed = Vec::new();
    for argument in changes {
        let change = Change::from_argument(argument, lines);
        match change.and_then(|change| change.apply(&mut root, lines).map(|()| change)) {
            Ok(change) => fixed.push(change.steps()),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let sweep = root.take("sweep");
    let mut head_tree = Node {
        value: Value::Table(Vec::new()),
        place: Place::File(0..0),
    };
    if let Value::Table(entries) = &mut head_tree.value {
        entries.extend(OWN_KEYS.iter().filter_map(|key| root.take(key)).map(Arc::new));
    }
    let head = read_head(&mut head_tree, lines)
        .map_err(|found| problems.extend(found))
        .ok();
    let mut axes = sweep_axes(sweep.as_ref(), lines)
        .map_err(|found| problems.extend(found))
        .unwrap_or_default();
    // A field changed by `--set` has that value at every point, and so have the fields in it.
    axes.retain(|axis| !fixed.iter().any(|set| axis.steps().starts_with(set)));
    let by_axis = |fields: fn(&Axis, &Node) -> Vec<String>| {
        let found = axes.iter().map(|axis| (axis.path.clone(), fields(axis, &root)));
        found.filter(|(_, fields)| !fields.is_empty()).collect()
    };
    let (replaced, overruled) = (by_axis(Axis::replaced), by_axis(Axis::overruled));
    let points = points(&root, &axes, lines).map_err(|found| problems.extend(found)).ok();
    let (Some(head), Some(points), true) = (head, points, problems.is_empty()) else {
        return Err(problems);
    };
    let name = lines
        .path()
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    Ok(Scenario {
        source: Source {
            path: lines.path().to_owned(),
            text: lines.text().to_owned(),
            changes: changes.to_vec(),
        },
        title: head.title.unwrap_or(name),
        description: head.description,
        seed: head.seed.unwrap_or(1),
        seeds: head.seeds.unwrap_or(1),
        record: head.record,
        axes: axes.into_iter().map(|axis| axis.path).collect(),
        replaced,
        overruled,
        points,
    })
}

fn read_head(tree: &mut Node, lines: &LineIndex) -> Result<Head, Vec<Problem>> {
    let whole = tree.clone();
    let head: Head = read(tree, lines, &OWN_KEYS).whole()?;
    let mut problems = Vec::new();
    let mut check = |fine: bool, trail: &[&str], given: u64, allowed: &str| {
        if !fine {
            let steps: Vec<_> = trail.iter().map(|&key| key.into()).collect();
            problems.push(Problem {
                origin: whole.nearest_place(&steps).origin(lines),
                field: trail.join("."),
                message: format!("{given} given, allowed is {allowed}"),
                hint: None,
            });
        }
    };
    let seeds = head.seeds.unwrap_or(1);
    check(
        (1..=1_000_000).contains(&seeds),
        &["seeds"],
        seeds.into(),
        "1 to 1000000 runs",
    );
    let limit = head.record.limit_bytes;
    check(limit >= 4096, &["record", "limit_bytes"], limit, "4096 bytes or more");
    if problems.is_empty() { Ok(head) } else { Err(problems) }
}

fn sweep_axes(sweep: Option<&Entry>, lines: &LineIndex) -> Result<Vec<Axis>, Vec<Problem>> {
    let Some(sweep) = sweep else { return Ok(Vec::new()) };
    let axes = axes(sweep, lines)?;
    let place = || sweep.key_place.origin(lines);
    let mut problems = Vec::new();
    for axis in &axes {
        let first = axis.path.split('.').next().unwrap_or_default();
        if OWN_KEYS.contains(&first) {
            problems.push(Problem {
                origin: axis
                    .values
                    .first()
                    .map_or_else(place, |value| value.place.origin(lines)),
                field: format!("sweep.{}", axis.path),
                message: format!("`{first}` cannot be swept: it is the same for all points"),
                hint: None,
            });
        }
    }
    let count = axes
        .iter()
        .try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()));
    if count.is_none_or(|count| count > MOST_POINTS) {
        problems.push(Problem {
            origin: place(),
            field: "sweep".to_owned(),
            message: format!("the axes give more than {MOST_POINTS} points"),
            hint: None,
        });
    }
    if problems.is_empty() { Ok(axes) } else { Err(problems) }
}

/// Returns the product of the axes, last axis fastest; each point is read and checked.
fn points(root: &Node, axes: &[Axis], lines: &LineIndex) -> Result<Vec<Point>, Vec<Problem>> {
    let count = axes.iter().map(|axis| axis.values.len()).product();
    let mut points = Vec::with_capacity(count);
    let mut problems: Vec<Problem> = Vec::new();
    for index in 0..count {
        let mut tree = root.clone();
        let mut params = Vec::with_capacity(axes.len());
        let mut rest = index;
        let mut wrong = Vec::new();
        for axis in axes.iter().rev() {
            let value = axis.values[rest % axis.values.len()].clone();
            rest /= axis.values.len();
            params.push((axis.path.clone(), json(&value)));
            wrong.extend(
                Change {
                    path: axis.path.clone(),
                    value,
                }
                .apply(&mut tree, lines)
                .err(),
            );
        }
        params.reverse();
        let groups = group::write_out(&mut tree, lines);
        let point = if wrong.is_empty() {
            read_point(&tree, groups, lines)
        } else {
            Err(wrong)
        };
        let before = points.last().map(|point: &Point| &point.resources);
        let point = point.and_then(|config| Ok((read_files(&config, before, &tree, lines)?, config)));
        match point {
            Ok((resources, config)) => points.push(Point {
                params,
                config,
                resources,
            }),
            Err(found) => {
                for problem in found {
                    let same = |known: &Problem| (&known.field, &known.message) == (&problem.field, &problem.message);
                    if !problems.iter().any(same) {
                        problems.push(problem);
                    }
                }
            }
        }
    }
    if problems.is_empty() { Ok(points) } else { Err(problems) }
}

fn read_point(whole: &Node, mut problems: Vec<(usize, Problem)>, lines: &LineIndex) -> Result<SimConfig, Vec<Problem>> {
    let Reading { value, problems: found } = read::<SimConfig>(&mut whole.clone(), lines, &OWN_KEYS);
    problems.extend(found);
    match value {
        Some(mut config) if problems.is_empty() => {
            check(&mut config, whole, lines)?;
            Ok(config)
        }
        Some(config) => {
            problems.extend(check_values(&config, whole, lines));
            Err(in_order(problems))
        }
        None => Err(in_order(problems)),
    }
}

/// Reads the files that a point names, unless the previous point names the same ones, and checks what it uses of them.
fn read_files(
    config: &SimConfig,
    before: Option<&Arc<Resources>>,
    tree: &Node,
    lines: &LineIndex,
) -> Result<Arc<Resources>, Vec<Problem>> {
    let traces = config
        .link
        .iter()
        .flat_map(|link| link.directions())
        .filter_map(|direction| direction.trace);
    let files = config.flow.iter().filter_map(|flow| flow.traffic.file.as_ref());
    let movements = config.node.iter().filter_map(|node| node.mobility.as_ref()?.file());
    let known = |known: &&Arc<Resources>| {
        movements.clone().all(|file| known.movements.contains_key(file))
            && traces.clone().all(|trace| known.traces.contains_key(&trace.file))
            && files.clone().all(|file| known.files.contains_key(file))
    };
    let resources = match before.filter(known) {
        Some(same) => same.check(config).map(|()| Arc::clone(same)),
        None => Resources::load(config, Path::new("")).map(Arc::new),
    };
    resources.map_err(|error| vec![located(error, tree, lines).1])
}

/// Returns the value as JSON, for reports.
fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Boolean(yes) => (*yes).into(),
        Value::Integer(n) => (*n).into(),
        Value::Float(x) => (*x).into(),
        Value::Text(text) => text.clone().into(),
        Value::Array(items) => items.iter().map(json).collect(),
        Value::Table(entries) => serde_json::Value::Object(
            entries
                .iter()
                .map(|entry| (entry.key.clone(), json(&entry.node)))
                .collect(),
        ),
        Value::Removed => serde_json::Value::Null,
    }
}
