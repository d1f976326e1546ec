//! Packets in transit: a slab of small records, identified by a number, with reusable bodies.

use whimbrel_control::Time;
use whimbrel_proto::Ecn;
use whimbrel_wire::{Checksum, Chunk, OwnedPacket, PacketView};

use crate::ids::{AgentId, DirectionId, RouteId};
use crate::kinds::ChunkKinds;
use crate::loss::ChunkKind;
use crate::segment::TcpSegment;

/// Index of a packet in the slab.
pub(crate) type PacketId = u32;

/// Bytes of an IPv4 header without options, part of every packet's size.
pub const IP_HEADER: u32 = 20;
/// Bytes of a UDP header.
pub const UDP_HEADER: u32 = 8;

/// Congestion indications of queues beyond the ECN bits of the IP header. They exist only in the simulator: current headers have no
/// field for them, and captures do not show them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Congestion(u8);

impl Congestion {
    /// No indication.
    pub const NONE: Congestion = Congestion(0);
    /// Explicit congestion indication (Shishir 2000): the average queue was long when the packet passed.
    pub const ECI: Congestion = Congestion(1);
    /// Congestion warning (TCP Jersey), in a separate bit.
    pub const CW: Congestion = Congestion(2);

    /// Returns the union of both indications.
    #[must_use]
    pub const fn with(self, other: Congestion) -> Self {
        Congestion(self.0 | other.0)
    }

    /// Returns whether all indications in `other` are set.
    pub const fn has(self, other: Congestion) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the codepoint of Shishir's Table II, ECT bit and CE bit: 00 not capable, 01 no indication, 10 ECI, 11 ECI and ECN.
    pub const fn eci_codepoint(self, ecn: Ecn) -> u8 {
        match ecn {
            Ecn::NotEct => 0b00,
            Ecn::Ce => 0b11,
            Ecn::Ect0 | Ecn::Ect1 if self.has(Congestion::ECI) => 0b10,
            Ecn::Ect0 | Ecn::Ect1 => 0b01,
        }
    }
}

/// What happens to a packet that is longer than the MTU of a link on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Oversize {
    /// It is dropped.
    #[default]
    Drop,
    /// It is dropped, and the node in front of the link reports the link's MTU to the source (ICMP). The DF bit is set.
    Report,
    /// It is cut into fragments, which the destination reassembles (RFC 791). The DF bit is not set.
    Fragment,
}

/// The fields of a packet that links and routes need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// When the host sent it.
    pub(crate) sent: Time,
    /// Its flow.
    pub(crate) flow: u32,
    /// Its number among the packets of its agent, in the order of sending.
    pub(crate) number: u32,
    /// Bytes of IP packet.
    pub(crate) size: u32,
    /// Index of its next hop in the table of all hops.
    pub(crate) hop: u32,
    /// Index after its last hop.
    pub(crate) last_hop: u32,
    /// Its route.
    pub(crate) route: RouteId,
    /// The destination agent.
    pub(crate) agent: AgentId,
    /// The direction it is on.
    pub(crate) direction: DirectionId,
    /// Its content, if a model depends on it.
    pub(crate) kinds: ChunkKinds,
    /// ECN bits of its IP header.
    pub(crate) ecn: Ecn,
    /// Congestion indications of queues beyond the ECN bits.
    pub(crate) congestion: Congestion,
    /// The cause by which it will be lost on its current link, plus one; zero if it will arrive.
    pub(crate) fate: u8,
    /// Whether it is duplicated on its current link.
    pub(crate) twice: bool,
    /// Whether it is a duplicate made by a link.
    pub(crate) is_copy: bool,
    /// What happens if it is longer than the MTU of a link.
    pub(crate) oversize: Oversize,
    /// Whether it is a fragment; its body is that of the whole packet.
    pub(crate) is_fragment: bool,
}

impl Packet {
    /// Returns whether it is sent from its flow's sender to its receiver.
    #[inline]
    pub(crate) fn is_forward(&self) -> bool {
        !self.agent.is_sender()
    }
}

/// The content of a packet: structures, bytes, a TCP segment with its payload if needed, or only a length (UDP datagram).
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) structures: OwnedPacket,
    pub(crate) bytes: Vec<u8>,
    pub(crate) tcp: TcpSegment,
    pub(crate) form: Form,
    /// Tag of an end outside the simulation.
    pub(crate) tag: u32,
    /// Offset of a fragment in the bytes after the IP header.
    pub(crate) offset: u32,
}

/// The valid part of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Form {
    /// User data without content.
    #[default]
    Datagram,
    /// SCTP as structures.
    Structures,
    /// SCTP as bytes.
    Bytes,
    /// TCP.
    Tcp,
    /// A complete IP packet of a program outside the simulation.
    Ip,
}

impl Body {
    /// Returns the SCTP packet, if it is one.
    pub(crate) fn view(&self) -> Option<PacketView<'_>> {
        match self.form {
            Form::Datagram | Form::Tcp => None,
            Form::Structures => Some(self.structures.view()),
            // The receiver verifies the checksum.
            Form::Bytes => PacketView::parse(&self.bytes, Checksum::Ignore).ok(),
            Form::Ip => crate::ip::sctp(&self.bytes),
        }
    }

    /// Returns the TCP segment, if it is one.
    pub(crate) fn segment(&self) -> Option<&TcpSegment> {
        (self.form == Form::Tcp).then_some(&self.tcp)
    }

    /// Returns the IP packet, if it is one of a program.
    pub(crate) fn ip(&self) -> Option<&[u8]> {
        (self.form == Form::Ip).then_some(&self.bytes)
    }

    /// Returns the chunk kinds. TCP segments count as the corresponding SCTP chunks.
    pub(crate) fn kinds(&self) -> ChunkKinds {
        if self.form == Form::Tcp {
            return ChunkKinds::of(ChunkKind::of_segment(&self.tcp));
        }
        if let Some(segment) = self.ip().and_then(crate::ip::tcp) {
            return ChunkKinds::of(ChunkKind::of_segment(&segment));
        }
        match self.view() {
            Some(view) => ChunkKinds::of_packet(&view),
            None => ChunkKinds::of(ChunkKind::Udp),
        }
    }

    /// Passes the labels that the transport uses for losses to `each`: the TSN of each DATA chunk, or the sequence number of a TCP
    /// segment with data.
    pub(crate) fn labels(&self, each: &mut dyn FnMut(u32)) {
        if let Some(segment) = self.segment().filter(|segment| segment.payload > 0) {
            return each(segment.seq);
        }
        for chunk in self.view().iter().flat_map(PacketView::chunks).flatten() {
            if let Chunk::Data(data) = chunk {
                each(data.tsn.0);
            }
        }
    }

    /// Returns the TSN of its first DATA chunk, or the sequence number of a TCP segment with data.
    pub(crate) fn first_tsn(&self) -> Option<u32> {
        if let Some(segment) = self.segment() {
            return (segment.payload > 0).then_some(segment.seq);
        }
        self.view()?.chunks().flatten().find_map(|chunk| match chunk {
            Chunk::Data(data) => Some(data.tsn.0),
            _ => None,
        })
    }
}

/// All packets in transit. Free slots are reused, last freed first, with the memory of their bodies.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    packets: Vec<Packet>,
    bodies: Vec<Body>,
    free: Vec<PacketId>,
}

impl Slab {
    /// Returns a free slot. Its packet has old content.
    #[inline]
    pub(crate) fn reserve(&mut self) -> PacketId {
        if let Some(id) = self.free.pop() {
            return id;
        }
        self.grow()
    }

    #[cold]
    fn grow(&mut self) -> PacketId {
        let id = self.packets.len() as PacketId;
        self.packets.push(Packet {
            sent: Time::ZERO,
            flow: 0,
            number: 0,
            size: 0,
            hop: 0,
            last_hop: 0,
            route: 0,
            agent: AgentId::sender(0),
            direction: DirectionId::of_link(0, 0),
            kinds: ChunkKinds::default(),
            ecn: Ecn::NotEct,
            congestion: Congestion::NONE,
            fate: 0,
            twice: false,
            is_copy: false,
            oversize: Oversize::Drop,
            is_fragment: false,
        });
        self.bodies.push(Body::default());
        id
    }

    /// Frees a slot.
    #[inline]
    pub(crate) fn release(&mut self, id: PacketId) {
        debug_assert!(!self.free.contains(&id), "packet {id} was released twice");
        self.free.push(id);
    }

    /// Creates a copy of a packet in a new slot.
    pub(crate) fn duplicate(&mut self, id: PacketId) -> PacketId {
        let copy = self.reserve();
        self.packets[copy as usize] = self.packets[id as usize];
        let [original, body] = self
            .bodies
            .get_disjoint_mut([id as usize, copy as usize])
            .expect("a place just reserved differs from one in use");
        body.form = original.form;
        body.structures.clone_from(&original.structures);
        body.bytes.clone_from(&original.bytes);
        body.tcp = original.tcp;
        body.tag = original.tag;
        body.offset = original.offset;
        copy
    }

    /// Returns the slots in use.
    pub(crate) fn in_use(&self) -> Vec<PacketId> {
        let mut used = vec![true; self.packets.len()];
        self.free.iter().for_each(|free| used[*free as usize] = false);
        (0..).zip(used).filter(|(_, used)| *used).map(|(id, _)| id).collect()
    }

    #[inline]
    pub(crate) fn get(&self, id: PacketId) -> &Packet {
        &self.packets[id as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id as usize]
    }

    #[inline]
    pub(crate) fn body(&self, id: PacketId) -> &Body {
        &self.bodies[id as usize]
    }

    #[inline]
    pub(crate) fn body_mut(&mut self, id: PacketId) -> &mut Body {
        &mut self.bodies[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_are_those_of_table_2() {
        // Shishir 2000, Table II
        let codepoint = |ecn, congestion: Congestion| congestion.eci_codepoint(ecn);
        assert_eq!(codepoint(Ecn::NotEct, Congestion::ECI), 0b00);
        assert_eq!(codepoint(Ecn::Ect0, Congestion::NONE), 0b01);
        assert_eq!(codepoint(Ecn::Ect0, Congestion::CW), 0b01);
        assert_eq!(codepoint(Ecn::Ect1, Congestion::ECI.with(Congestion::CW)), 0b10);
        assert_eq!(codepoint(Ecn::Ce, Congestion::NONE), 0b11);
    }
}
