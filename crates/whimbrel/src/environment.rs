//! What a stack takes from outside: its transport, the time, random numbers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha12Rng;
use rand_core::SeedableRng;
use whimbrel_control::{Span, Time};

use crate::timer::{self, Timer};
use crate::transport::Transport;
use crate::{BindError, StackConfig, Udp};

/// Where a stack runs: on a real machine, or on a node of a simulation.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) clock: Clock,
    /// For tags, cookies and timers.
    pub(crate) random: ChaCha12Rng,
    /// How late the driver's timer may be.
    pub(crate) granularity: Span,
}

impl Environment {
    /// The environment that the calling task runs in, with the transport of the configuration if it names one.
    pub(crate) fn find(config: &StackConfig) -> Result<Self, BindError> {
        #[cfg(feature = "simulated")]
        if let Some(node) = crate::simulated::current() {
            return Ok(node.environment(config.transport.clone()));
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|e| BindError::Random(e.to_string()))?;
        Ok(Environment {
            transport: transport(config),
            clock: Clock::System(Instant::now()),
            random: ChaCha12Rng::from_seed(seed),
            granularity: timer::TIMER_GRANULARITY,
        })
    }
}

/// Checks that the caller is within a tokio runtime: the driver is a task, and sockets report there when they are ready.
pub(crate) fn in_runtime() -> Result<(), BindError> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => Ok(()),
        Err(_) => Err(BindError::NoRuntime),
    }
}

/// The transport that a stack with this configuration uses when it is bound here and now.
pub(crate) fn transport(config: &StackConfig) -> Arc<dyn Transport> {
    if let Some(transport) = &config.transport {
        return transport.clone();
    }
    #[cfg(feature = "simulated")]
    if let Some(node) = crate::simulated::current() {
        return node.transport();
    }
    Arc::new(Udp)
}

/// The time of a stack.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// Nanoseconds since the stack was made.
    System(Instant),
    #[cfg(feature = "simulated")]
    Simulated(crate::simulated::Clock),
}

impl Clock {
    pub(crate) fn now(&self) -> Time {
        match self {
            Clock::System(start) => Time::from_nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            #[cfg(feature = "simulated")]
            Clock::Simulated(clock) => clock.now(),
        }
    }

    /// The instant at which this clock shows `time`.
    pub(crate) fn instant(&self, time: Time) -> Option<Instant> {
        match self {
            Clock::System(start) => start.checked_add(Duration::from_nanos(time.as_nanos())),
            #[cfg(feature = "simulated")]
            Clock::Simulated(clock) => clock.instant(time),
        }
    }

    /// A timer by this clock that is not set; must be made within a tokio runtime.
    pub(crate) fn timer(&self) -> Timer {
        match self {
            Clock::System(_) => Timer::system(),
            #[cfg(feature = "simulated")]
            Clock::Simulated(clock) => Timer::Simulated(clock.timer()),
        }
    }
}
