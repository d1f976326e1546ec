//! A user's handle of an association.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::Notify;
use whimbrel_proto::{AssocId, AssociationStats, PathId, PathInfo, SendError, SendFailure};
use whimbrel_wire::Payload;

use crate::paths::{PathEvents, PathWatch};
use crate::shared::{Progress, Shared, Signals, State};
use crate::transport::Trouble;
use crate::{AddressError, AssociationError, CloseReason, Message, TrySendError};

/// An association: whole messages in both directions, on many streams. Clones share it. When the last clone is dropped
/// without a [`shutdown`](Self::shutdown) the association is aborted.
#[derive(Clone, Debug)]
pub struct Association {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    id: AssocId,
    signals: Arc<Signals>,
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

/// What came of looking for a message.
enum Next {
    Message { stream: u16, ppid: u32, unordered: bool },
    Nothing,
    End(CloseReason),
}

impl Association {
    pub(crate) fn new(state: &mut State, shared: Arc<Shared>, id: AssocId, signals: Arc<Signals>) -> Self {
        state.handles += 1;
        Association {
            handle: Arc::new(Handle { shared, id, signals }),
        }
    }

    /// Sends a message; waits while the send buffer is full. `Ok` says that the association has taken it, not that it
    /// has arrived. Nothing is sent if the returned future is dropped before it is ready.
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
    pub fn try_send(&self, message: Message) -> Result<(), TrySendError> {
        let now = self.handle.shared.now();
        let mut state = self.handle.shared.lock();
        match state.endpoint.send(now, self.handle.id, message) {
            Ok(()) => {
                state.wake_driver();
                Ok(())
            }
            Err(SendError::Full(message)) => match self.end(&state) {
                Some(error) => Err(error.into()),
                None => Err(TrySendError::Full(message)),
            },
            Err(SendError::Closed) => Err(self.end(&state).unwrap_or(AssociationError::ShuttingDown).into()),
            Err(error) => Err(AssociationError::Message(error.to_string()).into()),
        }
    }

    /// Waits for the next message. `None` once the association has been shut down in good order and everything is read.
    /// No message is lost if the returned future is dropped before it is ready.
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

    /// The next message if there is one.
    fn next(&self, data: &mut Vec<u8>) -> Result<Next, AssociationError> {
        let now = self.handle.shared.now();
        let mut guard = self.handle.shared.lock();
        let state = &mut *guard;
        let Some(slot) = state.slots.get_mut(&self.handle.id) else {
            return Err(AssociationError::StackStopped("the association is gone".to_owned()));
        };
        loop {
            data.clear();
            let mut take = |part: Payload<'_>| match part {
                Payload::Bytes(bytes) => data.extend_from_slice(bytes),
                Payload::Zeros(len) => data.resize(data.len() + len as usize, 0),
            };
            let Some(received) = state.endpoint.recv(now, self.handle.id, &mut take) else {
                break;
            };
            let before = slot.partial.memory();
            let is_whole = slot.partial.take(&received, data);
            state.partial_memory = state.partial_memory - before + slot.partial.memory();
            if is_whole {
                slot.last_message = now;
                state.wake_driver_for_work();
                return Ok(Next::Message {
                    stream: received.stream,
                    ppid: received.ppid,
                    unordered: received.unordered,
                });
            }
        }
        match (&slot.progress, &state.stopped) {
            (Progress::Closed(reason), _) => Ok(Next::End(reason.clone())),
            (_, Some(why)) => Err(AssociationError::StackStopped(why.clone())),
            _ => {
                state.wake_driver_for_work();
                Ok(Next::Nothing)
            }
        }
    }

    /// Waits until the peer has acknowledged everything sent so far.
    ///
    /// # Errors
    /// If the association has ended, or if messages were given up that [`send_failures`](Self::send_failures) has not returned.
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
    /// restarted (RFC 9260 §11.2.2). Each is returned once, in the order of sending. At most the first 65 536 are kept until they are asked for.
    pub fn send_failures(&self) -> Vec<SendFailure> {
        let mut state = self.handle.shared.lock();
        state.slots.get_mut(&self.handle.id).map_or_else(Vec::new, |slot| {
            slot.failed = 0;
            std::mem::take(&mut slot.send_failures)
        })
    }

    /// Delivers everything that was sent, then ends the association; waits until both ends have agreed. What the peer
    /// still sends meanwhile is to be received, by this task before or another one during the wait.
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

    /// Aborts the association and sends the reason to the peer. What is not yet delivered is lost.
    pub fn abort(&self, reason: &str) {
        let now = self.handle.shared.now();
        let mut state = self.handle.shared.lock();
        state.endpoint.abort(now, self.handle.id, reason);
        state.wake_driver();
    }

    /// Waits until the association has ended; says why it has.
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
        state.endpoint.association(self.handle.id).map(|a| *a.stats())
    }

    /// Its paths: state, windows, round-trip times, and how well each does; empty once it is over and forgotten.
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
    /// Returns false if there is no such path, or if the association is not established.
    pub fn ping(&self, path: PathId, number: u32, bytes: usize) -> bool {
        let now = self.handle.shared.now();
        let mut state = self.handle.shared.lock();
        let is_sent = state.endpoint.ping(now, self.handle.id, path, number, bytes);
        state.wake_driver();
        is_sent
    }

    /// Makes a path the primary one, which carries new data while it is active (RFC 9260 §11.1.6). Returns false if there is no such path.
    pub fn set_primary(&self, path: PathId) -> bool {
        let now = self.handle.shared.now();
        let mut state = self.handle.shared.lock();
        let is_set = state.endpoint.set_primary(now, self.handle.id, path);
        state.wake_driver();
        is_set
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
