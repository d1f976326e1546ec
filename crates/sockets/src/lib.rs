//! The sockets API for SCTP (RFC 6458, and the functions of lksctp) as a library to preload: `LD_PRELOAD=libwhimbrel_preload.so PROGRAM`.
//!
//! `socket(AF_INET or AF_INET6, SOCK_STREAM or SOCK_SEQPACKET, IPPROTO_SCTP)` then returns a descriptor whose other end belongs to the SCTP
//! service, a thread of the process, instead of a socket of the kernel's SCTP. What is done with it is taken over; all other descriptors pass
//! through untouched. `docs/decisions/0038-a-descriptor-is-one-end-of-a-socket-pair.md` explains the shape, `docs/sockets.md` lists functions and options.
//!
//! Two halves, which share no memory:
//!
//! - `program`: the exported functions, which run in the threads of the program. The only part with `unsafe`.
//! - `service`: sockets, options and associations, driven by the stack of the `whimbrel` crate.
//!
//! Between them are records of a socket pair (`record`) and requests on a control connection (`control`).
//!
//! The library has no interface for Rust programs: use the `whimbrel` crate.

#![cfg(target_os = "linux")]

mod address;
mod control;
mod program;
mod record;
mod service;
