//! Chunks that were in flight when their message was given up.
//!
//! They are not outstanding any more, but still in the network: if one of them is lost, congestion control has to learn it (RFC 3758 §3.5 F5).
//! As for other chunks, missing reports tell: those of SACKs that newly acknowledge data sent after the chunk on its path. A chunk is watched no
//! longer once the cumulative ack point has passed it, which the answer to a FORWARD TSN does whether the chunk has arrived or not, and once a timeout
//! of its path has counted for all that was in flight there.

use std::collections::VecDeque;

use whimbrel_control::{Seq, Time};

/// The chunks, by path, in the order in which they were sent. A path on which none was given up in flight may have no entry.
#[derive(Debug, Default)]
pub(super) struct Watched(Vec<VecDeque<WatchedChunk>>);

#[derive(Clone, Copy, Debug)]
pub(super) struct WatchedChunk {
    pub(super) sent_at: Time,
    /// Its number for congestion control.
    pub(super) position: Seq,
    pub(super) seq: Seq,
    /// With header and padding.
    pub(super) bytes: u64,
    /// Number of missing reports.
    pub(super) missing: u8,
}

impl WatchedChunk {
    fn key(&self) -> (Time, Seq) {
        (self.sent_at, self.position)
    }
}

impl Watched {
    pub(super) fn add(&mut self, path: u8, chunk: WatchedChunk) {
        let path = usize::from(path);
        if self.0.len() <= path {
            self.0.resize_with(path + 1, VecDeque::new);
        }
        let chunks = &mut self.0[path];
        let place = chunks.partition_point(|known| known.key() < chunk.key());
        chunks.insert(place, chunk);
    }

    /// A SACK newly acknowledges transmissions on a path, of which `latest` was sent last: counts a missing report for each chunk that was sent before
    /// it, unless the peer has the chunk, and returns those with as many as the limit.
    pub(super) fn on_reported(
        &mut self,
        path: usize,
        latest: (Time, Seq),
        limit: u8,
        has_arrived: impl Fn(Seq) -> bool,
    ) -> Vec<WatchedChunk> {
        let mut lost = Vec::new();
        let Some(chunks) = self.0.get_mut(path) else {
            return lost;
        };
        // Only these are looked at: each a few times at most, until it has arrived or is lost.
        let before = chunks.partition_point(|chunk| chunk.key() < latest);
        let mut kept = 0;
        for place in 0..before {
            let mut chunk = chunks[place];
            if has_arrived(chunk.seq) {
                continue;
            }
            chunk.missing = chunk.missing.saturating_add(1);
            if chunk.missing >= limit {
                lost.push(chunk);
            } else {
                chunks[kept] = chunk;
                kept += 1;
            }
        }
        chunks.drain(kept..before);
        lost
    }

    /// The cumulative ack point has passed everything below this position. A chunk behind one that was sent before it and is above goes later.
    pub(super) fn pass(&mut self, base: Seq) {
        for chunks in &mut self.0 {
            while chunks.front().is_some_and(|chunk| chunk.seq < base) {
                chunks.pop_front();
            }
        }
    }

    /// A timeout has declared all data in flight on a path lost.
    pub(super) fn forget(&mut self, path: u8) {
        if let Some(chunks) = self.0.get_mut(usize::from(path)) {
            chunks.clear();
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let chunks = self.0.iter().map(VecDeque::capacity).sum::<usize>() * size_of::<WatchedChunk>();
        self.0.capacity() * size_of::<VecDeque<WatchedChunk>>() + chunks
    }
}
