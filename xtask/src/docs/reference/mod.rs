//! `docs/reference.md`: a section for each table of a scenario with its fields and examples, from the schema.

mod examples;
mod schema;
mod types;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value as Json;

use super::command::whimbrel;
use super::inline::{cell, toml};
use super::markdown::Anchors;
use crate::chore::Outcome;

pub(crate) use examples::Examples;
use examples::TablePlace;
use schema::{Field, Schema, Table, text};
use types::Types;

/// A table of a scenario, with a section of the page.
struct Section {
    /// Where it stands in a scenario: `link.queue`; empty for the top level.
    path: &'static str,
    title: &'static str,
    /// What a kind of it is called, if it has kinds.
    kind: &'static str,
}

const fn section(path: &'static str, title: &'static str) -> Section {
    Section { path, title, kind: "" }
}

const fn kinds(path: &'static str, title: &'static str, kind: &'static str) -> Section {
    Section { path, title, kind }
}

/// The sections in their order.
const SECTIONS: &[Section] = &[
    section("", "Top level"),
    section("node", "Nodes"),
    kinds("node.mobility", "Mobility", "Mobility"),
    section("link", "Links"),
    section("link.forward", "One direction of a link"),
    kinds("link.queue", "Queues", "Queue"),
    kinds("link.loss", "Losses", "Loss"),
    kinds("link.jitter", "Jitter", "Jitter"),
    section("link.schedule", "Changes of a link"),
    section("link.schedule.forward", "Changes of one direction"),
    section("link.trace", "Recorded rates"),
    section("channel", "Channels"),
    kinds("channel.propagation", "Propagation", "Propagation"),
    kinds("channel.propagation.fading", "Fading", "Fading"),
    section("channel.energy", "Energy"),
    kinds("channel.routing", "Routing", "Routing"),
    section("radio", "Radios"),
    section("radio.handoff", "Hand-offs"),
    section("flow", "Flows"),
    section("flow.traffic", "Traffic"),
    section("flow.address", "Addresses that change"),
    section("flow.sctp", "SCTP"),
    section("flow.sctp.rules", "Rules of the preset"),
    section("flow.sctp.recovery", "Recovery"),
    section("flow.sctp.reporting", "Reporting"),
    section("flow.sctp.auth", "Authentication"),
    section("flow.receiver", "Receivers"),
    section("flow.tcp", "TCP"),
    section("measure", "Measurement"),
    section("sweep", "Sweeps"),
    section("record", "Recorded runs"),
];

const INTRODUCTION: &str = "\
# Reference of scenario files

Every table and field of a scenario, generated from [the schema](scenario.schema.json). [Scenarios](scenarios.md) explains how they work
together, the [glossary](glossary.md) defines the terms.

- A *time* is text with a number and one of the units `ns`, `us`, `ms`, `s`, `min`, `h`: `\"10 ms\"`, `\"1.5 s\"`. A *rate* has one of the
  units `bit/s`, `kbit/s`, `Mbit/s`, `Gbit/s`: `\"2 Mbit/s\"`.
- *absent* as default: without the field, what its description says applies.
- The examples show every field. Blocks that follow each other are alternatives. A block such as `[link.queue]` belongs behind its
  `[[link]]`. `whimbrel check --explain FILE` prints a scenario with all its values.

";

/// Returns the page.
pub(crate) fn page() -> Outcome<String> {
    let schema = serde_json::from_str(&whimbrel(&["schema"])?).map_err(|e| format!("whimbrel schema: {e}"))?;
    made(&Schema::new(schema), &Examples::read()?, SECTIONS)
}

fn made(schema: &Schema, examples: &Examples, sections: &[Section]) -> Outcome<String> {
    let mut page = Page::new(schema, examples, sections)?;
    for section in sections {
        page.section(section);
    }
    let shown = page.shown.clone();
    page.problems.extend(examples.unknown(&shown));
    page.problems.append(&mut page.types.problems);
    if page.problems.is_empty() {
        Ok(INTRODUCTION.to_owned() + page.text.trim_end() + "\n")
    } else {
        Err(format!("docs/reference.md:\n  {}", page.problems.join("\n  ")))
    }
}

struct Page<'s> {
    schema: &'s Schema,
    examples: &'s Examples,
    sections: &'s [Section],
    types: Types<'s>,
    text: String,
    /// The names of the tables so far, as the file of examples has them.
    shown: BTreeSet<String>,
    problems: Vec<String>,
}

impl<'s> Page<'s> {
    fn new(schema: &'s Schema, examples: &'s Examples, sections: &'s [Section]) -> Outcome<Self> {
        let mut types = Types::new(schema);
        let mut anchors = Anchors::default();
        // The heading of the introduction comes first.
        anchors.of("Reference of scenario files");
        for section in sections {
            let name = schema.at(section.path);
            let name = name.ok_or_else(|| format!("the schema has no table {}", section.path))?;
            types.add(name, None, section.title, anchors.of(section.title));
            for kind in schema.tables(name).iter().filter_map(|table| table.kind) {
                let title = format!("{} {kind}", section.kind);
                types.add(name, Some(kind), &title, anchors.of(&title));
            }
        }
        Ok(Page {
            schema,
            examples,
            sections,
            types,
            text: String::new(),
            shown: BTreeSet::new(),
            problems: Vec::new(),
        })
    }

    fn section(&mut self, section: &Section) {
        let name = self.schema.at(section.path).unwrap_or_default();
        let place = TablePlace {
            path: section.path,
            is_list: self.schema.is_list(section.path),
        };
        let level = if section.path.contains('.') { "###" } else { "##" };
        let header = match section.path {
            "" => "The fields before the first table, and the tables.".to_owned(),
            _ => format!("`{}`", place.header()),
        };
        let first = self
            .sections
            .iter()
            .find(|other| self.schema.at(other.path) == Some(name));
        let is_repeated = first.is_some_and(|first| first.path != section.path);
        let about = if is_repeated {
            format!(
                "{} The fields are those of {}.",
                self.schema.about(section.path),
                self.types.link(name)
            )
        } else {
            line(text(self.schema.definition(name)))
        };
        let about = [header, about].join(" ");
        let _ = writeln!(self.text, "{level} {}\n\n{}\n", section.title, about.trim_end());
        let tables = self.schema.tables(name);
        if is_repeated {
            self.given(&place);
        } else if !section.kind.is_empty() {
            self.kinds(section, &place, name, &tables);
        } else if tables[0].fields.is_empty() {
            self.given(&place);
        } else {
            self.table(&place, name, &tables[0]);
        }
    }

    /// Writes the example of a table without fields of its own.
    fn given(&mut self, place: &TablePlace<'_>) {
        self.shown.insert(place.path.to_owned());
        self.text += &self.examples.given(place, &mut self.problems);
    }

    fn kinds(&mut self, section: &Section, place: &TablePlace<'_>, name: &str, tables: &[Table<'s>]) {
        let kinds = tables.iter().filter_map(|table| table.kind);
        let links: Vec<_> = kinds
            .map(|kind| format!("[`{kind}`](#{})", self.types.anchor(name, Some(kind))))
            .collect();
        let _ = writeln!(self.text, "Its `kind` is required: {}.\n", links.join(", "));
        if let Some(short) = self.schema.short_form(section.path) {
            let _ = writeln!(self.text, "{} [Links](#links) has examples.\n", line(short));
        }
        for table in tables {
            let kind = table.kind.unwrap_or_default();
            let _ = writeln!(
                self.text,
                "#### {} `{kind}`\n\n{}\n",
                section.kind,
                line(table.description)
            );
            self.table(place, name, table);
        }
    }

    /// Writes the fields of a table, the meanings of their words, and the examples.
    fn table(&mut self, place: &TablePlace<'_>, name: &str, table: &Table<'s>) {
        self.shown.insert(place.id(table));
        if !table.fields.is_empty() {
            self.text += "| field | type and range | default | meaning |\n|---|---|---|---|\n";
        }
        for field in &table.fields {
            let meaning = text(field.schema);
            if meaning.is_empty() {
                self.problems.push(format!(
                    "{}: the field `{}` has no description",
                    place.id(table),
                    field.name
                ));
            }
            let words = self.types.text(&self.schema.type_of(field.schema));
            let meaning = cell(without_default(meaning, field));
            let _ = writeln!(
                self.text,
                "| `{}` | {words} | {} | {meaning} |",
                field.name,
                default(field)
            );
        }
        if !table.fields.is_empty() {
            self.text.push('\n');
        }
        let anchor = self.types.anchor(name, table.kind);
        self.text += &self.types.explained(table, &anchor);
        let (schema, sections) = (self.schema, self.sections);
        let is_shown = |field: &str| {
            let path = format!("{}.{field}", place.path);
            sections
                .iter()
                .any(|section| section.path == path.trim_start_matches('.'))
        };
        self.text += &self
            .examples
            .blocks(schema, place, table, &is_shown, &mut self.problems);
    }
}

fn default(field: &Field<'_>) -> String {
    match field.schema.get("default").filter(|value| !value.is_null()) {
        _ if field.required => "required".to_owned(),
        Some(value) => format!("`{}`", cell(&toml(value))),
        None => "absent".to_owned(),
    }
}

/// Returns a description without a last sentence that only repeats the default of the schema: `Default: 10 dB.`
fn without_default<'t>(meaning: &'t str, field: &Field<'_>) -> &'t str {
    let Some((rest, last)) = meaning.rsplit_once("Default: ") else {
        return meaning;
    };
    let said = last.trim_end_matches('.').trim_matches('`');
    let repeats = match field.schema.get("default") {
        Some(Json::String(default)) => said == default,
        Some(Json::Bool(default)) => said == default.to_string(),
        Some(Json::Number(default)) => {
            let mut words = said.splitn(2, ' ');
            let number = words.next().and_then(|word| word.parse().ok());
            number == default.as_f64() && words.next().is_none_or(|unit| matches!(unit, "m" | "dB" | "dBm"))
        }
        _ => false,
    };
    if repeats { rest.trim_end() } else { meaning }
}

/// Returns a text on one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
