//! The Go program `peer/main.go`, which uses pion/sctp, as a process.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use whimbrel_testkit::process::Lines;
use whimbrel_testkit::program;

/// Places of Go: in PATH, and that of its own archive.
const GO: [&str; 2] = ["go", "/usr/local/go/bin/go"];

/// A running program, killed at the end of the test.
pub(crate) struct Peer {
    /// Its UDP port.
    pub(crate) port: u16,
    child: Child,
    lines: Lines,
}

/// Builds the program once. An error is the reason why this machine cannot: no Go, or no modules.
pub(crate) fn built() -> Result<&'static Path, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref().map_err(String::clone)
}

fn build() -> Result<PathBuf, String> {
    let go = GO.iter().find_map(|name| program(name, "golang-go").ok());
    let go = go.ok_or("Go is missing (1.24 or later, in PATH or in /usr/local/go)")?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pion/peer");
    let run = |arguments: &[&str]| {
        let output = Command::new(&go).args(arguments).current_dir(&source).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(text) }
    };
    run(&["mod", "download"]).map_err(|text| format!("the Go modules cannot be downloaded: {text}"))?;
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pion-peer");
    let built = run(&["build", "-mod=readonly", "-o", target.to_str().unwrap(), "."]);
    assert_eq!(built, Ok(()), "the program does not compile");
    Ok(target)
}

impl Peer {
    /// Starts the program with this UDP port, 0 for any, and perhaps `interleaving`.
    pub(crate) fn start(port: u16, options: &[&str]) -> Self {
        let mut child = Command::new(built().unwrap())
            .arg(port.to_string())
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Its log.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = Lines::of(child.stdout.take().unwrap());
        let port = lines.after("= port ").parse().unwrap();
        Peer { port, child, lines }
    }

    /// Sets the UDP port of the other end.
    pub(crate) fn reach(&mut self, remote: u16) {
        self.command(&format!("remote {remote}"));
        self.expect("remote");
    }

    /// No longer returns messages.
    pub(crate) fn quiet(&mut self) {
        self.command("quiet");
        self.expect("quiet");
    }

    /// Hands it a line.
    pub(crate) fn command(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// Waits until it writes that this has happened.
    pub(crate) fn expect(&mut self, what: &str) {
        loop {
            let line = self.lines.next_line().expect("it runs");
            assert!(!line.starts_with('!'), "pion: {line}");
            if line.trim_end().strip_prefix("= ") == Some(what) {
                return;
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
