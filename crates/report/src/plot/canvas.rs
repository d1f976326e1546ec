//! What figures are drawn on.

/// A place in points, from the upper left corner.
pub(super) type At = (f64, f64);

/// Red, green and blue.
pub(super) type Colour = [u8; 3];

/// Where a text stands at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A line's look: lengths of dashes and gaps, none for a solid one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    pub(super) colour: Colour,
    pub(super) width: f64,
    pub(super) dashes: &'static [f64],
}

/// Draws shapes.
pub(super) trait Canvas {
    fn line(&mut self, points: &[At], stroke: Stroke);

    /// A filled polygon; `opacity` is 0 to 1.
    fn polygon(&mut self, points: &[At], fill: Colour, opacity: f64);

    /// A text, upright or turned by a quarter to the left.
    fn text(&mut self, at: At, words: &str, colour: Colour, size: f64, anchor: Anchor, upwards: bool);

    /// From here on shapes are cut at this rectangle: upper left and lower right corner. None ends that.
    fn clip(&mut self, area: Option<(At, At)>);
}
