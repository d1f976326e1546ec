//! DTLS Key Management, the parameter of INIT and INIT ACK that offers DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk, "DTLS Key Management
//! Parameter").
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          type 0x8006          |      length: 9 + methods      |
//! +-------------------------------+-------------------------------+
//! |                          tie breaker                          |
//! +---------+-+-+-+---------------+-------------------------------+
//! |  zero   |R|S|C|  methods, one byte each ...   | 0..3 zeros    |
//! +---------+-+-+-+-------------------------------+---------------+
//! ```

use crate::tlv;

/// Key management method 0: pre-shared key material, without messages.
pub const PRE_SHARED: u8 = 0;

/// Key management method 192: TLS 1.3 in user messages (draft-porfiri-tsvwg-sctp-dtls-handshake).
pub const TLS: u8 = 192;

/// Payload protocol identifier of the messages of key management.
pub const PPID: u32 = 4242;

/// The R, S and C bits.
const RESTART: u8 = 4;
const SERVER: u8 = 2;
const CLIENT: u8 = 1;

/// What an end offers for the keys of its DTLS chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyManagement<'a> {
    /// A random number. The end with the larger one is the server if both ends can be either.
    pub tie_breaker: u32,
    /// The sender can restart with the keys of a restart.
    pub restart: bool,
    /// The sender can be the server of the key management.
    pub server: bool,
    /// The sender can be the client of the key management.
    pub client: bool,
    /// Identifiers of the methods, at least one, the most preferred first.
    pub methods: &'a [u8],
}

impl<'a> KeyManagement<'a> {
    /// Parses the value of the parameter; `None` without a method.
    // [dtls:4.1-3, 4.1-4]
    pub(crate) fn decode(value: &'a [u8]) -> Option<Self> {
        let (tie_breaker, [roles, methods @ ..]) = value.split_first_chunk()? else {
            return None;
        };
        (!methods.is_empty()).then_some(KeyManagement {
            tie_breaker: u32::from_be_bytes(*tie_breaker),
            restart: roles & RESTART != 0,
            server: roles & SERVER != 0,
            client: roles & CLIENT != 0,
            methods,
        })
    }

    /// Appends the parameter to a list.
    // [dtls:4.1-1, 4.1-2, 4.1-5]
    pub(crate) fn emit(&self, parameter_type: u16, list: &mut Vec<u8>) {
        let mut fields = [0; 5];
        fields[..4].copy_from_slice(&self.tie_breaker.to_be_bytes());
        for (is_set, bit) in [(self.restart, RESTART), (self.server, SERVER), (self.client, CLIENT)] {
            fields[4] |= if is_set { bit } else { 0 };
        }
        tlv::append_parts(list, parameter_type, &fields, self.methods);
    }
}
