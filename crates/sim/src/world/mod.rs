//! A run: a scenario with a seed, from its first event to its result.

mod build;
mod first_links;
mod open;
mod report;

use whimbrel_control::{Span, Time};

pub use self::build::RunOptions;
pub use self::open::{Delivery, Entry, OpenWorld, PathMtu};
use crate::control::RunControl;
use crate::engine::{Event, Scheduled};
use crate::host::{Agent, Context, FlowState, ends_of};
use crate::ids::{AgentId, DirectionId};
use crate::measure::{EndReason, RunResult};
use crate::network::Network;
use crate::observer::{NoObserver, Observer, Sample, Wanted};
use crate::packet::PacketId;

/// Number of events between two checks of the [`RunControl`].
const REPORT_EVERY: u64 = 4096;

/// A network with its flows. Owned by one thread at a time; shares nothing with other worlds.
#[derive(Debug)]
pub struct World {
    seed: u64,
    network: Network,
    agents: Vec<Agent>,
    flows: Vec<FlowState>,
    /// Names for results, and times of events.
    plan: build::Plan,
    /// Next step of each link's schedule.
    next_steps: Vec<usize>,
    now: Time,
    events: u64,
    /// Finite SCTP and TCP flows that are not complete.
    unfinished: usize,
    /// Flows that are complete or not finite.
    finished: Vec<bool>,
    last_sample: Time,
}

impl World {
    /// Returns the network and the flows, for tests of one end alone.
    #[cfg(test)]
    pub(crate) fn into_parts(self) -> (Network, Vec<FlowState>) {
        (self.network, self.flows)
    }

    /// Runs to the end without an observer.
    pub fn run(self) -> RunResult {
        self.run_with(&mut NoObserver, &RunControl::new())
    }

    /// Runs to the end. `observer` receives the events it wants, `control` reports progress to other threads and lets them cancel
    /// the run.
    pub fn run_with(mut self, observer: &mut dyn Observer, control: &RunControl) -> RunResult {
        self.observe(observer);
        self.begin(observer);
        let mut report_at = REPORT_EVERY;
        let end = loop {
            let Some(next) = self.network.queue.peek().filter(|next| next.at < self.plan.end) else {
                self.now = self.plan.end;
                break EndReason::Duration;
            };
            self.step(next, observer);
            if self.unfinished == 0 && self.plan.ends_when_done {
                break EndReason::AllDone;
            }
            if self.events >= report_at {
                report_at = self.events + REPORT_EVERY;
                control.report(self.now, self.events);
                if control.is_cancelled() {
                    break EndReason::Cancelled;
                }
            }
        };
        control.report(self.now, self.events);
        self.finish(end)
    }

    /// Notes which events the observer wants.
    fn observe(&mut self, observer: &dyn Observer) {
        self.network.wanted = Wanted::by(observer);
        if let Some(radios) = &mut self.network.radios {
            radios.events = self.network.wanted.frames.then(Vec::new);
        }
    }

    /// Processes the next event.
    #[inline]
    fn step(&mut self, next: Scheduled, observer: &mut dyn Observer) {
        self.now = next.at;
        self.events += 1;
        match next.event {
            Event::Arrival { direction } => {
                if let Some(packet) = self.network.take_arrival(direction, next.seq) {
                    self.arrived(packet, observer);
                }
            }
            event => {
                self.network.queue.pop();
                self.happen(event, next.seq, observer);
            }
        }
    }

    fn begin(&mut self, observer: &mut dyn Observer) {
        if self.network.wanted.series {
            self.network.queue.push(Time::ZERO + self.plan.interval, Event::Sample);
        }
        self.network.start_routing(self.now, observer);
        for agent in AgentId::all(self.flows.len() as u32) {
            self.with_agent(agent, observer, |agent, context| match agent {
                Agent::Sctp(end) => {
                    end.begin(context);
                    end.set_trace(context.network.wanted.trace);
                }
                Agent::TcpSender(sender) => sender.begin(context),
                Agent::UdpSender(sender) => sender.begin(context),
                Agent::TcpReceiver(_) | Agent::UdpReceiver(_) | Agent::Outside => {}
            });
        }
    }

    /// Calls an agent with its context.
    #[inline]
    fn with_agent(
        &mut self,
        agent: AgentId,
        observer: &mut dyn Observer,
        f: impl FnOnce(&mut Agent, &mut Context<'_>),
    ) {
        let mut context = Context {
            now: self.now,
            network: &mut self.network,
            flow: &mut self.flows[agent.flow() as usize],
            observer,
        };
        f(&mut self.agents[agent.index()], &mut context);
    }

    /// Handles a packet at the end of a link.
    #[inline]
    fn arrived(&mut self, packet: PacketId, observer: &mut dyn Observer) {
        if let Some(copy) = self.network.split(packet) {
            self.arrived_once(packet, observer);
            self.arrived_once(copy, observer);
        } else {
            self.arrived_once(packet, observer);
        }
    }

    #[inline]
    fn arrived_once(&mut self, id: PacketId, observer: &mut dyn Observer) {
        let Some(id) = self.network.arrived(self.now, id, observer) else {
            return;
        };
        self.hand_over(id, observer);
    }

    /// Delivers a packet at the end of its route to its agent.
    #[inline]
    fn hand_over(&mut self, id: PacketId, observer: &mut dyn Observer) {
        let packet = self.network.slab.get(id);
        let agent = packet.agent;
        if packet.is_forward() && self.network.window.contains(self.now) {
            let flow = &mut self.flows[agent.flow() as usize];
            flow.arrived_packets += 1;
            flow.arrived_after += self.now.since(packet.sent).as_nanos();
        }
        if packet.is_forward() && !packet.is_copy && self.network.window.contains(packet.sent) {
            self.flows[agent.flow() as usize].delivered_packets += 1;
        }
        self.with_agent(agent, observer, |agent, context| match agent {
            Agent::Sctp(end) => end.receive(context, id),
            Agent::TcpSender(sender) => sender.receive(context, id),
            Agent::TcpReceiver(receiver) => receiver.receive(context, id),
            Agent::UdpReceiver(receiver) => receiver.receive(context, id),
            Agent::UdpSender(_) => context.network.slab.release(id),
            Agent::Outside => context.leave(id),
        });
        self.check_finished(agent);
    }

    /// Passes a report about a packet that was too long to its source: the packet, with the MTU as its size.
    #[cold]
    fn report_mtu(&mut self, id: PacketId, observer: &mut dyn Observer) {
        let packet = *self.network.slab.get(id);
        let agent = packet.agent;
        let known = &mut self.flows[agent.flow() as usize].path_mtus;
        known.lower(packet.route, packet.size);
        self.with_agent(agent, observer, |agent, context| match agent {
            Agent::Outside => context.leave_report(id),
            _ => {
                context.network.slab.release(id);
                match agent {
                    Agent::Sctp(end) => end.limit_mtu(context, packet.route, packet.size),
                    Agent::TcpSender(sender) => sender.limit_mtu(context, packet.size),
                    // Acknowledgements have no data that could be less, and datagrams are fragmented.
                    Agent::TcpReceiver(_) | Agent::UdpSender(_) | Agent::UdpReceiver(_) | Agent::Outside => {}
                }
            }
        });
    }

    /// Handles all events except the in-order arrival of packets.
    fn happen(&mut self, event: Event, seq: u64, observer: &mut dyn Observer) {
        match event {
            Event::Arrival { .. } => {}
            Event::Loose { packet } => self.arrived(packet, observer),
            Event::Wake { agent } => {
                self.with_agent(agent, observer, |agent, context| match agent {
                    Agent::Sctp(end) => end.wake(context, seq),
                    Agent::TcpSender(sender) => sender.wake(context, seq),
                    Agent::TcpReceiver(receiver) => receiver.wake(context, seq),
                    Agent::UdpSender(sender) => sender.wake(context, seq),
                    Agent::UdpReceiver(_) | Agent::Outside => {}
                });
                self.check_finished(agent);
            }
            Event::Report { packet } => self.report_mtu(packet, observer),
            Event::Enter { packet } => self.network.send(self.now, packet, observer),
            Event::Departure { direction } => self.network.depart(self.now, direction, observer),
            Event::Radio { radio } => self.network.wake_radio(self.now, radio, seq, observer),
            Event::Routing { radio } => self.network.wake_routing(self.now, radio, seq, observer),
            Event::Control { message } => self.network.send_control(self.now, message, observer),
            Event::Leave { handoff } => self.network.leave_access_point(self.now, handoff),
            Event::Join { handoff } => self.network.join_access_point(self.now, handoff, observer),
            Event::SignalBegins { transmission } => {
                self.now = self.network.move_edge(self.now, transmission, false, observer);
            }
            Event::SignalEnds { transmission } => {
                self.now = self.network.move_edge(self.now, transmission, true, observer);
                while let Some(landed) = self.network.landed.pop() {
                    self.hand_over(landed, observer);
                }
            }
            Event::LinkStep { link } => self.step_link(link, observer),
            Event::Sample => self.sample(observer),
            Event::WindowOpens => self.agents.iter_mut().for_each(Agent::open_window),
            Event::WindowCloses => self.agents.iter_mut().for_each(Agent::close_window),
        }
    }

    fn step_link(&mut self, link: u32, observer: &mut dyn Observer) {
        let schedule = &self.plan.schedules[link as usize];
        let place = &mut self.next_steps[link as usize];
        let step = &schedule[*place];
        *place += 1;
        if let Some(next) = schedule.get(*place) {
            self.network.queue.push(Time::ZERO + next.at, Event::LinkStep { link });
        }
        if let Some(up) = step.up {
            self.network.set_link(self.now, link, up, observer);
        }
        for (end, change) in (0..).zip(&step.changes) {
            if !change.is_empty() {
                self.network.change(self.now, DirectionId::of_link(link, end), change);
            }
        }
    }

    /// Checks whether a finite flow is now complete.
    #[inline]
    fn check_finished(&mut self, agent: AgentId) {
        let flow = agent.flow() as usize;
        if self.finished[flow] {
            return;
        }
        // A receiver without an association, or one that the end cannot reach, is not waited for.
        let is_finished = match ends_of(&self.agents, agent.flow()) {
            (Agent::Sctp(sender), Agent::Sctp(receiver)) => {
                sender.is_over() && (receiver.is_over() || !receiver.was_up() || !sender.ended_well())
            }
            (Agent::TcpSender(sender), Agent::TcpReceiver(receiver)) => {
                sender.is_over() && (receiver.is_over() || !receiver.was_up() || !sender.ended_well())
            }
            _ => return,
        };
        if is_finished {
            self.finished[flow] = true;
            self.unfinished -= 1;
        }
    }

    fn sample(&mut self, observer: &mut dyn Observer) {
        let at = self.now;
        let over: Span = at.since(self.last_sample);
        self.last_sample = at;
        for (agent, end) in AgentId::all(self.flows.len() as u32).zip(&self.agents) {
            if let Agent::TcpSender(sender) = end
                && sender.is_up()
            {
                let routes = &self.flows[agent.flow() as usize].routes;
                let route = &self.network.topology.routes[routes.forward[0] as usize];
                observer.sample(&sender.sample(at, route));
            }
            let Agent::Sctp(end) = end else { continue };
            for path in end
                .association()
                .into_iter()
                .flat_map(|association| association.paths())
            {
                observer.sample(&Sample::Path {
                    at,
                    flow: agent.flow(),
                    forward: agent.is_sender(),
                    path: path.id,
                    local: path.local,
                    remote: path.remote,
                    cwnd: path.cwnd,
                    ssthresh: path.ssthresh,
                    flight: path.flight,
                    srtt: path.srtt,
                    rto: path.rto,
                    quality: Some(path.quality),
                });
            }
        }
        for flow in 0..self.flows.len() {
            let sink = self.sink_mut(flow);
            let bytes = sink.bytes - core::mem::replace(&mut sink.sampled_bytes, sink.bytes);
            let flow = flow as u32;
            observer.sample(&Sample::Goodput { at, flow, bytes, over });
        }
        let directions = DirectionId::all(self.network.directions.len() / 2);
        for (direction, link) in directions.zip(&self.network.directions) {
            let waiting = link.waiting_at(at);
            observer.sample(&Sample::Queue {
                at,
                direction,
                packets: waiting.packets,
                bytes: waiting.bytes,
                average: link.average_queue(),
            });
        }
        if let Some(radios) = &mut self.network.radios {
            for radio in 0..self.plan.radios.len() as u32 {
                let (place, packets) = radios.sample(at, radio);
                let (x, y) = (place.x, place.y);
                observer.sample(&Sample::Radio {
                    at,
                    radio,
                    x,
                    y,
                    packets,
                });
            }
        }
        self.network.queue.push(at + self.plan.interval, Event::Sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_may_move_to_another_thread() {
        fn is_send<T: Send>() {}
        is_send::<World>();
        is_send::<RunResult>();
    }
}
