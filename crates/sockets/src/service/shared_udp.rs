//! UDP sockets that the stacks of all SCTP ports of a process share: the peers expect one UDP port (RFC 6951 §5.1).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast;
use tokio::task::AbortHandle;
use whimbrel::transport::{Arrival, Datagrams, Report, Socket, Transport};
use whimbrel::{Ecn, StackConfig, Udp};

use crate::service::stray;

/// Bytes that may wait for the stack of one port.
const MOST_WAITING: usize = 8 << 20;
/// Buffers of one receive call, each of 64 KiB.
const BUFFERS: usize = 8;
const BUFFER: usize = 1 << 16;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Addresses = Mutex<HashMap<SocketAddr, Arc<Address>>>;

/// The transport: [`Udp`], with one socket for each address, whatever the number of stacks.
#[derive(Debug, Default)]
pub(crate) struct SharedUdp {
    addresses: Arc<Addresses>,
}

/// A UDP socket, and the ends of the stacks that use it, by SCTP port.
#[derive(Debug)]
struct Address {
    socket: Box<dyn Socket>,
    ends: Mutex<BTreeMap<u16, Arc<Queue>>>,
    reports: broadcast::Sender<Report>,
    writers: Arc<Wakers>,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// Datagrams that wait for a stack.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    datagrams: VecDeque<(Arrival, Bytes)>,
    bytes: usize,
    reader: Option<Waker>,
}

/// Wakes all that wait to send: a socket remembers only one waker.
#[derive(Debug, Default)]
struct Wakers(Mutex<Vec<Waker>>);

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        for waker in std::mem::take(&mut *lock(&self.0)) {
            waker.wake();
        }
    }
}

/// What a stack has of a shared socket.
#[derive(Debug)]
struct End {
    port: u16,
    address: Arc<Address>,
    queue: Arc<Queue>,
    reports: tokio::sync::Mutex<broadcast::Receiver<Report>>,
    addresses: Weak<Addresses>,
}

impl Transport for SharedUdp {
    fn bind(&self, addr: SocketAddr, config: &StackConfig) -> io::Result<Box<dyn Socket>> {
        let mut addresses = lock(&self.addresses);
        let address = match addresses.get(&addr) {
            Some(address) => address.clone(),
            None => {
                let address = Arc::new(Address {
                    socket: Udp.bind(addr, config)?,
                    ends: Mutex::default(),
                    reports: broadcast::channel(64).0,
                    writers: Arc::default(),
                    tasks: Mutex::default(),
                });
                let receiving = tokio::spawn(receive(Arc::downgrade(&address))).abort_handle();
                let reporting = tokio::spawn(report(address.clone())).abort_handle();
                lock(&address.tasks).extend([receiving, reporting]);
                addresses.insert(addr, address.clone());
                address
            }
        };
        let queue = Arc::new(Queue::default());
        let mut ends = lock(&address.ends);
        if ends.contains_key(&config.port) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        ends.insert(config.port, queue.clone());
        drop(ends);
        Ok(Box::new(End {
            port: config.port,
            reports: tokio::sync::Mutex::new(address.reports.subscribe()),
            address,
            queue,
            addresses: Arc::downgrade(&self.addresses),
        }))
    }

    fn local_addrs(&self) -> Vec<IpAddr> {
        Udp.local_addrs()
    }

    fn source_toward(&self, peer: SocketAddr) -> io::Result<IpAddr> {
        Udp.source_toward(peer)
    }
}

impl Socket for End {
    fn local_addr(&self) -> SocketAddr {
        self.address.socket.local_addr()
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        arrivals: &mut [Arrival],
    ) -> Poll<io::Result<usize>> {
        let mut waiting = lock(&self.queue.waiting);
        let mut count = 0;
        for (buffer, place) in buffers.iter_mut().zip(arrivals) {
            let Some((arrival, bytes)) = waiting.datagrams.pop_front() else {
                break;
            };
            waiting.bytes -= bytes.len();
            buffer[..bytes.len()].copy_from_slice(&bytes);
            *place = arrival;
            count += 1;
        }
        if count == 0 {
            waiting.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(count))
    }

    fn poll_send(&self, cx: &mut Context<'_>, datagrams: &Datagrams<'_>) -> Poll<io::Result<()>> {
        let all = Waker::from(self.address.writers.clone());
        let sent = self.address.socket.poll_send(&mut Context::from_waker(&all), datagrams);
        if sent.is_ready() {
            return sent;
        }
        lock(&self.address.writers.0).push(cx.waker().clone());
        // It may have become writable before this waker was there.
        let sent = self.address.socket.poll_send(&mut Context::from_waker(&all), datagrams);
        if sent.is_ready() {
            // Others wait too, and the socket does not wake them now.
            all.wake();
        }
        sent
    }

    fn max_segments(&self) -> usize {
        self.address.socket.max_segments()
    }

    fn report(&self) -> Pin<Box<dyn Future<Output = io::Result<Report>> + Send + '_>> {
        Box::pin(async {
            let mut reports = self.reports.lock().await;
            loop {
                match reports.recv().await {
                    Ok(report) => return Ok(report),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                }
            }
        })
    }

    fn buffers(&self) -> Option<(usize, usize)> {
        self.address.socket.buffers()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let Some(addresses) = self.addresses.upgrade() else {
            return;
        };
        let mut addresses = lock(&addresses);
        let mut ends = lock(&self.address.ends);
        ends.remove(&self.port);
        if ends.is_empty() {
            lock(&self.address.tasks).iter().for_each(AbortHandle::abort);
            addresses.retain(|_, address| !Arc::ptr_eq(address, &self.address));
        }
    }
}

/// Passes on what the network reports.
async fn report(address: Arc<Address>) {
    while let Ok(report) = address.socket.report().await {
        // Without stacks nothing is to be passed on.
        let _ = address.reports.send(report);
    }
}

/// Receives datagrams and distributes them.
async fn receive(address: Weak<Address>) {
    let mut memory = vec![0; BUFFERS * BUFFER];
    let none = Arrival {
        remote: SocketAddr::from(([0, 0, 0, 0], 0)),
        len: 0,
        stride: 0,
        ecn: Ecn::NotEct,
    };
    let mut arrivals = [none; BUFFERS];
    let mut stray = stray::Answers::default();
    while let Some(address) = address.upgrade() {
        let received = {
            let mut buffers: Vec<IoSliceMut<'_>> = memory.chunks_exact_mut(BUFFER).map(IoSliceMut::new).collect();
            std::future::poll_fn(|cx| address.socket.poll_recv(cx, &mut buffers, &mut arrivals)).await
        };
        match received {
            Ok(count) => {
                for (arrival, bytes) in arrivals.iter().zip(memory.chunks_exact(BUFFER)).take(count) {
                    address.distribute(arrival, &bytes[..arrival.len], &mut stray);
                }
            }
            // Reports about earlier datagrams, or a network that is down for now.
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

impl Address {
    /// Puts datagrams into the queues of their SCTP ports. The kernel may have joined those of several associations of two hosts.
    fn distribute(&self, arrival: &Arrival, bytes: &[u8], stray: &mut stray::Answers) {
        let stride = arrival.stride.max(1);
        let port_at = |at: usize| {
            bytes
                .get(at + 2..at + 4)
                .map_or(0, |port| u16::from_be_bytes([port[0], port[1]]))
        };
        let mut begin = 0;
        while begin < bytes.len() {
            let port = port_at(begin);
            let mut end = begin + stride;
            while end < bytes.len() && port_at(end) == port {
                end += stride;
            }
            let run = &bytes[begin..end.min(bytes.len())];
            let queue = lock(&self.ends).get(&port).cloned();
            match queue {
                Some(queue) => queue.push(
                    Arrival {
                        len: run.len(),
                        ..*arrival
                    },
                    run,
                ),
                None => run
                    .chunks(stride)
                    .for_each(|packet| self.answer(arrival, packet, stray)),
            }
            begin = end;
        }
    }

    /// Answers a packet to a port that no socket has.
    fn answer(&self, arrival: &Arrival, packet: &[u8], stray: &mut stray::Answers) {
        if let Some(answer) = stray.to(packet) {
            let datagrams = Datagrams {
                remote: arrival.remote,
                ecn: Ecn::NotEct,
                bytes: &answer,
                segment: answer.len(),
                fragment: false,
                probes_mtu: false,
            };
            // If there is no room now, the peer asks again.
            let _ = self
                .socket
                .poll_send(&mut Context::from_waker(Waker::noop()), &datagrams);
        }
    }
}

impl Queue {
    fn push(&self, arrival: Arrival, bytes: &[u8]) {
        let mut waiting = lock(&self.waiting);
        if waiting.bytes + bytes.len() > MOST_WAITING {
            return;
        }
        waiting.bytes += bytes.len();
        waiting.datagrams.push_back((arrival, Bytes::copy_from_slice(bytes)));
        if let Some(reader) = waiting.reader.take() {
            reader.wake();
        }
    }
}
