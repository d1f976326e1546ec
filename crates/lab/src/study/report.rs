//! What a study says: for programs, and as the table of all studies.

use std::fmt::Write as _;

use serde_json::{Value, json};
use whimbrel_scenario::{visible, visible_lines};

use super::check::{Plotted, Seeds, evaluate, pictured};
use super::figures::Figured;
use super::verdict::Verdict;
use super::{Study, StudyError};

/// The claims of a study and what came out.
#[derive(Clone, Debug)]
pub struct StudyReport {
    /// The study.
    pub study: String,
    /// What it is called.
    pub title: String,
    /// Paper and section, or who asks.
    pub source: String,
    /// What is done.
    pub description: String,
    /// Its claims in the order of the file.
    pub claims: Vec<ClaimReport>,
    /// Figures of the paper: the id, a hash of what was measured, and the points of each.
    pub(crate) figures: Vec<(String, Option<String>, Vec<Plotted>)>,
}

/// A claim and what came out.
#[derive(Clone, Debug)]
pub struct ClaimReport {
    /// Its id.
    pub id: String,
    /// What is said.
    pub claim: String,
    /// The paper's figure: a number or a phrase.
    pub paper: Value,
    /// Ours: a number if the claim is about one figure, otherwise a phrase with the figures.
    pub measured: Value,
    /// Half the width of the 95 % confidence interval of a number over the seeds.
    pub ci95: Option<f64>,
    /// Whether it came out.
    pub verdict: Verdict,
    /// Seeds that would decide it, if it is inconclusive and that is at most 1000.
    pub seeds: Option<usize>,
    /// The metric that it is about; none if it is about several.
    pub metric: Option<String>,
    /// Whether more seeds would decide it.
    pub(crate) too_many: bool,
    /// A hash of what was measured.
    pub(crate) selection: String,
    /// A hash of the check.
    pub(crate) check: String,
    /// Whether its figures are ratios or differences of that metric, or the share of runs that have it.
    pub of: Option<&'static str>,
    /// The axis along which it goes, if it goes along one.
    pub over: Option<String>,
    /// The figures of all points, for plots.
    pub(crate) points: Vec<Plotted>,
    /// Ours in words, with its interval.
    pub text: String,
    /// What there is to say about it.
    pub note: String,
}

pub(super) fn report(study: &Study, data: &Figured<'_>) -> Result<StudyReport, StudyError> {
    let mut claims = Vec::with_capacity(study.file.claim.len());
    let mut problems = Vec::new();
    for (number, claim) in study.file.claim.iter().enumerate() {
        match evaluate(claim, data) {
            Err(problem) => problems.push(study.claim_problem(number, claim, problem, data.thinned)),
            Ok(finding) => {
                // With several points the figure alone would hide where it was found.
                let single = finding.figure.filter(|figure| {
                    [false, true]
                        .iter()
                        .any(|fixed| crate::report::with_interval(figure, *fixed) == finding.text)
                });
                let measured = match single.and_then(|figure| figure.mean) {
                    Some(mean) => json!(mean),
                    None => json!(finding.text),
                };
                claims.push(ClaimReport {
                    id: claim.id.clone(),
                    claim: claim.claim.clone(),
                    paper: claim.paper.clone(),
                    measured,
                    ci95: finding.figure.and_then(|figure| figure.ci95),
                    verdict: finding.verdict,
                    seeds: finding.seeds.and_then(Seeds::number),
                    metric: claim.check.of().metric.clone(),
                    too_many: finding.seeds == Some(Seeds::TooMany),
                    selection: claim.check.of().hash(claim.check.subject().1),
                    check: claim.hash(),
                    of: match (&claim.check.of().to, &claim.check.of().minus) {
                        _ if claim.check.of().harm.is_some() => Some("harm"),
                        (Some(_), _) => Some("ratio"),
                        (None, Some(_)) => Some("difference"),
                        (None, None) if claim.check.of().share_measured => Some("share of runs"),
                        (None, None) => None,
                    },
                    over: claim.check.subject().1.map(str::to_owned),
                    points: finding.points,
                    text: finding.text,
                    note: claim.note.clone(),
                });
            }
        }
    }
    let mut figures = Vec::with_capacity(study.file.figure.len());
    for (number, figure) in study.file.figure.iter().enumerate() {
        match pictured(figure, data) {
            Err(problem) => problems.push(study.figure_problem(number, figure, problem, data.thinned)),
            Ok(points) => {
                let selection = figure.of.as_ref().map(|of| of.hash(figure.over.as_deref()));
                figures.push((figure.id.clone(), selection, points));
            }
        }
    }
    if problems.is_empty() {
        Ok(StudyReport {
            study: study.id.clone(),
            title: study.file.title.clone(),
            source: study.file.source.clone(),
            description: study.file.description.trim().to_owned(),
            claims,
            figures,
        })
    } else {
        Err(StudyError::Invalid(problems))
    }
}

impl StudyReport {
    /// As JSON: `{"study", "claims": [{"id", "claim", "paper", "measured", "ci95", "verdict", "note"}]}`.
    pub fn json(&self) -> Value {
        let claims = self.claims.iter().map(|claim| {
            json!({
                "id": claim.id,
                "claim": claim.claim,
                "paper": claim.paper,
                "measured": claim.measured,
                "ci95": claim.ci95,
                "verdict": claim.verdict,
                "note": claim.note,
            })
        });
        json!({ "study": self.study, "claims": claims.collect::<Vec<_>>() })
    }

    /// For people: a block for each claim, in lines of `width` characters.
    pub fn table(&self, width: usize) -> String {
        let mut text = String::new();
        for claim in &self.claims {
            let _ = writeln!(text, "\n  {:14}  {}", claim.verdict.name(), visible(&claim.id));
            let parts = [
                ("claim", claim.claim.as_str()),
                ("paper", &crate::text::text(&claim.paper)),
                ("ours", &claim.text),
                ("note", &claim.note),
            ];
            for (name, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
                for (number, line) in wrapped(&visible_lines(part), width.saturating_sub(26))
                    .iter()
                    .enumerate()
                {
                    let name = if number == 0 { name } else { "" };
                    let _ = writeln!(text, "                  {name:5}  {line}");
                }
            }
        }
        text
    }

    /// The text of the file that is kept in the study's folder: [`Self::kept`] with a line for each point.
    pub fn kept_text(&self, command: &str) -> String {
        by_line(&self.kept(command), 0) + "\n"
    }

    /// Everything that goes into the table of all studies, to be kept in the study's folder.
    pub fn kept(&self, command: &str) -> Value {
        let mut value = self.json();
        value["whimbrel"] = json!(env!("CARGO_PKG_VERSION"));
        value["command"] = json!(command);
        let figures = self.figures.iter();
        value["figures"] = figures
            .map(|(id, selection, points)| json!({ "id": id, "selection": selection, "points": points }))
            .collect();
        value["title"] = json!(self.title);
        value["source"] = json!(self.source);
        value["description"] = json!(self.description);
        for (kept, claim) in value["claims"].as_array_mut().into_iter().flatten().zip(&self.claims) {
            kept["text"] = json!(claim.text);
            kept["points"] = json!(claim.points);
            kept["metric"] = json!(claim.metric);
            kept["of"] = json!(claim.of);
            kept["over"] = json!(claim.over);
            kept["selection"] = json!(claim.selection);
            kept["check"] = json!(claim.check);
            kept["seeds"] = json!(claim.seeds);
            if claim.too_many {
                kept["too_many"] = json!(true);
            }
        }
        value
    }
}

/// JSON with a line for each value, and one for each point of a figure: half as long as one for each number, and a run that differs in a point
/// differs in a line.
fn by_line(value: &Value, indent: usize) -> String {
    let inner = "  ".repeat(indent + 1);
    let outer = "  ".repeat(indent);
    match value {
        Value::Object(entries) if !entries.is_empty() && !entries.contains_key("mean") => {
            let entries = entries
                .iter()
                .map(|(key, value)| format!("{inner}{}: {}", json!(key), by_line(value, indent + 1)));
            format!("{{\n{}\n{outer}}}", entries.collect::<Vec<_>>().join(",\n"))
        }
        Value::Array(items) if !items.is_empty() => {
            let items = items.iter().map(|item| format!("{inner}{}", by_line(item, indent + 1)));
            format!("[\n{}\n{outer}]", items.collect::<Vec<_>>().join(",\n"))
        }
        other => other.to_string(),
    }
}

/// Words in lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines
            .last_mut()
            .filter(|line| line.is_empty() || line.chars().count() + 1 + word.chars().count() <= width);
        match line {
            Some(line) => {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_has_a_line() {
        let point = |x: i64| json!({ "at": [["x", x]], "mean": 0.5 });
        let value = json!({ "id": "c", "none": [], "points": [point(1), point(2)] });
        let text = by_line(&value, 0);
        assert_eq!(
            text,
            "{\n  \"id\": \"c\",\n  \"none\": [],\n  \"points\": [\n    \
             {\"at\":[[\"x\",1]],\"mean\":0.5},\n    {\"at\":[[\"x\",2]],\"mean\":0.5}\n  ]\n}"
        );
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
    }
}
