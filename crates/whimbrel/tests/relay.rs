//! Schemes over real sockets: two stacks with a relay between them that drops and marks datagrams.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::time::timeout;
use whimbrel::{Association, AssociationConfig, AssociationStats, Listener, Message, Scheme, Stack, StackConfig};
use whimbrel_control::Span;
use whimbrel_control::discriminator::DiscriminatorSpec;
use whimbrel_control::recovery::{BackOff, RecoveryChanges, TransmissionRetransmit};

const PATIENCE: Duration = Duration::from_secs(60);

/// What the relay does to the n-th datagram with data.
#[derive(Clone, Copy)]
enum Treatment {
    Pass,
    Drop,
    Mark,
}

struct End {
    io: UdpSocket,
    state: UdpSocketState,
}

impl End {
    fn new() -> Self {
        let io = UdpSocket::bind("127.0.0.1:0").unwrap();
        let state = UdpSocketState::new(UdpSockRef::from(&io)).unwrap();
        End { io, state }
    }

    /// The next datagram, if one is there: where from, its ECN bits, its bytes.
    fn receive(&self) -> Option<(SocketAddr, Option<EcnCodepoint>, Vec<Vec<u8>>)> {
        let mut buffer = vec![0; 65_536];
        let mut meta = [RecvMeta::default()];
        let mut buffers = [IoSliceMut::new(&mut buffer)];
        match self.state.recv(UdpSockRef::from(&self.io), &mut buffers, &mut meta) {
            Ok(_) => {
                let [meta] = meta;
                let datagrams = buffer[..meta.len].chunks(meta.stride.max(1)).map(<[u8]>::to_vec);
                Some((meta.addr, meta.ecn, datagrams.collect()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn send(&self, to: SocketAddr, ecn: Option<EcnCodepoint>, contents: &[u8]) {
        let transmit = Transmit {
            destination: to,
            ecn,
            contents,
            segment_size: None,
            src_ip: None,
        };
        // A full socket buffer is one more queue that drops.
        let _ = self.state.try_send(UdpSockRef::from(&self.io), &transmit);
    }
}

/// Stands between a client, which talks to its address, and a server.
struct Relay {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    /// Datagrams that came with ECT(0) or ECT(1).
    capable: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    fn start(server: SocketAddr, treatment: fn(u32) -> Treatment) -> Self {
        let (front, back) = (End::new(), End::new());
        let addr = front.io.local_addr().unwrap();
        let (stop, capable) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stopped, seen) = (stop.clone(), capable.clone());
        let thread = std::thread::spawn(move || {
            let mut client = None;
            let mut count = 0;
            while !stopped.load(Ordering::Relaxed) {
                let mut idle = true;
                while let Some((from, ecn, datagrams)) = front.receive() {
                    client = Some(from);
                    idle = false;
                    for datagram in datagrams {
                        if !has_data(&datagram) {
                            back.send(server, ecn, &datagram);
                            continue;
                        }
                        count += 1;
                        seen.fetch_add(u32::from(ecn.is_some()), Ordering::Relaxed);
                        match treatment(count) {
                            Treatment::Drop => {}
                            Treatment::Mark if ecn.is_some() => back.send(server, Some(EcnCodepoint::Ce), &datagram),
                            _ => back.send(server, ecn, &datagram),
                        }
                    }
                }
                while let Some((_, ecn, datagrams)) = back.receive() {
                    idle = false;
                    for datagram in datagrams {
                        if let Some(client) = client {
                            front.send(client, ecn, &datagram);
                        }
                    }
                }
                if idle {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        Relay {
            addr,
            stop,
            capable,
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

/// Whether the SCTP packet carries a full DATA chunk.
fn has_data(datagram: &[u8]) -> bool {
    datagram.len() > 1000
}

fn stack(association: &AssociationConfig) -> StackConfig {
    StackConfig {
        association: AssociationConfig {
            rto_min: Span::from_millis(100),
            rto_initial: Some(Span::from_millis(200)),
            sack_delay: Span::from_millis(40),
            ..association.clone()
        },
        segmentation_offload: false,
        ..StackConfig::local(["127.0.0.1:0".parse().unwrap()])
    }
}

/// Sends 2 MB through the relay; gives the counters of the sender and of the receiver, and how many datagrams were capable.
async fn transfer(
    config: &AssociationConfig,
    treatment: fn(u32) -> Treatment,
) -> (AssociationStats, AssociationStats, u32) {
    let listener = Listener::bind(stack(config)).unwrap();
    let (server, port) = (listener.stack().local_addrs()[0], listener.stack().port());
    let relay = Relay::start(server, treatment);
    let client = Stack::bind(stack(config)).unwrap();
    let to = [relay.addr];
    let (connected, accepted) = tokio::join!(client.connect(&to, port), listener.accept());
    let (a, b): (Association, Association) = (connected.unwrap(), accepted.unwrap());
    let messages = 200_usize;
    let content = |i: usize| vec![i as u8; 10_000];
    let sending = async {
        for i in 0..messages {
            a.send(Message::new(0, content(i))).await.unwrap();
        }
        a.flush().await.unwrap();
    };
    let receiving = async {
        for i in 0..messages {
            assert_eq!(b.recv().await.unwrap().unwrap().data, content(i));
        }
    };
    timeout(PATIENCE, async { tokio::join!(sending, receiving) })
        .await
        .unwrap();
    (
        a.stats().unwrap(),
        b.stats().unwrap(),
        relay.capable.load(Ordering::Relaxed),
    )
}

#[tokio::test]
async fn marks_on_the_way_are_echoed_and_reduce_the_window() {
    let config = AssociationConfig {
        scheme: Scheme::by_name("ecn").unwrap(),
        ..AssociationConfig::default()
    };
    let every_fiftieth = |n: u32| {
        if n.is_multiple_of(50) {
            Treatment::Mark
        } else {
            Treatment::Pass
        }
    };
    let (sender, receiver, capable) = transfer(&config, every_fiftieth).await;
    assert!(capable > 1000, "{capable} of about 1400 went out as ECT");
    assert!(receiver.ce_received >= 20, "{receiver:?}");
    assert_eq!(receiver.ecne_sent, receiver.ce_received);
    assert!(sender.ecne_received >= 20 && sender.ecn_reductions >= 3, "{sender:?}");

    let (sender, receiver, capable) = transfer(&AssociationConfig::default(), every_fiftieth).await;
    assert_eq!((capable, receiver.ce_received, sender.ecne_received), (0, 0, 0));
}

#[tokio::test]
async fn loss_without_marks_is_no_congestion_for_who_listens_for_marks() {
    // Ye 2004, 5.3: Wireless-aware SCTP on a channel that loses one packet in fifty, whose queues mark none.
    let config = AssociationConfig {
        scheme: Scheme::by_name("ecn").unwrap(),
        discriminator: DiscriminatorSpec::by_name("ecn"),
        recovery: RecoveryChanges {
            transmission_retransmit: Some(TransmissionRetransmit::OnePerRtt),
            probe_after_timeout: Some(true),
            back_off: Some(BackOff::Limited),
            cancel_spurious: Some(true),
            ..RecoveryChanges::default()
        },
        ..AssociationConfig::default()
    };
    let every_fiftieth = |n: u32| if n % 50 == 7 { Treatment::Drop } else { Treatment::Pass };
    let (sender, ..) = transfer(&config, every_fiftieth).await;
    assert!(sender.losses_judged_transmission >= 20, "{sender:?}");
    assert_eq!((sender.losses_judged_congestion, sender.window_reductions), (0, 0));

    let (sender, ..) = transfer(&AssociationConfig::default(), every_fiftieth).await;
    assert!(
        sender.losses_judged_congestion >= 20 && sender.window_reductions >= 10,
        "{sender:?}"
    );
}

#[tokio::test]
async fn times_come_back_over_real_sockets() {
    let config = AssociationConfig {
        timestamps: Some(true),
        discriminator: DiscriminatorSpec::by_name("jitter"),
        ..AssociationConfig::default()
    };
    let every_hundredth = |n: u32| if n % 100 == 7 { Treatment::Drop } else { Treatment::Pass };
    let (sender, ..) = transfer(&config, every_hundredth).await;
    let judged = sender.losses_judged_congestion + sender.losses_judged_transmission + sender.losses_unsure;
    assert!(judged >= 10, "{sender:?}");
}
