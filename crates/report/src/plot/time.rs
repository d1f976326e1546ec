//! Figures over time.

use super::Plot;
use super::chart::{Across, Chart, Curve};
use super::scale::Scale;

/// Pixel columns of a figure over time: of each the least and the greatest value are drawn.
pub(super) const COLUMNS: usize = 800;

/// Curves of a figure over time, at most.
pub(super) const MOST_CURVES: usize = 8;

/// A figure over time; none without values.
pub(super) fn over_time(path: String, label: &str, curves: Vec<Curve>, run: &str) -> Option<Plot> {
    let end = curves
        .iter()
        .filter_map(|curve| curve.points.last())
        .map(|point| point.0)
        .fold(0.0, f64::max);
    (end > 0.0).then(|| Plot {
        path,
        chart: Chart {
            title: format!("{label}: {run}"),
            x_label: "time, s".to_owned(),
            y_label: label.to_owned(),
            across: Across::Numbers(Scale {
                least: 0.0,
                most: end,
                logarithmic: false,
            }),
            curves,
        },
    })
}
