//! Embeds the project's studies into the binary, so that `whimbrel study` works anywhere.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    // A link, so that the packed crate has the files as well.
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("embedded/studies");
    assert!(studies.is_dir(), "{} is missing", studies.display());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", studies.display());
    let mut text = String::from("&[\n");
    for folder in sorted(&studies)
        .into_iter()
        .filter(|path| path.join("study.toml").is_file())
    {
        // Pages and plots are generated from the other files.
        let is_made = |path: &Path| path.extension().is_some_and(|kind| kind == "md" || kind == "svg");
        for file in sorted(&folder)
            .into_iter()
            .filter(|path| path.is_file() && !is_made(path))
        {
            let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let full = fs::canonicalize(&file).expect("a file that was listed exists");
            writeln!(
                text,
                "({:?}, {:?}, include_bytes!({full:?})),",
                name(&folder),
                name(&file)
            )
            .expect("writing to a string cannot fail");
        }
    }
    text.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("studies.rs");
    fs::write(out, text).expect("cargo's folder for generated files is writable");
}

/// Returns the entries of a folder, sorted by name; none if the folder does not exist.
fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}
