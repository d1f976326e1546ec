//! The dissector of `extras/wireshark` on captures of simulated runs.

use std::process::Command;

use whimbrel_testkit::process::InTime as _;
use whimbrel_testkit::{needs, program};

use crate::support::{code, one_link, root, stderr, whimbrel};

fn scenario_text() -> String {
    one_link(
        r#"
title = "capture"
duration = "3 s"
seeds = 1
"#,
        r#"rate = "2 Mbit/s"
delay = "10 ms"
queue = { kind = "drop-tail", packets = 10 }
loss = { kind = "bernoulli", rate = 0.03 }
"#,
        r#"[[flow]]
name = "data"
from = "a"
to = "b"
sctp = { scheme = "jsctp", reporting = { new_gaps_only = true } }

[record]
packets = "all"
"#,
    )
}

/// Chunks and parameters that Wireshark does not know are decoded, and lost packets have their causes, as in `results.csv`.
#[test]
fn the_dissector_decodes_our_chunks_and_names_causes_of_losses() {
    let tshark = needs!(program("tshark", "tshark"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("a.toml"), scenario_text()).expect("writable");
    let run = whimbrel(folder.path(), &["run", "a.toml", "--out", "out"]);
    assert_eq!(code(&run), 0, "{}", stderr(&run));
    let script = format!("lua_script:{}", root().join("extras/wireshark/whimbrel.lua").display());
    let fields = |filter: &str, names: &[&str]| {
        let mut command = Command::new(&tshark);
        command.args(["-X", &script, "-r", "out/packets.pcapng", "-Y", filter, "-T", "fields"]);
        command.args(names.iter().flat_map(|name| ["-e", name]));
        let output = command.current_dir(folder.path()).output_in_time();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(!stderr(&output).contains("Lua"), "{}", stderr(&output));
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        fields("whimbrel.parameter", &["whimbrel.parameter"]),
        ["Timestamps,NEW GAPS"; 2]
    );
    // By the order of the simulated clock: data takes at least the delay of the link, 10 ms.
    let differences = fields("whimbrel.timestamp.returned == 1", &["whimbrel.timestamp.difference"]);
    assert!(differences.len() > 100);
    assert!(
        differences
            .iter()
            .all(|us| us.parse::<u32>().is_ok_and(|us| (10_000..1_000_000).contains(&us))),
        "{differences:?}"
    );
    let serials: Vec<u32> = fields("whimbrel.new_gaps.serial", &["whimbrel.new_gaps.serial"])
        .iter()
        .map(|serial| serial.parse().expect("a number"))
        .collect();
    assert!(serials.len() > 100 && serials.is_sorted(), "{serials:?}");
    assert!(!fields("whimbrel.new_gaps.block", &["whimbrel.new_gaps.block"]).is_empty());
    let lost = fields("whimbrel.loss", &["whimbrel.dropped", "whimbrel.loss"]);
    let count = |line: &str| lost.iter().filter(|found| *found == line).count();
    assert!(count("queue-full\tcongestion") > 0, "{lost:?}");
    assert!(count("loss-bernoulli\ttransmission") > 0, "{lost:?}");
    assert_eq!(
        count("queue-full\tcongestion") + count("loss-bernoulli\ttransmission"),
        lost.len()
    );
}
