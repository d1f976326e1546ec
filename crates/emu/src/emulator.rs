//! The main loop, which synchronizes the simulated network with real time.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use whimbrel_control::{Span, Time};
use whimbrel_sim::config::{ConfigError, SimConfig};
use whimbrel_sim::{Histogram, OpenWorld, Resources};

use crate::clock::{Clock, Timestamps};
use crate::{Gate, Report};

/// Longest wait without a check of the stop flag.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Duration of an emulation, and the interval of its wake-ups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Real time after which it ends. Default: it runs until it is stopped.
    pub duration: Option<Duration>,
    /// Shortest time between two checks of the network. Packets that are due in this interval leave together, so that a fast link
    /// needs one system call for many packets; this delays them by at most this time.
    pub grain: Duration,
}

impl Default for Limits {
    /// No end, 50 us.
    fn default() -> Self {
        Limits {
            duration: None,
            grain: Duration::from_micros(50),
        }
    }
}

/// A simulated network in real time, with a gate for the packets of programs.
#[derive(Debug)]
pub struct Emulator<G> {
    world: OpenWorld,
    gate: G,
    limits: Limits,
    clock: Clock,
    /// Start of the network's time on this clock: the first packet.
    epoch: Option<Time>,
    lateness: Histogram,
    /// When the packets of a batch were due.
    due: Vec<Time>,
}

impl<G: Gate> Emulator<G> {
    /// Builds the network of a scenario. The flows in `outside` have their ends behind the gate.
    ///
    /// # Errors
    /// Returns the errors of [`OpenWorld::new`].
    pub fn new(
        config: &SimConfig,
        seed: u64,
        resources: &Resources,
        outside: &[usize],
        gate: G,
        limits: Limits,
    ) -> Result<Self, ConfigError> {
        Ok(Emulator {
            world: OpenWorld::new(config, seed, resources, outside)?,
            gate,
            limits,
            clock: Clock::start(),
            epoch: None,
            lateness: Histogram::default(),
            due: Vec::new(),
        })
    }

    /// Runs until `stop` is set or the duration is over. The network's time, used by schedules, traces and simulated flows, starts
    /// with the first packet.
    ///
    /// # Errors
    /// Returns an error if the gate fails.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<Report> {
        // By default the system may wake a sleeper 50 us late. If this call fails, the report shows the lateness.
        let _ = nix::sys::prctl::set_timerslack(1);
        let end = self.limits.duration;
        let mut read_until = Time::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let woken = self.clock.now();
            if end.is_some_and(|end| elapsed(Time::ZERO, woken) >= end) {
                break;
            }
            self.take_in(woken, read_until)?;
            read_until = woken;
            self.give_out(woken);
            self.wait(woken)?;
        }
        let elapsed = elapsed(Time::ZERO, self.clock.now());
        let emulated = self.world.now().since(Time::ZERO);
        Ok(Report {
            elapsed,
            emulated,
            lateness: self.lateness.summary(),
            gate: self.gate.counts(),
            run: self.world.finish(),
        })
    }

    /// Passes the packets that have arrived since `earliest` to the network.
    fn take_in(&mut self, now: Time, earliest: Time) -> io::Result<()> {
        let timestamps = Timestamps::at(now, earliest);
        let (world, epoch) = (&mut self.world, &mut self.epoch);
        self.gate.receive(&mut |arrival| {
            let at = timestamps.time(arrival.timestamp);
            let epoch = *epoch.get_or_insert(at);
            world.send(Time::ZERO + at.since(epoch), &arrival.entry, arrival.payload);
        })
    }

    /// Processes all due events, and sends the packets that have arrived.
    fn give_out(&mut self, now: Time) {
        let Some(epoch) = self.epoch else { return };
        self.world.advance(Time::ZERO + now.since(epoch));
        let (gate, due) = (&mut self.gate, &mut self.due);
        self.world.deliver(&mut |delivery| {
            due.push(delivery.at);
            gate.send(&delivery);
        });
        if due.is_empty() {
            return;
        }
        gate.flush();
        let gone = Time::ZERO + self.clock.now().since(epoch);
        due.drain(..).for_each(|due| self.lateness.add(gone.since(due)));
    }

    /// Sleeps until the next event of the network or the next packet.
    fn wait(&mut self, woken: Time) -> io::Result<()> {
        let busy = elapsed(woken, self.clock.now());
        if let Some(rest) = self.limits.grain.checked_sub(busy).filter(|rest| !rest.is_zero()) {
            std::thread::sleep(rest);
        }
        let next = self.epoch.and_then(|epoch| {
            let event = self.world.next_event()?;
            Some(epoch + event.since(Time::ZERO))
        });
        let now = self.clock.now();
        let timeout = next.map_or(LONGEST_WAIT, |next| elapsed(now, next).min(LONGEST_WAIT));
        self.gate.wait(timeout)
    }
}

fn elapsed(from: Time, to: Time) -> Duration {
    let span: Span = to.since(from);
    Duration::from_nanos(span.as_nanos())
}
