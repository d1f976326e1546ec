//! Deserializes typed values from a [`Node`] tree and reports all problems, not only the first.
//!
//! serde stops at the first error. The faulty entry is then removed from the tree and deserialization starts again, until it
//! succeeds or only follow-up errors remain.

use std::fmt;
use std::sync::Arc;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};

use crate::group;
use crate::problem::{LineIndex, Origin, Problem, word_hint};
use crate::tree::{Entry, Node, Place, Step, Value};

/// Maximum number of reported problems: more probably have a common cause.
const MOST_PROBLEMS: usize = 25;

/// A deserialized value and the problems found.
#[derive(Debug)]
pub(crate) struct Reading<T> {
    /// The value; if there are problems, the value without the faulty entries.
    pub(crate) value: Option<T>,
    /// All problems, with their places in the file.
    pub(crate) problems: Vec<(usize, Problem)>,
}

impl<T> Reading<T> {
    /// Returns the value if there are no problems.
    pub(crate) fn whole(self) -> Result<T, Vec<Problem>> {
        match self {
            Reading {
                value: Some(value),
                problems,
            } if problems.is_empty() => Ok(value),
            Reading { problems, .. } => Err(in_order(problems)),
        }
    }
}

/// Sorts problems by their place in the file.
pub(crate) fn in_order(mut problems: Vec<(usize, Problem)>) -> Vec<Problem> {
    problems.sort_by_key(|(offset, _)| *offset);
    problems.into_iter().map(|(_, problem)| problem).collect()
}

/// Deserializes a `T`. Faulty entries are removed from the tree. `more` are top-level keys that were removed before, for hints.
pub(crate) fn read<T: DeserializeOwned>(root: &mut Node, lines: &LineIndex, more: &[&str]) -> Reading<T> {
    let whole = root.clone();
    let mut problems: Vec<(usize, Problem)> = Vec::new();
    let mut removed: Vec<Vec<Step>> = Vec::new();
    let value = loop {
        let error = match T::deserialize(NodeDeserializer(root)) {
            Ok(value) => break Some(value),
            Err(error) => error,
        };
        let (trail, kind) = error.locate(root);
        let follow_up = match &kind {
            Kind::Missing(name) => removed.iter().any(|gone| {
                gone.len() == trail.len() + 1
                    && gone.starts_with(&trail)
                    && gone.last() == Some(&Step::Key(name.clone()))
            }),
            // A table of one unknown word, which was removed.
            Kind::NoWord { .. } => removed
                .iter()
                .any(|gone| gone.len() == trail.len() + 1 && gone.starts_with(&trail)),
            // An array without the member that was removed.
            Kind::WrongLength { .. } => removed
                .iter()
                .any(|gone| gone.starts_with(&trail) && matches!(gone.last(), Some(Step::Index(_)))),
            _ => false,
        };
        if !follow_up {
            let place = place_of(&whole, &trail, &kind);
            let problem = kind.problem(&whole, &trail, place.origin(lines), more);
            // Members of a group share their table's line: a problem of all of them is reported once.
            let same = |known: &Problem| (&known.origin, &known.message) == (&problem.origin, &problem.message);
            if !problems.iter().any(|(_, known)| same(known)) {
                problems.push((place.offset(), problem));
            }
        }
        if trail.is_empty() || problems.len() >= MOST_PROBLEMS || !take_out(root, &trail) {
            break None;
        }
        for other in in_other_members(root, &trail) {
            take_out(root, &other);
            removed.push(other);
        }
        removed.push(trail);
    };
    // A misspelt key is also missing under its correct name; that is not reported.
    let meant: Vec<_> = problems.iter().filter_map(|(_, problem)| problem.meant()).collect();
    problems.retain(|(_, problem)| !meant.contains(&(problem.field.clone(), problem.message.clone())));
    Reading { value, problems }
}

/// Returns the place of a problem: the key if the key is unknown, otherwise the value.
fn place_of<'t>(whole: &'t Node, trail: &[Step], kind: &Kind) -> &'t Place {
    if let (Kind::UnknownKey { .. }, Some((Step::Key(key), parent))) = (kind, trail.split_last()) {
        let entry = whole
            .at(parent)
            .and_then(Node::table)
            .and_then(|entries| entries.iter().find(|e| e.key == *key));
        if let Some(entry) = entry {
            return &entry.key_place;
        }
    }
    whole.nearest_place(trail)
}

/// Removes the node at `trail` from the tree. Members of arrays leave a gap, so that the others keep their indices.
fn take_out(root: &mut Node, trail: &[Step]) -> bool {
    let Some((last, parent)) = trail.split_last() else {
        return false;
    };
    match last {
        Step::Key(key) => root.at_mut(parent).is_some_and(|table| table.take(key).is_some()),
        Step::Index(_) => match root.at_mut(trail) {
            Some(Node {
                value: Value::Removed, ..
            })
            | None => false,
            Some(node) => {
                node.value = Value::Removed;
                true
            }
        },
    }
}

/// Returns the same place in the other members of the group: they share their table, and its problems.
fn in_other_members(root: &Node, trail: &[Step]) -> Vec<Vec<Step>> {
    let [array @ Step::Key(_), Step::Index(number), rest @ ..] = trail else {
        return Vec::new();
    };
    let Some(Value::Array(items)) = root.at(core::slice::from_ref(array)).map(|node| &node.value) else {
        return Vec::new();
    };
    let Some(table) = items.get(*number).map(|item| item.place.offset()) else {
        return Vec::new();
    };
    let others = items
        .iter()
        .enumerate()
        .filter(|(i, item)| i != number && item.place.offset() == table);
    let trails = others.map(|(i, _)| [&[array.clone(), Step::Index(i)], rest].concat());
    trails.collect()
}

/// The kind of a serde error.
#[derive(Debug)]
pub(crate) enum Kind {
    UnknownKey { given: String, known: Vec<String> },
    UnknownWord { given: String, known: Vec<String> },
    NoWord { given: String, known: Vec<String> },
    Missing(String),
    WrongType { given: String, expected: String },
    WrongLength { given: usize, expected: String },
    Other(String),
}

/// An error and its trail, innermost step first.
#[derive(Debug)]
pub(crate) struct Error {
    trail: Vec<Step>,
    kind: Kind,
}

impl Error {
    fn new(kind: Kind) -> Self {
        Error {
            trail: Vec::new(),
            kind,
        }
    }

    /// Creates the error for another value in place of a word.
    fn no_word(given: String, known: &[&str]) -> Self {
        Error::new(Kind::NoWord {
            given,
            known: owned(known),
        })
    }

    fn inside(mut self, step: Step) -> Self {
        self.trail.push(step);
        self
    }

    /// Returns the trail from the root. serde reads tagged enums through a buffer and loses the position in them; then the node
    /// that the error describes is searched for.
    fn locate(mut self, root: &Node) -> (Vec<Step>, Kind) {
        self.trail.reverse();
        let mut trail = self.trail;
        let here = root.at(&trail);
        match &self.kind {
            Kind::UnknownKey { given, .. } if trail.last() != Some(&Step::Key(given.clone())) => {
                if let Some(rest) = here.and_then(|node| find(node, &|entry| entry.key == *given)) {
                    trail.extend(rest);
                }
            }
            Kind::WrongType { given, .. } => {
                if let Some(rest) = here.and_then(|node| find(node, &|entry| unexpected(&entry.node) == *given)) {
                    trail.extend(rest);
                }
            }
            Kind::WrongLength { given, .. } => {
                let as_long = |entry: &Entry| matches!(&entry.node.value, Value::Array(items) if items.len() == *given);
                if let Some(rest) = here
                    .filter(|node| !matches!(node.value, Value::Array(_)))
                    .and_then(|node| find(node, &as_long))
                {
                    trail.extend(rest);
                }
            }
            Kind::UnknownWord { given, .. } => {
                if let Some(rest) = here.and_then(|node| find(node, &|entry| entry.node.text() == Some(given))) {
                    trail.extend(rest);
                }
            }
            Kind::Other(message) => {
                // Messages of our own units start with the value.
                let quoted = |entry: &Entry| match &entry.node.value {
                    Value::Text(text) => message.starts_with(&format!("\"{text}\"")),
                    Value::Integer(n) => message.starts_with(&format!("{n} ")),
                    Value::Float(x) => message.starts_with(&format!("{x} ")),
                    _ => false,
                };
                if let Some(rest) = here.and_then(|node| find(node, &quoted)) {
                    trail.extend(rest);
                }
            }
            Kind::UnknownKey { .. } | Kind::Missing(_) | Kind::NoWord { .. } => {}
        }
        (trail, self.kind)
    }
}

/// Returns the trail to the only entry below `node` that `wanted` accepts.
fn find(node: &Node, wanted: &dyn Fn(&Entry) -> bool) -> Option<Vec<Step>> {
    fn walk(node: &Node, trail: &mut Vec<Step>, wanted: &dyn Fn(&Entry) -> bool, found: &mut Vec<Vec<Step>>) {
        match &node.value {
            Value::Table(entries) => {
                for entry in entries {
                    trail.push(Step::Key(entry.key.clone()));
                    if wanted(entry) {
                        found.push(trail.clone());
                    }
                    walk(&entry.node, trail, wanted, found);
                    trail.pop();
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    trail.push(Step::Index(index));
                    walk(item, trail, wanted, found);
                    trail.pop();
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(node, &mut Vec::new(), wanted, &mut found);
    if found.len() == 1 { found.pop() } else { None }
}

impl Kind {
    fn problem(&self, root: &Node, trail: &[Step], origin: Origin, more: &[&str]) -> Problem {
        let (field, message, hint) = match self {
            Kind::UnknownKey { given, known } => {
                let table = trail.split_last().map_or(trail, |(_, parent)| parent);
                let mut known = known.clone();
                if table.is_empty() {
                    known.extend(more.iter().map(|&key| key.to_owned()));
                }
                if let [Step::Key(array), Step::Index(_)] = table {
                    known.extend(group::keys(array).iter().map(|&key| key.to_owned()));
                }
                (
                    root.dotted(table),
                    format!("unknown key `{given}`"),
                    word_hint(given, &known, "keys"),
                )
            }
            Kind::UnknownWord { given, known } => (
                root.dotted(trail),
                format!("unknown word `{given}`"),
                word_hint(given, known, "words"),
            ),
            Kind::Missing(name) => (root.dotted(trail), missing(name), None),
            Kind::NoWord { given, known } => (
                root.dotted(trail),
                format!("{given} given, a word expected"),
                word_hint("", known, "words"),
            ),
            Kind::WrongType { given, expected } => {
                // Tables with a short form add an example to what they expect.
                let (what, example) = expected
                    .split_once("; ")
                    .map_or((expected.as_str(), None), |(what, example)| (what, Some(example)));
                (
                    root.dotted(trail),
                    format!("{given} given, {} expected", plain(what)),
                    number_in_text(given, what).or_else(|| example.map(str::to_owned)),
                )
            }
            Kind::WrongLength { given, expected } => (
                root.dotted(trail),
                format!("an array of length {given} given, {} expected", of_length(expected)),
                None,
            ),
            Kind::Other(message) => (root.dotted(trail), message.clone(), None),
        };
        Problem {
            origin,
            field,
            message,
            hint,
        }
    }
}

/// Returns the hint for a number that is written as text: as a percentage, or in quotes.
fn number_in_text(given: &str, expected: &str) -> Option<String> {
    let is_rate = expected.starts_with("a rate from 0 to 1");
    if !matches!(expected, "f64" | "f32") && !is_rate {
        return None;
    }
    let text = given.strip_prefix("text \"")?.strip_suffix('"')?.trim();
    let Some(percent) = text.strip_suffix('%') else {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
        return (!is_rate || (0.0..=1.0).contains(&number)).then(|| format!("without quotes: {number}"));
    };
    let percent = percent.trim().parse::<f64>().ok()?;
    // Without the noise of a division: 0.07, not 0.07000000000000001.
    let fraction = format!("{:.12}", percent / 100.0);
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    (0.0..=100.0)
        .contains(&percent)
        .then(|| format!("{percent} % is written {fraction}"))
}

fn missing(key: &str) -> String {
    format!("`{key}` is missing")
}

impl Problem {
    /// Returns field and message of the problem that follows from this one, if this is a misspelt key.
    fn meant(&self) -> Option<(String, String)> {
        let key = self.hint.as_ref()?.strip_prefix("did you mean `")?.split_once('`')?.0;
        self.message
            .starts_with("unknown key")
            .then(|| (self.field.clone(), missing(key)))
    }
}

/// Returns a readable name for serde's name of a Rust type.
fn plain(expected: &str) -> &str {
    match expected {
        "f64" | "f32" => "a number",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "a string" | "path string" => "text in quotes",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        "unit" => "nothing",
        other => match other.split_once(' ') {
            Some(("struct" | "internally" | "enum", _)) => "a table",
            _ => other,
        },
    }
}

/// Returns the readable form of an expected length: serde's messages differ where it reads through a buffer.
fn of_length(expected: &str) -> String {
    expected.split_once(" element").map_or_else(
        || expected.to_owned(),
        |(number, _)| format!("an array of length {number}"),
    )
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Error::new(Kind::Other(message.to_string()))
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Error::new(Kind::WrongType {
            given: describe(unexpected),
            expected: expected.to_string(),
        })
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Error::new(Kind::WrongType {
            given: describe(unexpected),
            expected: expected.to_string(),
        })
    }

    fn invalid_length(given: usize, expected: &dyn Expected) -> Self {
        Error::new(Kind::WrongLength {
            given,
            expected: expected.to_string(),
        })
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Error::new(Kind::UnknownWord {
            given: variant.to_owned(),
            known: owned(expected),
        })
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Error::new(Kind::UnknownKey {
            given: field.to_owned(),
            known: owned(expected),
        })
    }

    fn missing_field(field: &'static str) -> Self {
        Error::new(Kind::Missing(field.to_owned()))
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn describe(unexpected: Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(yes) => format!("boolean {yes}"),
        Unexpected::Unsigned(n) => format!("number {n}"),
        Unexpected::Signed(n) => format!("number {n}"),
        Unexpected::Float(x) => format!("number {x:?}"),
        Unexpected::Str(text) => format!("text {text:?}"),
        Unexpected::Map => "a table".to_owned(),
        Unexpected::Seq => "an array".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the description of this node by [`describe`].
fn unexpected(node: &Node) -> String {
    match &node.value {
        Value::Boolean(yes) => describe(Unexpected::Bool(*yes)),
        Value::Integer(n) => describe(Unexpected::Signed(*n)),
        Value::Float(x) => describe(Unexpected::Float(*x)),
        Value::Text(text) => describe(Unexpected::Str(text)),
        Value::Array(_) => describe(Unexpected::Seq),
        Value::Table(_) => describe(Unexpected::Map),
        Value::Removed => String::new(),
    }
}

struct NodeDeserializer<'t>(&'t Node);

impl<'de> Deserializer<'de> for NodeDeserializer<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.0.value {
            Value::Boolean(yes) => visitor.visit_bool(*yes),
            Value::Integer(n) => visitor.visit_i64(*n),
            Value::Float(x) => visitor.visit_f64(*x),
            Value::Text(text) => visitor.visit_str(text),
            Value::Array(items) => visitor.visit_seq(Members {
                items: items.iter().enumerate(),
            }),
            Value::Table(entries) => visitor.visit_map(Entries {
                entries: entries.iter(),
                current: None,
            }),
            Value::Removed => visitor.visit_unit(),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.0.value {
            Value::Text(text) => visitor.visit_enum(IntoDeserializer::<Error>::into_deserializer(text.as_str())),
            Value::Table(entries) => match entries.as_slice() {
                [entry] => visitor.visit_enum(Variant(entry)),
                _ => Err(Error::no_word("a table".to_owned(), variants)),
            },
            _ => Err(Error::no_word(unexpected(self.0), variants)),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Members<'t> {
    items: std::iter::Enumerate<std::slice::Iter<'t, Node>>,
}

impl<'de> SeqAccess<'de> for Members<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        match self.items.find(|(_, node)| !matches!(node.value, Value::Removed)) {
            None => Ok(None),
            Some((index, node)) => seed
                .deserialize(NodeDeserializer(node))
                .map(Some)
                .map_err(|error| error.inside(Step::Index(index))),
        }
    }
}

struct Entries<'t> {
    entries: std::slice::Iter<'t, Arc<Entry>>,
    current: Option<&'t Entry>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.current = self.entries.next().map(|entry| &**entry);
        match self.current {
            None => Ok(None),
            Some(entry) => {
                let key: StrDeserializer<'_, Error> = entry.key.as_str().into_deserializer();
                seed.deserialize(key)
                    .map(Some)
                    .map_err(|error| error.inside(Step::Key(entry.key.clone())))
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let entry = self
            .current
            .take()
            .ok_or_else(|| Error::custom("a value was requested before its key"))?;
        seed.deserialize(NodeDeserializer(&entry.node))
            .map_err(|error| error.inside(Step::Key(entry.key.clone())))
    }
}

struct Variant<'t>(&'t Entry);

impl<'t, 'de> EnumAccess<'de> for Variant<'t> {
    type Error = Error;
    type Variant = VariantBody<'t>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, VariantBody<'t>), Error> {
        let key: StrDeserializer<'_, Error> = self.0.key.as_str().into_deserializer();
        let value = seed
            .deserialize(key)
            .map_err(|error| error.inside(Step::Key(self.0.key.clone())))?;
        Ok((value, VariantBody(self.0)))
    }
}

struct VariantBody<'t>(&'t Entry);

impl<'de> VariantAccess<'de> for VariantBody<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Err(Error::custom(format!("`{}` takes no parameters", self.0.key)))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(NodeDeserializer(&self.0.node))
            .map_err(|error| error.inside(Step::Key(self.0.key.clone())))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        NodeDeserializer(&self.0.node)
            .deserialize_any(visitor)
            .map_err(|error| error.inside(Step::Key(self.0.key.clone())))
    }

    fn struct_variant<V: Visitor<'de>>(self, _fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.tuple_variant(0, visitor)
    }
}
