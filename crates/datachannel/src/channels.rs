//! Data channels (RFC 8831) that are opened by DCEP (RFC 8832) or by agreement.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use rand_core::Rng;
use whimbrel_control::Time;
use whimbrel_proto::{Association, ConfigError, ConnectError, Reliability, SendError};

use crate::channel::{
    ChannelConfig, ChannelEnd, ChannelEvent, ChannelId, ChannelMessage, ChannelSendError, DtlsRole, Flaw, OpenError,
};
use crate::config::ChannelsConfig;
use crate::dcep::Dcep;
use crate::register::{Channel, Register, Stage};
use crate::session::{Outgoing, Session, SessionEvent};
use crate::streams::{Incoming, StreamNews};

/// Payload protocol identifiers (RFC 8831 §8, RFC 8832 §8.1).
const DCEP: u32 = 50;
const TEXT: u32 = 51;
const BINARY: u32 = 53;
const TEXT_EMPTY: u32 = 56;
const BINARY_EMPTY: u32 = 57;

/// The stream that does not exist: an association has at most 65535.
const NO_STREAM: u16 = u16::MAX;

/// The longest label or protocol in bytes.
const MAX_NAME: usize = u16::MAX as usize;

/// The data channels of an association, over DTLS or another datagram protocol that authenticates the peer. It does no I/O: a driver calls
/// [`handle`](Self::handle) with each packet and [`handle_timeout`](Self::handle_timeout) at the time of [`next_timeout`](Self::next_timeout),
/// and after each call takes [packets](Self::poll_transmit) and [events](Self::poll_event).
#[derive(Debug)]
pub struct DataChannels {
    session: Session,
    role: Option<DtlsRole>,
    connected: bool,
    register: Register,
    /// Channels without a stream, in the order in which they were opened, with some that have ended since.
    waiting: VecDeque<ChannelId>,
    /// Channels of the peer whose ACK has not been sent, because the send buffer is full.
    owed_acks: BTreeSet<ChannelId>,
    /// Channels of which a message was refused because the send buffer was full.
    refused: BTreeSet<ChannelId>,
    /// Where the search for a free stream begins.
    next_stream: u16,
    events: VecDeque<ChannelEvent>,
    /// The longest message in bytes that the peer accepts, 0 for any length.
    peer_max_message: u32,
}

impl DataChannels {
    /// Returns channels whose association waits for the peer to open it, or for [`connect`](Self::connect). `random` has to be
    /// cryptographically secure on real networks.
    ///
    /// # Errors
    /// Returns an error if the settings of the association are invalid.
    pub fn new(config: ChannelsConfig, random: Box<dyn Rng + Send + Sync>) -> Result<Self, ConfigError> {
        let mut session = Session::new(config.association.clone(), config.local_port, config.peer_port, random)?;
        session.set_max_received(config.max_message as usize);
        session.set_max_incomplete(config.max_incomplete);
        Ok(DataChannels {
            session,
            role: None,
            connected: false,
            register: Register::new(config.max_peer_channels, config.max_peer_names),
            waiting: VecDeque::new(),
            owed_acks: BTreeSet::new(),
            refused: BTreeSet::new(),
            next_stream: 0,
            events: VecDeque::new(),
            peer_max_message: config.peer_max_message,
        })
    }

    /// Sets the DTLS role of this end, once. Channels that were opened before get their streams, and those of the peer are accepted.
    pub fn set_role(&mut self, now: Time, role: DtlsRole) {
        if self.role.is_some() {
            return;
        }
        self.role = Some(role);
        self.next_stream = role.first_stream();
        let streams = self.session.open_streams();
        let unknown: Vec<u16> = streams
            .filter(|stream| self.register.of_stream(*stream).is_none())
            .collect();
        for stream in unknown {
            self.on_readable(now, stream, true);
        }
        self.pump(now);
    }

    /// Sets the longest message in bytes that the peer accepts, 0 for any length.
    pub fn set_peer_max_message(&mut self, bytes: u32) {
        self.peer_max_message = bytes;
    }

    /// Opens the association. Both ends may.
    ///
    /// # Errors
    /// Returns an error if it exists already.
    pub fn connect(&mut self, now: Time) -> Result<(), ConnectError> {
        self.session.connect(now)
    }

    /// Starts the association from the INIT chunks of both ends, as [`Session::start`] does.
    ///
    /// # Errors
    /// Returns an error if the chunks do not start one.
    pub fn start(&mut self, now: Time, own_init: &[u8], peer_init: &[u8]) -> Result<(), ConnectError> {
        self.session.start(now, own_init, peer_init)?;
        self.pump(now);
        Ok(())
    }

    /// Takes in a packet of the peer, as the layer below has decrypted it.
    pub fn handle(&mut self, now: Time, packet: &[u8]) {
        self.session.handle(now, packet);
        self.pump(now);
    }

    /// Handles the timers that have expired.
    pub fn handle_timeout(&mut self, now: Time) {
        self.session.handle_timeout(now);
        self.pump(now);
    }

    /// Returns the time of the next call of [`handle_timeout`](Self::handle_timeout). Call this after [`poll_transmit`](Self::poll_transmit) has
    /// returned `None`.
    pub fn next_timeout(&self) -> Option<Time> {
        self.session.next_timeout()
    }

    /// Returns the next packet to the peer, or `None` if there is nothing to send now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        let packet = self.session.poll_transmit(now);
        self.pump(now);
        packet
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<ChannelEvent> {
        self.events.pop_front()
    }

    /// Returns the association and its streams.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns what both ends know of a channel, unless it has ended.
    pub fn channel(&self, channel: ChannelId) -> Option<&ChannelConfig> {
        self.register.get(channel).map(|known| &known.config)
    }

    /// Returns the stream of a channel, unless it has none yet or has ended.
    pub fn stream(&self, channel: ChannelId) -> Option<u16> {
        self.register.get(channel)?.stream()
    }

    /// Returns all channels that have not ended.
    pub fn channels(&self) -> impl Iterator<Item = ChannelId> + '_ {
        self.register.ids()
    }

    /// Opens a channel. Its OPEN is sent as soon as the association is established and the [role](Self::set_role) is set; messages may follow at
    /// once. [`ChannelEvent::Opened`] reports the answer of the peer, [`ChannelEvent::Closed`] a refusal.
    ///
    /// # Errors
    /// Returns an error if DCEP cannot describe the channel, or if the association has ended.
    pub fn open(&mut self, now: Time, config: ChannelConfig) -> Result<ChannelId, OpenError> {
        self.check(&config)?;
        let channel = self.register.add(config);
        self.waiting.push_back(channel);
        self.pump(now);
        Ok(channel)
    }

    /// Opens a channel that the peer opens too, with the same stream and the same settings, without DCEP.
    ///
    /// # Errors
    /// Returns an error as [`open`](Self::open) does, or if the stream is in use.
    pub fn open_negotiated(&mut self, now: Time, stream: u16, config: ChannelConfig) -> Result<ChannelId, OpenError> {
        self.check(&config)?;
        if stream == NO_STREAM {
            return Err(OpenError::NoSuchStream);
        }
        // The peer may have sent on it before.
        let is_used = self.register.of_stream(stream).is_some() || self.session.is_resetting(stream);
        if is_used || !(self.session.open(stream) || self.session.is_open(stream)) {
            return Err(OpenError::StreamInUse(stream));
        }
        let channel = self.register.add_negotiated(config, stream);
        self.begin_if_connected(channel);
        self.on_readable(now, stream, true);
        self.pump(now);
        Ok(channel)
    }

    /// Queues a message.
    ///
    /// # Errors
    /// Returns an error if the channel cannot send, if the message is longer than the peer accepts, or if the send buffer has no room: try again
    /// after [`ChannelEvent::BufferedLow`].
    pub fn send(&mut self, now: Time, channel: ChannelId, message: ChannelMessage) -> Result<(), ChannelSendError> {
        let (content, full, empty) = match message {
            ChannelMessage::Text(text) => (text.into_bytes(), TEXT, TEXT_EMPTY),
            ChannelMessage::Binary(bytes) => (bytes, BINARY, BINARY_EMPTY),
        };
        let known = self.register.get(channel).ok_or(ChannelSendError::NotOpen)?;
        let (Some(stream), Stage::Opening | Stage::Open) = (known.stream(), known.stage) else {
            return Err(ChannelSendError::NotOpen);
        };
        // The peer has closed it: what is sent now would arrive on the next channel of the stream.
        if !self.session.is_writable(stream) {
            return Err(ChannelSendError::NotOpen);
        }
        let (len, max) = (content.len(), self.peer_max_message as usize);
        if len > max && max != 0 {
            return Err(ChannelSendError::TooLong { len, max });
        }
        // RFC 8831 §6.6: SCTP has no empty messages. [8832:6-4]
        let (ppid, content) = if content.is_empty() {
            (empty, vec![0])
        } else {
            (full, content)
        };
        let outgoing = Outgoing {
            stream,
            ppid,
            // [8832:6-9, 6-10, 6-11]
            unordered: known.config.unordered && known.stage == Stage::Open,
            reliability: known.config.reliability,
            content: Bytes::from(content),
        };
        if let Err(error) = self.session.send(now, outgoing) {
            if let SendError::Full { .. } = error {
                self.refused.insert(channel);
            }
            return Err(error.into());
        }
        self.refused.remove(&channel);
        if let Some(known) = self.register.get_mut(channel) {
            known.has_sent = true;
        }
        self.pump(now);
        Ok(())
    }

    /// Takes the next message of a channel. What is not taken fills the receive buffer, so that the peer waits.
    pub fn read(&mut self, now: Time, channel: ChannelId) -> Option<ChannelMessage> {
        let known = self.register.get(channel)?;
        let stream = known.stream().filter(|_| known.stage == Stage::Open)?;
        let ppid = self.session.next_ppid(stream).filter(|&ppid| ppid != DCEP)?;
        let this_use = self.session.use_of(stream);
        let Incoming { content, .. } = self.session.read(now, stream)?;
        let message = match ppid {
            TEXT => String::from_utf8(content)
                .map(ChannelMessage::Text)
                .map_err(|_| Flaw::NotUtf8),
            BINARY => Ok(ChannelMessage::Binary(content)),
            TEXT_EMPTY => Ok(ChannelMessage::Text(String::new())),
            BINARY_EMPTY => Ok(ChannelMessage::Binary(Vec::new())),
            _ => Err(Flaw::Ppid(ppid)),
        };
        let is_over = self.session.use_of(stream) != this_use;
        match message {
            Ok(_) if is_over => {}
            Ok(_) => self.on_readable(now, stream, false),
            Err(flaw) => self.close_for_flaw(now, channel, flaw, is_over),
        }
        self.pump(now);
        message.ok()
    }

    /// Closes a channel. What was sent on it arrives before; what was received and not read is discarded. [`ChannelEvent::Closed`] follows.
    pub fn close(&mut self, now: Time, channel: ChannelId) {
        self.close_for(now, channel, ChannelEnd::Local);
        self.pump(now);
    }

    /// Returns the bytes of a channel that wait to be sent or acknowledged, with those of DCEP.
    pub fn buffered(&self, channel: ChannelId) -> usize {
        self.stream(channel).map_or(0, |stream| self.session.buffered(stream))
    }

    /// Sets the number of bytes of a channel at which [`ChannelEvent::BufferedLow`] reports it. It is 0 by default.
    pub fn set_buffered_low(&mut self, channel: ChannelId, bytes: usize) {
        let Some(known) = self.register.get_mut(channel) else {
            return;
        };
        known.buffered_low = bytes;
        if let Some(stream) = known.stream() {
            self.session.set_buffered_low(stream, bytes);
        }
    }

    /// Ends the association once everything has been delivered.
    pub fn shutdown(&mut self, now: Time) {
        self.session.shutdown(now);
        self.pump(now);
    }

    /// Ends the association at once.
    pub fn abort(&mut self, now: Time, reason: &str) {
        self.session.abort(now, reason);
        self.pump(now);
    }

    fn check(&self, config: &ChannelConfig) -> Result<(), OpenError> {
        if config.label.len() > MAX_NAME || config.protocol.len() > MAX_NAME {
            return Err(OpenError::NameTooLong);
        }
        if let Reliability::Priority(_) = config.reliability {
            return Err(OpenError::Reliability);
        }
        if self.session.is_closed() {
            return Err(OpenError::Ended);
        }
        Ok(())
    }

    /// Takes the events of the session, and does what follows from them.
    fn pump(&mut self, now: Time) {
        loop {
            while let Some(event) = self.session.poll_event() {
                self.on_event(now, event);
            }
            self.send_acks(now);
            self.begin_waiting(now);
            if !self.session.has_events() {
                return;
            }
        }
    }

    fn on_event(&mut self, now: Time, event: SessionEvent) {
        match event {
            SessionEvent::Connected => {
                self.connected = true;
                self.events.push_back(ChannelEvent::Connected);
                let negotiated: Vec<ChannelId> = self.register.with_stream().collect();
                for channel in negotiated {
                    self.begin_if_connected(channel);
                }
            }
            SessionEvent::Stream(StreamNews::Opened(_) | StreamNews::Finished(_)) => {}
            SessionEvent::Stream(StreamNews::Readable(stream)) => self.on_readable(now, stream, true),
            SessionEvent::Stream(StreamNews::ResetDone(stream) | StreamNews::ResetRefused(stream)) => {
                if let Some(channel) = self.register.of_stream(stream) {
                    self.end(channel, ChannelEnd::Peer);
                }
            }
            SessionEvent::BufferedLow(stream) => {
                let is_empty = self.session.buffered(stream) == 0;
                if let Some(channel) = self.register.of_stream(stream)
                    && let Some(known) = self.register.get_mut(channel)
                    && known.has_sent
                {
                    // The user may lower the threshold while messages wait.
                    known.has_sent = !is_empty;
                    self.events.push_back(ChannelEvent::BufferedLow(channel));
                }
            }
            SessionEvent::SendSpace => {
                for channel in std::mem::take(&mut self.refused) {
                    // The others are reported when their bytes fall to the threshold.
                    let is_low = |known: &Channel| self.buffered(channel) <= known.buffered_low;
                    if self.register.get(channel).is_some_and(is_low) {
                        self.events.push_back(ChannelEvent::BufferedLow(channel));
                    }
                }
            }
            SessionEvent::Closed(reason) => {
                self.connected = false;
                let all: Vec<ChannelId> = self.register.ids().collect();
                for channel in all {
                    self.end(channel, ChannelEnd::Association);
                }
                self.waiting.clear();
                self.owed_acks.clear();
                self.events.push_back(ChannelEvent::Ended(reason));
            }
        }
    }

    /// Takes the messages of DCEP that are next on a stream, and reports the first message of the user after them if that is `news`.
    fn on_readable(&mut self, now: Time, stream: u16, news: bool) {
        while let Some(ppid) = self.session.next_ppid(stream) {
            let known = self.register.of_stream(stream);
            if let Some(channel) = known.filter(|_| ppid != DCEP) {
                self.on_answer(channel);
                if news {
                    self.events.push_back(ChannelEvent::Readable(channel));
                }
                return;
            }
            if known.is_none() && self.role.is_none() {
                // Whether the peer may open a channel on it is not known yet.
                return;
            }
            let this_use = self.session.use_of(stream);
            let Some(message) = self.session.read(now, stream) else {
                return;
            };
            // The peer has ended the use before: events about the end and about the next use follow.
            let is_over = self.session.use_of(stream) != this_use;
            let dcep = if ppid == DCEP {
                Dcep::parse(&message.content)
            } else {
                Err(Flaw::NotOpen)
            };
            match (known, dcep) {
                (Some(channel), Ok(Dcep::Ack)) => self.on_answer(channel),
                (Some(channel), Ok(Dcep::Open(_))) => self.close_for_flaw(now, channel, Flaw::InUse, is_over),
                (Some(channel), Err(flaw)) => self.close_for_flaw(now, channel, flaw, is_over),
                (None, Ok(Dcep::Open(config))) => {
                    if let Err(flaw) = self.on_open(stream, config) {
                        self.refuse(now, stream, flaw, is_over);
                    }
                }
                (None, Ok(Dcep::Ack)) => self.refuse(now, stream, Flaw::NotOpen, is_over),
                (None, Err(flaw)) => self.refuse(now, stream, flaw, is_over),
            }
            if self.session.use_of(stream) != this_use {
                return;
            }
        }
    }

    /// The peer opens a channel.
    fn on_open(&mut self, stream: u16, config: ChannelConfig) -> Result<(), Flaw> {
        if !self.role.is_some_and(|role| role.is_of_peer(stream)) {
            return Err(Flaw::Parity);
        }
        let priority = config.priority;
        let channel = self.register.add_of_peer(config, stream)?;
        self.session.set_weight(stream, priority);
        let by_peer = true;
        self.events.push_back(ChannelEvent::Opened { channel, by_peer });
        self.owed_acks.insert(channel);
        Ok(())
    }

    /// The peer knows of a channel of this end.
    fn on_answer(&mut self, channel: ChannelId) {
        if let Some(known) = self.register.get_mut(channel)
            && known.stage == Stage::Opening
        {
            known.stage = Stage::Open;
            let by_peer = false;
            self.events.push_back(ChannelEvent::Opened { channel, by_peer });
        }
    }

    /// Resets a stream that is no channel, unless both ends have done so.
    // [8832:6-7, 6-8, 6-12]
    fn refuse(&mut self, now: Time, stream: u16, flaw: Flaw, is_over: bool) {
        if !is_over {
            self.session.reset(now, stream);
        }
        self.events.push_back(ChannelEvent::Refused { stream, flaw });
    }

    /// Sends the ACKs that are owed.
    fn send_acks(&mut self, now: Time) {
        while let Some(&channel) = self.owed_acks.first() {
            let known = self.register.get(channel).filter(|known| known.stage == Stage::Open);
            let stream = known.and_then(Channel::stream);
            if let Some(stream) = stream.filter(|&stream| self.session.is_writable(stream))
                && self.send_dcep(now, stream, &Dcep::Ack).is_err()
            {
                return;
            }
            self.owed_acks.pop_first();
        }
    }

    /// Gives the channels that wait a stream, and sends their OPENs.
    fn begin_waiting(&mut self, now: Time) {
        let Some(role) = self.role.filter(|_| self.session.is_established()) else {
            return;
        };
        while let Some(&channel) = self.waiting.front() {
            let Some(config) = self.register.get(channel).map(|known| known.config.clone()) else {
                self.waiting.pop_front();
                continue;
            };
            let Some(stream) = self.take_stream(role) else {
                self.waiting.pop_front();
                self.end(channel, ChannelEnd::NoStream);
                continue;
            };
            if self.send_dcep(now, stream, &Dcep::Open(config)).is_err() {
                // The send buffer is full.
                self.session.forget(stream);
                self.next_stream = stream;
                return;
            }
            self.waiting.pop_front();
            self.register.assign(channel, stream);
            self.begin_if_connected(channel);
        }
    }

    /// The channel has a stream: it can send once the association is established.
    fn begin_if_connected(&mut self, channel: ChannelId) {
        let streams = self.common_streams();
        let Some(known) = self.register.get_mut(channel).filter(|_| self.connected) else {
            return;
        };
        let (Some(stream), Stage::Waiting) = (known.stream(), known.stage) else {
            return;
        };
        if stream >= streams {
            // The peer has fewer streams than those who have agreed on it thought.
            self.end(channel, ChannelEnd::NoStream);
            return self.session.forget(stream);
        }
        self.session.set_weight(stream, known.config.priority);
        self.session.set_buffered_low(stream, known.buffered_low);
        known.stage = Stage::Opening;
        if known.negotiated {
            self.on_answer(channel);
        }
    }

    /// Returns the number of streams that both ends have: a channel needs both directions.
    fn common_streams(&self) -> u16 {
        let streams = |association: &Association| association.outbound_streams().min(association.inbound_streams());
        self.session.association().map_or(0, streams)
    }

    /// Opens a free stream of this end.
    // [8832:4-1, 4-2, 4-3, 6-5, 6-6]
    fn take_stream(&mut self, role: DtlsRole) -> Option<u16> {
        let first = role.first_stream();
        let end = self.common_streams();
        for _ in (first..end).step_by(2) {
            if self.next_stream >= end {
                self.next_stream = first;
            }
            let stream = self.next_stream;
            self.next_stream = stream.saturating_add(2);
            if self.session.open(stream) {
                return Some(stream);
            }
        }
        None
    }

    /// Sends a message of DCEP, in order and reliably.
    // [8832:6-1, 6-2, 6-3]
    fn send_dcep(&mut self, now: Time, stream: u16, message: &Dcep) -> Result<(), SendError> {
        let outgoing = Outgoing {
            stream,
            ppid: DCEP,
            unordered: false,
            reliability: Reliability::Full,
            content: Bytes::from(message.to_bytes()),
        };
        self.session.send(now, outgoing)
    }

    fn close_for(&mut self, now: Time, channel: ChannelId, why: ChannelEnd) {
        let Some(known) = self.register.get_mut(channel) else {
            return;
        };
        match (known.stage, known.stream()) {
            (Stage::Closing(_), _) => {}
            (Stage::Opening | Stage::Open, Some(stream)) => {
                known.stage = Stage::Closing(why);
                self.session.reset(now, stream);
            }
            (_, stream) => {
                self.end(channel, why);
                // A negotiated channel that was not connected: nothing was sent on its stream.
                if let Some(stream) = stream {
                    self.session.forget(stream);
                }
            }
        }
    }

    /// The peer has made an error on a channel. If the use of its stream is over, the event that follows ends it.
    fn close_for_flaw(&mut self, now: Time, channel: ChannelId, flaw: Flaw, is_over: bool) {
        let why = ChannelEnd::Flaw(flaw);
        if !is_over {
            return self.close_for(now, channel, why);
        }
        if let Some(known) = self.register.get_mut(channel)
            && matches!(known.stage, Stage::Opening | Stage::Open)
        {
            known.stage = Stage::Closing(why);
        }
    }

    /// A channel has ended, for this reason unless there was one before.
    fn end(&mut self, channel: ChannelId, otherwise: ChannelEnd) {
        let Some(known) = self.register.remove(channel) else {
            return;
        };
        self.refused.remove(&channel);
        self.owed_acks.remove(&channel);
        let why = match known.stage {
            Stage::Closing(why) => why,
            _ => otherwise,
        };
        self.events.push_back(ChannelEvent::Closed { channel, why });
    }
}
