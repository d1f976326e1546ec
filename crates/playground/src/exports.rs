//! What the page calls: a buffer for the request, the run, a buffer with the answer. Only numbers cross the border.
#![expect(
    unsafe_code,
    reason = "functions that the page calls need their names kept, which counts as unsafe; no pointer is read here"
)]

use std::cell::RefCell;

thread_local! {
    /// The request, then the answer.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for a request of this length, and returns its place in memory.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn reserve(length: usize) -> *const u8 {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        buffer.resize(length, 0);
        buffer.as_ptr()
    })
}

/// Runs the request in the buffer, and returns the length of the answer that replaces it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn answer() -> usize {
    BUFFER.with_borrow_mut(|buffer| {
        *buffer = crate::answer(&String::from_utf8_lossy(buffer)).into_bytes();
        buffer.len()
    })
}

/// Returns the place of the answer in memory.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn place() -> *const u8 {
    BUFFER.with_borrow(|buffer| buffer.as_ptr())
}
