//! The life of an emulation: exit codes, errors, and what it leaves behind.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use whimbrel_testkit::process::{InTime as _, signal, wait};
use whimbrel_testkit::{namespaces, needs, program};

use crate::support::{Lab, WHIMBREL, is_running};

const LINK: &str = r#"name = "wire", rate = "10 Mbit/s", delay = "1 ms""#;

#[track_caller]
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A running emulation, which ends with its test.
struct Emulation(Child);

impl Drop for Emulation {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            signal(&self.0, "-TERM");
            let _ = self.0.wait();
        }
    }
}

/// Starts an emulation with a program that has a child, and waits until both run. `seconds` identifies them.
fn start(lab: &Lab, seconds: &str) -> Emulation {
    let run = format!("client: sleep {seconds} & sleep {seconds}; true");
    let child = Command::new(WHIMBREL)
        .args([
            "emulate",
            "scenario.toml",
            "--quiet",
            "--name",
            &lab.name,
            "--run",
            &run,
        ])
        .current_dir(lab.dir.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let emulation = Emulation(child);
    wait_for("the program runs", || is_running(seconds));
    emulation
}

#[test]
fn exit_codes_of_programs_are_passed_on() {
    needs!(namespaces());
    let lab = Lab::new("codes", &[LINK]);
    let code = |args: &[&str]| lab.run(&[&["--quiet", "--late", "1 s"], args].concat()).code;
    assert_eq!(code(&["--at", "client", "--", "sh", "-c", "exit 7"]), 7);
    assert_eq!(code(&["--at", "client", "--", "true"]), 0);
    assert_eq!(code(&["--at", "client", "--", "/no/such/program"]), 127);
    std::fs::write(lab.path("text"), "").unwrap();
    assert_eq!(code(&["--at", "client", "--", "./text"]), 126);
    assert_eq!(code(&["--at", "client", "--", "sh", "-c", "kill -TERM $$"]), 143);
    assert_eq!(code(&["--run", "client: exit 0", "--run", "server: exit 5"]), 5);
    // The main program ends the others; their codes do not count.
    assert_eq!(
        code(&["--run", "server: sleep 1000", "--at", "client", "--", "true"]),
        0
    );
    assert_eq!(
        code(&["--duration", "200 ms", "--at", "client", "--", "sleep", "1000"]),
        0
    );
    assert_eq!(lab.namespaces(), [""; 0]);
}

#[test]
fn failures_of_the_emulator_are_not_mistaken_for_those_of_the_program() {
    needs!(namespaces());
    let lab = Lab::new("own", &[LINK]);
    // A program sends packets, all of which are late. It ends with this code, 3 as in `whimbrel ping` without a peer.
    let late = |code: u8| {
        let script = format!("{WHIMBREL} ping -q -c 1 10.0.0.2; exit {code}");
        lab.run(&["--json", "--late", "1 ns", "--at", "client", "--", "sh", "-c", &script])
    };
    let slow = late(0);
    assert_eq!(
        (slow.code, &slow.report()["exit_code"]),
        (124, &0.into()),
        "{}",
        slow.err
    );
    // The report has both.
    let failed = late(3);
    assert_eq!(
        (failed.code, &failed.report()["exit_code"]),
        (3, &3.into()),
        "{}",
        failed.err
    );
    assert!(failed.report()["too_slow"].is_string() && failed.err.contains("too slow"));
    let code = |args: &[&str]| lab.run(&[&["--quiet"], args].concat()).code;
    assert_eq!(code(&["--at", "nowhere", "--", "true"]), 125);
    assert_eq!(code(&["--at", "client", "--no-such-option", "--", "true"]), 125);
    assert_eq!(code(&["--set", "no.such=1", "--at", "client", "--", "true"]), 125);
    let nowhere = ["--ready-file", "no/such/folder/file", "--at", "client", "--", "true"];
    assert_eq!(code(&nowhere), 125);
    // Help is no failure.
    assert_eq!(code(&["--help"]), 0);
}

#[test]
fn programs_that_are_ended_have_no_exit_code_in_the_report() {
    needs!(namespaces());
    let lab = Lab::new("over", &[LINK]);
    let args = [
        "--json",
        "--late",
        "1 s",
        "--duration",
        "200 ms",
        "--at",
        "client",
        "--",
        "sleep",
        "1000",
    ];
    assert_eq!(lab.run(&args).ok().report()["exit_code"], serde_json::Value::Null);
}

#[test]
fn sigterm_removes_namespaces_and_processes() {
    needs!(namespaces());
    let lab = Lab::new("term", &[LINK]);
    let mut emulation = start(&lab, "31415926");
    assert_eq!(lab.namespaces().len(), 2);
    signal(&emulation.0, "-TERM");
    assert_eq!(wait(&mut emulation.0), Some(130));
    assert_eq!(lab.namespaces(), [""; 0]);
    assert!(!is_running("31415926"));
}

#[test]
fn a_later_start_removes_what_a_killed_emulation_left() {
    needs!(namespaces());
    let lab = Lab::new("kill", &[LINK]);
    let mut emulation = start(&lab, "27182818");
    signal(&emulation.0, "-KILL");
    wait(&mut emulation.0);
    assert_eq!(lab.namespaces().len(), 2, "the test has something to remove");
    // Another name: the next start removes everything that is left, whoever left it.
    let other = Lab::new("next", &[LINK]);
    other.run(&["--quiet", "--at", "client", "--", "true"]).ok();
    assert_eq!(lab.namespaces(), [""; 0]);
    assert!(!is_running("27182818"));
    lab.run(&["--quiet", "--at", "client", "--", "true"]).ok();
}

/// Returns the folders with the names of nodes that exist.
fn folders_of_names(lab: &Lab) -> Vec<String> {
    let entries = ["/etc/netns", "/run/whimbrel-emulate/.etc"].map(std::fs::read_dir);
    let entries = entries.into_iter().flatten().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(&lab.name)).collect()
}

#[test]
fn names_of_nodes_are_those_of_hosts_in_the_namespaces() {
    needs!(namespaces());
    needs!(program("getent", "libc-bin"));
    let second = r#"name = "other", rate = "10 Mbit/s", delay = "1 ms""#;
    let lab = Lab::new("names", &[LINK, second]);
    let before = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let script = format!(
        "getent ahosts server | cut -d' ' -f1 | sort -u; getent hosts client localhost >/dev/null && \
         {WHIMBREL} ping -q -c 1 server"
    );
    let echo = format!("server: {WHIMBREL} echo --listen [::]");
    let pinged = lab.run(&[
        "--quiet", "--late", "1 s", "--run", &echo, "--at", "client", "--", "sh", "-c", &script,
    ]);
    let pinged = pinged.ok();
    for address in ["10.0.0.2", "10.1.0.2", "fd00::a00:2", "fd00::a01:2"] {
        assert!(pinged.out.lines().any(|line| line == address), "{}", pinged.out);
    }
    assert!(pinged.out.contains(": 1 sent, 1 answered"), "{}", pinged.out);
    assert_eq!(std::fs::read_to_string("/etc/hosts").unwrap_or_default(), before);
    assert_eq!(folders_of_names(&lab), [""; 0]);

    // The next start removes the names of an emulation that was killed, and `ip netns exec` knows them.
    let mut emulation = start(&lab, "14142135");
    if let Ok(ip) = program("ip", "iproute2") {
        let space = format!("{}-client", lab.name);
        let found = Command::new(ip)
            .args(["netns", "exec", &space, "getent", "hosts", "server"])
            .output_in_time();
        assert!(String::from_utf8_lossy(&found.stdout).contains("server"), "{found:?}");
    }
    signal(&emulation.0, "-KILL");
    wait(&mut emulation.0);
    assert_eq!(folders_of_names(&lab).len(), 4, "the test has something to remove");
    let other = Lab::new("namesnext", &[LINK]);
    other.run(&["--quiet", "--at", "client", "--", "true"]).ok();
    assert_eq!(folders_of_names(&lab), [""; 0]);
}

#[test]
fn a_name_in_use_is_refused() {
    needs!(namespaces());
    let lab = Lab::new("use", &[LINK]);
    let mut emulation = start(&lab, "16180339");
    let second = lab.run(&["--at", "client", "--", "true"]);
    assert_eq!(second.code, 125);
    assert!(
        second.err.contains("is running") && second.err.contains("--name"),
        "{}",
        second.err
    );
    assert!(is_running("16180339"), "the first is not disturbed");
    signal(&emulation.0, "-TERM");
    wait(&mut emulation.0);

    needs!(program("ip", "iproute2"));
    let taken = format!("{}-server", lab.name);
    let ip = |verb: &str| Command::new("ip").args(["netns", verb, &taken]).status().unwrap();
    assert!(ip("add").success());
    let refused = lab.run(&["--at", "client", "--", "true"]);
    assert!(ip("del").success(), "it was not touched");
    assert_eq!(refused.code, 125);
    assert!(refused.err.contains(&taken), "{}", refused.err);
    assert_eq!(lab.namespaces(), [""; 0]);
}

#[test]
fn wrong_use_names_the_remedy() {
    let mut lab = Lab::new("wrong", &[LINK]);
    let fails = |lab: &Lab, args: &[&str], text: &str| {
        let done = lab.run(args);
        assert_eq!(done.code, 125, "{}", done.err);
        assert!(done.err.contains(text), "{}", done.err);
    };
    fails(&lab, &["--at", "clinet", "--", "true"], "did you mean \"client\"?");
    fails(&lab, &["--run", "server"], "NODE: COMMAND");
    fails(&lab, &["--at", "client"], "-- <PROGRAM>");
    fails(
        &lab,
        &["--flow", "date", "--at", "client", "--", "true"],
        "there are: data",
    );
    "a/b".clone_into(&mut lab.name);
    fails(&lab, &["--at", "client", "--", "true"], "not usable");
}

#[test]
fn a_user_without_privileges_gets_a_clear_error() {
    needs!(namespaces());
    needs!(program("setpriv", "util-linux"));
    let lab = Lab::new("user", &[LINK]);
    // The user may not be able to read the folder of the build.
    let copy = lab.path("whimbrel");
    std::fs::copy(WHIMBREL, &copy).unwrap();
    for path in [lab.dir.path(), &copy] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args(["emulate", "scenario.toml", "--at", "client", "--", "true"])
        .current_dir(lab.dir.path())
        .output_in_time();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.contains("root") && text.contains("--udp"), "{text}");
}

#[test]
fn nodes_are_described_without_a_program() {
    needs!(namespaces());
    let lab = Lab::new("show", &[LINK]);
    let done = lab
        .run(&["--late", "1 s", "--duration", "300 ms", "--ready-file", "ready.json"])
        .ok();
    let command = format!("ip netns exec {}-server PROGRAM", lab.name);
    assert!(done.err.contains(&command), "{}", done.err);
    assert!(done.err.contains("wire 10.0.0.2 fd00::a00:2"), "{}", done.err);
    let ready = std::fs::read_to_string(lab.path("ready.json")).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    assert_eq!(ready["nodes"]["client"]["addresses"][0], "10.0.0.1");
    assert!(Path::new("/run/netns").exists() && lab.namespaces().is_empty());
}

#[test]
fn results_are_replaced_only_if_asked() {
    needs!(namespaces());
    let lab = Lab::new("out", &[LINK]);
    let code = |args: &[&str]| lab.run(&[&["--quiet", "--out", "results"], args].concat()).code;
    assert_eq!(code(&["--at", "client", "--", "true"]), 0);
    assert!(lab.path("results/emulation.json").exists());
    assert_eq!(code(&["--at", "client", "--", "true"]), 125);
    assert_eq!(code(&["--replace", "--at", "client", "--", "true"]), 0);
}
