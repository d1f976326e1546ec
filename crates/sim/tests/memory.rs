//! Memory use of a run. A separate process, so that nothing else is measured.
#![cfg(target_os = "linux")]

#[path = "suite/common/mod.rs"]
mod common;

use common::{nodes, run};
use whimbrel_control::{Rate, Span};
use whimbrel_sim::config::{FlowConfig, FlowKind, LinkConfig};
use whimbrel_testkit::needs;

/// Returns the peak memory use of this process in KiB.
fn peak_kib() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| format!("/proc/self/status: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| "/proc/self/status does not contain the peak of this process's memory".to_owned())
}

#[test]
fn a_long_run_needs_no_more_memory_than_a_short_one() {
    needs!(peak_kib());
    let mut config = nodes(&["n0", "n1", "n2", "n3", "n4", "n5"], 60);
    config.link = (0..5)
        .map(|i| {
            LinkConfig::new(
                &format!("n{i}"),
                &format!("n{}", i + 1),
                Rate::from_mbps(2),
                Span::from_micros(10),
            )
        })
        .collect();
    config.flow = vec![FlowConfig::new("bulk", FlowKind::Sctp, "n0", "n5")];
    run(&config, 1);
    let short = peak_kib().expect("it was known before");
    config.duration = Span::from_secs(1200);
    let result = run(&config, 1);
    assert!(result.packet_hops > 1_400_000, "{}", result.packet_hops);
    let long = peak_kib().expect("it was known before");
    assert!(long < 20 * 1024, "{long} KiB");
    // The ledger keeps the drops of the start; nothing else grows.
    assert!(long < short + 512, "{short} KiB, then {long} KiB");
    // The same with TCP, which fills the queue again and again.
    config.flow = vec![FlowConfig::new("bulk", FlowKind::Tcp, "n0", "n5")];
    config.duration = Span::from_secs(60);
    run(&config, 1);
    let short = peak_kib().expect("it was known before");
    config.duration = Span::from_secs(1200);
    let result = run(&config, 1);
    assert!(result.packet_hops > 1_400_000, "{}", result.packet_hops);
    let long = peak_kib().expect("it was known before");
    assert!(long < short + 512, "{short} KiB, then {long} KiB");
}
