//! `cargo xtask generate`: files that are made from the code, and the check that they are current.

use std::path::Path;

use crate::{Outcome, picture, process, requirements, root, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if a file is not what would be written
    #[arg(long)]
    check: bool,
    /// Only these files, as named in the output; all of them if none is named
    files: Vec<String>,
}

/// Makes the text of one file.
type Make = fn() -> Outcome<String>;

const FILES: &[(&str, Make)] = &[
    ("docs/scenario.schema.json", || whimbrel(&["schema"])),
    ("studies/RESULTS.md", || whimbrel(&["study", "results"])),
    ("docs/rfc9260-requirements.md", requirements::table),
    ("docs/demo.svg", picture::demo),
];

pub(crate) fn run(args: &Args) -> Outcome {
    let known = |file: &str| FILES.iter().any(|(name, _)| *name == file);
    if let Some(unknown) = args.files.iter().find(|file| !known(file)) {
        let names: Vec<_> = FILES.iter().map(|(name, _)| *name).collect();
        return Err(format!("{unknown} is not generated; these are: {}", names.join(", ")));
    }
    let mut stale = Vec::new();
    for (name, make) in FILES {
        if !args.files.is_empty() && !args.files.iter().any(|file| file == name) {
            continue;
        }
        let text = make()?;
        let path = root().join(name);
        if read(&path)? == Some(text.clone()) {
            continue;
        }
        if args.check {
            stale.push(*name);
        } else {
            std::fs::write(&path, text).map_err(|e| format!("cannot write {name}: {e}"))?;
            say(&format!("wrote {name}"));
        }
    }
    if stale.is_empty() {
        Ok(())
    } else {
        Err(format!("not current: {}; run `cargo xtask generate`", stale.join(", ")))
    }
}

/// What the command that users call prints.
fn whimbrel(args: &[&str]) -> Outcome<String> {
    let mut cargo = process::cargo(&["run", "--quiet", "--package", "whimbrel-cli", "--"]);
    process::output(cargo.args(args))
}

fn read(path: &Path) -> Outcome<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(format!("cannot read {}: {e}", path.display())),
    }
}
