//! The program of reports: `crates/report/web/src` bundled into `crates/report/web/dist`, which is part of the repository so that the
//! binary builds without node.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::chore::{Outcome, note, root};
use crate::generated::Generated;
use crate::process;

/// What the bundle consists of.
const FILES: [&str; 3] = ["report.js", "report.css", "licences.txt"];

/// Writes the bundle, or names its files that are not current. Where node or its packages are missing, says so and does nothing: a test
/// of `crates/report` still compares the digest of the sources.
pub(crate) fn bundle(generated: &mut Generated) -> Outcome {
    let web = root().join("crates/report/web");
    if let Err(reason) = prepare(&web) {
        note(&format!(
            "the report's program: NOT {}: {reason}",
            if generated.is_check { "checked" } else { "bundled" }
        ));
        return Ok(());
    }
    process::output(Command::new("npm").args(["run", "--silent", "check"]).current_dir(&web))?;
    let made = tempfile::tempdir().map_err(|e| format!("no folder for the bundle: {e}"))?;
    process::output(
        Command::new("node")
            .args(["build.mjs", "--out"])
            .arg(made.path())
            .current_dir(&web),
    )?;
    for name in FILES {
        let text = std::fs::read(made.path().join(name)).map_err(|e| format!("the bundle has no {name}: {e}"))?;
        generated.update(&format!("crates/report/web/dist/{name}"), text)?;
    }
    Ok(())
}

/// Makes sure that node and the packages of `package-lock.json` are there.
pub(crate) fn prepare(web: &Path) -> Outcome {
    for program in ["node", "npm"] {
        process::output(Command::new(program).arg("--version"))
            .map_err(|_| format!("{program} is missing (Debian packages nodejs and npm)"))?;
    }
    // npm notes here what it has installed.
    let modified = |path: PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    let installed = modified(web.join("node_modules/.package-lock.json"));
    if installed.is_some() && installed >= modified(web.join("package-lock.json")) {
        return Ok(());
    }
    let mut install = Command::new("npm");
    install
        .args(["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"])
        .current_dir(web);
    process::output(&mut install)
        .map(drop)
        .map_err(|e| format!("npm cannot fetch its packages: {e}"))
}
