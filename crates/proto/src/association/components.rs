//! The components of an association.

use std::collections::VecDeque;
use std::sync::Arc;

use whimbrel_wire::Tsn;

use super::asconf::AsconfState;
use super::eci::EciState;
use super::keys::{AuthState, OwnRandom, RANDOM_LEN};
use super::pings::Pings;
use super::ranges::Reports;
use super::reconfig::Reconfig;
use super::stamping::Stamping;
use super::state::State;
use super::stats::Counters;
use crate::event::Event;
use crate::protection::Protection;
use crate::receive::Receiver;
use crate::{PathId, TransportAddr};

/// The two ends of an association, and the constants that they have agreed on.
#[derive(Debug)]
pub(super) struct Ends {
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
    /// Messages may be given up (RFC 3758).
    pub(super) gives_up: bool,
    /// User messages are sent in I-DATA chunks (RFC 8260).
    pub(super) interleaves: bool,
    /// Packets with a checksum of zero are accepted: this end has offered it (RFC 9653 §5.3).
    pub(super) accepts_zero_checksum: bool,
    /// The peer accepts them (RFC 9653 §5.2).
    pub(super) sends_zero_checksum: bool,
    /// Present only if timestamps were negotiated.
    pub(super) stamping: Option<Box<Stamping>>,
    /// What this end offers for the protection of packets: authentication or encryption, never both.
    pub(super) offered: Option<Box<Offered>>,
    /// Present only if authentication was negotiated.
    pub(super) auth: Option<Box<AuthState>>,
    /// Present only if dynamic addresses were negotiated.
    pub(super) asconf: Option<Box<AsconfState>>,
    /// Present only if changes of streams were negotiated.
    pub(super) reconfig: Option<Box<Reconfig>>,
    /// Present only if another SACK format was negotiated.
    pub(super) reports: Option<Box<Reports>>,
}

/// An offer to protect packets, with the random number that belongs to it.
#[derive(Debug)]
pub(super) enum Offered {
    /// RFC 4895.
    Auth(OwnRandom),
    /// DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk).
    Dtls {
        tie_breaker: u32,
        /// Present only if they were negotiated.
        protection: Option<Box<Protection>>,
    },
}

impl Agreed {
    /// Returns the random number of RFC 4895, if authentication is offered.
    pub(super) fn auth_random(&self) -> Option<[u8; RANDOM_LEN]> {
        match self.offered.as_deref() {
            Some(Offered::Auth(random)) => Some(random.0),
            _ => None,
        }
    }

    /// Returns the local tie breaker, if DTLS chunks are offered.
    pub(super) fn tie_breaker(&self) -> Option<u32> {
        match self.offered.as_deref() {
            Some(Offered::Dtls { tie_breaker, .. }) => Some(*tie_breaker),
            _ => None,
        }
    }

    /// Returns the DTLS chunks, if they were negotiated.
    #[inline]
    pub(super) fn protection(&self) -> Option<&Protection> {
        match self.offered.as_deref() {
            Some(Offered::Dtls { protection, .. }) => protection.as_deref(),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn protection_mut(&mut self) -> Option<&mut Protection> {
        match self.offered.as_deref_mut() {
            Some(Offered::Dtls { protection, .. }) => protection.as_deref_mut(),
            _ => None,
        }
    }

    /// Returns whether the keys of DTLS chunks come from a method that exchanges messages.
    pub(super) fn has_key_messages(&self) -> bool {
        self.protection().is_some_and(Protection::is_managed)
    }

    /// Returns whether the handshake is done, and packets are not encrypted yet because messages are being exchanged for the keys.
    #[inline]
    pub(super) fn is_keying(&self, state: State) -> bool {
        let protection = self.protection();
        protection.is_some_and(|protection| !protection.is_in_force()) && state.is_established()
    }

    /// Sets the DTLS chunks that were negotiated, or none.
    pub(super) fn set_protection(&mut self, negotiated: Option<Protection>) {
        if let Some(Offered::Dtls { protection, .. }) = self.offered.as_deref_mut() {
            *protection = negotiated.map(Box::new);
        }
    }
}

/// What the user reads: events, notifications and counters.
#[derive(Debug, Default)]
pub(super) struct User {
    pub(super) events: VecDeque<Event>,
    pub(super) notices: Notices,
    pub(super) stats: Box<Counters>,
    pub(super) pings: Option<Box<Pings>>,
}

/// The state cookie of an INIT ACK.
#[derive(Debug)]
pub(super) struct PeerCookie {
    pub(super) bytes: Box<[u8]>,
    /// A COOKIE ECHO with it has been sent.
    pub(super) is_echoed: bool,
}

/// Pending notifications of the user and of the endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notices {
    pub(super) data_ready: bool,
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

/// The state of the receiver's echo of CE marks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EcnState {
    /// The lowest TSN of the first packet that arrived marked since the last CWR, if one has.
    lowest: Tsn,
    /// Packets that arrived marked since the last CWR; more than this type holds count as its largest number.
    marked: u16,
}

impl EcnState {
    /// A packet has arrived marked.
    pub(super) fn on_mark(&mut self, lowest: Tsn) {
        if self.marked == 0 {
            self.lowest = lowest;
        }
        self.marked = self.marked.saturating_add(1);
    }

    /// Returns the TSN to echo with each SACK until a CWR arrives.
    pub(super) fn echo(&self) -> Option<Tsn> {
        (self.marked > 0).then_some(self.lowest)
    }

    pub(super) fn marked(&self) -> u32 {
        self.marked.into()
    }

    /// A CWR has arrived. One that answers an earlier echo is late.
    pub(super) fn on_cwr(&mut self, tsn: Tsn) {
        if self.echo().is_some_and(|echo| echo.is_at_or_before(tsn)) {
            self.marked = 0;
        }
    }
}
