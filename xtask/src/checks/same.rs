//! `cargo xtask same`: shows that a change of the code's structure leaves its behaviour alone.
//!
//! The command is built twice, from a revision and from the working tree. Both run every example with its recordings and the quick
//! form of every study. Same seed, same bytes: every file must be equal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::chore::{Outcome, note, root, say};
use crate::files::{below, entries, has_extension, read_bytes};
use crate::process;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The revision to compare with
    #[arg(default_value = "HEAD")]
    revision: String,
    /// Only examples and studies whose name contains this
    #[arg(long)]
    only: Option<String>,
}

/// Where everything is built and written.
fn folder() -> PathBuf {
    root().join("target/same")
}

pub(crate) fn run(args: &Args) -> Outcome {
    let before = checkout(&args.revision)?;
    let only = args.only.as_deref().unwrap_or_default();
    let old = outputs(&before, "before", only)?;
    let new = outputs(&root(), "after", only)?;
    let different = compare(&old, &new)?;
    say(&format!(
        "{} files, {} differ",
        old.len().max(new.len()),
        different.len()
    ));
    if different.is_empty() {
        return Ok(());
    }
    different.iter().for_each(|line| say(&format!("  {line}")));
    Err(format!(
        "the behaviour is not that of {}; compare the files in {}",
        args.revision,
        folder().display()
    ))
}

/// A work tree of the revision.
fn checkout(revision: &str) -> Outcome<PathBuf> {
    let tree = folder().join("source");
    let git = || {
        let mut command = Command::new("git");
        command.current_dir(root());
        command
    };
    let commit = process::output(git().args(["rev-parse", "--verify", &format!("{revision}^{{commit}}")]))?;
    if tree.join(".git").exists() {
        process::run(
            git()
                .arg("-C")
                .arg(&tree)
                .args(["checkout", "--quiet", "--force", commit.trim()]),
        )?;
    } else {
        process::run(git().args(["worktree", "prune"]))?;
        let mut add = git();
        add.args(["worktree", "add", "--quiet", "--force", "--detach"]);
        process::run(add.arg(&tree).arg(commit.trim()))?;
    }
    Ok(tree)
}

/// Builds the command from these sources and runs everything with it. Returns the files, by their names.
fn outputs(source: &Path, name: &str, only: &str) -> Outcome<BTreeMap<String, PathBuf>> {
    let mut build = process::cargo(&["build", "--release", "--quiet", "--package", "whimbrel-cli"]);
    let target = folder().join(format!("build-{name}"));
    process::run(build.current_dir(source).env("CARGO_TARGET_DIR", &target))?;
    let whimbrel = target.join("release/whimbrel");

    let out = folder().join(name);
    if out.exists() {
        std::fs::remove_dir_all(&out).map_err(|e| format!("cannot remove {}: {e}", out.display()))?;
    }
    for example in named(&source.join("examples"), "toml", only)? {
        let mut run = Command::new(&whimbrel);
        run.args(["run", &format!("examples/{example}.toml"), "--quiet", "--out"]);
        silently(run.arg(out.join(&example)).current_dir(source))?;
    }
    for study in named(&source.join("studies"), "", only)? {
        let mut run = Command::new(&whimbrel);
        run.args(["study", "run", &study, "--quick", "--quiet", "--out"]);
        silently(run.arg(out.join("studies")).current_dir(source))?;
    }
    let name = |path: &PathBuf| path.strip_prefix(&out).unwrap_or(path).to_string_lossy().into_owned();
    Ok(below(&out)?.into_iter().map(|path| (name(&path), path)).collect())
}

/// The table that the command prints is of no interest here.
fn silently(command: &mut Command) -> Outcome {
    note(&format!("$ {}", process::line(command)));
    process::output(command).map(|_| ())
}

/// Names of a folder's files with this ending, or of its folders.
fn named(folder: &Path, ending: &str, only: &str) -> Outcome<Vec<String>> {
    let wanted = entries(folder)?.into_iter().filter(|path| match ending {
        "" => path.is_dir(),
        ending => has_extension(path, ending),
    });
    Ok(wanted
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|name| name.contains(only))
        .collect())
}

/// What differs, a line for each file.
fn compare(old: &BTreeMap<String, PathBuf>, new: &BTreeMap<String, PathBuf>) -> Outcome<Vec<String>> {
    let read = |path: &PathBuf| read_bytes(path);
    let mut different = Vec::new();
    for (name, before) in old {
        match new.get(name) {
            None => different.push(format!("{name}: only before")),
            Some(after) if read(before)? != read(after)? => different.push(name.clone()),
            Some(_) => {}
        }
    }
    let added = new.keys().filter(|name| !old.contains_key(*name));
    different.extend(added.map(|name| format!("{name}: only after")));
    Ok(different)
}
