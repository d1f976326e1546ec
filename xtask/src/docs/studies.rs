//! The pages and plots of the studies, the table of results in README.md, and the totals in the page of features.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::command::whimbrel;
use super::headline;
use crate::chore::{Outcome, root};
use crate::files::{entries, has_extension, read};
use crate::generated::Generated;

/// The folder of the studies.
const STUDIES: &str = "studies";
/// The page with the totals of all papers.
const FEATURES: &str = "docs/features.md";

/// Writes the pages of the studies, or lists those that are not current; removes pages and plots that are no longer generated.
pub(super) fn pages(generated: &mut Generated) -> Outcome {
    let folder = tempfile::tempdir().map_err(|e| format!("no folder for the pages of studies: {e}"))?;
    whimbrel(&["study", "results", "--out", &folder.path().display().to_string()])?;
    let made = pages_in(folder.path())?;
    if let Some(results) = made.get("RESULTS.md") {
        let results = read(results)?;
        let readme = read(&root().join("README.md"))?;
        generated.update("README.md", headline::with_table(&readme)?)?;
        let features = read(&root().join(FEATURES))?;
        generated.update(FEATURES, with_totals(&features, &results))?;
    }
    for (name, path) in &made {
        generated.update(&format!("{STUDIES}/{name}"), read(path)?)?;
    }
    let there = pages_in(&root().join(STUDIES))?;
    for name in there.keys().filter(|name| !made.contains_key(*name)) {
        generated.remove(&format!("{STUDIES}/{name}"))?;
    }
    Ok(())
}

/// Replaces the line `N claims of papers: ...` by the totals of the first table of the results.
fn with_totals(page: &str, results: &str) -> String {
    let row = |start: &str| {
        let line = results.lines().find(|line| line.starts_with(start))?;
        Some(line.split('|').skip(2).map(str::trim).collect::<Vec<_>>())
    };
    let (Some(classes), Some(counts)) = (row("| paper |"), row("| all |")) else {
        return page.to_owned();
    };
    let total: u32 = counts.iter().filter_map(|count| count.parse::<u32>().ok()).sum();
    let parts = classes.iter().zip(&counts).filter(|(class, _)| !class.is_empty());
    let parts: Vec<_> = parts.map(|(class, count)| format!("{count} {class}")).collect();
    let totals = format!("{total} claims of papers: {}.", parts.join(", "));
    let is_totals = |line: &str| {
        line.split_once(' ')
            .is_some_and(|(_, rest)| rest.starts_with("claims of papers: "))
    };
    let lines: Vec<_> = page
        .lines()
        .map(|line| if is_totals(line) { &totals } else { line })
        .collect();
    lines.join("\n") + "\n"
}

/// Returns the files of pages and plots in a folder of studies, by their paths in it.
fn pages_in(folder: &Path) -> Outcome<BTreeMap<String, PathBuf>> {
    let mut paths = entries(folder)?;
    for inner in paths.clone().iter().filter(|path| path.is_dir()) {
        paths.extend(entries(inner)?);
    }
    let is_page = |path: &PathBuf| path.is_file() && (has_extension(path, "md") || has_extension(path, "svg"));
    let name = |path: &PathBuf| path.strip_prefix(folder).unwrap_or(path).display().to_string();
    let pages = paths.into_iter().filter(is_page);
    Ok(pages.map(|path| (name(&path), path)).collect())
}

#[cfg(test)]
mod tests {
    use super::with_totals;

    #[test]
    fn the_totals_of_claims_of_papers_replace_their_line() {
        let page = "text\n\n0 claims of papers: old.\n\nmore\n";
        let results = "## Claims of papers\n\n| paper | reproduced | not |\n|---|--:|--:|\n| One | 1 | 2 |\n| all | 3 | 4 |\n\n| paper | not |\n| all | 9 |\n";
        let expected = page.replace("0 claims of papers: old.", "7 claims of papers: 3 reproduced, 4 not.");
        assert_eq!(with_totals(page, results), expected);
    }
}
