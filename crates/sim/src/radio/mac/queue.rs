//! The interface queue: control packets of the routing protocol before data, first in, first out.

use std::collections::VecDeque;

use super::{Outgoing, RadioId};
use crate::packet::PacketId;

/// Packets that wait for medium access.
#[derive(Debug)]
pub(crate) struct InterfaceQueue {
    control: VecDeque<Outgoing>,
    data: VecDeque<Outgoing>,
    limit: usize,
}

impl InterfaceQueue {
    pub(crate) fn new(limit: u32) -> Self {
        InterfaceQueue {
            control: VecDeque::new(),
            data: VecDeque::new(),
            limit: limit as usize,
        }
    }

    /// Adds a packet, or returns the dropped one if the queue is full: a control packet replaces the last data packet.
    pub(crate) fn push(&mut self, outgoing: Outgoing) -> Result<(), Outgoing> {
        let is_full = self.len() >= self.limit;
        if !outgoing.is_control() {
            if is_full {
                return Err(outgoing);
            }
            self.data.push_back(outgoing);
            return Ok(());
        }
        if !is_full {
            self.control.push_back(outgoing);
            return Ok(());
        }
        let Some(last) = self.data.pop_back() else {
            return Err(outgoing);
        };
        self.control.push_back(outgoing);
        Err(last)
    }

    /// Returns the next packet.
    pub(crate) fn pop(&mut self) -> Option<Outgoing> {
        self.control.pop_front().or_else(|| self.data.pop_front())
    }

    /// Removes all packets for one radio.
    pub(crate) fn reclaim(&mut self, to: RadioId, each: &mut dyn FnMut(Outgoing)) {
        for queue in [&mut self.control, &mut self.data] {
            queue.retain(|outgoing| {
                let stays = outgoing.to != to;
                if !stays {
                    each(*outgoing);
                }
                stays
            });
        }
    }

    /// Redirects all packets to another radio.
    pub(crate) fn redirect(&mut self, to: RadioId, each: &mut dyn FnMut(PacketId)) {
        for outgoing in self.control.iter_mut().chain(&mut self.data) {
            outgoing.to = to;
            each(outgoing.packet);
        }
    }

    /// Returns the number of queued packets.
    pub(crate) fn len(&self) -> usize {
        self.control.len() + self.data.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radio::mac::CONTROL;

    fn outgoing(packet: u32, to: RadioId) -> Outgoing {
        Outgoing {
            packet,
            to,
            bytes: 100,
            flow: 0,
        }
    }

    #[test]
    fn control_packets_precede_data_and_replace_the_last_data_packet() {
        let mut queue = InterfaceQueue::new(3);
        for packet in [1, 2, CONTROL, CONTROL + 1] {
            let refused = queue.push(outgoing(packet, 7)).err().map(|outgoing| outgoing.packet);
            assert_eq!(refused, (packet == CONTROL + 1).then_some(2));
        }
        assert_eq!(queue.push(outgoing(3, 7)), Err(outgoing(3, 7)));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop())
            .map(|outgoing| outgoing.packet)
            .collect();
        assert_eq!(order, [CONTROL, CONTROL + 1, 1]);
    }

    #[test]
    fn reclaims_the_packets_for_one_radio() {
        let mut queue = InterfaceQueue::new(10);
        for (packet, to) in [(1, 7), (2, 8), (CONTROL, 7), (3, 7)] {
            assert!(queue.push(outgoing(packet, to)).is_ok());
        }
        let mut taken = Vec::new();
        queue.reclaim(7, &mut |outgoing| taken.push(outgoing.packet));
        assert_eq!((taken, queue.len()), (vec![CONTROL, 1, 3], 1));
    }
}
