//! Several messages in one call.

use std::time::{Duration, Instant};

use libc::{c_int, c_uint, c_void, mmsghdr, timespec};

use crate::program::receive::receive_message;
use crate::program::send::{finish, send_message};
use crate::program::table;
use crate::program::{fail, intercept, real, user};

/// Messages of a call at most (UIO_MAXIOV).
const MOST: c_uint = 1024;

/// Calls `one` for each message until it fails or returns false, and notes the lengths. The error is that of the first message.
fn each(
    messages: *mut mmsghdr,
    count: c_uint,
    mut one: impl FnMut(usize, *mut mmsghdr) -> Result<(usize, bool), i32>,
) -> Result<c_int, i32> {
    let mut done = 0;
    for place in 0..count.min(MOST) as usize {
        let message = messages.wrapping_add(place);
        let outcome = one(place, message).and_then(|(len, goes_on)| {
            let to = message
                .cast::<c_void>()
                .wrapping_byte_add(std::mem::offset_of!(mmsghdr, msg_len));
            user::write(to, &(len as u32).to_ne_bytes()).map(|()| goes_on)
        });
        match outcome {
            Ok(goes_on) => {
                done += 1;
                if !goes_on {
                    break;
                }
            }
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(done)
}

fn end_of(timeout: *const timespec) -> Result<Option<Instant>, i32> {
    if timeout.is_null() {
        return Ok(None);
    }
    let time = user::read_plain(timeout)?;
    let (Ok(seconds), Ok(nanos @ ..1_000_000_000)) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec)) else {
        return Err(libc::EINVAL);
    };
    Ok(Instant::now().checked_add(Duration::new(seconds, nanos)))
}

intercept! {
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        let socket = table::find(fd)?;
        // The header is the first field.
        let sent = each(messages, count, |_, message| {
            send_message(fd, &socket, message.cast(), flags).map(|len| (len, true))
        });
        Some(finish(sent.map(|count| count as usize), flags) as c_int)
    } else {
        real::sendmmsg(fd, messages, count, flags)
    }

    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int {
        let socket = table::find(fd)?;
        // As in Linux, the time is looked at after each message only.
        let received = end_of(timeout).and_then(|end| each(messages, count, |place, message| {
            let waits_not = place > 0 && flags & libc::MSG_WAITFORONE != 0;
            let flags = if waits_not { flags | libc::MSG_DONTWAIT } else { flags };
            let len = receive_message(fd, &socket, message.cast(), flags)?;
            Ok((len, len > 0 && end.is_none_or(|end| Instant::now() < end)))
        }));
        Some(received.unwrap_or_else(|errno| fail(errno) as c_int))
    } else {
        real::recvmmsg(fd, messages, count, flags, timeout)
    }
}
