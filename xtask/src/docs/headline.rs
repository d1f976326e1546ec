//! The README's table of schemes over a link that loses packets, from the stored results of the study `headline`.

use serde::Deserialize;

use crate::chore::{Outcome, root};
use crate::files::read;

const RESULTS: &str = "studies/headline/results.json";
/// First cells of the table, by which it is found.
const HEAD: &str = "| scheme | alone: no loss |";
const SCHEMES: &[&str] = &[
    "standard",
    "cubic",
    "bbr",
    "jsctp",
    "veno-tabe",
    "whimbrel",
    "multipath",
    "oracle",
];
/// The columns: figure of the study, loss in per cent, decimals.
const COLUMNS: &[(&str, &str, usize)] = &[
    ("alone", "0", 2),
    ("alone", "1", 2),
    ("alone", "5", 2),
    ("beside-cubic", "1", 1),
    ("beside-cubic", "5", 1),
];

#[derive(Deserialize)]
struct Results {
    figures: Vec<Figure>,
}

#[derive(Deserialize)]
struct Figure {
    id: String,
    #[serde(default)]
    points: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    /// Values of the axes.
    at: Vec<(String, serde_json::Value)>,
    mean: f64,
    ci95: f64,
}

impl Point {
    fn is_at(&self, axis: &str, value: &str) -> bool {
        self.at.iter().any(|(name, is)| name == axis && is == value)
    }
}

/// Replaces the rows of the table in the page.
pub(crate) fn with_table(page: &str) -> Outcome<String> {
    let text = read(&root().join(RESULTS))?;
    let results: Results = serde_json::from_str(&text).map_err(|e| format!("{RESULTS}: {e}"))?;
    replace(page, &rows(&results)?)
}

fn rows(results: &Results) -> Outcome<Vec<String>> {
    let cell = |scheme: &str, (figure, loss, decimals): &(&str, &str, usize)| {
        let mut figures = results.figures.iter();
        let found = figures.find(|known| known.id == *figure).and_then(|figure| {
            let mut points = figure.points.iter();
            points.find(|point| point.is_at("scheme", scheme) && point.is_at("loss", loss))
        });
        let point = found.ok_or_else(|| format!("{RESULTS}: no {scheme} at loss {loss} in the figure {figure}"))?;
        Ok(format!("{:.*} ± {:.*}", decimals, point.mean, decimals, point.ci95))
    };
    let row = |scheme: &&str| -> Outcome<String> {
        let cells: Vec<String> = COLUMNS
            .iter()
            .map(|column| cell(scheme, column))
            .collect::<Outcome<_>>()?;
        Ok(format!("| `{scheme}` | {} |", cells.join(" | ")))
    };
    SCHEMES.iter().map(row).collect()
}

fn replace(page: &str, rows: &[String]) -> Outcome<String> {
    let mut lines: Vec<&str> = page.lines().collect();
    let head = lines.iter().position(|line| line.starts_with(HEAD));
    let first = head.ok_or_else(|| format!("README.md has no table `{HEAD} ...`"))? + 2;
    let count = lines
        .iter()
        .skip(first)
        .take_while(|line| line.starts_with('|'))
        .count();
    lines.splice(first..first + count, rows.iter().map(String::as_str));
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let point = |scheme: &str, loss: &str, mean: f64| Point {
            at: vec![("scheme".to_owned(), scheme.into()), ("loss".to_owned(), loss.into())],
            mean,
            ci95: 0.014,
        };
        let of = |id: &str, losses: &[&str], mean: f64| Figure {
            id: id.to_owned(),
            points: SCHEMES
                .iter()
                .flat_map(|scheme| losses.iter().map(move |loss| point(scheme, loss, mean)))
                .collect(),
        };
        Results {
            figures: vec![
                of("alone", &["0", "1", "2", "5"], 0.5),
                of("beside-cubic", &["1", "5"], 7.25),
            ],
        }
    }

    #[test]
    fn rows_of_the_table_are_replaced_by_the_stored_means() {
        let page = "text\n\n| scheme | alone: no loss | ... |\n|---|--:|--:|\n| old | 1 |\n\nmore\n";
        let page = replace(page, &rows(&results()).unwrap()).unwrap();
        assert!(page.contains(
            "|---|--:|--:|\n| `standard` | 0.50 ± 0.01 | 0.50 ± 0.01 | 0.50 ± 0.01 | 7.2 ± 0.0 | 7.2 ± 0.0 |\n"
        ));
        assert!(
            page.ends_with("| `oracle` | 0.50 ± 0.01 | 0.50 ± 0.01 | 0.50 ± 0.01 | 7.2 ± 0.0 | 7.2 ± 0.0 |\n\nmore\n")
        );
        assert!(!page.contains("old"));
    }

    #[test]
    fn a_point_without_a_result_is_an_error() {
        let mut results = results();
        results.figures[0].points.truncate(3);
        assert!(rows(&results).is_err_and(|e| e.contains("standard at loss 5")));
    }
}
