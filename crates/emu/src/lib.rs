//! Forwards packets of real programs through the simulator's network in real time.
//!
//! [`Emulator`] is the main loop: it takes packets from a [`Gate`], passes them to the simulator's
//! [`OpenWorld`](whimbrel_sim::OpenWorld), waits until the simulated network delivers them, and returns them to the gate. Links,
//! queues, losses, traces and schedules are those of the simulator. [`UdpGate`] is a gate of UDP sockets that needs no privileges;
//! [`NetnsGate`](netns::NetnsGate) gives each node a network namespace, and needs root.
//!
//! An emulated network differs from a simulated one in two ways. Packets enter at the times at which the kernel received them, so
//! that a late loop does not change the behaviour of queues. They leave when they are due, or later if the machine is busy;
//! [`Report::lateness`] shows how much later.

#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod emulator;
#[cfg(target_os = "linux")]
mod gate;
#[cfg(target_os = "linux")]
pub mod netns;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod udp;

#[cfg(target_os = "linux")]
pub use {
    emulator::{Emulator, Limits, Start},
    gate::{Arrival, Gate, GateCounts},
    report::Report,
    udp::{UdpAddresses, UdpError, UdpGate},
};
