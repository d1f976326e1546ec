//! A packet carried through a simulation without its zeros and without a checksum.

use crate::chunk::{Chunk, DATA_HEADER_LEN, ELIDED, Payload};
use crate::packet::{COMMON_HEADER_LEN, CommonHeader, PacketView};
use crate::sink::PacketSink;

/// A packet kept by the simulator: a [`PacketSink`] that can be read again as a [`PacketView`].
///
/// It keeps the chunks as they would stand in a packet, except that user data given as [`Payload::Zeros`] is only
/// counted. Cleared and filled again it does not allocate once its vector has grown to the largest packet.
#[derive(Clone, Debug, Default)]
pub struct OwnedPacket {
    header: CommonHeader,
    /// Bytes of user data and padding that `chunks` does not hold.
    elided: u32,
    chunks: Vec<u8>,
}

impl OwnedPacket {
    /// An empty packet. Allocates nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        let header = CommonHeader {
            source_port: 0,
            destination_port: 0,
            verification_tag: 0,
        };
        Self {
            header,
            elided: 0,
            chunks: Vec::new(),
        }
    }

    /// Removes all chunks and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.elided = 0;
    }

    /// The packet as its receiver sees it.
    #[must_use]
    #[inline]
    pub fn view(&self) -> PacketView<'_> {
        PacketView::of_elided(self.header, &self.chunks, self.wire_len())
    }

    /// Bytes the packet would take on the wire, common header included: what [`crate::ByteSink`] would write.
    #[must_use]
    #[inline]
    pub fn wire_len(&self) -> usize {
        COMMON_HEADER_LEN + self.chunks.len() + self.elided as usize
    }

    /// Bytes of memory held for chunks.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.chunks.capacity()
    }
}

impl PacketSink for OwnedPacket {
    #[inline]
    fn begin(&mut self, header: CommonHeader) {
        self.clear();
        self.header = header;
    }

    #[inline]
    fn push(&mut self, chunk: &Chunk<'_>) {
        match chunk {
            Chunk::Data(data) if matches!(data.payload, Payload::Zeros(_)) => {
                self.chunks.extend_from_slice(&data.header(ELIDED));
                self.elided += (chunk.wire_len() - DATA_HEADER_LEN) as u32;
            }
            chunk => chunk.encode(&mut self.chunks),
        }
    }

    #[inline]
    fn finish(&mut self) -> usize {
        self.wire_len()
    }
}
