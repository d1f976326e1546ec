//! The interface queue: control packets of the routing protocol before data, first in, first out.

use std::collections::VecDeque;

use super::Outgoing;

/// Packets that wait for medium access.
#[derive(Debug)]
pub(crate) struct InterfaceQueue {
    data: VecDeque<Outgoing>,
    limit: usize,
}

impl InterfaceQueue {
    pub(crate) fn new(limit: u32) -> Self {
        InterfaceQueue {
            data: VecDeque::new(),
            limit: limit as usize,
        }
    }

    /// Takes a packet in, or gives back the one for which there is no room.
    pub(crate) fn push(&mut self, outgoing: Outgoing) -> Result<(), Outgoing> {
        if self.data.len() >= self.limit {
            return Err(outgoing);
        }
        self.data.push_back(outgoing);
        Ok(())
    }

    /// The next packet.
    pub(crate) fn pop(&mut self) -> Option<Outgoing> {
        self.data.pop_front()
    }

    /// Packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }
}
