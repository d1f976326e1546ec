//! Chunks that were in flight when their message was given up.
//!
//! They are not outstanding any more, but still in the network: if one of them is lost, congestion control has to learn it (RFC 3758 §3.5 F5).
//! As for other chunks, missing reports tell: those of SACKs that newly acknowledge data sent after the chunk on its path. A timeout of the path
//! needs no reports; the cumulative ack point passes a chunk with the answer to the FORWARD TSN, whether it has arrived or not.

use whimbrel_control::{Seq, Time};

/// The chunks, by path, in the order in which they were sent. A path on which none was given up in flight may have no entry.
#[derive(Debug, Default)]
pub(super) struct Watched(Vec<Vec<WatchedChunk>>);

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
            self.0.resize_with(path + 1, Vec::new);
        }
        let chunks = &mut self.0[path];
        let place = chunks.partition_point(|known| known.key() < chunk.key());
        chunks.insert(place, chunk);
    }

    /// A SACK newly acknowledges a transmission on a path, which this is the latest of: counts a missing report for each chunk before it, unless
    /// its fate is known (`is_settled`), and returns those with as many as the limit.
    pub(super) fn on_reported(
        &mut self,
        path: usize,
        latest: (Time, Seq),
        limit: u8,
        is_settled: impl Fn(Seq) -> bool,
    ) -> Vec<WatchedChunk> {
        let mut lost = Vec::new();
        if let Some(chunks) = self.0.get_mut(path) {
            chunks.retain_mut(|chunk| {
                if chunk.key() >= latest {
                    return true;
                }
                if is_settled(chunk.seq) {
                    return false;
                }
                chunk.missing += 1;
                if chunk.missing >= limit {
                    lost.push(*chunk);
                }
                chunk.missing < limit
            });
        }
        lost
    }

    /// A timeout has declared all data in flight on a path lost.
    pub(super) fn forget(&mut self, path: u8) {
        if let Some(chunks) = self.0.get_mut(usize::from(path)) {
            chunks.clear();
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let chunks = self.0.iter().map(Vec::capacity).sum::<usize>() * size_of::<WatchedChunk>();
        self.0.capacity() * size_of::<Vec<WatchedChunk>>() + chunks
    }
}
