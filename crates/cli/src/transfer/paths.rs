//! Reports of paths that fail and recover during a transfer.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use whimbrel::{Association, PathChange, PathEvent, PathId, PathInfo, PathState};

use super::address;
use super::console::Console;
use crate::perf::sample::State;

/// Pings of an association that is doubted, and the time between them.
const PINGS: u32 = 5;
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the peer's first address, for messages.
pub(crate) fn peer(association: &Association) -> String {
    let addrs = association.peer_addrs();
    addrs.first().map_or_else(|| "?".to_owned(), address::text)
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

/// Does what [`watch`] does, and calls `report` each time as well, at once.
pub(crate) async fn watch_with(
    association: &Association,
    console: &Console,
    mut report: impl FnMut(&Outage),
) -> std::convert::Infallible {
    let mut events = association.path_events();
    let mut outages = Outages::default();
    let mut notes = Notes::new(|line| console.note(line));
    loop {
        let due = notes.due().map(tokio::time::Instant::from_std);
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else { break };
                let failed = (event.local, event.remote);
                let works = |path: &PathInfo| path.state == PathState::Active && (path.local, path.remote) != failed;
                let has_others = association.paths().iter().any(works);
                if let Some(outage) = outages.on_event(&event, has_others) {
                    report(&outage);
                    notes.on_outage(&outage);
                }
            }
            () = async { tokio::time::sleep_until(due.unwrap_or_else(tokio::time::Instant::now)).await }, if due.is_some() => {
                notes.print(|held| held.due <= Instant::now());
            }
        }
    }
    drop(notes);
    // The association is over; what ends the transfer is not for this task to say.
    std::future::pending().await
}

/// A path that does not answer is reported after this time: one that answers before was only late.
const LATE: Duration = Duration::from_millis(500);

/// Prints outages. Those that are held back are printed when it is dropped.
struct Notes<F: FnMut(String)> {
    print: F,
    held: Vec<Held>,
}

struct Held {
    path: PathKey,
    since: SystemTime,
    due: Instant,
    line: String,
}

impl<F: FnMut(String)> Notes<F> {
    fn new(print: F) -> Self {
        Notes {
            print,
            held: Vec::new(),
        }
    }

    /// Returns when a line is to be printed.
    fn due(&self) -> Option<Instant> {
        self.held.iter().map(|held| held.due).min()
    }

    fn on_outage(&mut self, outage: &Outage) {
        let time = SystemTime::now()
            .checked_sub(outage.time.elapsed())
            .unwrap_or(UNIX_EPOCH);
        let line = format!("{} {outage}", utc(time));
        if outage.state == State::PotentiallyFailed {
            self.held.push(Held {
                path: outage.path,
                since: time,
                due: outage.time + LATE,
                line,
            });
            return;
        }
        let held = self.held.iter().position(|held| held.path == outage.path);
        match (outage.lasted, held) {
            (Some(lasted), Some(held)) => {
                let since = utc(self.held.swap_remove(held).since);
                let (local, remote) = (address::text(&outage.local), address::text(&outage.remote));
                let millis = lasted.as_millis().max(1);
                (self.print)(format!(
                    "{since} path {local} to {remote} did not answer for {millis} ms"
                ));
            }
            _ => {
                self.print(|held| held.path == outage.path);
                (self.print)(line);
            }
        }
    }

    /// Prints lines that are held back.
    fn print(&mut self, which: impl Fn(&Held) -> bool) {
        let (printed, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held).into_iter().partition(which);
        self.held = kept;
        printed.into_iter().for_each(|held| (self.print)(held.line));
    }
}

impl<F: FnMut(String)> Drop for Notes<F> {
    fn drop(&mut self) {
        self.print(|_| true);
    }
}

/// A path for as long as it is the same: its number is used again for other addresses, and a NAT changes ports.
type PathKey = (PathId, IpAddr, IpAddr);

/// A failure or recovery of a path.
#[derive(Clone, Debug)]
pub(crate) struct Outage {
    path: PathKey,
    time: Instant,
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
        write!(
            f,
            "path {} to {} ",
            address::text(&self.local),
            address::text(&self.remote)
        )?;
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
struct Outages(BTreeMap<PathKey, Instant>);

impl Outages {
    /// Takes in a change of a path; returns what is to be reported, if anything. `has_others`: other paths work.
    fn on_event(&mut self, event: &PathEvent, has_others: bool) -> Option<Outage> {
        let path = (event.path, event.local.ip(), event.remote.ip());
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
            path,
            time: event.time,
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
    fn a_path_that_answers_late_is_reported_in_one_line() {
        let start = Instant::now();
        let mut outages = Outages::default();
        let mut printed = Vec::new();
        let mut notes = Notes::new(|line: String| printed.push(line.split_once(' ').expect("a time").1.to_owned()));
        let mut take = |notes: &mut Notes<_>, millis, number, port: u16, change| {
            let event = PathEvent {
                time: start + Duration::from_millis(millis),
                path: PathId(number),
                local: "192.0.2.1:1".parse().expect("an address"),
                remote: ([192, 0, 2, 2 + number], port).into(),
                change,
            };
            if let Some(outage) = outages.on_event(&event, false) {
                notes.on_outage(&outage);
            }
        };
        take(&mut notes, 0, 0, 2, PathChange::PotentiallyFailed);
        take(&mut notes, 10, 1, 2, PathChange::PotentiallyFailed);
        assert_eq!(notes.due(), Some(start + LATE));
        // A NAT has changed its port meanwhile.
        take(&mut notes, 40, 0, 3, PathChange::Up);
        assert_eq!(notes.due(), Some(start + Duration::from_millis(10) + LATE));
        notes.print(|held| held.due <= start + 2 * LATE);
        take(&mut notes, 1500, 1, 2, PathChange::Up);
        take(&mut notes, 1600, 0, 3, PathChange::PotentiallyFailed);
        take(&mut notes, 1700, 0, 3, PathChange::Down);
        take(&mut notes, 1800, 1, 2, PathChange::PotentiallyFailed);
        drop(notes);
        assert_eq!(
            printed,
            [
                "path 192.0.2.1:1 to 192.0.2.2:3 did not answer for 40 ms",
                "path 192.0.2.1:1 to 192.0.2.3:2 does not answer",
                "path 192.0.2.1:1 to 192.0.2.3:2 works again after 1.5 s",
                "path 192.0.2.1:1 to 192.0.2.2:3 does not answer",
                "path 192.0.2.1:1 to 192.0.2.2:3 has failed",
                "path 192.0.2.1:1 to 192.0.2.3:2 does not answer",
            ]
        );
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
