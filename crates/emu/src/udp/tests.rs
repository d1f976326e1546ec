use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use quinn_udp::{EcnCodepoint, Transmit, UdpSockRef, UdpSocketState};
use whimbrel_control::{Rate, Span};
use whimbrel_sim::config::{
    DirectionConfig, FlowConfig, FlowKind, LinkConfig, NodeConfig, QueueConfig, SimConfig, StepConfig,
};
use whimbrel_sim::{NoObserver, Resources};

use super::*;
use crate::{Emulator, Limits, Report};

/// Time limit of a packet.
const PATIENCE: Duration = Duration::from_secs(10);

fn links(delays: &[u64]) -> SimConfig {
    let mut config = SimConfig::empty(Span::from_secs(10));
    config.node = vec![NodeConfig::new("a"), NodeConfig::new("b")];
    let link = |delay: &u64| LinkConfig {
        name: Some(format!("link-{delay}")),
        ..LinkConfig::new("a", "b", Rate::from_mbps(100), Span::from_millis(*delay))
    };
    config.link = delays.iter().map(link).collect();
    config.flow = vec![FlowConfig::new("data", FlowKind::Sctp, "a", "b")];
    config
}

/// A program's socket.
struct Program {
    io: UdpSocket,
    state: UdpSocketState,
}

impl Program {
    fn new(addr: &str) -> Self {
        let io = UdpSocket::bind(addr).unwrap();
        let state = UdpSocketState::new(UdpSockRef::from(&io)).unwrap();
        Program { io, state }
    }

    /// Returns sockets at two addresses with the same port.
    fn pair(ips: [&str; 2]) -> [Self; 2] {
        let first = Program::new(&format!("{}:0", ips[0]));
        let port = first.addr().port();
        [first, Program::new(&format!("{}:{port}", ips[1]))]
    }

    fn addr(&self) -> SocketAddr {
        self.io.local_addr().unwrap()
    }

    fn send(&self, to: SocketAddr, ecn: Option<EcnCodepoint>, contents: &[u8]) {
        let transmit = Transmit {
            destination: to,
            ecn,
            contents,
            segment_size: None,
            src_ip: None,
        };
        self.state.try_send(UdpSockRef::from(&self.io), &transmit).unwrap();
    }

    /// Returns the next packet: its source, ECN bits and content.
    fn receive(&self) -> (SocketAddr, Option<EcnCodepoint>, Vec<u8>) {
        let start = std::time::Instant::now();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let mut meta = [RecvMeta::default()];
            let mut parts = [IoSliceMut::new(&mut buffer)];
            match self.state.recv(UdpSockRef::from(&self.io), &mut parts, &mut meta) {
                Ok(_) => return (meta[0].addr, meta[0].ecn, buffer[..meta[0].len].to_vec()),
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
            assert!(start.elapsed() < PATIENCE, "nothing came");
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

struct Running {
    listen: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Report>,
}

impl Running {
    fn start(config: SimConfig, to: &[SocketAddr], from: &[&str]) -> Self {
        let gate = UdpGate::open(UdpAddresses {
            flow: 0,
            listen: to.iter().map(|to| SocketAddr::new(to.ip(), 0)).collect(),
            to: to.to_vec(),
            from: from.iter().map(|ip| ip.parse().unwrap()).collect(),
        });
        let gate = gate.unwrap();
        let listen = gate.addresses().listen.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (resources, limits, mut observer) = (Resources::default(), Limits::default(), NoObserver);
            let emulator = Emulator::new(&config, 1, &resources, &[0], gate, limits, &mut observer).unwrap();
            emulator.run(&stopped).unwrap()
        });
        Running { listen, stop, thread }
    }

    fn end(self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[test]
fn packets_cross_both_ways_after_the_delay_of_the_link() {
    let server = Program::new("127.0.0.1:0");
    let running = Running::start(links(&[20]), &[server.addr()], &["127.0.0.1"]);
    let client = Program::new("127.0.0.1:0");
    let start = std::time::Instant::now();
    client.send(running.listen[0], None, b"question");
    let (from, _, question) = server.receive();
    assert_eq!(question, b"question");
    assert!(from != client.addr() && from != running.listen[0], "{from}");
    server.send(from, None, b"answer");
    let (from, _, answer) = client.receive();
    assert_eq!((from, answer), (running.listen[0], b"answer".to_vec()));
    assert!(start.elapsed() >= Duration::from_millis(40), "{:?}", start.elapsed());
    let report = running.end();
    assert_eq!(
        (report.gate.received, report.gate.sent, report.gate.overrun),
        (2, 2, Some(0))
    );
    assert_eq!((report.run.links[0].packets, report.run.links[1].packets), (1, 1));
    // An IP and a UDP header, as in simulations of a UDP flow.
    assert_eq!(report.run.links[0].bytes, 28 + 8);
    assert_eq!(report.lateness.count, 2);
}

#[test]
fn each_client_receives_the_answers_to_its_own_packets() {
    let server = Program::new("127.0.0.1:0");
    let running = Running::start(links(&[1]), &[server.addr()], &["127.0.0.1"]);
    let clients = [(); 3].map(|()| Program::new("127.0.0.1:0"));
    for (i, client) in clients.iter().enumerate() {
        client.send(running.listen[0], None, &[i as u8]);
    }
    for _ in &clients {
        let (from, _, content) = server.receive();
        server.send(from, None, &[content[0], 7]);
    }
    for (i, client) in clients.iter().enumerate() {
        assert_eq!(client.receive().2, [i as u8, 7]);
    }
    running.end();
}

#[test]
fn the_addresses_of_both_ends_choose_the_path() {
    let servers = Program::pair(["127.0.2.1", "127.0.2.2"]);
    let to = servers.each_ref().map(Program::addr);
    let running = Running::start(links(&[5, 60]), &to, &["127.0.1.1", "127.0.1.2"]);
    let clients = Program::pair(["127.0.1.1", "127.0.1.2"]);
    let port = clients[0].addr().port();
    for (path, least) in [(0, 5), (1, 60)] {
        let start = std::time::Instant::now();
        clients[path].send(running.listen[path], None, b"x");
        let (from, ..) = servers[path].receive();
        assert!(start.elapsed() >= Duration::from_millis(least), "{path}");
        // Each end sees the other's IP addresses, so the addresses listed in packets lead through the emulator.
        assert_eq!(from.ip(), clients[path].addr().ip());
        assert_ne!(from.port(), port);
        assert_eq!(running.listen[path].ip(), to[path].ip());
    }
    // The sender's first address with the receiver's second one.
    clients[0].send(running.listen[1], None, b"x");
    let (from, ..) = servers[1].receive();
    assert_eq!(from.ip(), clients[0].addr().ip());
    running.end();
}

#[test]
fn the_receiver_may_be_the_first_to_use_a_path() {
    let servers = Program::pair(["127.0.4.1", "127.0.4.2"]);
    let to = servers.each_ref().map(Program::addr);
    let running = Running::start(links(&[1, 2]), &to, &["127.0.5.1", "127.0.5.2"]);
    let clients = Program::pair(["127.0.5.1", "127.0.5.2"]);
    clients[0].send(running.listen[0], None, b"x");
    let (first, ..) = servers[0].receive();
    // The other address is known from an SCTP packet, its port from the packet's source.
    servers[1].send(SocketAddr::new(clients[1].addr().ip(), first.port()), None, b"y");
    let (from, _, content) = clients[1].receive();
    assert_eq!((from, content), (running.listen[1], b"y".to_vec()));
    let report = running.end();
    assert_eq!((report.gate.sent, report.gate.unsendable), (2, 0));
}

#[test]
fn marks_of_queues_arrive_and_ecn_bits_pass() {
    let mut config = links(&[1]);
    // Marks packets with a queueing delay above 1 ms; each packet takes 8 ms.
    config.link[0].rate = Some(Rate::from_mbps(1));
    config.link[0].forward = Some(DirectionConfig {
        queue: Some(QueueConfig::Step(StepConfig {
            packets: Some(100),
            bytes: None,
            threshold: Span::from_millis(1),
            classic: true,
        })),
        ..DirectionConfig::default()
    });
    let server = Program::new("127.0.0.1:0");
    let running = Running::start(config, &[server.addr()], &["127.0.0.1"]);
    let client = Program::new("127.0.0.1:0");
    for i in 0..5 {
        client.send(running.listen[0], Some(EcnCodepoint::Ect0), &[i; 1000]);
    }
    let marks: Vec<_> = (0..5).map(|_| server.receive().1).collect();
    assert_eq!(marks[0], Some(EcnCodepoint::Ect0));
    assert_eq!(marks[4], Some(EcnCodepoint::Ce));
    let report = running.end();
    assert!(report.run.links[0].marked >= 1);
}

#[test]
fn packets_from_other_addresses_do_not_enter() {
    let server = Program::new("127.0.2.1:0");
    let second = Program::new("127.0.2.2:0");
    let to = [server.addr(), second.addr()];
    let running = Running::start(links(&[1, 2]), &to, &["127.0.1.1", "127.0.1.2"]);
    let stranger = Program::new("127.0.3.1:0");
    stranger.send(running.listen[0], None, b"x");
    let client = Program::new("127.0.1.1:0");
    client.send(running.listen[0], None, b"y");
    assert_eq!(server.receive().2, b"y");
    let report = running.end();
    assert_eq!((report.gate.foreign, report.gate.received), (1, 1));
}
