//! How far the runs are: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use whimbrel_lab::Progress;

use crate::output::note;

/// Time between two lines where there is no terminal.
const LINES_EVERY: Duration = Duration::from_secs(10);

/// Steps of the bar.
const STEPS: u64 = 1000;

/// Tells how far the runs are on standard error.
#[derive(Debug)]
pub(crate) enum Teller {
    Bar(ProgressBar),
    Lines { last: Instant },
    Quiet,
}

impl Teller {
    /// Tells nothing if `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        if quiet {
            Teller::Quiet
        } else if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {msg}  {elapsed}, {eta} left")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr()).with_style(style);
            Teller::Bar(bar)
        } else {
            Teller::Lines { last: Instant::now() }
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&mut self) {
        if let Teller::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Teller {
    fn update(&mut self, fraction: f64, done: usize, total: usize) {
        match self {
            Teller::Bar(bar) => {
                bar.set_position((fraction * STEPS as f64) as u64);
                bar.set_message(format!("{done} of {total} runs"));
            }
            Teller::Lines { last } if last.elapsed() >= LINES_EVERY => {
                *last = Instant::now();
                note(format_args!("{:.0} %: {done} of {total} runs", fraction * 100.0));
            }
            Teller::Lines { .. } | Teller::Quiet => {}
        }
    }
}
