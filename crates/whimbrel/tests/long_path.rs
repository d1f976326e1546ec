//! Over sockets, batches of datagrams and long paths cost no throughput.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::time::timeout;
use whimbrel::{Association, AssociationConfig, AssociationStats, Listener, Message, Stack, StackConfig};

/// Bytes of the longest datagram that passes: an MTU of 1500 bytes. What is longer is lost without a report.
const LONGEST: usize = 1472;
const PATIENCE: Duration = Duration::from_secs(60);

/// A relay that delays datagrams, and hands them on in batches of equal length: each is one system call at either end.
struct Relay {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct End {
    io: UdpSocket,
    state: UdpSocketState,
    peer: Option<SocketAddr>,
    under_way: VecDeque<(Instant, Vec<u8>)>,
}

impl End {
    fn new(peer: Option<SocketAddr>) -> Self {
        let io = UdpSocket::bind("127.0.0.1:0").unwrap();
        let state = UdpSocketState::new(UdpSockRef::from(&io)).unwrap();
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&io), 8 << 20);
        End {
            io,
            state,
            peer,
            under_way: VecDeque::new(),
        }
    }

    /// Takes what has come, for `to`.
    fn take(&mut self, to: &mut End, delay: Duration) {
        let mut buffer = vec![0; 65_536];
        let mut meta = [RecvMeta::default()];
        loop {
            let mut buffers = [IoSliceMut::new(&mut buffer)];
            if self
                .state
                .recv(UdpSockRef::from(&self.io), &mut buffers, &mut meta)
                .is_err()
            {
                return;
            }
            self.peer = self.peer.or(Some(meta[0].addr));
            let due = Instant::now() + delay;
            let datagrams = buffer[..meta[0].len].chunks(meta[0].stride.max(1));
            let datagrams = datagrams.filter(|datagram| datagram.len() <= LONGEST);
            to.under_way.extend(datagrams.map(|datagram| (due, datagram.to_vec())));
        }
    }

    /// Hands on what is due, in batches.
    fn hand_on(&mut self) {
        let now = Instant::now();
        while let (Some((due, first)), Some(peer)) = (self.under_way.front(), self.peer)
            && *due <= now
        {
            let len = first.len();
            let batch: Vec<u8> = std::iter::from_fn(|| {
                self.under_way
                    .pop_front_if(|(due, datagram)| *due <= now && datagram.len() == len)
            })
            .take(44.min(65_000 / len))
            .flat_map(|(_, datagram)| datagram)
            .collect();
            let transmit = Transmit {
                destination: peer,
                ecn: None,
                contents: &batch,
                segment_size: Some(len),
                src_ip: None,
            };
            let _ = self.state.try_send(UdpSockRef::from(&self.io), &transmit);
        }
    }
}

impl Relay {
    fn start(server: SocketAddr, delay: Duration) -> Self {
        let (mut front, mut back) = (End::new(None), End::new(Some(server)));
        let addr = front.io.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                front.take(&mut back, delay);
                back.take(&mut front, delay);
                front.hand_on();
                back.hand_on();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Relay {
            addr,
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn stack(association: &AssociationConfig) -> StackConfig {
    StackConfig {
        association: association.clone(),
        ..StackConfig::local(["127.0.0.1:0".parse().unwrap()])
    }
}

/// Sends `bytes` over a path of `rtt`; gives how long it took, and the counters of both ends.
async fn transfer(
    config: &AssociationConfig,
    rtt: Duration,
    bytes: usize,
) -> (Duration, AssociationStats, AssociationStats) {
    let listener = Listener::bind(stack(config)).unwrap();
    let (server, port) = (listener.stack().local_addrs()[0], listener.stack().port());
    let relay = Relay::start(server, rtt / 2);
    let client = Stack::bind(stack(config)).unwrap();
    let to = [relay.addr];
    let (connected, accepted) = tokio::join!(client.connect(&to, port), listener.accept());
    let (a, b): (Association, Association) = (connected.unwrap(), accepted.unwrap());
    let begun = Instant::now();
    let sending = async {
        for _ in 0..bytes / 1400 {
            a.send(Message::new(0, vec![0x5a; 1400])).await.unwrap();
        }
        a.flush().await.unwrap();
    };
    let receiving = async {
        for _ in 0..bytes / 1400 {
            assert_eq!(b.recv().await.unwrap().unwrap().data.len(), 1400);
        }
    };
    timeout(PATIENCE, async { tokio::join!(sending, receiving) })
        .await
        .expect("it takes more than a minute");
    (begun.elapsed(), a.stats().unwrap(), b.stats().unwrap())
}

/// A window that is open from the start, so that nothing but bursts limits the sender.
fn open() -> AssociationConfig {
    AssociationConfig {
        initial_cwnd: Some(2 << 20),
        recv_buffer: 8 << 20,
        send_buffer: 8 << 20,
        // The first packets fill the window.
        max_mtu: None,
        ..StackConfig::default().association
    }
}

// RFC 9260 §6.2: an acknowledgement for at least every second packet.
#[tokio::test(flavor = "multi_thread")]
async fn every_second_packet_of_a_batch_is_acknowledged() {
    let (_, sender, receiver) = transfer(&open(), Duration::from_millis(20), 4_000_000).await;
    let packets = receiver.data_chunks_received;
    assert!(
        2 * receiver.sacks_sent + 2 >= packets,
        "{} SACKs for {packets} packets",
        receiver.sacks_sent
    );
    assert!(sender.sacks_received > packets / 3, "{sender:?}");
}

// RFC 9260 §6.1 D: Max.Burst limits the answer to each SACK, not to all SACKs of a batch.
#[tokio::test(flavor = "multi_thread")]
async fn each_sack_of_a_batch_allows_a_burst() {
    let config = AssociationConfig {
        max_burst: 4,
        pacing: Some(false),
        ..open()
    };
    // 1430 packets: with bursts of 4 and a SACK for each 2 packets their number doubles with each round trip of 60 ms. One burst for
    // each batch takes a hundred round trips.
    let (elapsed, ..) = transfer(&config, Duration::from_millis(60), 2_000_000).await;
    assert!(elapsed < Duration::from_millis(2500), "{elapsed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_path_carries_what_the_window_allows() {
    // 100 ms and a window of 2 MiB: 168 Mbit/s, while 16 packets for each round trip are 1.9 Mbit/s.
    let (elapsed, sender, _) = transfer(&open(), Duration::from_millis(100), 8_000_000).await;
    assert!(elapsed < Duration::from_millis(2500), "{elapsed:?}, {sender:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn default_buffers_grow_beyond_what_they_begin_with() {
    let config = AssociationConfig {
        initial_cwnd: Some(8 << 20),
        ..StackConfig::default().association
    };
    // 1 MiB for each round trip of 200 ms: 24 MB would take five seconds.
    let (elapsed, sender, _) = transfer(&config, Duration::from_millis(200), 24_000_000).await;
    assert!(elapsed < Duration::from_millis(3000), "{elapsed:?}, {sender:?}");
}
