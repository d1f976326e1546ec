//! Heartbeats: their content and their timer (RFC 9260 §5.4, §8.3).

use whimbrel_control::{Span, Time};

use crate::PathId;
use crate::config::NEVER;

/// State of a path's heartbeats.
#[derive(Clone, Debug)]
pub(crate) struct HeartbeatState {
    /// When the next heartbeat is due or, while one is outstanding, when it times out.
    pub(crate) timer: Time,
    /// Nonce of the outstanding heartbeat.
    pub(crate) pending: Option<u64>,
    /// When the outstanding heartbeat was sent; [`NEVER`] if it is still queued.
    pub(crate) sent_at: Time,
    /// The outstanding heartbeat was sent twice: its HEARTBEAT ACK gives no round-trip time.
    pub(crate) sent_again: bool,
    /// The user or path verification requested a heartbeat.
    pub(crate) requested: bool,
    /// It was requested to find out whether the path carries short packets only.
    pub(crate) asks_about_mtu: bool,
    /// When a chunk that can measure the round-trip time was last sent. The path is idle since then.
    pub(crate) last_probe: Time,
}

impl Default for HeartbeatState {
    fn default() -> Self {
        HeartbeatState {
            timer: NEVER,
            pending: None,
            sent_at: NEVER,
            sent_again: false,
            requested: false,
            asks_about_mtu: false,
            last_probe: Time::ZERO,
        }
    }
}

impl HeartbeatState {
    /// A HEARTBEAT is sent at once.
    pub(crate) fn request(&mut self, now: Time) {
        self.last_probe = now;
        self.timer = now;
        self.requested = true;
    }

    /// A new heartbeat becomes outstanding.
    pub(crate) fn begin(&mut self, nonce: u64) {
        self.pending = Some(nonce);
        self.sent_at = NEVER;
        self.sent_again = false;
        self.requested = false;
    }

    /// The outstanding heartbeat is sent.
    pub(crate) fn on_sent(&mut self, now: Time) {
        self.sent_again = self.sent_at != NEVER;
        self.sent_at = now;
    }

    /// Returns the round-trip time that a HEARTBEAT ACK gives. The time stamp in the HEARTBEAT ACK is not used.
    pub(crate) fn round_trip(&self, now: Time) -> Option<Span> {
        (self.sent_at != NEVER && !self.sent_again).then(|| now.since(self.sent_at))
    }

    /// The RTO was updated: the next heartbeat is due no later than the longest period after the last activity.
    pub(crate) fn on_rto(&mut self, now: Time, interval: Span, rto: Span) {
        if self.pending.is_none() && self.timer != NEVER && !interval.is_zero() {
            let latest = self.last_probe + period(interval, rto, u64::MAX);
            self.timer = self.timer.min(latest.max(now));
        }
    }
}

/// Returns the time from one heartbeat to the next on an idle path: HB.interval plus the RTO with a jitter of +/- 50 %
/// of the RTO (RFC 9260 §8.3). `random` is uniformly distributed over all values.
// [9260:8.3-13]
pub(crate) fn period(interval: Span, rto: Span, random: u64) -> Span {
    let jitter = Span::from_nanos(((u128::from(random) * u128::from(rto.as_nanos())) >> 64) as u64);
    interval + rto / 2 + jitter
}

/// Returns when the next heartbeat of a path is due that is idle since `from`: at a multiple of `alignment` within the jitter that
/// [`period`] may have, if there is one, so that the heartbeats of many associations leave together. An alignment of zero: at any time.
pub(crate) fn next_heartbeat(from: Time, interval: Span, rto: Span, random: u64, alignment: Span) -> Time {
    let at = from + period(interval, rto, random);
    if alignment.is_zero() {
        return at;
    }
    let step = alignment.as_nanos();
    let below = at.as_nanos() / step * step;
    let (first, last) = (from + period(interval, rto, 0), from + period(interval, rto, u64::MAX));
    let aligned = [below, below.saturating_add(step)].map(Time::from_nanos);
    let fits = |time: &Time| *time >= first && *time <= last;
    aligned.into_iter().find(fits).unwrap_or(at)
}

/// Length of the Heartbeat Info in bytes.
pub(crate) const HEARTBEAT_INFO_LEN: usize = 17;

/// Heartbeat Information: opaque to the peer, which returns it unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeartbeatContent {
    /// Proves that the HEARTBEAT ACK comes from the destination of the HEARTBEAT (RFC 9260 §5.4).
    pub(crate) nonce: u64,
    /// When the HEARTBEAT was sent.
    pub(crate) sent_at: Time,
    /// The path on which the HEARTBEAT was sent.
    pub(crate) path: PathId,
}

impl HeartbeatContent {
    // [9260:3.3.5-2, 8.3-6]
    pub(crate) fn to_bytes(self) -> [u8; HEARTBEAT_INFO_LEN] {
        let mut bytes = [0; HEARTBEAT_INFO_LEN];
        bytes[..8].copy_from_slice(&self.nonce.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.sent_at.as_nanos().to_be_bytes());
        bytes[16] = self.path.0;
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEARTBEAT_INFO_LEN] = bytes.try_into().ok()?;
        let word = |at: usize| {
            bytes[at..at + 8]
                .iter()
                .fold(0, |word, &byte| word << 8 | u64::from(byte))
        };
        Some(HeartbeatContent {
            nonce: word(0),
            sent_at: Time::from_nanos(word(8)),
            path: PathId(bytes[16]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [9260:3.3.5-2]
    #[test]
    fn the_content_is_unchanged_by_encoding_and_decoding() {
        let content = HeartbeatContent {
            nonce: 0x0123_4567_89ab_cdef,
            sent_at: Time::from_nanos(42),
            path: PathId(3),
        };
        assert_eq!(HeartbeatContent::from_bytes(&content.to_bytes()), Some(content));
        assert_eq!(HeartbeatContent::from_bytes(&content.to_bytes()[1..]), None);
    }

    #[test]
    fn a_shorter_rto_advances_a_waiting_heartbeat() {
        // RFC 9260 §8.3: due with an RTO of 8 s after 30 s + 12 s at the latest, with an RTO of 1 s after 31.5 s.
        let second = |n: u64| Time::from_nanos(n * 1_000_000_000);
        let mut state = HeartbeatState {
            timer: second(142),
            last_probe: second(100),
            ..HeartbeatState::default()
        };
        state.on_rto(second(101), Span::from_secs(30), Span::from_secs(1));
        assert!(
            state.timer <= second(100) + Span::from_millis(31_500),
            "{:?}",
            state.timer
        );
        state.timer = second(102);
        state.on_rto(second(101), Span::from_secs(30), Span::from_secs(1));
        assert_eq!(state.timer, second(102), "it never moves back");
    }

    // [9260:8.3-13]
    #[test]
    fn an_aligned_heartbeat_keeps_within_the_jitter() {
        // RFC 9260 §8.3: 30 s and an RTO of 1 s, from 0.5 to 1.5 times.
        let (from, interval) = (Time::from_nanos(7_123_456_789), Span::from_secs(30));
        let due = |rto, random, alignment| next_heartbeat(from, interval, rto, random, alignment);
        let (second, tenth) = (Span::from_secs(1), Span::from_millis(100));
        for random in (0..=64).map(|n| (u64::MAX / 64).saturating_mul(n)) {
            let at = due(second, random, tenth);
            assert_eq!(at.as_nanos() % tenth.as_nanos(), 0, "{at:?}");
            let waited = at.since(from);
            assert!(
                waited >= Span::from_millis(30_500) && waited <= Span::from_millis(31_500),
                "{waited}"
            );
            assert_eq!(due(second, random, Span::ZERO), from + period(interval, second, random));
        }
        // The jitter of an RTO of 10 ms has no multiple of 100 ms.
        let rto = Span::from_millis(10);
        assert_eq!(due(rto, 1 << 63, tenth), from + period(interval, rto, 1 << 63));
    }

    // [9260:8.3-13]
    #[test]
    fn the_period_is_interval_plus_rto_with_half_an_rto_of_jitter() {
        // RFC 9260 §8.3
        let (interval, rto) = (Span::from_secs(30), Span::from_secs(2));
        assert_eq!(period(interval, rto, 0), Span::from_secs(31));
        assert_eq!(period(interval, rto, 1 << 63), Span::from_secs(32));
        assert!(period(interval, rto, u64::MAX) <= Span::from_secs(33));
    }
}
