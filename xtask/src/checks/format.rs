//! `cargo xtask format`: formats every Rust file.
//!
//! `cargo fmt` follows `mod` items only. The files of parts are declared by the lines of their registries, so this command lists them, also
//! those that git does not track yet.

use std::path::Path;
use std::process::Command;

use crate::chore::{Outcome, root};
use crate::process;

/// Lists files that git tracks or could add.
const LIST: [&str; 5] = [
    "ls-files",
    "--cached",
    "--others",
    "--exclude-standard",
    "crates/control/src/**/*.rs",
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if a file is not formatted
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let check: &[&str] = if args.check { &["--check"] } else { &[] };
    process::run(process::cargo(&["fmt", "--all"]).args(check.iter().map(|flag| flag.to_owned())))?;
    let mut format = Command::new("rustfmt");
    format.current_dir(root()).args(["--edition", "2024"]).args(check);
    process::run(format.args(parts(&root())?))
}

/// Returns the Rust files of `crates/control` in a repository: those that git tracks and new ones, without ignored and deleted ones.
fn parts(repository: &Path) -> Outcome<Vec<String>> {
    let mut list = Command::new("git");
    list.current_dir(repository).args(LIST);
    let files = process::output(&mut list)?;
    let exists = |file: &&str| repository.join(file).exists();
    Ok(files.lines().filter(exists).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_new_files_and_no_ignored_or_deleted_ones() {
        let folder = std::env::temp_dir().join(format!("whimbrel-format-{}", std::process::id()));
        let parts_folder = folder.join("crates/control/src/window");
        std::fs::create_dir_all(&parts_folder).unwrap();
        let git = |args: &[&str]| process::run(Command::new("git").current_dir(&folder).args(args)).unwrap();
        git(&["init", "--quiet"]);
        for name in ["tracked.rs", "deleted.rs", "new.rs", "ignored.rs"] {
            std::fs::write(parts_folder.join(name), "").unwrap();
        }
        std::fs::write(folder.join(".gitignore"), "ignored.rs\n").unwrap();
        git(&[
            "add",
            "crates/control/src/window/tracked.rs",
            "crates/control/src/window/deleted.rs",
        ]);
        std::fs::remove_file(parts_folder.join("deleted.rs")).unwrap();
        let mut found = parts(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        found.sort();
        assert_eq!(
            found,
            [
                "crates/control/src/window/new.rs",
                "crates/control/src/window/tracked.rs"
            ]
        );
    }
}
