//! What selections find: figures of runs by scenario and point, as a sample for each seed.

use serde_json::Value;

pub(crate) use super::case::{At, Case, StudyProblem, combined, label, same};
use super::file::{Across, Expected, LineEntry, Pairs, Per, Selection, Snapshot};
use super::pairs::{jackknife_harm, jackknife_ratio, partner};
use crate::metric::metrics;
use crate::run::{LinkRun, Run};
use crate::stats::jain_index;
use crate::text::text;
use whimbrel_scenario::word_hint;
use whimbrel_sim::config::SimConfig;

/// Whose figure is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'s> {
    Run,
    /// A flow, or all whose names begin so if there is a `*` at the end.
    Flow(&'s str),
    Link(&'s str),
}

/// The figures of a run.
pub(crate) trait Figures {
    /// One for each flow that is meant; none if there is no such flow or link.
    fn figures(&self, subject: Subject<'_>, metric: &str) -> Vec<f64>;

    /// The samples of a line of the run; none if there is no such flow or link.
    fn line(&self, _: &LineEntry) -> Option<Vec<f64>> {
        None
    }

    /// The hash of the run's sequence of events, if it was run.
    fn fingerprint(&self) -> Option<u64> {
        None
    }
}

/// Figures of a link's direction.
pub(crate) const LINK_METRICS: [&str; 8] = [
    "packets",
    "bytes",
    "utilisation",
    "queue_utilisation",
    "mean_queue_packets",
    "max_queue_packets",
    "marked",
    "drops",
];

/// Whether a flow is meant by `wanted`, which may end with `*`.
pub(crate) fn matches(name: &str, wanted: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == wanted,
    }
}

/// Returns the links meant by `wanted`, one or several names separated by ` + `; none if one of them does not exist.
pub(crate) fn wanted_links<L>(
    wanted: &str,
    links: impl Iterator<Item = L> + Clone,
    name: impl Fn(&L) -> &str,
) -> Vec<L> {
    let found: Option<Vec<_>> = wanted
        .split(" + ")
        .map(|wanted| links.clone().find(|link| name(link) == wanted))
        .collect();
    found.unwrap_or_default()
}

impl Figures for Run {
    fn fingerprint(&self) -> Option<u64> {
        Some(self.fingerprint)
    }

    fn line(&self, line: &LineEntry) -> Option<Vec<f64>> {
        let flows = self.flows.iter().map(|flow| flow.name.as_str());
        let place = line.place(flows, self.links.iter().map(|link| link.name.as_str()))?;
        Some(self.lines.as_ref()?.values(line.what, place))
    }

    fn figures(&self, subject: Subject<'_>, metric: &str) -> Vec<f64> {
        let place = metrics().position(|known| known.name == metric);
        let of = |values: &crate::metric::Values| place.and_then(|place| values.get(place)).unwrap_or(f64::NAN);
        match subject {
            Subject::Run => vec![of(&self.values)],
            Subject::Flow(wanted) => {
                let meant = self.flows.iter().filter(|flow| matches(&flow.name, wanted));
                meant.map(|flow| of(&flow.values)).collect()
            }
            // The direction from the link's first node comes first.
            Subject::Link(wanted) => {
                let found = wanted_links(wanted, self.links.iter(), |link| link.name.as_str());
                found.iter().map(|link| link_figure(link, metric)).collect()
            }
        }
    }
}

fn link_figure(link: &LinkRun, metric: &str) -> f64 {
    match metric {
        "packets" => link.packets as f64,
        "bytes" => link.bytes as f64,
        "utilisation" => link.utilisation,
        "queue_utilisation" => link.queue_utilisation,
        "mean_queue_packets" => link.mean_queue_packets,
        "max_queue_packets" => f64::from(link.max_queue_packets),
        "marked" => link.marked as f64,
        "drops" => link.drops.iter().map(|(_, count)| *count).sum::<u64>() as f64,
        _ => f64::NAN,
    }
}

/// The runs of a scenario.
pub(crate) struct Measured<'r> {
    pub(crate) name: String,
    /// The axes and their values.
    pub(crate) axes: Vec<(String, Vec<Value>)>,
    pub(crate) points: Vec<PointRuns<'r>>,
}

/// The runs of a point, in the order of their seeds.
pub(crate) struct PointRuns<'r> {
    pub(crate) params: Vec<(String, Value)>,
    /// What was run, for theory; none in tests of other checks.
    pub(crate) config: Option<&'r SimConfig>,
    pub(crate) runs: Vec<&'r dyn Figures>,
}

/// Whether an axis is called so, or its name ends so after a dot.
pub(crate) fn names_axis(given: &str, name: &str) -> bool {
    name.strip_suffix(given)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The axis that is called so, or whose name ends so after a dot.
fn axis<'n>(given: &str, names: &'n [String]) -> Option<&'n str> {
    if let Some(name) = names.iter().find(|name| *name == given) {
        return Some(name);
    }
    let mut ending = names.iter().filter(|name| names_axis(given, name));
    match (ending.next(), ending.next()) {
        (Some(name), None) => Some(name),
        _ => None,
    }
}

/// The name of an axis as it stands in the cases.
pub(crate) fn axis_of(given: &str, cases: &[Case]) -> Option<String> {
    let names: Vec<_> = cases.first()?.at.iter().map(|(name, _)| name.clone()).collect();
    axis(given, &names).map(str::to_owned)
}

/// What was measured, all scenarios of a study.
pub(crate) struct Figured<'r> {
    pub(crate) scenarios: Vec<Measured<'r>>,
    /// Whether points that a list of expected values names may be missing: the short form leaves points out.
    pub(crate) thinned: bool,
}

impl Figured<'_> {
    /// The figures that a selection finds, point by point; those of listed values in the order of the list.
    pub(crate) fn cases(&self, selection: &Selection) -> Result<Vec<Case>, StudyProblem> {
        if selection.harm.is_some() && (selection.to.is_some() || selection.minus.is_some()) {
            let message = "either `harm` or `to` and `minus` expected, both given";
            return Err(StudyProblem::new("harm", message, None));
        }
        if selection.unit.is_some() && matches!(selection.per, Per::One) {
            return Err(StudyProblem::new("unit", "`unit` is that of a figure with `per`", None));
        }
        if selection.unit.is_some() && (selection.to.is_some() || selection.harm.is_some()) {
            let message = "a ratio has no unit: either `unit` or `to` and `harm` expected, both given";
            return Err(StudyProblem::new("unit", message, None));
        }
        if selection.share_measured && selection.where_measured {
            let message = "points without a value have the share 0: either `share_measured` or `where_measured` expected, both given";
            return Err(StudyProblem::new("share_measured", message, None));
        }
        let mut cases = self.plain(selection)?;
        for (other, field, ratio) in [(&selection.to, "to", true), (&selection.minus, "minus", false)] {
            let Some(other) = other else { continue };
            let others = self
                .plain(&inherit(other, selection))
                .map_err(|problem| problem.within(field))?;
            for case in &mut cases {
                let partner = partner(case, &others, field)?;
                case.equal = other.is_same_figure(selection) && case.is_equal_to(partner);
                case.samples = if ratio {
                    jackknife_ratio(&case.samples, &partner.samples)
                } else {
                    let pairs = case.samples.iter().zip(&partner.samples);
                    pairs.map(|(a, b)| a - b).collect()
                };
                case.beside([partner]);
            }
        }
        if let Some(harm) = &selection.harm {
            let of = |other: &Selection, field: &str| {
                let others = self.plain(&inherit(other, selection));
                others.map_err(|problem| problem.within(field))
            };
            let (alone, like) = (of(&harm.alone, "harm.alone")?, of(&harm.like, "harm.like")?);
            for case in &mut cases {
                let alone = partner(case, &alone, "harm.alone")?;
                let like = partner(case, &like, "harm.like")?;
                case.equal = harm.like.is_same_figure(selection) && case.is_equal_to(like);
                case.samples = jackknife_harm(&case.samples, &alone.samples, &like.samples);
                case.beside([alone, like]);
            }
        }
        Ok(cases)
    }

    /// The lines of a snapshot as cases with the axes `line` and `time`; the values of the free axes are part of a line's name.
    pub(crate) fn lines(&self, snapshot: &Snapshot) -> Result<Vec<Case>, StudyProblem> {
        let of = Selection {
            scenario: snapshot.scenario.clone(),
            at: snapshot.at.clone(),
            ..Selection::default()
        };
        let scenario = self.scenario(&of)?;
        let names: Vec<_> = scenario.axes.iter().map(|(name, _)| name.clone()).collect();
        let filters = self.filters(scenario, &names, &snapshot.at)?;
        let timeline = snapshot.timeline();
        let mut cases = Vec::new();
        for point in scenario.points.iter().filter(|point| passes(&filters, point)) {
            let free: At = free(&filters, point);
            for (number, line) in snapshot.lines.iter().enumerate() {
                let runs = point.runs.iter().take(if snapshot.all_seeds { usize::MAX } else { 1 });
                let lines: Option<Vec<_>> = runs.map(|run| run.line(line)).collect();
                let Some(lines) = lines.filter(|lines| !lines.is_empty()) else {
                    let message = "there is no such flow or link, or none is given";
                    return Err(StudyProblem::new(format!("lines[{number}]"), message, None));
                };
                let name = match free.as_slice() {
                    [] => line.name.clone(),
                    free => format!("{}, {}", line.name, label(free)),
                };
                let samples = lines.iter().map(Vec::len).min().unwrap_or(0);
                cases.extend((0..samples).map(|sample| Case {
                    at: vec![
                        ("line".to_owned(), name.as_str().into()),
                        ("time".to_owned(), timeline.at(sample).into()),
                    ],
                    samples: lines.iter().map(|line| line[sample]).collect(),
                    deterministic: false,
                    theory: None,
                    runs: None,
                    equal: false,
                    kept: None,
                }));
            }
        }
        if cases.is_empty() {
            return Err(StudyProblem::new("at", "no point has all of these values", None));
        }
        Ok(cases)
    }

    fn plain(&self, selection: &Selection) -> Result<Vec<Case>, StudyProblem> {
        let scenario = self.scenario(selection)?;
        let metric = checked_metric(selection)?;
        let subject = match (&selection.flow, &selection.link) {
            (Some(_), Some(_)) => {
                return Err(StudyProblem::new(
                    "link",
                    "either a flow or a link expected, both given",
                    None,
                ));
            }
            (Some(flow), None) => Subject::Flow(flow),
            (None, Some(link)) => Subject::Link(link),
            (None, None) => Subject::Run,
        };
        let names: Vec<_> = scenario.axes.iter().map(|(name, _)| name.clone()).collect();
        let filters = self.filters(scenario, &names, &selection.at)?;
        let mut cases = Vec::new();
        for point in scenario.points.iter().filter(|point| passes(&filters, point)) {
            let per = per_point(&selection.per, &point.params, &names)?;
            let mut samples = Vec::with_capacity(point.runs.len());
            for run in &point.runs {
                let mut figures = run.figures(subject, metric);
                if figures.is_empty() {
                    let (field, what) = match subject {
                        Subject::Link(name) => ("link", format!("there is no link `{name}`")),
                        Subject::Flow(name) => ("flow", format!("there is no flow `{name}`")),
                        Subject::Run => ("metric", "nothing was measured".to_owned()),
                    };
                    return Err(StudyProblem::new(field, what, None));
                }
                if selection.share_measured {
                    for figure in &mut figures {
                        *figure = f64::from(u8::from(figure.is_finite()));
                    }
                }
                samples.push(together(&figures, selection.across) / per);
            }
            let theory = selection.theory.map(|theory| {
                let found = point.config.and_then(|config| theory.expected(config));
                found.ok_or_else(|| {
                    let message = format!("the theory is not about this scenario, at {}", label(&point.params));
                    StudyProblem::new("theory", message, None)
                })
            });
            let at = free(&filters, point);
            let prints: Option<Vec<_>> = point.runs.iter().map(|run| run.fingerprint()).collect();
            let prints = prints.filter(|prints| !prints.is_empty());
            let same = |prints: &Vec<u64>| prints.len() > 1 && prints.iter().all(|print| *print == prints[0]);
            cases.push(Case {
                at,
                samples,
                deterministic: prints.as_ref().is_some_and(same),
                theory: theory.transpose()?,
                runs: prints.map(combined),
                equal: false,
                kept: None,
            });
        }
        let measured = |case: &Case| case.samples.iter().any(|sample| sample.is_finite());
        if selection.where_measured && cases.iter().any(measured) {
            cases.retain(measured);
        }
        // Listed values come in the order of the list: an order of schemes, say.
        for filter in filters.iter().rev().filter(|filter| !filter.one) {
            cases.sort_by_key(|case| {
                let value = case.at.iter().find(|(name, _)| *name == filter.name);
                value.and_then(|(_, value)| filter.values.iter().position(|listed| same(listed, value)))
            });
        }
        if cases.is_empty() {
            return Err(StudyProblem::new("at", "no point has all of these values", None));
        }
        Ok(cases)
    }

    fn scenario(&self, selection: &Selection) -> Result<&Measured<'_>, StudyProblem> {
        let names: Vec<_> = self.scenarios.iter().map(|scenario| &scenario.name).collect();
        match &selection.scenario {
            Some(wanted) => self
                .scenarios
                .iter()
                .find(|scenario| scenario.name == *wanted)
                .ok_or_else(|| {
                    let hint = word_hint(wanted, &names, "scenarios");
                    StudyProblem::new("scenario", format!("there is no scenario `{wanted}`"), hint)
                }),
            None => match self.scenarios.as_slice() {
                [only] => Ok(only),
                _ => Err(StudyProblem::new(
                    "",
                    "`scenario` is missing",
                    word_hint("", &names, "scenarios"),
                )),
            },
        }
    }

    fn filters(&self, scenario: &Measured<'_>, names: &[String], at: &Pairs) -> Result<Vec<Filter>, StudyProblem> {
        let mut filters = Vec::new();
        for (given, value) in &at.0 {
            let field = format!("at.{given}");
            let Some(name) = axis(given, names) else {
                let message = format!("there is no axis `{given}`");
                return Err(StudyProblem::new(field, message, word_hint(given, names, "axes")));
            };
            let (one, mut values) = match value {
                Value::Array(values) => (false, values.clone()),
                value => (true, vec![value.clone()]),
            };
            let known = scenario.axes.iter().find(|(known, _)| known == name);
            let known = known.map_or(&[][..], |(_, values)| values);
            let there = |value: &Value| known.iter().any(|known| same(known, value));
            if self.thinned && !one {
                values.retain(there);
            } else if let Some(value) = values.iter().find(|value| !there(value)) {
                let known: Vec<_> = known.iter().map(text).collect();
                return Err(StudyProblem::new(
                    field,
                    format!("the axis has no value {value}"),
                    Some(format!("its values: {}", known.join(", "))),
                ));
            }
            filters.push(Filter {
                name: name.to_owned(),
                one,
                values,
            });
        }
        Ok(filters)
    }
}

/// Which values of an axis are wanted.
struct Filter {
    name: String,
    one: bool,
    values: Vec<Value>,
}

/// Whether a point has the wanted values.
fn passes(filters: &[Filter], point: &PointRuns<'_>) -> bool {
    filters.iter().all(|filter| {
        let value = point.params.iter().find(|(name, _)| *name == filter.name);
        value.is_some_and(|(_, value)| filter.values.iter().any(|wanted| same(wanted, value)))
    })
}

/// The values of the axes that are not fixed.
fn free(filters: &[Filter], point: &PointRuns<'_>) -> At {
    let fixed = |name: &str| filters.iter().any(|filter| filter.name == name && filter.one);
    point.params.iter().filter(|(name, _)| !fixed(name)).cloned().collect()
}

/// A selection's metric, if it exists for what is selected.
fn checked_metric(selection: &Selection) -> Result<&str, StudyProblem> {
    let Some(metric) = &selection.metric else {
        return Err(StudyProblem::new("", "`metric` is missing", None));
    };
    let known: Vec<_> = match (&selection.link, &selection.flow) {
        (Some(_), _) => LINK_METRICS.to_vec(),
        (None, Some(_)) => metrics()
            .filter(|metric| !metric.of_run)
            .map(|metric| metric.name)
            .collect(),
        (None, None) => metrics().map(|metric| metric.name).collect(),
    };
    if known.contains(&metric.as_str()) {
        Ok(metric)
    } else {
        let hint = word_hint(metric, &known, "metrics");
        Err(StudyProblem::new(
            "metric",
            format!("there is no metric `{metric}` here"),
            hint,
        ))
    }
}

/// The other side of a ratio or a difference: what it leaves out is as on this side.
pub(super) fn inherit(other: &Selection, from: &Selection) -> Selection {
    let mut at = from.at.0.clone();
    at.retain(|(name, _)| !other.at.0.iter().any(|(own, _)| own == name));
    at.extend(other.at.0.iter().cloned());
    let own_subject = other.flow.is_some() || other.link.is_some();
    Selection {
        scenario: other.scenario.clone().or_else(|| from.scenario.clone()),
        flow: if own_subject {
            other.flow.clone()
        } else {
            from.flow.clone()
        },
        link: if own_subject {
            other.link.clone()
        } else {
            from.link.clone()
        },
        metric: other.metric.clone().or_else(|| from.metric.clone()),
        at: Pairs(at),
        where_measured: false,
        share_measured: other.share_measured || from.share_measured,
        theory: None,
        across: other.across.or(from.across),
        per: match &other.per {
            Per::One => from.per.clone(),
            own => own.clone(),
        },
        unit: None,
        to: None,
        minus: None,
        harm: None,
    }
}

fn together(figures: &[f64], across: Option<Across>) -> f64 {
    let known: Vec<f64> = figures.iter().copied().filter(|figure| figure.is_finite()).collect();
    if known.is_empty() {
        return f64::NAN;
    }
    match across.unwrap_or_default() {
        Across::Mean => known.iter().sum::<f64>() / known.len() as f64,
        Across::Sum => known.iter().sum(),
        Across::Min => known.iter().copied().fold(f64::INFINITY, f64::min),
        Across::Max => known.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Across::Jain => jain_index(&known).unwrap_or(f64::NAN),
    }
}

fn per_point(per: &Per, params: &[(String, Value)], names: &[String]) -> Result<f64, StudyProblem> {
    match per {
        Per::One => Ok(1.0),
        Per::Number(number) => Ok(*number),
        Per::Points(points) => {
            for expected in points {
                if expected_fits(expected, params, names)? {
                    return Ok(expected.value);
                }
            }
            Err(StudyProblem::new(
                "per",
                format!("no value for the point {}", label(params)),
                None,
            ))
        }
    }
}

/// Whether a listed value belongs to the point.
pub(crate) fn expected_fits(
    expected: &Expected,
    params: &[(String, Value)],
    names: &[String],
) -> Result<bool, StudyProblem> {
    for (given, wanted) in &expected.at.0 {
        let Some(name) = axis(given, names) else {
            let message = format!("there is no axis `{given}`");
            return Err(StudyProblem::new("", message, word_hint(given, names, "axes")));
        };
        let value = params.iter().find(|(known, _)| known == name);
        if !value.is_some_and(|(_, value)| same(value, wanted)) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_links_are_meant_by_their_names_and_each_must_exist() {
        let names = ["l3", "l6", "a + b"].map(str::to_owned);
        let of = |wanted: &str| wanted_links(wanted, names.iter(), |name| name.as_str());
        assert_eq!(of("l6"), ["l6"]);
        assert_eq!(of("l3 + l6"), ["l3", "l6"]);
        assert!(of("l3 + l7").is_empty() && of("").is_empty());
    }

    #[test]
    fn flows_make_one_figure() {
        let figures = [1.0, 2.0, f64::NAN, 3.0];
        let of = |across| together(&figures, Some(across));
        assert_eq!(
            (of(Across::Mean), of(Across::Sum), of(Across::Min), of(Across::Max)),
            (2.0, 6.0, 1.0, 3.0)
        );
        assert!((of(Across::Jain) - 36.0 / 42.0).abs() < 1e-12);
        assert!(together(&[f64::NAN], None).is_nan());
    }
}
