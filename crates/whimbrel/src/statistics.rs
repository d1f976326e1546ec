//! Counters and paths of an association at regular times.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::{Interval, MissedTickBehavior};
use whimbrel_proto::{AssocId, AssociationStats, PathInfo};

use crate::opened::Wait;
use crate::shared::{Progress, Shared, Signals};

/// The state of an association at one time.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// When it was taken.
    pub time: Instant,
    /// Counters since the association began.
    pub stats: AssociationStats,
    /// The paths: state, windows, round-trip times, and how well each does.
    pub paths: Vec<PathInfo>,
    /// Bytes of messages that were taken and are not acknowledged yet.
    pub buffered: usize,
}

/// Snapshots of an association at regular times ([`Association::statistics`](crate::Association::statistics)). It does not keep the
/// association alive.
pub struct Statistics {
    shared: Arc<Shared>,
    id: AssocId,
    signals: Arc<Signals>,
    period: Duration,
    /// From the first poll on, which is within a runtime.
    interval: Option<Interval>,
    end: Option<Wait>,
    is_over: bool,
}

impl std::fmt::Debug for Statistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Statistics")
            .field("period", &self.period)
            .finish_non_exhaustive()
    }
}

impl Statistics {
    pub(crate) fn new(shared: Arc<Shared>, id: AssocId, signals: Arc<Signals>, period: Duration) -> Self {
        Statistics {
            shared,
            id,
            signals,
            period: period.max(Duration::from_millis(1)),
            interval: None,
            end: None,
            is_over: false,
        }
    }

    /// Waits for the next snapshot: the first one is of now, the last one of the end of the association. Then `None`.
    ///
    /// # Cancel safety
    /// No snapshot is lost if the returned future is dropped before it is ready.
    pub async fn next(&mut self) -> Option<Snapshot> {
        std::future::poll_fn(|cx| self.poll_snapshot(cx)).await
    }

    fn poll_snapshot(&mut self, cx: &mut Context<'_>) -> Poll<Option<Snapshot>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        loop {
            let (is_closed, snapshot) = self.take();
            if is_closed {
                self.is_over = true;
                return Poll::Ready(snapshot);
            }
            let interval = self.interval.get_or_insert_with(|| {
                let mut interval = tokio::time::interval(self.period);
                interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
                interval
            });
            if interval.poll_tick(cx).is_ready() {
                return Poll::Ready(snapshot);
            }
            let end = self.end.get_or_insert_with(|| {
                let signals = self.signals.clone();
                Box::pin(async move { signals.progress.notified().await })
            });
            // A new wait is looked at twice: what comes between is not missed.
            if end.as_mut().poll(cx).is_ready() {
                self.end = None;
            } else if !self.take().0 {
                return Poll::Pending;
            }
        }
    }

    /// Whether the association has ended, and its state unless it is forgotten.
    fn take(&self) -> (bool, Option<Snapshot>) {
        let time = self.shared.clock.instant(self.shared.now());
        let state = self.shared.lock();
        let slot = state.slots.get(&self.id);
        let is_open = slot.is_some_and(|slot| !matches!(slot.progress, Progress::Closed(_)));
        let association = state.endpoint.association(self.id);
        let snapshot = association.zip(time).map(|(association, time)| Snapshot {
            time,
            stats: association.stats(),
            paths: association.paths().collect(),
            buffered: association.buffered_send(),
        });
        (!is_open || state.stopped.is_some() || snapshot.is_none(), snapshot)
    }
}

impl futures_core::Stream for Statistics {
    type Item = Snapshot;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Snapshot>> {
        self.get_mut().poll_snapshot(cx)
    }
}
