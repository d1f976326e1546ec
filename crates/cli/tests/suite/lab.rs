//! The commands that run scenarios, as processes: output, exit codes, files.

use std::fs;
use std::process::{Command, Stdio};

use whimbrel_testkit::process::{InTime as _, finish, until};

use crate::support::{code, one_link, root, stderr, stdout, whimbrel};

fn small_text() -> String {
    one_link(
        r#"
title = "small"
duration = "30 s"
seeds = 2
"#,
        r#"rate = "2 Mbit/s"
delay = "10 ms"
loss = { kind = "bernoulli", rate = 0.02 }
"#,
        r#"[[flow]]
name = "upload"
from = "a"
to = "b"
traffic = { kind = "file", file_bytes = 300000 }
"#,
    )
}

fn small() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("small.toml"), small_text()).expect("writable");
    folder
}

#[test]
fn all_scenarios_of_the_project_are_valid() {
    let mut checked = 0;
    for folder in ["examples", "bench/scenarios"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let output = whimbrel(&root(), &["check", &path.to_string_lossy()]);
                assert_eq!(code(&output), 0, "{}: {}", path.display(), stderr(&output));
                assert!(stdout(&output).contains(": ok: "));
                checked += 1;
            }
        }
    }
    assert!(checked >= 5, "{checked}");
}

#[test]
fn the_schema_covers_every_key() {
    let output = whimbrel(&root(), &["schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for key in [
        "node", "link", "channel", "radio", "flow", "measure", "duration", "seeds", "sweep", "record", "title",
    ] {
        assert!(schema["properties"][key].is_object(), "{key}");
    }
    assert_eq!(schema["required"], serde_json::json!(["node", "flow"]));
}

#[test]
fn an_explained_scenario_equals_the_original() {
    let folder = small();
    let explained = whimbrel(folder.path(), &["check", "small.toml", "--explain", "--set", "seeds=3"]);
    assert_eq!(code(&explained), 0, "{}", stderr(&explained));
    fs::write(folder.path().join("explained.toml"), &explained.stdout).expect("writable");
    let hash = |args: &[&str]| {
        let output = whimbrel(folder.path(), args);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = stdout(&output);
        text.rsplit_once("hash ").expect("a hash").1.to_owned()
    };
    let again = whimbrel(folder.path(), &["check", "explained.toml", "--explain"]);
    assert_eq!(stdout(&again), stdout(&explained));
    assert_eq!(
        hash(&["check", "small.toml", "--set", "seeds=3"]),
        hash(&["check", "explained.toml"])
    );
    assert_ne!(
        hash(&["check", "small.toml"]),
        hash(&["check", "small.toml", "--set", "link.radio.rate=3 Mbit/s"])
    );
}

#[test]
fn bad_scenarios_are_errors_before_anything_runs() {
    let folder = small();
    let bad = small_text()
        .replace("delay", "dealy")
        .replace("rate = 0.02", "rate = 2");
    fs::write(folder.path().join("bad.toml"), bad).expect("writable");
    for command in ["check", "run"] {
        let output = whimbrel(folder.path(), &[command, "bad.toml"]);
        assert_eq!((code(&output), stdout(&output).as_str()), (2, ""));
        insta::allow_duplicates! {
            insta::assert_snapshot!(stderr(&output), @r#"
            error: bad.toml:16:1: link.radio: unknown key `dealy`
              hint: did you mean `delay`?
            error: bad.toml:17:37: link.radio.loss.rate: 2 given, allowed is a probability from 0 to 1
              hint: 2 % is written 0.02
            error: 2 problems; nothing was run
            "#);
        }
    }
    let output = whimbrel(
        folder.path(),
        &["run", "small.toml", "--set", "link.radio.loss.rate=2", "--seeds", "0"],
    );
    assert_eq!(code(&output), 2);
    insta::assert_snapshot!(stderr(&output), @r#"
    error: --set seeds=0: seeds: 0 given, allowed is 1 to 1000000 runs
    error: --set link.radio.loss.rate=2: link.radio.loss.rate: 2 given, allowed is a probability from 0 to 1
      hint: 2 % is written 0.02
    error: 2 problems; nothing was run
    "#);
    let output = whimbrel(folder.path(), &["run", "missing.toml", "--out", "out"]);
    assert_eq!(code(&output), 2);
    insta::assert_snapshot!(stderr(&output), @"error: cannot read scenario missing.toml: no such file");
    assert!(!folder.path().join("out").exists(), "nothing is created on an error");
    assert_eq!(code(&whimbrel(folder.path(), &["run"])), 2);
    assert_eq!(code(&whimbrel(folder.path(), &["run", "small.toml", "--jobs", "0"])), 2);
}

#[test]
fn errors_of_traces_name_field_and_file() {
    let folder = small();
    let traced = small_text().replace("rate = \"2 Mbit/s\"", "trace = { file = \"cell.trace\" }");
    fs::write(folder.path().join("traced.toml"), traced).expect("writable");
    let output = whimbrel(folder.path(), &["run", "traced.toml"]);
    assert_eq!(code(&output), 2);
    insta::assert_snapshot!(stderr(&output), @r#"
    error: traced.toml:15:18: link.radio.trace.file: "cell.trace" given, allowed is a trace file that can be read
      hint: cell.trace: no such file
    "#);
    fs::write(folder.path().join("cell.trace"), "1\n2\nthree\n").expect("writable");
    let output = whimbrel(folder.path(), &["check", "traced.toml"]);
    assert_eq!(code(&output), 2);
    insta::assert_snapshot!(stderr(&output), @r#"
    error: traced.toml:15:18: link.radio.trace.file: "cell.trace" given, allowed is a file with a time in milliseconds on each line
      hint: cell.trace: line 3: not a whole number of milliseconds
    "#);
    fs::write(folder.path().join("cell.trace"), "1\n5\n9\n").expect("writable");
    assert_eq!(code(&whimbrel(folder.path(), &["check", "traced.toml"])), 0);
}

#[test]
fn folders_that_cannot_be_written_are_errors_before_anything_runs() {
    let folder = small();
    fs::create_dir(folder.path().join("full")).expect("writable");
    fs::write(folder.path().join("full/thesis.tex"), "work").expect("writable");
    for out in ["full", "small.toml", "small.toml/deeper"] {
        let output = whimbrel(folder.path(), &["run", "small.toml", "--quiet", "--out", out]);
        assert_eq!(
            (code(&output), stdout(&output).as_str()),
            (2, ""),
            "{out}: {}",
            stderr(&output)
        );
        assert_eq!(
            stderr(&output)
                .lines()
                .filter(|line| line.starts_with("error: "))
                .count(),
            1
        );
    }
    assert_eq!(
        fs::read_to_string(folder.path().join("full/thesis.tex")).expect("there"),
        "work"
    );
    let first = whimbrel(folder.path(), &["run", "small.toml", "--quiet", "--out", "out"]);
    assert_eq!(code(&first), 0, "{}", stderr(&first));
    let again = whimbrel(folder.path(), &["run", "small.toml", "--quiet", "--out", "out"]);
    assert_eq!(code(&again), 2);
    insta::assert_snapshot!(stderr(&again), @r#"
    error: folder out is not empty
      hint: it holds the results of an earlier run; choose another one, replace them with --replace, or continue an interrupted run with --resume
    "#);
    let replaced = whimbrel(
        folder.path(),
        &["run", "small.toml", "--quiet", "--out", "out", "--replace"],
    );
    assert_eq!(code(&replaced), 0, "{}", stderr(&replaced));
}

#[test]
fn json_is_a_single_object() {
    let folder = small();
    let output = whimbrel(
        folder.path(),
        &["run", "small.toml", "--json", "--set", "link.radio.loss.rate=0"],
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(json["scenario"], "small");
    assert_eq!(json["points"].as_array().map(Vec::len), Some(1));
    let metrics = json["points"][0]["metrics"].as_object().expect("metrics");
    for name in [
        "goodput_mbps",
        "completion_s",
        "delay_mean_ms",
        "delay_p50_ms",
        "delay_p95_ms",
        "delay_p99_ms",
        "retransmissions",
        "fast_retransmits",
        "timeouts",
        "spurious_retransmissions",
        "tr_ratio",
        "jain_index",
        "link_utilisation",
        "queue_utilisation",
        "drops_queue_full",
    ] {
        let metric = metrics[name].as_object().unwrap_or_else(|| panic!("{name}"));
        assert_eq!(metric.keys().collect::<Vec<_>>(), ["ci95", "mean", "n"], "{name}");
        assert!(metric["mean"].is_number() && metric["n"] == 2, "{name}: {metric:?}");
    }
    assert!(
        json["points"][0]["flows"]["upload"]["goodput_mbps"]["mean"]
            .as_f64()
            .is_some_and(|mean| mean > 1.0)
    );
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(2));
    assert!(json["runs"][1]["packet_hops"].as_u64().is_some_and(|hops| hops > 200));
    // Without --out no file is written.
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
fn the_table_is_the_same_every_time() {
    let folder = small();
    let output = whimbrel(
        folder.path(),
        &["run", "small.toml", "--set", "link.radio.loss.rate=0", "--seeds", "1"],
    );
    assert_eq!(stderr(&output), "small: 1 run, from seed 1\n");
    let table = stdout(&output);
    for row in [
        "goodput, Mbit/s",
        "completion, s",
        "delay p99, ms",
        "timeouts",
        "T-R ratio",
        "drops",
    ] {
        assert!(table.contains(row), "{row}: {table}");
    }
    let quiet = whimbrel(
        folder.path(),
        &[
            "run",
            "small.toml",
            "--set",
            "link.radio.loss.rate=0",
            "--seeds",
            "1",
            "-q",
        ],
    );
    assert_eq!((stdout(&quiet), stderr(&quiet)), (table, String::new()));
}

#[test]
fn a_manifest_repeats_its_runs_byte_for_byte() {
    let folder = small();
    let args = [
        "run",
        "small.toml",
        "--set",
        "link.radio.loss.rate=0.03",
        "--seeds",
        "2",
        "-q",
        "--jobs",
        "1",
        "--out",
        "out",
    ];
    let first = whimbrel(folder.path(), &args);
    assert_eq!(code(&first), 0, "{}", stderr(&first));
    // The scenario file is not needed any more.
    fs::remove_file(folder.path().join("small.toml")).expect("there");
    let again = whimbrel(folder.path(), &["rerun", "out/manifest.json", "-q", "--jobs", "2"]);
    assert_eq!(code(&again), 0, "{}", stderr(&again));
    assert_eq!(stderr(&again), "identical: all 7 files in out-rerun\n");
    assert_eq!(stdout(&again), stdout(&first));
    for entry in fs::read_dir(folder.path().join("out")).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        let read = |out: &str| fs::read(folder.path().join(out).join(&name)).expect("readable");
        assert!(read("out") == read("out-rerun"), "{name:?} differs");
    }
    // A changed manifest is detected.
    let path = folder.path().join("out/manifest.json");
    let text = fs::read_to_string(&path)
        .expect("readable")
        .replace("\"bytes\": ", "\"bytes\": 1");
    fs::write(&path, text).expect("writable");
    let differs = whimbrel(folder.path(), &["rerun", "out", "-q", "--out", "third"]);
    assert_eq!(code(&differs), 1);
    assert!(stderr(&differs).contains("results.csv differs"), "{}", stderr(&differs));
}

#[test]
fn a_closed_reader_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_whimbrel"))
        .arg("schema")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let output = finish(child);
    assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
}

#[cfg(unix)]
#[test]
fn an_interruption_keeps_complete_runs_and_reports_it() {
    let folder = small();
    let endless = small_text().replace("kind = \"file\", file_bytes = 300000", "kind = \"endless\"");
    let endless = endless.replace("30 s", "24 h").replace("seeds = 2", "seeds = 1000");
    fs::write(folder.path().join("endless.toml"), endless).expect("writable");
    let child = Command::new(env!("CARGO_BIN_EXE_whimbrel"))
        .args(["run", "endless.toml", "--out", "out", "--set", "record.packets=none"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // The signal handler is installed before the manifest is written.
    let manifest = folder.path().join("out/manifest.json");
    until("the manifest exists", || manifest.exists());
    let id = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).expect("it runs");
    let output = finish(child);
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("interrupted: 0 of 1000 runs are complete"),
        "{}",
        stderr(&output)
    );
    assert!(
        fs::read_to_string(manifest)
            .expect("readable")
            .contains("\"status\": \"interrupted\"")
    );
}

#[test]
fn the_demo_transfers_the_file_and_lists_its_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for _ in 0..2 {
        let output = whimbrel(folder.path(), &["demo"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = stdout(&output);
        assert!(
            text.contains("bytes of the file arrived unchanged in each of 20 runs"),
            "{text}"
        );
        assert!(
            text.contains("wireshark out/demo/runs/sctp.scheme=multipath/seed-1/packets.pcapng"),
            "{text}"
        );
    }
    for name in [
        "results.csv",
        "results.parquet",
        "links.csv",
        "manifest.json",
        "runs/sctp.scheme=standard/seed-1/series.parquet",
        "runs/sctp.scheme=standard/seed-1/events.jsonl",
        "runs/sctp.scheme=multipath/seed-1/events.jsonl",
        "runs/sctp.scheme=multipath/seed-1/packets.pcapng",
    ] {
        let length = fs::metadata(folder.path().join("out/demo").join(name)).map(|file| file.len());
        assert!(length.is_ok_and(|length| length > 300), "{name}");
    }
    let plotted = whimbrel(folder.path(), &["plot", "out/demo", "--quiet"]);
    assert_eq!(code(&plotted), 0, "{}", stderr(&plotted));
    let paths = "out/demo/plots/sctp.scheme=multipath/seed-1/paths-upload.svg";
    let paths = fs::read_to_string(folder.path().join(paths)).expect("the flow used two paths");
    assert!(paths.contains(">wifi<") && paths.contains(">lte<"), "{paths}");
    let json = whimbrel(folder.path(), &["demo", "--json"]);
    serde_json::from_slice::<serde_json::Value>(&json.stdout).expect("one JSON object");
}

#[test]
fn tshark_accepts_a_capture() {
    whimbrel_testkit::needs!(whimbrel_testkit::program("tshark", "tshark"));
    let folder = small();
    let output = whimbrel(
        folder.path(),
        &["run", "small.toml", "--seeds", "1", "--quiet", "--out", "out"],
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let tshark = |args: &[&str]| {
        let output = Command::new("tshark")
            .args([
                "-r",
                "out/packets.pcapng",
                "-o",
                "sctp.checksum:CRC 32c",
                "-o",
                "ip.check_checksum:TRUE",
            ])
            .args(args)
            .current_dir(folder.path())
            .output_in_time();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let faults = tshark(&[
        "-Y",
        "_ws.malformed || sctp.checksum.status != 1 || ip.checksum.status != 1 || !sctp",
    ]);
    assert_eq!(faults, "");
    let first = tshark(&[
        "-c",
        "1",
        "-T",
        "fields",
        "-e",
        "frame.time_epoch",
        "-e",
        "frame.interface_name",
    ]);
    assert_eq!(first, "0.000000000\tradio\n");
    let chunks = tshark(&["-T", "fields", "-e", "sctp.chunk_type"]);
    // INIT, INIT ACK, COOKIE ECHO, COOKIE ACK begin; SHUTDOWN COMPLETE ends.
    assert!(chunks.starts_with("1\n2\n10") && chunks.ends_with("14\n"), "{chunks}");
    let comments = tshark(&["-Y", "frame.comment", "-T", "fields", "-e", "frame.comment"]);
    assert!(comments.lines().count() > 1, "{comments}");
    assert!(
        comments
            .lines()
            .all(|line| line.starts_with("dropped on radio at ") && line.ends_with(": loss-bernoulli"))
    );
}

/// Runs the command with this much memory in kilobytes.
#[cfg(target_os = "linux")]
fn with_memory(folder: &std::path::Path, kilobytes: u32, args: &str) -> std::process::Output {
    let line = format!("ulimit -v {kilobytes} && exec {} {args}", crate::support::WHIMBREL);
    Command::new("sh")
        .args(["-c", &line])
        .current_dir(folder)
        .output_in_time()
}

#[test]
#[cfg(target_os = "linux")]
fn the_largest_group_is_checked_in_bounded_memory() {
    let folder = small();
    let text = small_text().replace("duration = \"30 s\"", "duration = \"200 s\"");
    let group = text.replace("name = \"upload\"", "name = \"upload\"\ncount = 65536");
    let late = group.clone()
        + "start = \"1 s\"\nstagger = \"200 ms\"\n\n[sweep]\n\"link.radio.loss.rate\" = [0, 0.01, 0.02]\n";
    fs::write(folder.path().join("late.toml"), late).expect("writable");
    // 613 MB were used.
    let output = with_memory(folder.path(), 350_000, "check late.toml");
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("before the end of the run"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn stored_runs_that_are_no_runs_are_errors_with_their_line() {
    let folder = small();
    let run = whimbrel(folder.path(), &["run", "small.toml", "--quiet", "--out", "out"]);
    assert_eq!(code(&run), 0, "{}", stderr(&run));
    let path = folder.path().join("out/runs.jsonl");
    let runs = fs::read_to_string(&path).expect("runs");
    let show = |content: &str| {
        fs::write(&path, content).expect("writable");
        let output = whimbrel(folder.path(), &["show", "out"]);
        assert_eq!(code(&output), 2, "{}", stdout(&output));
        stderr(&output)
    };
    insta::assert_snapshot!(show("null\n"), @"
    error: out/runs.jsonl: record 1 is not a run of this version: line 1, column 4: another value expected
      hint: `whimbrel rerun` of the manifest runs it again
    ");
    let (first, rest) = runs.split_once('\n').expect("two runs");
    let broken = rest.replace("\"seed\":2", "\"seed\":\"secret\"");
    let error = show(&format!("{first}\n{broken}"));
    assert!(
        error.contains("record 2 is not a run") && !error.contains("secret"),
        "{error}"
    );
    let error = show("{\"run\":0,\"po");
    assert!(error.contains("out has no complete run in runs.jsonl"), "{error}");
    fs::remove_file(&path).expect("there");
    let error = stderr(&whimbrel(folder.path(), &["show", "out"]));
    assert!(error.contains("an earlier version of this program wrote it"), "{error}");
    fs::write(folder.path().join("out/manifest.json"), "\"root:secret:0\"").expect("writable");
    let error = stderr(&whimbrel(folder.path(), &["show", "out"]));
    assert!(
        error.contains("is not a manifest: line 1, column 15: another value expected") && !error.contains("secret"),
        "{error}"
    );
    // A line that was cut off is left out.
    fs::remove_dir_all(folder.path().join("out")).expect("there");
    let run = whimbrel(folder.path(), &["run", "small.toml", "--quiet", "--out", "out"]);
    assert_eq!(code(&run), 0, "{}", stderr(&run));
    fs::write(&path, &runs[..runs.len() - 20]).expect("writable");
    let output = whimbrel(folder.path(), &["show", "out"]);
    assert_eq!(
        (code(&output), stderr(&output).as_str()),
        (0, "1 of 2 runs are complete\n")
    );
}
