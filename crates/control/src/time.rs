//! Instants, durations and rates as integers.
//!
//! The protocol reads no clock: a driver passes [`Time`], in nanoseconds since the start of its run, into every call. A
//! simulator counts it itself, and a socket driver reads a monotonic clock.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

const NANOS_PER_MICRO: u64 = 1_000;
const NANOS_PER_MILLI: u64 = 1_000_000;
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// An instant: nanoseconds since the start of the run. The range is 584 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A duration in nanoseconds. Arithmetic saturates, so no configuration can make a timer wrap around.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

/// A data rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than any event.
    pub const MAX: Time = Time(u64::MAX);

    /// Returns the instant `nanos` nanoseconds after the start of the run.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// Returns the nanoseconds since the start of the run.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds since the start of the run, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }

    /// Returns the time elapsed since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// A duration of zero.
    pub const ZERO: Span = Span(0);
    /// Longer than any run.
    pub const MAX: Span = Span(u64::MAX);

    /// Returns a span of `n` nanoseconds.
    pub const fn from_nanos(n: u64) -> Self {
        Span(n)
    }

    /// Returns a span of `n` microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Span(n.saturating_mul(NANOS_PER_MICRO))
    }

    /// Returns a span of `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Span(n.saturating_mul(NANOS_PER_MILLI))
    }

    /// Returns a span of `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Span(n.saturating_mul(NANOS_PER_SEC))
    }

    /// Returns the span of `s` seconds, rounded to the nearest nanosecond. Negative values and NaN give zero, values
    /// too large [`Span::MAX`].
    pub fn from_secs_f64(s: f64) -> Self {
        Span(libm::round(s * NANOS_PER_SEC as f64) as u64)
    }

    /// Returns the length in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the length in whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / NANOS_PER_MILLI
    }

    /// Returns the length in seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }

    /// Returns whether the span is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Rate {
    /// A rate of zero.
    pub const ZERO: Rate = Rate(0);

    /// Returns a rate of `n` bits per second.
    pub const fn from_bps(n: u64) -> Self {
        Rate(n)
    }

    /// Returns a rate of `n` megabits (1 000 000 bits) per second.
    pub const fn from_mbps(n: u64) -> Self {
        Rate(n.saturating_mul(1_000_000))
    }

    /// Returns the rate in bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Returns the time that `bytes` take at this rate, rounded up to the next nanosecond; [`Span::MAX`] if the rate is
    /// zero.
    pub const fn time_for(self, bytes: u64) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        // Up to 2 GB fits in 64 bits; a division of 128-bit numbers is several times slower.
        match bytes.checked_mul(8 * NANOS_PER_SEC) {
            Some(bit_nanos) => Span(bit_nanos.div_ceil(self.0)),
            None => {
                let nanos = (bytes as u128 * 8 * NANOS_PER_SEC as u128).div_ceil(self.0 as u128);
                Span(if nanos > u64::MAX as u128 {
                    u64::MAX
                } else {
                    nanos as u64
                })
            }
        }
    }

    /// Returns the mean rate of `bytes` in `span`; zero if `span` is zero.
    pub const fn of(bytes: u64, span: Span) -> Self {
        if span.0 == 0 {
            return Rate(0);
        }
        let bps = bytes as u128 * 8 * NANOS_PER_SEC as u128 / span.0 as u128;
        Rate(if bps > u64::MAX as u128 { u64::MAX } else { bps as u64 })
    }

    /// Returns the number of whole bytes in `span` at this rate, rounded down.
    pub const fn bytes_in(self, span: Span) -> u64 {
        let bytes = self.0 as u128 * span.0 as u128 / (8 * NANOS_PER_SEC as u128);
        if bytes > u64::MAX as u128 {
            u64::MAX
        } else {
            bytes as u64
        }
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, rhs: Span) -> Time {
        Time(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, rhs: Span) {
        *self = *self + rhs;
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, rhs: Span) -> Span {
        Span(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, rhs: Span) {
        *self = *self + rhs;
    }
}

impl Sub for Span {
    type Output = Span;
    /// The difference; zero if `rhs` is longer.
    fn sub(self, rhs: Span) -> Span {
        Span(self.0.saturating_sub(rhs.0))
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, rhs: u64) -> Span {
        Span(self.0.saturating_mul(rhs))
    }
}

impl Div<u64> for Span {
    type Output = Span;
    /// The whole quotient; dividing by zero gives the longest span.
    fn div(self, rhs: u64) -> Span {
        Span(self.0.checked_div(rhs).unwrap_or(u64::MAX))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / NANOS_PER_SEC, self.0 % NANOS_PER_SEC)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Span {
    /// Writes the span with the largest unit in which it is a whole number, for example `1500 ms`, so that parsing the text
    /// gives the same span again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        match n {
            0 => f.write_str("0 s"),
            _ if n.is_multiple_of(NANOS_PER_SEC) => write!(f, "{} s", n / NANOS_PER_SEC),
            _ if n.is_multiple_of(NANOS_PER_MILLI) => write!(f, "{} ms", n / NANOS_PER_MILLI),
            _ if n.is_multiple_of(NANOS_PER_MICRO) => write!(f, "{} us", n / NANOS_PER_MICRO),
            _ => write!(f, "{n} ns"),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Rate {
    /// Writes the rate with the largest unit in which it is a whole number, for example `2 Mbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        match n {
            0 => f.write_str("0 bit/s"),
            _ if n.is_multiple_of(1_000_000_000) => write!(f, "{} Gbit/s", n / 1_000_000_000),
            _ if n.is_multiple_of(1_000_000) => write!(f, "{} Mbit/s", n / 1_000_000),
            _ if n.is_multiple_of(1_000) => write!(f, "{} kbit/s", n / 1_000),
            _ => write!(f, "{n} bit/s"),
        }
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_1500_byte_packet_takes_6_ms_at_2_mbps() {
        assert_eq!(Rate::from_mbps(2).time_for(1500), Span::from_millis(6));
        assert_eq!(Rate::from_bps(3).time_for(1), Span::from_nanos(2_666_666_667));
        assert_eq!(Rate::from_bps(0).time_for(1), Span::MAX);
        assert_eq!(Rate::from_bps(8).time_for(1 << 33), Span::from_secs(1 << 33));
    }

    #[test]
    fn rate_of_bytes_in_a_span_and_back() {
        let rate = Rate::of(250_000, Span::from_secs(1));
        assert_eq!(rate, Rate::from_mbps(2));
        assert_eq!(rate.bytes_in(Span::from_millis(6)), 1500);
        assert_eq!(Rate::of(1, Span::ZERO), Rate::from_bps(0));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time::MAX + Span::from_secs(1), Time::MAX);
        assert_eq!(Time::ZERO.since(Time::MAX), Span::ZERO);
        assert_eq!(Span::from_secs(1) - Span::from_secs(2), Span::ZERO);
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
        assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
        assert_eq!(Span::from_secs(1) / 0, Span::MAX);
    }

    #[test]
    fn texts_name_the_largest_whole_unit() {
        assert_eq!(Span::from_millis(1500).to_string(), "1500 ms");
        assert_eq!(Span::from_secs(60).to_string(), "60 s");
        assert_eq!(Rate::from_bps(2_500_000).to_string(), "2500 kbit/s");
        assert_eq!(format!("{}", Time::from_nanos(1_000_000_001)), "1.000000001 s");
    }
}
