//! Times of packets: a TIMESTAMP chunk goes with each packet of data, and the SACK that answers it brings it back with the time of
//! arrival (Chen et al. 2011, 3.1.1).
//!
//! The chunk takes 12 bytes of each packet of data. What is returned is the stamp of the last packet of data before the SACK: the
//! packet that made the receiver answer. Times on the wire are microseconds modulo 2^32, 71 minutes; both ends unwrap them.

use whimbrel_control::multipath::SackPath;
use whimbrel_control::{Span, Stamps, Time};
use whimbrel_wire::{TIMESTAMP_LEN, Timestamp};

use super::Association;
use crate::PathId;
use crate::extensions::Extensions;

/// What the ends tell each other about times, while both have agreed to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamping {
    /// In the packet being read: when it was sent.
    arriving: Option<u32>,
    /// In the packet being read: what the peer returns.
    returned: Option<(u32, u32)>,
    /// Of the last packet of data, until a SACK returns it.
    to_return: Option<(u32, u32)>,
    /// The peer's clock when it last told it, in microseconds, unwrapped.
    peer_clock: Option<u64>,
}

/// What came back with a SACK besides what it acknowledges, and the path that it is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Echo {
    /// None for what is not about a path.
    pub(super) path: Option<PathId>,
    pub(super) stamps: Option<Stamps>,
    /// Whether a router indicated congestion; none if the peer does not say.
    pub(super) eci: Option<bool>,
}

impl Echo {
    /// Nothing came back.
    pub(super) const NONE: Echo = Echo {
        path: None,
        stamps: None,
        eci: None,
    };
}

/// The clock of this end as it goes into packets.
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

    /// A packet has been read.
    pub(super) fn on_packet_end(&mut self, now: Time, has_data: bool) {
        self.returned = None;
        if let Some(sent) = self.arriving.take()
            && has_data
        {
            self.to_return = Some((sent, micros(now)));
        }
    }

    /// The stamp that a SACK returns.
    pub(super) fn take_to_return(&mut self) -> Option<Timestamp> {
        self.to_return.take().map(|(sent, received)| Timestamp {
            sent,
            received: Some(received),
        })
    }

    /// What came back in front of the SACK in this packet, unwrapped; none if it cannot be.
    fn take_returned(&mut self, now: Time) -> Option<Stamps> {
        let (sent, received) = self.returned.take()?;
        let now_micros = now.as_nanos() / 1000;
        let age = (now_micros as u32).wrapping_sub(sent);
        let sent = now_micros.checked_sub(age.into())?;
        let received = match self.peer_clock {
            // Leaves room for one that was overtaken.
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
    /// Whether both ends put the time on their packets of data.
    pub fn uses_timestamps(&self) -> bool {
        self.stamping.is_some()
    }

    pub(super) fn agree_on_timestamps(&mut self, both: Extensions) {
        self.stamping = both.has(Extensions::TIMESTAMPS).then(Box::default);
        self.limit_data();
    }

    /// Bytes that the stamp takes of a packet of data.
    pub(super) fn stamp_len(&self) -> usize {
        if self.stamping.is_some() { TIMESTAMP_LEN } else { 0 }
    }

    /// The stamp of a packet of data that goes out now.
    pub(super) fn stamp(&self, now: Time) -> Option<Timestamp> {
        self.stamping.is_some().then(|| Timestamp {
            sent: micros(now),
            received: None,
        })
    }

    pub(super) fn on_timestamp(&mut self, timestamp: Timestamp) {
        // Who has not agreed passes it over like an unknown chunk that asks for no report.
        if let Some(stamping) = &mut self.stamping {
            stamping.on_chunk(timestamp);
        }
    }

    /// The round-trip time that the stamp in front of a SACK measures, where no chunk that was sent once does: the stamp says which
    /// transmission is answered, so that data sent again measures too (as RFC 7323 §4 for TCP). One for each round trip.
    pub(super) fn stamped_rtt(&self, now: Time, index: usize, echo: &Echo) -> Option<Span> {
        let sent = echo.stamps?.sent;
        let path = &self.paths[index];
        // A SACK comes back on the path of the data that it answers (RFC 9260 §6.4), unless it was agreed otherwise.
        let is_about_it = echo.path == Some(PathId(index as u8))
            && self.switches.reporting.sack_path == SackPath::LastArrival
            && self.outstanding.acks()[index].acked > 0;
        (is_about_it && path.timed.is_none() && sent >= path.sampled_at).then(|| now.since(sent))
    }

    /// What came with a SACK from this path.
    pub(super) fn take_echo(&mut self, now: Time, from: usize, indicated: bool) -> Echo {
        Echo {
            path: Some(PathId(from as u8)),
            stamps: self.stamping.as_mut().and_then(|stamping| stamping.take_returned(now)),
            eci: self.eci.in_use.then_some(indicated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    /// What comes back for a packet sent and received then, at `now`.
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
    fn times_go_on_where_the_field_wraps() {
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
        // One that was overtaken.
        let late = round_trip(&mut stamping, WRAP - 4, WRAP + 7, WRAP + 21).unwrap();
        assert_eq!(third.received.since(late.received).as_nanos(), 2000);
    }

    #[test]
    fn a_time_before_the_beginning_is_none() {
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
