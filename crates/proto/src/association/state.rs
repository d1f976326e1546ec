//! The states of an association.

/// State of an association (RFC 9260 §4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// INIT was sent.
    CookieWait,
    /// COOKIE ECHO was sent.
    CookieEchoed,
    /// Data transfer is possible.
    Established,
    /// The user requested a shutdown. Not all data has been acknowledged yet.
    ShutdownPending,
    /// SHUTDOWN was sent.
    ShutdownSent,
    /// The peer sent SHUTDOWN. Not all data has been acknowledged yet.
    ShutdownReceived,
    /// SHUTDOWN ACK was sent.
    ShutdownAckSent,
    /// The association has ended.
    Closed,
}

impl State {
    /// Returns whether the handshake is complete and the association has not ended.
    pub(crate) fn is_established(self) -> bool {
        !matches!(self, State::CookieWait | State::CookieEchoed | State::Closed)
    }

    /// Returns whether the association is established and no SHUTDOWN has been sent: DATA chunks and heartbeats may be sent, and SACKs are
    /// expected (RFC 9260 §6, §8.3, §9.2).
    #[inline]
    pub(crate) fn may_send_data(self) -> bool {
        matches!(
            self,
            State::Established | State::ShutdownPending | State::ShutdownReceived
        )
    }

    /// Returns whether data from the peer is expected (RFC 9260 §6).
    #[inline]
    pub(crate) fn takes_data(self) -> bool {
        matches!(self, State::Established | State::ShutdownPending | State::ShutdownSent)
    }
}
