//! The main loop of a simulation.

use std::sync::Arc;

use whimbrel_control::{Span, Time};
use whimbrel_sim::OpenWorld;

use super::network::{Network, Shared};
use super::node::{Failure, Node};
use super::{Fault, Simulation};

/// How far a node may look ahead of the others at least. Timers of tokio have this granularity.
const LEAST_LOOK: Span = Span::from_millis(1);

/// What a run has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunSummary {
    /// The simulated time at its end.
    pub elapsed: Span,
    /// Datagrams that the nodes sent.
    pub datagrams: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// A hash over the time, addresses and bytes of each datagram. Equal runs have the same.
    pub digest: u64,
}

/// Why a run has failed. The text names the seed that repeats it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// A program has returned an error.
    #[error("seed {seed}: node {node} failed at {:.3} s: {error}", .at.as_secs_f64())]
    Program {
        /// The seed of the run.
        seed: u64,
        /// The node.
        node: String,
        /// The simulated time.
        at: Span,
        /// What the program returned.
        error: Failure,
    },
    /// Clients had not ended in time.
    #[error("seed {seed}: {nodes} had not ended after {:.3} s", .at.as_secs_f64())]
    Unfinished {
        /// The seed of the run.
        seed: u64,
        /// Their nodes.
        nodes: String,
        /// The simulated time.
        at: Span,
    },
    /// A node or link that the scenario lacks, or a simulation without a client.
    #[error("{0}")]
    Invalid(String),
    /// The network could not be built, for example because of a step that a link's schedule does not allow.
    #[error(transparent)]
    Network(#[from] super::ConfigError),
    /// The system refused a runtime.
    #[error("cannot start a runtime: {0}")]
    Runtime(#[from] std::io::Error),
}

impl Simulation {
    /// Runs until every client has ended.
    ///
    /// # Errors
    /// Returns an error if a program fails, if a client has not ended in time, or if a node or link does not exist. A panic of a program's
    /// own future is passed on; one of a task that the program has spawned is reported to who joins it, as tokio does.
    ///
    /// # Panics
    /// Panics if it is called within a tokio runtime.
    pub fn run(self) -> Result<RunSummary, SimulationError> {
        let mut run = Run::new(self)?;
        let end = Time::ZERO + run.simulation.duration;
        while let Some(now) = run.next_time().filter(|now| *now <= end) {
            run.shared.set_now(now);
            run.shared.lock().advance(now);
            run.apply_faults(now)?;
            run.run_nodes(now)?;
            if run.waiting.iter().all(|waiting| !waiting) {
                return Ok(run.outcome());
            }
        }
        Err(run.unfinished(end))
    }
}

struct Run {
    simulation: Simulation,
    shared: Arc<Shared>,
    nodes: Vec<Option<Node>>,
    /// How often each node has been started.
    starts: Vec<u32>,
    /// Whether the node runs a client that has not ended.
    waiting: Vec<bool>,
    next_fault: usize,
    /// No packet takes less time from one node to another.
    look: Span,
}

impl Run {
    fn new(mut simulation: Simulation) -> Result<Self, SimulationError> {
        if let Some(mistake) = simulation.mistake.take() {
            return Err(SimulationError::Invalid(mistake));
        }
        let is_client = |role: &Option<super::Role>| role.as_ref().is_some_and(|role| role.is_client);
        let waiting: Vec<bool> = simulation.roles.iter().map(is_client).collect();
        if !waiting.contains(&true) {
            return Err(SimulationError::Invalid("the simulation has no client".to_owned()));
        }
        simulation.faults.sort_by_key(|(at, _, _)| *at);
        let (config, mesh) = (&simulation.config, &simulation.scenario.mesh);
        let resources = &simulation.scenario.resources;
        let world = OpenWorld::new(config, simulation.seed, resources, &mesh.outside())?;
        let mut run = Run {
            shared: Shared::new(Network::new(mesh.clone(), world)),
            nodes: mesh.nodes.iter().map(|_| None).collect(),
            starts: vec![0; mesh.nodes.len()],
            waiting,
            next_fault: 0,
            look: mesh.least_delay.max(LEAST_LOOK),
            simulation,
        };
        for node in 0..run.nodes.len() {
            run.start(node)?;
        }
        Ok(run)
    }

    fn start(&mut self, node: usize) -> Result<(), SimulationError> {
        let Some(role) = &self.simulation.roles[node] else {
            return Ok(());
        };
        // An old incarnation ends before the new one has its sockets.
        self.nodes[node] = None;
        self.starts[node] += 1;
        let config = &self.simulation.scenario.mesh.config.node[node];
        let (start, seed) = (self.starts[node], self.simulation.seed);
        self.nodes[node] = Some(Node::start(&self.shared, node, config, start, seed, &*role.make)?);
        self.waiting[node] = role.is_client;
        Ok(())
    }

    /// Returns the time of the next event of the network, of a driver, of a program or of the schedule of faults.
    fn next_time(&mut self) -> Option<Time> {
        let mut next = self.shared.lock().next_event();
        if let Some((at, ..)) = self.simulation.faults.get(self.next_fault) {
            next = Some(next.map_or(*at, |next| next.min(*at)));
        }
        let now = self.shared.now();
        if self.nodes.iter().flatten().any(Node::is_woken_from_outside) {
            return Some(now);
        }
        // Programs cannot be asked for their next timer: those that have got least far look ahead, until one of them finds something to do
        // or all of them know that nothing happens before the next event.
        loop {
            let clocks = self.nodes.iter().enumerate();
            let clocks = clocks.filter_map(|(n, node)| Some((node.as_ref()?, n)));
            let Some((first, n)) = clocks.min_by_key(|(node, n)| (node.clock(), !node.is_pending(), *n)) else {
                return next;
            };
            let (clock, is_pending) = (first.clock(), first.is_pending());
            if next.is_some_and(|next| next <= clock) {
                return next;
            }
            if is_pending {
                return Some(clock.max(now));
            }
            let end = Time::ZERO + self.simulation.duration + LEAST_LOOK;
            if clock >= end {
                return next;
            }
            let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != n);
            let others = others.filter_map(|(_, node)| node.as_ref().map(Node::clock)).min();
            let limit = others.map_or(end, |others| others + self.look);
            let limit = next.map_or(limit, |next| limit.min(next)).min(end);
            if let Some(node) = &mut self.nodes[n] {
                node.look_ahead(limit);
            }
        }
    }

    fn apply_faults(&mut self, now: Time) -> Result<(), SimulationError> {
        while let Some((at, node, fault)) = self.simulation.faults.get(self.next_fault).copied() {
            if at > now {
                break;
            }
            self.next_fault += 1;
            match fault {
                Fault::Crash => self.nodes[node] = None,
                Fault::Restart => self.start(node)?,
            }
        }
        Ok(())
    }

    fn run_nodes(&mut self, now: Time) -> Result<(), SimulationError> {
        for n in 0..self.nodes.len() {
            let is_woken = self.shared.lock().take_woken(n);
            let Some(node) = &mut self.nodes[n] else { continue };
            let is_due = node.is_pending() && node.clock() <= now;
            if !is_woken && !is_due && !node.is_woken_from_outside() {
                continue;
            }
            match node.run(now) {
                None => {}
                Some(Ok(())) => self.waiting[n] = false,
                Some(Err(error)) => {
                    return Err(SimulationError::Program {
                        seed: self.simulation.seed,
                        node: self.simulation.scenario.mesh.nodes[n].name.clone(),
                        at: now.since(Time::ZERO),
                        error,
                    });
                }
            }
        }
        Ok(())
    }

    fn outcome(&self) -> RunSummary {
        let traffic = self.shared.lock().traffic;
        RunSummary {
            elapsed: self.shared.now().since(Time::ZERO),
            datagrams: traffic.datagrams,
            bytes: traffic.bytes,
            digest: traffic.digest,
        }
    }

    fn unfinished(&self, end: Time) -> SimulationError {
        let nodes = self.simulation.scenario.mesh.nodes.iter().zip(&self.waiting);
        let names: Vec<_> = nodes
            .filter(|(_, waiting)| **waiting)
            .map(|(node, _)| &node.name[..])
            .collect();
        SimulationError::Unfinished {
            seed: self.simulation.seed,
            nodes: names.join(", "),
            at: end.since(Time::ZERO),
        }
    }
}
