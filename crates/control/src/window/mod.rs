//! Window control: given acknowledgements and verdicts, how much may be in flight?
//!
//! A part answers with numbers; the [`Controller`](crate::Controller) owns the window and applies them.

mod standard;

use core::fmt;

pub use standard::{StandardRules, StandardWindow};

use crate::sample::{AckSample, LossEvent};

/// The window as a part sees it. All in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowView {
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold.
    pub ssthresh: u64,
    /// The unit in which the window grows: PMDCS for SCTP (RFC 9260 §7.2), MSS for TCP.
    pub unit: u64,
}

/// A new window after a loss, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reduction {
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold.
    pub ssthresh: u64,
}

/// The questions a window control answers.
pub trait WindowControl: fmt::Debug + Send + Sync {
    /// Bytes by which an acknowledgement lets the congestion window grow.
    fn growth(&mut self, window: WindowView, ack: &AckSample) -> u64;

    /// The window after a loss that counts as congestion and was noticed by a gap; asked once per recovery.
    fn on_gap(&mut self, window: WindowView, loss: &LossEvent) -> Reduction;

    /// The window after a retransmission timeout.
    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent) -> Reduction;

    /// The window after the path was idle for one retransmission timeout.
    fn on_idle(&mut self, window: WindowView) -> Reduction;
}

/// The window control of a path.
#[derive(Debug)]
pub enum Window {
    /// The rules of the standard.
    Standard(StandardWindow),
    /// A part from outside this crate.
    Custom(Box<dyn WindowControl>),
}

impl Window {
    pub(crate) fn as_part(&mut self) -> &mut dyn WindowControl {
        match self {
            Window::Standard(part) => part,
            Window::Custom(part) => part.as_mut(),
        }
    }
}
