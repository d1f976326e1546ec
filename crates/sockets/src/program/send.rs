//! Sending.

use std::net::SocketAddr;

use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use crate::address;
use crate::control::Op;
use crate::program::client::{call, empty_message};
use crate::program::receive::{end_errno, is_nonblocking, take_error, vector, wait};
use crate::program::table::{self, Use, state};
use crate::program::{check, errno, export, fail, real, user};
use crate::record::{HEADER, Header};

/// Flags of a message that need no data: SCTP_ABORT and SCTP_EOF.
const ENDS: u16 = 4 | 0x200;
/// Flags that a message may have (linux/sctp.h): the latter, unordered, another address, at once, and the policies of RFC 7496.
const KNOWN: u16 = ENDS | 1 | 2 | 8 | 0x30;

/// Sends a message: the whole, or nothing.
pub(crate) fn send_record(
    fd: c_int,
    socket: &Use,
    mut header: Header,
    parts: &[iovec],
    flags: c_int,
) -> Result<usize, i32> {
    let len: usize = parts.iter().map(|part| part.iov_len).fold(0, usize::saturating_add);
    if header.flags & !KNOWN != 0 || (len == 0 && header.flags & ENDS == 0) {
        return Err(libc::EINVAL);
    }
    let mut opens = false;
    if !socket.is_many() {
        match (socket.state(), header.addr) {
            // RFC 6458 §4.1.8: the first message may open the association.
            (state::IDLE, Some(addr)) => {
                call(Op::Connect, socket.number(), 0, 0, &address::bytes(addr))?;
                socket.set_state(state::CONNECTING);
                opens = true;
            }
            (state::IDLE | state::LISTENING, _) => return Err(libc::EPIPE),
            _ => {}
        }
    } else if header.addr.is_none() && header.assoc == 0 {
        return Err(libc::EPIPE);
    }
    header.end = true;
    let head = header.encode();
    let mut all = Vec::with_capacity(1 + parts.len());
    all.push(iovec {
        iov_base: head.as_ptr().cast_mut().cast(),
        iov_len: HEADER,
    });
    all.extend_from_slice(parts);
    let mut message = empty_message();
    message.msg_iov = all.as_mut_ptr();
    message.msg_iovlen = all.len();
    let flags = flags & (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    // An error of the association comes before the signal of the pair.
    let sent = check(real::sendmsg(fd, &message, flags | libc::MSG_NOSIGNAL));
    match sent {
        // As Linux: a call that may wait returns when the association is established.
        Ok(sent) if opens && flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking(fd) => {
            wait(fd, libc::POLLOUT, libc::SO_SNDTIMEO)?;
            match take_error(fd, socket) {
                0 => Ok(sent - HEADER),
                errno => Err(errno),
            }
        }
        Ok(sent) => Ok(sent - HEADER),
        Err(libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN) => Err(match end_errno(fd, socket) {
            libc::ECONNRESET | libc::ENOTCONN => libc::EPIPE,
            errno => errno,
        }),
        Err(errno) => Err(errno),
    }
}

/// Returns to the program, with SIGPIPE for EPIPE unless it is not wanted.
pub(crate) fn finish(outcome: Result<usize, i32>, flags: c_int) -> ssize_t {
    match outcome {
        Ok(len) => len.cast_signed(),
        Err(errno) => {
            if errno == libc::EPIPE && flags & libc::MSG_NOSIGNAL == 0 {
                // SAFETY: a signal to this thread, as the kernel would send it.
                unsafe { libc::raise(libc::SIGPIPE) };
            }
            fail(errno)
        }
    }
}

/// The header of messages without further wishes: SCTP_DEFAULT_SNDINFO and SCTP_DEFAULT_SEND_PARAM.
pub(crate) fn defaults(socket: &Use) -> Result<Header, i32> {
    if socket.shared().send_defaults.load(std::sync::atomic::Ordering::Relaxed) == 0 {
        return Ok(Header::default());
    }
    // SCTP_DEFAULT_SEND_PARAM is option 10, `struct sctp_sndrcvinfo`.
    let outcome = call(Op::Get, socket.number(), libc::IPPROTO_SCTP, 10, &[0; 32])?;
    Ok(from_sndrcvinfo(&outcome.body).unwrap_or_default())
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..at + 2)
        .map_or(0, |part| u16::from_ne_bytes([part[0], part[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .map_or(0, |part| u32::from_ne_bytes([part[0], part[1], part[2], part[3]]))
}

/// Takes over `struct sctp_sndrcvinfo`.
pub(crate) fn from_sndrcvinfo(bytes: &[u8]) -> Option<Header> {
    (bytes.len() >= 32).then(|| Header {
        stream: u16_at(bytes, 0),
        flags: u16_at(bytes, 4),
        ppid: u32_at(bytes, 8),
        context: u32_at(bytes, 12),
        value: u32_at(bytes, 16),
        assoc: u32_at(bytes, 28).cast_signed(),
        ..Header::default()
    })
}

/// Takes over `struct sctp_sndinfo`.
pub(crate) fn apply_sndinfo(header: &mut Header, bytes: &[u8]) -> Result<(), i32> {
    if bytes.len() < 16 {
        return Err(libc::EINVAL);
    }
    header.stream = u16_at(bytes, 0);
    header.flags |= u16_at(bytes, 2);
    header.ppid = u32_at(bytes, 4);
    header.context = u32_at(bytes, 8);
    header.assoc = u32_at(bytes, 12).cast_signed();
    Ok(())
}

/// Takes over `struct sctp_prinfo`.
pub(crate) fn apply_prinfo(header: &mut Header, bytes: &[u8]) -> Result<(), i32> {
    let policy = u16_at(bytes, 0);
    if bytes.len() < 8 || policy & !0x30 != 0 {
        return Err(libc::EINVAL);
    }
    header.flags |= policy;
    header.value = u32_at(bytes, 4);
    Ok(())
}

/// Takes over ancillary data of `sendmsg`.
fn apply_control(header: &mut Header, control: &[u8]) -> Result<(), i32> {
    let mut rest = control;
    // `struct cmsghdr`: the length with these 16 bytes, the level, the type.
    while rest.len() >= 16 {
        let len = usize::from_ne_bytes(rest[0..8].try_into().unwrap_or_default());
        if len < 16 || len > rest.len() {
            return Err(libc::EINVAL);
        }
        let data = &rest[16..len];
        match (u32_at(rest, 8).cast_signed(), u32_at(rest, 12)) {
            (libc::IPPROTO_SCTP, 1) => {
                let addr = header.addr;
                *header = from_sndrcvinfo(data).ok_or(libc::EINVAL)?;
                header.addr = addr;
            }
            (libc::IPPROTO_SCTP, 2) => apply_sndinfo(header, data)?,
            (libc::IPPROTO_SCTP, 5) => apply_prinfo(header, data)?,
            (libc::IPPROTO_SCTP, _) => return Err(libc::EINVAL),
            _ => {}
        }
        rest = &rest[len.next_multiple_of(8).min(rest.len())..];
    }
    Ok(())
}

/// Reads the address of a peer.
pub(crate) fn read_addr(addr: *const c_void, len: usize) -> Result<Option<SocketAddr>, i32> {
    if addr.is_null() || len == 0 {
        return Ok(None);
    }
    let bytes = user::read(addr, len.min(address::STORAGE))?;
    address::parse(&bytes).map(Some).ok_or(libc::EINVAL)
}

/// `sendmsg` on a socket of this library.
fn send_message(fd: c_int, socket: &Use, message: &msghdr, flags: c_int) -> Result<usize, i32> {
    let parts = match message.msg_iovlen {
        0 => &[],
        // SAFETY: the program says that there are this many, as for the kernel.
        len => unsafe { std::slice::from_raw_parts(message.msg_iov, len) },
    };
    let mut header = defaults(socket)?;
    header.addr = read_addr(message.msg_name, message.msg_namelen as usize)?;
    if !message.msg_control.is_null() && message.msg_controllen > 0 {
        let len = message.msg_controllen;
        if len > 4096 {
            return Err(libc::ENOBUFS);
        }
        apply_control(&mut header, &user::read(message.msg_control, len)?)?;
    }
    send_record(fd, socket, header, parts, flags)
}

fn send_plain(fd: c_int, parts: &[iovec], flags: c_int, addr: (*const c_void, usize)) -> Option<ssize_t> {
    let socket = table::find(fd)?;
    let outcome = defaults(&socket).and_then(|mut header| {
        header.addr = read_addr(addr.0, addr.1)?;
        send_record(fd, &socket, header, parts, flags)
    });
    Some(finish(outcome, flags))
}

fn one(data: *const c_void, len: size_t) -> [iovec; 1] {
    [iovec {
        iov_base: data.cast_mut(),
        iov_len: len,
    }]
}

const NOBODY: (*const c_void, usize) = (std::ptr::null(), 0);

export! {
    fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        send_plain(fd, &one(data, len), flags, NOBODY).unwrap_or_else(|| real::send(fd, data, len, flags))
    }

    fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
        send_plain(fd, &one(data, len), 0, NOBODY).unwrap_or_else(|| real::write(fd, data, len))
    }

    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        if table::find(fd).is_none() {
            return real::writev(fd, parts, count);
        }
        match vector(parts, count) {
            Ok(list) => send_plain(fd, list, 0, NOBODY).unwrap_or_else(|| real::writev(fd, parts, count)),
            Err(errno) => fail(errno),
        }
    }

    fn sendto(fd: c_int, data: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr, room: socklen_t) -> ssize_t {
        send_plain(fd, &one(data, len), flags, (addr.cast(), room as usize))
            .unwrap_or_else(|| real::sendto(fd, data, len, flags, addr, room))
    }

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        let Some(socket) = table::find(fd) else {
            return real::sendmsg(fd, message, flags);
        };
        // SAFETY: the program passes a header that is its own, or none.
        let Some(message) = (unsafe { message.as_ref() }) else {
            return fail(libc::EFAULT);
        };
        finish(send_message(fd, &socket, message, flags), flags)
    }

    fn sendfile(out: c_int, from: c_int, offset: *mut i64, count: size_t) -> ssize_t {
        let Some(socket) = table::find(out) else {
            return real::sendfile(out, from, offset, count);
        };
        // A part of the file in each message.
        let mut data = vec![0_u8; count.min(64 << 10)];
        // SAFETY: the buffer has this length; the offset is the program's, or none.
        let got = unsafe {
            match offset.as_ref() {
                Some(at) => libc::pread(from, data.as_mut_ptr().cast(), data.len(), *at),
                None => real::read(from, data.as_mut_ptr().cast(), data.len()),
            }
        };
        let got = match check(got) {
            Ok(0) => return 0,
            Ok(got) => got,
            Err(_) => return fail(errno()),
        };
        let sent = defaults(&socket)
            .and_then(|header| send_record(out, &socket, header, &one(data.as_ptr().cast(), got), 0));
        // SAFETY: the program's, or none.
        if let (Ok(sent), Some(at)) = (sent, unsafe { offset.as_mut() }) {
            *at += sent as i64;
        } else if sent.is_err() && offset.is_null() {
            // SAFETY: moves the position of the file back over what was not sent.
            unsafe { libc::lseek(from, -(got as i64), libc::SEEK_CUR) };
        }
        finish(sent, 0)
    }
}
