//! The table of RFC 9260's requirements: each with its code and its tests.
//!
//! `docs/rfc9260-requirements.toml` lists the requirements, numbered by section and order, in our own words. Code and tests have
//! marks, `[9260:5.2.1-3]`, in comments. This module combines both in `docs/rfc9260-requirements.md`.

pub(super) mod marks;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use super::faults::list::counts;
use crate::chore::{Outcome, root};
use crate::files;
use marks::{Marks, Places};

const LIST: &str = "docs/rfc9260-requirements.toml";
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

fn read() -> Outcome<List> {
    toml::from_str(&files::read(&root().join(LIST))?).map_err(|e| format!("{LIST}: {e}"))
}

/// Returns the generated table.
pub(crate) fn table() -> Outcome<String> {
    render(&read()?, Marks::read()?.0, &counts()?)
}

/// Returns id and text of the requirements that apply, are met, and have neither a fault nor a reason for having none.
pub(crate) fn without_fault() -> Outcome<Vec<(String, String)>> {
    let faults = counts()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_without_a_requirement_is_an_error() {
        let places = BTreeMap::from([("9.9-1".to_owned(), Places::default())]);
        assert!(render(&List { section: Vec::new() }, places, &BTreeMap::new()).is_err_and(|e| e.contains("9.9-1")));
    }
}
