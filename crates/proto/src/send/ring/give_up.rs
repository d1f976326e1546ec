//! When messages in the ring are given up.

use std::collections::VecDeque;

use whimbrel_control::Seq;

use super::watched::Watched;
use crate::send::queue::Limit;

/// When each chunk in the ring is given up, in the order of the ring.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) chunks: VecDeque<Limit>,
    /// All chunks below this position have been given up or acknowledged, as far as is known.
    pub(super) forward_to: Seq,
    /// The peer has or has skipped all chunks below this position, and their streams may have been reset since.
    pub(super) settled: Seq,
    /// Chunks that were in flight when they were given up.
    pub(super) watched: Watched,
}

impl Limits {
    pub(super) fn push(&mut self, limit: Limit) {
        self.chunks.push_back(limit);
    }

    pub(super) fn pop(&mut self) {
        self.chunks.pop_front();
    }

    pub(super) fn is_given_up(&self, place: usize) -> bool {
        self.chunks.get(place) == Some(&Limit::Reached)
    }

    /// The chunk at this place has been retransmitted.
    // [7496:3.1-1]
    pub(super) fn on_retransmitted(&mut self, place: usize) {
        if let Some(Limit::Retransmissions(left)) = self.chunks.get_mut(place) {
            *left = left.saturating_sub(1);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.chunks.capacity() * size_of::<Limit>() + self.watched.heap_bytes()
    }
}
