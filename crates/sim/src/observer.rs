//! Observers of a run: typed events, created only if an observer wants their kind.

use std::net::SocketAddr;

use whimbrel_control::{Span, Time};
use whimbrel_proto::{Ecn, PathId, PathQuality, TraceKinds, TraceRecord};
use whimbrel_wire::PacketView;

use crate::ids::DirectionId;
use crate::ledger::DropCause;
use crate::packet::Congestion;
use crate::segment::TcpSegment;

/// Kinds of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Packets as hosts send and receive them.
    HostPackets,
    /// Packets at each link.
    LinkPackets,
    /// Dropped packets.
    Drops,
    /// Series sampled at each interval.
    Series,
    /// Frames on the air.
    Frames,
    /// Next hops of packets over radios.
    Routes,
}

/// An observer of a run. Its interests are queried once at the start; it cannot change the run.
///
/// Events are ordered by time, with one exception: events of packets at links ([`PacketFate::Enqueued`], [`PacketFate::Crossed`])
/// are reported when they are known, which may be ahead of time. A writer that needs these in order sorts them.
pub trait Observer {
    /// Returns whether events of this kind are wanted.
    fn wants(&self, interest: Interest) -> bool;

    /// Returns which of the protocol's trace records are wanted.
    fn trace_kinds(&self) -> TraceKinds {
        TraceKinds::NONE
    }

    /// Handles an event of a packet.
    fn packet(&mut self, event: &PacketEvent<'_>) {
        let _ = event;
    }

    /// Handles a frame that a radio sent, or that was lost at its receiver.
    fn frame(&mut self, event: &FrameEvent) {
        let _ = event;
    }

    /// Handles a change of the next hop.
    fn route(&mut self, event: &RouteEvent) {
        let _ = event;
    }

    /// Handles a sample of a series.
    fn sample(&mut self, sample: &Sample) {
        let _ = sample;
    }

    /// Handles a protocol trace record from an end of a flow; `forward` is the sender. For TCP, a TSN is a sequence number and an
    /// ECNE is ECN-Echo.
    fn trace(&mut self, flow: u32, forward: bool, record: &TraceRecord) {
        let _ = (flow, forward, record);
    }
}

/// An observer without interests.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn wants(&self, _: Interest) -> bool {
        false
    }
}

/// An event of a packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PacketFate {
    /// A host sent it.
    Sent,
    /// It entered the queue of a link.
    Enqueued {
        /// Packets queued before it.
        waiting: u32,
    },
    /// It arrived at the other end of a link.
    Crossed,
    /// A host received it.
    Delivered,
    /// It was dropped.
    Dropped(DropCause),
}

/// An event of a packet.
#[derive(Clone, Debug)]
pub struct PacketEvent<'a> {
    /// Time.
    pub at: Time,
    /// Kind of event.
    pub fate: PacketFate,
    /// Index of the packet's flow in the scenario.
    pub flow: u32,
    /// Whether it is sent from the flow's sender to its receiver.
    pub forward: bool,
    /// Number among the packets of its flow in that direction, from 0; a copy has the number of its original.
    pub number: u32,
    /// Direction of its link; at a host, the first one or the last one of its route.
    pub direction: Option<DirectionId>,
    /// When its host sent it.
    pub sent: Time,
    /// Source address.
    pub source: SocketAddr,
    /// Destination address.
    pub destination: SocketAddr,
    /// The ECN bits of its IP header.
    pub ecn: Ecn,
    /// Congestion indications of queues beyond the ECN bits.
    pub congestion: Congestion,
    /// Bytes of IP packet.
    pub size: u32,
    /// The SCTP packet; none for a TCP segment, and for a UDP datagram, which has only a length.
    pub sctp: Option<PacketView<'a>>,
    /// The TCP segment, if it is one, and the bytes of its payload if the flow carries a file.
    pub tcp: Option<(&'a TcpSegment, &'a [u8])>,
    /// The complete IP packet, if a program outside the simulation sent it.
    pub ip: Option<&'a [u8]>,
    /// It is longer than the path MTU that its host knows: IP may cut it into fragments. At links, the size is that of a fragment.
    pub fragment: bool,
}

/// The type of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// Request to send.
    Rts,
    /// Clear to send.
    Cts,
    /// A packet.
    Data,
    /// Acknowledgement.
    Ack,
}

/// A frame that was sent, or was lost at its receiver. Radios are identified by their indices in the scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameEvent {
    /// Start of the transmission, or time of the loss.
    pub at: Time,
    /// Cause of the loss, if it was lost: [`DropCause::Collision`], [`DropCause::HiddenNode`], [`DropCause::ChannelError`] or
    /// [`DropCause::OutOfRange`].
    pub lost: Option<DropCause>,
    /// Its type.
    pub kind: FrameKind,
    /// The radio that sent it.
    pub from: u32,
    /// The receiving radio; none for a broadcast.
    pub to: Option<u32>,
    /// The flow that the frame belongs to; none for a routing message.
    pub flow: Option<u32>,
    /// Duration of the transmission.
    pub airtime: Span,
    /// Whether it is a retry.
    pub retry: bool,
}

/// A change of the next hop at a radio: it differs from that of the previous packet to the destination, or there is none. Radios
/// are identified by their indices in the scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteEvent {
    /// Time.
    pub at: Time,
    /// The forwarding radio.
    pub radio: u32,
    /// The destination radio.
    pub destination: u32,
    /// Index of the node-disjoint route, from 0.
    pub rank: u8,
    /// The next hop; none if packets are dropped.
    pub next_hop: Option<u32>,
}

/// A value of a series.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sample {
    /// A path of an association.
    Path {
        /// Time.
        at: Time,
        /// The flow.
        flow: u32,
        /// Whether it is the sender's path.
        forward: bool,
        /// The path.
        path: PathId,
        /// Its local address.
        local: SocketAddr,
        /// Its remote address.
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
        /// Losses, jitter, delivery rate; not for TCP.
        quality: Option<PathQuality>,
    },
    /// User data that a flow delivered since the previous sample.
    Goodput {
        /// Time.
        at: Time,
        /// The flow.
        flow: u32,
        /// Bytes.
        bytes: u64,
        /// Time since the previous sample.
        over: Span,
    },
    /// A queue.
    Queue {
        /// Time.
        at: Time,
        /// The direction of a link.
        direction: DirectionId,
        /// Queued packets.
        packets: u32,
        /// Their bytes.
        bytes: u64,
        /// The average length of an active queue at the last arrival, in the unit of its thresholds.
        average: Option<f64>,
    },
    /// A radio.
    Radio {
        /// Time.
        at: Time,
        /// Index in the scenario.
        radio: u32,
        /// Position of its node, m.
        x: f64,
        /// Position of its node, m.
        y: f64,
        /// Packets in its queue.
        packets: u32,
    },
}

/// The interests of an observer.
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
