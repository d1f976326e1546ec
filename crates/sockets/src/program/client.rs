//! Connections to the service.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::control::{Answer, HEAD, MAX, MAX_BODY, Op, Request};
use crate::program::start::{self, Place};
use crate::program::{check, errno, own, real, table};
use crate::service::LAST_WAIT;

/// A connection that is not in use.
static KEPT: AtomicPtr<Connection> = AtomicPtr::new(std::ptr::null_mut());
/// Numbers of connections are below, if the limit of the process allows it, and otherwise at the end of what it allows.
const HIGH: u64 = 1024;
/// Connections have this many numbers up to there.
const HIGH_NUMBERS: u64 = 24;

/// A connection to the service.
#[derive(Debug)]
struct Connection {
    fd: i32,
    /// Device and inode: whether the number is still this connection.
    identity: (u64, u64),
    place: &'static Place,
}

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
    if body.len() > MAX_BODY {
        return Err(libc::EINVAL);
    }
    if let Some(kept) = take_kept() {
        match exchange(&kept, op, socket, a, b, body) {
            // The service has ended, or the program has closed the connection.
            Err(Failure::Connection) => kept.close(),
            Err(Failure::Errno(errno)) => {
                kept.keep();
                return Err(errno);
            }
            Ok(outcome) => {
                kept.keep();
                return Ok(outcome);
            }
        }
    }
    let connection = connect()?;
    match exchange(&connection, op, socket, a, b, body) {
        Err(Failure::Connection) => {
            connection.close();
            Err(libc::ENOTCONN)
        }
        Err(Failure::Errno(errno)) => {
            connection.keep();
            Err(errno)
        }
        Ok(outcome) => {
            connection.keep();
            Ok(outcome)
        }
    }
}

enum Failure {
    Connection,
    Errno(i32),
}

impl Connection {
    /// Takes in a connected descriptor, under a number that programs do not expect to get.
    fn new(fd: i32, place: &'static Place) -> Result<Connection, i32> {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: it fills the structure.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
        let lowest = limit.rlim_cur.min(HIGH).saturating_sub(HIGH_NUMBERS);
        let high = real::fcntl(fd, libc::F_DUPFD_CLOEXEC, lowest as usize);
        let fd = if high >= 0 {
            real::close(fd);
            high
        } else {
            fd
        };
        let identity = table::identity(fd).ok_or(libc::EBADF)?;
        own::add(fd);
        Ok(Connection { fd, identity, place })
    }

    /// Whether the number is this connection still: a program may have closed it by a system call of its own.
    fn is_own(&self) -> bool {
        table::identity(self.fd) == Some(self.identity)
    }

    /// Keeps the connection for the next request, unless there is one.
    fn keep(self) {
        let pointer = Box::into_raw(Box::new(self));
        let none = std::ptr::null_mut();
        if KEPT
            .compare_exchange(none, pointer, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            // SAFETY: it was made above, and no other code has it.
            unsafe { Box::from_raw(pointer) }.close();
        }
    }

    fn close(self) {
        own::remove(self.fd);
        if self.is_own() {
            real::close(self.fd);
        }
    }
}

/// Takes the connection that is kept, if it is one still.
fn take_kept() -> Option<Connection> {
    let pointer = KEPT.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if pointer.is_null() {
        return None;
    }
    // SAFETY: `keep` has made it, and the exchange has made it this thread's.
    let kept = *unsafe { Box::from_raw(pointer) };
    if kept.is_own() {
        return Some(kept);
    }
    own::remove(kept.fd);
    None
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

fn exchange(to: &Connection, op: Op, socket: u32, a: i32, b: i32, body: &[u8]) -> Result<Outcome, Failure> {
    let fd = to.fd;
    let mut request = Request { op, socket, a, b }.encode().to_vec();
    request.extend(to.place.secret);
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
fn connect() -> Result<Connection, i32> {
    match connect_to_running() {
        Err(libc::ECONNREFUSED) => {
            start::start(on_fork, on_exit)?;
            connect_to_running()
        }
        other => other,
    }
}

fn connect_to_running() -> Result<Connection, i32> {
    let place = start::place().ok_or(libc::ECONNREFUSED)?;
    // SAFETY: zeros are valid for all fields.
    let mut addr: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    addr.sun_family = libc::AF_UNIX as u16;
    // The name is abstract: it follows a zero.
    for (to, byte) in addr.sun_path[1..].iter_mut().zip(&place.name) {
        *to = byte.cast_signed();
    }
    let fd = real::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
    if fd < 0 {
        return Err(errno());
    }
    let len = (std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + place.name.len()) as u32;
    let connected = if real::connect(fd, (&raw const addr).cast(), len) != 0 {
        Err(errno())
    } else if peer_user(fd) != Some(place.user) {
        // Another user has taken the name of a service that has ended.
        Err(libc::ECONNREFUSED)
    } else {
        Connection::new(fd, place)
    };
    if connected.is_err() {
        real::close(fd);
    }
    connected
}

/// The user who listens at the other end of a connection.
fn peer_user(fd: i32) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as u32;
    let to = (&raw mut peer).cast::<c_void>();
    (real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, to, &mut len) == 0).then_some(peer.uid)
}

/// A child has the descriptors of its parent, and no service.
pub(crate) extern "C" fn on_fork() {
    start::on_fork();
    // Its parent uses the connections: the one that is kept, and those of requests of other threads.
    let _ = take_kept();
    for fd in own::between(0, u32::MAX) {
        own::remove(fd.cast_signed());
        real::close(fd.cast_signed());
    }
}

/// The process ends: what was sent is delivered first, as a kernel would do afterwards.
pub(crate) extern "C" fn on_exit() {
    if !start::is_home() {
        return;
    }
    let Ok(connection) = connect_to_running() else { return };
    let limit = libc::timeval {
        tv_sec: LAST_WAIT.as_secs().cast_signed() + 2,
        tv_usec: 0,
    };
    let len = size_of::<libc::timeval>() as u32;
    let value = (&raw const limit).cast::<c_void>();
    real::setsockopt(connection.fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, value, len);
    let _ = exchange(&connection, Op::Finish, 0, 0, 0, &[]);
    connection.close();
}
