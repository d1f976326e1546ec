//! Timestamps: a TIMESTAMP chunk is bundled with each data packet. The SACK that answers it echoes the timestamp
//! together with the time of arrival (Chen et al. 2011, 3.1.1).
//!
//! The chunk takes 12 bytes of each data packet. The echoed timestamp is that of the last data packet before the SACK,
//! which triggered the SACK. Timestamps are in microseconds modulo 2^32, which is 71 minutes; both endpoints unwrap
//! them.

use whimbrel_control::multipath::SackPath;
use whimbrel_control::{Span, Stamps, Time};
use whimbrel_wire::{TIMESTAMP_LEN, Timestamp};

use super::Association;
use crate::PathId;
use crate::extensions::Extensions;
use crate::send::PathAck;

/// State of the negotiated timestamps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamping {
    /// Time of sending of the packet being processed.
    arriving: Option<u32>,
    /// Echo in the packet being processed.
    returned: Option<(u32, u32)>,
    /// Timestamp of the last data packet, until a SACK echoes it.
    to_return: Option<(u32, u32)>,
    /// The peer's latest timestamp in microseconds, unwrapped.
    peer_clock: Option<u64>,
}

/// Information that a SACK carries besides acknowledgements, and the path that it concerns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Echo {
    /// `None` if it does not concern a path.
    pub(super) path: Option<PathId>,
    pub(super) stamps: Option<Stamps>,
    /// Whether a router indicated congestion; `None` if ECI is not in use.
    pub(super) eci: Option<bool>,
}

impl Echo {
    /// No information.
    pub(super) const NONE: Echo = Echo {
        path: None,
        stamps: None,
        eci: None,
    };
}

/// Returns the local time as a timestamp.
fn micros(now: Time) -> u32 {
    (now.as_nanos() / 1000) as u32
}

impl Stamping {
    fn on_chunk(&mut self, timestamp: Timestamp) {
        match timestamp.received {
            None => self.arriving = Some(timestamp.sent),
            Some(received) => self.returned = Some((timestamp.sent, received)),
        }
    }

    /// The packet being processed ends.
    pub(super) fn on_packet_end(&mut self, now: Time, has_data: bool) {
        self.returned = None;
        if let Some(sent) = self.arriving.take()
            && has_data
        {
            self.to_return = Some((sent, micros(now)));
        }
    }

    /// Returns the timestamp that a SACK echoes.
    pub(super) fn take_to_return(&mut self) -> Option<Timestamp> {
        self.to_return.take().map(|(sent, received)| Timestamp {
            sent,
            received: Some(received),
        })
    }

    /// Returns the echo that precedes the SACK in this packet, unwrapped, or `None` if there is no valid one.
    fn take_returned(&mut self, now: Time) -> Option<Stamps> {
        let (sent, received) = self.returned.take()?;
        let now_micros = now.as_nanos() / 1000;
        let age = (now_micros as u32).wrapping_sub(sent);
        let sent = now_micros.checked_sub(age.into())?;
        let received = match self.peer_clock {
            // The offset allows for an overtaken timestamp.
            None => (1 << 32) + u64::from(received),
            Some(last) => last.checked_add_signed(i64::from(received.wrapping_sub(last as u32) as i32))?,
        };
        self.peer_clock = Some(received);
        Some(Stamps {
            sent: Time::from_nanos(sent * 1000),
            received: Time::from_nanos(received.checked_mul(1000)?),
        })
    }
}

impl Association {
    /// Returns whether timestamps were negotiated.
    pub fn uses_timestamps(&self) -> bool {
        self.agreed.stamping.is_some()
    }

    pub(super) fn agree_on_timestamps(&mut self, both: Extensions) {
        self.agreed.stamping = both.has(Extensions::TIMESTAMPS).then(Box::default);
        self.limit_data();
    }

    /// Returns the bytes that the timestamp takes of a data packet.
    pub(super) fn stamp_len(&self) -> usize {
        if self.agreed.stamping.is_some() {
            TIMESTAMP_LEN
        } else {
            0
        }
    }

    /// Returns the timestamp of a data packet that is sent now.
    pub(super) fn stamp(&self, now: Time) -> Option<Timestamp> {
        self.agreed.stamping.is_some().then(|| Timestamp {
            sent: micros(now),
            received: None,
        })
    }

    pub(super) fn on_timestamp(&mut self, timestamp: Timestamp) {
        // Without negotiation, TIMESTAMP is handled like an unknown chunk that requires no report.
        if let Some(stamping) = &mut self.agreed.stamping {
            stamping.on_chunk(timestamp);
        }
    }

    /// Returns the round-trip time that the timestamp before a SACK measures, if no chunk that was sent once measures
    /// it. The timestamp identifies the transmission, so retransmissions can be measured too (as in RFC 7323 §4 for
    /// TCP). At most one measurement per round trip.
    pub(super) fn stamped_rtt(&self, now: Time, index: PathId, echo: &Echo, ack: &PathAck) -> Option<Span> {
        let sent = echo.stamps?.sent;
        let path = &self.paths[index];
        // A SACK is sent on the path of the data that it acknowledges (RFC 9260 §6.4), unless configured otherwise.
        let is_about_it =
            echo.path == Some(index) && self.config.parts.reporting.sack_path == SackPath::LastArrival && ack.acked > 0;
        (is_about_it && path.timed.is_none() && sent >= path.sampled_at).then(|| now.since(sent))
    }

    /// Returns the information that accompanied a SACK on this path.
    pub(super) fn take_echo(&mut self, now: Time, from: PathId, indicated: bool) -> Echo {
        Echo {
            path: Some(from),
            stamps: self
                .agreed
                .stamping
                .as_mut()
                .and_then(|stamping| stamping.take_returned(now)),
            eci: self.agreed.eci.in_use.then_some(indicated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    /// Returns the echo of a packet sent and received at these times, read at `now`.
    fn round_trip(stamping: &mut Stamping, sent: u64, received: u64, now: u64) -> Option<Stamps> {
        let mut peer = Stamping::default();
        peer.on_chunk(Timestamp {
            sent: micros(at(sent)),
            received: None,
        });
        peer.on_packet_end(at(received), true);
        stamping.on_chunk(peer.take_to_return().expect("data has arrived"));
        assert_eq!(peer.take_to_return(), None, "each is returned once");
        let stamps = stamping.take_returned(at(now));
        stamping.on_packet_end(at(now), false);
        stamps
    }

    #[test]
    fn timestamps_continue_across_the_wrap() {
        const WRAP: u64 = 1 << 32;
        let mut stamping = Stamping::default();
        let first = round_trip(&mut stamping, WRAP - 20, WRAP - 9, WRAP - 1).unwrap();
        let second = round_trip(&mut stamping, WRAP - 5, WRAP + 6, WRAP + 14).unwrap();
        let third = round_trip(&mut stamping, WRAP + 1, WRAP + 9, WRAP + 20).unwrap();
        assert_eq!(
            [first.sent, second.sent, third.sent],
            [at(WRAP - 20), at(WRAP - 5), at(WRAP + 1)]
        );
        assert_eq!(second.received.since(first.received).as_nanos(), 15_000);
        assert_eq!(third.received.since(second.received).as_nanos(), 3000);
        // An overtaken timestamp.
        let late = round_trip(&mut stamping, WRAP - 4, WRAP + 7, WRAP + 21).unwrap();
        assert_eq!(third.received.since(late.received).as_nanos(), 2000);
    }

    #[test]
    fn a_timestamp_before_the_start_is_invalid() {
        let mut stamping = Stamping::default();
        stamping.on_chunk(Timestamp {
            sent: 500,
            received: Some(1),
        });
        assert_eq!(stamping.take_returned(at(400)), None);
    }

    #[test]
    fn packets_without_data_leave_no_stamp() {
        let mut stamping = Stamping::default();
        stamping.on_chunk(Timestamp {
            sent: 500,
            received: None,
        });
        stamping.on_packet_end(at(1), false);
        assert_eq!(stamping.take_to_return(), None);
    }
}
