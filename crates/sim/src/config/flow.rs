//! Flows in a scenario.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whimbrel_control::Span;
use whimbrel_proto::AssociationConfig;

use super::traffic::{MOST_BYTES, MessageSizes, TrafficConfig, TrafficKind};
use super::{ConfigError, TcpConfig};

/// Most user data of a UDP datagram, in bytes.
const MOST_UDP_BYTES: u32 = 65_507;

/// Data that one node sends to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowConfig {
    /// The flow's name, which its results show.
    pub name: String,
    /// The transport that carries it.
    #[serde(default)]
    pub kind: FlowKind,
    /// The node that sends. Required unless `pairs` is given.
    pub from: String,
    /// The node that receives. Required unless `pairs` is given.
    pub to: String,
    /// Another SCTP flow between the same nodes, whose association carries the messages of this flow as well, on streams of their own after those
    /// of that flow. So one association has several classes of messages. Packets, retransmissions and other counters of the
    /// transport are those of the flow with the association.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// Links whose interfaces the sender uses, the first as primary. Default: all of the node's links, in their order in the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from_links: Vec<String>,
    /// Links whose interfaces the receiver uses, the first as primary. Default: all of the node's links, in their order in the
    /// file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to_links: Vec<String>,
    /// When the sender starts the association or connection, or sends the first datagram.
    #[serde(default)]
    pub start: Span,
    /// Width of the interval after `start` from which each seed draws the start time uniformly. This makes runs differ where
    /// nothing else is random.
    #[serde(default, skip_serializing_if = "is_none")]
    #[schemars(extend("default" = "0 s"))]
    pub start_within: Span,
    /// When the sender stops offering messages. An SCTP flow then shuts its association down, a TCP flow sends its FIN. Default:
    /// never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
    /// Addresses that are added or removed during the association (RFC 5061), in the order of time. Requires `dynamic_addresses` at
    /// both ends. A step before the association is established takes effect when it is established.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub address: Vec<AddressStep>,
    /// What the sending application sends.
    #[serde(default)]
    pub traffic: TrafficConfig,
    /// Parameters of both ends of an SCTP flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sctp: Option<AssociationConfig>,
    /// Parameters of both ends of a TCP flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpConfig>,
    /// Parameters of the receiver that differ from those in `sctp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AssociationConfig>")]
    pub receiver: Option<serde_json::Map<String, serde_json::Value>>,
}

/// A change of one end's addresses. A link whose first step adds it is not used before that step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressStep {
    /// Time of the change, since the start of the run.
    pub at: Span,
    /// The end that changes: the node in `from`, or the node in `to`.
    #[serde(default, skip_serializing_if = "FlowEnd::is_sender")]
    #[schemars(extend("default" = "sender"))]
    pub end: FlowEnd,
    /// Link whose interface is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<String>,
    /// Link that both ends use as the primary path from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    /// Link whose interface is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<String>,
}

/// An end of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowEnd {
    /// The node in `from`.
    #[default]
    Sender,
    /// The node in `to`.
    Receiver,
}

impl FlowEnd {
    fn is_sender(&self) -> bool {
        *self == FlowEnd::Sender
    }
}

impl AddressStep {
    /// Returns the links that the step names, each with the name of its field.
    pub fn links(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let fields = [("add", &self.add), ("primary", &self.primary), ("remove", &self.remove)];
        fields
            .into_iter()
            .filter_map(|(field, link)| Some((field, link.as_deref()?)))
    }
}

/// The transport of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowKind {
    /// An SCTP association.
    #[default]
    Sctp,
    /// A TCP connection over the first interface of each end.
    Tcp,
    /// Datagrams without acknowledgements: cross traffic.
    Udp,
}

impl FlowKind {
    /// Returns the most user data that a message can have, in bytes.
    pub(crate) const fn most_bytes(self) -> u32 {
        match self {
            FlowKind::Sctp | FlowKind::Tcp => MOST_BYTES,
            FlowKind::Udp => MOST_UDP_BYTES,
        }
    }
}

impl FlowConfig {
    /// Creates a flow of default traffic.
    pub fn new(name: &str, kind: FlowKind, from: &str, to: &str) -> Self {
        FlowConfig {
            name: name.to_owned(),
            kind,
            from: from.to_owned(),
            to: to.to_owned(),
            with: None,
            from_links: Vec::new(),
            to_links: Vec::new(),
            start: Span::ZERO,
            start_within: Span::ZERO,
            stop: None,
            address: Vec::new(),
            traffic: TrafficConfig::default(),
            sctp: None,
            tcp: None,
            receiver: None,
        }
    }

    /// Returns whether an end starts without the interface at this link: the first step that names the link adds it.
    pub fn comes_later(&self, end: FlowEnd, link: &str) -> bool {
        let mut steps = self.address.iter().filter(|step| step.end == end);
        let first = steps.find_map(|step| step.links().find(|(_, name)| *name == link));
        first.is_some_and(|(field, _)| field == "add")
    }

    /// Returns the sender's parameters.
    pub fn sender_association(&self) -> AssociationConfig {
        self.sctp.clone().unwrap_or_default()
    }

    /// Returns the parameters of a TCP flow.
    pub fn tcp_parameters(&self) -> TcpConfig {
        self.tcp.clone().unwrap_or_default()
    }

    /// Returns the receiver's parameters: the sender's with the overrides of `receiver`.
    ///
    /// # Errors
    /// Returns an error if an override has an unknown key or an invalid value.
    pub fn receiver_association(&self) -> Result<AssociationConfig, ConfigError> {
        let sender = self.sender_association();
        let Some(overrides) = &self.receiver else {
            return Ok(sender);
        };
        let mut value = serde_json::to_value(&sender).expect("an association's parameters are plain data");
        overlay(&mut value, overrides);
        serde_json::from_value(value).map_err(|error| {
            let text = serde_json::Value::Object(overrides.clone()).to_string();
            ConfigError::new("receiver", text, "parameters as in sctp").hint(error.to_string())
        })
    }

    /// Checks every value that does not depend on other parts of the scenario.
    ///
    /// # Errors
    /// Returns an error for the first value that is not allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.name.is_empty() {
            return Err(ConfigError::new("name", "\"\"", "a name"));
        }
        if self.from == self.to {
            return Err(ConfigError::new("to", &self.to, "another node than the one in from"));
        }
        if let Some(stop) = self.stop.filter(|stop| *stop <= self.start) {
            return Err(ConfigError::new(
                "stop",
                stop,
                format!("later than start, which is {}", self.start),
            ));
        }
        self.validate_steps()?;
        if self.tcp.is_some() && self.kind != FlowKind::Tcp {
            return Err(ConfigError::new(
                "tcp",
                "{ .. }",
                "nothing unless the flow is of kind \"tcp\"",
            ));
        }
        if let Some(field) = self.traffic.needs_sctp().filter(|_| self.kind != FlowKind::Sctp) {
            let path = format!("traffic.{field}");
            return Err(ConfigError::new(
                path,
                "given",
                "nothing unless the flow is of kind \"sctp\"",
            ));
        }
        match self.kind {
            FlowKind::Tcp => self.validate_tcp()?,
            FlowKind::Sctp => {
                let check = |association: AssociationConfig, place: &str| {
                    association
                        .validate()
                        .map_err(|e| ConfigError::new(place, e.to_string(), "valid SCTP parameters"))
                };
                check(self.sender_association(), "sctp")?;
                check(self.receiver_association()?, "receiver")?;
            }
            FlowKind::Udp => self.validate_udp()?,
        }
        if self.with.is_some() {
            self.validate_with()?;
        }
        self.traffic.validate().map_err(|e| e.within("traffic"))
    }

    /// Checks a flow without an association of its own.
    fn validate_with(&self) -> Result<(), ConfigError> {
        let own = [
            ("sctp", self.sctp.is_some()),
            ("receiver", self.receiver.is_some()),
            ("address", !self.address.is_empty()),
            ("from_links", !self.from_links.is_empty()),
            ("to_links", !self.to_links.is_empty()),
        ];
        if let Some((field, _)) = own.into_iter().find(|(_, given)| *given) {
            let error = ConfigError::new(field, "a value", "nothing for a flow in another one's association");
            return Err(error.hint("the flow that `with` names has the association"));
        }
        if self.kind != FlowKind::Sctp {
            return Err(ConfigError::new(
                "with",
                "given",
                "nothing unless the flow is of kind \"sctp\"",
            ));
        }
        if self.traffic.kind == TrafficKind::File {
            return Err(ConfigError::new(
                "traffic.kind",
                "file",
                "another kind in another flow's association",
            ));
        }
        Ok(())
    }

    fn validate_steps(&self) -> Result<(), ConfigError> {
        if self.address.is_empty() {
            return Ok(());
        }
        if self.kind != FlowKind::Sctp {
            return Err(ConfigError::new(
                "address",
                "[..]",
                "nothing unless the flow is of kind \"sctp\"",
            ));
        }
        if !self.sender_association().dynamic_addresses {
            return Err(
                ConfigError::new("sctp.dynamic_addresses", false, "true, as addresses come and go")
                    .hint("dynamic_addresses = true"),
            );
        }
        for (i, step) in self.address.iter().enumerate() {
            if step.links().next().is_none() {
                let path = format!("address[{i}]");
                return Err(ConfigError::new(
                    path,
                    "nothing",
                    "add, primary or remove, or several of them",
                ));
            }
            if i > 0 && step.at < self.address[i - 1].at {
                let allowed = format!("not before {}", self.address[i - 1].at);
                return Err(ConfigError::new(format!("address[{i}].at"), step.at, allowed));
            }
        }
        Ok(())
    }

    fn validate_tcp(&self) -> Result<(), ConfigError> {
        if self.sctp.is_some() || self.receiver.is_some() {
            return Err(
                ConfigError::new("sctp", "{ .. }", "nothing for a flow of kind \"tcp\"").hint("its table is tcp")
            );
        }
        if self.traffic.streams != 1 {
            return Err(ConfigError::new("traffic.streams", self.traffic.streams, "1 over tcp"));
        }
        if self.traffic.unordered {
            return Err(ConfigError::new("traffic.unordered", true, "false over tcp"));
        }
        if self.traffic.message_sizes != MessageSizes::Constant {
            let error = ConfigError::new("traffic.message_sizes", "exponential", "constant over tcp");
            return Err(error.hint("TCP carries a stream of bytes, without the boundaries of messages"));
        }
        self.tcp_parameters().validate().map_err(|e| e.within("tcp"))
    }

    fn validate_udp(&self) -> Result<(), ConfigError> {
        if self.sctp.is_some() || self.receiver.is_some() {
            return Err(ConfigError::new("sctp", "{ .. }", "nothing for a flow of kind \"udp\""));
        }
        if !matches!(
            self.traffic.kind,
            TrafficKind::Cbr | TrafficKind::OnOff | TrafficKind::Poisson
        ) {
            return Err(ConfigError::new(
                "traffic.kind",
                self.traffic.kind.name(),
                "cbr, on-off or poisson for a flow of kind \"udp\"",
            )
            .hint("UDP has no acknowledgements that limit the sender's rate"));
        }
        let lengths = [
            ("traffic.message_bytes", self.traffic.message_bytes),
            ("traffic.key_bytes", self.traffic.key_bytes.unwrap_or(0)),
        ];
        if let Some((field, bytes)) = lengths.into_iter().find(|(_, bytes)| *bytes > MOST_UDP_BYTES) {
            let allowed = format!("1 to {MOST_UDP_BYTES} bytes over udp");
            return Err(ConfigError::new(field, bytes, allowed));
        }
        Ok(())
    }
}

/// Returns whether the time is zero.
fn is_none(span: &Span) -> bool {
    span.is_zero()
}

/// Puts the keys of `over` into `base`, table by table. A part of another kind replaces the whole part.
fn overlay(base: &mut serde_json::Value, over: &serde_json::Map<String, serde_json::Value>) {
    let Some(table) = base.as_object_mut() else {
        *base = serde_json::Value::Object(over.clone());
        return;
    };
    for (key, value) in over {
        match (table.get_mut(key), value) {
            (Some(inner), serde_json::Value::Object(inner_over))
                if inner.is_object()
                    && inner_over
                        .get("kind")
                        .is_none_or(|kind| inner.get("kind") == Some(kind)) =>
            {
                overlay(inner, inner_over);
            }
            _ => {
                table.insert(key.clone(), value.clone());
            }
        }
    }
}
