//! Address resolution (RFC 826), an option of a channel, as in ns-2.
//!
//! Before its first packet to a neighbour, a radio broadcasts a request for the neighbour's address; the neighbour replies by
//! unicast. Until then one packet is held for each neighbour: a later packet replaces it and triggers another request, because
//! requests have no retransmission timer. The fourth packet without a reply is dropped, and the neighbour counts as unreachable.
//! Each receiver of a message learns the sender's address. Options limit the rate of requests and the lifetime of entries (RFC 1122
//! §2.3.2.1).

use whimbrel_control::{Span, Time};

use super::mac::{BROADCAST, CONTROL, Failure, Frame, Outgoing};
use super::{RadioId, RadioReport, Radios};
use crate::engine::EventQueue;
use crate::ledger::DropCause;
use crate::packet::PacketId;

/// Marks a packet number as an ARP message. The lower bits of a request contain the requested radio.
const ARP: PacketId = CONTROL | 1 << 30;
const REPLY: PacketId = ARP | 1 << 29;
/// Bytes of a message for Ethernet and IPv4 addresses.
const MESSAGE_BYTES: u32 = 28;
/// Maximum number of requests before packets are dropped.
const MOST_REQUESTS: u8 = 3;

/// Returns whether a packet is an ARP message.
#[inline]
pub(super) fn is_arp(packet: PacketId) -> bool {
    packet & ARP == ARP
}

/// Minimum interval of requests and lifetime of entries. Zero means no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArpTimes {
    pub(super) interval: Span,
    pub(super) timeout: Span,
}

/// A radio's ARP entry for a neighbour.
#[derive(Debug, Default)]
struct Entry {
    /// When its address was last received.
    heard: Option<Time>,
    /// Number of requests so far.
    requests: u8,
    asked: Time,
    held: Option<Outgoing>,
}

/// A radio's ARP entries, ordered by neighbour.
#[derive(Debug, Default)]
pub(super) struct ArpTable(Vec<(RadioId, Entry)>);

/// The result of a resolution.
#[derive(PartialEq, Eq, Debug)]
enum Resolution {
    /// The packet can be sent.
    Known,
    /// A request must be sent. The packet held until now is dropped.
    Ask(Option<Outgoing>),
    /// The packet waits for the reply to an earlier request. The packet held until now is dropped.
    Wait(Option<Outgoing>),
    /// The packet and the held one are dropped.
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

    /// Records a neighbour's address. Returns the packet held for it.
    fn learn(&mut self, now: Time, neighbour: RadioId) -> Option<Outgoing> {
        let entry = self.entry(neighbour);
        entry.heard = Some(now);
        entry.requests = 0;
        entry.held.take()
    }

    /// Removes and returns the packet held for a neighbour.
    pub(super) fn take_held(&mut self, neighbour: RadioId) -> Option<Outgoing> {
        let place = self.0.binary_search_by_key(&neighbour, |(radio, _)| *radio).ok()?;
        self.0[place].1.held.take()
    }
}

impl Radios {
    /// Sends a packet if its next hop's address is known; otherwise sends a request.
    pub(super) fn resolve(
        &mut self,
        now: Time,
        queue: &mut EventQueue,
        radio: RadioId,
        outgoing: Outgoing,
        times: ArpTimes,
    ) {
        let to = outgoing.to;
        let refused = |outgoing: Outgoing| RadioReport::Refused {
            packet: outgoing.packet,
            at: radio,
            cause: DropCause::NoAddress,
        };
        match self.radios[radio as usize].arp.resolve(now, outgoing, times) {
            Resolution::Known => self.enqueue(now, queue, radio, outgoing),
            Resolution::Wait(pushed_out) => self.reports.extend(pushed_out.map(refused)),
            Resolution::Ask(pushed_out) => {
                self.reports.extend(pushed_out.map(refused));
                self.send_arp(now, queue, radio, ARP | to, BROADCAST);
            }
            Resolution::GiveUp(held) => {
                let both = held.into_iter().chain([outgoing]);
                self.reports.extend(both.map(|outgoing| RadioReport::Failed {
                    packet: outgoing.packet,
                    at: radio,
                    to,
                    failure: Failure::NoAddress,
                    unsent: true,
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

    /// Handles a received ARP message.
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
    fn holds_one_packet_and_gives_up_at_the_fourth_without_reply() {
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
        // Resolution starts again.
        assert_eq!(resolve(&mut table, 5), Resolution::Ask(None));
        assert_eq!(table.learn(Time::ZERO, 9), Some(packet(5)));
        assert_eq!(resolve(&mut table, 6), Resolution::Known);
        assert_eq!(table.take_held(9), None);
    }

    #[test]
    fn limits_the_rate_of_requests_and_the_lifetime_of_entries() {
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
    fn arp_messages_are_distinguished_from_routing_messages() {
        assert!(is_arp(ARP | 0x7fff) && is_arp(REPLY));
        assert!(!is_arp(CONTROL | 12) && !is_arp(12) && !is_arp(1 << 30));
    }
}
