//! `--json` of commands about scenarios and saved results: one object, and nothing else on standard output.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use whimbrel_testkit::process::finish;

use crate::support::{WHIMBREL, code, one_link, root, stderr, stdout, whimbrel};

/// A sweep with losses, whose first run is recorded.
fn lossy_text() -> String {
    one_link(
        "title = \"lossy\"\nduration = \"5 s\"\nseeds = 2\n",
        "rate = \"2 Mbit/s\"\ndelay = \"10 ms\"\nloss = { kind = \"bernoulli\", rate = 0.05 }\n",
        "[[flow]]\nname = \"upload\"\nfrom = \"a\"\nto = \"b\"\n\n\
         [sweep]\n\"link.radio.loss.rate\" = [0.05, 0.01]\n\n[record]\npackets = \"first\"\nevents = \"first\"\n",
    )
}

fn lossy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("lossy.toml"), lossy_text()).expect("writable");
    folder
}

/// A folder with the results of the sweep in `out`.
fn results() -> tempfile::TempDir {
    let folder = lossy();
    let run = whimbrel(folder.path(), &["run", "lossy.toml", "-q", "--out", "out"]);
    assert_eq!(code(&run), 0, "{}", stderr(&run));
    folder
}

/// Returns the only JSON value on standard output.
#[track_caller]
fn value(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {:?}, {:?}", stdout(output), stderr(output)))
}

/// Runs a command that succeeds. Returns its JSON.
#[track_caller]
fn json(folder: &Path, args: &[&str]) -> Value {
    let output = whimbrel(folder, args);
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    value(&output)
}

/// Returns the files of an object with `files`. They exist.
#[track_caller]
fn files(folder: &Path, object: &Value) -> Vec<String> {
    assert_eq!(object.as_object().expect("an object").len(), 1, "{object}");
    let files = object["files"].as_array().expect("a list");
    let names: Vec<_> = files
        .iter()
        .map(|file| file.as_str().expect("a name").to_owned())
        .collect();
    for name in &names {
        assert!(folder.join(name).is_file(), "{name}");
    }
    names
}

/// Runs a command that fails before it has a result: the error is on standard error, and standard output is empty.
#[track_caller]
fn fails(folder: &Path, args: &[&str], expected: i32, message: &str) {
    let output = whimbrel(folder, args);
    assert_eq!((code(&output), stdout(&output).as_str()), (expected, ""), "{args:?}");
    assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
}

#[test]
fn check_reports_the_summary_of_a_valid_scenario() {
    let folder = lossy();
    let object = json(folder.path(), &["check", "lossy.toml", "--json", "--set", "seeds=3"]);
    assert_eq!(
        (&object["valid"], &object["file"]),
        (&true.into(), &"lossy.toml".into())
    );
    assert_eq!(
        (&object["errors"], &object["warnings"]),
        (&Value::Array(vec![]), &Value::Array(vec![]))
    );
    let summary = &object["summary"];
    assert_eq!(summary["title"], "lossy");
    for (name, number) in [
        ("nodes", 2),
        ("links", 1),
        ("flows", 1),
        ("points", 2),
        ("seeds", 3),
        ("runs", 6),
    ] {
        assert_eq!(summary[name], number, "{name}");
    }
    assert_eq!(summary["axes"][0], "link.radio.loss.rate");
    assert_eq!(summary["simulated_s"], 30.0);
    assert_eq!(summary["hash"].as_str().map(str::len), Some(64));
    assert_eq!(object.get("scenario"), None);
    let explained = json(folder.path(), &["check", "lossy.toml", "--json", "--explain"]);
    assert_eq!(explained["scenario"]["link"][0]["name"], "radio");
    assert_eq!(explained["scenario"]["seeds"], 2);
}

#[test]
fn check_reports_errors_with_their_places_and_code_2() {
    let folder = lossy();
    let bad = lossy_text()
        .replace("delay", "dealy")
        .replace("[0.05, 0.01]", "[0.05, 2]");
    fs::write(folder.path().join("bad.toml"), bad).expect("writable");
    let output = whimbrel(folder.path(), &["check", "bad.toml", "--json", "--set", "seeds=0"]);
    assert_eq!(code(&output), 2);
    let object = value(&output);
    assert_eq!((&object["valid"], &object["summary"]), (&false.into(), &Value::Null));
    let errors = object["errors"].as_array().expect("a list");
    assert_eq!(errors.len(), 3, "{object}");
    let of = |field: &str| {
        let found = errors.iter().find(|error| error["field"] == field);
        found.unwrap_or_else(|| panic!("{field}: {object}"))
    };
    let key = of("link.radio");
    assert_eq!(key["message"], "unknown key `dealy`");
    assert_eq!(key["hint"], "did you mean `delay`?");
    assert_eq!(key["file"], "bad.toml");
    assert!(key["line"].as_u64() > Some(10) && key["column"] == 1, "{key}");
    assert_eq!(of("link.radio.loss.rate")["argument"], Value::Null);
    let seeds = of("seeds");
    assert_eq!(seeds["argument"], "--set seeds=0");
    assert_eq!((&seeds["file"], &seeds["line"]), (&Value::Null, &Value::Null));
    // As with other commands, standard error has the errors as well.
    assert!(stderr(&output).contains("error: bad.toml:"), "{}", stderr(&output));

    let missing = whimbrel(folder.path(), &["check", "missing.toml", "--json"]);
    assert_eq!(code(&missing), 2);
    let object = value(&missing);
    assert_eq!(object["errors"][0]["file"], "missing.toml");
    assert_eq!(
        object["errors"][0]["message"],
        "cannot read scenario missing.toml: no such file"
    );
    assert_eq!(object["errors"][0]["field"], Value::Null);
    for nonsense in ["\0\u{1f}[[[", "= = =", "[[node]]\nname = 7"] {
        fs::write(folder.path().join("nonsense.toml"), nonsense).expect("writable");
        let output = whimbrel(folder.path(), &["check", "nonsense.toml", "--json"]);
        assert_eq!(code(&output), 2);
        let object = value(&output);
        assert!(
            object["valid"] == false && object["errors"][0]["line"].is_u64(),
            "{object}"
        );
    }
}

#[test]
fn check_reports_warnings() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nodes = "duration = \"5 s\"\nnode = [{ name = \"a\" }, { name = \"r\" }, { name = \"b\" }]\n";
    let link = |name: &str, ends: &str| {
        format!("[[link]]\nname = \"{name}\"\nbetween = {ends}\nrate = \"1 Mbit/s\"\ndelay = \"10 ms\"\n")
    };
    // The receiver has one address, so that one of the sender's two links has no path.
    let near = "[\"a\", \"r\"]";
    let links = [link("used", near), link("unused", near), link("core", "[\"r\", \"b\"]")].concat();
    let text = format!(
        "{nodes}{links}[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nfrom_links = [\"used\", \"unused\"]\n"
    );
    fs::write(folder.path().join("warned.toml"), text).expect("writable");
    let output = whimbrel(folder.path(), &["check", "warned.toml", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let object = value(&output);
    let warning = object["warnings"][0].as_str().unwrap_or_else(|| panic!("{object}"));
    assert!(
        object["valid"] == true && warning.contains("link \"unused\""),
        "{warning}"
    );
    assert!(stderr(&output).contains(warning), "{}", stderr(&output));
}

#[test]
fn an_invalid_scenario_has_code_2_if_the_reader_has_gone() {
    let folder = lossy();
    let mut child = Command::new(WHIMBREL)
        .args(["check", "missing.toml", "--json"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("ended").code(), Some(2));
}

const EVENTS: &str = "out/runs/loss.rate=0.05/seed-1/events.jsonl";

/// Returns the events of the packets that were dropped in the recorded run of [`results`].
fn drops(folder: &Path) -> Vec<Value> {
    let events = fs::read_to_string(folder.join(EVENTS)).expect("recorded");
    let drops = events.lines().filter(|line| line.contains("network:packet_dropped"));
    drops.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns the event of the first packet with user data that was dropped there.
fn first_lost_data(folder: &Path) -> Value {
    let lost = drops(folder).into_iter().find(|event| event["data"]["tsn"].is_u64());
    lost.expect("a loss")
}

#[test]
fn why_gives_the_fate_of_a_packet_as_fields() {
    let folder = results();
    let drop = first_lost_data(folder.path());
    let tsn = &drop["data"]["tsn"];
    let object = json(folder.path(), &["why", "out", &format!("tsn={tsn}"), "--json"]);
    assert_eq!(
        (&object["protocol"], &object["interface"]),
        (&"SCTP".into(), &"radio".into())
    );
    assert_eq!(
        (&object["from"], &object["to"]),
        (&"10.0.0.1".into(), &"10.0.0.2".into())
    );
    assert_eq!(&object["bytes"], &drop["data"]["length"]);
    assert!(
        object["capture"]
            .as_str()
            .is_some_and(|name| name.ends_with("packets.pcapng"))
    );
    let chunks = object["chunks"].as_array().expect("a list");
    assert!(
        chunks
            .iter()
            .any(|chunk| chunk["type"] == "DATA" && chunk["tsn"] == *tsn),
        "{object}"
    );
    let fate = &object["dropped"];
    assert_eq!(fate["cause"], "loss-bernoulli");
    assert_eq!((&fate["congestion"], &fate["link"]), (&false.into(), &"radio".into()));
    let (sent, at) = (object["sent_s"].as_f64(), fate["at_s"].as_f64());
    assert!(sent > Some(0.0) && at > sent, "{object}");
    assert!(!object["same_data_in"].as_array().expect("a list").is_empty());
    assert_eq!(object["has_events"], true);
    let names: Vec<_> = object["events"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|event| event["name"].as_str().expect("a name"))
        .collect();
    for name in [
        "transport:tsn_sent",
        "network:packet_dropped",
        "recovery:tsn_lost",
        "transport:tsn_acked",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let sent = &object["events"][0];
    assert_eq!(
        (&sent["node"], &sent["flow"], &sent["data"]["tsn"]),
        (&"a".into(), &"upload".into(), tsn)
    );

    let first = json(folder.path(), &["why", "out", "1", "--json"]);
    assert_eq!((&first["packet"], &first["dropped"]), (&1.into(), &Value::Null));
    assert_eq!(first["chunks"][0]["type"], "INIT");
}

#[test]
fn why_finds_the_event_of_a_lost_sack() {
    let folder = results();
    // The event of a lost SACK has no TSN: it is found by its time.
    let sack = (1..500).find_map(|number| {
        let object = json(folder.path(), &["why", "out", &number.to_string(), "--json"]);
        (object["dropped"].is_object() && object["chunks"][0]["type"] == "SACK").then_some(object)
    });
    let sack = sack.expect("a lost SACK");
    assert!(sack["chunks"][0]["cumulative_tsn"].is_u64(), "{sack}");
    let is_its_drop = |event: &Value| event["time"].as_f64().map(|ms| ms / 1e3) == sack["dropped"]["at_s"].as_f64();
    assert!(
        sack["dropped"]["link"] == "radio" && drops(folder.path()).iter().any(is_its_drop),
        "{sack}"
    );
}

#[test]
fn why_without_events_takes_the_fate_from_the_capture() {
    let folder = results();
    let tsn = &first_lost_data(folder.path())["data"]["tsn"];
    fs::remove_file(folder.path().join(EVENTS)).expect("removed");
    let object = json(folder.path(), &["why", "out", &format!("tsn={tsn}"), "--json"]);
    assert_eq!(
        (&object["has_events"], &object["dropped"]["cause"]),
        (&false.into(), &"loss-bernoulli".into())
    );
    assert_eq!(
        (&object["events"], &object["dropped"]["at_s"]),
        (&Value::Array(vec![]), &Value::Null)
    );
}

#[test]
fn why_refuses_packets_that_there_are_not() {
    let folder = results();
    fails(folder.path(), &["why", "out", "99999999", "--json"], 2, " packets");
    fails(
        folder.path(),
        &["why", "none", "1", "--json"],
        2,
        "holds no packets.pcapng",
    );
    fails(folder.path(), &["why", "out", "tsn=x", "--json"], 2, "tsn=N");
}

#[test]
fn export_names_its_files() {
    let folder = results();
    let object = json(
        folder.path(),
        &["export", "out", "--perfetto", "--out", "viewers", "--json"],
    );
    assert_eq!(files(folder.path(), &object), ["viewers/trace.perfetto.json"]);
    let object = json(
        folder.path(),
        &["export", "out", "--qlog", "--out", "viewers", "--json"],
    );
    assert_eq!(files(folder.path(), &object), ["viewers/upload-a-path-0.sqlog"]);
    fails(folder.path(), &["export", ".", "--qlog", "--out", "x", "--json"], 2, "");
    fails(
        folder.path(),
        &["export", "none", "--qlog", "--json"],
        2,
        "holds no events.jsonl",
    );
}

#[test]
fn merge_prints_the_object_of_a_single_run() {
    let folder = lossy();
    let whole = json(folder.path(), &["run", "lossy.toml", "-q", "--json", "--out", "whole"]);
    for (part, out) in [("1/2", "p1"), ("2/2", "p2")] {
        let run = whimbrel(
            folder.path(),
            &["run", "lossy.toml", "-q", "--part", part, "--out", out],
        );
        assert_eq!(code(&run), 0, "{}", stderr(&run));
    }
    let merged = json(folder.path(), &["merge", "p2", "p1", "--out", "merged", "--json"]);
    assert_eq!(merged["points"], whole["points"]);
    assert_eq!(merged["scenario"], "lossy");
    assert_eq!(merged["runs"].as_array().map(Vec::len), Some(4));
    // --quiet is about standard error.
    let quiet = whimbrel(folder.path(), &["merge", "p1", "--out", "half", "--json", "-q"]);
    assert_eq!((code(&quiet), stderr(&quiet).as_str()), (0, ""));
    assert_eq!(value(&quiet)["runs"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        json(folder.path(), &["show", "merged", "--json"])["points"],
        whole["points"]
    );
    fails(
        folder.path(),
        &["merge", "none", "--out", "x", "--json"],
        2,
        "manifest.json",
    );
}

#[test]
fn plot_names_its_files() {
    let folder = results();
    let object = json(
        folder.path(),
        &["plot", "out", "--json", "--pdf", "--metric", "goodput_mbps"],
    );
    let mut names = files(folder.path(), &object);
    names.sort();
    assert_eq!(names, ["out/plots/goodput_mbps.pdf", "out/plots/goodput_mbps.svg"]);
    let object = json(folder.path(), &["plot", "out", "--json", "--out", "all", "-q"]);
    assert!(files(folder.path(), &object).len() > 5, "{object}");
    fails(
        folder.path(),
        &["plot", "out", "--json", "--metric", "nonsense"],
        2,
        "nonsense",
    );
    fails(
        folder.path(),
        &["plot", "none", "--json"],
        2,
        "hint: name a folder that",
    );
}

#[test]
fn report_names_its_file() {
    let folder = results();
    let object = json(folder.path(), &["report", "out", "--json"]);
    assert_eq!(files(folder.path(), &object), ["out/report.html"]);
    let object = json(folder.path(), &["report", "out", "--json", "-q", "--out", "page.html"]);
    assert_eq!(files(folder.path(), &object), ["page.html"]);
    fails(
        folder.path(),
        &["report", "none", "--json"],
        2,
        "hint: name a folder that",
    );
    fails(
        folder.path(),
        &["report", "out", "--json", "--out", "no/such/page.html"],
        1,
        "cannot write",
    );
    // The report of a run does not add to the run's object.
    let args = [
        "run",
        "lossy.toml",
        "--json",
        "--out",
        "again",
        "--report",
        "--seeds",
        "1",
    ];
    assert_eq!(json(folder.path(), &args)["scenario"], "lossy");
}

#[test]
fn studies_are_listed_as_json() {
    let object = json(&root(), &["study", "list", "--json"]);
    let studies = object["studies"].as_array().expect("a list");
    let text = stdout(&whimbrel(&root(), &["study", "list"]));
    assert_eq!(studies.len(), text.lines().count());
    for (study, line) in studies.iter().zip(text.lines()) {
        let id = study["id"].as_str().expect("a name");
        let title = study["title"].as_str().expect("a title");
        assert!(line.starts_with(id) && line.contains(title), "{line}");
        assert!(
            study["source"].is_string() && study["claims"].as_u64() > Some(0),
            "{study}"
        );
    }
    fails(
        &root(),
        &["study", "list", "--json", "--studies", "crates"],
        2,
        "no studies in",
    );
}

#[test]
fn schemes_and_parts_are_shown_as_json() {
    let all = json(&root(), &["schemes", "--json"]);
    let veno = json(&root(), &["schemes", "show", "veno", "--json"]);
    assert!(all["schemes"].as_array().expect("a list").contains(&veno), "{veno}");
    assert_eq!(veno["parts"]["discriminator"], "veno");
    assert_eq!(json(&root(), &["schemes", "parts", "--json"])["slots"], all["slots"]);
    let parts = json(&root(), &["schemes", "parts", "cubic", "--json"]);
    let slots = parts["slots"].as_array().expect("a list");
    assert_eq!((slots.len(), &slots[0]["slot"]), (1, &"window".into()), "{parts}");
    assert_eq!(slots[0]["parts"].as_array().map(Vec::len), Some(1));
    fails(
        &root(),
        &["schemes", "show", "nonsense", "--json"],
        2,
        "no scheme `nonsense`",
    );
    fails(
        &root(),
        &["schemes", "parts", "nonsense", "--json"],
        2,
        "no part `nonsense`",
    );
}

#[test]
fn the_demo_prints_one_object() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let object = json(folder.path(), &["demo", "--json", "--out", "demo"]);
    assert_eq!(object["points"].as_array().map(Vec::len), Some(2));
    let rerun = json(folder.path(), &["rerun", "demo/manifest.json", "--json"]);
    assert_eq!(rerun["points"], object["points"]);
    assert_eq!(rerun["comparison"]["identical"], true);
    assert_eq!(rerun["comparison"]["differences"], serde_json::json!([]));
    let changed = folder.path().join("demo/manifest.json");
    let manifest = std::fs::read_to_string(&changed).expect("a manifest");
    std::fs::write(&changed, manifest.replace("\"bytes\": ", "\"bytes\": 1")).expect("writable");
    let differs = whimbrel(folder.path(), &["rerun", "demo", "--json", "--out", "third"]);
    assert_eq!(code(&differs), 1);
    let object: serde_json::Value = serde_json::from_str(&stdout(&differs)).expect("an object all the same");
    assert_eq!(object["comparison"]["identical"], false);
    assert!(
        rerun["comparison"]["files"].as_u64() > Some(3),
        "{}",
        rerun["comparison"]
    );
}

/// Commands that print an object about the results of [`results`].
const ABOUT_RESULTS: [&[&str]; 8] = [
    &["check", "lossy.toml", "--json"],
    &["why", "out", "1", "--json"],
    &["export", "out", "--perfetto", "--json"],
    &["plot", "out", "--json"],
    &["report", "out", "--json"],
    &["merge", "out", "--out", "merged", "--json"],
    &["study", "list", "--json"],
    &["schemes", "parts", "--json"],
];

fn start(folder: &Path, args: &[&str], stdout: Stdio) -> Child {
    let mut command = Command::new(WHIMBREL);
    command.args(args).current_dir(folder);
    command.stdout(stdout).stderr(Stdio::piped()).spawn().expect("started")
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let folder = results();
    for args in ABOUT_RESULTS {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let output = finish(start(folder.path(), args, full.into()));
        assert_eq!(code(&output), 1, "{args:?}");
        let said = stderr(&output);
        assert!(
            said.contains("cannot write to standard output") && !said.contains("panicked"),
            "{said}"
        );
    }
}

#[test]
fn a_closed_reader_of_json_is_no_error() {
    let folder = results();
    for args in ABOUT_RESULTS {
        let mut child = start(folder.path(), args, Stdio::piped());
        drop(child.stdout.take());
        let output = finish(child);
        let said = stderr(&output);
        assert_eq!(code(&output), 0, "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}
