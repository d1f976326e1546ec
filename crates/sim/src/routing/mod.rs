//! Ad hoc routing protocols as state machines: AODV, DSDV and DSR.
//!
//! An [`Agent`] is the routing of one radio interface. It knows neither the medium nor the world: it is told what arrives, what
//! could not be sent and what time it is, and answers with [`Action`]s. Time and randomness are arguments.
//!
//! ## The contract of a driver
//!
//! 1. **Call** one of the agent's functions with a [`Context`].
//! 2. **Do** every action that was added to `actions`, in order, and clear the list. Doing an action may lead to another call (a
//!    queue that is full at once, for instance): then first finish the list.
//! 3. **Wait** for a packet, a failure or for [`Agent::next_timeout`], at which [`Agent::handle_timeout`] is called. Early calls do
//!    nothing.
//!
//! ## Data packets
//!
//! A packet of a flow is named by its place ([`Handle`]) in the slice of [`Datagram`]s that the driver keeps. A packet handed to an
//! agent by [`Agent::originate`], [`Agent::receive_data`] or [`Agent::data_failed`] is the agent's until it comes back in exactly
//! one of [`Action::Send`], [`Action::Deliver`] and [`Action::Drop`], at once or later. [`Agent::overhear_data`] hands nothing over.
//!
//! ## Control messages
//!
//! [`Action::Broadcast`] and [`Action::Unicast`] put a [`Message`] on the air: an IP packet of [`Message::bytes`] bytes. What arrives
//! is handed to [`Agent::receive_control`] with the address of the neighbour that transmitted it, whatever its final destination is:
//! messages travel further only if an agent sends them again.

mod aodv;
mod buffer;
mod dsdv;
mod dsr;
#[cfg(test)]
mod harness;
mod message;
mod seen;
mod source_route;

use whimbrel_control::{Rng, Span, Time};

use crate::config::ChannelRouting;

pub use self::aodv::Aodv;
pub use self::dsdv::Dsdv;
pub use self::dsr::Dsr;
pub use self::message::{
    AODV_PORT_HEADERS, BrokenLink, DsdvEntry, DsrError, DsrReply, DsrRequest, Message, MessageKind, Rerr, Rrep, Rreq,
    Unreachable,
};
pub use self::source_route::{MAX_ROUTE, SourceRoute};

/// A radio interface in the eyes of routing: its number among those of its channel.
pub type Address = u16;

/// A data packet's place among the datagrams of the driver.
pub type Handle = u32;

/// TTL of packets unless their flow says otherwise.
pub const DEFAULT_TTL: u8 = 64;

/// What routing needs to know of a data packet. It travels with the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Interface it was first sent from.
    pub source: Address,
    /// Interface it is for.
    pub destination: Address,
    /// Number among the packets of its source, as the identification in the IP header.
    pub id: u32,
    /// Hops it may still be sent, 1 or more when it is handed in by its source.
    pub ttl: u8,
    /// Which of several ways to its destination it is to take, from 0. They share no node, as far as DSR knows such; other protocols know
    /// one way.
    pub rank: u8,
    /// The source route, empty for every protocol but DSR.
    pub route: SourceRoute,
}

impl Datagram {
    /// A packet as its source hands it in.
    pub fn new(source: Address, destination: Address, id: u32) -> Self {
        Datagram {
            source,
            destination,
            id,
            ttl: DEFAULT_TTL,
            rank: 0,
            route: SourceRoute::default(),
        }
    }

    /// Bytes that routing adds to the IP packet on the air: the headers of DSR, nothing otherwise.
    #[inline]
    pub fn header_bytes(&self) -> u32 {
        self.route.header_bytes()
    }
}

/// Why routing gave up a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// No route was known or found.
    NoRoute,
    /// The buffer for packets that wait for a route had no room.
    BufferFull,
    /// It waited too long for a route.
    BufferTimeout,
    /// It was sent over as many hops as it may be.
    TtlExpired,
    /// The link to its next hop broke, and no other way was known.
    LinkBroken,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 5] = [
        Cause::NoRoute,
        Cause::BufferFull,
        Cause::BufferTimeout,
        Cause::TtlExpired,
        Cause::LinkBroken,
    ];
}

/// What a driver does for an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Puts a data packet into the interface queue for this neighbour. Its datagram is up to date.
    Send {
        /// The packet.
        packet: Handle,
        /// The neighbour.
        next_hop: Address,
    },
    /// Hands a data packet to the host: it has arrived.
    Deliver {
        /// The packet.
        packet: Handle,
    },
    /// Gives a data packet up.
    Drop {
        /// The packet.
        packet: Handle,
        /// Why.
        cause: Cause,
    },
    /// Puts a control message for all neighbours into the interface queue, after a delay against collisions.
    Broadcast {
        /// The message.
        message: Message,
        /// The delay.
        delay: Span,
    },
    /// Puts a control message for one neighbour into the interface queue, after a delay.
    Unicast {
        /// The message.
        message: Message,
        /// The neighbour.
        next_hop: Address,
        /// The delay.
        delay: Span,
    },
    /// Takes every packet that waits for this neighbour out of the interface queue: data packets are handed back by
    /// [`Agent::data_failed`], messages by [`Agent::control_failed`].
    Reclaim {
        /// The neighbour.
        next_hop: Address,
    },
}

/// What an agent is called with.
#[derive(Debug)]
pub struct Context<'a> {
    /// The time.
    pub now: Time,
    /// Random numbers of this agent.
    pub rng: &'a mut Rng,
    /// Data packets by [`Handle`].
    pub datagrams: &'a mut [Datagram],
    /// What is to be done is added here.
    pub actions: &'a mut Vec<Action>,
}

/// What an agent counts of its own messages and packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages it put on the air, its own and those it passed on, by [`MessageKind`].
    pub messages: [u64; MessageKind::ALL.len()],
    /// Bytes of IP packets of these.
    pub bytes: u64,
    /// Route discoveries it began.
    pub discoveries: u64,
    /// Discoveries that found nothing.
    pub discoveries_failed: u64,
    /// Repairs it began where a link had broken (AODV), or packets it saved by a route of its own (DSR).
    pub repairs: u64,
    /// Links it took for broken.
    pub link_failures: u64,
    /// Data packets it sent, its own and those it passed on.
    pub data_sent: u64,
}

impl Counters {
    /// Messages of all kinds.
    pub fn control(&self) -> u64 {
        self.messages.iter().sum()
    }
}

impl Context<'_> {
    /// A random delay below `most`.
    pub(crate) fn jitter(&mut self, most: Span) -> Span {
        Span::from_nanos(self.rng.below(most.as_nanos()))
    }

    /// Counts a hop of a packet that arrived, and says whether it has to go on. Otherwise it has come to its end here.
    #[inline]
    pub(crate) fn arrived(&mut self, address: Address, packet: Handle) -> bool {
        let datagram = &mut self.datagrams[packet as usize];
        if datagram.destination == address {
            self.actions.push(Action::Deliver { packet });
            return false;
        }
        datagram.ttl = datagram.ttl.saturating_sub(1);
        if datagram.ttl == 0 {
            self.drop(packet, Cause::TtlExpired);
            return false;
        }
        true
    }

    pub(crate) fn drop(&mut self, packet: Handle, cause: Cause) {
        self.actions.push(Action::Drop { packet, cause });
    }

    pub(crate) fn broadcast(&mut self, counters: &mut Counters, message: Message, delay: Span) {
        counters.messages[message.kind() as usize] += 1;
        counters.bytes += u64::from(message.bytes());
        self.actions.push(Action::Broadcast { message, delay });
    }

    pub(crate) fn unicast(&mut self, counters: &mut Counters, next_hop: Address, message: Message, delay: Span) {
        counters.messages[message.kind() as usize] += 1;
        counters.bytes += u64::from(message.bytes());
        self.actions.push(Action::Unicast {
            message,
            next_hop,
            delay,
        });
    }
}

/// A routing protocol: what the driver tells it, and what it asks it.
pub trait Protocol {
    /// The interface comes up.
    fn start(&mut self, cx: &mut Context<'_>);
    /// The host sends a packet. Its datagram names source, destination and TTL.
    fn originate(&mut self, cx: &mut Context<'_>, packet: Handle);
    /// A data packet arrives from a neighbour, for this node or another.
    fn receive_data(&mut self, cx: &mut Context<'_>, from: Address, packet: Handle);
    /// A control message arrives from a neighbour.
    fn receive_control(&mut self, cx: &mut Context<'_>, from: Address, message: &Message);
    /// A data packet could not be sent to this neighbour (link-layer feedback), or was taken out of the queue for it.
    fn data_failed(&mut self, cx: &mut Context<'_>, next_hop: Address, packet: Handle);
    /// A data packet was given up by the link layer although the neighbour has it: acknowledgements were lost.
    fn link_failed(&mut self, cx: &mut Context<'_>, next_hop: Address);
    /// A control message could not be sent to this neighbour, or was taken out of the queue for it.
    fn control_failed(&mut self, cx: &mut Context<'_>, next_hop: Address, message: &Message);
    /// Whether it wants to hear packets between others.
    fn is_promiscuous(&self) -> bool {
        false
    }
    /// A neighbour's data packet for another was heard, which is told only if [`Agent::is_promiscuous`].
    fn overhear_data(&mut self, _cx: &mut Context<'_>, _from: Address, _to: Address, _packet: &Datagram) {}
    /// A neighbour's message for another was heard, which is told only if [`Agent::is_promiscuous`].
    fn overhear_control(&mut self, _cx: &mut Context<'_>, _from: Address, _to: Address, _message: &Message) {}
    /// When [`Protocol::handle_timeout`] is to be called.
    fn next_timeout(&self) -> Option<Time>;
    /// The time has come.
    fn handle_timeout(&mut self, cx: &mut Context<'_>);
    /// The neighbour that packets for a destination are sent to now, if there is a route that may be used.
    fn next_hop(&self, now: Time, destination: Address) -> Option<Address>;
    /// The last node before the destination on the route in use for packets of this [`Datagram::rank`], where the protocol knows it.
    fn last_hop(&self, now: Time, destination: Address, rank: u8) -> Option<Address>;
    /// Packets that wait for a route.
    fn buffered(&self) -> usize;
    /// What it counted.
    fn counters(&self) -> &Counters;
}

/// The routing of one radio interface.
#[derive(Clone, Debug)]
pub enum Agent {
    /// AODV.
    Aodv(Box<Aodv>),
    /// DSDV.
    Dsdv(Box<Dsdv>),
    /// DSR.
    Dsr(Box<Dsr>),
}

/// Calls the protocol of an agent.
macro_rules! protocol {
    ($agent:expr, $it:ident => $call:expr) => {
        match $agent {
            Agent::Aodv($it) => $call,
            Agent::Dsdv($it) => $call,
            Agent::Dsr($it) => $call,
        }
    };
}

impl Agent {
    /// The agent of a radio on a channel with this routing; none if it needs none.
    pub fn new(routing: &ChannelRouting, address: Address) -> Option<Self> {
        match routing {
            ChannelRouting::Static | ChannelRouting::Direct => None,
            ChannelRouting::Aodv(config) => Some(Agent::Aodv(Box::new(Aodv::new(config, address)))),
            ChannelRouting::Dsdv(config) => Some(Agent::Dsdv(Box::new(Dsdv::new(config, address)))),
            ChannelRouting::Dsr(config) => Some(Agent::Dsr(Box::new(Dsr::new(config, address)))),
        }
    }

    /// The interface comes up.
    pub fn start(&mut self, cx: &mut Context<'_>) {
        protocol!(self, it => it.start(cx));
    }

    /// The host sends a packet. Its datagram names source, destination and TTL; the source route is empty.
    #[inline]
    pub fn originate(&mut self, cx: &mut Context<'_>, packet: Handle) {
        protocol!(self, it => it.originate(cx, packet));
    }

    /// A data packet arrives from a neighbour, for this node or another.
    #[inline]
    pub fn receive_data(&mut self, cx: &mut Context<'_>, from: Address, packet: Handle) {
        protocol!(self, it => it.receive_data(cx, from, packet));
    }

    /// A control message arrives from a neighbour, as broadcast or for this node.
    pub fn receive_control(&mut self, cx: &mut Context<'_>, from: Address, message: &Message) {
        protocol!(self, it => it.receive_control(cx, from, message));
    }

    /// A data packet could not be sent to this neighbour (the link layer gave it up), or was taken out of the queue for it.
    pub fn data_failed(&mut self, cx: &mut Context<'_>, next_hop: Address, packet: Handle) {
        protocol!(self, it => it.data_failed(cx, next_hop, packet));
    }

    /// A data packet was given up by the link layer although the neighbour has it: acknowledgements were lost.
    pub fn link_failed(&mut self, cx: &mut Context<'_>, next_hop: Address) {
        protocol!(self, it => it.link_failed(cx, next_hop));
    }

    /// A control message could not be sent to this neighbour, or was taken out of the queue for it.
    pub fn control_failed(&mut self, cx: &mut Context<'_>, next_hop: Address, message: &Message) {
        protocol!(self, it => it.control_failed(cx, next_hop, message));
    }

    /// Whether it wants to hear packets between others.
    pub fn is_promiscuous(&self) -> bool {
        protocol!(self, it => it.is_promiscuous())
    }

    /// A neighbour's data packet for another was heard.
    pub fn overhear_data(&mut self, cx: &mut Context<'_>, from: Address, to: Address, datagram: &Datagram) {
        protocol!(self, it => it.overhear_data(cx, from, to, datagram));
    }

    /// A neighbour's message for another was heard.
    pub fn overhear_control(&mut self, cx: &mut Context<'_>, from: Address, to: Address, message: &Message) {
        protocol!(self, it => it.overhear_control(cx, from, to, message));
    }

    /// When [`Agent::handle_timeout`] is to be called. Later calls may bring it forward or put it off.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        protocol!(self, it => it.next_timeout())
    }

    /// The time has come.
    pub fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        protocol!(self, it => it.handle_timeout(cx));
    }

    /// The neighbour that packets for a destination are sent to now, if there is a route that may be used.
    pub fn next_hop(&self, now: Time, destination: Address) -> Option<Address> {
        protocol!(self, it => it.next_hop(now, destination))
    }

    /// The last node before the destination on the route in use for packets of this [`Datagram::rank`], where the protocol knows it.
    pub fn last_hop(&self, now: Time, destination: Address, rank: u8) -> Option<Address> {
        protocol!(self, it => it.last_hop(now, destination, rank))
    }

    /// Packets that wait for a route.
    pub fn buffered(&self) -> usize {
        protocol!(self, it => it.buffered())
    }

    /// What it counted.
    pub fn counters(&self) -> &Counters {
        protocol!(self, it => it.counters())
    }
}
