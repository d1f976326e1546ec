//! What the live view draws. At any width, numbers and their units are shown whole or not at all.

use std::collections::{BTreeMap, VecDeque};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};

use crate::output::count;
use crate::perf::report::rate;
use crate::perf::sample::{Interval, PathSample, State};
use crate::transfer::progress::bytes;

/// Samples of a path that are drawn.
const HISTORY: usize = 240;
/// Associations that are shown; others are counted.
const SHOWN: usize = 8;

/// What is shown of an association.
#[derive(Debug)]
pub(super) struct Panel {
    name: String,
    last: Interval,
    /// Bits per second of each path.
    rates: Vec<VecDeque<u64>>,
    losses: BTreeMap<usize, [u64; 3]>,
    sent: u64,
    received: u64,
    /// Retransmissions and timeouts.
    repeats: (u64, u64),
}

impl Panel {
    pub(super) fn new(name: &str) -> Self {
        Panel {
            name: name.to_owned(),
            last: Interval::default(),
            rates: Vec::new(),
            losses: BTreeMap::new(),
            sent: 0,
            received: 0,
            repeats: (0, 0),
        }
    }

    /// Adds an interval. `repeats`: retransmissions and timeouts since the beginning.
    pub(super) fn add(&mut self, interval: Interval, repeats: (u64, u64)) {
        let seconds = (interval.end - interval.start).max(1e-3);
        self.rates
            .resize_with(interval.paths.len().max(self.rates.len()), VecDeque::new);
        for (place, path) in interval.paths.iter().enumerate() {
            let rates = &mut self.rates[place];
            rates.push_back((path.bytes as f64 * 8.0 / seconds) as u64);
            if rates.len() > HISTORY {
                rates.pop_front();
            }
            let losses = self.losses.entry(place).or_default();
            let new = [path.losses.congestion, path.losses.transmission, path.losses.unsure];
            for (sum, new) in losses.iter_mut().zip(new) {
                *sum += new;
            }
        }
        self.sent += interval.bytes;
        self.received += interval.received;
        self.last = interval;
        self.repeats = repeats;
    }

    fn facts(&self) -> Vec<String> {
        let seconds = self.last.end - self.last.start;
        vec![
            format!("sent {} ({})", bytes(self.sent), rate(self.last.bytes, seconds)),
            format!(
                "received {} ({})",
                bytes(self.received),
                rate(self.last.received, seconds)
            ),
            count(self.repeats.0, "retransmission"),
            count(self.repeats.1, "timeout"),
        ]
    }
}

fn width(text: &str) -> usize {
    Line::raw(text).width()
}

/// Joins as many of the first parts as fit. Returns the text and the number of its parts.
fn join_fitting(parts: &[String], separator: &str, room: usize) -> (String, usize) {
    let mut text = String::new();
    for (number, part) in parts.iter().enumerate() {
        let separator = if number == 0 { "" } else { separator };
        if width(&text) + separator.len() + width(part) > room {
            return (text, number);
        }
        text = format!("{text}{separator}{part}");
    }
    (text, parts.len())
}

/// Breaks a line between words, between columns if possible.
fn wrapped(line: &str, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = line;
    while width(rest) > room {
        let fits = |end: &usize| *end > 0 && width(&rest[..*end]) <= room && !rest[..*end].trim().is_empty();
        let at = |gap: &str| rest.match_indices(gap).map(|(at, _)| at).filter(fits).last();
        let Some(end) = at("  ").or_else(|| at(" ")) else {
            break;
        };
        lines.push(rest[..end].trim_end().to_owned());
        rest = rest[end..].trim_start();
    }
    lines.push(rest.to_owned());
    lines
}

/// Returns the heights of the first panels, as many as fit. There are charts if there is room for those of all.
fn panel_heights(panels: &[&Panel], room: u16) -> Vec<u16> {
    let height = |panel: &&Panel, of_path: u16| 3 + of_path * panel.last.paths.len() as u16;
    let shown = &panels[..panels.len().min(SHOWN)];
    let heights = |of_path| shown.iter().map(move |panel| height(panel, of_path));
    let with_charts: Vec<u16> = heights(3).collect();
    if with_charts.iter().sum::<u16>() <= room {
        return with_charts;
    }
    let mut left = room;
    let fits = |height: &u16| match left.checked_sub(*height) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    heights(1).take_while(fits).collect()
}

pub(super) fn draw(frame: &mut Frame<'_>, title: &str, elapsed: f64, panels: &[&Panel], lines: &[String]) {
    let mut heights = panel_heights(panels, frame.area().height.saturating_sub(1));
    let shown = &panels[..heights.len()];
    heights.insert(0, 1);
    let heights = heights.into_iter().map(Constraint::Length).chain([Constraint::Min(0)]);
    let areas = Layout::vertical(heights).split(frame.area());
    let more = panels.len() - shown.len();
    let mut head = vec![title.to_owned(), format!("{elapsed:.0} s")];
    if more > 0 {
        head.push(count(more as u64, "more association"));
    }
    head.push("Ctrl-C ends".to_owned());
    let (head, _) = join_fitting(&head, "  ", usize::from(areas[0].width));
    frame.render_widget(Paragraph::new(head.bold()), areas[0]);
    for (panel, area) in shown.iter().zip(&areas[1..]) {
        draw_panel(frame, panel, *area);
    }
    let area = areas[areas.len() - 1];
    let room = usize::from(area.height);
    let recent = &lines[lines.len().saturating_sub(room)..];
    let text: Vec<String> = recent
        .iter()
        .flat_map(|line| wrapped(line, usize::from(area.width)))
        .collect();
    let last = text.len().saturating_sub(room);
    let text: Vec<Line<'_>> = text[last..].iter().map(|line| Line::raw(line.as_str())).collect();
    frame.render_widget(Paragraph::new(text), area);
}

/// A column of the table of paths.
struct Column {
    name: &'static str,
    width: u16,
    /// Columns with a high number are left out first.
    rank: u8,
    cell: fn(&PathSample, f64, [u64; 3]) -> String,
}

/// Most columns of the name of a path.
const LABEL: u16 = 33;

const COLUMNS: [Column; 8] = [
    column("state", 18, 4, |path, _, _| path.state.name().to_owned()),
    column("rate", 13, 0, |path, seconds, _| rate(path.bytes, seconds)),
    column("cwnd", 10, 3, |path, _, _| bytes(path.cwnd)),
    column("in flight", 10, 7, |path, _, _| bytes(path.flight)),
    column("RTT", 10, 1, |path, _, _| {
        path.rtt_ms.map_or("-".to_owned(), |rtt| format!("{rtt:.1} ms"))
    }),
    column("congestion", 10, 6, |_, _, losses| losses[0].to_string()),
    column("transmission", 12, 6, |_, _, losses| losses[1].to_string()),
    column("unsure", 7, 6, |_, _, losses| losses[2].to_string()),
];
/// In place of the last three.
const LOST: Column = column("lost", 7, 2, |_, _, losses| {
    let [congestion, transmission, unsure] = losses;
    congestion
        .saturating_add(transmission)
        .saturating_add(unsure)
        .to_string()
});

const fn column(name: &'static str, width: u16, rank: u8, cell: fn(&PathSample, f64, [u64; 3]) -> String) -> Column {
    Column {
        name,
        width,
        rank,
        cell,
    }
}

/// Returns the columns beside a label of this width that fit.
fn columns(room: u16, label: u16) -> Vec<Column> {
    let mut columns: Vec<Column> = COLUMNS.into();
    let total = |columns: &[Column]| label + columns.iter().map(|column| 1 + column.width).sum::<u16>();
    while total(&columns) > room {
        let last = columns.iter().map(|column| column.rank).max().unwrap_or(0);
        if last == 0 {
            break;
        }
        columns.retain(|column| column.rank != last);
        if last == 6 {
            columns.push(LOST);
        }
    }
    columns
}

/// Shortens the name of a path, which is no number.
fn shortened(label: &str, room: usize) -> String {
    if label.chars().count() <= room {
        return label.to_owned();
    }
    label.chars().take(room.saturating_sub(1)).chain(['\u{2026}']).collect()
}

fn label(path: &PathSample) -> String {
    format!("{} > {}", path.local.ip(), path.remote.ip())
}

/// In place of the rate where there is no room for the state.
fn short_state(state: State) -> Option<&'static str> {
    match state {
        State::Active => None,
        State::Unconfirmed => Some("unconfirmed"),
        State::PotentiallyFailed => Some("no answer"),
        State::Inactive => Some("failed"),
    }
}

fn draw_panel(frame: &mut Frame<'_>, panel: &Panel, area: Rect) {
    let last = &panel.last;
    let seconds = last.end - last.start;
    let room = usize::from(area.width.saturating_sub(4));
    let mut facts = panel.facts();
    facts[0] = format!("{}: {}", panel.name, facts[0]);
    if width(&facts[0]) > room {
        facts.splice(..1, [panel.name.clone(), panel.facts().swap_remove(0)]);
    }
    let (top, taken) = join_fitting(&facts, ", ", room);
    let (bottom, _) = join_fitting(&facts[taken..], ", ", room);
    let mut block = Block::bordered().title(format!(" {top} "));
    if !bottom.is_empty() {
        block = block.title_bottom(format!(" {bottom} "));
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let paths = last.paths.len() as u16;
    let [table, charts] = Layout::vertical([Constraint::Length(1 + paths), Constraint::Min(0)]).areas(inner);
    draw_paths(frame, panel, seconds, table);
    let heights = vec![Constraint::Length(2); usize::from(paths)];
    for (rates, area) in panel.rates.iter().zip(Layout::vertical(heights).split(charts).iter()) {
        let width = usize::from(area.width);
        let shown: Vec<u64> = rates.iter().skip(rates.len().saturating_sub(width)).copied().collect();
        frame.render_widget(
            Sparkline::default().data(shown).style(Style::new().fg(Color::Green)),
            *area,
        );
    }
}

fn draw_paths(frame: &mut Frame<'_>, panel: &Panel, seconds: f64, area: Rect) {
    let paths = &panel.last.paths;
    let longest = paths.iter().map(|path| label(path).len()).max().unwrap_or(0);
    let wanted = u16::try_from(longest).unwrap_or(LABEL).clamp(4, LABEL);
    let columns = columns(area.width, wanted);
    let others: u16 = columns.iter().map(|column| 1 + column.width).sum();
    let room = area
        .width
        .saturating_sub(others)
        .min(u16::try_from(longest).unwrap_or(u16::MAX).max(4));
    let has_state = columns.iter().any(|column| column.name == "state");
    let rows = paths.iter().enumerate().map(|(place, path)| {
        let losses = panel.losses.get(&place).copied().unwrap_or_default();
        let cells = columns.iter().map(|column| match short_state(path.state) {
            Some(state) if column.name == "rate" && !has_state => state.to_owned(),
            _ => (column.cell)(path, seconds, losses),
        });
        let label = shortened(&label(path), room.into());
        Row::new([label].into_iter().chain(cells)).style(color(path.state))
    });
    let widths = [room].into_iter().chain(columns.iter().map(|column| column.width));
    let header = Row::new(["path"].into_iter().chain(columns.iter().map(|column| column.name))).bold();
    frame.render_widget(Table::new(rows, widths.map(Constraint::Length)).header(header), area);
}

fn color(state: State) -> Style {
    match state {
        State::Active => Style::new(),
        State::Unconfirmed => Style::new().fg(Color::DarkGray),
        State::PotentiallyFailed => Style::new().fg(Color::Yellow),
        State::Inactive => Style::new().fg(Color::Red),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::perf::sample::Losses;

    fn path(local: &str, remote: &str, state: State) -> PathSample {
        PathSample {
            local: local.parse().expect("an address"),
            remote: remote.parse().expect("an address"),
            state,
            primary: true,
            bytes: 12_345_678,
            cwnd: 9_999,
            flight: 9_876_543,
            rtt_ms: Some(12_345.6),
            rttvar_ms: 1.0,
            min_rtt_ms: None,
            losses: Losses {
                congestion: 11,
                transmission: 22,
                unsure: 33,
            },
        }
    }

    fn panel(v6: bool) -> Panel {
        let mut panel = Panel::new("with 192.0.2.123:45678");
        let paths = if v6 {
            let [a, b] = [
                "[2001:db8:1111:2222::1]:1",
                "[2001:db8:1111:2222:3333:4444:5555:6666]:2",
            ];
            vec![path(a, b, State::Active), path(b, a, State::Inactive)]
        } else {
            vec![
                path("192.0.2.123:1", "198.51.100.123:2", State::Active),
                path("192.0.2.124:1", "198.51.100.124:2", State::PotentiallyFailed),
            ]
        };
        let interval = Interval {
            start: 1.0,
            end: 1.25,
            bytes: 24_691_356,
            received: 5_432_100,
            paths,
            ..Interval::default()
        };
        panel.add(interval, (1, 1));
        panel
    }

    fn picture(panel: &Panel, columns: u16, lines: &[String]) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, 24)).expect("a terminal");
        let draw = |frame: &mut Frame<'_>| super::draw(frame, "whimbrel recv", 12_345.0, &[panel; 10], lines);
        terminal.draw(draw).expect("drawn");
        terminal.backend().to_string()
    }

    fn words(picture: &str) -> BTreeSet<&str> {
        let is_border = |c: char| c.is_whitespace() || "\"│┌┐└┘─,:()".contains(c);
        picture.split(is_border).filter(|word| !word.is_empty()).collect()
    }

    #[test]
    fn numbers_and_units_are_whole_at_any_width() {
        let line = crate::perf::report::line("", 0.0, 1.0, "192.0.2.1 > 192.0.2.2", 12_345_678, "1.5 MB  12345.6 ms");
        let lines = vec![line];
        for v6 in [false, true] {
            let panel = panel(v6);
            let wide = picture(&panel, 250, &lines);
            let mut known = words(&wide);
            // What takes the place of columns that are left out: the sum of losses, and the state.
            known.extend(["lost", "66", "no", "answer", "failed"]);
            for columns in 40..250 {
                let narrow = picture(&panel, columns, &lines);
                for word in words(&narrow) {
                    let is_name = word.contains('\u{2026}');
                    let is_chart = word.chars().all(|c| ('\u{2581}'..='\u{2588}').contains(&c));
                    assert!(
                        known.contains(word) || is_name || is_chart,
                        "{columns}: {word:?}\n{narrow}"
                    );
                }
            }
            for columns in [60, 80] {
                let narrow = picture(&panel, columns, &lines);
                let label = if v6 {
                    "2001:db8:"
                } else {
                    "192.0.2.123 > 198.51.100.123 "
                };
                for needed in ["395.1 Mbit/s", "12345.6 ms", "24.7 MB", "1 retransmission", label] {
                    assert!(narrow.contains(needed), "{columns}: {needed}\n{narrow}");
                }
                assert!(
                    columns < 80 || narrow.contains("1 timeout") && narrow.contains("lost"),
                    "{narrow}"
                );
                assert!(narrow.contains(if v6 { "failed" } else { "no answer" }), "{narrow}");
                assert!(!narrow.contains("1 timeouts") && !narrow.contains("1 retransmissions"));
            }
            // Of ten, four fit without charts.
            assert!(wide.contains("6 more associations"), "{wide}");
        }
    }

    #[test]
    fn lines_are_broken_between_columns() {
        let line = "  0.00-1.00     192.0.2.1 > 192.0.2.2     12.3 MB      98.8 Mbit/s  1.5 MB";
        for room in 20..80 {
            let lines = wrapped(line, room);
            assert!(lines.iter().all(|line| line.len() <= room), "{room}: {lines:?}");
            assert!(
                lines.iter().any(|line| line.contains("98.8 Mbit/s")),
                "{room}: {lines:?}"
            );
        }
        assert_eq!(wrapped("one two", 4), ["one", "two"]);
        assert_eq!(wrapped("unbreakable", 4), ["unbreakable"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
