//! From values to places along an axis, and the round values that are named there.

/// An axis of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) logarithmic: bool,
}

impl Scale {
    /// An axis that holds all of these values; from zero if `from_zero` and none is below it.
    pub(super) fn of(values: impl Iterator<Item = f64>, from_zero: bool) -> Self {
        let finite = values.filter(|value| value.is_finite());
        let (mut least, mut most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        if least > most {
            (least, most) = (0.0, 1.0);
        }
        if from_zero && least > 0.0 {
            least = 0.0;
        }
        if from_zero && most < 0.0 {
            most = 0.0;
        }
        if least == most {
            most = least + if least == 0.0 { 1.0 } else { least.abs() };
        }
        Scale {
            least,
            most,
            logarithmic: false,
        }
    }

    /// The same with its ends at round values.
    pub(super) fn rounded(self) -> Self {
        let step = self.step();
        Scale {
            least: (self.least / step + 1e-9).floor() * step,
            most: (self.most / step - 1e-9).ceil() * step,
            ..self
        }
    }

    /// Where a value is between the ends, 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        if self.logarithmic {
            (value / self.least).ln() / (self.most / self.least).ln()
        } else {
            (value - self.least) / (self.most - self.least)
        }
    }

    fn step(&self) -> f64 {
        let rough = (self.most - self.least) / 6.0;
        let unit = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|n| n * unit);
        steps
            .into_iter()
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(10.0 * unit)
    }

    /// Round values between the ends.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = self.least.log10().floor() as i32..=self.most.log10().ceil() as i32;
            let values = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|n| n * 10_f64.powi(decade)));
            return values
                .filter(|value| (self.least * 0.999..=self.most * 1.001).contains(value))
                .collect();
        }
        let step = self.step();
        let first = (self.least / step - 1e-9).ceil() as i64;
        let last = (self.most / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

/// A round value without digits that rounding left.
pub(super) fn label(value: f64) -> String {
    let size = value.abs();
    let cut = |value: f64| {
        let text = format!("{value:.6}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if text == "-0" { "0".to_owned() } else { text.to_owned() }
    };
    match size {
        0.0 => "0".to_owned(),
        s if s >= 1e6 => format!("{} M", cut(value / 1e6)),
        s if s >= 1e4 => format!("{} k", cut(value / 1e3)),
        s if s < 1e-4 => format!("{value:e}"),
        _ => cut(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_values_and_name_them() {
        let scale = Scale::of([0.3, 11.7].into_iter(), true).rounded();
        assert_eq!((scale.least, scale.most), (0.0, 12.0));
        assert_eq!(scale.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        assert_eq!(scale.share(3.0), 0.25);
        assert_eq!(
            [0.0, 0.30000000000000004, 25_000.0, -2.5e6, 0.00005].map(label),
            ["0", "0.3", "25 k", "-2.5 M", "5e-5"]
        );
    }

    #[test]
    fn values_that_do_not_differ_have_an_axis_as_well() {
        for value in [0.0, 5.0, -3.0, f64::NAN] {
            let scale = Scale::of([value].into_iter(), true).rounded();
            assert!(scale.most > scale.least && scale.ticks().len() >= 2, "{value}");
        }
    }

    #[test]
    fn a_logarithmic_axis_names_steps_of_each_decade() {
        let scale = Scale {
            least: 0.001,
            most: 0.1,
            logarithmic: true,
        };
        let labels: Vec<_> = scale.ticks().into_iter().map(label).collect();
        assert_eq!(labels, ["0.001", "0.002", "0.005", "0.01", "0.02", "0.05", "0.1"]);
        assert!((scale.share(0.01) - 0.5).abs() < 1e-12);
    }
}
