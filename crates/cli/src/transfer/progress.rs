//! What a transfer shows: a bar on a terminal, nothing elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Draws the bars of all transfers of this process to standard error, if that is a terminal.
#[derive(Clone, Debug)]
pub(crate) struct Bars(MultiProgress);

impl Bars {
    pub(crate) fn new() -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        Bars(MultiProgress::with_draw_target(target))
    }

    /// A bar for a file of `size` bytes.
    pub(crate) fn add(&self, name: &str, size: u64) -> ProgressBar {
        let style = ProgressStyle::with_template(
            "{msg:.bold} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} left",
        )
        .unwrap_or_else(|_| ProgressStyle::default_bar());
        self.0
            .add(ProgressBar::new(size).with_style(style).with_message(name.to_owned()))
    }

    /// Prints a line to standard output without tearing the bars.
    pub(crate) fn println(&self, line: &str) {
        self.0.suspend(|| println!("{line}"));
    }

    /// Prints a line to standard error without tearing the bars.
    pub(crate) fn eprintln(&self, line: &str) {
        self.0.suspend(|| eprintln!("{line}"));
    }
}

/// Size, time and rate of a finished transfer, as people read them.
pub(crate) fn summary(size: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let mbps = if seconds > 0.0 {
        size as f64 * 8.0 / seconds / 1e6
    } else {
        0.0
    };
    format!("{} in {seconds:.2} s, {mbps:.1} Mbit/s", bytes(size))
}

fn bytes(size: u64) -> String {
    match size {
        1 => "1 byte".to_owned(),
        0..10_000 => format!("{size} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", size as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", size as f64 / 1e6),
        _ => format!("{:.1} GB", size as f64 / 1e9),
    }
}

/// A digest as hexadecimal digits.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_readable() {
        assert_eq!(summary(0, Duration::from_millis(5)), "0 bytes in 0.01 s, 0.0 Mbit/s");
        assert_eq!(
            summary(25_000_000, Duration::from_secs(2)),
            "25.0 MB in 2.00 s, 100.0 Mbit/s"
        );
        assert_eq!(hex(&[0, 255]), "00ff");
    }
}
