//! Outputs in README.md and in the book are those of the commands today.
//!
//! In each page, the commands of blocks that begin with `$ whimbrel` are run in order. Each line that a block shows must be in the output, in
//! this order. Simulations give the same figures on every machine; what depends on sockets or on real time is in [`NOT_RUN`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use whimbrel_testkit::process::InTime as _;

use crate::support::{WHIMBREL, root};

/// Commands that are run.
const RUN: [&str; 13] = [
    "demo", "run", "show", "report", "plot", "why", "export", "merge", "metrics", "rerun", "study", "check", "schemes",
];

/// Beginnings of commands whose output is not compared, and why.
const NOT_RUN: [(&str, &str); 11] = [
    ("whimbrel send ", "real time"),
    ("whimbrel recv ", "real time"),
    ("whimbrel ping ", "real time"),
    ("whimbrel perf ", "real time"),
    ("sudo whimbrel emulate ", "real time, root"),
    ("ip route ", "the machine's routes"),
    ("head -c 8000000 ", "part of an emulation"),
    ("cargo ", "examples and tests of their own"),
    ("tshark ", "another program"),
    ("grep ", "lines of a file, compared by `why`"),
    ("head -3 mine.trace", "a file of the reader"),
];

/// Words of commands that need what a reader has: a part that a tutorial adds to the program, and a file.
const OF_READERS: [&str; 2] = ["mean-rtt", "mine.trace"];

/// A block of a page: its language and its lines.
struct Block {
    line: usize,
    language: String,
    lines: Vec<String>,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (number, line) in (1..).zip(page.lines()) {
        match line.strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(language) => {
                is_open = true;
                blocks.push(Block {
                    line: number,
                    language: language.to_owned(),
                    lines: Vec::new(),
                });
            }
            None if is_open => blocks.last_mut().expect("it is open").lines.push(line.to_owned()),
            None => {}
        }
    }
    blocks
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_dir() {
            pages(&entry.path(), found);
        } else if entry.path().extension().is_some_and(|extension| extension == "md") {
            found.push(entry.path());
        }
    }
}

fn is_run(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    words.first() == Some(&"whimbrel")
        && words.get(1).is_some_and(|word| RUN.contains(word))
        && !OF_READERS.iter().any(|word| command.contains(word))
}

/// Runs a command line. Returns what it prints to both outputs.
fn output_of(folder: &Path, command: &str) -> String {
    let line = format!(
        "{WHIMBREL} {} 2>&1",
        command.strip_prefix("whimbrel ").expect("a command")
    );
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(folder)
        .output_in_time();
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the first line that is not in the output, behind those before it. A page may shorten a line: `[...]`.
fn missing<'l>(shown: &'l [String], output: &str) -> Option<&'l str> {
    let mut printed = output.lines().map(str::trim_end);
    let mut is_printed = |line: &&str| match line.strip_suffix(" [...]") {
        Some(start) => printed.any(|printed| printed.starts_with(start)),
        None => printed.any(|printed| printed == *line),
    };
    let expected = shown.iter().map(|line| line.trim_end());
    expected
        .filter(|line| !line.is_empty() && *line != "...")
        .find(|line| !is_printed(line))
}

/// Runs the commands of a page. Returns the number of blocks that were compared.
fn check(page: &Path, problems: &mut Vec<String>) -> usize {
    let text = fs::read_to_string(page).expect("a page");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["examples", "studies"] {
        std::os::unix::fs::symlink(
            root().join(name).canonicalize().expect("a folder"),
            folder.path().join(name),
        )
        .expect("a link");
    }
    // The mistake of a tutorial, at the line and column that it shows.
    let broken = format!(
        "{}[[link]]\nname = \"radio\"\nbetween = [\"a\", \"b\"]\nrate = \"2 Mbit/s\"\ndealy = \"1 ms\"\n",
        "\n".repeat(12)
    );
    let nodes = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n";
    fs::write(
        folder.path().join("broken.toml"),
        broken + nodes + "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n",
    )
    .expect("writable");
    let mut compared = 0;
    for block in blocks(&text) {
        // Interrupted by hand.
        if block.lines.iter().any(|line| line == "^C") {
            continue;
        }
        if block.language == "sh" {
            for command in block.lines.iter().filter(|line| is_run(line)) {
                output_of(folder.path(), command);
            }
            continue;
        }
        let starts: Vec<usize> = (0..block.lines.len())
            .filter(|at| block.lines[*at].starts_with("$ "))
            .collect();
        for (place, &start) in starts.iter().enumerate() {
            let command = &block.lines[start][2..];
            if !is_run(command) {
                let is_known = NOT_RUN.iter().any(|(known, _)| command.starts_with(known))
                    || OF_READERS.iter().any(|word| command.contains(word));
                if !is_known {
                    problems.push(format!(
                        "{}:{}: `{command}` is neither run nor listed",
                        page.display(),
                        block.line
                    ));
                }
                continue;
            }
            let end = starts.get(place + 1).copied().unwrap_or(block.lines.len());
            let output = output_of(folder.path(), command);
            compared += 1;
            if let Some(line) = missing(&block.lines[start + 1..end], &output) {
                problems.push(format!(
                    "{}:{}: `{command}` does not print\n{line}\nbut\n{output}",
                    page.display(),
                    block.line
                ));
            }
        }
    }
    compared
}

#[test]
fn every_output_in_readme_and_docs_is_what_the_command_prints() {
    let mut all = vec![root().join("README.md")];
    pages(&root().join("docs"), &mut all);
    all.sort();
    let (mut compared, mut problems) = (0, Vec::new());
    for page in all {
        if fs::read_to_string(&page).expect("a page").contains("\n$ ") {
            compared += check(&page, &mut problems);
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    assert!(compared >= 17, "{compared}");
}

#[test]
fn lines_that_are_not_printed_are_found() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(missing(&lines("a\n...\nc"), "x\na\nb\nc\n"), None);
    assert_eq!(missing(&lines("a\nd"), "a\nb\nc\n"), Some("d"));
    assert_eq!(missing(&lines("c\na"), "a\nb\nc\n"), Some("a"));
    assert_eq!(missing(&lines("ab [...]\nc"), "abc\nc\n"), None);
    assert_eq!(missing(&lines("b [...]"), "abc\n"), Some("b [...]"));
}
