//! Medium access: the distributed coordination function of IEEE 802.11 (2012 edition, clause 9.3), a state machine for each radio.

mod dcf;
mod queue;

use whimbrel_control::Span;

pub(crate) use self::dcf::{Dcf, Limits};
pub(crate) use self::queue::InterfaceQueue;
use super::RadioId;
use crate::ledger::DropCause;
use crate::packet::PacketId;

/// Where broadcast frames go.
pub(crate) const BROADCAST: RadioId = RadioId::MAX;

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

/// A frame on the air.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) from: RadioId,
    pub(crate) to: RadioId,
    /// Its duration field: for how long after its end the medium is spoken for.
    pub(crate) nav: Span,
    /// How long it takes.
    pub(crate) airtime: Span,
    /// Its sequence number (data).
    pub(crate) sequence: u16,
    /// Whether it was sent before (data).
    pub(crate) retry: bool,
    /// The packet it carries; none if the receiver has taken it out of an earlier copy.
    pub(crate) packet: Option<PacketId>,
    /// The flow on whose behalf it is sent.
    pub(crate) flow: u32,
}

impl Frame {
    /// Whether it goes to all.
    pub(crate) fn is_broadcast(&self) -> bool {
        self.to == BROADCAST
    }

    /// Whether it is sent at the data rate.
    pub(crate) fn is_fast(&self) -> bool {
        self.kind == FrameKind::Data && !self.is_broadcast()
    }
}

/// A packet that waits for its turn or is being sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outgoing {
    pub(crate) packet: PacketId,
    pub(crate) to: RadioId,
    /// Bytes of the frame, header and checksum included.
    pub(crate) bytes: u32,
    /// The packet's flow.
    pub(crate) flow: u32,
}

/// This bit in the number of a packet says that it is the number of a control message.
pub(crate) const CONTROL: PacketId = 1 << 31;

impl Outgoing {
    /// Whether it is a control message, which goes before data.
    pub(crate) fn is_control(&self) -> bool {
        self.packet & CONTROL != 0
    }
}

/// Why an attempt at a frame came to nothing. A station never learns it; the simulator does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The receiver was too far away.
    OutOfRange,
    /// It collided with a frame of a station that its sender hears.
    Collision,
    /// It collided with a frame of a station that its sender does not hear.
    HiddenNode,
    /// Noise spoilt it.
    Channel,
    /// It arrived, and was not answered: the receiver's medium was spoken for.
    NoAnswer,
    /// Nobody has told the receiver's address.
    NoAddress,
}

impl Failure {
    /// The same as a cause of death.
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

/// What a station does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Begins to send a frame.
    Transmit(Frame),
    /// Hands the content of a data frame up.
    Deliver(Frame),
    /// A packet was sent, and acknowledged if it was not a broadcast. If the receiver has not taken it, it took it for another.
    Sent { outgoing: Outgoing, taken: bool },
    /// A packet was given up. It is none of the sender's any more if the receiver has taken it all the same.
    Failed {
        outgoing: Outgoing,
        taken: bool,
        failure: Failure,
    },
}

/// What a signal turned out to be at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// A frame without error.
    Frame(Frame),
    /// Something that the receiver tried to understand, and could not.
    Garbage,
    /// A signal that it did not try to understand: others were on the air, or it was transmitting itself.
    Noise,
}

#[cfg(test)]
mod tests;
