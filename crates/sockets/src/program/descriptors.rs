//! Descriptors: duplicating, closing, `fcntl` and `ioctl`.

use libc::{c_int, c_uint, c_ulong};

use crate::program::receive::waiting;
use crate::program::{export, fail, intercept, own, real, table, user};

/// `CLOSE_RANGE_CLOEXEC`, which closes nothing now.
const RANGE_CLOEXEC: c_int = 4;

/// Notes a duplicate, whatever `to` was before.
fn note_copy(from: c_int, to: c_int) -> c_int {
    if to >= 0 && from != to {
        match table::find(from) {
            Some(socket) => table::duplicate(&socket, to),
            None => table::remove(to),
        }
    }
    to
}

fn control(fd: c_int, command: c_int, argument: usize) -> Option<c_int> {
    matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC).then(|| note_copy(fd, real::fcntl(fd, command, argument)))
}

/// Closes a range, except the connections of this library.
fn close_between(first: c_uint, last: c_uint, flags: c_int) -> Option<c_int> {
    if flags & RANGE_CLOEXEC != 0 {
        return None;
    }
    table::remove_range(first, last);
    let own = own::between(first, last);
    if own.is_empty() || first > last {
        return None;
    }
    let mut next = first;
    for fd in own {
        if fd > next && real::close_range(next, fd - 1, flags) != 0 {
            return Some(-1);
        }
        next = fd + 1;
    }
    Some(if next <= last {
        real::close_range(next, last, flags)
    } else {
        0
    })
}

export! {
    fn dup(fd: c_int) -> c_int {
        note_copy(fd, real::dup(fd))
    }

    fn dup2(fd: c_int, to: c_int) -> c_int {
        own::remove(to);
        note_copy(fd, real::dup2(fd, to))
    }

    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
        own::remove(to);
        note_copy(fd, real::dup3(fd, to, flags))
    }
}

intercept! {
    fn close(fd: c_int) -> c_int {
        if own::has(fd) {
            return Some(fail(libc::EBADF) as c_int);
        }
        table::remove(fd);
        None
    } else {
        real::close(fd)
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        close_between(first, last, flags)
    } else {
        real::close_range(first, last, flags)
    }

    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        control(fd, command, argument)
    } else {
        real::fcntl(fd, command, argument)
    }

    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        control(fd, command, argument)
    } else {
        real::fcntl(fd, command, argument)
    }

    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
        if request != libc::FIONREAD as c_ulong {
            return None;
        }
        let socket = table::find(fd)?;
        let bytes = waiting(fd, &socket).to_ne_bytes();
        let to = std::ptr::with_exposed_provenance_mut(argument);
        Some(match user::write(to, &bytes) {
            Ok(()) => 0,
            Err(errno) => fail(errno) as c_int,
        })
    } else {
        real::ioctl(fd, request, argument)
    }
}
