//! Address resolution (RFC 826), as an option of a channel, in the manner of ns-2.
//!
//! A radio asks everybody for a neighbour's address before it first sends there, and the neighbour answers it alone. Until then one
//! packet is held for each neighbour: a later one takes its place and asks again, as nothing else repeats a request. With the fourth
//! packet in vain the neighbour counts as out of reach. Whoever hears a message learns its sender's address, and keeps it. As options
//! there is a time between two requests, in which packets only take each other's place, and an end of what was learnt (RFC 1122 §2.3.2.1).

use whimbrel_control::{Span, Time};

use super::mac::{BROADCAST, CONTROL, Failure, Frame, Outgoing};
use super::{Outcome, RadioId, Radios};
use crate::engine::EventQueue;
use crate::ledger::DropCause;
use crate::packet::PacketId;

/// Marks the number of a packet that is a message of this protocol. A request has the radio in question below it.
const ARP: PacketId = CONTROL | 1 << 30;
const REPLY: PacketId = ARP | 1 << 29;
/// Bytes of a message for Ethernet and IPv4 addresses.
const MESSAGE_BYTES: u32 = 28;
/// Requests before packets are given up.
const MOST_REQUESTS: u8 = 3;

/// Whether a packet is such a message.
#[inline]
pub(super) fn is_arp(packet: PacketId) -> bool {
    packet & ARP == ARP
}

/// How often a neighbour is asked, and for how long its address is good. Zero is without limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArpTimes {
    pub(super) interval: Span,
    pub(super) timeout: Span,
}

/// What a radio knows of a neighbour.
#[derive(Debug, Default)]
struct Entry {
    /// When its address was heard last, if it was.
    heard: Option<Time>,
    /// Requests so far, and when the last one was sent.
    requests: u8,
    asked: Time,
    held: Option<Outgoing>,
}

/// What a radio knows of its neighbours, in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct ArpTable(Vec<(RadioId, Entry)>);

/// What is to be done with a packet.
#[derive(PartialEq, Eq, Debug)]
enum Resolution {
    /// It can be sent.
    Known,
    /// The neighbour is to be asked. The packet that was held until now is lost.
    Ask(Option<Outgoing>),
    /// It waits for the answer to an earlier request. The packet that was held until now is lost.
    Wait(Option<Outgoing>),
    /// It is given up, and so is the one that was held.
    GiveUp(Option<Outgoing>),
}

impl ArpTable {
    fn entry(&mut self, neighbour: RadioId) -> &mut Entry {
        let place = match self.0.binary_search_by_key(&neighbour, |(radio, _)| *radio) {
            Ok(place) => place,
            Err(place) => {
                self.0.insert(place, (neighbour, Entry::default()));
                place
            }
        };
        &mut self.0[place].1
    }

    fn resolve(&mut self, now: Time, outgoing: Outgoing, times: ArpTimes) -> Resolution {
        let entry = self.entry(outgoing.to);
        if let Some(heard) = entry.heard {
            if times.timeout.is_zero() || now.since(heard) < times.timeout {
                return Resolution::Known;
            }
            entry.heard = None;
        }
        if entry.requests > 0 && now.since(entry.asked) < times.interval {
            return Resolution::Wait(entry.held.replace(outgoing));
        }
        if entry.requests >= MOST_REQUESTS {
            entry.requests = 0;
            return Resolution::GiveUp(entry.held.take());
        }
        entry.requests += 1;
        entry.asked = now;
        Resolution::Ask(entry.held.replace(outgoing))
    }

    /// A neighbour's address is known from now on. Gives back what was held for it.
    fn learn(&mut self, now: Time, neighbour: RadioId) -> Option<Outgoing> {
        let entry = self.entry(neighbour);
        entry.heard = Some(now);
        entry.requests = 0;
        entry.held.take()
    }

    /// Takes out what is held for a neighbour.
    pub(super) fn take_held(&mut self, neighbour: RadioId) -> Option<Outgoing> {
        let place = self.0.binary_search_by_key(&neighbour, |(radio, _)| *radio).ok()?;
        self.0[place].1.held.take()
    }
}

impl Radios {
    /// Sends a packet if its next hop's address is known, and asks for it otherwise.
    pub(super) fn resolve(
        &mut self,
        now: Time,
        queue: &mut EventQueue,
        radio: RadioId,
        outgoing: Outgoing,
        times: ArpTimes,
    ) {
        let to = outgoing.to;
        let refused = |outgoing: Outgoing| Outcome::Refused {
            packet: outgoing.packet,
            at: radio,
            cause: DropCause::NoAddress,
        };
        match self.radios[radio as usize].arp.resolve(now, outgoing, times) {
            Resolution::Known => self.enqueue(now, queue, radio, outgoing),
            Resolution::Wait(pushed_out) => self.outcomes.extend(pushed_out.map(refused)),
            Resolution::Ask(pushed_out) => {
                self.outcomes.extend(pushed_out.map(refused));
                self.send_arp(now, queue, radio, ARP | to, BROADCAST);
            }
            Resolution::GiveUp(held) => {
                let both = held.into_iter().chain([outgoing]);
                self.outcomes.extend(both.map(|outgoing| Outcome::Failed {
                    packet: outgoing.packet,
                    at: radio,
                    to,
                    failure: Failure::NoAddress,
                }));
            }
        }
    }

    fn send_arp(&mut self, now: Time, queue: &mut EventQueue, radio: RadioId, packet: PacketId, to: RadioId) {
        self.count_control(now, radio, MESSAGE_BYTES);
        let channel = self.radios[radio as usize].channel as usize;
        let message = Outgoing {
            packet,
            to,
            bytes: MESSAGE_BYTES + self.channels[channel].overhead,
            flow: u32::MAX,
        };
        self.enqueue(now, queue, radio, message);
    }

    /// A radio has received a message.
    pub(crate) fn receive_arp(&mut self, now: Time, queue: &mut EventQueue, at: RadioId, frame: &Frame) {
        if let Some(held) = self.radios[at as usize].arp.learn(now, frame.from) {
            self.enqueue(now, queue, at, held);
        }
        if frame.packet == Some(ARP | at) {
            self.send_arp(now, queue, at, REPLY, frame.from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_is_held_and_the_fourth_in_vain_ends_it() {
        let packet = |packet| Outgoing {
            packet,
            to: 9,
            bytes: 100,
            flow: 0,
        };
        let mut table = ArpTable::default();
        let resolve = |table: &mut ArpTable, number| table.resolve(Time::ZERO, packet(number), ArpTimes::default());
        assert_eq!(resolve(&mut table, 1), Resolution::Ask(None));
        assert_eq!(resolve(&mut table, 2), Resolution::Ask(Some(packet(1))));
        assert_eq!(resolve(&mut table, 3), Resolution::Ask(Some(packet(2))));
        assert_eq!(resolve(&mut table, 4), Resolution::GiveUp(Some(packet(3))));
        // It all begins anew.
        assert_eq!(resolve(&mut table, 5), Resolution::Ask(None));
        assert_eq!(table.learn(Time::ZERO, 9), Some(packet(5)));
        assert_eq!(resolve(&mut table, 6), Resolution::Known);
        assert_eq!(table.take_held(9), None);
    }

    #[test]
    fn requests_keep_their_distance_and_addresses_have_an_end() {
        let packet = |packet| Outgoing {
            packet,
            to: 9,
            bytes: 100,
            flow: 0,
        };
        let times = ArpTimes {
            interval: Span::from_secs(1),
            timeout: Span::from_secs(60),
        };
        let mut table = ArpTable::default();
        let resolve = |table: &mut ArpTable, millis, number| {
            table.resolve(Time::ZERO + Span::from_millis(millis), packet(number), times)
        };
        assert_eq!(resolve(&mut table, 0, 1), Resolution::Ask(None));
        assert_eq!(resolve(&mut table, 999, 2), Resolution::Wait(Some(packet(1))));
        assert_eq!(resolve(&mut table, 1000, 3), Resolution::Ask(Some(packet(2))));
        assert_eq!(resolve(&mut table, 2000, 4), Resolution::Ask(Some(packet(3))));
        assert_eq!(resolve(&mut table, 2500, 5), Resolution::Wait(Some(packet(4))));
        assert_eq!(resolve(&mut table, 3000, 6), Resolution::GiveUp(Some(packet(5))));
        assert_eq!(resolve(&mut table, 3001, 7), Resolution::Ask(None));
        assert_eq!(table.learn(Time::ZERO + Span::from_secs(10), 9), Some(packet(7)));
        assert_eq!(resolve(&mut table, 69_999, 8), Resolution::Known);
        assert_eq!(resolve(&mut table, 70_000, 9), Resolution::Ask(None));
    }

    #[test]
    fn messages_are_told_from_those_of_routing() {
        assert!(is_arp(ARP | 0x7fff) && is_arp(REPLY));
        assert!(!is_arp(CONTROL | 12) && !is_arp(12) && !is_arp(1 << 30));
    }
}
