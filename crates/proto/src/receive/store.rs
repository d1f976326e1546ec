//! Stores fragments in memory, with their buffers.
//!
//! An index identifies a fragment. A released fragment keeps its buffer and is put in the free list of its size class,
//! so that no packet allocates memory in steady state.

use whimbrel_wire::{Data, MessageNumber, Payload};

/// No fragment. Leaves two bits of a `u32` free for the flags of a slot in the TSN map.
pub(super) const NONE: u32 = u32::MAX >> 2;

/// The cost of a held chunk besides its payload, in bytes: its record here, its slot in the TSN map (twice, while the
/// map grows) and its entry in the queue of a stream.
pub(crate) const CHUNK_OVERHEAD: usize = 144;

const SMALLEST_BUFFER: usize = 64;
const CLASSES: usize = 22;

/// The stage of the message that begins with this fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Fragments are missing.
    Assembling,
    /// The message is complete, but an earlier message of its stream is not.
    Parked,
    /// The message is in the list for the reader.
    Ready,
}

/// The bits of a fragment, packed so that a fragment has 48 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Flags(u8);

impl Flags {
    const BEGIN: u8 = 1;
    const END: u8 = 2;
    const UNORDERED: u8 = 4;

    fn of(data: &Data<'_>) -> Self {
        Flags(
            (u8::from(data.begin) * Self::BEGIN)
                | (u8::from(data.end) * Self::END)
                | (u8::from(data.unordered) * Self::UNORDERED),
        )
    }
}

/// A DATA or I-DATA chunk in memory.
#[derive(Debug)]
pub(super) struct Fragment {
    /// The buffer has the size of its class, at least `len` bytes. It is empty if the payload is `len` zero bytes.
    buffer: Box<[u8]>,
    len: u32,
    pub(super) tsn: u32,
    /// Of I-DATA chunks, only the first one of a message has it.
    pub(super) ppid: u32,
    /// The number of its message: in the numbering of [`Streams`](super::streams::Streams) if it is ordered.
    pub(super) number: u32,
    /// The next fragment of the same message; in a free list, the next free fragment.
    pub(super) next: u32,
    /// At the two ends of a run of fragments: the other end. At the head of a ready message: the next ready message.
    pub(super) other: u32,
    /// At the head of a run: payload bytes of the run.
    pub(super) run: u32,
    pub(super) stream: u16,
    flags: Flags,
    pub(super) stage: Stage,
}

impl Fragment {
    pub(super) fn begin(&self) -> bool {
        self.flags.0 & Flags::BEGIN != 0
    }

    pub(super) fn end(&self) -> bool {
        self.flags.0 & Flags::END != 0
    }

    pub(super) fn unordered(&self) -> bool {
        self.flags.0 & Flags::UNORDERED != 0
    }

    /// What comes before it has been delivered: what is left of its message begins here.
    pub(super) fn set_begin(&mut self) {
        self.flags.0 |= Flags::BEGIN;
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn payload(&self) -> Payload<'_> {
        if self.buffer.is_empty() {
            Payload::Zeros(self.len)
        } else {
            Payload::Bytes(&self.buffer[..self.len()])
        }
    }

    /// Whether both can be fragments of one message of DATA chunks (RFC 9260 §6.9). The SSN has no meaning if unordered (§3.3.1).
    pub(super) fn is_of_one_message_with(&self, data: &Data<'_>) -> bool {
        self.stream == data.stream
            && self.unordered() == data.unordered
            && self.ppid == data.ppid
            && (data.unordered || has_ssn(self.number, data.number))
    }
}

/// Whether the stream sequence number of a message with this full number is that of a chunk.
pub(super) fn has_ssn(full: u32, number: MessageNumber) -> bool {
    matches!(number, MessageNumber::Ssn(ssn) if ssn.0 == full as u16)
}

/// All fragments held, and the buffers kept for future ones.
#[derive(Debug)]
pub(super) struct Store {
    fragments: Vec<Fragment>,
    free: [u32; CLASSES],
    /// Bytes of buffers in the free lists.
    pooled: usize,
    /// Payload bytes held.
    payload: usize,
    /// Payload bytes held, rounded up to their buffers, and the overhead of each chunk. Zero bytes count like real
    /// bytes, so that a simulation has the same result with either.
    charged: usize,
    /// Bytes of buffers, used and free, above which free ones are released.
    limit: usize,
}

impl Store {
    pub(super) fn new(limit: usize) -> Self {
        Store {
            fragments: Vec::new(),
            free: [NONE; CLASSES],
            pooled: 0,
            payload: 0,
            charged: 0,
            limit,
        }
    }

    /// Sets the memory above which free buffers are released.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(super) fn payload_bytes(&self) -> usize {
        self.payload
    }

    pub(super) fn charged_bytes(&self) -> usize {
        self.charged
    }

    /// Returns the bytes charged for held chunks, plus the free buffers.
    pub(super) fn memory(&self) -> usize {
        self.charged + self.pooled
    }

    pub(super) fn get(&self, index: u32) -> &Fragment {
        &self.fragments[index as usize]
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut Fragment {
        &mut self.fragments[index as usize]
    }

    /// Copies the chunk into memory, as a run of its own. The caller has checked the limits.
    pub(super) fn insert(&mut self, data: &Data<'_>, number: u32) -> u32 {
        let len = data.payload.len();
        let class = class_of(len);
        self.payload += len;
        self.charged += charge(len);
        let wanted = if matches!(data.payload, Payload::Bytes(_)) {
            class
        } else {
            0
        };
        let index = match self.free[wanted] {
            NONE => self.grow(wanted),
            index => {
                self.free[wanted] = self.fragments[index as usize].next;
                self.pooled -= size_of_class(wanted);
                index
            }
        };
        let fragment = &mut self.fragments[index as usize];
        if let Payload::Bytes(bytes) = data.payload {
            fragment.buffer[..len].copy_from_slice(bytes);
        }
        fragment.len = len as u32;
        fragment.tsn = data.tsn.0;
        fragment.ppid = data.ppid;
        fragment.next = NONE;
        fragment.other = index;
        fragment.run = len as u32;
        fragment.number = number;
        fragment.stream = data.stream;
        fragment.flags = Flags::of(data);
        fragment.stage = Stage::Assembling;
        index
    }

    /// Returns a fragment with a new buffer of this class.
    #[cold]
    fn grow(&mut self, class: usize) -> u32 {
        let size = size_of_class(class);
        if self.pooled > 0 && self.charged + self.pooled > self.limit {
            self.release_pool();
        }
        let buffer = vec![0; size].into_boxed_slice();
        if self.free[0] != NONE {
            let index = self.free[0];
            let fragment = self.get_mut(index);
            fragment.buffer = buffer;
            self.free[0] = fragment.next;
            return index;
        }
        self.fragments.push(Fragment {
            buffer,
            len: 0,
            tsn: 0,
            ppid: 0,
            next: NONE,
            other: NONE,
            run: 0,
            number: 0,
            stream: 0,
            flags: Flags::default(),
            stage: Stage::Assembling,
        });
        (self.fragments.len() - 1) as u32
    }

    /// Releases the fragment.
    pub(super) fn remove(&mut self, index: u32) {
        let fragment = &mut self.fragments[index as usize];
        let len = fragment.len();
        let class = if fragment.buffer.is_empty() { 0 } else { class_of(len) };
        fragment.next = self.free[class];
        self.free[class] = index;
        self.payload -= len;
        self.charged -= charge(len);
        self.pooled += size_of_class(class);
    }

    /// Frees the memory of everything that is not in use.
    pub(super) fn release_pool(&mut self) {
        if self.charged == 0 {
            self.fragments = Vec::new();
            self.free = [NONE; CLASSES];
            self.pooled = 0;
            return;
        }
        for class in 1..CLASSES {
            let mut index = core::mem::replace(&mut self.free[class], NONE);
            while index != NONE {
                let bare = self.free[0];
                let fragment = self.get_mut(index);
                fragment.buffer = Box::default();
                let next = core::mem::replace(&mut fragment.next, bare);
                self.free[0] = index;
                index = next;
            }
        }
        self.pooled = 0;
    }

    /// Returns the bytes on the heap, for tests of the limits.
    pub(super) fn heap_bytes(&self) -> usize {
        let buffers: usize = self.fragments.iter().map(|f| f.buffer.len()).sum();
        buffers + self.fragments.capacity() * size_of::<Fragment>()
    }
}

/// Returns the bytes charged for a payload of `len` bytes.
pub(super) fn charge(len: usize) -> usize {
    size_of_class(class_of(len)) + CHUNK_OVERHEAD
}

/// Returns the size class of a payload: 64, 96, 128, 192, 256, 384, ... bytes, so that at most a third of a buffer over
/// 96 bytes is unused. Class 0 has no buffer.
fn class_of(len: usize) -> usize {
    if len <= SMALLEST_BUFFER {
        return 1;
    }
    let power = usize::BITS - (len - 1).leading_zeros(); // of two, rounded up: at least 7
    let double_step = 2 * (power as usize - 6) + 1;
    if len <= (3 << power) / 4 {
        double_step - 1
    } else {
        double_step
    }
}

fn size_of_class(class: usize) -> usize {
    match class {
        0 => 0,
        _ if class % 2 == 1 => SMALLEST_BUFFER << (class / 2),
        _ => (SMALLEST_BUFFER * 3 / 4) << (class / 2),
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_wire::{Ssn, Tsn};

    use super::*;

    fn data(payload: Payload<'_>) -> Data<'_> {
        Data {
            tsn: Tsn(1),
            stream: 0,
            number: MessageNumber::Ssn(Ssn(0)),
            fsn: 0,
            ppid: 0,
            unordered: false,
            begin: true,
            end: true,
            immediate: false,
            payload,
        }
    }

    #[test]
    fn a_size_class_holds_its_lengths_and_wastes_a_third_at_most() {
        for len in 1..=65_535 {
            let class = class_of(len);
            assert!(class < CLASSES);
            let size = size_of_class(class);
            assert!(size >= len, "{len} in {size}");
            assert!(class == 1 || size_of_class(class - 1) < len, "{len} in {size}");
            assert!(len <= 96 || size * 2 <= len * 3, "{len} in {size}");
        }
        assert_eq!(size_of_class(class_of(1452)), 1536);
        assert_eq!(class_of(65_535), CLASSES - 1);
    }

    #[test]
    fn buffers_are_reused() {
        let mut store = Store::new(1 << 20);
        let bytes = [7; 1000];
        let first = store.insert(&data(Payload::Bytes(&bytes)), 0);
        let heap = store.heap_bytes();
        store.remove(first);
        for _ in 0..100 {
            let again = store.insert(&data(Payload::Bytes(&bytes[..900])), 0);
            assert_eq!(again, first);
            assert_eq!(store.get(again).payload(), Payload::Bytes(&bytes[..900]));
            assert_eq!(store.pooled, 0);
            store.remove(again);
            assert_eq!(store.pooled, 1024);
        }
        assert_eq!(store.heap_bytes(), heap);
        assert_eq!((store.payload_bytes(), store.charged_bytes()), (0, 0));
        store.release_pool();
        assert_eq!(store.heap_bytes(), 0);
    }

    #[test]
    fn zeros_take_no_buffer_and_are_charged_alike() {
        let mut store = Store::new(1 << 20);
        let index = store.insert(&data(Payload::Zeros(1000)), 0);
        assert_eq!(store.get(index).payload(), Payload::Zeros(1000));
        assert_eq!(store.heap_bytes(), store.fragments.capacity() * size_of::<Fragment>());
        assert_eq!(store.charged_bytes(), charge(1000));
    }

    #[test]
    fn buffers_of_other_sizes_make_room_for_the_size_in_demand() {
        let mut store = Store::new(100_000);
        let bytes = [1; 4096];
        for len in [64, 200, 1000, 2000, 4000, 700] {
            let mut held = Vec::new();
            while store.charged_bytes() + charge(len) <= 100_000 {
                held.push(store.insert(&data(Payload::Bytes(&bytes[..len])), 0));
            }
            assert!(store.heap_bytes() <= 200_000, "{}", store.heap_bytes());
            held.into_iter().for_each(|index| store.remove(index));
        }
        assert!(store.pooled <= 100_000);
    }

    #[test]
    fn a_fragment_is_small() {
        assert!(size_of::<Fragment>() <= 48);
    }
}
