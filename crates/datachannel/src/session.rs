//! One association with a peer, on which data channels are built.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use rand_core::Rng;
use whimbrel_control::{Span, Time};
use whimbrel_proto::{
    AssocId, Association, AssociationConfig, CloseReason, ConfigError, ConnectError, Endpoint, EndpointConfig, Event,
    Message, PacketMeta, Reliability, SendError, State, StreamChange, StreamList,
};
use whimbrel_wire::{ByteSink, ChecksumField, Payload};

use crate::streams::{Incoming, OwnReset, StreamNews, Streams};

/// Streams of one request for a reset. It fits into each packet.
const STREAMS_PER_RESET: usize = 128;

/// What has happened to a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionEvent {
    /// The association is established.
    Connected,
    /// Something has happened to a stream.
    Stream(StreamNews),
    /// A message that was refused with [`SendError::Full`] may be accepted now.
    SendSpace,
    /// The bytes that a stream has in the send buffer have fallen to its threshold.
    BufferedLow(u16),
    /// The association has ended. It is the last event, unless an association is opened again.
    Closed(CloseReason),
}

/// A message to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// The stream.
    pub stream: u16,
    /// The payload protocol identifier.
    pub ppid: u32,
    /// Whether it is delivered without regard to the order of the stream.
    pub unordered: bool,
    /// When it is given up.
    pub reliability: Reliability,
    /// Its content, at least one byte.
    pub content: Bytes,
}

/// An association of a peer, over DTLS or another datagram protocol that authenticates it. It does no I/O: a driver passes datagrams and times in,
/// and takes datagrams, events and deadlines out, as with [`Endpoint`].
#[derive(Debug)]
pub struct Session {
    endpoint: Endpoint,
    config: AssociationConfig,
    peer_port: u16,
    id: Option<AssocId>,
    streams: Streams,
    events: VecDeque<SessionEvent>,
    /// The endpoint has messages for which there was no room.
    has_unread: bool,
    /// A request to reset streams is outstanding.
    is_resetting: bool,
    is_closed: bool,
    /// The longest message in bytes that is accepted.
    max_received: usize,
    /// Bytes that incomplete messages may have together.
    max_incomplete: usize,
    /// When memory is released, if nothing happens until then.
    release_at: Option<Time>,
}

/// The addresses of both ends, which are names only: the layer below carries the packets.
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 0);
const REMOTE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 0);

/// How late timers may be, for schemes that pace: many drivers sleep in a read with a timeout, and Linux wakes them a clock tick of 4 ms later, or
/// two.
const TIMER_GRANULARITY: Span = Span::from_millis(5);

/// Bytes that incomplete messages may have together by default: 64 messages of 256 KiB.
pub(crate) const DEFAULT_MAX_INCOMPLETE: usize = 16 << 20;

/// Quiet time after which memory is released.
const QUIET: Span = Span::from_secs(10);

impl Session {
    /// Returns a session that waits for the peer to open the association, or for [`Session::connect`]; both ends may open it. `random` has to be
    /// cryptographically secure on real networks.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid.
    pub fn new(
        config: AssociationConfig,
        local_port: u16,
        peer_port: u16,
        random: Box<dyn Rng + Send + Sync>,
    ) -> Result<Self, ConfigError> {
        let endpoint = EndpointConfig {
            local_port,
            local_addrs: vec![LOCAL],
            listen: true,
            association: config.clone().into(),
            max_associations: 2,
            answer_out_of_the_blue: false,
            timer_granularity: TIMER_GRANULARITY,
            ..EndpointConfig::default()
        };
        Ok(Session {
            max_received: config.max_message.unwrap_or(config.recv_buffer) as usize,
            max_incomplete: DEFAULT_MAX_INCOMPLETE,
            endpoint: Endpoint::new(endpoint, random)?,
            config,
            peer_port,
            id: None,
            streams: Streams::default(),
            events: VecDeque::new(),
            has_unread: false,
            is_resetting: false,
            is_closed: false,
            release_at: None,
        })
    }

    /// Sets the longest message in bytes that is accepted. By default it is `max_message` of the settings. A longer one ends the association.
    pub fn set_max_received(&mut self, bytes: usize) {
        self.max_received = bytes;
    }

    /// Sets the number of bytes that all incomplete messages may have together: a peer that interleaves messages (RFC 8260) sends parts of many at
    /// a time. If they have more, the association ends. It is 16 MiB by default.
    pub fn set_max_incomplete(&mut self, bytes: usize) {
        self.max_incomplete = bytes;
    }

    /// Opens the association.
    ///
    /// # Errors
    /// Returns an error if it exists already.
    pub fn connect(&mut self, now: Time) -> Result<(), ConnectError> {
        let id = self
            .endpoint
            .connect(now, self.config.clone(), self.peer_port, &[REMOTE])?;
        self.id = Some(id);
        Ok(())
    }

    /// Starts the association from the INIT chunks of both ends ([`init_chunk`](whimbrel_proto::init_chunk)), without a handshake.
    ///
    /// # Errors
    /// Returns an error if the chunks do not start one.
    pub fn start(&mut self, now: Time, own_init: &[u8], peer_init: &[u8]) -> Result<(), ConnectError> {
        let config = self.config.clone();
        let id = self
            .endpoint
            .connect_with_inits(now, config, self.peer_port, REMOTE, own_init, peer_init)?;
        self.id = Some(id);
        self.collect(now);
        Ok(())
    }

    /// Takes in a packet of the peer, as the layer below has decrypted it. One with another SCTP port is discarded: it would be of a second
    /// association.
    pub fn handle(&mut self, now: Time, packet: &[u8]) {
        if !packet.starts_with(&self.peer_port.to_be_bytes()) {
            return;
        }
        let meta = PacketMeta {
            local: LOCAL,
            remote: REMOTE,
            ecn: Default::default(),
            congestion_indicated: false,
        };
        // What is discarded is counted by the endpoint.
        let _ = self.endpoint.handle_datagram(now, meta, packet);
        self.after_input(now);
    }

    /// Handles the timers that have expired.
    pub fn handle_timeout(&mut self, now: Time) {
        self.endpoint.handle_timeout(now);
        if self.release_at.is_some_and(|at| at <= now) {
            self.release_at = None;
            if let Some(id) = self.id {
                self.endpoint.release_memory_of(id);
            }
        }
        self.collect(now);
    }

    /// Returns the time of the next call of [`Session::handle_timeout`], unless another input comes first. Call this after
    /// [`Session::poll_transmit`] has returned `None`.
    pub fn next_timeout(&self) -> Option<Time> {
        let next = self.endpoint.next_timeout();
        match (next, self.release_at) {
            (Some(next), Some(release)) => Some(next.min(release)),
            (next, release) => next.or(release),
        }
    }

    /// Returns the next packet to the peer, or `None` if there is nothing to send now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let sent = self
            .endpoint
            .poll_transmit(now, &mut ByteSink::new(&mut bytes, ChecksumField::Compute));
        self.collect(now);
        sent.map(|_| bytes)
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        let event = self.events.pop_front();
        event.or_else(|| self.streams.news.pop_front().map(SessionEvent::Stream))
    }

    /// Returns whether [`Session::poll_event`] has an event.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty() || !self.streams.news.is_empty()
    }

    /// Returns the association, once the peer or this end has opened it and until it has ended.
    pub fn association(&self) -> Option<&Association> {
        self.endpoint.association(self.id?)
    }

    /// Returns whether messages can be sent and streams be reset.
    pub fn is_established(&self) -> bool {
        self.association()
            .is_some_and(|association| association.state() == State::Established)
    }

    /// Returns whether the association has ended.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Queues a message.
    ///
    /// # Errors
    /// Returns an error if the association does not take it.
    pub fn send(&mut self, now: Time, outgoing: Outgoing) -> Result<(), SendError> {
        let id = self.id.ok_or(SendError::Closed)?;
        let message = Message {
            ppid: outgoing.ppid,
            unordered: outgoing.unordered,
            reliability: outgoing.reliability,
            ..Message::new(outgoing.stream, outgoing.content)
        };
        self.endpoint.send(now, id, message)?;
        self.release_at = Some(now + QUIET);
        self.collect(now);
        Ok(())
    }

    /// Takes the next message of a stream.
    pub fn read(&mut self, now: Time, stream: u16) -> Option<Incoming> {
        let message = self.streams.take(stream)?;
        if self.has_unread {
            self.fill(now);
        }
        self.collect(now);
        Some(message)
    }

    /// Returns the payload protocol identifier of the next message of a stream, if there is one to read.
    pub fn next_ppid(&self, stream: u16) -> Option<u32> {
        self.streams.next_ppid(stream)
    }

    /// Opens a stream, which is then in use until both directions have been reset. Returns false if it is in use.
    pub fn open(&mut self, stream: u16) -> bool {
        let is_free = self.streams.get(stream).is_none();
        if is_free {
            self.streams.open_locally(stream);
        }
        is_free
    }

    /// Returns whether a stream is in use and the peer has not reset it, as far as has been read.
    pub fn is_open(&self, stream: u16) -> bool {
        self.streams.get(stream).is_some_and(|pair| pair.is_open)
    }

    /// Returns whether messages can be read from a stream, now or later.
    pub fn is_readable(&self, stream: u16) -> bool {
        self.streams
            .get(stream)
            .is_some_and(|pair| pair.is_open && !pair.is_stopped)
    }

    /// Returns whether messages can be sent on a stream.
    pub fn is_writable(&self, stream: u16) -> bool {
        let pair = self.streams.get(stream);
        pair.is_some_and(|pair| pair.is_open && !pair.is_finished && pair.own_reset == OwnReset::No)
    }

    /// Returns whether the reset of the own direction of a stream is under way, or has been refused.
    pub fn is_resetting(&self, stream: u16) -> bool {
        self.streams
            .get(stream)
            .is_some_and(|pair| pair.own_reset != OwnReset::No)
    }

    /// Returns the streams in use.
    pub fn open_streams(&self) -> impl Iterator<Item = u16> + '_ {
        self.streams.open()
    }

    /// Returns a number for the present use of a stream: the next use has another one.
    pub(crate) fn use_of(&self, stream: u16) -> Option<u64> {
        self.streams.number(stream)
    }

    /// Takes back [`Session::open`] for a stream on which nothing has been sent or received.
    pub fn forget(&mut self, stream: u16) {
        self.streams.forget(stream);
    }

    /// Sets the weight with which a stream shares the capacity with others.
    pub fn set_weight(&mut self, stream: u16, weight: u16) {
        if let Some(id) = self.id {
            self.endpoint.set_stream_value(id, stream, weight);
        }
    }

    /// Sends nothing more on a stream.
    pub fn finish(&mut self, stream: u16) {
        if let Some(pair) = self.streams.get_mut(stream) {
            pair.is_finished = true;
        }
    }

    /// Reads nothing more from a stream, and resets its own direction. What was sent on it before arrives before. The peer resets the other direction
    /// in turn, and [`StreamNews::ResetDone`] follows.
    pub fn reset(&mut self, now: Time, stream: u16) {
        self.streams.want_reset(stream);
        self.streams.stop(stream);
        if self.has_unread {
            self.fill(now);
        }
        self.collect(now);
    }

    /// Returns the bytes of a stream that wait to be sent or acknowledged.
    pub fn buffered(&self, stream: u16) -> usize {
        self.association()
            .map_or(0, |association| association.buffered_on(stream))
    }

    /// Sets the number of bytes at which [`SessionEvent::BufferedLow`] reports a stream: 0 at first, and again once it is reset.
    pub fn set_buffered_low(&mut self, stream: u16, bytes: usize) {
        if let Some(id) = self.id.filter(|_| !self.is_resetting(stream)) {
            self.endpoint.set_buffered_low(id, stream, bytes);
        }
    }

    /// Ends the association once everything has been delivered.
    pub fn shutdown(&mut self, now: Time) {
        if let Some(id) = self.id {
            self.endpoint.shutdown(now, id);
            self.collect(now);
        }
    }

    /// Ends the association at once.
    pub fn abort(&mut self, now: Time, reason: &str) {
        self.abort_now(now, reason);
        self.collect(now);
    }

    /// Ends the association. Its event is not collected yet.
    fn abort_now(&mut self, now: Time, reason: &str) {
        if let Some(id) = self.id.filter(|_| !self.is_closed) {
            self.endpoint.abort(now, id, reason);
        }
    }

    fn after_input(&mut self, now: Time) {
        self.release_at = Some(now + QUIET);
        self.collect(now);
    }

    /// Takes the events of the endpoint, and does what follows from them.
    fn collect(&mut self, now: Time) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            if self.id.is_none_or(|known| known != id && self.is_closed) {
                self.id = Some(id);
                self.is_closed = false;
            }
            if self.id == Some(id) {
                self.on_event(now, event);
            }
        }
        self.advance(now);
        self.queue_news();
    }

    /// Puts the news of streams behind the events before them.
    fn queue_news(&mut self) {
        self.events
            .extend(self.streams.news.drain(..).map(SessionEvent::Stream));
    }

    fn on_event(&mut self, now: Time, event: Event) {
        self.queue_news();
        match event {
            Event::Connected { accepted, .. } => {
                if accepted {
                    self.endpoint.on_taken();
                }
                self.events.push_back(SessionEvent::Connected);
            }
            Event::DataReady => self.fill(now),
            Event::SendSpace => self.events.push_back(SessionEvent::SendSpace),
            Event::BufferedLow { stream } => {
                if self.buffered(stream) == 0 {
                    self.streams.on_sent(stream);
                }
                self.events.push_back(SessionEvent::BufferedLow(stream));
            }
            Event::StreamsChanged(StreamChange::ResetInbound(list)) => {
                self.fill(now);
                for stream in self.named(&list) {
                    self.streams.on_peer_reset(stream);
                }
            }
            Event::StreamsChanged(StreamChange::ResetOutbound(list)) => self.on_own_reset(&list, true),
            Event::StreamChangeRefused {
                change: StreamChange::ResetOutbound(list),
                ..
            } => {
                self.on_own_reset(&list, false);
            }
            Event::Restarted => {
                self.streams.clear(true);
                self.is_resetting = false;
            }
            Event::Closed(reason) => {
                self.queue_news();
                self.streams.clear(false);
                (self.is_closed, self.is_resetting, self.release_at) = (true, false, None);
                self.events.push_back(SessionEvent::Closed(reason));
            }
            _ => {}
        }
    }

    /// Returns the streams in use that are in a list.
    fn named(&self, list: &StreamList) -> Vec<u16> {
        match list.listed() {
            Some(listed) => listed.to_vec(),
            None => self.streams.open().collect(),
        }
    }

    fn on_own_reset(&mut self, list: &StreamList, is_done: bool) {
        self.is_resetting = false;
        for stream in self.named(list) {
            self.streams.on_own_reset(stream, is_done);
        }
    }

    /// Reads the messages that have arrived, as many as the receive buffer holds.
    fn fill(&mut self, now: Time) {
        let Some(id) = self.id else { return };
        let limit = (self.config.recv_buffer as usize).saturating_add(self.max_received);
        loop {
            let (held, incomplete) = (self.streams.held(), self.streams.incomplete());
            if held >= limit && incomplete > self.max_incomplete {
                self.abort_now(now, "incomplete messages take more memory than allowed");
            }
            // Only messages that the user can read close the window: the others need the rest of them.
            self.has_unread = held >= limit && held > incomplete;
            if self.has_unread || held >= limit && incomplete > self.max_incomplete {
                return;
            }
            let mut content = Vec::new();
            let mut part = |payload: Payload<'_>| payload.append_to(&mut content);
            let Some(read) = self.endpoint.recv(now, id, &mut part) else {
                return;
            };
            if !read.before_restart {
                if read.given_up && self.streams.get(read.stream).is_none() {
                    continue;
                }
                // Where a message begins, `on_part` drops what is held of an earlier one: the same is due when that one is given up.
                let ends = (read.begin || read.given_up, read.end);
                if self.streams.len_with(&read) > self.max_received {
                    self.abort_now(now, "a message is longer than this end accepts");
                    return;
                }
                self.streams
                    .on_part(read.stream, read.ppid, read.unordered, ends, &content);
            }
        }
    }

    /// Requests the resets that wait. One request is outstanding at a time, with all streams that were closed meanwhile.
    fn advance(&mut self, now: Time) {
        let Some(id) = self.id.filter(|_| self.is_established()) else {
            return;
        };
        while let Some(stream) = self.streams.take_wanted() {
            self.prepare_reset(id, stream);
        }
        if self.is_resetting {
            return;
        }
        let streams = self.streams.take_due(STREAMS_PER_RESET);
        if streams.is_empty() {
            return;
        }
        self.is_resetting = true;
        let change = StreamChange::ResetOutbound(StreamList::of(streams.iter().copied()));
        if self.endpoint.change_streams(now, id, change).is_err() {
            // The peer does not support it.
            self.is_resetting = false;
            for stream in streams {
                self.streams.on_own_reset(stream, false);
            }
        }
    }

    /// RFC 6525 §5.1.2: the reset of a stream follows what was sent on it. It does not hold up those of other streams.
    fn prepare_reset(&mut self, id: AssocId, stream: u16) {
        let association = self.endpoint.association(id);
        let outbound = association.map_or(0, Association::outbound_streams);
        if stream >= outbound {
            // This end cannot send on it.
            return self.streams.on_own_reset(stream, true);
        }
        let is_due = self.buffered(stream) == 0;
        // An event reports when it is, and the next use begins without a threshold.
        self.endpoint.set_buffered_low(id, stream, 0);
        self.streams.set_wanted(stream, is_due);
    }
}
