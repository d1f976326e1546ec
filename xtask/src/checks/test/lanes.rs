//! The tests of two lanes. Tests with sockets, in real time or beside other programs mostly wait; the others compute.

use crate::chore::Outcome;
use crate::process;

/// Names of the test programs that only compute. Several crates have programs of these names.
const COMPUTING: [&str; 2] = ["suite", "memory"];

/// Returns the arguments that select the tests that compute.
pub(super) fn computing() -> Vec<String> {
    let libraries = ["--lib", "--bins"].map(str::to_owned);
    libraries
        .into_iter()
        .chain(COMPUTING.into_iter().flat_map(test))
        .collect()
}

/// Returns the arguments that select all other test programs of the workspace.
pub(super) fn waiting() -> Outcome<Vec<String>> {
    let metadata = process::output(&mut process::cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    let names = programs(&metadata)?.into_iter();
    Ok(names
        .filter(|name| !COMPUTING.contains(&name.as_str()))
        .flat_map(|name| test(&name))
        .collect())
}

fn test(name: &str) -> [String; 2] {
    ["--test".to_owned(), name.to_owned()]
}

/// Returns the names of test programs in cargo's description of the workspace, each once.
fn programs(metadata: &str) -> Outcome<std::collections::BTreeSet<String>> {
    let metadata: Metadata = serde_json::from_str(metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let targets = metadata.packages.into_iter().flat_map(|package| package.targets);
    let tests = targets.filter(|target| target.kind.iter().any(|kind| kind == "test"));
    Ok(tests.map(|target| target.name).collect())
}

/// What is read of `cargo metadata`.
#[derive(serde::Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(serde::Deserialize)]
struct Package {
    targets: Vec<Target>,
}

#[derive(serde::Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_program_of_the_workspace_is_in_one_lane() {
        let metadata = process::cargo(&["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .expect("cargo");
        let all = programs(&String::from_utf8(metadata.stdout).expect("text")).expect("metadata");
        let named = |arguments: Vec<String>| {
            let pairs = arguments.windows(2).filter(|pair| pair[0] == "--test");
            pairs.map(|pair| pair[1].clone()).collect::<Vec<_>>()
        };
        let mut both = [named(computing()), named(waiting().expect("metadata"))].concat();
        both.sort();
        assert_eq!(both, all.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn only_tests_are_test_programs_and_each_is_named_once() {
        let metadata = r#"{"packages": [
            {"targets": [{"kind": ["lib"], "name": "a"}, {"kind": ["test"], "name": "suite"}, {"kind": ["example"], "name": "e"}]},
            {"targets": [{"kind": ["test"], "name": "suite"}, {"kind": ["test"], "name": "b"}]}]}"#;
        let names: Vec<String> = programs(metadata).expect("metadata").into_iter().collect();
        assert_eq!(names, ["b", "suite"]);
    }
}
