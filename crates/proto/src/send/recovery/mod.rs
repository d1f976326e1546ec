//! Recovery from loss. Every scheme uses `fast_recovery.rs`, `timeout.rs`, `retransmission.rs` and `back_off` of `mode.rs`; the rest is for
//! options beyond the standard, whose state is `Path::recovery`.
//!
//! | file | content | source |
//! |---|---|---|
//! | `fast_recovery.rs` | losses found by missing reports, the verdict on them, the reaction | RFC 9260 §7.2.4 |
//! | `timeout.rs` | expiry of the timers of sending, above all T3-rtx | RFC 9260 §6.3.3 |
//! | `retransmission.rs` | what is retransmitted next, and on which path | RFC 9260 §6.4 |
//! | `mode.rs` | normal mode, congestion recovery, loss recovery; its timer; probing | Ye 2004, 5.3 |
//! | `spurious.rs` | reversal of spurious timeouts | Ye 2004, 5.4.2 |
//! | `retransmit.rs` | retransmission without a timeout, and its rate | Ye 2004, 3.4 and 5.3.3; RFC 5827; RFC 8985 §7 |

mod fast_recovery;
mod mode;
mod retransmission;
mod retransmit;
mod spurious;
mod timeout;

pub(crate) use fast_recovery::LostTogether;
pub(crate) use retransmission::LostData;
