//! Connections that are reset after one of their directions has ended, and what stays of them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use whimbrel_testkit::process::{Process, until};

use super::{connect, tunnel};

/// Until something that is reported at once has been reported.
const SOON: Duration = Duration::from_secs(10);

/// A target that does this with each connection, and what comes of each.
fn target<T: Send + 'static>(serve: impl Fn(TcpStream) -> T + Send + Sync + Copy + 'static) -> (String, Receiver<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let addr = listener.local_addr().expect("bound").to_string();
    let (ended, outcomes) = channel();
    std::thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            let ended = ended.clone();
            std::thread::spawn(move || ended.send(serve(tcp)));
        }
    });
    (addr, outcomes)
}

/// Writes until this fails, but not for long. Returns why.
fn write_on(mut tcp: &TcpStream) -> ErrorKind {
    tcp.set_write_timeout(Some(SOON)).expect("a socket");
    loop {
        if let Err(error) = tcp.write_all(&[7; 4096]) {
            return error.kind();
        }
    }
}

/// Reads a little and closes while there is more, which resets the connection.
fn reset(mut tcp: TcpStream) {
    tcp.read_exact(&mut [0; 1000]).expect("received");
    std::thread::sleep(Duration::from_millis(100));
}

fn is_reset(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// The number of open files of a process.
fn files(end: &Process) -> usize {
    let folder = format!("/proc/{}/fd", end.child.id());
    std::fs::read_dir(folder).expect("a process").count()
}

#[test]
fn a_client_program_that_half_closes_and_dies_ends_the_connection_to_the_target() {
    let (addr, outcomes) = target(|tcp| write_on(&tcp));
    let (_server, _client, port) = tunnel(&addr, &addr);
    let tcp = connect(port);
    tcp.shutdown(Shutdown::Write).expect("open");
    reset(tcp);
    let kind = outcomes.recv_timeout(2 * SOON).expect("an outcome");
    assert!(is_reset(kind), "{kind:?}");
}

#[test]
fn a_target_that_answers_early_and_resets_ends_the_connection_of_the_client_program() {
    let (addr, _outcomes) = target(|mut tcp| {
        tcp.write_all(b"too large").expect("sent");
        tcp.shutdown(Shutdown::Write).expect("open");
        reset(tcp);
    });
    let (_server, _client, port) = tunnel(&addr, &addr);
    let mut tcp = connect(port);
    let kind = write_on(&tcp);
    assert!(is_reset(kind), "{kind:?}");
    let mut answer = [0; 9];
    tcp.read_exact(&mut answer).expect("what was sent before arrives");
    assert_eq!(&answer, b"too large");
}

#[test]
fn a_target_that_dies_while_nothing_is_read_ends_the_connection_of_the_client_program() {
    let (addr, _outcomes) = target(|mut tcp| {
        std::thread::sleep(Duration::from_millis(500));
        // Unread data makes this a reset.
        tcp.read_exact(&mut [0]).expect("received");
    });
    let (_server, _client, port) = tunnel(&addr, &addr);
    let tcp = connect(port);
    assert!(is_reset(write_on(&tcp)));
}

#[test]
fn a_connection_that_breaks_does_not_look_complete() {
    let (addr, _outcomes) = target(|mut tcp| {
        tcp.write_all(&[7; 5000]).expect("sent");
        // The client has received that once it writes. Its data is not read: a reset.
        tcp.peek(&mut [0]).expect("received");
    });
    let (_server, _client, port) = tunnel(&addr, &addr);
    let mut tcp = connect(port);
    tcp.read_exact(&mut [0; 5000]).expect("received");
    tcp.write_all(&[1; 100]).expect("sent");
    let ended = tcp.read(&mut [0]).expect_err("a reset is not an end of file").kind();
    assert!(is_reset(ended), "{ended:?}");
}

#[test]
fn the_end_of_the_association_ends_half_closed_connections() {
    let (addr, outcomes) = target(|tcp| write_on(&tcp));
    let (server, client, port) = tunnel(&addr, &addr);
    let before = files(&server);
    let connections: Vec<_> = (0..5)
        .map(|_| {
            let mut tcp = connect(port);
            tcp.shutdown(Shutdown::Write).expect("open");
            tcp.read_exact(&mut [0; 100]).expect("received");
            tcp
        })
        .collect();
    assert!(files(&server) >= before + 5);
    assert_eq!(client.interrupt(), Some(0));
    for _ in &connections {
        let kind = outcomes.recv_timeout(2 * SOON).expect("an outcome");
        assert!(is_reset(kind), "{kind:?}");
    }
    until("the files are closed", || files(&server) <= before);
}

#[test]
fn broken_connections_leave_their_places_to_others() {
    let (addr, _outcomes) = target(|tcp| write_on(&tcp));
    let (server, _client, port) = tunnel(&addr, &addr);
    let before = files(&server);
    // More than there are places.
    for _ in 0..300 {
        let mut tcp = connect(port);
        tcp.shutdown(Shutdown::Write).expect("open");
        tcp.read_exact(&mut [0; 100]).expect("received");
    }
    until("the files are closed", || files(&server) <= before);
}
