//! Queues in a scenario.

use schemars::{JsonSchema, Schema, json_schema};
use serde::de::{self, Unexpected};
use serde::{Deserialize, Serialize};
use whimbrel_control::Span;

use crate::config::{ConfigError, ShortForm, no_short_form, probability};

/// The queue in front of a link's transmitter. The packet in transmission does not count as queued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum QueueConfig {
    /// First in, first out; packets are dropped when the queue is full. Both limits are allowed.
    DropTail {
        /// Queue limit in packets, 1 to 10 000 000. Default: 100 without `bytes`, otherwise none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 10_000_000))]
        packets: Option<u32>,
        /// Queue limit in bytes of IP packets, 1 or more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        bytes: Option<u64>,
    },
    /// Random early detection: drops packets, or marks ECN-capable ones, with a probability that grows with the average queue
    /// length.
    Red(RedConfig),
    /// Congestion warning: marks every packet while the average queue is above a threshold.
    CongestionWarning(CongestionWarningConfig),
    /// Marks every packet whose queueing delay will exceed a threshold: the simplest queue for L4S.
    Step(StepConfig),
    /// Controlled delay: drops or marks packets when the queueing delay has been too long for some time (RFC 8289).
    Codel(CodelConfig),
    /// A queue for each flow, served in turn, each with controlled delay (RFC 8290).
    FqCodel(FqCodelConfig),
    /// Two queues with coupled marking: L4S packets have a short delay, and both kinds of flows the same rate (RFC 9332).
    DualPi2(DualPi2Config),
}

/// Unit of a queue's average and thresholds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueueUnit {
    /// Packets.
    #[default]
    Packets,
    /// Bytes of IP packets.
    Bytes,
}

/// Treatment of ECN-capable packets while the average is above the maximum threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AboveMax {
    /// Mark, as Floyd and Jacobson and Ye did.
    #[default]
    Mark,
    /// Drop (RFC 3168 §7).
    Drop,
}

/// Random early detection (Floyd and Jacobson 1993), with Floyd's gentle slope, Ye's enhancement and Shishir's explicit congestion
/// indication as options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedConfig {
    /// Queue limit in packets, 1 to 10 000 000. At least one limit is required; both are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub packets: Option<u32>,
    /// Queue limit in bytes of IP packets, 1 or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
    /// Unit of the average and the thresholds. Default: `packets`.
    #[serde(default)]
    pub unit: QueueUnit,
    /// Minimum threshold of the average, in `unit`, above 0. Below it no packet is marked or dropped.
    pub min: f64,
    /// Maximum threshold of the average, in `unit`, above `min`. Above it every packet is marked or dropped.
    pub max: f64,
    /// Weight of a new sample in the average, above 0 and up to 1.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// Maximum marking probability, reached when the average is at `max`, before marks are spread evenly. Above 0 and up to 1.
    #[serde(default = "default_max_p")]
    pub max_p: f64,
    /// Whether the probability rises linearly from `max_p` at `max` to 1 at twice `max`, instead of jumping to 1 (Floyd 2000).
    #[serde(default)]
    pub gentle: bool,
    /// Whether the current queue must exceed the threshold as well as the average (Ye 2004, 4.6.3), because the average stays high
    /// for some time after the queue has drained.
    #[serde(default)]
    pub enhanced: bool,
    /// Whether the explicit congestion indication is set on every ECN-capable packet that enters while the average exceeds `min`
    /// (Shishir 2000, III.B).
    #[serde(default)]
    pub eci: bool,
    /// Length of the queue, in `unit`, up to which nothing is dropped or marked, whatever the average; 0 or more. ns-2 has 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(extend("default" = 0.0))]
    pub least: f64,
    /// Whether, at a constant probability p, 1/p to 2/p packets lie between two drops or marks instead of 1 to 1/p: `wait_` of ns-2,
    /// where it is the default.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub wait: bool,
    /// Whether ECN-capable packets are marked instead of dropped. Default: true.
    #[serde(default = "default_ecn")]
    pub ecn: bool,
    /// Treatment of ECN-capable packets while the average exceeds `max`.
    #[serde(default)]
    pub above_max: AboveMax,
    /// Size of a typical packet in bytes, 1 to 65535. While the queue is idle, the average decreases as if such packets had
    /// arrived. With `unit = "bytes"`, a packet of this size is marked with the full probability, smaller ones proportionally.
    #[serde(default = "default_typical_packet")]
    #[schemars(range(min = 1, max = 65_535))]
    pub typical_packet: u32,
}

impl RedConfig {
    /// Creates RED with these thresholds and this limit in packets, and default values otherwise.
    pub fn new(packets: u32, min: f64, max: f64) -> Self {
        RedConfig {
            packets: Some(packets),
            bytes: None,
            unit: QueueUnit::default(),
            min,
            max,
            weight: default_weight(),
            max_p: default_max_p(),
            gentle: false,
            enhanced: false,
            eci: false,
            least: 0.0,
            wait: false,
            ecn: default_ecn(),
            above_max: AboveMax::default(),
            typical_packet: default_typical_packet(),
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        limits(self.packets, self.bytes, "red")?;
        threshold("min", self.min)?;
        if !(self.max.is_finite() && self.max > self.min) {
            return Err(ConfigError::new(
                "max",
                self.max,
                format!("more than min, which is {}", self.min),
            ));
        }
        if !(self.least.is_finite() && self.least >= 0.0) {
            return Err(ConfigError::new("least", self.least, "a length of 0 or more"));
        }
        weight(self.weight)?;
        probability("max_p", self.max_p)?;
        if self.max_p == 0.0 {
            return Err(ConfigError::new("max_p", 0, "a probability above 0"));
        }
        typical_packet(self.typical_packet)
    }
}

/// Congestion warning (Xu, Tian and Ansari 2004, TCP Jersey): every packet is marked while the average exceeds a threshold, so that
/// every arriving packet informs the receiver. Packets are dropped when the queue is full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CongestionWarningConfig {
    /// Queue limit in packets, 1 to 10 000 000. At least one limit is required; both are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub packets: Option<u32>,
    /// Queue limit in bytes of IP packets, 1 or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
    /// Unit of the average and the threshold. Default: `packets`.
    #[serde(default)]
    pub unit: QueueUnit,
    /// Threshold of the average, in `unit`, above 0.
    pub threshold: f64,
    /// Weight of a new sample in the average, above 0 and up to 1.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// The mark that packets get.
    #[serde(default)]
    pub mark: WarningMark,
    /// Size of a typical packet in bytes, 1 to 65535. While the queue is idle, the average decreases as if such packets had
    /// arrived.
    #[serde(default = "default_typical_packet")]
    #[schemars(range(min = 1, max = 65_535))]
    pub typical_packet: u32,
}

/// A step marker (RFC 9331, RFC 9332): marks a packet if its queueing delay will exceed the threshold. Packets are dropped when the
/// queue is full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepConfig {
    /// Queue limit in packets, 1 to 10 000 000. Default: 100 without `bytes`, otherwise none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub packets: Option<u32>,
    /// Queue limit in bytes of IP packets, 1 or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
    /// Longest queueing delay without a mark. Default: 1 ms.
    #[serde(default = "default_step")]
    pub threshold: Span,
    /// Whether ECT(0) packets are marked as well as ECT(1) packets. L4S queues mark only ECT(1). Default: true.
    #[serde(default = "default_ecn")]
    pub classic: bool,
}

/// Controlled delay (CoDel).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodelConfig {
    /// Queue limit in packets, 1 to 10 000 000. Default: 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub packets: Option<u32>,
    /// Queue limit in bytes of IP packets, 1 or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
    /// Accepted standing delay, above 0 s. Default: 5 ms. On a slow link at least the transmission time of a packet.
    pub target: Span,
    /// Time for which the delay may exceed `target`, longer than `target`: about the largest round-trip time. Default: 100 ms.
    pub interval: Span,
    /// Whether ECN-capable packets are marked instead of dropped. Default: true.
    pub ecn: bool,
    /// Nothing is dropped while at most this number of bytes is queued, 1 to 65535. Default: 1500.
    #[schemars(range(min = 1, max = 65_535))]
    pub largest_packet: u32,
}

impl Default for CodelConfig {
    fn default() -> Self {
        CodelConfig {
            packets: None,
            bytes: None,
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            ecn: true,
            largest_packet: 1500,
        }
    }
}

impl CodelConfig {
    fn validate(&self, kind: &str) -> Result<(), ConfigError> {
        limits(self.packets.or(Some(1)), self.bytes, kind)?;
        if self.target.is_zero() {
            return Err(ConfigError::new("target", self.target, "a time above 0 s"));
        }
        if self.interval <= self.target {
            return Err(ConfigError::new(
                "interval",
                self.interval,
                format!("longer than target, which is {}", self.target),
            ));
        }
        if !(1..=65_535).contains(&self.largest_packet) {
            return Err(ConfigError::new(
                "largest_packet",
                self.largest_packet,
                "1 to 65535 bytes",
            ));
        }
        Ok(())
    }
}

/// A queue for each flow, served in turn by bytes; each has controlled delay. When the limit is reached, the longest queue loses
/// its oldest packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FqCodelConfig {
    /// Queue limit in packets, 1 to 10 000 000. Default: 10 240.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub packets: Option<u32>,
    /// Queue limit in bytes of IP packets, 1 or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
    /// Accepted standing delay, above 0 s. Default: 5 ms. On a slow link at least the transmission time of a packet.
    pub target: Span,
    /// Time for which the delay may exceed `target`, longer than `target`: about the largest round-trip time. Default: 100 ms.
    pub interval: Span,
    /// Whether ECN-capable packets are marked instead of dropped. Default: true.
    pub ecn: bool,
    /// Nothing is dropped while at most this number of bytes is queued, 1 to 65535. Default: 1500.
    #[schemars(range(min = 1, max = 65_535))]
    pub largest_packet: u32,
    /// Bytes that a flow may send per turn, 1 to 65535. Default: 1514.
    #[schemars(range(min = 1, max = 65_535))]
    pub quantum: u32,
    /// Number of queues that flows are hashed to, 1 to 65536. Default: 1024.
    #[schemars(range(min = 1, max = 65_536))]
    pub queues: u32,
}

impl FqCodelConfig {
    /// Returns the limits and the rule of each queue.
    pub(crate) fn codel(&self) -> CodelConfig {
        CodelConfig {
            packets: self.packets,
            bytes: self.bytes,
            target: self.target,
            interval: self.interval,
            ecn: self.ecn,
            largest_packet: self.largest_packet,
        }
    }
}

impl Default for FqCodelConfig {
    fn default() -> Self {
        let CodelConfig {
            packets,
            bytes,
            target,
            interval,
            ecn,
            largest_packet,
        } = CodelConfig::default();
        FqCodelConfig {
            packets,
            bytes,
            target,
            interval,
            ecn,
            largest_packet,
            quantum: 1514,
            queues: 1024,
        }
    }
}

/// Two coupled queues (RFC 9332, appendix A): packets with ECT(1) or CE enter the low-latency queue, others the classic queue. A
/// controller computes a base probability from the longer delay of both. Classic packets are marked (ECT(0)) or dropped with its square,
/// L4S packets marked with its multiple. If that multiple reaches 1, packets of both queues are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DualPi2Config {
    /// Limit of both queues together in packets, 1 to 10 000 000. Default: 10 000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub packets: Option<u32>,
    /// Limit of both queues together in bytes of IP packets, 1 or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
    /// Delay of the classic queue that the controller aims at, above 0 s. Default: 15 ms.
    pub target: Span,
    /// Time between two updates of the base probability, 100 us to 1 s. Default: 16 ms.
    pub update: Span,
    /// Gain of the difference between delay and target, per second of it, 0 to 100. Default: 0.16.
    pub alpha: f64,
    /// Gain of the change of the delay since the last update, per second of it, 0 to 100. Default: 3.2.
    pub beta: f64,
    /// Coupling factor k: L4S packets are marked with k times the base probability, 1 to 16. Default: 2, the same rate at the same
    /// round-trip time.
    pub coupling: f64,
    /// Delay of an L4S packet above which it is marked whatever the base probability. Default: 1 ms.
    pub threshold: Span,
    /// The probability of these marks rises linearly to 1 over this range of the delay; 0 s is a step. Default: 0 s. RFC 9332 has a
    /// ramp: `threshold` 800 us, `range` 400 us.
    pub range: Span,
    /// Share of the capacity that the classic queue has while both queues are filled, 0.01 to 0.5. Default: 0.1.
    pub classic_share: f64,
}

impl DualPi2Config {
    fn validate(&self) -> Result<(), ConfigError> {
        limits(self.packets.or(Some(1)), self.bytes, "dual-pi2")?;
        if self.target.is_zero() {
            return Err(ConfigError::new("target", self.target, "a time above 0 s"));
        }
        if !(Span::from_micros(100)..=Span::from_secs(1)).contains(&self.update) {
            return Err(ConfigError::new("update", self.update, "100 us to 1 s"));
        }
        for (field, value, low, high) in [
            ("alpha", self.alpha, 0.0, 100.0),
            ("beta", self.beta, 0.0, 100.0),
            ("coupling", self.coupling, 1.0, 16.0),
            ("classic_share", self.classic_share, 0.01, 0.5),
        ] {
            if !(low..=high).contains(&value) {
                return Err(ConfigError::new(field, value, format!("{low} to {high}")));
            }
        }
        Ok(())
    }
}

impl Default for DualPi2Config {
    /// Returns the values of Linux.
    fn default() -> Self {
        DualPi2Config {
            packets: None,
            bytes: None,
            target: Span::from_millis(15),
            update: Span::from_millis(16),
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            threshold: default_step(),
            range: Span::ZERO,
            classic_share: 0.1,
        }
    }
}

fn default_step() -> Span {
    Span::from_millis(1)
}

/// The mark of a congestion warning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WarningMark {
    /// CE in the ECN bits of ECN-capable packets: any ECN receiver understands it.
    #[default]
    Ce,
    /// A separate bit that any packet can carry; the ECN bits do not change.
    Cw,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn default_weight() -> f64 {
    0.002
}

fn default_max_p() -> f64 {
    0.1
}

fn default_ecn() -> bool {
    true
}

fn default_typical_packet() -> u32 {
    1500
}

impl Default for QueueConfig {
    /// Drop-tail with room for 100 packets.
    fn default() -> Self {
        QueueConfig::DropTail {
            packets: Some(DEFAULT_PACKETS),
            bytes: None,
        }
    }
}

/// Limit of `drop-tail` and `step` without a given one, in packets.
const DEFAULT_PACKETS: u32 = 100;

/// A table for each kind of queue that has required fields.
const REQUIRING: [(&str, &str); 2] = [
    ("red", r#"{ kind = "red", packets = 100, min = 5, max = 15 }"#),
    (
        "congestion-warning",
        r#"{ kind = "congestion-warning", packets = 100, threshold = 10 }"#,
    ),
];

/// All kinds of queues.
const KINDS: [&str; 7] = [
    "drop-tail",
    "step",
    "codel",
    "fq-codel",
    "dual-pi2",
    "red",
    "congestion-warning",
];

impl ShortForm for QueueConfig {
    const EXPECTED: &'static str = "a name or a table; such as \"codel\"";

    fn from_number<E: de::Error>(number: f64, given: Unexpected<'_>) -> Result<Self, E> {
        let packets = if (1.0..=1e7).contains(&number) {
            number.trunc()
        } else {
            100.0
        };
        let expected = format!("a name or a table; such as {{ kind = \"drop-tail\", packets = {packets} }}");
        Err(E::invalid_type(given, &expected.as_str()))
    }

    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(match text {
            "drop-tail" => QueueConfig::default(),
            "step" => QueueConfig::Step(StepConfig::default()),
            "codel" => QueueConfig::Codel(CodelConfig::default()),
            "fq-codel" => QueueConfig::FqCodel(FqCodelConfig::default()),
            "dual-pi2" => QueueConfig::DualPi2(DualPi2Config::default()),
            _ if REQUIRING.iter().any(|(kind, _)| *kind == text) => {
                return Err(no_short_form(text, "a table with its thresholds", &REQUIRING, ""));
            }
            _ => return Err(E::unknown_variant(text, &KINDS)),
        })
    }

    /// Limits the queue if it has no limit.
    fn completed(mut self) -> Self {
        if let QueueConfig::DropTail { packets, bytes: None }
        | QueueConfig::Step(StepConfig {
            packets, bytes: None, ..
        }) = &mut self
        {
            packets.get_or_insert(DEFAULT_PACKETS);
        }
        self
    }

    fn short_schema() -> Schema {
        let names = KINDS.map(|kind| (kind, REQUIRING.iter().any(|(other, _)| *other == kind)));
        let names: Vec<_> = names
            .iter()
            .filter(|(_, requires)| !requires)
            .map(|(kind, _)| kind)
            .collect();
        json_schema!({
            "type": "string",
            "enum": names,
            "description": "A name in place of the table: `\"codel\"` is `{ kind = \"codel\" }`, with the default of every field."
        })
    }
}

impl Default for StepConfig {
    /// Marks packets that will wait for more than 1 ms; room for 100 packets.
    fn default() -> Self {
        StepConfig {
            packets: Some(DEFAULT_PACKETS),
            bytes: None,
            threshold: default_step(),
            classic: default_ecn(),
        }
    }
}

impl QueueConfig {
    /// Returns the queue limits in packets and in bytes.
    pub fn limits(&self) -> (Option<u32>, Option<u64>) {
        match self {
            QueueConfig::DropTail { packets, bytes }
            | QueueConfig::Red(RedConfig { packets, bytes, .. })
            | QueueConfig::CongestionWarning(CongestionWarningConfig { packets, bytes, .. })
            | QueueConfig::Step(StepConfig { packets, bytes, .. }) => (*packets, *bytes),
            QueueConfig::Codel(codel) => default_limit(codel.packets, codel.bytes, 1000),
            QueueConfig::FqCodel(fq) => default_limit(fq.packets, fq.bytes, 10_240),
            QueueConfig::DualPi2(dual) => default_limit(dual.packets, dual.bytes, 10_000),
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// Returns an error for the first value that is not allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            QueueConfig::DropTail { packets, bytes } => limits(*packets, *bytes, "drop-tail"),
            QueueConfig::Red(red) => red.validate(),
            QueueConfig::CongestionWarning(warning) => {
                limits(warning.packets, warning.bytes, "congestion-warning")?;
                threshold("threshold", warning.threshold)?;
                weight(warning.weight)?;
                typical_packet(warning.typical_packet)
            }
            QueueConfig::Step(step) => limits(step.packets, step.bytes, "step"),
            QueueConfig::Codel(codel) => codel.validate("codel"),
            QueueConfig::DualPi2(dual) => dual.validate(),
            QueueConfig::FqCodel(fq) => {
                if !(1..=65_535).contains(&fq.quantum) {
                    return Err(ConfigError::new("quantum", fq.quantum, "1 to 65535 bytes"));
                }
                if !(1..=65_536).contains(&fq.queues) {
                    return Err(ConfigError::new("queues", fq.queues, "1 to 65536 queues"));
                }
                fq.codel().validate("fq-codel")
            }
        }
    }
}

/// Returns the given limits, or a limit of `default` packets.
fn default_limit(packets: Option<u32>, bytes: Option<u64>, default: u32) -> (Option<u32>, Option<u64>) {
    let unlimited = packets.is_none() && bytes.is_none();
    (packets.or(unlimited.then_some(default)), bytes)
}

fn limits(packets: Option<u32>, bytes: Option<u64>, kind: &str) -> Result<(), ConfigError> {
    if let Some(n) = packets.filter(|n| !(1..=10_000_000).contains(n)) {
        return Err(ConfigError::new("packets", n, "1 to 10000000 packets"));
    }
    if bytes == Some(0) {
        return Err(ConfigError::new("bytes", 0, "1 byte or more"));
    }
    if packets.is_none() && bytes.is_none() {
        return Err(ConfigError::new(
            "",
            format!("{{ kind = \"{kind}\" }}"),
            "a limit in packets, in bytes, or both",
        )
        .hint("packets = 100"));
    }
    Ok(())
}

fn threshold(field: &str, value: f64) -> Result<(), ConfigError> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(ConfigError::new(field, value, "a number above 0"))
    }
}

fn weight(value: f64) -> Result<(), ConfigError> {
    if value > 0.0 && value <= 1.0 {
        Ok(())
    } else {
        Err(ConfigError::new("weight", value, "a number above 0 and up to 1"))
    }
}

fn typical_packet(value: u32) -> Result<(), ConfigError> {
    if (1..=65_535).contains(&value) {
        Ok(())
    } else {
        Err(ConfigError::new("typical_packet", value, "1 to 65535 bytes"))
    }
}
