//! Expansion of groups, and their errors.

use std::path::Path;

use super::*;

#[test]
fn a_star_matches_any_characters() {
    assert!(fits("n*", "n0") && fits("*", "") && fits("a*b*c", "a-b-b-c") && fits("n*", "n"));
    assert!(!fits("n*", "m0") && !fits("a*b", "a-b-") && !fits("n", "n0"));
}

fn written(text: &str) -> Result<String, String> {
    let lines = LineIndex::new(Path::new("t.toml"), text);
    let mut root = crate::tree::parse(&lines).expect("valid TOML");
    let found = write_out(&mut root, &lines);
    match found.first() {
        None => Ok(root.to_string()),
        Some((_, problem)) => Err(problem.to_string()),
    }
}

#[test]
fn nodes_are_numbered_with_constant_distance() {
    let text = "[[node]]\nname = \"n\"\ncount = 3\nposition = [0, 5]\nstep = [200, 0.5]\n";
    assert_eq!(
        written(text).expect("a group"),
        "{ node = [{ name = \"n0\", position = [0.0, 5.0] }, { name = \"n1\", position = [200.0, 5.5] }, \
         { name = \"n2\", position = [400.0, 6.0] }] }"
    );
    let text = "[[node]]\nname = \"n\"\ncount = 2\nmobility = { kind = \"file\", file = \"m\", node = 4 }\n";
    let nodes = written(text).expect("a group");
    assert!(nodes.contains("node = 4") && nodes.contains("node = 5"), "{nodes}");
    assert_eq!(
        written("[[node]]\nname = \"n\"\ncount = 0\n").expect("none"),
        "{ node = [] }"
    );
}

const NODES: &str = "[[node]]\nname = \"n\"\ncount = 6\n[[node]]\nname = \"gate\"\n";

fn pairs(flow: &str) -> Vec<(String, String)> {
    let text = format!("{NODES}[[flow]]\n{flow}\n");
    let lines = LineIndex::new(Path::new("t.toml"), &text);
    let mut root = crate::tree::parse(&lines).expect("valid TOML");
    let found = write_out(&mut root, &lines);
    assert!(found.is_empty(), "{found:?}");
    let end = |flow: &Node, key: &str| flow.get(key).and_then(Node::text).expect("an end").to_owned();
    match &root.get("flow").expect("flows").value {
        Value::Array(flows) => flows.iter().map(|flow| (end(flow, "from"), end(flow, "to"))).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn random_pairs_use_each_node_once_before_any_twice() {
    for seed in 1..50 {
        let text = format!("name = \"f\"\ncount = 3\nfrom = \"n*\"\nto = \"n*\"\npairing_seed = {seed}");
        let mut ends: Vec<_> = pairs(&text).into_iter().flat_map(|(a, b)| [a, b]).collect();
        ends.sort_unstable();
        assert_eq!(ends, ["n0", "n1", "n2", "n3", "n4", "n5"], "seed {seed}");
    }
    let draw = |seed: u32| {
        pairs(&format!(
            "name = \"f\"\ncount = 9\nfrom = \"n*\"\nto = \"n*\"\npairing_seed = {seed}"
        ))
    };
    assert_eq!(draw(7), draw(7));
    assert!((1..10).any(|seed| draw(seed) != draw(seed + 1)));
    assert!(draw(3).iter().all(|(from, to)| from != to));
}

#[test]
fn pairs_in_order_listed_or_all_to_one() {
    let ends = |flow: &str| {
        let texts = pairs(flow).into_iter().map(|(from, to)| format!("{from}>{to}"));
        texts.collect::<Vec<_>>().join(" ")
    };
    let all = "name = \"f\"\nfrom = \"*\"\nto = \"gate\"\npairing = \"in-order\"\ncount = 3";
    assert_eq!(ends(all), "n0>gate n1>gate n2>gate");
    assert_eq!(
        pairs("name = \"f\"\nfrom = \"*\"\nto = \"gate\"").len(),
        6,
        "all but the gate itself"
    );
    assert_eq!(
        ends("name = \"f\"\npairs = [[\"n1\", \"gate\"], [\"n2\", \"n5\"]]"),
        "n1>gate n2>n5"
    );
    assert_eq!(
        ends("name = \"f\"\ncount = 2\nfrom = \"n1\"\nto = \"n2\""),
        "n1>n2 n1>n2"
    );
}

#[test]
fn a_star_in_links_is_the_name_of_the_node() {
    let text = format!(
        "{NODES}[[flow]]\nname = \"f\"\ncount = 2\nfrom = \"n3\"\nto = \"gate\"\nfrom_links = [\"*-air\"]\n\
         start = \"1 s\"\nstagger = \"200 ms\"\naddress = [{{ at = \"2 s\", end = \"receiver\", add = \"*-b\" }}]\n"
    );
    let flows = written(&text).expect("a group");
    assert!(
        flows.contains("from_links = [\"n3-air\"]") && flows.contains("add = \"gate-b\""),
        "{flows}"
    );
    assert!(
        flows.contains("start = \"1 s\"") && flows.contains("start = \"1200 ms\""),
        "{flows}"
    );
}

#[test]
fn follow_up_errors_of_a_faulty_group_are_not_reported() {
    let rest = "[[radio]]\nnode = \"n*\"\nchannel = \"air\"\n[[flow]]\nname = \"f\"\nfrom = \"n*\"\nto = \"n*\"\n";
    let problems = |group: &str, flow: &str| {
        let text = format!("[[node]]\nname = \"n\"\n{group}\n[[node]]\nname = \"x\"\n{rest}{flow}");
        let lines = LineIndex::new(Path::new("t.toml"), &text);
        let mut root = crate::tree::parse(&lines).expect("valid TOML");
        let found = write_out(&mut root, &lines);
        found
            .into_iter()
            .map(|(_, problem)| problem.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        problems("count = 100000", "count = 3\n"),
        ["t.toml:3:9: node.n.count: 100000 given, allowed is 0 to 65536"]
    );
    assert_eq!(problems("count = 3\nstep = \"x\"", "count = 3\n").len(), 1);
    assert_eq!(problems("count = 3\n[[node]]\ncount = 2", "count = 3\n").len(), 1);
    // An empty group may have radios and flows, of which there are none.
    assert_eq!(problems("count = 0", "count = 0\n"), [""; 0]);
    let empty = problems("count = 0", "count = 3\n");
    assert!(
        empty.len() == 1
            && empty[0].starts_with("t.toml:11:8: flow.f.from: \"n*\" given, and the group \"n\" has no nodes"),
        "{empty:?}"
    );
    let receivers = problems("count = 0", "count = 3\npairing = \"in-order\"\n[[x]]\n");
    assert!(receivers[0].contains("the group \"n\" has no nodes"), "{receivers:?}");
    assert_eq!(
        problems("count = 1", "count = 3\n"),
        ["t.toml:12:6: flow.f.to: requires two different nodes"]
    );
}

#[test]
fn a_star_in_a_radio_is_the_name_of_the_node() {
    let text = format!("{NODES}[[radio]]\nnode = \"n*\"\nchannel = \"air\"\nname = \"*.air\"\n");
    let radios = written(&text).expect("a group");
    assert!(
        radios.contains("name = \"n5.air\", node = \"n5\"") && !radios.contains("gate.air"),
        "{radios}"
    );
}

#[test]
fn errors_of_a_group_have_its_line() {
    let wrong = |flow: &str| written(&format!("{NODES}{flow}")).expect_err("wrong");
    assert_eq!(
        wrong("[[radio]]\nnode = \"m*\"\nchannel = \"air\"\n"),
        "t.toml:7:8: radio.m*-air.node: \"m*\" given, and no node has a name like this\n  hint: known nodes: `n0`, `n1`, `n2`, `n3`, `n4`, `n5`, `gate`"
    );
    let error = wrong("[[flow]]\nname = \"f\"\ncount = -1\nfrom = \"n0\"\nto = \"n1\"\n");
    assert!(error.starts_with("t.toml:8:9: flow.f.count: "), "{error}");
    let error = wrong("[[flow]]\nname = \"f\"\nfrom = \"n*\"\nto = \"n*\"\n");
    assert_eq!(error, "t.toml:8:8: flow.f.from: requires a `count` of flows");
    let error = wrong("[[flow]]\nname = \"f\"\ncount = 7\npairing = \"in-order\"\nfrom = \"n*\"\nto = \"n*\"\n");
    assert!(
        error.starts_with("t.toml:9:11: flow.f.pairing: flow number 0 would be from \"n0\""),
        "{error}"
    );
    let error = wrong("[[radio]]\nname = \"r\"\nnode = \"n*\"\nchannel = \"air\"\n");
    assert!(error.contains("several radios"), "{error}");
    let error = wrong("[[node]]\nname = \"m\"\ncount = 70000\n");
    assert!(error.contains("70000 given, allowed is 0 to 65536"), "{error}");
    let error = wrong("[[node]]\nname = \"m\"\nstep = [1, 1]\n");
    assert!(error.contains("requires a group"), "{error}");
}
