//! Running emulations.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use whimbrel_testkit::process::InTime as _;

pub(crate) const WHIMBREL: &str = env!("CARGO_BIN_EXE_whimbrel");

/// The emulation was too slow.
const TOO_SLOW: i32 = 124;
const ATTEMPTS: u32 = 4;

/// Two emulations at the same time would make each other late.
static ALONE: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name that no other emulation has, including those of another run of these tests.
pub(crate) fn name(test: &str) -> String {
    format!("t{}{test}", std::process::id())
}

/// A folder with a scenario. Text after `link = [` describes links of `client` and `server`.
pub(crate) struct Lab {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) name: String,
}

impl Lab {
    /// Creates a scenario with two nodes and these links.
    pub(crate) fn new(test: &str, links: &[&str]) -> Self {
        let links: Vec<_> = links
            .iter()
            .map(|link| format!("{{ between = [\"client\", \"server\"], {link} }}"))
            .collect();
        Lab::with(
            test,
            &format!(
                r#"
node = [{{ name = "client" }}, {{ name = "server" }}]
link = [{}]
flow = [{{ name = "data", from = "client", to = "server" }}]
"#,
                links.join(", ")
            ),
        )
    }

    pub(crate) fn with(test: &str, scenario: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("scenario.toml"), scenario).unwrap();
        Lab { dir, name: name(test) }
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("nice");
        command.args(["-n", "-20", WHIMBREL, "emulate", "scenario.toml", "--name", &self.name]);
        command.args(args).current_dir(self.dir.path());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        Done::of(self.command(args).output_in_time())
    }

    /// Runs an emulation whose timing is measured. Repeats it if the machine was too slow; the last error is the reason.
    pub(crate) fn measure(&self, args: &[&str]) -> Result<Done, String> {
        let _alone = alone();
        let mut done = self.run(args);
        for _ in 1..ATTEMPTS {
            if done.code != TOO_SLOW {
                break;
            }
            done = self.run(args);
        }
        match done.code {
            TOO_SLOW => Err(done.err),
            _ => Ok(done),
        }
    }

    /// The files of its namespaces that exist.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir("/run/netns") else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(&self.name)).collect()
    }
}

pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    fn of(output: Output) -> Self {
        Done {
            code: output.status.code().expect("it was not killed"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self
    }

    /// The report, which is the last line with `--json`.
    pub(crate) fn report(&self) -> Value {
        let line = self.out.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|_| panic!("{}{}", self.out, self.err))
    }
}

/// Returns the text between two others.
#[track_caller]
pub(crate) fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let found = text
        .split_once(before)
        .and_then(|(_, rest)| rest.split_once(after))
        .map(|(found, _)| found);
    found.unwrap_or_else(|| panic!("no text between {before} and {after}: {text}"))
}

/// Returns whether a process with this word in its command line exists.
pub(crate) fn is_running(word: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .any(|entry| is_of(&entry.path(), word))
}

fn is_of(process: &Path, word: &str) -> bool {
    let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|part| part == word.as_bytes())
}
