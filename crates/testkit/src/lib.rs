//! Tests that need more than a Rust toolchain: another program, IPv6, privileges. If the machine lacks it, such a test is not run.
//! It prints a line with the reason to standard error, bypassing the capture of the test harness, and appends it to the file in
//! [`LIST`], so that the summary of `cargo xtask test` counts it.
//!
//! [`process`] runs programs with a time limit, [`node`] fetches packages of npm, [`browser`] prepares scripts that drive a browser.

#![forbid(unsafe_code)]

pub mod browser;
pub mod node;
pub mod process;

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The environment variable with the path of the file that lists tests that were not run.
pub const LIST: &str = "WHIMBREL_NOT_RUN";

/// How much of a test was not run. The text is the first word of its line in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The whole test.
    Whole,
    /// A part of its checks.
    Part,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Extent::Whole => "NOT RUN",
            Extent::Part => "NOT RUN IN PART",
        })
    }
}

/// Waits until a host can use its new address `addr`, with or without the length of its prefix. A worker of the kernel inserts the route to an
/// IPv6 address after `ip addr add` has ended, also with `nodad`. `ip` returns a command that runs `ip` on this host.
///
/// # Panics
/// If there is no route within 10 s.
pub fn await_address(mut ip: impl FnMut() -> Command, addr: &str) {
    let addr = addr.split('/').next().unwrap_or(addr);
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let route = ip().args(["route", "get", addr]).output().expect("ip runs");
        if route.stdout.starts_with(b"local ") {
            return;
        }
        assert!(Instant::now() < until, "no route to {addr}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends the current test (without a return value) if the machine lacks what it needs: `needs!(program("tshark", "tshark"))`. The
/// argument is a `Result` whose error is the reason.
#[macro_export]
macro_rules! needs {
    ($need:expr) => {
        match $need {
            Ok(met) => met,
            Err(reason) => return $crate::not_run(module_path!(), &reason.to_string()),
        }
    };
}

/// Reports that the current test is not run. `module` is the test's module; its name is that of its thread.
pub fn not_run(module: &str, reason: &str) {
    report(Extent::Whole, module, reason);
}

/// Reports that a part of the current test is not run.
pub fn not_run_in_part(module: &str, reason: &str) {
    report(Extent::Part, module, reason);
}

fn report(extent: Extent, module: &str, reason: &str) {
    let program = module.split("::").next().unwrap_or(module);
    let thread = std::thread::current();
    let line = line(extent, program, thread.name().unwrap_or("a test"), reason);
    // The harness captures what `eprintln!` prints, and shows it only if the test fails.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(list) = std::env::var_os(LIST) {
        // One write in append mode: lines of several tests do not mix.
        let written = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&list)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        if let Err(error) = written {
            panic!(
                "cannot note in {} that a test was not run: {error}",
                Path::new(&list).display()
            );
        }
    }
}

fn line(extent: Extent, program: &str, test: &str, reason: &str) -> String {
    // A single line, whatever the reason contains.
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{extent}: {program}::{test}: {reason}\n")
}

/// Returns the path of a program: `name` is absolute, or is looked up in PATH.
///
/// # Errors
/// Returns an error with the Debian package if the program is missing.
pub fn program(name: &str, package: &str) -> Result<PathBuf, String> {
    let found = if name.starts_with('/') {
        Some(PathBuf::from(name)).filter(|path| path.is_file())
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .find(|path| path.is_file())
    };
    found.ok_or_else(|| format!("{name} is missing (Debian package {package})"))
}

/// Returns whether the loopback interface has the address `::1`.
///
/// # Errors
/// Returns an error with the reason if it has not.
pub fn ipv6() -> Result<(), String> {
    match std::net::UdpSocket::bind("[::1]:0") {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("no IPv6 on the loopback interface: {error}")),
    }
}

/// Returns whether this process may create network namespaces with TUN devices.
///
/// # Errors
/// Returns an error with the reason if it may not.
#[cfg(target_os = "linux")]
pub fn namespaces() -> Result<(), String> {
    use std::os::unix::fs::MetadataExt as _;

    let owner = std::fs::metadata("/proc/self").map(|process| process.uid());
    if owner.ok() != Some(0) {
        return Err("network namespaces need root".to_owned());
    }
    if !Path::new("/dev/net/tun").exists() {
        return Err("/dev/net/tun is missing".to_owned());
    }
    let unshare = program("unshare", "util-linux")?;
    let output = std::process::Command::new(unshare)
        .args(["--net", "--mount", "true"])
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(format!("cannot run unshare: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_names_its_package() {
        assert_eq!(
            program("/no/such/program", "some-package").unwrap_err(),
            "/no/such/program is missing (Debian package some-package)"
        );
        assert!(program("no-such-program-anywhere", "p").is_err());
        assert!(program("sh", "dash").is_ok_and(|path| path.is_absolute()));
    }

    #[test]
    fn reason_of_several_lines_becomes_one_line() {
        assert_eq!(
            line(Extent::Whole, "linux", "kernel::a", "it failed:\n  errno 14\n"),
            "NOT RUN: linux::kernel::a: it failed: errno 14\n"
        );
        assert!(line(Extent::Part, "x", "y", "z").starts_with("NOT RUN IN PART: "));
    }
}
