//! Clients that lose their association.

use std::io::{ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use whimbrel_testkit::process::Process;

use super::{connect, echo, local_port, round_trip, start, tunnel};

/// Starts a server at these addresses, as soon as they are free.
fn server_at(addrs: &str, options: &[&str]) -> Process {
    let mut server = start(&[&["--server", "--listen", addrs], options].concat());
    server.listening();
    server
}

/// A server at addresses that another one may use after it.
fn server(options: &[&str]) -> (Process, String) {
    super::server(options)
}

#[test]
fn the_client_connects_again_when_the_server_is_back() {
    let target = format!("127.0.0.1:{}", echo());
    let (server, addrs) = server(&["--allow", &target]);
    let forward = format!("0:{target}");
    let mut client = start(&[&addrs, "--local", "127.0.1.1,127.0.1.2", "--forward", &forward]);
    let port = local_port(&mut client, "TCP");
    client.errors.after("connected");
    let mut open = connect(port);
    open.write_all(b"x").expect("sent");
    open.read_exact(&mut [0]).expect("received");
    assert_eq!(server.interrupt(), Some(0));

    let lost = client.errors.after("the association is lost: ");
    assert!(lost.contains("trying again in 1 s"), "{lost}");
    let ended = open.read(&mut [0]).expect_err("an open connection ends");
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
    assert!(client.errors.after("cannot connect: ").contains("trying again in 2 s"));
    assert!(client.errors.after("cannot connect: ").contains("trying again in 4 s"));

    let _server = server_at(&addrs, &["--allow", &target]);
    // The port has stayed open: this waits until there is an association.
    assert_eq!(round_trip(port, 100_000).len(), 100_000);
    client.errors.after("connected");
    assert_eq!(client.interrupt(), Some(0));
}

#[test]
fn the_client_ends_while_it_waits_to_connect_again() {
    let (server, mut client, _) = tunnel("any", "localhost:9");
    assert_eq!(server.interrupt(), Some(0));
    client.errors.after("the association is lost: ");
    client.errors.after("cannot connect: ");
    let start = Instant::now();
    assert_eq!(client.interrupt(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn the_first_attempt_to_connect_may_fail() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let addr = socket.local_addr().expect("bound").to_string();
    drop(socket);
    let mut client = start(&[&addr, "--forward", "0:localhost:9"]);
    client.errors.after("error: ");
    assert_eq!(client.wait(), Some(3));
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
    let mut client = start(&[&addrs, "--forward", &forward]);
    let port = local_port(&mut client, "UDP");
    client.errors.after("connected");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let mut arrives = |number: u32| {
        socket
            .send_to(&number.to_be_bytes(), ("127.0.0.1", port))
            .expect("sent");
        // Earlier ones may come late.
        let mut received = [0; 100];
        while let Ok(len) = target.recv(&mut received) {
            if received[..len] == number.to_be_bytes() {
                return true;
            }
        }
        false
    };
    assert!((0..20).any(&mut arrives));
    assert_eq!(server.interrupt(), Some(0));
    client.errors.after("the association is lost: ");
    assert!(!arrives(20));
    let _server = server_at(&addrs, &["--allow", &name]);
    client.errors.after("connected");
    assert!((21..40).any(&mut arrives));
}

#[test]
fn a_key_that_was_accepted_is_not_doubted_after_an_outage() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, [7; 32]).expect("written");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("a file");
    }
    let key = key.to_str().expect("text");
    let (server, addrs) = server(&["--allow", "any", "--key", key]);
    let short = ["--set", "association_max_retrans=1", "--set", "rto_min=200 ms"];
    let options = [
        &addrs,
        "--forward",
        "0:localhost:9",
        "--key",
        key,
        "--connect-timeout",
        "3 s",
    ];
    let mut client = start(&[&options[..], &short, &["--set", "hb_interval=500 ms"]].concat());
    client.errors.after("connected");
    // It is silent, as an end with another key is.
    server.signal("-STOP");
    client.errors.after("the association is lost: ");
    let said = client.errors.after("");
    assert!(
        said.starts_with("cannot connect: the other end does not answer (no association after 3 s"),
        "{said}"
    );
    server.signal("-CONT");
    client.errors.after("connected");
    assert_eq!(client.interrupt(), Some(0));
}
