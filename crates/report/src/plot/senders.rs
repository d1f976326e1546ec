//! Figures of what senders did with each chunk: on which path it went, and what became of it.

use std::collections::BTreeMap;

use super::Plot;
use super::chart::{Curve, Look};
use super::time::{COLUMNS, MOST_CURVES, over_time};
use crate::events::{Events, Judged};
use crate::line::End;

/// Intervals over which the data of a path is counted.
const INTERVALS: i64 = 120;

/// The senders, in a fixed order.
fn ends(events: &Events) -> Vec<End> {
    let mut ends: Vec<_> = events.sent.iter().map(|chunk| chunk.end).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// The node and the flow of an end.
fn words(events: &Events, end: End) -> [&str; 2] {
    [end.1, end.0].map(|word| events.words.list()[word].as_str())
}

/// The file name of one of the senders: its flow, and its node if both ends of the flow send.
fn file(events: &Events, senders: &[End], end: End) -> String {
    let [node, flow] = words(events, end);
    let both_send = senders.iter().any(|other| other.0 == end.0 && *other != end);
    let name = if both_send {
        format!("{flow}-{node}")
    } else {
        flow.to_owned()
    };
    whimbrel_lab::file_name(&name).to_string()
}

/// Returns for each sender with several paths the rate of the data on each, retransmissions included. `name` returns the name of a flow's
/// path.
pub(super) fn paths(events: &Events, folder: &str, name: &dyn Fn(&str, &str, u32) -> String) -> Vec<Plot> {
    let interval = events.sent.iter().map(|chunk| chunk.at).max().unwrap_or(0) / INTERVALS + 1;
    let mut plots = Vec::new();
    let senders = ends(events);
    for &end in &senders {
        let [node, flow] = words(events, end);
        let mut bytes: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for chunk in events.sent.iter().filter(|chunk| chunk.end == end) {
            let of_path = bytes.entry(chunk.path).or_insert_with(|| vec![0; INTERVALS as usize]);
            if let Some(bytes) = usize::try_from(chunk.at / interval)
                .ok()
                .and_then(|place| of_path.get_mut(place))
            {
                *bytes += u64::from(chunk.length);
            }
        }
        if bytes.len() < 2 {
            continue;
        }
        let curves = bytes
            .into_iter()
            .take(MOST_CURVES)
            .enumerate()
            .map(|(style, (path, bytes))| Curve {
                name: name(node, flow, path),
                look: Look::Samples,
                points: steps(interval, &bytes),
                style,
            });
        plots.extend(over_time(
            format!("{folder}/paths-{}", file(events, &senders, end)),
            "data sent, Mbit/s",
            curves.collect(),
            folder,
        ));
    }
    plots
}

/// The mean rate in each interval of nanoseconds, in Mbit/s, as steps.
fn steps(interval: i64, bytes: &[u64]) -> Vec<(f64, f64, f64)> {
    let seconds = interval as f64 / 1e9;
    let ends = bytes.iter().enumerate().flat_map(|(place, bytes)| {
        let rate = *bytes as f64 * 8.0 / seconds / 1e6;
        [place, place + 1].map(|place| (place as f64 * seconds, rate, f64::NAN))
    });
    ends.collect()
}

/// Returns for each sender its TSNs over time: losses by cause, wrong verdicts.
pub(super) fn tsns(events: &Events, folder: &str) -> Vec<Plot> {
    let mut plots = Vec::new();
    let senders = ends(events);
    for &end in &senders {
        let mine = move || events.sent.iter().filter(move |chunk| chunk.end == end);
        let Some(first) = mine().next().map(|chunk| chunk.tsn) else {
            continue;
        };
        let place = |at: i64, tsn: u32| (at as f64 / 1e9, f64::from(tsn.wrapping_sub(first)), f64::NAN);
        let lost = |congestion: bool| {
            let of_cause = move |fate: u32| fate > 0 && events.drops[fate as usize - 1].congestion == congestion;
            mine()
                .filter(move |chunk| of_cause(chunk.fate))
                .map(|chunk| place(chunk.at, chunk.tsn))
                .collect()
        };
        let judged = |is_wanted: &dyn Fn(&Judged) -> bool| {
            let own = events.judged.iter().filter(|judged| judged.end == end);
            own.filter(|judged| is_wanted(judged))
                .map(|judged| place(judged.at, judged.tsn))
                .collect()
        };
        let marks = |name: &str, style, points| Curve {
            name: name.to_owned(),
            look: Look::Marks,
            points,
            style,
        };
        let sendings = |again: bool| {
            let wanted = mine().filter(move |chunk| chunk.again == again);
            per_pixel(wanted.map(|chunk| place(chunk.at, chunk.tsn)))
        };
        let mut curves = vec![
            marks("sent", 6, sendings(false)),
            marks("retransmitted", 2, sendings(true)),
        ];
        if events.live.is_some() {
            // Why the network lost a packet is not known.
            let as_words = |wanted: &'static str| move |judged: &Judged| events.words.list()[judged.verdict] == wanted;
            let declared = events.lost.iter().filter(|lost| lost.end == end);
            curves.extend([
                marks(
                    "declared lost",
                    3,
                    declared.map(|lost| place(lost.at, lost.tsn)).collect(),
                ),
                marks("judged congestion", 1, judged(&as_words("congestion"))),
                marks("judged transmission", 4, judged(&as_words("transmission"))),
            ]);
        } else {
            curves.extend([
                marks("lost by congestion", 1, lost(true)),
                marks("lost by transmission", 4, lost(false)),
                marks("judged wrongly", 3, judged(&|judged| events.is_wrong(judged))),
            ]);
        }
        curves.retain(|curve| !curve.points.is_empty());
        plots.extend(over_time(
            format!("{folder}/tsn-{}", file(events, &senders, end)),
            "TSN from the first",
            curves,
            folder,
        ));
    }
    plots
}

/// Of points that fall on the same place of the figure one.
fn per_pixel(points: impl Iterator<Item = (f64, f64, f64)> + Clone) -> Vec<(f64, f64, f64)> {
    let (right, top) = points
        .clone()
        .fold((1e-9_f64, 1.0_f64), |(x, y), point| (x.max(point.0), y.max(point.1)));
    let mut seen = std::collections::BTreeSet::new();
    let pixel = |value: f64, most: f64| (value / most * COLUMNS as f64) as u32;
    points
        .filter(|point| seen.insert((pixel(point.0, right), pixel(point.1, top))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Sent;

    #[test]
    fn the_data_of_each_path_is_counted_over_intervals() {
        let mut events = Events::default();
        let flow = events.words.number("bulk");
        let node = events.words.number("phone");
        let sent = |at, path| Sent {
            at,
            end: (flow, node),
            path,
            tsn: 1,
            length: 125_000,
            again: false,
            fate: 0,
        };
        // The last one makes an interval 1 s and 1 ns long.
        events.sent = vec![sent(0, 0), sent(500_000_000, 0), sent(2_500_000_000, 1)];
        let name = |node: &str, flow: &str, path: u32| format!("{node} {flow} {path}");
        let one = |plots: Vec<Plot>| plots.into_iter().next().map(|plot| plot.chart.curves);
        events.sent.push(sent(INTERVALS * 1_000_000_000, 1));
        let curves = one(paths(&events, "run", &name)).unwrap();
        assert_eq!(
            (curves[0].name.as_str(), curves[1].name.as_str()),
            ("phone bulk 0", "phone bulk 1")
        );
        let rate = |curve: usize, place: usize| curves[curve].points[2 * place].1.round();
        assert_eq!(
            [rate(0, 0), rate(0, 1), rate(1, 0), rate(1, 2), rate(1, 119)],
            [2.0, 0.0, 0.0, 1.0, 1.0]
        );
        let file = |events: &Events| {
            paths(events, "run", &name)
                .into_iter()
                .map(|plot| plot.path)
                .collect::<Vec<_>>()
        };
        assert_eq!(file(&events), ["run/paths-bulk"]);
        let server = events.words.number("server");
        let answers: Vec<_> = events
            .sent
            .iter()
            .map(|chunk| Sent {
                end: (flow, server),
                ..*chunk
            })
            .collect();
        events.sent.extend(answers);
        assert_eq!(file(&events), ["run/paths-bulk-phone", "run/paths-bulk-server"]);
        events.sent.retain(|chunk| chunk.path == 0);
        assert!(paths(&events, "run", &name).is_empty(), "one path has no choice");
    }
}
