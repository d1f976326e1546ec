//! What is measured, the same for every stack.

use std::any::Any;
use std::time::Duration;

use crate::count;

/// Bytes that an association may have on its way and in buffers.
pub(crate) const WINDOW: usize = 256 * 1024;
/// Largest SCTP packet, in bytes.
pub(crate) const PACKET: usize = 1472;

/// A stack under test.
pub(crate) trait Stack {
    fn name(&self) -> &'static str;
    /// Two endpoints with an association between them.
    fn connect(&self) -> Box<dyn Pair>;
    /// Two endpoints without one, where a stack has endpoints beside associations. They can hold many associations, so
    /// their memory is not an association's.
    fn endpoints(&self) -> Option<Box<dyn Any>>;
}

/// Two endpoints in one thread.
pub(crate) trait Pair {
    /// Sends `count` messages of `len` bytes one way, reads them all, and waits until they are acknowledged; gives the
    /// packets that went either way. Panics if something else arrives.
    fn transfer(&mut self, len: usize, count: usize) -> u64;
}

#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    pub(crate) gbit_per_cpu_second: f64,
    pub(crate) allocations_per_packet: f64,
}

#[derive(Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) small: Transfer,
    pub(crate) large: Transfer,
    pub(crate) handshakes_per_cpu_second: f64,
    pub(crate) idle_bytes: f64,
}

/// Payload of one measured transfer; a tenth of it goes before, unmeasured, so that windows are open and buffers grown.
const PAYLOAD: usize = 100 << 20;
const HANDSHAKES: usize = 5_000;
const IDLE: usize = 500;

pub(crate) fn all(stack: &dyn Stack) -> Figures {
    Figures {
        small: transfer(stack, 1200),
        large: transfer(stack, 64 * 1024),
        handshakes_per_cpu_second: handshakes(stack),
        idle_bytes: idle_bytes(stack),
    }
}

fn transfer(stack: &dyn Stack, len: usize) -> Transfer {
    let mut pair = stack.connect();
    pair.transfer(len, PAYLOAD / 10 / len);
    let (before, allocations) = (cpu_time(), count::allocations());
    let messages = PAYLOAD / len;
    let packets = pair.transfer(len, messages);
    let (spent, allocations) = (cpu_time() - before, count::allocations() - allocations);
    Transfer {
        gbit_per_cpu_second: (messages * len) as f64 * 8.0 / 1e9 / spent.as_secs_f64(),
        allocations_per_packet: allocations as f64 / packets as f64,
    }
}

fn handshakes(stack: &dyn Stack) -> f64 {
    let before = cpu_time();
    for _ in 0..HANDSHAKES {
        drop(stack.connect());
    }
    HANDSHAKES as f64 / (cpu_time() - before).as_secs_f64()
}

fn idle_bytes(stack: &dyn Stack) -> f64 {
    let connected = live_bytes_of(|| Some(stack.connect()));
    connected - live_bytes_of(|| stack.endpoints())
}

/// Memory of one of what `make` makes.
fn live_bytes_of<T>(make: impl Fn() -> Option<T>) -> f64 {
    let before = count::live_bytes();
    let made: Vec<_> = (0..IDLE).map(|_| make()).collect();
    let bytes = count::live_bytes() - before;
    drop(made);
    bytes as f64 / IDLE as f64
}

/// Processor time of this process.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
