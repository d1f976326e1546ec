//! One stream of an association as a stream of bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::association::{Association, Next};
use crate::opened::Wait;
use crate::{AssociationError, CloseReason, Message, TrySendError};

/// Most bytes of a message that a write becomes. A message is delivered when it is complete, so that longer ones would wait longer.
const MESSAGE_BYTES: usize = 16 * 1024;

/// A stream of an association for programs that read and write bytes ([`Association::stream`]): tokio's `copy`, codecs, HTTP libraries.
///
/// Each write becomes one message of at most 16 KiB and no longer than the send buffer, in order; the boundaries of messages have no meaning
/// for the reader. The bytes are read in the order in which the peer wrote them, independently of other streams.
///
/// SCTP ends all streams of an association together. Reading returns the end of the file when the association has been shut down in good
/// order and everything has been read, and an error (`ConnectionReset`, `ConnectionAborted`, `TimedOut`) if it has ended otherwise.
/// `poll_shutdown` ends nothing, because the other direction and other streams would end too: call [`Association::shutdown`].
/// `poll_flush` has nothing to do, because a message is sent as soon as the congestion window allows; [`Association::flush`] waits for
/// acknowledgements.
///
/// # Back-pressure
/// Writing waits while the association's send buffer is full. What is not read stays, and at last the peer has to wait; since all streams
/// share one receive buffer, other streams then wait, too. That holds for messages of streams that were not opened, too: a program whose
/// peer sends on more streams than it has opened calls [`Association::recv`] as well.
///
/// # Restart of the peer
/// A peer that has lost its state and starts again (RFC 9260 §5.2.4 A) does not continue the bytes of a stream. Reading returns what had arrived,
/// then it fails with `ConnectionReset`, as writing does. If the association continues
/// ([`StackConfig::continue_after_restart`](crate::StackConfig::continue_after_restart)), what had arrived and was not read is discarded, and
/// the stream can be dropped and opened again: it then begins with the first byte after the restart.
///
/// # Cancel safety
/// A read or a write that is dropped before it is ready has read or written nothing.
///
/// # Examples
///
/// ```
/// use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
/// # use whimbrel::{Listener, Stack, StackConfig};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let listener = Listener::bind(StackConfig::local(["127.0.0.1:0".parse()?]))?;
/// # let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
/// # let stack = Stack::bind(StackConfig::local(["127.0.0.1:0".parse()?]))?;
/// # let (client, server) = tokio::join!(stack.connect(&addrs, port), listener.accept());
/// # let (client, server) = (client?, server?);
/// let mut commands = client.stream(3)?;
/// commands.write_all(b"start\nstop\n").await?;
///
/// let mut lines = BufReader::new(server.stream(3)?).lines();
/// assert_eq!(lines.next_line().await?.as_deref(), Some("start"));
/// assert_eq!(lines.next_line().await?.as_deref(), Some("stop"));
/// # Ok(())
/// # }
/// ```
pub struct Stream {
    association: Association,
    id: u16,
    ppid: u32,
    /// How often the peer had restarted when it was opened.
    restarts: u32,
    /// What is left of the message that is being read.
    rest: Vec<u8>,
    read: usize,
    readable: Option<Wait>,
    writable: Option<Wait>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Association {
    /// Opens a stream for reading and writing bytes. Its messages go to the returned [`Stream`] from now on, also those that have arrived and
    /// were not received; [`recv`](Self::recv) returns those of other streams.
    ///
    /// # Errors
    /// Returns an error if the stream is open already.
    pub fn stream(&self, stream: u16) -> Result<Stream, AssociationError> {
        let restarts = self.open_stream(stream)?;
        Ok(Stream::new(self.clone(), stream, restarts))
    }
}

impl Stream {
    fn new(association: Association, id: u16, restarts: u32) -> Self {
        Stream {
            association,
            id,
            ppid: 0,
            restarts,
            rest: Vec::new(),
            read: 0,
            readable: None,
            writable: None,
        }
    }

    /// Returns the number of the stream.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Returns the association.
    pub fn association(&self) -> &Association {
        &self.association
    }

    /// Sets the payload protocol identifier of what is written from now on; 0 at first.
    pub fn set_ppid(&mut self, ppid: u32) {
        self.ppid = ppid;
    }

    /// Takes the next message; `Ok(false)` at the end.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            match self.association.next_of_stream(self.id, self.restarts, &mut self.rest) {
                Err(error) => return Poll::Ready(Err(error.into())),
                Ok(Next::Message { .. }) => {
                    self.read = 0;
                    return Poll::Ready(Ok(true));
                }
                Ok(Next::End(CloseReason::Graceful)) => return Poll::Ready(Ok(false)),
                Ok(Next::End(reason)) => return Poll::Ready(Err(AssociationError::Closed(reason).into())),
                Ok(Next::Nothing) => {}
            }
            std::task::ready!(poll_wait(&mut self.readable, cx, || self.association.readable()));
        }
    }
}

/// Waits for a signal. Ready means: look again. A new wait has to notice what comes from then on before the look that decides.
fn poll_wait(wait: &mut Option<Wait>, cx: &mut Context<'_>, new: impl FnOnce() -> Wait) -> Poll<()> {
    if let Some(waiting) = wait {
        std::task::ready!(waiting.as_mut().poll(cx));
        *wait = None;
        return Poll::Ready(());
    }
    let mut waiting = new();
    if waiting.as_mut().poll(cx).is_pending() {
        *wait = Some(waiting);
    }
    Poll::Ready(())
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.read == this.rest.len() && !std::task::ready!(this.poll_message(cx))? {
            return Poll::Ready(Ok(()));
        }
        let left = &this.rest[this.read..];
        let len = left.len().min(buf.remaining());
        buf.put_slice(&left[..len]);
        this.read += len;
        if this.read == this.rest.len() {
            (this.rest, this.read) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let len = buf.len().min(MESSAGE_BYTES).min(this.association.longest_message());
        let mut message = Message::new(this.id, buf[..len].to_vec());
        message.ppid = this.ppid;
        loop {
            message = match this.association.try_send_on_stream(message, this.restarts) {
                Ok(()) => {
                    this.writable = None;
                    return Poll::Ready(Ok(len));
                }
                Err(TrySendError::Full(message)) => message,
                Err(TrySendError::Failed(error)) => return Poll::Ready(Err(error.into())),
            };
            std::task::ready!(poll_wait(&mut this.writable, cx, || this.association.writable()));
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.association.close_stream(self.id, self.restarts);
    }
}

impl From<AssociationError> for io::Error {
    fn from(error: AssociationError) -> Self {
        let kind = match &error {
            AssociationError::Closed(CloseReason::AbortedByPeer { .. } | CloseReason::PeerRestarted) => {
                io::ErrorKind::ConnectionReset
            }
            AssociationError::Closed(
                CloseReason::PeerUnreachable | CloseReason::DataUnanswered | CloseReason::HandshakeTimeout,
            ) => io::ErrorKind::TimedOut,
            AssociationError::Closed(CloseReason::Refused { .. } | CloseReason::KeyRequired) => {
                io::ErrorKind::ConnectionRefused
            }
            AssociationError::Closed(_) | AssociationError::StackStopped(_) => io::ErrorKind::ConnectionAborted,
            AssociationError::ShuttingDown => io::ErrorKind::BrokenPipe,
            AssociationError::Message(_) | AssociationError::MessageTooLong { .. } => io::ErrorKind::InvalidInput,
            AssociationError::Undelivered(_) | AssociationError::PeerRestarted => io::ErrorKind::ConnectionReset,
            AssociationError::StreamInUse(_) => io::ErrorKind::AlreadyExists,
        };
        io::Error::new(kind, error)
    }
}
