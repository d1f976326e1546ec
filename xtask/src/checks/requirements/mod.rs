//! The tables of the requirements of RFCs, and of the draft of the DTLS chunk: each with its code and its tests.
//!
//! `docs/requirements/rfc9260.toml` and its neighbours list the requirements of an RFC, numbered by section and order, in our own words.
//! Code and tests have marks, `[9260:5.2.1-3]`, in comments. This module combines both in a page for each RFC, and counts them in an
//! overview.

pub(super) mod marks;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use super::faults::list::counts;
use crate::chore::{Outcome, root};
use crate::files;
use crate::generated::Generated;
use marks::{Marks, Places};

/// The folder of the lists and of the generated pages.
const FOLDER: &str = "docs/requirements";

/// The requirements of one RFC, or of a draft.
struct Rfc {
    /// The number of an RFC; the short name of a draft.
    number: String,
    list: List,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// What the RFC specifies, in short.
    #[serde(default)]
    title: String,
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

impl Rfc {
    /// Returns the path of the list, or that of the page.
    fn path(&self, extension: &str) -> String {
        format!("{FOLDER}/{}.{extension}", self.stem())
    }

    /// Returns the name of the list and of the page.
    fn stem(&self) -> String {
        match self.is_draft() {
            true => self.number.clone(),
            false => format!("rfc{}", self.number),
        }
    }

    fn is_draft(&self) -> bool {
        marks::DRAFTS.contains(&self.number.as_str())
    }

    /// Returns what readers know it by.
    fn name(&self) -> String {
        match self.is_draft() {
            true => format!("the draft of {}", self.list.title),
            false => format!("RFC {}", self.number),
        }
    }

    /// Returns the requirements of a section with their full ids.
    fn of<'a>(&'a self, section: &'a Section) -> impl Iterator<Item = (String, &'a Requirement)> {
        let id = |n| format!("{}:{}-{n}", self.number, section.number);
        (1..).map(id).zip(&section.requirement)
    }
}

/// Reads all lists, in the order of the RFCs' numbers.
fn read() -> Outcome<Vec<Rfc>> {
    let mut rfcs = Vec::new();
    for file in files::entries(&root().join(FOLDER))? {
        if !files::has_extension(&file, "toml") {
            continue;
        }
        let name = files::shown(&file);
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let draft = marks::DRAFTS.contains(&stem).then_some(stem);
        let number = draft.or(stem.strip_prefix("rfc")).ok_or(format!(
            "{name}: the name of a list is rfcNNNN.toml, or that of a draft"
        ))?;
        rfcs.push(Rfc {
            number: number.to_owned(),
            list: toml::from_str(&files::read(&file)?).map_err(|e| format!("{name}: {e}"))?,
        });
    }
    Ok(rfcs)
}

/// Generates the pages and the overview.
pub(crate) fn pages(generated: &mut Generated) -> Outcome {
    let faults = counts()?;
    let mut places = Marks::read()?.0;
    let mut rows = String::new();
    for rfc in read()? {
        let (page, counts) = render(&rfc, &mut places, &faults);
        rows.push_str(&counts.row(&rfc));
        generated.update(&rfc.path("md"), page)?;
    }
    all_known(&places)?;
    generated.update(&format!("{FOLDER}/README.md"), overview(&rows))
}

/// Checks that no mark is left that belongs to no list.
fn all_known(places: &BTreeMap<String, Places>) -> Outcome {
    match places.keys().next() {
        Some(unknown) => Err(format!(
            "a mark has the requirement {unknown}, which is in no list of {FOLDER}"
        )),
        None => Ok(()),
    }
}

/// Returns full id and text of the requirements that apply, are met, and have neither a fault nor a reason for having none.
pub(crate) fn without_fault() -> Outcome<Vec<(String, String)>> {
    let faults = counts()?;
    let mut missing = Vec::new();
    for rfc in read()? {
        for (id, requirement) in rfc.list.section.iter().flat_map(|section| rfc.of(section)) {
            let exempt = [&requirement.not_applicable, &requirement.unmet, &requirement.no_fault];
            if exempt.iter().all(|reason| reason.is_none()) && !faults.contains_key(&id) {
                missing.push((id, requirement.text.clone()));
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
    /// Counts a requirement. Returns the cells of its code and its tests.
    fn add(&mut self, requirement: &Requirement, found: &Places, faults: usize) -> (String, String) {
        self.all += 1;
        match (&requirement.not_applicable, &requirement.unmet) {
            (Some(reason), _) => {
                self.not_applicable += 1;
                (format!("not applicable: {reason}"), String::new())
            }
            (None, Some(reason)) => {
                self.unmet += 1;
                (format!("**unmet**: {reason}"), String::new())
            }
            (None, None) => {
                self.held += u32::from(!found.code.is_empty());
                self.tested += u32::from(!found.tests.is_empty());
                self.broken += u32::from(faults > 0);
                (cell(&found.code), cell(&found.tests))
            }
        }
    }

    fn line(&self, what: &str) -> String {
        format!(
            "| {what} | {} | {} | {} | {} | {} | {} |\n",
            self.all, self.not_applicable, self.unmet, self.held, self.tested, self.broken
        )
    }
}

/// Numbers of requirements of an RFC.
#[derive(Default)]
struct Counts {
    musts: Totals,
    shoulds: Totals,
}

impl Counts {
    fn of(&mut self, level: Level) -> &mut Totals {
        match level {
            Level::Must | Level::MustNot => &mut self.musts,
            Level::Should | Level::ShouldNot => &mut self.shoulds,
        }
    }

    /// Returns the RFC's row of the overview.
    fn row(&self, rfc: &Rfc) -> String {
        let (musts, shoulds) = (&self.musts, &self.shoulds);
        format!(
            "| [{0}]({1}.md) | {2} | {3} | {4} | {5} | {6} | {7} | {8} |\n",
            if rfc.is_draft() { "draft".to_owned() } else { rfc.name() },
            rfc.stem(),
            rfc.list.title,
            musts.all,
            musts.unmet,
            shoulds.all,
            shoulds.unmet,
            musts.not_applicable + shoulds.not_applicable,
            musts.broken + shoulds.broken,
        )
    }
}

fn overview(rows: &str) -> String {
    format!(
        "# Requirements of the RFCs\n\n\
         Generated by `cargo xtask generate`; do not edit. Each page lists every MUST, MUST NOT, SHOULD and SHOULD NOT of an RFC, with \
         the\ncode that meets it and the tests that notice if the code does not. REQUIRED and SHALL count as MUST, RECOMMENDED as \
         SHOULD.\n\n\
         | RFC | about | MUST, MUST NOT | of these unmet | SHOULD, SHOULD NOT | of these unmet | not applicable | with a fault that a \
         marked test notices |\n|---|---|---|---|---|---|---|---|\n{rows}"
    )
}

/// Returns the page of an RFC, and removes its marks from `places`.
fn render(rfc: &Rfc, places: &mut BTreeMap<String, Places>, faults: &BTreeMap<String, usize>) -> (String, Counts) {
    let mut body = String::new();
    let mut counts = Counts::default();
    for section in &rfc.list.section {
        let _ = write!(body, "\n## {} {}\n\n", section.number, section.title);
        body.push_str("| id | level | requirement, in short | code | test | faults |\n|---|---|---|---|---|---|\n");
        for (id, requirement) in rfc.of(section) {
            let found = places.remove(&id).unwrap_or_default();
            let broken = faults.get(&id).copied().unwrap_or(0);
            let (code, tests) = counts.of(requirement.level).add(requirement, &found, broken);
            let _ = writeln!(
                body,
                "| {} | {} | {} | {code} | {tests} | {} |",
                id.trim_start_matches(rfc.number.as_str()).trim_start_matches(':'),
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
    let page = format!(
        "# Requirements of {4}\n\n\
         Generated by `cargo xtask generate` from `{1}` and the marks `[{0}:SECTION-N]` in the sources; do not edit.\n\
         Each MUST and SHOULD is numbered by its section and its order there, in our own words; the {5}'s text is authoritative.\n\
         A dash means that no mark was found, not that the rule is broken. The last column counts the faults in `xtask/faults`: \
         pieces of broken\ncode with which a marked test fails (`cargo xtask faults`).\n\n\
         | level | all | not applicable | unmet | marked code | marked test | faults that a marked test notices |\n\
         |---|---|---|---|---|---|---|\n{2}{3}{body}",
        rfc.number,
        rfc.path("toml"),
        counts.musts.line("MUST, MUST NOT"),
        counts.shoulds.line("SHOULD, SHOULD NOT"),
        rfc.name(),
        if rfc.is_draft() { "draft" } else { "RFC" }
    );
    (page, counts)
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
        let places = BTreeMap::from([("9260:9.9-1".to_owned(), Places::default())]);
        assert!(all_known(&places).is_err_and(|e| e.contains("9260:9.9-1")));
    }

    #[test]
    fn a_page_takes_the_marks_and_faults_of_its_own_rfc() {
        let list =
            "[[section]]\nnumber = \"3.5\"\ntitle = \"Sender\"\nrequirement = [{ level = \"MUST\", text = \"acts\" }]";
        let rfc = Rfc {
            number: "3758".to_owned(),
            list: toml::from_str(list).unwrap(),
        };
        let mut places = BTreeMap::new();
        for (id, file) in [("3758:3.5-1", "a.rs"), ("9260:3.5-1", "b.rs")] {
            let code = vec![file.to_owned()];
            places.insert(
                id.to_owned(),
                Places {
                    code,
                    tests: Vec::new(),
                },
            );
        }
        let faults = BTreeMap::from([("3758:3.5-1".to_owned(), 2), ("9260:3.5-1".to_owned(), 5)]);
        let (page, counts) = render(&rfc, &mut places, &faults);
        assert!(page.contains("| 3.5-1 | MUST | acts | a.rs | - | 2 |"), "{page}");
        assert_eq!((counts.musts.all, counts.musts.broken, counts.shoulds.all), (1, 1, 0));
        assert_eq!(places.keys().collect::<Vec<_>>(), ["9260:3.5-1"]);
    }
}
