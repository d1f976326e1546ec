//! Events of the paths of an association.

use std::net::SocketAddr;
use std::time::Instant;

use tokio::sync::broadcast;
use whimbrel_control::Span;
use whimbrel_proto::{PathId, PathInfo, PathState};

/// Events that are kept for a reader that is late; older ones are dropped.
const KEPT: usize = 256;

/// A change of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathEvent {
    /// When it was noticed.
    pub time: Instant,
    /// The number of the path.
    pub path: PathId,
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// What has changed.
    pub change: PathChange,
}

/// What has changed about a path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum PathChange {
    /// It is new: an address of one of the ends was added (RFC 5061).
    Added,
    /// The peer has answered on it for the first time: from now on it may carry data (RFC 9260 §5.4).
    Confirmed,
    /// It works again after it was potentially failed or down.
    Up,
    /// Data goes elsewhere while another path is up (RFC 7829).
    PotentiallyFailed,
    /// Too many transmissions in a row were not answered (RFC 9260 §8.2).
    Down,
    /// It is the primary path now.
    PrimaryChanged,
    /// It is gone: an address of one of the ends was removed (RFC 5061). [`Down`](Self::Down) may come just before.
    Removed,
    /// A heartbeat that was sent by [`Association::ping`](crate::Association::ping) was answered.
    PingAnswered {
        /// The number that was given to `ping`.
        number: u32,
        /// The time from sending it to the answer.
        rtt: Span,
    },
}

impl std::fmt::Display for PathChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PathChange::Added => "added",
            PathChange::Confirmed => "confirmed",
            PathChange::Up => "up",
            PathChange::PotentiallyFailed => "potentially failed",
            PathChange::Down => "down",
            PathChange::PrimaryChanged => "primary",
            PathChange::Removed => "removed",
            PathChange::PingAnswered { .. } => "answered",
        })
    }
}

/// The path events of an association from [`Association::path_events`](crate::Association::path_events) on.
#[derive(Debug)]
pub struct PathEvents(pub(crate) broadcast::Receiver<PathEvent>);

impl PathEvents {
    /// Waits for the next event; `None` once the association is over. Of more than 256 events that were not read in time the oldest are
    /// left out. No event is lost if the returned future is dropped before it is ready.
    pub async fn next(&mut self) -> Option<PathEvent> {
        loop {
            match self.0.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// The paths of an association as its readers of events know them.
#[derive(Debug)]
pub(crate) struct PathWatch {
    sender: broadcast::Sender<PathEvent>,
    known: Vec<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    id: PathId,
    local: SocketAddr,
    remote: SocketAddr,
    state: PathState,
    primary: bool,
}

impl From<PathInfo> for Known {
    fn from(path: PathInfo) -> Self {
        Known {
            id: path.id,
            local: path.local,
            remote: path.remote,
            state: path.state,
            primary: path.primary,
        }
    }
}

impl PathWatch {
    pub(crate) fn new(paths: impl Iterator<Item = PathInfo>) -> Self {
        PathWatch {
            sender: broadcast::channel(KEPT).0,
            known: paths.map(Known::from).collect(),
        }
    }

    pub(crate) fn subscribe(&self) -> PathEvents {
        PathEvents(self.sender.subscribe())
    }

    /// Takes in the state that a path has come to; it may have changed again since.
    pub(crate) fn on_state(&mut self, time: Instant, id: PathId, state: PathState) {
        let Some(known) = self.known.iter_mut().find(|known| known.id == id) else {
            return;
        };
        let before = std::mem::replace(&mut known.state, state);
        let known = *known;
        if let Some(change) = change(before, state) {
            self.report(time, known, change);
        }
    }

    /// Takes in the answer to a ping.
    pub(crate) fn on_ping_answer(&self, time: Instant, id: PathId, number: u32, rtt: Span) {
        if let Some(known) = self.known.iter().find(|known| known.id == id) {
            self.report(time, *known, PathChange::PingAnswered { number, rtt });
        }
    }

    /// Takes in the paths that there are now.
    pub(crate) fn on_paths(&mut self, time: Instant, paths: impl Iterator<Item = PathInfo>) {
        let now: Vec<Known> = paths.map(Known::from).collect();
        let before = std::mem::replace(&mut self.known, now.clone());
        // A number is used again for other addresses (`docs/decisions/0016-paths-keep-their-numbers.md`); a peer behind a translator
        // may change its port on the same path.
        let same = |a: &Known, b: &Known| a.id == b.id && a.local == b.local && a.remote.ip() == b.remote.ip();
        for gone in before.iter().filter(|old| !now.iter().any(|new| same(old, new))) {
            self.report(time, *gone, PathChange::Removed);
        }
        for path in now {
            match before.iter().find(|old| same(old, &path)) {
                None => self.report(time, path, PathChange::Added),
                Some(old) => {
                    if let Some(change) = change(old.state, path.state) {
                        self.report(time, path, change);
                    }
                }
            }
            if path.primary && !before.iter().any(|old| old.primary && same(old, &path)) {
                self.report(time, path, PathChange::PrimaryChanged);
            }
        }
    }

    fn report(&self, time: Instant, path: Known, change: PathChange) {
        // An error says that there is no reader at the moment.
        let _ = self.sender.send(PathEvent {
            time,
            path: path.id,
            local: path.local,
            remote: path.remote,
            change,
        });
    }
}

fn change(before: PathState, now: PathState) -> Option<PathChange> {
    if before == now {
        return None;
    }
    Some(match now {
        PathState::Active if before == PathState::Unconfirmed => PathChange::Confirmed,
        PathState::Active => PathChange::Up,
        PathState::PotentiallyFailed => PathChange::PotentiallyFailed,
        PathState::Inactive => PathChange::Down,
        // It has to be verified again.
        PathState::Unconfirmed => return None,
    })
}
