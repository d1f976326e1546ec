//! A packet in a simulation, without zeros and without a checksum.

use crate::chunk::{Chunk, ChunkType, ELIDED, Payload, auth, dtls};
use crate::packet::{COMMON_HEADER_LEN, CommonHeader, PacketView};
use crate::sink::PacketSink;

/// A packet of the simulator: a [`PacketSink`] that can be read as a [`PacketView`].
///
/// It stores the chunks as in a packet, except that user data given as [`Payload::Zeros`] is only counted, unless it is sealed. After `clear` it does
/// not allocate once its vector has grown to the largest packet.
#[derive(Clone, Debug, Default)]
pub struct OwnedPacket {
    header: CommonHeader,
    /// Bytes of user data and padding that `chunks` does not contain.
    elided: u32,
    chunks: Vec<u8>,
}

impl OwnedPacket {
    /// Creates an empty packet. Allocates nothing yet.
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

    /// Returns the packet as received.
    #[must_use]
    #[inline]
    pub fn view(&self) -> PacketView<'_> {
        PacketView::of_elided(self.header, &self.chunks, self.wire_len())
    }

    /// Returns the length of the packet on the wire in bytes, including the common header: what [`crate::ByteSink`] would write.
    #[must_use]
    #[inline]
    pub fn wire_len(&self) -> usize {
        COMMON_HEADER_LEN + self.chunks.len() + self.elided as usize
    }

    fn is_sealed(&self) -> bool {
        self.chunks.first() == Some(&ChunkType::DTLS.0)
    }

    /// Returns the bytes of memory allocated for chunks.
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
            Chunk::Data(data) if matches!(data.payload, Payload::Zeros(_)) && !self.is_sealed() => {
                data.encode_header(ELIDED, &mut self.chunks);
                self.elided += (chunk.wire_len() - data.header_len()) as u32;
            }
            chunk => chunk.encode(&mut self.chunks),
        }
    }

    fn begin_sealed(&mut self) {
        dtls::begin(&mut self.chunks);
    }

    fn seal(&mut self, trailer: usize, seal: &mut dyn FnMut(&mut [u8])) {
        if self.is_sealed() {
            dtls::finish(&mut self.chunks, 0, trailer, seal);
        }
    }

    fn authenticated(&self, each: &mut dyn FnMut(&[u8])) -> bool {
        auth::authenticated(&self.chunks, true, each)
    }

    fn set_hmac(&mut self, hmac: &[u8]) {
        auth::set_hmac(&mut self.chunks, true, hmac);
    }

    #[inline]
    fn finish(&mut self) -> usize {
        self.wire_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Data, MessageNumber, Mid, Ssn, Tsn};

    const HEADER: CommonHeader = CommonHeader {
        source_port: 1,
        destination_port: 2,
        verification_tag: 3,
    };

    fn data(payload: Payload<'_>) -> Chunk<'_> {
        Chunk::Data(Data {
            tsn: Tsn(1),
            stream: 2,
            number: MessageNumber::Ssn(Ssn(3)),
            fsn: 0,
            ppid: 4,
            unordered: true,
            begin: true,
            end: false,
            immediate: true,
            payload,
        })
    }

    fn i_data(payload: Payload<'_>) -> Chunk<'_> {
        let Chunk::Data(data) = data(payload) else {
            unreachable!("it is DATA")
        };
        let number = MessageNumber::Mid(Mid(0x0102_0304));
        Chunk::Data(Data { number, ..data })
    }

    #[test]
    fn zeros_take_no_memory_and_stay_zeros() {
        let mut packet = OwnedPacket::new();
        packet.begin(HEADER);
        let chunks = [
            data(Payload::Zeros(1451)),
            Chunk::CookieAck,
            data(Payload::Bytes(b"abc")),
            i_data(Payload::Zeros(1447)),
            i_data(Payload::Bytes(b"abc")),
            data(Payload::Zeros(0)),
        ];
        chunks.iter().for_each(|chunk| packet.push(chunk));
        assert_eq!(packet.finish(), 12 + 16 + 1452 + 4 + 20 + 20 + 1448 + 24 + 16);
        assert_eq!(packet.view().wire_len(), packet.wire_len());
        assert_eq!(packet.view().header(), HEADER);
        assert!(packet.view().chunks().eq(chunks.map(Ok)));
        let Some(Ok(Chunk::Data(first))) = packet.view().chunks().next() else {
            panic!("DATA comes first")
        };
        assert!(matches!(first.payload, Payload::Zeros(1451)));
        assert!(packet.capacity() < 200);
    }

    #[test]
    fn the_memory_is_kept() {
        let mut packet = OwnedPacket::new();
        packet.begin(HEADER);
        packet.push(&data(Payload::Bytes(&[7; 1452])));
        let capacity = packet.capacity();
        for _ in 0..3 {
            packet.begin(HEADER);
            packet.push(&data(Payload::Bytes(&[8; 1452])));
            assert_eq!(packet.finish(), 12 + 16 + 1452);
            assert_eq!(packet.capacity(), capacity);
        }
        packet.clear();
        assert_eq!((packet.wire_len(), packet.view().chunks().next()), (12, None));
        assert_eq!(packet.capacity(), capacity);
    }
}
