//! Counters of sending.

/// The counters of [`AssociationStats`](crate::AssociationStats) that sending keeps, with the same names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendingStats {
    pub(crate) data_chunks_sent: u64,
    pub(crate) data_bytes_sent: u64,
    pub(crate) data_bytes_acked: u64,
    pub(crate) data_bytes_freed_early: u64,
    pub(crate) messages_given_up_unsent: u64,
    pub(crate) messages_given_up_sent: u64,
    pub(crate) retransmissions: u64,
    pub(crate) copies: u64,
    pub(crate) penalties: u64,
    pub(crate) fast_retransmits: u64,
    pub(crate) timeouts: u64,
    pub(crate) recoveries: u64,
    pub(crate) duplicates_reported: u64,
    pub(crate) sacks_received: u64,
    pub(crate) heartbeats_sent: u64,
    pub(crate) zero_window_probes: u64,
    pub(crate) ecne_received: u64,
    pub(crate) ecn_reductions: u64,
    pub(crate) losses_judged_congestion: u64,
    pub(crate) losses_judged_transmission: u64,
    pub(crate) losses_unsure: u64,
    pub(crate) window_reductions: u64,
    pub(crate) spurious_timeouts: u64,
    pub(crate) probes: u64,
    pub(crate) path_switches: u64,
    pub(crate) path_probes_sent: u64,
    pub(crate) path_probes_answered: u64,
    pub(crate) path_probe_bytes: u64,
}
