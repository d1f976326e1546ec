//! Reports as a user gets them: files, errors, and every view in a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use whimbrel_testkit::browser::playwright;
use whimbrel_testkit::process::InTime as _;
use whimbrel_testkit::{needs, program};

use crate::support::{code, root, stderr, stdout, whimbrel};

/// A sweep over two axes with two flows, whose names try to become part of the page.
const SWEEP: &str = r#"
title = "</script><img src=x onerror='window.injected=1'> & \"loss\""
duration = "6 s"
seeds = 3

[[node]]
name = "<b onmouseover='window.injected=2'>a</b>"

[[node]]
name = "r"

[[node]]
name = "b"

[[link]]
name = "radio"
between = ["<b onmouseover='window.injected=2'>a</b>", "r"]
rate = "4 Mbit/s"
delay = "10 ms"
queue = { kind = "drop-tail", packets = 20 }
loss = { kind = "bernoulli", rate = 0 }

[[link]]
name = "wire"
between = ["r", "b"]
rate = "10 Mbit/s"
delay = "20 ms"

[[flow]]
name = "<i>one"
from = "<b onmouseover='window.injected=2'>a</b>"
to = "b"

[[flow]]
name = "two"
from = "b"
to = "<b onmouseover='window.injected=2'>a</b>"

[measure]
interval = "50 ms"

[sweep]
"link.radio.loss.rate" = [0, 0.01, 0.05]
"flow.two.sctp.scheme" = ["standard", "jsctp"]

[record]
events = "first-seed"
"#;

/// Nodes that walk, with collisions.
const RADIO: &str = r#"
title = "radios"
duration = "8 s"

[[channel]]
name = "air"
phy = "dsss-2"
routing = "aodv"

[[node]]
name = "n"
count = 12
mobility = { kind = "random-waypoint", area = [700, 700], speed = [5, 25], pause = "1 s", steady_state = true }

[[radio]]
node = "n*"
channel = "air"

[[flow]]
name = "f"
count = 4
from = "n*"
to = "n*"
start = "500 ms"
traffic = { kind = "cbr", rate = "65536 bit/s", message_bytes = 512 }

[measure]
interval = "200 ms"
"#;

/// Runs a scenario with `--report` and returns the page's path.
fn reported(folder: &Path, name: &str, scenario: &str) -> PathBuf {
    fs::write(folder.join(format!("{name}.toml")), scenario).expect("writable");
    let output = whimbrel(
        folder,
        &["run", &format!("{name}.toml"), "--out", name, "--report", "--quiet"],
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    folder.join(name).join("report.html")
}

#[test]
fn report_of_a_folder_without_results_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = whimbrel(folder.path(), &["report", "."]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("hint: name a folder that"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn report_is_replaced_with_its_results_and_escapes_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = reported(folder.path(), "sweep", SWEEP);
    let first = fs::read_to_string(&page).expect("a report");
    assert!(!first.contains("<img src=x"), "a title became part of the page");
    let again = whimbrel(
        folder.path(),
        &[
            "run",
            "sweep.toml",
            "--out",
            "sweep",
            "--replace",
            "--report",
            "--quiet",
        ],
    );
    assert_eq!(code(&again), 0, "{}", stderr(&again));
    assert!(
        fs::read_to_string(&page).expect("a report") == first,
        "the same results give the same page"
    );
    let elsewhere = whimbrel(folder.path(), &["report", "sweep", "--out", "page.html"]);
    assert_eq!(stderr(&elsewhere), "the report is in page.html\n");
    assert_eq!(stdout(&elsewhere), "");
    assert!(fs::read_to_string(folder.path().join("page.html")).expect("a report") == first);
}

#[test]
fn report_needs_a_folder_for_results() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("radio.toml"), RADIO).expect("writable");
    assert_eq!(code(&whimbrel(folder.path(), &["run", "radio.toml", "--report"])), 2);
}

#[test]
fn every_view_opens_and_works_in_a_browser() {
    let chromium = needs!(program("chromium", "chromium"));
    let node = needs!(program("node", "nodejs"));
    let web = root().join("crates/report/web");
    needs!(playwright(&web));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    let demo = whimbrel(path, &["demo", "--out", "demo", "--report", "--quiet"]);
    assert_eq!(code(&demo), 0, "{}", stderr(&demo));
    let study = whimbrel(
        path,
        &[
            "study", "run", "ye-cwr", "--quick", "--out", "study", "--report", "--quiet",
        ],
    );
    assert_eq!(code(&study), 0, "{}", stderr(&study));
    let pages = [
        ("demo", path.join("demo/report.html")),
        ("sweep", reported(path, "sweep", SWEEP)),
        ("radio", reported(path, "radio", RADIO)),
        ("study", path.join("study/ye-cwr/report.html")),
        ("live", live(path)),
    ];
    let mut browser = Command::new(node);
    browser.arg(web.join("test/browser.mjs")).arg(chromium);
    browser.args(pages.iter().map(|(kind, page)| format!("{kind}={}", page.display())));
    let output = browser.output_in_time();
    assert!(output.status.success(), "{}\n{}", stdout(&output), stderr(&output));
    for (kind, _) in pages {
        assert!(
            stdout(&output).contains(&format!("ok {kind} ")),
            "{kind} was not opened"
        );
    }
}

/// The report of a recording with the events of the demo's second run, as a live transfer records them: what the network did is unknown.
fn live(folder: &Path) -> PathBuf {
    let mut lines = vec![
        r#"{"time":2.5,"name":"recording:started","flow":"","node":"client","data":{"unix_ms":1795722172842.827}}"#
            .to_owned(),
    ];
    let events = folder.join("demo/runs/sctp.scheme=multipath/seed-1/events.jsonl");
    let text = fs::read_to_string(events).expect("events");
    for line in text.lines() {
        let mut event: serde_json::Value = serde_json::from_str(line).expect("an event");
        let name = event["name"].as_str().unwrap_or_default().to_owned();
        let is_kept = ["transport:tsn_", "recovery:", "connectivity:"]
            .iter()
            .any(|part| name.starts_with(part));
        if is_kept && event["node"] == "phone" {
            event["node"] = "client".into();
            event["flow"] = "0".into();
            lines.push(event.to_string());
        }
    }
    for (path, remote) in [(0, "192.0.2.1:9899"), (1, "198.51.100.1:9899")] {
        lines.push(format!(
            r#"{{"time":9,"name":"connectivity:path_assigned","flow":"0","node":"client","data":{{"path":{path},"local":"10.0.0.1:5","remote":"{remote}"}}}}"#
        ));
    }
    let live = folder.join("live");
    fs::create_dir(&live).expect("a folder");
    fs::write(live.join("events.jsonl"), lines.join("\n")).expect("writable");
    let output = whimbrel(folder, &["report", "live", "--quiet"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    live.join("report.html")
}

#[test]
fn events_that_are_no_recording_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for text in [
        "",
        "nonsense\n",
        "{\"time\":1,\"name\":\"transport:tsn_sent\",\"flow\":\"f\",\"node\":\"a\",\"data\":{}}\n",
    ] {
        fs::write(folder.path().join("events.jsonl"), text).expect("writable");
        for command in ["report", "plot"] {
            let output = whimbrel(folder.path(), &[command, "."]);
            assert_eq!(code(&output), 2);
            assert!(stderr(&output).contains("recording:started"), "{}", stderr(&output));
        }
    }
}

#[test]
fn a_hostile_recording_breaks_neither_the_report_nor_the_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let inner = folder.path().join("a");
    fs::create_dir(&inner).expect("a folder");
    let line = |time: &str, name: &str, data: &str| {
        format!(r#"{{"time":{time},"name":"{name}","flow":"../../../x","node":"n","data":{{{data}}}}}"#)
    };
    let mut text = [
        line("1e300", "recording:started", r#""unix_ms":1e300"#),
        line(
            "1e300",
            "transport:tsn_sent",
            r#""tsn":1,"path":4000000000,"length":4000000000"#,
        ),
        line("-1e300", "transport:tsn_sent", r#""tsn":2,"path":1,"length":100"#),
        line("2e300", "transport:tsn_acked", r#""tsn":1,"path":4000000000"#),
        line(
            "5",
            "recovery:tsn_lost",
            r#""tsn":2,"path":1,"trigger":"missing_reports""#,
        ),
        line(
            "6",
            "recovery:metrics_updated",
            r#""path":1,"congestion_window":-1e308,"ssthresh":1e308"#,
        ),
    ]
    .join("\n")
    .into_bytes();
    text.extend_from_slice(b"\n\xff\xfe\n{\"time\":7");
    fs::write(inner.join("events.jsonl"), text).expect("writable");
    for command in ["report", "plot"] {
        let output = whimbrel(folder.path(), &[command, "a"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    let asked = whimbrel(folder.path(), &["plot", "a", "--metric", "goodput_mbps"]);
    assert_eq!(code(&asked), 2);
    assert!(stderr(&asked).contains("leave out --metric"), "{}", stderr(&asked));
    let outside: Vec<_> = fs::read_dir(folder.path())
        .expect("readable")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(outside, ["a"], "nothing is written elsewhere");
    assert!(inner.join("plots/a/tsn-association_.._.._.._x_of_n.svg").is_file());
}

/// The page has no figures for each of more than 64 flows, but all of them together have a fairness.
#[test]
fn more_flows_than_the_page_names_have_a_plot_of_their_fairness() {
    let flows: String = (0..65)
        .map(|number| format!("{{ name = \"f{number}\", from = \"a\", to = \"b\" }},"))
        .collect();
    let scenario = format!(
        "duration = \"1 s\"\nseeds = 2\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}]\nflow = [{flows}]\n\
         [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"1 ms\"\n\
         [sweep]\n\"link.a-b.rate\" = [\"5 Mbit/s\", \"10 Mbit/s\"]\n"
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    reported(folder.path(), "many", &scenario);
    let output = whimbrel(folder.path(), &["plot", "many"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(folder.path().join("many/plots/jain_index.svg").is_file());
}

#[test]
fn plots_are_written_without_a_browser_and_escape_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    reported(folder.path(), "sweep", SWEEP);
    let output = whimbrel(folder.path(), &["plot", "sweep", "--pdf"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let plots = folder.path().join("sweep/plots");
    let svg = fs::read_to_string(plots.join("goodput_mbps.svg")).expect("a figure");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert!(!svg.contains("<img"), "a title became part of the figure");
    for words in [
        "jsctp",
        "standard",
        "link.radio.loss.rate",
        "goodput, Mbit/s",
        "fill-opacity",
    ] {
        assert!(svg.contains(words), "{words}");
    }
    let pdf = fs::read(plots.join("goodput_mbps.pdf")).expect("a figure");
    assert!(pdf.starts_with(b"%PDF-") && pdf.ends_with(b"%%EOF"));
    assert!(plots.join("jain_index.svg").is_file(), "there are two flows");
    let run = plots.join("loss.rate=0.05,sctp.scheme=jsctp/seed-1");
    for name in ["cwnd.svg", "rtt.svg", "queue.svg", "goodput.svg", "tsn-two.svg"] {
        assert!(run.join(name).is_file(), "{name}");
    }
    assert!(!run.join("paths-two.svg").exists(), "its flow has a single path");
    let tsns = fs::read_to_string(run.join("tsn-two.svg")).expect("a figure");
    assert!(
        tsns.contains("lost by transmission"),
        "losses are marked by their cause"
    );
    let again = whimbrel(
        folder.path(),
        &["run", "sweep.toml", "--out", "sweep", "--replace", "--quiet"],
    );
    assert_eq!(
        code(&again),
        0,
        "figures are replaced with their results: {}",
        stderr(&again)
    );
    let one = whimbrel(
        folder.path(),
        &[
            "plot", "sweep", "--metric", "timeouts", "--over", "scheme", "--out", "one",
        ],
    );
    assert_eq!(stderr(&one), "1 figure in one\n");
    let wrong = whimbrel(folder.path(), &["plot", "sweep", "--metric", "godput_mbps"]);
    assert_eq!(code(&wrong), 2);
    assert!(stderr(&wrong).contains("goodput_mbps"), "{}", stderr(&wrong));
}
