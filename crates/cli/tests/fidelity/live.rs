//! One transfer between processes.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use whimbrel_testkit::process::{InTime as _, Lines, Process, list, signal};

use super::case::Run;

const WHIMBREL: &str = env!("CARGO_BIN_EXE_whimbrel");
/// A transfer on a machine that was too slow is repeated.
const ATTEMPTS: u32 = 3;
/// Time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// The outcome of a transfer.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// Goodput in Mbit/s.
    Done(f64),
    /// The emulator was late; with the reason.
    TooSlow(String),
}

pub(crate) struct Live;

/// A process that is stopped at the end.
struct Emulator(Child);

/// Returns the command with a higher priority if this user may set it, so that other programs do not delay the ends or the
/// emulator.
fn whimbrel(niceness: &str) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", niceness, WHIMBREL]);
    command
}

/// Returns the command of the emulator: in real time if this user may set it. With a higher priority only, the scheduler leaves a program
/// that runs its time slice, and packets are late by 2 to 3 ms. But Linux 6.18 sometimes lets other programs run for up to 50 ms before one in
/// real time (its fair server), which is too long for a path of 40 ms. Every second attempt therefore has the higher priority only.
fn emulator(attempt: u32) -> Command {
    const REAL_TIME: [&str; 2] = ["-f", "10"];
    static MAY: LazyLock<bool> = LazyLock::new(|| {
        let tried = Command::new("chrt")
            .args(REAL_TIME)
            .arg("true")
            .stderr(Stdio::null())
            .status();
        tried.is_ok_and(|status| status.success())
    });
    if !*MAY || attempt % 2 == 1 {
        return whimbrel("-20");
    }
    let mut command = Command::new("chrt");
    command.args(REAL_TIME).arg(WHIMBREL);
    command
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Live {
    /// Transfers the file; repeats the transfer if the machine was too slow.
    pub(crate) fn run(dir: &Path, run: &Run) -> Verdict {
        let mut verdict = Verdict::TooSlow("never tried".to_owned());
        for attempt in 0..ATTEMPTS {
            let dir = dir.join(format!("{}-{attempt}", run.number));
            std::fs::create_dir(&dir).unwrap();
            verdict = once(&dir, run, attempt);
            if matches!(verdict, Verdict::Done(_)) {
                break;
            }
        }
        verdict
    }
}

/// Returns loopback addresses for a run: `side` 1 sends, 2 receives.
fn ips(run: &Run, side: usize) -> Vec<String> {
    let net = 10 + 2 * run.number + side;
    (1..=run.case.paths())
        .map(|host| format!("127.{}.{}.{host}", 1 + net / 250, net % 250))
        .collect()
}

fn once(dir: &Path, run: &Run, attempt: u32) -> Verdict {
    let (scenario, file) = (dir.join("scenario.toml"), dir.join("file"));
    std::fs::write(&scenario, &run.scenario).unwrap();
    let handle = std::fs::File::create(&file).unwrap();
    handle.set_len(run.bytes).unwrap();
    let (senders, receivers) = (ips(run, 1), ips(run, 2));

    let free: Vec<_> = receivers.iter().map(|ip| format!("{ip}:0")).collect();
    let mut receiver = whimbrel("-10");
    receiver
        .args(["recv", "--once", "--listen", &free.join(",")])
        .arg(dir.join("inbox"));
    let (_receiver, to) = serve(receiver);
    let late = format!("{} us", run.case.latest().as_micros());
    let addresses = ["--to", &to, "--listen", &free.join(","), "--from", &senders.join(",")];
    let (mut emulator, listen) = emulate(emulator(attempt), &dir.join("ready.json"), &scenario, &addresses, &late);

    let mut sender = whimbrel("-10");
    sender
        .args(["send", "--to", &listen, "--scheme", run.case.scheme])
        .arg(&file);
    if senders.len() > 1 {
        sender.args(["--local", &senders.join(",")]);
    }
    let output = sender.stdin(Stdio::null()).output_in_time();
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{}: {err}", run.case.name());

    signal(&emulator.0, "-INT");
    let text = Lines::of(emulator.0.stdout.take().unwrap()).rest();
    let report: Value = serde_json::from_str(&text).unwrap();
    if std::env::var_os("WHIMBREL_FIDELITY_VERBOSE").is_some() {
        eprintln!("{}: {out}{report:#}", run.case.name());
    }
    if let Some(why) = report["too_slow"].as_str() {
        return Verdict::TooSlow(why.to_owned());
    }
    Verdict::Done(run.bytes as f64 * 8.0 / seconds(&out) / 1e6)
}

/// Starts a server; returns its addresses.
fn serve(mut command: Command) -> (Process, String) {
    // `nice` prints a message if it is not permitted.
    let mut process = Process::start(command.stdout(Stdio::null()));
    let addrs = process.listening();
    (process, list(&addrs))
}

/// Starts the emulator; returns its addresses.
fn emulate(mut command: Command, ready: &Path, scenario: &Path, addresses: &[&str], late: &str) -> (Emulator, String) {
    command.args(["emulate", "--udp", "--json", "--quiet"]).args(addresses);
    command
        .arg("--ready-file")
        .arg(ready)
        .arg(scenario)
        .args(["--late", late]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut emulator = Emulator(child);
    let listen = listen(ready, &mut emulator);
    (emulator, listen)
}

/// Waits until the emulator is ready; returns its addresses.
fn listen(ready: &Path, emulator: &mut Emulator) -> String {
    let start = Instant::now();
    let text = loop {
        if let Ok(text) = std::fs::read_to_string(ready) {
            break text;
        }
        assert!(emulator.0.try_wait().unwrap().is_none(), "the emulator ended");
        assert!(start.elapsed() < PATIENCE, "the emulator is not ready");
        std::thread::sleep(Duration::from_millis(10));
    };
    let ready: Value = serde_json::from_str(&text).unwrap();
    let addrs = ready["listen"].as_array().unwrap().iter();
    addrs.map(|addr| addr.as_str().unwrap()).collect::<Vec<_>>().join(",")
}

/// Returns the time in a line of `send`: `sent NAME: SIZE in TIME s, RATE`.
fn seconds(out: &str) -> f64 {
    let time = out.split_once(" in ").and_then(|(_, rest)| rest.split_once(" s, "));
    time.and_then(|(time, _)| time.parse().ok())
        .unwrap_or_else(|| panic!("{out}"))
}
