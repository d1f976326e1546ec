//! The simulated network as plain data: nodes, links, flows and the measurement, as in a scenario file.
//!
//! Every struct here is deserialized from TOML, generates its JSON schema from the documentation of its fields, and checks its
//! values with `validate`. The configuration of a loss model or a queue is next to that model.

mod error;
mod flow;
mod link;
mod one_or_many;
mod phy;
mod propagation;
mod radio;
mod routing;
mod short;
mod tcp;
mod traffic;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whimbrel_control::Span;

pub(crate) use self::error::probability;
pub use self::error::{ConfigError, nearest};
pub use self::flow::{AddressStep, FlowConfig, FlowEnd, FlowKind};
pub use self::link::{
    DirectionConfig, JitterConfig, LinkConfig, LinkValues, NodeConfig, ResolvedDirection, ScheduleStep, TraceConfig,
};
pub use self::one_or_many::OneOrMany;
pub(crate) use self::phy::Family;
pub use self::phy::PhyKind;
pub use self::propagation::{FadingConfig, PropagationConfig};
pub use self::radio::{
    ChannelConfig, EnergyConfig, HandoffConfig, Interference, MAX_ADDRESSES, MAX_RADIOS, MobilityConfig, RadioConfig,
};
pub use self::routing::{AodvConfig, ChannelRouting, DsdvConfig, DsrConfig};
pub(crate) use self::short::{ShortForm, ShortOr, no_short_form, short};
pub use self::tcp::{TcpConfig, TcpEcn, TcpFlavour};
pub use self::traffic::{MessageSizes, Periods, TrafficConfig, TrafficKind};
pub use crate::loss::{ChunkKind, LossConfig};
pub use crate::queue::{
    AboveMax, CodelConfig, CongestionWarningConfig, DualPi2Config, FqCodelConfig, QueueConfig, QueueUnit, RedConfig,
    StepConfig, WarningMark,
};

/// Largest number of links in one network: each has its own subnet in 10.0.0.0/8.
pub const MAX_LINKS: usize = 65_536;

/// A network with its flows: everything that a run needs except its seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimConfig {
    /// Hosts and routers.
    pub node: Vec<NodeConfig>,
    /// Links between nodes.
    #[serde(default)]
    pub link: Vec<LinkConfig>,
    /// Radio channels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channel: Vec<ChannelConfig>,
    /// Interfaces of nodes to radio channels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub radio: Vec<RadioConfig>,
    /// Data sent over the network.
    pub flow: Vec<FlowConfig>,
    /// Simulated time after which the run ends, above 0 s. If every SCTP and TCP flow is finite (a file, a number of messages, a stop time),
    /// the run ends when the last of them is complete.
    #[serde(default = "default_duration")]
    pub duration: Span,
    /// The part of the run that is measured.
    #[serde(default)]
    pub measure: MeasureConfig,
    /// How packets are represented inside the simulator. Results do not depend on it.
    #[serde(default)]
    pub carriage: Carriage,
}

/// Returns the default duration of a run.
pub fn default_duration() -> Span {
    Span::from_secs(3600)
}

/// The part of the run that is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasureConfig {
    /// Start of the measurement window, before the end of the run.
    #[serde(default)]
    pub from: Span,
    /// End of the measurement window, after `from`. Default: the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Span>,
    /// Time between two samples of a series (cwnd, queue length, goodput), at least 1 ms.
    #[serde(default = "default_interval")]
    pub interval: Span,
}

fn default_interval() -> Span {
    Span::from_secs(1)
}

impl Default for MeasureConfig {
    /// The whole run, sampled every second.
    fn default() -> Self {
        MeasureConfig {
            from: Span::ZERO,
            to: None,
            interval: default_interval(),
        }
    }
}

/// How packets are represented inside the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Carriage {
    /// As structures with a wire length: fast.
    #[default]
    Structures,
    /// As bytes: the codec writes and parses each packet with its checksum.
    Bytes,
}

impl SimConfig {
    /// Creates an empty network whose run ends after `duration`.
    pub fn empty(duration: Span) -> Self {
        SimConfig {
            node: Vec::new(),
            link: Vec::new(),
            channel: Vec::new(),
            radio: Vec::new(),
            flow: Vec::new(),
            duration,
            measure: MeasureConfig::default(),
            carriage: Carriage::default(),
        }
    }

    /// Checks each value and each name.
    ///
    /// # Errors
    /// Returns an error for the first value that is not allowed.
    pub(crate) fn validate_values(&self) -> Result<(), ConfigError> {
        if self.duration.is_zero() {
            return Err(ConfigError::new("duration", self.duration, "a time above 0 s"));
        }
        self.measure.validate(self.duration).map_err(|e| e.within("measure"))?;
        let nodes = unique("node", self.node.iter().map(|node| node.name.clone()))?;
        if self.link.len() > MAX_LINKS {
            return Err(ConfigError::new(
                "link",
                self.link.len(),
                format!("at most {MAX_LINKS} links"),
            ));
        }
        let links = unique("link", self.link.iter().map(LinkConfig::display_name))?;
        for (i, link) in self.link.iter().enumerate() {
            let place = format!("link[{i}]");
            for (end, name) in link.between.iter().enumerate() {
                known(&format!("{place}.between[{end}]"), name, "node", &nodes)?;
            }
            if link.between[0] == link.between[1] {
                let path = format!("{place}.between");
                return Err(ConfigError::new(path, &link.between[0], "two different nodes"));
            }
            link.validate().map_err(|e| e.within(&place))?;
        }
        let ends = self.validate_radio(&nodes, links)?;
        unique("flow", self.flow.iter().map(|flow| flow.name.clone()))?;
        for (i, flow) in self.flow.iter().enumerate() {
            self.validate_flow(flow, &nodes, &ends)
                .and_then(|()| self.validate_classes(flow))
                .map_err(|e| e.within(&format!("flow[{i}]")))?;
        }
        Ok(())
    }

    /// Checks that the association of another flow can carry this one, or that this one's association can carry the others.
    fn validate_classes(&self, flow: &FlowConfig) -> Result<(), ConfigError> {
        if let Some(name) = &flow.with {
            let carrier = self.flow.iter().find(|other| other.name == *name);
            let fits = carrier.is_some_and(|carrier| {
                carrier.kind == FlowKind::Sctp
                    && carrier.with.is_none()
                    && (&carrier.from, &carrier.to) == (&flow.from, &flow.to)
            });
            let allowed = format!(
                "an SCTP flow from \"{}\" to \"{}\" with an association of its own",
                flow.from, flow.to
            );
            return match carrier.filter(|_| fits) {
                Some(carrier) => check_rule(flow, carrier),
                None => Err(ConfigError::new("with", name, allowed)),
            };
        }
        check_rule(flow, flow)?;
        let classes = self.flow.iter().filter(|other| other.with.as_ref() == Some(&flow.name));
        let streams: u32 = classes.clone().map(|class| u32::from(class.traffic.streams)).sum();
        let needed = streams + u32::from(flow.traffic.streams);
        let offered = flow.sender_association().outbound_streams;
        let accepted = flow.receiver_association()?.max_inbound_streams;
        let limits = [
            ("sctp.outbound_streams", offered),
            ("sctp.max_inbound_streams", accepted),
        ];
        match limits.into_iter().find(|(_, limit)| needed > u32::from(*limit)) {
            Some((field, limit)) if streams > 0 => {
                let allowed = format!("{needed} or more: the streams of this flow and of those with it");
                Err(ConfigError::new(field, limit, allowed))
            }
            _ => Ok(()),
        }
    }

    /// Checks nodes, channels and radios. Returns the names of links and radios.
    fn validate_radio(&self, nodes: &Names, links: Names) -> Result<Names, ConfigError> {
        for (i, node) in self.node.iter().enumerate() {
            node.validate().map_err(|e| e.within(&format!("node[{i}]")))?;
        }
        let channels = unique("channel", self.channel.iter().map(|channel| channel.name.clone()))?;
        for (i, channel) in self.channel.iter().enumerate() {
            channel.validate().map_err(|e| e.within(&format!("channel[{i}]")))?;
        }
        if self.radio.len() > MAX_RADIOS {
            let allowed = format!("at most {MAX_RADIOS} radios");
            return Err(ConfigError::new("radio", self.radio.len(), allowed));
        }
        let radios = unique("radio", self.radio.iter().map(RadioConfig::display_name))?;
        for (i, radio) in self.radio.iter().enumerate() {
            let place = format!("radio[{i}]");
            let node = known(&format!("{place}.node"), &radio.node, "node", nodes)?;
            let channel = known(&format!("{place}.channel"), &radio.channel, "channel", &channels)?;
            if !self.node[node].is_placed() {
                return Err(
                    ConfigError::new(format!("node[{node}].position"), "nothing", "[x, y] in metres")
                        .hint("a node with a radio needs a position"),
                );
            }
            radio.validate().map_err(|e| e.within(&place))?;
            let routing = &self.channel[channel].routing;
            if radio.addresses > 1 && !matches!(routing, ChannelRouting::Dsr(_)) {
                let error = ConfigError::new(
                    format!("{place}.addresses"),
                    radio.addresses,
                    "1, unless routing is \"dsr\"",
                );
                return Err(error.hint("only source routes can be node-disjoint"));
            }
        }
        self.validate_access_points(&radios, &channels)?;
        let mut ends = links;
        for (name, i) in radios {
            if ends.insert(name.clone(), self.link.len() + i).is_some() {
                return Err(ConfigError::new(
                    format!("radio[{i}].name"),
                    name,
                    "a name of its own; a link has this one already",
                ));
            }
        }
        Ok(ends)
    }

    /// Checks which stations are associated with which access points.
    fn validate_access_points(&self, radios: &Names, channels: &Names) -> Result<(), ConfigError> {
        for (i, radio) in self.radio.iter().enumerate() {
            for (field, name) in radio.access_points() {
                let path = format!("radio[{i}].{field}");
                let point = &self.radio[known(&path, name, "radio", radios)?];
                if point.access_point.is_some() || point.node == radio.node {
                    let allowed = "a radio of another node that is not itself a station";
                    return Err(ConfigError::new(path, name, allowed));
                }
                if field == "access_point" && point.channel != radio.channel {
                    let error = ConfigError::new(path, name, format!("one on channel \"{}\"", radio.channel));
                    return Err(error.hint("a hand-off may change the channel; the run starts on the same one"));
                }
                let channel = channels.get(&point.channel).map(|place| (place, &self.channel[*place]));
                let routed = channel.filter(|(_, channel)| channel.routing.is_protocol());
                if let Some((place, _)) = routed {
                    let path = format!("channel[{place}].routing");
                    let error = ConfigError::new(path, "a protocol", "\"static\" or \"direct\"");
                    return Err(error.hint("stations send all packets to their access points"));
                }
            }
        }
        Ok(())
    }

    /// Returns whether an end of a link (or a radio, with an index after those of the links) belongs to a node.
    fn is_at(&self, end: usize, node: &str) -> bool {
        match end.checked_sub(self.link.len()) {
            Some(radio) => self.radio[radio].node == node,
            None => self.link[end].between.iter().any(|name| name == node),
        }
    }

    fn validate_flow(&self, flow: &FlowConfig, nodes: &Names, ends: &Names) -> Result<(), ConfigError> {
        known("from", &flow.from, "node", nodes)?;
        known("to", &flow.to, "node", nodes)?;
        flow.validate()?;
        if flow.start + flow.start_within >= self.duration {
            let allowed = format!("before the end of the run, which is at {}", self.duration);
            return Err(ConfigError::new("start", flow.start, allowed));
        }
        for (field, node, names) in [
            ("from_links", &flow.from, &flow.from_links),
            ("to_links", &flow.to, &flow.to_links),
        ] {
            for (i, name) in names.iter().enumerate() {
                let path = format!("{field}[{i}]");
                let end = known(&path, name, "link", ends)?;
                if !self.is_at(end, node) {
                    return Err(ConfigError::new(path, name, format!("a link of node \"{node}\"")));
                }
                if names[..i].contains(name) {
                    return Err(ConfigError::new(path, name, "each link once"));
                }
            }
        }
        for (i, step) in flow.address.iter().enumerate() {
            let node = match step.end {
                FlowEnd::Sender => &flow.from,
                FlowEnd::Receiver => &flow.to,
            };
            for (field, name) in step.links() {
                let path = format!("address[{i}].{field}");
                let end = known(&path, name, "link", ends)?;
                if !self.is_at(end, node) {
                    return Err(ConfigError::new(path, name, format!("a link of node \"{node}\"")));
                }
                let radio = end.checked_sub(self.link.len()).map(|radio| &self.radio[radio]);
                if radio.is_some_and(|radio| radio.addresses > 1) {
                    let error = ConfigError::new(path, name, "a link, or a radio with one address");
                    return Err(error.hint("a step adds or removes a single address"));
                }
            }
        }
        for (end, node, names) in [
            (FlowEnd::Sender, &flow.from, &flow.from_links),
            (FlowEnd::Receiver, &flow.to, &flow.to_links),
        ] {
            let is_there = |(name, place): (&String, &usize)| {
                let used = names.is_empty() || names.contains(name);
                self.is_at(*place, node) && used && !flow.comes_later(end, name)
            };
            if flow.address.iter().any(|step| step.end == end) && !ends.iter().any(is_there) {
                return Err(ConfigError::new(
                    "address",
                    "adds all of them",
                    "a link that is used from the beginning",
                ));
            }
        }
        Ok(())
    }
}

impl MeasureConfig {
    fn validate(&self, duration: Span) -> Result<(), ConfigError> {
        if self.from >= duration {
            let allowed = format!("before the end of the run, which is at {duration}");
            return Err(ConfigError::new("from", self.from, allowed));
        }
        if let Some(to) = self.to.filter(|to| *to <= self.from) {
            return Err(ConfigError::new(
                "to",
                to,
                format!("later than from, which is {}", self.from),
            ));
        }
        if self.interval < Span::from_millis(1) {
            return Err(ConfigError::new("interval", self.interval, "1 ms or more"));
        }
        Ok(())
    }
}

/// Names with their indices in their list.
type Names = BTreeMap<String, usize>;

fn unique(what: &str, names: impl Iterator<Item = String>) -> Result<Names, ConfigError> {
    let mut seen = BTreeMap::new();
    for (i, name) in names.enumerate() {
        if name.is_empty() {
            return Err(ConfigError::new(format!("{what}[{i}].name"), "\"\"", "a name"));
        }
        if let Some(first) = seen.insert(name.clone(), i) {
            let allowed = format!("a name of its own; {what}[{first}] has this one already");
            let error = ConfigError::new(format!("{what}[{i}].name"), name, allowed);
            return Err(if what == "link" {
                error.hint("give the links names")
            } else {
                error
            });
        }
    }
    Ok(seen)
}

fn known(path: &str, name: &str, what: &str, names: &Names) -> Result<usize, ConfigError> {
    if let Some(&index) = names.get(name) {
        return Ok(index);
    }
    let error = ConfigError::new(path, name, format!("the name of a {what}"));
    Err(match nearest(name, names.keys().map(String::as_str)) {
        Some(near) => error.hint(format!("did you mean \"{near}\"?")),
        None if names.is_empty() => error.hint(format!("there is no [[{what}]]")),
        None => error.hint(format!(
            "there are: {}",
            names.keys().take(12).map(String::as_str).collect::<Vec<_>>().join(", ")
        )),
    })
}

/// Checks that the association of `carrier` has what the rule needs by which messages of `flow` are given up. Without partial reliability a limit
/// of retransmissions would never have an effect: something has been sent by then.
fn check_rule(flow: &FlowConfig, carrier: &FlowConfig) -> Result<(), ConfigError> {
    if flow.kind != FlowKind::Sctp || flow.traffic.retransmissions.is_none() {
        return Ok(());
    }
    let ends = [carrier.sender_association(), carrier.receiver_association()?];
    if ends.iter().all(|end| end.partial_reliability) {
        return Ok(());
    }
    let allowed = "nothing without partial reliability at both ends";
    let error = ConfigError::new("traffic.retransmissions", "a value", allowed);
    Err(error.hint(format!(
        "partial_reliability = true in the sctp table of the flow \"{}\"",
        carrier.name
    )))
}
