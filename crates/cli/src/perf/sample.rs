//! What an association and its paths have done in an interval of time.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use whimbrel::{Association, JudgedLosses, PathId, PathState};

/// What one end has sent in an interval, and the state of its paths at the end of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    /// Seconds since the start.
    pub(crate) start: f64,
    pub(crate) end: f64,
    /// User data acknowledged by the peer.
    pub(crate) bytes: u64,
    /// User data received.
    #[serde(default)]
    pub(crate) received: u64,
    pub(crate) retransmissions: u64,
    pub(crate) timeouts: u64,
    pub(crate) paths: Vec<PathSample>,
}

/// A path of [`Interval`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PathSample {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) state: State,
    pub(crate) primary: bool,
    /// Data acknowledged, with chunk headers.
    pub(crate) bytes: u64,
    pub(crate) cwnd: u64,
    pub(crate) flight: u64,
    pub(crate) rtt_ms: Option<f64>,
    pub(crate) rttvar_ms: f64,
    pub(crate) min_rtt_ms: Option<f64>,
    pub(crate) losses: Losses,
}

/// DATA chunks declared lost, by the verdict on the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Losses {
    pub(crate) congestion: u64,
    pub(crate) transmission: u64,
    pub(crate) unsure: u64,
}

/// The state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    Unconfirmed,
    Active,
    PotentiallyFailed,
    Inactive,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Unconfirmed => "unconfirmed",
            State::Active => "active",
            State::PotentiallyFailed => "potentially failed",
            State::Inactive => "failed",
        }
    }
}

impl From<PathState> for State {
    fn from(state: PathState) -> Self {
        match state {
            PathState::Unconfirmed => State::Unconfirmed,
            PathState::Active => State::Active,
            PathState::PotentiallyFailed => State::PotentiallyFailed,
            PathState::Inactive => State::Inactive,
        }
    }
}

impl Losses {
    pub(crate) fn total(self) -> u64 {
        self.congestion
            .saturating_add(self.transmission)
            .saturating_add(self.unsure)
    }

    /// Returns the difference; counters of a path that was restarted begin at zero again.
    fn since(self, before: Losses) -> Losses {
        Losses {
            congestion: self.congestion.saturating_sub(before.congestion),
            transmission: self.transmission.saturating_sub(before.transmission),
            unsure: self.unsure.saturating_sub(before.unsure),
        }
    }
}

impl From<JudgedLosses> for Losses {
    fn from(judged: JudgedLosses) -> Self {
        Losses {
            congestion: judged.congestion,
            transmission: judged.transmission,
            unsure: judged.unsure,
        }
    }
}

/// Takes samples of an association.
#[derive(Debug)]
pub(crate) struct Sampler {
    start: Instant,
    last: Counters,
    first: Counters,
    /// The paths of the last sample, as an association that has ended has none.
    paths: Vec<(PathKey, PathSample)>,
}

#[derive(Clone, Debug, Default)]
struct Counters {
    at: f64,
    bytes: u64,
    received: u64,
    retransmissions: u64,
    timeouts: u64,
    paths: BTreeMap<PathKey, (u64, Losses)>,
}

/// A path for as long as it is the same: its number is used again for other addresses, and a NAT changes ports.
type PathKey = (PathId, IpAddr, IpAddr);

impl Sampler {
    pub(crate) fn new(association: &Association) -> Self {
        let mut sampler = Sampler {
            start: Instant::now(),
            last: Counters::default(),
            first: Counters::default(),
            paths: Vec::new(),
        };
        sampler.take(association);
        sampler.last.at = 0.0;
        sampler.first = sampler.last.clone();
        sampler
    }

    /// Returns what has happened since the last call.
    pub(crate) fn take(&mut self, association: &Association) -> Interval {
        let before = self.last.clone();
        self.read(association);
        self.since(&before)
    }

    /// Returns what has happened since the beginning.
    pub(crate) fn total(&mut self, association: &Association) -> Interval {
        self.read(association);
        self.since(&self.first)
    }

    /// Returns retransmissions and timeouts since the beginning.
    pub(crate) fn repeats(&self) -> (u64, u64) {
        let since = |now: u64, first: u64| now.saturating_sub(first);
        (
            since(self.last.retransmissions, self.first.retransmissions),
            since(self.last.timeouts, self.first.timeouts),
        )
    }

    /// Returns the bytes acknowledged since the beginning, unless the association has ended.
    pub(crate) fn acked(&self, association: &Association) -> Option<u64> {
        let stats = association.stats()?;
        Some(stats.data_bytes_acked.saturating_sub(self.first.bytes))
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Reads the counters, unless the association has ended.
    fn read(&mut self, association: &Association) {
        let paths = association.paths();
        self.last.at = self.start.elapsed().as_secs_f64();
        if let Some(stats) = association.stats() {
            self.last.bytes = stats.data_bytes_acked;
            self.last.received = stats.bytes_delivered;
            self.last.retransmissions = stats.retransmissions;
            self.last.timeouts = stats.timeouts;
        }
        if paths.is_empty() {
            return;
        }
        let millis = |nanos: u64| nanos as f64 / 1e6;
        self.paths.clear();
        for path in paths {
            let losses = Losses::from(path.quality.judged);
            let key = (path.id, path.local.ip(), path.remote.ip());
            self.last.paths.insert(key, (path.delivered, losses));
            let sample = PathSample {
                local: path.local,
                remote: path.remote,
                state: path.state.into(),
                primary: path.primary,
                bytes: path.delivered,
                cwnd: path.cwnd,
                flight: path.flight,
                rtt_ms: path.srtt.map(|srtt| millis(srtt.as_nanos())),
                rttvar_ms: millis(path.rttvar.as_nanos()),
                min_rtt_ms: path.min_rtt.map(|rtt| millis(rtt.as_nanos())),
                losses,
            };
            self.paths.push((key, sample));
        }
    }

    fn since(&self, before: &Counters) -> Interval {
        let now = &self.last;
        let paths = self.paths.iter().map(|(key, path)| {
            let (bytes, losses) = before.paths.get(key).copied().unwrap_or_default();
            PathSample {
                bytes: path.bytes.saturating_sub(bytes),
                losses: path.losses.since(losses),
                ..path.clone()
            }
        });
        Interval {
            start: before.at,
            end: now.at,
            bytes: now.bytes.saturating_sub(before.bytes),
            received: now.received.saturating_sub(before.received),
            retransmissions: now.retransmissions.saturating_sub(before.retransmissions),
            timeouts: now.timeouts.saturating_sub(before.timeouts),
            paths: paths.collect(),
        }
    }
}
