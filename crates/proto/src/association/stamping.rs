//! Timestamps: a TIMESTAMP chunk is bundled with each data packet. The SACK that answers it echoes the timestamp
//! together with the time of arrival (Chen et al. 2011, 3.1.1).
//!
//! The chunk takes 12 bytes of each data packet. The echoed timestamp is that of the last data packet before the SACK,
//! which triggered the SACK. Timestamps are in microseconds modulo 2^32, which is 71 minutes; both endpoints unwrap
//! them.
//!
//! With a redundant distribution, which sends a chunk on several paths, the sender has to know which transmissions have arrived. Each
//! timestamp is then used for one packet only. The packets of each path are acknowledged on that path, and each SACK echoes the
//! timestamps of the last packets of its path, so that a lost SACK loses nothing. The first echo is that of the last packet of all paths:
//! it shows whether a later SACK has overtaken this one on another path.

use std::collections::VecDeque;

use whimbrel_control::{Stamps, Time};
use whimbrel_wire::{TIMESTAMP_LEN, Timestamp};

use crate::PathId;

/// Packets of each path whose timestamps each SACK returns, if it returns several.
const REPEATED: usize = 8;
/// The largest number of timestamps in a SACK, if more packets have arrived since the last one.
const MOST: usize = 64;

/// State of the negotiated timestamps.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamping {
    /// Time of sending of the packet being processed.
    arriving: Option<u32>,
    /// Echo in the packet being processed.
    returned: Option<(u32, u32)>,
    /// Timestamp of the last data packet, until a SACK echoes it.
    to_return: Option<(u32, u32)>,
    /// The peer's latest timestamp in microseconds, unwrapped.
    peer_clock: Option<u64>,
    /// Present if SACKs return the timestamps of several packets.
    repeated: Option<Box<Repeated>>,
}

/// Timestamps of several packets in each SACK.
#[derive(Clone, Debug, Default)]
struct Repeated {
    /// The last timestamp sent, in microseconds.
    last_sent: u64,
    /// What has arrived on each path.
    arrivals: Vec<Arrivals>,
    /// The last of these packets.
    last_arrival: Option<(u32, u32)>,
    /// Timestamps returned in the packet being processed.
    returned: Vec<(u32, u32)>,
    /// The departure times of packets of one path among them, unwrapped.
    echoes: Vec<u64>,
    /// The latest arrival that a SACK has returned, by the peer's clock, unwrapped.
    newest: Option<u64>,
}

/// Packets with data that have arrived on a path.
#[derive(Clone, Debug, Default)]
struct Arrivals {
    /// Timestamps of the last ones, in the order of arrival.
    last: VecDeque<(u32, u32)>,
    /// The number of them that no SACK has returned.
    unreported: usize,
}

/// Returns the local time as a timestamp.
fn micros(now: Time) -> u32 {
    (now.as_nanos() / 1000) as u32
}

/// Returns a timestamp of the peer in microseconds without the wrap, given the last one.
fn unwrapped(received: u32, last: Option<u64>) -> Option<u64> {
    match last {
        // The offset allows for an overtaken timestamp.
        None => Some((1 << 32) + u64::from(received)),
        Some(last) => last.checked_add_signed(i64::from(received.wrapping_sub(last as u32) as i32)),
    }
}

impl Repeated {
    fn on_arrival(&mut self, path: PathId, times: (u32, u32)) {
        if self.arrivals.len() <= path.index() {
            self.arrivals.resize_with(path.index() + 1, Arrivals::default);
        }
        let here = &mut self.arrivals[path.index()];
        if here.last.len() == MOST {
            here.last.pop_front();
        }
        here.last.push_back(times);
        here.unreported += 1;
        self.last_arrival = Some(times);
    }

    /// Returns a timestamp that no other packet has.
    fn next(&mut self, now: u64) -> u64 {
        self.last_sent = now.max(self.last_sent + 1);
        self.last_sent
    }
}

impl Stamping {
    /// Returns the state after the handshake. `repeats`: SACKs return the timestamps of several packets.
    pub(super) fn new(repeats: bool) -> Self {
        Stamping {
            repeated: repeats.then(Box::default),
            ..Stamping::default()
        }
    }

    /// Returns the timestamp of a packet that is sent now.
    pub(super) fn next(&mut self, now: Time) -> u32 {
        match &mut self.repeated {
            None => micros(now),
            Some(repeated) => repeated.next(now.as_nanos() / 1000) as u32,
        }
    }

    pub(super) fn on_chunk(&mut self, timestamp: Timestamp) {
        match timestamp.received {
            None => self.arriving = Some(timestamp.sent),
            Some(received) => match &mut self.repeated {
                None => self.returned = Some((timestamp.sent, received)),
                Some(repeated) => {
                    if repeated.returned.len() < MOST {
                        repeated.returned.push((timestamp.sent, received));
                    }
                }
            },
        }
    }

    /// The packet being processed ends.
    pub(super) fn on_packet_end(&mut self, now: Time, from: PathId, has_data: bool) {
        self.returned = None;
        if let Some(repeated) = &mut self.repeated {
            repeated.returned.clear();
        }
        if let Some(sent) = self.arriving.take()
            && has_data
        {
            let times = (sent, micros(now));
            match &mut self.repeated {
                None => self.to_return = Some(times),
                Some(repeated) => repeated.on_arrival(from, times),
            }
        }
    }

    /// Returns the timestamp that a SACK echoes.
    pub(super) fn take_to_return(&mut self) -> Option<Timestamp> {
        self.to_return.take().map(|(sent, received)| Timestamp {
            sent,
            received: Some(received),
        })
    }

    /// Whether SACKs return the timestamps of several packets.
    pub(super) fn repeats(&self) -> bool {
        self.repeated.is_some()
    }

    /// Returns the timestamps that a SACK about this path with this room for them returns: that of the packet that arrived last on any
    /// path, and those of the last ones that arrived on this path, in the order of arrival.
    pub(super) fn all_to_return(&mut self, path: PathId, room: usize) -> impl Iterator<Item = Timestamp> {
        let (last, here) = match self.repeated.as_deref_mut() {
            Some(repeated) => (repeated.last_arrival, repeated.arrivals.get_mut(path.index())),
            None => (None, None),
        };
        let most = (room / TIMESTAMP_LEN).saturating_sub(1).min(MOST);
        let listed = here.into_iter().flat_map(move |here| {
            let count = here.unreported.max(REPEATED).min(here.last.len()).min(most);
            here.unreported = 0;
            here.last.range(here.last.len() - count..).copied()
        });
        last.into_iter().chain(listed).map(|(sent, received)| Timestamp {
            sent,
            received: Some(received),
        })
    }

    /// Returns the timestamp of the packet under construction, if it identifies the packet.
    pub(super) fn identity(&self) -> Option<u64> {
        self.repeated.as_ref().map(|repeated| repeated.last_sent)
    }

    /// Returns the number of timestamps returned in the packet being processed, if it can be more than one.
    pub(super) fn returned(&self) -> usize {
        self.repeated.as_ref().map_or(0, |repeated| repeated.returned.len())
    }

    /// Returns the departure times that the SACK being processed returns, if it can be more than one.
    pub(super) fn echoes(&self) -> &[u64] {
        self.repeated.as_ref().map_or(&[], |repeated| &repeated.echoes)
    }

    /// Reads the echoes that precede the SACK in this packet. Returns the last one if no SACK has returned it before, and whether a SACK
    /// that was sent later has arrived before.
    pub(super) fn take_all_returned(&mut self) -> (Option<Stamps>, bool) {
        let Some(repeated) = &mut self.repeated else {
            return (None, false);
        };
        repeated.echoes.clear();
        let (mut order, mut last) = (None, None);
        for (sent, received) in repeated.returned.drain(..) {
            let age = (repeated.last_sent as u32).wrapping_sub(sent);
            let Some(sent) = repeated.last_sent.checked_sub(age.into()) else {
                continue;
            };
            let Some(received) = unwrapped(received, order.or(repeated.newest)) else {
                continue;
            };
            // The first one is that of the last arrival on any path.
            if order.is_none() {
                order = Some(received);
                continue;
            }
            repeated.echoes.push(sent);
            last = Some((sent, received));
        }
        let (is_new, overtaken) = (order > repeated.newest, order.is_some() && order < repeated.newest);
        repeated.newest = repeated.newest.max(order);
        let stamps = last.filter(|_| is_new).and_then(|(sent, received)| {
            Some(Stamps {
                sent: Time::from_nanos(sent * 1000),
                received: Time::from_nanos(u64::checked_mul(received, 1000)?),
            })
        });
        (stamps, overtaken)
    }

    /// Returns the echo that precedes the SACK in this packet, unwrapped, or `None` if there is no valid one.
    pub(super) fn take_returned(&mut self, now: Time) -> Option<Stamps> {
        let (sent, received) = self.returned.take()?;
        let now_micros = now.as_nanos() / 1000;
        let age = (now_micros as u32).wrapping_sub(sent);
        let sent = now_micros.checked_sub(age.into())?;
        let received = unwrapped(received, self.peer_clock)?;
        self.peer_clock = Some(received);
        Some(Stamps {
            sent: Time::from_nanos(sent * 1000),
            received: Time::from_nanos(received.checked_mul(1000)?),
        })
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
        peer.on_packet_end(at(received), PathId(0), true);
        stamping.on_chunk(peer.take_to_return().expect("data has arrived"));
        assert_eq!(peer.take_to_return(), None, "each is returned once");
        let stamps = stamping.take_returned(at(now));
        stamping.on_packet_end(at(now), PathId(0), false);
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

    /// Returns a sender of five packets at 100 µs, and their receiver.
    fn five_at_once() -> (Stamping, Stamping) {
        let repeated = || Stamping {
            repeated: Some(Box::default()),
            ..Stamping::default()
        };
        let (mut sender, mut receiver) = (repeated(), repeated());
        for arrived in 0..5 {
            let sent = sender.repeated.as_mut().map(|repeated| repeated.next(100));
            assert_eq!((sent, sender.identity()), (Some(100 + arrived), Some(100 + arrived)));
            receiver.on_chunk(Timestamp {
                sent: 100 + arrived as u32,
                received: None,
            });
            receiver.on_packet_end(at(200 + arrived), PathId(0), true);
        }
        (sender, receiver)
    }

    #[test]
    fn each_sack_returns_the_last_packets_of_its_path_and_all_that_are_new() {
        let (_, mut receiver) = five_at_once();
        let returned = |receiver: &mut Stamping, path, room| -> Vec<u32> {
            let all = receiver.all_to_return(PathId(path), room);
            all.map(|stamp| stamp.sent).collect()
        };
        // The first one is that of the last arrival on any path.
        assert_eq!(returned(&mut receiver, 0, 3 * TIMESTAMP_LEN + 11), [104, 103, 104]);
        assert_eq!(returned(&mut receiver, 0, 1000), [104, 100, 101, 102, 103, 104]);
        assert_eq!(returned(&mut receiver, 1, 1000), [104]);
        for arrived in 0..100 {
            receiver.on_chunk(Timestamp {
                sent: arrived,
                received: None,
            });
            receiver.on_packet_end(at(300), PathId(1), true);
            if arrived == 29 || arrived == 99 {
                let count = |receiver: &mut Stamping| returned(receiver, 1, 1000).len();
                assert_eq!(count(&mut receiver), 1 + if arrived == 29 { 30 } else { MOST });
                assert_eq!(count(&mut receiver), 1 + REPEATED, "they are repeated");
            }
        }
        assert_eq!(returned(&mut receiver, 0, 1000), [99, 100, 101, 102, 103, 104]);
    }

    #[test]
    fn the_last_arrival_shows_which_sack_was_overtaken() {
        let (mut sender, mut receiver) = five_at_once();
        let all: Vec<_> = receiver.all_to_return(PathId(0), 1000).skip(1).collect();
        let mut take = |stamps: &[Timestamp]| {
            stamps.iter().for_each(|stamp| sender.on_chunk(*stamp));
            let (newest, overtaken) = sender.take_all_returned();
            sender.on_packet_end(at(300), PathId(0), false);
            (newest.map(|stamps| stamps.sent), overtaken, sender.echoes().to_vec())
        };
        assert_eq!(take(&[all[3], all[1], all[3]]), (Some(at(103)), false, vec![101, 103]));
        assert_eq!(take(&[all[2], all[0], all[2]]), (None, true, vec![100, 102]));
        // A SACK on another path without an arrival since.
        assert_eq!(take(&[all[3], all[0]]), (None, false, vec![100]));
        assert_eq!(take(&[all[4], all[4]]), (Some(at(104)), false, vec![104]));
        assert_eq!(take(&[]), (None, false, Vec::new()));
        // No packet with that timestamp was sent.
        let unknown = Timestamp {
            sent: 1000,
            received: Some(400),
        };
        assert_eq!(take(&[unknown, unknown]), (None, false, Vec::new()));
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
        stamping.on_packet_end(at(1), PathId(0), false);
        assert_eq!(stamping.take_to_return(), None);
    }
}
