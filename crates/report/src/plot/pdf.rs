//! Figures as PDF, one page each. Text is set in Helvetica, which every reader of PDF has and no file contains.

use pdf_writer::types::LineCapStyle;
use pdf_writer::{Content, Finish as _, Name, Pdf as Writer, Rect, Ref, Str, TextStr};

use super::canvas::{Anchor, At, Canvas, Colour, Stroke};

const FONT: Name<'static> = Name(b"F1");

/// Widths of Helvetica's characters from the space to the tilde, in thousandths of the size (Adobe, font metrics of the core fonts).
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
];

/// A file that is being drawn.
pub(super) struct Pdf {
    content: Content,
    width: f64,
    height: f64,
    title: String,
    clipped: bool,
    /// Degrees of opacity in per cent, each a state of its own.
    opacities: Vec<u8>,
}

impl Pdf {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        Pdf {
            content: Content::new(),
            width,
            height,
            title: title.to_owned(),
            clipped: false,
            opacities: Vec::new(),
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.clip(None);
        let [catalog, tree, page, font, content, info] = [1, 2, 3, 4, 5, 6].map(Ref::new);
        let mut pdf = Writer::new();
        pdf.catalog(catalog).pages(tree);
        pdf.pages(tree).kids([page]).count(1);
        pdf.document_info(info).title(TextStr(&self.title));
        let mut one = pdf.page(page);
        one.media_box(Rect::new(0.0, 0.0, self.width as f32, self.height as f32))
            .parent(tree)
            .contents(content);
        let mut resources = one.resources();
        resources.fonts().pair(FONT, font);
        let states: Vec<Ref> = (0..self.opacities.len()).map(|i| Ref::new(7 + i as i32)).collect();
        let mut list = resources.ext_g_states();
        for (percent, state) in self.opacities.iter().zip(&states) {
            list.pair(Name(state_name(*percent).as_bytes()), *state);
        }
        list.finish();
        resources.finish();
        one.finish();
        for (percent, state) in self.opacities.iter().zip(states) {
            pdf.ext_graphics(state).non_stroking_alpha(f32::from(*percent) / 100.0);
        }
        pdf.type1_font(font)
            .base_font(Name(b"Helvetica"))
            .encoding_predefined(Name(b"WinAnsiEncoding"));
        pdf.stream(content, &self.content.finish());
        pdf.finish()
    }

    /// The axis of a page points up.
    fn place(&self, (x, y): At) -> (f32, f32) {
        (x as f32, (self.height - y) as f32)
    }

    fn path(&mut self, points: &[At]) {
        for (i, point) in points.iter().enumerate() {
            let (x, y) = self.place(*point);
            if i == 0 {
                self.content.move_to(x, y);
            } else {
                self.content.line_to(x, y);
            }
        }
    }
}

fn state_name(percent: u8) -> String {
    format!("A{percent}")
}

fn share(part: u8) -> f32 {
    f32::from(part) / 255.0
}

/// Text in the encoding of the font: ISO 8859-1 and a few more. Other characters are question marks.
fn encoded(words: &str) -> Vec<u8> {
    let byte = |c: char| match c {
        ' '..='~' | '\u{a0}'..='\u{ff}' => c as u8,
        '\u{2013}' => 0x96,
        '\u{2014}' => 0x97,
        '\u{2026}' => 0x85,
        _ => b'?',
    };
    words.chars().map(byte).collect()
}

/// The width of a text at size 1.
pub(super) fn width(words: &str) -> f64 {
    let of = |c: char| {
        usize::try_from(u32::from(c))
            .ok()?
            .checked_sub(32)
            .and_then(|place| WIDTHS.get(place))
    };
    words
        .chars()
        .map(|c| f64::from(of(c).copied().unwrap_or(556)) / 1000.0)
        .sum()
}

impl Canvas for Pdf {
    fn line(&mut self, points: &[At], stroke: Stroke) {
        let [red, green, blue] = stroke.colour.map(share);
        self.content
            .set_stroke_rgb(red, green, blue)
            .set_line_width(stroke.width as f32)
            .set_line_cap(LineCapStyle::ButtCap);
        self.content
            .set_dash_pattern(stroke.dashes.iter().map(|dash| *dash as f32), 0.0);
        self.path(points);
        self.content.stroke();
    }

    fn polygon(&mut self, points: &[At], fill: Colour, opacity: f64) {
        let [red, green, blue] = fill.map(share);
        let percent = (opacity.clamp(0.0, 1.0) * 100.0).round() as u8;
        self.content.save_state();
        if percent < 100 {
            if !self.opacities.contains(&percent) {
                self.opacities.push(percent);
            }
            self.content.set_parameters(Name(state_name(percent).as_bytes()));
        }
        self.content.set_fill_rgb(red, green, blue);
        self.path(points);
        self.content.close_path().fill_nonzero();
        self.content.restore_state();
    }

    fn text(&mut self, at: At, words: &str, colour: Colour, size: f64, anchor: Anchor, upwards: bool) {
        let back = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width(words) * size / 2.0,
            Anchor::End => width(words) * size,
        };
        let (x, y) = self.place(if upwards {
            (at.0, at.1 + back)
        } else {
            (at.0 - back, at.1)
        });
        let [red, green, blue] = colour.map(share);
        let turn = if upwards {
            [0.0, 1.0, -1.0, 0.0, x, y]
        } else {
            [1.0, 0.0, 0.0, 1.0, x, y]
        };
        self.content
            .set_fill_rgb(red, green, blue)
            .begin_text()
            .set_font(FONT, size as f32)
            .set_text_matrix(turn);
        self.content.show(Str(&encoded(words))).end_text();
    }

    fn clip(&mut self, area: Option<(At, At)>) {
        if std::mem::take(&mut self.clipped) {
            self.content.restore_state();
        }
        if let Some((upper, lower)) = area {
            self.clipped = true;
            let ((left, top), (right, bottom)) = (self.place(upper), self.place(lower));
            self.content
                .save_state()
                .rect(left, bottom, right - left, top - bottom)
                .clip_nonzero()
                .end_path();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_helvetica() {
        assert!((width("Wi 1") - (0.944 + 0.222 + 0.278 + 0.556)).abs() < 1e-9);
        assert!((width("~@") - (0.584 + 1.015)).abs() < 1e-9);
    }

    #[test]
    fn characters_that_the_font_lacks_are_marked() {
        assert_eq!(
            encoded("5 µs ± → –"),
            [b'5', b' ', 0xb5, b's', b' ', 0xb1, b' ', b'?', b' ', 0x96]
        );
    }
}
