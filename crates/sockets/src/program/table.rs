//! Which descriptors are SCTP sockets, and what all their readers share.
//!
//! The table needs no lock: functions of signal handlers and children of `fork` use it too.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::program::thread;

/// Descriptors above have no SCTP sockets.
const MOST: usize = 1 << 16;
/// Entries that are kept to be used again.
const SPARE: usize = 1024;
/// Bytes of the memory that processes share of a socket.
const PAGE: usize = 4096;
/// What a descriptor adds to the counts of an entry.
const DESCRIPTOR: u64 = 1 << 32;
/// The counts of an entry that is not in use.
const DEAD: u64 = u64::MAX;

static TABLE: [AtomicPtr<Entry>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];
static FREE: [AtomicPtr<Entry>; SPARE] = [const { AtomicPtr::new(std::ptr::null_mut()) }; SPARE];
/// The process to which the table belongs. A child of `vfork` has another number and the same memory.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// States of a socket, as far as the program's half has to know them.
pub(crate) mod state {
    pub(crate) const IDLE: u32 = 0;
    pub(crate) const CONNECTING: u32 = 1;
    pub(crate) const CONNECTED: u32 = 2;
    pub(crate) const LISTENING: u32 = 3;
}

/// What the readers of a socket share, in all processes that have inherited it.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The number of the thread that reads, 0 if there is none.
    lock: AtomicU32,
    /// Bytes of the first record that have been read.
    pub(crate) offset: AtomicU32,
    pub(crate) state: AtomicU32,
    /// Bits of `control::reading`.
    pub(crate) reading: AtomicU32,
    /// Whether the program has set what messages are sent with.
    pub(crate) send_defaults: AtomicU32,
    /// `shutdown` with SHUT_RD.
    pub(crate) read_ended: AtomicBool,
}

/// A socket. Entries are never freed, so that a thread may look at one that another thread gives up.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Descriptors of this process in units of [`DESCRIPTOR`], and calls that use it in units of 1; or [`DEAD`].
    counts: AtomicU64,
    /// Identify the socket of the kernel: a descriptor that was closed behind this library's back has others.
    device: AtomicU64,
    inode: AtomicU64,
    shared: AtomicPtr<Shared>,
    number: AtomicU32,
    v6: AtomicBool,
    many: AtomicBool,
}

/// A socket in use: it is not given up before this is dropped.
#[derive(Debug)]
pub(crate) struct Use {
    entry: &'static Entry,
}

/// The right to read a socket.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    shared: &'a Shared,
    own: u32,
}

/// Device and inode of a descriptor.
pub(crate) fn identity(fd: i32) -> Option<(u64, u64)> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat fills the structure if it returns 0.
    let stat = unsafe { (libc::fstat(fd, stat.as_mut_ptr()) == 0).then(|| stat.assume_init()) };
    stat.map(|stat| (stat.st_dev, stat.st_ino))
}

fn place(fd: i32) -> Option<&'static AtomicPtr<Entry>> {
    TABLE.get(usize::try_from(fd).ok()?)
}

/// Notes that the table belongs to this process: at the beginning, and in a child.
pub(crate) fn adopt() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
}

fn is_adopted() -> bool {
    PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// Returns the socket of a descriptor, `None` for all others.
pub(crate) fn find(fd: i32) -> Option<Use> {
    let place = place(fd)?;
    loop {
        let pointer = place.load(Ordering::Acquire);
        if pointer.is_null() || thread::is_service() {
            return None;
        }
        // SAFETY: entries are never freed.
        let entry: &'static Entry = unsafe { &*pointer };
        let Some(found) = entry.enter() else { continue };
        if place.load(Ordering::Acquire) != pointer {
            continue;
        }
        if found.is_at(fd) {
            return Some(found);
        }
        // Unless another thread has already put something else there.
        let none = std::ptr::null_mut();
        if is_adopted()
            && place
                .compare_exchange(pointer, none, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            release(pointer);
        }
        return None;
    }
}

/// Takes in a descriptor of the service. Returns false if there is no room.
pub(crate) fn insert(fd: i32, number: u32, (v6, many): (bool, bool), state: u32, reading: u32) -> bool {
    let (Some(place), Some((device, inode)), Some(shared)) = (place(fd), identity(fd), map()) else {
        return false;
    };
    // SAFETY: it was just mapped.
    let fields = unsafe { &*shared };
    fields.state.store(state, Ordering::Relaxed);
    fields.reading.store(reading, Ordering::Relaxed);
    let spare = FREE
        .iter()
        .map(|spare| spare.swap(std::ptr::null_mut(), Ordering::AcqRel));
    let pointer = spare.into_iter().find(|spare| !spare.is_null()).unwrap_or_else(|| {
        Box::into_raw(Box::new(Entry {
            counts: AtomicU64::new(DEAD),
            device: AtomicU64::new(0),
            inode: AtomicU64::new(0),
            shared: AtomicPtr::new(std::ptr::null_mut()),
            number: AtomicU32::new(0),
            v6: AtomicBool::new(false),
            many: AtomicBool::new(false),
        }))
    });
    // SAFETY: entries are never freed.
    let entry = unsafe { &*pointer };
    entry.device.store(device, Ordering::Relaxed);
    entry.inode.store(inode, Ordering::Relaxed);
    entry.shared.store(shared, Ordering::Relaxed);
    entry.number.store(number, Ordering::Relaxed);
    entry.v6.store(v6, Ordering::Relaxed);
    entry.many.store(many, Ordering::Relaxed);
    entry.counts.store(DESCRIPTOR, Ordering::Release);
    release(place.swap(pointer, Ordering::AcqRel));
    true
}

/// Maps memory that children share.
fn map() -> Option<*mut Shared> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping of zeros, which are valid values of all fields.
    let pointer = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, flags, -1, 0) };
    (pointer != libc::MAP_FAILED).then_some(pointer.cast())
}

/// Notes that `to` is a duplicate of `from`, or no SCTP socket if `from` is none.
pub(crate) fn duplicate(from: &Use, to: i32) {
    if !is_adopted() {
        return;
    }
    if let Some(place) = place(to) {
        from.entry.counts.fetch_add(DESCRIPTOR, Ordering::AcqRel);
        release(place.swap(std::ptr::from_ref(from.entry).cast_mut(), Ordering::AcqRel));
    }
}

/// Forgets a descriptor, which is closed or becomes another one.
pub(crate) fn remove(fd: i32) {
    // A child of `vfork` closes its own descriptors, not those of its parent.
    if let Some(place) = place(fd)
        && !place.load(Ordering::Relaxed).is_null()
        && is_adopted()
        && !thread::is_service()
    {
        release(place.swap(std::ptr::null_mut(), Ordering::AcqRel));
    }
}

/// Forgets all descriptors of a range.
pub(crate) fn remove_range(first: u32, last: u32) {
    for fd in first as usize..=(last as usize).min(MOST - 1) {
        remove(fd as i32);
    }
}

fn release(pointer: *mut Entry) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: entries are never freed.
    let entry: &'static Entry = unsafe { &*pointer };
    entry.leave(DESCRIPTOR);
}

impl Entry {
    /// Counts a call that uses the entry, unless it is not in use.
    fn enter(&'static self) -> Option<Use> {
        let counted = self.counts.fetch_update(Ordering::AcqRel, Ordering::Acquire, |counts| {
            (counts != DEAD).then(|| counts + 1)
        });
        counted.ok().map(|_| Use { entry: self })
    }

    /// Takes a call or a descriptor off, and gives up the shared memory and the entry with the last one.
    fn leave(&'static self, unit: u64) {
        let is_last = self.counts.fetch_sub(unit, Ordering::AcqRel) == unit;
        let dies = is_last
            && self
                .counts
                .compare_exchange(0, DEAD, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if !dies {
            return;
        }
        let shared = self.shared.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: no call uses the mapping any more: it can only be reached by a descriptor that is in the table.
        unsafe { libc::munmap(shared.cast(), PAGE) };
        let own = std::ptr::from_ref(self).cast_mut();
        let is_kept = |spare: &AtomicPtr<Entry>| {
            let none = std::ptr::null_mut();
            spare
                .compare_exchange(none, own, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let _ = FREE.iter().any(is_kept);
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.entry.leave(1);
    }
}

impl Use {
    /// Whether a descriptor is this socket still: another thread may have closed it, and its number may be something else now.
    pub(crate) fn is_at(&self, fd: i32) -> bool {
        let entry = self.entry;
        let own = (
            entry.device.load(Ordering::Relaxed),
            entry.inode.load(Ordering::Relaxed),
        );
        identity(fd) == Some(own)
    }

    /// The number of the socket for the service.
    pub(crate) fn number(&self) -> u32 {
        self.entry.number.load(Ordering::Relaxed)
    }

    pub(crate) fn is_v6(&self) -> bool {
        self.entry.v6.load(Ordering::Relaxed)
    }

    /// Whether it is of one-to-many style.
    pub(crate) fn is_many(&self) -> bool {
        self.entry.many.load(Ordering::Relaxed)
    }

    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: the mapping lives while a descriptor or a call uses the entry.
        unsafe { &*self.entry.shared.load(Ordering::Acquire) }
    }

    pub(crate) fn state(&self) -> u32 {
        self.shared().state.load(Ordering::Acquire)
    }

    pub(crate) fn set_state(&self, state: u32) {
        self.shared().state.store(state, Ordering::Release);
    }

    /// Waits for the right to read. `None` in a signal handler over a call that has it.
    pub(crate) fn reader(&self) -> Option<Reader<'_>> {
        let shared = self.shared();
        // SAFETY: no arguments.
        let own = unsafe { libc::gettid() }.cast_unsigned();
        let mut turns = 0_u32;
        loop {
            let Err(holder) = shared
                .lock
                .compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire)
            else {
                return Some(Reader { shared, own });
            };
            if holder == own {
                return None;
            }
            turns += 1;
            if turns.is_multiple_of(64) && is_dead(holder) {
                // It was killed while it read.
                let taken = shared
                    .lock
                    .compare_exchange(holder, own, Ordering::AcqRel, Ordering::Acquire);
                if taken.is_ok() {
                    return Some(Reader { shared, own });
                }
            }
            if turns < 64 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        }
    }
}

/// Whether there is no thread of this number.
fn is_dead(thread: u32) -> bool {
    // SAFETY: signal 0 only asks.
    let found = unsafe { libc::kill(thread.cast_signed(), 0) };
    found != 0 && crate::program::errno() == libc::ESRCH
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let _ = self
            .shared
            .lock
            .compare_exchange(self.own, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn entries_are_given_up_once_and_used_again() {
        adopt();
        let file = std::fs::File::open("/dev/null").unwrap();
        let fd = file.as_raw_fd();
        for number in 0..2000 {
            assert!(insert(fd, number, (false, false), state::IDLE, 0));
            let found = find(fd).unwrap();
            assert_eq!(found.number(), number);
            remove(fd);
            assert!(find(fd).is_none());
            assert!(found.is_at(fd), "it is still open");
        }
    }

    #[test]
    fn descriptor_that_is_used_again_is_not_taken_for_a_socket() {
        adopt();
        let file = std::fs::File::open("/dev/null").unwrap();
        let other = std::fs::File::open("/proc/self/stat").unwrap();
        let (fd, copy) = (file.as_raw_fd(), other.as_raw_fd());
        assert!(insert(fd, 9, (true, false), state::IDLE, 1));
        let found = find(fd).unwrap();
        assert!((found.number(), found.is_v6(), found.is_many()) == (9, true, false));
        let reader = found.reader().unwrap();
        assert!(found.reader().is_none(), "the same thread has it");
        drop(reader);
        assert!(found.reader().is_some());
        duplicate(&found, copy);
        assert!(find(copy).is_none(), "another inode");
        assert!(find(fd).is_some());
        remove(fd);
        assert!(find(fd).is_none());
        drop(found);
    }
}
