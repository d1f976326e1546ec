//! Where packets are written to: bytes for the network, or [structures](crate::OwnedPacket) for a simulator.

use crate::chunk::Chunk;
use crate::crc;
use crate::packet::{COMMON_HEADER_LEN, CommonHeader};

/// Takes one packet after the other: [`begin`](Self::begin), [`push`](Self::push) for each chunk,
/// [`finish`](Self::finish).
///
/// The sink knows nothing of bundling rules and path MTU; [`Chunk::wire_len`] tells beforehand what a chunk takes.
pub trait PacketSink {
    /// Starts a packet.
    fn begin(&mut self, header: CommonHeader);

    /// Adds a chunk at the end of the packet.
    ///
    /// # Panics
    /// When a DATA chunk has more than [`MAX_DATA_PAYLOAD_LEN`](crate::MAX_DATA_PAYLOAD_LEN) bytes of user data.
    fn push(&mut self, chunk: &Chunk<'_>);

    /// Ends the packet and returns its length on the wire in bytes, common header included.
    fn finish(&mut self) -> usize;
}

/// What [`ByteSink`] writes into the checksum field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumField {
    /// The CRC32c of the packet (§6.8).
    Compute,
    /// Zero: the packet never leaves memory, or hardware computes the checksum.
    Zero,
}

/// Appends packets in wire form to a vector.
#[derive(Debug)]
pub struct ByteSink<'b> {
    out: &'b mut Vec<u8>,
    checksum: ChecksumField,
    /// Where the current packet begins in `out`.
    start: usize,
}

impl<'b> ByteSink<'b> {
    /// Appends to `out`, leaving what is there.
    pub fn new(out: &'b mut Vec<u8>, checksum: ChecksumField) -> Self {
        let start = out.len();
        Self { out, checksum, start }
    }
}

impl PacketSink for ByteSink<'_> {
    fn begin(&mut self, header: CommonHeader) {
        self.start = self.out.len();
        self.out.extend_from_slice(&crc::header_bytes(&header));
    }

    fn push(&mut self, chunk: &Chunk<'_>) {
        chunk.encode(self.out);
    }

    fn finish(&mut self) -> usize {
        let packet = &mut self.out[self.start..];
        if self.checksum == ChecksumField::Compute && packet.len() >= COMMON_HEADER_LEN {
            // The field is still zero, as §6.8 wants it for the computation.
            let crc = crc::crc32c(packet);
            packet[crc::CHECKSUM_FIELD].copy_from_slice(&crc.to_le_bytes());
        }
        packet.len()
    }
}
