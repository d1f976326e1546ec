//! `emulate` with network namespaces. Needs root; a machine that is too slow repeats a measurement.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

mod life;
mod measured;
mod mtu;
mod support;
mod tcp;
mod tunnel;
