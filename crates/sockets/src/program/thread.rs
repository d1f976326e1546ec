//! Which thread is that of the service.

use std::cell::Cell;

thread_local! {
    static IS_SERVICE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is the thread of the service, whose descriptors are its own.
pub(crate) fn is_service() -> bool {
    IS_SERVICE.get()
}

/// Makes this thread that of the service.
pub(crate) fn become_service() {
    IS_SERVICE.set(true);
}
