//! The results of all studies as pages: a summary, and for each study a page with its plots.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use whimbrel_control::Span;

use super::falsify::{Falsified, unmarked};
use super::figures::StudyProblem;
use super::file::{ClaimEntry, ClaimKind, FigureEntry, Per, Selection};
use super::plot::{Titles, plot};
use super::stored::{Class, Kept, KeptClaim, KeptFigure};
use super::verdict::Verdict;
use super::{PlannedScenario, Study, StudyError};
use crate::metric::metrics;
use crate::text::json_problem;

/// Figures of a study's last full run, as its folder keeps them.
pub(crate) const KEPT: &str = "results.json";

/// A file, by its path below the folder of studies, and its text.
pub type Page = (String, String);

/// Claims by class.
type Counts = BTreeMap<Verdict, usize>;

const MADE: &str = "Made by `cargo xtask generate` from `results.json`: do not edit.";

/// A study with what its last full run left.
struct StudyResult<'s> {
    study: &'s Study,
    kept: Option<Kept>,
    /// Kind and class of each claim, in the order of the file; no class of one that was not run.
    classes: Vec<(ClaimKind, Option<Class>)>,
    /// Seeds and duration of the runs of each scenario: `20 seeds of 310 s`.
    runs: Vec<String>,
    /// Classes under wrong implementations.
    falsified: Vec<Falsified>,
}

/// The pages of all studies: `RESULTS.md`, and for each study `ID/README.md` with its plots.
///
/// # Errors
/// Returns a sentence if stored results cannot be read, or if a check is wrong.
pub fn pages(studies: &[Study]) -> Result<Vec<Page>, String> {
    let outcomes = studies.iter().map(StudyResult::of).collect::<Result<Vec<_>, _>>()?;
    let mut pages = vec![("RESULTS.md".to_owned(), summary(&outcomes))];
    for outcome in &outcomes {
        pages.extend(outcome.pages());
    }
    Ok(pages)
}

/// The stored outcomes of all claims with their classes by the checks of today, for programs: `[{"study", "claims": [{"id", "claim",
/// "kind", "paper", "verdict", "seeds", "text", "points"}]}]`. The verdict of a claim that was not run is null.
///
/// # Errors
/// Returns a sentence if stored results cannot be read, or if a check is wrong.
pub fn outcomes(studies: &[Study]) -> Result<Value, String> {
    let outcomes = studies.iter().map(StudyResult::of).collect::<Result<Vec<_>, _>>()?;
    Ok(outcomes.iter().map(StudyResult::json).collect())
}

/// What was kept of a claim, if it was measured for the claim as it is now.
fn kept_of<'k>(kept: Option<&'k Kept>, claim: &ClaimEntry) -> Option<&'k KeptClaim> {
    let mut claims = kept?.claims.iter();
    claims.find(|kept| kept.id == claim.id && kept.is_of(claim))
}

impl<'s> StudyResult<'s> {
    fn of(study: &'s Study) -> Result<Self, String> {
        let path = study.folder.join(KEPT);
        let kept: Option<Kept> = match std::fs::read_to_string(&path) {
            Ok(kept) => Some(
                serde_json::from_str(&kept).map_err(|error| format!("{}: {}", path.display(), json_problem(&error)))?,
            ),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let planned = study.plan(false).map_err(|error: StudyError| error.to_string())?;
        let classes = study.file.claim.iter().map(|claim| {
            let of = claim.check.of().scenario.as_ref();
            let seeds = planned
                .iter()
                .find(|planned| of.is_none_or(|name| planned.name == *name));
            let seeds = seeds.map_or(1, |planned| planned.scenario.seeds as usize);
            let kept = kept_of(kept.as_ref(), claim);
            let kind = claim.kind.or(study.file.kind).unwrap_or(ClaimKind::Paper);
            let class = kept.map(|kept| kept.class(claim, seeds)).transpose();
            let wrong = |problem: StudyProblem| {
                format!(
                    "{}: claim {}: {}: {}",
                    study.id, claim.id, problem.field, problem.message
                )
            };
            Ok((kind, class.map_err(wrong)?))
        });
        let falsified = study.kept_falsified()?;
        let unmarked = unmarked(&study.file, &falsified);
        if !unmarked.is_empty() {
            return Err(format!("{}: {}", study.id, unmarked.join("; ")));
        }
        Ok(StudyResult {
            classes: classes.collect::<Result<_, String>>()?,
            runs: planned.iter().map(runs).collect(),
            study,
            kept,
            falsified,
        })
    }

    fn count(&self, kind: Option<ClaimKind>) -> Counts {
        let mut counts = Counts::new();
        let classes = self
            .classes
            .iter()
            .filter(|(own, _)| kind.is_none_or(|kind| *own == kind));
        for class in classes.filter_map(|(_, class)| class.as_ref()) {
            *counts.entry(class.verdict).or_default() += 1;
        }
        counts
    }

    fn json(&self) -> Value {
        let claims = self.study.file.claim.iter().zip(&self.classes);
        let claims = claims.map(|(claim, (kind, class))| {
            json!({
                "id": claim.id,
                "claim": claim.claim,
                "kind": kind,
                "paper": claim.paper,
                "verdict": class.as_ref().map(|class| class.verdict),
                "seeds": class.as_ref().and_then(|class| class.seeds?.number()),
                "text": class.as_ref().map(|class| &class.text),
                "points": kept_of(self.kept.as_ref(), claim).map_or(&[][..], |kept| &kept.points),
            })
        });
        json!({ "study": self.study.id, "claims": claims.collect::<Vec<_>>() })
    }

    /// The page of the study, and its plots.
    fn pages(&self) -> Vec<Page> {
        let (of_claims, of_paper) = (self.claim_drawings(), self.paper_drawings());
        let mut page = [
            self.head(),
            self.setup(),
            self.choices(),
            self.claims(),
            self.wrong_implementations(),
        ]
        .concat();
        for (title, drawings) in [("Figures of the paper", &of_paper), ("Plots of claims", &of_claims)] {
            if drawings.is_empty() {
                continue;
            }
            let _ = writeln!(page, "\n## {title}");
            drawings.iter().for_each(|drawing| page.push_str(&drawing.link()));
        }
        let id = &self.study.id;
        let plots = of_claims.into_iter().chain(of_paper);
        let plots = plots.map(|drawing| (format!("{id}/{}.svg", drawing.id), drawing.svg));
        [(format!("{id}/README.md"), page)].into_iter().chain(plots).collect()
    }

    /// Title, description and source, and the command of the last full run.
    fn head(&self) -> String {
        let study = self.study;
        let mut text = format!(
            "# {}\n\n{}\n\n{}. {MADE}",
            study.title(),
            study.description(),
            study.source()
        );
        if let Some(kept) = &self.kept {
            let _ = write!(text, " whimbrel {}: `{}`.", kept.whimbrel, kept.command);
        }
        text
    }

    /// The list of scenarios with their axes and runs.
    fn setup(&self) -> String {
        let mut text = "\n\n## Setup\n\n".to_owned();
        for (scenario, runs) in self.study.file.scenario.iter().zip(&self.runs) {
            let axes: Vec<String> = scenario
                .axis
                .iter()
                .map(|axis| format!("{} ({})", axis.name, axis.values.len()))
                .collect();
            let over = if axes.is_empty() {
                String::new()
            } else {
                format!(": {}", axes.join(" x "))
            };
            let _ = writeln!(text, "- [`{}`]({}){over}; {runs}", scenario.name, scenario.file);
        }
        text
    }

    /// The list of what was chosen, if there is anything.
    fn choices(&self) -> String {
        let mut text = String::new();
        if !self.study.chosen().is_empty() {
            text.push_str("\n## What was chosen where the paper is silent\n\n");
            for chosen in self.study.chosen() {
                let _ = writeln!(text, "- {chosen}");
            }
        }
        text
    }

    /// The table of claims.
    fn claims(&self) -> String {
        let mut text =
            "\n## Claims\n\n| claim | paper | asked for | ours | class | note |\n|---|---|---|---|---|---|\n"
                .to_owned();
        for (claim, (kind, class)) in self.study.file.claim.iter().zip(&self.classes) {
            let cells = self
                .claim_cells(claim, *kind, class.as_ref())
                .map(|cell| cell.replace('|', "\\|").replace('\n', " "));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text
    }

    /// The table of claims under wrong implementations, if there are any.
    fn wrong_implementations(&self) -> String {
        if self.study.file.wrong.is_empty() {
            return String::new();
        }
        let mut text = "\n## Wrong implementations\n\nA claim about the mechanism must fail if the mechanism is wrong. `whimbrel study falsify` runs it so.\n\n\
                        | wrong | claim | class | figures |\n|---|---|---|---|\n"
            .to_owned();
        let rows = self.falsified.iter().map(|row| {
            let claim = self.study.file.claim.iter().find(|claim| claim.id == row.claim);
            let class = match claim.and_then(|claim| claim.no_test.as_ref()) {
                Some(reason) if row.passes() => format!("{}: no test of the mechanism, {reason}", row.verdict),
                _ => row.verdict.clone(),
            };
            [row.wrong.clone(), row.claim.clone(), class, row.text.clone()]
        });
        for cells in rows {
            let cells = cells.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text
    }

    /// The cells of a claim's row in the table.
    fn claim_cells(&self, claim: &ClaimEntry, kind: ClaimKind, class: Option<&Class>) -> [String; 6] {
        let whose = match kind {
            ClaimKind::Reading if self.study.file.kind.is_none() => " (alternative reading)",
            ClaimKind::Own if self.study.file.kind.is_none() => " (our question)",
            _ => "",
        };
        let verdict = class.map_or("not run yet".to_owned(), |class| match class.seeds {
            Some(seeds) => format!("{}: {}", class.verdict.name(), seeds.text()),
            None => class.verdict.name().to_owned(),
        });
        let note = match &claim.vacuous {
            Some(reason) if claim.note.is_empty() => reason.clone(),
            Some(reason) => format!("{reason}; {}", claim.note),
            None => claim.note.clone(),
        };
        [
            format!("{}{whose}", claim.claim),
            crate::text::text(&claim.paper),
            claim.criterion(),
            class.map_or(String::new(), |class| class.text.clone()),
            verdict,
            note,
        ]
    }

    /// The units of the axes, by their names; of the time of snapshots as well.
    fn units(&self) -> Vec<(String, String)> {
        let axes = self.study.file.scenario.iter().flat_map(|scenario| &scenario.axis);
        let named = axes.filter_map(|axis| Some((axis.name.clone(), axis.unit.clone()?)));
        named.chain([("time".to_owned(), "s".to_owned())]).collect()
    }

    /// The plots of the claims that were measured at several points. The table has the figures of the others.
    fn claim_drawings(&self) -> Vec<Drawing<'_>> {
        let units = self.units();
        let drawing = |claim: &'s ClaimEntry| {
            let kept = kept_of(self.kept.as_ref(), claim)?;
            let (of, over) = claim.check.subject();
            let titles = Titles {
                over,
                units: &units,
                values: &title(of),
                beside: beside(of),
            };
            let metric = of.metric.as_deref().unwrap_or_default();
            let share = if of.share_measured { "share of runs with " } else { "" };
            Some(Drawing {
                id: &claim.id,
                svg: plot(&kept.points, &titles)?,
                caption: format!("{share}`{metric}`: {}", claim.claim),
            })
        };
        self.study.file.claim.iter().filter_map(drawing).collect()
    }

    /// The plots of the figures that repeat those of the paper.
    fn paper_drawings(&self) -> Vec<Drawing<'_>> {
        let units = self.units();
        let drawing = |figure: &'s FigureEntry| {
            let is_kept =
                |kept: &&KeptFigure| kept.id == figure.id && kept.is_of(figure.of.as_ref(), figure.over.as_deref());
            let kept = self.kept.as_ref()?.figures.iter().find(is_kept)?;
            let values = match (&figure.of, &figure.snapshot) {
                (Some(of), _) => title(of),
                (None, Some(snapshot)) => snapshot.title(),
                (None, None) => String::new(),
            };
            let titles = Titles {
                over: figure.snapshot.as_ref().map(|_| "time").or(figure.over.as_deref()),
                units: &units,
                values: &values,
                beside: figure.of.as_ref().map_or("the paper", beside),
            };
            Some(Drawing {
                id: &figure.id,
                svg: plot(&kept.points, &titles)?,
                caption: figure.title.clone(),
            })
        };
        self.study.file.figure.iter().filter_map(drawing).collect()
    }
}

/// A plot on the page of a study.
struct Drawing<'s> {
    /// Identifier of its claim or figure.
    id: &'s str,
    svg: String,
    caption: String,
}

impl Drawing<'_> {
    /// Its text on the page.
    fn link(&self) -> String {
        format!("\n![{}]({}.svg)\n\n{}.\n", self.id, self.id, self.caption)
    }
}

/// Seeds and duration of the runs of a scenario.
fn runs(planned: &PlannedScenario) -> String {
    let durations = planned.scenario.points.iter().map(|point| point.config.duration);
    let (least, most) = durations.fold((Span::MAX, Span::ZERO), |(least, most), duration| {
        (least.min(duration), most.max(duration))
    });
    let seeds = match planned.scenario.seeds {
        1 => "1 seed".to_owned(),
        seeds => format!("{seeds} seeds"),
    };
    if least == most {
        format!("{seeds}, runs of {most}")
    } else {
        format!("{seeds}, runs of {least} to {most}")
    }
}

/// What the figures of a selection are, with their unit, for the axis of a plot.
fn title(of: &Selection) -> String {
    let metric = of.metric.as_deref().unwrap_or_default();
    let known = metrics()
        .find(|known| known.name == metric)
        .filter(|_| of.link.is_none());
    let label = known.map_or_else(|| metric.replace('_', " "), |known| known.label.to_owned());
    // A ratio has no unit.
    let bare = label.split(", ").next().unwrap_or(&label);
    let share = of.share_measured.then(|| format!("share of runs with a {bare}"));
    let (label, bare) = match &share {
        Some(share) => (share.clone(), share.as_str()),
        None => (label.clone(), bare),
    };
    let label = of
        .unit
        .as_ref()
        .map_or_else(|| label.clone(), |unit| format!("{bare}, {unit}"));
    match (&of.to, &of.minus, &of.per) {
        _ if of.harm.is_some() => format!("harm, {bare}"),
        (Some(_), _, _) => format!("{bare}, ratio"),
        (None, Some(_), _) => format!("{label}, difference"),
        (None, None, _) if of.unit.is_some() => label,
        (None, None, Per::Number(per)) => format!("{label}, over {per}"),
        (None, None, Per::Points(_)) => format!("{bare}, ratio"),
        (None, None, Per::One) => label,
    }
}

/// What the figures of a selection are compared with.
fn beside(of: &Selection) -> &'static str {
    if of.theory.is_some() { "theory" } else { "the paper" }
}

/// One page: claims by paper and class, and the studies with their links.
fn summary(outcomes: &[StudyResult<'_>]) -> String {
    let mut text = format!(
        "# Results of the studies\n\n{MADE} Classes: `reproduced`, at 90 % of the points or more; `mostly`, at 50 % or more; `direction only`, the \
         sign is right and the size is not; `not`; `inconclusive`, the 95 % interval includes both, and no point clearly fails; `vacuous`, nothing \
         happened that could fail it. Points that are the same runs, because an axis changes nothing there, count once; those that \
         compare runs with themselves do not count.\n"
    );
    for (kind, title) in [
        (ClaimKind::Paper, "Claims of papers"),
        (ClaimKind::Reading, "Alternative readings"),
        (ClaimKind::Own, "Our own questions"),
    ] {
        let mut rows: Vec<(String, Counts)> = Vec::new();
        for outcome in outcomes {
            let counts = outcome.count(Some(kind));
            if counts.is_empty() {
                continue;
            }
            let source = outcome.study.source();
            let paper = source.split([',', ';']).next().unwrap_or(source).to_owned();
            match rows.iter_mut().find(|(known, _)| *known == paper) {
                Some((_, all)) => counts
                    .iter()
                    .for_each(|(verdict, count)| *all.entry(*verdict).or_default() += count),
                None => rows.push((paper, counts)),
            }
        }
        if rows.is_empty() {
            continue;
        }
        let _ = write!(
            text,
            "\n## {title}\n\n| paper | {} |\n|---|{}\n",
            Verdict::ALL.map(Verdict::name).join(" | "),
            "--:|".repeat(6)
        );
        let mut all = Counts::new();
        for (paper, counts) in &rows {
            counts
                .iter()
                .for_each(|(verdict, count)| *all.entry(*verdict).or_default() += count);
            let _ = writeln!(text, "| {paper} | {} |", cells(counts));
        }
        if rows.len() > 1 {
            let _ = writeln!(text, "| all | {} |", cells(&all));
        }
    }
    let _ = write!(
        text,
        "\n## Studies\n\n| study | source | {} |\n|---|---|{}\n",
        Verdict::ALL.map(Verdict::name).join(" | "),
        "--:|".repeat(6)
    );
    for outcome in outcomes {
        let study = outcome.study;
        let counts = outcome.count(None);
        let _ = writeln!(
            text,
            "| [{}]({}/README.md) | {} | {} |",
            study.title(),
            study.id,
            study.source(),
            cells(&counts)
        );
    }
    text.push_str(&falsified(outcomes));
    text
}

/// How many claims were run under wrong implementations, and which of them pass.
fn falsified(outcomes: &[StudyResult<'_>]) -> String {
    let all = || outcomes.iter().flat_map(|outcome| &outcome.falsified);
    let rows = || all().filter(|row| row.was_run());
    let mut text = format!(
        "\n## Wrong implementations\n\nClaims about mechanisms were run with the mechanism off, inverted, or replaced by a coin or by the standard: {} \
         pairs of claim and wrong implementation, {} of which pass. A claim that passes is no test of the mechanism.\n",
        rows().count(),
        rows().filter(|row| row.passes()).count()
    );
    if rows().any(Falsified::passes) {
        text.push_str("\n| study | claim | passes with |\n|---|---|---|\n");
    }
    for outcome in outcomes {
        for row in outcome.falsified.iter().filter(|row| row.passes()) {
            let id = &outcome.study.id;
            let _ = writeln!(text, "| [{id}]({id}/README.md) | {} | {} |", row.claim, row.wrong);
        }
    }
    text
}

fn cells(counts: &Counts) -> String {
    Verdict::ALL
        .map(|verdict| counts.get(&verdict).copied().unwrap_or(0).to_string())
        .join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_the_unit_of_the_figure() {
        let of = |more: &str| {
            let text = format!("{{ \"metric\": \"goodput_mbps\"{more} }}");
            title(&serde_json::from_str(&text).expect("a selection"))
        };
        assert_eq!(of(""), "goodput, Mbit/s");
        assert_eq!(of(", \"per\": 0.008"), "goodput, Mbit/s, over 0.008");
        assert_eq!(of(", \"per\": 0.008, \"unit\": \"kB/s\""), "goodput, kB/s");
        assert_eq!(of(", \"per\": 0.008, \"unit\": \"kB/s\", \"to\": {}"), "goodput, ratio");
    }
}
