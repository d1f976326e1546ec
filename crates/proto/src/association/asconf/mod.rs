//! Changes of addresses requested by the local user: ASCONF, and the handling of ASCONF-ACK (RFC 5061 §5.1).

mod answer;
mod request;
mod state;
mod translation;

use whimbrel_control::Time;
use whimbrel_wire::{ASCONF_HEADER_LEN, Asconf, Cause, Chunk, Parameter, Parameters, cause_code};

use self::request::{Request, take_next, wildcard};
pub(crate) use self::state::AsconfState;
use self::state::Pending;
use super::{Association, State};
use crate::PathId;
use crate::TransportAddr;
use crate::address::is_unicast;
use crate::config::{MAX_ADDRESSES, NEVER};
use crate::context::Context;
use crate::error::{AddressError, Discard};
use crate::event::{CloseReason, Event};
use crate::extensions::Extensions;
use crate::packet::Packet;
use crate::send::path::Path;
use crate::send::{Outgoing, Trust};
use crate::trace::TimerKind;

impl Association {
    /// Called when the handshake has determined whether addresses may change. Serial numbers start with the initial
    /// TSNs (RFC 5061 §4.1.1).
    pub(super) fn agree_on_asconf(&mut self, extensions: Extensions, local_tsn: u32, peer_tsn: u32) {
        let agreed = extensions.has(Extensions::DYNAMIC_ADDRESSES) && self.peer_authenticates_asconf();
        self.agreed.asconf = agreed.then(|| {
            Box::new(AsconfState {
                next_serial: local_tsn,
                pending: None,
                waiting: Vec::new(),
                peer_serial: peer_tsn.wrapping_sub(1),
                answer: None,
                announced: self.ends.local_addrs.to_vec(),
                hidden: Vec::new(),
            })
        });
    }

    /// Returns whether both endpoints support dynamic addresses.
    pub fn has_dynamic_addresses(&self) -> bool {
        self.agreed.asconf.is_some()
    }

    /// Returns the local addresses that packets are sent from.
    pub fn local_addrs(&self) -> &[TransportAddr] {
        &self.ends.local_addrs
    }

    /// Returns whether this local address is in use by either side: the peer may send to it, or packets may be sent
    /// from it.
    pub fn is_known_by(&self, addr: TransportAddr) -> bool {
        let announced = self
            .agreed
            .asconf
            .as_ref()
            .is_some_and(|state| state.announced.contains(&addr));
        announced || self.ends.local_addrs.contains(&addr)
    }

    /// Returns whether the peer should not send to this local address, or no longer. An ABORT that arrives there is
    /// ignored (RFC 5061 §5.3): it answers a packet that was sent from there and reached the peer after it had removed
    /// the address.
    pub(crate) fn stopped_using(&self, local: TransportAddr) -> bool {
        self.agreed.asconf.is_some() && !self.ends.local_addrs.contains(&local)
    }

    /// Returns whether the peer has been asked to add this local address and may therefore send to it.
    pub(super) fn is_requested(&self, local: TransportAddr) -> bool {
        let asconf = self.agreed.asconf.as_ref();
        asconf.is_some_and(|state| {
            state
                .requests()
                .any(|r| r == Request::Add(local) || r == Request::AddSource(local))
        })
    }

    /// Adds a local address and asks the peer to add it.
    pub(crate) fn add_local_address(&mut self, ctx: &mut Context<'_>, addr: TransportAddr) -> Result<(), AddressError> {
        let addition = self.addition(addr);
        let state = self.changeable()?;
        if !is_unicast(addr.ip()) {
            return Err(AddressError::NotUnicast(addr));
        }
        let is_there = state.announced.contains(&addr) || state.requests().any(|r| r == addition);
        let leaves = state.requests().any(|r| r == Request::Remove(addr));
        if is_there || leaves {
            return Err(AddressError::Exists(addr));
        }
        let adds = state.requests();
        let adds = adds
            .filter(|r| matches!(r, Request::Add(_) | Request::AddSource(_)))
            .count();
        if state.announced.len() + adds >= MAX_ADDRESSES {
            return Err(AddressError::TooMany);
        }
        if state.announced.iter().any(|known| known.ip() == addr.ip()) {
            // With and without UDP, it is one address: the peer has it.
            self.settle_addition(ctx, addr, None);
            return Ok(());
        }
        let progress = self.sending.add_candidate_path(ctx, addr);
        self.apply(ctx, progress);
        self.ask_peer(ctx, addition);
        Ok(())
    }

    /// Removes a local address: it is not used as a source any more, and the peer is asked to remove it.
    pub(crate) fn remove_local_address(
        &mut self,
        ctx: &mut Context<'_>,
        addr: TransportAddr,
    ) -> Result<(), AddressError> {
        let state = self.changeable()?;
        let mut after = state.announced.clone();
        for request in state.requests() {
            match request {
                Request::Add(added) | Request::AddSource(added) => after.push(added),
                Request::Remove(gone) => after.retain(|a| *a != gone),
                Request::SetPrimary(_) | Request::PreferSource(_) | Request::KeepSource(_) => {}
            }
        }
        if !after.contains(&addr) {
            return Err(AddressError::Unknown(addr));
        }
        let reaches = |a: &TransportAddr| self.sending.live_remotes().any(|ip| ip.is_ipv4() == a.is_ipv4());
        if !after.iter().any(|a| *a != addr && reaches(a)) {
            return Err(AddressError::Last);
        }
        self.ends.local_addrs = self.ends.local_addrs.iter().copied().filter(|a| *a != addr).collect();
        self.leave_local_address(ctx, addr);
        if self.forget_other_kind(addr) {
            self.user.events.push_back(Event::LocalAddressRemoved { addr });
        } else if self.withdraw(addr) {
            self.user.events.push_back(Event::LocalAddressRemoved { addr });
            self.send_asconf(ctx);
        } else if self.is_translated(addr) {
            self.remove_translated(ctx, addr, &after);
        } else {
            self.ask_peer(ctx, Request::Remove(addr));
        }
        Ok(())
    }

    /// With and without UDP, it is one address: if the other one stays, this one is forgotten without asking the peer.
    fn forget_other_kind(&mut self, addr: TransportAddr) -> bool {
        let Some(state) = &mut self.agreed.asconf else {
            return false;
        };
        let is_other = |known: &TransportAddr| *known != addr && known.ip() == addr.ip();
        let has_both = state.announced.contains(&addr) && state.announced.iter().any(is_other);
        if has_both {
            state.announced.retain(|known| *known != addr);
        }
        has_both
    }

    /// Withdraws the addition of an address before the peer has been asked. Returns false if the request has been sent. The caller
    /// sends the other requests, which may have been in the same ASCONF.
    fn withdraw(&mut self, addr: TransportAddr) -> bool {
        let Some(state) = &mut self.agreed.asconf else {
            return false;
        };
        state.recall();
        if state.pending.is_none() {
            self.timers.t4 = NEVER;
            self.sending.control().drop_asconf();
        }
        let adds = [Request::Add(addr), Request::AddSource(addr)];
        if state.announced.contains(&addr) || !state.waiting.iter().any(|request| adds.contains(request)) {
            return false;
        }
        state.waiting.retain(|request| request.addr() != addr);
        true
    }

    /// Asks the peer to use this local address as its primary destination (RFC 5061 §4.2.4).
    pub(crate) fn set_peer_primary(&mut self, ctx: &mut Context<'_>, addr: TransportAddr) -> Result<(), AddressError> {
        let state = self.changeable()?;
        let is_added = self.is_requested(addr);
        if !(is_added || state.announced.contains(&addr)) || state.requests().any(|r| r == Request::Remove(addr)) {
            return Err(AddressError::Unknown(addr));
        }
        self.ask_peer(ctx, self.preference(addr));
        Ok(())
    }

    fn changeable(&self) -> Result<&AsconfState, AddressError> {
        if !self.may_change_addresses() {
            return Err(AddressError::NotEstablished);
        }
        self.agreed.asconf.as_deref().ok_or(AddressError::NotSupported)
    }

    fn may_change_addresses(&self) -> bool {
        self.state.may_send_data() && !self.agreed.is_keying(self.state)
    }

    fn ask_peer(&mut self, ctx: &mut Context<'_>, request: Request) {
        if let Some(state) = &mut self.agreed.asconf
            && !state.waiting.contains(&request)
        {
            state.waiting.push(request);
        }
        self.send_asconf(ctx);
    }

    /// Sends the waiting requests unless an ASCONF is outstanding.
    fn send_asconf(&mut self, ctx: &mut Context<'_>) {
        let Some(state) = self.agreed.asconf.as_mut() else {
            return;
        };
        state.recall();
        if state.pending.is_some() || state.waiting.is_empty() {
            return;
        }
        let mut requests = take_next(&mut state.waiting);
        requests.sort_by_key(|request| request.order());
        let mut parameters = Vec::new();
        // RFC 5061 §4.1.1: an address that the peer knows. It may be the one to be removed. If a NAT changes it, the
        // wildcard address: the peer then looks for the Verification Tag.
        let leaves = |addr: &TransportAddr| requests.contains(&Request::Remove(*addr));
        let known = state.announced.iter().find(|addr| !leaves(addr));
        let known = known.or(state.announced.first()).copied();
        let source = requests.first().filter(|request| request.is_by_source());
        let source = source.map(|request| request.addr());
        if let Some(known) = source.or(known) {
            let is_wildcard = source.is_some() || self.is_translated(known);
            let address = if is_wildcard { wildcard(known) } else { known.ip() };
            Parameter::address(address).emit(&mut parameters);
        }
        for (correlation, request) in (1..).zip(&requests) {
            request.emit(correlation, &mut parameters);
        }
        let Some(state) = self.agreed.asconf.as_mut() else {
            return;
        };
        let serial = state.next_serial;
        state.next_serial = serial.wrapping_add(1);
        state.pending = Some(Pending {
            serial,
            requests,
            parameters: parameters.into(),
            path: self.sending.sending_path(),
            attempts: 0,
            misplaced: false,
        });
        let path = source.and_then(|local| self.path_from(local));
        let path = path.unwrap_or_else(|| self.asconf_path(self.sending.sending_path(), false));
        self.transmit_asconf(ctx.now, path);
    }

    /// Returns the path for an ASCONF. A local address that the peer does not know yet is used only if the others do
    /// not get a response (RFC 5061 §5.3).
    fn asconf_path(&self, from: PathId, timed_out: bool) -> PathId {
        let known = Path::is_open;
        let any = |path: &Path| path.is_open() || path.is_pending() && !path.is_removed();
        let first = if timed_out {
            None
        } else {
            self.sending.control_path(from, timed_out, known)
        };
        first
            .or_else(|| self.sending.control_path(from, timed_out, any))
            .unwrap_or(self.sending.sending_path())
    }

    fn transmit_asconf(&mut self, now: Time, path: PathId) {
        if let Some(pending) = self.agreed.asconf.as_mut().and_then(|state| state.pending.as_mut()) {
            pending.path = path;
            let source = pending.source();
            pending.misplaced |= source.is_some_and(|local| local != self.sending.paths()[path].local());
            self.sending.control().drop_asconf();
            if source.is_some() {
                // The peer finds the association only if AUTH and ASCONF are the first chunks.
                self.sending.control().push_first(path, Outgoing::Asconf);
                self.timers.t4 = now + self.source_timeout(path);
            } else {
                self.sending.control().push(path, Outgoing::Asconf);
                self.timers.t4 = now + self.sending.paths()[path].timeout();
            }
        }
    }

    /// T4-rto expired: retransmits the ASCONF unchanged, on another path if there is one (RFC 5061 §5.1.1).
    pub(super) fn on_t4(&mut self, ctx: &mut Context<'_>) {
        self.timers.t4 = NEVER;
        let Some(pending) = self.agreed.asconf.as_ref().and_then(|state| state.pending.as_ref()) else {
            return;
        };
        let (index, source) = (pending.path, pending.source());
        self.trace_timer(ctx, TimerKind::T4Asconf, Some(index));
        if let Some(local) = source {
            // It tests whether the peer sees another address. Its loss does not show that the peer is unreachable.
            if self.may_change_addresses() && self.sending.is_held() {
                // Nothing else would end the association.
                let progress = self.sending.on_control_timeout(ctx, index);
                self.apply(ctx, progress);
            }
            if self.may_change_addresses() {
                let next = self.source_path_again(local);
                self.transmit_asconf(ctx.now, next);
            }
            return;
        }
        if self.may_change_addresses() {
            let progress = self.sending.on_control_timeout(ctx, index);
            self.apply(ctx, progress);
        }
        if self.may_change_addresses() {
            let next = self.asconf_path(index, true);
            self.transmit_asconf(ctx.now, next);
        }
    }

    /// Returns a local address of the same IP version that the peer has been asked to add.
    pub(super) fn pending_address(&self, remote: TransportAddr) -> Option<TransportAddr> {
        self.agreed
            .asconf
            .as_ref()?
            .requests()
            .find_map(|request| match request {
                Request::Add(addr) | Request::AddSource(addr)
                    if addr.is_ipv4() == remote.is_ipv4() && !self.ends.local_addrs.contains(&addr) =>
                {
                    Some(addr)
                }
                _ => None,
            })
    }

    /// Writes the outstanding ASCONF.
    pub(super) fn push_asconf(&mut self, packet: &mut Packet<'_>) {
        if let Some(pending) = self.agreed.asconf.as_mut().and_then(|state| state.pending.as_mut()) {
            pending.attempts = pending.attempts.saturating_add(1);
            packet.push(&Chunk::Asconf(Asconf {
                serial: pending.serial,
                parameters: Parameters::from_wire_bytes(&pending.parameters),
            }));
        }
    }

    /// Returns the length of the outstanding ASCONF in bytes.
    pub(super) fn asconf_len(&self) -> usize {
        let pending = self.agreed.asconf.as_ref().and_then(|state| state.pending.as_ref());
        pending.map_or(0, |pending| ASCONF_HEADER_LEN + pending.parameters.len())
    }

    /// Handles an ASCONF-ACK (RFC 5061 §5.1, §5.1.1). The caller has verified that it is authenticated.
    pub(super) fn on_asconf_ack(
        &mut self,
        ctx: &mut Context<'_>,
        from: PathId,
        ack: &Asconf<'_>,
    ) -> Result<(), Discard> {
        let Some(state) = self.agreed.asconf.as_mut() else {
            return Err(Discard::Unexpected);
        };
        let Some(pending) = state.pending.take_if(|pending| pending.serial == ack.serial) else {
            let ahead = ack.serial.wrapping_sub(state.next_serial) < 1 << 31;
            if ahead {
                // RFC 5061 §5.1 E: an ASCONF-ACK to an ASCONF that was not sent.
                let mut causes = Vec::new();
                Cause::IllegalAsconfAck.emit(&mut causes);
                self.abort_with(
                    ctx,
                    &causes,
                    CloseReason::ProtocolViolation("an ASCONF-ACK without an outstanding ASCONF"),
                );
                return Err(Discard::InvalidChunk);
            }
            return Err(Discard::Unexpected);
        };
        self.timers.t4 = NEVER;
        self.sending.control().drop_asconf();
        let sent_on = pending.path;
        if pending.source().is_none() {
            // The answer to a test of a path does not show that data arrives.
            self.sending.on_control_answered(sent_on);
        }
        // Requests after an error that have no response were not executed (RFC 5061 §4.1.2).
        let mut refused_from = usize::MAX;
        let mut outcomes: Vec<Option<Result<(), u16>>> = vec![None; pending.requests.len()];
        for parameter in ack.parameters.iter().map_while(Result::ok) {
            let (correlation, outcome) = match parameter {
                Parameter::Success { correlation } => (correlation, Ok(())),
                Parameter::ErrorCauseIndication { correlation, causes } => {
                    let cause = causes.iter().find_map(Result::ok).map_or(0, |cause| cause.code());
                    (correlation, Err(cause))
                }
                _ => continue,
            };
            let index = (correlation as usize).wrapping_sub(1);
            if let Some(place) = outcomes.get_mut(index) {
                *place = Some(outcome);
                if outcome.is_err() {
                    refused_from = refused_from.min(index);
                }
            }
        }
        let remotes = self.sending.peer_addresses();
        for (index, request) in pending.requests.iter().enumerate() {
            let unsaid = if index < refused_from { Ok(()) } else { Err(0) };
            let outcome = outcomes[index].unwrap_or(unsaid);
            if let (Request::AddSource(addr), Ok(())) = (*request, outcome) {
                let answered = (sent_on == from).then_some(sent_on);
                self.settle_source(ctx, addr, pending.misplaced, answered);
            } else {
                self.settle(ctx, *request, outcome, sent_on, from);
            }
        }
        if !self.sending.paths().iter().any(|path| !path.is_removed()) {
            self.restore_addresses(ctx, &remotes);
        }
        if self.state != State::Closed {
            self.send_asconf(ctx);
        }
        Ok(())
    }

    /// The peer refused the only local address that would have remained. Restores the local addresses whose removal has
    /// not been requested yet.
    fn restore_addresses(&mut self, ctx: &mut Context<'_>, remotes: &[(TransportAddr, Trust)]) {
        let Some(state) = self.agreed.asconf.as_mut() else {
            return;
        };
        let mut kept = Vec::new();
        state.waiting.retain(|request| match request {
            Request::Remove(addr) if state.announced.contains(addr) => {
                kept.push(*addr);
                false
            }
            _ => true,
        });
        for addr in kept {
            self.own_again(addr);
            let cause = cause_code::DELETE_LAST_ADDRESS;
            self.user.events.push_back(Event::AddressRefused { addr, cause });
        }
        self.reopen_paths(ctx, remotes);
        if !self.sending.paths().iter().any(|path| !path.is_removed()) {
            self.close(ctx, CloseReason::NoAddress);
        }
    }

    fn own_again(&mut self, addr: TransportAddr) {
        if !self.ends.local_addrs.contains(&addr) {
            self.ends.local_addrs = self.ends.local_addrs.iter().copied().chain([addr]).collect();
        }
    }

    fn settle(
        &mut self,
        ctx: &mut Context<'_>,
        request: Request,
        outcome: Result<(), u16>,
        sent_on: PathId,
        from: PathId,
    ) {
        let addr = request.addr();
        let Some(state) = self.agreed.asconf.as_mut() else {
            return;
        };
        match (request, outcome) {
            (Request::Add(_), Ok(())) => {
                // The ASCONF-ACK to an ASCONF sent from the address verifies the path.
                let works = self.sending.paths()[sent_on].local() == addr && sent_on == from;
                self.settle_addition(ctx, addr, works.then_some(sent_on));
            }
            (Request::Remove(_), Ok(())) => {
                state.announced.retain(|known| *known != addr);
                self.ends.local_addrs = self
                    .ends
                    .local_addrs
                    .iter()
                    .copied()
                    .filter(|own| *own != addr)
                    .collect();
                self.user.events.push_back(Event::LocalAddressRemoved { addr });
            }
            (
                Request::SetPrimary(_) | Request::PreferSource(_) | Request::KeepSource(_) | Request::AddSource(_),
                Ok(()),
            ) => {}
            (_, Err(cause)) => {
                match request {
                    Request::Add(_) => self.leave_local_address(ctx, addr),
                    Request::AddSource(_) if !state.announced.contains(&addr) => self.leave_local_address(ctx, addr),
                    // The address stays in use as before.
                    Request::AddSource(_) | Request::KeepSource(_) => return,
                    // The peer keeps the address, so it stays in use.
                    Request::Remove(_) if state.announced.contains(&addr) => {
                        self.own_again(addr);
                        let progress = self.sending.add_candidate_path(ctx, addr);
                        self.apply(ctx, progress);
                        self.open_paths_from(ctx, addr, None);
                    }
                    _ => {}
                }
                self.user.events.push_back(Event::AddressRefused { addr, cause });
            }
        }
    }

    /// The peer has added this local address. `works` is a path from it that is verified.
    fn settle_addition(&mut self, ctx: &mut Context<'_>, addr: TransportAddr, works: Option<PathId>) {
        let Some(state) = self.agreed.asconf.as_mut() else {
            return;
        };
        state.announced.push(addr);
        let leaves = state.requests().any(|r| r == Request::Remove(addr));
        if !leaves {
            self.ends.local_addrs = self.ends.local_addrs.iter().copied().chain([addr]).collect();
            self.open_paths_from(ctx, addr, works);
        }
        self.user.events.push_back(Event::LocalAddressAdded { addr });
    }
}
