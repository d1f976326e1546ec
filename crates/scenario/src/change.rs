//! Changes to a scenario by dotted path: `--set link.wifi.rate="2 Mbit/s"` and the axes of `[sweep]`.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::problem::{LineIndex, Problem, word_hint};
use crate::scheme::SLOTS;
use crate::short::{write_out, written_out};
use crate::tree::{Entry, Node, Place, Value, parse_argument};

/// A field and its new value.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The field, as in `link.wifi.loss.rate`.
    pub(crate) path: String,
    pub(crate) value: Node,
}

impl Change {
    /// Parses `key=value` as given to `--set`.
    pub(crate) fn from_argument(argument: &str, lines: &LineIndex) -> Result<Self, Problem> {
        let shown: Arc<str> = format!("--set {argument}").into();
        match argument.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() => Ok(Change {
                path: path.trim().to_owned(),
                value: parse_argument(value.trim(), &shown),
            }),
            _ => Err(Problem {
                origin: Place::Argument(shown).origin(lines),
                field: String::new(),
                message: "expected KEY=VALUE".to_owned(),
                hint: Some("for example --set link.wifi.loss.rate=0.01".to_owned()),
            }),
        }
    }

    /// Returns the steps of the path.
    pub(crate) fn steps(&self) -> Vec<String> {
        split(&self.path)
    }

    /// Sets the value at the path. Adds keys that the file does not have; whether they exist in a scenario is checked when the tree
    /// is read.
    pub(crate) fn apply(&self, root: &mut Node, lines: &LineIndex) -> Result<(), Problem> {
        let problem = |message: String, hint: Option<String>| Problem {
            origin: self.value.place.origin(lines),
            field: self.path.clone(),
            message,
            hint,
        };
        let mut node = root;
        let segments = split(&self.path);
        let Some((last, way)) = segments.split_last() else {
            return Err(problem("expected a path such as link.wifi.rate".to_owned(), None));
        };
        for (depth, segment) in way.iter().enumerate() {
            let so_far = segments[..depth].join(".");
            node = match descend(node, segment, &self.value.place) {
                Ok(next) => next,
                Err(known) => {
                    let within = if so_far.is_empty() {
                        "the scenario".to_owned()
                    } else {
                        format!("`{so_far}`")
                    };
                    return Err(problem(
                        format!("there is no `{segment}` in {within}"),
                        word_hint(segment, &known, "names"),
                    ));
                }
            };
            write_out(field(&segments[..=depth]), node);
        }
        match &mut node.value {
            Value::Table(entries) => match entries.iter_mut().find(|entry| entry.key == *last) {
                Some(entry) => Arc::make_mut(entry).node = self.value.clone(),
                None => entries.push(Arc::new(Entry {
                    key: last.clone(),
                    key_place: self.value.place.clone(),
                    node: self.value.clone(),
                })),
            },
            Value::Array(items) => {
                let names: Vec<_> = items.iter().filter_map(Node::name).collect();
                let index = names.iter().position(|name| name == last).or_else(|| last.parse().ok());
                match index.and_then(|index| items.get_mut(index)) {
                    Some(item) => *item = self.value.clone(),
                    None => {
                        let within = way.join(".");
                        return Err(problem(
                            format!("there is no `{last}` in `{within}`"),
                            word_hint(last, &names, "names"),
                        ));
                    }
                }
            }
            _ => {
                return Err(problem(
                    format!("`{}` is {node} and has no field `{last}`", way.join(".")),
                    None,
                ));
            }
        }
        Ok(())
    }
}

/// Returns the steps of a dotted path; quoted steps may contain dots.
fn split(path: &str) -> Vec<String> {
    let mut segments = vec![String::new()];
    let mut quoted = false;
    for c in path.chars() {
        match (c, segments.last_mut()) {
            ('"', _) => quoted = !quoted,
            ('.', _) if !quoted => segments.push(String::new()),
            (c, Some(segment)) => segment.push(c),
            (_, None) => {}
        }
    }
    segments
}

/// Returns the field that a path leads to: its last step that is not the number of a member of a list.
fn field(steps: &[String]) -> &str {
    let is_number = |step: &&String| step.bytes().all(|byte| byte.is_ascii_digit());
    steps
        .iter()
        .rev()
        .find(|step| !is_number(step))
        .map_or("", String::as_str)
}

/// Returns the member for one step; otherwise the names that exist.
fn descend<'t>(node: &'t mut Node, segment: &str, place: &Place) -> Result<&'t mut Node, Vec<String>> {
    match &mut node.value {
        Value::Table(entries) => {
            let at = match entries.iter().position(|entry| entry.key == segment) {
                Some(at) => at,
                None => {
                    entries.push(Arc::new(Entry {
                        key: segment.to_owned(),
                        key_place: place.clone(),
                        node: Node {
                            value: Value::Table(Vec::new()),
                            place: place.clone(),
                        },
                    }));
                    entries.len() - 1
                }
            };
            Ok(&mut Arc::make_mut(&mut entries[at]).node)
        }
        Value::Array(items) => {
            let names: Vec<_> = items.iter().filter_map(Node::name).collect();
            // Members without a name are counted from 0; a single member needs no number (`link.wifi.loss.rate`).
            let index = items
                .iter()
                .position(|item| item.name().as_deref() == Some(segment))
                .or_else(|| segment.parse().ok().filter(|&index: &usize| index < items.len()));
            match index {
                Some(index) => Ok(&mut items[index]),
                None => Err(names),
            }
        }
        _ => Err(Vec::new()),
    }
}

/// An axis of a sweep: a field and its values.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) path: String,
    pub(crate) values: Vec<Node>,
}

impl Axis {
    /// Returns the steps of the path.
    pub(crate) fn steps(&self) -> Vec<String> {
        split(&self.path)
    }

    /// Returns the fields that are set at this place, and that a value of the axis lacks: a value replaces the whole table.
    pub(crate) fn replaced(&self, root: &Node) -> Vec<String> {
        let steps = self.steps();
        let lacks = |value: &Node, key: &str| written_out(field(&steps), value).get(key).is_none();
        let is_lost = |key: &String| *key != "kind" && self.values.iter().any(|value| lacks(value, key));
        fields_at(root, &steps).into_iter().filter(is_lost).collect()
    }

    /// Returns the parts of schemes that are set beside this field, if it is `scheme`: a part that is set replaces that of every scheme.
    pub(crate) fn overruled(&self, root: &Node) -> Vec<String> {
        match self.steps().as_slice() {
            [table @ .., last] if last == "scheme" => {
                let is_part = |key: &String| SLOTS.contains(&key.as_str());
                fields_at(root, table).into_iter().filter(is_part).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the keys of the table at this place; none if there is no such table.
fn fields_at(root: &Node, steps: &[String]) -> Vec<String> {
    // `descend` adds missing tables.
    let mut root = root.clone();
    let mut node = &mut root;
    for step in steps {
        match descend(node, step, &Place::File(0..0)) {
            Ok(next) => node = next,
            Err(_) => return Vec::new(),
        }
    }
    let entries = node.table().unwrap_or_default().iter();
    entries.map(|entry| entry.key.clone()).collect()
}

/// Returns the axes under `[sweep]`, in the order of the file.
pub(crate) fn axes(sweep: &Entry, lines: &LineIndex) -> Result<Vec<Axis>, Vec<Problem>> {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    collect(&sweep.node, String::new(), lines, &mut found, &mut problems);
    found.sort_by_key(|axis: &(usize, Axis)| axis.0);
    if problems.is_empty() {
        Ok(found.into_iter().map(|(_, axis)| axis).collect())
    } else {
        Err(problems)
    }
}

fn collect(node: &Node, path: String, lines: &LineIndex, axes: &mut Vec<(usize, Axis)>, problems: &mut Vec<Problem>) {
    let mut wrong = |message: &str, hint: &str| {
        problems.push(Problem {
            origin: node.place.origin(lines),
            field: if path.is_empty() {
                "sweep".to_owned()
            } else {
                format!("sweep.{path}")
            },
            message: message.to_owned(),
            hint: Some(hint.to_owned()),
        });
    };
    match &node.value {
        Value::Table(entries) => {
            for entry in entries {
                let inner = if path.is_empty() {
                    entry.key.clone()
                } else {
                    format!("{path}.{}", entry.key)
                };
                collect(&entry.node, inner, lines, axes, problems);
            }
        }
        Value::Array(values) if path.is_empty() || values.is_empty() => {
            wrong(
                "a sweep needs at least one value",
                "\"link.wifi.loss.rate\" = [0, 0.01]",
            );
        }
        Value::Array(values) => match repeated(values, field(&split(&path))) {
            Some(value) => wrong(
                &format!("the value {value} is listed more than once"),
                "`seeds` repeats a point with other random numbers",
            ),
            None => axes.push((
                node.place.offset(),
                Axis {
                    path,
                    values: values.clone(),
                },
            )),
        },
        _ => wrong("an array of values expected", "\"link.wifi.loss.rate\" = [0, 0.01]"),
    }
}

/// Returns a value that equals an earlier one; 1 and 1.0 are equal, and so are a table of `field` and its short form.
fn repeated<'v>(values: &'v [Node], field: &str) -> Option<&'v Node> {
    let text = |node: &Node| match node.value {
        Value::Integer(whole) if (whole as f64) as i64 == whole => {
            let whole = Node {
                value: Value::Float(whole as f64),
                place: node.place.clone(),
            };
            written_out(field, &whole).to_string()
        }
        _ => written_out(field, node).to_string(),
    };
    let mut earlier = BTreeSet::new();
    values.iter().find(|value| !earlier.insert(text(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn tree(text: &str) -> (Node, LineIndex) {
        let lines = LineIndex::new(Path::new("t.toml"), text);
        (crate::tree::parse(&lines).expect("valid"), lines)
    }

    fn set(text: &str, argument: &str) -> Result<String, String> {
        let (mut root, lines) = tree(text);
        let change = Change::from_argument(argument, &lines).map_err(|p| p.to_string())?;
        change.apply(&mut root, &lines).map_err(|p| p.to_string())?;
        Ok(root.to_string())
    }

    const LINKS: &str = "[[link]]\nname = \"wifi\"\nrate = 1\n[[link]]\nbetween = [\"a\", \"b\"]\n";

    #[test]
    fn finds_members_of_arrays_by_name_or_number() {
        assert!(
            set(LINKS, "link.wifi.rate=2 Mbit/s")
                .expect("set")
                .contains("rate = \"2 Mbit/s\"")
        );
        assert!(set(LINKS, "link.a-b.rate=3").expect("set").contains("rate = 3"));
        assert!(set(LINKS, "link.1.rate=3").expect("set").contains("rate = 3"));
        assert!(
            set(LINKS, "measure.from=1")
                .expect("set")
                .contains("measure = { from = 1 }")
        );
    }

    #[test]
    fn suggests_names_for_unknown_paths() {
        let error = set(LINKS, "link.wfi.rate=1").expect_err("no such link");
        assert_eq!(
            error,
            "--set link.wfi.rate=1: link.wfi.rate: there is no `wfi` in `link`\n  \
             hint: did you mean `wifi`?"
        );
        let error = set(LINKS, "link.wifi.rate.x=1").expect_err("a number has no fields");
        assert!(error.contains("has no field"), "{error}");
        assert!(set(LINKS, "nothing").expect_err("no value").contains("KEY=VALUE"));
    }

    #[test]
    fn values_of_an_axis_differ() {
        let problems = |list: &str| {
            let (mut root, lines) = tree(&format!("[sweep]\nlink.wifi.x = [{list}]\n"));
            let found = axes(&root.take("sweep").expect("there"), &lines);
            found.err().map(|problems| problems[0].to_string())
        };
        let error = problems("0, 0.01, 0.0").expect("0 and 0.0 are equal");
        assert!(error.contains("t.toml:2:"), "{error}");
        assert!(
            error.contains("sweep.link.wifi.x: the value 0.0 is listed more than once"),
            "{error}"
        );
        assert!(problems("\"a\", \"b\", \"a\"").is_some());
        assert!(problems("{ kind = \"a\" }, { kind = \"a\" }").is_some());
        assert_eq!(problems("0, 0.01, \"0\", 9007199254740993, 9007199254740992"), None);
    }

    #[test]
    fn axes_are_in_the_order_of_the_file() {
        let (mut root, lines) = tree("[sweep]\n\"z.b\" = [1, 2]\na.c = [3]\n");
        let axes = axes(&root.take("sweep").expect("there"), &lines).expect("valid");
        assert_eq!(
            axes.iter().map(|axis| axis.path.as_str()).collect::<Vec<_>>(),
            ["z.b", "a.c"]
        );
    }
}
