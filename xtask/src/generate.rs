//! `cargo xtask generate`: generates files from the code, and checks that they are current.

use std::path::Path;
use std::process::Command;

use crate::{Outcome, bundle, headline, json, pages, picture, process, reference, requirements, root, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if a file is not current
    #[arg(long)]
    check: bool,
    /// Only these files, as named in the output. Default: all
    files: Vec<String>,
}

/// Generates the text of one file.
type Make = fn() -> Outcome<String>;

const FILES: &[(&str, Make)] = &[
    ("docs/scenario.schema.json", || whimbrel(&["schema"])),
    ("docs/reference.md", reference::page),
    ("docs/json.md", json::page),
    ("docs/metrics.md", || whimbrel(&["metrics", "--markdown"])),
    ("docs/rfc9260-requirements.md", requirements::table),
    ("docs/demo.svg", picture::demo),
    ("docs/architecture.md", architecture),
];

/// Returns docs/architecture.md with the registered parts in the rows of their slots.
fn architecture() -> Outcome<String> {
    let page = read(&root().join("docs/architecture.md"))?.ok_or("docs/architecture.md is missing")?;
    Ok(with_parts(&page, &whimbrel(&["schemes", "parts"])?))
}

/// Replaces the last cell of each row `| slot | question | parts |` by the parts that `schemes parts` lists for the slot.
fn with_parts(page: &str, listed: &str) -> String {
    let row = |line: &str| {
        let (slot, question) = line.strip_prefix("| ")?.split_once(" | ")?;
        let question = question.split(" | ").next()?;
        let start = format!("{} = \"", slot.replace(' ', "_"));
        let names: Vec<_> = listed
            .lines()
            .filter_map(|listed| listed.strip_prefix(&start)?.split_once('"'))
            .map(|(name, _)| format!("`{name}`"))
            .collect();
        (!names.is_empty()).then(|| format!("| {slot} | {question} | {} |", names.join(", ")))
    };
    let lines: Vec<_> = page
        .lines()
        .map(|line| row(line).unwrap_or_else(|| line.to_owned()))
        .collect();
    lines.join("\n") + "\n"
}

/// Writes the files of one group, or lists those that are not current.
type Group = fn(check: bool, stale: &mut Vec<String>) -> Outcome;

/// Groups of files: the summary of the studies with their pages and plots, the program of reports, the pages of schemes and parts.
const GROUPS: &[(&str, Group)] = &[
    ("studies", studies),
    ("report", bundle::bundle),
    ("pages", pages::pages),
];

pub(crate) fn run(args: &Args) -> Outcome {
    let names: Vec<&str> = FILES
        .iter()
        .map(|(name, _)| *name)
        .chain(GROUPS.iter().map(|(name, _)| *name))
        .collect();
    if let Some(unknown) = args.files.iter().find(|file| !names.contains(&file.as_str())) {
        return Err(format!("{unknown} is not generated; these are: {}", names.join(", ")));
    }
    let is_meant = |name: &str| args.files.is_empty() || args.files.iter().any(|file| file == name);
    let mut stale: Vec<String> = Vec::new();
    for (name, make) in FILES.iter().filter(|(name, _)| is_meant(name)) {
        update(name, &make()?, args.check, &mut stale)?;
    }
    for (_, group) in GROUPS.iter().filter(|(name, _)| is_meant(name)) {
        group(args.check, &mut stale)?;
    }
    if stale.is_empty() {
        Ok(())
    } else {
        Err(format!("not current: {}; run `cargo xtask generate`", stale.join(", ")))
    }
}

/// Writes a file that has another content, or lists it.
pub(crate) fn update(name: &str, text: &str, check: bool, stale: &mut Vec<String>) -> Outcome {
    let path = root().join(name);
    if read(&path)?.as_deref() == Some(text) {
        return Ok(());
    }
    if check {
        stale.push(name.to_owned());
        return Ok(());
    }
    std::fs::write(&path, text).map_err(|e| format!("cannot write {name}: {e}"))?;
    say(&format!("wrote {name}"));
    Ok(())
}

/// The folder of the studies.
const STUDIES: &str = "studies";

/// Writes the pages of the studies, or lists those that are not current; removes pages and plots that are no longer generated.
fn studies(check: bool, stale: &mut Vec<String>) -> Outcome {
    let folder = tempfile::tempdir().map_err(|e| format!("no folder for the pages of studies: {e}"))?;
    whimbrel(&["study", "results", "--out", &folder.path().display().to_string()])?;
    let (made, there) = (pages_in(folder.path())?, pages_in(&root().join(STUDIES))?);
    if let (Some(results), Some(page)) = (made.get("RESULTS.md"), read(&root().join("README.md"))?) {
        let page = headline::with_table(&with_totals(&page, results))?;
        update("README.md", &page, check, stale)?;
    }
    let names: std::collections::BTreeSet<&String> = made.keys().chain(there.keys()).collect();
    for name in names.into_iter().filter(|name| made.get(*name) != there.get(*name)) {
        let path = root().join(STUDIES).join(name);
        match made.get(name) {
            _ if check => stale.push(format!("{STUDIES}/{name}")),
            Some(text) => {
                std::fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
                say(&format!("wrote {STUDIES}/{name}"));
            }
            None => {
                std::fs::remove_file(&path).map_err(|e| format!("cannot remove {}: {e}", path.display()))?;
                say(&format!("removed {STUDIES}/{name}"));
            }
        }
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

/// Returns the pages and plots below a folder of studies, by their paths in it.
fn pages_in(folder: &Path) -> Outcome<std::collections::BTreeMap<String, String>> {
    let entries = |folder: &Path| -> Outcome<Vec<std::path::PathBuf>> {
        let entries = std::fs::read_dir(folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
        Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
    };
    let mut paths = entries(folder)?;
    for inner in paths.clone().iter().filter(|path| path.is_dir()) {
        paths.extend(entries(inner)?);
    }
    let is_page = |path: &std::path::PathBuf| {
        path.is_file() && path.extension().is_some_and(|kind| kind == "md" || kind == "svg")
    };
    let mut pages = std::collections::BTreeMap::new();
    for path in paths.into_iter().filter(is_page) {
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        pages.insert(name, read(&path)?.unwrap_or_default());
    }
    Ok(pages)
}

/// Returns the output of the `whimbrel` command: of the program in the variable `WHIMBREL_COMMAND`, if it is set, or else of the one that
/// cargo builds. A build of the command alone repeats dependencies that the workspace has built with other features.
pub(crate) fn whimbrel(args: &[&str]) -> Outcome<String> {
    let mut command = match std::env::var_os("WHIMBREL_COMMAND") {
        Some(program) => Command::new(program),
        None => process::cargo(&["run", "--quiet", "--package", "whimbrel-cli", "--"]),
    };
    process::output(command.args(args).current_dir(root()))
}

pub(crate) fn read(path: &Path) -> Outcome<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(format!("cannot read {}: {e}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::{with_parts, with_totals};

    #[test]
    fn a_registered_part_appears_in_the_row_of_its_slot() {
        let page =
            "text\n| slot | question | parts |\n| path policy | which path? | `old` |\n| recovery | when? | a, b |\n";
        let listed = "path_policy = \"a\"  One. (RFC)\n    x = 1\npath_policy = \"b-c\"  Two. (RFC)\nwindow = \"w\"  Three. (RFC)\n";
        let expected = page.replace("`old`", "`a`, `b-c`");
        assert_eq!(with_parts(page, listed), expected);
    }

    #[test]
    fn the_totals_of_claims_of_papers_replace_their_line() {
        let page = "text\n\n0 claims of papers: old.\n\nmore\n";
        let results = "## Claims of papers\n\n| paper | reproduced | not |\n|---|--:|--:|\n| One | 1 | 2 |\n| all | 3 | 4 |\n\n| paper | not |\n| all | 9 |\n";
        let expected = page.replace("0 claims of papers: old.", "7 claims of papers: 3 reproduced, 4 not.");
        assert_eq!(with_totals(page, results), expected);
    }
}
