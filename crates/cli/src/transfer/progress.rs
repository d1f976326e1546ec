//! The summary of a finished transfer.

use std::time::Duration;

/// Returns size, time and rate of a finished transfer in readable form.
pub(crate) fn summary(size: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let mbps = if seconds > 0.0 {
        size as f64 * 8.0 / seconds / 1e6
    } else {
        0.0
    };
    format!("{} in {seconds:.2} s, {mbps:.1} Mbit/s", bytes(size))
}

/// Returns a number of bytes in readable form.
pub(crate) fn bytes(size: u64) -> String {
    match size {
        1 => "1 byte".to_owned(),
        0..10_000 => format!("{size} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", size as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", size as f64 / 1e6),
        _ => format!("{:.1} GB", size as f64 / 1e9),
    }
}

/// Returns a digest as hexadecimal digits.
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
