//! Receiving.

use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use crate::address;
use crate::control::reading;
use crate::program::client::empty_message;
use crate::program::table::{self, Use, state};
use crate::program::{check, errno, fail, intercept, real, user};
use crate::record::{HEADER, Header, Kind};

/// `MSG_NOTIFICATION` of linux/sctp.h.
pub(crate) const MSG_NOTIFICATION: c_int = 0x8000;
/// Parts of a buffer at most (IOV_MAX).
const MOST_PARTS: usize = 1024;
/// Bytes of a call at most (MAX_RW_COUNT).
const MOST_BYTES: usize = 0x7fff_f000;
/// Where bytes go that were read before.
const SKIPPED: usize = 4096;

/// What was received.
pub(crate) struct Received {
    pub(crate) len: usize,
    pub(crate) header: Header,
    /// MSG_EOR and MSG_NOTIFICATION.
    pub(crate) flags: c_int,
}

/// Whether a call may wait: not with MSG_DONTWAIT, and not with O_NONBLOCK.
fn may_wait(fd: c_int, flags: c_int) -> bool {
    flags & libc::MSG_DONTWAIT == 0 && real::fcntl(fd, libc::F_GETFL, 0) & libc::O_NONBLOCK == 0
}

/// Waits until there is something to read. The kernel restarts this call after signals with SA_RESTART, and knows SO_RCVTIMEO.
fn wait_to_read(fd: c_int, socket: &Use) -> Result<(), i32> {
    let mut byte = 0_u8;
    match check(real::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_PEEK)) {
        Ok(_) | Err(libc::ECONNRESET) => {}
        Err(errno) => return Err(errno),
    }
    if socket.is_at(fd) {
        Ok(())
    } else {
        // Another thread has closed it.
        Err(libc::EBADF)
    }
}

/// Waits until a descriptor is writable, or for as long as SO_SNDTIMEO says.
pub(crate) fn wait_to_write(fd: c_int, socket: &Use) -> Result<(), i32> {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut len = size_of::<libc::timeval>() as socklen_t;
    let value = (&raw mut time).cast();
    real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, value, &mut len);
    let limit = match time.tv_sec.saturating_mul(1000).saturating_add(time.tv_usec / 1000) {
        0 if time.tv_usec == 0 => -1,
        millis => i32::try_from(millis).unwrap_or(i32::MAX).max(1),
    };
    let mut asked = libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one structure, as said.
    match check(unsafe { libc::poll(&mut asked, 1, limit) } as isize)? {
        0 => Err(libc::EAGAIN),
        _ if socket.is_at(fd) => Ok(()),
        _ => Err(libc::EBADF),
    }
}

/// Removes the first record.
fn consume(fd: c_int) {
    let mut byte = 0_u8;
    real::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT | libc::MSG_TRUNC);
}

/// Calls a function that reads, and once more if the pair has ended with data that the service has not read: the kernel says that first, and
/// before what waits here.
fn despite_reset(read: impl Fn() -> ssize_t) -> Result<usize, i32> {
    match check(read()) {
        Err(libc::ECONNRESET) => check(read()),
        other => other,
    }
}

/// Takes the error that ends the association, if it is what comes next.
pub(crate) fn take_error(fd: c_int, socket: &Use) -> i32 {
    let Some(_reader) = socket.reader() else { return 0 };
    let mut head = [0; HEADER];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    let to = head.as_mut_ptr().cast();
    let peeked = despite_reset(|| real::recv(fd, to, HEADER, flags));
    match peeked.ok().and_then(|len| Header::decode(&head[..len])) {
        Some(header) if header.kind == Kind::Error => {
            consume(fd);
            header.value.cast_signed()
        }
        _ => 0,
    }
}

/// What the first record has beyond `offset` bytes, copied into the buffer of the program.
enum Peeked {
    End,
    Record { header: Header, rest: usize, copied: usize },
}

/// Looks at the first record. `filled` bytes of the buffer have something already.
fn peek(fd: c_int, offset: usize, parts: &[iovec], filled: usize) -> Result<Peeked, i32> {
    let (mut head, mut skipped) = ([0_u8; HEADER], [0_u8; SKIPPED]);
    let to = |bytes: &mut [u8]| iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut all = vec![to(&mut head)];
    let mut skip = offset;
    while skip > 0 {
        let len = skip.min(SKIPPED);
        all.push(to(&mut skipped[..len]));
        skip -= len;
    }
    let mut before = filled;
    let mut room = 0;
    for part in parts {
        let used = before.min(part.iov_len);
        before -= used;
        if part.iov_len > used && all.len() < MOST_PARTS {
            all.push(iovec {
                iov_base: part.iov_base.wrapping_byte_add(used),
                iov_len: part.iov_len - used,
            });
            room = part.iov_len.saturating_sub(used).saturating_add(room);
        }
    }
    let mut message = empty_message();
    message.msg_iov = all.as_mut_ptr();
    message.msg_iovlen = all.len();
    let flags = libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    let message = &raw mut message;
    let len = despite_reset(|| real::recvmsg(fd, message, flags))?;
    if len == 0 {
        return Ok(Peeked::End);
    }
    let header = Header::decode(&head[..len.min(HEADER)]).ok_or(libc::EBADF)?;
    let rest = (len - HEADER).saturating_sub(offset);
    Ok(Peeked::Record {
        header,
        rest,
        copied: rest.min(room),
    })
}

/// Receives into the buffer of the program. `None` at the end of the association.
pub(crate) fn receive(fd: c_int, socket: &Use, parts: &[iovec], flags: c_int) -> Result<Option<Received>, i32> {
    let shared = socket.shared();
    if !socket.is_many() && matches!(socket.state(), state::IDLE | state::LISTENING) {
        return Err(libc::ENOTCONN);
    }
    if parts.len() > MOST_PARTS {
        return Err(libc::EMSGSIZE);
    }
    loop {
        {
            // A signal handler over a call that reads does not wait for it.
            let _reader = socket.reader().ok_or(libc::EAGAIN)?;
            match attempt(fd, socket, parts, flags) {
                Err(libc::EAGAIN) => {}
                other => return other,
            }
        }
        if shared.read_ended.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(None);
        }
        if !may_wait(fd, flags) {
            return Err(libc::EAGAIN);
        }
        wait_to_read(fd, socket)?;
    }
}

/// Receives what there is now: a message, or as much of it as the buffer takes or has arrived. The caller has the right to read.
fn attempt(fd: c_int, socket: &Use, parts: &[iovec], flags: c_int) -> Result<Option<Received>, i32> {
    use std::sync::atomic::Ordering::Relaxed;
    let shared = socket.shared();
    let is_peek = flags & libc::MSG_PEEK != 0;
    let mut found: Option<Received> = None;
    loop {
        let offset = shared.offset.load(Relaxed) as usize;
        let filled = found.as_ref().map_or(0, |found| found.len);
        let (header, rest, copied) = match peek(fd, offset, parts, filled) {
            Ok(Peeked::Record { header, rest, copied }) => (header, rest, copied),
            Ok(Peeked::End) | Err(libc::EAGAIN) if found.is_some() => return Ok(found),
            Ok(Peeked::End) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        if header.kind == Kind::Error {
            if found.is_none() {
                consume(fd);
                return Err(header.value.cast_signed());
            }
            return Ok(found);
        }
        if found
            .as_ref()
            .is_some_and(|found| !is_of_message(&found.header, &header))
        {
            return Ok(found);
        }
        let is_whole = copied == rest;
        if !is_peek {
            if is_whole {
                shared.offset.store(0, Relaxed);
                consume(fd);
            } else {
                shared.offset.store((offset + copied) as u32, Relaxed);
            }
        }
        let ends = is_whole && header.end;
        let kind = if header.kind == Kind::Notification {
            MSG_NOTIFICATION
        } else {
            0
        };
        found = Some(Received {
            len: filled + copied,
            header,
            flags: kind | if ends { libc::MSG_EOR } else { 0 },
        });
        // Further records of the same message, if there is room for them.
        if ends || !is_whole || is_peek || copied == 0 {
            return Ok(found);
        }
    }
}

/// Whether a record goes on with the message of another one.
fn is_of_message(before: &Header, next: &Header) -> bool {
    (before.kind, before.assoc, before.stream) == (next.kind, next.assoc, next.stream)
}

/// The bytes of the first message, for FIONREAD.
pub(crate) fn waiting(fd: c_int, socket: &Use) -> i32 {
    let Some(_reader) = socket.reader() else { return 0 };
    let offset = socket.shared().offset.load(std::sync::atomic::Ordering::Relaxed);
    match peek(fd, 0, &[], 0) {
        Ok(Peeked::Record { rest, .. }) => (rest as u32).saturating_sub(offset).cast_signed(),
        _ => 0,
    }
}

/// Appends ancillary data, as far as there is room. Returns false if there was none.
fn append(message: &mut msghdr, used: &mut usize, kind: c_int, data: &[u8]) -> bool {
    // SAFETY: these only compute lengths.
    let (len, space) = unsafe {
        (
            libc::CMSG_LEN(data.len() as u32),
            libc::CMSG_SPACE(data.len() as u32) as usize,
        )
    };
    let room = message.msg_controllen.saturating_sub(*used);
    if message.msg_control.is_null() || room < len as usize {
        return false;
    }
    let mut bytes = vec![0_u8; space.min(room)];
    bytes[0..8].copy_from_slice(&(len as usize).to_ne_bytes());
    bytes[8..12].copy_from_slice(&libc::IPPROTO_SCTP.to_ne_bytes());
    bytes[12..16].copy_from_slice(&kind.to_ne_bytes());
    bytes[16..16 + data.len()].copy_from_slice(data);
    let to = message.msg_control.wrapping_byte_add(*used);
    if user::write(to, &bytes).is_err() {
        return false;
    }
    *used += bytes.len();
    true
}

/// `struct sctp_sndrcvinfo`.
pub(crate) fn sndrcvinfo(header: &Header) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    for value in [header.stream, 0, header.flags, 0] {
        bytes.extend(value.to_ne_bytes());
    }
    for value in [header.ppid, header.context, 0, 0, 0, header.assoc.cast_unsigned()] {
        bytes.extend(value.to_ne_bytes());
    }
    bytes
}

/// `struct sctp_rcvinfo`.
pub(crate) fn rcvinfo(header: &Header) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    for value in [header.stream, 0, header.flags, 0] {
        bytes.extend(value.to_ne_bytes());
    }
    for value in [header.ppid, 0, 0, header.context, header.assoc.cast_unsigned()] {
        bytes.extend(value.to_ne_bytes());
    }
    bytes
}

/// `recvmsg` on a socket of this library.
pub(crate) fn receive_message(fd: c_int, socket: &Use, to: *mut msghdr, flags: c_int) -> Result<usize, i32> {
    let mut message = user::read_plain::<msghdr>(to)?;
    let parts = message_parts(&message)?;
    let received = receive(fd, socket, &parts, flags)?;
    let len = match &received {
        None => {
            (message.msg_namelen, message.msg_controllen, message.msg_flags) = (0, 0, 0);
            0
        }
        Some(received) => {
            describe(&mut message, socket, received)?;
            received.len
        }
    };
    let field = |offset: usize| to.cast::<c_void>().wrapping_byte_add(offset);
    let [name_len, control_len, out] = [
        std::mem::offset_of!(msghdr, msg_namelen),
        std::mem::offset_of!(msghdr, msg_controllen),
        std::mem::offset_of!(msghdr, msg_flags),
    ];
    user::write(field(name_len), &message.msg_namelen.to_ne_bytes())?;
    user::write(field(control_len), &message.msg_controllen.to_ne_bytes())?;
    user::write(field(out), &message.msg_flags.to_ne_bytes())?;
    Ok(len)
}

/// Passes on what comes with the data: the address, and ancillary data.
fn describe(message: &mut msghdr, socket: &Use, received: &Received) -> Result<(), i32> {
    let header = &received.header;
    message.msg_flags = received.flags;
    let name = header.addr.map(address::bytes).unwrap_or_default();
    if !message.msg_name.is_null() {
        user::write(message.msg_name, &name[..name.len().min(message.msg_namelen as usize)])?;
        message.msg_namelen = name.len() as socklen_t;
    }
    let mut used = 0;
    if header.kind == Kind::Data {
        let reading = socket.shared().reading.load(std::sync::atomic::Ordering::Relaxed);
        let mut fits = true;
        if reading & reading::RCVINFO != 0 {
            fits &= append(message, &mut used, 3, &rcvinfo(header));
        }
        if reading & reading::SNDRCV != 0 {
            fits &= append(message, &mut used, 1, &sndrcvinfo(header));
        }
        if !fits {
            message.msg_flags |= libc::MSG_CTRUNC;
        }
    }
    message.msg_controllen = used;
    Ok(())
}

/// Receives for the functions without a message header.
fn receive_from(fd: c_int, parts: &[iovec], flags: c_int, addr: *mut c_void, len: *mut socklen_t) -> Option<ssize_t> {
    let socket = table::find(fd)?;
    let outcome = receive(fd, &socket, parts, flags).and_then(|received| match received {
        None => Ok(0),
        Some(received) => {
            let from = received.header.addr.map(address::bytes).unwrap_or_default();
            user::write_addr(addr, len, &from)?;
            Ok(received.len)
        }
    });
    Some(match outcome {
        Ok(len) => len.cast_signed(),
        Err(errno) => fail(errno),
    })
}

const NOWHERE: *mut c_void = std::ptr::null_mut();
const NO_LEN: *mut socklen_t = std::ptr::null_mut();

/// A buffer as a list of one part. The kernel transfers less than 2 GiB.
pub(crate) fn one(data: *const c_void, len: size_t) -> [iovec; 1] {
    [iovec {
        iov_base: data.cast_mut(),
        iov_len: len.min(MOST_BYTES),
    }]
}

/// Returns the parts of a vector, for `readv` and `writev`.
pub(crate) fn vector(parts: *const iovec, count: c_int) -> Result<Vec<iovec>, i32> {
    let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
    if count > MOST_PARTS {
        return Err(libc::EINVAL);
    }
    let list = user::read_list(parts, count)?;
    let total = list
        .iter()
        .try_fold(0_isize, |sum, part| sum.checked_add_unsigned(part.iov_len));
    total.map(|_| list).ok_or(libc::EINVAL)
}

/// Returns the parts of a message.
pub(crate) fn message_parts(message: &msghdr) -> Result<Vec<iovec>, i32> {
    if message.msg_iovlen > MOST_PARTS {
        return Err(libc::EMSGSIZE);
    }
    vector(message.msg_iov, message.msg_iovlen as c_int)
}

intercept! {
    fn recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        receive_from(fd, &one(data, len), flags, NOWHERE, NO_LEN)
    } else {
        real::recv(fd, data, len, flags)
    }

    fn __recv_chk(fd: c_int, data: *mut c_void, len: size_t, _room: size_t, flags: c_int) -> ssize_t {
        receive_from(fd, &one(data, len), flags, NOWHERE, NO_LEN)
    } else {
        real::recv(fd, data, len, flags)
    }

    fn read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t {
        receive_from(fd, &one(data, len), 0, NOWHERE, NO_LEN)
    } else {
        real::read(fd, data, len)
    }

    fn __read_chk(fd: c_int, data: *mut c_void, len: size_t, _room: size_t) -> ssize_t {
        receive_from(fd, &one(data, len), 0, NOWHERE, NO_LEN)
    } else {
        real::read(fd, data, len)
    }

    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        table::find(fd)?;
        match vector(parts, count) {
            Ok(list) => receive_from(fd, &list, 0, NOWHERE, NO_LEN),
            Err(errno) => Some(fail(errno)),
        }
    } else {
        real::readv(fd, parts, count)
    }

    fn recvfrom(fd: c_int, data: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr, room: *mut socklen_t) -> ssize_t {
        receive_from(fd, &one(data, len), flags, addr.cast(), room)
    } else {
        real::recvfrom(fd, data, len, flags, addr, room)
    }

    fn __recvfrom_chk(
        fd: c_int, data: *mut c_void, len: size_t, _room: size_t, flags: c_int, addr: *mut sockaddr, room: *mut socklen_t,
    ) -> ssize_t {
        receive_from(fd, &one(data, len), flags, addr.cast(), room)
    } else {
        real::recvfrom(fd, data, len, flags, addr, room)
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        let socket = table::find(fd)?;
        Some(match receive_message(fd, &socket, message, flags) {
            Ok(len) => len.cast_signed(),
            Err(errno) => fail(errno),
        })
    } else {
        real::recvmsg(fd, message, flags)
    }
}

/// Whether a descriptor has O_NONBLOCK.
pub(crate) fn is_nonblocking(fd: c_int) -> bool {
    !may_wait(fd, 0)
}

/// The errno of a call that failed because the association has ended.
pub(crate) fn end_errno(fd: c_int, socket: &Use) -> i32 {
    let errno = errno();
    match take_error(fd, socket) {
        0 => errno,
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_vectors_are_errors() {
        let part = |len| iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: len,
        };
        let huge = [part(usize::MAX / 2), part(usize::MAX / 2)];
        let error = |parts: *const iovec, count| vector(parts, count).err();
        assert_eq!(error(huge.as_ptr(), 2), Some(libc::EINVAL));
        assert_eq!(error([part(usize::MAX)].as_ptr(), 1), Some(libc::EINVAL));
        assert_eq!(error(huge.as_ptr(), -1), Some(libc::EINVAL));
        assert_eq!(error(std::ptr::null(), 1), Some(libc::EFAULT));
        assert_eq!(error(std::ptr::null(), 1025), Some(libc::EINVAL));
        assert_eq!(error(std::ptr::null(), 0), None);
        let mut message = empty_message();
        message.msg_iovlen = usize::MAX;
        assert_eq!(message_parts(&message).err(), Some(libc::EMSGSIZE));
    }

    #[test]
    fn records_of_other_messages_are_not_joined() {
        let part = Header {
            kind: Kind::Data,
            assoc: 3,
            stream: 1,
            ..Header::default()
        };
        assert!(is_of_message(&part, &Header { end: true, ..part }));
        for other in [
            Header { assoc: 4, ..part },
            Header { stream: 2, ..part },
            Header {
                kind: Kind::Notification,
                ..part
            },
        ] {
            assert!(!is_of_message(&part, &other));
        }
    }
}
