//! Lines and progress bars of a transfer. Threads write them, so that an output that is closed, full, or not read has no effect on
//! the transfer; it loses lines.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Maximum number of lines that wait for a slow output; further lines are dropped.
const WAITING_LINES: usize = 1024;
/// How long the end of the program waits for a slow output.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Standard output, standard error, and progress bars on the latter if it is a terminal.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    bars: MultiProgress,
    out: Lines,
    err: Lines,
    /// Lines that wait for the end of a live view, if there is one.
    held: Arc<Mutex<Option<Held>>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Output {
    Out,
    Err,
}

/// Lines with their outputs.
type Held = VecDeque<(Output, String)>;

/// The queue of an output.
type Lines = SyncSender<Entry>;

enum Entry {
    Line(String),
    /// Acknowledged when everything before it has been written.
    Flush(SyncSender<()>),
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
            held: Arc::default(),
        }
    }

    /// Creates a progress bar for a file of `size` bytes.
    pub(crate) fn bar(&self, name: &str, size: u64) -> ProgressBar {
        let style = ProgressStyle::with_template(
            "{msg:.bold} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} left",
        )
        .unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bars
            .add(ProgressBar::new(size).with_style(style).with_message(name.to_owned()))
    }

    /// Creates a progress bar for data of unknown size.
    pub(crate) fn spinner(&self, name: &str) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg:.bold} {bytes} {binary_bytes_per_sec}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        self.bars.add(
            ProgressBar::new_spinner()
                .with_style(style)
                .with_message(name.to_owned()),
        )
    }

    /// Prints a line of results to standard output.
    pub(crate) fn say(&self, line: impl Into<String>) {
        self.print(Output::Out, line.into());
    }

    /// Prints a message to standard error.
    pub(crate) fn note(&self, line: impl Into<String>) {
        self.print(Output::Err, line.into());
    }

    fn print(&self, output: Output, line: String) {
        if let Some(held) = &mut *self.lock() {
            if held.len() == WAITING_LINES {
                held.pop_front();
            }
            held.push_back((output, line));
            return;
        }
        let lines = match output {
            Output::Out => &self.out,
            Output::Err => &self.err,
        };
        // A full queue means that the output is not read.
        let _ = lines.try_send(Entry::Line(line));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds lines back and shows no progress bars, because a live view has the terminal.
    pub(crate) fn hold(&self) {
        self.bars.set_draw_target(ProgressDrawTarget::hidden());
        self.lock().get_or_insert_default();
    }

    /// Returns the lines that are held back.
    pub(crate) fn held(&self) -> Vec<String> {
        self.lock().iter().flatten().map(|(_, line)| line.clone()).collect()
    }

    /// Prints the lines that were held back.
    pub(crate) fn release(&self) {
        let held = self.lock().take();
        for (output, line) in held.into_iter().flatten() {
            self.print(output, line);
        }
    }

    /// Waits until everything is written, with a time limit.
    pub(crate) fn finish(&self) {
        for lines in [&self.out, &self.err] {
            let (done, wait) = sync_channel(1);
            if lines.try_send(Entry::Flush(done)).is_ok() {
                let _ = wait.recv_timeout(LAST_LINES);
            }
        }
    }
}

/// Starts the thread that writes to an output. Without the thread its lines are dropped.
fn start(output: Output, bars: &MultiProgress) -> Lines {
    let (lines, queue) = sync_channel(WAITING_LINES);
    let bars = bars.clone();
    let _ = std::thread::Builder::new().spawn(move || write_all(output, &bars, &queue));
    lines
}

fn write_all(output: Output, bars: &MultiProgress, queue: &Receiver<Entry>) {
    // Lines interfere with bars only if both go to the terminal; otherwise a slow reader must not delay the bars.
    let tears = match output {
        Output::Out => io::stdout().is_terminal(),
        Output::Err => io::stderr().is_terminal(),
    };
    let mut warned = false;
    while let Ok(entry) = queue.recv() {
        let line = match entry {
            Entry::Line(line) => line,
            Entry::Flush(done) => {
                let _ = done.send(());
                continue;
            }
        };
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
