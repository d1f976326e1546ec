//! What the page gets for a request.

use serde_json::{Value, json};
use whimbrel_playground::answer;

const LINK: &str = r#"
title = "one link"
duration = "10 s"

[[node]]
name = "a"

[[node]]
name = "b"

[[link]]
name = "radio"
between = ["a", "b"]
rate = "4 Mbit/s"
delay = "20 ms"
queue = { kind = "drop-tail", packets = 20 }
forward = { loss = { kind = "bernoulli", rate = 0.02 } }

[[flow]]
name = "data"
from = "a"
to = "b"

[measure]
interval = "100 ms"
"#;

fn asked(request: &Value) -> Value {
    serde_json::from_str(&answer(&request.to_string())).expect("the answer is JSON")
}

#[test]
fn returns_series_losses_with_their_causes_and_figures() {
    let outcome = &asked(&json!({ "text": LINK, "seed": 3 }))["outcome"];
    let flow = &outcome["flows"][0];
    let goodput = flow["goodput_mbps"].as_f64().expect("a number");
    assert!((0.5..4.0).contains(&goodput), "{goodput}");
    let recorded = &outcome["recorded"];
    let length = |value: &Value| value.as_array().map_or(0, Vec::len);
    let path = &recorded["paths"][0];
    assert!(length(&path["t"]) > 50);
    for column in ["cwnd", "ssthresh", "flight", "srtt_ms"] {
        assert_eq!(length(&path[column]), length(&path["t"]), "{column}");
    }
    let lost = &recorded["lost"][0];
    let causes = lost["cause"].as_array().expect("a column");
    let transmission = causes.iter().filter(|cause| *cause == "transmission").count();
    assert!(
        transmission > 10,
        "2 % of the packets are lost by the channel: {transmission}"
    );
    // The standard takes every loss for congestion.
    assert!(
        lost["verdict"]
            .as_array()
            .expect("a column")
            .iter()
            .all(|verdict| verdict == "congestion")
    );
    let drops = &recorded["drops"];
    let by_channel = drops["congestion"]
        .as_array()
        .expect("a column")
        .iter()
        .filter(|drop| **drop == 0)
        .count();
    assert_eq!(by_channel as u64, flow["lost_elsewhere"].as_u64().expect("a count"));
}

#[test]
fn equal_requests_have_equal_answers_and_seeds_differ() {
    let request = |seed| answer(&json!({ "text": LINK, "seed": seed }).to_string());
    assert_eq!(request(1), request(1));
    assert_ne!(request(1), request(2));
}

#[test]
fn changes_apply_as_those_of_the_command_line() {
    let goodput = |set: &[&str]| {
        let answer = asked(&json!({ "text": LINK, "set": set }));
        answer["outcome"]["flows"][0]["goodput_mbps"]
            .as_f64()
            .expect("a number")
    };
    let clean = goodput(&["link.radio.forward.loss.rate=0"]);
    assert!(clean > 3.5, "{clean}");
    let better = goodput(&["flow.data.sctp.scheme=veno-tabe"]);
    assert!(better > 1.3 * goodput(&[]), "{better}");
}

#[test]
fn reports_problems_with_their_lines_and_remedies() {
    let answer = asked(&json!({ "text": LINK.replace("drop-tail", "drop-tale") }));
    let problem = &answer["problems"][0];
    let line = LINK
        .lines()
        .position(|line| line.contains("drop-tail"))
        .expect("the line")
        + 1;
    assert_eq!(problem["place"][0], line);
    assert!(problem.to_string().contains("`drop-tail`"), "{problem}");
    let answer = asked(&json!({ "text": LINK, "set": ["link.radio.rate=fast"] }));
    assert!(answer["problems"][0]["place"].is_null(), "a change has no line");
}

#[test]
fn lists_schemes_and_checks_without_running() {
    let schemes = asked(&json!({ "schemes": true }));
    let names: Vec<_> = schemes["schemes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|scheme| &scheme["name"])
        .collect();
    assert!(names.contains(&&json!("jsctp")));
    assert_eq!(asked(&json!({ "text": LINK, "check": true }))["valid"]["points"], 1);
}

#[test]
fn nonsense_is_a_problem_and_never_a_panic() {
    for request in [
        "",
        "{",
        "[]",
        "{\"text\": 5}",
        "{\"text\": \"\"}",
        "{\"text\": \"\\u0000\", \"set\": [\"\", \"=\", \"a=b=c\"]}",
    ] {
        let answer: Value = serde_json::from_str(&answer(request)).expect("JSON");
        assert!(answer["problems"][0]["message"].is_string(), "{request}: {answer}");
    }
}

#[test]
fn a_run_with_too_much_to_draw_ends_early() {
    let text = LINK
        .replace("10 s", "2 h")
        .replace("4 Mbit/s", "100 Mbit/s")
        .replace("rate = 0.02", "rate = 0");
    let outcome = &asked(&json!({ "text": text }))["outcome"];
    assert_eq!(outcome["recorded"]["cut"], true);
    assert!(outcome["ended"].as_f64().expect("seconds") < 7200.0);
}
