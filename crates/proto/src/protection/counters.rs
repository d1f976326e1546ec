//! Counters of the DTLS chunks of an association.

/// Counters of an association's DTLS chunks (draft, "Get Statistic Counters").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProtectionStats {
    /// DTLS chunks sent.
    pub sealed: u64,
    /// DTLS chunks opened.
    pub opened: u64,
    /// Attempts to open a record that failed: it was not authentic, or its sequence number was not the one assumed.
    pub failed: u64,
    /// Records that had been received before, or that are older than the replay window.
    pub replayed: u64,
    /// Packets without a DTLS chunk that were discarded.
    pub unprotected: u64,
    /// Epochs that this end has begun after the first.
    pub epochs_sent: u64,
    /// Epochs that the peer has begun after the first.
    pub epochs_received: u64,
}
