//! `tunnel` over loopback: forwarded ports.

mod hostile;
mod memory;
mod reconnect;
mod resets;
mod udp;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

const WHIMBREL: &str = env!("CARGO_BIN_EXE_whimbrel");

/// An end of a tunnel, stopped at the end of the test.
struct End {
    child: Child,
    errors: BufReader<ChildStderr>,
}

impl End {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(WHIMBREL)
            .arg("tunnel")
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        End { child, errors }
    }

    /// The rest of the next line that begins with this.
    fn line(&mut self, begin: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.errors.read_line(&mut line).expect("text") > 0, "no line {begin}");
            if let Some(rest) = line.trim_end().strip_prefix(begin) {
                return rest.to_owned();
            }
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status();
        assert!(status.expect("kill").success());
    }

    /// Everything else that it prints until it ends.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.errors.read_to_string(&mut rest).expect("text");
        rest
    }

    fn interrupt(mut self) -> Option<i32> {
        self.signal("-INT");
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code();
            }
            assert!(start.elapsed() < Duration::from_secs(20), "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
fn server(options: &[&str]) -> (End, String) {
    let args = [&["--server", "--listen", "127.0.2.1:0,127.0.2.2:0"], options].concat();
    let mut server = End::start(&args);
    let addrs = server.line("listening on UDP ");
    let addrs = addrs.split_once(", SCTP").expect("a port").0.replace(", ", ",");
    (server, addrs)
}

/// A tunnel to this target: both ends and the local port.
fn tunnel(allow: &str, target: &str) -> (End, End, u16) {
    let (server, addrs) = server(&["--allow", allow]);
    let forward = format!("0:{target}");
    let mut client = End::start(&[&addrs, "--local", "127.0.1.1,127.0.1.2", "--forward", &forward]);
    let port = local_port(&mut client, "TCP");
    client.line("connected");
    (server, client, port)
}

/// The forwarded port that a client reports.
fn local_port(client: &mut End, protocol: &str) -> u16 {
    let line = client.line(&format!("{protocol} 127.0.0.1:"));
    let port = line.split(' ').next().and_then(|port| port.parse().ok());
    port.expect("a port")
}

/// Sends bytes and returns what comes back.
fn round_trip(port: u16, bytes: usize) -> Vec<u8> {
    let mut tcp = TcpStream::connect(("127.0.0.1", port)).expect("connected");
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
    let mut stuck = TcpStream::connect(("127.0.0.1", port)).expect("connected");
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
    let mut tcp = TcpStream::connect(("127.0.0.1", local)).expect("connected");
    let mut nothing = Vec::new();
    // Closed or reset.
    let _ = tcp.read_to_end(&mut nothing);
    assert!(nothing.is_empty());
    let refused = server.line("refused a connection to ");
    assert!(
        refused.contains(&port.to_string()) && refused.contains("--allow"),
        "{refused}"
    );
    assert!(client.line("connection to ").contains("does not allow"));
}

#[test]
fn a_target_that_does_not_listen_is_reported() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .expect("bound")
        .local_addr()
        .expect("bound");
    let (_server, mut client, local) = tunnel("any", &closed.to_string());
    let mut tcp = TcpStream::connect(("127.0.0.1", local)).expect("connected");
    let _ = tcp.read_to_end(&mut Vec::new());
    assert!(client.line("connection to ").contains("cannot connect"));
}

#[test]
fn wrong_use_of_the_tunnel_is_explained() {
    let run = |args: &[&str]| {
        let output = Command::new(WHIMBREL)
            .arg("tunnel")
            .args(args)
            .output()
            .expect("it starts");
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
