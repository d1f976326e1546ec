//! Ad hoc routing protocols as state machines: AODV, DSDV and DSR.
//!
//! An [`Agent`] is the routing of one radio interface. It is independent of the medium: the driver reports received packets, failed
//! transmissions and the time, and the agent returns [`Action`]s. Time and randomness are arguments.
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
//! A packet of a flow is identified by its index ([`Handle`]) in the slice of [`Datagram`]s that the driver keeps. A packet passed
//! to an agent by [`Agent::originate`], [`Agent::receive_data`], [`Agent::data_failed`] or [`Agent::data_returned`] belongs to the agent until it is returned
//! in exactly one of [`Action::Send`], [`Action::Deliver`] and [`Action::Drop`], at once or later. [`Agent::overhear_data`]
//! transfers no ownership.
//!
//! ## Control messages
//!
//! [`Action::Broadcast`] and [`Action::Unicast`] transmit a [`Message`]: an IP packet of [`Message::bytes`] bytes. The driver
//! passes each received message to [`Agent::receive_control`] with the address of the neighbour that transmitted it, independent of
//! its final destination: messages travel further only if an agent forwards them.

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

/// Address of a radio interface: its index among those of its channel.
pub type Address = u16;

/// Index of a data packet among the datagrams of the driver.
pub type Handle = u32;

/// Default TTL of packets.
pub const DEFAULT_TTL: u8 = 64;

/// The fields of a data packet that routing needs. They travel with the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Interface of the source.
    pub source: Address,
    /// Interface of the destination.
    pub destination: Address,
    /// Number among the packets of its source, as the identification in the IP header.
    pub id: u32,
    /// Remaining hops, 1 or more when the source passes it in.
    pub ttl: u8,
    /// Index of the route to use among several node-disjoint routes to the destination, from 0. DSR uses it as far as it knows
    /// disjoint routes; other protocols have a single route.
    pub rank: u8,
    /// The source route; empty for all protocols except DSR.
    pub route: SourceRoute,
}

impl Datagram {
    /// Creates a packet at its source.
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

    /// Returns the bytes that routing adds to the IP packet on the air: the headers of DSR, otherwise 0.
    #[inline]
    pub fn header_bytes(&self) -> u32 {
        self.route.header_bytes()
    }
}

/// Why routing dropped a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// No route was known or found.
    NoRoute,
    /// The buffer for packets that wait for a route was full.
    BufferFull,
    /// It waited too long for a route.
    BufferTimeout,
    /// Its TTL expired.
    TtlExpired,
    /// The link to its next hop broke, and no other route was known.
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

/// An action that a driver executes for an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Puts a data packet into the interface queue for this neighbour. Its datagram has been updated.
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
    /// Drops a data packet.
    Drop {
        /// The packet.
        packet: Handle,
        /// The cause.
        cause: Cause,
    },
    /// Puts a control message for all neighbours into the interface queue, after a delay that avoids collisions.
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
    /// Removes every packet for this neighbour from the interface queue: data packets are returned by [`Agent::data_returned`],
    /// messages by [`Agent::control_failed`].
    Reclaim {
        /// The neighbour.
        next_hop: Address,
    },
}

/// The arguments of a call to an agent.
#[derive(Debug)]
pub struct Context<'a> {
    /// The current time.
    pub now: Time,
    /// The random number generator of this agent.
    pub rng: &'a mut Rng,
    /// Data packets by [`Handle`].
    pub datagrams: &'a mut [Datagram],
    /// Receives the actions of the agent.
    pub actions: &'a mut Vec<Action>,
}

/// Counters of an agent's messages and packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages sent, originated and forwarded, by [`MessageKind`].
    pub messages: [u64; MessageKind::ALL.len()],
    /// Bytes of the IP packets of these messages.
    pub bytes: u64,
    /// Route discoveries started.
    pub discoveries: u64,
    /// Failed route discoveries.
    pub discoveries_failed: u64,
    /// Local repairs started (AODV), or packets salvaged (DSR).
    pub repairs: u64,
    /// Links detected as broken.
    pub link_failures: u64,
    /// Data packets sent, originated and forwarded.
    pub data_sent: u64,
}

impl Counters {
    /// Returns the number of messages of all kinds.
    pub fn control(&self) -> u64 {
        self.messages.iter().sum()
    }
}

impl Context<'_> {
    /// Returns a random delay below `most`.
    pub(crate) fn jitter(&mut self, most: Span) -> Span {
        Span::from_nanos(self.rng.below(most.as_nanos()))
    }

    /// Counts a hop of a packet that arrived. Returns whether the packet must be forwarded; otherwise it is delivered or dropped
    /// here.
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

/// A routing protocol: the interface between the driver and the protocol.
pub trait Protocol {
    /// Starts the interface.
    fn start(&mut self, cx: &mut Context<'_>);
    /// Sends a packet of the host. Its datagram has source, destination and TTL.
    fn originate(&mut self, cx: &mut Context<'_>, packet: Handle);
    /// Handles a data packet from a neighbour, for this node or another one.
    fn receive_data(&mut self, cx: &mut Context<'_>, from: Address, packet: Handle);
    /// Handles a control message from a neighbour.
    fn receive_control(&mut self, cx: &mut Context<'_>, from: Address, message: &Message);
    /// Handles a data packet that could not be sent to this neighbour (link-layer feedback).
    fn data_failed(&mut self, cx: &mut Context<'_>, next_hop: Address, packet: Handle);
    /// Handles a data packet that was removed from the queue for this neighbour: it has not been sent.
    fn data_returned(&mut self, cx: &mut Context<'_>, next_hop: Address, packet: Handle) {
        self.data_failed(cx, next_hop, packet);
    }
    /// Handles a link-layer failure for a data packet that the neighbour has received: its acknowledgements were lost.
    fn link_failed(&mut self, cx: &mut Context<'_>, next_hop: Address);
    /// Handles a control message that could not be sent to this neighbour, or was removed from its queue.
    fn control_failed(&mut self, cx: &mut Context<'_>, next_hop: Address, message: &Message);
    /// Returns whether the protocol overhears packets between other nodes.
    fn is_promiscuous(&self) -> bool {
        false
    }
    /// Handles an overheard data packet. Called only if [`Agent::is_promiscuous`].
    fn overhear_data(&mut self, _cx: &mut Context<'_>, _from: Address, _to: Address, _packet: &Datagram) {}
    /// Handles an overheard control message. Called only if [`Agent::is_promiscuous`].
    fn overhear_control(&mut self, _cx: &mut Context<'_>, _from: Address, _to: Address, _message: &Message) {}
    /// Returns when [`Protocol::handle_timeout`] should be called.
    fn next_timeout(&self) -> Option<Time>;
    /// Handles the expiry of a deadline.
    fn handle_timeout(&mut self, cx: &mut Context<'_>);
    /// Returns the next hop to a destination, if there is a valid route.
    fn next_hop(&self, now: Time, destination: Address) -> Option<Address>;
    /// Returns the last node before the destination on the route for packets of this [`Datagram::rank`], if the protocol knows it.
    fn last_hop(&self, now: Time, destination: Address, rank: u8) -> Option<Address>;
    /// Returns the number of packets that wait for a route.
    fn buffered(&self) -> usize;
    /// Returns the counters.
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
    /// Returns the agent of a radio on a channel with this routing; none if the routing needs no agent.
    pub fn new(routing: &ChannelRouting, address: Address) -> Option<Self> {
        match routing {
            ChannelRouting::Static | ChannelRouting::Direct => None,
            ChannelRouting::Aodv(config) => Some(Agent::Aodv(Box::new(Aodv::new(config, address)))),
            ChannelRouting::Dsdv(config) => Some(Agent::Dsdv(Box::new(Dsdv::new(config, address)))),
            ChannelRouting::Dsr(config) => Some(Agent::Dsr(Box::new(Dsr::new(config, address)))),
        }
    }

    /// Starts the interface.
    pub fn start(&mut self, cx: &mut Context<'_>) {
        protocol!(self, it => it.start(cx));
    }

    /// Sends a packet of the host. Its datagram has source, destination and TTL; the source route is empty.
    #[inline]
    pub fn originate(&mut self, cx: &mut Context<'_>, packet: Handle) {
        protocol!(self, it => it.originate(cx, packet));
    }

    /// Handles a data packet from a neighbour, for this node or another one.
    #[inline]
    pub fn receive_data(&mut self, cx: &mut Context<'_>, from: Address, packet: Handle) {
        protocol!(self, it => it.receive_data(cx, from, packet));
    }

    /// Handles a control message from a neighbour, broadcast or addressed to this node.
    pub fn receive_control(&mut self, cx: &mut Context<'_>, from: Address, message: &Message) {
        protocol!(self, it => it.receive_control(cx, from, message));
    }

    /// Handles a data packet that could not be sent to this neighbour (the link layer gave it up), or was removed from its queue.
    pub fn data_failed(&mut self, cx: &mut Context<'_>, next_hop: Address, packet: Handle) {
        protocol!(self, it => it.data_failed(cx, next_hop, packet));
    }

    /// Handles a data packet that was removed from the queue for this neighbour: it has not been sent.
    pub fn data_returned(&mut self, cx: &mut Context<'_>, next_hop: Address, packet: Handle) {
        protocol!(self, it => it.data_returned(cx, next_hop, packet));
    }

    /// Handles a link-layer failure for a data packet that the neighbour has received: its acknowledgements were lost.
    pub fn link_failed(&mut self, cx: &mut Context<'_>, next_hop: Address) {
        protocol!(self, it => it.link_failed(cx, next_hop));
    }

    /// Handles a control message that could not be sent to this neighbour, or was removed from its queue.
    pub fn control_failed(&mut self, cx: &mut Context<'_>, next_hop: Address, message: &Message) {
        protocol!(self, it => it.control_failed(cx, next_hop, message));
    }

    /// Returns whether the agent overhears packets between other nodes.
    pub fn is_promiscuous(&self) -> bool {
        protocol!(self, it => it.is_promiscuous())
    }

    /// Handles an overheard data packet.
    pub fn overhear_data(&mut self, cx: &mut Context<'_>, from: Address, to: Address, datagram: &Datagram) {
        protocol!(self, it => it.overhear_data(cx, from, to, datagram));
    }

    /// Handles an overheard control message.
    pub fn overhear_control(&mut self, cx: &mut Context<'_>, from: Address, to: Address, message: &Message) {
        protocol!(self, it => it.overhear_control(cx, from, to, message));
    }

    /// Returns when [`Agent::handle_timeout`] should be called. Later calls may change this time.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        protocol!(self, it => it.next_timeout())
    }

    /// Handles the expiry of a deadline.
    pub fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        protocol!(self, it => it.handle_timeout(cx));
    }

    /// Returns the next hop to a destination, if there is a valid route.
    pub fn next_hop(&self, now: Time, destination: Address) -> Option<Address> {
        protocol!(self, it => it.next_hop(now, destination))
    }

    /// Returns the last node before the destination on the route for packets of this [`Datagram::rank`], if the protocol knows it.
    pub fn last_hop(&self, now: Time, destination: Address, rank: u8) -> Option<Address> {
        protocol!(self, it => it.last_hop(now, destination, rank))
    }

    /// Returns the number of packets that wait for a route.
    pub fn buffered(&self) -> usize {
        protocol!(self, it => it.buffered())
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        protocol!(self, it => it.counters())
    }
}
