//! The parameters of RFC 9260 §16 and the choices that the RFC leaves open, validated before use.

mod auth;
mod endpoint;
mod error_detection;
mod preset;
mod resolved;
mod scheduler;
mod shared;
mod webrtc;

use whimbrel_control::discriminator::DiscriminatorSpec;
use whimbrel_control::multipath::coupling::CouplingSpec;
use whimbrel_control::multipath::distribution::DistributionSpec;
use whimbrel_control::multipath::policy::PathPolicySpec;
use whimbrel_control::multipath::{Accounting, BufferSplit, ReportingChanges, RetransmitPath};
use whimbrel_control::recovery::RecoveryChanges;
use whimbrel_control::window::WindowSpec;
use whimbrel_control::{Scheme, SchemeParts, Span, Time};

pub use auth::AuthConfig;
pub use endpoint::{EndpointConfig, MAX_ADDRESSES};
pub use error_detection::ErrorDetection;
pub use preset::{HeartbeatTimer, Preset, RuleChanges};
pub(crate) use resolved::Resolved;
pub use scheduler::Scheduler;
pub use shared::SharedConfig;

use crate::ConfigError;
use crate::protection::ProtectionConfig;

#[cfg(feature = "config")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Settings of one association. Scenario files use the same names.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)
)]
#[cfg_attr(feature = "config", serde(default, deny_unknown_fields))]
#[cfg_attr(
    feature = "config",
    schemars(description = "Parameters of both ends of an SCTP association.")
)]
// [9260:16-1, 16-2]
pub struct AssociationConfig {
    /// Edition of the standard, `rfc9260`, `rfc4960` or `rfc2960`, or the rules of ns-2.35, `ns2`.
    pub preset: Preset,
    /// Changes to single rules of the preset.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "RuleChanges::is_default"))]
    pub rules: RuleChanges,
    /// Number of outbound streams to request, 1 to 65535.
    #[cfg_attr(feature = "config", schemars(range(min = 1, max = 65535)))]
    pub outbound_streams: u16,
    /// Number of outbound streams up to which the peer may ask for more, with `stream_changes`, 1 to 65535. Absent: `outbound_streams`.
    #[cfg_attr(
        feature = "config",
        serde(skip_serializing_if = "Option::is_none"),
        schemars(range(min = 1, max = 65535))
    )]
    pub max_outbound_streams: Option<u16>,
    /// Number of streams on which the peer may send, 1 to 65535.
    #[cfg_attr(feature = "config", schemars(range(min = 1, max = 65535)))]
    pub max_inbound_streams: u16,
    /// Receive buffer in bytes, advertised as a_rwnd: 1500, or the MTU if that is less, to 1 GiB. INIT announces at least 1500, as RFC 9260
    /// §3.3.2 requires. Several paths reach the sum of their rates if the buffer holds this sum times the longest round-trip time; the
    /// default of 1 MiB suffices for 20 Mbit/s and 400 ms.
    pub recv_buffer: u32,
    /// Automatic tuning: the receive buffer starts with `recv_buffer` and grows to a multiple of the data that the application reads in a
    /// round-trip time, up to this many bytes (1500 to 1 GiB) and the endpoint's memory for buffers. Absent, or not above `recv_buffer`:
    /// the size is fixed.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub recv_buffer_max: Option<u32>,
    /// Send buffer in bytes, for messages waiting or not acknowledged: 1500, or the MTU if that is less, to 1 GiB.
    pub send_buffer: u32,
    /// Automatic tuning: the send buffer starts with `send_buffer` and grows to a multiple of the congestion windows, up to this many bytes
    /// (1500 to 1 GiB) and the endpoint's memory for buffers. Absent, or not above `send_buffer`: the size is fixed.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub send_buffer_max: Option<u32>,
    /// Maximum length in bytes of a message, 1 to 4294967295. A longer one cannot be sent, and the association is aborted when the received
    /// parts of one exceed it. Messages of more than a quarter of the send buffer may exceed the buffer, one at a time. All of them
    /// together, waiting or in flight, count for no more than a quarter of the buffer, so that short ones can be passed. Absent: `send_buffer`
    /// for sent messages, which never exceed it then, and no limit for received ones.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub max_message: Option<u32>,
    /// Path MTU in bytes, which no IP packet exceeds. 512 to 65535. In a scenario, the MTU of the first links if that is less.
    #[cfg_attr(feature = "config", schemars(range(min = 512, max = 65535)))]
    pub mtu: u16,
    /// RTO.Initial: retransmission timeout before the first measurement, RTO.Min to RTO.Max. Absent: 1 s, with the older presets 3 s.
    pub rto_initial: Option<Span>,
    /// RTO.Min: minimum retransmission timeout, 1 ms to RTO.Max.
    pub rto_min: Span,
    /// RTO.Max: maximum retransmission timeout, 1 ms to 24 h.
    pub rto_max: Span,
    /// RTO.Alpha: weight of a new round-trip time in SRTT, above 0 and up to 1.
    pub rto_alpha: f64,
    /// RTO.Beta: weight of a new deviation in RTTVAR, above 0 and up to 1.
    pub rto_beta: f64,
    /// Max.Burst: maximum number of packets of new data sent at once; 0: no limit.
    pub max_burst: u32,
    /// Association.Max.Retrans: consecutive retransmissions over all paths after which the peer is unreachable, 0 to 255.
    #[cfg_attr(feature = "config", schemars(range(min = 0, max = 255)))]
    pub association_max_retrans: u32,
    /// Path.Max.Retrans: consecutive retransmissions after which a path is inactive, 0 to 255.
    #[cfg_attr(feature = "config", schemars(range(min = 0, max = 255)))]
    pub path_max_retrans: u32,
    /// Consecutive retransmissions after which a path is potentially failed (PFMR, RFC 7829), 0 to
    /// `path_max_retrans`. Absent: never.
    #[cfg_attr(feature = "config", schemars(range(min = 0, max = 255)))]
    pub potentially_failed_max_retrans: Option<u32>,
    /// Max.Init.Retransmits: maximum number of retransmissions of INIT or COOKIE ECHO, 0 to 255.
    #[cfg_attr(feature = "config", schemars(range(min = 0, max = 255)))]
    pub max_init_retransmits: u32,
    /// HB.interval: time between heartbeats on an idle path, in addition to its RTO, up to 24 h. 0 s disables heartbeats.
    pub hb_interval: Span,
    /// Heartbeats on idle paths are sent at multiples of this time, up to 1 s, as far as the jitter of RFC 9260 §8.3 allows it. Those of
    /// many associations then leave together, which takes less processor time. 0 s: at any time.
    pub hb_alignment: Span,
    /// Whether a path gets an MTU of 1280 bytes if its HEARTBEATs are acknowledged and its data times out, twice in a row: a router drops long
    /// packets and does not report it (a black hole, RFC 8899 §4.3). Over sockets it is on by default.
    #[cfg_attr(
        feature = "config",
        serde(skip_serializing_if = "is_false"),
        schemars(extend("default" = false))
    )]
    pub black_hole_detection: bool,
    /// Largest path MTU in bytes that is searched for with probes (RFC 8899), 1280 to 65535: the path MTU is 1280 bytes until a HEARTBEAT in a longer
    /// packet has arrived, first in one of `mtu` bytes. The first packet that data fills starts the search. Absent: no search, the path MTU is `mtu`
    /// unless the network reports a smaller one. Over sockets it is 65535.
    #[cfg_attr(
        feature = "config",
        serde(skip_serializing_if = "Option::is_none"),
        schemars(range(min = 1280, max = 65535), extend("default" = null))
    )]
    pub max_mtu: Option<u16>,
    /// Whether the association offers to give messages up (RFC 3758). Flows of scenarios send reliable messages only, so that it changes
    /// INIT and INIT ACK alone. Over sockets it is on by default, and the `Reliability` of each message sets the limit.
    #[cfg_attr(
        feature = "config",
        serde(skip_serializing_if = "is_false"),
        schemars(extend("default" = false))
    )]
    pub partial_reliability: bool,
    /// Whether streams may be reset and added (RFC 6525), if both ends offer it. The peer may then reset the streams on which it sends, ask this
    /// end to reset those on which this end sends, add streams up to `max_inbound_streams`, and ask for more up to `max_outbound_streams`. Over sockets it
    /// is on by default.
    #[cfg_attr(
        feature = "config",
        serde(skip_serializing_if = "is_false"),
        schemars(extend("default" = false))
    )]
    pub stream_changes: bool,
    /// Whether the association offers to send user messages in I-DATA chunks (RFC 8260): fragments of messages of different streams can then
    /// be sent in turn. With a `scheduler` other than `first-come`, a long message then does not delay those of other streams. If both ends offer
    /// it, it is used. Parts of messages of different streams can then be read in turn. A chunk has four bytes less of user data: with an MTU of
    /// 1500, a message of 1452 bytes takes two.
    #[cfg_attr(
        feature = "config",
        serde(skip_serializing_if = "is_false"),
        schemars(extend("default" = false))
    )]
    pub interleaving: bool,
    /// In which order messages of different streams are sent (RFC 8260 §3). With interleaving, the order is that of their fragments.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Scheduler::is_default"))]
    pub scheduler: Scheduler,
    /// The layer below, if it detects changed bytes at least as well as the CRC32c: every packet of the association then has to come through it.
    /// The association offers to accept packets with a checksum of zero (RFC 9653), and sends such packets if the peer offers the same. INIT,
    /// COOKIE ECHO, ASCONF and packets that belong to no association keep their CRC32c. UDP and IP are no such layers, so that sockets refuse
    /// the setting. In a scenario, it changes INIT and INIT ACK alone. Absent: every packet has a CRC32c, and no other is accepted.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub zero_checksum: Option<ErrorDetection>,
    /// HB.Max.Burst: maximum number of heartbeats sent at once, 1 to 255.
    #[cfg_attr(feature = "config", schemars(range(min = 1, max = 255)))]
    pub hb_max_burst: u32,
    /// SACK.Delay: maximum delay of an acknowledgement that waits for a second packet, at most 500 ms.
    pub sack_delay: Span,
    /// Number of packets received before a SACK is sent, 1 to 255: 1 acknowledges each packet, 2 is the standard.
    #[cfg_attr(feature = "config", schemars(range(min = 1, max = 255)))]
    pub sack_frequency: u32,
    /// Number of missing reports that cause a fast retransmit, 1 to 255. Absent: 3; with `rfc2960` and the schemes `ipcc` and
    /// `ipcc-retransmit` 4.
    #[cfg_attr(feature = "config", schemars(range(min = 1, max = 255)))]
    pub missing_reports: Option<u32>,
    /// Initial cwnd in bytes, 256 to 1 GiB. Absent: the preset's rule.
    #[cfg_attr(feature = "config", schemars(range(min = 256, max = 1_073_741_824)))]
    pub initial_cwnd: Option<u32>,
    /// Minimum ssthresh after a loss, in units of the preset (PMDCS or MTU), 1 to 1000. Absent: 4, with `rfc2960` 2.
    #[cfg_attr(feature = "config", schemars(range(min = 1, max = 1000)))]
    pub min_ssthresh_mtus: Option<u32>,
    /// Time without user data in either direction after which the association is shut down, 1 ms to 365 days. Absent:
    /// never.
    pub autoclose: Option<Span>,
    /// T5-shutdown-guard: maximum duration of a shutdown, 1 ms to 24 h. Absent: five times RTO.Max (RFC 9260 §9.2).
    pub shutdown_guard: Option<Span>,
    /// The scheme, a named combination of parts; the settings below change single parts of it.
    pub scheme: Scheme,
    /// Decides whether a loss indicates congestion. A name, or a table with its `kind` and parameters. Absent: the scheme's.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub discriminator: Option<DiscriminatorSpec>,
    /// Determines the congestion window. A name, or a table with its `kind` and parameters. Absent: the scheme's.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub window: Option<WindowSpec>,
    /// Changes to the scheme's recovery: what is retransmitted, when, and with which timer.
    pub recovery: RecoveryChanges,
    /// Whether explicit congestion notification is used, if the peer supports it: data is sent as ECT(0), with `l4s` as ECT(1), and the receiver answers each marked packet
    /// with an ECNE chunk. Absent: the scheme's setting.
    pub ecn: Option<bool>,
    /// Whether ECN is as in RFC 4960 appendix A: the receiver repeats ECNE with each SACK until a CWR arrives, and the sender sends CWR when it
    /// reduces its window. Both ends should use the same setting; requires `ecn`. Absent: the scheme's setting.
    pub ecn_cwr: Option<bool>,
    /// Whether ECNE has the number of marked packets (draft-stewart-tsvwg-sctpecn-05). usrsctp 0.9.5 and older discard an ECNE without it, and all
    /// that follows in its packet; Linux takes both. Over sockets it is true.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "core::ops::Not::not"))]
    pub ecn_count: bool,
    /// Whether data is sent as ECT(1) instead of ECT(0): queues for L4S (RFC 9331) mark it early and keep its delay short. Requires `ecn`, and
    /// a window whose reduction depends on the number of marks, such as `dctcp`. Absent: the scheme's setting.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub l4s: Option<bool>,
    /// Whether the receiver echoes the congestion that routers indicate on every packet (ECI, congestion warning), if both ends support it. Absent:
    /// the scheme's setting.
    pub eci: Option<bool>,
    /// Whether packets of data carry the time at which they were sent (TIMESTAMP chunk, 12 bytes), and SACKs echo it together with the time of
    /// arrival, if both ends support it. With the distribution `redundant`, SACKs echo the times of the last eight packets of a path (up to 108
    /// bytes), so that the sender knows which transmission of a chunk has arrived; without timestamps it has to guess. Absent: the scheme's
    /// setting, and true with `redundant`.
    pub timestamps: Option<bool>,
    /// Whether the first slow start ends when round-trip times rise (HyStart++, RFC 9406), for windows with a field of this name. Absent: the
    /// window's own setting, which is on for `cubic` and in the schemes `veno-tabe` and `multipath`, and off otherwise. Over sockets it is on by
    /// default.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub hystart: Option<bool>,
    /// Whether packets are spread over the round-trip time instead of following each acknowledgement. Absent: the scheme's setting.
    pub pacing: Option<bool>,
    /// The sequence numbers that drive congestion control. Absent: the scheme's setting.
    pub accounting: Option<Accounting>,
    /// Selects the path for the next packet of new data. A name, or a table with its `kind` and parameters. Absent: the scheme's.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub distribution: Option<DistributionSpec>,
    /// The path for retransmissions. Absent: the scheme's setting.
    pub retransmit_path: Option<RetransmitPath>,
    /// Coupling of the congestion windows of the paths. A name, or a table with its `kind` and parameters. Absent: the scheme's.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub coupling: Option<CouplingSpec>,
    /// Limits the share of the buffers that one path may use. Absent: the scheme's setting.
    pub buffer_split: Option<BufferSplit>,
    /// Whether the oldest unacknowledged data is also sent on a faster path with an open window if the buffers that all paths share are
    /// full, or on any other path if its acknowledgement is overdue. Lost data is not retransmitted on a path that has timed out while
    /// another path responds. Requires `accounting = "path"`. Absent: the scheme's setting, and true if new data is distributed with that
    /// accounting.
    pub opportunistic_retransmission: Option<bool>,
    /// Whether the window of the path with the oldest unacknowledged data is halved if the shared buffers are full, at most once per
    /// round-trip time. At the minimum window, the path gets no new data for a time. Absent: the scheme's setting, and true if new data is
    /// distributed with `accounting = "path"`.
    pub penalise: Option<bool>,
    /// Whether data leaves a path whose acknowledgements stay away, before its timeout. If nothing that was sent there is acknowledged for a
    /// quarter of a round-trip time (at least 10 ms, and four times its variation) longer than expected, its data is also sent on other
    /// paths, and a HEARTBEAT asks whether it still works. Requires `opportunistic_retransmission`. It has no effect without heartbeats, with
    /// `distribution = "redundant"`, or with `distribution = "primary"`. Absent: the scheme's setting.
    pub leave_silent_paths: Option<bool>,
    /// Determines the state of each path and the path for data. A name, or a table with its `kind` and parameters. Absent: the scheme's.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub path_policy: Option<PathPolicySpec>,
    /// Changes to the scheme's reporting: when and how the receiver reports received data.
    pub reporting: ReportingChanges,
    /// Whether the endpoint requests a longer cookie life after a stale-cookie error (Cookie Preservative).
    pub extend_stale_cookie: bool,
    /// Whether each local address has a path, even if the peer has fewer addresses: a server with one address is reached over every interface.
    /// Without it, a path belongs to an address of the peer (RFC 9260 §1.3), and further local addresses are not used for sending.
    #[cfg_attr(
        feature = "config",
        serde(skip_serializing_if = "is_false"),
        schemars(extend("default" = false))
    )]
    pub path_per_local_address: bool,
    /// Whether addresses may be added and removed during the association, if the peer supports it (RFC 5061). The changes are authenticated
    /// (RFC 4895).
    #[cfg_attr(
        feature = "config",
        serde(skip_serializing_if = "is_false"),
        schemars(extend("default" = false))
    )]
    pub dynamic_addresses: bool,
    /// Whether a network address translator (NAT) replaces the local addresses of the end that opens the association, so that the peer sees
    /// others. INIT then does not list them. With `dynamic_addresses`, an ASCONF sent from each further local address asks the peer to add
    /// the source address that it sees (RFC 5061 §4.2.1). Default: with `dynamic_addresses`, true for private IPv4 addresses (RFC 1918,
    /// RFC 6598) if an address of the peer is not private. Unless it is false, the peer is asked again if a path does not answer.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub address_translation: Option<bool>,
    /// Authentication of chunks (RFC 4895).
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "AuthConfig::is_default"))]
    pub auth: AuthConfig,
    /// Encryption of all packets (draft-ietf-tsvwg-sctp-dtls-chunk). Experimental. Scenario files do not have it.
    #[cfg_attr(feature = "config", serde(skip))]
    pub protection: ProtectionConfig,
    /// Whether the association has one path, below which another layer hides the addresses, as with SCTP over DTLS (RFC 8261 §6.1): INIT and
    /// INIT ACK name neither addresses nor types of addresses, and those that the peer names are ignored. Scenario files do not have it.
    #[cfg_attr(feature = "config", serde(skip))]
    pub single_homed: bool,
    /// Whether the association goes on retransmitting for as long as its user wants, INIT and COOKIE ECHO too: another layer decides whether
    /// the peer can be reached, as ICE does below data channels. `association_max_retrans`, `path_max_retrans` and `max_init_retransmits`
    /// have no effect then, and the path never becomes inactive. Scenario files do not have it.
    #[cfg_attr(feature = "config", serde(skip))]
    pub unlimited_retransmissions: bool,
    /// Whether the bytes that each outbound stream has in the send buffer are counted
    /// ([`Association::buffered_on`](crate::Association::buffered_on)), and [`Event::BufferedLow`](crate::Event::BufferedLow) reports when
    /// they are few. It has no effect together with `protection`. Scenario files do not have it.
    #[cfg_attr(feature = "config", serde(skip))]
    pub stream_buffers: bool,
}

impl Default for AssociationConfig {
    fn default() -> Self {
        AssociationConfig {
            preset: Preset::Rfc9260,
            rules: RuleChanges::default(),
            outbound_streams: 16,
            max_outbound_streams: None,
            max_inbound_streams: 65535,
            recv_buffer: 1_048_576,
            recv_buffer_max: None,
            send_buffer: 1_048_576,
            send_buffer_max: None,
            max_message: None,
            mtu: 1500,
            rto_initial: None,
            rto_min: Span::from_secs(1),
            rto_max: Span::from_secs(60),
            rto_alpha: 0.125,
            rto_beta: 0.25,
            max_burst: 4,
            association_max_retrans: 10,
            path_max_retrans: 5,
            potentially_failed_max_retrans: None,
            max_init_retransmits: 8,
            hb_interval: Span::from_secs(30),
            hb_alignment: Span::ZERO,
            black_hole_detection: false,
            max_mtu: None,
            partial_reliability: false,
            stream_changes: false,
            interleaving: false,
            scheduler: Scheduler::default(),
            zero_checksum: None,
            hb_max_burst: 1,
            sack_delay: Span::from_millis(200),
            sack_frequency: 2,
            missing_reports: None,
            initial_cwnd: None,
            min_ssthresh_mtus: None,
            autoclose: None,
            shutdown_guard: None,
            scheme: Scheme::default(),
            discriminator: None,
            window: None,
            recovery: RecoveryChanges::default(),
            ecn: None,
            ecn_cwr: None,
            ecn_count: false,
            l4s: None,
            eci: None,
            timestamps: None,
            hystart: None,
            pacing: None,
            accounting: None,
            distribution: None,
            retransmit_path: None,
            coupling: None,
            buffer_split: None,
            opportunistic_retransmission: None,
            penalise: None,
            leave_silent_paths: None,
            path_policy: None,
            reporting: ReportingChanges::default(),
            extend_stale_cookie: true,
            path_per_local_address: false,
            dynamic_addresses: false,
            address_translation: None,
            auth: AuthConfig::default(),
            protection: ProtectionConfig::default(),
            single_homed: false,
            unlimited_retransmissions: false,
            stream_buffers: false,
        }
    }
}

const BUFFER_LIMIT: u32 = 1 << 30;

/// Checks that a number lies in `low..=high`.
fn in_range(field: &'static str, value: u64, low: u64, high: u64, unit: &str) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(
        field,
        value,
        format!("allowed are {low} to {high}{unit}"),
    ))
}

impl AssociationConfig {
    /// Returns the scheme's parts with the configured changes applied.
    pub fn parts(&self) -> SchemeParts {
        let scheme = self.scheme.parts();
        let accounting = self.accounting.unwrap_or(scheme.accounting);
        let distribution = self.distribution.clone().unwrap_or(scheme.distribution);
        let mut window = self.window.clone().unwrap_or(scheme.window);
        if let Some(on) = self.hystart {
            window.set_hystart(on);
        }
        let is_spread = accounting == Accounting::Path && distribution != DistributionSpec::default();
        let is_redundant = matches!(distribution, DistributionSpec::Redundant(_));
        SchemeParts {
            discriminator: self.discriminator.clone().unwrap_or(scheme.discriminator),
            window,
            recovery: self.recovery.over(scheme.recovery),
            missing_reports: self
                .missing_reports
                .map(|n| n.min(255) as u8)
                .or(scheme.missing_reports),
            ecn: self.ecn.unwrap_or(scheme.ecn),
            ecn_cwr: self.ecn_cwr.unwrap_or(scheme.ecn_cwr),
            l4s: self.l4s.unwrap_or(scheme.l4s),
            eci: self.eci.unwrap_or(scheme.eci),
            timestamps: self.timestamps.unwrap_or(scheme.timestamps || is_redundant),
            pacing: self.pacing.unwrap_or(scheme.pacing),
            accounting,
            distribution,
            retransmit_path: self.resolved_retransmit_path(scheme.retransmit_path),
            coupling: self.coupling.clone().unwrap_or(scheme.coupling),
            buffer_split: self.buffer_split.unwrap_or(scheme.buffer_split),
            opportunistic_retransmission: self
                .opportunistic_retransmission
                .unwrap_or(is_spread || scheme.opportunistic_retransmission && accounting == Accounting::Path),
            penalise: self.penalise.unwrap_or(is_spread || scheme.penalise),
            leave_silent_paths: self.leave_silent_paths.unwrap_or(scheme.leave_silent_paths),
            path_policy: self.path_policy.clone().unwrap_or(scheme.path_policy),
            reporting: self.reporting.over(scheme.reporting),
        }
    }

    /// Checks that the true causes of losses are available if the discriminator uses them.
    pub(crate) fn validate_truth(&self, is_known: bool) -> Result<(), ConfigError> {
        let discriminator = self.parts().discriminator;
        if discriminator.asks_for_truth() && !is_known {
            return Err(ConfigError::new(
                "discriminator",
                discriminator.name(),
                "requires a simulation, which knows the cause of each loss; choose another one",
            ));
        }
        Ok(())
    }

    /// Returns whether authentication is offered to the peer.
    // [dtls:3.2-1]
    pub(crate) fn wants_auth(&self) -> bool {
        // The draft of DTLS chunks, "SCTP Considerations": RFC 4895 MUST NOT be negotiated with them.
        let is_wanted = self.dynamic_addresses || self.auth.enabled || self.auth.is_required();
        is_wanted && self.protection.keys.is_none()
    }

    /// Checks every value.
    ///
    /// # Errors
    /// Returns an error that names the first invalid field and the allowed values.
    // [9260:6.1-22]
    pub fn validate(&self) -> Result<(), ConfigError> {
        in_range("outbound_streams", self.outbound_streams.into(), 1, 65535, " streams")?;
        in_range(
            "max_inbound_streams",
            self.max_inbound_streams.into(),
            1,
            65535,
            " streams",
        )?;
        if let Some(most) = self.max_outbound_streams {
            in_range("max_outbound_streams", most.into(), 1, 65535, " streams")?;
        }
        // A buffer must hold at least one packet.
        let least_buffer = u64::from(self.mtu.min(1500));
        in_range(
            "recv_buffer",
            self.recv_buffer.into(),
            least_buffer,
            BUFFER_LIMIT.into(),
            " bytes",
        )?;
        in_range(
            "send_buffer",
            self.send_buffer.into(),
            least_buffer,
            BUFFER_LIMIT.into(),
            " bytes",
        )?;
        for (field, max) in [
            ("recv_buffer_max", self.recv_buffer_max),
            ("send_buffer_max", self.send_buffer_max),
        ] {
            in_range(field, max.unwrap_or(1500).into(), 1500, BUFFER_LIMIT.into(), " bytes")?;
        }
        if let Some(bytes) = self.max_message {
            in_range("max_message", bytes.into(), 1, u32::MAX.into(), " bytes")?;
        }
        in_range("mtu", self.mtu.into(), 512, 65535, " bytes")?;
        in_range("max_mtu", self.max_mtu.unwrap_or(1280).into(), 1280, 65535, " bytes")?;
        self.validate_counts()?;
        self.validate_auth()?;
        self.validate_parts()?;
        self.validate_times()
    }

    /// Checks numbers of retransmissions, packets and units.
    fn validate_counts(&self) -> Result<(), ConfigError> {
        in_range(
            "association_max_retrans",
            self.association_max_retrans.into(),
            0,
            255,
            " retransmissions",
        )?;
        in_range(
            "path_max_retrans",
            self.path_max_retrans.into(),
            0,
            255,
            " retransmissions",
        )?;
        in_range(
            "max_init_retransmits",
            self.max_init_retransmits.into(),
            0,
            255,
            " attempts",
        )?;
        in_range("hb_max_burst", self.hb_max_burst.into(), 1, 255, " heartbeats")?;
        in_range("sack_frequency", self.sack_frequency.into(), 1, 255, " packets")?;
        in_range(
            "missing_reports",
            self.resolved_missing_reports().into(),
            1,
            255,
            " reports",
        )?;
        if let Some(cwnd) = self.initial_cwnd {
            in_range("initial_cwnd", cwnd.into(), 256, BUFFER_LIMIT.into(), " bytes")?;
        }
        if let Some(mtus) = self.min_ssthresh_mtus {
            in_range("min_ssthresh_mtus", mtus.into(), 1, 1000, " MTU")?;
        }
        if let Some(ssthresh) = self.rules.initial_ssthresh {
            in_range(
                "rules.initial_ssthresh",
                ssthresh.into(),
                512,
                u32::MAX.into(),
                " bytes",
            )?;
        }
        if let Some(pfmr) = self.potentially_failed_max_retrans {
            // RFC 7829 §3: a path is potentially failed before it is inactive.
            in_range(
                "potentially_failed_max_retrans",
                pfmr.into(),
                0,
                self.path_max_retrans.into(),
                " retransmissions",
            )?;
        }
        Ok(())
    }

    fn validate_auth(&self) -> Result<(), ConfigError> {
        self.protection.validate()?;
        if self.protection.keys.is_some() && self.auth.is_configured() {
            let allowed = "allowed is no authentication (RFC 4895) together with encryption";
            return Err(ConfigError::new("auth", "configured", allowed));
        }
        let never = [1, 2, 14, 15];
        if let Some(chunk_type) = self.auth.chunks.iter().find(|chunk_type| never.contains(*chunk_type)) {
            return Err(ConfigError::new(
                "auth.chunks",
                chunk_type,
                "allowed are chunk types other than 1, 2, 14 and 15",
            ));
        }
        if self.auth.parsed_key().is_none() {
            return Err(ConfigError::new(
                "auth.key",
                "a key that is not shown",
                "allowed are up to 128 bytes, as text or as hex: and two digits for each",
            ));
        }
        if self.auth.chunks.len() > 128 {
            return Err(ConfigError::new(
                "auth.chunks",
                self.auth.chunks.len(),
                "allowed are up to 128 chunk types",
            ));
        }
        Ok(())
    }

    fn validate_parts(&self) -> Result<(), ConfigError> {
        let parts = self.parts();
        if parts.ecn_cwr && !parts.ecn {
            return Err(ConfigError::new("ecn_cwr", true, "allowed is false unless ecn is true"));
        }
        if self.l4s == Some(true) && !parts.ecn {
            return Err(ConfigError::new("l4s", true, "allowed is false unless ecn is true"));
        }
        let within = |family: &str, error: whimbrel_control::part::ParameterError| {
            ConfigError::new(format!("{family}.{}", error.field), error.value, error.allowed)
        };
        parts.discriminator.validate().map_err(|e| within("discriminator", e))?;
        parts.window.validate().map_err(|e| within("window", e))?;
        parts.distribution.validate().map_err(|e| within("distribution", e))?;
        parts.coupling.validate().map_err(|e| within("coupling", e))?;
        parts.path_policy.validate().map_err(|e| within("path_policy", e))?;
        if parts.accounting != Accounting::Path {
            let needs = "allowed are others unless accounting is \"path\"";
            if matches!(parts.distribution, DistributionSpec::Redundant(_)) {
                return Err(ConfigError::new("distribution", parts.distribution.name(), needs));
            }
            if parts.opportunistic_retransmission {
                return Err(ConfigError::new("opportunistic_retransmission", true, needs));
            }
        }
        if self.leave_silent_paths == Some(true) && !parts.opportunistic_retransmission {
            return Err(ConfigError::new(
                "leave_silent_paths",
                true,
                "allowed is false unless opportunistic_retransmission is true",
            ));
        }
        if parts.reporting.arrivals_per_sack > 255 {
            return Err(ConfigError::new(
                "reporting.arrivals_per_sack",
                parts.reporting.arrivals_per_sack,
                "allowed are 0 to 255 packets",
            ));
        }
        let (arrivals, burst) = (parts.reporting.arrivals_per_sack, self.max_burst);
        if burst != 0 && arrivals >= burst {
            return Err(ConfigError::new(
                "reporting.arrivals_per_sack",
                arrivals,
                format!(
                    "allowed are 0 to {}: less than max_burst, or no SACK opens the window",
                    burst - 1
                ),
            ));
        }
        let second_level = parts.reporting.second_level_buffer;
        if !(1500..=BUFFER_LIMIT).contains(&second_level) {
            return Err(ConfigError::new(
                "reporting.second_level_buffer",
                second_level,
                format!("allowed are 1500 to {BUFFER_LIMIT} bytes"),
            ));
        }
        if parts.recovery.loss_rto_min > self.rto_min {
            return Err(ConfigError::new(
                "recovery.loss_rto_min",
                parts.recovery.loss_rto_min,
                format!("allowed are 0 s to rto_min, {}", self.rto_min),
            ));
        }
        Ok(())
    }

    // [9260:6.2-13, 6.2-14]
    fn validate_times(&self) -> Result<(), ConfigError> {
        let spans = |field, value: Span, low: Span, high: Span| {
            if value < low || value > high {
                return Err(ConfigError::new(field, value, format!("allowed are {low} to {high}")));
            }
            Ok(())
        };
        let day = Span::from_secs(86_400);
        let ms = Span::from_millis(1);
        spans("rto_max", self.rto_max, ms, day)?;
        spans("rto_min", self.rto_min, ms, self.rto_max)?;
        spans("rto_initial", self.resolved_rto_initial(), self.rto_min, self.rto_max)?;
        spans("hb_interval", self.hb_interval, Span::ZERO, day)?;
        spans("hb_alignment", self.hb_alignment, Span::ZERO, Span::from_secs(1))?;
        // RFC 9260 §6.2: SACK.Delay must not be raised above 500 ms.
        spans("sack_delay", self.sack_delay, Span::ZERO, Span::from_millis(500))?;
        if let Some(span) = self.autoclose {
            spans("autoclose", span, ms, day * 365)?;
        }
        if let Some(span) = self.shutdown_guard {
            spans("shutdown_guard", span, ms, day)?;
        }
        for (field, value) in [("rto_alpha", self.rto_alpha), ("rto_beta", self.rto_beta)] {
            if !(value > 0.0 && value <= 1.0) {
                return Err(ConfigError::new(
                    field,
                    value,
                    "allowed is a number above 0 and up to 1",
                ));
            }
        }
        Ok(())
    }
}

/// Later than any timer.
pub(crate) const NEVER: Time = Time::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(change: impl FnOnce(&mut AssociationConfig)) -> ConfigError {
        let mut config = AssociationConfig::default();
        change(&mut config);
        config.validate().expect_err("must be rejected")
    }

    // [9260:16-1, 16-2]
    #[test]
    fn defaults_are_those_of_section_16() {
        // RFC 9260 §16
        let config = AssociationConfig::default();
        config.validate().unwrap();
        assert_eq!(config.resolved_rto_initial(), Span::from_secs(1));
        assert_eq!(
            (config.rto_min, config.rto_max),
            (Span::from_secs(1), Span::from_secs(60))
        );
        assert_eq!((config.max_burst, config.hb_max_burst), (4, 1));
        assert_eq!((config.rto_alpha, config.rto_beta), (0.125, 0.25));
        assert_eq!(
            (
                config.association_max_retrans,
                config.path_max_retrans,
                config.max_init_retransmits
            ),
            (10, 5, 8)
        );
        assert_eq!(
            (config.hb_interval, config.sack_delay),
            (Span::from_secs(30), Span::from_millis(200))
        );
        assert_eq!(EndpointConfig::default().valid_cookie_life, Span::from_secs(60));
    }

    // Each outstanding chunk has at least one byte in the send buffer, so less than 2^31 TSNs are outstanding.
    // [9260:6.1-22]
    #[test]
    fn section_6_1_a_send_buffer_with_room_for_2_31_chunks_is_refused() {
        assert_eq!(rejected(|c| c.send_buffer = 1 << 31).field, "send_buffer");
        assert_eq!(rejected(|c| c.send_buffer_max = Some(1 << 31)).field, "send_buffer_max");
    }

    // [9260:6.2-13]
    #[test]
    fn an_error_names_the_invalid_value_and_the_allowed_range() {
        // RFC 9260 §6.2: SACK.Delay
        let error = rejected(|c| c.sack_delay = Span::from_millis(501));
        assert_eq!(error.to_string(), "sack_delay = 501 ms: allowed are 0 s to 500 ms");
        assert_eq!(rejected(|c| c.rto_min = Span::from_secs(61)).field, "rto_min");
        assert_eq!(rejected(|c| c.rto_alpha = f64::NAN).field, "rto_alpha");
        assert_eq!(rejected(|c| c.mtu = 100).field, "mtu");
        assert_eq!(
            rejected(|c| c.reporting.arrivals_per_sack = Some(256)).field,
            "reporting.arrivals_per_sack"
        );
        assert_eq!(rejected(|c| c.outbound_streams = 0).field, "outbound_streams");
        assert_eq!(
            rejected(|c| c.potentially_failed_max_retrans = Some(6)).field,
            "potentially_failed_max_retrans"
        );
    }
}
