//! Addresses of sockets.

use libc::{c_int, sockaddr, socklen_t};

use crate::address;
use crate::control::Op;
use crate::program::client::call;
use crate::program::table::{self, Use};
use crate::program::{intercept, real, result, user};

/// Returns the number of the addresses of an association, and their packed list.
pub(crate) fn addresses(socket: &Use, peer: bool, assoc: i32) -> Result<(c_int, Vec<u8>), i32> {
    let outcome = call(Op::Addresses, socket.number(), peer.into(), assoc, &[])?;
    let listed = address::parse_list(&outcome.body).map(|addrs| addrs.len() as c_int);
    if listed != Some(outcome.value) {
        return Err(libc::EIO);
    }
    Ok((outcome.value, outcome.body))
}

fn bind_to(socket: &Use, addr: *const sockaddr, len: socklen_t) -> Result<i32, i32> {
    let bytes = user::read(addr.cast(), (len as usize).min(address::STORAGE))?;
    let addr = address::parse(&bytes).ok_or(libc::EINVAL)?;
    call(Op::Bind, socket.number(), 0, 0, &address::bytes(addr)).map(|_| 0)
}

fn name(socket: &Use, peer: bool, addr: *mut sockaddr, len: *mut socklen_t) -> Result<i32, i32> {
    if addr.is_null() || len.is_null() {
        return Err(libc::EFAULT);
    }
    let outcome = call(Op::Name, socket.number(), peer.into(), 0, &[])?;
    user::write_addr(addr.cast(), len, &outcome.body).map(|()| 0)
}

intercept! {
    fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        table::find(fd).map(|socket| result(bind_to(&socket, addr, len)))
    } else {
        real::bind(fd, addr, len)
    }

    fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        table::find(fd).map(|socket| result(name(&socket, false, addr, len)))
    } else {
        real::getsockname(fd, addr, len)
    }

    fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        table::find(fd).map(|socket| result(name(&socket, true, addr, len)))
    } else {
        real::getpeername(fd, addr, len)
    }
}
