//! A limit on how many of something exist at once.

use std::sync::Arc;

/// The free and the taken slots.
pub(crate) struct Slots {
    /// Each slot has a clone.
    taken: Arc<()>,
    limit: usize,
}

/// One of them, free again when it is dropped, also by a panic.
pub(crate) struct Slot {
    _taken: Arc<()>,
}

impl Slots {
    pub(crate) fn new(limit: usize) -> Self {
        let taken = Arc::new(());
        Slots { taken, limit }
    }

    /// Takes a slot, if one is free.
    pub(crate) fn take(&self) -> Option<Slot> {
        let slot = Slot {
            _taken: Arc::clone(&self.taken),
        };
        // The count includes `self.taken`. Threads that take at the same time may all be refused; the limit holds.
        (Arc::strong_count(&self.taken) <= self.limit + 1).then_some(slot)
    }
}
