//! The bundle in `web/dist` is made from the sources in `web`: `cargo xtask generate report` rebuilds it.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("web")
}

/// The files of a folder and those below it, in the order of their names at each level.
fn sources(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(web().join(folder)).expect("a folder of sources");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("a readable folder")
                .file_name()
                .into_string()
                .expect("a name in UTF-8")
        })
        .collect();
    names.sort();
    let paths = names.into_iter().map(|name| format!("{folder}/{name}"));
    paths
        .flat_map(|path| {
            if web().join(&path).is_dir() {
                sources(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn bundle_is_made_from_the_sources_as_they_are() {
    let mut digest = Sha256::new();
    let fixed = ["build.mjs", "package-lock.json", "package.json"].map(str::to_owned);
    for name in fixed.into_iter().chain(sources("src")) {
        digest.update(&name);
        digest.update([0]);
        digest.update(fs::read(web().join(&name)).expect("a source"));
        digest.update([0]);
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let bundle = fs::read_to_string(web().join("dist/report.js")).expect("the bundle");
    let first = bundle.lines().next().expect("a line");
    assert!(
        first.contains(&format!("sources {digest};")),
        "web/dist/report.js is not current; run `cargo xtask generate report`"
    );
}

/// The libraries that the bundle may contain: packages that the lock file does not mark as tools of development.
fn libraries() -> Vec<(String, String, String)> {
    let lock = fs::read_to_string(web().join("package-lock.json")).expect("the lock file");
    let lock: serde_json::Value = serde_json::from_str(&lock).expect("JSON");
    let packages = lock["packages"].as_object().expect("packages").iter();
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let shipped = packages.filter_map(|(path, package)| {
        let name = path.rsplit_once("node_modules/")?.1.to_owned();
        let is_tool = package["dev"] == true;
        (!is_tool).then(|| (name, text(&package["version"]), text(&package["license"])))
    });
    shipped.collect()
}

#[test]
fn licences_of_all_bundled_libraries_are_shipped() {
    let licences = fs::read_to_string(web().join("dist/licences.txt")).expect("the licences");
    let rule = "=".repeat(60);
    let libraries = libraries();
    assert!(libraries.iter().any(|(name, ..)| name == "echarts"), "{libraries:?}");
    for (name, version, licence) in &libraries {
        let head = format!("{name} {version} ({licence})\n{rule}\n");
        let (_, text) = licences.split_once(&head).unwrap_or_else(|| panic!("no {head}"));
        let text = text.split(&rule).next().unwrap_or_default();
        let words = match licence.as_str() {
            "Apache-2.0" => ["Apache License", "APPENDIX: How to apply"],
            "BSD-3-Clause" => ["Redistribution and use", "Neither the name"],
            "0BSD" => ["Permission to use, copy, modify", "THE SOFTWARE IS PROVIDED"],
            other => panic!("{name}: no test of the licence {other}"),
        };
        for words in words {
            assert!(text.contains(words), "{name}: {words}");
        }
    }
    let heads = licences.lines().filter(|line| *line == rule).count();
    assert_eq!(
        heads,
        libraries.len(),
        "each library has a licence, and nothing else has one"
    );
}
