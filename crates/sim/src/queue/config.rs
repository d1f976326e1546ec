//! Queues as they are written in a scenario.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whimbrel_control::Span;

use crate::config::{ConfigError, probability};

/// The queue in front of a link's transmitter. The packet being transmitted no longer counts as queued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum QueueConfig {
    /// First in, first out; a packet that finds no room is dropped. At least one of the limits is given; both may be.
    DropTail {
        /// The most packets that may wait, 1 to 10 000 000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 10_000_000))]
        packets: Option<u32>,
        /// The most bytes (of IP packets) that may wait, 1 or more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        bytes: Option<u64>,
    },
    /// Random early detection: drops packets, or marks those that are ECN-capable, the more often the longer the queue is on
    /// average.
    Red(RedConfig),
    /// Congestion warning: marks every packet while the queue is long on average.
    CongestionWarning(CongestionWarningConfig),
    /// Marks every packet that will wait for more than a threshold: what L4S asks of a queue in its simplest form.
    Step(StepConfig),
    /// Controlled delay: drops, or marks, when packets have waited too long for some time (RFC 8289).
    Codel(CodelConfig),
    /// A queue for each flow, served in turn, each with controlled delay (RFC 8290).
    FqCodel(FqCodelConfig),
}

/// What a queue's average and thresholds count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueueUnit {
    /// Packets.
    #[default]
    Packets,
    /// Bytes of IP packets.
    Bytes,
}

/// What RED does to an ECN-capable packet while the average is above the maximum threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AboveMax {
    /// Marks it, as Floyd and Jacobson did and Ye did.
    #[default]
    Mark,
    /// Drops it (RFC 3168 §7).
    Drop,
}

/// Random early detection (Floyd and Jacobson 1993), with Floyd's gentle slope, Ye's enhancement and Shishir's explicit congestion
/// indication as options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedConfig {
    /// The most packets that may wait, 1 to 10 000 000. At least one of the limits is given; both may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub packets: Option<u32>,
    /// The most bytes (of IP packets) that may wait, 1 or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
    /// What the average and the thresholds count; `packets` by default.
    #[serde(default)]
    pub unit: QueueUnit,
    /// Minimum threshold of the average: below it nothing happens. Above 0.
    pub min: f64,
    /// Maximum threshold of the average: above it every packet is marked or dropped. More than `min`.
    pub max: f64,
    /// Weight of the queue at each arrival in its average, above 0 and up to 1.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// Probability of marking as the average reaches `max`, before marks are spread evenly. Above 0 and up to 1.
    #[serde(default = "default_max_p")]
    pub max_p: f64,
    /// Above `max` the probability goes on rising, from `max_p` to 1 at twice `max`, instead of being 1 at once (Floyd 2000).
    #[serde(default)]
    pub gentle: bool,
    /// The queue itself must exceed the threshold as well as its average (Ye 2004, 4.6.3), since the average stays high for some
    /// time after the queue has gone down.
    #[serde(default)]
    pub enhanced: bool,
    /// Sets the explicit congestion indication on each ECN-capable packet that it lets pass while the average exceeds `min`
    /// (Shishir 2000, III.B).
    #[serde(default)]
    pub eci: bool,
    /// Whether ECN-capable packets are marked instead of dropped; true by default.
    #[serde(default = "default_ecn")]
    pub ecn: bool,
    /// What becomes of ECN-capable packets while the average exceeds `max`.
    #[serde(default)]
    pub above_max: AboveMax,
    /// Size of a typical packet in bytes, 1 to 65535: in idle time the average falls as if such packets had found the queue empty,
    /// and with `unit = "bytes"` it is what is marked with the full probability, smaller ones in proportion.
    #[serde(default = "default_typical_packet")]
    #[schemars(range(min = 1, max = 65_535))]
    pub typical_packet: u32,
}

impl RedConfig {
    /// RED with these thresholds in packets and room for so many, and the defaults for everything else.
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
        weight(self.weight)?;
        probability("max_p", self.max_p)?;
        if self.max_p == 0.0 {
            return Err(ConfigError::new("max_p", 0, "a probability above 0"));
        }
        typical_packet(self.typical_packet)
    }
}

/// Congestion warning (Xu, Tian and Ansari 2004, TCP Jersey): every packet is marked while the average exceeds a threshold, so that
/// the receiver of any packet knows; a packet that finds no room is dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CongestionWarningConfig {
    /// The most packets that may wait, 1 to 10 000 000. At least one of the limits is given; both may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub packets: Option<u32>,
    /// The most bytes (of IP packets) that may wait, 1 or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
    /// What the average and the threshold count; `packets` by default.
    #[serde(default)]
    pub unit: QueueUnit,
    /// Threshold of the average, above 0.
    pub threshold: f64,
    /// Weight of the queue at each arrival in its average, above 0 and up to 1.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// The mark.
    #[serde(default)]
    pub mark: WarningMark,
    /// Size of a typical packet in bytes, 1 to 65535: in idle time the average falls as if such packets had found the queue empty.
    #[serde(default = "default_typical_packet")]
    #[schemars(range(min = 1, max = 65_535))]
    pub typical_packet: u32,
}

/// A step marker (RFC 9331, RFC 9332): a packet is marked if it will wait for longer than the threshold; one that finds no room is
/// dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepConfig {
    /// The most packets that may wait, 1 to 10 000 000. At least one of the limits is given; both may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub packets: Option<u32>,
    /// The most bytes (of IP packets) that may wait, 1 or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
    /// The longest time to wait without a mark; 1 ms by default.
    #[serde(default = "default_step")]
    pub threshold: Span,
    /// Whether packets sent as ECT(0) are marked as well as those sent as ECT(1); true by default. L4S queues mark ECT(1) alone.
    #[serde(default = "default_ecn")]
    pub classic: bool,
}

/// Controlled delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodelConfig {
    /// The most packets that may wait, 1 to 10 000 000; 1000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub packets: Option<u32>,
    /// The most bytes (of IP packets) that may wait, 1 or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
    /// The standing delay that is accepted, above 0 s; 5 ms by default. On a slow link at least the time that a packet takes.
    pub target: Span,
    /// For how long it may be exceeded, above `target`: about the largest round-trip time. 100 ms by default.
    pub interval: Span,
    /// Whether ECN-capable packets are marked instead of dropped; true by default.
    pub ecn: bool,
    /// With no more than so many bytes left nothing is dropped, 1 to 65535; 1500 by default.
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

/// A queue for each flow, served in turn by bytes; each has controlled delay, and when there is no room the longest loses its oldest
/// packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FqCodelConfig {
    /// The most packets that may wait, 1 to 10 000 000; 10 240 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub packets: Option<u32>,
    /// The most bytes (of IP packets) that may wait, 1 or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
    /// The standing delay that is accepted, above 0 s; 5 ms by default. On a slow link at least the time that a packet takes.
    pub target: Span,
    /// For how long it may be exceeded, above `target`: about the largest round-trip time. 100 ms by default.
    pub interval: Span,
    /// Whether ECN-capable packets are marked instead of dropped; true by default.
    pub ecn: bool,
    /// With no more than so many bytes left nothing is dropped, 1 to 65535; 1500 by default.
    #[schemars(range(min = 1, max = 65_535))]
    pub largest_packet: u32,
    /// Bytes that a flow may send in its turn, 1 to 65535; 1514 by default.
    #[schemars(range(min = 1, max = 65_535))]
    pub quantum: u32,
    /// Queues that flows are spread over, 1 to 65536; 1024 by default.
    #[schemars(range(min = 1, max = 65_536))]
    pub queues: u32,
}

impl FqCodelConfig {
    /// The limits and the rule of each queue.
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

fn default_step() -> Span {
    Span::from_millis(1)
}

/// How a congestion warning is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WarningMark {
    /// By the ECN bits of ECN-capable packets: whoever speaks ECN understands it.
    #[default]
    Ce,
    /// By a bit of its own, which any packet can have and which leaves the ECN bits alone.
    Cw,
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
            packets: Some(100),
            bytes: None,
        }
    }
}

impl QueueConfig {
    /// The most packets and bytes that may wait.
    pub fn limits(&self) -> (Option<u32>, Option<u64>) {
        match self {
            QueueConfig::DropTail { packets, bytes }
            | QueueConfig::Red(RedConfig { packets, bytes, .. })
            | QueueConfig::CongestionWarning(CongestionWarningConfig { packets, bytes, .. })
            | QueueConfig::Step(StepConfig { packets, bytes, .. }) => (*packets, *bytes),
            QueueConfig::Codel(codel) => codel_limits(codel, 1000),
            QueueConfig::FqCodel(fq) => codel_limits(&fq.codel(), 10_240),
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that cannot be.
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

/// The limits given, or room for so many packets.
fn codel_limits(codel: &CodelConfig, packets: u32) -> (Option<u32>, Option<u64>) {
    let unlimited = codel.packets.is_none() && codel.bytes.is_none();
    (codel.packets.or(unlimited.then_some(packets)), codel.bytes)
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
