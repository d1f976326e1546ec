//! Nodes and links in a scenario.

use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, IntoDeserializer, Unexpected};
use serde::{Deserialize, Serialize};
use whimbrel_control::{Rate, Span};

use super::short::{ShortOr, optional, short};
use super::{ConfigError, MobilityConfig, OneOrMany, ShortForm, no_short_form, probability};
use crate::loss::LossConfig;
use crate::queue::QueueConfig;

/// A host or router. It gets an interface with its own address for each link that ends at it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// The node's name, which links and flows refer to.
    pub name: String,
    /// Position at the start of the run, in metres. Nodes with a radio need it; a node that moves in an area without a position
    /// starts at a uniformly random point of the area.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<[f64; 2]>,
    /// How the node moves. Default: it does not move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mobility: Option<MobilityConfig>,
    /// How late the timer of the node's SCTP endpoints and programs may be, 0 s to 100 ms. Paced packets leave in bursts of this duration,
    /// and in longer ones after a pause. 0 s, the default, is an ideal timer, which spaces single packets. `send` and the library use 250 us on Linux
    /// and 1 ms elsewhere.
    #[serde(default, skip_serializing_if = "is_exact")]
    #[schemars(extend("default" = "0 s"))]
    pub timer_granularity: Span,
    /// Whether the node reports a packet that is too long for the next link to its source by ICMP, so that the source sends shorter ones. `false` makes it
    /// a black hole for long packets, as behind a firewall that drops ICMP.
    #[serde(default = "reports", skip_serializing_if = "Clone::clone")]
    #[schemars(extend("default" = true))]
    pub icmp: bool,
}

fn reports() -> bool {
    true
}

fn is_exact(granularity: &Span) -> bool {
    granularity.is_zero()
}

impl NodeConfig {
    /// Creates a node with this name.
    pub fn new(name: &str) -> Self {
        NodeConfig {
            name: name.to_owned(),
            position: None,
            mobility: None,
            timer_granularity: Span::ZERO,
            icmp: true,
        }
    }

    /// Creates a node with this name at this position, in metres.
    pub fn at(name: &str, x: f64, y: f64) -> Self {
        NodeConfig {
            position: Some([x, y]),
            ..NodeConfig::new(name)
        }
    }

    /// Returns whether the node's position at the start of the run is known.
    pub(crate) fn is_placed(&self) -> bool {
        self.position.is_some() || self.mobility.as_ref().is_some_and(MobilityConfig::places)
    }

    /// Checks every value.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        for (i, metres) in self.position.iter().flatten().enumerate() {
            if !metres.is_finite() || metres.abs() > 1e7 {
                return Err(ConfigError::new(format!("position[{i}]"), metres, "-1e7 to 1e7 m"));
            }
        }
        if self.timer_granularity > Span::from_millis(100) {
            let value = self.timer_granularity;
            return Err(ConfigError::new("timer_granularity", value, "0 s to 100 ms"));
        }
        let mobility = self.mobility.as_ref();
        mobility.map_or(Ok(()), |mobility| mobility.validate().map_err(|e| e.within("mobility")))
    }
}

/// A full-duplex link between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// The link's name. Default: the names of its ends with a dash between them, as in `a-b`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The two nodes that the link connects. Forward is from the first to the second.
    pub between: [String; 2],
    /// Rate of each direction, 1 bit/s to 1000000 Gbit/s. Required unless `trace` gives the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Propagation delay of each direction, up to 1 h.
    #[serde(default)]
    pub delay: Span,
    /// Largest IP packet in bytes, 68 to 65535. The node in front of the link reports longer packets to their source (ICMP) and drops them, or
    /// cuts them into fragments if they may be fragmented, as those of `udp` flows. SCTP and TCP start with the MTU of their first link.
    #[serde(default = "default_mtu")]
    #[schemars(range(min = 68, max = 65_535))]
    pub mtu: u32,
    /// Queue in front of the transmitter. Default: drop-tail with room for 100 packets.
    #[serde(default, deserialize_with = "short")]
    #[schemars(with = "ShortOr<QueueConfig>")]
    pub queue: QueueConfig,
    /// Loss models of the channel: one or several, applied in this order.
    #[serde(default)]
    pub loss: OneOrMany<LossConfig>,
    /// Random delay added to the propagation delay of each packet.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    #[schemars(with = "Option<ShortOr<JitterConfig>>")]
    pub jitter: Option<JitterConfig>,
    /// Probability that a packet arrives twice, 0 to 1.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub duplicate: f64,
    /// Recorded rate that varies over time, instead of `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceConfig>,
    /// When the link goes down and comes up, and when its rate, delay or losses change. Packets in the queue of a link that goes
    /// down are lost.
    #[serde(default)]
    pub schedule: Vec<ScheduleStep>,
    /// Cost of the link in routing, 1 to 1 000 000. Default: 1, which gives routes with the fewest hops.
    #[serde(default = "default_cost")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub cost: u32,
    /// Values that differ in the direction from the first node to the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<DirectionConfig>,
    /// Values that differ in the direction from the second node to the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<DirectionConfig>,
}

fn default_mtu() -> u32 {
    1500
}

fn default_cost() -> u32 {
    1
}

/// Overrides for one direction of a link. Fields that are absent have the link's values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectionConfig {
    /// Rate, 1 bit/s to 1000000 Gbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Propagation delay, up to 1 h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Largest IP packet in bytes, 68 to 65535.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 68, max = 65_535))]
    pub mtu: Option<u32>,
    /// Queue in front of the transmitter.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    #[schemars(with = "Option<ShortOr<QueueConfig>>")]
    pub queue: Option<QueueConfig>,
    /// Loss models of the channel. An empty list means no losses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<OneOrMany<LossConfig>>,
    /// Random delay of each packet.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
    #[schemars(with = "Option<ShortOr<JitterConfig>>")]
    pub jitter: Option<JitterConfig>,
    /// Probability that a packet arrives twice, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub duplicate: Option<f64>,
    /// Recorded rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceConfig>,
}

/// Random delay added to the propagation delay of each packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum JitterConfig {
    /// Uniformly distributed between two bounds.
    Uniform {
        /// Smallest additional delay, up to `max`.
        #[serde(default)]
        min: Span,
        /// Largest additional delay, up to 1 h.
        max: Span,
        /// Whether packets may overtake each other. Otherwise a packet that would overtake is held back.
        #[serde(default)]
        reorder: bool,
    },
    /// Normally distributed; negative values become zero.
    Normal {
        /// Mean additional delay, up to 1 h.
        mean: Span,
        /// Standard deviation of the additional delay, up to 1 h.
        deviation: Span,
        /// Whether packets may overtake each other. Otherwise a packet that would overtake is held back.
        #[serde(default)]
        reorder: bool,
    },
    /// Exponentially distributed.
    Exponential {
        /// Mean additional delay, up to 1 h.
        mean: Span,
        /// Whether packets may overtake each other. Otherwise a packet that would overtake is held back.
        #[serde(default)]
        reorder: bool,
    },
}

/// Rate recorded from a real link, in mahimahi's format: each line is a time in milliseconds at which 1500 bytes may be delivered.
/// At its end the record starts over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceConfig {
    /// The file. A relative path starts at the scenario's folder.
    pub file: PathBuf,
    /// Time in the record at which the run starts.
    #[serde(default)]
    pub offset: Span,
    /// Whether the run starts at a random time of the record after `offset`, different for each seed.
    #[serde(default)]
    pub random_offset: bool,
}

/// A change of a link at a given time: it goes down or up, or gets a new rate, delay or loss models. Absent fields keep their
/// values. New rates and delays apply to all packets that have not left yet; no packet overtakes an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleStep {
    /// Time since the start of the run.
    pub at: Span,
    /// Whether the link is up from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
    /// Rate of each direction, 1 bit/s to 1000000 Gbit/s; not allowed for a direction with a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Propagation delay of each direction, up to 1 h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Loss models of each direction. An empty list means no losses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<OneOrMany<LossConfig>>,
    /// Values that differ in the direction from the first node to the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<LinkValues>,
    /// Values that differ in the direction from the second node to the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<LinkValues>,
}

/// Values of one direction that a schedule can change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkValues {
    /// Rate, 1 bit/s to 1000000 Gbit/s; not allowed for a direction with a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Propagation delay, up to 1 h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Loss models of the channel. An empty list means no losses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<OneOrMany<LossConfig>>,
}

impl ScheduleStep {
    /// Creates a step at which the link goes down or up.
    pub fn up(at: Span, up: bool) -> Self {
        ScheduleStep {
            at,
            up: Some(up),
            ..ScheduleStep::default()
        }
    }

    /// Returns the new values of the forward (0) and the reverse (1) direction.
    pub fn directions(&self) -> [LinkValues; 2] {
        [&self.forward, &self.reverse].map(|values| {
            let values = values.clone().unwrap_or_default();
            LinkValues {
                rate: values.rate.or(self.rate),
                delay: values.delay.or(self.delay),
                loss: values.loss.or_else(|| self.loss.clone()),
            }
        })
    }

    /// Checks every value. `traced` indicates which directions follow a trace.
    fn validate(&self, traced: [bool; 2]) -> Result<(), ConfigError> {
        let whole = LinkValues {
            rate: self.rate,
            delay: self.delay,
            loss: self.loss.clone(),
        };
        if (self.up, &self.forward, &self.reverse) == (None, &None, &None) && whole == LinkValues::default() {
            return Err(
                ConfigError::new("", format!("nothing but at = \"{}\"", self.at), "a change").hint("up = false"),
            );
        }
        whole.validate(traced[0] || traced[1])?;
        for (values, name, traced) in [
            (&self.forward, "forward", traced[0]),
            (&self.reverse, "reverse", traced[1]),
        ] {
            let values = values.as_ref();
            values.map_or(Ok(()), |v| v.validate(traced).map_err(|e| e.within(name)))?;
        }
        Ok(())
    }
}

impl LinkValues {
    fn validate(&self, traced: bool) -> Result<(), ConfigError> {
        if let Some(rate) = self.rate.filter(|_| traced) {
            return Err(ConfigError::new("rate", rate, "no rate, as a trace gives it"));
        }
        self.rate.map_or(Ok(()), check_rate)?;
        self.delay.map_or(Ok(()), check_delay)?;
        check_loss(self.loss.as_ref().map_or(&[], |loss| &loss.0))
    }
}

fn check_rate(rate: Rate) -> Result<(), ConfigError> {
    if !(1..=1_000_000_000_000_000).contains(&rate.as_bps()) {
        return Err(ConfigError::new("rate", rate, "1 bit/s to 1000000 Gbit/s"));
    }
    Ok(())
}

fn check_delay(delay: Span) -> Result<(), ConfigError> {
    if delay > Span::from_secs(3600) {
        return Err(ConfigError::new("delay", delay, "0 s to 1 h"));
    }
    Ok(())
}

fn check_loss(models: &[LossConfig]) -> Result<(), ConfigError> {
    for (i, loss) in models.iter().enumerate() {
        let place = if models.len() == 1 {
            "loss".to_owned()
        } else {
            format!("loss[{i}]")
        };
        loss.validate().map_err(|e| e.within(&place))?;
    }
    Ok(())
}

/// One direction of a link with all overrides applied.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedDirection {
    /// Rate; `None` if a trace gives it.
    pub rate: Option<Rate>,
    /// Propagation delay, up to 1 h.
    pub delay: Span,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// The queue.
    pub queue: QueueConfig,
    /// The loss models.
    pub loss: Vec<LossConfig>,
    /// The jitter.
    pub jitter: Option<JitterConfig>,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// Recorded rate; has precedence over `rate`.
    pub trace: Option<TraceConfig>,
}

impl LinkConfig {
    /// Creates a link with the default queue and MTU.
    pub fn new(a: &str, b: &str, rate: Rate, delay: Span) -> Self {
        LinkConfig {
            name: None,
            between: [a.to_owned(), b.to_owned()],
            rate: Some(rate),
            delay,
            mtu: default_mtu(),
            queue: QueueConfig::default(),
            loss: OneOrMany::default(),
            jitter: None,
            duplicate: 0.0,
            trace: None,
            schedule: Vec::new(),
            cost: default_cost(),
            forward: None,
            reverse: None,
        }
    }

    /// Returns the link's name: the given one, or the names of its ends.
    pub fn display_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.between.join("-"))
    }

    /// Returns the link's forward (0) and reverse (1) directions with overrides applied.
    pub fn directions(&self) -> [ResolvedDirection; 2] {
        [&self.forward, &self.reverse].map(|overrides| self.resolve(overrides.as_ref()))
    }

    /// Returns the largest IP packet of the forward or the reverse direction in bytes.
    pub(crate) fn mtu_of(&self, forward: bool) -> u32 {
        let overrides = if forward { &self.forward } else { &self.reverse };
        overrides.as_ref().and_then(|values| values.mtu).unwrap_or(self.mtu)
    }

    fn resolve(&self, overrides: Option<&DirectionConfig>) -> ResolvedDirection {
        let none = DirectionConfig::default();
        let o = overrides.unwrap_or(&none);
        // The more specific of rate and trace has precedence: a direction with its own rate ignores the link's trace.
        let trace = o
            .trace
            .clone()
            .or_else(|| if o.rate.is_some() { None } else { self.trace.clone() });
        ResolvedDirection {
            rate: if trace.is_some() { None } else { o.rate.or(self.rate) },
            delay: o.delay.unwrap_or(self.delay),
            mtu: o.mtu.unwrap_or(self.mtu),
            queue: o.queue.clone().unwrap_or_else(|| self.queue.clone()),
            loss: o.loss.as_ref().unwrap_or(&self.loss).0.clone(),
            jitter: o.jitter.clone().or_else(|| self.jitter.clone()),
            duplicate: o.duplicate.unwrap_or(self.duplicate),
            trace,
        }
    }

    /// Checks every value. [`super::SimConfig::validate`] checks whether the nodes exist.
    ///
    /// # Errors
    /// Returns an error for the first value that is not allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.rate.is_some() && self.trace.is_some() {
            let file = self
                .trace
                .as_ref()
                .map_or_else(String::new, |t| t.file.display().to_string());
            return Err(ConfigError::new("trace", file, "either a rate or a trace").hint("remove one of the two"));
        }
        if !(1..=1_000_000).contains(&self.cost) {
            return Err(ConfigError::new("cost", self.cost, "1 to 1000000"));
        }
        for (i, pair) in self.schedule.windows(2).enumerate() {
            if pair[1].at <= pair[0].at {
                let path = format!("schedule[{}].at", i + 1);
                return Err(ConfigError::new(path, pair[1].at, format!("later than {}", pair[0].at)));
            }
        }
        let traced = self.directions().map(|direction| direction.trace.is_some());
        for (i, step) in self.schedule.iter().enumerate() {
            step.validate(traced).map_err(|e| e.within(&format!("schedule[{i}]")))?;
        }
        for (direction, (resolved, name)) in self.directions().iter().zip(["forward", "reverse"]).enumerate() {
            let overrides = [&self.forward, &self.reverse][direction].is_some();
            resolved
                .validate()
                .map_err(|e| if overrides { e.within(name) } else { e })?;
        }
        Ok(())
    }
}

impl ResolvedDirection {
    fn validate(&self) -> Result<(), ConfigError> {
        match self.rate {
            None if self.trace.is_none() => {
                return Err(
                    ConfigError::new("rate", "nothing", "a rate above 0 bit/s, or a trace").hint("rate = \"2 Mbit/s\"")
                );
            }
            Some(rate) => check_rate(rate)?,
            None => {}
        }
        check_delay(self.delay)?;
        if !(68..=65_535).contains(&self.mtu) {
            return Err(ConfigError::new("mtu", self.mtu, "68 to 65535 bytes"));
        }
        self.queue.validate().map_err(|e| e.within("queue"))?;
        check_loss(&self.loss)?;
        if let Some(jitter) = &self.jitter {
            jitter.validate().map_err(|e| e.within("jitter"))?;
        }
        probability("duplicate", self.duplicate)
    }
}

impl JitterConfig {
    /// Returns a uniformly distributed delay from 0 s to `max`, without reordering.
    pub fn up_to(max: Span) -> Self {
        JitterConfig::Uniform {
            min: Span::ZERO,
            max,
            reorder: false,
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// Returns an error for the first value that is not allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let limit = Span::from_secs(3600);
        let (path, longest) = match self {
            JitterConfig::Uniform { min, max, .. } => {
                if min > max {
                    return Err(ConfigError::new("min", min, format!("at most max, which is {max}")));
                }
                ("max", *max)
            }
            JitterConfig::Normal { mean, deviation, .. } => {
                if *deviation > limit {
                    return Err(ConfigError::new("deviation", deviation, "0 s to 1 h"));
                }
                ("mean", *mean)
            }
            JitterConfig::Exponential { mean, .. } => ("mean", *mean),
        };
        if longest > limit {
            return Err(ConfigError::new(path, longest, "0 s to 1 h"));
        }
        Ok(())
    }
}

/// A table for each kind of jitter.
const JITTERS: [(&str, &str); 3] = [
    ("uniform", r#"{ kind = "uniform", max = "2 ms" }"#),
    ("normal", r#"{ kind = "normal", mean = "5 ms", deviation = "1 ms" }"#),
    ("exponential", r#"{ kind = "exponential", mean = "2 ms" }"#),
];

impl ShortForm for JitterConfig {
    const EXPECTED: &'static str = "a time or a table; such as \"2 ms\"";

    fn from_number<E: de::Error>(number: f64, _: Unexpected<'_>) -> Result<Self, E> {
        // The error for a number without unit.
        let max = Span::deserialize(number.into_deserializer())?;
        Ok(JitterConfig::up_to(max))
    }

    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        match text.parse() {
            Ok(max) => Ok(JitterConfig::up_to(max)),
            Err(error) if text.contains(|c: char| c.is_ascii_digit()) => Err(E::custom(error)),
            Err(_) => Err(no_short_form(text, "a time or a table", &JITTERS, "\"2 ms\"")),
        }
    }

    fn short_schema() -> Schema {
        let mut schema = Span::json_schema(&mut SchemaGenerator::default());
        let meaning = "A time in place of the table: `\"2 ms\"` is `{ kind = \"uniform\", max = \"2 ms\" }`.";
        schema.insert("description".to_owned(), meaning.into());
        schema
    }
}
