//! Notifications of an endpoint to its user.

use whimbrel_control::Span;

use crate::{Message, PathId, PathState, StreamChange, TransportAddr};

/// A notification (RFC 9260 §11.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// COMMUNICATION UP: the association is established.
    Connected {
        /// Whether the peer opened it.
        accepted: bool,
        /// Streams that the user may send on: `0..outbound_streams`.
        outbound_streams: u16,
        /// Streams the peer may send on: `0..inbound_streams`.
        inbound_streams: u16,
    },
    /// DATA ARRIVE: [`recv`](crate::Endpoint::recv) has something to return. Reported once until `recv` has returned
    /// the last message ([`Received::more`](crate::Received::more)) or `None`.
    DataReady,
    /// A send that was refused with [`SendError::Full`](crate::SendError::Full) may succeed now.
    SendSpace,
    /// Everything sent so far has been acknowledged.
    SendIdle,
    /// The bytes of a stream in the send buffer have fallen to its threshold ([`set_buffered_low`](crate::Endpoint::set_buffered_low)).
    BufferedLow {
        /// The stream.
        stream: u16,
    },
    /// SEND FAILURE: an accepted message is given up. Each one is reported once, before [`Event::Restarted`] or [`Event::Closed`] if
    /// one of them is the cause.
    SendFailed(SendFailure),
    /// NETWORK STATUS CHANGE: the state of a path has changed.
    PathState {
        /// The path.
        path: PathId,
        /// Its new state.
        state: PathState,
    },
    /// The peer added an address. This path leads to it, and is verified before it is used.
    PeerAddressAdded {
        /// The path.
        path: PathId,
        /// The address.
        addr: TransportAddr,
    },
    /// The peer removed an address, and the path to it was removed.
    PeerAddressRemoved {
        /// The path.
        path: PathId,
        /// The address.
        addr: TransportAddr,
    },
    /// Another path became the primary path.
    PrimaryChanged {
        /// The path.
        path: PathId,
    },
    /// The peer requests data on this path first. The endpoint sends it there as soon as the path is active.
    PrimaryRequested {
        /// The path.
        path: PathId,
    },
    /// The peer has accepted an added local address. Paths from it are verified before they are used.
    LocalAddressAdded {
        /// The address.
        addr: TransportAddr,
    },
    /// The peer no longer sends to a local address that was removed.
    LocalAddressRemoved {
        /// The address.
        addr: TransportAddr,
    },
    /// The peer refused to add or remove a local address, or to use it as its primary destination.
    AddressRefused {
        /// The address.
        addr: TransportAddr,
        /// Cause code (RFC 5061 §4.3); 0 if the peer gave none.
        cause: u16,
    },
    /// A heartbeat that was sent by [`ping`](crate::Endpoint::ping) was answered.
    PingAnswered {
        /// The path.
        path: PathId,
        /// The number that was given to `ping`.
        number: u32,
        /// The time from sending it to the answer.
        rtt: Span,
    },
    /// The peer has begun to shut down the association; no more messages can be sent.
    PeerShutdown,
    /// RESTART: the peer lost its state and restarted with the same addresses, and the association continues. Messages that were not
    /// acknowledged have been reported as [`Event::SendFailed`].
    Restarted,
    /// Streams have been reset or added, as this end or the peer has requested (RFC 6525). What is read after inbound streams were reset was
    /// sent after it, and what was sent before has been read.
    StreamsChanged(StreamChange),
    /// The peer refused a change of streams. Messages that waited for a reset are sent with the next numbers. If it was asked to reset its own
    /// streams, result 0 is no refusal: it has sent no message on them since the last reset, or is about to reset them anyway. It is asked
    /// again for what it has accepted and does not do: result 1 says that it has done all it is going to, 5 that it has forgotten the request.
    StreamChangeRefused {
        /// The change that was requested.
        change: StreamChange,
        /// The result code (RFC 6525 §4.4).
        result: u32,
    },
    /// COMMUNICATION ERROR: the peer reported an error, with the code of its first cause (RFC 9260 §3.3.10).
    RemoteError {
        /// Cause code.
        cause: u16,
    },
    /// COMMUNICATION LOST or SHUTDOWN COMPLETE: the association has ended. The last event of an association.
    Closed(CloseReason),
}

/// A message that is given up (RFC 9260 §11.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendFailure {
    /// Its stream.
    pub stream: u16,
    /// Its payload protocol identifier.
    pub ppid: u32,
    /// The number set by the user, see [`Message::context`](crate::Message::context).
    pub context: u32,
    /// Whether a part of it was sent. The peer may have received all of it without the acknowledgement arriving.
    pub sent: bool,
    /// The cause.
    pub cause: SendFailureCause,
}

impl SendFailure {
    pub(crate) fn of(message: &Message, sent: bool, cause: SendFailureCause) -> Self {
        SendFailure {
            stream: message.stream,
            ppid: message.ppid,
            context: message.context,
            sent,
            cause,
        }
    }
}

/// The cause of a send failure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SendFailureCause {
    /// The association ended before the message was acknowledged.
    Ended,
    /// The peer restarted before it acknowledged the message.
    Restarted,
    /// The message was accepted before the handshake, and the peer allows fewer streams (RFC 9260 §5.1.1).
    NoSuchStream,
    /// It was given up, as its [`Reliability`](crate::Reliability) permits.
    GivenUp,
}

/// The reason for the end of an association.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloseReason {
    /// Both ends delivered all data and shut down the association.
    #[error("shut down in good order")]
    Graceful,
    /// The local user aborted it.
    #[error("aborted by this end: {0}")]
    AbortedLocally(String),
    /// The peer aborted it, with the code of its first cause, if any, and the peer's text for a user-initiated abort.
    #[error("aborted by the peer{}", describe_abort(*.cause, .reason))]
    AbortedByPeer {
        /// Code of the first error cause (RFC 9260 §3.3.10).
        cause: Option<u16>,
        /// The upper layer's abort reason, if it is text.
        reason: String,
    },
    /// The peer answered the INIT with an ABORT: no endpoint listens there, or it has no resources.
    #[error("refused by the peer{}", describe_abort(*.cause, ""))]
    Refused {
        /// Code of the first error cause.
        cause: Option<u16>,
    },
    /// The peer accepts only handshakes that are authenticated (RFC 4895), and this end has no shared key.
    #[error("refused: the peer requires a shared key")]
    KeyRequired,
    /// The key management could not authenticate the peer, or the peer could not authenticate this end; the value says why.
    #[error("no keys for encryption: {0}")]
    NotAuthenticated(String),
    /// No answer to INIT or COOKIE ECHO after Max.Init.Retransmits attempts.
    #[error("no answer to the opening handshake")]
    HandshakeTimeout,
    /// More than Association.Max.Retrans consecutive retransmissions without an answer.
    #[error("the peer stopped answering on every path")]
    PeerUnreachable,
    /// More than 20 consecutive timeouts of data, while the peer answered HEARTBEATs.
    #[error(
        "the peer answers heartbeats but acknowledges no data: the network drops packets with data, for their length (set a smaller mtu) or their ECN bits (set ecn = false)"
    )]
    DataUnanswered,
    /// The peer lost its state and opened the association again (RFC 9260 §5.2.4 A), and it does not continue
    /// ([`EndpointConfig::continue_after_restart`](crate::EndpointConfig::continue_after_restart)).
    #[error("the peer has restarted")]
    PeerRestarted,
    /// The peer refused every remaining local address (RFC 5061).
    #[error("no address is left from which the peer can be reached")]
    NoAddress,
    /// The guard timer T5 ended a shutdown that took too long.
    #[error("the peer did not finish the shutdown in time")]
    ShutdownTimeout,
    /// A local limit was exceeded; the value names it.
    #[error("a limit of this end was exceeded: {0}")]
    OverLimit(&'static str),
    /// The peer violated the protocol; the value names the violation.
    #[error("protocol violation by the peer: {0}")]
    ProtocolViolation(&'static str),
}

fn describe_abort(cause: Option<u16>, reason: &str) -> String {
    let name = match cause {
        None => return String::new(),
        Some(1) => "invalid stream identifier",
        Some(2) => "missing mandatory parameter",
        Some(3) => "stale cookie",
        Some(4) => "out of resource",
        Some(5) => "unresolvable address",
        Some(6) => "unrecognized chunk type",
        Some(7) => "invalid mandatory parameter",
        Some(8) => "unrecognized parameters",
        Some(9) => "no user data",
        Some(10) => "cookie received while shutting down",
        Some(11) => "restart of an association with new addresses",
        Some(12) => "user-initiated abort",
        Some(13) => "protocol violation",
        Some(100) => "the peer requires encryption",
        Some(101) => "no common way to agree on keys",
        Some(102) => "both ends have chosen the same tie breaker",
        Some(103) => "incompatible roles in key management",
        Some(code) => return format!(": cause {code}"),
    };
    if reason.is_empty() {
        format!(": {name}")
    } else {
        format!(": {name}: {reason}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_as_sentences() {
        let aborted = CloseReason::AbortedByPeer {
            cause: Some(12),
            reason: "disk full".into(),
        };
        assert_eq!(
            aborted.to_string(),
            "aborted by the peer: user-initiated abort: disk full"
        );
        assert_eq!(CloseReason::Refused { cause: None }.to_string(), "refused by the peer");
        assert_eq!(
            CloseReason::Refused { cause: Some(99) }.to_string(),
            "refused by the peer: cause 99"
        );
    }
}
