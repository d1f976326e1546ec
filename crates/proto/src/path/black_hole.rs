//! Black holes: routers that drop long packets and do not report it (RFC 8899 §4.3).

/// MTU in bytes of a path that loses long packets: every link with IPv6 has it (RFC 8200 §5), and nearly every other one.
pub(crate) const BASE_MTU: u16 = 1280;

/// Timeouts after the first one, for which the path is taken for a black hole.
const TIMEOUTS: u8 = 2;

/// Whether a path loses data but not HEARTBEATs, which are short.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct BlackHole {
    /// The HEARTBEAT under way was sent to ask this.
    pub(crate) asks: bool,
    /// Data has timed out, and none was acknowledged since.
    timed_out: bool,
    /// A HEARTBEAT was acknowledged after the latest timeout.
    answered: bool,
    /// Further timeouts, with an acknowledged HEARTBEAT before each.
    timeouts: u8,
}

impl BlackHole {
    /// Returns whether HEARTBEATs should be sent in packets of their own: data has timed out.
    pub(crate) fn is_suspected(&self) -> bool {
        self.timed_out
    }

    pub(crate) fn on_data_acked(&mut self) {
        *self = BlackHole {
            asks: self.asks,
            ..BlackHole::default()
        };
    }

    pub(crate) fn on_heartbeat_acked(&mut self) {
        self.asks = false;
        self.answered = self.timed_out;
    }

    /// Counts a timeout of data. Returns whether long packets are taken to be lost.
    pub(crate) fn on_timeout(&mut self) -> bool {
        self.timeouts += u8::from(self.answered);
        self.answered = false;
        self.timed_out = true;
        let is_found = self.timeouts >= TIMEOUTS;
        if is_found {
            self.on_data_acked();
        }
        is_found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_count_only_between_answers() {
        let mut path = BlackHole::default();
        path.on_heartbeat_acked();
        assert!(
            !path.on_timeout() && !path.on_timeout() && !path.on_timeout(),
            "the path is down"
        );
        path.on_heartbeat_acked();
        assert!(!path.on_timeout());
        path.on_heartbeat_acked();
        assert!(path.on_timeout());
        path.on_heartbeat_acked();
        assert!(!path.on_timeout(), "it begins again");
        path.on_heartbeat_acked();
        path.on_data_acked();
        assert!(!path.on_timeout() && !path.on_timeout());
    }
}
