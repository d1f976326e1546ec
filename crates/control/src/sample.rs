//! What a transport tells the parts: bytes and times, no word of any protocol.

use crate::{Span, Time};

/// The position of a packet in the order of first transmission on its path or association; never wraps.
pub type Seq = u64;

/// What one acknowledgement newly told about one path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AckSample {
    /// When it arrived.
    pub now: Time,
    /// Bytes acknowledged for the first time, headers and padding of their chunks included.
    pub acked: u64,
    /// Bytes in flight before it arrived.
    pub flight_before: u64,
    /// Whether the cumulative acknowledgement point moved.
    pub cumulative_advanced: bool,
    /// Whether everything sent has been acknowledged now.
    pub all_acked: bool,
    /// Whether the sender was in fast recovery when it arrived.
    pub in_recovery: bool,
    /// Round-trip time of the newest packet acknowledged, if it was sent only once.
    pub rtt: Option<Span>,
}

/// How a loss was noticed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LossSignal {
    /// Later packets were acknowledged.
    Gap,
    /// Nothing was acknowledged for a retransmission timeout.
    Timeout,
    /// Nothing was lost, but a queue on the way marked a packet (ECN): `first_lost` is the packet marked, `packets` is zero.
    Mark,
}

/// Packets of one path given up as lost on one occasion.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LossEvent {
    /// When it was noticed.
    pub now: Time,
    /// How it was noticed.
    pub signal: LossSignal,
    /// The first packet lost.
    pub first_lost: Seq,
    /// Packets lost on this occasion.
    pub packets: u32,
    /// Bytes in flight before the lost ones were taken out.
    pub flight_before: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Span>,
    /// Shortest round-trip time seen, if measured.
    pub min_rtt: Option<Span>,
}

/// A discriminator's judgement of a loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// A queue overflowed: slow down.
    Congestion,
    /// The channel lost it: slowing down would not help.
    Transmission,
    /// No telling.
    Unsure,
}
