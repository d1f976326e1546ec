//! The inputs of the parts: bytes and times, independent of the transport protocol.

use crate::{Span, Time};

/// The position of a packet in the order of first transmission. It never wraps. All paths of an association share one order, except with
/// `accounting = "path"`: then each path numbers its own transmissions (PSN; Ye 2004, 6.4).
pub type Seq = u64;

/// The new information of one acknowledgement about one path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AckSample {
    /// Time of arrival.
    pub now: Time,
    /// Bytes newly acknowledged, including the headers and padding of their chunks.
    pub acked: u64,
    /// Packets newly acknowledged. SCTP counts DATA chunks here.
    pub packets: u32,
    /// Bytes in flight before it arrived.
    pub flight_before: u64,
    /// Bytes in flight after it arrived.
    pub flight: u64,
    /// Whether the cumulative acknowledgement point advanced.
    pub cumulative_advanced: bool,
    /// Whether all data sent is now acknowledged.
    pub all_acked: bool,
    /// Whether a loss had reduced the window for data still outstanding when it arrived, so that the window must not grow: in the
    /// standard, whether the sender was in fast recovery.
    pub in_recovery: bool,
    /// All packets below this position have been acknowledged.
    pub acked_to: Seq,
    /// The newest packet that was newly acknowledged.
    pub newest: Seq,
    /// The position of the next new packet.
    pub next: Seq,
    /// Round-trip time of the newest packet acknowledged, if it was sent only once. If acknowledgements return on several paths, the time
    /// by which this return path is slower than the fastest one is subtracted: changes of the rest are queueing. It includes the delay of a
    /// delayed SACK. For the queueing delay, subtract a minimum of these times, as `Backlog` does; `min_rtt` may be larger.
    pub rtt: Option<Span>,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Span>,
    /// Round-trip time without queueing, if measured: the shortest one seen. If acknowledgements return on several paths, each has its own
    /// shortest one, and this is their mean over the recent acknowledgements. The delivery rate times it is what the path holds. It may
    /// exceed `rtt`.
    pub min_rtt: Option<Span>,
    /// Bytes delivered on the path so far, including this acknowledgement.
    pub delivered: u64,
    /// Delivery rate since the newest acknowledged packet was sent; only for parts that require it ([`Needs::rate`]).
    pub rate: Option<RateSample>,
    /// Timestamps of the packet; only if both endpoints use timestamps.
    pub stamps: Option<Stamps>,
    /// Whether a router indicated congestion (ECI, congestion warning); `None` if the receiver does not echo it.
    pub eci: Option<bool>,
}

impl AckSample {
    /// Returns an acknowledgement of one packet of `acked` bytes, with defaults for all other fields; for tests and
    /// examples.
    pub fn of(now: Time, acked: u64, flight_before: u64) -> Self {
        AckSample {
            now,
            acked,
            packets: 1,
            flight_before,
            flight: flight_before.saturating_sub(acked),
            cumulative_advanced: true,
            all_acked: false,
            in_recovery: false,
            acked_to: 0,
            newest: 0,
            next: 0,
            rtt: None,
            srtt: None,
            min_rtt: None,
            delivered: 0,
            rate: None,
            stamps: None,
            eci: None,
        }
    }
}

/// Delivery rate of a path between the sending of a packet and its acknowledgement (Cheng et al.,
/// draft-cheng-iccrg-delivery-rate-estimation §3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateSample {
    /// Bytes delivered in the interval.
    pub delivered: u64,
    /// The longer one of the sending interval and the acknowledgement interval.
    pub interval: Span,
    /// Bytes that had been delivered on the path when the packet was sent.
    pub prior_delivered: u64,
    /// Bytes declared lost on the path since the packet was sent.
    pub lost: u64,
    /// Bytes declared lost on the path so far.
    pub lost_so_far: u64,
    /// Bytes in flight when the packet was sent, including the packet.
    pub flight_at_send: u64,
    /// Whether the application had no more data to send at some time in the interval.
    pub app_limited: bool,
}

/// Timestamps of a packet by the sender's and the receiver's clocks, which may differ by a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamps {
    /// When it was sent.
    pub sent: Time,
    /// When it was received.
    pub received: Time,
}

/// How a loss was detected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LossSignal {
    /// Later packets were acknowledged.
    Gap,
    /// No data was acknowledged for a retransmission timeout.
    Timeout,
}

/// Packets of one path declared lost at the same time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LossEvent {
    /// Time of detection.
    pub now: Time,
    /// How the loss was detected.
    pub signal: LossSignal,
    /// The first packet lost.
    pub first_lost: Seq,
    /// The last packet lost.
    pub last_lost: Seq,
    /// Number of packets declared lost. SCTP counts DATA chunks here.
    pub packets: u32,
    /// How many of them are copies of data that another path carries. A copy that has arrived counts as lost if the
    /// peer had no room to report it as a duplicate.
    pub copies: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Label of the first lost packet on the wire: its TSN or TCP sequence number.
    pub label: u32,
    /// The position of the next new packet.
    pub next: Seq,
    /// Bytes in flight, including the lost packets; for a gap, before the SACK.
    pub flight_before: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Span>,
    /// Round-trip time without queueing, if measured, as in [`AckSample::min_rtt`].
    pub min_rtt: Option<Span>,
}

impl LossEvent {
    /// Returns the number of packets that are known to be lost: copies of data on other paths may have arrived.
    pub fn lost(&self) -> u32 {
        self.packets - self.copies.min(self.packets)
    }

    /// Returns the loss of one packet, with defaults for all other fields; for tests and examples.
    pub fn of(now: Time, signal: LossSignal, first_lost: Seq) -> Self {
        LossEvent {
            now,
            signal,
            first_lost,
            last_lost: first_lost,
            packets: 1,
            copies: 0,
            bytes: 0,
            label: first_lost as u32,
            next: first_lost + 1,
            flight_before: 0,
            srtt: None,
            min_rtt: None,
        }
    }
}

/// The receiver reported packets that a queue marked (ECN).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MarkEvent {
    /// Time of the report's arrival.
    pub now: Time,
    /// The marked packet.
    pub seq: Seq,
    /// Marked packets not reported before.
    pub packets: u32,
    /// The position of the next new packet.
    pub next: Seq,
    /// Bytes in flight.
    pub flight: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Span>,
    /// Round-trip time without queueing, if measured, as in [`AckSample::min_rtt`].
    pub min_rtt: Option<Span>,
    /// Whether the mark may reduce the window, because the window has not been reduced for this window of data.
    pub reduces: bool,
}

impl MarkEvent {
    /// Returns a mark on one packet, the first of its window of data, with defaults for all other fields; for tests and
    /// examples.
    pub fn of(now: Time, seq: Seq) -> Self {
        MarkEvent {
            now,
            seq,
            packets: 1,
            next: seq + 1,
            flight: 0,
            srtt: None,
            min_rtt: None,
            reduces: true,
        }
    }
}

/// A discriminator's verdict on a loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// A queue overflowed: the sender should slow down.
    Congestion,
    /// A transmission error: slowing down would not help.
    Transmission,
    /// The cause is unknown.
    Unsure,
}

/// Optional fields of samples that a part requires. They are optional because they have a cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Delivery rates: [`AckSample::rate`].
    pub rate: bool,
}

impl Needs {
    /// Returns the requirements of both.
    #[must_use]
    pub const fn or(self, other: Needs) -> Needs {
        Needs {
            rate: self.rate || other.rate,
        }
    }
}
