//! Pacing: packets of data are spaced over time if the window control or the scheme requires it. Penalties: a path takes no new data for
//! some time.

use whimbrel_control::{Pacer, Rate, Span, Time};

use super::silence::Silence;

/// The rate at which packets are spaced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spacing {
    pub(super) rate: Rate,
    /// Packets that may be sent at once after a pause.
    pub(super) burst: u32,
}

/// State of pacing, penalties and silence. It is created when a path first needs it.
#[derive(Debug, Default)]
pub(crate) struct Restraint {
    pacer: Pacer,
    /// The driver's timer is coarse: packets are sent in bursts, which the pacer limits instead of Max.Burst.
    pub(super) bursts: bool,
    /// When cwnd was last full. Only recorded with bursts.
    full_at: Time,
    /// When cwnd was halved because the shared buffers waited for data sent on this path, and until when the path takes no new data because
    /// of that.
    pub(super) penalty: (Time, Time),
    pub(super) silence: Silence,
}

impl Restraint {
    /// Returns whether the pacer allows a packet now.
    #[inline]
    pub(super) fn may_send(&self, now: Time) -> bool {
        self.pacer.may_send(now)
    }

    /// Returns when the pacer allows the next packet.
    pub(super) fn next(&self) -> Time {
        self.pacer.next()
    }

    /// A packet of data with `bytes` bytes was sent and is to be spaced; `fills` cwnd with it or not.
    pub(super) fn on_sent(&mut self, now: Time, bytes: u64, spacing: Spacing, granularity: Span, fills: bool) {
        let Spacing { rate, burst } = spacing;
        self.pacer.on_sent(now, bytes, rate, granularity, burst);
        self.bursts = !granularity.is_zero();
        if self.bursts && fills {
            self.full_at = now;
        }
    }

    /// Returns whether cwnd was full within the last round-trip time.
    pub(super) fn was_full(&self, now: Time, srtt: Option<Span>) -> bool {
        self.full_at > Time::ZERO && srtt.is_some_and(|srtt| now.since(self.full_at) <= srtt)
    }
}
