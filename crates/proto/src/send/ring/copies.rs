//! The transmissions of chunks that are in flight on several paths at once. `process_copies.rs` explains and uses them.

use std::collections::VecDeque;

use whimbrel_control::{Seq, Time};

/// A transmission that is not the chunk's own transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkCopy {
    pub(super) psn: Seq,
    pub(super) seq: Seq,
    pub(super) sent_at: Time,
    /// With chunk header and padding.
    pub(super) bytes: u64,
    pub(super) missing: u8,
    /// The transmission was a retransmission and may have the PSN of an earlier one, so that data sent after the earlier one does not
    /// report it missing.
    pub(super) retransmitted: bool,
    /// The SACK that acknowledged the chunk may have been for this copy.
    pub(super) doubtful: bool,
}

#[derive(Debug, Default)]
pub(super) struct PathCopies {
    /// In ascending order of their PSNs.
    pub(super) in_flight: VecDeque<ChunkCopy>,
    /// Sequence number of the chunk and PSN of each copy, in ascending order.
    pub(super) by_seq: VecDeque<(Seq, Seq)>,
    /// Chunks below this one have been sent on this path, or need not be.
    pub(super) next: Seq,
    /// Chunks of silent paths below this one have been sent on this path, or need not be.
    pub(super) rescued: Seq,
    /// With echoes: the transmissions in the order of their PSNs, from the lowest one whose fate may be unknown.
    pub(super) identified: VecDeque<Identified>,
    /// With echoes: the first PSN that is sent with a timestamp.
    pub(super) since: Seq,
    /// With echoes: chunks that were retransmitted on the path and their earlier PSNs, which are outstanding until the chunk is
    /// acknowledged. They are no longer in flight.
    pub(super) held: Vec<(Seq, Seq)>,
    /// With echoes: the first PSN of each packet of the path whose timestamp the SACK being processed returns.
    pub(super) listed: Vec<Seq>,
}

/// A transmission and the timestamp of its packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identified {
    pub(super) stamp: u64,
    pub(super) psn: Seq,
    /// A SACK has returned the timestamp.
    pub(super) returned: bool,
}

impl PathCopies {
    pub(super) fn place(&self, psn: Seq) -> Option<usize> {
        self.in_flight.binary_search_by_key(&psn, |copy| copy.psn).ok()
    }

    /// Returns the PSNs of the copies of a chunk, rarely more than one.
    pub(super) fn psns_of(&self, seq: Seq) -> impl Iterator<Item = Seq> {
        let first = self.by_seq.partition_point(|&(known, _)| known < seq);
        let all = self.by_seq.range(first..);
        all.take_while(move |&&(known, _)| known == seq).map(|&(_, psn)| psn)
    }

    pub(super) fn of(&self, seq: Seq) -> impl Iterator<Item = &ChunkCopy> {
        self.psns_of(seq).filter_map(|psn| self.in_flight.get(self.place(psn)?))
    }

    /// With echoes: whether the timestamp of the transmission was returned.
    pub(super) fn is_returned(&self, psn: Seq) -> bool {
        let found = self.identified.binary_search_by_key(&psn, |sent| sent.psn);
        found.is_ok_and(|at| self.identified.get(at).is_some_and(|sent| sent.returned))
    }

    pub(super) fn set_doubtful(&mut self, seq: Seq, doubtful: bool) {
        let mut at = self.by_seq.partition_point(|&(known, _)| known < seq);
        while let Some(&(_, psn)) = self.by_seq.get(at).filter(|(known, _)| *known == seq) {
            if let Some(copy) = self.place(psn).and_then(|place| self.in_flight.get_mut(place)) {
                copy.doubtful = doubtful;
            }
            at += 1;
        }
    }

    pub(super) fn insert(&mut self, copy: ChunkCopy) {
        let place = self.in_flight.partition_point(|other| other.psn < copy.psn);
        self.in_flight.insert(place, copy);
        let place = self.by_seq.partition_point(|&other| other < (copy.seq, copy.psn));
        self.by_seq.insert(place, (copy.seq, copy.psn));
    }

    pub(super) fn pop_first(&mut self) -> Option<ChunkCopy> {
        self.remove(self.in_flight.front()?.psn)
    }

    pub(super) fn remove(&mut self, psn: Seq) -> Option<ChunkCopy> {
        let copy = self.in_flight.remove(self.place(psn)?)?;
        if let Ok(place) = self.by_seq.binary_search(&(copy.seq, psn)) {
            self.by_seq.remove(place);
        }
        Some(copy)
    }
}

/// The copies on all paths.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub(super) paths: Vec<PathCopies>,
    /// Timestamps that SACKs return identify the transmissions that have arrived.
    pub(super) by_echo: bool,
}

impl Copies {
    pub(super) fn set_paths(&mut self, paths: usize) {
        self.paths.resize_with(paths, PathCopies::default);
    }

    /// Returns every copy of a chunk, with its path.
    pub(super) fn of(&self, seq: Seq) -> impl Iterator<Item = (u8, &ChunkCopy)> {
        let paths = self.paths.iter().enumerate();
        paths.flat_map(move |(path, copies)| copies.of(seq).map(move |copy| (path as u8, copy)))
    }

    pub(super) fn take(&mut self, path: u8, psn: Seq) -> Option<ChunkCopy> {
        self.paths[usize::from(path)].remove(psn)
    }

    /// Keeps the earlier PSN of a retransmitted chunk outstanding.
    pub(super) fn hold(&mut self, seq: Seq, path: u8, psn: Seq) {
        self.paths[usize::from(path)].held.push((seq, psn));
    }

    /// Returns the copy in flight on the path that has this PSN.
    pub(super) fn at(&self, path: usize, psn: Seq) -> Option<&ChunkCopy> {
        let here = self.paths.get(path)?;
        here.in_flight.get(here.place(psn)?)
    }

    /// Whether a copy with this PSN is in flight on the path.
    pub(super) fn is_in_flight(&self, path: usize, psn: Seq) -> bool {
        self.paths[path].place(psn).is_some()
    }

    pub(super) fn release_memory(&mut self) {
        for path in &mut self.paths {
            path.in_flight.shrink_to_fit();
            path.by_seq.shrink_to_fit();
            path.identified.shrink_to_fit();
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let of_path = |path: &PathCopies| {
            size_of::<PathCopies>()
                + path.in_flight.capacity() * size_of::<ChunkCopy>()
                + path.by_seq.capacity() * size_of::<(Seq, Seq)>()
                + path.identified.capacity() * size_of::<Identified>()
                + path.held.capacity() * size_of::<(Seq, Seq)>()
                + path.listed.capacity() * size_of::<Seq>()
        };
        size_of::<Self>() + self.paths.iter().map(of_path).sum::<usize>()
    }
}
