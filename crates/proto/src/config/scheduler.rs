//! Stream schedulers: the order in which waiting messages of different streams are sent.

/// The stream scheduler (RFC 8260 §3). It decides which stream sends next. The messages of one stream always keep their order.
///
/// Without user message interleaving, the fragments of a message follow each other (RFC 9260 §6.9), and a stream has its turn for a whole
/// message. With interleaving, it has its turn for one chunk; only `first-come` still sends whole messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)
)]
#[cfg_attr(feature = "config", serde(rename_all = "kebab-case"))]
pub enum Scheduler {
    /// Messages are sent in the order in which the user has passed them (SCTP_SS_FCFS, RFC 8260 §3.1).
    #[default]
    FirstCome,
    /// The streams take turns, one message each, or one chunk each with interleaving (SCTP_SS_RR, RFC 8260 §3.2).
    RoundRobin,
    /// The streams take turns, one packet each: the new data of a packet is of one stream, so that a lost packet delays one stream only
    /// (SCTP_SS_RR_PKT, RFC 8260 §3.3).
    RoundRobinPacket,
    /// The stream with the smallest priority value sends first; streams with the same value take turns (SCTP_SS_PRIO, RFC 8260 §3.4). The
    /// highest priority is 0, which is also the default of a stream.
    Priority,
    /// All streams with waiting messages send the same number of bytes of user data (SCTP_SS_FC, RFC 8260 §3.5). A stream that was idle
    /// does not catch up.
    FairCapacity,
    /// As with fair capacity, but in proportion to the weights of the streams (SCTP_SS_WFQ, RFC 8260 §3.6). A stream has weight 1 by default;
    /// weight 0 counts as 1.
    WeightedFair,
}

impl Scheduler {
    /// All schedulers, the default first.
    pub const ALL: [Scheduler; 6] = [
        Scheduler::FirstCome,
        Scheduler::RoundRobin,
        Scheduler::RoundRobinPacket,
        Scheduler::Priority,
        Scheduler::FairCapacity,
        Scheduler::WeightedFair,
    ];

    #[cfg(feature = "config")]
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn is_default(&self) -> bool {
        *self == Scheduler::default()
    }
}
