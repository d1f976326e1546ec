//! The associations of an endpoint, found by number, by verification tag, or by the peer's address and port.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::limits::Holder;
use super::small_map::SmallMap;
use crate::AssocId;
use crate::TransportAddr;
use crate::association::Association;

/// A hasher for verification tags. They are local random numbers and need no hashing.
#[derive(Default)]
pub(super) struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0 << 8 | u64::from(byte);
        }
    }

    fn write_u32(&mut self, tag: u32) {
        // The hash table uses the low bits for the bucket and the high bits for the control byte.
        self.0 = u64::from(tag) << 32 | u64::from(tag);
    }
}

/// The keys under which an association is found.
#[derive(Debug, Default)]
struct Names {
    tag: u32,
    port: u16,
    addrs: Box<[TransportAddr]>,
}

#[derive(Debug)]
struct TableEntry {
    generation: u32,
    association: Option<Box<Association>>,
    names: Names,
    /// The association has not ended.
    live: bool,
    /// The peer that opened it, if a peer did and it has not ended.
    holder: Option<Holder>,
    /// Memory for received data, as counted in the total.
    receive_memory: usize,
}

/// All associations of an endpoint.
#[derive(Default)]
pub(super) struct Table {
    entries: Vec<TableEntry>,
    free: Vec<u32>,
    by_tag: HashMap<u32, u32, BuildHasherDefault<TagHasher>>,
    by_peer: SmallMap<(TransportAddr, u16), u32>,
    /// Number of associations that have not ended.
    live: usize,
    /// Total over all entries.
    receive_memory: usize,
}

impl core::fmt::Debug for Table {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Table")
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Returns the number of associations that have not ended. Ended ones may still hold unread data.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Returns the highest index plus one.
    pub(super) fn entries(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Returns the memory that received data uses in all associations.
    pub(super) fn receive_memory(&self) -> usize {
        self.receive_memory
    }

    /// Updates the total after a change of an association's received data.
    #[inline]
    pub(super) fn note_receive_memory(&mut self, index: u32) {
        let place = &mut self.entries[index as usize];
        let now = place
            .association
            .as_ref()
            .map_or(0, |association| association.receive_memory());
        self.receive_memory = self.receive_memory - place.receive_memory + now;
        place.receive_memory = now;
    }

    /// Records the peer that opened the association.
    pub(super) fn set_holder(&mut self, id: AssocId, holder: Holder) {
        self.entries[id.index as usize].holder = Some(holder);
    }

    /// Removes an ended association from the counts. Returns the peer that opened it, once.
    pub(super) fn retire(&mut self, index: u32) -> Option<Holder> {
        let place = &mut self.entries[index as usize];
        self.live -= usize::from(core::mem::take(&mut place.live));
        place.holder.take()
    }

    /// Returns the identifier of the next association to be inserted.
    pub(super) fn next_id(&mut self) -> AssocId {
        let index = match self.free.last() {
            Some(&index) => index,
            None => {
                let index = self.entries.len() as u32;
                if index == 0 {
                    // Most endpoints of a simulation have one association.
                    self.entries.reserve_exact(1);
                }
                self.entries.push(TableEntry {
                    generation: 0,
                    association: None,
                    names: Names::default(),
                    live: false,
                    holder: None,
                    receive_memory: 0,
                });
                self.free.push(index);
                index
            }
        };
        AssocId {
            index,
            generation: self.entries[index as usize].generation,
        }
    }

    /// Inserts the association under the identifier that [`Table::next_id`] returned last.
    pub(super) fn insert(&mut self, association: Association) {
        let index = association.id().index;
        debug_assert_eq!(self.free.last(), Some(&index));
        self.free.pop();
        let place = &mut self.entries[index as usize];
        place.association = Some(Box::new(association));
        place.live = true;
        self.live += 1;
        self.rename(index);
    }

    /// Removes the association's keys: packets no longer reach it. The user can still read from it.
    pub(super) fn hide(&mut self, index: u32) {
        let names = core::mem::take(&mut self.entries[index as usize].names);
        if self.by_tag.get(&names.tag) == Some(&index) {
            self.by_tag.remove(&names.tag);
        }
        for &addr in &names.addrs {
            if self.by_peer.get(&(addr, names.port)) == Some(&index) {
                self.by_peer.remove(&(addr, names.port));
            }
        }
    }

    /// Removes the association and frees its place.
    pub(super) fn remove(&mut self, index: u32) {
        self.hide(index);
        let place = &mut self.entries[index as usize];
        if place.association.take().is_some() {
            place.generation = place.generation.wrapping_add(1);
            self.free.push(index);
        }
        self.note_receive_memory(index);
    }

    /// Updates the keys after the association's tag or addresses have changed.
    pub(super) fn rename(&mut self, index: u32) {
        self.hide(index);
        let Some(association) = self.entries[index as usize].association.as_deref() else {
            return;
        };
        let names = Names {
            tag: association.tags().0,
            port: association.peer_port(),
            addrs: association.sending().remote_addrs().collect(),
        };
        self.by_tag.insert(names.tag, index);
        for &addr in &names.addrs {
            // An address that belongs to another association stays with it.
            self.by_peer.get_or_insert((addr, names.port), index);
        }
        self.entries[index as usize].names = names;
    }

    /// Returns the tags under which associations are found.
    pub(super) fn tags(&self) -> impl Iterator<Item = u32> + '_ {
        let found = self.entries.iter().filter(|place| place.live);
        found.map(|place| place.names.tag)
    }

    pub(super) fn has_tag(&self, tag: u32) -> bool {
        self.by_tag.contains_key(&tag)
    }

    pub(super) fn by_tag(&self, tag: u32) -> Option<u32> {
        self.by_tag.get(&tag).copied()
    }

    // [9260:1.3-1]
    pub(super) fn by_peer(&self, remote: TransportAddr, port: u16) -> Option<u32> {
        self.by_peer.get(&(remote, port)).copied()
    }

    /// Whether any association has this address of a peer.
    pub(super) fn has_remote(&self, remote: TransportAddr) -> bool {
        self.by_peer.has_in((remote, 0)..=(remote, u16::MAX))
    }

    pub(super) fn at(&self, index: u32) -> Option<&Association> {
        self.entries.get(index as usize)?.association.as_deref()
    }

    pub(super) fn at_mut(&mut self, index: u32) -> Option<&mut Association> {
        self.entries.get_mut(index as usize)?.association.as_deref_mut()
    }

    pub(super) fn get(&self, id: AssocId) -> Option<&Association> {
        self.at(self.index(id)?)
    }

    pub(super) fn index(&self, id: AssocId) -> Option<u32> {
        let place = self.entries.get(id.index as usize)?;
        (place.generation == id.generation && place.association.is_some()).then_some(id.index)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = AssocId> + '_ {
        self.entries
            .iter()
            .filter_map(|place| place.association.as_ref().map(|association| association.id()))
    }
}
