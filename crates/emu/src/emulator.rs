//! The main loop, which synchronizes the simulated network with real time.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use whimbrel_control::{Span, Time};
use whimbrel_sim::config::{ConfigError, SimConfig};
use whimbrel_sim::{Histogram, Observer, OpenWorld, Resources};

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
    /// The emulator does not sleep if the next event is due within this time, because the system may wake it later.
    pub spin: Duration,
    /// Start of the network's time.
    pub start: Start,
    /// Whether the thread that runs the emulator gets a real-time priority, if the user may set it: it then does not wait for other
    /// programs.
    pub realtime: bool,
}

/// Start of the network's time, used by schedules, traces and simulated flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Start {
    /// With the first packet.
    #[default]
    FirstPacket,
    /// With the emulation.
    AtOnce,
}

impl Default for Limits {
    /// No end, 50 us, no spinning, the first packet, no real-time priority.
    fn default() -> Self {
        Limits {
            duration: None,
            grain: Duration::from_micros(50),
            spin: Duration::ZERO,
            start: Start::FirstPacket,
            realtime: false,
        }
    }
}

/// A simulated network in real time, with a gate for the packets of programs.
pub struct Emulator<'o, G> {
    world: OpenWorld,
    observer: &'o mut dyn Observer,
    gate: G,
    limits: Limits,
    clock: Clock,
    /// Start of the network's time on this clock: the first packet.
    epoch: Option<Time>,
    lateness: Histogram,
    unread: Histogram,
    busy: Busy,
    /// Whether the emulator slept before the last look: packets then arrived just before.
    slept: bool,
    /// When the packets of a batch were due.
    due: Vec<Time>,
}

impl<G> std::fmt::Debug for Emulator<'_, G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulator")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl<'o, G: Gate> Emulator<'o, G> {
    /// Builds the network of a scenario. The flows in `outside` have their ends behind the gate.
    ///
    /// # Errors
    /// Returns the errors of [`OpenWorld::new`].
    pub fn new(
        config: &SimConfig,
        seed: u64,
        resources: &Resources,
        outside: &[usize],
        mut gate: G,
        limits: Limits,
        observer: &'o mut dyn Observer,
    ) -> Result<Self, ConfigError> {
        let world = OpenWorld::observed(config, seed, resources, outside, observer)?;
        gate.learn(&world);
        Ok(Emulator {
            world,
            observer,
            gate,
            limits,
            clock: Clock::start(),
            epoch: None,
            lateness: Histogram::default(),
            unread: Histogram::default(),
            busy: Busy::default(),
            slept: true,
            due: Vec::new(),
        })
    }

    /// Runs until `stop` is set or the duration is over.
    ///
    /// # Errors
    /// Returns an error if the gate fails.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<Report> {
        // By default the system may wake a sleeper 50 us late. If this call fails, the report shows the lateness.
        let _ = nix::sys::prctl::set_timerslack(1);
        if self.limits.realtime {
            let first_in_first_out = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
            let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, first_in_first_out);
        }
        let end = self.limits.duration;
        if self.limits.start == Start::AtOnce {
            self.epoch = Some(self.clock.now());
        }
        let mut read_until = Time::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let woken = self.clock.now();
            if end.is_some_and(|end| elapsed(Time::ZERO, woken) >= end) {
                break;
            }
            self.take_in(woken, read_until)?;
            read_until = woken;
            self.process_due(woken);
            self.wait(woken)?;
        }
        let elapsed = elapsed(Time::ZERO, self.clock.now());
        let emulated = self.world.now().since(Time::ZERO);
        Ok(Report {
            elapsed,
            emulated,
            lateness: self.lateness.summary(),
            unread: self.unread.summary(),
            gate: self.gate.counts(),
            run: self.world.finish(),
        })
    }

    /// Passes the packets that have arrived since `earliest` to the network.
    fn take_in(&mut self, now: Time, earliest: Time) -> io::Result<()> {
        let timestamps = Timestamps::at(now, earliest);
        let waited = if self.slept { Span::ZERO } else { now.since(earliest) };
        let (world, epoch, unread) = (&mut self.world, &mut self.epoch, &mut self.unread);
        self.gate.receive(&mut |arrival| {
            if arrival.timestamp.is_none() {
                unread.add(waited);
            }
            let at = timestamps.time(arrival.timestamp);
            let epoch = *epoch.get_or_insert(at);
            world.send(Time::ZERO + at.since(epoch), &arrival.entry, arrival.payload);
        })
    }

    /// Processes all due events, and sends the packets that have arrived.
    fn process_due(&mut self, now: Time) {
        let Some(epoch) = self.epoch else { return };
        let route_changes = self.world.route_changes();
        self.world.advance_with(Time::ZERO + now.since(epoch), self.observer);
        if self.world.route_changes() != route_changes {
            self.gate.learn(&self.world);
        }
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
        let spin = if self.busy.may_spin(now) {
            self.limits.spin
        } else {
            Duration::ZERO
        };
        let timeout = timeout.saturating_sub(spin);
        self.slept = !timeout.is_zero();
        let waited = self.gate.wait(timeout);
        if self.slept {
            self.busy.slept(self.clock.now().since(now));
        }
        waited
    }
}

/// The share of time in which the emulator does not sleep. The system stops a thread of real-time priority that sleeps less than 5 %
/// of the time for 50 ms in each second, so that other programs can run.
#[derive(Debug, Default)]
struct Busy {
    since: Time,
    slept: Span,
}

impl Busy {
    /// Time after which it is measured again.
    const WINDOW: Span = Span::from_millis(50);
    /// Longest time in each window without sleep.
    const MOST: Span = Span::from_millis(30);

    /// Returns whether the emulator may wait without sleep now.
    fn may_spin(&mut self, now: Time) -> bool {
        let window = now.since(self.since);
        if window >= Busy::WINDOW {
            *self = Busy {
                since: now,
                slept: Span::ZERO,
            };
            return true;
        }
        window - self.slept < Busy::MOST
    }

    fn slept(&mut self, span: Span) {
        self.slept += span;
    }
}

fn elapsed(from: Time, to: Time) -> Duration {
    let span: Span = to.since(from);
    Duration::from_nanos(span.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_at_most_three_fifths_of_the_time() {
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        let mut busy = Busy::default();
        assert!(busy.may_spin(at(29)));
        assert!(!busy.may_spin(at(30)));
        busy.slept(Span::from_millis(5));
        assert!(busy.may_spin(at(34)));
        assert!(!busy.may_spin(at(36)));
        // The next window.
        assert!(busy.may_spin(at(50)));
        assert!(busy.may_spin(at(79)));
        assert!(!busy.may_spin(at(80)));
    }
}
