//! Black holes: routers that drop long packets and do not report it (RFC 8899 §4.3).

/// MTU in bytes of a path that loses long packets: every link with IPv6 has it (RFC 8200 §5), and nearly every other one.
pub(crate) const BASE_MTU: u16 = 1280;

/// Timeouts after the first one, for which the path is taken for a black hole.
const TIMEOUTS: u8 = 2;

/// A path that has lost data: perhaps a router drops long packets, but not HEARTBEATs, which are short.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct BlackHole {
    /// A HEARTBEAT was acknowledged after the latest timeout of data.
    answered: bool,
    /// Timeouts after the first one, with an acknowledged HEARTBEAT before each.
    timeouts: u8,
}

impl BlackHole {
    pub(crate) fn on_heartbeat_acked(&mut self) {
        self.answered = true;
    }

    /// Counts a timeout of data. Returns whether long packets are taken to be lost.
    pub(crate) fn on_timeout(&mut self) -> bool {
        self.timeouts = self.timeouts.saturating_add(self.answered.into());
        self.answered = false;
        self.timeouts >= TIMEOUTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_count_only_between_answers() {
        let mut path = BlackHole::default();
        assert!(
            !path.on_timeout() && !path.on_timeout() && !path.on_timeout(),
            "the path is down"
        );
        path.on_heartbeat_acked();
        assert!(!path.on_timeout());
        path.on_heartbeat_acked();
        assert!(path.on_timeout());
    }
}
