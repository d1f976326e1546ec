//! Changes of addresses that this end asks for, and what the peer answers: ASCONF and ASCONF-ACK (RFC 5061 §5.1).

mod answer;

use whimbrel_control::Time;
use whimbrel_wire::{ASCONF_HEADER_LEN, Asconf, Cause, Chunk, Parameter, Parameters, cause_code};

use super::transmit::Packet;
use super::{Association, Context, Outgoing, State};
use crate::TransportAddr;
use crate::config::{MAX_ADDRESSES, NEVER};
use crate::endpoint::is_unicast;
use crate::error::{AddressError, Discard};
use crate::event::{CloseReason, Event};
use crate::extensions::Extensions;
use crate::path::Path;
use crate::trace::TimerKind;

/// A change that our user asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// An address of ours is there.
    Add(TransportAddr),
    /// The peer is to send to this address of ours first.
    SetPrimary(TransportAddr),
    /// An address of ours is not there any more.
    Remove(TransportAddr),
}

impl Request {
    fn addr(self) -> TransportAddr {
        match self {
            Request::Add(addr) | Request::SetPrimary(addr) | Request::Remove(addr) => addr,
        }
    }

    /// Additions first, so that what they add can be named; removals last, so that an address is left at any time.
    fn order(self) -> u8 {
        match self {
            Request::Add(_) => 0,
            Request::SetPrimary(_) => 1,
            Request::Remove(_) => 2,
        }
    }
}

/// The ASCONF that is unanswered: there is one at most (RFC 5061 §5.1).
#[derive(Debug)]
struct Pending {
    serial: u32,
    requests: Vec<Request>,
    parameters: Box<[u8]>,
    /// The path it was sent on last.
    path: u8,
    /// It has left: until then it takes in what is asked for besides.
    sent: bool,
}

/// Where the two directions of changes are.
#[derive(Debug)]
pub(crate) struct AsconfState {
    /// Of our next ASCONF.
    next_serial: u32,
    pending: Option<Pending>,
    waiting: Vec<Request>,
    /// The peer's ASCONF that was answered last, and the answer, in case that it asks again.
    peer_serial: u32,
    answer: Option<Box<[u8]>>,
    /// Our addresses as the peer knows them.
    announced: Vec<TransportAddr>,
}

impl AsconfState {
    pub(super) fn heap_bytes(&self) -> usize {
        let pending = self.pending.as_ref().map_or(0, |pending| {
            pending.requests.capacity() * size_of::<Request>() + pending.parameters.len()
        });
        size_of::<Self>()
            + pending
            + self.waiting.capacity() * size_of::<Request>()
            + self.answer.as_ref().map_or(0, |answer| answer.len())
            + self.announced.capacity() * size_of::<TransportAddr>()
    }

    /// Takes back an ASCONF that has not left yet: what it asks for waits again.
    fn recall(&mut self) {
        if let Some(pending) = self.pending.take_if(|pending| !pending.sent) {
            self.next_serial = pending.serial;
            self.waiting.splice(0..0, pending.requests);
        }
    }

    fn requests(&self) -> impl Iterator<Item = Request> + '_ {
        let pending = self.pending.iter().flat_map(|pending| &pending.requests);
        pending.chain(&self.waiting).copied()
    }
}

impl Association {
    /// The handshake has settled whether addresses may change: serial numbers begin with the initial TSNs (RFC 5061 §4.1.1).
    pub(super) fn agree_on_asconf(&mut self, extensions: Extensions, local_tsn: u32, peer_tsn: u32) {
        let agreed = extensions.has(Extensions::DYNAMIC_ADDRESSES) && self.peer_authenticates_asconf();
        self.asconf = agreed.then(|| {
            Box::new(AsconfState {
                next_serial: local_tsn,
                pending: None,
                waiting: Vec::new(),
                peer_serial: peer_tsn.wrapping_sub(1),
                answer: None,
                announced: self.local_addrs.to_vec(),
            })
        });
    }

    /// Whether both ends can change addresses.
    pub fn has_dynamic_addresses(&self) -> bool {
        self.asconf.is_some()
    }

    /// The addresses of this end that packets are sent from.
    pub fn local_addrs(&self) -> &[TransportAddr] {
        &self.local_addrs
    }

    /// Whether the peer may send to this address of ours, or we from it.
    pub fn is_known_by(&self, addr: TransportAddr) -> bool {
        let announced = self
            .asconf
            .as_ref()
            .is_some_and(|state| state.announced.contains(&addr));
        announced || self.local_addrs.contains(&addr)
    }

    /// Whether the peer is not to send to this address of ours, or not any more. An ABORT that comes to one is ignored (RFC 5061
    /// §5.3): it answers what we sent from there before the peer forgot the address, and took for a stranger's after that.
    pub(crate) fn gave_up(&self, local: TransportAddr) -> bool {
        self.asconf.is_some() && !self.local_addrs.contains(&local)
    }

    /// Whether the peer has been asked to send to this address of ours, and may do so.
    pub(super) fn may_come(&self, local: TransportAddr) -> bool {
        let asconf = self.asconf.as_ref();
        asconf.is_some_and(|state| state.requests().any(|r| r == Request::Add(local)))
    }

    /// An address of ours has come to be there; the peer is asked to use it too.
    pub(crate) fn add_local_address(&mut self, ctx: &mut Context<'_>, addr: TransportAddr) -> Result<(), AddressError> {
        let state = self.changeable()?;
        if !is_unicast(addr.ip()) {
            return Err(AddressError::NotUnicast(addr));
        }
        let is_there = state.announced.contains(&addr) || state.requests().any(|r| r == Request::Add(addr));
        let leaves = state.requests().any(|r| r == Request::Remove(addr));
        if is_there || leaves {
            return Err(AddressError::Exists(addr));
        }
        let adds = state.requests().filter(|r| matches!(r, Request::Add(_))).count();
        if state.announced.len() + adds >= MAX_ADDRESSES {
            return Err(AddressError::TooMany);
        }
        self.add_candidate_path(ctx, addr);
        self.ask_peer(ctx, Request::Add(addr));
        Ok(())
    }

    /// An address of ours is to be used no more, or is gone: nothing is sent from it any more, and the peer is asked not to send to it.
    pub(crate) fn remove_local_address(
        &mut self,
        ctx: &mut Context<'_>,
        addr: TransportAddr,
    ) -> Result<(), AddressError> {
        let state = self.changeable()?;
        let mut after = state.announced.clone();
        for request in state.requests() {
            match request {
                Request::Add(added) => after.push(added),
                Request::Remove(gone) => after.retain(|a| *a != gone),
                Request::SetPrimary(_) => {}
            }
        }
        if !after.contains(&addr) {
            return Err(AddressError::Unknown(addr));
        }
        let reaches = |a: &TransportAddr| self.live_remotes().any(|ip| ip.is_ipv4() == a.is_ipv4());
        if !after.iter().any(|a| *a != addr && reaches(a)) {
            return Err(AddressError::Last);
        }
        self.local_addrs = self.local_addrs.iter().copied().filter(|a| *a != addr).collect();
        self.leave_local_address(ctx, addr);
        if self.withdraw(addr) {
            self.events.push_back(Event::LocalAddressRemoved { addr });
            self.send_asconf(ctx);
        } else {
            self.ask_peer(ctx, Request::Remove(addr));
        }
        Ok(())
    }

    /// The address goes before the peer has been asked to take it: it never hears of it.
    fn withdraw(&mut self, addr: TransportAddr) -> bool {
        let Some(state) = &mut self.asconf else { return false };
        state.recall();
        if !state.waiting.contains(&Request::Add(addr)) {
            return false;
        }
        state.waiting.retain(|request| request.addr() != addr);
        if state.pending.is_none() {
            self.timers.t4 = NEVER;
            self.outgoing.drop_asconf();
        }
        true
    }

    /// The peer is asked to send to this address of ours first (RFC 5061 §4.2.4).
    pub(crate) fn set_peer_primary(&mut self, ctx: &mut Context<'_>, addr: TransportAddr) -> Result<(), AddressError> {
        let state = self.changeable()?;
        let is_added = state.requests().any(|r| r == Request::Add(addr));
        if !(is_added || state.announced.contains(&addr)) || state.requests().any(|r| r == Request::Remove(addr)) {
            return Err(AddressError::Unknown(addr));
        }
        self.ask_peer(ctx, Request::SetPrimary(addr));
        Ok(())
    }

    fn changeable(&self) -> Result<&AsconfState, AddressError> {
        if !self.may_change_addresses() {
            return Err(AddressError::NotEstablished);
        }
        self.asconf.as_deref().ok_or(AddressError::NotSupported)
    }

    fn may_change_addresses(&self) -> bool {
        matches!(
            self.state,
            State::Established | State::ShutdownPending | State::ShutdownReceived
        )
    }

    fn ask_peer(&mut self, ctx: &mut Context<'_>, request: Request) {
        if let Some(state) = &mut self.asconf
            && !state.waiting.contains(&request)
        {
            state.waiting.push(request);
        }
        self.send_asconf(ctx);
    }

    /// Sends what waits, if nothing is unanswered.
    fn send_asconf(&mut self, ctx: &mut Context<'_>) {
        let Some(state) = self.asconf.as_mut() else { return };
        state.recall();
        if state.pending.is_some() || state.waiting.is_empty() {
            return;
        }
        let mut requests = core::mem::take(&mut state.waiting);
        requests.sort_by_key(|request| request.order());
        let mut parameters = Vec::new();
        // RFC 5061 §4.1.1: an address that the peer knows; it may be the one that is to go.
        let leaves = |addr: &TransportAddr| requests.contains(&Request::Remove(*addr));
        let known = state.announced.iter().find(|addr| !leaves(addr));
        if let Some(known) = known.or(state.announced.first()) {
            Parameter::address(known.ip()).emit(&mut parameters);
        }
        for (correlation, request) in (1..).zip(&requests) {
            let address = request.addr().ip();
            match request {
                Request::Add(_) => Parameter::AddIp { correlation, address },
                Request::SetPrimary(_) => Parameter::SetPrimary { correlation, address },
                Request::Remove(_) => Parameter::DeleteIp { correlation, address },
            }
            .emit(&mut parameters);
        }
        let serial = state.next_serial;
        state.next_serial = serial.wrapping_add(1);
        state.pending = Some(Pending {
            serial,
            requests,
            parameters: parameters.into(),
            path: self.sending,
            sent: false,
        });
        let path = self.asconf_path(usize::from(self.sending), false);
        self.transmit_asconf(ctx.now, path);
    }

    /// The path for an ASCONF. A local address that the peer does not know yet is used only if the others do not answer (RFC 5061
    /// §5.3).
    fn asconf_path(&self, from: usize, timed_out: bool) -> usize {
        let known = Path::is_open;
        let any = |path: &Path| path.is_open() || path.pending && !path.removed;
        let first = if timed_out {
            None
        } else {
            self.control_path(from, timed_out, known)
        };
        first
            .or_else(|| self.control_path(from, timed_out, any))
            .unwrap_or(usize::from(self.sending))
    }

    fn transmit_asconf(&mut self, now: Time, path: usize) {
        if let Some(pending) = self.asconf.as_mut().and_then(|state| state.pending.as_mut()) {
            pending.path = path as u8;
            self.outgoing.drop_asconf();
            self.outgoing.push(path as u8, Outgoing::Asconf);
            self.timers.t4 = now + self.paths[path].timeout();
        }
    }

    /// T4-rto: the ASCONF is repeated as it was, on another path if there is one (RFC 5061 §5.1.1).
    pub(super) fn on_t4(&mut self, ctx: &mut Context<'_>) {
        self.timers.t4 = NEVER;
        let Some(pending) = self.asconf.as_ref().and_then(|state| state.pending.as_ref()) else {
            return;
        };
        let index = usize::from(pending.path);
        self.trace_timer(ctx, TimerKind::T4Asconf, Some(index));
        if self.may_change_addresses() {
            self.paths[index].rtt.back_off();
            self.count_path_error(ctx, index, true);
        }
        if self.may_change_addresses() {
            let next = self.asconf_path(index, true);
            self.transmit_asconf(ctx.now, next);
        }
    }

    /// An address of ours that the peer has been asked to take, of the IP version of this one.
    pub(super) fn address_to_come(&self, remote: TransportAddr) -> Option<TransportAddr> {
        self.asconf.as_ref()?.requests().find_map(|request| match request {
            Request::Add(addr) if addr.is_ipv4() == remote.is_ipv4() => Some(addr),
            _ => None,
        })
    }

    /// Writes the ASCONF that is unanswered.
    pub(super) fn push_asconf(&mut self, packet: &mut Packet<'_>) {
        if let Some(pending) = self.asconf.as_mut().and_then(|state| state.pending.as_mut()) {
            pending.sent = true;
            packet.push(&Chunk::Asconf(Asconf {
                serial: pending.serial,
                parameters: Parameters::from_wire_bytes(&pending.parameters),
            }));
        }
    }

    /// Bytes of the ASCONF that is unanswered.
    pub(super) fn asconf_len(&self) -> usize {
        let pending = self.asconf.as_ref().and_then(|state| state.pending.as_ref());
        pending.map_or(0, |pending| ASCONF_HEADER_LEN + pending.parameters.len())
    }

    /// The peer answers (RFC 5061 §5.1, §5.1.1). The caller has seen that the answer is authenticated.
    pub(super) fn on_asconf_ack(
        &mut self,
        ctx: &mut Context<'_>,
        from: usize,
        ack: &Asconf<'_>,
    ) -> Result<(), Discard> {
        let Some(state) = self.asconf.as_mut() else {
            return Err(Discard::Unexpected);
        };
        let Some(pending) = state.pending.take_if(|pending| pending.serial == ack.serial) else {
            let ahead = ack.serial.wrapping_sub(state.next_serial) < 1 << 31;
            if ahead {
                // RFC 5061 §5.1 E: an answer to what was never asked.
                let mut causes = Vec::new();
                Cause::IllegalAsconfAck.emit(&mut causes);
                self.abort_with(
                    ctx,
                    &causes,
                    CloseReason::ProtocolViolation("an ASCONF-ACK to nothing that was asked"),
                );
                return Err(Discard::InvalidChunk);
            }
            return Err(Discard::Unexpected);
        };
        self.timers.t4 = NEVER;
        self.outgoing.drop_asconf();
        self.errors = 0;
        let sent_on = usize::from(pending.path);
        self.paths[sent_on].errors = 0;
        // What comes behind an error without an answer was not carried out (RFC 5061 §4.1.2).
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
        let remotes = self.ways_to_the_peer();
        for (index, request) in pending.requests.iter().enumerate() {
            let unsaid = if index < refused_from { Ok(()) } else { Err(0) };
            self.settle(ctx, *request, outcomes[index].unwrap_or(unsaid), sent_on, from);
        }
        if !self.paths.iter().any(|path| !path.removed) {
            self.restore_addresses(ctx, &remotes);
        }
        if self.state != State::Closed {
            self.send_asconf(ctx);
        }
        Ok(())
    }

    /// The peer does not take the only address that was to be left to us. What it has not been asked to forget is ours again.
    fn restore_addresses(&mut self, ctx: &mut Context<'_>, remotes: &[(TransportAddr, bool)]) {
        let Some(state) = self.asconf.as_mut() else { return };
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
            self.events.push_back(Event::AddressRefused { addr, cause });
        }
        self.reopen_paths(ctx, remotes);
        if !self.paths.iter().any(|path| !path.removed) {
            self.close(ctx, CloseReason::NoAddress);
        }
    }

    fn own_again(&mut self, addr: TransportAddr) {
        if !self.local_addrs.contains(&addr) {
            self.local_addrs = self.local_addrs.iter().copied().chain([addr]).collect();
        }
    }

    fn settle(
        &mut self,
        ctx: &mut Context<'_>,
        request: Request,
        outcome: Result<(), u16>,
        sent_on: usize,
        from: usize,
    ) {
        let addr = request.addr();
        let Some(state) = self.asconf.as_mut() else { return };
        match (request, outcome) {
            (Request::Add(_), Ok(())) => {
                state.announced.push(addr);
                let leaves = state.requests().any(|r| r == Request::Remove(addr));
                if !leaves {
                    self.local_addrs = self.local_addrs.iter().copied().chain([addr]).collect();
                    // The answer to what was sent from it shows that it works.
                    let works = self.paths[sent_on].local == addr && sent_on == from;
                    self.open_paths_from(ctx, addr, works.then_some(sent_on));
                }
                self.events.push_back(Event::LocalAddressAdded { addr });
            }
            (Request::Remove(_), Ok(())) => {
                state.announced.retain(|known| *known != addr);
                self.local_addrs = self.local_addrs.iter().copied().filter(|own| *own != addr).collect();
                self.events.push_back(Event::LocalAddressRemoved { addr });
            }
            (Request::SetPrimary(_), Ok(())) => {}
            (_, Err(cause)) => {
                match request {
                    Request::Add(_) => self.leave_local_address(ctx, addr),
                    // The peer keeps it, and so do we.
                    Request::Remove(_) if state.announced.contains(&addr) => {
                        self.own_again(addr);
                        self.add_candidate_path(ctx, addr);
                        self.open_paths_from(ctx, addr, None);
                    }
                    _ => {}
                }
                self.events.push_back(Event::AddressRefused { addr, cause });
            }
        }
    }
}
