//! A chart: axes, curves with bands, marks, and a legend.

use super::canvas::{Anchor, At, Canvas, Colour, Stroke};
use super::scale::{Scale, label};

/// The size of a figure in points: one column of a paper, or two.
pub(super) const WIDTH: f64 = 480.0;
pub(super) const HEIGHT: f64 = 300.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 468.0;
const BOTTOM: f64 = 258.0;
const TEXT: Colour = [0x1b, 0x1f, 0x24];
const MUTED: Colour = [0x59, 0x63, 0x6e];
const GRID: Colour = [0xd9, 0xde, 0xe3];
const SIZE: f64 = 10.0;

/// Colours that remain distinguishable with red-green colour blindness (Okabe and Ito 2008), darkened for thin lines.
pub(super) const COLOURS: [Colour; 7] = [
    [0x00, 0x72, 0xb2],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x9e, 0x73],
    [0xb8, 0x57, 0x8c],
    [0x2c, 0x9f, 0xd6],
    [0xb8, 0x77, 0x00],
    [0x5b, 0x64, 0x70],
];
/// Dashes distinguish curves without colour.
const DASHES: [&[f64]; 5] = [&[], &[6.0, 3.0], &[1.5, 2.0], &[8.0, 2.0, 1.5, 2.0], &[3.0, 3.0]];

/// What a curve's points are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Means with intervals, joined by a line with marks on it.
    Means,
    /// Values of a paper: an open diamond each, joined by a dotted line.
    Paper,
    /// Samples, joined by a thin line.
    Samples,
    /// A mark at each point.
    Marks,
}

/// Values along the x axis.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) look: Look,
    /// x, y and half the width of the interval; NaN without one.
    pub(super) points: Vec<(f64, f64, f64)>,
    /// Its place in the list of colours, dashes and marks.
    pub(super) style: usize,
}

/// The x axis.
#[derive(Clone, Debug)]
pub(super) enum Across {
    Numbers(Scale),
    /// Names at 0, 1 and so on.
    Names(Vec<String>),
}

/// A figure.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x_label: String,
    pub(super) y_label: String,
    pub(super) across: Across,
    pub(super) curves: Vec<Curve>,
}

struct Frame {
    top: f64,
    x: Scale,
    y: Scale,
}

impl Frame {
    fn place(&self, x: f64, y: f64) -> At {
        (
            LEFT + self.x.share(x) * (RIGHT - LEFT),
            BOTTOM - self.y.share(y) * (BOTTOM - self.top),
        )
    }
}

impl Chart {
    pub(super) fn draw(&self, canvas: &mut dyn Canvas) {
        let top = self.legend(canvas);
        let ends = |(_, y, ci95): &(f64, f64, f64)| {
            let half = if ci95.is_finite() { *ci95 } else { 0.0 };
            [y - half, y + half]
        };
        let from_zero = self.curves.iter().all(|curve| curve.look != Look::Marks);
        let frame = Frame {
            top,
            x: match &self.across {
                Across::Numbers(scale) => *scale,
                Across::Names(names) => Scale {
                    least: -0.6,
                    most: names.len() as f64 - 0.4,
                    logarithmic: false,
                },
            },
            y: Scale::of(
                self.curves.iter().flat_map(|curve| &curve.points).flat_map(ends),
                from_zero,
            )
            .rounded(),
        };
        self.axes(canvas, &frame);
        canvas.clip(Some(((LEFT - 5.0, top - 5.0), (RIGHT + 5.0, BOTTOM + 5.0))));
        let joined = matches!(self.across, Across::Numbers(_));
        for curve in &self.curves {
            curve.intervals(canvas, &frame, joined);
        }
        for curve in &self.curves {
            curve.draw(canvas, &frame, joined);
        }
        canvas.clip(None);
    }

    /// Draws the legend if there is more than one curve; returns where the frame begins.
    fn legend(&self, canvas: &mut dyn Canvas) -> f64 {
        if self.curves.len() < 2 {
            return 14.0;
        }
        let (mut x, mut y) = (LEFT, 14.0);
        for curve in &self.curves {
            let needed = 34.0 + super::pdf::width(&curve.name) * SIZE + 18.0;
            if x + needed > RIGHT && x > LEFT {
                (x, y) = (LEFT, y + 14.0);
            }
            let sample = Curve {
                points: if curve.look == Look::Marks {
                    vec![(x + 14.0, y - 3.5, f64::NAN)]
                } else {
                    vec![(x, y - 3.5, f64::NAN), (x + 24.0, y - 3.5, f64::NAN)]
                },
                ..curve.clone()
            };
            let places: Vec<At> = sample.points.iter().map(|(x, y, _)| (*x, *y)).collect();
            sample.shape(canvas, &places, true);
            canvas.text((x + 30.0, y), &curve.name, TEXT, SIZE, Anchor::Start, false);
            x += needed;
        }
        y + 14.0
    }

    fn axes(&self, canvas: &mut dyn Canvas, frame: &Frame) {
        let thin = |colour| Stroke {
            colour,
            width: 0.6,
            dashes: &[],
        };
        for value in frame.y.ticks() {
            let (_, y) = frame.place(frame.x.least, value);
            canvas.line(&[(LEFT, y), (RIGHT, y)], thin(GRID));
            canvas.text((LEFT - 5.0, y + 3.5), &label(value), MUTED, SIZE, Anchor::End, false);
        }
        let named: Vec<(f64, String)> = match &self.across {
            Across::Numbers(scale) => scale.ticks().into_iter().map(|value| (value, label(value))).collect(),
            Across::Names(names) => (0..).map(f64::from).zip(names.iter().cloned()).collect(),
        };
        let mut free = f64::NEG_INFINITY;
        for (value, words) in named {
            let (x, _) = frame.place(value, frame.y.least);
            canvas.line(&[(x, BOTTOM), (x, BOTTOM + 4.0)], thin(MUTED));
            let half = super::pdf::width(&words) * SIZE / 2.0;
            if x - half >= free {
                canvas.text((x, BOTTOM + 15.0), &words, MUTED, SIZE, Anchor::Middle, false);
                free = x + half + 4.0;
            }
        }
        canvas.line(&[(LEFT, frame.top), (LEFT, BOTTOM), (RIGHT, BOTTOM)], thin(MUTED));
        canvas.text(
            ((LEFT + RIGHT) / 2.0, HEIGHT - 8.0),
            &self.x_label,
            TEXT,
            SIZE,
            Anchor::Middle,
            false,
        );
        canvas.text(
            (12.0, (frame.top + BOTTOM) / 2.0),
            &self.y_label,
            TEXT,
            SIZE,
            Anchor::Middle,
            true,
        );
    }
}

impl Curve {
    fn colour(&self) -> Colour {
        if self.look == Look::Paper {
            TEXT
        } else {
            COLOURS[self.style % COLOURS.len()]
        }
    }

    /// A band along numbers, whiskers along names.
    fn intervals(&self, canvas: &mut dyn Canvas, frame: &Frame, joined: bool) {
        let known: Vec<_> = self
            .points
            .iter()
            .filter(|(_, _, ci95)| ci95.is_finite() && *ci95 > 0.0)
            .collect();
        if joined && known.len() > 1 {
            let upper = known.iter().map(|(x, y, ci95)| frame.place(*x, y + ci95));
            let lower = known.iter().rev().map(|(x, y, ci95)| frame.place(*x, y - ci95));
            canvas.polygon(&upper.chain(lower).collect::<Vec<_>>(), self.colour(), 0.18);
            return;
        }
        let stroke = Stroke {
            colour: self.colour(),
            width: 1.0,
            dashes: &[],
        };
        for (x, y, ci95) in known {
            let (low, high) = (frame.place(*x, y - ci95), frame.place(*x, y + ci95));
            canvas.line(&[low, high], stroke);
            for (x, y) in [low, high] {
                canvas.line(&[(x - 3.0, y), (x + 3.0, y)], stroke);
            }
        }
    }

    fn draw(&self, canvas: &mut dyn Canvas, frame: &Frame, joined: bool) {
        let places: Vec<At> = self.points.iter().map(|(x, y, _)| frame.place(*x, *y)).collect();
        self.shape(canvas, &places, joined);
    }

    fn shape(&self, canvas: &mut dyn Canvas, places: &[At], joined: bool) {
        let (width, dashes): (f64, &'static [f64]) = match self.look {
            Look::Means => (1.5, DASHES[self.style % DASHES.len()]),
            Look::Paper => (1.0, &[1.5, 2.0]),
            Look::Samples => (0.8, DASHES[self.style % DASHES.len()]),
            Look::Marks => (0.0, &[]),
        };
        if joined && width > 0.0 && places.len() > 1 {
            let colour = self.colour();
            canvas.line(places, Stroke { colour, width, dashes });
        }
        match self.look {
            Look::Samples => {}
            Look::Marks => places
                .iter()
                .for_each(|at| self.mark(canvas, *at, if self.style == 6 { 0.8 } else { 2.6 })),
            Look::Means | Look::Paper => places.iter().for_each(|at| self.mark(canvas, *at, 3.0)),
        }
    }

    /// A square, triangle, diamond or other mark of this radius.
    fn mark(&self, canvas: &mut dyn Canvas, (x, y): At, r: f64) {
        let shape: Vec<At> = match self.style % 4 {
            _ if self.look == Look::Paper => vec![(x, y - r), (x + r, y), (x, y + r), (x - r, y), (x, y - r)],
            0 => (0..12)
                .map(f64::from)
                .map(|i| i * std::f64::consts::TAU / 12.0)
                .map(|a| (x + r * a.cos(), y + r * a.sin()))
                .collect(),
            1 => vec![(x, y - 1.2 * r), (x + r, y + 0.8 * r), (x - r, y + 0.8 * r)],
            2 => vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
            _ => vec![(x, y - 1.2 * r), (x + 1.2 * r, y), (x, y + 1.2 * r), (x - 1.2 * r, y)],
        };
        if self.look == Look::Paper {
            let colour = self.colour();
            canvas.line(
                &shape,
                Stroke {
                    colour,
                    width: 1.0,
                    dashes: &[],
                },
            );
        } else {
            canvas.polygon(&shape, self.colour(), 1.0);
        }
    }
}
