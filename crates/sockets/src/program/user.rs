//! Memory of the program: read and written so that a wrong pointer is EFAULT, as in the kernel.

use libc::{c_void, iovec};

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
    copied == len.cast_signed()
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

/// Returns the values at `pointer`; any bits are values of these types.
pub(crate) fn read_plain<T: Plain, const N: usize>(pointer: *const T) -> Result<[T; N], i32> {
    let mut values = [T::default(); N];
    let done = copy(pointer.cast(), values.as_mut_ptr().cast(), size_of::<[T; N]>());
    if done { Ok(values) } else { Err(libc::EFAULT) }
}

/// Writes bytes to `pointer`.
pub(crate) fn write(pointer: *mut c_void, bytes: &[u8]) -> Result<(), i32> {
    let done = bytes.is_empty() || copy(bytes.as_ptr().cast(), pointer, bytes.len());
    if done { Ok(()) } else { Err(libc::EFAULT) }
}

/// Types for which all bits are valid.
pub(crate) trait Plain: Copy + Default {}
impl Plain for u32 {}
impl Plain for i32 {}
impl Plain for u16 {}

/// Writes an address and its length, as `accept` and `recvfrom` do: as much of it as there is room for.
pub(crate) fn write_addr(addr: *mut c_void, len: *mut libc::socklen_t, bytes: &[u8]) -> Result<(), i32> {
    if addr.is_null() {
        return Ok(());
    }
    let [room] = read_plain::<u32, 1>(len)?;
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
        assert_eq!(read_plain::<u32, 1>(&raw const value), Ok([7]));
        assert_eq!(read((&raw const value).cast(), 4), Ok(7_u32.to_ne_bytes().to_vec()));
        write((&raw mut value).cast(), &9_u32.to_ne_bytes()).unwrap();
        assert_eq!(value, 9);
        let nowhere = std::ptr::without_provenance_mut::<c_void>(16);
        assert_eq!(read(nowhere, 4), Err(libc::EFAULT));
        assert_eq!(write(nowhere, &[1]), Err(libc::EFAULT));
        assert_eq!(read(nowhere, 0), Ok(Vec::new()));
    }
}
