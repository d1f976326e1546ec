//! Quantities used by the couplings: windows divided by round-trip times.

use crate::multipath::PathView;

/// Returns the window in bytes, at least one.
pub(super) fn window(path: &PathView) -> f64 {
    path.cwnd.max(1) as f64
}

/// Returns the round-trip time in seconds, at least one microsecond.
pub(super) fn round(path: &PathView) -> f64 {
    path.round().as_secs_f64().max(1e-6)
}

/// Returns the rate in bytes per second: x = w / rtt.
pub(super) fn rate(path: &PathView) -> f64 {
    window(path) / round(path)
}

/// Returns the paths to be counted: those in use, and the path in question.
pub(super) fn counted(path: usize, paths: &[PathView]) -> impl Iterator<Item = &PathView> {
    paths
        .iter()
        .enumerate()
        .filter(move |(index, view)| view.usable || *index == path)
        .map(|(_, view)| view)
}

/// Returns whether no other path is counted: then the standard's rules apply, including its floor of four units.
pub(super) fn is_alone(path: usize, paths: &[PathView]) -> bool {
    counted(path, paths).count() < 2
}

/// Returns the sum of the rates of the counted paths.
pub(super) fn total_rate(path: usize, paths: &[PathView]) -> f64 {
    counted(path, paths).map(rate).sum()
}

/// Two paths for tests, with windows of 20 and 10 units of 1000 bytes and round-trip times of 100 and 25 ms: 200 and
/// 400 units per second.
#[cfg(test)]
pub(super) fn two() -> [PathView; 2] {
    use crate::Span;
    [(20, 100), (10, 25)].map(|(cwnd, srtt)| PathView {
        usable: true,
        open: true,
        cwnd: cwnd * 1000,
        ssthresh: cwnd * 1000,
        flight: 0,
        unit: 1000,
        srtt: Some(Span::from_millis(srtt)),
        rttvar: Span::ZERO,
        min_rtt: None,
        rto: Span::from_secs(1),
        loss: 0.0,
        errors: 0,
        last_hop: None,
    })
}
