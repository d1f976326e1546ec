//! A scenario without problems can be run: the checks are those of the simulator.

use std::fs;
use std::path::Path;

use whimbrel_scenario::Scenario;
use whimbrel_sim::{RunOptions, World};

const MOVING: &str = r#"
duration = "20 s"

[[node]]
name = "a"
mobility = { kind = "file", file = "walk", node = 0 }

[[node]]
name = "b"
mobility = { kind = "file", file = "walk", node = 1 }

[[channel]]
name = "air"

[[radio]]
node = "*"
channel = "air"

[[flow]]
name = "f"
from = "a"
to = "b"
"#;

/// Values in place of others: of each type, and at the bounds of ranges.
fn others() -> Vec<toml::Value> {
    let numbers = [i64::MIN, -1, 0, 1, 2, 17, 255, 256, 65_536, i64::MAX].map(toml::Value::from);
    let fractions = [-0.5, 0.0, 0.5, 1.5, 1e300, f64::NAN].map(toml::Value::from);
    let words = [
        "", "0 s", "1 ns", "1000 h", "0 bit/s", "1 bit/s", "tcp", "udp", "sctp", "*", "none", "\u{1b}",
    ];
    let words = words.map(toml::Value::from);
    let mut all = vec![true.into(), false.into(), toml::Value::Array(Vec::new())];
    all.extend(numbers.into_iter().chain(fractions).chain(words));
    all
}

/// Calls `visit` with the tree in which each value in turn is replaced by each other one, or is not there.
fn replaced(tree: &toml::Value, visit: &mut impl FnMut(&toml::Value)) {
    fn places(value: &toml::Value, here: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
        let mut inside = |key: String, value: &toml::Value| {
            here.push(key);
            found.push(here.clone());
            places(value, here, found);
            here.pop();
        };
        match value {
            toml::Value::Table(table) => table.iter().for_each(|(key, value)| inside(key.clone(), value)),
            toml::Value::Array(items) => items
                .iter()
                .enumerate()
                .for_each(|(i, value)| inside(i.to_string(), value)),
            _ => {}
        }
    }
    fn step<'v>(value: &'v mut toml::Value, key: &str) -> &'v mut toml::Value {
        match value {
            toml::Value::Array(items) => &mut items[key.parse::<usize>().expect("an index")],
            other => &mut other[key],
        }
    }
    let mut found = Vec::new();
    places(tree, &mut Vec::new(), &mut found);
    for place in found {
        let (last, way) = place.split_last().expect("a step");
        for other in others() {
            let mut tree = tree.clone();
            let parent = way.iter().fold(&mut tree, |value, key| step(value, key));
            *step(parent, last) = other;
            visit(&tree);
        }
        let mut tree = tree.clone();
        match way.iter().fold(&mut tree, |value, key| step(value, key)) {
            toml::Value::Table(table) => drop(table.remove(last)),
            toml::Value::Array(items) => drop(items.remove(last.parse().expect("an index"))),
            _ => {}
        }
        visit(&tree);
    }
}

/// Checks a scenario and each of its neighbours. Returns how many of them are valid, and how many are not.
fn compare(path: &Path, text: &str) -> [usize; 2] {
    let mut counts = [0, 0];
    let tree: toml::Value = toml::from_str(text).expect("TOML");
    replaced(&tree, &mut |tree| {
        let text = toml::to_string(tree).expect("TOML");
        // Worlds of thousands of nodes take long.
        let Ok(scenario) = Scenario::from_text(path, &text, &[]) else {
            counts[1] += 1;
            return;
        };
        for point in scenario
            .points
            .iter()
            .filter(|point| point.config.node.len() < 300 && point.config.flow.len() < 300)
        {
            let world = World::new(&point.config, 1, &point.resources, RunOptions::default());
            let refused = world.err().map(|error| error.to_string());
            assert_eq!(refused, None, "only `run` refuses\n{text}");
        }
        counts[0] += 1;
    });
    counts
}

#[test]
fn whatever_passes_the_check_can_be_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for name in [
        "two-radios",
        "cellular-trace",
        "handover",
        "tcp-beside-sctp",
        "wifi-handoff",
        "red-ecn",
        "string",
    ] {
        let path = examples.join(name).with_extension("toml");
        let [valid, invalid] = compare(&path, &fs::read_to_string(&path).expect("an example"));
        assert!(valid > 50 && invalid > 200, "{name}: {valid} valid, {invalid} not");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("walk"), "0 1 1\n0 2 2\n").expect("writable");
    let [valid, invalid] = compare(&folder.path().join("moving.toml"), MOVING);
    assert!(valid > 20 && invalid > 100, "{valid} valid, {invalid} not");
}

#[test]
fn a_node_that_the_movement_file_lacks_is_a_problem() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("walk"), "0 1 1\n0 2 2\n").expect("writable");
    let path = folder.path().join("moving.toml");
    let problem = |text: &str| match Scenario::from_text(&path, text, &[]) {
        Ok(_) => "no problem".to_owned(),
        Err(error) => error.to_string().replace(&format!("{}/", folder.path().display()), ""),
    };
    assert_eq!(problem(MOVING), "no problem");
    insta::assert_snapshot!(problem(&MOVING.replace("node = 1", "node = 2")), @"moving.toml:10:51: node.b.mobility.node: 2 given, allowed is one of the 2 nodes of walk");
    // The file is read at the first point and used at the next ones.
    let swept = format!("{MOVING}\n[sweep]\n\"node.b.mobility.node\" = [1, 7]\n");
    insta::assert_snapshot!(problem(&swept), @"moving.toml:25:30: node.b.mobility.node: 7 given, allowed is one of the 2 nodes of walk");
    let group = MOVING
        .replace("name = \"b\"", "name = \"b\"\ncount = 3")
        .replace("to = \"b\"", "to = \"b0\"");
    insta::assert_snapshot!(problem(&group), @"moving.toml:11:51: node.b1.mobility.node: 2 given, allowed is one of the 2 nodes of walk");
    fs::write(folder.path().join("walk"), "root:x:0:0:secret\n").expect("writable");
    let shown = problem(MOVING);
    assert!(
        shown.contains("line 1: not a command of a movement script") && !shown.contains("secret"),
        "{shown}"
    );
}

#[test]
fn an_end_with_too_many_addresses_is_a_problem() {
    let mut text =
        "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n".to_owned();
    for link in 0..17 {
        text +=
            &format!("[[link]]\nname = \"l{link}\"\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n");
    }
    let error = Scenario::from_text(Path::new("many.toml"), &text, &[]).expect_err("17 addresses");
    insta::assert_snapshot!(error.to_string(), @r#"
    many.toml:5:1: flow.f.from_links: 17 addresses given, allowed is at most 16 addresses of an SCTP end
      hint: name the links to use
    "#);
    let named: Vec<String> = (0..16).map(|link| format!("l{link}")).collect();
    let chosen = ["from_links", "to_links"].map(|key| format!("flow.f.{key}={named:?}"));
    assert!(Scenario::from_text(Path::new("many.toml"), &text, &chosen).is_ok());
}
