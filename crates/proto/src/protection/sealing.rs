//! Sending: the keys of the current epoch, and the next sequence number.

use std::sync::Arc;

use whimbrel_wire::{DTLS_HEADER_LEN, PacketSink, RECORD_HEADER_LEN, record_header};

use super::{CONTENT_TYPE, CONTENT_TYPE_LEN, FIRST_EPOCH, KeyExchange, KeySource, MIN_SAMPLE, Protect};

/// The keys for one packet, and its sequence number, which no other packet has.
#[derive(Clone, Debug)]
pub(crate) struct Sealing {
    keys: Arc<dyn Protect>,
    epoch: u64,
    sequence: u64,
}

impl PartialEq for Sealing {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys) && (self.epoch, self.sequence) == (other.epoch, other.sequence)
    }
}

impl Eq for Sealing {}

impl Sealing {
    /// Encrypts the packet in the sink, which has begun as a DTLS chunk.
    pub(crate) fn seal(self, sink: &mut dyn PacketSink) {
        let trailer = CONTENT_TYPE_LEN + self.keys.overhead();
        sink.seal(trailer, &mut |record| self.seal_record(record));
    }

    fn seal_record(&self, record: &mut [u8]) {
        let header = record_header(self.epoch, self.sequence as u16);
        let Some((place, body)) = record.split_first_chunk_mut::<RECORD_HEADER_LEN>() else {
            return;
        };
        let content_type = body.len().checked_sub(CONTENT_TYPE_LEN + self.keys.overhead());
        if let Some(content_type) = content_type.and_then(|at| body.get_mut(at)) {
            *content_type = CONTENT_TYPE;
        }
        if self.keys.seal(self.sequence, &header, body).is_err() {
            // What is not encrypted must not be sent. The peer discards this packet.
            body.fill(0);
        }
        *place = header;
        // RFC 9147 §4.2.3
        if let Some(sample) = body.first_chunk::<MIN_SAMPLE>() {
            let mask = self.keys.mask(sample);
            place[1] ^= mask[0];
            place[2] ^= mask[1];
        }
    }
}

/// The sending half of the keys.
#[derive(Debug)]
pub(super) struct SealKeys {
    keys: Arc<dyn Protect>,
    epoch: u64,
    next: u64,
}

impl SealKeys {
    /// Returns the keys of the first epoch.
    pub(super) fn new(source: &dyn KeySource, exchange: &KeyExchange) -> Option<Self> {
        let keys = source.derive(exchange, exchange.role, FIRST_EPOCH).ok()?;
        Some(SealKeys::with(keys))
    }

    /// Seals the records of the first epoch with these keys.
    // [dtls:3.1-5]
    pub(super) fn with(keys: Arc<dyn Protect>) -> Self {
        SealKeys {
            keys,
            epoch: FIRST_EPOCH,
            next: 0,
        }
    }

    /// The next epoch begins, with these keys.
    pub(super) fn renew(&mut self, keys: Arc<dyn Protect>) {
        *self = SealKeys {
            keys,
            epoch: self.epoch + 1,
            next: 0,
        };
    }

    /// Returns whether half of the key's uses are spent.
    pub(super) fn is_half_spent(&self) -> bool {
        self.next >= self.keys.limits().sealed.div_ceil(2)
    }

    /// Returns the keys for the next packet. If keys are derived from `source`, the next epoch begins when half of the key's uses are spent. Returns
    /// `None` if there are none left.
    pub(super) fn take(&mut self, source: Option<(&dyn KeySource, &KeyExchange)>) -> Option<Sealing> {
        if let Some((source, exchange)) = source.filter(|_| self.is_half_spent())
            && let Ok(keys) = source.derive(exchange, exchange.role, self.epoch + 1)
        {
            self.renew(keys);
        }
        if self.next >= self.keys.limits().sealed {
            return None;
        }
        let sequence = self.next;
        self.next += 1;
        Some(Sealing {
            keys: self.keys.clone(),
            epoch: self.epoch,
            sequence,
        })
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.next >= self.keys.limits().sealed
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the bytes that a packet has more than its chunks, whose length is a multiple of four.
    pub(super) fn len(&self) -> usize {
        packet_overhead(self.keys.overhead())
    }
}

/// Returns the bytes that a packet has more than its chunks, whose length is a multiple of four, with a tag of this length.
pub(super) fn packet_overhead(tag: usize) -> usize {
    (DTLS_HEADER_LEN + CONTENT_TYPE_LEN + tag).next_multiple_of(4)
}
