//! Requests to stop: Ctrl-C, SIGTERM and SIGHUP. The first one ends a command in good order, a second one at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::output::{FAILED, INTERRUPTED, Outcome, fail};

/// Signals within this time after a request belong to it: some programs, such as `timeout`, signal a process and then its group.
const TOGETHER: Duration = Duration::from_millis(100);

/// A request has come.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Returns whether a request has come since [`on_request`].
pub(crate) fn is_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Counts requests.
#[derive(Default)]
struct Requests {
    count: u32,
    last: Option<Instant>,
}

impl Requests {
    /// A signal came. Returns the number of the request that it makes, if it makes one.
    fn on_signal(&mut self, now: Instant) -> Option<u32> {
        if self.last.is_some_and(|last| now.duration_since(last) < TOGETHER) {
            return None;
        }
        self.last = Some(now);
        self.count += 1;
        Some(self.count)
    }
}

/// Calls `act` with the number of each request, in a thread of its own. Once in a process.
///
/// # Errors
/// Returns an error if signals cannot be had.
pub(crate) fn on_request(mut act: impl FnMut(u32) + Send + 'static) -> Result<(), String> {
    let mut requests = Requests::default();
    let handle = move || {
        if let Some(number) = requests.on_signal(Instant::now()) {
            REQUESTED.store(true, Ordering::Relaxed);
            act(number);
        }
    };
    ctrlc::set_handler(handle).map_err(|error| format!("cannot listen for Ctrl-C: {error}"))
}

/// Returns a flag that the first request sets. The second one ends the process.
pub(crate) fn listen() -> Outcome<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&asked);
    on_request(move |number| match number {
        1 => set.store(true, Ordering::Relaxed),
        _ => std::process::exit(i32::from(INTERRUPTED)),
    })
    .map_err(|error| fail(FAILED, error))?;
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_come_together_are_one_request() {
        let (mut requests, start) = (Requests::default(), Instant::now());
        let mut at = |millis| requests.on_signal(start + Duration::from_millis(millis));
        assert_eq!([at(0), at(1), at(99)], [Some(1), None, None]);
        assert_eq!([at(150), at(151), at(400)], [Some(2), None, Some(3)]);
    }
}
