//! Saved results: tables of sweeps, recorded files, resumed and merged sweeps, the fate of a packet.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use whimbrel_testkit::process::{Process, until, wait};

use crate::support::{code, one_link, stderr, stdout, whimbrel};

fn sweep_text() -> String {
    one_link(
        r#"
title = "sweep"
duration = "20 s"
seeds = 3
"#,
        r#"rate = "2 Mbit/s"
delay = "10 ms"
loss = { kind = "bernoulli", rate = 0.02 }
"#,
        r#"[[flow]]
name = "upload"
from = "a"
to = "b"

[sweep]
"link.radio.loss.rate" = [0, 0.01, 0.05]
"flow.upload.sctp.scheme" = ["standard", "cubic"]
"#,
    )
}

fn sweep() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("sweep.toml"), sweep_text()).expect("writable");
    folder
}

/// Returns every file below a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("below").to_string_lossy().into_owned();
                found.insert(name, fs::read(&path).expect("readable"));
            }
        }
    }
    found
}

#[test]
fn a_sweep_prints_a_pivot_and_show_prints_it_again() {
    let folder = sweep();
    let run = whimbrel(folder.path(), &["run", "sweep.toml", "-q", "--out", "out"]);
    assert_eq!(code(&run), 0, "{}", stderr(&run));
    let table = stdout(&run);
    assert!(table.lines().count() < 50, "{table}");
    let goodput: Vec<&str> = table.lines().take(5).collect();
    assert_eq!(goodput[0], "goodput, Mbit/s; columns: sctp.scheme");
    assert!(
        goodput[1].contains("standard") && goodput[1].contains("cubic"),
        "{table}"
    );
    assert!(
        goodput[2].trim_start().starts_with("0 ") && goodput[4].trim_start().starts_with("0.05 "),
        "{table}"
    );
    assert!(table.contains("\ndeterministic: every seed gives the same at loss.rate 0, sctp.scheme standard; loss.rate 0, sctp.scheme cubic\n"), "{table}");
    let show = whimbrel(folder.path(), &["show", "out"]);
    assert_eq!((code(&show), stdout(&show), stderr(&show)), (0, table, String::new()));
    let by = whimbrel(
        folder.path(),
        &["show", "out", "--metric", "goodput_mbps,timeouts", "--by", "loss.rate"],
    );
    let text = stdout(&by);
    assert!(
        text.contains("\ntimeouts; columns: loss.rate\n") && !text.contains("delay"),
        "{text}"
    );
    let text = stdout(&whimbrel(folder.path(), &["show", "out", "--metric", "tr_ratio"]));
    assert!(text.contains("\nT-R ratio: bytes of IP packets"), "{text}");
    let json = |args: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&whimbrel(folder.path(), args).stdout).expect("JSON")
    };
    let shown = json(&["show", "out", "--json"]);
    assert_eq!(shown["points"], json(&["run", "sweep.toml", "--json"])["points"]);
    for args in [
        ["show", "out", "--metric", "godput"],
        ["show", "out", "--by", "colour"],
        ["show", "none", "--by", "x"],
    ] {
        let output = whimbrel(folder.path(), &args);
        assert_eq!(
            (code(&output), stdout(&output)),
            (2, String::new()),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn short_and_long_forms_give_the_same_files() {
    let long = r#"rate = "2 Mbit/s"
delay = "10 ms"
loss = [{ kind = "bernoulli", rate = 0.02 }, { kind = "bursts", rate = 0, packets = 4 }]
jitter = { kind = "uniform", max = "2 ms" }
queue = { kind = "codel" }
"#;
    let short = r#"rate = "2 Mbit/s"
delay = "10 ms"
loss = [0.02, { kind = "bursts", rate = 0, time = "1 s" }]
jitter = "2 ms"
queue = "codel"
"#;
    let flow = "[[flow]]\nname = \"upload\"\nfrom = \"a\"\nto = \"b\"\n";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |name: &str, link: &str, change: &str| {
        let file = folder.path().join("s.toml");
        fs::write(file, one_link("duration = \"5 s\"\nseeds = 2\n", link, flow)).expect("writable");
        let args = ["run", "s.toml", "--out", name, "-q", "--set", change];
        let output = whimbrel(folder.path(), &args);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let mut written = files(&folder.path().join(name));
        // The manifest has the text of the scenario, and the log of runs their wall time.
        written.retain(|name, _| name != "manifest.json" && name != "runs.jsonl");
        written
    };
    let written = run("long", long, "seed=7");
    assert!(written.contains_key("packets.pcapng") && written.contains_key("series.parquet"));
    let is_same = |other: &BTreeMap<String, Vec<u8>>| {
        let differing = written.iter().find(|(name, content)| other.get(*name) != Some(content));
        differing.map(|(name, _)| name.clone())
    };
    assert_eq!(is_same(&run("short", short, "seed=7")), None);
    let without_jitter = run("other", &short.replace("jitter = \"2 ms\"\n", ""), "seed=7");
    assert!(is_same(&without_jitter).is_some());
    // `--set` has the same effect as the file.
    let lossless = short.replace("loss = [0.02", "loss = [0");
    let of_rate = run("rate", &lossless, "link.radio.loss.0.rate=0.02");
    let of_model = run("model", &lossless, "link.radio.loss.0=0.02");
    assert!(of_rate == of_model && of_rate != run("lossless", &lossless, "seed=1"));
}

#[test]
fn packets_and_events_are_recorded_for_one_run_by_default() {
    let folder = sweep();
    let count = |args: &[&str], name: &str| {
        let output = whimbrel(folder.path(), args);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let out = args.iter().skip_while(|arg| **arg != "--out").nth(1).expect("a folder");
        files(&folder.path().join(out))
            .keys()
            .filter(|path| path.ends_with(name))
            .count()
    };
    let one = ["run", "sweep.toml", "-q", "--out", "one"];
    assert_eq!(count(&one, "packets.pcapng"), 1);
    let names = files(&folder.path().join("one"));
    assert_eq!(names.keys().filter(|name| name.ends_with("events.jsonl")).count(), 1);
    assert_eq!(names.keys().filter(|name| name.ends_with("series.parquet")).count(), 6);
    assert!(
        names.contains_key("runs/loss.rate=0,sctp.scheme=standard/seed-1/packets.pcapng"),
        "{:?}",
        names.keys()
    );
    let all = ["run", "sweep.toml", "-q", "--out", "all", "--set", "record.packets=all"];
    assert_eq!(count(&all, "packets.pcapng"), 18);
}

#[test]
fn the_size_of_recordings_and_a_long_time_are_announced() {
    let folder = sweep();
    let args = [
        "run",
        "sweep.toml",
        "--out",
        "out",
        "--set",
        "record.packets=all",
        "--set",
        "record.events=all",
        "--set",
        "link.radio.rate=20 Mbit/s",
        "--set",
        "duration=10 s",
        "--set",
        "link.radio.loss.rate=0",
    ];
    let output = whimbrel(folder.path(), &args);
    let printed = stderr(&output);
    let line = printed
        .lines()
        .find(|line| line.starts_with("records up to "))
        .unwrap_or_else(|| panic!("{printed}"));
    assert!(line.contains(" of 6 runs (packets "), "{line}");
    // The estimate is an upper bound, within a factor of four.
    let mb: f64 = line
        .split_whitespace()
        .nth(3)
        .and_then(|word| word.parse().ok())
        .expect("a number");
    let written = files(&folder.path().join("out")).values().map(Vec::len).sum::<usize>() as f64 / 1e6;
    assert!(written < mb && mb < 4.0 * written, "{mb} estimated, {written} written");
    let mut sweep = Process::start(
        Command::new(env!("CARGO_BIN_EXE_whimbrel"))
            .args(["run", "sweep.toml", "--set", "duration=1 h", "--seeds", "100"])
            .current_dir(folder.path())
            .stdout(Stdio::null()),
    );
    let warning = sweep.errors.after("warning: 600 runs");
    assert_eq!(warning, " of 3600 s are 2.2e6 simulated seconds");
    // More than 1 GB is announced by a check, and by a quiet run.
    let large = ["--set", "duration=10 h", "--set", "record.packets=all"];
    let checked = stderr(&whimbrel(
        folder.path(),
        &[&["check", "sweep.toml"], &large[..]].concat(),
    ));
    let mut quiet = Process::start(
        Command::new(env!("CARGO_BIN_EXE_whimbrel"))
            .args(["run", "sweep.toml", "--quiet", "--out", "quiet"])
            .args(large)
            .current_dir(folder.path())
            .stdout(Stdio::null()),
    );
    let announced = quiet.errors.after("records up to ");
    assert!(announced.contains(" GB of 18 runs"), "{announced}");
    assert!(checked.contains(&announced), "{checked}");
}

#[cfg(unix)]
#[test]
fn a_resumed_sweep_gives_the_files_of_an_uninterrupted_one() {
    let folder = sweep();
    let args = |out| ["run", "sweep.toml", "-q", "--seeds", "30", "--jobs", "2", "--out", out];
    let whole = whimbrel(folder.path(), &args("whole"));
    assert_eq!(code(&whole), 0, "{}", stderr(&whole));
    let mut child = Command::new(env!("CARGO_BIN_EXE_whimbrel"))
        .args(args("killed"))
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("the command starts");
    let journal = folder.path().join("killed/runs.jsonl");
    let lines =
        || fs::read_to_string(&journal).map_or(0, |text| text.lines().filter(|line| line.ends_with('}')).count());
    until("20 runs are complete", || lines() >= 20);
    child.kill().expect("SIGKILL");
    wait(&mut child);
    let kept = lines();
    assert!((20..180).contains(&kept), "{kept}");
    // As if it had been killed during a write.
    let text = fs::read_to_string(&journal).expect("readable") + "{\"run\":179,\"poi";
    fs::write(&journal, text).expect("writable");
    let shown = whimbrel(folder.path(), &["show", "killed"]);
    assert!(
        stderr(&shown).contains(&format!("{kept} of 180 runs are complete")),
        "{}",
        stderr(&shown)
    );
    let mut resume = args("killed").to_vec();
    resume.retain(|arg| *arg != "-q");
    resume.push("--resume");
    let resumed = whimbrel(folder.path(), &resume);
    assert_eq!(code(&resumed), 0, "{}", stderr(&resumed));
    assert!(
        stderr(&resumed).contains(&format!("{kept} of 180 runs are complete already")),
        "{}",
        stderr(&resumed)
    );
    assert_eq!(stdout(&resumed), stdout(&whole));
    let (whole, killed) = (
        files(&folder.path().join("whole")),
        files(&folder.path().join("killed")),
    );
    assert_eq!(whole.keys().collect::<Vec<_>>(), killed.keys().collect::<Vec<_>>());
    for (name, content) in &whole {
        assert!(killed[name] == *content, "{name} differs");
    }
    // Another scenario cannot be continued there.
    let mut other = args("killed").to_vec();
    other.extend(["--resume", "--set", "link.radio.delay=11 ms"]);
    let other = whimbrel(folder.path(), &other);
    assert_eq!(code(&other), 2);
    assert!(stderr(&other).contains("cannot be continued"), "{}", stderr(&other));
}

#[test]
fn merged_parts_equal_a_single_run() {
    let folder = sweep();
    let run = |args: &[&str]| {
        let output = whimbrel(folder.path(), args);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        stdout(&output)
    };
    let whole = run(&["run", "sweep.toml", "-q", "--out", "whole"]);
    for (part, out) in [("1/2", "p1"), ("2/2", "p2")] {
        run(&["run", "sweep.toml", "-q", "--part", part, "--out", out]);
    }
    let merged = run(&["merge", "p2", "p1", "--out", "merged"]);
    assert_eq!(merged, whole);
    let (mut whole, mut merged) = (
        files(&folder.path().join("whole")),
        files(&folder.path().join("merged")),
    );
    // Only the command differs.
    assert!(whole.remove("manifest.json").is_some() && merged.remove("manifest.json").is_some());
    assert!(whole == merged, "{:?} {:?}", whole.keys(), merged.keys());
    let half = whimbrel(folder.path(), &["merge", "p1", "--out", "half"]);
    assert_eq!(code(&half), 0);
    assert!(stderr(&half).contains("9 of 18 runs are missing"), "{}", stderr(&half));
    let bad = whimbrel(folder.path(), &["run", "sweep.toml", "--part", "3/2", "--out", "p3"]);
    assert_eq!(code(&bad), 2);
}

#[test]
fn why_explains_the_fate_of_a_packet() {
    let folder = sweep();
    let args = [
        "run",
        "sweep.toml",
        "-q",
        "--out",
        "out",
        "--seeds",
        "1",
        "--set",
        "link.radio.loss.rate=0.05",
    ];
    assert_eq!(code(&whimbrel(folder.path(), &args)), 0);
    let events = files(&folder.path().join("out"))
        .into_iter()
        .find(|(name, _)| name.ends_with("events.jsonl"))
        .expect("events")
        .1;
    let events = String::from_utf8(events).expect("text");
    let dropped: serde_json::Value = events
        .lines()
        .filter(|line| line.contains("network:packet_dropped") && line.contains("\"tsn\":"))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .next()
        .expect("a loss");
    let asked = format!("tsn={}", dropped["data"]["tsn"]);
    let output = whimbrel(folder.path(), &["why", "out", &asked]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "sent over radio: 10.0.0.1 to 10.0.0.2",
        "DATA TSN",
        "dropped on radio: loss-bernoulli, no congestion",
        "declared lost",
        "retransmitted on path 0",
        "acknowledged",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let first = stdout(&whimbrel(folder.path(), &["why", "out", "1"]));
    assert!(
        first.contains("INIT") && first.contains("the network did not drop it"),
        "{first}"
    );
    for (args, printed) in [
        (["why", "out", "99999999"], " packets"),
        (["why", "out", "tsn=x"], "tsn=N"),
        (["why", "none", "1"], "holds no packets.pcapng"),
    ] {
        let output = whimbrel(folder.path(), &args);
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains(printed), "{}", stderr(&output));
    }
}

const PHONE: &str = r#"
duration = "30 s"
node = [{ name = "phone" }, { name = "internet" }, { name = "server" }]

[[link]]
name = "wifi"
between = ["phone", "internet"]
rate = "10 Mbit/s"
delay = "10 ms"
schedule = [{ at = "10 s", up = false }]

[[link]]
name = "lte"
between = ["phone", "internet"]
rate = "10 Mbit/s"
delay = "30 ms"

[[link]]
name = "core"
between = ["internet", "server"]
rate = "100 Mbit/s"
delay = "10 ms"

[[flow]]
name = "upload"
from = "phone"
to = "server"
from_links = ["wifi", "lte"]

[flow.sctp]
path_max_retrans = 0
"#;

#[test]
fn a_link_without_a_path_causes_a_warning() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("phone.toml"), PHONE).expect("writable");
    let printed = "warning: flow.upload: no path uses link \"lte\" of the sender: the receiver has one address, on link \"core\"\n  \
                hint: a path belongs to an address of the peer (RFC 9260 §1.3); with flow.upload.sctp.path_per_local_address = true it is \
                a path as well\n";
    let check = whimbrel(folder.path(), &["check", "phone.toml"]);
    assert_eq!((code(&check), stderr(&check).as_str()), (0, printed));
    let run = whimbrel(folder.path(), &["run", "phone.toml"]);
    assert!(stderr(&run).ends_with(printed), "{}", stderr(&run));
    let set = "flow.upload.sctp.path_per_local_address=true";
    let good = whimbrel(folder.path(), &["check", "phone.toml", "--set", set]);
    assert_eq!((code(&good), stderr(&good).as_str()), (0, ""));
    let json = whimbrel(folder.path(), &["run", "phone.toml", "--set", set, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let metrics = &json["points"][0]["metrics"];
    let switch = metrics["first_switch_s"]["mean"]
        .as_f64()
        .expect("a number without a study");
    assert!((10.0..15.0).contains(&switch), "{switch}");
    assert!(
        metrics["goodput_mbps"]["mean"].as_f64().is_some_and(|mean| mean > 7.0),
        "{metrics}"
    );
}

#[test]
fn lists_the_parts_of_a_slot() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let all = whimbrel(folder.path(), &["schemes", "parts", "discriminator"]);
    assert_eq!(code(&all), 0, "{}", stderr(&all));
    let text = stdout(&all);
    let heads: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with(' ') && !line.is_empty())
        .collect();
    assert!(
        heads.len() > 10 && heads.iter().all(|line| line.starts_with("discriminator = ")),
        "{heads:?}"
    );
}

#[test]
fn metrics_list_the_time_they_cover() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = stdout(&whimbrel(folder.path(), &["metrics"]));
    let of = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_default()
            .to_owned()
    };
    assert!(of("goodput_mbps").ends_with("; the window"), "{text}");
    assert!(of("completion_s").ends_with("; the whole run"), "{text}");
    assert!(of("jain_index").ends_with("; the window; all flows together"), "{text}");
}

#[test]
fn recorded_events_are_exported_for_other_viewers() {
    let folder = sweep();
    let run = ["run", "sweep.toml", "--seeds", "1", "--out", "out", "--quiet"];
    assert_eq!(code(&whimbrel(folder.path(), &run)), 0);
    let export = |format: &str| {
        let output = whimbrel(folder.path(), &["export", "out", format, "--out", "viewers"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(export("--perfetto"), "viewers/trace.perfetto.json\n");
    let text = fs::read_to_string(folder.path().join("viewers/trace.perfetto.json")).expect("written");
    let trace: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(trace["traceEvents"].as_array().expect("events").len() > 1000);
    assert_eq!(
        export("--qlog"),
        "viewers/upload-a-path-0.sqlog\n",
        "the end that sends data"
    );
    // A file that cannot be written is no wrong use.
    let there = folder.path().join("there");
    fs::create_dir_all(there.join("trace.perfetto.json")).expect("a folder");
    let unwritten = whimbrel(folder.path(), &["export", "out", "--perfetto", "--out", "there"]);
    assert_eq!(code(&unwritten), 1, "{}", stderr(&unwritten));
    assert!(
        stderr(&unwritten).contains("cannot write there"),
        "{}",
        stderr(&unwritten)
    );
    let both = whimbrel(folder.path(), &["export", "out", "--qlog", "--perfetto"]);
    assert_eq!(code(&both), 2);
    let none = whimbrel(folder.path(), &["export", ".", "--qlog"]);
    assert!(stderr(&none).contains("holds no events.jsonl"), "{}", stderr(&none));
}
