//! An endpoint: one SCTP port with its addresses and all its associations.

mod admission;
mod budget;
mod connect;
mod consumed;
mod cookie;
mod deadlines;
mod dispatch;
mod farewells;
mod limits;
mod listen;
mod peer_init;
mod reply;
mod small_map;
mod table;
mod two_inits;

use std::collections::VecDeque;
use std::sync::Arc;

use rand_core::Rng;
use whimbrel_control::discriminator::DiscriminatorSpec;
use whimbrel_control::window::WindowSpec;
use whimbrel_control::{Controller, Time};
use whimbrel_wire::{Checksum, Chunk, PacketError, PacketSink, PacketView, Payload, stored_checksum};

use budget::Budget;
use consumed::ConsumedCookies;
pub(crate) use cookie::Cookie;
use cookie::{CookieKey, fingerprint};
use deadlines::Deadlines;
pub(crate) use farewells::Farewell;
use farewells::Farewells;
use limits::{Accepted, UnassociatedLimit};
pub(crate) use peer_init::{MIN_RWND, PeerInit, Refusal, missing_cookie};
pub(crate) use reply::{Guard, Replies, Reply, ReplyChunk};
use table::Table;
pub use two_inits::init_chunk;

use crate::address::{Ecn, PacketMeta, Transmit, TransportAddr};
use crate::association::{Association, BufferPool, State};
use crate::config::{EndpointConfig, Resolved};
use crate::context::{Context, Scratch};
use crate::error::{AddressError, ConfigError, Discard, SendError};
use crate::event::Event;
use crate::message::{Message, Received};
use crate::streams::{StreamChange, StreamChangeError};
use crate::trace::{Trace, TraceEvent, TraceKinds, TraceRecord};
use crate::{AssocId, PathId};

/// Counters of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndpointStats {
    /// Packets received.
    pub packets_received: u64,
    /// Packets that were discarded completely or in part, by reason, in the order of [`Discard::ALL`].
    pub discarded: [u64; Discard::ALL.len()],
    /// Replies dropped because the queue was full.
    pub replies_dropped: u64,
    /// Associations that peers opened.
    pub accepted: u64,
    /// Encrypted ones of them that ended before a packet of the peer could be opened: it has other keys, or forges its address.
    pub unproven: u64,
}

/// A sans-IO SCTP endpoint. The documentation of the crate explains how to drive it.
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
/// // The network: every packet arrives at once, and nothing is lost.
/// fn carry(now: Time, from: &mut Endpoint, to: &mut Endpoint) -> bool {
///     let mut datagram = Vec::new();
///     let Some(sent) = from.poll_transmit(now, &mut ByteSink::new(&mut datagram, ChecksumField::Compute)) else {
///         return false;
///     };
///     let meta = PacketMeta { local: sent.remote, remote: sent.local, ecn: sent.ecn, congestion_indicated: false };
///     to.handle_datagram(now, meta, &datagram).expect("a packet of this crate is well-formed");
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
    accepted_config: Arc<Resolved>,
    local_addrs: Arc<[TransportAddr]>,
    random: Box<dyn Rng + Send>,
    key: CookieKey,
    key_replaced: Time,
    consumed: ConsumedCookies,
    farewells: Farewells,
    table: Table,
    accepted: Accepted,
    /// Associations that peers have opened and that the user has not taken.
    backlog: usize,
    budget: Budget,
    unassociated: UnassociatedLimit,
    replies: Replies,
    /// Associations that may have packets to send, each once.
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

/// Builds the context that an association borrows from its endpoint.
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
    /// Creates an endpoint. `random` generates verification tags, initial TSNs, nonces and the key of the state
    /// cookies. On real networks it must be cryptographically secure.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid.
    // [9260:5.1.3-4, 14.1-1]
    pub fn new(config: EndpointConfig, mut random: Box<dyn Rng + Send>) -> Result<Self, ConfigError> {
        config.validate()?;
        // [9260:5.1.3-4, 14.1-1]
        let mut secret = [0; 32];
        random.fill_bytes(&mut secret);
        Ok(Endpoint {
            accepted_config: config.association.resolved().clone(),
            local_addrs: config.local_addrs.clone().into(),
            random,
            key: CookieKey::new(secret),
            key_replaced: Time::ZERO,
            consumed: ConsumedCookies::default(),
            farewells: Farewells::default(),
            table: Table::default(),
            accepted: Accepted::default(),
            backlog: 0,
            budget: Budget::new(config.max_unassociated),
            unassociated: UnassociatedLimit::new(config.max_unassociated_per_address, unassociated_key(&secret)),
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

    /// Returns a verification tag that is not in use.
    // [9260:5.3.1-3]
    fn new_tag(&mut self) -> u32 {
        loop {
            let tag = crate::association::random_tag(&mut *self.random);
            if !self.has_used(tag) {
                return tag;
            }
        }
    }

    /// Returns whether an association of this endpoint has this verification tag, or has had it lately.
    fn has_used(&self, tag: u32) -> bool {
        self.table.has_tag(tag) || self.consumed.has(tag) || self.farewells.has(tag)
    }

    /// Handles a received datagram: the bytes of an SCTP packet without IP and UDP headers.
    ///
    /// # Errors
    /// Returns the reason if the packet, or a part of it, was discarded. The error is informative; no action is
    /// required.
    // [9260:6.8-3, 6.8-4]
    pub fn handle_datagram(&mut self, now: Time, meta: PacketMeta, datagram: &[u8]) -> Result<(), Discard> {
        if !self.budget.admit(now, datagram, |tag| self.table.has_tag(tag)) {
            self.stats.packets_received += 1;
            self.note_discard(now, Discard::Flood);
            return Err(Discard::Flood);
        }
        let checksum = if stored_checksum(datagram) == Some(0) && self.accepts_zero_checksum(datagram) {
            Checksum::Ignore
        } else {
            Checksum::Verify
        };
        match PacketView::parse(datagram, checksum) {
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

    /// Handles a received packet that has been parsed, or that was never serialized.
    ///
    /// # Errors
    /// Returns the reason if the packet, or a part of it, was discarded.
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

    /// Limits the replies to one packet: none if it contains an ABORT (RFC 9260 §9.1), otherwise at most one packet of
    /// control chunks (§12.4). `waiting` is the number of replies queued before.
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

    /// Handles every timer that has expired.
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

    /// Returns the time of the next call of [`Endpoint::handle_timeout`], unless another input comes first. Call this
    /// after [`Endpoint::poll_transmit`] has returned `None`. The time may be earlier than the next timer: then the
    /// call only corrects the deadline.
    pub fn next_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    /// Writes the next packet into `sink`, exactly one. Returns `None` if there is nothing to send now.
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
                fragment: false,
                probes_mtu: false,
            });
        }
        while let Some(&index) = self.ready.front() {
            let mut is_done = false;
            if let Some(association) = self.table.at_mut(index) {
                if let Some(sent) = association.poll_transmit(context!(self, now), sink) {
                    let (local, remote) = association.sending().path_addrs(sent.path);
                    return Some(Transmit {
                        association: Some(association.id()),
                        path: Some(sent.path),
                        local,
                        remote,
                        ecn: sent.ecn,
                        wire_len: sent.wire_len,
                        fragment: !sent.probes_mtu && sent.wire_len > association.sending().max_packet(sent.path),
                        probes_mtu: sent.probes_mtu,
                    });
                }
                // Messages have been given up instead of being sent.
                while let Some(event) = association.poll_event() {
                    self.backlog += usize::from(matches!(event, Event::Connected { accepted: true, .. }));
                    self.events.push_back((association.id(), event));
                }
                // The association's timers are final only when nothing is left to send.
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

    /// Returns whether an association may have packets to send that [`Endpoint::poll_transmit`] has not processed yet. A sleeping driver
    /// uses it to decide whether a user's call must wake it.
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns whether [`Endpoint::poll_event`] has an event.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns the next event. Poll after [`Endpoint::poll_transmit`] has returned `None`.
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

    /// Queues a message for sending.
    ///
    /// # Errors
    /// Returns an error if the message was not queued. If the buffer is full, the error contains the message.
    pub fn send(&mut self, now: Time, id: AssocId, message: Message) -> Result<(), SendError> {
        let association = self
            .table
            .index(id)
            .and_then(|index| self.table.at_mut(index))
            .ok_or(SendError::Closed)?;
        let result = association.send(context!(self, now), message);
        if association.has_event() {
            // Other messages have been given up.
            self.after_change(id.index);
        } else if result.is_ok() {
            self.mark_ready(id.index);
        }
        result
    }

    /// Reads the next message, or the next part of one that is read in parts, because the receive buffer is nearly full, or with
    /// interleaving less than half of it is free. Calls `part` for
    /// each piece of it in order. Returns `None` if nothing can be read.
    pub fn recv(&mut self, now: Time, id: AssocId, part: &mut dyn FnMut(Payload<'_>)) -> Option<Received> {
        let index = self.table.index(id)?;
        let association = self.table.at_mut(index)?;
        let received = association.recv(part);
        let update_is_due = association.window_update_due(now) || association.reset_is_due();
        self.table.note_receive_memory(index);
        if update_is_due {
            self.mark_ready(index);
        }
        if received.is_none() {
            self.forget_if_done(index);
        }
        received
    }

    /// Shuts the association down gracefully (SHUTDOWN): queued messages are delivered first. Does nothing if it is
    /// already ending.
    pub fn shutdown(&mut self, now: Time, id: AssocId) {
        self.with(id, now, |association, ctx| association.shutdown(ctx));
    }

    /// Aborts the association. The ABORT carries `reason`.
    pub fn abort(&mut self, now: Time, id: AssocId, reason: &str) {
        self.with(id, now, |association, ctx| association.abort(ctx, reason));
    }

    /// Sets the primary path. Returns false if there is no such association or path.
    pub fn set_primary(&mut self, now: Time, id: AssocId, path: PathId) -> bool {
        self.with(id, now, |association, ctx| association.set_primary(ctx, path))
            .unwrap_or(false)
    }

    /// Sets the value that the stream scheduler uses for an outbound stream (RFC 8260 §4.3.3): its priority, 0 being the highest, or its
    /// weight. Other schedulers ignore it. It applies from the next chunk on. Returns false if there is no such association or stream; before
    /// the association is established, the configured number of streams counts.
    pub fn set_stream_value(&mut self, id: AssocId, stream: u16, value: u16) -> bool {
        let association = self.table.index(id).and_then(|index| self.table.at_mut(index));
        association.is_some_and(|association| {
            let exists = stream < association.outbound_streams();
            if exists {
                association.sending_mut().set_stream_value(stream, value);
            }
            exists
        })
    }

    /// Sets the number of bytes that an outbound stream has in the send buffer at which [`Event::BufferedLow`] reports it, once it has had more. It
    /// is 0 by default. Returns false if there is no such association, or if its bytes are not counted
    /// ([`AssociationConfig::stream_buffers`](crate::AssociationConfig::stream_buffers)).
    pub fn set_buffered_low(&mut self, id: AssocId, stream: u16, bytes: usize) -> bool {
        let association = self.table.index(id).and_then(|index| self.table.at_mut(index));
        association.is_some_and(|association| association.sending_mut().set_buffered_low(stream, bytes))
    }

    /// Requests a change of streams: resets them, so that the numbers of their messages start at 0 again, or adds some (RFC 6525). One request
    /// after the other is sent to the peer. [`Event::StreamsChanged`] or [`Event::StreamChangeRefused`] follows, unless the peer restarts: all
    /// numbers start at 0 then. When outbound streams are reset, messages sent before are delivered before, and later ones wait for the peer's
    /// response; the peer performs it once its user has read everything that was sent before.
    ///
    /// # Errors
    /// Returns an error if the change cannot be requested.
    pub fn change_streams(&mut self, now: Time, id: AssocId, change: StreamChange) -> Result<(), StreamChangeError> {
        self.with(id, now, |association, ctx| association.change_streams(ctx, change))
            .unwrap_or(Err(StreamChangeError::NotEstablished))
    }

    /// Sets the node before the last one on the route to a path's address, or `None` if it is unknown. A driver with
    /// routing information calls this when a route changes. Path policies that prefer disjoint routes use it (Pongaliur
    /// 2005, Figure 4.7). The numbers only identify nodes; `u32::MAX` counts as unknown. Returns false if there is no such association or path.
    pub fn set_last_hop(&mut self, id: AssocId, path: PathId, node: Option<u32>) -> bool {
        let association = self.table.index(id).and_then(|index| self.table.at_mut(index));
        association.is_some_and(|association| association.sending_mut().set_last_hop(path, node))
    }

    /// Sends a heartbeat on a path now. Returns false if there is no such association or path.
    pub fn request_heartbeat(&mut self, now: Time, id: AssocId, path: PathId) -> bool {
        self.with(id, now, |association, ctx| {
            association.sending_mut().request_heartbeat(ctx, path)
        })
        .unwrap_or(false)
    }

    /// Sends a heartbeat on a path, to measure it: any peer answers. Its Heartbeat Info has `bytes` bytes, at least 18 and at most as many as
    /// fit into a packet. [`Event::PingAnswered`] reports the answer with the given number; neither changes anything else. At most
    /// [`MAX_PINGS`](crate::MAX_PINGS) wait for an answer; then the oldest is given up for a new one. Returns false if there is no such
    /// path, if it is not confirmed or the association not established, or if no packet has been taken for the last 256 pings.
    pub fn ping(&mut self, now: Time, id: AssocId, path: PathId, number: u32, bytes: usize) -> bool {
        self.with(id, now, |association, ctx| association.ping(ctx, path, number, bytes))
            .unwrap_or(false)
    }

    /// Adds a local address: asks the peer to add it to the association (RFC 5061). Paths from it are used once the
    /// peer has acknowledged it and they are verified. [`Event::LocalAddressAdded`] or [`Event::AddressRefused`]
    /// follows.
    ///
    /// # Errors
    /// Returns an error if the request cannot be sent.
    pub fn add_local_address(&mut self, now: Time, id: AssocId, addr: TransportAddr) -> Result<(), AddressError> {
        self.with(id, now, |association, ctx| association.add_local_address(ctx, addr))
            .unwrap_or(Err(AddressError::NotEstablished))
    }

    /// Removes a local address: no packet is sent from it any more, and the peer is asked not to send to it. Packets
    /// may still arrive there until [`Event::LocalAddressRemoved`].
    ///
    /// # Errors
    /// Returns an error if the request cannot be sent: an association keeps at least one address.
    pub fn remove_local_address(&mut self, now: Time, id: AssocId, addr: TransportAddr) -> Result<(), AddressError> {
        self.with(id, now, |association, ctx| association.remove_local_address(ctx, addr))
            .unwrap_or(Err(AddressError::NotEstablished))
    }

    /// Asks the peer to use this local address as its primary destination (RFC 5061 §4.2.4).
    ///
    /// # Errors
    /// Returns an error if the request cannot be sent.
    pub fn set_peer_primary(&mut self, now: Time, id: AssocId, addr: TransportAddr) -> Result<(), AddressError> {
        self.with(id, now, |association, ctx| association.set_peer_primary(ctx, addr))
            .unwrap_or(Err(AddressError::NotEstablished))
    }

    /// Returns the configuration.
    pub fn config(&self) -> &EndpointConfig {
        &self.config
    }

    /// Replaces the local addresses of future associations. Existing associations keep theirs.
    ///
    /// # Errors
    /// Returns an error if the list of addresses is not valid for an endpoint.
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

    /// Releases the memory that earlier transfers of an association needed. The heartbeats of an idle association do that too, if it has any.
    pub fn release_memory_of(&mut self, id: AssocId) {
        if let Some(index) = self.table.index(id)
            && let Some(association) = self.table.at_mut(index)
        {
            association.release_memory();
            self.table.note_receive_memory(index);
        }
    }

    /// Calls `f` with the congestion control of a path, for example to replace parts of it. Returns `None` if there is
    /// no such association or path.
    pub fn with_control<R>(&mut self, id: AssocId, path: PathId, f: impl FnOnce(&mut Controller) -> R) -> Option<R> {
        let index = self.table.index(id)?;
        self.table.at_mut(index)?.sending_mut().with_control(path, f)
    }

    /// Replaces the discriminator, the window control or both on all paths of an association, also on those that are added later. cwnd and
    /// ssthresh remain. Other parts of a scheme are negotiated with the peer or fixed at the start.
    ///
    /// # Errors
    /// Returns an error if a parameter is out of range or the part needs a simulation. Returns `Ok(false)` if there is no such association.
    pub fn set_congestion_control(
        &mut self,
        id: AssocId,
        discriminator: Option<DiscriminatorSpec>,
        window: Option<WindowSpec>,
    ) -> Result<bool, ConfigError> {
        match self.table.index(id).and_then(|index| self.table.at_mut(index)) {
            None => Ok(false),
            Some(association) => association.set_congestion_control(discriminator, window).map(|()| true),
        }
    }

    /// Reports that no endpoint listens at the peer's address (an ICMP error that the driver has validated). An
    /// association that is being opened there ends as refused (RFC 9260 §10). Has no effect on others.
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

    /// Returns an association, unless it has been closed and read to the end.
    pub fn association(&self, id: AssocId) -> Option<&Association> {
        self.table.at(self.table.index(id)?)
    }

    /// Takes in that packets to this address of a peer may have at most `mtu` bytes, with the headers of IP and UDP, as an ICMP message reports
    /// (RFC 9260 §7.3). A value below 576 bytes (IPv6: 1280) counts as this. Anyone can forge such messages: the caller has to compare the Verification
    /// Tag that they quote with [`Association::peer_tag`] (RFC 9260 §10).
    pub fn limit_mtu(&mut self, now: Time, id: AssocId, remote: TransportAddr, mtu: u16) {
        if let Some(index) = self.table.index(id)
            && let Some(association) = self.table.at_mut(index)
        {
            association.sending_mut().limit_mtu(now, remote, mtu);
            self.after_change(index);
        }
    }

    /// Takes in that the host has not sent a probe of the path MTU on this path ([`Transmit::probes_mtu`]): its interface carries packets of at
    /// most `mtu` bytes.
    pub fn on_probe_refused(&mut self, now: Time, id: AssocId, path: PathId, mtu: u16) {
        if let Some(index) = self.table.index(id)
            && let Some(association) = self.table.at_mut(index)
        {
            association.sending_mut().on_probe_refused(now, path, mtu);
            self.after_change(index);
        }
    }

    /// Returns whether an association that has not ended has this address of a peer.
    pub fn has_association_with(&self, remote: TransportAddr) -> bool {
        self.table.has_remote(remote)
    }

    /// Returns the Verification Tags of packets to the associations that have not ended.
    pub fn tags(&self) -> impl Iterator<Item = u32> + '_ {
        self.table.tags()
    }

    /// Returns all associations.
    pub fn associations(&self) -> impl Iterator<Item = AssocId> + '_ {
        self.table.ids()
    }

    /// Returns the counters.
    pub fn stats(&self) -> EndpointStats {
        EndpointStats {
            replies_dropped: self.replies.dropped(),
            ..self.stats
        }
    }

    /// Returns the number of bytes by which the buffers of all associations exceed their configured sizes.
    pub fn buffer_memory_in_use(&self) -> u64 {
        self.pool.granted()
    }

    /// Selects which records are kept for [`Endpoint::drain_trace`]. The caller must drain them.
    pub fn set_trace(&mut self, kinds: TraceKinds) {
        self.trace.set_kinds(kinds);
    }

    /// Limits the number of records that wait for [`Endpoint::drain_trace`]; 0: no limit, the default. Further records are
    /// discarded and counted.
    pub fn limit_trace(&mut self, records: usize) {
        self.trace.set_limit(records);
    }

    /// Returns the number of trace records that the limit has discarded.
    pub fn trace_lost(&self) -> u64 {
        self.trace.lost()
    }

    /// Returns whether there are trace records to drain.
    #[inline]
    pub fn has_trace(&self) -> bool {
        !self.trace.is_empty()
    }

    /// Passes the records since the last call to `f`, oldest first.
    pub fn drain_trace(&mut self, f: &mut dyn FnMut(&TraceRecord)) {
        self.trace.drain(f);
    }

    /// Processes a change of an association: events and its end at once, timers when everything has been sent. Marks
    /// it for `poll_transmit`.
    fn after_change(&mut self, index: u32) {
        let Some(association) = self.table.at_mut(index) else {
            return;
        };
        while let Some(event) = association.poll_event() {
            self.backlog += usize::from(matches!(event, Event::Connected { accepted: true, .. }));
            self.events.push_back((association.id(), event));
        }
        self.table.note_receive_memory(index);
        let Some(association) = self.table.at_mut(index) else {
            return;
        };
        if association.state() == State::Closed {
            if let Some(farewell) = association.take_farewell() {
                self.farewells.push(farewell);
            }
            let lacks_proof = association.lacks_proof();
            self.table.hide(index);
            if let Some(holder) = self.table.retire(index) {
                self.accepted.remove(holder);
                self.stats.unproven += u64::from(lacks_proof);
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

    // [9260:14.2-1]
    fn forget_if_done(&mut self, index: u32) {
        if let Some(association) = self.table.at(index).filter(|association| association.is_done()) {
            self.pool.give_back(association.buffer_grant());
            self.table.remove(index);
            self.deadlines.remove(index);
        }
    }
}

/// Returns a key for hashes, derived from the secret and different from the cookie key. It draws no random numbers,
/// because other values depend on their order.
fn unassociated_key(secret: &[u8; 32]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    secret.hash(&mut hasher);
    hasher.finish()
}
