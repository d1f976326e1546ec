//! Names in files and in results cannot control the terminal, and cannot look like lines of this program.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::support::{code, stderr, stdout, whimbrel};

/// Clears the screen, sets a colour with C1, changes the order of what follows, ends the line, and imitates an error.
const HOSTILE: &str = r"\u001b[2J\u009b31m\u202e\r\nerror: faked\u007f";

fn scenario() -> String {
    format!(
        r#"
title = "t{HOSTILE}"
duration = "3 s"
seeds = 2
record = {{ packets = "all", events = "all", series = "all" }}

[[node]]
name = "a{HOSTILE}"

[[node]]
name = "b{HOSTILE}"

[[link]]
name = "l{HOSTILE}"
between = ["a{HOSTILE}", "b{HOSTILE}"]
rate = "1 Mbit/s"
delay = "5 ms"
loss = {{ kind = "bernoulli", rate = 0.001 }}

[[link]]
name = "down{HOSTILE}"
between = ["a{HOSTILE}", "b{HOSTILE}"]
rate = "1 Mbit/s"
delay = "5 ms"
schedule = [{{ at = "0 s", up = false }}]

[[flow]]
name = "f{HOSTILE}"
from = "a{HOSTILE}"
to = "b{HOSTILE}"
from_links = ["l{HOSTILE}"]
to_links = ["l{HOSTILE}"]
traffic = {{ kind = "file", file_bytes = 50000 }}

[[flow]]
name = "dead{HOSTILE}"
from = "a{HOSTILE}"
to = "b{HOSTILE}"
from_links = ["down{HOSTILE}"]
to_links = ["down{HOSTILE}"]
traffic = {{ kind = "file", file_bytes = 1000 }}
sctp = {{ max_init_retransmits = 1, rto_initial = "100 ms", rto_min = "100 ms", rto_max = "100 ms" }}
"#
    )
}

/// Returns the first character of a text that no output contains.
fn harmful(text: &str) -> Option<char> {
    let is_harmful = |c: &char| c.is_control() && *c != '\n' || matches!(c, '\u{202e}' | '\u{2028}');
    text.chars().find(is_harmful)
}

/// Checks what a command has printed.
fn check(what: &str, output: &Output) {
    for text in [stdout(output), stderr(output)] {
        assert_eq!(harmful(&text), None, "{what}: {text:?}");
        let faked = text.lines().any(|line| line.trim_start().starts_with("error: faked"));
        assert!(!faked, "{what}: {text}");
    }
}

/// Runs a command that must not print what is hostile. Returns its output.
fn run(folder: &Path, expected: i32, args: &[&str]) -> Output {
    let output = whimbrel(folder, args);
    check(&args.join(" "), &output);
    assert_eq!(code(&output), expected, "{args:?}: {}", stderr(&output));
    output
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), scenario()).expect("writable");
    folder
}

#[test]
fn names_in_a_scenario_and_in_results_are_escaped_by_every_command() {
    let folder = folder();
    let folder = folder.path();
    let ran = run(folder, 0, &["run", "x.toml", "--out", "out"]);
    assert!(
        stdout(&ran).contains("f\\u{1b}[2J\\u{9b}31m\\u{202e}\\r\\nerror: faked\\u{7f}"),
        "{}",
        stdout(&ran)
    );
    assert!(stderr(&ran).contains("note: flow dead\\u{1b}"), "{}", stderr(&ran));
    let one = fs::read_dir(folder.join("out/runs"))
        .expect("runs")
        .flatten()
        .map(|entry| entry.path())
        .min();
    let one = one.expect("a recorded run");
    let one = one.to_string_lossy();
    for args in [
        &["check", "x.toml"][..],
        &["show", "out"],
        &["show", "out", "--by", "flow"],
        &["show", "out", "--metric", "goodput_mbps", "--by", "metric"],
        &["report", "out"],
        &["plot", "out", "--pdf"],
        &["why", &one, "1"],
        &["why", &one, "tsn=1"],
        &["export", &one, "--perfetto"],
        &["export", &one, "--qlog"],
        &["rerun", "out", "--quiet"],
        &["merge", "out", "--out", "merged"],
    ] {
        let output = whimbrel(folder, args);
        check(&args.join(" "), &output);
        assert!(code(&output) == 0 || args[0] == "why", "{args:?}: {}", stderr(&output));
    }
    for entry in fs::read_dir(folder.join("out/plots")).expect("plots").flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "svg") {
            let svg = fs::read_to_string(entry.path()).expect("a figure");
            assert_eq!(harmful(&svg), None, "{}", entry.path().display());
        }
    }
}

#[test]
fn json_and_scenario_texts_keep_the_names() {
    let folder = folder();
    let folder = folder.path();
    let title = "t\u{1b}[2J\u{9b}31m\u{202e}\r\nerror: faked\u{7f}";
    let value = |args: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&run(folder, 0, args).stdout).unwrap_or_else(|error| panic!("{args:?}: {error}"))
    };
    assert_eq!(value(&["check", "x.toml", "--json"])["summary"]["title"], title);
    let ran = value(&["run", "x.toml", "--json"]);
    assert!(ran.to_string().contains("faked"), "{ran}");
    let explained = stdout(&whimbrel(folder, &["check", "x.toml", "--explain"]));
    assert_eq!(harmful(&explained), None, "{explained}");
    fs::write(folder.join("again.toml"), explained).expect("writable");
    assert_eq!(value(&["check", "again.toml", "--json"])["summary"]["title"], title);
}

#[test]
fn errors_and_warnings_about_hostile_names_are_escaped() {
    let folder = folder();
    let folder = folder.path();
    let broken = |name: &str, from: &str, to: &str| {
        let text = scenario();
        assert!(text.contains(from), "{from}");
        fs::write(folder.join(name), text.replacen(from, to, 1)).expect("writable");
        for command in ["check", "run"] {
            let output = run(folder, 2, &[command, name]);
            assert!(stderr(&output).contains("\\u{1b}"), "{}", stderr(&output));
        }
        run(folder, 2, &["check", name, "--json"]);
    };
    broken("key.toml", "seeds = 2", &format!("\"seeds{HOSTILE}\" = 2"));
    broken(
        "word.toml",
        "kind = \"bernoulli\"",
        &format!("kind = \"bernoulli{HOSTILE}\""),
    );
    broken("name.toml", "from = \"a", "from = \"c");
    broken("rate.toml", "rate = \"1 Mbit/s\"", "rate = \"0 bit/s\"");
    broken(
        "file.toml",
        "rate = \"1 Mbit/s\"",
        &format!("trace = {{ file = \"no{HOSTILE}\" }}"),
    );
    let third = format!(
        "[[link]]\nname = \"third{HOSTILE}\"\nbetween = [\"a{HOSTILE}\", \"c\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n[[node]]\nname = \"c\"\n[[flow]]\nname = \"g{HOSTILE}\"\nfrom = \"a{HOSTILE}\"\nto = \"c\"\nfrom_links = [\"l{HOSTILE}\", \"third{HOSTILE}\"]\n"
    );
    fs::write(folder.join("unused.toml"), scenario() + &third).expect("writable");
    let output = run(folder, 0, &["check", "unused.toml"]);
    assert!(
        stderr(&output).contains("warning: flow.g\\u{1b}"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn names_in_a_study_are_escaped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let study = folder.path().join("studies/s");
    fs::create_dir_all(&study).expect("writable");
    fs::write(study.join("scenario.toml"), scenario().replace("\"all\"", "\"none\"")).expect("writable");
    let text = format!(
        "title = \"t{HOSTILE}\"\nsource = \"s{HOSTILE}\"\n[[scenario]]\nname = \"n\"\nfile = \"scenario.toml\"\n[[claim]]\nid = \"c\"\n\
         claim = \"w{HOSTILE}\"\npaper = \"p{HOSTILE}\"\nnote = \"x{HOSTILE}\"\ncheck = {{ kind = \"bounds\", of = {{ metric = \"goodput_mbps\" }}, at_least = 0 }}\n"
    );
    fs::write(study.join("study.toml"), &text).expect("writable");
    run(folder.path(), 0, &["study", "list"]);
    let output = whimbrel(folder.path(), &["study", "run", "s"]);
    check("study run", &output);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("w\\u{1b}"), "{}", stdout(&output));
    fs::write(
        study.join("study.toml"),
        text.replace("id = \"c", &format!("id = \"c{HOSTILE}")),
    )
    .expect("writable");
    run(folder.path(), 2, &["study", "list"]);
    fs::write(
        study.join("study.toml"),
        text.replace("goodput_mbps", &format!("godput{HOSTILE}")),
    )
    .expect("writable");
    run(folder.path(), 2, &["study", "run", "s"]);
}
