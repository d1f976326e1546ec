//! Descriptors whose readiness tokio watches.

#![allow(unsafe_code, reason = "tokio trusts that a watched descriptor stays the same")]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches a descriptor for reading and writing.
pub(crate) fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    let interest = Interest::READABLE | Interest::WRITABLE;
    // SAFETY: an `OwnedFd` has the same open descriptor as long as it lives, and nothing here replaces it.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}
