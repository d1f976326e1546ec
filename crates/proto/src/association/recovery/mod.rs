//! Recovery from loss. Every scheme uses `epochs.rs` (fast recovery) and `verdict.rs`, and the number of missing reports of
//! `retransmit.rs`; the rest is for options beyond the standard.
//!
//! | file | content | source |
//! |---|---|---|
//! | `verdict.rs` | the verdict on a loss, determined once and traced for each chunk | |
//! | `epochs.rs` | windows of data for which a reaction to losses has taken place | RFC 9260 §7.2.4 |
//! | `mode.rs` | normal mode, congestion recovery, loss recovery; its timer; probing | Ye 2004, 5.3 |
//! | `spurious.rs` | reversal of spurious timeouts | Ye 2004, 5.4.2 |
//! | `retransmit.rs` | retransmission without a timeout, and its rate | Ye 2004, 3.4 and 5.3.3; RFC 5827; RFC 8985 §7 |

mod epochs;
mod mode;
mod retransmit;
mod spurious;
mod verdict;

pub(super) use verdict::LostTogether;
