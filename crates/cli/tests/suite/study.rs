//! The studies as a process: list, run, JSON, files, errors; and every study of the project.

use std::fs;

use crate::support::{code, one_link, root, stderr, stdout, whimbrel};

fn scenario_text() -> String {
    one_link(
        r#"
duration = "20 s"
seeds = 3
"#,
        r#"rate = "1 Mbit/s"
delay = "10 ms"
loss = { kind = "bernoulli", rate = 0 }
"#,
        r#"[[flow]]
name = "bulk"
from = "a"
to = "b"
"#,
    )
}

const STUDY: &str = r#"
title = "Loss and goodput"
source = "Everybody 1999, section 1"
chosen = ["a link of 1 Mbit/s"]

[quick]
seeds = 2

[[scenario]]
name = "loss"

[[scenario.axis]]
name = "loss"
fields = ["link.radio.loss.rate"]
values = [0, 0.05, 0.2]
quick = [0, 0.2]

[[claim]]
id = "falls"
claim = "goodput falls with loss"
paper = "falls"
check = { kind = "trend", of = { metric = "goodput_mbps" }, over = "loss", direction = "falling" }

[[claim]]
id = "full"
claim = "without loss the link is full"
paper = 1.0
note = "headers take their share"
check = { kind = "near", of = { flow = "bulk", metric = "goodput_mbps", at = { loss = 0 } }, value = 1.0, within = 0.01, within_partly = 0.1 }

[[claim]]
id = "immune"
claim = "goodput hardly depends on loss"
paper = "flat"
check = { kind = "flat", of = { metric = "goodput_mbps" }, over = "loss", within = 0.05 }

[[figure]]
id = "figure-1"
title = "Figure 1: goodput over loss"
of = { metric = "goodput_mbps" }
paper = [{ at = { loss = 0 }, value = 1.0 }]
"#;

/// Returns a folder with a small study.
fn small() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir_all(folder.path().join("studies/loss")).expect("writable");
    fs::write(folder.path().join("studies/loss/scenario.toml"), scenario_text()).expect("writable");
    fs::write(folder.path().join("studies/loss/study.toml"), STUDY).expect("writable");
    folder
}

#[test]
fn lists_studies_from_here_from_a_folder_and_from_the_program() {
    let folder = small();
    insta::assert_snapshot!(
        stdout(&whimbrel(folder.path(), &["study", "list"])),
        @"loss  Loss and goodput; Everybody 1999, section 1; 3 claims"
    );
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let there = folder.path().join("studies");
    let there = there.to_string_lossy();
    let output = whimbrel(elsewhere.path(), &["study", "list", "--studies", &there]);
    assert!(stdout(&output).starts_with("loss  "), "{}", stderr(&output));
    let output = whimbrel(elsewhere.path(), &["study", "list"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("ye-cwr "), "{}", stdout(&output));
}

#[test]
fn a_study_prints_its_verdicts() {
    let folder = small();
    let output = whimbrel(
        folder.path(),
        &["study", "run", "loss", "--quick", "--quiet", "--out", "out"],
    );
    assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
    let text = stdout(&output);
    assert!(
        text.starts_with("loss: Loss and goodput (Everybody 1999, section 1)\n"),
        "{text}"
    );
    for expected in [
        "reproduced      falls",
        "direction only  full",
        "not             immune",
        "(deterministic)",
        "note   headers take their share",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    for file in ["study.json", "loss/results.csv", "loss/manifest.json"] {
        assert!(folder.path().join("out/loss").join(file).is_file(), "{file}");
    }
    // Two seeds at two points.
    let csv = fs::read_to_string(folder.path().join("out/loss/loss/results.csv")).expect("there");
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let again = whimbrel(folder.path(), &["rerun", "out/loss/loss"]);
    assert_eq!(code(&again), 2);
    insta::assert_snapshot!(stderr(&again), @r"
    error: these are results of a study
      hint: whimbrel study run loss --quick --out DIR repeats them
    ");
    let full = whimbrel(folder.path(), &["study", "run", "loss", "--quiet", "--out", "out"]);
    assert_eq!(code(&full), 2, "results are not overwritten unasked");
}

#[test]
fn json_is_a_study_or_an_array_of_studies() {
    let folder = small();
    let json = |args: &[&str]| -> serde_json::Value {
        let output = whimbrel(folder.path(), args);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let one = json(&["study", "run", "loss", "--quick", "--json"]);
    assert_eq!(one["study"], "loss");
    let full = &one["claims"][1];
    let keys: Vec<_> = full
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(keys, ["ci95", "claim", "id", "measured", "note", "paper", "verdict"]);
    assert_eq!(
        (&full["id"], &full["verdict"], &full["paper"]),
        (&"full".into(), &"direction only".into(), &1.0.into())
    );
    assert!(
        full["measured"]
            .as_f64()
            .is_some_and(|goodput| (0.9..0.99).contains(&goodput)),
        "{full}"
    );
    assert!(full["ci95"].is_number());
    assert!(one["claims"][0]["measured"].is_string());
    let all = json(&["study", "run", "--all", "--quick", "--json", "--jobs", "1"]);
    assert_eq!(all, serde_json::json!([one]), "the number of jobs does not matter");
}

#[test]
fn kept_results_make_the_summary() {
    let folder = small();
    let kept = whimbrel(folder.path(), &["study", "run", "loss", "--quiet", "--keep"]);
    assert_eq!(code(&kept), 0, "{}", stderr(&kept));
    let summary = stdout(&whimbrel(folder.path(), &["study", "results"]));
    assert!(summary.contains("\n## Claims of papers\n"), "{summary}");
    assert!(
        summary.contains("\n| Everybody 1999 | 1 | 0 | 1 | 1 | 0 | 0 |\n"),
        "{summary}"
    );
    assert!(summary.contains("| [Loss and goodput](loss/README.md) | "), "{summary}");
    let pages = whimbrel(folder.path(), &["study", "results", "--out", "pages"]);
    assert_eq!(code(&pages), 0, "{}", stderr(&pages));
    let read = |name: &str| fs::read_to_string(folder.path().join("pages").join(name)).expect(name);
    assert_eq!(read("RESULTS.md"), summary);
    let page = read("loss/README.md");
    assert!(page.contains("`whimbrel study run loss`"), "{page}");
    assert!(page.contains("| goodput falls with loss | falls | "), "{page}");
    assert!(page.contains("![falls](falls.svg)"), "{page}");
    assert_eq!(
        read("loss/falls.svg").matches("r=\"3\"").count(),
        3,
        "a mark for each point"
    );
    assert!(
        page.contains("\n## Figures of the paper\n\n![figure-1](figure-1.svg)\n"),
        "{page}"
    );
    assert!(read("loss/figure-1.svg").contains("hollow squares: the paper"));
    let outcomes = || -> serde_json::Value {
        let output = whimbrel(folder.path(), &["study", "results", "--json"]);
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let full = |outcomes: &serde_json::Value| outcomes[0]["claims"][1]["verdict"].clone();
    assert_eq!(full(&outcomes()), "direction only");
    // A check that was changed since is applied to the figures that were kept: the claim that was right in direction only holds now.
    let path = folder.path().join("studies/loss/study.toml");
    let wider = STUDY.replacen("within = 0.01,", "within = 0.1,", 1);
    assert_ne!(wider, STUDY);
    fs::write(&path, &wider).expect("writable");
    let row = |summary: &str| summary.lines().find(|line| line.starts_with("| [")).map(str::to_owned);
    let now = stdout(&whimbrel(folder.path(), &["study", "results"]));
    assert_ne!(row(&now), row(&summary), "{now}");
    assert_eq!(full(&outcomes()), "reproduced");
    assert_eq!(outcomes()[0]["claims"][1]["claim"], "without loss the link is full");
    // The figures of another point say nothing about it.
    fs::write(
        &path,
        wider.replacen("at = { loss = 0 } }, value", "at = { loss = 0.2 } }, value", 1),
    )
    .expect("writable");
    assert!(full(&outcomes()).is_null());
    whimbrel(folder.path(), &["study", "results", "--out", "pages"]);
    let row = "| without loss the link is full | 1.0 | 1 ± 10 % (direction: ± 10 %) |  | not run yet | headers take their share |";
    assert!(read("loss/README.md").contains(row), "{}", read("loss/README.md"));
    fs::write(&path, &wider).expect("writable");
    assert_eq!(
        code(&whimbrel(folder.path(), &["study", "run", "loss", "--quick", "--keep"])),
        2
    );
}

#[test]
fn resume_skips_studies_with_kept_results() {
    let folder = small();
    let kept = || {
        let output = whimbrel(
            folder.path(),
            &["study", "run", "loss", "--quiet", "--keep", "--resume"],
        );
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        stderr(&output) == "loss: kept\n"
    };
    let study = folder.path().join("studies/loss");
    assert!(!kept(), "nothing was");
    assert!(kept());
    // A result cut short, or one that is older than its study, is made again.
    let results = fs::read(study.join("results.json")).expect("kept");
    fs::write(study.join("results.json"), &results[..100]).expect("writable");
    assert!(!kept());
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(study.join("study.toml"), STUDY).expect("writable");
    assert!(!kept());
    assert!(kept());
}

#[test]
fn errors_of_a_study_have_their_line() {
    let folder = small();
    let with = |from: &str, to: &str| {
        assert!(STUDY.contains(from), "{from}");
        fs::write(
            folder.path().join("studies/loss/study.toml"),
            STUDY.replacen(from, to, 1),
        )
        .expect("writable");
        let output = whimbrel(folder.path(), &["study", "run", "loss"]);
        assert_eq!((code(&output), stdout(&output).as_str()), (2, ""));
        stderr(&output)
    };
    insta::assert_snapshot!(with("title", "titel"), @r"
    error: studies/loss/study.toml:2:1: unknown key `titel`
      hint: did you mean `title`?
    ");
    insta::assert_snapshot!(with("link.radio.loss.rate", "link.radoi.loss.rate"), @r"
    error: studies/loss/study.toml:15:11: link.radoi.loss.rate: there is no `radoi` in `link`
      hint: did you mean `radio`?
    ");
    insta::assert_snapshot!(with("0.05, 0.2]", "0.05, 2]\n"), @r"
    error: studies/loss/study.toml:15:20: link.radio.loss.rate: 2 given, allowed is a probability from 0 to 1
      hint: 2 % is written 0.02
    ");
    insta::assert_snapshot!(with("quick = [0, 0.2]", "quick = [0, 0.3]"), @r"
    error: studies/loss/study.toml:16:13: scenario.loss.axis.loss.quick[1]: 0.3 given, allowed are the values of the axis
    ");
    insta::assert_snapshot!(with("goodput_mbps", "godput_mbps"), @r"
    error: studies/loss/study.toml:22:43: claim.falls.check.of.metric: there is no metric `godput_mbps` here
      hint: did you mean `goodput_mbps`?
    ");
    insta::assert_snapshot!(with("kind = \"trend\"", "kind = \"trent\""), @r"
    error: studies/loss/study.toml:22:18: claim[0].check.kind: unknown word `trent`
      hint: did you mean `trend`?
    ");
    insta::assert_snapshot!(with("paper = 1.0\n", "paper = 1.0\nfor_some = \"loss\"\n"), @r"
    error: studies/loss/study.toml:28:12: claim[1].for_some: a paper's claim has one reading, and so have all claims of a study: state it in `at`
    ");
    insta::assert_snapshot!(with("id = \"full\"", "id = \"falls\""), @r"
    error: studies/loss/study.toml:25:6: claim[1].id: `falls` is there twice
    ");
    let figure = |id: &str, metric: &str| {
        format!(
            "[[figure]]\nid = \"{id}\"\ntitle = \"Figure 1\"\nof = {{ metric = \"{metric}\" }}\n\n[[claim]]\nid = \"full\""
        )
    };
    insta::assert_snapshot!(with("[[claim]]\nid = \"full\"", &figure("falls", "goodput_mbps")), @r"
    error: studies/loss/study.toml:25:6: figure[0].id: `falls` is a claim's, and a plot has the name of either
    ");
    insta::assert_snapshot!(with("[[claim]]\nid = \"full\"", &figure("figure-2", "godput_mbps")), @r"
    error: studies/loss/study.toml:27:17: figure.figure-2.of.metric: there is no metric `godput_mbps` here
      hint: did you mean `goodput_mbps`?
    ");
    let output = whimbrel(folder.path(), &["study", "run", "lost"]);
    insta::assert_snapshot!(stderr(&output), @r"
    error: there is no study `lost`
      hint: did you mean `loss`?
    ");
    assert_eq!(code(&whimbrel(folder.path(), &["study", "run"])), 2, "which ones?");
}

#[test]
fn every_study_of_the_project_is_valid() {
    let studies = root().join("studies");
    let output = whimbrel(&root(), &["study", "list"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let listed = stdout(&output).lines().count();
    let mut folders = 0;
    for entry in fs::read_dir(studies).expect("the studies") {
        let folder = entry.expect("an entry").path();
        if !folder.is_dir() {
            continue;
        }
        folders += 1;
        let mut scenarios = 0;
        for entry in fs::read_dir(&folder).expect("a study") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .expect("a name");
            if name.ends_with(".toml") && name != "study.toml" {
                let output = whimbrel(&root(), &["check", &path.to_string_lossy()]);
                assert_eq!(code(&output), 0, "{}: {}", path.display(), stderr(&output));
                scenarios += 1;
            }
        }
        assert!(scenarios > 0, "{}", folder.display());
    }
    assert_eq!(listed, folders);
}

/// The study with wrong implementations: one that loses nothing at all, and one that changes nothing.
fn with_wrong(claims: &str) -> String {
    let wrong = format!(
        r#"
[[wrong]]
name = "no-loss"
claims = [{claims}]
set = {{ "link.radio.loss.rate" = 0 }}

[[wrong]]
name = "slower-there"
claims = ["falls"]
at = {{ loss = 0.2 }}
set = {{ "link.radio.rate" = "900 kbit/s" }}
"#
    );
    STUDY.to_owned() + &wrong
}

#[test]
fn wrong_implementations_must_not_fulfil_claims() {
    let folder = small();
    let path = folder.path().join("studies/loss/study.toml");
    fs::write(&path, with_wrong("\"falls\", \"full\"")).expect("writable");
    let kept = whimbrel(folder.path(), &["study", "run", "loss", "--quiet", "--keep"]);
    assert_eq!(code(&kept), 0, "{}", stderr(&kept));
    let page = || {
        let output = whimbrel(folder.path(), &["study", "results", "--out", "pages"]);
        let page = fs::read_to_string(folder.path().join("pages/loss/README.md")).unwrap_or_default();
        (code(&output), page, stderr(&output))
    };
    let (done, before, _) = page();
    assert_eq!(done, 0);
    assert!(before.contains("| no-loss | falls | not run yet |"), "{before}");
    let output = whimbrel(folder.path(), &["study", "falsify", "loss", "--keep", "--quiet"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.starts_with("loss: 3 outcomes with a wrong implementation, 1 of them hold nevertheless\n"),
        "{text}"
    );
    let line = |start: &str| {
        text.lines()
            .find(|line| line.trim().starts_with(start))
            .map(str::to_owned)
    };
    assert!(line("fails  no-loss       falls").is_some(), "{text}");
    assert!(line("fails  no-loss       full").is_some(), "direction only: {text}");
    assert!(line("HOLDS  slower-there  falls").is_some(), "{text}");
    // The page refuses a claim that cannot fail and does not say so.
    let (refused, _, why) = page();
    assert_eq!(refused, 2, "{why}");
    assert!(
        why.contains("loss: claim falls: it holds with `slower-there` too"),
        "{why}"
    );
    let marked = with_wrong("\"falls\", \"full\"").replacen(
        "paper = \"falls\"\n",
        "paper = \"falls\"\nno_test = \"the rate is another matter\"\n",
        1,
    );
    fs::write(&path, &marked).expect("writable");
    let (done, now, why) = page();
    assert_eq!(done, 0, "{why}");
    assert!(
        now.contains("| slower-there | falls | reproduced: no test of the mechanism, the rate is another matter |"),
        "{now}"
    );
    let summary = fs::read_to_string(folder.path().join("pages/RESULTS.md")).expect("written");
    assert!(
        summary.contains("3 pairs of claim and wrong implementation, 1 of which pass."),
        "{summary}"
    );
    // Outcomes of another check, or with another implementation, say nothing.
    fs::write(&path, marked.replacen("900 kbit/s", "800 kbit/s", 1)).expect("writable");
    let (_, changed, _) = page();
    assert!(changed.contains("| slower-there | falls | not run yet |"), "{changed}");
    assert!(changed.contains("| no-loss | falls | not |"), "{changed}");
}

#[test]
fn wrong_implementations_are_checked_before_anything_runs() {
    for (change, expected) in [
        (with_wrong("\"fall\""), "there is no claim `fall`"),
        (with_wrong(""), "it needs one claim or more"),
        (
            with_wrong("\"falls\"").replacen("loss = 0.2 }", "loss = 0.3 }", 1),
            "it replaces nothing at the points of its claims",
        ),
        (
            with_wrong("\"falls\"").replacen("link.radio.rate\" = ", "link.radoi.rate\" = ", 1),
            "there is no `radoi` in `link`",
        ),
        (
            with_wrong("\"falls\"").replacen("slower-there", "no-loss", 1),
            "`no-loss` is there twice",
        ),
    ] {
        let folder = small();
        fs::write(folder.path().join("studies/loss/study.toml"), &change).expect("writable");
        let output = whimbrel(folder.path(), &["study", "falsify", "loss"]);
        assert_eq!(code(&output), 2, "{expected}");
        let text = stderr(&output);
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("wrong[") || text.contains("study.toml:"), "{text}");
    }
    let folder = small();
    let output = whimbrel(folder.path(), &["study", "falsify", "loss"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("has no wrong implementations"),
        "{}",
        stderr(&output)
    );
}
