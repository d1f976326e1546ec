//! The copy of the sources with the faults, each behind a switch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::list::Fault;
use crate::chore::{Outcome, root};
use crate::{files, process};

/// Number of the active fault.
pub(super) const SWITCH: &str = "WHIMBREL_FAULT";
/// Content of the copy.
const COPIED: &[&str] = &["Cargo.toml", "Cargo.lock", "crates", "examples", "studies", "xtask"];

/// Removes and returns faults that do not overlap, or that replace the same code.
pub(super) fn take_batch(faults: &mut Vec<(usize, Fault)>) -> Outcome<Vec<(usize, Fault)>> {
    let mut taken: Vec<(String, usize, usize)> = Vec::new();
    let (mut batch, mut rest) = (Vec::new(), Vec::new());
    for (number, fault) in faults.drain(..) {
        let (start, end) = fault.place()?;
        let overlaps = |(file, from, to): &(String, usize, usize)| {
            *file == fault.file && start < *to && *from < end && (start, end) != (*from, *to)
        };
        if taken.iter().any(overlaps) {
            rest.push((number, fault));
        } else {
            taken.push((fault.file.clone(), start, end));
            batch.push((number, fault));
        }
    }
    *faults = rest;
    Ok(batch)
}

/// Returns the folder of the copy.
pub(super) fn folder() -> PathBuf {
    root().join("target/faults")
}

/// Returns the code with switches: the replacement of the active fault, or the old code. All faults replace the same code.
fn switched(faults: &[(usize, &Fault)]) -> String {
    let old = faults.first().map_or("", |(_, fault)| fault.old.trim());
    let mut code = String::new();
    for (number, fault) in faults {
        code += &format!("if crate::fault_is_set({number}) {{ {} }} else ", fault.new.trim());
    }
    code += &format!("{{ {old} }}");
    if old.ends_with([';', '}']) {
        code
    } else {
        format!("({code})")
    }
}

/// Faults by the position that they replace.
type Places<'a> = BTreeMap<(usize, usize), Vec<(usize, &'a Fault)>>;

/// Updates the copy with the faults of the batch. Unchanged files are not touched.
pub(super) fn write(batch: &[(usize, Fault)]) -> Outcome {
    let mut by_file: BTreeMap<&str, Places<'_>> = BTreeMap::new();
    for (number, fault) in batch {
        let places = by_file.entry(&fault.file).or_default();
        places.entry(fault.place()?).or_default().push((*number, fault));
    }
    let libraries: BTreeSet<String> = batch
        .iter()
        .map(|(_, fault)| {
            let is_program = root().join("crates").join(fault.folder()).join("src/main.rs").is_file();
            format!(
                "crates/{}/src/{}.rs",
                fault.folder(),
                if is_program { "main" } else { "lib" }
            )
        })
        .collect();
    let files = copied()?;
    remove_others(&files)?;
    for file in files {
        let path = root().join(&file);
        if path.is_symlink() {
            copy_link(&path, &folder().join(&file))?;
            continue;
        }
        let mut bytes = files::read_bytes(&path)?;
        if let Some(changes) = by_file.get(file.as_str()) {
            let mut source = String::from_utf8(bytes).map_err(|_| format!("{file} is not UTF-8"))?;
            // From the end, so that earlier positions stay valid.
            for ((start, end), faults) in changes.iter().rev() {
                source.replace_range(*start..*end, &switched(faults));
            }
            bytes = source.into_bytes();
        }
        if libraries.contains(&file) {
            bytes.splice(0..0, "#![allow(warnings)]\n".bytes());
            bytes.extend_from_slice(
                format!(
                    "\npub(crate) fn fault_is_set(number: usize) -> bool {{\n    static SET: std::sync::LazyLock<usize> = \
                     std::sync::LazyLock::new(|| {{\n        std::env::var(\"{SWITCH}\").ok().and_then(|n| n.parse().ok()).unwrap_or(0)\n    \
                     }});\n    *SET == number\n}}\n"
                )
                .as_bytes(),
            );
        }
        write_if_changed(&folder().join(&file), &bytes)?;
    }
    Ok(())
}

/// Removes what the sources no longer have: a file that has become a folder would be there twice.
fn remove_others(files: &[String]) -> Outcome {
    let known: BTreeSet<PathBuf> = files.iter().map(|file| folder().join(file)).collect();
    for part in COPIED
        .iter()
        .map(|part| folder().join(part))
        .filter(|part| part.is_dir())
    {
        for there in files::below(&part)? {
            if !known.contains(&there) && !there.is_symlink() {
                std::fs::remove_file(&there).map_err(|e| format!("cannot remove {}: {e}", there.display()))?;
            }
        }
    }
    Ok(())
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> Outcome {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    files::write(path, bytes)
}

/// Makes a link with the same, relative, target.
fn copy_link(from: &Path, to: &Path) -> Outcome {
    let target = std::fs::read_link(from).map_err(|e| format!("cannot read {}: {e}", from.display()))?;
    if to.is_symlink() {
        return Ok(());
    }
    let created = to.parent().map_or(Ok(()), std::fs::create_dir_all);
    let linked = created.and_then(|()| std::os::unix::fs::symlink(target, to));
    linked.map_err(|e| format!("cannot write {}: {e}", to.display()))
}

/// Returns the files of the copy, relative to the workspace.
fn copied() -> Outcome<Vec<String>> {
    let mut command = Command::new("git");
    command.args(["ls-files", "--cached", "--others", "--exclude-standard", "--"]);
    let list = process::output(command.args(COPIED).current_dir(root()))?;
    let exists = |file: &&str| root().join(file).is_file() || root().join(file).is_symlink();
    Ok(list.lines().filter(exists).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(old: &str, new: &str) -> Fault {
        Fault {
            requirements: vec!["1-1".to_owned()],
            file: String::new(),
            old: old.to_owned(),
            new: new.to_owned(),
            tests: Vec::new(),
        }
    }

    #[test]
    fn a_switch_keeps_expressions_and_statements_apart() {
        assert_eq!(
            switched(&[(7, &fault("a + b", "a"))]),
            "(if crate::fault_is_set(7) { a } else { a + b })"
        );
        assert_eq!(
            switched(&[(8, &fault("go();\n", "")), (9, &fault("go();", "stop();"))]),
            "if crate::fault_is_set(8) {  } else if crate::fault_is_set(9) { stop(); } else { go(); }"
        );
    }
}
