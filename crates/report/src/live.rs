//! What the events of a live transfer have beyond those of a run: the clock, the addresses of paths, windows and round-trip times.

use std::collections::BTreeMap;

use crate::line::{Data, End, nanos};

/// The congestion control of a path after it has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) at: i64,
    pub(crate) end: End,
    pub(crate) path: u32,
    /// Bytes, as the other two.
    pub(crate) cwnd: f64,
    /// None before the first reduction.
    pub(crate) ssthresh: Option<f64>,
    pub(crate) flight: f64,
}

/// A measured round-trip time, in milliseconds, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RoundTrip {
    pub(crate) at: i64,
    pub(crate) end: End,
    pub(crate) path: u32,
    pub(crate) sample: f64,
    pub(crate) smoothed: f64,
    pub(crate) timeout: f64,
}

/// A live transfer as `--record` wrote it.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// When time 0 was, in milliseconds since 1970.
    pub(crate) began: f64,
    /// The time of the last event, in nanoseconds.
    pub(crate) last: i64,
    /// What to add to the times of each node, in nanoseconds.
    shifts: BTreeMap<usize, i64>,
    pub(crate) windows: Vec<Window>,
    pub(crate) round_trips: Vec<RoundTrip>,
    /// The addresses of both ends of each path.
    paths: BTreeMap<(End, u32), [String; 2]>,
}

/// The `ssthresh` of an event that stands for "none yet".
const UNLIMITED: f64 = i64::MAX as f64;
/// Milliseconds since 1970 that a browser takes for a date.
const LATEST_DATE: f64 = 8.64e15;

impl Live {
    /// A node begins to record: its clock showed `time` milliseconds at `unix_ms` since 1970. The first one sets time 0.
    pub(crate) fn start(live: &mut Option<Live>, time: f64, node: usize, unix_ms: f64) {
        let began = (unix_ms - time).clamp(-LATEST_DATE, LATEST_DATE);
        let live = live.get_or_insert_with(|| Live {
            began,
            ..Live::default()
        });
        live.shifts.insert(node, nanos(began - live.began));
    }

    /// Returns a node's time on the clock of all nodes.
    pub(crate) fn on_time(&mut self, node: usize, at: i64) -> i64 {
        let at = at + self.shifts.get(&node).copied().unwrap_or(0);
        self.last = self.last.max(at);
        at
    }

    /// A window or a round-trip time.
    pub(crate) fn on_metrics(&mut self, at: i64, end: End, data: &Data<'_>) {
        let path = data.path.unwrap_or(0);
        match data.latest_rtt {
            Some(sample) => self.round_trips.push(RoundTrip {
                at,
                end,
                path,
                sample,
                smoothed: data.smoothed_rtt,
                timeout: data.retransmission_timeout,
            }),
            None => self.windows.push(Window {
                at,
                end,
                path,
                cwnd: data.congestion_window,
                ssthresh: data.ssthresh.filter(|bytes| *bytes < UNLIMITED),
                flight: data.bytes_in_flight,
            }),
        }
    }

    /// The addresses of a path.
    pub(crate) fn on_path(&mut self, end: End, data: &Data<'_>) {
        if let Some(path) = data.path {
            let addrs = [&data.local, &data.remote].map(|addr| addr.to_string());
            self.paths.insert((end, path), addrs);
        }
    }

    /// Brings windows and round-trip times into the order of time.
    pub(crate) fn sort(&mut self) {
        self.windows.sort_by_key(|event| event.at);
        self.round_trips.sort_by_key(|event| event.at);
    }

    /// Returns what a path is called: the IP addresses of both ends, with the ports if two paths have the same.
    pub(crate) fn path_name(&self, end: End, path: u32) -> String {
        let Some([local, remote]) = self.paths.get(&(end, path)) else {
            return format!("path {path}");
        };
        let same = |other: &[String; 2]| ip(&other[0]) == ip(local) && ip(&other[1]) == ip(remote);
        let of_end = self.paths.range((end, 0)..=(end, u32::MAX));
        if of_end.filter(|(_, other)| same(other)).count() > 1 {
            format!("{local} to {remote}")
        } else {
            format!("{} to {}", ip(local), ip(remote))
        }
    }
}

/// The IP address in an address with a port.
fn ip(addr: &str) -> &str {
    let ip = addr.rsplit_once(':').map_or(addr, |(ip, _)| ip);
    ip.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(live: &mut Live, path: u32, local: &str, remote: &str) {
        let text = format!(r#"{{"path":{path},"local":"{local}","remote":"{remote}"}}"#);
        live.on_path((1, 2), &serde_json::from_str(&text).expect("the data of an event"));
    }

    #[test]
    fn paths_are_named_by_their_ip_addresses_or_by_ports_if_they_share_these() {
        let mut live = Live::default();
        assigned(&mut live, 0, "10.0.0.1:7", "[2001:db8::1]:9899");
        assert_eq!(live.path_name((1, 2), 0), "10.0.0.1 to 2001:db8::1");
        assert_eq!(live.path_name((1, 3), 0), "path 0", "of another node");
        assigned(&mut live, 1, "10.0.0.1:8", "[2001:db8::1]:9899");
        assert_eq!(live.path_name((1, 2), 0), "10.0.0.1:7 to [2001:db8::1]:9899");
    }

    #[test]
    fn times_of_all_nodes_are_on_the_clock_of_the_first() {
        let mut live = None;
        // Node 1 counts from 100.0 s since 1970, node 2 from 100.5 s.
        Live::start(&mut live, 5.0, 1, 100_005.0);
        Live::start(&mut live, 1.0, 2, 100_501.0);
        let mut live = live.expect("it has begun");
        assert_eq!(live.on_time(1, 7_000_000), 7_000_000);
        assert_eq!(live.on_time(2, 7_000_000), 507_000_000);
        assert_eq!((live.began, live.last), (100_000.0, 507_000_000));
    }
}
