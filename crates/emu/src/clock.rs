//! The emulator's clock, and the time at which the kernel received a packet.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use whimbrel_control::Time;

/// Real time of the emulation: nanoseconds since the emulator was created.
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

/// Converts timestamps of the kernel, which use the system clock, to those of a [`Clock`].
///
/// The system clock may be set during the emulation. Therefore only the age of a packet is used, which is at most the time since
/// the last complete read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamps {
    now: Time,
    system: Duration,
    earliest: Time,
}

impl Timestamps {
    /// Creates a converter for timestamps read at `now` and not older than `earliest`.
    pub(crate) fn at(now: Time, earliest: Time) -> Self {
        let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamps { now, system, earliest }
    }

    /// Returns when a packet with this timestamp was received; now if it has none.
    pub(crate) fn time(&self, timestamp: Option<Duration>) -> Time {
        let age = timestamp
            .and_then(|timestamp| self.system.checked_sub(timestamp))
            .unwrap_or_default();
        let nanos = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(self.now.as_nanos().saturating_sub(nanos)).max(self.earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_converted_within_bounds() {
        let timestamps = Timestamps {
            now: Time::from_nanos(1000),
            system: Duration::from_nanos(5_000_000),
            earliest: Time::from_nanos(400),
        };
        let time = |nanos| timestamps.time(Some(Duration::from_nanos(nanos))).as_nanos();
        assert_eq!(time(4_999_900), 900);
        assert_eq!(time(4_000_000), 400, "the system clock was set forward");
        assert_eq!(time(5_000_001), 1000, "the system clock was set back");
        assert_eq!(timestamps.time(None).as_nanos(), 1000);
    }
}
