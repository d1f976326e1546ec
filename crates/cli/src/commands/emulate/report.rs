//! What an emulation has done, as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};
use whimbrel_control::Span;
use whimbrel_emu::Report;
use whimbrel_scenario::visible;
use whimbrel_sim::{DropCounts, LinkResult};

pub(super) fn text(report: &Report) -> String {
    let mut text = String::new();
    let gate = &report.gate;
    let late = &report.lateness;
    let overrun = gate.overrun.map_or("unknown".to_owned(), |n| n.to_string());
    let lines = [
        format!(
            "packets   {} in, {} out, {} dropped in the network",
            gate.received,
            gate.sent,
            dropped(report)
        ),
        format!(
            "          {overrun} lost before they were read, {} not sent, {} from elsewhere",
            gate.unsendable, gate.foreign
        ),
        format!(
            "lateness  p50 {}, p99 {}, max {}",
            micros(late.p50),
            micros(late.p99),
            micros(late.max)
        ),
        format!(
            "unread    p50 {}, p99 {}, max {}",
            micros(report.unread.p50),
            micros(report.unread.p99),
            micros(report.unread.max)
        ),
        format!("time      {:.3} s of the network", report.emulated.as_secs_f64()),
    ];
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    let heads = [
        "link",
        "from",
        "to",
        "packets",
        "bytes",
        "busy",
        "max queue",
        "marked",
        "drops",
    ]
    .map(String::from);
    let mut rows = vec![heads];
    rows.extend(
        report
            .run
            .links
            .iter()
            .filter(|link| link.packets > 0 || link.drops.total() > 0)
            .map(row),
    );
    let widths: Vec<usize> = (0..9)
        .map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0))
        .collect();
    text.push('\n');
    for row in &rows {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match i {
                3..=7 => write!(line, "{cell:>width$}  "),
                _ => write!(line, "{cell:<width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn row(link: &LinkResult) -> [String; 9] {
    let drops: Vec<_> = link
        .drops
        .iter()
        .map(|(cause, n)| format!("{n} {}", cause.name()))
        .collect();
    [
        visible(&link.name),
        visible(&link.from),
        visible(&link.to),
        link.packets.to_string(),
        link.bytes.to_string(),
        format!("{:.1} %", link.utilisation * 100.0),
        link.max_queue_packets.to_string(),
        link.marked.to_string(),
        if drops.is_empty() {
            "-".to_owned()
        } else {
            drops.join(", ")
        },
    ]
}

/// Returns the report as JSON. `exit_code`: of programs that ended by themselves.
pub(super) fn json(
    scenario: &str,
    flow: Option<&str>,
    report: &Report,
    too_slow: Option<&str>,
    exit_code: Option<u8>,
) -> Value {
    let (gate, late) = (&report.gate, &report.lateness);
    let micros = |span: Span| span.as_nanos() as f64 / 1000.0;
    let links = report.run.links.iter().map(|link| {
        json!({
            "name": link.name,
            "from": link.from,
            "to": link.to,
            "packets": link.packets,
            "bytes": link.bytes,
            "utilisation": link.utilisation,
            "max_queue_packets": link.max_queue_packets,
            "marked": link.marked,
            "drops": drops(&link.drops),
        })
    });
    let links: Vec<_> = links.collect();
    let millis = |span: Span| span.as_nanos() as f64 / 1e6;
    let used = report
        .run
        .flows
        .iter()
        .filter(|flow| flow.sender_packets + flow.receiver_packets > 0);
    let flows = used.map(|flow| {
        json!({
            "name": flow.name,
            "packets": flow.arrived_packets,
            "bytes": flow.goodput_bytes,
            "delay_ms": {"p50": millis(flow.delay.p50), "p99": millis(flow.delay.p99), "max": millis(flow.delay.max)},
        })
    });
    let flows: Vec<_> = flows.collect();
    json!({
        "scenario": scenario,
        "flow": flow,
        "seed": report.run.seed,
        "elapsed_s": report.elapsed.as_secs_f64(),
        "emulated_s": report.emulated.as_secs_f64(),
        "lateness_us": {
            "p50": micros(late.p50),
            "p99": micros(late.p99),
            "max": micros(late.max),
        },
        "unread_us": {
            "p50": micros(report.unread.p50),
            "p99": micros(report.unread.p99),
            "max": micros(report.unread.max),
        },
        "too_slow": too_slow,
        "exit_code": exit_code,
        "packets": {
            "in": gate.received,
            "out": gate.sent,
            "dropped": dropped(report),
            "lost_before": gate.overrun,
            "not_sent": gate.unsendable,
            "foreign": gate.foreign,
        },
        "links": links,
        "flows": flows,
    })
}

fn drops(counts: &DropCounts) -> Value {
    counts
        .iter()
        .map(|(cause, n)| (cause.name().to_owned(), Value::from(n)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Packets of programs that the network dropped.
fn dropped(report: &Report) -> u64 {
    report.run.drops.total()
}

fn micros(span: Span) -> String {
    let micros = span.as_nanos() as f64 / 1000.0;
    if micros < 1000.0 {
        format!("{micros:.0} us")
    } else {
        format!("{:.2} ms", micros / 1000.0)
    }
}
