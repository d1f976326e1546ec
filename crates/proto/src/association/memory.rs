//! Memory of an association: its allocations, and their release.

use super::Association;
use super::stats::Counters;
use crate::event::Event;
use crate::protection::Protection;
use crate::receive::Receiver;

impl Association {
    /// Returns the bytes allocated for the association, including this structure; for capacity planning.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.sending.heap_bytes()
            + self
                .receivers()
                .map(|receiver| size_of::<Receiver>() + receiver.heap_bytes())
                .sum::<usize>()
            + self.user.events.capacity() * size_of::<Event>()
            + self
                .handshake
                .cookie
                .as_ref()
                .map_or(0, |cookie| size_of_val(&**cookie) + cookie.bytes.len())
            + self.tuning.as_ref().map_or(0, |tuning| size_of_val(&**tuning))
            + self.agreed.reports.as_ref().map_or(0, |reports| reports.heap_bytes())
            + self.agreed.auth.as_ref().map_or(0, |auth| auth.heap_bytes())
            + self
                .agreed
                .offered
                .as_ref()
                .map_or(0, |offered| size_of_val(&**offered))
            + self.agreed.protection().map_or(0, Protection::heap_bytes)
            + self.agreed.asconf.as_ref().map_or(0, |asconf| asconf.heap_bytes())
            + self
                .agreed
                .reconfig
                .as_ref()
                .map_or(0, |reconfig| reconfig.heap_bytes())
            + size_of::<Counters>()
    }

    /// Returns the memory in bytes that received data uses: unread messages, incomplete messages, and buffers reserved
    /// for future data.
    pub fn receive_memory(&self) -> usize {
        let before = self
            .receiving
            .before_restart
            .as_ref()
            .map_or(0, |before| before.memory());
        before + self.receiving.receiver.as_ref().map_or(0, |receiver| receiver.memory())
    }

    /// Releases the buffers reserved for future data.
    pub(crate) fn release_receive_memory(&mut self) {
        if let Some(receiver) = &mut self.receiving.receiver {
            receiver.release_memory();
        }
    }

    /// Releases the memory of earlier transfers after an idle period of one heartbeat interval.
    pub(crate) fn release_memory(&mut self) {
        self.sending.release_memory();
        self.user.events.shrink_to_fit();
        if let Some(protection) = self.agreed.protection_mut() {
            protection.release();
        }
        if let Some(receiver) = &mut self.receiving.receiver {
            receiver.release_memory();
        }
    }
}
