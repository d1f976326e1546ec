//! A node of a simulation: a tokio runtime with a clock of its own, which the simulation sets.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use rand_chacha::ChaCha12Rng;
use rand_core::{Rng as _, SeedableRng};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;
use tokio::time::Instant;
use whimbrel_control::{Rng, Span, Time};
use whimbrel_sim::config::NodeConfig;

use super::clock::Clock;
use super::network::{NodeTransport, Shared};
use crate::environment::{self, Environment};
use crate::transport::Transport;

/// Timers of tokio expire on whole milliseconds of their runtime's clock.
const TICK: u64 = 1_000_000;

/// The program of a node, as it runs.
pub(super) type Program = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;
/// What a program returns if it fails: any error.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

thread_local! {
    static CURRENT: RefCell<Option<Arc<NodeContext>>> = const { RefCell::new(None) };
}

/// The node whose program runs on this thread, if one does.
pub(crate) fn current() -> Option<Arc<NodeContext>> {
    CURRENT.with_borrow(Clone::clone)
}

/// What the library needs of the node that a program runs on.
#[derive(Debug)]
pub(crate) struct NodeContext {
    transport: NodeTransport,
    base: std::time::Instant,
    seed: u64,
    /// How late the timers of its stacks may be.
    timer_granularity: Span,
    /// Name of the node, and how often it has been started.
    name: String,
    stacks: AtomicU64,
}

impl NodeContext {
    pub(crate) fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.transport.clone())
    }

    pub(crate) fn environment(&self, transport: Option<Arc<dyn Transport>>) -> Environment {
        let number = self.stacks.fetch_add(1, Ordering::Relaxed);
        let mut seed = [0; 32];
        Rng::stream(self.seed, &format!("{} stack {number}", self.name)).fill_bytes(&mut seed);
        Environment {
            transport: transport.unwrap_or_else(|| self.transport()),
            clock: environment::Clock::Simulated(Clock {
                shared: self.transport.shared.clone(),
                node: self.transport.node,
                base: self.base,
            }),
            random: ChaCha12Rng::from_seed(seed),
            granularity: self.timer_granularity,
        }
    }
}

/// Makes a node the current one until it is dropped.
struct Entered(Option<Arc<NodeContext>>);

impl Entered {
    fn new(context: &Arc<NodeContext>) -> Self {
        Entered(CURRENT.replace(Some(context.clone())))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// How the runtime reports to the simulation.
#[derive(Debug, Default)]
struct Hooks {
    /// Whether an idle runtime returns to the simulation instead of advancing its clock.
    stops_when_idle: AtomicBool,
    is_idle: AtomicBool,
    /// What the clock showed when the simulation began to look ahead.
    looks_from: Mutex<Option<Instant>>,
    root: Mutex<Option<Waker>>,
}

impl Hooks {
    fn set_root(&self, waker: &Waker) {
        *self.root.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    fn wake_root(&self) {
        if let Some(waker) = &*self.root.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }

    fn before_park(&self) {
        if self.stops_when_idle.load(Ordering::Relaxed) {
            self.is_idle.store(true, Ordering::Relaxed);
            self.wake_root();
        }
    }

    fn after_unpark(&self) {
        // The clock stands still where something has woken the runtime meanwhile.
        let from = *self.looks_from.lock().unwrap_or_else(PoisonError::into_inner);
        if from.is_some_and(|from| Instant::now() != from) {
            self.wake_root();
        }
    }
}

/// A running node.
pub(super) struct Node {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    /// The tasks of `spawn_local`; `None` only while it is dropped.
    local: Option<LocalSet>,
    program: Option<Program>,
    context: Arc<NodeContext>,
    hooks: Arc<Hooks>,
    /// The simulation's time at which its clock started, and what tokio's clock showed then.
    epoch: Time,
    start: Instant,
    /// What tokio's clock shows. It may be ahead of the simulation, up to a time before which nothing can happen to the node.
    shown: Time,
    /// The time before which no timer of its tasks expires.
    clock: Time,
    /// A timer may have expired at `clock`, and the tasks that wait for it have not run.
    is_pending: bool,
}

impl Node {
    /// Starts a node at the current time of the simulation. `generation` counts its starts.
    pub(super) fn start(
        shared: &Arc<Shared>,
        node: usize,
        config: &NodeConfig,
        generation: u32,
        seed: u64,
        program: &dyn Fn() -> Program,
    ) -> std::io::Result<Self> {
        let name = &config.name;
        let hooks = Arc::new(Hooks::default());
        let (parks, unparks) = (hooks.clone(), hooks.clone());
        let mut builder = Builder::new_current_thread();
        builder
            .enable_time()
            .start_paused(true)
            .on_thread_park(move || parks.before_park())
            .on_thread_unpark(move || unparks.after_unpark());
        #[cfg(tokio_unstable)]
        builder.rng_seed(tokio::runtime::RngSeed::from_bytes(
            format!("{seed} {name} {generation}").as_bytes(),
        ));
        let runtime = builder.build()?;
        let start = {
            let _entered = runtime.enter();
            Instant::now()
        };
        let epoch = shared.now();
        let elapsed = Duration::from_nanos(epoch.as_nanos());
        let context = Arc::new(NodeContext {
            transport: NodeTransport {
                shared: shared.clone(),
                node,
            },
            base: start.into_std().checked_sub(elapsed).unwrap_or(start.into_std()),
            seed,
            timer_granularity: config.timer_granularity,
            name: format!("node {name} start {generation}"),
            stacks: AtomicU64::new(0),
        });
        shared.lock().set_up(node, true);
        let local = LocalSet::new();
        let program = {
            let _current = Entered::new(&context);
            let _entered = runtime.enter();
            let _local = local.enter();
            program()
        };
        Ok(Node {
            runtime: Some(runtime),
            local: Some(local),
            program: Some(program),
            context,
            hooks,
            epoch,
            start,
            shown: epoch,
            clock: epoch,
            is_pending: true,
        })
    }

    /// The time before which it does nothing by itself; if it is pending, its tasks have to run then.
    pub(super) fn clock(&self) -> Time {
        self.clock
    }

    pub(super) fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Whether a task was woken from outside: by the program of another node, over a channel.
    pub(super) fn is_woken_from_outside(&self) -> bool {
        let metrics = self.runtime.as_ref().map(Runtime::metrics);
        metrics.is_some_and(|metrics| metrics.global_queue_depth() > 0)
    }

    /// Runs its tasks at this time until none can go on. Returns the program's result if it has ended now.
    pub(super) fn run(&mut self, now: Time) -> Option<Result<(), Failure>> {
        let (Some(runtime), Some(local)) = (&self.runtime, &self.local) else {
            return None;
        };
        let ahead = Duration::from_nanos(now.since(self.shown).as_nanos());
        self.shown = self.shown.max(now);
        self.clock = self.shown;
        self.is_pending = false;
        self.hooks.stops_when_idle.store(true, Ordering::Relaxed);
        self.hooks.is_idle.store(false, Ordering::Relaxed);
        let (hooks, program) = (&self.hooks, &mut self.program);
        let mut result = None;
        let _current = Entered::new(&self.context);
        runtime.block_on(local.run_until(async {
            // Its yield lets the timers expire that are due.
            tokio::time::advance(ahead).await;
            std::future::poll_fn(|cx| {
                hooks.set_root(cx.waker());
                if hooks.is_idle.swap(false, Ordering::Relaxed) {
                    return Poll::Ready(());
                }
                if let Some(running) = program
                    && let Poll::Ready(ended) = running.as_mut().poll(cx)
                {
                    *program = None;
                    result = Some(ended);
                }
                Poll::Pending
            })
            .await;
        }));
        self.hooks.stops_when_idle.store(false, Ordering::Relaxed);
        result
    }

    /// Finds the next timer of its tasks, but does not look beyond `limit`, before which nothing else happens to it. The tasks do not run
    /// yet.
    pub(super) fn look_ahead(&mut self, limit: Time) {
        let Some(runtime) = &self.runtime else { return };
        let ticks = |time: Time| time.since(self.epoch).as_nanos() / TICK;
        let at_tick = |tick: u64| self.epoch + Span::from_nanos(tick * TICK);
        let (from, to) = (ticks(self.shown), ticks(limit));
        if to <= from {
            // No timer expires between two ticks.
            self.clock = self.clock.max(limit);
            return;
        }
        if self.shown != at_tick(from) {
            // tokio advances by whole ticks: from a tick on they are exact.
            (self.clock, self.is_pending) = (at_tick(from + 1), true);
            return;
        }
        let until = self.start + Duration::from_nanos(to * TICK);
        let from = self.start + Duration::from_nanos(from * TICK);
        let looks_from = |from| *self.hooks.looks_from.lock().unwrap_or_else(PoisonError::into_inner) = from;
        looks_from(Some(from));
        let reached = runtime.block_on(async {
            let mut sleep = std::pin::pin!(tokio::time::sleep_until(until));
            std::future::poll_fn(|cx| {
                self.hooks.set_root(cx.waker());
                let now = Instant::now();
                if now == from {
                    let _ = sleep.as_mut().poll(cx);
                    return Poll::Pending;
                }
                Poll::Ready(now)
            })
            .await
        });
        looks_from(None);
        let elapsed = reached.duration_since(self.start).as_nanos();
        self.shown = self.epoch + Span::from_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX));
        (self.clock, self.is_pending) = (self.shown, true);
    }
}

impl Drop for Node {
    /// A crash: all tasks are dropped where they stand, and what they would have sent is lost.
    fn drop(&mut self) {
        let NodeTransport { shared, node } = &self.context.transport;
        shared.lock().set_up(*node, false);
        let _current = Entered::new(&self.context);
        if let Some(runtime) = &self.runtime {
            let _entered = runtime.enter();
            self.program = None;
            self.local = None;
        }
        self.runtime = None;
    }
}
