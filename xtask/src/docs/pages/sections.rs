//! The generated parts of the pages of schemes and parts: source, plot, parameters, snippets, studies.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::inline::{cell, toml};
use super::super::reference::Examples;
use super::plots::{Figures, Network};
use super::registry::{PartRow, Registry, Scheme, Slot};
use super::uses::{Key, Uses, slot_named};
use crate::chore::Outcome;

impl Scheme {
    pub(super) fn section(&self, registry: &Registry, uses: &Uses) -> String {
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
    pub(super) fn table(&self) -> String {
        let mut text = "\n| part | rule | source |\n|---|---|---|\n".to_owned();
        for part in &self.parts {
            let (name, summary, source) = (&part.name, cell(&part.summary), cell(&part.source));
            let _ = writeln!(text, "| [`{name}`]({name}.md) | {summary} | {source} |");
        }
        text + "\n"
    }
}

impl PartRow {
    pub(super) fn section(
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
        let field = slot_named(&slot.slot).unwrap_or("scheme");
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

fn sentence(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}

/// Returns a JSON value as TOML on one line.
fn inline(json: &str) -> String {
    serde_json::from_str(json).map_or_else(|_| json.to_owned(), |value| toml(&value))
}
