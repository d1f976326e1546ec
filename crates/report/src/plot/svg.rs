//! Figures as SVG.

use std::fmt::Write as _;

use whimbrel_scenario::visible_xml;

use super::canvas::{Anchor, At, Canvas, Colour, Stroke};

/// A file that is being drawn.
#[derive(Debug)]
pub(super) struct Svg {
    text: String,
    clips: usize,
    clipped: bool,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"Helvetica, Arial, sans-serif\">\n<title>{}</title>\n",
            visible_xml(title)
        );
        let _ = writeln!(text, "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>");
        Svg {
            text,
            clips: 0,
            clipped: false,
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.clip(None);
        self.text.push_str("</svg>\n");
        self.text
    }
}

fn shown(points: &[At]) -> String {
    let mut text = String::with_capacity(points.len() * 12);
    for (x, y) in points {
        let _ = write!(text, "{x:.1},{y:.1} ");
    }
    text.truncate(text.trim_end().len());
    text
}

fn hex([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

impl Canvas for Svg {
    fn line(&mut self, points: &[At], stroke: Stroke) {
        let dashes: Vec<String> = stroke.dashes.iter().map(f64::to_string).collect();
        let dashes = if dashes.is_empty() {
            String::new()
        } else {
            format!(" stroke-dasharray=\"{}\"", dashes.join(" "))
        };
        let _ = writeln!(
            self.text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{dashes}/>",
            shown(points),
            hex(stroke.colour),
            stroke.width
        );
    }

    fn polygon(&mut self, points: &[At], fill: Colour, opacity: f64) {
        let opacity = if opacity < 1.0 {
            format!(" fill-opacity=\"{opacity}\"")
        } else {
            String::new()
        };
        let _ = writeln!(
            self.text,
            "<polygon points=\"{}\" fill=\"{}\"{opacity}/>",
            shown(points),
            hex(fill)
        );
    }

    fn text(&mut self, at: At, words: &str, colour: Colour, size: f64, anchor: Anchor, upwards: bool) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = at;
        let turn = if upwards {
            format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"")
        } else {
            String::new()
        };
        let _ = writeln!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{}\" text-anchor=\"{anchor}\"{turn}>{}</text>",
            hex(colour),
            visible_xml(words)
        );
    }

    fn clip(&mut self, area: Option<(At, At)>) {
        if std::mem::take(&mut self.clipped) {
            self.text.push_str("</g>\n");
        }
        if let Some(((left, top), (right, bottom))) = area {
            self.clips += 1;
            self.clipped = true;
            let (id, width, height) = (self.clips, right - left, bottom - top);
            let _ = writeln!(
                self.text,
                "<clipPath id=\"clip{id}\"><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/></clipPath>\n\
                 <g clip-path=\"url(#clip{id})\">"
            );
        }
    }
}
