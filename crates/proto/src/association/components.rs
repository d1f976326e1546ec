//! The components of an association.

use std::collections::VecDeque;
use std::sync::Arc;

use whimbrel_control::{GroundTruth, Time};
use whimbrel_wire::Tsn;

use super::asconf::AsconfState;
use super::delivery_rates::DeliveryRates;
use super::eci::EciState;
use super::keys::{AuthState, OwnRandom};
use super::multipath::{PathPolicy, Spread};
use super::pings::Pings;
use super::probes::Probing;
use super::ranges::Reports;
use super::stamping::Stamping;
use super::stats::AssociationStats;
use crate::config::NEVER;
use crate::event::Event;
use crate::receive::Receiver;
use crate::send::{Outstanding, SendQueue};
use crate::{PathId, TransportAddr};

/// The two ends of an association, and the constants that they have agreed on.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) truth: Option<Box<Truth>>,
    pub(super) local_addrs: Arc<[TransportAddr]>,
    /// The peer opened it.
    pub(super) accepted: bool,
    pub(super) local_port: u16,
    pub(super) peer_port: u16,
    pub(super) local_tag: u32,
    /// Zero until the peer's tag is known.
    pub(super) peer_tag: u32,
    /// Random numbers that the cookie of a restarted peer must contain (RFC 9260 §5.2.2).
    pub(super) tie_tags: (u32, u32),
    pub(super) local_initial_tsn: Tsn,
    pub(super) outbound_streams: u16,
    pub(super) inbound_streams: u16,
}

/// State of the handshake.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    /// Number of handshake attempts (RFC 9260 §5.1.4).
    pub(super) init_retransmits: u32,
    /// Number of stale cookie errors.
    pub(super) stale_cookies: u32,
    /// The peer's cookie, while it may have to be retransmitted.
    pub(super) cookie: Option<Box<PeerCookie>>,
}

/// The paths chosen for each purpose.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) primary: PathId,
    /// The path for new data.
    pub(super) sending: PathId,
    /// The path on which SHUTDOWN or SHUTDOWN ACK was last sent or will be sent.
    pub(super) shutdown_path: PathId,
    /// Time of the first switch of the sending path; [`NEVER`] before it.
    pub(super) first_switch: Time,
}

impl Default for Choice {
    fn default() -> Self {
        Choice {
            primary: PathId(0),
            sending: PathId(0),
            shutdown_path: PathId(0),
            first_switch: NEVER,
        }
    }
}

/// Data on its way to the peer.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) queue: SendQueue,
    pub(super) outstanding: Outstanding,
    pub(super) peer_rwnd: u32,
    /// The largest a_rwnd that the peer has advertised, for silly window avoidance (RFC 9260 §6.1 A).
    pub(super) largest_peer_rwnd: u32,
    pub(super) probe: ZeroWindowProbe,
    /// Present only if a part uses delivery rates.
    pub(super) rates: Option<Box<DeliveryRates>>,
    /// Timeouts of data on all paths since data was acknowledged.
    pub(super) timeouts_without_ack: u32,
    /// Maximum user data of a DATA chunk, so that it fits on every path: AMDCS minus the chunk header (RFC 9260 §7.3).
    pub(super) max_data: u16,
}

/// Data from the peer, and the replies to its packets.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    pub(super) receiver: Option<Box<Receiver>>,
    /// Messages acknowledged before the peer restarted that have not been read.
    pub(super) before_restart: Option<Box<Receiver>>,
    /// How often the peer has restarted.
    pub(super) restarts: u32,
    /// The replies to the packet being processed.
    pub(super) answers: Answers,
    /// Paths that still have to get a copy of the last SACK, one bit each.
    pub(super) sack_copies: u32,
}

/// Extensions that both ends support.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    pub(super) ecn: EcnState,
    pub(super) eci: EciState,
    /// Present only if timestamps were negotiated.
    pub(super) stamping: Option<Box<Stamping>>,
    /// Local random number, if authentication is supported.
    pub(super) auth_random: Option<Box<OwnRandom>>,
    /// Present only if authentication was negotiated.
    pub(super) auth: Option<Box<AuthState>>,
    /// Present only if dynamic addresses were negotiated.
    pub(super) asconf: Option<Box<AsconfState>>,
    /// Present only if another SACK format was negotiated.
    pub(super) reports: Option<Box<Reports>>,
}

/// State of the parts that choose among several paths.
#[derive(Debug, Default)]
pub(super) struct Multipath {
    /// Present only if the scheme has a policy other than the standard's.
    pub(super) policy: Option<Box<PathPolicy>>,
    /// Present only if several paths are used concurrently.
    pub(super) spread: Option<Box<Spread>>,
    /// Present only if the path policy uses probes.
    pub(super) probing: Option<Box<Probing>>,
}

/// What the user reads: events, notifications and counters.
#[derive(Debug, Default)]
pub(super) struct User {
    pub(super) events: VecDeque<Event>,
    pub(super) notices: Notices,
    pub(super) stats: Box<AssociationStats>,
    pub(super) pings: Option<Box<Pings>>,
}

/// Source of the true causes of losses. Only a simulation has it.
#[derive(Debug)]
pub(super) struct Truth(pub(super) Arc<dyn GroundTruth>);

/// The state cookie of an INIT ACK.
#[derive(Debug)]
pub(super) struct PeerCookie {
    pub(super) bytes: Box<[u8]>,
    /// A COOKIE ECHO with it has been sent.
    pub(super) is_echoed: bool,
}

/// Probing of a closed receive window (RFC 9260 §6.1 A).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ZeroWindowProbe {
    /// Probes sent since the window closed.
    pub(super) sent: u32,
    /// One chunk may be sent although the window is closed.
    pub(super) permitted: bool,
    /// The chunk in flight is a probe.
    pub(super) in_flight: bool,
    /// A SACK has arrived since the probe was sent.
    pub(super) answered: bool,
}

/// Pending notifications of the user and of the endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notices {
    pub(super) data_ready: bool,
    pub(super) wants_space: bool,
    pub(super) wants_idle: bool,
    pub(super) shutdown_wanted: bool,
    /// The tag or the peer's addresses have changed, so the endpoint must update its tables.
    pub(super) renamed: bool,
    pub(super) closed_polled: bool,
}

/// Limits the replies to the chunks of a packet to one packet (RFC 9260 §12.4).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    /// The path of the replies and the bytes left in the packet; `None` while there is no reply.
    pub(super) packet: Option<(PathId, u16)>,
}

/// The negotiated use of ECN, and the state of the receiver's echo.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EcnState {
    /// Both endpoints support ECN.
    pub(super) in_use: bool,
    /// With CWR: the lowest TSN of the first packet that arrived marked since the last CWR.
    pub(super) echo: Option<Tsn>,
}

/// A chunk declared lost on a path, recorded until the verdict is known.
pub(crate) type Lost = (u8, Tsn);
