//! Flows and their traffic as they are written in a scenario.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whimbrel_control::{Rate, Span};
use whimbrel_proto::AssociationConfig;

use super::{ConfigError, TcpConfig};

/// Data that one node sends to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowConfig {
    /// The flow's name, by which its results are listed.
    pub name: String,
    /// The transport that carries it.
    #[serde(default)]
    pub kind: FlowKind,
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// Links whose interfaces the sender uses, the first as primary; by default all of the node's, in the order of the links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from_links: Vec<String>,
    /// Links whose interfaces the receiver uses, the first as primary; by default all of the node's, in the order of the links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to_links: Vec<String>,
    /// When the sender begins to set up the association or to send datagrams.
    #[serde(default)]
    pub start: Span,
    /// Start up to this much later than `start`: each seed draws the time, evenly. It gives runs that differ where nothing else is
    /// random.
    #[serde(default, skip_serializing_if = "is_none")]
    pub start_within: Span,
    /// When the sender stops to offer messages; an SCTP flow then shuts its association down, a TCP flow sends its FIN. By default
    /// never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
    /// Addresses that come and go while the association lives (RFC 5061), in the order of time; it needs `dynamic_addresses` at both
    /// ends. What comes before the association is up happens as soon as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub address: Vec<AddressStep>,
    /// What the sender's user wants to send.
    #[serde(default)]
    pub traffic: TrafficConfig,
    /// Parameters of both ends of an SCTP flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sctp: Option<AssociationConfig>,
    /// Parameters of both ends of a TCP flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpConfig>,
    /// Parameters of `sctp` that differ at the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AssociationConfig>")]
    pub receiver: Option<serde_json::Map<String, serde_json::Value>>,
}

/// A change of an end's addresses at a time. A link whose first step adds it is not used before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressStep {
    /// When, since the run began.
    pub at: Span,
    /// Which end: the one in `from`, or the one in `to`.
    #[serde(default, skip_serializing_if = "FlowEnd::is_sender")]
    pub end: FlowEnd,
    /// The link whose interface is used from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<String>,
    /// The link over which both ends are to send first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    /// The link whose interface is used no more.
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
    /// The links it names, with the fields that do.
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
    /// Plain datagrams that nobody acknowledges: cross traffic.
    Udp,
}

/// What the sender's user wants to send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrafficConfig {
    /// The pattern.
    pub kind: TrafficKind,
    /// User data in each message, 1 to 16 777 216 bytes.
    #[serde(default = "default_message_bytes")]
    #[schemars(range(min = 1, max = 16_777_216))]
    pub message_bytes: u32,
    /// Streams over which messages are dealt out in turn, 1 to 65535.
    #[serde(default = "default_streams")]
    #[schemars(range(min = 1, max = 65_535))]
    pub streams: u16,
    /// Whether messages are delivered as they come, without regard to their order.
    #[serde(default)]
    pub unordered: bool,
    /// User data per second while sending (`cbr`, `on-off`), or in the mean (`poisson`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How many messages are sent (required by `messages`; the others may be cut short by it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<u64>,
    /// The file to send (`file`); a relative path is seen from the scenario's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Length in bytes of a made-up file of random bytes, instead of `file` (`file`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub file_bytes: Option<u64>,
    /// Length of a burst (`on-off`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Span>,
    /// Length of the silence between bursts (`on-off`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<Span>,
    /// Whether bursts and silences always have the length given or are exponentially distributed about it (`on-off`).
    #[serde(default)]
    pub periods: Periods,
}

impl Default for TrafficConfig {
    /// Endless messages of 1452 bytes: a packet of 1500 bytes with the IP, SCTP and DATA headers.
    fn default() -> Self {
        TrafficConfig {
            kind: TrafficKind::Endless,
            message_bytes: default_message_bytes(),
            streams: default_streams(),
            unordered: false,
            rate: None,
            count: None,
            file: None,
            file_bytes: None,
            on: None,
            off: None,
            periods: Periods::Constant,
        }
    }
}

fn default_message_bytes() -> u32 {
    1452
}

fn default_streams() -> u16 {
    1
}

/// The pattern of a flow's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficKind {
    /// There is always another message to send.
    Endless,
    /// The bytes of a file, really carried and compared at the end.
    File,
    /// A number of messages, all ready at once.
    Messages,
    /// A constant bit rate.
    Cbr,
    /// Bursts of constant bit rate with silence between them.
    OnOff,
    /// Messages at exponentially distributed intervals.
    Poisson,
}

impl TrafficKind {
    /// The name used in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            TrafficKind::Endless => "endless",
            TrafficKind::File => "file",
            TrafficKind::Messages => "messages",
            TrafficKind::Cbr => "cbr",
            TrafficKind::OnOff => "on-off",
            TrafficKind::Poisson => "poisson",
        }
    }
}

/// How long the bursts and silences of on-off traffic are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Periods {
    /// As long as given.
    #[default]
    Constant,
    /// Exponentially distributed with the mean given.
    Exponential,
}

impl FlowConfig {
    /// A flow of default traffic.
    pub fn new(name: &str, kind: FlowKind, from: &str, to: &str) -> Self {
        FlowConfig {
            name: name.to_owned(),
            kind,
            from: from.to_owned(),
            to: to.to_owned(),
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

    /// Whether an end begins without the interface at this link: the first step that names it adds it.
    pub fn comes_later(&self, end: FlowEnd, link: &str) -> bool {
        let mut steps = self.address.iter().filter(|step| step.end == end);
        let first = steps.find_map(|step| step.links().find(|(_, name)| *name == link));
        first.is_some_and(|(field, _)| field == "add")
    }

    /// The sender's parameters.
    pub fn sender_association(&self) -> AssociationConfig {
        self.sctp.clone().unwrap_or_default()
    }

    /// Parameters of a TCP flow.
    pub fn tcp_parameters(&self) -> TcpConfig {
        self.tcp.clone().unwrap_or_default()
    }

    /// The receiver's parameters: the sender's with the overrides of `receiver`.
    ///
    /// # Errors
    /// An unknown key or an impossible value among the overrides.
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
    /// The first value that cannot be.
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
        match self.kind {
            FlowKind::Tcp => self.validate_tcp()?,
            FlowKind::Sctp => {
                let check = |association: AssociationConfig, place: &str| {
                    association
                        .validate()
                        .map_err(|e| ConfigError::new(place, e.to_string(), "parameters that proto accepts"))
                };
                check(self.sender_association(), "sctp")?;
                check(self.receiver_association()?, "receiver")?;
            }
            FlowKind::Udp => self.validate_udp()?,
        }
        self.traffic.validate().map_err(|e| e.within("traffic"))
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
            .hint("nothing tells a UDP sender when there is room for more"));
        }
        if self.traffic.message_bytes > 65_507 {
            return Err(ConfigError::new(
                "traffic.message_bytes",
                self.traffic.message_bytes,
                "1 to 65507 bytes over udp",
            ));
        }
        Ok(())
    }
}

/// Whether there is no time.
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

impl TrafficConfig {
    /// Traffic of this kind with everything else at its default.
    pub fn of(kind: TrafficKind) -> Self {
        TrafficConfig {
            kind,
            ..TrafficConfig::default()
        }
    }

    /// Whether the traffic ends by itself.
    pub fn is_finite(&self) -> bool {
        self.count.is_some() || self.kind == TrafficKind::File
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn validate(&self) -> Result<(), ConfigError> {
        use TrafficKind::{Cbr, File, Messages, OnOff, Poisson};
        if !(1..=16_777_216).contains(&self.message_bytes) {
            return Err(ConfigError::new(
                "message_bytes",
                self.message_bytes,
                "1 to 16777216 bytes",
            ));
        }
        if self.streams == 0 {
            return Err(ConfigError::new("streams", 0, "1 to 65535"));
        }
        let kind = self.kind.name();
        let needs = |given: bool, field: &str, what: &str, wanted: bool| match (given, wanted) {
            (false, true) => Err(ConfigError::new(field, "nothing", what).hint(format!("{kind} traffic needs it"))),
            (true, false) => Err(ConfigError::new(field, "given", format!("nothing for {kind} traffic"))),
            _ => Ok(()),
        };
        needs(
            self.rate.is_some(),
            "rate",
            "a rate above 0 bit/s",
            matches!(self.kind, Cbr | OnOff | Poisson),
        )?;
        if self.rate.is_some_and(|rate| rate.as_bps() == 0) {
            return Err(ConfigError::new("rate", "0 bit/s", "a rate above 0 bit/s"));
        }
        needs(self.on.is_some(), "on", "a time above 0 s", self.kind == OnOff)?;
        needs(self.off.is_some(), "off", "a time above 0 s", self.kind == OnOff)?;
        for (field, span) in [("on", self.on), ("off", self.off)] {
            if span.is_some_and(Span::is_zero) {
                return Err(ConfigError::new(field, "0 s", "a time above 0 s"));
            }
        }
        if self.kind == Messages {
            needs(self.count.is_some(), "count", "1 message or more", true)?;
        }
        if self.count == Some(0) {
            return Err(ConfigError::new("count", 0, "1 message or more"));
        }
        if self.kind == File {
            if self.file.is_some() == self.file_bytes.is_some() {
                return Err(ConfigError::new("file", "nothing or both", "either file or file_bytes"));
            }
            needs(self.count.is_some(), "count", "", false)?;
            if !(1..=1 << 32).contains(&self.file_bytes.unwrap_or(1)) {
                return Err(ConfigError::new(
                    "file_bytes",
                    self.file_bytes.unwrap_or(0),
                    "1 byte to 4 GiB",
                ));
            }
            return Ok(());
        }
        needs(self.file.is_some(), "file", "", false)?;
        needs(self.file_bytes.is_some(), "file_bytes", "", false)
    }
}
