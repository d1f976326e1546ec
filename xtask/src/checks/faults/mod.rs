//! `cargo xtask faults`: shows that the tests of requirements fail when the code is defective.
//!
//! The files in `xtask/faults` list faults: a piece of code and its replacement, the requirements that this violates, and the tests
//! that must fail. A fault is in the file of its first requirement's section or RFC. All faults that do not overlap are inserted into one copy
//! of the sources, each behind a switch, so that a single build serves many of them. An environment variable sets the switch of one
//! fault when its tests run.

mod copy;
pub(super) mod list;
mod trial;

use std::path::Path;

use super::requirements::marks::Marks;
use super::requirements::without_fault;
use crate::chore::{Outcome, root, say};
use crate::files;
use list::{Fault, LISTS, full_id};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only check that the list matches the sources, without building
    #[arg(long)]
    check: bool,
    /// Only check the list, and that the tests with all faults compile
    #[arg(long)]
    build: bool,
    /// Only list the requirements that have neither a fault nor a reason for having none
    #[arg(long)]
    missing: bool,
    /// Only faults in files whose path contains this
    #[arg(long)]
    file: Option<String>,
    /// Only faults of this requirement, such as 9.2-6 (RFC 9260) or 3758:3.5-1, or of this RFC, such as 3758; `none`: those of no
    /// requirement
    requirement: Option<String>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.missing {
        for (id, text) in without_fault()? {
            say(&format!("{id}: {text}"));
        }
        return Ok(());
    }
    let mut faults: Vec<(usize, Fault)> = (1..).zip(list::read()?).collect();
    check(&faults)?;
    if args.check {
        say(&format!("{} faults fit the sources", faults.len()));
        return Ok(());
    }
    if let Some(id) = &args.requirement {
        let of_none = |fault: &Fault| id == "none" && fault.requirements.is_empty();
        let of_rfc = |known: &String| known.split_once(':').is_some_and(|(rfc, _)| rfc == id);
        let is_meant = |known: &String| *known == full_id(id) || of_rfc(known);
        faults.retain(|(_, fault)| fault.requirements.iter().any(is_meant) || of_none(fault));
    }
    if let Some(part) = &args.file {
        faults.retain(|(_, fault)| fault.file.contains(part));
    }
    let mut survivors = Vec::new();
    let total = faults.len();
    while !faults.is_empty() {
        let batch = copy::take_batch(&mut faults)?;
        copy::write(&batch)?;
        if args.build {
            trial::compile(&batch)?;
        } else {
            survivors.extend(trial::run(&batch)?);
        }
    }
    if args.build {
        say(&format!("{total} faults compile; without --build their tests run"));
        return Ok(());
    }
    say(&format!("{total} faults, {} undetected", survivors.len()));
    if survivors.is_empty() {
        Ok(())
    } else {
        Err(format!("no test detected: {}", survivors.join(", ")))
    }
}

/// Checks that each fault fits the code, and that its tests have the marks of its requirements.
fn check(faults: &[(usize, Fault)]) -> Outcome {
    let marks = Marks::read()?;
    let mut wrong = Vec::new();
    for (number, fault) in faults {
        if let Err(reason) = fault.place() {
            wrong.push(format!("{}: {reason}", fault.name(*number)));
        }
        for test in fault.tests.iter().filter(|test| !exists(fault, test)) {
            wrong.push(format!(
                "{}: there is no test {test}: `lib::` or the name of a program in `tests`, its modules, and its name",
                fault.name(*number)
            ));
        }
        for id in &fault.requirements {
            if !is_marked(&marks, id, fault) {
                wrong.push(format!(
                    "{}: none of its tests has the mark [{id}]",
                    fault.name(*number)
                ));
            }
        }
    }
    // A requirement that counts as met is tested only if its tests fail without it.
    for (id, text) in without_fault()? {
        wrong.push(format!(
            "{id} ({text}): neither a fault nor `no_fault` in the list of requirements"
        ));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{LISTS} does not match the sources:\n{}", wrong.join("\n")))
    }
}

/// Returns whether the file of a test's modules has a function of its name. Its program is `lib` or one in the folder `tests`.
fn exists(fault: &Fault, test: &str) -> bool {
    let package = root().join("crates").join(fault.folder());
    let names: Vec<&str> = test.split("::").collect();
    let [binary, modules @ .., name] = names.as_slice() else {
        return false;
    };
    let (top, folder) = match *binary {
        "lib" => (package.join("src/lib.rs"), package.join("src")),
        binary if package.join(format!("tests/{binary}.rs")).is_file() => {
            (package.join(format!("tests/{binary}.rs")), package.join("tests"))
        }
        binary => {
            let folder = package.join("tests").join(binary);
            (folder.join("main.rs"), folder)
        }
    };
    // A module has a file, or it is in that of a module around it.
    (0..=modules.len()).any(|depth| {
        let path = modules[..depth]
            .iter()
            .fold(folder.clone(), |path, module| path.join(module));
        let files = match depth {
            0 => vec![top.clone()],
            _ => vec![path.with_extension("rs"), path.join("mod.rs")],
        };
        let has_it = |file: &Path| {
            let source = files::read(file).unwrap_or_default();
            source.contains(&format!("fn {name}("))
        };
        files.iter().any(|file| has_it(file))
    })
}

fn is_marked(marks: &Marks, id: &str, fault: &Fault) -> bool {
    marks.tests_of(id).any(|place| {
        let marked = place.rsplit_once('`').and_then(|(rest, _)| rest.rsplit_once('`'));
        let tests = || fault.tests.iter().filter_map(|test| test.rsplit("::").next());
        marked.is_some_and(|(_, item)| tests().any(|test| test == item))
    })
}
