//! The program's half: functions of the C library and of lksctp, exported under their names.

// Functions that the C library calls and that get pointers of the program. Each block says why it is sound.
#![allow(unsafe_code, reason = "functions for C programs, and calls of the C library")]
// Without their names, tests of this crate do not call them.
#![cfg_attr(test, allow(dead_code, reason = "exported for C programs"))]

mod client;
mod lksctp;
mod names;
mod options;
mod real;
mod receive;
mod send;
mod sockets;
mod table;
mod thread;
mod user;

/// Defines a function that C programs call. A panic ends in the error EIO and not in the program.
macro_rules! export {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            let call = std::panic::AssertUnwindSafe(|| -> $ret { $body });
            std::panic::catch_unwind(call).unwrap_or_else(|_| $crate::program::fail(libc::EIO) as $ret)
        }
    )*};
}
pub(crate) use export;

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
