//! Many endless flows over one link: the memory that a flow takes.
//!
//! `cargo run --release -p whimbrel-sim --example many_flows [FLOWS [SECONDS]]`
//!
//! Each flow has 100 kbit/s of the link and room for one packet in its queue. The peak of resident memory is that of Linux (`VmHWM`).

use whimbrel_control::{Rate, Span};
use whimbrel_sim::config::{FlowConfig, FlowKind, LinkConfig, NodeConfig, QueueConfig, SimConfig};
use whimbrel_sim::{Resources, RunOptions, World};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let flows: u32 = arguments.next().map_or(10_000, |text| text.parse().expect("a number"));
    let seconds = arguments.next().map_or(12, |text| text.parse().expect("a number"));
    let mut config = SimConfig::empty(Span::from_secs(seconds));
    config.node = ["a", "b"].map(NodeConfig::new).into();
    config.link = vec![LinkConfig {
        queue: QueueConfig::DropTail {
            packets: Some(flows.max(100)),
            bytes: None,
        },
        ..LinkConfig::new(
            "a",
            "b",
            Rate::from_bps(100_000 * u64::from(flows)),
            Span::from_millis(10),
        )
    }];
    config.flow = (0..flows)
        .map(|i| FlowConfig::new(&format!("f{i}"), FlowKind::Sctp, "a", "b"))
        .collect();
    let result = World::new(&config, 1, &Resources::default(), RunOptions::default())
        .expect("a valid scenario")
        .run();
    println!(
        "{} packet-hops, fingerprint {:016x}",
        result.packet_hops, result.fingerprint
    );
    if let Some(kib) = peak_kib() {
        println!(
            "peak of resident memory {:.1} MB, {:.1} KB per flow",
            kib * 1.024 / 1000.0,
            kib * 1.024 / f64::from(flows)
        );
    }
}

/// Returns the peak of the process's resident memory in KiB.
fn peak_kib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
