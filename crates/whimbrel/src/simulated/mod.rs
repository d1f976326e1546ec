//! Applications over a simulated network in virtual time, for tests.
//!
//! Programs of nodes are ordinary asynchronous functions that use [`Stack`](crate::Stack), [`Listener`](crate::Listener) and
//! [`Association`](crate::Association) as they do over UDP, and tokio's tasks, channels and timers. A [`Simulation`] runs them over the links
//! of a scenario file (`docs/scenarios.md`), with their rates, delays, queues, losses and schedules. Nothing waits: an hour of simulated time
//! takes as long as its computations do. The same scenario, programs and seed give the same run, to the byte, so that any failure can be
//! repeated with its seed.
//!
//! This module is behind the feature `simulated`:
//!
//! ```toml
//! [dev-dependencies]
//! whimbrel = { path = "...", features = ["simulated"] }
//! ```
//!
//! # Limits
//! tokio's timers have a granularity of 1 ms. Where packets take less than 1 ms from node to node, a timer of a program may expire up to
//! 1 ms early, at the arrival of a packet. Programs of different nodes should talk by the network only: what a program sends over a channel
//! of its process wakes the main program of another node at that node's next event.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use whimbrel::simulated::{Scenario, Simulation};
//! use whimbrel::{Listener, Message, Span, Stack, StackConfig};
//!
//! let scenario = Scenario::from_text(
//!     "two radios",
//!     r#"
//!     duration = "1 min"
//!     node = [{ name = "phone" }, { name = "server" }]
//!     flow = [{ name = "data", from = "phone", to = "server" }]
//!     [[link]]
//!     name = "wifi"
//!     between = ["phone", "server"]
//!     rate = "20 Mbit/s"
//!     delay = "10 ms"
//!     loss = { kind = "bernoulli", rate = 0.01 }
//!     [[link]]
//!     name = "lte"
//!     between = ["phone", "server"]
//!     rate = "8 Mbit/s"
//!     delay = "35 ms"
//!     "#,
//! )?;
//! for seed in 0..10 {
//!     let mut simulation = Simulation::new(&scenario, seed);
//!     let server = simulation.addrs("server", 9899);
//!     simulation.node("server", || async {
//!         // Every address of the node.
//!         let listener = Listener::bind(StackConfig { port: 7, ..StackConfig::local(["0.0.0.0:9899".parse()?]) })?;
//!         loop {
//!             let association = listener.accept().await?;
//!             tokio::spawn(async move {
//!                 while let Ok(Some(message)) = association.recv().await {
//!                     let _ = association.send(Message::new(message.stream, message.data)).await;
//!                 }
//!             });
//!         }
//!     });
//!     simulation.client("phone", move || {
//!         let server = server.clone();
//!         async move {
//!             let stack = Stack::bind(StackConfig::local(["0.0.0.0:0".parse()?]))?;
//!             let association = stack.connect(&server, 7).await?;
//!             for word in ["one", "two"] {
//!                 association.send(Message::new(0, word)).await?;
//!                 assert_eq!(association.recv().await?.ok_or("no answer")?.data, word.as_bytes());
//!                 tokio::time::sleep(Duration::from_secs(1)).await;
//!             }
//!             association.shutdown().await?;
//!             Ok(())
//!         }
//!     });
//!     simulation.cut("wifi", Span::from_millis(500), Span::from_secs(20));
//!     let outcome = simulation.run()?;
//!     assert!(outcome.elapsed > Span::from_secs(2));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What programs may do
//!
//! Every node has a tokio runtime of one thread, whose clock shows simulated time: `tokio::time` works as usual, `std::time` shows the real
//! time and `std::thread::sleep` stops the simulation. Timers of tokio expire on whole milliseconds; packets and the timers of associations
//! are exact to the nanosecond. Sockets of tokio do not exist on a node.
//!
//! [`Stack::bind`](crate::Stack::bind) uses the simulated network if it is called by a program of a node, and needs no other argument. A node
//! has an address at each end of a link, which [`Simulation::addrs`] returns, and those of 127.0.0.0/8.
//!
//! # What would make runs differ
//!
//! - Threads, `spawn_blocking`, the system's clock, files that other programs change.
//! - Random numbers of the system. Take a stream of [`Rng`] with the simulation's seed.
//! - The order of a `HashMap`. Take a `BTreeMap`.
//! - `tokio::select!` polls its branches in random order. Begin it with `biased;`, or build with `RUSTFLAGS="--cfg tokio_unstable"`: tokio
//!   then takes the simulation's seed.
//!
//! [`RunSummary::digest`] shows whether two runs were equal.

mod clock;
mod network;
mod node;
mod run;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

pub use whimbrel_control::Rng;
pub use whimbrel_scenario::ScenarioError;
pub use whimbrel_sim::config::ConfigError;

use whimbrel_control::{Span, Time};
use whimbrel_sim::config::{ScheduleStep, SimConfig};
use whimbrel_sim::{Mesh, Resources, topology};

pub(crate) use self::clock::{Clock, Timer};
pub use self::node::Failure;
use self::node::Program;
pub(crate) use self::node::current;
pub use self::run::{RunSummary, SimulationError};

/// The network of a scenario file, between nodes that run programs. It is read once and serves any number of simulations.
#[derive(Clone, Debug)]
pub struct Scenario {
    mesh: Arc<Mesh>,
    resources: Arc<Resources>,
    duration: Span,
}

/// Why a scenario cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file could not be read, or has mistakes.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The file has a sweep, and so more than one network.
    #[error("the scenario has {0} points; fix the values of its sweep")]
    Sweep(usize),
    /// The network cannot connect programs.
    #[error(transparent)]
    Network(#[from] ConfigError),
    /// The scenario has no such flow.
    #[error("the scenario has no flow \"{0}\"")]
    NoFlow(String),
}

impl Scenario {
    /// Reads a scenario file. Its flows are left to programs; their traffic, the seeds, the sweep and what to record do not apply.
    ///
    /// # Errors
    /// Returns all mistakes in it.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        Self::load_with(path, &[])
    }

    /// As [`load`](Self::load), with changes of the form `field=value`, as `whimbrel run --set` has them.
    ///
    /// # Errors
    /// Returns all mistakes in it.
    pub fn load_with(path: impl AsRef<Path>, changes: &[String]) -> Result<Self, LoadError> {
        Self::new(&whimbrel_scenario::Scenario::load(path.as_ref(), changes)?, &[])
    }

    /// Reads a scenario from text. Errors name it `name`.
    ///
    /// # Errors
    /// Returns all mistakes in it.
    pub fn from_text(name: &str, text: &str) -> Result<Self, LoadError> {
        let scenario = whimbrel_scenario::Scenario::from_text(Path::new(name), text, &[])?;
        Self::new(&scenario, &[])
    }

    /// As [`load`](Self::load); the flows with these names send the traffic of the scenario, beside the programs.
    ///
    /// # Errors
    /// Returns all mistakes in it.
    pub fn load_with_traffic(path: impl AsRef<Path>, flows: &[&str]) -> Result<Self, LoadError> {
        Self::new(&whimbrel_scenario::Scenario::load(path.as_ref(), &[])?, flows)
    }

    fn new(scenario: &whimbrel_scenario::Scenario, simulated: &[&str]) -> Result<Self, LoadError> {
        let [point] = &scenario.points[..] else {
            return Err(LoadError::Sweep(scenario.points.len()));
        };
        let place = |name: &&str| {
            let found = point.config.flow.iter().position(|flow| flow.name == *name);
            found.ok_or_else(|| LoadError::NoFlow((*name).to_owned()))
        };
        let simulated = simulated.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        Ok(Scenario {
            mesh: Arc::new(Mesh::new(&point.config, &simulated)?),
            resources: point.resources.clone(),
            duration: point.config.duration,
        })
    }

    /// Returns the addresses of a node, one for each end of a link, with this UDP port. Empty if there is no such node.
    pub fn addrs(&self, node: &str, port: u16) -> Vec<SocketAddr> {
        let node = self.mesh.nodes.iter().find(|known| known.name == node);
        let addrs = node.into_iter().flat_map(|node| &node.interfaces);
        addrs.map(|i| SocketAddr::new(topology::address(*i), port)).collect()
    }

    /// Returns the address at a node's end of a link or radio.
    pub fn addr_on(&self, node: &str, link: &str) -> Option<IpAddr> {
        let node = self.mesh.nodes.iter().find(|known| known.name == node)?;
        let mut interfaces = node.interfaces.iter();
        let found = interfaces.find(|i| topology::interface_name(&self.mesh.config, **i) == link);
        found.map(|i| topology::address(*i))
    }
}

/// What happens to a node at a given time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Crash,
    Restart,
}

/// The program of a node, as the user gave it.
struct Role {
    make: Box<dyn Fn() -> Program>,
    /// The run ends when all of these have ended.
    is_client: bool,
}

/// A scenario with programs and a seed. [`run`](Self::run) has to be called outside of a tokio runtime, for example in a function with
/// `#[test]`.
pub struct Simulation {
    scenario: Scenario,
    config: SimConfig,
    seed: u64,
    roles: Vec<Option<Role>>,
    faults: Vec<(Time, usize, Fault)>,
    duration: Span,
    /// The first wrong name among the arguments.
    mistake: Option<String>,
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation")
            .field("seed", &self.seed)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

impl Simulation {
    /// Prepares a run of a scenario with a seed: that of all losses and delays, and of all random numbers of stacks.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        Simulation {
            config: scenario.mesh.config.clone(),
            seed,
            roles: scenario.mesh.nodes.iter().map(|_| None).collect(),
            faults: Vec::new(),
            duration: scenario.duration,
            mistake: None,
            scenario: scenario.clone(),
        }
    }

    /// Returns the addresses of a node, one for each end of a link, with this UDP port.
    pub fn addrs(&self, node: &str, port: u16) -> Vec<SocketAddr> {
        self.scenario.addrs(node, port)
    }

    /// Runs a program on a node from the start, and again after each restart. It may run as long as the simulation does. What the program is
    /// to find again after a crash, as on a disk, belongs to the closure.
    pub fn node<P, F>(&mut self, name: &str, program: P)
    where
        P: Fn() -> F + 'static,
        F: Future<Output = Result<(), Failure>> + 'static,
    {
        self.add(name, program, false);
    }

    /// As [`node`](Self::node); the run ends when all programs of this kind have ended.
    pub fn client<P, F>(&mut self, name: &str, program: P)
    where
        P: Fn() -> F + 'static,
        F: Future<Output = Result<(), Failure>> + 'static,
    {
        self.add(name, program, true);
    }

    fn add<P, F>(&mut self, name: &str, program: P, is_client: bool)
    where
        P: Fn() -> F + 'static,
        F: Future<Output = Result<(), Failure>> + 'static,
    {
        let Some(node) = self.find_node(name) else { return };
        let make = move || -> Program { Box::pin(program()) };
        self.roles[node] = Some(Role {
            make: Box::new(make),
            is_client,
        });
    }

    /// Crashes a node: its tasks are dropped where they stand, nothing more is sent, and what arrives is lost.
    pub fn crash(&mut self, node: &str, at: Span) {
        self.fault(node, at, Fault::Crash);
    }

    /// Starts the program of a node again, after a crash or after its end.
    pub fn restart(&mut self, node: &str, at: Span) {
        self.fault(node, at, Fault::Restart);
    }

    fn fault(&mut self, node: &str, at: Span, fault: Fault) {
        if let Some(node) = self.find_node(node) {
            self.faults.push((Time::ZERO + at, node, fault));
        }
    }

    /// Cuts a link from one time to another. Packets that wait in its queues or are on their way are lost.
    pub fn cut(&mut self, link: &str, from: Span, to: Span) {
        self.set_link(link, from, false);
        self.set_link(link, to, true);
    }

    /// Sets a link up or down at a given time, in addition to the scenario's schedule.
    pub fn set_link(&mut self, link: &str, at: Span, up: bool) {
        let mut links = self.config.link.iter_mut();
        let Some(config) = links.find(|known| known.display_name() == link) else {
            self.wrong(format!("the scenario has no link \"{link}\""));
            return;
        };
        let place = config.schedule.partition_point(|step| step.at < at);
        if let Some(step) = config.schedule.get_mut(place).filter(|step| step.at == at) {
            step.up = Some(up);
            return;
        }
        let step = ScheduleStep {
            at,
            up: Some(up),
            rate: None,
            delay: None,
            loss: None,
            forward: None,
            reverse: None,
        };
        config.schedule.insert(place, step);
    }

    /// Sets the simulated time by which all clients must have ended. Default: the duration of the scenario.
    pub fn set_duration(&mut self, duration: Span) {
        self.duration = duration;
    }

    fn find_node(&mut self, name: &str) -> Option<usize> {
        let found = self.scenario.mesh.node(name);
        if found.is_none() {
            self.wrong(format!("the scenario has no node \"{name}\""));
        }
        found
    }

    fn wrong(&mut self, mistake: String) {
        self.mistake.get_or_insert(mistake);
    }
}
