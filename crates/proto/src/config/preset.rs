//! Presets: which edition of the standard, or which other implementation, sets the rules that differ between them.

use whimbrel_control::window::GrowthRule;

/// The edition of the standard, or the implementation, whose rules apply where they differ. Single rules can be overridden.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)
)]
#[cfg_attr(feature = "config", serde(rename_all = "lowercase"))]
pub enum Preset {
    /// RFC 9260 (2022), the current standard.
    #[default]
    Rfc9260,
    /// RFC 4960 (2007).
    Rfc4960,
    /// RFC 2960 (2000): initial window and floor of two MTU, four missing reports.
    Rfc2960,
    /// The SCTP module of ns-2.35, which follows no single edition (docs/ns-2.md).
    Ns2,
}

/// The timer of heartbeats on idle paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)
)]
#[cfg_attr(feature = "config", serde(rename_all = "kebab-case"))]
pub enum HeartbeatTimer {
    /// Each path has its own timer, which starts at the path's last activity. An unanswered heartbeat is followed by the next one after
    /// HB.interval (RFC 9260 §8.3).
    #[default]
    Path,
    /// One timer serves all paths. When it expires, a heartbeat goes to the path that has been idle longest, provided that the path was
    /// idle since the timer started. An unanswered heartbeat is repeated after each RTO (ns-2.35).
    Association,
}

/// Single rules of a preset, overridden. Absent: the preset's rule.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct RuleChanges {
    /// What counts towards the growth of the standard window in congestion avoidance. Absent: `every-ack` with `rfc9260`,
    /// `cumulative-advance` with `rfc4960` and `rfc2960`, `full-window` with `ns2`.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub growth: Option<GrowthRule>,
    /// Initial slow-start threshold in bytes, 512 to 4294967295. Absent: arbitrarily high (RFC 9260 §7.2.1), with `ns2` 65536.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub initial_ssthresh: Option<u32>,
    /// Whether every fast retransmit sends one packet regardless of cwnd. Otherwise only the first one of a fast recovery does (RFC 9260 §7.2.4
    /// item 3). Absent: false, with `ns2` true.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub fast_retransmit_in_recovery: Option<bool>,
    /// Whether the loss of a chunk that was sent during fast recovery reduces cwnd before the recovery ends. Absent: false (RFC 9260
    /// §7.2.4 item 6), with `ns2` true.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub new_data_begins_recovery: Option<bool>,
    /// Whether cwnd grows in fast recovery like outside of it, as in ns-2's CMT module. Absent: false (RFC 9260 §7.2.1), also with
    /// `ns2`.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub growth_in_recovery: Option<bool>,
    /// Whether T3-rtx ends fast recovery. Otherwise cwnd does not grow after the timeout until the recovery's exit point is acknowledged.
    /// Absent: true, with `ns2` false.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub timeout_ends_recovery: Option<bool>,
    /// Whether a further T3-rtx timeout while cwnd is one packet lowers ssthresh again (RFC 9260 §7.2.3). Absent: true, with `ns2` false.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub repeated_timeout_lowers_ssthresh: Option<bool>,
    /// Whether the packet that closes the last gap is acknowledged at once (RFC 5681 §4.2). Otherwise its SACK is delayed like any other.
    /// Absent: true, with `ns2` false.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub sack_on_closed_gap: Option<bool>,
    /// Whether the receiver sends a SACK when the application frees enough of the buffer (RFC 9260 §6.2). Otherwise only SACKs for data
    /// report the window. Absent: true, with `ns2` false.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub window_updates: Option<bool>,
    /// The timer of heartbeats on idle paths. Absent: `path`, with `ns2` `association`.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub heartbeat_timer: Option<HeartbeatTimer>,
}

#[cfg(feature = "config")]
impl RuleChanges {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The preset's rules that an association reads frequently.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Rules {
    pub(crate) growth: GrowthRule,
    pub(crate) fast_retransmit_in_recovery: bool,
    pub(crate) new_data_begins_recovery: bool,
    pub(crate) growth_in_recovery: bool,
    pub(crate) timeout_ends_recovery: bool,
    pub(crate) repeated_timeout_lowers_ssthresh: bool,
    pub(crate) heartbeat_timer: HeartbeatTimer,
}

impl Default for Rules {
    fn default() -> Self {
        Preset::Rfc9260.rules()
    }
}

impl Preset {
    pub(super) fn rules(self) -> Rules {
        let growth = match self {
            Preset::Rfc9260 => GrowthRule::EveryAck,
            Preset::Rfc4960 | Preset::Rfc2960 => GrowthRule::CumulativeAdvance,
            Preset::Ns2 => GrowthRule::FullWindow,
        };
        let heartbeat_timer = match self {
            Preset::Ns2 => HeartbeatTimer::Association,
            _ => HeartbeatTimer::Path,
        };
        let by_rfc = self.follows_an_rfc();
        Rules {
            growth,
            fast_retransmit_in_recovery: !by_rfc,
            new_data_begins_recovery: !by_rfc,
            growth_in_recovery: false,
            timeout_ends_recovery: by_rfc,
            repeated_timeout_lowers_ssthresh: by_rfc,
            heartbeat_timer,
        }
    }

    pub(super) fn follows_an_rfc(self) -> bool {
        self != Preset::Ns2
    }
}
