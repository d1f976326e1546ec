//! Kinds of chunks in a packet, as loss models and records see them.

use whimbrel_wire::{ChunkType, PacketView};

use crate::loss::ChunkKind;
use crate::segment::{TcpFlags, TcpSegment};

/// A set of [`ChunkKind`]s: the content of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct ChunkKinds(u16);

impl ChunkKinds {
    /// Creates a set with a single kind.
    pub const fn of(kind: ChunkKind) -> Self {
        ChunkKinds(1 << kind as u16)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn with(self, other: ChunkKinds) -> Self {
        ChunkKinds(self.0 | other.0)
    }

    /// Returns whether the sets intersect.
    pub const fn meets(self, other: ChunkKinds) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the kinds in the set.
    pub fn iter(self) -> impl Iterator<Item = ChunkKind> {
        ChunkKind::ALL
            .into_iter()
            .filter(move |kind| self.meets(ChunkKinds::of(*kind)))
    }

    /// Returns the chunk kinds of an SCTP packet.
    pub fn of_packet(view: &PacketView<'_>) -> Self {
        let mut kinds = ChunkKinds::default();
        for chunk in view.chunks().flatten() {
            if let Some(kind) = ChunkKind::of_type(chunk.chunk_type()) {
                kinds = kinds.with(ChunkKinds::of(kind));
            }
        }
        kinds
    }
}

impl ChunkKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [ChunkKind; 16] = [
        ChunkKind::Data,
        ChunkKind::Init,
        ChunkKind::InitAck,
        ChunkKind::Sack,
        ChunkKind::Heartbeat,
        ChunkKind::HeartbeatAck,
        ChunkKind::Abort,
        ChunkKind::Shutdown,
        ChunkKind::ShutdownAck,
        ChunkKind::Error,
        ChunkKind::CookieEcho,
        ChunkKind::CookieAck,
        ChunkKind::Ecne,
        ChunkKind::Cwr,
        ChunkKind::ShutdownComplete,
        ChunkKind::Udp,
    ];

    /// Returns the kind that a TCP segment corresponds to.
    pub(crate) fn of_segment(segment: &TcpSegment) -> ChunkKind {
        let is_answer = segment.flags.has(TcpFlags::ACK);
        if segment.flags.has(TcpFlags::SYN) {
            if is_answer { ChunkKind::InitAck } else { ChunkKind::Init }
        } else if segment.payload > 0 {
            ChunkKind::Data
        } else if segment.flags.has(TcpFlags::FIN) {
            ChunkKind::Shutdown
        } else {
            ChunkKind::Sack
        }
    }

    fn of_type(chunk: ChunkType) -> Option<ChunkKind> {
        match chunk {
            // The same role in another format: a scenario that loses data loses it in both.
            ChunkType::I_DATA => Some(ChunkKind::Data),
            ChunkType::NR_SACK => Some(ChunkKind::Sack),
            other => ChunkKind::ALL
                .get(usize::from(other.0))
                .copied()
                .filter(|kind| *kind != ChunkKind::Udp),
        }
    }
}
