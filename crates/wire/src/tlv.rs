//! Type-length-value lists, RFC 9260 §3.2.1: the common format of parameters and error causes.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |             type              |   length: 4 + bytes of value  |
//! +-------------------------------+-------------------------------+
//! |  value ...                                    | 0..3 zeros    |
//! +-----------------------------------------------+---------------+
//! ```

use std::fmt;

use thiserror::Error;

/// Length of the type and length fields before every parameter and error cause, in bytes (§3.2.1).
pub const TLV_HEADER_LEN: usize = 4;

/// Maximum length of a TLV's value, bytes.
pub const MAX_TLV_VALUE_LEN: usize = u16::MAX as usize - TLV_HEADER_LEN;

/// Why a parameter or an error cause could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TlvError {
    /// Fewer bytes are left than a type and a length field need. The list ends here.
    #[error("{available} stray bytes where a type and a length should be")]
    Truncated {
        /// Remaining bytes.
        available: usize,
    },
    /// The length field is below 4 or exceeds the list. The list ends here.
    #[error("type {tlv_type} has length {length}, {available} bytes are left")]
    BadLength {
        /// The type or cause code.
        tlv_type: u16,
        /// The length field as received.
        length: u16,
        /// Remaining bytes in the list, from the type field on.
        available: usize,
    },
    /// The value does not have the size or format of its type. The rest of the list can still be parsed.
    #[error("type {tlv_type} with a value of {value_len} bytes is malformed")]
    BadValue {
        /// The type or cause code.
        tlv_type: u16,
        /// Bytes of value.
        value_len: usize,
    },
}

/// One TLV in wire form, without padding. The length field equals the number of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawTlv<'a> {
    bytes: &'a [u8],
}

impl<'a> RawTlv<'a> {
    /// Parses one TLV; `None` if `bytes` is shorter than a TLV header or disagrees with the length field.
    #[must_use]
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        let [_, _, l0, l1] = *bytes.first_chunk()?;
        (usize::from(u16::from_be_bytes([l0, l1])) == bytes.len()).then_some(Self { bytes })
    }

    /// Returns the parameter type or cause code.
    #[must_use]
    pub fn tlv_type(self) -> u16 {
        self.bytes.first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes))
    }

    /// Returns the value: everything after the length field.
    #[must_use]
    pub fn value(self) -> &'a [u8] {
        self.bytes.get(TLV_HEADER_LEN..).unwrap_or_default()
    }

    /// Returns the whole TLV with type and length, as reports of unrecognized parameters must contain it (§3.2.2).
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Appends the TLV to a list that starts at a multiple of four in `list`; see [`append_tlv`].
    pub fn emit(self, list: &mut Vec<u8>) {
        append_tlv(list, self.bytes);
    }

    pub(crate) fn bad_value(self) -> TlvError {
        TlvError::BadValue {
            tlv_type: self.tlv_type(),
            value_len: self.value().len(),
        }
    }
}

impl fmt::Debug for RawTlv<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawTlv(type {}, {:02x?})", self.tlv_type(), self.value())
    }
}

/// Iterator over the TLVs of a list. An invalid length is reported once and ends the iteration.
#[derive(Clone, Debug)]
pub struct RawTlvs<'a> {
    rest: &'a [u8],
}

impl<'a> RawTlvs<'a> {
    /// Iterates over `list`, in which each TLV is padded to a multiple of four bytes (the last one may be unpadded).
    #[must_use]
    pub fn new(list: &'a [u8]) -> Self {
        Self { rest: list }
    }
}

impl<'a> Iterator for RawTlvs<'a> {
    type Item = Result<RawTlv<'a>, TlvError>;

    // [9260:3.2.1-3]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest;
        if rest.is_empty() {
            return None;
        }
        self.rest = &[];
        let available = rest.len();
        let Some(&[t0, t1, l0, l1]) = rest.first_chunk() else {
            return Some(Err(TlvError::Truncated { available }));
        };
        let length = u16::from_be_bytes([l0, l1]);
        let bytes = match rest.get(..usize::from(length)) {
            Some(bytes) if bytes.len() >= TLV_HEADER_LEN => bytes,
            _ => {
                let tlv_type = u16::from_be_bytes([t0, t1]);
                return Some(Err(TlvError::BadLength {
                    tlv_type,
                    length,
                    available,
                }));
            }
        };
        // §3.2.1: padding is skipped; §3.2 requires to accept a last parameter with or without it.
        self.rest = rest.get(padded(bytes.len())..).unwrap_or_default();
        Some(Ok(RawTlv { bytes }))
    }
}

/// Appends a TLV in wire form (type, length, value) to a list of TLVs.
///
/// Padding is written *in front*, so that the last TLV of a list is unpadded and the list's length is the value for the Chunk
/// Length field (§3.2). The list must therefore start at a multiple of four in `list`, for example in an empty vector.
pub fn append_tlv(list: &mut Vec<u8>, tlv: &[u8]) {
    pad(list);
    list.extend_from_slice(tlv);
}

/// Appends type, length and value. A value longer than [`MAX_TLV_VALUE_LEN`] is truncated.
pub(crate) fn append(list: &mut Vec<u8>, tlv_type: u16, value: &[u8]) {
    append_parts(list, tlv_type, &[], value);
}

/// Appends a TLV whose value has two parts, of which `head` is short.
pub(crate) fn append_parts(list: &mut Vec<u8>, tlv_type: u16, head: &[u8], tail: &[u8]) {
    pad(list);
    let tail = &tail[..tail.len().min(MAX_TLV_VALUE_LEN - head.len())];
    let length = (TLV_HEADER_LEN + head.len() + tail.len()) as u16;
    let [t0, t1] = tlv_type.to_be_bytes();
    let [l0, l1] = length.to_be_bytes();
    list.extend_from_slice(&[t0, t1, l0, l1]);
    list.extend_from_slice(head);
    list.extend_from_slice(tail);
}

/// Returns the longest run of complete TLVs at the front of `list` with at most `max` bytes.
pub(crate) fn whole_within(list: &[u8], max: usize) -> &[u8] {
    if list.len() <= max {
        return list;
    }
    let mut end = 0;
    for tlv in RawTlvs::new(list).map_while(Result::ok) {
        let next = padded(end) + tlv.bytes.len();
        if next > max {
            break;
        }
        end = next;
    }
    &list[..end]
}

/// Returns `len` rounded up to a multiple of four.
pub(crate) const fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// Appends zeros up to a multiple of four bytes.
// [9260:3.2.1-1, 3.2.1-2]
pub(crate) fn pad(bytes: &mut Vec<u8>) {
    let missing = bytes.len().wrapping_neg() & 3;
    bytes.extend_from_slice(&[0; 3][..missing]);
}

/// A list of 16-bit numbers, big-endian as on the wire: Supported Address Types (§3.3.2.1.5), the missing
/// parameters of an error cause (§3.3.10.2), and streams (RFC 6525 §4.1).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NumberList<'a> {
    bytes: &'a [u8],
}

impl<'a> NumberList<'a> {
    /// The parameter types of IPv4 and IPv6 addresses.
    pub const IPV4_AND_IPV6: NumberList<'static> = NumberList { bytes: &[0, 5, 0, 6] };
    /// The parameter type of IPv4 addresses.
    pub const IPV4: NumberList<'static> = NumberList { bytes: &[0, 5] };
    /// The parameter type of IPv6 addresses.
    pub const IPV6: NumberList<'static> = NumberList { bytes: &[0, 6] };
    /// Only the State Cookie: the parameter that an INIT ACK may lack.
    pub const STATE_COOKIE: NumberList<'static> = NumberList { bytes: &[0, 7] };

    /// Random and HMAC-ALGO: the parameters that a peer without authentication lacks (RFC 4895 §6.1).
    pub const AUTHENTICATION: NumberList<'static> = NumberList {
        bytes: &[0x80, 2, 0x80, 4],
    };

    /// Borrows big-endian 16-bit numbers; an odd last byte is ignored.
    #[must_use]
    pub fn from_wire_bytes(bytes: &'a [u8]) -> Self {
        Self {
            bytes: &bytes[..bytes.len() & !1],
        }
    }

    /// Returns the numbers in wire form, two bytes each.
    #[must_use]
    pub fn wire_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(self) -> usize {
        self.bytes.len() / 2
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the numbers in the order of the wire.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u16> + 'a {
        self.bytes.as_chunks().0.iter().map(|pair| u16::from_be_bytes(*pair))
    }

    /// Returns whether `number` is listed.
    #[must_use]
    pub fn contains(self, number: u16) -> bool {
        self.iter().any(|listed| listed == number)
    }
}

impl fmt::Debug for NumberList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(list: &[u8]) -> Vec<Result<usize, TlvError>> {
        RawTlvs::new(list).map(|tlv| tlv.map(|tlv| tlv.bytes().len())).collect()
    }

    // §3.2.1: the length excludes the padding; §3.2: the last one may be padded or not.
    // [9260:3.2.1-3]
    // [dtls:4.1-5, 4.1-6]
    #[test]
    fn padding_between_and_behind() {
        for filler in [0, 0xff] {
            let list = [0, 7, 0, 5, 0xaa, filler, filler, filler, 0, 9, 0, 6, 1, 2];
            assert_eq!(lengths(&list), [Ok(5), Ok(6)]);
            assert_eq!(lengths(&[list.as_slice(), &[filler; 2]].concat()), [Ok(5), Ok(6)]);
        }
        assert_eq!(lengths(&[]), []);
    }

    #[test]
    fn a_bad_length_is_reported_once_and_ends_the_list() {
        let good = [0, 7, 0, 4];
        for length in [0, 1, 3, 9, 0xffff_u16] {
            let [l0, l1] = length.to_be_bytes();
            let list = [&good[..], &[0x80, 1, l0, l1, 0, 0, 0, 0]].concat();
            assert_eq!(
                lengths(&list),
                [
                    Ok(4),
                    Err(TlvError::BadLength {
                        tlv_type: 0x8001,
                        length,
                        available: 8
                    })
                ],
                "{length}"
            );
        }
        for stray in 1..4 {
            let list = [&good[..], &[0xff; 3][..stray]].concat();
            assert_eq!(lengths(&list), [Ok(4), Err(TlvError::Truncated { available: stray })]);
        }
    }

    // [9260:3.2.1-1, 3.2.1-2]
    #[test]
    fn appending_pads_in_front() {
        let mut list = Vec::new();
        append(&mut list, 7, &[0xaa]);
        assert_eq!(list, [0, 7, 0, 5, 0xaa]);
        append_tlv(&mut list, &[0x80, 0, 0, 4]);
        assert_eq!(list, [0, 7, 0, 5, 0xaa, 0, 0, 0, 0x80, 0, 0, 4]);
    }

    #[test]
    fn a_value_is_cut_where_the_length_field_ends() {
        let mut list = Vec::new();
        append_parts(&mut list, 13, &[1, 2], &[9; 70_000]);
        assert_eq!(list.len(), 65535);
        assert_eq!(list[..6], [0, 13, 0xff, 0xff, 1, 2]);
        assert_eq!(lengths(&list), [Ok(65535)]);
    }

    #[test]
    fn whole_tlvs_that_fit() {
        let list = [0, 1, 0, 5, 1, 0, 0, 0, 0, 2, 0, 4, 0, 3, 0, 4];
        assert_eq!(whole_within(&list, 16).len(), 16);
        assert_eq!(whole_within(&list, 15).len(), 12);
        assert_eq!(whole_within(&list, 12).len(), 12);
        assert_eq!(whole_within(&list, 11).len(), 5);
        assert_eq!(whole_within(&list, 4).len(), 0);
    }

    #[test]
    fn raw_tlv_must_agree_with_its_length() {
        assert!(RawTlv::from_bytes(&[0, 1, 0]).is_none());
        assert!(RawTlv::from_bytes(&[0, 1, 0, 3]).is_none());
        assert!(RawTlv::from_bytes(&[0, 1, 0, 4, 0]).is_none());
        let tlv = RawTlv::from_bytes(&[0xc0, 1, 0, 6, 8, 9]).expect("six bytes announced, six there");
        assert_eq!(
            (tlv.tlv_type(), tlv.value(), tlv.bytes().len()),
            (0xc001, &[8, 9][..], 6)
        );
    }

    #[test]
    fn type_lists() {
        assert_eq!(NumberList::IPV4_AND_IPV6.iter().collect::<Vec<_>>(), [5, 6]);
        assert!(NumberList::IPV6.contains(6) && !NumberList::IPV6.contains(5));
        assert_eq!(NumberList::from_wire_bytes(&[0, 5, 0]), NumberList::IPV4);
    }
}
