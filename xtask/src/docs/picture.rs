//! The README's picture: the demo's transfer with standard SCTP and with `multipath`, drawn from the events of the first run of
//! each scheme.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::Value;

use super::command::whimbrel;
use crate::chore::{Outcome, root};
use crate::files::{below, read};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 430.0;
/// The frames of all panels: left and right edge; [`PANELS`] has the top and bottom of each.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 944.0;
/// The schemes in the order of the scenario's sweep, with the panel of each: top and bottom.
const PANELS: [(&str, (f64, f64)); 2] = [("standard", (70.0, 200.0)), ("multipath", (252.0, 382.0))];
/// Width of a bar in milliseconds.
const BIN_MS: f64 = 100.0;
/// The paths in the order of the scenario, with their colours.
const PATHS: [(&str, &str); 2] = [("Wi-Fi", "#2166ac"), ("LTE", "#e08214")];
const LOSS: &str = "#b2182b";
const SCENARIO: &str = "examples/two-radios.toml";

/// The transfer with one scheme.
#[derive(Default)]
struct Story {
    /// Bytes of DATA chunks sent per bin, by path.
    sent: [Vec<f64>; 2],
    /// Times in ms of packets lost on a link that was up.
    lost: Vec<f64>,
    /// Time of the last DATA chunk, in ms.
    end: f64,
}

/// Returns the picture of the demo.
pub(crate) fn demo() -> Outcome<String> {
    let folder = tempfile::tempdir().map_err(|e| format!("no folder for the demo's results: {e}"))?;
    let out = folder.path().display().to_string();
    whimbrel(&["demo", "--out", &out])?;
    let mut files = below(folder.path())?;
    files.retain(|path| path.ends_with("events.jsonl"));
    let mut stories = Vec::new();
    for (scheme, _) in PANELS {
        let folder = format!("sctp.scheme={scheme}");
        let is_of_scheme = |path: &&PathBuf| path.components().any(|part| part.as_os_str() == folder.as_str());
        let path = files.iter().find(is_of_scheme);
        let path = path.ok_or_else(|| format!("the demo recorded no run with {scheme}"))?;
        stories.push(Story::read(&read(path)?)?);
    }
    Ok(draw(&stories, wifi_outage()?))
}

/// Returns the times in ms at which the demo's scenario takes the Wi-Fi link down and up again.
fn wifi_outage() -> Outcome<(f64, f64)> {
    let scenario: toml::Value =
        toml::from_str(&read(&root().join(SCENARIO))?).map_err(|e| format!("{SCENARIO}: {e}"))?;
    let links = scenario["link"].as_array().map_or(&[][..], Vec::as_slice);
    let schedule = links
        .iter()
        .find(|link| link["name"].as_str() == Some("wifi"))
        .and_then(|link| link.get("schedule"));
    let seconds = |step: usize| {
        let at = schedule?.get(step)?.get("at")?.as_str()?;
        at.strip_suffix(" s")?.parse::<f64>().ok()
    };
    match (seconds(0), seconds(1)) {
        (Some(down), Some(up)) => Ok((down * 1000.0, up * 1000.0)),
        _ => Err(format!("{SCENARIO}: link wifi has no schedule in seconds")),
    }
}

impl Story {
    fn read(events: &str) -> Outcome<Self> {
        let mut story = Story::default();
        for line in events.lines() {
            let event: Value = serde_json::from_str(line).map_err(|e| format!("events.jsonl: {e}: {line}"))?;
            story.take(&event);
        }
        if story.sent.iter().all(Vec::is_empty) {
            return Err("the demo's events contain no data sent".to_owned());
        }
        Ok(story)
    }

    fn take(&mut self, event: &Value) {
        let time = event["time"].as_f64().unwrap_or(0.0);
        let data = &event["data"];
        let path = data["path"]
            .as_u64()
            .map(|path| path as usize)
            .filter(|path| *path < PATHS.len());
        match (event["name"].as_str().unwrap_or_default(), path) {
            ("transport:tsn_sent", Some(path)) if event["node"] == "phone" => {
                let bin = (time / BIN_MS) as usize;
                let bins = &mut self.sent[path];
                bins.resize(bins.len().max(bin + 1), 0.0);
                bins[bin] += data["length"].as_f64().unwrap_or(0.0);
                self.end = self.end.max(time);
            }
            ("network:packet_dropped", _) if data["trigger"] != "link-down" => self.lost.push(time),
            _ => {}
        }
    }

    /// Returns the highest rate of all bins over both paths, in Mbit/s.
    fn peak_mbps(&self) -> f64 {
        let [wifi, lte] = &self.sent;
        (0..wifi.len().max(lte.len()))
            .map(|bin| mbps(wifi.get(bin).unwrap_or(&0.0) + lte.get(bin).unwrap_or(&0.0)))
            .fold(1.0, f64::max)
    }
}

fn mbps(bytes: f64) -> f64 {
    bytes * 8.0 / BIN_MS / 1e3
}

fn draw(stories: &[Story], outage: (f64, f64)) -> String {
    let seconds = stories
        .iter()
        .map(|story| story.end / 1000.0)
        .fold(1.0, f64::max)
        .ceil();
    let x = |ms: f64| LEFT + ms / 1000.0 / seconds * (RIGHT - LEFT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"13\" fill=\"#333\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    let title = "A phone sends 8 MB over Wi-Fi and LTE. Wi-Fi loses 1 % of the packets and fails for a while.";
    text(&mut svg, LEFT, 22.0, "start", title);
    legend(&mut svg);
    let top = nice(stories.iter().map(Story::peak_mbps).fold(1.0, f64::max));
    for (story, (scheme, frame)) in stories.iter().zip(PANELS) {
        panel(&mut svg, story, scheme, frame, top, outage, &x);
    }
    let below = PANELS[PANELS.len() - 1].1.1;
    let step = if seconds > 16.0 { 2 } else { 1 };
    for second in (0..=seconds as u32).step_by(step) {
        text(
            &mut svg,
            x(f64::from(second) * 1000.0),
            below + 26.0,
            "middle",
            &second.to_string(),
        );
    }
    text(
        &mut svg,
        (LEFT + RIGHT) / 2.0,
        below + 42.0,
        "middle",
        "simulated time, s",
    );
    svg.push_str("</svg>\n");
    svg
}

/// Draws one scheme: the rate sent on each path, stacked; losses; the end of the transfer.
fn panel(
    svg: &mut String,
    story: &Story,
    scheme: &str,
    (above, below): (f64, f64),
    top: f64,
    outage: (f64, f64),
    x: &dyn Fn(f64) -> f64,
) {
    let (from, to) = (x(outage.0), x(outage.1));
    let (width, height) = (to - from, below - above);
    let _ = writeln!(
        svg,
        "<rect x=\"{from:.1}\" y=\"{above}\" width=\"{width:.1}\" height=\"{height}\" fill=\"#eee\"/>"
    );
    text(svg, (from + to) / 2.0, above + 16.0, "middle", "Wi-Fi is down");
    for part in [0.0, 0.5, 1.0] {
        let y = below - part * (below - above);
        line(svg, (LEFT, y), (RIGHT, y), "#ccc");
        text(svg, LEFT - 6.0, y + 4.0, "end", &format!("{}", top * part));
    }
    text(svg, LEFT, above - 8.0, "start", &format!("{scheme}: sent, Mbit/s"));
    let height_of = |bytes: f64| mbps(bytes) / top * (below - above);
    for bin in 0..story.sent.iter().map(Vec::len).max().unwrap_or(0) {
        let (from, to) = (x(bin as f64 * BIN_MS), x((bin + 1) as f64 * BIN_MS));
        let mut floor = below;
        for (bins, (_, colour)) in story.sent.iter().zip(PATHS) {
            let height = height_of(bins.get(bin).copied().unwrap_or(0.0));
            if height > 0.0 {
                let (width, y) = ((to - from - 0.6).max(0.8), floor - height);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
                );
                floor = y;
            }
        }
    }
    for time in &story.lost {
        line(svg, (x(*time), below + 3.0), (x(*time), below + 10.0), LOSS);
    }
    let end = x(story.end);
    line(svg, (end, above), (end, below), "#333\" stroke-width=\"1.5");
    let done = format!("done after {:.1} s", story.end / 1000.0);
    let (at, anchor) = if end > RIGHT - 130.0 {
        (end - 6.0, "end")
    } else {
        (end + 6.0, "start")
    };
    text(svg, at, above + 16.0, anchor, &done);
}

fn legend(svg: &mut String) {
    let mut at = 660.0;
    for (name, colour) in PATHS {
        let _ = writeln!(
            svg,
            "<rect x=\"{at}\" y=\"40\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
        );
        text(svg, at + 17.0, 51.0, "start", name);
        at += 80.0;
    }
    line(svg, (at, 41.0), (at, 52.0), LOSS);
    text(svg, at + 7.0, 51.0, "start", "packet lost");
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), stroke: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{stroke}\"/>"
    );
}

/// Returns the next of 1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10 times a power of ten.
fn nice(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor());
    [1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .map(|n| n * unit)
        .into_iter()
        .find(|n| *n >= value)
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_events_to_bars_and_marks() {
        let events = r#"{"data":{"length":1452,"path":0},"name":"transport:tsn_sent","node":"phone","time":40.0}
{"data":{"length":1452,"path":0},"name":"transport:tsn_sent","node":"phone","time":150.0}
{"data":{"length":1452,"path":1},"name":"transport:tsn_sent","node":"phone","time":150.0}
{"data":{"length":1452,"path":0},"name":"transport:tsn_sent","node":"server","time":250.0}
{"data":{"trigger":"loss-bernoulli"},"name":"network:packet_dropped","node":"phone","time":160.0}
{"data":{"trigger":"link-down"},"name":"network:packet_dropped","node":"phone","time":170.0}"#;
        let story = Story::read(events).unwrap();
        assert_eq!(story.sent, [vec![1452.0, 1452.0], vec![0.0, 1452.0]]);
        assert_eq!((story.lost.len(), story.end), (1, 150.0));
        assert!(draw(&[story], (0.0, 1.0)).starts_with("<svg"));
        assert!(Story::read("{}").is_err());
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([0.7, 11.0, 19.3, 262.0].map(nice), [0.8, 12.0, 20.0, 300.0]);
    }
}
