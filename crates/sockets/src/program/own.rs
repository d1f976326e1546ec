//! Descriptors of this library among those of the program: its connections to the service. The program does not know of them, so that `close` and
//! `close_range` leave them open. The service has other descriptors under the same numbers.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::program::thread;

const NONE: i32 = -1;
/// Connections at most that are left open. Further ones, of as many threads at the same time, may be closed by the program.
const MOST: usize = 16;

static OWN: [AtomicI32; MOST] = [const { AtomicI32::new(NONE) }; MOST];

fn exchange(from: i32, to: i32) -> bool {
    OWN.iter().any(|place| {
        place
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    })
}

/// Notes a descriptor.
pub(crate) fn add(fd: i32) {
    exchange(NONE, fd);
}

/// Forgets a descriptor.
pub(crate) fn remove(fd: i32) {
    if fd != NONE && !thread::is_service() {
        exchange(fd, NONE);
    }
}

/// Whether a descriptor is one of this library.
pub(crate) fn has(fd: i32) -> bool {
    fd != NONE && !thread::is_service() && OWN.iter().any(|place| place.load(Ordering::Acquire) == fd)
}

/// Returns those between two numbers, in order.
pub(crate) fn between(first: u32, last: u32) -> Vec<u32> {
    if thread::is_service() {
        return Vec::new();
    }
    let all = OWN.iter().map(|place| place.load(Ordering::Acquire));
    let mut found: Vec<u32> = all.filter_map(|fd| u32::try_from(fd).ok()).collect();
    found.retain(|fd| (first..=last).contains(fd));
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_descriptors_are_known() {
        let far = 1 << 20;
        add(far + 5);
        add(far + 3);
        assert!(has(far + 3) && has(far + 5) && !has(far + 4) && !has(NONE));
        let from = far.cast_unsigned();
        assert_eq!(between(from, u32::MAX), [from + 3, from + 5]);
        assert_eq!(between(from + 4, from + 5), [from + 5]);
        remove(far + 3);
        remove(far + 5);
        assert!(between(from, u32::MAX).is_empty());
    }
}
