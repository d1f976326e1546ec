//! `cargo xtask playground`: builds the simulator for the browser and the page around it, one HTML file without anything to load.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;

use super::bundle;
use crate::chore::{Outcome, note, root, say};
use crate::files::{read, read_bytes, write};
use crate::process;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The page to write
    #[arg(long, default_value = "target/playground/index.html")]
    out: PathBuf,
    /// Then compare its answers with those of the native build, and use the page in Chromium
    #[arg(long)]
    check: bool,
}

const TARGET: &str = "wasm32-unknown-unknown";

pub(crate) fn run(args: &Args) -> Outcome {
    let web = root().join("crates/report/web");
    bundle::prepare(&web)?;
    for project in [".", "../../playground/web"] {
        process::output(
            Command::new("npx")
                .args(["tsc", "--noEmit", "-p", project])
                .current_dir(&web),
        )?;
    }
    let made = tempfile::tempdir().map_err(|e| format!("no folder for the bundle: {e}"))?;
    let mut node = Command::new("node");
    node.args(["playground.mjs", "--out"])
        .arg(made.path())
        .current_dir(&web);
    process::output(&mut node)?;
    let module = simulator()?;
    let simulator = packed(&module.1)?;
    let page = page(&Parts {
        program: read(&made.path().join("playground.js"))?,
        worker: read(&made.path().join("playground-worker.js"))?,
        styles: read(&made.path().join("playground.css"))?,
        licences: read(&web.join("dist/licences.txt"))?,
        simulator,
    });
    let out = root().join(&args.out);
    write(&out, &page)?;
    say(&format!(
        "{} ({} kB): open it in a browser",
        args.out.display(),
        page.len() / 1000
    ));
    if args.check { check(&module.0, &out) } else { Ok(()) }
}

/// Compares the module with the native build, and uses the page in Chromium if that is installed.
fn check(module: &Path, page: &Path) -> Outcome {
    let mut cargo = process::cargo(&["build", "--package", "whimbrel-playground", "--example", "answer"]);
    process::output(&mut cargo)?;
    let tests = root().join("crates/playground/web/test");
    let mut same = Command::new("node");
    same.arg(tests.join("same.mjs"))
        .arg(module)
        .arg(target().join("debug/examples/answer"));
    process::run(&mut same)?;
    let Some(chromium) = process::chromium() else {
        note("the playground: NOT used in a browser, chromium is not installed");
        return Ok(());
    };
    let mut browser = Command::new("node");
    let which = process::output(Command::new("which").arg(chromium))?;
    browser.arg(tests.join("browser.mjs")).arg(which.trim()).arg(page);
    process::run(&mut browser)
}

/// Returns the folder of builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Builds the simulator, and returns its module: the file and its content.
fn simulator() -> Outcome<(PathBuf, Vec<u8>)> {
    let targets = process::output(Command::new("rustup").args(["target", "list", "--installed"]))?;
    if !targets.lines().any(|line| line == TARGET) {
        process::output(Command::new("rustup").args(["target", "add", TARGET]))?;
    }
    let mut cargo = process::cargo(&[
        "build",
        "--package",
        "whimbrel-playground",
        "--profile",
        "page",
        "--target",
        TARGET,
    ]);
    process::output(&mut cargo)?;
    let path = target().join(TARGET).join("page/whimbrel_playground.wasm");
    let module = read_bytes(&path)?;
    Ok((path, module))
}

/// Compresses the module, and returns it as text.
fn packed(module: &[u8]) -> Outcome<String> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let bytes = gzip.write_all(module).and_then(|()| gzip.finish());
    let bytes = bytes.map_err(|e| format!("cannot compress the simulator: {e}"))?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

struct Parts {
    program: String,
    worker: String,
    styles: String,
    licences: String,
    simulator: String,
}

fn page(parts: &Parts) -> String {
    let Parts {
        program,
        worker,
        styles,
        licences,
        simulator,
    } = parts;
    // Texts in script elements end at `</script`, which the bundles do not contain; in the licences `<` is escaped.
    let licences = licences.replace('<', "\\u003c");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Whimbrel playground</title>\n<style>\n{styles}</style>\n</head>\n<body>\n\
         <noscript>The playground runs a simulator with JavaScript and WebAssembly, which are switched off.</noscript>\n\
         <div id=\"app\"></div>\n\
         <script type=\"text/plain\" id=\"simulator\">{simulator}</script>\n\
         <script type=\"text/plain\" id=\"worker\">{worker}</script>\n\
         <script type=\"text/plain\" id=\"licences\">{licences}</script>\n\
         <script>{program}</script>\n</body>\n</html>\n"
    )
}
