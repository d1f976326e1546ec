//! Short forms of tables: a number, a time or a name in place of a table with its kind.

use std::path::Path;

use whimbrel_scenario::{Resolved, Scenario, hash};

const NODES: &str = "duration = \"2 s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n";

/// Returns a scenario with these fields of its link; the first of them is in line 14.
fn text(fields: &str) -> String {
    format!("{NODES}[[link]]\nname = \"x\"\nbetween = [\"a\", \"b\"]\nrate = \"5 Mbit/s\"\n{fields}\n")
}

fn read(fields: &str, changes: &[&str]) -> Result<Scenario, String> {
    let changes: Vec<_> = changes.iter().map(|&change| change.to_owned()).collect();
    Scenario::from_text(Path::new("s.toml"), &text(fields), &changes).map_err(|error| error.to_string())
}

fn valid(fields: &str, changes: &[&str]) -> Scenario {
    read(fields, changes).unwrap_or_else(|error| panic!("{fields}, {changes:?}: {error}"))
}

fn error(fields: &str) -> String {
    read(fields, &[])
        .err()
        .unwrap_or_else(|| panic!("{fields} is accepted"))
}

/// Fields of a link in their short and in their long form.
const FORMS: &[(&str, &str)] = &[
    ("loss = 0.01", "loss = { kind = \"bernoulli\", rate = 0.01 }"),
    ("loss = 0", "loss = { kind = \"bernoulli\", rate = 0 }"),
    ("loss = 1", "loss = [{ kind = \"bernoulli\", rate = 1.0 }]"),
    (
        "loss = [0.01, { kind = \"periodic\", every = 9 }]",
        "loss = [{ kind = \"bernoulli\", rate = 0.01 }, { kind = \"periodic\", every = 9 }]",
    ),
    (
        "loss = { kind = \"chunk-type\", chunks = [\"sack\"], model = 0.1 }",
        "loss = { kind = \"chunk-type\", chunks = [\"sack\"], model = { kind = \"bernoulli\", rate = 0.1 } }",
    ),
    ("jitter = \"2 ms\"", "jitter = { kind = \"uniform\", max = \"2 ms\" }"),
    ("queue = \"codel\"", "queue = { kind = \"codel\" }"),
    ("queue = \"fq-codel\"", "queue = { kind = \"fq-codel\" }"),
    ("queue = \"dual-pi2\"", "queue = { kind = \"dual-pi2\" }"),
    (
        "queue = \"drop-tail\"",
        "queue = { kind = \"drop-tail\", packets = 100 }",
    ),
    ("queue = \"drop-tail\"", "queue = { kind = \"drop-tail\" }"),
    ("queue = \"drop-tail\"", ""),
    (
        "queue = \"step\"",
        "queue = { kind = \"step\", packets = 100, threshold = \"1 ms\" }",
    ),
    ("queue = \"step\"", "queue = { kind = \"step\" }"),
    (
        "forward = { loss = 0.02, jitter = \"1 ms\", queue = \"codel\" }",
        "forward = { loss = { kind = \"bernoulli\", rate = 0.02 }, jitter = { kind = \"uniform\", max = \"1 ms\" }, queue = { kind = \"codel\" } }",
    ),
    (
        "schedule = [{ at = \"1 s\", loss = 0.5, reverse = { loss = 0.1 } }]",
        "schedule = [{ at = \"1 s\", loss = { kind = \"bernoulli\", rate = 0.5 }, reverse = { loss = { kind = \"bernoulli\", rate = 0.1 } } }]",
    ),
];

#[test]
fn both_forms_are_the_same_scenario() {
    for (short, long) in FORMS {
        let (short, long) = (valid(short, &[]), valid(long, &[]));
        assert_eq!(short.points[0].config, long.points[0].config);
        assert_eq!(hash(&short), hash(&long));
        assert_ne!(hash(&short), hash(&valid("loss = 0.3", &[])));
    }
}

#[test]
fn the_resolved_scenario_is_the_same() {
    for (short, _) in FORMS {
        let scenario = valid(short, &[]);
        let resolved = Resolved::of(&scenario).expect("a point").to_toml(&scenario);
        let again = Scenario::from_text(Path::new("s.toml"), &resolved, &[]).expect("it can be read");
        assert_eq!(
            again.points[0].config.link, scenario.points[0].config.link,
            "{resolved}"
        );
        assert_eq!(hash(&again), hash(&scenario), "{resolved}");
    }
}

#[test]
fn changes_on_the_command_line_take_short_forms_and_lead_into_them() {
    let long = "loss = { kind = \"bernoulli\", rate = 0.5 }";
    for (fields, change, same) in [
        (long, "link.x.loss=0.01", "loss = 0.01"),
        ("", "link.x.loss=0.01", "loss = 0.01"),
        ("", "link.x.jitter=2 ms", "jitter = \"2 ms\""),
        ("", "link.x.queue=codel", "queue = \"codel\""),
        ("loss = 0.5", "link.x.loss.rate=0.01", "loss = 0.01"),
        (
            "loss = [{ kind = \"periodic\", every = 9 }, 0.5]",
            "link.x.loss.1.rate=0.1",
            "loss = [{ kind = \"periodic\", every = 9 }, 0.1]",
        ),
        ("jitter = \"2 ms\"", "link.x.jitter.max=7 ms", "jitter = \"7 ms\""),
        (
            "jitter = \"2 ms\"",
            "link.x.jitter.reorder=true",
            "jitter = { kind = \"uniform\", max = \"2 ms\", reorder = true }",
        ),
        (
            "queue = \"codel\"",
            "link.x.queue.target=1 ms",
            "queue = { kind = \"codel\", target = \"1 ms\" }",
        ),
        (
            "queue = \"drop-tail\"",
            "link.x.queue.bytes=9000",
            "queue = { kind = \"drop-tail\", bytes = 9000 }",
        ),
        (
            "forward = { loss = 0.5 }",
            "link.x.forward.loss.rate=0.1",
            "forward = { loss = 0.1 }",
        ),
    ] {
        let (changed, same) = (valid(fields, &[change]), valid(same, &[]));
        assert_eq!(
            changed.points[0].config, same.points[0].config,
            "{fields} with {change}"
        );
    }
    let part = "[flow.sctp]\nwindow = \"cubic\"";
    let scenario = Scenario::from_text(
        Path::new("s.toml"),
        &text("").replace("to = \"b\"\n", &format!("to = \"b\"\n{part}\n")),
        &["flow.f.sctp.window.beta=0.5".to_owned()],
    );
    assert!(scenario.is_ok(), "{scenario:?}");
}

#[test]
fn a_sweep_takes_short_forms() {
    let swept = |fields: &str, axis: &str| valid(&format!("{fields}\n[sweep]\n{axis}"), &[]);
    let single = |fields: &str| valid(fields, &[]).points[0].config.clone();
    for fields in ["", "loss = 0.5", "loss = { kind = \"bernoulli\", rate = 0.5 }"] {
        let scenario = swept(fields, "\"link.x.loss\" = [0, 0.01, 0.02]");
        let losses: Vec<_> = scenario.points.iter().map(|point| point.config.clone()).collect();
        assert_eq!(losses, ["loss = 0", "loss = 0.01", "loss = 0.02"].map(single));
        assert_eq!(scenario.points[1].params[0].1, 0.01);
        assert_eq!(scenario.warnings(), Vec::<String>::new(), "{fields}");
    }
    // The length of the bursts would be lost at each point.
    let bursts = swept(
        "loss = { kind = \"bursts\", rate = 0.01, packets = 4 }",
        "\"link.x.loss\" = [0, 0.01]",
    );
    assert!(
        bursts.warnings()[0].contains("in which packets is set"),
        "{:?}",
        bursts.warnings()
    );
    let into = swept("queue = \"codel\"", "\"link.x.queue.target\" = [\"1 ms\", \"5 ms\"]");
    assert_eq!(into.points[1].config, single("queue = \"codel\""));
    let base_line = swept(
        "loss = { kind = \"bursts\", rate = 0.01, packets = 4 }",
        "\"link.x.loss.rate\" = [0, 0.01]",
    );
    assert_eq!(base_line.points.len(), 2);
    let repeated = "[sweep]\n\"link.x.queue\" = [\"codel\", { kind = \"codel\" }]";
    assert!(
        error(repeated).contains("is listed more than once"),
        "{}",
        error(repeated)
    );
}

#[test]
fn a_list_of_rates_causes_a_warning() {
    let warnings = valid("loss = [0, 0.01, 0.02]", &[]).warnings();
    insta::assert_snapshot!(warnings.join("\n"), @r#"
    link.x.loss: each packet passes 3 independent random losses, one after the other
      hint: a sweep over rates is written "link.x.loss" = [0, 0.01] in [sweep]
    "#);
    assert_eq!(
        valid("loss = [0.01, { kind = \"periodic\", every = 9 }]", &[]).warnings(),
        Vec::<String>::new()
    );
}

/// Wrong fields, the place and field of the error, and what it says.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "loss = -0.1",
        "14:8: link.x.loss",
        "-0.1 given, allowed is a probability from 0 to 1",
    ),
    (
        "loss = 2",
        "14:8: link.x.loss",
        "2 given, allowed is a probability from 0 to 1\n  hint: 2 % is written 0.02",
    ),
    (
        "loss = nan",
        "14:8: link.x.loss",
        "NaN given, allowed is a probability from 0 to 1",
    ),
    (
        "loss = [0.01, 3]",
        "14:15: link.x.loss[1]",
        "3 given, allowed is a probability from 0 to 1\n  hint: 3 % is written 0.03",
    ),
    (
        "forward = { loss = 3 }",
        "14:20: link.x.forward.loss",
        "3 given, allowed is a probability from 0 to 1\n  hint: 3 % is written 0.03",
    ),
    (
        "duplicate = \"7%\"",
        "14:13: link.x.duplicate",
        "text \"7%\" given, a number expected\n  hint: 7 % is written 0.07",
    ),
    (
        "jitter = 2",
        "14:10: link.x.jitter",
        "2 lacks its unit: write a time span as a string with ns, us, ms, s, min, h, d, as in \"10 ms\"",
    ),
    (
        "jitter = \"2 h\"",
        "14:10: link.x.jitter",
        "\"2 h\" given, allowed is 0 s to 1 h",
    ),
    (
        "jitter = \"exponental\"",
        "14:10: link.x.jitter",
        "text \"exponental\" given, a time or a table expected\n  hint: such as { kind = \"exponential\", mean = \"2 ms\" }",
    ),
    (
        "queue = \"coddel\"",
        "14:9: link.x.queue",
        "unknown word `coddel`\n  hint: did you mean `codel`?",
    ),
    (
        "queue = \"fifo\"",
        "14:9: link.x.queue",
        "unknown word `fifo`\n  hint: did you mean `drop-tail`?",
    ),
    (
        "queue = \"red\"",
        "14:9: link.x.queue",
        "text \"red\" given, a table with its thresholds expected\n  hint: such as { kind = \"red\", packets = 100, min = 5, max = 15 }",
    ),
    (
        "queue = 50",
        "14:9: link.x.queue",
        "number 50 given, a name or a table expected\n  hint: such as { kind = \"drop-tail\", packets = 50 }",
    ),
    (
        "queue = [\"codel\"]",
        "14:9: link.x.queue",
        "an array given, a name or a table expected\n  hint: such as \"codel\"",
    ),
];

#[test]
fn a_wrong_short_form_has_one_error_with_its_remedy() {
    for (fields, place, said) in WRONG {
        assert_eq!(error(fields), format!("s.toml:{place}: {said}"));
    }
    // Texts and switches in place of a rate.
    for (value, hint) in [
        ("\"1 %\"", "1 % is written 0.01"),
        ("\"100%\"", "100 % is written 1"),
        ("\"-1 %\"", "such as 0.01 or { kind = \"bernoulli\", rate = 0.01 }"),
        ("\"0.01\"", "without quotes: 0.01"),
        ("\"bernoulli\"", "such as 0.01 or { kind = \"bernoulli\", rate = 0.01 }"),
        ("\"burst\"", "such as { kind = \"bursts\", rate = 0.01, packets = 4 }"),
        (
            "\"none; such as\"",
            "such as 0.01 or { kind = \"bernoulli\", rate = 0.01 }",
        ),
    ] {
        let text = value.trim_matches('"');
        let said =
            format!("text \"{text}\" given, a rate from 0 to 1, a table or a list of these expected\n  hint: {hint}");
        assert_eq!(
            error(&format!("loss = {value}")),
            format!("s.toml:14:8: link.x.loss: {said}")
        );
    }
    assert!(
        error("loss = true").contains("boolean true given, a rate from 0 to 1"),
        "{}",
        error("loss = true")
    );
}

/// Returns the example in a hint.
fn example(error: &str) -> Option<&str> {
    error.split_once("hint: such as ").map(|(_, example)| example)
}

#[test]
fn every_example_in_a_hint_is_valid() {
    let kinds = [
        (
            "loss",
            "bit-errors markov bursts gilbert-elliott time-between-errors periodic list chunk-type none",
        ),
        ("jitter", "uniform normal exponential none"),
        ("queue", "red congestion-warning"),
    ];
    for (field, kind) in kinds
        .iter()
        .flat_map(|(field, kinds)| kinds.split(' ').map(move |kind| (field, kind)))
    {
        let error = error(&format!("{field} = \"{kind}\""));
        let example = example(&error).unwrap_or_else(|| panic!("{error}"));
        let alternatives = example.split(" or ");
        for alternative in alternatives {
            valid(&format!("{field} = {alternative}"), &[]);
        }
        assert!(
            kind == "none" || example.contains(&format!("kind = \"{kind}\"")),
            "{error}"
        );
    }
}
