//! The generated parts of the pages in `docs/schemes` and `docs/parts`: source, parameters, snippets, studies, plots; the lists of all
//! schemes and parts; and the figures of the tutorials. What is written by hand stays: it lies outside of the two marks.

mod plots;
mod registry;
mod sections;
mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value as Json;

use super::command::whimbrel;
use super::inline::cell;
use super::marked::inserted;
use super::reference::Examples;
use crate::chore::{Outcome, root};
use crate::files::{entries, has_extension, read};
use crate::generated::Generated;
use plots::{Figures, figure, plot};
use registry::Registry;
use uses::Uses;

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

/// A file, and its generated part.
struct Page {
    name: String,
    text: String,
}

/// Writes the generated parts, or lists the files in which they are not current.
pub(super) fn pages(generated: &mut Generated) -> Outcome {
    let text = whimbrel(&["schemes", "--json"])?;
    let registry: Registry = serde_json::from_str(&text).map_err(|e| format!("whimbrel schemes --json: {e}"))?;
    let uses = Uses::of_studies()?;
    let examples = Examples::read()?;
    let plots = tempfile::tempdir().map_err(|e| format!("no folder for plots: {e}"))?;
    let runs = Runs::of(&plot(COMMON, &[], plots.path())?)?;
    let slots = registry.slots.iter();
    let parts = slots.flat_map(|slot| slot.parts.iter().map(|part| (slot.slot.as_str(), part.name.as_str())));
    let figures = Figures::draw(parts)?;
    let mut pages = vec![Page {
        name: "docs/schemes/README.md".to_owned(),
        text: runs.table(&registry)?,
    }];
    pages.extend(registry.schemes.iter().map(|scheme| Page {
        name: format!("docs/schemes/{}.md", scheme.name),
        text: scheme.section(&registry, &uses),
    }));
    for slot in &registry.slots {
        pages.push(Page {
            name: format!("docs/parts/{}/README.md", slot.slot),
            text: slot.table(),
        });
        for part in &slot.parts {
            pages.push(Page {
                name: format!("docs/parts/{}/{}.md", slot.slot, part.name),
                text: part.section(slot, &registry, &uses, &examples, &figures)?,
            });
        }
    }
    complete(&registry, &pages)?;
    for page in &pages {
        let old = read(&root().join(&page.name))?;
        generated.update(&page.name, &inserted(&page.name, &old, &page.text)?)?;
    }
    for scheme in &registry.schemes {
        let figure = figure(plots.path(), &format!("sctp.scheme={}/seed-1/cwnd.svg", scheme.name))?;
        generated.update(&format!("docs/schemes/{}.svg", scheme.name), &figure)?;
    }
    for (slot, part, figure) in figures.all() {
        generated.update(&format!("docs/parts/{slot}/{part}.svg"), figure)?;
    }
    tutorials(generated)
}

/// Checks that each scheme and part has a page, and that no page is left over.
fn complete(registry: &Registry, pages: &[Page]) -> Outcome {
    let expected: BTreeSet<&str> = pages.iter().map(|page| page.name.as_str()).collect();
    let slots = registry.slots.iter().map(|slot| format!("docs/parts/{}", slot.slot));
    let mut there = BTreeSet::new();
    for folder in slots.chain(["docs/schemes".to_owned()]) {
        let pages = entries(&root().join(&folder))?;
        let pages = pages.iter().filter(|path| has_extension(path, "md"));
        there.extend(pages.map(|path| format!("{folder}/{}", path.file_name().unwrap_or_default().display())));
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

fn tutorials(generated: &mut Generated) -> Outcome {
    let mut drawn: BTreeMap<&str, tempfile::TempDir> = BTreeMap::new();
    for (scenario, plotted, file) in FIGURES {
        if !drawn.contains_key(scenario) {
            let folder = tempfile::tempdir().map_err(|e| format!("no folder for figures: {e}"))?;
            plot(scenario, &[], folder.path())?;
            drawn.insert(scenario, folder);
        }
        let text = figure(drawn[scenario].path(), plotted)?;
        generated.update(&format!("docs/tutorials/{file}"), &text)?;
    }
    Ok(())
}
