//! What the studies use and find: for each scheme and part the studies that use it, and the claims about it with their outcomes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value as Json;
use toml::Value as Toml;

use super::super::command::whimbrel;
use crate::chore::{Outcome, root};
use crate::files::{entries, read};

/// The fields that name a scheme or a part.
const SLOTS: [&str; 6] = [
    "scheme",
    "discriminator",
    "window",
    "distribution",
    "coupling",
    "path_policy",
];

/// A slot and a name: `("window", "cubic")`.
pub(super) type Key = (&'static str, String);

/// A claim about a scheme or a part.
pub(super) struct Finding {
    pub(super) study: String,
    pub(super) claim: String,
    pub(super) paper: String,
    pub(super) ours: String,
    pub(super) class: String,
}

/// The studies by what they use and what their claims are about.
#[derive(Default)]
pub(super) struct Uses {
    studies: BTreeMap<Key, BTreeSet<String>>,
    findings: BTreeMap<Key, Vec<Finding>>,
}

impl Uses {
    pub(super) fn of_studies() -> Outcome<Self> {
        let mut uses = Uses::default();
        let text = whimbrel(&["study", "results", "--json"])?;
        let outcomes: Vec<Json> =
            serde_json::from_str(&text).map_err(|e| format!("whimbrel study results --json: {e}"))?;
        let studies = entries(&root().join("studies"))?;
        for study in studies.iter().filter(|path| path.join("study.toml").exists()) {
            uses.add(study, &outcomes)?;
        }
        Ok(uses)
    }

    /// Returns the studies that use it, by their folders.
    pub(super) fn studies(&self, key: &Key) -> impl Iterator<Item = &String> {
        self.studies.get(key).into_iter().flatten()
    }

    pub(super) fn findings(&self, key: &Key) -> &[Finding] {
        self.findings.get(key).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, folder: &Path, outcomes: &[Json]) -> Outcome {
        let id = folder.file_name().unwrap_or_default().display().to_string();
        let study = parse_toml(&folder.join("study.toml"))?;
        let (mut used, mut labels) = (BTreeSet::new(), Labels::default());
        collect(&study, &mut used);
        for scenario in array(&study, "scenario") {
            let file = scenario.get("file").and_then(Toml::as_str).unwrap_or("scenario.toml");
            let file = parse_toml(&folder.join(file))?;
            collect(&file, &mut used);
            labels.take_sweep(&file);
            array(scenario, "axis").for_each(|axis| labels.take_axis(axis));
        }
        for key in used {
            self.studies.entry(key).or_default().insert(id.clone());
        }
        let outcome = outcomes.iter().find(|outcome| outcome["study"] == *id);
        let outcomes = outcome.and_then(|outcome| outcome["claims"].as_array());
        let outcomes = outcomes.ok_or_else(|| format!("`study results` has no outcomes of the study {id}"))?;
        for claim in array(&study, "claim") {
            let name = claim.get("id").and_then(Toml::as_str);
            let outcome = outcomes.iter().find(|outcome| outcome["id"].as_str() == name);
            let outcome = outcome.ok_or_else(|| format!("`study results` has no claim {name:?} of the study {id}"))?;
            self.add_claim(&id, claim, outcome, &labels);
        }
        Ok(())
    }

    /// Adds a claim that was run to what its selection fixes, and to what its points are about where the selection leaves that free.
    fn add_claim(&mut self, study: &str, claim: &Toml, outcome: &Json, labels: &Labels) {
        if outcome["verdict"].is_null() {
            return;
        }
        let at = claim
            .get("check")
            .and_then(|check| check.get("of"))
            .and_then(|of| of.get("at"));
        let mut ours: BTreeMap<&Key, Vec<&Json>> = BTreeMap::new();
        for point in outcome["points"].as_array().into_iter().flatten() {
            for pair in point["at"].as_array().into_iter().flatten() {
                for key in labels.keys(pair[0].as_str(), pair[1].as_str()) {
                    ours.entry(key).or_default().push(point);
                }
            }
        }
        for (axis, value) in at.and_then(Toml::as_table).into_iter().flatten() {
            for key in names(value).flat_map(|label| labels.keys(Some(axis), Some(label))) {
                ours.entry(key).or_default();
            }
        }
        for (key, points) in ours {
            let figure = if points.is_empty() {
                plain(&outcome["text"])
            } else {
                figures(&points)
            };
            self.findings.entry(key.clone()).or_default().push(Finding {
                study: study.to_owned(),
                claim: plain(&outcome["claim"]),
                paper: plain(&outcome["paper"]),
                ours: figure,
                class: plain(&outcome["verdict"]),
            });
        }
    }
}

/// What the values of axes stand for.
#[derive(Default)]
struct Labels {
    keys: BTreeMap<(String, String), BTreeSet<Key>>,
}

impl Labels {
    fn keys(&self, axis: Option<&str>, label: Option<&str>) -> impl Iterator<Item = &Key> {
        let place = axis
            .zip(label)
            .map(|(axis, label)| (last(axis).to_owned(), label.to_owned()));
        place.and_then(|place| self.keys.get(&place)).into_iter().flatten()
    }

    fn take_sweep(&mut self, scenario: &Toml) {
        for (field, values) in scenario.get("sweep").and_then(Toml::as_table).into_iter().flatten() {
            let slot = slot_of(field);
            for (slot, name) in slot
                .into_iter()
                .flat_map(|slot| names(values).map(move |name| (slot, name)))
            {
                let place = (last(field).to_owned(), name.to_owned());
                self.keys.entry(place).or_default().insert((slot, name.to_owned()));
            }
        }
    }

    fn take_axis(&mut self, axis: &Toml) {
        let Some(axis_name) = axis.get("name").and_then(Toml::as_str) else {
            return;
        };
        for value in array(axis, "values") {
            let Some(label) = names(value).next() else { continue };
            let mut keys = BTreeSet::new();
            value.get("set").into_iter().for_each(|set| collect(set, &mut keys));
            keys.extend(array(axis, "fields").filter_map(|field| Some((slot_of(field.as_str()?)?, label.to_owned()))));
            let place = (last(axis_name).to_owned(), label.to_owned());
            self.keys.entry(place).or_default().extend(keys);
        }
    }
}

/// Collects every scheme and part that a table names, at any depth.
fn collect(value: &Toml, found: &mut BTreeSet<Key>) {
    match value {
        Toml::Table(table) => {
            for (field, inner) in table {
                if let Some(slot) = slot_of(field) {
                    found.extend(names(inner).map(|name| (slot, name.to_owned())));
                }
                collect(inner, found);
            }
            for slot in array(value, "fields").filter_map(|field| slot_of(field.as_str()?)) {
                found.extend(
                    array(value, "values")
                        .flat_map(names)
                        .map(|name| (slot, name.to_owned())),
                );
            }
        }
        Toml::Array(values) => values.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

/// Returns the names in a field: one, several, that of a table with its kind, or that of a value with changes.
fn names(value: &Toml) -> Box<dyn Iterator<Item = &str> + '_> {
    match value {
        Toml::String(name) => Box::new(std::iter::once(name.as_str())),
        Toml::Array(values) => Box::new(values.iter().flat_map(names)),
        Toml::Table(table) => Box::new(["kind", "is"].into_iter().filter_map(|key| table.get(key)?.as_str())),
        _ => Box::new(std::iter::empty()),
    }
}

/// Returns the slot with this name.
pub(super) fn slot_named(name: &str) -> Option<&'static str> {
    SLOTS.into_iter().find(|slot| *slot == name)
}

fn slot_of(field: &str) -> Option<&'static str> {
    slot_named(last(field))
}

fn last(field: &str) -> &str {
    field.rsplit('.').next().unwrap_or(field)
}

fn array<'v>(value: &'v Toml, key: &str) -> impl Iterator<Item = &'v Toml> {
    value.get(key).and_then(Toml::as_array).into_iter().flatten()
}

fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the figure of one point with its interval, or the range of several.
fn figures(points: &[&Json]) -> String {
    let mean = |point: &Json| point["mean"].as_f64().unwrap_or(f64::NAN);
    match points {
        [point] => match point["ci95"].as_f64() {
            Some(ci95) if ci95 > 0.0 => {
                let decimals = (1.0 - ci95.log10().floor()).clamp(0.0, 4.0) as usize;
                format!("{:.decimals$} ± {ci95:.decimals$}", mean(point))
            }
            _ => short(mean(point)),
        },
        _ => {
            let means = || points.iter().map(|point| mean(point));
            let (least, most) = (
                means().fold(f64::INFINITY, f64::min),
                means().fold(f64::NEG_INFINITY, f64::max),
            );
            format!("{} to {} at {} points", short(least), short(most), points.len())
        }
    }
}

/// Returns about three significant digits.
fn short(value: f64) -> String {
    let decimals = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        3
    };
    format!("{value:.decimals$}")
}

fn parse_toml(path: &Path) -> Outcome<Toml> {
    toml::from_str(&read(path)?).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_has_the_class_and_the_words_of_the_studys_page() {
        let claim: Toml =
            toml::from_str("id = \"c\"\ncheck = { kind = \"bounds\", of = { at = { scheme = \"pf\" } } }").unwrap();
        let mut labels = Labels::default();
        labels.take_axis(
            &toml::from_str("name = \"scheme\"\nfields = [\"flow.a.sctp.scheme\"]\nvalues = [\"pf\"]").unwrap(),
        );
        let mut uses = Uses::default();
        let outcome = |verdict: Json| serde_json::json!({ "claim": "now", "paper": 1, "text": "2", "verdict": verdict, "points": [] });
        uses.add_claim("a", &claim, &outcome(Json::Null), &labels);
        let key = ("scheme", "pf".to_owned());
        assert!(uses.findings(&key).is_empty(), "it was not run");
        uses.add_claim("a", &claim, &outcome("vacuous".into()), &labels);
        let finding = &uses.findings(&key)[0];
        assert_eq!(
            (finding.claim.as_str(), finding.ours.as_str(), finding.class.as_str()),
            ("now", "2", "vacuous")
        );
    }

    #[test]
    fn finds_what_a_study_uses_and_what_its_labels_stand_for() {
        let study: Toml = toml::from_str(
            r#"
            set = { "flow.a.sctp.window" = { kind = "cubic", beta = 0.5 } }
            [[axis]]
            name = "rule"
            values = [{ is = "raw", set = { "flow.a.sctp.discriminator" = { kind = "jitter" } } }]
            [[axis]]
            name = "scheme"
            fields = ["flow.a.sctp.scheme"]
            values = ["pf", "cmt"]
            "#,
        )
        .unwrap();
        let mut used = BTreeSet::new();
        collect(&study, &mut used);
        let key = |slot, name: &str| (slot, name.to_owned());
        assert_eq!(
            used.into_iter().collect::<Vec<_>>(),
            [
                key("discriminator", "jitter"),
                key("scheme", "cmt"),
                key("scheme", "pf"),
                key("window", "cubic")
            ]
        );
        let mut labels = Labels::default();
        array(&study, "axis").for_each(|axis| labels.take_axis(axis));
        let about = |axis, label| labels.keys(Some(axis), Some(label)).cloned().collect::<Vec<_>>();
        assert_eq!(about("rule", "raw"), [key("discriminator", "jitter")]);
        assert_eq!(about("scheme", "pf"), [key("scheme", "pf")]);
        assert_eq!(about("scheme", "raw"), []);
    }
}
