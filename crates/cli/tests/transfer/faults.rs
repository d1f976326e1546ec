//! Faults of the network and of the peer: files arrive intact, or both ends report the cause.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use serde_json::Value;
use whimbrel_testkit::process::until;
use whimbrel_testkit::{needs, program};

use super::relay::join;
use super::{InTime as _, Lines, Process, Receiver, WHIMBREL, content, list, names, sender, signal, text, wait};

/// A running `whimbrel emulate --udp`, stopped at the end of the test.
struct Emulator(Child);

impl Emulator {
    /// Puts these links between a receiver and senders at 127.0.1.1, 127.0.1.2 ... Returns the addresses to send to.
    fn start(dir: &Path, links: &[&str], receivers: &[SocketAddr], senders: &str) -> (Self, String) {
        Self::start_as(Command::new(WHIMBREL), dir, links, receivers, senders)
    }

    /// As `start`, with a command that may have variables of the environment.
    fn start_as(
        mut command: Command,
        dir: &Path,
        links: &[&str],
        receivers: &[SocketAddr],
        senders: &str,
    ) -> (Self, String) {
        let (scenario, ready) = (dir.join("faults.toml"), dir.join("ready.json"));
        let mut file = "title = \"faults\"\n[[node]]\nname = \"sender\"\n[[node]]\nname = \"receiver\"\n".to_owned();
        for (number, link) in links.iter().enumerate() {
            file += &format!(
                "[[link]]\nname = \"link-{number}\"\nbetween = [\"sender\", \"receiver\"]\nrate = \"20 Mbit/s\"\ndelay = \"5 ms\"\n\
                 queue = {{ kind = \"drop-tail\", packets = 100 }}\n{link}\n"
            );
        }
        file += "[[flow]]\nname = \"file\"\nfrom = \"sender\"\nto = \"receiver\"\ntraffic = { kind = \"endless\" }\n";
        std::fs::write(&scenario, file).unwrap();
        let listen: Vec<String> = receivers.iter().map(|addr| format!("{}:0", addr.ip())).collect();
        command.args(["emulate", "--udp", "--json", "--quiet", "--to", &list(receivers)]);
        command.args(["--listen", &listen.join(","), "--from", senders, "--ready-file"]);
        let child = command
            .arg(&ready)
            .arg(&scenario)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut emulator = Emulator(child);
        let start = Instant::now();
        let opening: Value = loop {
            if let Ok(text) = std::fs::read_to_string(&ready) {
                break serde_json::from_str(&text).unwrap();
            }
            assert!(emulator.0.try_wait().unwrap().is_none(), "the emulator ended");
            assert!(start.elapsed() < Duration::from_secs(20), "the emulator is not ready");
            std::thread::sleep(Duration::from_millis(10));
        };
        let to = opening["listen"].as_array().unwrap().iter();
        let to: Vec<&str> = to.map(|addr| addr.as_str().unwrap()).collect();
        (emulator, to.join(","))
    }

    /// Ends it; returns its report.
    fn end(mut self) -> Value {
        signal(&self.0, Signal::SIGINT);
        let text = Lines::of(self.0.stdout.take().unwrap()).rest();
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Resident memory of a process at its peak, in MB.
fn peak_memory(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

/// Sends a file through these links, one address of the sender for each; it has to arrive once and intact. Returns the emulator's report.
fn arrives_through(links: &[&str], net: u8, bytes: usize) -> Value {
    arrives_with(&[], links, net, bytes)
}

/// As `arrives_through`, with these variables in the environment of sender and emulator, but not of the receiver.
fn arrives_with(variables: &[(&str, &Path)], links: &[&str], net: u8, bytes: usize) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("file"), dir.path().join("in"));
    let data = content(bytes);
    std::fs::write(&file, &data).unwrap();
    let ips = |side: u8| (1..=links.len()).map(move |host| format!("127.{net}.{side}.{host}"));
    let senders = ips(1).collect::<Vec<_>>().join(",");
    let listen: Vec<String> = ips(2).map(|ip| format!("{ip}:0")).collect();
    let receiver = Receiver::start(&listen.join(","), &into, &["--once"]);
    let mut command = Command::new(WHIMBREL);
    command.envs(variables.iter().copied());
    let (emulator, to) = Emulator::start_as(command, dir.path(), links, &receiver.addrs, &senders);
    let mut sender = sender(&to, &file);
    sender.envs(variables.iter().copied());
    let sent = sender.args(["--local", &senders]).output_in_time();
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let (code, _, err) = receiver.end();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(names(&into), ["file"]);
    assert!(
        std::fs::read(into.join("file")).unwrap() == data,
        "the file was changed"
    );
    emulator.end()
}

#[test]
fn a_file_arrives_once_through_reordering_duplication_and_losses() {
    let link = "duplicate = 0.05\njitter = { kind = \"uniform\", max = \"4 ms\", reorder = true }\nloss = { kind = \"bernoulli\", rate = 0.01 }";
    let report = arrives_through(&[link], 51, 3_000_000);
    let drops = report["links"].to_string();
    assert!(drops.contains("bernoulli"), "{report:#}");
}

#[test]
fn a_file_arrives_while_the_system_clock_is_set_forward_and_back() {
    needs!(program("cc", "gcc"));
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("clock.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transfer/clock.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .output_in_time();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let variables = [("LD_PRELOAD", library.as_path())];
    // Programs see it.
    let hours_wrong = || {
        let date = Command::new("date").arg("+%s").envs(variables).output_in_time();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        text(&date.stdout).trim().parse::<f64>().unwrap() - now.as_secs_f64() > 3000.0
    };
    until("the clock is an hour ahead", hours_wrong);
    // Eight seconds at 20 Mbit/s, so that the clock is set several times: times that counted would hold packets back.
    let report = arrives_with(&variables, &[""], 57, 20_000_000);
    let took = report["emulated_s"].as_f64().unwrap();
    assert!((8.0..12.0).contains(&took), "{report:#}");
}

#[test]
fn a_file_arrives_over_the_other_path_when_one_becomes_a_black_hole() {
    let hole = "schedule = [{ at = \"500 ms\", up = false }]";
    let report = arrives_through(&[hole, ""], 52, 6_000_000);
    let ([hole, other], lost) = carried(&report);
    // The link that was cut was in use until then, and data that was on it arrived by the other one.
    assert!((300_000..2_000_000).contains(&hole), "{report:#}");
    assert!(lost > 0, "{report:#}");
    assert!(hole + other > 6_000_000 && other > 3_500_000, "{report:#}");
}

/// Bytes that two links have carried towards the receiver, and the packets that the first one has lost because it was down.
fn carried(report: &Value) -> ([u64; 2], u64) {
    let of = |name: &str| {
        let mut links = report["links"].as_array().unwrap().iter();
        links
            .find(|link| link["name"] == name && link["from"] == "sender")
            .unwrap()
    };
    let bytes = ["link-0", "link-1"].map(|name| of(name)["bytes"].as_u64().unwrap());
    let drops = of("link-0")["drops"].as_object().unwrap();
    let down = drops.iter().find(|(cause, _)| cause.contains("down"));
    (bytes, down.map_or(0, |(_, count)| count.as_u64().unwrap()))
}

#[test]
fn a_server_goes_on_sending_over_the_other_path_when_one_becomes_a_black_hole() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Command::new(WHIMBREL);
    server.args(["perf", "--server", "--listen", "127.54.2.1:0,127.54.2.2:0"]);
    let mut server = Process::start(server.stdout(Stdio::null()));
    let hole = "schedule = [{ at = \"1 s\", up = false }]";
    let senders = "127.54.1.1,127.54.1.2";
    let (emulator, to) = Emulator::start(dir.path(), &[hole, ""], &server.listening(), senders);
    let mut client = Command::new(WHIMBREL);
    client.args([
        "perf",
        &to,
        "--local",
        senders,
        "--reverse",
        "-t",
        "4 s",
        "-i",
        "500 ms",
        "--json",
    ]);
    let output = client.output_in_time();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let late = |interval: &&Value| interval["direction"] == "received" && interval["start"].as_f64() >= Some(2.5);
    let intervals = report["intervals"].as_array().unwrap().iter().filter(late);
    let bytes: u64 = intervals.map(|interval| interval["bytes"].as_u64().unwrap()).sum();
    // The other link carries 2.5 MB/s.
    assert!(bytes > 1_500_000, "{report:#}");
    // The server has sent on the link that was cut.
    let emulation = emulator.end();
    let links = emulation["links"].as_array().unwrap().iter();
    let cut: Vec<_> = links
        .filter(|link| link["name"] == "link-0" && link["from"] == "receiver")
        .collect();
    assert!(
        cut.len() == 1 && cut[0]["bytes"].as_u64() > Some(300_000),
        "{emulation:#}"
    );
    let lost = cut[0]["drops"].as_object().unwrap().iter();
    let lost: Vec<_> = lost.filter(|(cause, _)| cause.contains("down")).collect();
    assert!(lost.iter().any(|(_, count)| count.as_u64() > Some(0)), "{emulation:#}");
}

#[test]
fn corrupt_packets_are_discarded_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("file"), dir.path().join("in"));
    let data = content(4_000_000);
    std::fs::write(&file, &data).unwrap();
    let receiver = Receiver::start("127.53.2.1:0", &into, &["--once"]);
    let source: IpAddr = "127.53.1.1".parse().unwrap();
    let (to, networks) = join(&[source], &receiver.addrs);
    networks[0].corrupt_every(50);
    let sent = sender(&to, &file).args(["--local", "127.53.1.1"]).output_in_time();
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    assert!(networks[0].corrupted() > 20, "{}", networks[0].corrupted());
    assert_eq!(receiver.end().0, Some(0));
    assert!(
        std::fs::read(into.join("file")).unwrap() == data,
        "the file was changed"
    );
}

#[test]
fn a_receiver_that_stops_reading_takes_no_memory_and_goes_on_later() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("sparse"), dir.path().join("in"));
    let size = 1 << 30;
    std::fs::File::create(&file).unwrap().set_len(size).unwrap();
    let receiver = Receiver::start("127.0.0.1:0", &into, &["--once"]);
    let mut sending = sender(&receiver.to(), &file).spawn().unwrap();
    super::leftovers::wait_for_part(&into);
    receiver.signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(4));
    let memory = peak_memory(&sending);
    receiver.signal(Signal::SIGCONT);
    assert!(sending.try_wait().unwrap().is_none(), "it did not wait");
    // The send buffer may grow to 256 MiB for a fast path; nothing is taken in beyond it.
    assert!(memory < 400, "{memory} MB");
    let status = wait(&mut sending);
    let mut err = String::new();
    sending.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(status, Some(0), "{err}");
    assert_eq!(receiver.end().0, Some(0));
    assert_eq!(std::fs::metadata(into.join("sparse")).unwrap().len(), size);
}

#[test]
fn a_receiver_that_was_killed_and_restarted_ends_the_transfer_and_takes_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("file"), dir.path().join("in"));
    let large = dir.path().join("sparse");
    std::fs::File::create(&large).unwrap().set_len(8 << 30).unwrap();
    let data = content(500_000);
    std::fs::write(&file, &data).unwrap();
    // An end with encryption does not believe the ABORT of the new receiver, which anyone could send.
    let receiver = Receiver::start("127.0.0.1:0", &into, &["--insecure"]);
    let to = receiver.to();
    let mut first = sender(&to, &large).arg("--insecure").spawn().unwrap();
    super::leftovers::wait_for_part(&into);
    receiver.signal(Signal::SIGKILL);
    receiver.end();
    let _restarted = Receiver::start(&to, &into, &["--insecure"]);
    let start = Instant::now();
    assert_eq!(wait(&mut first), Some(6));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let mut err = String::new();
    first.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(err.contains("error: aborted by the peer"), "{err}");
    let second = sender(&to, &file).arg("--insecure").output_in_time();
    assert!(second.status.success());
    // What there was of the first one is kept for a later transfer.
    let there = names(&into);
    assert!(
        there.len() == 2 && there[0].ends_with(".partial") && there[1] == "file",
        "{there:?}"
    );
    assert!(
        std::fs::read(into.join("file")).unwrap() == data,
        "the file was changed"
    );
}

#[test]
fn perf_waits_for_acknowledgements_that_take_a_slower_path_than_the_report_of_the_receiver() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["perf", "--server", "--listen", "127.73.2.1:0,127.73.2.2:0"];
    let mut server = Process::start(Command::new(WHIMBREL).args(args).stdout(Stdio::null()));
    let links = ["", "forward = { delay = \"30 ms\" }\nreverse = { delay = \"150 ms\" }"];
    let senders = "127.73.1.1,127.73.1.2";
    let (emulator, to) = Emulator::start(dir.path(), &links, &server.listening(), senders);
    let mut client = Command::new(WHIMBREL);
    client.args(["perf", &to, "--local", senders, "--bytes", "2MB", "--json"]);
    let output = client.output_in_time();
    emulator.end();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = &report["end"]["associations"][0];
    let bytes = |value: &Value| value.as_u64().unwrap();
    let (sent, received) = (bytes(&of["sent"]["bytes"]), bytes(&of["peer_received"]["bytes"]));
    assert!(received >= 2_000_000, "{received}");
    // A message of one byte ends the data.
    assert!(
        (received..=received + 16).contains(&sent),
        "{sent} sent, {received} received"
    );
    let paths = of["sent"]["paths"].as_array().unwrap();
    let on_paths: u64 = paths.iter().map(|path| bytes(&path["bytes"])).sum();
    // Each DATA chunk has a header of 16 bytes, and at most three of padding. The exchange of keys comes before.
    assert!(
        on_paths > sent && on_paths < sent + sent / 40 + 8192,
        "{on_paths} on the paths, {sent} sent"
    );
}
