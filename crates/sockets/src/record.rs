//! Records of a socket pair: a header, and the bytes of a message, of a notification or of nothing.

use std::net::SocketAddr;

use crate::address;

/// Bytes of a header.
pub(crate) const HEADER: usize = 64;
/// Bytes of data in a record to the program at most. A longer message takes several records.
pub(crate) const MAX_PART: usize = 128 << 10;

const MAGIC: u32 = 0x3142_4d57;

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Kind {
    /// User data.
    #[default]
    Data,
    /// A notification (RFC 6458 §6).
    Notification,
    /// The association has failed; `value` is the errno.
    Error,
    /// An association to accept: its descriptor comes with the record, `value` is the number of its socket, `context` has the bits of
    /// `control::reading`. From the program, on the new pair: it has taken it.
    Accepted,
    /// Nothing: it keeps a socket without association from being writable.
    Filler,
}

/// The header of a record. `flags` and `ppid` are as in `struct sctp_sndrcvinfo`: the latter in the byte order of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// The message or notification ends with this record.
    pub(crate) end: bool,
    pub(crate) stream: u16,
    pub(crate) flags: u16,
    pub(crate) ppid: u32,
    pub(crate) context: u32,
    pub(crate) assoc: i32,
    /// Depends on the kind. Data to send: `sinfo_timetolive`, or the value of the policy (RFC 7496) that is in `flags`.
    pub(crate) value: u32,
    /// Peer's address: where a message came from, or is to go.
    pub(crate) addr: Option<SocketAddr>,
}

impl Header {
    /// Returns the header as bytes.
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let kind: u16 = match self.kind {
            Kind::Data => 1,
            Kind::Notification => 2,
            Kind::Error => 3,
            Kind::Accepted => 4,
            Kind::Filler => 5,
        };
        let mut bytes = [0; HEADER];
        bytes[0..4].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&u16::from(self.end).to_ne_bytes());
        bytes[8..10].copy_from_slice(&self.stream.to_ne_bytes());
        bytes[10..12].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.ppid.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.context.to_ne_bytes());
        bytes[20..24].copy_from_slice(&self.assoc.to_ne_bytes());
        bytes[24..28].copy_from_slice(&self.value.to_ne_bytes());
        if let Some(addr) = self.addr {
            let addr = address::bytes(addr);
            bytes[32..32 + addr.len()].copy_from_slice(&addr);
        }
        bytes
    }

    /// Returns the header at the beginning of a record, `None` if it is none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER] = bytes.get(..HEADER)?.try_into().ok()?;
        let u16_at = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if u32_at(0) != MAGIC {
            return None;
        }
        let kind = match u16_at(4) {
            1 => Kind::Data,
            2 => Kind::Notification,
            3 => Kind::Error,
            4 => Kind::Accepted,
            5 => Kind::Filler,
            _ => return None,
        };
        Some(Header {
            kind,
            end: u16_at(6) != 0,
            stream: u16_at(8),
            flags: u16_at(10),
            ppid: u32_at(12),
            context: u32_at(16),
            assoc: u32_at(20).cast_signed(),
            value: u32_at(24),
            addr: address::parse(&bytes[32..]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_survives_encoding() {
        let header = Header {
            kind: Kind::Notification,
            end: true,
            stream: 3,
            flags: 1,
            ppid: 0x0102_0304,
            context: 9,
            assoc: -2,
            value: 104,
            addr: Some("[2001:db8::7]:99".parse().unwrap()),
        };
        assert_eq!(Header::decode(&header.encode()), Some(header));
        let none = Header::default();
        assert_eq!(Header::decode(&none.encode()), Some(none));
        assert_eq!(Header::decode(&[0; HEADER]), None);
        assert_eq!(Header::decode(&header.encode()[..10]), None);
    }
}
