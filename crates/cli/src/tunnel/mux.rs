//! The channels of an association.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use whimbrel::Association;

use super::channel::{self, Channel, Entry, Incoming};
use super::device::Device;
use super::forward::{Allowed, Target};
use super::protocol::Frame;
use crate::transfer::console::Console;
use crate::transfer::failure::Failure;

/// Channels of an association at a time.
const MAX_CHANNELS: usize = 256;
/// How long a connection to a target may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// An association that carries channels and packets. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Mux {
    /// Distinguishes it from others.
    pub(crate) number: u64,
    association: Association,
    channels: Arc<Mutex<Channels>>,
    console: Console,
}

#[derive(Debug, Default)]
struct Channels {
    open: BTreeMap<u32, Entry>,
    next: u32,
}

/// What this end does for the peer.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// The targets that the peer may ask for; none at the connecting end.
    pub(crate) allowed: Option<Arc<Allowed>>,
    /// Where packets go, if there is a device.
    pub(crate) device: Option<Arc<Device>>,
}

impl Mux {
    pub(crate) fn new(association: Association, console: &Console) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Mux {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            association,
            channels: Arc::default(),
            console: console.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a channel for a connection and carries it to its end.
    pub(crate) async fn carry(&self, tcp: TcpStream, target: &Target) {
        let channel = {
            let mut channels = self.lock();
            if channels.open.len() >= MAX_CHANNELS {
                self.console.note(format!(
                    "warning: a connection was refused: there are {MAX_CHANNELS} already"
                ));
                return;
            }
            // A number in use is one of a connection that has lasted for 2^32 others.
            while channels.open.contains_key(&channels.next) {
                channels.next = channels.next.wrapping_add(1);
            }
            let number = channels.next;
            channels.next = number.wrapping_add(1);
            let (entry, channel) = channel::new(number, &self.association);
            channels.open.insert(number, entry);
            channel
        };
        let number = channel.number;
        if let Err(why) = self.open_and_run(channel, tcp, target).await {
            self.console.note(format!("connection to {target}: {why}"));
        }
        self.lock().open.remove(&number);
    }

    async fn open_and_run(&self, mut channel: Channel, tcp: TcpStream, target: &Target) -> Result<(), String> {
        let open = Frame::Open(channel.number, target.to_string());
        let sent = self.association.send(open.into_message()).await;
        sent.map_err(|error| error.to_string())?;
        channel.opened().await?;
        let _ = channel.run(tcp).await;
        Ok(())
    }

    /// Handles messages of the peer until the association ends.
    ///
    /// # Errors
    /// Returns an error if the association fails, or if the peer breaks the protocol.
    pub(crate) async fn serve(&self, service: &Service) -> Result<(), Failure> {
        let wrong = |what: &str| Failure::file(format!("the other end sent {what}"));
        let mut has_packets = false;
        while let Some(message) = self.association.recv().await? {
            let frame = Frame::from_message(message).map_err(wrong)?;
            match frame {
                Frame::Packet(packet) => {
                    if let Some(device) = &service.device {
                        // Packets for the peer go to the one that has sent some last.
                        if !std::mem::replace(&mut has_packets, true) {
                            device.attach(self.number, &self.association);
                        }
                        device.write(&packet);
                    }
                }
                Frame::Open(number, target) => match &service.allowed {
                    Some(allowed) => self.on_open(number, target, allowed).await?,
                    None => return Err(wrong("a request to connect")),
                },
                Frame::Hello(_) => return Err(wrong("a second greeting")),
                Frame::Opened(number) => self.pass(number, Incoming::Opened),
                Frame::Eof(number) => self.pass(number, Incoming::Eof),
                Frame::Close(number, why) => self.pass(number, Incoming::Close(why)),
                Frame::Data(number, data) => {
                    if let Some(entry) = self.lock().open.get(&number)
                        && !entry.take(data)
                    {
                        return Err(wrong("more data than it was allowed to"));
                    }
                }
                Frame::Credit(number, bytes) => {
                    if let Some(entry) = self.lock().open.get(&number)
                        && !entry.add_credit(bytes)
                    {
                        return Err(wrong("credit for data that was not sent"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends all channels: their queues are dropped.
    pub(crate) fn end(&self) {
        self.lock().open.clear();
    }

    /// Hands a message to its channel, which may have ended.
    fn pass(&self, number: u32, incoming: Incoming) {
        if let Some(entry) = self.lock().open.get(&number) {
            let _ = entry.incoming.send(incoming);
        }
    }

    /// The peer asks for a connection.
    async fn on_open(&self, number: u32, target: String, allowed: &Arc<Allowed>) -> Result<(), Failure> {
        let refusal = {
            let mut channels = self.lock();
            if channels.open.contains_key(&number) {
                return Err(Failure::file(
                    "the other end sent the number of a channel that is in use",
                ));
            }
            match allowed.check(&target) {
                Ok(_) if channels.open.len() >= MAX_CHANNELS => Err("too many connections".to_owned()),
                Ok(target) => {
                    let (entry, channel) = channel::new(number, &self.association);
                    channels.open.insert(number, entry);
                    Ok((target, channel))
                }
                Err(why) => Err(why),
            }
        };
        match refusal {
            Ok((target, channel)) => {
                let mux = self.clone();
                tokio::spawn(async move {
                    mux.connect_and_run(channel, &target).await;
                    mux.lock().open.remove(&number);
                });
            }
            Err(why) => {
                self.console.note(format!(
                    "refused a connection to {}: {why}",
                    crate::transfer::frame::printable(&target)
                ));
                self.association.send(Frame::Close(number, why).into_message()).await?;
            }
        }
        Ok(())
    }

    async fn connect_and_run(&self, channel: Channel, target: &Target) {
        let connecting = TcpStream::connect((target.host.as_str(), target.port));
        let connected = match tokio::time::timeout(CONNECT_PATIENCE, connecting).await {
            Ok(connected) => connected.map_err(|error| error.to_string()),
            Err(_) => Err("no answer".to_owned()),
        };
        let answer = match &connected {
            Ok(_) => Frame::Opened(channel.number),
            Err(why) => Frame::Close(channel.number, format!("cannot connect to {target}: {why}")),
        };
        if self.association.send(answer.into_message()).await.is_err() {
            return;
        }
        match connected {
            Ok(tcp) => drop(channel.run(tcp).await),
            Err(why) => self.console.note(format!("cannot connect to {target}: {why}")),
        }
    }
}
