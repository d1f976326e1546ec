//! Reports of paths that fail and recover during a transfer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use whimbrel::{Association, PathInfo, PathState};

use super::console::Console;

/// Time between two checks of the paths.
const INTERVAL: Duration = Duration::from_millis(50);

/// Prints each failure and recovery of a path to standard error, while it is polled.
pub(crate) async fn watch(association: &Association, console: &Console) -> std::convert::Infallible {
    let mut known = Known::default();
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for change in known.update(&association.paths(), Instant::now()) {
            console.note(format!("{} {change}", utc(SystemTime::now())));
        }
    }
}

/// The last known state of each path, and since when it has failed.
#[derive(Default)]
struct Known(BTreeMap<(SocketAddr, SocketAddr), (PathState, Option<Instant>)>);

impl Known {
    /// Updates the state of all paths. Returns a description of each change.
    fn update(&mut self, paths: &[PathInfo], now: Instant) -> Vec<String> {
        let mut changes = Vec::new();
        for path in paths {
            let entry = self.0.entry((path.local, path.remote)).or_insert((path.state, None));
            let before = std::mem::replace(&mut entry.0, path.state);
            if before == path.state {
                continue;
            }
            let what = match path.state {
                PathState::PotentiallyFailed => "does not answer; data goes over other paths".to_owned(),
                PathState::Inactive => "has failed".to_owned(),
                // The first confirmation is not reported.
                PathState::Active | PathState::Unconfirmed => match entry.1 {
                    Some(since) => format!("works again after {:.1} s", (now - since).as_secs_f64()),
                    None => continue,
                },
            };
            entry.1 = match path.state {
                PathState::PotentiallyFailed | PathState::Inactive => entry.1.or(Some(now)),
                PathState::Active | PathState::Unconfirmed => None,
            };
            changes.push(format!("path {} to {} {what}", path.local, path.remote));
        }
        changes
    }
}

/// Returns a time in the format of RFC 3339, in UTC with milliseconds.
fn utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        since.subsec_millis()
    )
}

/// Returns year, month and day of a number of days since 1970-01-01, in the Gregorian calendar.
fn date(days: u64) -> (u64, u64, u64) {
    // Counted from 1 March of the year 0, so that leap days are last. 400 years have 146 097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_of_the_calendar() {
        let at = |seconds: u64, millis: u64| utc(UNIX_EPOCH + Duration::from_millis(seconds * 1000 + millis));
        assert_eq!(at(0, 7), "1970-01-01T00:00:00.007Z");
        assert_eq!(at(951_827_696, 0), "2000-02-29T12:34:56.000Z");
        assert_eq!(at(1_709_164_800, 0), "2024-02-29T00:00:00.000Z");
        assert_eq!(at(1_798_761_599, 999), "2026-12-31T23:59:59.999Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }
}
