//! Programs of other projects that tests and benchmarks need, and their Debian packages.

use std::path::Path;
use std::process::Command;

use crate::chore::{Outcome, note};
use crate::process;

/// A required program, and its Debian package.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    /// An absolute path, a name to be found in PATH, or `python3 -m MODULE`.
    pub(crate) name: &'static str,
    package: &'static str,
    why: &'static str,
}

/// Programs for the tests.
pub(crate) const FOR_TESTS: &[Program] = &[
    Program {
        name: "/usr/lib/usrsctp/tsctp",
        package: "libusrsctp-examples",
        why: "the other stack in the interop tests",
    },
    Program {
        name: "tshark",
        package: "tshark",
        why: "decodes the packets that tests write",
    },
    Program {
        name: "dumpcap",
        package: "wireshark-common",
        why: "captures the packets of interop tests",
    },
    // It exists only for this architecture, and so do the tests that use it.
    #[cfg(target_arch = "x86_64")]
    Program {
        name: "/usr/bin/linux.uml",
        package: "user-mode-linux",
        why: "the Linux kernel in the interop tests",
    },
    Program {
        name: "cc",
        package: "gcc",
        why: "compiles the program that speaks SCTP in that kernel",
    },
    Program {
        name: "/usr/include/usrsctp.h",
        package: "libusrsctp-dev",
        why: "the other stack with several addresses, for that program",
    },
    Program {
        name: "python3",
        package: "python3",
        why: "runs the tests of the Python package",
    },
    Program {
        name: "python3 -m ensurepip",
        package: "python3-venv",
        why: "makes the environment of the Python package",
    },
    Program {
        name: "ping",
        package: "iputils-ping",
        why: "measures the delay of emulated links",
    },
    Program {
        name: "chromium",
        package: "chromium",
        why: "opens the reports that tests write",
    },
    Program {
        name: "npm",
        package: "npm",
        why: "fetches what drives that browser, and what bundles the program of reports",
    },
    Program {
        name: "ncat",
        package: "ncat",
        why: "runs on the sockets API",
    },
    Program {
        name: "socat",
        package: "socat",
        why: "runs on the sockets API",
    },
    Program {
        name: "iperf3",
        package: "iperf3",
        why: "runs on the sockets API",
    },
    Program {
        name: "sctp_darn",
        package: "lksctp-tools",
        why: "runs on the sockets API",
    },
    Program {
        name: "script",
        package: "bsdutils",
        why: "gives such programs a terminal",
    },
    Program {
        name: "/usr/include/netinet/sctp.h",
        package: "libsctp-dev",
        why: "the functions of lksctp, for a program that calls them",
    },
    Program {
        name: "/usr/include/linux/sctp.h",
        package: "linux-libc-dev",
        why: "the Linux kernel's interface to SCTP, for that program",
    },
];

/// Programs for the comparison with ns-2.
pub(crate) const FOR_NS2: &[Program] = &[Program {
    name: "ns",
    package: "ns2",
    why: "the simulator to compare with",
}];

/// Ensures that `programs` are installed; installs missing ones with apt-get if possible.
pub(crate) fn ensure(programs: &[Program]) -> Outcome {
    let missing: Vec<&Program> = programs.iter().filter(|p| !is_installed(p.name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for program in &missing {
        note(&format!(
            "missing: {} (package {}): {}",
            program.name, program.package, program.why
        ));
    }
    let mut packages: Vec<&str> = missing.iter().map(|p| p.package).collect();
    packages.sort_unstable();
    packages.dedup();
    install(&packages)?;
    match missing.iter().find(|p| !is_installed(p.name)) {
        Some(program) => Err(format!(
            "package {} is installed but {} is not there",
            program.package, program.name
        )),
        None => Ok(()),
    }
}

fn install(packages: &[&str]) -> Outcome {
    let by_hand = format!(
        "install the missing packages by hand: apt-get install {}",
        packages.join(" ")
    );
    if !is_installed("apt-get") {
        return Err(format!("this system has no apt-get; {by_hand}"));
    }
    let become_root = if is_root() {
        None
    } else if is_installed("sudo") {
        Some("sudo")
    } else {
        return Err(format!(
            "only root may install packages and there is no sudo; {by_hand}"
        ));
    };
    let apt_get = |arguments: &[&str]| {
        let mut command = match become_root {
            Some(sudo) => {
                let mut command = Command::new(sudo);
                command.args(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
                command
            }
            None => {
                let mut command = Command::new("apt-get");
                command.env("DEBIAN_FRONTEND", "noninteractive");
                command
            }
        };
        command.args(arguments);
        command
    };
    // An outdated package list is not fatal: the installation reports errors.
    if let Err(message) = process::run(&mut apt_get(&["-q", "update"])) {
        note(&format!("warning: {message}"));
    }
    let mut arguments = vec!["-q", "-y", "--no-install-recommends", "install"];
    arguments.extend_from_slice(packages);
    process::run(&mut apt_get(&arguments)).map_err(|e| format!("{e}; {by_hand}"))
}

fn is_installed(name: &str) -> bool {
    if name.starts_with('/') {
        return Path::new(name).is_file();
    }
    if let Some(module) = name.strip_prefix("python3 -m ") {
        let version = Command::new("python3").args(["-m", module, "--version"]).output();
        return version.is_ok_and(|done| done.status.success());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn is_root() -> bool {
    let user = Command::new("id").arg("-u").output();
    user.is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_python_are_looked_up_by_running_them() {
        assert!(!is_installed("python3 -m no_such_module"));
        let imported = Command::new("python3").args(["-c", "import ensurepip"]).output();
        let exists = imported.is_ok_and(|done| done.status.success());
        assert_eq!(is_installed("python3 -m ensurepip"), exists);
        assert!(FOR_TESTS.iter().any(|program| program.package == "python3-venv"));
    }
}
