//! What an association uses of its endpoint during one call.

use std::sync::Arc;

use rand_core::Rng;
use whimbrel_control::{Span, Time};
use whimbrel_wire::Tsn;

use crate::association::{BufferPool, Ranges};
use crate::endpoint::Replies;
use crate::receive::ReceiverConfig;
use crate::trace::Trace;

/// The parts of the endpoint that an association uses during one call.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) trace: &'a mut Trace,
    pub(crate) random: &'a mut (dyn Rng + Send),
    /// Packets that belong to no association or are sent after its end.
    pub(crate) replies: &'a mut Replies,
    pub(crate) scratch: &'a mut Scratch,
    /// Memory by which the buffers may grow.
    pub(crate) pool: &'a mut BufferPool,
    /// Maximum delay of the driver's timer.
    pub(crate) granularity: Span,
}

/// Buffers that are filled and emptied within one call.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) gaps: Vec<u8>,
    pub(crate) duplicates: Vec<u8>,
    pub(crate) parameters: Vec<u8>,
    /// The chunks of a packet that has been opened.
    pub(crate) plain: Vec<u8>,
    /// Ranges of a SACK in another format.
    pub(crate) ranges: Ranges,
    /// Chunks declared lost in this call, recorded if verdicts are traced.
    pub(crate) lost: Vec<Lost>,
    /// The receiver's settings in the last new association, for the next one if it has the same. Peers with different numbers of streams
    /// make a difference.
    pub(crate) receiver_config: Option<Arc<ReceiverConfig>>,
}

/// A chunk declared lost on a path, recorded until the verdict is known.
pub(crate) type Lost = (u8, Tsn);
