//! A finished run: its values, and those of its flows, links and radios.

use whimbrel_sim::config::SimConfig;
use whimbrel_sim::{FileCheck, FlowOutcome, RunResult};

use crate::metric::{Values, queue_utilisation, ran};
use crate::record::Recorded;
use crate::text::radio_row;
use crate::timeline::Lines;
use crate::watch::Watched;

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
