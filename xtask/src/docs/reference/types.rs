//! The types of fields as text: with units, ranges, words, and links to the sections and pages that describe them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value as Json;

use super::super::inline::cell;
use super::schema::{Schema, Table, Type, Word};

/// More words than these are listed below the table only.
const FEW_WORDS: usize = 6;

/// A heading of the page.
struct Heading {
    title: String,
    anchor: String,
}

/// What the page describes, and where.
pub(crate) struct Types<'s> {
    schema: &'s Schema,
    /// The sections of definitions and of their kinds, by `NAME` or `NAME.KIND`.
    headings: BTreeMap<String, Heading>,
    /// The anchors of the sections that list words, schemes or parts.
    listed: BTreeMap<String, String>,
    pub(crate) problems: Vec<String>,
}

impl<'s> Types<'s> {
    pub(crate) fn new(schema: &'s Schema) -> Self {
        Types {
            schema,
            headings: BTreeMap::new(),
            listed: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    /// Adds the section of a definition or of a kind of it. The first one counts.
    pub(crate) fn add(&mut self, name: &str, kind: Option<&str>, title: &str, anchor: String) {
        let title = title.to_owned();
        self.headings
            .entry(key(name, kind))
            .or_insert(Heading { title, anchor });
    }

    /// Returns a link to the section of a definition.
    pub(crate) fn link(&self, name: &str) -> String {
        let heading = self.headings.get(name);
        heading.map_or_else(String::new, |heading| {
            format!("[{}](#{})", heading.title, heading.anchor)
        })
    }

    /// Returns the anchor of the section of a definition or of a kind of it.
    pub(crate) fn anchor(&self, name: &str, kind: Option<&str>) -> String {
        let heading = self.headings.get(&key(name, kind));
        heading.map_or_else(String::new, |heading| heading.anchor.clone())
    }

    /// Returns a type as a cell of a table.
    pub(crate) fn text(&mut self, shape: &Type<'s>) -> String {
        match shape {
            Type::Time => "time".to_owned(),
            Type::Rate => "rate".to_owned(),
            Type::Scheme(_) => "[name](schemes/README.md)".to_owned(),
            Type::Part { slot, .. } => format!("[name or table](parts/{slot}/README.md)"),
            Type::Words(name, words) => self.words(name, words),
            Type::Table(name) | Type::Lists(name) | Type::Kinds { name, named: false } => self.table(name, "table"),
            Type::Kinds { name, named: true } => self.table(name, "name or table"),
            Type::ShortOr(short, table) => {
                let short = match &short["enum"] {
                    Json::Null if short["pattern"].is_string() => "time".to_owned(),
                    Json::Null => plain(short),
                    _ => "name".to_owned(),
                };
                format!("{short}, or {}", self.text(table))
            }
            Type::OneOrMany(one) => format!("{}, or a list of them", self.text(one)),
            Type::List(inner, None) => format!("list: {}", self.text(inner)),
            Type::List(inner, Some(number)) => format!("list of {number}: {}", self.text(inner)),
            Type::Plain(schema) => plain(schema),
        }
    }

    fn table(&mut self, name: &str, words: &str) -> String {
        let anchor = self.anchor(name, None);
        if anchor.is_empty() {
            self.problems.push(format!(
                "the table {name} of the schema has no section: add it to SECTIONS"
            ));
        }
        format!("[{words}](#{anchor})")
    }

    fn words(&self, name: &str, words: &[Word<'_>]) -> String {
        let all: Vec<_> = words.iter().map(|word| format!("`{}`", word.word)).collect();
        let meanings = self.listed.get(name);
        match (meanings, words.len() <= FEW_WORDS) {
            (None, true) => all.join(", "),
            (None, false) => format!("one of {} words, see below", words.len()),
            (Some(anchor), true) => format!("{} ([meaning](#{anchor}))", all.join(", ")),
            (Some(anchor), false) => format!("one of {} [words](#{anchor})", words.len()),
        }
    }

    /// Returns the meanings of the words, and the links to the schemes and parts, that the fields of a table take and that no section
    /// before has. The table has its section at `anchor`.
    pub(crate) fn explained(&mut self, table: &Table<'s>, anchor: &str) -> String {
        let (mut text, mut names) = (String::new(), String::new());
        for field in &table.fields {
            let (key, link, of_names): (_, fn(&str, &str) -> String, _) = match inner(self.schema.type_of(field.schema))
            {
                Type::Words(name, words) if !self.listed.contains_key(name) => {
                    let _ = writeln!(text, "| `{}` | meaning |\n|---|---|", field.name);
                    for word in words {
                        let _ = writeln!(text, "| `{}` | {} |", word.word, cell(word.meaning));
                    }
                    text.push('\n');
                    self.listed.insert(name.to_owned(), anchor.to_owned());
                    continue;
                }
                Type::Scheme(names) => ("schemes".to_owned(), |_, name| format!("schemes/{name}.md"), names),
                Type::Part { slot, names } => (slot, |slot, name| format!("parts/{slot}/{name}.md"), names),
                _ => continue,
            };
            if self.listed.insert(key.clone(), anchor.to_owned()).is_none() {
                let links = of_names.iter().map(|name| format!("[`{name}`]({})", link(&key, name)));
                let _ = writeln!(names, "| `{}` | {} |", field.name, links.collect::<Vec<_>>().join(", "));
            }
        }
        if !names.is_empty() {
            let _ = writeln!(text, "| field | names |\n|---|---|\n{names}");
        }
        text
    }
}

fn key(name: &str, kind: Option<&str>) -> String {
    kind.map_or_else(|| name.to_owned(), |kind| format!("{name}.{kind}"))
}

/// Returns the type of the items of a list.
fn inner(shape: Type<'_>) -> Type<'_> {
    match shape {
        Type::List(item, _) | Type::OneOrMany(item) | Type::ShortOr(_, item) => inner(*item),
        other => other,
    }
}

/// Returns the type of a value with the limits of the schema.
fn plain(schema: &Json) -> String {
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    let word = match kind.unwrap_or_default() {
        "string" => "text",
        "boolean" => "`true` or `false`",
        other => other,
    };
    match (&schema["minimum"], &schema["maximum"]) {
        (Json::Null, Json::Null) => word.to_owned(),
        (Json::Null, most) => format!("{word}, up to {most}"),
        (least, Json::Null) => format!("{word}, {least} or more"),
        (least, most) => format!("{word}, {least} to {most}"),
    }
}
