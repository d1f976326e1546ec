//! Whole runs: same files with any number of threads, interruption, captures that match the ledger.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use whimbrel_lab::{Options, Part, Progress, Results, Run, RunEnd, RunError, Status, summarise};
use whimbrel_scenario::Scenario;
use whimbrel_wire::{Checksum, PacketView};

const SCENARIO: &str = r#"
title = "small"
duration = "3 s"
seeds = 3

[[node]]
name = "a"

[[node]]
name = "b"

[[link]]
name = "radio"
between = ["a", "b"]
rate = "2 Mbit/s"
delay = "10 ms"
queue = { kind = "drop-tail", packets = 10 }
loss = { kind = "bernoulli", rate = 0 }

[[flow]]
name = "one"
from = "a"
to = "b"

[[flow]]
name = "cross"
kind = "udp"
from = "b"
to = "a"
traffic = { kind = "poisson", rate = "200 kbit/s", message_bytes = 400 }

[measure]
interval = "100 ms"

[sweep]
"link.radio.loss.rate" = [0, 0.05]
"#;

struct Silent;

impl Progress for Silent {
    fn update(&mut self, _: f64, _: usize, _: usize) {}
}

fn scenario(changes: &[&str]) -> Scenario {
    let changes: Vec<_> = changes.iter().map(|&change| change.to_owned()).collect();
    Scenario::from_text(Path::new("small.toml"), SCENARIO, &changes).expect("a good scenario")
}

fn run_into(scenario: &Scenario, folder: &Path, jobs: usize, interrupted: bool) -> (Vec<Run>, RunEnd) {
    let _lock = whimbrel_lab::prepare(folder, false).expect("an empty folder");
    let mut results = Results::create(folder, scenario, vec!["test".to_owned()], Part::ALL).expect("writable");
    let interrupted = AtomicBool::new(interrupted);
    let options = Options {
        jobs,
        folder: Some(folder),
        journal: true,
        ..Options::new(&interrupted)
    };
    let mut runs = Vec::new();
    let outcome = whimbrel_lab::run(scenario, &options, &mut Silent, &mut |run| {
        results.add(&run)?;
        runs.push(run);
        Ok(())
    });
    results
        .finish(if outcome.interrupted {
            Status::Interrupted
        } else {
            Status::Complete
        })
        .expect("writable");
    (runs, outcome)
}

/// Returns every file below a folder, by its path.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                walk(&entry.path(), &format!("{name}/"), found);
            } else {
                found.insert(name, fs::read(entry.path()).expect("readable"));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(folder, "", &mut found);
    found
}

#[test]
fn files_do_not_depend_on_threads_or_folder() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let scenario = scenario(&[]);
    let mut all = Vec::new();
    for (name, jobs) in [("one", 1), ("two", 2), ("again", 2)] {
        let folder = temporary.path().join(name);
        let (runs, outcome) = run_into(&scenario, &folder, jobs, false);
        assert!(outcome.error.is_none() && !outcome.interrupted);
        assert_eq!(
            runs.iter().map(|run| run.number).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5]
        );
        all.push(files(&folder));
    }
    let names: Vec<_> = all[0].keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "links.csv",
            "manifest.json",
            "results.csv",
            "results.parquet",
            "runs.jsonl",
            "runs/loss.rate=0.05/seed-1/series.parquet",
            "runs/loss.rate=0/seed-1/events.jsonl",
            "runs/loss.rate=0/seed-1/packets.pcapng",
            "runs/loss.rate=0/seed-1/series.parquet",
        ]
    );
    assert!(all[0].values().all(|content| !content.is_empty()));
    for other in &all[1..] {
        for (name, content) in &all[0] {
            assert!(other[name] == *content, "{name} differs");
        }
        assert_eq!(other.len(), all[0].len());
    }
}

#[test]
fn points_use_the_same_seeds_and_loss_reduces_goodput() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let scenario = scenario(&["record.series=none", "record.events=none", "record.packets=none"]);
    let (runs, _) = run_into(&scenario, &temporary.path().join("out"), 2, false);
    assert_eq!(runs.iter().map(|run| run.seed).collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3]);
    let points = summarise(&scenario, &runs);
    let [clean, lossy] = points.as_slice() else {
        panic!("two points")
    };
    assert_eq!(clean.params, [("link.radio.loss.rate".to_owned(), 0.into())]);
    let goodput = |point: &whimbrel_lab::PointReport| point.flows[0].1[0].mean.expect("measured");
    assert!(
        goodput(clean) > 1.3 * goodput(lossy),
        "{} {}",
        goodput(clean),
        goodput(lossy)
    );
    assert_eq!(clean.metrics[0].n, 3);
    let text = whimbrel_lab::json(&scenario, &points, &runs);
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json.to_string(), text, "names are sorted");
    assert_eq!(json["scenario"], "small");
    assert_eq!(json["points"][1]["params"]["link.radio.loss.rate"], 0.05);
    let metric = &json["points"][1]["flows"]["one"]["goodput_mbps"];
    assert!(
        metric["mean"].is_f64() && metric["ci95"].is_f64() && metric["n"] == 3,
        "{metric}"
    );
    let run = json["runs"][0].as_object().expect("an object");
    assert_eq!(
        run.keys().collect::<Vec<_>>(),
        ["events", "packet_hops", "params", "seed", "wall_s"]
    );
    assert_eq!(
        json.as_object().expect("an object").keys().collect::<Vec<_>>(),
        ["points", "runs", "scenario"]
    );
    assert_eq!(
        json["points"][0]
            .as_object()
            .expect("an object")
            .keys()
            .collect::<Vec<_>>(),
        ["flows", "metrics", "params"]
    );
    // Nothing was recorded: there are only results.
    let names: Vec<_> = files(&temporary.path().join("out")).into_keys().collect();
    assert_eq!(
        names,
        [
            "links.csv",
            "manifest.json",
            "results.csv",
            "results.parquet",
            "runs.jsonl"
        ]
    );
}

#[test]
fn an_interruption_keeps_complete_runs() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = temporary.path().join("out");
    let scenario = scenario(&["seeds=40", "duration=60 s"]);
    let (runs, outcome) = run_into(&scenario, &folder, 2, true);
    assert!(outcome.interrupted, "80 runs take longer than one check of the flag");
    assert!(runs.len() < 80, "{}", runs.len());
    let manifest = whimbrel_lab::Manifest::load(&folder.join("manifest.json")).expect("a manifest");
    assert_eq!((manifest.status, manifest.runs), (Status::Interrupted, runs.len()));
    let lines = fs::read_to_string(folder.join("results.csv"))
        .expect("readable")
        .lines()
        .count();
    assert_eq!(lines, 1 + 2 * runs.len(), "a header and two flows per run");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_the_runs_with_one_error() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = temporary.path().join("out");
    let scenario = scenario(&["record.packets=none", "record.events=none"]);
    fs::create_dir_all(folder.join("runs/loss.rate=0/seed-1")).expect("writable");
    std::os::unix::fs::symlink("/dev/full", folder.join("runs/loss.rate=0/seed-1/series.parquet")).expect("a link");
    let interrupted = AtomicBool::new(false);
    let options = Options {
        folder: Some(&folder),
        ..Options::new(&interrupted)
    };
    let mut done = 0;
    let outcome = whimbrel_lab::run(&scenario, &options, &mut Silent, &mut |_| {
        done += 1;
        Ok(())
    });
    let error = outcome.error.expect("the disk is full");
    assert!(matches!(error, RunError::Write(_)));
    assert!(error.to_string().ends_with("no space left on the disk"), "{error}");
    assert!(done < 6, "the other runs were not all done: {done}");
}

/// Returns the packets of a capture: IP packet and comment.
fn packets(capture: &[u8]) -> Vec<(Vec<u8>, Option<String>)> {
    let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().expect("four bytes"));
    let (mut at, mut found) = (0, Vec::new());
    while at < capture.len() {
        let length = word(at + 4) as usize;
        assert_eq!(
            word(at + length - 4) as usize,
            length,
            "a block has its length at both ends"
        );
        if word(at) == 6 {
            let captured = word(at + 20) as usize;
            let options = at + 28 + captured.next_multiple_of(4);
            let comment = (word(options) & 0xffff == 1).then(|| {
                let length = (word(options) >> 16) as usize;
                String::from_utf8_lossy(&capture[options + 4..options + 4 + length]).into_owned()
            });
            found.push((capture[at + 28..at + 28 + captured].to_vec(), comment));
        }
        at += length;
    }
    found
}

#[test]
fn captures_have_valid_packets_and_the_cause_of_each_drop() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = temporary.path().join("out");
    let scenario = scenario(&["seeds=1", "record.packets=all"]);
    let (runs, _) = run_into(&scenario, &folder, 1, false);
    let capture = fs::read(folder.join("runs/loss.rate=0.05/seed-1/packets.pcapng")).expect("readable");
    let packets = packets(&capture);
    let (mut sctp, mut udp, mut lost) = (0, 0, 0);
    for (packet, comment) in &packets {
        assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
        let sum: u32 = packet[..20]
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the checksum of the IP header");
        match packet[9] {
            132 => {
                let view = PacketView::parse(&packet[20..], Checksum::Verify).expect("a right CRC32c");
                assert!(view.chunks().all(|chunk| chunk.is_ok()));
                sctp += 1;
            }
            17 => udp += 1,
            other => panic!("protocol {other}"),
        }
        if let Some(comment) = comment {
            assert!(comment.starts_with("dropped on radio at "), "{comment}");
            lost += 1;
        }
    }
    assert!(sctp > 100 && udp > 100, "{sctp} {udp}");
    let place = whimbrel_lab::metrics()
        .position(|metric| metric.name == "drops")
        .expect("a metric");
    assert_eq!(f64::from(lost), runs[1].values.get(place).expect("counted"));
    assert!(lost > 10);
}
