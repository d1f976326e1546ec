//! Response functions of congestion control.

use whimbrel_sim::config::{LossConfig, SimConfig};

/// Bytes of the IP and TCP headers, without options.
const TCP_HEADERS: f64 = 40.0;
/// Bytes of the IP, SCTP and DATA headers.
const SCTP_HEADERS: f64 = 48.0;

/// Returns the packets per second of TCP Reno that loses packets with probability `p` (Padhye, Firoiu, Towsley and Kurose 1998, equation 32):
/// round trips of `rtt` seconds, a window that grows with an acknowledgement for each `b` packets, a first timeout of `t0` seconds, a window of at most `most` packets.
fn pftk(p: f64, rtt: f64, b: f64, t0: f64, most: f64) -> f64 {
    let offset = (2.0 + b) / (3.0 * b);
    let free = offset + (8.0 * (1.0 - p) / (3.0 * b * p) + offset * offset).sqrt();
    let window = free.min(most);
    // Equation 24: a loss in a window of w packets ends in a timeout.
    let lost = |w: f64| 1.0 - (1.0 - p).powf(w);
    let timeout = if window <= 3.0 {
        1.0
    } else {
        let three = lost(3.0);
        (three * (1.0 + (1.0 - three) * lost(window - 3.0)) / lost(window)).min(1.0)
    };
    // Equation 29: timeouts double six times.
    let backoff: f64 = 1.0 + (0..6).map(|i| f64::from(1 << i) * p.powi(i + 1)).sum::<f64>();
    let packets = (1.0 - p) / p + window + timeout / (1.0 - p);
    let rounds = if free < most {
        b / 2.0 * window + 1.0
    } else {
        b / 8.0 * window + (1.0 - p) / (p * window) + 2.0
    };
    packets / (rtt * rounds + timeout * t0 * backoff / (1.0 - p))
}

/// Returns the mean window of CUBIC in packets where every 1/p-th packet is lost: the larger of RFC 9438, section 5.1, with C = 0.4 and
/// beta = 0.7, and of Reno's window, which CUBIC follows where it is larger (section 4.3; AIMD(1, 0.5) with equation 2 of section 5.1).
fn cubic_window(p: f64, rtt: f64) -> f64 {
    const C: f64 = 0.4;
    const BETA: f64 = 0.7;
    let cubic = (C * (3.0 + BETA) / (4.0 * (1.0 - BETA))).powf(0.25) * (rtt / p).powf(0.75);
    cubic.max((1.5 / p).sqrt())
}

/// The one-link path of a flow: its round trip for full packets without queueing, and the user data of a packet.
struct Path {
    rtt: f64,
    payload: f64,
    loss: f64,
}

/// Returns the path of the first flow over the first link.
fn path(config: &SimConfig, headers: f64) -> Option<Path> {
    let [link, _] = config.link.first()?.directions();
    let loss = link.loss.iter().find_map(|loss| match *loss {
        LossConfig::Bernoulli { rate } => Some(rate),
        LossConfig::Periodic { every, .. } => Some(1.0 / every as f64),
        _ => None,
    })?;
    let size = 1500.0;
    let sent = size * 8.0 / link.rate?.as_bps() as f64;
    Some(Path {
        rtt: 2.0 * link.delay.as_secs_f64() + sent,
        payload: size - headers,
        loss,
    })
}

/// Returns the goodput of a TCP flow with random losses, in Mbit/s: of the packets that PFTK sends, those that arrive.
pub(super) fn pftk_mbps(config: &SimConfig) -> Option<f64> {
    let tcp = config.flow.first()?.tcp_parameters();
    let options = if tcp.timestamps { 12.0 } else { 0.0 };
    let path = path(config, TCP_HEADERS + options)?;
    let t0 = tcp.rto_min.as_secs_f64().max(path.rtt);
    let most = f64::from(tcp.recv_buffer) / path.payload;
    // Where the window grows with acknowledged bytes (RFC 3465), a delayed acknowledgement does not slow it down.
    let b = if tcp.count_acks {
        f64::from(tcp.ack_frequency)
    } else {
        1.0
    };
    let rate = pftk(path.loss, path.rtt, b, t0, most);
    Some(rate * (1.0 - path.loss) * path.payload * 8.0 / 1e6)
}

/// Returns the goodput of a CUBIC association with periodic losses, in Mbit/s.
pub(super) fn cubic_mbps(config: &SimConfig) -> Option<f64> {
    let path = path(config, SCTP_HEADERS)?;
    let window = cubic_window(path.loss, path.rtt);
    Some(window * (1.0 - path.loss) * path.payload * 8.0 / path.rtt / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_losses_give_the_square_root_law() {
        // Equation 20: sqrt(3 / 2bp) / RTT without timeouts.
        let p: f64 = 1e-6;
        for b in [1.0, 2.0] {
            let simple = (1.5 / (b * p)).sqrt() / 0.1;
            let full = pftk(p, 0.1, b, 1.0, 1e9);
            assert!((full / simple - 1.0).abs() < 0.02, "{full} {simple}");
        }
    }

    #[test]
    fn a_small_window_limits_the_rate() {
        // Two windows a round trip are never reached, one almost is.
        let rate = pftk(1e-6, 0.1, 2.0, 1.0, 20.0);
        assert!((rate / 200.0 - 1.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn many_losses_are_dominated_by_timeouts() {
        // Computed by hand for p = 0.5, b = 1: window 1 + sqrt(8/3 + 1) = 2.915, below 4, so every loss ends in a timeout; 1 + 0.5 + 0.5 +
        // ... of back-off: 4; (1 + 2.915 + 2) / (0.1 (1.457 + 1) + 2 x 4).
        let rate = pftk(0.5, 0.1, 1.0, 1.0, 1e9);
        assert!((rate - 5.915 / 8.2457).abs() < 1e-3, "{rate}");
    }

    #[test]
    fn cubic_has_the_windows_of_the_rfcs_table() {
        // RFC 9438, Table 1 (RTT 0.1 s): 1e-4 gives 187, 1e-5 1054, 1e-6 5926 packets; 1e-2 gives 12 as Reno.
        for (p, window) in [(1e-2, 12.0), (1e-4, 187.0), (1e-5, 1054.0), (1e-6, 5926.0)] {
            let found = cubic_window(p, 0.1);
            assert!((found - window).abs() < 0.6, "{p}: {found}");
        }
    }
}
