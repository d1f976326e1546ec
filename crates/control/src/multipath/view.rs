//! The view of a path for parts that choose among several paths.

use crate::Span;

/// State of a path at one instant, as the sender knows it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathView {
    /// It may carry new data: its address is confirmed, it is active (or replaces failed paths), and no response to a
    /// probe is awaited.
    pub usable: bool,
    /// A packet of new data may be sent on it now: its window, its burst limit and its pacer allow it.
    pub open: bool,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// Bytes in flight.
    pub flight: u64,
    /// The unit of the window in bytes: the payload of a packet.
    pub unit: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Span>,
    /// Round-trip time variation.
    pub rttvar: Span,
    /// The shortest round-trip time measured.
    pub min_rtt: Option<Span>,
    /// Retransmission timeout.
    pub rto: Span,
    /// Recent share of lost packets, 0 to 1, as the sender sees it.
    pub loss: f64,
    /// Consecutive timeouts and unanswered heartbeats.
    pub errors: u32,
    /// The node before the last one on the route to this address, if routing or the link layer provides it.
    pub last_hop: Option<u32>,
}

impl PathView {
    /// Returns the smoothed round-trip time, or the RTO before the first measurement.
    pub fn round(&self) -> Span {
        self.srtt.unwrap_or(self.rto)
    }

    /// Returns the bytes of room in the window.
    pub fn room(&self) -> u64 {
        self.cwnd.saturating_sub(self.flight)
    }
}
