//! The emulator's clock, and the time at which the kernel received a packet.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use whimbrel_control::Time;

/// Real time as the emulation counts it: nanoseconds since the emulator was made.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Clock { start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Converts time stamps of the kernel, which come from the system's clock, to those of a [`Clock`].
///
/// The system's clock may be set while the emulation runs. What counts is therefore how long ago a packet was received, and that is
/// never longer than since the time before which nothing was left to receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamps {
    now: Time,
    system: Duration,
    earliest: Time,
}

impl Stamps {
    /// For stamps that are read at `now` and are not older than `earliest`.
    pub(crate) fn at(now: Time, earliest: Time) -> Self {
        let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Stamps { now, system, earliest }
    }

    /// When a packet with this stamp was received; now if it has none.
    pub(crate) fn time(&self, stamp: Option<Duration>) -> Time {
        let age = stamp
            .and_then(|stamp| self.system.checked_sub(stamp))
            .unwrap_or_default();
        let nanos = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(self.now.as_nanos().saturating_sub(nanos)).max(self.earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_gives_its_age_within_bounds() {
        let stamps = Stamps {
            now: Time::from_nanos(1000),
            system: Duration::from_nanos(5_000_000),
            earliest: Time::from_nanos(400),
        };
        let time = |nanos| stamps.time(Some(Duration::from_nanos(nanos))).as_nanos();
        assert_eq!(time(4_999_900), 900);
        assert_eq!(time(4_000_000), 400, "the system's clock was set forward");
        assert_eq!(time(5_000_001), 1000, "or back");
        assert_eq!(stamps.time(None).as_nanos(), 1000);
    }
}
