//! Reports of paths that fail and recover during a transfer.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use whimbrel::{Association, PathChange, PathEvent, PathInfo, PathState};

use super::console::Console;
use crate::perf::sample::State;

/// Pings of an association that is doubted, and the time between them.
const PINGS: u32 = 5;
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the peer's first address, for messages.
pub(crate) fn peer(association: &Association) -> String {
    let addrs = association.peer_addrs();
    addrs.first().map_or_else(|| "?".to_owned(), ToString::to_string)
}

/// Returns whether the peer answers within some seconds.
pub(crate) async fn is_alive(association: &Association) -> bool {
    let mut events = association.path_events();
    let answered = async {
        loop {
            match events.next().await {
                Some(event) if matches!(event.change, PathChange::PingAnswered { .. }) => return true,
                Some(_) => {}
                None => return false,
            }
        }
    };
    let pings = async {
        for number in 0..PINGS {
            for path in association.paths() {
                association.ping(path.id, number, 0);
            }
            tokio::time::sleep(PING_INTERVAL).await;
        }
    };
    tokio::select! {
        answered = answered => answered,
        () = pings => false,
    }
}

/// Prints each failure and recovery of a path to standard error, for as long as it is polled.
pub(crate) async fn watch(association: &Association, console: &Console) -> std::convert::Infallible {
    watch_with(association, console, |_| {}).await
}

/// Does what [`watch`] does, and calls `report` each time as well.
pub(crate) async fn watch_with(
    association: &Association,
    console: &Console,
    mut report: impl FnMut(&Outage),
) -> std::convert::Infallible {
    let mut events = association.path_events();
    let mut outages = Outages::default();
    while let Some(event) = events.next().await {
        let failed = (event.local, event.remote);
        let works = |path: &PathInfo| path.state == PathState::Active && (path.local, path.remote) != failed;
        let has_others = association.paths().iter().any(works);
        if let Some(outage) = outages.on_event(&event, has_others) {
            let time = SystemTime::now()
                .checked_sub(event.time.elapsed())
                .unwrap_or(UNIX_EPOCH);
            console.note(format!("{} {outage}", utc(time)));
            report(&outage);
        }
    }
    // The association is over; what ends the transfer is not for this task to say.
    std::future::pending().await
}

/// A failure or recovery of a path.
#[derive(Clone, Debug)]
pub(crate) struct Outage {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// Potentially failed, failed, or active again.
    pub(crate) state: State,
    /// Of one that works again: the time without it.
    pub(crate) lasted: Option<Duration>,
    /// Whether other paths work.
    has_others: bool,
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path {} to {} ", self.local, self.remote)?;
        match self.lasted {
            Some(lasted) => write!(f, "works again after {:.1} s", lasted.as_secs_f64()),
            None if self.state == State::Inactive => f.write_str("has failed"),
            None if self.has_others => f.write_str("does not answer; data goes over other paths"),
            None => f.write_str("does not answer"),
        }
    }
}

/// Paths that do not work, and since when.
#[derive(Default)]
struct Outages(BTreeMap<(SocketAddr, SocketAddr), Instant>);

impl Outages {
    /// Takes in a change of a path; returns what is to be reported, if anything. `has_others`: other paths work.
    fn on_event(&mut self, event: &PathEvent, has_others: bool) -> Option<Outage> {
        let path = (event.local, event.remote);
        let (state, lasted) = match event.change {
            PathChange::PotentiallyFailed => {
                self.0.entry(path).or_insert(event.time);
                (State::PotentiallyFailed, None)
            }
            PathChange::Down => {
                self.0.entry(path).or_insert(event.time);
                (State::Inactive, None)
            }
            PathChange::Up | PathChange::Confirmed => {
                // Its first confirmation is nothing to report.
                let since = self.0.remove(&path)?;
                (State::Active, Some(event.time - since))
            }
            PathChange::Removed => {
                self.0.remove(&path);
                return None;
            }
            _ => return None,
        };
        Some(Outage {
            local: event.local,
            remote: event.remote,
            state,
            lasted,
            has_others,
        })
    }
}

/// Returns a time in the format of RFC 3339, in UTC with milliseconds.
pub(crate) fn utc(time: SystemTime) -> String {
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
    use std::time::Duration;

    #[test]
    fn outage_is_reported_with_its_duration_however_short() {
        let start = Instant::now();
        let mut outages = Outages::default();
        let mut line = |millis, change| {
            let event = PathEvent {
                time: start + Duration::from_millis(millis),
                path: whimbrel::PathId(0),
                local: "192.0.2.1:1".parse().expect("an address"),
                remote: "192.0.2.2:2".parse().expect("an address"),
                change,
            };
            let text = outages.on_event(&event, millis < 200)?.to_string();
            Some(
                text.strip_prefix("path 192.0.2.1:1 to 192.0.2.2:2 ")
                    .expect("its name")
                    .to_owned(),
            )
        };
        assert_eq!(line(0, PathChange::Confirmed), None, "its first confirmation");
        assert_eq!(
            line(100, PathChange::PotentiallyFailed).as_deref(),
            Some("does not answer; data goes over other paths")
        );
        assert_eq!(line(110, PathChange::Up).as_deref(), Some("works again after 0.0 s"));
        assert_eq!(
            line(200, PathChange::PotentiallyFailed).as_deref(),
            Some("does not answer"),
            "no other path works"
        );
        assert_eq!(line(5000, PathChange::Down).as_deref(), Some("has failed"));
        // A path that was down has to be confirmed again.
        assert_eq!(
            line(7700, PathChange::Confirmed).as_deref(),
            Some("works again after 7.5 s")
        );
        assert_eq!(line(8000, PathChange::PrimaryChanged), None);
    }

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
