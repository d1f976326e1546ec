//! Counters of an association.

/// What an association has done so far. Lengths in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AssociationStats {
    /// SCTP packets sent.
    pub packets_sent: u64,
    /// Bytes of SCTP packets sent, common headers included.
    pub bytes_sent: u64,
    /// SCTP packets received and taken.
    pub packets_received: u64,
    /// Bytes of SCTP packets received and taken.
    pub bytes_received: u64,
    /// DATA chunks sent, retransmissions included.
    pub data_chunks_sent: u64,
    /// User data sent, retransmissions included.
    pub data_bytes_sent: u64,
    /// User data acknowledged.
    pub data_bytes_acked: u64,
    /// Bytes of user data whose place in the send buffer an NR-SACK freed before all earlier data had come.
    pub data_bytes_freed_early: u64,
    /// DATA chunks sent again, copies left out.
    pub retransmissions: u64,
    /// DATA chunks sent on one more path.
    pub copies: u64,
    /// Times that a path's window was halved because the buffers waited for what had been sent there.
    pub penalties: u64,
    /// Fast retransmits: times that missing reports declared DATA chunks of a path lost, however many at once.
    pub fast_retransmits: u64,
    /// Times that T3-rtx went off.
    pub timeouts: u64,
    /// Reactions of congestion control to gaps.
    pub recoveries: u64,
    /// DATA chunks received for the first time.
    pub data_chunks_received: u64,
    /// DATA chunks received again: the peer's spurious retransmissions, or duplicates made by the network.
    pub duplicates_received: u64,
    /// Duplicate TSNs that the peer reported: our spurious retransmissions, or duplicates made by the network.
    pub duplicates_reported: u64,
    /// SACK chunks sent.
    pub sacks_sent: u64,
    /// SACK chunks received and taken.
    pub sacks_received: u64,
    /// HEARTBEAT chunks sent.
    pub heartbeats_sent: u64,
    /// Messages taken from the user.
    pub messages_sent: u64,
    /// Messages handed to the user.
    pub messages_delivered: u64,
    /// User data handed to the user.
    pub bytes_delivered: u64,
    /// Probes of a closed receive window.
    pub zero_window_probes: u64,
    /// Packets of data that arrived marked (CE), whether or not ECN is in use.
    pub ce_received: u64,
    /// ECNE chunks sent.
    pub ecne_sent: u64,
    /// ECNE chunks received and taken.
    pub ecne_received: u64,
    /// CWR chunks sent.
    pub cwr_sent: u64,
    /// CWR chunks received and taken.
    pub cwr_received: u64,
    /// Times that an ECNE chunk reduced a congestion window.
    pub ecn_reductions: u64,
    /// DATA chunks lost whose loss was judged congestion.
    pub losses_judged_congestion: u64,
    /// DATA chunks lost whose loss was judged a transmission error.
    pub losses_judged_transmission: u64,
    /// DATA chunks lost of which the discriminator could not tell what it meant.
    pub losses_unsure: u64,
    /// Times that loss or a mark made a congestion window smaller.
    pub window_reductions: u64,
    /// Timeouts found to be spurious, and taken back.
    pub spurious_timeouts: u64,
    /// Probes of a path after a timeout, and tail-loss probes.
    pub probes: u64,
    /// Times that new data was moved to another path.
    pub path_switches: u64,
    /// Heartbeats as large as packets of data, sent because the path policy ordered them.
    pub path_probes_sent: u64,
    /// Those that were answered.
    pub path_probes_answered: u64,
    /// Bytes of SCTP packets that they and their answers took.
    pub path_probe_bytes: u64,
}
