//! The generated parts of the pages in `docs/schemes` and `docs/parts`: source, parameters, snippets, studies, plots; the lists of all
//! schemes and parts; and the figures of the tutorials. What is written by hand stays: it lies outside of the two marks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::generate::{read, update, whimbrel};
use crate::inline::{cell, toml};
use crate::plots::{Figures, Network, figure, plot};
use crate::reference::Examples;
use crate::uses::{Key, Uses};
use crate::{Outcome, root};

const BEGIN: &str = "<!-- generated -->\n";
const END: &str = "<!-- end -->\n";

/// The scenario of the plots of schemes, and the swept field.
const COMMON: &str = "examples/every-scheme.toml";
const SCHEME_FIELD: &str = "flow.bulk.sctp.scheme";

/// Figures of tutorials: the scenario, the file that `whimbrel plot` writes, the file in `docs/tutorials`.
const FIGURES: &[(&str, &str, &str)] = &[
    ("examples/lossy-link.toml", "goodput_mbps.svg", "start.svg"),
    (
        "examples/compare-schemes.toml",
        "goodput_mbps.svg",
        "compare-schemes.svg",
    ),
    (
        "examples/home-network.toml",
        "sctp.scheme=standard/seed-1/goodput.svg",
        "your-topology-standard.svg",
    ),
    (
        "examples/home-network.toml",
        "sctp.scheme=multipath/seed-1/goodput.svg",
        "your-topology-multipath.svg",
    ),
    ("examples/cellular-trace.toml", "the run/queue.svg", "your-trace.svg"),
];

/// What `whimbrel schemes --json` prints.
#[derive(Deserialize)]
struct Registry {
    schemes: Vec<Scheme>,
    slots: Vec<Slot>,
}

#[derive(Deserialize)]
struct Scheme {
    name: String,
    summary: String,
    source: String,
    /// The name of the part in each slot.
    parts: BTreeMap<String, String>,
    toml: String,
}

#[derive(Deserialize)]
struct Slot {
    slot: String,
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    name: String,
    summary: String,
    source: String,
    parameters: Vec<Parameter>,
}

#[derive(Deserialize)]
struct Parameter {
    name: String,
    /// As JSON; none if it has no default.
    default: Option<String>,
    meaning: String,
}

/// A file whose generated part belongs between the marks.
struct Generated {
    name: String,
    text: String,
}

/// Writes the generated parts, or lists the files in which they are not current.
pub(crate) fn pages(check: bool, stale: &mut Vec<String>) -> Outcome {
    let text = whimbrel(&["schemes", "--json"])?;
    let registry: Registry = serde_json::from_str(&text).map_err(|e| format!("whimbrel schemes --json: {e}"))?;
    let uses = Uses::of_studies()?;
    let examples = Examples::read()?;
    let plots = tempfile::tempdir().map_err(|e| format!("no folder for plots: {e}"))?;
    let runs = Runs::of(&plot(COMMON, &[], plots.path())?)?;
    let slots = registry.slots.iter();
    let parts = slots.flat_map(|slot| slot.parts.iter().map(|part| (slot.slot.as_str(), part.name.as_str())));
    let figures = Figures::draw(parts)?;
    let mut pages = vec![Generated {
        name: "docs/schemes/README.md".to_owned(),
        text: runs.table(&registry)?,
    }];
    pages.extend(registry.schemes.iter().map(|scheme| Generated {
        name: format!("docs/schemes/{}.md", scheme.name),
        text: scheme.section(&registry, &uses),
    }));
    for slot in &registry.slots {
        pages.push(Generated {
            name: format!("docs/parts/{}/README.md", slot.slot),
            text: slot.table(),
        });
        for part in &slot.parts {
            pages.push(Generated {
                name: format!("docs/parts/{}/{}.md", slot.slot, part.name),
                text: part.section(slot, &registry, &uses, &examples, &figures)?,
            });
        }
    }
    complete(&registry, &pages)?;
    for page in &pages {
        let old = read(&root().join(&page.name))?.unwrap_or_default();
        update(&page.name, &inserted(&page.name, &old, &page.text)?, check, stale)?;
    }
    for scheme in &registry.schemes {
        let figure = figure(plots.path(), &format!("sctp.scheme={}/seed-1/cwnd.svg", scheme.name))?;
        update(&format!("docs/schemes/{}.svg", scheme.name), &figure, check, stale)?;
    }
    for (slot, part, figure) in figures.all() {
        update(&format!("docs/parts/{slot}/{part}.svg"), figure, check, stale)?;
    }
    tutorials(check, stale)
}

/// Returns the text with other content between the marks.
fn inserted(name: &str, old: &str, text: &str) -> Outcome<String> {
    let begin = old.find(BEGIN).map(|at| at + BEGIN.len());
    let end = old.find(END);
    match begin.zip(end).filter(|(begin, end)| begin <= end) {
        Some((begin, end)) => Ok(format!("{}{text}{}", &old[..begin], &old[end..])),
        None => Err(format!(
            "{name} needs the lines `{}` and `{}`",
            BEGIN.trim(),
            END.trim()
        )),
    }
}

/// Checks that each scheme and part has a page, and that no page is left over.
fn complete(registry: &Registry, pages: &[Generated]) -> Outcome {
    let expected: BTreeSet<&str> = pages.iter().map(|page| page.name.as_str()).collect();
    let slots = registry.slots.iter().map(|slot| format!("docs/parts/{}", slot.slot));
    let mut there = BTreeSet::new();
    for folder in slots.chain(["docs/schemes".to_owned()]) {
        let entries = std::fs::read_dir(root().join(&folder)).map_err(|e| format!("cannot read {folder}: {e}"))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        there.extend(
            names
                .filter(|name| name.ends_with(".md"))
                .map(|name| format!("{folder}/{name}")),
        );
    }
    let missing: Vec<_> = expected
        .iter()
        .filter(|name| !there.contains(**name))
        .copied()
        .collect();
    let over: Vec<_> = there
        .iter()
        .filter(|name| !expected.contains(name.as_str()))
        .cloned()
        .collect();
    match (missing.as_slice(), over.as_slice()) {
        ([], []) => Ok(()),
        ([], over) => Err(format!("pages of nothing that is registered: {}", over.join(", "))),
        (missing, _) => Err(format!(
            "pages are missing: {}; docs/tutorials/add-a-discriminator.md says what belongs there",
            missing.join(", ")
        )),
    }
}

impl Scheme {
    fn section(&self, registry: &Registry, uses: &Uses) -> String {
        let mut text = format!("\n## Source\n\n{}\n\n## Plot\n\n", sentence(&self.source));
        let _ = writeln!(
            text,
            "![Congestion windows of both paths over time with {}]({}.svg)\n",
            self.name, self.name
        );
        let _ = writeln!(
            text,
            "cwnd, ssthresh and bytes in flight of both paths in [the common scenario](README.md#all-of-them-in-the-same-network): 1 % of \
             random loss, the first path is down from 20 s to 24 s.\n"
        );
        text.push_str("## Parts\n\n| slot | part |\n|---|---|\n");
        for slot in &registry.slots {
            let part = self.parts.get(&slot.slot).map_or("", String::as_str);
            let _ = writeln!(
                text,
                "| `{}` | [`{part}`](../parts/{}/{part}.md) |",
                slot.slot, slot.slot
            );
        }
        let toml = self
            .toml
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect::<Vec<_>>()
            .join("\n");
        let _ = writeln!(
            text,
            "\nThe same as scenario text, to be copied behind a `[[flow]]` and changed:\n\n```toml\n{toml}\n```\n"
        );
        studies(&mut text, uses, &[("scheme", self.name.clone())], "../..");
        text
    }
}

impl Slot {
    fn table(&self) -> String {
        let mut text = "\n| part | rule | source |\n|---|---|---|\n".to_owned();
        for part in &self.parts {
            let (name, summary, source) = (&part.name, cell(&part.summary), cell(&part.source));
            let _ = writeln!(text, "| [`{name}`]({name}.md) | {summary} | {source} |");
        }
        text + "\n"
    }
}

impl Part {
    fn section(
        &self,
        slot: &Slot,
        registry: &Registry,
        uses: &Uses,
        examples: &Examples,
        figures: &Figures,
    ) -> Outcome<String> {
        let mut text = format!("\n## Source\n\n{}\n\n", sentence(&self.source));
        let alike = figures.alike(&slot.slot, &self.name);
        text += &Network::of(&slot.slot)?.section(&slot.slot, &self.name, &alike);
        text += "## Parameters\n\n";
        if self.parameters.is_empty() {
            text.push_str("None.\n\n");
        } else {
            text.push_str("| parameter | default | meaning |\n|---|---|---|\n");
            for parameter in &self.parameters {
                let default = parameter
                    .default
                    .as_deref()
                    .map_or("absent".to_owned(), |json| format!("`{}`", inline(json)));
                let _ = writeln!(
                    text,
                    "| `{}` | {default} | {} |",
                    parameter.name,
                    cell(&parameter.meaning)
                );
            }
            text.push('\n');
        }
        for snippet in self.snippets(&slot.slot, examples)? {
            let beside = examples.beside(&slot.slot, &self.name);
            let _ = writeln!(text, "```toml\n[flow.sctp]\n{beside}{snippet}\n```\n");
        }
        let schemes = registry
            .schemes
            .iter()
            .filter(|scheme| scheme.parts.get(&slot.slot) == Some(&self.name));
        let up = "../../schemes";
        let schemes: Vec<_> = schemes.map(|scheme| &scheme.name).collect();
        if !schemes.is_empty() {
            let links: Vec<_> = schemes
                .iter()
                .map(|name| format!("[`{name}`]({up}/{name}.md)"))
                .collect();
            let _ = writeln!(text, "## Schemes with this part\n\n{}\n", links.join(", "));
        }
        let field = crate::uses::slot(&slot.slot).unwrap_or("scheme");
        let mut keys: Vec<Key> = vec![(field, self.name.clone())];
        keys.extend(schemes.into_iter().map(|name| ("scheme", name.clone())));
        studies(&mut text, uses, &keys, "../../..");
        Ok(text)
    }

    /// Returns the part as it stands in a scenario: with its defaults, and with the parameters that have none.
    fn snippets(&self, slot: &str, examples: &Examples) -> Outcome<Vec<String>> {
        let parameters = self.parameters.iter();
        let set: Vec<_> = parameters
            .filter_map(|parameter| Some(format!("{} = {}", parameter.name, inline(parameter.default.as_ref()?))))
            .collect();
        let mut snippets = vec![if set.is_empty() {
            format!("{slot} = \"{}\"", self.name)
        } else {
            format!("{slot} = {{ kind = \"{}\", {} }}", self.name, set.join(", "))
        }];
        let given = examples.of_part(slot, &self.name);
        let mut without = self.parameters.iter().filter(|parameter| parameter.default.is_none());
        if let Some(missing) =
            without.find(|parameter| !given.iter().any(|values| values.contains_key(&parameter.name)))
        {
            return Err(format!(
                "docs/parts/{slot}/{}.md: the parameter `{}` has no example: give one in xtask/reference.toml",
                self.name, missing.name
            ));
        }
        for values in given {
            let mut table = values.clone();
            table.insert("kind".to_owned(), self.name.clone().into());
            snippets.push(format!("{slot} = {}", toml(&table.into())));
        }
        Ok(snippets)
    }
}

/// Writes what studies found about the first of `keys`, and which studies use any of them.
fn studies(text: &mut String, uses: &Uses, keys: &[Key], up: &str) {
    text.push_str("## Studies\n\n");
    let link = |study: &String| format!("[{study}]({up}/studies/{study}/README.md)");
    let findings = uses.findings(&keys[0]);
    if !findings.is_empty() {
        text.push_str("Claims about it, with the outcomes that are stored:\n\n| study | claim | paper | ours | class |\n|---|---|---|---|---|\n");
        for finding in findings {
            let cells = [&finding.claim, &finding.paper, &finding.ours, &finding.class].map(|words| cell(words));
            let _ = writeln!(text, "| {} | {} |", link(&finding.study), cells.join(" | "));
        }
        text.push('\n');
    }
    let users: BTreeSet<&String> = keys.iter().flat_map(|key| uses.studies(key)).collect();
    if users.is_empty() {
        text.push_str("No study uses it yet.\n\n");
    } else {
        let links: Vec<_> = users.into_iter().map(link).collect();
        let by = if keys.len() > 1 {
            "Studies that use it, by itself or by a scheme"
        } else {
            "Studies that use it"
        };
        let _ = writeln!(text, "{by}: {}.\n", links.join(", "));
    }
}

/// The runs of the common scenario.
struct Runs {
    points: BTreeMap<String, Json>,
}

impl Runs {
    fn of(json: &str) -> Outcome<Self> {
        let run: Json = serde_json::from_str(json).map_err(|e| format!("{COMMON}: {e}"))?;
        let points = run["points"].as_array().into_iter().flatten();
        let named = |point: &Json| {
            Some((
                point["params"][SCHEME_FIELD].as_str()?.to_owned(),
                point["metrics"].clone(),
            ))
        };
        Ok(Runs {
            points: points.filter_map(named).collect(),
        })
    }

    fn table(&self, registry: &Registry) -> Outcome<String> {
        let mut text =
            "\n| scheme | rule | goodput, Mbit/s | delay p95, ms | retransmissions | timeouts | T-R ratio |\n\
                        |---|---|--:|--:|--:|--:|--:|\n"
                .to_owned();
        for scheme in &registry.schemes {
            let name = &scheme.name;
            let metrics = self.points.get(name);
            let metrics = metrics.ok_or_else(|| format!("the sweep of {COMMON} lacks the scheme {name}"))?;
            let value = |metric: &str| metrics[metric]["mean"].as_f64().unwrap_or(f64::NAN);
            let _ = writeln!(
                text,
                "| [`{name}`]({name}.md) | {} | {:.2} | {:.0} | {:.0} | {:.0} | {:.3} |",
                cell(&scheme.summary),
                value("goodput_mbps"),
                value("delay_p95_ms"),
                value("retransmissions"),
                value("timeouts"),
                value("tr_ratio"),
            );
        }
        Ok(text + "\n")
    }
}

fn tutorials(check: bool, stale: &mut Vec<String>) -> Outcome {
    let mut drawn: BTreeMap<&str, tempfile::TempDir> = BTreeMap::new();
    for (scenario, plotted, file) in FIGURES {
        if !drawn.contains_key(scenario) {
            let folder = tempfile::tempdir().map_err(|e| format!("no folder for figures: {e}"))?;
            plot(scenario, &[], folder.path())?;
            drawn.insert(scenario, folder);
        }
        let text = figure(drawn[scenario].path(), plotted)?;
        update(&format!("docs/tutorials/{file}"), &text, check, stale)?;
    }
    Ok(())
}

fn sentence(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}

/// Returns a JSON value as TOML on one line.
fn inline(json: &str) -> String {
    serde_json::from_str(json).map_or_else(|_| json.to_owned(), |value| toml(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_only_what_lies_between_the_marks() {
        let old = "# Page\n\n<!-- generated -->\nold\n<!-- end -->\nafter\n";
        let new = inserted("page", old, "new\n").unwrap();
        assert_eq!(new, "# Page\n\n<!-- generated -->\nnew\n<!-- end -->\nafter\n");
        assert!(inserted("page", "# Page\n", "new\n").is_err());
    }
}
