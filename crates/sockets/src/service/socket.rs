//! A socket: the service's side of a descriptor.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::Shutdown;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use whimbrel::Listener;

use crate::address;
use crate::record::{Header, Kind};
use crate::service::association::{Link, connect_errno};
use crate::service::options::Options;
use crate::service::pair::{HALF_CLOSED, Pair};
use crate::service::port::{Families, Port};
use crate::service::{Service, notify, random_number};

/// Associations that may wait in the pair of a listening socket. Further ones wait in the stack, up to the backlog.
const WAITING: usize = 16;
/// How long to wait when the host has no room for a descriptor on its way to the program.
const RETRY: Duration = Duration::from_millis(50);

/// How far a socket is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Idle,
    Listening,
    Connecting,
    Connected,
    /// Its association has ended, or its descriptors are closed.
    Closed,
}

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) number: u32,
    pub(crate) v6: bool,
    /// One-to-many style (RFC 6458 §3).
    pub(crate) many: bool,
    pub(crate) pair: Pair,
    pub(crate) options: RefCell<Options>,
    pub(crate) state: Cell<State>,
    pub(crate) port: RefCell<Option<Rc<Port>>>,
    pub(crate) links: RefCell<BTreeMap<i32, Rc<Link>>>,
    /// The association of one-to-one style is established.
    pub(crate) begun: Notify,
    /// This end has begun the shutdown.
    pub(crate) shuts_down: Cell<bool>,
    /// Whether it reserved the port, which is free again when it is closed.
    owns_port: Cell<bool>,
    accepting: RefCell<Option<JoinHandle<()>>>,
    /// The place among those that wait for `accept`, until the program has this socket.
    place: RefCell<Option<OwnedSemaphorePermit>>,
    /// Associations that are being connected.
    connecting: RefCell<BTreeMap<i32, Connecting>>,
}

/// An association that is being connected.
#[derive(Debug)]
struct Connecting {
    addrs: Vec<SocketAddr>,
    /// Dropped when it is established or has failed.
    done: watch::Sender<()>,
}

impl Service {
    /// Makes a socket and its descriptor.
    pub(crate) fn open(
        self: &Rc<Self>,
        v6: bool,
        many: bool,
        options: Options,
    ) -> Result<(Rc<Socket>, OwnedFd), Errno> {
        let number = self.next_number();
        let mut name = self.name.clone();
        name.extend(format!("/{number}.{:016x}", random_number()?).into_bytes());
        let (pair, theirs) = Pair::new(&name)?;
        if let Some(bytes) = options.receive_buffer {
            pair.set_buffer(bytes as usize);
        }
        let socket = Rc::new(Socket {
            number,
            v6,
            many,
            pair,
            options: RefCell::new(options),
            state: Cell::new(State::Idle),
            port: RefCell::default(),
            links: RefCell::default(),
            begun: Notify::new(),
            shuts_down: Cell::new(false),
            owns_port: Cell::new(false),
            accepting: RefCell::default(),
            place: RefCell::default(),
            connecting: RefCell::default(),
        });
        self.sockets.borrow_mut().insert(number, socket.clone());
        let (service, life) = (self.clone(), socket.clone());
        tokio::task::spawn_local(async move {
            if many {
                life.take_records(&service).await;
            } else {
                tokio::select! {
                    biased;
                    () = life.begun.notified() => life.take_records(&service).await,
                    () = life.pair.closed() => {}
                    () = service.finishing() => {}
                }
            }
            life.close(&service);
        });
        Ok((socket, theirs))
    }

    /// Reserves a port for a socket, with the addresses it is bound to.
    pub(crate) fn bind(&self, socket: &Socket, addrs: &[SocketAddr]) -> Result<(), Errno> {
        let first = addrs.first().ok_or(Errno::EINVAL)?;
        if socket.port.borrow().is_some() || socket.state.get() != State::Idle {
            return Err(Errno::EINVAL);
        }
        let addresses = self.usable(socket, addrs)?;
        let port = self.reserve(first.port(), addresses, socket.families())?;
        socket.owns_port.set(true);
        *socket.port.borrow_mut() = Some(port);
        Ok(())
    }

    /// The addresses of a list, without the wildcard, which stands for all: then the list is empty.
    fn usable(&self, socket: &Socket, addrs: &[SocketAddr]) -> Result<Vec<IpAddr>, Errno> {
        let mut found = Vec::new();
        for addr in addrs {
            let ip = addr.ip().to_canonical();
            if ip.is_unspecified() {
                return Ok(Vec::new());
            }
            if ip.is_ipv6() && !socket.v6 {
                return Err(Errno::EINVAL);
            }
            if !self.is_local(ip) {
                return Err(Errno::EADDRNOTAVAIL);
            }
            if !found.contains(&ip) {
                found.push(ip);
            }
        }
        Ok(found)
    }

    /// Adds (`sctp_bindx` with SCTP_BINDX_ADD_ADDR) or removes addresses of a socket.
    pub(crate) fn bindx(&self, socket: &Socket, addrs: &[SocketAddr], adds: bool) -> Result<(), Errno> {
        let port = socket.port.borrow().clone();
        let Some(port) = port else {
            return if adds {
                self.bind(socket, addrs)
            } else {
                Err(Errno::EINVAL)
            };
        };
        if addrs.iter().any(|addr| addr.port() != port.number && addr.port() != 0) {
            return Err(Errno::EINVAL);
        }
        let named = self.usable(socket, addrs)?;
        // RFC 6458 §9.1: changes of associations that exist (RFC 5061) are for stacks only.
        if named.is_empty() || port.has_stack() {
            return Err(if named.is_empty() {
                Errno::EINVAL
            } else {
                Errno::EOPNOTSUPP
            });
        }
        let mut addresses = port.addresses.borrow_mut();
        if adds {
            let new: Vec<_> = named.into_iter().filter(|ip| !addresses.contains(ip)).collect();
            addresses.extend(new);
            return Ok(());
        }
        let left: Vec<_> = addresses.iter().copied().filter(|ip| !named.contains(ip)).collect();
        if left.is_empty() {
            return Err(Errno::EBUSY);
        }
        *addresses = left;
        Ok(())
    }

    fn bound(&self, socket: &Socket) -> Result<Rc<Port>, Errno> {
        if let Some(port) = &*socket.port.borrow() {
            return Ok(port.clone());
        }
        let port = self.reserve(0, Vec::new(), socket.families())?;
        socket.owns_port.set(true);
        *socket.port.borrow_mut() = Some(port.clone());
        Ok(port)
    }

    /// Begins to listen; with a backlog of 0 a socket of one-to-many style stops (RFC 6458 §3.1.3).
    pub(crate) fn listen(self: &Rc<Self>, socket: &Rc<Socket>, backlog: i32) -> Result<(), Errno> {
        if socket.many && backlog == 0 {
            socket.stop_accepting();
            return Ok(());
        }
        match socket.state.get() {
            State::Listening => return Ok(()),
            State::Idle => {}
            _ if socket.many => {}
            _ => return Err(Errno::EINVAL),
        }
        let port = self.bound(socket)?;
        // As in Linux, a negative number is a large one (net.core.somaxconn).
        let backlog = usize::try_from(backlog).unwrap_or(usize::MAX).clamp(1, 4096);
        let stack = self.stack(&port, &socket.options.borrow(), None, Some(backlog))?;
        let listener = stack.listen().ok_or(Errno::EADDRINUSE)?;
        if !socket.many {
            socket.state.set(State::Listening);
        }
        let (service, own) = (self.clone(), socket.clone());
        let task = tokio::task::spawn_local(async move { own.accept(&service, listener, port).await });
        *socket.accepting.borrow_mut() = Some(task);
        Ok(())
    }

    /// Begins to connect; the association follows.
    pub(crate) fn connect(
        self: &Rc<Self>,
        socket: &Rc<Socket>,
        addrs: &[SocketAddr],
    ) -> Result<(i32, JoinHandle<Result<(), Errno>>), Errno> {
        let first = addrs.first().ok_or(Errno::EINVAL)?;
        let number = first.port();
        if number == 0 || addrs.iter().any(|addr| addr.port() != number) {
            return Err(Errno::EINVAL);
        }
        if !socket.v6 && addrs.iter().any(|addr| addr.ip().to_canonical().is_ipv6()) {
            return Err(Errno::EAFNOSUPPORT);
        }
        match socket.state.get() {
            State::Idle => {}
            State::Connecting => return Err(Errno::EALREADY),
            // An attempt has failed, and the pair has ended with it.
            State::Closed => return Err(Errno::ECONNABORTED),
            _ => return Err(Errno::EISCONN),
        }
        if socket.find(*first).is_some() {
            return Err(Errno::EISCONN);
        }
        if socket.connection(0, Some(*first)).is_some() {
            return Err(Errno::EALREADY);
        }
        let port = self.bound(socket)?;
        let peer = Some(first.ip().to_canonical());
        let stack = self.stack(&port, &socket.options.borrow(), peer, None)?;
        let peers: Vec<_> = addrs
            .iter()
            .map(|addr| self.settings.carried(addr.ip().to_canonical()))
            .collect();
        let id = self.next_number().cast_signed();
        if !socket.many {
            socket.state.set(State::Connecting);
        }
        let connecting = Connecting {
            addrs: addrs.to_vec(),
            done: watch::channel(()).0,
        };
        socket.connecting.borrow_mut().insert(id, connecting);
        let (service, own) = (self.clone(), socket.clone());
        let task = tokio::task::spawn_local(async move {
            let connected = stack.connect(&peers, number).await;
            let outcome = connected
                .map(|association| service.establish(&own, id, association, port))
                .map_err(|error| connect_errno(&error));
            own.connecting.borrow_mut().remove(&id);
            if let Err(errno) = outcome {
                own.on_connect_failed(id, errno).await;
            }
            outcome
        });
        Ok((id, task))
    }

    /// Makes a socket of one-to-one style of an association. What waits in the old descriptor stays there.
    pub(crate) fn peel_off(self: &Rc<Self>, socket: &Rc<Socket>, id: i32) -> Result<(u32, OwnedFd), Errno> {
        if !socket.many {
            return Err(Errno::EINVAL);
        }
        let link = socket.links.borrow_mut().remove(&id).ok_or(Errno::EINVAL)?;
        let options = socket.options.borrow().clone();
        let (new, theirs) = self.open(socket.v6, false, options)?;
        *link.owner.borrow_mut() = new.clone();
        *new.port.borrow_mut() = Some(link.port.clone());
        new.links.borrow_mut().insert(id, link);
        new.state.set(State::Connected);
        new.begun.notify_one();
        Ok((new.number, theirs))
    }
}

impl Socket {
    fn families(&self) -> Families {
        Families {
            v4: !self.v6 || !self.options.borrow().v6_only,
            v6: self.v6,
        }
    }

    /// Returns an association by the address of its peer.
    pub(crate) fn find(&self, addr: SocketAddr) -> Option<Rc<Link>> {
        let ip = addr.ip().to_canonical();
        let links = self.links.borrow();
        let is_peer = |link: &&Rc<Link>| {
            link.peer.get().port() == addr.port()
                && (link.peer.get().ip() == ip || link.association.peer_addrs().iter().any(|peer| peer.ip() == ip))
        };
        links.values().find(is_peer).cloned()
    }

    /// Returns the association of this number; in one-to-one style, the only one.
    pub(crate) fn link(&self, id: i32) -> Option<Rc<Link>> {
        let links = self.links.borrow();
        if self.many {
            links.get(&id)
        } else {
            links.values().next()
        }
        .cloned()
    }

    /// Passes a notification on if the program has subscribed to its type.
    pub(crate) async fn notify(&self, kind: u16, assoc: i32, peer: Option<SocketAddr>, bytes: &[u8]) {
        if self.options.borrow().wants(kind) {
            let header = Header {
                kind: Kind::Notification,
                end: true,
                assoc,
                addr: peer.map(|peer| address::shown(peer, self.v6)),
                ..Header::default()
            };
            // It fails if the program has closed its descriptor.
            let _ = self.pair.send(&header, bytes, None).await;
        }
    }

    /// Reports a message that no association has taken.
    pub(crate) async fn report_unsent(&self, header: &Header, assoc: i32, peer: Option<SocketAddr>) {
        let failure = whimbrel::SendFailure {
            stream: header.stream,
            ppid: u32::from_be_bytes(header.ppid.to_ne_bytes()),
            context: header.context,
            sent: false,
            cause: whimbrel::SendFailureCause::GivenUp,
        };
        let [classic, event] = [
            notify::send_failed(&failure, assoc),
            notify::send_failed_event(&failure, assoc),
        ];
        self.notify(notify::SEND_FAILED, assoc, peer, &classic).await;
        self.notify(notify::SEND_FAILED_EVENT, assoc, peer, &event).await;
    }

    /// Takes associations of peers, and passes them to the program.
    async fn accept(self: Rc<Self>, service: &Rc<Service>, listener: Listener, port: Rc<Port>) {
        let places = Arc::new(Semaphore::new(WAITING));
        loop {
            let place = if self.many {
                None
            } else {
                places.clone().acquire_owned().await.ok()
            };
            let Ok(association) = listener.accept().await else {
                return;
            };
            let id = service.next_number().cast_signed();
            if self.many {
                service.establish(&self, id, association, port.clone());
                continue;
            }
            let options = self.options.borrow().clone();
            let reading = options.reading();
            let Ok((socket, theirs)) = service.open(self.v6, false, options) else {
                association.abort("out of descriptors");
                continue;
            };
            *socket.port.borrow_mut() = Some(port.clone());
            *socket.place.borrow_mut() = place;
            service.establish(&socket, id, association, port.clone());
            let addr = socket.link(id).map(|link| address::shown(link.peer.get(), self.v6));
            let header = Header {
                kind: Kind::Accepted,
                end: true,
                assoc: id,
                value: socket.number,
                context: reading,
                addr,
                ..Header::default()
            };
            loop {
                match self.pair.send(&header, &[], Some(theirs.as_fd())).await {
                    Ok(()) => break,
                    // The program has closed its end.
                    Err(Errno::EPIPE | Errno::ECONNRESET) => return,
                    // Too many descriptors are on their way (ETOOMANYREFS), or memory is short.
                    Err(_) => tokio::time::sleep(RETRY).await,
                }
            }
        }
    }

    fn stop_accepting(&self) {
        if let Some(task) = self.accepting.borrow_mut().take() {
            task.abort();
        }
    }

    /// Sends what the program writes, until it writes no more.
    async fn take_records(self: &Rc<Self>, service: &Rc<Service>) {
        loop {
            let record = tokio::select! {
                biased;
                record = self.pair.recv() => record,
                () = service.finishing() => Ok(self.pair.try_recv()),
            };
            let (header, data) = match record {
                Ok(Some(record)) => record,
                Err(Errno::EBADMSG) => {
                    self.refuse().await;
                    break;
                }
                _ => break,
            };
            match header.kind {
                Kind::Data => tokio::select! {
                    biased;
                    () = self.transmit(service, &header, data) => {}
                    () = self.is_abandoned() => break,
                },
                Kind::Accepted => drop(self.place.borrow_mut().take()),
                _ => {}
            }
        }
        if self.many || *service.finishing.borrow() {
            return;
        }
        // `shutdown` with SHUT_WR, or all descriptors are closed.
        if !self.pair.is_closed() {
            if let Some(link) = self.link(0) {
                link.shut_down();
            }
            tokio::select! {
                () = self.pair.closed() => {}
                () = service.finishing() => {}
            }
        }
    }

    /// Waits until the program has closed its descriptors and wants what is left aborted.
    async fn is_abandoned(&self) {
        loop {
            tokio::time::sleep(HALF_CLOSED).await;
            if self.options.borrow().aborts_on_close && self.pair.is_closed() {
                return;
            }
        }
    }

    /// Ends the associations: the program has written what is no record, and what it was to be is not known.
    async fn refuse(&self) {
        for link in self.links.borrow().values() {
            link.association.abort("the program's library is missing");
        }
        if self.many {
            self.end(Some(Errno::ECONNABORTED)).await;
        }
    }

    /// Returns what ends when an association is established or has failed, if it is being connected.
    fn connection(&self, id: i32, addr: Option<SocketAddr>) -> Option<watch::Receiver<()>> {
        let all = self.connecting.borrow();
        let found = match addr {
            Some(addr) => all.values().find(|connecting| connecting.addrs.contains(&addr)),
            None => all.get(&id),
        };
        found.map(|connecting| connecting.done.subscribe())
    }

    /// Sends a message on its association. In one-to-many style, one to a new address connects first.
    async fn transmit(self: &Rc<Self>, service: &Rc<Service>, header: &Header, data: bytes::Bytes) {
        let to = header.addr.filter(|_| self.many && header.assoc == 0);
        let connection = self.connection(header.assoc, to);
        if let Some(mut connection) = connection {
            // It ends with an error when the sender is gone.
            let _ = connection.changed().await;
        }
        let mut link = match to {
            Some(addr) => self.find(addr),
            None => self.link(header.assoc),
        };
        if let (None, Some(addr)) = (&link, to)
            && let Ok((id, task)) = service.connect(self, &[addr])
        {
            // Its failure is a notification.
            let _ = task.await;
            link = self.link(id);
        }
        match link {
            Some(link) => link.transmit(header, data).await,
            None => self.report_unsent(header, header.assoc, to).await,
        }
    }

    /// Passes on that no association came about: the error first, which `connect` and SO_ERROR look for.
    async fn on_connect_failed(&self, id: i32, errno: Errno) {
        if !self.many {
            self.state.set(State::Closed);
            self.pass_error(errno).await;
        }
        let bytes = notify::assoc_change(notify::CANT_STR_ASSOC, 0, (0, 0), id);
        self.notify(notify::ASSOC_CHANGE, id, None, &bytes).await;
        if !self.many {
            self.end(None).await;
        }
    }

    async fn pass_error(&self, errno: Errno) {
        let header = Header {
            kind: Kind::Error,
            end: true,
            value: (errno as i32).cast_unsigned(),
            ..Header::default()
        };
        let _ = self.pair.send(&header, &[], None).await;
    }

    /// Ends the pair, after everything that waits there. With an error, the next call of the program returns it.
    pub(crate) async fn end(&self, errno: Option<Errno>) {
        self.state.set(State::Closed);
        if let Some(errno) = errno {
            self.pass_error(errno).await;
        }
        // `select` reports the end of a socket to writers only if it is writable. The error is there before.
        self.pair.drain_fillers();
        self.pair.end(Shutdown::Both);
    }

    /// The program has closed all descriptors.
    fn close(&self, service: &Rc<Service>) {
        self.state.set(State::Closed);
        self.stop_accepting();
        drop(self.place.borrow_mut().take());
        service.sockets.borrow_mut().remove(&self.number);
        let port = self.port.borrow_mut().take();
        if let Some(port) = port.filter(|_| self.owns_port.get()) {
            port.owned.set(false);
        }
        let abort = self.options.borrow().aborts_on_close;
        let links = std::mem::take(&mut *self.links.borrow_mut());
        for link in links.into_values() {
            service.release(link, abort);
        }
    }
}
