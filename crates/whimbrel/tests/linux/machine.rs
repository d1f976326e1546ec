//! Whether this machine can run a guest, and with which settings: found out once, by booting one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use whimbrel_testkit::program;

use crate::guest::{Arrival, Guest, Stack};

pub(crate) const KERNEL: &str = "/usr/bin/linux.uml";

/// For a boot, on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(180);

/// Settings with which a guest boots.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The folder for guests' file systems.
    pub(crate) folder: PathBuf,
    /// The folder for the file that holds the guest's memory; absent: the kernel's choice, /dev/shm.
    pub(crate) memory: Option<PathBuf>,
    /// Libraries that the kernel loads first, by the names of their sources.
    pub(crate) preload: &'static [&'static str],
}

/// The settings with which guests boot on this machine.
///
/// # Errors
/// The reason if none can: a program is missing, or the guest's boot fails before any packet is exchanged.
pub(crate) fn can_run(stack: Stack) -> Result<&'static Machine, String> {
    static FOUND: OnceLock<Result<Machine, String>> = OnceLock::new();
    if stack == Stack::Usrsctp {
        program("/usr/include/usrsctp.h", "libusrsctp-dev")?;
    }
    FOUND.get_or_init(find).as_ref().map_err(Clone::clone)
}

fn find() -> Result<Machine, String> {
    program(KERNEL, "user-mode-linux")?;
    program("cc", "gcc")?;
    program("/usr/include/linux/sctp.h", "linux-libc-dev")?;
    let started = Command::new(KERNEL).arg("--version").output();
    if !started.as_ref().is_ok_and(|output| output.status.success()) {
        return Err(format!("{KERNEL} cannot be started here: {started:?}"));
    }
    // Its memory is a file that must be executable: in /dev/shm, which may be missing, small, or mounted "noexec"; else among
    // temporary files; else in our build folder.
    let (temporary, build) = (std::env::temp_dir(), PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
    let places = [
        (temporary.clone(), None),
        (temporary.clone(), Some(temporary)),
        (build.clone(), Some(build)),
    ];
    let mut reasons = Vec::new();
    for (folder, memory) in places {
        let machine = Machine {
            folder,
            memory,
            preload: &["umlxstate"],
        };
        match boots(&machine) {
            Ok(()) => return Ok(machine),
            Err(reason) if !reasons.contains(&reason) => reasons.push(reason),
            Err(_) => {}
        }
    }
    Err(reasons.join("; then: "))
}

/// Boots a guest up to its first process and turns it off.
///
/// # Errors
/// The last words of a guest that does not come so far.
pub(crate) fn boots(machine: &Machine) -> Result<(), String> {
    let guest = Guest::boot_on(machine, Stack::Kernel);
    loop {
        let what = match guest.arrivals.recv_timeout(PATIENCE) {
            Ok(Arrival::Frame(..)) => continue,
            Ok(Arrival::Line(line)) if line == "= ready" => return Ok(()),
            Ok(Arrival::Line(line)) => format!("the guest's program: {line}"),
            Ok(Arrival::Off) => "user-mode-linux ended during its boot".to_owned(),
            Err(_) => format!("user-mode-linux did not boot within {} s", PATIENCE.as_secs()),
        };
        return Err(format!("{what}: {}", last_words(&guest.log())));
    }
}

/// The lines of a log that say why it ends: the last ones about a failure, or else the last ones.
fn last_words(log: &str) -> String {
    const MOST: usize = 3;
    let lines = || {
        log.lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with("[<"))
    };
    let failed = |line: &&str| {
        let line = line.to_lowercase();
        let words = ["fail", "error", "errno", "panic", "cannot", "not permitted", "noexec"];
        words.iter().any(|word| line.contains(word))
    };
    let mut words: Vec<&str> = lines().rev().filter(failed).take(MOST).collect();
    if words.is_empty() {
        words = lines().rev().take(MOST).collect();
    }
    words.reverse();
    words.join(" / ")
}

/// Compiles sources that lie beside this file.
///
/// # Panics
/// If they do not compile: [`can_run`] has looked for the compiler and the headers.
pub(crate) fn compile(arguments: &[&str], into: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linux");
    let compiled = Command::new("cc")
        .current_dir(sources)
        .args(["-O1", "-Wall", "-o"])
        .arg(into)
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        compiled.status.success(),
        "cc does not compile {arguments:?}; on Debian it needs the packages gcc, libc6-dev and libusrsctp-dev:\n{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
}

#[test]
fn guest_boots_on_a_host_with_a_larger_xsave_area() {
    whimbrel_testkit::needs!(can_run(Stack::Kernel));
    let on = |preload| {
        boots(&Machine {
            preload,
            ..can_run(Stack::Kernel).unwrap().clone()
        })
    };
    // The host's refusal is what it is on a CPU with AMX.
    let refused = on(&["amxhost"]).unwrap_err();
    assert!(refused.contains("ptrace set fp regs failed, errno = 14"), "{refused}");
    assert_eq!(on(&["umlxstate", "amxhost"]), Ok(()));
}
