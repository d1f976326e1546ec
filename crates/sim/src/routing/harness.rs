//! A small network for tests: nodes with a queue each, changing links, random losses. After each call of an agent it checks that
//! every packet is accounted for exactly once and that next hops form no loop.

use std::collections::{BTreeMap, VecDeque};

use whimbrel_control::{Rng, Span, Time};

use super::{Action, Address, Agent, Cause, Context, Datagram, Handle, Message};

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketState {
    /// An agent holds the packet.
    Agent(Address),
    /// The packet waits in a node's queue, or is on the air.
    Queue(Address),
    Delivered(Time),
    Dropped(Cause, Address),
}

#[derive(Clone, Debug)]
enum Load {
    Data(Handle),
    Control(Message),
}

#[derive(Clone, Debug)]
struct Frame {
    load: Load,
    /// None: all neighbours.
    to: Option<Address>,
}

#[derive(Clone, Debug)]
enum Event {
    Timer(Address),
    Enqueue(Address, Frame),
    Sent(Address),
    Originate(Address, Address),
    Change,
}

/// A message seen on the air.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sighting {
    pub(crate) at: Time,
    pub(crate) from: Address,
    pub(crate) to: Option<Address>,
    pub(crate) message: Message,
}

pub(crate) struct Net {
    pub(crate) agents: Vec<Agent>,
    pub(crate) now: Time,
    pub(crate) datagrams: Vec<Datagram>,
    pub(crate) places: Vec<PacketState>,
    /// Whether the second node receives from the first.
    pub(crate) hears: Vec<Vec<bool>>,
    /// Every control message sent.
    pub(crate) air: Vec<Sighting>,
    /// Every data packet sent: time, sender, receiver, packet.
    pub(crate) hops: Vec<(Time, Address, Address, Handle)>,
    /// Probability that a frame is lost, and that an acknowledgement is lost.
    pub(crate) loss: f64,
    /// Whether next hops are followed after every call.
    pub(crate) check_loops: bool,
    /// Called at [`Net::change_every`]: returns the next set of links.
    pub(crate) movement: Option<Movement>,
    queues: Vec<VecDeque<Frame>>,
    busy: Vec<bool>,
    events: BTreeMap<(Time, u64), Event>,
    next_event: u64,
    rng: Rng,
    rngs: Vec<Rng>,
    timers: Vec<Option<Time>>,
    pub(crate) calls: u64,
}

/// Nodes that move in a square of side 1 (random waypoint) and receive from each other within `range`.
#[derive(Clone, Debug)]
pub(crate) struct Movement {
    pub(crate) places: Vec<[f64; 2]>,
    goals: Vec<[f64; 2]>,
    pub(crate) range: f64,
    /// Per second.
    pub(crate) speed: f64,
    pub(crate) until: Time,
}

const STEP: Span = Span::from_millis(250);

impl Movement {
    pub(crate) fn new(nodes: usize, range: f64, speed: f64, until: Time, rng: &mut Rng) -> Self {
        let mut point = || [rng.unit(), rng.unit()];
        Movement {
            places: (0..nodes).map(|_| point()).collect(),
            goals: (0..nodes).map(|_| point()).collect(),
            range,
            speed,
            until,
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        let length = self.speed * STEP.as_secs_f64();
        for (place, goal) in self.places.iter_mut().zip(&mut self.goals) {
            let way = [goal[0] - place[0], goal[1] - place[1]];
            let left = libm::hypot(way[0], way[1]);
            if left <= length {
                *place = *goal;
                *goal = [rng.unit(), rng.unit()];
            } else {
                *place = [place[0] + way[0] * length / left, place[1] + way[1] * length / left];
            }
        }
    }

    pub(crate) fn hears(&self) -> Vec<Vec<bool>> {
        let near = |a: &[f64; 2], b: &[f64; 2]| libm::hypot(a[0] - b[0], a[1] - b[1]) <= self.range;
        let row = |(i, a): (usize, &[f64; 2])| {
            let others = self.places.iter().enumerate();
            others.map(|(j, b)| i != j && near(a, b)).collect()
        };
        self.places.iter().enumerate().map(row).collect()
    }
}

/// Time that a frame takes on the air, independent of its content.
pub(crate) const FRAME: Span = Span::from_millis(1);
/// Time until a sender gives a frame up.
pub(crate) const GIVE_UP: Span = Span::from_millis(8);
/// Maximum number of frames in a node's queue.
const QUEUE: usize = 50;

impl Net {
    /// Creates nodes with these links between them, in both directions.
    pub(crate) fn new(agents: Vec<Agent>, links: &[(usize, usize)], seed: u64) -> Self {
        let nodes = agents.len();
        let mut hears = vec![vec![false; nodes]; nodes];
        for (a, b) in links {
            hears[*a][*b] = true;
            hears[*b][*a] = true;
        }
        let mut net = Net {
            now: Time::ZERO,
            datagrams: Vec::new(),
            places: Vec::new(),
            hears,
            air: Vec::new(),
            hops: Vec::new(),
            loss: 0.0,
            // Source routes are checked individually.
            check_loops: agents.iter().all(|agent| !matches!(agent, Agent::Dsr(_))),
            movement: None,
            queues: vec![VecDeque::new(); nodes],
            busy: vec![false; nodes],
            events: BTreeMap::new(),
            next_event: 0,
            rng: Rng::stream(seed, "net"),
            rngs: (0..nodes)
                .map(|node| Rng::stream(seed, &format!("node{node}")))
                .collect(),
            timers: vec![None; nodes],
            agents,
            calls: 0,
        };
        for node in 0..nodes {
            net.call(node as Address, |agent, cx| agent.start(cx));
        }
        net
    }

    pub(crate) fn set_link(&mut self, a: usize, b: usize, up: bool) {
        self.hears[a][b] = up;
        self.hears[b][a] = up;
    }

    pub(crate) fn set_movement(&mut self, movement: Movement) {
        self.hears = movement.hears();
        self.movement = Some(movement);
        self.at(self.now + STEP, Event::Change);
    }

    fn at(&mut self, at: Time, event: Event) {
        self.events.insert((at, self.next_event), event);
        self.next_event += 1;
    }

    /// Schedules a packet. Packets are numbered in the order of their departure.
    pub(crate) fn send_at(&mut self, at: Time, from: Address, to: Address) {
        self.at(at, Event::Originate(from, to));
    }

    /// Sends a packet now and returns its number.
    pub(crate) fn send(&mut self, from: Address, to: Address) -> Handle {
        self.send_ranked(from, to, 0)
    }

    /// Sends a packet of this rank now and returns its number.
    pub(crate) fn send_ranked(&mut self, from: Address, to: Address, rank: u8) -> Handle {
        let packet = self.datagrams.len() as Handle;
        self.datagrams.push(Datagram {
            rank,
            ..Datagram::new(from, to, packet)
        });
        self.places.push(PacketState::Agent(from));
        self.call(from, |agent, cx| agent.originate(cx, packet));
        packet
    }

    /// Continues for some time.
    pub(crate) fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            self.now = entry.key().0;
            match entry.remove() {
                Event::Timer(node) => {
                    if self.timers[usize::from(node)].is_some_and(|at| at <= self.now) {
                        self.timers[usize::from(node)] = None;
                        self.call(node, |agent, cx| agent.handle_timeout(cx));
                    }
                }
                Event::Enqueue(node, frame) => self.enqueue(node, frame),
                Event::Sent(node) => self.sent(node),
                Event::Originate(from, to) => {
                    // Protocols interpret the rank in different ways.
                    let rank = (self.datagrams.len() % 3 / 2) as u8;
                    self.send_ranked(from, to, rank);
                }
                Event::Change => {
                    if let Some(movement) = self.movement.as_mut().filter(|movement| movement.until > self.now) {
                        movement.step(&mut self.rng);
                        self.hears = movement.hears();
                        self.at(self.now + STEP, Event::Change);
                    }
                }
            }
        }
        self.now = end;
    }

    /// Calls an agent and executes its actions.
    pub(crate) fn call(&mut self, node: Address, f: impl FnOnce(&mut Agent, &mut Context<'_>)) {
        self.calls += 1;
        let mut actions = Vec::new();
        let mut cx = Context {
            now: self.now,
            rng: &mut self.rngs[usize::from(node)],
            datagrams: &mut self.datagrams,
            actions: &mut actions,
        };
        f(&mut self.agents[usize::from(node)], &mut cx);
        self.check_routes(node);
        let mut reclaimed = Vec::new();
        for action in actions {
            match action {
                Action::Send { packet, next_hop } => {
                    self.hand_over(node, packet, PacketState::Queue(node));
                    let route = self.datagrams[packet as usize].route;
                    assert!(route.is_simple(), "a node twice in {route:?}");
                    let frame = Frame {
                        load: Load::Data(packet),
                        to: Some(next_hop),
                    };
                    self.enqueue(node, frame);
                }
                Action::Deliver { packet } => {
                    assert_eq!(self.datagrams[packet as usize].destination, node);
                    self.hand_over(node, packet, PacketState::Delivered(self.now));
                }
                Action::Drop { packet, cause } => self.hand_over(node, packet, PacketState::Dropped(cause, node)),
                Action::Broadcast { message, delay } => {
                    let load = Load::Control(message);
                    self.at(self.now + delay, Event::Enqueue(node, Frame { load, to: None }));
                }
                Action::Unicast {
                    message,
                    next_hop,
                    delay,
                } => {
                    let frame = Frame {
                        load: Load::Control(message),
                        to: Some(next_hop),
                    };
                    self.at(self.now + delay, Event::Enqueue(node, frame));
                }
                Action::Reclaim { next_hop } => {
                    let queue = &mut self.queues[usize::from(node)];
                    // The first frame is on the air.
                    let on_air = queue.pop_front();
                    let (back, stay) = queue
                        .drain(..)
                        .partition::<Vec<_>, _>(|frame| frame.to == Some(next_hop));
                    queue.extend(on_air);
                    queue.extend(stay);
                    reclaimed.extend(back.into_iter().map(|frame| (next_hop, frame)));
                }
            }
        }
        self.arm(node);
        for (next_hop, frame) in reclaimed {
            self.failed(node, next_hop, frame, true);
        }
    }

    fn arm(&mut self, node: Address) {
        let next = self.agents[usize::from(node)].next_timeout();
        if let Some(at) = next
            && self.timers[usize::from(node)].is_none_or(|set| at < set)
        {
            let at = at.max(self.now);
            self.timers[usize::from(node)] = Some(at);
            self.at(at, Event::Timer(node));
        }
    }

    fn hand_over(&mut self, node: Address, packet: Handle, place: PacketState) {
        let now = &mut self.places[packet as usize];
        assert_eq!(*now, PacketState::Agent(node), "packet {packet} goes to {place:?}");
        *now = place;
    }

    fn enqueue(&mut self, node: Address, frame: Frame) {
        let queue = &mut self.queues[usize::from(node)];
        if queue.len() >= QUEUE {
            if let Load::Data(packet) = frame.load {
                self.places[packet as usize] = PacketState::Dropped(Cause::BufferFull, node);
            }
            return;
        }
        queue.push_back(frame);
        if !self.busy[usize::from(node)] {
            self.transmit(node);
        }
    }

    /// Starts to send the first frame of a queue.
    fn transmit(&mut self, node: Address) {
        let Some(frame) = self.queues[usize::from(node)].front() else {
            return;
        };
        self.busy[usize::from(node)] = true;
        let reachable = frame.to.is_none_or(|to| self.hears[usize::from(node)][usize::from(to)]);
        let span = if reachable { FRAME } else { GIVE_UP };
        match (&frame.load, frame.to) {
            (Load::Control(message), to) => self.air.push(Sighting {
                at: self.now,
                from: node,
                to,
                message: message.clone(),
            }),
            (Load::Data(packet), Some(to)) => self.hops.push((self.now, node, to, *packet)),
            (Load::Data(_), None) => {}
        }
        self.at(self.now + span, Event::Sent(node));
    }

    /// Handles the end of a transmission, successful or not.
    fn sent(&mut self, node: Address) {
        self.busy[usize::from(node)] = false;
        let Some(frame) = self.queues[usize::from(node)].pop_front() else {
            return;
        };
        self.transmit(node);
        let hearers: Vec<Address> = (0..self.agents.len() as Address)
            .filter(|other| self.hears[usize::from(node)][usize::from(*other)])
            .collect();
        match frame.to {
            None => {
                let Load::Control(message) = frame.load else { return };
                for other in hearers {
                    if !self.rng.chance(self.loss) {
                        self.call(other, |agent, cx| agent.receive_control(cx, node, &message));
                    }
                }
            }
            Some(to) => {
                // An acknowledgement needs the reverse link. The link layer retries, so losses are rarer than for broadcasts.
                let loss = self.loss * self.loss;
                let arrives = self.hears[usize::from(node)][usize::from(to)] && !self.rng.chance(loss);
                let acknowledged = arrives && self.hears[usize::from(to)][usize::from(node)] && !self.rng.chance(loss);
                self.overhear(node, to, &frame, &hearers);
                match (arrives, acknowledged) {
                    (true, true) => self.arrive(node, to, frame),
                    // The sender may keep a copy, or only learn that the link is bad.
                    (true, false) if self.rng.chance(0.5) => {
                        self.arrive(node, to, frame);
                        self.call(node, |agent, cx| agent.link_failed(cx, to));
                    }
                    (true, false) => {
                        let copy = self.copy(&frame);
                        self.arrive(node, to, copy);
                        self.failed(node, to, frame, false);
                    }
                    (false, _) => self.failed(node, to, frame, false),
                }
            }
        }
    }

    fn overhear(&mut self, from: Address, to: Address, frame: &Frame, hearers: &[Address]) {
        for other in hearers.iter().copied().filter(|other| *other != to) {
            if !self.agents[usize::from(other)].is_promiscuous() || self.rng.chance(self.loss) {
                continue;
            }
            match &frame.load {
                Load::Data(packet) => {
                    let datagram = self.datagrams[*packet as usize];
                    self.call(other, |agent, cx| agent.overhear_data(cx, from, to, &datagram));
                }
                Load::Control(message) => {
                    self.call(other, |agent, cx| agent.overhear_control(cx, from, to, message));
                }
            }
        }
    }

    /// Returns a copy of a frame whose acknowledgement was lost.
    fn copy(&mut self, frame: &Frame) -> Frame {
        let mut copy = frame.clone();
        if let Load::Data(packet) = frame.load {
            let number = self.datagrams.len() as Handle;
            self.datagrams.push(self.datagrams[packet as usize]);
            self.places.push(self.places[packet as usize]);
            copy.load = Load::Data(number);
        }
        copy
    }

    fn arrive(&mut self, from: Address, to: Address, frame: Frame) {
        match frame.load {
            Load::Data(packet) => {
                assert_eq!(self.places[packet as usize], PacketState::Queue(from));
                self.places[packet as usize] = PacketState::Agent(to);
                self.call(to, |agent, cx| agent.receive_data(cx, from, packet));
            }
            Load::Control(message) => self.call(to, |agent, cx| agent.receive_control(cx, from, &message)),
        }
    }

    fn failed(&mut self, node: Address, next_hop: Address, frame: Frame, unsent: bool) {
        match frame.load {
            Load::Data(packet) => {
                assert_eq!(self.places[packet as usize], PacketState::Queue(node));
                self.places[packet as usize] = PacketState::Agent(node);
                self.call(node, |agent, cx| {
                    if unsent {
                        agent.data_returned(cx, next_hop, packet);
                    } else {
                        agent.data_failed(cx, next_hop, packet);
                    }
                });
            }
            Load::Control(message) => self.call(node, |agent, cx| agent.control_failed(cx, next_hop, &message)),
        }
    }

    /// Follows the next hops from a node whose table may have changed.
    fn check_routes(&self, node: Address) {
        if !self.check_loops {
            return;
        }
        for destination in 0..self.agents.len() as Address {
            let mut way = vec![node];
            let mut at = node;
            while at != destination
                && let Some(next) = self.agents[usize::from(at)].next_hop(self.now, destination)
            {
                assert!(
                    !way.contains(&next),
                    "at {}: to {destination} over {way:?} and {next} again",
                    self.now
                );
                way.push(next);
                at = next;
            }
        }
    }

    /// Checks that every packet at an agent waits there, and that no agent has others.
    pub(crate) fn check_conservation(&self) {
        for (node, agent) in (0..).zip(&self.agents) {
            let here = self
                .places
                .iter()
                .filter(|place| **place == PacketState::Agent(node))
                .count();
            assert_eq!(here, agent.buffered(), "packets at node {node}");
        }
    }

    pub(crate) fn delivered(&self) -> usize {
        self.places
            .iter()
            .filter(|place| matches!(place, PacketState::Delivered(_)))
            .count()
    }

    /// Returns the nodes that sent a packet, in order.
    pub(crate) fn way(&self, packet: Handle) -> Vec<Address> {
        self.hops
            .iter()
            .filter(|hop| hop.3 == packet)
            .map(|hop| hop.1)
            .collect()
    }

    /// Returns the hops between all pairs of nodes by breadth-first search; none without a route.
    pub(crate) fn distances(&self) -> Vec<Vec<Option<u32>>> {
        let nodes = self.agents.len();
        let from = |start: usize| {
            let mut hops = vec![None; nodes];
            hops[start] = Some(0);
            let mut open = VecDeque::from([start]);
            while let Some(node) = open.pop_front() {
                for other in 0..nodes {
                    if self.hears[node][other] && hops[other].is_none() {
                        hops[other] = hops[node].map(|hops| hops + 1);
                        open.push_back(other);
                    }
                }
            }
            hops
        };
        (0..nodes).map(from).collect()
    }
}

/// Returns the seeds of a test: `default` seeds from 0, the number in WHIMBREL_ROUTING_SEEDS, or only WHIMBREL_ROUTING_SEED.
pub(crate) fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect("a number"))
    };
    match number("WHIMBREL_ROUTING_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WHIMBREL_ROUTING_SEEDS").unwrap_or(default),
    }
}

/// Runs a test with each seed and prints the seed that failed.
pub(crate) fn each_seed(default: u64, test: impl Fn(u64) + std::panic::RefUnwindSafe) {
    for seed in seeds(default) {
        if let Err(panic) = std::panic::catch_unwind(|| test(seed)) {
            eprintln!("WHIMBREL_ROUTING_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Runs random nodes, movement, losses and traffic with all checks of the harness.
pub(crate) fn torture(seed: u64, agent: impl Fn(Address, &mut Rng) -> Agent) -> Net {
    let mut rng = Rng::stream(seed, "torture");
    let nodes = 5 + rng.below(16) as usize;
    let agents = (0..nodes as Address).map(|address| agent(address, &mut rng)).collect();
    let mut net = Net::new(agents, &[], seed);
    let end = Time::ZERO + Span::from_secs(40 + rng.below(40));
    let range = 0.25 + 0.3 * rng.unit();
    let speed = if rng.chance(0.2) { 0.0 } else { 0.2 * rng.unit() };
    net.loss = if rng.chance(0.3) { 0.0 } else { 0.4 * rng.unit() };
    net.set_movement(Movement::new(nodes, range, speed, end, &mut rng));
    for _ in 0..1 + rng.below(8) {
        let (from, to) = (rng.below(nodes as u64) as Address, rng.below(nodes as u64) as Address);
        let mut at = Time::ZERO + Span::from_secs_f64(rng.unit() * 30.0);
        let interval = 0.02 + rng.unit() * 2.0;
        for _ in 0..rng.below(200) {
            net.send_at(at, from, to);
            at += Span::from_secs_f64(rng.exponential(interval));
        }
    }
    while net.now < end {
        net.run_for(Span::from_secs(5));
    }
    // No new packets: all waiting ones must leave the buffers.
    net.run_for(Span::from_secs(400));
    net.check_conservation();
    let buffered: usize = net.agents.iter().map(Agent::buffered).sum();
    assert_eq!(buffered, 0, "no packet waits forever");
    net
}

/// Checks that more than half of the packets arrive in random networks.
pub(crate) fn most_arrive(agent: impl Fn(Address) -> Agent) {
    let (mut sent, mut delivered) = (0, 0);
    for seed in 0..10 {
        let net = torture(seed * 2 + 1000, |address, _| agent(address));
        sent += net.datagrams.len();
        delivered += net.delivered();
    }
    println!("{delivered} of {sent}");
    assert!(delivered * 2 > sent, "{delivered} of {sent}");
}
