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

#[test]
fn licences_of_all_bundled_libraries_are_shipped() {
    let licences = fs::read_to_string(web().join("dist/licences.txt")).expect("the licences");
    for words in [
        "echarts ",
        "(Apache-2.0)",
        "zrender ",
        "(BSD-3-Clause)",
        "tslib ",
        "(0BSD)",
        "Apache License",
        "Redistribution and use",
    ] {
        assert!(licences.contains(words), "{words}");
    }
}
