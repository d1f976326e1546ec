//! Runs points x seeds on all cores. Results are returned in the order of points and seeds, independent of which run ends first.

use std::collections::{BTreeMap, VecDeque};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use whimbrel_scenario::{Point, Scenario};
use whimbrel_sim::config::{ConfigError, SimConfig};
use whimbrel_sim::{EndReason, FileCheck, FlowOutcome, NoObserver, RunControl, RunOptions, RunResult, World};

use crate::metric::{Values, queue_utilisation, ran};
use crate::record::{Labels, Recorded, Recorder, Selection};
use crate::stored::Journal;
use crate::text::radio_row;
use crate::timeline::{Lines, Timeline};
use crate::watch::{Watch, Watched};
use crate::write::file::WriteError;

/// Interval of progress reports and checks for interruption.
const TICK: Duration = Duration::from_millis(100);

/// A finished run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its number: point times seeds plus number of the seed.
    pub number: usize,
    /// Index of its point in the scenario.
    pub point: usize,
    /// Its seed.
    pub seed: u64,
    /// Values of all flows together.
    pub values: Values,
    /// Result of each flow, in the order of the scenario.
    pub flows: Vec<FlowRun>,
    /// Result of each direction of a link.
    pub links: Vec<LinkRun>,
    /// Result of each radio: its cells of `radios.csv` after run and seed.
    pub radios: Vec<Vec<String>>,
    /// Wall-clock time in seconds; none for a run that was loaded from a folder of results.
    pub wall_s: Option<f64>,
    /// Packets that reached the end of a link.
    pub packet_hops: u64,
    /// Events processed.
    pub events: u64,
    /// Hash of its sequence of events.
    pub fingerprint: u64,
    /// Lines of a part of the run, if it was sampled.
    pub(crate) lines: Option<Box<Lines>>,
    pub(crate) recorded: Recorded,
}

/// The result of a flow in a run.
#[derive(Clone, Debug)]
pub struct FlowRun {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Values,
    /// Its outcome.
    pub outcome: FlowOutcome,
    /// The file, if it carried one.
    pub file: Option<FileCheck>,
}

impl Run {
    /// Returns its recorded files, by their paths inside the folder of results.
    pub fn recorded_files(&self) -> impl Iterator<Item = &str> {
        self.recorded.files.iter().map(|file| file.path.as_str())
    }
}

impl FlowRun {
    /// Returns why its association failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        match &self.outcome {
            FlowOutcome::Failed(reason) => Some(reason),
            _ => None,
        }
    }
}

/// The result of a direction of a link in a run.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct LinkRun {
    /// The link's name.
    pub name: String,
    /// The node at its start.
    pub from: String,
    /// The node at its end.
    pub to: String,
    /// Packets accepted by the queue.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Fraction of the time in which it was transmitting.
    pub utilisation: f64,
    /// Mean length of the queue over its limit.
    pub queue_utilisation: f64,
    /// Mean number of queued packets.
    pub mean_queue_packets: f64,
    /// Largest number of queued packets.
    pub max_queue_packets: u32,
    /// Packets marked there: with CE, or with an indication of the simulator.
    pub marked: u64,
    /// Packets dropped there, by the names of the causes.
    pub drops: Vec<(String, u64)>,
}

/// Options for running a scenario.
#[derive(Debug)]
pub struct Options<'o> {
    /// Number of concurrent runs, at least one.
    pub jobs: usize,
    /// Folder for recorded files; none: nothing is recorded.
    pub folder: Option<&'o Path>,
    /// Set by another thread to end early.
    pub interrupted: &'o AtomicBool,
    /// Whether runs without recorded files are observed for the metrics of congestion windows.
    pub watch: bool,
    /// Part of the runs that is sampled while they are watched.
    pub timeline: Option<Timeline>,
    /// Whether finished runs are recorded in the folder as they end, in any order, so that a killed sweep can be resumed.
    pub journal: bool,
    /// Finished runs that are not repeated.
    pub earlier: &'o [Run],
    /// Which part of all runs this is.
    pub part: Part,
    /// The numbers of the runs to do, in ascending order; none: all runs of the part.
    pub only: Option<&'o [usize]>,
}

impl<'o> Options<'o> {
    /// Creates options for all runs, one at a time, without recorded files.
    pub fn new(interrupted: &'o AtomicBool) -> Self {
        Options {
            jobs: 1,
            folder: None,
            interrupted,
            watch: false,
            timeline: None,
            journal: false,
            earlier: &[],
            part: Part::ALL,
            only: None,
        }
    }

    fn includes(&self, run: usize) -> bool {
        self.part.includes(run) && self.only.is_none_or(|only| only.binary_search(&run).is_ok())
    }
}

/// A part of a scenario's runs: of `of` parts the one with this `number`, from 1. Runs are distributed in turn, so that parts take
/// about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Part {
    /// Its number, 1 to `of`.
    pub number: usize,
    /// The number of parts.
    pub of: usize,
}

impl Part {
    /// All runs.
    pub const ALL: Part = Part { number: 1, of: 1 };

    /// Returns whether the run with this number belongs to it.
    pub fn includes(self, run: usize) -> bool {
        run % self.of == self.number - 1
    }

    /// Returns the number of runs in this part, of `runs` in total.
    pub fn count(self, runs: usize) -> usize {
        (0..runs).filter(|run| self.includes(*run)).count()
    }
}

impl std::str::FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once('/')
            .and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parsed {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Part { number, of }),
            _ => Err("a part is written NUMBER/PARTS, for example 2/4".to_owned()),
        }
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// Why runs failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A problem of the scenario that only the simulator detects.
    #[error("{}: {} given, allowed is {}{}", .0.path, .0.value, .0.allowed, hint(.0))]
    Scenario(ConfigError),
    /// An error in writing the results.
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

/// The result of [`run`].
#[derive(Debug)]
pub struct Outcome {
    /// Whether it was interrupted before all runs were done.
    pub interrupted: bool,
    /// The error that ended it early.
    pub error: Option<RunError>,
}

/// Receives the progress of runs.
pub trait Progress {
    /// Handles progress: `fraction` of all simulated time, and `done` of `total` runs.
    fn update(&mut self, fraction: f64, done: usize, total: usize);
}

/// A run to do.
struct Job<'s> {
    number: usize,
    point: &'s Point,
    point_number: usize,
    seed_number: u32,
}

/// Runs every point with every seed. Finished runs are passed to `finished` in their order; after an interruption or an error, the
/// runs that were complete are still passed.
pub fn run(
    scenario: &Scenario,
    options: &Options<'_>,
    progress: &mut dyn Progress,
    finished: &mut dyn FnMut(Run) -> Result<(), RunError>,
) -> Outcome {
    let mut jobs: Vec<_> = scenario
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
        .filter(|job| options.includes(job.number))
        .collect();
    let mut collect = Collect::new(&jobs, options.earlier);
    jobs.retain(|job| !collect.early.contains_key(&job.number));
    let mut outcome = Outcome {
        interrupted: false,
        error: None,
    };
    let mut journal = match options
        .folder
        .filter(|_| options.journal)
        .map(Journal::open)
        .transpose()
    {
        Ok(journal) => journal,
        Err(error) => {
            outcome.error = Some(error.into());
            return outcome;
        }
    };
    let all = collect.order.len();
    if let Err(error) = collect.hand_over(finished) {
        outcome.error = Some(error);
        return outcome;
    }
    let workers = options.jobs.clamp(1, jobs.len().max(1));
    let plan = Plan {
        scenario,
        folder: options.folder.map(Path::to_owned),
        watch: options.watch,
        timeline: options.timeline,
        jobs: &jobs,
    };
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let active: Vec<Mutex<Option<Active>>> = (0..workers).map(|_| Mutex::new(None)).collect();
    let (sender, receiver) = mpsc::channel::<Result<Box<Run>, RunError>>();
    std::thread::scope(|scope| {
        let threads: Vec<_> = active
            .iter()
            .map(|slot| {
                let (sender, plan, next, stop) = (sender.clone(), &plan, &next, &stop);
                scope.spawn(move || plan.work(next, stop, slot, &sender))
            })
            .collect();
        drop(sender);
        loop {
            match receiver.recv_timeout(TICK) {
                Ok(Ok(run)) => {
                    let noted = journal.as_mut().map_or(Ok(()), |journal| journal.add(&run));
                    let taken = noted
                        .map_err(RunError::from)
                        .and_then(|()| collect.take(*run, finished));
                    if let Err(error) = taken {
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
            progress.update((collect.done as f64 + running) / all as f64, collect.done, all);
        }
        // Runs after one that did not end.
        for run in std::mem::take(&mut collect.early).into_values() {
            if let Err(error) = finished(run) {
                outcome.error.get_or_insert(error);
            }
        }
        outcome.interrupted &= collect.done < all;
        for thread in threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
    });
    outcome
}

/// Puts runs in order.
struct Collect {
    /// Runs that ended before an earlier one.
    early: BTreeMap<usize, Run>,
    /// Numbers of the runs that are still expected.
    order: VecDeque<usize>,
    done: usize,
}

impl Collect {
    fn new(jobs: &[Job<'_>], earlier: &[Run]) -> Self {
        let order: VecDeque<usize> = jobs.iter().map(|job| job.number).collect();
        let known = earlier.iter().filter(|run| order.binary_search(&run.number).is_ok());
        let early: BTreeMap<_, _> = known.map(|run| (run.number, run.clone())).collect();
        Collect {
            done: early.len(),
            early,
            order,
        }
    }

    fn take(&mut self, run: Run, finished: &mut dyn FnMut(Run) -> Result<(), RunError>) -> Result<(), RunError> {
        self.done += 1;
        self.early.insert(run.number, run);
        self.hand_over(finished)
    }

    fn hand_over(&mut self, finished: &mut dyn FnMut(Run) -> Result<(), RunError>) -> Result<(), RunError> {
        while let Some(run) = self.order.front().and_then(|next| self.early.remove(next)) {
            self.order.pop_front();
            finished(run)?;
        }
        Ok(())
    }
}

/// A run in progress.
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

/// Data shared by all threads.
struct Plan<'s> {
    scenario: &'s Scenario,
    folder: Option<PathBuf>,
    watch: bool,
    timeline: Option<Timeline>,
    jobs: &'s [Job<'s>],
}

impl Plan<'_> {
    /// Executes runs until there are none left.
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
                // A cancelled run did not measure what its scenario describes.
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
        let selection = Selection::of(&self.scenario.record, job.point_number, job.seed_number);
        let began = Instant::now();
        let world = World::new(config, seed, &job.point.resources, RunOptions::default())?;
        let mut watched = None;
        let (result, recorded) = match self.folder.as_deref().filter(|_| selection.any()) {
            Some(folder) => {
                let prefix = self.prefix(job.point_number, seed);
                let control_of_recorder = Arc::clone(control);
                let labels = Labels {
                    run: job.number,
                    params: &job.point.params,
                };
                let mut recorder = Recorder::new(folder, &prefix, &labels, config, selection, control_of_recorder)?;
                let result = world.run_with(&mut recorder, control);
                (result, recorder.finish()?)
            }
            None if self.watch => {
                let mut watch = Watch::new(config, self.timeline);
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
        let place = Placed {
            number: job.number,
            point: job.point_number,
            config,
        };
        Ok(Some(place.run(&result, watched, wall_s, recorded)))
    }

    /// Returns the path of a run's own files inside the folder: the top if only one run has any, otherwise a folder named after the
    /// values of its axes and its seed.
    fn prefix(&self, point: usize, seed: u64) -> String {
        let scenario = self.scenario;
        let points = 0..scenario.points.len();
        let recording = points.flat_map(|point| (0..scenario.seeds).map(move |number| (point, number)));
        let recording = recording.filter(|&(point, number)| Selection::of(&scenario.record, point, number).any());
        if recording.take(2).count() < 2 {
            return String::new();
        }
        let name = point_name(&scenario.points[point]);
        let same = scenario.points.iter().filter(|other| point_name(other) == name).count();
        match (name.is_empty(), same) {
            (true, _) => format!("runs/seed-{seed}/"),
            (false, 1) => format!("runs/{name}/seed-{seed}/"),
            (false, _) => format!("runs/{name}-point-{point}/seed-{seed}/"),
        }
    }
}

/// The place of a run in its scenario.
pub(crate) struct Placed<'c> {
    pub(crate) number: usize,
    pub(crate) point: usize,
    pub(crate) config: &'c SimConfig,
}

impl Placed<'_> {
    /// Returns the run with this result.
    pub(crate) fn run(&self, result: &RunResult, watched: Option<Watched>, wall_s: f64, recorded: Recorded) -> Run {
        let config = self.config;
        let flows = result.flows.iter().enumerate().map(|(place, flow)| FlowRun {
            name: flow.name.clone(),
            values: Values::of_flow(
                flow,
                config.flow.get(place).is_some_and(|flow| ran(flow.start, result)),
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
            drops: link
                .drops
                .iter()
                .map(|(cause, count)| (cause.name().to_owned(), count))
                .collect(),
        });
        Run {
            number: self.number,
            point: self.point,
            seed: result.seed,
            values: Values::of_run(result, config, watched.as_ref()),
            flows: flows.collect(),
            links: links.collect(),
            radios: result.radios.iter().map(radio_row).collect(),
            wall_s: Some(wall_s),
            packet_hops: result.packet_hops,
            events: result.events,
            fingerprint: result.fingerprint,
            lines: watched.and_then(|watched| watched.lines),
            recorded,
        }
    }
}

/// Returns the values of a point's axes as the name of a folder: `loss.rate=0.05,scheme=cubic`.
fn point_name(point: &Point) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._=+-".contains(c) {
            c
        } else {
            '_'
        }
    };
    let values: Vec<String> = point
        .params
        .iter()
        .map(|(axis, value)| {
            let text = format!("{}={}", crate::report::short(axis), crate::text::text(value));
            text.chars().take(60).map(plain).collect()
        })
        .collect();
    let mut name = values.join(",");
    name.truncate(180);
    name
}
