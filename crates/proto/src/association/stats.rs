//! Counters of an association.

use crate::send::SendingStats;

/// Counters of an association. Lengths are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AssociationStats {
    /// SCTP packets sent.
    pub packets_sent: u64,
    /// Bytes of SCTP packets sent, common headers included.
    pub bytes_sent: u64,
    /// SCTP packets received that belong to the association.
    pub packets_received: u64,
    /// Bytes of these packets.
    pub bytes_received: u64,
    /// DATA chunks sent, retransmissions included.
    pub data_chunks_sent: u64,
    /// User data sent, retransmissions included.
    pub data_bytes_sent: u64,
    /// User data acknowledged, cumulatively or in gap ack blocks, each byte once.
    pub data_bytes_acked: u64,
    /// User data in bytes that an NR-SACK freed from the send buffer before all earlier data was acknowledged.
    pub data_bytes_freed_early: u64,
    /// Messages given up before any part of them was sent.
    pub messages_given_up_unsent: u64,
    /// Messages given up after a part of them was sent.
    pub messages_given_up_sent: u64,
    /// DATA chunks retransmitted, without copies.
    pub retransmissions: u64,
    /// Copies: DATA chunks sent once more on another path.
    pub copies: u64,
    /// Reductions of a path's cwnd by half because the shared buffers waited for data sent on it.
    pub penalties: u64,
    /// Fast retransmits: events in which missing reports declared DATA chunks of a path lost, whatever their number.
    pub fast_retransmits: u64,
    /// Expirations of T3-rtx.
    pub timeouts: u64,
    /// Reactions of congestion control to gaps.
    pub recoveries: u64,
    /// DATA chunks received for the first time.
    pub data_chunks_received: u64,
    /// DATA chunks received more than once: spurious retransmissions of the peer, or duplicates made by the network.
    pub duplicates_received: u64,
    /// Duplicate TSNs that the peer reported: local spurious retransmissions, or duplicates made by the network.
    pub duplicates_reported: u64,
    /// SACK chunks sent.
    pub sacks_sent: u64,
    /// SACK chunks received and processed.
    pub sacks_received: u64,
    /// HEARTBEAT chunks sent.
    pub heartbeats_sent: u64,
    /// Messages accepted from the user.
    pub messages_sent: u64,
    /// Messages delivered to the user.
    pub messages_delivered: u64,
    /// User data delivered to the user.
    pub bytes_delivered: u64,
    /// Probes of a closed receive window.
    pub zero_window_probes: u64,
    /// Data packets that arrived with a CE mark, whether or not ECN is in use.
    pub ce_received: u64,
    /// ECNE chunks sent.
    pub ecne_sent: u64,
    /// ECNE chunks received and processed.
    pub ecne_received: u64,
    /// CWR chunks sent.
    pub cwr_sent: u64,
    /// CWR chunks received and processed.
    pub cwr_received: u64,
    /// Reductions of a congestion window by an ECNE chunk.
    pub ecn_reductions: u64,
    /// Lost DATA chunks whose loss was judged as congestion.
    pub losses_judged_congestion: u64,
    /// Lost DATA chunks whose loss was judged as a transmission loss.
    pub losses_judged_transmission: u64,
    /// Lost DATA chunks for which the discriminator had no verdict.
    pub losses_unsure: u64,
    /// Reductions of a congestion window by loss or by a mark.
    pub window_reductions: u64,
    /// Timeouts found to be spurious and reversed.
    pub spurious_timeouts: u64,
    /// Probes of a path after a timeout, and tail-loss probes.
    pub probes: u64,
    /// Changes of the path for new data.
    pub path_switches: u64,
    /// Path probes sent: heartbeats as large as data packets, which the path policy ordered.
    pub path_probes_sent: u64,
    /// Path probes that were acknowledged.
    pub path_probes_answered: u64,
    /// Bytes of SCTP packets with path probes and their acknowledgements.
    pub path_probe_bytes: u64,
    /// Probes of a path MTU sent (RFC 8899).
    pub mtu_probes_sent: u64,
}

/// The counters that belong to no component.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) packets_sent: u64,
    pub(super) bytes_sent: u64,
    pub(super) packets_received: u64,
    pub(super) bytes_received: u64,
    pub(super) data_chunks_received: u64,
    pub(super) duplicates_received: u64,
    pub(super) sacks_sent: u64,
    pub(super) messages_sent: u64,
    pub(super) messages_delivered: u64,
    pub(super) bytes_delivered: u64,
    pub(super) ce_received: u64,
    pub(super) ecne_sent: u64,
    pub(super) cwr_sent: u64,
    pub(super) cwr_received: u64,
}

impl Counters {
    /// Returns all counters of the association.
    pub(super) fn with(&self, sending: &SendingStats) -> AssociationStats {
        AssociationStats {
            packets_sent: self.packets_sent,
            bytes_sent: self.bytes_sent,
            packets_received: self.packets_received,
            bytes_received: self.bytes_received,
            data_chunks_sent: sending.data_chunks_sent,
            data_bytes_sent: sending.data_bytes_sent,
            data_bytes_acked: sending.data_bytes_acked,
            data_bytes_freed_early: sending.data_bytes_freed_early,
            messages_given_up_unsent: sending.messages_given_up_unsent,
            messages_given_up_sent: sending.messages_given_up_sent,
            retransmissions: sending.retransmissions,
            copies: sending.copies,
            penalties: sending.penalties,
            fast_retransmits: sending.fast_retransmits,
            timeouts: sending.timeouts,
            recoveries: sending.recoveries,
            data_chunks_received: self.data_chunks_received,
            duplicates_received: self.duplicates_received,
            duplicates_reported: sending.duplicates_reported,
            sacks_sent: self.sacks_sent,
            sacks_received: sending.sacks_received,
            heartbeats_sent: sending.heartbeats_sent,
            messages_sent: self.messages_sent,
            messages_delivered: self.messages_delivered,
            bytes_delivered: self.bytes_delivered,
            zero_window_probes: sending.zero_window_probes,
            ce_received: self.ce_received,
            ecne_sent: self.ecne_sent,
            ecne_received: sending.ecne_received,
            cwr_sent: self.cwr_sent,
            cwr_received: self.cwr_received,
            ecn_reductions: sending.ecn_reductions,
            losses_judged_congestion: sending.losses_judged_congestion,
            losses_judged_transmission: sending.losses_judged_transmission,
            losses_unsure: sending.losses_unsure,
            window_reductions: sending.window_reductions,
            spurious_timeouts: sending.spurious_timeouts,
            probes: sending.probes,
            path_switches: sending.path_switches,
            path_probes_sent: sending.path_probes_sent,
            mtu_probes_sent: sending.mtu_probes_sent,
            path_probes_answered: sending.path_probes_answered,
            path_probe_bytes: sending.path_probe_bytes,
        }
    }
}
