//! The record of why each packet died that died.

use whimbrel_control::Time;

use crate::packet::ChunkKinds;

/// The true cause of a packet's death.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[non_exhaustive]
pub enum DropCause {
    /// The queue had no room: congestion.
    QueueFull,
    /// Random early detection chose it: congestion.
    RedEarly,
    /// Random early detection drops everything while the queue is so long on average: congestion.
    RedForced,
    /// It had waited for too long: controlled delay chose it. Congestion.
    Codel,
    /// The channel spoilt it.
    ChannelLoss(LossKind),
    /// The link was down, or went down while the packet waited.
    LinkDown,
    /// No route leads from its source address to its destination address.
    NoRoute,
    /// It is larger than the link's MTU.
    TooBig,
    /// A radio gave it up after frames that collided with others at the receiver.
    Collision,
    /// A radio gave it up after frames that collided with those of a station which their sender could not hear.
    HiddenNode,
    /// A radio gave it up although the receiver heard it: the medium was spoken for there, or the answers were lost.
    RetryLimit,
    /// A radio gave it up: the next hop was too far away.
    OutOfRange,
    /// A radio gave it up after frames that noise had spoilt.
    ChannelError,
    /// It waited for a route, and others needed its place.
    RouteBufferFull,
    /// It waited too long for a route.
    RouteTimeout,
    /// It was sent over as many hops as it might be.
    TtlExpired,
    /// The station it was for had left the access point.
    NotAssociated,
    /// The address of the next hop was not known: another packet took its place while a request was out, or none was answered.
    NoAddress,
}

/// Which kind of loss model spoilt a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[non_exhaustive]
pub enum LossKind {
    /// Independent losses of packets.
    Bernoulli,
    /// Independent errors of bits.
    BitErrors,
    /// Two-state channel in continuous time.
    Markov,
    /// Two-state channel, a step per packet.
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
    pub const ALL: [DropCause; 24] = [
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
    ];

    /// Its place in [`DropCause::ALL`].
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
        }
    }

    /// Its number in the record of a packet, where zero means that nothing is wrong.
    pub(crate) const fn fate(self) -> u8 {
        self.index() as u8 + 1
    }

    /// The name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            DropCause::QueueFull => "queue-full",
            DropCause::RedEarly => "red-early",
            DropCause::RedForced => "red-forced",
            DropCause::Codel => "codel",
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

    /// Whether it was congestion, as opposed to an error of transmission or a broken link.
    pub const fn is_congestion(self) -> bool {
        matches!(
            self,
            DropCause::QueueFull | DropCause::RedEarly | DropCause::RedForced | DropCause::Codel
        )
    }
}

/// How many packets died of each cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DropCounts([u64; DropCause::ALL.len()]);

impl DropCounts {
    /// Counts one more.
    #[inline]
    pub(crate) fn add(&mut self, cause: DropCause) {
        self.0[cause.index()] += 1;
    }

    /// Packets that died of this cause.
    pub fn of(&self, cause: DropCause) -> u64 {
        self.0[cause.index()]
    }

    /// Packets that died.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The causes that killed any, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropCause, u64)> {
        DropCause::ALL.into_iter().zip(self.0).filter(|(_, n)| *n > 0)
    }

    /// Adds other counts.
    pub(crate) fn merge(&mut self, other: &DropCounts) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &DropCounts) -> DropCounts {
        let mut difference = *self;
        for (now, then) in difference.0.iter_mut().zip(earlier.0) {
            *now -= then;
        }
        difference
    }
}

/// A dead packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropEntry {
    /// When: as it was refused by a queue, or as it would have arrived.
    pub at: Time,
    /// Its flow, by its place in the scenario.
    pub flow: u32,
    /// Whether it went from the flow's sender to its receiver.
    pub forward: bool,
    /// Its number among the packets of its flow in that direction, from 0.
    pub number: u32,
    /// The direction of a link on which it died (see [`crate::topology`]); none if it had no route.
    pub direction: Option<u32>,
    /// Why.
    pub cause: DropCause,
    /// Bytes of IP packet.
    pub size: u32,
    /// What it carried.
    pub kinds: ChunkKinds,
    /// The TSN of its first DATA chunk, or the sequence number of a TCP segment that carries data.
    pub tsn: Option<u32>,
}

/// Every packet that died: counted always, entered one by one if asked for.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub(crate) counts: DropCounts,
    pub(crate) entries: Option<Vec<DropEntry>>,
}

impl Ledger {
    /// Packets by cause, over the whole run.
    pub fn counts(&self) -> &DropCounts {
        &self.counts
    }

    /// The dead one by one, if that was asked for.
    pub fn entries(&self) -> &[DropEntry] {
        self.entries.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_have_places_and_names_of_their_own() {
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
