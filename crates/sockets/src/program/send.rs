//! Sending.

use std::net::SocketAddr;

use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use crate::address;
use crate::control::Op;
use crate::program::client::{call, empty_message};
use crate::program::receive::{end_errno, is_nonblocking, message_parts, one, take_error, vector, wait_to_write};
use crate::program::table::{self, Use, state};
use crate::program::{check, fail, intercept, real, user};
use crate::record::{HEADER, Header};

/// Flags of a message that need no data: SCTP_ABORT and SCTP_EOF.
const ENDS: u16 = 4 | 0x200;
/// Flags that a message may have (linux/sctp.h): the latter, unordered, another address, at once, and the policies of RFC 7496.
const KNOWN: u16 = ENDS | 1 | 2 | 8 | 0x30;

/// Bytes of a file in a message at most.
const FILE_PART: usize = 64 << 10;

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
            wait_to_write(fd, socket)?;
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
pub(crate) fn send_message(fd: c_int, socket: &Use, message: *const msghdr, flags: c_int) -> Result<usize, i32> {
    let message = user::read_plain(message)?;
    let parts = message_parts(&message)?;
    let mut header = defaults(socket)?;
    header.addr = read_addr(message.msg_name, message.msg_namelen as usize)?;
    if !message.msg_control.is_null() && message.msg_controllen > 0 {
        let len = message.msg_controllen;
        if len > 4096 {
            return Err(libc::ENOBUFS);
        }
        apply_control(&mut header, &user::read(message.msg_control, len)?)?;
    }
    send_record(fd, socket, header, &parts, flags)
}

fn send_plain(fd: c_int, parts: &[iovec], flags: c_int, addr: (*const c_void, usize)) -> Option<ssize_t> {
    let socket = table::find(fd)?;
    let outcome = defaults(&socket).and_then(|mut header| {
        header.addr = read_addr(addr.0, addr.1)?;
        send_record(fd, &socket, header, parts, flags)
    });
    Some(finish(outcome, flags))
}

const NOBODY: (*const c_void, usize) = (std::ptr::null(), 0);

/// `sendfile` to a socket of this library: a part of the file in each message.
fn send_file(out: c_int, socket: &Use, from: c_int, offset: *mut i64, count: size_t) -> Result<usize, i32> {
    let at = if offset.is_null() {
        None
    } else {
        Some(user::read_plain(offset)?)
    };
    let mut data = vec![0_u8; count.min(FILE_PART)];
    let to = data.as_mut_ptr().cast();
    let got = check(match at {
        // SAFETY: the buffer has this length.
        Some(at) => unsafe { libc::pread(from, to, data.len(), at) },
        None => real::read(from, to, data.len()),
    })?;
    if got == 0 {
        return Ok(0);
    }
    let sent = defaults(socket).and_then(|header| send_record(out, socket, header, &one(data.as_ptr().cast(), got), 0));
    match (&sent, at) {
        (Ok(sent), Some(at)) => user::write(offset.cast(), &at.saturating_add_unsigned(*sent as u64).to_ne_bytes())?,
        // SAFETY: integers only. The position of the file goes back over what was not sent.
        (Err(_), None) => _ = unsafe { libc::lseek(from, -got.cast_signed() as i64, libc::SEEK_CUR) },
        _ => {}
    }
    sent
}

intercept! {
    fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        send_plain(fd, &one(data, len), flags, NOBODY)
    } else {
        real::send(fd, data, len, flags)
    }

    fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
        send_plain(fd, &one(data, len), 0, NOBODY)
    } else {
        real::write(fd, data, len)
    }

    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        table::find(fd)?;
        match vector(parts, count) {
            Ok(list) => send_plain(fd, &list, 0, NOBODY),
            Err(errno) => Some(fail(errno)),
        }
    } else {
        real::writev(fd, parts, count)
    }

    fn sendto(fd: c_int, data: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr, room: socklen_t) -> ssize_t {
        send_plain(fd, &one(data, len), flags, (addr.cast(), room as usize))
    } else {
        real::sendto(fd, data, len, flags, addr, room)
    }

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        let socket = table::find(fd)?;
        Some(finish(send_message(fd, &socket, message, flags), flags))
    } else {
        real::sendmsg(fd, message, flags)
    }

    fn sendfile(out: c_int, from: c_int, offset: *mut i64, count: size_t) -> ssize_t {
        let socket = table::find(out)?;
        Some(finish(send_file(out, &socket, from, offset, count), 0))
    } else {
        real::sendfile(out, from, offset, count)
    }

    fn sendfile64(out: c_int, from: c_int, offset: *mut i64, count: size_t) -> ssize_t {
        let socket = table::find(out)?;
        Some(finish(send_file(out, &socket, from, offset, count), 0))
    } else {
        real::sendfile(out, from, offset, count)
    }
}
