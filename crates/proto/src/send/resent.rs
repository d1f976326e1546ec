//! Multiple fast retransmit (Caro et al. 2002): what was sent again may be found lost again, but only by what was sent after it.

use whimbrel_control::Seq;

/// Positions sent again, in ascending order, each with the next position of that moment.
#[derive(Debug, Default)]
pub(crate) struct Resent(Vec<(Seq, Seq)>);

impl Resent {
    /// What has this position is sent again, and `next` comes after it. Nothing below `lowest` is outstanding.
    pub(super) fn note(&mut self, position: Seq, next: Seq, lowest: Seq) {
        let passed = self.0.partition_point(|&(known, _)| known < lowest);
        self.0.drain(..passed);
        match self.0.binary_search_by_key(&position, |&(known, _)| known) {
            Ok(place) => self.0[place].1 = next,
            Err(place) => self.0.insert(place, (position, next)),
        }
    }

    /// The first position whose acknowledgement counts as a missing report for the one at `position`, if not any does.
    pub(super) fn reported_from(&self, position: Seq) -> Seq {
        let place = self.0.binary_search_by_key(&position, |&(known, _)| known);
        place.map_or(0, |place| self.0[place].1)
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.0.shrink_to_fit();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(Seq, Seq)>()
    }
}
