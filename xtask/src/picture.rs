//! The README's picture: what the demo's association does over time, drawn from the events of its first run.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{Outcome, process, root};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 440.0;
/// The frames of both panels: left and right edge, then top and bottom of each.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 944.0;
const RATE: (f64, f64) = (58.0, 218.0);
const WINDOW: (f64, f64) = (262.0, 400.0);
/// Width of a bar of the rate, in milliseconds.
const BIN_MS: f64 = 100.0;
/// The paths in the order of the scenario, with their colours.
const PATHS: [(&str, &str); 2] = [("Wi-Fi", "#2166ac"), ("LTE", "#e08214")];

/// What is drawn.
#[derive(Default)]
struct Story {
    /// Bytes of DATA chunks sent in each bin, by path.
    sent: [Vec<f64>; 2],
    /// Times in ms and congestion windows in kB, by path.
    windows: [Vec<(f64, f64)>; 2],
    /// Times in ms of packets lost on a link that was up.
    lost: Vec<f64>,
    /// From when to when the Wi-Fi link was down, in ms.
    outage: (f64, f64),
    /// Times in ms of retransmission timeouts.
    timeouts: Vec<f64>,
    /// The last event, in ms.
    end: f64,
}

/// The picture of a run of the demo.
pub(crate) fn demo() -> Outcome<String> {
    let folder = tempfile::tempdir().map_err(|e| format!("no folder for the demo's results: {e}"))?;
    let out = folder.path().display().to_string();
    process::output(&mut process::cargo(&[
        "run",
        "--quiet",
        "--package",
        "whimbrel-cli",
        "--",
        "demo",
        "--out",
        &out,
    ]))?;
    let path = folder.path().join("events.jsonl");
    let events = std::fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let mut story = Story::read(&events)?;
    story.outage = wifi_outage()?;
    Ok(draw(&story))
}

/// When the demo's scenario takes the Wi-Fi link down and up again, in ms.
fn wifi_outage() -> Outcome<(f64, f64)> {
    const SCENARIO: &str = "examples/two-radios.toml";
    let text = std::fs::read_to_string(root().join(SCENARIO)).map_err(|e| format!("cannot read {SCENARIO}: {e}"))?;
    let scenario: toml::Value = toml::from_str(&text).map_err(|e| format!("{SCENARIO}: {e}"))?;
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
        _ => Err(format!("{SCENARIO}: link wifi has no schedule in seconds any more")),
    }
}

impl Story {
    fn read(events: &str) -> Outcome<Self> {
        let mut story = Story::default();
        for line in events.lines() {
            let event: Value = serde_json::from_str(line).map_err(|e| format!("events.jsonl: {e}: {line}"))?;
            story.take(&event);
        }
        if story.sent[0].is_empty() {
            return Err("the demo's events tell of no data sent".to_owned());
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
        let by_sender = event["node"] == "phone";
        match (event["name"].as_str().unwrap_or_default(), path) {
            ("transport:tsn_sent", Some(path)) if by_sender => {
                let bin = (time / BIN_MS) as usize;
                let bins = &mut self.sent[path];
                bins.resize(bins.len().max(bin + 1), 0.0);
                bins[bin] += data["length"].as_f64().unwrap_or(0.0);
                self.end = self.end.max(time);
            }
            ("recovery:metrics_updated", Some(path)) if by_sender => {
                if let Some(window) = data["congestion_window"].as_f64() {
                    self.windows[path].push((time, window / 1e3));
                }
            }
            ("recovery:timer_expired", _) if by_sender && data["timer"] == "t3_rtx" => self.timeouts.push(time),
            ("network:packet_dropped", _) if data["trigger"] != "link-down" => self.lost.push(time),
            _ => {}
        }
    }
}

fn draw(story: &Story) -> String {
    let seconds = (story.end / 1000.0).ceil().max(1.0);
    let x = |ms: f64| LEFT + ms / 1000.0 / seconds * (RIGHT - LEFT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"13\" fill=\"#333\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    text(
        &mut svg,
        LEFT,
        22.0,
        "start",
        "One file, two radios, standard SCTP: Wi-Fi loses 1 % of packets and is gone for a while",
    );
    outage(&mut svg, story, &x);
    rates(&mut svg, story, &x);
    windows(&mut svg, story, &x);
    for second in 0..=seconds as u32 {
        text(
            &mut svg,
            x(f64::from(second) * 1000.0),
            WINDOW.1 + 18.0,
            "middle",
            &second.to_string(),
        );
    }
    text(
        &mut svg,
        (LEFT + RIGHT) / 2.0,
        WINDOW.1 + 34.0,
        "middle",
        "simulated time, s",
    );
    legend(&mut svg);
    svg.push_str("</svg>\n");
    svg
}

/// Shades the time without Wi-Fi, and marks the timeouts.
fn outage(svg: &mut String, story: &Story, x: &dyn Fn(f64) -> f64) {
    let (from, to) = (x(story.outage.0), x(story.outage.1));
    for (top, bottom) in [RATE, WINDOW] {
        let (width, height) = (to - from, bottom - top);
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\" fill=\"#eee\"/>"
        );
    }
    text(svg, (from + to) / 2.0, RATE.0 + 16.0, "middle", "Wi-Fi is gone");
    for time in &story.timeouts {
        let at = x(*time);
        line(svg, (at, WINDOW.0), (at, WINDOW.1), "#b2182b\" stroke-dasharray=\"4 3");
    }
}

fn rates(svg: &mut String, story: &Story, x: &dyn Fn(f64) -> f64) {
    let mbps = |bytes: f64| bytes * 8.0 / BIN_MS / 1e3;
    let most = story
        .sent
        .iter()
        .flatten()
        .map(|bytes| mbps(*bytes))
        .fold(1.0, f64::max);
    let top = nice(most);
    axis(svg, RATE, top, "sent, Mbit/s");
    let y = |value: f64| RATE.1 - value / top * (RATE.1 - RATE.0);
    for (bins, (_, colour)) in story.sent.iter().zip(PATHS) {
        for (bin, bytes) in bins.iter().enumerate().filter(|(_, bytes)| **bytes > 0.0) {
            let (from, to) = (x(bin as f64 * BIN_MS), x((bin + 1) as f64 * BIN_MS));
            let at = y(mbps(*bytes));
            let (width, height) = ((to - from - 0.8).max(0.8), RATE.1 - at);
            let _ = writeln!(
                svg,
                "<rect x=\"{from:.1}\" y=\"{at:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
                 fill=\"{colour}\" fill-opacity=\"0.75\"/>"
            );
        }
    }
    for time in &story.lost {
        line(svg, (x(*time), RATE.1 + 3.0), (x(*time), RATE.1 + 11.0), "#b2182b");
    }
}

fn windows(svg: &mut String, story: &Story, x: &dyn Fn(f64) -> f64) {
    let most = story
        .windows
        .iter()
        .flatten()
        .map(|(_, window)| *window)
        .fold(1.0, f64::max);
    let top = nice(most);
    axis(svg, WINDOW, top, "cwnd, kB");
    let y = |value: f64| WINDOW.1 - value / top * (WINDOW.1 - WINDOW.0);
    for (points, (_, colour)) in story.windows.iter().zip(PATHS) {
        let mut path = String::new();
        let mut last: Option<f64> = None;
        for (time, window) in points.iter().filter(|(time, _)| *time <= story.end) {
            let (at, height) = (x(*time), y(*window));
            let _ = match last {
                None => write!(path, "M{at:.1} {height:.1}"),
                Some(last) if (last - height).abs() < 0.05 => continue,
                Some(_) => write!(path, "H{at:.1}V{height:.1}"),
            };
            last = Some(height);
        }
        if last.is_some() {
            let _ = write!(path, "H{:.1}", x(story.end));
            let _ = writeln!(
                svg,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>"
            );
        }
    }
}

/// The frame of a panel with marks at the bottom, half way and at the top.
fn axis(svg: &mut String, (above, below): (f64, f64), top: f64, title: &str) {
    for part in [0.0, 0.5, 1.0] {
        let y = below - part * (below - above);
        line(svg, (LEFT, y), (RIGHT, y), "#ccc");
        text(svg, LEFT - 6.0, y + 4.0, "end", &format!("{}", top * part));
    }
    text(svg, LEFT, above - 8.0, "start", title);
}

fn legend(svg: &mut String) {
    let mut at = 560.0;
    for (name, colour) in PATHS {
        let _ = writeln!(
            svg,
            "<rect x=\"{at}\" y=\"38\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
        );
        text(svg, at + 17.0, 49.0, "start", name);
        at += 80.0;
    }
    line(svg, (at, 40.0), (at, 50.0), "#b2182b");
    text(svg, at + 7.0, 49.0, "start", "packet lost");
    line(
        svg,
        (at + 98.0, 38.0),
        (at + 98.0, 52.0),
        "#b2182b\" stroke-dasharray=\"4 3",
    );
    text(svg, at + 105.0, 49.0, "start", "timeout");
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

/// The next of 1, 2, 4, 5, 6, 8, 10, 12, ... times a power of ten.
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
    fn events_become_bars_and_marks() {
        let events = r#"{"data":{"length":1452,"path":0},"name":"transport:tsn_sent","node":"phone","time":40.0}
{"data":{"length":1452,"path":0},"name":"transport:tsn_sent","node":"phone","time":150.0}
{"data":{"length":1452,"path":0},"name":"transport:tsn_sent","node":"server","time":150.0}
{"data":{"trigger":"loss-bernoulli"},"name":"network:packet_dropped","node":"phone","time":160.0}
{"data":{"congestion_window":4404,"path":0},"name":"recovery:metrics_updated","node":"phone","time":60.0}"#;
        let story = Story::read(events).unwrap();
        assert_eq!(story.sent[0], [1452.0, 1452.0]);
        assert_eq!((story.lost.len(), story.windows[0].len()), (1, 1));
        assert!(draw(&story).starts_with("<svg"));
        assert!(Story::read("{}").is_err());
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([0.7, 11.0, 19.3, 262.0].map(nice), [0.8, 12.0, 20.0, 300.0]);
    }
}
