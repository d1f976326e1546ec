//! `cargo xtask faults`: shows that the tests of requirements fail when the code is defective.
//!
//! The files in `xtask/faults` list faults: a piece of code and its replacement, the requirements that this violates, and the tests
//! that must fail. A fault is in the file of its first requirement's section. All faults that do not overlap are inserted into one copy of the sources, each behind a switch, so that a single
//! build serves many of them. An environment variable sets the switch of one fault when its tests run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::requirements::{self, Marks};
use crate::{Outcome, note, process, root, say};

const LISTS: &str = "xtask/faults";
/// Number of the active fault.
const SWITCH: &str = "WHIMBREL_FAULT";
/// A fault may cause an endless loop; a timeout counts as a failure.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Content of the copy.
const COPIED: &[&str] = &["Cargo.toml", "Cargo.lock", "crates", "examples", "studies", "xtask"];

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
    /// Only faults of this requirement, such as 9.2-6; `none`: those of no requirement
    requirement: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    fault: Vec<Fault>,
}

/// One fault.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    /// The requirements that it violates; none if it is no fault of the protocol.
    requirements: Vec<String>,
    file: String,
    /// The code, which occurs once in its source file: an expression, or statements that end with `;` or `}`.
    old: String,
    /// Its replacement, of the same kind.
    new: String,
    /// The tests that must fail, `BINARY::NAME`; the binary of a library's unit tests is `lib`. They belong to the package of the file.
    /// One of them has the mark of each requirement.
    tests: Vec<String>,
}

impl Fault {
    /// Returns the folder of its package below `crates`.
    fn folder(&self) -> &str {
        self.file.split('/').nth(1).unwrap_or_default()
    }

    /// Returns the name of its package.
    fn package(&self) -> String {
        match self.folder() {
            "whimbrel" => "whimbrel".to_owned(),
            folder => format!("whimbrel-{folder}"),
        }
    }
}

/// Test binaries by package and name.
type Binaries = BTreeMap<(String, String), PathBuf>;

/// Returns how often each requirement occurs in the list.
pub(crate) fn counts() -> Outcome<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for fault in read()? {
        for id in fault.requirements {
            *counts.entry(id).or_default() += 1;
        }
    }
    Ok(counts)
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.missing {
        for (id, text) in requirements::without_fault()? {
            say(&format!("{id}: {text}"));
        }
        return Ok(());
    }
    let mut faults: Vec<(usize, Fault)> = (1..).zip(read()?).collect();
    check(&faults)?;
    if args.check {
        say(&format!("{} faults fit the sources", faults.len()));
        return Ok(());
    }
    if let Some(id) = &args.requirement {
        let of_none = |fault: &Fault| id == "none" && fault.requirements.is_empty();
        faults.retain(|(_, fault)| fault.requirements.contains(id) || of_none(fault));
    }
    let mut survivors = Vec::new();
    let total = faults.len();
    while !faults.is_empty() {
        let batch = take_batch(&mut faults)?;
        write_copy(&batch)?;
        if args.build {
            compile(&batch)?;
        } else {
            let binaries = build(&batch)?;
            survivors.extend(try_batch(&batch, &binaries)?);
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

fn read() -> Outcome<Vec<Fault>> {
    let entries = std::fs::read_dir(root().join(LISTS)).map_err(|e| format!("cannot list {LISTS}: {e}"))?;
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry.map_err(|e| format!("cannot list {LISTS}: {e}"))?.path());
    }
    files.sort();
    let mut faults = Vec::new();
    for file in files {
        let failed = |e: &dyn std::fmt::Display| format!("cannot read {}: {e}", file.display());
        let text = std::fs::read_to_string(&file).map_err(|e| failed(&e))?;
        let list: List = toml::from_str(&text).map_err(|e| failed(&e))?;
        faults.extend(list.fault);
    }
    Ok(faults)
}

fn name(number: usize, fault: &Fault) -> String {
    if fault.requirements.is_empty() {
        format!("{number} ({})", fault.file)
    } else {
        format!("{number} ({})", fault.requirements.join(", "))
    }
}

/// Checks that each fault fits the code, and that its tests have the marks of its requirements.
fn check(faults: &[(usize, Fault)]) -> Outcome {
    let marks = Marks::read()?;
    let mut wrong = Vec::new();
    for (number, fault) in faults {
        if let Err(reason) = place(fault) {
            wrong.push(format!("{}: {reason}", name(*number, fault)));
        }
        for test in fault.tests.iter().filter(|test| !has_binary(fault, test)) {
            wrong.push(format!(
                "{}: there is no program of tests for {test}: `lib::` or the name of a file in `tests`",
                name(*number, fault)
            ));
        }
        for id in &fault.requirements {
            if !is_marked(&marks, id, fault) {
                wrong.push(format!(
                    "{}: none of its tests has the mark [9260:{id}]",
                    name(*number, fault)
                ));
            }
        }
    }
    // A requirement that counts as met is tested only if its tests fail without it.
    for (id, text) in requirements::without_fault()? {
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

/// Returns whether the crate has the program of a test, which is `lib` or one in the folder `tests`.
fn has_binary(fault: &Fault, test: &str) -> bool {
    let tests = root().join("crates").join(fault.folder()).join("tests");
    let is_file =
        |binary: &str| tests.join(format!("{binary}.rs")).is_file() || tests.join(binary).join("main.rs").is_file();
    test.split_once("::")
        .is_some_and(|(binary, _)| binary == "lib" || is_file(binary))
}

fn is_marked(marks: &Marks, id: &str, fault: &Fault) -> bool {
    marks.tests_of(id).any(|place| {
        let marked = place.rsplit_once('`').and_then(|(rest, _)| rest.rsplit_once('`'));
        let tests = || fault.tests.iter().filter_map(|test| test.rsplit("::").next());
        marked.is_some_and(|(_, item)| tests().any(|test| test == item))
    })
}

/// Returns the position of the old code in its file.
fn place(fault: &Fault) -> Outcome<(usize, usize)> {
    let path = root().join(&fault.file);
    let source = std::fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", fault.file))?;
    let old = fault.old.trim();
    let mut found = source.match_indices(old);
    match (found.next(), found.next()) {
        (Some((at, _)), None) => Ok((at, at + old.len())),
        (None, _) => Err(format!("{} does not contain `{old}`", fault.file)),
        (Some(_), Some(_)) => Err(format!("{} contains `{old}` more than once", fault.file)),
    }
}

/// Removes and returns faults that do not overlap, or that replace the same code.
fn take_batch(faults: &mut Vec<(usize, Fault)>) -> Outcome<Vec<(usize, Fault)>> {
    let mut taken: Vec<(String, usize, usize)> = Vec::new();
    let (mut batch, mut rest) = (Vec::new(), Vec::new());
    for (number, fault) in faults.drain(..) {
        let (start, end) = place(&fault)?;
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

fn copy_folder() -> PathBuf {
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
fn write_copy(batch: &[(usize, Fault)]) -> Outcome {
    let mut by_file: BTreeMap<&str, Places<'_>> = BTreeMap::new();
    for (number, fault) in batch {
        let places = by_file.entry(&fault.file).or_default();
        places.entry(place(fault)?).or_default().push((*number, fault));
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
    for file in files()? {
        let path = root().join(&file);
        if path.is_symlink() {
            copy_link(&path, &copy_folder().join(&file))?;
            continue;
        }
        let mut bytes = std::fs::read(&path).map_err(|e| format!("cannot read {file}: {e}"))?;
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
        write_if_changed(&copy_folder().join(&file), &bytes)?;
    }
    Ok(())
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> Outcome {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    create_parent(path)?;
    std::fs::write(path, bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// Makes a link with the same, relative, target.
fn copy_link(from: &Path, to: &Path) -> Outcome {
    let target = std::fs::read_link(from).map_err(|e| format!("cannot read {}: {e}", from.display()))?;
    if to.is_symlink() {
        return Ok(());
    }
    create_parent(to)?;
    std::os::unix::fs::symlink(target, to).map_err(|e| format!("cannot write {}: {e}", to.display()))
}

fn create_parent(path: &Path) -> Outcome {
    let Some(folder) = path.parent() else { return Ok(()) };
    std::fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))
}

/// Returns the files of the copy, relative to the workspace.
fn files() -> Outcome<Vec<String>> {
    let mut command = Command::new("git");
    command.args(["ls-files", "--cached", "--others", "--exclude-standard", "--"]);
    let list = process::output(command.args(COPIED).current_dir(root()))?;
    let exists = |file: &&str| root().join(file).is_file() || root().join(file).is_symlink();
    Ok(list.lines().filter(exists).map(str::to_owned).collect())
}

/// Returns the test programs of the faults, by package.
fn programs(batch: &[(usize, Fault)]) -> BTreeMap<String, BTreeSet<&str>> {
    let mut packages: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (_, fault) in batch {
        let names = fault.tests.iter().filter_map(|test| Some(test.split_once("::")?.0));
        packages.entry(fault.package()).or_default().extend(names);
    }
    packages
}

/// Checks that the tests of the faults compile, without generating code: in a clean clone, the dependencies alone take longer to build
/// than everything else here. Those that clippy has checked are used again.
fn compile(batch: &[(usize, Fault)]) -> Outcome {
    for package in programs(batch).into_keys() {
        let mut command = process::cargo(&["check", "--quiet", "--tests", "--package", &package]);
        command
            .current_dir(copy_folder())
            .env("CARGO_TARGET_DIR", root().join("target"))
            // Cargo gives the packages of a workspace other file names if a program starts the compiler. Otherwise the copy's packages
            // would have those of the workspace itself, and `cargo check` could take one for the other.
            .env("RUSTC_WORKSPACE_WRAPPER", "env");
        process::run(&mut command)?;
    }
    Ok(())
}

/// Builds the tests of the faults.
fn build(batch: &[(usize, Fault)]) -> Outcome<Binaries> {
    let mut binaries = BTreeMap::new();
    for (package, names) in programs(batch) {
        let built = build_package(&package, &names)?;
        binaries.extend(built.into_iter().map(|(name, path)| ((package.clone(), name), path)));
    }
    Ok(binaries)
}

/// Builds tests of a package. Returns each binary by its name.
fn build_package(package: &str, names: &BTreeSet<&str>) -> Outcome<BTreeMap<String, PathBuf>> {
    let mut command = process::cargo(&["test", "--no-run", "--message-format=json-render-diagnostics"]);
    command.args(["--package", package]);
    for name in names {
        if *name == "lib" {
            command.arg("--lib");
        } else {
            command.args(["--test", name]);
        }
    }
    // A separate folder: cargo could not distinguish the copy's files from the others.
    command
        .current_dir(copy_folder())
        .env("CARGO_TARGET_DIR", copy_folder().join("build"));
    note(&format!("$ {}", process::line(&command)));
    let messages = process::output(&mut command)?;
    let mut binaries = BTreeMap::new();
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else {
            continue;
        };
        let Some(executable) = message["executable"].as_str() else {
            continue;
        };
        // Programs that the tests start are built too.
        if message["profile"]["test"] != true {
            continue;
        }
        let is_lib = message["target"]["kind"][0] == "lib";
        let target = message["target"]["name"].as_str().unwrap_or_default();
        let name = if is_lib { "lib" } else { target };
        binaries.insert(name.to_owned(), PathBuf::from(executable));
    }
    Ok(binaries)
}

/// Runs the tests of each fault without it and with it. Returns the faults that no test detected.
fn try_batch(batch: &[(usize, Fault)], binaries: &Binaries) -> Outcome<Vec<String>> {
    let mut survivors = Vec::new();
    let mut sound = BTreeSet::new();
    for (number, fault) in batch {
        let mut noticed = Vec::new();
        for test in &fault.tests {
            if sound.insert((fault.package(), test)) && !passes(&fault.package(), test, 0, binaries)? {
                return Err(format!("{test} fails without a fault"));
            }
            if !passes(&fault.package(), test, *number, binaries)? {
                noticed.push(test.as_str());
            }
        }
        // All listed tests have to detect it.
        let verdict = if noticed.len() == fault.tests.len() {
            "noticed"
        } else {
            survivors.push(name(*number, fault));
            "SURVIVED"
        };
        say(&format!(
            "{verdict} {}: {}",
            name(*number, fault),
            fault.tests.join(", ")
        ));
    }
    Ok(survivors)
}

/// Returns whether a test passes with this fault.
fn passes(package: &str, test: &str, fault: usize, binaries: &Binaries) -> Outcome<bool> {
    let (binary, filter) = test.split_once("::").ok_or(format!("{test} is not BINARY::NAME"))?;
    let program = binaries
        .get(&(package.to_owned(), binary.to_owned()))
        .ok_or(format!("{package} has no test binary {binary}"))?;
    let mut command = Command::new(program);
    command.args(["--exact", filter]).env(SWITCH, fault.to_string());
    command.env("RUST_BACKTRACE", "0").current_dir(copy_folder());
    let out = copy_folder().join("output");
    let file = std::fs::File::create(&out).map_err(|e| format!("cannot write {}: {e}", out.display()))?;
    command.stdout(file).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| format!("cannot start {binary}: {e}"))?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| format!("{test}: {e}"))? {
            break status;
        }
        if start.elapsed() > TIME_LIMIT {
            // With the programs that it has started.
            process::end(&mut child);
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = std::fs::read_to_string(&out).unwrap_or_default();
    if !text.contains("running 1 test\n") {
        return Err(format!("{test} does not exist"));
    }
    Ok(status.success())
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
