//! The ends of flows: sources, transports and sinks.

mod applications;
mod file;
mod pending;
mod sctp;
mod sink;
mod source;
mod tcp;
mod udp;

pub(crate) use self::applications::Applications;
pub(crate) use self::file::{FileContent, IN_MEMORY};
pub(crate) use self::sctp::{AddressChange, SctpEnd, SctpSetup};
pub(crate) use self::sink::Sink;
pub(crate) use self::source::Source;
pub(crate) use self::tcp::{ReceiverSetup, SenderSetup, TcpReceiver, TcpSender};
pub(crate) use self::udp::{UdpReceiver, UdpSender};

use std::ops::Range;

use whimbrel_control::Time;

use crate::engine::{Event, EventQueue};
use crate::ids::{AgentId, DirectionId};
use crate::link::Window;
use crate::measure::VerdictCounts;
use crate::network::{Left, Network};
use crate::packet::{Congestion, IP_HEADER, Oversize, PacketId};
use crate::topology::{FlowRoutes, RouteId};

/// The payload protocol identifier of a message is its number with this bit flipped. Without it, captures would show the small
/// numbers as identifiers that IANA has assigned.
const PPID_MASK: u32 = 1 << 31;

/// One end of a flow.
#[derive(Debug)]
pub(crate) enum Agent {
    Sctp(Box<SctpEnd>),
    TcpSender(Box<TcpSender>),
    TcpReceiver(Box<TcpReceiver>),
    UdpSender(Box<UdpSender>),
    UdpReceiver(UdpReceiver),
    /// The end is outside the simulation.
    Outside,
}

/// Returns the sending and the receiving end of a flow.
pub(crate) fn ends_of(agents: &[Agent], flow: u32) -> (&Agent, &Agent) {
    let sender = AgentId::sender(flow);
    (&agents[sender.index()], &agents[sender.peer().index()])
}

impl Agent {
    /// Handles the start of the measurement window.
    pub(crate) fn open_window(&mut self) {
        match self {
            Agent::Sctp(end) => end.open_window(),
            Agent::TcpSender(end) => end.open_window(),
            Agent::TcpReceiver(end) => end.open_window(),
            Agent::UdpSender(_) | Agent::UdpReceiver(_) | Agent::Outside => {}
        }
    }

    /// Handles the end of the measurement window.
    pub(crate) fn close_window(&mut self) {
        match self {
            Agent::Sctp(end) => end.close_window(),
            Agent::TcpSender(end) => end.close_window(),
            Agent::TcpReceiver(end) => end.close_window(),
            Agent::UdpSender(_) | Agent::UdpReceiver(_) | Agent::Outside => {}
        }
    }
}

/// State that the two ends of a flow share: what was sent and what was delivered. Only a simulator can have it; it measures delays
/// and detects wrong deliveries.
#[derive(Debug)]
pub(crate) struct FlowState {
    pub(crate) routes: FlowRoutes,
    pub(crate) sink: Sink,
    /// Other flows whose messages the association carries.
    pub(crate) classes: Vec<Class>,
    /// IP packets and bytes that each end sent in the window.
    pub(crate) sent_packets: [u64; 2],
    pub(crate) sent_bytes: [u64; 2],
    /// Packets sent by each end, over the whole run.
    pub(crate) numbers: [u32; 2],
    /// Packets of the sender that arrived in the window, and the sum of their delays, ns.
    pub(crate) arrived_packets: u64,
    pub(crate) arrived_after: u64,
    /// Packets that the sender sent in the window and that arrived at any time, without duplicates.
    pub(crate) delivered_packets: u64,
    /// Packets received and discarded by either end.
    pub(crate) discarded: u64,
    /// The sender's verdicts on its losses.
    pub(crate) verdicts: VerdictCounts,
    /// Path MTUs that the hosts know of reports, by route.
    pub(crate) path_mtus: PathMtus,
}

/// A flow whose messages another flow's association carries.
#[derive(Debug)]
pub(crate) struct Class {
    /// Its streams.
    pub(crate) streams: Range<u16>,
    pub(crate) sink: Sink,
}

/// The path MTUs below those of the transports that hosts know, by route. Most flows have none.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathMtus(Vec<(RouteId, u32)>);

impl PathMtus {
    /// Lowers the path MTU of a route.
    pub(crate) fn lower(&mut self, route: RouteId, mtu: u32) {
        match self.0.iter_mut().find(|(known, _)| *known == route) {
            Some((_, known)) => *known = mtu.min(*known),
            None => self.0.push((route, mtu)),
        }
    }

    /// Returns what routers may do with a packet. A transport cannot always obey a path MTU: data that was sent before keeps its length, and
    /// headers have a minimum. IP cuts such packets.
    #[inline]
    fn oversize(&self, route: RouteId, size: u32) -> Oversize {
        match self.0.iter().find(|(known, _)| *known == route) {
            Some((_, mtu)) if size > *mtu => Oversize::Fragment,
            _ => Oversize::Report,
        }
    }
}

impl FlowState {
    /// Returns the sink for the messages of a stream.
    #[inline]
    pub(crate) fn sink_of(&mut self, stream: u16) -> &mut Sink {
        let mut classes = self.classes.iter_mut();
        match classes.find(|class| class.streams.contains(&stream)) {
            Some(class) => &mut class.sink,
            None => &mut self.sink,
        }
    }

    /// Returns the user data delivered in the window, of all flows that the transport carries, in bytes.
    pub(crate) fn carried_bytes(&self) -> u64 {
        let classes = self.classes.iter().map(|class| class.sink.window_bytes);
        self.sink.window_bytes + classes.sum::<u64>()
    }

    /// Completes the record of a packet of `len` bytes after the IP header that agent `from` sends along `route`.
    #[inline]
    pub(crate) fn address_packet(
        &mut self,
        network: &mut Network,
        now: Time,
        id: PacketId,
        from: AgentId,
        route: RouteId,
        len: u32,
    ) {
        let side = usize::from(!from.is_sender());
        let size = len + IP_HEADER;
        if network.window.contains(now) {
            self.sent_packets[side] += 1;
            self.sent_bytes[side] += u64::from(size);
        }
        let number = self.numbers[side];
        self.numbers[side] = number.wrapping_add(1);
        let kinds = if network.needs_kinds {
            network.slab.body(id).kinds()
        } else {
            Default::default()
        };
        let oversize = self.path_mtus.oversize(route, size);
        let way = &network.topology.routes[route as usize];
        let packet = network.slab.get_mut(id);
        packet.sent = now;
        packet.flow = from.flow();
        packet.number = number;
        packet.size = size;
        packet.hop = way.start;
        packet.last_hop = way.end;
        packet.route = route;
        packet.agent = from.peer();
        packet.direction = DirectionId::NONE;
        packet.kinds = kinds;
        packet.congestion = Congestion::NONE;
        packet.fate = 0;
        packet.twice = false;
        packet.oversize = oversize;
        packet.is_fragment = false;
        packet.is_copy = false;
    }
}

/// Pending wake-ups of an agent, the next one last.
///
/// A wake-up earlier than the pending ones is added; a later one is not needed, because the agent sets its alarm again at every
/// wake-up. Therefore frequent restarts of a timer add no events, and a short timer beside a long one leaves no stale event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alarm {
    pending: Vec<(Time, u64)>,
}

impl Alarm {
    /// Ensures that the agent is woken at `deadline` or earlier.
    #[inline]
    pub(crate) fn arm(&mut self, queue: &mut EventQueue, agent: AgentId, deadline: Option<Time>) {
        let Some(deadline) = deadline else { return };
        if self.pending.last().is_some_and(|(at, _)| *at <= deadline) {
            return;
        }
        let seq = queue.push(deadline, Event::Wake { agent });
        self.pending.push((deadline, seq));
    }

    /// Returns whether this wake-up was pending, and removes it.
    #[inline]
    pub(crate) fn ring(&mut self, seq: u64) -> bool {
        let current = self.pending.last().is_some_and(|(_, pending)| *pending == seq);
        if current {
            self.pending.pop();
        }
        current
    }
}

/// Arguments of a call to an agent.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) network: &'a mut Network,
    pub(crate) flow: &'a mut FlowState,
    pub(crate) observer: &'a mut dyn crate::observer::Observer,
}

impl Context<'_> {
    pub(crate) fn window(&self) -> Window {
        self.network.window
    }

    /// Passes a packet to its end outside the simulation. The bytes to the flow's receiver are the flow's goodput.
    pub(crate) fn leave(&mut self, id: PacketId) {
        let packet = self.network.slab.get(id);
        if packet.is_forward() {
            let delivery = sink::Delivery {
                stream: 0,
                unordered: true,
                number: packet.number,
                len: self.network.slab.body(id).bytes.len() as u64,
                end: true,
            };
            let (sent, is_copy) = (packet.sent, packet.is_copy);
            let (now, window) = (self.now, self.window());
            self.flow.sink.deliver_datagram(now, window, delivery, sent, is_copy);
        }
        self.network.delivered.push_back((self.now, Left::Arrived(id)));
    }

    /// Passes a report about a packet that was too long to its source outside the simulation.
    pub(crate) fn leave_report(&mut self, id: PacketId) {
        self.network.delivered.push_back((self.now, Left::TooLong(id)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_only_earlier_alarms_and_each_rings_once() {
        let mut queue = EventQueue::default();
        let mut alarm = Alarm::default();
        for at in [30, 10, 20, 10, 5, 40] {
            alarm.arm(&mut queue, AgentId::sender(0), Some(Time::from_nanos(at)));
        }
        let mut rung = Vec::new();
        while let Some(next) = queue.peek() {
            queue.pop();
            assert!(!alarm.ring(next.seq + 1000), "a number that was never pending");
            assert!(alarm.ring(next.seq));
            rung.push(next.at.as_nanos());
        }
        assert_eq!(rung, [5, 10, 30]);
    }
}
