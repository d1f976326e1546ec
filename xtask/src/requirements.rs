//! The table of RFC 9260's requirements: each with its code and its tests.
//!
//! `docs/rfc9260-requirements.toml` lists the requirements, numbered by section and order, in our own words. Code and tests have
//! marks, `[9260:5.2.1-3]`, in comments. This module combines both in `docs/rfc9260-requirements.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{Outcome, faults, root};

const LIST: &str = "docs/rfc9260-requirements.toml";
/// Folders whose Rust files may have marks.
const SOURCES: &[&str] = &["crates", "tests"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    section: Vec<Section>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    number: String,
    title: String,
    requirement: Vec<Requirement>,
}

/// One requirement; its id is `SECTION-N`, where N is its position in `List`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    level: Level,
    text: String,
    /// Why the requirement does not apply, if it does not.
    #[serde(default)]
    not_applicable: Option<String>,
    /// What is missing, if it applies and is not met.
    #[serde(default)]
    unmet: Option<String>,
    /// Why no fault can violate it, if none can.
    #[serde(default)]
    no_fault: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
enum Level {
    #[serde(rename = "MUST")]
    Must,
    #[serde(rename = "MUST NOT")]
    MustNot,
    #[serde(rename = "SHOULD")]
    Should,
    #[serde(rename = "SHOULD NOT")]
    ShouldNot,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Must => "MUST",
            Level::MustNot => "MUST NOT",
            Level::Should => "SHOULD",
            Level::ShouldNot => "SHOULD NOT",
        }
    }
}

/// Places of a requirement, such as `crates/proto/src/endpoint.rs fn handle_init`.
#[derive(Default)]
struct Places {
    code: Vec<String>,
    tests: Vec<String>,
}

/// All marks in the sources.
pub(crate) struct Marks(BTreeMap<String, Places>);

impl Marks {
    /// Reads the marks in all source files.
    pub(crate) fn read() -> Outcome<Self> {
        let mut places = BTreeMap::new();
        for folder in SOURCES {
            for file in rust_files(&root().join(folder))? {
                let source =
                    std::fs::read_to_string(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
                let name = file
                    .strip_prefix(root())
                    .expect("the file was found below the root")
                    .display()
                    .to_string();
                scan(&name, &source, &mut places);
            }
        }
        Ok(Marks(places))
    }

    /// Returns the tests with this mark, as `FILE` and `FUNCTION` in back quotes.
    pub(crate) fn tests_of(&self, id: &str) -> impl Iterator<Item = &str> {
        self.0
            .get(id)
            .into_iter()
            .flat_map(|places| &places.tests)
            .map(String::as_str)
    }
}

fn read() -> Outcome<List> {
    let text = std::fs::read_to_string(root().join(LIST)).map_err(|e| format!("cannot read {LIST}: {e}"))?;
    toml::from_str(&text).map_err(|e| format!("{LIST}: {e}"))
}

/// Returns the generated table.
pub(crate) fn table() -> Outcome<String> {
    render(&read()?, Marks::read()?.0, &faults::counts()?)
}

/// Returns id and text of the requirements that apply, are met, and have neither a fault nor a reason for having none.
pub(crate) fn without_fault() -> Outcome<Vec<(String, String)>> {
    let faults = faults::counts()?;
    let mut missing = Vec::new();
    for section in read()?.section {
        for (index, requirement) in section.requirement.into_iter().enumerate() {
            let id = format!("{}-{}", section.number, index + 1);
            let exempt = [&requirement.not_applicable, &requirement.unmet, &requirement.no_fault];
            if exempt.iter().all(|reason| reason.is_none()) && !faults.contains_key(&id) {
                missing.push((id, requirement.text));
            }
        }
    }
    Ok(missing)
}

/// Number of requirements of a kind.
#[derive(Default)]
struct Totals {
    all: u32,
    not_applicable: u32,
    unmet: u32,
    held: u32,
    tested: u32,
    broken: u32,
}

impl Totals {
    fn line(&self, what: &str) -> String {
        format!(
            "| {what} | {} | {} | {} | {} | {} | {} |\n",
            self.all, self.not_applicable, self.unmet, self.held, self.tested, self.broken
        )
    }
}

fn render(list: &List, mut places: BTreeMap<String, Places>, faults: &BTreeMap<String, usize>) -> Outcome<String> {
    let mut body = String::new();
    let (mut musts, mut shoulds) = (Totals::default(), Totals::default());
    for section in &list.section {
        let _ = write!(body, "\n## {} {}\n\n", section.number, section.title);
        body.push_str("| id | level | requirement, in short | code | test | faults |\n|---|---|---|---|---|---|\n");
        for (index, requirement) in section.requirement.iter().enumerate() {
            let id = format!("{}-{}", section.number, index + 1);
            let found = places.remove(&id).unwrap_or_default();
            let broken = faults.get(&id).copied().unwrap_or(0);
            let totals = match requirement.level {
                Level::Must | Level::MustNot => &mut musts,
                Level::Should | Level::ShouldNot => &mut shoulds,
            };
            totals.all += 1;
            let (code, tests) = match (&requirement.not_applicable, &requirement.unmet) {
                (Some(reason), _) => {
                    totals.not_applicable += 1;
                    (format!("not applicable: {reason}"), String::new())
                }
                (None, Some(reason)) => {
                    totals.unmet += 1;
                    (format!("**unmet**: {reason}"), String::new())
                }
                (None, None) => {
                    totals.held += u32::from(!found.code.is_empty());
                    totals.tested += u32::from(!found.tests.is_empty());
                    totals.broken += u32::from(broken > 0);
                    (cell(&found.code), cell(&found.tests))
                }
            };
            let _ = writeln!(
                body,
                "| {id} | {} | {} | {code} | {tests} | {} |",
                requirement.level.word(),
                requirement.text,
                match &requirement.no_fault {
                    _ if broken > 0 => broken.to_string(),
                    Some(reason) => format!("none possible: {reason}"),
                    None => "-".to_owned(),
                }
            );
        }
    }
    if let Some(unknown) = places.keys().next() {
        return Err(format!("a mark has the requirement {unknown}, which is not in {LIST}"));
    }
    Ok(format!(
        "# Requirements of RFC 9260\n\n\
         Generated by `cargo xtask generate` from `{LIST}` and the marks `[9260:SECTION-N]` in the sources; do not edit.\n\
         Each MUST and SHOULD is numbered by its section and its order there, in our own words; the RFC's text is authoritative.\n\
         A dash means that no mark was found, not that the rule is broken. The last column counts the faults in `xtask/faults`: \
         pieces of broken\ncode with which a marked test fails (`cargo xtask faults`).\n\n\
         | level | all | not applicable | unmet | marked code | marked test | faults that a marked test notices |\n\
         |---|---|---|---|---|---|---|\n{}{}{body}",
        musts.line("MUST, MUST NOT"),
        shoulds.line("SHOULD, SHOULD NOT")
    ))
}

fn cell(places: &[String]) -> String {
    if places.is_empty() {
        "-".to_owned()
    } else {
        places.join("<br>")
    }
}

/// Finds the marks in a file. The place of a mark is the function, type or constant that contains it or follows it.
fn scan(file: &str, source: &str, places: &mut BTreeMap<String, Places>) {
    let mut in_tests = file.contains("/tests/") || file.ends_with("/tests.rs");
    let mut item = String::new();
    let mut waiting: Vec<&str> = Vec::new();
    let mut note = |id: &str, item: &str, in_tests: bool| {
        let place = if item.is_empty() {
            file.to_owned()
        } else {
            format!("{file} `{item}`")
        };
        let found = places.entry(id.to_owned()).or_default();
        let list = if in_tests { &mut found.tests } else { &mut found.code };
        if !list.contains(&place) {
            list.push(place);
        }
    };
    for line in source.lines() {
        let text = line.trim_start();
        in_tests |= text.starts_with("mod tests") || text.starts_with("pub(super) mod tests");
        // A comment belongs to the item after it, or else to the item that contains it.
        if text.starts_with("//") {
            waiting.extend(marks(line));
            continue;
        }
        if text.starts_with("#[") {
            continue;
        }
        if let Some(name) = item_name(line) {
            item = name;
        }
        for id in waiting.drain(..).chain(marks(line)) {
            note(id, &item, in_tests);
        }
    }
    for id in waiting {
        note(id, "", in_tests);
    }
}

/// Returns the requirement ids of the marks in a line; one mark may have several: `[9260:6.1-2, 6.1-3]`.
fn marks(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("[9260:")
        .filter_map(|(at, mark)| {
            let rest = &line[at + mark.len()..];
            rest.find(']').map(|end| &rest[..end])
        })
        .flat_map(|ids| ids.split(',').map(str::trim))
}

/// Returns the name of the function, type or constant whose definition starts in a line.
fn item_name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().skip_while(|word| {
        word.starts_with("pub") || matches!(*word, "async" | "const" | "unsafe") || word.ends_with(')')
    });
    let keyword = words.next()?;
    let constant = line.contains("const ") && keyword.ends_with(':');
    let name = match keyword {
        "fn" | "struct" | "enum" | "trait" => words.next()?,
        name if constant => name,
        _ => return None,
    };
    let end = name
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(name.len());
    (end > 0).then(|| name[..end].to_owned())
}

fn rust_files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(files);
    };
    for entry in entries {
        let path = entry
            .map_err(|e| format!("cannot list {}: {e}", folder.display()))?
            .path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
/// Answers an INIT.
// [9260:5.1-2]
#[inline]
pub(crate) fn on_init() {
    // RFC 9260 §5.1.3 [9260:5.1.3-1, 5.1.3-2]
    go();
}
pub const LIMIT: u32 = 1; // [9260:16-1]
#[cfg(test)]
mod tests {
    #[test]
    fn init_is_answered() {
        // [9260:5.1-2]
    }
}
";

    #[test]
    fn assigns_a_mark_to_its_item_and_to_code_or_tests() {
        let mut places = BTreeMap::new();
        scan("crates/x/src/a.rs", SOURCE, &mut places);
        assert_eq!(places["5.1-2"].code, ["crates/x/src/a.rs `on_init`"]);
        assert_eq!(places["5.1-2"].tests, ["crates/x/src/a.rs `init_is_answered`"]);
        assert_eq!(places["5.1.3-2"].code, ["crates/x/src/a.rs `on_init`"]);
        assert_eq!(places["16-1"].code, ["crates/x/src/a.rs `LIMIT`"]);
    }

    #[test]
    fn a_mark_without_a_requirement_is_an_error() {
        let places = BTreeMap::from([("9.9-1".to_owned(), Places::default())]);
        assert!(render(&List { section: Vec::new() }, places, &BTreeMap::new()).is_err_and(|e| e.contains("9.9-1")));
    }
}
