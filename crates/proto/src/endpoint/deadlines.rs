//! The deadline of each association: one entry per association, earliest first.

use whimbrel_control::Time;

use crate::config::NEVER;

const NOWHERE: u32 = u32::MAX;

/// A binary heap whose entries can be found by association and moved.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// Heap order: no entry is earlier than its parent.
    heap: Vec<(Time, u32)>,
    /// The position of each association's entry.
    places: Vec<u32>,
}

impl Deadlines {
    /// Returns the earliest deadline.
    pub(super) fn next(&self) -> Option<Time> {
        self.heap.first().map(|&(at, _)| at)
    }

    /// Sets the association's deadline to `due` if it has none or a later one. An earlier entry stays in place and is
    /// corrected when it expires. Therefore restarting a timer costs nothing.
    pub(super) fn no_later_than(&mut self, index: u32, due: Time) {
        if due == NEVER {
            return;
        }
        let slot = index as usize;
        if slot >= self.places.len() {
            self.places.resize(slot + 1, NOWHERE);
        }
        let place = self.places[slot] as usize;
        if self.places[slot] == NOWHERE {
            if self.heap.is_empty() {
                // Many endpoints have one association.
                self.heap.reserve_exact(1);
            }
            self.heap.push((due, index));
            self.rise(self.heap.len() - 1);
        } else if due < self.heap[place].0 {
            self.heap[place].0 = due;
            self.rise(place);
        }
    }

    /// Removes and returns an association whose deadline is `now` or earlier.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<u32> {
        let &(at, index) = self.heap.first()?;
        if at > now {
            return None;
        }
        self.remove(index);
        Some(index)
    }

    /// Removes the entry of an association.
    pub(super) fn remove(&mut self, index: u32) {
        let Some(&place) = self.places.get(index as usize).filter(|&&place| place != NOWHERE) else {
            return;
        };
        self.places[index as usize] = NOWHERE;
        let place = place as usize;
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.places[self.heap[place].1 as usize] = place as u32;
            self.rise(place);
            self.sink(place);
        }
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.heap[place] < self.heap[(place - 1) / 2] {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
        self.places[self.heap[place].1 as usize] = place as u32;
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            let smaller = [left, left + 1]
                .into_iter()
                .filter(|&child| child < self.heap.len())
                .min_by_key(|&child| self.heap[child]);
            match smaller {
                Some(child) if self.heap[child] < self.heap[place] => {
                    self.swap(place, child);
                    place = child;
                }
                _ => return,
            }
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places[self.heap[a].1 as usize] = a as u32;
        self.places[self.heap[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use whimbrel_control::Rng;

    #[test]
    fn agrees_with_a_map_and_holds_one_entry_for_each() {
        let mut rng = Rng::stream(1, "deadlines");
        let (mut deadlines, mut model) = (Deadlines::default(), BTreeMap::new());
        for _ in 0..100_000 {
            let index = rng.below(50) as u32;
            match rng.below(10) {
                0..6 => {
                    let due = Time::from_nanos(rng.below(1000));
                    deadlines.no_later_than(index, due);
                    let entry = model.entry(index).or_insert(due);
                    *entry = due.min(*entry);
                }
                6 => {
                    deadlines.remove(index);
                    model.remove(&index);
                }
                _ => {
                    let now = Time::from_nanos(rng.below(300));
                    let soonest = model.values().min().copied();
                    assert_eq!(deadlines.next(), soonest);
                    let popped = deadlines.pop_due(now);
                    assert_eq!(popped.is_some(), soonest.is_some_and(|at| at <= now));
                    if let Some(index) = popped {
                        assert_eq!(model.remove(&index), soonest);
                    }
                }
            }
            assert_eq!(deadlines.heap.len(), model.len());
        }
    }

    #[test]
    fn never_is_not_stored_as_deadline() {
        let mut deadlines = Deadlines::default();
        deadlines.no_later_than(3, NEVER);
        deadlines.remove(7);
        assert_eq!((deadlines.next(), deadlines.pop_due(NEVER)), (None, None));
    }
}
