//! Between programs and the emulated network.

use std::io;
use std::time::Duration;

use whimbrel_sim::{Delivery, Entry};

/// A packet that a program sent into the emulated network.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Where it enters.
    pub entry: Entry,
    /// When the kernel received it (Unix time), if that is known.
    pub stamp: Option<Duration>,
    /// What comes out at the other end, unchanged.
    pub payload: &'a [u8],
}

/// What a gate has taken in and given out, and what it could not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GateCounts {
    /// Packets from programs.
    pub received: u64,
    /// Packets to programs.
    pub sent: u64,
    /// Packets from addresses that do not belong to the flow.
    pub foreign: u64,
    /// Packets that the system refused to send, or that had no address to go to.
    pub unsendable: u64,
    /// Packets that the system dropped because the emulator did not read them in time; none if the system does not count them.
    pub overrun: Option<u64>,
}

/// Where packets of programs enter and leave the emulated network.
///
/// The emulator knows nothing of sockets, addresses or headers; a gate turns what programs send into an [`Entry`] with a payload,
/// and gives the payload of a [`Delivery`] to the program at the other end.
pub trait Gate {
    /// Waits until a packet has come or the time is over.
    ///
    /// # Errors
    /// The system cannot wait.
    fn wait(&mut self, timeout: Duration) -> io::Result<()>;

    /// Takes everything that has come since.
    ///
    /// # Errors
    /// The gate is broken. A packet that was lost is no error.
    fn receive(&mut self, take: &mut dyn FnMut(&Arrival<'_>)) -> io::Result<()>;

    /// Gives out a packet, now or at the next [`flush`](Gate::flush).
    fn send(&mut self, delivery: &Delivery<'_>);

    /// Gives out everything that waits.
    fn flush(&mut self);

    /// What was taken in and given out.
    fn counts(&self) -> GateCounts;
}
