//! Running the command and reading its output.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use whimbrel_testkit::process::{InTime as _, LINE_LIMIT};

pub(crate) const WHIMBREL: &str = env!("CARGO_BIN_EXE_whimbrel");

/// Waits for something that another end does.
pub(crate) async fn in_time<T>(waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(LINE_LIMIT, waiting).await.expect("in time")
}

/// Returns the workspace folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the command in its own folder, with relative paths, so that results do not depend on the machine.
pub(crate) fn whimbrel(folder: &Path, args: &[&str]) -> Output {
    Command::new(WHIMBREL).args(args).current_dir(folder).output_in_time()
}

/// Returns the exit code.
pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

/// Returns its standard output.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// Returns its standard error.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// Returns a scenario with the nodes `a` and `b`: `head` has its first fields, `link` those of the link `radio` between them, and `rest`
/// follows.
pub(crate) fn one_link(head: &str, link: &str, rest: &str) -> String {
    let nodes = "\n[[node]]\nname = \"a\"\n\n[[node]]\nname = \"b\"\n";
    let between = "\n[[link]]\nname = \"radio\"\nbetween = [\"a\", \"b\"]\n";
    format!("{head}{nodes}{between}{link}\n{rest}")
}
