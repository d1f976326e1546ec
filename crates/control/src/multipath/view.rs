//! A path as parts see it that choose among several.

use crate::Span;

/// What the sender knows of a path at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathView {
    /// It may carry new data: its address is confirmed, it is active, or the best of those that are not, and no probe's answer is
    /// waited for.
    pub usable: bool,
    /// A packet of new data may go out on it now: its window, its burst limit and its pacer allow it.
    pub open: bool,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// Bytes in flight.
    pub flight: u64,
    /// The unit of the window in bytes: what a packet carries.
    pub unit: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Span>,
    /// Its variation.
    pub rttvar: Span,
    /// The shortest round-trip time measured.
    pub min_rtt: Option<Span>,
    /// Retransmission timeout.
    pub rto: Span,
    /// Share of packets lost of late, 0 to 1, as the sender sees it.
    pub loss: f64,
    /// Timeouts and unanswered heartbeats in a row.
    pub errors: u32,
    /// The node before the last on the way to this address, where routing or the link layer tells.
    pub last_hop: Option<u32>,
}

impl PathView {
    /// The smoothed round-trip time, or the retransmission timeout where there is none yet.
    pub fn round(&self) -> Span {
        self.srtt.unwrap_or(self.rto)
    }

    /// Bytes that the window has room for.
    pub fn room(&self) -> u64 {
        self.cwnd.saturating_sub(self.flight)
    }
}
