//! Recovery from loss beyond the standard: what was meant by it, what is sent again, when, and with which timer.
//!
//! | file | what | source |
//! |---|---|---|
//! | `verdict.rs` | what a loss meant, asked once and told of each chunk | |
//! | `epochs.rs` | windows of data in which something has been done about losses | RFC 9260 §7.2.4 |
//! | `mode.rs` | normal mode, congestion recovery, loss recovery; its timer; probing | Ye 2004, 5.3 |
//! | `spurious.rs` | timeouts taken back | Ye 2004, 5.4.2 |
//! | `retransmit.rs` | what is sent again without a timeout, and how fast | Ye 2004, 3.4 and 5.3.3; RFC 5827; RFC 8985 §7 |

mod epochs;
mod mode;
mod retransmit;
mod spurious;
mod verdict;

pub(crate) use epochs::Epochs;
pub(crate) use mode::PathRecovery;
pub use mode::RecoveryMode;
pub(crate) use verdict::Lost;
