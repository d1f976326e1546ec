//! The program's half: functions of the C library and of lksctp, exported under their names.

// Functions that the C library calls and that get pointers of the program. Each block says why it is sound.
#![allow(unsafe_code, reason = "functions for C programs, and calls of the C library")]
// Without their names, tests of this crate do not call them.
#![cfg_attr(test, allow(dead_code, reason = "exported for C programs"))]

mod client;
mod descriptors;
mod lksctp;
mod many;
mod names;
mod options;
mod own;
mod real;
mod receive;
mod send;
mod sockets;
mod start;
mod table;
mod thread;
mod user;

use std::panic::{AssertUnwindSafe, catch_unwind};

unsafe extern "C" {
    fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
}

/// `PTHREAD_CANCEL_DISABLE` of pthread.h.
const CANCEL_DISABLE: i32 = 1;

/// Defines a function that C programs call, and that is for sockets of this library only. A panic ends in the error EIO and not in the program.
macro_rules! export {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            $crate::program::guarded(|| -> $ret { $body }).unwrap_or_else(|| $crate::program::fail(libc::EIO) as $ret)
        }
    )*};
}
pub(crate) use export;

/// Defines a function in front of one of the C library. The first block returns `None` for descriptors of others, which the second one passes on:
/// that may be a cancellation point (pthread_cancel), which unwinds this frame. So it has no destructors there, and catches nothing.
macro_rules! intercept {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $ours:block else $other:block)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
            match $crate::program::guarded(|| -> Option<$ret> { $ours }) {
                Some(Some(returned)) => returned,
                Some(None) => $other,
                None => $crate::program::fail(libc::EIO) as $ret,
            }
        }
    )*};
}
pub(crate) use intercept;

/// Runs what this library does itself: `None` after a panic. A thread that is to be cancelled goes on until it is done.
fn guarded<T>(call: impl FnOnce() -> T) -> Option<T> {
    let mut before = 0;
    // SAFETY: it concerns this thread only, and writes the state from before.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut before) };
    let outcome = catch_unwind(AssertUnwindSafe(call)).ok();
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(before, &mut 0) };
    outcome
}

/// Sets errno, and returns -1.
fn fail(errno: i32) -> isize {
    // SAFETY: the C library returns a valid pointer, that of this thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Returns errno.
fn errno() -> i32 {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

/// Returns what a function of C returns.
fn result(outcome: Result<i32, i32>) -> i32 {
    outcome.unwrap_or_else(|errno| fail(errno) as i32)
}

/// Returns what a system call returned, or its error.
fn check(returned: isize) -> Result<usize, i32> {
    usize::try_from(returned).map_err(|_| errno())
}
