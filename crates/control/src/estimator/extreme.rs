//! The maximum and the minimum of a sliding window.

/// The maximum of the values within a span of rounds or time, from three candidates (after Nichols' filter, as in
/// Linux): the maximum, and the maxima of the values after it. Uses constant memory; exact as long as values do not
/// fall all the time.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowedMax {
    /// Time and value of the candidates, from the largest and oldest to the latest.
    best: [(u64, f64); 3],
}

impl WindowedMax {
    /// Records a value at `at` and discards values older than `window`. Returns the maximum.
    pub fn take(&mut self, at: u64, value: f64, window: u64) -> f64 {
        let new = (at, value);
        let best = &mut self.best;
        if value >= best[0].1 || at.saturating_sub(best[2].0) > window {
            *best = [new; 3];
            return value;
        }
        if value >= best[1].1 {
            best[1] = new;
            best[2] = new;
        } else if value >= best[2].1 {
            best[2] = new;
        }
        let age = at.saturating_sub(best[0].0);
        if age > window {
            // The maximum is too old: the next candidate replaces it.
            *best = [best[1], best[2], new];
            if at.saturating_sub(best[0].0) > window {
                *best = [best[1], best[2], new];
            }
        } else if best[1].0 == best[0].0 && age > window / 4 {
            // No better value in a quarter of the window: the second candidate comes from the next quarter.
            best[1] = new;
            best[2] = new;
        } else if best[2].0 == best[1].0 && age > window / 2 {
            best[2] = new;
        }
        best[0].1
    }

    /// Returns the maximum.
    pub fn get(&self) -> f64 {
        self.best[0].1
    }

    /// Discards all values but this one.
    pub fn reset(&mut self, at: u64, value: f64) {
        self.best = [(at, value); 3];
    }
}

/// The minimum of the values within a span of rounds or time, from three candidates as in [`WindowedMax`].
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowedMin {
    /// The maximum of the negated values.
    negated: Option<WindowedMax>,
}

impl WindowedMin {
    /// Records a value at `at` and discards values older than `window`. Returns the minimum.
    pub fn take(&mut self, at: u64, value: f64, window: u64) -> f64 {
        let negated = self.negated.get_or_insert_with(|| {
            let mut first = WindowedMax::default();
            first.reset(at, -value);
            first
        });
        -negated.take(at, -value, window)
    }

    /// Returns the minimum, or `None` before the first value.
    pub fn get(&self) -> Option<f64> {
        self.negated.map(|negated| -negated.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_value_lasts_as_long_as_the_window() {
        let mut max = WindowedMax::default();
        assert!((max.take(0, 100.0, 10) - 100.0).abs() < f64::EPSILON);
        for at in 1..=10 {
            assert!((max.take(at, 50.0, 10) - 100.0).abs() < f64::EPSILON, "{at}");
        }
        assert!((max.take(11, 50.0, 10) - 50.0).abs() < f64::EPSILON);
        assert!((max.take(12, 70.0, 10) - 70.0).abs() < f64::EPSILON);
    }

    #[test]
    fn it_is_never_below_the_values_of_the_last_quarter_nor_older_than_the_window() {
        let mut rng = crate::Rng::stream(3, "extreme");
        let values: Vec<f64> = (0..2000).map(|_| rng.unit()).collect();
        let mut max = WindowedMax::default();
        for at in 0..values.len() {
            let got = max.take(at as u64, values[at], 20);
            let recent = values[at.saturating_sub(4)..=at].iter().copied().fold(0.0, f64::max);
            let whole = values[at.saturating_sub(20)..=at].iter().copied().fold(0.0, f64::max);
            assert!(recent <= got && got <= whole, "{at}: {recent} {got} {whole}");
        }
    }

    #[test]
    fn the_least_value_lasts_as_long_as_the_window() {
        let mut min = WindowedMin::default();
        assert_eq!(min.get(), None);
        min.take(0, 100.0, 10);
        assert_eq!(min.get(), Some(100.0), "not 0, which was never recorded");
        assert!((min.take(1, 50.0, 10) - 50.0).abs() < f64::EPSILON);
        for at in 2..=11 {
            assert!((min.take(at, 80.0, 10) - 50.0).abs() < f64::EPSILON, "{at}");
        }
        assert!((min.take(12, 80.0, 10) - 80.0).abs() < f64::EPSILON);
    }
}
