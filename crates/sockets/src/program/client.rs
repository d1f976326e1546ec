//! The connection to the service, and its start.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use crate::control::{Answer, HEAD, MAX, Op, Request};
use crate::program::{check, errno, real, table, thread};
use crate::service::{LAST_WAIT, Prepared};

/// The name of the service: of this process, or of the one that it was forked from.
static NAME: AtomicPtr<Vec<u8>> = AtomicPtr::new(std::ptr::null_mut());
/// The process whose thread the service is.
static HOME: AtomicU32 = AtomicU32::new(0);
static STARTING: AtomicBool = AtomicBool::new(false);
static PREPARED: AtomicBool = AtomicBool::new(false);
/// A connection that is not in use. -1: none.
static CONNECTION: AtomicI32 = AtomicI32::new(-1);

/// An answer of the service.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) value: i32,
    pub(crate) reading: u32,
    pub(crate) body: Vec<u8>,
    pub(crate) fd: Option<i32>,
}

/// Asks the service. The error is an errno.
pub(crate) fn call(op: Op, socket: u32, a: i32, b: i32, body: &[u8]) -> Result<Outcome, i32> {
    if body.len() > MAX - HEAD {
        return Err(libc::EINVAL);
    }
    let kept = CONNECTION.swap(-1, Ordering::AcqRel);
    if kept >= 0 {
        match exchange(kept, op, socket, a, b, body) {
            // The program has closed the connection, or the number is another descriptor now.
            Err(Failure::Connection) => {}
            Err(Failure::Errno(errno)) => {
                keep(kept);
                return Err(errno);
            }
            Ok(outcome) => {
                keep(kept);
                return Ok(outcome);
            }
        }
    }
    let fd = connect()?;
    let outcome = exchange(fd, op, socket, a, b, body);
    keep(fd);
    outcome.map_err(|failure| match failure {
        Failure::Connection => libc::ENOTCONN,
        Failure::Errno(errno) => errno,
    })
}

enum Failure {
    Connection,
    Errno(i32),
}

fn keep(fd: i32) {
    if CONNECTION
        .compare_exchange(-1, fd, Ordering::AcqRel, Ordering::Relaxed)
        .is_err()
    {
        real::close(fd);
    }
}

/// Space for one descriptor of ancillary data.
#[repr(C, align(8))]
pub(crate) struct FdSpace([u8; 32]);

impl FdSpace {
    pub(crate) fn new() -> FdSpace {
        FdSpace([0; 32])
    }

    /// Attaches it to a message.
    pub(crate) fn attach(&mut self, message: &mut libc::msghdr) {
        message.msg_control = self.0.as_mut_ptr().cast();
        message.msg_controllen = self.0.len();
    }

    /// Returns the descriptor that came with a received message.
    pub(crate) fn fd(message: &libc::msghdr) -> Option<i32> {
        // SAFETY: the kernel has filled in the ancillary data and its length.
        unsafe {
            let head = libc::CMSG_FIRSTHDR(message);
            let is_fd =
                !head.is_null() && (*head).cmsg_level == libc::SOL_SOCKET && (*head).cmsg_type == libc::SCM_RIGHTS;
            is_fd.then(|| libc::CMSG_DATA(head).cast::<i32>().read_unaligned())
        }
    }
}

/// Returns a message header without anything.
pub(crate) fn empty_message() -> libc::msghdr {
    // SAFETY: zeros are valid for all fields.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn part(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

fn exchange(fd: i32, op: Op, socket: u32, a: i32, b: i32, body: &[u8]) -> Result<Outcome, Failure> {
    let mut request = Request { op, socket, a, b }.encode().to_vec();
    request.extend(body);
    let sent = real::send(fd, request.as_ptr().cast(), request.len(), libc::MSG_NOSIGNAL);
    if check(sent) != Ok(request.len()) {
        return Err(Failure::Connection);
    }
    let mut answer = vec![0; MAX];
    let mut parts = [part(&mut answer)];
    let mut space = FdSpace::new();
    let (received, message) = loop {
        let mut message = empty_message();
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = 1;
        space.attach(&mut message);
        match check(real::recvmsg(fd, &mut message, libc::MSG_CMSG_CLOEXEC)) {
            // A signal does not end a request: its answer would be taken for that of the next one.
            Err(libc::EINTR) => {}
            other => break (other, message),
        }
    };
    let len = received.map_err(|_| Failure::Connection)?;
    let head = Answer::decode(&answer[..len]).ok_or(Failure::Connection)?;
    if head.errno != 0 {
        return Err(Failure::Errno(head.errno));
    }
    Ok(Outcome {
        value: head.value,
        reading: head.reading,
        body: answer[HEAD..len].to_vec(),
        fd: FdSpace::fd(&message),
    })
}

/// Connects to the service, which is started if there is none.
fn connect() -> Result<i32, i32> {
    match connect_to_running() {
        Err(libc::ECONNREFUSED) => {
            start()?;
            connect_to_running()
        }
        other => other,
    }
}

fn connect_to_running() -> Result<i32, i32> {
    let name = NAME.load(Ordering::Acquire);
    if name.is_null() {
        return Err(libc::ECONNREFUSED);
    }
    // SAFETY: names are never freed.
    let name: &Vec<u8> = unsafe { &*name };
    // SAFETY: zeros are valid for all fields.
    let mut addr: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    addr.sun_family = libc::AF_UNIX as u16;
    // The name is abstract: it follows a zero.
    for (place, byte) in addr.sun_path[1..].iter_mut().zip(name) {
        *place = byte.cast_signed();
    }
    let fd = real::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
    if fd < 0 {
        return Err(errno());
    }
    let len = (std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len()) as u32;
    if real::connect(fd, (&raw const addr).cast(), len) != 0 {
        let error = errno();
        real::close(fd);
        return Err(error);
    }
    Ok(fd)
}

/// Starts the service in this process.
fn start() -> Result<(), i32> {
    while STARTING.swap(true, Ordering::AcqRel) {
        std::thread::yield_now();
    }
    let started = if HOME.load(Ordering::Acquire) == std::process::id() {
        Ok(())
    } else {
        start_thread()
    };
    STARTING.store(false, Ordering::Release);
    started
}

fn start_thread() -> Result<(), i32> {
    let prepared = Prepared::new().map_err(|errno| errno as i32)?;
    let name = Box::into_raw(Box::new(prepared.name().to_vec()));
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
        let is_apart = separate(listener);
        let _ = ready.send(is_apart);
        if is_apart {
            prepared.run();
        }
    });
    restore_signals(&masked);
    if started.is_err() || is_ready.recv() != Ok(true) {
        return Err(libc::ENOMEM);
    }
    // The thread has its own.
    real::close(listener);
    NAME.store(name, Ordering::Release);
    HOME.store(std::process::id(), Ordering::Release);
    Ok(())
}

/// Gives this thread descriptors of its own: the program neither sees nor closes them, and its pipes and files do not stay open here.
fn separate(listener: i32) -> bool {
    // SAFETY: it concerns the descriptors of this thread only.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return false;
    }
    let below = listener > 3 && real::close_range(3, (listener - 1).cast_unsigned(), 0) != 0;
    let above = real::close_range((listener + 1).cast_unsigned(), u32::MAX, 0) != 0;
    // SAFETY: the path ends with a zero.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    for standard in 0..3 {
        if standard != listener {
            real::dup2(null, standard);
        }
    }
    !below && !above
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

/// A child has the descriptors of its parent, and no service.
extern "C" fn on_fork() {
    table::adopt();
    STARTING.store(false, Ordering::Release);
    let connection = CONNECTION.swap(-1, Ordering::AcqRel);
    if connection >= 0 {
        // Its parent uses it.
        real::close(connection);
    }
}

/// The process ends: what was sent is delivered first, as a kernel would do afterwards.
extern "C" fn on_exit() {
    if HOME.load(Ordering::Acquire) != std::process::id() {
        return;
    }
    let Ok(fd) = connect_to_running() else { return };
    let limit = libc::timeval {
        tv_sec: LAST_WAIT.as_secs().cast_signed() + 2,
        tv_usec: 0,
    };
    let len = size_of::<libc::timeval>() as u32;
    real::setsockopt(
        fd,
        libc::SOL_SOCKET,
        libc::SO_RCVTIMEO,
        (&raw const limit).cast::<c_void>(),
        len,
    );
    let _ = exchange(fd, Op::Finish, 0, 0, 0, &[]);
}
