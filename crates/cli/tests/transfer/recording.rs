//! `--record`: the events of a transfer.

use std::collections::BTreeSet;
use std::path::Path;

use whimbrel_testkit::process::InTime as _;

use super::{Receiver, content, sender, text};

/// Returns the lines of a recording, each parsed.
fn events(folder: &Path) -> Vec<serde_json::Value> {
    let lines = std::fs::read_to_string(folder.join("events.jsonl")).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn both_ends_record_their_events_and_export_reads_them() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("a"), dir.path().join("in"));
    std::fs::write(&file, content(1_000_000)).unwrap();
    let [sent, received] = ["sent", "received"].map(|name| dir.path().join(name));
    let more = ["--once", "--record", received.to_str().unwrap()];
    let receiver = Receiver::start("127.0.0.1:0,127.0.0.2:0", &into, &more);
    let mut command = sender(&receiver.to(), &file);
    let output = command.arg("--record").arg(&sent).output_in_time();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(receiver.end().0, Some(0));

    for (folder, node, wanted) in [
        (&sent, "client", "transport:tsn_sent"),
        (&received, "server", "connectivity:connection_state_updated"),
    ] {
        let events = events(folder);
        let first = &events[0];
        assert_eq!(first["name"], "recording:started");
        assert!(first["data"]["unix_ms"].as_f64().unwrap() > 1e12, "{first}");
        assert!(events.iter().all(|event| event["node"] == node));
        let named = |event: &&serde_json::Value| event["name"] == wanted && event["flow"] == "0";
        assert!(events.iter().any(|event| named(&event)), "{wanted}");
        let last = events.last().unwrap();
        assert_eq!(last["data"]["new"], "closed", "{last}");
        let exported = std::process::Command::new(super::WHIMBREL)
            .arg("export")
            .arg(folder)
            .arg("--perfetto")
            .output_in_time();
        assert_eq!(exported.status.code(), Some(0), "{}", text(&exported.stderr));
    }
    let paths: BTreeSet<_> = events(&sent)
        .iter()
        .filter(|event| event["name"] == "connectivity:path_assigned")
        .map(|event| event["data"]["remote"].to_string())
        .collect();
    assert_eq!(paths.len(), 2, "both addresses of the server: {paths:?}");
    for (command, written) in [("report", "report.html"), ("plot", "plots/sent/cwnd.svg")] {
        let output = std::process::Command::new(super::WHIMBREL)
            .arg(command)
            .arg(&sent)
            .output_in_time();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let made = std::fs::read_to_string(sent.join(written)).unwrap();
        assert!(
            made.contains("127.0.0.1 to 127.0.0.1"),
            "{command} names the paths by their addresses"
        );
    }
    let sent_tsns: BTreeSet<_> = events(&sent)
        .iter()
        .filter(|event| event["name"] == "transport:tsn_sent")
        .map(|event| event["data"]["tsn"].as_u64())
        .collect();
    // A file of 1 MB has at least as many chunks as packets of 65,535 bytes, the MTU of the loopback interface.
    assert!(sent_tsns.len() > 1_000_000 / 65_535, "{}", sent_tsns.len());

    let again = sender(&receiver_address(), &file)
        .arg("--record")
        .arg(&sent)
        .output_in_time();
    let printed = text(&again.stderr);
    assert_eq!(again.status.code(), Some(2), "{printed}");
    assert!(printed.contains("name another folder with --record"), "{printed}");
}

/// An address at which nobody listens: the recording is refused before.
fn receiver_address() -> String {
    "127.0.0.1:9".to_owned()
}
