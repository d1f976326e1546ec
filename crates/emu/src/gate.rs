//! The interface between programs and the emulated network.

use std::io;
use std::time::Duration;

use whimbrel_sim::{Delivery, Entry, OpenWorld};

/// A packet that a program sent into the emulated network.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its entry point.
    pub entry: Entry,
    /// When the kernel received it (Unix time), if known.
    pub timestamp: Option<Duration>,
    /// The payload, which is delivered unchanged.
    pub payload: &'a [u8],
}

/// Counters of a gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GateCounts {
    /// Packets from programs.
    pub received: u64,
    /// Packets to programs.
    pub sent: u64,
    /// Packets from addresses that do not belong to the flow.
    pub foreign: u64,
    /// Packets that the system refused to send, or without a known destination.
    pub unsendable: u64,
    /// Packets that the system dropped because the emulator did not read them in time; none if the system does not count them.
    pub overrun: Option<u64>,
}

/// The gate through which packets of programs enter and leave the emulated network.
///
/// The emulator is independent of sockets, addresses and headers. A gate converts packets of programs to an [`Entry`] with a
/// payload, and sends the payload of a [`Delivery`] to the program at the other end.
pub trait Gate {
    /// Called before all others, and again when routes have changed: a gate that needs to know the network can ask it here.
    fn learn(&mut self, world: &OpenWorld) {
        let _ = world;
    }

    /// Waits for a packet or the timeout.
    ///
    /// # Errors
    /// Returns an error if the system cannot wait.
    fn wait(&mut self, timeout: Duration) -> io::Result<()>;

    /// Reads all packets that have arrived.
    ///
    /// # Errors
    /// Returns an error if the gate fails. A lost packet is not an error.
    fn receive(&mut self, take: &mut dyn FnMut(&Arrival<'_>)) -> io::Result<()>;

    /// Sends a packet, now or at the next [`flush`](Gate::flush).
    fn send(&mut self, delivery: &Delivery<'_>);

    /// Sends all waiting packets.
    fn flush(&mut self);

    /// Returns the counters.
    fn counts(&mut self) -> GateCounts;
}
