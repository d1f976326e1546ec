//! Watching a run: typed events, built only if somebody wants their kind.

use std::net::SocketAddr;

use whimbrel_control::{Span, Time};
use whimbrel_proto::{Ecn, PathId, PathQuality, TraceKinds, TraceRecord};
use whimbrel_wire::PacketView;

use crate::host::TcpSegment;
use crate::ledger::DropCause;
use crate::packet::Congestion;
use crate::radio::FrameKind;

/// Kinds of events that an observer may want.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Packets as hosts send and receive them.
    HostPackets,
    /// Packets at each link.
    LinkPackets,
    /// Packets that die.
    Drops,
    /// Series sampled at each interval.
    Series,
    /// Frames on the air.
    Frames,
    /// Next hops of packets over radios.
    Routes,
}

/// Somebody who watches a run. It is asked once, when the run begins, what it wants; it cannot change the run.
///
/// Events come in the order of their times, with one exception: what happens to a packet at links within the network
/// ([`PacketFate::Enqueued`], [`PacketFate::Crossed`]) is told when it is known, which may be ahead of time. A writer that needs these
/// in order sorts them.
pub trait Observer {
    /// Whether events of this kind are wanted.
    fn wants(&self, interest: Interest) -> bool;

    /// Which of the protocol's trace records are wanted.
    fn trace_kinds(&self) -> TraceKinds {
        TraceKinds::NONE
    }

    /// Something happened to a packet.
    fn packet(&mut self, event: &PacketEvent<'_>) {
        let _ = event;
    }

    /// A frame was sent by a radio, or lost at the one that it was for.
    fn frame(&mut self, event: &FrameEvent) {
        let _ = event;
    }

    /// Packets take another next hop.
    fn route(&mut self, event: &RouteEvent) {
        let _ = event;
    }

    /// A value of a series.
    fn sample(&mut self, sample: &Sample) {
        let _ = sample;
    }

    /// The protocol reports from the end of a flow; `forward` is the sender. TCP has no TSNs: what is called so is a sequence number,
    /// and an ECNE is ECN-Echo.
    fn trace(&mut self, flow: u32, forward: bool, record: &TraceRecord) {
        let _ = (flow, forward, record);
    }
}

/// Wants nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn wants(&self, _: Interest) -> bool {
        false
    }
}

/// What happened to a packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PacketFate {
    /// A host sent it.
    Sent,
    /// It entered the queue of a link, behind so many others.
    Enqueued {
        /// Packets that waited before it.
        waiting: u32,
    },
    /// It arrived at the other end of a link.
    Crossed,
    /// A host received it.
    Delivered,
    /// It died.
    Dropped(DropCause),
}

/// Something that happened to a packet.
#[derive(Clone, Debug)]
pub struct PacketEvent<'a> {
    /// When.
    pub at: Time,
    /// What.
    pub fate: PacketFate,
    /// The packet's flow, by its place in the scenario.
    pub flow: u32,
    /// Whether it goes from the flow's sender to its receiver.
    pub forward: bool,
    /// Its number among the packets of its flow in that direction, from 0; a copy has the number of its original.
    pub number: u32,
    /// The direction of a link it is on, or (as hosts send and receive it) will be on first or was on last.
    pub direction: Option<u32>,
    /// When its host sent it.
    pub sent: Time,
    /// The address it comes from.
    pub source: SocketAddr,
    /// The address it goes to.
    pub destination: SocketAddr,
    /// The ECN bits of its IP header.
    pub ecn: Ecn,
    /// What queues have told by it beyond the ECN bits.
    pub congestion: Congestion,
    /// Bytes of IP packet.
    pub size: u32,
    /// The SCTP packet; none for a TCP segment, and for a datagram of a UDP flow, whose content is nothing but a length.
    pub sctp: Option<PacketView<'a>>,
    /// The TCP segment, if it is one, and the bytes of its payload if the flow carries a file.
    pub tcp: Option<(&'a TcpSegment, &'a [u8])>,
}

/// A frame that was sent, or was lost at the radio that it was for. Radios go by their places in the scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameEvent {
    /// When it began, or was lost.
    pub at: Time,
    /// What it was lost by, if it was: [`DropCause::Collision`], [`DropCause::HiddenNode`], [`DropCause::ChannelError`] or
    /// [`DropCause::OutOfRange`].
    pub lost: Option<DropCause>,
    /// Its type.
    pub kind: FrameKind,
    /// The radio that sent it.
    pub from: u32,
    /// The radio that it is for; none if it is for all.
    pub to: Option<u32>,
    /// The flow on whose behalf it is sent; none if it is a routing protocol's own.
    pub flow: Option<u32>,
    /// How long it takes.
    pub airtime: Span,
    /// Whether it was sent before.
    pub retry: bool,
}

/// Packets at a radio take another next hop to a destination than the packet before them, or found none. Radios go by their places in
/// the scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteEvent {
    /// When.
    pub at: Time,
    /// The radio that sends on.
    pub radio: u32,
    /// The radio that packets go to.
    pub destination: u32,
    /// Which of several ways to it that share no node, from 0.
    pub rank: u8,
    /// The radio that they are sent to next; none if they are given up.
    pub next_hop: Option<u32>,
}

/// A value of a series.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sample {
    /// A path of an association.
    Path {
        /// When.
        at: Time,
        /// The flow.
        flow: u32,
        /// Whether it is the sender's.
        forward: bool,
        /// The path.
        path: PathId,
        /// The address that it starts at.
        local: SocketAddr,
        /// The address that it leads to.
        remote: SocketAddr,
        /// Congestion window, bytes.
        cwnd: u64,
        /// Slow-start threshold, bytes.
        ssthresh: u64,
        /// Bytes in flight.
        flight: u64,
        /// Smoothed round-trip time, if one was measured.
        srtt: Option<Span>,
        /// Retransmission timeout.
        rto: Span,
        /// Losses, jitter, delivery rate; not of TCP.
        quality: Option<PathQuality>,
    },
    /// User data that a flow delivered since the sample before.
    Goodput {
        /// When.
        at: Time,
        /// The flow.
        flow: u32,
        /// Bytes.
        bytes: u64,
        /// Time since the sample before.
        over: Span,
    },
    /// A queue.
    Queue {
        /// When.
        at: Time,
        /// The direction of a link.
        direction: u32,
        /// Packets that wait.
        packets: u32,
        /// Their bytes.
        bytes: u64,
        /// The average that an active queue goes by, as of the last arrival and in the unit of its thresholds.
        average: Option<f64>,
    },
    /// A radio.
    Radio {
        /// When.
        at: Time,
        /// Its place in the scenario.
        radio: u32,
        /// Where its node is, m.
        x: f64,
        /// The same.
        y: f64,
        /// Packets that wait in its queue.
        packets: u32,
    },
}

/// What the observer of a run wants, asked once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) host_packets: bool,
    pub(crate) link_packets: bool,
    pub(crate) drops: bool,
    pub(crate) series: bool,
    pub(crate) frames: bool,
    pub(crate) routes: bool,
    pub(crate) trace: TraceKinds,
}

impl Wanted {
    pub(crate) fn by(observer: &dyn Observer) -> Self {
        Wanted {
            host_packets: observer.wants(Interest::HostPackets),
            link_packets: observer.wants(Interest::LinkPackets),
            drops: observer.wants(Interest::Drops),
            series: observer.wants(Interest::Series),
            frames: observer.wants(Interest::Frames),
            routes: observer.wants(Interest::Routes),
            trace: observer.trace_kinds(),
        }
    }
}
