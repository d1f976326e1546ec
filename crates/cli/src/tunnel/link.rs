//! Packets and datagrams over an association: dropped, as a router does, if too much is waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use whimbrel::{Association, Message};

/// Bytes that may wait in the send buffer at least.
const LEAST_WAITING: u64 = 128 * 1024;
/// Time between two looks at the windows.
const LOOK: Duration = Duration::from_millis(20);

/// An association that takes as many packets as its paths carry. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Distinguishes it from others.
    pub(crate) number: u64,
    pub(crate) association: Association,
    room: Arc<Mutex<Room>>,
}

/// How much may be in the send buffer: what the windows of the paths carry, twice. More would only delay packets.
#[derive(Debug, Default)]
struct Room {
    looked: Option<Instant>,
    most: u64,
}

impl Link {
    pub(crate) fn new(association: Association) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Link {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            association,
            room: Arc::default(),
        }
    }

    fn has_room(&self) -> bool {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if room.looked.is_none_or(|at| now.duration_since(at) >= LOOK) {
            room.looked = Some(now);
            let windows: u64 = self.association.paths().iter().map(|path| path.cwnd).sum();
            room.most = windows.saturating_mul(2).max(LEAST_WAITING);
        }
        (self.association.buffered() as u64) < room.most
    }

    /// Sends a message if there is room. Returns whether it has been sent. The task that serves the association reports its end.
    pub(crate) fn offer(&self, message: impl FnOnce() -> Message) -> bool {
        self.has_room() && self.association.try_send(message()).is_ok()
    }
}
