//! Which transfers have something that only one can have: a partial file of a receiver, or the place of the only transfer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use whimbrel::Association;

use super::paths;

/// A sender that has sent nothing for this long may have been killed: it is asked whether it answers.
const SILENT: Duration = Duration::from_secs(2);

/// Transfers by what they have: a file by its name and size, for example.
#[derive(Debug)]
pub(crate) struct Holders<K>(Mutex<BTreeMap<K, Holder>>);

impl<K> Default for Holders<K> {
    fn default() -> Self {
        Holders(Mutex::default())
    }
}

#[derive(Debug)]
struct Holder {
    association: Association,
    last: Arc<Activity>,
}

/// When data was last received, and whether another transfer takes the place of this one.
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

    /// Returns whether another transfer takes the place of this one.
    pub(crate) fn is_released(&self) -> bool {
        self.released.load(Ordering::Relaxed)
    }

    fn is_silent(&self) -> bool {
        lock(&self.at).elapsed() > SILENT
    }

    /// Aborts the transfer in favour of another one if its sender is silent.
    fn release(&self, association: &Association, reason: &str) {
        if self.is_silent() && !self.released.swap(true, Ordering::Relaxed) {
            association.abort(reason);
        }
    }
}

/// A mutex whose other holders do not leave anything half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Ord + Clone> Holders<K> {
    pub(super) fn insert(&self, key: K, association: &Association, last: &Arc<Activity>) -> Holding<'_, K> {
        self.insert_into(&mut lock(&self.0), key, association, last)
    }

    /// Does what `insert` does, unless another transfer has it.
    pub(crate) fn try_insert(&self, key: K, association: &Association, last: &Arc<Activity>) -> Option<Holding<'_, K>> {
        let mut holders = lock(&self.0);
        let is_free = !holders.contains_key(&key);
        is_free.then(|| self.insert_into(&mut holders, key, association, last))
    }

    fn insert_into(
        &self,
        holders: &mut BTreeMap<K, Holder>,
        key: K,
        association: &Association,
        last: &Arc<Activity>,
    ) -> Holding<'_, K> {
        let holder = Holder {
            association: association.clone(),
            last: last.clone(),
        };
        holders.insert(key.clone(), holder);
        Holding {
            holders: self,
            key,
            last: last.clone(),
        }
    }

    /// Returns the transfer that has this, if there is one.
    fn holder(&self, key: &K) -> Option<(Association, Arc<Activity>)> {
        let holders = lock(&self.0);
        let holder = holders.get(key)?;
        Some((holder.association.clone(), holder.last.clone()))
    }

    /// Aborts the transfer that has this if its sender is silent and does not answer. Returns whether there is one.
    pub(super) async fn release_silent(&self, key: &K) -> bool {
        let Some((association, last)) = self.holder(key) else {
            return false;
        };
        if last.is_silent() {
            // It may wait for this end, which hashes what it has.
            if paths::is_alive(&association).await {
                last.note();
            } else {
                last.release(&association, "another transfer continues the file");
            }
        }
        true
    }

    /// Returns whether the sender of the transfer that has this answers. If it does not, its transfer is aborted.
    pub(crate) async fn is_in_use(&self, key: &K) -> bool {
        let Some((association, last)) = self.holder(key) else {
            return false;
        };
        if paths::is_alive(&association).await {
            return true;
        }
        last.release(&association, "another transfer takes its place");
        false
    }
}

/// The entry of a transfer in [`Holders`].
pub(crate) struct Holding<'f, K: Ord> {
    holders: &'f Holders<K>,
    key: K,
    last: Arc<Activity>,
}

impl<K: Ord> Drop for Holding<'_, K> {
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
