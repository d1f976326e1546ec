//! The channels of an association.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use whimbrel::{Association, AssociationError, ReceivedMessage};

use super::channel::{self, Channel, Connection, Entry};
use super::datagrams::Source;
use super::device::Device;
use super::flows::{Flows, Queued, Sending, UdpPort};
use super::forward::{Allowed, Protocol, Target};
use super::limits::Limits;
use super::link::Link;
use super::lookups::{ClientLookups, Lookups};
use super::order::Order;
use super::protocol::{Frame, InOrder, datagram_message};
use super::remote::Remote;
use super::reports::Reports;
use crate::transfer::console::Console;
use crate::transfer::failure::Failure;
use crate::transfer::frame::printable;
use crate::transfer::idle::{Patience, is_keep_alive};
use crate::transfer::paths;

/// How long a connection to a target may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Time between two reports that clients use the same address.
const CONTEST_PAUSE: Duration = Duration::from_secs(60);

/// An association that carries channels and packets. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Mux {
    pub(crate) link: Link,
    channels: Arc<Mutex<Channels>>,
    reports: Reports,
    most_connections: usize,
}

#[derive(Debug)]
struct Channels {
    open: BTreeMap<u32, Entry>,
    flows: Flows,
    next: u32,
}

impl Channels {
    fn is_in_use(&self, number: u32) -> bool {
        self.open.contains_key(&number) || self.flows.contains(number)
    }

    /// Returns a number for a new channel.
    fn number(&mut self) -> u32 {
        // A number in use is one of a connection that has lasted for 2^32 others.
        while self.is_in_use(self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }
}

/// What this end does for the peer.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// The targets that the peer may ask for; none at the connecting end.
    pub(crate) allowed: Option<Arc<Allowed>>,
    /// Where packets go, if there is a device.
    pub(crate) device: Option<Arc<Device>>,
    /// Flows end after this time without datagrams.
    pub(crate) udp_idle: Duration,
    /// How long a server lets a client be idle.
    pub(crate) patience: Option<Patience>,
    pub(crate) lookups: Lookups,
    pub(crate) limits: Limits,
}

impl Service {
    /// Waits for the peer.
    ///
    /// # Errors
    /// Returns an error if that takes too long.
    pub(crate) async fn wait<T>(&self, waiting: impl Future<Output = T>) -> Result<T, Failure> {
        match self.patience {
            Some(patience) => patience.within(waiting).await,
            None => Ok(waiting.await),
        }
    }
}

/// Tasks for the peer, which end with the association.
struct Tasks {
    /// Of TCP connections.
    channels: JoinSet<()>,
    /// Of an address that another client has.
    contest: JoinSet<()>,
    /// The part of the lookups that is for the peer.
    lookups: ClientLookups,
}

/// Why an association is served no longer.
#[derive(Debug)]
pub(crate) enum ServeEnd {
    /// It has failed.
    Association(AssociationError),
    /// The peer has broken the protocol.
    Protocol(String),
    /// The peer is idle.
    Idle(Failure),
}

impl From<AssociationError> for ServeEnd {
    fn from(error: AssociationError) -> Self {
        ServeEnd::Association(error)
    }
}

impl From<ServeEnd> for Failure {
    fn from(end: ServeEnd) -> Self {
        match end {
            ServeEnd::Association(error) => error.into(),
            ServeEnd::Protocol(what) => Failure::file(what),
            ServeEnd::Idle(failure) => failure,
        }
    }
}

fn wrong(what: &str) -> ServeEnd {
    ServeEnd::Protocol(format!("the other end sent {what}"))
}

impl Mux {
    pub(crate) fn new(association: Association, console: &Console, limits: &Limits) -> Self {
        let channels = Channels {
            open: BTreeMap::new(),
            flows: Flows::new(limits.flows as usize),
            next: 0,
        };
        Mux {
            link: Link::new(association),
            channels: Arc::new(Mutex::new(channels)),
            reports: Reports::new(console),
            most_connections: limits.connections as usize,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a channel for a connection and carries it to its end.
    pub(crate) async fn carry(&self, tcp: TcpStream, target: &Target) {
        let connection = Connection::new(tcp);
        let channel = {
            let mut channels = self.lock();
            if channels.open.len() >= self.most_connections {
                self.reports.note(format!(
                    "warning: a connection was refused: there are {} already; see --max-connections",
                    self.most_connections
                ));
                return;
            }
            let number = channels.number();
            let (entry, channel) = channel::new(number, &self.link.association, false);
            channels.open.insert(number, entry);
            channel
        };
        let number = channel.number();
        if let Err(why) = self.open_and_run(channel, connection, target).await {
            self.reports.note(format!("connection to {target}: {why}"));
        }
        self.forget(number);
    }

    async fn open_and_run(&self, mut channel: Channel, connection: Connection, target: &Target) -> Result<(), String> {
        let open = Frame::Open(channel.number(), target.to_string());
        let sent = self.link.association.send(open.into_message()).await;
        sent.map_err(|error| error.to_string())?;
        channel.opened().await?;
        channel.run(connection).await;
        Ok(())
    }

    /// The task of a channel has ended. The peer may have closed the channel and opened another one with its number.
    fn forget(&self, number: u32) {
        let mut channels = self.lock();
        if channels.open.get(&number).is_some_and(Entry::is_over) {
            channels.open.remove(&number);
        }
    }

    /// Returns the address from which the peer has opened the association: it is the first.
    fn peer_ip(&self) -> IpAddr {
        let addrs = self.link.association.peer_addrs();
        addrs.first().map_or(Ipv6Addr::UNSPECIFIED.into(), SocketAddr::ip)
    }

    /// Handles messages of the peer until the association ends. Dropped, it ends the connections to targets.
    ///
    /// # Errors
    /// Returns an error if the association fails, or if the peer breaks the protocol.
    pub(crate) async fn serve(&self, service: &Service) -> Result<(), ServeEnd> {
        let mut tasks = Tasks {
            channels: JoinSet::new(),
            contest: JoinSet::new(),
            lookups: service.lookups.of_client(self.peer_ip()),
        };
        let sweep = async {
            let mut sweep = tokio::time::interval(service.udp_idle / 4);
            loop {
                sweep.tick().await;
                let idle = self.lock().flows.remove_idle(service.udp_idle, Instant::now());
                idle.into_iter().for_each(|number| self.close_flow(number));
            }
        };
        let receive = async {
            let mut order = Order::default();
            loop {
                let received = service.wait(self.next(service, &mut tasks, &mut order)).await;
                let Some(message) = received.map_err(ServeEnd::Idle)?? else {
                    order.flush(&mut |packet| self.deliver(&packet, service, &mut tasks));
                    return Ok(());
                };
                if is_keep_alive(message.ppid) {
                    continue;
                }
                let frame = Frame::from_message(message).map_err(wrong)?;
                // It may have to wait until the peer takes an answer.
                let handled = service
                    .wait(self.on_frame(frame, service, &mut tasks, &mut order))
                    .await;
                handled.map_err(ServeEnd::Idle)??;
            }
        };
        tokio::select! {
            received = receive => received,
            () = sweep => Ok(()),
        }
    }

    /// Waits for the next message of the peer. Packets that have waited long enough for others are delivered first, also while messages come all the
    /// time.
    async fn next(
        &self,
        service: &Service,
        tasks: &mut Tasks,
        order: &mut Order,
    ) -> Result<Option<ReceivedMessage>, AssociationError> {
        loop {
            let (due, now) = (order.due(), Instant::now());
            if due.is_some_and(|due| due <= now) {
                order.on_time(now, &mut |packet| self.deliver(&packet, service, tasks));
                continue;
            }
            tokio::select! {
                received = self.link.association.recv() => return received,
                () = until(due) => {}
            }
        }
    }

    async fn on_frame(
        &self,
        frame: Frame,
        service: &Service,
        tasks: &mut Tasks,
        order: &mut Order,
    ) -> Result<(), ServeEnd> {
        match frame {
            Frame::Packet(packet) => {
                self.deliver(&packet, service, tasks);
                Ok(())
            }
            Frame::InOrder(InOrder {
                flow,
                number,
                wait_ms,
                packet,
            }) => {
                let wait = Duration::from_millis(wait_ms.into());
                let mut deliver = |packet: Bytes| self.deliver(&packet, service, tasks);
                order.on_packet(flow, number, packet, Instant::now(), wait, &mut deliver);
                Ok(())
            }
            Frame::Datagram(number, datagram) => {
                self.lock().flows.on_datagram(number, datagram, Instant::now());
                Ok(())
            }
            Frame::Open(number, target) => match &service.allowed {
                Some(allowed) => self.on_open(number, target, allowed, tasks).await,
                None => Err(wrong("a request to connect")),
            },
            Frame::Hello(..) | Frame::Accepted(_) => Err(wrong("a second greeting")),
            Frame::Opened(_) if service.allowed.is_some() => Err(wrong("an answer to no request")),
            Frame::Close(number, why) => {
                self.on_close(number, why);
                Ok(())
            }
            Frame::Opened(number) => self.on_opened(number).map_err(wrong),
            Frame::Eof(number) => self.with(number, Entry::on_eof).map_err(wrong),
            Frame::Data(number, data) => self.with(number, |entry| entry.on_data(data)).map_err(wrong),
            Frame::Credit(number, bytes) => self.with(number, |entry| entry.on_credit(bytes)).map_err(wrong),
        }
    }

    /// Gives a packet of the peer to the device, if there is one.
    fn deliver(&self, packet: &[u8], service: &Service, tasks: &mut Tasks) {
        if let Some(device) = &service.device
            && let Some((addr, owner)) = device.take(&self.link, packet)
        {
            self.on_contest(addr, owner, tasks);
        }
    }

    /// Hands a message to its channel, which may have ended.
    fn with(&self, number: u32, take: impl FnOnce(&mut Entry) -> Result<(), &'static str>) -> Result<(), &'static str> {
        self.lock().open.get_mut(&number).map_or(Ok(()), take)
    }

    fn on_opened(&self, number: u32) -> Result<(), &'static str> {
        let mut channels = self.lock();
        if let Some(entry) = channels.open.get_mut(&number) {
            entry.on_opened()
        } else if channels.flows.on_opened(number) {
            Ok(())
        } else {
            Err("an answer to no request")
        }
    }

    fn on_close(&self, number: u32, why: String) {
        let mut channels = self.lock();
        if let Some(entry) = channels.open.remove(&number) {
            entry.close(why);
        } else if let Some(target) = channels.flows.on_close(number, !why.is_empty(), Instant::now()) {
            self.reports.note(format!("datagrams to {target}: {why}"));
        }
    }

    /// Ends all channels.
    pub(crate) fn end(&self) {
        self.reports.end();
        let mut channels = self.lock();
        channels.open.clear();
        channels.flows.clear();
    }

    /// The peer asks for a connection or for a flow of datagrams.
    async fn on_open(
        &self,
        number: u32,
        target: String,
        allowed: &Arc<Allowed>,
        tasks: &mut Tasks,
    ) -> Result<(), ServeEnd> {
        while tasks.channels.try_join_next().is_some() {}
        let refusal = {
            let mut channels = self.lock();
            if channels.is_in_use(number) {
                return Err(wrong("the number of a channel that is in use"));
            }
            match allowed.check(&target) {
                Ok(target) if target.protocol == Protocol::Udp => {
                    let replaced = channels.flows.make_room();
                    channels.flows.add_target(number, Instant::now(), |queue| {
                        let (mux, lookups) = (self.clone(), tasks.lookups.clone());
                        tokio::spawn(async move { mux.serve_flow(number, &target, queue, &lookups).await })
                            .abort_handle()
                    });
                    drop(channels);
                    replaced.into_iter().for_each(|number| self.close_flow(number));
                    return Ok(());
                }
                // Connections that the peer has closed count as long as their tasks last.
                Ok(_) if tasks.channels.len() >= self.most_connections => Err("too many connections".to_owned()),
                Ok(target) => {
                    let (entry, channel) = channel::new(number, &self.link.association, true);
                    channels.open.insert(number, entry);
                    Ok((target, channel))
                }
                Err(why) => Err(why),
            }
        };
        match refusal {
            Ok((target, channel)) => {
                let (mux, lookups) = (self.clone(), tasks.lookups.clone());
                tasks.channels.spawn(async move {
                    mux.connect_and_run(channel, &target, &lookups).await;
                    mux.forget(number);
                });
            }
            Err(why) => {
                self.reports
                    .note(format!("refused a connection to {}: {why}", printable(&target)));
                let refusal = Frame::Close(number, why).into_message();
                self.link.association.send(refusal).await?;
            }
        }
        Ok(())
    }

    async fn connect_and_run(&self, channel: Channel, target: &Target, lookups: &ClientLookups) {
        let connecting = async { TcpStream::connect(&lookups.addrs(target).await?[..]).await };
        let connected = in_time(connecting).await;
        let answer = match &connected {
            Ok(_) => Frame::Opened(channel.number()),
            Err(why) => Frame::Close(channel.number(), format!("cannot connect to {target}: {why}")),
        };
        let connected = connected.map(Connection::new);
        if self.link.association.send(answer.into_message()).await.is_err() {
            return;
        }
        match connected {
            Ok(connection) => channel.run(connection).await,
            Err(why) => self.reports.note(format!("cannot connect to {target}: {why}")),
        }
    }

    /// A program has sent a datagram to a local port.
    pub(crate) fn on_local_datagram(&self, port: &UdpPort, source: Source, datagram: &[u8]) {
        let now = Instant::now();
        let mut channels = self.lock();
        let (flow, is_open) = match channels.flows.on_local(port.index, source, now) {
            Sending::On { flow, is_open } => (flow, is_open),
            Sending::Not => return,
            Sending::OnNewFlow => {
                let replaced = channels.flows.make_room();
                let number = channels.number();
                let open = || Frame::Open(number, port.target.to_string()).into_message();
                let is_sent = self.link.offer(open);
                if is_sent {
                    channels.flows.add_source(number, port.clone(), source, now);
                }
                replaced.into_iter().for_each(|number| self.close_flow(number));
                if !is_sent {
                    return;
                }
                (number, false)
            }
        };
        drop(channels);
        // Until the flow is open, datagrams follow its request in order.
        self.link.offer_in_time(|| datagram_message(flow, datagram, is_open));
    }

    /// Exchanges datagrams with a target.
    async fn serve_flow(
        &self,
        number: u32,
        target: &Target,
        mut queue: mpsc::Receiver<Queued>,
        lookups: &ClientLookups,
    ) {
        let opening = async { Remote::open(lookups.addrs(target).await?).await };
        let mut remote = match in_time(opening).await {
            Ok(remote) => remote,
            Err(why) => {
                let why = format!("cannot reach {target}: {why}");
                self.reports.note(&why);
                let _ = self
                    .link
                    .association
                    .send(Frame::Close(number, why).into_message())
                    .await;
                return self.lock().flows.remove(number);
            }
        };
        let opened = Frame::Opened(number).into_message();
        if self.link.association.send(opened).await.is_err() {
            return;
        }
        let mut buffer = vec![0; 65_536];
        let mut is_reported = false;
        loop {
            let outcome = tokio::select! {
                received = remote.receive(&mut buffer) => match received {
                    Ok(len) => {
                        remote.on_answer();
                        self.lock().flows.on_answer(number, Instant::now());
                        self.link.offer_in_time(|| datagram_message(number, &buffer[..len], true));
                        Ok(())
                    }
                    Err(error) => remote.on_error(error).await,
                },
                queued = queue.recv() => match queued {
                    Some(queued) => remote.send(queued.datagram).await,
                    None => return,
                },
            };
            // The program may listen later.
            if let Err(error) = outcome
                && !std::mem::replace(&mut is_reported, true)
            {
                self.reports.note(format!("cannot reach {target}: {error}"));
            }
        }
    }

    /// Reports to the peer that a flow has ended here.
    fn close_flow(&self, number: u32) {
        // If there is no room, the peer finds out by itself that the flow is idle.
        self.link.offer(|| Frame::Close(number, String::new()).into_message());
    }

    /// The peer uses an inner address that another client has. That one keeps it as long as it answers.
    fn on_contest(&self, addr: IpAddr, owner: Link, tasks: &mut Tasks) {
        while tasks.contest.try_join_next().is_some() {}
        if !tasks.contest.is_empty() {
            return;
        }
        let peer = paths::peer(&self.link.association);
        self.reports.note(format!(
            "{peer}: packets from {addr} are discarded: the address belongs to another client"
        ));
        tasks.contest.spawn(async move {
            if paths::is_alive(&owner.association).await {
                tokio::time::sleep(CONTEST_PAUSE).await;
            } else {
                owner
                    .association
                    .abort("it does not answer, and another client uses its address");
            }
        });
    }
}

/// Waits until this time; without one, for ever.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits for a connection, but not for long.
async fn in_time<T>(connecting: impl Future<Output = std::io::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(CONNECT_PATIENCE, connecting).await {
        Ok(connected) => connected.map_err(|error| error.to_string()),
        Err(_) => Err("no answer".to_owned()),
    }
}
