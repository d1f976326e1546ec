//! Runs points x seeds on all cores. Results are returned in the order of points and seeds, independent of which run ends first.

use std::collections::{BTreeMap, VecDeque};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use whimbrel_scenario::{Point, Scenario, visible};
use whimbrel_sim::config::ConfigError;
use whimbrel_sim::{EndReason, NoObserver, RunControl, RunOptions, World};

use crate::record::{Labels, Recorded, Recorder, Selection};
use crate::run::{Placed, Run};
use crate::stored::Journal;
use crate::timeline::Timeline;
use crate::watch::Watch;
use crate::write::file::WriteError;

/// Interval of progress reports and checks for interruption.
const TICK: Duration = Duration::from_millis(100);

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

    /// Opens the journal, if one is kept.
    fn journal(&self) -> Result<Option<Journal>, RunError> {
        let folder = self.folder.filter(|_| self.journal);
        Ok(folder.map(Journal::open).transpose()?)
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
    #[error("{}{}", visible(&format!("{}: {} given, allowed is {}", .0.path, .0.value, .0.allowed)), hint(.0))]
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
        .map_or_else(String::new, |hint| format!("\n  hint: {}", visible(hint)))
}

/// The result of [`run`].
#[derive(Debug)]
pub struct RunEnd {
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
) -> RunEnd {
    let mut jobs = jobs_of(scenario, options);
    let mut collect = Collect::new(&jobs, options.earlier, finished);
    jobs.retain(|job| !collect.early.contains_key(&job.number));
    let journal = options.journal().and_then(|journal| {
        collect.hand_over()?;
        Ok(journal)
    });
    let journal = match journal {
        Ok(journal) => journal,
        Err(error) => {
            return RunEnd {
                interrupted: false,
                error: Some(error),
            };
        }
    };
    let workers = options.jobs.clamp(1, jobs.len().max(1));
    let plan = Plan {
        scenario,
        folder: options.folder.map(Path::to_owned),
        watch: options.watch,
        timeline: options.timeline,
        jobs: &jobs,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        active: (0..workers).map(|_| Mutex::new(None)).collect(),
    };
    let mut supervisor = Supervisor {
        plan: &plan,
        collect,
        journal,
        outcome: RunEnd {
            interrupted: false,
            error: None,
        },
    };
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        let threads: Vec<_> = plan
            .active
            .iter()
            .map(|slot| {
                let (sender, plan) = (sender.clone(), &plan);
                scope.spawn(move || plan.work(slot, &sender))
            })
            .collect();
        drop(sender);
        supervisor.follow(&results, options.interrupted, progress);
        supervisor.finish();
        for thread in threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
    });
    supervisor.outcome
}

/// Returns the runs of the requested part: all points, each with all seeds.
fn jobs_of<'s>(scenario: &'s Scenario, options: &Options<'_>) -> Vec<Job<'s>> {
    let points = scenario.points.iter().enumerate();
    points
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
        .collect()
}

/// What a worker sends when a run has ended.
type Ended = Result<Box<Run>, RunError>;

/// Follows the workers: takes their runs, reports progress, and stops them after an interruption or an error.
struct Supervisor<'r> {
    plan: &'r Plan<'r>,
    collect: Collect<'r>,
    journal: Option<Journal>,
    outcome: RunEnd,
}

impl Supervisor<'_> {
    /// Takes runs until the last worker has ended.
    fn follow(&mut self, results: &mpsc::Receiver<Ended>, interrupted: &AtomicBool, progress: &mut dyn Progress) {
        loop {
            match results.recv_timeout(TICK) {
                Ok(result) => {
                    let taken = result.and_then(|run| self.take(*run));
                    self.note(taken);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            self.outcome.interrupted |= interrupted.load(Ordering::Relaxed);
            if self.outcome.interrupted || self.outcome.error.is_some() {
                self.plan.cancel();
            }
            let Collect { done, all, .. } = self.collect;
            progress.update((done as f64 + self.plan.running()) / all as f64, done, all);
        }
    }

    fn take(&mut self, run: Run) -> Result<(), RunError> {
        if let Some(journal) = &mut self.journal {
            journal.add(&run)?;
        }
        self.collect.take(run)
    }

    /// Passes on the runs after one that did not end.
    fn finish(&mut self) {
        for run in std::mem::take(&mut self.collect.early).into_values() {
            let passed = (self.collect.finished)(run);
            self.note(passed);
        }
        self.outcome.interrupted &= self.collect.done < self.collect.all;
    }

    /// Keeps the first error.
    fn note(&mut self, result: Result<(), RunError>) {
        if let Err(error) = result {
            self.outcome.error.get_or_insert(error);
        }
    }
}

/// Puts runs in order.
struct Collect<'f> {
    /// Runs that ended before an earlier one.
    early: BTreeMap<usize, Run>,
    /// Numbers of the runs that are still expected.
    order: VecDeque<usize>,
    done: usize,
    all: usize,
    /// Receives them.
    finished: &'f mut dyn FnMut(Run) -> Result<(), RunError>,
}

impl<'f> Collect<'f> {
    fn new(jobs: &[Job<'_>], earlier: &[Run], finished: &'f mut dyn FnMut(Run) -> Result<(), RunError>) -> Self {
        let order: VecDeque<usize> = jobs.iter().map(|job| job.number).collect();
        let known = earlier.iter().filter(|run| order.binary_search(&run.number).is_ok());
        let early: BTreeMap<_, _> = known.map(|run| (run.number, run.clone())).collect();
        Collect {
            done: early.len(),
            all: order.len(),
            early,
            order,
            finished,
        }
    }

    fn take(&mut self, run: Run) -> Result<(), RunError> {
        self.done += 1;
        self.early.insert(run.number, run);
        self.hand_over()
    }

    fn hand_over(&mut self) -> Result<(), RunError> {
        while let Some(run) = self.order.front().and_then(|next| self.early.remove(next)) {
            self.order.pop_front();
            (self.finished)(run)?;
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
    /// Index of the job that is begun next.
    next: AtomicUsize,
    /// Whether no more jobs are begun.
    stop: AtomicBool,
    /// The run of each worker.
    active: Vec<Mutex<Option<Active>>>,
}

impl Plan<'_> {
    /// Ends the workers early.
    fn cancel(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.active.iter().for_each(Active::cancel);
    }

    /// Returns the sum of the fractions of simulated time that the current runs have reached.
    fn running(&self) -> f64 {
        self.active.iter().map(Active::fraction).sum()
    }

    /// Executes runs until there are none left.
    fn work(&self, slot: &Mutex<Option<Active>>, results: &mpsc::Sender<Ended>) {
        while let Some(job) = self.jobs.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if self.stop.load(Ordering::Relaxed) {
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

/// Returns the values of a point's axes as the name of a folder: `loss.rate=0.05,scheme=cubic`.
fn point_name(point: &Point) -> String {
    let values: Vec<String> = point
        .params
        .iter()
        .map(|(axis, value)| {
            let text = format!("{}={}", crate::report::short(axis), crate::text::text(value));
            crate::text::file_name(&text)
        })
        .collect();
    let mut name = values.join(",");
    name.truncate(180);
    name
}
