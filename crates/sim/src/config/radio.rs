//! Radio channels and the radios on them as they are written in a scenario.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whimbrel_control::Span;

use super::routing::hour;
use super::{ChannelRouting, ConfigError, LossConfig, probability};
use crate::radio::{PhyKind, PropagationConfig};

/// Most radios in one network.
pub const MAX_RADIOS: usize = 32_768;

/// Most addresses of a radio.
pub const MAX_ADDRESSES: u8 = 4;

/// A medium that all its radios share: what one of them sends, those in range hear.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChannelConfig {
    /// The channel's name, by which radios refer to it.
    pub name: String,
    /// Modulation and rate of data frames.
    #[serde(default)]
    pub phy: PhyKind,
    /// How power falls with distance.
    #[serde(default)]
    pub propagation: PropagationConfig,
    /// How frames that overlap at a receiver spoil each other.
    #[serde(default)]
    pub interference: Interference,
    /// Transmit power of each radio in watts, above 0; by default 0.281 838 15 W, which is 24.5 dBm.
    #[serde(default = "default_power")]
    #[schemars(range(min = 0))]
    pub power: f64,
    /// Distance in metres up to which frames can be decoded, above 0; by default 250 m. It sets the receive threshold: the mean power
    /// at that distance.
    #[serde(default = "default_range")]
    #[schemars(range(min = 0))]
    pub range: f64,
    /// Distance in metres up to which a transmission makes the medium busy, at least `range`; by default 2.2 times `range`. It sets the
    /// carrier-sense threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub sense_range: Option<f64>,
    /// How much stronger than another signal a frame must be to survive it, 0 to 100 dB (`threshold`); 10 dB by default.
    #[serde(default = "default_capture")]
    #[schemars(range(min = 0, max = 100))]
    pub capture_db: f64,
    /// Thermal noise and receiver noise together, -200 to 0 dBm (`sinr`); -93 dBm by default.
    #[serde(default = "default_noise")]
    #[schemars(range(min = -200, max = 0))]
    pub noise_dbm: f64,
    /// Whether frames are lost by errors of their bits, which become more likely as noise and interference come near (`sinr`); by default
    /// they are lost if the ratio ever falls below what the modulation needs, and never otherwise.
    #[serde(default)]
    pub bit_errors: bool,
    /// Probability that a frame which suffers nothing else is spoilt all the same, 0 to 1.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub frame_loss: f64,
    /// Losses in bursts beside these: each receiver has a channel of its own that is good or bad, `markov` for times and `gilbert-elliott`
    /// from one frame it hears to the next; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<LossConfig>,
    /// Frames longer than so many bytes, MAC header and checksum included, are sent after RTS and CTS, 0 to 65535; 2347 by default,
    /// which is never.
    #[serde(default = "default_rts_threshold")]
    #[schemars(range(min = 0, max = 65_535))]
    pub rts_threshold: u32,
    /// Attempts at an RTS, or at a frame sent without one, 1 to 255; 7 by default.
    #[serde(default = "default_short_retries")]
    #[schemars(range(min = 1, max = 255))]
    pub short_retry_limit: u8,
    /// Attempts at an RTS where it has a limit of its own, 1 to 255; by default `short_retry_limit`, as the standard has it. Some
    /// simulators allow an RTS only as many attempts as the frame that follows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub rts_retry_limit: Option<u8>,
    /// Attempts at a frame sent after RTS and CTS, 1 to 255; 4 by default.
    #[serde(default = "default_long_retries")]
    #[schemars(range(min = 1, max = 255))]
    pub long_retry_limit: u8,
    /// Whether every rate above 1 Mbit/s of DSSS and 802.11b uses the short preamble (96 instead of 192 us).
    #[serde(default)]
    pub short_preamble: bool,
    /// Bytes of the headers between IP and MAC, 0 to 64; 8 by default (LLC and SNAP).
    #[serde(default = "default_llc_bytes")]
    #[schemars(range(min = 0, max = 64))]
    pub llc_bytes: u32,
    /// Packets that may wait at each radio, 1 to 100 000; 50 by default.
    #[serde(default = "default_queue")]
    #[schemars(range(min = 1, max = 100_000))]
    pub queue: u32,
    /// Largest IP packet in bytes, 68 to 2304; larger ones are dropped.
    #[serde(default = "default_mtu")]
    #[schemars(range(min = 68, max = 2304))]
    pub mtu: u32,
    /// Whether a radio has to ask for a neighbour's address before it first sends there (ARP). One packet waits for the answer; a later one
    /// takes its place and asks again. The messages count among those of routing.
    #[serde(default)]
    pub arp: bool,
    /// The least time between two requests for the same neighbour's address, 0 s to 1 h; 0 s by default, so that each packet asks, as in
    /// ns-2. RFC 1122 2.3.2.1 recommends 1 s at most each.
    #[serde(default)]
    pub arp_interval: Span,
    /// For how long an address is good that was not heard again, 0 s to 1 h; 0 s by default, which is for ever, as in ns-2. RFC 1122
    /// 2.3.2.1 wants an end, in the order of a minute.
    #[serde(default)]
    pub arp_timeout: Span,
    /// How packets find their way from radio to radio.
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

/// How frames that overlap at a receiver spoil each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interference {
    /// As in ns-2: each other signal above the carrier-sense threshold spoils a frame that is not stronger than it by `capture_db`.
    #[default]
    Threshold,
    /// By the ratio of the frame's power to noise and all other signals together, which must never fall below what the modulation
    /// needs.
    Sinr,
}

/// Power that a radio draws in each state, in watts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnergyConfig {
    /// While it transmits, 0 or more; 1.65 W by default.
    #[schemars(range(min = 0))]
    pub transmit: f64,
    /// While it receives, 0 or more; 1.4 W by default.
    #[schemars(range(min = 0))]
    pub receive: f64,
    /// Otherwise, 0 or more; 1.15 W by default.
    #[schemars(range(min = 0))]
    pub idle: f64,
}

impl Default for EnergyConfig {
    /// The figures in Feeney and Nilsson's order for a 2 Mbit/s card: listening costs almost as much as receiving.
    fn default() -> Self {
        EnergyConfig {
            transmit: 1.65,
            receive: 1.4,
            idle: 1.15,
        }
    }
}

/// A node's interface to a channel. It has an address of its own, as each end of a link has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RadioConfig {
    /// The radio's name, by which flows name it among `from_links` and `to_links`; by default the names of its node and its channel
    /// with a dash between them. In a scenario file `*` stands for the node's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The node it belongs to, which needs a `position`. In a scenario file `n*` makes a radio for each node of such a name.
    pub node: String,
    /// The channel it is on.
    pub channel: String,
    /// How many addresses it has, 1 to 4; 1 by default. More than one need `routing = "dsr"`: what goes to or comes from the second takes
    /// another way than what goes between the first ones, sharing no node with it, as far as DSR knows one, and so on.
    #[serde(default = "default_addresses", skip_serializing_if = "is_default_addresses")]
    #[schemars(range(min = 1, max = 4))]
    pub addresses: u8,
    /// Infrastructure mode: the radio of the access point with which this one is associated when the run begins. All its packets go to
    /// and come from there, those between two stations of the same access point too; none by default, which is ad hoc mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_point: Option<String>,
    /// Hand-offs to other access points, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handoff: Vec<HandoffConfig>,
}

/// A station leaves its access point, is on no channel for a time, and joins another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandoffConfig {
    /// When it leaves.
    pub at: Span,
    /// The radio of the access point that it joins, which may be on another channel.
    pub to: String,
    /// How long it neither hears nor sends: looking for access points, authentication, association; 50 ms by default.
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
    /// A channel with everything at its default.
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

    /// The carrier-sense range, m.
    pub fn sense_range(&self) -> f64 {
        self.sense_range.unwrap_or(2.2 * self.range)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that cannot be.
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
            return Err(error.hint("thresholds know no ratio of signal to noise"));
        }
        probability("frame_loss", self.frame_loss)?;
        if let Some(bursts) = &self.bursts {
            if !matches!(
                bursts,
                LossConfig::Markov { .. } | LossConfig::GilbertElliott { .. } | LossConfig::Bursts { .. }
            ) {
                let error = ConfigError::new("bursts.kind", "another", "\"markov\" or \"gilbert-elliott\"");
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
    /// A radio of this node on this channel.
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

    /// The access points that it names, each with its field.
    pub(crate) fn access_points(&self) -> impl Iterator<Item = (String, &String)> {
        let steps = (0..).zip(&self.handoff);
        let first = self.access_point.iter().map(|name| ("access_point".to_owned(), name));
        first.chain(steps.map(|(i, step): (usize, _)| (format!("handoff[{i}].to"), &step.to)))
    }

    /// Checks what can be seen in it alone.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.addresses == 0 || self.addresses > MAX_ADDRESSES {
            let allowed = format!("1 to {MAX_ADDRESSES}");
            return Err(ConfigError::new("addresses", self.addresses, allowed));
        }
        if self.access_point.is_none() && !self.handoff.is_empty() {
            let error = ConfigError::new("access_point", "nothing", "the radio of an access point");
            return Err(error.hint("who leaves an access point has joined one"));
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

    /// The radio's name, given or made of its node and its channel.
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
    /// It stays where it is.
    // Braces: serde lets keys pass that it does not know beside a variant without them.
    Static {},
    /// Random waypoint: it goes straight to a point chosen evenly from the area, at a speed chosen evenly, pauses, and goes on.
    RandomWaypoint {
        /// Width and height of the area, from the origin, 1 to 1e6 m.
        area: [f64; 2],
        /// Least and greatest speed in m/s, above 0.
        speed: [f64; 2],
        /// Pause at each point.
        #[serde(default)]
        pause: Span,
        /// Whether place, speed and pause at the beginning are drawn as they are found after a long time, instead of from `position`:
        /// without this, speed falls and the nodes gather in the middle for the first minutes (Navidi and Camp 2004).
        #[serde(default)]
        steady_state: bool,
    },
    /// Gauss-Markov: speed and direction change from step to step about their means, and remember what they were. Near the edge of the
    /// area the mean direction leads back.
    GaussMarkov {
        /// Width and height of the area, from the origin, 1 to 1e6 m.
        area: [f64; 2],
        /// Mean speed in m/s, 0 up to `max_speed`.
        #[schemars(range(min = 0))]
        mean_speed: f64,
        /// Greatest speed in m/s, above 0.
        #[schemars(range(min = 0))]
        max_speed: f64,
        /// What is kept from step to step: 0 (nothing) up to 1 (all); 0.75 by default.
        #[serde(default = "default_memory")]
        #[schemars(range(min = 0, max = 1))]
        memory: f64,
        /// Standard deviation of the speed in m/s, 0 or more; 1 by default.
        #[serde(default = "default_speed_deviation")]
        #[schemars(range(min = 0))]
        speed_deviation: f64,
        /// Standard deviation of the direction in radians, 0 to 10; 0.5 by default.
        #[serde(default = "default_direction_deviation")]
        #[schemars(range(min = 0, max = 10))]
        direction_deviation: f64,
        /// Time of a step, above 0 s; 1 s by default.
        #[serde(default = "default_step")]
        interval: Span,
    },
    /// Manhattan grid: it keeps to the streets, and goes on or turns at each crossing. It begins at the crossing next to `position`.
    Manhattan {
        /// Blocks from west to east and from south to north, 1 to 10000.
        blocks: [u32; 2],
        /// Sides of a block, 1 to 1e6 m.
        block: [f64; 2],
        /// Least and greatest speed in m/s, above 0; drawn for each block.
        speed: [f64; 2],
        /// Probability of turning at a crossing, half of it to either side, 0 to 1; 0.5 by default.
        #[serde(default = "default_turn")]
        #[schemars(range(min = 0, max = 1))]
        turn: f64,
    },
    /// As a file says: a movement script for ns-2 as `setdest` writes it, or waypoints of BonnMotion (a line for each node: time, x, y,
    /// again and again).
    File {
        /// The file; a relative path is seen from the scenario's folder.
        file: PathBuf,
        /// The node's number in it: that in `$node_(3)`, or the line, from 0.
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

/// Checks an area's or a block's sides.
fn sides(path: &str, sides: &[f64; 2]) -> Result<(), ConfigError> {
    for (i, side) in sides.iter().enumerate() {
        if !(1.0..=1e6).contains(side) {
            return Err(ConfigError::new(format!("{path}[{i}]"), side, "1 to 1e6 m"));
        }
    }
    Ok(())
}

/// Checks the bounds of a speed.
fn speeds(speed: &[f64; 2]) -> Result<(), ConfigError> {
    if speed[0] > 0.0 && speed[1] >= speed[0] && speed[1] <= 1e4 {
        return Ok(());
    }
    let text = format!("[{}, {}]", speed[0], speed[1]);
    let allowed = "two speeds above 0, up to 1e4 m/s, the lesser first";
    Err(ConfigError::new("speed", text, allowed).hint("with a least speed of 0 the mean speed falls for ever"))
}

impl MobilityConfig {
    /// Checks every value.
    ///
    /// # Errors
    /// The first value that cannot be.
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

    /// Whether it says where the node is when the run begins.
    pub fn places(&self) -> bool {
        self.area().is_some() || matches!(self, MobilityConfig::File { .. })
    }

    /// Width and height of the area about which it moves, m.
    pub fn area(&self) -> Option<[f64; 2]> {
        match self {
            MobilityConfig::RandomWaypoint { area, .. } | MobilityConfig::GaussMarkov { area, .. } => Some(*area),
            MobilityConfig::Manhattan { blocks, block, .. } => {
                Some([f64::from(blocks[0]) * block[0], f64::from(blocks[1]) * block[1]])
            }
            MobilityConfig::Static {} | MobilityConfig::File { .. } => None,
        }
    }

    /// The file that it follows.
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            MobilityConfig::File { file, .. } => Some(file),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn file_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            MobilityConfig::File { file, .. } => Some(file),
            _ => None,
        }
    }
}
