//! Errors name file, line, field, given value, allowed range and the nearest known word.

use std::path::Path;

use whimbrel_scenario::Scenario;

const GOOD: &str = r#"
[[node]]
name = "phone"

[[node]]
name = "server"

[[link]]
name = "wifi"
between = ["phone", "server"]
rate = "20 Mbit/s"
delay = "10 ms"
loss = { kind = "bernoulli", rate = 0.01 }

[[flow]]
name = "upload"
from = "phone"
to = "server"
"#;

fn errors(text: &str, changes: &[&str]) -> String {
    let changes: Vec<_> = changes.iter().map(|&change| change.to_owned()).collect();
    match Scenario::from_text(Path::new("bad.toml"), text, &changes) {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Returns the errors after a replacement of `from` by `to` in a valid scenario.
fn broken(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "the valid scenario has no {from}");
    errors(&GOOD.replacen(from, to, 1), &[])
}

#[test]
fn a_valid_scenario_has_no_errors() {
    assert_eq!(errors(GOOD, &[]), "no error");
}

#[test]
fn all_invalid_values_of_a_table_are_reported_together() {
    let text = GOOD
        .replace(
            "loss = { kind = \"bernoulli\", rate = 0.01 }",
            "mtu = 10\nduplicate = 3\nloss = { kind = \"bernoulli\", rate = 2 }",
        )
        .replace("rate = \"20 Mbit/s\"", "rate = \"0 bit/s\"")
        + "\n[flow.sctp]\nmtu = 100\nsack_frequency = 0\nrto_alpha = 7\nhb_max_burst = 0\n";
    insta::assert_snapshot!(errors(&text, &[]), @r#"
    bad.toml:11:8: link.wifi.rate: "0 bit/s" given, allowed is 1 bit/s to 1000000 Gbit/s
    bad.toml:13:7: link.wifi.mtu: 10 given, allowed is 68 to 65535 bytes
    bad.toml:14:13: link.wifi.duplicate: 3 given, allowed is a probability from 0 to 1
      hint: 3 % is written 0.03
    bad.toml:15:37: link.wifi.loss.rate: 2 given, allowed is a probability from 0 to 1
      hint: 2 % is written 0.02
    bad.toml:23:7: flow.upload.sctp.mtu: 100 given, allowed is 512 to 65535 bytes
    bad.toml:24:18: flow.upload.sctp.sack_frequency: 0 given, allowed is 1 to 255 packets
    bad.toml:25:13: flow.upload.sctp.rto_alpha: 7 given, allowed is a number above 0 and up to 1
    bad.toml:26:16: flow.upload.sctp.hb_max_burst: 0 given, allowed is 1 to 255 heartbeats
    "#);
}

#[test]
fn groups_report_a_problem_once() {
    let group = GOOD.replacen("name = \"phone\"", "name = \"n\"\ncount = 40", 1);
    insta::assert_snapshot!(errors(&group.replacen("count = 40", "cuont = 40", 1), &[]), @r#"
    bad.toml:4:1: node.n: unknown key `cuont`
      hint: did you mean `count`?
    "#);
    let placed = group.replacen("count = 40", "count = 40\nposition = \"here\"", 1);
    insta::assert_snapshot!(errors(&placed, &[]), @r#"bad.toml:5:12: node.n0.position: text "here" given, an array of length 2 expected"#);
    insta::assert_snapshot!(errors(&group, &["flow.upload.from=m*"]), @r#"
    --set flow.upload.from=m*: flow.upload.from: "m*" given, and no node has a name like this
      hint: known nodes: `n0`, `n1`, `n2`, `n3`, `n4`, `n5`, `n6`, `n7`, `n8`, `n9`, `n10`, `n11`
    "#);
}

/// Returns a group of `count` flows between nodes on one link.
fn flows(count: u32, more: &str) -> String {
    let flow = format!("name = \"upload\"\ncount = {count}\n{more}");
    GOOD.replacen("name = \"upload\"", &flow, 1)
}

#[test]
fn large_groups_with_a_mistake_are_reported_quickly() {
    // Each of these once took hours: all members, or all pairs of them, were checked again for each member.
    let late = flows(20_000, "start = \"1 s\"\nstagger = \"1 s\"\n");
    insta::assert_snapshot!(errors(&late, &["duration=20 s"]), @r#"bad.toml:18:9: flow.upload19.start: "20 s" given, allowed is before the end of the run, which is at 20 s"#);
    insta::assert_snapshot!(errors(&flows(20_000, "to_links = [\"x\"]\n"), &[]), @r#"
    bad.toml:18:13: flow.upload0.to_links[0]: "x" given, allowed is the name of a link
      hint: there are: wifi
    "#);
    insta::assert_snapshot!(errors(&flows(20_000, "start = true\n"), &[]), @r#"bad.toml:18:9: flow.upload0.start: boolean true given, a time span as a string with ns, us, ms, s, min, h, d, as in "10 ms" expected"#);
    insta::assert_snapshot!(errors(&flows(20_000, "traffic = { message_bytes = 7 }\n"), &[]), @"bad.toml:18:11: flow.upload0.traffic: `kind` is missing");
}

#[test]
fn arrays_report_a_single_mistake() {
    let placed = |position: &str| {
        broken(
            "name = \"server\"",
            &format!("name = \"server\"\nposition = {position}"),
        )
    };
    insta::assert_snapshot!(placed("[0, \"x\"]"), @r#"bad.toml:7:16: node.server.position[1]: text "x" given, a number expected"#);
    insta::assert_snapshot!(placed("[0]"), @"bad.toml:7:12: node.server.position: an array of length 1 given, an array of length 2 expected");
    // In a table whose kind is read first.
    let moves = |area: &str| {
        placed(&format!(
            "[0, 0]\nmobility = {{ kind = \"random-waypoint\", speed = [1, 2], area = {area} }}"
        ))
    };
    insta::assert_snapshot!(moves("[5, \"x\"]"), @r#"bad.toml:8:12: node.server.mobility: text "x" given, a number expected"#);
    insta::assert_snapshot!(moves("[5, 5, 5]"), @"bad.toml:8:63: node.server.mobility.area: an array of length 3 given, an array of length 2 expected");
    insta::assert_snapshot!(moves("[5, 1e300]"), @"bad.toml:8:67: node.server.mobility.area[1]: 1e300 given, allowed is 1 to 1e6 m");
}

#[test]
fn reports_the_allowed_words_for_another_value() {
    let radio = GOOD.replacen(
        "[[flow]]",
        "[[channel]]\nname = \"air\"\nphy = \"dsss-1\"\ninterference = \"sinr\"\nrouting = \"static\"\n[[flow]]",
        1,
    );
    let changed = |to: &str| errors(&radio, &[to]);
    insta::assert_snapshot!(changed("channel.air.interference=5"), @r#"
    --set channel.air.interference=5: channel.air.interference: number 5 given, a word expected
      hint: known words: `threshold`, `sinr`
    "#);
    insta::assert_snapshot!(changed("channel.air.interference={ kind = \"sinr\" }"), @r#"
    --set channel.air.interference={ kind = "sinr" }: channel.air.interference.kind: unknown word `kind`
      hint: did you mean `sinr`?
    "#);
    // Kinds without parameters accept none.
    insta::assert_snapshot!(changed("channel.air.routing={ kind = \"static\", hello = true }"), @r#"--set channel.air.routing={ kind = "static", hello = true }: channel.air.routing: unknown key `hello`"#);
    insta::assert_snapshot!(changed("channel.air.propagation={ kind = \"free-space\", fading = { kind = \"rayleigh\", m = 3 } }"), @r#"--set channel.air.propagation={ kind = "free-space", fading = { kind = "rayleigh", m = 3 } }: channel.air.propagation.fading: unknown key `m`"#);
    insta::assert_snapshot!(errors(&radio, &["node.phone.mobility={ kind = \"static\", speed = 1 }"]), @r#"--set node.phone.mobility={ kind = "static", speed = 1 }: node.phone.mobility: unknown key `speed`"#);
}

#[cfg(unix)]
#[test]
fn devices_are_not_accepted_as_files() {
    let endless = Scenario::load(Path::new("/dev/zero"), &[]).expect_err("not a scenario");
    insta::assert_snapshot!(endless, @"cannot read scenario /dev/zero: it is larger than 16 MiB");
    let moved = "name = \"server\"\nmobility = { kind = \"file\", file = \"/dev/zero\", node = 0 }";
    insta::assert_snapshot!(broken("name = \"server\"", moved), @r#"
    bad.toml:7:36: node.server.mobility.file: "/dev/zero" given, allowed is a file of movements that can be read
      hint: /dev/zero: it is not a regular file
    "#);
}

#[test]
fn unknown_keys() {
    insta::assert_snapshot!(broken("delay = ", "dealy = "), @r#"
    bad.toml:12:1: link.wifi: unknown key `dealy`
      hint: did you mean `delay`?
    "#);
    insta::assert_snapshot!(broken("[[node]]", "sedes = 3\n[[node]]"), @r#"
    bad.toml:2:1: unknown key `sedes`
      hint: did you mean `seed`?
    "#);
    insta::assert_snapshot!(broken("rate = 0.01", "rat = 0.01"), @r#"
    bad.toml:13:30: link.wifi.loss: unknown key `rat`
      hint: did you mean `rate`?
    "#);
    insta::assert_snapshot!(errors(&format!("{GOOD}[measure]\nfrm = \"1 s\"\n"), &[]), @r#"
    bad.toml:20:1: measure: unknown key `frm`
      hint: did you mean `from`?
    "#);
    insta::assert_snapshot!(broken("rate = \"20", "bandwidth = \"20"), @r#"
    bad.toml:11:1: link.wifi: unknown key `bandwidth`
      hint: did you mean `rate`?
    "#);
    insta::assert_snapshot!(broken("delay = ", "colour = "), @r#"
    bad.toml:12:1: link.wifi: unknown key `colour`
      hint: known keys: `name`, `between`, `rate`, `delay`, `mtu`, `queue`, `loss`, `jitter`, `duplicate`, `trace`, `schedule`, `cost`, `forward`, `reverse`
    "#);
    insta::assert_snapshot!(errors(&format!("{GOOD}[record]\nevent = \"all\"\n"), &[]), @r#"
    bad.toml:20:1: record: unknown key `event`
      hint: did you mean `events`?
    "#);
}

#[test]
fn wrong_types_and_units() {
    insta::assert_snapshot!(broken("\"10 ms\"", "10"), @r#"
    bad.toml:12:9: link.wifi.delay: 10 lacks its unit: write a time span as a string with ns, us, ms, s, min, h, d, as in "10 ms"
    "#);
    insta::assert_snapshot!(broken("\"10 ms\"", "\"10 parsecs\""), @r#"
    bad.toml:12:9: link.wifi.delay: "10 parsecs" has an unknown unit: a time span is written with ns, us, ms, s, min, h, d, as in "10 ms"
    "#);
    insta::assert_snapshot!(broken("rate = 0.01", "rate = \"one\""), @r#"
    bad.toml:13:37: link.wifi.loss.rate: text "one" given, a number expected
    "#);
    insta::assert_snapshot!(broken("[\"phone\", \"server\"]", "[\"phone\"]"), @"bad.toml:10:11: link.wifi.between: an array of length 1 given, an array of length 2 expected");
    insta::assert_snapshot!(broken("from = \"phone\"", "from = true"), @"bad.toml:17:8: flow.upload.from: boolean true given, text in quotes expected");
    insta::assert_snapshot!(broken("[[node]]", "seeds = \"many\"\n[[node]]"), @r#"
    bad.toml:2:9: seeds: text "many" given, a whole number from 0 to 4294967295 expected
    "#);
    insta::assert_snapshot!(broken("bernoulli", "bernouli"), @r#"
    bad.toml:13:17: link.wifi.loss.kind: unknown word `bernouli`
      hint: did you mean `bernoulli`?
    "#);
}

#[test]
fn missing_keys() {
    insta::assert_snapshot!(broken("to = \"server\"", ""), @"bad.toml:15:1: flow.upload: `to` is missing");
    insta::assert_snapshot!(broken("kind = \"bernoulli\", ", ""), @"bad.toml:13:8: link.wifi.loss: `kind` is missing");
    insta::assert_snapshot!(errors("", &[]), @"bad.toml:1:1: `node` is missing");
}

#[test]
fn impossible_values() {
    insta::assert_snapshot!(broken("rate = 0.01", "rate = 5"), @r#"
    bad.toml:13:37: link.wifi.loss.rate: 5 given, allowed is a probability from 0 to 1
      hint: 5 % is written 0.05
    "#);
    insta::assert_snapshot!(broken("\"20 Mbit/s\"", "\"0 bit/s\""), @r#"
    bad.toml:11:8: link.wifi.rate: "0 bit/s" given, allowed is 1 bit/s to 1000000 Gbit/s
    "#);
    insta::assert_snapshot!(broken("[[node]]", "seeds = 0\n[[node]]"), @"bad.toml:2:9: seeds: 0 given, allowed is 1 to 1000000 runs");
    insta::assert_snapshot!(errors(&format!("{GOOD}[flow.sctp]\nrto_min = \"0 s\"\n"), &[]), @r#"
    bad.toml:20:11: flow.upload.sctp.rto_min: "0 s" given, allowed is 1 ms to 60 s
    "#);
    insta::assert_snapshot!(errors(&format!("{GOOD}[flow.traffic]\nkind = \"cbr\"\n"), &[]), @r#"
    bad.toml:19:1: flow.upload.traffic.rate: nothing given, allowed is a rate above 0 bit/s
      hint: cbr traffic needs it
    "#);
}

#[test]
fn names_that_do_not_exist() {
    insta::assert_snapshot!(broken("[\"phone\", \"server\"]", "[\"phone\", \"sever\"]"), @r#"
    bad.toml:10:21: link.wifi.between[1]: "sever" given, allowed is the name of a node
      hint: did you mean "server"?
    "#);
    insta::assert_snapshot!(broken("to = \"server\"", "to = \"satellite\""), @r#"
    bad.toml:18:6: flow.upload.to: "satellite" given, allowed is the name of a node
      hint: there are: phone, server
    "#);
    insta::assert_snapshot!(broken("name = \"server\"", "name = \"phone\""), @r#"
    bad.toml:6:8: node.phone.name: "phone" given, allowed is a name of its own; node[0] has this one already
    "#);
}

#[test]
fn missing_files() {
    insta::assert_snapshot!(broken("rate = \"20 Mbit/s\"", "trace = { file = \"no/such.trace\" }"), @r#"
    bad.toml:11:18: link.wifi.trace.file: "no/such.trace" given, allowed is a trace file that can be read
      hint: no/such.trace: no such file
    "#);
}

#[test]
fn reports_several_problems_in_the_order_of_the_file() {
    let text = GOOD
        .replace("name = \"wifi\"", "name = \"wifi\"\nmtuu = 1500")
        .replace("\"10 ms\"", "\"ten\"")
        .replace("to = \"server\"", "too = \"server\"\nstart = 3");
    insta::assert_snapshot!(errors(&text, &[]), @r#"
    bad.toml:10:1: link.wifi: unknown key `mtuu`
      hint: did you mean `mtu`?
    bad.toml:13:9: link.wifi.delay: "ten" is not a time span: expected a number and a unit (ns, us, ms, s, min, h, d, as in "10 ms")
    bad.toml:19:1: flow.upload: unknown key `too`
      hint: did you mean `to`?
    bad.toml:20:9: flow.upload.start: 3 lacks its unit: write a time span as a string with ns, us, ms, s, min, h, d, as in "10 ms"
    "#);
}

#[test]
fn syntax() {
    insta::assert_snapshot!(broken("name = \"wifi\"", "name = wifi"), @"bad.toml:9:8: not valid TOML: string values must be quoted, expected literal string");
    insta::assert_snapshot!(broken("[[link]]", "[[link]"), @"bad.toml:8:8: not valid TOML: unclosed array table, expected `]`");
    insta::assert_snapshot!(broken("delay = \"10 ms\"", "delay = 1979-05-27"), @"bad.toml:12:9: `1979-05-27` is a date; scenarios have no dates");
}

#[test]
fn changes_and_sweeps() {
    assert_eq!(errors(GOOD, &["link.wifi.rate=2 Mbit/s", "seeds=3"]), "no error");
    insta::assert_snapshot!(errors(GOOD, &["link.wfi.rate=2 Mbit/s"]), @r#"
    --set link.wfi.rate=2 Mbit/s: link.wfi.rate: there is no `wfi` in `link`
      hint: did you mean `wifi`?
    "#);
    insta::assert_snapshot!(errors(GOOD, &["link.wifi.rat=2 Mbit/s"]), @r#"
    --set link.wifi.rat=2 Mbit/s: link.wifi: unknown key `rat`
      hint: did you mean `rate`?
    "#);
    insta::assert_snapshot!(errors(GOOD, &["link.wifi.loss.rate=2"]), @r#"
    --set link.wifi.loss.rate=2: link.wifi.loss.rate: 2 given, allowed is a probability from 0 to 1
      hint: 2 % is written 0.02
    "#);
    let sweep = |axes: &str| errors(&format!("{GOOD}[sweep]\n{axes}\n"), &[]);
    assert_eq!(sweep("\"link.wifi.loss.rate\" = [0, 0.01]"), "no error");
    // A value of `--set` applies to every point, and is checked there.
    let swept = format!("{GOOD}[sweep]\n\"link.wifi.loss.rate\" = [0, 0.01]\n");
    let set = |value: &str| Scenario::from_text(Path::new("a.toml"), &swept, &[format!("link.wifi.loss.rate={value}")]);
    let scenario = set("0.5").unwrap();
    assert_eq!((scenario.axes.len(), scenario.points.len()), (0, 1));
    let whole = ["link.wifi.loss={ kind = \"bernoulli\", rate = 0.25 }".to_owned()];
    let scenario = Scenario::from_text(Path::new("a.toml"), &swept, &whole).unwrap();
    assert_eq!(
        (scenario.axes.len(), scenario.points.len()),
        (0, 1),
        "--set replaced the table of the field"
    );
    assert!(set("7").unwrap_err().to_string().contains("7"));
    insta::assert_snapshot!(sweep("\"link.wifi.loss.rat\" = [0, 0.01]"), @r#"
    bad.toml:20:25: link.wifi.loss: unknown key `rat`
      hint: did you mean `rate`?
    "#);
    insta::assert_snapshot!(sweep("\"link.lte.rate\" = [\"1 Mbit/s\"]"), @r#"
    bad.toml:20:20: link.lte.rate: there is no `lte` in `link`
      hint: known names: `wifi`
    "#);
    insta::assert_snapshot!(sweep("\"link.wifi.loss.rate\" = [0, 2, 0.5, -1]"), @r#"
    bad.toml:20:29: link.wifi.loss.rate: 2 given, allowed is a probability from 0 to 1
      hint: 2 % is written 0.02
    bad.toml:20:37: link.wifi.loss.rate: -1 given, allowed is a probability from 0 to 1
    "#);
    insta::assert_snapshot!(sweep("\"link.wifi.loss.rate\" = 0.1"), @r#"
    bad.toml:20:25: sweep.link.wifi.loss.rate: an array of values expected
      hint: "link.wifi.loss.rate" = [0, 0.01]
    "#);
    insta::assert_snapshot!(sweep("seeds = [1, 2]"), @"bad.toml:20:10: sweep.seeds: `seeds` cannot be swept: it is the same for all points");
}

/// Returns the warnings about a scenario with this text, this sweep and these arguments of `--set`.
fn warnings(text: &str, sweep: &str, changes: &[&str]) -> Vec<String> {
    let text = format!("{GOOD}{text}\n[sweep]\n{sweep}\n");
    let changes: Vec<_> = changes.iter().map(|&change| change.to_owned()).collect();
    let scenario = Scenario::from_text(Path::new("good.toml"), &text, &changes).expect("it is valid");
    scenario.warnings()
}

#[test]
fn a_sweep_over_schemes_with_a_part_of_all_of_them_causes_a_warning() {
    let over_schemes = "\"flow.upload.sctp.scheme\" = [\"standard\", \"veno\"]";
    let window = "[flow.sctp]\nwindow = \"cubic\"\npacing = true";
    let [warning] = &warnings(window, over_schemes, &[])[..] else {
        panic!("one warning");
    };
    insta::assert_snapshot!(warning, @r#"
    sweep."flow.upload.sctp.scheme": the schemes have the same flow.upload.sctp.window in place of their own
      hint: without it, each scheme has its own part
    "#);
    // The same by --set.
    let set = "flow.upload.sctp.discriminator=\"oracle\"";
    let [warning] = &warnings(window, over_schemes, &[set])[..] else {
        panic!("one warning");
    };
    assert!(
        warning.contains("the same flow.upload.sctp.window and the same flow.upload.sctp.discriminator"),
        "{warning}"
    );
    let pacing = "[flow.sctp]\npacing = true";
    assert_eq!(warnings(pacing, over_schemes, &[]), Vec::<String>::new());
    let over_windows = "\"flow.upload.sctp.window\" = [\"standard\", \"cubic\"]";
    assert_eq!(warnings(pacing, over_windows, &[]), Vec::<String>::new());
}

#[test]
fn a_sweep_that_replaces_fields_of_a_table_causes_a_warning() {
    let table = "[flow.sctp]\nwindow = { kind = \"cubic\", beta = 0.8 }";
    let over_names = "\"flow.upload.sctp.window\" = [\"standard\", \"cubic\"]";
    let [warning] = &warnings(table, over_names, &[])[..] else {
        panic!("one warning");
    };
    assert!(
        warning.contains("flow.upload.sctp.window, in which beta is set"),
        "{warning}"
    );
    // The same by --set.
    let set = "flow.upload.sctp.window.beta=0.8";
    let window = "[flow.sctp]\nwindow = { kind = \"cubic\" }";
    assert_eq!(warnings(window, over_names, &[set]).len(), 1);
    assert_eq!(warnings(window, over_names, &[]), Vec::<String>::new());
    let over_tables =
        "\"flow.upload.sctp.window\" = [{ kind = \"cubic\", beta = 0.7 }, { kind = \"cubic\", beta = 0.8 }]";
    assert_eq!(warnings(table, over_tables, &[]), Vec::<String>::new());
    let over_a_field = "\"flow.upload.sctp.window.beta\" = [0.7, 0.8]";
    assert_eq!(warnings(table, over_a_field, &[]), Vec::<String>::new());
}
