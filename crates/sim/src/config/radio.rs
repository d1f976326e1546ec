//! Radio channels and radios in a scenario.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whimbrel_control::Span;

use super::routing::hour;
use super::{ChannelRouting, ConfigError, LossConfig, PhyKind, PropagationConfig, probability};

/// Largest number of radios in one network.
pub const MAX_RADIOS: usize = 32_768;

/// Largest number of addresses of a radio.
pub const MAX_ADDRESSES: u8 = 4;

/// A medium that several radios share: radios in range receive each transmission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChannelConfig {
    /// Name of the channel; radios refer to it.
    pub name: String,
    /// Modulation and rate of data frames.
    #[serde(default)]
    pub phy: PhyKind,
    /// Propagation model: received power as a function of distance.
    #[serde(default)]
    pub propagation: PropagationConfig,
    /// How frames that overlap at a receiver corrupt each other.
    #[serde(default)]
    pub interference: Interference,
    /// Transmit power of each radio in watts, 1e-9 to 1e6. Default: 0.281 838 15 W (24.5 dBm).
    #[serde(default = "default_power")]
    #[schemars(range(min = 0))]
    pub power: f64,
    /// Distance in metres up to which frames can be decoded, 0.1 to 1e6. Default: 250 m. It sets the receive threshold to the mean
    /// power at that distance.
    #[serde(default = "default_range")]
    #[schemars(range(min = 0))]
    pub range: f64,
    /// Distance in metres up to which a transmission makes the medium busy, `range` to 1e6. Default: 2.2 times `range`. It sets
    /// the carrier-sense threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub sense_range: Option<f64>,
    /// Ratio by which a frame must be stronger than another signal to be received, 0 to 100 dB (`threshold`). Default: 10 dB.
    #[serde(default = "default_capture")]
    #[schemars(range(min = 0, max = 100))]
    pub capture_db: f64,
    /// Sum of thermal noise and receiver noise, -200 to 0 dBm (`sinr`). Default: -93 dBm.
    #[serde(default = "default_noise")]
    #[schemars(range(min = -200, max = 0))]
    pub noise_dbm: f64,
    /// Whether bit errors corrupt frames, with a probability that depends on the signal to interference and noise ratio (`sinr`).
    /// Otherwise a frame is lost if the ratio falls below what the modulation requires at any time, and only then. Default: false.
    #[serde(default)]
    pub bit_errors: bool,
    /// Probability that a frame is lost although nothing else corrupts it, 0 to 1.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub frame_loss: f64,
    /// Additional losses in bursts. Each receiver has its own channel state, good or bad, which changes with time (`markov`, `bursts`
    /// with `time`) or with each received frame (`gilbert-elliott`, `bursts` with `packets`). Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<LossConfig>,
    /// Frames longer than this many bytes, including MAC header and checksum, use RTS and CTS, 0 to 65535. Default: 2347, which
    /// disables RTS.
    #[serde(default = "default_rts_threshold")]
    #[schemars(range(min = 0, max = 65_535))]
    pub rts_threshold: u32,
    /// Attempts to send an RTS or a frame without RTS, 1 to 255. Default: 7.
    #[serde(default = "default_short_retries")]
    #[schemars(range(min = 1, max = 255))]
    pub short_retry_limit: u8,
    /// Attempts to send an RTS, if different from `short_retry_limit`, 1 to 255. Default: `short_retry_limit`, as in IEEE 802.11.
    /// Some simulators allow an RTS only as many attempts as the frame that follows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub rts_retry_limit: Option<u8>,
    /// Attempts to send a frame after RTS and CTS, 1 to 255. Default: 4.
    #[serde(default = "default_long_retries")]
    #[schemars(range(min = 1, max = 255))]
    pub long_retry_limit: u8,
    /// Contention window of a first attempt in slots, 0 to 65535. Default: that of the physical layer (31 for DSSS and 802.11b, 15 for the
    /// others).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65_535))]
    pub cw_min: Option<u32>,
    /// Largest contention window in slots, `cw_min` to 65535. Each failed attempt doubles the window plus one. Default: 1023, or `cw_min` if
    /// that is larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65_535))]
    pub cw_max: Option<u32>,
    /// Whether a station that received an RTS or a CTS answers it only if it senses no other signal, nor has sensed one for EIFS, as in
    /// ns-2. Default: false. IEEE 802.11 makes the CTS depend on the network allocation vector alone.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub answer_if_idle: bool,
    /// Whether every rate above 1 Mbit/s of DSSS and 802.11b uses the short preamble (96 instead of 192 us).
    #[serde(default)]
    pub short_preamble: bool,
    /// Bytes of the headers between IP and MAC, 0 to 64. Default: 8 (LLC and SNAP).
    #[serde(default = "default_llc_bytes")]
    #[schemars(range(min = 0, max = 64))]
    pub llc_bytes: u32,
    /// Queue limit of each radio in packets, 1 to 100 000. Default: 50.
    #[serde(default = "default_queue")]
    #[schemars(range(min = 1, max = 100_000))]
    pub queue: u32,
    /// Largest IP packet in bytes, 68 to 2304. Longer packets are reported to their source, or cut into fragments, as on a link.
    #[serde(default = "default_mtu")]
    #[schemars(range(min = 68, max = 2304))]
    pub mtu: u32,
    /// Whether a radio resolves a neighbour's address (ARP) before its first packet to it. One packet waits for the reply; a later
    /// packet replaces it and triggers another request. ARP messages count as routing messages.
    #[serde(default)]
    pub arp: bool,
    /// Minimum time between two ARP requests for the same neighbour, 0 s to 1 h. Default: 0 s, so that each packet triggers a
    /// request, as in ns-2. RFC 1122 2.3.2.1 recommends at most one per second.
    #[serde(default)]
    pub arp_interval: Span,
    /// Time after which an ARP entry expires unless it is refreshed, 0 s to 1 h. Default: 0 s, which means never, as in ns-2. RFC
    /// 1122 2.3.2.1 requires a timeout, in the order of a minute.
    #[serde(default)]
    pub arp_timeout: Span,
    /// Routing between the radios of the channel.
    #[serde(default)]
    pub routing: ChannelRouting,
    /// Power that each radio draws.
    #[serde(default)]
    pub energy: EnergyConfig,
}

fn default_power() -> f64 {
    0.281_838_15
}

fn default_range() -> f64 {
    250.0
}

fn default_capture() -> f64 {
    10.0
}

fn default_noise() -> f64 {
    -93.0
}

fn default_rts_threshold() -> u32 {
    2347
}

fn default_short_retries() -> u8 {
    7
}

fn default_long_retries() -> u8 {
    4
}

fn default_llc_bytes() -> u32 {
    8
}

fn default_queue() -> u32 {
    50
}

fn default_mtu() -> u32 {
    1500
}

/// How frames that overlap at a receiver corrupt each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interference {
    /// As in ns-2: a frame is corrupted by every other signal above the carrier-sense threshold unless the frame is stronger by
    /// `capture_db`.
    #[default]
    Threshold,
    /// The ratio of the frame's power to noise plus all other signals must never fall below what the modulation requires.
    Sinr,
}

/// Power that a radio draws in each state, in watts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnergyConfig {
    /// Power while transmitting in watts, 0 or more.
    #[schemars(range(min = 0))]
    pub transmit: f64,
    /// Power while receiving in watts, 0 or more.
    #[schemars(range(min = 0))]
    pub receive: f64,
    /// Power while neither transmitting nor receiving in watts, 0 or more.
    #[schemars(range(min = 0))]
    pub idle: f64,
}

impl Default for EnergyConfig {
    /// In the order of Feeney and Nilsson's measurements of a 2 Mbit/s card: listening costs almost as much as receiving.
    fn default() -> Self {
        EnergyConfig {
            transmit: 1.65,
            receive: 1.4,
            idle: 1.15,
        }
    }
}

/// A node's interface to a channel. It has its own address, like each end of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RadioConfig {
    /// The radio's name, which flows use in `from_links` and `to_links`. Default: the names of its node and its channel with a dash
    /// between them. In a scenario file, `*` stands for the node's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the radio's node, which needs a `position`. In a scenario file, `n*` creates a radio for each node whose name matches.
    pub node: String,
    /// Name of the radio's channel.
    pub channel: String,
    /// Number of addresses, 1 to 4. Default: 1. More than one requires `routing = "dsr"`: packets between the second addresses use
    /// a route that is node-disjoint from the route between the first addresses, if DSR knows one, and so on.
    #[serde(default = "default_addresses", skip_serializing_if = "is_default_addresses")]
    #[schemars(range(min = 1, max = 4), extend("default" = 1))]
    pub addresses: u8,
    /// Infrastructure mode: the radio of the access point with which this radio is associated at the start. All packets pass
    /// through the access point, including those between two of its stations. Default: none, which is ad hoc mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_point: Option<String>,
    /// Hand-offs to other access points, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handoff: Vec<HandoffConfig>,
}

/// A hand-off: a station leaves its access point, has no link for a time, and joins another access point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandoffConfig {
    /// Time since the start of the run at which the station leaves its access point.
    pub at: Span,
    /// Name of the radio of the new access point, which may be on another channel.
    pub to: String,
    /// Duration of the hand-off, in which the station neither receives nor sends (scan, authentication, association). Default: 50
    /// ms.
    #[serde(default = "default_handoff")]
    pub takes: Span,
}

fn default_addresses() -> u8 {
    1
}

fn is_default_addresses(addresses: &u8) -> bool {
    *addresses == default_addresses()
}

fn default_handoff() -> Span {
    Span::from_millis(50)
}

impl ChannelConfig {
    /// Creates a channel with default values.
    pub fn new(name: &str) -> Self {
        ChannelConfig {
            name: name.to_owned(),
            phy: PhyKind::default(),
            propagation: PropagationConfig::default(),
            interference: Interference::default(),
            power: default_power(),
            range: default_range(),
            sense_range: None,
            capture_db: default_capture(),
            noise_dbm: default_noise(),
            bit_errors: false,
            frame_loss: 0.0,
            bursts: None,
            rts_threshold: default_rts_threshold(),
            short_retry_limit: default_short_retries(),
            rts_retry_limit: None,
            long_retry_limit: default_long_retries(),
            cw_min: None,
            cw_max: None,
            answer_if_idle: false,
            short_preamble: false,
            llc_bytes: default_llc_bytes(),
            queue: default_queue(),
            mtu: default_mtu(),
            arp: false,
            arp_interval: Span::ZERO,
            arp_timeout: Span::ZERO,
            routing: ChannelRouting::default(),
            energy: EnergyConfig::default(),
        }
    }

    /// Returns the carrier-sense range in metres.
    pub fn sense_range(&self) -> f64 {
        self.sense_range.unwrap_or(2.2 * self.range)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// Returns an error for the first value that is not allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let within = |path: &str, value: f64, low: f64, high: f64, unit: &str| {
            if value >= low && value <= high {
                return Ok(());
            }
            Err(ConfigError::new(path, value, format!("{low} to {high} {unit}")))
        };
        self.routing.validate().map_err(|e| e.within("routing"))?;
        within("power", self.power, 1e-9, 1e6, "W")?;
        within("range", self.range, 0.1, 1e6, "m")?;
        if let Some(sense) = self.sense_range {
            within("sense_range", sense, self.range, 1e6, "m")?;
        }
        within("capture_db", self.capture_db, 0.0, 100.0, "dB")?;
        within("noise_dbm", self.noise_dbm, -200.0, 0.0, "dBm")?;
        if self.bit_errors && self.interference != Interference::Sinr {
            let error = ConfigError::new("bit_errors", true, "false, unless interference is \"sinr\"");
            return Err(error.hint("the threshold model has no signal-to-noise ratio"));
        }
        probability("frame_loss", self.frame_loss)?;
        if let Some(bursts) = &self.bursts {
            if !matches!(
                bursts,
                LossConfig::Markov { .. } | LossConfig::GilbertElliott { .. } | LossConfig::Bursts { .. }
            ) {
                let error = ConfigError::new(
                    "bursts.kind",
                    "another",
                    "\"markov\", \"gilbert-elliott\" or \"bursts\"",
                );
                return Err(error.hint("frame_loss is for independent losses"));
            }
            bursts.validate().map_err(|e| e.within("bursts"))?;
        }
        for (path, value) in [("arp_interval", self.arp_interval), ("arp_timeout", self.arp_timeout)] {
            hour(path, value)?;
        }
        let count = |path: &str, value: u32, low: u32, high: u32, unit: &str| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(ConfigError::new(path, value, format!("{low} to {high}{unit}")))
        };
        count("rts_threshold", self.rts_threshold, 0, 65_535, " bytes")?;
        count("short_retry_limit", u32::from(self.short_retry_limit), 1, 255, "")?;
        if let Some(limit) = self.rts_retry_limit {
            count("rts_retry_limit", u32::from(limit), 1, 255, "")?;
        }
        count("long_retry_limit", u32::from(self.long_retry_limit), 1, 255, "")?;
        let least = self.cw_min.unwrap_or(0);
        count("cw_min", least, 0, 65_535, " slots")?;
        count(
            "cw_max",
            self.cw_max.unwrap_or(65_535),
            least,
            65_535,
            " slots, at least cw_min",
        )?;
        count("llc_bytes", self.llc_bytes, 0, 64, " bytes")?;
        count("queue", self.queue, 1, 100_000, " packets")?;
        count("mtu", self.mtu, 68, 2304, " bytes")?;
        for (path, watts) in [
            ("transmit", self.energy.transmit),
            ("receive", self.energy.receive),
            ("idle", self.energy.idle),
        ] {
            within(path, watts, 0.0, 1e6, "W").map_err(|e| e.within("energy"))?;
        }
        self.propagation.validate().map_err(|e| e.within("propagation"))
    }
}

impl RadioConfig {
    /// Creates a radio of this node on this channel.
    pub fn new(node: &str, channel: &str) -> Self {
        RadioConfig {
            name: None,
            node: node.to_owned(),
            channel: channel.to_owned(),
            addresses: default_addresses(),
            access_point: None,
            handoff: Vec::new(),
        }
    }

    /// Returns the access points that the radio names, each with its field.
    pub(crate) fn access_points(&self) -> impl Iterator<Item = (String, &String)> {
        let steps = (0..).zip(&self.handoff);
        let first = self.access_point.iter().map(|name| ("access_point".to_owned(), name));
        first.chain(steps.map(|(i, step): (usize, _)| (format!("handoff[{i}].to"), &step.to)))
    }

    /// Checks the values that do not depend on other parts of the scenario.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.addresses == 0 || self.addresses > MAX_ADDRESSES {
            let allowed = format!("1 to {MAX_ADDRESSES}");
            return Err(ConfigError::new("addresses", self.addresses, allowed));
        }
        if self.access_point.is_none() && !self.handoff.is_empty() {
            let error = ConfigError::new("access_point", "nothing", "the radio of an access point");
            return Err(error.hint("a hand-off starts at an access point: set access_point"));
        }
        let mut free = Span::ZERO;
        for (i, step) in self.handoff.iter().enumerate() {
            if step.at < free {
                let path = format!("handoff[{i}].at");
                let allowed = format!("{free} or later, when the one before is over");
                return Err(ConfigError::new(path, step.at, allowed));
            }
            free = Span::from_nanos(step.at.as_nanos().saturating_add(step.takes.as_nanos()));
        }
        Ok(())
    }

    /// Returns the radio's name: the given one, or the names of its node and its channel.
    pub fn display_name(&self) -> String {
        self.name
            .clone()
            .unwrap_or_else(|| format!("{}-{}", self.node, self.channel))
    }
}

/// How a node moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum MobilityConfig {
    /// The node does not move.
    // Braces: for a variant without them serde accepts unknown keys.
    Static {},
    /// Random waypoint: the node moves straight to a uniformly random point of the area, at a uniformly random speed, pauses, and
    /// repeats.
    RandomWaypoint {
        /// Width and height of the area, from the origin, 1 to 1e6 m.
        area: [f64; 2],
        /// Minimum and maximum speed in m/s, above 0.
        speed: [f64; 2],
        /// Pause at each point, 0 s or more.
        #[serde(default)]
        pause: Span,
        /// Whether the initial position, speed and pause are drawn from the steady-state distribution instead of starting at
        /// `position`. Without this, the mean speed decreases and the nodes gather in the middle during the first minutes (Navidi
        /// and Camp 2004).
        #[serde(default)]
        steady_state: bool,
    },
    /// Gauss-Markov: speed and direction are autocorrelated from step to step around their means. Near the edge of the area the
    /// mean direction points back into it.
    GaussMarkov {
        /// Width and height of the area, from the origin, 1 to 1e6 m.
        area: [f64; 2],
        /// Mean speed in m/s, 0 to `max_speed`.
        #[schemars(range(min = 0))]
        mean_speed: f64,
        /// Maximum speed in m/s, above 0.
        #[schemars(range(min = 0))]
        max_speed: f64,
        /// Correlation from step to step, 0 (none) to 1 (constant). Default: 0.75.
        #[serde(default = "default_memory")]
        #[schemars(range(min = 0, max = 1))]
        memory: f64,
        /// Standard deviation of the speed in m/s, 0 or more. Default: 1.
        #[serde(default = "default_speed_deviation")]
        #[schemars(range(min = 0))]
        speed_deviation: f64,
        /// Standard deviation of the direction in radians, 0 to 10. Default: 0.5.
        #[serde(default = "default_direction_deviation")]
        #[schemars(range(min = 0, max = 10))]
        direction_deviation: f64,
        /// Length of a step, 1 ms or more. Default: 1 s.
        #[serde(default = "default_step")]
        interval: Span,
    },
    /// Manhattan grid: the node follows the streets and turns at random at crossings. It starts at the crossing nearest to
    /// `position`.
    Manhattan {
        /// Number of blocks from west to east and from south to north, 1 to 10000.
        blocks: [u32; 2],
        /// Width and height of a block, 1 to 1e6 m.
        block: [f64; 2],
        /// Minimum and maximum speed in m/s, above 0. A new speed is drawn for each block.
        speed: [f64; 2],
        /// Probability of a turn at a crossing, half of it to either side, 0 to 1. Default: 0.5.
        #[serde(default = "default_turn")]
        #[schemars(range(min = 0, max = 1))]
        turn: f64,
    },
    /// Movements from a file: an ns-2 script as written by `setdest`, or BonnMotion waypoints (a line per node: time, x, y,
    /// repeated).
    File {
        /// The file. A relative path starts at the scenario's folder.
        file: PathBuf,
        /// The node's number in the file: as in `$node_(3)`, or the index of the line, from 0.
        node: u32,
    },
}

impl Default for MobilityConfig {
    fn default() -> Self {
        MobilityConfig::Static {}
    }
}

fn default_memory() -> f64 {
    0.75
}

fn default_speed_deviation() -> f64 {
    1.0
}

fn default_direction_deviation() -> f64 {
    0.5
}

fn default_step() -> Span {
    Span::from_secs(1)
}

fn default_turn() -> f64 {
    0.5
}

/// Checks the sides of an area or a block.
fn sides(path: &str, sides: &[f64; 2]) -> Result<(), ConfigError> {
    for (i, side) in sides.iter().enumerate() {
        if !(1.0..=1e6).contains(side) {
            return Err(ConfigError::new(format!("{path}[{i}]"), side, "1 to 1e6 m"));
        }
    }
    Ok(())
}

/// Checks the limits of a speed.
fn speeds(speed: &[f64; 2]) -> Result<(), ConfigError> {
    if speed[0] > 0.0 && speed[1] >= speed[0] && speed[1] <= 1e4 {
        return Ok(());
    }
    let text = format!("[{}, {}]", speed[0], speed[1]);
    let allowed = "two speeds above 0, up to 1e4 m/s, the lesser first";
    Err(ConfigError::new("speed", text, allowed)
        .hint("with a minimum speed of 0 the mean speed decreases during the whole run"))
}

impl MobilityConfig {
    /// Checks every value.
    ///
    /// # Errors
    /// Returns an error for the first value that is not allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            MobilityConfig::Static {} => Ok(()),
            MobilityConfig::RandomWaypoint { area, speed, .. } => {
                sides("area", area)?;
                speeds(speed)
            }
            MobilityConfig::GaussMarkov {
                area,
                mean_speed,
                max_speed,
                memory,
                speed_deviation,
                direction_deviation,
                interval,
            } => {
                sides("area", area)?;
                speeds(&[*max_speed, *max_speed])
                    .map_err(|_| ConfigError::new("max_speed", max_speed, "a speed above 0, up to 1e4 m/s"))?;
                let within = |path: &str, value: f64, high: f64, allowed: &str| {
                    if (0.0..=high).contains(&value) {
                        return Ok(());
                    }
                    Err(ConfigError::new(path, value, allowed))
                };
                within("mean_speed", *mean_speed, *max_speed, "0 up to max_speed")?;
                within("memory", *memory, 1.0, "0 to 1")?;
                within("speed_deviation", *speed_deviation, 1e4, "0 to 1e4 m/s")?;
                within("direction_deviation", *direction_deviation, 10.0, "0 to 10 radians")?;
                if *interval < Span::from_millis(1) {
                    return Err(ConfigError::new("interval", interval, "1 ms or more"));
                }
                Ok(())
            }
            MobilityConfig::Manhattan {
                blocks,
                block,
                speed,
                turn,
            } => {
                for (i, count) in blocks.iter().enumerate() {
                    if !(1..=10_000).contains(count) {
                        return Err(ConfigError::new(format!("blocks[{i}]"), count, "1 to 10000 blocks"));
                    }
                }
                sides("block", block)?;
                speeds(speed)?;
                probability("turn", *turn)
            }
            MobilityConfig::File { .. } => Ok(()),
        }
    }

    /// Returns whether the model determines the node's initial position.
    pub fn places(&self) -> bool {
        self.area().is_some() || matches!(self, MobilityConfig::File { .. })
    }

    /// Returns the width and height of the area, in metres.
    pub fn area(&self) -> Option<[f64; 2]> {
        match self {
            MobilityConfig::RandomWaypoint { area, .. } | MobilityConfig::GaussMarkov { area, .. } => Some(*area),
            MobilityConfig::Manhattan { blocks, block, .. } => {
                Some([f64::from(blocks[0]) * block[0], f64::from(blocks[1]) * block[1]])
            }
            MobilityConfig::Static {} | MobilityConfig::File { .. } => None,
        }
    }

    /// Returns the file with the movements.
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            MobilityConfig::File { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Returns the file with the movements, to be changed.
    pub fn file_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            MobilityConfig::File { file, .. } => Some(file),
            _ => None,
        }
    }
}
