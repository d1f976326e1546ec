//! The checksum of an SCTP packet: CRC32c, RFC 9260 §6.8 and Appendix A.
//!
//! The CRC is computed with the checksum field taken as zero and stored *least* significant byte first, unlike all
//! other fields: Appendix A maps bit 31 of the remainder to bit 7 of the first byte after reflection.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

use crate::packet::{COMMON_HEADER_LEN, CommonHeader};

/// Position of the checksum field in a packet.
pub(crate) const CHECKSUM_FIELD: std::ops::Range<usize> = 8..12;

/// Returns the CRC32c (Castagnoli, as in iSCSI) of these bytes.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes)
}

/// Returns the correct checksum of `packet`, independent of its checksum field. The packet is neither changed nor copied. `None` if
/// it is shorter than a common header.
// [9260:6.8-1, 6.8-2]
#[must_use]
pub fn packet_checksum(packet: &[u8]) -> Option<u32> {
    let (header, chunks) = packet.split_first_chunk::<COMMON_HEADER_LEN>()?;
    Some(checksum_of_parts(header, chunks))
}

/// Returns the same for a packet split after the common header.
pub(crate) fn checksum_of_parts(header: &[u8; COMMON_HEADER_LEN], chunks: &[u8]) -> u32 {
    let mut zeroed = *header;
    zeroed[CHECKSUM_FIELD].fill(0);
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&zeroed);
    digest.update(chunks);
    digest.finalize() as u32
}

/// Returns the checksum field of `packet`. `None` if it is shorter than a common header.
#[must_use]
pub fn stored_checksum(packet: &[u8]) -> Option<u32> {
    let header = packet.first_chunk::<COMMON_HEADER_LEN>()?;
    Some(u32::from_le_bytes([header[8], header[9], header[10], header[11]]))
}

/// Returns the common header in wire form with a zero checksum.
pub(crate) fn header_bytes(header: &CommonHeader) -> [u8; COMMON_HEADER_LEN] {
    let [s0, s1] = header.source_port.to_be_bytes();
    let [d0, d1] = header.destination_port.to_be_bytes();
    let [v0, v1, v2, v3] = header.verification_tag.to_be_bytes();
    [s0, s1, d0, d1, v0, v1, v2, v3, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appendix A bit by bit: reflected polynomial, register preset to ones, result complemented.
    fn bitwise(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
            })
        })
    }

    // RFC 3720 appendix B.4 (iSCSI, the same CRC) and the usual check value.
    // [9260:6.8-1]
    #[test]
    fn known_vectors() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|i| i as u8)), 0x46dd_794e);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|i| 31 - i as u8)), 0x113f_db5c);
    }

    // RFC 9260 §6.8: the field counts as zero, whatever it holds.
    // [9260:6.8-2]
    #[test]
    fn checksum_field_counts_as_zero_at_every_length() {
        let packet: Vec<u8> = (0..2000_u32).map(|i| ((i * i) >> 3) as u8).collect();
        for len in (12..300).chain([1200, 1452, 1500, 2000]) {
            let mut zeroed = packet[..len].to_vec();
            zeroed[CHECKSUM_FIELD].fill(0);
            assert_eq!(packet_checksum(&packet[..len]), Some(bitwise(&zeroed)), "{len} bytes");
        }
        assert_eq!(packet_checksum(&packet[..11]), None);
        assert_eq!(stored_checksum(&packet[..11]), None);
    }

    // Appendix A: the low byte of the CRC comes first.
    #[test]
    fn stored_least_significant_byte_first() {
        let mut packet = [0; 16];
        packet[CHECKSUM_FIELD].copy_from_slice(&[0x01, 0x02, 0x03, 0x04]);
        assert_eq!(stored_checksum(&packet), Some(0x0403_0201));
    }
}
