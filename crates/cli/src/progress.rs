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
    Lines {
        last: Instant,
        began: Instant,
        from: Option<f64>,
    },
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
            Teller::Lines {
                last: Instant::now(),
                began: Instant::now(),
                from: None,
            }
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
            Teller::Lines { last, began, from } => {
                // What was there before this call took none of its time.
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
            Teller::Quiet => {}
        }
    }
}

/// A duration to read: `40 s`, `3 min`, `2 h 5 min`.
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
        let told = [3.2, 100.0, 7_500.0, 1e6].map(duration);
        assert_eq!(told, ["4 s", "2 min", "2 h 5 min", "12 days"]);
    }
}
