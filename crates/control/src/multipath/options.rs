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

/// Where lost data is sent again when there is more than one path. Paths that are not active are passed over while another one is; of
/// equals the first is taken. A redundant distribution sends it again where it was lost, whatever is chosen here.
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
    /// On the active path that has lost the smallest share of its packets of late (RTX-LOSSRATE).
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

/// Which way SACKs go when the peer has more than one address.
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
    /// It may.
    #[default]
    None,
    /// Of the send buffer each path gets an equal part: what was sent there and still lies in the buffer, acknowledged by a gap or not
    /// (Dreibholz, Becke, Rathgeb and Tuexen 2010).
    Sender,
    /// Of the peer's receive buffer, as far as it is free or in flight, each path gets an equal part: no more may be in flight there.
    Receiver,
    /// Both.
    Both,
}
