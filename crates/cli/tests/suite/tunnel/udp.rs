//! Forwarded UDP ports.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use whimbrel_testkit::process::{Process, until};
use whimbrel_testkit::{ipv6, needs};

use super::{local_port, server, start};

/// Until a datagram is taken to be lost.
const PATIENCE: Duration = Duration::from_secs(10);

fn bind() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    socket
}

/// A target that returns datagrams, with the port that each came from before it. Its address.
fn echo() -> String {
    let socket = bind();
    socket.set_read_timeout(None).expect("a socket");
    let addr = socket.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        loop {
            let (len, source) = socket.recv_from(&mut buffer).expect("received");
            let answer = [&source.port().to_be_bytes()[..], &buffer[..len]].concat();
            let _ = socket.send_to(&answer, source);
        }
    });
    addr
}

/// A tunnel to this target: both ends and the local port.
fn tunnel(allow: &str, target: &str, idle: &str) -> (Process, Process, u16) {
    let (server, addrs) = server(&["--allow", allow, "--udp-idle", idle]);
    let forward = format!("0:{target}");
    let args = [
        &addrs,
        "--local",
        "127.0.1.1,127.0.1.2",
        "--forward",
        &forward,
        "--udp-idle",
        idle,
    ];
    let mut client = start(&args);
    let port = local_port(&mut client, "UDP");
    client.errors.after("connected");
    (server, client, port)
}

/// Sends a datagram through the tunnel. Returns the port that the target saw, if its answer is the datagram.
fn ask(socket: &UdpSocket, port: u16, datagram: &[u8]) -> u16 {
    socket.send_to(datagram, ("127.0.0.1", port)).expect("sent");
    answer(socket, datagram)
}

fn answer(socket: &UdpSocket, datagram: &[u8]) -> u16 {
    let mut buffer = vec![0; 65_536];
    let len = socket.recv(&mut buffer).expect("an answer");
    assert_eq!(&buffer[2..len], datagram);
    u16::from_be_bytes([buffer[0], buffer[1]])
}

#[test]
fn datagrams_of_each_source_come_back_to_it() {
    let target = format!("{}/udp", echo());
    let (_server, _client, port) = tunnel(&target, &target, "60 s");
    let (one, two) = (bind(), bind());
    let first = ask(&one, port, b"one");
    let second = ask(&two, port, b"two");
    assert_ne!(first, second, "each has a port of its own at the server");
    assert_eq!(ask(&one, port, b""), first);
    assert_eq!(ask(&one, port, &[7; 60_000]), first);
    assert_eq!(ask(&two, port, b"again"), second);
}

#[test]
fn a_flow_ends_after_its_idle_time() {
    let target = format!("{}/udp", echo());
    let (server, _client, port) = tunnel(&target, &target, "2 s");
    let files = || {
        std::fs::read_dir(format!("/proc/{}/fd", server.child.id()))
            .expect("a process")
            .count()
    };
    let before = files();
    let socket = bind();
    let first = ask(&socket, port, b"one");
    assert_eq!(files(), before + 1);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        assert_eq!(ask(&socket, port, b"in use"), first);
        std::thread::sleep(Duration::from_millis(500));
    }
    let start = Instant::now();
    until("the socket of the flow is closed", || files() <= before);
    assert!(start.elapsed() > Duration::from_secs(1), "{:?}", start.elapsed());
    ask(&socket, port, b"a new flow");
}

#[test]
fn there_may_be_more_sources_than_flows() {
    let target = format!("{}/udp", echo());
    let (server, _client, port) = tunnel(&target, &target, "60 s");
    let sources: Vec<_> = (0..300).map(|_| bind()).collect();
    for (n, socket) in sources.iter().enumerate() {
        ask(socket, port, &n.to_be_bytes());
    }
    let files = std::fs::read_dir(format!("/proc/{}/fd", server.child.id()))
        .expect("a process")
        .count();
    assert!((256..290).contains(&files), "{files}");
    // The first one lost its flow and gets another.
    ask(&sources[0], port, b"again");
}

#[test]
fn the_server_sends_datagrams_to_allowed_targets_only() {
    let addr = echo();
    // The TCP port is another target.
    let (mut server, mut client, port) = tunnel(&addr, &format!("{addr}/udp"), "60 s");
    let socket = bind();
    for _ in 0..50 {
        socket.send_to(b"x", ("127.0.0.1", port)).expect("sent");
    }
    let refused = server.errors.after("refused a connection to ");
    assert!(refused.contains("/udp") && refused.contains("--allow"), "{refused}");
    assert!(client.errors.after("datagrams to ").contains("does not allow"));
    socket
        .set_read_timeout(Some(Duration::from_millis(500)))
        .expect("a socket");
    for _ in 0..50 {
        socket.send_to(b"x", ("127.0.0.1", port)).expect("sent");
    }
    assert!(socket.recv(&mut [0; 100]).is_err());
    // It was asked once.
    client.interrupt();
    server.signal("-INT");
    let rest = server.errors.rest();
    assert!(!rest.contains("refused"), "{rest}");
}

#[test]
fn a_target_that_does_not_listen_yet_is_reached_later() {
    // No other test takes a port of this address.
    let target = UdpSocket::bind("127.0.3.9:0").expect("bound");
    let addr = target.local_addr().expect("bound");
    drop(target);
    let name = format!("{addr}/udp");
    let (_server, _client, port) = tunnel(&name, &name, "60 s");
    let socket = bind();
    for _ in 0..5 {
        socket.send_to(b"lost", ("127.0.0.1", port)).expect("sent");
        std::thread::sleep(Duration::from_millis(20));
    }
    let target = UdpSocket::bind(addr).expect("bound");
    target
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a socket");
    let mut buffer = [0; 100];
    until("a datagram arrives", || {
        socket.send_to(b"found", ("127.0.0.1", port)).expect("sent");
        // Earlier ones may come late.
        target.recv(&mut buffer).is_ok_and(|len| &buffer[..len] == b"found")
    });
}

#[test]
fn a_target_that_refuses_is_reported_once() {
    let target = UdpSocket::bind("127.0.3.10:0").expect("bound");
    let name = format!("{}/udp", target.local_addr().expect("bound"));
    drop(target);
    let (mut server, client, port) = tunnel(&name, &name, "60 s");
    let socket = bind();
    for _ in 0..20 {
        socket.send_to(b"lost", ("127.0.0.1", port)).expect("sent");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.errors.after(&format!("cannot reach {name}: "));
    client.interrupt();
    server.signal("-INT");
    let rest = server.errors.rest();
    assert!(!rest.contains("cannot reach"), "{rest}");
}

/// A tunnel whose local port is open at all addresses: both ends and the port.
fn tunnel_at_all(local: &str) -> (Process, Process, u16) {
    let target = echo();
    let (server, addrs) = server(&["--allow", &format!("{target}/udp")]);
    let forward = format!("{local}:0:{target}/udp");
    let mut client = start(&[&addrs, "--local", "127.0.1.1,127.0.1.2", "--forward", &forward]);
    let line = client.errors.after(&format!("UDP {local}:"));
    let port = line.split(' ').next().and_then(|port| port.parse().ok());
    client.errors.after("connected");
    (server, client, port.expect("a port"))
}

#[test]
#[cfg(target_os = "linux")]
fn answers_leave_from_the_address_that_the_program_has_sent_to() {
    for local in ["0.0.0.0", "[::]"] {
        let (_server, _client, port) = tunnel_at_all(local);
        // A connected socket takes no datagrams of others.
        let socket = UdpSocket::bind("127.0.0.2:0").expect("bound");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        socket.connect(("127.0.0.3", port)).expect("an address");
        socket.send(b"to one").expect("sent");
        answer(&socket, b"to one");
        // The same source may use several addresses.
        let socket = UdpSocket::bind("127.0.0.2:0").expect("bound");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        for to in ["127.0.0.4", "127.0.0.3", "127.0.0.4"] {
            let to: std::net::SocketAddr = format!("{to}:{port}").parse().expect("an address");
            socket.send_to(b"to another", to).expect("sent");
            let (_, source) = socket.recv_from(&mut [0; 100]).expect("an answer");
            assert_eq!(source, to);
        }
    }
}

#[test]
fn a_port_at_all_addresses_serves_ipv6() {
    needs!(ipv6());
    let (_server, _client, port) = tunnel_at_all("[::]");
    let socket = UdpSocket::bind("[::1]:0").expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    socket.connect(("::1", port)).expect("an address");
    for datagram in [&b"one"[..], &[7; 60_000], b""] {
        socket.send(datagram).expect("sent");
        answer(&socket, datagram);
    }
}
