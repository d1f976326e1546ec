//! A user's handle of an association.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use whimbrel_proto::{
    AssocId, AssociationStats, PathId, PathInfo, PeerIdentity, ProtectionStats, SendError, SendFailure,
    State as AssociationState,
};
use whimbrel_wire::Payload;

use crate::opened::{Opened, Wait, Waiting};
use crate::paths::{PathEvents, PathWatch};
use crate::shared::{Progress, Shared, Signals, State};
use crate::transport::Trouble;
use crate::{
    AddressError, AssociationError, CloseReason, ConfigError, DiscriminatorSpec, Message, Statistics, TrySendError,
    WindowSpec,
};

/// An association: whole messages in both directions, on many streams. Clones share it. When the last clone is dropped
/// without a [`shutdown`](Self::shutdown) the association is aborted.
#[derive(Clone, Debug)]
pub struct Association {
    handle: Arc<Handle>,
}

#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: AssocId,
    pub(crate) signals: Arc<Signals>,
}

/// A message as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// The stream it came on.
    pub stream: u16,
    /// Payload protocol identifier as the sender set it.
    pub ppid: u32,
    /// Whether it was sent without regard to order.
    pub unordered: bool,
    /// Its content.
    pub data: Vec<u8>,
}

/// What an association and its peer have agreed on, and how far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AssociationStatus {
    /// Its state (RFC 9260 §4).
    pub state: AssociationState,
    /// The SCTP port of the peer.
    pub peer_port: u16,
    /// The peer's receive window in bytes, as far as it is known here.
    pub peer_rwnd: u32,
    /// Number of streams on which this end may send.
    pub outbound_streams: u16,
    /// Number of streams on which the peer may send.
    pub inbound_streams: u16,
}

/// What came of looking for a message.
pub(crate) enum Next {
    Message { stream: u16, ppid: u32, unordered: bool },
    Nothing,
    End(CloseReason),
}

/// Takes a message out of a buffer. A buffer that is much larger stays with its owner: it would be held without being counted.
fn apart(data: &mut Vec<u8>) -> Vec<u8> {
    if data.capacity() - data.len() > data.len() / 8 + 64 {
        data.as_slice().to_vec()
    } else {
        std::mem::take(data)
    }
}

fn take_waiting(waiting: Waiting, data: &mut Vec<u8>) -> Next {
    *data = waiting.data;
    Next::Message {
        stream: waiting.stream,
        ppid: waiting.ppid,
        unordered: waiting.unordered,
    }
}

impl Association {
    pub(crate) fn new(state: &mut State, shared: Arc<Shared>, id: AssocId, signals: Arc<Signals>) -> Self {
        state.handles += 1;
        Association {
            handle: Arc::new(Handle { shared, id, signals }),
        }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Sends a message; waits while the send buffer is full. `Ok` says that the association has taken it, not that it
    /// has arrived.
    ///
    /// # Errors
    /// Returns an error if the association has ended or is shutting down, or if the message is empty, longer than
    /// [`max_message`](crate::AssociationConfig::max_message) (by default [`StackConfig::MAX_MESSAGE`](crate::StackConfig::MAX_MESSAGE)), or on
    /// a stream that the peer does not allow.
    ///
    /// # Cancel safety
    /// If the returned future is dropped before it is ready, the message is not sent, and is lost. [`try_send`](Self::try_send) gives it back.
    ///
    /// # Examples
    ///
    /// ```
    /// # use whimbrel::{Association, AssociationError, Message};
    /// async fn report(association: &Association) -> Result<(), AssociationError> {
    ///     association.send(Message::new(0, "in order, on stream 0")).await?;
    ///     let position = Message { unordered: true, ppid: 51, ..Message::new(1, "as soon as it arrives") };
    ///     association.send(position).await
    /// }
    /// ```
    ///
    /// A message that is of no use when it is late:
    ///
    /// ```
    /// # use whimbrel::{Association, AssociationError, Message, Reliability, Span};
    /// async fn frame(association: &Association, picture: Vec<u8>) -> Result<(), AssociationError> {
    ///     let reliability = Reliability::Lifetime(Span::from_millis(150));
    ///     association.send(Message { reliability, ..Message::new(2, picture) }).await
    /// }
    /// ```
    pub async fn send(&self, message: Message) -> Result<(), AssociationError> {
        let mut message = message;
        loop {
            message = match self.try_send(message) {
                Err(TrySendError::Full(message)) => message,
                Err(TrySendError::Failed(error)) => return Err(error),
                Ok(()) => return Ok(()),
            };
            let space = self.handle.signals.writable.notified();
            tokio::pin!(space);
            space.as_mut().enable();
            message = match self.try_send(message) {
                Err(TrySendError::Full(message)) => message,
                Err(TrySendError::Failed(error)) => return Err(error),
                Ok(()) => return Ok(()),
            };
            space.await;
        }
    }

    /// Sends a message if the send buffer has room for it.
    ///
    /// # Errors
    /// Returns the message if there is no room, and otherwise the errors of [`send`](Self::send).
    pub fn try_send(&self, message: Message) -> Result<(), TrySendError> {
        let mut state = self.handle.shared.lock();
        self.try_send_with(&mut state, message)
    }

    /// As [`try_send`](Self::try_send), for a stream that was opened after this number of restarts of the peer.
    pub(crate) fn try_send_on_stream(&self, message: Message, restarts: u32) -> Result<(), TrySendError> {
        let mut state = self.handle.shared.lock();
        if self
            .opened(&mut state)
            .is_some_and(|opened| opened.restarts() != restarts)
        {
            return Err(AssociationError::PeerRestarted.into());
        }
        self.try_send_with(&mut state, message)
    }

    fn try_send_with(&self, state: &mut State, message: Message) -> Result<(), TrySendError> {
        if let Some(error) = self.end(state) {
            return Err(error.into());
        }
        let now = self.handle.shared.now();
        match state.endpoint.send(now, self.handle.id, message) {
            Ok(()) => {
                state.wake_driver();
                Ok(())
            }
            Err(SendError::Full(message)) => Err(TrySendError::Full(message)),
            Err(SendError::Closed) => Err(AssociationError::ShuttingDown.into()),
            Err(error) => Err(AssociationError::from(error).into()),
        }
    }

    /// Waits for the next message. `None` once the association has been shut down in good order and everything is read.
    ///
    /// # Errors
    /// Returns an error if the association has ended otherwise, after everything that arrived before has been read.
    ///
    /// # Cancel safety
    /// No message is lost if the returned future is dropped before it is ready, so that `recv` may stand in `tokio::select!`.
    pub async fn recv(&self) -> Result<Option<ReceivedMessage>, AssociationError> {
        let mut data = Vec::new();
        let described = self.recv_into(&mut data).await?;
        Ok(described.map(|(stream, ppid, unordered)| ReceivedMessage {
            stream,
            ppid,
            unordered,
            data,
        }))
    }

    /// As [`recv`](Self::recv), with the content put into `data`, which is cleared first; gives stream, payload protocol
    /// identifier and whether it was unordered.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Cancel safety
    /// No message is lost if the returned future is dropped before it is ready; `data` is then empty.
    pub async fn recv_into(&self, data: &mut Vec<u8>) -> Result<Option<(u16, u32, bool)>, AssociationError> {
        loop {
            match self.next(data)? {
                Next::Message {
                    stream,
                    ppid,
                    unordered,
                } => return Ok(Some((stream, ppid, unordered))),
                Next::End(CloseReason::Graceful) => return Ok(None),
                Next::End(reason) => return Err(AssociationError::Closed(reason)),
                Next::Nothing => {}
            }
            let readable = self.handle.signals.readable.notified();
            tokio::pin!(readable);
            readable.as_mut().enable();
            match self.next(data)? {
                Next::Message {
                    stream,
                    ppid,
                    unordered,
                } => return Ok(Some((stream, ppid, unordered))),
                Next::End(CloseReason::Graceful) => return Ok(None),
                Next::End(reason) => return Err(AssociationError::Closed(reason)),
                Next::Nothing => readable.await,
            }
        }
    }

    /// The next message for who reads the streams that are not opened.
    fn next(&self, data: &mut Vec<u8>) -> Result<Next, AssociationError> {
        self.next_for(&mut self.handle.shared.lock(), None, data)
    }

    /// The next message of a stream that was opened after this number of restarts of the peer.
    pub(crate) fn next_of_stream(
        &self,
        stream: u16,
        restarts: u32,
        data: &mut Vec<u8>,
    ) -> Result<Next, AssociationError> {
        let mut state = self.handle.shared.lock();
        if self
            .opened(&mut state)
            .is_some_and(|opened| opened.restarts() != restarts)
        {
            return Err(AssociationError::PeerRestarted);
        }
        self.next_for(&mut state, Some(stream), data)
    }

    /// What waits for the readers of opened streams, if there are any. The endpoint may know of a restart of the peer before its event is
    /// polled.
    fn opened<'s>(&self, state: &'s mut State) -> Option<&'s mut Opened> {
        let slot = state.slots.get_mut(&self.handle.id)?;
        let opened = slot.opened.as_mut()?;
        if let Some(association) = state.endpoint.association(self.handle.id) {
            let before = opened.bytes();
            if opened.note_restarts(association.restarts()) {
                state.held_memory -= (before - opened.bytes()) as u64;
                slot.signals.readable.notify_waiters();
            }
        }
        Some(opened)
    }

    /// The next message for a reader if there is one. Messages for others that stand before it are kept for them.
    fn next_for(&self, state: &mut State, reader: Option<u16>, data: &mut Vec<u8>) -> Result<Next, AssociationError> {
        let now = self.handle.shared.now();
        data.clear();
        self.opened(state);
        let Some(slot) = state.slots.get_mut(&self.handle.id) else {
            return Err(AssociationError::StackStopped("the association is gone".to_owned()));
        };
        // Once nothing more can arrive, what is left may be taken out whatever waits.
        let is_over = matches!(slot.progress, Progress::Closed(_)) || state.stopped.is_some();
        let before = slot.held();
        let mut found = None;
        let mut is_full = false;
        if let Some(opened) = &mut slot.opened {
            is_full = opened.is_full() && !is_over;
            found = opened.take(reader).map(|waiting| take_waiting(waiting, data));
            if is_full && !opened.is_full() {
                // Others may go on.
                slot.signals.readable.notify_waiters();
            }
        }
        while found.is_none() && !is_full {
            data.clear();
            let mut take = |part: Payload<'_>| match part {
                Payload::Bytes(bytes) => data.extend_from_slice(bytes),
                Payload::Zeros(len) => data.resize(data.len() + len as usize, 0),
            };
            let Some(received) = state.endpoint.recv(now, self.handle.id, &mut take) else {
                break;
            };
            let association = state.endpoint.association(self.handle.id);
            let interleaves = || association.is_some_and(|association| association.uses_interleaving());
            if !slot.partial.take(&received, data, interleaves) {
                continue;
            }
            slot.last_message = now;
            let (stream, ppid, unordered) = (received.stream, received.ppid, received.unordered);
            let is_old = received.before_restart;
            let opened = slot.opened.as_mut();
            if opened.is_some_and(|opened| opened.has_ended(stream, is_old)) {
                continue;
            }
            match &mut slot.opened {
                Some(opened) if opened.reader(stream, is_old) != reader => {
                    opened.keep(Waiting {
                        stream,
                        ppid,
                        unordered,
                        is_old,
                        data: apart(data),
                    });
                    is_full = opened.is_full() && !is_over;
                    slot.signals.readable.notify_waiters();
                }
                _ => {
                    found = Some(Next::Message {
                        stream,
                        ppid,
                        unordered,
                    });
                }
            }
        }
        state.held_memory = state.held_memory - before + slot.held();
        if let Some(found) = found {
            state.wake_driver_for_work();
            return Ok(found);
        }
        match (&slot.progress, &state.stopped) {
            // What is behind a full queue is not looked at yet.
            _ if is_full => Ok(Next::Nothing),
            (Progress::Closed(reason), _) => Ok(Next::End(reason.clone())),
            (_, Some(why)) => Err(AssociationError::StackStopped(why.clone())),
            _ => {
                state.wake_driver_for_work();
                Ok(Next::Nothing)
            }
        }
    }

    /// Opens a stream: its messages wait apart from those of others. Returns how often the peer has restarted.
    pub(crate) fn open_stream(&self, stream: u16) -> Result<u32, AssociationError> {
        let mut state = self.handle.shared.lock();
        let association = state.endpoint.association(self.handle.id);
        let restarts = association.map_or(0, |association| association.restarts());
        let Some(slot) = state.slots.get_mut(&self.handle.id) else {
            return Ok(restarts);
        };
        slot.opened.get_or_insert_with(|| Box::new(Opened::new(restarts)));
        let Some(opened) = self.opened(&mut state) else {
            return Ok(restarts);
        };
        if !opened.open(stream) {
            return Err(AssociationError::StreamInUse(stream));
        }
        Ok(opened.restarts())
    }

    /// The longest message that can be sent, in bytes.
    pub(crate) fn longest_message(&self) -> usize {
        let state = self.handle.shared.lock();
        let association = state.endpoint.association(self.handle.id);
        association.map_or(usize::MAX, |association| association.longest_message())
    }

    pub(crate) fn close_stream(&self, stream: u16, restarts: u32) {
        let mut state = self.handle.shared.lock();
        if let Some(opened) = self.opened(&mut state)
            && opened.restarts() == restarts
        {
            opened.close(stream);
            self.handle.signals.readable.notify_waiters();
        }
    }

    /// Waits until there may be something to read.
    pub(crate) fn readable(&self) -> Wait {
        let signals = self.handle.signals.clone();
        Box::pin(async move { signals.readable.notified().await })
    }

    /// Waits until the send buffer may have room.
    pub(crate) fn writable(&self) -> Wait {
        let signals = self.handle.signals.clone();
        Box::pin(async move { signals.writable.notified().await })
    }

    /// Waits until the peer has acknowledged everything sent so far.
    ///
    /// # Errors
    /// If the association has ended, or if messages were given up, not as their [`Reliability`](crate::Reliability) permits, that
    /// [`send_failures`](Self::send_failures) has not returned.
    ///
    /// # Cancel safety
    /// The returned future only waits. Dropping it changes nothing.
    pub async fn flush(&self) -> Result<(), AssociationError> {
        let sent = |state: &State| {
            let slot = state.slots.get(&self.handle.id)?;
            if slot.failed > 0 {
                return Some(Err(AssociationError::Undelivered(slot.failed)));
            }
            let association = state.endpoint.association(self.handle.id);
            (association.map_or(0, |a| a.buffered_send()) == 0).then_some(Ok(()))
        };
        self.wait(&self.handle.signals.flushed, |state| {
            match (self.end(state), sent(state)) {
                (Some(error), _) => Some(Err(error)),
                (None, sent) => sent,
            }
        })
        .await
    }

    /// Messages that [`send`](Self::send) took and that are given up: those not acknowledged when the association ended or the peer
    /// restarted (RFC 9260 §11.2.2), and those whose [`Reliability`](crate::Reliability) permitted it. Each is returned once, in the order in
    /// which they were given up. At most the first 65 536 are kept until they are asked for.
    pub fn send_failures(&self) -> Vec<SendFailure> {
        let mut state = self.handle.shared.lock();
        state.slots.get_mut(&self.handle.id).map_or_else(Vec::new, |slot| {
            slot.failed = 0;
            std::mem::take(&mut slot.send_failures)
        })
    }

    /// Delivers everything that was sent, then ends the association; waits until both ends have agreed. What the peer
    /// still sends meanwhile is to be received, by this task before or another one during the wait.
    ///
    /// # Errors
    /// Returns an error if the association ends otherwise. If what the peer sends is not received, and so fills the receive buffer, while
    /// nothing that was sent is acknowledged, the association is aborted after
    /// [`shutdown_guard`](crate::AssociationConfig::shutdown_guard), by default 5 min.
    ///
    /// # Cancel safety
    /// The shutdown begins with the first poll. If the returned future is dropped after that, the shutdown goes on, and
    /// [`closed`](Self::closed) waits for its end.
    pub async fn shutdown(&self) -> Result<(), AssociationError> {
        {
            let now = self.handle.shared.now();
            let mut guard = self.handle.shared.lock();
            let state = &mut *guard;
            if let Some(slot) = state.slots.get_mut(&self.handle.id)
                && !matches!(slot.progress, Progress::Closed(_))
            {
                slot.shutdown_wanted = true;
                state.endpoint.shutdown(now, self.handle.id);
                state.wake_driver();
            }
        }
        match self.closed().await {
            CloseReason::Graceful => Ok(()),
            reason => Err(AssociationError::Closed(reason)),
        }
    }

    /// Aborts the association and sends the reason to the peer, whose [`CloseReason::AbortedByPeer`] has it. What is not yet delivered is
    /// lost.
    pub fn abort(&self, reason: &str) {
        let now = self.handle.shared.now();
        let mut state = self.handle.shared.lock();
        state.endpoint.abort(now, self.handle.id, reason);
        state.wake_driver();
    }

    /// Waits until the association has ended; says why it has.
    ///
    /// # Cancel safety
    /// The returned future only waits. Dropping it changes nothing.
    pub async fn closed(&self) -> CloseReason {
        self.wait(&self.handle.signals.progress, |state| match self.end(state)? {
            AssociationError::Closed(reason) => Some(reason),
            other => Some(CloseReason::AbortedLocally(other.to_string())),
        })
        .await
    }

    /// Bytes of messages taken by [`send`](Self::send) and not yet acknowledged by the peer.
    pub fn buffered(&self) -> usize {
        let state = self.handle.shared.lock();
        state
            .endpoint
            .association(self.handle.id)
            .map_or(0, |a| a.buffered_send())
    }

    /// Counters of what it has done so far; none once it is over and forgotten.
    pub fn stats(&self) -> Option<AssociationStats> {
        let state = self.handle.shared.lock();
        state.endpoint.association(self.handle.id).map(|a| a.stats())
    }

    /// Returns its state, the numbers of streams and the peer's port and window; none once it is over and forgotten.
    pub fn status(&self) -> Option<AssociationStatus> {
        let state = self.handle.shared.lock();
        let association = state.endpoint.association(self.handle.id)?;
        Some(AssociationStatus {
            state: association.state(),
            peer_port: association.peer_port(),
            peer_rwnd: association.peer_rwnd(),
            outbound_streams: association.outbound_streams(),
            inbound_streams: association.inbound_streams(),
        })
    }

    /// Waits until the peer has begun to shut the association down, or it has ended. What the peer has sent before can still be received.
    ///
    /// # Cancel safety
    /// The returned future only waits. Dropping it changes nothing.
    pub async fn peer_shutdown(&self) {
        self.wait(&self.handle.signals.progress, |state| {
            let slot = state.slots.get(&self.handle.id);
            let is_begun = slot.is_none_or(|slot| slot.peer_shutdown);
            (is_begun || self.end(state).is_some()).then_some(())
        })
        .await;
    }

    /// How often the peer has restarted (RFC 9260 §5.2.4 A): always 0 unless associations
    /// [continue after that](crate::StackConfig::continue_after_restart). Messages that arrived before are read first.
    pub fn restarts(&self) -> u32 {
        let state = self.handle.shared.lock();
        let association = state.endpoint.association(self.handle.id);
        association.map_or(0, |association| association.restarts())
    }

    /// Its paths: state, windows, round-trip times, MTU, and how well each does; empty once it is over and forgotten.
    ///
    /// # Examples
    ///
    /// The longest packets that each path carries, as far as the search has found it (RFC 8899):
    ///
    /// ```
    /// # fn print(association: &whimbrel::Association) {
    /// for path in association.paths() {
    ///     println!("{} > {}: {} bytes", path.local, path.remote, path.mtu);
    /// }
    /// # }
    /// ```
    pub fn paths(&self) -> Vec<PathInfo> {
        let state = self.handle.shared.lock();
        let association = state.endpoint.association(self.handle.id);
        association.into_iter().flat_map(|a| a.paths()).collect()
    }

    /// Returns the path events from now on: paths that go up and down, are confirmed, added or removed, or become the primary one.
    /// [`paths`](Self::paths) has the state of now.
    pub fn path_events(&self) -> PathEvents {
        let mut guard = self.handle.shared.lock();
        let state = &mut *guard;
        let association = state.endpoint.association(self.handle.id);
        let paths = association.into_iter().flat_map(|association| association.paths());
        match state.slots.get_mut(&self.handle.id) {
            Some(slot) if !matches!(slot.progress, Progress::Closed(_)) => slot
                .watch
                .get_or_insert_with(|| Box::new(PathWatch::new(paths)))
                .subscribe(),
            // Of an association that is over there are no events.
            _ => PathWatch::new(paths).subscribe(),
        }
    }

    /// Sends a heartbeat on a path, to measure it; any peer answers. Its Heartbeat Info has `bytes` bytes, from 18 to what a packet has room
    /// for. [`path_events`](Self::path_events) reports the answer as [`PathChange::PingAnswered`](crate::PathChange::PingAnswered) with
    /// `number`; an answer that does not come is a loss in one of the directions. Neither influences what the association does.
    /// At most [`MAX_PINGS`](crate::MAX_PINGS) wait for an answer; then the oldest is given up for a new one.
    /// Returns false if there is no such path, if it is not confirmed, if the association is not established, or if 256 of them wait to be sent.
    pub fn ping(&self, path: PathId, number: u32, bytes: usize) -> bool {
        let now = self.handle.shared.now();
        let mut state = self.handle.shared.lock();
        let is_sent = state.endpoint.ping(now, self.handle.id, path, number, bytes);
        state.wake_driver();
        is_sent
    }

    /// Returns snapshots of counters and paths, the first one now, then one each `period` (1 ms at least), and one at the end.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use whimbrel::{Association, Rate};
    /// /// Prints the rate at which a path delivers, each second.
    /// async fn watch(association: &Association) {
    ///     let mut statistics = association.statistics(Duration::from_secs(1));
    ///     while let Some(now) = statistics.next().await {
    ///         for path in now.paths {
    ///             let rate = path.quality.delivery_rate.unwrap_or(Rate::from_bps(0));
    ///             println!("{} -> {}: {rate}, srtt {:?}", path.local, path.remote, path.srtt);
    ///         }
    ///     }
    /// }
    /// ```
    pub fn statistics(&self, period: Duration) -> Statistics {
        let Handle { shared, id, signals } = &*self.handle;
        Statistics::new(shared.clone(), *id, signals.clone(), period)
    }

    /// Makes a path the primary one, which carries new data while it is active (RFC 9260 §11.1.6). Returns false if there is no such path.
    pub fn set_primary(&self, path: PathId) -> bool {
        let now = self.handle.shared.now();
        let mut state = self.handle.shared.lock();
        let is_set = state.endpoint.set_primary(now, self.handle.id, path);
        state.wake_driver();
        is_set
    }

    /// Returns whether messages of different streams are interleaved (RFC 8260): both ends have
    /// [`interleaving`](crate::AssociationConfig::interleaving) on. False if the association has ended.
    pub fn uses_interleaving(&self) -> bool {
        let state = self.handle.shared.lock();
        let association = state.endpoint.association(self.handle.id);
        association.is_some_and(|association| association.uses_interleaving())
    }

    /// Returns whether all packets after the handshake are encrypted ([`AssociationConfig::protection`](crate::AssociationConfig::protection),
    /// experimental). False if the association has ended.
    ///
    /// # Examples
    ///
    /// Both ends have the same random secret, and refuse others:
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use whimbrel::{ProtectionConfig, Stack, StackConfig};
    /// use whimbrel_secure::PreSharedKey;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let secret = [0; 32];
    /// let mut config = StackConfig::local(["192.0.2.1:9899".parse()?, "198.51.100.1:9899".parse()?]);
    /// config.association.protection = ProtectionConfig::required(Arc::new(PreSharedKey::new(&secret)?));
    /// let stack = Stack::bind(config)?;
    /// let association = stack.connect(&["203.0.113.1:9899".parse()?], 5001).await?;
    /// assert!(association.is_encrypted());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_encrypted(&self) -> bool {
        let state = self.handle.shared.lock();
        let association = state.endpoint.association(self.handle.id);
        association.is_some_and(|association| association.is_protected())
    }

    /// Returns who the peer is, if it has been authenticated by a certificate (`whimbrel_secure::TlsKeys`). `None` also if the association has
    /// ended.
    pub fn peer_identity(&self) -> Option<PeerIdentity> {
        let state = self.handle.shared.lock();
        state.endpoint.association(self.handle.id)?.peer_identity().cloned()
    }

    /// Returns the counters of encrypted packets, all zero if nothing is encrypted or the association has been forgotten.
    pub fn protection_stats(&self) -> ProtectionStats {
        let state = self.handle.shared.lock();
        let association = state.endpoint.association(self.handle.id);
        association
            .map(|association| association.protection_stats())
            .unwrap_or_default()
    }

    /// Sets the value of a stream that the scheduler of this end uses: its priority, 0 being the highest, or its weight (RFC 8260 §4.3.3).
    /// [`AssociationConfig::scheduler`](crate::AssociationConfig::scheduler) chooses the scheduler. Returns false if there is no such stream, or the association has ended.
    ///
    /// # Examples
    ///
    /// With interleaving at both ends, a long message does not delay short ones on a stream of higher priority:
    ///
    /// ```no_run
    /// use whimbrel::{AssociationConfig, Message, Scheduler, Stack, StackConfig};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut config = StackConfig::local(["192.0.2.1:9899".parse()?]);
    /// config.association.interleaving = true;
    /// config.association.scheduler = Scheduler::Priority;
    /// let stack = Stack::bind(config)?;
    /// let association = stack.connect(&["198.51.100.1:9899".parse()?], 5001).await?;
    /// let (control, bulk) = (0, 1);
    /// association.set_stream_value(bulk, 10);
    /// association.send(Message::new(bulk, vec![7; 16 << 20])).await?;
    /// association.send(Message::new(control, "arrives first")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_stream_value(&self, stream: u16, value: u16) -> bool {
        let mut state = self.handle.shared.lock();
        state.endpoint.set_stream_value(self.handle.id, stream, value)
    }

    /// Replaces the discriminator, the window control or both, on all paths and from now on; cwnd and ssthresh remain. The other parts of a
    /// scheme are agreed on with the peer or fixed when the association begins: [`AssociationConfig`](crate::AssociationConfig) chooses them.
    ///
    /// # Errors
    /// Returns an error if a parameter is out of range, or if the part needs a simulation.
    ///
    /// # Examples
    ///
    /// ```
    /// # use whimbrel::{Association, ConfigError};
    /// use whimbrel::Scheme;
    ///
    /// /// From now on losses of the radio are distinguished from congestion.
    /// fn on_wifi(association: &Association) -> Result<(), ConfigError> {
    ///     let parts = Scheme::by_name("veno").map(|scheme| scheme.parts());
    ///     let (discriminator, window) = parts.map(|parts| (parts.discriminator, parts.window)).unzip();
    ///     association.set_congestion_control(discriminator, window)
    /// }
    /// ```
    pub fn set_congestion_control(
        &self,
        discriminator: Option<DiscriminatorSpec>,
        window: Option<WindowSpec>,
    ) -> Result<(), ConfigError> {
        let mut state = self.handle.shared.lock();
        state
            .endpoint
            .set_congestion_control(self.handle.id, discriminator, window)?;
        state.wake_driver();
        Ok(())
    }

    /// The peer's addresses with their UDP ports.
    pub fn peer_addrs(&self) -> Vec<SocketAddr> {
        let state = self.handle.shared.lock();
        let mut addrs: Vec<SocketAddr> = Vec::new();
        if let Some(association) = state.endpoint.association(self.handle.id) {
            addrs.extend(association.paths().map(|path| path.remote));
        }
        addrs.dedup();
        addrs
    }

    /// The addresses of this end that packets are sent from.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        let state = self.handle.shared.lock();
        let association = state.endpoint.association(self.handle.id);
        association.map_or_else(Vec::new, |association| association.local_addrs().to_vec())
    }

    /// Sends from this local address as soon as the peer knows it, and asks the peer to send there first (RFC 5061 §4.2.4).
    ///
    /// # Errors
    /// If the association has no such address or cannot change addresses.
    pub fn prefer_local_address(&self, addr: SocketAddr) -> Result<(), AddressError> {
        let now = self.handle.shared.now();
        let mut state = self.handle.shared.lock();
        state.endpoint.set_peer_primary(now, self.handle.id, addr)?;
        if let Some(slot) = state.slots.get_mut(&self.handle.id) {
            slot.wanted = Some(addr);
        }
        state.prefer_wanted(now, self.handle.id);
        state.wake_driver();
        Ok(())
    }

    pub(crate) async fn wait_established(&self) -> Result<(), AssociationError> {
        self.wait(&self.handle.signals.progress, |state| {
            let slot = state.slots.get(&self.handle.id);
            // If it has ended since, there may be something to read.
            let was_established = slot.is_some_and(|slot| slot.was_established);
            was_established.then_some(Ok(())).or_else(|| self.end(state).map(Err))
        })
        .await
    }

    pub(crate) fn troubles(&self) -> Vec<(SocketAddr, Option<Trouble>)> {
        let state = self.handle.shared.lock();
        state
            .slots
            .get(&self.handle.id)
            .map(|slot| slot.troubles.clone())
            .unwrap_or_default()
    }

    /// Waits for `signal` until `look` gives something.
    async fn wait<T>(&self, signal: &Notify, look: impl Fn(&State) -> Option<T>) -> T {
        loop {
            let signalled = signal.notified();
            tokio::pin!(signalled);
            signalled.as_mut().enable();
            if let Some(found) = look(&self.handle.shared.lock()) {
                return found;
            }
            signalled.await;
        }
    }

    /// Why nothing more can happen on this association, if that is so.
    fn end(&self, state: &State) -> Option<AssociationError> {
        match state.slots.get(&self.handle.id).map(|slot| &slot.progress) {
            Some(Progress::Closed(reason)) => Some(AssociationError::Closed(reason.clone())),
            _ => state.stopped.clone().map(AssociationError::StackStopped),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.abandon(now, self.id);
        state.handles -= 1;
        state.wake_driver();
    }
}
