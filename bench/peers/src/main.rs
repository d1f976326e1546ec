//! Whimbrel's protocol core beside other SCTP stacks, measured in one run on one core: both ends of an association in
//! one thread, real checksums, packets of at most 1472 bytes, a window of 256 KiB, one direction, reliable and ordered.
//!
//! Prints, for each stack, payload Gbit per CPU second and allocations a packet at messages of 1200 bytes and 64 KiB,
//! handshakes per CPU second, and bytes of memory an idle association takes at both ends. Whimbrel is measured with DATA and, as (I), with I-DATA
//! chunks. The stacks take turns, several
//! times; the median of the turns is printed.

mod count;
mod dcsctp;
mod measure;
mod sctp_proto;
mod whimbrel;

use measure::{Figures, Stack};

#[global_allocator]
static ALLOCATOR: count::Counting = count::Counting;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5);
    let stacks: [&dyn Stack; 4] = [
        &whimbrel::Whimbrel { interleaving: false },
        &whimbrel::Whimbrel { interleaving: true },
        &dcsctp::Dcsctp,
        &sctp_proto::SctpProto,
    ];
    let mut figures: Vec<Vec<Figures>> = vec![Vec::new(); stacks.len()];
    for _ in 0..rounds {
        for (stack, figures) in stacks.iter().zip(&mut figures) {
            figures.push(measure::all(*stack));
        }
    }
    println!(
        "{:<12} {:>12} {:>12} {:>12} {:>12} {:>14} {:>12}",
        "stack", "1200 B", "64 KiB", "1200 B", "64 KiB", "handshakes", "idle pair"
    );
    println!(
        "{:<12} {:>12} {:>12} {:>12} {:>12} {:>14} {:>12}",
        "", "Gbit/CPU-s", "Gbit/CPU-s", "allocs/pkt", "allocs/pkt", "1/CPU-s", "bytes"
    );
    for (stack, figures) in stacks.iter().zip(&figures) {
        let median = |value: fn(&Figures) -> f64| {
            let mut values: Vec<f64> = figures.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        println!(
            "{:<12} {:>12.2} {:>12.2} {:>12.2} {:>12.2} {:>14.0} {:>12.0}",
            stack.name(),
            median(|f| f.small.gbit_per_cpu_second),
            median(|f| f.large.gbit_per_cpu_second),
            median(|f| f.small.allocations_per_packet),
            median(|f| f.large.allocations_per_packet),
            median(|f| f.handshakes_per_cpu_second),
            median(|f| f.idle_bytes),
        );
    }
    println!(
        "whimbrel, idle association at both ends, each an endpoint with 500 of them: {:.0} bytes",
        whimbrel::idle_bytes_shared(500)
    );
}
