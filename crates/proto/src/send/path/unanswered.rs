//! Data that times out on a path that answers HEARTBEATs: something on the path drops data, because of its length or of its ECN bits.

/// Timeouts of data, with no data acknowledged between them, from which on an answered HEARTBEAT does not count for data.
const TIMEOUTS: u8 = 2;
/// Timeouts of first transmissions, with none acknowledged between them, after which they are sent without ECT.
const ECT_TIMEOUTS: u8 = 3;

/// What the timeouts of data on a path indicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Unanswered {
    /// Timeouts of data since data was acknowledged.
    timeouts: u8,
    /// A HEARTBEAT has been acknowledged since the first of them.
    heartbeat: bool,
    /// Timeouts of packets sent as ECT since a first transmission was acknowledged.
    ect_timeouts: u8,
    /// A packet has been sent as ECT since the last timeout.
    ect_sent: bool,
}

impl Unanswered {
    /// A packet was sent as ECT. Only first transmissions are.
    #[inline]
    pub(crate) fn on_ect_sent(&mut self) {
        self.ect_sent = true;
    }

    /// Data has timed out.
    pub(crate) fn on_data_timeout(&mut self) {
        self.timeouts = self.timeouts.saturating_add(1);
        let ect = core::mem::take(&mut self.ect_sent);
        self.ect_timeouts = self.ect_timeouts.saturating_add(ect.into());
    }

    /// Data that was sent on this path only has been acknowledged. `once`: a chunk of it was sent once.
    #[inline]
    pub(crate) fn on_data_acked(&mut self, once: bool) {
        (self.timeouts, self.heartbeat) = (0, false);
        if once && self.may_use_ect() {
            self.ect_timeouts = 0;
        }
    }

    /// A HEARTBEAT has been acknowledged. `data_waits`: data is outstanding. If all of it was acknowledged on other paths, nothing is
    /// known to be lost on this one.
    pub(crate) fn on_heartbeat_acked(&mut self, data_waits: bool) {
        self.heartbeat = self.timeouts > 0;
        if !data_waits {
            self.on_data_acked(false);
        }
    }

    /// Returns whether only acknowledged data shows that data arrives.
    pub(crate) fn is_doubted(&self) -> bool {
        self.timeouts >= TIMEOUTS
    }

    /// Returns whether HEARTBEATs arrive and data does not.
    pub(crate) fn loses_data_only(&self) -> bool {
        self.is_doubted() && self.heartbeat
    }

    /// Returns whether packets may be sent as ECT, as in the validation of QUIC (RFC 9000 §13.4.2). Once given up, it is not tried again.
    pub(crate) fn may_use_ect(&self) -> bool {
        self.ect_timeouts < ECT_TIMEOUTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ect_is_given_up_if_only_retransmissions_arrive() {
        let mut path = Unanswered::default();
        for timeout in 1..=3 {
            assert!(path.may_use_ect());
            path.on_ect_sent();
            path.on_data_timeout();
            // A second timeout loses the retransmission, which is not sent as ECT.
            path.on_data_timeout();
            path.on_data_acked(false);
            assert_eq!(path.may_use_ect(), timeout < 3);
        }
        path.on_data_acked(true);
        assert!(!path.may_use_ect(), "it was sent without ECT");
    }

    #[test]
    fn a_first_transmission_that_arrives_shows_that_ect_does() {
        let mut path = Unanswered::default();
        for _ in 0..10 {
            path.on_ect_sent();
            path.on_data_timeout();
            path.on_ect_sent();
            path.on_data_timeout();
            path.on_data_acked(true);
        }
        assert!(path.may_use_ect());
    }

    #[test]
    fn heartbeats_do_not_count_for_data_after_two_timeouts() {
        let mut path = Unanswered::default();
        path.on_heartbeat_acked(true);
        path.on_data_timeout();
        path.on_heartbeat_acked(true);
        assert!(!path.is_doubted());
        path.on_data_timeout();
        assert!(path.is_doubted() && path.loses_data_only());
        path.on_data_acked(false);
        assert!(!path.is_doubted());
        path.on_data_timeout();
        path.on_data_timeout();
        assert!(
            path.is_doubted() && !path.loses_data_only(),
            "no HEARTBEAT was answered"
        );
    }
}
