//! The traffic of a flow in a scenario.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whimbrel_control::{Rate, Span};
use whimbrel_proto::Reliability;

use super::ConfigError;

/// Most user data of a message, in bytes.
pub(super) const MOST_BYTES: u32 = 16_777_216;

/// What the sending application sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrafficConfig {
    /// The pattern of the traffic.
    pub kind: TrafficKind,
    /// User data per message, 1 to 16 777 216 bytes; the mean if `message_sizes` is random.
    #[serde(default = "default_message_bytes")]
    #[schemars(range(min = 1, max = 16_777_216))]
    pub message_bytes: u32,
    /// Whether all messages have the same length or exponentially distributed ones. With `exponential` and `poisson` traffic over `udp`,
    /// the queue of a link is an M/M/1 queue, apart from headers. `exponential` requires messages with boundaries: not `tcp`, not `file`.
    #[serde(default, skip_serializing_if = "is_constant")]
    #[schemars(extend("default" = "constant"))]
    pub message_sizes: MessageSizes,
    /// Number of streams, 1 to 65535; 1 over `tcp`. Messages use them in turn.
    #[serde(default = "default_streams")]
    #[schemars(range(min = 1, max = 65_535))]
    pub streams: u16,
    /// Whether messages are delivered in the order of arrival instead of the order of sending (unordered). Not over `tcp`.
    #[serde(default)]
    pub unordered: bool,
    /// User data per second, above 0 bit/s: while sending (`cbr`, `on-off`), or on average (`poisson`). Required by these kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Number of messages, 1 or more. Required by `messages`, not allowed with `file`; limits the other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<u64>,
    /// The file to send (`file`). A relative path starts at the scenario's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Length in bytes of a generated file of random bytes, 1 to 4294967296, instead of `file` (`file`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub file_bytes: Option<u64>,
    /// Length of a burst, above 0 s; the mean if `periods` is `exponential` (`on-off`, required).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Span>,
    /// Length of the pause between bursts, above 0 s; the mean if `periods` is `exponential` (`on-off`, required).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<Span>,
    /// Whether bursts and pauses have constant or exponentially distributed lengths (`on-off`).
    #[serde(default)]
    pub periods: Periods,
    /// Messages from one with `key_bytes` to the next, as the key frames of a video (`cbr`), 2 or more. The first message is one. `rate` is that
    /// of the other messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2))]
    pub key_every: Option<u32>,
    /// User data of the messages that `key_every` selects, 1 to 16 777 216 bytes. Required with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_777_216))]
    pub key_bytes: Option<u32>,
    /// Age at which the sender gives a message up (RFC 3758): its transmission does not begin any more, and nothing of it is retransmitted.
    /// `sctp` only. If a part of it has been sent, both ends must have `partial_reliability`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Span>,
    /// The sender gives a message up once a part of it would be retransmitted more often than this (RFC 7496 §3.1). `sctp` only, not with
    /// `lifetime`. Requires `partial_reliability`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmissions: Option<u32>,
    /// The sender gives a message up when its buffer has no room for one of a higher priority (RFC 7496 §3.2); 0 is the highest. `sctp` only,
    /// not with `lifetime` or `retransmissions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
    /// What the scheduler of the association uses for these streams: their priority, 0 being the highest, or their weight (`scheduler` of
    /// `sctp`). `sctp` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_value: Option<u16>,
    /// Age up to which a message is of use to the receiver: the metric `in_time`. Nothing is given up for it. Default: `lifetime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
}

impl Default for TrafficConfig {
    /// Endless messages of 1452 bytes: a packet of 1500 bytes with the IP, SCTP and DATA headers.
    fn default() -> Self {
        TrafficConfig {
            kind: TrafficKind::Endless,
            message_bytes: default_message_bytes(),
            message_sizes: MessageSizes::Constant,
            streams: default_streams(),
            unordered: false,
            rate: None,
            count: None,
            file: None,
            file_bytes: None,
            on: None,
            off: None,
            periods: Periods::Constant,
            key_every: None,
            key_bytes: None,
            lifetime: None,
            retransmissions: None,
            priority: None,
            stream_value: None,
            deadline: None,
        }
    }
}

fn is_constant(sizes: &MessageSizes) -> bool {
    *sizes == MessageSizes::Constant
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
    /// The bytes of a file. The receiver's copy is compared at the end.
    File,
    /// A number of messages, all available at the start.
    Messages,
    /// A constant bit rate.
    Cbr,
    /// Bursts of constant bit rate with pauses between them.
    OnOff,
    /// Messages at exponentially distributed intervals.
    Poisson,
}

impl TrafficKind {
    /// Returns the name used in scenario files.
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

/// Lengths of the bursts and pauses of on-off traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Periods {
    /// Always the given length.
    #[default]
    Constant,
    /// Exponentially distributed with the given mean.
    Exponential,
}

/// Lengths of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MessageSizes {
    /// Always the given length; the last message of a file may be shorter.
    #[default]
    Constant,
    /// Exponentially distributed with the given mean, in whole bytes, at least 1 byte and at most what the transport can carry: 65 507 bytes
    /// over `udp`, 16 777 216 bytes over `sctp`.
    Exponential,
}

impl TrafficConfig {
    /// Creates traffic of this kind with all other values at their defaults.
    pub fn of(kind: TrafficKind) -> Self {
        TrafficConfig {
            kind,
            ..TrafficConfig::default()
        }
    }

    /// Returns whether the traffic ends by itself.
    pub fn is_finite(&self) -> bool {
        self.count.is_some() || self.kind == TrafficKind::File
    }

    /// Returns when the sender gives a message up that it takes at its creation.
    pub(crate) fn reliability(&self) -> Reliability {
        match (self.lifetime, self.retransmissions, self.priority) {
            (Some(lifetime), ..) => Reliability::Lifetime(lifetime),
            (_, Some(most), _) => Reliability::Retransmissions(most),
            (.., Some(priority)) => Reliability::Priority(priority),
            (None, None, None) => Reliability::Full,
        }
    }

    /// Returns the age up to which a message is of use.
    pub(crate) fn useful_for(&self) -> Option<Span> {
        self.deadline.or(self.lifetime)
    }

    /// Returns the first of the fields that only an SCTP association has.
    pub(super) fn needs_sctp(&self) -> Option<&'static str> {
        let fields = [
            ("lifetime", self.lifetime.is_some()),
            ("retransmissions", self.retransmissions.is_some()),
            ("priority", self.priority.is_some()),
            ("stream_value", self.stream_value.is_some()),
        ];
        fields.into_iter().find_map(|(field, given)| given.then_some(field))
    }

    /// Checks every value.
    ///
    /// # Errors
    /// Returns an error for the first value that is not allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_pattern()?;
        self.validate_key()?;
        let limits = [
            ("lifetime", self.lifetime.is_some()),
            ("retransmissions", self.retransmissions.is_some()),
            ("priority", self.priority.is_some()),
        ];
        let mut given = limits.into_iter().filter_map(|(field, given)| given.then_some(field));
        if let (Some(first), Some(second)) = (given.next(), given.next()) {
            let error = ConfigError::new(second, "a value", format!("nothing beside {first}"));
            return Err(error.hint("a message has one rule by which it is given up"));
        }
        if self.deadline.is_some_and(Span::is_zero) {
            return Err(ConfigError::new("deadline", "0 s", "a time above 0 s"));
        }
        Ok(())
    }

    fn validate_key(&self) -> Result<(), ConfigError> {
        let Some(every) = self.key_every else {
            return match self.key_bytes {
                Some(bytes) => Err(ConfigError::new("key_bytes", bytes, "nothing without key_every")),
                None => Ok(()),
            };
        };
        if self.kind != TrafficKind::Cbr || self.message_sizes != MessageSizes::Constant {
            let allowed = "nothing, unless the traffic is cbr with messages of constant length";
            return Err(ConfigError::new("key_every", every, allowed));
        }
        if every < 2 {
            return Err(ConfigError::new("key_every", every, "2 messages or more"));
        }
        let bytes = self.key_bytes.unwrap_or(0);
        if !(1..=MOST_BYTES).contains(&bytes) {
            let error = ConfigError::new("key_bytes", bytes, format!("1 to {MOST_BYTES} bytes"));
            return Err(error.hint("key_every needs it"));
        }
        Ok(())
    }

    fn validate_pattern(&self) -> Result<(), ConfigError> {
        use TrafficKind::{Cbr, File, Messages, OnOff, Poisson};
        if !(1..=MOST_BYTES).contains(&self.message_bytes) {
            return Err(ConfigError::new(
                "message_bytes",
                self.message_bytes,
                format!("1 to {MOST_BYTES} bytes"),
            ));
        }
        if self.streams == 0 {
            return Err(ConfigError::new("streams", 0, "1 to 65535"));
        }
        let kind = self.kind.name();
        let needs = |given: bool, field: &str, what: &str, wanted: bool| match (given, wanted) {
            (false, true) => Err(ConfigError::new(field, "nothing", what).hint(format!("{kind} traffic needs it"))),
            (true, false) => Err(ConfigError::new(
                field,
                "a value",
                format!("nothing for {kind} traffic"),
            )),
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
            needs(self.message_sizes != MessageSizes::Constant, "message_sizes", "", false)?;
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
