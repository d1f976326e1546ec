//! Options with a fixed set of values.

/// Whose sequence numbers drive congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Accounting {
    /// TSNs, for the association as a whole: one fast recovery, and a window grows only while the cumulative TSN ack advances
    /// (RFC 9260 §7.2).
    #[default]
    Association,
    /// Path sequence numbers, implicit and kept by the sender: each path has its own cumulative ack point, missing reports and fast
    /// recovery (IPCC: Ye 2004, 6.4).
    Path,
    /// TSNs with split fast retransmit and cwnd update for each path, and delayed acknowledgements taken into account (CMT: Iyengar,
    /// Amer and Stewart 2006: SFR, CUC, DAC).
    Cmt,
}

impl Accounting {
    /// Returns whether each path has its own fast recovery.
    pub const fn is_per_path(self) -> bool {
        !matches!(self, Accounting::Association)
    }
}

/// The path on which lost data is retransmitted if there are several. Inactive paths are skipped while another path is active; of equal
/// paths the first is used. A redundant distribution always retransmits on the path of the loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum RetransmitPath {
    /// After a timeout on another active path, after a fast retransmit on the same (RFC 9260 §6.4).
    #[default]
    Standard,
    /// Always on the path of the original, as long as it is active.
    Same,
    /// Always on another active path.
    Alternate,
    /// On the active path with the largest congestion window (Iyengar, Amer and Stewart 2006: RTX-CWND).
    LargestCwnd,
    /// On the active path with the largest slow-start threshold (RTX-SSTHRESH).
    LargestSsthresh,
    /// On the active path that has lost the smallest fraction of its recent packets (RTX-LOSSRATE).
    LowestLoss,
    /// On the active path with the lowest smoothed round-trip time.
    LowestRtt,
    /// As soon as possible: on an active path with an open window, the one with the lowest round-trip time first (after RTX-ASAP,
    /// which draws among them).
    Soonest,
}

impl RetransmitPath {
    /// All values.
    pub const ALL: &'static [RetransmitPath] = &[
        RetransmitPath::Standard,
        RetransmitPath::Same,
        RetransmitPath::Alternate,
        RetransmitPath::LargestCwnd,
        RetransmitPath::LargestSsthresh,
        RetransmitPath::LowestLoss,
        RetransmitPath::LowestRtt,
        RetransmitPath::Soonest,
    ];
}

/// The path of SACKs if the peer has more than one address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum SackPath {
    /// On the path that the last packet with data came on (RFC 9260 §6.4).
    #[default]
    LastArrival,
    /// On the primary path, while it is active.
    Primary,
    /// On the active path with the shortest smoothed round-trip time that is known.
    LowestRtt,
    /// On the path that the last packet with data came on, and a copy on each other active path.
    All,
}

/// Whether one path may fill the buffers that all share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum BufferSplit {
    /// One path may fill the buffers.
    #[default]
    None,
    /// Each path gets an equal part of the send buffer. Data that was sent there counts until it leaves the buffer, also if a gap ack
    /// block acknowledges it
    /// (Dreibholz, Becke, Rathgeb and Tuexen 2010).
    Sender,
    /// Each path gets an equal part of the peer's receive buffer, the free part and the data in flight: the limit of its data in flight.
    Receiver,
    /// Both limits.
    Both,
}
