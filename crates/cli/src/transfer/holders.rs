//! Which transfers have which partial files of a receiver.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use whimbrel::Association;

use super::paths;

/// A sender that has sent nothing for this long may have been killed: it is asked whether it answers.
const SILENT: Duration = Duration::from_secs(2);

/// Transfers that have a file, by its name and size.
#[derive(Debug, Default)]
pub(super) struct Holders(Mutex<BTreeMap<(String, u64), Holder>>);

#[derive(Debug)]
struct Holder {
    association: Association,
    last: Arc<Activity>,
}

/// When data was last received, and whether another transfer continues.
#[derive(Debug)]
pub(crate) struct Activity {
    at: Mutex<Instant>,
    released: AtomicBool,
}

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Activity {
            at: Mutex::new(Instant::now()),
            released: AtomicBool::new(false),
        })
    }

    pub(super) fn note(&self) {
        *lock(&self.at) = Instant::now();
    }

    /// Returns whether another transfer continues the file.
    pub(super) fn is_released(&self) -> bool {
        self.released.load(Ordering::Relaxed)
    }

    fn is_silent(&self) -> bool {
        lock(&self.at).elapsed() > SILENT
    }
}

/// A mutex whose other holders do not leave anything half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Holders {
    pub(super) fn insert(&self, key: (String, u64), association: &Association, last: &Arc<Activity>) -> Holding<'_> {
        let holder = Holder {
            association: association.clone(),
            last: last.clone(),
        };
        lock(&self.0).insert(key.clone(), holder);
        Holding {
            holders: self,
            key,
            last: last.clone(),
        }
    }

    /// Aborts the transfer that has this file if its sender is silent and does not answer. Returns whether there is one.
    pub(super) async fn release_silent(&self, key: &(String, u64)) -> bool {
        let holder = lock(&self.0)
            .get(key)
            .map(|holder| (holder.association.clone(), holder.last.clone()));
        let Some((association, last)) = holder else {
            return false;
        };
        if last.is_silent() {
            // It may wait for this end, which hashes what it has.
            if paths::is_alive(&association).await {
                last.note();
            } else if last.is_silent() && !last.released.swap(true, Ordering::Relaxed) {
                association.abort("another transfer continues the file");
            }
        }
        true
    }
}

/// The entry of a transfer in [`Holders`].
pub(super) struct Holding<'f> {
    holders: &'f Holders,
    key: (String, u64),
    last: Arc<Activity>,
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        let mut holders = lock(&self.holders.0);
        // The transfer that continues may have it already.
        if holders
            .get(&self.key)
            .is_some_and(|holder| Arc::ptr_eq(&holder.last, &self.last))
        {
            holders.remove(&self.key);
        }
    }
}
