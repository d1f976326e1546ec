//! A TCP segment as a structure (RFC 9293 §3.1): header fields and the length of the payload.

/// Length of the header without options.
const BASE_HEADER: u32 = 20;
/// Largest number of SACK blocks without other options (RFC 2018 §3).
const MAX_BLOCKS: usize = 4;
/// Largest number of SACK blocks together with timestamps.
const MAX_BLOCKS_WITH_TIMESTAMPS: usize = 3;

/// The control bits of a header, including reserved bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct TcpFlags(u16);

impl TcpFlags {
    /// No flags.
    pub const NONE: TcpFlags = TcpFlags(0);
    /// The sender has no more data.
    pub const FIN: TcpFlags = TcpFlags(0x001);
    /// Sequence numbers are synchronised.
    pub const SYN: TcpFlags = TcpFlags(0x002);
    /// Push: no data is waiting after this segment.
    pub const PSH: TcpFlags = TcpFlags(0x008);
    /// The acknowledgement number is valid.
    pub const ACK: TcpFlags = TcpFlags(0x010);
    /// ECN-Echo (RFC 3168).
    pub const ECE: TcpFlags = TcpFlags(0x040);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: TcpFlags = TcpFlags(0x080);
    /// Echo of the explicit congestion indication (Shishir 2000): one of the reserved bits.
    pub const ECI: TcpFlags = TcpFlags(0x200);

    /// Returns the union of both sets.
    #[must_use]
    pub const fn with(self, other: TcpFlags) -> Self {
        TcpFlags(self.0 | other.0)
    }

    /// Returns this set without the bits of another.
    #[must_use]
    pub(crate) const fn without(self, other: TcpFlags) -> Self {
        TcpFlags(self.0 & !other.0)
    }

    /// Returns these bits and, if `wanted`, the others.
    #[must_use]
    pub const fn with_if(self, other: TcpFlags, wanted: bool) -> Self {
        if wanted { self.with(other) } else { self }
    }

    /// Returns whether every bit of `other` is set.
    pub const fn has(self, other: TcpFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the twelve bits after the data offset.
    pub const fn bits(self) -> u16 {
        self.0
    }
}

/// A TCP segment without its payload, of which only the length is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpSegment {
    /// Port of the sending end.
    pub source_port: u16,
    /// Port of the receiving end.
    pub destination_port: u16,
    /// Sequence number of its first byte.
    pub seq: u32,
    /// Acknowledgement number: the next byte expected.
    pub ack: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Receive window as in the header, before scaling.
    pub window: u16,
    /// Option: maximum segment size of the end (RFC 9293 §3.7.1), bytes.
    pub mss: Option<u16>,
    /// Option: window scale (RFC 7323 §2).
    pub window_scale: Option<u8>,
    /// Option: selective acknowledgements permitted (RFC 2018).
    pub sack_permitted: bool,
    /// Option: timestamp and its echo (RFC 7323 §3), in microseconds.
    pub timestamps: Option<(u32, u32)>,
    /// Bytes of payload.
    pub payload: u32,
    /// Option: selective acknowledgements (RFC 2018).
    pub sack: SackBlocks,
}

/// SACK blocks: first sequence number of each, and the number after its last (RFC 2018 §3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlocks {
    blocks: [(u32, u32); MAX_BLOCKS],
    count: u8,
}

impl SackBlocks {
    /// Returns the blocks in order.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }
}

impl TcpSegment {
    /// Adds a SACK block. Returns whether there was room.
    pub(crate) fn push_sack_block(&mut self, block: (u32, u32)) -> bool {
        let most = if self.timestamps.is_some() {
            MAX_BLOCKS_WITH_TIMESTAMPS
        } else {
            MAX_BLOCKS
        };
        let place = usize::from(self.sack.count);
        if place >= most {
            return false;
        }
        self.sack.blocks[place] = block;
        self.sack.count += 1;
        true
    }

    /// Returns the length of the header in bytes, including options and padding.
    pub fn header_len(&self) -> u32 {
        let mut options = 0;
        options += if self.mss.is_some() { 4 } else { 0 };
        options += if self.window_scale.is_some() { 3 } else { 0 };
        options += if self.sack_permitted { 2 } else { 0 };
        options += if self.timestamps.is_some() { 10 } else { 0 };
        options += if self.sack.count > 0 {
            2 + 8 * u32::from(self.sack.count)
        } else {
            0
        };
        BASE_HEADER + u32::next_multiple_of(options, 4)
    }

    /// Returns the bytes after the IP header.
    pub fn len(&self) -> u32 {
        self.header_len() + self.payload
    }

    /// Returns false: there is always a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns the length in sequence numbers: payload, SYN and FIN.
    pub fn sequence_len(&self) -> u32 {
        self.payload + u32::from(self.flags.has(TcpFlags::SYN)) + u32::from(self.flags.has(TcpFlags::FIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_lengths_of_their_options() {
        let mut segment = TcpSegment::default();
        assert_eq!(segment.header_len(), 20);
        segment.timestamps = Some((1, 2));
        // Ten bytes and two of padding
        assert_eq!(segment.header_len(), 32);
        let syn = TcpSegment {
            mss: Some(1460),
            window_scale: Some(2),
            sack_permitted: true,
            flags: TcpFlags::SYN,
            ..segment
        };
        assert_eq!((syn.header_len(), syn.sequence_len()), (40, 1));
        for (blocks, len) in [(1, 40), (2, 48), (3, 56)] {
            assert!(segment.push_sack_block((blocks, blocks + 1)));
            assert_eq!(segment.header_len(), len);
        }
        // RFC 2018 §3: three blocks together with timestamps, four without; at most 40 bytes of options
        assert!(!segment.push_sack_block((9, 10)));
        let mut plain = TcpSegment::default();
        assert!((0..4).all(|i| plain.push_sack_block((i, i + 1))));
        assert!(!plain.push_sack_block((9, 10)));
        assert_eq!(plain.header_len(), 56);
    }
}
