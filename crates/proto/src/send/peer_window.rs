//! The peer's receive window, and the probes of a closed one (RFC 9260 §6.1 A, §6.2.1).

use whimbrel_control::{Span, Time};

use crate::config::NEVER;

/// The peer's receive window (rwnd). It is what the peer has advertised minus the data in flight, whether that data was sent, lost or
/// acknowledged since (RFC 9260 §6.2.1 B to D).
#[derive(Debug)]
pub(crate) struct PeerWindow {
    /// What the peer advertised last (a_rwnd).
    advertised: u32,
    /// The largest a_rwnd, for silly window avoidance (RFC 9260 §6.1 A).
    largest: u32,
    /// Present once the window has been closed.
    probe: Option<Box<ZeroWindowProbe>>,
}

/// Probing of a closed window.
#[derive(Debug)]
struct ZeroWindowProbe {
    /// When it is probed next.
    at: Time,
    /// Probes sent since the window closed.
    sent: u32,
    /// One chunk may be sent although the window is closed.
    permitted: bool,
    /// The chunk in flight is a probe.
    in_flight: bool,
    /// A SACK has arrived since the probe was sent.
    answered: bool,
}

impl Default for ZeroWindowProbe {
    fn default() -> Self {
        ZeroWindowProbe {
            at: NEVER,
            sent: 0,
            permitted: false,
            in_flight: false,
            answered: false,
        }
    }
}

impl PeerWindow {
    /// Returns the window that the peer has announced in the handshake.
    pub(crate) fn new(announced: u32) -> Self {
        PeerWindow {
            advertised: announced,
            largest: announced,
            probe: None,
        }
    }

    /// Returns what the peer advertised last, in bytes.
    #[inline]
    pub(crate) fn advertised(&self) -> u32 {
        self.advertised
    }

    /// Returns the largest window that the peer has advertised, in bytes.
    pub(crate) fn largest(&self) -> u32 {
        self.largest
    }

    /// Returns the room in bytes for new data while these bytes are in flight.
    #[inline]
    pub(crate) fn room(&self, in_flight: u64) -> u32 {
        u32::try_from(u64::from(self.advertised).saturating_sub(in_flight)).unwrap_or(0)
    }

    /// Returns how much of `len` bytes of user data the window takes: all, or, to avoid a silly window (RFC 1122 §4.2.3.4), what fits if no
    /// data is in flight and the window is at least half of the largest one.
    #[inline]
    pub(crate) fn takes(&self, len: usize, in_flight: u64) -> Option<usize> {
        let room = self.room(in_flight) as usize;
        if len <= room || self.may_probe() {
            return Some(len);
        }
        let is_worth_it = room >= self.largest as usize / 2 && room > 0;
        (is_worth_it && in_flight == 0).then_some(room)
    }

    /// The peer advertises a window. `in_flight`: bytes in flight, chunks that the same SACK acknowledges left out.
    // [9260:6.2.1-1]
    #[inline]
    pub(crate) fn advertise(&mut self, a_rwnd: u32, in_flight: u64) {
        self.advertised = a_rwnd;
        self.largest = self.largest.max(a_rwnd);
        let is_open = self.room(in_flight) > 0;
        let Some(probe) = &mut self.probe else { return };
        probe.answered = true;
        if in_flight == 0 {
            probe.in_flight = false;
        }
        if is_open {
            // The window is open: a chunk sent as a probe is normal data, and so are the chunks sent after it.
            probe.in_flight = false;
            probe.sent = 0;
        }
    }

    /// The peer has acknowledged these bytes without advertising a window: they may still occupy it.
    pub(crate) fn fill(&mut self, acknowledged: u64) {
        self.advertised = self.room(acknowledged);
    }

    /// Returns whether a chunk may be sent into a closed window.
    #[inline]
    pub(crate) fn may_probe(&self) -> bool {
        self.probe.as_ref().is_some_and(|probe| probe.permitted)
    }

    /// Returns whether the data in flight is a probe of a closed window.
    #[inline]
    pub(crate) fn is_probed(&self) -> bool {
        self.probe.as_ref().is_some_and(|probe| probe.in_flight)
    }

    /// New data of `len` bytes is about to be sent. Returns whether it is a probe.
    #[inline]
    pub(crate) fn on_new_data(&mut self, len: usize, in_flight: u64) -> bool {
        let room = self.room(in_flight) as usize;
        let Some(probe) = &mut self.probe else { return false };
        let is_probe = core::mem::take(&mut probe.permitted) && len > room;
        if is_probe {
            probe.sent += 1;
            probe.in_flight = true;
            probe.answered = false;
        }
        is_probe
    }

    /// Data has timed out. Returns whether it was a probe to which the peer has responded: a peer may keep its window closed
    /// indefinitely, which is not congestion (RFC 9260 §6.1 A).
    pub(crate) fn on_timeout(&mut self) -> bool {
        let Some(probe) = &mut self.probe else { return false };
        core::mem::take(&mut probe.answered) && probe.in_flight
    }

    /// Returns when a closed window is probed.
    #[inline]
    pub(crate) fn probe_at(&self) -> Time {
        self.probe.as_ref().map_or(NEVER, |probe| probe.at)
    }

    /// Starts the timer of the next probe, unless it runs or has expired. The wait doubles with each probe, up to `longest`.
    // [9260:6.1-3, 6.1-4, 6.1-5]
    pub(crate) fn start_probe_timer(&mut self, now: Time, rto: Span, longest: Span) {
        let probe = self.probe.get_or_insert_default();
        if probe.at == NEVER && !probe.permitted {
            probe.at = now + (rto * (1 << probe.sent.min(16))).min(longest);
        }
    }

    /// No probe is needed.
    #[inline]
    pub(crate) fn stop_probe_timer(&mut self) {
        if let Some(probe) = &mut self.probe {
            probe.at = NEVER;
        }
    }

    /// The timer of the probe has expired: one chunk may be sent.
    pub(crate) fn permit_probe(&mut self) {
        let probe = self.probe.get_or_insert_default();
        probe.at = NEVER;
        probe.permitted = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_what_was_advertised_minus_what_is_in_flight() {
        let mut window = PeerWindow::new(10_000);
        assert_eq!(
            [0, 4000, 20_000].map(|in_flight| window.room(in_flight)),
            [10_000, 6000, 0]
        );
        window.fill(3000);
        assert_eq!(window.room(0), 7000);
        window.advertise(8000, 2000);
        assert_eq!((window.room(2000), window.largest()), (6000, 10_000));
    }

    #[test]
    fn a_small_window_is_used_only_if_it_is_half_of_the_largest_and_nothing_is_in_flight() {
        let mut window = PeerWindow::new(2000);
        window.advertise(1000, 0);
        assert_eq!(window.takes(1400, 0), Some(1000));
        assert_eq!(window.takes(1400, 100), None);
        window.advertise(999, 0);
        assert_eq!(window.takes(1400, 0), None);
    }

    #[test]
    fn probes_of_a_closed_window_are_sent_at_growing_intervals_until_it_opens() {
        let mut window = PeerWindow::new(0);
        let mut now = Time::ZERO;
        for expected in [1, 2, 4, 4] {
            window.start_probe_timer(now, Span::from_secs(1), Span::from_secs(4));
            assert_eq!(window.probe_at().since(now), Span::from_secs(expected));
            now = window.probe_at();
            window.permit_probe();
            assert!(window.takes(1000, 0) == Some(1000) && window.on_new_data(1000, 0));
            assert!(!window.may_probe() && !window.on_timeout(), "not answered yet");
            window.advertise(0, 1000);
            assert!(window.is_probed() && window.on_timeout());
        }
        window.advertise(3000, 1000);
        assert!(!window.is_probed());
        window.start_probe_timer(now, Span::from_secs(1), Span::from_secs(4));
        assert_eq!(window.probe_at().since(now), Span::from_secs(1));
    }
}
