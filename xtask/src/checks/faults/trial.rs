//! Builds and runs the tests of faults.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::copy;
use super::list::Fault;
use crate::chore::{Outcome, note, root, say};
use crate::process;

/// A fault may cause an endless loop; a timeout counts as a failure.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Test binaries by package and name.
type Binaries = BTreeMap<(String, String), PathBuf>;

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
pub(super) fn compile(batch: &[(usize, Fault)]) -> Outcome {
    for package in programs(batch).into_keys() {
        let mut command = process::cargo(&["check", "--quiet", "--tests", "--package", &package]);
        command
            .current_dir(copy::folder())
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
        .current_dir(copy::folder())
        .env("CARGO_TARGET_DIR", copy::folder().join("build"));
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

/// Builds and runs the tests of each fault without it and with it. Returns the faults that no test detected.
pub(super) fn run(batch: &[(usize, Fault)]) -> Outcome<Vec<String>> {
    let binaries = &build(batch)?;
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
            survivors.push(fault.name(*number));
            "SURVIVED"
        };
        say(&format!(
            "{verdict} {}: {}",
            fault.name(*number),
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
    command.args(["--exact", filter]).env(copy::SWITCH, fault.to_string());
    command.env("RUST_BACKTRACE", "0").current_dir(copy::folder());
    let out = copy::folder().join("output");
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
