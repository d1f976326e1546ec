//! Scenario files.

use whimbrel_control::{Rate, Span};
use whimbrel_sim::config::{FlowKind, LossConfig, QueueConfig, SimConfig, TrafficKind};

const EXAMPLE: &str = r#"
duration = "5 min"
carriage = "bytes"

[measure]
from = "10 s"

[[node]]
name = "a"
[[node]]
name = "b"

[[link]]
name = "wifi"
between = ["a", "b"]
rate = "2 Mbit/s"
delay = "10 ms"
queue = { kind = "drop-tail", packets = 50 }
loss = { kind = "bernoulli", rate = 0.01 }
jitter = { kind = "normal", mean = "5 ms", deviation = "1 ms", reorder = true }
schedule = [{ at = "10 s", up = false }, { at = "20 s", up = true }]
reverse = { rate = "512 kbit/s", loss = [] }

[[link]]
between = ["a", "b"]
trace = { file = "cell.up" }
queue = { kind = "drop-tail", bytes = 100_000 }
loss = [
    { kind = "gilbert-elliott", good_to_bad = 0.01, bad_to_good = 0.3 },
    { kind = "chunk-type", chunks = ["sack", "init-ack"], model = { kind = "periodic", every = 10 } },
]

[[flow]]
name = "bulk"
from = "a"
to = "b"
sctp = { recv_buffer = 65536, sack_delay = "100 ms" }
receiver = { sack_frequency = 1 }

[[flow]]
name = "cross"
kind = "udp"
from = "a"
to = "b"
start = "1 s"
traffic = { kind = "on-off", rate = "1 Mbit/s", on = "1 s", off = "500 ms", periods = "exponential", message_bytes = 500 }
"#;

fn read(text: &str) -> Result<SimConfig, toml::de::Error> {
    toml::from_str(text)
}

#[test]
fn parses_the_example() {
    let config = read(EXAMPLE).expect("the example is valid");
    config.validate().expect("the example is possible");
    assert_eq!(config.duration, Span::from_secs(300));
    let [forward, reverse] = config.link[0].directions();
    assert_eq!(
        (forward.rate, reverse.rate),
        (Some(Rate::from_mbps(2)), Some(Rate::from_bps(512_000)))
    );
    assert_eq!((forward.loss.len(), reverse.loss.len()), (1, 0));
    assert_eq!(
        reverse.queue,
        QueueConfig::DropTail {
            packets: Some(50),
            bytes: None
        }
    );
    assert_eq!(config.link[1].display_name(), "a-b");
    assert!(matches!(config.link[1].loss[1], LossConfig::ChunkType { .. }));
    assert_eq!(
        (config.flow[0].kind, config.flow[0].traffic.kind),
        (FlowKind::Sctp, TrafficKind::Endless)
    );
    let receiver = config.flow[0].receiver_association().expect("valid overrides");
    assert_eq!((receiver.recv_buffer, receiver.sack_frequency), (65_536, 1));
    assert_eq!(config.flow[0].sender_association().sack_frequency, 2);
}

#[test]
fn serialization_round_trips() {
    let config = read(EXAMPLE).expect("valid");
    let text = toml::to_string(&config).expect("plain data");
    assert_eq!(read(&text).expect("what was written can be read"), config);
}

#[test]
fn rejects_unknown_keys_with_their_place() {
    for (from, to, word) in [
        ("delay = \"10 ms\"", "dealy = \"10 ms\"", "dealy"),
        ("packets = 50", "pakets = 50", "pakets"),
        ("rate = 0.01", "rate = 0.01, burst = 2", "burst"),
        ("kind = \"udp\"", "kind = \"dccp\"", "dccp"),
        ("\"10 ms\"", "\"10 msec\"", "msec"),
        ("\"10 ms\"", "10", "unit"),
        ("recv_buffer = 65536", "recv_bufer = 65536", "recv_bufer"),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        let error = read(&EXAMPLE.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn rejects_invalid_values_with_their_place() {
    for (from, to, path) in [
        ("rate = \"2 Mbit/s\"", "rate = \"0 bit/s\"", "link[0].rate"),
        ("rate = 0.01", "rate = 1.5", "link[0].loss.rate"),
        ("packets = 50", "packets = 0", "link[0].queue.packets"),
        ("every = 10", "every = 0", "link[1].loss[1].model.every"),
        ("at = \"20 s\"", "at = \"10 s\"", "link[0].schedule[1].at"),
        (
            "{ at = \"20 s\", up = true }",
            "{ at = \"20 s\" }",
            "link[0].schedule[1]",
        ),
        (
            "{ at = \"20 s\", up = true }",
            "{ at = \"20 s\", reverse = { rate = \"0 bit/s\" } }",
            "link[0].schedule[1].reverse.rate",
        ),
        (
            "{ at = \"20 s\", up = true }",
            "{ at = \"20 s\", loss = { kind = \"bernoulli\", rate = 2.0 } }",
            "link[0].schedule[1].loss.rate",
        ),
        ("trace = { file = \"cell.up\" }", "delay = \"1 ms\"", "link[1].rate"),
        ("to = \"b\"", "to = \"c\"", "flow[0].to"),
        ("start = \"1 s\"", "start = \"6 min\"", "flow[1].start"),
        (
            "kind = \"on-off\", rate = \"1 Mbit/s\"",
            "kind = \"on-off\"",
            "flow[1].traffic.rate",
        ),
        ("recv_buffer = 65536", "recv_buffer = 5", "flow[0].sctp"),
        ("from = \"10 s\"", "from = \"10 min\"", "measure.from"),
        (
            "between = [\"a\", \"b\"]",
            "between = [\"a\", \"a\"]",
            "link[0].between",
        ),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        let config = read(&EXAMPLE.replacen(from, to, 1)).expect(to);
        let error = config.validate().expect_err(to);
        assert_eq!(error.path, path, "{error}");
    }
}

#[test]
fn the_schema_describes_the_keys() {
    let schema = serde_json::to_string(&schemars::schema_for!(SimConfig)).expect("a schema is JSON");
    for word in [
        "good_to_bad",
        "Mbit/s",
        "drop-tail",
        "recv_buffer",
        "gilbert-elliott",
        "message_bytes",
    ] {
        assert!(schema.contains(word), "{word}");
    }
}
