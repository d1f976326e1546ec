//! The examples of the reference. The value of a field comes from `xtask/reference.toml`, else from the schema: its default, or the example
//! of its type.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::super::inline::{key, toml};
use super::schema::{Schema, Table, Type};
use crate::chore::{Outcome, root};
use crate::files::read;

/// The file of the values that the schema does not have.
const FILE: &str = "xtask/reference.toml";

/// The file's content.
#[derive(Deserialize)]
pub(crate) struct Examples {
    /// By the path of the section, with the kind if there are kinds: `link.queue.red`.
    section: BTreeMap<String, Given>,
    /// For parts with parameters that have no default, tables with these, by slot and part.
    part: BTreeMap<String, BTreeMap<String, Vec<Map<String, Json>>>>,
    /// Fields of `flow.sctp` that a part requires, by slot and part.
    beside: BTreeMap<String, BTreeMap<String, Map<String, Json>>>,
}

/// What the file has for a table.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Given {
    /// Values of the first block.
    #[serde(default)]
    values: Map<String, Json>,
    /// Further blocks.
    #[serde(default)]
    more: Vec<More>,
}

/// A further block, for fields that exclude those of the first one. Required fields are added to it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct More {
    about: String,
    values: Map<String, Json>,
}

impl Examples {
    pub(crate) fn read() -> Outcome<Self> {
        let text = read(&root().join(FILE))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Outcome<Self> {
        toml::from_str(text).map_err(|e| format!("{FILE}: {e}"))
    }

    /// Returns the fields of `flow.sctp` that a part requires, a line each.
    pub(crate) fn beside(&self, slot: &str, name: &str) -> String {
        let fields = self.beside.get(slot).and_then(|parts| parts.get(name));
        let fields = fields.into_iter().flatten();
        fields
            .map(|(name, value)| format!("{name} = {}\n", toml(value)))
            .collect()
    }

    /// Returns the values of a part whose parameters have no defaults, a block each.
    pub(crate) fn of_part(&self, slot: &str, name: &str) -> &[Map<String, Json>] {
        let parts = self.part.get(slot);
        parts.and_then(|parts| parts.get(name)).map_or(&[], Vec::as_slice)
    }

    /// Returns the sections of the file that the page does not have.
    pub(crate) fn unknown(&self, sections: &BTreeSet<String>) -> Vec<String> {
        let unknown = self.section.keys().filter(|id| !sections.contains(*id));
        unknown
            .map(|id| format!("{FILE}: section {id:?}: the schema has no such table"))
            .collect()
    }

    /// Returns the blocks of a table: each field of it stands in one of them at least. `is_shown` says of a field whether a section of the
    /// page shows it. Adds the fields without example to `problems`.
    pub(crate) fn blocks(
        &self,
        schema: &Schema,
        place: &TablePlace<'_>,
        table: &Table<'_>,
        is_shown: &dyn Fn(&str) -> bool,
        problems: &mut Vec<String>,
    ) -> String {
        let id = place.id(table);
        let none = Given::default();
        let given = self.section.get(&id).unwrap_or(&none);
        let is_field = |name: &String| name == "kind" || table.fields.iter().any(|field| field.name == name);
        let named = given
            .values
            .keys()
            .chain(given.more.iter().flat_map(|more| more.values.keys()));
        for name in named.filter(|name| !is_field(name)) {
            problems.push(format!("{FILE}: section {id:?}: the schema has no field {name:?}"));
        }
        let mut first = Vec::new();
        for field in &table.fields {
            let elsewhere = given.more.iter().any(|more| more.values.contains_key(field.name));
            if let Some(value) = given.values.get(field.name) {
                first.push((field.name, value.clone()));
            } else if elsewhere && !field.required || is_shown(field.name) {
            } else if let Some(value) = of_schema(schema, field.schema) {
                first.push((field.name, value));
            } else {
                problems.push(format!(
                    "{id}: the field `{}` has no example: give one in {FILE}",
                    field.name
                ));
            }
        }
        let mut text = place.block(table, &first);
        for more in &given.more {
            let value = |name: &str| {
                more.values.get(name).cloned().or_else(|| {
                    let required = table.fields.iter().any(|field| field.name == name && field.required);
                    required.then(|| {
                        first
                            .iter()
                            .find(|(first, _)| *first == name)
                            .map(|(_, value)| value.clone())
                    })?
                })
            };
            let values: Vec<_> = table
                .fields
                .iter()
                .filter_map(|field| Some((field.name, value(field.name)?)))
                .collect();
            let _ = writeln!(text, "{}:\n", more.about);
            text += &place.block(table, &values);
        }
        text
    }

    /// Returns a block with the given values alone, for a table whose fields another section shows or that has any fields.
    pub(crate) fn given(&self, place: &TablePlace<'_>, problems: &mut Vec<String>) -> String {
        let Some(given) = self.section.get(place.path) else {
            problems.push(format!("{}: no example: give one in {FILE}", place.path));
            return String::new();
        };
        let values: Vec<_> = given
            .values
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        let fields = values
            .iter()
            .map(|(name, value)| format!("{} = {}\n", key(name), toml(value)));
        format!("```toml\n{}\n{}```\n\n", place.header(), fields.collect::<String>())
    }
}

/// Where a table stands in a scenario.
pub(crate) struct TablePlace<'p> {
    /// Such as `link.queue`; empty for the top level.
    pub(crate) path: &'p str,
    pub(crate) is_list: bool,
}

impl TablePlace<'_> {
    /// Returns the table's header in a scenario.
    pub(crate) fn header(&self) -> String {
        match self.path {
            "" => String::new(),
            path if self.is_list => format!("[[{path}]]"),
            path => format!("[{path}]"),
        }
    }

    /// Returns the name of a table in the file of examples.
    pub(crate) fn id(&self, table: &Table<'_>) -> String {
        match (self.path, table.kind) {
            ("", None) => "top".to_owned(),
            (path, None) => path.to_owned(),
            (path, Some(kind)) => format!("{path}.{kind}"),
        }
    }

    fn block(&self, table: &Table<'_>, values: &[(&str, Json)]) -> String {
        let mut lines = Vec::from_iter((!self.path.is_empty()).then(|| self.header()));
        lines.extend(table.kind.map(|kind| format!("kind = {kind:?}")));
        lines.extend(values.iter().map(|(name, value)| format!("{name} = {}", toml(value))));
        format!("```toml\n{}\n```\n\n", lines.join("\n"))
    }
}

/// Returns the example that the schema has for a field: its default if that shows something, or the example of its type.
fn of_schema(schema: &Schema, field: &Json) -> Option<Json> {
    let shows = |value: &&Json| match value {
        Json::Null => false,
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let own = || field["examples"].get(0);
    let of_type = || match schema.type_of(field) {
        Type::Time => schema.definition("Span")["examples"].get(0),
        Type::Rate => schema.definition("Rate")["examples"].get(0),
        _ => None,
    };
    field
        .get("default")
        .filter(shows)
        .or_else(own)
        .or_else(of_type)
        .cloned()
}
