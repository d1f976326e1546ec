//! `docs/json.md`: what `--json` prints, by command, from the help of the commands. The text around the table is written by hand.

use std::fmt::Write as _;

use super::command::whimbrel;
use super::inline::cell;
use super::marked::inserted;
use crate::chore::{Outcome, root};
use crate::files::read;

const PAGE: &str = "docs/json.md";

/// Returns the page with the present table between its marks.
pub(crate) fn page() -> Outcome<String> {
    let mut rows = Vec::new();
    collect(&[], &mut rows)?;
    let mut table = "\n| command | `--json` |\n|---|---|\n".to_owned();
    for (name, help) in rows {
        let _ = writeln!(table, "| `{name}` | {} |", cell(&help));
    }
    inserted(PAGE, &read(&root().join(PAGE))?, &format!("{table}\n"))
}

/// Adds the commands below this one, and it itself, that have the option, with its help.
fn collect(command: &[&str], rows: &mut Vec<(String, String)>) -> Outcome {
    let help = whimbrel(&[command, &["--help"]].concat())?;
    if let Some(text) = option(&help) {
        rows.push((command.join(" "), text));
    }
    for subcommand in subcommands(&help) {
        collect(&[command, &[subcommand]].concat(), rows)?;
    }
    Ok(())
}

/// Returns the commands that a help text lists, in one or several groups before the options.
fn subcommands(help: &str) -> Vec<&str> {
    let lines = help.lines().take_while(|line| *line != "Options:");
    lines
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

/// Returns the help of `--json`, if there is the option.
fn option(help: &str) -> Option<String> {
    let mut lines = help.lines().map(str::trim);
    let first = lines.by_ref().find_map(|line| line.strip_prefix("--json"))?;
    let rest = lines.take_while(|line| !line.is_empty() && !line.starts_with('-'));
    let words: Vec<_> = std::iter::once(first)
        .chain(rest)
        .flat_map(str::split_whitespace)
        .collect();
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::{option, subcommands};

    #[test]
    fn both_forms_of_help_give_the_text_of_the_option() {
        let below =
            "Options:\n      --json\n          Print one\n          object: {\"a\"}\n\n  -q, --quiet\n          Less\n";
        assert_eq!(option(below).as_deref(), Some("Print one object: {\"a\"}"));
        let beside = "Options:\n      --json   Print one\n               object\n  -q, --quiet  Less\n";
        assert_eq!(option(beside).as_deref(), Some("Print one object"));
        assert_eq!(option("Options:\n  -h, --help  Print help\n"), None);
    }

    #[test]
    fn help_lists_the_commands() {
        let help = "Usage: x\n\nCommands:\n  one  The first,\n       which is long\n  two  The second\n  help  Print this\n\nOptions:\n  -h\n";
        assert_eq!(subcommands(help), ["one", "two"]);
        let groups = "About\n\nUsage: x\n\nOne:\n  one  The first\n\nTwo:\n  two  The second\n  help  Print\n\nOptions:\n  extra\n";
        assert_eq!(subcommands(groups), ["one", "two"]);
        let file = "Usage: x <FILE>\n\nArguments:\n  <FILE>\n          The file\n\nOptions:\n";
        assert_eq!(subcommands(file), [""; 0]);
    }
}
