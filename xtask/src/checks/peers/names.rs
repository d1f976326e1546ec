//! The names of the tests in the sources of a test program, as the test harness prints them, after the name of the program.

use std::path::Path;

use crate::chore::{Outcome, root};
use crate::files::{below, has_extension, read};

/// Returns the names of the tests of a program of a package: `PROGRAM::MODULE::TEST`.
pub(super) fn of(package: &str, program: &str) -> Outcome<Vec<String>> {
    let folder = package.strip_prefix("whimbrel-").unwrap_or(package);
    let tests = root().join("crates").join(folder).join("tests");
    let (file, modules) = (tests.join(format!("{program}.rs")), tests.join(program));
    let files = if file.exists() { vec![file] } else { below(&modules)? };
    let mut names = Vec::new();
    for file in files.iter().filter(|file| has_extension(file, "rs")) {
        let module = module(&modules, file);
        let source = read(file)?;
        let found = functions(&source).into_iter().chain(stories(&source));
        names.extend(found.map(|name| format!("{program}::{module}{name}")));
    }
    Ok(names)
}

/// Returns the module of a file of a test program with `::` after it; that of the program's own file is empty.
fn module(folder: &Path, file: &Path) -> String {
    let Ok(file) = file.strip_prefix(folder) else {
        return String::new();
    };
    let parts = file.with_extension("");
    let parts = parts.iter().filter_map(|part| part.to_str());
    parts
        .filter(|part| !matches!(*part, "main" | "mod"))
        .map(|part| format!("{part}::"))
        .collect()
}

/// Returns the functions with an attribute `#[test]` or `#[tokio::test(...)]`.
fn functions(source: &str) -> Vec<String> {
    let (mut names, mut is_test) = (Vec::new(), false);
    for line in source.lines().map(str::trim_start) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        if let Some((name, _)) = function.and_then(|function| function.split_once('(')) {
            if is_test && !name.starts_with('$') {
                names.push(name.to_owned());
            }
            is_test = false;
        }
    }
    names
}

/// Returns the tests that the macro `stories!` of the program `linux` makes: `STACK in MODULE: TEST, TEST;`.
fn stories(source: &str) -> Vec<String> {
    let Some((_, list)) = source.split_once("\nstories! {") else {
        return Vec::new();
    };
    let list = list.split("\n}").next().unwrap_or(list);
    let modules = list
        .split(';')
        .filter_map(|entry| entry.split_once(" in ")?.1.split_once(':'));
    modules
        .flat_map(|(module, tests)| tests.split(',').map(move |test| format!("{module}::{}", test.trim())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_with_an_attribute_are_tests() {
        let source = "fn helper() {}\n#[test]\nfn a() {}\n#[tokio::test(flavor = \"x\")]\nasync fn b() {}\n    #[test]\n    fn $story() {}\nfn c() {}";
        assert_eq!(functions(source), ["a", "b"]);
    }

    #[test]
    fn stories_are_tests_of_each_module() {
        let source = "macro_rules! stories {}\nstories! {\n    Kernel in kernel:\n        a,\n        b;\n    Usrsctp in usrsctp:\n        a;\n}\nfn a() {}";
        assert_eq!(stories(source), ["kernel::a", "kernel::b", "usrsctp::a"]);
    }

    #[test]
    fn a_file_is_a_module() {
        let module = |file: &str| module(Path::new("t/p"), Path::new(file));
        assert_eq!(module("t/p/main.rs"), "");
        assert_eq!(module("t/p/usrsctp.rs"), "usrsctp::");
        assert_eq!(module("t/p.rs"), "");
    }
}
