//! A TCP connection as a channel of a tunnel.

use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::sync::{Semaphore, mpsc};
use whimbrel::Association;

use super::protocol::{DATA_BYTES, Frame, WINDOW, charge, data_message};

/// How long a program may take for what arrived before its connection broke.
const LAST_WRITES: Duration = Duration::from_secs(5);
/// How long the data of a program that has reset its connection waits for credit.
const LAST_READS: Duration = Duration::from_secs(1);

/// What comes for a channel, in order.
#[derive(Debug)]
enum Incoming {
    Opened,
    Data(Bytes),
    Eof,
}

/// What the tunnel keeps of a channel. Its end ends the channel.
#[derive(Debug)]
pub(crate) struct Entry {
    incoming: mpsc::UnboundedSender<Incoming>,
    closed: oneshot::Sender<String>,
    /// Bytes that may be sent.
    credit: Arc<Semaphore>,
    /// Bytes that the peer may send.
    granted: Arc<AtomicU32>,
    stage: Stage,
}

/// What the peer may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// `Opened`.
    Opening,
    Data,
    /// Nothing but credit.
    Ended,
}

/// The other part: what the task of a channel has.
#[derive(Debug)]
pub(crate) struct Channel {
    incoming: mpsc::UnboundedReceiver<Incoming>,
    closed: oneshot::Receiver<String>,
    carrier: Carrier,
}

#[derive(Debug)]
struct Carrier {
    number: u32,
    association: Association,
    credit: Arc<Semaphore>,
    granted: Arc<AtomicU32>,
}

/// Why a channel ended early.
pub(crate) type Broken = String;

/// Creates a channel. `is_open`: this end does not wait for `Opened`.
pub(crate) fn new(number: u32, association: &Association, is_open: bool) -> (Entry, Channel) {
    // What is queued is limited: data by the credit of the peer, everything else comes once.
    let (incoming, queue) = mpsc::unbounded_channel();
    let (close, closed) = oneshot::channel();
    let credit = Arc::new(Semaphore::new(WINDOW as usize));
    let granted = Arc::new(AtomicU32::new(WINDOW));
    let entry = Entry {
        incoming,
        closed: close,
        credit: credit.clone(),
        granted: granted.clone(),
        stage: if is_open { Stage::Data } else { Stage::Opening },
    };
    let channel = Channel {
        incoming: queue,
        closed,
        carrier: Carrier {
            number,
            association: association.clone(),
            credit,
            granted,
        },
    };
    (entry, channel)
}

impl Entry {
    /// Returns whether the task of the channel has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.closed.is_closed()
    }

    /// The peer has opened the connection.
    ///
    /// # Errors
    /// Returns what is wrong with that.
    pub(crate) fn on_opened(&mut self) -> Result<(), &'static str> {
        if self.stage != Stage::Opening {
            return Err("an answer to no request");
        }
        self.stage = Stage::Data;
        self.pass(Incoming::Opened);
        Ok(())
    }

    /// Takes data of the peer.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub(crate) fn on_data(&mut self, data: Bytes) -> Result<(), &'static str> {
        match self.stage {
            _ if data.is_empty() => return Err("empty data"),
            Stage::Opening => return Err("data before its answer"),
            Stage::Ended => return Err("data after the end of data"),
            Stage::Data => {}
        }
        let left = |granted: u32| granted.checked_sub(charge(data.len()));
        self.granted
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
            .map_err(|_| "more data than it was allowed to")?;
        self.pass(Incoming::Data(data));
        Ok(())
    }

    /// The peer has no more data.
    ///
    /// # Errors
    /// Returns what is wrong with that.
    pub(crate) fn on_eof(&mut self) -> Result<(), &'static str> {
        match self.stage {
            Stage::Opening => return Err("the end of data before its answer"),
            Stage::Ended => return Err("an end of data after the end of data"),
            Stage::Data => self.stage = Stage::Ended,
        }
        self.pass(Incoming::Eof);
        Ok(())
    }

    /// Takes credit of the peer.
    ///
    /// # Errors
    /// Returns an error if it is more than what was used.
    pub(crate) fn on_credit(&self, bytes: u32) -> Result<(), &'static str> {
        if self.credit.available_permits() + bytes as usize > WINDOW as usize {
            return Err("credit for data that was not sent");
        }
        self.credit.add_permits(bytes as usize);
        Ok(())
    }

    /// The peer has ended the channel.
    pub(crate) fn close(self, why: String) {
        // The channel may have ended.
        let _ = self.closed.send(why);
    }

    fn pass(&self, incoming: Incoming) {
        // The channel may have ended.
        let _ = self.incoming.send(incoming);
    }
}

/// A connection that is reset at its end unless both directions have ended in order, so that programs notice.
#[derive(Debug)]
pub(crate) struct Connection {
    tcp: TcpStream,
    is_complete: bool,
}

impl Connection {
    pub(crate) fn new(tcp: TcpStream) -> Self {
        let _ = tcp.set_nodelay(true);
        let is_complete = false;
        Connection { tcp, is_complete }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.is_complete {
            let _ = self.tcp.set_zero_linger();
        }
    }
}

impl Channel {
    pub(crate) fn number(&self) -> u32 {
        self.carrier.number
    }

    /// Waits until the peer has opened the connection.
    ///
    /// # Errors
    /// Returns an error if it does not.
    pub(crate) async fn opened(&mut self) -> Result<(), Broken> {
        match self.incoming.recv().await {
            Some(Incoming::Opened) => Ok(()),
            _ => Err(why_closed(self.closed.try_recv().ok())),
        }
    }

    /// Carries data in both directions until both have ended, the connection breaks, or the peer or the tunnel ends the channel.
    pub(crate) async fn run(mut self, mut connection: Connection) {
        let outcome = self.carry(&mut connection.tcp).await;
        connection.is_complete = outcome.is_ok();
        drop(connection);
        let is_known_to_peer = self.closed.try_recv() != Err(TryRecvError::Empty);
        if let Err(why) = outcome
            && !is_known_to_peer
        {
            let _ = self.carrier.send(Frame::Close(self.carrier.number, why)).await;
        }
    }

    async fn carry(&mut self, tcp: &mut TcpStream) -> Result<(), Broken> {
        let (reader, writer) = tcp.split();
        let carrier = &self.carrier;
        let has_all = AtomicBool::new(false);
        let mut carry_in = pin!(async {
            let outcome = carrier.carry_in(writer, &mut self.incoming).await;
            has_all.store(true, Ordering::Relaxed);
            outcome
        });
        let why = tokio::select! {
            biased;
            both = async { tokio::try_join!(carrier.carry_out(&reader), carry_in.as_mut()) } => return both.map(drop),
            why = &mut self.closed => why_closed(why.ok()),
            why = broken(&reader) => return Err(why),
        };
        if !has_all.load(Ordering::Relaxed) {
            // What came before is written; the queue has an end now.
            let _ = tokio::time::timeout(LAST_WRITES, carry_in).await;
        }
        Err(why)
    }
}

impl Carrier {
    async fn send(&self, frame: Frame) -> Result<(), Broken> {
        let sent = self.association.send(frame.into_message()).await;
        sent.map_err(|error| error.to_string())
    }

    /// From TCP to the association.
    async fn carry_out(&self, tcp: &ReadHalf<'_>) -> Result<(), Broken> {
        let mut buffer = vec![0; DATA_BYTES];
        loop {
            let credit = self.credit.acquire_many(DATA_BYTES as u32).await;
            let Ok(credit) = credit else { return Ok(()) };
            credit.forget();
            let len = read(tcp, &mut buffer).await?;
            if len == 0 {
                return self.send(Frame::Eof(self.number)).await;
            }
            self.credit.add_permits(DATA_BYTES - charge(len) as usize);
            let sent = self.association.send(data_message(self.number, &buffer[..len])).await;
            sent.map_err(|error| error.to_string())?;
        }
    }

    /// From the association to TCP.
    async fn carry_in(
        &self,
        mut writer: WriteHalf<'_>,
        incoming: &mut mpsc::UnboundedReceiver<Incoming>,
    ) -> Result<(), Broken> {
        let mut written = 0;
        loop {
            match incoming.recv().await {
                Some(Incoming::Data(data)) => {
                    writer.write_all(&data).await.map_err(|error| error.to_string())?;
                    written += charge(data.len());
                    if written >= WINDOW / 4 {
                        self.granted.fetch_add(written, Ordering::Relaxed);
                        self.send(Frame::Credit(self.number, written)).await?;
                        written = 0;
                    }
                }
                Some(Incoming::Eof) => return writer.shutdown().await.map_err(|error| error.to_string()),
                Some(Incoming::Opened) => {}
                None => return Err(why_closed(None)),
            }
        }
    }
}

fn why_closed(why: Option<String>) -> Broken {
    why.unwrap_or_else(|| "the tunnel has ended".to_owned())
}

async fn read(tcp: &ReadHalf<'_>, buffer: &mut [u8]) -> Result<usize, Broken> {
    loop {
        tcp.readable().await.map_err(|error| error.to_string())?;
        match tcp.try_read(buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            read => return read.map_err(|error| error.to_string()),
        }
    }
}

/// Waits until a connection has failed, and for what can still be read of it. It is noticed so even while nothing is read or written,
/// because the peer gives no credit or one direction has ended.
async fn broken(tcp: &ReadHalf<'_>) -> Broken {
    match tcp.ready(Interest::ERROR).await {
        Ok(_) => {
            tokio::time::sleep(LAST_READS).await;
            "the connection was reset".to_owned()
        }
        Err(error) => error.to_string(),
    }
}
