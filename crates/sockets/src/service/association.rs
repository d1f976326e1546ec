//! An association of a socket: what it delivers, and how it ends.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use nix::errno::Errno;
use nix::sys::socket::Shutdown;
use whimbrel::{Association, AssociationError, CloseReason, ConnectError, Message, Reliability, Span};

use crate::address;
use crate::record::Header;
use crate::service::port::Port;
use crate::service::socket::{Socket, State};
use crate::service::{Service, notify};

// sinfo_flags of linux/sctp.h
const UNORDERED: u16 = 1;
const ABORT: u16 = 4;
const SACK_IMMEDIATELY: u16 = 8;
const EOF: u16 = 0x200;
const PR_POLICY: u16 = 0x30;
const PR_RTX: u16 = 0x20;
const PR_PRIO: u16 = 0x30;

/// An association, and the socket that it belongs to: another one after `sctp_peeloff`.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: i32,
    pub(crate) association: Association,
    pub(crate) owner: RefCell<Rc<Socket>>,
    /// Address of the primary path, with the SCTP port.
    pub(crate) peer: Cell<SocketAddr>,
    /// Outbound and inbound, when it began.
    streams: Cell<(u16, u16)>,
    /// Keeps the stack, as long as the association lasts.
    pub(crate) port: Rc<Port>,
}

impl Link {
    pub(crate) fn new(id: i32, association: Association, owner: Rc<Socket>, port: Rc<Port>) -> Rc<Link> {
        let link = Link {
            id,
            association,
            owner: RefCell::new(owner),
            peer: Cell::new(SocketAddr::from(([0, 0, 0, 0], 0))),
            streams: Cell::default(),
            port,
        };
        link.note_peer();
        if let Some(status) = link.association.status() {
            link.streams.set((status.outbound_streams, status.inbound_streams));
        }
        Rc::new(link)
    }

    /// Notes the primary address of the peer.
    fn note_peer(&self) {
        let paths = self.association.paths();
        let primary = paths.iter().find(|path| path.primary).or(paths.first());
        if let (Some(path), Some(status)) = (primary, self.association.status()) {
            self.peer.set(SocketAddr::new(path.remote.ip(), status.peer_port));
        }
    }

    fn owner(&self) -> Rc<Socket> {
        self.owner.borrow().clone()
    }

    /// Begins to pass on what arrives. The first notification is that it is up.
    pub(crate) fn begin(self: &Rc<Self>) {
        let (inbound, watching, ending) = (self.clone(), self.clone(), self.clone());
        tokio::task::spawn_local(async move {
            let up = notify::assoc_change(notify::COMM_UP, 0, inbound.streams.get(), inbound.id);
            inbound.notify(notify::ASSOC_CHANGE, up).await;
            inbound.deliver().await;
        });
        tokio::task::spawn_local(async move { watching.watch().await });
        tokio::task::spawn_local(async move {
            ending.association.peer_shutdown().await;
            let owner = ending.owner();
            if !owner.many {
                // The peer takes no more (RFC 9260 §9.2): EPIPE for the program.
                owner.pair.end(Shutdown::Read);
            }
        });
    }

    async fn notify(&self, kind: u16, bytes: Vec<u8>) {
        self.owner().notify(kind, self.id, Some(self.peer.get()), &bytes).await;
    }

    /// Passes messages on until the association ends, then its end.
    async fn deliver(&self) {
        let mut data = Vec::new();
        let reason = loop {
            match self.association.recv_into(&mut data).await {
                Ok(Some((stream, ppid, unordered))) => self.pass_on(stream, ppid, unordered, &data).await,
                Ok(None) => break CloseReason::Graceful,
                Err(AssociationError::Closed(reason)) => break reason,
                Err(error) => break CloseReason::AbortedLocally(error.to_string()),
            }
        };
        for failure in self.association.send_failures() {
            self.notify(notify::SEND_FAILED, notify::send_failed(&failure, self.id))
                .await;
            self.notify(notify::SEND_FAILED_EVENT, notify::send_failed_event(&failure, self.id))
                .await;
        }
        let owner = self.owner();
        let state = if reason == CloseReason::Graceful {
            if !owner.shuts_down.get() {
                self.notify(notify::SHUTDOWN, notify::shutdown(self.id)).await;
            }
            notify::SHUTDOWN_COMP
        } else {
            notify::COMM_LOST
        };
        let change = notify::assoc_change(state, notify::cause(&reason), self.streams.get(), self.id);
        self.notify(notify::ASSOC_CHANGE, change).await;
        owner.links.borrow_mut().remove(&self.id);
        if !owner.many {
            owner.end(errno_of(&reason)).await;
        }
    }

    async fn pass_on(&self, stream: u16, ppid: u32, unordered: bool, data: &[u8]) {
        let owner = self.owner();
        let header = Header {
            stream,
            flags: if unordered { UNORDERED } else { 0 },
            ppid: u32::from_ne_bytes(ppid.to_be_bytes()),
            assoc: self.id,
            addr: Some(address::shown(self.peer.get(), owner.v6)),
            ..Header::default()
        };
        match owner.pair.send_message(&header, data).await {
            // Without a program it is dropped: the association ends soon.
            Ok(()) | Err(Errno::EPIPE | Errno::ECONNRESET) => {}
            // The peer must not believe that it was delivered.
            Err(errno) => self.association.abort(errno.desc()),
        }
    }

    /// Passes on what happens to the peer's addresses.
    async fn watch(&self) {
        let mut events = self.association.path_events();
        while let Some(event) = events.next().await {
            self.note_peer();
            let addr = SocketAddr::new(event.remote.ip(), self.peer.get().port());
            let addr = address::shown(addr, self.owner().v6);
            if let Some(bytes) = notify::paddr_change(addr, event.change, self.id) {
                self.notify(notify::PEER_ADDR_CHANGE, bytes).await;
            }
        }
    }

    /// Sends a message of the program, or ends the association as its flags say.
    pub(crate) async fn transmit(&self, header: &Header, data: bytes::Bytes) {
        if header.flags & ABORT != 0 {
            self.association.abort(&String::from_utf8_lossy(&data));
            return;
        }
        if !data.is_empty() {
            let message = Message {
                ppid: u32::from_be_bytes(header.ppid.to_ne_bytes()),
                unordered: header.flags & UNORDERED != 0,
                immediate: header.flags & SACK_IMMEDIATELY != 0,
                context: header.context,
                reliability: reliability(header),
                ..Message::new(header.stream, data)
            };
            if self.association.send(message).await.is_err() {
                let (owner, peer) = (self.owner(), self.peer.get());
                owner.report_unsent(header, self.id, Some(peer)).await;
            }
        }
        if header.flags & EOF != 0 {
            self.shut_down();
        }
    }

    /// Begins the shutdown. It goes on without waiting.
    pub(crate) fn shut_down(&self) {
        self.owner().shuts_down.set(true);
        let association = self.association.clone();
        tokio::task::spawn_local(async move {
            // The reader of the association reports how it ends.
            let _ = association.shutdown().await;
        });
    }
}

impl Service {
    /// Ends an association whose descriptors are closed: delivers what was sent, unless the program wants it aborted.
    pub(crate) fn release(self: &Rc<Self>, link: Rc<Link>, abort: bool) {
        if abort {
            link.association.abort("");
            return;
        }
        let service = self.clone();
        service.closing.set(service.closing.get() + 1);
        tokio::task::spawn_local(async move {
            let _ = link.association.shutdown().await;
            // The last packet of the association leaves with the next turn of its driver.
            tokio::task::yield_now().await;
            service.closing.set(service.closing.get() - 1);
            drop(link);
        });
    }

    /// Takes in an association that was connected.
    pub(crate) fn establish(self: &Rc<Self>, socket: &Rc<Socket>, id: i32, association: Association, port: Rc<Port>) {
        let link = Link::new(id, association, socket.clone(), port);
        if socket.state.get() == State::Closed {
            self.release(link, false);
            return;
        }
        socket.links.borrow_mut().insert(id, link.clone());
        if !socket.many {
            socket.state.set(State::Connected);
            socket.pair.drain_fillers();
        }
        link.begin();
        socket.begun.notify_one();
    }
}

fn reliability(header: &Header) -> Reliability {
    match header.flags & PR_POLICY {
        PR_RTX => Reliability::Retransmissions(header.value),
        PR_PRIO => Reliability::Priority(header.value.min(u32::from(u16::MAX)) as u16),
        // Without a policy, sinfo_timetolive is a lifetime (RFC 6458 §5.3.2).
        _ if header.value > 0 => Reliability::Lifetime(Span::from_millis(u64::from(header.value))),
        _ => Reliability::Full,
    }
}

/// The errno that the next call returns after this end; `None` after a shutdown.
fn errno_of(reason: &CloseReason) -> Option<Errno> {
    Some(match reason {
        CloseReason::Graceful => return None,
        CloseReason::AbortedByPeer { .. } | CloseReason::PeerRestarted => Errno::ECONNRESET,
        CloseReason::Refused { .. } | CloseReason::KeyRequired => Errno::ECONNREFUSED,
        CloseReason::HandshakeTimeout | CloseReason::PeerUnreachable | CloseReason::DataUnanswered => Errno::ETIMEDOUT,
        CloseReason::ShutdownTimeout => Errno::ETIMEDOUT,
        _ => Errno::ECONNABORTED,
    })
}

/// The errno of a `connect` that has failed.
pub(crate) fn connect_errno(error: &ConnectError) -> Errno {
    match error {
        ConnectError::Refused(_) => Errno::ECONNREFUSED,
        ConnectError::Unreachable(_) => Errno::EHOSTUNREACH,
        ConnectError::TimedOut(_) => Errno::ETIMEDOUT,
        ConnectError::Closed(AssociationError::Closed(reason)) => errno_of(reason).unwrap_or(Errno::ECONNRESET),
        ConnectError::Closed(_) => Errno::ECONNABORTED,
        _ => Errno::EINVAL,
    }
}
