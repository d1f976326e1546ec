//! Clients that lose their association.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::{End, echo, local_port, round_trip, tunnel};

/// Starts a server at these addresses, as soon as they are free.
fn server_at(addrs: &str, options: &[&str]) -> End {
    let mut server = End::start(&[&["--server", "--listen", addrs], options].concat());
    server.line("listening on UDP ");
    server
}

/// A server at addresses that another one may use after it.
fn server(options: &[&str]) -> (End, String) {
    super::server(options)
}

#[test]
fn the_client_connects_again_when_the_server_is_back() {
    let target = format!("127.0.0.1:{}", echo());
    let (server, addrs) = server(&["--allow", &target]);
    let forward = format!("0:{target}");
    let mut client = End::start(&[&addrs, "--local", "127.0.1.1,127.0.1.2", "--forward", &forward]);
    let port = local_port(&mut client, "TCP");
    client.line("connected");
    let mut open = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    open.write_all(b"x").expect("sent");
    open.read_exact(&mut [0]).expect("received");
    assert_eq!(server.interrupt(), Some(0));

    let lost = client.line("the association is lost: ");
    assert!(lost.contains("trying again in 1 s"), "{lost}");
    let ended = open.read(&mut [0]).expect_err("an open connection ends");
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
    assert!(client.line("cannot connect: ").contains("trying again in 2 s"));
    assert!(client.line("cannot connect: ").contains("trying again in 4 s"));

    let _server = server_at(&addrs, &["--allow", &target]);
    // The port has stayed open: this waits until there is an association.
    assert_eq!(round_trip(port, 100_000).len(), 100_000);
    client.line("connected");
    assert_eq!(client.interrupt(), Some(0));
}

#[test]
fn the_client_ends_while_it_waits_to_connect_again() {
    let (server, mut client, _) = tunnel("any", "localhost:9");
    assert_eq!(server.interrupt(), Some(0));
    client.line("the association is lost: ");
    client.line("cannot connect: ");
    let start = Instant::now();
    assert_eq!(client.interrupt(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn the_first_attempt_to_connect_may_fail() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let addr = socket.local_addr().expect("bound").to_string();
    drop(socket);
    let mut client = End::start(&[&addr, "--forward", "0:localhost:9"]);
    client.line("error: ");
    assert_eq!(client.child.wait().expect("a child").code(), Some(3));
}

#[test]
fn datagrams_go_on_after_the_server_was_away() {
    let target = UdpSocket::bind("127.0.0.1:0").expect("bound");
    target
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a socket");
    let name = format!("{}/udp", target.local_addr().expect("bound"));
    let (server, addrs) = server(&["--allow", &name]);
    let forward = format!("0:{name}");
    let mut client = End::start(&[&addrs, "--forward", &forward]);
    let port = local_port(&mut client, "UDP");
    client.line("connected");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let mut arrives = |number: u32| {
        socket
            .send_to(&number.to_be_bytes(), ("127.0.0.1", port))
            .expect("sent");
        target.recv(&mut [0; 100]).is_ok()
    };
    assert!((0..20).any(&mut arrives));
    assert_eq!(server.interrupt(), Some(0));
    client.line("the association is lost: ");
    assert!(!arrives(20));
    let _server = server_at(&addrs, &["--allow", &name]);
    client.line("connected");
    assert!((21..40).any(&mut arrives));
}
