//! Points x seeds on all cores. Results come out in the order of points and seeds, whichever run ends first.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use whimbrel_scenario::{Point, Scenario};
use whimbrel_sim::config::ConfigError;
use whimbrel_sim::{EndReason, FileCheck, FlowOutcome, NoObserver, RadioResult, RunControl, RunOptions, World};

use crate::metric::{Values, queue_utilisation, ran};
use crate::record::{Recorded, Recorder, Selection};
use crate::watch::Watch;
use crate::write::file::WriteError;

/// How often progress is told and interruption looked for.
const TICK: Duration = Duration::from_millis(100);

/// A finished run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its number: point times seeds plus number of the seed.
    pub number: usize,
    /// The place of its point in the scenario.
    pub point: usize,
    /// Its seed.
    pub seed: u64,
    /// What all flows achieved together.
    pub values: Values,
    /// What each flow achieved, in the order of the scenario.
    pub flows: Vec<FlowRun>,
    /// What each direction of a link carried.
    pub links: Vec<LinkRun>,
    /// What each radio did.
    pub radios: Vec<RadioResult>,
    /// Wall-clock time it took, in seconds.
    pub wall_s: f64,
    /// Packets that reached the end of a link.
    pub packet_hops: u64,
    /// Events processed.
    pub events: u64,
    /// Hash of its sequence of events.
    pub fingerprint: u64,
    pub(crate) recorded: Recorded,
}

/// What a flow achieved in a run.
#[derive(Clone, Debug)]
pub struct FlowRun {
    /// Its name.
    pub name: String,
    /// Its figures.
    pub values: Values,
    /// How far it came.
    pub outcome: FlowOutcome,
    /// The file, if it carried one.
    pub file: Option<FileCheck>,
}

impl FlowRun {
    /// Why its association failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        match &self.outcome {
            FlowOutcome::Failed(reason) => Some(reason),
            _ => None,
        }
    }
}

/// What a direction of a link carried in a run.
#[derive(Clone, Debug)]
pub struct LinkRun {
    /// The link's name.
    pub name: String,
    /// The node it begins at.
    pub from: String,
    /// The node it ends at.
    pub to: String,
    /// Packets taken into the queue.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Share of the time in which it was transmitting.
    pub utilisation: f64,
    /// Mean length of the queue over its limit.
    pub queue_utilisation: f64,
    /// Mean number of packets that waited.
    pub mean_queue_packets: f64,
    /// Most packets that waited.
    pub max_queue_packets: u32,
    /// Packets that got a mark there: CE, or an indication of the simulator's own.
    pub marked: u64,
    /// Packets that died there, with the names of the causes.
    pub drops: Vec<(&'static str, u64)>,
}

/// How a scenario is to be run.
#[derive(Debug)]
pub struct Options<'o> {
    /// Runs at the same time, at least one.
    pub jobs: usize,
    /// Where recorded files go; nowhere if there is none.
    pub folder: Option<&'o Path>,
    /// Set from outside to end early.
    pub interrupted: &'o AtomicBool,
    /// Whether runs that record nothing are watched for the figures of congestion windows.
    pub watch: bool,
}

/// Why runs failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Something that only the simulator finds wrong with the scenario.
    #[error("{}: {} given, allowed is {}{}", .0.path, .0.value, .0.allowed, hint(.0))]
    Scenario(ConfigError),
    /// A file of the results.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl From<ConfigError> for RunError {
    fn from(error: ConfigError) -> Self {
        RunError::Scenario(error)
    }
}

fn hint(error: &ConfigError) -> String {
    error
        .hint
        .as_ref()
        .map_or_else(String::new, |hint| format!("\n  hint: {hint}"))
}

/// What a call of [`run`] achieved.
#[derive(Debug)]
pub struct Outcome {
    /// Whether it was interrupted before all runs were done.
    pub interrupted: bool,
    /// The error that ended it early.
    pub error: Option<RunError>,
}

/// Told how far the runs are.
pub trait Progress {
    /// `fraction` of all simulated time is done, and `done` of `total` runs.
    fn update(&mut self, fraction: f64, done: usize, total: usize);
}

/// One run to do.
struct Job<'s> {
    number: usize,
    point: &'s Point,
    point_number: usize,
    seed_number: u32,
}

/// Runs every point with every seed. Finished runs are handed to `finished` in their order; after an interruption or an error,
/// those that were done are still handed over.
pub fn run(
    scenario: &Scenario,
    options: &Options<'_>,
    progress: &mut dyn Progress,
    finished: &mut dyn FnMut(Run) -> Result<(), RunError>,
) -> Outcome {
    let jobs: Vec<_> = scenario
        .points
        .iter()
        .enumerate()
        .flat_map(|(point_number, point)| {
            (0..scenario.seeds).map(move |seed_number| (point_number, point, seed_number))
        })
        .enumerate()
        .map(|(number, (point_number, point, seed_number))| Job {
            number,
            point,
            point_number,
            seed_number,
        })
        .collect();
    let workers = options.jobs.clamp(1, jobs.len().max(1));
    let plan = Plan {
        scenario,
        folder: options.folder.map(Path::to_owned),
        watch: options.watch,
        jobs: &jobs,
    };
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let active: Vec<Mutex<Option<Active>>> = (0..workers).map(|_| Mutex::new(None)).collect();
    let (sender, receiver) = mpsc::channel();
    let mut outcome = Outcome {
        interrupted: false,
        error: None,
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = active
            .iter()
            .map(|slot| {
                let (sender, plan, next, stop) = (sender.clone(), &plan, &next, &stop);
                scope.spawn(move || plan.work(next, stop, slot, &sender))
            })
            .collect();
        drop(sender);
        let mut collect = Collect {
            early: BTreeMap::new(),
            next: 0,
            done: 0,
        };
        loop {
            match receiver.recv_timeout(TICK) {
                Ok(Ok(run)) => {
                    if let Err(error) = collect.take(*run, finished) {
                        outcome.error.get_or_insert(error);
                    }
                }
                Ok(Err(error)) => {
                    outcome.error.get_or_insert(error);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            outcome.interrupted |= options.interrupted.load(Ordering::Relaxed);
            if outcome.interrupted || outcome.error.is_some() {
                stop.store(true, Ordering::Relaxed);
                active.iter().for_each(Active::cancel);
            }
            let running: f64 = active.iter().map(Active::fraction).sum();
            progress.update(
                (collect.done as f64 + running) / jobs.len() as f64,
                collect.done,
                jobs.len(),
            );
        }
        // Runs that overtook one that never ended.
        for run in std::mem::take(&mut collect.early).into_values() {
            if let Err(error) = finished(run) {
                outcome.error.get_or_insert(error);
            }
        }
        outcome.interrupted &= collect.done < jobs.len();
        for thread in threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
    });
    outcome
}

/// Puts runs into their order.
struct Collect {
    early: BTreeMap<usize, Run>,
    next: usize,
    done: usize,
}

impl Collect {
    fn take(&mut self, run: Run, finished: &mut dyn FnMut(Run) -> Result<(), RunError>) -> Result<(), RunError> {
        self.done += 1;
        self.early.insert(run.number, run);
        while let Some(run) = self.early.remove(&self.next) {
            self.next += 1;
            finished(run)?;
        }
        Ok(())
    }
}

/// A run that a thread is busy with.
struct Active {
    control: Arc<RunControl>,
    duration: f64,
}

impl Active {
    fn cancel(slot: &Mutex<Option<Active>>) {
        if let Some(active) = &*slot.lock().unwrap_or_else(PoisonError::into_inner) {
            active.control.cancel();
        }
    }

    fn fraction(slot: &Mutex<Option<Active>>) -> f64 {
        match &*slot.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(active) => (active.control.reached().as_secs_f64() / active.duration).clamp(0.0, 1.0),
            None => 0.0,
        }
    }
}

/// What all threads need to know.
struct Plan<'s> {
    scenario: &'s Scenario,
    folder: Option<PathBuf>,
    watch: bool,
    jobs: &'s [Job<'s>],
}

impl Plan<'_> {
    /// Takes one run after the other until there are none left.
    fn work(
        &self,
        next: &AtomicUsize,
        stop: &AtomicBool,
        slot: &Mutex<Option<Active>>,
        results: &mpsc::Sender<Result<Box<Run>, RunError>>,
    ) {
        while let Some(job) = self.jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let control = Arc::new(RunControl::new());
            let duration = job.point.config.duration.as_secs_f64();
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Active {
                control: Arc::clone(&control),
                duration,
            });
            let result = self.simulate(job, &control);
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
            let sent = match result {
                // A cancelled run measured something else than its scenario says.
                Ok(None) => Ok(()),
                Ok(Some(run)) => results.send(Ok(Box::new(run))),
                Err(error) => results.send(Err(error)),
            };
            if sent.is_err() {
                return;
            }
        }
    }

    fn simulate(&self, job: &Job<'_>, control: &Arc<RunControl>) -> Result<Option<Run>, RunError> {
        let seed = self.scenario.seed + u64::from(job.seed_number);
        let config = &job.point.config;
        let selection = Selection::of(&self.scenario.record, job.seed_number);
        let began = Instant::now();
        let world = World::new(config, seed, &job.point.resources, RunOptions::default())?;
        let mut watched = None;
        let (result, recorded) = match self.folder.as_deref().filter(|_| selection.any()) {
            Some(folder) => {
                let prefix = self.prefix(job.point_number, seed);
                let control_of_recorder = Arc::clone(control);
                let mut recorder = Recorder::new(folder, &prefix, job.number, config, selection, control_of_recorder)?;
                let result = world.run_with(&mut recorder, control);
                (result, recorder.finish()?)
            }
            None if self.watch => {
                let mut watch = Watch::new(config);
                let result = world.run_with(&mut watch, control);
                watched = Some(watch.finish(result.ended_at));
                (result, Recorded::default())
            }
            None => (world.run_with(&mut NoObserver, control), Recorded::default()),
        };
        let wall_s = began.elapsed().as_secs_f64();
        if result.end == EndReason::Cancelled {
            return Ok(None);
        }
        let flows = result.flows.iter().enumerate().map(|(place, flow)| FlowRun {
            name: flow.name.clone(),
            values: Values::of_flow(
                flow,
                config.flow.get(place).is_some_and(|flow| ran(flow.start, &result)),
                watched.as_ref().and_then(|watched| watched.flows.get(place)),
            ),
            outcome: flow.outcome.clone(),
            file: flow.file,
        });
        let links = result.links.iter().enumerate().map(|(direction, link)| LinkRun {
            name: link.name.clone(),
            from: link.from.clone(),
            to: link.to.clone(),
            packets: link.packets,
            bytes: link.bytes,
            utilisation: link.utilisation,
            queue_utilisation: queue_utilisation(link, config, direction),
            mean_queue_packets: link.mean_queue_packets,
            max_queue_packets: link.max_queue_packets,
            marked: link.marked,
            drops: link.drops.iter().map(|(cause, count)| (cause.name(), count)).collect(),
        });
        Ok(Some(Run {
            number: job.number,
            point: job.point_number,
            seed,
            values: Values::of_run(&result, config, watched.as_ref().map(|watched| &watched.reports)),
            flows: flows.collect(),
            links: links.collect(),
            radios: result.radios,
            wall_s,
            packet_hops: result.packet_hops,
            events: result.events,
            fingerprint: result.fingerprint,
            recorded,
        }))
    }

    /// Where a run's own files lie inside the folder: at its top if only one run leaves any.
    fn prefix(&self, point: usize, seed: u64) -> String {
        let scenario = self.scenario;
        let recording = (0..scenario.seeds)
            .filter(|&number| Selection::of(&scenario.record, number).any())
            .count();
        match recording * scenario.points.len() {
            0 | 1 => String::new(),
            _ => format!("runs/point-{point}-seed-{seed}/"),
        }
    }
}
