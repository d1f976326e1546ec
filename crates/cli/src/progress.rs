//! Progress of runs: a bar on a terminal, otherwise a line from time to time.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use whimbrel_lab::Progress;

use crate::output::note;

/// Time between two lines without a terminal.
const LINES_EVERY: Duration = Duration::from_secs(10);

/// Steps of the bar.
const STEPS: u64 = 1000;

/// Reports the progress of runs on standard error.
#[derive(Debug)]
pub(crate) enum Reporter {
    Bar(ProgressBar),
    Lines {
        last: Instant,
        began: Instant,
        from: Option<f64>,
    },
    Quiet,
}

impl Reporter {
    /// Creates a reporter that prints nothing if `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        if quiet {
            Reporter::Quiet
        } else if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {msg}  {elapsed}, {eta} left")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr()).with_style(style);
            Reporter::Bar(bar)
        } else {
            Reporter::Lines {
                last: Instant::now(),
                began: Instant::now(),
                from: None,
            }
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&mut self) {
        if let Reporter::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Reporter {
    fn update(&mut self, fraction: f64, done: usize, total: usize) {
        match self {
            Reporter::Bar(bar) => {
                bar.set_position((fraction * STEPS as f64) as u64);
                bar.set_message(format!("{done} of {total} runs"));
            }
            Reporter::Lines { last, began, from } => {
                // Work done before this call took none of its time.
                let from = *from.get_or_insert(fraction);
                if last.elapsed() < LINES_EVERY {
                    return;
                }
                *last = Instant::now();
                let left = began.elapsed().as_secs_f64() * (1.0 - fraction) / (fraction - from).max(1e-9);
                note(format_args!(
                    "{:.0} %: {done} of {total} runs, about {} left",
                    fraction * 100.0,
                    duration(left)
                ));
            }
            Reporter::Quiet => {}
        }
    }
}

/// Returns a readable duration: `40 s`, `3 min`, `2 h 5 min`.
fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round();
    if seconds < 90.0 {
        format!("{:.0} s", seconds.ceil())
    } else if minutes < 90.0 {
        format!("{minutes:.0} min")
    } else if minutes < 48.0 * 60.0 {
        format!("{:.0} h {:.0} min", (minutes / 60.0).floor(), minutes % 60.0)
    } else {
        format!("{:.0} days", (minutes / 1440.0).round())
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_are_short() {
        let texts = [3.2, 100.0, 7_500.0, 1e6].map(duration);
        assert_eq!(texts, ["4 s", "2 min", "2 h 5 min", "12 days"]);
    }
}
