//! Associations.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use whimbrel_datachannel::{Session, SessionEvent, State, StreamNews};

use crate::clock::Clock;
use crate::config::{TransportConfig, random};
use crate::endpoint::{AssociationEvent, EndpointEvent};
use crate::error::{Error, StreamResetError};
use crate::event::{Event, StreamEvent};
use crate::stream::{PayloadProtocolIdentifier, Settings, Stream, StreamId};
use crate::{Payload, Transmit};

/// Packets of one [`Transmit`] at most.
const MAX_PACKETS: usize = 64;

/// An association with a peer.
pub struct Association {
    /// Not shared: the lock makes the type `Sync`, as that of sctp-proto is.
    session: Mutex<Session>,
    clock: Clock,
    remote: SocketAddr,
    /// The association is to be opened at the first time that is known.
    connects: bool,
    max_send: u32,
    settings: BTreeMap<StreamId, Settings>,
    is_drained: bool,
}

impl fmt::Debug for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Association")
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}

impl Association {
    pub(crate) fn new(
        transport: &TransportConfig,
        max_payload: u32,
        remote: SocketAddr,
        connects: bool,
    ) -> Result<Self, Error> {
        let (local_port, remote_port) = transport.ports();
        let config = transport.association(max_payload);
        let mut session = Session::new(config, local_port, remote_port, Box::new(random()?)).map_err(Error::other)?;
        session.set_max_received(transport.max_receive() as usize);
        Ok(Association {
            session: Mutex::new(session),
            clock: Clock::default(),
            remote,
            connects,
            max_send: transport.max_send(),
            settings: BTreeMap::new(),
            is_drained: false,
        })
    }

    /// Starts it from two INIT chunks.
    pub(crate) fn start(&mut self, local: &[u8], remote: &[u8]) -> Result<(), Error> {
        let now = self.clock.now();
        self.session().start(now, local, remote).map_err(Error::other)
    }

    pub(crate) fn session(&mut self) -> &mut Session {
        self.session.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(&Session) -> R) -> R {
        f(&self.session.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn settings(&mut self, stream: StreamId) -> &mut Settings {
        self.settings.entry(stream).or_default()
    }

    pub(crate) fn settings_of(&self, stream: StreamId) -> Settings {
        self.settings.get(&stream).copied().unwrap_or_default()
    }

    pub(crate) fn max_send(&self) -> u32 {
        self.max_send
    }

    /// Takes in the time, and opens the association if that is to be done.
    fn at(&mut self, now: Instant) -> whimbrel_datachannel::Time {
        let now = self.clock.set(now);
        if std::mem::take(&mut self.connects) {
            // If the peer has opened it meanwhile, it exists.
            let _ = self.session().connect(now);
        }
        now
    }

    /// Returns the next event.
    pub fn poll(&mut self) -> Option<Event> {
        let stream = |event| Some(Event::Stream(event));
        match self.session().poll_event()? {
            SessionEvent::Connected => Some(Event::Connected),
            SessionEvent::Stream(StreamNews::Opened(id)) => stream(StreamEvent::Opened { id }),
            SessionEvent::Stream(StreamNews::Readable(id)) => stream(StreamEvent::Readable { id }),
            SessionEvent::Stream(StreamNews::Finished(id)) => {
                self.settings.remove(&id);
                stream(StreamEvent::Finished { id })
            }
            SessionEvent::Stream(StreamNews::ResetDone(id)) => stream(StreamEvent::ResetComplete { id }),
            SessionEvent::Stream(StreamNews::ResetRefused(id)) => stream(StreamEvent::ResetFailed {
                id,
                reason: StreamResetError::Denied,
            }),
            // The user sends again when the buffer of its stream is low.
            SessionEvent::SendSpace => self.poll(),
            SessionEvent::BufferedLow(id) => stream(StreamEvent::BufferedAmountLow { id }),
            SessionEvent::Closed(reason) => Some(Event::AssociationLost { reason: reason.into() }),
        }
    }

    /// Returns the next event for the endpoint.
    pub fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        let is_new = self.is_closed() && !std::mem::replace(&mut self.is_drained, true);
        if !self.is_closed() {
            self.is_drained = false;
        }
        is_new.then_some(EndpointEvent::Drained)
    }

    /// Returns the packets to send.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let time = self.at(now);
        let session = self.session();
        let packets = std::iter::from_fn(|| session.poll_transmit(time));
        let packets: Vec<_> = packets.take(MAX_PACKETS).map(Into::into).collect();
        (!packets.is_empty()).then(|| Transmit {
            now,
            remote: self.remote,
            ecn: None,
            local_ip: None,
            payload: Payload::RawEncode(packets),
        })
    }

    /// Returns when [`Association::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.with(Session::next_timeout)
            .and_then(|time| self.clock.instant(time))
    }

    /// Handles the timers that have expired.
    pub fn handle_timeout(&mut self, now: Instant) {
        let time = self.at(now);
        self.session().handle_timeout(time);
    }

    /// Takes in a packet that the endpoint has received.
    pub fn handle_event(&mut self, event: AssociationEvent) {
        let AssociationEvent { now, data } = event;
        let time = self.at(now);
        self.session().handle(time, &data);
    }

    /// Returns whether it is being established.
    pub fn is_handshaking(&self) -> bool {
        self.with(|session| !session.is_closed() && !session.is_established()) && !self.is_closing()
    }

    /// Returns whether it has ended.
    pub fn is_closed(&self) -> bool {
        self.with(Session::is_closed)
    }

    /// Returns whether it is being shut down.
    pub fn is_closing(&self) -> bool {
        self.with(|session| {
            let state = session.association().map(|association| association.state());
            matches!(
                state,
                Some(State::ShutdownPending | State::ShutdownSent | State::ShutdownReceived | State::ShutdownAckSent)
            )
        })
    }

    /// Returns the address of the peer.
    pub fn remote_addr(&self) -> SocketAddr {
        self.remote
    }

    /// Shuts it down.
    ///
    /// # Errors
    /// Returns an error if it is not established.
    pub fn shutdown(&mut self) -> Result<(), Error> {
        if !self.session().is_established() {
            return Err(Error::ErrShutdownNonEstablished);
        }
        let now = self.clock.now();
        self.session().shutdown(now);
        Ok(())
    }

    /// Aborts it.
    ///
    /// # Errors
    /// Never.
    pub fn close(&mut self) -> Result<(), Error> {
        let now = self.clock.now();
        self.session().abort(now, "closed");
        Ok(())
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// Returns an error if it is in use, or waits for its reset.
    pub fn open_stream(
        &mut self,
        stream: StreamId,
        default_payload_type: PayloadProtocolIdentifier,
    ) -> Result<Stream<'_>, Error> {
        if !self.session().open(stream) {
            return Err(match self.session().is_open(stream) {
                true => Error::ErrStreamAlreadyExist,
                false => Error::ErrStreamResetPending,
            });
        }
        *self.settings(stream) = Settings::with_payload_type(default_payload_type);
        Ok(Stream::new(stream, self))
    }

    /// Returns a stream in use.
    ///
    /// # Errors
    /// Returns an error if it is not in use.
    pub fn stream(&mut self, stream: StreamId) -> Result<Stream<'_>, Error> {
        if !self.session().is_open(stream) {
            return Err(Error::ErrStreamNotExisted);
        }
        Ok(Stream::new(stream, self))
    }

    /// Returns the streams in use.
    pub fn stream_ids(&self) -> Vec<StreamId> {
        self.with(|session| session.open_streams().collect())
    }

    /// Sets the longest message that is sent.
    pub fn set_max_send_message_size(&mut self, value: u32) {
        self.max_send = value;
    }
}
