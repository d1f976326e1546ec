//! Memory of the program: read and written so that a wrong pointer is EFAULT, as in the kernel.

use std::mem::MaybeUninit;

use libc::{c_void, iovec};

use crate::program::errno;

/// Addresses below have no memory (vm.mmap_min_addr).
const LOWEST: usize = 4096;

fn part(pointer: *const c_void, len: usize) -> iovec {
    iovec {
        iov_base: pointer.cast_mut(),
        iov_len: len,
    }
}

/// Copies between two ranges of this process by the kernel, which checks both. False if one of them is not accessible.
fn copy(from: *const c_void, to: *mut c_void, len: usize) -> bool {
    let (local, remote) = (part(to, len), part(from, len));
    // SAFETY: the kernel checks all addresses, and writes only to `to`, which is exclusive to the caller or belongs to the program.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    if copied < 0 && matches!(errno(), libc::EPERM | libc::ENOSYS | libc::EACCES) {
        return copy_unchecked(from, to, len);
    }
    copied == len.cast_signed()
}

/// The same where the kernel refuses the call, as in some containers.
fn copy_unchecked(from: *const c_void, to: *mut c_void, len: usize) -> bool {
    if from.addr() < LOWEST || to.addr() < LOWEST {
        return false;
    }
    // SAFETY: one range is exclusive to the caller; that the other one has this length is what the program promises, as to the functions of the
    // C library. A wrong pointer ends the program there too.
    unsafe { std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), len) };
    true
}

/// Returns the bytes at `pointer`.
pub(crate) fn read(pointer: *const c_void, len: usize) -> Result<Vec<u8>, i32> {
    let mut bytes = vec![0; len];
    if len == 0 || copy(pointer, bytes.as_mut_ptr().cast(), len) {
        Ok(bytes)
    } else {
        Err(libc::EFAULT)
    }
}

/// Returns the value at `pointer`, which need not be aligned.
pub(crate) fn read_plain<T: Plain>(pointer: *const T) -> Result<T, i32> {
    let mut value = MaybeUninit::<T>::zeroed();
    if copy(pointer.cast(), value.as_mut_ptr().cast(), size_of::<T>()) {
        // SAFETY: all bits are values of these types.
        Ok(unsafe { value.assume_init() })
    } else {
        Err(libc::EFAULT)
    }
}

/// Returns a list of values.
pub(crate) fn read_list<T: Plain>(pointer: *const T, count: usize) -> Result<Vec<T>, i32> {
    let bytes = read(pointer.cast(), count.saturating_mul(size_of::<T>()))?;
    let values = bytes.chunks_exact(size_of::<T>());
    // SAFETY: each part has the bytes of a value, and all bits are values of these types.
    Ok(values
        .map(|part| unsafe { part.as_ptr().cast::<T>().read_unaligned() })
        .collect())
}

/// Writes bytes to `pointer`.
pub(crate) fn write(pointer: *mut c_void, bytes: &[u8]) -> Result<(), i32> {
    let done = bytes.is_empty() || copy(bytes.as_ptr().cast(), pointer, bytes.len());
    if done { Ok(()) } else { Err(libc::EFAULT) }
}

/// Types for which all bits are valid.
///
/// # Safety
/// All bits are values of the type.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for i64 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for libc::timespec {}
// SAFETY: integers and pointers.
unsafe impl Plain for iovec {}
// SAFETY: as above.
unsafe impl Plain for libc::msghdr {}

/// Writes an address and its length, as `accept` and `recvfrom` do: as much of it as there is room for.
pub(crate) fn write_addr(addr: *mut c_void, len: *mut libc::socklen_t, bytes: &[u8]) -> Result<(), i32> {
    if addr.is_null() {
        return Ok(());
    }
    let room = read_plain::<u32>(len)?;
    if room > i32::MAX as u32 {
        return Err(libc::EINVAL);
    }
    write(addr, &bytes[..bytes.len().min(room as usize)])?;
    write(len.cast(), &(bytes.len() as u32).to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_pointers_are_errors() {
        let mut value = 7_u32;
        assert_eq!(read_plain::<u32>(&raw const value), Ok(7));
        assert_eq!(read((&raw const value).cast(), 4), Ok(7_u32.to_ne_bytes().to_vec()));
        write((&raw mut value).cast(), &9_u32.to_ne_bytes()).unwrap();
        assert_eq!(value, 9);
        let nowhere = std::ptr::without_provenance_mut::<c_void>(16);
        assert_eq!(read(nowhere, 4), Err(libc::EFAULT));
        assert_eq!(write(nowhere, &[1]), Err(libc::EFAULT));
        assert_eq!(read(nowhere, 0), Ok(Vec::new()));
        assert!(!copy_unchecked(nowhere, (&raw mut value).cast(), 4));
        assert!(copy_unchecked((&raw const value).cast(), (&raw mut value).cast(), 4));
    }

    #[test]
    fn lists_may_be_misaligned() {
        let bytes = [0_u8, 1, 0, 0, 0, 2, 0, 0, 0];
        let at = bytes.as_ptr().wrapping_add(1).cast::<u32>();
        assert_eq!(read_list(at, 2), Ok(vec![u32::from_le(1), u32::from_le(2)]));
        assert_eq!(read_list::<u32>(std::ptr::null(), 1), Err(libc::EFAULT));
        assert_eq!(read_list::<u32>(std::ptr::null(), 0), Ok(Vec::new()));
    }
}
