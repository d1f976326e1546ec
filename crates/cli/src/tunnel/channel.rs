//! A TCP connection as a channel of a tunnel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc};
use whimbrel::Association;

use super::protocol::{DATA_BYTES, Frame, NUMBER_BYTES, WINDOW, data_message};

/// What comes for a channel.
#[derive(Debug)]
pub(crate) enum Incoming {
    Opened,
    Data(Bytes),
    Eof,
    Close(String),
}

/// What the tunnel keeps of a channel.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) incoming: mpsc::UnboundedSender<Incoming>,
    /// Bytes that may be sent.
    pub(crate) credit: Arc<Semaphore>,
    /// Bytes that the peer may send.
    pub(crate) granted: Arc<AtomicU32>,
}

/// The other part: what the task of a channel has.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) number: u32,
    pub(crate) association: Association,
    incoming: mpsc::UnboundedReceiver<Incoming>,
    credit: Arc<Semaphore>,
    granted: Arc<AtomicU32>,
}

/// Why a channel ended early.
pub(crate) type Broken = String;

pub(crate) fn new(number: u32, association: &Association) -> (Entry, Channel) {
    // What is queued is limited by the credit of the peer.
    let (incoming, queue) = mpsc::unbounded_channel();
    let credit = Arc::new(Semaphore::new(WINDOW as usize));
    let granted = Arc::new(AtomicU32::new(WINDOW));
    let entry = Entry {
        incoming,
        credit: credit.clone(),
        granted: granted.clone(),
    };
    let channel = Channel {
        number,
        association: association.clone(),
        incoming: queue,
        credit,
        granted,
    };
    (entry, channel)
}

impl Entry {
    /// Takes data of the peer. Returns false if it had no credit for that.
    pub(crate) fn take(&self, data: Bytes) -> bool {
        let len = data.len() as u32;
        let has_credit = self
            .granted
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |granted| granted.checked_sub(len))
            .is_ok();
        if has_credit {
            // The channel may have ended.
            let _ = self.incoming.send(Incoming::Data(data));
        }
        has_credit
    }

    /// Takes credit of the peer. Returns false if it is more than what was used.
    pub(crate) fn add_credit(&self, bytes: u32) -> bool {
        let has_room = self.credit.available_permits() + bytes as usize <= WINDOW as usize;
        if has_room {
            self.credit.add_permits(bytes as usize);
        }
        has_room
    }
}

impl Channel {
    async fn send(&self, frame: Frame) -> Result<(), Broken> {
        let sent = self.association.send(frame.into_message()).await;
        sent.map_err(|error| error.to_string())
    }

    /// Waits until the peer has opened the connection.
    pub(crate) async fn opened(&mut self) -> Result<(), Broken> {
        match self.incoming.recv().await {
            Some(Incoming::Opened) => Ok(()),
            Some(Incoming::Close(why)) => Err(why),
            _ => Err("the other end did not open the connection".to_owned()),
        }
    }

    /// Carries data in both directions until both have ended.
    pub(crate) async fn run(mut self, tcp: TcpStream) -> Result<(), Broken> {
        let _ = tcp.set_nodelay(true);
        let (reader, writer) = tcp.into_split();
        let (ended, queue) = mpsc::unbounded_channel();
        let mut incoming = std::mem::replace(&mut self.incoming, queue);
        drop(ended);
        let outcome = tokio::try_join!(self.carry_out(reader), self.carry_in(writer, &mut incoming));
        if outcome.is_err() {
            let _ = self.send(Frame::Close(self.number, String::new())).await;
        }
        outcome.map(drop)
    }

    /// From TCP to the association.
    async fn carry_out(&self, mut reader: OwnedReadHalf) -> Result<(), Broken> {
        loop {
            let credit = self.credit.acquire_many(DATA_BYTES as u32).await;
            let Ok(credit) = credit else { return Ok(()) };
            credit.forget();
            let mut payload = BytesMut::zeroed(NUMBER_BYTES + DATA_BYTES);
            let len = reader
                .read(&mut payload[NUMBER_BYTES..])
                .await
                .map_err(|error| error.to_string())?;
            self.credit.add_permits(DATA_BYTES - len);
            if len == 0 {
                return self.send(Frame::Eof(self.number)).await;
            }
            payload.truncate(NUMBER_BYTES + len);
            let sent = self.association.send(data_message(self.number, payload)).await;
            sent.map_err(|error| error.to_string())?;
        }
    }

    /// From the association to TCP.
    async fn carry_in(
        &self,
        mut writer: OwnedWriteHalf,
        incoming: &mut mpsc::UnboundedReceiver<Incoming>,
    ) -> Result<(), Broken> {
        let mut written = 0;
        loop {
            match incoming.recv().await {
                Some(Incoming::Data(data)) => {
                    writer.write_all(&data).await.map_err(|error| error.to_string())?;
                    written += data.len() as u32;
                    if written >= WINDOW / 4 {
                        self.granted.fetch_add(written, Ordering::Relaxed);
                        self.send(Frame::Credit(self.number, written)).await?;
                        written = 0;
                    }
                }
                Some(Incoming::Eof) => return writer.shutdown().await.map_err(|error| error.to_string()),
                Some(Incoming::Close(why)) => return Err(why),
                Some(Incoming::Opened) => {}
                None => return Err("the tunnel has ended".to_owned()),
            }
        }
    }
}
