//! Recovery: options for retransmission and its timers. Data only; the transport implements them.

use crate::Span;
use crate::overridable::overridable;

/// What is sent again after missing reports for packets whose loss was judged a transmission error.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum TransmissionRetransmit {
    /// As after any loss: one packet at once, the rest as the window allows (RFC 9260 §7.2.4).
    #[default]
    Standard,
    /// As much as the window allows, at once: AMAP (Ye 2004, 5.3).
    Amap,
    /// One packet in each round-trip time (Ye 2004, 5.3: recommended).
    OnePerRtt,
}

/// How the retransmission timeout changes when it expires again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum BackOff {
    /// It doubles each time (RFC 9260 §6.3.3 rule E2).
    #[default]
    Exponential,
    /// While losses are judged transmission errors, it is drawn evenly between one and one and a half RTO and does not double
    /// (Ye 2004, 5.3).
    Limited,
}

overridable! {
    /// The recovery of a transport.
    Recovery,
    /// Changes to the recovery that a scheme brings. Absent fields have the scheme's values.
    RecoveryChanges {
        /// What is sent again after missing reports for packets whose loss was judged a transmission error.
        transmission_retransmit: TransmissionRetransmit = TransmissionRetransmit::Standard,
        /// Whether a packet sent again by fast retransmit may be declared lost by missing reports again (Caro et al. 2002, multiple fast
        /// retransmit), instead of waiting for the timeout.
        multiple_fast_retransmit: bool = false,
        /// Whether each acknowledgement that makes packets count as lost by congestion reduces the window, also if it was reduced already in
        /// this window of data: RFC 2960 as it was written, before RFC 4460 gave it fast recovery (Ye 2004, 5.4.2). SCTP only.
        reduce_at_each_loss: bool = false,
        /// Whether, after a timeout judged a transmission error, a HEARTBEAT probes the path before data is sent again (Ye 2004, 5.3).
        probe_after_timeout: bool = false,
        /// How the retransmission timeout changes when it expires again.
        back_off: BackOff = BackOff::Exponential,
        /// RTO.Min while losses are judged transmission errors (Ye 2004, 5.3), 1 ms to RTO.Min; 0 s leaves RTO.Min as it is.
        loss_rto_min: Span = Span::ZERO,
        /// Whether the effects of a spurious timeout are undone: one after which outstanding data is acknowledged before any of it was
        /// retransmitted (Ye 2004, 5.3).
        cancel_spurious: bool = false,
        /// Whether a timeout judged a transmission error leaves the window unchanged.
        keep_window_on_transmission_timeout: bool = false,
        /// Small-window recovery (Ye 2004, 3.4): if the window is too small for a fast retransmit, the lowest outstanding packet is
        /// retransmitted once as soon as the highest one is acknowledged by a gap.
        small_window: bool = false,
        /// Early retransmit: if too few packets are outstanding for the required missing reports, fewer reports suffice (after RFC 5827 and
        /// RFC 8985).
        early_retransmit: bool = false,
        /// Heartbeat after timeout (Caro et al. 2004): a path that timed out, and whose data goes to another one, gets a HEARTBEAT at
        /// once, which measures its round-trip time and counts its errors early.
        heartbeat_after_timeout: bool = false,
        /// Tail-loss probe: after two round-trip times of silence the last packet is sent again, so that missing reports come
        /// before a timeout (after RFC 8985 §7).
        tail_loss_probe: bool = false,
    }
}
