//! Static figures: the same data as the page's, as SVG and PDF for papers, without a browser.

mod canvas;
mod chart;
mod figures;
mod pdf;
mod scale;
mod senders;
mod svg;
mod time;

pub use self::figures::PlotOptions;
pub(crate) use self::figures::plots;

/// Formats of a figure's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Scalable Vector Graphics.
    Svg,
    /// Portable Document Format, with Helvetica of the reader's machine.
    Pdf,
}

impl Format {
    /// The end of a file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Svg => "svg",
            Format::Pdf => "pdf",
        }
    }
}

/// A figure.
#[derive(Debug)]
pub struct Plot {
    /// Its path below the folder of figures, without the end that the format gives it.
    pub path: String,
    chart: chart::Chart,
}

impl Plot {
    /// The content of its file.
    pub fn render(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Svg => {
                let mut svg = svg::Svg::new(chart::WIDTH, chart::HEIGHT, &self.chart.title);
                self.chart.draw(&mut svg);
                svg.finish().into_bytes()
            }
            Format::Pdf => {
                let mut pdf = pdf::Pdf::new(chart::WIDTH, chart::HEIGHT, &self.chart.title);
                self.chart.draw(&mut pdf);
                pdf.finish()
            }
        }
    }
}
