//! The start of the service: a thread with a table of descriptors of its own.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::mpsc::Sender;

use crate::control::SECRET;
use crate::program::{real, table, thread};
use crate::service::Prepared;

/// Where the service is to be asked.
#[derive(Debug)]
pub(crate) struct Place {
    /// The name: of this process, or of the one that it was forked from.
    pub(crate) name: Vec<u8>,
    /// What each request has to have.
    pub(crate) secret: [u8; SECRET],
    /// The user whose service it is.
    pub(crate) user: u32,
}

static PLACE: AtomicPtr<Place> = AtomicPtr::new(std::ptr::null_mut());
/// The process whose thread the service is.
static HOME: AtomicU32 = AtomicU32::new(0);
static STARTING: AtomicBool = AtomicBool::new(false);
static PREPARED: AtomicBool = AtomicBool::new(false);

/// Bytes of the stack of a service that needs one of its own.
const STACK: usize = 2 << 20;
/// Bytes below the stack that are not accessible.
const GUARD: usize = 64 << 10;
/// Descriptors that are closed one by one where the kernel does not list them.
const MOST_UNKNOWN: i32 = 1 << 16;

/// Returns where the service is, if one was started.
pub(crate) fn place() -> Option<&'static Place> {
    // SAFETY: places are never freed.
    unsafe { PLACE.load(Ordering::Acquire).as_ref() }
}

/// Whether the service is a thread of this process.
pub(crate) fn is_home() -> bool {
    HOME.load(Ordering::Acquire) == std::process::id()
}

/// A child begins without a service.
pub(crate) fn on_fork() {
    table::adopt();
    STARTING.store(false, Ordering::Release);
}

/// Starts the service in this process. A child calls `on_fork`, and the process at its end `on_exit`.
pub(crate) fn start(on_fork: extern "C" fn(), on_exit: extern "C" fn()) -> Result<(), i32> {
    while STARTING.swap(true, Ordering::AcqRel) {
        std::thread::yield_now();
    }
    let started = if is_home() {
        Ok(())
    } else {
        start_thread(on_fork, on_exit)
    };
    STARTING.store(false, Ordering::Release);
    started
}

fn start_thread(on_fork: extern "C" fn(), on_exit: extern "C" fn()) -> Result<(), i32> {
    let prepared = Prepared::new().map_err(|errno| errno as i32)?;
    let place = Box::new(Place {
        name: prepared.name().to_vec(),
        secret: prepared.secret(),
        // SAFETY: no arguments.
        user: unsafe { libc::geteuid() },
    });
    let listener = prepared.listener();
    table::adopt();
    if !PREPARED.swap(true, Ordering::AcqRel) {
        // SAFETY: the functions need nothing but statics.
        unsafe {
            libc::pthread_atfork(None, None, Some(on_fork));
            libc::atexit(on_exit);
        }
    }
    let (ready, is_ready) = std::sync::mpsc::channel();
    let masked = block_signals();
    let started = std::thread::Builder::new().name("whimbrel".to_owned()).spawn(move || {
        thread::become_service();
        // SAFETY: it concerns the descriptors of this thread only.
        if unsafe { libc::unshare(libc::CLONE_FILES) } == 0 {
            serve(prepared, &ready);
        } else {
            serve_apart(prepared, ready);
        }
    });
    restore_signals(&masked);
    if started.is_err() || is_ready.recv().is_err() {
        return Err(libc::ENOMEM);
    }
    // The thread has its own.
    real::close(listener);
    PLACE.store(Box::into_raw(place), Ordering::Release);
    HOME.store(std::process::id(), Ordering::Release);
    Ok(())
}

/// Runs the service, whose table of descriptors is its own now.
fn serve(prepared: Prepared, ready: &Sender<()>) {
    close_others(prepared.listener());
    let _ = ready.send(());
    prepared.run();
}

/// Runs the service where a thread may not leave the table of descriptors, as containers often have it (seccomp): in one that begins with another
/// table, and has this thread's memory, its thread-local variables included. This thread waits until the process ends, and touches none of them.
fn serve_apart(prepared: Prepared, ready: Sender<()>) {
    let call: Box<dyn FnOnce()> = Box::new(move || serve(prepared, &ready));
    let argument = Box::into_raw(Box::new(call));
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
    // SAFETY: a new mapping, whose lower end is not accessible, for the thread and as long as it runs.
    let cloned = unsafe {
        let stack = libc::mmap(std::ptr::null_mut(), STACK, protection, flags, -1, 0);
        if stack == libc::MAP_FAILED {
            -1
        } else {
            libc::mprotect(stack, GUARD, libc::PROT_NONE);
            let flags =
                libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_SIGHAND | libc::CLONE_THREAD | libc::CLONE_SYSVSEM;
            libc::clone(run_apart, stack.byte_add(STACK), flags, argument.cast())
        }
    };
    if cloned < 0 {
        // SAFETY: no other thread has it.
        drop(unsafe { Box::from_raw(argument) });
        return;
    }
    static NEVER: AtomicU32 = AtomicU32::new(0);
    loop {
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: it waits on a word that never changes. Signals are blocked, and the kernel restarts the call after those of the C library.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                NEVER.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                0,
                none,
            );
        }
    }
}

extern "C" fn run_apart(argument: *mut c_void) -> i32 {
    // SAFETY: it comes from `serve_apart`, and is used once.
    let call = unsafe { Box::from_raw(argument.cast::<Box<dyn FnOnce()>>()) };
    let _ = catch_unwind(AssertUnwindSafe(call));
    0
}

/// Closes all descriptors of this thread but one: its table is its own, and pipes and files of the program do not stay open here.
fn close_others(listener: i32) {
    let below = listener > 3 && real::close_range(3, (listener - 1).cast_unsigned(), 0) != 0;
    let above = real::close_range((listener + 1).cast_unsigned(), u32::MAX, 0) != 0;
    if below || above {
        close_each(listener);
    }
    // SAFETY: the path ends with a zero.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    for standard in 0..3 {
        if standard != listener {
            if null < 0 {
                real::close(standard);
            } else {
                real::dup2(null, standard);
            }
        }
    }
}

/// The same where the kernel has no `close_range`, or refuses it.
fn close_each(listener: i32) {
    let listed = std::fs::read_dir("/proc/thread-self/fd").map(|entries| {
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter_map(|name| name.parse().ok()).collect::<Vec<i32>>()
    });
    let all = listed.unwrap_or_else(|_| (3..MOST_UNKNOWN).collect());
    for fd in all.into_iter().filter(|fd| *fd > 2 && *fd != listener) {
        real::close(fd);
    }
}

fn block_signals() -> libc::sigset_t {
    let mut before = MaybeUninit::zeroed();
    let mut all = MaybeUninit::uninit();
    // SAFETY: both sets are filled before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: it is the set from before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}
