//! Spans and rates in configuration files: strings with a unit, such as `"10 ms"` or `"2 Mbit/s"`.
//!
//! Numbers are read as exact decimals; a text written by `Display` reads back as the same value.

use core::fmt;
use core::str::FromStr;
use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::{Rate, Span};

/// Units of time, with their length in nanoseconds.
const SPAN_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Units of rate, in bits per second. Those without a slash are of other tools: iperf3 and tc. `mbps` is missing, because it means bytes in tc.
const RATE_UNITS: &[(&str, u64)] = &[
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("bps", 1),
    ("kbps", 1_000),
    ("Mbps", 1_000_000),
    ("Gbps", 1_000_000_000),
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("Mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("Gbit", 1_000_000_000),
];

/// Returned if a text is not a valid span or rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    text: String,
    what: &'static str,
    units: &'static str,
    problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    NoNumber,
    NoUnit,
    UnknownUnit,
    TooLarge,
    TooFine,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            text,
            what,
            units,
            problem,
        } = self;
        match problem {
            Problem::NoNumber => write!(f, "\"{text}\" is not a {what}: expected a number and a unit ({units})"),
            Problem::NoUnit => write!(f, "\"{text}\" lacks its unit: write a {what} with one of {units}"),
            Problem::UnknownUnit => write!(f, "\"{text}\" has an unknown unit: a {what} is written with {units}"),
            Problem::TooLarge => write!(f, "\"{text}\" is too large a {what}"),
            Problem::TooFine => write!(f, "\"{text}\" is finer than the smallest unit of a {what} ({units})"),
        }
    }
}

impl std::error::Error for UnitError {}

const SPAN_TEXT: (&str, &str) = ("time span", "ns, us, ms, s, min, h, d, as in \"10 ms\"");
const RATE_TEXT: (&str, &str) = ("rate", "bit/s, kbit/s, Mbit/s, Gbit/s, as in \"2 Mbit/s\"");

fn parse(text: &str, names: (&'static str, &'static str), units: &[(&str, u64)]) -> Result<u64, UnitError> {
    let fail = |problem| UnitError {
        text: text.to_owned(),
        what: names.0,
        units: names.1,
        problem,
    };
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim_start();
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((number.as_str(), ""));
    if whole.is_empty() || number.ends_with('.') || fraction.contains('.') {
        return Err(fail(Problem::NoNumber));
    }
    let whole: u64 = whole.parse().map_err(|_| fail(Problem::TooLarge))?;
    if unit.is_empty() {
        // Zero needs no unit.
        let zero = whole == 0 && fraction.bytes().all(|b| b == b'0');
        return if zero { Ok(0) } else { Err(fail(Problem::NoUnit)) };
    }
    let Some(&(_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(fail(Problem::UnknownUnit));
    };
    let mut value = whole.checked_mul(scale).ok_or_else(|| fail(Problem::TooLarge))?;
    // Each decimal digit has a tenth of the value of the previous one. The scales have odd factors only for minutes and
    // hours.
    let mut digit_worth = u128::from(scale);
    let mut divisor: u128 = 1;
    let mut numerator: u128 = 0;
    for digit in fraction.trim_end_matches('0').bytes() {
        divisor = divisor.checked_mul(10).ok_or_else(|| fail(Problem::TooFine))?;
        numerator = numerator * 10 + u128::from(digit - b'0');
    }
    digit_worth = digit_worth
        .checked_mul(numerator)
        .ok_or_else(|| fail(Problem::TooFine))?;
    if digit_worth % divisor != 0 {
        return Err(fail(Problem::TooFine));
    }
    let part = u64::try_from(digit_worth / divisor).map_err(|_| fail(Problem::TooLarge))?;
    value = value.checked_add(part).ok_or_else(|| fail(Problem::TooLarge))?;
    Ok(value)
}

impl FromStr for Span {
    type Err = UnitError;

    /// Reads a number and a unit: ns, us, ms, s, min, h or d.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, SPAN_TEXT, SPAN_UNITS).map(Span::from_nanos)
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    /// Reads a number and a unit: bit/s, kbit/s, Mbit/s or Gbit/s (bps, kbps, Mbps, Gbps, bit, kbit, mbit, Mbit, gbit and Gbit are accepted too).
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, RATE_TEXT, RATE_UNITS).map(Rate::from_bps)
    }
}

struct UnitVisitor<T> {
    what: (&'static str, &'static str),
    build: fn(&str) -> Result<T, UnitError>,
}

impl<T> UnitVisitor<T> {
    fn bare_number<E: de::Error>(&self, number: impl fmt::Display) -> E {
        E::custom(format_args!(
            "{number} lacks its unit: write a {} as a string with {}",
            self.what.0, self.what.1
        ))
    }
}

impl<T> Visitor<'_> for UnitVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} as a string with {}", self.what.0, self.what.1)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.build)(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        Err(self.bare_number(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        Err(self.bare_number(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        Err(self.bare_number(number))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(UnitVisitor {
            what: SPAN_TEXT,
            build: Span::from_str,
        })
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(UnitVisitor {
            what: RATE_TEXT,
            build: Rate::from_str,
        })
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A length of time: a number and a unit (ns, us, ms, s, min, h, d).",
            "pattern": "^[0-9_]+(\\.[0-9]+)? *(ns|us|µs|ms|s|min|h|d)$|^0$",
            "examples": ["10 ms", "1.5 s"],
        })
    }
}

impl JsonSchema for Rate {
    fn schema_name() -> Cow<'static, str> {
        "Rate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A data rate: a number and a unit (bit/s, kbit/s, Mbit/s, Gbit/s).",
            "pattern": "^[0-9_]+(\\.[0-9]+)? *(bit/s|kbit/s|Mbit/s|Gbit/s|bps|kbps|Mbps|Gbps|bit|kbit|[Mm]bit|[Gg]bit)$|^0$",
            "examples": ["2 Mbit/s", "128 kbit/s"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str) -> Result<Span, String> {
        text.parse::<Span>().map_err(|e| e.to_string())
    }

    #[test]
    fn spans_and_rates_read_as_exact_decimals() {
        assert_eq!(span("10 ms"), Ok(Span::from_millis(10)));
        assert_eq!(span("10ms"), Ok(Span::from_millis(10)));
        assert_eq!(span("0.01 ms"), Ok(Span::from_micros(10)));
        assert_eq!(span("1.5 min"), Ok(Span::from_secs(90)));
        assert_eq!(span("2 h"), Ok(Span::from_secs(7200)));
        assert_eq!(span("0"), Ok(Span::ZERO));
        assert_eq!("2 Mbit/s".parse(), Ok(Rate::from_mbps(2)));
        assert_eq!("0.5Mbps".parse(), Ok(Rate::from_bps(500_000)));
        assert_eq!("1_000 bit/s".parse(), Ok(Rate::from_bps(1000)));
        assert_eq!("10mbit".parse(), Ok(Rate::from_mbps(10)));
        assert_eq!(span("7 d"), Ok(Span::from_secs(7 * 86_400)));
    }

    #[test]
    fn errors_say_which_units_exist() {
        for bad in [
            "10",
            "10 parsecs",
            "ms",
            "",
            "1.2.3 s",
            "-1 s",
            "0.1 ns",
            "99999999999999999999 s",
            "1. s",
        ] {
            let error = span(bad).expect_err(bad);
            assert!(error.contains(&format!("\"{bad}\"")), "{error}");
        }
        assert!(span("10").unwrap_err().contains("ns, us, ms, s, min, h, d"));
        assert!("3 mbps".parse::<Rate>().unwrap_err().to_string().contains("Mbit/s"));
    }

    #[test]
    fn display_round_trips() {
        for nanos in [0, 1, 999, 1000, 1_500_000, 60_000_000_000, u64::MAX / 2, u64::MAX] {
            let original = Span::from_nanos(nanos);
            assert_eq!(original.to_string().parse(), Ok(original));
            let original = Rate::from_bps(nanos);
            assert_eq!(original.to_string().parse(), Ok(original));
        }
    }
}
