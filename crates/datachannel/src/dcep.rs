//! The messages of the Data Channel Establishment Protocol (RFC 8832 §5).

use crate::channel::{ChannelConfig, Flaw};
use whimbrel_control::Span;
use whimbrel_proto::Reliability;

/// The message types (RFC 8832 §8.2.1).
const ACK: u8 = 0x02;
const OPEN: u8 = 0x03;

/// The bit of a channel type that makes it unordered (RFC 8832 §8.2.2).
const UNORDERED: u8 = 0x80;

/// The channel types without that bit.
const RELIABLE: u8 = 0x00;
const RETRANSMISSIONS: u8 = 0x01;
const TIMED: u8 = 0x02;

/// Length in bytes of a DATA_CHANNEL_OPEN without its label and protocol.
const HEADER_LEN: usize = 12;

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Dcep {
    /// DATA_CHANNEL_OPEN
    Open(ChannelConfig),
    /// DATA_CHANNEL_ACK
    Ack,
}

impl Dcep {
    /// Reads a message.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Dcep, Flaw> {
        match bytes {
            [ACK] => Ok(Dcep::Ack),
            [OPEN, rest @ ..] => parse_open(rest).map(Dcep::Open),
            _ => Err(Flaw::NotDcep),
        }
    }

    /// Returns the bytes of a message. The label and the protocol have at most 65535 bytes each.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let config = match self {
            Dcep::Ack => return vec![ACK],
            Dcep::Open(config) => config,
        };
        let (kind, parameter) = match config.reliability {
            Reliability::Retransmissions(most) => (RETRANSMISSIONS, most),
            Reliability::Lifetime(time) => (TIMED, u32::try_from(time.as_millis()).unwrap_or(u32::MAX)),
            // [8832:5.1-1]
            Reliability::Full | Reliability::Priority(_) => (RELIABLE, 0),
        };
        let unordered = if config.unordered { UNORDERED } else { 0 };
        let mut bytes = vec![OPEN, kind | unordered];
        bytes.extend(config.priority.to_be_bytes());
        bytes.extend(parameter.to_be_bytes());
        for name in [&config.label, &config.protocol] {
            bytes.extend((name.len() as u16).to_be_bytes());
        }
        bytes.extend(config.label.as_bytes());
        bytes.extend(config.protocol.as_bytes());
        bytes
    }
}

/// Reads what follows the message type.
fn parse_open(rest: &[u8]) -> Result<ChannelConfig, Flaw> {
    let (fixed, names) = rest.split_first_chunk::<{ HEADER_LEN - 1 }>().ok_or(Flaw::Lengths)?;
    let [kind, p0, p1, r0, r1, r2, r3, l0, l1, q0, q1] = *fixed;
    let parameter = u32::from_be_bytes([r0, r1, r2, r3]);
    let reliability = match kind & !UNORDERED {
        // [8832:5.1-2]
        RELIABLE => Reliability::Full,
        RETRANSMISSIONS => Reliability::Retransmissions(parameter),
        TIMED => Reliability::Lifetime(Span::from_millis(parameter.into())),
        _ => return Err(Flaw::ChannelType(kind)),
    };
    let [label_len, protocol_len] = [[l0, l1], [q0, q1]].map(|len| usize::from(u16::from_be_bytes(len)));
    // §7: inconsistent lengths are an error.
    if names.len() != label_len + protocol_len {
        return Err(Flaw::Lengths);
    }
    let (label, protocol) = names.split_at(label_len);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Flaw::NotUtf8);
    Ok(ChannelConfig {
        label: text(label)?,
        protocol: text(protocol)?,
        unordered: kind & UNORDERED != 0,
        reliability,
        priority: u16::from_be_bytes([p0, p1]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> ChannelConfig {
        ChannelConfig {
            label: "chat".to_owned(),
            protocol: "p1".to_owned(),
            unordered: true,
            reliability: Reliability::Retransmissions(7),
            priority: 512,
        }
    }

    /// RFC 8832 §5.1, field by field.
    const BYTES: [u8; 18] = *b"\x03\x81\x02\x00\x00\x00\x00\x07\x00\x04\x00\x02chatp1";

    // [8832:5.1-1]
    #[test]
    fn rfc_8832_5_1_the_fields_of_an_open() {
        assert_eq!(Dcep::Open(open()).to_bytes(), BYTES);
        assert_eq!(Dcep::parse(&BYTES), Ok(Dcep::Open(open())));
        let timed = |reliability, unordered| ChannelConfig {
            reliability,
            unordered,
            ..ChannelConfig::default()
        };
        for (config, kind, parameter) in [
            (timed(Reliability::Full, false), 0x00, 0),
            (timed(Reliability::Full, true), 0x80, 0),
            (timed(Reliability::Retransmissions(0), false), 0x01, 0),
            (timed(Reliability::Lifetime(Span::from_millis(1500)), false), 0x02, 1500),
            (timed(Reliability::Lifetime(Span::from_millis(1500)), true), 0x82, 1500),
        ] {
            let bytes = Dcep::Open(config.clone()).to_bytes();
            assert_eq!((bytes[1], bytes[7] as u32 + 256 * bytes[6] as u32), (kind, parameter));
            assert_eq!(Dcep::parse(&bytes), Ok(Dcep::Open(config)));
        }
    }

    // [8832:5.1-2]
    #[test]
    fn rfc_8832_5_1_the_parameter_of_a_reliable_channel_is_ignored() {
        let bytes = b"\x03\x00\x01\x00\xff\xff\xff\xff\x00\x00\x00\x00";
        assert_eq!(Dcep::parse(bytes), Ok(Dcep::Open(ChannelConfig::default())));
    }

    #[test]
    fn names_have_up_to_65535_bytes() {
        let config = ChannelConfig {
            label: "l".repeat(65_535),
            protocol: "p".repeat(65_535),
            ..ChannelConfig::default()
        };
        let bytes = Dcep::Open(config.clone()).to_bytes();
        assert_eq!(Dcep::parse(&bytes), Ok(Dcep::Open(config)));
    }

    #[test]
    fn rfc_8832_5_2_an_ack_is_one_byte() {
        assert_eq!(Dcep::Ack.to_bytes(), [2]);
        assert_eq!(Dcep::parse(&[2]), Ok(Dcep::Ack));
        assert_eq!(Dcep::parse(&[2, 0]), Err(Flaw::NotDcep));
    }

    #[test]
    fn rfc_8832_7_malformed_messages_are_refused() {
        for kind in [0, 1, 4, 255] {
            assert_eq!(
                Dcep::parse(&[kind]),
                Err(Flaw::NotDcep),
                "reserved and unassigned types"
            );
        }
        assert_eq!(Dcep::parse(&[]), Err(Flaw::NotDcep));
        for len in 1..BYTES.len() {
            assert_eq!(Dcep::parse(&BYTES[..len]), Err(Flaw::Lengths), "{len} bytes");
        }
        let mut longer = BYTES.to_vec();
        longer.push(0);
        assert_eq!(Dcep::parse(&longer), Err(Flaw::Lengths));
        let with = |at: usize, byte: u8| {
            let mut bytes = BYTES;
            bytes[at] = byte;
            Dcep::parse(&bytes)
        };
        for kind in [0x03, 0x7f, 0x83, 0xff] {
            assert_eq!(with(1, kind), Err(Flaw::ChannelType(kind)));
        }
        assert_eq!(with(12, 0xff), Err(Flaw::NotUtf8));
        assert_eq!(with(17, 0xc0), Err(Flaw::NotUtf8));
    }
}
