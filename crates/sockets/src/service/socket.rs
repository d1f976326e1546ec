//! A socket: the service's side of a descriptor.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use nix::errno::Errno;
use nix::sys::socket::Shutdown;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use whimbrel::Listener;

use crate::address;
use crate::record::{Header, Kind};
use crate::service::Service;
use crate::service::association::{Link, connect_errno};
use crate::service::options::Options;
use crate::service::pair::Pair;
use crate::service::port::{Families, Port};

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
        name.extend(format!("/{number}").into_bytes());
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
        let stack = self.stack(&port, &socket.options.borrow(), None)?;
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
    ) -> Result<(i32, JoinHandle<()>), Errno> {
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
            _ => return Err(Errno::EISCONN),
        }
        if socket.find(*first).is_some() {
            return Err(Errno::EISCONN);
        }
        let port = self.bound(socket)?;
        let stack = self.stack(&port, &socket.options.borrow(), Some(first.ip().to_canonical()))?;
        let peers: Vec<_> = addrs
            .iter()
            .map(|addr| self.settings.carried(addr.ip().to_canonical()))
            .collect();
        let id = self.next_number().cast_signed();
        if !socket.many {
            socket.state.set(State::Connecting);
        }
        let (service, own) = (self.clone(), socket.clone());
        let task = tokio::task::spawn_local(async move {
            match stack.connect(&peers, number).await {
                Ok(association) => service.establish(&own, id, association, port),
                Err(error) => own.on_connect_failed(id, connect_errno(&error)).await,
            }
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

    /// Takes associations of peers, and passes them to the program.
    async fn accept(self: Rc<Self>, service: &Rc<Service>, listener: Listener, port: Rc<Port>) {
        while let Ok(association) = listener.accept().await {
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
            if self.pair.send(&header, &[], Some(theirs.as_fd())).await.is_err() {
                return;
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
            let Ok(Some((header, data))) = record else { break };
            if header.kind == Kind::Data {
                self.transmit(service, &header, data).await;
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

    /// Sends a message on its association. In one-to-many style, one to a new address connects first.
    async fn transmit(self: &Rc<Self>, service: &Rc<Service>, header: &Header, data: bytes::Bytes) {
        let to = header.addr.filter(|_| self.many && header.assoc == 0);
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
        if let Some(link) = link {
            link.transmit(header, data).await;
        }
    }

    /// Passes on that no association came about.
    async fn on_connect_failed(&self, id: i32, errno: Errno) {
        use crate::service::notify;
        if self.options.borrow().wants(notify::ASSOC_CHANGE) {
            let header = Header {
                kind: Kind::Notification,
                end: true,
                assoc: id,
                ..Header::default()
            };
            let bytes = notify::assoc_change(notify::CANT_STR_ASSOC, 0, (0, 0), id);
            let _ = self.pair.send(&header, &bytes, None).await;
        }
        if !self.many {
            self.end(Some(errno)).await;
        }
    }

    /// Ends the pair, after everything that waits there. With an error, the next call of the program returns it.
    pub(crate) async fn end(&self, errno: Option<Errno>) {
        self.state.set(State::Closed);
        if let Some(errno) = errno {
            let header = Header {
                kind: Kind::Error,
                end: true,
                value: (errno as i32).cast_unsigned(),
                ..Header::default()
            };
            let _ = self.pair.send(&header, &[], None).await;
        }
        // `select` reports the end of a socket to writers only if it is writable. The error is there before.
        self.pair.drain_fillers();
        self.pair.end(Shutdown::Both);
    }

    /// The program has closed all descriptors.
    fn close(&self, service: &Rc<Service>) {
        self.state.set(State::Closed);
        self.stop_accepting();
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
