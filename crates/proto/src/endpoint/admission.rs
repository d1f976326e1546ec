//! Admission of associations that peers open, the choice of the association that is aborted in favour of a new one, and the memory that
//! associations use.
//!
//! RFC 9260 §5.1: if local resources do not suffice for an association, the endpoint replies with ABORT. An accepted
//! association that has not delivered a message has a lower priority than a new one: it may be one of thousands of
//! handshakes by a peer that never sends data. With
//! [`EndpointConfig::first_message_timeout`](crate::EndpointConfig::first_message_timeout), the oldest of them is
//! aborted.

use std::net::IpAddr;

use whimbrel_control::Time;

use super::Endpoint;
use super::limits::Holder;
use crate::AssocId;
use crate::association::Association;

impl Endpoint {
    /// Returns the association to abort so that a peer at `ip` can open one, if that is necessary.
    ///
    /// # Errors
    /// Returns the name of the limit if no association can be aborted.
    fn association_to_abort(&mut self, ip: IpAddr) -> Result<Option<AssocId>, &'static str> {
        let holder = Holder::of(ip);
        let (table, accepted) = (&self.table, &mut self.accepted);
        let is_silent = |id| table.get(id).is_some_and(Association::is_silent);
        if accepted.count(holder) >= self.config.max_associations_per_address {
            let oldest = accepted.oldest(Some(holder), is_silent);
            return oldest.map(Some).ok_or("associations of one address");
        }
        if table.live() >= self.config.max_associations {
            let oldest = accepted.oldest(None, is_silent);
            return oldest.map(Some).ok_or("number of associations");
        }
        Ok(None)
    }

    /// Returns whether a peer at `ip` may open an association.
    // [9260:5.1-15]
    pub(super) fn has_room(&mut self, ip: IpAddr) -> bool {
        self.association_to_abort(ip).is_ok()
    }

    /// Makes room for an association of a peer at `ip`, whose address is verified. Returns false if that is not
    /// possible.
    pub(super) fn make_room(&mut self, now: Time, ip: IpAddr) -> bool {
        match self.association_to_abort(ip) {
            Err(_) => false,
            Ok(None) => true,
            Ok(Some(id)) => {
                self.with(id, now, |association, ctx| {
                    association.abort_for_resources(ctx, "associations without a message");
                });
                true
            }
        }
    }

    /// Returns whether the user takes another association.
    pub(super) fn has_place_in_backlog(&self) -> bool {
        self.config.backlog.is_none_or(|limit| self.backlog < limit)
    }

    /// The user has taken an association that a peer opened, or does not want it any more: another one may come. To be called once for each,
    /// if [`EndpointConfig::backlog`](crate::EndpointConfig::backlog) is set.
    pub fn on_taken(&mut self) {
        self.backlog = self.backlog.saturating_sub(1);
    }

    /// Accepts no more associations of peers. Those that exist are kept.
    pub fn stop_listening(&mut self) {
        self.config.listen = false;
    }

    /// Counts an association that a peer at `ip` has opened.
    pub(super) fn count_accepted(&mut self, id: AssocId, ip: IpAddr) {
        let holder = Holder::of(ip);
        let table = &mut self.table;
        table.set_holder(id, holder);
        let is_silent = |id| table.get(id).is_some_and(Association::is_silent);
        self.accepted.insert(holder, id, is_silent(id));
        self.accepted.clean_up(holder, table.live(), is_silent);
    }

    /// Releases the memory reserved for future data in all associations. Data that users have not read is kept.
    pub fn release_memory(&mut self) {
        for index in 0..self.table.places() {
            if let Some(association) = self.table.at_mut(index) {
                association.release_receive_memory();
                self.table.note_receive_memory(index);
            }
        }
    }

    /// Aborts an association to free resources for others (ABORT with the cause Out of Resource). Data that its user
    /// has not read is dropped.
    pub fn abort_for_resources(&mut self, now: Time, id: AssocId) {
        self.with(id, now, |association, ctx| {
            association.abort_for_resources(ctx, "memory")
        });
    }

    /// Returns the memory in bytes that received data uses in all associations: unread messages, incomplete messages,
    /// and buffers reserved for future data.
    pub fn receive_memory(&self) -> usize {
        self.table.receive_memory()
    }
}
