//! An endpoint: one SCTP port with its addresses, and all associations of it.

mod cookie;
mod deadlines;
mod inbound;
mod limits;
mod listen;
mod peer_init;
mod reply;
mod table;

use std::collections::VecDeque;
use std::sync::Arc;

use rand_core::Rng;
use whimbrel_control::{Controller, Time};
use whimbrel_wire::{Checksum, Chunk, PacketError, PacketSink, PacketView, Payload};

pub(crate) use cookie::Cookie;
use cookie::{CookieKey, fingerprint};
use deadlines::Deadlines;
use limits::{Accepted, Strangers};
pub(crate) use peer_init::{MIN_RWND, PeerInit, Refusal, is_unicast, missing_cookie};
pub(crate) use reply::{Replies, Reply, ReplyChunk};
pub use table::AssocId;
use table::Table;

use crate::address::{Ecn, PacketMeta, PathId, Transmit, TransportAddr};
use crate::association::{Association, BufferPool, Context, Identity, Scratch, State, extra_pairs};
use crate::config::{AssociationConfig, EndpointConfig, MAX_ADDRESSES};
use crate::error::{AddressError, ConfigError, ConnectError, Discard, SendError};
use crate::event::Event;
use crate::message::{Message, Received};
use crate::trace::{Trace, TraceEvent, TraceKinds, TraceRecord};

/// Counters of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndpointStats {
    /// Packets received.
    pub packets_received: u64,
    /// Packets not taken as a whole, by reason, in the order of [`Discard::ALL`].
    pub discarded: [u64; Discard::ALL.len()],
    /// Replies not sent because too many were waiting.
    pub replies_dropped: u64,
    /// Associations that peers opened.
    pub accepted: u64,
}

/// A sans-IO SCTP endpoint. The crate's documentation says how it is driven.
///
/// ```
/// use whimbrel_control::{Rng, Time};
/// use whimbrel_proto::{AssociationConfig, Endpoint, EndpointConfig, Event, Message, PacketMeta, TransportAddr};
/// use whimbrel_wire::{ByteSink, ChecksumField};
///
/// let (a, b): (TransportAddr, TransportAddr) = ("10.0.0.1:0".parse()?, "10.0.0.2:0".parse()?);
/// let endpoint = |addr, listen, seed| {
///     let config = EndpointConfig { local_addrs: vec![addr], listen, ..EndpointConfig::default() };
///     Endpoint::new(config, Box::new(Rng::stream(seed, "endpoint")))
/// };
/// let (mut client, mut server) = (endpoint(a, false, 1)?, endpoint(b, true, 2)?);
/// let id = client.connect(Time::ZERO, AssociationConfig::default(), 5000, &[b])?;
/// client.send(Time::ZERO, id, Message::new(0, &b"hello"[..]))?;
///
/// // The network: every packet arrives at once and nothing is lost.
/// fn carry(now: Time, from: &mut Endpoint, to: &mut Endpoint) -> bool {
///     let mut datagram = Vec::new();
///     let Some(sent) = from.poll_transmit(now, &mut ByteSink::new(&mut datagram, ChecksumField::Compute)) else {
///         return false;
///     };
///     let meta = PacketMeta { local: sent.remote, remote: sent.local, ecn: sent.ecn, congestion_indicated: false };
///     to.handle_datagram(now, meta, &datagram).expect("a packet of ours is well-formed");
///     true
/// }
/// let now = Time::from_nanos(1);
/// while carry(now, &mut client, &mut server) || carry(now, &mut server, &mut client) {}
///
/// let mut text = Vec::new();
/// while let Some((id, event)) = server.poll_event() {
///     if event == Event::DataReady {
///         while server.recv(now, id, &mut |part| part.append_to(&mut text)).is_some() {}
///     }
/// }
/// assert_eq!(text, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Endpoint {
    config: EndpointConfig,
    accepted_config: Arc<AssociationConfig>,
    local_addrs: Arc<[TransportAddr]>,
    random: Box<dyn Rng + Send>,
    key: CookieKey,
    key_replaced: Time,
    table: Table,
    accepted: Accepted,
    strangers: Strangers,
    replies: Replies,
    /// Associations that may have something to send or to tell, each once.
    ready: VecDeque<u32>,
    is_ready: Vec<bool>,
    deadlines: Deadlines,
    events: VecDeque<(AssocId, Event)>,
    trace: Trace,
    scratch: Scratch,
    pool: BufferPool,
    stats: EndpointStats,
}

impl core::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Endpoint")
            .field("config", &self.config)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

/// Borrows what an association needs beside itself.
macro_rules! context {
    ($endpoint:expr, $now:expr) => {
        &mut Context {
            now: $now,
            trace: &mut $endpoint.trace,
            random: &mut *$endpoint.random,
            replies: &mut $endpoint.replies,
            scratch: &mut $endpoint.scratch,
            pool: &mut $endpoint.pool,
            granularity: $endpoint.config.timer_granularity,
        }
    };
}
use context;

impl Endpoint {
    /// An endpoint. `random` makes verification tags, initial TSNs, nonces and the key of the state cookies: for real networks
    /// it must be a generator fit for secrets.
    ///
    /// # Errors
    /// If the configuration cannot work.
    pub fn new(config: EndpointConfig, mut random: Box<dyn Rng + Send>) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut secret = [0; 32];
        random.fill_bytes(&mut secret);
        Ok(Endpoint {
            accepted_config: Arc::new(config.association.clone()),
            local_addrs: config.local_addrs.clone().into(),
            random,
            key: CookieKey::new(secret),
            key_replaced: Time::ZERO,
            table: Table::default(),
            accepted: Accepted::default(),
            strangers: Strangers::new(config.max_unassociated_per_address, stranger_key(&secret)),
            replies: Replies::new(config.max_pending_replies),
            ready: VecDeque::new(),
            is_ready: Vec::new(),
            deadlines: Deadlines::default(),
            events: VecDeque::new(),
            trace: Trace::default(),
            scratch: Scratch::default(),
            pool: BufferPool::new(config.buffer_memory),
            stats: EndpointStats::default(),
            config,
        })
    }

    /// Begins an association with the peer that has these addresses and this SCTP port. The first address is the primary path.
    ///
    /// # Errors
    /// If it cannot even be begun.
    // [9260:1.3-1]
    pub fn connect(
        &mut self,
        now: Time,
        config: AssociationConfig,
        peer_port: u16,
        peer: &[TransportAddr],
    ) -> Result<AssocId, ConnectError> {
        config.validate()?;
        config.validate_truth(self.config.truth.is_some())?;
        if peer.is_empty() {
            return Err(ConnectError::NoAddress);
        }
        if self.table.live() >= self.config.max_associations {
            return Err(ConnectError::TooMany);
        }
        let peer = &peer[..peer.len().min(MAX_ADDRESSES)];
        let mut pairs = Vec::with_capacity(peer.len());
        for (index, &remote) in peer.iter().enumerate() {
            if self.table.by_peer(remote, peer_port).is_some() {
                return Err(ConnectError::Exists(remote));
            }
            if peer[..index].contains(&remote) {
                continue;
            }
            let same_version = || {
                self.local_addrs
                    .iter()
                    .filter(|local| local.is_ipv4() == remote.is_ipv4())
            };
            let count = same_version().count();
            let local = same_version()
                .nth(index % count.max(1))
                .ok_or(ConnectError::NoLocalAddress(remote))?;
            pairs.push((*local, remote));
        }
        if config.path_per_local_address {
            pairs.extend(extra_pairs(&self.local_addrs, &pairs));
        }
        let id = self.table.next_id();
        let identity = Identity {
            id,
            config: Arc::new(config),
            local_addrs: self.local_addrs.clone(),
            local_port: self.config.local_port,
            peer_port,
            truth: self.config.truth.clone(),
        };
        let tag = self.new_tag();
        let association = Association::open(context!(self, now), identity, tag, pairs.into_iter());
        self.table.insert(association);
        self.after_change(id.index);
        Ok(id)
    }

    /// A verification tag that is not in use.
    // [9260:5.3.1-3]
    fn new_tag(&mut self) -> u32 {
        loop {
            let tag = crate::association::random_tag(&mut *self.random);
            if !self.table.has_tag(tag) {
                return tag;
            }
        }
    }

    /// Takes a datagram: the bytes of an SCTP packet without IP and UDP headers.
    ///
    /// # Errors
    /// Why it, or a part of it, was not taken. That is information: everything needed has been done.
    // [9260:6.8-3, 6.8-4]
    pub fn handle_datagram(&mut self, now: Time, meta: PacketMeta, datagram: &[u8]) -> Result<(), Discard> {
        match PacketView::parse(datagram, Checksum::Verify) {
            Ok(packet) => self.handle_packet(now, meta, &packet),
            Err(error) => {
                let reason = if matches!(error, PacketError::BadChecksum { .. }) {
                    Discard::Checksum
                } else {
                    Discard::Malformed
                };
                self.stats.packets_received += 1;
                self.note_discard(now, reason);
                Err(reason)
            }
        }
    }

    /// Takes a packet that has been parsed, or that never was bytes.
    ///
    /// # Errors
    /// Why it, or a part of it, was not taken.
    pub fn handle_packet(&mut self, now: Time, meta: PacketMeta, packet: &PacketView<'_>) -> Result<(), Discard> {
        self.stats.packets_received += 1;
        let waiting = self.replies.len();
        let result = self.dispatch(now, meta, packet);
        if self.replies.len() > waiting {
            self.limit_replies(packet, waiting);
        }
        if let Err(reason) = result {
            self.note_discard(now, reason);
        }
        result
    }

    /// A packet with an ABORT is not answered (RFC 9260 §9.1), others with one packet of control chunks at most (§12.4). `waiting` replies
    /// were there before.
    // [9260:9.1-4, 12.4-2, 3.3.7-4]
    fn limit_replies(&mut self, packet: &PacketView<'_>, waiting: usize) {
        let has_abort = packet.chunks().any(|chunk| matches!(chunk, Ok(Chunk::Abort { .. })));
        self.replies.truncate(waiting + usize::from(!has_abort));
    }

    fn note_discard(&mut self, now: Time, reason: Discard) {
        self.stats.discarded[reason as usize] += 1;
        self.trace
            .emit(TraceKinds::PACKETS, now, None, || TraceEvent::Discarded { reason });
    }

    /// Lets every timer that is due go off.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(index) = self.deadlines.pop_due(now) {
            let Some(association) = self.table.at_mut(index) else {
                continue;
            };
            if association.next_timeout() <= now {
                association.handle_timeout(context!(self, now));
            }
            self.after_change(index);
        }
    }

    /// When [`Endpoint::handle_timeout`] is to be called next, unless something else happens first. To be asked after
    /// [`Endpoint::poll_transmit`] has returned `None`. It may be sooner than anything is due: then the call does nothing but
    /// correct it.
    pub fn next_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    /// Writes the next packet to be sent into `sink`, exactly one; none if there is nothing to send now.
    pub fn poll_transmit(&mut self, now: Time, sink: &mut dyn PacketSink) -> Option<Transmit> {
        if let Some(reply) = self.replies.pop() {
            let wire_len = reply.write(sink);
            let Reply { local, remote, .. } = reply;
            return Some(Transmit {
                association: None,
                path: None,
                local,
                remote,
                ecn: Ecn::NotEct,
                wire_len,
            });
        }
        while let Some(&index) = self.ready.front() {
            let mut is_done = false;
            if let Some(association) = self.table.at_mut(index) {
                if let Some((path, ecn, wire_len)) = association.poll_transmit(context!(self, now), sink) {
                    let (local, remote) = association.path_addrs(path);
                    return Some(Transmit {
                        association: Some(association.id()),
                        path: Some(PathId(path as u8)),
                        local,
                        remote,
                        ecn,
                        wire_len,
                    });
                }
                // Only now, with nothing left to send, do its timers stand still.
                let due = association.next_timeout();
                is_done = association.is_done();
                self.deadlines.no_later_than(index, due);
            }
            self.ready.pop_front();
            self.is_ready[index as usize] = false;
            if is_done {
                self.forget_if_done(index);
            }
        }
        None
    }

    /// Whether an association may have something to send or to tell that [`Endpoint::poll_transmit`] has not looked at since.
    /// It tells a driver that sleeps whether a user's call is a reason to wake.
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether [`Endpoint::poll_event`] has something to tell.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next event. Poll after [`Endpoint::poll_transmit`] has returned `None`.
    #[inline]
    pub fn poll_event(&mut self) -> Option<(AssocId, Event)> {
        let (id, event) = self.events.pop_front()?;
        if matches!(event, Event::Closed(_)) {
            if let Some(association) = self.table.index(id).and_then(|index| self.table.at_mut(index)) {
                association.note_closed_polled();
            }
            self.forget_if_done(id.index);
        }
        Some((id, event))
    }

    /// Takes a message for sending.
    ///
    /// # Errors
    /// If it was not taken; a message that found the buffer full comes back in the error.
    pub fn send(&mut self, now: Time, id: AssocId, message: Message) -> Result<(), SendError> {
        let association = self
            .table
            .index(id)
            .and_then(|index| self.table.at_mut(index))
            .ok_or(SendError::Closed)?;
        association.send(context!(self, now), message)?;
        self.mark_ready(id.index);
        Ok(())
    }

    /// Hands over the next message, or the next part of one too large for the receive buffer: `part` is called for each piece
    /// of it in order. None if there is nothing to hand over.
    pub fn recv(&mut self, now: Time, id: AssocId, part: &mut dyn FnMut(Payload<'_>)) -> Option<Received> {
        let index = self.table.index(id)?;
        let association = self.table.at_mut(index)?;
        let received = association.recv(part);
        let update_is_due = association.window_update_due(now);
        self.table.note_receive_memory(index);
        if update_is_due {
            self.mark_ready(index);
        }
        if received.is_none() {
            self.forget_if_done(index);
        }
        received
    }

    /// Ends the association in good order: what was taken is delivered first. Does nothing if it is ending already.
    pub fn shutdown(&mut self, now: Time, id: AssocId) {
        self.with(id, now, |association, ctx| association.shutdown(ctx));
    }

    /// Ends the association at once; the peer is told `reason`.
    pub fn abort(&mut self, now: Time, id: AssocId, reason: &str) {
        self.with(id, now, |association, ctx| association.abort(ctx, reason));
    }

    /// Makes a path the primary one. False if there is no such association or path.
    pub fn set_primary(&mut self, now: Time, id: AssocId, path: PathId) -> bool {
        self.with(id, now, |association, ctx| association.set_primary(ctx, path))
            .unwrap_or(false)
    }

    /// Tells which node comes before the last on the way to a path's address, `None` if nobody knows: for a driver that hears of routes,
    /// whenever one changes. Policies of paths that look for ways apart use it (Pongaliur 2005, Figure 4.7); numbers mean nothing but
    /// the same node or another one. False if there is no such association or path.
    pub fn set_last_hop(&mut self, id: AssocId, path: PathId, node: Option<u32>) -> bool {
        let association = self.table.index(id).and_then(|index| self.table.at_mut(index));
        association.is_some_and(|association| association.set_last_hop(path, node))
    }

    /// Sends a heartbeat on a path now. False if there is no such association or path.
    pub fn request_heartbeat(&mut self, now: Time, id: AssocId, path: PathId) -> bool {
        self.with(id, now, |association, ctx| association.request_heartbeat(ctx, path))
            .unwrap_or(false)
    }

    /// An address of ours has come to be there: the peer is asked to take it into the association, and paths from it are used as soon
    /// as the peer has and they are verified (RFC 5061). [`Event::LocalAddressAdded`] or [`Event::AddressRefused`] follows.
    ///
    /// # Errors
    /// If it cannot even be asked for.
    pub fn add_local_address(&mut self, now: Time, id: AssocId, addr: TransportAddr) -> Result<(), AddressError> {
        self.with(id, now, |association, ctx| association.add_local_address(ctx, addr))
            .unwrap_or(Err(AddressError::NotEstablished))
    }

    /// An address of ours is gone, or is to be used no more: nothing is sent from it from now on, and the peer is asked not to send to
    /// it. Packets may still arrive there until [`Event::LocalAddressRemoved`].
    ///
    /// # Errors
    /// If it cannot be asked for: an association keeps one address at least.
    pub fn remove_local_address(&mut self, now: Time, id: AssocId, addr: TransportAddr) -> Result<(), AddressError> {
        self.with(id, now, |association, ctx| association.remove_local_address(ctx, addr))
            .unwrap_or(Err(AddressError::NotEstablished))
    }

    /// Asks the peer to send to this address of ours first (RFC 5061 §4.2.4).
    ///
    /// # Errors
    /// If it cannot be asked for.
    pub fn set_peer_primary(&mut self, now: Time, id: AssocId, addr: TransportAddr) -> Result<(), AddressError> {
        self.with(id, now, |association, ctx| association.set_peer_primary(ctx, addr))
            .unwrap_or(Err(AddressError::NotEstablished))
    }

    /// Replaces the addresses that associations begun from now on have and announce; those that exist keep theirs.
    ///
    /// # Errors
    /// If an endpoint cannot have these addresses.
    pub fn set_local_addrs(&mut self, addrs: &[TransportAddr]) -> Result<(), ConfigError> {
        let config = EndpointConfig {
            local_addrs: addrs.to_vec(),
            ..self.config.clone()
        };
        config.validate()?;
        self.local_addrs = addrs.into();
        self.config = config;
        Ok(())
    }

    /// Lends the congestion control of a path to `f`, which may give it parts from outside this workspace; none if there is no such
    /// association or path.
    pub fn with_control<R>(&mut self, id: AssocId, path: PathId, f: impl FnOnce(&mut Controller) -> R) -> Option<R> {
        let index = self.table.index(id)?;
        self.table.at_mut(index)?.with_control(path, f)
    }

    /// The network says that nothing listens at the peer's address (an ICMP error that the driver has checked): an association
    /// that is being opened there ends as refused (RFC 9260 §10). Does nothing for others.
    pub fn peer_refused(&mut self, now: Time, id: AssocId) {
        self.with(id, now, |association, ctx| association.refused(ctx));
    }

    fn with<R>(
        &mut self,
        id: AssocId,
        now: Time,
        f: impl FnOnce(&mut Association, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let index = self.table.index(id)?;
        let association = self.table.at_mut(index)?;
        let result = f(association, context!(self, now));
        self.after_change(index);
        Some(result)
    }

    /// An association, as long as it has not been closed and read to the end.
    pub fn association(&self, id: AssocId) -> Option<&Association> {
        self.table.at(self.table.index(id)?)
    }

    /// All associations.
    pub fn associations(&self) -> impl Iterator<Item = AssocId> + '_ {
        self.table.ids()
    }

    /// Counters.
    pub fn stats(&self) -> EndpointStats {
        EndpointStats {
            replies_dropped: self.replies.dropped(),
            ..self.stats
        }
    }

    /// Bytes by which the buffers of all associations exceed their configured sizes.
    pub fn buffer_memory_in_use(&self) -> u64 {
        self.pool.granted()
    }

    /// Chooses which records are kept for [`Endpoint::drain_trace`]. Whoever asks for any has to drain them.
    pub fn set_trace(&mut self, kinds: TraceKinds) {
        self.trace.set_kinds(kinds);
    }

    /// Whether there are records to drain.
    #[inline]
    pub fn has_trace(&self) -> bool {
        !self.trace.is_empty()
    }

    /// Hands over the records made since the last call, oldest first.
    pub fn drain_trace(&mut self, f: &mut dyn FnMut(&TraceRecord)) {
        self.trace.drain(f);
    }

    /// Follows up on a change of an association: events and its end now, timers when everything has been sent.
    fn after_change(&mut self, index: u32) {
        let Some(association) = self.table.at_mut(index) else {
            return;
        };
        while let Some(event) = association.poll_event() {
            self.events.push_back((association.id(), event));
        }
        self.table.note_receive_memory(index);
        let Some(association) = self.table.at_mut(index) else {
            return;
        };
        if association.state() == State::Closed {
            self.table.hide(index);
            if let Some(holder) = self.table.retire(index) {
                self.accepted.remove(holder);
            }
        } else if association.take_renamed() {
            self.table.rename(index);
        }
        self.mark_ready(index);
    }

    fn mark_ready(&mut self, index: u32) {
        if index as usize >= self.is_ready.len() {
            self.is_ready.resize(index as usize + 1, false);
        }
        if !core::mem::replace(&mut self.is_ready[index as usize], true) {
            self.ready.push_back(index);
        }
    }

    fn forget_if_done(&mut self, index: u32) {
        if let Some(association) = self.table.at(index).filter(|association| association.is_done()) {
            self.pool.give_back(association.buffer_grant());
            self.table.remove(index);
            self.deadlines.remove(index);
        }
    }
}

/// A key for hashes that is not the key of the cookies. It takes nothing from the random numbers, which other things depend on.
fn stranger_key(secret: &[u8; 32]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    secret.hash(&mut hasher);
    hasher.finish()
}
