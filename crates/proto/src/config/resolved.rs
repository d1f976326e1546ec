//! A configuration with all that follows from it.

use core::ops::Deref;
use std::sync::Arc;

use whimbrel_control::estimator::RttConfig;
use whimbrel_control::multipath::RetransmitPath;
use whimbrel_control::recovery::Recovery;
use whimbrel_control::{SchemeParts, Span};

use super::AssociationConfig;
use super::preset::{HeartbeatTimer, Preset, Rules};

/// A configuration, with preset, scheme and changes to single parts resolved: made once, and shared by the associations that use it.
///
/// Settings that need no resolving are read through [`Deref`].
#[derive(Debug)]
pub(crate) struct Resolved {
    config: AssociationConfig,
    /// The scheme's parts with the changes to single ones.
    pub(crate) parts: SchemeParts,
    /// The preset's rules with single ones overridden.
    pub(crate) rules: Rules,
    /// Missing reports that make a loss.
    pub(crate) missing_reports: u8,
    /// Whether authentication is offered.
    pub(crate) offers_auth: bool,
    /// Whether the recovery differs from the standard's.
    pub(crate) recovers: bool,
    /// Constants of the retransmission timeout.
    pub(crate) rtt: Arc<RttConfig>,
    /// Association.Max.Retrans; with unlimited retransmissions a number that no counter exceeds.
    pub(crate) association_max_retrans: u32,
    /// Path.Max.Retrans, likewise.
    pub(crate) path_max_retrans: u32,
    /// Max.Init.Retransmits, likewise.
    pub(crate) max_init_retransmits: u32,
    /// HB.interval of the paths' own timers: zero (off) if all paths share one timer.
    pub(crate) path_hb_interval: Span,
}

/// The MTU in bytes at which the content of a DTLS chunk has 2^14 bytes: with 28 for the chunk, 12 for the common header of SCTP and 20 for IPv4.
const MAX_SEALED_MTU: u16 = (1 << 14) + 28 + 12 + 20;

impl Resolved {
    pub(crate) fn new(mut config: AssociationConfig) -> Self {
        if config.protection.keys.is_some() {
            // RFC 9147 §4: a record has at most 2^14 bytes of content.
            config.mtu = config.mtu.min(MAX_SEALED_MTU);
            config.max_mtu = config.max_mtu.map(|most| most.min(MAX_SEALED_MTU));
        }
        let parts = config.parts();
        let rules = config.resolved_rules();
        let limit = |configured| match config.unlimited_retransmissions {
            true => u32::MAX,
            false => configured,
        };
        Resolved {
            association_max_retrans: limit(config.association_max_retrans),
            path_max_retrans: limit(config.path_max_retrans),
            max_init_retransmits: limit(config.max_init_retransmits),
            path_hb_interval: match rules.heartbeat_timer {
                HeartbeatTimer::Association => Span::ZERO,
                HeartbeatTimer::Path => config.hb_interval,
            },
            rules,
            rtt: Arc::new(RttConfig {
                initial: config.resolved_rto_initial(),
                min: config.rto_min,
                max: config.rto_max,
                alpha: config.rto_alpha,
                beta: config.rto_beta,
            }),
            missing_reports: config.resolved_missing_reports().min(255) as u8,
            offers_auth: config.wants_auth(),
            recovers: parts.recovery != Recovery::default(),
            parts,
            config,
        }
    }
}

impl Deref for Resolved {
    type Target = AssociationConfig;

    fn deref(&self) -> &AssociationConfig {
        &self.config
    }
}

impl AssociationConfig {
    /// Returns RTO.Initial: the configured value, or else the preset's.
    pub fn resolved_rto_initial(&self) -> Span {
        self.rto_initial.unwrap_or(match self.preset {
            Preset::Rfc9260 => Span::from_secs(1),
            Preset::Rfc4960 | Preset::Rfc2960 | Preset::Ns2 => Span::from_secs(3),
        })
    }

    /// Returns the number of missing reports that trigger a fast retransmit: the configured value, or else the
    /// scheme's, or else the preset's.
    pub fn resolved_missing_reports(&self) -> u32 {
        let of_scheme = || self.scheme.parts().missing_reports.map(u32::from);
        self.missing_reports.or_else(of_scheme).unwrap_or(match self.preset {
            Preset::Rfc9260 | Preset::Rfc4960 | Preset::Ns2 => 3,
            Preset::Rfc2960 => 4,
        })
    }

    /// Returns the path of retransmissions. If neither the configuration nor the scheme sets one, `ns2` uses an
    /// alternate path, as ns-2 does with its default `rtxToAlt_` = 1.
    pub(super) fn resolved_retransmit_path(&self, by_scheme: RetransmitPath) -> RetransmitPath {
        let preset = match self.preset {
            Preset::Ns2 if by_scheme == RetransmitPath::default() => RetransmitPath::Alternate,
            _ => by_scheme,
        };
        self.retransmit_path.unwrap_or(preset)
    }

    /// Returns the initial ssthresh in bytes, or `None` if it is arbitrarily high.
    pub(crate) fn initial_ssthresh(&self) -> Option<u64> {
        let preset = (!self.preset.follows_an_rfc()).then_some(65_536);
        self.rules.initial_ssthresh.or(preset).map(u64::from)
    }

    pub(crate) fn sack_on_closed_gap(&self) -> bool {
        self.rules.sack_on_closed_gap.unwrap_or(self.preset.follows_an_rfc())
    }

    pub(crate) fn window_updates(&self) -> bool {
        self.rules.window_updates.unwrap_or(self.preset.follows_an_rfc())
    }

    /// Returns the preset's rules with the configured overrides applied.
    pub(crate) fn resolved_rules(&self) -> Rules {
        let (base, changes) = (self.preset.rules(), &self.rules);
        Rules {
            growth: changes.growth.unwrap_or(base.growth),
            fast_retransmit_in_recovery: changes
                .fast_retransmit_in_recovery
                .unwrap_or(base.fast_retransmit_in_recovery),
            new_data_begins_recovery: changes
                .new_data_begins_recovery
                .unwrap_or(base.new_data_begins_recovery),
            growth_in_recovery: changes.growth_in_recovery.unwrap_or(base.growth_in_recovery),
            timeout_ends_recovery: changes.timeout_ends_recovery.unwrap_or(base.timeout_ends_recovery),
            repeated_timeout_lowers_ssthresh: changes
                .repeated_timeout_lowers_ssthresh
                .unwrap_or(base.repeated_timeout_lowers_ssthresh),
            heartbeat_timer: changes.heartbeat_timer.unwrap_or(base.heartbeat_timer),
        }
    }
}
