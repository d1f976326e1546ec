//! Chunk types and the treatment of unknown ones: RFC 9260 §3.2.

use std::fmt;

/// Type of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkType(pub u8);

impl ChunkType {
    /// User data.
    pub const DATA: Self = Self(0);
    /// Opens an association.
    pub const INIT: Self = Self(1);
    /// Answers INIT.
    pub const INIT_ACK: Self = Self(2);
    /// Selective acknowledgement.
    pub const SACK: Self = Self(3);
    /// Probes a path.
    pub const HEARTBEAT: Self = Self(4);
    /// Answers HEARTBEAT.
    pub const HEARTBEAT_ACK: Self = Self(5);
    /// Ends the association at once.
    pub const ABORT: Self = Self(6);
    /// Asks for a graceful end.
    pub const SHUTDOWN: Self = Self(7);
    /// Answers SHUTDOWN.
    pub const SHUTDOWN_ACK: Self = Self(8);
    /// Reports errors.
    pub const ERROR: Self = Self(9);
    /// Returns the State Cookie.
    pub const COOKIE_ECHO: Self = Self(10);
    /// Answers COOKIE ECHO.
    pub const COOKIE_ACK: Self = Self(11);
    /// A packet was marked Congestion Experienced.
    pub const ECNE: Self = Self(12);
    /// The congestion window was reduced.
    pub const CWR: Self = Self(13);
    /// Answers SHUTDOWN ACK.
    pub const SHUTDOWN_COMPLETE: Self = Self(14);
    /// Selective acknowledgement with data that is never taken back; draft-tuexen-tsvwg-sctp-multipath.
    pub const NR_SACK: Self = Self(16);
    /// Selective acknowledgement of new data; not in an RFC.
    pub const NEW_GAPS: Self = Self(189);
    /// Authenticates the following chunks, RFC 4895.
    pub const AUTH: Self = Self(15);
    /// Acknowledges ASCONF, RFC 5061.
    pub const ASCONF_ACK: Self = Self(128);
    /// Requests a change of addresses, RFC 5061.
    pub const ASCONF: Self = Self(193);
    /// User data whose messages can be interleaved, RFC 8260.
    pub const I_DATA: Self = Self(64);
    /// Gives up data sent in I-DATA chunks, RFC 8260.
    pub const I_FORWARD_TSN: Self = Self(194);
    /// Gives up data, RFC 3758.
    pub const FORWARD_TSN: Self = Self(192);
    /// Resets or adds streams, RFC 6525.
    pub const RE_CONFIG: Self = Self(130);
    /// Makes a packet longer, RFC 4820.
    pub const PAD: Self = Self(0x84);
    /// Encrypts the other chunks of a packet, draft-ietf-tsvwg-sctp-dtls-chunk.
    pub const DTLS: Self = Self(0x41);
    /// Departure and arrival times of a packet; not in an RFC.
    pub const TIMESTAMP: Self = Self(190);

    /// Returns the name of the chunk, as in RFC 9260; `None` for a type that this crate does not support.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::DATA => "DATA",
            Self::INIT => "INIT",
            Self::INIT_ACK => "INIT ACK",
            Self::SACK => "SACK",
            Self::HEARTBEAT => "HEARTBEAT",
            Self::HEARTBEAT_ACK => "HEARTBEAT ACK",
            Self::ABORT => "ABORT",
            Self::SHUTDOWN => "SHUTDOWN",
            Self::SHUTDOWN_ACK => "SHUTDOWN ACK",
            Self::ERROR => "ERROR",
            Self::COOKIE_ECHO => "COOKIE ECHO",
            Self::COOKIE_ACK => "COOKIE ACK",
            Self::ECNE => "ECNE",
            Self::CWR => "CWR",
            Self::SHUTDOWN_COMPLETE => "SHUTDOWN COMPLETE",
            Self::NR_SACK => "NR-SACK",
            Self::NEW_GAPS => "NEW GAPS",
            Self::AUTH => "AUTH",
            Self::ASCONF => "ASCONF",
            Self::ASCONF_ACK => "ASCONF-ACK",
            Self::FORWARD_TSN => "FORWARD TSN",
            Self::I_DATA => "I-DATA",
            Self::I_FORWARD_TSN => "I-FORWARD-TSN",
            Self::RE_CONFIG => "RE-CONFIG",
            Self::PAD => "PAD",
            Self::DTLS => "DTLS",
            Self::TIMESTAMP => "TIMESTAMP",
            _ => return None,
        })
    }

    /// Returns whether this crate parses the chunk's value.
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.name().is_some()
    }

    /// Returns whether RFC 9260 §3 forbids other chunks in the same packet: INIT, INIT ACK and SHUTDOWN COMPLETE.
    // [9260:3-1]
    #[must_use]
    pub const fn must_be_alone(self) -> bool {
        matches!(self, Self::INIT | Self::INIT_ACK | Self::SHUTDOWN_COMPLETE)
    }

    /// Returns the action for an unrecognized type (§3.2).
    #[must_use]
    pub const fn action(self) -> UnknownAction {
        UnknownAction::from_high_bits(self.0 >> 6)
    }
}

impl fmt::Display for ChunkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type {}", self.0),
        }
    }
}

/// The action that the two highest bits of an unrecognized chunk or parameter type request (§3.2, §3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownAction {
    /// 00: stop processing this packet (or chunk).
    Stop,
    /// 01: stop processing it, and report the type.
    StopAndReport,
    /// 10: skip it and continue.
    Skip,
    /// 11: skip it, report it, and continue.
    SkipAndReport,
}

impl UnknownAction {
    /// Returns the action for a chunk type.
    #[must_use]
    pub const fn of_chunk_type(chunk_type: u8) -> Self {
        Self::from_high_bits(chunk_type >> 6)
    }

    /// Returns the action for a parameter type.
    #[must_use]
    pub const fn of_parameter_type(parameter_type: u16) -> Self {
        Self::from_high_bits((parameter_type >> 14) as u8)
    }

    /// Returns whether the rest of the packet (or chunk) is not processed.
    #[must_use]
    pub const fn stops(self) -> bool {
        matches!(self, Self::Stop | Self::StopAndReport)
    }

    /// Returns whether it is reported to the peer.
    #[must_use]
    pub const fn reports(self) -> bool {
        matches!(self, Self::StopAndReport | Self::SkipAndReport)
    }

    const fn from_high_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Stop,
            1 => Self::StopAndReport,
            2 => Self::Skip,
            _ => Self::SkipAndReport,
        }
    }
}
