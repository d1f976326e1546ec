//! `cargo xtask generate`: generates files from the code, and checks that they are current.

use super::command::whimbrel;
use super::{json, pages, picture, reference, studies};
use crate::checks::{peers, requirements};
use crate::chore::{Outcome, root};
use crate::files::read;
use crate::generated::Generated;
use crate::web::bundle;

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
    ("docs/demo.svg", picture::demo),
    ("docs/architecture.md", architecture),
];

/// Returns docs/architecture.md with the registered parts in the rows of their slots.
fn architecture() -> Outcome<String> {
    let page = read(&root().join("docs/architecture.md"))?;
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
type Group = fn(&mut Generated) -> Outcome;

/// Groups of files: the tables of requirements, the matrix of peers, the summary of the studies with their pages and plots, the program of reports, the pages of schemes and parts.
const GROUPS: &[(&str, Group)] = &[
    ("requirements", requirements::pages),
    ("peers", peers::pages),
    ("studies", studies::pages),
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
    let mut generated = Generated::new(args.check);
    for (name, make) in FILES.iter().filter(|(name, _)| is_meant(name)) {
        generated.update(name, make()?)?;
    }
    for (_, group) in GROUPS.iter().filter(|(name, _)| is_meant(name)) {
        group(&mut generated)?;
    }
    generated.conclude()
}

#[cfg(test)]
mod tests {
    use super::with_parts;

    #[test]
    fn a_registered_part_appears_in_the_row_of_its_slot() {
        let page =
            "text\n| slot | question | parts |\n| path policy | which path? | `old` |\n| recovery | when? | a, b |\n";
        let listed = "path_policy = \"a\"  One. (RFC)\n    x = 1\npath_policy = \"b-c\"  Two. (RFC)\nwindow = \"w\"  Three. (RFC)\n";
        let expected = page.replace("`old`", "`a`, `b-c`");
        assert_eq!(with_parts(page, listed), expected);
    }
}
