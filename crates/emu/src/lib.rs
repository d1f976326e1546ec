//! Forwards packets of real programs through the simulator's network in real time.
//!
//! [`Emulator`] is the loop: it takes packets from a [`Gate`], lets them enter the simulator's
//! [`OpenWorld`](whimbrel_sim::OpenWorld), waits until the simulated network delivers them, and passes them back to the gate. Links,
//! queues, losses, traces and schedules are the simulator's own. [`UdpGate`] is a gate of UDP sockets that needs no privileges.
//!
//! Two things distinguish an emulated network from a simulated one. Packets enter at the times at which the kernel received them,
//! so that a loop that runs late does not change what happens in queues; and they leave at the time they are due, or later if the
//! machine is busy. [`Report::lateness`] shows how much later.

#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod emulator;
#[cfg(target_os = "linux")]
mod gate;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod udp;

#[cfg(target_os = "linux")]
pub use {
    emulator::{Emulator, Limits},
    gate::{Arrival, Gate, GateCounts},
    report::Report,
    udp::{UdpAddresses, UdpError, UdpGate},
};
