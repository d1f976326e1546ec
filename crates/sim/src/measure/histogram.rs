//! Quantiles in bounded memory.

use whimbrel_control::Span;

/// Classes in each octave of the histogram: half the width of a class is at most 1 / 512 of its value.
const CLASSES: usize = 256;
/// log2 of `CLASSES`.
const CLASS_BITS: u32 = CLASSES.trailing_zeros();
/// Number of different classes that are kept in a list. With more, each octave in use has an array of all its classes.
const FEW: usize = 64;

/// Counts spans in classes that are at most 0.4 % wide: the error of quantiles is at most 0.2 %. Mean, minimum and maximum are
/// exact.
///
/// Up to 64 different classes use 16 bytes each, so that thousands of flows with few messages need little memory. With more, each octave
/// with a value uses 2 KiB; a link's delays need a few octaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    count: u64,
    sum: u128,
    least: u64,
    greatest: u64,
    /// The counts of single classes, sorted by number: the octave times `CLASSES` plus the class. Empty once there are octaves.
    few: Vec<(u16, u64)>,
    octaves: Vec<Option<Box<[u64]>>>,
}

/// Summary of a distribution of delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelaySummary {
    /// Number of values; if 0, all other fields are zero.
    pub count: u64,
    /// Mean.
    pub mean: Span,
    /// Median.
    pub p50: Span,
    /// 95 % quantile.
    pub p95: Span,
    /// 99 % quantile.
    pub p99: Span,
    /// Maximum.
    pub max: Span,
}

impl Histogram {
    /// Counts a span.
    pub fn add(&mut self, span: Span) {
        let value = span.as_nanos();
        if self.count == 0 || value < self.least {
            self.least = value;
        }
        self.greatest = self.greatest.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        let (octave, class) = place(value);
        self.count_in(octave, class, 1);
    }

    /// Adds `n` to the count of a class.
    fn count_in(&mut self, octave: usize, class: usize, n: u64) {
        match self.octaves.get_mut(octave) {
            Some(Some(classes)) => classes[class] += n,
            _ => self.count_first(octave, class, n),
        }
    }

    /// The same for a class whose octave has no array yet.
    #[cold]
    fn count_first(&mut self, octave: usize, class: usize, n: u64) {
        if self.octaves.is_empty() {
            let number = (octave * CLASSES + class) as u16;
            match self.few.binary_search_by_key(&number, |(number, _)| *number) {
                Ok(place) => {
                    self.few[place].1 += n;
                    return;
                }
                Err(place) if self.few.len() < FEW => {
                    self.few.insert(place, (number, n));
                    return;
                }
                Err(_) => {
                    for (number, n) in core::mem::take(&mut self.few) {
                        self.count_in_octave(usize::from(number) / CLASSES, usize::from(number) % CLASSES, n);
                    }
                }
            }
        }
        self.count_in_octave(octave, class, n);
    }

    fn count_in_octave(&mut self, octave: usize, class: usize, n: u64) {
        if self.octaves.len() <= octave {
            self.octaves.resize(octave + 1, None);
        }
        let classes = self.octaves[octave].get_or_insert_with(|| vec![0; CLASSES].into_boxed_slice());
        classes[class] += n;
    }

    /// Returns octave, class and count of each class that may have values, in the order of values.
    fn counts(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        let few = self.few.iter().map(|(number, n)| {
            let number = usize::from(*number);
            (number / CLASSES, number % CLASSES, *n)
        });
        let octaves = self.octaves.iter().enumerate().flat_map(|(octave, classes)| {
            let classes = classes.iter().flat_map(|classes| classes.iter().enumerate());
            classes.map(move |(class, n)| (octave, class, *n))
        });
        few.chain(octaves)
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        self.least = if self.count == 0 {
            other.least
        } else {
            self.least.min(other.least)
        };
        self.greatest = self.greatest.max(other.greatest);
        self.count += other.count;
        self.sum += other.sum;
        for (octave, class, n) in other.counts().filter(|(_, _, n)| *n > 0) {
            self.count_in(octave, class, n);
        }
    }

    /// Returns the number of counted spans.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean; zero if nothing was counted.
    pub fn mean(&self) -> Span {
        Span::from_nanos(self.sum.checked_div(u128::from(self.count)).unwrap_or(0) as u64)
    }

    /// Returns the value that a fraction `q` of all values does not exceed; zero if nothing was counted.
    pub fn quantile(&self, q: f64) -> Span {
        let rank = (libm::ceil(self.count as f64 * q) as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (octave, class, n) in self.counts() {
            seen += n;
            if seen >= rank {
                return Span::from_nanos(middle(octave, class).clamp(self.least, self.greatest));
            }
        }
        Span::ZERO
    }

    /// Returns mean, median, tail and maximum.
    pub fn summary(&self) -> DelaySummary {
        DelaySummary {
            count: self.count,
            mean: self.mean(),
            p50: self.quantile(0.5),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
            max: Span::from_nanos(self.greatest),
        }
    }
}

/// Returns octave and class of a value. Octave 0 has the values below `CLASSES`, each in its own class.
fn place(value: u64) -> (usize, usize) {
    let octave = (u64::BITS - value.leading_zeros()).saturating_sub(CLASS_BITS);
    if octave == 0 {
        return (0, value as usize);
    }
    // The leading one and the bits after it.
    (octave as usize, ((value >> (octave - 1)) as usize) & (CLASSES - 1))
}

/// Returns the value in the middle of a class.
fn middle(octave: usize, class: usize) -> u64 {
    if octave == 0 {
        return class as u64;
    }
    let width = 1_u64 << (octave - 1);
    ((CLASSES + class) as u64) * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_its_class() {
        for value in [0, 1, 255, 256, 257, 511, 512, 1000, 123_456_789, u64::MAX / 3, u64::MAX] {
            let (octave, class) = place(value);
            let error = middle(octave, class).abs_diff(value) as f64;
            assert!(error <= value as f64 / 512.0 + 1.0, "{value}: {octave} {class}");
        }
    }

    #[test]
    fn quantiles_are_within_half_a_percent() {
        let mut histogram = Histogram::default();
        for i in 1..=10_000_u64 {
            histogram.add(Span::from_micros(i * 7));
        }
        let summary = histogram.summary();
        assert_eq!(summary.count, 10_000);
        assert_eq!(summary.mean, Span::from_nanos(35_003_500));
        assert_eq!(summary.max, Span::from_millis(70));
        for (found, exact) in [(summary.p50, 35e-3), (summary.p95, 66.5e-3), (summary.p99, 69.3e-3)] {
            assert!((found.as_secs_f64() / exact - 1.0).abs() < 0.005, "{found} {exact}");
        }
    }

    #[test]
    fn few_classes_are_counted_as_many_are() {
        // Quantiles on both sides of the limit, and parts with and without arrays.
        for distinct in [1, FEW as u64 - 1, FEW as u64, FEW as u64 + 1, 200] {
            let (mut whole, mut parts) = (Histogram::default(), [Histogram::default(), Histogram::default()]);
            for i in 0..1000 {
                let span = Span::from_nanos(i % distinct);
                whole.add(span);
                parts[usize::from(i % distinct > 3)].add(span);
            }
            assert_eq!(whole.octaves.is_empty(), distinct <= FEW as u64);
            let [mut low, high] = parts;
            low.merge(&high);
            assert_eq!(low, whole);
            let mut values: Vec<_> = (0..1000).map(|i| i % distinct).collect();
            values.sort_unstable();
            for percent in 1..=100 {
                let exact = Span::from_nanos(values[percent * 10 - 1]);
                assert_eq!(whole.quantile(percent as f64 / 100.0), exact, "{distinct}: {percent} %");
            }
        }
    }

    #[test]
    fn merged_halves_equal_the_whole() {
        let (mut whole, mut low, mut high) = (Histogram::default(), Histogram::default(), Histogram::default());
        for i in 1..=1000_u64 {
            let span = Span::from_micros(i * i);
            whole.add(span);
            if i <= 300 { low.add(span) } else { high.add(span) }
        }
        let mut merged = Histogram::default();
        merged.merge(&high);
        merged.merge(&low);
        merged.merge(&Histogram::default());
        assert_eq!(merged, whole);
    }

    #[test]
    fn zero_and_one_values_are_exact() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.summary(), DelaySummary::default());
        histogram.add(Span::from_nanos(987_654_321));
        let one = histogram.summary();
        assert_eq!((one.p50, one.p99, one.mean), (one.max, one.max, one.max));
    }
}
