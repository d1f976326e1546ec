//! A parsed scenario file in which every key and value has its origin.
//!
//! `--set` and sweep axes change this tree; then it is deserialized into the typed scenario. Errors at any later stage can still
//! name the line.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use crate::problem::{LineIndex, Origin, Problem};

/// Origin of a node: bytes of the file, or an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    File(Range<usize>),
    Argument(Arc<str>),
}

impl Place {
    pub(crate) fn origin(&self, lines: &LineIndex) -> Origin {
        match self {
            Place::File(span) => lines.origin(span.start),
            Place::Argument(argument) => Origin::Argument(argument.to_string()),
        }
    }

    /// Returns the offset by which problems are sorted; arguments come last.
    pub(crate) fn offset(&self) -> usize {
        match self {
            Place::File(span) => span.start,
            Place::Argument(_) => usize::MAX,
        }
    }
}

/// A value and its origin.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) place: Place,
}

/// A TOML value. `Removed` replaces a value that has been reported as faulty.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    Array(Vec<Node>),
    Table(Entries),
    Removed,
}

/// The entries of a table. Copies share them until they differ: a group of 65,536 flows has its common fields once.
pub(crate) type Entries = Vec<Arc<Entry>>;

/// A key of a table with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) node: Node,
}

/// A step from a table or an array to one of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Step::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Step::Index(index)
    }
}

/// Parses a whole file. Reports all syntax errors that the parser can distinguish.
pub(crate) fn parse(lines: &LineIndex) -> Result<Node, Vec<Problem>> {
    let (table, errors) = DeTable::parse_recoverable(lines.text());
    if !errors.is_empty() {
        let problem = |error: &toml::de::Error| Problem {
            origin: lines.origin(error.span().map_or(0, |span| span.start)),
            field: String::new(),
            message: format!("not valid TOML: {}", error.message().replace('\n', ", ")),
            hint: None,
        };
        let mut problems: Vec<_> = errors.iter().map(problem).collect();
        problems.dedup();
        return Err(problems);
    }
    let span = table.span();
    let value = from_table(table.into_inner()).map_err(|bad| vec![bad.into_problem(lines)])?;
    Ok(Node {
        value,
        place: Place::File(span),
    })
}

/// Parses the text of a `--set` value: as TOML if possible, otherwise as plain text, so that `rate=2 Mbit/s` needs no quotes.
pub(crate) fn parse_argument(text: &str, argument: &Arc<str>) -> Node {
    let parsed = DeValue::parse(text)
        .ok()
        .and_then(|value| from_value(value.into_inner(), 0..0).ok());
    let mut node = parsed.unwrap_or_else(|| Node {
        value: Value::Text(text.to_owned()),
        place: Place::Argument(Arc::clone(argument)),
    });
    node.set_place(&Place::Argument(Arc::clone(argument)));
    node
}

/// A TOML value that scenarios do not use.
struct Unsupported {
    span: Range<usize>,
    message: String,
}

impl Unsupported {
    fn into_problem(self, lines: &LineIndex) -> Problem {
        Problem {
            origin: lines.origin(self.span.start),
            field: String::new(),
            message: self.message,
            hint: None,
        }
    }
}

fn from_table(table: DeTable<'_>) -> Result<Value, Unsupported> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        let span = value.span();
        entries.push(Arc::new(Entry {
            key_place: Place::File(key.span()),
            key: key.into_inner().into_owned(),
            node: from_value(value.into_inner(), span)?,
        }));
    }
    Ok(Value::Table(entries))
}

fn from_value(value: DeValue<'_>, span: Range<usize>) -> Result<Node, Unsupported> {
    let value = match value {
        DeValue::Boolean(yes) => Value::Boolean(yes),
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(integer) => {
            let parsed = i64::from_str_radix(integer.as_str(), integer.radix());
            Value::Integer(parsed.map_err(|_| Unsupported {
                span: span.clone(),
                message: format!("{integer} is out of range: integers lie between -2^63 and 2^63 - 1"),
            })?)
        }
        DeValue::Float(float) => Value::Float(float.as_str().parse().map_err(|_| Unsupported {
            span: span.clone(),
            message: format!("`{}` is not a number", float.as_str()),
        })?),
        DeValue::Datetime(date) => {
            return Err(Unsupported {
                span,
                message: format!("`{date}` is a date; scenarios have no dates"),
            });
        }
        DeValue::Array(array) => Value::Array(
            array
                .into_iter()
                .map(|item| {
                    let span = item.span();
                    from_value(item.into_inner(), span)
                })
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => from_table(table)?,
    };
    Ok(Node {
        value,
        place: Place::File(span),
    })
}

impl Node {
    pub(crate) fn table(&self) -> Option<&[Arc<Entry>]> {
        match &self.value {
            Value::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the value of `key`, if this is a table with this key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.table()?
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.node)
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns whether this is a number, a text or a switch.
    pub(crate) fn is_plain(&self) -> bool {
        !matches!(self.value, Value::Array(_) | Value::Table(_) | Value::Removed)
    }

    /// Returns the name of a member of an array: its `name`, or the names of its two nodes, or of its node and its channel.
    pub(crate) fn name(&self) -> Option<String> {
        if let Some(name) = self.get("name") {
            return name.text().map(str::to_owned);
        }
        if let (Some(node), Some(channel)) = (self.get("node"), self.get("channel")) {
            return Some(format!("{}-{}", node.text()?, channel.text()?));
        }
        match &self.get("between")?.value {
            Value::Array(ends) => match ends.as_slice() {
                [a, b] => Some(format!("{}-{}", a.text()?, b.text()?)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Removes a key from a table.
    pub(crate) fn take(&mut self, key: &str) -> Option<Entry> {
        match &mut self.value {
            Value::Table(entries) => entries
                .iter()
                .position(|entry| entry.key == key)
                .map(|at| Arc::unwrap_or_clone(entries.remove(at))),
            _ => None,
        }
    }

    pub(crate) fn step(&self, step: &Step) -> Option<&Node> {
        match (&self.value, step) {
            (Value::Table(_), Step::Key(key)) => self.get(key),
            (Value::Array(items), Step::Index(index)) => items.get(*index),
            _ => None,
        }
    }

    pub(crate) fn step_mut(&mut self, step: &Step) -> Option<&mut Node> {
        match (&mut self.value, step) {
            (Value::Table(entries), Step::Key(key)) => entries
                .iter_mut()
                .find(|entry| entry.key == *key)
                .map(|entry| &mut Arc::make_mut(entry).node),
            (Value::Array(items), Step::Index(index)) => items.get_mut(*index),
            _ => None,
        }
    }

    pub(crate) fn at(&self, trail: &[Step]) -> Option<&Node> {
        trail.iter().try_fold(self, |node, step| node.step(step))
    }

    pub(crate) fn at_mut(&mut self, trail: &[Step]) -> Option<&mut Node> {
        trail.iter().try_fold(self, |node, step| node.step_mut(step))
    }

    /// Returns the place of the deepest node that exists along `trail`.
    pub(crate) fn nearest_place(&self, trail: &[Step]) -> &Place {
        let mut node = self;
        for step in trail {
            match node.step(step) {
                Some(next) => node = next,
                None => break,
            }
        }
        &node.place
    }

    /// Returns the trail as the user would write it: members of arrays by name if they have one.
    pub(crate) fn dotted(&self, trail: &[Step]) -> String {
        let mut text = String::new();
        let mut node = Some(self);
        for step in trail {
            let next = node.and_then(|node| node.step(step));
            match step {
                Step::Key(key) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(key);
                }
                Step::Index(index) => match next.and_then(Node::name) {
                    Some(name) => {
                        text.push('.');
                        text.push_str(&name);
                    }
                    None => text.push_str(&format!("[{index}]")),
                },
            }
            node = next;
        }
        text
    }

    fn set_place(&mut self, place: &Place) {
        self.place = place.clone();
        match &mut self.value {
            Value::Array(items) => items.iter_mut().for_each(|item| item.set_place(place)),
            Value::Table(entries) => {
                for entry in entries.iter_mut().map(Arc::make_mut) {
                    entry.key_place = place.clone();
                    entry.node.set_place(place);
                }
            }
            _ => {}
        }
    }
}

impl fmt::Display for Node {
    /// Returns the value in TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Boolean(yes) => write!(f, "{yes}"),
            Value::Integer(n) => write!(f, "{n}"),
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(Node::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Value::Table(entries) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|entry| format!("{} = {}", entry.key, entry.node))
                    .collect();
                write!(f, "{{ {} }}", entries.join(", "))
            }
            Value::Removed => f.write_str("(removed)"),
        }
    }
}
