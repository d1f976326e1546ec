//! What a measurement prints, as text and as JSON.

use serde_json::{Value, json};

use super::exchange::{News, Totals};
use super::sample::{Interval, PathSample};
use crate::output::count;
use crate::transfer::failure::Failure;
use crate::transfer::progress::bytes;

/// The line above the intervals.
pub(crate) const HEAD: &str = "    time (s)    path                                    data          rate        cwnd        RTT  lost: congestion, transmission, unsure";

/// Returns the lines of an interval.
pub(crate) fn lines(prefix: &str, news: &News) -> Vec<String> {
    match news {
        News::Sent(interval) => interval_lines(prefix, "sent", interval),
        News::PeerSent(interval) => interval_lines(prefix, "peer sent", interval),
        News::Received(start, end, bytes) => vec![line(prefix, *start, *end, "received", *bytes, "")],
    }
}

/// Returns the lines of what an end has sent on each path and in all.
pub(crate) fn interval_lines(prefix: &str, what: &str, interval: &Interval) -> Vec<String> {
    let mut lines: Vec<_> = interval
        .paths
        .iter()
        .map(|path| {
            let label = format!("{} > {}", path.local.ip(), path.remote.ip());
            line(prefix, interval.start, interval.end, &label, path.bytes, &details(path))
        })
        .collect();
    let sum = format!(
        "  {}, {}",
        count(interval.retransmissions, "retransmission"),
        count(interval.timeouts, "timeout")
    );
    lines.push(line(prefix, interval.start, interval.end, what, interval.bytes, &sum));
    lines
}

fn details(path: &PathSample) -> String {
    let rtt = path.rtt_ms.map_or("-".to_owned(), |rtt| format!("{rtt:.1} ms"));
    let losses = path.losses;
    let state = match path.state {
        super::sample::State::Active => String::new(),
        other => format!("  {}", other.name()),
    };
    format!(
        "{:>10}  {rtt:>9}  {}, {}, {}{state}",
        bytes(path.cwnd),
        losses.congestion,
        losses.transmission,
        losses.unsure
    )
}

/// Returns a line of an interval.
pub(crate) fn line(prefix: &str, start: f64, end: f64, label: &str, count: u64, rest: &str) -> String {
    let line = format!(
        "{prefix}{start:6.2}-{end:<7.2}  {label:<33}  {:>9}  {:>12}  {rest}",
        bytes(count),
        rate(count, end - start)
    );
    line.trim_end().to_owned()
}

/// Returns a rate in readable form.
pub(crate) fn rate(bytes: u64, seconds: f64) -> String {
    let bits = per_second(bytes, seconds);
    match bits {
        0.0..1e4 => format!("{bits:.0} bit/s"),
        1e4..1e6 => format!("{:.1} kbit/s", bits / 1e3),
        1e6..1e9 => format!("{:.1} Mbit/s", bits / 1e6),
        _ => format!("{:.2} Gbit/s", bits / 1e9),
    }
}

fn per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    }
}

fn path_json(path: &PathSample, seconds: f64) -> Value {
    json!({
        "local": path.local.to_string(),
        "remote": path.remote.to_string(),
        "state": path.state.name(),
        "primary": path.primary,
        "bytes": path.bytes,
        "bits_per_second": per_second(path.bytes, seconds),
        "cwnd_bytes": path.cwnd,
        "flight_bytes": path.flight,
        "rtt_ms": path.rtt_ms,
        "rttvar_ms": path.rttvar_ms,
        "min_rtt_ms": path.min_rtt_ms,
        "lost_chunks": path.losses.total(),
        "lost_by_verdict": {
            "congestion": path.losses.congestion,
            "transmission": path.losses.transmission,
            "unsure": path.losses.unsure,
        },
    })
}

fn interval_json(interval: &Interval) -> Value {
    let seconds = interval.end - interval.start;
    json!({
        "start": interval.start,
        "end": interval.end,
        "bytes": interval.bytes,
        "bits_per_second": per_second(interval.bytes, seconds),
        "retransmissions": interval.retransmissions,
        "timeouts": interval.timeouts,
        "paths": interval.paths.iter().map(|path| path_json(path, seconds)).collect::<Vec<_>>(),
    })
}

/// Returns an interval of an association.
pub(crate) fn news_json(association: usize, news: &News) -> Value {
    let (direction, mut value) = match news {
        News::Sent(interval) => ("sent", interval_json(interval)),
        News::PeerSent(interval) => ("peer sent", interval_json(interval)),
        News::Received(start, end, bytes) => (
            "received",
            json!({ "start": start, "end": end, "bytes": bytes, "bits_per_second": per_second(*bytes, end - start) }),
        ),
    };
    value["association"] = association.into();
    value["direction"] = direction.into();
    value
}

/// Returns what an association has done in all.
pub(crate) fn totals_json(peer: Option<&str>, totals: &Totals, failure: Option<&Failure>) -> Value {
    let received = |received: &super::protocol::Received| {
        json!({
            "bytes": received.bytes,
            "messages": received.messages,
            "seconds": received.seconds,
            "bits_per_second": per_second(received.bytes, received.seconds),
        })
    };
    json!({
        "peer": peer,
        "sent": totals.sent.as_ref().map(interval_json),
        "peer_received": totals.peer_received.as_ref().map(received),
        "received": totals.received.as_ref().map(received),
        "peer_sent": totals.peer_sent.as_ref().map(interval_json),
        "stopped": totals.stopped,
        "error": failure.map(|failure| failure.message.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_readable_units() {
        assert_eq!(rate(0, 0.0), "0 bit/s");
        assert_eq!(rate(125, 1.0), "1000 bit/s");
        assert_eq!(rate(12_500, 1.0), "100.0 kbit/s");
        assert_eq!(rate(12_500_000, 2.0), "50.0 Mbit/s");
        assert_eq!(rate(1_250_000_000, 1.0), "10.00 Gbit/s");
    }
}
