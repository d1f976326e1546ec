//! A packet under construction.

use whimbrel_wire::{COMMON_HEADER_LEN, Chunk, Data, MAX_RECORD_CONTENT, PacketSink, TIMESTAMP_LEN, Timestamp};

use crate::association::Signer;
use crate::{Ecn, PathId};

/// A packet under construction.
pub(crate) struct Packet<'s> {
    pub(crate) sink: &'s mut dyn PacketSink,
    pub(crate) path: PathId,
    /// Bytes left in the path MTU.
    pub(crate) room: usize,
    /// Bytes so far.
    pub(crate) len: usize,
    pub(crate) has_chunk: bool,
    pub(crate) ecn: Ecn,
    /// The timestamp to be written before the first DATA chunk. Its room is reserved.
    pub(crate) stamp: Option<Timestamp>,
    /// The packet has an AUTH chunk, whose HMAC is filled in at the end.
    pub(crate) signed: bool,
    /// All chunks are the content of a DTLS chunk, which is encrypted at the end.
    pub(crate) sealed: bool,
    /// A chunk requires a correct CRC32c (RFC 9653 §5.2 rules 1 to 3).
    needs_checksum: bool,
}

impl<'s> Packet<'s> {
    /// Returns an empty packet with this room for chunks.
    pub(crate) fn new(sink: &'s mut dyn PacketSink, path: PathId, room: usize) -> Self {
        Packet {
            sink,
            path,
            room,
            len: COMMON_HEADER_LEN,
            has_chunk: false,
            ecn: Ecn::NotEct,
            stamp: None,
            signed: false,
            sealed: false,
            needs_checksum: false,
        }
    }

    /// Adds an AUTH chunk if there is none. It precedes the chunks that it authenticates.
    pub(crate) fn sign(&mut self, signer: &Signer) {
        if !self.signed {
            self.signed = true;
            self.room = self.room.saturating_sub(signer.chunk_len());
            self.len += signer.chunk_len();
            signer.push(self.sink);
        }
    }

    /// Starts a DTLS chunk, which contains all others. It takes `overhead` bytes besides them.
    // [dtls:3.1-6, 3.2-4, 5.2-1, 5.2-2, 5.2-4]
    pub(crate) fn begin_sealed(&mut self, overhead: usize) {
        self.sealed = true;
        self.room = self.room.saturating_sub(overhead).min(MAX_RECORD_CONTENT);
        self.len += overhead;
        self.sink.begin_sealed();
    }

    // [9653:5.2-2, 5.2-4, 5.2-5]
    pub(crate) fn push(&mut self, chunk: &Chunk<'_>) {
        self.needs_checksum |= matches!(chunk, Chunk::Init(_) | Chunk::CookieEcho { .. } | Chunk::Asconf(_));
        self.append(chunk);
    }

    fn append(&mut self, chunk: &Chunk<'_>) {
        let len = chunk.wire_len();
        self.room = self.room.saturating_sub(len);
        self.len += len;
        self.has_chunk = true;
        self.sink.push(chunk);
    }

    /// Reserves room for a timestamp, which is written before the first DATA chunk.
    pub(crate) fn reserve(&mut self, stamp: Option<Timestamp>) {
        if stamp.is_some() {
            self.room = self.room.saturating_sub(TIMESTAMP_LEN);
            self.stamp = stamp;
        }
    }

    pub(crate) fn push_data(&mut self, data: Data<'_>) {
        if let Some(stamp) = self.stamp.take() {
            self.len += TIMESTAMP_LEN;
            self.sink.push(&Chunk::Timestamp(stamp));
        }
        self.append(&Chunk::Data(data));
    }

    /// Ends the packet and returns its length in bytes. `zero_checksum`: the peer accepts a checksum of zero.
    // [9653:5.2-7]
    // [6951:5.3-4]
    pub(crate) fn finish(self, zero_checksum: bool) -> usize {
        if zero_checksum && !self.needs_checksum {
            self.sink.finish_without_checksum()
        } else {
            self.sink.finish()
        }
    }

    // [9260:6.10-1]
    pub(crate) fn fits(&self, chunk: &Chunk<'_>) -> bool {
        chunk.wire_len() <= self.room
    }

    /// Returns whether a chunk that was sent before may be added. A packet may consist of one chunk that is too long, as the path MTU may
    /// have become smaller (RFC 9260 §6.9).
    // [9260:6.9-6]
    pub(crate) fn admits(&self, chunk: &Chunk<'_>) -> bool {
        !self.has_chunk || self.fits(chunk)
    }

    pub(crate) fn path(&self) -> PathId {
        self.path
    }
}
