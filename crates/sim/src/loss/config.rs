//! Loss models in a scenario.

use schemars::{JsonSchema, Schema, json_schema};
use serde::de::{self, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};
use whimbrel_control::Span;

use crate::config::{ConfigError, ShortForm, ShortOr, no_short_form, probability, short};

/// A loss model of a channel. It applies to packets after they left the queue: such a loss is never congestion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LossConfig {
    /// Each packet is lost with the same probability, independent of all others.
    Bernoulli {
        /// Probability that a packet is lost, 0 to 1.
        #[schemars(range(min = 0, max = 1))]
        rate: f64,
    },
    /// Each bit is wrong with the same probability; a packet with a wrong bit is lost. Long packets are lost more often.
    BitErrors {
        /// Bit error rate, 0 to 1; 1e-6 loses 1.2 % of 1500-byte packets.
        #[schemars(range(min = 0, max = 1))]
        rate: f64,
    },
    /// A channel that is good or bad for exponentially distributed times (continuous-time Markov chain). The loss probability
    /// depends on the state.
    Markov {
        /// Mean time in the good state, above 0 s.
        mean_good: Span,
        /// Mean time in the bad state, above 0 s.
        mean_bad: Span,
        /// Probability that a packet sent in the good state is lost, 0 to 1.
        #[serde(default)]
        #[schemars(range(min = 0, max = 1))]
        good_loss: f64,
        /// Probability that a packet sent in the bad state is lost, 0 to 1.
        #[serde(default = "certain")]
        #[schemars(range(min = 0, max = 1))]
        bad_loss: f64,
        /// Whether both directions of the link share the state. Otherwise each direction has its own.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[schemars(extend("default" = false))]
        shared: bool,
    },
    /// Losses in bursts with a mean rate and a mean length, in packets or in time.
    Bursts {
        /// Fraction of all packets (or of the time) that is lost, 0 or more and below 1. 0 loses nothing: the base line of a sweep.
        #[schemars(range(min = 0, max = 1))]
        rate: f64,
        /// Mean length of a burst in packets, 1 or more and at least rate / (1 - rate): a chain with one step per packet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        packets: Option<f64>,
        /// Mean length of a burst in time, above 0 s, instead of `packets`. All packets in a burst are lost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Span>,
        /// Whether both directions of the link share the bursts. Otherwise each direction has its own. Requires `time`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[schemars(extend("default" = false))]
        shared: bool,
    },
    /// A two-state chain with one step per packet (Gilbert and Elliott).
    GilbertElliott {
        /// Probability of a change from good to bad before a packet, 0 to 1.
        #[schemars(range(min = 0, max = 1))]
        good_to_bad: f64,
        /// Probability of a change from bad to good before a packet, 0 to 1. Its inverse is the mean burst length in packets.
        #[schemars(range(min = 0, max = 1))]
        bad_to_good: f64,
        /// Probability that a packet is lost in the good state, 0 to 1.
        #[serde(default)]
        #[schemars(range(min = 0, max = 1))]
        good_loss: f64,
        /// Probability that a packet is lost in the bad state, 0 to 1.
        #[serde(default = "certain")]
        #[schemars(range(min = 0, max = 1))]
        bad_loss: f64,
    },
    /// Errors at exponentially distributed intervals; each hits the packet that is in transmission.
    TimeBetweenErrors {
        /// Mean time between two errors, above 0 s.
        mean: Span,
    },
    /// Every n-th packet is lost.
    Periodic {
        /// The period in packets, 1 or more.
        #[schemars(range(min = 1))]
        every: u64,
        /// Number of packets before the first period starts, 0 or more.
        #[serde(default)]
        offset: u64,
    },
    /// The packets in this list are lost.
    List {
        /// Numbers of the packets on the link, in increasing order; the first packet sent is 1.
        packets: Vec<u64>,
    },
    /// Applies the inner model only to packets that contain a chunk of one of these types.
    ChunkType {
        /// Types of chunks, at least one.
        chunks: Vec<ChunkKind>,
        /// The model for these packets.
        #[serde(deserialize_with = "boxed")]
        #[schemars(with = "ShortOr<LossConfig>")]
        model: Box<LossConfig>,
    },
}

fn certain() -> f64 {
    1.0
}

fn boxed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<LossConfig>, D::Error> {
    short(deserializer).map(Box::new)
}

/// A table for each kind of losses.
const LOSSES: [(&str, &str); 9] = [
    ("bernoulli", r#"0.01 or { kind = "bernoulli", rate = 0.01 }"#),
    ("bit-errors", r#"{ kind = "bit-errors", rate = 1e-6 }"#),
    (
        "markov",
        r#"{ kind = "markov", mean_good = "2 s", mean_bad = "20 ms" }"#,
    ),
    ("bursts", r#"{ kind = "bursts", rate = 0.01, packets = 4 }"#),
    (
        "gilbert-elliott",
        r#"{ kind = "gilbert-elliott", good_to_bad = 0.01, bad_to_good = 0.25 }"#,
    ),
    (
        "time-between-errors",
        r#"{ kind = "time-between-errors", mean = "500 ms" }"#,
    ),
    ("periodic", r#"{ kind = "periodic", every = 100 }"#),
    ("list", r#"{ kind = "list", packets = [5, 6, 20] }"#),
    (
        "chunk-type",
        r#"{ kind = "chunk-type", chunks = ["sack"], model = 0.1 }"#,
    ),
];

impl ShortForm for LossConfig {
    const EXPECTED: &'static str = "a rate from 0 to 1, a table or a list of these; such as 0.01";

    fn from_number<E: de::Error>(rate: f64, _: Unexpected<'_>) -> Result<Self, E> {
        Ok(LossConfig::Bernoulli { rate })
    }

    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        let what = "a rate from 0 to 1, a table or a list of these";
        Err(no_short_form(text, what, &LOSSES, LOSSES[0].1))
    }

    fn short_schema() -> Schema {
        json_schema!({
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "description": "A number in place of the table: `0.01` is `{ kind = \"bernoulli\", rate = 0.01 }`."
        })
    }
}

/// A chunk type that a loss model can select.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChunkKind {
    /// DATA or I-DATA.
    Data,
    /// INIT.
    Init,
    /// INIT ACK.
    InitAck,
    /// SACK or NR-SACK.
    Sack,
    /// HEARTBEAT.
    Heartbeat,
    /// HEARTBEAT ACK.
    HeartbeatAck,
    /// ABORT.
    Abort,
    /// SHUTDOWN.
    Shutdown,
    /// SHUTDOWN ACK.
    ShutdownAck,
    /// ERROR.
    Error,
    /// COOKIE ECHO.
    CookieEcho,
    /// COOKIE ACK.
    CookieAck,
    /// ECNE.
    Ecne,
    /// CWR.
    Cwr,
    /// SHUTDOWN COMPLETE.
    ShutdownComplete,
    /// A datagram of a UDP flow.
    Udp,
}

impl LossConfig {
    /// Returns the two-state channel with this burst rate and length; with a rate of 0, a channel without losses.
    pub(crate) fn as_two_states(&self) -> Option<LossConfig> {
        let LossConfig::Bursts {
            rate,
            packets,
            time,
            shared,
        } = self
        else {
            return None;
        };
        // good_to_bad / (good_to_bad + bad_to_good) is the fraction of lost packets; the ratio of the mean durations of the states
        // follows.
        if *rate == 0.0 {
            return Some(LossConfig::Bernoulli { rate: 0.0 });
        }
        let good_over_bad = (1.0 - rate) / rate;
        Some(match (packets, time) {
            (_, Some(time)) => LossConfig::Markov {
                mean_good: Span::from_secs_f64(time.as_secs_f64() * good_over_bad),
                mean_bad: *time,
                good_loss: 0.0,
                bad_loss: 1.0,
                shared: *shared,
            },
            (packets, None) => LossConfig::GilbertElliott {
                good_to_bad: 1.0 / (packets.unwrap_or(1.0) * good_over_bad),
                bad_to_good: 1.0 / packets.unwrap_or(1.0),
                good_loss: 0.0,
                bad_loss: 1.0,
            },
        })
    }

    /// Checks every value.
    ///
    /// # Errors
    /// Returns an error for the first value that is not allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let positive = |path: &str, span: Span| {
            if span.is_zero() {
                Err(ConfigError::new(path, span, "a time above 0 s"))
            } else {
                Ok(())
            }
        };
        match self {
            LossConfig::Bernoulli { rate } | LossConfig::BitErrors { rate } => probability("rate", *rate),
            LossConfig::Markov {
                mean_good,
                mean_bad,
                good_loss,
                bad_loss,
                shared: _,
            } => {
                positive("mean_good", *mean_good)?;
                positive("mean_bad", *mean_bad)?;
                probability("good_loss", *good_loss)?;
                probability("bad_loss", *bad_loss)
            }
            LossConfig::GilbertElliott {
                good_to_bad,
                bad_to_good,
                good_loss,
                bad_loss,
            } => {
                probability("good_to_bad", *good_to_bad)?;
                probability("bad_to_good", *bad_to_good)?;
                probability("good_loss", *good_loss)?;
                probability("bad_loss", *bad_loss)
            }
            LossConfig::Bursts {
                rate,
                packets,
                time,
                shared,
            } => {
                if !(*rate >= 0.0 && *rate < 1.0) {
                    return Err(ConfigError::new("rate", rate, "0 or more and below 1"));
                }
                match (packets, time) {
                    (Some(_), Some(_)) | (None, None) => {
                        Err(ConfigError::new("packets", "nothing or both", "either packets or time"))
                    }
                    (Some(packets), None) => {
                        let least = (rate / (1.0 - rate)).max(1.0);
                        if !(*packets >= least && packets.is_finite()) {
                            return Err(ConfigError::new("packets", packets, format!("{least} packets or more")));
                        }
                        if *shared {
                            let error = ConfigError::new("shared", true, "false unless the length is a time");
                            return Err(error.hint("a chain per packet cannot be shared between directions"));
                        }
                        Ok(())
                    }
                    (None, Some(time)) => positive("time", *time),
                }
            }
            LossConfig::TimeBetweenErrors { mean } => positive("mean", *mean),
            LossConfig::Periodic { every: 0, .. } => Err(ConfigError::new("every", 0, "1 packet or more")),
            LossConfig::Periodic { .. } => Ok(()),
            LossConfig::List { packets } => match packets.iter().position(|&n| n == 0) {
                Some(i) => Err(ConfigError::new(format!("packets[{i}]"), 0, "1 or more").hint("the first packet is 1")),
                None => Ok(()),
            },
            LossConfig::ChunkType { chunks, model } => {
                if chunks.is_empty() {
                    return Err(ConfigError::new("chunks", "[]", "at least one type of chunk"));
                }
                model.validate().map_err(|e| e.within("model"))
            }
        }
    }
}
