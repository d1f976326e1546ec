//! Lines and progress bars of a transfer. Threads write them, so that an output that is closed, full, or not read has no effect on
//! the transfer. The end of the program waits for lines of results as long as the output takes some; those that are lost are counted.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use whimbrel_scenario::{visible, visible_lines};

use crate::output::count;

/// Bytes of lines that wait for a slow output; further lines are dropped.
const WAITING_RESULTS: usize = 64 << 20;
const WAITING_NOTES: usize = 256 << 10;
/// The last lines, which a live view shows.
const RECENT_LINES: usize = 256;
/// How long the end of the program waits for an output that takes nothing.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same for standard error, and after Ctrl-C.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Standard output, standard error, and progress bars on the latter if it is a terminal.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    bars: MultiProgress,
    out: Arc<Queue>,
    err: Arc<Queue>,
    /// The last lines, if they wait for the end of a live view.
    recent: Arc<Mutex<Option<VecDeque<String>>>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Output {
    Out,
    Err,
}

/// Lines that wait for an output.
#[derive(Debug)]
struct Queue {
    state: Mutex<Waiting>,
    changed: Condvar,
    /// The most bytes that wait.
    room: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<String>,
    bytes: usize,
    /// A live view has the terminal.
    is_held: bool,
    /// A line has been taken out and is being written.
    is_writing: bool,
    /// Lines that were taken out.
    taken: u64,
    /// Lines for which there was no room.
    dropped: u64,
}

impl Waiting {
    /// Lines that have not been written.
    fn unwritten(&self) -> u64 {
        self.lines.len() as u64 + u64::from(self.is_writing)
    }
}

impl Queue {
    fn new(room: usize) -> Arc<Self> {
        Arc::new(Queue {
            state: Mutex::default(),
            changed: Condvar::new(),
            room,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: String) {
        let mut waiting = self.lock();
        let bytes = waiting.bytes.saturating_add(line.len());
        if bytes > self.room {
            waiting.dropped += 1;
            return;
        }
        waiting.bytes = bytes;
        waiting.lines.push_back(line);
        drop(waiting);
        self.changed.notify_all();
    }

    /// Keeps lines, or writes them again.
    fn hold(&self, is_held: bool) {
        self.lock().is_held = is_held;
        self.changed.notify_all();
    }

    /// Waits for a line. The one before it counts as written.
    fn take(&self) -> String {
        let mut waiting = self.lock();
        waiting.is_writing = false;
        self.changed.notify_all();
        loop {
            if !waiting.is_held
                && let Some(line) = waiting.lines.pop_front()
            {
                waiting.bytes -= line.len();
                waiting.taken += 1;
                waiting.is_writing = true;
                return line;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until all lines are written, as long as one is within this time. Returns the number of lines that are not.
    fn finish(&self, patience: Duration) -> u64 {
        let mut waiting = self.lock();
        let (mut taken, mut since) = (waiting.taken, Instant::now());
        while waiting.unwritten() > 0 {
            if waiting.taken != taken {
                (taken, since) = (waiting.taken, Instant::now());
            }
            let Some(left) = patience.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) else {
                break;
            };
            let result = self.changed.wait_timeout(waiting, left);
            waiting = result.unwrap_or_else(PoisonError::into_inner).0;
        }
        waiting.dropped + waiting.unwritten()
    }
}

impl Console {
    pub(crate) fn new() -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bars = MultiProgress::with_draw_target(target);
        Console {
            out: start(Output::Out, &bars),
            err: start(Output::Err, &bars),
            bars,
            recent: Arc::default(),
        }
    }

    /// Creates a progress bar for a file of `size` bytes.
    pub(crate) fn bar(&self, name: &str, size: u64) -> ProgressBar {
        let style = ProgressStyle::with_template(
            "{msg:.bold} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} left",
        )
        .unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bars
            .add(ProgressBar::new(size).with_style(style).with_message(visible(name)))
    }

    /// Creates a progress bar for data of unknown size.
    pub(crate) fn spinner(&self, name: &str) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg:.bold} {bytes} {binary_bytes_per_sec}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        self.bars
            .add(ProgressBar::new_spinner().with_style(style).with_message(visible(name)))
    }

    /// Prints a line of results to standard output, as [`visible_lines`]; `note` does the same.
    pub(crate) fn say(&self, line: impl Into<String>) {
        self.print(Output::Out, line.into());
    }

    /// Prints a message to standard error.
    pub(crate) fn note(&self, line: impl Into<String>) {
        self.print(Output::Err, line.into());
    }

    fn print(&self, output: Output, line: String) {
        let line = visible_lines(&line);
        if let Some(recent) = &mut *self.lock() {
            if recent.len() == RECENT_LINES {
                recent.pop_front();
            }
            recent.push_back(line.clone());
        }
        let lines = match output {
            Output::Out => &self.out,
            Output::Err => &self.err,
        };
        lines.add(line);
    }

    /// Returns whether a live view has the terminal.
    pub(crate) fn has_view(&self) -> bool {
        self.lock().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<String>>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds lines back and shows no progress bars, because a live view has the terminal.
    pub(crate) fn hold(&self) {
        self.bars.set_draw_target(ProgressDrawTarget::hidden());
        self.lock().get_or_insert_default();
        self.out.hold(true);
        self.err.hold(true);
    }

    /// Returns the last lines that are held back.
    pub(crate) fn held(&self) -> Vec<String> {
        self.lock().iter().flatten().cloned().collect()
    }

    /// Prints the lines that were held back.
    pub(crate) fn release(&self) {
        self.lock().take();
        self.out.hold(false);
        self.err.hold(false);
    }

    /// Waits until everything is written, for results as long as the output takes some; not so long after Ctrl-C. Returns the number of
    /// lines of results that were lost.
    pub(crate) fn finish(&self, is_interrupted: bool) -> u64 {
        let lost = self.out.finish(if is_interrupted { LAST_LINES } else { PATIENCE });
        if lost > 0 {
            self.note(format!(
                "warning: standard output is not read; {} of results not printed",
                count(lost, "line")
            ));
        }
        self.err.finish(LAST_LINES);
        lost
    }
}

/// Starts the thread that writes to an output. Without the thread its lines count as lost.
fn start(output: Output, bars: &MultiProgress) -> Arc<Queue> {
    let queue = Queue::new(match output {
        Output::Out => WAITING_RESULTS,
        Output::Err => WAITING_NOTES,
    });
    let (lines, bars) = (Arc::clone(&queue), bars.clone());
    let _ = std::thread::Builder::new().spawn(move || write_all(output, &bars, &lines));
    queue
}

fn write_all(output: Output, bars: &MultiProgress, queue: &Queue) {
    // Lines interfere with bars only if both go to the terminal; otherwise a slow reader must not delay the bars.
    let tears = match output {
        Output::Out => io::stdout().is_terminal(),
        Output::Err => io::stderr().is_terminal(),
    };
    let mut warned = false;
    loop {
        let line = queue.take();
        let write = || match output {
            Output::Out => write_line(io::stdout().lock(), &line),
            Output::Err => write_line(io::stderr().lock(), &line),
        };
        let written = if tears { bars.suspend(write) } else { write() };
        // A closed reader (`| head`) needs no more lines; a full disk is reported once.
        if let (Output::Out, Err(error), false) = (output, written, warned)
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            warned = true;
            let _ = writeln!(io::stderr(), "warning: cannot write to standard output: {error}");
        }
    }
}

fn write_line(mut output: impl Write, line: &str) -> io::Result<()> {
    writeln!(output, "{line}")?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lines_that_were_dropped_or_not_written() {
        let queue = Queue::new(10);
        for line in ["12345", "67890", "x"] {
            queue.add(line.to_owned());
        }
        assert_eq!(queue.take(), "12345");
        // One is being written, one waits, and for one there was no room.
        assert_eq!(queue.finish(Duration::from_millis(1)), 3);
        queue.add("12345".to_owned());
        assert_eq!(queue.take(), "67890");
        assert_eq!(queue.finish(Duration::from_millis(1)), 3);
    }

    #[test]
    fn lines_are_held_back_without_losing_results() {
        let queue = Queue::new(WAITING_RESULTS);
        queue.hold(true);
        let (reader, count) = (Arc::clone(&queue), 5000);
        let taken = std::thread::spawn(move || (0..count).map(|_| reader.take()).collect::<Vec<_>>());
        for number in 0..count {
            queue.add(number.to_string());
        }
        assert_eq!(queue.finish(Duration::from_millis(50)), 5000);
        queue.hold(false);
        let taken = taken.join().expect("no panic");
        assert!(taken.into_iter().eq((0..count).map(|number| number.to_string())));
    }

    #[test]
    fn a_live_view_shows_the_last_lines() {
        let console = Console::new();
        console.hold();
        for number in 0..3000 {
            console.say(number.to_string());
        }
        let held = console.held();
        assert_eq!(held.len(), RECENT_LINES);
        assert_eq!(held.last().map(String::as_str), Some("2999"));
        assert_eq!(console.out.lock().unwritten(), 3000);
    }

    #[test]
    fn waits_as_long_as_lines_are_taken() {
        let queue = Queue::new(1000);
        for _ in 0..30 {
            queue.add("line".to_owned());
        }
        let reader = Arc::clone(&queue);
        std::thread::spawn(move || {
            loop {
                reader.take();
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        // Each line takes less, all of them more.
        assert_eq!(queue.finish(Duration::from_secs(2)), 0);
    }
}
