//! A map that takes little memory for few entries.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;

/// Number of entries up to which a list is used.
const FEW: usize = 4;

/// A map with the memory of its entries while there are at most four. A B-tree reserves room for eleven, which is most of what an endpoint
/// with one association would take for its peer's addresses.
#[derive(Debug)]
pub(super) enum SmallMap<K, V> {
    Few(Vec<(K, V)>),
    Many(BTreeMap<K, V>),
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        SmallMap::Few(Vec::new())
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        match self {
            SmallMap::Few(entries) => entries.is_empty(),
            SmallMap::Many(entries) => entries.is_empty(),
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        match self {
            SmallMap::Few(entries) => entries.iter().find(|(found, _)| found == key).map(|(_, value)| value),
            SmallMap::Many(entries) => entries.get(key),
        }
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self {
            SmallMap::Few(entries) => entries
                .iter_mut()
                .find(|(found, _)| found == key)
                .map(|(_, value)| value),
            SmallMap::Many(entries) => entries.get_mut(key),
        }
    }

    /// Returns whether a key lies in this range.
    pub(super) fn has_in(&self, range: RangeInclusive<K>) -> bool {
        match self {
            SmallMap::Few(entries) => entries.iter().any(|(key, _)| range.contains(key)),
            SmallMap::Many(entries) => entries.range(range).next().is_some(),
        }
    }

    /// Returns the value of the key, which is `value` if the key is new.
    pub(super) fn get_or_insert(&mut self, key: K, value: V) -> &mut V {
        if let SmallMap::Few(entries) = self
            && entries.len() == FEW
            && entries.iter().all(|(found, _)| *found != key)
        {
            *self = SmallMap::Many(core::mem::take(entries).into_iter().collect());
        }
        match self {
            SmallMap::Few(entries) => {
                let place = entries.iter().position(|(found, _)| *found == key).unwrap_or_else(|| {
                    entries.reserve_exact(1);
                    entries.push((key, value));
                    entries.len() - 1
                });
                &mut entries[place].1
            }
            SmallMap::Many(entries) => entries.entry(key).or_insert(value),
        }
    }

    pub(super) fn remove(&mut self, key: &K) {
        match self {
            SmallMap::Few(entries) => entries.retain(|(found, _)| found != key),
            SmallMap::Many(entries) => {
                entries.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::Rng;

    use super::*;

    #[test]
    fn agrees_with_a_map_of_the_standard_library() {
        let mut rng = Rng::stream(1, "small map");
        for keys in [3, 6, 40] {
            let (mut map, mut model) = (SmallMap::default(), BTreeMap::new());
            for step in 0..10_000 {
                let key = rng.below(keys);
                match rng.below(4) {
                    0 => {
                        map.remove(&key);
                        model.remove(&key);
                    }
                    1 => assert_eq!(map.get_or_insert(key, step), model.entry(key).or_insert(step)),
                    2 => {
                        let range = key..=key + rng.below(4);
                        assert_eq!(map.has_in(range.clone()), model.range(range).next().is_some());
                    }
                    _ => {
                        if let Some(value) = map.get_mut(&key) {
                            *value += 1;
                        }
                        model.entry(key).and_modify(|value| *value += 1);
                    }
                }
                assert_eq!(map.get(&key), model.get(&key));
                assert_eq!(map.is_empty(), model.is_empty());
            }
        }
    }

    #[test]
    fn one_entry_takes_the_memory_of_one() {
        let mut map = SmallMap::default();
        map.get_or_insert(1, 2);
        assert!(matches!(map, SmallMap::Few(entries) if entries.capacity() == 1));
    }
}
