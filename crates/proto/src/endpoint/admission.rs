//! Admission of associations that peers open, the choice of the association that is aborted in favour of a new one, and the memory that
//! associations use.
//!
//! RFC 9260 §5.1: if local resources do not suffice for an association, the endpoint replies with ABORT. An accepted
//! association that has not delivered a message has a lower priority than a new one: it may be one of thousands of
//! handshakes by a peer that never sends data. With
//! [`EndpointConfig::first_message_timeout`](crate::EndpointConfig::first_message_timeout), the oldest of them is
//! aborted. With [`EndpointConfig::evict_after`](crate::EndpointConfig::evict_after), the least recently active association follows if there
//! is none.

use std::net::IpAddr;

use whimbrel_control::Time;

use super::Endpoint;
use super::limits::Holder;
use super::table::Table;
use crate::association::Association;
use crate::{AssocId, State};

/// An association that is aborted in favour of a new one.
struct Victim {
    id: AssocId,
    /// The limit that it exceeds.
    limit: &'static str,
}

impl Victim {
    fn silent(id: AssocId) -> Self {
        let limit = "associations without a message";
        Victim { id, limit }
    }

    fn inactive((_, id): (Time, AssocId)) -> Self {
        let limit = "number of associations; this one was the least recently active";
        Victim { id, limit }
    }
}

/// Returns the time of an association's last activity, unless it has ended.
fn last_activity(table: &Table, id: AssocId) -> Option<Time> {
    let association = table.get(id)?;
    (association.state() != State::Closed).then(|| association.last_activity())
}

impl Endpoint {
    /// Returns the association to abort so that a peer at `ip` can open one, if that is necessary.
    ///
    /// # Errors
    /// Returns the name of the limit if no association can be aborted.
    fn association_to_abort(&mut self, now: Time, ip: IpAddr) -> Result<Option<Victim>, &'static str> {
        let holder = Holder::of(ip);
        let (table, accepted, evict_after) = (&self.table, &mut self.accepted, self.config.evict_after);
        let is_silent = |id| table.get(id).is_some_and(Association::is_silent);
        let last = |id| last_activity(table, id);
        let is_idle = |at: Time| evict_after.is_some_and(|span| now.since(at) >= span);
        let idle = |found: Option<(Time, AssocId)>| found.filter(|(at, _)| is_idle(*at)).map(Victim::inactive);
        let count = accepted.count(holder);
        if count >= self.config.max_associations_per_address {
            let oldest = accepted.oldest(Some(holder), is_silent).map(Victim::silent);
            let victim = oldest.or_else(|| idle(accepted.least_recent(Some(holder), last)));
            return victim.map(Some).ok_or("associations of one address");
        }
        if table.live() < self.config.max_associations {
            return Ok(None);
        }
        if let Some(oldest) = accepted.oldest(None, is_silent) {
            return Ok(Some(Victim::silent(oldest)));
        }
        let largest = accepted.largest().filter(|(most, _)| *most >= count + 2);
        let of_largest = largest.and_then(|(_, largest)| accepted.least_recent(Some(largest), last));
        let victim = match of_largest {
            Some(found) => Some(Victim::inactive(found)),
            // An address that has some gets no more at the cost of others.
            None => idle(accepted.least_recent((count > 0).then_some(holder), last)),
        };
        victim.map(Some).ok_or("number of associations")
    }

    /// Returns whether a peer at `ip` may open an association. If associations may be evicted, that is decided at its COOKIE ECHO, which
    /// proves the address.
    // [9260:5.1-15]
    pub(super) fn has_room(&mut self, ip: IpAddr) -> bool {
        self.config.evict_after.is_some() || self.association_to_abort(Time::ZERO, ip).is_ok()
    }

    /// Makes room for an association of a peer at `ip`, whose address is verified. Returns false if that is not
    /// possible.
    pub(super) fn make_room(&mut self, now: Time, ip: IpAddr) -> bool {
        match self.association_to_abort(now, ip) {
            Err(_) => false,
            Ok(None) => true,
            Ok(Some(victim)) => {
                self.with(victim.id, now, |association, ctx| {
                    association.abort_for_resources(ctx, victim.limit);
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

    /// Accepts associations of peers from now on.
    pub fn start_listening(&mut self) {
        self.config.listen = true;
    }

    /// Counts an association that a peer at `ip` has opened.
    pub(super) fn count_accepted(&mut self, now: Time, id: AssocId, ip: IpAddr) {
        let holder = Holder::of(ip);
        let table = &mut self.table;
        table.set_holder(id, holder);
        let is_silent = |id| table.get(id).is_some_and(Association::is_silent);
        let since = self.config.evict_after.map(|_| now);
        self.accepted.insert(holder, id, is_silent(id), since);
        let is_live = |id| last_activity(table, id).is_some();
        self.accepted.clean_up(holder, table.live(), is_silent, is_live);
    }

    /// Releases the memory reserved for future data in all associations. Data that users have not read is kept.
    pub fn release_memory(&mut self) {
        for index in 0..self.table.entries() {
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
