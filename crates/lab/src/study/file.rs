//! `study.toml` as it is written.

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use whimbrel_control::Span;

use super::case::combined;
use super::theory::Theory;
use crate::timeline::{LineKind, Timeline};

/// A study: what is run, and what a paper says comes out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StudyFile {
    /// What the study is called.
    pub(crate) title: String,
    /// Paper and section, or who asks.
    pub(crate) source: String,
    /// Whose claims those are that do not say so themselves; by default the paper's.
    pub(crate) kind: Option<ClaimKind>,
    /// What is done.
    #[serde(default)]
    pub(crate) description: String,
    /// What was chosen where the paper is silent.
    #[serde(default)]
    pub(crate) chosen: Vec<String>,
    /// The short form, for all scenarios.
    #[serde(default)]
    pub(crate) quick: Quick,
    pub(crate) scenario: Vec<ScenarioEntry>,
    pub(crate) claim: Vec<ClaimEntry>,
    /// Figures of the paper, plotted on the study's page.
    #[serde(default)]
    pub(crate) figure: Vec<FigureEntry>,
    /// Wrong implementations, which must not fulfil claims about the mechanism.
    #[serde(default)]
    pub(crate) wrong: Vec<WrongEntry>,
}

/// A wrong implementation of the mechanism.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrongEntry {
    /// What it is called, such as `coin`.
    pub(crate) name: String,
    /// The claims that must fail with it.
    pub(crate) claims: Vec<String>,
    /// The scenario in which it replaces the right one; by default all that these claims look at.
    pub(crate) scenario: Option<String>,
    /// Values of axes at which it replaces the right one; by default everywhere.
    #[serde(default)]
    pub(crate) at: Pairs,
    /// Fields by dotted path and the values that make it wrong.
    pub(crate) set: Pairs,
}

impl WrongEntry {
    /// What is asked of it, as a hash: an outcome of another claim, or with another implementation, says nothing.
    pub(crate) fn asked(&self, claim: &ClaimEntry) -> String {
        let set: Vec<_> = self.set.0.iter().collect();
        let at: Vec<_> = self.at.0.iter().collect();
        hash(serde_json::json!({ "check": claim.hash(), "scenario": self.scenario, "at": at, "set": set }))
    }
}

/// What the short form changes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Quick {
    pub(crate) seeds: Option<u32>,
    pub(crate) set: Pairs,
}

/// A scenario of the study, at one point or more.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioEntry {
    pub(crate) name: String,
    /// A scenario file in the study's folder.
    #[serde(default = "scenario_file")]
    pub(crate) file: String,
    /// Runs of each point; by default those of the scenario file.
    pub(crate) seeds: Option<u32>,
    /// Fields by dotted path and the values they have here.
    #[serde(default)]
    pub(crate) set: Pairs,
    #[serde(default)]
    pub(crate) quick: Quick,
    #[serde(default)]
    pub(crate) axis: Vec<AxisEntry>,
}

fn scenario_file() -> String {
    "scenario.toml".to_owned()
}

/// Values that a scenario takes in turn; several axes make the product, last axis fastest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AxisEntry {
    pub(crate) name: String,
    /// Fields that get the value itself.
    #[serde(default)]
    pub(crate) fields: Vec<String>,
    pub(crate) values: Vec<AxisValue>,
    /// Those of the values that the short form keeps.
    pub(crate) quick: Option<Vec<Value>>,
    /// Unit of the values in plots, such as `s`.
    pub(crate) unit: Option<String>,
}

/// A value of an axis: alone, or `{ is = VALUE, set = { FIELD = VALUE } }`.
#[derive(Clone, Debug)]
pub(crate) struct AxisValue {
    pub(crate) is: Value,
    pub(crate) set: Pairs,
}

impl<'de> Deserialize<'de> for AxisValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = match Value::deserialize(deserializer)? {
            Value::Object(table) => table,
            is => {
                return Ok(AxisValue {
                    is,
                    set: Pairs::default(),
                });
            }
        };
        let (is, set) = (table.remove("is"), table.remove("set"));
        let (Some(is), true) = (is, table.is_empty()) else {
            return Err(D::Error::custom("a table of the keys `is` and `set` expected"));
        };
        let set = match set {
            None => Vec::new(),
            Some(Value::Object(set)) => set.into_iter().collect(),
            Some(_) => return Err(D::Error::custom("a table of fields and values expected as `set`")),
        };
        Ok(AxisValue { is, set: Pairs(set) })
    }
}

/// Keys and values in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pairs(pub(crate) Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Pairs;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl Serialize for Pairs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// Something a paper says that can be measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimEntry {
    pub(crate) id: String,
    /// What is said, in our words.
    pub(crate) claim: String,
    /// The paper's figure: a number or a phrase.
    pub(crate) paper: Value,
    /// What there is to say about ours: the reason, if it does not come out.
    #[serde(default)]
    pub(crate) note: String,
    pub(crate) check: Check,
    /// Whose claim it is; by default the paper's, or of a study of our own ours.
    pub(crate) kind: Option<ClaimKind>,
    /// Why nothing that happens could fail it, if that is so.
    pub(crate) vacuous: Option<String>,
    /// Why a wrong implementation fulfils it as well: it is no test of the mechanism.
    pub(crate) no_test: Option<String>,
    /// The axis of which one value must fulfil the check at all values of the others: the best scheme, say. Only for questions of our own.
    pub(crate) for_some: Option<String>,
}

impl ClaimEntry {
    /// How the claim is checked, as a hash: the class of a series that was judged in another way is out of date.
    pub(crate) fn hash(&self) -> String {
        hash(serde_json::json!({ "check": self.check, "for_some": self.for_some }))
    }
}

/// A hash of a value. A field that is not set does not count, so that a new one leaves the hashes as they are.
fn hash(mut value: Value) -> String {
    fn drop_unset(value: &mut Value) {
        if let Value::Object(fields) = value {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_unset);
        }
    }
    drop_unset(&mut value);
    format!("{:016x}", combined(value.to_string().bytes().map(u64::from)))
}

/// A figure of the paper with our values, and the paper's where they are known.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FigureEntry {
    /// The name of the plot's file.
    pub(crate) id: String,
    /// Which figure it is and what it shows: `Figure 8: goodput in Mbit/s`.
    pub(crate) title: String,
    /// What it shows at each point; a figure over time has a `snapshot` instead.
    pub(crate) of: Option<Selection>,
    pub(crate) snapshot: Option<Snapshot>,
    /// The axis along the bottom; by default the one with most values.
    pub(crate) over: Option<String>,
    /// The paper's values by point, as far as its text gives them.
    #[serde(default)]
    pub(crate) paper: Vec<Expected>,
}

/// Lines over a part of the time of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Snapshot {
    /// By default the study's only scenario.
    pub(crate) scenario: Option<String>,
    /// Values of axes, as in a selection.
    #[serde(default)]
    pub(crate) at: Pairs,
    from: Span,
    to: Span,
    every: Span,
    pub(crate) lines: Vec<LineEntry>,
    /// Whether a line is the mean of all seeds instead of the first one's.
    #[serde(default)]
    pub(crate) all_seeds: bool,
}

impl Snapshot {
    pub(crate) fn is_of(&self, scenario: &str) -> bool {
        self.scenario.as_deref().is_none_or(|name| name == scenario)
    }

    /// What its lines show, for the axis of a plot.
    pub(crate) fn title(&self) -> String {
        let mut titles: Vec<&str> = Vec::new();
        for line in &self.lines {
            let title = line.what.title();
            if !titles.contains(&title) {
                titles.push(title);
            }
        }
        titles.join("; ")
    }

    pub(crate) fn timeline(&self) -> Timeline {
        Timeline {
            from: self.from,
            to: self.to,
            every: self.every,
        }
    }
}

/// A line of a snapshot.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LineEntry {
    pub(crate) what: LineKind,
    /// Its name in the plot.
    pub(crate) name: String,
    /// The flow of a congestion window or a throughput.
    pub(crate) flow: Option<String>,
    /// The link of a queue.
    pub(crate) link: Option<String>,
}

impl LineEntry {
    /// Returns the place of the line's flow among these, or that of its link; zero if it needs neither.
    pub(crate) fn place(
        &self,
        mut flows: impl Iterator<Item = impl AsRef<str>>,
        mut links: impl Iterator<Item = impl AsRef<str>>,
    ) -> Option<usize> {
        match self.what {
            LineKind::Cwnd | LineKind::Throughput => {
                let wanted = self.flow.as_deref()?;
                flows.position(|name| name.as_ref() == wanted)
            }
            LineKind::Queue | LineKind::AverageQueue => {
                let wanted = self.link.as_deref()?;
                links.position(|name| name.as_ref() == wanted)
            }
            LineKind::Gaps | LineKind::Duplicates => Some(0),
        }
    }
}

/// Whose claim it is. Totals are separate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimKind {
    /// A paper's, measured as the paper describes it.
    Paper,
    /// A paper's, measured in another way than the text says: an alternative reading.
    Reading,
    /// A question of our own.
    Own,
}

/// How a claim is checked. Every free axis of a selection is gone through: the claim must hold at each of its values.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Check {
    /// A figure lies between bounds.
    Bounds {
        of: Selection,
        at_least: Option<f64>,
        at_most: Option<f64>,
        /// The bounds within which the claim is partly reproduced.
        at_least_partly: Option<f64>,
        at_most_partly: Option<f64>,
        /// Whether it is enough that the 95 % interval reaches the bound.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        noise: bool,
        /// Whether the whole 95 % interval must lie beyond the bound, so that no effect at all, or a single run, is not enough.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        surely: bool,
    },
    /// A figure is the paper's, up to a share of it.
    Near {
        of: Selection,
        value: Option<f64>,
        /// The paper's values by point.
        #[serde(default)]
        values: Vec<Expected>,
        within: f64,
        within_partly: Option<f64>,
    },
    /// A figure rises or falls along an axis, or along the list of values that `at` gives for it.
    Trend {
        of: Selection,
        over: String,
        direction: Direction,
        /// A step against the direction counts if it is more than this share of the figure, and more than noise.
        #[serde(default)]
        slack: f64,
        /// Whether the ends may be equal: the last one is not on the wrong side of the first one by more than the slack.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ties: bool,
        /// Whether each step must go the way by more than noise, not the ends alone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        every_step: bool,
    },
    /// A figure hardly changes along an axis: its span over its mean. That has no direction, so that it holds, fails or is undecided.
    Flat { of: Selection, over: String, within: f64 },
    /// The figure is highest at one of these values of an axis, or tied with the highest: it is ahead of every other, or behind by no more than
    /// the slack, by more than noise.
    Best {
        of: Selection,
        over: String,
        is: Value,
        /// Relative difference that counts as a tie.
        #[serde(default)]
        slack: f64,
    },
    /// A figure is a straight line over an axis of numbers.
    Linear {
        of: Selection,
        over: String,
        direction: Direction,
        /// Least share of the variance that the line explains, 0 to 1.
        r2: f64,
        r2_partly: Option<f64>,
    },
}

/// Which way a figure goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Direction {
    Rising,
    Falling,
}

/// The paper's value at a point.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    pub(crate) at: Pairs,
    pub(crate) value: f64,
}

/// A figure of the runs at some points.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Selection {
    /// By default the study's only scenario.
    pub(crate) scenario: Option<String>,
    /// A flow, or several by a `*` at the end; by default the run as a whole.
    pub(crate) flow: Option<String>,
    /// A link instead of a flow: its direction from its first node to its second. Several names are separated by ` + `.
    pub(crate) link: Option<String>,
    pub(crate) metric: Option<String>,
    /// Values of axes: one fixes the axis, an array keeps it free and limits it to those.
    #[serde(default)]
    pub(crate) at: Pairs,
    /// Whether points without any value are left out: accuracies where nothing was lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) where_measured: bool,
    /// Whether the figure is the share of runs that have the metric: 1 for a run that has it, 0 for one that does not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) share_measured: bool,
    /// What theory says of it at each point: `near` compares with it, and plots show it.
    pub(crate) theory: Option<Theory>,
    /// How several flows make one figure.
    pub(crate) across: Option<Across>,
    /// What the figure is divided by: a number, or one for each point.
    #[serde(default)]
    pub(crate) per: Per,
    /// The unit of the result, for the titles of plots.
    #[serde(skip_serializing)]
    pub(crate) unit: Option<String>,
    /// Divide by another selection; what it leaves out is as here.
    pub(crate) to: Option<Box<Selection>>,
    /// Subtract another selection; what it leaves out is as here.
    pub(crate) minus: Option<Box<Selection>>,
    /// Make it the harm done to the flow, relative to the harm that another flow does.
    pub(crate) harm: Option<Box<Harm>>,
}

impl Selection {
    /// What is measured, as a hash: results that were kept of another selection say nothing about this one.
    pub(crate) fn hash(&self, over: Option<&str>) -> String {
        hash(serde_json::json!({ "of": self, "over": over }))
    }

    /// Whether the other side of a ratio or difference is the same figure, perhaps of other runs: what it leaves out is as in `from`.
    pub(crate) fn is_same_figure(&self, from: &Selection) -> bool {
        let inherits = self.flow.is_none() && self.link.is_none();
        let subject = inherits || (self.flow == from.flow && self.link == from.link);
        let metric = self.metric.is_none() || self.metric == from.metric;
        let share = !self.share_measured || from.share_measured;
        subject && metric && share && (self.across.is_none() || self.across == from.across)
    }
}

/// What harm is measured with (Ware et al. 2019); what a selection leaves out is as in the figure.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Harm {
    /// What the flow has by itself.
    pub(crate) alone: Selection,
    /// What it has beside the flow to compare with.
    pub(crate) like: Selection,
}

/// How the figures of several flows or links make one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Across {
    #[default]
    Mean,
    Sum,
    Min,
    Max,
    /// Jain's fairness index.
    Jain,
}

/// What a figure is divided by.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(untagged)]
pub(crate) enum Per {
    #[default]
    One,
    Number(f64),
    Points(Vec<Expected>),
}

impl<'de> Deserialize<'de> for Per {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Number(number) => Ok(Per::Number(number.as_f64().unwrap_or(f64::NAN))),
            value @ Value::Array(_) => Ok(Per::Points(serde_json::from_value(value).map_err(D::Error::custom)?)),
            _ => Err(D::Error::custom(
                "a number or an array of { at = { .. }, value = .. } expected",
            )),
        }
    }
}
