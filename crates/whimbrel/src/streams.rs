//! Changes of the streams of an association (RFC 6525), for its user.

use whimbrel_proto::{StreamChange, StreamChangeError};

use crate::association::Association;
use crate::shared::Progress;
use crate::stream_changes::{Answer, StreamChanges};
use crate::{AssociationError, CloseReason};

/// Why the streams of an association were not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeStreamsError {
    /// The change cannot be requested.
    #[error(transparent)]
    Request(#[from] StreamChangeError),
    /// The peer refused, with this result code (RFC 6525 §4.4): 2, it is not willing; 3, it has no such stream; 4, another change is in progress;
    /// 1 or 5, it had accepted the change, and has not made it (completely).
    #[error("the peer refused the change of streams, with result {0}")]
    Refused(u32),
    /// The association ended, or the peer restarted.
    #[error(transparent)]
    Association(#[from] AssociationError),
}

/// A user who waits for the answer to a request.
struct WaitingAnswer<'a> {
    association: &'a Association,
    id: u64,
}

impl Drop for WaitingAnswer<'_> {
    fn drop(&mut self) {
        let handle = self.association.handle();
        if let Some(slot) = handle.shared.lock().slots.get_mut(&handle.id) {
            slot.streams.forget(self.id);
        }
    }
}

impl Association {
    /// Resets streams or adds some (RFC 6525), and waits until the peer has answered: its user must have read everything that was sent
    /// before on streams that this end resets. Messages sent meanwhile on such streams follow the reset, and
    /// count in the send buffer until then: two programs that both wait here before they read wait for each other. A reset shows both users where
    /// one use of a stream ends and the next one begins. With [`AssociationConfig::stream_changes`](crate::AssociationConfig::stream_changes) on
    /// at both ends, which it is by default.
    ///
    /// # Errors
    /// Returns an error if the change cannot be requested, or if the peer refuses it.
    ///
    /// # Cancel safety
    /// If the returned future is dropped before it is ready, the change is requested all the same.
    ///
    /// # Examples
    ///
    /// ```
    /// # use whimbrel::{Association, ChangeStreamsError, StreamChange, StreamList};
    /// /// Ends the use of a stream in the direction to the peer.
    /// async fn end(association: &Association, stream: u16) -> Result<(), ChangeStreamsError> {
    ///     association.change_streams(StreamChange::ResetOutbound(StreamList::of([stream]))).await
    /// }
    /// ```
    pub async fn change_streams(&self, change: StreamChange) -> Result<(), ChangeStreamsError> {
        let handle = self.handle();
        let waiting = {
            let now = handle.shared.now();
            let mut state = handle.shared.lock();
            state.endpoint.change_streams(now, handle.id, change.clone())?;
            let Some(slot) = state.slots.get_mut(&handle.id) else {
                return Err(AssociationError::Closed(CloseReason::Graceful).into());
            };
            let id = slot.streams.request(change);
            state.wake_driver();
            WaitingAnswer { association: self, id }
        };
        match self.when_streams(|changes| changes.take_answer(waiting.id)).await? {
            Answer::Done => Ok(()),
            Answer::Refused(result) => Err(ChangeStreamsError::Refused(result)),
            Answer::Lost => Err(AssociationError::PeerRestarted.into()),
        }
    }

    /// Waits for the next change of streams that the peer has requested, and that has been made. Once inbound streams were reset,
    /// [`recv`](Self::recv) has returned everything that the peer sent before on them, and returns only what it sent after. Up to 256 changes are kept for a user
    /// who does not ask, and further ones are not reported.
    ///
    /// # Errors
    /// Returns an error if the association has ended.
    pub async fn next_stream_change(&self) -> Result<StreamChange, AssociationError> {
        self.when_streams(|changes| changes.take_by_peer()).await
    }

    async fn when_streams<T>(
        &self,
        mut take: impl FnMut(&mut StreamChanges) -> Option<T>,
    ) -> Result<T, AssociationError> {
        let handle = self.handle();
        loop {
            let changed = handle.signals.progress.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut state = handle.shared.lock();
                if let Some(why) = &state.stopped {
                    return Err(AssociationError::StackStopped(why.clone()));
                }
                let Some(slot) = state.slots.get_mut(&handle.id) else {
                    return Err(AssociationError::Closed(CloseReason::Graceful));
                };
                if let Some(taken) = take(&mut slot.streams) {
                    return Ok(taken);
                }
                if let Progress::Closed(reason) = &slot.progress {
                    return Err(AssociationError::Closed(reason.clone()));
                }
            }
            changed.await;
        }
    }
}
