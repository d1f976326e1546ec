//! Requests of programs on control connections.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::rc::Rc;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, getsockopt, sendmsg, sockopt};
use whimbrel::{AssociationState, PathInfo, PathState};

use crate::address;
use crate::control::{Answer, HEAD, MAX, Op, Request, SECRET};
use crate::service::Service;
use crate::service::association::Link;
use crate::service::options::{Options, address_in, number, words};
use crate::service::pair::recv_request;
use crate::service::socket::Socket;
use crate::service::watched::watched;

/// The level of options of SCTP.
const SOL_SCTP: i32 = 132;

/// An answer with its body and descriptor.
#[derive(Default)]
struct Reply {
    value: i32,
    reading: u32,
    body: Vec<u8>,
    fd: Option<OwnedFd>,
}

type Outcome = Result<Reply, Errno>;

/// Accepts control connections until the process ends.
pub(crate) async fn serve(service: Rc<Service>, listener: OwnedFd) {
    let Ok(listener) = watched(listener) else { return };
    loop {
        let Ok(mut ready) = listener.readable().await else {
            return;
        };
        let accepted = ready.try_io(|listener| {
            // The type of the standard library is for streams, and accepts for any type.
            let acceptor = UnixListener::from(listener.get_ref().try_clone()?);
            let (connection, _) = acceptor.accept()?;
            connection.set_nonblocking(true)?;
            Ok(OwnedFd::from(connection))
        });
        if let Ok(Ok(connection)) = accepted
            && let Some(client) = client_of(&connection)
        {
            let service = service.clone();
            tokio::task::spawn_local(async move { converse(&service, connection, client).await });
        }
    }
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Client {
    /// The process of this service.
    Own,
    /// Another one of its user, or of root.
    Other,
}

/// Returns who has made a connection, `None` for other users.
fn client_of(connection: &OwnedFd) -> Option<Client> {
    let peer = getsockopt(connection, sockopt::PeerCredentials).ok()?;
    if u32::try_from(peer.pid()) == Ok(std::process::id()) {
        return Some(Client::Own);
    }
    let own = nix::unistd::geteuid().as_raw();
    (peer.uid() == own || peer.uid() == 0).then_some(Client::Other)
}

async fn converse(service: &Rc<Service>, connection: OwnedFd, client: Client) {
    let Ok(connection) = watched(connection) else { return };
    let mut buffer = vec![0; MAX];
    loop {
        let Ok(mut ready) = connection.readable().await else {
            return;
        };
        let received = ready.try_io(|connection| Ok(recv_request(connection.as_fd(), &mut buffer)?));
        let len = match received {
            Ok(Ok(len @ 1..)) => len,
            Ok(_) => return,
            Err(_) => continue,
        };
        let Some((secret, body)) = buffer[..len]
            .get(HEAD..)
            .and_then(|rest| rest.split_first_chunk::<SECRET>())
        else {
            return;
        };
        // Only this process and its children know it.
        if *secret != service.secret {
            return;
        }
        let outcome = match Request::decode(&buffer[..len]) {
            Some(request) if request.op == Op::Finish && client != Client::Own => Err(Errno::EPERM),
            Some(request) => handle(service, request, body).await,
            None => Err(Errno::EINVAL),
        };
        let (errno, reply) = match outcome {
            Ok(reply) => (0, reply),
            Err(errno) => (errno as i32, Reply::default()),
        };
        let head = Answer {
            errno,
            value: reply.value,
            reading: reply.reading,
        };
        let head = head.encode();
        let parts = [std::io::IoSlice::new(&head), std::io::IoSlice::new(&reply.body)];
        let fds = reply.fd.as_ref().map(|fd| [fd.as_raw_fd()]);
        let control: Vec<_> = fds.iter().map(|fds| ControlMessage::ScmRights(fds)).collect();
        let fd = connection.get_ref().as_raw_fd();
        // One request at a time: there is room for the answer, or the program is gone.
        if sendmsg::<()>(
            fd,
            &parts,
            &control,
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
            None,
        )
        .is_err()
        {
            return;
        }
    }
}

async fn handle(service: &Rc<Service>, request: Request, body: &[u8]) -> Outcome {
    let socket = || service.socket(request.socket).ok_or(Errno::ENOTCONN);
    let addrs = || {
        address::parse_list(body)
            .filter(|addrs| !addrs.is_empty())
            .ok_or(Errno::EINVAL)
    };
    match request.op {
        Op::Open => {
            let (v6, many) = (request.a == libc::AF_INET6, request.b == libc::SOCK_SEQPACKET);
            let (socket, theirs) = service.open(v6, many, Options::default())?;
            if !many {
                crate::service::pair::Pair::fill(&theirs)?;
            }
            Ok(Reply {
                value: socket.number.cast_signed(),
                fd: Some(theirs),
                ..Reply::default()
            })
        }
        Op::Bind if request.a == 0 => {
            let addr = address::parse(body).ok_or(Errno::EINVAL)?;
            service.bind(&*socket()?, &[addr]).map(|()| Reply::default())
        }
        Op::Bind => service
            .bindx(&*socket()?, &addrs()?, request.a == 1)
            .map(|()| Reply::default()),
        Op::Listen => service.listen(&socket()?, request.a).map(|()| Reply::default()),
        Op::Connect => {
            let addrs = match address::parse_list(body) {
                Some(addrs) => addrs,
                None => vec![address::parse(body).ok_or(Errno::EINVAL)?],
            };
            let (id, task) = service.connect(&socket()?, &addrs)?;
            if request.a == 1 {
                task.await.map_err(|_| Errno::ECONNABORTED)??;
            }
            Ok(Reply {
                value: id,
                ..Reply::default()
            })
        }
        Op::Set => set(&*socket()?, request, body),
        Op::Get => get(&*socket()?, request, body),
        Op::Name => name(&*socket()?, request.a == 1),
        Op::Addresses => addresses(service, &*socket()?, request),
        Op::Peel => {
            let socket = socket()?;
            let (value, theirs) = service.peel_off(&socket, request.a)?;
            let reading = socket.options.borrow().reading();
            Ok(Reply {
                value: value.cast_signed(),
                reading,
                fd: Some(theirs),
                ..Reply::default()
            })
        }
        Op::Finish => {
            service.finish().await;
            Ok(Reply::default())
        }
    }
}

fn set(socket: &Socket, request: Request, body: &[u8]) -> Outcome {
    let int = || {
        body.first_chunk()
            .map(|bytes| i32::from_ne_bytes(*bytes))
            .ok_or(Errno::EINVAL)
    };
    let mut options = socket.options.borrow_mut();
    match (request.a, request.b) {
        (SOL_SCTP, number::PRIMARY_ADDR) => {
            let link = socket.link(i32::from_ne_bytes(*body.first_chunk().ok_or(Errno::EINVAL)?));
            let (link, ip) = (link.ok_or(Errno::EINVAL)?, address_in(body).ok_or(Errno::EINVAL)?);
            let path = link.association.paths().into_iter().find(|path| path.remote.ip() == ip);
            let path = path.ok_or(Errno::EINVAL)?;
            if !link.association.set_primary(path.id) {
                return Err(Errno::EINVAL);
            }
        }
        (SOL_SCTP, option) => options.set(option, body)?,
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
            let bytes = int()?.max(4096).cast_unsigned();
            options.receive_buffer = Some(bytes);
            socket.pair.set_buffer(bytes as usize);
        }
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) if socket.port.borrow().is_none() => options.v6_only = int()? != 0,
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => return Err(Errno::EINVAL),
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let [on, seconds] = [body.get(0..4), body.get(4..8)].map(|part| part.is_some_and(|part| part != [0; 4]));
            options.aborts_on_close = on && !seconds;
        }
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(Reply {
        reading: options.reading(),
        ..Reply::default()
    })
}

fn get(socket: &Socket, request: Request, asked: &[u8]) -> Outcome {
    if (request.a, request.b) == (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) {
        let body = i32::from(socket.options.borrow().v6_only).to_ne_bytes().to_vec();
        return Ok(Reply {
            body,
            ..Reply::default()
        });
    }
    if request.a != SOL_SCTP {
        return Err(Errno::ENOPROTOOPT);
    }
    let id = asked.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    let link = socket.link(id);
    let body = match request.b {
        number::STATUS => status(&*link.ok_or(Errno::EINVAL)?),
        number::PEER_ADDR_INFO => {
            // In one-to-many style, an address names its association too.
            let addr = asked.get(4..).and_then(address::parse).ok_or(Errno::EINVAL)?;
            let link = link.or_else(|| socket.find(addr)).ok_or(Errno::EINVAL)?;
            let ip = addr.ip().to_canonical();
            let path = link.association.paths().into_iter().find(|path| path.remote.ip() == ip);
            path_info(&link, &path.ok_or(Errno::EINVAL)?, socket.v6)
        }
        number::PRIMARY_ADDR => {
            let link = link.ok_or(Errno::EINVAL)?;
            let mut bytes = link.id.to_ne_bytes().to_vec();
            bytes.extend(address::storage(address::shown(link.peer.get(), socket.v6)));
            bytes
        }
        number::ASSOCINFO => {
            let status = link.as_ref().and_then(|link| link.association.status());
            let paths = link.as_ref().map_or(0, |link| link.association.peer_addrs().len());
            let window = status.map_or(0, |status| status.peer_rwnd);
            let options = socket.options.borrow();
            let own = options.receive_buffer.unwrap_or(0);
            options.assoc_info(link.map_or(0, |link| link.id), paths as u16, window, own)
        }
        option => socket.options.borrow().get(option, asked)?,
    };
    Ok(Reply {
        body,
        ..Reply::default()
    })
}

/// `struct sctp_status`.
fn status(link: &Link) -> Vec<u8> {
    let Some(status) = link.association.status() else {
        return Vec::new();
    };
    // enum sctp_sstat_state
    let state: u32 = match status.state {
        AssociationState::Closed => 1,
        AssociationState::CookieWait => 2,
        AssociationState::CookieEchoed => 3,
        AssociationState::Established => 4,
        AssociationState::ShutdownPending => 5,
        AssociationState::ShutdownSent => 6,
        AssociationState::ShutdownReceived => 7,
        AssociationState::ShutdownAckSent => 8,
    };
    let paths = link.association.paths();
    let primary = paths.iter().find(|path| path.primary).or(paths.first());
    let mut bytes = words(&[link.id.cast_unsigned(), state, status.peer_rwnd]);
    for value in [0, 0, status.inbound_streams, status.outbound_streams] {
        bytes.extend(value.to_ne_bytes());
    }
    // IP, common and DATA header without UDP, as Linux has it.
    let fragment = primary.map_or(0, |path| u32::from(path.mtu).saturating_sub(48));
    bytes.extend(words(&[fragment]));
    let v6 = link.owner.borrow().v6;
    bytes.extend(primary.map_or_else(|| vec![0; 152], |path| path_info(link, path, v6)));
    bytes
}

/// `struct sctp_paddrinfo`.
fn path_info(link: &Link, path: &PathInfo, v6: bool) -> Vec<u8> {
    let addr = SocketAddr::new(path.remote.ip(), link.peer.get().port());
    let state = match path.state {
        PathState::Inactive => 0,
        PathState::PotentiallyFailed => 1,
        PathState::Active => 2,
        PathState::Unconfirmed => 3,
    };
    let millis = |span: whimbrel::Span| (span.as_nanos() / 1_000_000) as u32;
    let mut bytes = link.id.to_ne_bytes().to_vec();
    bytes.extend(address::storage(address::shown(addr, v6)));
    let cwnd = u32::try_from(path.cwnd).unwrap_or(u32::MAX);
    let srtt = path.srtt.map_or(0, millis);
    bytes.extend(words(&[state, cwnd, srtt, millis(path.rto), path.mtu.into()]));
    bytes
}

/// The address of a socket, or of its peer.
fn name(socket: &Socket, peer: bool) -> Outcome {
    let link = socket.link(0).filter(|_| !socket.many);
    let addr = if peer {
        link.ok_or(Errno::ENOTCONN)?.peer.get()
    } else {
        let port = socket.port.borrow();
        let bound = port.as_ref().and_then(|port| port.addresses.borrow().first().copied());
        let primary = link.and_then(|link| link.association.paths().into_iter().find(|path| path.primary));
        let ip = bound
            .or(primary.map(|path| path.local.ip()))
            .unwrap_or(unspecified(socket));
        SocketAddr::new(ip, port.as_ref().map_or(0, |port| port.number))
    };
    Ok(Reply {
        body: address::bytes(address::shown(addr, socket.v6)),
        ..Reply::default()
    })
}

fn unspecified(socket: &Socket) -> std::net::IpAddr {
    match socket.v6 {
        true => std::net::Ipv6Addr::UNSPECIFIED.into(),
        false => std::net::Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// The addresses of an association or, with association 0, those that a socket is bound to.
fn addresses(service: &Service, socket: &Socket, request: Request) -> Outcome {
    let link = socket.link(request.b);
    let port = socket.port.borrow().clone();
    let addrs: Vec<SocketAddr> = match (&link, request.a) {
        (Some(link), 1) => {
            let number = link.peer.get().port();
            let peer = link.association.peer_addrs().into_iter();
            peer.map(|addr| SocketAddr::new(addr.ip(), number)).collect()
        }
        (None, 1) => return Err(Errno::EINVAL),
        (Some(link), _) => {
            let number = link.port.number;
            let local = link.association.local_addrs().into_iter();
            local.map(|addr| SocketAddr::new(addr.ip(), number)).collect()
        }
        (None, _) => {
            let port = port.ok_or(Errno::EINVAL)?;
            let mut bound = port.addresses.borrow().clone();
            if bound.is_empty() {
                bound = service.transport.local_addrs();
                bound.retain(|ip| socket.v6 || ip.is_ipv4());
            }
            bound.into_iter().map(|ip| SocketAddr::new(ip, port.number)).collect()
        }
    };
    let shown = addrs.iter().map(|addr| address::shown(*addr, socket.v6));
    Ok(Reply {
        value: addrs.len() as i32,
        body: shown.flat_map(address::bytes).collect(),
        ..Reply::default()
    })
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, recv, send, socketpair};

    use super::*;
    use crate::service::Prepared;

    /// Asks on a connection of its own. `None`: the service has closed it without an answer.
    async fn ask(service: &Rc<Service>, client: Client, secret: [u8; SECRET], op: Op) -> Option<i32> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        let served = service.clone();
        tokio::task::spawn_local(async move { converse(&served, ours, client).await });
        let request = Request {
            op,
            socket: 77,
            a: 0,
            b: 0,
        };
        let mut bytes = request.encode().to_vec();
        bytes.extend(secret);
        send(theirs.as_raw_fd(), &bytes, MsgFlags::empty()).unwrap();
        let mut answer = [0; HEAD];
        loop {
            match recv(theirs.as_raw_fd(), &mut answer, MsgFlags::empty()) {
                Err(Errno::EAGAIN) => tokio::time::sleep(std::time::Duration::from_millis(1)).await,
                Ok(len @ 1..) => return Some(Answer::decode(&answer[..len]).unwrap().errno),
                _ => return None,
            }
        }
    }

    #[test]
    fn requests_need_the_secret_and_the_end_its_process() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let test = async {
            let service = Prepared::for_test();
            let secret = service.secret;
            let mut wrong = secret;
            wrong[SECRET - 1] ^= 1;
            let unknown = Some(Errno::ENOTCONN as i32);
            assert_eq!(ask(&service, Client::Other, secret, Op::Name).await, unknown);
            assert_eq!(ask(&service, Client::Own, wrong, Op::Name).await, None);
            let refused = Some(Errno::EPERM as i32);
            assert_eq!(ask(&service, Client::Other, secret, Op::Finish).await, refused);
            assert_eq!(ask(&service, Client::Own, secret, Op::Finish).await, Some(0));
        };
        tokio::task::LocalSet::new().block_on(&runtime.unwrap(), test);
    }
}
