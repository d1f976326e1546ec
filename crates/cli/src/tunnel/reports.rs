//! Messages about what a peer asks for: a few at a time, so that it cannot fill a log.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::output;
use crate::transfer::console::Console;

/// Messages in a period; further ones are counted.
const MESSAGES: u32 = 10;
const PERIOD: Duration = Duration::from_secs(10);

/// The messages about one association. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Reports {
    console: Console,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    begin: Option<Instant>,
    printed: u32,
    left_out: u64,
}

impl State {
    /// Returns whether a message is printed, and the number of those before it that were not.
    fn take(&mut self, now: Instant) -> (bool, u64) {
        let mut before = 0;
        if self.begin.is_none_or(|begin| now.duration_since(begin) >= PERIOD) {
            before = std::mem::take(self).left_out;
            self.begin = Some(now);
        }
        let is_printed = self.printed < MESSAGES;
        if is_printed {
            self.printed += 1;
        } else {
            self.left_out += 1;
        }
        (is_printed, before)
    }
}

impl Reports {
    pub(crate) fn new(console: &Console) -> Self {
        Reports {
            console: console.clone(),
            state: Arc::default(),
        }
    }

    /// Prints a message, or counts it.
    pub(crate) fn note(&self, line: impl Into<String>) {
        let (is_printed, before) = self
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(Instant::now());
        self.note_left_out(before);
        if is_printed {
            self.console.note(line);
        }
    }

    /// The association has ended: prints what was counted.
    pub(crate) fn end(&self) {
        let state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.note_left_out(state.left_out);
    }

    fn note_left_out(&self, count: u64) {
        if count > 0 {
            self.console.note(format!(
                "{} of this kind left out",
                output::count(count, "more message")
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_beyond_some_are_counted_until_the_next_period() {
        let (mut state, start) = (State::default(), Instant::now());
        for n in 0..100 {
            let (is_printed, before) = state.take(start + PERIOD * n / 100);
            assert_eq!((is_printed, before), (n < MESSAGES, 0), "{n}");
        }
        assert_eq!(state.take(start + PERIOD), (true, 90));
        assert_eq!(state.take(start + PERIOD), (true, 0));
    }
}
