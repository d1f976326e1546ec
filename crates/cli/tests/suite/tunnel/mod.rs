//! `tunnel` over loopback: forwarded ports.

mod events;
mod hostile;
#[cfg(target_os = "linux")]
mod lookups;
mod memory;
mod reconnect;
mod refused;
mod resets;
mod udp;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use whimbrel_testkit::process::{InTime as _, LINE_LIMIT, Process, list};

use crate::support::WHIMBREL;

/// Version of the tunnel's protocol.
pub(crate) const VERSION: u32 = 5;

/// Starts an end of a tunnel, which is stopped at the end of the test.
fn start(args: &[&str]) -> Process {
    Process::start(Command::new(WHIMBREL).arg("tunnel").args(args))
}

/// Connects to a forwarded port. Each read and write of the connection has a time limit.
fn connect(port: u16) -> TcpStream {
    let tcp = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    tcp.set_read_timeout(Some(LINE_LIMIT)).expect("a socket");
    tcp.set_write_timeout(Some(LINE_LIMIT)).expect("a socket");
    tcp
}

/// A server that returns what it reads; at a port of its own.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut back = tcp.try_clone().expect("a socket");
                let mut tcp = tcp;
                let _ = std::io::copy(&mut tcp, &mut back);
                let _ = back.shutdown(Shutdown::Write);
            });
        }
    });
    port
}

/// A server with these options and its addresses.
fn server(options: &[&str]) -> (Process, String) {
    let args = [&["--server", "--listen", "127.0.2.1:0,127.0.2.2:0"], options].concat();
    let mut server = start(&args);
    let addrs = list(&server.listening());
    (server, addrs)
}

/// A tunnel to this target: both ends and the local port.
fn tunnel(allow: &str, target: &str) -> (Process, Process, u16) {
    let (server, addrs) = server(&["--allow", allow]);
    let forward = format!("0:{target}");
    let mut client = start(&[&addrs, "--local", "127.0.1.1,127.0.1.2", "--forward", &forward]);
    let port = local_port(&mut client, "TCP");
    client.errors.after("connected");
    (server, client, port)
}

/// The forwarded port that a client reports.
fn local_port(client: &mut Process, protocol: &str) -> u16 {
    let line = client.errors.after(&format!("{protocol} 127.0.0.1:"));
    let port = line.split(' ').next().and_then(|port| port.parse().ok());
    port.expect("a port")
}

/// Sends bytes and returns what comes back.
fn round_trip(port: u16, bytes: usize) -> Vec<u8> {
    let mut tcp = connect(port);
    let mut writer = tcp.try_clone().expect("a socket");
    let sent: Vec<u8> = (0..bytes).map(|n| ((n * n) >> 8) as u8).collect();
    let writing = std::thread::spawn(move || {
        writer.write_all(&sent).expect("sent");
        writer.shutdown(Shutdown::Write).expect("open");
        sent
    });
    let mut back = Vec::new();
    tcp.read_to_end(&mut back).expect("received");
    assert!(
        writing.join().expect("sent") == back,
        "what returned is not what was sent"
    );
    back
}

#[test]
fn connections_pass_through_the_tunnel_at_the_same_time() {
    let target = format!("127.0.0.1:{}", echo());
    let (server, client, port) = tunnel(&target, &target);
    // One that is not read does not hold up the others.
    let mut stuck = connect(port);
    stuck.set_nonblocking(true).expect("a socket");
    let mut written = 0;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        match stuck.write(&[0; 65536]) {
            Ok(len) => written += len,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    assert!(written > 1 << 20, "{written}");
    let others: Vec<_> = (0..10)
        .map(|n| std::thread::spawn(move || round_trip(port, n * 300_000)))
        .collect();
    for (n, other) in others.into_iter().enumerate() {
        assert_eq!(other.join().expect("arrived").len(), n * 300_000);
    }
    assert_eq!(client.interrupt(), Some(0));
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn a_target_that_is_not_allowed_is_refused() {
    let port = echo();
    let (mut server, mut client, local) = tunnel("127.0.0.1:9", &format!("127.0.0.1:{port}"));
    let mut tcp = connect(local);
    let mut nothing = Vec::new();
    // Closed or reset.
    let _ = tcp.read_to_end(&mut nothing);
    assert!(nothing.is_empty());
    let refused = server.errors.after("refused a connection to ");
    assert!(
        refused.contains(&port.to_string()) && refused.contains("--allow"),
        "{refused}"
    );
    assert!(client.errors.after("connection to ").contains("does not allow"));
}

#[test]
fn a_target_that_does_not_listen_is_reported() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .expect("bound")
        .local_addr()
        .expect("bound");
    let (_server, mut client, local) = tunnel("any", &closed.to_string());
    let mut tcp = connect(local);
    let _ = tcp.read_to_end(&mut Vec::new());
    assert!(client.errors.after("connection to ").contains("cannot connect"));
}

#[test]
fn wrong_use_of_the_tunnel_is_explained() {
    let run = |args: &[&str]| {
        let output = Command::new(WHIMBREL).arg("tunnel").args(args).output_in_time();
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    for args in [
        &["127.0.0.1"][..],
        &["--server", "--listen", "127.0.0.1:0"],
        &["127.0.0.1", "--forward", "80"],
        &["127.0.0.1", "--forward", "80:localhost:80/sctp"],
        &["127.0.0.1", "--tun", "10.0.0.1"],
        &["127.0.0.1", "--tun", "10.0.0.1/24,10.1.0.1/24"],
        &["127.0.0.1", "--tun", "fd00::1/64", "--mtu", "1000"],
        &["--server", "--listen", "127.0.0.1:0", "--allow", "nonsense"],
    ] {
        let (code, err) = run(args);
        assert_eq!(code, Some(2), "{args:?}: {err}");
    }
}

#[test]
fn connections_of_a_client_have_a_limit() {
    let target = format!("127.0.0.1:{}", echo());
    let (_server, addrs) = server(&["--allow", &target, "--max-connections", "2"]);
    let forward = format!("0:{target}");
    let mut client = start(&[
        &addrs,
        "--local",
        "127.0.1.1,127.0.1.2",
        "--forward",
        &forward,
        "--max-connections",
        "3",
    ]);
    let port = local_port(&mut client, "TCP");
    client.errors.after("connected");
    let mut open: Vec<_> = (0..2).map(|_| connect(port)).collect();
    let mut echoed = [0];
    for tcp in &mut open {
        tcp.write_all(b"x").expect("sent");
        tcp.read_exact(&mut echoed).expect("an echo");
    }
    // The server refuses a third one, and this end a fourth.
    let third = connect(port);
    let line = client.errors.after(&format!("connection to {target}: "));
    assert!(line.contains("too many connections"), "{line}");
    drop((open, third));
}
