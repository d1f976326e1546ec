//! Medium access: the distributed coordination function of IEEE 802.11 (2012 edition, clause 9.3), a state machine for each radio.

mod dcf;
mod queue;

use whimbrel_control::Span;

pub(crate) use self::dcf::{Dcf, Limits};
pub(crate) use self::queue::InterfaceQueue;
use crate::ids::RadioId;
use crate::ledger::DropCause;
pub(crate) use crate::observer::FrameKind;
use crate::packet::PacketId;

/// Destination of broadcast frames.
pub(crate) const BROADCAST: RadioId = RadioId::MAX;

/// A frame on the air.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) from: RadioId,
    pub(crate) to: RadioId,
    /// Duration field: how long the medium is reserved after the end of the frame.
    pub(crate) nav: Span,
    /// Duration of the transmission.
    pub(crate) airtime: Span,
    /// Its sequence number (data).
    pub(crate) sequence: u16,
    /// Whether it is a retry (data).
    pub(crate) retry: bool,
    /// The packet it carries; none if the receiver has received it in an earlier copy.
    pub(crate) packet: Option<PacketId>,
    /// The flow that the frame belongs to.
    pub(crate) flow: u32,
}

impl Frame {
    /// Returns whether the frame is a broadcast.
    pub(crate) fn is_broadcast(&self) -> bool {
        self.to == BROADCAST
    }

    /// Returns whether the frame is sent at the data rate.
    pub(crate) fn is_fast(&self) -> bool {
        self.kind == FrameKind::Data && !self.is_broadcast()
    }
}

/// A packet that is queued or being sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outgoing {
    pub(crate) packet: PacketId,
    pub(crate) to: RadioId,
    /// Bytes of the frame, including header and checksum.
    pub(crate) bytes: u32,
    /// The packet's flow.
    pub(crate) flow: u32,
}

/// Bit in a packet number that marks a control message.
pub(crate) const CONTROL: PacketId = 1 << 31;

impl Outgoing {
    /// Returns whether it is a control message, which has priority over data.
    pub(crate) fn is_control(&self) -> bool {
        self.packet & CONTROL != 0
    }
}

/// Why an attempt to send a frame failed. Known to the simulator, not to the station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The receiver was too far away.
    OutOfRange,
    /// It collided with a frame of a station that its sender hears.
    Collision,
    /// It collided with a frame of a station that its sender does not hear.
    HiddenNode,
    /// Noise corrupted it.
    Channel,
    /// It arrived without a response: the receiver's medium was reserved.
    NoAnswer,
    /// Address resolution failed.
    NoAddress,
}

impl Failure {
    /// Returns the corresponding drop cause.
    pub(crate) const fn cause(self) -> DropCause {
        match self {
            Failure::OutOfRange => DropCause::OutOfRange,
            Failure::Collision => DropCause::Collision,
            Failure::HiddenNode => DropCause::HiddenNode,
            Failure::Channel => DropCause::ChannelError,
            Failure::NoAnswer => DropCause::RetryLimit,
            Failure::NoAddress => DropCause::NoAddress,
        }
    }
}

/// An action of a station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Starts to send a frame.
    Transmit(Frame),
    /// Passes the content of a data frame up.
    Deliver(Frame),
    /// A packet was sent, and acknowledged unless it was a broadcast. If the receiver has not taken it, it treated it as a
    /// duplicate.
    Sent { outgoing: Outgoing, taken: bool },
    /// A packet was given up. If the receiver has taken it nevertheless, it no longer belongs to the sender.
    Failed {
        outgoing: Outgoing,
        taken: bool,
        failure: Failure,
    },
}

/// The result of a signal at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// A frame without error.
    Frame(Frame),
    /// A signal that the receiver tried to decode and could not.
    Garbage,
    /// A signal that it did not try to decode: other signals were on the air, or it was transmitting.
    Noise,
}

#[cfg(test)]
mod tests;
