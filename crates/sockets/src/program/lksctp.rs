//! The functions of lksctp's libsctp, with its signatures (netinet/sctp.h).

use std::ffi::c_void;

use libc::{c_int, c_uint, iovec, size_t, sockaddr, socklen_t};

use crate::address;
use crate::control::Op;
use crate::program::client::call;
use crate::program::names::addresses;
use crate::program::receive::{one, receive};
use crate::program::send::{apply_prinfo, apply_sndinfo, defaults, finish, from_sndrcvinfo, read_addr, send_record};
use crate::program::sockets::{connect_to, peel_off};
use crate::program::table::{self, Use};
use crate::program::{export, fail, options, receive as received, result, user};
use crate::record::{Header, Kind};

/// Addresses of a list at most.
const MOST_ADDRS: c_int = 256;
/// Infotypes of `sctp_sendv` and `sctp_recvv`.
const SENDV_NOINFO: c_uint = 0;
const SENDV_SNDINFO: c_uint = 1;
const SENDV_PRINFO: c_uint = 2;
const SENDV_SPA: c_uint = 4;
const RECVV_NOINFO: c_uint = 0;
const RECVV_RCVINFO: c_uint = 1;

fn socket_of(fd: c_int) -> Result<Use, i32> {
    table::find(fd).ok_or(libc::ENOTSOCK)
}

/// Reads a packed list of addresses.
fn read_addrs(addrs: *const sockaddr, count: c_int) -> Result<Vec<u8>, i32> {
    if !(1..=MOST_ADDRS).contains(&count) {
        return Err(libc::EINVAL);
    }
    let mut all = Vec::new();
    for _ in 0..count {
        let at = addrs.wrapping_byte_add(all.len());
        let family = user::read_plain::<u16>(at.cast())?;
        let len = address::len_of(family).ok_or(libc::EINVAL)?;
        all.extend(user::read(at.cast(), len)?);
    }
    Ok(all)
}

/// Returns the addresses in memory that `sctp_freepaddrs` frees, and their number.
fn addrs(fd: c_int, peer: bool, assoc: i32, to: *mut *mut sockaddr) -> Result<c_int, i32> {
    let socket = socket_of(fd)?;
    let (count, list) = addresses(&socket, peer, assoc)?;
    if count == 0 {
        return Ok(0);
    }
    // SAFETY: the memory has the length of what is copied; the program frees it.
    let memory = unsafe { libc::malloc(list.len()) };
    if memory.is_null() {
        return Err(libc::ENOMEM);
    }
    // SAFETY: as above, and `to` is checked by the kernel.
    unsafe { std::ptr::copy_nonoverlapping(list.as_ptr(), memory.cast(), list.len()) };
    if let Err(errno) = user::write(to.cast(), &memory.expose_provenance().to_ne_bytes()) {
        // SAFETY: the program has not received it.
        unsafe { libc::free(memory) };
        return Err(errno);
    }
    Ok(count)
}

/// Sends what `header` returns.
fn send_with(fd: c_int, parts: &[iovec], flags: c_int, header: impl FnOnce(&Use) -> Result<Header, i32>) -> c_int {
    let sent = socket_of(fd).and_then(|socket| send_record(fd, &socket, header(&socket)?, parts, flags));
    finish(sent, flags) as c_int
}

/// Takes over the information of `sctp_sendv`.
fn apply_info(header: &mut Header, info: *const c_void, len: usize, kind: c_uint) -> Result<(), i32> {
    if kind == SENDV_NOINFO {
        return Ok(());
    }
    if info.is_null() || len > 256 {
        return Err(libc::EINVAL);
    }
    let bytes = user::read(info, len)?;
    match kind {
        SENDV_SNDINFO => apply_sndinfo(header, &bytes),
        SENDV_PRINFO => apply_prinfo(header, &bytes),
        SENDV_SPA if bytes.len() >= 28 => {
            // `struct sctp_sendv_spa`: which parts are valid, SNDINFO, PRINFO, AUTHINFO.
            let valid = bytes[0];
            if valid & 4 != 0 {
                return Err(libc::EINVAL);
            }
            if valid & 1 != 0 {
                apply_sndinfo(header, &bytes[4..20])?;
            }
            if valid & 2 != 0 {
                apply_prinfo(header, &bytes[20..28])?;
            }
            Ok(())
        }
        _ => Err(libc::EINVAL),
    }
}

/// Receives, with what `sctp_recvmsg` and `sctp_recvv` return beside the data.
fn receive_with(
    fd: c_int,
    parts: &[iovec],
    from: (*mut sockaddr, *mut socklen_t),
    flags: *mut c_int,
    more: impl FnOnce(&Use, &Header) -> Result<(), i32>,
) -> c_int {
    let outcome = (|| {
        let socket = socket_of(fd)?;
        let asked = if flags.is_null() {
            0
        } else {
            user::read_plain::<i32>(flags)?
        };
        let found = receive(fd, &socket, parts, asked & (libc::MSG_PEEK | libc::MSG_DONTWAIT))?;
        let Some(found) = found else {
            if !flags.is_null() {
                user::write(flags.cast(), &0_i32.to_ne_bytes())?;
            }
            return Ok(0);
        };
        let peer = found.header.addr.map(address::bytes).unwrap_or_default();
        if !from.1.is_null() {
            user::write_addr(from.0.cast(), from.1, &peer)?;
        }
        if !flags.is_null() {
            user::write(flags.cast(), &found.flags.to_ne_bytes())?;
        }
        if found.header.kind == Kind::Data {
            more(&socket, &found.header)?;
        }
        Ok(found.len as i32)
    })();
    result(outcome)
}

export! {
    fn sctp_bindx(fd: c_int, addrs: *const sockaddr, count: c_int, flags: c_int) -> c_int {
        result((|| {
            if !matches!(flags, 1 | 2) {
                return Err(libc::EINVAL);
            }
            let socket = socket_of(fd)?;
            call(Op::Bind, socket.number(), flags, 0, &read_addrs(addrs, count)?).map(|_| 0)
        })())
    }

    fn sctp_connectx(fd: c_int, addrs: *const sockaddr, count: c_int, id: *mut i32) -> c_int {
        result((|| {
            let socket = socket_of(fd)?;
            let assoc = connect_to(fd, &socket, &read_addrs(addrs, count)?)?;
            if !id.is_null() {
                user::write(id.cast(), &assoc.to_ne_bytes())?;
            }
            Ok(0)
        })())
    }

    fn sctp_peeloff(fd: c_int, assoc: i32) -> c_int {
        result(socket_of(fd).and_then(|socket| peel_off(&socket, assoc)))
    }

    fn sctp_peeloff_flags(fd: c_int, assoc: i32, flags: c_uint) -> c_int {
        let new = result(socket_of(fd).and_then(|socket| peel_off(&socket, assoc)));
        if new >= 0 {
            if flags.cast_signed() & libc::SOCK_CLOEXEC != 0 {
                // SAFETY: a descriptor of this process.
                unsafe { libc::fcntl(new, libc::F_SETFD, libc::FD_CLOEXEC) };
            }
            if flags.cast_signed() & libc::SOCK_NONBLOCK != 0 {
                // SAFETY: a descriptor of this process.
                unsafe { libc::fcntl(new, libc::F_SETFL, libc::O_RDWR | libc::O_NONBLOCK) };
            }
        }
        new
    }

    fn sctp_opt_info(fd: c_int, assoc: i32, option: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        result((|| {
            let socket = socket_of(fd)?;
            // All structures that it takes begin with the association, except `sctp_initmsg`.
            if option != 2 {
                user::write(value, &assoc.to_ne_bytes())?;
            }
            options::get(fd, &socket, libc::IPPROTO_SCTP, option, value, len)
        })())
    }

    fn sctp_getpaddrs(fd: c_int, assoc: i32, to: *mut *mut sockaddr) -> c_int {
        result(addrs(fd, true, assoc, to))
    }

    fn sctp_getladdrs(fd: c_int, assoc: i32, to: *mut *mut sockaddr) -> c_int {
        result(addrs(fd, false, assoc, to))
    }

    fn sctp_freepaddrs(addrs: *mut sockaddr) -> c_int {
        // SAFETY: it comes from `sctp_getpaddrs`.
        unsafe { libc::free(addrs.cast()) };
        0
    }

    fn sctp_freeladdrs(addrs: *mut sockaddr) -> c_int {
        // SAFETY: it comes from `sctp_getladdrs`.
        unsafe { libc::free(addrs.cast()) };
        0
    }

    fn sctp_getaddrlen(family: u16) -> c_int {
        match address::len_of(family) {
            Some(len) => len as c_int,
            None => fail(libc::EINVAL) as c_int,
        }
    }

    fn sctp_sendmsg(
        fd: c_int, data: *const c_void, len: size_t, to: *const sockaddr, to_len: socklen_t, ppid: u32, flags: u32,
        stream: u16, lifetime: u32, context: u32,
    ) -> c_int {
        send_with(fd, &one(data, len), 0, |_| Ok(Header {
            stream,
            flags: u16::try_from(flags).map_err(|_| libc::EINVAL)?,
            ppid,
            context,
            value: lifetime,
            addr: read_addr(to.cast(), to_len as usize)?,
            ..Header::default()
        }))
    }

    fn sctp_send(fd: c_int, data: *const c_void, len: size_t, info: *const c_void, flags: c_int) -> c_int {
        send_with(fd, &one(data, len), flags, |socket| {
            if info.is_null() {
                return defaults(socket);
            }
            from_sndrcvinfo(&user::read(info, 32)?).ok_or(libc::EINVAL)
        })
    }

    fn sctp_sendv(
        fd: c_int, parts: *const iovec, count: c_int, addrs: *const sockaddr, addr_count: c_int, info: *const c_void,
        info_len: socklen_t, kind: c_uint, flags: c_int,
    ) -> c_int {
        let list = match received::vector(parts, count) {
            Ok(list) => list,
            Err(errno) => return fail(errno) as c_int,
        };
        send_with(fd, &list, flags, |socket| {
            let mut header = defaults(socket)?;
            if addr_count > 0 {
                header.addr = address::parse(&read_addrs(addrs, addr_count)?);
            }
            apply_info(&mut header, info, info_len as usize, kind)?;
            Ok(header)
        })
    }

    fn sctp_recvmsg(
        fd: c_int, data: *mut c_void, len: size_t, from: *mut sockaddr, from_len: *mut socklen_t, info: *mut c_void,
        flags: *mut c_int,
    ) -> c_int {
        receive_with(fd, &one(data, len), (from, from_len), flags, |socket, header| {
            let reading = socket.shared().reading.load(std::sync::atomic::Ordering::Relaxed);
            if info.is_null() || reading & crate::control::reading::SNDRCV == 0 {
                return Ok(());
            }
            user::write(info, &received::sndrcvinfo(header))
        })
    }

    fn sctp_recvv(
        fd: c_int, parts: *const iovec, count: c_int, from: *mut sockaddr, from_len: *mut socklen_t, info: *mut c_void,
        info_len: *mut socklen_t, kind: *mut c_uint, flags: *mut c_int,
    ) -> c_int {
        let list = match received::vector(parts, count) {
            Ok(list) => list,
            Err(errno) => return fail(errno) as c_int,
        };
        if !kind.is_null() && user::write(kind.cast(), &RECVV_NOINFO.to_ne_bytes()).is_err() {
            return fail(libc::EFAULT) as c_int;
        }
        receive_with(fd, &list, (from, from_len), flags, |socket, header| {
            let reading = socket.shared().reading.load(std::sync::atomic::Ordering::Relaxed);
            if info.is_null() || info_len.is_null() || kind.is_null() || reading & crate::control::reading::RCVINFO == 0 {
                return Ok(());
            }
            let bytes = received::rcvinfo(header);
            if (user::read_plain::<u32>(info_len)? as usize) < bytes.len() {
                return Ok(());
            }
            user::write(info, &bytes)?;
            user::write(info_len.cast(), &(bytes.len() as u32).to_ne_bytes())?;
            user::write(kind.cast(), &RECVV_RCVINFO.to_ne_bytes())
        })
    }
}
