//! The TSNs received above a gap, and the fragment of each of them.

use whimbrel_wire::{Data, Tsn};

use super::store::NONE;

const BEGIN: u32 = 1 << 31;
const END: u32 = 1 << 30;
const SMALLEST_MAP: u32 = 64;

/// The state of a received TSN: its position within its message, and its fragment if that is still held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(u32);

impl Slot {
    pub(super) fn new(fragment: u32, begin: bool, end: bool) -> Self {
        Slot(fragment | if begin { BEGIN } else { 0 } | if end { END } else { 0 })
    }

    /// Returns the slot of a chunk whose fragment is this one. I-DATA chunks have no neighbours by TSN.
    pub(super) fn of(data: &Data<'_>, fragment: u32) -> Self {
        let is_alone = data.number.is_mid();
        Slot::new(fragment, data.begin || is_alone, data.end || is_alone)
    }

    pub(super) fn begin(self) -> bool {
        self.0 & BEGIN != 0
    }

    pub(super) fn end(self) -> bool {
        self.0 & END != 0
    }

    /// Returns the fragment, or [`NONE`] if it is not held.
    pub(super) fn fragment(self) -> u32 {
        self.0 & NONE
    }

    fn without_fragment(self) -> Self {
        Slot(self.0 | NONE)
    }
}

/// A ring of slots and a ring of bits, both indexed by the low bits of the TSN: entries do not move when the window
/// moves.
///
/// Only bits of received TSNs above the cumulative TSN are set. The caller keeps the range of these TSNs within
/// `capacity` and looks up no other TSN.
#[derive(Debug, Default)]
pub(super) struct TsnMap {
    slots: Box<[Slot]>,
    bits: Box<[u64]>,
}

impl TsnMap {
    fn index(&self, tsn: Tsn) -> usize {
        tsn.0 as usize & (self.slots.len() - 1)
    }

    pub(super) fn contains(&self, tsn: Tsn) -> bool {
        let index = self.index(tsn);
        self.bits[index / 64] >> (index % 64) & 1 != 0
    }

    /// Returns the slot of a contained TSN.
    pub(super) fn slot(&self, tsn: Tsn) -> Slot {
        self.slots[self.index(tsn)]
    }

    /// Enters `tsn`. The TSNs entered before are within `low..=high`.
    pub(super) fn insert(&mut self, tsn: Tsn, slot: Slot, low: Tsn, high: Tsn) {
        let reach = if tsn.is_after(high) { tsn } else { high };
        if reach.distance(low) >= self.slots.len() as u32 {
            self.grow(low, high, reach.distance(low) + 1);
        }
        let index = self.index(tsn);
        self.slots[index] = slot;
        self.bits[index / 64] |= 1 << (index % 64);
    }

    #[cold]
    fn grow(&mut self, low: Tsn, high: Tsn, needed: u32) {
        let capacity = needed.next_power_of_two().max(SMALLEST_MAP) as usize;
        let mut larger = TsnMap {
            slots: vec![Slot(NONE); capacity].into_boxed_slice(),
            bits: vec![0; capacity / 64].into_boxed_slice(),
        };
        if !self.slots.is_empty() {
            let end = high.next();
            let mut tsn = self.next(low, end, true);
            while tsn != end {
                let index = larger.index(tsn);
                larger.slots[index] = self.slot(tsn);
                larger.bits[index / 64] |= 1 << (index % 64);
                tsn = self.next(tsn.next(), end, true);
            }
        }
        *self = larger;
    }

    pub(super) fn remove(&mut self, tsn: Tsn) {
        let index = self.index(tsn);
        self.bits[index / 64] &= !(1 << (index % 64));
    }

    /// Notes that the fragment of a received TSN is no longer held.
    pub(super) fn forget_fragment(&mut self, tsn: Tsn) {
        let index = self.index(tsn);
        self.slots[index] = self.slots[index].without_fragment();
    }

    /// Removes all TSNs of `from..end`, one word at a time.
    pub(super) fn remove_range(&mut self, from: Tsn, end: Tsn) {
        let mut tsn = from;
        let mut left = end.distance(from);
        while left > 0 {
            let index = self.index(tsn);
            let step = (64 - (index % 64) as u32).min(left);
            let ones = u64::MAX >> (64 - step);
            self.bits[index / 64] &= !(ones << (index % 64));
            tsn += step;
            left -= step;
        }
    }

    /// Returns the first TSN of `from..end` that is contained (or is not, if `contained` is false), or `end` if there
    /// is none.
    pub(super) fn next(&self, from: Tsn, end: Tsn, contained: bool) -> Tsn {
        let flip = if contained { 0 } else { u64::MAX };
        let mut tsn = from;
        let mut left = end.distance(from);
        while left > 0 {
            let index = self.index(tsn);
            let word = (self.bits[index / 64] ^ flip) >> (index % 64);
            if word != 0 {
                return tsn + word.trailing_zeros().min(left);
            }
            let step = (64 - (index % 64) as u32).min(left);
            tsn += step;
            left -= step;
        }
        end
    }

    /// Calls `run` with the first and the last TSN of each run of contained TSNs in `from..end`, at most `limit` times.
    ///
    /// Works on one word at a time: a run begins or ends where a bit differs from the bit below it.
    pub(super) fn for_each_run(&self, from: Tsn, end: Tsn, limit: usize, mut run: impl FnMut(Tsn, Tsn)) {
        let (mut tsn, mut left) = (from, end.distance(from));
        let (mut first, mut runs, mut below) = (from, 0, 0);
        while left > 0 && runs < limit {
            let index = self.index(tsn);
            let step = (64 - (index % 64) as u32).min(left);
            let word = self.bits[index / 64] >> (index % 64);
            let mut changes = (word ^ (word << 1 | below)) & (u64::MAX >> (64 - step));
            let mut inside = below != 0;
            while changes != 0 && runs < limit {
                let at = tsn + changes.trailing_zeros();
                if inside {
                    run(first, at.previous());
                    runs += 1;
                } else {
                    first = at;
                }
                inside = !inside;
                changes &= changes - 1;
            }
            below = word >> (step - 1) & 1;
            tsn += step;
            left -= step;
        }
        if below != 0 && runs < limit {
            run(first, end.previous());
        }
    }

    /// Returns the last contained TSN of `from..=last`, if there is one.
    pub(super) fn last(&self, from: Tsn, last: Tsn) -> Option<Tsn> {
        let mut tsn = last;
        let mut left = last.distance(from) + 1;
        while left > 0 {
            let index = self.index(tsn);
            let word = self.bits[index / 64] << (63 - index % 64);
            if word != 0 {
                let skip = word.leading_zeros();
                return (skip < left).then(|| tsn - skip);
            }
            let step = (index as u32 % 64 + 1).min(left);
            tsn = tsn - step;
            left -= step;
        }
        None
    }

    /// Returns the bytes on the heap, for tests of the limits.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.bits)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use whimbrel_control::Rng;

    use super::*;

    #[test]
    fn agrees_with_a_set_across_the_wrap() {
        // RFC 9260 §1.6: the offsets begin just below the wrap of the TSN.
        let low = Tsn(u32::MAX - 300);
        let mut rng = Rng::stream(1, "tsn map");
        for span in [1, 64, 65, 700, 5000] {
            let mut map = TsnMap::default();
            let mut set = BTreeSet::new();
            for _ in 0..span {
                let offset = rng.below(span) as u32;
                let high = low + set.last().copied().unwrap_or(0);
                map.insert(
                    low + offset,
                    Slot::new(offset, offset & 1 == 0, offset & 2 == 0),
                    low,
                    high,
                );
                set.insert(offset);
            }
            let highest = set.last().copied().unwrap_or(0);
            let (first, count) = (rng.below(span) as u32 % (highest + 1), rng.below(100) as u32);
            let upto = (first + count).min(highest);
            map.remove_range(low + first, low + upto);
            set.retain(|o| *o < first || *o >= upto);
            for offset in 0..=highest {
                assert_eq!(map.contains(low + offset), set.contains(&offset), "{offset}");
                let end = low + highest + 1;
                let next = set.range(offset..).next().copied().unwrap_or(highest + 1);
                assert_eq!(map.next(low + offset, end, true), low + next);
                let missing = (offset..).find(|o| !set.contains(o)).unwrap_or(0).min(highest + 1);
                assert_eq!(map.next(low + offset, end, false), low + missing);
                let last = set.range(..=offset).next_back().map(|o| low + *o);
                assert_eq!(map.last(low, low + offset), last);
            }
            let mut runs: Vec<(u32, u32)> = Vec::new();
            for offset in &set {
                match runs.last_mut() {
                    Some((_, last)) if *last + 1 == *offset => *last = *offset,
                    _ => runs.push((*offset, *offset)),
                }
            }
            for limit in [0, 1, 5, 100_000] {
                let mut found = Vec::new();
                map.for_each_run(low, low + highest + 1, limit, |first, last| {
                    found.push((first.distance(low), last.distance(low)));
                });
                assert_eq!(found[..], runs[..limit.min(runs.len())]);
            }
            for offset in set {
                let slot = map.slot(low + offset);
                assert_eq!(
                    (slot.fragment(), slot.begin(), slot.end()),
                    (offset, offset & 1 == 0, offset & 2 == 0)
                );
            }
        }
    }

    #[test]
    fn a_slot_without_fragment_keeps_its_flags() {
        let slot = Slot::new(5, true, false).without_fragment();
        assert_eq!((slot.fragment(), slot.begin(), slot.end()), (NONE, true, false));
    }
}
