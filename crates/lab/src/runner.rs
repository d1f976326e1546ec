//! Points x seeds on all cores. Results come out in the order of points and seeds, whichever run ends first.

use std::collections::{BTreeMap, VecDeque};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use whimbrel_scenario::{Point, Scenario};
use whimbrel_sim::config::ConfigError;
use whimbrel_sim::{EndReason, FileCheck, FlowOutcome, NoObserver, RunControl, RunOptions, World};

use crate::metric::{Values, queue_utilisation, ran};
use crate::output::radio_row;
use crate::record::{Labels, Recorded, Recorder, Selection};
use crate::stored::Journal;
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
    /// What each radio did: its cells of `radios.csv` behind run and seed.
    pub radios: Vec<Vec<String>>,
    /// Wall-clock time it took, in seconds; none of a run that was read from a folder of results.
    pub wall_s: Option<f64>,
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

impl Run {
    /// Files that it recorded, by their paths inside the folder of results.
    pub fn recorded_files(&self) -> impl Iterator<Item = &str> {
        self.recorded.files.iter().map(|file| file.path.as_str())
    }
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
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
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
    pub drops: Vec<(String, u64)>,
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
    /// Whether finished runs are noted in the folder as they end, in whatever order, so that a killed sweep can go on.
    pub journal: bool,
    /// Runs that are there already and are not run again.
    pub earlier: &'o [Run],
    /// Which part of all runs this is.
    pub part: Part,
}

impl<'o> Options<'o> {
    /// All runs, one at a time, with nothing recorded.
    pub fn new(interrupted: &'o AtomicBool) -> Self {
        Options {
            jobs: 1,
            folder: None,
            interrupted,
            watch: false,
            journal: false,
            earlier: &[],
            part: Part::ALL,
        }
    }
}

/// Which part of a scenario's runs: of `of` parts the one with this `number`, from 1. Runs are dealt out in turn, so that parts take
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

    /// Whether the run with this number belongs to it.
    pub fn includes(self, run: usize) -> bool {
        run % self.of == self.number - 1
    }

    /// Runs that belong to it, of so many in all.
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
        .filter(|job| options.part.includes(job.number))
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
        // Runs that overtook one that never ended.
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

/// Puts runs into their order.
struct Collect {
    /// Runs that have come before their turn.
    early: BTreeMap<usize, Run>,
    /// Numbers of the runs that are still to be handed over.
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
            drops: link
                .drops
                .iter()
                .map(|(cause, count)| (cause.name().to_owned(), count))
                .collect(),
        });
        Ok(Some(Run {
            number: job.number,
            point: job.point_number,
            seed,
            values: Values::of_run(&result, config, watched.as_ref().map(|watched| &watched.reports)),
            flows: flows.collect(),
            links: links.collect(),
            radios: result.radios.iter().map(radio_row).collect(),
            wall_s: Some(wall_s),
            packet_hops: result.packet_hops,
            events: result.events,
            fingerprint: result.fingerprint,
            recorded,
        }))
    }

    /// Where a run's own files lie inside the folder: at its top if only one run leaves any, otherwise in a folder named after the
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

/// The values of a point's axes as the name of a folder: `loss.rate=0.05,scheme=cubic`.
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
            let text = format!("{}={}", crate::report::short(axis), crate::output::text(value));
            text.chars().take(60).map(plain).collect()
        })
        .collect();
    let mut name = values.join(",");
    name.truncate(180);
    name
}
