//! Events of the paths of an association.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::broadcast;
use whimbrel_control::Span;
use whimbrel_proto::{PathId, PathInfo, PathState};

use crate::transport::Trouble;

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
    /// The network reported that a packet to the peer's address did not arrive (ICMP). Little else follows from it, because anyone could
    /// forge it: whether the path works is found by its own timers. At most one such event a second and path.
    /// [`TooLong`](Trouble::TooLong) lowers the MTU of the path if it quotes the association's Verification Tag.
    Trouble(Trouble),
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
            PathChange::Trouble(trouble) => return trouble.fmt(f),
            PathChange::Removed => "removed",
            PathChange::PingAnswered { .. } => "answered",
        })
    }
}

/// The path events of an association from [`Association::path_events`](crate::Association::path_events) on.
pub struct PathEvents {
    /// `None` while `next` has it.
    receiver: Option<broadcast::Receiver<PathEvent>>,
    next: Option<Next>,
}

type Next = Pin<Box<dyn Future<Output = (Option<PathEvent>, broadcast::Receiver<PathEvent>)> + Send + Sync>>;

impl std::fmt::Debug for PathEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PathEvents").finish_non_exhaustive()
    }
}

impl futures_core::Stream for PathEvents {
    type Item = PathEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<PathEvent>> {
        self.get_mut().poll_event(cx)
    }
}

impl PathEvents {
    fn new(receiver: broadcast::Receiver<PathEvent>) -> Self {
        PathEvents {
            receiver: Some(receiver),
            next: None,
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<PathEvent>> {
        if let Some(mut receiver) = self.receiver.take() {
            self.next = Some(Box::pin(async move { (next(&mut receiver).await, receiver) }));
        }
        let Some(waiting) = &mut self.next else {
            return Poll::Ready(None);
        };
        let (event, receiver) = std::task::ready!(waiting.as_mut().poll(cx));
        (self.receiver, self.next) = (Some(receiver), None);
        Poll::Ready(event)
    }

    /// Waits for the next event; `None` once the association is over. Of more than 256 events that were not read in time the oldest are
    /// left out.
    ///
    /// # Cancel safety
    /// No event is lost if the returned future is dropped before it is ready.
    pub async fn next(&mut self) -> Option<PathEvent> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }
}

async fn next(receiver: &mut broadcast::Receiver<PathEvent>) -> Option<PathEvent> {
    loop {
        match receiver.recv().await {
            Ok(event) => return Some(event),
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return None,
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
    /// When the network last reported a packet that did not arrive.
    trouble: Option<Instant>,
}

/// Time between two reports of the network that are passed on.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(1);

impl From<PathInfo> for Known {
    fn from(path: PathInfo) -> Self {
        Known {
            id: path.id,
            local: path.local,
            remote: path.remote,
            state: path.state,
            primary: path.primary,
            trouble: None,
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
        PathEvents::new(self.sender.subscribe())
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

    /// Takes in what the network reported about a packet to `remote`.
    pub(crate) fn on_trouble(&mut self, time: Instant, remote: SocketAddr, trouble: Trouble) {
        let is_due = |known: &Known| {
            let last = known.trouble.map(|last| time.saturating_duration_since(last));
            known.remote == remote && last.is_none_or(|after| after >= TROUBLE_INTERVAL)
        };
        let mut due = Vec::new();
        for known in self.known.iter_mut().filter(|known| is_due(known)) {
            known.trouble = Some(time);
            due.push(*known);
        }
        for known in due {
            self.report(time, known, PathChange::Trouble(trouble));
        }
    }

    /// Takes in the paths that there are now.
    pub(crate) fn on_paths(&mut self, time: Instant, paths: impl Iterator<Item = PathInfo>) {
        let mut now: Vec<Known> = paths.map(Known::from).collect();
        // A number is used again for other addresses (`docs/decisions/0016-paths-keep-their-numbers.md`); a peer behind a translator
        // may change its port on the same path.
        let same = |a: &Known, b: &Known| a.id == b.id && a.local == b.local && a.remote.ip() == b.remote.ip();
        for path in &mut now {
            path.trouble = self
                .known
                .iter()
                .find(|old| same(old, path))
                .and_then(|old| old.trouble);
        }
        let before = std::mem::replace(&mut self.known, now.clone());
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
