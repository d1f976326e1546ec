//! The states of a path, and its status for the user.

use whimbrel_control::Span;

use super::quality::PathQuality;
use crate::{PathId, TransportAddr};

/// Whether a path can be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PathState {
    /// The peer listed the address, but it is not verified yet: only heartbeats are sent to it (RFC 9260 §5.4).
    Unconfirmed,
    /// In use or ready for use.
    Active,
    /// New data is sent on other paths while one of them is active (RFC 7829).
    PotentiallyFailed,
    /// The number of consecutive retransmissions exceeded Path.Max.Retrans (RFC 9260 §8.2).
    Inactive,
}

/// What is known of a new path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trust {
    /// The peer's address is verified.
    Confirmed,
    /// The peer's address has to be verified.
    ToVerify,
    /// Likewise, by an answer from this address: it is the source of an encrypted packet. A host that forwarded this packet can forward a
    /// HEARTBEAT to the peer too.
    ToVerifyThere,
    /// The peer does not know the local address yet.
    Pending,
}

/// Status of a path (RFC 9260 §11.1.8).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathInfo {
    /// Number of the path.
    pub id: PathId,
    /// Local address.
    pub local: TransportAddr,
    /// Peer address.
    pub remote: TransportAddr,
    /// Whether it can be used.
    pub state: PathState,
    /// Whether it is the primary path.
    pub primary: bool,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// Bytes in flight, chunk headers and padding included.
    pub flight: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Span>,
    /// Round-trip time variation (RTTVAR).
    pub rttvar: Span,
    /// The shortest round-trip time measured.
    pub min_rtt: Option<Span>,
    /// Retransmission timeout in use.
    pub rto: Span,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Consecutive retransmissions without an acknowledgement.
    pub errors: u32,
    /// Bytes of data that were sent on it and acknowledged, including chunk headers and padding.
    pub delivered: u64,
    /// Loss rate, jitter and delivery rate.
    pub quality: PathQuality,
}
