//! TCP flows in a scenario.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whimbrel_control::discriminator::DiscriminatorSpec;
use whimbrel_control::recovery::RecoveryChanges;
use whimbrel_control::window::WindowSpec;
use whimbrel_control::{Scheme, SchemeParts, Span};

use super::ConfigError;

/// How losses are detected and what is retransmitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TcpFlavour {
    /// Fast retransmit, then slow start from one segment.
    Tahoe,
    /// Fast recovery that ends with the first new acknowledgement (RFC 5681).
    Reno,
    /// Fast recovery that ends when everything outstanding at its beginning is acknowledged (RFC 6582).
    NewReno,
    /// Selective acknowledgements and an estimate of the data in flight, the pipe (RFC 2018, RFC 6675).
    #[default]
    Sack,
    /// Forward acknowledgement: all unacknowledged data below the forward-most SACK block has left the network (Mathis and Mahdavi
    /// 1996).
    Fack,
}

impl TcpFlavour {
    /// Returns whether this flavour needs selective acknowledgements.
    pub const fn uses_sack(self) -> bool {
        matches!(self, TcpFlavour::Sack | TcpFlavour::Fack)
    }
}

/// How ECN marks are echoed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TcpEcn {
    /// No ECN: packets are not ECN-capable.
    #[default]
    Off,
    /// ECN-Echo on every acknowledgement until CWR arrives (RFC 3168 §6.1).
    Classic,
    /// ECN-Echo only on the acknowledgements of marked packets; a change of the mark is acknowledged at once (RFC 8257 §3.2).
    Accurate,
}

/// Parameters of both ends of a TCP flow.
///
/// The receiving application reads data as soon as it is in order, so the window never closes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TcpConfig {
    /// How losses are detected and what is retransmitted.
    pub flavour: TcpFlavour,
    /// The scheme, a named bundle of parts. The settings below replace single parts of it.
    pub scheme: Scheme,
    /// The discriminator: did a loss mean congestion? A name, or a table with its `kind` and parameters. Default: the scheme's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discriminator: Option<DiscriminatorSpec>,
    /// The window control: how much may be in flight? A name, or a table with its `kind` and parameters. Default: the scheme's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowSpec>,
    /// Changes to the scheme's recovery: what is retransmitted, when, with which timer.
    pub recovery: RecoveryChanges,
    /// Explicit congestion notification. Default: if the scheme uses ECN, `accurate` for the window `dctcp` and `classic` for
    /// others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<TcpEcn>,
    /// Whether the receiver copies the congestion indication of a packet (ECI, congestion warning) into the acknowledgement that
    /// the packet triggers (Shishir 2000, III.D). Default: the scheme's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eci: Option<bool>,
    /// Whether packets are spread over the round-trip time (pacing). Default: the scheme's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<bool>,
    /// Timestamps (RFC 7323): 12 bytes per segment, with a clock of one microsecond.
    pub timestamps: bool,
    /// Window scaling (RFC 7323). Without it the window is at most 65535 bytes.
    pub window_scaling: bool,
    /// Maximum segment size in the MSS option, 88 to 65495 bytes: user data and options (RFC 6691). 40 bytes less than the MTU of the first link
    /// if that is less.
    #[schemars(range(min = 88, max = 65_495))]
    pub mss: u16,
    /// Receive buffer, `mss` to 1073725440 bytes.
    #[schemars(range(min = 88, max = 1_073_725_440))]
    pub recv_buffer: u32,
    /// Send buffer, `mss` to 1073725440 bytes: user data accepted and not yet acknowledged.
    #[schemars(range(min = 88, max = 1_073_725_440))]
    pub send_buffer: u32,
    /// Congestion window at the start, 1 to 10000 segments: 10 by RFC 6928, at most 2 by RFC 2581.
    #[schemars(range(min = 1, max = 10_000))]
    pub initial_window: u32,
    /// Whether cwnd grows with each acknowledgement (allowed by RFC 5681, and what ns-2 does) instead of with each acknowledged byte (RFC 3465):
    /// with delayed acknowledgements it grows half as fast in congestion avoidance.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub count_acks: bool,
    /// In-order segments per acknowledgement, 1 to 100 (RFC 5681 §4.2: 2).
    #[schemars(range(min = 1, max = 100))]
    pub ack_frequency: u32,
    /// Maximum delay of an acknowledgement, up to 500 ms (RFC 5681 §4.2).
    pub ack_delay: Span,
    /// Duplicate acknowledgements, or segments acknowledged after a missing one, that indicate a loss: 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub dup_ack_threshold: u32,
    /// Limited transmit (RFC 3042): each of the first two duplicate acknowledgements allows one new segment.
    pub limited_transmit: bool,
    /// Nagle's algorithm (RFC 9293 §3.7.4): a short segment waits until all sent data is acknowledged.
    pub nagle: bool,
    /// Maximum number of new segments per acknowledgement, 0 or more; 0: limited only by the window.
    pub max_burst: u32,
    /// Retransmission timeout before the first measurement, `rto_min` to `rto_max` (RFC 6298 §2.1).
    pub rto_initial: Span,
    /// Minimum retransmission timeout, 1 ms or more (RFC 6298 §2.4: 1 s; many hosts use 200 ms).
    pub rto_min: Span,
    /// Maximum retransmission timeout, `rto_min` or more (RFC 6298 §2.5: at least 60 s).
    pub rto_max: Span,
    /// Consecutive timeouts after which the connection fails, 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub max_retransmissions: u32,
    /// Retransmissions of the SYN before the connection fails, up to 255.
    #[schemars(range(max = 255))]
    pub max_syn_retransmissions: u32,
}

impl Default for TcpConfig {
    /// The settings of current hosts, by the RFCs.
    fn default() -> Self {
        TcpConfig {
            flavour: TcpFlavour::default(),
            scheme: Scheme::default(),
            discriminator: None,
            window: None,
            recovery: RecoveryChanges::default(),
            ecn: None,
            eci: None,
            pacing: None,
            timestamps: true,
            window_scaling: true,
            mss: 1460,
            recv_buffer: 1_048_576,
            send_buffer: 1_048_576,
            initial_window: 10,
            count_acks: false,
            ack_frequency: 2,
            ack_delay: Span::from_millis(200),
            dup_ack_threshold: 3,
            limited_transmit: true,
            nagle: true,
            max_burst: 0,
            rto_initial: Span::from_secs(1),
            rto_min: Span::from_secs(1),
            rto_max: Span::from_secs(60),
            max_retransmissions: 15,
            max_syn_retransmissions: 6,
        }
    }
}

impl TcpConfig {
    /// Returns the scheme's parts with the changes to single parts.
    pub fn parts(&self) -> SchemeParts {
        let scheme = self.scheme.parts();
        SchemeParts {
            discriminator: self.discriminator.clone().unwrap_or(scheme.discriminator),
            window: self.window.clone().unwrap_or(scheme.window),
            recovery: self.recovery.over(scheme.recovery),
            ecn: self.ecn.map_or(scheme.ecn, |ecn| ecn != TcpEcn::Off),
            eci: self.eci.unwrap_or(scheme.eci),
            timestamps: self.timestamps || scheme.timestamps,
            pacing: self.pacing.unwrap_or(scheme.pacing),
            ..scheme
        }
    }

    /// Returns how marks are echoed.
    pub fn resolved_ecn(&self) -> TcpEcn {
        self.ecn.unwrap_or_else(|| {
            let parts = self.parts();
            match parts.window {
                _ if !parts.ecn => TcpEcn::Off,
                WindowSpec::Dctcp(_) => TcpEcn::Accurate,
                _ => TcpEcn::Classic,
            }
        })
    }

    /// Checks every value.
    ///
    /// # Errors
    /// Returns an error for the first value that is not allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let within = |field: &'static str, value: u64, low: u64, high: u64, unit: &str| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::new(field, value, format!("{low} to {high} {unit}")))
            }
        };
        let mss = u64::from(self.mss);
        within("mss", mss, 88, 65_495, "bytes")?;
        let largest = u64::from(u16::MAX) << 14;
        within("recv_buffer", self.recv_buffer.into(), mss, largest, "bytes")?;
        within("send_buffer", self.send_buffer.into(), mss, largest, "bytes")?;
        within("initial_window", self.initial_window.into(), 1, 10_000, "segments")?;
        within("ack_frequency", self.ack_frequency.into(), 1, 100, "segments")?;
        within("dup_ack_threshold", self.dup_ack_threshold.into(), 1, 255, "segments")?;
        within(
            "max_retransmissions",
            self.max_retransmissions.into(),
            1,
            255,
            "timeouts",
        )?;
        let syns = self.max_syn_retransmissions;
        within("max_syn_retransmissions", syns.into(), 0, 255, "retransmissions")?;
        if self.ack_delay > Span::from_millis(500) {
            return Err(ConfigError::new("ack_delay", self.ack_delay, "0 s to 500 ms"));
        }
        if self.rto_min < Span::from_millis(1) {
            return Err(ConfigError::new("rto_min", self.rto_min, "1 ms or more"));
        }
        if self.rto_max < self.rto_min {
            let allowed = format!("rto_min, {}, or more", self.rto_min);
            return Err(ConfigError::new("rto_max", self.rto_max, allowed));
        }
        if !(self.rto_min..=self.rto_max).contains(&self.rto_initial) {
            let allowed = format!("rto_min, {}, to rto_max, {}", self.rto_min, self.rto_max);
            return Err(ConfigError::new("rto_initial", self.rto_initial, allowed));
        }
        self.validate_parts()
    }

    fn validate_parts(&self) -> Result<(), ConfigError> {
        let parts = self.parts();
        let within = |family: &str, error: whimbrel_control::part::ParameterError| {
            ConfigError::new(format!("{family}.{}", error.field), error.value, error.allowed)
        };
        parts.discriminator.validate().map_err(|e| within("discriminator", e))?;
        parts.window.validate().map_err(|e| within("window", e))?;
        let recovery = parts.recovery;
        if recovery.loss_rto_min > self.rto_min {
            let allowed = format!("0 s to rto_min, {}", self.rto_min);
            return Err(ConfigError::new(
                "recovery.loss_rto_min",
                recovery.loss_rto_min,
                allowed,
            ));
        }
        if recovery.probe_after_timeout {
            let allowed = "false: TCP has no heartbeat to probe with";
            return Err(ConfigError::new("recovery.probe_after_timeout", true, allowed));
        }
        Ok(())
    }
}
