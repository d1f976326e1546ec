//! Options of sockets.

use std::sync::atomic::Ordering;

use libc::{c_int, c_void, socklen_t};

use crate::control::Op;
use crate::program::client::call;
use crate::program::names::addresses;
use crate::program::receive::take_error;
use crate::program::table::{self, Use, state};
use crate::program::{errno, intercept, real, result, user};
use crate::record::{Header, Kind};

/// Bytes of the largest option.
const MOST: usize = 4096;
/// `SCTP_DEFAULT_SEND_PARAM`, `SCTP_DEFAULT_SNDINFO`.
const SEND_DEFAULTS: [c_int; 2] = [10, 34];
/// lksctp's private options, by which its functions work.
const BINDX_ADD: c_int = 100;
const BINDX_REMOVE: c_int = 101;
const PEELOFF: c_int = 102;
const GET_PEER_ADDRS: c_int = 108;
const GET_LOCAL_ADDRS: c_int = 109;
const CONNECTX: c_int = 110;

/// Sets an option. Those of the socket layer are the kernel's, as far as it has them for the pair.
pub(crate) fn set(
    fd: c_int,
    socket: &Use,
    level: c_int,
    option: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Result<i32, i32> {
    let body = || user::read(value, (len as usize).min(MOST));
    match (level, option) {
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_LINGER) => {
            real_set(fd, level, option, value, len)?;
            call(Op::Set, socket.number(), level, option, &body()?)?;
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
            real_set(fd, level, option, value, len)?;
            keep_full(fd, socket);
        }
        (libc::SOL_SOCKET, _) => real_set(fd, level, option, value, len)?,
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) if socket.is_v6() => {
            call(Op::Set, socket.number(), level, option, &body()?)?;
        }
        (libc::IPPROTO_SCTP, BINDX_ADD | BINDX_REMOVE) => {
            call(
                Op::Bind,
                socket.number(),
                if option == BINDX_ADD { 1 } else { 2 },
                0,
                &body()?,
            )?;
        }
        (libc::IPPROTO_SCTP, CONNECTX) => return crate::program::sockets::connect_to(fd, socket, &body()?),
        (libc::IPPROTO_SCTP, _) => {
            let outcome = call(Op::Set, socket.number(), level, option, &body()?)?;
            socket.shared().reading.store(outcome.reading, Ordering::Relaxed);
            if SEND_DEFAULTS.contains(&option) {
                socket.shared().send_defaults.store(1, Ordering::Relaxed);
            }
        }
        _ => return Err(libc::ENOPROTOOPT),
    }
    Ok(0)
}

fn real_set(fd: c_int, level: c_int, option: c_int, value: *const c_void, len: socklen_t) -> Result<(), i32> {
    match real::setsockopt(fd, level, option, value, len) {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// A larger send buffer must not make a socket writable before it has an association.
fn keep_full(fd: c_int, socket: &Use) {
    if socket.is_many() || socket.state() == state::CONNECTED {
        return;
    }
    let mut bytes = 0_i32;
    let mut len = size_of::<i32>() as socklen_t;
    real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, (&raw mut bytes).cast(), &mut len);
    let filler = vec![0_u8; bytes.max(0) as usize / 4 + 1024];
    let mut record = Header {
        kind: Kind::Filler,
        ..Header::default()
    }
    .encode()
    .to_vec();
    record.extend(filler);
    real::send(
        fd,
        record.as_ptr().cast(),
        record.len(),
        libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
    );
}

/// Returns an option's value. `asked` is what the program has passed in.
fn value(fd: c_int, socket: &Use, level: c_int, option: c_int, asked: &[u8]) -> Result<Option<Vec<u8>>, i32> {
    let int = |value: i32| Ok(Some(value.to_ne_bytes().to_vec()));
    match (level, option) {
        (libc::SOL_SOCKET, libc::SO_TYPE) => int(if socket.is_many() {
            libc::SOCK_SEQPACKET
        } else {
            libc::SOCK_STREAM
        }),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => int(libc::IPPROTO_SCTP),
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => int(if socket.is_v6() { libc::AF_INET6 } else { libc::AF_INET }),
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => int((socket.state() == state::LISTENING).into()),
        (libc::SOL_SOCKET, libc::SO_ERROR) => int(take_error(fd, socket)),
        (libc::SOL_SOCKET, _) => Ok(None),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) if socket.is_v6() => {
            call(Op::Get, socket.number(), level, option, &[]).map(|outcome| Some(outcome.body))
        }
        (libc::IPPROTO_SCTP, PEELOFF) => {
            let assoc = asked
                .first_chunk()
                .map(|bytes| i32::from_ne_bytes(*bytes))
                .ok_or(libc::EINVAL)?;
            let new = crate::program::sockets::peel_off(socket, assoc)?;
            let mut bytes = assoc.to_ne_bytes().to_vec();
            bytes.extend(new.to_ne_bytes());
            Ok(Some(bytes))
        }
        (libc::IPPROTO_SCTP, GET_PEER_ADDRS | GET_LOCAL_ADDRS) => {
            // `struct sctp_getaddrs`: association, number of addresses, addresses.
            let assoc = asked
                .first_chunk()
                .map(|bytes| i32::from_ne_bytes(*bytes))
                .ok_or(libc::EINVAL)?;
            let (count, list) = addresses(socket, option == GET_PEER_ADDRS, assoc)?;
            let mut bytes = assoc.to_ne_bytes().to_vec();
            bytes.extend(count.to_ne_bytes());
            bytes.extend(list);
            if bytes.len() > asked.len() {
                Err(libc::ENOMEM)
            } else {
                Ok(Some(bytes))
            }
        }
        (libc::IPPROTO_SCTP, _) => {
            call(Op::Get, socket.number(), level, option, asked).map(|outcome| Some(outcome.body))
        }
        _ => Err(libc::ENOPROTOOPT),
    }
}

/// Gets an option.
pub(crate) fn get(
    fd: c_int,
    socket: &Use,
    level: c_int,
    option: c_int,
    to: *mut c_void,
    len: *mut socklen_t,
) -> Result<i32, i32> {
    let room = user::read_plain::<u32>(len)?;
    if room > i32::MAX as u32 {
        return Err(libc::EINVAL);
    }
    let asked = if level == libc::IPPROTO_SCTP {
        user::read(to, (room as usize).min(MOST))?
    } else {
        Vec::new()
    };
    let Some(bytes) = value(fd, socket, level, option, &asked)? else {
        return match real::getsockopt(fd, level, option, to, len) {
            0 => Ok(0),
            _ => Err(errno()),
        };
    };
    // As the kernel: SCTP refuses a buffer that is too short, the socket layer fills it.
    if level == libc::IPPROTO_SCTP && bytes.len() > room as usize {
        return Err(libc::EINVAL);
    }
    let given = bytes.len().min(room as usize);
    user::write(to, &bytes[..given])?;
    user::write(len.cast(), &(given as u32).to_ne_bytes())?;
    Ok(0)
}

intercept! {
    fn setsockopt(fd: c_int, level: c_int, option: c_int, value: *const c_void, len: socklen_t) -> c_int {
        let socket = table::find(fd)?;
        Some(result(set(fd, &socket, level, option, value, len)))
    } else {
        real::setsockopt(fd, level, option, value, len)
    }

    fn getsockopt(fd: c_int, level: c_int, option: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        let socket = table::find(fd)?;
        Some(result(get(fd, &socket, level, option, value, len)))
    } else {
        real::getsockopt(fd, level, option, value, len)
    }
}
