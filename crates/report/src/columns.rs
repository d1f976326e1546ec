//! Columns of numbers and words in the page: the smallest type that holds them, bytes of equal weight side by side, deflated, in Base64.
//!
//! A column is a JSON object whose key `t` names its form. `web/src/columns.ts` reads all of them:
//!
//! | `t` | other keys | content |
//! |---|---|---|
//! | `in` | `v` | the numbers themselves, null where there is none |
//! | `lin` | `n`, `first`, `step` | an arithmetic series |
//! | `u8`, `u16`, `u32`, `f32`, `f64` | `n`, `b` | little-endian numbers in blob `b`, byte planes one after the other |
//! | `d32` | `n`, `b`, `first`, `scale` | differences as zigzag numbers of 32 bits, like `u32`; times `scale` |

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::{Value, json};

/// Columns of at most this length stand in the JSON text.
const INLINE: usize = 48;

/// How exact numbers are that are no integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// As they are.
    Exact,
    /// Seven digits.
    Drawn,
}

/// The blobs of a page.
#[derive(Debug, Default)]
pub(crate) struct Blobs {
    texts: Vec<String>,
    bytes: usize,
}

impl Blobs {
    /// The blobs in Base64, in the order of their numbers.
    pub(crate) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Characters in all blobs.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A column of numbers; NaN where there is none.
    pub(crate) fn numbers(&mut self, values: &[f64], precision: Precision) -> Value {
        if values.len() <= INLINE {
            return json!({ "t": "in", "v": values });
        }
        let first = values[0];
        if values.iter().all(|value| *value == first) {
            return json!({ "t": "lin", "n": values.len(), "first": first, "step": 0 });
        }
        let most = values.iter().copied().fold(0.0, f64::max);
        if values.iter().all(|value| *value >= 0.0 && value.fract() == 0.0) && most <= f64::from(u32::MAX) {
            return match most as u32 {
                0..=0xff => self.planes("u8", values, |value| [value as u8]),
                0x100..=0xffff => self.planes("u16", values, |value| (value as u16).to_le_bytes()),
                _ => self.planes("u32", values, |value| (value as u32).to_le_bytes()),
            };
        }
        let is_single = |value: &f64| value.is_nan() || f64::from(*value as f32) == *value;
        if precision == Precision::Drawn || values.iter().all(is_single) {
            self.planes("f32", values, |value| (value as f32).to_le_bytes())
        } else {
            self.planes("f64", values, f64::to_le_bytes)
        }
    }

    /// A column of integers in steps that are small, such as times in nanoseconds or TSNs; a number of the page is `scale` times one.
    pub(crate) fn steps(&mut self, values: &[i64], scale: f64) -> Value {
        let Some(&first) = values.first() else {
            return json!({ "t": "in", "v": [] });
        };
        let step = values.get(1).map_or(0, |second| second - first);
        if values.windows(2).all(|pair| pair[1] - pair[0] == step) {
            return json!({ "t": "lin", "n": values.len(), "first": first as f64 * scale, "step": step as f64 * scale });
        }
        let zigzag = |step: i64| ((step << 1) ^ (step >> 63)) as u64;
        let differences: Option<Vec<u32>> = std::iter::once(0)
            .chain(values.windows(2).map(|pair| zigzag(pair[1] - pair[0])))
            .map(|step| u32::try_from(step).ok())
            .collect();
        match differences {
            Some(differences) if values.len() > INLINE => {
                let mut column = self.planes("d32", &differences, u32::to_le_bytes);
                column["first"] = json!(first);
                column["scale"] = json!(scale);
                column
            }
            _ => {
                let plain: Vec<f64> = values.iter().map(|value| *value as f64 * scale).collect();
                self.numbers(&plain, Precision::Exact)
            }
        }
    }

    fn planes<T: Copy, const N: usize>(&mut self, kind: &str, values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Value {
        let mut planes = vec![0; values.len() * N];
        for (i, value) in values.iter().enumerate() {
            for (plane, byte) in bytes(*value).into_iter().enumerate() {
                planes[plane * values.len() + i] = byte;
            }
        }
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        let packed = encoder.write_all(&planes).and_then(|()| encoder.finish());
        let text = STANDARD.encode(packed.expect("a vector takes all that is written"));
        self.bytes += text.len();
        self.texts.push(text);
        json!({ "t": kind, "n": values.len(), "b": self.texts.len() - 1 })
    }
}

/// Words with their numbers, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Words {
    numbers: std::collections::BTreeMap<String, usize>,
    list: Vec<String>,
}

impl Words {
    /// The number of a word.
    pub(crate) fn number(&mut self, word: &str) -> usize {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let number = self.list.len();
        self.numbers.insert(word.to_owned(), number);
        self.list.push(word.to_owned());
        number
    }

    pub(crate) fn list(&self) -> &[String] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    /// The bytes of a column, planes joined again.
    fn unpacked(blobs: &Blobs, column: &Value, width: usize) -> Vec<Vec<u8>> {
        let text = &blobs.texts()[column["b"].as_u64().expect("a blob") as usize];
        let packed = STANDARD.decode(text).expect("Base64");
        let mut planes = Vec::new();
        flate2::read::DeflateDecoder::new(packed.as_slice())
            .read_to_end(&mut planes)
            .expect("deflated");
        let n = column["n"].as_u64().expect("a length") as usize;
        assert_eq!(planes.len(), n * width);
        (0..n)
            .map(|i| (0..width).map(|plane| planes[plane * n + i]).collect())
            .collect()
    }

    #[test]
    fn numbers_take_the_smallest_type_that_holds_them() {
        let mut blobs = Blobs::default();
        let counted = |scale: f64| (0..100).map(|i| f64::from(i % 7) * scale).collect::<Vec<_>>();
        for (values, kind) in [
            (counted(1.0), "u8"),
            (counted(1000.0), "u16"),
            (counted(1e6), "u32"),
            (counted(0.5), "f32"),
            (counted(0.1), "f64"),
        ] {
            let column = blobs.numbers(&values, Precision::Exact);
            assert_eq!(column["t"], kind);
        }
        assert_eq!(blobs.numbers(&counted(0.1), Precision::Drawn)["t"], "f32");
        assert_eq!(
            blobs.numbers(&[1.0; 100], Precision::Exact),
            json!({ "t": "lin", "n": 100, "first": 1.0, "step": 0 })
        );
        assert_eq!(
            blobs.numbers(&[0.5, f64::NAN], Precision::Exact),
            json!({ "t": "in", "v": [0.5, null] })
        );
    }

    #[test]
    fn exact_numbers_survive_bit_by_bit() {
        let mut blobs = Blobs::default();
        let values: Vec<f64> = (0..100)
            .map(|i| if i == 3 { f64::NAN } else { 1.0 / f64::from(i + 1) })
            .collect();
        let column = blobs.numbers(&values, Precision::Exact);
        let back: Vec<u64> = unpacked(&blobs, &column, 8)
            .into_iter()
            .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
            .collect();
        assert_eq!(back, values.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
    }

    #[test]
    fn times_become_differences_or_a_series() {
        let mut blobs = Blobs::default();
        let even: Vec<i64> = (0..1000).map(|i| i * 10_000_000).collect();
        assert_eq!(
            blobs.steps(&even, 1e-9),
            json!({ "t": "lin", "n": 1000, "first": 0.0, "step": 0.01 })
        );
        let uneven: Vec<i64> = (0..1000)
            .map(|i| 50 + i * i * if i % 2 == 0 { 1 } else { -1 })
            .collect();
        let column = blobs.steps(&uneven, 1.0);
        assert_eq!((&column["t"], &column["first"]), (&json!("d32"), &json!(50)));
        let mut at = 50;
        let back: Vec<i64> = unpacked(&blobs, &column, 4)
            .into_iter()
            .map(|bytes| {
                let zigzag = i64::from(u32::from_le_bytes(bytes.try_into().expect("four bytes")));
                at += (zigzag >> 1) ^ -(zigzag & 1);
                at
            })
            .collect();
        assert_eq!(back, uneven);
    }
}
