//! The record of dropped packets and their true causes.

use whimbrel_control::Time;

use crate::ids::DirectionId;
use crate::kinds::ChunkKinds;

/// The true cause of a packet's loss.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[non_exhaustive]
pub enum DropCause {
    /// The queue was full: congestion.
    QueueFull,
    /// Random early detection dropped it early: congestion.
    RedEarly,
    /// Random early detection dropped it because the average queue was above the threshold: congestion.
    RedForced,
    /// Controlled delay dropped it because the queueing delay was too long: congestion.
    Codel,
    /// The coupled queues for L4S dropped it because the queueing delay was too long: congestion.
    DualPi2,
    /// Transmission loss by a loss model.
    ChannelLoss(LossKind),
    /// The link was down, or went down while the packet was queued.
    LinkDown,
    /// There is no route from its source address to its destination address.
    NoRoute,
    /// The packet is larger than the link's MTU.
    TooBig,
    /// A radio gave it up after collisions at the receiver.
    Collision,
    /// A radio gave it up after collisions with frames of a hidden node.
    HiddenNode,
    /// A radio gave it up although the receiver received it: the medium was reserved there, or acknowledgements were lost.
    RetryLimit,
    /// A radio gave it up: the next hop was out of range.
    OutOfRange,
    /// A radio gave it up after frames that noise corrupted.
    ChannelError,
    /// It waited for a route, and the buffer was full.
    RouteBufferFull,
    /// It waited for a route for too long.
    RouteTimeout,
    /// Its TTL expired.
    TtlExpired,
    /// Its station had left the access point.
    NotAssociated,
    /// Address resolution failed: another packet replaced it during a request, or no request was answered.
    NoAddress,
}

/// The kind of loss model that dropped a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[non_exhaustive]
pub enum LossKind {
    /// Independent losses of packets.
    Bernoulli,
    /// Independent errors of bits.
    BitErrors,
    /// Two-state channel in continuous time.
    Markov,
    /// Two-state channel, one step per packet.
    GilbertElliott,
    /// Errors at exponentially distributed intervals.
    TimeBetweenErrors,
    /// Every n-th packet.
    Periodic,
    /// A list of packets.
    List,
}

impl DropCause {
    /// Every cause, in the order in which they are counted.
    pub const ALL: [DropCause; 25] = [
        DropCause::QueueFull,
        DropCause::RedEarly,
        DropCause::RedForced,
        DropCause::Codel,
        DropCause::LinkDown,
        DropCause::NoRoute,
        DropCause::TooBig,
        DropCause::ChannelLoss(LossKind::Bernoulli),
        DropCause::ChannelLoss(LossKind::BitErrors),
        DropCause::ChannelLoss(LossKind::Markov),
        DropCause::ChannelLoss(LossKind::GilbertElliott),
        DropCause::ChannelLoss(LossKind::TimeBetweenErrors),
        DropCause::ChannelLoss(LossKind::Periodic),
        DropCause::ChannelLoss(LossKind::List),
        DropCause::Collision,
        DropCause::HiddenNode,
        DropCause::RetryLimit,
        DropCause::OutOfRange,
        DropCause::ChannelError,
        DropCause::RouteBufferFull,
        DropCause::RouteTimeout,
        DropCause::TtlExpired,
        DropCause::NotAssociated,
        DropCause::NoAddress,
        DropCause::DualPi2,
    ];

    /// Returns the index in [`DropCause::ALL`].
    pub const fn index(self) -> usize {
        match self {
            DropCause::QueueFull => 0,
            DropCause::RedEarly => 1,
            DropCause::RedForced => 2,
            DropCause::Codel => 3,
            DropCause::LinkDown => 4,
            DropCause::NoRoute => 5,
            DropCause::TooBig => 6,
            DropCause::ChannelLoss(kind) => 7 + kind as usize,
            DropCause::Collision => 14,
            DropCause::HiddenNode => 15,
            DropCause::RetryLimit => 16,
            DropCause::OutOfRange => 17,
            DropCause::ChannelError => 18,
            DropCause::RouteBufferFull => 19,
            DropCause::RouteTimeout => 20,
            DropCause::TtlExpired => 21,
            DropCause::NotAssociated => 22,
            DropCause::NoAddress => 23,
            DropCause::DualPi2 => 24,
        }
    }

    /// Returns the number in the record of a packet, where zero means no loss.
    pub(crate) const fn fate(self) -> u8 {
        self.index() as u8 + 1
    }

    /// Returns the name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            DropCause::QueueFull => "queue-full",
            DropCause::RedEarly => "red-early",
            DropCause::RedForced => "red-forced",
            DropCause::Codel => "codel",
            DropCause::DualPi2 => "dual-pi2",
            DropCause::LinkDown => "link-down",
            DropCause::NoRoute => "no-route",
            DropCause::TooBig => "too-big",
            DropCause::ChannelLoss(LossKind::Bernoulli) => "loss-bernoulli",
            DropCause::ChannelLoss(LossKind::BitErrors) => "loss-bit-errors",
            DropCause::ChannelLoss(LossKind::Markov) => "loss-markov",
            DropCause::ChannelLoss(LossKind::GilbertElliott) => "loss-gilbert-elliott",
            DropCause::ChannelLoss(LossKind::TimeBetweenErrors) => "loss-time-between-errors",
            DropCause::ChannelLoss(LossKind::Periodic) => "loss-periodic",
            DropCause::ChannelLoss(LossKind::List) => "loss-list",
            DropCause::Collision => "collision",
            DropCause::HiddenNode => "hidden-node",
            DropCause::RetryLimit => "retry-limit",
            DropCause::OutOfRange => "out-of-range",
            DropCause::ChannelError => "channel-error",
            DropCause::RouteBufferFull => "route-buffer-full",
            DropCause::RouteTimeout => "route-timeout",
            DropCause::TtlExpired => "ttl-expired",
            DropCause::NotAssociated => "not-associated",
            DropCause::NoAddress => "no-address",
        }
    }

    /// Returns whether the cause is congestion, as opposed to a transmission error or a broken link.
    pub const fn is_congestion(self) -> bool {
        matches!(
            self,
            DropCause::QueueFull | DropCause::RedEarly | DropCause::RedForced | DropCause::Codel | DropCause::DualPi2
        )
    }
}

/// Number of dropped packets by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DropCounts([u64; DropCause::ALL.len()]);

impl DropCounts {
    /// Counts a packet.
    #[inline]
    pub(crate) fn add(&mut self, cause: DropCause) {
        self.0[cause.index()] += 1;
    }

    /// Returns the number of packets dropped by this cause.
    pub fn of(&self, cause: DropCause) -> u64 {
        self.0[cause.index()]
    }

    /// Returns the number of dropped packets.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the causes that dropped any packets, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropCause, u64)> {
        DropCause::ALL.into_iter().zip(self.0).filter(|(_, n)| *n > 0)
    }

    /// Adds other counts.
    pub(crate) fn merge(&mut self, other: &DropCounts) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// Returns the difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &DropCounts) -> DropCounts {
        let mut difference = *self;
        for (now, then) in difference.0.iter_mut().zip(earlier.0) {
            *now -= then;
        }
        difference
    }
}

/// A dropped packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropEntry {
    /// Time of the drop: when a queue refused it, or when it would have arrived.
    pub at: Time,
    /// Index of its flow in the scenario.
    pub flow: u32,
    /// Whether it was sent from the flow's sender to its receiver.
    pub forward: bool,
    /// Number among the packets of its flow in that direction, from 0.
    pub number: u32,
    /// Direction of the link on which it was dropped (see [`crate::topology`]); none without a route.
    pub direction: Option<DirectionId>,
    /// Cause.
    pub cause: DropCause,
    /// Bytes of IP packet.
    pub size: u32,
    /// Its content.
    pub kinds: ChunkKinds,
    /// The TSN of its first DATA chunk, or the sequence number of a TCP segment that carries data.
    pub tsn: Option<u32>,
}

/// All dropped packets: always counted, and listed individually on request.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub(crate) counts: DropCounts,
    pub(crate) entries: Option<Vec<DropEntry>>,
}

impl Ledger {
    /// Returns the dropped packets by cause, over the whole run.
    pub fn counts(&self) -> &DropCounts {
        &self.counts
    }

    /// Returns the dropped packets individually, if requested.
    pub fn entries(&self) -> &[DropEntry] {
        self.entries.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_have_unique_indices_and_names() {
        for (i, cause) in DropCause::ALL.into_iter().enumerate() {
            assert_eq!(cause.index(), i);
            assert!(
                DropCause::ALL
                    .into_iter()
                    .filter(|other| other.name() == cause.name())
                    .count()
                    == 1
            );
        }
    }

    #[test]
    fn counts_are_differences_and_sums() {
        let mut counts = DropCounts::default();
        counts.add(DropCause::QueueFull);
        let before = counts;
        counts.add(DropCause::ChannelLoss(LossKind::List));
        counts.add(DropCause::ChannelLoss(LossKind::List));
        assert_eq!(
            counts.since(&before).iter().collect::<Vec<_>>(),
            [(DropCause::ChannelLoss(LossKind::List), 2)]
        );
        assert_eq!(counts.total(), 3);
    }
}
