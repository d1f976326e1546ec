//! The functions of the C library that this library has in front of them. They may unwind: `pthread_cancel` does.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    c_char, c_int, c_uint, c_ulong, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec,
};

/// Returns the address of the next function of this name, which is found once.
fn find(place: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = place.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast::<c_char>()) };
    if found.is_null() {
        // A C library without it cannot have loaded this one.
        std::process::abort();
    }
    place.store(found, Ordering::Relaxed);
    found
}

macro_rules! real {
    ($($text:literal $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)*) => {$(
        /// That of the C library.
        pub(crate) fn $name($($arg: $ty),*) -> $ret {
            static PLACE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let function = find(&PLACE, $text);
            // SAFETY: the C library has a function of this name with this signature. What it does with the pointers is what it would do
            // without this library: they come from the program, or are valid for the call.
            unsafe {
                let function: unsafe extern "C-unwind" fn($($ty),*) -> $ret = std::mem::transmute(function);
                function($($arg),*)
            }
        }
    )*};
}

real! {
    c"socket" socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    c"bind" bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int;
    c"listen" listen(fd: c_int, backlog: c_int) -> c_int;
    c"accept" accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int;
    c"accept4" accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    c"connect" connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int;
    c"close" close(fd: c_int) -> c_int;
    c"shutdown" shutdown(fd: c_int, how: c_int) -> c_int;
    c"read" read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t;
    c"write" write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t;
    c"readv" readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    c"writev" writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    c"send" send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    c"sendto" sendto(fd: c_int, data: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr, addr_len: socklen_t) -> ssize_t;
    c"sendmsg" sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    c"recv" recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    c"recvfrom" recvfrom(fd: c_int, data: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr, addr_len: *mut socklen_t) -> ssize_t;
    c"recvmsg" recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    c"getsockopt" getsockopt(fd: c_int, level: c_int, option: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    c"setsockopt" setsockopt(fd: c_int, level: c_int, option: c_int, value: *const c_void, len: socklen_t) -> c_int;
    c"getsockname" getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int;
    c"getpeername" getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int;
    c"dup" dup(fd: c_int) -> c_int;
    c"dup2" dup2(fd: c_int, to: c_int) -> c_int;
    c"dup3" dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    c"sendfile" sendfile(out: c_int, from: c_int, offset: *mut i64, count: size_t) -> ssize_t;
    c"sendmmsg" sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    c"recvmmsg" recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
}

/// `close_range`, which older C libraries do not have.
pub(crate) fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: integers only.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) as c_int }
}

/// `fcntl` of the C library.
pub(crate) fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    static PLACE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let function = find(&PLACE, c"fcntl");
    // SAFETY: as above. All arguments of commands are integers or pointers, which are passed alike.
    unsafe {
        let function: unsafe extern "C-unwind" fn(c_int, c_int, ...) -> c_int = std::mem::transmute(function);
        function(fd, command, argument)
    }
}

/// `ioctl` of the C library.
pub(crate) fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    static PLACE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let function = find(&PLACE, c"ioctl");
    // SAFETY: as for `fcntl`.
    unsafe {
        let function: unsafe extern "C-unwind" fn(c_int, c_ulong, ...) -> c_int = std::mem::transmute(function);
        function(fd, request, argument)
    }
}
