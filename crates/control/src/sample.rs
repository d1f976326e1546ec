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
    /// Packets acknowledged for the first time.
    pub packets: u32,
    /// Bytes in flight before it arrived.
    pub flight_before: u64,
    /// Bytes in flight after it arrived.
    pub flight: u64,
    /// Whether the cumulative acknowledgement point moved.
    pub cumulative_advanced: bool,
    /// Whether everything sent has been acknowledged now.
    pub all_acked: bool,
    /// Whether the sender was in fast recovery when it arrived.
    pub in_recovery: bool,
    /// Everything below this position has been acknowledged.
    pub acked_to: Seq,
    /// The newest packet acknowledged for the first time.
    pub newest: Seq,
    /// The position of the next new packet.
    pub next: Seq,
    /// Round-trip time of the newest packet acknowledged, if it was sent only once.
    pub rtt: Option<Span>,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Span>,
    /// Shortest round-trip time seen, if measured.
    pub min_rtt: Option<Span>,
    /// Bytes delivered on the path so far, this acknowledgement included.
    pub delivered: u64,
    /// Delivery rate since the newest packet acknowledged was sent; only for parts that ask for it ([`Needs::rate`]).
    pub rate: Option<RateSample>,
    /// The receiver's stamps; only if both ends put stamps on their packets.
    pub stamps: Option<Stamps>,
    /// Whether a router indicated congestion on the way (ECI, congestion warning); none if the receiver does not echo it.
    pub eci: Option<bool>,
    /// By how much the window may grow, as a multiple of what it would by itself: 1, unless it is coupled with those of other paths.
    pub growth: f64,
}

impl AckSample {
    /// An acknowledgement of one packet of `acked` bytes, with nothing else to tell: the beginning of tests and examples.
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
            growth: 1.0,
        }
    }
}

/// How fast a path has delivered between the sending of a packet and its acknowledgement (Cheng et al.,
/// draft-cheng-iccrg-delivery-rate-estimation §3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateSample {
    /// Bytes delivered in the interval.
    pub delivered: u64,
    /// The longer one of the times that sending and acknowledging them took.
    pub interval: Span,
    /// Bytes that had been delivered on the path when the packet was sent.
    pub prior_delivered: u64,
    /// Bytes declared lost on the path since the packet was sent.
    pub lost: u64,
    /// Bytes declared lost on the path so far.
    pub lost_so_far: u64,
    /// Bytes in flight when the packet was sent, itself included.
    pub flight_at_send: u64,
    /// Whether the sender's user had nothing more to send at some time in the interval.
    pub app_limited: bool,
}

/// Times of a packet, by the sender's clock and by the receiver's, which may differ by a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamps {
    /// When it was sent.
    pub sent: Time,
    /// When it was received.
    pub received: Time,
}

/// How a loss was noticed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LossSignal {
    /// Later packets were acknowledged.
    Gap,
    /// Nothing was acknowledged for a retransmission timeout.
    Timeout,
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
    /// The last packet lost.
    pub last_lost: Seq,
    /// Packets lost on this occasion.
    pub packets: u32,
    /// How many of them are copies of what another path carries. One that has arrived is taken for lost where the peer had no room to
    /// report it as a duplicate.
    pub copies: u32,
    /// Their bytes.
    pub bytes: u64,
    /// What the first one lost is called on the wire: its TSN or TCP sequence number.
    pub label: u32,
    /// The position of the next new packet.
    pub next: Seq,
    /// Bytes in flight before the lost ones were taken out.
    pub flight_before: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Span>,
    /// Shortest round-trip time seen, if measured.
    pub min_rtt: Option<Span>,
    /// The window after it in bytes, if it is congestion and a coupling with other paths decides.
    pub coupled: Option<u64>,
}

impl LossEvent {
    /// The loss of one packet with nothing else to tell: the beginning of tests and examples.
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
            coupled: None,
        }
    }
}

/// A queue on the way marked packets (ECN), and the receiver said so.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MarkEvent {
    /// When the sender heard of it.
    pub now: Time,
    /// The packet marked.
    pub seq: Seq,
    /// Packets marked that were not told of before.
    pub packets: u32,
    /// The position of the next new packet.
    pub next: Seq,
    /// Bytes in flight.
    pub flight: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Span>,
    /// Shortest round-trip time seen, if measured.
    pub min_rtt: Option<Span>,
    /// Whether nothing has reduced the window for this window of data yet: the mark may.
    pub reduces: bool,
    /// The window after it in bytes, if a coupling with other paths decides.
    pub coupled: Option<u64>,
}

impl MarkEvent {
    /// A mark on one packet, the first of its window of data: the beginning of tests and examples.
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
            coupled: None,
        }
    }
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

/// What a part wants in its samples beyond what is always there, because it costs something to provide.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Delivery rates: [`AckSample::rate`].
    pub rate: bool,
}

impl Needs {
    /// What either wants.
    #[must_use]
    pub const fn or(self, other: Needs) -> Needs {
        Needs {
            rate: self.rate || other.rate,
        }
    }
}
