//! Builds a world from a scenario, a seed and the files it names.

use std::collections::VecDeque;
use std::sync::Arc;

use whimbrel_control::{Rate, Rng, Span, Time};
use whimbrel_proto::{AssociationConfig, SharedConfig};

use super::World;
use super::first_links::FirstLinks;
use crate::config::{
    ConfigError, FlowConfig, FlowEnd, FlowKind, LinkConfig, RadioConfig, ResolvedDirection, SimConfig,
};
use crate::engine::{Event, EventQueue};
use crate::host::{
    AddressChange, Agent, Alarm, Applications, Class, FileContent, FlowState, IN_MEMORY, ReceiverSetup, SctpEnd,
    SctpSetup, SenderSetup, Sink, Source, TcpReceiver, TcpSender, UdpReceiver, UdpSender,
};
use crate::ids::{AgentId, DirectionId};
use crate::ledger::Ledger;
use crate::link::{CapacityTrace, Direction, Extras, Jitter, LinkChange, TraceClock, Window};
use crate::loss::LossModel;
use crate::measure::VerdictCounts;
use crate::network::{Fragmented, Hop, Network};
use crate::observer::Wanted;
use crate::packet::Slab;
use crate::queue::{Active, DropTail, Scheduler};
use crate::radio::Radios;
use crate::resources::Resources;
use crate::topology::Topology;
use crate::truth::Truth;

/// Optional records of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Whether each dropped packet is listed in the ledger; otherwise drops are only counted.
    pub ledger_entries: bool,
}

/// The constant part of a run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) end: Time,
    pub(super) interval: Span,
    pub(super) ends_when_done: bool,
    pub(super) schedules: Vec<Vec<LinkStep>>,
    pub(super) flows: Vec<FlowPlan>,
    /// Name of each direction's link, and of the nodes at its start and end.
    pub(super) directions: Vec<[String; 3]>,
    /// Recorded rates of directions, and the time in the record at which the run starts.
    pub(super) traces: Vec<Option<(Arc<CapacityTrace>, Span)>>,
    /// Name, node and channel of each radio.
    pub(super) radios: Vec<[String; 3]>,
}

/// A step of a link's schedule.
#[derive(Debug)]
pub(super) struct LinkStep {
    pub(super) at: Span,
    /// Whether the link is up from then on, if that changes.
    pub(super) up: Option<bool>,
    /// What changes in each direction.
    pub(super) changes: [LinkChange; 2],
}

impl LinkStep {
    /// Returns whether a loss model that starts with it depends on the packet's content.
    fn needs_kinds(&self) -> bool {
        let mut losses = self.changes.iter().filter_map(|change| change.losses.as_deref());
        losses.any(crate::loss::any_needs_kinds)
    }
}

#[derive(Debug)]
pub(super) struct FlowPlan {
    pub(super) name: String,
    pub(super) kind: FlowKind,
    pub(super) start: Time,
    /// Whether the association or connection of an SCTP or TCP flow is finite. One without an association of its own has none.
    pub(super) has_end: bool,
    /// The flow whose association carries this one's messages, and the number of this one among those that it carries.
    pub(super) with: Option<(usize, usize)>,
}

impl World {
    /// Builds the world of a scenario.
    ///
    /// # Errors
    /// Returns an error for the first invalid value in the scenario, or for a file that `resources` lacks.
    pub fn new(
        config: &SimConfig,
        seed: u64,
        resources: &Resources,
        options: RunOptions,
    ) -> Result<World, ConfigError> {
        World::build(config, seed, resources, options, &[])
    }

    /// Builds a world without the ends of the flows in `outside` (indices in the scenario).
    pub(super) fn build(
        config: &SimConfig,
        seed: u64,
        resources: &Resources,
        options: RunOptions,
        outside: &[usize],
    ) -> Result<World, ConfigError> {
        config.validate()?;
        resources.check(config)?;
        let end = Time::ZERO + config.duration;
        let window = Window {
            from: Time::ZERO + config.measure.from,
            to: config.measure.to.map_or(end, |to| (Time::ZERO + to).min(end)),
        };
        let mut topology = Topology::build(config)?;
        let queue = first_events(config, window, end, &topology);
        let schedules: Vec<_> = config.link.iter().map(|link| schedule(link, seed)).collect();
        let (mut directions, names, traces) = directions(config, seed, resources)?;
        let Ends {
            agents,
            flows,
            plans,
            truths,
        } = ends(config, seed, resources, &topology, outside)?;
        let way = way(config, &mut topology, &mut directions);
        let needs_kinds =
            directions.iter().any(Direction::needs_kinds) || schedules.iter().flatten().any(LinkStep::needs_kinds);
        let network = Network {
            queue,
            slab: Slab::default(),
            way,
            topology,
            directions,
            ledger: Ledger {
                entries: options.ledger_entries.then(Vec::new),
                ..Ledger::default()
            },
            truths,
            window,
            end,
            wanted: Wanted::default(),
            hops_done: 0,
            route_changes: 0,
            fingerprints: config.flow.iter().map(|flow| fingerprint_seed(&flow.name)).collect(),
            flow_drops: vec![Default::default(); config.flow.len()],
            link_drops: vec![Default::default(); config.link.len() * 2],
            radio_drops: vec![Default::default(); config.radio.len()],
            radios: (!config.radio.is_empty()).then(|| Box::new(Radios::new(config, seed, resources, window))),
            landed: Vec::new(),
            delivered: VecDeque::new(),
            needs_kinds,
            silent: config.node.iter().map(|node| !node.icmp).collect(),
            fragmented: Fragmented::default(),
        };
        let has_transport = |plan: &&FlowPlan| plan.kind != FlowKind::Udp && plan.with.is_none();
        let transport_flows = plans.iter().filter(has_transport).count();
        let unfinished = plans.iter().filter(|plan| plan.has_end).count();
        Ok(World {
            seed,
            network,
            agents,
            flows,
            next_steps: vec![0; config.link.len()],
            now: Time::ZERO,
            events: 0,
            unfinished,
            finished: plans.iter().map(|plan| !plan.has_end).collect(),
            last_sample: Time::ZERO,
            plan: Plan {
                end,
                interval: config.measure.interval,
                ends_when_done: transport_flows > 0 && unfinished == transport_flows,
                schedules,
                flows: plans,
                directions: names,
                traces,
                radios: radio_names(config),
            },
        })
    }
}

/// The ends of all flows, and what is planned for them.
#[derive(Default)]
struct Ends {
    agents: Vec<Agent>,
    flows: Vec<FlowState>,
    plans: Vec<FlowPlan>,
    truths: Vec<Arc<Truth>>,
}

/// The parameters of the latest SCTP flow's ends. Most flows have those of the flow before.
#[derive(Default)]
struct Parameters {
    sender: Option<SharedConfig>,
    receiver: Option<SharedConfig>,
}

impl Parameters {
    /// Returns the parameters, shared with the latest end if they are equal.
    fn share(latest: &mut Option<SharedConfig>, config: AssociationConfig) -> SharedConfig {
        match latest {
            Some(latest) if **latest == config => latest.clone(),
            _ => latest.insert(config.into()).clone(),
        }
    }
}

fn ends(
    config: &SimConfig,
    seed: u64,
    resources: &Resources,
    topology: &Topology,
    outside: &[usize],
) -> Result<Ends, ConfigError> {
    let mut ends = Ends::default();
    let mut parameters = Parameters::default();
    for (f, flow) in config.flow.iter().enumerate() {
        let builder = FlowBuilder {
            config,
            flow,
            f: f as u32,
            seed,
            topology,
            first: FirstLinks {
                config,
                topology,
                flow: f as u32,
            },
            outside: outside.contains(&f),
            truth: Truth::new(Rng::stream(seed, &format!("flow/{}/truth", flow.name))),
        };
        ends.truths.push(builder.truth.clone());
        builder
            .build(resources, &mut parameters, &mut ends.agents, &mut ends.flows)
            .map_err(|e| e.within(&format!("flow[{f}]")))?;
        ends.plans.push(FlowPlan {
            name: flow.name.clone(),
            kind: flow.kind,
            start: start_of(flow, seed),
            has_end: flow.kind != FlowKind::Udp
                && !outside.contains(&f)
                && flow.with.is_none()
                && ends_by_itself(flow)
                && classes_of(config, flow).all(|(_, class)| ends_by_itself(class)),
            with: place_of(config, flow).filter(|(carrier, _)| !outside.contains(carrier)),
        });
    }
    Ok(ends)
}

/// Returns whether a flow has a last message.
fn ends_by_itself(flow: &FlowConfig) -> bool {
    flow.traffic.is_finite() || flow.stop.is_some()
}

/// Returns the flows whose messages the association of `flow` carries, each with its number in the scenario.
fn classes_of<'c>(config: &'c SimConfig, flow: &'c FlowConfig) -> impl Iterator<Item = (usize, &'c FlowConfig)> {
    let all = config.flow.iter().enumerate();
    all.filter(|(_, other)| other.with.as_ref() == Some(&flow.name))
}

/// Returns the number of the flow whose association carries this one's messages, and the place of this one among those with it.
fn place_of(config: &SimConfig, flow: &FlowConfig) -> Option<(usize, usize)> {
    let name = flow.with.as_ref()?;
    let carrier = config.flow.iter().position(|other| other.name == *name)?;
    let place = classes_of(config, &config.flow[carrier]).position(|(_, class)| class.name == flow.name)?;
    Some((carrier, place))
}

/// Returns the name, the node and the channel of each radio.
fn radio_names(config: &SimConfig) -> Vec<[String; 3]> {
    let names = |radio: &RadioConfig| [radio.display_name(), radio.node.clone(), radio.channel.clone()];
    config.radio.iter().map(names).collect()
}

/// Returns the queue with the events that are known before the run.
fn first_events(config: &SimConfig, window: Window, end: Time, topology: &Topology) -> EventQueue {
    let mut queue = EventQueue::default();
    queue.push(window.from, Event::WindowOpens);
    if window.to < end {
        queue.push(window.to, Event::WindowCloses);
    }
    for (handoff, step) in (0..).zip(&topology.handoffs) {
        queue.push(Time::ZERO + step.leaves, Event::Leave { handoff });
        queue.push(Time::ZERO + step.joins, Event::Join { handoff });
    }
    for (config, link) in config.link.iter().zip(0..) {
        if let Some(first) = config.schedule.first() {
            queue.push(Time::ZERO + first.at, Event::LinkStep { link });
        }
    }
    queue
}

/// Returns the hops of all routes, and prepares the directions that packets enter ahead of time.
fn way(config: &SimConfig, topology: &mut Topology, directions: &mut [Direction]) -> Vec<Hop> {
    let simple = |direction: DirectionId| {
        directions[direction.index()].is_plain() && config.link[direction.link() as usize].schedule.is_empty()
    };
    for direction in topology.find_direct(simple) {
        directions[direction.index()].set_ahead();
    }
    let hop = |direction: &DirectionId| Hop {
        direction: *direction,
        direct: topology.direct.get(direction.index()).copied().unwrap_or(false),
    };
    topology.hops.iter().map(hop).collect()
}

/// Returns the start value of a flow's fingerprint: its name, so that flows with equal events differ.
fn fingerprint_seed(name: &str) -> u64 {
    name.bytes()
        .fold(0, |hash, byte| crate::network::mix(hash, u64::from(byte)))
}

type Directions = (
    Vec<Direction>,
    Vec<[String; 3]>,
    Vec<Option<(Arc<CapacityTrace>, Span)>>,
);

fn directions(config: &SimConfig, seed: u64, resources: &Resources) -> Result<Directions, ConfigError> {
    let mut directions = Vec::with_capacity(config.link.len() * 2);
    let mut names = Vec::with_capacity(config.link.len() * 2);
    let mut traces = Vec::with_capacity(config.link.len() * 2);
    for (l, link) in config.link.iter().enumerate() {
        let name = link.display_name();
        for (side, resolved) in link.directions().into_iter().enumerate() {
            let stream = format!("link/{name}/{}", ["forward", "reverse"][side]);
            let trace = match &resolved.trace {
                None => None,
                Some(trace) => Some(resources.traces.get(&trace.file).cloned().ok_or_else(|| {
                    ConfigError::new(
                        format!("link[{l}].trace.file"),
                        trace.file.display(),
                        "a file that was read",
                    )
                })?),
            };
            let trace = trace.zip(resolved.trace.as_ref()).map(|(trace, config)| {
                let mut offset = config.offset;
                if config.random_offset {
                    let mut rng = Rng::stream(seed, &format!("{stream}/trace"));
                    offset += Span::from_millis(rng.below(trace.period().as_millis()));
                }
                (trace, offset)
            });
            traces.push(trace.clone());
            let extras = extras(&resolved, trace, seed, &stream);
            let rate = resolved.rate.unwrap_or_default();
            let queue = DropTail::new(&resolved.queue);
            directions.push(Direction::new(rate, resolved.delay, resolved.mtu, queue, extras));
            let [first, second] = link.between.clone();
            names.push(if side == 0 {
                [name.clone(), first, second]
            } else {
                [name.clone(), second, first]
            });
        }
    }
    Ok((directions, names, traces))
}

/// Returns the steps of a link's schedule with their loss models.
fn schedule(link: &LinkConfig, seed: u64) -> Vec<LinkStep> {
    let name = link.display_name();
    let change = |i: usize, side: &str, step: crate::config::LinkValues| LinkChange {
        rate: step.rate,
        delay: step.delay,
        losses: step.loss.map(|losses| {
            let stream = |j| format!("link/{name}/{side}/step{i}/loss{j}");
            let common = |j| Rng::stream(seed, &format!("link/{name}/step{i}/loss{j}"));
            let models = losses.0.iter().enumerate();
            models
                .map(|(j, loss)| LossModel::shared(loss, Rng::stream(seed, &stream(j)), &common(j)))
                .collect()
        }),
    };
    let steps = link.schedule.iter().enumerate();
    steps
        .map(|(i, step)| {
            let [forward, reverse] = step.directions();
            LinkStep {
                at: step.at,
                up: step.up,
                changes: [change(i, "forward", forward), change(i, "reverse", reverse)],
            }
        })
        .collect()
}

fn extras(
    resolved: &ResolvedDirection,
    trace: Option<(Arc<CapacityTrace>, Span)>,
    seed: u64,
    stream: &str,
) -> Option<Box<Extras>> {
    let rng = |what: &str| Rng::stream(seed, &format!("{stream}/{what}"));
    let rate = match &trace {
        Some((trace, _)) => Rate::from_bps((trace.mean_bps() as u64).max(1)),
        None => resolved.rate.unwrap_or_default(),
    };
    let queue = Active::new(&resolved.queue, rate, || rng("queue"));
    let scheduler = Scheduler::new(&resolved.queue).map(Box::new);
    let plain = resolved.loss.is_empty()
        && resolved.jitter.is_none()
        && resolved.duplicate == 0.0
        && trace.is_none()
        && queue.is_none()
        && scheduler.is_none();
    if plain {
        return None;
    }
    let losses = resolved.loss.iter().enumerate().map(|(i, loss)| {
        // The random numbers that both directions share.
        let link = stream.rsplit_once('/').map_or(stream, |(link, _)| link);
        let common = Rng::stream(seed, &format!("{link}/loss{i}"));
        LossModel::shared(loss, rng(&format!("loss{i}")), &common)
    });
    Some(Box::new(Extras {
        losses: losses.collect(),
        jitter: resolved.jitter.clone().map(|jitter| Jitter::new(jitter, rng("jitter"))),
        duplicate: (resolved.duplicate > 0.0).then(|| (resolved.duplicate, rng("duplicate"))),
        trace: trace.map(|(trace, offset)| TraceClock::new(trace, offset)),
        queue,
        scheduler,
        marked: 0,
    }))
}

/// Returns when a flow starts: at `start`, plus a random time up to `start_within`.
fn start_of(flow: &FlowConfig, seed: u64) -> Time {
    let start = Time::ZERO + flow.start;
    if flow.start_within.is_zero() {
        return start;
    }
    let mut rng = Rng::stream(seed, &format!("flow/{}/start", flow.name));
    start + Span::from_nanos(rng.below(flow.start_within.as_nanos()))
}

struct FlowBuilder<'a> {
    config: &'a SimConfig,
    flow: &'a FlowConfig,
    f: u32,
    seed: u64,
    topology: &'a Topology,
    first: FirstLinks<'a>,
    /// Whether its ends are outside the simulation.
    outside: bool,
    truth: Arc<Truth>,
}

impl FlowBuilder<'_> {
    fn rng(&self, what: &str) -> Rng {
        Rng::stream(self.seed, &format!("flow/{}/{what}", self.flow.name))
    }

    fn build(
        &self,
        resources: &Resources,
        parameters: &mut Parameters,
        agents: &mut Vec<Agent>,
        flows: &mut Vec<FlowState>,
    ) -> Result<(), ConfigError> {
        let flow = self.flow;
        if self.outside || flow.with.is_some() {
            agents.extend([Agent::Outside, Agent::Outside]);
            flows.push(self.state(Sink::default()));
            return Ok(());
        }
        let traffic = &flow.traffic;
        let file = self.file(resources)?;
        let start = start_of(flow, self.seed);
        let source = Source::new(traffic, flow.kind, start, flow.stop, file.clone(), self.rng("source"));
        let mut classes = Vec::new();
        match flow.kind {
            FlowKind::Sctp => {
                let mut applications = Applications::default();
                applications.add(source, traffic.stream_value);
                classes = self.classes(&mut applications);
                agents.extend(self.sctp_ends(applications, start, parameters)?);
            }
            FlowKind::Tcp => {
                let config = |end| self.first.limit_tcp(flow.tcp_parameters(), end);
                agents.push(Agent::TcpSender(Box::new(TcpSender::new(SenderSetup {
                    agent: AgentId::sender(self.f),
                    config: &config(FlowEnd::Sender),
                    source,
                    file: file.clone(),
                    start,
                    truth: self.truth.clone(),
                    random: self.rng("sender"),
                }))));
                agents.push(Agent::TcpReceiver(Box::new(TcpReceiver::new(ReceiverSetup {
                    agent: AgentId::receiver(self.f),
                    config: &config(FlowEnd::Receiver),
                    message_bytes: traffic.message_bytes,
                    file: file.clone(),
                    random: self.rng("receiver"),
                }))));
            }
            FlowKind::Udp => {
                agents.push(Agent::UdpSender(Box::new(UdpSender {
                    agent: AgentId::sender(self.f),
                    source,
                    alarm: Alarm::default(),
                })));
                agents.push(Agent::UdpReceiver(UdpReceiver));
            }
        }
        let sink = match file {
            Some(file) => Sink::for_file(file, traffic.message_bytes),
            None => Sink::default(),
        };
        let sink = sink.with_deadline(traffic.useful_for());
        flows.push(FlowState {
            classes,
            ..self.state(sink)
        });
        Ok(())
    }

    /// Adds the sources of the flows that this one's association carries. Returns their sinks.
    fn classes(&self, applications: &mut Applications) -> Vec<Class> {
        let mut first_stream = self.flow.traffic.streams;
        let mut classes = Vec::new();
        for (_, class) in classes_of(self.config, self.flow) {
            let traffic = &class.traffic;
            let rng = Rng::stream(self.seed, &format!("flow/{}/source", class.name));
            let source = Source::new(traffic, class.kind, start_of(class, self.seed), class.stop, None, rng);
            let source = source.on_streams_from(first_stream);
            let streams = source.streams();
            first_stream = streams.end;
            applications.add(source, traffic.stream_value);
            classes.push(Class {
                streams,
                sink: Sink::default().with_deadline(traffic.useful_for()),
            });
        }
        classes
    }

    /// Returns both ends of an SCTP flow.
    fn sctp_ends(
        &self,
        applications: Applications,
        start: Time,
        parameters: &mut Parameters,
    ) -> Result<[Agent; 2], ConfigError> {
        let flow = self.flow;
        let routes = &self.topology.flows[self.f as usize];
        let name_of = |i: DirectionId| crate::topology::interface_name(self.config, i);
        let address = |interfaces: &[DirectionId], end: FlowEnd| -> Vec<_> {
            interfaces
                .iter()
                .filter(|i| !flow.comes_later(end, &name_of(**i)))
                .map(|i| (crate::topology::address(*i), 0).into())
                .collect()
        };
        let sender = address(&routes.sender, FlowEnd::Sender);
        let receiver = address(&routes.receiver, FlowEnd::Receiver);
        let steps = |end: FlowEnd, interfaces: &[DirectionId]| -> Vec<AddressChange> {
            let of_link = |name: &str| {
                let interface = interfaces.iter().find(|i| name_of(**i) == name)?;
                Some((crate::topology::address(*interface), 0).into())
            };
            let steps = flow.address.iter().filter(|step| step.end == end);
            steps
                .map(|step| AddressChange {
                    at: Time::ZERO + step.at,
                    add: step.add.as_deref().and_then(of_link),
                    primary: step.primary.as_deref().and_then(of_link),
                    remove: step.remove.as_deref().and_then(of_link),
                })
                .collect()
        };
        let end = |agent: AgentId, local: &Vec<_>, peer: &Vec<_>, association, applications, random| {
            SctpEnd::new(SctpSetup {
                agent,
                local: local.clone(),
                peer: peer.clone(),
                association,
                applications,
                start,
                carriage: self.config.carriage,
                random,
                truth: self.truth.clone(),
                steps: if agent.is_sender() {
                    steps(FlowEnd::Sender, &routes.sender)
                } else {
                    steps(FlowEnd::Receiver, &routes.receiver)
                },
                timer_granularity: self.timer_granularity(if agent.is_sender() {
                    &routes.sender
                } else {
                    &routes.receiver
                }),
            })
            .map(|end| Agent::Sctp(Box::new(end)))
        };
        let ours = self.first.limit_sctp(flow.sender_association(), FlowEnd::Sender);
        let theirs = self.first.limit_sctp(flow.receiver_association()?, FlowEnd::Receiver);
        let ours = Parameters::share(&mut parameters.sender, ours);
        let theirs = Parameters::share(&mut parameters.receiver, theirs);
        let ends = [
            end(
                AgentId::sender(self.f),
                &sender,
                &receiver,
                ours,
                applications,
                self.rng("sender"),
            )?,
            end(
                AgentId::receiver(self.f),
                &receiver,
                &sender,
                theirs,
                Applications::default(),
                self.rng("receiver"),
            )?,
        ];
        Ok(ends)
    }

    /// Returns the timer granularity of the node that has these interfaces.
    fn timer_granularity(&self, interfaces: &[DirectionId]) -> Span {
        let node = interfaces.first().map(|interface| self.topology.node_of(*interface));
        node.map_or(Span::ZERO, |node| self.config.node[node as usize].timer_granularity)
    }

    fn state(&self, sink: Sink) -> FlowState {
        FlowState {
            routes: self.topology.flows[self.f as usize].clone(),
            sink,
            classes: Vec::new(),
            sent_packets: [0; 2],
            sent_bytes: [0; 2],
            numbers: [0; 2],
            arrived_packets: 0,
            arrived_after: 0,
            delivered_packets: 0,
            discarded: 0,
            verdicts: VerdictCounts::default(),
            path_mtus: self.first.path_mtus(),
        }
    }

    /// Returns the file to send: the scenario's file, or a generated one.
    fn file(&self, resources: &Resources) -> Result<Option<FileContent>, ConfigError> {
        let traffic = &self.flow.traffic;
        if let Some(name) = &traffic.file {
            let found = resources.files.get(name).filter(|content| !content.is_empty()).cloned();
            return found.map(FileContent::Given).map(Some).ok_or_else(|| {
                ConfigError::new(
                    "traffic.file",
                    name.display(),
                    "a file that was read, of 1 byte or more",
                )
            });
        }
        Ok(traffic.file_bytes.map(|len| {
            let mut rng = self.rng("file");
            if len > IN_MEMORY {
                return FileContent::MadeUp {
                    key: rng.next_u64(),
                    len,
                };
            }
            let mut content = Vec::with_capacity(len as usize + 8);
            while (content.len() as u64) < len {
                content.extend_from_slice(&rng.next_u64().to_le_bytes());
            }
            content.truncate(len as usize);
            FileContent::Given(content.into())
        }))
    }
}
