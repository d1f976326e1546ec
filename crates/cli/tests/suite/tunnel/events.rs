//! `tunnel --json`: a line for each event.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use serde_json::Value;
use whimbrel_testkit::process::{Lines, Process, list};

use super::{connect, echo};
use crate::support::WHIMBREL;

/// An end of a tunnel and the lines on its standard output.
fn start(args: &[&str]) -> (Process, Lines) {
    let mut command = Command::new(WHIMBREL);
    command.arg("tunnel").arg("--json").args(args).stdout(Stdio::piped());
    let mut process = Process::start(&mut command);
    let lines = Lines::of(process.child.stdout.take().expect("a pipe"));
    (process, lines)
}

/// Returns the next line, which is this event.
#[track_caller]
fn next(lines: &mut Lines, event: &str) -> Value {
    let line = lines.next_line().expect("a line");
    let value: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(value["event"], event, "{line}");
    let time = value["time"].as_str().unwrap_or_default();
    assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
    value
}

#[test]
fn events_of_both_ends_are_lines_of_json() {
    let target = format!("127.0.0.1:{}", echo());
    let listen = ["--server", "--listen", "127.0.2.1:0,127.0.2.2:0", "--allow", &target];
    let (mut server, mut at_server) = start(&listen);
    let addrs = list(&server.listening());
    let listening = next(&mut at_server, "listening");
    let addresses: Vec<_> = listening["addresses"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|addr| addr.as_str().expect("text"))
        .collect();
    assert_eq!(addresses.join(","), addrs);
    assert!(listening["sctp_port"].is_u64(), "{listening}");

    let forward = format!("0:{target}");
    let (client, mut at_client) = start(&[&addrs, "--local", "127.0.1.1,127.0.1.2", "--forward", &forward]);
    let forwarding = next(&mut at_client, "forwarding");
    assert_eq!(
        (&forwarding["protocol"], &forwarding["target"]),
        (&"tcp".into(), &target.clone().into())
    );
    let local = forwarding["local"].as_str().expect("an address");
    let port = local.strip_prefix("127.0.0.1:").and_then(|port| port.parse().ok());
    let peer = next(&mut at_client, "connected")["peer"].clone();
    assert!(addresses.contains(&peer.as_str().expect("an address")), "{peer}");
    let client_addr = next(&mut at_server, "connected")["peer"].clone();
    let mut tcp = connect(port.expect("a port"));
    tcp.write_all(b"x").expect("sent");
    tcp.read_exact(&mut [0]).expect("received");

    // The server ends: the client reports that, and that it connects again.
    assert_eq!(server.interrupt(), Some(0));
    let ended = next(&mut at_server, "ended");
    assert_eq!((&ended["peer"], &ended["error"]), (&client_addr, &Value::Null));
    assert!(ended["seconds"].as_f64() > Some(0.0), "{ended}");
    assert_eq!(at_server.next_line(), None);
    let lost = next(&mut at_client, "ended");
    assert!(lost["peer"] == peer && lost["error"].as_str() > Some(""), "{lost}");
    let retrying = next(&mut at_client, "retrying");
    assert_eq!(retrying["pause_s"], 1);
    assert_eq!(client.interrupt(), Some(0));
    for line in at_client.rest().lines() {
        assert_eq!(serde_json::from_str::<Value>(line).expect("JSON")["event"], "retrying");
    }
}

#[test]
fn failure_and_recovery_of_a_path_are_events() {
    let target = format!("127.0.0.1:{}", echo());
    let (mut server, _at_server) = start(&["--server", "--listen", "127.0.2.1:0", "--allow", &target]);
    let addrs = list(&server.listening());
    let (client, mut at_client) = start(&[&addrs, "--forward", &format!("0:{target}")]);
    let forwarding = next(&mut at_client, "forwarding");
    let port = forwarding["local"]
        .as_str()
        .and_then(|local| local.rsplit_once(':')?.1.parse().ok());
    next(&mut at_client, "connected");
    let mut tcp = connect(port.expect("a port"));
    tcp.write_all(b"x").expect("sent");
    tcp.read_exact(&mut [0]).expect("received");

    server.signal("-STOP");
    tcp.write_all(b"x").expect("sent");
    let failed = next(&mut at_client, "path");
    assert_eq!(
        (&failed["state"], &failed["remote"]),
        (&"potentially failed".into(), &addrs.clone().into())
    );
    assert_eq!(
        (&failed["peer"], &failed["outage_s"]),
        (&addrs.clone().into(), &Value::Null)
    );
    server.signal("-CONT");
    tcp.read_exact(&mut [0]).expect("received");
    let mut back = next(&mut at_client, "path");
    // If it took long, the path has failed in between.
    while back["state"] != "active" {
        back = next(&mut at_client, "path");
    }
    assert!(back["outage_s"].as_f64() > Some(0.0), "{back}");
    assert_eq!(client.interrupt(), Some(0));
}

#[test]
fn without_json_nothing_is_on_standard_output() {
    let mut command = Command::new(WHIMBREL);
    let args = ["tunnel", "--server", "--listen", "127.0.2.1:0", "--allow", "any"];
    let mut server = Process::start(command.args(args).stdout(Stdio::piped()));
    let mut lines = Lines::of(server.child.stdout.take().expect("a pipe"));
    server.listening();
    assert_eq!(server.interrupt(), Some(0));
    assert_eq!(lines.next_line(), None);
}

#[test]
fn a_peer_that_is_no_tunnel_is_reported_as_refused() {
    let (mut server, mut lines) = start(&["--server", "--listen", "127.0.2.1:0", "--allow", "any"]);
    let addrs = list(&server.listening());
    next(&mut lines, "listening");
    let mut perf = Process::start(
        Command::new(WHIMBREL)
            .args(["perf", &addrs, "--time", "1s"])
            .stdout(Stdio::null()),
    );
    let refused = next(&mut lines, "refused");
    assert_eq!(refused["error"], "it is not a tunnel");
    assert_ne!(perf.wait(), Some(0));
    assert_eq!(server.interrupt(), Some(0));
    assert_eq!(lines.next_line(), None);
}

#[test]
fn wrong_use_prints_no_json() {
    let (mut client, mut lines) = start(&["127.0.0.1"]);
    assert_eq!(client.wait(), Some(2));
    assert_eq!(lines.next_line(), None);
}
