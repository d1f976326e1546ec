//! Making, connecting, accepting and shutting down.

use std::sync::atomic::Ordering;

use libc::{c_int, sockaddr, socklen_t};

use crate::address;
use crate::control::Op;
use crate::program::client::{FdSpace, call, empty_message};
use crate::program::receive::{is_nonblocking, take_error, wait_to_write};
use crate::program::table::{self, Use, state};
use crate::program::{check, errno, intercept, real, result, user};
use crate::record::{HEADER, Header, Kind};

const FLAGS: c_int = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;

/// Gives a new descriptor the flags that it is asked for. It has FD_CLOEXEC when it comes.
fn set_flags(fd: c_int, flags: c_int) {
    if flags & libc::SOCK_CLOEXEC == 0 {
        real::fcntl(fd, libc::F_SETFD, 0);
    }
    if flags & libc::SOCK_NONBLOCK != 0 {
        real::fcntl(fd, libc::F_SETFL, (libc::O_RDWR | libc::O_NONBLOCK) as usize);
    }
}

fn is_sctp(domain: c_int, kind: c_int, protocol: c_int) -> bool {
    let style = kind & !FLAGS;
    matches!(domain, libc::AF_INET | libc::AF_INET6)
        && protocol == libc::IPPROTO_SCTP
        && matches!(style, libc::SOCK_STREAM | libc::SOCK_SEQPACKET)
}

fn open(domain: c_int, kind: c_int) -> Result<c_int, i32> {
    let style = kind & !FLAGS;
    let outcome = call(Op::Open, 0, domain, style, &[])?;
    let fd = outcome.fd.ok_or(libc::EMFILE)?;
    let many = style == libc::SOCK_SEQPACKET;
    take_in(
        fd,
        outcome.value.cast_unsigned(),
        (domain == libc::AF_INET6, many),
        state::IDLE,
        0,
    )?;
    set_flags(fd, kind & FLAGS);
    Ok(fd)
}

/// Enters a descriptor of the service into the table.
fn take_in(fd: c_int, number: u32, kind: (bool, bool), state: u32, reading: u32) -> Result<(), i32> {
    if table::insert(fd, number, kind, state, reading) {
        return Ok(());
    }
    real::close(fd);
    Err(libc::EMFILE)
}

/// Makes a one-to-one socket of an association.
pub(crate) fn peel_off(socket: &Use, assoc: i32) -> Result<c_int, i32> {
    let outcome = call(Op::Peel, socket.number(), assoc, 0, &[])?;
    let fd = outcome.fd.ok_or(libc::EMFILE)?;
    let number = outcome.value.cast_unsigned();
    take_in(fd, number, (socket.is_v6(), false), state::CONNECTED, outcome.reading)?;
    // SAFETY: a descriptor of this process. It comes with FD_CLOEXEC, which lksctp does not set.
    unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
    Ok(fd)
}

/// Connects, and waits unless the descriptor is non-blocking. Returns the association.
pub(crate) fn connect_to(fd: c_int, socket: &Use, addrs: &[u8]) -> Result<i32, i32> {
    if !socket.is_many() && socket.state() == state::CONNECTING {
        // Of an attempt before, which the program has not asked for.
        match take_error(fd, socket) {
            0 => {}
            errno => return Err(errno),
        }
    }
    let waits = socket.is_many() && !is_nonblocking(fd);
    let outcome = call(Op::Connect, socket.number(), waits.into(), 0, addrs).map_err(|errno| match errno {
        // The service has forgotten a socket whose attempt has failed.
        libc::ENOTCONN => libc::ECONNABORTED,
        other => other,
    })?;
    if !socket.is_many() {
        socket.set_state(state::CONNECTING);
        if is_nonblocking(fd) {
            return Err(libc::EINPROGRESS);
        }
        wait_to_write(fd, socket).map_err(|errno| match errno {
            libc::EAGAIN => libc::EINPROGRESS,
            other => other,
        })?;
        match take_error(fd, socket) {
            0 => socket.set_state(state::CONNECTED),
            errno => return Err(errno),
        }
    }
    Ok(outcome.value)
}

fn connect_one(fd: c_int, socket: &Use, addr: *const sockaddr, len: socklen_t) -> Result<i32, i32> {
    let bytes = user::read(addr.cast(), (len as usize).min(address::STORAGE))?;
    let addr = address::parse(&bytes).ok_or(libc::EINVAL)?;
    connect_to(fd, socket, &address::bytes(addr)).map(|_| 0)
}

/// Takes an association from a listening socket.
fn accept_one(fd: c_int, socket: &Use, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> Result<c_int, i32> {
    if flags & !FLAGS != 0 || socket.state() != state::LISTENING {
        return Err(libc::EINVAL);
    }
    if socket.is_many() {
        return Err(libc::EOPNOTSUPP);
    }
    let mut head = [0_u8; HEADER];
    let mut space = FdSpace::new();
    let mut part = libc::iovec {
        iov_base: head.as_mut_ptr().cast(),
        iov_len: HEADER,
    };
    let mut message = empty_message();
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    space.attach(&mut message);
    let received = check(real::recvmsg(fd, &mut message, libc::MSG_CMSG_CLOEXEC))?;
    let header = Header::decode(&head[..received]).filter(|header| header.kind == Kind::Accepted);
    let header = header.ok_or(libc::ECONNABORTED)?;
    let new = FdSpace::fd(&message).ok_or(libc::EMFILE)?;
    take_in(
        new,
        header.value,
        (socket.is_v6(), false),
        state::CONNECTED,
        header.context,
    )?;
    // The service has room for one more then.
    let taken = Header {
        kind: Kind::Accepted,
        ..Header::default()
    }
    .encode();
    real::send(
        new,
        taken.as_ptr().cast(),
        HEADER,
        libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
    );
    let inherited = socket.shared().send_defaults.load(Ordering::Relaxed);
    if let Some(accepted) = table::find(new) {
        accepted.shared().send_defaults.store(inherited, Ordering::Relaxed);
    }
    set_flags(new, flags);
    let peer = header.addr.map(address::bytes).unwrap_or_default();
    if let Err(errno) = user::write_addr(addr.cast(), len, &peer) {
        table::remove(new);
        real::close(new);
        return Err(errno);
    }
    Ok(new)
}

/// `shutdown`: the kernel's end of the sending side comes after what was sent before.
fn shut_down(fd: c_int, socket: &Use, how: c_int) -> Result<i32, i32> {
    if !matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR) {
        return Err(libc::EINVAL);
    }
    if socket.is_many() {
        return Err(libc::EOPNOTSUPP);
    }
    if matches!(socket.state(), state::IDLE | state::LISTENING) {
        return Err(libc::ENOTCONN);
    }
    if how != libc::SHUT_WR {
        socket.shared().read_ended.store(true, Ordering::Relaxed);
    }
    if how != libc::SHUT_RD && real::shutdown(fd, libc::SHUT_WR) != 0 {
        return Err(errno());
    }
    Ok(0)
}

intercept! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        is_sctp(domain, kind, protocol).then(|| result(open(domain, kind)))
    } else {
        let fd = real::socket(domain, kind, protocol);
        table::remove(fd);
        fd
    }

    fn listen(fd: c_int, backlog: c_int) -> c_int {
        let socket = table::find(fd)?;
        let listens = call(Op::Listen, socket.number(), backlog, 0, &[]);
        if listens.is_ok() {
            socket.set_state(if backlog == 0 && socket.is_many() { state::IDLE } else { state::LISTENING });
        }
        Some(result(listens.map(|_| 0)))
    } else {
        real::listen(fd, backlog)
    }

    fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        table::find(fd).map(|socket| result(accept_one(fd, &socket, addr, len, 0)))
    } else {
        real::accept(fd, addr, len)
    }

    fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        table::find(fd).map(|socket| result(accept_one(fd, &socket, addr, len, flags)))
    } else {
        real::accept4(fd, addr, len, flags)
    }

    fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        table::find(fd).map(|socket| result(connect_one(fd, &socket, addr, len)))
    } else {
        real::connect(fd, addr, len)
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int {
        table::find(fd).map(|socket| result(shut_down(fd, &socket, how)))
    } else {
        real::shutdown(fd, how)
    }
}
